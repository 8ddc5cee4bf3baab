//! F: binary32 (RISC-V Unprivileged, chapter 21). Values are NaN-boxed in 64-bit registers.

use super::form::*;
use crate::ir::{FBin, FCond, FUn, Fmt::F32, Int};
use crate::riscv64::decode::Row;
use crate::riscv64::lift::Sign;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    fload("flw",           "iiiiiiiiiiii sssss 010 ddddd 0000111", |l, a| l.fload(F32, a)),
    fstore("fsw",          "iiiiiii ttttt sssss 010 iiiii 0100111", |l, a| l.fstore(F32, a)),
    ffused("fmadd.s",      "uuuuu 00 ttttt sssss mmm ddddd 1000011", |l, a| l.ffused(F32, false, false, a)),
    ffused("fmsub.s",      "uuuuu 00 ttttt sssss mmm ddddd 1000111", |l, a| l.ffused(F32, false, true, a)),
    ffused("fnmsub.s",     "uuuuu 00 ttttt sssss mmm ddddd 1001011", |l, a| l.ffused(F32, true, false, a)),
    ffused("fnmadd.s",     "uuuuu 00 ttttt sssss mmm ddddd 1001111", |l, a| l.ffused(F32, true, true, a)),
    frm("fadd.s",          "0000000 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Add, F32, a)),
    frm("fsub.s",          "0000100 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Sub, F32, a)),
    frm("fmul.s",          "0001000 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Mul, F32, a)),
    frm("fdiv.s",          "0001100 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Div, F32, a)),
    funary("fsqrt.s",      "0101100 00000 sssss mmm ddddd 1010011", |l, a| l.funary(FUn::Sqrt, F32, a)),
    fr("fsgnj.s",          "0010000 ttttt sssss 000 ddddd 1010011", |l, a| l.fsgnj(Sign::Copy, F32, a)),
    fr("fsgnjn.s",         "0010000 ttttt sssss 001 ddddd 1010011", |l, a| l.fsgnj(Sign::Invert, F32, a)),
    fr("fsgnjx.s",         "0010000 ttttt sssss 010 ddddd 1010011", |l, a| l.fsgnj(Sign::Xor, F32, a)),
    fr("fmin.s",           "0010100 ttttt sssss 000 ddddd 1010011", |l, a| l.fminmax(FBin::Min, F32, a)),
    fr("fmax.s",           "0010100 ttttt sssss 001 ddddd 1010011", |l, a| l.fminmax(FBin::Max, F32, a)),
    fcompare("fle.s",      "1010000 ttttt sssss 000 ddddd 1010011", |l, a| l.fcompare(FCond::Le, F32, a)),
    fcompare("flt.s",      "1010000 ttttt sssss 001 ddddd 1010011", |l, a| l.fcompare(FCond::Lt, F32, a)),
    fcompare("feq.s",      "1010000 ttttt sssss 010 ddddd 1010011", |l, a| l.fcompare(FCond::Eq, F32, a)),
    fmove_x("fclass.s",    "1110000 00000 sssss 001 ddddd 1010011", |l, a| l.fclass(F32, a)),
    f_to_x("fcvt.w.s",     "1100000 00000 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F32, Int::I32, a)),
    f_to_x("fcvt.wu.s",    "1100000 00001 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F32, Int::U32, a)),
    f_to_x("fcvt.l.s",     "1100000 00010 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F32, Int::I64, a)),
    f_to_x("fcvt.lu.s",    "1100000 00011 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F32, Int::U64, a)),
    x_to_f("fcvt.s.w",     "1101000 00000 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F32, Int::I32, a)),
    x_to_f("fcvt.s.wu",    "1101000 00001 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F32, Int::U32, a)),
    x_to_f("fcvt.s.l",     "1101000 00010 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F32, Int::I64, a)),
    x_to_f("fcvt.s.lu",    "1101000 00011 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F32, Int::U64, a)),
    fmove_x("fmv.x.w",     "1110000 00000 sssss 000 ddddd 1010011", |l, a| l.fmv_to_x(F32, a)),
    xmove_f("fmv.w.x",     "1111000 00000 sssss 000 ddddd 1010011", |l, a| l.fmv_from_x(F32, a)),
];
