//! Integer ops. What they mean where the host's instructions differ is said in [`cpu::ir`].

use cpu::ir::{Bin, Cond, Un, Width};

use super::alloc::{COUNT, DIVIDEND, Operand};
use super::{Ends, Generator, swap_constant};
use crate::asm::{Alu, Cc, Mem, Reg};
use crate::gen_regs::HOMES;

/// Numbers of the shift group.
const ROL: u8 = 0;
const ROR: u8 = 1;
const SHL: u8 = 4;
const SHR: u8 = 5;
const SAR: u8 = 7;

/// The condition code of a comparison.
pub(super) fn cc_of(cond: Cond) -> Cc {
    match cond {
        Cond::Eq => Cc::E,
        Cond::Ne => Cc::Ne,
        Cond::LtS => Cc::L,
        Cond::GeS => Cc::Ge,
        Cond::LtU => Cc::B,
        Cond::GeU => Cc::Ae,
    }
}

/// The code that holds for swapped operands.
fn swapped(cc: Cc) -> Cc {
    match cc {
        Cc::L => Cc::G,
        Cc::Ge => Cc::Le,
        Cc::B => Cc::A,
        Cc::Ae => Cc::Be,
        other => other,
    }
}

impl Generator {
    pub(super) fn un(&mut self, un: Un, v: u16) {
        match un {
            Un::Not => {
                let src = self.rm(v);
                let dst = self.dest(&[v]);
                self.mov_operand(true, dst, src);
                self.a().not(true, dst);
                self.define(dst);
            }
            Un::Sext8 => self.extend(1, true, v),
            Un::Sext16 => self.extend(2, true, v),
            Un::Sext32 => self.extend(4, true, v),
            Un::Zext8 => self.extend(1, false, v),
            Un::Zext16 => self.extend(2, false, v),
            Un::Zext32 => self.extend(4, false, v),
            Un::Clz32 => self.count(false, 0xbd, v),
            Un::Clz64 => self.count(true, 0xbd, v),
            Un::Ctz32 => self.count(false, 0xbc, v),
            Un::Ctz64 => self.count(true, 0xbc, v),
            Un::Popcnt32 => self.count(false, 0xb8, v),
            Un::Popcnt64 => self.count(true, 0xb8, v),
            Un::Bswap64 => {
                let src = self.rm(v);
                let dst = self.dest(&[v]);
                self.mov_operand(true, dst, src);
                self.a().bswap(dst);
                self.define(dst);
            }
            Un::OrcB => self.orc_b(v),
        }
    }

    fn extend(&mut self, bytes: u64, signed: bool, v: u16) {
        let src = self.rm(v);
        let src = self.as_rm(src);
        let dst = self.dest(&[v]);
        self.a().extend_from(bytes, signed, dst, src);
        self.define(dst);
    }

    fn count(&mut self, w: bool, opcode: u8, v: u16) {
        let src = self.rm(v);
        let src = self.as_rm(src);
        let dst = self.dest(&[v]);
        self.a().count(w, opcode, dst, src);
        self.define(dst);
    }

    /// Bit 7 of each byte of `((v & 7f..) + 7f..) | v` says whether the byte isn't zero.
    fn orc_b(&mut self, v: u16) {
        let src = self.reg(v);
        let (t, u) = (self.temp(), self.temp());
        self.a().mov_imm(u, 0x7f7f_7f7f_7f7f_7f7f);
        self.a().mov(true, t, src);
        self.a().alu(true, Alu::And, t, u.into());
        self.a().alu(true, Alu::Add, t, u.into());
        self.a().alu(true, Alu::Or, t, src.into());
        self.a().shift_imm(true, SHR, t, 7);
        self.a().mov_imm(u, 0x0101_0101_0101_0101);
        self.a().alu(true, Alu::And, t, u.into());
        self.a().mov(true, u, t);
        self.a().shift_imm(true, SHL, u, 8);
        self.a().alu(true, Alu::Sub, u, t.into());
        self.result(u);
    }

    /// The result of the op is in temporary `r`; it goes home if it may.
    fn result(&mut self, r: Reg) {
        match self.hinted() {
            Some(home) => {
                let dst = HOMES[usize::from(home)];
                self.a().mov(true, dst, r);
                self.define(dst);
            }
            None => self.define(r),
        }
    }

