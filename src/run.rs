//! `tickback run`: a machine without a recording.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use icount::{Icount, VirtualTime};
use machine::{Engine, EngineKind};
use machine::{FirstStep, Machine, MachineError, Stopped, Stops, board};

use crate::boot::MachineArguments;
use crate::outcome::Outcome;
use crate::session::{EngineArgument, Live, RunArguments, Session, say};

/// Run a guest without recording it
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    machine: MachineArguments,
    #[command(flatten)]
    run: RunArguments,
}

/// The engine that the user chose, or the interpreter with a word about it.
pub fn engine(argument: EngineArgument) -> Engine {
    match argument {
        EngineArgument::Interp => Engine::interp(),
        EngineArgument::Jit => Engine::new(EngineKind::Jit).unwrap_or_else(|error| {
            say(&format!("{error}; interpreting instead"));
            Engine::interp()
        }),
    }
}

impl Live for Machine {
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        Machine::run(self, until, &Stops::default(), FirstStep::Counts)
    }

    fn icount(&self) -> Icount {
        Machine::icount(self)
    }

    fn time(&self) -> VirtualTime {
        Machine::time(self)
    }

    fn interrupt_flag(&self) -> Arc<AtomicBool> {
        Machine::interrupt_flag(self)
    }

    fn reset(&mut self) -> Result<(), MachineError> {
        self.inject(icount::Input::Reset)
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let prepared = arguments.machine.prepare()?;
    let mut session = Session::start(&arguments.run)?;
    let door = session.door(Arc::clone(&prepared.drives), prepared.config.ns_per_step);
    let engine = engine(arguments.run.engine);
    let mut machine = board::build(&prepared.config, prepared.images, Box::new(door), engine)?;
    let end = session.lead(&mut machine)?;
    let (at, time) = (Machine::icount(&machine), Machine::time(&machine));
    // The last bytes of the console come before the last word.
    drop(machine);
    say(&format!("{end} at icount {at}, {time}"));
    let pending = session.script_pending();
    drop(session);
    Ok(finish(end, arguments.run.guest_exit, pending))
}

/// The outcome of a live run; a script that was not done is a failure.
pub fn finish(end: icount::End, guest_exit: bool, pending: Option<String>) -> Outcome {
    if let Some(pending) = pending {
        say(&format!("the console script was still {pending}"));
        return Outcome::Failed;
    }
    Outcome::of(end, guest_exit)
}
