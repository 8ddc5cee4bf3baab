//! Round to integer, scale by a power of two, take apart. SDM 2A, FRNDINT, FSCALE, FXTRACT.

use super::format::{check_denormal, invalid, propagate, propagate_one};
use super::round::round_pack;
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::Flags;
use crate::softfloat::round::{rounds_away, shift_right_jam_wide};

/// The magnitude of a finite `a` as an integer by rounding control: its value (below 2^64 + 1; `a.exp` at most 63),
/// whether that is inexact, and whether it is larger than `a`'s.
pub(super) fn integral(env: &X87Env, a: &Operand, truncate: bool) -> (u128, bool, bool) {
    debug_assert!(a.exp <= 63);
    let shifted = shift_right_jam_wide(u128::from(a.sig) << 64, 63i32.abs_diff(a.exp));
    let (whole, rest) = (shifted >> 64, shifted as u64);
    let up = !truncate && rounds_away(env.round(), a.sign, whole & 1 != 0, rest);
    (whole + u128::from(up), rest != 0, up)
}

/// `frndint`: to an integer by rounding control. `None`: no result, an unmasked exception.
pub fn round_to_integer(env: &mut X87Env, a: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() {
        return propagate_one(env, a);
    }
    check_denormal(env, [&a])?;
    if a.kind != Kind::Finite || a.exp >= 63 {
        return Some(a.to_f80());
    }
    let (whole, inexact, up) = integral(env, &a, false);
    if inexact {
        env.raise(Flags::INEXACT);
        env.assign_c1(up);
    }
    // Below 2^63 + 1.
    let mut rounded = Operand::integer(0);
    if whole != 0 {
        let shift = whole.leading_zeros();
        rounded = Operand {
            kind: Kind::Finite,
            exp: 127 - shift as i32,
            sig: (whole << shift >> 64) as u64,
            ..rounded
        };
    }
    Some(
        Operand {
            sign: a.sign,
            ..rounded
        }
        .to_f80(),
    )
}

/// `fscale`: `a * 2^trunc(b)`. `None`: no result, an unmasked exception.
pub fn scale(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    match (a.kind, b.kind, b.sign) {
        (Kind::Infinity, Kind::Infinity, true) | (Kind::Zero, Kind::Infinity, false) => return invalid(env),
        _ => check_denormal(env, [&a, &b])?,
    }
    match (a.kind, b.kind) {
        (Kind::Infinity | Kind::Zero, _) => return Some(a.to_f80()),
        (_, Kind::Infinity) if b.sign => return Some(F80::zero(a.sign)),
        (_, Kind::Infinity) => return Some(F80::infinity(a.sign)),
        _ => {}
    }
    // More than 2^17 is as good as 2^17: from any number it goes past both ends, bias adjustment included.
    let power = match (b.kind, b.exp) {
        (Kind::Zero, _) | (_, ..0) => 0,
        (_, 17..) => 1 << 17,
        _ => (b.sig >> (63 - b.exp)) as i32,
    };
    let power = if b.sign { -power } else { power };
    Some(round_pack(
        env,
        a.sign,
        a.exp + power,
        u128::from(a.sig) << 64,
        64,
    ))
}

/// `fxtract`: the exponent and the significand of `a`, each as a number; the significand is what is pushed.
/// `None`: no result, an unmasked exception.
pub fn extract(env: &mut X87Env, a: Operand) -> Option<(F80, F80)> {
    env.assign_c1(false);
    if !a.is_number() {
        let nan = propagate_one(env, a)?;
        return Some((nan, nan));
    }
    match a.kind {
        Kind::Zero => {
            let masked = env.raise(Flags::DIV_ZERO);
            masked.then_some((F80::infinity(true), F80::zero(a.sign)))
        }
        Kind::Infinity => Some((F80::infinity(false), F80::infinity(a.sign))),
        _ => {
            check_denormal(env, [&a])?;
            let exponent = Operand::integer(a.exp.into()).to_f80();
            Some((exponent, Operand { exp: 0, ..a }.to_f80()))
        }
    }
}
