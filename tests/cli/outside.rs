//! What reaches a running tickback: keys, pipes, signals, a debugger, a full disk.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{ECHO, Limit, PATIENCE, Place, Ran, signal, wait, wait_for};

/// How many of seccomp's filters each thread of a process has.
fn seccomp_filters(process: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |thread: PathBuf| std::fs::read_to_string(thread.join("status")).unwrap();
    let filters = |status: String| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Seccomp_filters:"));
        line.unwrap().trim().to_owned()
    };
    threads
        .map(|thread| filters(status(thread.unwrap().path())))
        .collect()
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
        wait_for(&place.path("s"), false);
        // A debugger that comes and goes without a word.
        drop(std::os::unix::net::UnixStream::connect(place.path("s")).unwrap());
        // A recording is read in a sandbox, by all threads; a live run isn't confined.
        let start = Instant::now();
        let mut filters = seccomp_filters(child.id());
        while filters.len() < 2 {
            assert!(start.elapsed() < PATIENCE, "{arguments:?}: {filters:?}");
            std::thread::sleep(Duration::from_millis(10));
            filters = seccomp_filters(child.id());
        }
        let expected = if arguments[0] == "gdb" { "1" } else { "0" };
        assert!(
            filters.iter().all(|filters| filters == expected),
            "{arguments:?}: {filters:?}"
        );
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
        let _limit = Limit::of(&child);
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
        let echoed = place.file("echoed", "");
        let mut child = place
            .tickback(&[
                "record", "-o", &folder, "-m", "2M", "--bios", "none", "--kernel", "echo",
            ])
            .args(["--snapshot-every", "1048576"])
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(&echoed).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"typed before the end")
            .unwrap();
        match delay {
            0 => wait_for(&place.path(&folder).join("manifest.json"), false),
            // It runs, however long the host took to come there.
            _ => wait_for(&echoed, true),
        }
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
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &command])
        .current_dir(place.path(""))
        .stdin(Stdio::null());
    let ran = Ran::of(command, &mut shell).exits(1);
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
    let _limit = Limit::of(&child);
    let mut user = std::fs::File::from(user);
    let mut keys = user.try_clone().unwrap();
    let mut press = |text: &[u8]| keys.write_all(text).unwrap();
    let mut screen = String::new();
    let mut expect = |text: &str| {
        let mut buffer = [0; 256];
        while !screen.contains(text) {
            // Fails when tickback has ended.
            let Ok(count) = user.read(&mut buffer) else {
                panic!("no {text:?} on: {screen}");
            };
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
