//! IEEE 754 binary floating point in integer arithmetic: bits in, bits out, the same on every host.
//!
//! This is what a guest's floating-point instruction *means*. The IR interpreter calls it for every
//! operation, translated code where the host's own unit can't be used (round to nearest with ties
//! away, a choice of NaN, unmasked exceptions), and tests compare the host's SSE unit with it.
//!
//! ```text
//! bits --Format::unpack--> Unpacked --an operation--> sign, exponent, exact significand + rest
//!                                                                 |
//! bits <--Format::pack----------------------------- round::round_pack (flags set here)
//! ```
//!
//! Rules:
//! - An [`Unpacked`] significand is a `u64` whose leading one is bit 63. That holds binary32, binary64 and
//!   the x87's 64-bit significand alike; an operation hands `round_pack` 64 more bits, the last of
//!   them sticky, so one rounding routine serves every format.
//! - Operations take the sticky [`Flags`] by `&mut` and only ever add to them. No operation reads them.
//! - Tininess is detected after rounding, as the RISC-V F extension and SSE both define it;
//!   [`Flags::UNDERFLOW`] is set when a result is tiny *and* inexact.
//! - An operation that makes a NaN asks [`Env::nan`] which.
//!
//! Sources: IEEE 754-2019; RISC-V Unprivileged, chapters "F" and "D" (version 2.2); SDM 1, 4.8 and 11.5.
//!
//! The 80-bit format of the x87, whose rules differ in much, is [`extended`].
//!
//! Not here: sign manipulation (`fsgnj`, `fneg`, `fabs`; it is integer code), flush-to-zero and
//! denormals-are-zero, and the mapping of flags and rounding modes to a guest's registers.

mod arith;
mod compare;
mod convert;
pub mod extended;
mod format;
mod fused;
mod round;
pub mod sse;

pub use arith::{add, div, mul, sqrt, sub};
pub use compare::{classify, compare, eq, le, lt, max, min};
pub use convert::{
    Integer, OutOfRange, convert, from_i32, from_i64, from_u32, from_u64, to_i32, to_i64, to_integer, to_u32,
    to_u64,
};
pub use format::{Class, F32, F64, Format, Unpacked};
pub use fused::fma;

/// Rounding direction. The order is that of RISC-V's `rm` field (0 to 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Round {
    /// To nearest, ties to even (RNE).
    NearestEven,
    /// Towards zero (RTZ).
    TowardZero,
    /// Towards negative infinity (RDN).
    Down,
    /// Towards positive infinity (RUP).
    Up,
    /// To nearest, ties to the larger magnitude (RMM).
    NearestMaxMagnitude,
}

bitflags::bitflags! {
    /// Sticky exception flags, at the bits that they have in MXCSR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u32 {
        /// Invalid operation (IE, NV).
        const INVALID = 1;
        /// A denormal operand (DE). RISC-V has no such flag; no operation here sets it.
        const DENORMAL = 2;
        /// Division of a finite number by zero (ZE, DZ).
        const DIV_ZERO = 4;
        /// The rounded result exceeds the largest finite number (OE, OF).
        const OVERFLOW = 8;
        /// The result is tiny after rounding, and inexact (UE, UF).
        const UNDERFLOW = 16;
        /// The result differs from the exact one (PE, NX).
        const INEXACT = 32;
    }
}

/// Which NaN an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NanRule {
    /// Always the positive quiet NaN without payload (RISC-V): `0x7fc0_0000`, `0x7ff8_0000_0000_0000`.
    Canonical,
}

/// What an operation depends on besides its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Env {
    /// Rounding direction.
    pub round: Round,
    /// The choice of NaN.
    pub nan: NanRule,
}

impl Env {
    /// RISC-V's environment with the rounding direction `round`.
    #[must_use]
    pub const fn riscv(round: Round) -> Self {
        Self {
            round,
            nan: NanRule::Canonical,
        }
    }
}

#[cfg(test)]
mod tests;
