//! Frames: several pushes or pops of one instruction or delivery, of which either all are done or none.

use super::bits::*;
use super::hart::Hart;
use super::mmu::View;
use super::registers::{SS, Segment};
use super::segments::within;
use super::slots;
use super::trap;
use crate::ir::Size;
use crate::{Access, Context, Trap};

/// Pushes that are to be made on a stack.
pub(super) struct Pushes {
    stack: Segment,
    /// The stack pointer after them.
    pub(super) sp: u64,
    mask: u64,
    /// 64-bit mode: no segment.
    flat: bool,
    /// As whom.
    view: View,
    /// The trap where the stack ends.
    outside: Trap,
    items: Vec<(u64, Size, u64)>,
}

impl Pushes {
    /// On stack segment `stack` from `sp` on, with the rights of ring `ring`.
    pub(super) fn on(stack: Segment, sp: u64, flat: bool, ring: u8, outside: Trap) -> Pushes {
        let mask = match (flat, stack.attr & A_DB != 0) {
            (true, _) => u64::MAX,
            (false, true) => 0xffff_ffff,
            (false, false) => 0xffff,
        };
        Pushes {
            stack,
            sp,
            mask,
            flat,
            view: View::Ring(ring),
            outside,
            items: Vec::with_capacity(8),
        }
    }

    /// On the current stack.
    pub(super) fn current(hart: &Hart, outside: Trap) -> Pushes {
        let flat = hart.code64();
        let sp = hart.regs[slots::RSP];
        Pushes::on(hart.segment(SS), sp, flat, hart.core.cpl, outside)
    }

    /// Adds a push.
    pub(super) fn push(&mut self, size: Size, value: u64) -> Result<(), Trap> {
        let sp = self.sp.wrapping_sub(size.bytes());
        let offset = sp & self.mask;
        let addr = if self.flat {
            if !canonical(offset) || !canonical(offset.wrapping_add(size.bytes() - 1)) {
                return Err(self.outside);
            }
            offset
        } else {
            if !within(&self.stack, offset, size.bytes()) {
                return Err(self.outside);
            }
            self.stack.base.wrapping_add(offset) & 0xffff_ffff
        };
        self.sp = self.sp & !self.mask | offset;
        self.items.push((addr, size, value));
        Ok(())
    }

    /// Checks that all can be made.
    pub(super) fn check(&self, hart: &mut Hart, cx: &mut dyn Context) -> Result<(), Trap> {
        let old = std::mem::replace(&mut hart.view, self.view);
        let result = self.check_as_viewed(hart, cx);
        hart.view = old;
        result
    }

    fn check_as_viewed(&self, hart: &mut Hart, cx: &mut dyn Context) -> Result<(), Trap> {
        if let (Some(first), Some(last)) = (self.items.first(), self.items.last()) {
            let len: u64 = self.items.iter().map(|(_, size, _)| size.bytes()).sum();
            // One range in all but odd cases (a stack pointer that wraps); it spans two pages at most.
            if first.0.wrapping_add(first.1.bytes()) == last.0.wrapping_add(len) {
                return cx.check(hart, last.0, len, Access::Write);
            }
        }
        self.items
            .iter()
            .try_for_each(|(addr, size, _)| cx.check(hart, *addr, size.bytes(), Access::Write))
    }

    /// Makes them.
    pub(super) fn store(&self, hart: &mut Hart, cx: &mut dyn Context) -> Result<(), Trap> {
        let old = std::mem::replace(&mut hart.view, self.view);
        let result = self
            .items
            .iter()
            .try_for_each(|(addr, size, value)| cx.store(hart, *addr, *size, *value));
        hart.view = old;
        result
    }
}

/// Pops from the current stack; the stack pointer is the caller's to set.
pub(super) struct Pops {
    stack: Segment,
    pub(super) sp: u64,
    mask: u64,
    flat: bool,
}

impl Pops {
    pub(super) fn current(hart: &Hart) -> Pops {
        Pops {
            stack: hart.segment(SS),
            sp: hart.regs[slots::RSP],
            mask: hart.stack_mask(),
            flat: hart.code64(),
        }
    }

    /// The next value.
    pub(super) fn pop(&mut self, hart: &mut Hart, cx: &mut dyn Context, size: Size) -> Result<u64, Trap> {
        let offset = self.sp & self.mask;
        let addr = if self.flat {
            if !canonical(offset) || !canonical(offset.wrapping_add(size.bytes() - 1)) {
                return Err(trap::fault(trap::SS, 0));
            }
            offset
        } else {
            if !within(&self.stack, offset, size.bytes()) {
                return Err(trap::fault(trap::SS, 0));
            }
            self.stack.base.wrapping_add(offset) & 0xffff_ffff
        };
        let value = cx.load(hart, addr, size)?;
        self.skip(size.bytes());
        Ok(value)
    }

    /// Leaves bytes out.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.sp = self.sp & !self.mask | self.sp.wrapping_add(bytes) & self.mask;
    }
}

impl Hart {
    /// The linear address of `len` bytes on the current stack; `offset` is cut to the stack's address size.
    fn stack_address(&self, offset: u64, len: u64) -> Result<u64, Trap> {
        let outside = trap::fault(trap::SS, 0);
        let offset = offset & self.stack_mask();
        if self.code64() {
            let whole = canonical(offset) && canonical(offset.wrapping_add(len - 1));
            return if whole { Ok(offset) } else { Err(outside) };
        }
        let stack = self.segment(SS);
        if within(&stack, offset, len) {
            Ok(stack.base.wrapping_add(offset) & 0xffff_ffff)
        } else {
            Err(outside)
        }
    }

    /// `enter` (SDM 2A): pushes rbp, copies the `level - 1` frame pointers of the enclosing levels one by one (the two frames
    /// may overlap), pushes the new one, and makes room. All is checked before anything is stored, the new top too.
    pub(super) fn enter_frame(
        &mut self,
        cx: &mut dyn Context,
        size: Size,
        room: u64,
        level: u64,
    ) -> Result<(), Trap> {
        let (sp, frame, step) = (self.regs[slots::RSP], self.regs[slots::RBP], size.bytes());
        let below = |base: u64, n: u64| base.wrapping_sub(n * step);
        let checked = |hart: &mut Hart, cx: &mut dyn Context, offset: u64, access| {
            let addr = hart.stack_address(offset, step)?;
            cx.check(hart, addr, step, access).map(|()| addr)
        };
        let first = checked(self, cx, below(sp, 1), Access::Write)?;
        let mut copies = Vec::with_capacity(32);
        for n in 1..level.min(32) {
            let from = checked(self, cx, below(frame, n), Access::Read)?;
            copies.push((from, checked(self, cx, below(sp, n + 1), Access::Write)?));
        }
        let last = checked(self, cx, below(sp, level + 1), Access::Write)?;
        let top = below(sp, level + 1).wrapping_sub(room);
        checked(self, cx, top, Access::Write)?;
        cx.store(self, first, size, frame & size.mask())?;
        for (from, to) in copies {
            let value = cx.load(self, from, size)?;
            cx.store(self, to, size, value)?;
        }
        // As much of it as the stack segment's size says.
        let mask = if self.stack_mask() == 0xffff {
            0xffff
        } else {
            u64::MAX
        };
        let new_frame = sp & !mask | below(sp, 1) & mask;
        cx.store(self, last, size, new_frame & size.mask())?;
        self.regs[slots::RBP] = match size {
            Size::B1 | Size::B2 => frame & !0xffff | new_frame & 0xffff,
            Size::B4 | Size::B8 => new_frame & size.mask(),
        };
        self.set_sp(top);
        Ok(())
    }
}
