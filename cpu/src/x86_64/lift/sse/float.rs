//! Floating-point arithmetic and comparisons.
//!
//! The first operand of an operation is the destination: of two NaNs it is the one that is handed on.

use super::{Alignment, Halves, Lifter, low};
use crate::ir::{Bin, Class, FBin, FCond, FUn, Fmt, Op, Rm, Size, VImm2, Val, Width};
use crate::x86_64::lift::operand::Use;
use crate::x86_64::simd::float::{RECIPROCAL, RECIPROCAL_ROOT};
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Fmt::{F32, F64};
    use Mnemonic as M;
    match i.mnemonic() {
        M::Addps => arithmetic(l, i, F32, FBin::Add),
        M::Addpd => arithmetic(l, i, F64, FBin::Add),
        M::Addss => scalar_arithmetic(l, i, F32, FBin::Add),
        M::Addsd => scalar_arithmetic(l, i, F64, FBin::Add),
        M::Subps => arithmetic(l, i, F32, FBin::Sub),
        M::Subpd => arithmetic(l, i, F64, FBin::Sub),
        M::Subss => scalar_arithmetic(l, i, F32, FBin::Sub),
        M::Subsd => scalar_arithmetic(l, i, F64, FBin::Sub),
        M::Mulps => arithmetic(l, i, F32, FBin::Mul),
        M::Mulpd => arithmetic(l, i, F64, FBin::Mul),
        M::Mulss => scalar_arithmetic(l, i, F32, FBin::Mul),
        M::Mulsd => scalar_arithmetic(l, i, F64, FBin::Mul),
        M::Divps => arithmetic(l, i, F32, FBin::Div),
        M::Divpd => arithmetic(l, i, F64, FBin::Div),
        M::Divss => scalar_arithmetic(l, i, F32, FBin::Div),
        M::Divsd => scalar_arithmetic(l, i, F64, FBin::Div),
        M::Minps => arithmetic(l, i, F32, FBin::Min),
        M::Minpd => arithmetic(l, i, F64, FBin::Min),
        M::Minss => scalar_arithmetic(l, i, F32, FBin::Min),
        M::Minsd => scalar_arithmetic(l, i, F64, FBin::Min),
        M::Maxps => arithmetic(l, i, F32, FBin::Max),
        M::Maxpd => arithmetic(l, i, F64, FBin::Max),
        M::Maxss => scalar_arithmetic(l, i, F32, FBin::Max),
        M::Maxsd => scalar_arithmetic(l, i, F64, FBin::Max),
        M::Sqrtps => packed(l, i, F32, true, |l, _, b| l.op(Op::VFSqrt(F32, b))),
        M::Sqrtpd => packed(l, i, F64, true, |l, _, b| l.op(Op::VFSqrt(F64, b))),
        M::Sqrtss => scalar(l, i, F32, true, |l, _, b| {
            l.op(Op::FUn(FUn::Sqrt, F32, Rm::Dynamic, b))
        }),
        M::Sqrtsd => scalar(l, i, F64, true, |l, _, b| {
            l.op(Op::FUn(FUn::Sqrt, F64, Rm::Dynamic, b))
        }),
        M::Addsubps => by_lane(l, i, F32, |l, lane, a, b| alternating(l, F32, lane, a, b)),
        M::Addsubpd => by_lane(l, i, F64, |l, lane, a, b| alternating(l, F64, lane, a, b)),
        M::Haddps => horizontal(l, i, F32, FBin::Add),
        M::Haddpd => horizontal(l, i, F64, FBin::Add),
        M::Hsubps => horizontal(l, i, F32, FBin::Sub),
        M::Hsubpd => horizontal(l, i, F64, FBin::Sub),
        M::Dpps => dot_product(l, i, F32),
        M::Dppd => dot_product(l, i, F64),
        M::Cmpps => compare(l, i, F32),
        M::Cmppd => compare(l, i, F64),
        M::Cmpss => compare_scalar(l, i, F32),
        M::Cmpsd => compare_scalar(l, i, F64),
        M::Comiss => compare_to_flags(l, i, F32, true),
        M::Comisd => compare_to_flags(l, i, F64, true),
        M::Ucomiss => compare_to_flags(l, i, F32, false),
        M::Ucomisd => compare_to_flags(l, i, F64, false),
        M::Rcpps => approximate(l, i, RECIPROCAL),
        M::Rsqrtps => approximate(l, i, RECIPROCAL_ROOT),
        M::Rcpss => approximate_scalar(l, i, RECIPROCAL),
        M::Rsqrtss => approximate_scalar(l, i, RECIPROCAL_ROOT),
        _ => return false,
    }
    true
}

/// Lanes of a word.
pub(super) const fn lanes(fmt: Fmt) -> usize {
    match fmt {
        Fmt::F32 => 2,
        Fmt::F64 => 1,
    }
}

pub(super) const fn size_of(fmt: Fmt) -> Size {
    match fmt {
        Fmt::F32 => Size::B4,
        Fmt::F64 => Size::B8,
    }
}

