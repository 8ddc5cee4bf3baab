//! A machine with its history: recording, replaying, and going back and forth between the two.
//!
//! ```text
//!   folder:  manifest.json   events   checkpoints   packs/
//!
//!   0 -------- history: replayed from `events` and `checkpoints` -------- end
//!                                                                          | at the live end: the
//!                                                                          v recording door, on and on
//! ```
//!
//! A [`History`] implements [`Replay`], so that a `Timeline` can search it. Of a live recording the end
//! grows; leaving the live end parks its state in memory, and coming back takes it up again, to the
//! step. A debugger's write in history starts a *branch*: a run without inputs, from which going back
//! before the write returns to the recording.

mod cut;
mod pauses;
mod retention;

pub use cut::CutOptions;
pub use pauses::{PauseFigures, PauseTimes};
pub use retention::Retention;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use icount::{
    Door, DoorError, End, Icount, LogPosition, LogReader, LogWriter, Recording, Replaying, VirtualTime,
};
use snapshot::grid::{Cost, Gathered, Grid};
use snapshot::{Checkpoints, PageSource, Ran, Recorder, RecorderOptions, Replay, Root, Scan, Taken};

use self::pauses::Pauses;
use crate::board::{self, Images};
use crate::config::Config;
use crate::doors::{Gated, Severed};
use crate::engine::Engine;
use crate::error::MachineError;
use crate::machine::{FirstStep, Machine, Stopped};
use crate::manifest::Manifest;
use crate::recorded::{Recorded, log_position};
use crate::state::{DRIVES, Snapshot};
use crate::stops::{Stop, Stops};

/// Steps between looks at the host's clock while recording.
pub(crate) const STRETCH: u64 = 1 << 24;

/// The parts of a recording's folder.
pub fn events_path(dir: &Path) -> PathBuf {
    dir.join("events")
}

/// Makes the folder of a recording, for the user alone.
fn make_folder(dir: &Path) -> Result<(), MachineError> {
    DirBuilder::new().mode(0o700).create(dir).map_err(|source| {
        if source.kind() == std::io::ErrorKind::AlreadyExists {
            let text = format!(
                "{} exists; recordings are never overwritten: choose another name",
                dir.display()
            );
            MachineError::Recording(text)
        } else {
            MachineError::File {
                path: dir.to_owned(),
                source,
            }
        }
    })
}

/// What a page of a snapshot costs the guest behind, about, in ns: the first store to it takes the slow path, and may
/// have to copy it; and the threads behind have a share of the host's caches and memory, which they use for ten times as long.
const PAGE_NS: u64 = 1000;

/// Clocks of the host, in ns from any origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HostNow {
    /// Time that passes.
    pub wall: u64,
    /// Time that the calling thread has run: what a snapshot cost the guest, however busy the host is.
    pub cpu: u64,
}

/// The host's clocks: handed in, since nothing here may read one.
pub type HostTime = Box<dyn FnMut() -> HostNow + Send>;

/// The door of a live recording. The machine has it, or while that is elsewhere, the history.
type LiveDoor = Recording<Box<dyn Door + Send>>;

/// A state in memory, with the log's position.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The machine.
    pub snapshot: Snapshot,
    /// Where the log stands.
    pub position: LogPosition,
}

/// The door of a live recording, wherever it is.
fn live_door<'a>(
    machine: &'a mut Machine,
    away: &'a mut Option<Box<dyn Door + Send>>,
) -> Result<&'a mut LiveDoor, MachineError> {
    let door: &mut dyn Any = match away {
        Some(door) => &mut **door,
        None => machine.door_mut(),
    };
    door.downcast_mut()
        .ok_or_else(|| MachineError::Recording("the machine has lost its recording door".into()))
}

/// What only a live recording has.
struct Live {
    /// The door, while the machine is elsewhere.
    away: Option<Box<dyn Door + Send>>,
    recorder: Recorder,
    grid: Grid,
    /// The state at the live end, while the machine is elsewhere.
    parked: Option<Saved>,
    host_time: HostTime,
    last_tick: u64,
    /// And what the thread had run.
    last_snapshot: (Icount, u64),
    /// Bytes that the recorder had written then.
    stored: u64,
    pauses: Pauses,
    retention: Retention,
    /// Whether the user was told that the limit can't be kept.
    limit_told: bool,
}

