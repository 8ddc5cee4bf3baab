//! What SSE does around an IEEE operation, with every exception masked: the choice of NaN, denormal operands, DAZ and
//! FTZ, the integer indefinite (SDM 1, 4.8.3.5 and table 4-7, 4.9, 10.2.3, 11.5).
//!
//! All functions take MXCSR as it stands and add the flags that they raise to it.

use super::{Class, Env, Flags, Format, Integer, Round, Unpacked};
use super::{
    add, compare as ieee_compare, convert as ieee_convert, div, mul, sqrt as ieee_sqrt, sub, to_integer,
};
use crate::ir::FBin;
use std::cmp::Ordering;

const DAZ: u64 = 1 << 6;
const FTZ: u64 = 1 << 15;

/// The rounding direction of MXCSR.
pub fn rounding(mxcsr: u64) -> Round {
    match mxcsr >> 13 & 3 {
        0 => Round::NearestEven,
        1 => Round::Down,
        2 => Round::Up,
        _ => Round::TowardZero,
    }
}

fn is_denormal<F: Format>(x: &Unpacked) -> bool {
    x.class == Class::Finite && x.exp < F::EXP_MIN
}

/// An operand as the operation sees it, and whether it raises DENORMAL.
fn operand<F: Format>(bits: F::Bits, mxcsr: u64) -> (F::Bits, Unpacked, bool) {
    let x = F::unpack(bits);
    if !is_denormal::<F>(&x) {
        return (bits, x, false);
    }
    if mxcsr & DAZ == 0 {
        return (bits, x, true);
    }
    let zero = F::zero(x.sign);
    (zero, F::unpack(zero), false)
}

/// A NaN in a format: that of the unpacked one, quiet; low bits that have no room are lost.
fn quiet<F: Format>(x: &Unpacked) -> F::Bits {
    let sig = x.sig >> (64 - F::PRECISION) | F::INTEGER_BIT >> 1;
    F::pack(x.sign, F::EXP_SPECIAL, sig)
}

/// The NaN that comes of operands of which one is a NaN: the first one that is, quiet.
fn nan<F: Format>(operands: &[Unpacked], flags: &mut Flags) -> Option<F::Bits> {
    if operands.iter().any(|x| x.class == Class::SignallingNan) {
        *flags |= Flags::INVALID;
    }
    operands.iter().find(|x| x.is_nan()).map(quiet::<F>)
}

/// Ends an arithmetic operation: the indefinite for the canonical NaN, DENORMAL, and FTZ.
fn finish<F: Format>(result: F::Bits, denormal: bool, mut flags: Flags, mxcsr: &mut u64) -> F::Bits {
    let x = F::unpack(result);
    let mut result = result;
    if x.is_nan() {
        result = F::pack(true, F::EXP_SPECIAL, F::INTEGER_BIT | F::INTEGER_BIT >> 1);
    } else if denormal && !flags.contains(Flags::DIV_ZERO) {
        flags |= Flags::DENORMAL;
    }
    if *mxcsr & FTZ != 0 && (flags.contains(Flags::UNDERFLOW) || is_denormal::<F>(&x)) {
        flags |= Flags::UNDERFLOW | Flags::INEXACT;
        result = F::zero(x.sign);
    }
    *mxcsr |= u64::from(flags.bits());
    result
}

/// addss and its kin; minss and maxss.
pub fn binary<F: Format>(op: FBin, round: Round, a: F::Bits, b: F::Bits, mxcsr: &mut u64) -> F::Bits {
    let (a, x, first) = operand::<F>(a, *mxcsr);
    let (b, y, second) = operand::<F>(b, *mxcsr);
    let mut flags = Flags::empty();
    if let FBin::Min | FBin::Max = op {
        return extremum::<F>(op == FBin::Max, a, b, first || second, mxcsr);
    }
    if let Some(nan) = nan::<F>(&[x, y], &mut flags) {
        *mxcsr |= u64::from(flags.bits());
        return nan;
    }
    let env = Env::riscv(round);
    let result = match op {
        FBin::Add => add::<F>(a, b, env, &mut flags),
        FBin::Sub => sub::<F>(a, b, env, &mut flags),
        FBin::Mul => mul::<F>(a, b, env, &mut flags),
        FBin::Div | FBin::Min | FBin::Max => div::<F>(a, b, env, &mut flags),
    };
    finish::<F>(result, first || second, flags, mxcsr)
}

/// The second operand unless the first one is smaller (larger): so for NaNs and zeros.
fn extremum<F: Format>(largest: bool, a: F::Bits, b: F::Bits, denormal: bool, mxcsr: &mut u64) -> F::Bits {
    let mut flags = Flags::empty();
    let order = ieee_compare::<F>(a, b, true, &mut flags);
    if order.is_some() && denormal {
        flags |= Flags::DENORMAL;
    }
    *mxcsr |= u64::from(flags.bits());
    let wanted = if largest {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    if order == Some(wanted) { a } else { b }
}

/// sqrtss.
pub fn sqrt<F: Format>(round: Round, a: F::Bits, mxcsr: &mut u64) -> F::Bits {
    let (a, x, denormal) = operand::<F>(a, *mxcsr);
    let mut flags = Flags::empty();
    if let Some(nan) = nan::<F>(&[x], &mut flags) {
        *mxcsr |= u64::from(flags.bits());
        return nan;
    }
    let result = ieee_sqrt::<F>(a, Env::riscv(round), &mut flags);
    finish::<F>(result, denormal, flags, mxcsr)
}

/// cvtss2sd, cvtsd2ss. NaNs keep the high bits of their payload.
pub fn convert<From: Format, To: Format>(round: Round, a: From::Bits, mxcsr: &mut u64) -> To::Bits {
    let (a, x, denormal) = operand::<From>(a, *mxcsr);
    let mut flags = Flags::empty();
    if let Some(nan) = nan::<To>(&[x], &mut flags) {
        *mxcsr |= u64::from(flags.bits());
        return nan;
    }
    let result = ieee_convert::<From, To>(a, Env::riscv(round), &mut flags);
    finish::<To>(result, denormal, flags, mxcsr)
}

/// Compares; `None` for NaNs. INVALID for a signalling NaN, for every NaN if `signalling`.
pub fn compare<F: Format>(signalling: bool, a: F::Bits, b: F::Bits, mxcsr: &mut u64) -> Option<Ordering> {
    let (a, _, first) = operand::<F>(a, *mxcsr);
    let (b, _, second) = operand::<F>(b, *mxcsr);
    let mut flags = Flags::empty();
    let order = ieee_compare::<F>(a, b, signalling, &mut flags);
    if order.is_some() && (first || second) {
        flags |= Flags::DENORMAL;
    }
    *mxcsr |= u64::from(flags.bits());
    order
}

/// cvtsd2si and its kin; `None` for what doesn't fit.
pub fn integer<F: Format, I: Integer>(round: Round, a: F::Bits, mxcsr: &mut u64) -> Option<I> {
    let (a, _, _) = operand::<F>(a, *mxcsr);
    let mut flags = Flags::empty();
    let result = to_integer::<F, I>(a, round, &mut flags);
    *mxcsr |= u64::from(flags.bits());
    result.ok()
}