/// Floating-point lanes.
impl Lifter {
    /// Lane `n` of a vector, of class F.
    pub(super) fn lane(&mut self, fmt: Fmt, v: Halves, n: usize) -> Val {
        let word = v[n / lanes(fmt)];
        let shift = 32 * (n % lanes(fmt)) as u64;
        let word = self.shr(word, shift);
        self.op(Op::FromBits(word))
    }

    /// The quadwords of a vector of whose lanes `f` says the value, of class F.
    pub(super) fn halves_of(&mut self, fmt: Fmt, mut f: impl FnMut(&mut Lifter, usize) -> Val) -> Halves {
        [0, 1].map(|word| {
            let n = lanes(fmt);
            let first = f(self, word * n);
            let first = self.op(Op::ToBits(fmt, first));
            if n == 1 {
                return first;
            }
            let second = f(self, word * n + 1);
            let second = self.op(Op::ToBits(fmt, second));
            let second = self.shl(second, 32);
            self.or(first, second)
        })
    }

    /// The low lane of a register that an operand is, of class F.
    pub(super) fn scalar_register(&mut self, i: &Instruction, n: u32) -> Val {
        let slot = low(i, n);
        match self.held(slot) {
            Some(v) if self.def(v).class() == Some(Class::I) => self.op(Op::FromBits(v)),
            _ => self.get_f(slot),
        }
    }

    /// A scalar operand, of class F.
    pub(super) fn scalar_operand(&mut self, i: &Instruction, n: u32, fmt: Fmt) -> Val {
        if i.op_kind(n) == OpKind::Register {
            return self.scalar_register(i, n);
        }
        match self.memory(i, size_of(fmt), Use::Read) {
            crate::x86_64::lift::operand::Place::Mem { addr, offset, .. } => {
                self.op(Op::LoadF { fmt, addr, offset })
            }
            place => {
                let v = self.load(place, false);
                self.op(Op::FromBits(v))
            }
        }
    }

    /// Sets the low lane of the register that operand 0 is; `bits` is the same as an integer where that was needed.
    pub(super) fn set_scalar(&mut self, i: &Instruction, fmt: Fmt, v: Val) {
        match fmt {
            Fmt::F64 => self.set_f(low(i, 0), v),
            Fmt::F32 => {
                let old = self.scalar_register(i, 0);
                let v = self.op(Op::FJoin32(old, v));
                self.set_f(low(i, 0), v);
            }
        }
    }

    /// What [`Lifter::settle`] is to see of a scalar result.
    pub(super) fn scalar_bits(&mut self, fmt: Fmt, v: Val) -> Vec<Val> {
        if self.is(crate::x86_64::mode::Mode::SSE_UNMASKED) {
            vec![self.op(Op::ToBits(fmt, v))]
        } else {
            Vec::new()
        }
    }
}

/// An operation on the destination and the second operand; `rounds` if its result may underflow.
fn packed(
    l: &mut Lifter,
    i: &Instruction,
    fmt: Fmt,
    rounds: bool,
    f: impl FnOnce(&mut Lifter, Val, Val) -> Val,
) {
    let b = l.vector_operand(i, 1, Alignment::Required);
    let a = l.vector_register(i, 0);
    let guard = l.guard();
    let r = f(l, a, b);
    if rounds {
        l.settle_vector(guard, fmt, r);
    } else {
        l.settle(guard, fmt, &[]);
    }
    l.set_result(i, r);
}

/// An operation on lanes of both, each with its number, whose result may underflow.
fn by_lane(l: &mut Lifter, i: &Instruction, fmt: Fmt, f: impl Fn(&mut Lifter, usize, Val, Val) -> Val) {
    packed(l, i, fmt, true, |l, a, b| {
        let (a, b) = (l.halves(a), l.halves(b));
        let r = l.halves_of(fmt, |l, n| {
            let (a, b) = (l.lane(fmt, a, n), l.lane(fmt, b, n));
            f(l, n, a, b)
        });
        l.pair(r)
    });
}

/// An operation on the low lanes.
fn scalar(l: &mut Lifter, i: &Instruction, fmt: Fmt, rounds: bool, f: impl Fn(&mut Lifter, Val, Val) -> Val) {
    let b = l.scalar_operand(i, 1, fmt);
    let a = l.scalar_register(i, 0);
    let guard = l.guard();
    let r = f(l, a, b);
    let seen = if rounds { l.scalar_bits(fmt, r) } else { Vec::new() };
    l.settle(guard, fmt, &seen);
    l.set_scalar(i, fmt, r);
}

/// Whether results of an operation can underflow.
fn rounds(op: FBin) -> bool {
    !matches!(op, FBin::Min | FBin::Max)
}

fn arithmetic(l: &mut Lifter, i: &Instruction, fmt: Fmt, op: FBin) {
    packed(l, i, fmt, rounds(op), |l, a, b| l.op(Op::VFBin(op, fmt, a, b)));
}

fn scalar_arithmetic(l: &mut Lifter, i: &Instruction, fmt: Fmt, op: FBin) {
    scalar(l, i, fmt, rounds(op), |l, a, b| {
        l.op(Op::FBin(op, fmt, Rm::Dynamic, a, b))
    });
}

