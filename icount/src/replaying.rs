//! The replaying door: inputs come from the log, exactly where they stood, and every effect is
//! compared with it.
//!
//! The recorded order is kept to the last event: an input is handed out only after as many effects
//! as stood before it, and an effect while an input is due is a divergence. Disk blocks are
//! content, found by number, so that the machine may ask again after a restore.
//!
//! A recording that was killed has lost its last effects. Between the last one logged and the end,
//! effects are counted but not compared; [`Replaying::uncompared`] says how many.

use std::sync::Arc;

use crate::log::EffectStream;
use crate::{
    Display, Divergence, Door, DoorError, Effect, End, Event, Icount, Idle, Input, LogPosition, LogReader,
    Ready, VirtualTime,
};

/// How many events before a divergence are reported.
const EVENTS_BEFORE: u64 = 16;

/// Replays a log. Any number of them may share one reader.
#[derive(Clone, Debug)]
pub struct Replaying {
    log: Arc<LogReader>,
    /// The number of the next input.
    inputs: u64,
    effects: EffectStream,
    uncompared: u64,
}

impl Replaying {
    /// A replay from where the log begins.
    #[must_use]
    pub fn new(log: Arc<LogReader>) -> Self {
        let LogPosition { inputs, effects } = log.first_position();
        Self {
            log,
            inputs,
            effects: EffectStream::at(effects),
            uncompared: 0,
        }
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &Arc<LogReader> {
        &self.log
    }

    /// How many effects were accepted that the log has lost.
    #[must_use]
    pub const fn uncompared(&self) -> u64 {
        self.uncompared
    }

    /// What the recording has next.
    fn expected(&mut self) -> Result<Option<Event>, DoorError> {
        let effect = self.effects.peek(&self.log)?;
        match self.log.delivered(self.inputs) {
            Some(entry) if effect.is_none() || entry.stand.effects <= self.effects.next => {
                Ok(Some(self.log.input_event(entry)?))
            }
            _ => Ok(effect.map(|logged| logged.event())),
        }
    }

    fn diverges(&mut self, at: Icount, time: VirtualTime, hart: u8, got: Option<Event>) -> DoorError {
        let expected = match self.expected() {
            Ok(expected) => expected,
            Err(error) => return error,
        };
        let before = self.log.events_before(self.position(), EVENTS_BEFORE);
        DoorError::Divergence(Box::new(Divergence {
            at,
            time,
            hart,
            expected,
            got,
            before,
        }))
    }

    /// Whether the recording ends before this.
    fn is_past_end(&self, at: Icount, time: VirtualTime) -> bool {
        let (end_at, end_time, _) = self.log.end();
        (at, time) > (end_at, end_time)
    }

    /// Nothing that stood before boundary `at` may be left.
    fn check_passed(&mut self, at: Icount, time: VirtualTime) -> Result<(), DoorError> {
        let effect = self.effects.peek(&self.log)?;
        let input = self.log.delivered(self.inputs);
        if effect.is_some_and(|logged| logged.at < at) || input.is_some_and(|entry| entry.stand.at < at) {
            return Err(self.diverges(at, time, 0, None));
        }
        Ok(())
    }
}

impl Door for Replaying {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        let due = self.log.delivered(self.inputs);
        let input_is_due = due.is_some_and(|entry| entry.stand.effects <= self.effects.next);
        let logged = self.effects.peek(&self.log)?;
        if !input_is_due {
            match logged {
                Some(logged) if logged.is(at, time, hart, effect) => {
                    self.effects.pass();
                    return Ok(());
                }
                None if self.is_past_end(at, time) => {
                    return Err(DoorError::PastEnd {
                        at,
                        end: self.log.end().0,
                    });
                }
                None if self.log.lost_effects().is_some() => {
                    self.effects.pass();
                    self.uncompared += 1;
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(self.diverges(at, time, hart, Some(Event::effect(at, time, hart, *effect))))
    }

    fn send(&mut self, _port: u8, _frame: &[u8]) {}

    fn input(&mut self, at: Icount, time: VirtualTime, _ready: Ready) -> Result<Option<Input>, DoorError> {
        self.check_passed(at, time)?;
        let Some(entry) = self.log.delivered(self.inputs) else {
            return Ok(None);
        };
        let stand = entry.stand;
        if stand.at > at || stand.time > time {
            return Ok(None);
        }
        if stand.time < time {
            return Err(self.diverges(at, time, 0, None));
        }
        // Effects that stand before it may still come at this boundary (a deadline's).
        if stand.effects > self.effects.next {
            return Ok(None);
        }
        let input = self.log.input(entry)?;
        self.inputs += 1;
        Ok(Some(input))
    }

    fn wants_display(&self, _: Icount, _: VirtualTime) -> bool {
        false
    }

    fn display(&mut self, _: Icount, _: VirtualTime, _: Option<&Display>) {}

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.log
            .delivered(self.inputs)
            .map(|entry| (entry.stand.at, entry.stand.time))
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.check_passed(at, now)?;
        let input = self.next_input().filter(|&(input_at, _)| input_at == at);
        let next = deadline.into_iter().chain(input.map(|(_, time)| time)).min();
        let (end_at, _, end) = self.log.end();
        match next {
            Some(next) if !self.is_past_end(at, next) => Ok(Idle::Until(next.max(now))),
            // The recording went on, so that its harts can't all have waited for ever.
            None if end_at > at => Err(self.diverges(at, now, 0, None)),
            None if end == Some(End::WaitsForever) => Ok(Idle::Forever),
            _ => Ok(Idle::Ended),
        }
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        if let Some(data) = self.log.disk_block(drive, block)? {
            return Ok(data);
        }
        if self.is_past_end(at, time) {
            return Err(DoorError::NoDiskBlock { drive, block });
        }
        let read = Input::DiskBlock {
            drive,
            block,
            data: Vec::new(),
        };
        Err(self.diverges(at, time, 0, Some(Event::input(at, time, read))))
    }

    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "replaying",
            what: "take in a new input",
        })
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, _tick: bool) -> Result<(), DoorError> {
        self.check_passed(at, time)
    }

    fn position(&self) -> LogPosition {
        LogPosition {
            inputs: self.inputs,
            effects: self.effects.next,
        }
    }

    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.log.check(position)?;
        self.effects.seek(&self.log, position.effects)?;
        self.inputs = position.inputs;
        Ok(())
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, _end: End) -> Result<(), DoorError> {
        self.check_passed(at, time)
    }
}
