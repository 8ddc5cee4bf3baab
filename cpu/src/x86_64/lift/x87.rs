//! x87 instructions and `wait` (SDM 1 chapter 8, SDM 2D A.5).
//!
//! All of them are one helper's work ([`helper::X87`]): the lifter sees to #NM, to the memory operand's address, segment
//! and alignment, and to what goes to AX and the flags. Whether an exception is pending is looked at by the helper, so no
//! mode depends on it and no block ends here.

use super::Lifter;
use super::operand::{general, is_memory, segment};
use crate::ir::Size;
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::trap;
use crate::x86_64::x87::{Access, X87Op};
use iced_x86::{Instruction, Mnemonic, Register};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    if i.mnemonic() == Mnemonic::Wait {
        if l.is(Mode::TS | Mode::MP) {
            l.raise(trap::cause(trap::NM));
        } else {
            let form = l.form(Size::B4, 0);
            l.ask(helper::WAIT, [None; 2], form);
        }
        return true;
    }
    let Some((escape, modrm)) = escape(l) else {
        return false;
    };
    let Some(op) = X87Op::from_opcode(escape, modrm) else {
        return false;
    };
    if l.is(Mode::NO_X87) {
        l.raise(trap::cause(trap::NM));
        return true;
    }
    let mut what = u64::from(escape & 7) << 8 | u64::from(modrm);
    let mut addr = None;
    let mut size = Size::B4;
    if is_memory(i, 0) {
        let bytes = i.memory_size().size() as u64;
        let (write, alignment) = match op.access() {
            Access::None | Access::Read(_) => (false, bytes.min(8)),
            Access::Write(_) => (true, bytes.min(8)),
            image => {
                if matches!(bytes, 14 | 94) {
                    size = Size::B2;
                }
                let write = matches!(image, Access::WriteEnvironment | Access::WriteState);
                (write, size.bytes())
            }
        };
        let at = l.operand_address(i, bytes, write);
        if l.is(Mode::ALIGNMENT) {
            l.require_alignment(at, 0, alignment, trap::cause_with(trap::AC, 0));
        }
        what |= helper::X87_MEMORY | u64::from(segment(i.memory_segment())) << helper::X87_SEGMENT;
        addr = Some(at);
    }
    let what = l.constant(what);
    let form = l.form(size, 0);
    let v = l.ask(helper::X87, [Some(what), addr], form);
    l.none_pending = false;
    match op {
        X87Op::Fcomi { .. } => l.flags_are(v),
        X87Op::Fnstsw if addr.is_none() => {
            if let Some(place) = general(Register::AX) {
                l.put(place, v);
            }
        }
        _ => {}
    }
    true
}

/// The two opcode bytes, if the first is an escape.
fn escape(l: &Lifter) -> Option<(u8, u8)> {
    const PREFIXES: [u8; 11] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
    let long = l.is(Mode::LONG);
    let mut bytes = l
        .bytes()
        .iter()
        .copied()
        .skip_while(|byte| PREFIXES.contains(byte) || long && byte & 0xf0 == 0x40);
    let first = bytes.next()?;
    (first & 0xf8 == 0xd8).then_some(())?;
    Some((first, bytes.next()?))
}
