//! Ops on vectors for random blocks. Packed floating point isn't among them: this world's rules are RISC-V's
//! (`tests/x86_64` has it).

use cpu::ir::*;

use crate::random::{Builder, FLOATS};

const SIZES: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];

impl Builder<'_> {
    /// Slots that floating-point values are in as well, and others.
    fn vector_slot(&mut self) -> Slot {
        Slot(34 + 2 * self.rng.below(6) as u16)
    }

    fn new_vector(&mut self, op: Op) -> Val {
        let v = self.op(op);
        self.vectors.push(v);
        v
    }

    fn vector(&mut self) -> Val {
        match self.rng.below(10) {
            0..=6 if !self.vectors.is_empty() => self.rng.pick(&self.vectors.clone()),
            7 => {
                let (low, high) = (self.int(), self.int());
                self.new_vector(Op::VPair(low, high))
            }
            8 => {
                let c = self.rng.pick(&[0, u64::MAX, 5, 0x8000_7fff_0000_ffff]);
                let low = self.op(Op::Const(c));
                let c = if self.rng.below(2) == 0 {
                    c
                } else {
                    self.rng.pick(&FLOATS)
                };
                let high = self.op(Op::Const(c));
                self.new_vector(Op::VPair(low, high))
            }
            _ => {
                let s = self.vector_slot();
                self.new_vector(Op::GetV(s))
            }
        }
    }

    pub fn vector_op(&mut self) {
        let (a, b) = (self.vector(), self.vector());
        let imm = if self.rng.below(2) == 0 {
            self.rng.below(20)
        } else {
            self.rng.next()
        } as u8;
        let size = self.rng.pick(&SIZES);
        match self.rng.below(20) {
            0..=5 => {
                let op = self.rng.pick(VBin::ALL);
                self.new_vector(Op::VBin(op, a, b));
            }
            6 => {
                let op = self.rng.pick(VUn::ALL);
                self.new_vector(Op::VUn(op, a));
            }
            7 | 8 => {
                let op = self.rng.pick(VImm::ALL);
                self.new_vector(Op::VImm(op, a, imm));
            }
            9 => {
                let op = self.rng.pick(VImm2::ALL);
                self.new_vector(Op::VImm2(op, a, b, imm));
            }
            10 => {
                let mask = self.vector();
                self.new_vector(Op::VSelect(size, mask, a, b));
            }
            11 | 12 => {
                let x = self.int();
                self.new_vector(Op::VInsert(size, imm, a, x));
            }
            13 | 14 => {
                self.new_int(Op::VExtract(size, imm, a));
            }
            15 => {
                self.new_int(Op::VMask(size, a));
            }
            16 => {
                self.new_int(Op::VIsZero(a));
            }
            17 => {
                let v = self.op(Op::VToF(a));
                self.floats.push(v);
                if self.rng.below(2) == 0 {
                    let (x, y) = (self.float(), self.float());
                    let joined = self.op(Op::FJoin32(x, y));
                    self.floats.push(joined);
                }
            }
            18 if self.rng.below(2) == 0 => {
                let v = self.float();
                self.new_vector(Op::VFromF(v));
            }
            18 => {
                // A half.
                let s = Slot(self.vector_slot().0 + self.rng.below(2) as u16);
                self.new_int(Op::Get(s));
            }
            _ => {
                let (low, high) = (
                    self.op(Op::VExtract(Size::B8, 0, a)),
                    self.op(Op::VExtract(Size::B8, 1, b)),
                );
                let high = if self.rng.below(3) == 0 {
                    self.op(Op::Const(0))
                } else {
                    high
                };
                self.new_vector(Op::VPair(low, high));
            }
        }
    }

    pub fn vector_access(&mut self) {
        let (addr, offset) = (self.base(), self.offset());
        if self.rng.below(2) == 0 {
            self.new_vector(Op::LoadV { addr, offset });
        } else {
            let value = self.vector();
            self.op(Op::StoreV { addr, offset, value });
        }
    }

    /// An access checked, or a condition for a trap.
    pub fn check(&mut self) {
        match self.rng.below(3) {
            0 => {
                let (addr, offset) = (self.base(), self.offset());
                let (len, write) = (1 + self.rng.below(16) as u8, self.rng.below(2) == 0);
                self.op(Op::Check {
                    len,
                    write,
                    addr,
                    offset,
                });
            }
            1 => {
                // Rarely so.
                let (addr, bits) = (self.base(), self.rng.pick(&[1u64, 7, 15, 0x80]));
                let mask = self.op(Op::Const(bits));
                let cond = self.new_int(Op::Bin(Bin::And, Width::W64, addr, mask));
                self.op(Op::TrapIf {
                    cond,
                    cause: 5,
                    value: 6,
                });
            }
            _ => {
                let (a, b) = (self.int(), self.int());
                let cond = self.rng.pick(&[Cond::Eq, Cond::LtU, Cond::LtS, Cond::Ne]);
                let cond = self.new_int(Op::Cmp(cond, Width::W32, a, b));
                self.op(Op::TrapIf {
                    cond,
                    cause: 7,
                    value: 0,
                });
            }
        }
    }

    pub fn vector_set(&mut self) {
        let slot = self.vector_slot();
        match self.rng.below(5) {
            0 => {
                let (v, half) = (self.int(), self.rng.below(2) as u16);
                self.op(Op::Set(Slot(slot.0 + half), v));
            }
            1 => {
                // A copy.
                let from = self.vector_slot();
                let v = self.new_vector(Op::GetV(from));
                self.op(Op::SetV(slot, v));
            }
            _ => {
                let v = self.vector();
                self.op(Op::SetV(slot, v));
            }
        }
    }
}