    pub(super) fn bin(&mut self, bin: Bin, width: Width, a: u16, b: u16) {
        let w = width == Width::W64;
        match bin {
            Bin::Add => self.add(w, a, b),
            Bin::Sub => self.sub(w, a, b),
            Bin::And => self.and(w, a, b),
            Bin::Or => self.commutative(w, Alu::Or, a, b),
            Bin::Xor => self.commutative(w, Alu::Xor, a, b),
            Bin::Shl => self.shift(w, SHL, 1, a, b),
            Bin::Shr => self.shift(w, SHR, 3, a, b),
            Bin::Sar => self.shift(w, SAR, 2, a, b),
            Bin::Rol => self.rotate(w, ROL, a, b),
            Bin::Ror => self.rotate(w, ROR, a, b),
            Bin::Mul => self.mul(w, a, b),
            Bin::MulhU | Bin::MulhS | Bin::MulhSU if w => self.mul_high(bin, a, b),
            Bin::MulhU | Bin::MulhS | Bin::MulhSU => self.mul_high32(bin, a, b),
            Bin::DivS | Bin::DivU | Bin::RemS | Bin::RemU => self.divide(w, bin, a, b),
            Bin::MinS => self.extremum(w, Cc::L, a, b),
            Bin::MaxS => self.extremum(w, Cc::G, a, b),
            Bin::MinU => self.extremum(w, Cc::B, a, b),
            Bin::MaxU => self.extremum(w, Cc::A, a, b),
        }
    }

    fn source(&mut self, w: bool, v: u16) -> Operand {
        if w { self.operand(v) } else { self.operand32(v) }
    }

    fn add(&mut self, w: bool, a: u16, b: u16) {
        if let Some((other, v, scale)) = self.scaled(self.at) {
            let (base, index) = (self.reg(other), self.reg(v));
            let dst = self.dest(&[other, v]);
            self.a().lea(dst, Mem::indexed(base, index, scale, 0));
            return self.define(dst);
        }
        let (a, b) = if swap_constant(self, a, b) { (b, a) } else { (a, b) };
        let (x, y) = (self.source(w, a), self.source(w, b));
        let dst = self.dest(&[a, b]);
        match (x, y) {
            (Operand::Reg(r), _) if r == dst => self.alu(w, Alu::Add, dst, y),
            (_, Operand::Reg(r)) if r == dst => self.alu(w, Alu::Add, dst, x),
            (Operand::Reg(x), Operand::Imm(imm)) if w => self.a().lea(dst, Mem::new(x, imm)),
            (Operand::Reg(x), Operand::Imm(imm)) => self.a().lea32(dst, Mem::new(x, imm)),
            (Operand::Reg(x), Operand::Reg(y)) if w => self.a().lea(dst, Mem::indexed(x, y, 0, 0)),
            (Operand::Reg(x), Operand::Reg(y)) => self.a().lea32(dst, Mem::indexed(x, y, 0, 0)),
            _ => {
                self.mov_operand(w, dst, x);
                self.alu(w, Alu::Add, dst, y);
            }
        }
        self.define(dst);
    }

    fn sub(&mut self, w: bool, a: u16, b: u16) {
        let (x, y) = (self.source(w, a), self.source(w, b));
        let dst = self.dest(&[a]);
        match (x, y) {
            (Operand::Reg(r), _) if r == dst => self.alu(w, Alu::Sub, dst, y),
            (_, Operand::Reg(r)) if r == dst => {
                self.a().neg(w, dst);
                self.alu(w, Alu::Add, dst, x);
            }
            (Operand::Reg(x), Operand::Imm(imm)) if w && imm != i32::MIN => {
                self.a().lea(dst, Mem::new(x, -imm));
            }
            _ => {
                self.mov_operand(w, dst, x);
                self.alu(w, Alu::Sub, dst, y);
            }
        }
        self.define(dst);
    }

    fn commutative(&mut self, w: bool, op: Alu, a: u16, b: u16) {
        let (a, b) = if swap_constant(self, a, b) { (b, a) } else { (a, b) };
        let (x, y) = (self.source(w, a), self.source(w, b));
        let dst = self.dest(&[a, b]);
        match (x, y) {
            (_, Operand::Reg(r)) if r == dst && x != y => self.alu(w, op, dst, x),
            _ => {
                if x != Operand::Reg(dst) {
                    self.mov_operand(w, dst, x);
                }
                self.alu(w, op, dst, y);
            }
        }
        self.define(dst);
    }

