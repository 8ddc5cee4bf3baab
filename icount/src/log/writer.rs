//! The writing side: inputs at once, effects in blocks behind, and no state lost when the host
//! refuses a write.
//!
//! `len` is where the last whole frame ends. Every frame is written *at* `len`, in one call, and
//! `len` moves only when that has succeeded; so a torn frame is overwritten by the next attempt,
//! and what a crash leaves behind it is cut off on open.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::log::effects::{Encoder, Logged};
use crate::log::files::Files;
use crate::log::frame::{
    Begin, FRAME_HEAD, FrameKind, MAX_PAYLOAD, Stand, decode_frame, encode_block, encode_disk, encode_end,
    encode_file_head, encode_frame, encode_input, encode_progress,
};
use crate::log::index::{Extent, Index};
use crate::log::read_disk_block;
use crate::{BLOCK_SIZE, Effect, End, Icount, Input, LogError, LogPosition, Recovered, VirtualTime};

/// Bytes of effect blocks that wait in memory for a disk that is full, before more effects are
/// refused. One budget of steps makes far less.
const MAX_BACKLOG: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };
/// Measured: higher levels gain a few per cent and cost a multiple.
const LEVEL: i32 = 3;

/// Writes a log. A call that fails has had no effect, and may be repeated.
pub struct LogWriter {
    path: PathBuf,
    /// All files of the log, to be read; the last one is written too.
    files: Files,
    file: File,
    index: Index,
    /// Effects that were taken in, written or not.
    effects: u64,
    last: (Icount, VirtualTime),
    last_effect: Icount,
    block: Encoder,
    /// Payloads of closed blocks that are not in the file yet.
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    packer: zstd::bulk::Compressor<'static>,
    sync: bool,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Drop for LogWriter {
    /// A run that ends by an error leaves its last effects in the log, as far as the disk takes
    /// them; there is no end frame, so that it reads as not closed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.flush();
        }
    }
}

impl LogWriter {
    /// Starts a log in a new file, readable by its owner only.
    ///
    /// # Errors
    /// The file exists, or can't be made.
    pub fn create(path: &Path, ns_per_step: NonZeroU64) -> Result<Self, LogError> {
        Self::create_from(path, &Begin::power_on(ns_per_step.get()))
    }

