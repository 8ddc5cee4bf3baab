//! A window of a recording as a recording of its own.
//!
//! The window is replayed and recorded on the way, by the doors of both: inputs come from the old log at their positions, effects are compared
//! with it, and all go into the new one. So a cut recording is what a recorder would have written that was switched on at its
//! beginning, and was verified by being made. Positions and the numbers of events are those of the run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use icount::{
    Body, Door, DoorError, Effect, End, Icount, Input, LogReader, LogWriter, Recording, Replaying,
    VirtualTime,
};
use snapshot::grid::Grid;
use snapshot::{Edit, Recorder, RecorderOptions, Replay, Taken};

use super::{Finished, History, HostTime, Retention, events_path, make_folder};
use crate::engine::Engine;
use crate::error::MachineError;
use crate::machine::{FirstStep, Stopped};
use crate::manifest::Manifest;
use crate::recorded::Recorded;
use crate::stops::Stops;

/// What is cut, and how it is stored.
pub struct CutOptions {
    /// The first position; 0 or one at which a step was made.
    pub from: Icount,
    /// The last one.
    pub to: Icount,
    /// When snapshots are taken after the first.
    pub grid: Grid,
    /// The recorder's figures.
    pub recorder: RecorderOptions,
    /// Host time.
    pub host_time: HostTime,
    /// For the manifest: what the recording was made from, and that it was cut.
    pub origin: BTreeMap<String, String>,
}

impl Recorded {
    /// Makes a recording of a window in the new folder `out`. `shown` is told how far it is, and says whether to go on.
    ///
    /// # Errors
    /// There is no such window; the replay departs from the recording; the folder can't be written.
    pub fn cut(
        &self,
        out: &Path,
        engine: Engine,
        options: CutOptions,
        mut shown: impl FnMut(Icount) -> bool,
    ) -> Result<Finished, MachineError> {
        let CutOptions { from, to, .. } = options;
        let (begin, (end, _, ended)) = (self.first()?.at, self.log().end());
        if from < begin || to > end || from >= to {
            return Err(MachineError::Recording(format!(
                "{} has steps {begin} to {end}: {from} to {to} is no part of them",
                self.dir().display()
            )));
        }
        let mut history = self.replay(engine)?;
        let anchor = history.anchor(from);
        history.restore_anchor(anchor)?;
        history.replay_shown(from, &mut shown)?;

        make_folder(out)?;
        let manifest = Manifest::new(self.manifest().config.clone(), options.origin);
        let recorder = RecorderOptions {
            parent: Some(self.checkpoints().store().clone()),
            ..options.recorder
        };
        let mut recorder = Recorder::create(out, recorder)?;
        let position = history.machine.door_position();
        let stand = (from, history.machine.time());
        let log = LogWriter::create_at(&events_path(out), manifest.config.ns_per_step, stand, position)
            .map_err(DoorError::from)?;
        manifest.write(out)?;
        // A guest that resets itself finds in memory what was there at power-on.
        let power_on = if from > Icount(0) && resets(self.log(), from, to)? {
            self.checkpoints().power_on()?
        } else {
            None
        };
        if let Some(checkpoint) = power_on {
            let mut pages: Vec<Edit> = Vec::new();
            checkpoint.tree.for_each::<MachineError>(|key, page| {
                pages.push((key, Some(Arc::clone(page))));
                Ok(())
            })?;
            recorder.take(Taken {
                at: Icount(0),
                time: VirtualTime(0),
                dirty: pages,
                state: checkpoint.state,
                log_position: checkpoint.log_position,
                keep: true,
            })?;
            recorder.drop_checkpoints(vec![Icount(0)])?;
        }
        let mut replaying = Replaying::new(Arc::clone(self.log()));
        replaying.seek(position)?;
        let replaying: Box<dyn Door + Send> = Box::new(replaying);
        let mut machine = history.machine;
        machine.set_spares(recorder.spares().clone());
        machine.set_door(Box::new(Recording::new(replaying, log)));
        let clock = (options.host_time, options.grid);
        let mut cut = History::live(out, manifest, machine, recorder, clock, Retention::default());
        cut.checkpoint(true)?;
        cut.record_to(to, &mut shown)?;
        let mut how = End::Stopped;
        if let Some(ended @ (End::PowerOff(_) | End::WaitsForever)) = ended
            && to == end
        {
            match cut.run_live(Icount(to.0 + 1), &Stops::default(), FirstStep::Counts)? {
                Stopped::End(found) if found == ended => how = found,
                other => return Err(cut.short(end, &other)),
            }
        }
        cut.finish(how)
    }
}

/// Whether the guest is reset in the window, or right behind it.
fn resets(log: &LogReader, from: Icount, to: Icount) -> Result<bool, MachineError> {
    for event in log.events_from(from).map_err(DoorError::from)? {
        let event = event.map_err(DoorError::from)?;
        if event.at > to {
            break;
        }
        if matches!(
            event.body,
            Body::Effect(Effect::Reset) | Body::Input(Input::Reset)
        ) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl History {
    fn replay_shown(
        &mut self,
        to: Icount,
        shown: &mut impl FnMut(Icount) -> bool,
    ) -> Result<(), MachineError> {
        while self.machine.icount() < to {
            let at = self.machine.icount();
            self.replay_to(to.min(at.saturating_add(super::STRETCH)))?;
            if !shown(self.machine.icount()) {
                return Err(MachineError::Interrupted);
            }
        }
        Ok(())
    }

    fn record_to(&mut self, to: Icount, shown: &mut impl FnMut(Icount) -> bool) -> Result<(), MachineError> {
        while self.machine.icount() < to {
            match self.run_live(to, &Stops::default(), FirstStep::Counts)? {
                Stopped::Reached => {}
                Stopped::Interrupted => return Err(MachineError::Interrupted),
                other => return Err(self.short(to, &other)),
            }
            if !shown(self.machine.icount()) {
                return Err(MachineError::Interrupted);
            }
        }
        Ok(())
    }

    fn short(&self, end: Icount, stopped: &Stopped) -> MachineError {
        MachineError::Short {
            at: self.machine.icount(),
            end,
            why: format!("{stopped:?}"),
        }
    }
}
