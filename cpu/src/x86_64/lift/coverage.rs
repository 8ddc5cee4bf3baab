//! Which instructions of the processor's CPUID features no family lifts: the list is a file, and can only be changed
//! knowingly.

use super::*;
use crate::ir::Block;
use crate::x86_64::trap;
use iced_x86::{Code, CpuidFeature};
use std::collections::BTreeMap;

/// What the processor says that it has (`cpuid.rs`), as the decoder calls it.
fn is_ours(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    matches!(
        feature,
        F::INTEL8086
            | F::INTEL8086_ONLY
            | F::INTEL186
            | F::INTEL286
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::AES
            | F::CLFSH
            | F::CMOV
            | F::CMPXCHG16B
            | F::CPUID
            | F::CX8
            | F::FPU
            | F::FPU287
            | F::FPU387
            | F::FSGSBASE
            | F::FXSR
            | F::INVPCID
            | F::MMX
            | F::MSR
            | F::MULTIBYTENOP
            | F::PAUSE
            | F::PCLMULQDQ
            | F::POPCNT
            | F::PREFETCHW
            | F::RDPMC
            | F::RDRAND
            | F::RDSEED
            | F::RDTSCP
            | F::SEP
            | F::SMAP
            | F::SSE
            | F::SSE2
            | F::SSE3
            | F::SSSE3
            | F::SSE4_1
            | F::SSE4_2
            | F::SYSCALL
            | F::TSC
            | F::XSAVE
            | F::XSAVEOPT
    )
}

/// An encoding of every instruction that there is in code of a size.
fn encodings(bits: u32) -> BTreeMap<u16, (Code, Vec<u8>)> {
    let prefixes: [&[u8]; 4] = [&[], &[0x66], &[0xf3], &[0xf2]];
    let address: [&[u8]; 2] = [&[], &[0x67]];
    let rex: &[&[u8]] = if bits == 64 { &[&[], &[0x48]] } else { &[&[]] };
    let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let mut found = BTreeMap::new();
    for (prefix, address) in prefixes.iter().flat_map(|p| address.iter().map(move |a| (p, a))) {
        for (rex, map) in rex.iter().flat_map(|r| maps.iter().map(move |m| (r, m))) {
            for opcode in 0..=255u8 {
                for modrm in 0..=255u8 {
                    let mut bytes = [*prefix, *address, *rex, *map].concat();
                    bytes.extend([opcode, modrm]);
                    bytes.resize(24, 1);
                    let i = Decoder::new(bits, &bytes, OPTIONS).decode();
                    if !i.is_invalid() && i.code().encoding() == EncodingKind::Legacy {
                        bytes.truncate(i.len());
                        found.entry(i.code() as u16).or_insert((i.code(), bytes));
                    }
                }
            }
        }
    }
    found
}

/// Whether it is #UD at its best.
fn is_undefined(mode: Mode, bytes: &[u8]) -> bool {
    let mut page = [0; 4096];
    page[..bytes.len()].copy_from_slice(bytes);
    let Lifted::Block(Block { insns, terminal, .. }) = lift(mode.bits(), 0, &page, None) else {
        panic!("{bytes:x?} isn't complete")
    };
    insns.len() == 1 && matches!(terminal, Terminal::Trap { cause, .. } if cause == trap::cause(trap::UD))
}

#[test]
fn what_is_not_lifted_is_known() {
    let all = Mode::PROTECTED
        | Mode::STACK32
        | Mode::FLAT_CS
        | Mode::FLAT_SS
        | Mode::FLAT_DS
        | Mode::FLAT_ES
        | Mode::IO_PRIVILEGE
        | Mode::FSGSBASE
        | Mode::OSXSAVE;
    let mut text = String::from(
        "# Instructions of the processor's CPUID features that raise #UD, by size of code, as iced-x86 names them.\n\
         # Written by: TICKBACK_BLESS=1 cargo test -p cpu what_is_not_lifted\n",
    );
    for (bits, more) in [(16, Mode::empty()), (32, Mode::BIG), (64, Mode::LONG)] {
        for (code, bytes) in encodings(bits).values() {
            let features = code.cpuid_features();
            if features.iter().all(|&f| is_ours(f)) && is_undefined(all | more, bytes) {
                text += &format!("{bits} {code:?}\n");
            }
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/x86_64/unlifted.txt");
    if std::env::var("TICKBACK_BLESS").is_ok_and(|what| what == "1") {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let differ: Vec<&str> = text
        .lines()
        .filter(|line| !golden.lines().any(|g| g == *line))
        .chain(golden.lines().filter(|g| !text.lines().any(|line| line == *g)))
        .collect();
    assert!(
        differ.is_empty(),
        "{path}: {differ:#?}\nlook, then TICKBACK_BLESS=1 cargo test -p cpu what_is_not_lifted"
    );
}
