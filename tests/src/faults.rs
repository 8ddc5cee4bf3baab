//! Faults: recordings whose process is killed, whose disk is full, whose files are damaged; and what is left of each.
//!
//! After every fault a recording opens, up to the last good point, or is refused with a line that names the file.
//! What opens is replayed whole and compared with a recording of the same run that nothing happened to: a replay that is not that run is
//! *wrong*, and there is none. What a guest had been given before its process died is in the log: else input is *lost*.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use icount::{Body, Event, Icount, Input, LogReader};
use machine::Recorded;
use machine::history::{CutOptions, HostNow, Retention, events_path};
use machine::verify::segments::{self, Shard, Work};
use snapshot::grid::Grid;
use snapshot::{Checkpoints, RecorderOptions, Root};

use crate::Random;
use crate::recorded::begin_keeping;
use crate::subject::Subject;
use crate::ways::{Run, With};

/// What is done to a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The process is killed at a random moment.
    Kill,
    /// The same of a flight recorder, which throws old parts away.
    KillFlight,
    /// No file may grow beyond a random size: the last write is torn, others fail.
    FileLimit,
    /// The disk is full: a small file system of its own.
    DiskFull,
    /// A random file is cut short.
    Truncated,
    /// A bit of a random file is flipped.
    BitFlipped,
    /// A block of 512 bytes of a random file is zeros, as a write that was torn by a power cut leaves it.
    Torn,
    /// A pack, or a part of the log, is deleted.
    Deleted,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Kill,
        Kind::KillFlight,
        Kind::FileLimit,
        Kind::DiskFull,
        Kind::Truncated,
        Kind::BitFlipped,
        Kind::Torn,
        Kind::Deleted,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Kill => "process killed (`kill -9`) while recording",
            Kind::KillFlight => "process killed, with `--flight-recorder`",
            Kind::FileLimit => "writes torn, then failing (RLIMIT_FSIZE)",
            Kind::DiskFull => "disk full (a small tmpfs)",
            Kind::Truncated => "a file cut short",
            Kind::BitFlipped => "a bit of a file flipped",
            Kind::Torn => "512 bytes of a file zeroed",
            Kind::Deleted => "a file deleted",
        }
    }
}

/// What is left of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It opens, and nothing is said to be wrong.
    Whole,
    /// It opens and replays up to where it is good; what is wrong is named.
    Part(String),
    /// It is refused, with this line.
    Refused(String),
    /// Nothing was recorded yet.
    Nothing,
}

/// A recording that nothing happened to.
pub struct Pristine {
    dir: PathBuf,
    events: Vec<Event>,
    roots: BTreeMap<Icount, Root>,
}

impl Pristine {
    /// Of the recording in `dir`.
    ///
    /// # Errors
    /// It can't be read.
    pub fn of(dir: &Path) -> Result<Pristine> {
        let log = LogReader::open(&events_path(dir))?;
        let events = log.events_from(Icount(0))?.collect::<Result<Vec<_>, _>>()?;
        let list = Checkpoints::open(dir)?.list();
        Ok(Pristine {
            dir: dir.to_owned(),
            events,
            roots: list.into_iter().map(|c| (c.at, c.root)).collect(),
        })
    }

    /// A copy, to be damaged.
    fn copy(&self, to: &Path) -> Result<()> {
        fs::create_dir_all(to.join("packs"))?;
        for name in files(&self.dir)? {
            fs::copy(self.dir.join(&name), to.join(&name))?;
        }
        Ok(())
    }

    /// Whether what was read of a damaged copy is what the run did.
    fn has(&self, dir: &Path) -> Result<()> {
        let log = LogReader::open(&events_path(dir))?;
        let mut mine = self.events.iter();
        for event in log.events_from(Icount(0))? {
            let event = event?;
            ensure!(
                mine.any(|own| *own == event),
                "it has an event that the run didn't have: {event}"
            );
        }
        for checkpoint in Checkpoints::open(dir)?.list() {
            // One that was dropped from the list is there again if the list was cut; the replay has compared it.
            let Some(own) = self.roots.get(&checkpoint.at) else {
                continue;
            };
            ensure!(
                *own == checkpoint.root,
                "the snapshot at {} is another",
                checkpoint.at
            );
        }
        Ok(())
    }
}

