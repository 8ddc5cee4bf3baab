//! C with its F and D parts, Zca and Zcd (RISC-V Unprivileged, chapter 27): each means what a 32-bit
//! instruction means, so only the operands are taken out in another way. Code points for custom hints do
//! nothing; reserved ones are illegal.

use super::form::*;
use crate::ir::{Bin, Cond, Fmt, Size};
use crate::riscv64::decode::{Fp, Row};

/// The stack pointer.
const SP: X = X(2);
/// The link register.
const RA: X = X(1);
/// The register that reads zero.
const ZERO: X = X(0);

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    // Quadrant 0
    c("c.addi4spn", "000 iiiiiiii ddd 00", Form::I(addi4spn, |l, a| l.alu_imm(Bin::Add, a.rd, a.rs1, a.imm))),
    cf("c.fld",  "001 iii sss ii ddd 00", Form::FLoad(fld, |l, a| l.fload(Fmt::F64, a))),
    c("c.lw",    "010 iii sss ii ddd 00", Form::Load(lw, |l, a| l.load(Size::B4, true, a))),
    c("c.ld",    "011 iii sss ii ddd 00", Form::Load(ld, |l, a| l.load(Size::B8, false, a))),
    cs("c.fsd",  "101 iii sss ii ttt 00", Form::FStore(fsd, |l, a| l.fstore(Fmt::F64, a))),
    c("c.sw",    "110 iii sss ii ttt 00", Form::Store(sw, |l, a| l.store(Size::B4, a))),
    c("c.sd",    "111 iii sss ii ttt 00", Form::Store(sd, |l, a| l.store(Size::B8, a))),
    // Quadrant 1
    c("c.nop",   "000 0 00000 00000 01", Form::Plain(|_| Some(Plain {}), |_, _| {})),
    c("c.addi",  "000 i ddddd iiiii 01", Form::Imm(imm, |l, a| l.alu_imm(Bin::Add, a.rd, a.rd, a.imm))),
    c("c.addiw", "001 i ddddd iiiii 01", Form::Imm(addiw, |l, a| l.addiw(a.rd, a.rd, a.imm))),
    c("c.li",    "010 i ddddd iiiii 01", Form::Imm(imm, |l, a| l.constant_to(a.rd, a.imm as u64))),
    c("c.addi16sp", "011 i 00010 iiiii 01", Form::Imm(addi16sp, |l, a| l.alu_imm(Bin::Add, a.rd, a.rd, a.imm))),
    c("c.lui",   "011 i ddddd iiiii 01", Form::Upper(lui, |l, a| l.constant_to(a.rd, a.imm as u64))),
    c("c.srli",  "100 h 00 ddd hhhhh 01", Form::ShiftImm(shift_low, |l, a| l.alu_imm(Bin::Shr, a.rd, a.rd, a.shamt.into()))),
    c("c.srai",  "100 h 01 ddd hhhhh 01", Form::ShiftImm(shift_low, |l, a| l.alu_imm(Bin::Sar, a.rd, a.rd, a.shamt.into()))),
    c("c.andi",  "100 i 10 ddd iiiii 01", Form::Imm(andi, |l, a| l.alu_imm(Bin::And, a.rd, a.rd, a.imm))),
    c("c.sub",   "100 0 11 ddd 00 ttt 01", Form::Unary(low_pair, |l, a| l.alu(Bin::Sub, a.rd, a.rd, a.rs1))),
    c("c.xor",   "100 0 11 ddd 01 ttt 01", Form::Unary(low_pair, |l, a| l.alu(Bin::Xor, a.rd, a.rd, a.rs1))),
    c("c.or",    "100 0 11 ddd 10 ttt 01", Form::Unary(low_pair, |l, a| l.alu(Bin::Or, a.rd, a.rd, a.rs1))),
    c("c.and",   "100 0 11 ddd 11 ttt 01", Form::Unary(low_pair, |l, a| l.alu(Bin::And, a.rd, a.rd, a.rs1))),
    c("c.subw",  "100 1 11 ddd 00 ttt 01", Form::Unary(low_pair, |l, a| l.aluw(Bin::Sub, a.rd, a.rd, a.rs1))),
    c("c.addw",  "100 1 11 ddd 01 ttt 01", Form::Unary(low_pair, |l, a| l.aluw(Bin::Add, a.rd, a.rd, a.rs1))),
    c("c.j",     "101 iiiiiiiiiii 01", Form::Jump(j, |l, a| l.jal(ZERO, a.offset))),
    c("c.beqz",  "110 iii sss iiiii 01", Form::BranchZero(branch, |l, a| l.branch(Cond::Eq, a.rs1, ZERO, a.offset))),
    c("c.bnez",  "111 iii sss iiiii 01", Form::BranchZero(branch, |l, a| l.branch(Cond::Ne, a.rs1, ZERO, a.offset))),
    // Quadrant 2
    c("c.slli",  "000 h ddddd hhhhh 10", Form::ShiftImm(slli, |l, a| l.alu_imm(Bin::Shl, a.rd, a.rd, a.shamt.into()))),
    cf("c.fldsp", "001 i ddddd iiiii 10", Form::FLoad(fldsp, |l, a| l.fload(Fmt::F64, a))),
    c("c.lwsp",  "010 i ddddd iiiii 10", Form::Load(lwsp, |l, a| l.load(Size::B4, true, a))),
    c("c.ldsp",  "011 i ddddd iiiii 10", Form::Load(ldsp, |l, a| l.load(Size::B8, false, a))),
    c("c.jr",    "100 0 sssss 00000 10", Form::Reg(reg, |l, a| l.jalr(ZERO, a.rs1, 0))),
    c("c.mv",    "100 0 ddddd ttttt 10", Form::Unary(pair, |l, a| l.alu_imm(Bin::Add, a.rd, a.rs1, 0))),
    c("c.ebreak", "100 1 00000 00000 10", Form::Plain(|_| Some(Plain {}), |l, _| l.ebreak())),
    c("c.jalr",  "100 1 sssss 00000 10", Form::Reg(reg, |l, a| l.jalr(RA, a.rs1, 0))),
    c("c.add",   "100 1 ddddd ttttt 10", Form::Unary(pair, |l, a| l.alu(Bin::Add, a.rd, a.rd, a.rs1))),
    cs("c.fsdsp", "101 iiiiii ttttt 10", Form::FStore(fsdsp, |l, a| l.fstore(Fmt::F64, a))),
    c("c.swsp",  "110 iiiiii ttttt 10", Form::Store(swsp, |l, a| l.store(Size::B4, a))),
    c("c.sdsp",  "111 iiiiii ttttt 10", Form::Store(sdsp, |l, a| l.store(Size::B8, a))),
];

