//! What moves elements between lanes, in MMX and vector registers; AES and carry-less products.

use super::{Alignment, Halves, Lifter, is_mmx, register};
use crate::ir::{Bin, Op, Size, VBin, VImm, VImm2, VUn, Val, Width};
use crate::x86_64::simd::{crypto::*, shuffle::*};
use crate::x86_64::slots::xmm;
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    let control = i.immediate8();
    match i.mnemonic() {
        M::Pshufd => shuffle(l, i, VImm::Shuffle32),
        M::Pshuflw => shuffle(l, i, VImm::ShuffleLow16),
        M::Pshufhw => shuffle(l, i, VImm::ShuffleHigh16),
        M::Pshufw => {
            let v = l.mm_operand(i, 1, Size::B8);
            let v = l.only_low(v);
            let v = l.op(Op::VImm(VImm::ShuffleLow16, v, control));
            let v = l.op(Op::VExtract(Size::B8, 0, v));
            l.set_mm(register(i, 0), v);
        }
        M::Shufps => l.two(i, |l, a, b| l.op(Op::VImm2(VImm2::Shuffle32, a, b, control))),
        M::Shufpd => l.two(i, |l, a, b| l.op(Op::VImm2(VImm2::Shuffle64, a, b, control))),
        M::Pshufb if is_mmx(i, 0) => l.two_mmx(i, Size::B8, |l, a, b| {
            // Three bits choose.
            let b = l.and(b, 0x8787_8787_8787_8787);
            let (a, b) = (l.only_low(a), l.only_low(b));
            let v = l.op(Op::VBin(VBin::Permute8, a, b));
            l.op(Op::VExtract(Size::B8, 0, v))
        }),
        M::Pshufb => l.two(i, |l, a, b| l.op(Op::VBin(VBin::Permute8, a, b))),
        M::Palignr if is_mmx(i, 0) => l.two_mmx(i, Size::B8, |l, a, b| {
            let v = l.pair([b, a]);
            let v = l.op(Op::VImm(VImm::ShrBytes, v, control));
            l.op(Op::VExtract(Size::B8, 0, v))
        }),
        M::Palignr => l.two(i, |l, a, b| l.op(Op::VImm2(VImm2::Align, a, b, control))),
        M::Psrldq => bytes(l, i, VImm::ShrBytes),
        M::Pslldq => bytes(l, i, VImm::ShlBytes),
        M::Punpcklbw => interleave(l, i, 0, [VBin::InterleaveLow8, VBin::InterleaveHigh8]),
        M::Punpckhbw => interleave(l, i, 1, [VBin::InterleaveLow8, VBin::InterleaveHigh8]),
        M::Punpcklwd => interleave(l, i, 0, [VBin::InterleaveLow16, VBin::InterleaveHigh16]),
        M::Punpckhwd => interleave(l, i, 1, [VBin::InterleaveLow16, VBin::InterleaveHigh16]),
        M::Punpckldq | M::Unpcklps => interleave(l, i, 0, [VBin::InterleaveLow32, VBin::InterleaveHigh32]),
        M::Punpckhdq | M::Unpckhps => interleave(l, i, 1, [VBin::InterleaveLow32, VBin::InterleaveHigh32]),
        M::Punpcklqdq | M::Unpcklpd => l.two(i, |l, a, b| l.vbin(VBin::InterleaveLow64, a, b)),
        M::Punpckhqdq | M::Unpckhpd => l.two(i, |l, a, b| l.vbin(VBin::InterleaveHigh64, a, b)),
        M::Packsswb => by_operands(l, i, VBin::PackS16),
        M::Packuswb => by_operands(l, i, VBin::PackU16),
        M::Packssdw => by_operands(l, i, VBin::PackS32),
        M::Packusdw => by_operands(l, i, VBin::PackU32),
        M::Phaddw => by_operands(l, i, VBin::AddPairs16),
        M::Phaddd => by_operands(l, i, VBin::AddPairs32),
        M::Phaddsw => by_operands(l, i, VBin::AddPairsSatS16),
        M::Phsubw => by_operands(l, i, VBin::SubPairs16),
        M::Phsubd => by_operands(l, i, VBin::SubPairs32),
        M::Phsubsw => by_operands(l, i, VBin::SubPairsSatS16),
        M::Pmovsxbw => widen(l, i, Size::B8, VUn::WidenS8To16),
        M::Pmovsxbd => widen(l, i, Size::B4, VUn::WidenS8To32),
        M::Pmovsxbq => widen(l, i, Size::B2, VUn::WidenS8To64),
        M::Pmovsxwd => widen(l, i, Size::B8, VUn::WidenS16To32),
        M::Pmovsxwq => widen(l, i, Size::B4, VUn::WidenS16To64),
        M::Pmovsxdq => widen(l, i, Size::B8, VUn::WidenS32To64),
        M::Pmovzxbw => widen(l, i, Size::B8, VUn::WidenU8To16),
        M::Pmovzxbd => widen(l, i, Size::B4, VUn::WidenU8To32),
        M::Pmovzxbq => widen(l, i, Size::B2, VUn::WidenU8To64),
        M::Pmovzxwd => widen(l, i, Size::B8, VUn::WidenU16To32),
        M::Pmovzxwq => widen(l, i, Size::B4, VUn::WidenU16To64),
        M::Pmovzxdq => widen(l, i, Size::B8, VUn::WidenU32To64),
        M::Pblendw => blend(l, i, 1),
        M::Blendps => blend(l, i, 2),
        M::Blendpd => blend(l, i, 4),
        M::Pblendvb => variable_blend(l, i, Size::B1),
        M::Blendvps => variable_blend(l, i, Size::B4),
        M::Blendvpd => variable_blend(l, i, Size::B8),
        M::Mpsadbw => by_halves(l, i, |l, a, b| {
            let block = l.window(&b, 4 * usize::from(control & 3));
            let at = usize::from(control & 4);
            [0, 4].map(|more| {
                let window = l.window(&a, at + more);
                l.pure(MPSADBW, [window, block])
            })
        }),
        M::Phminposuw => {
            let v = l.vector_operand(i, 1, Alignment::Required);
            let v = l.halves(v);
            let v = l.pure(PHMINPOSUW, v);
            let v = l.only_low(v);
            l.set_result(i, v);
        }
        M::Ptest => test(l, i),
        M::Aesenc => round(l, i, AESENC_LOW, AESENC_HIGH),
        M::Aesenclast => round(l, i, AESENCLAST_LOW, AESENCLAST_HIGH),
        M::Aesdec => round(l, i, AESDEC_LOW, AESDEC_HIGH),
        M::Aesdeclast => round(l, i, AESDECLAST_LOW, AESDECLAST_HIGH),
        M::Aesimc => {
            let b = l.vector_operand(i, 1, Alignment::Required);
            let r = l.halves(b).map(|word| l.pure(AESIMC, [word]));
            let r = l.pair(r);
            l.set_result(i, r);
        }
        M::Aeskeygenassist => {
            let b = l.vector_operand(i, 1, Alignment::Required);
            let c = l.constant(control.into());
            let r = l.halves(b).map(|word| {
                let x = l.shr(word, 32);
                l.pure(AESKEYGENASSIST, [x, c])
            });
            let r = l.pair(r);
            l.set_result(i, r);
        }
        M::Pclmulqdq => by_halves(l, i, |l, a, b| {
            let (a, b) = (a[usize::from(control & 1)], b[usize::from(control >> 4 & 1)]);
            [PCLMUL_LOW, PCLMUL_HIGH].map(|function| l.pure(function, [a, b]))
        }),
        _ => return false,
    }
    true
}

