//! Translated code against the interpreter, on random blocks: all ops, special values, accesses that hit, miss,
//! cross pages, leave and stop, helpers, and budgets that end at every step. Slots, memory, budget, exit and
//! what the environment was asked, with where, must agree.
#![allow(clippy::unwrap_used)]

mod program;
mod random;
mod vectors;
mod world;

use cpu::ir::{Block, Insn, Target, Terminal};
use cpu::{Exit, interp};
use jit::{BlockKey, Jit, Passes, Ran};
use random::{Rng, block};
use world::{LAYOUT, World};

/// Runs a block in both worlds and compares.
fn compare(jit: &mut Jit, seed: u64, passes: Passes, budget: u64) {
    let mut rng = Rng(seed);
    let b = block(&mut rng);
    if let Err(e) = b.verify() {
        panic!("seed {seed}: generator: {e}");
    }
    let mut breakpoints: Vec<u16> = Vec::new();
    if rng.below(4) == 0 {
        breakpoints.push(b.insns[rng.below(b.insns.len() as u64) as usize].offset);
    }
    let mut ours = World::new(&mut rng.clone());
    let mut theirs = World::new(&mut rng.clone());
    ours.fill_tlb();
    let mut their_budget = budget;
    let their_exit = interp::run(
        &b,
        &LAYOUT,
        &mut theirs,
        &mut interp::Scratch::default(),
        &mut their_budget,
        &breakpoints,
    );
    // The interpreter has the environment raise what a translated block exits with.
    let their_exit = match (their_exit, theirs.raised) {
        (Exit::Stop, Some(trap)) => Exit::Trap(trap),
        (exit, _) => exit,
    };
    jit.set_passes(passes);
    let key = BlockKey {
        page: seed,
        offset: 0,
        mode: 0,
        next: None,
    };
    let id = match jit.compile(key, &b, &breakpoints) {
        Ok(id) => id,
        Err(_) => {
            jit.flush();
            jit.compile(key, &b, &breakpoints).unwrap()
        }
    };
    jit.drop_page(seed, &[]);
    let mut our_budget = budget;
    let entry = jit.entry(id);
    let mut our_exit = Exit::Next;
    // A block may have been cut: go on by interpreting.
    match jit.run(&mut ours, entry, &mut our_budget) {
        Ran::Exit(exit) => our_exit = exit,
        Ran::Link(_) => {}
        Ran::Hot => panic!("it ran once"),
        Ran::Tail => {
            assert!(budget < u64::from(b.steps()), "seed {seed}: tail");
            our_exit = interp::run(
                &b,
                &LAYOUT,
                &mut ours,
                &mut interp::Scratch::default(),
                &mut our_budget,
                &breakpoints,
            );
        }
    }
    if let (Exit::Stop, Some(trap)) = (our_exit, ours.raised) {
        our_exit = Exit::Trap(trap);
    }
    let context = || format!("seed {seed} budget {budget} passes {passes:?}\n{b}");
    assert_eq!(our_exit, their_exit, "exit: {}", context());
    assert_eq!(our_budget, their_budget, "budget: {}", context());
    ours.compare(&theirs, &context);
}

