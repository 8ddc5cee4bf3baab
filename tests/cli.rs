//! The command line from outside: bad input gives one clear line and the right exit code, and loses nothing;
//! keys, signals and scripts do what the help says.
#![allow(clippy::unwrap_used, missing_docs)]
// Tests wait for other processes, in host time.
#![allow(clippy::disallowed_methods)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Echoes what comes from the UART, for ever, without waiting.
const ECHO: [u32; 7] = [
    0x1000_02b7, // lui t0,0x10000
    0x0052_c303, // lbu t1,5(t0)
    0x0013_7313, // andi t1,t1,1
    0xfe03_0ce3, // beqz t1,-8
    0x0002_c383, // lbu t2,0(t0)
    0x0072_8023, // sb t2,0(t0)
    0xfedf_f06f, // j -20
];

/// Waits for an interrupt that is never enabled.
const WAIT: [u32; 2] = [0x1050_0073, 0xffdf_f06f]; // wfi; j -4

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn code(&self, name: &str, words: &[u32]) -> PathBuf {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file(name, bytes)
    }

    fn tickback(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickback"));
        command
            .current_dir(self.0.path())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(arguments.join(" "), self.tickback(arguments).output().unwrap())
    }

    /// Records the demo guest as `name`.
    fn demo(&self, name: &str) {
        self.file("demo.elf", firmware::demo().to_elf());
        let arguments = [
            "record", "-o", name, "-m", "2M", "--bios", "none", "--kernel", "demo.elf",
        ];
        self.run(&[&arguments[..], &["--snapshot-every", "1048576"]].concat())
            .exits(0);
    }
}

