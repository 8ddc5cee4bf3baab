//! The machine: RAM and its guards, the bus, boards, the run loop, host back ends, recording and replaying.
//!
//! ```text
//!   machine.rs   run loop (rule B)          dispatch.rs  pc -> block -> engine
//!   system.rs    devices, lines, time       access.rs    what leaves the fast path
//!   memory.rs    guards and translations    ram.rs       the bytes
//!   state.rs     save, restore, roots       stops.rs     breakpoints, watchpoints
//!   board.rs     riscv-virt                 engine.rs    JIT or interpreter
//!   check.rs     two machines on one door   diff.rs      where two recordings part
//!   symbols/    symbols of the kernel that runs
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod behind;
pub mod board;
pub mod boot;
pub mod check;
pub mod config;
mod context;
mod debug;
pub mod diff;
pub mod disk;
mod dispatch;
mod doors;
pub mod engine;
mod error;
mod figures;
mod halves;
pub mod history;
pub mod host;
#[allow(clippy::module_inception)] // The crate and its main type have the name of what they are.
mod machine;
pub mod manifest;
mod memory;
mod path;
mod ram;
pub mod recorded;
mod schedule;
mod screen;
mod semihosting;
mod shadow;
mod state;
pub mod stops;
pub mod symbols;
mod system;
mod tables;
pub mod verify;
mod wiring;

pub use config::{Config, HartStart, MODEL_VERSION};
pub use debug::AddressKind;
pub use engine::{Engine, EngineKind, HostClock, PerfMap};
pub use error::MachineError;
pub use figures::Figures;
pub use history::History;
pub use jit::Passes;
pub use machine::{FirstStep, Machine, Scanned, Stopped};
pub use memory::Watch;
pub use recorded::Recorded;
pub use schedule::{DEFAULT_SLICE, LEAST_SLICE, Schedule};
pub use screen::Screen;
pub use state::Snapshot;
pub use stops::{Stop, Stops};
pub use symbols::KernelSymbols;
pub use verify::Verified;

pub use snapshot::{Backward, Forward, Landed, Progress, Timeline, TimelineError, TimelineOptions};
pub use {cpu, icount, snapshot};
