//! Far JMP, CALL and RET: between segments, through call gates and between rings (SDM 3A 5.8; SDM 2A).
//!
//! A task gate or a TSS as a target is #GP of its selector: there are no hardware task switches.

use super::bits::*;
use super::gates::null_ss;
use super::hart::Hart;
use super::registers::{CS, SS};
use super::segments::{Descriptor, is_null, rpl, within};
use super::slots;
use super::stack::{Pops, Pushes};
use super::trap::{self, GP, NP};
use crate::ir::Size;
use crate::{Context, Trap};

/// Types of system descriptors.
const CALL_GATE_16: u8 = 4;
const CALL_GATE: u8 = 12;

/// A call gate's content.
struct Gate {
    offset: u64,
    /// Of what is pushed.
    size: Size,
    parameters: u64,
}

impl Hart {
    /// Far `jmp`.
    pub(super) fn far_jump(
        &mut self,
        cx: &mut dyn Context,
        selector: u16,
        offset: u64,
        size: Size,
    ) -> Result<(), Trap> {
        let offset = offset & size.mask();
        if !self.protected() || self.vm86() {
            return self.far_jump_real(selector, offset);
        }
        let d = self.far_target(cx, selector)?;
        if d.is(A_S) {
            self.direct_privilege(&d)?;
            return self.go(cx, &d, offset);
        }
        let (gate, code) = self.call_gate(cx, &d)?;
        let privilege = if code.is_conforming() {
            code.dpl() <= self.core.cpl
        } else {
            code.dpl() == self.core.cpl
        };
        if !privilege {
            return Err(trap::fault(GP, code.selector & !3));
        }
        self.go(cx, &code, gate.offset)
    }

    fn far_jump_real(&mut self, selector: u16, offset: u64) -> Result<(), Trap> {
        if offset > self.regs[slots::limit(CS)] {
            return Err(trap::fault(GP, 0));
        }
        self.set_real_cs(selector);
        self.set_ip(offset);
        Ok(())
    }

    /// The descriptor that a far transfer names.
    fn far_target(&mut self, cx: &mut dyn Context, selector: u16) -> Result<Descriptor, Trap> {
        if is_null(selector) {
            return Err(trap::fault(GP, 0));
        }
        self.descriptor(cx, selector, trap::fault(GP, selector & !3))
    }

