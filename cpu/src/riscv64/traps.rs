//! Traps and returns from them (RISC-V Privileged ISA 3.1.6 to 3.1.9, 3.3.2, 12.1).

use super::csr::bits::*;
use super::hart::Hart;
use super::slots;
use crate::{Access, Trap};

#[cfg(test)]
mod tests;

/// Exception codes.
pub mod cause {
    use crate::Access;

    /// Illegal instruction.
    pub const ILLEGAL_INSTRUCTION: u64 = 2;
    /// Breakpoint.
    pub const BREAKPOINT: u64 = 3;

    /// Misaligned address.
    pub const fn misaligned(access: Access) -> u64 {
        match access {
            Access::Fetch => 0,
            Access::Read => 4,
            Access::Write => 6,
        }
    }

    /// Access fault.
    pub const fn access_fault(access: Access) -> u64 {
        match access {
            Access::Fetch => 1,
            Access::Read => 5,
            Access::Write => 7,
        }
    }

    /// Page fault.
    pub const fn page_fault(access: Access) -> u64 {
        match access {
            Access::Fetch => 12,
            Access::Read => 13,
            Access::Write => 15,
        }
    }
}

/// Bit of mcause and scause that tells interrupts.
const INTERRUPT: u64 = 1 << 63;

/// Interrupts by falling priority (3.1.9).
const PRIORITY: [u64; 6] = [11, 3, 7, 9, 1, 5];

impl Hart {
    /// Enters the handler for `code`, in S-mode if `delegated` says so and the hart isn't in M-mode.
    fn enter(&mut self, code: u64, interrupt: bool, value: u64, pc: u64, delegated: bool) {
        self.reservation = None;
        self.waiting = false;
        let old = self.mstatus();
        let c = &mut self.csrs;
        let mcause = code | if interrupt { INTERRUPT } else { 0 };
        let tvec = if delegated && c.privilege != M {
            self.regs[slots::SEPC] = pc & !1;
            self.regs[slots::SCAUSE] = mcause;
            self.regs[slots::STVAL] = value;
            let mut status = old & !(SIE | SPIE | SPP);
            status |= (old & SIE) << 4;
            status |= (c.privilege as u64) << 8;
            self.regs[slots::MSTATUS] = status;
            c.privilege = S;
            c.stvec
        } else {
            c.mepc = pc & !1;
            c.mcause = mcause;
            c.mtval = value;
            let mut status = old & !(MIE | MPIE | MPP);
            status |= (old & MIE) << 4;
            status |= (c.privilege as u64) << MPP_SHIFT;
            self.regs[slots::MSTATUS] = status;
            c.privilege = M;
            c.mtvec
        };
        let vectored = interrupt && tvec & 1 != 0;
        let handler = (tvec & !3).wrapping_add(if vectored { 4 * code } else { 0 });
        self.regs[slots::PC] = handler;
    }

    pub(super) fn take_exception(&mut self, trap: Trap, pc: u64) {
        let delegated = trap.cause < 64 && self.csrs.medeleg >> trap.cause & 1 != 0;
        self.enter(trap.cause, false, trap.value, pc, delegated);
    }

    /// Makes the slot of pending interrupts follow mip and mie; called after whatever may have changed one.
    pub(super) fn refresh_pending(&mut self) {
        self.regs[slots::PENDING] = self.csrs.mip() & self.csrs.mie;
    }

    /// The code of the interrupt that would be taken: those bound for M first, then by priority (3.1.9).
    pub(super) fn pending_interrupt(&self) -> Option<u64> {
        let c = &self.csrs;
        let pending = self.regs[slots::PENDING];
        if pending == 0 {
            return None;
        }
        let m_enabled = c.privilege < M || self.mstatus() & MIE != 0;
        let s_enabled = c.privilege < S || c.privilege == S && self.mstatus() & SIE != 0;
        let for_m = if m_enabled { pending & !c.mideleg } else { 0 };
        let for_s = if s_enabled { pending & c.mideleg } else { 0 };
        let taken = if for_m != 0 { for_m } else { for_s };
        PRIORITY.into_iter().find(|code| taken >> code & 1 != 0)
    }

    pub(super) fn enter_interrupt(&mut self, code: u64) {
        let pc = self.regs[slots::PC];
        let delegated = code < 64 && self.csrs.mideleg >> code & 1 != 0;
        self.enter(code, true, 0, pc, delegated);
    }

    /// `mret`; false if illegal.
    pub(super) fn mret(&mut self) -> bool {
        let (old, mpp) = (self.mstatus(), self.mpp());
        let c = &mut self.csrs;
        if c.privilege != M {
            return false;
        }
        let mut status = old & !(MIE | MPIE | MPP);
        status |= (old & MPIE) >> 4;
        status |= MPIE;
        if mpp != M {
            status &= !MPRV;
        }
        c.privilege = mpp;
        self.regs[slots::MSTATUS] = status;
        self.regs[slots::PC] = c.mepc;
        self.reservation = None;
        true
    }

    /// `sret`; false if illegal.
    pub(super) fn sret(&mut self) -> bool {
        let old = self.mstatus();
        let c = &mut self.csrs;
        if c.privilege == U || c.privilege == S && old & TSR != 0 {
            return false;
        }
        let spp = (old >> 8) as u8 & 1;
        let mut status = old & !(SIE | SPIE | SPP | MPRV);
        status |= (old & SPIE) >> 4;
        status |= SPIE;
        c.privilege = spp;
        self.regs[slots::MSTATUS] = status;
        self.regs[slots::PC] = self.regs[slots::SEPC];
        self.reservation = None;
        true
    }

    /// `wfi`; false if illegal: in U, and in S under TW, as the time limit there is zero (3.1.6, 3.3.3).
    pub(super) fn wfi(&mut self) -> bool {
        let c = &self.csrs;
        if c.privilege == U || c.privilege == S && self.mstatus() & TW != 0 {
            return false;
        }
        self.waiting = true;
        self.wake();
        true
    }

    /// Ends waiting if an enabled interrupt is pending, whatever delegation and global enables say (3.3.3).
    pub(super) fn wake(&mut self) {
        if self.csrs.mip() & self.csrs.mie != 0 {
            self.waiting = false;
        }
    }

    /// `sfence.vma` and Svinval's instructions; false if illegal. TVM traps those that name addresses.
    pub(super) fn fence(&self, insn: u32) -> bool {
        const SFENCE_VMA: u32 = 0b000_1001;
        const SINVAL_VMA: u32 = 0b000_1011;
        let trapped = matches!(insn >> 25, SFENCE_VMA | SINVAL_VMA) && self.mstatus() & TVM != 0;
        match self.csrs.privilege {
            U => false,
            S => !trapped,
            _ => true,
        }
    }

    pub(super) fn misaligned_trap(&self, addr: u64, access: Access) -> Trap {
        Trap {
            cause: cause::misaligned(access),
            value: addr,
        }
    }

    pub(super) fn access_trap(&self, addr: u64, access: Access) -> Trap {
        Trap {
            cause: cause::access_fault(access),
            value: addr,
        }
    }
}
