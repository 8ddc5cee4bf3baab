//! Floating-point ops.

use cpu::ir::{Class, Fmt, Op};

use super::Generator;
use super::alloc::Operand;
use crate::asm::{Mem, RSP, Xmm};
use crate::run::Soft;

impl Generator {
    pub(super) fn float(&mut self, op: Op) {
        match op {
            Op::FromBits(v) => {
                let r = self.reg(v.0);
                let x = self.temp_xmm();
                self.a().to_xmm(true, x, r);
                self.define_xmm(x);
            }
            Op::ToBits(fmt, v) => {
                let x = self.xmm(v.0);
                let dst = self.dest(&[]);
                self.a().from_xmm(fmt == Fmt::F64, dst, x);
                self.define(dst);
            }
            Op::FBin(op, fmt, rm, a, b) => self.soft(Soft::Bin(op, fmt, rm), &[a.0, b.0], Class::F),
            Op::FUn(op, fmt, rm, v) => self.soft(Soft::Un(op, fmt, rm), &[v.0], Class::F),
            Op::FFma {
                fmt,
                rm,
                negate_product,
                negate_addend,
                args,
            } => {
                let op = Soft::Fma(fmt, rm, negate_product, negate_addend);
                self.soft(op, &args.map(|v| v.0), Class::F);
            }
            Op::FCmp(cond, fmt, a, b) => self.soft(Soft::Cmp(cond, fmt), &[a.0, b.0], Class::I),
            Op::FClass(fmt, v) => self.soft(Soft::Class(fmt), &[v.0], Class::I),
            Op::FToInt(fmt, int, rm, v) => self.soft(Soft::ToInt(fmt, int, rm), &[v.0], Class::I),
            Op::FFromInt(fmt, int, rm, v) => self.soft(Soft::FromInt(fmt, int, rm), &[v.0], Class::F),
            _ => unreachable!("no floating-point op"),
        }
    }

    /// Has Rust compute an op, here.
    fn soft(&mut self, op: Soft, args: &[u16], class: Class) {
        // In registers first: pushing moves the spill words away.
        let operands: Vec<Result<Operand, Xmm>> = args
            .iter()
            .map(|v| {
                if self.is_float(*v) {
                    Err(self.xmm(*v))
                } else {
                    Ok(Operand::Reg(self.reg(*v)))
                }
            })
            .collect();
        let (dst, x) = match class {
            Class::I => (Some(self.dest(&[])), None),
            Class::F => (None, Some(self.temp_xmm())),
        };
        for i in 0..3 {
            match operands.get(i) {
                None => self.a().push_imm(0),
                Some(Ok(operand)) => self.push_operand(*operand),
                Some(Err(x)) => {
                    self.a().lea(RSP, Mem::new(RSP, -8));
                    self.a().fstore(true, Mem::new(RSP, 0), *x);
                }
            }
        }
        self.a().push_imm(op.number() as i32);
        self.call(self.thunks.soft);
        if let Some(dst) = dst {
            self.a().pop_reg(dst);
            self.define(dst);
        }
        if let Some(x) = x {
            self.a().fload(true, x, Mem::new(RSP, 0));
            self.a().drop_top();
            self.define_xmm(x);
        }
    }
}
