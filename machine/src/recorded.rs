//! A recording that is complete, opened once, from which any number of replays start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icount::{Door, DoorError, Icount, LogReader, Replaying};
use snapshot::Checkpoints;

use crate::board::{self, Images};
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
        manifest.check_model()?;
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
        let first = self.checkpoints.at(Icount(0)).ok_or_else(|| {
            MachineError::Recording(format!(
                "{} has no snapshot of the power-on state; it can't be replayed",
                self.dir.display()
            ))
        })?;
        let first = self.checkpoints.load(first.at)?;
        let mut images = Images::new();
        let store = self.checkpoints.store().clone();
        first.tree.for_each::<MachineError>(|key, page| {
            if let Some(addr) = board::page_address(&self.manifest.config, key)? {
                images.push((addr, page.load(&store)?.to_vec()));
            }
            Ok(())
        })?;
        let door = around(Box::new(Replaying::new(Arc::clone(&self.log))));
        let mut machine = board::build(&self.manifest.config, images, door, engine)?;
        // The machine just built is the snapshot's: compare by content once.
        let begin = Snapshot {
            at: Icount(0),
            tree: first.tree,
            state: Arc::new(first.state),
        };
        machine.restore(&begin, &store)?;
        Ok(History::replaying(self, machine))
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
