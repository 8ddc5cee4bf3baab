//! `kill -9` at any moment of a recording leaves one that opens and replays, and holds every input that was delivered.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use icount::{Body, Icount, Input, LogReader};
use tests::Random;
use tests::recorded::replay;
use tests::ways::{Run, With};

const KILLS: usize = 20;

/// Records in a process that is killed after `life`, or (`at_once`) when the guest has answered a byte; the bytes
/// that its guest answered.
fn killed(dir: &Path, life: Duration, at_once: bool, random: &mut Random) -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_child"))
        .arg("record")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = child.stdin.take().unwrap();
    let mut shown = child.stdout.take().unwrap();
    // Typed before the guest has set up its UART, a byte is lost by the guest.
    let ready = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicBool::new(false));
    let answers = {
        let (ready, answered) = (Arc::clone(&ready), Arc::clone(&answered));
        std::thread::spawn(move || {
            let mut bytes = vec![0; 6];
            if shown.read_exact(&mut bytes).is_err() {
                return Vec::new();
            }
            assert_eq!(bytes, b"ready\n");
            ready.store(true, Ordering::Relaxed);
            bytes.truncate(1);
            if shown.read_exact(&mut bytes).is_err() {
                return Vec::new();
            }
            answered.store(true, Ordering::Relaxed);
            shown.read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let start = Instant::now();
    while let Some(left) = life.checked_sub(start.elapsed()) {
        if at_once && answered.load(Ordering::Relaxed) {
            break;
        }
        let byte = b'A' + random.below(16) as u8;
        if ready.load(Ordering::Relaxed) {
            typed.write_all(&[byte]).unwrap();
        }
        std::thread::sleep(left.min(Duration::from_micros(random.below(6000))));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    answers.join().unwrap()
}

#[test]
fn a_killed_recording_replays_and_holds_its_inputs() {
    let mut random = Random(9);
    let (mut with_inputs, mut with_steps) = (0, 0);
    for round in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("killed.tick");
        // From before there is a folder to well past several snapshots.
        let life = Duration::from_millis(20 + random.below(40 + 40 * round as u64));
        // Every fourth as early as an input can be lost.
        let (at_once, life) = (
            round % 4 == 0,
            if round % 4 == 0 {
                Duration::from_secs(20)
            } else {
                life
            },
        );
        let answered = killed(&dir, life, at_once, &mut random);
        if !dir.join("checkpoints").exists() {
            assert!(answered.is_empty(), "it ran before it could be replayed");
            continue;
        }
        let Ok(Run::Replaying(mut history)) = replay(&dir, With::Jit) else {
            // Killed before the power-on state was on disk: nothing had run.
            assert!(answered.is_empty(), "what answered {answered:?} doesn't open");
            continue;
        };
        let verified = history
            .verify(|_| {})
            .unwrap_or_else(|e| panic!("killed after {life:?}: {e}"));
        assert_eq!(verified.end, None);
        let log = LogReader::open(&machine::history::events_path(&dir)).unwrap();
        let inputs: Vec<u8> = log
            .events_from(Icount(0))
            .unwrap()
            .filter_map(|event| match event.unwrap().body {
                Body::Input(Input::Console { byte, .. }) => Some(byte.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        assert!(
            inputs.len() >= answered.len(),
            "{} of {} inputs",
            inputs.len(),
            answered.len()
        );
        assert_eq!(inputs[..answered.len()], answered, "killed after {life:?}");
        with_inputs += usize::from(!answered.is_empty());
        with_steps += usize::from(verified.steps > Icount(0));
    }
    assert!(
        with_inputs >= KILLS / 2 && with_steps >= KILLS / 2,
        "{with_inputs}, {with_steps}"
    );
}
