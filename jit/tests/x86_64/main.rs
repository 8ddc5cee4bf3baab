//! Translated x86-64 instructions against the interpreter, on the cases that the crate `cpu` compares with the host's
//! processor: registers, flags (undefined ones too) and memory.
//!
//! `TICKBACK_CASES` sets the number of cases, `TICKBACK_SEED` the first
//! seed, `TICKBACK_TRACE` prints each case before it is translated.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../../../cpu/tests/x86_native/cases.rs"]
#[allow(dead_code)]
mod cases;
#[path = "../../../cpu/tests/x86_native/vectors.rs"]
#[allow(dead_code)]
mod vectors;
#[path = "../../../cpu/tests/x86_native/world.rs"]
mod world;
#[path = "../../../cpu/tests/x86_native/x87.rs"]
#[allow(dead_code)]
mod x87;

use cases::{Case, DATA, DATA_LEN, Family, Random};
use cpu::ir::Block;
use cpu::x86_64::hart::LAYOUT;
use cpu::{Env, Exit, SpaceKey, interp};
use jit::tlb::{self, CodeSpace, Space};
use jit::{BlockKey, Jit, Passes, Ran};
use world::{Engine, Interpreter, World};

/// The translator, each block by itself.
struct Translator {
    jit: Jit,
    space: Space,
    jumps: CodeSpace,
    blocks: u64,
}

impl Translator {
    fn new() -> Translator {
        Translator {
            jit: Jit::new(&LAYOUT, 32 << 20).unwrap(),
            space: Space::new(SpaceKey::default()),
            jumps: CodeSpace::new(SpaceKey::default(), 0, LAYOUT.pc_align),
            blocks: 0,
        }
    }

    /// The scratch memory's pages but for the last are in the TLB, or none is.
    fn map(&mut self, world: &mut World, cached: bool) {
        self.space = Space::new(SpaceKey::default());
        let host = world.memory.as_mut_ptr() as u64;
        for at in (0..DATA_LEN as u64 - 4096).step_by(4096).filter(|_| cached) {
            self.space.fill(DATA + at, host + at, at >> 12, true, true);
        }
    }
}

impl Engine for Translator {
    fn run(&mut self, world: &mut World, block: &Block, budget: &mut u64) -> Exit {
        self.blocks += 1;
        let key = BlockKey {
            page: self.blocks,
            offset: 0,
            mode: 0,
            next: None,
        };
        let id = match self.jit.compile(key, block, &[]) {
            Ok(id) => id,
            Err(_) => {
                self.jit.flush();
                self.jit.compile(key, block, &[]).unwrap()
            }
        };
        self.jit.drop_page(key.page, &[]);
        let regs = world.regs();
        tlb::set_data(regs, &self.space);
        tlb::set_jumps(regs, &self.jumps);
        let entry = self.jit.entry(id);
        match self.jit.run(world, entry, budget) {
            Ran::Exit(exit) => exit,
            Ran::Link(_) => Exit::Next,
            Ran::Hot => unreachable!("it ran once"),
            Ran::Tail => interp::run(
                block,
                &LAYOUT,
                world,
                &mut interp::Scratch::default(),
                budget,
                &[],
            ),
        }
    }
}

fn compare(family: Family, cases: u64) {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |v| v.parse().unwrap());
    let cases = number("TICKBACK_CASES", cases);
    let mut seed = number("TICKBACK_SEED", 1_000_000);
    let mut world = World::new(family.bits());
    let (mut interpreter, mut translator) = (Interpreter::default(), Translator::new());
    let mut random = Random::new(seed);
    let mut memory = world.memory.clone();
    memory.iter_mut().for_each(|b| *b = random.next() as u8);
    let trace = std::env::var_os("TICKBACK_TRACE").is_some();
    let mut compared = 0;
    while compared < cases {
        seed += 1;
        let Some(case) = Case::new(family, seed) else {
            continue;
        };
        world.memory.copy_from_slice(&memory);
        let Some(expected) = world.run(&mut interpreter, &case, false) else {
            continue;
        };
        let stored = world.memory.clone();
        if trace {
            eprintln!("{}", case.text());
        }
        let passes = if random.one_in(4) {
            Passes::none()
        } else {
            Passes::all()
        };
        translator.jit.set_passes(passes);
        translator.map(&mut world, !random.one_in(4));
        world.memory.copy_from_slice(&memory);
        let translated = world.run(&mut translator, &case, false);
        let context = |world: &mut World| format!("{passes:?}\n{}\n{}", case.text(), world.blocks(&case));
        assert!(
            translated.as_ref() == Some(&expected),
            "translated {translated:x?}\ninterpreted {expected:x?}\n{}",
            context(&mut world)
        );
        assert!(world.memory == stored, "memory\n{}", context(&mut world));
        memory = stored;
        compared += 1;
    }
}

#[test]
fn integer_instructions() {
    compare(Family::Integer, 6000);
}

#[test]
fn integer_instructions_of_32_bit_code() {
    compare(Family::Integer32, 3000);
}

#[test]
fn vector_instructions() {
    compare(Family::Vector, 10_000);
}

#[test]
fn x87_instructions() {
    compare(Family::X87, 4000);
}
