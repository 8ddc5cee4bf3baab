//! From a program counter to a running block: fetch translation, look-up, translation, entry; until the
//! budget is used up or the run loop has something to look at.

use cpu::ir::Block;
use cpu::{Access, Cpu, Exit, Lifted, Trap};
use jit::{BlockKey, LinkSite};

use crate::access::{Running, walk};
use crate::engine::{Back, Engine};
use crate::error::MachineError;
use crate::ram::PAGE;
use crate::system::{Located, System};

/// Why [`execute`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The budget is used up, or something at a boundary needs to be looked at.
    Boundary,
    /// A stop condition holds for the next step.
    Hit,
}

/// Runs one hart for at most `budget` steps (at least one).
pub(crate) fn execute(
    engine: &mut Engine,
    cpu: &mut dyn Cpu,
    sys: &mut System,
    budget: u64,
) -> Result<Came, MachineError> {
    let mut left = budget;
    let end = sys.at.0 + budget;
    let mut run = Running {
        deadline: cpu.deadline(),
        layout: cpu.layout(),
        cpu,
        sys,
        end,
        told: budget,
    };
    let mut next = Next::Any;
    let came = loop {
        if left == 0 {
            break Came::Boundary;
        }
        if run.sys.memory.has_stale_code() {
            next = Next::Any;
            drop_stale(engine, run.sys);
        }
        run.sys.memory.take_leave();
        run.sys.leave = false;
        run.sys.at = icount::Icount(end - left);
        let exit = enter(engine, &mut run, &mut next, &mut left)?;
        left -= std::mem::take(&mut run.sys.more_steps);
        run.retire(left);
        run.sys.at = icount::Icount(end - left);
        let came = match exit {
            Exit::Budget => Some(Came::Boundary),
            Exit::Next => None,
            Exit::Dispatch => run.boundary_matters().then_some(Came::Boundary),
            Exit::Breakpoint => Some(Came::Hit),
            Exit::Stop => match run.sys.trap.take() {
                Some(trap) => deliver(&mut run, trap, &mut left),
                None => Some(Came::Hit),
            },
            Exit::Trap(trap) => deliver(&mut run, trap, &mut left),
        };
        if let Some(came) = came {
            break came;
        }
    };
    sys.at = icount::Icount(end - left);
    Ok(came)
}

/// Delivers an exception: one step. The guest's privilege changed, so interrupts are looked at next; it may wait now.
fn deliver(run: &mut Running, trap: Trap, left: &mut u64) -> Option<Came> {
    run.deliver(trap, run.cpu.pc());
    *left -= 1;
    (run.cpu.interrupt().is_some() || run.cpu.waiting() || run.sys.boundary_due()).then_some(Came::Boundary)
}

fn drop_stale(engine: &mut Engine, sys: &mut System) {
    for page in sys.memory.take_stale_code() {
        let bytes = sys.memory.ram().page(page);
        for kept in engine.drop_page(page, &bytes[..]) {
            sys.memory.guard_code(page, kept.start as u64, kept.end as u64);
        }
        // Jump caches know straddlers into this page by the page of their first half.
        for first in sys.straddlers.remove(&page).unwrap_or_default() {
            sys.memory.drop_code_of(first);
        }
    }
}

/// What is known of the block that is entered next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Any,
    /// This direct jump led to it, which may be patched.
    Linked(LinkSite),
    /// It runs often.
    Hot,
}

/// Enters the block at pc, translating what is missing.
fn enter(
    engine: &mut Engine,
    run: &mut Running,
    next: &mut Next,
    left: &mut u64,
) -> Result<Exit, MachineError> {
    let pc = run.cpu.pc();
    let layout = run.layout;
    let (code, mode) = run.select_spaces();
    let (site, cached) = match std::mem::replace(next, Next::Any) {
        Next::Linked(site) => (Some(site), None),
        Next::Hot => (None, crate::path::improve(engine, run, code, pc, mode)),
        Next::Any => (None, run.sys.memory.code(code).jump(pc)),
    };
    let entry = match cached {
        Some(entry) => entry,
        None => match translate(engine, run, code, pc, mode, site)? {
            Ok(entry) => entry,
            Err(trap) => return Ok(Exit::Trap(trap)),
        },
    };
    let base = pc & !(PAGE - 1);
    run.cpu.regs_mut()[layout.page] = base;
    match engine.run(run, layout, entry, left) {
        Back::Exit(exit) => Ok(exit),
        Back::Link(site) => {
            *next = Next::Linked(site);
            Ok(Exit::Next)
        }
        Back::Hot => {
            *next = Next::Hot;
            Ok(Exit::Next)
        }
        Back::Tail if *left == 0 => Ok(Exit::Budget),
        Back::Tail => Ok(tail(engine, run, left)),
    }
}

/// Interprets the block at pc: the budget ends in it.
fn tail(engine: &mut Engine, run: &mut Running, left: &mut u64) -> Exit {
    // Not those that translated code was entered in: it goes from one mode to another.
    let (code, mode) = run.select_spaces();
    let pc = run.cpu.pc();
    let layout = run.layout;
    run.cpu.regs_mut()[layout.page] = pc & !(PAGE - 1);
    let (page, offset) = match fetch_page(run, code, pc) {
        Ok((page, _)) => (page, (pc % PAGE) as u16),
        Err(trap) => return Exit::Trap(trap),
    };
    let key = BlockKey {
        page,
        offset,
        mode,
        next: None,
    };
    // A block of the JIT that straddles is never longer than one step, so it never is a tail.
    let lift = |run: &mut Running| {
        let bytes = run.sys.memory.ram().page(page);
        match run.cpu.lift(mode, offset, &bytes, None) {
            Lifted::Block(block) => {
                let memory = &mut run.sys.memory;
                let from = memory.ram().address_of(page) + u64::from(offset);
                memory.note_unwatched(from, end_of(&block) - u64::from(offset));
                block
            }
            Lifted::NeedsNextPage => unreachable!("a block of one step is no tail"),
        }
    };
    engine.interpret(run, layout, key, lift, left)
}

