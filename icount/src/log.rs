//! The event log `events`: an append-only file of framed, checksummed records.
//!
//! ```text
//!   head │ frame │ frame │ ...          head:  magic, version, ns per step, checksum
//!          │                            frame: kind, length, two checksums, payload
//!          ├ input, disk block   written at once, before the guest sees it
//!          ├ effects             a compressed block of them, written behind
//!          ├ progress            how far the run is, about once a second
//!          └ end                 the run was closed
//! ```
//!
//! Effects are written later than the inputs among them; the order in which everything happened
//! follows from counts: each input says how many effects stand before it. The layout, byte by byte,
//! is in docs/format.md; reader and writer share `frame.rs` and `effects.rs`.
//!
//! A log that is shortened at its beginning while it grows goes on in further files, `events.0001` and so on, each of which
//! says in its head what stands before it; so the first ones can go.

mod codec;
mod effects;
mod files;
mod frame;
mod index;
mod reader;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::BLOCK_SIZE;
use files::Files;
use index::{Extent, Index};

pub(crate) use reader::EffectStream;
pub use reader::{Events, LogReader, LostEffects};
pub use writer::LogWriter;

/// The newest version of the layout. It is that of a file which does not begin at power-on; one that does is of version 1.
pub const LOG_VERSION: u32 = 2;

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
    #[error("{}: the log has version {found}; this build reads versions up to {LOG_VERSION}, use the tickback that recorded it", path.display())]
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
    /// A file of the log is gone though a later one is there.
    #[error("{}: this part of the event log is missing, and later ones are there; put it back", path.display())]
    Missing {
        /// The file that should be there.
        path: PathBuf,
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
    /// The log does not have effects that stand before its last input: they were lost when the
    /// recording was killed, and must be handed in before it goes on.
    #[error("{missing} effects before the last input are not in the log")]
    EffectsMissing {
        /// How many.
        missing: u64,
    },
    /// An input that no frame can hold (a debugger's write).
    #[error("an input has more than {limit} bytes; write it in parts")]
    TooLarge {
        /// What a frame can hold.
        limit: usize,
    },
    /// A disk block of a wrong size, or handed in as a delivered input (our bug).
    #[error("a disk block of {len} bytes; {BLOCK_SIZE} were expected")]
    BlockSize {
        /// Its size.
        len: usize,
    },
}

impl LogError {
    fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// Whether the disk (or a quota) is full, so that trying again later may help.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

/// What was left out at the end of a log: what a crash tore, or with
/// [`LogReader::open_prefix`] everything from the damage on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The number of the file: 0 is `events`, others have it in their names.
    pub segment: u32,
    /// Where the last whole frame ends.
    pub cut_at: u64,
    /// How many bytes follow it.
    pub bytes: u64,
    /// Whole frames are among them.
    pub damaged: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            cut_at,
            bytes,
            damaged,
        } = self;
        let what = if *damaged { "after damage" } else { "of a torn end" };
        let file = if *segment == 0 {
            "events".to_owned()
        } else {
            files::suffixed("events", *segment)
        };
        write!(f, "left out {bytes} bytes {what} of {file} from byte {cut_at} on")
    }
}

/// Reads a payload that was valid when it was indexed.
fn read_payload(files: &Files, extent: Extent) -> Result<Vec<u8>, LogError> {
    let mut payload = vec![0; extent.len];
    let (file, path) = files.get(extent.segment)?;
    file.read_exact_at(&mut payload, extent.offset)
        .map_err(|source| LogError::io(&path, "read it", source))?;
    if crc32fast::hash(&payload) == extent.sum {
        return Ok(payload);
    }
    let what = "a frame changed after the log was opened";
    Err(LogError::Damaged {
        path,
        offset: extent.offset,
        what,
    })
}

/// Reads the frame of a disk block: drive, block, content.
fn read_disk_frame(files: &Files, extent: Extent) -> Result<(u8, u64, Vec<u8>), LogError> {
    let payload = read_payload(files, extent)?;
    frame::decode_disk(&payload).ok_or_else(|| LogError::Damaged {
        path: files.path_of(extent.segment),
        offset: extent.offset,
        what: "a disk block does not unpack",
    })
}

/// Reads the content of a base disk block, if the log has it.
fn read_disk_block(files: &Files, index: &Index, drive: u8, block: u64) -> Result<Option<Vec<u8>>, LogError> {
    let entry = index
        .disk
        .get(&(drive, block))
        .and_then(|&entry| index.inputs.get(entry));
    let extent = entry.map(|entry| entry.payload);
    Ok(extent
        .map(|extent| read_disk_frame(files, extent))
        .transpose()?
        .map(|(_, _, data)| data))
}
