//! Recordings of subjects, and the ways to come to a position of one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use icount::{Body, Effect, End, Icount, LogReader};
use machine::history::{Finished, RecordOptions, Retention, events_path};
use machine::host::Stopwatch;
use machine::{History, Timeline, TimelineOptions};
use snapshot::RecorderOptions;
use snapshot::grid::Grid;

use crate::subject::Subject;
use crate::ways::{How, Run, Seen, With};

/// No snapshots but those at both ends.
pub const NO_SNAPSHOTS: u32 = 62;

/// Begins a recording with snapshots every 2^`k` steps.
///
/// # Errors
/// The folder exists, or the machine can't be built.
pub fn begin(subject: &Subject, dir: &Path, with: With, grid: Grid) -> Result<History> {
    begin_keeping(subject, dir, with, grid, Retention::default())
}

/// The same, of which only the end is kept; in small packs, so that some go.
///
/// # Errors
/// As for [`begin`].
pub fn begin_keeping(
    subject: &Subject,
    dir: &Path,
    with: With,
    grid: Grid,
    retention: Retention,
) -> Result<History> {
    let watch = Stopwatch::start();
    let options = RecordOptions {
        grid,
        recorder: RecorderOptions {
            pack_bytes: retention.pack_bytes().map_or(256 << 20, |_| 64 << 10),
            ..RecorderOptions::default()
        },
        host_time: Box::new(move || watch.now()),
        origin: BTreeMap::from([("subject".into(), subject.name.clone())]),
        fsync: false,
        retention,
    };
    let images = subject.images.clone();
    Ok(History::record(
        dir,
        &subject.config,
        images,
        subject.door(),
        with.engine()?,
        options,
    )?)
}

/// Records a subject to its end and yields what was seen at `places` on the way.
///
/// # Errors
/// The machine's; the guest doesn't end within `limit` steps.
pub fn record(
    subject: &Subject,
    dir: &Path,
    with: With,
    k: u32,
    places: &[u64],
    limit: u64,
) -> Result<(Finished, End, Vec<Seen>)> {
    let mut run = Run::Recording(Box::new(begin(subject, dir, with, Grid::fixed(k))?));
    let seen = run.walk(&How::Straight, places)?;
    let (at, end) = run.finish(Icount(limit))?;
    let end = end.with_context(|| format!("{} did not end by {at}", subject.name))?;
    let Run::Recording(history) = run else {
        anyhow::bail!("not a recording")
    };
    Ok((history.finish(end)?, end, seen))
}

/// What a recorded guest wrote to its consoles.
///
/// # Errors
/// The log can't be read.
pub fn console(dir: &Path) -> Result<Vec<u8>> {
    let log = LogReader::open(&events_path(dir))?;
    let mut bytes = Vec::new();
    for event in log.events_from(Icount(0))? {
        if let Body::Effect(Effect::ConsoleOut { byte, .. }) = event?.body {
            bytes.push(byte);
        }
    }
    Ok(bytes)
}

/// A recording, to be replayed.
///
/// # Errors
/// It can't be opened.
pub fn replay(dir: &Path, with: With) -> Result<Run> {
    Ok(Run::Replaying(Box::new(History::open(dir, with.engine()?)?)))
}

/// What is seen at `places` after a seek there from the beginning, and from the end.
///
/// # Errors
/// The timeline's.
pub fn seek(dir: &Path, with: With, places: &[u64], from_end: bool) -> Result<Vec<Seen>> {
    let mut timeline = Timeline::new(History::open(dir, with.engine()?)?, TimelineOptions::default());
    let end = timeline.machine_mut().log()?.end().0;
    let start = if from_end { end } else { Icount(0) };
    let mut seen = Vec::new();
    for place in places {
        timeline.seek(start)?;
        timeline.seek(Icount(*place))?;
        ensure!(
            timeline.position() == Icount(*place),
            "a seek to {place} came to {}",
            timeline.position()
        );
        seen.push(see(&mut timeline)?);
    }
    Ok(seen)
}

fn see(timeline: &mut Timeline<History>) -> Result<Seen> {
    let snapshot = timeline.machine_mut().machine_mut().save()?;
    Ok(Seen {
        at: snapshot.at,
        root: snapshot.root(),
        memory: snapshot.tree.root(),
        state: snapshot.state,
    })
}

/// The root at a position, computed by a new process (`program`, this crate's `child`) from the folder alone.
///
/// # Errors
/// The process fails.
pub fn root_elsewhere(program: &Path, dir: &Path, place: u64) -> Result<String> {
    let output = Command::new(program)
        .arg("root")
        .arg(dir)
        .arg(place.to_string())
        .output()?;
    ensure!(
        output.status.success(),
        "the process for {place} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
