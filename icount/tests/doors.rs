//! A toy machine behind the doors: what was recorded replays to the same state, from power-on and
//! from any snapshot, and the first difference is reported exactly.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::{
    Body, Clock, DebuggerWrite, Divergence, Door, DoorError, Due, Effect, End, Event, Icount, Idle, Input,
    LogPosition, LogReader, LogWriter, Ready, Recording, Replaying, ScriptedDoor, VirtualTime,
};
use proptest::prelude::*;

/// A machine that keeps the rules of a boundary and mixes everything that it sees into one number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toy {
    at: Icount,
    clock: Clock,
    state: u64,
    deadline: Option<VirtualTime>,
    waiting: bool,
    position: LogPosition,
}

/// Why the toy stopped.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    Limit,
    Off,
    Forever,
    Ended,
}

impl Toy {
    fn new(seed: u64, ns: u64) -> Self {
        Self {
            at: Icount::ZERO,
            clock: Clock::new(NonZeroU64::new(ns).unwrap()),
            state: seed,
            deadline: None,
            waiting: false,
            position: LogPosition::default(),
        }
    }

    fn mix(&mut self, value: u64) {
        self.state = (self.state ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_add(1);
    }

    fn now(&self) -> VirtualTime {
        self.clock.now(self.at)
    }

    fn effect(&mut self, door: &mut impl Door, effect: Effect) -> Result<(), DoorError> {
        let hart = (self.state >> 60) as u8 & 1;
        door.effect(self.at, self.now(), hart, &effect)
    }

    /// Deadlines and inputs of this boundary.
    fn boundary(&mut self, door: &mut impl Door) -> Result<(), DoorError> {
        if self.deadline.is_some_and(|deadline| deadline <= self.now()) {
            self.effect(door, Effect::Line { line: 7, level: true })?;
            self.deadline = None;
            self.waiting = false;
            self.mix(self.now().0);
        }
        let ready = Ready {
            console: self.state & 3 != 0 || self.waiting,
            ..Ready::default()
        };
        while let Some(input) = door.input(self.at, self.now(), ready)? {
            match input {
                Input::Console { byte, .. } => {
                    self.mix(byte.into());
                    self.waiting = false;
                    self.effect(
                        door,
                        Effect::Line {
                            line: 10,
                            level: byte & 1 == 1,
                        },
                    )?;
                }
                other => self.apply(&other),
            }
        }
        Ok(())
    }

    fn apply(&mut self, input: &Input) {
        match input {
            Input::Debugger(DebuggerWrite::Memory { addr, bytes }) => {
                self.mix(*addr);
                bytes.iter().for_each(|&byte| self.mix(byte.into()));
            }
            Input::Reset => self.mix(0xdead),
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self, door: &mut impl Door) -> Result<Option<Stop>, DoorError> {
        let draw = self.state >> 40 & 0xff;
        let (value, now) = (self.state & 0xfff, self.now());
        match draw {
            0..=9 => self.effect(
                door,
                Effect::ConsoleOut {
                    port: 0,
                    byte: value as u8,
                },
            )?,
            10..=29 => {
                let addr = 0x1000_0000 + (value & 7);
                self.effect(
                    door,
                    Effect::Mmio {
                        write: value & 8 != 0,
                        addr,
                        size: 1,
                        value,
                    },
                )?;
            }
            30..=34 => self.deadline = Some(VirtualTime(now.0 + value)),
            35..=37 => {
                self.waiting = true;
                if self.deadline.is_none() && value & 0x3f != 0 {
                    self.deadline = Some(VirtualTime(now.0 + value));
                }
            }
            38..=42 => {
                let data = door.disk_block(self.at, now, 0, value & 15)?;
                let (addr, digest) = (0x8000_0000 + value, icount::digest(&data));
                self.effect(
                    door,
                    Effect::Dma {
                        write: true,
                        addr,
                        len: 4096,
                        digest,
                    },
                )?;
                self.mix(digest);
            }
            43 if value < 40 => {
                self.effect(door, Effect::PowerOff { code: value as u32 })?;
                self.at.0 += 1;
                return Ok(Some(Stop::Off));
            }
            _ => {}
        }
        self.mix(now.0);
        self.at.0 += 1;
        Ok(None)
    }

    /// Runs to the observe point of `limit`, calling `look` at every boundary.
    fn run(
        &mut self,
        door: &mut impl Door,
        limit: Icount,
        mut look: impl FnMut(&mut Self, &mut dyn Door),
    ) -> Result<Stop, DoorError> {
        loop {
            self.position = door.position();
            door.progress(self.at, self.now(), self.at.0 % 100 == 99)?;
            if self.at == limit {
                return Ok(Stop::Limit);
            }
            look(self, door);
            self.boundary(door)?;
            while self.waiting {
                match door.idle(self.at, self.now(), self.deadline)? {
                    Idle::Until(time) => self.clock.skip_to(self.at, time),
                    Idle::Forever => return Ok(Stop::Forever),
                    Idle::Ended => return Ok(Stop::Ended),
                }
                self.boundary(door)?;
            }
            if let Some(stop) = self.step(door)? {
                self.position = door.position();
                return Ok(stop);
            }
        }
    }
}

fn in_temp() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    (folder, path)
}

fn live(keys: &[(u64, u8)]) -> ScriptedDoor {
    let image = (0..40_000u32).map(|n| (n / 7) as u8).collect();
    keys.iter()
        .fold(ScriptedDoor::new().drive(0, image), |door, &(when, byte)| {
            let due = if when % 2 == 0 {
                Due::At(Icount(when))
            } else {
                Due::Time(VirtualTime(when))
            };
            door.typing(due, &[byte])
        })
}

struct Recorded {
    /// The toy at every observe point.
    states: Vec<Toy>,
    last: Toy,
    stop: Stop,
}

/// Records a run of at most 2000 steps, with a debugger's write at boundary 50.
fn record(path: &Path, seed: u64, ns: u64, keys: &[(u64, u8)], close: bool) -> Recorded {
    let log = LogWriter::create(path, NonZeroU64::new(ns).unwrap()).unwrap();
    let mut door = Recording::new(live(keys), log);
    let mut toy = Toy::new(seed, ns);
    let mut states = Vec::new();
    let stop = toy
        .run(&mut door, Icount(2000), |toy, door| {
            states.push(toy.clone());
            // Rule B: inputs stand behind the boundary's deadlines; none may be due here.
            if toy.at.0 % 50 == 0 && toy.deadline.is_none_or(|deadline| deadline > toy.now()) {
                let write = DebuggerWrite::Memory {
                    addr: toy.at.0,
                    bytes: vec![1, 2],
                };
                let input = Input::Debugger(write);
                door.inject(toy.at, toy.now(), &input).unwrap();
                toy.apply(&input);
            }
        })
        .unwrap();
    let end = match stop {
        Stop::Off => End::PowerOff(0),
        Stop::Forever => End::WaitsForever,
        _ => End::Stopped,
    };
    if close {
        door.finish(toy.at, toy.now(), end).unwrap();
    }
    Recorded {
        states,
        last: toy,
        stop,
    }
}

fn replay(path: &Path) -> Replaying {
    Replaying::new(Arc::new(LogReader::open(path).unwrap()))
}

/// Steps, keys that come at an icount (even) or time (odd), in order of when.
fn keys() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((0u64..2500, any::<u8>()), 0..12).prop_map(|mut keys| {
        keys.sort_unstable();
        keys
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_replay_is_the_run(seed in any::<u64>(), ns in 1u64..4, keys in keys(), start in any::<prop::sample::Index>()) {
        let (_folder, path) = in_temp();
        let recorded = record(&path, seed, ns, &keys, true);

        // From power-on, with the state compared at every boundary.
        let mut door = replay(&path);
        let mut toy = Toy::new(seed, ns);
        let mut states = recorded.states.iter();
        // A wait for ever lies behind the last observe point: no limit stands there.
        let forever = recorded.stop == Stop::Forever;
        let limit = if forever { Icount::MAX } else { recorded.last.at };
        let same = |toy: &Toy, stop: &Stop| *toy == recorded.last && *stop == recorded.stop;
        let stop = toy
            .run(&mut door, limit, |toy, _| assert_eq!(Some(&*toy), states.next()))
            .unwrap();
        prop_assert!(same(&toy, &stop));
        prop_assert_eq!(door.position(), door.log().counts());
        prop_assert_eq!(door.uncompared(), 0);
        door.finish(toy.at, toy.now(), End::Stopped).unwrap();

        // From a snapshot in the middle, back and forth with one door.
        for _ in 0..2 {
            let mut toy = start.get(&recorded.states).clone();
            door.seek(toy.position).unwrap();
            let stop = toy.run(&mut door, limit, |_, _| {}).unwrap();
            prop_assert!(same(&toy, &stop));
        }
    }

    #[test]
    fn a_killed_recording_replays_to_its_end(seed in any::<u64>(), keys in keys(), cut in any::<prop::sample::Index>()) {
        let (_folder, path) = in_temp();
        let recorded = record(&path, seed, 1, &keys, false);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..32 + cut.index(whole.len() - 31)]).unwrap();
        let mut door = replay(&path);
        let (end, time, closed) = door.log().end();
        prop_assert_eq!(closed, None);
        let mut toy = Toy::new(seed, 1);
        let stop = toy.run(&mut door, end, |_, _| {}).unwrap();
        // Every logged input came, and the state is that of the recording.
        if stop == Stop::Limit {
            let there = recorded.states.get(end.0 as usize).unwrap_or(&recorded.last);
            prop_assert_eq!(&toy, there);
            prop_assert_eq!(door.uncompared(), door.position().effects.saturating_sub(door.log().counts().effects));
        }
        // Behind the end the replay stops, and does not make up a run.
        let beyond = toy.run(&mut door, Icount(end.0 + 10_000), |_, _| {});
        let stopped = match beyond {
            Ok(stop) => stop != Stop::Limit || recorded.stop != Stop::Limit,
            Err(DoorError::PastEnd { at, .. }) => at > end || (at == end && toy.now() > time),
            // A block that only the lost part of the run has read.
            Err(DoorError::NoDiskBlock { .. } | DoorError::Divergence(_)) => true,
            Err(_) => false,
        };
        prop_assert!(stopped);
    }

