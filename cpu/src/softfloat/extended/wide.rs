//! Numbers of 128 significant bits, in which the transcendental instructions are computed before they are rounded
//! once to 64 bits.
//!
//! Each operation is off by less than two units of its 128th bit. Bits lost are never forgotten, though: they stick
//! to the last bit, so that `x - tiny` is below `x` and a directed rounding goes the right way.

use super::round::round_pack;
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::round::shift_right_jam_wide;

/// `(-1)^sign * sig * 2^(exp - 127)`; bit 127 of `sig` is set, or all of it is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wide {
    pub sign: bool,
    pub exp: i32,
    pub sig: u128,
}

impl Wide {
    pub const ZERO: Self = Self::new(0, 0);
    pub const ONE: Self = Self::new(0, 1 << 127);
    pub const TWO: Self = Self::new(1, 1 << 127);
    /// π.
    pub const PI: Self = Self::new(1, 0xc90f_daa2_2168_c234_c4c6_628b_80dc_1cd1);
    /// ln(2).
    pub const LN_2: Self = Self::new(-1, 0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af);
    /// log2(e).
    pub const LOG2_E: Self = Self::new(0, 0xb8aa_3b29_5c17_f0bb_be87_fed0_691d_3e88);

    /// A positive number.
    pub const fn new(exp: i32, sig: u128) -> Self {
        Self {
            sign: false,
            exp,
            sig,
        }
    }

    /// `sig * 2^(exp - 127)`, normalised.
    pub fn normalised(sign: bool, exp: i32, sig: u128) -> Self {
        let shift = sig.leading_zeros();
        Self {
            sign,
            exp: exp - shift as i32,
            sig: sig.checked_shl(shift).unwrap_or(0),
        }
    }

    pub fn integer(value: i32) -> Self {
        Self::normalised(value < 0, 127, value.unsigned_abs().into())
    }

    pub fn is_zero(&self) -> bool {
        self.sig == 0
    }

    pub fn negated(self) -> Self {
        Self {
            sign: !self.sign,
            ..self
        }
    }

    pub fn with_sign(self, sign: bool) -> Self {
        Self { sign, ..self }
    }

    /// Times `2^n`.
    pub fn scaled(self, n: i32) -> Self {
        Self {
            exp: self.exp + n,
            ..self
        }
    }

    /// Whether the magnitude is smaller.
    pub fn is_within(&self, other: &Self) -> bool {
        self.is_zero() || (!other.is_zero() && (self.exp, self.sig) < (other.exp, other.sig))
    }

    pub fn plus(self, other: Self) -> Self {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let (large, small) = if self.is_within(&other) {
            (other, self)
        } else {
            (self, other)
        };
        let distance = large.exp.abs_diff(small.exp);
        if large.sign == small.sign {
            let y = shift_right_jam_wide(small.sig, distance);
            let (sum, carry) = large.sig.overflowing_add(y);
            if carry {
                return Self {
                    sign: large.sign,
                    exp: large.exp + 1,
                    sig: shift_right_jam_wide(sum, 1) | 1 << 127,
                };
            }
            return Self { sig: sum, ..large };
        }
        // A smaller operand that is shifted out entirely still takes one unit of the last bit.
        let y = shift_right_jam_wide(small.sig, distance);
        let difference = large.sig - y;
        if difference == 0 {
            return Self::ZERO;
        }
        Self::normalised(large.sign, large.exp, difference)
    }

    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    pub fn times(self, other: Self) -> Self {
        let (high, low) = widening_mul(self.sig, other.sig);
        let sign = self.sign != other.sign;
        let exp = self.exp + other.exp + 1;
        if high >> 127 != 0 || high == 0 {
            Self {
                sign,
                exp,
                sig: high | u128::from(low != 0),
            }
        } else {
            let sig = high << 1 | low >> 127 | u128::from(low << 1 != 0);
            Self {
                sign,
                exp: exp - 1,
                sig,
            }
        }
    }

    /// Divided by a small integer, not zero.
    pub fn over(self, n: u32) -> Self {
        let n = u128::from(n);
        let quotient = self.sig / n;
        let shift = quotient.leading_zeros() & 127;
        // The bits that the shift brings in come from the remainder, which is below 2^32 as the shift is at most 32.
        let rest = (self.sig % n) << shift;
        let sig = (quotient << shift) | (rest / n) | u128::from(!rest.is_multiple_of(n));
        Self {
            exp: self.exp - shift as i32,
            sig,
            ..self
        }
    }

