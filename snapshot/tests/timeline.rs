//! The timeline on a toy machine of two harts, against brute force: a table of every state and every step, made by
//! running straight from power-on.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use icount::Icount;
use proptest::prelude::*;
use snapshot::{
    Backward, FirstStep, Forward, Landed, Ran, Replay, Scan, Timeline, TimelineError, TimelineOptions,
};

const CELLS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    at: u64,
    pc: [usize; 2],
    cells: [u64; CELLS],
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Made {
    hart: usize,
    pc: usize,
    cell: usize,
}

#[derive(Debug, Clone, Default)]
struct Stops {
    pcs: Vec<usize>,
    cells: Vec<usize>,
    hart: Option<usize>,
}

impl Stops {
    fn holds(&self, made: Made) -> bool {
        self.pcs.contains(&made.pc) || self.cells.contains(&made.cell) || self.hart == Some(made.hart)
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ x >> 31
}

impl State {
    fn new(seed: u64) -> Self {
        Self {
            at: 0,
            pc: [0, 9],
            cells: std::array::from_fn(|i| mix(seed + i as u64)),
        }
    }

    fn next(&self) -> Made {
        let hart = (self.at / 7 % 3 == 2) as usize;
        let pc = self.pc[hart];
        Made {
            hart,
            pc,
            cell: (self.cells[pc] >> 8) as usize % CELLS,
        }
    }

