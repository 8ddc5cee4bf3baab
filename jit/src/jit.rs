//! The code cache from outside: blocks by key, exits by number, links, flushes.
//!
//! A block is found by its *physical* page, so that all address spaces share it. Links stay within a
//! page. When a page changes, the blocks of it that aren't what it holds any more are dropped, with the links to them. A block that straddles
//! two pages is dropped with either, and is never the target of a link.
//!
//! A dropped block is parked with the bytes that it was made from: where the same bytes are met again under its key it
//! comes back as it was ([`Jit::revive`]). Code that is patched to and fro, and pages that come back with the same program
//! then cost a comparison, not a translation.

use std::collections::BTreeMap;
use std::ops::Range;

use cpu::ir::{Block, Target};
use cpu::{Env, Exit, Layout, Trap};

use crate::cache::Cache;
use crate::generate::{Generator, Input};
use crate::passes::Passes;
use crate::run;
use crate::thunks::{self, EXIT_DISPATCH, EXIT_NEXT, EXIT_STOP, Thunks};
use crate::words;

/// What a translation is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKey {
    /// RAM page number.
    pub page: u64,
    /// Offset of the first instruction in it.
    pub offset: u16,
    /// [`cpu::Cpu::block_mode`].
    pub mode: u64,
    /// RAM page number of the following bytes, for a block that straddles, and only for one.
    pub next: Option<u64>,
}

/// A translated block; valid until its page is dropped or the cache is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    index: u32,
    entry: u64,
}

/// A direct jump that [`Jit::link`] can make go straight to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSite {
    exit: u32,
    generation: u32,
}

/// How a run of translated code ended. The pc slot is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// As the interpreter's exit of that name. [`Exit::Budget`] doesn't occur.
    Exit(Exit),
    /// As [`Exit::Next`]; and the block at pc, which is on the page of the one that was left, may be
    /// linked to the site.
    Link(LinkSite),
    /// The block at pc doesn't fit in the budget (which may be 0): interpret it.
    Tail,
    /// The block at pc has run often, and should be made anew by [`Jit::compile_path`].
    Hot,
}

/// What can go wrong when a cache is made.
#[derive(Debug, thiserror::Error)]
pub enum JitError {
    /// The host can't run what would be made.
    #[error(transparent)]
    Missing(#[from] crate::Missing),
    /// The host gave no memory.
    #[error("mapping the code cache: {0}")]
    Map(std::io::Error),
    /// Our bug.
    #[error("assembling the thunks failed")]
    Assemble,
    /// The layout has fewer hot slots than there are homes, or they are among the engine's.
    #[error("the layout's hot slots don't fit")]
    Layout,
}

/// The cache has no room: flush it, make its users forget what they know of it, and compile again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the code cache is full")]
pub struct Full;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks compiled.
    pub blocks: u64,
    /// Guest instructions in them.
    pub insns: u64,
    /// Host bytes in them, hot and cold.
    pub bytes: u64,
    /// Of these, hot.
    pub hot_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Entries into translated code.
    pub runs: u64,
    /// Exits to be linked.
    pub links: u64,
    /// Exits because a block wasn't in the jump cache.
    pub misses: u64,
    /// Exits to the run loop.
    pub dispatches: u64,
    /// Stops, traps and breakpoints.
    pub stops: u64,
    /// Blocks that did not fit in the budget.
    pub tails: u64,
    /// Blocks that were made anew, along a path.
    pub paths: u64,
    /// Guest instructions in them.
    pub path_insns: u64,
    /// Dropped blocks that came back.
    pub revived: u64,
    /// Accesses that Rust was asked about: TLB misses, guarded pages, devices, crossings.
    pub slow: u64,
    /// Helpers called, and boundaries asked about.
    pub helpers: u64,
}

/// What an exit number means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExitRecord {
    pub kind: ExitKind,
    /// Steps to give back to the budget.
    pub give_back: u32,
    /// Program counter as an offset from the page, unless the code has set the slot.
    pub target: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ExitKind {
    /// A stop; see [`run::Ctx`].
    Stop,
    Next,
    /// A direct jump within the page, of the block of this id, whose displacement is at this address.
    /// `unlinked` is where the jump goes while it isn't linked, once it has been.
    Link {
        block: u32,
        at: u64,
        unlinked: Option<u64>,
    },
    Dispatch,
    /// A constant trap; `None`: its value is the program counter.
    Trap {
        cause: u64,
        value: Option<u64>,
    },
    Tail,
    /// It has run often.
    Hot,
}

