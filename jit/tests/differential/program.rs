//! Programs of several blocks on two pages, with links, the jump cache, a block that straddles the pages,
//! and code changed back and forth, dropped and flushed in between: against the interpreter.

use std::collections::BTreeMap;

use cpu::ir::{Block, Insn, Op, Target, Terminal, Val};
use cpu::{Exit, interp};
use jit::tlb;
use jit::{BlockId, BlockKey, Jit, LinkSite, Passes, Ran};

use crate::random::{Rng, block_of};
use crate::world::{LAYOUT, PAGE, World};

/// Physical pages behind the two virtual ones.
const FRAMES: [u64; 2] = [5, 9];

struct Program {
    /// By offset from the first page: two versions of each.
    blocks: BTreeMap<u64, [Block; 2]>,
    /// What stands in memory where the blocks begin: which version there is.
    bytes: [[u8; 0x1000]; 2],
}

impl Program {
    fn random(rng: &mut Rng) -> Program {
        let starts: Vec<u64> = (0..6)
            .map(|i| i * 0x100)
            .chain((0..5).map(|i| 0x1000 + i * 0x100))
            .chain([0xffe])
            .collect();
        let mut blocks = BTreeMap::new();
        for &start in &starts {
            let versions = [(); 2].map(|()| Program::block(rng, start, &starts));
            blocks.insert(start, versions);
        }
        Program {
            blocks,
            bytes: [[0; 0x1000]; 2],
        }
    }

    fn block(rng: &mut Rng, start: u64, starts: &[u64]) -> Block {
        let straddles = start == 0xffe;
        let n = if straddles { 1 } else { 1 + rng.below(6) as usize };
        let mut b = block_of(rng, n);
        if straddles {
            if let Some(second) = b.insns.get(1) {
                b.ops.truncate(second.first_op.into());
                b.insns.truncate(1);
                b.terminal = Terminal::Dispatch(Target(0));
            }
            b.insns[0].len = 4;
        }
        let page = start & 0x1000;
        for insn in &mut b.insns {
            insn.offset += (start & 0xfff) as u16;
        }
        b.straddles = straddles;
        let mut target = || Target((rng.pick(starts) as i64 - page as i64) as i32);
        let (t, u) = (target(), target());
        let chosen = rng.below(8);
        b.terminal = match b.terminal {
            Terminal::Branch {
                cond, width, a, b: y, ..
            } => Terminal::Branch {
                cond,
                width,
                a,
                b: y,
                taken: t,
                fall: u,
            },
            Terminal::Jump(_) if chosen < 4 => Terminal::Jump(t),
            Terminal::Dispatch(_) => Terminal::Dispatch(t),
            Terminal::Ask(v, _) => Terminal::Ask(v, t),
            Terminal::Left => Terminal::Left,
            Terminal::Trap { cause, value } => Terminal::Trap { cause, value },
            _ => {
                b.ops.push(Op::Page(t.0));
                Terminal::Indirect(Val(b.ops.len() as u16 - 1))
            }
        };
        b.verify().unwrap();
        b
    }

    /// Memory from an address of the program on, to the end of its page.
    fn bytes_at(&self, pc: u64) -> &[u8] {
        &self.bytes[(pc >> 12 & 1) as usize][(pc & 0xfff) as usize..]
    }

    fn get(&self, pc: u64) -> Option<&Block> {
        let versions = self.blocks.get(&pc.wrapping_sub(PAGE))?;
        Some(&versions[self.bytes_at(pc)[0] as usize])
    }

    fn at(&self, pc: u64) -> &Block {
        self.get(pc).unwrap()
    }

    /// Some blocks become their other version.
    fn change(&mut self, rng: &mut Rng) {
        for start in self.blocks.keys() {
            if rng.below(4) == 0 {
                self.bytes[(start >> 12) as usize][(start & 0xfff) as usize] ^= 1;
            }
        }
    }
}

