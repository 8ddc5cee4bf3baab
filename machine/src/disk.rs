//! What the guest has seen and made of its drives: one overlay of 4096-byte blocks a drive.
//!
//! A block enters the overlay when it is first read (its content comes through the door, once) or
//! written. So the content of every block that the guest knows is machine state, is in snapshots, and a
//! replay needs no image.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use devices::BLOCK_SIZE;

/// One block.
pub type Block = [u8; BLOCK_SIZE];

/// A drive as the machine's configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DriveConfig {
    /// Size in 512-byte sectors.
    pub sectors: u64,
    /// The guest can't write it.
    pub read_only: bool,
}

/// A changed block: drive and number, and its content if it is known.
pub type Dirty = ((u8, u64), Option<Arc<Block>>);

/// The drives.
pub struct Disks {
    drives: Vec<DriveConfig>,
    blocks: BTreeMap<(u8, u64), Arc<Block>>,
    dirty: BTreeSet<(u8, u64)>,
    /// Blocks written by the guest since the live door last took them (write-through).
    written: BTreeSet<(u8, u64)>,
}

impl Disks {
    /// Drives of which nothing was read yet.
    pub fn new(drives: Vec<DriveConfig>) -> Disks {
        Disks {
            drives,
            blocks: BTreeMap::new(),
            dirty: BTreeSet::new(),
            written: BTreeSet::new(),
        }
    }

    /// Whether there is such a block.
    pub fn exists(&self, drive: u8, block: u64) -> bool {
        self.drives
            .get(drive as usize)
            .is_some_and(|d| block < d.sectors.div_ceil(8))
    }

    /// Whether the guest can't write the drive.
    pub fn read_only(&self, drive: u8) -> bool {
        self.drives.get(drive as usize).is_none_or(|d| d.read_only)
    }

    /// The block, if the guest has read or written it.
    pub fn block(&self, drive: u8, block: u64) -> Option<&Block> {
        self.blocks.get(&(drive, block)).map(|b| &**b)
    }

    /// Keeps what was read from the image.
    pub fn keep(&mut self, drive: u8, block: u64, bytes: &Block) {
        self.blocks.insert((drive, block), Arc::new(*bytes));
        self.dirty.insert((drive, block));
    }

    /// A guest's write.
    pub fn write(&mut self, drive: u8, block: u64, bytes: &Block) {
        self.keep(drive, block, bytes);
        self.written.insert((drive, block));
    }

    /// Blocks written since the last call, in order.
    pub fn take_written(&mut self) -> Vec<(u8, u64)> {
        std::mem::take(&mut self.written).into_iter().collect()
    }

    /// Blocks that changed since the last call, in order, with their content.
    pub fn take_dirty(&mut self) -> Vec<Dirty> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty
            .into_iter()
            .map(|key| (key, self.blocks.get(&key).cloned()))
            .collect()
    }

    /// Blocks that changed since the last [`Disks::take_dirty`].
    pub fn dirty(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.dirty.iter().copied()
    }

    /// Which blocks are known: part of the machine's state beside their content, since an all-zero block
    /// has no page in a snapshot.
    pub fn known(&self) -> Vec<(u8, u64)> {
        self.blocks.keys().copied().collect()
    }

    /// Puts back a block of a snapshot (`None`: not known then).
    pub fn restore(&mut self, drive: u8, block: u64, bytes: Option<Arc<Block>>) {
        match bytes {
            Some(bytes) => self.blocks.insert((drive, block), bytes),
            None => self.blocks.remove(&(drive, block)),
        };
    }

    /// Forgets blocks that a snapshot doesn't know.
    pub fn retain(&mut self, known: &BTreeSet<(u8, u64)>) {
        self.blocks.retain(|key, _| known.contains(key));
        for key in known {
            self.blocks
                .entry(*key)
                .or_insert_with(|| Arc::new([0; BLOCK_SIZE]));
        }
    }

    /// After a restore, nothing differs from the snapshot.
    pub fn clear_dirty(&mut self) {
        self.dirty.clear();
        self.written.clear();
    }
}
