//! Flags: what made them, and conditions on them.
//!
//! Every instruction that sets flags sets the CC slots (`flags.rs`). Within the block the lifter remembers which values
//! they hold, so that a condition becomes a comparison of the operands. At the start of a block nothing is known,
//! and a function of the CC slots decides. Both must mean the same in every case: where the manual leaves a flag
//! undefined, what the CC slots say holds.

use super::Lifter;
use super::builder::{log2, width};
use crate::ir::{Bin, Cond, Size, Un, Val, Width};
use crate::x86_64::flags::{self, Kind};
use crate::x86_64::pure;
use crate::x86_64::slots::{CC_DST, CC_OP, CC_SRC};

/// What the CC slots hold, and the operands that it was made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cc {
    kind: Kind,
    size: Size,
    /// First operand, for sums and differences.
    a: Option<Val>,
    /// CC_SRC.
    s: Val,
    /// CC_DST.
    r: Val,
    /// Carry or borrow that went in: 0 or 1.
    carry: Option<Val>,
}

/// A condition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    /// Decided.
    Const(bool),
    /// By a comparison.
    Cmp(Cond, Width, Val, Val),
}

impl Test {
    fn inverted(self) -> Test {
        match self {
            Test::Const(holds) => Test::Const(!holds),
            Test::Cmp(cond, width, a, b) => {
                let cond = match cond {
                    Cond::Eq => Cond::Ne,
                    Cond::Ne => Cond::Eq,
                    Cond::LtS => Cond::GeS,
                    Cond::GeS => Cond::LtS,
                    Cond::LtU => Cond::GeU,
                    Cond::GeU => Cond::LtU,
                };
                Test::Cmp(cond, width, a, b)
            }
        }
    }
}

/// Conditions in the encoding's order.
pub(super) mod condition {
    pub const O: u8 = 0;
    pub const B: u8 = 2;
    pub const Z: u8 = 4;
    pub const BE: u8 = 6;
    pub const S: u8 = 8;
    pub const P: u8 = 10;
    pub const L: u8 = 12;
    pub const LE: u8 = 14;
}

/// Setting flags.
impl Lifter {
    fn set_cc(&mut self, cc: Cc, op: Val) {
        self.set(CC_OP, op);
        if cc.kind != Kind::Flags {
            self.set(CC_DST, cc.r);
        }
        // A logical operation has no second one; but flags that a rotate made, dear and void now, need not be made.
        if cc.kind != Kind::Logic
            || matches!(
                self.cc,
                Some(Cc {
                    kind: Kind::Flags,
                    ..
                })
            )
        {
            self.set(CC_SRC, cc.s);
        }
        self.cc = Some(cc);
    }

    fn set_kind(&mut self, kind: Kind, size: Size, a: Option<Val>, s: Val, r: Val) {
        let op = self.constant(flags::cc(kind, log2(size)));
        let cc = Cc {
            kind,
            size,
            a,
            s,
            r,
            carry: None,
        };
        self.set_cc(cc, op);
    }

    /// `r = a + b`.
    pub fn flags_add(&mut self, size: Size, a: Val, b: Val, r: Val) {
        self.set_kind(Kind::Add, size, Some(a), b, r);
    }

    /// `r = a - b`.
    pub fn flags_sub(&mut self, size: Size, a: Val, b: Val, r: Val) {
        self.set_kind(Kind::Sub, size, Some(a), b, r);
    }

    /// `r = a + b + carry` (`Kind::Add`) or `a - b - carry` (`Kind::Sub`), the carry 0 or 1.
    pub fn flags_carry(&mut self, kind: Kind, size: Size, carry: Val, a: Val, b: Val, r: Val) {
        let op = self.add(carry, flags::cc(kind, log2(size)) as i64);
        let cc = Cc {
            kind,
            size,
            a: Some(a),
            s: b,
            r,
            carry: Some(carry),
        };
        self.set_cc(cc, op);
    }

    /// The result of a logical operation.
    pub fn flags_logic(&mut self, size: Size, r: Val) {
        self.set_kind(Kind::Logic, size, None, r, r);
    }

    /// inc, dec, shifts and products, as `flags.rs` says.
    pub fn flags_of(&mut self, kind: Kind, size: Size, s: Val, r: Val) {
        self.set_kind(kind, size, None, s, r);
    }

