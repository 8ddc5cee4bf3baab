//! The event log `events`: an append-only file of framed, checksummed records.

use std::io;
use std::path::PathBuf;

/// The version of the layout that this build writes, and the only one that it reads.
pub const LOG_VERSION: u32 = 1;

/// Why a log can't be read or written. Each message names the file.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The host refused (disk, permissions, a missing file).
    #[error("{}: can't {action}", path.display())]
    Io {
        /// The log.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the host said.
        #[source]
        source: io::Error,
    },
    /// The file is no event log (the caller named a wrong one, or its head is damaged).
    #[error("{}: not an event log of tickback", path.display())]
    NotALog {
        /// The file.
        path: PathBuf,
    },
    /// Another version of tickback wrote it.
    #[error("{}: the log has version {found}; this build reads version {LOG_VERSION}, use the tickback that recorded it", path.display())]
    Version {
        /// The log.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A frame is damaged, and valid ones follow: the file was altered, or the medium failed.
    #[error("{}: damaged at byte {offset}: {what}; what stands before can be read with the prefix option", path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// An event stands before the one logged last (our bug).
    #[error("an event at icount {at} can't follow one at icount {last}")]
    Backwards {
        /// The event's position.
        at: u64,
        /// The position of the last one.
        last: u64,
    },
    /// The log does not reach that position (a snapshot of another recording, or a cut log).
    #[error("{}: no position with {inputs} inputs and {effects} effects", path.display())]
    NoPosition {
        /// The log.
        path: PathBuf,
        /// Inputs asked for.
        inputs: u64,
        /// Effects asked for.
        effects: u64,
    },
}
