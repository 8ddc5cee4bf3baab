//! What is made of x86-64 code: IR as lifted, IR after the passes, host code of the block at an offset of a file.
//!
//! `cargo run -p jit --example x86_dump -- FILE OFFSET [MODE]`: the offset in hexadecimal, the block mode as a number
//! (64-bit mode with CPL 3 if none is given).
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use cpu::x86_64::hart::{Hart, HartConfig, LAYOUT};
use cpu::{Cpu, Lifted};
use jit::{BlockKey, Jit, Passes};

#[path = "../tests/golden/host.rs"]
mod host;

/// LONG, PROTECTED, CPL 3, FSGSBASE.
const USER: u64 = 1 << 25 | 0x35;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let file = std::fs::read(&args[1]).unwrap();
    let at = usize::from_str_radix(args[2].trim_start_matches("0x"), 16).unwrap();
    let offset = (at & 0xfff) as u16;
    let start = at & !0xfff;
    let mut page = [0u8; 4096];
    let n = file.len().min(start + 4096) - start;
    page[..n].copy_from_slice(&file[start..start + n]);
    let hart = Hart::new(HartConfig {
        id: 0,
        harts: 1,
        seed: 0,
    });
    let mode: u64 = args.get(3).map_or(USER, |m| m.parse().unwrap());
    let Lifted::Block(block) = hart.lift(mode, offset, &page, None) else {
        panic!("straddles")
    };
    println!("{block}");
    let mut jit = Jit::new(&LAYOUT, 1 << 20).unwrap();
    println!("--- optimised\n{}", jit.optimised(&block, Passes::all()));
    jit.set_passes(Passes::all());
    let key = BlockKey {
        page: 0,
        offset,
        mode: 0,
        next: None,
    };
    println!("--- host\n{}", host::text(&mut jit, key, &block));
    println!("{} instructions", block.insns.len());
}
