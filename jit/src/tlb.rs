//! What translated code probes inline: the data TLB of an address space, and the jump cache of a code
//! space (`jumps.rs`). Both are caches of translations that must be invisible (DESIGN law 5): whoever owns them drops an
//! entry when a page table behind it changes, and takes back the right to write when a page gets a guard.
//!
//! ```text
//!   data access:  ea -> index = (ea >> 12) mod TLB_ENTRIES -> Entry { read, write, addend, frame }
//!                 hit if (ea + size - 1) | 0xfff == tag; host address = ea + addend
//! ```
//!
//! An access that crosses its page misses by construction: the index is that of its first byte, the tag
//! that of its last. A zero tag never matches (tags end in 0xfff), so that fresh memory is an empty TLB.

use cpu::{RegFile, SpaceKey};

pub use crate::jumps::{CodeSpace, JUMP_BITS, JUMP_ENTRIES, JUMP_FOLD, Jump, JumpTable, set_jumps};
use crate::{words, zeroed};

/// log2 of the number of entries of a data TLB: they cover 128 MiB.
pub const TLB_BITS: u32 = 15;
/// Entries of a data TLB.
pub const TLB_ENTRIES: usize = 1 << TLB_BITS;
/// Entries of a data TLB that a table of 512 page entries fills.
const GROUP: usize = 512;

/// Where a data TLB is. It stays valid as long as the [`Lru`] that holds the space: spaces are refilled,
/// never freed.
#[derive(Clone, Copy, Debug)]
pub struct DataTable(pub *const Entry);

/// Makes `space` the data TLB of translated code that runs with these slots, from the next access on: also
/// inside a callback. It must live as long as such code may run.
pub fn set_data(regs: &mut RegFile, space: &Space) {
    regs.words_mut()[words::TLB] = space.as_ptr() as u64;
}

/// One page's data translation. The layout is known to translated code.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// `va | 0xfff` if reads may take the fast path, else 0.
    pub read: u64,
    /// `va | 0xfff` if writes may, else 0. Never without the right to read.
    pub write: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// Index of the RAM page, and [`WRITABLE`].
    frame: u64,
}

/// In [`Entry::frame`]: the tables permit writing, whether or not it is granted now.
const WRITABLE: u64 = 1 << 63;

impl Entry {
    /// Index of the RAM page.
    pub const fn page(&self) -> u64 {
        self.frame & !WRITABLE
    }

    /// Whether a write needs no walk: granting it is up to the page's guards alone.
    pub const fn writable(&self) -> bool {
        self.write != 0 || self.frame & WRITABLE != 0
    }
}

/// The tag of the page of `va`.
pub const fn tag(va: u64) -> u64 {
    va | 0xfff
}

/// The data translations of one address space.
pub struct Space {
    key: SpaceKey,
    entries: Box<[Entry]>,
    /// Indices to which writing was granted since the last [`Space::revoke_writes`]; may repeat.
    granted: Vec<u16>,
    /// Of each group of [`GROUP`] entries, which may be in use; may repeat. What one leaf table covers falls
    /// into one group, so that dropping it costs no more than what it filled.
    filled: Box<[Vec<u16>]>,
    /// Whether anything was ever filled since the last clear.
    used: bool,
    /// In a space that several roots share: the root that lower addresses are translated by, and the indices that they
    /// may have filled.
    low_root: u64,
    low: Vec<u16>,
}

impl Space {
    /// An empty space.
    pub fn new(key: SpaceKey) -> Space {
        Space {
            key,
            entries: zeroed::entries(TLB_ENTRIES),
            granted: Vec::new(),
            filled: vec![Vec::new(); TLB_ENTRIES / GROUP].into_boxed_slice(),
            used: false,
            low_root: 0,
            low: Vec::new(),
        }
    }

    /// What its translations depend on.
    pub fn key(&self) -> SpaceKey {
        self.key
    }

    /// The table that translated code probes; it doesn't move while the space lives.
    pub fn as_ptr(&self) -> *const Entry {
        self.entries.as_ptr()
    }

    /// The table for an engine that runs while nothing selects, fills or drops through this reference.
    pub fn table(&self) -> DataTable {
        DataTable(self.as_ptr())
    }

    /// The index at which `va` is cached.
    pub const fn index(va: u64) -> usize {
        (va >> 12) as usize & (TLB_ENTRIES - 1)
    }

    /// The entry of `va`, if its page is cached (for reading, writing or both).
    pub fn lookup(&self, va: u64) -> Option<&Entry> {
        let entry = &self.entries[Self::index(va)];
        (entry.read == tag(va) || entry.write == tag(va)).then_some(entry)
    }

