//! The log as a file: everything comes back, nothing damaged comes back as something else.

use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::log::samples::{Act, run};
use crate::{
    Body, DebuggerWrite, Effect, End, Event, Icount, Input, LogError, LogPosition, LogReader, LogWriter,
    VirtualTime,
};

type Run = Vec<(Icount, VirtualTime, Act)>;

/// Writes a run; gives its events in the order in which they happened. `None` as end: killed after
/// a flush.
fn write(path: &Path, ns: u64, run: &Run, end: Option<End>) -> Vec<Event> {
    let mut log = LogWriter::create(path, NonZeroU64::new(ns).unwrap()).unwrap();
    let mut events = Vec::new();
    for (at, time, act) in run.iter().cloned() {
        match act {
            Act::Effect(hart, effect) => {
                log.effect(at, time, hart, &effect).unwrap();
                events.push(Event::effect(at, time, hart, effect));
            }
            Act::Input(input) => {
                log.input(at, time, &input).unwrap();
                events.push(Event::input(at, time, input));
            }
            Act::Disk { drive, block, data } => {
                log.disk_block(at, time, drive, block, &data).unwrap();
                events.push(Event::input(at, time, Input::DiskBlock { drive, block, data }));
            }
            Act::Progress => log.progress(at, time).unwrap(),
        }
    }
    let (at, time) = run
        .last()
        .map_or_else(Default::default, |&(at, time, _)| (at, time));
    match end {
        Some(end) => log.end(at, time, end).unwrap(),
        None => log.flush().unwrap(),
    }
    events
}

fn read(log: &LogReader) -> Vec<Event> {
    log.events_from(Icount::ZERO)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn in_temp() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    (folder, path)
}

fn position_of(events: &[Event]) -> LogPosition {
    let mut position = LogPosition::default();
    for event in events {
        match &event.body {
            Body::Effect(_) => position.effects += 1,
            Body::Input(Input::DiskBlock { .. }) => {}
            Body::Input(_) => position.inputs += 1,
        }
    }
    position
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_run_comes_back_in_its_order(ns in 1u64..20, run in run(120), killed in any::<bool>()) {
        let (_folder, path) = in_temp();
        let end = (!killed).then_some(End::PowerOff(7));
        let events = write(&path, ns, &run, end);
        let log = LogReader::open(&path).unwrap();
        prop_assert_eq!(read(&log), events.clone());
        prop_assert_eq!(log.recovered(), None);
        prop_assert_eq!(log.counts(), position_of(&events));
        prop_assert_eq!(log.end().2, end);
        if let Some(&(at, time, _)) = run.last() {
            prop_assert_eq!(log.end(), (at, time, end));
        }
        for (index, event) in events.iter().enumerate() {
            let from: Vec<Event> = log.events_from(event.at).unwrap().map(Result::unwrap).collect();
            let first = events.iter().position(|e| e.at >= event.at).unwrap();
            prop_assert_eq!(&from, &events[first..]);

            // Disk blocks that stand right at a position belong to what follows it or not; all
            // else is exact.
            let position = position_of(&events[..index]);
            let no_disk = |e: &&Event| !matches!(e.body, Body::Input(Input::DiskBlock { .. }));
            let rest: Vec<Event> = log.seek(position).unwrap().map(Result::unwrap).collect();
            prop_assert!(rest.iter().filter(no_disk).eq(events[index..].iter().filter(no_disk)));
            prop_assert!(rest.len() >= events.len() - index);
            let before: Vec<&Event> = events[..index].iter().filter(no_disk).collect();
            let before = &before[before.len().saturating_sub(16)..];
            prop_assert!(log.events_before(position, 16).iter().eq(before.iter().copied()));

            let position = position_of(&events[..first]);
            prop_assert_eq!(log.seek_icount(event.at).unwrap(), position);
        }
        for event in &events {
            if let Body::Input(Input::DiskBlock { drive, block, .. }) = event.body {
                let first = events.iter().find_map(|e| match &e.body {
                    Body::Input(Input::DiskBlock { drive: d, block: b, data }) if (*d, *b) == (drive, block) => Some(data.clone()),
                    _ => None,
                });
                prop_assert_eq!(log.disk_block(drive, block).unwrap(), first);
            }
        }
    }

    #[test]
    fn a_log_goes_on_where_it_was_closed(a in run(40), b in run(40)) {
        let (_folder, path) = in_temp();
        let mut events = write(&path, 1, &a, Some(End::Stopped));
        let mut reader = LogReader::open(&path).unwrap();
        let (at, time, _) = reader.end();
        let (mut log, recovered) = LogWriter::append(&path).unwrap();
        prop_assert_eq!(recovered, None);
        prop_assert_eq!(log.position(), reader.counts());
        for (more_at, more_time, act) in b {
            let (at, time) = (Icount(at.0 + more_at.0), VirtualTime(time.0 + more_time.0));
            if let Act::Effect(hart, effect) = act {
                log.effect(at, time, hart, &effect).unwrap();
                events.push(Event::effect(at, time, hart, effect));
            }
        }
        log.flush().unwrap();
        drop(log);
        reader = LogReader::open(&path).unwrap();
        prop_assert_eq!(read(&reader), events);
    }
}

