//! What system rows say: traps, CSRs, fences, waiting. The helpers decide what is legal, but for CSRs of which the mode
//! says all.

use super::Lifter;
use crate::ir::{Bin, Op, Slot, Target, Terminal, TrapValue, Un, Val, Width};
use crate::riscv64::csr::bits::*;
use crate::riscv64::csr::number::{FFLAGS, SCAUSE, SEPC, SSCRATCH, SSTATUS, STVAL};
use crate::riscv64::helper;
use crate::riscv64::rows::{Csr, CsrImm, X};
use crate::riscv64::slots::{self, MODE_FS_DIRTY, MODE_LONE, MODE_PRIV, MODE_SEMIHOSTING};
use crate::riscv64::traps::cause;

/// `ebreak`, not compressed.
const EBREAK: u32 = 0x0010_0073;
/// Exception code of an environment call from U; S and M follow by privilege.
const ECALL_FROM_U: u64 = 8;

/// What a CSR instruction does, as the helper's descriptor numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsrOp {
    /// Writes the operand.
    Write = 1,
    /// Sets the operand's bits.
    Set = 2,
    /// Clears the operand's bits.
    Clear = 3,
}

impl Lifter {
    pub fn csr_reg(&mut self, op: CsrOp, a: Csr) {
        let operand = self.x(a.rs1);
        let writes = op == CsrOp::Write || a.rs1 != X(0);
        self.csr(op, a.csr, a.rd, writes, operand);
    }

    pub fn csr_imm(&mut self, op: CsrOp, a: CsrImm) {
        let operand = self.constant(a.uimm.into());
        let writes = op == CsrOp::Write || a.uimm != 0;
        self.csr(op, a.csr, a.rd, writes, operand);
    }

    fn csr(&mut self, op: CsrOp, csr: u16, rd: X, writes: bool, operand: Val) {
        if self.mode() & MODE_PRIV != U as u64 {
            match csr {
                SSTATUS => return self.sstatus(op, rd, writes, operand),
                SSCRATCH => return self.csr_in_slot(slots::SSCRATCH, !0, (op, rd, writes, operand)),
                SEPC => return self.csr_in_slot(slots::SEPC, !1, (op, rd, writes, operand)),
                SCAUSE => return self.csr_in_slot(slots::SCAUSE, !0, (op, rd, writes, operand)),
                STVAL => return self.csr_in_slot(slots::STVAL, !0, (op, rd, writes, operand)),
                _ => {}
            }
        }
        let reads = op != CsrOp::Write || rd != X(0);
        // Where nothing needs to be asked or marked.
        if csr == FFLAGS && self.mode() & MODE_FS_DIRTY != 0 {
            return self.fflags(op, rd, writes, reads, operand);
        }
        let descriptor = helper::csr_descriptor(csr, op as u8, writes, reads, self.insn());
        let descriptor = self.constant(descriptor);
        let old = self.call(helper::CSR, [Some(descriptor), Some(operand), None]);
        self.set_x(rd, old);
        self.dispatch();
    }

    /// A CSR that is a slot, on which nothing else depends; `mask`: the bits that can be written.
    fn csr_in_slot(&mut self, slot: Slot, mask: u64, (op, rd, writes, operand): (CsrOp, X, bool, Val)) {
        let old = self.slot(slot);
        if writes {
            let new = match op {
                CsrOp::Write => operand,
                CsrOp::Set => self.bin(Bin::Or, Width::W64, old, operand),
                CsrOp::Clear => self.without(old, operand),
            };
            let new = self.bin_constant(Bin::And, Width::W64, new, mask);
            self.set_slot(slot, new);
        }
        self.set_x(rd, old);
    }

