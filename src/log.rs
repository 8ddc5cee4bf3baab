//! `tickback log`: what happened in a recording.

use std::path::PathBuf;

use anyhow::{Context, Result};
use icount::{Icount, KindSet, LogReader};

use crate::listing::{Listing, Reader};
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::values;

/// List the events of a recording
///
/// A line an event: steps made before it, virtual time, hart, kind, what happened.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// From this icount on
    #[arg(long, default_value = "0", value_name = "N", value_parser = values::number)]
    from: u64,
    /// Up to and with this icount
    #[arg(long, value_name = "N", value_parser = values::number)]
    to: Option<u64>,
    /// Only these kinds, with commas between: mmio, line, irq, dma, console-out, switch, reset, power-off,
    /// console-in, disk, debugger, port, key, net
    #[arg(long, default_value = "all", value_name = "KINDS")]
    kind: KindSet,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let reader = LogReader::open(&arguments.recording.join("events"))?;
    let last = Icount(arguments.to.unwrap_or(u64::MAX));
    let mut listing = Listing::new();
    for event in reader.events_from(Icount(arguments.from))? {
        let event = event?;
        if event.at > last {
            break;
        }
        if !arguments.kind.contains(event.kind()) {
            continue;
        }
        let line = if arguments.json {
            serde_json::to_string(&event).context("can't write an event as JSON")?
        } else {
            event.to_string()
        };
        if listing.line(&line)? == Reader::Gone {
            break;
        }
    }
    listing.end()?;
    Ok(Outcome::Done)
}