/// See [`Jit::set_often`].
const OFTEN: i32 = 1000;

/// The most guesses of a block, and that many more than there can be.
const MOST_GUESSES: usize = 4096;

struct Compiled {
    key: BlockKey,
    entry: u64,
    len: u32,
    insns: u8,
    live: bool,
    /// How often it is still to run before it is made anew.
    counter: Option<u32>,
    exits: Range<u32>,
    /// The guest's bytes, if it may be parked.
    source: Option<Box<[u8]>>,
}

/// The most versions of a block that are parked; the oldest gives way.
const VERSIONS: usize = 4;

#[derive(Default)]
struct PageBlocks {
    /// Sorted by key.
    own: Vec<(BlockKey, u32)>,
    /// Blocks that begin on another page and go on on this one.
    tails: Vec<u32>,
}

/// A block that was looked for; four in one line of the host's cache.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    /// Its key, packed; 0: none.
    key: u64,
    index: u32,
    /// Its entry, from the start of the cache.
    entry: u32,
}

/// log2 of the number of guesses.
const GUESS_BITS: u32 = 17;
/// Block modes that packed keys know; others are found without a guess.
const MODES: usize = 1 << 12;
/// RAM pages that packed keys know.
const PACKED_PAGES: u64 = 1 << 39;

/// Index of a packed key's guess.
fn guess_of(packed: u64) -> usize {
    (packed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GUESS_BITS)) as usize
}

/// Translated code and all that is known of it.
pub struct Jit {
    layout: &'static Layout,
    cache: Cache,
    thunks: Thunks,
    blocks: Vec<Compiled>,
    pages: Vec<Option<Box<PageBlocks>>>,
    /// Blocks by a hash of their keys: a guess at what [`Jit::find`] looks for.
    guesses: Box<[Guess]>,
    /// Numbers of block modes, for packed keys, with the one used last.
    modes: Vec<u64>,
    last_mode: (u64, u64),
    /// Dropped blocks that can come back.
    parked: BTreeMap<BlockKey, Vec<u32>>,
    exits: Vec<ExitRecord>,
    generation: u32,
    generator: Generator,
    passes: Passes,
    /// Runs after which a block is made anew along the path that is mostly taken.
    often: i32,
    stats: Stats,
    map: Option<Box<dyn std::io::Write + Send>>,
}

impl Jit {
    /// A cache of `capacity` bytes (at most 1 GiB) for a guest of that layout.
    pub fn new(layout: &'static Layout, capacity: usize) -> Result<Jit, JitError> {
        crate::supported()?;
        let engine = |slot: &cpu::ir::Slot| usize::from(slot.0) >= cpu::ENGINE_SLOTS;
        if layout.hot.len() < crate::gen_regs::HOMES.len() || layout.hot.iter().any(engine) {
            return Err(JitError::Layout);
        }
        let capacity = capacity.clamp(1 << 16, 1 << 30);
        let mut cache = Cache::new(capacity)?;
        let (bytes, thunks) = thunks::make(cache.next(), layout)?;
        cache.append(&bytes);
        cache.keep();
        let mut jit = Jit {
            layout,
            cache,
            thunks,
            blocks: Vec::new(),
            pages: Vec::new(),
            guesses: vec![Guess::default(); 1 << GUESS_BITS].into_boxed_slice(),
            modes: Vec::new(),
            last_mode: (0, 0),
            parked: BTreeMap::new(),
            exits: Vec::new(),
            generation: 0,
            generator: Generator::new(layout),
            passes: Passes::all(),
            often: OFTEN,
            stats: Stats::default(),
            map: None,
        };
        jit.forget();
        Ok(jit)
    }

    /// Which passes run; for finding out which one is at fault. Takes effect for later compilations.
    pub fn set_passes(&mut self, passes: Passes) {
        self.passes = passes;
    }

    /// Has a line written for each block that is compiled from now on, in the format of perf's map files
    /// (`/tmp/perf-<pid>.map`): start, size and name, which is the guest's page, offset and mode.
    pub fn set_perf_map(&mut self, map: Box<dyn std::io::Write + Send>) {
        self.map = Some(map);
    }

