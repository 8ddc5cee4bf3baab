//! Rounding an exact result: the one place that sets OE, UE, PE and C1 of an operation with a result in a
//! register. SDM 1, 4.8.4, 8.5.4 to 8.5.6.

use super::format::{BIAS, EXP_SPECIAL, INTEGER_BIT};
use super::{F80, X87Env};
use crate::softfloat::round::{rounds_away, shift_right_jam_wide};
use crate::softfloat::{Flags, Round};

/// What an unmasked overflow or underflow moves the exponent by (SDM 1, 8.5.4).
const BIAS_ADJUST: i32 = 24576;

/// A significand rounded to some bits, as if the exponent had no bounds.
pub(super) struct Rounded {
    /// Bit 127 is the leading one.
    pub sig: u128,
    /// The result is the next power of two.
    pub carry: bool,
    /// It differs from what was rounded.
    pub inexact: bool,
    /// Its magnitude is larger.
    pub up: bool,
}

/// Rounds `sig` to its `precision` (1 to 64) highest bits; bit 0 may be sticky.
#[inline]
pub(super) fn round_significand(round: Round, sign: bool, sig: u128, precision: u32) -> Rounded {
    let ulp = 1u128 << (128 - precision);
    let kept = sig & !(ulp - 1);
    // The rest as a fraction of an ulp in 64 bits, sticky.
    let rest = (sig & (ulp - 1)) << (precision - 1) << 1;
    let rest = (rest >> 64) as u64 | u64::from(rest as u64 != 0);
    let up = rounds_away(round, sign, kept & ulp != 0, rest);
    let (sum, carry) = if up {
        kept.overflowing_add(ulp)
    } else {
        (kept, false)
    };
    Rounded {
        sig: sum,
        carry,
        inexact: rest != 0,
        up,
    }
}

/// Rounds `(-1)^sign * sig * 2^(exp - 127)` to `precision` bits and the exponent range of a register.
///
/// Bit 127 of `sig` must be set; bit 0 may be sticky.
pub(super) fn round_pack(env: &mut X87Env, sign: bool, exp: i32, sig: u128, precision: u32) -> F80 {
    debug_assert!(sig >> 127 == 1);
    let rounded = round_significand(env.round(), sign, sig, precision);
    let field = exp + BIAS + i32::from(rounded.carry);
    if field < 1 {
        return tiny(env, sign, exp + BIAS, sig, precision, &rounded);
    }
    if field >= i32::from(EXP_SPECIAL) {
        return overflow(env, sign, field, precision, &rounded);
    }
    env.assign_c1(rounded.up);
    if rounded.inexact {
        env.raise(Flags::INEXACT);
    }
    pack(sign, field, &rounded)
}

/// `field` within 1 to 0x7ffe.
fn pack(sign: bool, field: i32, rounded: &Rounded) -> F80 {
    let sig = (rounded.sig >> 64) as u64 | if rounded.carry { INTEGER_BIT } else { 0 };
    F80::new(u16::from(sign) << 15 | field as u16, sig)
}

#[cold]
fn overflow(env: &mut X87Env, sign: bool, field: i32, precision: u32, rounded: &Rounded) -> F80 {
    if !env.raise(Flags::OVERFLOW) {
        let field = field - BIAS_ADJUST;
        if field < i32::from(EXP_SPECIAL) {
            env.assign_c1(rounded.up);
            if rounded.inexact {
                env.raise(Flags::INEXACT);
            }
            return pack(sign, field, rounded);
        }
        // "Massive overflow" of fscale.
        env.raise(Flags::INEXACT);
        env.assign_c1(true);
        return F80::infinity(sign);
    }
    env.raise(Flags::INEXACT);
    let to_infinity = match env.round() {
        Round::NearestEven | Round::NearestMaxMagnitude => true,
        Round::TowardZero => false,
        Round::Down => sign,
        Round::Up => !sign,
    };
    env.assign_c1(to_infinity);
    if to_infinity {
        F80::infinity(sign)
    } else {
        F80::new(
            u16::from(sign) << 15 | (EXP_SPECIAL - 1),
            u64::MAX << (64 - precision),
        )
    }
}

/// A result below the smallest normal number though rounded; `field` and `sig` are those before rounding.
#[cold]
fn tiny(env: &mut X87Env, sign: bool, field: i32, sig: u128, precision: u32, rounded: &Rounded) -> F80 {
    if !env.masked(Flags::UNDERFLOW) {
        env.raise(Flags::UNDERFLOW);
        let field = field + i32::from(rounded.carry) + BIAS_ADJUST;
        if field >= 1 {
            env.assign_c1(rounded.up);
            if rounded.inexact {
                env.raise(Flags::INEXACT);
            }
            return pack(sign, field, rounded);
        }
        // Massive underflow of fscale.
        env.raise(Flags::INEXACT);
        env.assign_c1(false);
        return F80::zero(sign);
    }
    // The last kept bit stays where it is in a normal number: a denormal has fewer bits than `precision`.
    let shifted = shift_right_jam_wide(sig, field.abs_diff(1));
    let ulp = 1u128 << (128 - precision);
    let kept = shifted & !(ulp - 1);
    let rest = (shifted & (ulp - 1)) << (precision - 1) << 1;
    let rest = (rest >> 64) as u64 | u64::from(rest as u64 != 0);
    let up = rounds_away(env.round(), sign, kept & ulp != 0, rest);
    env.assign_c1(up);
    if rest != 0 {
        env.raise(Flags::UNDERFLOW | Flags::INEXACT);
    }
    // A carry into bit 127 makes the smallest normal number.
    let sig = ((kept + if up { ulp } else { 0 }) >> 64) as u64;
    F80::new(u16::from(sign) << 15 | (sig >> 63) as u16, sig)
}
