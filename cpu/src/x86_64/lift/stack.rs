//! The stack (SDM 1 6.2): its pointer has 64, 32 or 16 bits, whatever the operand size is.

use super::Lifter;
use super::operand::{Offset, Place, SS, Use, general};
use crate::ir::{Bin, Size, Val, Width};
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::slots::{RBP, RSP, gpr};
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// The pointer and what is at it.
impl Lifter {
    /// Size of the stack pointer.
    pub fn stack_size(&self) -> Size {
        if self.is(Mode::LONG) {
            Size::B8
        } else if self.is(Mode::STACK32) {
            Size::B4
        } else {
            Size::B2
        }
    }

    /// An offset in the stack segment: `pointer + delta`.
    fn stack_offset(&mut self, pointer: Val, delta: i32) -> Offset {
        let size = self.stack_size();
        if size == Size::B8 {
            return Offset {
                segment: SS,
                v: pointer,
                disp: delta,
                size,
            };
        }
        let v = match delta {
            0 => pointer,
            _ => self.bin_constant(Bin::Add, Width::W32, pointer, delta as u32 as u64),
        };
        let v = self.zx(size, v);
        Offset {
            segment: SS,
            v,
            disp: 0,
            size,
        }
    }

    /// A place `delta` bytes from a pointer into the stack.
    pub fn stack_at(&mut self, pointer: Val, delta: i32, size: Size, how: Use) -> Place {
        let offset = self.stack_offset(pointer, delta);
        let linear = self.linear(offset, size.bytes(), how != Use::Read);
        self.at(linear, size, how)
    }

    /// What the stack pointer's register becomes with `delta` bytes added to `pointer`.
    fn moved(&mut self, pointer: Val, delta: i64) -> Val {
        match self.stack_size() {
            Size::B8 => self.add(pointer, delta),
            Size::B4 => self.bin_constant(Bin::Add, Width::W32, pointer, delta as u32 as u64),
            Size::B1 | Size::B2 => {
                let low = self.bin_constant(Bin::Add, Width::W32, pointer, delta as u32 as u64);
                let low = self.zx(Size::B2, low);
                let old = self.get(RSP);
                let rest = self.and(old, !0xffff);
                self.or(rest, low)
            }
        }
    }

    /// Sets the stack pointer to `pointer + delta`.
    pub fn set_stack(&mut self, pointer: Val, delta: i64) {
        let v = self.moved(pointer, delta);
        self.set(RSP, v);
    }

    /// Pushes a value, as the instruction's last op that can trap.
    pub fn push(&mut self, size: Size, v: Val) {
        let pointer = self.get(RSP);
        let delta = -(size.bytes() as i32);
        let place = self.stack_at(pointer, delta, size, Use::Write);
        self.put(place, v);
        self.set_stack(pointer, delta.into());
    }

    /// What is on top of the stack; the pointer stays.
    pub fn top(&mut self, size: Size) -> Val {
        let pointer = self.get(RSP);
        let place = self.stack_at(pointer, 0, size, Use::Read);
        self.load(place, false)
    }
}

/// The size that a push, pop, call or return of this instruction has.
pub(crate) fn stack_operand(i: &Instruction) -> Size {
    match i.stack_pointer_increment().unsigned_abs() {
        2 => Size::B2,
        4 => Size::B4,
        _ => Size::B8,
    }
}

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Push => push(l, i),
        Mnemonic::Pop => pop(l, i),
        Mnemonic::Pushf => push_flags(l, Size::B2),
        Mnemonic::Pushfd => push_flags(l, Size::B4),
        Mnemonic::Pushfq => push_flags(l, Size::B8),
        Mnemonic::Popf => pop_flags(l, Size::B2),
        Mnemonic::Popfd => pop_flags(l, Size::B4),
        Mnemonic::Popfq => pop_flags(l, Size::B8),
        Mnemonic::Pusha => push_all(l, Size::B2),
        Mnemonic::Pushad => push_all(l, Size::B4),
        Mnemonic::Popa => pop_all(l, Size::B2),
        Mnemonic::Popad => pop_all(l, Size::B4),
        Mnemonic::Enter => enter(l, i),
        Mnemonic::Leave => leave(l, i),
        _ => return false,
    }
    true
}

fn push(l: &mut Lifter, i: &Instruction) {
    let size = stack_operand(i);
    match i.op_kind(0) {
        OpKind::Register if i.op_register(0).is_segment_register() => {
            let n = l.constant(super::operand::segment(i.op_register(0)).into());
            let form = l.form(size, 0);
            let v = l.ask(helper::READ_SELECTOR, [Some(n), None], form);
            // Of a 32-bit push of a selector the processor writes the low half alone.
            let pointer = l.get(RSP);
            let delta = -(size.bytes() as i32);
            let stored = if size == Size::B4 { Size::B2 } else { size };
            let place = l.stack_at(pointer, delta, stored, Use::Write);
            l.put(place, v);
            l.set_stack(pointer, delta.into());
        }
        OpKind::Memory => {
            // Both are checked before the load, which may have an effect.
            let from = l.memory(i, size, Use::Read);
            let pointer = l.get(RSP);
            let delta = -(size.bytes() as i32);
            if let Place::Mem { addr, offset, .. } = from {
                l.check(addr, offset, size.bytes(), false);
            }
            let to = l.stack_at(pointer, delta, size, Use::Modify);
            let v = l.load(from, false);
            l.put(to, v);
            l.set_stack(pointer, delta.into());
        }
        _ => {
            let v = l.read(i, 0, size);
            l.push(size, v);
        }
    }
}

