//! What is in a log: built by reading every frame's head and checking every checksum, once, on
//! open. Holds where things are, not their content (disk blocks, effects).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::log::effects::BlockHead;
use crate::log::files::Files;
use crate::log::frame::{
    Begin, FRAME_HEAD, FileHead, Frame, LATER_HEAD, Stand, decode_file_head, decode_frame, decode_frame_head,
};
use crate::{End, LogError, Recovered};

/// Where a frame's payload is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// The number of the file.
    pub segment: u32,
    pub offset: u64,
    pub len: usize,
    /// Its checksum.
    pub sum: u32,
}

/// An input or a disk block.
#[derive(Clone, Copy, Debug)]
pub struct InputEntry {
    pub stand: Stand,
    pub payload: Extent,
    pub disk: bool,
}

/// A block of effects.
#[derive(Clone, Copy, Debug)]
pub struct BlockEntry {
    pub head: BlockHead,
    pub payload: Extent,
}

/// Everything that is known about a log without reading its content.
#[derive(Clone, Debug)]
pub struct Index {
    pub ns_per_step: u64,
    /// The files whose frames were taken in, with what stands before each.
    pub segments: Vec<(u32, Stand)>,
    /// Inputs and disk blocks in the order of the file, which is that of the run.
    pub inputs: Vec<InputEntry>,
    /// Which of `inputs` are delivered ones, in order; the first one's number is the base's.
    pub delivered: Vec<usize>,
    /// Which of `inputs` has the content of a (drive, block).
    pub disk: BTreeMap<(u8, u64), usize>,
    pub blocks: Vec<BlockEntry>,
    /// How many effects of the run stand before the end of the last block.
    pub effects: u64,
    /// The furthest position that is known, and how many effects stand before it.
    pub reached: Stand,
    pub end: Option<End>,
    /// Where the end frame is, if there is one.
    pub end_offset: u64,
    /// Where, in the last file, the last whole valid frame ends.
    pub valid_len: u64,
}

/// Reads the head of a file.
fn read_head(file: &File, path: &Path) -> Result<FileHead, LogError> {
    let mut head = Vec::new();
    let mut start = file;
    start
        .seek(SeekFrom::Start(0))
        .and_then(|_| start.take(LATER_HEAD as u64).read_to_end(&mut head))
        .map_err(|source| LogError::io(path, "read its head", source))?;
    Ok(decode_file_head(&head))
}

impl Index {
    /// The index of a log without frames.
    pub fn new(begin: &Begin) -> Self {
        Self {
            ns_per_step: begin.ns_per_step,
            segments: vec![(begin.segment, begin.base)],
            inputs: Vec::new(),
            delivered: Vec::new(),
            disk: BTreeMap::new(),
            blocks: Vec::new(),
            effects: begin.base.effects,
            reached: begin.base,
            end: None,
            end_offset: 0,
            valid_len: begin.head_len() as u64,
        }
    }

    /// What stands before the first frame.
    pub fn base(&self) -> Stand {
        self.segments.first().map_or(Stand::ZERO, |(_, base)| *base)
    }

    /// The number of the last file.
    pub fn segment(&self) -> u32 {
        self.segments.last().map_or(0, |(segment, _)| *segment)
    }

    /// How many inputs of the run stand before the end.
    pub fn input_count(&self) -> u64 {
        self.base().inputs + self.delivered.len() as u64
    }

    /// The delivered input of a number.
    pub fn delivered(&self, number: u64) -> Option<&InputEntry> {
        let place = number.checked_sub(self.base().inputs)?;
        let entry = *self.delivered.get(usize::try_from(place).ok()?)?;
        self.inputs.get(entry)
    }

    /// Reads the head of the first file.
    pub fn open(files: &Files) -> Result<Self, LogError> {
        let first = files.first().unwrap_or_default();
        let (file, path) = files.get(first)?;
        match read_head(file, &path)? {
            FileHead::Valid(begin) if begin.segment == first => Ok(Self::new(&begin)),
            FileHead::OtherVersion(found) => Err(LogError::Version { path, found }),
            FileHead::Valid(_) | FileHead::Invalid => Err(LogError::NotALog { path }),
        }
    }

