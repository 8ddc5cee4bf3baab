//! Vector and MMX registers with MXCSR, as an image of `fxsave` in 64-bit mode; and which instructions are on them.

use crate::cases::Random;
use iced_x86::{Code, CpuidFeature, EncodingKind, Instruction, Mnemonic, Register};
use std::collections::BTreeSet;

/// Bytes of the image that mean something here.
pub const LEN: usize = 416;
const MXCSR: usize = 24;
const ST: usize = 32;
const XMM: usize = 160;

/// MXCSR's exception masks.
pub const MASKS: u32 = 0x1f80;

/// The image.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(pub [u8; LEN]);

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |at: usize| u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap());
        write!(f, "\n  x87 {:02x?}, mxcsr {:#x}", &self.0[..5], self.mxcsr())?;
        for n in 0..8 {
            write!(
                f,
                "\n  mm{n} {:016x} {:04x}",
                word(ST + 16 * n),
                word(ST + 16 * n + 8)
            )?;
        }
        for n in 0..16 {
            write!(
                f,
                "\n  xmm{n} {:016x} {:016x}",
                word(XMM + 16 * n + 8),
                word(XMM + 16 * n)
            )?;
        }
        Ok(())
    }
}

impl Image {
    fn zero() -> Image {
        Image([0; LEN])
    }

    /// Everything empty and masked.
    pub fn fresh() -> Image {
        let mut image = Image::zero();
        image.0[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        image.0[MXCSR..MXCSR + 4].copy_from_slice(&MASKS.to_le_bytes());
        image
    }

    /// What was stored, without what processors differ in: pointers to the last x87 instruction, and which bits MXCSR has.
    pub fn of(stored: &[u8]) -> Image {
        let mut image = Image::zero();
        image.0.copy_from_slice(&stored[..LEN]);
        image.0[6..MXCSR].fill(0);
        image.0[MXCSR + 4..ST].fill(0);
        image
    }

    pub fn mxcsr(&self) -> u32 {
        u32::from_le_bytes(self.0[MXCSR..MXCSR + 4].try_into().unwrap())
    }

    /// Random registers, all modes of MXCSR; exceptions masked unless `masked` is false.
    pub fn random(random: &mut Random, masked: bool) -> Image {
        let mut image = Image::zero();
        image.0[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        // TOP, and which registers are in use.
        image.0[3] = (random.below(8) << 3) as u8;
        image.0[4] = random.next() as u8;
        let modes = [0, 0, 0x6000, 0x2000, 0x4000, 0x8040, 0x8000, 0x40, 0xe040];
        let mut mxcsr = modes[random.below(9) as usize];
        if random.one_in(4) {
            mxcsr = random.next() as u32 & 0xe07f;
        }
        let masks = if masked {
            MASKS
        } else {
            random.next() as u32 & MASKS
        };
        image.0[MXCSR..MXCSR + 4].copy_from_slice(&(mxcsr | masks).to_le_bytes());
        for n in 0..8 {
            let at = ST + 16 * n;
            image.0[at..at + 8].copy_from_slice(&word(random).to_le_bytes());
            image.0[at + 8..at + 10].copy_from_slice(&(random.next() as u16).to_le_bytes());
        }
        for at in (XMM..LEN).step_by(8) {
            let again = at > XMM + 8 && random.one_in(6);
            let v = if again {
                // Equal operands.
                let back = at - 16;
                u64::from_le_bytes(image.0[back..back + 8].try_into().unwrap())
            } else {
                word(random)
            };
            image.0[at..at + 8].copy_from_slice(&v.to_le_bytes());
        }
        image
    }
}

/// A float of a format of which `fraction` is the width of the fraction and `bias` the exponent's bias.
fn float(random: &mut Random, fraction: u32, bias: u64) -> u64 {
    let sign = random.below(2) << (fraction + bias.count_ones() + 1);
    let low = random.next() & ((1 << fraction) - 1);
    let top = 2 * bias + 1;
    sign | match random.below(16) {
        0 => 0,
        1 => low.min(3),
        2 => low,
        3 => top << fraction,
        4 => top << fraction | 1 << (fraction - 1) | low,
        5 => top << fraction | low & !(1 << (fraction - 1)) | 1,
        6 => 1 << fraction | low.min(2),
        7 | 8 => (top - 1) << fraction | low,
        // About one, about integers, few bits.
        9 | 10 => (bias + random.below(3)) << fraction | low & !0 << random.below(fraction.into()),
        11 | 12 => (bias + random.below(70)).min(top - 1) << fraction | low,
        13 => (random.below(40) + 1) << fraction | low,
        _ => random.below(top) << fraction | low,
    }
}

/// A quadword of elements of any kind.
pub fn word(random: &mut Random) -> u64 {
    match random.below(8) {
        0 | 1 => float(random, 52, 1023),
        2..=4 => float(random, 23, 127) | float(random, 23, 127) << 32,
        5 => random.value(),
        6 => u64::from_le_bytes(std::array::from_fn(|_| {
            [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6) as usize]
        })),
        _ => random.next(),
    }
}

/// Whether features are those of this family.
fn ours(features: &[CpuidFeature]) -> bool {
    use CpuidFeature::*;
    features.iter().any(|f| {
        matches!(
            f,
            MMX | SSE | SSE2 | SSE3 | SSSE3 | SSE4_1 | SSE4_2 | AES | PCLMULQDQ
        )
    }) && !features.contains(&FPU)
}

/// Results that the manual leaves open within a bound.
const APPROXIMATE: [Mnemonic; 4] = [
    Mnemonic::Rcpps,
    Mnemonic::Rcpss,
    Mnemonic::Rsqrtps,
    Mnemonic::Rsqrtss,
];

/// Whether it is an instruction of this family that can be compared.
pub fn wanted(i: &Instruction) -> bool {
    use Mnemonic::*;
    let vector = |r: Register| r.is_xmm() || r.is_mm();
    let far = [i.memory_segment(), i.segment_prefix()]
        .iter()
        .any(|s| matches!(s, Register::FS | Register::GS));
    i.code().encoding() == EncodingKind::Legacy
        && ours(i.cpuid_features())
        && ((0..i.op_count()).any(|n| vector(i.op_register(n)))
            || matches!(i.mnemonic(), Emms | Cvtss2si | Cvtsd2si | Cvttss2si | Cvttsd2si))
        && !APPROXIMATE.contains(&i.mnemonic())
        && !far
}

/// Mnemonics of all instructions of this family that the decoder knows in 64-bit code.
pub fn mnemonics() -> BTreeSet<String> {
    use Mnemonic::*;
    // Without a register of ours, lifted with the integer instructions.
    let others = [
        Ldmxcsr,
        Stmxcsr,
        Sfence,
        Lfence,
        Mfence,
        Clflush,
        Pause,
        Movnti,
        Prefetchnta,
        Prefetcht0,
        Prefetcht1,
        Prefetcht2,
        Crc32,
        Monitor,
        Mwait,
        Prefetchw,
    ];
    Code::values()
        .filter(|code| {
            let info = code.op_code();
            info.mode64() && info.encoding() == EncodingKind::Legacy && ours(code.cpuid_features())
        })
        .map(Code::mnemonic)
        .filter(|m| !APPROXIMATE.contains(m) && !others.contains(m))
        .map(|m| format!("{m:?}"))
        .collect()
}
