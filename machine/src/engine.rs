//! The two engines behind one face: the JIT and the IR interpreter.
//!
//! Blocks are known by [`BlockKey`]. An engine's entry (a host address, or the interpreter's block number) is
//! what jump caches hold. The JIT's engine interprets too: the tail of a budget that doesn't hold a whole
//! block, so that a run ends exactly where it must.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use cpu::interp::Scratch;
use cpu::ir::Block;
use cpu::{Env, Exit, Layout};
use jit::{BlockKey, Jit, LinkSite, Passes, Ran};

use crate::error::MachineError;

/// Bytes of translated code before everything is translated anew.
const CODE_CACHE: usize = 256 << 20;

/// The interpreter's blocks.
#[derive(Default)]
struct Interp {
    by_key: BTreeMap<BlockKey, u64>,
    /// Those that straddle, by their second page.
    tails: BTreeMap<u64, BTreeSet<BlockKey>>,
    /// By number; number 0 is never used, so that an empty jump-cache entry is no block.
    blocks: Vec<Option<Block>>,
    scratch: Scratch,
}

impl Interp {
    fn new() -> Interp {
        Interp {
            blocks: vec![None],
            ..Interp::default()
        }
    }

    fn find(&self, key: BlockKey) -> Option<u64> {
        self.by_key.get(&key).copied()
    }

    fn add(&mut self, key: BlockKey, block: Block) -> u64 {
        self.blocks.push(Some(block));
        let entry = self.blocks.len() as u64 - 1;
        self.by_key.insert(key, entry);
        if let Some(second) = key.next {
            self.tails.entry(second).or_default().insert(key);
        }
        entry
    }

    fn drop_page(&mut self, page: u64) {
        let first = BlockKey {
            page,
            offset: 0,
            mode: 0,
            next: None,
        };
        let last = BlockKey {
            page,
            offset: u16::MAX,
            mode: u64::MAX,
            next: Some(u64::MAX),
        };
        let own: Vec<BlockKey> = self.by_key.range(first..=last).map(|(k, _)| *k).collect();
        let tails = self.tails.remove(&page).unwrap_or_default();
        for key in own.into_iter().chain(tails) {
            if let Some(entry) = self.by_key.remove(&key) {
                self.blocks[entry as usize] = None;
            }
        }
    }

    fn flush(&mut self) {
        self.by_key.clear();
        self.tails.clear();
        self.blocks.truncate(1);
    }

    fn run<E: Env>(
        &mut self,
        env: &mut E,
        layout: &Layout,
        entry: u64,
        breakpoints: &[u16],
        left: &mut u64,
    ) -> Exit {
        match self.blocks.get(entry as usize) {
            Some(Some(block)) => cpu::interp::run(block, layout, env, &mut self.scratch, left, breakpoints),
            // A jump cache that outlives its block is a bug; going through the look-up again is right anyway.
            Some(None) | None => Exit::Next,
        }
    }
}

/// Which engine to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// Translate to host code.
    #[default]
    Jit,
    /// The same with these passes only, to find out which one is at fault.
    JitWith(Passes),
    /// Interpret the IR.
    Interp,
}

/// How an engine came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// As it says.
    Exit(Exit),
    /// As [`Exit::Next`], and the jump may be made direct.
    Link(LinkSite),
    /// The block doesn't fit into the budget: interpret it.
    Tail,
    /// The block at pc should be made anew along a path.
    Hot,
}

/// An engine. It learns for which guest when a machine is built with it.
pub struct Engine {
    /// Whether to translate, and with which passes.
    translates: Option<Passes>,
    jit: Option<Box<Jit>>,
    interp: Interp,
    breakpoints: Vec<u16>,
    map: Option<PerfMap>,
    clock: Option<HostClock>,
    /// Host time that translating took, in ns, if there is a clock.
    translating: u64,
}

