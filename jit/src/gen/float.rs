//! Floating-point ops: on the host's SSE, AVX and FMA units where their results and flags are the guest's;
//! else in software ([`crate::run::soft`]).
//!
//! The host rounds as MXCSR says, which follows the environment slot: so `Rm::Dynamic` is the host's own
//! rounding, and other modes go to software unless the operation is exact. Where a result is a NaN, the
//! canonical one takes its place, in the cold part. What the host does differently:
//!
//! - `inf * 0 + qNaN` doesn't raise INVALID in an FMA: a NaN result is computed again in software.
//! - Conversions to integers that don't fit yield 0x80...: then software says which value it is. The flags are
//!   right already (INVALID alone). This holds for signed types only; unsigned ones are software.
//! - minsd and maxsd know neither the order of zeros nor NaNs.
//! - DENORMAL is raised, and dropped whenever MXCSR is stored.
//!
//! A guest whose rules are SSE's own ([`FloatRules::Sse`]) needs none of that: the host's result is its.

use cpu::FloatRules;
use cpu::ir::{Class, FBin, FCond, FUn, Fmt, Int, Op, Rm as Rounding};
use cpu::softfloat::Round;

use super::alloc::Operand;
use super::{Ends, Generator};
use crate::asm::{Alu, Cc, Mem, RAX, RSP, Reg, Rm, Xmm};
use crate::plan::NONE;
use crate::run::Soft;
use crate::thunks::constant;
use crate::words::SCRATCH;

/// An argument or a result of a call to software.
#[derive(Clone, Copy, Debug)]
enum Value {
    Int(Operand),
    Float(Xmm),
}

/// Where MXCSR is moved through.
const MXCSR: Mem = Mem::new(RSP, SCRATCH);

/// Bitwise operations.
const AND: u8 = 0x54;
const OR: u8 = 0x56;
const XOR: u8 = 0x57;
/// Scalar arithmetic.
const SQRT: u8 = 0x51;
const CONVERT: u8 = 0x5a;
const MIN: u8 = 0x5d;
const MAX: u8 = 0x5f;
/// Between registers: the low element of the second operand with the rest of the first.
const MOVE: u8 = 0x10;
/// Comparisons.
const QUIET: u8 = 0x2e;
const SIGNALLING: u8 = 0x2f;

impl Generator {
    pub(super) fn float(&mut self, op: Op) {
        match op {
            Op::FromBits(v) => {
                let r = self.reg(v.0);
                let x = self.temp_xmm();
                self.a().xmm_from_reg(true, x, r);
                self.define_xmm(x);
            }
            Op::GetFlags => {
                let dst = self.dest(&[]);
                self.a().store_mxcsr(MXCSR);
                self.a().load(false, dst, MXCSR);
                let flags = self.layout.fp_flags as i32;
                self.a().alu_imm(false, Alu::And, dst.into(), flags);
                self.define(dst);
            }
            Op::SetFlags(v) => {
                let v = self.reg(v.0);
                let t = self.temp();
                self.a().store_mxcsr(MXCSR);
                // All of the host's flags go, also those that the guest doesn't have.
                self.a().alu_imm(false, Alu::And, MXCSR.into(), !0x3f);
                self.a().mov(false, t, v);
                let flags = self.layout.fp_flags as i32 & 0x3f;
                self.a().alu_imm(false, Alu::And, t.into(), flags);
                self.a().alu_store(false, Alu::Or, MXCSR, t);
                self.a().load_mxcsr(MXCSR);
            }
            Op::ToBits(fmt, v) => self.bits(fmt == Fmt::F64, v.0),
            Op::FBin(op, fmt, rm, a, b) => match (op, rm) {
                (FBin::Min | FBin::Max, _) if !self.is_sse() => self.fextremum(op, fmt, a.0, b.0),
                (FBin::Min | FBin::Max, _) | (_, Rounding::Dynamic) => self.farith(op, fmt, a.0, b.0),
                (_, Rounding::Static(_)) => self.soft(Soft::Bin(op, fmt, rm), &[a.0, b.0], Class::F),
            },
            Op::FUn(op, fmt, rm, v) => self.fun(op, fmt, rm, v.0),
            Op::FFma {
                fmt,
                rm,
                negate_product,
                negate_addend,
                args,
            } => {
                let op = Soft::Fma(fmt, rm, negate_product, negate_addend);
                let args = args.map(|v| v.0);
                match rm {
                    Rounding::Dynamic => {
                        let opcode = 0xa9 + 4 * u8::from(negate_product) + 2 * u8::from(negate_addend);
                        self.fma(fmt, opcode, args, op);
                    }
                    Rounding::Static(_) => self.soft(op, &args, Class::F),
                }
            }
            Op::FCmp(cond, fmt, a, b) => self.fcmp(cond, fmt, a.0, b.0),
            Op::FOrder(signalling, fmt, a, b) => {
                // The host's flags are the result, in ah.
                let x = self.xmm(a.0);
                let y = self.float_operand(fmt, b.0);
                self.temp_at(RAX);
                let opcode = if signalling { SIGNALLING } else { QUIET };
                self.a().fcompare(fmt == Fmt::F64, opcode, x, y);
                self.a().flags_to_rax();
                self.a().alu_imm(false, Alu::And, RAX.into(), 0x45);
                self.define(RAX);
            }
            Op::FJoin32(a, b) => {
                let (x, y) = (self.xmm(a.0), self.xmm(b.0));
                let dst = self.temp_xmm();
                self.a().farith(false, MOVE, dst, x, y.into());
                self.define_xmm(dst);
            }
            Op::FClass(fmt, v) => self.soft(Soft::Class(fmt), &[v.0], Class::I),
            Op::FToInt(fmt, int, rm, v) => self.ftoint(fmt, int, rm, v.0),
            Op::FFromInt(fmt, int, rm, v) => self.ffromint(fmt, int, rm, v.0),
            _ => unreachable!("no floating-point op"),
        }
    }

