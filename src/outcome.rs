//! What a command came to, and its exit code (DESIGN section 11).

use std::fmt::Write as _;
use std::process::ExitCode;

use icount::End;
use machine::MachineError;

/// How a command ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was done, or the guest ended.
    Done,
    /// The guest ended with this code, and the user wants it passed on.
    Guest(u32),
    /// Something that was to be checked is not as it should be; it was said.
    Failed,
    /// Two runs differ; it was said.
    Differ,
    /// The guest waits for ever.
    WaitsForever,
}

impl Outcome {
    /// The outcome of a guest's run.
    pub const fn of(end: End, pass_on: bool) -> Self {
        match end {
            End::PowerOff(code) if pass_on => Self::Guest(code),
            End::PowerOff(_) | End::Stopped => Self::Done,
            End::WaitsForever => Self::WaitsForever,
        }
    }

    /// Its exit code.
    pub fn code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            // What doesn't fit into the eight bits that an exit code has is still a failure.
            Self::Guest(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            Self::Failed => ExitCode::FAILURE,
            Self::Differ => ExitCode::from(3),
            Self::WaitsForever => ExitCode::from(4),
        }
    }

    /// Says what went wrong, in one line, and which exit code that is.
    pub fn report(error: &anyhow::Error) -> ExitCode {
        eprintln!("tickback: {}", chain(error));
        if error.is::<Usage>() {
            return usage();
        }
        let diverged = error.downcast_ref().is_some_and(MachineError::is_divergence);
        if diverged {
            return Self::Differ.code();
        }
        Self::Failed.code()
    }
}

/// The exit code of a mistake on the command line.
pub fn usage() -> ExitCode {
    ExitCode::from(2)
}

/// What clap says of a mistake, in a line: what is wrong, its tips, and where the options are explained.
pub fn in_a_line(message: &str) -> String {
    let mut text = String::new();
    let mut command = String::from("tickback");
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let words = usage
                .split(' ')
                .take_while(|word| !word.starts_with(['[', '<', '-']));
            command = words.collect::<Vec<_>>().join(" ");
            break;
        }
        if line.starts_with("For more information") {
            break;
        }
        let line = line.strip_prefix("error: ").unwrap_or(line);
        text += match text.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) if line.starts_with('[') => " ",
            Some(_) => "; ",
        };
        text += line;
    }
    format!("{text}; see {command} --help")
}

/// A mistake on the command line that clap can't see.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error and its causes in a line; a cause that the text before it already holds is left out.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use icount::DoorError;
    use std::io;

    #[test]
    fn a_cause_is_told_once() {
        let denied = || io::Error::new(io::ErrorKind::PermissionDenied, "permission denied");
        let error = anyhow::Error::from(DoorError::Host {
            action: "reading block 3 of disk.img".into(),
            source: denied(),
        });
        let error = Err::<(), _>(error).context("can't go on").unwrap_err();
        assert_eq!(
            chain(&error),
            "can't go on: reading block 3 of disk.img failed: permission denied"
        );
        let transparent = MachineError::File {
            path: "x".into(),
            source: denied(),
        };
        assert_eq!(chain(&transparent.into()), "x: permission denied");
    }

    #[test]
    fn a_mistake_is_told_in_a_line() {
        let clap = "error: the following required arguments were not provided:\n  --output <FOLDER>\n\n\
                    Usage: tickback record --output <FOLDER>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_a_line(clap),
            "the following required arguments were not provided: --output <FOLDER>; see tickback record --help"
        );
        let clap = "error: invalid value 'x' for '--clock <CLOCK>'\n  [possible values: warp, real]\n\n  \
                    tip: a similar value exists: 'warp'\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_a_line(clap),
            "invalid value 'x' for '--clock <CLOCK>' [possible values: warp, real]; tip: a similar value exists: \
             'warp'; see tickback --help"
        );
    }
}