/// Where the names of translated blocks are written for `perf`.
pub type PerfMap = Box<dyn std::io::Write + Send>;
/// Host time since some moment. It measures the translator, and nothing depends on it.
pub type HostClock = Box<dyn Fn() -> Duration + Send>;

impl Engine {
    /// The interpreter.
    pub fn interp() -> Engine {
        Engine {
            translates: None,
            jit: None,
            interp: Interp::new(),
            breakpoints: Vec::new(),
            map: None,
            clock: None,
            translating: 0,
        }
    }

    /// The engine of this kind.
    ///
    /// # Errors
    /// The host lacks what translated code needs (AVX2, BMI2, FMA).
    pub fn new(kind: EngineKind) -> Result<Engine, MachineError> {
        let passes = match kind {
            EngineKind::Interp => None,
            EngineKind::Jit => Some(Passes::all()),
            EngineKind::JitWith(passes) => Some(passes),
        };
        if passes.is_some() {
            jit::supported().map_err(jit::JitError::from)?;
        }
        let mut engine = Engine::interp();
        engine.translates = passes;
        Ok(engine)
    }

    /// Makes it an engine for a guest of this layout. Where no code can be kept, it interprets; what is computed is
    /// the same. Yields what the user should hear of that.
    pub(crate) fn bind(&mut self, layout: &'static Layout) -> Option<String> {
        let passes = self.translates?;
        match Jit::new(layout, CODE_CACHE) {
            Ok(mut jit) => {
                jit.set_passes(passes);
                if let Some(map) = self.map.take() {
                    jit.set_perf_map(map);
                }
                self.jit = Some(Box::new(jit));
                None
            }
            Err(error) => {
                self.translates = None;
                Some(format!("{error}; interpreting instead"))
            }
        }
    }

    /// Which passes the JIT runs on blocks from now on.
    pub fn set_passes(&mut self, passes: Passes) {
        if let Some(wanted) = &mut self.translates {
            *wanted = passes;
        }
        if let Some(jit) = &mut self.jit {
            jit.set_passes(passes);
        }
    }

    /// The JIT's counters.
    pub fn stats(&self) -> Option<jit::Stats> {
        self.jit.as_ref().map(|jit| jit.stats())
    }

    /// Host time that translating took, in ns, if there is a clock.
    pub fn translating(&self) -> u64 {
        self.translating
    }

    /// Has the name of each block written that is translated from now on, in the format of perf's map files.
    #[must_use]
    pub fn with_perf_map(mut self, map: PerfMap) -> Engine {
        self.map = Some(map);
        self
    }

    /// Has translating measured.
    #[must_use]
    pub fn with_clock(mut self, clock: HostClock) -> Engine {
        self.clock = Some(clock);
        self
    }

