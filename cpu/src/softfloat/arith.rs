//! Addition, subtraction, multiplication, division and square root. IEEE 754-2019, 5.4.1.
//!
//! Each operation has a short path for two finite nonzero operands, and a cold one for the rest.

use super::format::{invalid, propagate};
use super::fused::add_wide;
use super::round::{HALF, round_pack, shift_right_jam, zero_sum_sign};
use super::{Class, Env, Flags, Format, Unpacked};

/// `a + b`.
#[inline]
pub fn add<F: Format>(a: F::Bits, b: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    sum::<F>(F::unpack(a), F::unpack(b), false, env, flags)
}

/// `a - b`.
#[inline]
pub fn sub<F: Format>(a: F::Bits, b: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    sum::<F>(F::unpack(a), F::unpack(b), true, env, flags)
}

/// `x + y`, or `x - y` if `negate`.
#[inline]
fn sum<F: Format>(x: Unpacked, y: Unpacked, negate: bool, env: Env, flags: &mut Flags) -> F::Bits {
    if x.class != Class::Finite || y.class != Class::Finite {
        return sum_special::<F>(x, y, negate, env, flags);
    }
    let y_sign = y.sign ^ negate;
    if F::PRECISION > 62 {
        // No room for guard bits below the significand.
        let wide = |u: Unpacked| u128::from(u.sig) << 64;
        return add_wide::<F>((x.sign, x.exp, wide(x)), (y_sign, y.exp, wide(y)), env, flags);
    }
    // Order by magnitude. What the smaller one loses in its shift stays visible as a sticky bit, which
    // suffices: bits are lost only by shifts of at least two, after which at most one leading bit cancels.
    let swap = (x.exp, x.sig) < (y.exp, y.sig);
    let (big, small, sign) = if swap { (y, x, y_sign) } else { (x, y, x.sign) };
    let addend = shift_right_jam(small.sig, big.exp.abs_diff(small.exp));
    if x.sign == y_sign {
        let (sum, carry) = big.sig.overflowing_add(addend);
        if carry {
            round_pack::<F>(sign, big.exp + 1, HALF | sum >> 1 | sum & 1, 0, env, flags)
        } else {
            round_pack::<F>(sign, big.exp, sum, 0, env, flags)
        }
    } else {
        let difference = big.sig - addend;
        if difference == 0 {
            return F::zero(zero_sum_sign(env.round));
        }
        let shift = difference.leading_zeros();
        round_pack::<F>(sign, big.exp - shift as i32, difference << shift, 0, env, flags)
    }
}

#[cold]
fn sum_special<F: Format>(x: Unpacked, y: Unpacked, negate: bool, env: Env, flags: &mut Flags) -> F::Bits {
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[x, y], env.nan, flags);
    }
    let y_sign = y.sign ^ negate;
    match (x.class, y.class) {
        (Class::Infinity, Class::Infinity) if x.sign != y_sign => invalid::<F>(env.nan, flags),
        (Class::Infinity, _) => F::infinity(x.sign),
        (_, Class::Infinity) => F::infinity(y_sign),
        (Class::Zero, Class::Zero) if x.sign == y_sign => F::zero(y_sign),
        (Class::Zero, Class::Zero) => F::zero(zero_sum_sign(env.round)),
        (Class::Zero, _) => round_pack::<F>(y_sign, y.exp, y.sig, 0, env, flags),
        (_, _) => round_pack::<F>(x.sign, x.exp, x.sig, 0, env, flags),
    }
}

/// `a * b`.
#[inline]
pub fn mul<F: Format>(a: F::Bits, b: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    let (x, y) = (F::unpack(a), F::unpack(b));
    if x.class != Class::Finite || y.class != Class::Finite {
        return mul_special::<F>(x, y, env, flags);
    }
    let (exp, product) = product(x, y);
    let sign = x.sign ^ y.sign;
    round_pack::<F>(sign, exp, (product >> 64) as u64, product as u64, env, flags)
}

/// The exact product of two finite magnitudes: `product * 2^(exp - 127)`, bit 127 set.
#[inline]
pub(super) fn product(x: Unpacked, y: Unpacked) -> (i32, u128) {
    let product = u128::from(x.sig) * u128::from(y.sig);
    let exp = x.exp + y.exp;
    if product >> 127 != 0 {
        (exp + 1, product)
    } else {
        (exp, product << 1)
    }
}

