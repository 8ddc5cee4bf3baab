//! What F and D rows say. A binary32 value lives NaN-boxed in its 64-bit register: operands are unboxed (what
//! isn't a box reads as the canonical NaN), results boxed; loads, stores and moves transfer bits as they
//! are. Operations that don't round carry `Rm::Dynamic`, which says nothing.

use super::Lifter;
use crate::ir::{Bin, FBin, FCond, FUn, Fmt, Int, Op, Rm, Un, Val, Width};
use crate::riscv64::rows::{
    F, FCompare, FFused, FLoad, FMoveX, FR, FRm, FStore, FToX, FUnary, RmField, XMoveF, XToF,
};
use crate::riscv64::slots::MODE_FRM_RMM;
use crate::softfloat::Round;

/// What becomes of the sign of an `fsgnj`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// That of rs2.
    Copy,
    /// The opposite of rs2's.
    Invert,
    /// The exclusive or of both.
    Xor,
}

impl Lifter {
    /// Where the rounding mode comes from. The driver has seen to it that it isn't reserved.
    fn rounding(&self, RmField(rm): RmField) -> Rm {
        Rm::Static(match rm {
            0 => Round::NearestEven,
            1 => Round::TowardZero,
            2 => Round::Down,
            3 => Round::Up,
            4 => Round::NearestMaxMagnitude,
            _ if self.mode() & MODE_FRM_RMM != 0 => Round::NearestMaxMagnitude,
            _ => return Rm::Dynamic,
        })
    }

    /// A register's value in a format.
    fn value(&mut self, fmt: Fmt, r: F) -> Val {
        let raw = self.f(r);
        match (fmt, self.def(raw)) {
            (Fmt::F64, _) => raw,
            (Fmt::F32, Op::FUn(FUn::Box, Fmt::F32, _, inner)) => inner,
            (Fmt::F32, _) => self.op(Op::FUn(FUn::Unbox, Fmt::F32, Rm::Dynamic, raw)),
        }
    }

    fn set_value(&mut self, fmt: Fmt, rd: F, v: Val) {
        let raw = match fmt {
            Fmt::F64 => v,
            Fmt::F32 => self.op(Op::FUn(FUn::Box, Fmt::F32, Rm::Dynamic, v)),
        };
        self.set_f(rd, raw);
    }

    pub fn fload(&mut self, fmt: Fmt, a: FLoad) {
        let (addr, offset) = self.address(a.rs1, a.offset);
        let v = self.op(Op::LoadF { fmt, addr, offset });
        self.set_value(fmt, a.rd, v);
    }

    pub fn fstore(&mut self, fmt: Fmt, a: FStore) {
        let value = self.f(a.rs2);
        let (addr, offset) = self.address(a.rs1, a.offset);
        self.op(Op::StoreF {
            fmt,
            addr,
            offset,
            value,
        });
    }

    pub fn farith(&mut self, op: FBin, fmt: Fmt, a: FRm) {
        let (rm, x, y) = (
            self.rounding(a.rm),
            self.value(fmt, a.rs1),
            self.value(fmt, a.rs2),
        );
        let v = self.op(Op::FBin(op, fmt, rm, x, y));
        self.set_value(fmt, a.rd, v);
    }

    pub fn fminmax(&mut self, op: FBin, fmt: Fmt, a: FR) {
        let FR { rd, rs1, rs2 } = a;
        self.farith(
            op,
            fmt,
            FRm {
                rd,
                rs1,
                rs2,
                rm: RmField::DYNAMIC,
            },
        );
    }

    pub fn funary(&mut self, op: FUn, fmt: Fmt, a: FUnary) {
        let (rm, x) = (self.rounding(a.rm), self.value(fmt, a.rs1));
        let v = self.op(Op::FUn(op, fmt, rm, x));
        self.set_value(fmt, a.rd, v);
    }

    pub fn fconvert(&mut self, from: Fmt, to: Fmt, a: FUnary) {
        let (rm, x) = (self.rounding(a.rm), self.value(from, a.rs1));
        let v = self.op(Op::FUn(FUn::Convert, from, rm, x));
        self.set_value(to, a.rd, v);
    }

