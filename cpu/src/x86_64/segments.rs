//! Segment registers and descriptors (SDM 3A 3.4, 3.5, 5.2 to 5.8), and the registers that point to their tables.
//!
//! A load checks all before it changes anything: the accessed bit is set in memory after the last check, and that store
//! can't fault because the right to make it was checked too.

use super::bits::*;
use super::hart::Hart;
use super::mmu::View;
use super::registers::{SS, Segment, Table};
use super::slots;
use super::trap::{self, GP, NP};
use crate::ir::Size;
use crate::{Access, Context, Trap};

/// A descriptor as it is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) selector: u16,
    /// Linear address.
    pub(super) addr: u64,
    pub(super) raw: u64,
}

impl Descriptor {
    /// Bits 8 to 23 of the high half, without those of the limit.
    pub(super) const fn attr(&self) -> u16 {
        (self.raw >> 40) as u16 & 0xf0ff
    }

    pub(super) const fn is(&self, attr: u16) -> bool {
        self.attr() & attr != 0
    }

    pub(super) const fn dpl(&self) -> u8 {
        (self.raw >> 45 & 3) as u8
    }

    /// The type of a system descriptor.
    pub(super) const fn system_type(&self) -> u8 {
        (self.raw >> 40 & 15) as u8
    }

    pub(super) const fn is_code(&self) -> bool {
        self.attr() & (A_S | A_CODE) == A_S | A_CODE
    }

    pub(super) const fn is_conforming(&self) -> bool {
        self.attr() & A_DC != 0
    }

    pub(super) const fn is_writable_data(&self) -> bool {
        self.attr() & (A_S | A_CODE | A_RW) == A_S | A_RW
    }

    pub(super) const fn limit(&self) -> u32 {
        let limit = (self.raw & 0xffff | self.raw >> 32 & 0xf_0000) as u32;
        if self.attr() & A_G != 0 {
            limit << 12 | 0xfff
        } else {
            limit
        }
    }

    pub(super) const fn base(&self) -> u64 {
        self.raw >> 16 & 0xff_ffff | self.raw >> 32 & 0xff00_0000
    }

    /// The segment register's content, with the selector's RPL as given.
    pub(super) const fn segment(&self, rpl: u8) -> Segment {
        Segment {
            selector: self.selector & !3 | rpl as u16,
            attr: self.attr() | if self.attr() & A_S != 0 { A_ACCESSED } else { 0 },
            base: self.base(),
            limit: self.limit(),
        }
    }

    /// Gates: the selector.
    pub(super) const fn gate_selector(&self) -> u16 {
        (self.raw >> 16) as u16
    }

    /// Gates: the offset's low 32 bits.
    pub(super) const fn gate_offset(&self) -> u64 {
        self.raw & 0xffff | self.raw >> 32 & 0xffff_0000
    }
}

/// RPL of a selector.
pub(super) const fn rpl(selector: u16) -> u8 {
    (selector & 3) as u8
}

/// Whether a selector is null.
pub(super) const fn is_null(selector: u16) -> bool {
    selector & !3 == 0
}

/// Whether an access to `len` bytes at `offset` is within a segment's limit.
pub(super) fn within(segment: &Segment, offset: u64, len: u64) -> bool {
    let last = offset.saturating_add(len - 1);
    let limit = u64::from(segment.limit);
    if segment.attr & (A_S | A_CODE | A_DC) == A_S | A_DC {
        let top = if segment.attr & A_DB != 0 {
            0xffff_ffff
        } else {
            0xffff
        };
        offset > limit && last <= top
    } else {
        last <= limit
    }
}

/// What LAR and LSL yield of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// LAR: access rights.
    Rights,
    /// LSL: the limit.
    Limit,
    /// VERR: nothing more.
    Readable,
    /// VERW: nothing more.
    Writable,
}

impl Hart {
    /// Loads from a descriptor table or a TSS.
    pub(super) fn system_load(&mut self, cx: &mut dyn Context, addr: u64, size: Size) -> Result<u64, Trap> {
        let addr = self.system_address(addr);
        let view = std::mem::replace(&mut self.view, View::System);
        let result = cx.load(self, addr, size);
        self.view = view;
        result
    }