const fn c(name: &'static str, pattern: &'static str, form: Form) -> Row {
    Row::new(name, pattern, Fp::None, form)
}

/// A load of a floating-point register.
const fn cf(name: &'static str, pattern: &'static str, form: Form) -> Row {
    Row::new(name, pattern, Fp::Writes, form)
}

/// A store of one.
const fn cs(name: &'static str, pattern: &'static str, form: Form) -> Row {
    Row::new(name, pattern, Fp::Reads, form)
}

/// Bits `high..=low` of the instruction, moved so that the lowest stands at `to`.
const fn bits(insn: u32, high: u32, low: u32, to: u32) -> i32 {
    ((insn >> low & ((1 << (high - low + 1)) - 1)) << to) as i32
}

/// The full-width register field at bit 7 (rd/rs1).
const fn upper_reg(insn: u32) -> u8 {
    bits(insn, 11, 7, 0) as u8
}

/// The full-width register field at bit 2 (rs2).
const fn lower_reg(insn: u32) -> u8 {
    bits(insn, 6, 2, 0) as u8
}

/// The three-bit register field at bit 7 (rd'/rs1'): x8 to x15.
const fn upper_short(insn: u32) -> u8 {
    8 + bits(insn, 9, 7, 0) as u8
}

/// The three-bit register field at bit 2 (rd'/rs2').
const fn lower_short(insn: u32) -> u8 {
    8 + bits(insn, 4, 2, 0) as u8
}

/// The signed six-bit immediate of c.addi, c.li, ...
const fn imm6(insn: u32) -> i32 {
    -bits(insn, 12, 12, 5) | bits(insn, 6, 2, 0)
}

const fn shamt(insn: u32) -> u8 {
    (bits(insn, 12, 12, 5) | bits(insn, 6, 2, 0)) as u8
}

/// Offset of word accesses off rs1'.
const fn offset_w(insn: u32) -> i32 {
    bits(insn, 12, 10, 3) | bits(insn, 6, 6, 2) | bits(insn, 5, 5, 6)
}

/// Offset of doubleword accesses off rs1'.
const fn offset_d(insn: u32) -> i32 {
    bits(insn, 12, 10, 3) | bits(insn, 6, 5, 6)
}

/// Offset of doubleword loads off sp.
const fn offset_ldsp(insn: u32) -> i32 {
    bits(insn, 12, 12, 5) | bits(insn, 6, 5, 3) | bits(insn, 4, 2, 6)
}

/// Offset of doubleword stores off sp.
const fn offset_sdsp(insn: u32) -> i32 {
    bits(insn, 12, 10, 3) | bits(insn, 9, 7, 6)
}

fn addi4spn(i: u32) -> Option<I> {
    let imm = bits(i, 12, 11, 4) | bits(i, 10, 7, 6) | bits(i, 6, 6, 2) | bits(i, 5, 5, 3);
    (imm != 0).then_some(I {
        rd: X(lower_short(i)),
        rs1: SP,
        imm,
    })
}

