//! D: binary64 (RISC-V Unprivileged, chapter 22), and the conversions between the two formats.

use super::form::*;
use crate::ir::{
    FBin, FCond, FUn,
    Fmt::{F32, F64},
    Int,
};
use crate::riscv64::decode::Row;
use crate::riscv64::lift::Sign;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    fload("fld",           "iiiiiiiiiiii sssss 011 ddddd 0000111", |l, a| l.fload(F64, a)),
    fstore("fsd",          "iiiiiii ttttt sssss 011 iiiii 0100111", |l, a| l.fstore(F64, a)),
    ffused("fmadd.d",      "uuuuu 01 ttttt sssss mmm ddddd 1000011", |l, a| l.ffused(F64, false, false, a)),
    ffused("fmsub.d",      "uuuuu 01 ttttt sssss mmm ddddd 1000111", |l, a| l.ffused(F64, false, true, a)),
    ffused("fnmsub.d",     "uuuuu 01 ttttt sssss mmm ddddd 1001011", |l, a| l.ffused(F64, true, false, a)),
    ffused("fnmadd.d",     "uuuuu 01 ttttt sssss mmm ddddd 1001111", |l, a| l.ffused(F64, true, true, a)),
    frm("fadd.d",          "0000001 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Add, F64, a)),
    frm("fsub.d",          "0000101 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Sub, F64, a)),
    frm("fmul.d",          "0001001 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Mul, F64, a)),
    frm("fdiv.d",          "0001101 ttttt sssss mmm ddddd 1010011", |l, a| l.farith(FBin::Div, F64, a)),
    funary("fsqrt.d",      "0101101 00000 sssss mmm ddddd 1010011", |l, a| l.funary(FUn::Sqrt, F64, a)),
    fr("fsgnj.d",          "0010001 ttttt sssss 000 ddddd 1010011", |l, a| l.fsgnj(Sign::Copy, F64, a)),
    fr("fsgnjn.d",         "0010001 ttttt sssss 001 ddddd 1010011", |l, a| l.fsgnj(Sign::Invert, F64, a)),
    fr("fsgnjx.d",         "0010001 ttttt sssss 010 ddddd 1010011", |l, a| l.fsgnj(Sign::Xor, F64, a)),
    fr("fmin.d",           "0010101 ttttt sssss 000 ddddd 1010011", |l, a| l.fminmax(FBin::Min, F64, a)),
    fr("fmax.d",           "0010101 ttttt sssss 001 ddddd 1010011", |l, a| l.fminmax(FBin::Max, F64, a)),
    fcompare("fle.d",      "1010001 ttttt sssss 000 ddddd 1010011", |l, a| l.fcompare(FCond::Le, F64, a)),
    fcompare("flt.d",      "1010001 ttttt sssss 001 ddddd 1010011", |l, a| l.fcompare(FCond::Lt, F64, a)),
    fcompare("feq.d",      "1010001 ttttt sssss 010 ddddd 1010011", |l, a| l.fcompare(FCond::Eq, F64, a)),
    fmove_x("fclass.d",    "1110001 00000 sssss 001 ddddd 1010011", |l, a| l.fclass(F64, a)),
    f_to_x("fcvt.w.d",     "1100001 00000 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F64, Int::I32, a)),
    f_to_x("fcvt.wu.d",    "1100001 00001 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F64, Int::U32, a)),
    f_to_x("fcvt.l.d",     "1100001 00010 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F64, Int::I64, a)),
    f_to_x("fcvt.lu.d",    "1100001 00011 sssss mmm ddddd 1010011", |l, a| l.f_to_x(F64, Int::U64, a)),
    x_to_f("fcvt.d.w",     "1101001 00000 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F64, Int::I32, a)),
    x_to_f("fcvt.d.wu",    "1101001 00001 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F64, Int::U32, a)),
    x_to_f("fcvt.d.l",     "1101001 00010 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F64, Int::I64, a)),
    x_to_f("fcvt.d.lu",    "1101001 00011 sssss mmm ddddd 1010011", |l, a| l.x_to_f(F64, Int::U64, a)),
    fmove_x("fmv.x.d",     "1110001 00000 sssss 000 ddddd 1010011", |l, a| l.fmv_to_x(F64, a)),
    xmove_f("fmv.d.x",     "1111001 00000 sssss 000 ddddd 1010011", |l, a| l.fmv_from_x(F64, a)),
    funary("fcvt.s.d",     "0100000 00001 sssss mmm ddddd 1010011", |l, a| l.fconvert(F64, F32, a)),
    funary("fcvt.d.s",     "0100001 00000 sssss mmm ddddd 1010011", |l, a| l.fconvert(F32, F64, a)),
];
