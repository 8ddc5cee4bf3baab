//! Law 1 on the embedded guests: the state at 200 random positions is the same however it is reached.
//!
//! The recording of a subject by the JIT without snapshots is what all else is held against, root for root.

use std::path::{Path, PathBuf};

use icount::{Body, Effect, Icount, LogReader};
use machine::Stops;
use machine::history::events_path;
use snapshot::Replay;
use tests::Random;
use tests::load::HostLoad;
use tests::recorded::{NO_SNAPSHOTS, record, replay, root_elsewhere, seek};
use tests::subject::{Subject, embedded, smp};
use tests::ways::{How, Run, Seen, With, compare};

const LIMIT: u64 = 200_000_000;
const PLACES: usize = 200;
const SEEKS: usize = 20;

struct Reference {
    subject: Subject,
    _folder: tempfile::TempDir,
    dir: PathBuf,
    places: Vec<u64>,
    end: u64,
    seen: Vec<Seen>,
}

/// Steps to the guest's end, and its recording.
fn reference(subject: Subject) -> Reference {
    let (end, _) = Run::live(&subject, With::Jit)
        .unwrap()
        .finish(Icount(LIMIT))
        .unwrap();
    let mut places = Random(0x7469_636b ^ end.0).places(PLACES - 1, end.0 - 1);
    places.push(end.0);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("reference.tick");
    let (finished, _, seen) = record(&subject, &dir, With::Jit, NO_SNAPSHOTS, &places, LIMIT).unwrap();
    assert_eq!(finished.at, end, "{}", subject.name);
    assert_eq!(seen.len(), PLACES);
    // States that don't change would be equal for nothing.
    assert!(
        seen.windows(2).all(|two| two[0].root != two[1].root),
        "{}",
        subject.name
    );
    Reference {
        subject,
        _folder: folder,
        dir,
        places,
        end: end.0,
        seen,
    }
}

fn references() -> Vec<Reference> {
    embedded().unwrap().into_iter().map(reference).collect()
}

impl Reference {
    fn equal(&self, way: &str, seen: anyhow::Result<Vec<Seen>>) {
        if let Err(error) = seen.and_then(|seen| compare(&self.seen, &seen)) {
            panic!("{}, {way}: {error:?}", self.subject.name);
        }
    }

    fn live(&self, way: &str, with: With, how: &How) {
        let seen = Run::live(&self.subject, with).and_then(|mut run| run.walk(how, &self.places));
        self.equal(way, seen);
    }

    fn replayed(&self, way: &str, with: With, how: &How) {
        let seen = replay(&self.dir, with).and_then(|mut run| run.walk(how, &self.places));
        self.equal(way, seen);
    }

    fn some(&self) -> (Vec<u64>, Vec<Seen>) {
        let step = PLACES / SEEKS;
        let places = self.places.iter().skip(step / 2).step_by(step).copied().collect();
        (
            places,
            self.seen.iter().skip(step / 2).step_by(step).cloned().collect(),
        )
    }
}

#[test]
fn engines_agree() {
    for r in references() {
        r.live("not recorded", With::Jit, &How::Straight);
        r.live("interpreter", With::Interp, &How::Straight);
        r.live("passes off", With::PlainJit, &How::Straight);
        r.replayed("replayed", With::Jit, &How::Straight);
        r.replayed("replayed by the interpreter", With::Interp, &How::Straight);
    }
}

#[test]
fn where_a_run_is_cut_does_not_matter() {
    for r in references() {
        for seed in 0..3 {
            r.live("cut", With::Jit, &How::Cut(seed));
        }
        r.live("interpreter, cut", With::Interp, &How::Cut(3));
        r.replayed("replayed, cut", With::Jit, &How::Cut(4));
        r.live("code thrown away", With::Jit, &How::Flush);
    }
}