/// An instruction of two vectors, the first its destination, by their quadwords.
fn by_halves(l: &mut Lifter, i: &Instruction, f: impl FnOnce(&mut Lifter, Halves, Halves) -> Halves) {
    l.two(i, |l, a, b| {
        let (a, b) = (l.halves(a), l.halves(b));
        let r = f(l, a, b);
        l.pair(r)
    });
}

fn shuffle(l: &mut Lifter, i: &Instruction, op: VImm) {
    let v = l.vector_operand(i, 1, Alignment::Required);
    let v = l.op(Op::VImm(op, v, i.immediate8()));
    l.set_result(i, v);
}

/// psrldq, pslldq: the register that is shifted is the destination.
fn bytes(l: &mut Lifter, i: &Instruction, op: VImm) {
    let v = l.vector_register(i, 0);
    let v = l.op(Op::VImm(op, v, i.immediate8()));
    l.set_result(i, v);
}

/// An operation that makes half of its result of each operand.
fn by_operands(l: &mut Lifter, i: &Instruction, op: VBin) {
    if !is_mmx(i, 0) {
        return l.two(i, |l, a, b| l.op(Op::VBin(op, a, b)));
    }
    l.two_mmx(i, Size::B8, |l, a, b| {
        let both = l.pair([a, b]);
        let v = l.op(Op::VBin(op, both, both));
        l.op(Op::VExtract(Size::B8, 0, v))
    });
}