    /// Starts a log, in a new file, of a run that is under way: positions and numbers go on from what was before.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_at(
        path: &Path,
        ns_per_step: NonZeroU64,
        (at, time): (Icount, VirtualTime),
        position: LogPosition,
    ) -> Result<Self, LogError> {
        let base = Stand {
            at,
            time,
            inputs: position.inputs,
            effects: position.effects,
        };
        Self::create_from(
            path,
            &Begin {
                base,
                ..Begin::power_on(ns_per_step.get())
            },
        )
    }

    fn create_from(path: &Path, begin: &Begin) -> Result<Self, LogError> {
        let mut files = Files::new(path);
        let file = create_file(&files, begin)?;
        files.add(begin.segment, clone_of(&file, path)?);
        Self::new(path, files, file, Index::new(begin))
    }

    /// Opens a log to go on where it ends: cuts off what follows the last whole frame, and says
    /// so; takes the end frame away.
    ///
    /// A log without an end has usually lost its last effects: [`position`](Self::position) then
    /// has fewer effects than were made. Whoever goes on replays up to the end first, and hands
    /// in what the log lacks ([`missing_effects`](Self::missing_effects)).
    ///
    /// # Errors
    /// As for reading; a damaged log can't be continued.
    pub fn append(path: &Path) -> Result<(Self, Option<Recovered>), LogError> {
        let files = Files::open(path, OpenOptions::new().read(true).write(true))?;
        let mut index = Index::open(&files)?;
        let recovered = index.scan(&files, false)?;
        if recovered.is_some_and(|r| r.segment > index.segment()) {
            let path = files.path_of(index.segment() + 1);
            std::fs::remove_file(&path).map_err(|source| LogError::io(&path, "remove it", source))?;
        }
        let (last, path_of_last) = files.get(index.segment())?;
        let file = clone_of(last, &path_of_last)?;
        if index.end.take().is_some() {
            index.valid_len = index.end_offset;
        }
        file.set_len(index.valid_len)
            .map_err(|source| LogError::io(path, "cut off its torn end", source))?;
        Ok((Self::new(path, files, file, index)?, recovered))
    }

    fn new(path: &Path, files: Files, file: File, index: Index) -> Result<Self, LogError> {
        let packer = zstd::bulk::Compressor::new(LEVEL)
            .map_err(|source| LogError::io(path, "set up compression for it", source))?;
        Ok(Self {
            path: path.to_owned(),
            files,
            file,
            effects: index.effects,
            last: (index.reached.at, index.reached.time),
            last_effect: index
                .blocks
                .last()
                .map_or(Icount::ZERO, |block| block.head.last_at),
            block: Encoder::new(index.ns_per_step),
            index,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            packer,
            sync: false,
        })
    }

    /// Whether each input and mark is forced to the medium before it counts as written (for power
    /// cuts; `kill -9` loses nothing either way).
    pub const fn sync_always(&mut self, sync: bool) {
        self.sync = sync;
    }

    /// Where the log is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many events were taken in.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        LogPosition {
            inputs: self.index.input_count(),
            effects: self.effects,
        }
    }

    /// Effects that were made before the last input or mark, and that a crash lost: what must be
    /// handed in again after [`append`](Self::append).
    #[must_use]
    pub const fn missing_effects(&self) -> u64 {
        self.index.reached.effects.saturating_sub(self.effects)
    }

    /// Whether another effect can be taken in.
    ///
    /// # Errors
    /// Too many wait already for a disk that is full; what the disk said.
    pub fn has_room(&mut self) -> Result<(), LogError> {
        if self.backlog_bytes >= MAX_BACKLOG {
            self.drain()
        } else {
            Ok(())
        }
    }

    /// Takes in an effect. It stays in memory until its block is full, or
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    /// It stands before the last event (our bug), or [`has_room`](Self::has_room) says no.
    pub fn effect(
        &mut self,
        at: Icount,
        time: VirtualTime,
        hart: u8,
        effect: &Effect,
    ) -> Result<(), LogError> {
        // While lost effects are handed in again, they stand before the last input.
        let floor = if self.missing_effects() > 0 {
            self.last_effect
        } else {
            self.last.0
        };
        if at < floor || at < self.last_effect {
            return Err(LogError::Backwards {
                at: at.0,
                last: floor.max(self.last_effect).0,
            });
        }
        self.has_room()?;
        self.block.push(Logged {
            at,
            time,
            hart,
            effect: *effect,
        });
        self.effects += 1;
        self.last_effect = at;
        self.last = self.last.max((at, time));
        if self.block.is_full() {
            self.close_block();
            // A full disk is told at the next input or mark, where the machine can pause.
            let _ = self.drain();
        }
        Ok(())
    }

    /// Writes an input, which must not be a disk block, before the guest sees it.
    ///
    /// # Errors
    /// It is not in the log, and must not be delivered.
    pub fn input(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), LogError> {
        let stand = self.stand(at, time)?;
        let payload = encode_input(&stand, input).filter(|payload| payload.len() <= MAX_PAYLOAD);
        let payload = payload.ok_or(LogError::TooLarge { limit: MAX_PAYLOAD })?;
        self.write_stand(FrameKind::Input, stand, &payload)
    }

    /// Writes the content of a base disk block.
    ///
    /// # Errors
    /// It is not in the log, and must not be delivered.
    pub fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
        data: &[u8],
    ) -> Result<(), LogError> {
        if data.len() != BLOCK_SIZE {
            return Err(LogError::BlockSize { len: data.len() });
        }
        let stand = self.stand(at, time)?;
        let packed = self.packer.compress(data).unwrap_or_default();
        let payload = encode_disk(&stand, drive, block, data, &packed);
        self.write_stand(FrameKind::Disk, stand, &payload)
    }

    /// Reads back the content of a base disk block, if the log has it.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn logged_disk_block(&self, drive: u8, block: u64) -> Result<Option<Vec<u8>>, LogError> {
        read_disk_block(&self.files, &self.index, drive, block)
    }

    /// Writes all effects, and then that the run has reached this boundary.
    ///
    /// # Errors
    /// Some of it could not be written, and is kept for the next call.
    pub fn progress(&mut self, at: Icount, time: VirtualTime) -> Result<(), LogError> {
        let stand = self.stand(at, time)?;
        self.flush()?;
        if stand == self.index.reached {
            return Ok(());
        }
        self.write_stand(FrameKind::Progress, stand, &encode_progress(&stand))
    }

    /// Writes all effects that were taken in, so that a reader sees them.
    ///
    /// # Errors
    /// Some could not be written; they are kept.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.close_block();
        self.drain()
    }

    /// Tries again to write the blocks that the disk had no room for.
    ///
    /// # Errors
    /// It still has none; nothing is lost.
    pub fn drain(&mut self) -> Result<(), LogError> {
        while let Some(payload) = self.backlog.pop_front() {
            if let Err(error) = self.write(FrameKind::Effects, &payload) {
                self.backlog.push_front(payload);
                return Err(error);
            }
            self.backlog_bytes -= payload.len();
        }
        Ok(())
    }

    /// Writes all effects and the end of the run. Nothing can follow, unless the file is opened
    /// again.
    ///
    /// # Errors
    /// Some of it could not be written; the call may be repeated.
    pub fn end(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), LogError> {
        if self.index.end.is_some() {
            return Ok(());
        }
        let stand = self.stand(at, time)?;
        self.flush()?;
        self.write_stand(FrameKind::End, stand, &encode_end(&stand, end))?;
        self.file
            .sync_data()
            .map_err(|source| LogError::io(&self.path, "sync it", source))
    }

    /// Goes on in a new file: all effects are written before, so that whoever starts here needs no older file.
    ///
    /// # Errors
    /// Something can't be written; the log goes on in the file that it had.
    pub fn rotate(&mut self, at: Icount, time: VirtualTime) -> Result<(), LogError> {
        let base = self.stand(at, time)?;
        self.flush()?;
        let begin = Begin {
            ns_per_step: self.index.ns_per_step,
            segment: self.index.segment() + 1,
            base,
        };
        let path = self.files.path_of(begin.segment);
        let file = create_file(&self.files, &begin)?;
        let entered = clone_of(&file, &path).and_then(|copy| {
            self.index.enter(&begin).map_err(|what| LogError::Damaged {
                path: path.clone(),
                offset: 0,
                what,
            })?;
            Ok(copy)
        });
        let copy = entered.inspect_err(|_| {
            // Best effort: a file that stays without frames says the same.
            let _ = std::fs::remove_file(&path);
        })?;
        self.files.add(begin.segment, copy);
        self.file = file;
        Ok(())
    }

    /// Removes the files that nobody needs who starts at `position` or later. What can't be removed stays.
    ///
    /// # Errors
    /// A file can't be removed.
    pub fn forget_before(&mut self, position: LogPosition) -> Result<(), LogError> {
        let segments = &self.index.segments;
        let older = segments
            .partition_point(|(_, base)| base.inputs <= position.inputs && base.effects <= position.effects);
        let Some(&(first, _)) = older.checked_sub(1).and_then(|last| segments.get(last)) else {
            return Ok(());
        };
        self.index.forget_before(first);
        self.files.remove_before(first)
    }

    /// Where the file that is written begins.
    #[must_use]
    pub fn last_rotation(&self) -> Icount {
        self.index
            .segments
            .last()
            .map_or(Icount::ZERO, |(_, base)| base.at)
    }

    /// Bytes of the log's files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Bytes of the file that is written.
    #[must_use]
    pub const fn last_bytes(&self) -> u64 {
        self.index.valid_len
    }

    /// Makes writes fail as on a full disk, or succeed again.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self, full: bool) {
        let path = if full { Path::new("/dev/full") } else { &self.path };
        self.file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    }

    fn stand(&self, at: Icount, time: VirtualTime) -> Result<Stand, LogError> {
        if self.missing_effects() > 0 {
            return Err(LogError::EffectsMissing {
                missing: self.missing_effects(),
            });
        }
        if (at, time) < self.last {
            return Err(LogError::Backwards {
                at: at.0,
                last: self.last.0.0,
            });
        }
        let LogPosition { inputs, effects } = self.position();
        Ok(Stand {
            at,
            time,
            inputs,
            effects,
        })
    }

    fn write_stand(&mut self, kind: FrameKind, stand: Stand, payload: &[u8]) -> Result<(), LogError> {
        self.write(kind, payload)?;
        self.last = (stand.at, stand.time);
        Ok(())
    }

    /// Puts the open block at the end of the backlog.
    fn close_block(&mut self) {
        let first = self.effects - self.block.count();
        let Some((head, raw)) = self.block.close(first) else {
            return;
        };
        let packed = self.packer.compress(&raw).unwrap_or_default();
        let payload = encode_block(&head, &raw, &packed);
        self.backlog_bytes += payload.len();
        self.backlog.push_back(payload);
    }

    /// Writes a frame after the last whole one, in one call.
    fn write(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), LogError> {
        let offset = self.index.valid_len;
        let frame = encode_frame(kind, offset, payload);
        let mut result = self.file.write_all_at(&frame, offset);
        if result.is_ok() && self.sync && kind != FrameKind::Effects {
            result = self.file.sync_data();
        }
        if let Err(source) = result {
            // Best effort: a torn frame that stays is overwritten, or cut off on open.
            let _ = self.file.set_len(offset);
            let path = self.files.path_of(self.index.segment());
            return Err(LogError::io(&path, "write it", source));
        }
        let start = offset + FRAME_HEAD as u64;
        let extent = Extent {
            segment: self.index.segment(),
            offset: start,
            len: payload.len(),
            sum: crc32fast::hash(payload),
        };
        let what = "this build can't read what it wrote";
        decode_frame(kind, payload)
            .ok_or(what)
            .and_then(|content| self.index.add(content, extent))
            .map_err(|what| LogError::Damaged {
                path: self.path.clone(),
                offset,
                what,
            })?;
        self.index.valid_len = offset + frame.len() as u64;
        Ok(())
    }
}

/// Makes a file with its head.
fn create_file(files: &Files, begin: &Begin) -> Result<File, LogError> {
    let path = files.path_of(begin.segment);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|source| LogError::io(&path, "create it", source))?;
    file.write_all_at(&encode_file_head(begin), 0).map_err(|source| {
        // Best effort: a file without a head is a torn end.
        let _ = std::fs::remove_file(&path);
        LogError::io(&path, "write its head", source)
    })?;
    Ok(file)
}

fn clone_of(file: &File, path: &Path) -> Result<File, LogError> {
    file.try_clone()
        .map_err(|source| LogError::io(path, "open it", source))
}
