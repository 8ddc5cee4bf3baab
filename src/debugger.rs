//! `tickback gdb`, and gdb as the leader of a live recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gdb::{Ended, GdbError, Listener, Options, serve};
use icount::End;
use machine::host::{Control, Signals, Stopwatch};
use machine::{History, Timeline, TimelineOptions};
use tempfile::TempDir;

use crate::engine::EngineArgument;
use crate::outcome::{Outcome, Usage};
use crate::sandbox::{self, Needs, SandboxArguments};
use crate::session::{Session, say};
use crate::values;

/// Debug a recording with gdb, in both directions
///
/// Waits for gdb: `gdb-multiarch vmlinux -ex 'target remote ADDRESS'`. Besides break, watch, stepi and the
/// like, their reverses work: reverse-continue, reverse-stepi, reverse-finish, ...; `monitor help` lists what
/// gdb does not know itself. Detaching leaves it waiting; gdb's kill, or Ctrl-C here, ends it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// Where gdb connects: HOST:PORT, a port, or a unix socket's path
    #[arg(long, default_value = "127.0.0.1:1234", value_name = "ADDRESS")]
    listen: String,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
    #[command(flatten)]
    sandbox: SandboxArguments,
}

/// Listens for gdb.
pub fn listen(address: &str) -> Result<Listener> {
    Listener::bind(address).map_err(|error| match error {
        GdbError::Address { .. } => Usage(error.to_string()).into(),
        other => other.into(),
    })
}

/// The folder of tickback.gdb: gdb's user sources it from there while this process lives.
fn script_folder() -> Result<TempDir> {
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let script = script_in(&folder);
    std::fs::write(&script, gdb::SCRIPT).with_context(|| format!("can't write {}", script.display()))?;
    Ok(folder)
}

fn script_in(folder: &TempDir) -> PathBuf {
    folder.path().join("tickback.gdb")
}

/// Serves gdb over a timeline, until `ending` says so.
fn attend(
    timeline: &mut Timeline<History>,
    listener: &Listener,
    folder: &TempDir,
    ending: impl FnMut() -> bool,
) -> Result<Ended> {
    if let Some(warning) = listener.warning() {
        say(warning);
    }
    say(&format!("waiting for gdb: target remote {}", listener.address()));
    let watch = Stopwatch::start();
    let options = Options {
        host_time: Box::new(move || u64::try_from(watch.elapsed().as_nanos()).unwrap_or(u64::MAX)),
        ending: Box::new(ending),
        say: Box::new(say),
        script: Some(script_in(folder)),
    };
    Ok(serve(timeline, listener, options)?)
}

/// Lets gdb lead a live recording, to the end of the run.
pub fn lead(history: History, listener: &Listener, session: &Session) -> (History, Result<End>) {
    session.watch(history.machine().interrupt_flag());
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    let ended =
        script_folder().and_then(|folder| attend(&mut timeline, listener, &folder, || session.is_ending()));
    let mut history = timeline.into_machine();
    let end = ended.and_then(|_| {
        history.go_live()?;
        Ok(history.machine().ended().unwrap_or(End::Stopped))
    });
    (history, end)
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let listener = listen(&arguments.listen)?;
    let folder = script_folder()?;
    let mut needs = Needs::reading(&[&arguments.recording]);
    needs.removing(folder.path());
    if let Some(socket) = listener.path() {
        // A name without a folder is one in this folder.
        let place = socket.parent().filter(|place| !place.as_os_str().is_empty());
        needs.removing_files(place.unwrap_or(Path::new(".")));
    }
    sandbox::enter(arguments.sandbox, &needs)?;
    let control = Control::new();
    let signals = Signals::catch(&control, None)?;
    let history = History::open(&arguments.recording, arguments.engine.engine())?;
    control.attach(history.machine().interrupt_flag());
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    attend(&mut timeline, &listener, &folder, || control.take().is_some())?;
    drop(signals);
    Ok(Outcome::Done)
}
