//! What can be done with a recording: read, replayed, compared, damaged.

use std::process::Stdio;

use crate::support::{ECHO, Place, wait};

#[test]
fn a_recording_is_read_in_every_way() {
    let place = Place::new();
    place.demo("a.tick");
    let replay = place.run(&["replay", "a.tick"]).exits(0);
    let last = replay.err.lines().last().unwrap().to_owned();
    assert!(
        last.starts_with("replay: ") && last.ends_with("all equal"),
        "{last}"
    );
    assert!(replay.out.starts_with("demo: two tasks"), "{}", replay.out);
    let quiet = place
        .run(&["replay", "--quiet", "--engine", "interp", "a.tick"])
        .exits(0);
    assert_eq!(
        (quiet.out.as_str(), quiet.err.lines().last()),
        ("", Some(last.as_str()))
    );
    place.run(&["replay", "a.tick", "--guest-exit"]).exits(1);

    place
        .run(&["info", "a.tick"])
        .exits(0)
        .says(&["riscv-virt", "steps", "powered off with code 1"]);
    let info: serde_json::Value =
        serde_json::from_str(&place.run(&["info", "a.tick", "--json"]).exits(0).out).unwrap();
    let steps = info["steps"].as_u64().unwrap();
    assert!(last.starts_with(&format!("replay: {steps} steps")), "{last}");

    let text = place
        .run(&[
            "log", "a.tick", "--from", "1000000", "--to", "2000000", "--kind", "irq",
        ])
        .exits(0);
    let json = place
        .run(&[
            "log", "a.tick", "--from", "1000000", "--to", "2000000", "--kind", "irq", "--json",
        ])
        .exits(0);
    let events: Vec<serde_json::Value> = json
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(text.out.lines().count(), events.len());
    assert!(events.len() > 400, "{}", events.len());
    for event in &events {
        assert_eq!(
            (event["kind"].as_str(), event["cause"].as_u64()),
            (Some("irq"), Some(7))
        );
        assert!((1_000_000..=2_000_000).contains(&event["icount"].as_u64().unwrap()));
    }
    let snapshots = place.run(&["snapshots", "a.tick", "--json"]).exits(0);
    let places: Vec<u64> = snapshots
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["icount"]
                .as_u64()
                .unwrap()
        })
        .collect();
    assert_eq!(places.first(), Some(&0));
    assert_eq!(places[1], 1 << 20);
    assert_eq!(places.last(), Some(&steps));
    assert!(last.contains(&format!("{} roots", places.len())), "{last}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    place.demo("a.tick");
    for arguments in [&["log", "a.tick"][..], &["replay", "a.tick"]] {
        let mut child = place
            .tickback(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(wait(&mut child), 0, "{arguments:?}");
    }
}

#[test]
fn recordings_that_are_damaged_or_of_another_version() {
    let place = Place::new();
    place.run(&["replay", "none.tick"]).refuses(1, &["none.tick"]);
    place.run(&["info", "."]).refuses(1, &["manifest.json"]);
    place.demo("a.tick");
    let manifest = std::fs::read_to_string(place.path("a.tick/manifest.json")).unwrap();
    let events = std::fs::read(place.path("a.tick/events")).unwrap();

    // A pipe in a file's place: nobody waits for a writer.
    place.demo("pipe.tick");
    for (file, word) in [
        ("events", "events: can't open it: it is no regular file"),
        ("checkpoints", "checkpoints: it is no regular file"),
        ("packs/0000.pack", "no snapshot of the power-on state"),
    ] {
        let path = place.path("pipe.tick").join(file);
        let kept = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        place.run(&["replay", "pipe.tick"]).refuses(1, &[word]);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, kept).unwrap();
    }

    // Another model: it can be read, not replayed.
    place.file(
        "a.tick/manifest.json",
        manifest.replace(&format!("\"model\": {}", machine::MODEL_VERSION), "\"model\": 99"),
    );
    place
        .run(&["replay", "a.tick"])
        .refuses(1, &["model version 99", "same model version"]);
    place.run(&["info", "a.tick"]).exits(0).says(&["model 99"]);
    place.run(&["log", "a.tick", "--to", "100"]).exits(0);
    place.file(
        "a.tick/manifest.json",
        manifest.replace("\"format\": 1", "\"format\": 99"),
    );
    place
        .run(&["replay", "a.tick"])
        .refuses(1, &["format 99", "manifest.json"]);
    place.file("a.tick/manifest.json", &manifest[..manifest.len() / 2]);
    place
        .run(&["replay", "a.tick"])
        .refuses(1, &["damaged", "manifest.json"]);
    place.file("a.tick/manifest.json", &manifest);

    // A log of another version, a damaged one, and one that was cut off.
    let mut other = events.clone();
    other[8..12].copy_from_slice(&99u32.to_le_bytes());
    place.file("a.tick/events", &other);
    for command in ["replay", "log", "info"] {
        place.run(&[command, "a.tick"]).refuses(1, &["events", "99"]);
    }
    let mut damaged = events.clone();
    damaged[events.len() / 2] ^= 0x10;
    place.file("a.tick/events", &damaged);
    place
        .run(&["replay", "a.tick"])
        .refuses(1, &["events", "damaged"]);
    place.file("a.tick/events", "not a log");
    place.run(&["log", "a.tick"]).refuses(1, &["events"]);
    assert_eq!(
        std::fs::read(place.path("a.tick/events")).unwrap(),
        b"not a log",
        "files are not changed"
    );
    place.file("a.tick/events", &events[..events.len() - 40]);
    place
        .run(&["replay", "--quiet", "a.tick"])
        .exits(0)
        .says(&["all equal"]);
    place.file("a.tick/events", &events);

    // A snapshot pack that is gone.
    for entry in std::fs::read_dir(place.path("a.tick/packs")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    place.run(&["replay", "a.tick"]).refuses(1, &["a.tick"]);
}

#[test]
fn a_recording_that_was_tampered_with_diverges() {
    let place = Place::new();
    place.demo("a.tick");
    place.demo("b.tick");
    // The events of another guest's run, under this recording's snapshots.
    place.code("echo", &ECHO);
    let echo = [
        "record",
        "-o",
        "c.tick",
        "-m",
        "2M",
        "--bios",
        "none",
        "--kernel",
        "echo",
        "--stop-after",
        "1e6",
    ];
    place.run(&echo).exits(0);
    std::fs::copy(place.path("c.tick/events"), place.path("a.tick/events")).unwrap();
    let ran = place.run(&["replay", "--quiet", "a.tick"]).exits(3);
    assert!(ran.err.contains("departs from its recording"), "{}", ran.err);
    place.run(&["replay", "--quiet", "b.tick"]).exits(0);
}

#[test]
fn two_recordings_are_compared() {
    let place = Place::new();
    place.demo("a.tick");
    place.demo("b.tick");
    // The same date, so that they start equal: the default is the host's.
    let record = |name: &str, more: &[&str]| {
        let arguments = [
            "record", "-o", name, "-m", "2M", "--bios", "none", "--kernel", "demo.elf", "--date", "0",
        ];
        place.run(&[&arguments[..], more].concat()).exits(0);
    };
    record("c.tick", &[]);
    record("d.tick", &["--engine", "interp"]);
    record("e.tick", &["--ns-per-step", "3"]);
    place.run(&["diff", "c.tick", "d.tick"]).exits(0);
    let ran = place
        .run(&["diff", "--json", "--quiet", "c.tick", "e.tick"])
        .exits(3);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["equal"], false);
    place
        .run(&["diff", "c.tick", "none.tick"])
        .refuses(1, &["none.tick"]);
}