/// A small run with every kind of frame, several effect blocks and inputs among them.
fn small_run() -> Run {
    let mmio = |value| Effect::Mmio {
        write: true,
        addr: 0x1000_0000,
        size: 1,
        value,
    };
    let console = |byte| Act::Input(Input::Console { port: 0, byte });
    let memory = DebuggerWrite::Memory {
        addr: 0x8000_0000,
        bytes: vec![1, 2, 3],
    };
    let mut disk = vec![0x5a; 4096];
    disk[17] = 3;
    let acts = [
        Act::Effect(0, mmio(1)),
        Act::Effect(0, mmio(1)),
        Act::Effect(0, mmio(1)),
        console(b'a'),
        Act::Effect(1, Effect::Interrupt { cause: 9 }),
        Act::Progress,
        Act::Disk {
            drive: 0,
            block: 5,
            data: disk,
        },
        Act::Effect(
            1,
            Effect::Dma {
                write: true,
                addr: 0x8000_1000,
                len: 4096,
                digest: 77,
            },
        ),
        Act::Input(Input::Debugger(memory)),
        Act::Effect(0, mmio(2)),
        Act::Progress,
        console(b'b'),
        Act::Effect(0, Effect::PowerOff { code: 0 }),
    ];
    let place = |n: usize| (Icount(10 * n as u64), VirtualTime(10 * n as u64 + n as u64 / 4));
    acts.into_iter()
        .enumerate()
        .map(|(n, act)| (place(n).0, place(n).1, act))
        .collect()
}

/// The part of `events` that a reader may know if inputs after `inputs` are lost: what it gave must
/// be those inputs, and effects that are the first ones of the run, in the run's order.
fn is_honest(found: &[Event], events: &[Event]) -> bool {
    let inputs = |list: &[Event]| -> Vec<Event> {
        list.iter()
            .filter(|e| matches!(e.body, Body::Input(_)))
            .cloned()
            .collect()
    };
    let effects = |list: &[Event]| -> Vec<Event> {
        list.iter()
            .filter(|e| matches!(e.body, Body::Effect(_)))
            .cloned()
            .collect()
    };
    // A subsequence of the run, made of a prefix of its inputs and a prefix of its effects.
    let mut rest = events.iter();
    inputs(events).starts_with(&inputs(found))
        && effects(events).starts_with(&effects(found))
        && found.iter().all(|event| rest.any(|e| e == event))
}

#[test]
fn a_cut_anywhere_leaves_every_input_before_it() {
    let (_folder, path) = in_temp();
    let events = write(&path, 1, &small_run(), Some(End::PowerOff(0)));
    let whole = fs::read(&path).unwrap();
    let index = LogReader::open(&path).unwrap().index.clone();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let log = match LogReader::open(&path) {
            Err(LogError::NotALog { .. }) if cut < 32 => continue,
            log => log.unwrap(),
        };
        let survives = |entry: &&crate::log::index::InputEntry| {
            entry.payload.offset + entry.payload.len as u64 <= cut as u64
        };
        let inputs = index.inputs.iter().filter(survives).count();
        let found = read(&log);
        let count = found.iter().filter(|e| matches!(e.body, Body::Input(_))).count();
        assert_eq!(count, inputs, "cut at {cut}");
        assert!(is_honest(&found, &events), "cut at {cut}");
        assert_eq!(log.end().2, None);
        assert!(log.lost_effects().is_some());
        let recovered = log.recovered();
        assert_eq!(recovered.is_some(), log.index.valid_len < cut as u64);

        // Opened for writing, the torn end goes away, and the log can go on.
        let (mut log, again) = LogWriter::append(&path).unwrap();
        assert_eq!(again, recovered);
        let missing: Vec<&Event> = events
            .iter()
            .filter(|e| matches!(e.body, Body::Effect(_)))
            .skip(log.position().effects as usize)
            .take(log.missing_effects() as usize)
            .collect();
        for event in missing {
            if let Body::Effect(effect) = &event.body {
                log.effect(event.at, event.time, event.hart, effect).unwrap();
            }
        }
        log.input(Icount(1000), VirtualTime(2000), &Input::Reset).unwrap();
        log.end(Icount(1000), VirtualTime(2000), End::Stopped).unwrap();
        let log = LogReader::open(&path).unwrap();
        assert_eq!(log.recovered(), None);
        let mut found = read(&log);
        assert!(matches!(found.pop().unwrap().body, Body::Input(Input::Reset)));
        assert_eq!(found, events[..found.len()], "a prefix of the run, cut at {cut}");
    }
}

