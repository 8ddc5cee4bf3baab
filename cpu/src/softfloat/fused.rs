//! Fused multiply-add, and the 128-bit addition that it is made of. IEEE 754-2019, 5.4.1;
//! RISC-V F, "Single-Precision Floating-Point Computational Instructions".

use super::arith::product;
use super::format::{invalid, propagate};
use super::round::{round_pack, shift_right_jam_wide, zero_sum_sign};
use super::{Class, Env, Flags, Format, NanRule, Unpacked};

/// `a * b + c`, rounded once.
///
/// For RISC-V, an infinity times zero sets INVALID even when `c` is a quiet NaN (the standard leaves that open).
/// The other forms (`fmsub`, `fnmadd`, ...) are this with the signs of `a` and `c` flipped.
#[inline]
pub fn fma<F: Format>(a: F::Bits, b: F::Bits, c: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    const { assert!(F::PRECISION <= 62, "the product must leave guard bits") };
    let (x, y, z) = (F::unpack(a), F::unpack(b), F::unpack(c));
    if x.class != Class::Finite || y.class != Class::Finite || z.class != Class::Finite {
        return fma_special::<F>(x, y, z, env, flags);
    }
    let (exp, product) = product(x, y);
    let addend = (z.sign, z.exp, u128::from(z.sig) << 64);
    add_wide::<F>((x.sign ^ y.sign, exp, product), addend, env, flags)
}

#[cold]
fn fma_special<F: Format>(x: Unpacked, y: Unpacked, z: Unpacked, env: Env, flags: &mut Flags) -> F::Bits {
    let undefined_product = matches!(
        (x.class, y.class),
        (Class::Infinity, Class::Zero) | (Class::Zero, Class::Infinity)
    );
    if x.is_nan() || y.is_nan() || z.is_nan() {
        match env.nan {
            NanRule::Canonical if undefined_product => *flags |= Flags::INVALID,
            NanRule::Canonical => {}
        }
        return propagate::<F>(&[x, y, z], env.nan, flags);
    }
    if undefined_product {
        return invalid::<F>(env.nan, flags);
    }
    let sign = x.sign ^ y.sign;
    let infinite_product = x.class == Class::Infinity || y.class == Class::Infinity;
    let zero_product = x.class == Class::Zero || y.class == Class::Zero;
    match z.class {
        Class::Infinity if infinite_product && sign != z.sign => invalid::<F>(env.nan, flags),
        Class::Infinity => F::infinity(z.sign),
        _ if infinite_product => F::infinity(sign),
        Class::Zero if zero_product && sign == z.sign => F::zero(sign),
        Class::Zero if zero_product => F::zero(zero_sum_sign(env.round)),
        _ if zero_product => round_pack::<F>(z.sign, z.exp, z.sig, 0, env, flags),
        _ => {
            let (exp, product) = product(x, y);
            round_pack::<F>(sign, exp, (product >> 64) as u64, product as u64, env, flags)
        }
    }
}

/// A nonzero term of a sum: its sign, exponent and significand, `sig * 2^(exp - 127)` with bit 127 set.
type Term = (bool, i32, u128);

/// The sum of two terms, rounded into `F`. The low 22 bits of both must be zero, or at least those that
/// `F` doesn't need (two), so that what alignment shifts out can be kept as a sticky bit.
#[inline]
pub(super) fn add_wide<F: Format>(x: Term, y: Term, env: Env, flags: &mut Flags) -> F::Bits {
    let swap = (x.1, x.2) < (y.1, y.2);
    let ((sign, exp, big), (small_sign, small_exp, small)) = if swap { (y, x) } else { (x, y) };
    let addend = shift_right_jam_wide(small, exp.abs_diff(small_exp));
    let (exp, sum) = if sign == small_sign {
        match big.overflowing_add(addend) {
            (sum, true) => (exp + 1, 1 << 127 | sum >> 1 | sum & 1),
            (sum, false) => (exp, sum),
        }
    } else {
        let difference = big - addend;
        if difference == 0 {
            return F::zero(zero_sum_sign(env.round));
        }
        let shift = difference.leading_zeros();
        (exp - shift as i32, difference << shift)
    };
    round_pack::<F>(sign, exp, (sum >> 64) as u64, sum as u64, env, flags)
}
