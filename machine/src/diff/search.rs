//! The first step that two replays execute differently: chunks first, then step by step.

use std::path::Path;

use icount::{Body, Effect, Event, Icount};
use snapshot::Replay;

use super::events::Logs;
use super::report::Parting;
use super::state::{self, Known, Step, differences, instruction, same_harts, step};
use super::touched::Touched;
use super::{Failed, Options, blame};
use crate::error::MachineError;
use crate::history::{History, Saved};
use crate::machine::{FirstStep, Machine, Stopped};
use crate::stops::Stops;

/// Steps between comparisons, at first and at most.
pub(crate) const CHUNKS: (u64, u64) = (1 << 14, 1 << 22);
/// Steps that are run one by one before they are compared.
const BLOCK: u64 = 1 << 13;
/// Steps before the chunk that differs that are looked at one by one too: a difference that vanished
/// again before a chunk ended is found if it is no further back.
const EXACT: u64 = 1 << 22;
/// Steps between words of progress.
pub(crate) const TELL: u64 = 1 << 28;
/// Events of a step that are reported.
const EVENTS: usize = 8;

/// What makes a step different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Criterion {
    /// Registers, time, turn and memory.
    Registers,
    /// Program counters and turn.
    Flow,
}

/// A step that differs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The boundary before it.
    pub at: Icount,
    /// From where on every step was compared.
    pub exact_from: Icount,
}

/// Two replays side by side.
pub(crate) struct Search<'a> {
    pub sides: [History; 2],
    pub paths: [&'a Path; 2],
    pub known: Known,
    pub criterion: Criterion,
    /// The boundary before a step of which it is known that it differs, by its effects.
    pub part: Option<Icount>,
    /// If they start equal: the first difference of what was recorded. Equal states with equal inputs stay equal,
    /// so that nothing before it has to be looked at.
    pub alike_until: Option<Icount>,
    /// If they start at the first position of both, with what differs there known: up to where their events are equal.
    pub touch_until: Option<Icount>,
    pub end: Icount,
}

