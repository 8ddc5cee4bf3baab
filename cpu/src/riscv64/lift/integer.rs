//! What integer rows say: arithmetic, memory and control flow.

use super::Lifter;
use crate::ir::{Bin, Cond, Op, Rmw, Size, Target, Terminal, Un, Val, Width, eval_bin, eval_cmp};
use crate::riscv64::helper;
use crate::riscv64::rows::{Amo, Load, Lr, R, Shift, Store, Unary, X};

/// What a Zbs instruction does with its bit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bit {
    Clear,
    Extract,
    Invert,
    Set,
}

/// Arithmetic.
impl Lifter {
    pub fn constant_to(&mut self, rd: X, c: u64) {
        let v = self.constant(c);
        self.set_x(rd, v);
    }

    pub fn auipc(&mut self, rd: X, imm: i32) {
        let here = self.op(Op::Page(self.here()));
        let v = self.add(here, imm);
        self.set_x(rd, v);
    }

    pub fn alu(&mut self, bin: Bin, rd: X, rs1: X, rs2: X) {
        let (a, b) = (self.x(rs1), self.x(rs2));
        let v = self.bin(bin, Width::W64, a, b);
        self.set_x(rd, v);
    }

    pub fn alu_imm(&mut self, bin: Bin, rd: X, rs1: X, imm: i32) {
        if rs1 == X(0) {
            return self.constant_to(rd, eval_bin(bin, Width::W64, 0, imm as u64));
        }
        let a = self.x(rs1);
        let v = self.bin_constant(bin, Width::W64, a, imm as u64);
        self.set_x(rd, v);
    }

    /// A 32-bit operation, whose result is sign-extended.
    pub fn aluw(&mut self, bin: Bin, rd: X, rs1: X, rs2: X) {
        let (a, b) = (self.x(rs1), self.x(rs2));
        self.set_word(bin, rd, a, b);
    }

    pub fn aluw_imm(&mut self, bin: Bin, rd: X, rs1: X, imm: i32) {
        let (a, b) = (self.x(rs1), self.constant(imm as u64));
        self.set_word(bin, rd, a, b);
    }

    fn set_word(&mut self, bin: Bin, rd: X, a: Val, b: Val) {
        let v = self.bin(bin, Width::W32, a, b);
        let v = self.un(Un::Sext32, v);
        self.set_x(rd, v);
    }

    /// `addiw`; with immediate 0 it is `sext.w`.
    pub fn addiw(&mut self, rd: X, rs1: X, imm: i32) {
        if imm == 0 {
            return self.unary(Un::Sext32, Unary { rd, rs1 });
        }
        self.aluw_imm(Bin::Add, rd, rs1, imm);
    }

    pub fn unary(&mut self, un: Un, a: Unary) {
        let v = self.x(a.rs1);
        let v = self.un(un, v);
        self.set_x(a.rd, v);
    }

    pub fn set_if(&mut self, cond: Cond, rd: X, rs1: X, rs2: X) {
        let (a, b) = (self.x(rs1), self.x(rs2));
        self.set_comparison(cond, rd, a, b);
    }

    pub fn set_if_imm(&mut self, cond: Cond, rd: X, rs1: X, imm: i32) {
        let (a, b) = (self.x(rs1), self.constant(imm as u64));
        self.set_comparison(cond, rd, a, b);
    }

