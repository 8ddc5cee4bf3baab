//! What a resume does to the timeline, and what gdb is told of where it ended.
//!
//! A watchpoint's hit is the boundary before the access. RISC-V reports it there, and gdb itself makes the step to
//! see the new value. Backward everything is mirrored: it is reported at the boundary after the access, and gdb
//! itself makes the step back to see the value before. x86 reports the other way round
//! ([`cpu::Cpu::watch_after`](machine::cpu::Cpu::watch_after)): forward after the access, backward before it.
//!
//! On a branch (after a write into history) backward ends at the branch's start and goes on in the recording.

use gdbstub::common::Signal;
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;
use machine::icount::Icount;
use machine::snapshot::Replay;
use machine::{
    Backward, FirstStep, Forward, History, Landed, MachineError, Stop, Stops, Timeline, TimelineError,
};

use crate::target::{Action, Target, chain, tid};

/// Where a resume ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// At a breakpoint or a watchpoint.
    Hit(Stop),
    /// After (backward: before) a step of this hart.
    Stepped(u8),
    /// At the beginning of history.
    Begin,
    /// At the end of the recording or of the guest.
    End,
    /// Somebody interrupted.
    Interrupted,
}

pub(crate) type Outcome<T> = Result<T, TimelineError<MachineError>>;

/// A run that an interrupt ended inside of the machine is one that was interrupted.
pub(crate) fn interruptible<T>(outcome: Outcome<T>, interrupted: T) -> Outcome<T> {
    match outcome {
        Err(TimelineError::Machine(MachineError::Interrupted)) => Ok(interrupted),
        other => other,
    }
}

/// Leaves the branch for the recording, one step before it began. `false`: it began at the beginning.
pub(crate) fn leave_branch(timeline: &mut Timeline<History>) -> Outcome<bool> {
    let Some(at) = timeline.machine().branched_at() else {
        return Ok(true);
    };
    let Some(before) = at.checked_sub(1) else {
        return Ok(false);
    };
    // What was saved on the branch means nothing to the recording.
    timeline.forget_from(at);
    loop {
        let landed = timeline.seek(before);
        if timeline.machine().branched_at().is_none() {
            timeline.forget_from(at);
        }
        // Between the two nothing can stay; this is short.
        if landed? != Landed::Interrupted {
            return Ok(true);
        }
    }
}