    fn system_address(&self, addr: u64) -> u64 {
        if self.long_mode() {
            addr
        } else {
            addr & 0xffff_ffff
        }
    }

    /// Checks that `len` bytes of a descriptor table can be written.
    fn system_check(&mut self, cx: &mut dyn Context, addr: u64, len: u64) -> Result<(), Trap> {
        let addr = self.system_address(addr);
        let view = std::mem::replace(&mut self.view, View::System);
        let result = cx.check(self, addr, len, Access::Write);
        self.view = view;
        result
    }

    pub(super) fn system_store(
        &mut self,
        cx: &mut dyn Context,
        addr: u64,
        size: Size,
        value: u64,
    ) -> Result<(), Trap> {
        let addr = self.system_address(addr);
        let view = std::mem::replace(&mut self.view, View::System);
        let result = cx.store(self, addr, size, value);
        self.view = view;
        result
    }

    /// Linear address of the descriptor that `selector` names, of `len` bytes, if it is within its table.
    fn descriptor_address(&self, selector: u16, len: u64) -> Option<u64> {
        let offset = u64::from(selector & !7);
        let (base, limit) = if selector & 4 != 0 {
            let ldt = &self.core.ldtr;
            if ldt.attr & A_P == 0 || is_null(ldt.selector) {
                return None;
            }
            (ldt.base, u64::from(ldt.limit))
        } else {
            (self.core.gdtr.base, u64::from(self.core.gdtr.limit))
        };
        (offset + len - 1 <= limit).then(|| base.wrapping_add(offset))
    }

    /// Reads the descriptor that `selector` names, which isn't null; `outside` is the trap if it isn't in its table.
    pub(super) fn descriptor(
        &mut self,
        cx: &mut dyn Context,
        selector: u16,
        outside: Trap,
    ) -> Result<Descriptor, Trap> {
        let addr = self.descriptor_address(selector, 8).ok_or(outside)?;
        let raw = self.system_load(cx, addr, Size::B8)?;
        Ok(Descriptor { selector, addr, raw })
    }

    /// The high half of a 16-byte descriptor; its type must be 0.
    pub(super) fn descriptor_high(
        &mut self,
        cx: &mut dyn Context,
        descriptor: &Descriptor,
        outside: Trap,
    ) -> Result<u64, Trap> {
        self.descriptor_address(descriptor.selector, 16).ok_or(outside)?;
        let high = self.system_load(cx, descriptor.addr.wrapping_add(8), Size::B8)?;
        if high >> 40 & 0x1f != 0 {
            Err(outside)
        } else {
            Ok(high)
        }
    }

    /// Checks that [`Hart::mark_accessed`] can be done.
    pub(super) fn check_accessed(&mut self, cx: &mut dyn Context, d: &Descriptor) -> Result<(), Trap> {
        if d.is(A_ACCESSED) {
            return Ok(());
        }
        self.system_check(cx, d.addr.wrapping_add(5), 1)
    }

    /// Sets the accessed bit in memory.
    pub(super) fn mark_accessed(&mut self, cx: &mut dyn Context, d: &Descriptor) -> Result<(), Trap> {
        if d.is(A_ACCESSED) {
            return Ok(());
        }
        let access = d.raw >> 40 & 0xff | u64::from(A_ACCESSED);
        self.system_store(cx, d.addr.wrapping_add(5), Size::B1, access)
    }

