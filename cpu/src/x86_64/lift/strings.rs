//! String instructions. Without a repeat prefix they are ops; with one, and those on ports, a helper makes
//! one step or many (`../strings.rs`).

use super::Lifter;
use super::flagops::DF;
use super::operand::{DS, ES, Offset, Place, Use, segment};
use crate::ir::{Bin, Size, Terminal, Val, Width};
use crate::x86_64::helper;
use crate::x86_64::slots::{EFLAGS, RAX, RDI, RSI};
use crate::x86_64::strings::{Repeat, StringForm, StringOp};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    let (op, size) = match i.mnemonic() {
        M::Movsb => (StringOp::Movs, Size::B1),
        M::Movsw => (StringOp::Movs, Size::B2),
        M::Movsd if i.is_string_instruction() => (StringOp::Movs, Size::B4),
        M::Movsq => (StringOp::Movs, Size::B8),
        M::Stosb => (StringOp::Stos, Size::B1),
        M::Stosw => (StringOp::Stos, Size::B2),
        M::Stosd => (StringOp::Stos, Size::B4),
        M::Stosq => (StringOp::Stos, Size::B8),
        M::Lodsb => (StringOp::Lods, Size::B1),
        M::Lodsw => (StringOp::Lods, Size::B2),
        M::Lodsd => (StringOp::Lods, Size::B4),
        M::Lodsq => (StringOp::Lods, Size::B8),
        M::Cmpsb => (StringOp::Cmps, Size::B1),
        M::Cmpsw => (StringOp::Cmps, Size::B2),
        M::Cmpsd if i.is_string_instruction() => (StringOp::Cmps, Size::B4),
        M::Cmpsq => (StringOp::Cmps, Size::B8),
        M::Scasb => (StringOp::Scas, Size::B1),
        M::Scasw => (StringOp::Scas, Size::B2),
        M::Scasd => (StringOp::Scas, Size::B4),
        M::Scasq => (StringOp::Scas, Size::B8),
        M::Insb => (StringOp::Ins, Size::B1),
        M::Insw => (StringOp::Ins, Size::B2),
        M::Insd => (StringOp::Ins, Size::B4),
        M::Outsb => (StringOp::Outs, Size::B1),
        M::Outsw => (StringOp::Outs, Size::B2),
        M::Outsd => (StringOp::Outs, Size::B4),
        _ => return false,
    };
    let repeat = if i.has_repne_prefix() {
        Repeat::WhileNot
    } else if i.has_repe_prefix() {
        Repeat::While
    } else {
        Repeat::None
    };
    if repeat != Repeat::None || matches!(op, StringOp::Ins | StringOp::Outs) {
        by_helper(l, i, op, size, repeat);
    } else {
        once(l, i, op, size);
    }
    true
}

/// Size of addresses.
fn address_size(i: &Instruction) -> Size {
    let any = i.op_kinds().find_map(|kind| match kind {
        OpKind::MemorySegSI | OpKind::MemorySegDI | OpKind::MemoryESDI => Some(Size::B2),
        OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI => Some(Size::B4),
        OpKind::MemorySegRSI | OpKind::MemorySegRDI | OpKind::MemoryESRDI => Some(Size::B8),
        _ => None,
    });
    any.unwrap_or(Size::B8)
}

/// The segment of the source.
fn source(i: &Instruction) -> u8 {
    if i.has_segment_prefix() {
        segment(i.segment_prefix())
    } else {
        DS
    }
}

fn by_helper(l: &mut Lifter, i: &Instruction, op: StringOp, size: Size, repeat: Repeat) {
    let what = StringForm {
        op,
        repeat,
        address: address_size(i),
        segment: source(i),
        single: l.is_single(),
    };
    let what = l.constant(what.to_bits());
    let form = l.form(size, 0);
    l.call(helper::STRING, [Some(what), None], form);
    l.end(Terminal::Left);
}

fn once(l: &mut Lifter, i: &Instruction, op: StringOp, size: Size) {
    let address = address_size(i);
    // By how much the pointers move: forward, or backward with DF.
    let f = l.get(EFLAGS);
    let down = l.and(f, DF);
    let (plus, minus) = (l.constant(size.bytes()), l.constant(size.bytes().wrapping_neg()));
    let step = l.select(down, minus, plus);
    let (si, di) = (l.get(RSI), l.get(RDI));
    let from = |l: &mut Lifter| element(l, source(i), si, address, size, Use::Read);
    match op {
        StringOp::Movs => {
            let from = from(l);
            if let Place::Mem { addr, offset, .. } = from {
                l.check(addr, offset, size.bytes(), false);
            }
            let to = element(l, ES, di, address, size, Use::Modify);
            let v = l.load(from, false);
            l.put(to, v);
        }
        StringOp::Stos => {
            let to = element(l, ES, di, address, size, Use::Write);
            let v = l.get(RAX);
            l.put(to, v);
        }
        StringOp::Lods => {
            let from = from(l);
            let v = l.load(from, false);
            l.set_low(RAX, size, v);
        }
        StringOp::Cmps | StringOp::Scas => {
            // Both are checked before the first load, which may have an effect.
            let from = (op == StringOp::Cmps).then(|| from(l));
            if let Some(Place::Mem { addr, offset, .. }) = from {
                l.check(addr, offset, size.bytes(), false);
            }
            let with = element(l, ES, di, address, size, Use::Read);
            if let (Some(_), Place::Mem { addr, offset, .. }) = (from, with) {
                l.check(addr, offset, size.bytes(), false);
            }
            let a = match from {
                Some(from) => l.load(from, false),
                None => l.get(RAX),
            };
            let b = l.load(with, false);
            let r = l.bin(Bin::Sub, super::builder::width(size), a, b);
            l.flags_sub(size, a, b, r);
        }
        StringOp::Ins | StringOp::Outs => {}
    }
    for (slot, old) in [(RSI, si), (RDI, di)] {
        let moves = match op {
            StringOp::Movs | StringOp::Cmps => true,
            StringOp::Lods | StringOp::Outs => slot == RSI,
            StringOp::Stos | StringOp::Scas | StringOp::Ins => slot == RDI,
        };
        if moves {
            let v = l.bin(Bin::Add, Width::W64, old, step);
            l.set_low(slot, address, v);
        }
    }
}

fn element(l: &mut Lifter, segment: u8, pointer: Val, address: Size, size: Size, how: Use) -> Place {
    let v = l.zx(address, pointer);
    let offset = Offset {
        segment,
        v,
        disp: 0,
        size: address,
    };
    let linear = l.linear(offset, size.bytes(), how != Use::Read);
    l.at(linear, size, how)
}