/// What to record, beside the machine.
pub struct RecordOptions {
    /// When snapshots are taken.
    pub grid: Grid,
    /// The recorder's figures.
    pub recorder: RecorderOptions,
    /// Host time.
    pub host_time: HostTime,
    /// What the user gave, for the manifest.
    pub origin: BTreeMap<String, String>,
    /// Wait for the disk at each input (power cuts).
    pub fsync: bool,
    /// What is thrown away of a long run.
    pub retention: Retention,
}

/// See the module's documentation.
pub struct History {
    dir: PathBuf,
    manifest: Manifest,
    pub(crate) machine: Machine,
    live: Option<Live>,
    /// Whether the machine stands at the live end, with the recording door.
    at_live: bool,
    pub(crate) log: Option<Arc<LogReader>>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) end: Icount,
    /// The state after a debugger's write in history, while the machine is on that branch.
    branch: Option<Saved>,
}

impl History {
    /// Starts a recording in a new folder.
    ///
    /// # Errors
    /// The folder exists or can't be made; the configuration is unusable.
    pub fn record(
        dir: &Path,
        config: &Config,
        images: Images,
        live: Box<dyn Door + Send>,
        engine: Engine,
        options: RecordOptions,
    ) -> Result<History, MachineError> {
        config.check()?;
        make_folder(dir)?;
        let manifest = Manifest::new(config.clone(), options.origin);
        let mut log = LogWriter::create(&events_path(dir), config.ns_per_step).map_err(DoorError::from)?;
        log.sync_always(options.fsync);
        let recorder = Recorder::create(dir, options.recorder)?;
        manifest.write(dir)?;
        // Nothing may be seen of a run before it could be replayed: a process killed early leaves a recording too.
        let live: Box<dyn Door + Send> = Box::new(Gated::new(live, recorder.written().clone()));
        let door: LiveDoor = Recording::new(live, log);
        let mut machine = board::build(config, images, Box::new(door), engine)?;
        machine.set_spares(recorder.spares().clone());
        machine.recorded_from_power_on(recorder.written());
        let clock = (options.host_time, options.grid);
        let mut history = History::live(dir, manifest, machine, recorder, clock, options.retention);
        history.checkpoint(true)?;
        Ok(history)
    }

    /// A machine, wherever it stands, that is recorded from now on: it has the door.
    fn live(
        dir: &Path,
        manifest: Manifest,
        machine: Machine,
        recorder: Recorder,
        (mut host_time, grid): (HostTime, Grid),
        retention: Retention,
    ) -> History {
        let now = host_time();
        let at = machine.icount();
        let checkpoints = recorder.checkpoints().clone();
        let live = Live {
            away: None,
            recorder,
            grid,
            parked: None,
            host_time,
            last_tick: now.wall,
            last_snapshot: (at, now.cpu),
            stored: 0,
            pauses: Pauses::default(),
            retention,
            limit_told: false,
        };
        History {
            dir: dir.to_owned(),
            manifest,
            machine,
            live: Some(live),
            at_live: true,
            log: None,
            checkpoints,
            end: at,
            branch: None,
        }
    }

    /// Opens a recording at its beginning, to be replayed.
    ///
    /// # Errors
    /// It is damaged, of another version, or has no snapshot to start from.
    pub fn open(dir: &Path, engine: Engine) -> Result<History, MachineError> {
        Recorded::open(dir)?.replay(engine)
    }

    /// As [`History::open`], with a door put around the replaying one, to watch it.
    ///
    /// # Errors
    /// As [`History::open`].
    pub fn open_with(
        dir: &Path,
        engine: Engine,
        around: impl FnOnce(Box<dyn Door + Send>) -> Box<dyn Door + Send>,
    ) -> Result<History, MachineError> {
        Recorded::open(dir)?.replay_with(engine, around)
    }

    /// The history of a recording that is complete; the machine stands at its beginning.
    pub(crate) fn replaying(recorded: &Recorded, machine: Machine) -> History {
        History {
            dir: recorded.dir().to_owned(),
            manifest: recorded.manifest().clone(),
            machine,
            live: None,
            at_live: false,
            log: Some(Arc::clone(recorded.log())),
            checkpoints: recorded.checkpoints().clone(),
            end: recorded.log().end().0,
            branch: None,
        }
    }

