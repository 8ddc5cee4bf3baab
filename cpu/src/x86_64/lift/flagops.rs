//! Instructions on flags, no-operations, and the decimal and other leftovers of the 8086.

use super::Lifter;
use super::operand::{Place, Use, general};
use crate::ir::{Bin, Cond, Size, Width};
use crate::x86_64::flags::{AF, CF, PF, SF, ZF};
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::pure::{self, Decimal};
use crate::x86_64::slots::{EFLAGS, RAX};
use crate::x86_64::trap;
use iced_x86::{Code, Instruction, Mnemonic};

/// EFLAGS.IF.
const IF: u64 = 1 << 9;
/// EFLAGS.DF.
pub(super) const DF: u64 = 1 << 10;
/// EFLAGS.AC.
const AC: u64 = 1 << 18;

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Nop
        | Mnemonic::Reservednop
        | Mnemonic::Endbr64
        | Mnemonic::Endbr32
        | Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2
        | Mnemonic::Prefetchw
        | Mnemonic::Prefetch
        | Mnemonic::Prefetchwt1
        | Mnemonic::Prefetchit0
        | Mnemonic::Prefetchit1
        | Mnemonic::Cldemote
        | Mnemonic::Rdsspd
        | Mnemonic::Rdsspq
        | Mnemonic::Lfence
        | Mnemonic::Mfence
        | Mnemonic::Sfence => {}
        Mnemonic::Clflush => {
            // Faults as a load of a byte would.
            let at = l.effective(i);
            let (addr, offset) = l.linear(at, 1, false);
            l.check(addr, offset, 1, false);
        }
        Mnemonic::Clc => set_carry(l, false),
        Mnemonic::Stc => set_carry(l, true),
        Mnemonic::Cmc => {
            let carry = l.carry();
            let carry = l.not_bit(carry);
            l.flags_with(CF, carry);
        }
        Mnemonic::Cld => change(l, DF, false),
        Mnemonic::Std => change(l, DF, true),
        Mnemonic::Cli => {
            if may_mask(l) {
                change(l, IF, false);
            }
        }
        Mnemonic::Sti => {
            if may_mask(l) {
                let form = l.form(Size::B4, 0);
                l.call(helper::STI, [None; 2], form);
                // Nothing is looked at between this and the next instruction, so that its shadow needs no mode.
                if l.is_single() {
                    l.dispatch();
                } else {
                    l.one_more();
                }
            }
        }
        Mnemonic::Stac | Mnemonic::Clac => {
            if l.mode().cpl() != 0 {
                l.undefined();
            } else {
                // What may be accessed changes.
                change(l, AC, i.mnemonic() == Mnemonic::Stac);
                l.dispatch();
            }
        }
        Mnemonic::Lahf => {
            let f = l.flags_value();
            let f = l.bin_constant(Bin::Or, Width::W64, f, 2);
            let f = l.and(f, 0xff);
            l.set_part(RAX, Size::B1, true, f);
        }
        Mnemonic::Sahf => {
            let v = l.get(RAX);
            let v = l.shr(v, 8);
            let new = l.and(v, SF | ZF | AF | PF | CF);
            l.flags_with(SF | ZF | AF | PF | CF, new);
        }
        Mnemonic::Daa => decimal(l, Decimal::Daa, 0),
        Mnemonic::Das => decimal(l, Decimal::Das, 0),
        Mnemonic::Aaa => decimal(l, Decimal::Aaa, 0),
        Mnemonic::Aas => decimal(l, Decimal::Aas, 0),
        Mnemonic::Aad => decimal(l, Decimal::Aad, i.immediate8()),
        Mnemonic::Aam if i.immediate8() == 0 => l.raise(trap::cause(trap::DE)),
        Mnemonic::Aam => decimal(l, Decimal::Aam, i.immediate8()),
        Mnemonic::Bound => bound(l, i),
        Mnemonic::Arpl => return adjust_privilege(l, i),
        _ => return false,
    }
    true
}

fn set_carry(l: &mut Lifter, on: bool) {
    let carry = l.constant(on.into());
    l.flags_with(CF, carry);
}

fn change(l: &mut Lifter, flag: u64, on: bool) {
    let v = l.get(EFLAGS);
    let v = if on {
        l.bin_constant(Bin::Or, Width::W64, v, flag)
    } else {
        l.and(v, !flag)
    };
    l.set(EFLAGS, v);
}

/// There are no virtual interrupt flags (VME, PVI): without IOPL it is #GP.
fn may_mask(l: &mut Lifter) -> bool {
    let may = l.is(Mode::IO_PRIVILEGE);
    if !may {
        l.protection();
    }
    may
}

fn decimal(l: &mut Lifter, which: Decimal, operand: u8) {
    let which = l.constant(which as u64 | u64::from(operand) << 8);
    let (ax, f) = (l.get(RAX), l.flags_value());
    let both = l.pure(pure::DECIMAL, [which, ax, f]);
    let f = l.shr(both, 16);
    l.set_low(RAX, Size::B2, both);
    l.flags_are(f);
}

fn bound(l: &mut Lifter, i: &Instruction) {
    let size = match i.code() {
        Code::Bound_r16_m1616 => Size::B2,
        _ => Size::B4,
    };
    let index = l.read(i, 0, size);
    let index = l.sx(size, index);
    let at = l.effective(i);
    let linear = l.linear(at, 2 * size.bytes(), false);
    let low = l.at(linear, size, Use::Read);
    let high = Place::Mem {
        addr: linear.0,
        offset: linear.1 + size.bytes() as i32,
        size,
    };
    let (low, high) = (l.load(low, true), l.load(high, true));
    let below = l.cmp(Cond::LtS, Width::W64, index, low);
    let above = l.cmp(Cond::LtS, Width::W64, high, index);
    let wrong = l.or(below, above);
    l.trap_if(wrong, trap::cause(trap::BR));
}

/// `arpl`: raises the RPL of the first operand to that of the second; ZF says whether it did.
fn adjust_privilege(l: &mut Lifter, i: &Instruction) -> bool {
    if !l.is(Mode::PROTECTED) {
        return false;
    }
    // The decoder tells a form with 32-bit registers from one with 16-bit ones; the processor doesn't.
    let place = match general(i.op0_register()) {
        Some(Place::Reg { slot, high, .. }) => Place::Reg {
            slot,
            size: Size::B2,
            high,
        },
        _ => l.memory(i, Size::B2, Use::Modify),
    };
    let (a, b) = (l.fetch(place), l.read(i, 1, Size::B2));
    let (mine, least) = (l.and(a, 3), l.and(b, 3));
    let lower = l.cmp(Cond::LtU, Width::W64, mine, least);
    let rest = l.and(a, !3);
    let raised = l.or(rest, least);
    let v = l.select(lower, raised, a);
    l.put(place, v);
    let zero = l.shl(lower, 6);
    l.flags_with(ZF, zero);
    true
}
