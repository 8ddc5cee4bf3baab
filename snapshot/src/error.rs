//! The errors of this crate. Every message says what, where, and what can be done.
//!
//! Errors are `Clone`: a failure on a background thread is reported to whoever asks next, and stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::Icount;

use crate::page::PageId;

/// What can go wrong with pages, trees and checkpoints.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// The host's file system said no (disk full, permissions, a vanished folder).
    #[error("can't {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb phrase.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The host's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file doesn't hold what its own checksums say: damaged on disk, or not ours.
    #[error(
        "{} is damaged at byte {offset}: {what}; restore the file from a copy, or go to a snapshot that doesn't need it",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file the damaged frame or record begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file was written by another version of the format.
    #[error(
        "{} has snapshot format version {found}, this program reads version {known}; use the program that recorded it",
        .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it names.
        found: u16,
        /// The version that this crate reads.
        known: u16,
    },
    /// A pack file is gone though later ones, or checkpoints, need it.
    #[error("pack file {} is missing; put it back, or replay from an earlier snapshot or from power-on", .path.display())]
    MissingPack {
        /// The file that should be there.
        path: PathBuf,
    },
    /// No readable pack holds this page or tree node.
    #[error("no pack in {} holds block {id}; a pack file is missing or was cut short", .path.display())]
    Unknown {
        /// The page or node.
        id: PageId,
        /// The folder of packs.
        path: PathBuf,
    },
    /// A tree node passes its checksum and yet breaks the rules of a tree: written by something else.
    #[error("tree node {id} is malformed: {what}; the snapshot was not written by this program")]
    BadNode {
        /// The node.
        id: PageId,
        /// The broken rule.
        what: &'static str,
    },
    /// Checkpoints must be given in ascending order of icount (our caller's bug).
    #[error("a snapshot at step {at} was offered after one at step {last}; snapshots are recorded in order", at = .at.0, last = .last.0)]
    OutOfOrder {
        /// The position offered.
        at: Icount,
        /// The last position recorded.
        last: Icount,
    },
    /// There's no such checkpoint (any more).
    #[error("no snapshot at step {at} in {}; list the snapshots to see which there are", .path.display(), at = .at.0)]
    NoCheckpoint {
        /// The position asked for.
        at: Icount,
        /// The file of checkpoints.
        path: PathBuf,
    },
    /// A page key is 2^44 or more (our caller's bug).
    #[error("page key {key:#x} is out of range: keys are below 2^44")]
    KeyRange {
        /// The key.
        key: u64,
    },
    /// What the caller wants to put into a snapshot is larger than the format allows.
    #[error("{what} of {size} bytes is too large for a snapshot: the most is {max} bytes")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The format's limit.
        max: usize,
    },
    /// The recorder's background threads have ended, after an error that was reported before.
    #[error("the snapshot writer has stopped after an earlier error; nothing more is recorded")]
    Stopped,
}

impl SnapshotError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            doing,
            path,
            source: Arc::new(source),
        }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            offset,
            what: what.into(),
        }
    }
}

/// The result of this crate's functions.
pub type Result<T, E = SnapshotError> = std::result::Result<T, E>;
