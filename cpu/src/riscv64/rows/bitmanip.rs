//! Zba, Zbb and Zbs (RISC-V Unprivileged, chapter 30).

use super::form::*;
use crate::ir::{Bin, Un};
use crate::riscv64::decode::Row;
use crate::riscv64::lift::Bit;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    // Zba
    r("add.uw",      "0000100 ttttt sssss 000 ddddd 0111011", |l, a| l.shift_add(0, true, a)),
    r("sh1add",      "0010000 ttttt sssss 010 ddddd 0110011", |l, a| l.shift_add(1, false, a)),
    r("sh2add",      "0010000 ttttt sssss 100 ddddd 0110011", |l, a| l.shift_add(2, false, a)),
    r("sh3add",      "0010000 ttttt sssss 110 ddddd 0110011", |l, a| l.shift_add(3, false, a)),
    r("sh1add.uw",   "0010000 ttttt sssss 010 ddddd 0111011", |l, a| l.shift_add(1, true, a)),
    r("sh2add.uw",   "0010000 ttttt sssss 100 ddddd 0111011", |l, a| l.shift_add(2, true, a)),
    r("sh3add.uw",   "0010000 ttttt sssss 110 ddddd 0111011", |l, a| l.shift_add(3, true, a)),
    shift("slli.uw", "000010 hhhhhh sssss 001 ddddd 0011011", |l, a| l.slli_uw(a)),
    // Zbb
    r("andn",        "0100000 ttttt sssss 111 ddddd 0110011", |l, a| l.alu_not(Bin::And, a)),
    r("orn",         "0100000 ttttt sssss 110 ddddd 0110011", |l, a| l.alu_not(Bin::Or, a)),
    r("xnor",        "0100000 ttttt sssss 100 ddddd 0110011", |l, a| l.alu_not(Bin::Xor, a)),
    unary("clz",     "0110000 00000 sssss 001 ddddd 0010011", |l, a| l.unary(Un::Clz64, a)),
    unary("clzw",    "0110000 00000 sssss 001 ddddd 0011011", |l, a| l.unary(Un::Clz32, a)),
    unary("ctz",     "0110000 00001 sssss 001 ddddd 0010011", |l, a| l.unary(Un::Ctz64, a)),
    unary("ctzw",    "0110000 00001 sssss 001 ddddd 0011011", |l, a| l.unary(Un::Ctz32, a)),
    unary("cpop",    "0110000 00010 sssss 001 ddddd 0010011", |l, a| l.unary(Un::Popcnt64, a)),
    unary("cpopw",   "0110000 00010 sssss 001 ddddd 0011011", |l, a| l.unary(Un::Popcnt32, a)),
    r("min",         "0000101 ttttt sssss 100 ddddd 0110011", |l, a| l.alu(Bin::MinS, a.rd, a.rs1, a.rs2)),
    r("minu",        "0000101 ttttt sssss 101 ddddd 0110011", |l, a| l.alu(Bin::MinU, a.rd, a.rs1, a.rs2)),
    r("max",         "0000101 ttttt sssss 110 ddddd 0110011", |l, a| l.alu(Bin::MaxS, a.rd, a.rs1, a.rs2)),
    r("maxu",        "0000101 ttttt sssss 111 ddddd 0110011", |l, a| l.alu(Bin::MaxU, a.rd, a.rs1, a.rs2)),
    unary("sext.b",  "0110000 00100 sssss 001 ddddd 0010011", |l, a| l.unary(Un::Sext8, a)),
    unary("sext.h",  "0110000 00101 sssss 001 ddddd 0010011", |l, a| l.unary(Un::Sext16, a)),
    unary("zext.h",  "0000100 00000 sssss 100 ddddd 0111011", |l, a| l.unary(Un::Zext16, a)),
    r("rol",         "0110000 ttttt sssss 001 ddddd 0110011", |l, a| l.alu(Bin::Rol, a.rd, a.rs1, a.rs2)),
    r("rolw",        "0110000 ttttt sssss 001 ddddd 0111011", |l, a| l.aluw(Bin::Rol, a.rd, a.rs1, a.rs2)),
    r("ror",         "0110000 ttttt sssss 101 ddddd 0110011", |l, a| l.alu(Bin::Ror, a.rd, a.rs1, a.rs2)),
    r("rorw",        "0110000 ttttt sssss 101 ddddd 0111011", |l, a| l.aluw(Bin::Ror, a.rd, a.rs1, a.rs2)),
    shift("rori",    "011000 hhhhhh sssss 101 ddddd 0010011", |l, a| l.alu_imm(Bin::Ror, a.rd, a.rs1, a.shamt.into())),
    shift("roriw",   "0110000 hhhhh sssss 101 ddddd 0011011", |l, a| l.aluw_imm(Bin::Ror, a.rd, a.rs1, a.shamt.into())),
    unary("orc.b",   "001010000111 sssss 101 ddddd 0010011", |l, a| l.unary(Un::OrcB, a)),
    unary("rev8",    "011010111000 sssss 101 ddddd 0010011", |l, a| l.unary(Un::Bswap64, a)),
    // Zbs
    r("bclr",        "0100100 ttttt sssss 001 ddddd 0110011", |l, a| l.bit(Bit::Clear, a)),
    r("bext",        "0100100 ttttt sssss 101 ddddd 0110011", |l, a| l.bit(Bit::Extract, a)),
    r("binv",        "0110100 ttttt sssss 001 ddddd 0110011", |l, a| l.bit(Bit::Invert, a)),
    r("bset",        "0010100 ttttt sssss 001 ddddd 0110011", |l, a| l.bit(Bit::Set, a)),
    shift("bclri",   "010010 hhhhhh sssss 001 ddddd 0010011", |l, a| l.bit_imm(Bit::Clear, a)),
    shift("bexti",   "010010 hhhhhh sssss 101 ddddd 0010011", |l, a| l.bit_imm(Bit::Extract, a)),
    shift("binvi",   "011010 hhhhhh sssss 001 ddddd 0010011", |l, a| l.bit_imm(Bit::Invert, a)),
    shift("bseti",   "001010 hhhhhh sssss 001 ddddd 0010011", |l, a| l.bit_imm(Bit::Set, a)),
];
