//! The fetch translations of a code space, and the jump cache that is made from them: what translated code probes where
//! it can't jump directly.
//!
//! ```text
//!   pc -> index = (pc ^ pc >> JUMP_FOLD) >> pc_align, mod JUMP_ENTRIES -> Jump { pc, code }
//! ```
//!
//! Functions begin at multiples of 16, so the program counter is folded: else those of all pages would fall upon a few
//! entries. An entry stands only as long as the fetch translation of its page does (of both pages, if the block
//! straddles), and as the code of that page; each page knows which entries it may have filled.

use std::collections::BTreeMap;

use cpu::{RegFile, SpaceKey};

use crate::words;

/// log2 of the number of entries of a jump cache.
pub const JUMP_BITS: u32 = 14;
/// Entries of a jump cache.
pub const JUMP_ENTRIES: usize = 1 << JUMP_BITS;
/// By how many bits a program counter is shifted before it is folded onto itself.
pub const JUMP_FOLD: u8 = 8;

/// Fetch translations of one space; when there are more, all are dropped.
const MOST_PAGES: usize = 1 << 16;
/// Pages looked up lately.
const RECENT: usize = 256;
/// Entries that a page lists before repetitions are taken out; more different ones than it has bytes there aren't.
const MOST_FILLED: usize = 3 << 12;
/// No page.
const NOWHERE: u32 = u32::MAX;

/// Where a jump cache is; as [`crate::tlb::DataTable`].
#[derive(Clone, Copy, Debug)]
pub struct JumpTable(pub *const Jump);

/// Makes `space` the jump cache of translated code that runs with these slots. It must live as long as such
/// code may run, and be of the pc alignment of the layout.
pub fn set_jumps(regs: &mut RegFile, space: &CodeSpace) {
    regs.words_mut()[words::JUMPS] = space.as_ptr() as u64;
}

/// One entry of a jump cache. The layout is known to translated code.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// Virtual program counter.
    pub pc: u64,
    /// Host address of the block's entry.
    pub code: u64,
}

/// A fetch translation of one virtual page, and where the jump cache remembers it.
#[derive(Debug)]
struct FetchPage {
    /// Number of the virtual page.
    number: u64,
    /// RAM page.
    page: u64,
    /// May repeat, and some may hold another page's by now.
    filled: Vec<u16>,
}

/// The fetch translations of one code space, i.e. of one [`SpaceKey`] and one block mode, with the jump
/// cache made from them.
pub struct CodeSpace {
    key: (SpaceKey, u64),
    align: u32,
    jumps: Box<[Jump]>,
    /// Those that `free` doesn't list are in use.
    pages: Vec<FetchPage>,
    free: Vec<u32>,
    /// Index in `pages` by number of the virtual page.
    by_number: BTreeMap<u64, u32>,
    /// The same for a few, by their numbers' low bits.
    recent: Box<[(u64, u32); RECENT]>,
}

impl CodeSpace {
    /// An empty space for fetch key `key` and block mode `mode`; `align` as in [`cpu::Layout::pc_align`].
    pub fn new(key: SpaceKey, mode: u64, align: u8) -> CodeSpace {
        let align = u32::from(align);
        let jumps = (0..JUMP_ENTRIES).map(|i| empty(i, align)).collect();
        CodeSpace {
            key: (key, mode),
            align,
            jumps,
            pages: Vec::new(),
            free: Vec::new(),
            by_number: BTreeMap::new(),
            recent: Box::new([(0, NOWHERE); RECENT]),
        }
    }

    /// Fetch key and block mode.
    pub fn key(&self) -> (SpaceKey, u64) {
        self.key
    }

    /// Becomes an empty space of another key.
    pub(crate) fn reset(&mut self, key: (SpaceKey, u64)) {
        self.clear();
        self.key = key;
    }

    /// The jump cache that translated code probes; it doesn't move while the space lives.
    pub fn as_ptr(&self) -> *const Jump {
        self.jumps.as_ptr()
    }

