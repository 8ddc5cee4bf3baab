//! Semihosting calls, against QEMU's answers where these are any host's, and from every pointer that leads nowhere.

use std::process::{Command, Stdio};

use icount::End;
use machine::{Stops, Watch};
use tests::recorded::{console, record, replay};
use tests::semihosting::{Calls, TABLE, common, hostile, op, own};
use tests::subject::Subject;
use tests::ways::{How, Run, With, compare};

const LINE: &str = "console=abc";
const DATE_NS: u64 = 1_700_000_000_900_000_000;

fn subject(name: &str, calls: &Calls, script: &str) -> Subject {
    let mut subject = Subject::of(name, &calls.guest(), 1, &["call"], &[]);
    subject.config.semihosting = Some(LINE.into());
    subject.config.date_ns = DATE_NS;
    subject.script = script.into();
    subject.watches = vec![Watch {
        addr: TABLE,
        len: 0x8000,
        read: true,
        write: true,
    }];
    subject
}

/// Records with each engine, replays with each, and compares states; what the guest wrote and its exit code.
fn run(subject: &Subject) -> (Vec<u8>, u32) {
    let folder = tempfile::tempdir().unwrap();
    let mut told = None;
    let mut places = Vec::new();
    for with in [With::Jit, With::Interp] {
        let dir = folder.path().join(format!("{with:?}.tick"));
        let (finished, end, _) = record(subject, &dir, with, 12, &[], 50_000_000).unwrap();
        let End::PowerOff(code) = end else {
            panic!("{end:?}")
        };
        let this = (console(&dir).unwrap(), code, finished.at);
        assert!(
            told.is_none() || told.as_ref() == Some(&this),
            "the engines differ"
        );
        places = (1..40).map(|part| finished.at.0 * part / 40).collect();
        told = Some(this);
        for other in [With::Jit, With::Interp] {
            let Run::Replaying(mut history) = replay(&dir, other).unwrap() else {
                panic!()
            };
            assert_eq!(history.verify(|_| {}).unwrap().steps, finished.at);
        }
        // Stopped before and in calls, which are then made again: a replay would find what is said twice.
        let stops = Stops {
            breakpoints: subject.hot.clone(),
            watches: subject.watches.clone(),
            hart: None,
        };
        for how in [How::Stop(stops.clone()), How::Scan(stops)] {
            replay(&dir, with).unwrap().walk(&how, &[finished.at.0]).unwrap();
        }
    }
    let see = |with, how| Run::live(subject, with).unwrap().walk(&how, &places).unwrap();
    let seen = see(With::Jit, How::Straight);
    compare(&seen, &see(With::Interp, How::Cut(1))).unwrap();
    let (console, code, _) = told.unwrap();
    (console, code)
}

/// The same guest on QEMU; `None`: it isn't there.
fn qemu(calls: &Calls) -> Option<(Vec<u8>, Option<i32>)> {
    let folder = tempfile::tempdir().unwrap();
    let elf = folder.path().join("guest.elf");
    std::fs::write(&elf, calls.guest().to_elf()).unwrap();
    let output = Command::new("qemu-system-riscv64")
        .args(["-M", "virt", "-m", "16M", "-display", "none", "-serial", "null"])
        .args([
            "-monitor",
            "none",
            "-chardev",
            "stdio,id=host",
            "-semihosting-config",
        ])
        .arg(format!("enable=on,target=native,chardev=host,arg={LINE}"))
        .arg("-bios")
        .arg(&elf)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some((output.stdout, output.status.code()))
}

fn hex(words: &[u64]) -> String {
    words.iter().map(|word| format!("{word:016x}\n")).collect()
}

#[test]
fn calls_are_answered_as_any_host_does() {
    let frequency = 1_000_000_000;
    let expected = [
        "hello\ne\nhello\n",
        &hex(&[0, 0, 0, 1, 0, 0]),
        LINE,
        "\n",
        &hex(&[frequency]),
    ];
    let calls = common(false);
    let (console, code) = run(&subject("common", &calls, ""));
    let console = String::from_utf8(console).unwrap();
    assert_eq!((console.as_str(), code), (expected.concat().as_str(), 42));
    match qemu(&calls) {
        Some((theirs, status)) => {
            assert_eq!((String::from_utf8(theirs).unwrap(), status), (console, Some(42)));
        }
        None => tests::debian::skipped("semihosting: qemu-system-riscv64 is not installed"),
    }
}

#[test]
fn input_is_the_consoles() {
    let script = "wait 3b9aca00\\n\npause 1ms\nsend xyz\n";
    let (console, code) = run(&subject("input", &common(true), script));
    let expected = [
        "hello\ne\nhello\n",
        &hex(&[0, 0, 0, 1, 1, 0, 0]),
        LINE,
        "\n",
        &hex(&[1_000_000_000, 'x'.into(), 0]),
        "[y]\n",
    ];
    assert_eq!(
        (String::from_utf8(console).unwrap(), code),
        (expected.concat(), 42)
    );
}

#[test]
fn what_is_no_call_traps_and_what_is_a_files_fails() {
    let (console, code) = run(&subject("own", &own(), ""));
    let text = String::from_utf8(console).unwrap();
    let words: Vec<u64> = text
        .lines()
        .map(|line| u64::from_str_radix(line, 16).unwrap())
        .collect();
    let none = u64::MAX;
    let mut expected = vec![3, 3, 3, 3, none, 2];
    for handle in 0..5 {
        expected.extend(if (1..4).contains(&handle) {
            [1, 0, 0]
        } else {
            [none; 3]
        });
    }
    let end = 0x8000_0000 + (8 << 20);
    expected.extend([0, 0, end, end, 0, 0, 1_700_000_000, 0]);
    let elapsed = words[expected.len()];
    assert!((1000..1_000_000).contains(&elapsed), "{elapsed}");
    expected.extend([elapsed, none]);
    assert_eq!((words, code), (expected, 7));
}

#[test]
fn pointers_that_lead_nowhere_harm_nobody() {
    let memory = 8 << 20;
    let calls = hostile(memory);
    let (console, code) = run(&subject("hostile", &calls, ""));
    assert_eq!(code, 9);
    // Two writes were as long as one call's may be, and nothing else wrote much.
    assert!(
        (128 << 10..160 << 10).contains(&console.len()),
        "{}",
        console.len()
    );
    let text = String::from_utf8_lossy(&console);
    let tail = hex(&[u64::MAX - (64 << 10), (1 << 20) - (64 << 10), 4, 4, 0, 0]);
    let mut from = 0;
    for line in tail.split_inclusive('\n') {
        from += text[from..].find(line).unwrap_or_else(|| panic!("{line}")) + line.len();
    }
    assert_eq!(from, text.len());
}

#[test]
fn a_machine_without_semihosting_traps() {
    let mut calls = Calls::new(4);
    calls.call(op::CLOCK, 0);
    let mut subject = subject("none", &calls, "");
    subject.config.semihosting = None;
    let mut run = Run::live(&subject, With::Jit).unwrap();
    run.finish(icount::Icount(200)).unwrap();
    let cause = run.machine().hart(0).unwrap().read_register(65 + 0x342).unwrap();
    assert_eq!(cause, 3u64.to_le_bytes());
}
