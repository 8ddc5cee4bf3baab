//! Moves: loads, stores, between kinds of registers, parts of vectors.

use super::{Alignment, Lifter, is_mmx, low, number, register};
use crate::ir::{Class, Fmt, Op, Size, VBin, VImm, VUn, Val};
use crate::x86_64::helper;
use crate::x86_64::lift::operand::{DS, Offset, Place, Use, general, segment};
use crate::x86_64::slots::{RDI, xmm};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Movaps | M::Movapd | M::Movdqa | M::Movntps | M::Movntpd | M::Movntdq | M::Movntdqa => {
            whole(l, i, Alignment::Required);
        }
        M::Movups | M::Movupd | M::Movdqu | M::Lddqu => whole(l, i, Alignment::Any),
        M::Movss => scalar(l, i, Size::B4),
        M::Movsd => scalar(l, i, Size::B8),
        M::Movd => to_low(l, i, Size::B4),
        M::Movq | M::Movntq | M::Movdq2q | M::Movq2dq => to_low(l, i, Size::B8),
        M::Movlps | M::Movlpd => half(l, i, 0),
        M::Movhps | M::Movhpd => half(l, i, 1),
        M::Movhlps => l.two(i, |l, a, b| l.vbin(VBin::InterleaveHigh64, b, a)),
        M::Movlhps => l.two(i, |l, a, b| l.vbin(VBin::InterleaveLow64, a, b)),
        M::Movddup => {
            let v = l.low_operand(i, 1, Size::B8);
            let v = l.pair([v, v]);
            l.set_result(i, v);
        }
        M::Movsldup => duplicate(l, i, 0xa0),
        M::Movshdup => duplicate(l, i, 0xf5),
        M::Movmskps => mask(l, i, Size::B4),
        M::Movmskpd => mask(l, i, Size::B8),
        M::Pmovmskb if is_mmx(i, 1) => {
            let v = l.mm(register(i, 1));
            let v = l.only_low(v);
            let v = l.op(Op::VMask(Size::B1, v));
            l.mmx_helper(helper::MMX_ENTER, [None; 2]);
            put(l, i, Size::B8, v);
        }
        M::Pmovmskb => mask(l, i, Size::B1),
        M::Pextrb => extract(l, i, Size::B1),
        M::Pextrw => extract(l, i, Size::B2),
        M::Pextrd | M::Extractps => extract(l, i, Size::B4),
        M::Pextrq => extract(l, i, Size::B8),
        M::Pinsrb => insert(l, i, Size::B1),
        M::Pinsrw => insert(l, i, Size::B2),
        M::Pinsrd => insert(l, i, Size::B4),
        M::Pinsrq => insert(l, i, Size::B8),
        M::Insertps => insert_single(l, i),
        M::Maskmovdqu | M::Maskmovq => masked_store(l, i),
        M::Emms => {
            l.mmx_helper(helper::EMMS, [None; 2]);
        }
        _ => return false,
    }
    true
}

/// All 16 bytes.
fn whole(l: &mut Lifter, i: &Instruction, alignment: Alignment) {
    if i.op0_kind() != OpKind::Register {
        let (addr, offset) = l.vector_address(i, alignment, true);
        let value = l.vector_register(i, 1);
        l.op(Op::StoreV { addr, offset, value });
        return;
    }
    if i.op1_kind() == OpKind::Register && l.numbers {
        let (from, to) = (number(register(i, 1)), number(register(i, 0)));
        let class = l.held(xmm(from, 0)).and_then(|v| l.def(v).class());
        if matches!(class, None | Some(Class::F)) {
            // A scalar is moved so.
            let (scalar, rest) = (l.get_f(xmm(from, 0)), l.get(xmm(from, 1)));
            l.set_f(xmm(to, 0), scalar);
            return l.set(xmm(to, 1), rest);
        }
    }
    let v = l.vector_operand(i, 1, alignment);
    l.set_result(i, v);
}

fn duplicate(l: &mut Lifter, i: &Instruction, control: u8) {
    let v = l.vector_operand(i, 1, Alignment::Required);
    let v = l.op(Op::VImm(VImm::Shuffle32, v, control));
    l.set_result(i, v);
}

/// The sign bits of elements, into a general register.
fn mask(l: &mut Lifter, i: &Instruction, size: Size) {
    let v = l.vector_register(i, 1);
    let v = l.op(Op::VMask(size, v));
    put(l, i, Size::B8, v);
}