    fn step(&mut self) {
        let made = self.next();
        let value = mix(self.cells[made.cell] ^ self.cells[made.pc].rotate_left(7) ^ self.at);
        self.cells[made.cell] = value;
        self.pc[made.hart] = if value & 7 == 0 {
            value as usize / 8 % CELLS
        } else {
            (made.pc + 1) % CELLS
        };
        self.at += 1;
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no anchor at {0:?}")]
struct NoAnchor(Icount);

struct Toy {
    state: State,
    seed: u64,
    end: u64,
    /// A live machine's end grows.
    live: bool,
    anchors: Vec<(u64, State)>,
    /// Steps made since the test last looked.
    work: u64,
    /// How many more times `interrupted` is asked until it says yes.
    patience: Option<u32>,
    asked: Rc<Cell<u32>>,
    own_scan: bool,
}

impl Toy {
    fn new(seed: u64, end: u64, anchors: &[u64]) -> Self {
        let mut state = State::new(seed);
        let mut kept = vec![(0, state.clone())];
        for at in 1..=end {
            state.step();
            if anchors.contains(&at) {
                kept.push((at, state.clone()));
            }
        }
        Self {
            state,
            seed,
            end,
            live: false,
            anchors: kept,
            work: 0,
            patience: None,
            asked: Rc::default(),
            own_scan: false,
        }
    }
}

impl Replay for Toy {
    type Saved = State;
    type Stop = Made;
    type Stops = Stops;
    type Error = NoAnchor;

    fn position(&self) -> Icount {
        Icount(self.state.at)
    }

    fn begin(&self) -> Icount {
        Icount(0)
    }

    fn end(&self) -> Icount {
        Icount(self.end)
    }

    fn save(&mut self) -> Result<State, NoAnchor> {
        Ok(self.state.clone())
    }

    fn saved_size(_: &State) -> usize {
        1
    }

    fn restore(&mut self, saved: &State) -> Result<(), NoAnchor> {
        self.state = saved.clone();
        Ok(())
    }

    fn anchor(&self, at: Icount) -> Icount {
        Icount(self.anchors.iter().rev().find(|a| a.0 <= at.0).unwrap().0)
    }

    fn restore_anchor(&mut self, at: Icount) -> Result<(), NoAnchor> {
        let found = self.anchors.iter().find(|a| a.0 == at.0).ok_or(NoAnchor(at))?;
        self.state = found.1.clone();
        Ok(())
    }

    fn run(&mut self, until: Icount, stops: &Stops, first: FirstStep) -> Result<Ran<Made>, NoAnchor> {
        assert!(until > self.position());
        let mut exempt = first == FirstStep::Skipped;
        while self.state.at < until.0 {
            let made = self.state.next();
            if !exempt && stops.holds(made) {
                return Ok(Ran::Hit(made));
            }
            exempt = false;
            if self.state.at == self.end {
                if !self.live {
                    return Ok(Ran::End);
                }
                self.end += 1;
            }
            self.state.step();
            self.work += 1;
        }
        Ok(Ran::Reached)
    }

    fn scan(&mut self, until: Icount, stops: &Stops) -> Result<Scan<Made>, NoAnchor> {
        let (mut last, mut count) = (None, 0);
        if self.own_scan {
            while self.state.at < until.0.min(self.end) {
                let made = self.state.next();
                if stops.holds(made) {
                    (last, count) = (Some((self.position(), made)), count + 1);
                }
                self.state.step();
                self.work += 1;
            }
            return Ok(Scan::Done { last, count });
        }
        let mut first = FirstStep::Counts;
        while self.position() < until {
            match self.run(until, stops, first)? {
                Ran::Hit(made) => (last, count) = (Some((self.position(), made)), count + 1),
                Ran::Interrupted => return Ok(Scan::Interrupted),
                Ran::Reached | Ran::End => break,
            }
            first = FirstStep::Skipped;
        }
        Ok(Scan::Done { last, count })
    }

    fn interrupted(&mut self) -> bool {
        self.asked.set(self.asked.get() + 1);
        match &mut self.patience {
            Some(0) => {
                self.patience = None;
                true
            }
            Some(n) => {
                *n -= 1;
                false
            }
            None => false,
        }
    }
}

/// The truth: every state, and what each step did.
struct Truth {
    states: Vec<State>,
    steps: Vec<Made>,
}

impl Truth {
    fn new(seed: u64, end: u64) -> Self {
        let mut states = vec![State::new(seed)];
        let mut steps = Vec::new();
        for _ in 0..end {
            let mut next = states.last().unwrap().clone();
            steps.push(next.next());
            next.step();
            states.push(next);
        }
        Self { states, steps }
    }

    fn last(&self, low: u64, high: u64, stops: &Stops) -> Option<(Icount, Made)> {
        let hit = |n: &u64| stops.holds(self.steps[*n as usize]);
        (low..high)
            .rev()
            .find(hit)
            .map(|n| (Icount(n), self.steps[n as usize]))
    }

    fn first(&self, low: u64, high: u64, stops: &Stops) -> Option<(Icount, Made)> {
        let hit = |n: &u64| stops.holds(self.steps[*n as usize]);
        (low..high).find(hit).map(|n| (Icount(n), self.steps[n as usize]))
    }
}

#[derive(Debug, Clone)]
enum Action {
    Seek(u64),
    Back(u64),
    StepBack(u8),
    StepForward,
    Reverse(Stops, u64),
    Forward(Stops, bool, u64),
    Find(Stops, u64, u64),
    Mark,
    Forget(u64),
    /// The next seek or search is interrupted at its n-th question.
    Interrupt(u32),
}

const END: u64 = 6000;

fn stops() -> impl Strategy<Value = Stops> {
    let one = |n: usize| prop::collection::vec(0..CELLS, 0..n);
    (
        one(3),
        one(2),
        prop_oneof![9 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(1))],
    )
        .prop_map(|(pcs, cells, hart)| Stops { pcs, cells, hart })
}

fn action() -> impl Strategy<Value = Action> {
    let n = 0..END + 200;
    prop_oneof![
        3 => n.clone().prop_map(Action::Seek),
        1 => (0..3000u64).prop_map(Action::Back),
        2 => (1..40u8).prop_map(Action::StepBack),
        1 => Just(Action::StepForward),
        4 => (stops(), prop_oneof![2 => Just(0), 1 => n.clone()]).prop_map(|(s, l)| Action::Reverse(s, l)),
        2 => (stops(), any::<bool>(), n.clone()).prop_map(|(s, f, l)| Action::Forward(s, f, l)),
        2 => (stops(), n.clone(), n.clone()).prop_map(|(s, a, b)| Action::Find(s, a, b)),
        1 => Just(Action::Mark),
        1 => n.prop_map(Action::Forget),
        1 => (0..6u32).prop_map(Action::Interrupt),
    ]
}

fn check(seed: u64, anchors: &[u64], memory: usize, slice: u64, own_scan: bool, actions: &[Action]) {
    let truth = Truth::new(seed, END);
    let mut toy = Toy::new(seed, END, anchors);
    toy.own_scan = own_scan;
    let mut line = Timeline::new(toy, TimelineOptions { memory, slice });
    for action in actions {
        let here = line.position().0;
        // Whether this action was cut short.
        let mut cut = false;
        let armed = line.machine().patience.is_some();
        let expect = match action {
            Action::Seek(n) => {
                let landed = line.seek(Icount(*n)).unwrap();
                cut = landed == Landed::Interrupted;
                assert!(cut || landed == if *n <= END { Landed::There } else { Landed::End });
                (*n).min(END)
            }
            Action::Back(n) => {
                let landed = line.back(*n).unwrap();
                cut = landed == Landed::Interrupted;
                assert!(cut || landed == if *n <= here { Landed::There } else { Landed::Begin });
                here.saturating_sub(*n)
            }
            Action::StepBack(n) => {
                let mut at = here;
                for _ in 0..*n {
                    if line.step_back().unwrap() == Landed::Interrupted {
                        assert_eq!(line.position().0, at);
                    }
                    at = line.position().0;
                    assert_eq!(line.machine().state, truth.states[at as usize]);
                }
                if armed {
                    at
                } else {
                    here.saturating_sub(u64::from(*n))
                }
            }
            Action::StepForward => {
                let landed = line.step_forward().unwrap();
                assert_eq!(landed, if here < END { Landed::There } else { Landed::End });
                (here + 1).min(END)
            }
            Action::Reverse(stops, limit) => {
                let found = line.reverse_continue(stops, Icount(*limit)).unwrap();
                cut = found == Backward::Interrupted;
                let want = truth.last(*limit, here, stops);
                match want {
                    _ if cut => here,
                    Some((at, stop)) => {
                        assert_eq!(found, Backward::Found { at, stop });
                        at.0
                    }
                    None => {
                        assert_eq!(found, Backward::Begin);
                        here.min(*limit)
                    }
                }
            }
            Action::Forward(stops, skip, limit) => {
                let first = if *skip {
                    FirstStep::Skipped
                } else {
                    FirstStep::Counts
                };
                let from = here + u64::from(*skip);
                let ran = line.forward_continue(stops, first, Icount(*limit)).unwrap();
                let want = truth.first(from, END.min(*limit), stops);
                match want {
                    _ if ran == Forward::Interrupted => {
                        assert!(armed);
                        assert!(want.is_none_or(|w| line.position() <= w.0));
                        line.position().0
                    }
                    Some((at, stop)) => {
                        assert_eq!(ran, Forward::Hit { at, stop });
                        at.0
                    }
                    None if *limit <= here => here,
                    None => match ran {
                        // The toy shows what its next step would be even at the end.
                        Forward::Hit { at, .. } => {
                            assert_eq!(at.0, END);
                            END
                        }
                        _ => {
                            assert_eq!(
                                ran,
                                if *limit <= END {
                                    Forward::Limit
                                } else {
                                    Forward::End
                                }
                            );
                            END.min(*limit)
                        }
                    },
                }
            }
            Action::Find(stops, low, high) => {
                let found = line.find_last(Icount(*low), Icount(*high), stops).unwrap();
                let want = truth.last(*low, END.min(*high), stops);
                cut = found == Backward::Interrupted;
                if !cut {
                    let want = want.map_or(Backward::Begin, |(at, stop)| Backward::Found { at, stop });
                    assert_eq!(found, want);
                }
                here
            }
            Action::Mark => {
                line.mark().unwrap();
                here
            }
            Action::Forget(n) => {
                line.forget_from(Icount(*n));
                assert!(line.rungs().iter().all(|r| r.0 < *n));
                here
            }
            Action::Interrupt(n) => {
                line.machine_mut().patience = Some(*n);
                here
            }
        };
        assert!(!cut || armed);
        let expect = if cut { here } else { expect };
        assert_eq!(line.position().0, expect, "{action:?} from {here}");
        assert_eq!(
            line.machine().state,
            truth.states[expect as usize],
            "{action:?} from {here}"
        );
        assert!(line.rungs().len() <= memory.max(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn a_timeline_is_brute_force_made_fast(
        seed: u64,
        anchors in prop::collection::vec(0..END, 0..6),
        memory in prop_oneof![Just(0usize), 1..5usize, Just(1000)],
        slice in prop_oneof![Just(1u64 << 22), 1..50u64, 100..2000u64],
        own_scan: bool,
        actions in prop::collection::vec(action(), 1..25),
    ) {
        check(seed, &anchors, memory, slice, own_scan, &actions);
    }
}

/// Consecutive steps back re-run about 10^3 steps each, from any distance to the last anchor.
#[test]
fn steps_back_are_cheap() {
    const FAR: u64 = 4_000_000;
    let mut toy = Toy::new(1, FAR, &[]);
    toy.work = 0;
    let mut line = Timeline::new(toy, TimelineOptions::default());
    line.seek(Icount(FAR - 5)).unwrap();
    assert!(line.machine().work <= FAR);
    line.machine_mut().work = 0;
    let (mut worst, steps) = (0, 20_000);
    for n in 0..steps {
        let before = line.machine().work;
        assert_eq!(line.step_back().unwrap(), Landed::There);
        assert_eq!(line.position().0, FAR - 6 - n);
        worst = worst.max(line.machine().work - before);
    }
    let mean = line.machine().work / steps;
    assert!(mean <= 1_000, "{mean} steps re-run for a step back");
    assert!(worst <= 70_000, "{worst} steps re-run for one step back");
}

/// Reverse-continue through a breakpoint that hits often stays near: it must not search from the last anchor each time.
#[test]
fn reverse_continue_is_local() {
    const FAR: u64 = 2_000_000;
    let mut line = Timeline::new(Toy::new(2, FAR, &[]), TimelineOptions::default());
    line.seek(Icount(FAR - 1)).unwrap();
    line.machine_mut().work = 0;
    let stops = Stops {
        hart: Some(1),
        ..Stops::default()
    };
    for _ in 0..2_000 {
        assert!(matches!(
            line.reverse_continue(&stops, Icount(0)).unwrap(),
            Backward::Found { .. }
        ));
    }
    let mean = line.machine().work / 2_000;
    assert!(mean <= 3_000, "{mean} steps re-run for a reverse-continue");
}

/// A search over a long segment lands from a state saved on the way.
#[test]
fn landing_after_a_long_search_is_short() {
    const FAR: u64 = 5_000_000;
    let mut line = Timeline::new(Toy::new(3, FAR, &[]), TimelineOptions::default());
    // A step far in the middle, found by what it does.
    line.seek(Icount(FAR)).unwrap();
    line.machine_mut().work = 0;
    let truth = {
        let mut state = State::new(3);
        let mut last = None;
        while state.at < FAR / 2 {
            if state.next().cell == 5 {
                last = Some(state.at);
            }
            state.step();
        }
        last.unwrap()
    };
    line.forget_from(Icount(0));
    let stops = Stops {
        cells: vec![5],
        ..Stops::default()
    };
    let found = line.find_last(Icount(0), Icount(FAR / 2), &stops).unwrap();
    assert!(matches!(found, Backward::Found { at, .. } if at.0 == truth));
    line.seek(Icount(truth)).unwrap();
    let piece = FAR / 2 / 8;
    assert!(
        line.machine().work <= FAR / 2 + piece + 1,
        "{}",
        line.machine().work
    );
}

/// A live run goes on at its end after a visit to its past.
#[test]
fn a_live_run_grows() {
    let mut toy = Toy::new(4, 1000, &[]);
    toy.live = true;
    let mut line = Timeline::new(
        toy,
        TimelineOptions {
            memory: 10,
            slice: 1 << 22,
        },
    );
    line.seek(Icount(200)).unwrap();
    assert_eq!(line.rungs().last(), Some(&Icount(1000)));
    assert_eq!(
        line.forward_continue(&Stops::default(), FirstStep::Counts, Icount(1500))
            .unwrap(),
        Forward::Limit
    );
    assert_eq!(line.machine().end, 1500);
    assert_eq!(line.step_forward().unwrap(), Landed::There);
    assert_eq!(
        line.machine().state,
        *Truth::new(line.machine().seed, 1501).states.last().unwrap()
    );
}

/// A recording that is shorter than it claims is an error, not a loop.
#[test]
fn a_short_recording_is_an_error() {
    let mut line = Timeline::new(Toy::new(5, 1000, &[500]), TimelineOptions::default());
    line.machine_mut().end = 2000;
    line.seek(Icount(900)).unwrap();
    line.machine_mut().end = 950;
    line.machine_mut().anchors.retain(|a| a.0 < 500);
    line.forget_from(Icount(0));
    line.machine_mut().state.at = 1200;
    let found = line.reverse_continue(
        &Stops {
            pcs: vec![99],
            ..Stops::default()
        },
        Icount(0),
    );
    assert!(matches!(found, Err(TimelineError::Astray { .. })));
}

/// Progress is told, and a question for Ctrl-C asked, after every slice.
#[test]
fn progress_and_questions() {
    let told = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut line = Timeline::new(
        Toy::new(6, 10_000, &[]),
        TimelineOptions {
            memory: 0,
            slice: 100,
        },
    );
    let counter = told.clone();
    line.on_progress(move |p| {
        assert!(p.at <= p.to && p.from < p.at);
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    line.seek(Icount(9_999)).unwrap();
    let asked = line.machine().asked.clone();
    assert!(told.load(std::sync::atomic::Ordering::Relaxed) >= 99);
    assert!(asked.get() >= 90);
}
