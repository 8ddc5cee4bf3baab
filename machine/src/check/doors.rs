//! The two doors of a check, and what lies between them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use icount::{
    Display, Divergence, Door, DoorError, Effect, End, Event, Icount, Idle, Input, LogPosition, Ready,
    VirtualTime,
};

/// Events before a difference that are reported.
const EVENTS: usize = 16;

/// What passed the first machine's door.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Effect(Icount, VirtualTime, u8, Effect),
    Input(Icount, VirtualTime, Input),
    Idle(Icount, VirtualTime, Option<VirtualTime>, Idle),
    Disk(u8, u64, Vec<u8>),
}

impl Told {
    fn at(&self) -> Option<Icount> {
        match self {
            Told::Effect(at, ..) | Told::Input(at, ..) | Told::Idle(at, ..) => Some(*at),
            Told::Disk(..) => None,
        }
    }

    fn event(&self) -> Option<Event> {
        match self {
            Told::Effect(at, time, hart, effect) => Some(Event::effect(*at, *time, *hart, *effect)),
            Told::Input(at, time, input) => Some(Event::input(*at, *time, input.clone())),
            Told::Idle(..) | Told::Disk(..) => None,
        }
    }
}

/// What lies between the two doors.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub told: VecDeque<Told>,
    inputs: VecDeque<(Icount, VirtualTime)>,
    /// What the second machine has done since the last mark.
    done: Vec<Told>,
    /// The events before that, for reports.
    before: VecDeque<Event>,
}

impl Queue {
    fn push(&mut self, told: Told) {
        if let Told::Input(at, time, _) = &told {
            self.inputs.push_back((*at, *time));
        }
        self.told.push_back(told);
    }

    fn pop(&mut self) {
        if let Some(told) = self.told.pop_front() {
            if matches!(told, Told::Input(..)) {
                self.inputs.pop_front();
            }
            self.done.push(told);
        }
    }

    /// Both machines are equal here: what was done need not be kept.
    pub fn mark(&mut self) {
        let events = self.done.drain(..).filter_map(|told| told.event());
        self.before.extend(events);
        while self.before.len() > EVENTS {
            self.before.pop_front();
        }
    }

    /// All since the last mark, to be done again.
    pub fn again(&self) -> Queue {
        let mut queue = Queue {
            before: self.before.clone(),
            ..Queue::default()
        };
        self.done
            .iter()
            .chain(&self.told)
            .for_each(|told| queue.push(told.clone()));
        queue
    }

    pub fn last_events(&self) -> Vec<Event> {
        let done = self.done.iter().filter_map(Told::event);
        let all: Vec<Event> = self.before.iter().cloned().chain(done).collect();
        all[all.len().saturating_sub(EVENTS)..].to_vec()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Shared(pub Arc<Mutex<Queue>>);

impl Shared {
    pub fn with<T>(&self, f: impl FnOnce(&mut Queue) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The first machine's door: the real one, and a note of all that passes.
pub(super) struct Leading<D> {
    pub door: D,
    pub queue: Shared,
}

impl<D: Door> Door for Leading<D> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.door.effect(at, time, hart, effect)?;
        self.queue.with(|q| q.push(Told::Effect(at, time, hart, *effect)));
        Ok(())
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        self.door.send(port, frame);
    }

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        let input = self.door.input(at, time, ready)?;
        if let Some(input) = &input {
            self.queue.with(|q| q.push(Told::Input(at, time, input.clone())));
        }
        Ok(input)
    }

    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.door.wants_display(at, time)
    }

    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.door.display(at, time, display);
    }

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.door.next_input()
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        let idle = self.door.idle(at, now, deadline)?;
        self.queue.with(|q| q.push(Told::Idle(at, now, deadline, idle)));
        Ok(idle)
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        let data = self.door.disk_block(at, time, drive, block)?;
        self.queue
            .with(|q| q.push(Told::Disk(drive, block, data.clone())));
        Ok(data)
    }

    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.door.inject(at, time, input)?;
        self.queue.with(|q| q.push(Told::Input(at, time, input.clone())));
        Ok(())
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        self.door.progress(at, time, tick)
    }

    fn position(&self) -> LogPosition {
        self.door.position()
    }

    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.door.seek(position)
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        self.door.finish(at, time, end)
    }
}

/// The second machine's door: what the first one's passed, in its order, and nothing else.
pub(super) struct Following(pub Shared);

impl Following {
    fn diverges(queue: &Queue, at: Icount, time: VirtualTime, hart: u8, got: Option<Event>) -> DoorError {
        DoorError::Divergence(Box::new(Divergence {
            at,
            time,
            hart,
            expected: queue.told.iter().find_map(Told::event),
            got,
            before: queue.last_events(),
        }))
    }

    /// Nothing that the first machine did before boundary `at` may be left.
    fn check_passed(queue: &Queue, at: Icount, time: VirtualTime) -> Result<(), DoorError> {
        match queue.told.front().and_then(Told::at) {
            Some(front) if front < at => Err(Self::diverges(queue, at, time, 0, None)),
            _ => Ok(()),
        }
    }
}

impl Door for Following {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.0.with(|q| match q.told.front() {
            Some(Told::Effect(a, t, h, e)) if (*a, *t, *h, e) == (at, time, hart, effect) => {
                q.pop();
                Ok(())
            }
            _ => {
                let got = Event::effect(at, time, hart, *effect);
                Err(Self::diverges(q, at, time, hart, Some(got)))
            }
        })
    }

    fn send(&mut self, _port: u8, _frame: &[u8]) {}

    fn input(&mut self, at: Icount, time: VirtualTime, _: Ready) -> Result<Option<Input>, DoorError> {
        self.0.with(|q| {
            Self::check_passed(q, at, time)?;
            let Some(Told::Input(a, t, input)) = q.told.front() else {
                return Ok(None);
            };
            if (*a, *t) != (at, time) {
                return Ok(None);
            }
            let input = input.clone();
            q.pop();
            Ok(Some(input))
        })
    }

    fn wants_display(&self, _: Icount, _: VirtualTime) -> bool {
        false
    }

    fn display(&mut self, _: Icount, _: VirtualTime, _: Option<&Display>) {}

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.0.with(|q| q.inputs.front().copied())
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.0.with(|q| match q.told.front() {
            Some(Told::Idle(a, n, d, idle)) if (*a, *n, *d) == (at, now, deadline) => {
                let idle = *idle;
                q.pop();
                Ok(idle)
            }
            _ => Err(Self::diverges(q, at, now, 0, None)),
        })
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        self.0.with(|q| match q.told.front() {
            Some(Told::Disk(d, b, data)) if (*d, *b) == (drive, block) => {
                let data = data.clone();
                q.pop();
                Ok(data)
            }
            _ => {
                let data = Vec::new();
                let got = Event::input(at, time, Input::DiskBlock { drive, block, data });
                Err(Self::diverges(q, at, time, 0, Some(got)))
            }
        })
    }

    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "following",
            what: "take in a new input",
        })
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, _: bool) -> Result<(), DoorError> {
        self.0.with(|q| Self::check_passed(q, at, time))
    }

    fn position(&self) -> LogPosition {
        LogPosition::default()
    }

    fn seek(&mut self, _: LogPosition) -> Result<(), DoorError> {
        Err(DoorError::Refused {
            door: "following",
            what: "go to another position",
        })
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, _: End) -> Result<(), DoorError> {
        self.progress(at, time, false)
    }
}
