//! `tickback verify`: the segments between snapshots replayed side by side, on the cores of one machine or of many.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use icount::Icount;
use machine::host::{Control, Signals};
use machine::verify::segments::{self, Report, Shard, Work};
use machine::{Engine, MachineError, Recorded, diff};
use serde_json::json;

use crate::engine::EngineArgument;
use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::progress::ProgressLine;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::say;
use crate::values;

/// Steps and events before a departure that are shown.
const CONTEXT: u64 = 16;

/// Check a recording: replay all that is between its snapshots, on several cores
///
/// Each segment starts from its snapshot and must come to the next one, with the events in the log and no others. Every
/// stored page is checked against its hash. Exits with 0 if all is equal, with 3 and the first step that is not if the
/// replay departs from the recording, with 1 if something is damaged.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// Machines that replay at the same time; each has the guest's memory [default: the host's cores]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Only the part I of N, from 1: a cluster's scheduler runs all of them, each on a machine of its own
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
    /// As a JSON object
    #[arg(long)]
    json: bool,
    /// Say nothing about how far it is
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

/// `I/N`, I from 1.
fn shard(text: &str) -> Result<Shard, String> {
    let parse = || {
        let (index, of) = text.split_once('/')?;
        let (index, of) = (index.trim().parse::<u64>().ok()?, of.trim().parse::<u64>().ok()?);
        (index >= 1 && index <= of).then(|| Shard { index: index - 1, of })
    };
    parse().ok_or_else(|| format!("'{text}' is no part: the third of eight is 3/8"))
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let control = Control::new();
    let signals = Signals::catch(&control, None)?;
    let recorded = Recorded::open(&arguments.recording)?;
    if let Some(recovered) = recorded.log().recovered() {
        say(&recovered.to_string());
    }
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    let work = Work::of(&recorded, shard);
    let jobs = arguments.jobs.map_or_else(cores, NonZeroUsize::get);
    let engine = || arguments.engine.engine();
    let mut line = ProgressLine::new("verify", arguments.quiet);
    let verified = segments::verify(&recorded, &work, jobs, &engine, |progress| {
        line.show(progress.done, progress.steps);
        control.take().is_none()
    });
    drop(line);
    drop(signals);
    let report = match verified {
        Err(MachineError::Interrupted) => {
            say("verify interrupted; nothing is known of the rest");
            return Ok(Outcome::Failed);
        }
        other => other?,
    };
    tell(arguments, &recorded, &work, shard, report)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn tell(
    arguments: &Arguments,
    recorded: &Recorded,
    work: &Work,
    shard: Shard,
    report: Report,
) -> Result<Outcome> {
    let damage: Vec<String> = report
        .damage
        .iter()
        .map(ToString::to_string)
        .chain(recorded.checkpoints().damage().iter().map(ToString::to_string))
        .collect();
    let departure = report.departure.as_ref();
    let first_bad = departure.map(|(from, error)| explain(arguments, *from, error));
    let part = if shard == Shard::WHOLE {
        String::new()
    } else {
        format!("shard {}/{}: ", shard.index + 1, shard.of)
    };
    if arguments.json {
        let object = json!({
            "recording": arguments.recording.display().to_string(),
            "shard": [shard.index + 1, shard.of],
            "from": work.segments().first().map(|segment| segment.from),
            "to": work.segments().last().map(|segment| segment.to),
            "segments": report.segments,
            "steps": report.steps,
            "events": report.events,
            "roots": report.roots,
            "blocks": report.blocks,
            "first_bad": first_bad.as_ref().map(|(at, _)| at),
            "departure": first_bad.as_ref().map(|(_, text)| text),
            "damage": damage,
            "equal": first_bad.is_none() && damage.is_empty(),
        });
        let mut listing = Listing::new();
        listing.line(&serde_json::to_string_pretty(&object)?)?;
        listing.end()?;
    } else {
        for damage in &damage {
            say(damage);
        }
        if let Some((at, text)) = &first_bad {
            say(text.trim_end());
            say(&format!("{part}first bad step: after icount {at}"));
        } else if damage.is_empty() {
            eprintln!(
                "verify: {part}{} steps in {} segments, {} events, {} roots, {} stored blocks, all equal",
                report.steps, report.segments, report.events, report.roots, report.blocks
            );
        }
    }
    Ok(match (first_bad, damage.is_empty()) {
        (Some(_), _) => Outcome::Differ,
        (None, true) => Outcome::Done,
        (None, false) => Outcome::Failed,
    })
}

/// The first bad step, exactly, and what is known of it.
fn explain(arguments: &Arguments, from: Icount, error: &MachineError) -> (Icount, String) {
    let engine = || arguments.engine.engine();
    let explained = diff::explain(&arguments.recording, &engine, error, CONTEXT);
    let (at, mut text) = match explained {
        Ok(Some(explained)) => (explained.at, explained.to_string()),
        // The departure itself is what matters, also if no more can be told of it.
        Ok(None) | Err(_) => (from, error.to_string()),
    };
    // If the other engine goes another way, it is an engine that is wrong, and the step is the first that they differ in.
    let engines = arguments.engine.both().map(Engine::new);
    if let [Ok(a), Ok(b)] = engines
        && let Ok(Some(parting)) = diff::engines_part(&arguments.recording, [a, b], from, at, CONTEXT)
    {
        text = format!(
            "{text}the engines differ (a: {:?}, b: the other)\n{parting}",
            arguments.engine
        );
        return (parting.at, text);
    }
    if let MachineError::Root { at } = error {
        text = format!(
            "{text}both engines come to the same state: what the snapshot at {at} holds is not what the steps from {from} on make"
        );
    }
    (at, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(shard("1/1"), Ok(Shard::WHOLE));
        assert_eq!(shard("3/8"), Ok(Shard { index: 2, of: 8 }));
        for wrong in ["0/8", "9/8", "3", "a/b", "-1/2", "1/0", ""] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
