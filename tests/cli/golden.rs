//! Recordings that earlier versions made, kept small and as files, stay readable; and an independent reader, written from
//! docs/format.md, reads in them and in new ones what tickback does.
//!
//! `tests/golden/recordings/format1-*`: a demo's first 2.5 million steps, from power-on. `format2-*`: a part of one (`cut`), and
//! what a flight recorder left of one. A recording of another model version is read but not replayed, and that is tested too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use icount::Icount;
use machine::{AddressKind, Engine, History, Timeline, TimelineOptions};
use serde_json::Value;

use crate::support::{Place, Ran};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn reader(arguments: &[&str], place: &Place) -> Vec<u8> {
    let output = Command::new("python3")
        .arg(root().join("reader/tickback_reader.py"))
        .args(arguments)
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    output.stdout
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the independent reader finds is what tickback says: events, snapshots, hashes.
fn read_alike(place: &Place, recording: &str) -> (usize, Vec<Value>) {
    let ours = place.run(&["log", "--json", recording]).exits(0).out;
    let theirs = String::from_utf8(reader(&["events", recording], place)).unwrap();
    for (number, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(a, b, "event {number} of {recording}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    let snapshots = lines(&place.run(&["snapshots", "--json", recording]).exits(0).out);
    let theirs = String::from_utf8(reader(&["snapshots", recording], place)).unwrap();
    assert_eq!(snapshots, lines(&theirs));
    (ours.lines().count(), snapshots)
}

#[test]
fn recordings_of_each_format_stay_readable() {
    let place = Place::new();
    // Events, snapshots, first and last position.
    let golden = [
        ("format1-riscv64", 4581, 4, [0, 2_500_000]),
        ("format1-x86_64", 3053, 4, [0, 2_500_000]),
        ("format2-cut-riscv64", 882, 2, [1_500_000, 2_000_000]),
        ("format2-flight-riscv64", 1866, 10, [1_441_792, 2_500_000]),
    ];
    let files = fs::read_dir(root().join("golden/recordings")).unwrap().count();
    assert_eq!(files, golden.len());
    for (name, events, snapshots, [begin, end]) in golden {
        let packed = root().join(format!("golden/recordings/{name}.tick.tar"));
        place
            .run(&["unpack", packed.to_str().unwrap(), "-o", name])
            .exits(0);
        let (found, list) = read_alike(&place, name);
        assert_eq!((found, list.len()), (events, snapshots), "{name}");
        assert_eq!(list[0]["icount"], begin);
        let info: Value = serde_json::from_str(&place.run(&["info", name, "--json"]).exits(0).out).unwrap();
        assert_eq!(
            (&info["begin"], &info["steps"]),
            (&begin.into(), &end.into()),
            "{name}"
        );
        assert_eq!(info["notes"], Value::Array(Vec::new()));
        let verify = place.run(&["verify", name]);
        if info["replayable"] == true {
            verify.exits(0).says(&["all equal"]);
        } else {
            let model = format!("model version {}", info["model"]);
            verify.refuses(
                1,
                &[
                    name,
                    &model,
                    "must be replayed by a tickback with the same model version",
                ],
            );
            place.run(&["replay", name]).refuses(1, &[&model]);
        }
    }
    let checked = reader(&["check", "format1-riscv64"], &place);
    assert!(String::from_utf8(checked).unwrap().starts_with("4 snapshots"));
}

#[test]
fn an_independent_reader_finds_the_same() {
    let place = Place::new();
    place.demo("a.tick");
    let (_, snapshots) = read_alike(&place, "a.tick");
    let at = snapshots[4]["icount"].as_u64().unwrap();
    let history = History::open(&place.path("a.tick"), Engine::interp()).unwrap();
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    timeline.seek(Icount(at)).unwrap();
    let machine = timeline.machine_mut().machine_mut();
    // The demo's code, its data, a page that it never touched.
    for key in [0, 1, 2, 5, 300] {
        let mut ours = vec![0; 4096];
        assert!(machine.debug_read(AddressKind::Physical, 0x8000_0000 + key * 4096, &mut ours));
        let theirs = reader(&["page", "a.tick", &at.to_string(), &key.to_string()], &place);
        assert!(ours == theirs, "page {key} at {at}");
    }

    // Torn, it ends for both at the same event; damaged, both refuse it.
    let events = place.path("a.tick/events");
    let whole = fs::read(&events).unwrap();
    fs::write(&events, &whole[..whole.len() - 5]).unwrap();
    read_alike(&place, "a.tick");
    let mut bytes = whole;
    bytes[100] ^= 1;
    fs::write(&events, bytes).unwrap();
    place.run(&["log", "a.tick"]).refuses(1, &["events", "damaged"]);
    let mut command = Command::new("python3");
    command
        .arg(root().join("reader/tickback_reader.py"))
        .args(["events", "a.tick"])
        .current_dir(place.path(""));
    let refused = Ran::of("reader".into(), &mut command);
    assert!(
        refused.code != Some(0) && refused.err.contains("damaged"),
        "{}",
        refused.err
    );

    // What was thrown away while it grew.
    let arguments = [
        "record", "-o", "f.tick", "-m", "2M", "--bios", "none", "--kernel", "demo.elf",
    ];
    place
        .run(&[&arguments[..], &["--snapshot-every", "1024", "--max-size", "4M"]].concat())
        .exits(0);
    assert!(!place.path("f.tick/packs/0000.pack").exists());
    read_alike(&place, "f.tick");
}
