//! Operands: special values, and random ones bent towards the hard cases. Deterministic.
//!
//! Numbers of both formats are carried in a `u64`.

use cpu::softfloat::{F32, F64, Format};

/// What the tests need to know of a format besides its arithmetic.
pub trait Carried: Format {
    fn bits(raw: u64) -> Self::Bits;
    fn raw(bits: Self::Bits) -> u64;
}

impl Carried for F32 {
    fn bits(raw: u64) -> u32 {
        raw as u32
    }
    fn raw(bits: u32) -> u64 {
        bits.into()
    }
}

impl Carried for F64 {
    fn bits(raw: u64) -> u64 {
        raw
    }
    fn raw(bits: u64) -> u64 {
        bits
    }
}

/// Random cases per operation and rounding direction.
pub fn count(default: u64) -> u64 {
    match std::env::var("TICKBACK_SOFTFLOAT_CASES") {
        Ok(n) => n.parse().expect("TICKBACK_SOFTFLOAT_CASES is a number"),
        Err(_) => default,
    }
}

/// The number `2^exp * (1 + fraction / 2^(PRECISION - 1))`, `exp` in the normal range.
fn normal<F: Carried>(exp: i32, fraction: u64) -> u64 {
    ((exp + F::BIAS) as u64) << (F::PRECISION - 1) | fraction
}

/// Values at and beside every edge, of both signs.
pub fn specials<F: Carried>() -> Vec<u64> {
    let p = F::PRECISION as i32;
    let fraction_max = F::INTEGER_BIT - 1;
    let infinity = F::raw(F::infinity(false));
    let one = normal::<F>(0, 0);
    let mut values = vec![
        0,
        1,
        2,
        3,
        F::INTEGER_BIT >> 1,
        (F::INTEGER_BIT >> 1) + 1,
        fraction_max - 1,
        fraction_max,
        F::INTEGER_BIT,
        F::INTEGER_BIT + 1,
        F::INTEGER_BIT * 2,
        F::INTEGER_BIT * 2 - 1,
        one - 1,
        one,
        one + 1,
        normal::<F>(0, F::INTEGER_BIT >> 1),
        normal::<F>(-1, 0),
        normal::<F>(-1, 1),
        normal::<F>(1, 0),
        normal::<F>(1, F::INTEGER_BIT >> 2),
        normal::<F>(1, F::INTEGER_BIT >> 1),
        // Half an ulp of one, and beside it; products of neighbours of the square root of the smallest.
        normal::<F>(-p, 0),
        normal::<F>(-p, 1),
        normal::<F>(1 - p, 0),
        normal::<F>(p - 1, 1),
        normal::<F>(p - 2, 1),
        normal::<F>(p, 0) - 1,
        normal::<F>(F::EXP_MIN / 2, 0),
        normal::<F>(F::EXP_MIN / 2, fraction_max),
        normal::<F>(F::EXP_MIN / 2 - p / 2, 1),
        normal::<F>(F::BIAS / 2, fraction_max),
        normal::<F>(F::BIAS - p, 0),
        infinity - 2,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity + (F::INTEGER_BIT >> 1) - 1,
        infinity + (F::INTEGER_BIT >> 1),
        infinity + (F::INTEGER_BIT >> 1) + 5,
        infinity + fraction_max,
    ];
    let sign = F::raw(F::zero(true));
    values.extend(values.clone().iter().map(|v| v | sign));
    values
}

/// Values about the limits of the integer types, and halves, of both signs; to be converted.
pub fn integer_edges<F: Carried>() -> Vec<u64> {
    let mut values = Vec::new();
    for exp in [
        -1, 0, 1, 2, 22, 23, 24, 29, 30, 31, 32, 51, 52, 53, 61, 62, 63, 64, 65,
    ] {
        let middle = normal::<F>(exp, 0);
        for step in -9..=9 {
            values.push(middle.wrapping_add_signed(step));
        }
        // 2^exp plus and minus quarters, halves and ones.
        for log in -2..=1 {
            let below = (exp - 1 - log).clamp(0, 62) as u32;
            let above = (exp - log).clamp(0, 62) as u32;
            let top = F::PRECISION - 1;
            if above <= top {
                values.push(middle + (1 << (top - above)));
                values.push(middle + (3 << (top - above)));
            }
            if below <= top {
                values.push(middle - (1 << (top - below)));
            }
        }
    }
    let sign = F::raw(F::zero(true));
    values.extend(values.clone().iter().map(|v| v | sign));
    values
}

