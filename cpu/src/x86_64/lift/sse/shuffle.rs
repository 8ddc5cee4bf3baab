//! What moves elements between lanes, in MMX and vector registers; AES and carry-less products.

use super::{Alignment, Lifter, Vector, is_mmx, number, register};
use crate::ir::{Bin, Cond, Size, Un, Val, Width};
use crate::x86_64::simd::{crypto::*, integer::*, shuffle::*};
use crate::x86_64::slots::xmm;
use iced_x86::{Instruction, Mnemonic};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    let control = || u64::from(i.immediate8());
    match i.mnemonic() {
        M::Pshufd => {
            let b = l.vector_operand(i, 1, Alignment::Required);
            let r = [l.chosen(b, control()), l.chosen(b, control() >> 4)];
            l.set_result(i, r);
        }
        M::Pshuflw | M::Pshufhw => {
            let mut r = l.vector_operand(i, 1, Alignment::Required);
            let part = usize::from(i.mnemonic() == M::Pshufhw);
            let c = l.constant(control());
            r[part] = l.pure(WORDS, [r[part], c]);
            l.set_result(i, r);
        }
        M::Pshufw => {
            let (b, c) = (l.mm_operand(i, 1, Size::B8), l.constant(control()));
            let r = l.pure(WORDS, [b, c]);
            l.set_mm(register(i, 0), r);
        }
        M::Shufps => two(l, i, |l, a, b| {
            [l.chosen(a, control()), l.chosen(b, control() >> 4)]
        }),
        M::Shufpd => two(l, i, |_, a, b| {
            [a[(control() & 1) as usize], b[(control() >> 1 & 1) as usize]]
        }),
        M::Pshufb if is_mmx(i, 0) => {
            let b = l.mm_operand(i, 1, Size::B8);
            let a = l.mm(register(i, 0));
            // Three bits choose.
            let b = l.and(b, 0x8787_8787_8787_8787);
            let r = l.pure(BYTES, [a, a, b]);
            l.set_mm(register(i, 0), r);
        }
        M::Pshufb => two(l, i, |l, a, b| {
            b.map(|control| l.pure(BYTES, [a[0], a[1], control]))
        }),
        M::Palignr if is_mmx(i, 0) => {
            let b = l.mm_operand(i, 1, Size::B8);
            let a = l.mm(register(i, 0));
            let r = l.window(&[b, a], control() as usize);
            l.set_mm(register(i, 0), r);
        }
        M::Palignr => two(l, i, |l, a, b| {
            let at = control() as usize;
            [0, 8].map(|more| l.window(&[b[0], b[1], a[0], a[1]], at + more))
        }),
        M::Psrldq => {
            let a = l.vector(number(register(i, 0)));
            let at = control() as usize;
            let r = [0, 8].map(|more| l.window(&a, at + more));
            l.set_result(i, r);
        }
        M::Pslldq => {
            let [lo, hi] = l.vector(number(register(i, 0)));
            let (zero, at) = (l.constant(0), 16 - control().min(16) as usize);
            let r = [0, 8].map(|more| l.window(&[zero, zero, lo, hi], at + more));
            l.set_result(i, r);
        }
        M::Punpcklbw => interleave(l, i, 0, INTERLEAVE_LOW_BYTES, INTERLEAVE_HIGH_BYTES),
        M::Punpckhbw => interleave(l, i, 1, INTERLEAVE_LOW_BYTES, INTERLEAVE_HIGH_BYTES),
        M::Punpcklwd => interleave(l, i, 0, INTERLEAVE_LOW_WORDS, INTERLEAVE_HIGH_WORDS),
        M::Punpckhwd => interleave(l, i, 1, INTERLEAVE_LOW_WORDS, INTERLEAVE_HIGH_WORDS),
        M::Punpckldq | M::Unpcklps => interleave_dwords(l, i, 0),
        M::Punpckhdq | M::Unpckhps => interleave_dwords(l, i, 1),
        M::Punpcklqdq | M::Unpcklpd => two(l, i, |_, a, b| [a[0], b[0]]),
        M::Punpckhqdq | M::Unpckhpd => two(l, i, |_, a, b| [a[1], b[1]]),
        M::Packsswb => by_operands(l, i, PACKSSWB),
        M::Packuswb => by_operands(l, i, PACKUSWB),
        M::Packssdw => by_operands(l, i, PACKSSDW),
        M::Packusdw => by_operands(l, i, PACKUSDW),
        M::Phaddw => by_operands(l, i, PHADDW),
        M::Phaddd => by_operands(l, i, PHADDD),
        M::Phaddsw => by_operands(l, i, PHADDSW),
        M::Phsubw => by_operands(l, i, PHSUBW),
        M::Phsubd => by_operands(l, i, PHSUBD),
        M::Phsubsw => by_operands(l, i, PHSUBSW),
        M::Pmovsxbw => widen(l, i, Size::B8, |l, v| l.pure(SIGN_BYTES_TO_WORDS, [v])),
        M::Pmovsxbd => widen(l, i, Size::B4, |l, v| l.pure(SIGN_BYTES_TO_DWORDS, [v])),
        M::Pmovsxbq => widen(l, i, Size::B2, |l, v| l.un(Un::Sext8, v)),
        M::Pmovsxwd => widen(l, i, Size::B8, |l, v| l.pure(SIGN_WORDS_TO_DWORDS, [v])),
        M::Pmovsxwq => widen(l, i, Size::B4, |l, v| l.un(Un::Sext16, v)),
        M::Pmovsxdq => widen(l, i, Size::B8, |l, v| l.un(Un::Sext32, v)),
        M::Pmovzxbw => widen(l, i, Size::B8, |l, v| l.pure(ZERO_BYTES_TO_WORDS, [v])),
        M::Pmovzxbd => widen(l, i, Size::B4, |l, v| l.pure(ZERO_BYTES_TO_DWORDS, [v])),
        M::Pmovzxbq => widen(l, i, Size::B2, |l, v| l.un(Un::Zext8, v)),
        M::Pmovzxwd => widen(l, i, Size::B8, |l, v| l.pure(ZERO_WORDS_TO_DWORDS, [v])),
        M::Pmovzxwq => widen(l, i, Size::B4, |l, v| l.un(Un::Zext16, v)),
        M::Pmovzxdq => widen(l, i, Size::B8, |l, v| l.un(Un::Zext32, v)),
        M::Pblendw => blend(l, i, 2),
        M::Blendps => blend(l, i, 4),
        M::Blendpd => blend(l, i, 8),
        M::Pblendvb => variable_blend(l, i, PBLENDVB),
        M::Blendvps => variable_blend(l, i, BLENDVPS),
        M::Blendvpd => variable_blend(l, i, BLENDVPD),
        M::Mpsadbw => two(l, i, |l, a, b| {
            let block = l.window(&b, 4 * (control() & 3) as usize);
            let at = (control() & 4) as usize;
            [0, 4].map(|more| {
                let window = l.window(&a, at + more);
                l.pure(MPSADBW, [window, block])
            })
        }),
        M::Phminposuw => {
            let [lo, hi] = l.vector_operand(i, 1, Alignment::Required);
            let r = [l.pure(PHMINPOSUW, [lo, hi]), l.constant(0)];
            l.set_result(i, r);
        }
        M::Ptest => test(l, i),
        M::Aesenc => round(l, i, AESENC_LOW, AESENC_HIGH),
        M::Aesenclast => round(l, i, AESENCLAST_LOW, AESENCLAST_HIGH),
        M::Aesdec => round(l, i, AESDEC_LOW, AESDEC_HIGH),
        M::Aesdeclast => round(l, i, AESDECLAST_LOW, AESDECLAST_HIGH),
        M::Aesimc => {
            let b = l.vector_operand(i, 1, Alignment::Required);
            let r = b.map(|word| l.pure(AESIMC, [word]));
            l.set_result(i, r);
        }
        M::Aeskeygenassist => {
            let b = l.vector_operand(i, 1, Alignment::Required);
            let c = l.constant(control());
            let r = b.map(|word| {
                let x = l.shr(word, 32);
                l.pure(AESKEYGENASSIST, [x, c])
            });
            l.set_result(i, r);
        }
        M::Pclmulqdq => two(l, i, |l, a, b| {
            let (a, b) = (a[(control() & 1) as usize], b[(control() >> 4 & 1) as usize]);
            [PCLMUL_LOW, PCLMUL_HIGH].map(|function| l.pure(function, [a, b]))
        }),
        _ => return false,
    }
    true
}

