//! What happens to a machine: inputs from outside, effects of its own, and how people and programs
//! read them.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Icount, Kind, VirtualTime};

/// Bytes in a base disk block, the unit in which image content enters a run.
pub const BLOCK_SIZE: usize = 4096;

/// The console port of a virtio console. Ports 0 and 1 are serial ports, 2 is a debug port of the PC.
pub const VIRTIO_CONSOLE: u8 = 3;

/// The most network ports of a machine.
pub const MAX_NETWORKS: u8 = 8;

/// What reaches the guest from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// A byte typed into a serial port.
    Console {
        /// The UART's number.
        port: u8,
        /// The byte.
        byte: u8,
    },
    /// The content of a base disk block, at its first read.
    DiskBlock {
        /// The drive's number.
        drive: u8,
        /// Which block, in units of [`BLOCK_SIZE`].
        block: u64,
        /// [`BLOCK_SIZE`] bytes.
        data: Vec<u8>,
    },
    /// A key of the keyboard went down or up.
    Key {
        /// Make code in scan code set 1; 0xe0 in the high byte where it has that prefix.
        code: u16,
        /// Down, else up.
        down: bool,
    },
    /// An Ethernet frame arrived.
    Frame {
        /// The network port's number.
        port: u8,
        /// The frame without its checksum.
        data: Vec<u8>,
    },
    /// A debugger wrote into the live machine.
    Debugger(DebuggerWrite),
    /// The reset button.
    Reset,
}

/// A debugger's write into the live machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DebuggerWrite {
    /// Bytes into guest memory.
    Memory {
        /// Guest-physical address of the first byte.
        addr: u64,
        /// What was written.
        bytes: Vec<u8>,
    },
    /// A register of one hart.
    Register {
        /// Whose register.
        hart: u8,
        /// gdb's number of it in the target description.
        register: u32,
        /// The value, in gdb's byte order for the target.
        bytes: Vec<u8>,
    },
}

/// What the machine itself did at the CPU's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A hart accessed a device.
    Mmio {
        /// A store, not a load.
        write: bool,
        /// Guest-physical address.
        addr: u64,
        /// Bytes: 1, 2, 4 or 8.
        size: u8,
        /// What was stored or loaded, zero-extended.
        value: u64,
    },
    /// A hart accessed an I/O port (x86).
    Port {
        /// A store, not a load.
        write: bool,
        /// Its number.
        port: u16,
        /// Bytes: 1, 2 or 4.
        size: u8,
        /// What was stored or loaded, zero-extended.
        value: u32,
    },
    /// An interrupt line changed.
    Line {
        /// The line's number at its interrupt controller.
        line: u32,
        /// Its level from now on.
        level: bool,
    },
    /// A hart took an interrupt.
    Interrupt {
        /// RISC-V: `mcause`/`scause` without the interrupt bit; x86: the vector.
        cause: u64,
    },
    /// A device accessed guest memory.
    Dma {
        /// The device wrote memory.
        write: bool,
        /// Guest-physical address of the first byte.
        addr: u64,
        /// Bytes.
        len: u32,
        /// [`digest`] of the bytes.
        digest: u64,
    },
    /// A byte left through a serial port.
    ConsoleOut {
        /// The UART's number.
        port: u8,
        /// The byte.
        byte: u8,
    },
    /// An Ethernet frame left.
    FrameOut {
        /// The network port's number.
        port: u8,
        /// Bytes.
        len: u16,
        /// [`digest`] of the bytes.
        digest: u64,
    },
    /// Another hart steps from here on.
    HartSwitch {
        /// Which one.
        to: u8,
    },
    /// The machine reset itself.
    Reset,
    /// The machine switched itself off.
    PowerOff {
        /// The guest's exit code.
        code: u32,
    },
}

/// One thing that happened, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The boundary: of an effect, the icount before the step that caused it.
    pub at: Icount,
    /// Virtual time there.
    pub time: VirtualTime,
    /// The hart that was about to step; 0 for inputs.
    pub hart: u8,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// It came from outside.
    Input(Input),
    /// The machine did it.
    Effect(Effect),
}

/// The digest of bytes that a device moved: the first eight bytes of their BLAKE3 hash, as a
/// little-endian number.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(bytes).as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

impl Event {
    /// An input at a position.
    #[must_use]
    pub const fn input(at: Icount, time: VirtualTime, input: Input) -> Self {
        Self {
            at,
            time,
            hart: 0,
            body: Body::Input(input),
        }
    }

    /// An effect at a position.
    #[must_use]
    pub const fn effect(at: Icount, time: VirtualTime, hart: u8, effect: Effect) -> Self {
        Self {
            at,
            time,
            hart,
            body: Body::Effect(effect),
        }
    }

