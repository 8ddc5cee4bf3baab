//! Sine, cosine, tangent, arctangent. SDM 2A, FSIN, FCOS, FSINCOS, FPTAN, FPATAN; SDM 1, 8.3.8 and 8.3.10.
//!
//! Arguments are reduced by the processors' own π of 66 bits (SDM 1, 8.3.8), exactly; the rest is computed to about 120
//! bits and rounded once: within half a unit in the last place of the function *of the reduced argument*. So near
//! multiples of π the results differ from the true sine as those of a processor do.

use super::format::{check_denormal, invalid, propagate, propagate_one};
use super::wide::{Wide, sum};
use super::{F80, Kind, Operand, X87Env};

/// π/2 in units of 2^-65: 66 significant bits.
const HALF_PI: u128 = 0x3_243f_6a88_85a3_08d3;

/// What a trigonometric instruction does with its operand.
enum Argument {
    /// C2: the magnitude is 2^63 or more; the operand stays.
    OutOfRange,
    /// There is no result, or it is this.
    Special(Option<F80>),
    /// A zero of this sign.
    Zero(bool),
    /// The number is this many quarter turns, modulo four, and the rest (at most an eighth turn either way).
    Reduced(u128, Wide),
}

fn reduce(env: &mut X87Env, a: &Operand) -> Argument {
    env.assign(X87Env::C1 | X87Env::C2, false);
    match a.kind {
        Kind::Zero => Argument::Zero(a.sign),
        Kind::Infinity => Argument::Special(invalid(env)),
        Kind::Finite if a.exp >= 63 => {
            env.assign(X87Env::C2, true);
            Argument::OutOfRange
        }
        Kind::Finite => {
            if check_denormal(env, [a]).is_none() {
                return Argument::Special(None);
            }
            if a.exp < -1 {
                return Argument::Reduced(0, a.into());
            }
            let angle = u128::from(a.sig) << (a.exp + 2);
            let (mut turns, mut rest) = (angle / HALF_PI, angle % HALF_PI);
            let mut sign = a.sign;
            if rest > HALF_PI / 2 {
                turns += 1;
                rest = HALF_PI - rest;
                sign = !sign;
            }
            let turns = if a.sign { turns.wrapping_neg() } else { turns };
            Argument::Reduced(turns & 3, Wide::normalised(sign, 127 - 65, rest))
        }
        _ => Argument::Special(propagate_one(env, *a)),
    }
}

/// Terms `first * x^2k / (k0 (k0 + 1) ...)` of alternating signs: sine (from x, 2) and cosine (from 1, 1).
fn alternating(first: Wide, x: Wide, from: u32) -> Wide {
    let square = x.times(x).negated();
    sum((from..).step_by(2).scan(first, |term, n| {
        let this = *term;
        *term = this.times(square).over(n * (n + 1));
        Some(this)
    }))
}

fn sine_of(rest: Wide) -> Wide {
    alternating(rest, rest, 2)
}

fn cosine_of(rest: Wide) -> Wide {
    alternating(Wide::ONE, rest, 1)
}

/// Sine of `turns` quarter turns and `rest`.
fn sine_at(turns: u128, rest: Wide) -> Wide {
    let value = if turns & 1 == 0 {
        sine_of(rest)
    } else {
        cosine_of(rest)
    };
    if turns & 2 == 0 { value } else { value.negated() }
}

/// `fsin`. `None`: no result; C2 says that `a` is out of range, or an exception is unmasked.
pub fn sin(env: &mut X87Env, a: Operand) -> Option<F80> {
    match reduce(env, &a) {
        Argument::OutOfRange => None,
        Argument::Special(result) => result,
        Argument::Zero(sign) => Some(F80::zero(sign)),
        Argument::Reduced(turns, rest) => Some(sine_at(turns, rest).round(env)),
    }
}

/// `fcos`. `None`: no result; C2 says that `a` is out of range, or an exception is unmasked.
pub fn cos(env: &mut X87Env, a: Operand) -> Option<F80> {
    match reduce(env, &a) {
        Argument::OutOfRange => None,
        Argument::Special(result) => result,
        Argument::Zero(_) => Some(F80::ONE),
        Argument::Reduced(turns, rest) => Some(sine_at(turns + 1, rest).round(env)),
    }
}

