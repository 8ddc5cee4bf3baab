//! The golden cases of RISC-V, translated: each `run` line on the interpreter and on translated code, without passes and
//! with all, with accesses that hit the TLB and such that don't; and the sections of the files, which say what the
//! lifter, the passes and the generator make of an instruction.
//!
//! The sections: `ir` of every instruction; `optimised` where the passes change it; `host` of the first instruction of
//! a row in its file.
#![allow(clippy::unwrap_used)]

mod host;

use std::collections::BTreeSet;

use cpu::ir::{Block, Op, Terminal, Val};
use cpu::riscv64::flat::{Engine, Interpreter, World};
use cpu::riscv64::golden;
use cpu::riscv64::slots::LAYOUT;
use cpu::{Cpu, Exit, SpaceKey};
use jit::tlb::{self, CodeSpace, Space};
use jit::{BlockKey, Jit, Passes, Ran};

/// Of a block on any page and in any mode: it is run right after it was made.
fn key(block: &Block) -> BlockKey {
    BlockKey {
        page: 0,
        offset: block.insns[0].offset,
        mode: 0,
        next: block.straddles.then_some(1),
    }
}

/// Translated code.
struct Translated {
    jit: Jit,
    space: Space,
    jumps: CodeSpace,
    /// Whether all memory is in the TLB.
    cached: bool,
}

impl Translated {
    fn new(passes: Passes, cached: bool) -> Translated {
        let mut jit = Jit::new(&LAYOUT, 8 << 20).unwrap();
        jit.set_passes(passes);
        Translated {
            jit,
            space: Space::new(SpaceKey::default()),
            jumps: CodeSpace::new(SpaceKey::default(), 0, LAYOUT.pc_align),
            cached,
        }
    }
}

impl Engine for Translated {
    fn run(&mut self, block: &Block, world: &mut World, budget: &mut u64) -> Exit {
        self.space.clear();
        if self.cached {
            let (base, len) = (world.ram.base, world.ram.bytes.len());
            let host = world.ram.bytes.as_mut_ptr() as u64;
            for at in (0..len as u64).step_by(4096) {
                let addr = base + at;
                self.space.fill(addr, host + at, addr >> 12, true, true);
            }
        }
        tlb::set_data(world.hart.regs_mut(), &self.space);
        tlb::set_jumps(world.hart.regs_mut(), &self.jumps);
        let key = key(block);
        let id = self.jit.compile(key, block, &[]).unwrap_or_else(|_| {
            self.jit.flush();
            self.jit.compile(key, block, &[]).unwrap()
        });
        let entry = self.jit.entry(id);
        let ran = self.jit.run(world, entry, budget);
        self.jit.drop_page(key.page, &[]);
        match ran {
            Ran::Exit(exit) => exit,
            Ran::Link(_) => Exit::Next,
            // Linked to itself, after its one step.
            Ran::Hot => unreachable!("it ran once"),
            Ran::Tail => {
                assert_eq!(*budget, 0, "the block fits in the budget");
                Exit::Budget
            }
        }
    }
}

#[test]
fn golden_cases_hold_on_every_engine() {
    let translated = |passes, cached| Translated::new(passes, cached);
    let wrong = golden::check_all(&mut [
        ("interpreter", &mut Interpreter::default()),
        ("without passes", &mut translated(Passes::none(), true)),
        ("without passes or TLB", &mut translated(Passes::none(), false)),
        ("all passes", &mut translated(Passes::all(), true)),
        ("all passes, no TLB", &mut translated(Passes::all(), false)),
    ]);
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// A block of one instruction as text, without its offset and without constants that nobody uses.
fn text(block: &Block) -> String {
    let mut used = BTreeSet::new();
    for op in &block.ops {
        op.operands(|v, _| {
            used.insert(v);
        });
    }
    match block.terminal {
        Terminal::Branch { a, b, .. } => used.extend([a, b]),
        Terminal::Indirect(v) | Terminal::Ask(v, _) => used.extend([v]),
        Terminal::Jump(_) | Terminal::Dispatch(_) | Terminal::Left | Terminal::Trap { .. } => {}
    }
    let is_left_over =
        |at: usize| matches!(block.ops.get(at), Some(Op::Const(_))) && !used.contains(&Val(at as u16));
    let full = block.to_string();
    let lines = full.lines().skip(1).enumerate();
    let kept = lines.filter(|(at, _)| !is_left_over(*at));
    kept.flat_map(|(_, line)| [line.trim_start(), "\n"]).collect()
}

#[test]
fn sections_say_what_is_made_of_an_instruction() {
    let mut jit = Jit::new(&LAYOUT, 1 << 20).unwrap();
    // No count of runs stands before each.
    jit.set_passes(Passes::all().without(Passes::PATHS));
    let bless = std::env::var("TICKBACK_BLESS").is_ok_and(|what| what == "1");
    let mut wrong = String::new();
    for (path, old) in golden::files() {
        let mut rows = BTreeSet::new();
        let made = cpu::golden::with_sections(&old, |case| {
            let insn = golden::bits(case.bits).unwrap();
            let block = golden::block(insn);
            let (lifted, optimised) = (text(&block), text(&jit.optimised(&block, Passes::all())));
            let mut sections = vec![("ir", lifted)];
            if optimised != sections[0].1 {
                sections.push(("optimised", optimised));
            }
            if golden::row(insn).is_some_and(|row| rows.insert(row)) {
                sections.push(("host", host::text(&mut jit, key(&block), &block)));
            }
            sections
        });
        let new = made.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if new != old && bless {
            std::fs::write(&path, new).unwrap();
        } else if new != old {
            let difference = cpu::golden::difference(&old, &new);
            wrong += &format!("{}\n{difference}", path.display());
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{wrong}look, then TICKBACK_BLESS=1 cargo test -p jit --test golden"
    );
}