    pub fn ffused(&mut self, fmt: Fmt, negate_product: bool, negate_addend: bool, a: FFused) {
        let rm = self.rounding(a.rm);
        let args = [
            self.value(fmt, a.rs1),
            self.value(fmt, a.rs2),
            self.value(fmt, a.rs3),
        ];
        let v = self.op(Op::FFma {
            fmt,
            rm,
            negate_product,
            negate_addend,
            args,
        });
        self.set_value(fmt, a.rd, v);
    }

    /// With equal sources these are `fmv`, `fneg` and `fabs`.
    pub fn fsgnj(&mut self, sign: Sign, fmt: Fmt, a: FR) {
        let x = self.value(fmt, a.rs1);
        let v = if a.rs1 == a.rs2 {
            match sign {
                Sign::Copy => x,
                Sign::Invert => self.op(Op::FUn(FUn::Neg, fmt, Rm::Dynamic, x)),
                Sign::Xor => self.op(Op::FUn(FUn::Abs, fmt, Rm::Dynamic, x)),
            }
        } else {
            let y = self.value(fmt, a.rs2);
            let (x, y) = (self.op(Op::ToBits(fmt, x)), self.op(Op::ToBits(fmt, y)));
            self.with_sign(sign, fmt, x, y)
        };
        self.set_value(fmt, a.rd, v);
    }

    fn with_sign(&mut self, sign: Sign, fmt: Fmt, x: Val, y: Val) -> Val {
        let bit = match fmt {
            Fmt::F32 => 1 << 31,
            Fmt::F64 => 1 << 63,
        };
        let sign_bit = self.constant(bit);
        let y = match sign {
            Sign::Copy | Sign::Xor => y,
            Sign::Invert => self.un(Un::Not, y),
        };
        let s = self.bin(Bin::And, Width::W64, y, sign_bit);
        let bits = match sign {
            Sign::Xor => self.bin(Bin::Xor, Width::W64, x, s),
            Sign::Copy | Sign::Invert => {
                let others = self.constant(bit - 1);
                let magnitude = self.bin(Bin::And, Width::W64, x, others);
                self.bin(Bin::Or, Width::W64, magnitude, s)
            }
        };
        self.op(Op::FromBits(bits))
    }

    pub fn fcompare(&mut self, cond: FCond, fmt: Fmt, a: FCompare) {
        let (x, y) = (self.value(fmt, a.rs1), self.value(fmt, a.rs2));
        let v = self.op(Op::FCmp(cond, fmt, x, y));
        self.set_x(a.rd, v);
    }

    pub fn fclass(&mut self, fmt: Fmt, a: FMoveX) {
        let x = self.value(fmt, a.rs1);
        let v = self.op(Op::FClass(fmt, x));
        self.set_x(a.rd, v);
    }

    /// 32-bit results, unsigned ones too, are sign-extended.
    pub fn f_to_x(&mut self, fmt: Fmt, int: Int, a: FToX) {
        let (rm, x) = (self.rounding(a.rm), self.value(fmt, a.rs1));
        let v = self.op(Op::FToInt(fmt, int, rm, x));
        let v = match int {
            Int::I32 | Int::U32 => self.un(Un::Sext32, v),
            Int::I64 | Int::U64 => v,
        };
        self.set_x(a.rd, v);
    }

    pub fn x_to_f(&mut self, fmt: Fmt, int: Int, a: XToF) {
        let (rm, x) = (self.rounding(a.rm), self.x(a.rs1));
        let v = self.op(Op::FFromInt(fmt, int, rm, x));
        self.set_value(fmt, a.rd, v);
    }

    /// `fmv.x.w` takes the low bits as they are, box or not.
    pub fn fmv_to_x(&mut self, fmt: Fmt, a: FMoveX) {
        let raw = self.f(a.rs1);
        let v = self.op(Op::ToBits(fmt, raw));
        let v = match fmt {
            Fmt::F32 => self.un(Un::Sext32, v),
            Fmt::F64 => v,
        };
        self.set_x(a.rd, v);
    }

    pub fn fmv_from_x(&mut self, fmt: Fmt, a: XMoveF) {
        let bits = self.x(a.rs1);
        let v = self.op(Op::FromBits(bits));
        self.set_value(fmt, a.rd, v);
    }
}
