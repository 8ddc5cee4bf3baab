//! Lifted x86-64 instructions against this machine's processor.
//!
//! ```text
//!   cases.rs    random instructions, registers, flags
//!   world.rs    runs them by lifter and IR interpreter; whoever would fault or leave the scratch memory is dropped
//!   native.rs   runs them here, at the same addresses
//!   vectors.rs  vector registers, and which instructions are on them
//!   x87.rs      x87 states, and which of its instructions are compared
//! ```
//!
//! Registers, flags and memory are compared; of the flags, those that the manual leaves undefined (as the decoder
//! knows) are not, and no case reads one.
//!
//! `TICKBACK_CASES` sets the number of cases (a run with 10^7 takes minutes), `TICKBACK_SEED` the first
//! seed, `TICKBACK_TRACE` prints each case before it runs here, should one kill the test.

#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod cases;
mod native;
mod vectors;
mod world;
mod x87;

use cases::{Case, Family, Random};
use native::Native;
use std::collections::BTreeMap;
use std::sync::Mutex;
use world::{Interpreter, World};

/// The addresses that native code uses exist once.
static NATIVE: Mutex<()> = Mutex::new(());

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap())
}

/// Runs cases of a family; says how many times each mnemonic was compared.
fn compare(family: Family, cases: u64) -> BTreeMap<String, u64> {
    let _one = NATIVE.lock().unwrap_or_else(|e| e.into_inner());
    let mut native = Native::new();
    let mut world = World::new(family.bits());
    let mut engine = Interpreter::default();
    let trace = std::env::var_os("TICKBACK_TRACE").is_some();
    let cases = number("TICKBACK_CASES", cases);
    let mut seed = number("TICKBACK_SEED", 1);
    let mut counts = BTreeMap::new();
    let mut memory = native.data().to_vec();
    let mut random = Random::new(seed ^ 0x5eed);
    memory.iter_mut().for_each(|b| *b = random.next() as u8);
    let mut compared = 0;
    while compared < cases {
        seed += 1;
        let Some(case) = Case::new(family, seed) else {
            continue;
        };
        // Now and then fresh contents.
        if seed.is_multiple_of(64) {
            let at = random.below(memory.len() as u64 - 64) as usize;
            memory[at..at + 64]
                .iter_mut()
                .for_each(|b| *b = random.next() as u8);
        }
        world.memory.copy_from_slice(&memory);
        let Some(cut) = world.run(&mut engine, &case, true) else {
            continue;
        };
        world.memory.copy_from_slice(&memory);
        let Some(mut emulated) = world.run(&mut engine, &case, false) else {
            panic!("{} runs only in parts", case.text())
        };
        // How code is cut into blocks means nothing, not even to undefined flags.
        assert!(
            emulated == cut,
            "{}\nin one {emulated:x?}, in parts {cut:x?}\n{}",
            case.text(),
            world.blocks(&case)
        );
        if trace {
            eprintln!("{}", case.text());
        }
        native.data().copy_from_slice(&memory);
        let mut real = native.run(&case);
        // Outside of 64-bit mode there is no more.
        let (count, mask) = if family.bits() == 64 {
            (16, u64::MAX)
        } else {
            (8, 0xffff_ffff)
        };
        let differs = |n: usize| (emulated.regs[n] ^ real.regs[n]) & mask != 0;
        let mut wrong = String::new();
        for n in (0..count).filter(|&n| differs(n)) {
            wrong += &format!("r{n}: {:#x}, here {:#x}\n", emulated.regs[n], real.regs[n]);
        }
        let flags = case.defined_flags();
        if (emulated.flags ^ real.flags) & flags != 0 {
            wrong += &format!(
                "flags {:#x}, here {:#x}, of {flags:#x}\n",
                emulated.flags, real.flags
            );
        }
        if case.leaves_c1_open() {
            x87::without_c1(&mut emulated.vectors);
            x87::without_c1(&mut real.vectors);
        }
        if emulated.vectors != real.vectors {
            wrong += &format!("vectors {:?}\nhere {:?}\n", emulated.vectors, real.vectors);
        }
        if world.memory != *native.data() {
            let at = (0..memory.len())
                .find(|&at| world.memory[at] != native.data()[at])
                .unwrap();
            let end = (at + 16).min(memory.len());
            wrong += &format!(
                "memory at {at:#x}: {:x?}, here {:x?}\n",
                &world.memory[at..end],
                &native.data()[at..end]
            );
        }
        assert!(
            wrong.is_empty(),
            "{}\n{wrong}\n{}",
            case.text(),
            world.blocks(&case)
        );
        memory.copy_from_slice(native.data());
        compared += 1;
        for name in case.mnemonics() {
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn integer_instructions() {
    all_came_up(&compare(Family::Integer, 50_000), cases::INTEGER_MNEMONICS);
}

#[test]
fn integer_instructions_of_32_bit_code() {
    all_came_up(&compare(Family::Integer32, 30_000), cases::INTEGER32_MNEMONICS);
}

#[test]
fn vector_instructions() {
    let names = vectors::mnemonics();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    all_came_up(&compare(Family::Vector, 60_000), &names);
}

#[test]
fn x87_instructions() {
    let names = x87::mnemonics();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    all_came_up(&compare(Family::X87, 40_000), &names);
}

/// A generator that forgets a form would go unseen.
fn all_came_up(counts: &BTreeMap<String, u64>, names: &[&str]) {
    for name in names {
        assert!(counts.contains_key(*name), "no case with {name}: {counts:?}");
    }
}
