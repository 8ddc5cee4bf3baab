//! Which root tables have the same upper half: what lets address spaces share their kernel's translations.
//!
//! Kernels map themselves alike in all address spaces, by entries of equal value in the upper halves of the root
//! tables. What a supervisor's access to an address with bit 63 set finds depends on those entries and on what lies
//! below them, and not on which root it began at. So roots whose upper halves are equal by value are of one *class*, which
//! stands for the root in the keys of spaces ([`cpu::SpaceKey::upper`]).
//!
//! A root is of a class only while nothing is written to its upper half: its page has a guard (`ROOT`), and such a store ends
//! it, be it the guest's, a walk's (A and D), DMA or a restore. Classes keep what their entries are: whoever comes with
//! the same ones later finds the same translations, which the tables below have kept true meanwhile.

use std::collections::BTreeMap;

use cpu::ir::Size;

use crate::ram::{PAGE, Ram};

/// Bytes of an upper half: 256 entries.
pub const BYTES: u64 = PAGE / 2;
const ENTRIES: usize = BYTES as usize / 8;
/// Classes at a time.
const CLASSES: usize = 32;
/// Stores to the lower half after which a page is taken for something else than a root.
const MAX_STORES: u8 = 16;
/// Translations of lower addresses that a class may lose by changes of the root before it is given up: its kernel
/// lives in the lower half.
const MAX_LOST: usize = 1 << 16;
/// Halves looked up lately.
const RECENT: usize = 16;

struct Class {
    id: u64,
    entries: Box<[u64; ENTRIES]>,
    /// When it was last looked up.
    used: u64,
    /// See [`MAX_LOST`].
    lost: usize,
}

struct Root {
    class: u64,
    /// Stores to the lower half since it was looked up.
    stores: u8,
}

/// See the module's documentation.
pub struct Halves {
    classes: Vec<Class>,
    /// By page.
    roots: BTreeMap<u64, Root>,
    /// Physical addresses of upper halves, and the classes of their roots.
    recent: [(u64, u64); RECENT],
    next: u64,
    time: u64,
}

/// What a store to a root's page means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It stays of its class.
    Beside,
    /// It is of none any more.
    Ended,
}

impl Halves {
    pub fn new() -> Halves {
        Halves {
            classes: Vec::new(),
            roots: BTreeMap::new(),
            recent: [(0, 0); RECENT],
            next: 1,
            time: 0,
        }
    }

    /// The class of the upper half at `upper`, if it was looked up lately.
    pub fn known(&self, upper: u64) -> Option<u64> {
        let (address, class) = self.recent[(upper / PAGE) as usize % RECENT];
        (address == upper).then_some(class)
    }

    /// The class of the upper half at `upper`, of root page `page`, and the pages of roots that are of none any more.
    /// `None` for one that maps nothing. The caller guards the page.
    pub fn join(&mut self, ram: &Ram, page: u64, upper: u64) -> (Option<u64>, Vec<u64>) {
        let mut entries = Box::new([0; ENTRIES]);
        for (i, entry) in entries.iter_mut().enumerate() {
            *entry = ram.read(upper + i as u64 * 8, Size::B8);
        }
        if entries.iter().all(|entry| *entry == 0) {
            return (None, Vec::new());
        }
        self.time += 1;
        let (known, mut ended) = (self.classes.iter().position(|c| c.entries == entries), Vec::new());
        let at = match known {
            Some(at) => at,
            None => {
                if self.classes.len() == CLASSES {
                    ended = self.give_up_oldest();
                }
                self.classes.push(Class {
                    id: self.next,
                    entries,
                    used: 0,
                    lost: 0,
                });
                self.next += 1;
                self.classes.len() - 1
            }
        };
        let class = &mut self.classes[at];
        class.used = self.time;
        if class.lost > MAX_LOST {
            return (None, ended);
        }
        let id = class.id;
        self.roots.insert(page, Root { class: id, stores: 0 });
        self.recent[(upper / PAGE) as usize % RECENT] = (upper, id);
        (Some(id), ended)
    }

    fn give_up_oldest(&mut self) -> Vec<u64> {
        let Some(at) = (0..self.classes.len()).min_by_key(|at| self.classes[*at].used) else {
            return Vec::new();
        };
        let id = self.classes.swap_remove(at).id;
        self.end(id)
    }

    /// Takes all roots of a class out of it; yields their pages.
    fn end(&mut self, class: u64) -> Vec<u64> {
        let pages: Vec<u64> = self
            .roots
            .iter()
            .filter(|(_, root)| root.class == class)
            .map(|(page, _)| *page)
            .collect();
        for page in &pages {
            self.roots.remove(page);
        }
        self.recent = [(0, 0); RECENT];
        pages
    }

