//! `tickback record`: a machine whose run is recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use icount::{Icount, VirtualTime};
use machine::history::RecordOptions;
use machine::host::Stopwatch;
use machine::{FirstStep, History, MachineError, Stopped, Stops};
use snapshot::RecorderOptions;
use snapshot::grid::{Goals, Grid};

use crate::boot::MachineArguments;
use crate::outcome::Outcome;
use crate::run;
use crate::session::{Live, RunArguments, Session, say};
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
        RecordOptions {
            grid,
            recorder: RecorderOptions {
                durable: self.fsync,
                ..RecorderOptions::default()
            },
            host_time: Box::new(move || u64::try_from(watch.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            origin,
            fsync: self.fsync,
        }
    }
}

impl Live for History {
    fn run(&mut self, until: Icount) -> Result<Stopped, MachineError> {
        self.run_live(until, &Stops::default(), FirstStep::Counts)
    }

    fn icount(&self) -> Icount {
        self.machine().icount()
    }

    fn time(&self) -> VirtualTime {
        self.machine().time()
    }

    fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.machine().interrupt_flag()
    }

    fn reset(&mut self) -> Result<(), MachineError> {
        self.machine_mut().inject(icount::Input::Reset)
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let prepared = arguments.machine.prepare()?;
    let mut session = Session::start(&arguments.run)?;
    let door = session.door(Arc::clone(&prepared.drives), prepared.config.ns_per_step);
    let engine = run::engine(arguments.run.engine);
    let mut history = History::record(
        &arguments.output,
        &prepared.config,
        prepared.images,
        Box::new(door),
        engine,
        arguments.recording.options(prepared.origin),
    )?;
    let led = session.lead(&mut history);
    // A run that failed is closed too, so that it can be looked into; its error comes first.
    let end = led.as_ref().copied().unwrap_or(icount::End::Stopped);
    let finished = history.finish(end);
    let end = led?;
    let finished =
        finished.with_context(|| format!("can't close the recording {}", arguments.output.display()))?;
    say(&format!("{end} at icount {}, {}", finished.at, finished.time));
    say(&format!(
        "recorded {} steps, {} events, {} snapshots in {}",
        finished.at,
        finished.position.inputs + finished.position.effects,
        finished.roots,
        arguments.output.display()
    ));
    let pending = session.script_pending();
    drop(session);
    Ok(run::finish(end, arguments.run.guest_exit, pending))
}