impl Target<'_> {
    /// Does what gdb asked for, and says how it ended; `None`: it was interrupted.
    pub fn travel(&mut self, action: Action) -> Option<MultiThreadStopReason<u64>> {
        if matches!(action, Action::Continue(_) | Action::ReverseContinue) {
            self.watches.forget_deleted();
        }
        self.explore();
        self.console.open();
        self.inbox.begin_run();
        let outcome = match action {
            Action::Continue(harts) => self.proceed(harts),
            Action::Step(hart) => self.step(hart),
            Action::Range(hart, start, end) => self.step_range(hart, start, end),
            Action::ReverseContinue => self.reverse_continue(),
            Action::ReverseStep(hart) => self.reverse_step(hart),
        };
        self.inbox.end_run();
        let reason = match interruptible(outcome, Arrived::Interrupted) {
            Ok(arrived) => self.reason(arrived),
            Err(error) => {
                self.console.print(&format!("tickback: {}\n", chain(&error)));
                self.stopped = self.current();
                let tid = tid(self.stopped);
                Some(MultiThreadStopReason::SignalWithThread {
                    tid,
                    signal: Signal::SIGABRT,
                })
            }
        };
        self.console.close();
        reason
    }

    /// Keeps how far a branch has been run; to be called before the machine goes anywhere.
    pub fn explore(&mut self) {
        let here = self.timeline.position();
        self.explored = self.timeline.machine().branched_at().map(|from| {
            let before = self.explored.filter(|(start, _)| *start == from);
            (from, before.map_or(here, |(_, far)| far.max(here)))
        });
    }

    /// The stop that gdb is told of after an interrupt.
    pub fn interrupted(&mut self) -> MultiThreadStopReason<u64> {
        self.stopped = self.current();
        let tid = tid(self.stopped);
        MultiThreadStopReason::SignalWithThread {
            tid,
            signal: Signal::SIGINT,
        }
    }

    fn reason(&mut self, arrived: Arrived) -> Option<MultiThreadStopReason<u64>> {
        self.stopped = match arrived {
            Arrived::Hit(stop) => stop.hart(),
            Arrived::Stepped(hart) => hart,
            Arrived::Begin | Arrived::End | Arrived::Interrupted => self.current(),
        };
        let tid = tid(self.stopped);
        let trap = MultiThreadStopReason::SignalWithThread {
            tid,
            signal: Signal::SIGTRAP,
        };
        Some(match arrived {
            Arrived::Interrupted => return None,
            Arrived::Stepped(_) | Arrived::Hit(Stop::Hart(_)) => trap,
            Arrived::Begin => MultiThreadStopReason::ReplayLog {
                tid: Some(tid),
                pos: ReplayLogPosition::Begin,
            },
            Arrived::End => {
                if let Some(end) = self.timeline.machine().machine().ended() {
                    self.console.print(&format!("tickback: {end}\n"));
                }
                MultiThreadStopReason::ReplayLog {
                    tid: Some(tid),
                    pos: ReplayLogPosition::End,
                }
            }
            Arrived::Hit(Stop::Breakpoint { addr, .. }) => match self.breakpoints.get(&addr) {
                Some([0, _]) => MultiThreadStopReason::HwBreak(tid),
                _ => MultiThreadStopReason::SwBreak(tid),
            },
            Arrived::Hit(stop) => match self.watches.hit(stop) {
                Some(hit) => MultiThreadStopReason::Watch {
                    tid,
                    kind: hit.kind,
                    addr: hit.addr,
                },
                None => trap,
            },
        })
    }

    /// What gdb has set, and maybe steps of one hart.
    fn stops(&self, hart: Option<u8>) -> Stops {
        Stops {
            breakpoints: self.breakpoints.keys().copied().collect(),
            watches: self.watches.conditions(),
            hart,
        }
    }

    fn run(&mut self, stops: &Stops, first: FirstStep, limit: Icount) -> Outcome<Forward<Stop>> {
        let mut forward = self.timeline.forward_continue(stops, first, limit)?;
        let history = self.timeline.machine_mut();
        if forward == Forward::End && history.is_live() && history.machine().ended().is_none() {
            // The end of what was recorded so far, where the live machine waits.
            history.go_live().map_err(TimelineError::Machine)?;
            forward = self.timeline.forward_continue(stops, FirstStep::Counts, limit)?;
        }
        if let Forward::Hit {
            at,
            stop: Stop::Watch { hart, .. },
        } = forward
        {
            if !self.watches_after(hart) {
                self.owed = Some(at);
            } else if self.timeline.step_forward()? == Landed::Interrupted {
                return Ok(Forward::Interrupted);
            }
        }
        Ok(forward)
    }

    /// Whether a watchpoint of a hart is reported after the access.
    fn watches_after(&self, hart: u8) -> bool {
        self.cpu(hart).is_some_and(|cpu| cpu.watch_after())
    }

    fn proceed(&mut self, harts: u8) -> Outcome<Arrived> {
        self.owed = None;
        let stops = self.stops(None);
        let mut first = FirstStep::Counts;
        loop {
            return Ok(match self.run(&stops, first, Icount::MAX)? {
                Forward::Hit { stop, .. } if harts >> stop.hart() & 1 == 0 => {
                    first = FirstStep::Skipped;
                    continue;
                }
                Forward::Hit { stop, .. } => Arrived::Hit(stop),
                Forward::Limit | Forward::End => Arrived::End,
                Forward::Interrupted => Arrived::Interrupted,
            });
        }
    }

    /// One step of whichever hart, which is said to be `hart`'s.
    fn one(&mut self, stops: &Stops, hart: u8) -> Outcome<Arrived> {
        let limit = self.timeline.position().saturating_add(1);
        Ok(match self.run(stops, FirstStep::Counts, limit)? {
            Forward::Hit { stop, .. } => Arrived::Hit(stop),
            Forward::Limit => Arrived::Stepped(hart),
            Forward::End => Arrived::End,
            Forward::Interrupted => Arrived::Interrupted,
        })
    }

    fn step(&mut self, hart: u8) -> Outcome<Arrived> {
        if self.owed.take() == Some(self.timeline.position()) {
            return self.one(&Stops::default(), hart);
        }
        // A hart that steps leaves the breakpoint that it stands at; another one that is at its own stops.
        let mut stops = self.stops(None);
        let pc = self.cpu(hart).map(|cpu| cpu.pc());
        stops.breakpoints.retain(|addr| Some(*addr) != pc);
        if self.hart_count() == 1 {
            stops.breakpoints.clear();
        }
        let arrived = self.one(&stops, hart)?;
        if arrived != Arrived::Stepped(hart) || self.current() == hart {
            return Ok(arrived);
        }
        // It was another hart's step.
        let stops = self.stops(Some(hart));
        Ok(match self.run(&stops, FirstStep::Counts, Icount::MAX)? {
            Forward::Hit {
                stop: Stop::Hart(_), ..
            } => {
                let stops = Stops {
                    breakpoints: Vec::new(),
                    ..self.stops(None)
                };
                self.one(&stops, hart)?
            }
            Forward::Hit { stop, .. } => Arrived::Hit(stop),
            Forward::Limit | Forward::End => Arrived::End,
            Forward::Interrupted => Arrived::Interrupted,
        })
    }

    fn step_range(&mut self, hart: u8, start: u64, end: u64) -> Outcome<Arrived> {
        loop {
            let arrived = self.step(hart)?;
            if arrived != Arrived::Stepped(hart) {
                return Ok(arrived);
            }
            let Some(pc) = self.cpu(hart).map(|cpu| cpu.pc()) else {
                return Ok(arrived);
            };
            if self.breakpoints.contains_key(&pc) {
                return Ok(Arrived::Hit(Stop::Breakpoint { addr: pc, hart }));
            }
            if !(start..end).contains(&pc) {
                return Ok(arrived);
            }
        }
    }

    fn reverse_step(&mut self, hart: u8) -> Outcome<Arrived> {
        let here = self.timeline.position();
        if here == self.timeline.machine().begin() {
            return Ok(Arrived::Begin);
        }
        if self.timeline.machine().branched_at() == Some(here) {
            // The step that was made to get here is the recording's.
            let left = leave_branch(self.timeline)?;
            return Ok(if left {
                Arrived::Stepped(hart)
            } else {
                Arrived::Begin
            });
        }
        if self.owed.take() == Some(here) {
            return self.one_back(hart);
        }
        let settled = !self.timeline.machine().machine().past_observe_point();
        if !(self.hart_count() == 1 || settled && self.current() == hart) {
            return self.reverse_to(&Stops {
                hart: Some(hart),
                ..Stops::default()
            });
        }
        // Mirrored: an access in the step that is undone is reported before it is undone.
        let watches = Stops {
            watches: self.watches.conditions(),
            ..Stops::default()
        };
        if !watches.watches.is_empty() {
            match self.timeline.find_last(here.saturating_sub(1), here, &watches)? {
                Backward::Found { stop, .. } => {
                    if self.watches_after(stop.hart()) {
                        self.one_back(hart)?;
                    } else {
                        self.owed = Some(here);
                    }
                    return Ok(Arrived::Hit(stop));
                }
                Backward::Interrupted => return Ok(Arrived::Interrupted),
                Backward::Begin => {}
            }
        }
        self.one_back(hart)
    }

    fn one_back(&mut self, hart: u8) -> Outcome<Arrived> {
        Ok(match self.timeline.step_back()? {
            Landed::There => Arrived::Stepped(hart),
            Landed::Begin => Arrived::Begin,
            Landed::End => Arrived::End,
            Landed::Interrupted => Arrived::Interrupted,
        })
    }

    fn reverse_continue(&mut self) -> Outcome<Arrived> {
        self.owed = None;
        let stops = self.stops(None);
        self.reverse_to(&stops)
    }

    /// Back to the last hit below here, on the branch first.
    fn reverse_to(&mut self, stops: &Stops) -> Outcome<Arrived> {
        if let Some(start) = self.timeline.machine().branched_at() {
            let arrived = self.reverse_within(stops, start)?;
            if arrived != Arrived::Begin || !leave_branch(self.timeline)? {
                return Ok(arrived);
            }
            match self.timeline.seek(start)? {
                Landed::There => {}
                Landed::Interrupted => return Ok(Arrived::Interrupted),
                Landed::Begin | Landed::End => return Ok(Arrived::End),
            }
        }
        self.reverse_within(stops, Icount::ZERO)
    }

    fn reverse_within(&mut self, stops: &Stops, low: Icount) -> Outcome<Arrived> {
        match self.timeline.reverse_continue(stops, low)? {
            Backward::Found {
                stop: Stop::Hart(hart),
                ..
            } => Ok(Arrived::Stepped(hart)),
            Backward::Found {
                stop: stop @ Stop::Breakpoint { .. },
                ..
            } => Ok(Arrived::Hit(stop)),
            Backward::Found {
                stop: stop @ Stop::Watch { hart, .. },
                ..
            } if self.watches_after(hart) => Ok(Arrived::Hit(stop)),
            Backward::Found {
                stop: stop @ Stop::Watch { .. },
                ..
            } => Ok(match self.timeline.step_forward()? {
                Landed::There => {
                    self.owed = Some(self.timeline.position());
                    Arrived::Hit(stop)
                }
                Landed::Interrupted => Arrived::Interrupted,
                Landed::Begin | Landed::End => Arrived::End,
            }),
            Backward::Begin => Ok(Arrived::Begin),
            Backward::Interrupted => Ok(Arrived::Interrupted),
        }
    }
}
