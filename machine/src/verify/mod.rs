//! Replaying a recording with everything compared: every event by the door, every state root here. At one go, in the
//! order of the run; or its segments between snapshots, several at a time ([`segments`]).

pub mod segments;

use icount::{End, Icount};
use snapshot::{Edit, Replay, Root, Tree};

use crate::error::MachineError;
use crate::history::{History, STRETCH};
use crate::machine::{FirstStep, Stopped};
use crate::stops::Stops;

/// What a whole replay came to, all of it equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Steps from the recording's beginning.
    pub steps: Icount,
    /// Events.
    pub events: u64,
    /// State roots.
    pub roots: u64,
    /// How the recording ended; `None` if it was cut off.
    pub end: Option<End>,
    /// What is damaged of its snapshots: those could not be compared.
    pub damage: Vec<String>,
}

impl History {
    /// Replays from the beginning to the end, comparing every event and root. `shown` is told of progress.
    ///
    /// # Errors
    /// A divergence, or damage.
    pub fn verify(&mut self, mut shown: impl FnMut(Icount)) -> Result<Verified, MachineError> {
        let begin = self.begin();
        self.restore_anchor(begin)?;
        let before = self.machine.door_position();
        let mut roots = snapshot::RootStream::new(Tree::new())?;
        let recorded: Vec<_> = self
            .checkpoints
            .list()
            .into_iter()
            .filter(|c| c.at >= begin && c.at <= self.end)
            .collect();
        let mut compared = 0;
        let mut expected = recorded.iter();
        let mut compare = |(at, root): (Icount, Root)| {
            let info = expected.next().filter(|c| c.at == at);
            match info {
                Some(info) if info.root == root => Ok(()),
                _ => Err(MachineError::Root { at }),
            }
        };
        for (i, checkpoint) in recorded.iter().enumerate() {
            while self.machine.icount() < checkpoint.at {
                let goal = checkpoint.at.min(self.machine.icount().saturating_add(STRETCH));
                self.replay_to(goal)?;
                shown(self.machine.icount());
            }
            let edits = if i == 0 {
                self.whole_tree()?
            } else {
                self.machine.take_edits_into_base()?
            };
            roots.feed(checkpoint.at, edits, self.machine.save_state()?)?;
            while let Some(root) = roots.poll() {
                compare(root?)?;
                compared += 1;
            }
        }
        while self.machine.icount() < self.end {
            self.replay_to(self.end.min(self.machine.icount().saturating_add(STRETCH)))?;
            shown(self.machine.icount());
        }
        for root in roots.finish()? {
            compare(root)?;
            compared += 1;
        }
        let end = self.check_end()?;
        let position = self.machine.door_position();
        Ok(Verified {
            steps: Icount(self.machine.icount().since(begin)),
            events: position.inputs + position.effects - before.inputs - before.effects,
            roots: compared,
            end,
            damage: self
                .checkpoints
                .damage()
                .iter()
                .map(ToString::to_string)
                .collect(),
        })
    }

    /// At the end of the recording: what is left in the log at the last boundary is the end itself.
    fn check_end(&mut self) -> Result<Option<End>, MachineError> {
        let (at, time) = (self.machine.icount(), self.machine.time());
        let end = self.log.as_ref().and_then(|log| log.end().2);
        if let Some(end @ (End::PowerOff(_) | End::WaitsForever)) = end {
            let stopped = self
                .machine
                .run(Icount(at.0 + 1), &Stops::default(), FirstStep::Counts)?;
            if stopped != Stopped::End(end) {
                return Err(MachineError::Short {
                    at,
                    end: self.end,
                    why: format!("{stopped:?}"),
                });
            }
        }
        self.machine.finish_replay(at, time, end)?;
        Ok(end)
    }

    pub(crate) fn replay_to(&mut self, goal: Icount) -> Result<(), MachineError> {
        match self.machine.run(goal, &Stops::default(), FirstStep::Counts)? {
            Stopped::Reached => Ok(()),
            Stopped::Interrupted => Err(MachineError::Interrupted),
            other => Err(MachineError::Short {
                at: self.machine.icount(),
                end: self.end,
                why: format!("{other:?}"),
            }),
        }
    }

    /// All pages of the machine as edits of an empty tree.
    fn whole_tree(&mut self) -> Result<Vec<Edit>, MachineError> {
        let tree = self.machine.save()?.tree;
        let mut edits = Vec::new();
        tree.for_each::<MachineError>(|key, page| {
            edits.push((key, Some(page.clone())));
            Ok(())
        })?;
        Ok(edits)
    }
}
