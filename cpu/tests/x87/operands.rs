//! Operands: special values, and random ones bent towards the hard cases. Deterministic.

use cpu::softfloat::extended::F80;

/// Random cases per instruction.
pub fn count(default: u64) -> u64 {
    match std::env::var("TICKBACK_X87_CASES") {
        Ok(n) => n.parse().expect("TICKBACK_X87_CASES is a number"),
        Err(_) => default,
    }
}

/// Exponent fields at and beside every edge.
const FIELDS: [u16; 30] = [
    0, 1, 2, 62, 63, 64, 65, 0x1fff, 0x2000, 0x3bcc, 0x3bcd, 0x3c00, 0x3c01, 0x3f69, 0x3f6a, 0x3f81, 0x3ffd,
    0x3ffe, 0x3fff, 0x4000, 0x400e, 0x401e, 0x403d, 0x403e, 0x403f, 0x407e, 0x43fe, 0x5ffe, 0x7ffd, 0x7ffe,
];

const SIGNIFICANDS: [u64; 22] = [
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fffe,
    0xc000_0000_0000_0000,
    0xc000_0000_0000_0001,
    0xbfff_ffff_ffff_ffff,
    0xa000_0000_0000_0000,
    0x8000_0080_0000_0000,
    0xffff_ff80_0000_0000,
    0xffff_ffff_ffff_fc00,
    0x8000_0000_0000_0400,
    0x8000_0000_0000_0c00,
    0xffff_ff00_0000_0000,
    0,
    1,
    2,
    0x7fff_ffff_ffff_ffff,
    0x4000_0000_0000_0000,
    0x4000_0000_0000_0001,
    0x0000_0000_0000_0800,
    0x0000_0100_0000_0000,
];

/// All combinations of the edges, of both signs, with infinities, NaNs and unsupported patterns.
pub fn specials() -> Vec<F80> {
    let mut values = Vec::new();
    for field in FIELDS.into_iter().chain([0x7fff]) {
        for significand in SIGNIFICANDS {
            values.push(F80::new(field, significand));
            values.push(F80::new(field | 0x8000, significand));
        }
    }
    values
}

/// A xorshift generator with a fixed seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A significand: uniform, few bits set, long runs, short ones; usually with its integer bit.
    pub fn significand(&mut self) -> u64 {
        let value = match self.below(8) {
            0 | 1 => self.next(),
            2 => 1 << self.below(64) | 1 << self.below(64),
            3 => (1u64 << self.below(64)).wrapping_neg(),
            4 => (1u64 << self.below(64)).wrapping_sub(self.below(3)),
            5 => self.pick(&SIGNIFICANDS),
            6 => self.next() << 11 | self.pick(&[0, 0x200, 0x400, 0x3ff, 0x401]),
            _ => self.next() << 40 | self.pick(&[0, 1 << 38, 1 << 39, (1 << 39) - 1, (1 << 39) + 1]),
        };
        if self.below(32) == 0 {
            value
        } else {
            value | 1 << 63
        }
    }

    fn sign(&mut self) -> u16 {
        (self.next() >> 63) as u16 * 0x8000
    }

    /// Any operand.
    pub fn operand(&mut self) -> F80 {
        let significand = self.significand();
        let field = match self.below(16) {
            0 => self.next() as u16 & 0x7fff,
            1 => self.pick(&FIELDS),
            2 => self.pick(&[0, 0x7fff]),
            3 => self.below(130) as u16,
            4 => 0x7fff - self.below(130) as u16,
            5 => return F80::new(self.pick(&[0, 0x7fff]) | self.sign(), significand),
            _ => 0x3fff - 80 + self.below(160) as u16,
        };
        let significand = if self.below(24) == 0 { 0 } else { significand };
        F80::new(field | self.sign(), significand)
    }

    /// An operand whose exponent is near that of `other`, so that sums cancel and round.
    pub fn beside(&mut self, other: F80) -> F80 {
        let field = i32::from(other.exp_field()) + self.below(140) as i32 - 70;
        F80::new(field.clamp(0, 0x7ffe) as u16 | self.sign(), self.significand())
    }

    /// An operand such that the product (`inverse`: the quotient) with `other` is near an end of the range.
    pub fn opposite(&mut self, other: F80, inverse: bool) -> F80 {
        let exp = i32::from(other.exp_field()) - 0x3fff;
        let exp = if inverse { -exp } else { exp };
        let goal = self.pick(&[-0x3fff - 63, -0x3fff - 24, -0x3fff, 0x3fff]) + self.below(9) as i32 - 4;
        let field = (if inverse { exp - goal } else { goal - exp }) + 0x3fff;
        F80::new(field.clamp(0, 0x7ffe) as u16 | self.sign(), self.significand())
    }

    /// Two operands.
    pub fn pair(&mut self) -> (F80, F80) {
        let a = self.operand();
        let b = match self.below(6) {
            0 | 1 => self.beside(a),
            2 => self.opposite(a, false),
            3 => self.opposite(a, true),
            _ => self.operand(),
        };
        (a, b)
    }

    /// A control word: all masked half of the time, any precision (the reserved one too) and rounding.
    pub fn control(&mut self) -> u16 {
        let masks = if self.below(2) == 0 {
            0x3f
        } else {
            self.next() as u16 & 0x3f
        };
        masks | 0x40 | (self.below(4) as u16) << 8 | (self.below(4) as u16) << 10
    }

    /// C0 to C3 at random.
    pub fn condition_codes(&mut self) -> u16 {
        self.next() as u16 & 0x4700
    }
}
