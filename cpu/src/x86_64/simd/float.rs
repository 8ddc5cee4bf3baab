//! Floating-point functions that raise no flags, or whose flags the lifter raises.
//!
//! **Approximate reciprocals.** `rcpps` and `rsqrtps` may err by 1.5 × 2^-12 of the result, and processors differ. Here they are
//! the exact result rounded to 13 significant bits, to nearest, ties away from zero (error at most 2^-13): no table, and the same everywhere.
//! Denormal operands count as zeros and denormal results become zeros, whatever MXCSR says (SDM 2B, RCPPS; RSQRTPS).

/// The bits of a binary32's fraction.
const FRACTION: u32 = 0x7f_ffff;

/// Significant bits of an approximation.
const BITS: u32 = 13;

fn pack(sign: u32, exponent: i32, fraction: u32) -> u32 {
    match exponent {
        1..=254 => sign | (exponent as u32) << 23 | fraction,
        ..=0 => sign,
        255.. => sign | 0x7f80_0000,
    }
}

/// The number `significand` × 2^(`exponent` - bias - 12), whose significand has 13 bits, or is 2^13.
fn round(sign: u32, exponent: i32, significand: u32) -> u32 {
    if significand >> BITS == 0 {
        pack(sign, exponent, significand << (24 - BITS) & FRACTION)
    } else {
        pack(sign, exponent + 1, 0)
    }
}

/// `rcpss` of one element.
pub fn reciprocal(x: u32) -> u32 {
    let (sign, exponent, fraction) = (x & 1 << 31, (x >> 23 & 255) as i32, x & FRACTION);
    match exponent {
        0 => sign | 0x7f80_0000,
        255 if fraction == 0 => sign,
        255 => x | 0x40_0000,
        _ => {
            // 2^k / m with m in [2^23, 2^24): for m = 2^23 a power of two, else 13 bits of a quotient below one.
            let m = 1 << 23 | fraction;
            if fraction == 0 {
                return pack(sign, 254 - exponent, 0);
            }
            let quotient = (1u64 << (23 + BITS + 1)) / u64::from(m);
            round(sign, 253 - exponent, (quotient as u32).div_ceil(2))
        }
    }
}

/// `rsqrtss` of one element.
pub fn reciprocal_root(x: u32) -> u32 {
    let (sign, exponent, fraction) = (x & 1 << 31, (x >> 23 & 255) as i32, x & FRACTION);
    match exponent {
        0 => sign | 0x7f80_0000,
        255 if fraction != 0 => x | 0x40_0000,
        _ if sign != 0 => 0xffc0_0000,
        255 => 0,
        _ => {
            // x = m × 2^(2e) with m in [2^22, 2^24) and m's scale even: 1/√x = (2^k/√m) × 2^-e.
            let unbiased = exponent - 127;
            let m = u64::from(1 << 23 | fraction) << (unbiased & 1);
            let half = unbiased >> 1;
            if m == 1 << 23 {
                return pack(0, 127 - half, 0);
            }
            // m / 2^23 in (1, 4): its root's reciprocal in (1/2, 1). With BITS + 1 bits: ⌊√(2^(2·14 + 23) / m)⌋.
            let root = ((1u64 << (2 * (BITS + 1) + 23)) / m).isqrt();
            round(0, 126 - half, (root as u32).div_ceil(2))
        }
    }
}

/// Two elements of a word.
fn both(a: u64, f: fn(u32) -> u32) -> u64 {
    u64::from(f(a as u32)) | u64::from(f((a >> 32) as u32)) << 32
}

/// Bit of [`ROUND_SINGLE`]'s control: denormal operands are zeros.
pub const DENORMALS_ARE_ZEROS: u64 = 4;

/// Rounds to an integer in the same format, of `fraction` bits of fraction and exponent bias `bias`. A NaN becomes quiet.
fn integral(x: u64, control: u64, fraction: u32, bias: u64) -> u64 {
    let exponents = 2 * bias + 1;
    let one = bias << fraction;
    let sign = x & (exponents + 1) << fraction;
    let magnitude = x ^ sign;
    let exponent = magnitude >> fraction;
    let negative = sign != 0;
    if exponent >= bias + u64::from(fraction) {
        let nan = magnitude > exponents << fraction;
        return if nan { x | 1 << (fraction - 1) } else { x };
    }
    if magnitude == 0 || exponent == 0 && control & DENORMALS_ARE_ZEROS != 0 {
        return sign;
    }
    // Toward larger magnitudes?
    let away = match control & 3 {
        1 => negative,
        2 => !negative,
        _ => false,
    };
    let nearest = control & 3 == 0;
    if exponent < bias {
        let half = (bias - 1) << fraction;
        return if away || nearest && magnitude > half {
            sign | one
        } else {
            sign
        };
    }
    let unit = 1 << (u64::from(fraction) - (exponent - bias));
    let (rest, whole) = (magnitude & (unit - 1), magnitude & !(unit - 1));
    // A significand of one bit is odd, and so is the exponent that stands there: both biases are odd.
    let up = away && rest != 0 || nearest && (rest > unit / 2 || rest == unit / 2 && whole & unit != 0);
    sign | if up { whole + unit } else { whole }
}

/// Rounds a binary32 to an integer; `control` as for [`ROUND_SINGLE`].
fn integral_single(x: u64, control: u64) -> u64 {
    integral(x & 0xffff_ffff, control, 23, 127)
}

functions! { super::shuffle::END;
    /// rcpps of two elements.
    RECIPROCAL = |[a, ..]| both(a, reciprocal);
    /// rsqrtps of two elements.
    RECIPROCAL_ROOT = |[a, ..]| both(a, reciprocal_root);
    /// Rounds the low binary32 to an integer; the second argument is MXCSR's rounding control in bits 0 and 1, and
    /// [`DENORMALS_ARE_ZEROS`]. The high half is 0.
    ROUND_SINGLE = |[a, control, ..]| integral_single(a, control);
    /// Rounds a binary64 to an integer; as [`ROUND_SINGLE`].
    ROUND_DOUBLE = |[a, control, ..]| integral(a, control, 52, 1023);
    /// 1 if one of the two elements is denormal, else 0.
    DENORMAL_SINGLES = |[a, ..]| u64::from(f32::from_bits(a as u32).is_subnormal() || f32::from_bits((a >> 32) as u32).is_subnormal());
    /// 1 if the element is denormal, else 0.
    DENORMAL_DOUBLE = |[a, ..]| u64::from(f64::from_bits(a).is_subnormal());
}
