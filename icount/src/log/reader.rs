//! The reading side: where everything is, in the order in which it happened.
//!
//! Reading is `&self` and positional, so that one reader serves any number of replays at once.

use std::fs::OpenOptions;
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};

use crate::log::effects::{Decoder, Logged};
use crate::log::files::Files;
use crate::log::frame::{decode_block, decode_input};
use crate::log::index::{Extent, Index, InputEntry};
use crate::log::{read_disk_block, read_disk_frame, read_payload};
use crate::{Body, Effect, End, Event, Icount, Input, LogError, LogPosition, Recovered, VirtualTime};

/// What a log lost of a run that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEffects {
    /// The last effect that the log has; effects after it were not compared by any replay.
    pub after: Icount,
    /// How many are known to be lost. There may be more, up to the end.
    pub known: u64,
}

/// An open log.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    files: Files,
    pub(crate) index: Index,
    recovered: Option<Recovered>,
}

impl LogReader {
    /// Opens a log for reading and checks every frame. What follows the last whole frame is
    /// ignored, and [`recovered`](Self::recovered) says so; the file is not changed.
    ///
    /// # Errors
    /// No log, another version, or damage that whole frames follow.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        Self::open_with(path, false)
    }

    /// Opens what stands before the first damage.
    ///
    /// # Errors
    /// No log, or another version.
    pub fn open_prefix(path: &Path) -> Result<Self, LogError> {
        Self::open_with(path, true)
    }

    fn open_with(path: &Path, prefix: bool) -> Result<Self, LogError> {
        let files = Files::open(path, OpenOptions::new().read(true))?;
        let mut index = Index::open(&files)?;
        let recovered = index.scan(&files, prefix)?;
        Ok(Self {
            path: path.to_owned(),
            files,
            index,
            recovered,
        })
    }

    /// Takes in what a recording in progress has written since.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn refresh(&mut self) -> Result<(), LogError> {
        self.files.find(OpenOptions::new().read(true))?;
        self.recovered = self.index.scan(&self.files, false)?;
        Ok(())
    }

    /// Where the log is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Virtual nanoseconds a step, as it was recorded.
    #[must_use]
    pub const fn ns_per_step(&self) -> u64 {
        self.index.ns_per_step
    }

    /// What was left out at the end of the file.
    #[must_use]
    pub const fn recovered(&self) -> Option<Recovered> {
        self.recovered
    }

    /// Inputs and effects in the log.
    #[must_use]
    pub fn counts(&self) -> LogPosition {
        LogPosition {
            inputs: self.index.delivered.len() as u64,
            effects: self.index.effects - self.index.base().effects,
        }
    }

    /// Where the log begins: power-on, or later if it was cut.
    #[must_use]
    pub fn begin(&self) -> (Icount, VirtualTime) {
        let base = self.index.base();
        (base.at, base.time)
    }

    /// Inputs and effects of the run that stand before the log's first.
    #[must_use]
    pub fn first_position(&self) -> LogPosition {
        let base = self.index.base();
        LogPosition {
            inputs: base.inputs,
            effects: base.effects,
        }
    }

    /// Bytes of the log's files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Base disk blocks in the log.
    #[must_use]
    pub fn disk_blocks(&self) -> usize {
        self.index.disk.len()
    }

    /// Where the recording ends: at its end frame; without one (killed, or still running) at the
    /// furthest position that the log knows of, and then there is no [`End`].
    #[must_use]
    pub const fn end(&self) -> (Icount, VirtualTime, Option<End>) {
        (self.index.reached.at, self.index.reached.time, self.index.end)
    }

    /// What was lost, if the recording was not closed.
    #[must_use]
    pub fn lost_effects(&self) -> Option<LostEffects> {
        let after = self
            .index
            .blocks
            .last()
            .map_or(Icount::ZERO, |block| block.head.last_at);
        let known = self.index.reached.effects.saturating_sub(self.index.effects);
        self.index.end.is_none().then_some(LostEffects { after, known })
    }

    /// The content of a base disk block, if the run has read it.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn disk_block(&self, drive: u8, block: u64) -> Result<Option<Vec<u8>>, LogError> {
        read_disk_block(&self.files, &self.index, drive, block)
    }

    /// All events at `from` and later, in the order in which they happened.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn events_from(&self, from: Icount) -> Result<Events<'_>, LogError> {
        let input = self.index.inputs.partition_point(|entry| entry.stand.at < from);
        let mut effects = EffectStream::at(0);
        effects.seek_icount(self, from)?;
        Ok(Events {
            reader: self,
            input,
            effects,
            failed: false,
        })
    }

    /// Where the first event at `from` or later stands.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn seek_icount(&self, from: Icount) -> Result<LogPosition, LogError> {
        let before = self.index.delivered.partition_point(|&entry| {
            self.index
                .inputs
                .get(entry)
                .is_some_and(|entry| entry.stand.at < from)
        });
        let inputs = self.index.base().inputs + before as u64;
        let mut effects = EffectStream::at(0);
        effects.seek_icount(self, from)?;
        Ok(LogPosition {
            inputs,
            effects: effects.next,
        })
    }

    /// All events from a position on.
    ///
    /// # Errors
    /// The log has no such position, or can't be read.
    pub fn seek(&self, position: LogPosition) -> Result<Events<'_>, LogError> {
        self.check(position)?;
        // Disk blocks read right before the next event stand after the position.
        let input = self.index.inputs.partition_point(|entry| {
            entry.stand.inputs < position.inputs || (entry.disk && entry.stand.effects < position.effects)
        });
        let mut effects = EffectStream::at(0);
        effects.seek(self, position.effects)?;
        Ok(Events {
            reader: self,
            input,
            effects,
            failed: false,
        })
    }

    /// The last `n` events before a position, disk blocks left out.
    pub(crate) fn events_before(&self, position: LogPosition, n: u64) -> Vec<Event> {
        let base = self.index.base();
        let first = position
            .effects
            .min(self.index.effects)
            .saturating_sub(n)
            .max(base.effects);
        let mut effects = EffectStream::at(0);
        if effects.seek(self, first).is_err() {
            return Vec::new();
        }
        let skipped = position.inputs.saturating_sub(n).saturating_sub(base.inputs) as usize;
        let input = self
            .index
            .delivered
            .get(skipped)
            .copied()
            .unwrap_or(self.index.inputs.len());
        let wanted = |entry: &InputEntry| !entry.disk && entry.stand.inputs < position.inputs;
        let mut inputs = self.index.inputs.iter().skip(input).filter(|entry| wanted(entry));
        let mut next_input = inputs.next();
        let mut events = Vec::new();
        loop {
            // An input stands before the effect of the same number.
            let due = next_input.filter(|entry| entry.stand.effects <= effects.next);
            if let Some(entry) = due {
                events.extend(self.input_event(entry));
                next_input = inputs.next();
            } else if effects.next < position.effects
                && let Ok(Some(logged)) = effects.peek(self)
            {
                events.push(logged.event());
                effects.pass();
            } else if let Some(entry) = next_input {
                events.extend(self.input_event(entry));
                next_input = inputs.next();
            } else {
                break;
            }
        }
        let extra = events.len().saturating_sub(n as usize);
        events.split_off(extra)
    }

    /// Whether a position is one of this log.
    pub(crate) fn check(&self, position: LogPosition) -> Result<(), LogError> {
        let LogPosition { inputs, effects } = position;
        let delivered = |number: u64| self.index.delivered(number);
        let base = self.index.base();
        let known = (base.inputs..=self.index.input_count()).contains(&inputs)
            && effects >= base.effects
            && (effects <= self.index.effects || self.index.end.is_none())
            && delivered(inputs).is_none_or(|next| effects <= next.stand.effects)
            && inputs
                .checked_sub(1)
                .and_then(delivered)
                .is_none_or(|last| last.stand.effects <= effects);
        if known {
            return Ok(());
        }
        Err(LogError::NoPosition {
            path: self.path.clone(),
            inputs,
            effects,
        })
    }

    /// The delivered input of a number.
    pub(crate) fn delivered(&self, number: u64) -> Option<&InputEntry> {
        self.index.delivered(number)
    }

    /// Reads the input of an entry.
    pub(crate) fn input(&self, entry: &InputEntry) -> Result<Input, LogError> {
        if entry.disk {
            let (drive, block, data) = read_disk_frame(&self.files, entry.payload)?;
            return Ok(Input::DiskBlock { drive, block, data });
        }
        let payload = read_payload(&self.files, entry.payload)?;
        decode_input(&payload).ok_or_else(|| self.damaged(entry.payload, "an input is malformed"))
    }

    /// Reads the input of an entry, with its position.
    pub(crate) fn input_event(&self, entry: &InputEntry) -> Result<Event, LogError> {
        Ok(Event::input(entry.stand.at, entry.stand.time, self.input(entry)?))
    }

    fn damaged(&self, extent: Extent, what: &'static str) -> LogError {
        LogError::Damaged {
            path: self.files.path_of(extent.segment),
            offset: extent.offset,
            what,
        }
    }

    fn open_block(&self, number: usize) -> Result<Option<Decoder>, LogError> {
        let Some(block) = self.index.blocks.get(number) else {
            return Ok(None);
        };
        let payload = read_payload(&self.files, block.payload)?;
        let (head, raw) = decode_block(&payload)
            .ok_or_else(|| self.damaged(block.payload, "an effect block does not unpack"))?;
        Ok(Some(Decoder::new(self.index.ns_per_step, head, raw)))
    }
}

