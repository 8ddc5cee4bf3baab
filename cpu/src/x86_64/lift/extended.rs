//! Extended state: MXCSR, and saving and restoring all of it. Legality by CR0 and CR4 is the mode's.

use super::Lifter;
use super::operand::Use;
use super::system::act;
use crate::ir::Size;
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::trap;
use iced_x86::{Instruction, Mnemonic};

/// Bytes of the area of `fxsave`.
const FX_AREA: u64 = 512;
/// Bytes of the area of `xsave` with x87 and SSE state.
const X_AREA: u64 = 576;

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Fxsave | M::Fxsave64 => fx(l, i, helper::FXSAVE, i.mnemonic() == M::Fxsave64),
        M::Fxrstor | M::Fxrstor64 => fx(l, i, helper::FXRSTOR, i.mnemonic() == M::Fxrstor64),
        M::Xsave => return x(l, i, helper::XSAVE, 0),
        M::Xsave64 => return x(l, i, helper::XSAVE, 1),
        M::Xsaveopt => return x(l, i, helper::XSAVE, 2),
        M::Xsaveopt64 => return x(l, i, helper::XSAVE, 3),
        M::Xrstor => return x(l, i, helper::XRSTOR, 0),
        M::Xrstor64 => return x(l, i, helper::XRSTOR, 1),
        M::Xgetbv if l.is(Mode::OSXSAVE) => {
            let form = l.form(Size::B4, 0);
            l.call(helper::XGETBV, [None; 2], form);
        }
        M::Xsetbv if l.is(Mode::OSXSAVE) => {
            if l.mode().cpl() != 0 {
                l.protection();
            } else {
                act(l, helper::XSETBV, [None; 2], Size::B4, 0);
            }
        }
        M::Ldmxcsr if !l.is(Mode::NO_SSE) => {
            if available(l) {
                let place = l.memory(i, Size::B4, Use::Read);
                let v = l.load(place, false);
                act(l, helper::LDMXCSR, [Some(v), None], Size::B4, 0);
            }
        }
        M::Stmxcsr if !l.is(Mode::NO_SSE) => {
            if available(l) {
                let form = l.form(Size::B4, 0);
                let v = l.ask(helper::STMXCSR, [None; 2], form);
                let place = l.memory(i, Size::B4, Use::Write);
                l.put(place, v);
            }
        }
        _ => return false,
    }
    true
}

/// #NM with CR0.TS.
fn available(l: &mut Lifter) -> bool {
    let is = !l.is(Mode::TS);
    if !is {
        l.raise(trap::cause(trap::NM));
    }
    is
}

/// #NM with CR0.EM or CR0.TS; CR4.OSFXSR decides nothing but whether SSE state is meant.
fn fx(l: &mut Lifter, i: &Instruction, helper: u16, long: bool) {
    if l.is(Mode::NO_X87) {
        return l.raise(trap::cause(trap::NM));
    }
    let addr = l.operand_address(i, FX_AREA, helper == helper::FXSAVE);
    act(l, helper, [Some(addr), None], Size::B4, u8::from(long));
}

fn x(l: &mut Lifter, i: &Instruction, helper: u16, more: u8) -> bool {
    if !l.is(Mode::OSXSAVE) {
        return false;
    }
    if available(l) {
        let addr = l.operand_address(i, X_AREA, helper == helper::XSAVE);
        act(l, helper, [Some(addr), None], Size::B4, more);
    }
    true
}