    /// The recording's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine, to be looked at by a debugger (translations need `&mut`).
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// The snapshots on disk.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The log, for reading; of a live recording, as far as it was flushed.
    ///
    /// # Errors
    /// The log can't be flushed or read.
    pub fn log(&mut self) -> Result<Arc<LogReader>, MachineError> {
        if self.live.is_some() {
            self.refresh()?;
        }
        self.log
            .clone()
            .ok_or_else(|| MachineError::Recording("there is no log".into()))
    }

    fn refresh(&mut self) -> Result<(), MachineError> {
        if let Some(live) = &mut self.live {
            live_door(&mut self.machine, &mut live.away)?.flush()?;
            self.log = Some(Arc::new(
                LogReader::open(&events_path(&self.dir)).map_err(DoorError::from)?,
            ));
        }
        Ok(())
    }

    /// Whether this is a live recording (whose end grows).
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Where the machine left the recording by a debugger's write, if it is on a branch.
    pub fn branched_at(&self) -> Option<Icount> {
        self.branch.as_ref().map(|b| b.snapshot.at)
    }

    /// Takes a snapshot to disk here, at the live end.
    ///
    /// # Errors
    /// The recorder failed (a full disk).
    pub fn checkpoint(&mut self, keep: bool) -> Result<(), MachineError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let start = (live.host_time)();
        let state = self.machine.save_state()?;
        let pages = self.machine.changed_pages();
        let (dirty, behind) = self.machine.changes_since(live.recorder.written())?;
        let (at, time) = (self.machine.icount(), self.machine.time());
        let position = live_door(&mut self.machine, &mut live.away)?.position();
        let log_position = postcard::to_stdvec(&position).map_err(|e| MachineError::State(e.to_string()))?;
        let taken = Taken {
            at,
            time,
            dirty,
            state,
            log_position,
            keep,
        };
        live.recorder.take_behind(taken, behind)?;
        let now = (live.host_time)();
        let (last, then) = live.last_snapshot;
        live.last_snapshot = (at, now.cpu);
        // Those to be kept are taken when it isn't running.
        if !keep {
            live.pauses.add(start, now);
        }
        if at > last {
            let stored = live.recorder.written().bytes();
            let run_ns = start.cpu.saturating_sub(then);
            live.grid.observe(Cost {
                at,
                steps: at.0 - last.0,
                gathered: Gathered { run_ns, pages },
                snapshot_ns: now.cpu.saturating_sub(start.cpu) + pages * PAGE_NS,
                bytes: stored - live.stored,
            });
            live.stored = stored;
        }
        self.rotate()
    }

    /// Runs on at the live end. Returns also at least once a second or so of host time with `Reached`
    /// short of `until`, so that the caller can look around.
    ///
    /// # Errors
    /// The door's (the guest is paused and can go on once the cause is gone), or the recorder's.
    pub fn run_live(
        &mut self,
        until: Icount,
        stops: &Stops,
        first: FirstStep,
    ) -> Result<Stopped, MachineError> {
        self.go_live()?;
        let at = self.machine.icount();
        let Some(live) = &self.live else {
            return Err(MachineError::Recording("this recording is complete".into()));
        };
        let next = live.grid.next_after(at);
        let goal = until.min(next).min(at.saturating_add(STRETCH));
        let stopped = self.machine.run(goal, stops, first)?;
        let (at, time) = (self.machine.icount(), self.machine.time());
        self.end = self.end.max(at);
        let mut due = false;
        if let Some(live) = &mut self.live {
            let now = (live.host_time)();
            if stopped == Stopped::Reached && at == next {
                due = live.grid.due(Gathered {
                    run_ns: now.cpu.saturating_sub(live.last_snapshot.1),
                    pages: self.machine.changed_pages(),
                });
            }
            let tick = now.wall.saturating_sub(live.last_tick) >= 500_000_000;
            if tick {
                live.last_tick = now.wall;
            }
            live_door(&mut self.machine, &mut live.away)?.progress(at, time, tick)?;
        }
        if due {
            self.checkpoint(false)?;
        }
        Ok(stopped)
    }

    /// Ends a live recording: a last snapshot, the end frame, everything on disk. Yields the number of snapshots.
    ///
    /// # Errors
    /// Something can't be written; what was written before stays.
    pub fn finish(mut self, end: End) -> Result<Finished, MachineError> {
        self.go_live()?;
        let (at, time) = (self.machine.icount(), self.machine.time());
        // A snapshot is of the observe point; a run that ends while it idles, or behind a write, is past it.
        let observed = !self.machine.past_observe_point();
        // What the disk has no room for keeps the log from being closed no more than it must.
        let mut last = Ok(());
        if observed && self.checkpoints.list().last().is_none_or(|c| c.at < at) {
            last = self.checkpoint(true);
        }
        let last = last.and_then(|()| self.retire_at_end());
        let Some(mut live) = self.live else {
            return Err(MachineError::Recording("this recording is complete".into()));
        };
        let door = live_door(&mut self.machine, &mut live.away)?;
        let position = door.position();
        let pauses = live.pauses.figures();
        let finished = door.finish(at, time, end);
        let checkpoints = live.recorder.finish();
        last?;
        finished?;
        let checkpoints = checkpoints?;
        Ok(Finished {
            at,
            time,
            position,
            roots: checkpoints.len() as u64,
            pauses,
        })
    }

    /// Goes to the live end, if this is a live recording.
    ///
    /// # Errors
    /// The parked state can't be restored (our bug).
    pub fn go_live(&mut self) -> Result<(), MachineError> {
        if self.at_live {
            return Ok(());
        }
        if let Some(live) = &mut self.live
            && let Some(parked) = live.parked.take()
        {
            self.branch = None;
            self.machine.restore(&parked.snapshot, self.checkpoints.store())?;
            if let Some(door) = live.away.take() {
                self.machine.set_door(door);
            }
            self.at_live = true;
        }
        Ok(())
    }

    /// Leaves the live end, or a branch, for the recorded history; the machine's state is then to be restored.
    fn go_back(&mut self) -> Result<(), MachineError> {
        let from_live = self.at_live;
        if from_live {
            let saved = self.save()?;
            self.refresh()?;
            if let Some(live) = &mut self.live {
                live.recorder.flush()?;
                live.parked = Some(saved);
            }
            self.at_live = false;
        } else if self.branch.is_none() {
            return Ok(());
        }
        self.branch = None;
        if let Some(log) = &self.log {
            let door = self
                .machine
                .replace_door(Box::new(Replaying::new(Arc::clone(log))));
            if let Some(live) = self.live.as_mut().filter(|_| from_live) {
                live.away = Some(door);
            }
        }
        Ok(())
    }

    /// A debugger's write. On a live end it is an input; in history the machine branches here: returns the
    /// position at which it did, the first time.
    ///
    /// # Errors
    /// The write's own.
    pub fn write(
        &mut self,
        write: impl FnOnce(&mut Machine) -> Result<(), MachineError>,
    ) -> Result<Option<Icount>, MachineError> {
        if self.at_live {
            write(&mut self.machine)?;
            return Ok(None);
        }
        let fresh = self.branch.is_none();
        self.machine.set_door(Box::new(Severed(self.log.clone())));
        write(&mut self.machine)?;
        self.branch = Some(self.save()?);
        Ok(fresh.then(|| self.machine.icount()))
    }

    /// The state root here.
    ///
    /// # Errors
    /// Reading a page of the recording failed.
    pub fn root(&mut self) -> Result<Root, MachineError> {
        self.machine.root()
    }
}