    /// A code segment that is a target itself: type, privilege, presence.
    fn direct_privilege(&self, d: &Descriptor) -> Result<(), Trap> {
        let cpl = self.core.cpl;
        let code = d.selector & !3;
        let privilege = if d.is_conforming() {
            d.dpl() <= cpl
        } else {
            rpl(d.selector) <= cpl && d.dpl() == cpl
        };
        let both = self.long_mode() && d.attr() & (A_L | A_DB) == A_L | A_DB;
        if !d.is_code() || !privilege || both {
            return Err(trap::fault(GP, code));
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, code));
        }
        Ok(())
    }

    /// Whether `offset` is in code segment `d`.
    fn check_target(&self, d: &Descriptor, offset: u64) -> Result<(), Trap> {
        let inside = if self.long_mode() && d.is(A_L) {
            canonical(offset)
        } else {
            within(&d.segment(0), offset, 1)
        };
        if inside { Ok(()) } else { Err(trap::fault(GP, 0)) }
    }

    /// Goes on at `offset` of code segment `d` in the same ring.
    fn go(&mut self, cx: &mut dyn Context, d: &Descriptor, offset: u64) -> Result<(), Trap> {
        self.check_target(d, offset)?;
        self.check_accessed(cx, d)?;
        self.mark_accessed(cx, d)?;
        self.set_segment(CS, d.segment(self.core.cpl));
        self.set_ip(offset);
        Ok(())
    }

    /// Reads call gate `d` and the descriptor of the code segment that it leads to, which may be entered if its privilege,
    /// which is yet to be judged, allows.
    fn call_gate(&mut self, cx: &mut dyn Context, d: &Descriptor) -> Result<(Gate, Descriptor), Trap> {
        let long = self.long_mode();
        let gp = trap::fault(GP, d.selector & !3);
        let size = match d.system_type() {
            CALL_GATE if long => Size::B8,
            CALL_GATE => Size::B4,
            CALL_GATE_16 if !long => Size::B2,
            _ => return Err(gp),
        };
        if d.dpl() < self.core.cpl.max(rpl(d.selector)) {
            return Err(gp);
        }
        if !d.is(A_P) {
            return Err(trap::fault(NP, d.selector & !3));
        }
        let high = if long {
            self.descriptor_high(cx, d, gp)? << 32
        } else {
            0
        };
        let gate = Gate {
            offset: (d.gate_offset() | high) & size.mask(),
            size,
            parameters: if long { 0 } else { d.raw >> 32 & 31 },
        };
        let selector = d.gate_selector();
        let code = self.far_target(cx, selector)?;
        let gp = trap::fault(GP, selector & !3);
        if !code.is_code() || code.dpl() > self.core.cpl || long && code.attr() & (A_L | A_DB) != A_L {
            return Err(gp);
        }
        if !code.is(A_P) {
            return Err(trap::fault(NP, selector & !3));
        }
        Ok((gate, code))
    }

    /// Far `call`; `next` is the instruction pointer to come back to.
    pub(super) fn far_call(
        &mut self,
        cx: &mut dyn Context,
        selector: u16,
        offset: u64,
        size: Size,
        next: u64,
    ) -> Result<(), Trap> {
        let offset = offset & size.mask();
        let cs = u64::from(self.core.selectors[usize::from(CS)]);
        let outside = trap::fault(trap::SS, 0);
        if !self.protected() || self.vm86() {
            if offset > self.regs[slots::limit(CS)] {
                return Err(trap::fault(GP, 0));
            }
            let mut pushes = Pushes::current(self, outside);
            pushes.push(size, cs)?;
            pushes.push(size, next)?;
            pushes.check(self, cx)?;
            pushes.store(self, cx)?;
            self.set_sp(pushes.sp);
            return self.far_jump_real(selector, offset);
        }
        let d = self.far_target(cx, selector)?;
        if d.is(A_S) {
            self.direct_privilege(&d)?;
            return self.call_same_ring(cx, &d, offset, size, next);
        }
        let (gate, code) = self.call_gate(cx, &d)?;
        if code.is_conforming() || code.dpl() == self.core.cpl {
            return self.call_same_ring(cx, &code, gate.offset, gate.size, next);
        }
        self.call_inner(cx, &code, &gate, next)
    }

    fn call_same_ring(
        &mut self,
        cx: &mut dyn Context,
        d: &Descriptor,
        offset: u64,
        size: Size,
        next: u64,
    ) -> Result<(), Trap> {
        self.check_target(d, offset)?;
        let mut pushes = Pushes::current(self, trap::fault(trap::SS, 0));
        pushes.push(size, self.core.selectors[usize::from(CS)].into())?;
        pushes.push(size, next)?;
        pushes.check(self, cx)?;
        self.check_accessed(cx, d)?;
        pushes.store(self, cx)?;
        self.set_sp(pushes.sp);
        self.go(cx, d, offset)
    }

    /// A call through a gate into an inner ring, whose stack the TSS names.
    fn call_inner(
        &mut self,
        cx: &mut dyn Context,
        code: &Descriptor,
        gate: &Gate,
        next: u64,
    ) -> Result<(), Trap> {
        self.check_target(code, gate.offset)?;
        let ring = code.dpl();
        let long = self.long_mode();
        let (ss, sp, ss_descriptor) = if long {
            let sp = self.tss64_stack(cx, 4 + 8 * u64::from(ring), 0)?;
            (null_ss(ring), sp, None)
        } else {
            let (ss, sp, d) = self.tss_stack(cx, ring, 0)?;
            (ss, sp, Some(d))
        };
        let outside = trap::fault(trap::SS, ss.selector & !3);
        let mut pushes = Pushes::on(ss, sp, long, ring, outside);
        pushes.push(gate.size, self.core.selectors[usize::from(SS)].into())?;
        pushes.push(gate.size, self.regs[slots::RSP])?;
        if gate.parameters != 0 {
            let mut parameters = [0; 31];
            let count = gate.parameters as usize;
            let mut pops = Pops::current(self);
            for parameter in &mut parameters[..count] {
                *parameter = pops.pop(self, cx, gate.size)?;
            }
            for parameter in parameters[..count].iter().rev() {
                pushes.push(gate.size, *parameter)?;
            }
        }
        pushes.push(gate.size, self.core.selectors[usize::from(CS)].into())?;
        pushes.push(gate.size, next)?;
        pushes.check(self, cx)?;
        self.check_accessed(cx, code)?;
        if let Some(d) = &ss_descriptor {
            self.check_accessed(cx, d)?;
            self.mark_accessed(cx, d)?;
        }
        pushes.store(self, cx)?;
        self.mark_accessed(cx, code)?;
        self.core.cpl = ring;
        self.set_segment(CS, code.segment(ring));
        self.set_segment(SS, ss);
        self.set_sp(pushes.sp);
        self.set_ip(gate.offset);
        Ok(())
    }

    /// Far `ret`, which releases `release` bytes of parameters from both stacks.
    pub(super) fn far_return(&mut self, cx: &mut dyn Context, size: Size, release: u64) -> Result<(), Trap> {
        let mut pops = Pops::current(self);
        let ip = pops.pop(self, cx, size)?;
        let cs = pops.pop(self, cx, size)? as u16;
        if !self.protected() || self.vm86() {
            pops.skip(release);
            let sp = pops.sp;
            self.far_jump_real(cs, ip)?;
            self.set_sp(sp);
            return Ok(());
        }
        let (d, ring) = self.return_code(cx, cs)?;
        self.check_target(&d, ip)?;
        pops.skip(release);
        let to64 = self.long_mode() && d.is(A_L);
        let stack = if ring != self.core.cpl {
            let sp = pops.pop(self, cx, size)?;
            let ss = pops.pop(self, cx, size)? as u16;
            Some((sp.wrapping_add(release), self.return_stack(cx, ss, ring, to64)?))
        } else {
            None
        };
        self.return_to(cx, &d, ring, stack, pops.sp)?;
        self.set_ip(ip);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