    fn and(&mut self, w: bool, a: u16, b: u16) {
        let (a, b) = if swap_constant(self, a, b) { (b, a) } else { (a, b) };
        // Masks that are extensions.
        let bytes = match self.constant(b) {
            Some(0xff) => 1,
            Some(0xffff) => 2,
            Some(0xffff_ffff) => 4,
            _ => 0,
        };
        if bytes != 0 {
            return self.extend(bytes, false, a);
        }
        self.commutative(w, Alu::And, a, b);
    }

    fn shift(&mut self, w: bool, which: u8, pp: u8, a: u16, b: u16) {
        if let Some(count) = self.constant(b) {
            let count = count as u8 & if w { 63 } else { 31 };
            let x = self.rm(a);
            let dst = self.dest(&[a]);
            if x != Operand::Reg(dst) || !w && count == 0 {
                self.mov_operand(w, dst, x);
            }
            if which == SHL && count == 1 {
                self.a().alu(w, Alu::Add, dst, dst.into());
            } else if count != 0 {
                self.a().shift_imm(w, which, dst, count);
            }
            return self.define(dst);
        }
        let count = self.reg(b);
        let x = self.rm(a);
        let x = self.as_rm(x);
        let dst = self.dest(&[a, b]);
        self.a().shift_x(w, pp, dst, x, count);
        self.define(dst);
    }

    fn rotate(&mut self, w: bool, which: u8, a: u16, b: u16) {
        if let Some(count) = self.constant(b) {
            let bits = if w { 64 } else { 32 };
            let count = count as u8 & (bits - 1);
            let right = if which == ROR {
                count
            } else {
                (bits - count) & (bits - 1)
            };
            let x = self.rm(a);
            let x = self.as_rm(x);
            let dst = self.dest(&[a]);
            self.a().rorx(w, dst, x, right);
            return self.define(dst);
        }
        self.temp_at(COUNT);
        self.fetch(COUNT, b);
        let t = self.temp();
        self.fetch(t, a);
        self.a().rotate_cl(w, which, t);
        self.result(t);
    }

    fn mul(&mut self, w: bool, a: u16, b: u16) {
        let (a, b) = if swap_constant(self, a, b) { (b, a) } else { (a, b) };
        let (x, y) = (self.rm(a), self.source(w, b));
        if let Operand::Imm(imm) = y {
            let x = self.as_rm(x);
            let dst = self.dest(&[a]);
            self.a().imul_imm(w, dst, x, imm);
            return self.define(dst);
        }
        let dst = self.dest(&[a, b]);
        let (x, y) = if y == Operand::Reg(dst) { (y, x) } else { (x, y) };
        if x != Operand::Reg(dst) {
            self.mov_operand(w, dst, x);
        }
        let y = self.as_rm(y);
        self.a().imul(w, dst, y);
        self.define(dst);
    }

    fn mul_high(&mut self, bin: Bin, a: u16, b: u16) {
        let (rax, rdx) = DIVIDEND;
        self.temp_at(rax);
        self.temp_at(rdx);
        let y = self.reg(b);
        self.fetch(rax, a);
        if bin == Bin::MulhS {
            self.a().mul_div(true, 5, y.into());
        } else {
            self.a().mul_div(true, 4, y.into());
        }
        if bin == Bin::MulhSU {
            // A negative a was taken for a + 2^64.
            self.fetch(rax, a);
            self.a().shift_imm(true, SAR, rax, 63);
            self.a().alu(true, Alu::And, rax, y.into());
            self.a().alu(true, Alu::Sub, rdx, rax.into());
        }
        self.result(rdx);
    }

    /// By a multiplication of 64 bits.
    fn mul_high32(&mut self, bin: Bin, a: u16, b: u16) {
        let (t, u) = (self.temp(), self.temp());
        self.fetch(t, a);
        self.fetch(u, b);
        self.a().extend_from(4, bin != Bin::MulhU, t, t.into());
        self.a().extend_from(4, bin == Bin::MulhS, u, u.into());
        self.a().imul(true, t, u.into());
        self.a().shift_imm(true, SHR, t, 32);
        self.result(t);
    }

