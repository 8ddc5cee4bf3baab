//! From a program counter to a running block: fetch translation, look-up, translation, entry; until the
//! budget is used up or the run loop has something to look at.

use cpu::{Access, Cpu, Exit, Lifted, Trap};

use crate::access::Running;
use crate::engine::{BlockKey, Engine};
use crate::memory::Guards;
use crate::ram::PAGE;
use crate::system::System;

/// Why [`execute`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The budget is used up, or something at a boundary needs to be looked at.
    Boundary,
    /// A stop condition holds for the next step.
    Hit,
}

/// Runs one hart for at most `budget` steps (at least one).
pub(crate) fn execute(engine: &mut Engine, cpu: &mut dyn Cpu, sys: &mut System, budget: u64) -> Came {
    let mut left = budget;
    let end = sys.at.0 + budget;
    let deadline = cpu.deadline();
    let mut run = Running {
        cpu,
        sys,
        end,
        told: budget,
    };
    let came = loop {
        if left == 0 {
            break Came::Boundary;
        }
        if run.sys.memory.has_stale_code() {
            drop_stale(engine, run.sys);
        }
        run.sys.memory.take_leave();
        run.sys.leave = false;
        run.sys.at = icount::Icount(end - left);
        let exit = enter(engine, &mut run, &mut left);
        run.retire(left);
        run.sys.at = icount::Icount(end - left);
        let came = match exit {
            Exit::Budget => Some(Came::Boundary),
            Exit::Next => None,
            Exit::Dispatch => boundary_matters(&run, deadline).then_some(Came::Boundary),
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
    came
}

/// Whether the run loop has something to do at this boundary, before the budget is used up.
fn boundary_matters(run: &Running, deadline: Option<u64>) -> bool {
    let sys = &*run.sys;
    run.cpu.interrupt().is_some()
        || run.cpu.waiting()
        || run.cpu.deadline() != deadline
        || sys.end_slice
        || sys.boundary_due()
}

/// Delivers an exception: one step. The guest's privilege changed, so interrupts are looked at next.
fn deliver(run: &mut Running, trap: Trap, left: &mut u64) -> Option<Came> {
    let pc = run.cpu.pc();
    run.cpu.deliver(trap, pc);
    *left -= 1;
    run.told = *left;
    run.cpu.retire(0, 1);
    run.sys.at.0 += 1;
    (run.cpu.interrupt().is_some() || run.sys.boundary_due()).then_some(Came::Boundary)
}

fn drop_stale(engine: &mut Engine, sys: &mut System) {
    for page in sys.memory.take_stale_code() {
        engine.drop_page(page);
        // Blocks of the page before that straddle into this one.
        for first in sys.straddlers.remove(&page).unwrap_or_default() {
            engine.drop_page(first);
            sys.memory.drop_code_of(first);
        }
    }
}

/// Enters the block at pc, translating what is missing.
fn enter(engine: &mut Engine, run: &mut Running, left: &mut u64) -> Exit {
    let pc = run.cpu.pc();
    let layout = run.cpu.layout();
    let mode = run.cpu.block_mode();
    run.sys.space = run.sys.memory.data_space(run.cpu.data_space());
    let code = run
        .sys
        .memory
        .code_space(run.cpu.fetch_space(), mode, layout.pc_align);
    let entry = match run.sys.memory.code(code).jump(pc) {
        Some(entry) => entry,
        None => match translate(engine, run, code, pc, mode) {
            Ok(entry) => entry,
            Err(trap) => return Exit::Trap(trap),
        },
    };
    let base = pc & !(PAGE - 1);
    run.cpu.regs_mut()[layout.page] = base;
    // The spaces stay where they are while the engine runs: only `select` moves any, and nothing selects.
    let (data, jumps) = (
        run.sys.memory.data(run.sys.space).table(),
        run.sys.memory.code(code).table(),
    );
    engine.run(run, layout, entry, data, jumps, left)
}

/// Finds or makes the block at `pc` and remembers it in the jump cache.
fn translate(engine: &mut Engine, run: &mut Running, code: usize, pc: u64, mode: u64) -> Result<u64, Trap> {
    let (page, cached) = fetch_page(run, code, pc)?;
    let offset = (pc % PAGE) as u16;
    let key = BlockKey { page, offset, mode };
    if let Some(entry) = engine.find(key) {
        run.sys.memory.code_mut(code).insert(pc, entry, false);
        return Ok(entry);
    }
    let bytes = run.sys.memory.ram().page(page);
    let (key, block, second) = match run.cpu.lift(mode, offset, &bytes, None) {
        Lifted::Block(block) => (key, block, None),
        Lifted::NeedsNextPage => {
            let next_pc = (pc & !(PAGE - 1)).wrapping_add(PAGE);
            let (second, _) = fetch_page(run, code, next_pc)?;
            // The block is made from two pages, so both name it.
            let key = BlockKey {
                mode: mode | (second + 1) << 32,
                ..key
            };
            if let Some(entry) = engine.find(key) {
                run.sys.memory.code_mut(code).insert(pc, entry, true);
                return Ok(entry);
            }
            let next = run.sys.memory.ram().page(second);
            match run.cpu.lift(mode, offset, &bytes, Some(&next)) {
                Lifted::Block(block) => (key, block, Some(second)),
                Lifted::NeedsNextPage => return Err(run.cpu.access_fault(pc, Access::Fetch)),
            }
        }
    };
    let (entry, kept) = engine.add(key, block);
    if !kept {
        run.sys.memory.forget_all_code();
        run.sys.straddlers.clear();
    }
    run.sys.memory.guard(page, Guards::CODE);
    if let Some(second) = second {
        run.sys.memory.guard(second, Guards::CODE);
        run.sys.straddlers.entry(second).or_default().insert(page);
    }
    if cached {
        run.sys.memory.code_mut(code).insert(pc, entry, second.is_some());
    }
    Ok(entry)
}

/// The RAM page that `pc` is fetched from, and whether that translation is cached.
fn fetch_page(run: &mut Running, code: usize, pc: u64) -> Result<(u64, bool), Trap> {
    if let Some(page) = run.sys.memory.code(code).page(pc) {
        return Ok((page, true));
    }
    let found = run.cpu.translate(&mut run.sys.memory, pc, Access::Fetch)?;
    let page = run.sys.memory.ram().page_of(found.addr);
    let denied = !found.cacheable && run.cpu.protects(found.addr, 2, Access::Fetch);
    match page {
        Some(page) if !denied => {
            run.sys.memory.fill_fetch(code, pc, page, &found);
            Ok((page, found.cacheable))
        }
        _ => Err(run.cpu.access_fault(pc, Access::Fetch)),
    }
}
