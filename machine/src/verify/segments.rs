//! Segments between snapshots, replayed several at a time: each starts from its snapshot, and must come to the next one's
//! root with the log's events and no others.
//!
//! ```text
//!   snapshots   0 ------- 1 ------- 2 ------- 3 ------- 4 --- end
//!   workers     |  a, b: halves of what is left; who is through takes half of the largest rest  |
//! ```
//!
//! Neighbouring segments stay with one worker as far as they can, since the code that it has translated is good there. Each
//! block of the store is checked against its hash too, whether or not a replay reads it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, unbounded};
use icount::{End, Icount};
use snapshot::{Replay, Root};

use crate::engine::Engine;
use crate::error::MachineError;
use crate::history::{History, STRETCH};
use crate::recorded::Recorded;

/// Frames of the store that are checked at a time.
const FRAMES: usize = 64;
/// How often the caller is asked.
const LOOK: Duration = Duration::from_millis(100);

/// One part of `of` of a recording: the segments that begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

impl Shard {
    /// All of a recording.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Where the part of `0..length` begins.
    fn start(self, index: u64, length: u64) -> u64 {
        (u128::from(length) * u128::from(index) / u128::from(self.of.max(1))) as u64
    }

    fn of(self, length: u64) -> Range<u64> {
        self.start(self.index, length)..self.start(self.index + 1, length)
    }
}

/// From a snapshot to the next, or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its snapshot.
    pub from: Icount,
    /// The next snapshot, or the end.
    pub to: Icount,
    /// The root at `to`, if a snapshot stands there.
    pub root: Option<Root>,
    /// Whether the recording ends at `to`.
    pub last: bool,
}

/// What is to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    segments: Vec<Segment>,
    frames: Range<usize>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps replayed.
    pub done: u64,
    /// Steps to replay.
    pub steps: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Segments replayed and equal.
    pub segments: usize,
    /// Their steps.
    pub steps: u64,
    /// Their events.
    pub events: u64,
    /// State roots compared.
    pub roots: u64,
    /// Blocks of the store that are what their hash says.
    pub blocks: u64,
    /// How the recording ended, if its last segment was among them.
    pub end: Option<End>,
    /// The first departure from the recording, with the snapshot from which it was replayed.
    pub departure: Option<(Icount, MachineError)>,
    /// What could not be read or replayed, in the order of positions; blocks last.
    pub damage: Vec<MachineError>,
}

impl Work {
    /// A shard of a recording.
    pub fn of(recorded: &Recorded, shard: Shard) -> Work {
        let end = recorded.log().end().0;
        let mut list = recorded.checkpoints().list();
        let (begin, _) = recorded.log().begin();
        list.retain(|checkpoint| checkpoint.at >= begin && checkpoint.at <= end);
        let begin = list.first().map_or(Icount(0), |first| first.at);
        let own = shard.of(end.since(begin).saturating_add(1));
        // A snapshot at the end is what the last segment comes to. It begins none, also because what powers the guest off
        // is told at that boundary, and stands before the snapshot in the log.
        let begins = list.iter().enumerate().filter(|(i, c)| *i == 0 || c.at < end);
        let segments = begins.map(|(i, checkpoint)| {
            let next = list.get(i + 1);
            let to = next.map_or(end, |next| next.at);
            Segment {
                from: checkpoint.at,
                to,
                root: next.map(|next| next.root),
                last: to == end,
            }
        });
        let frames = shard.of(recorded.checkpoints().store().frames() as u64);
        Work {
            segments: segments
                .filter(|segment| own.contains(&segment.from.since(begin)))
                .collect(),
            frames: frames.start as usize..frames.end as usize,
        }
    }

    /// The segments, ascending.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Steps to replay.
    pub fn steps(&self) -> u64 {
        self.segments.iter().map(|s| s.to.since(s.from)).sum()
    }
}

