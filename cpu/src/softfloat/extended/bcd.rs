//! Packed binary-coded decimals. SDM 1, 4.7; SDM 2A, FBLD and FBSTP.

use super::scale::integral;
use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::Flags;

/// The packed BCD indefinite: the masked response to an invalid `fbstp`.
const INDEFINITE: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0xff];

/// `fbld`: eighteen digits and a sign. It never fails; a digit above 9 (undefined) counts as its value.
#[must_use]
pub fn from_bcd(bytes: [u8; 10]) -> F80 {
    let mut value = 0i64;
    // At most 165 * 10^16 + ..., well within an i64.
    for byte in bytes[..9].iter().rev() {
        value = value * 100 + i64::from(byte >> 4) * 10 + i64::from(byte & 15);
    }
    let sign = bytes[9] >> 7 != 0;
    Operand {
        sign,
        ..Operand::integer(value)
    }
    .to_f80()
}

/// `fbstp`: rounded to an integer by rounding control; invalid if it has more than eighteen digits.
/// `None`: nothing is stored, an unmasked exception.
pub fn to_bcd(env: &mut X87Env, a: F80) -> Option<[u8; 10]> {
    env.assign_c1(false);
    let a = Operand::from(a);
    let value = match a.kind {
        Kind::Zero => Some((0, false, false)),
        Kind::Finite if a.exp <= 63 => {
            let (whole, inexact, up) = integral(env, &a, false);
            (whole < 1_000_000_000_000_000_000).then_some((whole as u64, inexact, up))
        }
        _ => None,
    };
    let Some((mut rest, inexact, up)) = value else {
        return env.raise(Flags::INVALID).then_some(INDEFINITE);
    };
    if inexact {
        env.raise(Flags::INEXACT);
        env.assign_c1(up);
    }
    let mut bytes = [0; 10];
    for byte in &mut bytes[..9] {
        let pair = (rest % 100) as u8;
        *byte = ((pair / 10) << 4) | (pair % 10);
        rest /= 100;
    }
    bytes[9] = u8::from(a.sign) << 7;
    Some(bytes)
}