    fn divide(&mut self, w: bool, bin: Bin, a: u16, b: u16) {
        let (rax, rdx) = DIVIDEND;
        self.temp_at(rax);
        self.temp_at(rdx);
        let y = self.reg(b);
        let signed = matches!(bin, Bin::DivS | Bin::RemS);
        let quotient = matches!(bin, Bin::DivS | Bin::DivU);
        self.fetch(rax, a);
        // Divisors 0 and, signed, -1.
        let special = if signed {
            self.a().lea(rdx, Mem::new(y, 1));
            self.a().alu_imm(w, Alu::Cmp, rdx.into(), 1);
            self.jcc(Cc::Be)
        } else {
            self.a().test(w, y, y);
            self.jcc(Cc::E)
        };
        if signed {
            self.a().sign_into_rdx(w);
            self.a().mul_div(w, 7, y.into());
        } else {
            self.a().zero(rdx);
            self.a().mul_div(w, 6, y.into());
        }
        self.aside(&[special], |g| {
            if signed {
                g.a().test(w, y, y);
                let zero = g.a().jcc_short(Cc::E);
                // By -1.
                if quotient {
                    g.a().neg(w, rax);
                } else {
                    g.a().zero(rdx);
                }
                let done = g.a().jmp_short();
                g.a().bind_short(zero);
                g.by_zero(w, quotient);
                g.a().bind_short(done);
            } else {
                g.by_zero(w, quotient);
            }
            Ends::GoesOn
        });
        self.result(if quotient { rax } else { rdx });
    }

    /// The dividend is in rax.
    fn by_zero(&mut self, w: bool, quotient: bool) {
        let (rax, rdx) = DIVIDEND;
        if quotient {
            self.a()
                .mov_imm(rax, if w { u64::MAX } else { u64::from(u32::MAX) });
        } else if w {
            self.a().mov(true, rdx, rax);
        } else {
            self.a().mov(false, rdx, rax);
        }
    }

    /// `cc`: when the first operand is the one wanted.
    fn extremum(&mut self, w: bool, cc: Cc, a: u16, b: u16) {
        let (x, y) = (self.reg(a), self.reg(b));
        let dst = self.dest(&[a, b]);
        self.a().alu(w, Alu::Cmp, x, y.into());
        if dst == y {
            self.a().cmov(w, cc, dst, x.into());
        } else {
            if dst != x || !w {
                self.a().mov(w, dst, x);
            }
            self.a().cmov(w, cc.not(), dst, y.into());
        }
        self.define(dst);
    }

    /// Compares, and yields the condition code that says whether it holds.
    pub(super) fn compare_values(&mut self, cond: Cond, w: bool, a: u16, b: u16) -> Cc {
        let swap = swap_constant(self, a, b);
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let cc = if swap { swapped(cc_of(cond)) } else { cc_of(cond) };
        let (x, y) = (self.rm(a), self.source(w, b));
        match (x, y) {
            (Operand::Reg(r), Operand::Imm(0)) if !matches!(cc, Cc::B | Cc::Ae | Cc::A | Cc::Be) => {
                self.a().test(w, r, r);
            }
            (Operand::Reg(r), _) => self.alu(w, Alu::Cmp, r, y),
            (Operand::Mem(m), Operand::Imm(imm)) => self.a().alu_imm(w, Alu::Cmp, m.into(), imm),
            (Operand::Mem(m), Operand::Reg(r)) => self.a().alu_store(w, Alu::Cmp, m, r),
            (Operand::Mem(m), Operand::Mem(_)) => {
                let t = self.temp();
                self.a().load(true, t, m);
                self.alu(w, Alu::Cmp, t, y);
            }
            (Operand::Imm(_), _) => unreachable!("not an immediate"),
        }
        cc
    }

    pub(super) fn cmp(&mut self, cond: Cond, width: Width, a: u16, b: u16) {
        let cc = self.compare_values(cond, width == Width::W64, a, b);
        let dst = self.dest(&[a, b]);
        self.a().setcc(cc, dst);
        self.a().extend_from(1, false, dst, dst.into());
        self.define(dst);
    }

    pub(super) fn select(&mut self, c: u16, a: u16, b: u16) {
        let (c_reg, x, y) = (self.reg(c), self.reg(a), self.reg(b));
        let dst = self.dest(&[a, b, c]);
        self.a().test(true, c_reg, c_reg);
        if dst == x {
            self.a().cmov(true, Cc::E, dst, y.into());
        } else {
            self.a().mov(true, dst, y);
            self.a().cmov(true, Cc::Ne, dst, x.into());
        }
        self.define(dst);
    }
}