/// Replays `work` with `jobs` machines at a time. `look` is called every tenth of a second; when it says no, what was
/// not done stays so, and the answer is [`MachineError::Interrupted`].
///
/// # Errors
/// Interrupted. Whatever is wrong with the recording is in the report.
pub fn verify(
    recorded: &Recorded,
    work: &Work,
    jobs: usize,
    engine: &(dyn Fn() -> Engine + Sync),
    mut look: impl FnMut(Progress) -> bool,
) -> Result<Report, MachineError> {
    let jobs = jobs.clamp(1, work.segments.len().max(1));
    let pool = Pool {
        recorded,
        segments: &work.segments,
        ranges: Mutex::new(shares(&work.segments, jobs)),
        frames: AtomicUsize::new(work.frames.start),
        frames_end: work.frames.end,
        bad: AtomicUsize::new(usize::MAX),
        done: AtomicU64::new(0),
        cancelled: AtomicBool::new(false),
        found: Mutex::default(),
    };
    let steps = work.steps();
    std::thread::scope(|scope| {
        let (working, ended) = unbounded::<()>();
        for job in 0..jobs {
            let (pool, working) = (&pool, working.clone());
            scope.spawn(move || {
                let _working = working;
                pool.work(job, engine);
            });
        }
        drop(working);
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let done = pool.done.load(Ordering::Relaxed);
            if !look(Progress { done, steps }) {
                pool.cancelled.store(true, Ordering::Relaxed);
            }
        }
    });
    let cancelled = pool.cancelled.into_inner();
    let found = pool.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut report = found.report;
    let mut failures = found.failures;
    failures.sort_by_key(|(segment, _)| *segment);
    for (segment, error) in failures {
        if error.is_divergence() && report.departure.is_none() {
            report.departure = work.segments.get(segment).map(|s| (s.from, error));
        } else if !error.is_divergence() {
            report.damage.push(error);
        }
    }
    report.damage.extend(found.blocks);
    if cancelled && report.departure.is_none() {
        return Err(MachineError::Interrupted);
    }
    Ok(report)
}

/// Neighbouring segments for each job, about equally many steps.
fn shares(segments: &[Segment], jobs: usize) -> Vec<Range<usize>> {
    let total: u128 = segments.iter().map(|s| u128::from(s.to.since(s.from)) + 1).sum();
    let mut shares = vec![0..0; jobs];
    let mut before = 0u128;
    for (index, segment) in segments.iter().enumerate() {
        let steps = u128::from(segment.to.since(segment.from)) + 1;
        // The job in whose part the segment's middle lies.
        let job = ((before + steps / 2) * jobs as u128 / total.max(1)) as usize;
        if let Some(share) = shares.get_mut(job) {
            let start = if share.end == 0 { index } else { share.start };
            *share = start..index + 1;
        }
        before += steps;
    }
    shares
}

#[derive(Default)]
struct Findings {
    report: Report,
    /// Segment and error.
    failures: Vec<(usize, MachineError)>,
    blocks: Vec<MachineError>,
}

struct Pool<'a> {
    recorded: &'a Recorded,
    segments: &'a [Segment],
    ranges: Mutex<Vec<Range<usize>>>,
    frames: AtomicUsize,
    frames_end: usize,
    /// The first segment that departs: those behind it need no look.
    bad: AtomicUsize,
    done: AtomicU64,
    cancelled: AtomicBool,
    found: Mutex<Findings>,
}