fn fld(i: u32) -> Option<FLoad> {
    Some(FLoad {
        rd: F(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_d(i),
    })
}

fn lw(i: u32) -> Option<Load> {
    Some(Load {
        rd: X(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_w(i),
    })
}

fn ld(i: u32) -> Option<Load> {
    Some(Load {
        rd: X(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_d(i),
    })
}

fn fsd(i: u32) -> Option<FStore> {
    Some(FStore {
        rs2: F(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_d(i),
    })
}

fn sw(i: u32) -> Option<Store> {
    Some(Store {
        rs2: X(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_w(i),
    })
}

fn sd(i: u32) -> Option<Store> {
    Some(Store {
        rs2: X(lower_short(i)),
        rs1: X(upper_short(i)),
        offset: offset_d(i),
    })
}

fn imm(i: u32) -> Option<Imm> {
    Some(Imm {
        rd: X(upper_reg(i)),
        imm: imm6(i),
    })
}

fn addiw(i: u32) -> Option<Imm> {
    imm(i).filter(|a| a.rd != ZERO)
}

fn addi16sp(i: u32) -> Option<Imm> {
    let imm = -bits(i, 12, 12, 9) | bits(i, 6, 6, 4) | bits(i, 5, 5, 6) | bits(i, 4, 3, 7) | bits(i, 2, 2, 5);
    (imm != 0).then_some(Imm { rd: SP, imm })
}

fn lui(i: u32) -> Option<Upper> {
    let imm = imm6(i) << 12;
    (imm != 0).then_some(Upper {
        rd: X(upper_reg(i)),
        imm,
    })
}

fn shift_low(i: u32) -> Option<ShiftImm> {
    Some(ShiftImm {
        rd: X(upper_short(i)),
        shamt: shamt(i),
    })
}

fn slli(i: u32) -> Option<ShiftImm> {
    Some(ShiftImm {
        rd: X(upper_reg(i)),
        shamt: shamt(i),
    })
}

fn andi(i: u32) -> Option<Imm> {
    Some(Imm {
        rd: X(upper_short(i)),
        imm: imm6(i),
    })
}

/// rd' and rs2'; the destination is the first source too.
fn low_pair(i: u32) -> Option<Unary> {
    Some(Unary {
        rd: X(upper_short(i)),
        rs1: X(lower_short(i)),
    })
}

/// rd and rs2.
fn pair(i: u32) -> Option<Unary> {
    Some(Unary {
        rd: X(upper_reg(i)),
        rs1: X(lower_reg(i)),
    })
}

fn j(i: u32) -> Option<Jump> {
    let offset = -bits(i, 12, 12, 11)
        | bits(i, 11, 11, 4)
        | bits(i, 10, 9, 8)
        | bits(i, 8, 8, 10)
        | bits(i, 7, 7, 6)
        | bits(i, 6, 6, 7)
        | bits(i, 5, 3, 1)
        | bits(i, 2, 2, 5);
    Some(Jump { offset })
}

fn branch(i: u32) -> Option<BranchZero> {
    let offset =
        -bits(i, 12, 12, 8) | bits(i, 11, 10, 3) | bits(i, 6, 5, 6) | bits(i, 4, 3, 1) | bits(i, 2, 2, 5);
    Some(BranchZero {
        rs1: X(upper_short(i)),
        offset,
    })
}

fn fldsp(i: u32) -> Option<FLoad> {
    Some(FLoad {
        rd: F(upper_reg(i)),
        rs1: SP,
        offset: offset_ldsp(i),
    })
}

fn lwsp(i: u32) -> Option<Load> {
    let offset = bits(i, 12, 12, 5) | bits(i, 6, 4, 2) | bits(i, 3, 2, 6);
    Some(Load {
        rd: X(upper_reg(i)),
        rs1: SP,
        offset,
    })
    .filter(|a| a.rd != ZERO)
}

fn ldsp(i: u32) -> Option<Load> {
    Some(Load {
        rd: X(upper_reg(i)),
        rs1: SP,
        offset: offset_ldsp(i),
    })
    .filter(|a| a.rd != ZERO)
}

fn reg(i: u32) -> Option<Reg> {
    Some(Reg { rs1: X(upper_reg(i)) }).filter(|a| a.rs1 != ZERO)
}

fn fsdsp(i: u32) -> Option<FStore> {
    Some(FStore {
        rs2: F(lower_reg(i)),
        rs1: SP,
        offset: offset_sdsp(i),
    })
}

fn swsp(i: u32) -> Option<Store> {
    Some(Store {
        rs2: X(lower_reg(i)),
        rs1: SP,
        offset: bits(i, 12, 9, 2) | bits(i, 8, 7, 6),
    })
}

fn sdsp(i: u32) -> Option<Store> {
    Some(Store {
        rs2: X(lower_reg(i)),
        rs1: SP,
        offset: offset_sdsp(i),
    })
}