    #[test]
    fn the_first_difference_is_reported(seed in any::<u64>(), keys in keys(), when in any::<prop::sample::Index>(), kind in 0..4) {
        let (_folder, path) = in_temp();
        record(&path, seed, 1, &keys, true);
        let log = Arc::new(LogReader::open(&path).unwrap());
        let all: Vec<Event> = log.events_from(Icount::ZERO).unwrap().map(Result::unwrap)
            .filter(|e| !matches!(e.body, Body::Input(Input::DiskBlock { .. }))).collect();
        prop_assume!(!all.is_empty());
        let wrong = when.index(all.len());
        let mut door = Replaying::new(log);
        let mut at = Icount::ZERO;
        // A machine that does what was recorded up to the event `wrong`.
        for event in &all[..wrong] {
            pass(&mut door, event).unwrap();
            at = event.at;
        }
        let expected = all[wrong].clone();
        let other = Effect::Mmio { write: true, addr: 1, size: 2, value: 3 };
        let (result, got) = match kind {
            // Another effect at the same place; on another hart; and one step late.
            0 => (door.effect(expected.at, expected.time, 0, &other), Some(Event::effect(expected.at, expected.time, 0, other))),
            1 | 2 => {
                let Body::Effect(effect) = expected.body else { return Ok(()) };
                let late = u64::from(kind == 2);
                let hart = expected.hart + 1 - late as u8;
                let (at, time) = (Icount(expected.at.0 + late), VirtualTime(expected.time.0 + late));
                (door.effect(at, time, hart, &effect), Some(Event::effect(at, time, hart, effect)))
            }
            // It never comes.
            _ => {
                let (next, time) = (Icount(expected.at.0 + 1), VirtualTime(expected.time.0 + 1));
                prop_assert!(door.progress(expected.at.max(at), expected.time, true).is_ok());
                (door.progress(next, time, false), None)
            }
        };
        let Err(DoorError::Divergence(found)) = result else { panic!("{result:?}") };
        let Divergence { expected: recorded, got: replayed, before, .. } = *found;
        prop_assert_eq!(recorded, Some(expected));
        prop_assert_eq!(replayed, got);
        prop_assert_eq!(&before, &all[wrong.saturating_sub(16)..wrong]);
    }
}

