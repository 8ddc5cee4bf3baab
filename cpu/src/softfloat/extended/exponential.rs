//! Powers of two and logarithms. SDM 2A, F2XM1, FYL2X, FYL2XP1; SDM 1, 8.3.10 (accuracy).
//!
//! Results are rounded once from about 120 bits: below 0.5000001 units in the last place in any rounding mode.

use super::format::{check_denormal, invalid, propagate, propagate_one};
use super::wide::{Wide, sum};
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::Flags;

/// `f2xm1`: `2^a - 1` for `a` from -1 to 1. `None`: no result, an unmasked exception.
///
/// Beyond that (undefined by the SDM) a finite `a` is returned as it is, -infinity gives -1 and +infinity itself.
pub fn exp2_minus_one(env: &mut X87Env, a: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !a.is_number() {
        return propagate_one(env, a);
    }
    check_denormal(env, [&a])?;
    match a.kind {
        Kind::Zero => return Some(F80::zero(a.sign)),
        Kind::Infinity if a.sign => return Some(F80::ONE.negated()),
        Kind::Infinity => return Some(F80::infinity(false)),
        _ => {}
    }
    if a.exp >= 0 {
        // 2^-1 - 1 = -1/2 and 2^1 - 1 = 1 are exact.
        let half = a.exp == 0 && a.sig == 1 << 63 && a.sign;
        return Some(if half {
            F80::new(0xbffe, 1 << 63)
        } else {
            a.to_f80()
        });
    }
    Some(exp_minus_one(Wide::from(&a).times(Wide::LN_2)).round(env))
}

/// `e^x - 1` for `x` of magnitude below one.
fn exp_minus_one(x: Wide) -> Wide {
    const HALVINGS: i32 = 4;
    let x = x.scaled(-HALVINGS);
    let terms = (2..).scan(x, |term, n| {
        let this = *term;
        *term = this.times(x).over(n);
        Some(this)
    });
    // e^2x - 1 = (e^x - 1) (2 + (e^x - 1))
    (0..HALVINGS).fold(sum(terms), |y, _| y.times(Wide::TWO.plus(y)))
}

/// `log2(1 + x)` for `1 + x` between about 0.7 and 1.42.
fn log2_one_plus(x: Wide) -> Wide {
    // ln((1 + s) / (1 - s)) = 2 (s + s^3/3 + ...)
    let s = x.divided_by(Wide::TWO.plus(x));
    let square = s.times(s);
    let terms = (1..).step_by(2).scan(s, |power, n| {
        let this = *power;
        *power = this.times(square);
        Some(this.over(n))
    });
    sum(terms).times(Wide::LOG2_E).scaled(1)
}

/// `log2(x)` of a positive `x`: exactly if it is a power of two.
fn log2(x: Wide) -> Wide {
    // The square root of two, about.
    let above = x.sig > 0xb505 << 112;
    let power = x.exp + i32::from(above);
    let fraction = x.scaled(-power).minus(Wide::ONE);
    Wide::integer(power).plus(log2_one_plus(fraction))
}

/// `fyl2x`: `y * log2(x)`. `None`: no result, an unmasked exception.
pub fn y_log2(env: &mut X87Env, y: Operand, x: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !x.is_number() || !y.is_number() {
        return propagate(env, x, y);
    }
    let one = x.kind == Kind::Finite && x.exp == 0 && x.sig == 1 << 63;
    let below_one = x.kind == Kind::Zero || (x.kind == Kind::Finite && x.exp < 0);
    let sign = y.sign != below_one;
    match (x.kind, y.kind) {
        (Kind::Zero, Kind::Zero) => return invalid(env),
        (Kind::Zero, Kind::Finite) => return env.raise(Flags::DIV_ZERO).then_some(F80::infinity(sign)),
        (Kind::Zero, _) => return Some(F80::infinity(sign)),
        _ if x.sign => return invalid(env),
        (Kind::Infinity, Kind::Zero) => return invalid(env),
        (_, Kind::Infinity) if one => return invalid(env),
        _ => check_denormal(env, [&x, &y])?,
    }
    match (x.kind, y.kind) {
        (Kind::Infinity, _) | (_, Kind::Infinity) => Some(F80::infinity(sign)),
        (_, Kind::Zero) => Some(F80::zero(sign)),
        _ if one => Some(F80::zero(y.sign)),
        _ => {
            let result = Wide::from(&y).times(log2(Wide::from(&x)));
            let power_of_two = x.sig == 1 << 63;
            Some(if power_of_two {
                result.round_exact(env)
            } else {
                result.round(env)
            })
        }
    }
}

/// `fyl2xp1`: `y * log2(x + 1)`, for `x` between sqrt(1/2) - 1 and sqrt(2) - 1. `None`: no result, an unmasked exception.
///
/// Beyond that (undefined by the SDM) it is what the formula says; invalid for `x` below -1, and `y`'s opposite infinity
/// or invalid at -1 as in [`y_log2`].
pub fn y_log2_one_plus(env: &mut X87Env, y: Operand, x: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !x.is_number() || !y.is_number() {
        return propagate(env, x, y);
    }
    let sign = x.sign != y.sign;
    match (x.kind, y.kind) {
        (Kind::Infinity, _) if x.sign => return invalid(env),
        (Kind::Infinity, Kind::Zero) | (Kind::Zero, Kind::Infinity) => return invalid(env),
        (Kind::Finite, _) if x.sign && x.exp >= 0 => {
            let minus_one = x.exp == 0 && x.sig == 1 << 63;
            return match y.kind {
                Kind::Finite if minus_one => env.raise(Flags::DIV_ZERO).then_some(F80::infinity(sign)),
                Kind::Infinity if minus_one => Some(F80::infinity(sign)),
                _ => invalid(env),
            };
        }
        _ => check_denormal(env, [&x, &y])?,
    }
    match (x.kind, y.kind) {
        (Kind::Infinity, _) | (_, Kind::Infinity) => Some(F80::infinity(sign)),
        (Kind::Zero, _) | (_, Kind::Zero) => Some(F80::zero(sign)),
        _ => {
            let wide = Wide::from(&x);
            // Below a quarter 1 + x would lose bits.
            let log = if x.exp < -2 {
                log2_one_plus(wide)
            } else {
                log2(Wide::ONE.plus(wide))
            };
            Some(Wide::from(&y).times(log).round(env))
        }
    }
}
