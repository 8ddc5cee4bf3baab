//! What can go wrong with the debugger's side.

use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum GdbError {
    /// The address is none. The user's mistake.
    #[error(
        "{address:?} is no address to listen on; give HOST:PORT, a port, or the path of a socket with a / in it"
    )]
    Address {
        /// What was given.
        address: String,
    },
    /// The address can't be listened on.
    #[error("can't listen on {address}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something else is where the socket should be; it is left alone.
    #[error("{path} exists and is not an unused socket; remove it, or give another path")]
    Occupied {
        /// The path.
        path: PathBuf,
    },
    /// The machine failed while no debugger was attached.
    #[error(transparent)]
    Machine(#[from] machine::TimelineError<machine::MachineError>),
}
