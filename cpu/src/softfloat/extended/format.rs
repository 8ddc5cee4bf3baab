//! The 80-bit format, and the operand that every operation works on. SDM 1, 4.2.2 and 8.2.2.

use super::X87Env;
use crate::softfloat::{self, Class, Flags, Format, Unpacked};
use serde::{Deserialize, Serialize};

/// A raw 80-bit pattern; all 2^80 are legal, not all are supported by the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct F80 {
    /// Sign (bit 15) and biased exponent.
    pub sign_exponent: u16,
    /// Significand with its explicit integer bit (bit 63).
    pub significand: u64,
}

/// The integer bit.
pub(super) const INTEGER_BIT: u64 = 1 << 63;
/// The quiet bit of a NaN.
const QUIET_BIT: u64 = 1 << 62;
/// The exponent field of infinities and NaNs.
pub(super) const EXP_SPECIAL: u16 = 0x7fff;
/// What the exponent field exceeds the exponent by.
pub(super) const BIAS: i32 = 16383;

impl F80 {
    /// Plus zero.
    pub const ZERO: Self = Self::new(0, 0);
    /// One.
    pub const ONE: Self = Self::new(0x3fff, INTEGER_BIT);
    /// The QNaN floating-point indefinite: the masked response to an invalid operation (SDM 1, table 4-3).
    pub const INDEFINITE: Self = Self::new(0xffff, INTEGER_BIT | QUIET_BIT);

    /// The datum with these fields.
    #[inline]
    #[must_use]
    pub const fn new(sign_exponent: u16, significand: u64) -> Self {
        Self {
            sign_exponent,
            significand,
        }
    }

    /// From its ten bytes in memory.
    #[inline]
    #[must_use]
    pub const fn from_bytes(b: [u8; 10]) -> Self {
        Self {
            sign_exponent: u16::from_le_bytes([b[8], b[9]]),
            significand: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
        }
    }

    /// Its ten bytes in memory.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.significand.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sign_exponent.to_le_bytes());
        bytes
    }

    /// Its sign bit.
    #[inline]
    #[must_use]
    pub const fn sign(self) -> bool {
        self.sign_exponent >> 15 != 0
    }

    /// Sign complemented (`fchs`), of any pattern.
    #[inline]
    #[must_use]
    pub const fn negated(self) -> Self {
        Self::new(self.sign_exponent ^ 0x8000, self.significand)
    }

    /// Sign cleared (`fabs`), of any pattern.
    #[inline]
    #[must_use]
    pub const fn absolute(self) -> Self {
        Self::new(self.sign_exponent & 0x7fff, self.significand)
    }

    /// A zero.
    #[inline]
    #[must_use]
    pub const fn zero(sign: bool) -> Self {
        Self::new((sign as u16) << 15, 0)
    }

    /// An infinity.
    #[inline]
    #[must_use]
    pub const fn infinity(sign: bool) -> Self {
        Self::new((sign as u16) << 15 | EXP_SPECIAL, INTEGER_BIT)
    }

    /// The exponent field.
    #[inline]
    #[must_use]
    pub const fn exp_field(self) -> u16 {
        self.sign_exponent & EXP_SPECIAL
    }

    /// Its kind.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> Kind {
        let integer = self.significand & INTEGER_BIT != 0;
        match self.exp_field() {
            0 if self.significand == 0 => Kind::Zero,
            0 => Kind::Finite,
            _ if !integer => Kind::Unsupported,
            EXP_SPECIAL if self.significand == INTEGER_BIT => Kind::Infinity,
            EXP_SPECIAL if self.significand & QUIET_BIT != 0 => Kind::QuietNan,
            EXP_SPECIAL => Kind::SignallingNan,
            _ => Kind::Finite,
        }
    }

    /// Whether this is a denormal or a pseudo-denormal.
    #[inline]
    #[must_use]
    pub const fn is_denormal(self) -> bool {
        self.exp_field() == 0 && self.significand != 0
    }
}

/// The kind of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A zero of either sign.
    Zero,
    /// A nonzero finite number: normal, denormal or pseudo-denormal.
    Finite,
    /// An infinity of either sign.
    Infinity,
    /// A quiet NaN.
    QuietNan,
    /// A signalling NaN.
    SignallingNan,
    /// An unnormal, pseudo-infinity or pseudo-NaN: an invalid operand (SDM 1, table 8-3).
    Unsupported,
}

/// An operand taken apart. A finite one is `(-1)^sign * sig * 2^(exp - 63)`.
///
/// Memory operands of the formats other than double extended become one without loss: what arithmetic
/// makes of a signalling NaN or a denormal there is the same as for a register, but that "denormal" is
/// by the format in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// Its kind.
    pub kind: Kind,
    /// Its sign bit.
    pub sign: bool,
    /// The unbiased exponent of the leading bit; of a finite number only.
    pub exp: i32,
    /// The significand, leading bit at 63 unless it is zero or unsupported.
    pub sig: u64,
    /// Whether using it is a denormal-operand exception.
    pub denormal: bool,
}

