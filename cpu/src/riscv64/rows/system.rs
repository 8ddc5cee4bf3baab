//! Zicsr, Zicboz, the privileged instructions and Svinval (RISC-V Unprivileged, chapters 7 and 19; Privileged,
//! chapters 3.3, 12.1 and "Svinval"). What is legal where, the helpers decide.

use super::form::*;
use crate::riscv64::decode::Row;
use crate::riscv64::helper;
use crate::riscv64::lift::CsrOp;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    csr("csrrw",      "iiiiiiiiiiii sssss 001 ddddd 1110011", |l, a| l.csr_reg(CsrOp::Write, a)),
    csr("csrrs",      "iiiiiiiiiiii sssss 010 ddddd 1110011", |l, a| l.csr_reg(CsrOp::Set, a)),
    csr("csrrc",      "iiiiiiiiiiii sssss 011 ddddd 1110011", |l, a| l.csr_reg(CsrOp::Clear, a)),
    csr_imm("csrrwi", "iiiiiiiiiiii sssss 101 ddddd 1110011", |l, a| l.csr_imm(CsrOp::Write, a)),
    csr_imm("csrrsi", "iiiiiiiiiiii sssss 110 ddddd 1110011", |l, a| l.csr_imm(CsrOp::Set, a)),
    csr_imm("csrrci", "iiiiiiiiiiii sssss 111 ddddd 1110011", |l, a| l.csr_imm(CsrOp::Clear, a)),
    plain("mret",     "0011000 00010 00000 000 00000 1110011", |l, _| l.xret(helper::MRET)),
    plain("sret",     "0001000 00010 00000 000 00000 1110011", |l, _| l.xret(helper::SRET)),
    plain("wfi",      "0001000 00101 00000 000 00000 1110011", |l, _| l.wfi()),
    sfence("sfence.vma",     "0001001 ttttt sssss 000 00000 1110011", |l, _| l.sfence()),
    sfence("sinval.vma",     "0001011 ttttt sssss 000 00000 1110011", |l, _| l.sfence()),
    plain("sfence.w.inval",  "0001100 00000 00000 000 00000 1110011", |l, _| l.sfence()),
    plain("sfence.inval.ir", "0001100 00001 00000 000 00000 1110011", |l, _| l.sfence()),
    cbo("cbo.zero",   "000000000100 sssss 010 00000 0001111", |l, a| l.cbo_zero(a.rs1)),
];