/// An instruction of two vectors, the first its destination.
fn two(l: &mut Lifter, i: &Instruction, f: impl FnOnce(&mut Lifter, Vector, Vector) -> Vector) {
    let b = l.vector_operand(i, 1, Alignment::Required);
    let a = l.vector(number(register(i, 0)));
    let r = f(l, a, b);
    l.set_result(i, r);
}

/// A function of all of one operand, for each of both.
fn by_operands(l: &mut Lifter, i: &Instruction, function: u16) {
    if is_mmx(i, 0) {
        l.by_words(i, |l, a, b| l.pure(function, [a, b]));
    } else {
        two(l, i, |l, a, b| [a, b].map(|v| l.pure(function, v)));
    }
}

/// Interleaves the elements of one half (0 or 1) of both operands: the functions make the halves of the result.
fn interleave(l: &mut Lifter, i: &Instruction, half: usize, low: u16, high: u16) {
    if is_mmx(i, 0) {
        let (function, size) = [(low, Size::B4), (high, Size::B8)][half];
        let b = l.mm_operand(i, 1, size);
        let a = l.mm(register(i, 0));
        let r = l.pure(function, [a, b]);
        return l.set_mm(register(i, 0), r);
    }
    two(l, i, |l, a, b| {
        [low, high].map(|function| l.pure(function, [a[half], b[half]]))
    });
}

