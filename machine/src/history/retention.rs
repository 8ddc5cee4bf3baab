//! What is thrown away of a run that is too long to keep: the machine as a flight recorder.
//!
//! What is kept is always the newest part, from a snapshot on. At each snapshot it is looked whether the past may go: first the
//! list of snapshots no longer has it (`snapshot`'s `retain`), then the files of the log that end before the first snapshot go.

use icount::{DoorError, Icount};

use super::{History, live_door};
use crate::error::MachineError;
use crate::recorded::log_position;

/// The newest part that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// At least so many steps (and up to a quarter more); all if `None`.
    pub steps: Option<u64>,
    /// At most so many bytes on disk; any if `None`.
    pub bytes: Option<u64>,
}

/// A log goes on in a new file when it has a part of this of what is kept.
const PARTS: u64 = 16;

impl Retention {
    /// Bytes of a pack: what is thrown away goes in whole ones.
    pub fn pack_bytes(&self) -> Option<u64> {
        let bytes = self
            .bytes
            .map_or(16 << 20, |bytes| (bytes / 32).clamp(64 << 10, 16 << 20));
        (*self != Self::default()).then_some(bytes)
    }
}

impl History {
    /// At a snapshot that was just taken: lets the log go on in a new file if it is time, and then lets go of what is past keeping.
    pub(super) fn rotate(&mut self) -> Result<(), MachineError> {
        let (at, time) = (self.machine.icount(), self.machine.time());
        let Some(live) = &mut self.live else { return Ok(()) };
        let Retention { steps, bytes } = live.retention;
        if live.retention == Retention::default() {
            return Ok(());
        }
        let log = live_door(&mut self.machine, &mut live.away)?.log_mut();
        let (rotated, part_bytes) = (log.last_rotation(), log.last_bytes());
        let due = steps.is_some_and(|steps| at.since(rotated) >= steps / PARTS)
            || bytes.is_some_and(|bytes| part_bytes >= bytes / PARTS / 2);
        if due && at > rotated {
            // If the disk has no room for a new file, the one there goes on.
            let _ = log.rotate(at, time);
        }
        self.retire()
    }

    /// At the end of the run: what is written behind is written, so that what was asked for holds.
    pub(super) fn retire_at_end(&mut self) -> Result<(), MachineError> {
        // The second time the log follows the list.
        for _ in 0..2 {
            match &self.live {
                Some(live) if live.retention != Retention::default() => live.recorder.flush()?,
                _ => return Ok(()),
            }
            self.retire()?;
        }
        Ok(())
    }

    /// Lets go of what is past keeping.
    fn retire(&mut self) -> Result<(), MachineError> {
        let at = self.machine.icount();
        let Some(live) = &mut self.live else { return Ok(()) };
        let Retention { steps, bytes } = live.retention;
        let log_bytes = live_door(&mut self.machine, &mut live.away)?.log().bytes();
        let list = self.checkpoints.list();
        let Some(first) = list.first().map(|c| c.at) else {
            return Ok(());
        };
        let mut from = first;
        if let Some(steps) = steps {
            let kept = list.iter().rev().find(|c| at.since(c.at) >= steps);
            let kept = kept.map_or(first, |c| c.at);
            // By and by, not at every snapshot.
            if kept.since(first) >= steps / PARTS * 2 || first == Icount(0) {
                from = kept;
            }
        }
        let mut squeeze = false;
        if let Some(bytes) = bytes {
            let now = self.checkpoints.bytes() + log_bytes;
            if now > bytes - bytes / 8 {
                let half = list.get(list.len() / 2).map_or(first, |c| c.at);
                (from, squeeze) = (from.max(half), true);
                if list.len() <= 2 && now > bytes && !live.limit_told {
                    live.limit_told = true;
                    self.machine.note(format!(
                        "one snapshot alone makes the recording {now} bytes large, and --max-size {bytes} can't be kept"
                    ));
                }
            }
        }
        if from > first || squeeze {
            live.recorder.retain(from, squeeze)?;
            if squeeze {
                // The limit holds before the guest goes on.
                live.recorder.flush()?;
            }
        }
        let first = self.checkpoints.at_or_above(Icount(0)).map(|c| c.at);
        if let Some(position) = first.and_then(|first| self.checkpoints.log_position(first)) {
            let position = log_position(&position)?;
            live_door(&mut self.machine, &mut live.away)?
                .log_mut()
                .forget_before(position)
                .map_err(DoorError::from)?;
        }
        Ok(())
    }
}