#[test]
fn no_flipped_bit_gives_another_event() {
    let (_folder, path) = in_temp();
    let events = write(&path, 1, &small_run(), Some(End::PowerOff(0)));
    let whole = fs::read(&path).unwrap();
    let last = LogReader::open(&path).unwrap().index.end_offset as usize;
    let mut refused = 0;
    for byte in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            match LogReader::open(&path) {
                // Only what could be a torn end is read without it.
                Ok(log) => {
                    assert!(byte >= last, "byte {byte}");
                    assert!(log.recovered().is_some_and(|r| r.cut_at as usize == last));
                    assert_eq!(log.end().2, None);
                    assert_eq!(read(&log), events);
                }
                Err(LogError::NotALog { .. } | LogError::Version { .. }) => assert!(byte < 32),
                Err(LogError::Damaged { offset, .. }) => {
                    refused += 1;
                    assert!((32..last).contains(&byte) && offset as usize <= byte);
                    let log = LogReader::open_prefix(&path).unwrap();
                    let recovered = log.recovered().unwrap();
                    assert!(recovered.damaged && recovered.cut_at == offset);
                    assert!(is_honest(&read(&log), &events), "byte {byte}");
                }
                Err(error) => panic!("byte {byte}: {error}"),
            }
        }
    }
    assert_eq!(refused, (last - 32) * 8);
}

#[test]
fn frames_moved_dropped_or_doubled_are_refused() {
    let (_folder, path) = in_temp();
    write(&path, 1, &small_run(), None);
    let whole = fs::read(&path).unwrap();
    let index = LogReader::open(&path).unwrap().index.clone();
    let entry = index.inputs[0].payload;
    let (start, end) = (entry.offset as usize - 16, entry.offset as usize + entry.len);
    let dropped = [&whole[..start], &whole[end..]].concat();
    let doubled = [&whole[..end], &whole[start..]].concat();
    for bytes in [dropped, doubled] {
        fs::write(&path, bytes).unwrap();
        match LogReader::open(&path) {
            // A frame in another place is none: what follows is a torn end.
            Ok(log) => assert_eq!(log.recovered().unwrap().cut_at, log.index.valid_len),
            Err(error) => assert!(matches!(error, LogError::Damaged { .. })),
        }
    }
}

proptest! {
    #[test]
    fn hostile_bytes_do_no_harm(
        run in run(20),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        // Checksums are made right again, so that the decoders behind them are reached.
        let (_folder, path) = in_temp();
        write(&path, 1, &run, Some(End::Stopped));
        let mut bytes = fs::read(&path).unwrap();
        for (place, value) in flips {
            let place = 32 + place.index(bytes.len() - 32);
            bytes[place] = value;
        }
        let mut offset = 32;
        while offset + 16 <= bytes.len() {
            let len = u32::from_le_bytes(bytes[offset + 4..offset + 8].try_into().unwrap()) as usize;
            let Some(payload) = bytes.get(offset + 16..offset + 16 + len) else { break };
            let sum = crc32fast::hash(payload);
            bytes[offset + 8..offset + 12].copy_from_slice(&sum.to_le_bytes());
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&(offset as u64).to_le_bytes());
            hasher.update(&bytes[offset..offset + 12]);
            let sum = hasher.finalize();
            bytes[offset + 12..offset + 16].copy_from_slice(&sum.to_le_bytes());
            offset += 16 + len;
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(log) = LogReader::open(&path) {
            let from = |at| log.events_from(at).into_iter().flatten().map_while(Result::ok);
            let last = from(Icount::ZERO).take(10_000).last();
            let _ = from(last.map_or(Icount::ZERO, |event| event.at)).next();
            log.events_before(log.counts(), 16);
        }
    }
}