    /// The time now, for [`Engine::translated_since`].
    pub(crate) fn now(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock())
    }

    /// Something was translated, from that moment on.
    pub(crate) fn translated_since(&mut self, start: Option<Duration>) {
        if let (Some(start), Some(now)) = (start, self.now()) {
            self.translating += now.saturating_sub(start).as_nanos() as u64;
        }
    }

    /// The entry of a block.
    pub(crate) fn find(&mut self, key: BlockKey) -> Option<u64> {
        match &mut self.jit {
            Some(jit) => jit.find(key).map(|id| jit.entry(id)),
            None => self.interp.find(key),
        }
    }

    /// The entry of a block that was dropped and is what `bytes`, which begin at its first, mean again; and the number
    /// of its bytes.
    pub(crate) fn revive(&mut self, key: BlockKey, bytes: &[u8]) -> Option<(u64, usize)> {
        let jit = self.jit.as_mut()?;
        let (id, len) = jit.revive(key, bytes)?;
        Some((jit.entry(id), len))
    }

    /// Takes in a block, made from `source` within one page, or from two (`None`). `false`: the cache was full, and all that it
    /// held is gone.
    pub(crate) fn add(
        &mut self,
        key: BlockKey,
        block: Block,
        source: Option<&[u8]>,
    ) -> Result<(u64, bool), MachineError> {
        let Some(jit) = &mut self.jit else {
            return Ok((self.interp.add(key, block), true));
        };
        let (id, kept) = match jit.compile(key, &block, &self.breakpoints) {
            Ok(id) => (id, true),
            Err(_) => {
                jit.flush();
                self.interp.flush();
                (jit.compile(key, &block, &self.breakpoints)?, false)
            }
        };
        if let Some(source) = source {
            jit.set_source(id, source);
        }
        Ok((jit.entry(id), kept))
    }

    /// Takes in the path that begins with a block that runs often, in its place. As [`Engine::add`].
    pub(crate) fn add_path(&mut self, key: BlockKey, block: &Block) -> Option<u64> {
        let jit = self.jit.as_mut()?;
        // A full cache is the business of whoever translates what isn't there yet.
        let id = jit.compile_path(key, block, &self.breakpoints).ok()?;
        Some(jit.entry(id))
    }

    /// How often a block has run, up to a bound.
    pub(crate) fn heat(&mut self, key: BlockKey) -> u32 {
        self.jit.as_mut().map_or(0, |jit| jit.heat(key))
    }

    /// The block is not to be asked about any more.
    pub(crate) fn leave_as_is(&mut self, key: BlockKey) {
        if let Some(jit) = &mut self.jit {
            jit.leave_as_is(key);
        }
    }

    /// Makes a direct jump go straight to a block.
    pub(crate) fn link(&mut self, site: LinkSite, to: BlockKey) {
        if let Some(jit) = &mut self.jit
            && let Some(id) = jit.find(to)
        {
            jit.link(site, id);
        }
    }

    /// Makes a direct jump to a block that straddles ask the jump cache.
    pub(crate) fn detour(&mut self, site: LinkSite) {
        if let Some(jit) = &mut self.jit {
            jit.detour(site);
        }
    }

    /// Throws away the code of a RAM page that `bytes`, which it holds now, no longer mean. Yields which bytes the code
    /// was made from that stays.
    pub(crate) fn drop_page(&mut self, page: u64, bytes: &[u8]) -> Vec<Range<usize>> {
        self.interp.drop_page(page);
        self.jit
            .as_mut()
            .map(|jit| jit.drop_page(page, bytes))
            .unwrap_or_default()
    }

    /// Throws away everything.
    pub(crate) fn flush(&mut self) {
        self.interp.flush();
        if let Some(jit) = &mut self.jit {
            jit.flush();
        }
    }

    /// Page offsets before which [`Env::breakpoint`] is asked, in blocks added from now on; the caller flushes.
    pub(crate) fn set_breakpoints(&mut self, offsets: &[u16]) {
        self.breakpoints = offsets.to_vec();
    }

    /// Runs from `entry` until the engine has to come back; takes the steps made from `left`.
    pub(crate) fn run<E: Env>(
        &mut self,
        env: &mut E,
        layout: &'static Layout,
        entry: u64,
        left: &mut u64,
    ) -> Back {
        match &mut self.jit {
            Some(jit) => match jit.run(env, entry, left) {
                Ran::Exit(exit) => Back::Exit(exit),
                Ran::Link(site) => Back::Link(site),
                Ran::Tail => Back::Tail,
                Ran::Hot => Back::Hot,
            },
            None => Back::Exit(self.interp.run(env, layout, entry, &self.breakpoints, left)),
        }
    }

    /// Interprets a block of the JIT's, made by `lift` if it wasn't needed before.
    pub(crate) fn interpret<E: Env>(
        &mut self,
        env: &mut E,
        layout: &'static Layout,
        key: BlockKey,
        lift: impl FnOnce(&mut E) -> Block,
        left: &mut u64,
    ) -> Exit {
        let entry = match self.interp.find(key) {
            Some(entry) => entry,
            None => {
                let block = lift(env);
                self.interp.add(key, block)
            }
        };
        self.interp.run(env, layout, entry, &self.breakpoints, left)
    }
}