/// Stores the low part of the vector register that operand `n` is, where the memory operand is.
fn store_low(l: &mut Lifter, i: &Instruction, n: u32, size: Size) {
    let slot = low(i, n);
    let integer = l.held(slot).is_some_and(|v| l.def(v).class() == Some(Class::I));
    match l.memory(i, size, Use::Write) {
        Place::Mem { addr, offset, .. } if !integer => {
            let value = l.get_f(slot);
            let fmt = if size == Size::B4 { Fmt::F32 } else { Fmt::F64 };
            l.op(Op::StoreF {
                fmt,
                addr,
                offset,
                value,
            });
        }
        place => {
            let v = l.get(slot);
            l.put(place, v);
        }
    }
}

/// movss, movsd: a load clears the rest, a move between registers leaves it.
fn scalar(l: &mut Lifter, i: &Instruction, size: Size) {
    if i.op0_kind() != OpKind::Register {
        store_low(l, i, 1, size);
    } else if i.op1_kind() != OpKind::Register {
        let zero = l.constant(0);
        let fmt = if size == Size::B4 { Fmt::F32 } else { Fmt::F64 };
        // Of a single the upper bits are zeros.
        let v = l.scalar_operand(i, 1, fmt);
        l.set_f(low(i, 0), v);
        l.set(xmm(number(register(i, 0)), 1), zero);
    } else {
        let mut v = l.scalar_register(i, 1);
        if size == Size::B4 {
            let old = l.scalar_register(i, 0);
            v = l.op(Op::FJoin32(old, v));
        }
        l.set_f(low(i, 0), v);
    }
}

/// Writes a register or memory of `size`.
fn put(l: &mut Lifter, i: &Instruction, size: Size, v: Val) {
    let place = match general(register(i, 0)) {
        Some(place) => place,
        None => l.memory(i, size, Use::Write),
    };
    l.put(place, v);
}

/// movd, movq: from and to the low part of a vector register or an MMX register; what is above becomes 0.
fn to_low(l: &mut Lifter, i: &Instruction, size: Size) {
    let (to, from) = (register(i, 0), register(i, 1));
    if from.is_xmm() && to.is_xmm() {
        let v = l.vector_register(i, 1);
        let v = l.op(Op::VUn(VUn::Low64, v));
        return l.set_result(i, v);
    }
    if from.is_xmm() && to == Register::None {
        return store_low(l, i, 1, size);
    }
    let mut v = if from.is_mm() {
        l.mm(from)
    } else if from.is_xmm() {
        l.get(low(i, 1))
    } else {
        match general(from) {
            Some(place) => l.fetch(place),
            None => {
                let place = l.memory(i, size, Use::Read);
                l.load(place, false)
            }
        }
    };
    if to.is_mm() {
        v = l.zx(size, v);
        l.set_mm(to, v);
        return;
    }
    let place = match general(to) {
        Some(place) => Some(place),
        None if to.is_xmm() => None,
        None => Some(l.memory(i, size, Use::Write)),
    };
    // A store comes before what changes the x87's state.
    if let Some(place @ Place::Mem { .. }) = place {
        l.put(place, v);
    }
    if from.is_mm() {
        l.mmx_helper(helper::MMX_ENTER, [None; 2]);
    }
    match place {
        Some(Place::Mem { .. }) => {}
        Some(place) => l.put(place, v),
        None => {
            let v = l.zx(size, v);
            let v = l.only_low(v);
            l.set_result(i, v);
        }
    }
}

/// movlps, movhps and their kin: one quadword from or to memory.
fn half(l: &mut Lifter, i: &Instruction, part: u8) {
    if i.op0_kind() == OpKind::Register {
        let place = l.memory(i, Size::B8, Use::Read);
        let v = l.load(place, false);
        let old = l.vector_register(i, 0);
        let v = l.op(Op::VInsert(Size::B8, part, old, v));
        l.set_result(i, v);
    } else if part == 0 {
        store_low(l, i, 1, Size::B8);
    } else {
        let place = l.memory(i, Size::B8, Use::Write);
        let v = l.get(xmm(number(register(i, 1)), 1));
        l.put(place, v);
    }
}