#[test]
fn other_files_and_versions_are_named() {
    let (_folder, path) = in_temp();
    fs::write(
        &path,
        "#!/bin/sh\necho this is not an event log, but long enough for a head\n",
    )
    .unwrap();
    let error = LogReader::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("events: not an event log of tickback"), "{error}");

    fs::remove_file(&path).unwrap();
    write(&path, 1, &Vec::new(), None);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(
        LogWriter::create(&path, NonZeroU64::MIN),
        Err(LogError::Io {
            action: "create it",
            ..
        })
    ));
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, bytes).unwrap();
    let error = LogReader::open(&path).unwrap_err();
    assert!(matches!(error, LogError::Version { found: 9, .. }));
    assert!(
        error
            .to_string()
            .contains("version 9; this build reads versions up to 2"),
        "{error}"
    );
}

#[test]
fn a_run_that_fails_leaves_its_last_effects() {
    let (_folder, path) = in_temp();
    let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    log.effect(Icount(1), VirtualTime(1), 0, &Effect::Reset).unwrap();
    assert_eq!(LogReader::open(&path).unwrap().counts().effects, 0);
    drop(log);
    let log = LogReader::open(&path).unwrap();
    assert_eq!((log.counts().effects, log.end().2), (1, None));
}

#[test]
fn positions_never_go_back() {
    let (_folder, path) = in_temp();
    let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let effect = Effect::HartSwitch { to: 1 };
    log.effect(Icount(10), VirtualTime(10), 0, &effect).unwrap();
    let back = |result: Result<(), LogError>| matches!(result, Err(LogError::Backwards { at: 9, last: 10 }));
    assert!(back(log.effect(Icount(9), VirtualTime(9), 0, &effect)));
    assert!(back(log.input(Icount(9), VirtualTime(9), &Input::Reset)));
    assert!(back(log.progress(Icount(9), VirtualTime(9))));
    log.input(Icount(10), VirtualTime(10), &Input::Reset).unwrap();
    assert_eq!(
        log.position(),
        LogPosition {
            inputs: 1,
            effects: 1
        }
    );
}

#[test]
fn a_reader_follows_a_recording_in_progress() {
    let (_folder, path) = in_temp();
    let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let mut reader = LogReader::open(&path).unwrap();
    let mut events = Vec::new();
    for n in 0..50 {
        let (at, time) = (Icount(n), VirtualTime(n));
        let effect = Effect::ConsoleOut {
            port: 0,
            byte: n as u8,
        };
        log.effect(at, time, 0, &effect).unwrap();
        events.push(Event::effect(at, time, 0, effect));
        log.flush().unwrap();
        reader.refresh().unwrap();
        assert_eq!(read(&reader), events);
    }
}

#[test]
fn what_a_failed_write_tore_is_written_over() {
    let (_folder, path) = in_temp();
    let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let effect = Effect::Line { line: 1, level: true };
    log.effect(Icount(1), VirtualTime(1), 0, &effect).unwrap();
    log.input(Icount(1), VirtualTime(1), &Input::Reset).unwrap();
    let whole = fs::read(&path).unwrap();
    log.fill_disk(true);
    for _ in 0..2 {
        let error = log.progress(Icount(2), VirtualTime(2)).unwrap_err();
        assert!(error.is_full(), "{error}");
        assert!(
            log.input(Icount(2), VirtualTime(2), &Input::Reset)
                .unwrap_err()
                .is_full()
        );
    }
    assert_eq!(
        log.position(),
        LogPosition {
            inputs: 1,
            effects: 1
        }
    );
    // The part of a frame that had room.
    fs::write(&path, [&whole[..], &[4, 0, 0, 0, 200, 1], &[0xee; 500]].concat()).unwrap();
    assert_eq!(LogReader::open(&path).unwrap().recovered().unwrap().bytes, 506);
    log.fill_disk(false);
    log.input(Icount(2), VirtualTime(2), &Input::Reset).unwrap();
    let kinds = |path: &Path| -> Vec<&str> {
        read(&LogReader::open(path).unwrap())
            .iter()
            .map(|e| e.kind().name())
            .collect()
    };
    // Killed here: both inputs are there, and the effect is known to be lost.
    assert_eq!(kinds(&path), ["reset", "reset"]);
    assert_eq!(LogReader::open(&path).unwrap().lost_effects().unwrap().known, 1);
    log.end(Icount(3), VirtualTime(3), End::Stopped).unwrap();
    assert_eq!(kinds(&path), ["line", "reset", "reset"]);
}

