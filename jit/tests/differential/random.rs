//! Random blocks that keep the rules of the IR.

use cpu::ir::*;
use cpu::softfloat::Round;

use crate::world::{BASE, LEN};

/// splitmix64
#[derive(Clone)]
pub struct Rng(pub u64);

const INTS: [u64; 14] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    i64::MAX as u64,
    1 << 31,
    0xffff_ffff,
    0xffff_ffff_8000_0000,
    0x7fff_ffff,
    2,
    63,
    32,
    0x1_0000_0000,
    0xff,
];

pub const FLOATS: [u64; 20] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0xfff8_0000_0000_1234,
    1,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x41df_ffff_ffc0_0000,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0xc1e0_0000_0020_0000,
    0x3ff8_0000_0000_0000,
];

const FLOATS32: [u32; 18] = [
    0,
    1 << 31,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc0_1234,
    1,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x4f00_0000,
    0x5f00_0000,
    0xcf00_0001,
    0x3f00_0000,
    0x3fc0_0000,
];

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn value(&mut self) -> u64 {
        match self.below(6) {
            0 => self.next(),
            1 => self.pick(&INTS),
            2 => self.pick(&FLOATS),
            3 => u64::from(self.pick(&FLOATS32)) | 0xffff_ffff_0000_0000,
            4 => self.below(100),
            _ => BASE + self.below(LEN),
        }
    }
}

pub struct Builder<'a> {
    pub rng: &'a mut Rng,
    ops: Vec<Op>,
    ints: Vec<Val>,
    pub floats: Vec<Val>,
    singles: Vec<Val>,
    pub vectors: Vec<Val>,
    bases: Vec<Val>,
}

