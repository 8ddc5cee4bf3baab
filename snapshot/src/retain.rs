//! Throwing old snapshots away while new ones are taken, so that a recording of any length has a bounded size.
//!
//! ```text
//!   packs  | 3 | 4 | 5 | 6 |      what is still needed of 3, 4, 5 is appended to 6 and what follows;
//!            x   x   x            each is removed when `checkpoints` no longer needs it
//! ```
//!
//! Dropping a checkpoint takes it off the list. The blocks that only it had go when as much is garbage as is needed; so each block
//! written pays for at most one that is moved, and the disk holds at most about twice what is needed. The order holds at any moment
//! of a crash: moved blocks are on the disk before the new file of checkpoints takes the old one's place, and that before a pack is
//! removed.
//!
//! All of it is decided on the thread that forms frames, so that no new snapshot can name a block that is going.

use std::collections::BTreeSet;

use crossbeam_channel::bounded;
use icount::Icount;

use crate::error::{Result, SnapshotError};
use crate::pack::Group;
use crate::page::PageId;
use crate::recorder::{Hash, ToWrite};
use crate::store::Block;
use crate::tree::Tree;

impl Hash {
    /// See [`Recorder::retain`](crate::Recorder::retain).
    pub(crate) fn retain(&mut self, from: Icount, squeeze: bool) -> Result<()> {
        self.flush()?;
        let list = self.checkpoints.list();
        let last = list.last().map(|c| c.at);
        let gone: Vec<Icount> = list
            .iter()
            .map(|c| c.at)
            .filter(|at| *at < from && Some(*at) != last)
            .collect();
        if !gone.is_empty() {
            self.to_write
                .send(ToWrite::Drop(gone))
                .map_err(|_| SnapshotError::Stopped)?;
            self.flush()?;
        }
        let bytes = self.checkpoints.bytes();
        let slack = self.pack_bytes.saturating_mul(2);
        if !squeeze && bytes < self.needed.saturating_mul(2).saturating_add(slack) {
            return Ok(());
        }
        let live = self.live()?;
        let packs = self.store.packs();
        // The last one is being written.
        for pack in packs.iter().take(packs.len().saturating_sub(1)) {
            self.evacuate(*pack, &live)?;
            self.to_write
                .send(ToWrite::FirstPack(pack + 1))
                .map_err(|_| SnapshotError::Stopped)?;
        }
        self.flush()?;
        self.needed = self.checkpoints.bytes();
        Ok(())
    }

    /// Waits until all that was formed is written.
    fn flush(&self) -> Result<()> {
        let (done, wait) = bounded(1);
        self.to_write
            .send(ToWrite::Flush(done))
            .map_err(|_| SnapshotError::Stopped)?;
        // An answer that never comes means a failure, which was noted.
        let answered = wait.recv().is_ok();
        if answered && !self.has_failed() {
            Ok(())
        } else {
            Err(SnapshotError::Stopped)
        }
    }

    /// Every block that a listed checkpoint, or the memory at power-on, holds.
    fn live(&self) -> Result<BTreeSet<PageId>> {
        let mut live = BTreeSet::new();
        for checkpoint in self.checkpoints.list() {
            self.checkpoints.tree(checkpoint.tree).mark(&mut live)?;
        }
        if let Some(power_on) = self.checkpoints.power_on()? {
            power_on.tree.mark(&mut live)?;
        }
        Ok(live)
    }

    /// Appends what is needed of a pack to the packs again, and forgets the rest.
    fn evacuate(&self, pack: u32, live: &BTreeSet<PageId>) -> Result<()> {
        let (mut pages, mut nodes) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for (_, ids) in self.store.frames_of(pack)? {
            let (needed, dead): (Vec<PageId>, Vec<PageId>) =
                ids.into_iter().partition(|id| live.contains(id));
            self.store.forget(&dead);
            for id in needed {
                match self.store.block(id)? {
                    Block::Page(page) => {
                        pages.0.push(id);
                        pages.1.push(page);
                    }
                    Block::Node(node) => {
                        nodes.0.push(id);
                        nodes.1.push(node);
                    }
                }
                if pages.0.len() == self.group {
                    let (ids, pages) = std::mem::take(&mut pages);
                    self.move_frame(ids, Group::Pages(pages))?;
                }
                if nodes.0.len() == 64 {
                    let (ids, nodes) = std::mem::take(&mut nodes);
                    self.move_frame(ids, Group::Nodes(nodes))?;
                }
            }
        }
        if !pages.0.is_empty() {
            self.move_frame(pages.0, Group::Pages(pages.1))?;
        }
        if !nodes.0.is_empty() {
            self.move_frame(nodes.0, Group::Nodes(nodes.1))?;
        }
        Ok(())
    }
}

impl Tree {
    /// Adds the ids of all its nodes and pages.
    pub(crate) fn mark(&self, live: &mut BTreeSet<PageId>) -> Result<()> {
        match self.top() {
            Some(top) => top.mark(live),
            None => Ok(()),
        }
    }
}