/// Random blocks with all passes and with each one off.
#[test]
fn random_blocks_agree_with_the_interpreter() {
    let mut jit = Jit::new(&LAYOUT, 64 << 20).unwrap();
    let count: u64 = std::env::var("JIT_BLOCKS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(4000);
    let first: u64 = std::env::var("JIT_FIRST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    for seed in first..first + count {
        compare(&mut jit, seed, Passes::all(), 1000);
        compare(&mut jit, seed, Passes::none(), 1000);
    }
    for name in Passes::names() {
        let passes = Passes::all().without(Passes::named(name).unwrap());
        for seed in first..first + count / 8 {
            compare(&mut jit, seed, passes, 1000);
        }
    }
}

#[test]
fn a_budget_ends_at_every_step() {
    let mut jit = Jit::new(&LAYOUT, 64 << 20).unwrap();
    for seed in 1..120 {
        for budget in 0..20 {
            compare(&mut jit, seed, Passes::all(), budget);
        }
    }
}

/// A block that ends in a jump to itself runs until the budget doesn't hold another round.
#[test]
fn a_linked_loop_uses_its_budget_up() {
    use cpu::ir::{Bin, Insn, Op, Slot, Target, Val, Width};
    let b = Block {
        insns: vec![
            Insn {
                offset: 0x10,
                len: 4,
                first_op: 0,
            },
            Insn {
                offset: 0x14,
                len: 4,
                first_op: 4,
            },
        ],
        ops: vec![
            Op::Get(Slot(3)),
            Op::Const(1),
            Op::Bin(Bin::Add, Width::W64, Val(0), Val(1)),
            Op::Set(Slot(3), Val(2)),
        ],
        terminal: Terminal::Jump(Target(0x10)),
        straddles: false,
    };
    let mut jit = Jit::new(&LAYOUT, 1 << 20).unwrap();
    let key = BlockKey {
        page: 7,
        offset: 0x10,
        mode: 0,
        next: None,
    };
    let id = jit.compile(key, &b, &[]).unwrap();
    let mut world = World::new(&mut Rng(1));
    world.regs[Slot(3)] = 0;
    world.fill_tlb();
    let mut budget = 1001;
    let entry = jit.entry(id);
    assert_eq!(jit.run(&mut world, entry, &mut budget), Ran::Tail);
    assert_eq!((budget, world.regs[Slot(3)]), (1, 500));
}

/// One instruction without ops, at an offset.
fn end_at(offset: u16, terminal: Terminal) -> Block {
    Block {
        insns: vec![Insn {
            offset,
            len: 4,
            first_op: 0,
        }],
        ops: Vec::new(),
        terminal,
        straddles: false,
    }
}

#[test]
fn the_end_of_a_block_goes_on_through_the_jump_cache_where_nothing_is_due() {
    let mut jit = Jit::new(&LAYOUT, 1 << 20).unwrap();
    let mut compile = |offset, terminal| {
        let key = BlockKey {
            page: 1,
            offset,
            mode: u64::from(offset),
            next: None,
        };
        let block = jit.compile(key, &end_at(offset, terminal), &[]).unwrap();
        jit.entry(block)
    };
    let first = compile(0, Terminal::Dispatch(Target(16)));
    let second = compile(16, Terminal::Dispatch(Target(32)));
    let jump = compile(8, Terminal::Jump(Target(16)));
    let mut world = World::new(&mut Rng(1));
    world.fill_tlb();
    let page = world.regs[LAYOUT.page];
    world.jumps.set_page(page, 1);
    world.jumps.insert(page + 16, second, false);
    let mut run = |entry, goes_on| {
        (world.goes_on, world.boundaries) = (goes_on, Vec::new());
        world.regs[LAYOUT.page] = page;
        let mut budget = 10;
        let ran = jit.run(&mut world, entry, &mut budget);
        let pc = world.regs[LAYOUT.pc].wrapping_sub(page);
        (ran, pc, budget, world.boundaries.clone())
    };
    let left = Ran::Exit(Exit::Dispatch);
    assert_eq!(run(first, 0), (left, 16, 9, vec![9]));
    assert_eq!(run(first, 1), (left, 32, 8, vec![9, 8]));
    // Nothing is known of where the second goes on.
    assert_eq!(run(first, 2), (Ran::Exit(Exit::Next), 32, 8, vec![9, 8]));
    let (Ran::Link(site), 16, 9, _) = run(jump, 0) else {
        panic!("a jump that isn't linked asks to be");
    };
    jit.detour(site);
    let mut budget = 10;
    (world.goes_on, world.boundaries) = (0, Vec::new());
    world.regs[LAYOUT.page] = page;
    assert_eq!(jit.run(&mut world, jump, &mut budget), left);
    assert_eq!((world.regs[LAYOUT.pc] - page, budget), (32, 8));
}
