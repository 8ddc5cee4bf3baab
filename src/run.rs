//! `tickback run`: a machine without a recording.

use anyhow::Result;
use icount::End;
use machine::board;
use machine::check::Checked;

use crate::boot::MachineArguments;
use crate::outcome::Outcome;
use crate::session::{Live, RunArguments, Session, say};

/// Run a guest without recording it
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    machine: MachineArguments,
    #[command(flatten)]
    run: RunArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let prepared = arguments.machine.prepare()?;
    let mut session = Session::start(&arguments.run)?;
    let door = session.door(&prepared)?;
    let (config, images) = (&prepared.config, prepared.images);
    let mut live: Box<dyn Live> = if arguments.run.check {
        Box::new(Checked::new(config, images, door, arguments.run.engine.both())?)
    } else {
        Box::new(board::build(
            config,
            images,
            Box::new(door),
            arguments.run.engine.measured(),
        )?)
    };
    let end = session.lead(&mut *live)?;
    let (at, time) = (live.machine().icount(), live.machine().time());
    // The last bytes of the console come before the last word.
    drop(live);
    say(&format!("{end} at icount {at}, {time}"));
    let pending = session.script_pending();
    drop(session);
    Ok(finish(end, arguments.run.guest_exit, pending))
}

/// The outcome of a live run; a script that was not done is a failure.
pub fn finish(end: End, guest_exit: bool, pending: Option<String>) -> Outcome {
    if let Some(pending) = pending {
        say(&format!("the console script was still {pending}"));
        return Outcome::Failed;
    }
    Outcome::of(end, guest_exit)
}
