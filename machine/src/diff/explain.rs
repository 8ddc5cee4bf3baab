//! A replay that departs from its recording, told like a difference of two runs as far as one run allows.

use std::fmt;
use std::path::Path;

use icount::{Divergence, DoorError, Event, Icount};
use serde::Serialize;
use snapshot::Replay;

use super::search::{run, seek};
use super::state::{Differences, Known, Step, differences, instruction, step};
use crate::engine::Engine;
use crate::error::MachineError;
use crate::history::History;

/// What is known of a departure.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The boundary before the step in question; of a root, the snapshot.
    pub at: Icount,
    /// The last position at which the replay is known to be right.
    pub equal: Icount,
    /// What the recording has next.
    pub recorded: Option<Event>,
    /// What the replay did instead.
    pub replayed: Option<Event>,
    /// The last events that agree, oldest first.
    pub events: Vec<Event>,
    /// The hart that makes the step in question.
    pub hart: u8,
    /// Its program counter.
    pub pc: String,
    /// The instruction there.
    pub text: String,
    /// Its registers there that are not zero.
    pub registers: Vec<(&'static str, String)>,
    /// The last steps before, oldest first.
    pub steps: Vec<Step>,
    /// Replayed against recorded state, of a root that differs.
    pub differences: Option<Differences>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the replay departs from its recording at icount {}; it was right at {}",
            self.at, self.equal
        )?;
        for (name, event) in [("recorded", &self.recorded), ("replayed", &self.replayed)] {
            if let Some(event) = event {
                writeln!(f, "  {name}: {event}")?;
            }
        }
        writeln!(f, "last events:")?;
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        writeln!(f, "last steps:")?;
        for step in &self.steps {
            writeln!(f, "    {step}")?;
        }
        writeln!(f, "next: hart {}, pc {}, {}", self.hart, self.pc, self.text)?;
        for row in self.registers.chunks(4) {
            for (name, value) in row {
                write!(f, "  {name:>10} {value:<18}")?;
            }
            writeln!(f)?;
        }
        if let Some(differences) = &self.differences {
            writeln!(f, "state (replayed | recorded):")?;
            write!(f, "{differences}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

/// Explains why the replay of `dir` failed with `error`; `None` if that is no departure from the recording.
///
/// # Errors
/// The recording can't be read.
pub fn explain(
    dir: &Path,
    engine: &dyn Fn() -> Engine,
    error: &MachineError,
    context: u64,
) -> Result<Option<Explained>, MachineError> {
    let (at, divergence) = match error {
        MachineError::Door(DoorError::Divergence(d)) => (place(d), Some((**d).clone())),
        MachineError::Door(DoorError::PastEnd { end, .. }) => (*end, None),
        MachineError::Root { at } | MachineError::Short { at, .. } => (*at, None),
        _ => return Ok(None),
    };
    let mut history = History::open(dir, engine())?;
    let mut notes = Vec::new();
    // A root that differs is itself no place to start from.
    let below = match error {
        MachineError::Root { at } => at.saturating_sub(1),
        _ => at,
    };
    let equal = history.anchor(below);
    let first = at.saturating_sub(context).min(below);
    let start = history.anchor(first);
    history.restore_anchor(start)?;
    let mut steps = Vec::new();
    let traced = run(&mut history, first).and_then(|()| {
        while history.position() < at {
            match step(history.machine_mut())? {
                Some(step) => steps.push(step),
                None => break,
            }
        }
        Ok(())
    });
    if let Err(again) = traced {
        if !again.is_divergence() {
            return Err(again);
        }
        notes.push(format!(
            "run again from the snapshot at {start}, it departs earlier: {again}"
        ));
    }
    let machine = history.machine_mut();
    let hart = machine.current_hart();
    let (pc, text) = instruction(machine, hart);
    let mut explained = Explained {
        at,
        equal,
        recorded: None,
        replayed: None,
        events: Vec::new(),
        hart,
        pc: format!("{pc:#x}"),
        text,
        registers: registers(machine.hart(hart)),
        steps,
        differences: None,
        notes,
    };
    match divergence {
        Some(d) => {
            (explained.recorded, explained.replayed, explained.events) = (d.expected, d.got, d.before);
        }
        None => explained.events = last_events(&mut history, at, context)?,
    }
    if let MachineError::Root { at } = error {
        let mut recorded = History::open(dir, engine())?;
        seek(&mut recorded, *at)?;
        let found = differences(history.machine_mut(), recorded.machine_mut(), &Known::default())?;
        if found.is_empty() {
            explained.notes.push(format!(
                "replayed again from the snapshot at {equal}, the state is as recorded: the first replay had gone wrong \
                 before, or its engine did by what it had cached"
            ));
        }
        explained.differences = Some(found);
    }
    Ok(Some(explained))
}

/// The boundary before the step that departs.
fn place(divergence: &Divergence) -> Icount {
    let passed = divergence.expected.as_ref().map(|event| event.at);
    passed.map_or(divergence.at, |at| at.min(divergence.at))
}

fn last_events(history: &mut History, at: Icount, context: u64) -> Result<Vec<Event>, MachineError> {
    let log = history.log()?;
    let mut last = std::collections::VecDeque::new();
    // Events are dense enough that the last snapshot's stretch holds what is asked for.
    let from = history.anchor(at.saturating_sub(1));
    for event in log.events_from(from).map_err(DoorError::from)? {
        let event = event.map_err(DoorError::from)?;
        if event.at >= at {
            break;
        }
        last.push_back(event);
        if last.len() as u64 > context {
            last.pop_front();
        }
    }
    Ok(last.into())
}

fn registers(cpu: Option<&dyn cpu::Cpu>) -> Vec<(&'static str, String)> {
    let Some(cpu) = cpu else { return Vec::new() };
    let all = cpu.registers().iter();
    all.filter_map(|info| {
        let bytes = cpu.read_register(info.number)?;
        let zero = bytes.iter().all(|b| *b == 0);
        (!zero).then(|| (info.name, super::state::value(Some(bytes))))
    })
    .collect()
}