struct Ran {
    command: String,
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(command: String, output: Output) -> Self {
        Self {
            command,
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    fn exits(self, code: i32) -> Self {
        let Self {
            command, out, err, ..
        } = &self;
        assert_eq!(self.code, Some(code), "{command}\nstdout: {out}\nstderr: {err}");
        assert!(!err.contains("panicked"), "{command}\n{err}");
        self
    }

    /// Fails with one line of tickback's own that has all these words.
    #[track_caller]
    fn refuses(self, code: i32, words: &[&str]) -> Self {
        let ran = self.exits(code);
        for word in words {
            assert!(
                ran.err.contains(word),
                "{}: no {word:?} in: {}",
                ran.command,
                ran.err
            );
        }
        if code == 1 {
            let lines = ran
                .err
                .lines()
                .filter(|line| line.starts_with("tickback: "))
                .count();
            assert_eq!(
                (lines, ran.err.lines().count()),
                (1, 1),
                "{}\n{}",
                ran.command,
                ran.err
            );
        }
        ran
    }

    #[track_caller]
    fn says(self, words: &[&str]) -> Self {
        let text = format!("{}{}", self.out, self.err);
        for word in words {
            assert!(text.contains(word), "{}: no {word:?} in: {text}", self.command);
        }
        self
    }
}

/// Waits for a child, which must end soon.
fn wait(child: &mut Child) -> i32 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it did not end");
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits until a recording has begun.
fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{} never came",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn help_and_version() {
    let place = Place::new();
    place
        .run(&["--help"])
        .exits(0)
        .says(&["record", "replay", "Examples:", "Exit codes"]);
    place.run(&["--version"]).exits(0).says(&["tickback 0."]);
    for command in [
        "demo",
        "record",
        "run",
        "replay",
        "info",
        "log",
        "snapshots",
        "gdb",
        "diff",
    ] {
        place
            .run(&[command, "--help"])
            .exits(0)
            .says(&["Usage: tickback"]);
    }
    place.run(&[]).exits(2);
}

#[test]
fn mistakes_on_the_command_line() {
    let place = Place::new();
    place.code("echo", &ECHO);
    place.run(&["run", "--frobnicate"]).refuses(2, &["--frobnicate"]);
    place.run(&["fly"]).refuses(2, &["fly"]);
    place
        .run(&["record", "--kernel", "echo"])
        .refuses(2, &["--output"]);
    place.run(&["run"]).refuses(2, &["nothing to start", "--kernel"]);
    let with = |arguments: &[&str]| place.run(&[&["run", "--kernel", "echo"], arguments].concat());
    with(&["-m", "1M"]).refuses(2, &["1M", "2M to 64G"]);
    with(&["-m", "lots"]).refuses(2, &["lots", "512M"]);
    with(&["-m", "3000000"]).refuses(2, &["pages"]);
    with(&["--smp", "9"]).refuses(2, &["9", "1..=8"]);
    with(&["--machine", "pc"]).refuses(2, &["pc", "riscv-virt"]);
    with(&["--drive", "file=x,rw"]).refuses(2, &["'rw'", "write-through"]);
    with(&["--date", "tomorrow"]).refuses(2, &["tomorrow", "2025-06-01T12:00:00Z"]);
    with(&["--stop-after", "5 min"]).refuses(2, &["5 min", "200ms"]);
    with(&["--slice", "10"]).refuses(2, &["1000"]);
    with(&["--exit-on", "\\q"]).refuses(2, &["\\q"]);
    let grid = [
        "record",
        "-o",
        "r",
        "--kernel",
        "echo",
        "--snapshot-every",
        "1000000",
    ];
    place.run(&grid).refuses(2, &["1048576"]);
    assert!(!place.path("r").exists());
    place
        .run(&["log", "r", "--kind", "irk"])
        .refuses(2, &["irk", "irq"]);
}

#[test]
fn files_that_are_no_kernels() {
    let place = Place::new();
    let elf = firmware::demo().to_elf();
    place.file("empty", "");
    place.file("cut.elf", &elf[..200]);
    place.file("gzip", b"\x1f\x8b\x08\0garbage that is no deflate stream");
    let large = std::fs::File::create(place.path("large")).unwrap();
    large.set_len(20 << 20).unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    let host = env!("CARGO_BIN_EXE_tickback");
    let cases: [(&str, &[&str]); 7] = [
        ("missing", &["missing", "No such file"]),
        ("empty", &["empty"]),
        ("cut.elf", &["cut.elf", "cut off"]),
        ("gzip", &["gzip", "unpacked"]),
        ("large", &["large", "16 MiB", "--memory"]),
        ("folder", &["folder"]),
        (host, &["tickback", "RISC-V"]),
    ];
    for (file, words) in cases {
        let memory = if file == host { "1G" } else { "16M" };
        for option in ["--kernel", "--bios"] {
            let arguments = ["record", "-o", "r.tick", "-m", memory, option, file];
            place.run(&arguments).refuses(1, &[words, &[option]].concat());
            assert!(!place.path("r.tick").exists(), "{option} {file}");
        }
    }
    place.code("echo", &ECHO);
    let initrd = ["run", "-m", "2M", "--kernel", "echo", "--initrd", "large"];
    place.run(&initrd).refuses(1, &["--initrd", "large"]);
}

#[test]
fn drives_that_are_none() {
    let place = Place::new();
    place.code("echo", &ECHO);
    place.file("empty", "");
    let with = |drive: &str| place.run(&["run", "--kernel", "echo", "--drive", drive]);
    with("file=missing.img").refuses(1, &["missing.img", "No such file"]);
    with("file=empty").refuses(1, &["empty", "truncate"]);
    with("file=.").refuses(1, &["folder"]);
    let mut many = vec!["run", "--kernel", "echo", "--stop-after", "1"];
    (0..8).for_each(|_| many.extend(["--drive", "echo"]));
    place.run(&many).refuses(2, &["8 drives", "7"]);
    place.file("script", "wait x\nsay y\n");
    let script = ["run", "--kernel", "echo", "--console-script", "script"];
    place
        .run(&script)
        .refuses(1, &["script: line 2", "'say'", "wait TEXT"]);
}

#[test]
fn a_folder_that_exists_is_left_alone() {
    let place = Place::new();
    place.code("echo", &ECHO);
    std::fs::create_dir(place.path("old")).unwrap();
    place.file("old/precious", "data");
    place
        .run(&["record", "-o", "old", "--kernel", "echo"])
        .refuses(1, &["old exists", "another name"]);
    assert_eq!(std::fs::read_dir(place.path("old")).unwrap().count(), 1);
    place
        .run(&["record", "-o", "no/such/place", "--kernel", "echo"])
        .refuses(1, &["no/such/place"]);
}

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

