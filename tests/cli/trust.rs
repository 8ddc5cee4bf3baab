//! Recordings that can be trusted: verified in parts, and private.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use icount::{Body, Effect, Event, Icount, LogReader, LogWriter};
use serde_json::Value;

use crate::support::{Place, Ran};

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap()
}

/// Writes the log of a recording anew, each event as `change` leaves it.
fn rewrite(log: &Path, mut change: impl FnMut(&mut Event)) {
    let reader = LogReader::open(log).unwrap();
    let other = log.with_extension("new");
    let mut writer = LogWriter::create(&other, reader.ns_per_step().try_into().unwrap()).unwrap();
    for event in reader.events_from(Icount(0)).unwrap() {
        let mut event = event.unwrap();
        change(&mut event);
        match &event.body {
            Body::Effect(effect) => writer.effect(event.at, event.time, event.hart, effect).unwrap(),
            Body::Input(input) => writer.input(event.at, event.time, input).unwrap(),
        }
    }
    let (at, time, end) = reader.end();
    writer.end(at, time, end.unwrap()).unwrap();
    drop(writer);
    fs::remove_file(log).unwrap();
    fs::rename(other, log).unwrap();
}

#[test]
fn verify_is_a_replay_in_parts() {
    let place = Place::new();
    place.demo("a.tick");
    let replay = place.run(&["replay", "-q", "a.tick"]).exits(0);
    for jobs in ["1", "2", "5"] {
        let ran = place
            .run(&["verify", "a.tick", "--jobs", jobs, "--json"])
            .exits(0);
        let whole = json(&ran);
        assert_eq!(whole["equal"], true);
        let (steps, events) = (&whole["steps"], &whole["events"]);
        assert!(
            replay
                .err
                .contains(&format!("replay: {steps} steps, {events} events,")),
            "{} {}",
            replay.err,
            ran.out
        );
        assert!(whole["blocks"].as_u64().unwrap() > 10, "{}", ran.out);
    }
    // The shards of a cluster's jobs are the whole.
    for of in [1, 3, 40] {
        let mut sums = [0; 4];
        for part in 1..=of {
            let shard = format!("{part}/{of}");
            let ran = place
                .run(&["verify", "a.tick", "--shard", &shard, "--json"])
                .exits(0);
            for (sum, name) in sums.iter_mut().zip(["steps", "events", "roots", "blocks"]) {
                *sum += json(&ran)[name].as_u64().unwrap();
            }
        }
        let whole = json(&place.run(&["verify", "a.tick", "--json"]).exits(0));
        for (sum, name) in sums.iter().zip(["steps", "events", "roots", "blocks"]) {
            assert_eq!(whole[name], *sum, "{name} of {of} shards");
        }
    }
    place
        .run(&["verify", "a.tick", "--shard", "2/3"])
        .exits(0)
        .says(&["shard 2/3: ", "all equal"]);
    place
        .run(&["verify", "a.tick", "--engine", "interp", "-j", "2"])
        .exits(0)
        .says(&["all equal"]);
    place
        .run(&["verify", "a.tick", "--shard", "4/3"])
        .refuses(2, &["3/8"]);
    place
        .run(&["verify", "a.tick", "--jobs", "0"])
        .refuses(2, &["jobs"]);
}

#[test]
fn verify_finds_the_first_bad_step() {
    let place = Place::new();
    place.demo("a.tick");
    // Two effects are not what the machine did; the first one counts, whoever finds the other first.
    let mut bad = Vec::new();
    rewrite(&place.path("a.tick/events"), |event| {
        if let Body::Effect(Effect::Interrupt { cause }) = &mut event.body
            && (event.at.0 > 3_000_000 && bad.is_empty() || event.at.0 > 6_300_000 && bad.len() == 1)
        {
            *cause += 1;
            bad.push(event.at);
        }
    });
    for jobs in ["1", "3"] {
        let ran = place
            .run(&["verify", "a.tick", "--jobs", jobs, "--json"])
            .exits(3);
        assert_eq!(json(&ran)["first_bad"], bad[0].0, "{}", ran.out);
        let text = place.run(&["verify", "a.tick", "--jobs", jobs]).exits(3);
        text.says(&[
            &format!("first bad step: after icount {}", bad[0]),
            "recorded:",
            "replayed:",
        ]);
    }
    // A shard knows of its own segments alone.
    place.run(&["verify", "a.tick", "--shard", "1/7"]).exits(0);
    let ran = place
        .run(&["verify", "a.tick", "--shard", "6/7", "--json"])
        .exits(3);
    assert_eq!(json(&ran)["first_bad"], bad[1].0, "{}", ran.out);
}