    /// The flags themselves, at their places; other bits are 0.
    pub fn flags_are(&mut self, flags: Val) {
        self.set_kind(Kind::Flags, Size::B1, None, flags, flags);
    }

    /// As [`Lifter::flags_of`] if `count` isn't 0, else the flags stay.
    pub fn flags_if(&mut self, count: Val, kind: Kind, size: Size, s: Val, r: Val) {
        let (op0, r0, s0) = (self.get(CC_OP), self.get(CC_DST), self.get(CC_SRC));
        let op = self.constant(flags::cc(kind, log2(size)));
        let op = self.select(count, op, op0);
        let r = self.select(count, r, r0);
        let s = self.select(count, s, s0);
        self.set(CC_OP, op);
        self.set(CC_DST, r);
        self.set(CC_SRC, s);
        self.cc = None;
    }
}

/// Reading flags.
impl Lifter {
    /// The six flags at their places, all other bits 0.
    pub fn flags_value(&mut self) -> Val {
        match self.cc {
            Some(Cc {
                kind: Kind::Flags, s, ..
            }) => s,
            _ => {
                let (op, dst, src) = (self.get(CC_OP), self.get(CC_DST), self.get(CC_SRC));
                self.pure(pure::FLAGS, [op, dst, src])
            }
        }
    }

    /// A condition in the encoding's order, 0 to 15.
    pub fn test(&mut self, number: u8) -> Test {
        let even = number & !1;
        let test = self.cc.and_then(|cc| self.known(cc, even));
        let test = test.unwrap_or_else(|| {
            let (op, dst, src) = (self.get(CC_OP), self.get(CC_DST), self.get(CC_SRC));
            if matches!(even, condition::Z | condition::S) {
                return self.of_result(even, op, dst, src);
            }
            let number = self.constant(even.into());
            let v = match self.of_difference(even, op, dst, src) {
                // The commonest by far: `cmp`, and two jumps that look at it.
                Some((known, value)) => {
                    let args = [number, op, dst, src].map(Some);
                    self.op(crate::ir::Op::PureUnless {
                        known,
                        value,
                        function: pure::COND,
                        args,
                    })
                }
                None => self.pure(pure::COND, [number, op, dst, src]),
            };
            let zero = self.constant(0);
            Test::Cmp(Cond::Ne, Width::W32, v, zero)
        });
        let test = match test {
            Test::Cmp(cond, w, a, b) => match (self.as_constant(a), self.as_constant(b)) {
                (Some(a), Some(b)) => Test::Const(crate::ir::eval_cmp(cond, w, a, b)),
                _ => test,
            },
            Test::Const(_) => test,
        };
        if number & 1 != 0 { test.inverted() } else { test }
    }

    /// Whether the flags are those of a subtraction, and what a condition is then.
    fn of_difference(&mut self, even: u8, op: Val, dst: Val, src: Val) -> Option<(Val, Val)> {
        let (cond, swapped) = match even {
            condition::B => (Cond::LtU, false),
            condition::BE => (Cond::GeU, true),
            condition::L => (Cond::LtS, false),
            condition::LE => (Cond::GeS, true),
            _ => return None,
        };
        let unused = self.unused_bits(op);
        let r = self.bin(Bin::Shl, Width::W64, dst, unused);
        let s = self.bin(Bin::Shl, Width::W64, src, unused);
        let a = self.bin(Bin::Add, Width::W64, r, s);
        let (x, y) = if swapped { (s, a) } else { (a, s) };
        let value = self.cmp(cond, Width::W64, x, y);
        let kind = self.and(op, 0xff);
        let sub = self.constant(Kind::Sub as u64);
        Some((self.cmp(Cond::Eq, Width::W64, kind, sub), value))
    }

    /// 64 less the bits of the operands. (A count is taken modulo 64.)
    fn unused_bits(&mut self, op: Val) -> Val {
        let size = self.shr(op, 8);
        let byte = self.constant(8);
        let bits = self.bin(Bin::Shl, Width::W64, byte, size);
        let zero = self.constant(0);
        self.bin(Bin::Sub, Width::W64, zero, bits)
    }

