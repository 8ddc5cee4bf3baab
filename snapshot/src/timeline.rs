//! The timeline: brings a machine to any position of its history, and searches history both ways. The one place
//! with reverse logic, generic over [`Replay`] so that a toy machine tests it.
//!
//! ```text
//!   anchor (disk)      anchor             rungs (memory)  landing
//!   |------------------|------------------|-----|--|-|----*
//!   ^ searched last                         ^ searched first, each segment forward
//! ```
//!
//! Rules:
//! - A position is reached from the nearest of: the current position, a rung, an anchor. Which one never matters to the result.
//! - Every landing leaves rungs behind it (see `ladder`).
//! - A search backward goes from segment to segment, newest first, and forward within each, remembering the last hit. It then
//!   lands exactly before the step that was hit.
//! - A seek or a search that is interrupted ends where it began. A run forward ends where it was interrupted.
//! - Stop conditions are arguments; nothing of them is kept. Which way round a watchpoint reports is the user's business:
//!   a hit is always the boundary before the step for which the condition holds.
//!
//! Not here: searching segments on several cores.

use icount::Icount;

use crate::ladder::Ladder;
use crate::replay::{FirstStep, Ran, Replay, Scan};

/// What can go wrong on a timeline.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError<E> {
    /// The machine failed.
    #[error(transparent)]
    Machine(E),
    /// A run did not get where history says that it went: the recording is shorter than it claims, or the machine breaks
    /// the contract of [`Replay`].
    #[error("the run was to get to step {wanted} and stands at step {at}; the recording may be cut short")]
    Astray {
        /// The position that was to be reached.
        wanted: Icount,
        /// Where the machine stands.
        at: Icount,
    },
    /// The machine stopped for a condition that nobody set (its bug).
    #[error("the machine stopped at step {at} without a stop condition")]
    Unasked {
        /// Where the machine stands.
        at: Icount,
    },
}

/// Where a seek ended. The machine's position is the answer in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landed {
    /// At the position asked for.
    There,
    /// At the beginning of history, which the position asked for lies before.
    Begin,
    /// At the end of the recording or of the guest, which the position asked for lies behind.
    End,
    /// Interrupted: back where it began.
    Interrupted,
}

/// How a run forward ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward<S> {
    /// Before a step for which a condition holds.
    Hit {
        /// The boundary before the step; the machine stands there.
        at: Icount,
        /// Which condition.
        stop: S,
    },
    /// At the limit.
    Limit,
    /// At the end of the recording or of the guest.
    End,
    /// Interrupted, on the way.
    Interrupted,
}

/// How a search backward ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backward<S> {
    /// Before the last step for which a condition holds.
    Found {
        /// The boundary before the step.
        at: Icount,
        /// Which condition.
        stop: S,
    },
    /// There's no such step in the range.
    Begin,
    /// Interrupted: back where it began.
    Interrupted,
}

/// What a timeline is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Running to a known position.
    Seek,
    /// Searching backward.
    SearchBack,
    /// Running forward to a hit.
    Continue,
}

/// How far it is; reported after each slice of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub doing: Doing,
    /// Where it started: of a search backward the upper end.
    pub from: Icount,
    /// Where it may end: of a search backward the lower end.
    pub to: Icount,
    /// Where the machine stands now.
    pub at: Icount,
}

/// The figures of a timeline.
#[derive(Debug, Clone, Copy)]
pub struct TimelineOptions {
    /// The most bytes that snapshots in memory may hold.
    pub memory: usize,
    /// The steps after which it asks for interrupts and reports progress.
    pub slice: u64,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            slice: 1 << 22,
        }
    }
}

/// A run forward leaves a rung when nothing was saved for so many steps, and keeps the last few of these.
const ROLL: u64 = 10_000_000;
const ROLLING: usize = 4;

/// A search saves at most so many states in a segment, and none in pieces shorter than this.
const PIECES: u64 = 16;
const SHORTEST_PIECE: u64 = 1 << 18;

type Report = Box<dyn FnMut(Progress) + Send>;
type Outcome<T, R> = Result<T, TimelineError<<R as Replay>::Error>>;

/// A machine and its history.
pub struct Timeline<R: Replay> {
    machine: R,
    ladder: Ladder<R::Saved>,
    rolling: Vec<Icount>,
    slice: u64,
    report: Option<Report>,
}