    /// sstatus is part of mstatus. What can't change mode, spaces or interrupts doesn't end the block; else the run loop
    /// looks at the boundary only if one of them did change: if FS, SUM or MXR are others, or an interrupt is pending
    /// and SIE is set.
    fn sstatus(&mut self, op: CsrOp, rd: X, writes: bool, operand: Val) {
        let mstatus = self.slot(slots::MSTATUS);
        let visible = self.bin_constant(Bin::And, Width::W64, mstatus, SSTATUS_WRITABLE);
        // What FS is, the mode says.
        let dirty = if self.mode() & MODE_FS_DIRTY != 0 { SD } else { 0 };
        let old = self.bin_constant(Bin::Or, Width::W64, visible, UXL_64 | dirty);
        if writes {
            let known = self.as_constant(operand).filter(|_| op != CsrOp::Write);
            let operand = self.bin_constant(Bin::And, Width::W64, operand, SSTATUS_WRITABLE);
            let new = match op {
                CsrOp::Write => {
                    let others = self.bin_constant(Bin::And, Width::W64, mstatus, !SSTATUS_WRITABLE);
                    self.bin(Bin::Or, Width::W64, others, operand)
                }
                CsrOp::Set => self.bin(Bin::Or, Width::W64, mstatus, operand),
                CsrOp::Clear => self.without(mstatus, operand),
            };
            let clears = op == CsrOp::Clear;
            // Bits that may be others now.
            let touched = known.unwrap_or(SSTATUS_WRITABLE);
            let mut ask = None;
            if touched & (FS | SUM | MXR) != 0 {
                let changed = self.bin(Bin::Xor, Width::W64, mstatus, new);
                ask = Some(self.bin_constant(Bin::And, Width::W64, changed, FS | SUM | MXR));
            }
            if touched & SIE != 0 && !clears {
                let pending = self.op(Op::Get(slots::PENDING));
                // All ones if SIE is set.
                let enabled =
                    self.bin_constant(Bin::Shl, Width::W64, new, 63 - u64::from(SIE.trailing_zeros()));
                let enabled = self.bin_constant(Bin::Sar, Width::W64, enabled, 63);
                let taken = self.bin(Bin::And, Width::W64, pending, enabled);
                ask = Some(match ask {
                    Some(ask) => self.bin(Bin::Or, Width::W64, ask, taken),
                    None => taken,
                });
            }
            self.set_slot(slots::MSTATUS, new);
            if let Some(ask) = ask {
                let next = Target(self.next());
                self.end(Terminal::Ask(ask, next));
            }
        }
        self.set_x(rd, old);
    }

    /// `a` without the bits of `b`.
    fn without(&mut self, a: Val, b: Val) -> Val {
        let b = self.un(Un::Not, b);
        self.bin(Bin::And, Width::W64, a, b)
    }

    /// An access to fflags.
    fn fflags(&mut self, op: CsrOp, rd: X, writes: bool, reads: bool, operand: Val) {
        // fflags' bits and the environment's, which has them the other way round and one more among them.
        const PLACES: [(u8, u8); 5] = [(0, 5), (1, 4), (2, 3), (3, 2), (4, 0)];
        let old = if reads {
            let flags = self.op(Op::GetFlags);
            self.moved(flags, PLACES.map(|(ours, theirs)| (theirs, ours)))
        } else {
            operand
        };
        if writes {
            let new = match op {
                CsrOp::Write => operand,
                CsrOp::Set => self.bin(Bin::Or, Width::W64, old, operand),
                CsrOp::Clear => {
                    let keep = self.un(Un::Not, operand);
                    self.bin(Bin::And, Width::W64, old, keep)
                }
            };
            let flags = self.moved(new, PLACES);
            self.op(Op::SetFlags(flags));
        }
        if reads {
            self.set_x(rd, old);
        }
    }

    /// The bits of a value at other places: from, to.
    fn moved(&mut self, v: Val, places: [(u8, u8); 5]) -> Val {
        let mut sum = self.constant(0);
        for (from, to) in places {
            let mask = self.constant(1 << from);
            let bit = self.bin(Bin::And, Width::W64, v, mask);
            let (op, by) = if to > from {
                (Bin::Shl, to - from)
            } else {
                (Bin::Shr, from - to)
            };
            let by = self.constant(by.into());
            let bit = self.bin(op, Width::W64, bit, by);
            sum = self.bin(Bin::Or, Width::W64, sum, bit);
        }
        sum
    }

    /// `mret` and `sret`.
    pub fn xret(&mut self, number: u16) {
        self.call_with_insn(number);
        self.end(Terminal::Left);
    }

    pub fn wfi(&mut self) {
        self.call_with_insn(helper::WFI);
        self.dispatch();
    }

    /// Fences of translations: these are coherent, so nothing remains but the question of legality.
    pub fn sfence(&mut self) {
        self.call_with_insn(helper::SFENCE);
    }

    fn call_with_insn(&mut self, number: u16) {
        let insn = self.constant(self.insn().into());
        self.call(number, [Some(insn), None, None]);
    }

    pub fn pause(&mut self) {
        if self.mode() & MODE_LONE != 0 {
            return;
        }
        self.call(helper::PAUSE, [None; 3]);
        self.dispatch();
    }

    pub fn cbo_zero(&mut self, rs1: X) {
        let (addr, insn) = (self.x(rs1), self.constant(self.insn().into()));
        self.call(helper::CBO_ZERO, [Some(addr), Some(insn), None]);
    }

    pub fn ecall(&mut self) {
        let cause = ECALL_FROM_U + (self.mode() & MODE_PRIV);
        self.end(Terminal::Trap {
            cause,
            value: TrapValue::Const(0),
        });
    }

    pub fn ebreak(&mut self) {
        // A compressed one is never a call.
        if self.mode() & MODE_SEMIHOSTING != 0 && self.insn() == EBREAK {
            self.call(helper::EBREAK, [None; 3]);
            return self.end(Terminal::Left);
        }
        self.end(Terminal::Trap {
            cause: cause::BREAKPOINT,
            value: TrapValue::Pc,
        });
    }
}