impl Logged {
    /// The event that it is.
    pub(crate) const fn event(&self) -> Event {
        Event {
            at: self.at,
            time: self.time,
            hart: self.hart,
            body: Body::Effect(self.effect),
        }
    }

    /// Whether it is this effect at this place.
    pub(crate) fn is(&self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> bool {
        self.at == at && self.time == time && self.hart == hart && self.effect == *effect
    }
}

/// A place among the effects of a log.
#[derive(Clone, Debug)]
pub(crate) struct EffectStream {
    /// The number of the effect that `peek` gives.
    pub next: u64,
    peeked: Option<Logged>,
    /// The block that is being read, and its number.
    block: Option<(usize, Decoder)>,
}

impl EffectStream {
    /// At the effect of that number, which a log begins with.
    pub const fn at(next: u64) -> Self {
        Self {
            next,
            peeked: None,
            block: None,
        }
    }

    /// The next effect, without passing it. `None` at the end of the log.
    pub fn peek(&mut self, reader: &LogReader) -> Result<Option<Logged>, LogError> {
        if self.peeked.is_none() {
            self.peeked = self.read(reader)?;
        }
        Ok(self.peeked)
    }

    /// Passes the effect that was peeked at (or one that the log lost).
    pub const fn pass(&mut self) {
        self.peeked = None;
        self.next += 1;
    }

