//! Rounding an exact result into a format: the one place that sets OVERFLOW, UNDERFLOW and INEXACT
//! of an operation with a floating-point result.
//!
//! A *rest* is the part of a significand below the last kept bit, as a fraction of that bit scaled
//! by 2^64, its last bit sticky: [`HALF`] is exactly a tie. IEEE 754-2019, 4.3 and 7.4 to 7.6.

use super::{Env, Flags, Format, Round};

/// The rest that is halfway between two neighbours.
pub(super) const HALF: u64 = 1 << 63;

/// Whether a magnitude whose last kept bit is `odd`, with the rest `rest`, goes to the next larger one.
#[inline]
pub(super) fn rounds_away(round: Round, sign: bool, odd: bool, rest: u64) -> bool {
    match round {
        Round::NearestEven => rest > HALF || (rest == HALF && odd),
        Round::TowardZero => false,
        Round::Down => sign && rest != 0,
        Round::Up => !sign && rest != 0,
        Round::NearestMaxMagnitude => rest >= HALF,
    }
}

/// The sign of a sum that is exactly zero though its terms are not zeros of one sign.
#[inline]
pub(super) fn zero_sum_sign(round: Round) -> bool {
    round == Round::Down
}

/// `x >> n`, with every bit shifted out or-ed into bit 0.
#[inline]
pub(super) fn shift_right_jam(x: u64, n: u32) -> u64 {
    if n < 64 {
        // `<< (-n mod 64)` brings up the bits lost; for n = 0 it is x itself, whose bit 0 must not be faked.
        x >> n | u64::from(n != 0 && x << (n.wrapping_neg() & 63) != 0)
    } else {
        u64::from(x != 0)
    }
}

/// [`shift_right_jam`] for 128 bits.
#[inline]
pub(super) fn shift_right_jam_wide(x: u128, n: u32) -> u128 {
    if n < 128 {
        x >> n | u128::from(n != 0 && x << (n.wrapping_neg() & 127) != 0)
    } else {
        u128::from(x != 0)
    }
}

/// Rounds `(-1)^sign * (hi + lo / 2^64) * 2^(exp - 63)` into `F`.
///
/// Bit 63 of `hi` must be set. Bit 0 of `lo` may be sticky; so may bit 0 of `hi` for a format with
/// at most 62 bits of precision.
#[inline]
pub(super) fn round_pack<F: Format>(
    sign: bool,
    exp: i32,
    hi: u64,
    lo: u64,
    env: Env,
    flags: &mut Flags,
) -> F::Bits {
    debug_assert!(hi >> 63 == 1);
    let exp_field = exp.wrapping_add(F::BIAS);
    if exp_field < 1 {
        return round_pack_tiny::<F>(sign, exp_field, hi, lo, env, flags);
    }
    let (kept, rest) = split::<F>(hi, lo);
    let mut exp_field = exp_field as u32;
    let mut sig = kept;
    if rest != 0 {
        *flags |= Flags::INEXACT;
        if rounds_away(env.round, sign, kept & 1 != 0, rest) {
            (sig, exp_field) = match increment::<F>(kept) {
                Some(sig) => (sig, exp_field),
                None => (F::INTEGER_BIT, exp_field + 1),
            };
        }
    }
    if exp_field >= F::EXP_SPECIAL {
        return overflow::<F>(sign, env.round, flags);
    }
    F::pack(sign, exp_field, sig)
}

/// Splits a normalised significand into the bits that `F` keeps and the rest.
#[inline]
fn split<F: Format>(hi: u64, lo: u64) -> (u64, u64) {
    if F::PRECISION == 64 {
        (hi, lo)
    } else {
        let rest = hi << (F::PRECISION & 63) | u64::from(lo != 0);
        (hi >> (64 - F::PRECISION), rest)
    }
}

/// `kept + 1`, or `None` if that carries out of the significand (which is then the next power of two).
#[inline]
fn increment<F: Format>(kept: u64) -> Option<u64> {
    let sum = kept.wrapping_add(1);
    (sum << (64 - F::PRECISION) != 0).then_some(sum)
}

/// The result of a number too large for `F`.
#[cold]
fn overflow<F: Format>(sign: bool, round: Round, flags: &mut Flags) -> F::Bits {
    *flags |= Flags::OVERFLOW | Flags::INEXACT;
    let to_infinity = match round {
        Round::NearestEven | Round::NearestMaxMagnitude => true,
        Round::TowardZero => false,
        Round::Down => sign,
        Round::Up => !sign,
    };
    if to_infinity {
        F::infinity(sign)
    } else {
        F::largest(sign)
    }
}

/// The rest of [`round_pack`] for an exponent below that of the smallest normal number.
#[cold]
fn round_pack_tiny<F: Format>(
    sign: bool,
    exp_field: i32,
    hi: u64,
    lo: u64,
    env: Env,
    flags: &mut Flags,
) -> F::Bits {
    // Tiny after rounding: rounded as if the exponent had no lower bound, is it still below the smallest normal?
    let (kept, rest) = split::<F>(hi, lo);
    let tiny =
        exp_field < 0 || !rounds_away(env.round, sign, kept & 1 != 0, rest) || increment::<F>(kept).is_some();

    let wide = u128::from(hi) << 64 | u128::from(lo);
    let shifted = shift_right_jam_wide(wide, exp_field.abs_diff(1));
    let (kept, rest) = split::<F>((shifted >> 64) as u64, shifted as u64);
    let mut sig = kept;
    if rest != 0 {
        *flags |= Flags::INEXACT;
        if tiny {
            *flags |= Flags::UNDERFLOW;
        }
        sig += u64::from(rounds_away(env.round, sign, kept & 1 != 0, rest));
    }
    // Rounding up the largest subnormal gives the smallest normal.
    F::pack(sign, u32::from(sig & F::INTEGER_BIT != 0), sig)
}
