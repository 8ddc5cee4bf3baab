//! The constants that can be loaded, by rounding control. SDM 2A, FLD1/FLDL2T/FLDL2E/FLDPI/FLDLG2/FLDLN2/FLDZ.

use super::{F80, X87Env};
use crate::softfloat::Round;

/// A constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// `fld1`: 1.
    One,
    /// `fldl2t`: log2(10).
    Log2Ten,
    /// `fldl2e`: log2(e).
    Log2E,
    /// `fldpi`: π.
    Pi,
    /// `fldlg2`: log10(2).
    Log10Two,
    /// `fldln2`: ln(2).
    LnTwo,
    /// `fldz`: +0.
    Zero,
}

impl Constant {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::One,
        Self::Log2Ten,
        Self::Log2E,
        Self::Pi,
        Self::Log10Two,
        Self::LnTwo,
        Self::Zero,
    ];

    /// Sign and exponent, the significand cut off, and whether the nearest is one more; `None` if it is exact.
    const fn parts(self) -> (u16, u64, Option<bool>) {
        match self {
            Self::One => (0x3fff, 1 << 63, None),
            Self::Log2Ten => (0x4000, 0xd49a_784b_cd1b_8afe, Some(false)),
            Self::Log2E => (0x3fff, 0xb8aa_3b29_5c17_f0bb, Some(true)),
            Self::Pi => (0x4000, 0xc90f_daa2_2168_c234, Some(true)),
            Self::Log10Two => (0x3ffd, 0x9a20_9a84_fbcf_f798, Some(true)),
            Self::LnTwo => (0x3ffe, 0xb172_17f7_d1cf_79ab, Some(true)),
            Self::Zero => (0, 0, None),
        }
    }
}

/// The constant rounded by rounding control (not by precision control). No exception; clears C1.
pub fn constant(env: &mut X87Env, which: Constant) -> F80 {
    env.assign_c1(false);
    let (sign_exponent, truncated, nearest_up) = which.parts();
    let up = match (nearest_up, env.round()) {
        (None, _) | (_, Round::TowardZero | Round::Down) => false,
        (_, Round::Up) => true,
        (Some(up), Round::NearestEven | Round::NearestMaxMagnitude) => up,
    };
    F80::new(sign_exponent, truncated + u64::from(up))
}
