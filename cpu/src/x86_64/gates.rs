//! Interrupts and exceptions through the IDT, and IRET (SDM 3A 6.10 to 6.15, 21.3; SDM 2A INT n, IRET).
//!
//! A delivery is one step with all faults that it meets on its way: each attempt either does everything or nothing,
//! because it checks what it will store before it stores; a fault becomes the next thing to be delivered, or a double
//! fault, or shutdown (SDM 3A table 6-5).
//!
//! There are no hardware task switches: a task gate is #GP of its IDT entry, and IRET with NT set finds that the link
//! of the TSS names no task (#TS; in long mode #GP(0)).

use super::bits::*;
use super::hart::Hart;
use super::registers::{Activity, CS, DS, ES, FS, GS, SS, Segment};
use super::segments::{Descriptor, is_null, rpl, within};
use super::stack::{Pops, Pushes};
use super::trap::{self, DB, GP, NP, PF};
use super::{flags, slots};
use crate::ir::Size;
use crate::{Context, Trap};

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An interrupt controller, or NMI.
    External,
    /// The processor.
    Exception,
    /// `int n`.
    Int,
    /// `int3`, `into`.
    Breakpoint,
    /// `int1`: no privilege is needed.
    Int1,
}

/// What is delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    vector: u8,
    code: Option<u16>,
    source: Source,
    /// The instruction pointer that is saved.
    ip: u64,
    /// RF of the saved flags.
    resume: bool,
}

impl Event {
    /// The EXT bit of error codes that its delivery raises.
    fn ext(&self) -> u16 {
        match self.source {
            Source::External | Source::Exception => 1,
            Source::Int | Source::Breakpoint | Source::Int1 => 0,
        }
    }

    /// The error code that names its IDT entry.
    fn idt_code(&self) -> u16 {
        u16::from(self.vector) << 3 | 2 | self.ext()
    }

    /// An exception as `source` says, whose saved instruction pointer is `ip`.
    fn exception(trap: Trap, ip: u64) -> Event {
        let vector = trap::vector(trap.cause);
        Event {
            vector,
            code: trap::error_code(trap.cause),
            source: Source::Exception,
            ip,
            resume: !matches!(vector, DB | trap::DF),
        }
    }
}

/// Contributory exceptions of SDM 3A table 6-4.
fn contributory(vector: u8) -> bool {
    matches!(vector, trap::DE | trap::TS | NP | trap::SS | GP)
}

impl Hart {
    /// An exception of the instruction at `pc`.
    pub(super) fn deliver_exception(&mut self, cx: &mut dyn Context, trap: Trap, pc: u64) {
        self.regs[slots::PC] = pc;
        let ip = self.ip_of(pc);
        self.note(trap);
        self.deliver_event(cx, Event::exception(trap, ip));
    }

    /// A debug trap between instructions, or between two iterations of one.
    pub(super) fn deliver_trap(&mut self, cx: &mut dyn Context, trap: Trap) {
        let ip = self.ip_of(self.regs[slots::PC]);
        self.note(trap);
        let event = Event {
            resume: self.repeating,
            ..Event::exception(trap, ip)
        };
        self.deliver_event(cx, event);
    }

    /// An interrupt.
    pub(super) fn deliver_interrupt(&mut self, cx: &mut dyn Context, vector: u8) {
        let ip = self.ip_of(self.regs[slots::PC]);
        let event = Event {
            vector,
            code: None,
            source: Source::External,
            ip,
            resume: self.repeating,
        };
        self.deliver_event(cx, event);
    }

    /// `int n` and its like, at whose end the instruction pointer is `next`.
    pub(super) fn software_interrupt(
        &mut self,
        cx: &mut dyn Context,
        vector: u8,
        source: Source,
        next: u64,
    ) -> Result<(), Trap> {
        if source == Source::Int && self.vm86() && self.iopl() < 3 {
            return Err(trap::fault(GP, 0));
        }
        let event = Event {
            vector,
            code: None,
            source,
            ip: next,
            resume: false,
        };
        self.enter(cx, &event)?;
        self.no_single_step();
        Ok(())
    }

