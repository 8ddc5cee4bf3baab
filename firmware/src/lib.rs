//! What runs before the operating system: pure functions from configuration to bytes.
//!
//! - [`layout`]: the RISC-V board's physical addresses, for everyone
//! - [`load_kernel`], [`load_raw`]: ELF, Linux Image, gzip, raw
//! - [`demo`], [`smp_demo`], [`fp_mix`], [`paging`]: bare-metal guests
//!
//! Nothing here reads a file or knows a device: callers hand over byte slices and copy the results
//! into guest memory. No guest image, however hostile, makes a loader panic or allocate more than
//! the guest's memory.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assembler;
mod error;
mod guests;
pub mod layout;
mod loader;

pub use error::FirmwareError;
pub use guests::{FP_MIX_CONSOLE, Guest, PAGING_CONSOLE, demo, fp_mix, paging, smp_demo};
pub use loader::{KernelKind, Loaded, Segment, load_kernel, load_raw};