#[test]
fn diff_ignores_what_does_not_matter() {
    let place = Place::new();
    let mut guest = firmware::demo();
    let address = guest.load + guest.image.len() as u64;
    for (name, byte) in [("a", 1), ("b", 2)] {
        // Nobody reads it.
        guest.image.push(byte);
        place.file(&format!("{name}.elf"), guest.to_elf());
        guest.image.pop();
        let (recording, kernel) = (format!("{name}.tick"), format!("{name}.elf"));
        let arguments = ["-m", "2M", "--bios", "none", "--date", "0", "--kernel", &kernel];
        place
            .run(&[&["record", "-o", &recording], &arguments[..]].concat())
            .exits(0);
    }
    let compare = |more: &[&str]| place.run(&[&["diff", "-q", "a.tick", "b.tick"], more].concat());
    let ran = compare(&[]).exits(3);
    assert!(
        ran.out.contains(&format!("[{address:#x}] 01 | 02")),
        "{}",
        ran.out
    );
    let range = |from: u64, to: u64| format!("{from:#x}..{to:#x}");
    compare(&["--ignore", &range(address, address + 1)]).exits(0);
    compare(&["--ignore", &range(address - 8, address)]).exits(3);
    let two = [range(0, 8), range(address - 8, address + 8)];
    compare(&["--ignore", &two[0], "--ignore", &two[1]]).exits(0);
    compare(&["--ignore", &range(address, address)]).refuses(2, &["the range is empty"]);
    compare(&["--ignore", "0x1000"]).refuses(2, &["the first address and the one behind the last"]);
}

#[test]
fn checked_runs_are_the_same_runs() {
    let place = Place::new();
    place.file("demo.elf", firmware::demo().to_elf());
    let arguments = ["-m", "2M", "--bios", "none", "--kernel", "demo.elf", "--check"];
    place
        .run(&[&["run"][..], &arguments].concat())
        .exits(0)
        .says(&["demo: panic", "code 1"]);
    place
        .run(&[&["record", "-o", "c.tick"][..], &arguments].concat())
        .exits(0);
    place
        .run(&["replay", "--quiet", "c.tick"])
        .exits(0)
        .says(&["all equal"]);
}

#[test]
fn the_demo_finds_the_culprit() {
    let place = Place::new();
    let store = "instruction  sd a1,8(a2)";
    let found = [
        "all equal",
        "<list_remove+24>",
        store,
        "was 0x",
        "the machine timer's",
    ];
    let jit = place.run(&["demo"]).exits(0).says(&found).out;
    let kept = place
        .run(&["demo", "--engine", "interp", "-o", "d.tick"])
        .exits(0)
        .says(&found)
        .out;
    let story = |text: &str| {
        text.lines()
            .take_while(|line| !line.contains("gdb"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(story(&jit), story(&kept));
    place.run(&["replay", "--quiet", "d.tick"]).exits(0);
    place
        .run(&["demo", "-o", "d.tick"])
        .exits(1)
        .says(&["d.tick exists"]);
}

#[test]
fn symbols_of_a_guest_without_a_kernel_are_a_failure_that_says_when() {
    let place = Place::new();
    place.demo("a.tick");
    let none = place
        .run(&["symbols", "a.tick", "-o", "kernel.elf", "--at", "50%"])
        .exits(1);
    let why = "tickback: no kallsyms found at icount ";
    assert!(none.err.starts_with(why), "{}", none.err);
    assert!(
        none.err.contains("is a Linux kernel running then?"),
        "{}",
        none.err
    );
    assert!(!place.path("kernel.elf").exists());
    for bad in ["101%", "half", "1e18"] {
        place
            .run(&["symbols", "a.tick", "-o", "kernel.elf", "--at", bad])
            .exits(2);
    }
}