impl Builder<'_> {
    pub fn op(&mut self, op: Op) -> Val {
        self.ops.push(op);
        Val((self.ops.len() - 1) as u16)
    }

    pub fn new_int(&mut self, op: Op) -> Val {
        let v = self.op(op);
        self.ints.push(v);
        v
    }

    fn slot(&mut self) -> Slot {
        Slot(self.rng.below(20) as u16)
    }

    fn float_slot(&mut self) -> Slot {
        Slot(32 + self.rng.below(10) as u16)
    }

    pub fn int(&mut self) -> Val {
        match self.rng.below(10) {
            0..=4 if !self.ints.is_empty() => {
                let n = self.ints.len() as u64;
                // Recent ones more often.
                let back = self.rng.below(n.min(6)).max(if self.rng.below(5) == 0 {
                    self.rng.below(n)
                } else {
                    0
                });
                self.ints[(n - 1 - back) as usize]
            }
            5 | 6 => {
                let c = self.rng.value();
                self.new_int(Op::Const(c))
            }
            7 => {
                let o = self.rng.below(10000) as i32 - 3000;
                self.new_int(Op::Page(o))
            }
            _ => {
                let s = self.slot();
                self.new_int(Op::Get(s))
            }
        }
    }

    /// An address that is mostly in memory.
    pub fn base(&mut self) -> Val {
        if !self.bases.is_empty() && self.rng.below(3) != 0 {
            return self.rng.pick(&self.bases.clone());
        }
        if self.rng.below(20) == 0 {
            return self.int();
        }
        let v = self.int();
        let mask = self.op(Op::Const(LEN - 1));
        let v = self.op(Op::Bin(Bin::And, Width::W64, v, mask));
        let low = self.op(Op::Const(BASE));
        let v = self.new_int(Op::Bin(Bin::Add, Width::W64, v, low));
        self.bases.push(v);
        v
    }

    pub fn offset(&mut self) -> i32 {
        match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(4096) as i32 - 2048,
            _ => self.rng.below(16) as i32 * 8 - 32,
        }
    }

    fn rm(&mut self) -> Rm {
        match self.rng.below(8) {
            0 => Rm::Static(Round::NearestEven),
            1 => Rm::Static(Round::TowardZero),
            2 => Rm::Static(Round::Down),
            3 => Rm::Static(Round::Up),
            4 => Rm::Static(Round::NearestMaxMagnitude),
            _ => Rm::Dynamic,
        }
    }

    /// A value of binary64.
    pub fn float(&mut self) -> Val {
        match self.rng.below(8) {
            0..=3 if !self.floats.is_empty() => self.rng.pick(&self.floats.clone()),
            4 | 5 => {
                let c = self.rng.pick(&FLOATS);
                let c = self.op(Op::Const(c));
                self.new_float(Op::FromBits(c))
            }
            _ => {
                let s = self.float_slot();
                self.new_float(Op::GetF(s))
            }
        }
    }

    fn new_float(&mut self, op: Op) -> Val {
        let v = self.op(op);
        self.floats.push(v);
        v
    }

    /// A value of binary32.
    fn single(&mut self) -> Val {
        match self.rng.below(8) {
            0..=3 if !self.singles.is_empty() => self.rng.pick(&self.singles.clone()),
            4 | 5 => {
                let c = u64::from(self.rng.pick(&FLOATS32));
                let c = self.op(Op::Const(c));
                self.new_single(Op::FromBits(c))
            }
            _ => {
                let v = self.float();
                self.new_single(Op::FUn(FUn::Unbox, Fmt::F32, Rm::Dynamic, v))
            }
        }
    }

    fn new_single(&mut self, op: Op) -> Val {
        let v = self.op(op);
        self.singles.push(v);
        v
    }

    fn of(&mut self, fmt: Fmt) -> Val {
        match fmt {
            Fmt::F32 => self.single(),
            Fmt::F64 => self.float(),
        }
    }

    fn new_of(&mut self, fmt: Fmt, op: Op) {
        match fmt {
            Fmt::F32 => self.new_single(op),
            Fmt::F64 => self.new_float(op),
        };
    }

    fn pure(&mut self) {
        match self.rng.below(10) {
            0 | 1 => {
                let v = self.int();
                let un = self.rng.pick(&UNS);
                self.new_int(Op::Un(un, v));
            }
            2..=6 => {
                let (a, b) = (self.int(), self.int());
                let (bin, w) = (self.rng.pick(&BINS), self.rng.pick(&[Width::W32, Width::W64]));
                let v = self.new_int(Op::Bin(bin, w, a, b));
                if w == Width::W32 && self.rng.below(2) == 0 {
                    self.new_int(Op::Un(Un::Sext32, v));
                }
            }
            7 => {
                let (a, b) = (self.int(), self.int());
                let (cond, w) = (self.rng.pick(&CONDS), self.rng.pick(&[Width::W32, Width::W64]));
                self.new_int(Op::Cmp(cond, w, a, b));
            }
            8 => {
                let (c, a, b) = (self.int(), self.int(), self.int());
                self.new_int(Op::Select(c, a, b));
            }
            _ if self.rng.below(4) == 0 => {
                // As lifters have it: numbers, and no more values than registers.
                let small = self.new_int(Op::Const(6));
                let args = [Some(small), Some(self.int()), Some(self.int()), None];
                let (known, value) = (self.int(), self.int());
                // As often known as not.
                let zero = self.new_int(Op::Const(0));
                let known = self.new_int(Op::Cmp(Cond::LtS, Width::W64, known, zero));
                let op = match self.rng.below(3) {
                    0 => Op::Pure { function: 0, args },
                    _ => Op::PureUnless {
                        known,
                        value,
                        function: 0,
                        args,
                    },
                };
                self.new_int(op);
            }
            _ => self.float_op(),
        }
    }

    fn float_op(&mut self) {
        let fmt = self.rng.pick(&[Fmt::F32, Fmt::F64]);
        let rm = self.rm();
        match self.rng.below(13) {
            0 if self.rng.below(4) == 0 => {
                self.new_int(Op::GetFlags);
            }
            0..=3 => {
                let (a, b) = (self.of(fmt), self.of(fmt));
                let op = self.rng.pick(&FBINS);
                self.new_of(fmt, Op::FBin(op, fmt, rm, a, b));
            }
            4 => {
                let v = self.of(fmt);
                let op = self.rng.pick(&[FUn::Neg, FUn::Abs, FUn::Sqrt]);
                self.new_of(fmt, Op::FUn(op, fmt, rm, v));
            }
            5 => {
                let v = self.of(fmt);
                let other = if fmt == Fmt::F32 { Fmt::F64 } else { Fmt::F32 };
                self.new_of(other, Op::FUn(FUn::Convert, fmt, rm, v));
            }
            6 | 7 => {
                let args = [self.of(fmt), self.of(fmt), self.of(fmt)];
                let (negate_product, negate_addend) = (self.rng.below(2) == 0, self.rng.below(2) == 0);
                self.new_of(
                    fmt,
                    Op::FFma {
                        fmt,
                        rm,
                        negate_product,
                        negate_addend,
                        args,
                    },
                );
            }
            8 => {
                let (a, b) = (self.of(fmt), self.of(fmt));
                let cond = self.rng.pick(&[FCond::Eq, FCond::Lt, FCond::Le]);
                if self.rng.below(2) == 0 {
                    self.new_int(Op::FOrder(cond == FCond::Lt, fmt, a, b));
                } else {
                    self.new_int(Op::FCmp(cond, fmt, a, b));
                }
            }
            9 => {
                let v = self.of(fmt);
                self.new_int(Op::FClass(fmt, v));
            }
            10 => {
                let v = self.of(fmt);
                let int = self.rng.pick(&INT_TYPES);
                self.new_int(Op::FToInt(fmt, int, rm, v));
            }
            11 => {
                let v = self.int();
                let int = self.rng.pick(&INT_TYPES);
                self.new_of(fmt, Op::FFromInt(fmt, int, rm, v));
            }
            _ => {
                let v = self.of(fmt);
                self.new_int(Op::ToBits(fmt, v));
            }
        }
    }

    fn access(&mut self, calls: bool) {
        let size = self
            .rng
            .pick(&[Size::B1, Size::B2, Size::B4, Size::B8, Size::B8, Size::B4]);
        match self.rng.below(16) {
            0..=5 => {
                let (addr, offset) = (self.base(), self.offset());
                let signed = self.rng.below(2) == 0;
                self.new_int(Op::Load {
                    size,
                    signed,
                    addr,
                    offset,
                });
            }
            6..=9 => {
                let (addr, offset, value) = (self.base(), self.offset(), self.int());
                self.op(Op::Store {
                    size,
                    addr,
                    offset,
                    value,
                });
            }
            10 => {
                let (addr, offset) = (self.base(), self.offset());
                let fmt = self.rng.pick(&[Fmt::F32, Fmt::F64]);
                self.new_of(fmt, Op::LoadF { fmt, addr, offset });
            }
            11 => {
                let (addr, offset) = (self.base(), self.offset());
                let fmt = self.rng.pick(&[Fmt::F32, Fmt::F64]);
                let value = self.of(fmt);
                self.op(Op::StoreF {
                    fmt,
                    addr,
                    offset,
                    value,
                });
            }
            12..=14 => {
                let size = self.rng.pick(&[Size::B4, Size::B8]);
                let (addr, value) = (self.base(), self.int());
                // Mostly aligned.
                let mask = self.op(Op::Const(!7));
                let addr = if self.rng.below(8) == 0 {
                    addr
                } else {
                    self.new_int(Op::Bin(Bin::And, Width::W64, addr, mask))
                };
                let op = self.rng.pick(&RMWS);
                self.new_int(Op::Rmw {
                    op,
                    size,
                    addr,
                    value,
                });
            }
            _ if calls => {
                let helper = self.rng.pick(&[0u16, 3, 4, 8, 12, 0, 1, 5, 2]);
                let mut args = [None; 3];
                for arg in &mut args {
                    if self.rng.below(3) != 0 {
                        *arg = Some(self.int());
                    }
                }
                self.new_int(Op::Call { helper, args });
            }
            _ => {}
        }
    }

    fn set(&mut self) {
        if self.rng.below(4) == 0 {
            let s = self.float_slot();
            if self.rng.below(2) == 0 {
                let v = self.single();
                let v = self.op(Op::FUn(FUn::Box, Fmt::F32, Rm::Dynamic, v));
                self.op(Op::SetF(s, v));
            } else {
                let v = self.float();
                self.op(Op::SetF(s, v));
            }
        } else {
            let (s, v) = (self.slot(), self.int());
            self.op(Op::Set(s, v));
        }
    }
}