/// Does what was recorded.
fn pass(door: &mut Replaying, event: &Event) -> Result<(), DoorError> {
    match &event.body {
        Body::Effect(effect) => door.effect(event.at, event.time, event.hart, effect),
        Body::Input(input) => {
            assert_eq!(door.next_input(), Some((event.at, event.time)));
            let found = door.input(event.at, event.time, Ready::default())?;
            assert_eq!(found.as_ref(), Some(input));
            Ok(())
        }
    }
}

#[test]
fn a_changed_machine_diverges_where_it_changed() {
    let (_folder, path, seed, recorded) = (0..)
        .map(|seed| {
            let (folder, path) = in_temp();
            let recorded = record(&path, seed, 1, &[(300, b'x')], true);
            (folder, path, seed, recorded)
        })
        .find(|(.., recorded)| recorded.last.at.0 > 1000)
        .unwrap();
    let mut door = replay(&path);
    let mut toy = Toy::new(seed, 1);
    let flip = recorded.last.at.0 / 2;
    let error = toy
        .run(&mut door, recorded.last.at, |toy, _| {
            if toy.at.0 == flip {
                toy.state ^= 1;
            }
        })
        .unwrap_err();
    let DoorError::Divergence(found) = error else {
        panic!("{error}")
    };
    assert!(found.at.0 >= flip && found.at.0 < flip + 100, "{found}");
    assert_ne!(found.expected, found.got);
    assert_eq!(found.before.len(), 16);
    assert!(found.to_string().contains("recorded: "));
}