/// What the machine does after an exit: traps and stops go on elsewhere and count as a step.
fn after(world: &mut World, exit: Exit, budget: &mut u64) {
    let pc = world.regs[LAYOUT.pc];
    if matches!(exit, Exit::Stop | Exit::Trap(_)) {
        world.regs[LAYOUT.pc] = PAGE + (pc.wrapping_mul(7) >> 8 & 3) * 0x100;
        *budget -= 1;
    }
}

/// Where to go on if the pc isn't the start of a block: leaving in the middle of one is.
fn block_at(program: &Program, pc: u64) -> Option<Block> {
    // The rest of a block's values would be gone: go on elsewhere.
    program.get(pc).cloned()
}

fn interpret(program: &Program, world: &mut World, mut budget: u64) {
    let mut scratch = interp::Scratch::default();
    while budget > 0 {
        step(program, world, &mut scratch, &mut budget);
    }
}

/// Interprets the block at pc.
fn step(program: &Program, world: &mut World, scratch: &mut interp::Scratch, budget: &mut u64) {
    let pc = world.regs[LAYOUT.pc];
    let Some(block) = block_at(program, pc) else {
        world.regs[LAYOUT.pc] = PAGE + (pc & 0x100);
        return;
    };
    world.regs[LAYOUT.page] = pc & !0xfff;
    let exit = interp::run(&block, &LAYOUT, world, scratch, budget, &[]);
    after(world, exit, budget);
}

/// As a machine does when code was written.
fn drop_changed(program: &Program, world: &mut World, jit: &mut Jit) {
    for (frame, bytes) in FRAMES.iter().zip(&program.bytes) {
        jit.drop_page(*frame, bytes);
        world.jumps.drop_code(*frame);
    }
}

fn translate(program: &Program, world: &mut World, jit: &mut Jit, rng: &mut Rng, mut budget: u64) {
    let mut scratch = interp::Scratch::default();
    let mut site: Option<LinkSite> = None;
    while budget > 0 {
        match rng.below(200) {
            0 => {
                drop_changed(program, world, jit);
            }
            1 if rng.below(10) == 0 => {
                jit.flush();
                world.jumps.drop_all_code();
            }
            2 => {
                world.jumps.drop_page(PAGE + 0x1000);
            }
            _ => {}
        }
        let pc = world.regs[LAYOUT.pc];
        let Some(block) = block_at(program, pc) else {
            world.regs[LAYOUT.pc] = PAGE + (pc & 0x100);
            site = None;
            continue;
        };
        world.regs[LAYOUT.page] = pc & !0xfff;
        for (i, frame) in FRAMES.iter().enumerate() {
            let va = PAGE + i as u64 * 0x1000;
            if world.jumps.page(va).is_none() {
                world.jumps.set_page(va, *frame);
            }
        }
        let entry = match world.jumps.jump(pc) {
            Some(entry) if site.is_none() => entry,
            _ => {
                let frame = FRAMES[(pc >> 12 & 1) as usize];
                let next = block.straddles.then_some(FRAMES[1]);
                let key = BlockKey {
                    page: frame,
                    offset: (pc & 0xfff) as u16,
                    mode: 3,
                    next,
                };
                let bytes = program.bytes_at(pc);
                let known = jit.find(key).or_else(|| jit.revive(key, bytes).map(|(id, _)| id));
                let id = known.unwrap_or_else(|| {
                    let id = jit.compile(key, &block, &[]).unwrap();
                    if !block.straddles {
                        jit.set_source(id, &bytes[..1]);
                    }
                    id
                });
                if let Some(site) = site {
                    jit.link(site, id);
                }
                world.jumps.insert(pc, jit.entry(id), block.straddles);
                jit.entry(id)
            }
        };
        site = None;
        tlb::set_jumps(&mut world.regs, &world.jumps);
        match jit.run(world, entry, &mut budget) {
            Ran::Exit(exit) => after(world, exit, &mut budget),
            Ran::Link(s) => site = Some(s),
            Ran::Hot => {
                let id = improve(program, jit, world.regs[LAYOUT.pc]);
                world.jumps.insert(world.regs[LAYOUT.pc], jit.entry(id), false);
            }
            Ran::Tail if budget > 0 => step_here(program, world, &mut scratch, &mut budget),
            Ran::Tail => {}
        }
    }
}

