//! Recordings that somebody sends: damaged, or made to do harm. Checksums are made good again, so that what is behind them is
//! reached: who writes a bad recording writes good checksums.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use icount::{Icount, LogReader, ScriptedDoor};
use machine::manifest::Manifest;
use machine::verify::segments::{self, Shard, Work};
use machine::{Engine, FirstStep, Recorded, Snapshot, Stopped, Stops, board};
use snapshot::grid::Grid;
use snapshot::{Checkpoints, PageId, SnapshotError};
use tempfile::TempDir;

use super::bytes::Bytes;
use super::guests::NoPages;
use crate::recorded::begin;
use crate::subject::{Subject, smp};
use crate::ways::With;

/// Events that are read of a log; runs of equal ones may be as long as a number says.
const EVENTS: usize = 20_000;
/// Steps of the recording that is damaged.
const STEPS: u64 = 40_000;

/// A folder in memory, where there is such a place.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .expect("a temporary folder")
}

/// A log: any bytes, or frames of any content with good checksums.
pub fn log(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let content = match bytes.byte() {
        0 => bytes.rest().to_vec(),
        ns_per_step => frames(ns_per_step.into(), &mut bytes),
    };
    let place = scratch();
    let path = place.path().join("events");
    fs::write(&path, content).expect("a file in memory");
    read_log(&path);
}

fn read_log(path: &Path) {
    for reader in [LogReader::open(path), LogReader::open_prefix(path)] {
        let Ok(reader) = reader else { continue };
        let end = reader.end();
        let _ = (
            reader.begin(),
            reader.counts(),
            reader.recovered(),
            reader.lost_effects(),
        );
        for from in [Icount(0), Icount(end.0.0 / 2), end.0] {
            let Ok(events) = reader.events_from(from) else {
                continue;
            };
            for event in events.take(EVENTS) {
                match event {
                    Ok(event) => drop(event.to_string()),
                    Err(_) => break,
                }
            }
        }
    }
}

/// A log of frames: kind, length, payload, as often as there is input (docs/format.md).
fn frames(ns_per_step: u64, bytes: &mut Bytes) -> Vec<u8> {
    let mut log = b"TICKBKEV".to_vec();
    log.extend(1u32.to_le_bytes());
    log.extend(32u32.to_le_bytes());
    log.extend(ns_per_step.to_le_bytes());
    log.extend([0; 8]);
    while !bytes.is_empty() {
        let kind = bytes.byte();
        let len = bytes.byte().into();
        let payload = bytes.take(len);
        log.extend([kind, 0, 0, 0]);
        log.extend((payload.len() as u32).to_le_bytes());
        log.extend([0; 8]);
        log.extend(payload);
    }
    seal_log(&mut log);
    log
}

/// Makes the checksums of a log good, as far as its lengths make sense.
fn seal_log(log: &mut [u8]) {
    let Some(head) = log.get_mut(..32) else { return };
    let crc = crc32fast::hash(&head[..28]);
    head[28..].copy_from_slice(&crc.to_le_bytes());
    let mut at = 32;
    while let Some(head) = log.get(at..at + 16) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(payload) = log.get(at + 16..(at + 16).saturating_add(len)) else {
            return;
        };
        let payload = crc32fast::hash(payload);
        log[at + 8..at + 12].copy_from_slice(&payload.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&(at as u64).to_le_bytes());
        hasher.update(&log[at..at + 12]);
        log[at + 12..at + 16].copy_from_slice(&hasher.finalize().to_le_bytes());
        at += 16 + len;
    }
}

/// Makes the checksums of records good: behind a head of 16 bytes come `before` bytes that the checksum covers, itself, `after` bytes that
/// it covers too, and others. `extent` reads these three from a head.
fn seal_records(file: &mut [u8], extent: impl Fn(&[u8]) -> [usize; 3]) {
    let mut at = 16;
    while let Some(head) = file.get(at..at + 16) {
        let [before, after, others] = extent(head);
        let sum = at + 16 + before;
        let Some(behind) = file.get(sum + 16..) else {
            return;
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&file[at..sum]);
        hasher.update(&behind[..after.min(behind.len())]);
        file[sum..sum + 16].copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        at = sum
            .saturating_add(16)
            .saturating_add(after)
            .saturating_add(others);
    }
}

fn word(head: &[u8], at: usize) -> usize {
    let word = head.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_le_bytes(word.unwrap_or_default()) as usize
}

/// Makes the checksums of a file of a recording good.
fn seal(name: &str, file: &mut [u8]) {
    match name {
        "events" => seal_log(file),
        "checkpoints" => seal_records(file, |head| [0, word(head, 8), word(head, 12)]),
        "packs/0000.pack" => seal_records(file, |head| [32 * (word(head, 6) & 0xffff), 0, word(head, 12)]),
        _ => {}
    }
}

