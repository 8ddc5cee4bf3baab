//! `tickback info`: what a recording is of. Reads recordings of other model versions too.

use std::path::PathBuf;

use anyhow::{Context, Result};
use icount::{Icount, LogReader};
use machine::manifest::Manifest;
use serde_json::json;
use snapshot::Checkpoints;

use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::values;

/// Say what a recording is of
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// As a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    sandbox::enter(arguments.sandbox, &Needs::reading(&[&arguments.recording]))?;
    let folder = &arguments.recording;
    let manifest = Manifest::read(folder)?;
    let log = LogReader::open(&machine::history::events_path(folder))?;
    let checkpoints = Checkpoints::open(folder)?;
    let (at, time, end) = log.end();
    let counts = log.counts();
    let config = &manifest.config;
    let bytes = values::folder_size(folder)?;
    let log_bytes = log.bytes();
    let ended = end.map_or_else(
        || "not closed (killed, or still running)".into(),
        |end| end.to_string(),
    );
    let notes: Vec<String> = log
        .recovered()
        .map(|recovered| recovered.to_string())
        .into_iter()
        .chain(checkpoints.damage().iter().map(ToString::to_string))
        .collect();
    let replayable = manifest.check_model();
    let begin = log.begin().0;
    let begin = checkpoints.at_or_above(begin).map_or(begin, |first| first.at);
    let pages = checkpoints.figures()?;
    let mut listing = Listing::new();
    if arguments.json {
        let object = json!({
            "recording": folder.display().to_string(),
            "program": manifest.program,
            "format": manifest.format,
            "model": manifest.model,
            "replayable": replayable.is_ok(),
            "machine": config,
            "origin": manifest.origin,
            "begin": begin,
            "steps": at,
            "time_ns": time,
            "end": end.map(|end| end.to_string()),
            "inputs": counts.inputs,
            "effects": counts.effects,
            "disk_blocks": log.disk_blocks(),
            "snapshots": checkpoints.len(),
            "pages": pages.pages,
            "different_pages": pages.different,
            "nodes": pages.nodes,
            "unpacked_bytes": pages.raw_bytes,
            "packed_bytes": pages.stored_bytes,
            "bytes": bytes,
            "log_bytes": log_bytes,
            "notes": notes,
        });
        let text = serde_json::to_string_pretty(&object).context("can't write the information as JSON")?;
        listing.line(&text)?;
        listing.end()?;
        return Ok(Outcome::Done);
    }
    let mut rows = vec![
        (
            "recorded by",
            format!("{}, model {}", manifest.program, manifest.model),
        ),
        (
            "machine",
            format!(
                "{}, {} hart(s), {} MiB",
                config.board,
                config.harts.len(),
                config.memory >> 20
            ),
        ),
    ];
    for (number, drive) in config.drives.iter().enumerate() {
        let mode = if drive.read_only { ", read-only" } else { "" };
        rows.push((
            "drive",
            format!("{number}: {} sectors of 512 bytes{mode}", drive.sectors),
        ));
    }
    for (number, network) in config.networks.iter().enumerate() {
        rows.push(("network card", format!("{number}: {}", network.mac)));
    }
    if config.virtio_console {
        rows.push(("console", "virtio, besides the serial one".into()));
    }
    for (option, value) in &manifest.origin {
        rows.push(("from", format!("{option} {value}")));
    }
    let steps = match begin {
        Icount(0) => at.to_string(),
        begin => format!("{}, from icount {begin} to {at}", at.since(begin)),
    };
    rows.push(("steps", steps));
    rows.push(("virtual time", time.to_string()));
    rows.push(("end", ended));
    rows.push((
        "inputs",
        format!("{}, and {} disk blocks", counts.inputs, log.disk_blocks()),
    ));
    rows.push(("effects", counts.effects.to_string()));
    rows.push(("snapshots", checkpoints.len().to_string()));
    rows.push((
        "pages",
        format!(
            "{} in all snapshots, {} different: each stored once",
            pages.pages, pages.different
        ),
    ));
    rows.push((
        "packed",
        format!(
            "{} bytes of pages and trees in {} bytes, {:.1} to 1",
            pages.raw_bytes,
            pages.stored_bytes,
            pages.raw_bytes as f64 / pages.stored_bytes.max(1) as f64
        ),
    ));
    rows.push((
        "size",
        format!("{bytes} bytes, of which the event log {log_bytes}"),
    ));
    if let Err(error) = replayable {
        rows.push(("note", error.to_string()));
    }
    rows.extend(notes.into_iter().map(|note| ("note", note)));
    for (name, value) in rows {
        listing.line(&format!("{name:<13} {value}"))?;
    }
    listing.end()?;
    Ok(Outcome::Done)
}