#[test]
fn verify_reads_every_page() {
    let place = Place::new();
    place.demo("a.tick");
    let pack = place.path("a.tick/packs/0000.pack");
    let mut bytes = fs::read(&pack).unwrap();
    // In what a frame stores: heads have checksums of their own.
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    fs::write(&pack, bytes).unwrap();
    let ran = place.run(&["verify", "a.tick"]).exits(1);
    ran.says(&["packs/0000.pack is damaged at byte"]);
}

#[test]
fn what_a_guest_held_is_for_its_user_alone() {
    let place = Place::new();
    let mut command = Command::new("sh");
    command.current_dir(place.path("")).args([
        "-c",
        "umask 0; exec \"$0\" demo --output a.tick",
        env!("CARGO_BIN_EXE_tickback"),
    ]);
    Ran::of("demo".into(), &mut command).exits(0);
    let mut folders = vec![place.path("a.tick")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700,
            "{folder:?}"
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let mode = entry.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
                files += 1;
            }
        }
    }
    assert!(files >= 4, "{files}");
}

#[test]
fn a_packed_recording_is_the_recording() {
    let place = Place::new();
    place.demo("a.tick");
    place.run(&["pack", "a.tick", "-o", "a.tar"]).exits(0);
    let size = |name: &str| fs::metadata(place.path(name)).unwrap().len();
    let folder = size("a.tick/events")
        + size("a.tick/checkpoints")
        + size("a.tick/manifest.json")
        + size("a.tick/packs/0000.pack");
    assert!(size("a.tar") < folder + 8192, "{} of {folder}", size("a.tar"));
    assert_eq!(
        fs::metadata(place.path("a.tar")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::create_dir(place.path("elsewhere")).unwrap();
    place.run(&["unpack", "a.tar", "-o", "elsewhere/b.tick"]).exits(0);
    fs::remove_file(place.path("demo.elf")).unwrap();
    fs::rename(place.path("a.tick"), place.path("original")).unwrap();
    place
        .run(&["replay", "-q", "elsewhere/b.tick"])
        .exits(0)
        .says(&["all equal"]);
    place
        .run(&["diff", "-q", "original", "elsewhere/b.tick"])
        .exits(0);
    let modes = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (modes("elsewhere/b.tick"), modes("elsewhere/b.tick/packs")),
        (0o700, 0o700)
    );
    assert_eq!(modes("elsewhere/b.tick/events"), 0o600);

    // The system's tar opens it as well.
    let tar = Command::new("tar")
        .args(["xf", "a.tar"])
        .current_dir(place.path(""))
        .status()
        .unwrap();
    assert!(tar.success());
    place
        .run(&["replay", "-q", "recording"])
        .exits(0)
        .says(&["all equal"]);

    for command in ["replay", "info", "log", "snapshots", "verify"] {
        place
            .run(&[command, "a.tar"])
            .refuses(2, &["tickback unpack a.tar -o FOLDER"]);
    }
    place
        .run(&["pack", "original", "-o", "a.tar"])
        .refuses(1, &["a.tar exists"]);
    place
        .run(&["unpack", "a.tar", "-o", "original"])
        .refuses(1, &["original exists"]);
    place.file("short.tar", &fs::read(place.path("a.tar")).unwrap()[..20_000]);
    place
        .run(&["unpack", "short.tar", "-o", "c"])
        .refuses(1, &["short.tar", "cut short"]);
    assert!(!place.path("c").exists());
    place
        .run(&["unpack", "original/events", "-o", "c"])
        .refuses(1, &["original/events"]);
    let left = fs::read_dir(place.path(""))
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(left.count(), 0);
}

#[test]
fn parts_and_fewer_snapshots() {
    let place = Place::new();
    place.demo("a.tick");
    let cut = [
        "cut",
        "a.tick",
        "--from",
        "3_000_000",
        "--to",
        "4000000",
        "-o",
        "b.tick",
    ];
    place
        .run(&cut)
        .exits(0)
        .says(&["1000000 steps from icount 3000000 to 4000000"]);
    for command in [&["verify", "b.tick"][..], &["replay", "b.tick"]] {
        place.run(command).exits(0).says(&[" 1000000 steps", "all equal"]);
    }
    let info = json(&place.run(&["info", "b.tick", "--json"]).exits(0));
    assert_eq!(
        (&info["begin"], &info["steps"]),
        (&3_000_000.into(), &4_000_000.into())
    );
    assert!(info["pages"].as_u64() > info["different_pages"].as_u64());
    assert!(info["unpacked_bytes"].as_u64() > info["packed_bytes"].as_u64());
    place.run(&["info", "b.tick"]).exits(0).says(&[
        "1000000, from icount 3000000 to 4000000",
        "stored once",
        "to 1",
    ]);
    let log = |name: &str, range: [&str; 2]| {
        let ran = place.run(&["log", name, "--from", range[0], "--to", range[1], "--json"]);
        ran.exits(0).out
    };
    assert_eq!(
        log("a.tick", ["3000000", "3999999"]),
        log("b.tick", ["0", "3999999"])
    );
    place
        .run(&["symbols", "b.tick", "-o", "x", "--at", "50%"])
        .refuses(1, &["icount 3500000"]);
    place.run(&["diff", "-q", "b.tick", "b.tick"]).exits(0);
    place.run(&cut).refuses(1, &["b.tick exists"]);
    place
        .run(&["cut", "a.tick", "--from", "9e9", "-o", "c.tick"])
        .refuses(2, &["the recording ends at"]);
    place
        .run(&["cut", "b.tick", "--from", "5", "-o", "c.tick"])
        .refuses(2, &["the recording begins at 3000000"]);
    place
        .run(&["cut", "a.tick", "--from", "50%", "--to", "50%", "-o", "c.tick"])
        .refuses(1, &["no part"]);

    let snapshots = |name: &str| place.run(&["snapshots", name]).exits(0).out.lines().count();
    assert_eq!(snapshots("a.tick"), 9);
    place
        .run(&["prune", "a.tick", "--keep-every", "3e6", "-o", "p.tick"])
        .exits(0);
    assert_eq!(snapshots("p.tick"), 4);
    place
        .run(&["verify", "p.tick"])
        .exits(0)
        .says(&["in 3 segments", "all equal"]);
    place.run(&["diff", "-q", "a.tick", "p.tick"]).exits(0);
    place
        .run(&["prune", "p.tick", "--keep-every", "9e9"])
        .exits(0)
        .says(&["2 of 4 snapshots left"]);
    place
        .run(&["replay", "-q", "p.tick"])
        .exits(0)
        .says(&["2 roots, all equal"]);
    place
        .run(&["prune", "a.tick", "--max-size", "4M"])
        .exits(0)
        .says(&["9 of 9"]);
    place.run(&["prune", "a.tick"]).refuses(2, &["--keep-every"]);
    place
        .run(&["record", "-o", "x", "--kernel", "demo.elf", "--max-size", "1M"])
        .refuses(2, &["4M"]);
    place
        .run(&[
            "record",
            "-o",
            "x",
            "--kernel",
            "demo.elf",
            "--flight-recorder",
            "10",
        ])
        .refuses(2, &["1000000"]);

    let arguments = [
        "record", "-o", "f.tick", "-m", "2M", "--bios", "none", "--kernel", "demo.elf",
    ];
    place
        .run(
            &[
                &arguments[..],
                &["--snapshot-every", "65536", "--flight-recorder", "1e6"],
            ]
            .concat(),
        )
        .exits(0);
    let info = json(&place.run(&["info", "f.tick", "--json"]).exits(0));
    let (begin, end) = (info["begin"].as_u64().unwrap(), info["steps"].as_u64().unwrap());
    assert!((1_000_000..=1_250_000).contains(&(end - begin)), "{begin} {end}");
    place.run(&["verify", "f.tick"]).exits(0).says(&["all equal"]);
    place.run(&["pack", "f.tick", "-o", "f.tar"]).exits(0);
    place.run(&["unpack", "f.tar", "-o", "g.tick"]).exits(0);
    place
        .run(&["replay", "-q", "g.tick"])
        .exits(0)
        .says(&["all equal"]);
    place.run(&["prune", "g.tick", "--keep-every", "9e9"]).exits(0);
    place
        .run(&["verify", "g.tick"])
        .exits(0)
        .says(&["in 1 segments", "all equal"]);
}