/// Bit of an element of an MMX register.
fn element(i: &Instruction, size: Size) -> u64 {
    u64::from(i.immediate8()) * size.bytes() % 8 * 8
}

/// An element, zero-extended.
fn extract(l: &mut Lifter, i: &Instruction, size: Size) {
    let from = register(i, 1);
    if from.is_mm() {
        let v = l.mm(from);
        let v = l.shr(v, element(i, size));
        let v = l.zx(size, v);
        l.mmx_helper(helper::MMX_ENTER, [None; 2]);
        return put(l, i, size, v);
    }
    let v = l.vector_register(i, 1);
    let v = l.op(Op::VExtract(size, i.immediate8(), v));
    put(l, i, size, v);
}

fn insert(l: &mut Lifter, i: &Instruction, size: Size) {
    let v = match general(register(i, 1)) {
        Some(place) => l.fetch(place),
        None => {
            let place = l.memory(i, size, Use::Read);
            l.load(place, false)
        }
    };
    let to = register(i, 0);
    if to.is_mm() {
        let v = l.zx(size, v);
        let old = l.mm(to);
        let v = l.replace(old, v, size, element(i, size));
        return l.set_mm(to, v);
    }
    let old = l.vector_register(i, 0);
    let v = l.op(Op::VInsert(size, i.immediate8(), old, v));
    l.set_result(i, v);
}

/// insertps: one single, and zeros by a mask.
fn insert_single(l: &mut Lifter, i: &Instruction) {
    let control = i.immediate8();
    let v = if i.op1_kind() == OpKind::Register {
        let from = l.vector_register(i, 1);
        l.op(Op::VExtract(Size::B4, control >> 6, from))
    } else {
        l.low_operand(i, 1, Size::B4)
    };
    let old = l.vector_register(i, 0);
    let mut r = l.op(Op::VInsert(Size::B4, control >> 4 & 3, old, v));
    if control & 15 != 0 {
        let lane = |n: u8| if control >> n & 1 == 0 { 0xffff_ffff } else { 0 };
        let kept = [0, 2].map(|n| lane(n) | lane(n + 1) << 32);
        let kept = l.vector_constant(kept);
        r = l.vbin(VBin::And, r, kept);
    }
    l.set_result(i, r);
}

/// maskmovdqu, maskmovq: a helper stores the bytes.
fn masked_store(l: &mut Lifter, i: &Instruction) {
    let size = match i.op0_kind() {
        OpKind::MemorySegDI => Size::B2,
        OpKind::MemorySegEDI => Size::B4,
        _ => Size::B8,
    };
    let segment = match i.memory_segment() {
        Register::None => DS,
        r => segment(r),
    };
    let mmx = is_mmx(i, 1);
    let v = l.get(RDI);
    let v = l.zx(size, v);
    let at = Offset {
        segment,
        v,
        disp: 0,
        size,
    };
    let (addr, offset) = l.linear(at, if mmx { 8 } else { 16 }, true);
    let addr = l.add(addr, offset.into());
    let (data, mask) = (number(register(i, 1)), number(register(i, 2)));
    let registers = l.constant(u64::from(data) | u64::from(mask) << 8 | u64::from(mmx) << 16);
    l.mmx_helper(helper::MASKED_STORE, [Some(addr), Some(registers)]);
    if mmx {
        l.mmx_helper(helper::MMX_ENTER, [None; 2]);
    }
}

/// Parts of words.
impl Lifter {
    /// A word of two dwords.
    pub(super) fn dwords(&mut self, lo: Val, hi: Val) -> Val {
        let lo = self.zx(Size::B4, lo);
        let hi = self.shl(hi, 32);
        self.or(lo, hi)
    }

    /// A word with the bits of `size` from `shift` on replaced; `v` is zero-extended.
    fn replace(&mut self, old: Val, v: Val, size: Size, shift: u64) -> Val {
        let rest = self.and(old, !(size.mask() << shift));
        let v = self.shl(v, shift);
        self.or(rest, v)
    }

    /// Sets the low part of the vector register that operand 0 is.
    pub(super) fn set_low_part(&mut self, i: &Instruction, size: Size, v: Val) {
        let slot = low(i, 0);
        let v = match size {
            Size::B8 => v,
            _ => {
                let (old, v) = (self.get(slot), self.zx(size, v));
                self.replace(old, v, size, 0)
            }
        };
        self.set(slot, v);
    }
}
