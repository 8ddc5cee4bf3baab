//! `tickback replay`: a recording run again, with everything compared.

use std::path::PathBuf;

use anyhow::Result;
use machine::diff;
use machine::host::{Console, Control, Request, Shown, Signals, Stopwatch};
use machine::{History, MachineError};

use crate::engine::EngineOptions;
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::{say, tell_figures};
use crate::values;

/// Replay a recording, checking every event and every snapshot
///
/// Shows the guest's console, and ends with `replay: N steps, M events, K roots, all equal`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    #[command(flatten)]
    engine: EngineOptions,
    /// Don't show the guest's console
    #[arg(long, short)]
    quiet: bool,
    /// Exit with the guest's own code
    #[arg(long)]
    guest_exit: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let engine = arguments.engine.measured();
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let control = Control::new();
    let signals = Signals::catch(&control, None)?;
    let console = if arguments.quiet {
        Console::none()
    } else {
        Console::stdout(Some(control.clone()))
    };
    let mut history = History::open_with(&arguments.recording, engine, |door| {
        Box::new(Shown::new(door, console))
    })?;
    control.attach(history.machine().interrupt_flag());
    let log = history.log()?;
    if let Some(recovered) = log.recovered() {
        say(&recovered.to_string());
    }
    let (watch, start) = (Stopwatch::start(), history.machine().icount());
    let verified = history.verify(|_| {});
    let reached = history.machine().icount();
    if arguments.engine.stats {
        tell_figures(history.machine(), start, watch.elapsed());
    }
    drop(history);
    drop(signals);
    let verified = match verified {
        Err(MachineError::Interrupted) => {
            if control.take() == Some(Request::OutputClosed) {
                return Ok(Outcome::Done);
            }
            say(&format!(
                "replay interrupted at icount {reached}; all was equal up to there"
            ));
            return Ok(Outcome::Failed);
        }
        Err(error) if error.is_divergence() => return explain(arguments, error),
        other => other?,
    };
    match verified.end {
        Some(end) => say(&end.to_string()),
        None => say("the recording was not closed: it ends where its last whole frame says"),
    }
    let equal = format!(
        "replay: {} steps, {} events, {} roots, all equal",
        verified.steps, verified.events, verified.roots
    );
    if !verified.damage.is_empty() {
        for damage in &verified.damage {
            say(damage);
        }
        // Of a recording that was cut off, the snapshot being written is the last and may be torn.
        if verified.end.is_some() {
            eprintln!("{equal}, but for the snapshots that are damaged and could not be compared");
            return Ok(Outcome::Failed);
        }
    }
    eprintln!("{equal}");
    Ok(verified
        .end
        .map_or(Outcome::Done, |end| Outcome::of(end, arguments.guest_exit)))
}

/// Tells of a departure what one run allows.
fn explain(arguments: &Arguments, error: MachineError) -> Result<Outcome> {
    let engine = || arguments.engine.engine();
    match diff::explain(&arguments.recording, &engine, &error, 16) {
        Ok(Some(explained)) => {
            say(explained.to_string().trim_end());
            Ok(Outcome::Differ)
        }
        // The departure itself is what matters, also if no more can be told of it.
        Ok(None) | Err(_) => Err(error.into()),
    }
}
