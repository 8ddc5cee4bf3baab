//! Sums, differences, bitwise operations, comparisons, exchanges.

use super::Lifter;
use super::builder::width;
use super::operand::{Place, Use, operand_size};
use crate::ir::{Bin, Cond, Size, Val, Width};
use crate::x86_64::flags::{self, Kind};
use crate::x86_64::slots::{RAX, RBX, RCX, RDX};
use crate::x86_64::trap;
use iced_x86::{Instruction, Mnemonic};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Add => sum(l, i, Kind::Add),
        Mnemonic::Sub => sum(l, i, Kind::Sub),
        Mnemonic::Adc => with_carry(l, i, Kind::Add),
        Mnemonic::Sbb => with_carry(l, i, Kind::Sub),
        Mnemonic::And => logic(l, i, Bin::And),
        Mnemonic::Or => logic(l, i, Bin::Or),
        Mnemonic::Xor => logic(l, i, Bin::Xor),
        Mnemonic::Cmp => compare(l, i),
        Mnemonic::Test => test(l, i),
        Mnemonic::Inc => step(l, i, Kind::Inc),
        Mnemonic::Dec => step(l, i, Kind::Dec),
        Mnemonic::Neg => negate(l, i),
        Mnemonic::Not => complement(l, i),
        Mnemonic::Xchg => exchange(l, i),
        Mnemonic::Xadd => exchange_add(l, i),
        Mnemonic::Cmpxchg => compare_exchange(l, i),
        Mnemonic::Cmpxchg8b => compare_exchange_pair(l, i, Size::B4),
        Mnemonic::Cmpxchg16b => compare_exchange_pair(l, i, Size::B8),
        _ => return false,
    }
    true
}

/// The first operand's place and value, and the second's value; the first is going to be written.
fn operands(l: &mut Lifter, i: &Instruction) -> (Place, Val, Val) {
    let place = l.place(i, 0, Use::Modify);
    let a = l.fetch(place);
    let b = l.read(i, 1, place.size());
    (place, a, b)
}

fn bin_of(kind: Kind) -> Bin {
    match kind {
        Kind::Sub | Kind::SubBorrow | Kind::Dec => Bin::Sub,
        _ => Bin::Add,
    }
}

fn sum(l: &mut Lifter, i: &Instruction, kind: Kind) {
    let (place, a, b) = operands(l, i);
    let size = place.size();
    let r = l.bin(bin_of(kind), width(size), a, b);
    l.put(place, r);
    if kind == Kind::Add {
        l.flags_add(size, a, b, r);
    } else {
        l.flags_sub(size, a, b, r);
    }
}

fn with_carry(l: &mut Lifter, i: &Instruction, kind: Kind) {
    let carry = l.carry();
    let (place, a, b) = operands(l, i);
    let size = place.size();
    let r = l.bin(bin_of(kind), width(size), a, b);
    let r = l.bin(bin_of(kind), width(size), r, carry);
    l.put(place, r);
    l.flags_carry(kind, size, carry, a, b, r);
}

fn logic(l: &mut Lifter, i: &Instruction, bin: Bin) {
    let (place, a, b) = operands(l, i);
    let size = place.size();
    let r = l.bin(bin, width(size), a, b);
    l.put(place, r);
    l.flags_logic(size, r);
}

fn compare(l: &mut Lifter, i: &Instruction) {
    let size = operand_size(i, 0);
    let (a, b) = (l.read(i, 0, size), l.read(i, 1, size));
    let r = l.bin(Bin::Sub, width(size), a, b);
    l.flags_sub(size, a, b, r);
}

fn test(l: &mut Lifter, i: &Instruction) {
    let size = operand_size(i, 0);
    let (a, b) = (l.read(i, 0, size), l.read(i, 1, size));
    let r = if a == b {
        a
    } else {
        l.bin(Bin::And, width(size), a, b)
    };
    l.flags_logic(size, r);
}

fn step(l: &mut Lifter, i: &Instruction, kind: Kind) {
    let carry = l.carry();
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let a = l.fetch(place);
    let r = l.bin_constant(bin_of(kind), width(size), a, 1);
    l.put(place, r);
    l.flags_of(kind, size, carry, r);
}

fn negate(l: &mut Lifter, i: &Instruction) {
    let place = l.place(i, 0, Use::Modify);
    let size = place.size();
    let (zero, v) = (l.constant(0), l.fetch(place));
    let r = l.bin(Bin::Sub, width(size), zero, v);
    l.put(place, r);
    l.flags_sub(size, zero, v, r);
}