    /// `mov` to and `pop` of a segment register but CS, and `lds` and the like.
    pub(super) fn load_segment(&mut self, cx: &mut dyn Context, n: u8, selector: u16) -> Result<(), Trap> {
        let segment = if !self.protected() {
            // The limit and the rest stay: "unreal mode".
            Segment {
                selector,
                base: u64::from(selector) << 4,
                ..self.segment(n)
            }
        } else if self.vm86() {
            Segment::real(selector, 0xf3)
        } else if is_null(selector) {
            self.null_segment(n, selector)?
        } else {
            let gp = trap::fault(GP, selector & !3);
            let d = self.descriptor(cx, selector, gp)?;
            let cpl = self.core.cpl;
            if n == SS {
                if rpl(selector) != cpl || d.dpl() != cpl || !d.is_writable_data() {
                    return Err(gp);
                }
                if !d.is(A_P) {
                    return Err(trap::fault(trap::SS, selector & !3));
                }
            } else {
                let readable = d.is(A_S) && (!d.is(A_CODE) || d.is(A_RW));
                let conforming = d.is_code() && d.is_conforming();
                if !readable || !conforming && rpl(selector).max(cpl) > d.dpl() {
                    return Err(gp);
                }
                if !d.is(A_P) {
                    return Err(trap::fault(NP, selector & !3));
                }
            }
            self.check_accessed(cx, &d)?;
            self.mark_accessed(cx, &d)?;
            d.segment(rpl(selector))
        };
        self.set_segment(n, segment);
        Ok(())
    }

    fn null_segment(&self, n: u8, selector: u16) -> Result<Segment, Trap> {
        let cpl = self.core.cpl;
        if n == SS && !(self.code64() && cpl != 3 && rpl(selector) == cpl) {
            return Err(trap::fault(GP, 0));
        }
        Ok(Segment {
            selector,
            attr: if n == SS { u16::from(cpl) << 5 } else { 0 },
            base: 0,
            limit: 0,
        })
    }

    /// The linear address of `len` bytes at `offset` of data segment `n`, with the checks that a segment which isn't
    /// flat needs (SDM 3A 5.3, 5.5).
    pub(super) fn data_address(&self, n: u8, offset: u64, len: u64, write: bool) -> Result<u64, Trap> {
        let vector = if n == SS { trap::SS } else { GP };
        let segment = self.segment(n);
        if self.code64() {
            let base = if n >= super::registers::FS {
                segment.base
            } else {
                0
            };
            let addr = base.wrapping_add(offset);
            let last = addr.wrapping_add(len - 1);
            return if canonical(addr) && canonical(last) {
                Ok(addr)
            } else {
                Err(trap::fault(vector, 0))
            };
        }
        if self.protected() && !self.vm86() {
            let attr = segment.attr;
            if attr & A_P == 0 {
                return Err(trap::fault(GP, 0));
            }
            let allowed = if write {
                attr & (A_CODE | A_RW) == A_RW
            } else {
                attr & A_CODE == 0 || attr & A_RW != 0
            };
            if !allowed {
                return Err(trap::fault(GP, 0));
            }
        }
        if !within(&segment, offset & 0xffff_ffff, len) {
            return Err(trap::fault(vector, 0));
        }
        Ok(segment.base.wrapping_add(offset) & 0xffff_ffff)
    }