impl Pool<'_> {
    fn work(&self, job: usize, engine: &dyn Fn() -> Engine) {
        let mut history = None;
        while let Some(index) = self.next(job) {
            if index > self.bad.load(Ordering::Relaxed) {
                continue;
            }
            let Some(segment) = self.segments.get(index) else {
                continue;
            };
            let replayed = match &mut history {
                Some(history) => self.segment(history, segment),
                none => self
                    .recorded
                    .replay(engine())
                    .and_then(|opened| self.segment(none.insert(opened), segment)),
            };
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            match replayed {
                Ok((events, end)) => {
                    found.report.segments += 1;
                    found.report.steps += segment.to.since(segment.from);
                    found.report.events += events;
                    found.report.roots += u64::from(segment.root.is_some());
                    found.report.end = found.report.end.or(end);
                }
                Err(MachineError::Interrupted) => return,
                Err(error) => {
                    if error.is_divergence() {
                        self.bad.fetch_min(index, Ordering::Relaxed);
                    }
                    found.failures.push((index, error));
                }
            }
        }
        self.blocks();
    }

    /// The next segment for a job: its own next one, else the middle of the largest share left.
    fn next(&self, job: usize) -> Option<usize> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if ranges.get(job)?.is_empty() {
            let largest = ranges.iter_mut().max_by_key(|range| range.len())?;
            // The lower half stays with whoever has come near it.
            let middle = largest.start + largest.len() / 2;
            let taken = middle..largest.end;
            largest.end = middle;
            *ranges.get_mut(job)? = taken;
        }
        ranges.get_mut(job)?.next()
    }

    fn segment(&self, history: &mut History, segment: &Segment) -> Result<(u64, Option<End>), MachineError> {
        history.verify_segment(segment, |steps| {
            self.done.fetch_add(steps, Ordering::Relaxed);
            !self.cancelled.load(Ordering::Relaxed)
        })
    }

    /// Checks blocks of the store, as long as there are any.
    fn blocks(&self) {
        let store = self.recorded.checkpoints().store();
        loop {
            let first = self.frames.fetch_add(FRAMES, Ordering::Relaxed);
            if first >= self.frames_end || self.cancelled.load(Ordering::Relaxed) {
                return;
            }
            for frame in first..self.frames_end.min(first + FRAMES) {
                let checked = store.check_frame(frame);
                let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                match checked {
                    Ok(blocks) => found.report.blocks += blocks as u64,
                    Err(error) => found.blocks.push(error.into()),
                }
            }
        }
    }
}

impl History {
    /// Replays a segment; how many events it has, and the recording's end if it is the last one. `shown` is told of steps
    /// made, and says whether to go on.
    fn verify_segment(
        &mut self,
        segment: &Segment,
        mut shown: impl FnMut(u64) -> bool,
    ) -> Result<(u64, Option<End>), MachineError> {
        self.restore_anchor(segment.from)?;
        let before = self.machine.door_position();
        while self.machine.icount() < segment.to {
            let at = self.machine.icount();
            self.replay_to(segment.to.min(at.saturating_add(STRETCH)))?;
            if !shown(self.machine.icount().since(at)) {
                return Err(MachineError::Interrupted);
            }
        }
        if let Some(root) = segment.root
            && self.root()? != root
        {
            return Err(MachineError::Root { at: segment.to });
        }
        let end = if segment.last { self.check_end()? } else { None };
        let position = self.machine.door_position();
        let events = position.inputs + position.effects - before.inputs - before.effects;
        Ok((events, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(lengths: &[u64]) -> Vec<Segment> {
        let mut from = 0;
        lengths
            .iter()
            .map(|length| {
                let segment = Segment {
                    from: Icount(from),
                    to: Icount(from + length),
                    root: None,
                    last: false,
                };
                from += length;
                segment
            })
            .collect()
    }

    #[test]
    fn shares_hold_every_segment_once() {
        for (lengths, jobs) in [
            (&[1, 1, 1, 1, 1][..], 2),
            (&[100, 1, 1, 1], 3),
            (&[0, 0, 7], 2),
            (&[5], 1),
        ] {
            let shares = shares(&segments(lengths), jobs);
            let mut all: Vec<usize> = shares.iter().cloned().flatten().collect();
            all.sort_unstable();
            assert_eq!(
                all,
                (0..lengths.len()).collect::<Vec<_>>(),
                "{lengths:?} {shares:?}"
            );
        }
    }

    #[test]
    fn shards_hold_every_position_once() {
        for (length, of) in [(10, 3), (1, 4), (u64::MAX, 7)] {
            let mut next = 0;
            for index in 0..of {
                let own = Shard { index, of }.of(length);
                assert_eq!(own.start, next);
                next = own.end;
            }
            assert_eq!(next, length);
        }
    }
}
