//! `tickback cut`: a window of a recording as a recording of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use icount::Icount;
use machine::history::CutOptions;
use machine::host::{Control, Signals, Stopwatch};
use machine::{MachineError, Recorded};
use snapshot::RecorderOptions;
use snapshot::grid::Grid;

use crate::engine::EngineArgument;
use crate::outcome::Outcome;
use crate::progress::ProgressLine;
use crate::session::say;
use crate::values::{self, Place};

/// Make a recording of a part of a recording
///
/// The window is replayed, and recorded again on the way; its first snapshot is whole, and positions keep their icounts. All
/// that can be done with a recording can be done with it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// Where the new one begins: an icount, or a part of the recording (50%) [default: its beginning]
    #[arg(long, value_name = "N|P%", value_parser = values::place)]
    from: Option<Place>,
    /// Where it ends: an icount, a part of the recording, or `end`
    #[arg(long, default_value = "end", value_name = "N|P%|end", value_parser = values::place)]
    to: Place,
    /// Folder for the new recording; must not exist
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
    /// Say nothing about how far it is
    #[arg(long, short)]
    quiet: bool,
}

/// Beside `path`, so that a rename brings what is made there to it.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses what is there already.
pub fn must_be_new(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists; choose another name", path.display());
    }
    Ok(())
}

/// Stored once and sent: small rather than fast.
pub fn small() -> RecorderOptions {
    RecorderOptions {
        group: 64,
        level: 12,
        ..RecorderOptions::default()
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let output = &arguments.output;
    must_be_new(output)?;
    let control = Control::new();
    let signals = Signals::catch(&control, None)?;
    let recorded = Recorded::open(&arguments.recording)?;
    let (begin, end) = (recorded.first()?.at, recorded.log().end().0);
    let from = match arguments.from {
        Some(place) => place.in_recording(begin, end)?,
        None => begin,
    };
    let to = arguments.to.in_recording(begin, end)?;
    let mut origin = recorded.manifest().origin.clone();
    origin.insert("cut".into(), format!("icount {from} to {to}"));
    // A dozen or two of snapshots, unless the window is short.
    let k = (to.since(from) / 16).max(1 << 20).ilog2();
    let watch = Stopwatch::start();
    let options = CutOptions {
        from,
        to,
        grid: Grid::fixed(k),
        recorder: small(),
        host_time: Box::new(move || watch.now()),
        origin,
    };
    let made = || format!("can't make the folder {}", output.display());
    let temporary = tempfile::Builder::new()
        .prefix(".tickback-cut")
        .tempdir_in(folder_of(output))
        .with_context(made)?;
    let folder = temporary.path().join("recording");
    let mut line = ProgressLine::new("cut", arguments.quiet);
    let start = recorded
        .checkpoints()
        .at_or_below(from)
        .map_or(Icount(0), |checkpoint| checkpoint.at);
    let cut = recorded.cut(&folder, arguments.engine.engine(), options, |at| {
        line.show(at.since(start), to.since(start));
        control.take().is_none()
    });
    drop(line);
    drop(signals);
    let finished = match cut {
        Err(MachineError::Interrupted) => {
            say("cut interrupted; nothing was made");
            return Ok(Outcome::Failed);
        }
        other => other?,
    };
    std::fs::rename(&folder, output).with_context(made)?;
    say(&format!(
        "{} steps from icount {from} to {to}, {} snapshots, {} bytes, in {}",
        to.since(from),
        finished.roots,
        values::folder_size(output)?,
        output.display()
    ));
    Ok(Outcome::Done)
}