#[test]
fn breakpoints_and_watchpoints_are_not_seen() {
    for r in references() {
        let breakpoints = Stops {
            breakpoints: r.subject.hot.clone(),
            ..Stops::default()
        };
        let watches = Stops {
            watches: r.subject.watches.clone(),
            ..Stops::default()
        };
        let all = Stops {
            breakpoints: r.subject.hot.clone(),
            watches: r.subject.watches.clone(),
            hart: Some(0),
        };
        for (what, stops) in [
            ("breakpoints", breakpoints),
            ("watchpoints", watches),
            ("everything", all),
        ] {
            for with in [With::Jit, With::Interp] {
                r.live(
                    &format!("{with:?}, {what} scanned for"),
                    with,
                    &How::Scan(stops.clone()),
                );
                r.live(
                    &format!("{with:?}, stopped by {what}"),
                    with,
                    &How::Stop(stops.clone()),
                );
            }
            r.replayed(&format!("replayed, {what}"), With::Jit, &How::Scan(stops));
        }
    }
}

#[test]
fn snapshots_are_not_seen() {
    for r in references() {
        for k in [12, 17] {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("dense.tick");
            let (finished, _, seen) = record(&r.subject, &dir, With::Jit, k, &r.places, LIMIT).unwrap();
            assert!(finished.roots > r.end >> (k + 1), "{finished:?}");
            r.equal(&format!("snapshots every 2^{k}"), Ok(seen));
            // And of those on disk, as many were seen.
            let (places, _) = r.some();
            let seen = seek(&dir, With::Jit, &places, true);
            let expected = r.some().1;
            compare(&expected, &seen.unwrap()).unwrap();
        }
    }
}

#[test]
fn a_state_has_no_past() {
    for r in references() {
        let (places, expected) = r.some();
        // Straight from power-on, never looked at on the way.
        for (place, expected) in places.iter().zip(&expected) {
            let mut run = Run::live(&r.subject, With::Jit).unwrap();
            let seen = run.walk(&How::Straight, &[*place]).unwrap();
            compare(std::slice::from_ref(expected), &seen)
                .unwrap_or_else(|e| panic!("{}: {e}", r.subject.name));
        }
    }
}

#[test]
fn roots_are_of_all_of_memory() {
    for r in references() {
        let mut run = Run::live(&r.subject, With::Jit).unwrap();
        let seen = run.walk_and(&How::Straight, &r.places, |run, seen| {
            let whole = run.whole_root(&r.subject.config)?;
            anyhow::ensure!(whole == seen.root, "written and not noted, before {}", seen.at);
            Ok(())
        });
        r.equal("all of memory", seen);
    }
}

#[test]
fn seeks_land_in_the_same_state() {
    for r in references() {
        let (places, expected) = r.some();
        for (with, from_end) in [(With::Jit, false), (With::Jit, true), (With::Interp, true)] {
            let seen = seek(&r.dir, with, &places, from_end).unwrap();
            compare(&expected, &seen)
                .unwrap_or_else(|e| panic!("{}, {with:?} {from_end}: {e}", r.subject.name));
        }
    }
}

/// Positions beside events: where lines are up, interrupts are taken, harts change, bytes come in.
fn beside_events(r: &Reference, count: usize) -> Vec<u64> {
    let log = LogReader::open(&events_path(&r.dir)).unwrap();
    let mut at: Vec<u64> = log
        .events_from(Icount(0))
        .unwrap()
        .map(Result::unwrap)
        .filter(|event| match &event.body {
            Body::Input(_) => true,
            Body::Effect(effect) => {
                matches!(
                    effect,
                    Effect::Line { .. } | Effect::Interrupt { .. } | Effect::HartSwitch { .. }
                )
            }
        })
        .map(|event| event.at.0)
        .collect();
    at.dedup();
    let step = (at.len() / count).max(1);
    let mut places: Vec<u64> = at.into_iter().step_by(step).flat_map(|at| [at, at + 1]).collect();
    places.retain(|place| *place <= r.end);
    places.dedup();
    places
}