    /// After how many runs a block is made anew along the path that is mostly taken; for blocks compiled from now on.
    pub fn set_often(&mut self, runs: i32) {
        self.often = runs;
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The block of that key.
    pub fn find(&mut self, key: BlockKey) -> Option<BlockId> {
        let packed = self.packed(&key);
        if let Some(packed) = packed {
            let guess = self.guesses[guess_of(packed)];
            if guess.key == packed {
                return Some(BlockId {
                    index: guess.index,
                    entry: self.cache.start() + u64::from(guess.entry),
                });
            }
        }
        let page = self.pages.get(key.page as usize)?.as_ref()?;
        let at = page.own.binary_search_by(|(k, _)| k.cmp(&key)).ok()?;
        let block = self.id(page.own[at].1);
        if let Some(packed) = packed {
            self.guesses[guess_of(packed)] = Guess {
                key: packed,
                index: block.index,
                entry: (block.entry - self.cache.start()) as u32,
            };
        }
        Some(block)
    }

    /// The key in one word, never 0; `None` if it straddles or is beyond what fits.
    fn packed(&mut self, key: &BlockKey) -> Option<u64> {
        if key.next.is_some() || key.page >= PACKED_PAGES {
            return None;
        }
        if self.last_mode != (key.mode, self.last_mode.1) || self.modes.is_empty() {
            let number = match self.modes.iter().position(|mode| *mode == key.mode) {
                Some(number) => number,
                None if self.modes.len() < MODES => {
                    self.modes.push(key.mode);
                    self.modes.len() - 1
                }
                None => return None,
            };
            self.last_mode = (key.mode, number as u64);
        }
        Some(1 | self.last_mode.1 << 1 | u64::from(key.offset & 0xfff) << 13 | key.page << 25)
    }

    fn id(&self, index: u32) -> BlockId {
        BlockId {
            index,
            entry: self.blocks[index as usize].entry,
        }
    }

    /// A block is found no more.
    fn bury(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.live = false;
        let key = block.key;
        if let Some(packed) = self.packed(&key) {
            let guess = &mut self.guesses[guess_of(packed)];
            if guess.index == index {
                *guess = Guess::default();
            }
        }
    }

    /// A block is buried, and comes back where its bytes do.
    fn park(&mut self, index: u32) {
        self.bury(index);
        let block = &self.blocks[index as usize];
        if block.source.is_none() {
            return;
        }
        let versions = self.parked.entry(block.key).or_default();
        if versions.len() == VERSIONS {
            versions.remove(0);
        }
        versions.push(index);
        // What it jumped to may not come back, or as something else.
        self.unlink(index, |_| true);
    }

    /// Takes the links of a block back that go to page offsets which are `gone`.
    fn unlink(&mut self, index: u32, gone: impl Fn(i32) -> bool) {
        let Range { start, end } = self.blocks[index as usize].exits;
        for exit in &self.exits[start as usize..end as usize] {
            if let ExitRecord {
                kind:
                    ExitKind::Link {
                        at,
                        unlinked: Some(home),
                        ..
                    },
                target: Some(target),
                ..
            } = *exit
                && gone(target)
            {
                self.cache.patch(at, home);
            }
        }
    }

    /// Brings back the block of that key which was made from the bytes at the start of `bytes`, if one was dropped.
    /// Yields it and the number of its bytes.
    pub fn revive(&mut self, key: BlockKey, bytes: &[u8]) -> Option<(BlockId, usize)> {
        let versions = self.parked.get_mut(&key)?;
        let blocks = &self.blocks;
        let source = |index: u32| blocks[index as usize].source.as_deref();
        let at = versions
            .iter()
            .position(|index| source(*index).is_some_and(|source| bytes.starts_with(source)))?;
        let index = versions.remove(at);
        if versions.is_empty() {
            self.parked.remove(&key);
        }
        let block = &mut self.blocks[index as usize];
        block.live = true;
        let len = block.source.as_ref().map_or(0, |source| source.len());
        self.stats.revived += 1;
        self.insert(key, index);
        Some((self.id(index), len))
    }

    /// Says which bytes of its page a block was made from, so that it can be parked: not for one that straddles.
    pub fn set_source(&mut self, block: BlockId, bytes: &[u8]) {
        self.blocks[block.index as usize].source = Some(bytes.into());
    }

    /// Host address of a block's entry, for [`crate::tlb::CodeSpace::insert`] and [`Jit::run`].
    pub fn entry(&self, block: BlockId) -> u64 {
        block.entry
    }

    /// Translates a block. Before the instructions at page offsets `breakpoints` the code asks
    /// [`Env::breakpoint`]. Links to blocks of its page that exist already are made at once.
    pub fn compile(&mut self, key: BlockKey, block: &Block, breakpoints: &[u16]) -> Result<BlockId, Full> {
        let counts = self.passes.has(Passes::PATHS) && key.next.is_none() && breakpoints.is_empty();
        let counter = if counts {
            self.cache.new_counter(self.often)
        } else {
            None
        };
        self.make(key, block, breakpoints, counter, false)
    }

    /// Translates the path that begins with the block of that key, which [`Ran::Hot`] asked for, to take its place.
    pub fn compile_path(
        &mut self,
        key: BlockKey,
        block: &Block,
        breakpoints: &[u16],
    ) -> Result<BlockId, Full> {
        let old = self.find(key);
        let guesses = self.passes.has(Passes::GUESS);
        let new = self.make(key, block, breakpoints, None, guesses)?;
        if let Some(old) = old
            && self.blocks[old.index as usize].counter.is_some()
        {
            // Who jumps to it goes on to the new one.
            self.cache.redirect(old.entry, new.entry);
        }
        self.stats.paths += 1;
        self.stats.path_insns += u64::from(block.steps());
        Ok(new)
    }

    /// How often the block of that key has run, up to a bound at which it was made anew.
    pub fn heat(&mut self, key: BlockKey) -> u32 {
        let Some(id) = self.find(key) else { return 0 };
        match self.blocks[id.index as usize].counter {
            Some(counter) => self.often.saturating_sub(self.cache.counter(counter)).max(0) as u32,
            None => self.often as u32,
        }
    }

    /// The block of that key stays as it is.
    pub fn leave_as_is(&mut self, key: BlockKey) {
        if let Some(id) = self.find(key)
            && let Some(counter) = self.blocks[id.index as usize].counter
        {
            self.cache.set_counter(counter, i32::MAX);
        }
    }

    fn make(
        &mut self,
        key: BlockKey,
        block: &Block,
        breakpoints: &[u16],
        counter: Option<u32>,
        guesses: bool,
    ) -> Result<BlockId, Full> {
        let id = self.blocks.len() as u32;
        debug_assert!(block.verify().is_ok(), "{:?}", block.verify());
        let input = Input {
            block,
            breakpoints,
            passes: self.passes,
            thunks: &self.thunks,
            first_exit: self.exits.len() as u32,
            guesses: self.cache.guesses(MOST_GUESSES).filter(|_| guesses),
            counter: counter.map(|counter| self.cache.counter_address(counter)),
        };
        let out = self.generator.generate(input);
        let hot = (out.hot.pos() + 15) & !15;
        let len = hot + out.cold.pos();
        if len + 64 > self.cache.left() {
            return Err(Full);
        }
        let entry = self.cache.next();
        out.place_at(entry, hot);
        let first_exit = self.exits.len();
        for exit in &out.exits {
            let mut record = exit.record;
            if let ExitKind::Link { at, unlinked, .. } = record.kind {
                let part = if exit.cold { hot as u64 } else { 0 };
                record.kind = ExitKind::Link {
                    block: id,
                    at: entry + part + at,
                    unlinked,
                };
            }
            self.exits.push(record);
        }
        let guessed = out.guessed;
        self.stats.blocks += 1;
        self.stats.insns += u64::from(block.steps());
        self.stats.bytes += len as u64;
        self.stats.hot_bytes += out.hot.pos() as u64;
        self.cache.append(&out.hot.buf);
        self.cache.append_here(entry + hot as u64, &out.cold.buf);
        self.cache.keep_guesses(guessed);
        let compiled = Compiled {
            key,
            entry,
            len: len as u32,
            insns: block.steps() as u8,
            live: true,
            counter,
            exits: first_exit as u32..self.exits.len() as u32,
            source: None,
        };
        self.blocks.push(compiled);
        self.label(id);
        self.insert(key, id);
        for exit in first_exit..self.exits.len() {
            let ExitRecord {
                kind: ExitKind::Link { .. },
                target: Some(target),
                ..
            } = self.exits[exit]
            else {
                continue;
            };
            let wanted = BlockKey {
                offset: target as u16,
                next: None,
                ..key
            };
            if let Some(to) = self.find(wanted) {
                let site = LinkSite {
                    exit: exit as u32,
                    generation: self.generation,
                };
                self.link(site, to);
            }
        }
        Ok(self.id(id))
    }

    /// What the passes make of a block, for dumps. An op that is no longer needed is a constant that nobody uses.
    pub fn optimised(&mut self, block: &Block, passes: Passes) -> Block {
        self.generator.optimised(Input {
            block,
            breakpoints: &[],
            passes,
            thunks: &self.thunks,
            first_exit: 0,
            guesses: None,
            counter: None,
        })
    }

    pub(crate) fn thunks(&self) -> &Thunks {
        &self.thunks
    }

    pub(crate) fn layout(&self) -> &'static Layout {
        self.layout
    }