#[test]
fn an_effect_ahead_of_a_due_input_diverges() {
    let (_folder, path) = in_temp();
    let log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let mut door = Recording::new(ScriptedDoor::new().typing(Due::At(Icount(5)), b"k"), log);
    let ready = Ready {
        console: true,
        key: true,
        virtio_console: true,
        frames: 1,
    };
    let (at, time) = (Icount(5), VirtualTime(5));
    assert_eq!(door.input(Icount(4), VirtualTime(4), ready).unwrap(), None);
    assert_eq!(door.input(at, time, Ready::default()).unwrap(), None, "no room");
    let key = Input::Console { port: 0, byte: b'k' };
    assert_eq!(door.input(at, time, ready).unwrap(), Some(key.clone()));
    let effect = Effect::Line {
        line: 10,
        level: true,
    };
    door.effect(at, time, 0, &effect).unwrap();
    door.finish(Icount(6), VirtualTime(6), End::Stopped).unwrap();

    let mut door = replay(&path);
    assert_eq!(door.next_input(), Some((at, time)));
    let DoorError::Divergence(found) = door.effect(at, time, 0, &effect).unwrap_err() else {
        panic!("not a divergence");
    };
    assert_eq!(found.expected, Some(Event::input(at, time, key.clone())));
    // Nothing was consumed: the right order still goes through.
    assert_eq!(door.input(at, time, Ready::default()).unwrap(), Some(key.clone()));
    door.effect(at, time, 0, &effect).unwrap();

    // An input whose place is passed is missed, at its icount or later.
    let mut door = replay(&path);
    for (at, time) in [(5, 6), (6, 6)] {
        let result = door.input(Icount(at), VirtualTime(time), ready);
        let Err(DoorError::Divergence(found)) = result else {
            panic!("{result:?}")
        };
        assert_eq!(
            (found.expected, found.got),
            (Some(Event::input(Icount(5), VirtualTime(5), key.clone())), None)
        );
    }
    assert!(matches!(
        door.inject(at, time, &key),
        Err(DoorError::Refused { .. })
    ));
    assert!(matches!(
        door.seek(LogPosition {
            inputs: 1,
            effects: 9
        }),
        Err(DoorError::Log(icount::LogError::NoPosition { .. }))
    ));
    assert!(
        door.seek(LogPosition {
            inputs: 1,
            effects: 0
        })
        .is_ok()
    );
}

#[test]
fn a_disk_block_is_read_once_and_replays_without_the_image() {
    let (_folder, path) = in_temp();
    let log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let image: Vec<u8> = (0..5000u32).map(|n| (n % 251) as u8).collect();
    let mut door = Recording::new(ScriptedDoor::new().drive(2, image.clone()), log);
    let first = door.disk_block(Icount(1), VirtualTime(1), 2, 1).unwrap();
    assert_eq!(
        (&first[..904], first[904..].iter().any(|&b| b != 0)),
        (&image[4096..], false)
    );
    // The image changes under the run; the run does not see it.
    *door.live() = ScriptedDoor::new().drive(2, vec![0xff; 8192]);
    assert_eq!(door.disk_block(Icount(9), VirtualTime(9), 2, 1).unwrap(), first);
    assert!(matches!(
        door.disk_block(Icount(9), VirtualTime(9), 3, 1),
        Err(DoorError::NoDiskBlock { drive: 3, block: 1 })
    ));
    door.finish(Icount(10), VirtualTime(10), End::Stopped).unwrap();
    let mut door = replay(&path);
    assert_eq!(door.log().disk_blocks(), 1);
    assert_eq!(door.disk_block(Icount(1), VirtualTime(1), 2, 1).unwrap(), first);
    let error = door.disk_block(Icount(1), VirtualTime(1), 2, 0).unwrap_err();
    assert!(matches!(error, DoorError::Divergence(_)), "{error}");
}