/// Small recordings to damage: of the demo guest, of a flight recorder with it, and of a part of it.
///
/// # Errors
/// The host's.
pub fn recordings(scratch: &Path) -> Result<Vec<Pristine>> {
    let subject = Subject::of("demo", &firmware::demo(), 1, &[], &[]);
    let limit = Icount(100_000_000);
    let [whole, kept, part] = ["whole.tick", "kept.tick", "part.tick"].map(|name| scratch.join(name));
    let retention = [
        Retention::default(),
        Retention {
            steps: Some(2_000_000),
            bytes: None,
        },
    ];
    for (dir, retention) in [&whole, &kept].into_iter().zip(retention) {
        let history = begin_keeping(&subject, dir, With::Jit, Grid::fixed(16), retention)?;
        let mut run = Run::Recording(Box::new(history));
        let (at, end) = run.finish(limit)?;
        let Run::Recording(history) = run else {
            bail!("not a recording")
        };
        history.finish(end.with_context(|| format!("the demo did not end by {at}"))?)?;
    }
    let options = CutOptions {
        from: Icount(2_345_678),
        to: Icount(4_567_890),
        grid: Grid::fixed(18),
        recorder: RecorderOptions::default(),
        host_time: Box::new(HostNow::default),
        origin: BTreeMap::new(),
    };
    Recorded::open(&whole)?.cut(&part, With::Jit.engine()?, options, |_| true)?;
    [whole, kept, part].iter().map(|dir| Pristine::of(dir)).collect()
}

/// Files of a recording by their names, with `/`.
fn files(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for folder in ["", "packs/"] {
        for entry in fs::read_dir(dir.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(format!("{folder}{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// An error and its causes as the command line tells them: in a line.
fn line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Opens and replays what a fault has left. An error is a *wrong* recording: it replays and says that it isn't what was recorded,
/// or an error that does not say where.
///
/// # Errors
/// See above.
pub fn look(dir: &Path) -> Result<Left> {
    if !dir.join("checkpoints").exists() && !dir.join("manifest.json").exists() {
        return Ok(Left::Nothing);
    }
    let clear = |error: String| -> Result<Left> {
        let names = [
            "manifest.json",
            "events",
            "checkpoints",
            ".pack",
            "packs",
            dir.to_str().unwrap_or_default(),
        ];
        ensure!(
            names.iter().any(|name| error.contains(name)),
            "no file is named: {error}"
        );
        ensure!(!error.contains('\n'), "it is more than a line: {error}");
        Ok(Left::Refused(error))
    };
    let recorded = match Recorded::open(dir) {
        Ok(recorded) => recorded,
        Err(error) => return clear(line(&error)),
    };
    if let Err(error) = recorded.first() {
        return clear(line(&error));
    }
    let work = Work::of(&recorded, Shard::WHOLE);
    let engine = || With::Jit.engine().unwrap_or_else(|_| machine::Engine::interp());
    let report = segments::verify(&recorded, &work, 1, &engine, |_| true)?;
    if let Some((_, error)) = report.departure {
        bail!("it departs: {}", line(&error));
    }
    let mut notes: Vec<String> = report.damage.iter().map(|error| line(error)).collect();
    notes.extend(recorded.checkpoints().damage().iter().map(ToString::to_string));
    for note in &notes {
        if let Left::Refused(_) = clear(note.clone())? {}
    }
    notes.extend(recorded.log().recovered().map(|r| r.to_string()));
    if recorded.log().end().2.is_none() {
        notes.push("it was not closed".into());
    }
    if report.segments == 0 {
        return Ok(Left::Refused(notes.first().cloned().unwrap_or_default()));
    }
    Ok(match notes.first() {
        None => Left::Whole,
        Some(first) => Left::Part(first.clone()),
    })
}

/// Damages one file of a recording; says what was done.
///
/// # Errors
/// The host's.
pub fn damage(dir: &Path, kind: Kind, random: &mut Random) -> Result<String> {
    let mut names = files(dir)?;
    if kind == Kind::Deleted {
        names.retain(|name| name != "manifest.json");
    }
    // Large files are no likelier than small ones: each has its own ways to be wrong.
    let name = names[random.below(names.len() as u64) as usize].clone();
    let path = dir.join(&name);
    let len = fs::metadata(&path)?.len();
    let at = random.below(len);
    Ok(match kind {
        Kind::Truncated => {
            fs::OpenOptions::new().write(true).open(&path)?.set_len(at)?;
            format!("{name} cut at {at}")
        }
        Kind::BitFlipped => {
            let file = fs::OpenOptions::new().read(true).write(true).open(&path)?;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at)?;
            byte[0] ^= 1 << random.below(8);
            file.write_all_at(&byte, at)?;
            format!("{name} flipped at {at}")
        }
        Kind::Torn => {
            let at = at / 512 * 512;
            let zeros = vec![0; 512.min(len - at) as usize];
            fs::OpenOptions::new()
                .write(true)
                .open(&path)?
                .write_all_at(&zeros, at)?;
            format!("{name} zeroed at {at}")
        }
        _ => {
            fs::remove_file(&path)?;
            format!("{name} deleted")
        }
    })
}

/// A process that records, and what its guest answered.
struct Recording {
    child: Child,
    answers: std::thread::JoinHandle<Vec<u8>>,
    ready: Arc<AtomicBool>,
}

impl Recording {
    fn start(command: &mut Command) -> Result<Recording> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut shown = child.stdout.take().context("no output")?;
        let ready = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ready);
        let answers = std::thread::spawn(move || {
            let mut greeting = [0; 6];
            if shown.read_exact(&mut greeting).is_err() {
                return Vec::new();
            }
            seen.store(true, Ordering::Relaxed);
            let mut bytes = Vec::new();
            // What came until it died.
            let _ = shown.read_to_end(&mut bytes);
            bytes
        });
        Ok(Recording {
            child,
            answers,
            ready,
        })
    }

    /// Types at random moments until `life` is over or the process ends; kills it; what the guest answered.
    fn live(mut self, life: Duration, random: &mut Random) -> Result<Vec<u8>> {
        let mut typed = self.child.stdin.take().context("no input")?;
        let patience = Instant::now();
        while !self.ready.load(Ordering::Relaxed) && patience.elapsed() < Duration::from_secs(60) {
            if self.child.try_wait()?.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
            // Some die before the guest has said a word.
            if random.below(200) == 0 && life < Duration::from_millis(5) {
                break;
            }
        }
        let start = Instant::now();
        while let Some(left) = life.checked_sub(start.elapsed()) {
            let byte = b'A' + random.below(16) as u8;
            if self.child.try_wait()?.is_some() || typed.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_micros(random.below(4000))));
        }
        self.child.kill()?;
        self.child.wait()?;
        self.answers
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that reads answers died"))
    }
}

