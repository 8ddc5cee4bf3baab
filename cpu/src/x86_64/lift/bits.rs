//! Single bits, bit scans, population counts, CRC32.
//!
//! `bt` and its kin leave OF, SF, AF and PF undefined; here they are cleared. The scans leave all but ZF undefined; here
//! they are those of a logical operation with the source as result.

use super::Lifter;
use super::builder::{log2, width};
use super::operand::{Offset, Place, Use, is_memory, operand_size};
use crate::ir::{Bin, Cond, Size, Un, Val, Width};
use crate::x86_64::simd::crypto;
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Bt => bit(l, i, None),
        Mnemonic::Bts => bit(l, i, Some(Bin::Or)),
        Mnemonic::Btr => bit(l, i, Some(Bin::And)),
        Mnemonic::Btc => bit(l, i, Some(Bin::Xor)),
        Mnemonic::Bsf => scan(l, i, true),
        Mnemonic::Bsr => scan(l, i, false),
        Mnemonic::Popcnt => count(l, i),
        Mnemonic::Crc32 => crc32(l, i),
        _ => return false,
    }
    true
}

/// A bit offset in a register reaches beyond a memory operand, by its signed value.
fn place(l: &mut Lifter, i: &Instruction, size: Size, index: Val, how: Use) -> Place {
    if !is_memory(i, 0) || i.op_kind(1) != OpKind::Register {
        return l.place(i, 0, how);
    }
    let at = l.effective(i);
    let shift = u64::from(log2(size));
    let units = l.sx(size, index);
    let units = l.bin_constant(Bin::Sar, Width::W64, units, shift + 3);
    let bytes = l.shl(units, shift);
    let v = l.bin(Bin::Add, Width::W64, at.v, bytes);
    let v = l.zx(at.size, v);
    let linear = l.linear(Offset { v, ..at }, size.bytes(), how != Use::Read);
    l.at(linear, size, how)
}

fn bit(l: &mut Lifter, i: &Instruction, change: Option<Bin>) {
    let size = operand_size(i, 0);
    let how = if change.is_some() { Use::Modify } else { Use::Read };
    let index = l.read(i, 1, size);
    let place = place(l, i, size, index, how);
    let v = l.fetch(place);
    let index = l.and(index, 8 * size.bytes() - 1);
    let carry = l.bin(Bin::Shr, width(size), v, index);
    let carry = l.and(carry, 1);
    let zero = l.zero();
    if let Some(bin) = change {
        let one = l.constant(1);
        let mask = l.bin(Bin::Shl, Width::W64, one, index);
        let mask = if bin == Bin::And { l.not(mask) } else { mask };
        let r = l.bin(bin, Width::W64, v, mask);
        l.put(place, r);
    }
    l.flags_zero_carry(zero, carry);
}

/// A source of 0 leaves the destination as it is, all 64 bits of it.
fn scan(l: &mut Lifter, i: &Instruction, forward: bool) {
    let size = operand_size(i, 1);
    let v = l.read(i, 1, size);
    let v = l.zx(size, v);
    let found = if forward {
        l.un(Un::Ctz64, v)
    } else {
        let zeros = l.un(Un::Clz64, v);
        l.bin_constant(Bin::Xor, Width::W64, zeros, 63)
    };
    let some = l.cmp_constant(Cond::Ne, Width::W64, v, 0);
    if let Place::Reg { slot, .. } = l.place(i, 0, Use::Write) {
        let old = l.get(slot);
        let new = match size {
            Size::B2 | Size::B1 => {
                let rest = l.and(old, !size.mask());
                l.or(rest, found)
            }
            Size::B4 | Size::B8 => found,
        };
        let r = l.select(some, new, old);
        l.set(slot, r);
    }
    l.flags_logic(size, v);
}

fn count(l: &mut Lifter, i: &Instruction) {
    let size = operand_size(i, 0);
    let v = l.read(i, 1, size);
    let v = l.zx(size, v);
    let r = l.un(Un::Popcnt64, v);
    let place = l.place(i, 0, Use::Write);
    l.put(place, r);
    let zero = l.cmp_constant(Cond::Eq, Width::W64, v, 0);
    let none = l.constant(0);
    l.flags_zero_carry(zero, none);
}

fn crc32(l: &mut Lifter, i: &Instruction) {
    let size = operand_size(i, 1);
    let v = l.read(i, 1, size);
    let place = l.place(i, 0, Use::Write);
    let sum = l.fetch(place);
    let function = match size {
        Size::B1 => crypto::CRC32_BYTE,
        Size::B2 => crypto::CRC32_WORD,
        Size::B4 => crypto::CRC32_DWORD,
        Size::B8 => crypto::CRC32_QWORD,
    };
    let r = l.pure(function, [sum, v]);
    l.put(place, r);
}
