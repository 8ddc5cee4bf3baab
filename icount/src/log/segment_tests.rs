//! Logs of several files: the same events, whatever the files; and shortened ones.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::log::samples::{Act, run};
use crate::{
    Body, Effect, End, Event, Icount, Input, LogError, LogPosition, LogReader, LogWriter, VirtualTime,
};

fn in_temp() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    (folder, path)
}

fn part(path: &Path, n: u32) -> PathBuf {
    path.with_file_name(format!("events.{n:04}"))
}

fn all(log: &LogReader) -> Vec<Event> {
    log.events_from(Icount::ZERO)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn put(log: &mut LogWriter, at: Icount, time: VirtualTime, act: Act) -> Option<Event> {
    match act {
        Act::Effect(hart, effect) => {
            log.effect(at, time, hart, &effect).unwrap();
            Some(Event::effect(at, time, hart, effect))
        }
        Act::Input(input) => {
            log.input(at, time, &input).unwrap();
            Some(Event::input(at, time, input))
        }
        Act::Disk { drive, block, data } => {
            log.disk_block(at, time, drive, block, &data).unwrap();
            Some(Event::input(at, time, Input::DiskBlock { drive, block, data }))
        }
        Act::Progress => {
            log.progress(at, time).unwrap();
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rotating_changes_no_event_and_forgetting_only_drops_old_ones(
        run in run(120),
        rotations in prop::collection::btree_set(0usize..120, 0..6),
        forget in 0usize..120,
    ) {
        let (_folder, path) = in_temp();
        let mut log = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
        let mut events = Vec::new();
        let mut bases = vec![(Icount::ZERO, LogPosition::default())];
        let mut from = LogPosition::default();
        for (index, (at, time, act)) in run.iter().cloned().enumerate() {
            if rotations.contains(&index) {
                log.rotate(at, time).unwrap();
                bases.push((at, log.position()));
                prop_assert_eq!(log.last_rotation(), at);
            }
            if index <= forget {
                from = log.position();
            }
            events.extend(put(&mut log, at, time, act));
        }
        log.flush().unwrap();
        let reader = LogReader::open(&path).unwrap();
        prop_assert_eq!(&all(&reader), &events);
        let position = log.position();

        log.forget_before(from).unwrap();
        prop_assert_eq!(log.position(), position);
        let (base, first) = *bases.iter().rev().find(|(_, base)| base.inputs <= from.inputs && base.effects <= from.effects).unwrap();
        let (at, time, _) = *run.last().unwrap_or(&(Icount::ZERO, VirtualTime::ZERO, Act::Progress));
        log.end(at, time, End::Stopped).unwrap();
        drop(log);
        let left = LogReader::open(&path).unwrap();
        prop_assert_eq!(left.begin().0, base);
        prop_assert_eq!(left.first_position(), first);
        let found = all(&left);
        prop_assert!(events.ends_with(&found));
        let counted = |list: &[Event]| list.iter().filter(|e| matches!(e.body, Body::Effect(_))).count() as u64;
        prop_assert_eq!(counted(&events) - counted(&found), first.effects);
        // Positions are those of the run, before and after.
        prop_assert_eq!(left.counts().effects, position.effects - first.effects);
        for event in found.iter().filter(|event| event.at > base) {
            prop_assert_eq!(left.seek_icount(event.at).unwrap(), reader.seek_icount(event.at).unwrap());
        }
        prop_assert!(left.seek(first).is_ok() && left.seek(position).is_ok());
        if first.effects > 0 {
            let before = LogPosition { effects: first.effects - 1, ..first };
            let refused = matches!(left.seek(before), Err(LogError::NoPosition { .. }));
            prop_assert!(refused);
        }
        prop_assert!(left.events_before(position, 16).iter().eq(reader.events_before(position, 16).iter().rev().take(left.events_before(position, 16).len()).rev()));
        if let Some(gone) = bases.iter().rposition(|known| *known == (base, first)).filter(|n| *n > 0) {
            prop_assert!(!path.exists() && (1..gone as u32).all(|n| !part(&path, n).exists()));
        }
    }
}

fn three_files(path: &Path) -> LogWriter {
    let mut log = LogWriter::create(path, NonZeroU64::MIN).unwrap();
    for n in 0..3 {
        let (at, time) = (Icount(10 * n + 1), VirtualTime(10 * n + 1));
        log.input(at, time, &Input::Reset).unwrap();
        log.effect(at, time, 0, &Effect::Reset).unwrap();
        if n < 2 {
            log.rotate(at, time).unwrap();
        }
    }
    log.flush().unwrap();
    log
}

#[test]
fn a_cut_in_the_last_file_is_a_torn_end_and_in_others_damage() {
    let (_folder, path) = in_temp();
    drop(three_files(&path));
    let whole = fs::read(part(&path, 2)).unwrap();
    let middle = fs::read(part(&path, 1)).unwrap();
    for cut in 0..whole.len() {
        fs::write(part(&path, 1), &middle).unwrap();
        fs::write(part(&path, 2), &whole[..cut]).unwrap();
        let log = LogReader::open(&path).unwrap();
        let inputs = all(&log)
            .iter()
            .filter(|e| matches!(e.body, Body::Input(_)))
            .count();
        assert!((2..=3).contains(&inputs), "{cut}");
        if let Some(recovered) = log.recovered() {
            assert_eq!(recovered.segment, 2);
            assert!(recovered.to_string().contains("events.0002"), "{recovered}");
        }
        let (mut log, _) = LogWriter::append(&path).unwrap();
        for _ in 0..log.missing_effects() {
            log.effect(Icount(21), VirtualTime(21), 0, &Effect::Reset)
                .unwrap();
        }
        log.input(Icount(50), VirtualTime(50), &Input::Reset).unwrap();
        log.flush().unwrap();
        drop(log);
        assert_eq!(LogReader::open(&path).unwrap().end().0, Icount(50), "{cut}");
        drop(fs::remove_file(part(&path, 2)));
    }
    fs::write(part(&path, 2), &whole).unwrap();
    for cut in 0..middle.len() {
        fs::write(part(&path, 1), &middle[..cut]).unwrap();
        match LogReader::open(&path) {
            Err(LogError::Damaged { path: found, .. }) => {
                assert!(
                    found == part(&path, 1) || found == part(&path, 2),
                    "{cut} {found:?}"
                );
            }
            other => panic!("{cut}: {other:?}"),
        }
        let prefix = LogReader::open_prefix(&path).unwrap();
        assert!(prefix.recovered().is_some_and(|r| r.damaged), "{cut}");
    }
}

#[test]
fn files_that_are_missing_or_exchanged_are_named() {
    let (_folder, path) = in_temp();
    drop(three_files(&path));
    let bytes: Vec<Vec<u8>> = [path.clone(), part(&path, 1), part(&path, 2)]
        .iter()
        .map(|p| fs::read(p).unwrap())
        .collect();
    fs::remove_file(part(&path, 1)).unwrap();
    let missing = LogReader::open(&path).unwrap_err();
    assert!(missing.to_string().contains("events.0001: "), "{missing}");
    fs::write(part(&path, 1), &bytes[2]).unwrap();
    fs::write(part(&path, 2), &bytes[1]).unwrap();
    assert!(matches!(
        LogReader::open(&path),
        Err(LogError::Damaged { offset: 0, .. })
    ));
    // Without its first files a log begins later.
    fs::write(part(&path, 1), &bytes[1]).unwrap();
    fs::write(part(&path, 2), &bytes[2]).unwrap();
    fs::remove_file(&path).unwrap();
    let log = LogReader::open(&path).unwrap();
    assert_eq!((log.begin().0, all(&log).len()), (Icount(1), 4));
    fs::rename(part(&path, 2), &path).unwrap();
    fs::remove_file(part(&path, 1)).unwrap();
    assert!(matches!(LogReader::open(&path), Err(LogError::NotALog { .. })));
}

#[test]
fn a_log_of_a_run_under_way_counts_on() {
    let (_folder, path) = in_temp();
    let position = LogPosition {
        inputs: 5,
        effects: 1000,
    };
    let start = (Icount(77), VirtualTime(99));
    let mut log = LogWriter::create_at(&path, NonZeroU64::MIN, start, position).unwrap();
    assert_eq!(log.position(), position);
    log.effect(Icount(80), VirtualTime(102), 0, &Effect::Reset)
        .unwrap();
    log.input(Icount(80), VirtualTime(102), &Input::Reset).unwrap();
    log.end(Icount(90), VirtualTime(200), End::Stopped).unwrap();
    let log = LogReader::open(&path).unwrap();
    assert_eq!((log.begin(), log.first_position()), (start, position));
    assert_eq!((log.counts().inputs, log.counts().effects), (1, 1));
    let kinds: Vec<&str> = all(&log).iter().map(|e| e.kind().name()).collect();
    assert_eq!(kinds, ["reset", "reset"]);
    // Its head is checked to the bit.
    let whole = fs::read(&path).unwrap();
    for byte in 0..72 {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(matches!(
            LogReader::open(&path),
            Err(LogError::NotALog { .. } | LogError::Version { .. })
        ));
    }
}