const UNS: [Un; 15] = [
    Un::Not,
    Un::Sext8,
    Un::Sext16,
    Un::Sext32,
    Un::Zext8,
    Un::Zext16,
    Un::Zext32,
    Un::Clz32,
    Un::Clz64,
    Un::Ctz32,
    Un::Ctz64,
    Un::Popcnt32,
    Un::Popcnt64,
    Un::Bswap64,
    Un::OrcB,
];

const BINS: [Bin; 26] = [
    Bin::Add,
    Bin::Add,
    Bin::Add,
    Bin::Sub,
    Bin::And,
    Bin::Or,
    Bin::Xor,
    Bin::Shl,
    Bin::Shr,
    Bin::Sar,
    Bin::Rol,
    Bin::Ror,
    Bin::Mul,
    Bin::MulhU,
    Bin::MulhS,
    Bin::MulhSU,
    Bin::DivS,
    Bin::DivU,
    Bin::RemS,
    Bin::RemU,
    Bin::MinS,
    Bin::MaxS,
    Bin::MinU,
    Bin::MaxU,
    Bin::Sub,
    Bin::Shl,
];

const CONDS: [Cond; 6] = [Cond::Eq, Cond::Ne, Cond::LtS, Cond::GeS, Cond::LtU, Cond::GeU];
const FBINS: [FBin; 6] = [FBin::Add, FBin::Sub, FBin::Mul, FBin::Div, FBin::Min, FBin::Max];
const INT_TYPES: [Int; 4] = [Int::I32, Int::U32, Int::I64, Int::U64];
const RMWS: [Rmw; 9] = [
    Rmw::Swap,
    Rmw::Add,
    Rmw::And,
    Rmw::Or,
    Rmw::Xor,
    Rmw::MinS,
    Rmw::MaxS,
    Rmw::MinU,
    Rmw::MaxU,
];

