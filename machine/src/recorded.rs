//! A recording that is complete, opened once, from which any number of replays start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::{Door, DoorError, Icount, LogPosition, LogReader, Replaying};
use snapshot::{CheckpointInfo, Checkpoints, Tree};

use crate::board;
use crate::engine::Engine;
use crate::error::MachineError;
use crate::history::{History, events_path};
use crate::manifest::Manifest;
use crate::state::Snapshot;

/// The parts of a recording; they are shared by all who replay it.
#[derive(Clone)]
pub struct Recorded {
    dir: PathBuf,
    manifest: Manifest,
    log: Arc<LogReader>,
    checkpoints: Checkpoints,
}

impl Recorded {
    /// Opens a recording that this program's machine can replay.
    ///
    /// # Errors
    /// It is damaged, or of another version.
    pub fn open(dir: &Path) -> Result<Recorded, MachineError> {
        let manifest = Manifest::read(dir)?;
        manifest
            .check_model()
            .map_err(|error| MachineError::Recording(format!("{}: {error}", dir.display())))?;
        let log = Arc::new(LogReader::open(&events_path(dir)).map_err(DoorError::from)?);
        let checkpoints = Checkpoints::open(dir)?;
        Ok(Recorded {
            dir: dir.to_owned(),
            manifest,
            log,
            checkpoints,
        })
    }

    /// A machine at the beginning of the recording.
    ///
    /// # Errors
    /// There is no snapshot to start from, or the host has no memory for the machine.
    pub fn replay(&self, engine: Engine) -> Result<History, MachineError> {
        self.replay_with(engine, |door| door)
    }

    /// As [`Recorded::replay`], with a door put around the replaying one, to watch it.
    ///
    /// # Errors
    /// As [`Recorded::replay`].
    pub fn replay_with(
        &self,
        engine: Engine,
        around: impl FnOnce(Box<dyn Door + Send>) -> Box<dyn Door + Send>,
    ) -> Result<History, MachineError> {
        let first = self.first()?;
        let first = self.checkpoints.load(first.at)?;
        let store = self.checkpoints.store().clone();
        let images = self
            .power_on()?
            .map(|tree| board::images(&self.manifest.config, &tree, &store))
            .transpose()?;
        let door = around(Box::new(Replaying::new(Arc::clone(&self.log))));
        let mut machine = board::rebuild(&self.manifest.config, images, door, engine)?;
        // At power-on the machine just built is the snapshot's: compare by content once.
        let begin = Snapshot {
            at: first.info.at,
            tree: first.tree,
            state: Arc::new(first.state),
        };
        machine.restore(&begin, &store)?;
        let position = log_position(&first.log_position)?;
        machine.seek_door(position)?;
        Ok(History::replaying(self, machine))
    }

    /// The first snapshot from which the log goes on: where the recording begins.
    ///
    /// # Errors
    /// There is none.
    pub fn first(&self) -> Result<CheckpointInfo, MachineError> {
        let (begin, _) = self.log.begin();
        self.checkpoints.at_or_above(begin).ok_or_else(|| {
            let what = if begin == Icount(0) {
                "the power-on state".to_owned()
            } else {
                format!("icount {begin}, where its log begins, or later")
            };
            MachineError::Recording(format!(
                "{} has no snapshot of {what}; it can't be replayed",
                self.dir.display()
            ))
        })
    }

    /// What was in memory at power-on, if the recording has it.
    pub(crate) fn power_on(&self) -> Result<Option<Tree>, MachineError> {
        Ok(self.checkpoints.power_on()?.map(|checkpoint| checkpoint.tree))
    }

    /// The recording's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The log.
    pub fn log(&self) -> &Arc<LogReader> {
        &self.log
    }

    /// The snapshots.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }
}

/// Where the log stood at a snapshot.
pub(crate) fn log_position(bytes: &[u8]) -> Result<LogPosition, MachineError> {
    postcard::from_bytes(bytes).map_err(|e| MachineError::State(e.to_string()))
}
