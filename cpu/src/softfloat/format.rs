//! Formats and the unpacked number that every operation works on.
//!
//! Invariant: [`Unpacked::exp`] and [`Unpacked::sig`] order magnitudes lexicographically, for zeros and
//! infinities too, and a finite nonzero significand has bit 63 set. IEEE 754-2019, 3.4.

use super::{Flags, NanRule};
use std::fmt::Debug;

/// The kind of a datum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A zero of either sign.
    Zero,
    /// A nonzero finite number, normal or subnormal.
    Finite,
    /// An infinity of either sign.
    Infinity,
    /// A quiet NaN.
    QuietNan,
    /// A signalling NaN.
    SignallingNan,
}

/// A datum taken apart. A finite one is `(-1)^sign * sig * 2^(exp - 63)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Its kind.
    pub class: Class,
    /// Its sign bit (of NaNs too).
    pub sign: bool,
    /// The unbiased exponent of the leading bit; `i32::MIN` for a zero, `i32::MAX` for infinities and NaNs.
    pub exp: i32,
    /// The significand, leading bit at 63. A zero has 0; a NaN its fraction at the place it would have in a number.
    pub sig: u64,
}

impl Unpacked {
    /// Whether this is a NaN of either kind.
    #[inline]
    #[must_use]
    pub fn is_nan(&self) -> bool {
        matches!(self.class, Class::QuietNan | Class::SignallingNan)
    }
}

/// A binary format of at most 64 significand bits.
pub trait Format: Copy + Debug + 'static {
    /// The encoding.
    type Bits: Copy + Eq + Debug;
    /// Significand bits, the integer bit included.
    const PRECISION: u32;
    /// Width of the exponent field.
    const EXP_BITS: u32;

    /// The exponent field of infinities and NaNs.
    const EXP_SPECIAL: u32 = (1 << Self::EXP_BITS) - 1;
    /// What the exponent field of a normal number exceeds its exponent by.
    const BIAS: i32 = (1 << (Self::EXP_BITS - 1)) - 1;
    /// The exponent of the smallest normal number.
    const EXP_MIN: i32 = 1 - Self::BIAS;
    /// The integer bit of a significand as [`Format::pack`] takes it.
    const INTEGER_BIT: u64 = 1 << (Self::PRECISION - 1);

    /// Takes a datum apart.
    fn unpack(bits: Self::Bits) -> Unpacked;

    /// Puts an encoding together from the sign, the exponent *field*, and a significand of
    /// [`Format::PRECISION`] bits with its integer bit (which a format that implies it drops).
    fn pack(sign: bool, exp_field: u32, sig: u64) -> Self::Bits;

    /// A zero.
    #[inline]
    #[must_use]
    fn zero(sign: bool) -> Self::Bits {
        Self::pack(sign, 0, 0)
    }

    /// An infinity.
    #[inline]
    #[must_use]
    fn infinity(sign: bool) -> Self::Bits {
        Self::pack(sign, Self::EXP_SPECIAL, Self::INTEGER_BIT)
    }

    /// The finite number of the largest magnitude.
    #[inline]
    #[must_use]
    fn largest(sign: bool) -> Self::Bits {
        let sig = u64::MAX >> (64 - Self::PRECISION);
        Self::pack(sign, Self::EXP_SPECIAL - 1, sig)
    }

    /// The NaN that an invalid operation makes.
    #[inline]
    #[must_use]
    fn default_nan(rule: NanRule) -> Self::Bits {
        match rule {
            NanRule::Canonical => {
                let quiet = Self::INTEGER_BIT | Self::INTEGER_BIT >> 1;
                Self::pack(false, Self::EXP_SPECIAL, quiet)
            }
        }
    }
}

/// binary32.
#[derive(Debug, Clone, Copy)]
pub struct F32;

/// binary64.
#[derive(Debug, Clone, Copy)]
pub struct F64;

macro_rules! interchange {
    ($format:ty, $bits:ty, $precision:literal, $exp_bits:literal) => {
        impl Format for $format {
            type Bits = $bits;
            const PRECISION: u32 = $precision;
            const EXP_BITS: u32 = $exp_bits;

            #[inline]
            fn unpack(bits: $bits) -> Unpacked {
                let sign = bits >> (<$bits>::BITS - 1) != 0;
                let exp_field = (bits >> ($precision - 1)) as u32 & Self::EXP_SPECIAL;
                // The leading bit of the fraction goes to bit 62.
                let fraction = u64::from(bits) << (64 - $precision) & (u64::MAX >> 1);
                if exp_field.wrapping_sub(1) < Self::EXP_SPECIAL - 1 {
                    Unpacked {
                        class: Class::Finite,
                        sign,
                        exp: exp_field as i32 - Self::BIAS,
                        sig: 1 << 63 | fraction,
                    }
                } else {
                    unpack_edge(sign, exp_field == 0, fraction, Self::EXP_MIN)
                }
            }

            #[inline]
            fn pack(sign: bool, exp_field: u32, sig: u64) -> $bits {
                let fraction = (sig & (Self::INTEGER_BIT - 1)) as $bits;
                <$bits>::from(sign) << (<$bits>::BITS - 1)
                    | <$bits>::from(exp_field) << ($precision - 1)
                    | fraction
            }
        }
    };
}

interchange!(F32, u32, 24, 8);
interchange!(F64, u64, 53, 11);

/// Zeros, subnormals, infinities and NaNs of an interchange format; the rare half of `unpack`.
#[cold]
fn unpack_edge(sign: bool, exp_field_zero: bool, fraction: u64, exp_min: i32) -> Unpacked {
    let (class, exp, sig) = match (exp_field_zero, fraction) {
        (true, 0) => (Class::Zero, i32::MIN, 0),
        (true, _) => {
            let shift = fraction.leading_zeros();
            (Class::Finite, exp_min - shift as i32, fraction << shift)
        }
        (false, 0) => (Class::Infinity, i32::MAX, 1 << 63),
        (false, _) if fraction >> 62 != 0 => (Class::QuietNan, i32::MAX, 1 << 63 | fraction),
        (false, _) => (Class::SignallingNan, i32::MAX, 1 << 63 | fraction),
    };
    Unpacked {
        class,
        sign,
        exp,
        sig,
    }
}

/// Sets INVALID and returns the NaN of an invalid operation on numbers.
#[cold]
pub(super) fn invalid<F: Format>(rule: NanRule, flags: &mut Flags) -> F::Bits {
    *flags |= Flags::INVALID;
    F::default_nan(rule)
}

/// The NaN that an operation with NaNs among its `operands` returns. A signalling one sets INVALID.
#[cold]
pub(super) fn propagate<F: Format>(operands: &[Unpacked], rule: NanRule, flags: &mut Flags) -> F::Bits {
    if operands.iter().any(|x| x.class == Class::SignallingNan) {
        *flags |= Flags::INVALID;
    }
    match rule {
        NanRule::Canonical => F::default_nan(rule),
    }
}
