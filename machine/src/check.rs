//! Two whole machines on one door: whatever the first does, the second must do too (`--check`).
//!
//! ```text
//!   live or recording door ◀──▶ Leading ◀──▶ first machine (JIT)
//!                                  │ everything that passes, with its place
//!                                  ▼
//!                               Following ◀──▶ second machine (interpreter)
//! ```
//!
//! The first machine runs a few hundred steps (a varying number, so that blocks are cut everywhere), then the second
//! one the same steps: inputs are handed to it where the first got them, and its effects must be the first's.
//! Then general registers, time and turn are compared; the root of the whole state every [`MARK`] steps. At the first
//! difference the run stops; two new machines are brought from the last common snapshot to it, to find the
//! step, or to tell that only what the first had cached (a stale translation, stale code) explains it.

mod doors;

use std::fmt;
use std::sync::{Arc, Mutex};

use icount::{Divergence, Door, DoorError, Event, Icount};

use self::doors::{Following, Leading, Queue, Shared};
use crate::board::{self, Images};
use crate::config::Config;
use crate::diff::state::{self, Differences, Known, Step, differences, instruction, same_words, step};
use crate::engine::{Engine, EngineKind};
use crate::error::MachineError;
use crate::history::History;
use crate::machine::{FirstStep, Machine, Stopped};
use crate::state::Snapshot;
use crate::stops::Stops;

/// Steps between comparisons of the whole state.
pub const MARK: u64 = 1 << 18;
/// The most steps between comparisons of registers.
pub const STRIDE: u64 = 512;
/// Steps before a difference that are reported.
const STEPS: u64 = 32;

/// The machine that goes first: alone, or one that is being recorded.
pub trait Lead {
    /// Runs to `until`; may come back before.
    ///
    /// # Errors
    /// As [`Machine::run`].
    fn run_to(&mut self, until: Icount) -> Result<Stopped, MachineError>;
    /// The machine; inputs given to it reach the second one too.
    fn machine(&mut self) -> &mut Machine;
}

impl Lead for Machine {
    fn run_to(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        self.run(until, &Stops::default(), FirstStep::Counts)
    }

    fn machine(&mut self) -> &mut Machine {
        self
    }
}

impl Lead for History {
    fn run_to(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        self.run_live(until, &Stops::default(), FirstStep::Counts)
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine_mut()
    }
}

/// The first difference of two machines that should be equal.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The last boundary at which they are known to be equal.
    pub equal: Icount,
    /// The first at which they are known to differ.
    pub differ: Icount,
    /// The difference of what they did at their doors, if that was it.
    pub event: Option<Divergence>,
    /// Whether machines without anything cached differ likewise from the last common snapshot on.
    pub reproduced: bool,
    /// The last steps as the second machine's engine makes them, the last one in question.
    pub steps: Vec<Step>,
    /// What differs at `differ`: the first machine, the second.
    pub differences: Differences,
    /// The last events that both made.
    pub events: Vec<Event>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the two engines differ: equal at icount {}, different at {}",
            self.equal, self.differ
        )?;
        if !self.reproduced {
            writeln!(
                f,
                "  not from a snapshot with empty caches: stale code or a stale translation of the first machine"
            )?;
        }
        if let Some(event) = &self.event {
            writeln!(f, "  at the door, {event}")?;
        }
        write!(f, "{}", self.differences)?;
        for step in &self.steps {
            let mark = if step.icount >= self.equal { '>' } else { ' ' };
            writeln!(f, "{mark} {step}")?;
        }
        for event in &self.events {
            writeln!(f, "  event     {event}")?;
        }
        Ok(())
    }
}

/// Two machines on one door. See the module's documentation.
pub struct Checked<L> {
    lead: L,
    second: Machine,
    queue: Shared,
    config: Config,
    images: Images,
    kinds: [EngineKind; 2],
    /// The last state at which both were equal. The second machine's: its pages are in memory.
    mark: Snapshot,
    /// Where registers were last found equal.
    equal: Icount,
    random: u64,
    /// Whole states compared.
    roots: u64,
}

impl Checked<Machine> {
    /// Two machines of one configuration, as they are at power-on.
    ///
    /// # Errors
    /// They can't be built.
    pub fn new(
        config: &Config,
        images: Images,
        door: impl Door + Send + 'static,
        kinds: [EngineKind; 2],
    ) -> Result<Self, MachineError> {
        Checked::with(config, images, door, kinds, |images, door| {
            board::build(config, images, door, Engine::new(kinds[0])?)
        })
    }
}