/// The offset in its page behind a block's last instruction.
fn end_of(block: &Block) -> u64 {
    let last = block.insns.last();
    last.map_or(0, |insn| u64::from(insn.offset) + u64::from(insn.len))
}

/// Finds or makes the block at `pc`, remembers it in the jump cache, and links `site` to it.
fn translate(
    engine: &mut Engine,
    run: &mut Running,
    code: usize,
    pc: u64,
    mode: u64,
    site: Option<LinkSite>,
) -> Result<Result<u64, Trap>, MachineError> {
    let (page, cached) = match fetch_page(run, code, pc) {
        Ok(found) => found,
        Err(trap) => return Ok(Err(trap)),
    };
    let offset = (pc % PAGE) as u16;
    let key = BlockKey {
        page,
        offset,
        mode,
        next: None,
    };
    if let Some(entry) = engine.find(key) {
        remember(
            engine,
            run,
            code,
            (pc, entry),
            cached,
            site.map(|site| (site, key)),
        );
        return Ok(Ok(entry));
    }
    let bytes = run.sys.memory.ram().page(page);
    if let Some((entry, len)) = engine.revive(key, &bytes[usize::from(offset)..]) {
        let start = u64::from(offset);
        run.sys.memory.guard_code(page, start, start + len as u64);
        let link = site.map(|site| (site, key));
        remember(engine, run, code, (pc, entry), cached, link);
        return Ok(Ok(entry));
    }
    let start = engine.now();
    let (key, block) = match run.cpu.lift(mode, offset, &bytes, None) {
        Lifted::Block(block) => (key, block),
        Lifted::NeedsNextPage => match straddler(engine, run, code, key, pc, &bytes) {
            Ok(Straddler::Known(entry)) => {
                // The site would ask at every pass; from now on the jump cache answers.
                if let Some(site) = site {
                    engine.detour(site);
                }
                return Ok(Ok(entry));
            }
            Ok(Straddler::New(key, block)) => (key, block),
            Err(trap) => return Ok(Err(trap)),
        },
    };
    let straddles = block.straddles;
    let end = end_of(&block);
    let source = bytes.get(usize::from(offset)..end as usize);
    let (entry, kept) = engine.add(key, block, source.filter(|_| key.next.is_none()))?;
    engine.translated_since(start);
    if !kept {
        run.sys.memory.forget_all_code();
        run.sys.straddlers.clear();
    }
    run.sys.memory.guard_code(page, offset.into(), end.min(PAGE));
    if let Some(second) = key.next {
        run.sys.memory.guard_code(second, 0, (end - PAGE).max(1));
        run.sys.straddlers.entry(second).or_default().insert(page);
    }
    if straddles {
        if cached {
            run.sys.memory.code_mut(code).insert(pc, entry, true);
        }
    } else {
        let link = site.filter(|_| kept).map(|site| (site, key));
        remember(engine, run, code, (pc, entry), cached, link);
    }
    Ok(Ok(entry))
}

fn remember(
    engine: &mut Engine,
    run: &mut Running,
    code: usize,
    (pc, entry): (u64, u64),
    cached: bool,
    link: Option<(LinkSite, BlockKey)>,
) {
    // What isn't a cached fetch translation must be asked about at every entry.
    if cached {
        run.sys.memory.code_mut(code).insert(pc, entry, false);
        if let Some((site, key)) = link {
            engine.link(site, key);
        }
    }
}

enum Straddler {
    Known(u64),
    New(BlockKey, Block),
}

/// The block of one instruction that begins at the end of a page and goes on on the next.
fn straddler(
    engine: &mut Engine,
    run: &mut Running,
    code: usize,
    key: BlockKey,
    pc: u64,
    bytes: &[u8; PAGE as usize],
) -> Result<Straddler, Trap> {
    let next_pc = (pc & !(PAGE - 1)).wrapping_add(PAGE);
    let (second, _) = fetch_page(run, code, next_pc)?;
    let key = BlockKey {
        next: Some(second),
        ..key
    };
    if let Some(entry) = engine.find(key) {
        run.sys.memory.code_mut(code).insert(pc, entry, true);
        return Ok(Straddler::Known(entry));
    }
    let next = run.sys.memory.ram().page(second);
    match run.cpu.lift(key.mode, key.offset, bytes, Some(&next)) {
        Lifted::Block(block) => Ok(Straddler::New(key, block)),
        Lifted::NeedsNextPage => Err(run.cpu.access_fault(pc, Access::Fetch)),
    }
}

/// The RAM page that `pc` is fetched from, and whether that translation is cached.
pub(crate) fn fetch_page(run: &mut Running, code: usize, pc: u64) -> Result<(u64, bool), Trap> {
    if let Some(page) = run.sys.memory.code(code).page(pc) {
        return Ok((page, true));
    }
    let found = walk(run.cpu, run.sys, pc, Access::Fetch)?;
    let located = run.sys.locate(found, 1, Access::Fetch);
    let denied = !found.cacheable && run.cpu.protects(found.addr, 2, Access::Fetch);
    match located {
        Some(Located::Memory { page, translation }) if !denied => {
            // If bits that the walk set moved the root to another class, it isn't this space's any more.
            let cached =
                !run.sys.memory.take_moved() && run.sys.memory.fill_fetch(code, pc, page, &translation);
            Ok((page, cached))
        }
        _ => Err(run.cpu.access_fault(pc, Access::Fetch)),
    }
}