    /// ZF or SF by the CC slots.
    fn of_result(&mut self, number: u8, op: Val, dst: Val, src: Val) -> Test {
        // The result at the upper end of a word.
        let unused = self.unused_bits(op);
        let zero = self.constant(0);
        let result = self.bin(Bin::Shl, Width::W64, dst, unused);
        // The flag itself, where flags are what the slots hold.
        let kind = self.and(op, 0xff);
        let (cond, flag) = if number == condition::Z {
            let flag = self.and(src, flags::ZF);
            (Cond::Eq, self.bin_constant(Bin::Xor, Width::W64, flag, flags::ZF))
        } else {
            (Cond::LtS, self.shl(src, 56))
        };
        let v = self.select(kind, result, flag);
        Test::Cmp(cond, Width::W64, v, zero)
    }

    /// A condition as 0 or 1.
    pub fn condition(&mut self, number: u8) -> Val {
        match self.test(number) {
            Test::Const(holds) => self.constant(holds.into()),
            Test::Cmp(cond, width, a, b) => self.cmp(cond, width, a, b),
        }
    }

    /// CF as 0 or 1.
    pub fn carry(&mut self) -> Val {
        self.condition(condition::B)
    }

    /// ZF as 0 or 1.
    pub fn zero(&mut self) -> Val {
        self.condition(condition::Z)
    }

    /// A comparison of operands narrower than 32 bits needs them extended.
    fn compare(&mut self, cond: Cond, size: Size, a: Val, b: Val) -> Test {
        let extend = match cond {
            Cond::LtS | Cond::GeS => Lifter::sx,
            Cond::Eq | Cond::Ne | Cond::LtU | Cond::GeU => Lifter::zx,
        };
        let (a, b) = match size {
            Size::B1 | Size::B2 => (extend(self, size, a), extend(self, size, b)),
            Size::B4 | Size::B8 => (a, b),
        };
        Test::Cmp(cond, width(size), a, b)
    }

    fn compare_constant(&mut self, cond: Cond, size: Size, a: Val, c: u64) -> Test {
        let c = self.constant(c);
        self.compare(cond, size, a, c)
    }

    fn any(&mut self, a: Test, b: Test) -> Test {
        match (a, b) {
            (Test::Const(true), _) | (_, Test::Const(true)) => Test::Const(true),
            (Test::Const(false), t) | (t, Test::Const(false)) => t,
            (Test::Cmp(c1, w1, a1, b1), Test::Cmp(c2, w2, a2, b2)) => {
                let (v, w) = (self.cmp(c1, w1, a1, b1), self.cmp(c2, w2, a2, b2));
                let v = self.or(v, w);
                let zero = self.constant(0);
                Test::Cmp(Cond::Ne, Width::W32, v, zero)
            }
        }
    }

    /// A bit of a value.
    fn bit(&mut self, v: Val, mask: u64) -> Test {
        let v = self.and(v, mask);
        let zero = self.constant(0);
        Test::Cmp(Cond::Ne, Width::W32, v, zero)
    }

    /// An even condition by operands, where that is simple.
    fn known(&mut self, cc: Cc, number: u8) -> Option<Test> {
        use condition::*;
        if cc.kind == Kind::Flags {
            return Some(self.by_flags(cc.s, number));
        }
        let Cc { kind, size, s, r, .. } = cc;
        let msb = 1 << (8 * size.bytes() - 1);
        Some(match (number, kind) {
            (Z, Kind::Sub) if let (Some(a), None) = (cc.a, cc.carry) => self.compare(Cond::Eq, size, a, s),
            (Z, _) => self.compare_constant(Cond::Eq, size, r, 0),
            (S, _) => self.compare_constant(Cond::LtS, size, r, 0),
            (B, Kind::Add | Kind::Sub) => self.carry_out(cc)?,
            (BE, Kind::Sub) if let (Some(a), None) = (cc.a, cc.carry) => self.compare(Cond::GeU, size, s, a),
            (L, Kind::Sub) if let (Some(a), None) = (cc.a, cc.carry) => self.compare(Cond::LtS, size, a, s),
            (LE, Kind::Sub) if let (Some(a), None) = (cc.a, cc.carry) => self.compare(Cond::GeS, size, s, a),
            (BE, Kind::Add | Kind::Sub) => {
                let (b, z) = (self.carry_out(cc)?, self.compare_constant(Cond::Eq, size, r, 0));
                self.any(b, z)
            }
            (B | O, Kind::Logic) => Test::Const(false),
            (BE, Kind::Logic) => self.compare_constant(Cond::Eq, size, r, 0),
            (L, Kind::Logic) => self.compare_constant(Cond::LtS, size, r, 0),
            (LE, Kind::Logic) => {
                let zero = self.constant(0);
                self.compare(Cond::GeS, size, zero, r)
            }
            (B, Kind::Inc | Kind::Dec) => self.bit(s, 1),
            (B, Kind::Shr | Kind::Sar) => self.bit(s, 1),
            (B, Kind::Shl) if size != Size::B8 => self.bit(s, msb),
            (B, Kind::Shl) => self.compare_constant(Cond::LtS, size, s, 0),
            (B | O, Kind::Mul) => {
                let zero = self.constant(0);
                Test::Cmp(Cond::Ne, Width::W64, s, zero)
            }
            _ => return None,
        })
    }

