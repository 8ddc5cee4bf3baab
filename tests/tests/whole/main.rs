//! Whole machines, in one binary: one link, and in the release profile.
#![allow(clippy::unwrap_used, missing_docs)]
// Host time decides only when a process is killed.
#![allow(clippy::disallowed_methods)]

mod architecture;
mod battery;
mod chipset;
mod counts;
mod debian;
mod determinism;
mod faults;
mod fuzz;
mod killed;
mod network;
mod protection;
mod semihosting;
mod symbols;