impl Search<'_> {
    /// Runs both from `start`, a snapshot of both, and finds the first step that differs.
    pub fn first_step(
        &mut self,
        start: Icount,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<Found>, Failed> {
        let mut start = start;
        self.both(|side| seek(side, start))?;
        if let Some(alike) = self
            .alike_until
            .map(|at| at.min(self.end))
            .filter(|at| *at > start)
        {
            progress(&format!("running both to icount {alike}"));
            self.both(|side| run(side, alike))?;
            if self.differ()? {
                self.both(|side| seek(side, start))?;
            } else {
                start = alike;
            }
        }
        if let Some(until) = self
            .touch_until
            .filter(|_| self.criterion == Criterion::Registers)
        {
            match self.first_touch(start, until.min(self.end), progress)? {
                Touched::Step(found) => return Ok(Some(found)),
                Touched::NoneBefore(at) => start = at,
            }
        }
        let mut chunk = CHUNKS.0;
        let mut low = start;
        let mut told = start;
        let parted = self.part.map(|part| part.saturating_add(1));
        while low < self.end {
            if low.since(told) >= TELL {
                told = low;
                progress(&format!("running both, at icount {low}"));
            }
            let saved = self.save()?;
            let high = self.end.min(low.saturating_add(chunk));
            let high = parted.map_or(high, |parted| parted.min(high));
            self.both(|side| run(side, high))?;
            if parted == Some(high) || self.differ()? {
                let from = start.max(low.saturating_sub(EXACT));
                progress(&format!("step by step from icount {from} on"));
                if from < low {
                    self.both(|side| seek(side, from))?;
                } else {
                    self.restore(&saved)?;
                }
                return self.exactly(from, high).map(Some);
            }
            low = high;
            chunk = (chunk * 2).min(CHUNKS.1);
        }
        Ok(None)
    }

    /// Both stand at `from` and are equal; at `to` they differ, or the last step's effects do.
    fn exactly(&mut self, from: Icount, to: Icount) -> Result<Found, Failed> {
        let found = |at| Found { at, exact_from: from };
        let mut at = from;
        while at < to {
            let saved = self.save()?;
            let next = to.min(at.saturating_add(BLOCK));
            let criterion = self.criterion;
            let [a, b] = self.both(|side| digests(side.machine_mut(), next, criterion))?;
            let parts = a.iter().zip(&b).position(|(x, y)| x != y);
            let shorter = a.len().min(b.len());
            if let Some(index) = parts.or((a.len() != b.len()).then_some(shorter)) {
                return Ok(found(Icount(at.0 + index as u64)));
            }
            if self.differ()? {
                // What has no register, or memory alone: it is in the block, and stays.
                let (mut low, mut high) = (at, next);
                while high.0 - low.0 > 1 {
                    let middle = Icount(low.0 + (high.0 - low.0) / 2);
                    self.restore(&saved)?;
                    self.both(|side| run(side, middle))?;
                    if self.differ()? {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                return Ok(found(low));
            }
            at = next;
        }
        if let Some(part) = self.part.filter(|part| part.0 + 1 == to.0) {
            return Ok(found(part));
        }
        // It differed at the end of the chunk when it was run at full speed.
        let text =
            format!("the replay from icount {from} to {to} is not the same when it is run step by step");
        Err(blame(self.paths[0])(MachineError::Recording(text)))
    }

    /// Whether they differ where they stand.
    pub fn differ(&mut self) -> Result<bool, Failed> {
        let [a, b] = &mut self.sides;
        let (a, b) = (a.machine_mut(), b.machine_mut());
        if self.criterion == Criterion::Flow {
            return Ok(flow(a) != flow(b));
        }
        if !same_harts(a, b) {
            return Ok(true);
        }
        let (_, pages) = state::memory(a, b, &self.known).map_err(blame(self.paths[0]))?;
        Ok(pages > 0)
    }

    /// All about the step that differs.
    pub fn describe(&mut self, found: Found, logs: &Logs, context: u64) -> Result<Parting, Failed> {
        let at = found.at;
        let begin = at.saturating_sub(context);
        self.both(|side| seek(side, begin))?;
        let [steps, _] = self.both(|side| {
            let mut steps = Vec::new();
            while side.position() < at {
                steps.extend(step(side.machine_mut())?);
            }
            Ok(steps)
        })?;
        let [a, b] = self.both(|side| Ok(last(side.machine_mut())))?;
        let mut parting = Parting {
            at,
            a: a?,
            b: b?,
            common: steps,
            differences: Default::default(),
            events: Default::default(),
        };
        let [x, y] = &mut self.sides;
        parting.differences =
            differences(x.machine_mut(), y.machine_mut(), &self.known).map_err(blame(self.paths[0]))?;
        let options = Options::default();
        let at_step = |which: usize| -> Result<Vec<Event>, Failed> {
            let events = logs.events(which, at, &options)?;
            events
                .take(EVENTS)
                .take_while(|e| e.as_ref().map_or(true, |e| e.at == at))
                .collect()
        };
        parting.events = [at_step(0)?, at_step(1)?];
        name_interrupts(&mut parting.common, logs.events(0, begin, &options)?)?;
        for (which, step) in [(0, &mut parting.a), (1, &mut parting.b)] {
            let steps = step.as_mut_slice();
            name_interrupts(steps, logs.events(which, at, &options)?)?;
        }
        Ok(parting)
    }

    fn save(&mut self) -> Result<[Saved; 2], Failed> {
        self.both(Replay::save)
    }

    fn restore(&mut self, saved: &[Saved; 2]) -> Result<(), Failed> {
        for ((side, saved), path) in self.sides.iter_mut().zip(saved).zip(self.paths) {
            side.restore(saved).map_err(blame(path))?;
        }
        Ok(())
    }

    /// Does the same with both, at the same time.
    pub fn both<T: Send>(
        &mut self,
        f: impl Fn(&mut History) -> Result<T, MachineError> + Sync,
    ) -> Result<[T; 2], Failed> {
        let [a, b] = &mut self.sides;
        let (x, y) = std::thread::scope(|scope| {
            let other = scope.spawn(|| f(b));
            let x = f(a);
            (x, other.join())
        });
        let y = match y {
            Ok(y) => y,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok([x.map_err(blame(self.paths[0]))?, y.map_err(blame(self.paths[1]))?])
    }
}

/// Gives steps that were interrupts their names.
fn name_interrupts(
    steps: &mut [Step],
    events: impl Iterator<Item = Result<Event, Failed>>,
) -> Result<(), Failed> {
    let Some(last) = steps.last().map(|s| s.icount) else {
        return Ok(());
    };
    for event in events {
        let event = event?;
        if event.at > last {
            break;
        }
        if let Body::Effect(Effect::Interrupt { cause }) = event.body
            && let Some(step) = steps.iter_mut().find(|s| s.icount == event.at)
        {
            step.text = format!("(interrupt, cause {cause})");
        }
    }
    Ok(())
}

/// The step that differs, as one of them makes it; a step that does not come is told by the instruction.
fn last(machine: &mut Machine) -> Result<Vec<Step>, Failed> {
    let (icount, hart) = (machine.icount(), machine.current_hart());
    let (pc, text) = instruction(machine, hart);
    let made = step(machine).ok().flatten();
    Ok(vec![made.unwrap_or(Step {
        icount,
        hart,
        pc,
        text: format!("(not made) {text}"),
    })])
}

/// Brings a replay to a position of its recording.
pub(crate) fn seek(side: &mut History, at: Icount) -> Result<(), MachineError> {
    let anchor = side.anchor(at);
    side.restore_anchor(anchor)?;
    run(side, at)
}

/// Runs a replay on to a position of its recording.
pub(crate) fn run(side: &mut History, at: Icount) -> Result<(), MachineError> {
    while side.position() < at {
        let stopped = side.machine_mut().run(at, &Stops::default(), FirstStep::Counts)?;
        match stopped {
            Stopped::Reached => {}
            Stopped::Interrupted => return Err(MachineError::Interrupted),
            other => {
                return Err(MachineError::Short {
                    at: side.position(),
                    end: side.end(),
                    why: format!("{other:?}"),
                });
            }
        }
    }
    Ok(())
}

/// A number for each step up to `to`.
fn digests(machine: &mut Machine, to: Icount, criterion: Criterion) -> Result<Vec<u64>, MachineError> {
    let mut all = Vec::with_capacity((to.0 - machine.icount().0) as usize);
    let stops = Stops::default();
    while machine.icount() < to {
        let next = Icount(machine.icount().0 + 1);
        match machine.run(next, &stops, FirstStep::Counts)? {
            Stopped::Reached => {}
            Stopped::Interrupted => return Err(MachineError::Interrupted),
            Stopped::End(_) | Stopped::Hit(_) => break,
        }
        all.push(match criterion {
            Criterion::Registers => state::digest(machine),
            Criterion::Flow => flow(machine),
        });
    }
    Ok(all)
}

/// Where the hart that has the turn is.
fn flow(machine: &Machine) -> u64 {
    let hart = machine.current_hart();
    let pc = machine.hart(hart).map_or(0, |cpu| cpu.pc());
    pc.rotate_left(8) ^ u64::from(hart)
}
