//! Physical memory with its page guards, and the translations made from it (DESIGN section 6).
//!
//! Every RAM page carries guards. A store takes the fast path (translated code, a TLB entry's `write`
//! tag) only to a page without guards; any other write comes through [`Memory::write`] or
//! [`Memory::write_bytes`], the one place that
//!
//! - `CLEAN`: lists the page as written since the last snapshot, once, and copies it for that one if that wasn't done;
//! - `CODE`: throws away the code of the page if the store touches bytes that it was translated from;
//! - `TABLE`: drops the translations whose walk read the entry that changes;
//! - `ROOT`: has the root table be of no class any more, if the store touches its upper half (`halves.rs`);
//! - `WATCH`: is checked by the caller beforehand ([`Memory::watched`]), which knows the access.
//!
//! Setting a guard takes back the right to write. A page knows its one write-cacher, or that there are
//! many; then every right to write is taken back everywhere, which is rare.
//!
//! The invariant that makes the TLBs coherent: while a translation is cached, every table page that its
//! walk read has `TABLE` set and lists the space as its user.

use std::collections::BTreeMap;

use bitflags::bitflags;
use cpu::ir::Size;
use cpu::{Access, Cpu, PhysMem, SpaceKey, TableChange, Translation};
use jit::tlb::{CodeSpace, Lru, SHARED, Space};

use crate::behind::{Copying, Waiting};
use crate::halves::{BYTES, Halves, Stored};
use crate::ram::{PAGE, Ram};
use crate::shadow::{self, Found, Granules};
use crate::tables::{Tables, User, Users};

bitflags! {
    /// Why stores to a page take the slow path.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Guards: u8 {
        /// Not written since the last snapshot.
        const CLEAN = 1;
        /// Code was translated from it.
        const CODE = 2;
        /// A page walk read it, and a translation made so may be cached.
        const TABLE = 4;
        /// A watchpoint is on it: reads take the slow path too.
        const WATCH = 8;
        /// The `tohost` word is on it, to which each store must be seen.
        const HTIF = 16;
        /// It is a root table that is of a class (`halves.rs`).
        const ROOT = 32;
    }
}

/// Who may write a page on the fast path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    One { space: u8, index: u16 },
    Many,
}

/// Stores to an upper table, without a walk in between, after which it is taken for data.
const MAX_STORES: u8 = 16;
const SPACES: usize = 64;

/// What a watchpoint is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// First physical address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Reads count.
    pub read: bool,
    /// Writes count.
    pub write: bool,
}

/// The granules of the bytes from `first` to `last` of a page.
const fn granules(first: u64, last: u64) -> u64 {
    (u64::MAX << (first / 64)) & (u64::MAX >> (63 - last / 64))
}

/// The bytes from `first` to `last` of a page in words of 64 bits, a bit a byte: indices and masks.
fn bits(first: u64, last: u64) -> impl Iterator<Item = (usize, u64)> {
    (first / 64..=last / 64).map(move |word| {
        let from = first.saturating_sub(word * 64);
        let to = (last - word * 64).min(63);
        (word as usize, granules(from * 64, to * 64))
    })
}

/// Which spaces serve a hart as it stands. It holds while neither has another key and no root another class.
#[derive(Clone, Copy, Default)]
struct Chosen {
    data: SpaceKey,
    fetch: SpaceKey,
    mode: u64,
    ids: Option<(usize, usize)>,
}

/// Choices that are remembered.
const CHOSEN: usize = 32;

/// Memory. See the module's documentation.
pub struct Memory {
    ram: Ram,
    /// The board's ROM shadow, if it has one.
    shadow: Option<shadow::Map>,
    guards: Vec<Guards>,
    writers: Vec<Writer>,
    dirty: Vec<u32>,
    /// Pages that a snapshot has and that are not copied yet, if there is somebody who copies.
    waiting: Option<Waiting>,
    /// A bit for each page that was ever written: all others are zero.
    touched: Vec<u64>,
    /// Of each page, which of its 64 granules of 64 bytes code was translated from.
    granules: Vec<u64>,
    /// Of each page with granules, which of its bytes.
    code_bytes: BTreeMap<u64, Box<[u64; 64]>>,
    tables: Tables,
    halves: Halves,
    /// A root changed its class since the last [`Memory::take_moved`]: spaces must be selected anew.
    moved: bool,
    chosen: [Chosen; CHOSEN],
    /// How often these were forgotten.
    forgotten: u64,
    data: Lru<Space>,
    code: Lru<CodeSpace>,
    watches: Vec<Watch>,
    /// Watched bytes were read in a way that no watchpoint sees.
    unwatched: bool,
    /// RAM pages whose code must be thrown away before code runs again.
    stale_code: Vec<u64>,
    /// Something happened after which the running block must be left.
    leave: bool,
    /// Table entries that walks changed (A and D bits) since the last [`Memory::take_walk_writes`].
    walk_writes: Vec<u64>,
}

