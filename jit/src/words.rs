//! Which engine word of a [`cpu::RegFile`] means what, and what lies on the stack while translated code
//! runs.

use cpu::ENGINE_SLOTS;

use crate::asm::{Mem, RBP, RSP};

/// The state pointer stands this many bytes past the first word, so that slots 0 to 31 take an 8-bit
/// displacement.
pub const BIAS: i32 = 128;

/// Word: data TLB of the running space.
pub const TLB: usize = ENGINE_SLOTS;
/// Word: jump cache of the running code space.
pub const JUMPS: usize = ENGINE_SLOTS + 1;

/// The memory operand of a word.
pub const fn word(index: usize) -> Mem {
    Mem::new(RBP, index as i32 * 8 - BIAS)
}

/// Spill words on the stack, from its top on.
pub const SPILLS: usize = 48;
/// Stack: pointer to the run's [`crate::run::Ctx`].
pub const CTX: i32 = SPILLS as i32 * 8;
/// Stack: the host's MXCSR.
pub const HOST_MXCSR: i32 = CTX + 8;
/// Stack: scratch for MXCSR.
pub const SCRATCH: i32 = CTX + 16;
/// Size of the stack frame; with six saved registers and the return address it keeps the stack aligned.
pub const FRAME: i32 = CTX + 24;

/// The memory operand of a spill word.
pub const fn spill(index: u8) -> Mem {
    Mem::new(RSP, index as i32 * 8)
}
