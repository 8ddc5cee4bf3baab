//! M: multiplication and division (RISC-V Unprivileged, chapter 12).

use super::form::*;
use crate::ir::Bin;
use crate::riscv64::decode::Row;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    r("mul",    "0000001 ttttt sssss 000 ddddd 0110011", |l, a| l.alu(Bin::Mul, a.rd, a.rs1, a.rs2)),
    r("mulh",   "0000001 ttttt sssss 001 ddddd 0110011", |l, a| l.alu(Bin::MulhS, a.rd, a.rs1, a.rs2)),
    r("mulhsu", "0000001 ttttt sssss 010 ddddd 0110011", |l, a| l.alu(Bin::MulhSU, a.rd, a.rs1, a.rs2)),
    r("mulhu",  "0000001 ttttt sssss 011 ddddd 0110011", |l, a| l.alu(Bin::MulhU, a.rd, a.rs1, a.rs2)),
    r("div",    "0000001 ttttt sssss 100 ddddd 0110011", |l, a| l.alu(Bin::DivS, a.rd, a.rs1, a.rs2)),
    r("divu",   "0000001 ttttt sssss 101 ddddd 0110011", |l, a| l.alu(Bin::DivU, a.rd, a.rs1, a.rs2)),
    r("rem",    "0000001 ttttt sssss 110 ddddd 0110011", |l, a| l.alu(Bin::RemS, a.rd, a.rs1, a.rs2)),
    r("remu",   "0000001 ttttt sssss 111 ddddd 0110011", |l, a| l.alu(Bin::RemU, a.rd, a.rs1, a.rs2)),
    r("mulw",   "0000001 ttttt sssss 000 ddddd 0111011", |l, a| l.aluw(Bin::Mul, a.rd, a.rs1, a.rs2)),
    r("divw",   "0000001 ttttt sssss 100 ddddd 0111011", |l, a| l.aluw(Bin::DivS, a.rd, a.rs1, a.rs2)),
    r("divuw",  "0000001 ttttt sssss 101 ddddd 0111011", |l, a| l.aluw(Bin::DivU, a.rd, a.rs1, a.rs2)),
    r("remw",   "0000001 ttttt sssss 110 ddddd 0111011", |l, a| l.aluw(Bin::RemS, a.rd, a.rs1, a.rs2)),
    r("remuw",  "0000001 ttttt sssss 111 ddddd 0111011", |l, a| l.aluw(Bin::RemU, a.rd, a.rs1, a.rs2)),
];
