//! Paths: a block that has run often is lifted anew, on and on through the branches that are mostly taken and the jumps of its
//! page, as one block. Branches that go elsewhere become exits.
//!
//! Which way a branch mostly goes is seen from how often the blocks behind it have run. Nothing of this can be seen by a
//! guest: a path is a block like any other, cut elsewhere (law 1).

use cpu::Lifted;
use cpu::ir::{Target, Terminal};
use jit::BlockKey;

use crate::access::Running;
use crate::dispatch::fetch_page;
use crate::engine::Engine;
use crate::ram::PAGE;

/// Times that a path may go through its own beginning: short loops are unrolled.
const ROUNDS: usize = 4;
/// Instructions, guessed at by jumps, after which it isn't unrolled any more.
const LONG: usize = 6;

/// Makes the block at pc anew. Yields the entry of what there is then, if there is something.
pub(crate) fn improve(
    engine: &mut Engine,
    run: &mut Running,
    code: usize,
    pc: u64,
    mode: u64,
) -> Option<u64> {
    let (page, cached) = fetch_page(run, code, pc).ok()?;
    let key = BlockKey {
        page,
        offset: (pc % PAGE) as u16,
        mode,
        next: None,
    };
    let start = engine.now();
    let bytes = run.sys.memory.ram().page(page);
    let mut seen = vec![key.offset];
    let lifted = run.cpu.lift_path(mode, key.offset, &bytes, &mut |terminal| {
        let next = choose(engine, key, terminal)?;
        let rounds = seen.iter().filter(|offset| **offset == next).count();
        let unrolls = next == key.offset && rounds < ROUNDS && seen.len() < LONG;
        if rounds > 0 && !unrolls {
            return None;
        }
        seen.push(next);
        Some(next)
    });
    let Lifted::Block(block) = lifted else { return None };
    if seen.len() == 1 {
        engine.leave_as_is(key);
        return engine.find(key);
    }
    let Some(entry) = engine.add_path(key, &block) else {
        engine.leave_as_is(key);
        return engine.find(key);
    };
    engine.translated_since(start);
    for insn in &block.insns {
        let first = u64::from(insn.offset);
        run.sys
            .memory
            .guard_code(page, first, first + u64::from(insn.len));
    }
    // What isn't a cached fetch translation must be asked about at every entry.
    if cached {
        run.sys.memory.code_mut(code).insert(pc, entry, false);
    }
    Some(entry)
}

/// Where a path goes on behind a terminal.
fn choose(engine: &mut Engine, key: BlockKey, terminal: &Terminal) -> Option<u16> {
    let mut heat = |target: Target| {
        let offset = target.0 as u16;
        let heat = engine.heat(BlockKey { offset, ..key });
        (heat, offset)
    };
    match *terminal {
        Terminal::Jump(target) if target.same_page() => Some(target.0 as u16),
        Terminal::Branch { taken, fall, .. } => {
            let ways = [fall, taken].into_iter().filter(|way| way.same_page());
            let (heat, offset) = ways.map(&mut heat).max_by_key(|(heat, _)| *heat)?;
            (heat > 0).then_some(offset)
        }
        _ => None,
    }
}