impl Memory {
    /// Over fresh RAM. Everything is clean, and nothing is cached.
    pub fn new(ram: Ram) -> Memory {
        let pages = ram.pages() as usize;
        Memory {
            ram,
            shadow: None,
            guards: vec![Guards::CLEAN; pages],
            writers: vec![Writer::Nobody; pages],
            dirty: Vec::new(),
            waiting: None,
            touched: vec![0; pages.div_ceil(64)],
            granules: vec![0; pages],
            code_bytes: BTreeMap::new(),
            tables: Tables::new(),
            halves: Halves::new(),
            moved: false,
            chosen: [Chosen::default(); CHOSEN],
            forgotten: 0,
            data: Lru::new(SPACES),
            code: Lru::new(SPACES),
            watches: Vec::new(),
            unwatched: false,
            stale_code: Vec::new(),
            leave: false,
            walk_writes: Vec::new(),
        }
    }

    /// The RAM, to be read.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The data space of `data` and the code space of `fetch` and a block mode.
    pub fn spaces(
        &mut self,
        cpu: &dyn Cpu,
        (data, fetch, mode): (SpaceKey, SpaceKey, u64),
        align: u8,
    ) -> (usize, usize) {
        let spread = data.root ^ data.modifiers.rotate_left(40) ^ mode.rotate_left(20);
        let at = (spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize % CHOSEN;
        let chosen = self.chosen[at];
        if let Some((d, c)) = chosen.ids
            && (chosen.data, chosen.fetch, chosen.mode) == (data, fetch, mode)
        {
            self.data.touch(d);
            self.code.touch(c);
            if data.upper == 0 || !self.set_low_root(d, data.root) {
                return (d, c);
            }
        }
        let (before, forgotten) = ((self.data.replaced(), self.code.replaced()), self.forgotten);
        let ids = (
            self.data_space(cpu, data),
            self.code_space(cpu, fetch, mode, align),
        );
        if (self.data.replaced(), self.code.replaced()) != before {
            self.forget_chosen();
        } else if self.forgotten == forgotten {
            self.chosen[at] = Chosen {
                data,
                fetch,
                mode,
                ids: Some(ids),
            };
        }
        ids
    }

    fn forget_chosen(&mut self) {
        self.chosen = [Chosen::default(); CHOSEN];
        self.forgotten += 1;
    }

    /// Gives it a ROM shadow.
    pub(crate) fn place_shadow(&mut self, place: shadow::Place) {
        self.shadow = Some(shadow::Map::new(place));
    }

    /// What the ROM shadow is now.
    pub(crate) fn shadow(&self) -> Option<Granules> {
        self.shadow.map(|map| map.granules())
    }

    /// Makes the ROM shadow this: all that was translated is void if it was another.
    pub(crate) fn set_shadow(&mut self, granules: Granules) {
        if self.shadow.as_mut().is_some_and(|map| map.set_granules(granules)) {
            self.drop_translations();
        }
    }

    /// Makes part of the ROM shadow this.
    pub(crate) fn change_shadow(&mut self, addr: u64, len: u64, rights: devices::Shadow) {
        if let Some(map) = self.shadow {
            self.set_shadow(map.with(addr, len, rights));
        }
    }

    /// The page that an access finds, and the translation as far as it may be cached; `None`: no memory.
    pub(crate) fn locate(&self, found: Translation, access: Access) -> Option<(u64, Translation)> {
        let found = match &self.shadow {
            Some(map) => map.apply(found, access)?,
            None => found,
        };
        Some((self.ram.page_of(found.addr)?, found))
    }

    /// Where in memory an access to physical address `addr` leads, if it does.
    pub(crate) fn find(&self, addr: u64, write: bool) -> Option<u64> {
        let found = self
            .shadow
            .map_or(Found::Memory(addr), |map| map.find(addr, write));
        match found {
            Found::Memory(addr) => self.ram.page_of(addr).map(|_| addr),
            Found::Bus => None,
        }
    }

    /// The data space of `key`.
    pub fn data_space(&mut self, cpu: &dyn Cpu, key: SpaceKey) -> usize {
        let found = self.shared(cpu, key);
        let id = self.data.select(found, Space::new);
        if !self.set_low_root(id, key.root) {
            return id;
        }
        let own = SpaceKey { upper: 0, ..key };
        self.data.select(own, Space::new)
    }

    /// Lower addresses of a shared space are translated by `root` from now on. True if its class was given up over that.
    fn set_low_root(&mut self, id: usize, root: u64) -> bool {
        let key = self.data[id].key();
        if key.modifiers & SHARED == 0 {
            return false;
        }
        let ended = match self.data[id].set_low_root(root) {
            0 => Vec::new(),
            lost => self.halves.lose(key.root, lost),
        };
        let given_up = !ended.is_empty();
        self.end_roots(ended);
        given_up
    }

    /// The key of the space that serves `key`: with the class of the root instead of the root, where several share one.
    fn shared(&mut self, cpu: &dyn Cpu, key: SpaceKey) -> SpaceKey {
        let own = SpaceKey { upper: 0, ..key };
        if key.upper == 0 {
            return own;
        }
        let class = match self.halves.known(key.upper) {
            Some(class) => Some(class),
            None => self.join(cpu, key.upper),
        };
        class.map_or(own, |class| SpaceKey {
            root: class,
            modifiers: key.modifiers | SHARED,
            upper: 0,
        })
    }

    fn join(&mut self, cpu: &dyn Cpu, upper: u64) -> Option<u64> {
        // What is in the ROM shadow may be another memory's next.
        if self.shadow.is_some_and(|map| map.covers(upper)) {
            return None;
        }
        let page = self.ram.page_of(upper)?;
        // A walk reads and writes entries under the protection of where they are, which is no part of the key.
        let denied = |access| cpu.protects(upper, BYTES, access);
        if denied(Access::Read) || denied(Access::Write) {
            return None;
        }
        let (class, ended) = self.halves.join(&self.ram, page, upper);
        self.end_roots(ended);
        if class.is_some() {
            self.guard(page, Guards::ROOT);
        }
        class
    }

    /// Root tables are of no class any more.
    fn end_roots(&mut self, pages: Vec<u64>) {
        if !pages.is_empty() {
            self.forget_chosen();
        }
        for page in pages {
            self.guards[page as usize].remove(Guards::ROOT);
        }
    }

    /// Takes the wish that spaces are selected anew.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// A data space.
    pub fn data(&self, id: usize) -> &Space {
        &self.data[id]
    }

    /// The code space of a fetch key and a block mode.
    pub fn code_space(&mut self, cpu: &dyn Cpu, key: SpaceKey, mode: u64, align: u8) -> usize {
        let key = self.shared(cpu, key);
        self.code
            .select((key, mode), |(key, mode)| CodeSpace::new(key, mode, align))
    }

    /// A code space.
    pub fn code(&self, id: usize) -> &CodeSpace {
        &self.code[id]
    }

    /// A code space, to be filled.
    pub fn code_mut(&mut self, id: usize) -> &mut CodeSpace {
        &mut self.code[id]
    }

    /// Takes the wish to leave the running block, if there is one.
    pub fn take_leave(&mut self) -> bool {
        std::mem::take(&mut self.leave)
    }

    /// Takes the addresses of the table entries that walks changed.
    pub fn take_walk_writes(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.walk_writes)
    }