    pub(crate) fn exit(&self, number: u32) -> Option<&ExitRecord> {
        self.exits.get(number as usize)
    }

    fn page(&mut self, page: u64) -> &mut PageBlocks {
        let index = page as usize;
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        self.pages[index].get_or_insert_with(Default::default)
    }

    fn insert(&mut self, key: BlockKey, id: u32) {
        let own = &mut self.page(key.page).own;
        match own.binary_search_by(|(k, _)| k.cmp(&key)) {
            // Compiled again, with other breakpoints say: the new one counts.
            Ok(at) => {
                let old = std::mem::replace(&mut own[at].1, id);
                self.bury(old);
            }
            Err(at) => own.insert(at, (key, id)),
        }
        if let Some(next) = key.next {
            self.page(next).tails.push(id);
        }
    }

    /// Makes the jump at `site` go straight to `to`. Nothing happens unless both are alive, of one page and
    /// mode, and `to` is where the jump goes and doesn't straddle.
    pub fn link(&mut self, site: LinkSite, to: BlockId) {
        if site.generation != self.generation {
            return;
        }
        let Some(ExitRecord {
            kind: ExitKind::Link { block, at, unlinked },
            target,
            ..
        }) = self.exits.get_mut(site.exit as usize)
        else {
            return;
        };
        let (block, at, target) = (*block, *at, *target);
        let (from, to) = (&self.blocks[block as usize], &self.blocks[to.index as usize]);
        let wanted = BlockKey { next: None, ..to.key };
        let here = BlockKey {
            offset: to.key.offset,
            next: None,
            ..from.key
        };
        if from.live && to.live && wanted == to.key && wanted == here && target == Some(to.key.offset.into())
        {
            unlinked.get_or_insert_with(|| self.cache.target(at));
            self.cache.patch(at, to.entry);
        }
    }