/// What a finished recording came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its end.
    pub at: Icount,
    /// Its end.
    pub time: VirtualTime,
    /// Numbers of inputs and effects.
    pub position: LogPosition,
    /// Number of snapshots.
    pub roots: u64,
    /// What those took from the guest that were taken while it ran.
    pub pauses: Option<PauseFigures>,
}

impl Replay for History {
    type Saved = Saved;
    type Stop = Stop;
    type Stops = Stops;
    type Error = MachineError;

    fn position(&self) -> Icount {
        self.machine.icount()
    }

    fn begin(&self) -> Icount {
        let log = self.log.as_ref().map_or(Icount(0), |log| log.begin().0);
        self.checkpoints.at_or_above(log).map_or(Icount(0), |c| c.at)
    }

    fn end(&self) -> Icount {
        if self.branch.is_some() {
            Icount(u64::MAX)
        } else {
            self.end
        }
    }

    fn save(&mut self) -> Result<Saved, MachineError> {
        Ok(Saved {
            snapshot: self.machine.save()?,
            position: self.machine.door_position(),
        })
    }

    fn saved_size(saved: &Saved) -> usize {
        // Pages are shared with neighbours; what a rung adds is about its stretch's writes.
        saved.snapshot.state.len() + (256 << 10)
    }