    /// Caches a translation of the page of `va`. Keeps the other right if the entry is of the same page.
    pub fn fill(&mut self, va: u64, host: u64, page: u64, read: bool, write: bool) {
        let index = Self::index(va);
        let entry = &mut self.entries[index];
        let base = va & !0xfff;
        let same = (entry.read == tag(va) || entry.write == tag(va)) && entry.page() == page;
        if !same {
            if (entry.read, entry.write) == (0, 0) {
                let filled = &mut self.filled[index / GROUP];
                if filled.len() == 2 * GROUP {
                    // Entries emptied one by one and filled again repeat in the list: all may be in use.
                    let first = (index / GROUP * GROUP) as u16;
                    *filled = (first..first + GROUP as u16).collect();
                }
                filled.push(index as u16);
            }
            *entry = Entry {
                read: 0,
                write: 0,
                addend: host.wrapping_sub(base),
                frame: page,
            };
        }
        if va >> 63 == 0 && self.key.modifiers & SHARED != 0 {
            self.low.push(index as u16);
        }
        if read {
            entry.read = tag(va);
        }
        // Whoever may write may read: code that does both asks for the right to write alone.
        if write && entry.read == tag(va) {
            entry.write = tag(va);
            self.granted.push(index as u16);
        }
        self.used = true;
    }

    /// Notes that the tables permit writing the page of `va`, which is cached: [`Space::grant`] can then do
    /// without a walk for as long as the entry stands.
    pub fn set_writable(&mut self, va: u64) {
        self.entries[Self::index(va)].frame |= WRITABLE;
    }

    /// Lets writes to the page of `va` take the fast path. It is cached, and writable.
    pub fn grant(&mut self, va: u64) {
        let index = Self::index(va);
        if self.entries[index].read == tag(va) {
            self.entries[index].write = tag(va);
            self.granted.push(index as u16);
        }
    }

    /// Takes back the right to write `page` through the entry at `index`.
    pub fn revoke_write(&mut self, index: usize, page: u64) {
        let entry = &mut self.entries[index];
        if entry.page() == page {
            entry.write = 0;
        }
    }

    /// Takes back both rights to `page` wherever it is cached (a watchpoint wants to see reads too).
    pub fn drop_physical(&mut self, page: u64) {
        for index in self.filled.iter().flatten() {
            let entry = &mut self.entries[*index as usize];
            if entry.page() == page {
                (entry.read, entry.write) = (0, 0);
            }
        }
    }

    /// In a space that several roots share: lower addresses are translated by `root` from now on. Yields how many
    /// translations were dropped.
    pub fn set_low_root(&mut self, root: u64) -> usize {
        if self.low_root == root {
            return 0;
        }
        self.low_root = root;
        let count = self.low.len();
        for index in self.low.drain(..) {
            let entry = &mut self.entries[usize::from(index)];
            if (entry.read | entry.write) >> 63 == 0 {
                (entry.read, entry.write) = (0, 0);
            }
        }
        count
    }

    /// Takes back every right to write.
    pub fn revoke_writes(&mut self) {
        for index in self.granted.drain(..) {
            self.entries[index as usize].write = 0;
        }
    }