    /// A store to a root's page, the last byte of which on the page is at offset `last`.
    pub fn stored(&mut self, page: u64, last: u64) -> Stored {
        let Some(root) = self.roots.get_mut(&page) else {
            return Stored::Ended;
        };
        root.stores += 1;
        if last < PAGE - BYTES && root.stores < MAX_STORES {
            return Stored::Beside;
        }
        self.roots.remove(&page);
        self.recent = [(0, 0); RECENT];
        Stored::Ended
    }

    /// `count` translations of lower addresses were lost since the root changed; yields the pages of roots that are of
    /// no class any more.
    pub fn lose(&mut self, class: u64, count: usize) -> Vec<u64> {
        let Some(found) = self.classes.iter_mut().find(|c| c.id == class) else {
            return Vec::new();
        };
        found.lost = found.lost.saturating_add(count);
        if found.lost > MAX_LOST {
            return self.end(class);
        }
        Vec::new()
    }

    /// Nobody is of a class any more; yields the pages of all roots.
    pub fn clear(&mut self) -> Vec<u64> {
        self.recent = [(0, 0); RECENT];
        std::mem::take(&mut self.roots).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Region;

    const BASE: u64 = 0x8000_0000;

    fn ram() -> Ram {
        Ram::new(&[Region::ram(BASE, 64 * PAGE)]).unwrap()
    }

    fn upper(page: u64) -> u64 {
        BASE + page * PAGE + BYTES
    }

    #[test]
    fn equal_halves_are_of_one_class_until_one_is_written() {
        let (mut halves, mut ram) = (Halves::new(), ram());
        assert_eq!(halves.join(&ram, 0, upper(0)).0, None, "it maps nothing");
        for page in 0..3 {
            ram.write(upper(page) + 8 * 255, Size::B8, 0xabc);
        }
        let class = halves.join(&ram, 0, upper(0)).0;
        assert!(class.is_some());
        assert_eq!(halves.join(&ram, 1, upper(1)).0, class);
        assert_eq!(halves.known(upper(1)), class);
        assert_eq!(halves.stored(1, 8), Stored::Beside);
        assert_eq!(halves.known(upper(1)), class);
        assert_eq!(halves.stored(1, PAGE - BYTES), Stored::Ended);
        assert_eq!(halves.known(upper(1)), None);
        ram.write(upper(1), Size::B8, 7);
        let other = halves.join(&ram, 1, upper(1)).0;
        assert!(other.is_some() && other != class);
        ram.write(upper(1), Size::B8, 0);
        halves.stored(1, PAGE - 1);
        assert_eq!(halves.join(&ram, 1, upper(1)).0, class, "it comes back");
    }

    #[test]
    fn a_page_that_is_written_to_below_again_and_again_is_no_root() {
        let (mut halves, mut ram) = (Halves::new(), ram());
        ram.write(upper(0), Size::B8, 1);
        halves.join(&ram, 0, upper(0));
        let ended = (1..100).find(|_| halves.stored(0, 7) == Stored::Ended);
        assert_eq!(ended, Some(u64::from(MAX_STORES)));
    }

    #[test]
    fn classes_are_bounded_and_never_come_back_under_the_same_number() {
        let (mut halves, mut ram) = (Halves::new(), ram());
        let mut seen = Vec::new();
        let mut ended = Vec::new();
        for page in 0..40 {
            ram.write(upper(page), Size::B8, page + 1);
            let (class, gone) = halves.join(&ram, page, upper(page));
            seen.push(class.unwrap());
            ended.extend(gone);
        }
        assert_eq!(ended, (0..8).collect::<Vec<_>>());
        let again = halves.join(&ram, 0, upper(0)).0.unwrap();
        assert!(!seen.contains(&again));
    }

    #[test]
    fn a_class_whose_kernel_lives_below_is_given_up() {
        let (mut halves, mut ram) = (Halves::new(), ram());
        ram.write(upper(0), Size::B8, 1);
        let class = halves.join(&ram, 0, upper(0)).0.unwrap();
        assert!(halves.lose(class, MAX_LOST).is_empty());
        assert_eq!(halves.lose(class, 1), [0]);
        assert_eq!(halves.join(&ram, 0, upper(0)).0, None);
    }

    /// Sv39 tables of a supervisor: each root maps the page at `HIGH` through its own entry, and one at `LOW`.
    mod spaces {
        use super::*;
        use crate::memory::{Guards, Memory};
        use cpu::riscv64::hart::{Hart, HartConfig};
        use cpu::{Access, Cpu};

        const HIGH: u64 = 0xffff_ffc0_0000_0000;
        const LOW: u64 = 0x4000_3000;

        fn table(page: u64) -> u64 {
            (BASE / PAGE + page) << 10 | 1
        }

        fn leaf(page: u64) -> u64 {
            (BASE / PAGE + page) << 10 | 0xc7
        }

        /// Roots in pages 0 and 1, which share page 2 for `HIGH` and have pages 3 and 4 for `LOW`; the last level is
        /// page 5 for the one, 6 and 7 for the others.
        fn memory() -> Memory {
            let mut memory = Memory::new(ram());
            let mut put = |page: u64, index: u64, value| {
                memory.write(None, BASE + page * PAGE + index * 8, Size::B8, value);
            };
            for root in [0, 1] {
                put(root, 256, table(2));
                put(root, 1, table(3 + root));
                put(3 + root, 0, table(6 + root));
                put(6 + root, 3, leaf(20 + root));
            }
            put(2, 0, table(5));
            put(5, 0, leaf(10));
            memory
        }

        fn hart(root: u64) -> Hart {
            let mut hart = Hart::new(HartConfig::new(0));
            let mut set = |csr: u32, value: u64| {
                hart.write_register(65 + csr, &value.to_le_bytes()).unwrap();
            };
            set(0x3b0, !0);
            set(0x3a0, 0x1f);
            set(0x180, 8 << 60 | (BASE / PAGE + root));
            hart.write_register(4161, &1u64.to_le_bytes()).unwrap();
            hart
        }

        fn fill(memory: &mut Memory, root: u64, va: u64) -> usize {
            let hart = hart(root);
            let space = memory.data_space(&hart, hart.data_space());
            let found = hart.translate(memory, va, Access::Read).unwrap();
            let page = memory.ram().page_of(found.addr).unwrap();
            memory.fill_data(space, va, page, &found);
            space
        }

        fn page(memory: &mut Memory, root: u64, va: u64) -> Option<u64> {
            let hart = hart(root);
            let space = memory.data_space(&hart, hart.data_space());
            memory.data(space).lookup(va).map(|entry| entry.page())
        }

        #[test]
        fn what_one_root_fills_above_all_of_its_class_have() {
            let mut memory = memory();
            let space = fill(&mut memory, 0, HIGH);
            assert_eq!(page(&mut memory, 1, HIGH), Some(10));
            assert_eq!(fill(&mut memory, 1, HIGH), space);
            // The table below is everybody's.
            memory.write(None, BASE + 5 * PAGE, Size::B8, leaf(11));
            assert_eq!(page(&mut memory, 0, HIGH), None);
            assert_eq!(page(&mut memory, 1, HIGH), None);
        }

        #[test]
        fn lower_addresses_are_the_last_root_s() {
            let mut memory = memory();
            fill(&mut memory, 0, HIGH);
            fill(&mut memory, 0, LOW);
            assert_eq!(page(&mut memory, 0, LOW), Some(20));
            assert_eq!(page(&mut memory, 1, LOW), None);
            fill(&mut memory, 1, LOW);
            assert_eq!(page(&mut memory, 1, LOW), Some(21));
            assert_eq!(page(&mut memory, 1, HIGH), Some(10));
            assert_eq!(page(&mut memory, 0, LOW), None);
        }

        #[test]
        fn a_root_that_changes_above_has_other_translations() {
            let mut memory = memory();
            fill(&mut memory, 0, HIGH);
            assert_eq!(page(&mut memory, 1, HIGH), Some(10));
            assert!(!memory.take_moved());
            memory.write(None, BASE + PAGE + 300 * 8, Size::B8, table(9));
            assert!(memory.take_moved() && memory.take_leave());
            assert!(!memory.guards(1).contains(Guards::ROOT));
            assert_eq!(page(&mut memory, 1, HIGH), None);
            assert_eq!(page(&mut memory, 0, HIGH), Some(10));
            memory.write(None, BASE + 256 * 8, Size::B8, 0);
            assert!(page(&mut memory, 0, HIGH).is_none());
        }

        #[test]
        fn protection_that_hides_a_root_keeps_it_apart() {
            let mut memory = memory();
            fill(&mut memory, 0, HIGH);
            let mut hart = hart(1);
            let mut set = |csr: u32, value: u64| {
                hart.write_register(65 + csr, &value.to_le_bytes()).unwrap();
            };
            // The root's page can't be read; all else can.
            set(0x3b0, ((BASE + PAGE) >> 2) | 0x1ff);
            set(0x3b1, !0);
            set(0x3a0, 0x1f18);
            let space = memory.data_space(&hart, hart.data_space());
            assert!(memory.data(space).lookup(HIGH).is_none());
        }
    }
}
