//! Shifts and rotates (SDM 2B 4.3 "RCL/RCR/ROL/ROR", "SAL/SAR/SHL/SHR", "SHLD", "SHRD").
//!
//! The count is taken modulo 32, or 64 for 64-bit operands. With a count of 0 nothing changes but the upper half of a
//! 32-bit register. OF, where the manual leaves it undefined (counts above 1), is that of the last single step.

use super::Lifter;
use super::builder::{log2, width};
use super::operand::Use;
use crate::ir::{Bin, Cond, Size, Val, Width};
use crate::x86_64::flags::{self, Kind};
use crate::x86_64::pure;
use iced_x86::{Instruction, Mnemonic};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Shl | Mnemonic::Sal => shift(l, i, Kind::Shl),
        Mnemonic::Shr => shift(l, i, Kind::Shr),
        Mnemonic::Sar => shift(l, i, Kind::Sar),
        Mnemonic::Rol => rotate(l, i, Bin::Rol),
        Mnemonic::Ror => rotate(l, i, Bin::Ror),
        Mnemonic::Rcl => rotate_carry(l, i, true),
        Mnemonic::Rcr => rotate_carry(l, i, false),
        Mnemonic::Shld => double(l, i, true),
        Mnemonic::Shrd => double(l, i, false),
        _ => return false,
    }
    true
}

/// The count, from operand `n`, masked.
fn count(l: &mut Lifter, i: &Instruction, n: u32, size: Size) -> Val {
    let v = l.read(i, n, Size::B1);
    let mask = if size == Size::B8 { 63 } else { 31 };
    l.and(v, mask)
}

fn shift(l: &mut Lifter, i: &Instruction, kind: Kind) {
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let w = width(size);
    let a = l.fetch(place);
    let count = count(l, i, 1, size);
    let (bin, v) = match kind {
        Kind::Shl => (Bin::Shl, a),
        Kind::Shr => (Bin::Shr, l.zx(size, a)),
        _ => (Bin::Sar, l.sx(size, a)),
    };
    let r = l.bin(bin, w, v, count);
    l.put(place, r);
    let less = l.add(count, -1);
    match l.as_constant(count) {
        Some(0) => {}
        Some(_) => {
            let s = l.bin(bin, w, v, less);
            l.flags_of(kind, size, s, r);
        }
        None => {
            let s = l.bin(bin, w, v, less);
            l.flags_if(count, kind, size, s, r);
        }
    }
}

impl Lifter {
    /// CF and OF as given (0 or 1), the others as they are; all as they are if the count is 0.
    fn flags_rotated(&mut self, count: Val, carry: Val, overflow: Val) {
        if self.as_constant(count) == Some(0) {
            return;
        }
        let old = self.flags_value();
        let rest = self.and(old, flags::ARITHMETIC & !(flags::CF | flags::OF));
        let overflow = self.shl(overflow, 11);
        let new = self.or(rest, carry);
        let new = self.or(new, overflow);
        let new = match self.as_constant(count) {
            Some(_) => new,
            None => self.select(count, new, old),
        };
        self.flags_are(new);
    }

    /// The bit below the most significant one, as 0 or 1.
    fn second_bit(&mut self, size: Size, v: Val) -> Val {
        let v = self.shr(v, 8 * size.bytes() - 2);
        self.and(v, 1)
    }

    fn xor(&mut self, a: Val, b: Val) -> Val {
        self.bin(Bin::Xor, Width::W64, a, b)
    }
}

fn rotate(l: &mut Lifter, i: &Instruction, bin: Bin) {
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let a = l.fetch(place);
    let count = count(l, i, 1, size);
    // Narrow operands are repeated to fill 32 bits.
    let v = match size {
        Size::B4 | Size::B8 => a,
        Size::B1 => {
            let v = l.zx(size, a);
            l.bin_constant(Bin::Mul, Width::W32, v, 0x0101_0101)
        }
        Size::B2 => {
            let v = l.zx(size, a);
            l.bin_constant(Bin::Mul, Width::W32, v, 0x0001_0001)
        }
    };
    let r = l.bin(bin, width(size), v, count);
    l.put(place, r);
    let top = l.sign_bit(size, r);
    let (carry, overflow) = if bin == Bin::Rol {
        let carry = l.and(r, 1);
        (carry, l.xor(carry, top))
    } else {
        let second = l.second_bit(size, r);
        (top, l.xor(top, second))
    };
    l.flags_rotated(count, carry, overflow);
}