    /// Drops what is cached of `len` bytes from `start` (a whole number of pages).
    pub fn clear_range(&mut self, start: u64, len: u64) {
        if !self.used {
            return;
        }
        let first = Self::index(start) / GROUP;
        let groups = (Self::index(start) % GROUP + (len >> 12) as usize)
            .div_ceil(GROUP)
            .min(self.filled.len());
        let entries = &mut self.entries;
        for i in 0..groups {
            let group = (first + i) % self.filled.len();
            self.filled[group].retain(|index| {
                let entry = &mut entries[*index as usize];
                let within = |t: u64| t != 0 && (t & !0xfff).wrapping_sub(start) < len;
                if within(entry.read) || within(entry.write) {
                    (entry.read, entry.write) = (0, 0);
                }
                (entry.read, entry.write) != (0, 0)
            });
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        if self.used {
            for filled in &mut self.filled {
                for index in filled.drain(..) {
                    self.entries[index as usize] = Entry::default();
                }
            }
            self.granted.clear();
            self.low.clear();
            self.used = false;
        }
    }

    fn reset(&mut self, key: SpaceKey) {
        self.clear();
        self.key = key;
        self.low_root = 0;
    }
}

/// In [`SpaceKey::modifiers`] of a space: it is shared by all roots with the same upper half, and `root` is their class.
pub const SHARED: u64 = 1 << 63;

/// What [`Lru`] keeps.
pub trait Keyed {
    /// The key.
    type Key: Copy + PartialEq;
    /// Spreads keys over the hints of an [`Lru`].
    fn hint(key: &Self::Key) -> usize;
    /// Key of this item.
    fn key(&self) -> Self::Key;
    /// Becomes an empty item with another key.
    fn rekey(&mut self, key: Self::Key);
}

fn spread(key: &SpaceKey) -> u64 {
    (key.root ^ key.modifiers.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Keyed for Space {
    type Key = SpaceKey;
    fn hint(key: &SpaceKey) -> usize {
        (spread(key) >> 48) as usize
    }
    fn key(&self) -> SpaceKey {
        self.key
    }
    fn rekey(&mut self, key: SpaceKey) {
        self.reset(key);
    }
}

impl Keyed for CodeSpace {
    type Key = (SpaceKey, u64);
    fn hint((key, mode): &(SpaceKey, u64)) -> usize {
        ((spread(key) ^ mode.wrapping_mul(0xff51_afd7_ed55_8ccd)) >> 48) as usize
    }
    fn key(&self) -> (SpaceKey, u64) {
        CodeSpace::key(self)
    }
    fn rekey(&mut self, key: (SpaceKey, u64)) {
        self.reset(key);
    }
}

/// A bounded collection of spaces: the least recently selected one gives way.
pub struct Lru<T: Keyed> {
    items: Vec<(T, u64)>,
    bound: usize,
    time: u64,
    /// Where a key was found last.
    hints: Box<[u8; HINTS]>,
    replaced: u64,
}

/// Hints of an [`Lru`].
const HINTS: usize = 256;

impl<T: Keyed> Lru<T> {
    /// Empty, for at most `bound` items.
    pub fn new(bound: usize) -> Lru<T> {
        assert!(bound <= 256, "ids are a byte in the hints");
        Lru {
            items: Vec::new(),
            bound,
            time: 0,
            hints: Box::new([0; HINTS]),
            replaced: 0,
        }
    }

    /// The id of the item with `key`, made by `new` or out of the least recently selected one.
    pub fn select(&mut self, key: T::Key, new: impl FnOnce(T::Key) -> T) -> usize {
        self.time += 1;
        let time = self.time;
        let hint = T::hint(&key) % HINTS;
        if let Some((item, used)) = self.items.get_mut(self.hints[hint] as usize)
            && item.key() == key
        {
            *used = time;
            return self.hints[hint] as usize;
        }
        let id = self.search(key, new);
        self.hints[hint] = id as u8;
        id
    }

    fn search(&mut self, key: T::Key, new: impl FnOnce(T::Key) -> T) -> usize {
        let time = self.time;
        if let Some(id) = self.items.iter().position(|(item, _)| item.key() == key) {
            self.items[id].1 = time;
            return id;
        }
        if self.items.len() < self.bound {
            self.items.push((new(key), time));
            return self.items.len() - 1;
        }
        let mut oldest = 0;
        for (id, (_, used)) in self.items.iter().enumerate() {
            if *used < self.items[oldest].1 {
                oldest = id;
            }
        }
        self.items[oldest].0.rekey(key);
        self.items[oldest].1 = time;
        self.replaced += 1;
        oldest
    }

    /// As [`Lru::select`] of the key that item `id` is known to have.
    pub fn touch(&mut self, id: usize) {
        self.time += 1;
        self.items[id].1 = self.time;
    }

    /// How often an item got another key: as long as that stays the same, a key has the id that it had.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// All items.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().map(|(item, _)| item)
    }
}

impl<T: Keyed> std::ops::Index<usize> for Lru<T> {
    type Output = T;
    fn index(&self, id: usize) -> &T {
        &self.items[id].0
    }
}

impl<T: Keyed> std::ops::IndexMut<usize> for Lru<T> {
    fn index_mut(&mut self, id: usize) -> &mut T {
        &mut self.items[id].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_dropped_with_its_range_and_no_other() {
        let mut space = Space::new(SpaceKey::default());
        for va in [0x1000u64, 0x2000, 0x20_0000, 0xffff_ffff_ffff_f000] {
            space.fill(va, 0x7000_0000 + va % 0x10_0000, va >> 12 & 0xff, true, true);
        }
        space.clear_range(0, 0x2000);
        assert!(space.lookup(0x1234).is_none());
        assert!(space.lookup(0x2234).is_some());
        space.clear_range(0xffff_ffff_ffe0_0000, 0x20_0000);
        assert!(space.lookup(0xffff_ffff_ffff_f000).is_none());
        assert!(space.lookup(0x20_0000).is_some());
        space.revoke_writes();
        assert!(
            space
                .lookup(0x2000)
                .is_some_and(|e| e.write == 0 && e.read == 0x2fff)
        );
    }

    #[test]
    fn the_least_recently_selected_gives_way_and_comes_back_empty() {
        let mut spaces = Lru::new(2);
        let key = |root| SpaceKey {
            root,
            ..SpaceKey::default()
        };
        let a = spaces.select(key(1), Space::new);
        spaces[a].fill(0x1000, 0x1000, 1, true, false);
        let b = spaces.select(key(2), Space::new);
        assert_eq!(spaces.select(key(1), Space::new), a);
        assert_eq!(spaces.select(key(3), Space::new), b);
        assert_eq!(spaces.select(key(2), Space::new), a);
        assert!(spaces[a].lookup(0x1000).is_none());
    }
}
