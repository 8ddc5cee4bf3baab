//! The IR's ops on vectors, and the functions of packed instructions, against the host's SSE units, which we did not write:
//! each row is an instruction as bytes and what the ops or functions say that it computes.
//!
//! `TICKBACK_SIMD_CASES` sets the number of random cases per instruction.

#![cfg(target_arch = "x86_64")]
#![allow(missing_docs, clippy::unwrap_used)]

mod cases;
mod crypto;
mod float;
mod host;
mod integer;
mod shuffle;
mod string;