fn complement(l: &mut Lifter, i: &Instruction) {
    let place = l.place(i, 0, Use::Modify);
    let v = l.fetch(place);
    let v = l.not(v);
    l.put(place, v);
}

fn exchange(l: &mut Lifter, i: &Instruction) {
    // At most one is memory, and it is stored to first.
    let (first, second) = (l.place(i, 0, Use::Modify), l.place(i, 1, Use::Modify));
    let (a, b) = (l.fetch(first), l.fetch(second));
    if let Place::Mem { .. } = second {
        l.put(second, a);
        l.put(first, b);
    } else {
        l.put(first, b);
        l.put(second, a);
    }
}

fn exchange_add(l: &mut Lifter, i: &Instruction) {
    let (place, a, b) = operands(l, i);
    let size = place.size();
    let r = l.bin(Bin::Add, width(size), a, b);
    let source = l.place(i, 1, Use::Write);
    // If both are one register, it holds the sum.
    if let Place::Mem { .. } = place {
        l.put(place, r);
        l.put(source, a);
    } else {
        l.put(source, a);
        l.put(place, r);
    }
    l.flags_add(size, a, b, r);
}

/// Memory is written in every case. Of 32-bit registers only the one that changes loses its upper half: the accumulator
/// if they differ, the destination if they are equal.
fn compare_exchange(l: &mut Lifter, i: &Instruction) {
    let (place, a, b) = operands(l, i);
    let size = place.size();
    let accumulator = l.get(RAX);
    let r = l.bin(Bin::Sub, width(size), accumulator, a);
    let (x, y) = (l.zx(size, accumulator), l.zx(size, a));
    let equal = l.cmp(Cond::Eq, Width::W64, x, y);
    match place {
        Place::Mem { .. } => {
            let v = l.select(equal, b, a);
            l.put(place, v);
        }
        Place::Reg { slot, .. } if size == Size::B4 => {
            let (old, v) = (l.get(slot), l.zx(size, b));
            let v = l.select(equal, v, old);
            l.set(slot, v);
        }
        Place::Reg { .. } => {
            let v = l.select(equal, b, a);
            l.put(place, v);
        }
    }
    let v = match size {
        Size::B4 => l.select(equal, accumulator, y),
        _ => {
            let v = l.select(equal, x, y);
            match size {
                Size::B8 => v,
                _ => {
                    let rest = l.and(accumulator, !size.mask());
                    l.or(rest, v)
                }
            }
        }
    };
    // If it is the destination too, they were equal.
    let destination_is_accumulator = matches!(place, Place::Reg { slot, high: false, .. } if slot == RAX);
    if !destination_is_accumulator {
        match place {
            Place::Reg { slot, high: true, .. } if slot == RAX => {
                let low = l.select(equal, x, y);
                l.set_low(RAX, size, low);
            }
            _ => l.set(RAX, v),
        }
    }
    l.flags_sub(size, accumulator, a, r);
}

/// cmpxchg8b and cmpxchg16b: halves of `half` bytes. The larger one must be aligned.
fn compare_exchange_pair(l: &mut Lifter, i: &Instruction, half: Size) {
    let len = 2 * half.bytes();
    let at = l.effective(i);
    let (addr, offset) = l.linear(at, len, true);
    if half == Size::B8 {
        l.require_alignment(addr, offset, len, trap::cause_with(trap::GP, 0));
    } else {
        l.check_alignment(addr, offset, Size::B8);
    }
    l.check(addr, offset, len, true);
    let base = l.add(addr, offset.into());
    let parts = [0, half.bytes() as i32].map(|offset| Place::Mem {
        addr: base,
        offset,
        size: half,
    });
    let old = parts.map(|part| l.load(part, false));
    let mine = [RAX, RDX].map(|slot| l.get(slot));
    let new = [RBX, RCX].map(|slot| l.get(slot));
    let (low, high) = (
        l.cmp(Cond::Eq, width(half), old[0], mine[0]),
        l.cmp(Cond::Eq, width(half), old[1], mine[1]),
    );
    let equal = l.bin(Bin::And, Width::W64, low, high);
    for n in 0..2 {
        let v = l.select(equal, new[n], old[n]);
        l.put(parts[n], v);
    }
    for (n, slot) in [RAX, RDX].into_iter().enumerate() {
        let loaded = l.zx(half, old[n]);
        let v = l.select(equal, mine[n], loaded);
        l.set(slot, v);
    }
    let zero = l.shl(equal, 6);
    l.flags_with(flags::ZF, zero);
}