    /// The carry of a sum or the borrow of a difference.
    fn carry_out(&mut self, cc: Cc) -> Option<Test> {
        let a = cc.a?;
        let (low, high) = match cc.kind {
            Kind::Add => (cc.r, cc.s),
            _ => (a, cc.s),
        };
        let below = self.compare(Cond::LtU, cc.size, low, high);
        let Some(carry) = cc.carry else {
            return Some(below);
        };
        // With a carry in, equality is enough.
        let equal = self.compare(Cond::Eq, cc.size, low, high);
        let Test::Cmp(cond, w, a, b) = equal else {
            return None;
        };
        let equal = self.cmp(cond, w, a, b);
        let equal = self.bin(Bin::And, Width::W64, equal, carry);
        let zero = self.constant(0);
        Some(self.any(below, Test::Cmp(Cond::Ne, Width::W32, equal, zero)))
    }

    fn by_flags(&mut self, f: Val, number: u8) -> Test {
        use condition::*;
        let single = match number {
            O => flags::OF,
            B => flags::CF,
            Z => flags::ZF,
            BE => flags::CF | flags::ZF,
            S => flags::SF,
            P => flags::PF,
            _ => 0,
        };
        if single != 0 {
            return self.bit(f, single);
        }
        // SF differs from OF, four bits above.
        let other = self.shr(f, 4);
        let v = self.bin(Bin::Xor, Width::W64, f, other);
        let less = self.bit(v, flags::SF);
        if number == L {
            return less;
        }
        let zero = self.bit(f, flags::ZF);
        self.any(less, zero)
    }

    /// Flags with ZF and CF as given (0 or 1) and the others clear.
    pub fn flags_zero_carry(&mut self, zero: Val, carry: Val) {
        let zero = self.shl(zero, 6);
        let flags = self.or(zero, carry);
        self.flags_are(flags);
    }

    /// Flags as they are but for `mask`, whose bits come from `new`.
    pub fn flags_with(&mut self, mask: u64, new: Val) {
        let old = self.flags_value();
        let old = self.and(old, flags::ARITHMETIC & !mask);
        let flags = self.or(old, new);
        self.flags_are(flags);
    }

    /// The most significant bit of an operand as 0 or 1.
    pub fn sign_bit(&mut self, size: Size, v: Val) -> Val {
        let v = self.shr(v, 8 * size.bytes() - 1);
        match size {
            Size::B8 => v,
            Size::B1 | Size::B2 | Size::B4 => self.and(v, 1),
        }
    }

    /// Negation of a 0 or 1.
    pub fn not_bit(&mut self, v: Val) -> Val {
        match self.def(v) {
            crate::ir::Op::Cmp(cond, w, a, b) => {
                let Test::Cmp(cond, w, a, b) = Test::Cmp(cond, w, a, b).inverted() else {
                    return v;
                };
                self.cmp(cond, w, a, b)
            }
            _ => self.bin_constant(Bin::Xor, Width::W64, v, 1),
        }
    }

    /// The complement of all bits.
    pub fn not(&mut self, v: Val) -> Val {
        self.un(Un::Not, v)
    }
}
