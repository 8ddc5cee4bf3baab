//! Comparison, minimum, maximum and classification. IEEE 754-2019, 5.6.1, 5.7.2 and 9.6;
//! RISC-V F, "Single-Precision Floating-Point Compare Instructions" and "Classify Instruction".

use super::format::propagate;
use super::{Class, Flags, Format, NanRule, Unpacked};
use std::cmp::Ordering;

/// Order of two operands that are not NaNs, zeros of both signs equal.
#[inline]
fn order(x: &Unpacked, y: &Unpacked) -> Ordering {
    if x.class == Class::Zero && y.class == Class::Zero {
        return Ordering::Equal;
    }
    match (x.sign, y.sign) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => (x.exp, x.sig).cmp(&(y.exp, y.sig)),
        (true, true) => (y.exp, y.sig).cmp(&(x.exp, x.sig)),
    }
}

/// Compares; `None` if a NaN makes the operands unordered. INVALID is set for a signalling NaN, and for
/// a quiet one if `signalling`.
#[inline]
pub fn compare<F: Format>(a: F::Bits, b: F::Bits, signalling: bool, flags: &mut Flags) -> Option<Ordering> {
    let (x, y) = (F::unpack(a), F::unpack(b));
    if x.is_nan() || y.is_nan() {
        if signalling || x.class == Class::SignallingNan || y.class == Class::SignallingNan {
            *flags |= Flags::INVALID;
        }
        return None;
    }
    Some(order(&x, &y))
}

/// `a == b`; quiet: only a signalling NaN sets INVALID (`feq`).
#[inline]
pub fn eq<F: Format>(a: F::Bits, b: F::Bits, flags: &mut Flags) -> bool {
    compare::<F>(a, b, false, flags) == Some(Ordering::Equal)
}

/// `a < b`; any NaN sets INVALID (`flt`).
#[inline]
pub fn lt<F: Format>(a: F::Bits, b: F::Bits, flags: &mut Flags) -> bool {
    compare::<F>(a, b, true, flags) == Some(Ordering::Less)
}

/// `a <= b`; any NaN sets INVALID (`fle`).
#[inline]
pub fn le<F: Format>(a: F::Bits, b: F::Bits, flags: &mut Flags) -> bool {
    matches!(
        compare::<F>(a, b, true, flags),
        Some(Ordering::Less | Ordering::Equal)
    )
}

/// minimumNumber (`fmin`): the smaller operand, -0 below +0; the other one if just one is a NaN.
#[inline]
pub fn min<F: Format>(a: F::Bits, b: F::Bits, nan: NanRule, flags: &mut Flags) -> F::Bits {
    extremum::<F>(a, b, Ordering::Less, nan, flags)
}

/// maximumNumber (`fmax`): the larger operand, +0 above -0; the other one if just one is a NaN.
#[inline]
pub fn max<F: Format>(a: F::Bits, b: F::Bits, nan: NanRule, flags: &mut Flags) -> F::Bits {
    extremum::<F>(a, b, Ordering::Greater, nan, flags)
}

#[inline]
fn extremum<F: Format>(a: F::Bits, b: F::Bits, wanted: Ordering, nan: NanRule, flags: &mut Flags) -> F::Bits {
    let (x, y) = (F::unpack(a), F::unpack(b));
    if x.is_nan() || y.is_nan() {
        let quiet_nan = propagate::<F>(&[x, y], nan, flags);
        return match (x.is_nan(), y.is_nan()) {
            (false, _) => a,
            (_, false) => b,
            (true, true) => quiet_nan,
        };
    }
    // Equal operands differ at most as zeros do: then the sign decides.
    let order = order(&x, &y).then(y.sign.cmp(&x.sign));
    if order == wanted { a } else { b }
}

/// RISC-V's `fclass` mask: bits 0 to 9 are -infinity, negative normal, negative subnormal, -0, +0,
/// positive subnormal, positive normal, +infinity, signalling NaN, quiet NaN.
#[inline]
pub fn classify<F: Format>(a: F::Bits) -> u32 {
    let x = F::unpack(a);
    let bit = match (x.class, x.sign) {
        (Class::Infinity, true) => 0,
        (Class::Finite, true) if x.exp >= F::EXP_MIN => 1,
        (Class::Finite, true) => 2,
        (Class::Zero, true) => 3,
        (Class::Zero, false) => 4,
        (Class::Finite, false) if x.exp < F::EXP_MIN => 5,
        (Class::Finite, false) => 6,
        (Class::Infinity, false) => 7,
        (Class::SignallingNan, _) => 8,
        (Class::QuietNan, _) => 9,
    };
    1 << bit
}
