//! Partial remainders. SDM 2A, FPREM and FPREM1.

use super::format::{check_denormal, invalid, propagate};
use super::round::round_pack;
use super::{F80, Kind, Operand, X87Env};

/// `fprem`: the remainder of `a / b` with the quotient truncated.
///
/// C2 is set if the reduction is incomplete; else C0, C3 and C1 are the quotient's bits 2, 1 and 0. With a
/// NaN result or no result C0 and C3 stay as they were.
/// `None`: no result, an unmasked exception.
pub fn remainder(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    reduce(env, a, b, false)
}

/// `fprem1`: the IEEE remainder, with the quotient rounded to nearest, ties to even. Otherwise as [`remainder`].
pub fn remainder_nearest(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    reduce(env, a, b, true)
}

fn reduce(env: &mut X87Env, a: Operand, b: Operand, nearest: bool) -> Option<F80> {
    env.assign(X87Env::C1 | X87Env::C2, false);
    if !a.is_number() || !b.is_number() {
        return propagate(env, a, b);
    }
    if a.kind == Kind::Infinity || b.kind == Kind::Zero {
        return invalid(env);
    }
    check_denormal(env, [&a, &b])?;
    env.assign(X87Env::C0 | X87Env::C3, false);
    if a.kind == Kind::Zero {
        return Some(F80::zero(a.sign));
    }
    let distance = if b.kind == Kind::Infinity {
        -2
    } else {
        a.exp - b.exp
    };
    if distance < -1 {
        return Some(exact(env, a.sign, a.exp, a.sig.into()));
    }
    if distance >= 64 {
        // A partial reduction takes between 32 and 63 bits off the distance (SDM 2A, FPREM).
        let bits = 32 | distance & 31;
        let rest = (u128::from(a.sig) << bits) % u128::from(b.sig);
        env.assign(X87Env::C2, true);
        return Some(exact(env, a.sign, b.exp + distance - bits, rest));
    }
    // In units of half b's last bit, so that a distance of -1 needs no fraction.
    let dividend = u128::from(a.sig) << (distance + 1);
    let divisor = u128::from(b.sig) << 1;
    let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
    let mut sign = a.sign;
    if nearest {
        let twice = rest << 1;
        if twice > divisor || (twice == divisor && quotient & 1 != 0) {
            quotient += 1;
            rest = divisor - rest;
            sign = !sign;
        }
    }
    env.assign(X87Env::C0, quotient & 4 != 0);
    env.assign(X87Env::C3, quotient & 2 != 0);
    let result = if rest == 0 {
        F80::zero(a.sign)
    } else {
        exact(env, sign, b.exp - 1, rest)
    };
    // After the rounding, which is exact and clears it.
    env.assign(X87Env::C1, quotient & 1 != 0);
    Some(result)
}

/// `rest * 2^(exp - 63)`, which is a multiple of the smallest denormal.
fn exact(env: &mut X87Env, sign: bool, exp: i32, rest: u128) -> F80 {
    if rest == 0 {
        return F80::zero(sign);
    }
    let shift = rest.leading_zeros();
    round_pack(env, sign, exp + 64 - shift as i32, rest << shift, 64)
}