/// Whether every input that a guest answered is in the log (which may begin later).
fn inputs_kept(dir: &Path, answered: &[u8]) -> Result<bool> {
    let log = LogReader::open(&events_path(dir))?;
    let mut logged = Vec::new();
    for event in log.events_from(Icount(0))? {
        if let Body::Input(Input::Console { byte, .. }) = event?.body {
            logged.push(byte.to_ascii_lowercase());
        }
    }
    let before = usize::try_from(log.first_position().inputs)?;
    Ok(answered.len() <= before + logged.len()
        && answered
            .iter()
            .skip(before)
            .eq(logged.iter().take(answered.len().saturating_sub(before))))
}

/// What came of the faults of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Faults.
    pub tried: usize,
    /// Recordings that open whole.
    pub whole: usize,
    /// Those that open up to the last good point, and say so.
    pub part: usize,
    /// Those that are refused by one clear line.
    pub refused: usize,
    /// Processes that died before there was anything.
    pub nothing: usize,
    /// Recordings that lack an input that their guest was given.
    pub lost: usize,
    /// What replays wrongly, or fails without saying where.
    pub wrong: Vec<String>,
}

/// What came of all faults.
#[derive(Clone, Debug, Default)]
pub struct Table(pub BTreeMap<Kind, Row>);

impl Table {
    fn take(&mut self, kind: Kind, what: &str, left: Result<Left>) {
        let row = self.0.entry(kind).or_default();
        row.tried += 1;
        match left {
            Ok(Left::Whole) => row.whole += 1,
            Ok(Left::Part(_)) => row.part += 1,
            Ok(Left::Refused(_)) => row.refused += 1,
            Ok(Left::Nothing) => row.nothing += 1,
            Err(error) => row.wrong.push(format!("{what}: {error:#}")),
        }
    }