fn interleave_dwords(l: &mut Lifter, i: &Instruction, half: usize) {
    let words = |l: &mut Lifter, a: Val, b: Val| {
        let low = l.dwords(a, b);
        let (a, b) = (l.shr(a, 32), l.shr(b, 32));
        [low, l.dwords(a, b)]
    };
    if is_mmx(i, 0) {
        let b = l.mm_operand(i, 1, [Size::B4, Size::B8][half]);
        let a = l.mm(register(i, 0));
        let r = words(l, a, b)[half];
        return l.set_mm(register(i, 0), r);
    }
    two(l, i, |l, a, b| words(l, a[half], b[half]));
}

/// pmovsx, pmovzx: `size` in memory makes a vector, of which the low half of its bits makes the low word.
fn widen(l: &mut Lifter, i: &Instruction, size: Size, f: impl Fn(&mut Lifter, Val) -> Val) {
    let v = l.low_operand(i, 1, size);
    let upper = l.shr(v, 4 * size.bytes());
    let r = [f(l, v), f(l, upper)];
    l.set_result(i, r);
}

/// Elements of `bytes` of the second operand where the control's bit is set.
fn blend(l: &mut Lifter, i: &Instruction, bytes: u64) {
    let element = u64::MAX >> (64 - 8 * bytes);
    let control = u64::from(i.immediate8());
    let mask = |word: u64| {
        let n = 8 / bytes;
        (0..n)
            .filter(|at| control >> (word * n + at) & 1 != 0)
            .fold(0, |mask, at| mask | element << (8 * bytes * at))
    };
    two(l, i, |l, a, b| {
        [0, 1].map(|word| {
            let mask = mask(word as u64);
            match mask {
                0 => a[word],
                u64::MAX => b[word],
                _ => {
                    let (a, b) = (l.and(a[word], !mask), l.and(b[word], mask));
                    l.or(a, b)
                }
            }
        })
    });
}

/// By the sign bits of xmm0's elements.
fn variable_blend(l: &mut Lifter, i: &Instruction, function: u16) {
    let mask = [l.get(xmm(0, 0)), l.get(xmm(0, 1))];
    two(l, i, |l, a, b| {
        [0, 1].map(|word| l.pure(function, [a[word], b[word], mask[word]]))
    });
}

/// ptest: ZF if no bit is in both, CF if none of the second operand is missing in the first.
fn test(l: &mut Lifter, i: &Instruction) {
    let b = l.vector_operand(i, 1, Alignment::Required);
    let a = l.vector(number(register(i, 0)));
    let both = [0, 1].map(|word| l.bin(Bin::And, Width::W64, a[word], b[word]));
    let missing = [0, 1].map(|word| {
        let a = l.not(a[word]);
        l.bin(Bin::And, Width::W64, a, b[word])
    });
    let [zero, carry] = [both, missing].map(|[lo, hi]| {
        let v = l.or(lo, hi);
        l.cmp_constant(Cond::Eq, Width::W64, v, 0)
    });
    l.flags_zero_carry(zero, carry);
}

/// A round of AES; the second operand is its key.
fn round(l: &mut Lifter, i: &Instruction, low: u16, high: u16) {
    two(l, i, |l, a, key| {
        let mut half = |function, key| {
            let v = l.pure(function, a);
            l.bin(Bin::Xor, Width::W64, v, key)
        };
        [half(low, key[0]), half(high, key[1])]
    });
}

impl Lifter {
    /// Two dwords chosen by two bits each of a control.
    fn chosen(&mut self, v: Vector, control: u64) -> Val {
        let [lo, hi] = [control & 3, control >> 2 & 3].map(|n| (v[(n >> 1) as usize], n & 1));
        if lo == (lo.0, 0) && hi == (lo.0, 1) {
            return lo.0;
        }
        let [lo, hi] = [lo, hi].map(|(word, upper)| self.shr(word, 32 * upper));
        self.dwords(lo, hi)
    }
}