    /// What registers keep of an exception.
    fn note(&mut self, trap: Trap) {
        match trap::vector(trap.cause) {
            PF => self.core.cr2 = trap.value,
            DB => {
                self.core.dr6 = self.core.dr6 & !DR6_B | trap.value & (DR6_B | DR6_BD | DR6_BS);
                self.core.dr7 &= !DR7_GD;
            }
            _ => {}
        }
    }

    fn deliver_event(&mut self, cx: &mut dyn Context, mut event: Event) {
        // Each turn of the loop leads to a double fault or further, so it ends.
        loop {
            let Err(next) = self.enter(cx, &event) else {
                return;
            };
            let (first, second) = (event.vector, trap::vector(next.cause));
            self.note(next);
            let exception = event.source == Source::Exception;
            let serious = contributory(second) || second == PF;
            if exception && first == trap::DF && serious {
                self.core.activity = Activity::Shutdown;
                cx.shutdown();
                return;
            }
            let double = exception && (contributory(first) && contributory(second) || first == PF && serious);
            event = if double {
                Event::exception(trap::fault(trap::DF, 0), event.ip)
            } else if exception && !serious {
                // Nothing in a delivery raises a benign exception; another would go on for ever.
                self.core.activity = Activity::Shutdown;
                cx.shutdown();
                return;
            } else {
                Event::exception(next, event.ip)
            };
        }
    }

    /// Delivers, or changes nothing but accessed bits.
    fn enter(&mut self, cx: &mut dyn Context, event: &Event) -> Result<(), Trap> {
        if !self.protected() {
            self.enter_real(cx, event)
        } else if self.long_mode() {
            self.enter_long(cx, event)
        } else {
            self.enter_protected(cx, event)
        }
    }

    /// The flags as they are saved.
    fn saved_flags(&self, event: &Event) -> u64 {
        self.eflags() | if event.resume { RF } else { 0 }
    }

    fn enter_real(&mut self, cx: &mut dyn Context, event: &Event) -> Result<(), Trap> {
        let at = u64::from(event.vector) * 4;
        if at + 3 > self.core.idtr.limit.into() {
            return Err(trap::trap(GP));
        }
        let vector = self.system_load(cx, self.core.idtr.base.wrapping_add(at), Size::B4)?;
        let mut pushes = Pushes::current(self, trap::trap(trap::SS));
        pushes.push(Size::B2, self.eflags())?;
        pushes.push(Size::B2, self.core.selectors[usize::from(CS)].into())?;
        pushes.push(Size::B2, event.ip)?;
        pushes.check(self, cx)?;
        pushes.store(self, cx)?;
        self.set_sp(pushes.sp);
        self.regs[slots::EFLAGS] &= !(IF | TF | AC | RF);
        self.set_real_cs((vector >> 16) as u16);
        self.set_ip(vector & 0xffff);
        Ok(())
    }

    /// CS as real mode and virtual-8086 mode load it.
    pub(super) fn set_real_cs(&mut self, selector: u16) {
        let segment = if self.vm86() {
            Segment::real(selector, 0xf3)
        } else {
            Segment {
                selector,
                base: u64::from(selector) << 4,
                ..self.segment(CS)
            }
        };
        self.set_segment(CS, segment);
    }

