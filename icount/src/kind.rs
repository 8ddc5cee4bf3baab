//! The kinds of events and sets of them, by which listings are filtered.

use std::fmt;
use std::str::FromStr;

/// What kind of thing an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A device access by a hart.
    Mmio,
    /// An interrupt line changed.
    Line,
    /// An interrupt was taken.
    Irq,
    /// A device accessed memory.
    Dma,
    /// A byte left through a serial port.
    ConsoleOut,
    /// Another hart's turn.
    Switch,
    /// A reset, by the guest or from outside.
    Reset,
    /// The machine switched itself off.
    PowerOff,
    /// A byte typed into a serial port.
    ConsoleIn,
    /// The content of a base disk block.
    Disk,
    /// A debugger's write.
    Debugger,
    /// An I/O port access by a hart (x86).
    Port,
    /// A key went down or up.
    Key,
    /// A frame came or left.
    Net,
}

impl Kind {
    /// All of them, in the order of help texts.
    pub const ALL: [Self; 14] = [
        Self::Mmio,
        Self::Line,
        Self::Irq,
        Self::Dma,
        Self::ConsoleOut,
        Self::Switch,
        Self::Reset,
        Self::PowerOff,
        Self::ConsoleIn,
        Self::Disk,
        Self::Debugger,
        Self::Port,
        Self::Key,
        Self::Net,
    ];

    /// Its name in listings, JSON and filters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mmio => "mmio",
            Self::Line => "line",
            Self::Irq => "irq",
            Self::Dma => "dma",
            Self::ConsoleOut => "console-out",
            Self::Switch => "switch",
            Self::Reset => "reset",
            Self::PowerOff => "power-off",
            Self::ConsoleIn => "console-in",
            Self::Disk => "disk",
            Self::Debugger => "debugger",
            Self::Port => "port",
            Self::Key => "key",
            Self::Net => "net",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds. Parsed from names with commas between: `irq,mmio`, or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindSet(u16);

impl KindSet {
    /// Every kind.
    pub const ALL: Self = Self((1 << Kind::ALL.len()) - 1);
    /// No kind.
    pub const NONE: Self = Self(0);

    /// The set with `kind` in it too.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | kind.bit())
    }

    /// Whether `kind` is in it.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// A name that is no kind of event (the caller's mistake).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is no kind of event; kinds are {}, or \"all\"", Kind::ALL.map(Kind::name).join(", "))]
pub struct UnknownKind {
    /// What was given.
    pub name: String,
}

impl FromStr for KindSet {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let mut set = Self::NONE;
        for name in text.split(',').map(str::trim) {
            if name == "all" {
                set = Self::ALL;
                continue;
            }
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            set = set.with(kind.ok_or_else(|| UnknownKind {
                name: name.to_owned(),
            })?);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_parse_by_name() {
        let set: KindSet = "irq, console-out".parse().unwrap();
        let members: Vec<Kind> = Kind::ALL.into_iter().filter(|&k| set.contains(k)).collect();
        assert_eq!(members, [Kind::Irq, Kind::ConsoleOut]);
        assert_eq!("all".parse(), Ok(KindSet::ALL));
        assert!(Kind::ALL.into_iter().all(|k| KindSet::ALL.contains(k)));
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(KindSet::NONE.with(kind)));
        }
    }

    #[test]
    fn a_wrong_name_is_told_with_the_right_ones() {
        let error = "irq,mmoi".parse::<KindSet>().unwrap_err().to_string();
        assert!(
            error.starts_with("\"mmoi\" is no kind of event; kinds are mmio, line, irq"),
            "{error}"
        );
        assert!("".parse::<KindSet>().is_err());
    }
}
