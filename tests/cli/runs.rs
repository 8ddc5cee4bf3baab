//! Runs to their end, without anybody at the keys: exit codes, scripts, drives.

use crate::support::{ECHO, Place, WAIT};

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
    // At the step of the text's last byte, on every engine.
    let mut ends = Vec::new();
    for engine in ["jit", "interp"] {
        let folder = format!("{engine}.tick");
        let record = [
            "record", "-o", &folder, "-m", "2M", "--bios", "none", "--kernel", "demo.elf",
        ];
        let until = [
            "--engine",
            engine,
            "--exit-on",
            "round 256",
            "--snapshot-every",
            "1048576",
        ];
        let ran = place.run(&[&record[..], &until[..]].concat()).exits(0);
        let end = ran
            .err
            .split("at icount ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let end: u64 = end.unwrap().parse().unwrap();
        let log = place.run(&["log", &folder, "--kind", "console-out"]).exits(0).out;
        let last = log.lines().last().unwrap().to_owned();
        assert!(last.contains(&(end - 1).to_string()), "{end}: {last}");
        place.run(&["replay", "-q", &folder]).exits(0);
        ends.push(end);
    }
    assert_eq!(ends[0], ends[1]);
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

/// Asks the host to end it with code 5.
const EXIT: [u32; 12] = [
    0x0000_0597, // auipc a1,0
    0x0205_8593, // addi a1,a1,32
    0x0180_0513, // li a0,SYS_EXIT
    0x01f0_1013, // slli x0,x0,0x1f
    0x0010_0073, // ebreak
    0x4070_5013, // srai x0,x0,7
    0x0000_006f, // j .
    0x0000_0013, // nop
    0x0002_0026,
    0,
    5,
    0, // ADP_Stopped_ApplicationExit, 5
];

#[test]
fn semihosting_is_served_where_it_is_asked_for() {
    let place = Place::new();
    place.code("exit.bin", &EXIT);
    let run = |more: &[&str]| {
        let arguments = ["run", "-m", "2M", "--bios", "none", "--kernel", "exit.bin"];
        place.run(&[&arguments[..], &["--guest-exit", "--stop-after", "1e5"], more].concat())
    };
    run(&["--semihosting"])
        .exits(5)
        .says(&["powered off with code 5"]);
    run(&[]).exits(0).says(&["the run was stopped"]);
    run(&["--semihosting", "--machine", "pc"]).refuses(2, &["--semihosting", "pc"]);
}
