//! The x87 arithmetic against the x87 of the host, which we did not write: result, status word, stack and
//! memory of one instruction, with random masks, precision and rounding control.
//!
//! Unmasked exceptions are compared too: `frstor` loads the state, the instruction runs, and `fnsave`, which
//! doesn't wait for exceptions, takes the state before anything could trap.
//!
//! `TICKBACK_X87_CASES` sets the number of random cases per instruction.

#![cfg(target_arch = "x86_64")]
#![allow(missing_docs, clippy::unwrap_used)]

mod arithmetic;
mod host;
mod operands;
mod stack;
mod transcendental;