    /// Makes the jump at `site` ask the jump cache: for one whose target straddles, to which there are no links.
    pub fn detour(&mut self, site: LinkSite) {
        let Some(&ExitRecord {
            kind: ExitKind::Link { block, at, .. },
            target: Some(target),
            ..
        }) = self.exits.get(site.exit as usize)
        else {
            return;
        };
        if site.generation != self.generation || !self.blocks[block as usize].live {
            return;
        }
        self.generator.detour(Target(target), &self.thunks);
        let out = &mut self.generator;
        let hot = (out.hot.pos() + 15) & !15;
        if hot + out.cold.pos() + 64 > self.cache.left() {
            return;
        }
        let entry = self.cache.next();
        out.place_at(entry, hot);
        self.cache.append(&out.hot.buf);
        self.cache.append_here(entry + hot as u64, &out.cold.buf);
        let home = self.cache.target(at);
        if let Some(ExitRecord {
            kind: ExitKind::Link { unlinked, .. },
            ..
        }) = self.exits.get_mut(site.exit as usize)
        {
            unlinked.get_or_insert(home);
            self.cache.patch(at, entry);
        }
    }

    /// Drops the blocks made from a RAM page that aren't what it holds now (`bytes`), and all that straddle. Whoever caches
    /// entries must forget those of the page. Not while a block of it runs: leave it first. Yields which bytes of the page
    /// the blocks were made from that stay.
    pub fn drop_page(&mut self, page: u64, bytes: &[u8]) -> Vec<Range<usize>> {
        let Some(found) = self.pages.get_mut(page as usize).and_then(Option::take) else {
            return Vec::new();
        };
        let PageBlocks { mut own, tails } = *found;
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        own.retain(|&(key, id)| {
            let start = usize::from(key.offset);
            let range = self.blocks[id as usize]
                .source
                .as_deref()
                .map(|source| (source, start..start + source.len()))
                .filter(|(source, range)| bytes.get(range.clone()) == Some(*source))
                .map(|(_, range)| range);
            let Some(range) = range else {
                dropped.push((key, id));
                return false;
            };
            kept.push(range);
            true
        });
        for &(key, id) in &dropped {
            self.park(id);
            if let Some(other) = key.next.filter(|n| *n != page) {
                self.page(other).tails.retain(|t| *t != id);
            }
        }
        for id in tails {
            self.bury(id);
            let key = self.blocks[id as usize].key;
            if key.page != page {
                self.page(key.page).own.retain(|(_, own)| *own != id);
            }
        }
        for &(key, id) in &own {
            let gone = |target: i32| {
                let to = BlockKey {
                    offset: target as u16,
                    ..key
                };
                dropped.iter().any(|(key, _)| *key == to)
            };
            self.unlink(id, gone);
        }
        if !own.is_empty() {
            self.page(page).own = own;
        }
        kept
    }