    /// A constant beside the thunks, as an operand; [`Generator::constant_used`] must follow the instruction.
    fn constant_used(&mut self, which: u64) {
        self.rip_used(self.thunks.constants + which);
    }

    fn flogic_constant(&mut self, opcode: u8, dst: Xmm, a: Xmm, which: u64) {
        self.a().flogic(opcode, dst, a, Rm::Rip);
        self.constant_used(which);
    }

    /// The last use of a value of binary64 that is in memory takes it from there.
    fn float_operand(&mut self, fmt: Fmt, v: u16) -> Rm {
        if fmt == Fmt::F64
            && self.place(v).xmm == NONE
            && !self.needed(v)
            && let Some(m) = self.memory(v)
        {
            return m.into();
        }
        self.xmm(v).into()
    }

    fn bits(&mut self, d: bool, v: u16) {
        if self.place(v).xmm == NONE
            && let Some(m) = self.memory(v)
        {
            let dst = self.dest(&[]);
            self.a().load(d, dst, m);
            return self.define(dst);
        }
        let x = self.xmm(v);
        let dst = self.dest(&[]);
        self.a().reg_from_xmm(d, dst, x);
        self.define(dst);
    }

    /// Puts the canonical NaN in the place of any other.
    fn canonical(&mut self, fmt: Fmt, x: Xmm) {
        if self.is_sse() {
            return;
        }
        let d = fmt == Fmt::F64;
        self.a().fcompare(d, QUIET, x, x.into());
        let nan = self.jcc(Cc::P);
        self.aside(&[nan], |g| {
            g.nan(d, x);
            Ends::GoesOn
        });
    }

    /// Whether the guest's rules are the host's own.
    fn is_sse(&self) -> bool {
        self.layout.float == FloatRules::Sse
    }

    fn nan(&mut self, d: bool, x: Xmm) {
        self.a().fload_rip(d, x);
        self.constant_used(if d { constant::NAN64 } else { constant::NAN32 });
    }

    fn farith(&mut self, op: FBin, fmt: Fmt, a: u16, b: u16) {
        let opcode = match op {
            FBin::Add => 0x58,
            FBin::Mul => 0x59,
            FBin::Sub => 0x5c,
            FBin::Div => 0x5e,
            FBin::Min => MIN,
            FBin::Max => MAX,
        };
        let x = self.xmm(a);
        let y = self.float_operand(fmt, b);
        let dst = self.temp_xmm();
        self.a().farith(fmt == Fmt::F64, opcode, dst, x, y);
        self.canonical(fmt, dst);
        self.define_xmm(dst);
    }

