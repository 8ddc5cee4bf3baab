//! Add, subtract, multiply, divide, square root: rounded by precision and rounding control.
//! SDM 2A, FADD, FSUB, FMUL, FDIV, FSQRT.

use super::format::{check_denormal, invalid, propagate, propagate_one};
use super::round::round_pack;
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::Flags;
use crate::softfloat::round::{shift_right_jam_wide, zero_sum_sign};

/// `a + b` (SDM 2A, FADD). `None`: no result, an unmasked exception.
pub fn add(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    add_numbers(env, a, b)
}

/// `a - b` (SDM 2A, FSUB and FSUBR). `None`: no result, an unmasked exception.
pub fn sub(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    add_numbers(env, a, Operand { sign: !b.sign, ..b })
}

fn add_numbers(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    if a.kind == Kind::Infinity && b.kind == Kind::Infinity && a.sign != b.sign {
        return invalid(env);
    }
    check_denormal(env, [&a, &b])?;
    let precision = env.precision();
    match (a.kind, b.kind) {
        (Kind::Infinity, _) => return Some(F80::infinity(a.sign)),
        (_, Kind::Infinity) => return Some(F80::infinity(b.sign)),
        (Kind::Zero, Kind::Zero) => {
            let sign = if a.sign == b.sign {
                a.sign
            } else {
                zero_sum_sign(env.round())
            };
            return Some(F80::zero(sign));
        }
        (Kind::Zero, _) => return Some(round_pack(env, b.sign, b.exp, u128::from(b.sig) << 64, precision)),
        (_, Kind::Zero) => return Some(round_pack(env, a.sign, a.exp, u128::from(a.sig) << 64, precision)),
        _ => {}
    }
    let (large, small) = if (a.exp, a.sig) >= (b.exp, b.sig) {
        (a, b)
    } else {
        (b, a)
    };
    // One bit of room for the carry. Shifted by two or more, a difference loses one leading bit at most, so
    // the sticky bit stays below what is kept.
    let x = u128::from(large.sig) << 63;
    let y = shift_right_jam_wide(u128::from(small.sig) << 63, large.exp.abs_diff(small.exp));
    let sum = if a.sign == b.sign { x + y } else { x - y };
    if sum == 0 {
        return Some(F80::zero(zero_sum_sign(env.round())));
    }
    let shift = sum.leading_zeros();
    Some(round_pack(
        env,
        large.sign,
        large.exp + 1 - shift as i32,
        sum << shift,
        precision,
    ))
}

/// `a * b` (SDM 2A, FMUL). `None`: no result, an unmasked exception.
pub fn mul(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    let sign = a.sign != b.sign;
    match (a.kind, b.kind) {
        (Kind::Infinity, Kind::Zero) | (Kind::Zero, Kind::Infinity) => return invalid(env),
        _ => check_denormal(env, [&a, &b])?,
    }
    match (a.kind, b.kind) {
        (Kind::Infinity, _) | (_, Kind::Infinity) => Some(F80::infinity(sign)),
        (Kind::Zero, _) | (_, Kind::Zero) => Some(F80::zero(sign)),
        _ => {
            let product = u128::from(a.sig) * u128::from(b.sig);
            let shift = product.leading_zeros();
            let exp = a.exp + b.exp + 1 - shift as i32;
            let precision = env.precision();
            Some(round_pack(env, sign, exp, product << shift, precision))
        }
    }
}

/// `a / b` (SDM 2A, FDIV and FDIVR). `None`: no result, an unmasked exception.
pub fn div(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    let sign = a.sign != b.sign;
    match (a.kind, b.kind) {
        (Kind::Infinity, Kind::Infinity) | (Kind::Zero, Kind::Zero) => return invalid(env),
        (Kind::Finite, Kind::Zero) => {
            return env.raise(Flags::DIV_ZERO).then_some(F80::infinity(sign));
        }
        _ => check_denormal(env, [&a, &b])?,
    }
    match (a.kind, b.kind) {
        (Kind::Infinity, _) => Some(F80::infinity(sign)),
        (Kind::Zero, _) | (_, Kind::Infinity) => Some(F80::zero(sign)),
        _ => {
            let (exp, sig) = quotient(a.sig, b.sig);
            let precision = env.precision();
            Some(round_pack(env, sign, a.exp - b.exp + exp, sig, precision))
        }
    }
}

/// `a / b` of significands with bit 63 set: exponent (0 or -1) and 128 bits, the last sticky.
fn quotient(a: u64, b: u64) -> (i32, u128) {
    let divisor = u128::from(b);
    let below_one = a < b;
    let n = u128::from(a) << if below_one { 64 } else { 63 };
    let (high, rest) = (n / divisor, n % divisor);
    let n = rest << 64;
    let (low, rest) = (n / divisor, n % divisor);
    (-i32::from(below_one), high << 64 | low | u128::from(rest != 0))
}

/// The square root (SDM 2A, FSQRT). `None`: no result, an unmasked exception.
pub fn sqrt(env: &mut X87Env, a: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() {
        return propagate_one(env, a);
    }
    match a.kind {
        Kind::Zero => return Some(F80::zero(a.sign)),
        _ if a.sign => return invalid(env),
        _ => check_denormal(env, [&a])?,
    }
    if a.kind == Kind::Infinity {
        return Some(F80::infinity(false));
    }
    // An even exponent, and a radicand whose root has 64 bits.
    let n = u128::from(a.sig) << (63 + (a.exp & 1));
    let root = n.isqrt();
    let rest = n - root * root;
    // (root + 1/2)^2 = root^2 + root + 1/4: the root is past the middle if the rest exceeds it, and never at it.
    let below = if rest == 0 {
        0
    } else if rest > root {
        3u128 << 62
    } else {
        1u128 << 62
    };
    let precision = env.precision();
    Some(round_pack(env, false, a.exp >> 1, root << 64 | below, precision))
}