    /// Its kind, by which events are filtered.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match &self.body {
            Body::Input(input) => input.kind(),
            Body::Effect(effect) => effect.kind(),
        }
    }
}

impl Input {
    /// Its kind, by which events are filtered.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Console { .. } => Kind::ConsoleIn,
            Self::DiskBlock { .. } => Kind::Disk,
            Self::Key { .. } => Kind::Key,
            Self::Frame { .. } => Kind::Net,
            Self::Debugger(_) => Kind::Debugger,
            Self::Reset => Kind::Reset,
        }
    }
}

impl Effect {
    /// Its kind, by which events are filtered.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Mmio { .. } => Kind::Mmio,
            Self::Port { .. } => Kind::Port,
            Self::FrameOut { .. } => Kind::Net,
            Self::Line { .. } => Kind::Line,
            Self::Interrupt { .. } => Kind::Irq,
            Self::Dma { .. } => Kind::Dma,
            Self::ConsoleOut { .. } => Kind::ConsoleOut,
            Self::HartSwitch { .. } => Kind::Switch,
            Self::Reset => Kind::Reset,
            Self::PowerOff { .. } => Kind::PowerOff,
        }
    }
}

/// Bytes as a hexadecimal string, the first 32 of them if `short`.
struct Hex<'a> {
    bytes: &'a [u8],
    short: bool,
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.short {
            self.bytes.len().min(32)
        } else {
            self.bytes.len()
        };
        for byte in self.bytes.iter().take(shown) {
            write!(f, "{byte:02x}")?;
        }
        if shown < self.bytes.len() {
            write!(f, "... ({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    /// One line: icount, time, hart, kind, and what happened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>14} {:>15} h{} ",
            self.at.0,
            self.time.to_string(),
            self.hart
        )?;
        write!(f, "{:<11} {}", self.kind().name(), self.body)
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(input) => input.fmt(f),
            Self::Effect(effect) => effect.fmt(f),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Console { port, byte } => {
                write!(f, "port {port} {byte:#04x} '{}'", byte.escape_ascii())
            }
            Self::DiskBlock { drive, block, data } => {
                write!(f, "drive {drive} block {block}, {} bytes", data.len())
            }
            Self::Key { code, down } => {
                write!(f, "key {code:#x} {}", if *down { "down" } else { "up" })
            }
            Self::Frame { port, data } => write!(f, "network port {port}, {} bytes", data.len()),
            Self::Debugger(DebuggerWrite::Memory { addr, bytes }) => {
                write!(f, "[{addr:#x}] = {}", Hex { bytes, short: true })
            }
            Self::Debugger(DebuggerWrite::Register {
                hart,
                register,
                bytes,
            }) => {
                write!(
                    f,
                    "hart {hart} register {register} = {}",
                    Hex { bytes, short: true }
                )
            }
            Self::Reset => f.write_str("by the reset button"),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Mmio {
                write,
                addr,
                size,
                value,
            } => {
                let (word, arrow) = if write { ("write", "<-") } else { ("read", "->") };
                write!(f, "{word:<5} [{addr:#x}]/{size} {arrow} {value:#x}")
            }
            Self::Port {
                write,
                port,
                size,
                value,
            } => {
                let (word, arrow) = if write { ("write", "<-") } else { ("read", "->") };
                write!(f, "{word:<5} port {port:#x}/{size} {arrow} {value:#x}")
            }
            Self::FrameOut { port, len, digest } => {
                write!(f, "network port {port}, {len} bytes, digest {digest:#x}")
            }
            Self::Line { line, level } => {
                write!(f, "line {line} {}", if level { "up" } else { "down" })
            }
            Self::Interrupt { cause } => write!(f, "cause {cause}"),
            Self::Dma {
                write,
                addr,
                len,
                digest,
            } => {
                let word = if write { "write" } else { "read" };
                write!(f, "{word:<5} [{addr:#x}] {len} bytes, digest {digest:016x}")
            }
            Self::ConsoleOut { port, byte } => {
                write!(f, "port {port} {byte:#04x} '{}'", byte.escape_ascii())
            }
            Self::HartSwitch { to } => write!(f, "to hart {to}"),
            Self::Reset => f.write_str("by the guest"),
            Self::PowerOff { code } => write!(f, "code {code}"),
        }
    }
}

impl Serialize for Event {
    /// A flat map for `--json`: `icount`, `time_ns`, `hart`, `kind`, `class` (`input` or
    /// `effect`), then the fields of the kind. Addresses, values and digests are strings
    /// (`"0x10000005"`), since JSON readers lose bits of large numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("icount", &self.at)?;
        map.serialize_entry("time_ns", &self.time)?;
        map.serialize_entry("hart", &self.hart)?;
        map.serialize_entry("kind", self.kind().name())?;
        match &self.body {
            Body::Input(input) => {
                map.serialize_entry("class", "input")?;
                input_fields(input, &mut map)?;
            }
            Body::Effect(effect) => {
                map.serialize_entry("class", "effect")?;
                effect_fields(effect, &mut map)?;
            }
        }
        map.end()
    }
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}