    fn read(&mut self, reader: &LogReader) -> Result<Option<Logged>, LogError> {
        if self.next >= reader.index.effects {
            return Ok(None);
        }
        if self.block.is_none() {
            self.seek(reader, self.next)?;
        }
        while let Some((number, decoder)) = &mut self.block {
            if let Some(logged) = malformed(reader, *number, decoder.next())? {
                return Ok(Some(logged));
            }
            let number = *number + 1;
            let Some(decoder) = reader.open_block(number)? else {
                break;
            };
            self.block = Some((number, decoder));
        }
        Ok(None)
    }

    /// The block with effect `next` in it, or the number of blocks.
    fn block_of(&self, reader: &LogReader) -> usize {
        reader
            .index
            .blocks
            .partition_point(|block| block.head.first_effect + block.head.count <= self.next)
    }

    /// Goes to an effect by its number; past the end of the log is allowed.
    pub fn seek(&mut self, reader: &LogReader, effect: u64) -> Result<(), LogError> {
        *self = Self {
            next: effect,
            peeked: None,
            block: None,
        };
        let number = self.block_of(reader);
        if let Some(mut decoder) = reader.open_block(number)?
            && let Some(block) = reader.index.blocks.get(number)
        {
            let skipped = decoder.skip(effect.saturating_sub(block.head.first_effect));
            malformed(reader, number, skipped)?;
            self.block = Some((number, decoder));
        }
        Ok(())
    }

    /// Goes to the first effect at `from` or later.
    pub fn seek_icount(&mut self, reader: &LogReader, from: Icount) -> Result<(), LogError> {
        let number = reader
            .index
            .blocks
            .partition_point(|block| block.head.last_at < from);
        let first = reader
            .index
            .blocks
            .get(number)
            .map(|block| block.head.first_effect);
        *self = Self {
            next: first.unwrap_or(reader.index.effects),
            peeked: None,
            block: None,
        };
        while let Some(logged) = self.peek(reader)?
            && logged.at < from
        {
            self.pass();
            if let Some((number, decoder)) = &mut self.block {
                self.next += malformed(reader, *number, decoder.skip_run_before(from))?;
            }
        }
        Ok(())
    }
}

fn malformed<T>(reader: &LogReader, block: usize, result: Result<T, &'static str>) -> Result<T, LogError> {
    result.map_err(|what| {
        let extent = reader.index.blocks.get(block).map(|block| block.payload);
        reader.damaged(extent.unwrap_or_default(), what)
    })
}

/// Events in the order in which they happened. Ends after the first error.
#[derive(Debug)]
pub struct Events<'a> {
    reader: &'a LogReader,
    /// The next of the index's inputs.
    input: usize,
    effects: EffectStream,
    failed: bool,
}

impl Events<'_> {
    fn read(&mut self) -> Result<Option<Event>, LogError> {
        let effect = self.effects.peek(self.reader)?;
        let input = self.reader.index.inputs.get(self.input);
        if let Some(entry) = input
            && (effect.is_none() || entry.stand.effects <= self.effects.next)
        {
            let event = self.reader.input_event(entry)?;
            self.input += 1;
            return Ok(Some(event));
        }
        if effect.is_some() {
            self.effects.pass();
        }
        Ok(effect.map(|logged| logged.event()))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let result = self.read();
        self.failed = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

impl FusedIterator for Events<'_> {}