/// Makes the block at pc anew along a path: one that goes on through blocks of its page, as often as they fit.
fn improve(program: &Program, jit: &mut Jit, pc: u64) -> BlockId {
    let key = BlockKey {
        page: FRAMES[(pc >> 12 & 1) as usize],
        offset: (pc & 0xfff) as u16,
        mode: 3,
        next: None,
    };
    let mut path = program.at(pc).clone();
    while path.insns.len() < 30
        && let Some(next) = match path.terminal {
            Terminal::Jump(to) => Some(to),
            Terminal::Branch { taken, fall, .. } => {
                let mut heat = |to: Target| {
                    let offset = to.0 as u16;
                    jit.heat(BlockKey { offset, ..key })
                };
                let (t, f) = (heat(taken), heat(fall));
                Some(if t > f { taken } else { fall })
            }
            _ => None,
        }
        .filter(|to| to.same_page() && to.0 != 0xffe)
    {
        let more = program.at((pc & !0xfff) + next.0 as u64).clone();
        let Some(op) = path.terminal.followed(next.0 as u16) else {
            break;
        };
        path.ops.extend(op);
        let by = path.ops.len() as u16;
        let moved = |v: Val| Val(v.0 + by);
        path.insns.extend(more.insns.iter().map(|insn| Insn {
            first_op: insn.first_op + by,
            ..*insn
        }));
        path.ops.extend(more.ops.into_iter().map(|mut op| {
            jit::passes::map_operands(&mut op, moved);
            op
        }));
        path.terminal = match more.terminal {
            Terminal::Branch {
                cond,
                width,
                a,
                b,
                taken,
                fall,
            } => Terminal::Branch {
                cond,
                width,
                a: moved(a),
                b: moved(b),
                taken,
                fall,
            },
            Terminal::Indirect(v) => Terminal::Indirect(moved(v)),
            Terminal::Ask(v, to) => Terminal::Ask(moved(v), to),
            other => other,
        };
        path.verify().unwrap();
    }
    jit.compile_path(key, &path, &[]).unwrap()
}

/// Interprets the block at pc, which is the start of one.
fn step_here(program: &Program, world: &mut World, scratch: &mut interp::Scratch, budget: &mut u64) {
    let pc = world.regs[LAYOUT.pc];
    assert_eq!(world.regs[LAYOUT.page], pc & !0xfff, "page slot");
    let block = program.at(pc).clone();
    let exit = interp::run(&block, &LAYOUT, world, scratch, budget, &[]);
    after(world, exit, budget);
}

#[test]
fn programs_agree_with_the_interpreter() {
    let mut jit = Jit::new(&LAYOUT, 64 << 20).unwrap();
    jit.set_often(3);
    let count: u64 = std::env::var("JIT_BLOCKS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(400);
    for seed in 1..count {
        let mut rng = Rng(seed * 0x1234_5678);
        let mut program = Program::random(&mut rng);
        jit.flush();
        jit.set_passes(if seed % 5 == 0 {
            Passes::none()
        } else {
            Passes::all()
        });
        let mut ours = World::new(&mut rng.clone());
        let mut theirs = World::new(&mut rng.clone());
        ours.fill_tlb();
        ours.regs[LAYOUT.pc] = PAGE;
        theirs.regs[LAYOUT.pc] = PAGE;
        for round in 0..6 {
            let steps = 500 + rng.below(20);
            interpret(&program, &mut theirs, steps);
            translate(&program, &mut ours, &mut jit, &mut rng, steps);
            ours.compare(&theirs, &|| format!("program {seed}, round {round}"));
            program.change(&mut rng);
            drop_changed(&program, &mut ours, &mut jit);
        }
    }
    let stats = jit.stats();
    assert!(
        stats.links > 1000
            && stats.misses > 100
            && stats.tails > 0
            && stats.revived > 50
            && stats.paths > 100,
        "{stats:?}"
    );
}