    /// Goes on with the file that follows.
    pub fn enter(&mut self, begin: &Begin) -> Result<(), &'static str> {
        let Stand {
            at,
            time,
            inputs,
            effects,
        } = begin.base;
        if self.end.is_some() {
            return Err("a file follows the end");
        }
        if begin.ns_per_step != self.ns_per_step
            || begin.segment != self.segment() + 1
            || inputs != self.input_count()
            || effects != self.effects
            || (at, time) < (self.reached.at, self.reached.time)
        {
            return Err("it doesn't follow the file before it");
        }
        self.segments.push((begin.segment, begin.base));
        self.reached = begin.base;
        self.valid_len = begin.head_len() as u64;
        Ok(())
    }

    /// Forgets the files before `segment`.
    pub fn forget_before(&mut self, segment: u32) {
        let kept = self
            .inputs
            .partition_point(|entry| entry.payload.segment < segment);
        let delivered = self.delivered.partition_point(|entry| *entry < kept);
        let blocks = self
            .blocks
            .partition_point(|block| block.payload.segment < segment);
        self.inputs.drain(..kept);
        self.delivered.drain(..delivered);
        self.delivered.iter_mut().for_each(|entry| *entry -= kept);
        self.blocks.drain(..blocks);
        self.disk.retain(|_, entry| *entry >= kept);
        self.disk.values_mut().for_each(|entry| *entry -= kept);
        let gone = self.segments.partition_point(|(number, _)| *number < segment);
        self.segments
            .drain(..gone.min(self.segments.len().saturating_sub(1)));
    }

    /// Takes in the frames that follow what is known already, in this file and in the ones after it. What can't be a whole frame at
    /// the end is reported; so is, with `prefix`, everything from the first damage on.
    pub fn scan(&mut self, files: &Files, prefix: bool) -> Result<Option<Recovered>, LogError> {
        loop {
            let segment = self.segment();
            let (file, path) = files.get(segment)?;
            let last = !files.has(segment + 1);
            if let Some(recovered) = self.scan_file(file, &path, prefix, last)? {
                return Ok(Some(recovered));
            }
            if last {
                return Ok(None);
            }
            let (file, path) = files.get(segment + 1)?;
            let len = file
                .metadata()
                .map_err(|source| LogError::io(&path, "read it", source))?
                .len();
            let recovered = |damaged| Recovered {
                segment: segment + 1,
                cut_at: 0,
                bytes: len,
                damaged,
            };
            let what = match read_head(file, &path)? {
                FileHead::Valid(begin) => match self.enter(&begin) {
                    Ok(()) => continue,
                    Err(what) => what,
                },
                FileHead::OtherVersion(found) => return Err(LogError::Version { path, found }),
                // The process was killed as it began the file.
                FileHead::Invalid if len < LATER_HEAD as u64 && !files.has(segment + 2) => {
                    return Ok(Some(recovered(false)));
                }
                FileHead::Invalid => "its head is damaged",
            };
            if prefix {
                return Ok(Some(recovered(true)));
            }
            return Err(LogError::Damaged {
                path,
                offset: 0,
                what,
            });
        }
    }

    fn scan_file(
        &mut self,
        file: &File,
        path: &Path,
        prefix: bool,
        last: bool,
    ) -> Result<Option<Recovered>, LogError> {
        let failed = |source| LogError::io(path, "read it", source);
        let len = file.metadata().map_err(failed)?.len();
        let mut input = BufReader::with_capacity(64 << 10, file);
        input.seek(SeekFrom::Start(self.valid_len)).map_err(failed)?;
        let mut payload = Vec::new();
        while self.valid_len < len {
            let offset = self.valid_len;
            let Err(fault) = self.take_frame(&mut input, len, &mut payload).map_err(failed)? else {
                continue;
            };
            let damaged = match fault {
                Fault::Torn => !last || later_frame(file, offset + 1, len).map_err(failed)?,
                Fault::Malformed(_) => true,
            };
            if damaged && !prefix {
                let what = match fault {
                    Fault::Torn => "a frame is broken, and whole frames follow",
                    Fault::Malformed(what) => what,
                };
                return Err(LogError::Damaged {
                    path: path.to_owned(),
                    offset,
                    what,
                });
            }
            return Ok(Some(Recovered {
                segment: self.segment(),
                cut_at: offset,
                bytes: len - offset,
                damaged,
            }));
        }
        Ok(None)
    }

    /// Reads one frame. The outer error is the host's.
    fn take_frame(
        &mut self,
        input: &mut BufReader<&File>,
        len: u64,
        payload: &mut Vec<u8>,
    ) -> io::Result<Result<(), Fault>> {
        let offset = self.valid_len;
        if len - offset < FRAME_HEAD as u64 {
            return Ok(Err(Fault::Torn));
        }
        let mut head = [0; FRAME_HEAD];
        input.read_exact(&mut head)?;
        let Some(frame) = decode_frame_head(offset, &head) else {
            return Ok(Err(Fault::Torn));
        };
        let start = offset + FRAME_HEAD as u64;
        if len - start < frame.len as u64 {
            return Ok(Err(Fault::Torn));
        }
        payload.resize(frame.len, 0);
        input.read_exact(payload)?;
        if crc32fast::hash(payload) != frame.sum {
            return Ok(Err(Fault::Torn));
        }
        let Some(content) = decode_frame(frame.kind, payload) else {
            return Ok(Err(Fault::Malformed("a frame's content is malformed")));
        };
        if let Err(what) = self.add(
            content,
            Extent {
                segment: self.segment(),
                offset: start,
                len: frame.len,
                sum: frame.sum,
            },
        ) {
            return Ok(Err(Fault::Malformed(what)));
        }
        self.valid_len = start + frame.len as u64;
        Ok(Ok(()))
    }

    /// Adds a frame after the ones known, if it can follow them.
    pub fn add(&mut self, frame: Frame, payload: Extent) -> Result<(), &'static str> {
        if self.end.is_some() {
            return Err("a frame follows the end");
        }
        match frame {
            Frame::Input(stand) => {
                self.check(&stand)?;
                self.delivered.push(self.inputs.len());
                self.inputs.push(InputEntry {
                    stand,
                    payload,
                    disk: false,
                });
                self.reached = Stand {
                    inputs: stand.inputs + 1,
                    ..stand
                };
            }
            Frame::Disk(stand, drive, block) => {
                self.check(&stand)?;
                self.disk.entry((drive, block)).or_insert(self.inputs.len());
                self.inputs.push(InputEntry {
                    stand,
                    payload,
                    disk: true,
                });
                self.reached = stand;
            }
            Frame::Progress(stand) => {
                self.check(&stand)?;
                self.reached = stand;
            }
            Frame::End(stand, end) => {
                self.check(&stand)?;
                if stand.effects != self.effects {
                    return Err("effects are missing before the end");
                }
                self.reached = stand;
                self.end = Some(end);
                self.end_offset = payload.offset - FRAME_HEAD as u64;
            }
            Frame::Effects(head) => {
                if head.first_effect != self.effects {
                    return Err("an effect block is missing");
                }
                if self
                    .blocks
                    .last()
                    .is_some_and(|last| head.first_at < last.head.last_at)
                {
                    return Err("effect blocks overlap");
                }
                self.effects += head.count;
                self.blocks.push(BlockEntry { head, payload });
                let reached = (self.reached.at, self.reached.time);
                (self.reached.at, self.reached.time) = reached.max((head.last_at, head.last_time));
                self.reached.effects = self.reached.effects.max(self.effects);
            }
        }
        Ok(())
    }

    fn check(&self, stand: &Stand) -> Result<(), &'static str> {
        if stand.inputs != self.input_count() {
            return Err("an input is missing");
        }
        let last = &self.reached;
        if (stand.at, stand.time) < (last.at, last.time) || stand.effects < last.effects {
            return Err("a frame stands before the one that it follows");
        }
        Ok(())
    }
}

