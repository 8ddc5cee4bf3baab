//! What can go wrong with a machine.

use icount::DoorError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The door refused: a full log (the user's disk), a divergence (our bug, or a damaged recording), ...
    #[error(transparent)]
    Door(#[from] DoorError),
    /// Saved state that doesn't fit: a damaged recording, or one of another version.
    #[error("the saved machine state is unusable: {0}")]
    State(String),
    /// A snapshot can't be had.
    #[error(transparent)]
    Snapshot(#[from] snapshot::SnapshotError),
    /// Guest memory can't be had from the host.
    #[error("can't map {bytes} bytes of guest memory; ask for less with --memory")]
    Memory {
        /// The amount asked for.
        bytes: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The JIT can't run on this host.
    #[error(transparent)]
    Jit(#[from] jit::JitError),
    /// One block is larger than the code cache. Our bug.
    #[error(transparent)]
    CodeCache(#[from] jit::Full),
    /// The configuration makes no machine. The caller's fault.
    #[error("{0}")]
    Config(String),
    /// An image can't be used. The user's file.
    #[error(transparent)]
    Firmware(#[from] firmware::FirmwareError),
    /// The debugger asked for what is not there.
    #[error("{0}")]
    Debug(String),
    /// A file of a recording.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A replay's state differs from the recorded one though all events were equal.
    #[error("the replay departs from its recording: the state root at icount {at} differs")]
    Root {
        /// Position of the snapshot.
        at: icount::Icount,
    },
    /// A replay ended before its recording.
    #[error(
        "the replay departs from its recording: it ended at icount {at} ({why}), the recording goes on to {end}"
    )]
    Short {
        /// Where the replay is.
        at: icount::Icount,
        /// Where the recording ends.
        end: icount::Icount,
        /// What happened instead.
        why: String,
    },
    /// Two engines that run one machine side by side differ. Our bug.
    #[error("{0}")]
    Check(Box<crate::check::Mismatch>),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A recording that can't be used, and what to do.
    #[error("{0}")]
    Recording(String),
}

impl MachineError {
    /// Whether a replay departed from its recording.
    pub fn is_divergence(&self) -> bool {
        match self {
            MachineError::Door(DoorError::Divergence(_) | DoorError::PastEnd { .. })
            | MachineError::Root { .. }
            | MachineError::Short { .. }
            | MachineError::Check(_) => true,
            MachineError::Door(_)
            | MachineError::State(_)
            | MachineError::Snapshot(_)
            | MachineError::Memory { .. }
            | MachineError::Config(_)
            | MachineError::Jit(_)
            | MachineError::CodeCache(_)
            | MachineError::Firmware(_)
            | MachineError::Debug(_)
            | MachineError::File { .. }
            | MachineError::Interrupted
            | MachineError::Recording(_) => false,
        }
    }
}