/// How a run without conditions ended.
enum Plain {
    Reached,
    End,
    Interrupted,
}

/// Whether Ctrl-C is heeded; the way home isn't interruptible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Yes,
    No,
}

struct Hit<R: Replay> {
    at: Icount,
    stop: R::Stop,
    /// A state between the segment's start and the hit.
    near: Option<(Icount, R::Saved)>,
}

enum Searched<H> {
    Found(H),
    Nothing,
    Interrupted,
}

impl<R: Replay> Timeline<R> {
    /// A timeline over `machine`, wherever that stands.
    pub fn new(machine: R, options: TimelineOptions) -> Self {
        Self {
            machine,
            ladder: Ladder::new(options.memory),
            rolling: Vec::new(),
            slice: options.slice.max(1),
            report: None,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &R {
        &self.machine
    }

    /// The machine, to read or to configure. Who changes its history from here on must call
    /// [`forget_from`](Self::forget_from).
    pub fn machine_mut(&mut self) -> &mut R {
        &mut self.machine
    }

    /// The machine, without its timeline.
    pub fn into_machine(self) -> R {
        self.machine
    }

    /// Where the machine stands.
    pub fn position(&self) -> Icount {
        self.machine.position()
    }

    /// Calls `report` after each slice of work (of [`TimelineOptions::slice`] steps).
    pub fn on_progress(&mut self, report: impl FnMut(Progress) + Send + 'static) {
        self.report = Some(Box::new(report));
    }

    /// The positions of the snapshots in memory.
    pub fn rungs(&self) -> Vec<Icount> {
        self.ladder.positions().collect()
    }

    /// About how many bytes the snapshots in memory hold.
    pub fn memory(&self) -> usize {
        self.ladder.bytes()
    }

    /// Leaves a snapshot in memory here.
    pub fn mark(&mut self) -> Outcome<(), R> {
        let at = self.position();
        if !self.ladder.contains(at) {
            let saved = self.machine.save().map_err(TimelineError::Machine)?;
            let bytes = R::saved_size(&saved);
            self.ladder.insert(at, saved, bytes);
        }
        Ok(())
    }

    /// Drops the snapshots in memory at `at` and later, because history departs there.
    pub fn forget_from(&mut self, at: Icount) {
        self.ladder.truncate(at);
        self.rolling.retain(|r| *r < at);
    }

    /// Goes to position `n`, or to the end of history on its side.
    pub fn seek(&mut self, n: Icount) -> Outcome<Landed, R> {
        let home = self.position();
        let begin = self.machine.begin();
        if n == home {
            return Ok(Landed::There);
        }
        self.leave()?;
        Ok(match self.go(n.max(begin), Ask::Yes)? {
            Plain::Reached if n < begin => Landed::Begin,
            Plain::Reached => Landed::There,
            Plain::End => Landed::End,
            Plain::Interrupted => {
                self.home(home)?;
                Landed::Interrupted
            }
        })
    }

    /// Goes one step back.
    pub fn step_back(&mut self) -> Outcome<Landed, R> {
        self.back(1)
    }

    /// Goes `n` steps back.
    pub fn back(&mut self, n: u64) -> Outcome<Landed, R> {
        match self.position().checked_sub(n) {
            Some(to) => self.seek(to),
            None => Ok(match self.seek(self.machine.begin())? {
                Landed::There => Landed::Begin,
                other => other,
            }),
        }
    }

    /// Makes one step, on a live run's end a new one.
    pub fn step_forward(&mut self) -> Outcome<Landed, R> {
        let Some(to) = self.position().checked_add(1) else {
            return Ok(Landed::End);
        };
        Ok(match self.run_plain(to, Ask::Yes)? {
            Plain::Reached => Landed::There,
            Plain::End => Landed::End,
            Plain::Interrupted => Landed::Interrupted,
        })
    }

    /// Runs forward to the first hit, to `limit`, or to the end; on a live run beyond what was recorded.
    pub fn forward_continue(
        &mut self,
        stops: &R::Stops,
        mut first: FirstStep,
        limit: Icount,
    ) -> Outcome<Forward<R::Stop>, R> {
        let from = self.position();
        loop {
            let here = self.position();
            if here >= limit {
                return Ok(Forward::Limit);
            }
            let goal = limit.min(here.saturating_add(self.slice));
            match self
                .machine
                .run(goal, stops, first)
                .map_err(TimelineError::Machine)?
            {
                Ran::Hit(stop) => {
                    return Ok(Forward::Hit {
                        at: self.position(),
                        stop,
                    });
                }
                Ran::End => return Ok(Forward::End),
                Ran::Interrupted => return Ok(Forward::Interrupted),
                Ran::Reached => self.check_at(goal)?,
            }
            first = FirstStep::Counts;
            self.roll()?;
            self.tell(Doing::Continue, from, limit);
            if self.machine.interrupted() {
                return Ok(Forward::Interrupted);
            }
        }
    }

    /// Goes back to before the last step below here for which a condition holds, but not below `limit`: then to `limit`
    /// or to the beginning of history.
    pub fn reverse_continue(&mut self, stops: &R::Stops, limit: Icount) -> Outcome<Backward<R::Stop>, R> {
        let home = self.position();
        let low = limit.max(self.machine.begin());
        if low >= home {
            return Ok(Backward::Begin);
        }
        self.leave()?;
        let (to, answer) = match self.search(low, home, stops)? {
            Searched::Found((at, stop)) => (at, Backward::Found { at, stop }),
            Searched::Nothing => (low, Backward::Begin),
            Searched::Interrupted => (home, Backward::Interrupted),
        };
        if matches!(answer, Backward::Interrupted) {
            self.home(home)?;
            return Ok(answer);
        }
        match self.go(to, Ask::Yes)? {
            Plain::Reached => Ok(answer),
            Plain::End => Err(TimelineError::Astray {
                wanted: to,
                at: self.position(),
            }),
            Plain::Interrupted => {
                self.home(home)?;
                Ok(Backward::Interrupted)
            }
        }
    }

    /// The last step for which a condition holds, among those that lead from `low` up to `high`; the machine ends where
    /// it was. (With a condition that a hart makes the step: a hart's last step.)
    pub fn find_last(
        &mut self,
        low: Icount,
        high: Icount,
        stops: &R::Stops,
    ) -> Outcome<Backward<R::Stop>, R> {
        let home = self.position();
        self.leave()?;
        let low = low.max(self.machine.begin());
        let searched = self.search(low, high.min(self.machine.end()), stops);
        self.home(home)?;
        Ok(match searched? {
            Searched::Found((at, stop)) => Backward::Found { at, stop },
            Searched::Nothing => Backward::Begin,
            Searched::Interrupted => Backward::Interrupted,
        })
    }

    /// Before the machine goes elsewhere: saves it if coming back would be a long way, and at the end of history, where a
    /// live run goes on.
    fn leave(&mut self) -> Outcome<(), R> {
        let here = self.position();
        if here == self.machine.end() || here.since(self.saved_below(here)) > self.slice {
            self.mark()?;
        }
        Ok(())
    }

    /// The latest saved position at or below `at`.
    fn saved_below(&self, at: Icount) -> Icount {
        let anchor = self.machine.anchor(at);
        self.ladder.below(at).map_or(anchor, |rung| rung.max(anchor))
    }

    fn home(&mut self, home: Icount) -> Outcome<(), R> {
        match self.go(home, Ask::No)? {
            Plain::Reached => Ok(()),
            Plain::End | Plain::Interrupted => Err(TimelineError::Astray {
                wanted: home,
                at: self.position(),
            }),
        }
    }

    /// Brings the machine to the nearest saved position at or below `n`, unless it stands between.
    fn approach(&mut self, n: Icount) -> Outcome<(), R> {
        let here = self.position();
        let near = self.saved_below(n);
        if here <= n && near <= here {
            return Ok(());
        }
        match self.ladder.at(near) {
            Some(saved) => self.machine.restore(saved),
            None => self.machine.restore_anchor(near),
        }
        .map_err(TimelineError::Machine)?;
        self.check_at(near)
    }

    /// Goes to `n`, leaving rungs on the way.
    fn go(&mut self, n: Icount, ask: Ask) -> Outcome<Plain, R> {
        self.approach(n)?;
        for rung in self.ladder.wanted(self.position(), n) {
            match self.run_plain(rung, ask)? {
                Plain::Reached => self.mark()?,
                other => return Ok(other),
            }
        }
        self.run_plain(n, ask)
    }

    fn run_plain(&mut self, until: Icount, ask: Ask) -> Outcome<Plain, R> {
        let (from, none) = (self.position(), R::Stops::default());
        while self.position() < until {
            let here = self.position();
            let goal = until.min(here.saturating_add(self.slice));
            match self
                .machine
                .run(goal, &none, FirstStep::Skipped)
                .map_err(TimelineError::Machine)?
            {
                Ran::Reached => self.check_at(goal)?,
                Ran::End => return Ok(Plain::End),
                Ran::Hit(_) => return Err(TimelineError::Unasked { at: self.position() }),
                // Not heeded as long as the machine gets on.
                Ran::Interrupted if ask == Ask::No && self.position() > here => continue,
                Ran::Interrupted => return Ok(Plain::Interrupted),
            }
            self.tell(Doing::Seek, from, until);
            if ask == Ask::Yes && self.position() < until && self.machine.interrupted() {
                return Ok(Plain::Interrupted);
            }
        }
        Ok(Plain::Reached)
    }

    /// The last hit in `low`..`high`, segment by segment; the machine is left somewhere.
    fn search(
        &mut self,
        low: Icount,
        high: Icount,
        stops: &R::Stops,
    ) -> Outcome<Searched<(Icount, R::Stop)>, R> {
        let mut end = high;
        while low < end {
            let start = self.saved_below(end.saturating_sub(1)).max(low);
            self.approach(start)?;
            match self.run_plain(start, Ask::Yes)? {
                Plain::Reached => {}
                Plain::End => {
                    return Err(TimelineError::Astray {
                        wanted: start,
                        at: self.position(),
                    });
                }
                Plain::Interrupted => return Ok(Searched::Interrupted),
            }
            match self.search_segment(end, stops, (high, low))? {
                Searched::Nothing => end = start,
                Searched::Found(hit) => {
                    if let Some((at, saved)) = hit.near {
                        let bytes = R::saved_size(&saved);
                        self.ladder.insert(at, saved, bytes);
                    }
                    return Ok(Searched::Found((hit.at, hit.stop)));
                }
                Searched::Interrupted => return Ok(Searched::Interrupted),
            }
        }
        Ok(Searched::Nothing)
    }

    /// Runs from here to `end` and remembers the last hit. Of a long segment it keeps the last state saved before the hit, so
    /// that landing there is short.
    fn search_segment(
        &mut self,
        end: Icount,
        stops: &R::Stops,
        (from, to): (Icount, Icount),
    ) -> Outcome<Searched<Hit<R>>, R> {
        let start = self.position();
        let piece = (end.since(start) / PIECES).max(SHORTEST_PIECE);
        let mut found: Option<Hit<R>> = None;
        let mut near = None;
        let mut piece_end = start.saturating_add(piece);
        while self.position() < end {
            let here = self.position();
            if here >= piece_end {
                near = Some((here, self.machine.save().map_err(TimelineError::Machine)?));
                piece_end = here.saturating_add(piece);
            }
            let goal = end.min(piece_end).min(here.saturating_add(self.slice));
            match self.machine.scan(goal, stops).map_err(TimelineError::Machine)? {
                Scan::Done {
                    last: Some((at, stop)),
                    ..
                } => {
                    found = Some(Hit {
                        at,
                        stop,
                        near: near.clone(),
                    })
                }
                Scan::Done { last: None, .. } => {}
                Scan::Interrupted => return Ok(Searched::Interrupted),
            }
            self.check_at(goal)?;
            self.tell(Doing::SearchBack, from, to);
            if self.machine.interrupted() {
                return Ok(Searched::Interrupted);
            }
        }
        Ok(found.map_or(Searched::Nothing, Searched::Found))
    }

    /// Leaves a rung behind a run forward when the last saved state is far, and drops the one before last.
    fn roll(&mut self) -> Outcome<(), R> {
        let here = self.position();
        if here.since(self.saved_below(here)) >= ROLL {
            self.mark()?;
            self.rolling.push(here);
            if self.rolling.len() > ROLLING {
                let oldest = self.rolling.remove(0);
                self.ladder.remove(oldest);
            }
        }
        Ok(())
    }

    fn check_at(&self, wanted: Icount) -> Outcome<(), R> {
        let at = self.position();
        if at == wanted {
            Ok(())
        } else {
            Err(TimelineError::Astray { wanted, at })
        }
    }

    fn tell(&mut self, doing: Doing, from: Icount, to: Icount) {
        let at = self.position();
        if let Some(report) = &mut self.report {
            report(Progress { doing, from, to, at });
        }
    }
}