#[cold]
fn mul_special<F: Format>(x: Unpacked, y: Unpacked, env: Env, flags: &mut Flags) -> F::Bits {
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[x, y], env.nan, flags);
    }
    let sign = x.sign ^ y.sign;
    match (x.class, y.class) {
        (Class::Infinity, Class::Zero) | (Class::Zero, Class::Infinity) => invalid::<F>(env.nan, flags),
        (Class::Infinity, _) | (_, Class::Infinity) => F::infinity(sign),
        (_, _) => F::zero(sign),
    }
}

/// `a / b`.
#[inline]
pub fn div<F: Format>(a: F::Bits, b: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    let (x, y) = (F::unpack(a), F::unpack(b));
    if x.class != Class::Finite || y.class != Class::Finite {
        return div_special::<F>(x, y, env, flags);
    }
    let sign = x.sign ^ y.sign;
    let exp = x.exp - y.exp;
    // The quotient of the significands is in (1/2, 2).
    if F::PRECISION <= 28 {
        // A quotient of at least 31 bits and the sticky remainder do.
        let (dividend, divisor) = (x.sig >> 1, y.sig >> 32);
        let quotient = (dividend / divisor) << 32 | u64::from(dividend % divisor != 0);
        let shift = quotient.leading_zeros();
        return round_pack::<F>(sign, exp - shift as i32, quotient << shift, 0, env, flags);
    }
    let below_one = x.sig < y.sig;
    let dividend = u128::from(x.sig) << if below_one { 64 } else { 63 };
    let divisor = u128::from(y.sig);
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    let rest = rest_of(remainder != 0, (remainder << 1).cmp(&divisor));
    round_pack::<F>(
        sign,
        exp - i32::from(below_one),
        quotient as u64,
        rest,
        env,
        flags,
    )
}

/// The rest (see `round`) of a result known to be inexact or not, and how its rest compares with a half.
#[inline]
fn rest_of(inexact: bool, against_half: std::cmp::Ordering) -> u64 {
    match against_half {
        std::cmp::Ordering::Less => u64::from(inexact),
        std::cmp::Ordering::Equal => HALF,
        std::cmp::Ordering::Greater => HALF | 1,
    }
}

#[cold]
fn div_special<F: Format>(x: Unpacked, y: Unpacked, env: Env, flags: &mut Flags) -> F::Bits {
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[x, y], env.nan, flags);
    }
    let sign = x.sign ^ y.sign;
    match (x.class, y.class) {
        (Class::Infinity, Class::Infinity) | (Class::Zero, Class::Zero) => invalid::<F>(env.nan, flags),
        (Class::Infinity, _) => F::infinity(sign),
        (Class::Finite, Class::Zero) => {
            *flags |= Flags::DIV_ZERO;
            F::infinity(sign)
        }
        (_, _) => F::zero(sign),
    }
}

/// The square root of `a`.
#[inline]
pub fn sqrt<F: Format>(a: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    let x = F::unpack(a);
    match x.class {
        Class::Zero => return a,
        Class::QuietNan | Class::SignallingNan => {
            return propagate::<F>(&[x], env.nan, flags);
        }
        Class::Finite | Class::Infinity if x.sign => return invalid::<F>(env.nan, flags),
        Class::Infinity => return a,
        Class::Finite => {}
    }
    // With an even exponent taken out, the radicand is in [1, 4) and its root in [1, 2).
    let odd = x.exp & 1;
    let exp = (x.exp - odd) / 2;
    if F::PRECISION <= 28 {
        let radicand = x.sig >> (1 - odd);
        let root = radicand.isqrt();
        let sig = root << 32 | u64::from(root * root != radicand);
        return round_pack::<F>(false, exp, sig, 0, env, flags);
    }
    let radicand = u128::from(x.sig) << (63 + odd);
    let root = radicand.isqrt();
    let remainder = radicand - root * root;
    // (root + 1/2)^2 = root^2 + root + 1/4: never a tie.
    let rest = rest_of(
        remainder != 0,
        remainder.cmp(&root).then(std::cmp::Ordering::Less),
    );
    round_pack::<F>(false, exp, root as u64, rest, env, flags)
}
