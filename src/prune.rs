//! `tickback prune`: fewer snapshots, so that a recording takes less room. Positions and events stay.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use icount::{Icount, LogReader};
use machine::history::events_path;
use machine::manifest::Manifest;
use snapshot::grid::thin;
use snapshot::{CheckpointInfo, Checkpoints, copy_checkpoints};

use crate::cut::{folder_of, must_be_new, small};
use crate::outcome::{Outcome, Usage};
use crate::session::say;
use crate::values;

/// Leave out snapshots of a recording, to make it smaller
///
/// The first and the last snapshot and all events stay, so that every position is still reached, from a snapshot further
/// away. Nothing is replayed: recordings of other model versions can be pruned too.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// Leave a snapshot about every so many steps (1e9)
    #[arg(long, value_name = "STEPS", value_parser = values::number, group = "what")]
    keep_every: Option<u64>,
    /// Leave as many as fit into so many bytes, with K, M or G, the newest ones densest
    #[arg(long, value_name = "SIZE", value_parser = values::recording_size, group = "what")]
    max_size: Option<u64>,
    /// Folder for the pruned recording; must not exist [default: in place of the old one]
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// One in each stretch of `steps`, with the first and the last.
fn every(list: &[CheckpointInfo], steps: u64) -> Vec<Icount> {
    let mut kept: Vec<Icount> = Vec::new();
    for (index, checkpoint) in list.iter().enumerate() {
        let far = kept.last().is_none_or(|last| checkpoint.at.since(*last) >= steps);
        if far || index + 1 == list.len() {
            kept.push(checkpoint.at);
        }
    }
    kept
}

/// Sets of snapshots, from many to few.
fn thinner(list: &[CheckpointInfo]) -> Vec<Vec<Icount>> {
    let all: Vec<Icount> = list.iter().map(|checkpoint| checkpoint.at).collect();
    let end = all.last().copied().unwrap_or_default();
    let mut sets = vec![all.clone()];
    for per_octave in [64, 32, 16, 8, 4, 2, 1] {
        let gone = thin(list, end, per_octave);
        sets.push(all.iter().filter(|at| !gone.contains(at)).copied().collect());
    }
    sets.push(every(list, u64::MAX));
    sets
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let folder = &arguments.recording;
    Manifest::read(folder)?;
    let log = LogReader::open(&events_path(folder))?;
    let checkpoints = Checkpoints::open(folder)?;
    if let Some(damage) = checkpoints.damage().first() {
        bail!("{damage}; a damaged recording is not pruned");
    }
    let list = checkpoints.list();
    let before = values::folder_size(folder)?;
    let fixed = log.bytes();
    let keep = match (arguments.keep_every, arguments.max_size) {
        (Some(steps), _) => every(&list, steps),
        (None, Some(size)) => {
            // As stored now; packing again makes it smaller, which the last set may need.
            let sets = thinner(&list);
            let mut fits = sets.last().cloned().unwrap_or_default();
            for set in sets {
                if fixed + checkpoints.bytes_of(&set)? <= size {
                    fits = set;
                    break;
                }
            }
            fits
        }
        (None, None) => list.iter().map(|checkpoint| checkpoint.at).collect(),
    };
    let output = arguments.output.as_ref().unwrap_or(folder);
    if arguments.output.is_some() {
        must_be_new(output)?;
    }
    let made = || format!("can't make the folder {}", output.display());
    let place = folder_of(output);
    let temporary = tempfile::Builder::new()
        .prefix(".tickback-prune")
        .tempdir_in(place)
        .with_context(made)?;
    let pruned = temporary.path().join("recording");
    copy_checkpoints(&checkpoints, &keep, &pruned, small())?;
    copy_rest(folder, &pruned)?;
    drop((checkpoints, log));
    let after = values::folder_size(&pruned)?;
    if let Some(size) = arguments.max_size.filter(|size| after > *size) {
        return Err(Usage(format!(
            "with {} snapshots alone it has {after} bytes, more than {size}: cut a part of it instead",
            keep.len()
        ))
        .into());
    }
    if arguments.output.is_none() {
        // Both are whole at every moment, one of them under its name.
        let old = temporary.path().join("old");
        std::fs::rename(folder, &old).with_context(made)?;
        if let Err(error) = std::fs::rename(&pruned, folder) {
            std::fs::rename(&old, folder).with_context(made)?;
            return Err(error).with_context(made);
        }
    } else {
        std::fs::rename(&pruned, output).with_context(made)?;
    }
    say(&format!(
        "{} of {} snapshots left, {after} bytes instead of {before}, in {}",
        keep.len(),
        list.len(),
        output.display()
    ));
    Ok(Outcome::Done)
}

/// Everything but snapshots, as it is.
fn copy_rest(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| format!("can't read {}", from.display()))? {
        let entry = entry.with_context(|| format!("can't read {}", from.display()))?;
        let name = entry.file_name();
        let kind = entry
            .file_type()
            .with_context(|| format!("can't read {}", from.display()))?;
        if kind.is_file() && !name.to_string_lossy().starts_with("checkpoints") {
            let target = to.join(&name);
            // The copy has the mode of the original, which is private.
            std::fs::copy(entry.path(), &target)
                .with_context(|| format!("can't write {}", target.display()))?;
        }
    }
    Ok(())
}
