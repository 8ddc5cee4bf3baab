//! The x86-64 guest: a processor at the x86-64-v2 level, from reset in real mode to long mode.
//!
//! ```text
//!   bytes --iced-x86--> instruction --lift/--> IR block      slots.rs   which slot holds which register
//!                                                            mode.rs    what a block's meaning depends on
//!   helper.rs   what lifted code calls: segments, gates, MSRs, x87, ...
//!   hart.rs     the processor: registers, pins, boundaries; mmu, segments, gates, far, syscall, control, msr, cpuid, ...
//!   simd/       what packed instructions compute, as functions of 64-bit words
//!   x87/        the x87 and MMX registers, and every x87 instruction as a function of them; fpu.rs has their operands
//! ```
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual (SDM), volumes 1 to 3.

pub mod bits;
mod call;
mod control;
pub mod cpuid;
pub mod debug;
pub mod disasm;
mod far;
pub mod flags;
#[cfg(any(test, feature = "test-support"))]
pub mod flat;
mod fpu;
mod fxstate;
mod gates;
pub mod hart;
pub mod helper;
pub mod lift;
pub mod mmu;
pub mod mode;
mod msr;
mod noncanonical;
mod ports;
pub mod pure;
pub mod registers;
mod segments;
pub mod simd;
pub mod slots;
mod sse;
mod stack;
mod state;
pub mod strings;
mod syscall;
pub mod trap;
pub mod x87;

#[cfg(test)]
mod battery;
#[cfg(test)]
mod fake;

/// Number of CR8 for [`crate::Context::local_read`]: no MSR has it.
pub const CR8: u32 = 0xffff_0008;