/// A short recording's files.
struct Pristine(Vec<(&'static str, Vec<u8>)>);

impl Pristine {
    fn new() -> Pristine {
        let place = scratch();
        let dir = place.path().join("a.tick");
        let subject = echo();
        let mut history = begin(&subject, &dir, With::Interp, Grid::fixed(14)).expect("a recording");
        let mut until = 0;
        while until < STEPS {
            until += STEPS / 4;
            history
                .run_live(Icount(until), &Stops::default(), FirstStep::Counts)
                .expect("the guest runs");
        }
        history.finish(icount::End::Stopped).expect("it is closed");
        let file = |name| (name, fs::read(dir.join(name)).expect("a file of the recording"));
        Pristine(
            ["manifest.json", "events", "checkpoints", "packs/0000.pack"]
                .map(file)
                .into(),
        )
    }
}

fn echo() -> Subject {
    let mut echo = Subject::of("echo", &crate::echo::echo(), 1, &[], &[]);
    echo.config.memory = 2 << 20;
    echo.script = "wait ready\nsend Hello\\n\n".into();
    echo
}

/// A real recording with a few bytes changed, and its checksums good: read in every way, and replayed.
pub fn recording(input: &[u8]) {
    thread_local! {
        static PRISTINE: Pristine = Pristine::new();
    }
    let mut files = PRISTINE.with(|pristine| pristine.0.clone());
    let mut bytes = Bytes::new(input);
    let sealed = bytes.byte() & 1 == 0;
    while !bytes.is_empty() {
        let (_, file) = &mut files[usize::from(bytes.byte() & 3)];
        let at = (bytes.number(3) as usize).checked_rem(file.len()).unwrap_or(0);
        match bytes.byte() {
            0 => file.truncate(at),
            1..=15 => drop(
                file.splice(at..at, bytes.take(8).iter().copied())
                    .collect::<Vec<_>>(),
            ),
            16..=31 => drop(file.drain(at..(at + bytes.below(64)).min(file.len()))),
            change => {
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= change;
                }
            }
        }
    }
    let place = scratch();
    let dir = place.path();
    fs::create_dir(dir.join("packs")).expect("a folder in memory");
    for (name, mut file) in files {
        if sealed {
            seal(name, &mut file);
        }
        fs::write(dir.join(name), file).expect("a file in memory");
    }
    read_log(&dir.join("events"));
    read_checkpoints(dir);
    let _ = Manifest::read(dir);
    let Ok(recorded) = Recorded::open(dir) else { return };
    // A changed position may say that the run is as long as numbers go.
    if recorded.log().end().0.0 > 4 * STEPS {
        return;
    }
    let work = Work::of(&recorded, Shard::WHOLE);
    let _ = segments::verify(&recorded, &work, 1, &Engine::interp, |_| true);
}

fn read_checkpoints(dir: &Path) {
    let Ok(checkpoints) = Checkpoints::open(dir) else {
        return;
    };
    let _ = checkpoints.figures();
    for info in checkpoints.list() {
        let Ok(loaded) = checkpoints.load(info.at) else {
            continue;
        };
        let mut ids: Vec<PageId> = Vec::new();
        let _ = loaded.tree.for_each::<SnapshotError>(|_, page| {
            ids.push(page.id());
            Ok(())
        });
        for id in ids {
            let _ = snapshot::PageSource::page(checkpoints.store(), id);
        }
    }
}

/// A snapshot's state with some bytes changed: it is refused, or the machine runs on from it and can be saved and restored.
pub fn state(input: &[u8]) {
    struct Bed {
        machine: machine::Machine,
        snapshots: Vec<Snapshot>,
    }
    fn bed(subject: &Subject) -> Bed {
        let door = Box::new(ScriptedDoor::new());
        let mut machine = board::build(&subject.config, subject.images.clone(), door, Engine::interp())
            .expect("a machine of ours");
        let mut snapshots = Vec::new();
        for until in [0, 3_000, 60_000] {
            machine
                .run(Icount(until), &Stops::default(), FirstStep::Counts)
                .expect("the guest runs");
            snapshots.push(machine.save().expect("it is saved"));
        }
        Bed { machine, snapshots }
    }
    thread_local! {
        static BEDS: RefCell<Vec<Bed>> = RefCell::new(
            [smp(), echo(), Subject::x86_demo().expect("it is placed")].iter().map(bed).collect(),
        );
    }
    let mut bytes = Bytes::new(input);
    BEDS.with_borrow_mut(|beds| {
        let Bed { machine, snapshots } = &mut beds[usize::from(bytes.byte() % 3)];
        let good = &snapshots[usize::from(bytes.byte()) % snapshots.len()];
        let mut state = good.state.to_vec();
        while !bytes.is_empty() {
            let at = bytes.below(state.len());
            match bytes.byte() {
                0 => state.truncate(at),
                1..=7 => drop(
                    state
                        .splice(at..at, bytes.take(4).iter().copied())
                        .collect::<Vec<_>>(),
                ),
                change => {
                    if let Some(byte) = state.get_mut(at) {
                        *byte ^= change;
                    }
                }
            }
        }
        let bad = Snapshot {
            at: good.at,
            tree: good.tree.clone(),
            state: Arc::new(state),
        };
        if machine.restore(&bad, &NoPages).is_ok() {
            let at = machine.icount();
            let until = Icount(at.0.saturating_add(2_000));
            let stopped = machine.run(until, &Stops::default(), FirstStep::Counts);
            if let Ok(Stopped::Reached | Stopped::End(_)) = stopped {
                let saved = machine.save().expect("what runs can be saved");
                machine
                    .restore(&saved, &NoPages)
                    .expect("what is saved can be restored");
                let again = machine.save().expect("and saved again");
                assert_eq!(saved.state, again.state);
            }
        }
        machine.restore(&snapshots[0], &NoPages).expect("a good state");
    });
}