impl<L: Lead> Checked<L> {
    /// As [`Checked::new`], with the first machine built by `lead` around the door that it is handed.
    ///
    /// # Errors
    /// They can't be built.
    pub fn with(
        config: &Config,
        images: Images,
        door: impl Door + Send + 'static,
        kinds: [EngineKind; 2],
        lead: impl FnOnce(Images, Box<dyn Door + Send>) -> Result<L, MachineError>,
    ) -> Result<Self, MachineError> {
        let queue = Shared::default();
        let leading = Leading {
            door,
            queue: queue.clone(),
        };
        let lead = lead(images.clone(), Box::new(leading))?;
        let following = Box::new(Following(queue.clone()));
        let mut second = board::build(config, images.clone(), following, Engine::new(kinds[1])?)?;
        let mark = second.save()?;
        let mut checked = Checked {
            equal: mark.at,
            lead,
            second,
            queue,
            config: config.clone(),
            images,
            kinds,
            mark,
            random: 0x9e37_79b9_7f4a_7c15,
            roots: 0,
        };
        checked.whole()?;
        Ok(checked)
    }

    /// The first machine, or whatever leads.
    pub fn lead(&self) -> &L {
        &self.lead
    }

    /// As [`Checked::lead`], to be changed.
    pub fn lead_mut(&mut self) -> &mut L {
        &mut self.lead
    }

    /// Ends the check and goes on with the first machine.
    pub fn into_lead(self) -> L {
        self.lead
    }

    /// How many times the whole state was compared.
    pub fn roots(&self) -> u64 {
        self.roots
    }