    /// The jump cache for an engine.
    pub fn table(&self) -> JumpTable {
        JumpTable(self.as_ptr())
    }

    fn index(&self, pc: u64) -> usize {
        ((pc ^ pc >> JUMP_FOLD) >> self.align) as usize & (JUMP_ENTRIES - 1)
    }

    /// The code cached for `pc`.
    pub fn jump(&self, pc: u64) -> Option<u64> {
        let jump = self.jumps[self.index(pc)];
        (jump.pc == pc).then_some(jump.code)
    }

    fn find(&self, number: u64) -> Option<u32> {
        let (known, at) = self.recent[number as usize % RECENT];
        if at != NOWHERE && known == number {
            return Some(at);
        }
        self.by_number.get(&number).copied()
    }

    /// The RAM page from which the page of `pc` is fetched, if that is known.
    pub fn page(&self, pc: u64) -> Option<u64> {
        self.find(pc >> 12).map(|at| self.pages[at as usize].page)
    }

    /// Remembers a fetch translation.
    pub fn set_page(&mut self, pc: u64, page: u64) {
        self.drop_page(pc);
        if self.by_number.len() >= MOST_PAGES {
            self.clear();
        }
        let number = pc >> 12;
        let at = match self.free.pop() {
            Some(at) => {
                let free = &mut self.pages[at as usize];
                (free.number, free.page) = (number, page);
                at
            }
            None => {
                self.pages.push(FetchPage {
                    number,
                    page,
                    filled: Vec::new(),
                });
                self.pages.len() as u32 - 1
            }
        };
        self.by_number.insert(number, at);
        self.recent[number as usize % RECENT] = (number, at);
    }

    /// Caches the block entry for `pc`. All pages of `pages` (the block's, and the next one's if it
    /// straddles) must be known, else nothing is cached.
    pub fn insert(&mut self, pc: u64, code: u64, straddles: bool) {
        let index = self.index(pc);
        let number = pc >> 12;
        let Some(first) = self.find(number) else {
            return;
        };
        self.recent[number as usize % RECENT] = (number, first);
        if straddles {
            let Some(second) = self.find(number.wrapping_add(1)) else {
                return;
            };
            self.list(second, index);
        }
        self.list(first, index);
        self.jumps[index] = Jump { pc, code };
    }

    fn list(&mut self, at: u32, index: usize) {
        let filled = &mut self.pages[at as usize].filled;
        if filled.len() == MOST_FILLED {
            filled.sort_unstable();
            filled.dedup();
        }
        filled.push(index as u16);
    }

    /// Empties the entries that page `at` has filled.
    fn forget(&mut self, at: usize) {
        let page = &mut self.pages[at];
        for index in page.filled.drain(..) {
            let index = usize::from(index);
            // A straddler's begin on the page before.
            let number = self.jumps[index].pc >> 12;
            if number == page.number || number.wrapping_add(1) == page.number {
                self.jumps[index] = empty(index, self.align);
            }
        }
    }

    /// Drops the fetch translation of the page of `va`.
    pub fn drop_page(&mut self, va: u64) {
        let number = va >> 12;
        if let Some(at) = self.by_number.remove(&number) {
            self.forget(at as usize);
            self.free.push(at);
            let recent = &mut self.recent[number as usize % RECENT];
            if recent.0 == number {
                recent.1 = NOWHERE;
            }
        }
    }

    /// Drops fetch translations of `len` bytes from `start`; true if there were any.
    pub fn clear_range(&mut self, start: u64, len: u64) -> bool {
        let last = start.wrapping_add(len - 1) >> 12;
        let range = start >> 12..=last.max(start >> 12);
        let mut any = false;
        while let Some((&number, _)) = self.by_number.range(range.clone()).next() {
            self.drop_page(number << 12);
            any = true;
        }
        any
    }