/// A random block at the start of its page.
pub fn block(rng: &mut Rng) -> Block {
    let n = 1 + rng.below(12) as usize;
    block_of(rng, n)
}

/// Never the block itself, which would be linked and run on.
fn target(rng: &mut Rng) -> Target {
    match rng.below(0x3000) as i32 * 2 - 0x1000 {
        0 => Target(2),
        target => Target(target),
    }
}

/// A random block of `n` instructions, or one more.
pub fn block_of(rng: &mut Rng, n: usize) -> Block {
    let faults = rng.below(4) != 0;
    let floats = rng.below(3) == 0;
    let vectors = rng.below(3) == 0;
    let mut b = Builder {
        rng,
        ops: Vec::new(),
        ints: Vec::new(),
        floats: Vec::new(),
        vectors: Vec::new(),
        singles: Vec::new(),
        bases: Vec::new(),
    };
    let mut insns = Vec::new();
    let mut offset = 0;
    let path = b.rng.below(3) == 0;
    for i in 0..n {
        let len = b.rng.pick(&[2u8, 4]);
        insns.push(Insn {
            offset,
            len,
            first_op: b.ops.len() as u16,
        });
        offset += u16::from(len);
        for _ in 0..b.rng.below(3) {
            b.pure();
        }
        if floats {
            for _ in 0..b.rng.below(3) {
                b.float_op();
            }
        }
        for _ in 0..if vectors { b.rng.below(5) } else { 0 } {
            b.vector_op();
        }
        if faults && vectors && b.rng.below(3) == 0 {
            b.vector_access();
        }
        if faults && b.rng.below(16) == 0 {
            b.check();
        }
        if faults && b.rng.below(2) == 0 {
            b.access(true);
        }
        for _ in 0..if vectors { b.rng.below(3) } else { 0 } {
            b.vector_set();
        }
        if floats && b.rng.below(8) == 0 {
            let v = b.int();
            b.op(Op::SetFlags(v));
        }
        for _ in 0..b.rng.below(3) {
            b.set();
            if b.rng.below(3) == 0 {
                b.pure();
            }
        }
        if path && i + 1 < n && b.rng.below(2) == 0 {
            let (x, y) = (b.int(), b.int());
            let (cond, width) = (b.rng.pick(&CONDS), b.rng.pick(&[Width::W32, Width::W64]));
            let target = target(b.rng);
            b.op(Op::ExitIf {
                cond,
                width,
                a: x,
                b: y,
                target,
            });
        }
    }
    let terminal = match b.rng.below(9) {
        0 | 1 => Terminal::Jump(target(b.rng)),
        2..=4 => {
            let (x, y) = (b.int(), b.int());
            let (cond, width) = (b.rng.pick(&CONDS), b.rng.pick(&[Width::W32, Width::W64]));
            let (taken, fall) = (target(b.rng), target(b.rng));
            Terminal::Branch {
                cond,
                width,
                a: x,
                b: y,
                taken,
                fall,
            }
        }
        5 | 6 => Terminal::Indirect(b.int()),
        7 if b.rng.below(2) == 0 => Terminal::Ask(b.int(), target(b.rng)),
        7 => Terminal::Dispatch(target(b.rng)),
        _ if b.rng.below(2) == 0 => {
            let value = if b.rng.below(2) == 0 {
                TrapValue::Pc
            } else {
                TrapValue::Const(77)
            };
            Terminal::Trap { cause: 9, value }
        }
        _ => {
            let at = b.ops.len() as u16;
            insns.push(Insn {
                offset,
                len: 4,
                first_op: at,
            });
            let helper = b.rng.pick(&[16u16, 17, 20, 18]);
            b.op(Op::Call {
                helper,
                args: [None; 3],
            });
            Terminal::Left
        }
    };
    Block {
        insns,
        ops: b.ops,
        terminal,
        straddles: false,
    }
}
