//! Debian's kernel: what the campaign does at length, in less than a minute.

use icount::{End, Icount};
use tests::debian::{BIOS_FILES, SESSION, bios_boot, boot, images, x86_boot, x86_images};
use tests::recorded::{record, replay, seek};
use tests::ways::{How, Run, With, compare};
use tests::{Random, recorded};

const LIMIT: u64 = 20_000_000_000;

#[test]
fn a_session_on_four_harts_replays_and_its_states_are_one() {
    let Some(dir) = images("a_session_on_four_harts_replays_and_its_states_are_one") else {
        return;
    };
    let subject = boot(&dir, "session", 4, "", SESSION).unwrap();
    // Commands were typed and waited for; the last one switches off.
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("session.tick");
    let places = Random(3).places(30, 1_200_000_000);
    let (finished, end, seen) = record(&subject, &dir, With::Jit, 26, &places, LIMIT).unwrap();
    assert_eq!(end, End::PowerOff(0));
    assert!(finished.position.inputs > 200, "{finished:?}");
    let Run::Replaying(mut history) = replay(&dir, With::Jit).unwrap() else {
        panic!()
    };
    let verified = history.verify(|_| {}).unwrap();
    assert_eq!((verified.steps, verified.roots), (finished.at, finished.roots));
    drop(history);
    let mut live = Run::live(&subject, With::PlainJit).unwrap();
    compare(&seen, &live.walk(&How::Straight, &places).unwrap()).unwrap();
    drop(live);
    let some: Vec<u64> = places.iter().step_by(6).copied().collect();
    let expected: Vec<_> = seen.into_iter().step_by(6).collect();
    compare(&expected, &seek(&dir, With::Jit, &some, true).unwrap()).unwrap();
}

#[test]
fn an_interpreted_boot_begins_as_a_translated_one() {
    let Some(dir) = images("an_interpreted_boot_begins_as_a_translated_one") else {
        return;
    };
    let subject = boot(&dir, "boot", 2, "bench=short", "").unwrap();
    let mut places = Random(4).places(20, 60_000_000);
    places.sort_unstable();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("begin.tick");
    let history = recorded::begin(&subject, &dir, With::Jit, snapshot::grid::Grid::fixed(22)).unwrap();
    let seen = Run::Recording(Box::new(history))
        .walk(&How::Straight, &places)
        .unwrap();
    let interpreted = Run::live(&subject, With::Interp).and_then(|mut run| run.walk(&How::Straight, &places));
    compare(&seen, &interpreted.unwrap()).unwrap();
}

#[test]
fn an_amd64_boot_on_four_processors_replays_and_its_states_are_one() {
    let name = "an_amd64_boot_on_four_processors_replays_and_its_states_are_one";
    let Some(images) = x86_images(name, &["vmlinuz", "initramfs.cpio.gz"]) else {
        return;
    };
    let script = "wait tickback: shell ready\nwait # \nsend nproc; poweroff -f\\n\n";
    let subject = x86_boot(&images, "amd64", 4, "", script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("amd64.tick");
    let places = Random(5).places(10, 800_000_000);
    let (finished, end, seen) = record(&subject, &dir, With::Jit, 26, &places, LIMIT).unwrap();
    assert_eq!(end, End::PowerOff(0));
    assert!(finished.position.inputs > 0, "{finished:?}");
    let Run::Replaying(mut history) = replay(&dir, With::Jit).unwrap() else {
        panic!()
    };
    let verified = history.verify(|_| {}).unwrap();
    assert_eq!((verified.steps, verified.roots), (finished.at, finished.roots));
    drop(history);
    let some: Vec<u64> = places.iter().step_by(3).copied().collect();
    let expected: Vec<_> = seen.into_iter().step_by(3).collect();
    compare(&expected, &seek(&dir, With::Jit, &some, true).unwrap()).unwrap();
}

#[test]
fn an_interpreted_amd64_boot_begins_as_a_translated_one() {
    let name = "an_interpreted_amd64_boot_begins_as_a_translated_one";
    let Some(images) = x86_images(name, &["vmlinuz", "initramfs.cpio.gz"]) else {
        return;
    };
    let subject = x86_boot(&images, "amd64 begins", 4, "", "").unwrap();
    let places = Random(6).places(10, 40_000_000);
    let translated = Run::live(&subject, With::Jit).and_then(|mut run| run.walk(&How::Straight, &places));
    let interpreted = Run::live(&subject, With::Interp).and_then(|mut run| run.walk(&How::Straight, &places));
    compare(&translated.unwrap(), &interpreted.unwrap()).unwrap();
}

#[test]
fn a_bios_boots_a_disk_to_grubs_prompt_and_its_states_are_one() {
    let name = "a_bios_boots_a_disk_to_grubs_prompt_and_its_states_are_one";
    let Some(images) = x86_images(name, &BIOS_FILES) else {
        return;
    };
    let subject = bios_boot(&images, "GRUB", "screen GNU GRUB\nkey c\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("grub.tick");
    let places = Random(6).places(20, 130_000_000);
    let grid = snapshot::grid::Grid::fixed(24);
    let history = recorded::begin(&subject, &dir, With::Jit, grid).unwrap();
    let mut run = Run::Recording(Box::new(history));
    let seen = run.walk(&How::Straight, &places).unwrap();
    let (end, ended) = run.finish(Icount(150_000_000)).unwrap();
    assert_eq!(ended, None);
    // The script saw the menu, and GRUB its key.
    let rows = run.machine().screen().unwrap().rows();
    assert!(rows.iter().any(|row| row.starts_with("grub>")), "{rows:#?}");
    let Run::Recording(history) = run else { panic!() };
    let finished = history.finish(End::Stopped).unwrap();
    let Run::Replaying(mut history) = replay(&dir, With::Jit).unwrap() else {
        panic!()
    };
    let verified = history.verify(|_| {}).unwrap();
    assert_eq!((verified.steps, verified.roots), (end, finished.roots));
    let some: Vec<u64> = places.iter().step_by(4).copied().collect();
    let expected: Vec<_> = seen.iter().step_by(4).cloned().collect();
    compare(&expected, &seek(&dir, With::Jit, &some, true).unwrap()).unwrap();
    let begin = places.partition_point(|place| *place < 30_000_000);
    let run =
        Run::live(&subject, With::Interp).and_then(|mut run| run.walk(&How::Straight, &places[..begin]));
    compare(&seen[..begin], &run.unwrap()).unwrap();
}