    /// Equal operands differ at most as zeros do: the bits decide.
    fn fextremum(&mut self, op: FBin, fmt: Fmt, a: u16, b: u16) {
        let d = fmt == Fmt::F64;
        let (x, y) = (self.xmm(a), self.xmm(b));
        let dst = self.temp_xmm();
        self.a().fcompare(d, QUIET, x, y.into());
        let nan = self.jcc(Cc::P);
        let (opcode, equal) = if op == FBin::Min { (MIN, OR) } else { (MAX, AND) };
        self.a().farith(d, opcode, dst, x, y.into());
        let differ = self.a().jcc_short(Cc::Ne);
        self.a().flogic(equal, dst, x, y.into());
        self.a().bind_short(differ);
        self.aside(&[nan], |g| {
            let number = Soft::Bin(op, fmt, Rounding::Dynamic);
            g.call_soft(number, &[Value::Float(x), Value::Float(y)], Value::Float(dst));
            Ends::GoesOn
        });
        self.define_xmm(dst);
    }

    fn fun(&mut self, op: FUn, fmt: Fmt, rm: Rounding, v: u16) {
        let d = fmt == Fmt::F64;
        match op {
            FUn::Neg | FUn::Abs => {
                let x = self.xmm(v);
                let dst = self.temp_xmm();
                let (opcode, which) = match (op, d) {
                    (FUn::Neg, false) => (XOR, constant::SIGN32),
                    (FUn::Neg, true) => (XOR, constant::SIGN64),
                    (_, false) => (AND, constant::ABS32),
                    (_, true) => (AND, constant::ABS64),
                };
                self.flogic_constant(opcode, dst, x, which);
                self.define_xmm(dst);
            }
            FUn::Box => {
                let x = self.xmm(v);
                let dst = self.temp_xmm();
                self.flogic_constant(OR, dst, x, constant::BOX);
                self.define_xmm(dst);
            }
            FUn::Unbox => self.unbox(v),
            FUn::Sqrt if rm == Rounding::Dynamic => {
                let x = self.xmm(v);
                let dst = self.temp_xmm();
                self.a().farith(d, SQRT, dst, x, x.into());
                self.canonical(fmt, dst);
                self.define_xmm(dst);
            }
            // Widening is exact.
            FUn::Convert if rm == Rounding::Dynamic || !d => {
                let x = self.xmm(v);
                let dst = self.temp_xmm();
                self.a().farith(d, CONVERT, dst, x, x.into());
                self.canonical(if d { Fmt::F32 } else { Fmt::F64 }, dst);
                self.define_xmm(dst);
            }
            FUn::Sqrt | FUn::Convert => self.soft(Soft::Un(op, fmt, rm), &[v], Class::F),
        }
    }

    fn unbox(&mut self, v: u16) {
        let m = self.memory(v).filter(|_| self.place(v).xmm == NONE);
        let dst = self.temp_xmm();
        if let Some(m) = m {
            let high = Mem {
                disp: m.disp + 4,
                ..m
            };
            self.a().alu_imm(false, Alu::Cmp, high.into(), -1);
            self.a().fload(false, dst, m);
        } else {
            let x = self.xmm(v);
            let t = self.temp();
            self.a().reg_from_xmm(true, t, x);
            self.a().shift_imm(true, 5, t, 32);
            self.a().alu_imm(false, Alu::Cmp, t.into(), -1);
            self.a().fmov(dst, x);
            self.unpin(t);
        }
        let other = self.jcc(Cc::Ne);
        self.aside(&[other], |g| {
            g.nan(false, dst);
            Ends::GoesOn
        });
        self.define_xmm(dst);
    }

    fn fma(&mut self, fmt: Fmt, opcode: u8, args: [u16; 3], op: Soft) {
        let d = fmt == Fmt::F64;
        let [x, y, z] = args.map(|v| self.xmm(v));
        let dst = self.temp_xmm();
        self.a().fmov(dst, x);
        self.a().fma213(d, opcode, dst, y, z);
        self.a().fcompare(d, QUIET, dst, dst.into());
        let nan = self.jcc(Cc::P);
        self.aside(&[nan], |g| {
            g.call_soft(op, &[x, y, z].map(Value::Float), Value::Float(dst));
            Ends::GoesOn
        });
        self.define_xmm(dst);
    }

