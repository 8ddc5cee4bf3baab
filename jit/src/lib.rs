//! How IR runs fast on this host: an [`cpu::ir::Block`] becomes x86-64 code.
//!
//! ```text
//!  Block --passes/--> Block --plan.rs--> last uses, hints, shared checks --gen/--> bytes --cache.rs--> entry
//!                                                                        exits --> jit.rs (tables)
//!
//!  while translated code runs:
//!    rbp          slots (biased by 128 bytes, so that slots 0 to 31 are near)
//!    rbx rdi r8 r9 r10 r11 r13 r12    homes of the eight hottest guest registers, across blocks
//!    r14          data TLB of the current space        r15   budget: steps left
//!    rax rcx rdx rsi, xmm0-15         temporaries of a block
//!    rsp          frame: spill words, host MXCSR, context
//!    MXCSR        the guest's rounding and flags; exceptions masked
//!
//!  a block:
//!    hot     sub [counter], 1; js often     until it is made anew, along a path
//!            sub r15, steps; jb tail
//!            instructions; an access: probe, jne cold, access
//!            jcc/jmp links, patched; or a probe of the jump cache
//!    cold    tail, slow paths, exits (mov eax, number; jmp exit)
//! ```
//!
//! Rules:
//! - Every exit has a number; what it means (program counter, steps to give back, link) is a record in a
//!   table on this side, so that a cold exit is ten bytes.
//! - A slow path changes no register but its result (`thunks.rs`), so the allocator knows nothing of it.
//! - An instruction commits its `Set`s after its last op that can trap; a home may be written early only
//!   between that op and the `Set`.
//! - A block runs only if all its steps fit in the budget; else [`Ran::Tail`] asks the machine to interpret
//!   it ([`cpu::interp::run`] does a tail faster than it could be translated).
//! - Host addresses that a block computed are given up after every slow path.
//!
//! The crate knows no guest: a [`cpu::Layout`] says which slots are what. It holds no state that a guest
//! can see.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod asm;
mod cache;
mod gen_regs;
mod jit;
mod jumps;
mod names;
pub mod passes;
mod plan;
mod run;
mod thunks;
pub mod tlb;
mod words;
mod zeroed;

#[path = "gen/mod.rs"]
mod generate;

pub use jit::{BlockId, BlockKey, Full, Jit, JitError, LinkSite, Ran, Stats};
pub use passes::Passes;

/// What this host lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("translation needs an x86-64 Linux host with {0}; use the interpreter")]
pub struct Missing(pub &'static str);

/// Whether translated code can run on this host.
pub fn supported() -> Result<(), Missing> {
    for (there, name) in [
        (std::is_x86_feature_detected!("avx2"), "AVX2"),
        (std::is_x86_feature_detected!("bmi1"), "BMI1"),
        (std::is_x86_feature_detected!("bmi2"), "BMI2"),
        (std::is_x86_feature_detected!("fma"), "FMA"),
        (std::is_x86_feature_detected!("lzcnt"), "LZCNT"),
        (std::is_x86_feature_detected!("popcnt"), "POPCNT"),
    ] {
        if !there {
            return Err(Missing(name));
        }
    }
    Ok(())
}