fn pop(l: &mut Lifter, i: &Instruction) {
    let size = stack_operand(i);
    let pointer = l.get(RSP);
    if i.op_kind(0) == OpKind::Register && i.op_register(0).is_segment_register() {
        let selector = l.top(size);
        let moved = l.moved(pointer, size.bytes() as i64);
        l.load_segment(i.op_register(0), selector, helper::MAKES_SHADOW);
        l.set(RSP, moved);
        return;
    }
    let v = l.top(size);
    if i.op_kind(0) == OpKind::Memory {
        // Its address is computed with the pointer moved already.
        let moved = l.moved(pointer, size.bytes() as i64);
        l.hold(RSP, Some(moved));
        let to = l.memory(i, size, Use::Write);
        l.put(to, v);
        l.hold(RSP, Some(pointer));
        l.set(RSP, moved);
        return;
    }
    l.set_stack(pointer, size.bytes() as i64);
    if let Some(to) = general(i.op_register(0)) {
        l.put(to, v);
    }
}

/// In virtual-8086 mode it takes IOPL 3 to see or change flags (there is no VME).
fn may_see_flags(l: &mut Lifter) -> bool {
    let may = !l.is(Mode::VM86) || l.is(Mode::IO_PRIVILEGE);
    if !may {
        l.protection();
    }
    may
}

fn push_flags(l: &mut Lifter, size: Size) {
    if may_see_flags(l) {
        let v = l.all_flags();
        // RF and VM read as 0.
        let v = l.and(v, !(1 << 16 | 1 << 17));
        l.push(size, v);
    }
}

fn pop_flags(l: &mut Lifter, size: Size) {
    if may_see_flags(l) {
        let v = l.top(size);
        let pointer = l.get(RSP);
        let moved = l.moved(pointer, size.bytes() as i64);
        let form = l.form(size, 0);
        l.call(helper::POPF, [Some(v), None], form);
        l.set(RSP, moved);
        l.dispatch();
    }
}

/// All is checked before anything is stored.
fn push_all(l: &mut Lifter, size: Size) {
    let pointer = l.get(RSP);
    let step = size.bytes() as i32;
    let places: Vec<Place> = (1..=8)
        .map(|n| l.stack_at(pointer, -n * step, size, Use::Modify))
        .collect();
    for (n, place) in places.into_iter().enumerate() {
        let v = l.get(gpr(n as u8));
        l.put(place, v);
    }
    l.set_stack(pointer, i64::from(-8 * step));
}

fn pop_all(l: &mut Lifter, size: Size) {
    let pointer = l.get(RSP);
    let step = size.bytes() as i32;
    let values: Vec<Val> = (0..8)
        .map(|n| {
            let place = l.stack_at(pointer, n * step, size, Use::Read);
            l.load(place, false)
        })
        .collect();
    for (n, v) in values.into_iter().enumerate() {
        let slot = gpr(7 - n as u8);
        // The pushed stack pointer is thrown away.
        if slot != RSP {
            l.set_low(slot, size, v);
        }
    }
    l.set_stack(pointer, i64::from(8 * step));
}

fn enter(l: &mut Lifter, i: &Instruction) {
    let size = match i.code() {
        Code::Enterw_imm16_imm8 => Size::B2,
        Code::Enterd_imm16_imm8 => Size::B4,
        _ => Size::B8,
    };
    let (step, level) = (size.bytes() as i32, i32::from(i.immediate8_2nd() & 31));
    if level > 1 {
        let (room, level) = (l.constant(i.immediate16().into()), l.constant(level as u64));
        let form = l.form(size, 0);
        l.call(helper::ENTER, [Some(room), Some(level)], form);
        return;
    }
    let (pointer, frame) = (l.get(RSP), l.get(RBP));
    // All is checked before anything is stored.
    let first = l.stack_at(pointer, -step, size, Use::Modify);
    let new_frame = l.moved(pointer, (-step).into());
    let last = (level > 0).then(|| l.stack_at(pointer, -2 * step, size, Use::Modify));
    let used = step * (level + 1);
    let end = l.moved(pointer, -i64::from(used) - i64::from(i.immediate16()));
    // The new top must be writable too.
    let offset = l.stack_offset(end, 0);
    let (addr, disp) = l.linear(offset, size.bytes(), true);
    l.check(addr, disp, size.bytes(), true);
    l.put(first, frame);
    if let Some(last) = last {
        l.put(last, new_frame);
    }
    l.set_low(RBP, size, new_frame);
    l.set(RSP, end);
}

fn leave(l: &mut Lifter, i: &Instruction) {
    let size = match i.code() {
        Code::Leavew => Size::B2,
        Code::Leaved => Size::B4,
        _ => Size::B8,
    };
    let frame = l.get(RBP);
    let place = l.stack_at(frame, 0, size, Use::Read);
    let v = l.load(place, false);
    l.set_stack(frame, size.bytes() as i64);
    l.set_low(RBP, size, v);
}

impl Lifter {
    /// Loads a segment register other than CS, which ends the block.
    pub fn load_segment(&mut self, register: Register, selector: Val, more: u8) {
        let n = super::operand::segment(register);
        let selector = self.zx(Size::B2, selector);
        let form = self.form(Size::B2, n | more);
        self.call(helper::LOAD_SEGMENT, [Some(selector), None], form);
        self.dispatch();
    }

    /// EFLAGS with the arithmetic flags.
    pub fn all_flags(&mut self) -> Val {
        let rest = self.get(crate::x86_64::slots::EFLAGS);
        let six = self.flags_value();
        self.or(rest, six)
    }

    /// Releases what was on top of the stack and `more` bytes.
    pub fn release(&mut self, size: Size, more: u16) {
        let pointer = self.get(RSP);
        self.set_stack(pointer, size.bytes() as i64 + i64::from(more));
    }
}
