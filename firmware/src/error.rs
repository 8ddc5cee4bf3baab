//! What can go wrong before a guest runs.

/// Why a guest image can't be used, or a firmware table not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// The file ends before what its headers promise. The file's fault.
    #[error("the {kind} is cut off: it needs {need} bytes and has {have}")]
    Truncated {
        /// What the file claims to be.
        kind: &'static str,
        /// Bytes that the headers promise.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
}