    /// The quotient; `other` is not zero.
    pub fn divided_by(self, other: Self) -> Self {
        if self.is_zero() {
            return self;
        }
        let divisor = other.sig;
        let below = self.sig < divisor;
        // Long division; the remainder stays below the divisor, and its double is told from 2^128 by the carry.
        let (mut sig, mut rest) = if below {
            (0, self.sig)
        } else {
            (1u128, self.sig - divisor)
        };
        for _ in 0..if below { 128 } else { 127 } {
            let carry = rest >> 127 != 0;
            rest <<= 1;
            let bit = carry || rest >= divisor;
            if bit {
                rest = rest.wrapping_sub(divisor);
            }
            sig = sig << 1 | u128::from(bit);
        }
        Self {
            sign: self.sign != other.sign,
            exp: self.exp - other.exp - i32::from(below),
            sig: sig | u128::from(rest != 0),
        }
    }

    /// Rounded into a register, as an irrational number that this approximates: always inexact.
    pub fn round(self, env: &mut X87Env) -> F80 {
        round_pack(env, self.sign, self.exp, self.sig | 1, 64)
    }

    /// Rounded into a register, as it is.
    pub fn round_exact(self, env: &mut X87Env) -> F80 {
        round_pack(env, self.sign, self.exp, self.sig, 64)
    }
}

impl From<&Operand> for Wide {
    /// Of a zero or a finite number.
    fn from(a: &Operand) -> Self {
        match a.kind {
            Kind::Finite => Self {
                sign: a.sign,
                exp: a.exp,
                sig: u128::from(a.sig) << 64,
            },
            _ => Self::ZERO,
        }
    }
}

/// The 256-bit product, high and low half.
fn widening_mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (ah, al, bh, bl) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = al * bl;
    let middle = ah * bl + (low >> 64);
    let middle_low = al * bh + (middle & LOW);
    let high = ah * bh + (middle >> 64) + (middle_low >> 64);
    (high, middle_low << 64 | (low & LOW))
}

/// Sums `terms` until one no longer counts. Each term must be smaller than the last by some factor, or zero.
pub(super) fn sum(terms: impl Iterator<Item = Wide>) -> Wide {
    let mut total = Wide::ZERO;
    for term in terms {
        let negligible = term.is_zero() || (!total.is_zero() && term.exp < total.exp - 130);
        total = total.plus(term);
        if negligible {
            break;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `4 atan(1/5) - atan(1/239) = π/4` (Machin), `2 atanh(1/3) = ln 2`: in fixed point, by integers alone.
    #[test]
    fn constants() {
        const BITS: i32 = 124;
        let series = |n: i128, alternating: bool| {
            let mut power = (1i128 << BITS) / n;
            let (mut total, mut k) = (0, 1);
            while power != 0 {
                let negative = alternating && k % 4 == 3;
                total += if negative { -(power / k) } else { power / k };
                power /= n * n;
                k += 2;
            }
            total
        };
        let close = |wide: Wide, fixed: i128| {
            let ours = (wide.sig >> (127 - BITS - wide.exp)) as i128;
            assert!((ours - fixed).abs() < 1 << 9, "{wide:x?} {ours:x} {fixed:x}");
        };
        close(Wide::PI.scaled(-2), 4 * series(5, true) - series(239, true));
        close(Wide::LN_2, 2 * series(3, false));
        let one = Wide::LN_2.times(Wide::LOG2_E);
        assert!(one.minus(Wide::ONE).exp < -124, "{one:x?}");
    }

    #[test]
    fn operations_keep_what_they_lose() {
        let tiny = Wide::ONE.scaled(-1000);
        assert_eq!(Wide::ONE.minus(tiny), Wide::new(-1, u128::MAX - 1));
        assert_eq!(Wide::ONE.plus(tiny), Wide::new(0, 1 << 127 | 1));
        let third = Wide::ONE.divided_by(Wide::integer(3));
        assert_eq!(third, Wide::ONE.over(3));
        assert_eq!(third.times(Wide::integer(3)).minus(Wide::ONE).exp, -127);
        assert_eq!(Wide::integer(-6).divided_by(Wide::integer(3)), Wide::integer(-2));
        assert_eq!(Wide::integer(7).minus(Wide::integer(7)), Wide::ZERO);
    }
}