fn input_fields<M: SerializeMap>(input: &Input, map: &mut M) -> Result<(), M::Error> {
    match input {
        Input::Console { port, byte } => {
            map.serialize_entry("port", port)?;
            map.serialize_entry("byte", byte)
        }
        Input::DiskBlock { drive, block, data } => {
            map.serialize_entry("drive", drive)?;
            map.serialize_entry("block", block)?;
            map.serialize_entry("len", &data.len())?;
            map.serialize_entry("digest", &hex(digest(data)))
        }
        Input::Key { code, down } => {
            map.serialize_entry("code", code)?;
            map.serialize_entry("down", down)
        }
        Input::Frame { port, data } => {
            map.serialize_entry("port", port)?;
            map.serialize_entry("len", &data.len())?;
            map.serialize_entry("digest", &hex(digest(data)))
        }
        Input::Debugger(DebuggerWrite::Memory { addr, bytes }) => {
            map.serialize_entry("addr", &hex(*addr))?;
            map.serialize_entry("bytes", &Hex { bytes, short: false }.to_string())
        }
        Input::Debugger(DebuggerWrite::Register {
            hart,
            register,
            bytes,
        }) => {
            map.serialize_entry("of_hart", hart)?;
            map.serialize_entry("register", register)?;
            map.serialize_entry("bytes", &Hex { bytes, short: false }.to_string())
        }
        Input::Reset => Ok(()),
    }
}

fn effect_fields<M: SerializeMap>(effect: &Effect, map: &mut M) -> Result<(), M::Error> {
    match *effect {
        Effect::Mmio {
            write,
            addr,
            size,
            value,
        } => {
            map.serialize_entry("write", &write)?;
            map.serialize_entry("addr", &hex(addr))?;
            map.serialize_entry("size", &size)?;
            map.serialize_entry("value", &hex(value))
        }
        Effect::Port {
            write,
            port,
            size,
            value,
        } => {
            map.serialize_entry("write", &write)?;
            map.serialize_entry("port", &port)?;
            map.serialize_entry("size", &size)?;
            map.serialize_entry("value", &hex(value.into()))
        }
        Effect::FrameOut { port, len, digest } => {
            map.serialize_entry("port", &port)?;
            map.serialize_entry("len", &len)?;
            map.serialize_entry("digest", &hex(digest))
        }
        Effect::Line { line, level } => {
            map.serialize_entry("line", &line)?;
            map.serialize_entry("level", &level)
        }
        Effect::Interrupt { cause } => map.serialize_entry("cause", &cause),
        Effect::Dma {
            write,
            addr,
            len,
            digest,
        } => {
            map.serialize_entry("write", &write)?;
            map.serialize_entry("addr", &hex(addr))?;
            map.serialize_entry("len", &len)?;
            map.serialize_entry("digest", &hex(digest))
        }
        Effect::ConsoleOut { port, byte } => {
            map.serialize_entry("port", &port)?;
            map.serialize_entry("byte", &byte)
        }
        Effect::HartSwitch { to } => map.serialize_entry("to", &to),
        Effect::Reset => Ok(()),
        Effect::PowerOff { code } => map.serialize_entry("code", &code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_well_and_as_json() {
        let mmio = Effect::Mmio {
            write: false,
            addr: 0x1000_0005,
            size: 1,
            value: 0x60,
        };
        let event = Event::effect(Icount(12), VirtualTime(1_000_000_012), 1, mmio);
        assert_eq!(
            event.to_string(),
            "            12    1.000000012s h1 mmio        read  [0x10000005]/1 -> 0x60"
        );
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"icount":12,"time_ns":1000000012,"hart":1,"kind":"mmio","class":"effect","write":false,"addr":"0x10000005","size":1,"value":"0x60"}"#
        );
        let write = DebuggerWrite::Memory {
            addr: 0x8000_0000,
            bytes: vec![0xde; 40],
        };
        let event = Event::input(Icount(1), VirtualTime(1), Input::Debugger(write));
        assert!(
            event
                .to_string()
                .ends_with(&format!("= {}... (40 bytes)", "de".repeat(32)))
        );
        let json: serde_json::Value = serde_json::to_value(&event).unwrap();
        assert_eq!(json["bytes"], "de".repeat(40));
        assert_eq!(json["class"], "input");
    }

    #[test]
    fn the_digest_is_the_start_of_blake3() {
        // The hash of no bytes, from the test vectors of BLAKE3: af1349b9f5f9a1a6...
        assert_eq!(digest(b""), 0xa6a1_f9f5_b949_13af);
    }
}
