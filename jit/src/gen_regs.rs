//! Which host register does what while translated code runs.

use crate::asm::{R8, R9, R10, R11, R12, R13, RAX, RBX, RCX, RDI, RDX, RSI, Reg};

/// Homes of the hottest guest registers, in that order. The ones that cost a byte more as a base address
/// come last.
pub const HOMES: [Reg; 8] = [RBX, RDI, R8, R9, R10, R11, R13, R12];

/// Temporaries.
pub const TEMPS: [Reg; 4] = [RAX, RCX, RDX, RSI];