/// Interleaves the elements of one half (0 or 1) of both operands.
fn interleave(l: &mut Lifter, i: &Instruction, half: u8, ops: [VBin; 2]) {
    if !is_mmx(i, 0) {
        return l.two(i, |l, a, b| l.op(Op::VBin(ops[usize::from(half)], a, b)));
    }
    // All of two MMX registers is the low half of two vectors.
    let size = if half == 0 { Size::B4 } else { Size::B8 };
    l.two_mmx(i, size, |l, a, b| {
        let (a, b) = (l.only_low(a), l.only_low(b));
        let v = l.op(Op::VBin(ops[0], a, b));
        l.op(Op::VExtract(Size::B8, half, v))
    });
}

/// pmovsx, pmovzx, of `size` in memory.
fn widen(l: &mut Lifter, i: &Instruction, size: Size, op: VUn) {
    let v = if i.op1_kind() == OpKind::Register {
        l.vector_register(i, 1)
    } else {
        let v = l.low_operand(i, 1, size);
        l.only_low(v)
    };
    let v = l.op(Op::VUn(op, v));
    l.set_result(i, v);
}

/// Elements of that many words of the second operand where the control's bit is set.
fn blend(l: &mut Lifter, i: &Instruction, words: u8) {
    let bits = (0..8 / words).filter(|n| i.immediate8() >> n & 1 != 0);
    let element = (1u8 << words) - 1;
    let control = bits.fold(0, |control, n| control | element << (n * words));
    l.two(i, |l, a, b| l.op(Op::VImm2(VImm2::Blend16, a, b, control)));
}

/// By the sign bits of xmm0's elements.
fn variable_blend(l: &mut Lifter, i: &Instruction, size: Size) {
    l.two(i, |l, a, b| {
        let mask = l.get_v(xmm(0, 0));
        l.op(Op::VSelect(size, mask, a, b))
    });
}

/// ptest: ZF if no bit is in both, CF if none of the second operand is missing in the first.
fn test(l: &mut Lifter, i: &Instruction) {
    let b = l.vector_operand(i, 1, Alignment::Required);
    let a = l.vector_register(i, 0);
    let [zero, carry] = [VBin::And, VBin::AndNot].map(|op| {
        let v = l.vbin(op, a, b);
        l.op(Op::VIsZero(v))
    });
    l.flags_zero_carry(zero, carry);
}

/// A round of AES; the second operand is its key.
fn round(l: &mut Lifter, i: &Instruction, low: u16, high: u16) {
    by_halves(l, i, |l, a, key| {
        let mut half = |function, key| {
            let v = l.pure(function, a);
            l.bin(Bin::Xor, Width::W64, v, key)
        };
        [half(low, key[0]), half(high, key[1])]
    });
}

impl Lifter {
    /// 64 bits of `words` from byte `at` on; what isn't there is zero.
    fn window(&mut self, words: &[Val], at: usize) -> Val {
        let (first, shift) = (at / 8, 8 * (at as u64 % 8));
        let zero = self.constant(0);
        let word = |n: usize| words.get(n).copied().unwrap_or(zero);
        if shift == 0 {
            return word(first);
        }
        let below = self.shr(word(first), shift);
        let above = self.shl(word(first + 1), 64 - shift);
        self.or(below, above)
    }
}