#[test]
fn a_state_restored_beside_an_event_goes_on_as_before() {
    const ON: u64 = 3_000;
    let mut many = 0;
    for r in references() {
        let saves = beside_events(&r, 150);
        many += saves.len();
        let mut places: Vec<u64> = saves.iter().flat_map(|at| [*at, (at + ON).min(r.end)]).collect();
        places.sort_unstable();
        places.dedup();
        places.retain(|place| *place > 0);
        let mut saved = Vec::new();
        let mut run = replay(&r.dir, With::Jit).unwrap();
        let seen = run.walk_and(&How::Straight, &places, |run, seen| {
            if saves.binary_search(&seen.at.0).is_ok() {
                let Run::Replaying(history) = run else {
                    anyhow::bail!("not a replay")
                };
                saved.push(history.save()?);
            }
            Ok(())
        });
        let seen = seen.unwrap();
        let then = |at: u64| seen.iter().find(|seen| seen.at.0 == at).cloned().unwrap();
        // Now from the end backwards, each restored over a later state, by an engine that knows nothing.
        let mut run = replay(&r.dir, With::Interp).unwrap();
        for saved in saved.iter().rev() {
            let Run::Replaying(history) = &mut run else {
                panic!()
            };
            history.restore(saved).unwrap();
            let at = saved.snapshot.at.0;
            for place in [at, (at + ON).min(r.end)] {
                let here = run.walk(&How::Straight, &[place]).unwrap();
                compare(&[then(place)], &here)
                    .unwrap_or_else(|e| panic!("{}, saved at {at}, at {place}: {e}", r.subject.name));
            }
        }
    }
    assert!(many > 500, "{many} positions beside events");
}

#[test]
fn a_new_process_restores_the_same_state() {
    let child = Path::new(env!("CARGO_BIN_EXE_child"));
    for subject in embedded().unwrap() {
        let r = reference(subject);
        // With snapshots on the way, so that they are what is restored.
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("snapshots.tick");
        record(&r.subject, &dir, With::Jit, 16, &[], LIMIT).unwrap();
        let (places, expected) = r.some();
        for (place, seen) in places.iter().zip(&expected) {
            let root = root_elsewhere(child, &dir, *place).unwrap();
            assert_eq!(root, seen.root.to_string(), "{} at {place}", r.subject.name);
        }
    }
}

#[test]
fn a_busy_host_is_not_seen() {
    let _load = HostLoad::heavy();
    for r in references() {
        r.live("busy host", With::Jit, &How::Straight);
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("busy.tick");
        let (_, _, seen) = record(&r.subject, &dir, With::Jit, 14, &r.places, LIMIT).unwrap();
        r.equal("recorded on a busy host", Ok(seen));
    }
}

#[test]
fn schedules_differ_and_each_is_one() {
    let mut ends = Vec::new();
    for seed in 1..4 {
        let r = reference(smp().scheduled(seed));
        r.live("interpreter", With::Interp, &How::Straight);
        r.live("cut", With::Jit, &How::Cut(seed));
        r.replayed(
            "replayed by the interpreter, cut",
            With::Interp,
            &How::Cut(seed + 9),
        );
        let (places, expected) = r.some();
        compare(&expected, &seek(&r.dir, With::Jit, &places, true).unwrap()).unwrap();
        ends.push((r.end, r.seen[PLACES / 2].memory));
    }
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), 3, "a schedule's seed changes nothing");
}

#[test]
fn recordings_replay_with_every_event_and_root_equal() {
    for r in references() {
        for with in [With::Jit, With::Interp] {
            let Run::Replaying(mut history) = replay(&r.dir, with).unwrap() else {
                panic!()
            };
            let verified = history.verify(|_| {}).unwrap();
            assert_eq!(verified.steps, Icount(r.end));
        }
        let log = LogReader::open(&events_path(&r.dir)).unwrap();
        let inputs = log.events_from(Icount(0)).unwrap().map(Result::unwrap);
        let inputs = inputs.filter(|e| matches!(e.body, Body::Input(_))).count();
        assert_eq!(inputs > 0, !r.subject.script.is_empty(), "{}", r.subject.name);
    }
}