/// `fsincos`: sine and cosine; the cosine is what is pushed. C1 is by the cosine. `None` as [`sin`].
pub fn sin_cos(env: &mut X87Env, a: Operand) -> Option<(F80, F80)> {
    match reduce(env, &a) {
        Argument::OutOfRange => None,
        Argument::Special(result) => result.map(|nan| (nan, nan)),
        Argument::Zero(sign) => Some((F80::zero(sign), F80::ONE)),
        Argument::Reduced(turns, rest) => {
            let sine = sine_at(turns, rest).round(env);
            Some((sine, sine_at(turns + 1, rest).round(env)))
        }
    }
}

/// `fptan`: the tangent, and the one (or the NaN once more) that is pushed after it. `None` as [`sin`].
pub fn tan(env: &mut X87Env, a: Operand) -> Option<(F80, F80)> {
    match reduce(env, &a) {
        Argument::OutOfRange => None,
        Argument::Special(result) => result.map(|nan| (nan, nan)),
        Argument::Zero(sign) => Some((F80::zero(sign), F80::ONE)),
        Argument::Reduced(turns, rest) => {
            let (sine, cosine) = (sine_of(rest), cosine_of(rest));
            let tangent = if turns & 1 == 0 {
                sine.divided_by(cosine)
            } else {
                cosine.divided_by(sine).negated()
            };
            Some((tangent.round(env), F80::ONE))
        }
    }
}

/// Arctangents of quarters.
const ATAN_QUARTERS: [Wide; 5] = [
    Wide::ZERO,
    Wide::new(-3, 0xfadb_afc9_6406_eb15_6dc7_9ef5_f7a2_17e5),
    Wide::new(-2, 0xed63_382b_0dda_7b45_6fe4_45ec_bc3a_8d03),
    Wide::new(-1, 0xa4bc_7d19_34f7_0924_19a8_7f2a_457d_ac9e),
    Wide::new(-1, Wide::PI.sig),
];

/// Arctangent of a `t` from 0 to 1.
fn atan_of(t: Wide) -> Wide {
    // The nearest quarter; below an eighth none, so that the result keeps its bits.
    let eighths = if t.exp < -3 {
        0
    } else {
        (t.sig >> (124 - t.exp).min(127)) as i32
    };
    let nearest = (eighths + 1) / 2;
    let quarter = Wide::integer(nearest).scaled(-2);
    // atan(t) = atan(c) + atan((t - c) / (1 + t c))
    let u = if nearest == 0 {
        t
    } else {
        t.minus(quarter).divided_by(Wide::ONE.plus(t.times(quarter)))
    };
    let square = u.times(u).negated();
    let series = sum((1..).step_by(2).scan(u, |power, n| {
        let this = *power;
        *power = this.times(square);
        Some(this.over(n))
    }));
    ATAN_QUARTERS[nearest.clamp(0, 4) as usize].plus(series)
}

/// `fpatan`: the angle of the point (`x`, `y`), from -π to π. `None`: no result, an unmasked exception.
pub fn atan(env: &mut X87Env, y: Operand, x: Operand) -> Option<F80> {
    env.assign_c1(false);
    if !x.is_number() || !y.is_number() {
        return propagate(env, x, y);
    }
    check_denormal(env, [&x, &y])?;
    let half_pi = Wide::PI.scaled(-1);
    let first_quadrant = match (y.kind, x.kind) {
        (Kind::Infinity, Kind::Infinity) => Wide::PI.scaled(-2),
        (Kind::Infinity, _) => half_pi,
        (Kind::Zero, _) | (_, Kind::Infinity) if !x.sign => return Some(F80::zero(y.sign)),
        (Kind::Zero, _) | (_, Kind::Infinity) => Wide::ZERO,
        (_, Kind::Zero) => half_pi,
        _ => {
            let (rise, run) = (Wide::from(&y).with_sign(false), Wide::from(&x).with_sign(false));
            if run.is_within(&rise) {
                half_pi.minus(atan_of(run.divided_by(rise)))
            } else {
                atan_of(rise.divided_by(run))
            }
        }
    };
    let angle = if x.sign {
        Wide::PI.minus(first_quadrant)
    } else {
        first_quadrant
    };
    Some(angle.with_sign(y.sign).round(env))
}
