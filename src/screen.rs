//! `tickback screen`: what a recorded machine's display showed.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use machine::snapshot::Replay;
use machine::{History, Timeline, TimelineOptions};

use crate::engine::EngineArgument;
use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::say;
use crate::values::{self, Place};

/// Show the text that a recorded machine's display showed
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// When: an icount, a part of the recording (50%), or `end`
    #[arg(long, default_value = "end", value_name = "N|P%|end", value_parser = values::place)]
    at: Place,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let mut history = History::open(&arguments.recording, arguments.engine.engine())?;
    let (begin, end) = (history.begin(), history.log()?.end().0);
    let at = arguments.at.in_recording(begin, end)?;
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    timeline.seek(at)?;
    let machine = timeline.machine().machine();
    if !machine.has_display() {
        let board = &timeline.machine().manifest().config.board;
        return Err(anyhow!(
            "{board} has no display; its console is what `tickback replay` shows"
        ));
    }
    let Some(screen) = machine.screen() else {
        say("the display is in a graphics mode");
        return Ok(Outcome::Failed);
    };
    if screen.blank {
        say("the display is switched off");
    }
    let mut listing = Listing::new();
    for row in screen.rows() {
        listing.line(&row)?;
    }
    listing.end()?;
    if let Some((column, row)) = screen.cursor {
        say(&format!(
            "the cursor is in column {column} of row {row}, counted from 0"
        ));
    }
    Ok(Outcome::Done)
}
