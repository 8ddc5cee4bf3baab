//! `tickback diff`: where two recordings part.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result};
use machine::diff::{Options, diff};

use crate::engine::EngineArgument;
use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::say;
use crate::values;

/// Find the first step at which two recordings differ
///
/// Compares events and snapshots, then runs both in step to the instruction that parts them. Exits with 0 if the
/// runs are equal, with 3 if they differ.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// One recording's folder
    #[arg(value_name = "A", value_parser = values::recording)]
    a: PathBuf,
    /// The other one's
    #[arg(value_name = "B", value_parser = values::recording)]
    b: PathBuf,
    /// As a JSON object
    #[arg(long)]
    json: bool,
    /// Physical addresses whose content does not matter, the end not included: 0x101000..0x102000
    #[arg(long, value_name = "START..END", value_parser = range)]
    ignore: Vec<Range<u64>>,
    /// How many steps and events before the difference to show
    #[arg(long, default_value = "16", value_name = "N", value_parser = values::number)]
    context: u64,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
    /// Say nothing about how far it is
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (start, end) = text
        .split_once("..")
        .ok_or("give the first address and the one behind the last: 0x101000..0x102000")?;
    let (start, end) = (values::number(start)?, values::number(end)?);
    if start >= end {
        return Err("the range is empty".into());
    }
    Ok(start..end)
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.a, &arguments.b]))?;
    let options = Options {
        ignore: arguments.ignore.clone(),
        context: arguments.context.min(1 << 20),
    };
    let mut progress = |text: &str| {
        if !arguments.quiet {
            say(text);
        }
    };
    let engine = || arguments.engine.engine();
    // The recording's name is context, so that the exit code goes by what is wrong with it.
    let report = diff([&arguments.a, &arguments.b], &engine, &options, &mut progress).map_err(|failed| {
        let path = failed.path.display().to_string();
        anyhow::Error::from(failed.source).context(path)
    })?;
    let mut out = Listing::new();
    if arguments.json {
        let text = serde_json::to_string_pretty(&report).context("can't write the report as JSON")?;
        out.line(&text)?;
    } else {
        out.line(report.to_string().trim_end())?;
    }
    out.end()?;
    Ok(if report.equal {
        Outcome::Done
    } else {
        Outcome::Differ
    })
}
