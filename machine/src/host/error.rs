//! What the host can refuse before a run starts.

use std::io;
use std::path::PathBuf;

use super::script::ScriptError;

/// Errors of the host's side. All are the user's to mend: a file, a terminal, a limit of the system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file can't be opened or read.
    #[error("can't {action} {path}")]
    File {
        /// What was being done with it.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A drive's image can't serve as one.
    #[error("{path} can't be a drive: {why}")]
    Drive {
        /// The image.
        path: PathBuf,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A console script can't be understood.
    #[error("{path}: {source}")]
    Script {
        /// The script.
        path: PathBuf,
        /// Which line, and why.
        source: ScriptError,
    },
    /// A helper program can't help.
    #[error("{program}: {why}")]
    Helper {
        /// Its name.
        program: &'static str,
        /// Why, and what to do.
        why: String,
    },
    /// The system has no more of something (threads, signal handlers, descriptors).
    #[error("can't {action}")]
    System {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