    // Another model: it can be read, not replayed.
    place.file(
        "a.tick/manifest.json",
        manifest.replace("\"model\": 1", "\"model\": 99"),
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
fn exit_codes_of_guests() {
    let place = Place::new();
    place.file("demo.elf", firmware::demo().to_elf());
    place.code("wait", &WAIT);
    place.code("echo", &ECHO);
    let bare = |kernel: &str, more: &[&str]| {
        place.run(&[&["run", "-m", "2M", "--bios", "none", "--kernel", kernel], more].concat())
    };
    bare("demo.elf", &[])
        .exits(0)
        .says(&["demo: panic", "powered off with code 1"]);
    bare("demo.elf", &["--guest-exit"]).exits(1);
    bare("wait", &[]).exits(4).says(&["waits for ever"]);
    bare("echo", &["--stop-after", "12345", "--stats"])
        .exits(0)
        .says(&["at icount 12345", "12345 steps"]);
    bare("echo", &["--stop-after", "3ms"])
        .exits(0)
        .says(&["stopped", "0.003"]);
    bare("demo.elf", &["--exit-on", "round 256"])
        .exits(0)
        .says(&["was stopped"]);
    let record = [
        "record", "-o", "w.tick", "-m", "2M", "--bios", "none", "--kernel", "wait",
    ];
    place.run(&record).exits(4);
    place.run(&["replay", "w.tick"]).exits(4).says(&["all equal"]);
}

#[test]
fn a_script_types_the_same_on_every_engine() {
    let place = Place::new();
    place.code("echo", &ECHO);
    place.file(
        "script",
        "# a talk\nsend hello\\n\nwait hello\nsend \\x62ye\nwait bye\n",
    );
    let mut logs = Vec::new();
    for engine in ["interp", "jit"] {
        let name = format!("{engine}.tick");
        let arguments = [
            "record", "-o", &name, "-m", "2M", "--bios", "none", "--kernel", "echo", "--date", "0",
        ];
        let run = [
            "--engine",
            engine,
            "--console-script",
            "script",
            "--stop-after",
            "5ms",
        ];
        let ran = place.run(&[&arguments[..], &run].concat()).exits(0);
        assert_eq!(ran.out, "hello\nbye");
        logs.push(place.run(&["log", &name]).exits(0).out);
        place
            .run(&["replay", &name, "--quiet"])
            .exits(0)
            .says(&["all equal"]);
    }
    assert!(logs[0].contains("console-in"));
    assert_eq!(logs[0], logs[1]);
    let bare = [
        "run",
        "-m",
        "2M",
        "--bios",
        "none",
        "--kernel",
        "echo",
        "--stop-after",
        "5ms",
    ];
    place
        .run(&[&bare[..], &["--console-script", "script"]].concat())
        .exits(0);
    // A script that does not come to its end is a failure.
    place.file("script", "wait never\n");
    let arguments = [
        "run",
        "-m",
        "2M",
        "--bios",
        "none",
        "--kernel",
        "echo",
        "--stop-after",
        "1ms",
    ];
    place
        .run(&[&arguments[..], &["--console-script", "script"]].concat())
        .exits(1)
        .says(&["waiting for \"never\" (line 1)"]);
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
fn gdb_is_waited_for() {
    let place = Place::new();
    place.demo("a.tick");
    place
        .run(&["gdb", "a.tick", "--listen", "nowhere"])
        .exits(2)
        .says(&["nowhere", "HOST:PORT"]);
    place
        .run(&["gdb", "none.tick", "--listen", "./s"])
        .refuses(1, &["none.tick"]);
    assert!(!place.path("s").exists());
    let live = [
        "record", "-o", "l.tick", "-m", "2M", "--bios", "none", "--kernel", "demo.elf", "--gdb", "./s",
    ];
    for arguments in [&["gdb", "a.tick", "--listen", "./s"][..], &live] {
        let mut child = place.tickback(arguments).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&place.path("s"));
        // A debugger that comes and goes without a word.
        drop(std::os::unix::net::UnixStream::connect(place.path("s")).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        signal(&child, rustix::process::Signal::TERM);
        assert_eq!(wait(&mut child), 0, "{arguments:?}");
        assert!(!place.path("s").exists());
    }
    place
        .run(&["replay", "--quiet", "l.tick"])
        .exits(0)
        .says(&["all equal"]);
}

#[test]
fn drives_are_kept_or_written_through() {
    // The guest that writes a disk is Linux: here only that images are left alone.
    let place = Place::new();
    place.code("echo", &ECHO);
    let disk = place.file("disk.img", [7u8; 10_000]);
    let arguments = [
        "record",
        "-o",
        "d.tick",
        "-m",
        "2M",
        "--bios",
        "none",
        "--kernel",
        "echo",
        "--stop-after",
        "1e5",
    ];
    let drives = ["--drive", "file=disk.img,write-through", "--drive", "disk.img,ro"];
    place.run(&[&arguments[..], &drives].concat()).exits(0);
    assert_eq!(std::fs::read(&disk).unwrap(), [7u8; 10_000]);
    std::fs::remove_file(disk).unwrap();
    place.run(&["replay", "d.tick"]).exits(0).says(&["all equal"]);
    place
        .run(&["info", "d.tick"])
        .exits(0)
        .says(&["20 sectors", "read-only"]);
}

#[test]
fn a_pipe_is_typed_and_signals_close_the_recording() {
    let place = Place::new();
    place.code("echo", &ECHO);
    for name in ["TERM", "INT", "HUP"] {
        let number = match name {
            "TERM" => rustix::process::Signal::TERM,
            "INT" => rustix::process::Signal::INT,
            _ => rustix::process::Signal::HUP,
        };
        let folder = format!("{name}.tick");
        let mut child = place
            .tickback(&[
                "record", "-o", &folder, "-m", "2M", "--bios", "none", "--kernel", "echo",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"over the pipe\n")
            .unwrap();
        let mut echoed = [0; 14];
        child.stdout.as_mut().unwrap().read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, b"over the pipe\n");
        signal(&child, number);
        assert_eq!(wait(&mut child), 0, "{name}");
        let replay = place
            .run(&["replay", &folder])
            .exits(0)
            .says(&["was stopped", "all equal"]);
        assert_eq!(replay.out, "over the pipe\n");
    }
}

#[test]
fn kill_9_leaves_a_recording_that_replays() {
    let place = Place::new();
    place.code("echo", &ECHO);
    for delay in [0, 30, 200, 700] {
        let folder = format!("{delay}.tick");
        let mut child = place
            .tickback(&[
                "record", "-o", &folder, "-m", "2M", "--bios", "none", "--kernel", "echo",
            ])
            .args(["--snapshot-every", "1048576"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"typed before the end")
            .unwrap();
        wait_for(&place.path(&folder).join("manifest.json"));
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = place.run(&["replay", &folder]);
        if delay == 0 && ran.code == Some(1) {
            // Killed before the power-on state was saved: nothing had run.
            assert!(ran.err.contains("tickback: "), "{}", ran.err);
            continue;
        }
        ran.exits(0).says(&["all equal", "was not closed"]);
    }
}

#[test]
fn a_full_disk_is_said_and_what_was_recorded_replays() {
    let place = Place::new();
    place.file("demo.elf", firmware::demo().to_elf());
    // A limit on file sizes fails as a full disk does.
    let command = format!(
        "ulimit -f 8; exec {} record -o full.tick -m 2M --bios none --kernel demo.elf --snapshot-every 1048576",
        env!("CARGO_BIN_EXE_tickback")
    );
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(place.0.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let ran = Ran::of(command, output).exits(1);
    assert!(
        ran.err.contains("make room") || ran.err.contains("File too large"),
        "{}",
        ran.err
    );
    place
        .run(&["replay", "full.tick", "--quiet"])
        .exits(0)
        .says(&["all equal"]);
}

#[test]
fn a_terminal_is_the_console_and_is_put_back() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    let place = Place::new();
    place.code("echo", &ECHO);
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let open = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(&name)
            .unwrap()
    };
    let before = tcgetattr(open()).unwrap().local_modes;
    let mut child = place
        .tickback(&[
            "record", "-o", "t.tick", "-m", "2M", "--bios", "none", "--kernel", "echo",
        ])
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    let mut user = std::fs::File::from(user);
    let mut keys = user.try_clone().unwrap();
    let mut press = |text: &[u8]| keys.write_all(text).unwrap();
    let mut screen = String::new();
    let mut expect = |text: &str| {
        let start = Instant::now();
        let mut buffer = [0; 256];
        while !screen.contains(text) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no {text:?} on: {screen}"
            );
            let count = user.read(&mut buffer).unwrap();
            screen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        screen.clear();
    };
    expect("Ctrl-A h explains");
    assert!(
        !tcgetattr(open())
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    );
    press(b"to the guest");
    expect("to the guest");
    press(b"\x01h");
    expect("one Ctrl-A for the guest");
    press(b"\x01c");
    expect("(tickback)");
    press(b"when\n");
    expect("virtual time");
    press(b"continue\n");
    expect("the guest goes on");
    press(b"and on");
    expect("and on");
    press(b"\x01x");
    assert_eq!(wait(&mut child), 0);
    assert_eq!(tcgetattr(open()).unwrap().local_modes, before);
    let replay = place.run(&["replay", "t.tick"]).exits(0).says(&["all equal"]);
    assert_eq!(replay.out, "to the guestand on");
}
