//! Some checkpoints of a recording as the checkpoints of another one, and what checkpoints take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use icount::Icount;

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::error::{Result, SnapshotError};
use crate::recorder::{Recorder, RecorderOptions, Taken};
use crate::tree::{Edit, Tree};

/// Writes the checkpoints at `keep` (ascending), and what was in memory at power-on, into the folder `dir`, which must have none.
/// Each comes to the root that it had.
///
/// # Errors
/// Something can't be read or written.
pub fn copy_checkpoints(
    from: &Checkpoints,
    keep: &[Icount],
    dir: &Path,
    options: RecorderOptions,
) -> Result<()> {
    let mut recorder = Recorder::create(
        dir,
        RecorderOptions {
            parent: Some(from.store().clone()),
            ..options
        },
    )?;
    let mut tree = Tree::new();
    let mut roots = Vec::new();
    if let Some(power_on) = from.power_on()?
        && !keep.contains(&Icount(0))
    {
        roots.push((power_on.info.at, power_on.info.root));
        take(&mut recorder, &mut tree, power_on)?;
        recorder.drop_checkpoints(vec![Icount(0)])?;
    }
    for at in keep {
        let checkpoint = from.load(*at)?;
        roots.push((*at, checkpoint.info.root));
        take(&mut recorder, &mut tree, checkpoint)?;
    }
    recorder.flush()?;
    for (at, root) in roots {
        if recorder.roots().try_recv() != Ok((at, root)) {
            return Err(SnapshotError::damaged(
                from.path(),
                0,
                format!(
                    "the snapshot at step {} doesn't come to its root when it is copied",
                    at.0
                ),
            ));
        }
    }
    recorder.finish().map(drop)
}

fn take(recorder: &mut Recorder, tree: &mut Tree, checkpoint: Checkpoint) -> Result<()> {
    let mut dirty: Vec<Edit> = Vec::new();
    tree.diff::<SnapshotError>(&checkpoint.tree, |key, _, page| {
        dirty.push((key, page.map(Arc::clone)));
        Ok(())
    })?;
    *tree = checkpoint.tree;
    recorder.take(Taken {
        at: checkpoint.info.at,
        time: checkpoint.info.time,
        dirty,
        state: checkpoint.state,
        log_position: checkpoint.log_position,
        keep: checkpoint.info.keep,
    })
}

/// What the pages of a recording's checkpoints take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Pages of all checkpoints together, each counted as often as it is in one; without all-zero ones.
    pub pages: u64,
    /// Different pages in the store.
    pub different: u64,
    /// Tree nodes in the store.
    pub nodes: u64,
    /// Bytes of these pages and nodes.
    pub raw_bytes: u64,
    /// Bytes of the packs.
    pub stored_bytes: u64,
}

impl Checkpoints {
    /// How much is shared between the checkpoints, and how well it is packed.
    ///
    /// # Errors
    /// A node of their trees, or a frame's head, can't be read.
    pub fn figures(&self) -> Result<Figures> {
        let mut figures = Figures {
            stored_bytes: self.store().bytes(),
            ..Figures::default()
        };
        let mut counted = BTreeMap::new();
        for info in self.list() {
            let tree = self.tree(info.tree);
            figures.pages += tree.top().map_or(Ok(0), |top| top.count(&mut counted))?;
        }
        (figures.different, figures.nodes, figures.raw_bytes) = self.store().totals()?;
        Ok(figures)
    }

    /// About how many bytes the checkpoints at `keep` take, with what was in memory at power-on.
    ///
    /// # Errors
    /// A node of their trees can't be read.
    pub fn bytes_of(&self, keep: &[Icount]) -> Result<u64> {
        let mut live = BTreeSet::new();
        for info in self.list().iter().filter(|info| keep.contains(&info.at)) {
            self.tree(info.tree).mark(&mut live)?;
        }
        if let Some(power_on) = self.power_on()? {
            power_on.tree.mark(&mut live)?;
        }
        Ok(self.store().bytes_of(&live)? + self.record_bytes(keep))
    }
}