    /// Forgets cached block entries of RAM page `page` (its code was dropped); the translations stay.
    pub fn drop_code(&mut self, page: u64) {
        for at in 0..self.pages.len() {
            if self.pages[at].page == page {
                self.forget(at);
            }
        }
    }

    /// Forgets all cached block entries (the code cache was flushed); the translations stay.
    pub fn drop_all_code(&mut self) {
        for at in 0..self.pages.len() {
            self.forget(at);
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.drop_all_code();
        self.pages.clear();
        self.free.clear();
        self.by_number.clear();
        self.recent.fill((0, NOWHERE));
    }
}

/// An entry that no program counter of that index equals: its own belongs to the next one.
fn empty(index: usize, align: u32) -> Jump {
    let folded = ((index as u64 + 1) & (JUMP_ENTRIES as u64 - 1)) << align;
    // Undoes the fold: at most 16 bits are.
    let pc = folded ^ folded >> JUMP_FOLD;
    Jump { pc, code: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_jump_entry_matches_no_pc() {
        for align in [0, 1] {
            let space = CodeSpace::new(SpaceKey::default(), 0, align);
            for (i, jump) in space.jumps.iter().enumerate() {
                assert_ne!(space.index(jump.pc), i);
            }
            for pc in (0..=4 * JUMP_ENTRIES as u64).chain([u64::MAX, u64::MAX - 1]) {
                assert!(space.jump(pc & !(u64::from(align))).is_none());
            }
        }
    }

    #[test]
    fn dropping_a_straddler_s_second_page_forgets_it() {
        let mut space = CodeSpace::new(SpaceKey::default(), 0, 1);
        space.set_page(0x1000, 7);
        space.set_page(0x2000, 9);
        space.insert(0x1ffe, 0xc0de, true);
        assert_eq!(space.jump(0x1ffe), Some(0xc0de));
        assert!(space.clear_range(0x2000, 0x1000));
        assert_eq!(space.jump(0x1ffe), None);
        assert_eq!(space.page(0x1ffe), Some(7));
        space.insert(0x1ffe, 0xc0de, true);
        assert_eq!(space.jump(0x1ffe), None, "its second page isn't known");
    }

    #[test]
    fn a_page_takes_its_entries_with_it_and_no_others() {
        let mut space = CodeSpace::new(SpaceKey::default(), 0, 0);
        space.set_page(0x5000, 1);
        // Of the same index as a place on page 5.
        let other = (0..1 << 22).map(|page| page << 12 | 0x123);
        let other = other.skip(6).find(|pc| space.index(*pc) == space.index(0x5123));
        let other = other.unwrap();
        space.set_page(other, 2);
        space.insert(0x5123, 0xa, false);
        space.insert(0x5124, 0xb, false);
        space.insert(other, 0xc, false);
        assert_eq!((space.jump(0x5123), space.jump(other)), (None, Some(0xc)));
        space.drop_code(1);
        assert_eq!((space.jump(0x5124), space.jump(other)), (None, Some(0xc)));
        assert_eq!(space.page(0x5fff), Some(1));
        space.drop_page(0x5000);
        assert_eq!(space.page(0x5fff), None);
        // The place of a dropped page serves another.
        space.set_page(0x9000, 3);
        space.insert(0x9000, 0xd, false);
        space.drop_code(1);
        assert_eq!((space.page(0x9000), space.jump(0x9000)), (Some(3), Some(0xd)));
        space.drop_all_code();
        assert_eq!((space.page(other), space.jump(other)), (Some(2), None));
    }

    #[test]
    fn what_a_page_has_filled_stays_bounded() {
        let mut space = CodeSpace::new(SpaceKey::default(), 0, 0);
        space.set_page(0x5000, 1);
        for round in 0..8 * MOST_FILLED as u64 {
            space.insert(0x5000 + round % 4096, round, false);
        }
        assert!(space.pages[0].filled.len() <= MOST_FILLED);
        space.drop_code(1);
        assert!((0x5000..0x6000).all(|pc| space.jump(pc).is_none()));
    }
}