enum Fault {
    /// Not a whole frame: the writer's last act, or damage.
    Torn,
    /// Whole, and yet nothing that a writer would write there.
    Malformed(&'static str),
}

/// Whether the head of a frame stands anywhere in `from..len`. A head's checksum holds its own
/// offset, so that guest data that looks like one is no threat.
fn later_frame(file: &File, from: u64, len: u64) -> io::Result<bool> {
    const CHUNK: usize = 64 << 10;
    let mut input = file;
    input.seek(SeekFrom::Start(from))?;
    let mut input = input.take(len.saturating_sub(from));
    let mut window: Vec<u8> = Vec::with_capacity(CHUNK + FRAME_HEAD);
    let mut start = from;
    loop {
        let had = window.len();
        input.by_ref().take(CHUNK as u64).read_to_end(&mut window)?;
        for (index, head) in window.windows(FRAME_HEAD).enumerate() {
            let offset = start + index as u64;
            if let Some(frame) = decode_frame_head(offset, head)
                && offset + FRAME_HEAD as u64 + frame.len as u64 <= len
            {
                return Ok(true);
            }
        }
        if window.len() == had {
            return Ok(false);
        }
        let keep = window.len().min(FRAME_HEAD - 1);
        start += (window.len() - keep) as u64;
        window.drain(..window.len() - keep);
    }
}
