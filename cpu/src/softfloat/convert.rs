//! Conversions between formats, and to and from integers. IEEE 754-2019, 5.4.1, 5.4.2 and 5.8;
//! RISC-V F, "Single-Precision Floating-Point Conversion and Move Instructions".

use super::format::propagate;
use super::round::{round_pack, rounds_away, shift_right_jam};
use super::{Class, Env, Flags, Format, Round};

/// Converts between formats.
#[inline]
pub fn convert<From: Format, To: Format>(a: From::Bits, env: Env, flags: &mut Flags) -> To::Bits {
    let x = From::unpack(a);
    match x.class {
        Class::Finite => round_pack::<To>(x.sign, x.exp, x.sig, 0, env, flags),
        Class::Zero => To::zero(x.sign),
        Class::Infinity => To::infinity(x.sign),
        Class::QuietNan | Class::SignallingNan => propagate::<To>(&[x], env.nan, flags),
    }
}

/// Why a conversion to an integer has no result. INVALID, and nothing else, has been set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRange {
    /// The rounded value is below the smallest integer.
    Below,
    /// The rounded value is above the largest integer.
    Above,
    /// There is no value.
    Nan,
}

/// An integer type that [`to_integer`] converts to.
pub trait Integer: Copy {
    /// The largest magnitude of a negative integer.
    const NEGATIVE_LIMIT: u64;
    /// The largest positive integer.
    const POSITIVE_LIMIT: u64;
    /// The smallest integer.
    const MIN: Self;
    /// The largest integer.
    const MAX: Self;
    /// The low bits of a two's complement number.
    fn truncate(bits: u64) -> Self;
}

macro_rules! integer {
    ($int:ty, $negative:expr) => {
        impl Integer for $int {
            const NEGATIVE_LIMIT: u64 = $negative;
            const POSITIVE_LIMIT: u64 = <$int>::MAX as u64;
            const MIN: Self = <$int>::MIN;
            const MAX: Self = <$int>::MAX;
            #[inline]
            fn truncate(bits: u64) -> Self {
                bits as $int
            }
        }
    };
}

integer!(i32, 1 << 31);
integer!(u32, 0);
integer!(i64, 1 << 63);
integer!(u64, 0);

/// Rounds to an integer. INEXACT is set if the result differs from the operand; if there is no result, INVALID alone.
#[inline]
pub fn to_integer<F: Format, I: Integer>(
    a: F::Bits,
    round: Round,
    flags: &mut Flags,
) -> Result<I, OutOfRange> {
    let x = F::unpack(a);
    let (whole, rest) = match x.exp {
        _ if x.class == Class::Zero => return Ok(I::truncate(0)),
        64.. => return Err(out_of_range(x.is_nan(), x.sign, flags)),
        63 => (x.sig, 0),
        exp @ 0..63 => (x.sig >> (63 - exp), x.sig << (exp + 1)),
        exp => (0, shift_right_jam(x.sig, exp.abs_diff(-1))),
    };
    // No carry: a number with a rest is below 2^63.
    let magnitude = whole + u64::from(rounds_away(round, x.sign, whole & 1 != 0, rest));
    let limit = if x.sign {
        I::NEGATIVE_LIMIT
    } else {
        I::POSITIVE_LIMIT
    };
    if magnitude > limit {
        return Err(out_of_range(false, x.sign, flags));
    }
    if rest != 0 {
        *flags |= Flags::INEXACT;
    }
    Ok(I::truncate(if x.sign {
        magnitude.wrapping_neg()
    } else {
        magnitude
    }))
}

#[cold]
fn out_of_range(nan: bool, sign: bool, flags: &mut Flags) -> OutOfRange {
    *flags |= Flags::INVALID;
    match (nan, sign) {
        (true, _) => OutOfRange::Nan,
        (false, true) => OutOfRange::Below,
        (false, false) => OutOfRange::Above,
    }
}

/// [`to_integer`] with RISC-V's answer when there is none: the nearest limit, and the largest integer for a NaN.
#[inline]
fn saturating<F: Format, I: Integer>(a: F::Bits, round: Round, flags: &mut Flags) -> I {
    match to_integer::<F, I>(a, round, flags) {
        Ok(integer) => integer,
        Err(OutOfRange::Below) => I::MIN,
        Err(OutOfRange::Above | OutOfRange::Nan) => I::MAX,
    }
}

/// `fcvt.w`: rounds to an `i32`, saturating; a NaN gives the largest.
#[inline]
pub fn to_i32<F: Format>(a: F::Bits, round: Round, flags: &mut Flags) -> i32 {
    saturating::<F, i32>(a, round, flags)
}

/// `fcvt.wu`: rounds to a `u32`, saturating; a NaN gives the largest.
#[inline]
pub fn to_u32<F: Format>(a: F::Bits, round: Round, flags: &mut Flags) -> u32 {
    saturating::<F, u32>(a, round, flags)
}

/// `fcvt.l`: rounds to an `i64`, saturating; a NaN gives the largest.
#[inline]
pub fn to_i64<F: Format>(a: F::Bits, round: Round, flags: &mut Flags) -> i64 {
    saturating::<F, i64>(a, round, flags)
}

/// `fcvt.lu`: rounds to a `u64`, saturating; a NaN gives the largest.
#[inline]
pub fn to_u64<F: Format>(a: F::Bits, round: Round, flags: &mut Flags) -> u64 {
    saturating::<F, u64>(a, round, flags)
}

#[inline]
fn from_magnitude<F: Format>(sign: bool, magnitude: u64, env: Env, flags: &mut Flags) -> F::Bits {
    if magnitude == 0 {
        return F::zero(false);
    }
    let shift = magnitude.leading_zeros();
    round_pack::<F>(sign, 63 - shift as i32, magnitude << shift, 0, env, flags)
}

/// `fcvt.*.w`: the number of an `i32`.
#[inline]
pub fn from_i32<F: Format>(a: i32, env: Env, flags: &mut Flags) -> F::Bits {
    from_magnitude::<F>(a < 0, a.unsigned_abs().into(), env, flags)
}

/// `fcvt.*.wu`: the number of a `u32`.
#[inline]
pub fn from_u32<F: Format>(a: u32, env: Env, flags: &mut Flags) -> F::Bits {
    from_magnitude::<F>(false, a.into(), env, flags)
}

/// `fcvt.*.l`: the number of an `i64`.
#[inline]
pub fn from_i64<F: Format>(a: i64, env: Env, flags: &mut Flags) -> F::Bits {
    from_magnitude::<F>(a < 0, a.unsigned_abs(), env, flags)
}

/// `fcvt.*.lu`: the number of a `u64`.
#[inline]
pub fn from_u64<F: Format>(a: u64, env: Env, flags: &mut Flags) -> F::Bits {
    from_magnitude::<F>(false, a, env, flags)
}
