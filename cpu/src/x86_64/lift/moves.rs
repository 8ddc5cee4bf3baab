//! Moves, extensions, conditional moves, addresses.

use super::Lifter;
use super::cc::Test;
use super::operand::{DS, Offset, Place, Use, general, operand_size, segment, size_of};
use crate::ir::{Bin, Size, Un, Val, Width};
use crate::x86_64::helper;
use crate::x86_64::slots::{RAX, RBX, RDX};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Mov => return mov(l, i),
        Mnemonic::Movzx => extend(l, i, false),
        Mnemonic::Movsx | Mnemonic::Movsxd => extend(l, i, true),
        Mnemonic::Lea => load_address(l, i),
        Mnemonic::Movnti => {
            let v = l.read(i, 1, operand_size(i, 0));
            let place = l.place(i, 0, Use::Write);
            l.put(place, v);
        }
        Mnemonic::Bswap => swap_bytes(l, i),
        Mnemonic::Cbw => low_half(l, Size::B1),
        Mnemonic::Cwde => low_half(l, Size::B2),
        Mnemonic::Cdqe => low_half(l, Size::B4),
        Mnemonic::Cwd => high_half(l, Size::B2),
        Mnemonic::Cdq => high_half(l, Size::B4),
        Mnemonic::Cqo => high_half(l, Size::B8),
        Mnemonic::Xlatb => translate(l, i),
        Mnemonic::Salc => {
            let carry = l.carry();
            let zero = l.constant(0);
            let v = l.bin(Bin::Sub, Width::W32, zero, carry);
            l.set_low(RAX, Size::B1, v);
        }
        _ => return conditional(l, i),
    }
    true
}

/// `cmovcc` and `setcc`.
fn conditional(l: &mut Lifter, i: &Instruction) -> bool {
    // The conditions of the decoder begin with none and are in the encoding's order.
    let Some(number) = (i.condition_code() as u8).checked_sub(1) else {
        return false;
    };
    if i.is_jcc_short_or_near() || i.is_loopcc() {
        return false;
    }
    if i.op_count() == 1 {
        let v = l.condition(number);
        let place = l.place(i, 0, Use::Write);
        l.put(place, v);
        return true;
    }
    let Some(Place::Reg { slot, size, high }) = general(i.op0_register()) else {
        return false;
    };
    // The source is read in every case, and a 32-bit destination loses its upper half in every case.
    let v = l.read(i, 1, size);
    let old = l.get(slot);
    let v = match l.test(number) {
        Test::Const(true) => v,
        Test::Const(false) => old,
        Test::Cmp(cond, width, a, b) => {
            let holds = l.cmp(cond, width, a, b);
            l.select(holds, v, old)
        }
    };
    l.set_part(slot, size, high, v);
    true
}

fn mov(l: &mut Lifter, i: &Instruction) -> bool {
    let register = |n| match i.op_kind(n) {
        OpKind::Register => i.op_register(n),
        _ => Register::None,
    };
    let (to, from) = (register(0), register(1));
    if to.is_segment_register() {
        if to == Register::CS {
            return false;
        }
        let selector = l.read(i, 1, Size::B2);
        l.load_segment(to, selector, helper::MAKES_SHADOW);
    } else if from.is_segment_register() {
        let n = l.constant(segment(from).into());
        let form = l.form(Size::B2, 0);
        let v = l.ask(helper::READ_SELECTOR, [Some(n), None], form);
        // Into a register of any size, zero-extended; into memory always 16 bits.
        match general(to) {
            Some(place) => l.put(place, v),
            None => {
                let place = l.memory(i, Size::B2, Use::Write);
                l.put(place, v);
            }
        }
    } else if (to.is_cr() || from.is_cr()) || (to.is_dr() || from.is_dr()) || to.is_tr() || from.is_tr() {
        return false;
    } else {
        let v = l.read(i, 1, operand_size(i, 0));
        let place = l.place(i, 0, Use::Write);
        l.put(place, v);
    }
    true
}

fn extend(l: &mut Lifter, i: &Instruction, signed: bool) {
    let place = l.place(i, 1, Use::Read);
    let size = place.size();
    let v = l.extended(place, size, signed);
    let to = l.place(i, 0, Use::Write);
    l.put(to, v);
}

fn load_address(l: &mut Lifter, i: &Instruction) {
    let Offset { v, disp, .. } = l.effective(i);
    let v = l.add(v, disp.into());
    let to = l.place(i, 0, Use::Write);
    l.put(to, v);
}

/// Of 16 bits the result is undefined; here it is 0, as it is on processors that were looked at.
fn swap_bytes(l: &mut Lifter, i: &Instruction) {
    let place = l.place(i, 0, Use::Write);
    let v = l.fetch(place);
    let v = match place.size() {
        Size::B8 => l.un(Un::Bswap64, v),
        Size::B4 => {
            let v = l.un(Un::Bswap64, v);
            l.shr(v, 32)
        }
        Size::B1 | Size::B2 => l.constant(0),
    };
    l.put(place, v);
}

/// cbw, cwde, cdqe: the accumulator's low `size` bytes, extended to twice as many.
fn low_half(l: &mut Lifter, size: Size) {
    let v = l.get(RAX);
    let v = l.sx(size, v);
    if let Some(double) = size_of(2 * size.bytes() as usize) {
        l.set_low(RAX, double, v);
    }
}

/// cwd, cdq, cqo: the accumulator's sign, to rdx.
fn high_half(l: &mut Lifter, size: Size) {
    let v = l.get(RAX);
    let v = l.sx(size, v);
    let v = l.bin_constant(Bin::Sar, Width::W64, v, 63);
    l.set_low(RDX, size, v);
}

fn translate(l: &mut Lifter, i: &Instruction) {
    let size = match i.memory_base() {
        Register::BX => Size::B2,
        Register::EBX => Size::B4,
        _ => Size::B8,
    };
    let (table, index) = (l.get(RBX), l.get(RAX));
    let index = l.zx(Size::B1, index);
    let v = l.bin(Bin::Add, Width::W64, table, index);
    let v = l.zx(size, v);
    let segment = match i.memory_segment() {
        Register::None => DS,
        register => segment(register),
    };
    let linear = l.linear(
        Offset {
            segment,
            v,
            disp: 0,
            size,
        },
        1,
        false,
    );
    let place = l.at(linear, Size::B1, Use::Read);
    let v = l.load(place, false);
    l.set_low(RAX, Size::B1, v);
}

impl Lifter {
    /// What is at a place, extended from `size`.
    pub fn extended(&mut self, place: Place, size: Size, signed: bool) -> Val {
        let v = match place {
            Place::Mem { .. } => self.load(place, signed),
            Place::Reg { .. } => self.fetch(place),
        };
        if signed {
            self.sx(size, v)
        } else {
            self.zx(size, v)
        }
    }
}