    /// Drops all blocks. Whoever caches entries must forget them.
    pub fn flush(&mut self) {
        self.stats.flushes += 1;
        self.forget();
    }

    fn forget(&mut self) {
        self.cache.flush();
        self.blocks.clear();
        self.guesses.fill(Guess::default());
        self.pages.clear();
        self.parked.clear();
        self.exits.clear();
        for (number, kind) in [
            (EXIT_STOP, ExitKind::Stop),
            (EXIT_NEXT, ExitKind::Next),
            (EXIT_DISPATCH, ExitKind::Dispatch),
        ] {
            debug_assert_eq!(self.exits.len() as u32, number);
            self.exits.push(ExitRecord {
                kind,
                give_back: 0,
                target: None,
            });
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// Runs translated code from the entry of a block on, whose page's virtual base is in the page slot. The
    /// data TLB and the jump cache are those last given to [`crate::tlb::set_data`] and
    /// [`crate::tlb::set_jumps`] for these slots, and must be alive. Each instruction completed takes one
    /// from `budget`.
    pub fn run<E: Env>(&mut self, env: &mut E, entry: u64, budget: &mut u64) -> Ran {
        assert!(self.cache.contains(entry), "no entry of a block");
        let regs = env.regs().words();
        assert!(
            regs[words::TLB] != 0 && regs[words::JUMPS] != 0,
            "the engine words are not set"
        );
        self.stats.runs += 1;
        // The assertions are what can be checked of what the function asks for.
        #[allow(unsafe_code)]
        // SAFETY: entries of this cache are made by this generator for this layout; tlb.rs's functions
        // set the engine words.
        let (number, ctx) = unsafe { run::run(self.thunks.enter, entry, self.layout, env, *budget) };
        self.stats.slow += ctx.slow_calls;
        self.stats.helpers += ctx.helper_calls;
        let record = self.exits[number as usize];
        *budget = ctx.budget.wrapping_add(u64::from(record.give_back));
        let regs = env.regs();
        if let Some(target) = record.target {
            regs[self.layout.pc] = regs[self.layout.page].wrapping_add(target as i64 as u64);
        }
        match record.kind {
            ExitKind::Stop => {
                self.stats.stops += 1;
                Ran::Exit(if ctx.breakpoint {
                    Exit::Breakpoint
                } else {
                    Exit::Stop
                })
            }
            ExitKind::Next => {
                self.stats.misses += 1;
                Ran::Exit(Exit::Next)
            }
            ExitKind::Link { .. } => {
                self.stats.links += 1;
                Ran::Link(LinkSite {
                    exit: number,
                    generation: self.generation,
                })
            }
            ExitKind::Dispatch => {
                self.stats.dispatches += 1;
                Ran::Exit(Exit::Dispatch)
            }
            ExitKind::Trap { cause, value } => {
                self.stats.stops += 1;
                let value = value.unwrap_or(regs[self.layout.pc]);
                Ran::Exit(Exit::Trap(Trap { cause, value }))
            }
            ExitKind::Tail => {
                self.stats.tails += 1;
                Ran::Tail
            }
            ExitKind::Hot => Ran::Hot,
        }
    }

    /// The host code of a block, for dumps.
    pub fn code(&self, block: BlockId) -> &[u8] {
        let block = &self.blocks[block.index as usize];
        self.cache.bytes(block.entry, block.len as usize)
    }

    /// Tells perf of a block. A map that can't be written is nobody's concern.
    fn label(&mut self, id: u32) {
        let Some(map) = &mut self.map else { return };
        let block = &self.blocks[id as usize];
        let BlockKey {
            page, offset, mode, ..
        } = block.key;
        let (entry, len, insns) = (block.entry, block.len, block.insns);
        let line = format!("{entry:x} {len:x} guest_{page:x}_{offset:03x}_m{mode:x}_n{insns}\n");
        let _ = map.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jit_may_move_to_another_thread() {
        fn sends<T: Send>() {}
        sends::<Jit>();
    }
}
