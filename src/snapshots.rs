//! `tickback snapshots`: where the snapshots of a recording stand.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use snapshot::Checkpoints;

use crate::listing::{Listing, Reader};
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::say;
use crate::values;

/// List the snapshots of a recording
///
/// A line a snapshot: icount, virtual time, root of the whole state.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let checkpoints = Checkpoints::open(&arguments.recording)?;
    for damage in checkpoints.damage() {
        say(&damage.to_string());
    }
    let mut listing = Listing::new();
    for info in checkpoints.list() {
        let line = if arguments.json {
            json!({
                "icount": info.at,
                "time_ns": info.time,
                "root": info.root.to_string(),
                "keep": info.keep,
                "state_bytes": info.state_len,
            })
            .to_string()
        } else {
            format!("{:>14} {:>15} {}", info.at.0, info.time.to_string(), info.root)
        };
        if listing.line(&line)? == Reader::Gone {
            break;
        }
    }
    listing.end()?;
    Ok(Outcome::Done)
}
