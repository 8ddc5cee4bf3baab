//! `tickback record`: a machine whose run is recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use icount::End;
use machine::History;
use machine::check::Checked;
use machine::history::{RecordOptions, Retention};
use machine::host::{DriveImage, Stopwatch};
use snapshot::RecorderOptions;
use snapshot::grid::{Goals, Grid};

use crate::boot::MachineArguments;
use crate::debugger;
use crate::outcome::{Outcome, Usage};
use crate::run;
use crate::session::{RunArguments, Session, say};
use crate::values;

/// Run a guest and record it
///
/// The recording is a folder that holds all that a replay needs: it can be moved to another machine.
/// It is valid at any moment, even after kill -9.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Folder for the recording; must not exist
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    machine: MachineArguments,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    recording: RecordingArguments,
    /// Let gdb lead: wait for it at power-on, on HOST:PORT, a port, or a unix socket's path
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["stop_after", "check"], help_heading = "Run")]
    gdb: Option<String>,
}

/// What is kept of a run.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Recording")]
pub struct RecordingArguments {
    /// Take a snapshot every so many steps, a power of two [default: adapted to the guest]
    #[arg(long, value_name = "STEPS", value_parser = values::snapshot_grid, conflicts_with = "no_snapshots")]
    snapshot_every: Option<u64>,
    /// Take snapshots at the beginning and the end only
    #[arg(long)]
    no_snapshots: bool,
    /// Wait for the disk at each input, to lose nothing in a power cut
    #[arg(long)]
    fsync: bool,
    /// Keep the last so many steps only (1e10), and up to a quarter more: for runs of days
    #[arg(long, value_name = "STEPS", value_parser = values::flight_recorder)]
    flight_recorder: Option<u64>,
    /// Keep as much of the end of the run as fits into so many bytes, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = values::recording_size)]
    max_size: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  tickback record -o boot.tick --kernel vmlinux --initrd initramfs.cpio.gz --append console=ttyS0
  tickback record -o disk.tick --smp 4 --kernel Image --drive file=root.img --append 'root=/dev/vda console=ttyS0'
  tickback record -o uboot.tick --bios fw_dynamic.bin --kernel u-boot.bin
  tickback record -o test.tick --bios none --kernel firmware.elf --stop-after 5s --guest-exit";

impl RecordingArguments {
    /// A snapshot every so many steps, a power of two.
    pub const fn every(steps: u64) -> Self {
        Self {
            snapshot_every: Some(steps),
            no_snapshots: false,
            fsync: false,
            flight_recorder: None,
            max_size: None,
        }
    }

    /// For a recording of the files named in `origin`.
    pub fn options(&self, origin: BTreeMap<String, String>) -> RecordOptions {
        let grid = match (self.no_snapshots, self.snapshot_every) {
            (true, _) => Grid::fixed(62),
            (false, Some(steps)) => Grid::fixed(steps.trailing_zeros()),
            (false, None) => Grid::adaptive(Goals::default()),
        };
        let watch = Stopwatch::start();
        let retention = Retention {
            steps: self.flight_recorder,
            bytes: self.max_size,
        };
        let defaults = RecorderOptions::default();
        RecordOptions {
            grid,
            recorder: RecorderOptions {
                // More would only take turns with the guest.
                workers: 1,
                durable: self.fsync,
                pack_bytes: retention.pack_bytes().unwrap_or(defaults.pack_bytes),
                ..defaults
            },
            host_time: Box::new(move || watch.now()),
            origin,
            fsync: self.fsync,
            retention,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let prepared = arguments.machine.prepare()?;
    let listener = arguments.gdb.as_deref().map(debugger::listen).transpose()?;
    if listener.is_some() && prepared.drives.images().iter().any(DriveImage::write_through) {
        let what = "--gdb can go back, a write-through drive can't: leave out one of them";
        return Err(Usage(what.into()).into());
    }
    let mut session = Session::start(&arguments.run)?;
    session.watch_disk(&arguments.output);
    let door = session.door(&prepared)?;
    let (config, folder) = (&prepared.config, &arguments.output);
    let options = arguments.recording.options(prepared.origin);
    let engine = &arguments.run.engine;
    let (history, led) = if arguments.run.check {
        let record = |images, door| History::record(folder, config, images, door, engine.measured(), options);
        let mut checked = Checked::with(config, prepared.images, door, engine.both(), record)?;
        let led = session.lead(&mut checked);
        (checked.into_lead(), led)
    } else {
        let door = Box::new(door);
        let mut history = History::record(folder, config, prepared.images, door, engine.measured(), options)?;
        match listener {
            Some(listener) => debugger::lead(history, &listener, &session),
            None => {
                let led = session.lead(&mut history);
                (history, led)
            }
        }
    };
    close(history, led, arguments, session)
}

/// Closes the recording, also that of a run that failed, so that it can be looked into.
fn close(history: History, led: Result<End>, arguments: &Arguments, session: Session) -> Result<Outcome> {
    let end = led.as_ref().copied().unwrap_or(End::Stopped);
    let finished = history.finish(end);
    let end = led?;
    let folder = arguments.output.display();
    let finished = finished.with_context(|| format!("can't close the recording {folder}"))?;
    say(&format!("{end} at icount {}, {}", finished.at, finished.time));
    say(&format!(
        "recorded {} steps, {} events, {} snapshots in {folder}",
        finished.at,
        finished.position.inputs + finished.position.effects,
        finished.roots,
    ));
    if let Some(pauses) = finished.pauses.filter(|_| arguments.run.engine.stats) {
        say(&pauses.to_string());
    }
    let pending = session.script_pending();
    drop(session);
    Ok(run::finish(end, arguments.run.guest_exit, pending))
}
