//! What is refused, and how: one line that names the culprit, the exit code, and nothing left behind.

use crate::support::{ECHO, Place, Ran, WAIT};

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
    with(&["--machine", "pc"]).refuses(1, &["no kernel of a known kind"]);
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
fn networks_that_are_none() {
    let place = Place::new();
    place.code("wait", &WAIT);
    place.file("file", "x");
    let with = |arguments: &[&str]| place.run(&[&["run", "--kernel", "wait"], arguments].concat());
    with(&["--net", "tap"]).refuses(2, &["'tap'", "socket=PATH"]);
    with(&["--net", "user,hostfwd=tcp:22"]).refuses(2, &["tcp:22", "2222-:22"]);
    with(&["--net", "socket=x,mac=01:00:00:00:00:00"]).refuses(2, &["01:00:00:00:00:00"]);
    with(&["--net", "socket=file"]).refuses(1, &["file", "no socket"]);
    with(&["--net", "socket=x,connect"]).refuses(1, &["x", "nobody listens there"]);
    with(&["--net", "socket=no/where"]).refuses(1, &["no/where"]);
    with(&[["--net", "socket=x"]; 8].concat()).refuses(2, &["8 network cards", "7 slots"]);
    // Without a program of that name in reach.
    let arguments = ["run", "--kernel", "wait", "--net", "user"];
    Ran::of(
        "no passt".into(),
        place.tickback(&arguments).env("PATH", "/nowhere"),
    )
    .refuses(1, &["passt", "not installed", "apt install passt"]);
}

#[test]
fn a_recording_remembers_its_network_cards() {
    let place = Place::new();
    place.code("stop", &ECHO);
    let arguments = [
        "record",
        "-o",
        "r",
        "-m",
        "8M",
        "--bios",
        "none",
        "--kernel",
        "stop",
        "--stop-after",
        "1000",
    ];
    let cards = [
        "--net",
        "socket=a",
        "--net",
        "socket=b,mac=02:00:00:00:00:01",
        "--virtio-console",
    ];
    place.run(&[&arguments[..], &cards].concat()).exits(0);
    assert!(!place.path("a").exists() && !place.path("b").exists());
    place
        .run(&["info", "r"])
        .exits(0)
        .says(&["0: 52:54:00:12:34:56", "1: 02:00:00:00:00:01", "virtio"]);
    place.run(&["replay", "r"]).exits(0).says(&["all equal"]);
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

/// Opening a pipe waits for a writer, and a device need not end.
#[test]
fn pipes_and_devices_are_not_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let place = Place::new();
    place.code("echo", &ECHO);
    let access = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, place.path("pipe"), FileType::Fifo, access, 0).unwrap();
    for (file, why) in [("pipe", "it is a pipe"), ("/dev/zero", "neither a file")] {
        let with = |option: &str, value: &str| {
            let arguments = [
                "record", "-o", "r.tick", "-m", "4M", "--kernel", "echo", option, value,
            ];
            place.run(&arguments).refuses(1, &[file, why]);
            assert!(!place.path("r.tick").exists(), "{option} {file}");
        };
        for option in ["--bios", "--initrd", "--console-script"] {
            with(option, file);
        }
        with("--drive", &format!("file={file}"));
        with("--drive", &format!("file={file},write-through"));
        place
            .run(&["record", "-o", "r.tick", "--kernel", file])
            .refuses(1, &[file, why]);
    }
    std::fs::create_dir(place.path("x.tick")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("x.tick/manifest.json")).unwrap();
    for command in ["replay", "info", "gdb"] {
        place
            .run(&[command, "x.tick"])
            .refuses(1, &["manifest.json", "neither a file"]);
    }
    place.file("long", vec![b'#'; (1 << 20) + 1]);
    place
        .run(&["run", "--kernel", "echo", "--console-script", "long"])
        .refuses(1, &["long", "longer than 1048576 bytes"]);
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
