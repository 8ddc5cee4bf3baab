//! `kill -9` in the middle of a recording: no input that was delivered is lost.
#![allow(clippy::unwrap_used)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Command, Stdio};

use icount::{
    Body, Door, Due, Effect, Icount, Input, LogReader, LogWriter, Ready, Recording, ScriptedDoor, VirtualTime,
};

/// Set to the log's path in the process that is to be killed.
const LOG: &str = "ICOUNT_TEST_KILLED_LOG";

/// Records a byte a step for ever, and tells each after its delivery.
fn record_for_ever(path: &Path) {
    let typed: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let live = ScriptedDoor::new().typing(Due::At(Icount(0)), &typed);
    let mut door = Recording::new(live, LogWriter::create(path, NonZeroU64::MIN).unwrap());
    let mut out = std::io::stdout();
    for step in 0.. {
        let (at, time) = (Icount(step), VirtualTime(step));
        let Some(Input::Console { byte, .. }) = door
            .input(
                at,
                time,
                Ready {
                    console: true,
                    key: true,
                    virtio_console: true,
                    frames: 1,
                },
            )
            .unwrap()
        else {
            return;
        };
        writeln!(out, "delivered {step} {byte}").unwrap();
        door.effect(at, time, 0, &Effect::ConsoleOut { port: 0, byte })
            .unwrap();
        door.progress(at, time, step % 64 == 63).unwrap();
    }
}

#[test]
fn no_delivered_input_is_lost() {
    if let Some(path) = env::var_os(LOG) {
        return record_for_ever(Path::new(&path));
    }
    for lines in [1, 100, 5000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "no_delivered_input_is_lost", "--nocapture"])
            .env(LOG, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut delivered = Vec::new();
        // After the kill, what the pipe still holds was delivered too.
        while let Some(Ok(line)) = output.next() {
            if let Some((_, told)) = line.split_once("delivered ") {
                delivered.push(told.to_owned());
            }
            if delivered.len() == lines {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(delivered.len() >= lines);
        let log = LogReader::open(&path).unwrap();
        assert_eq!(log.end().2, None);
        assert!(log.lost_effects().is_some());
        let mut inputs = Vec::new();
        for event in log.events_from(Icount::ZERO).unwrap().map(Result::unwrap) {
            if let Body::Input(Input::Console { byte, .. }) = event.body {
                inputs.push(format!("{} {byte}", event.at));
            }
        }
        // One more may be logged that was not delivered yet.
        assert!(
            inputs.len() - delivered.len() <= 1,
            "{} {}",
            inputs.len(),
            delivered.len()
        );
        assert_eq!(inputs[..delivered.len()], delivered);
    }
}