    fn restore(&mut self, saved: &Saved) -> Result<(), MachineError> {
        let on_branch = self
            .branch
            .as_ref()
            .is_some_and(|b| saved.snapshot.at >= b.snapshot.at);
        if !on_branch {
            self.go_back()?;
        }
        self.machine.restore(&saved.snapshot, self.checkpoints.store())?;
        if !on_branch {
            self.machine.seek_door(saved.position)?;
        }
        Ok(())
    }

    fn anchor(&self, at: Icount) -> Icount {
        if let Some(branch) = &self.branch
            && at >= branch.snapshot.at
        {
            return branch.snapshot.at;
        }
        let begin = self.begin();
        self.checkpoints
            .at_or_below(at)
            .map_or(begin, |c| c.at.max(begin))
    }

    fn restore_anchor(&mut self, at: Icount) -> Result<(), MachineError> {
        if let Some(branch) = self.branch.clone()
            && at == branch.snapshot.at
        {
            return self.machine.restore(&branch.snapshot, self.checkpoints.store());
        }
        self.go_back()?;
        let checkpoint = self.checkpoints.load(at)?;
        let position = log_position(&checkpoint.log_position)?;
        let snapshot = Snapshot {
            at,
            tree: checkpoint.tree,
            state: Arc::new(checkpoint.state),
        };
        let store: &dyn PageSource = self.checkpoints.store();
        self.machine.restore(&snapshot, store)?;
        self.machine.seek_door(position)
    }

    fn run(&mut self, until: Icount, stops: &Stops, first: FirstStep) -> Result<Ran<Stop>, MachineError> {
        let start = self.machine.icount();
        let first_at = |at: Icount| if at == start { first } else { FirstStep::Counts };
        let goal = if self.branch.is_some() || self.at_live {
            until
        } else {
            until.min(self.end)
        };
        if !self.at_live && start < goal {
            // A hit may have to be gone back to: see `settle`.
            let before = if *stops == Stops::default() {
                None
            } else {
                Some(self.save()?)
            };
            match self.machine.run(goal, stops, first)? {
                Stopped::Reached => {}
                Stopped::End(_) => return Ok(Ran::End),
                Stopped::Interrupted => return Ok(Ran::Interrupted),
                Stopped::Hit(stop) => {
                    self.settle(before)?;
                    return Ok(Ran::Hit(stop));
                }
            }
        }
        if self.machine.icount() >= until {
            return Ok(Ran::Reached);
        }
        if self.live.is_none() || self.branch.is_some() {
            return Ok(Ran::End);
        }
        self.go_live()?;
        while self.machine.icount() < until {
            match self.run_live(until, stops, first_at(self.machine.icount()))? {
                Stopped::Reached => {}
                Stopped::Hit(stop) => return Ok(Ran::Hit(stop)),
                Stopped::End(_) => return Ok(Ran::End),
                Stopped::Interrupted => return Ok(Ran::Interrupted),
            }
        }
        Ok(Ran::Reached)
    }

    fn scan(&mut self, until: Icount, stops: &Stops) -> Result<Scan<Stop>, MachineError> {
        let goal = if self.branch.is_some() {
            until
        } else {
            until.min(self.end)
        };
        let found = self.machine.scan(goal, stops)?;
        if found.stopped == Stopped::Interrupted {
            return Ok(Scan::Interrupted);
        }
        Ok(Scan::Done {
            last: found.last.filter(|(at, _)| *at < until),
            count: found.count,
        })
    }

    fn interrupted(&mut self) -> bool {
        self.machine.interrupt_flag().swap(false, Ordering::Relaxed)
    }
}

impl History {
    /// After a hit in history: if deadlines or inputs of this very boundary were served before it was found,
    /// go back to the observe point, which is what a position means.
    fn settle(&mut self, before: Option<Saved>) -> Result<(), MachineError> {
        if !self.machine.past_observe_point() {
            return Ok(());
        }
        let at = self.machine.icount();
        let anchor = self.anchor(at);
        match before.filter(|saved| saved.snapshot.at >= anchor) {
            Some(saved) => self.restore(&saved)?,
            None => self.restore_anchor(anchor)?,
        }
        if self.machine.icount() < at {
            self.replay_to(at)?;
        }
        Ok(())
    }

    /// The key of a drive's block in the page tree.
    pub fn is_drive_key(key: u64) -> bool {
        key & DRIVES != 0
    }
}