    /// `lldt`.
    pub(super) fn lldt(&mut self, cx: &mut dyn Context, selector: u16) -> Result<(), Trap> {
        self.protected_ring0()?;
        if is_null(selector) {
            self.core.ldtr = Segment {
                selector,
                ..Segment::default()
            };
            return Ok(());
        }
        let (d, base) = self.system_segment(cx, selector)?;
        if d.is(A_S) || d.system_type() != 2 {
            return Err(trap::fault(GP, selector & !3));
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, selector & !3));
        }
        self.core.ldtr = Segment {
            base,
            ..d.segment(rpl(selector))
        };
        Ok(())
    }

    /// `ltr`: the descriptor becomes busy.
    pub(super) fn ltr(&mut self, cx: &mut dyn Context, selector: u16) -> Result<(), Trap> {
        self.protected_ring0()?;
        if is_null(selector) {
            return Err(trap::fault(GP, 0));
        }
        let (d, base) = self.system_segment(cx, selector)?;
        let available = d.system_type() == 9 || d.system_type() == 1 && !self.long_mode();
        if d.is(A_S) || !available {
            return Err(trap::fault(GP, selector & !3));
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, selector & !3));
        }
        let busy = d.raw >> 40 & 0xff | 2;
        self.system_store(cx, d.addr.wrapping_add(5), Size::B1, busy)?;
        let segment = d.segment(rpl(selector));
        self.core.tr = Segment {
            base,
            attr: segment.attr | 2,
            ..segment
        };
        Ok(())
    }

    /// A descriptor of the GDT that is of 16 bytes in long mode, and its base.
    fn system_segment(&mut self, cx: &mut dyn Context, selector: u16) -> Result<(Descriptor, u64), Trap> {
        let gp = trap::fault(GP, selector & !3);
        if selector & 4 != 0 {
            return Err(gp);
        }
        let d = self.descriptor(cx, selector, gp)?;
        let mut base = d.base();
        if self.long_mode() {
            base |= self.descriptor_high(cx, &d, gp)? << 32;
            if !canonical(base) {
                return Err(gp);
            }
        }
        Ok((d, base))
    }

    /// Instructions on system registers: #UD outside of protected mode, #GP(0) outside of ring 0.
    pub(super) fn protected_ring0(&self) -> Result<(), Trap> {
        if !self.protected() || self.vm86() {
            return Err(trap::trap(trap::UD));
        }
        self.ring0()
    }

    /// #GP(0) outside of ring 0.
    pub(super) fn ring0(&self) -> Result<(), Trap> {
        if self.core.cpl == 0 {
            Ok(())
        } else {
            Err(trap::fault(GP, 0))
        }
    }

    /// `lgdt` and `lidt`.
    pub(super) fn load_table(&mut self, idt: bool, limit: u16, base: u64) -> Result<(), Trap> {
        self.ring0()?;
        if self.code64() && !canonical(base) {
            return Err(trap::fault(GP, 0));
        }
        let table = Table { base, limit };
        if idt {
            self.core.idtr = table;
        } else {
            self.core.gdtr = table;
        }
        Ok(())
    }

    /// `lar`, `lsl`, `verr`, `verw`: what they yield and bit 32, or 0 if the segment can't be seen so (ZF = 0).
    pub(super) fn look(&mut self, cx: &mut dyn Context, selector: u16, look: Look) -> Result<u64, Trap> {
        const SEEN: u64 = 1 << 32;
        if is_null(selector) {
            return Ok(0);
        }
        let Some(addr) = self.descriptor_address(selector, 8) else {
            return Ok(0);
        };
        let raw = self.system_load(cx, addr, Size::B8)?;
        let d = Descriptor { selector, addr, raw };
        let visible = d.is_code() && d.is_conforming() || rpl(selector).max(self.core.cpl) <= d.dpl();
        let long = self.long_mode();
        let typed = if d.is(A_S) {
            match look {
                Look::Rights | Look::Limit => true,
                Look::Readable => !d.is(A_CODE) || d.is(A_RW),
                Look::Writable => d.is_writable_data(),
            }
        } else {
            match (look, d.system_type()) {
                (Look::Rights | Look::Limit, 2 | 9 | 11) => true,
                (Look::Rights | Look::Limit, 1 | 3) => !long,
                (Look::Rights, 12) => true,
                (Look::Rights, 4 | 5) => !long,
                _ => false,
            }
        };
        if !visible || !typed {
            return Ok(0);
        }
        Ok(SEEN
            | match look {
                Look::Rights => d.raw >> 32 & 0x00ff_ff00,
                Look::Limit => d.limit().into(),
                Look::Readable | Look::Writable => 0,
            })
    }

    /// The linear address and size of an access at the top of the current stack after `down` bytes were pushed.
    pub(super) fn stack_mask(&self) -> u64 {
        if self.code64() {
            u64::MAX
        } else if self.core.attrs[usize::from(SS)] & A_DB != 0 {
            0xffff_ffff
        } else {
            0xffff
        }
    }

    /// Sets the stack pointer, of which only what the stack segment's size says changes.
    pub(super) fn set_sp(&mut self, value: u64) {
        let mask = self.stack_mask();
        let old = self.regs[slots::RSP];
        // A 32-bit stack pointer zeroes the upper half, as writes of 32-bit registers do.
        self.regs[slots::RSP] = match mask {
            0xffff => old & !mask | value & mask,
            _ => value & mask,
        };
    }
}

#[cfg(test)]
mod tests;
