//! The two engines behind one face: the JIT and the IR interpreter.
//!
//! Blocks are known by [`BlockKey`]: RAM page, offset, mode. An engine's entry (a host address, or the
//! interpreter's block number) is what jump caches hold.

use std::collections::BTreeMap;

use cpu::interp::Scratch;
use cpu::ir::Block;
use cpu::{Env, Exit, Layout};
use jit::tlb::{DataTable, JumpTable};

/// What identifies a translation: all that it was made from and under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKey {
    /// RAM page of the first byte.
    pub page: u64,
    /// Offset of the first instruction in it.
    pub offset: u16,
    /// Block mode; for a straddling block, the second RAM page too (see `dispatch`).
    pub mode: u64,
}

/// The interpreter's blocks.
#[derive(Default)]
pub struct Interp {
    by_key: BTreeMap<BlockKey, u64>,
    /// By number; number 0 is never used, so that an empty jump-cache entry is no block.
    blocks: Vec<Option<Block>>,
    scratch: Scratch,
    breakpoints: Vec<u16>,
}

/// An engine.
pub enum Engine {
    /// IR interpreter.
    Interp(Interp),
}

impl Engine {
    /// The interpreter.
    pub fn interp() -> Engine {
        Engine::Interp(Interp {
            blocks: vec![None],
            ..Interp::default()
        })
    }

    /// The entry of a block.
    pub fn find(&self, key: BlockKey) -> Option<u64> {
        match self {
            Engine::Interp(interp) => interp.by_key.get(&key).copied(),
        }
    }

    /// Takes in a block. `false` on the right: the cache was full and everything else in it is gone.
    pub fn add(&mut self, key: BlockKey, block: Block) -> (u64, bool) {
        match self {
            Engine::Interp(interp) => {
                interp.blocks.push(Some(block));
                let entry = interp.blocks.len() as u64 - 1;
                interp.by_key.insert(key, entry);
                (entry, true)
            }
        }
    }

    /// Throws away the code of a RAM page.
    pub fn drop_page(&mut self, page: u64) {
        match self {
            Engine::Interp(interp) => {
                let first = BlockKey {
                    page,
                    offset: 0,
                    mode: 0,
                };
                let last = BlockKey {
                    page,
                    offset: u16::MAX,
                    mode: u64::MAX,
                };
                let doomed: Vec<BlockKey> = interp.by_key.range(first..=last).map(|(k, _)| *k).collect();
                for key in doomed {
                    if let Some(entry) = interp.by_key.remove(&key) {
                        interp.blocks[entry as usize] = None;
                    }
                }
            }
        }
    }

    /// Throws away everything.
    pub fn flush(&mut self) {
        match self {
            Engine::Interp(interp) => {
                interp.by_key.clear();
                interp.blocks.truncate(1);
            }
        }
    }

    /// Page offsets before which [`Env::breakpoint`] is asked, in blocks added from now on; the caller flushes.
    pub fn set_breakpoints(&mut self, offsets: &[u16]) {
        match self {
            Engine::Interp(interp) => interp.breakpoints = offsets.to_vec(),
        }
    }

    /// Runs from `entry` until the engine has to come back; takes the steps made from `left`.
    pub fn run<E: Env>(
        &mut self,
        env: &mut E,
        layout: &'static Layout,
        entry: u64,
        _data: DataTable,
        _code: JumpTable,
        left: &mut u64,
    ) -> Exit {
        match self {
            Engine::Interp(interp) => match interp.blocks.get(entry as usize) {
                Some(Some(block)) => {
                    cpu::interp::run(block, layout, env, &mut interp.scratch, left, &interp.breakpoints)
                }
                _ => Exit::Next,
            },
        }
    }
}
