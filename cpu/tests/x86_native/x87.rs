//! Random x87 states, and which x87 instructions are compared.
//!
//! All exceptions are masked, for processors differ in what else an instruction does that raises one. Left out is what
//! `tests/x87` looks at by itself: results that the manual leaves open within a bound, and images with pointers, of which
//! processors keep different parts.

use crate::cases::Random;
use crate::vectors::Image;
use iced_x86::{Code, CpuidFeature, Instruction, Mnemonic, Register};
use std::collections::BTreeSet;

#[path = "../x87/operands.rs"]
#[allow(dead_code, reason = "the other tests' needs are more")]
mod operands;

const C1: u8 = 2;

/// Random registers, tags, TOP, rounding and precision.
pub fn image(random: &mut Random) -> Image {
    let mut image = Image::fresh();
    let mut operands = operands::Random::new(random.next());
    image.0[..2].copy_from_slice(&(operands.control() | 0x3f).to_le_bytes());
    let flags = [0, random.next() as u16 & 0x7f][random.below(2) as usize];
    let status = flags | operands.condition_codes() | (random.below(8) << 11) as u16;
    image.0[2..4].copy_from_slice(&status.to_le_bytes());
    image.0[4] = match random.below(4) {
        0 => 0xff,
        1 => 0xff >> random.below(8),
        _ => random.next() as u8,
    };
    let mut last = operands.operand();
    for n in 0..8 {
        last = match random.below(3) {
            0 => operands.beside(last),
            _ => operands.operand(),
        };
        image.0[32 + 16 * n..][..10].copy_from_slice(&last.to_bytes());
    }
    image
}

/// Bytes that are likely to be an x87 instruction.
pub fn bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (prefix, rarity) in [(0x66, 10), (0x67, 20), (0x2e, 100)] {
        if random.one_in(rarity) {
            bytes.push(prefix);
        }
    }
    if random.one_in(3) {
        bytes.push(0x40 | random.next() as u8 & 15);
    }
    match random.below(40) {
        0 => bytes.push(0x9b),
        _ => bytes.push(0xd8 | random.next() as u8 & 7),
    }
    while bytes.len() < 20 {
        bytes.push(random.next() as u8);
    }
    bytes
}

fn ours(i: Mnemonic, features: &[CpuidFeature]) -> bool {
    use CpuidFeature::{FPU, FPU287, FPU387};
    use Mnemonic::*;
    let is = i == Wait || features.iter().any(|f| matches!(f, FPU | FPU287 | FPU387));
    let open = matches!(
        i,
        F2xm1 | Fyl2x | Fyl2xp1 | Fptan | Fpatan | Fsin | Fcos | Fsincos
    );
    let images = matches!(i, Fldcw | Fldenv | Fnstenv | Frstor | Fnsave);
    // Of the 287, and not on every processor.
    let old = matches!(i, Fneni | Fndisi | Fnsetpm);
    is && !open && !images && !old
}

/// Whether it is an instruction that can be compared.
pub fn wanted(i: &Instruction) -> bool {
    let far = [i.memory_segment(), i.segment_prefix()]
        .iter()
        .any(|s| matches!(s, Register::FS | Register::GS));
    ours(i.mnemonic(), i.cpuid_features()) && !far
}

/// Mnemonics of all instructions that are compared.
pub fn mnemonics() -> BTreeSet<String> {
    // With a `wait` before, which the decoder doesn't put together.
    const WAITING: [&str; 11] = [
        "Finit", "Fclex", "Fstcw", "Fstsw", "Fstenv", "Fsave", "Feni", "Fdisi", "Fsetpm", "Fstdw", "Fstsg",
    ];
    // Other processors'.
    const OTHER: [&str; 7] = [
        "Frstpm", "Fnstdw", "Fnstsg", "Frint2", "Frichop", "Frinear", "Ftstp",
    ];
    Code::values()
        .filter(|code| ours(code.mnemonic(), code.cpuid_features()))
        .map(|code| format!("{:?}", code.mnemonic()))
        .filter(|name| !WAITING.contains(&name.as_str()) && !OTHER.contains(&name.as_str()))
        .collect()
}

/// Whether the status word is seen where C1 means nothing: after `fcomi`, where processors of the other maker clear it.
pub fn sees_c1(insns: &[Instruction]) -> bool {
    leaves_c1_open(insns) && insns.iter().any(|i| i.mnemonic() == Mnemonic::Fnstsw)
}

/// Whether C1 can't be compared.
pub fn leaves_c1_open(insns: &[Instruction]) -> bool {
    use Mnemonic::*;
    insns
        .iter()
        .any(|i| matches!(i.mnemonic(), Fcomi | Fcomip | Fucomi | Fucomip))
}

/// Clears C1.
pub fn without_c1(image: &mut Image) {
    image.0[3] &= !C1;
}