/// addsubps: the even lanes are subtracted.
fn alternating(l: &mut Lifter, fmt: Fmt, lane: usize, a: Val, b: Val) -> Val {
    let op = if lane.is_multiple_of(2) {
        FBin::Sub
    } else {
        FBin::Add
    };
    l.op(Op::FBin(op, fmt, Rm::Dynamic, a, b))
}

/// haddps and its kin: neighbours meet, those of the destination below.
fn horizontal(l: &mut Lifter, i: &Instruction, fmt: Fmt, op: FBin) {
    let (shuffle, even, odd) = match fmt {
        Fmt::F32 => (VImm2::Shuffle32, 0x88, 0xdd),
        Fmt::F64 => (VImm2::Shuffle64, 0, 3),
    };
    packed(l, i, fmt, true, |l, a, b| {
        let first = l.op(Op::VImm2(shuffle, a, b, even));
        let second = l.op(Op::VImm2(shuffle, a, b, odd));
        l.op(Op::VFBin(op, fmt, first, second))
    });
}

/// dpps, dppd: products of the lanes that the high half of the control names, their sum by pairs to those that the low half names.
fn dot_product(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let control = i.immediate8();
    let b = l.vector_operand(i, 1, Alignment::Required);
    let a = l.vector_register(i, 0);
    let (a, b) = (l.halves(a), l.halves(b));
    let guard = l.guard();
    let zero = l.constant(0);
    let zero = l.op(Op::FromBits(zero));
    let n = 2 * lanes(fmt);
    let mut sums: Vec<Val> = (0..n)
        .map(|n| {
            if control >> (4 + n) & 1 == 0 {
                return zero;
            }
            let (a, b) = (l.lane(fmt, a, n), l.lane(fmt, b, n));
            l.op(Op::FBin(FBin::Mul, fmt, Rm::Dynamic, a, b))
        })
        .collect();
    while sums.len() > 1 {
        sums = sums
            .chunks(2)
            .map(|pair| l.op(Op::FBin(FBin::Add, fmt, Rm::Dynamic, pair[0], pair[1])))
            .collect();
    }
    let r = l.halves_of(fmt, |_, n| if control >> n & 1 != 0 { sums[0] } else { zero });
    l.settle(guard, fmt, &r);
    let r = l.pair(r);
    l.set_result(i, r);
}

/// What a predicate of cmpps says: the comparison, and whether its contrary is meant.
fn comparison(predicate: u8) -> (FCond, bool) {
    let cond = match predicate & 3 {
        0 => FCond::Eq,
        1 => FCond::Lt,
        2 => FCond::Le,
        _ => FCond::Unordered,
    };
    (cond, predicate & 4 != 0)
}

/// All ones in an element if a predicate of cmpps holds, else 0: of class I, the upper bits of a single undefined.
fn predicate(l: &mut Lifter, fmt: Fmt, predicate: u8, a: Val, b: Val) -> Val {
    let (cond, negate) = comparison(predicate);
    let holds = l.op(Op::FCmp(cond, fmt, a, b));
    if negate {
        // 0 and 1 become all ones and 0.
        l.add(holds, -1)
    } else {
        let zero = l.constant(0);
        l.bin(Bin::Sub, Width::W64, zero, holds)
    }
}

fn compare(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let (cond, negate) = comparison(i.immediate8());
    packed(l, i, fmt, false, |l, a, b| {
        l.op(Op::VFCmp(cond, negate, fmt, a, b))
    });
}

fn compare_scalar(l: &mut Lifter, i: &Instruction, fmt: Fmt) {
    let b = l.scalar_operand(i, 1, fmt);
    let a = l.scalar_register(i, 0);
    let guard = l.guard();
    let mask = predicate(l, fmt, i.immediate8(), a, b);
    l.settle(guard, fmt, &[]);
    l.set_low_part(i, size_of(fmt), mask);
}

/// comiss, ucomiss: CF is less, ZF equal, and with PF both if they are unordered; the others are clear.
fn compare_to_flags(l: &mut Lifter, i: &Instruction, fmt: Fmt, signalling: bool) {
    let b = l.scalar_operand(i, 1, fmt);
    let a = l.scalar_register(i, 0);
    let guard = l.guard();
    // Its bits are at the places of the flags.
    let v = l.op(Op::FOrder(signalling, fmt, a, b));
    l.settle(guard, fmt, &[]);
    l.flags_are(v);
}

fn approximate(l: &mut Lifter, i: &Instruction, function: u16) {
    let b = l.vector_operand(i, 1, Alignment::Required);
    let r = l.halves(b).map(|word| l.pure(function, [word]));
    let r = l.pair(r);
    l.set_result(i, r);
}

fn approximate_scalar(l: &mut Lifter, i: &Instruction, function: u16) {
    let b = l.low_operand(i, 1, Size::B4);
    let b = l.zx(Size::B4, b);
    let r = l.pure(function, [b]);
    l.set_low_part(i, Size::B4, r);
}