/// Integers at and beside every power of two, as the low bits of a `u64`.
pub fn integers() -> Vec<u64> {
    let mut values = Vec::new();
    for log in 0..64 {
        for step in -3..=3 {
            let near = (1u64 << log).wrapping_add_signed(step);
            values.extend([near, near.wrapping_neg(), near << 1 | 1]);
        }
        for low in 0..log {
            values.push(1 << log | 1 << low);
            values.push((1 << log) | ((1 << low) - 1));
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

    /// A significand fraction: uniform, few bits set, or long runs, as hit ties and carries.
    fn fraction<F: Carried>(&mut self) -> u64 {
        let width = u64::from(F::PRECISION - 1);
        let value = match self.below(5) {
            0 | 1 => self.next(),
            2 => 1 << self.below(width) | 1 << self.below(width),
            3 => (1u64 << self.below(width)).wrapping_neg(),
            _ => (1u64 << self.below(width)).wrapping_sub(self.below(3)),
        };
        value & (F::INTEGER_BIT - 1)
    }

    /// Any operand.
    pub fn operand<F: Carried>(&mut self, specials: &[u64]) -> u64 {
        let sign = F::raw(F::zero(true));
        match self.below(8) {
            0 => {
                let i = self.below(specials.len() as u64) as usize;
                specials[i].wrapping_add(self.below(5)).wrapping_sub(2) & (sign << 1).wrapping_sub(1)
            }
            1 => self.next() & (sign << 1).wrapping_sub(1),
            2 => {
                let exp_field = self.below(2 * u64::from(F::PRECISION));
                (self.next() & sign) | exp_field << (F::PRECISION - 1) | self.fraction::<F>()
            }
            _ => {
                let exp = self.below(160) as i32 - 80;
                (self.next() & sign) | normal::<F>(exp, self.fraction::<F>())
            }
        }
    }

    /// An operand whose exponent is near that of `other`, so that sums cancel and round.
    pub fn beside<F: Carried>(&mut self, other: u64) -> u64 {
        let sign = F::raw(F::zero(true));
        let exp_field = (other & (sign - 1)) >> (F::PRECISION - 1);
        let reach = u64::from(F::PRECISION) + 4;
        let near = (exp_field + self.below(2 * reach))
            .saturating_sub(reach)
            .min(u64::from(F::EXP_SPECIAL) - 1);
        (self.next() & sign) | near << (F::PRECISION - 1) | self.fraction::<F>()
    }

    /// Two operands.
    pub fn pair<F: Carried>(&mut self, specials: &[u64]) -> (u64, u64) {
        let a = self.operand::<F>(specials);
        let b = if self.below(2) == 0 {
            self.beside::<F>(a)
        } else {
            self.operand::<F>(specials)
        };
        (a, b)
    }

    /// Three operands; the third is often near the product of the others.
    pub fn triple<F: Carried>(&mut self, specials: &[u64]) -> (u64, u64, u64) {
        let (a, b) = self.pair::<F>(specials);
        if self.below(3) == 0 {
            return (a, b, self.operand::<F>(specials));
        }
        let env = cpu::softfloat::Env::riscv(cpu::softfloat::Round::NearestEven);
        let product = F::raw(cpu::softfloat::mul::<F>(
            F::bits(a),
            F::bits(b),
            env,
            &mut cpu::softfloat::Flags::empty(),
        ));
        let c = if self.below(4) == 0 {
            product ^ F::raw(F::zero(true))
        } else {
            self.beside::<F>(product)
        };
        (a, b, c)
    }
}
