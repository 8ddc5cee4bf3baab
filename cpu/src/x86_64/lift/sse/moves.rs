//! Moves: loads, stores, between kinds of registers, parts of vectors.

use super::{Alignment, Lifter, Vector, is_mmx, low, number, register};
use crate::ir::{Size, Val};
use crate::x86_64::helper;
use crate::x86_64::lift::operand::{DS, Offset, Place, Use, general, segment};
use crate::x86_64::simd::shuffle::SIGNS;
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
        M::Movhlps => {
            let v = l.vector(number(register(i, 1)));
            l.set(low(i, 0), v[1]);
        }
        M::Movlhps => {
            let v = l.vector(number(register(i, 1)));
            l.set(xmm(number(register(i, 0)), 1), v[0]);
        }
        M::Movddup => {
            let v = l.low_operand(i, 1, Size::B8);
            l.set_result(i, [v, v]);
        }
        M::Movsldup | M::Movshdup => {
            let v = l.vector_operand(i, 1, Alignment::Required);
            let v = v.map(|word| {
                if i.mnemonic() == M::Movsldup {
                    l.dwords(word, word)
                } else {
                    let high = l.shr(word, 32);
                    l.dwords(high, high)
                }
            });
            l.set_result(i, v);
        }
        M::Movmskps => {
            let v = l.vector(number(register(i, 1)));
            let bits = v.map(|word| {
                let (first, second) = (l.shr(word, 31), l.shr(word, 62));
                let (first, second) = (l.and(first, 1), l.and(second, 2));
                l.or(first, second)
            });
            let high = l.shl(bits[1], 2);
            let v = l.or(bits[0], high);
            put(l, i, Size::B8, v);
        }
        M::Movmskpd => {
            let v = l.vector(number(register(i, 1)));
            let (first, second) = (l.shr(v[0], 63), l.shr(v[1], 62));
            let second = l.and(second, 2);
            let v = l.or(first, second);
            put(l, i, Size::B8, v);
        }
        M::Pmovmskb if is_mmx(i, 1) => {
            let v = l.mm(register(i, 1));
            let v = l.pure(SIGNS, [v]);
            l.mmx_helper(helper::MMX_ENTER, [None; 2]);
            put(l, i, Size::B8, v);
        }
        M::Pmovmskb => {
            let v = l.vector(number(register(i, 1)));
            let [first, second] = v.map(|word| l.pure(SIGNS, [word]));
            let second = l.shl(second, 8);
            let v = l.or(first, second);
            put(l, i, Size::B8, v);
        }
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
    if i.op0_kind() == OpKind::Register {
        let v = l.vector_operand(i, 1, alignment);
        l.set_result(i, v);
    } else {
        let at = l.vector_address(i, alignment, true);
        let v = l.vector(number(register(i, 1)));
        l.store_vector(at, v);
    }
}

/// movss, movsd: a load clears the rest, a move between registers leaves it.
fn scalar(l: &mut Lifter, i: &Instruction, size: Size) {
    if i.op0_kind() != OpKind::Register {
        let v = l.get(low(i, 1));
        let place = l.memory(i, size, Use::Write);
        l.put(place, v);
    } else if i.op1_kind() != OpKind::Register {
        let (v, zero) = (l.low_operand(i, 1, size), l.constant(0));
        l.set_result(i, [v, zero]);
    } else {
        let v = l.get(low(i, 1));
        l.set_low_part(i, size, v);
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
            let (v, zero) = (l.zx(size, v), l.constant(0));
            l.set_result(i, [v, zero]);
        }
    }
}

/// movlps, movhps and their kin: one quadword from or to memory.
fn half(l: &mut Lifter, i: &Instruction, part: u8) {
    let place = if i.op0_kind() == OpKind::Register {
        let place = l.memory(i, Size::B8, Use::Read);
        let v = l.load(place, false);
        l.set(xmm(number(register(i, 0)), part), v);
        return;
    } else {
        l.memory(i, Size::B8, Use::Write)
    };
    let v = l.get(xmm(number(register(i, 1)), part));
    l.put(place, v);
}

/// Which quadword an element is in, and at which bit.
fn element(i: &Instruction, n: u32, size: Size, quadwords: u64) -> (usize, u64) {
    let at = u64::from(i.immediate8() & 15) * size.bytes() % (8 * quadwords);
    let _ = n;
    ((at / 8) as usize, at % 8 * 8)
}

/// An element, zero-extended.
fn extract(l: &mut Lifter, i: &Instruction, size: Size) {
    let from = register(i, 1);
    if from.is_mm() {
        let (_, shift) = element(i, 1, size, 1);
        let v = l.mm(from);
        let v = l.shr(v, shift);
        let v = l.zx(size, v);
        l.mmx_helper(helper::MMX_ENTER, [None; 2]);
        return put(l, i, size, v);
    }
    let (word, shift) = element(i, 1, size, 2);
    let v = l.vector(number(from))[word];
    let v = l.shr(v, shift);
    let v = l.zx(size, v);
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
    let v = l.zx(size, v);
    let to = register(i, 0);
    if to.is_mm() {
        let (_, shift) = element(i, 0, size, 1);
        let old = l.mm(to);
        let v = l.replace(old, v, size, shift);
        return l.set_mm(to, v);
    }
    let (word, shift) = element(i, 0, size, 2);
    let slot = xmm(number(to), word as u8);
    let old = l.get(slot);
    let v = l.replace(old, v, size, shift);
    l.set(slot, v);
}

/// insertps: one single, and zeros by a mask.
fn insert_single(l: &mut Lifter, i: &Instruction) {
    let control = i.immediate8();
    let v = if i.op1_kind() == OpKind::Register {
        let from = l.vector(number(register(i, 1)));
        let v = from[usize::from(control >> 7)];
        l.shr(v, u64::from(control >> 6 & 1) * 32)
    } else {
        l.low_operand(i, 1, Size::B4)
    };
    let v = l.zx(Size::B4, v);
    let mut r: Vector = l.vector(number(register(i, 0)));
    let to = usize::from(control >> 4 & 3);
    r[to / 2] = l.replace(r[to / 2], v, Size::B4, to as u64 % 2 * 32);
    for lane in 0..4 {
        if control >> lane & 1 != 0 {
            r[lane / 2] = l.and(r[lane / 2], !(0xffff_ffff << (lane % 2 * 32)));
        }
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