    /// Runs both to `until`. May come back before, as the lead does.
    ///
    /// # Errors
    /// [`MachineError::Check`] at the first difference; else the lead's.
    pub fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        loop {
            let at = self.lead.machine().icount();
            if at >= until && self.lead.machine().ended().is_none() {
                return Ok(Stopped::Reached);
            }
            let mark = Icount((at.0 / MARK + 1) * MARK);
            let goal = until.min(mark).min(at.saturating_add(self.stride()));
            let stopped = self.lead.run_to(goal)?;
            let reached = self.lead.machine().icount();
            // A machine that came back in the midst of a boundary (Ctrl-C while idle) is compared later.
            let midst = self.lead.machine().past_observe_point();
            self.follow(stopped, reached)?;
            match stopped {
                Stopped::Interrupted => return Ok(stopped),
                Stopped::End(_) => {
                    self.whole()?;
                    return Ok(stopped);
                }
                Stopped::Reached | Stopped::Hit(_) => {}
            }
            if midst {
                continue;
            }
            if !same_words(self.lead.machine(), &self.second) {
                return Err(self.mismatch(reached, None));
            }
            self.equal = reached;
            if reached == mark {
                self.whole()?;
            }
        }
    }

    /// Brings the second machine to where the first one is.
    fn follow(&mut self, stopped: Stopped, reached: Icount) -> Result<(), MachineError> {
        let goal = match stopped {
            // What ends a run happens at the boundary itself.
            Stopped::End(_) => Icount(reached.0 + 1),
            _ => reached,
        };
        let came = loop {
            match self.second.run(goal, &Stops::default(), FirstStep::Counts) {
                Ok(Stopped::Interrupted) => {}
                other => break other,
            }
        };
        match (came, stopped) {
            (Ok(Stopped::End(a)), Stopped::End(b)) if a == b => Ok(()),
            (Ok(Stopped::Reached), Stopped::Reached | Stopped::Hit(_) | Stopped::Interrupted) => Ok(()),
            (Err(MachineError::Door(DoorError::Divergence(divergence))), _) => {
                Err(self.mismatch(reached, Some(*divergence)))
            }
            (Err(error), _) => Err(error),
            (Ok(_), _) => Err(self.mismatch(reached, None)),
        }
    }

    /// Compares all of the state, and takes new snapshots.
    fn whole(&mut self) -> Result<(), MachineError> {
        let now = [self.lead.machine().save()?, self.second.save()?];
        let left = self.queue.with(|q| !q.told.is_empty());
        if now[0].root() != now[1].root() || left {
            let at = now[0].at;
            return Err(self.mismatch(at, None));
        }
        self.roots += 1;
        let [_, mark] = now;
        self.mark = mark;
        self.queue.with(Queue::mark);
        Ok(())
    }

    /// One to [`STRIDE`], in no order.
    fn stride(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + self.random % STRIDE
    }

    /// Explains a difference at or before `at`.
    fn mismatch(&mut self, at: Icount, event: Option<Divergence>) -> MachineError {
        match self.explain(at, event) {
            Ok(mismatch) => MachineError::Check(Box::new(mismatch)),
            Err(error) => error,
        }
    }

    fn explain(&mut self, at: Icount, event: Option<Divergence>) -> Result<Mismatch, MachineError> {
        let events = self.queue.with(|q| q.last_events());
        let found = differences(self.lead.machine(), &mut self.second, &Known::default())?;
        let mut pair = Pair::new(self)?;
        // A difference at the door is one of the step after it.
        let top = event.as_ref().map_or(at, |e| Icount(e.at.0 + 1)).max(self.equal);
        let mut mismatch = Mismatch {
            equal: self.equal,
            differ: top,
            event,
            reproduced: pair.differ_at(top)?,
            steps: Vec::new(),
            differences: found,
            events,
        };
        if mismatch.reproduced {
            let (mut low, mut high) = (self.mark.at, top);
            while high.0 - low.0 > 1 {
                let middle = Icount(low.0 + (high.0 - low.0) / 2);
                if pair.differ_at(middle)? {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            (mismatch.equal, mismatch.differ) = (low, high);
            pair.differ_at(high)?;
            let [a, b] = &mut pair.machines;
            let found = differences(a, b, &Known::default())?;
            if !found.is_empty() {
                mismatch.differences = found;
            }
        }
        mismatch.steps = pair.steps(mismatch.equal, mismatch.differ)?;
        Ok(mismatch)
    }
}

/// Two new machines, to go again through what led to a difference.
struct Pair {
    machines: [Machine; 2],
    mark: Snapshot,
    queue: Queue,
}

impl Pair {
    fn new<L>(checked: &Checked<L>) -> Result<Pair, MachineError> {
        let build = |kind| {
            let door = Box::new(Following(Shared::default()));
            board::build(&checked.config, checked.images.clone(), door, Engine::new(kind)?)
        };
        Ok(Pair {
            machines: [build(checked.kinds[0])?, build(checked.kinds[1])?],
            mark: checked.mark.clone(),
            queue: checked.queue.with(|q| q.again()),
        })
    }

    /// Brings one of them from the mark to `at`; `false` if it does something else than the first machine did.
    fn bring(&mut self, which: usize, at: Icount) -> Result<bool, MachineError> {
        let machine = &mut self.machines[which];
        machine.restore(&self.mark, &Nowhere)?;
        machine.set_door(Box::new(Following(Shared(Arc::new(Mutex::new(
            self.queue.clone(),
        ))))));
        match machine.run(at, &Stops::default(), FirstStep::Counts) {
            Ok(_) => Ok(true),
            Err(MachineError::Door(DoorError::Divergence(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn differ_at(&mut self, at: Icount) -> Result<bool, MachineError> {
        if self.bring(0, at)? != self.bring(1, at)? {
            return Ok(true);
        }
        let [a, b] = &mut self.machines;
        Ok(!state::same_harts(a, b) || a.root()? != b.root()?)
    }

    /// The steps up to `to`, at least those from `from` on, as the second engine makes them.
    fn steps(&mut self, from: Icount, to: Icount) -> Result<Vec<Step>, MachineError> {
        let first = from
            .min(to.saturating_sub(STEPS))
            .max(self.mark.at)
            .max(to.saturating_sub(STRIDE));
        self.bring(1, first)?;
        let mut steps = Vec::new();
        while self.machines[1].icount() < to {
            let machine = &mut self.machines[1];
            let (icount, hart) = (machine.icount(), machine.current_hart());
            let (pc, text) = instruction(machine, hart);
            match step(machine) {
                Ok(Some(step)) => steps.push(step),
                Ok(None) => break,
                // The step at whose access they part is the one that matters.
                Err(MachineError::Door(DoorError::Divergence(_))) => {
                    steps.push(Step {
                        icount,
                        hart,
                        pc,
                        text,
                    });
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(steps)
    }
}

/// Where no page has to come from: all of a machine's that isn't recorded are in memory.
struct Nowhere;

impl snapshot::PageSource for Nowhere {
    fn page(&self, id: snapshot::PageId) -> snapshot::Result<Arc<snapshot::Page>> {
        Err(snapshot::SnapshotError::Damaged {
            path: "memory".into(),
            offset: 0,
            what: format!("page {id} is not in memory"),
        })
    }

    fn pages(&self, ids: &[snapshot::PageId]) -> snapshot::Result<Vec<Arc<snapshot::Page>>> {
        ids.iter().map(|id| self.page(*id)).collect()
    }
}
