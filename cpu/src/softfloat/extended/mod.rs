//! The x87's arithmetic: 80-bit double extended precision, in integers, bits in, bits and status word out.
//!
//! ```text
//! F80, f32, f64, integer --Operand--> an operation --exact sign, exponent, significand--> round --> F80
//!                                         |                                                 |
//!                     invalid, zero divide, denormal operand              overflow, underflow, precision, C1
//! ```
//!
//! Rules:
//! - Every operation takes the [`X87Env`] by `&mut`: it reads the masks, the precision and the rounding
//!   control, adds exception flags and ES/B to the status word, and sets the condition codes that its page
//!   of SDM 2A defines. C1 says whether the result was rounded away from zero.
//! - The three exceptions that are found before an operation is carried out (invalid operation, zero divide,
//!   denormal operand) leave *no result* if they are unmasked: the operation returns `None` and the
//!   destination, the stack and the condition codes stay as they were (SDM 1, 8.5.1 to 8.5.3).
//! - Unmasked overflow and underflow deliver the rounded result with the exponent moved by 24576 to a
//!   register, and nothing (`None`) to memory (SDM 1, 8.5.4 and 8.5.5).
//! - What the SDM leaves undefined (out-of-range operands of transcendentals, digits of a BCD number above
//!   9, the reserved precision control) has one fixed answer here, written where it is given.
//! - Tininess is detected after rounding.
//!
//! Sources: SDM 1, chapters 4 and 8; SDM 2A, the pages of the `F...` instructions.
//!
//! Not here: the register stack, its faults (IS), and TOP: those are `x86_64::x87`.

mod arith;
mod bcd;
mod compare;
mod constants;
mod convert;
mod env;
mod exponential;
mod format;
mod remainder;
mod round;
mod scale;
mod trigonometric;
mod wide;

pub use arith::{add, div, mul, sqrt, sub};
pub use bcd::{from_bcd, to_bcd};
pub use compare::{Comparison, classify, compare, compare_quiet};
pub use constants::{Constant, constant};
pub use convert::{IntegerWidth, from_f32, from_f64, to_f32, to_f64, to_integer, to_integer_truncated};
pub use env::X87Env;
pub use exponential::{exp2_minus_one, y_log2, y_log2_one_plus};
pub use format::{F80, Kind, Operand};
pub use remainder::{remainder, remainder_nearest};
pub use scale::{extract, round_to_integer, scale};
pub use trigonometric::{atan, cos, sin, sin_cos, tan};

#[cfg(test)]
mod tests;
