//! What system rows say: traps, CSRs, fences, waiting. The helpers decide what is legal.

use super::Lifter;
use crate::ir::{Terminal, TrapValue};
use crate::riscv64::helper;
use crate::riscv64::rows::{Csr, CsrImm, X};
use crate::riscv64::slots::{MODE_PRIV, MODE_SEMIHOSTING};
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

    fn csr(&mut self, op: CsrOp, csr: u16, rd: X, writes: bool, operand: crate::ir::Val) {
        let reads = op != CsrOp::Write || rd != X(0);
        let descriptor = helper::csr_descriptor(csr, op as u8, writes, reads, self.insn());
        let descriptor = self.constant(descriptor);
        let old = self.call(helper::CSR, [Some(descriptor), Some(operand), None]);
        self.set_x(rd, old);
        self.dispatch();
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
