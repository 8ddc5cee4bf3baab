//! Conversions from and to the other formats in memory. SDM 2A, FLD, FST, FIST, FISTTP; SDM 1, 4.8.3 and 8.5.

use super::format::propagate_one;
use super::round::round_significand;
use super::scale::integral;
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::round::{rounds_away, shift_right_jam_wide};
use crate::softfloat::{self, Flags, Format, Round};

/// `fld m32fp`. `None`: no result, an unmasked exception.
pub fn from_f32(env: &mut X87Env, bits: u32) -> Option<F80> {
    load(env, Operand::single(bits))
}

/// `fld m64fp`. `None`: no result, an unmasked exception.
pub fn from_f64(env: &mut X87Env, bits: u64) -> Option<F80> {
    load(env, Operand::double(bits))
}

fn load(env: &mut X87Env, a: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() {
        return propagate_one(env, a);
    }
    // The one denormal operand whose unmasked exception doesn't hold back the result.
    if a.denormal {
        env.raise(Flags::DENORMAL);
    }
    Some(a.to_f80())
}

/// `fst m32fp`: rounded by rounding control. `None`: nothing is stored, an unmasked exception.
pub fn to_f32(env: &mut X87Env, a: F80) -> Option<u32> {
    store::<softfloat::F32>(env, a)
}

/// `fst m64fp`: rounded by rounding control. `None`: nothing is stored, an unmasked exception.
pub fn to_f64(env: &mut X87Env, a: F80) -> Option<u64> {
    store::<softfloat::F64>(env, a)
}

fn store<F: Format>(env: &mut X87Env, a: F80) -> Option<F::Bits> {
    env.assign_c1(false);
    let a = Operand::from(a);
    match a.kind {
        Kind::Zero => Some(F::zero(a.sign)),
        Kind::Infinity => Some(F::infinity(a.sign)),
        Kind::Finite => store_finite::<F>(env, &a),
        _ => {
            let nan = propagate_one(env, a)?;
            let sig = nan.significand >> (64 - F::PRECISION);
            Some(F::pack(nan.sign(), F::EXP_SPECIAL, sig))
        }
    }
}

fn store_finite<F: Format>(env: &mut X87Env, a: &Operand) -> Option<F::Bits> {
    let sig = u128::from(a.sig) << 64;
    let rounded = round_significand(env.round(), a.sign, sig, F::PRECISION);
    let field = a.exp + F::BIAS + i32::from(rounded.carry);
    if field < 1 {
        return store_tiny::<F>(env, a);
    }
    let masked_up;
    let bits = if field >= F::EXP_SPECIAL as i32 {
        if !env.raise(Flags::OVERFLOW) {
            return None;
        }
        env.raise(Flags::INEXACT);
        masked_up = match env.round() {
            Round::NearestEven | Round::NearestMaxMagnitude => true,
            Round::TowardZero => false,
            Round::Down => a.sign,
            Round::Up => !a.sign,
        };
        if masked_up {
            F::infinity(a.sign)
        } else {
            F::largest(a.sign)
        }
    } else {
        if rounded.inexact {
            env.raise(Flags::INEXACT);
        }
        masked_up = rounded.up;
        let kept = (rounded.sig >> (128 - F::PRECISION)) as u64;
        F::pack(
            a.sign,
            field as u32,
            if rounded.carry { F::INTEGER_BIT } else { kept },
        )
    };
    env.assign_c1(masked_up);
    Some(bits)
}

#[cold]
fn store_tiny<F: Format>(env: &mut X87Env, a: &Operand) -> Option<F::Bits> {
    if !env.masked(Flags::UNDERFLOW) {
        env.raise(Flags::UNDERFLOW);
        return None;
    }
    // The last kept bit at bit 64.
    let field = a.exp + F::BIAS;
    let at = u128::from(a.sig) << F::PRECISION;
    let shifted = shift_right_jam_wide(at, field.abs_diff(1));
    let (kept, rest) = ((shifted >> 64) as u64, shifted as u64);
    let up = rounds_away(env.round(), a.sign, kept & 1 != 0, rest);
    env.assign_c1(up);
    if rest != 0 {
        env.raise(Flags::UNDERFLOW | Flags::INEXACT);
    }
    let sig = kept + u64::from(up);
    Some(F::pack(a.sign, u32::from(sig & F::INTEGER_BIT != 0), sig))
}

/// The integer formats that `fist` and `fisttp` store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerWidth {
    /// Word integer.
    W16,
    /// Doubleword integer.
    W32,
    /// Quadword integer.
    W64,
}

impl IntegerWidth {
    /// Bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
        }
    }
}

/// `fist`: by rounding control. Out of range it is invalid, and the integer indefinite (the smallest integer)
/// if that is masked. `None`: nothing is stored, an unmasked exception. A denormal operand is no exception.
pub fn to_integer(env: &mut X87Env, a: F80, width: IntegerWidth) -> Option<i64> {
    store_integer(env, a, width, false)
}

/// `fisttp`: towards zero whatever the rounding control says. Otherwise as [`to_integer`].
pub fn to_integer_truncated(env: &mut X87Env, a: F80, width: IntegerWidth) -> Option<i64> {
    store_integer(env, a, width, true)
}

fn store_integer(env: &mut X87Env, a: F80, width: IntegerWidth, truncate: bool) -> Option<i64> {
    env.assign_c1(false);
    let a = Operand::from(a);
    let min = i64::MIN >> (64 - width.bits());
    let value = match a.kind {
        Kind::Zero => return Some(0),
        Kind::Finite if a.exp <= 63 => {
            let (whole, inexact, up) = integral(env, &a, truncate);
            let limit = u128::from(min.unsigned_abs()) - u128::from(!a.sign);
            (whole <= limit).then_some((whole as i64, inexact, up))
        }
        _ => None,
    };
    let Some((whole, inexact, up)) = value else {
        return env.raise(Flags::INVALID).then_some(min);
    };
    if inexact {
        env.raise(Flags::INEXACT);
        env.assign_c1(up);
    }
    Some(if a.sign { whole.wrapping_neg() } else { whole })
}
