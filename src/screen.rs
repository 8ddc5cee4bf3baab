//! `tickback screen`: what a recorded machine's display showed.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use machine::icount::Icount;
use machine::{History, Timeline, TimelineOptions};

use crate::engine::EngineArgument;
use crate::outcome::{Outcome, Usage};
use crate::session::say;
use crate::values;

/// Show the text that a recorded machine's display showed
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// When: an icount, or `end`
    #[arg(long, default_value = "end", value_name = "N|end", value_parser = position)]
    at: Position,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    At(u64),
    End,
}

fn position(text: &str) -> Result<Position, String> {
    match text {
        "end" => Ok(Position::End),
        _ => values::number(text).map(Position::At),
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut history = History::open(&arguments.recording, arguments.engine.engine())?;
    let end = history.log()?.end().0;
    let at = match arguments.at {
        Position::End => end,
        Position::At(at) => Icount(at),
    };
    if at > end {
        let what = format!("--at {at}: the recording ends at {end}");
        return Err(Usage(what).into());
    }
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
    let mut out = String::new();
    for row in screen.rows() {
        out.push_str(&row);
        out.push('\n');
    }
    print!("{out}");
    if let Some((column, row)) = screen.cursor {
        say(&format!(
            "the cursor is in column {column} of row {row}, counted from 0"
        ));
    }
    Ok(Outcome::Done)
}