    /// Takes the list of RAM pages whose code is stale.
    pub fn take_stale_code(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.stale_code)
    }

    /// Whether code must be thrown away before any is entered.
    pub fn has_stale_code(&self) -> bool {
        !self.stale_code.is_empty()
    }

    /// All code was flushed: forget where it was.
    pub fn forget_all_code(&mut self) {
        self.code.iter_mut().for_each(CodeSpace::drop_all_code);
        self.stale_code.clear();
        for guards in &mut self.guards {
            guards.remove(Guards::CODE);
        }
        self.granules.fill(0);
        self.code_bytes.clear();
    }

    /// Caches a data translation, with write access only if the page has no guard, and notes who depends
    /// on which tables. A watched page is never cached.
    pub fn fill_data(&mut self, space: usize, va: u64, page: u64, translation: &Translation) {
        let guards = self.guards[page as usize];
        if !translation.cacheable || guards.contains(Guards::WATCH) {
            return;
        }
        let shared = self.data[space].key().modifiers & SHARED != 0;
        self.use_tables(false, shared, space, va, translation);
        let writable = translation.write && !self.ram.is_rom(page);
        let write = writable && self.guards[page as usize].is_empty();
        let host = self.ram.host(page);
        self.data[space].fill(va, host, page, translation.read, write);
        if writable && (translation.read || write) {
            self.data[space].set_writable(va);
        }
        if write {
            self.note_writer(space, va, page);
        }
    }

    /// Lets writes to the page of `va` take the fast path again, after one that left it without guards, if a
    /// cached translation permits it: no walk is needed, since the entry is dropped when its tables change.
    /// `false`: a walk must tell.
    pub fn grant(&mut self, space: usize, va: u64, page: u64) -> bool {
        match self.data[space].lookup(va) {
            Some(entry) if entry.page() == page && entry.writable() => {
                if entry.write == 0 {
                    self.data[space].grant(va);
                    self.note_writer(space, va, page);
                }
                true
            }
            _ => false,
        }
    }

    fn note_writer(&mut self, space: usize, va: u64, page: u64) {
        let new = Writer::One {
            space: space as u8,
            index: Space::index(va) as u16,
        };
        let writer = &mut self.writers[page as usize];
        *writer = match *writer {
            Writer::Nobody => new,
            old if old == new => new,
            Writer::One { .. } | Writer::Many => Writer::Many,
        };
    }

    /// Remembers a fetch translation, if it may be.
    pub fn fill_fetch(&mut self, space: usize, va: u64, page: u64, translation: &Translation) -> bool {
        if translation.cacheable {
            let shared = self.code[space].key().0.modifiers & SHARED != 0;
            // Of a shared code space the upper half alone is the roots' common one.
            if shared && va >> 63 == 0 {
                return false;
            }
            self.use_tables(true, shared, space, va, translation);
            self.code[space].set_page(va, page);
        }
        translation.cacheable
    }

    /// Notes who depends on the tables. A `shared` space depends on no root's upper half: that it is the same in all roots
    /// that share the space is what the guard `ROOT` is for.
    fn use_tables(&mut self, code: bool, shared: bool, space: usize, va: u64, translation: &Translation) {
        let skip = usize::from(shared && va >> 63 != 0);
        for step in translation.path.iter().take_while(|s| s.shift != 0).skip(skip) {
            let page = self.find(step.entry, false).and_then(|at| self.ram.page_of(at));
            let Some(page) = page else {
                continue;
            };
            // A table of 512 entries of 8 bytes covers 9 bits more than an entry does.
            let span = u32::from(step.shift) + 9;
            let base = if span >= 64 { 0 } else { va >> span << span };
            let user = User {
                code,
                space: space as u8,
                shift: step.shift,
                base,
            };
            if self.tables.note(user, page) {
                self.guard(page, Guards::TABLE);
            }
        }
    }

    /// Sets a guard, taking back the right to write.
    pub fn guard(&mut self, page: u64, guard: Guards) {
        let guards = &mut self.guards[page as usize];
        if guards.contains(guard) {
            return;
        }
        guards.insert(guard);
        match std::mem::replace(&mut self.writers[page as usize], Writer::Nobody) {
            Writer::Nobody => {}
            Writer::One { space, index } => self.data[space as usize].revoke_write(index as usize, page),
            Writer::Many => self.data.iter_mut().for_each(Space::revoke_writes),
        }
    }

    /// Guards of a page.
    pub fn guards(&self, page: u64) -> Guards {
        self.guards[page as usize]
    }

    /// Every page becomes clean (a snapshot was taken); yields those written since the last time, in order.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = self.take_unsorted();
        dirty.sort_unstable();
        dirty
    }

    fn take_unsorted(&mut self) -> Vec<u32> {
        let dirty = std::mem::take(&mut self.dirty);
        self.data.iter_mut().for_each(Space::revoke_writes);
        for &page in &dirty {
            self.guards[page as usize].insert(Guards::CLEAN);
            self.writers[page as usize] = Writer::Nobody;
        }
        dirty
    }

    /// As [`Memory::take_dirty`], for somebody who copies the pages behind.
    pub fn take_behind(&mut self, spares: &snapshot::Spares) -> Copying {
        let dirty = self.take_unsorted();
        let ram = &self.ram;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Waiting::new(ram, spares.clone()));
        waiting.take(ram, dirty)
    }

    /// Makes all memory zero.
    pub fn zero(&mut self) {
        for page in 0..self.ram.pages() {
            let (word, bit) = (page as usize / 64, 1 << (page % 64));
            if self.touched[word] & bit == 0 {
                continue;
            }
            if self.ram.page(page).iter().any(|byte| *byte != 0) {
                self.write_bytes(self.ram.address_of(page), &[0; PAGE as usize]);
            } else {
                self.touched[word] &= !bit;
            }
        }
    }

    /// The pages written since the last [`Memory::take_dirty`], in no order.
    pub fn dirty(&self) -> &[u32] {
        &self.dirty
    }

    /// Writes through the guards. `cpu` judges stores to tables. The address is RAM.
    pub fn write(&mut self, cpu: Option<&dyn Cpu>, addr: u64, size: Size, value: u64) {
        let end = addr + size.bytes() - 1;
        for page in [Some(addr), (end / PAGE != addr / PAGE).then_some(end)]
            .into_iter()
            .flatten()
        {
            if let Some(page) = self.ram.page_of(page)
                && !(self.guards[page as usize] - Guards::WATCH).is_empty()
            {
                self.before_write(cpu, page, addr, size.bytes(), Some(value));
            }
        }
        self.ram.write(addr, size, value);
    }

    /// Writes bytes through the guards (DMA, a debugger, a loader, a restore). The range is RAM.
    pub fn write_bytes(&mut self, addr: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = addr + done as u64;
            let n = (PAGE - at % PAGE).min((bytes.len() - done) as u64) as usize;
            if let Some(page) = self.ram.page_of(at)
                && !(self.guards[page as usize] - Guards::WATCH).is_empty()
            {
                self.before_write(None, page, at, n as u64, None);
            }
            self.ram.write_bytes(at, &bytes[done..done + n]);
            done += n;
        }
    }

    /// What the guards of `page` ask for before `len` bytes at `addr` (part of which may lie on another
    /// page) are written.
    fn before_write(&mut self, cpu: Option<&dyn Cpu>, page: u64, addr: u64, len: u64, value: Option<u64>) {
        let guards = self.guards[page as usize];
        if guards.contains(Guards::CLEAN) {
            if let Some(waiting) = &self.waiting {
                waiting.before_write(&self.ram, page);
            }
            self.guards[page as usize].remove(Guards::CLEAN);
            self.dirty.push(page as u32);
            self.touched[page as usize / 64] |= 1 << (page % 64);
        }
        if guards.contains(Guards::ROOT) {
            let last = (addr + len - 1).min(self.ram.address_of(page) + PAGE - 1) % PAGE;
            if self.halves.stored(page, last) == Stored::Ended {
                self.guards[page as usize].remove(Guards::ROOT);
                self.forget_chosen();
                self.moved = true;
                self.leave = true;
            }
        }
        if guards.contains(Guards::CODE) {
            let start = addr.max(self.ram.address_of(page)) % PAGE;
            let end = (addr + len - 1).min(self.ram.address_of(page) + PAGE - 1) % PAGE;
            if self.granules[page as usize] & granules(start, end) != 0
                && self.is_code(page, start, end)
                && value.is_none_or(|value| !self.holds(addr, len, value))
            {
                self.code_changes(page);
            }
        }
        if guards.contains(Guards::TABLE) {
            self.table_written(cpu, page, addr, len, value);
        }
    }

    /// Whether code was translated from any byte from `first` to `last` of a page.
    fn is_code(&self, page: u64, first: u64, last: u64) -> bool {
        self.code_bytes
            .get(&page)
            .is_some_and(|bytes| bits(first, last).any(|(word, mask)| bytes[word] & mask != 0))
    }

    /// Whether memory holds `value` in the `len` bytes at `addr` already.
    fn holds(&self, addr: u64, len: u64, value: u64) -> bool {
        let size = [Size::B1, Size::B2, Size::B4, Size::B8]
            .into_iter()
            .find(|size| size.bytes() == len);
        size.is_some_and(|size| self.ram.read(addr, size) == value & size.mask())
    }

    /// Code was translated from bytes `start..end` of a page: stores that change them make it stale. (A store beside
    /// them only takes the slow path, so that data on a page with code doesn't have it translated again and
    /// again.)
    pub fn guard_code(&mut self, page: u64, start: u64, end: u64) {
        self.granules[page as usize] |= granules(start, end - 1);
        let bytes = self.code_bytes.entry(page).or_insert_with(|| Box::new([0; 64]));
        bits(start, end - 1).for_each(|(word, mask)| bytes[word] |= mask);
        let base = self.ram.address_of(page);
        self.note_unwatched(base + start, end - start);
        self.guard(page, Guards::CODE);
    }

    /// The code of a page is stale.
    fn code_changes(&mut self, page: u64) {
        self.guards[page as usize].remove(Guards::CODE);
        self.granules[page as usize] = 0;
        self.code_bytes.remove(&page);
        self.stale_code.push(page);
        self.code.iter_mut().for_each(|space| space.drop_code(page));
        self.leave = true;
    }

    /// A store to a page that walks have read. A leaf table gives up all that was made from it and its guard
    /// at once: entries are written in bursts. An upper table does so at the first store that narrows or changes an
    /// entry; one that fills or widens an entry drops nothing, unless many come with no walk in between:
    /// then this was a table once, and is data now.
    fn table_written(&mut self, cpu: Option<&dyn Cpu>, page: u64, addr: u64, len: u64, value: Option<u64>) {
        let keeps = match self.tables.users_stored(page) {
            Some(Users::All) => {
                self.drop_translations();
                return;
            }
            Some(Users::Some { list, stores }) => {
                let upper = list.iter().all(|user| user.shift != 12);
                let cpu = cpu.filter(|_| upper && *stores < MAX_STORES);
                let entry = addr & !7;
                // Only a store within one entry can be judged.
                match (cpu, value) {
                    (Some(cpu), Some(value)) if addr + len <= entry + 8 => {
                        let old = self.ram.read(entry, Size::B8);
                        let shift = 8 * (addr - entry) as u32;
                        let mask = (u64::MAX >> (64 - 8 * len)) << shift;
                        let new = old & !mask | value << shift & mask;
                        list.iter()
                            .all(|user| cpu.table_change(user.shift, old, new) == TableChange::Nothing)
                    }
                    _ => false,
                }
            }
            None => false,
        };
        if keeps {
            return;
        }
        self.guards[page as usize].remove(Guards::TABLE);
        if let Some(Users::Some { list, .. }) = self.tables.take(page) {
            for user in list {
                let len = 512 << user.shift;
                self.drop_range(user, user.base, len);
                self.abandon(user, user.base, len);
            }
        }
    }

    fn drop_range(&mut self, user: User, base: u64, len: u64) {
        if user.code {
            if self.code[user.space as usize].clear_range(base, len) {
                self.leave = true;
            }
        } else {
            self.data[user.space as usize].clear_range(base, len);
        }
    }

    fn abandon(&mut self, user: User, base: u64, len: u64) {
        let guards = &mut self.guards;
        self.tables.abandon(user, base, len, |page| {
            guards[page as usize].remove(Guards::TABLE)
        });
    }

    /// Drops every translation (protection or the map changed, or memory was restored).
    pub fn drop_translations(&mut self) {
        self.data.iter_mut().for_each(Space::clear);
        self.code.iter_mut().for_each(CodeSpace::clear);
        for page in self.tables.clear() {
            self.guards[page as usize].remove(Guards::TABLE);
        }
        let roots = self.halves.clear();
        self.end_roots(roots);
        self.forget_chosen();
        self.moved = true;
        self.leave = true;
    }

    /// Forgets where the code of a RAM page was.
    pub fn drop_code_of(&mut self, page: u64) {
        self.code.iter_mut().for_each(|space| space.drop_code(page));
    }

    /// Puts back a page of a snapshot, if it differs.
    pub fn restore_page(&mut self, page: u64, bytes: &[u8; PAGE as usize]) -> Result<(), String> {
        if page >= self.ram.pages() {
            return Err(format!(
                "it has a page {page}, and memory has {}",
                self.ram.pages()
            ));
        }
        let old = self.ram.page(page);
        if *old == *bytes {
            return Ok(());
        }
        // Code survives where its own bytes are the same.
        let changed = (0..64).filter(|g| old[g * 64..g * 64 + 64] != bytes[g * 64..g * 64 + 64]);
        let changed = changed.fold(0, |mask, g| mask | 1u64 << g);
        let addr = self.ram.address_of(page);
        if self.guards[page as usize].contains(Guards::CODE) {
            if self.granules[page as usize] & changed != 0 {
                self.code_changes(page);
            } else {
                self.guards[page as usize].remove(Guards::CODE);
                self.write_bytes(addr, bytes);
                self.guards[page as usize].insert(Guards::CODE);
                return Ok(());
            }
        }
        self.write_bytes(addr, bytes);
        Ok(())
    }

    /// Replaces the watchpoints.
    pub fn set_watches(&mut self, watches: Vec<Watch>) {
        if watches == self.watches {
            return;
        }
        for watch in std::mem::replace(&mut self.watches, watches) {
            for page in self.pages_of(&watch) {
                self.guards[page as usize].remove(Guards::WATCH);
            }
        }
        for watch in self.watches.clone() {
            for page in self.pages_of(&watch) {
                self.guard(page, Guards::WATCH);
                self.data.iter_mut().for_each(|space| space.drop_physical(page));
            }
        }
    }

    fn pages_of(&self, watch: &Watch) -> Vec<u64> {
        let last = watch.addr.saturating_add(watch.len.saturating_sub(1));
        (watch.addr / PAGE..=last / PAGE)
            .filter_map(|p| self.ram.page_of(p * PAGE))
            .collect()
    }

    /// The index of the first watchpoint that an access to `len` bytes at `addr` hits.
    pub fn watched(&self, addr: u64, len: u64, write: bool) -> Option<usize> {
        self.watches.iter().position(|w| {
            let overlaps = addr < w.addr.saturating_add(w.len) && w.addr < addr.saturating_add(len);
            overlaps && if write { w.write } else { w.read }
        })
    }

    /// Memory is read in a way that no watchpoint sees: as an instruction, by a walk, as an argument of semihosting.
    pub fn note_unwatched(&mut self, addr: u64, len: u64) {
        self.unwatched |= self.has_watches() && self.watched(addr, len, false).is_some();
    }

    /// Whether, since the last call, watched bytes may have been read in a way that no watchpoint saw.
    pub fn take_unwatched(&mut self) -> bool {
        std::mem::take(&mut self.unwatched)
    }

    /// Whether there are watchpoints at all.
    pub fn has_watches(&self) -> bool {
        !self.watches.is_empty()
    }
}

impl PhysMem for Memory {
    fn read_entry(&mut self, addr: u64, size: Size) -> Option<u64> {
        let addr = self.find(addr, false)?;
        self.note_unwatched(addr, size.bytes());
        self.ram
            .contains(addr, size.bytes())
            .then(|| self.ram.read(addr, size))
    }

    /// A and D bits: they only widen what a walk grants, so no translation is dropped; the other guards
    /// hold. Tables in ROM keep theirs.
    fn write_entry(&mut self, addr: u64, size: Size, value: u64) -> Option<()> {
        let Some(addr) = self.find(addr, true) else {
            // On the bus, where nobody takes it.
            return Some(());
        };
        if !self.ram.contains(addr, size.bytes()) {
            return None;
        }
        let page = self.ram.page_of(addr)?;
        if self.ram.is_rom(page) {
            return Some(());
        }
        let table = self.guards[page as usize] & Guards::TABLE;
        self.guards[page as usize].remove(Guards::TABLE);
        self.write(None, addr, size, value);
        self.guards[page as usize].insert(table);
        self.walk_writes.push(addr);
        Some(())
    }
}
