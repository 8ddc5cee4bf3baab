//! Comparisons and `fxam`. SDM 2A, FCOM, FUCOM, FCOMI, FTST, FXAM.

use super::{F80, Kind, Operand, X87Env};
use crate::softfloat::Flags;
use std::cmp::Ordering;

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The first operand is smaller.
    Less,
    /// They are equal.
    Equal,
    /// The first operand is larger.
    Greater,
    /// One is a NaN or unsupported.
    Unordered,
}

impl Comparison {
    /// C3, C2 and C0 of the status word (SDM 2A, FCOM).
    #[must_use]
    pub const fn condition_codes(self) -> u16 {
        match self {
            Self::Greater => 0,
            Self::Less => X87Env::C0,
            Self::Equal => X87Env::C3,
            Self::Unordered => X87Env::C0 | X87Env::C2 | X87Env::C3,
        }
    }

    /// ZF (bit 6), PF (bit 2) and CF (bit 0) of EFLAGS (SDM 2A, FCOMI).
    #[must_use]
    pub const fn eflags(self) -> u32 {
        match self {
            Self::Greater => 0,
            Self::Less => 1,
            Self::Equal => 1 << 6,
            Self::Unordered => 1 << 6 | 1 << 2 | 1,
        }
    }
}

/// The ordered comparison of `fcom`, `ficom`, `ftst` and `fcomi`: any NaN is invalid. `None`: unmasked invalid operation.
///
/// Where the outcome goes (condition codes or EFLAGS) is the caller's; C1 is cleared here. An unmasked denormal
/// operand has an outcome nevertheless; as after any unmasked exception nothing is popped then. (AMD
/// processors report *unordered* after an unmasked invalid operation too, and leave C1 alone in `fcomi`.)
pub fn compare(env: &mut X87Env, a: Operand, b: Operand) -> Option<Comparison> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        return env.raise(Flags::INVALID).then_some(Comparison::Unordered);
    }
    Some(compare_numbers(env, a, b))
}

/// The unordered comparison of `fucom` and `fucomi`: a quiet NaN is not invalid.
/// Otherwise as [`compare`].
pub fn compare_quiet(env: &mut X87Env, a: Operand, b: Operand) -> Option<Comparison> {
    env.assign_c1(false);
    if !a.is_number() || !b.is_number() {
        let invalid = [a.kind, b.kind]
            .iter()
            .any(|k| matches!(k, Kind::SignallingNan | Kind::Unsupported));
        if invalid && !env.raise(Flags::INVALID) {
            return None;
        }
        return Some(Comparison::Unordered);
    }
    Some(compare_numbers(env, a, b))
}

fn compare_numbers(env: &mut X87Env, a: Operand, b: Operand) -> Comparison {
    if a.denormal || b.denormal {
        env.raise(Flags::DENORMAL);
    }
    match key(a).cmp(&key(b)) {
        Ordering::Less => Comparison::Less,
        Ordering::Equal => Comparison::Equal,
        Ordering::Greater => Comparison::Greater,
    }
}

/// Orders as the numbers do.
fn key(a: Operand) -> i128 {
    let magnitude = match a.kind {
        Kind::Zero => 0,
        Kind::Infinity => i128::MAX,
        // The exponent is at least -16445.
        _ => i128::from(a.exp + 0x8000) << 64 | i128::from(a.sig),
    };
    if a.sign { -magnitude } else { magnitude }
}

/// Condition codes of `fxam` for a register that isn't empty (SDM 2A, table 3-31). C1 is the sign.
#[must_use]
pub const fn classify(a: F80) -> u16 {
    let class = match a.kind() {
        Kind::Unsupported => 0,
        Kind::QuietNan | Kind::SignallingNan => X87Env::C0,
        Kind::Finite if a.is_denormal() => X87Env::C2 | X87Env::C3,
        Kind::Finite => X87Env::C2,
        Kind::Infinity => X87Env::C2 | X87Env::C0,
        Kind::Zero => X87Env::C3,
    };
    class | if a.sign() { X87Env::C1 } else { 0 }
}