/// A stream of effects as a boot makes them: polled UART output, timer interrupts with their
/// claims, virtio requests. Positions jitter as cache-less code does: by a few path lengths.
fn boot_like(most: u64) -> impl Iterator<Item = (u64, Effect)> {
    let mut random = 1u64;
    let mut next = move |n: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut at = 0u64;
    let mut queue: std::collections::VecDeque<(u64, Effect)> = std::collections::VecDeque::new();
    let mmio = |write, addr, size, value| Effect::Mmio {
        write,
        addr,
        size,
        value,
    };
    let mut requests = 0u64;
    std::iter::from_fn(move || {
        while queue.is_empty() && at < most {
            match next(10) {
                0..=4 => {
                    at += 2000 + next(50_000);
                    // A line of console output, each byte polled for.
                    for _ in 0..40 + next(40) {
                        at += 60 + 7 * next(3);
                        for _ in 0..next(4) {
                            at += 11;
                            queue.push_back((at, mmio(false, 0x1000_0005, 1, 0)));
                        }
                        queue.push_back((at + 9, mmio(false, 0x1000_0005, 1, 0x60)));
                        let byte = b"etaoin shrdlu0123456789[]."[next(26) as usize];
                        queue.push_back((at + 15, mmio(true, 0x1000_0000, 1, byte.into())));
                        queue.push_back((at + 15, Effect::ConsoleOut { port: 0, byte }));
                        at += 15;
                    }
                }
                5..=7 => {
                    at += 500_000 + next(3_500_000);
                    queue.push_back((at, Effect::Interrupt { cause: 5 }));
                }
                _ => {
                    at += 20_000 + next(400_000);
                    requests += 1;
                    let base = 0x8200_0000 + 0x1000 * next(30_000);
                    queue.push_back((at, mmio(true, 0x1000_1050, 4, 0)));
                    let content = crate::digest(&requests.to_le_bytes());
                    queue.push_back((
                        at,
                        Effect::Dma {
                            write: false,
                            addr: base,
                            len: 16,
                            digest: content,
                        },
                    ));
                    at += 100_000;
                    for page in 0..1 + next(8) {
                        let addr = base + 0x1000 * page;
                        let digest = crate::digest(&(requests + page).to_be_bytes());
                        queue.push_back((
                            at,
                            Effect::Dma {
                                write: true,
                                addr,
                                len: 4096,
                                digest,
                            },
                        ));
                    }
                    queue.push_back((at, Effect::Line { line: 8, level: true }));
                    queue.push_back((at, Effect::Interrupt { cause: 9 }));
                    queue.push_back((at + 210, mmio(false, 0x0c20_1004, 4, 8)));
                    queue.push_back((at + 260, mmio(false, 0x1000_1060, 4, 1)));
                    queue.push_back((at + 270, mmio(true, 0x1000_1064, 4, 1)));
                    queue.push_back((
                        at + 270,
                        Effect::Line {
                            line: 8,
                            level: false,
                        },
                    ));
                    queue.push_back((at + 900, mmio(true, 0x0c20_1004, 4, 8)));
                    at += 900;
                }
            }
        }
        queue.pop_front()
    })
}

#[test]
fn a_boot_stays_within_two_megabytes_per_billion_steps() {
    let (_folder, path) = in_temp();
    let steps = 1_000_000_000;
    let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    for (at, effect) in boot_like(steps) {
        log.effect(Icount(at), VirtualTime(at), 0, &effect).unwrap();
    }
    let effects = log.position().effects;
    log.end(Icount(2 * steps), VirtualTime(2 * steps), End::Stopped)
        .unwrap();
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(effects > 150_000, "{effects} effects are too few for a boot");
    // Measured: 143 KB, 0.84 bytes an effect; real boots have up to ten times as many effects.
    assert!(bytes < 200_000, "{bytes} bytes for {effects} effects");
    let log = LogReader::open(&path).unwrap();
    assert!(log.index.blocks.len() > 10, "several blocks");
    let read = log.events_from(Icount::ZERO).unwrap().map(Result::unwrap);
    assert!(
        read.map(|e| (e.at.0, e.body))
            .eq(boot_like(steps).map(|(at, e)| (at, Body::Effect(e))))
    );
    // Seeking lands within the blocks too.
    for from in (0..steps).step_by(97_000_003) {
        let first = log.events_from(Icount(from)).unwrap().next().map(Result::unwrap);
        let expected = boot_like(steps).find(|&(at, _)| at >= from);
        assert_eq!(first.map(|e| e.at.0), expected.map(|(at, _)| at));
    }
}
