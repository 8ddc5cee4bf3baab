//! A process of its own for whole-machine tests: it restores from disk what another one recorded, or records until it
//! is killed.
//!
//! ```text
//!   child root FOLDER POSITION    the state root there, restored from the folder
//!   child record FOLDER [STEPS]   records the echo guest, typing what comes on standard input, its console on standard output;
//!                                 the last STEPS only
//! ```
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use icount::Icount;
use machine::history::{RecordOptions, Retention};
use machine::host::{Console, Control, Keyboard, LiveDoor, Signals, Stopwatch};
use machine::{FirstStep, History, Stops};
use snapshot::RecorderOptions;
use snapshot::grid::Grid;
use tests::ways::With;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["root", dir, place] => root(Path::new(dir), place.parse()?),
        ["record", dir] => record(Path::new(dir), None),
        ["record", dir, steps] => record(Path::new(dir), Some(steps.parse()?)),
        _ => bail!("usage: child root FOLDER POSITION | record FOLDER [STEPS]"),
    }
}

fn root(dir: &Path, place: u64) -> Result<()> {
    let seen = tests::recorded::seek(dir, With::Jit, &[place], false)?;
    let seen = seen.first().context("nothing was seen")?;
    println!("{}", seen.root);
    Ok(())
}

fn record(dir: &Path, steps: Option<u64>) -> Result<()> {
    let control = Control::new();
    // A write past a limit of a file's size is an error then, not the end.
    let _signals = Signals::catch(&control, None)?;
    let _keyboard = Keyboard::stdin(&control)?;
    let door = LiveDoor::new(control.clone(), Console::stdout(None));
    let subject = tests::subject::Subject::of("echo", &tests::echo::echo(), 1, &[], &[]);
    let watch = Stopwatch::start();
    let options = RecordOptions {
        grid: Grid::fixed(if steps.is_some() { 17 } else { 20 }),
        recorder: RecorderOptions {
            // Small enough that some go.
            pack_bytes: steps.map_or(256 << 20, |_| 64 << 10),
            ..RecorderOptions::default()
        },
        host_time: Box::new(move || watch.now()),
        origin: Default::default(),
        fsync: false,
        retention: Retention { steps, bytes: None },
    };
    let engine = With::Jit.engine()?;
    let mut history = History::record(
        dir,
        &subject.config,
        subject.images,
        Box::new(door),
        engine,
        options,
    )?;
    loop {
        history.run_live(Icount::MAX, &Stops::default(), FirstStep::Counts)?;
    }
}