    fn set_comparison(&mut self, cond: Cond, rd: X, a: Val, b: Val) {
        let v = match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) => self.constant(eval_cmp(cond, Width::W64, a, b).into()),
            _ => self.op(Op::Cmp(cond, Width::W64, a, b)),
        };
        self.set_x(rd, v);
    }

    /// Zba: `rs2 + (rs1 << shift)`, of rs1's low 32 bits if `unsigned_word`.
    pub fn shift_add(&mut self, shift: u64, unsigned_word: bool, a: R) {
        let mut v = self.x(a.rs1);
        if unsigned_word {
            v = self.un(Un::Zext32, v);
        }
        let (shift, b) = (self.constant(shift), self.x(a.rs2));
        let v = self.bin(Bin::Shl, Width::W64, v, shift);
        let v = self.bin(Bin::Add, Width::W64, v, b);
        self.set_x(a.rd, v);
    }

    pub fn slli_uw(&mut self, a: Shift) {
        let v = self.x(a.rs1);
        let v = self.un(Un::Zext32, v);
        let shift = self.constant(a.shamt.into());
        let v = self.bin(Bin::Shl, Width::W64, v, shift);
        self.set_x(a.rd, v);
    }

    /// Zbb: the operation on rs1 and the complement of rs2.
    pub fn alu_not(&mut self, bin: Bin, a: R) {
        let (x, y) = (self.x(a.rs1), self.x(a.rs2));
        let y = self.un(Un::Not, y);
        let v = self.bin(bin, Width::W64, x, y);
        self.set_x(a.rd, v);
    }

    pub fn bit(&mut self, bit: Bit, a: R) {
        let index = self.x(a.rs2);
        self.single_bit(bit, a.rd, a.rs1, index);
    }

    pub fn bit_imm(&mut self, bit: Bit, a: Shift) {
        let index = self.constant(a.shamt.into());
        self.single_bit(bit, a.rd, a.rs1, index);
    }

    fn single_bit(&mut self, bit: Bit, rd: X, rs1: X, index: Val) {
        let (v, one) = (self.x(rs1), self.constant(1));
        let v = if let Bit::Extract = bit {
            let v = self.bin(Bin::Shr, Width::W64, v, index);
            self.bin(Bin::And, Width::W64, v, one)
        } else {
            let mask = self.bin(Bin::Shl, Width::W64, one, index);
            match bit {
                Bit::Set => self.bin(Bin::Or, Width::W64, v, mask),
                Bit::Invert => self.bin(Bin::Xor, Width::W64, v, mask),
                Bit::Clear | Bit::Extract => {
                    let mask = self.un(Un::Not, mask);
                    self.bin(Bin::And, Width::W64, v, mask)
                }
            }
        };
        self.set_x(rd, v);
    }
}

/// Memory.
impl Lifter {
    pub fn load(&mut self, size: Size, signed: bool, a: Load) {
        let (addr, offset) = self.address(a.rs1, a.offset);
        let v = self.op(Op::Load {
            size,
            signed,
            addr,
            offset,
        });
        self.set_x(a.rd, v);
    }

    pub fn store(&mut self, size: Size, a: Store) {
        let value = self.x(a.rs2);
        let (addr, offset) = self.address(a.rs1, a.offset);
        self.op(Op::Store {
            size,
            addr,
            offset,
            value,
        });
    }

    pub fn amo(&mut self, op: Rmw, size: Size, a: Amo) {
        let (addr, value) = (self.x(a.rs1), self.x(a.rs2));
        let v = self.op(Op::Rmw {
            op,
            size,
            addr,
            value,
        });
        self.set_x(a.rd, v);
    }

    pub fn lr(&mut self, size: Size, a: Lr) {
        let (addr, size) = (self.x(a.rs1), self.constant(size.bytes()));
        let v = self.call(helper::LR, [Some(addr), Some(size), None]);
        self.set_x(a.rd, v);
    }

    pub fn sc(&mut self, size: Size, a: Amo) {
        let (addr, size, value) = (self.x(a.rs1), self.constant(size.bytes()), self.x(a.rs2));
        let v = self.call(helper::SC, [Some(addr), Some(size), Some(value)]);
        self.set_x(a.rd, v);
    }
}

/// Control flow.
impl Lifter {
    pub fn jal(&mut self, rd: X, offset: i32) {
        let target = self.here() + offset;
        self.link(rd);
        self.end(Terminal::Jump(Target(target)));
    }

    /// The target is computed before rd is written: they may be one register.
    pub fn jalr(&mut self, rd: X, rs1: X, offset: i32) {
        let base = self.x(rs1);
        let target = self.add(base, offset);
        let terminal = match self.def(target) {
            Op::Page(p) => Terminal::Jump(Target(p & !1)),
            _ => {
                let mask = self.constant(!1);
                Terminal::Indirect(self.bin(Bin::And, Width::W64, target, mask))
            }
        };
        self.link(rd);
        self.end(terminal);
    }

    fn link(&mut self, rd: X) {
        if rd != X(0) {
            let next = self.op(Op::Page(self.next()));
            self.set_x(rd, next);
        }
    }

    pub fn branch(&mut self, cond: Cond, rs1: X, rs2: X, offset: i32) {
        let (a, b) = (self.x(rs1), self.x(rs2));
        let (taken, fall) = (Target(self.here() + offset), Target(self.next()));
        self.end(match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) if eval_cmp(cond, Width::W64, a, b) => Terminal::Jump(taken),
            (Some(_), Some(_)) => Terminal::Jump(fall),
            _ => Terminal::Branch {
                cond,
                width: Width::W64,
                a,
                b,
                taken,
                fall,
            },
        });
    }
}
