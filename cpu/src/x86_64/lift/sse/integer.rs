//! Integers lane by lane, and bitwise operations, in MMX and vector registers.

use super::{Alignment, Lifter, is_mmx, number, register};
use crate::ir::{Bin, Cond, Size, Un, Val, Width};
use crate::x86_64::simd::integer::*;
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Pand | M::Andps | M::Andpd => l.by_words(i, |l, a, b| l.bin(Bin::And, Width::W64, a, b)),
        M::Por | M::Orps | M::Orpd => l.by_words(i, |l, a, b| l.or(a, b)),
        M::Pxor | M::Xorps | M::Xorpd => l.by_words(i, |l, a, b| l.bin(Bin::Xor, Width::W64, a, b)),
        M::Pandn | M::Andnps | M::Andnpd => l.by_words(i, |l, a, b| {
            let a = l.not(a);
            l.bin(Bin::And, Width::W64, a, b)
        }),
        M::Paddq => l.by_words(i, |l, a, b| l.bin(Bin::Add, Width::W64, a, b)),
        M::Psubq => l.by_words(i, |l, a, b| l.bin(Bin::Sub, Width::W64, a, b)),
        M::Pcmpeqq => l.by_words(i, |l, a, b| l.mask_if(Cond::Eq, a, b)),
        M::Pcmpgtq => l.by_words(i, |l, a, b| l.mask_if(Cond::LtS, b, a)),
        M::Pmuludq => l.by_words(i, |l, a, b| {
            let (a, b) = (l.zx(Size::B4, a), l.zx(Size::B4, b));
            l.bin(Bin::Mul, Width::W64, a, b)
        }),
        M::Pmuldq => l.by_words(i, |l, a, b| {
            let (a, b) = (l.un(Un::Sext32, a), l.un(Un::Sext32, b));
            l.bin(Bin::Mul, Width::W64, a, b)
        }),
        M::Pabsb => l.by_words(i, |l, _, b| l.pure(PABSB, [b])),
        M::Pabsw => l.by_words(i, |l, _, b| l.pure(PABSW, [b])),
        M::Pabsd => l.by_words(i, |l, _, b| l.pure(PABSD, [b])),
        M::Psllw => shift(l, i, PSLLW),
        M::Pslld => shift(l, i, PSLLD),
        M::Psllq => shift(l, i, PSLLQ),
        M::Psrlw => shift(l, i, PSRLW),
        M::Psrld => shift(l, i, PSRLD),
        M::Psrlq => shift(l, i, PSRLQ),
        M::Psraw => shift(l, i, PSRAW),
        M::Psrad => shift(l, i, PSRAD),
        mnemonic => {
            let Some(function) = function(mnemonic) else {
                return false;
            };
            l.by_words(i, |l, a, b| l.pure(function, [a, b]));
        }
    }
    true
}

/// The function of two words.
fn function(mnemonic: Mnemonic) -> Option<u16> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Paddb => PADDB,
        M::Paddw => PADDW,
        M::Paddd => PADDD,
        M::Psubb => PSUBB,
        M::Psubw => PSUBW,
        M::Psubd => PSUBD,
        M::Paddsb => PADDSB,
        M::Paddsw => PADDSW,
        M::Paddusb => PADDUSB,
        M::Paddusw => PADDUSW,
        M::Psubsb => PSUBSB,
        M::Psubsw => PSUBSW,
        M::Psubusb => PSUBUSB,
        M::Psubusw => PSUBUSW,
        M::Pcmpeqb => PCMPEQB,
        M::Pcmpeqw => PCMPEQW,
        M::Pcmpeqd => PCMPEQD,
        M::Pcmpgtb => PCMPGTB,
        M::Pcmpgtw => PCMPGTW,
        M::Pcmpgtd => PCMPGTD,
        M::Pminub => PMINUB,
        M::Pminuw => PMINUW,
        M::Pminud => PMINUD,
        M::Pminsb => PMINSB,
        M::Pminsw => PMINSW,
        M::Pminsd => PMINSD,
        M::Pmaxub => PMAXUB,
        M::Pmaxuw => PMAXUW,
        M::Pmaxud => PMAXUD,
        M::Pmaxsb => PMAXSB,
        M::Pmaxsw => PMAXSW,
        M::Pmaxsd => PMAXSD,
        M::Pavgb => PAVGB,
        M::Pavgw => PAVGW,
        M::Pmullw => PMULLW,
        M::Pmulhw => PMULHW,
        M::Pmulhuw => PMULHUW,
        M::Pmulhrsw => PMULHRSW,
        M::Pmulld => PMULLD,
        M::Pmaddwd => PMADDWD,
        M::Pmaddubsw => PMADDUBSW,
        M::Psadbw => PSADBW,
        M::Psignb => PSIGNB,
        M::Psignw => PSIGNW,
        M::Psignd => PSIGND,
        _ => return None,
    })
}

/// A shift of all elements by an immediate, or by the low quadword of an operand.
fn shift(l: &mut Lifter, i: &Instruction, function: u16) {
    let mmx = is_mmx(i, 0);
    let count = match i.op1_kind() {
        OpKind::Immediate8 => l.constant(i.immediate8().into()),
        _ if mmx => l.mm_operand(i, 1, Size::B8),
        _ => l.vector_operand(i, 1, Alignment::Required)[0],
    };
    if mmx {
        let a = l.mm(register(i, 0));
        let r = l.shifted(function, a, count);
        l.set_mm(register(i, 0), r);
    } else {
        let a = l.vector(number(register(i, 0)));
        let r = a.map(|word| l.shifted(function, word, count));
        l.set_result(i, r);
    }
}

impl Lifter {
    /// All ones if the comparison holds, else 0.
    fn mask_if(&mut self, cond: Cond, a: Val, b: Val) -> Val {
        let (holds, zero) = (self.cmp(cond, Width::W64, a, b), self.constant(0));
        self.bin(Bin::Sub, Width::W64, zero, holds)
    }

    fn shifted(&mut self, function: u16, a: Val, count: Val) -> Val {
        match (function, self.as_constant(count)) {
            (_, Some(0)) => a,
            (PSLLQ, Some(count @ 0..64)) => self.shl(a, count),
            (PSRLQ, Some(count @ 0..64)) => self.shr(a, count),
            (PSLLW | PSRLW, Some(16..)) | (PSLLD | PSRLD, Some(32..)) | (PSLLQ | PSRLQ, Some(_)) => {
                self.constant(0)
            }
            // Whole words are shifted, and what came from a neighbour is cut off.
            (PSLLW | PSLLD | PSRLW | PSRLD, Some(count)) => {
                let element = match function {
                    PSLLW => 0x0001_0001_0001_0001 * u64::from(0xffffu16 << count),
                    PSRLW => 0x0001_0001_0001_0001 * u64::from(0xffffu16 >> count),
                    PSLLD => 0x0000_0001_0000_0001 * u64::from(u32::MAX << count),
                    _ => 0x0000_0001_0000_0001 * u64::from(u32::MAX >> count),
                };
                let v = match function {
                    PSLLW | PSLLD => self.shl(a, count),
                    _ => self.shr(a, count),
                };
                self.and(v, element)
            }
            _ => self.pure(function, [a, count]),
        }
    }
}
