//! SYSCALL, SYSRET, SYSENTER, SYSEXIT (SDM 3A 5.8.7, 5.8.8; SDM 2B).
//!
//! They load segments by rule, without reading descriptors.

use super::bits::*;
use super::hart::Hart;
use super::registers::{CS, SS, Segment};
use super::slots;
use super::trap::{self, GP, UD};
use crate::Trap;

const CODE_ATTR: u16 = A_G | A_P | A_S | A_CODE | A_RW | A_ACCESSED;
const DATA_ATTR: u16 = A_G | A_DB | A_P | A_S | A_RW | A_ACCESSED;

fn flat(selector: u64, attr: u16, ring: u8) -> Segment {
    Segment {
        selector: selector as u16,
        attr: attr | u16::from(ring) << 5,
        base: 0,
        limit: u32::MAX,
    }
}

impl Hart {
    /// `syscall`; `next` is the linear address behind it.
    pub(super) fn syscall(&mut self, next: u64) -> Result<(), Trap> {
        if self.core.efer & EFER_SCE == 0 || !self.code64() {
            return Err(trap::trap(UD));
        }
        let flags = self.eflags();
        self.regs[slots::RCX] = next;
        self.regs[slots::gpr(11)] = flags & !RF;
        let star = self.core.msrs.star >> 32;
        self.core.cpl = 0;
        self.set_segment(CS, flat(star & 0xfffc, CODE_ATTR | A_L, 0));
        self.set_segment(SS, flat(star.wrapping_add(8) & 0xffff, DATA_ATTR, 0));
        self.set_eflags(flags & !self.core.msrs.sfmask & !RF);
        // TF counts as the handler sees it (it is there to be masked).
        if self.regs[slots::EFLAGS] & TF == 0 {
            self.no_single_step();
        }
        self.regs[slots::PC] = self.core.msrs.lstar;
        Ok(())
    }

    /// `sysret` to 64-bit code, or to 32-bit code.
    pub(super) fn sysret(&mut self, to64: bool) -> Result<(), Trap> {
        if self.core.efer & EFER_SCE == 0 || !self.code64() {
            return Err(trap::trap(UD));
        }
        let target = self.regs[slots::RCX];
        if self.core.cpl != 0 || to64 && !canonical(target) {
            return Err(trap::fault(GP, 0));
        }
        let star = self.core.msrs.star >> 48;
        self.set_eflags(self.regs[slots::gpr(11)] & !(RF | VM));
        self.core.cpl = 3;
        let (cs, attr) = if to64 {
            (star.wrapping_add(16), CODE_ATTR | A_L)
        } else {
            (star, CODE_ATTR | A_DB)
        };
        self.set_segment(CS, flat(cs & 0xffff | 3, attr, 3));
        self.set_segment(SS, flat(star.wrapping_add(8) & 0xffff | 3, DATA_ATTR, 3));
        self.set_ip(if to64 { target } else { target & 0xffff_ffff });
        Ok(())
    }

    /// `sysenter`.
    pub(super) fn sysenter(&mut self) -> Result<(), Trap> {
        let cs = self.core.msrs.sysenter_cs;
        if !self.protected() || is_null(cs) {
            return Err(trap::fault(GP, 0));
        }
        let long = self.long_mode();
        self.regs[slots::EFLAGS] &= !(VM | IF | RF);
        self.core.cpl = 0;
        let attr = if long { CODE_ATTR | A_L } else { CODE_ATTR | A_DB };
        self.set_segment(CS, flat(cs & 0xfffc, attr, 0));
        self.set_segment(SS, flat(cs.wrapping_add(8) & 0xfffc, DATA_ATTR, 0));
        let mask = if long { u64::MAX } else { 0xffff_ffff };
        self.regs[slots::RSP] = self.core.msrs.sysenter_esp & mask;
        self.set_ip(self.core.msrs.sysenter_eip & mask);
        Ok(())
    }

    /// `sysexit` to 64-bit code, or to 32-bit code.
    pub(super) fn sysexit(&mut self, to64: bool) -> Result<(), Trap> {
        let cs = self.core.msrs.sysenter_cs;
        if !self.protected() || is_null(cs) || self.core.cpl != 0 {
            return Err(trap::fault(GP, 0));
        }
        let (sp, ip) = (self.regs[slots::RCX], self.regs[slots::RDX]);
        if to64 && !(canonical(sp) && canonical(ip)) {
            return Err(trap::fault(GP, 0));
        }
        self.core.cpl = 3;
        let (code, stack, attr) = if to64 {
            (32, 40, CODE_ATTR | A_L)
        } else {
            (16, 24, CODE_ATTR | A_DB)
        };
        self.set_segment(CS, flat(cs.wrapping_add(code) & 0xffff | 3, attr, 3));
        self.set_segment(SS, flat(cs.wrapping_add(stack) & 0xffff | 3, DATA_ATTR, 3));
        let mask = if to64 { u64::MAX } else { 0xffff_ffff };
        self.regs[slots::RSP] = sp & mask;
        self.set_ip(ip & mask);
        Ok(())
    }
}

fn is_null(selector: u64) -> bool {
    selector & 0xfffc == 0
}

#[cfg(test)]
mod tests;
