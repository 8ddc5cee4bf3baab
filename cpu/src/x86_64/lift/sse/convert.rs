//! Conversions between formats and integers, and rounding to integers.

use super::float::{lanes, size_of};
use super::{Alignment, Halves, Lifter, is_mmx, low, register};
use crate::ir::{Bin, Cond, FCond, FUn, Fmt, Int, Op, Rm, Size, VConvert, Val, Width};
use crate::softfloat::Round;
use crate::x86_64::helper;
use crate::x86_64::lift::operand::{Use, general, operand_size};
use crate::x86_64::simd::float::{DENORMALS_ARE_ZEROS, ROUND_DOUBLE, ROUND_SINGLE};
use crate::x86_64::slots::MXCSR;
use iced_x86::{Instruction, Mnemonic};

/// Rounds as MXCSR says, or cuts off (the conversions with two t).
const ROUND: Rm = Rm::Dynamic;
const CUT: Rm = Rm::Static(Round::TowardZero);

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Fmt::{F32, F64};
    use Mnemonic as M;
    match i.mnemonic() {
        M::Cvtsi2ss => from_general(l, i, F32),
        M::Cvtsi2sd => from_general(l, i, F64),
        M::Cvtss2si => to_general(l, i, F32, ROUND),
        M::Cvtsd2si => to_general(l, i, F64, ROUND),
        M::Cvttss2si => to_general(l, i, F32, CUT),
        M::Cvttsd2si => to_general(l, i, F64, CUT),
        M::Cvtss2sd => between(l, i, F32, F64),
        M::Cvtsd2ss => between(l, i, F64, F32),
        M::Cvtps2pd => {
            let v = low_half(l, i);
            let guard = l.guard();
            let r = l.op(Op::VConvert(VConvert::F32ToF64, v));
            l.settle(guard, F64, &[]);
            l.set_result(i, r);
        }
        M::Cvtpd2ps => {
            let v = l.vector_operand(i, 1, Alignment::Required);
            let guard = l.guard();
            let r = l.op(Op::VConvert(VConvert::F64ToF32, v));
            l.settle_vector(guard, F32, r);
            l.set_result(i, r);
        }
        M::Cvtdq2ps => whole(l, i, VConvert::I32ToF32),
        M::Cvtdq2pd => {
            let v = low_half(l, i);
            let r = l.op(Op::VConvert(VConvert::I32ToF64, v));
            l.set_result(i, r);
        }
        M::Cvtps2dq => whole(l, i, VConvert::F32ToI32),
        M::Cvttps2dq => whole(l, i, VConvert::F32ToI32Cut),
        M::Cvtpd2dq => whole(l, i, VConvert::F64ToI32),
        M::Cvttpd2dq => whole(l, i, VConvert::F64ToI32Cut),
        M::Cvtpi2ps => {
            let v = l.mm_operand(i, 1, Size::B8);
            let guard = l.guard();
            let r = l.halves_of(F32, |l, n| {
                let x = l.shr(v, 32 * (n as u64 % 2));
                l.op(Op::FFromInt(F32, Int::I32, ROUND, x))
            });
            l.settle(guard, F32, &[]);
            enter(l, i, 1);
            l.set_low_part(i, Size::B8, r[0]);
        }
        M::Cvtpi2pd => {
            let v = l.mm_operand(i, 1, Size::B8);
            let v = l.only_low(v);
            let r = l.op(Op::VConvert(VConvert::I32ToF64, v));
            enter(l, i, 1);
            l.set_result(i, r);
        }
        M::Cvtps2pi => singles_to_mmx(l, i, ROUND),
        M::Cvttps2pi => singles_to_mmx(l, i, CUT),
        M::Cvtpd2pi => doubles_to_mmx(l, i, ROUND),
        M::Cvttpd2pi => doubles_to_mmx(l, i, CUT),
        M::Roundps => round_packed(l, i, F32),
        M::Roundpd => round_packed(l, i, F64),
        M::Roundss => round_scalar(l, i, F32),
        M::Roundsd => round_scalar(l, i, F64),
        _ => return false,
    }
    true
}

/// Whether the result goes to a general register.
pub(super) fn is_to_general(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Cvtss2si | M::Cvtsd2si | M::Cvttss2si | M::Cvttsd2si)
}

/// The x87's registers become MMX registers if the operand is one.
fn enter(l: &mut Lifter, i: &Instruction, n: u32) {
    if is_mmx(i, n) {
        l.mmx_helper(helper::MMX_ENTER, [None; 2]);
    }
}

fn integer(size: Size) -> Int {
    match size {
        Size::B8 => Int::I64,
        Size::B1 | Size::B2 | Size::B4 => Int::I32,
    }
}

fn from_general(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let size = operand_size(i, 1);
    let v = l.read(i, 1, size);
    let guard = l.guard();
    let r = l.op(Op::FFromInt(fmt, integer(size), ROUND, v));
    l.settle(guard, fmt, &[]);
    l.set_scalar(i, fmt, r);
}

fn to_general(l: &mut Lifter, i: &Instruction, fmt: Fmt, rm: Rm) {
    let v = l.scalar_operand(i, 1, fmt);
    let guard = l.guard();
    let r = l.op(Op::FToInt(fmt, integer(operand_size(i, 0)), rm, v));
    l.settle(guard, fmt, &[]);
    if let Some(place) = general(register(i, 0)) {
        l.put(place, r);
    }
}