fn rotate_carry(l: &mut Lifter, i: &Instruction, left: bool) {
    let carry = l.carry();
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let a = l.fetch(place);
    let a = l.zx(size, a);
    let count = count(l, i, 1, size);
    let (r, carry) = if l.as_constant(count) == Some(1) {
        if left {
            let r = l.shl(a, 1);
            (l.or(r, carry), l.sign_bit(size, a))
        } else {
            let (r, top) = (l.shr(a, 1), l.shl(carry, 8 * size.bytes() - 1));
            (l.or(r, top), l.and(a, 1))
        }
    } else {
        let form = l.constant(u64::from(log2(size)) | u64::from(left) << 2);
        let args = [a, count, carry, form];
        (
            l.pure(pure::ROTATE_CARRY, args),
            l.pure(pure::ROTATED_CARRY, args),
        )
    };
    l.put(place, r);
    let top = l.sign_bit(size, r);
    let overflow = if left {
        l.xor(top, carry)
    } else {
        let second = l.second_bit(size, r);
        l.xor(top, second)
    };
    l.flags_rotated(count, carry, overflow);
}

/// `shld` and `shrd`. Of 16-bit operands with counts above 16, which the manual leaves undefined, the destination follows
/// the source again.
fn double(l: &mut Lifter, i: &Instruction, left: bool) {
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let w = width(size);
    let a = l.fetch(place);
    let b = l.read(i, 1, size);
    let count = count(l, i, 2, size);
    let r = if size == Size::B2 {
        // a:b:a, of which the first, or the last, is the result.
        let (x, y) = (l.zx(size, a), l.zx(size, b));
        let (high, middle) = (l.shl(x, 32), l.shl(y, 16));
        let v = l.or(high, middle);
        let v = l.or(v, x);
        if left {
            let v = l.bin(Bin::Shl, Width::W64, v, count);
            l.shr(v, 32)
        } else {
            l.bin(Bin::Shr, Width::W64, v, count)
        }
    } else {
        let (there, back) = if left {
            (Bin::Shl, Bin::Shr)
        } else {
            (Bin::Shr, Bin::Shl)
        };
        let whole = l.constant(8 * size.bytes());
        let rest = l.bin(Bin::Sub, Width::W64, whole, count);
        let (x, y) = (l.bin(there, w, a, count), l.bin(back, w, b, rest));
        let v = l.bin(Bin::Or, w, x, y);
        // The other shift is by nothing if the count is 0.
        l.select(count, v, a)
    };
    l.put(place, r);
    if l.as_constant(count) == Some(0) {
        return;
    }
    let less = l.add(count, -1);
    if left {
        let s = l.bin(Bin::Shl, w, a, less);
        match l.as_constant(count) {
            Some(_) => l.flags_of(Kind::Shl, size, s, r),
            None => l.flags_if(count, Kind::Shl, size, s, r),
        }
        return;
    }
    let v = l.zx(size, a);
    let s = l.bin(Bin::Shr, w, v, less);
    let carry = l.and(s, 1);
    let (before, after) = (l.sign_bit(size, a), l.sign_bit(size, r));
    let overflow = l.xor(before, after);
    let overflow = l.shl(overflow, 11);
    let op = l.constant(flags::cc(Kind::Logic, log2(size)));
    let zero = l.constant(0);
    let new = l.pure(pure::FLAGS, [op, r, zero]);
    let new = l.or(new, carry);
    let new = l.or(new, overflow);
    let new = match l.as_constant(count) {
        Some(_) => new,
        None => {
            let old = l.flags_value();
            let some = l.cmp_constant(Cond::Ne, Width::W64, count, 0);
            l.select(some, new, old)
        }
    };
    l.flags_are(new);
}