impl From<F80> for Operand {
    #[inline]
    fn from(x: F80) -> Self {
        let kind = x.kind();
        let field = x.exp_field();
        let denormal = x.is_denormal();
        let shift = if denormal {
            x.significand.leading_zeros()
        } else {
            0
        };
        Self {
            kind,
            sign: x.sign(),
            exp: i32::from(field.max(1)) - BIAS - shift as i32,
            sig: x.significand << shift,
            denormal,
        }
    }
}

impl Operand {
    /// A binary32 in memory.
    #[must_use]
    pub fn single(bits: u32) -> Self {
        Self::widened::<softfloat::F32>(softfloat::F32::unpack(bits))
    }

    /// A binary64 in memory.
    #[must_use]
    pub fn double(bits: u64) -> Self {
        Self::widened::<softfloat::F64>(softfloat::F64::unpack(bits))
    }

    fn widened<F: Format>(x: Unpacked) -> Self {
        let kind = match x.class {
            Class::Zero => Kind::Zero,
            Class::Finite => Kind::Finite,
            Class::Infinity => Kind::Infinity,
            Class::QuietNan => Kind::QuietNan,
            Class::SignallingNan => Kind::SignallingNan,
        };
        Self {
            kind,
            sign: x.sign,
            exp: x.exp,
            sig: x.sig,
            denormal: kind == Kind::Finite && x.exp < F::EXP_MIN,
        }
    }

    /// A signed integer in memory (of any width).
    #[must_use]
    pub fn integer(value: i64) -> Self {
        let magnitude = value.unsigned_abs();
        let shift = magnitude.leading_zeros();
        Self {
            kind: if value == 0 { Kind::Zero } else { Kind::Finite },
            sign: value < 0,
            exp: 63 - shift as i32,
            sig: magnitude.checked_shl(shift).unwrap_or(0),
            denormal: false,
        }
    }

    /// The datum in the register format, exactly; a NaN keeps its kind.
    #[must_use]
    pub fn to_f80(self) -> F80 {
        let field = match self.kind {
            Kind::Zero => 0,
            Kind::Finite if self.exp <= -BIAS => {
                let shift = (1 - BIAS).wrapping_sub(self.exp) as u32;
                return F80::new(
                    u16::from(self.sign) << 15,
                    self.sig.checked_shr(shift).unwrap_or(0),
                );
            }
            Kind::Finite => (self.exp + BIAS) as u16,
            _ => EXP_SPECIAL,
        };
        F80::new(u16::from(self.sign) << 15 | field, self.sig)
    }

    /// A NaN with the quiet bit set.
    #[inline]
    pub(super) fn quieted(self) -> F80 {
        F80::new(
            u16::from(self.sign) << 15 | EXP_SPECIAL,
            self.sig | QUIET_BIT | INTEGER_BIT,
        )
    }

    #[inline]
    pub(super) fn is_nan(&self) -> bool {
        matches!(self.kind, Kind::QuietNan | Kind::SignallingNan)
    }

    /// Whether arithmetic needs to look at NaNs and unsupported patterns at all.
    #[inline]
    pub(super) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Zero | Kind::Finite | Kind::Infinity)
    }
}

/// Raises invalid operation: the indefinite if it is masked.
#[cold]
pub(super) fn invalid(env: &mut X87Env) -> Option<F80> {
    env.raise(Flags::INVALID).then_some(F80::INDEFINITE)
}

/// The result of an operation with a NaN or an unsupported pattern among its operands (SDM 1, 4.8.3.5 and
/// table 4-7): the NaN with the larger significand, a quiet one before a signalling one, the positive one of two
/// that differ in sign alone; quieted.
#[cold]
pub(super) fn propagate(env: &mut X87Env, a: Operand, b: Operand) -> Option<F80> {
    if a.kind == Kind::Unsupported || b.kind == Kind::Unsupported {
        return invalid(env);
    }
    let signalling = a.kind == Kind::SignallingNan || b.kind == Kind::SignallingNan;
    let chosen = if !b.is_nan() {
        a
    } else if !a.is_nan() {
        b
    } else if a.kind != b.kind {
        if a.kind == Kind::QuietNan { a } else { b }
    } else if (a.sig, b.sign) > (b.sig, a.sign) {
        a
    } else {
        b
    };
    if signalling && !env.raise(Flags::INVALID) {
        return None;
    }
    Some(chosen.quieted())
}

/// [`propagate`] for one operand.
#[cold]
pub(super) fn propagate_one(env: &mut X87Env, a: Operand) -> Option<F80> {
    propagate(env, a, a)
}

/// Raises the denormal-operand exception if one of `operands` is one. `None` if it is unmasked.
#[inline]
pub(super) fn check_denormal<const N: usize>(env: &mut X87Env, operands: [&Operand; N]) -> Option<()> {
    if operands.iter().any(|x| x.denormal) && !env.raise(Flags::DENORMAL) {
        return None;
    }
    Some(())
}