    fn fcmp(&mut self, cond: FCond, fmt: Fmt, a: u16, b: u16) {
        let d = fmt == Fmt::F64;
        // The second operand is greater: not so if the operands are unordered.
        let (first, second, opcode) = match cond {
            FCond::Eq | FCond::Unordered => (a, b, QUIET),
            FCond::UnorderedSignal => (a, b, SIGNALLING),
            FCond::Lt | FCond::Le => (b, a, SIGNALLING),
            FCond::LtQuiet | FCond::LeQuiet => (b, a, QUIET),
        };
        let x = self.xmm(first);
        let y = self.float_operand(fmt, second);
        self.a().fcompare(d, opcode, x, y);
        let dst = self.dest(&[]);
        match cond {
            FCond::Lt | FCond::LtQuiet => self.a().setcc(Cc::A, dst),
            FCond::Le | FCond::LeQuiet => self.a().setcc(Cc::Ae, dst),
            FCond::Unordered | FCond::UnorderedSignal => self.a().setcc(Cc::P, dst),
            FCond::Eq => {
                self.pin(dst);
                let t = self.temp();
                self.a().setcc(Cc::Np, t);
                self.a().setcc(Cc::E, dst);
                self.a().alu(false, Alu::And, dst, t.into());
            }
        }
        self.a().extend_from(1, false, dst, dst.into());
        self.define(dst);
    }

    fn ftoint(&mut self, fmt: Fmt, int: Int, rm: Rounding, v: u16) {
        let w = int == Int::I64;
        let truncate = rm == Rounding::Static(Round::TowardZero);
        if !(truncate || rm == Rounding::Dynamic) || matches!(int, Int::U32 | Int::U64) {
            return self.soft(Soft::ToInt(fmt, int, rm), &[v], Class::I);
        }
        let x = self.xmm(v);
        let dst = self.dest(&[]);
        self.a().int_from_float(fmt == Fmt::F64, w, truncate, dst, x);
        if self.is_sse() {
            return self.define(dst);
        }
        // Overflows just for 0x80...
        self.a().alu_imm(w, Alu::Cmp, dst.into(), 1);
        let wrong = self.jcc(Cc::O);
        self.aside(&[wrong], |g| {
            let result = Value::Int(Operand::Reg(dst));
            g.call_soft(Soft::ToInt(fmt, int, rm), &[Value::Float(x)], result);
            Ends::GoesOn
        });
        self.define(dst);
    }

    fn ffromint(&mut self, fmt: Fmt, int: Int, rm: Rounding, v: u16) {
        let d = fmt == Fmt::F64;
        let exact = d && matches!(int, Int::I32 | Int::U32);
        if int == Int::U64 || !exact && rm != Rounding::Dynamic {
            return self.soft(Soft::FromInt(fmt, int, rm), &[v], Class::F);
        }
        let dst = self.temp_xmm();
        let mut src: Reg = self.reg(v);
        if int == Int::U32 {
            let t = self.temp();
            self.a().mov(false, t, src);
            src = t;
        }
        // The conversion keeps what else is in the register: no need to wait for that.
        self.a().flogic(XOR, dst, dst, dst.into());
        self.a().float_from_int(d, int != Int::I32, dst, src.into());
        self.define_xmm(dst);
    }

    /// Has Rust compute an op, here.
    fn soft(&mut self, op: Soft, args: &[u16], class: Class) {
        // In registers first: pushing moves the spill words away.
        let mut values = [Value::Int(Operand::Imm(0)); 3];
        for (value, v) in values.iter_mut().zip(args) {
            *value = if self.is_float(*v) {
                Value::Float(self.xmm(*v))
            } else {
                Value::Int(Operand::Reg(self.reg(*v)))
            };
        }
        match class {
            Class::I => {
                let dst = self.dest(&[]);
                self.call_soft(op, &values, Value::Int(Operand::Reg(dst)));
                self.define(dst);
            }
            Class::F => {
                let x = self.temp_xmm();
                self.call_soft(op, &values, Value::Float(x));
                self.define_xmm(x);
            }
            Class::V => unreachable!("no op on vectors is computed here"),
        }
    }

    /// The call itself; it changes no register but the result's.
    fn call_soft(&mut self, op: Soft, args: &[Value], result: Value) {
        for i in 0..3 {
            match args.get(i) {
                None => self.a().push_imm(0),
                Some(Value::Int(operand)) => self.push_operand(*operand),
                Some(Value::Float(x)) => {
                    self.a().lea(RSP, Mem::new(RSP, -8));
                    self.a().fstore(true, Mem::new(RSP, 0), *x);
                }
            }
        }
        self.a().push_imm(op.number() as i32);
        self.call(self.thunks.soft);
        match result {
            Value::Int(Operand::Reg(dst)) => self.a().pop_reg(dst),
            Value::Int(_) => self.a().drop_top(),
            Value::Float(x) => {
                self.a().fload(true, x, Mem::new(RSP, 0));
                self.a().drop_top();
            }
        }
    }
}
