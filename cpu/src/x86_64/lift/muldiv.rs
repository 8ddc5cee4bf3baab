//! Products and quotients. Flags after a division, which the manual leaves undefined, stay as they were.

use super::Lifter;
use super::builder::width;
use super::operand::{Use, operand_size};
use crate::ir::{Bin, Cond, Op, Size, Val, Width};
use crate::x86_64::flags::Kind;
use crate::x86_64::pure;
use crate::x86_64::slots::{RAX, RDX};
use crate::x86_64::trap;
use iced_x86::{Instruction, Mnemonic};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Mul => product(l, i, false),
        Mnemonic::Imul if i.op_count() == 1 => product(l, i, true),
        Mnemonic::Imul => low_product(l, i),
        Mnemonic::Div => quotient(l, i, false),
        Mnemonic::Idiv => quotient(l, i, true),
        _ => return false,
    }
    true
}

/// The low and the high part of a product, and whether the high part means something (0 if not).
fn multiply(l: &mut Lifter, size: Size, signed: bool, a: Val, b: Val) -> (Val, Val, Val) {
    if size == Size::B8 {
        let low = l.bin(Bin::Mul, Width::W64, a, b);
        let high = if signed { Bin::MulhS } else { Bin::MulhU };
        let high = l.bin(high, Width::W64, a, b);
        if !signed {
            return (low, high, high);
        }
        let sign = l.bin_constant(Bin::Sar, Width::W64, low, 63);
        return (low, high, l.bin(Bin::Xor, Width::W64, high, sign));
    }
    let extend = if signed { Lifter::sx } else { Lifter::zx };
    let (a, b) = (extend(l, size, a), extend(l, size, b));
    let whole = l.bin(Bin::Mul, Width::W64, a, b);
    let high = l.shr(whole, 8 * size.bytes());
    if !signed {
        return (whole, high, high);
    }
    let low = l.sx(size, whole);
    (whole, high, l.bin(Bin::Xor, Width::W64, whole, low))
}

fn product(l: &mut Lifter, i: &Instruction, signed: bool) {
    let size = operand_size(i, 0);
    let (a, b) = (l.get(RAX), l.read(i, 0, size));
    let (low, high, more) = multiply(l, size, signed, a, b);
    if size == Size::B1 {
        l.set_low(RAX, Size::B2, low);
    } else {
        l.set_low(RAX, size, low);
        l.set_low(RDX, size, high);
    }
    l.flags_of(Kind::Mul, size, more, low);
}

/// imul with two and three operands.
fn low_product(l: &mut Lifter, i: &Instruction) {
    let size = operand_size(i, 0);
    let (first, second) = if i.op_count() == 2 { (0, 1) } else { (1, 2) };
    let (a, b) = (l.read(i, first, size), l.read(i, second, size));
    let (low, _, more) = multiply(l, size, true, a, b);
    let place = l.place(i, 0, Use::Write);
    l.put(place, low);
    l.flags_of(Kind::Mul, size, more, low);
}

fn quotient(l: &mut Lifter, i: &Instruction, signed: bool) {
    let size = operand_size(i, 0);
    let divisor = l.read(i, 0, size);
    let (low, high) = (l.get(RAX), l.get(RDX));
    if size == Size::B8 {
        return quotient_of_128(l, signed, low, high, divisor);
    }
    // The dividend fits into 64 bits.
    let dividend = if size == Size::B1 {
        low
    } else {
        let (low, high) = (l.zx(size, low), l.zx(size, high));
        let high = l.shl(high, 8 * size.bytes());
        l.or(high, low)
    };
    let double = match size {
        Size::B1 => Size::B2,
        Size::B2 => Size::B4,
        Size::B4 | Size::B8 => Size::B8,
    };
    let extend = if signed { Lifter::sx } else { Lifter::zx };
    let (dividend, divisor) = (extend(l, double, dividend), extend(l, size, divisor));
    let w = width(double);
    divide_error_if_zero(l, divisor);
    let (div, rem) = if signed {
        (Bin::DivS, Bin::RemS)
    } else {
        (Bin::DivU, Bin::RemU)
    };
    let quotient = l.bin(div, w, dividend, divisor);
    let quotient = if w == Width::W32 && signed {
        l.sx(Size::B4, quotient)
    } else {
        quotient
    };
    let cut = extend(l, size, quotient);
    let wrong = l.cmp(Cond::Ne, Width::W64, cut, quotient);
    l.trap_if(wrong, trap::cause(trap::DE));
    // -2^63 / -1 yields the dividend, which doesn't fit either.
    let remainder = l.bin(rem, w, dividend, divisor);
    if size == Size::B1 {
        let (quotient, remainder) = (l.zx(size, quotient), l.zx(size, remainder));
        let remainder = l.shl(remainder, 8);
        let v = l.or(remainder, quotient);
        l.set_low(RAX, Size::B2, v);
    } else {
        l.set_low(RAX, size, quotient);
        l.set_low(RDX, size, remainder);
    }
}

fn divide_error_if_zero(l: &mut Lifter, divisor: Val) {
    let zero = l.cmp_constant(Cond::Eq, Width::W64, divisor, 0);
    l.trap_if(zero, trap::cause(trap::DE));
}

/// Most dividends are one register, extended just before.
fn quotient_of_128(l: &mut Lifter, signed: bool, low: Val, high: Val, divisor: Val) {
    let extended = if signed {
        matches!(l.def(high), Op::Bin(Bin::Sar, Width::W64, v, n) if v == low && l.as_constant(n) == Some(63))
    } else {
        l.as_constant(high) == Some(0)
    };
    let quotient = if extended {
        divide_error_if_zero(l, divisor);
        if signed {
            let least = l.cmp_constant(Cond::Eq, Width::W64, low, 1 << 63);
            let minus_one = l.cmp_constant(Cond::Eq, Width::W64, divisor, u64::MAX);
            let wrong = l.bin(Bin::And, Width::W64, least, minus_one);
            l.trap_if(wrong, trap::cause(trap::DE));
            l.bin(Bin::DivS, Width::W64, low, divisor)
        } else {
            l.bin(Bin::DivU, Width::W64, low, divisor)
        }
    } else if signed {
        let wrong = l.pure(pure::DIVIDE_SIGNED_FAILS, [high, low, divisor]);
        l.trap_if(wrong, trap::cause(trap::DE));
        l.pure(pure::DIVIDE_SIGNED, [high, low, divisor])
    } else {
        // A divisor of 0 is caught too.
        let wrong = l.cmp(Cond::GeU, Width::W64, high, divisor);
        l.trap_if(wrong, trap::cause(trap::DE));
        l.pure(pure::DIVIDE, [high, low, divisor])
    };
    let product = l.bin(Bin::Mul, Width::W64, quotient, divisor);
    let remainder = l.bin(Bin::Sub, Width::W64, low, product);
    l.set(RAX, quotient);
    l.set(RDX, remainder);
}