    /// The code segment of a gate and the ring that it leads to.
    fn gate_code(&mut self, cx: &mut dyn Context, selector: u16, ext: u16) -> Result<(Descriptor, u8), Trap> {
        if is_null(selector) {
            return Err(trap::fault(GP, ext));
        }
        let code = selector & !3 | ext;
        let gp = trap::fault(GP, code);
        let d = self.descriptor(cx, selector, gp)?;
        let cpl = self.core.cpl;
        if !d.is_code() || d.dpl() > cpl {
            return Err(gp);
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, code));
        }
        let ring = if d.is_conforming() { cpl } else { d.dpl() };
        Ok((d, ring))
    }

    fn enter_long(&mut self, cx: &mut dyn Context, event: &Event) -> Result<(), Trap> {
        let ext = event.ext();
        let gate_fault = trap::fault(GP, event.idt_code());
        let at = u64::from(event.vector) * 16;
        if at + 15 > self.core.idtr.limit.into() {
            return Err(gate_fault);
        }
        let addr = self.core.idtr.base.wrapping_add(at);
        let low = self.system_load(cx, addr, Size::B8)?;
        let high = self.system_load(cx, addr.wrapping_add(8), Size::B8)?;
        let gate = Descriptor {
            selector: 0,
            addr,
            raw: low,
        };
        let interrupt = match (gate.is(A_S), gate.system_type()) {
            (false, 14) => true,
            (false, 15) => false,
            _ => return Err(gate_fault),
        };
        self.gate_rights(event, &gate)?;
        let offset = gate.gate_offset() | (high & 0xffff_ffff) << 32;
        let ist = low >> 32 & 7;
        let (d, ring) = self.gate_code(cx, gate.gate_selector(), ext)?;
        if d.attr() & (A_L | A_DB) != A_L {
            return Err(trap::fault(GP, gate.gate_selector() & !3 | ext));
        }
        let inner = ring != self.core.cpl;
        let rsp = if ist != 0 {
            self.tss64_stack(cx, 0x1c + 8 * ist, ext)?
        } else if inner {
            self.tss64_stack(cx, 4 + 8 * u64::from(ring), ext)?
        } else {
            self.regs[slots::RSP]
        };
        let ss = if inner { null_ss(ring) } else { self.segment(SS) };
        let outside = trap::fault(trap::SS, ext);
        let mut pushes = Pushes::on(ss, rsp & !15, true, ring, outside);
        pushes.push(Size::B8, self.core.selectors[usize::from(SS)].into())?;
        pushes.push(Size::B8, self.regs[slots::RSP])?;
        pushes.push(Size::B8, self.saved_flags(event))?;
        pushes.push(Size::B8, self.core.selectors[usize::from(CS)].into())?;
        pushes.push(Size::B8, event.ip)?;
        if let Some(code) = event.code {
            pushes.push(Size::B8, code.into())?;
        }
        if !canonical(offset) {
            return Err(trap::fault(GP, ext));
        }
        pushes.check(self, cx)?;
        self.check_accessed(cx, &d)?;
        pushes.store(self, cx)?;
        self.mark_accessed(cx, &d)?;
        self.core.cpl = ring;
        self.set_segment(CS, d.segment(ring));
        if inner {
            self.set_segment(SS, ss);
        }
        self.regs[slots::RSP] = pushes.sp;
        self.handler_flags(interrupt);
        self.regs[slots::PC] = offset;
        Ok(())
    }

    /// EFLAGS in a handler.
    fn handler_flags(&mut self, interrupt: bool) {
        self.regs[slots::EFLAGS] &= !(TF | NT | RF | VM | if interrupt { IF } else { 0 });
    }

    /// Privilege of software interrupts, and presence.
    fn gate_rights(&self, event: &Event, gate: &Descriptor) -> Result<(), Trap> {
        let software = matches!(event.source, Source::Int | Source::Breakpoint);
        if software && gate.dpl() < self.core.cpl {
            return Err(trap::fault(GP, event.idt_code()));
        }
        if !gate.is(A_P) {
            return Err(trap::fault(NP, event.idt_code()));
        }
        Ok(())
    }

    /// A stack pointer of the 64-bit TSS.
    pub(super) fn tss64_stack(&mut self, cx: &mut dyn Context, offset: u64, ext: u16) -> Result<u64, Trap> {
        let tr = self.core.tr;
        if offset + 7 > tr.limit.into() {
            return Err(trap::fault(trap::TS, tr.selector & !3 | ext));
        }
        let rsp = self.system_load(cx, tr.base.wrapping_add(offset), Size::B8)?;
        if !canonical(rsp) {
            return Err(trap::fault(trap::SS, ext));
        }
        Ok(rsp)
    }

    /// The stack of inner ring `ring` of a 16-bit or 32-bit TSS: segment, stack pointer and descriptor.
    pub(super) fn tss_stack(
        &mut self,
        cx: &mut dyn Context,
        ring: u8,
        ext: u16,
    ) -> Result<(Segment, u64, Descriptor), Trap> {
        let tr = self.core.tr;
        let wide = tr.attr & 8 != 0;
        let (offset, size) = if wide {
            (4 + 8 * u64::from(ring), Size::B4)
        } else {
            (2 + 4 * u64::from(ring), Size::B2)
        };
        if offset + size.bytes() + 1 > tr.limit.into() {
            return Err(trap::fault(trap::TS, tr.selector & !3 | ext));
        }
        let at = tr.base.wrapping_add(offset);
        let sp = self.system_load(cx, at, size)?;
        let selector = self.system_load(cx, at.wrapping_add(size.bytes()), Size::B2)? as u16;
        if is_null(selector) {
            return Err(trap::fault(trap::TS, ext));
        }
        let code = selector & !3 | ext;
        let ts = trap::fault(trap::TS, code);
        let d = self.descriptor(cx, selector, ts)?;
        if rpl(selector) != ring || d.dpl() != ring || !d.is_writable_data() {
            return Err(ts);
        }
        if !d.is(A_P) {
            return Err(trap::fault(trap::SS, code));
        }
        Ok((d.segment(ring), sp, d))
    }

    fn enter_protected(&mut self, cx: &mut dyn Context, event: &Event) -> Result<(), Trap> {
        let ext = event.ext();
        let gate_fault = trap::fault(GP, event.idt_code());
        let at = u64::from(event.vector) * 8;
        if at + 7 > self.core.idtr.limit.into() {
            return Err(gate_fault);
        }
        let addr = self.core.idtr.base.wrapping_add(at);
        let raw = self.system_load(cx, addr, Size::B8)?;
        let gate = Descriptor {
            selector: 0,
            addr,
            raw,
        };
        let (interrupt, size) = match (gate.is(A_S), gate.system_type()) {
            (false, 6) => (true, Size::B2),
            (false, 7) => (false, Size::B2),
            (false, 14) => (true, Size::B4),
            (false, 15) => (false, Size::B4),
            _ => return Err(gate_fault),
        };
        self.gate_rights(event, &gate)?;
        let offset = gate.gate_offset() & size.mask();
        let (d, ring) = self.gate_code(cx, gate.gate_selector(), ext)?;
        let vm86 = self.vm86();
        if vm86 && ring != 0 {
            return Err(trap::fault(GP, gate.gate_selector() & !3 | ext));
        }
        let (mut pushes, inner) = if ring != self.core.cpl {
            let (ss, sp, ss_descriptor) = self.tss_stack(cx, ring, ext)?;
            let outside = trap::fault(trap::SS, ss.selector & !3 | ext);
            (
                Pushes::on(ss, sp, false, ring, outside),
                Some((ss, ss_descriptor)),
            )
        } else {
            (Pushes::current(self, trap::fault(trap::SS, ext)), None)
        };
        if vm86 {
            for n in [GS, FS, DS, ES] {
                pushes.push(size, self.core.selectors[usize::from(n)].into())?;
            }
        }
        if inner.is_some() {
            pushes.push(size, self.core.selectors[usize::from(SS)].into())?;
            pushes.push(size, self.regs[slots::RSP] & 0xffff_ffff)?;
        }
        pushes.push(size, self.saved_flags(event))?;
        pushes.push(size, self.core.selectors[usize::from(CS)].into())?;
        pushes.push(size, event.ip)?;
        if let Some(code) = event.code {
            pushes.push(size, code.into())?;
        }
        let code = d.segment(ring);
        if !within(&code, offset, 1) {
            return Err(trap::fault(GP, ext));
        }
        pushes.check(self, cx)?;
        self.check_accessed(cx, &d)?;
        if let Some((_, ss)) = &inner {
            self.check_accessed(cx, ss)?;
        }
        pushes.store(self, cx)?;
        self.mark_accessed(cx, &d)?;
        self.core.cpl = ring;
        if let Some((ss, ss_descriptor)) = &inner {
            self.mark_accessed(cx, ss_descriptor)?;
            self.set_segment(SS, *ss);
        }
        if vm86 {
            for n in [GS, FS, DS, ES] {
                self.set_segment(n, Segment::default());
            }
        }
        self.set_sp(pushes.sp);
        self.handler_flags(interrupt);
        self.set_segment(CS, code);
        self.set_ip(offset);
        Ok(())
    }

    /// IRET with operands of `size`. Sets the program counter.
    pub(super) fn iret(&mut self, cx: &mut dyn Context, size: Size) -> Result<(), Trap> {
        if !self.protected() || self.vm86() {
            self.iret_real(cx, size)?;
        } else {
            self.iret_protected(cx, size)?;
        }
        self.core.nmi_blocked = false;
        self.keep_resume();
        Ok(())
    }

    fn iret_real(&mut self, cx: &mut dyn Context, size: Size) -> Result<(), Trap> {
        let vm86 = self.vm86();
        if vm86 && self.iopl() < 3 {
            return Err(trap::fault(GP, 0));
        }
        let mut pops = Pops::current(self);
        let ip = pops.pop(self, cx, size)?;
        let cs = pops.pop(self, cx, size)? as u16;
        let popped = pops.pop(self, cx, size)?;
        if ip > self.regs[slots::limit(CS)] {
            return Err(trap::fault(GP, 0));
        }
        self.set_sp(pops.sp);
        self.set_real_cs(cs);
        self.set_ip(ip);
        let mut mask = flags::ARITHMETIC | TF | IF | DF | NT;
        if !vm86 {
            mask |= IOPL;
        }
        if size != Size::B2 {
            mask |= RF | AC | ID;
        }
        self.merge_flags(popped, mask);
        Ok(())
    }

    /// Sets the flags in `mask` to those of `value`.
    pub(super) fn merge_flags(&mut self, value: u64, mask: u64) {
        let flags = self.eflags();
        self.set_eflags(flags & !mask | value & mask);
    }

    /// The flags that IRET and POPF may change at the current privilege, for operands of `size`.
    pub(super) fn flags_mask(&self, size: Size) -> u64 {
        let mut mask = flags::ARITHMETIC | TF | DF | NT;
        if self.core.cpl == 0 {
            mask |= IOPL;
        }
        if self.core.cpl <= self.iopl() {
            mask |= IF;
        }
        if size != Size::B2 {
            mask |= AC | ID;
        }
        mask
    }

    fn iret_protected(&mut self, cx: &mut dyn Context, size: Size) -> Result<(), Trap> {
        let long = self.long_mode();
        if self.regs[slots::EFLAGS] & NT != 0 {
            return Err(if long {
                trap::fault(GP, 0)
            } else {
                let link = self.system_load(cx, self.core.tr.base, Size::B2)? as u16;
                trap::fault(trap::TS, link & !3)
            });
        }
        let from64 = self.code64();
        let cpl = self.core.cpl;
        let mut pops = Pops::current(self);
        let ip = pops.pop(self, cx, size)?;
        let cs = pops.pop(self, cx, size)? as u16;
        let popped = pops.pop(self, cx, size)?;
        if popped & VM != 0 && cpl == 0 && size == Size::B4 && !long {
            return self.iret_to_vm86(cx, pops, ip, cs, popped);
        }
        let (d, ring) = self.return_code(cx, cs)?;
        let code = d.segment(ring);
        let to64 = long && d.is(A_L);
        let outer = ring != cpl;
        let stack = if outer || from64 {
            let sp = pops.pop(self, cx, size)?;
            let ss = pops.pop(self, cx, size)? as u16;
            Some((sp, self.return_stack(cx, ss, ring, to64)?))
        } else {
            None
        };
        if to64 && !canonical(ip) || !to64 && !within(&code, ip, 1) {
            return Err(trap::fault(GP, 0));
        }
        let mut mask = self.flags_mask(size);
        if size != Size::B2 {
            mask |= RF;
            if cpl == 0 {
                mask |= VIF | VIP;
            }
        }
        self.return_to(cx, &d, ring, stack, pops.sp)?;
        self.merge_flags(popped, mask);
        self.set_ip(ip);
        Ok(())
    }

    /// The code segment that IRET and far RET go to, and its ring.
    pub(super) fn return_code(&mut self, cx: &mut dyn Context, cs: u16) -> Result<(Descriptor, u8), Trap> {
        if is_null(cs) {
            return Err(trap::fault(GP, 0));
        }
        let code = cs & !3;
        let gp = trap::fault(GP, code);
        let d = self.descriptor(cx, cs, gp)?;
        let ring = rpl(cs);
        let privilege = if d.is_conforming() {
            d.dpl() <= ring
        } else {
            d.dpl() == ring
        };
        let both = self.long_mode() && d.attr() & (A_L | A_DB) == A_L | A_DB;
        if !d.is_code() || ring < self.core.cpl || !privilege || both {
            return Err(gp);
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, code));
        }
        Ok((d, ring))
    }

    /// The stack segment that goes with it.
    pub(super) fn return_stack(
        &mut self,
        cx: &mut dyn Context,
        ss: u16,
        ring: u8,
        to64: bool,
    ) -> Result<(Segment, Option<Descriptor>), Trap> {
        if is_null(ss) {
            return if to64 && ring != 3 && rpl(ss) == ring {
                let segment = Segment {
                    selector: ss,
                    ..null_ss(ring)
                };
                Ok((segment, None))
            } else {
                Err(trap::fault(GP, 0))
            };
        }
        let code = ss & !3;
        let gp = trap::fault(GP, code);
        let d = self.descriptor(cx, ss, gp)?;
        if rpl(ss) != ring || d.dpl() != ring || !d.is_writable_data() {
            return Err(gp);
        }
        if !d.is(A_P) {
            return Err(trap::fault(trap::SS, code));
        }
        Ok((d.segment(ring), Some(d)))
    }

    /// The common end of IRET and far RET: segments, ring and stack pointer; `sp` is that of the old stack.
    pub(super) fn return_to(
        &mut self,
        cx: &mut dyn Context,
        code: &Descriptor,
        ring: u8,
        stack: Option<(u64, (Segment, Option<Descriptor>))>,
        sp: u64,
    ) -> Result<(), Trap> {
        self.check_accessed(cx, code)?;
        if let Some((_, (_, Some(d)))) = &stack {
            self.check_accessed(cx, d)?;
            self.mark_accessed(cx, d)?;
        }
        self.mark_accessed(cx, code)?;
        let outer = ring != self.core.cpl;
        if stack.is_none() {
            self.set_sp(sp);
        }
        self.core.cpl = ring;
        self.set_segment(CS, code.segment(ring));
        if let Some((sp, (segment, _))) = stack {
            self.set_segment(SS, segment);
            self.set_sp(sp);
        }
        if outer {
            self.drop_inner_data();
        }
        Ok(())
    }

    /// Data segments that the outer ring may not use become null.
    fn drop_inner_data(&mut self) {
        for n in [ES, DS, FS, GS] {
            let segment = self.segment(n);
            let conforming = segment.attr & (A_CODE | A_DC) == A_CODE | A_DC;
            if segment.attr & A_P != 0 && !conforming && segment.dpl() < self.core.cpl {
                self.core.selectors[usize::from(n)] = 0;
                self.core.attrs[usize::from(n)] = 0;
            }
        }
    }

    fn iret_to_vm86(
        &mut self,
        cx: &mut dyn Context,
        mut pops: Pops,
        ip: u64,
        cs: u16,
        popped: u64,
    ) -> Result<(), Trap> {
        let sp = pops.pop(self, cx, Size::B4)?;
        let mut selectors = [0; 5];
        for selector in &mut selectors {
            *selector = pops.pop(self, cx, Size::B4)? as u16;
        }
        if ip > 0xffff {
            return Err(trap::fault(GP, 0));
        }
        self.set_eflags(popped);
        self.core.cpl = 3;
        for (n, selector) in [SS, ES, DS, FS, GS].into_iter().zip(selectors) {
            self.set_segment(n, Segment::real(selector, 0xf3));
        }
        self.set_segment(CS, Segment::real(cs, 0xf3));
        self.regs[slots::RSP] = sp;
        self.set_ip(ip);
        Ok(())
    }
}

/// SS after a change to an inner ring in long mode.
pub(super) const fn null_ss(ring: u8) -> Segment {
    Segment {
        selector: ring as u16,
        attr: (ring as u16) << 5,
        base: 0,
        limit: 0,
    }
}

#[cfg(test)]
mod tests;
