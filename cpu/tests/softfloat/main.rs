//! The software floating point against oracles that we did not write.
//!
//! `host` compares results and flags of every operation in the four rounding directions that SSE has with
//! this machine's SSE, FMA and AVX-512 units (x86-64 only). `ties` decides the fifth, to nearest with ties
//! away, by exact arithmetic on any host: which of the two directed results is nearer?
//!
//! `TICKBACK_SOFTFLOAT_CASES` sets the number of random cases per operation (and direction); a run with a
//! few millions takes minutes.

#![allow(missing_docs, clippy::unwrap_used)]

mod cases;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod sse;
#[cfg(target_arch = "x86_64")]
mod sse_rules;
mod ties;