fn between(l: &mut Lifter, i: &Instruction, from: Fmt, to: Fmt) {
    let v = l.scalar_operand(i, 1, from);
    let guard = l.guard();
    let r = l.op(Op::FUn(FUn::Convert, from, ROUND, v));
    let seen = l.scalar_bits(to, r);
    l.settle(guard, to, &seen);
    l.set_scalar(i, to, r);
}

/// The low half of a vector, or 8 bytes of memory.
fn low_half(l: &mut Lifter, i: &Instruction) -> Val {
    if i.op1_kind() == iced_x86::OpKind::Register {
        return l.vector_register(i, 1);
    }
    let v = l.low_operand(i, 1, Size::B8);
    l.only_low(v)
}

/// A conversion of a whole vector that can't underflow.
fn whole(l: &mut Lifter, i: &Instruction, op: VConvert) {
    let v = l.vector_operand(i, 1, Alignment::Required);
    let guard = l.guard();
    let r = l.op(Op::VConvert(op, v));
    l.settle(guard, Fmt::F32, &[]);
    l.set_result(i, r);
}

/// A word of two signed dwords from lanes `first` and `first + 1`.
fn dwords_of(l: &mut Lifter, fmt: Fmt, v: Halves, first: usize, rm: Rm) -> Val {
    let [lo, hi] = [first, first + 1].map(|n| {
        let x = l.lane(fmt, v, n);
        l.op(Op::FToInt(fmt, Int::I32, rm, x))
    });
    l.dwords(lo, hi)
}

fn singles_to_mmx(l: &mut Lifter, i: &Instruction, rm: Rm) {
    let v = l.low_operand(i, 1, Size::B8);
    let guard = l.guard();
    let r = dwords_of(l, Fmt::F32, [v, v], 0, rm);
    l.settle(guard, Fmt::F32, &[]);
    l.set_mm(register(i, 0), r);
}

fn doubles_to_mmx(l: &mut Lifter, i: &Instruction, rm: Rm) {
    let v = l.vector_operand(i, 1, Alignment::Required);
    let v = l.halves(v);
    let guard = l.guard();
    let r = dwords_of(l, Fmt::F64, v, 0, rm);
    l.settle(guard, Fmt::F64, &[]);
    l.set_mm(register(i, 0), r);
}

/// Rounding as an immediate says it.
struct Rounding {
    /// For the functions of `simd`.
    control: Val,
    /// Whether a result that differs raises PRECISION.
    precise: bool,
}

impl Rounding {
    fn new(l: &mut Lifter, immediate: u8) -> Rounding {
        // Bits of MXCSR that no op of this block changes.
        let mxcsr = l.get(MXCSR);
        let daz = l.shr(mxcsr, 4);
        let daz = l.and(daz, DENORMALS_ARE_ZEROS);
        let direction = if immediate & 4 != 0 {
            let v = l.shr(mxcsr, 13);
            l.and(v, 3)
        } else {
            l.constant(u64::from(immediate & 3))
        };
        Rounding {
            control: l.or(daz, direction),
            precise: immediate & 8 == 0,
        }
    }

    /// The result for one element's bits. Flags are raised by other operations on the same number.
    fn apply(&self, l: &mut Lifter, fmt: Fmt, x: Val) -> Val {
        let (function, fraction, bias) = match fmt {
            Fmt::F32 => (ROUND_SINGLE, 23, 127),
            Fmt::F64 => (ROUND_DOUBLE, 52, 1023),
        };
        // From 2^fraction on all numbers are integers.
        let magnitude = l.and(x, size_of(fmt).mask() >> 1);
        let great = l.cmp_constant(Cond::GeU, Width::W64, magnitude, (bias + fraction) << fraction);
        let zero = l.constant(0);
        let one = l.select(great, x, zero);
        let one = l.op(Op::FromBits(one));
        // INVALID for a signalling NaN.
        l.op(Op::FCmp(FCond::Unordered, fmt, one, one));
        if self.precise {
            let other = l.select(great, zero, x);
            let other = l.op(Op::FromBits(other));
            l.op(Op::FToInt(fmt, Int::I64, CUT, other));
        }
        l.pure(function, [x, self.control])
    }
}

fn round_packed(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let v = l.vector_operand(i, 1, Alignment::Required);
    let v = l.halves(v);
    let rounding = Rounding::new(l, i.immediate8());
    let guard = l.guard();
    let r = v.map(|word| {
        if lanes(fmt) == 1 {
            return rounding.apply(l, fmt, word);
        }
        let [lo, hi] = [0, 32].map(|shift| {
            let x = l.shr(word, shift);
            let x = l.zx(Size::B4, x);
            rounding.apply(l, fmt, x)
        });
        let hi = l.shl(hi, 32);
        l.bin(Bin::Or, Width::W64, lo, hi)
    });
    l.settle(guard, fmt, &[]);
    let r = l.pair(r);
    l.set_result(i, r);
}

fn round_scalar(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let v = match i.op1_kind() {
        iced_x86::OpKind::Register => l.get(low(i, 1)),
        _ => {
            let place = l.memory(i, size_of(fmt), Use::Read);
            l.load(place, false)
        }
    };
    let v = l.zx(size_of(fmt), v);
    let rounding = Rounding::new(l, i.immediate8());
    let guard = l.guard();
    let r = rounding.apply(l, fmt, v);
    l.settle(guard, fmt, &[]);
    l.set_low_part(i, size_of(fmt), r);
}