    /// Everything that must not be: lost input, wrong replays.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let rows = self.0.iter();
        rows.flat_map(|(kind, row)| {
            let lost = (row.lost > 0).then(|| format!("{}: {} lost input", kind.name(), row.lost));
            lost.into_iter().chain(row.wrong.iter().cloned())
        })
        .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | tried | opens whole | opens up to the last good point | refused, file named | died before anything ran | lost input | wrong replays |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (kind, row) in &self.0 {
            let Row {
                tried,
                whole,
                part,
                refused,
                nothing,
                lost,
                wrong,
            } = row;
            let wrong = wrong.len();
            writeln!(
                f,
                "| {} | {tried} | {whole} | {part} | {refused} | {nothing} | {lost} | {wrong} |",
                kind.name()
            )?;
        }
        Ok(())
    }
}

/// What is done, to what.
pub struct Faults<'a> {
    /// This crate's `child`.
    pub program: &'a Path,
    /// Where recordings are made.
    pub scratch: &'a Path,
    /// Faults of each kind.
    pub count: usize,
    /// Of what happens when.
    pub seed: u64,
    /// The longest life of a process that is killed.
    pub life: Duration,
}

impl Faults<'_> {
    /// Faults of processes that record the echo guest.
    ///
    /// # Errors
    /// The host's.
    pub fn of_processes(&self, table: &mut Table) -> Result<()> {
        let mut random = Random(self.seed);
        for kind in [Kind::Kill, Kind::KillFlight, Kind::FileLimit, Kind::DiskFull] {
            for round in 0..self.count {
                let dir = self.scratch.join("faulty.tick");
                let mut command = Command::new(self.program);
                let mut life = Duration::from_micros(random.below(self.life.as_micros() as u64));
                let mut mounted = None;
                match kind {
                    Kind::KillFlight => {
                        command.arg("record").arg(&dir).arg("2000000");
                    }
                    Kind::FileLimit => {
                        // In blocks of 512 bytes.
                        let limit = 1 + random.below(120);
                        command = Command::new("sh");
                        command.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" record \"$1\"")]);
                        command.arg(self.program).arg(&dir);
                        life = self.life * 3;
                    }
                    Kind::DiskFull => {
                        let Some(disk) = Disk::mount(&self.scratch.join("disk"), 16 + random.below(100))
                        else {
                            break;
                        };
                        command.arg("record").arg(disk.0.join("faulty.tick"));
                        life = self.life * 3;
                        mounted = Some(disk);
                    }
                    _ => {
                        command.arg("record").arg(&dir);
                    }
                }
                let dir = mounted
                    .as_ref()
                    .map_or(dir.clone(), |disk| disk.0.join("faulty.tick"));
                let answered = Recording::start(&mut command)?.live(life, &mut random)?;
                let what = format!("{kind:?} {round} after {life:?}");
                let left = look(&dir);
                let opened = matches!(left, Ok(Left::Whole | Left::Part(_)));
                let lost = match (opened, answered.is_empty()) {
                    (true, _) => !inputs_kept(&dir, &answered)?,
                    // A guest that ran leaves a recording.
                    (false, nothing) => !nothing,
                };
                table.take(kind, &what, left);
                table.0.entry(kind).or_default().lost += usize::from(lost);
                drop(mounted);
                if self.scratch.join("faulty.tick").exists() {
                    fs::remove_dir_all(self.scratch.join("faulty.tick"))?;
                }
            }
        }
        Ok(())
    }

    /// Faults of the files of recordings, in turn.
    ///
    /// # Errors
    /// The host's.
    pub fn of_files(&self, recordings: &[Pristine], table: &mut Table) -> Result<()> {
        let mut random = Random(self.seed ^ 0xf11e);
        for kind in [Kind::Truncated, Kind::BitFlipped, Kind::Torn, Kind::Deleted] {
            for (round, pristine) in (0..self.count).zip(recordings.iter().cycle()) {
                let dir = self.scratch.join("damaged.tick");
                pristine.copy(&dir)?;
                let what = damage(&dir, kind, &mut random)?;
                let mut left = look(&dir);
                if matches!(left, Ok(Left::Whole | Left::Part(_)))
                    && let Err(error) = pristine.has(&dir)
                {
                    left = Err(error);
                }
                table.take(kind, &format!("{kind:?} {round}: {what}"), left);
                fs::remove_dir_all(&dir)?;
            }
        }
        Ok(())
    }
}

/// A small file system in memory, if the host lets us make one.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, kilobytes: u64) -> Option<Disk> {
        fs::create_dir_all(at).ok()?;
        let size = format!("size={}k", kilobytes.next_multiple_of(4));
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tickback-faults"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Disk(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If it stays mounted the next mount is over it.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
