//! Device models: what the guest finds behind its memory-mapped registers.
//!
//! ```text
//!   guest access ──┐                      ┌── set_line / set_hart_pin   (interrupts)
//!   deadline due ──┼─▶ Device ─▶ Context ─┼── dma_read / dma_write      (guest memory)
//!   input ─────────┘   (State)            └── console_out, disk_*, power (the outside)
//! ```
//!
//! Rules that every model keeps:
//!
//! - A model is a plain serialisable state struct and the logic over it. It owns no thread, clock,
//!   file or socket; everything arrives in a [`Context`] at each call.
//! - Values are computed from [`Context::now`]; what is stored changes only at guest accesses,
//!   deadlines and inputs, never because somebody looked.
//! - An output (line, pin) is set when it changes, not again and again: each is an event of the log.
//! - The guest is hostile: no register value, descriptor or restored byte makes a model panic, loop
//!   without bound or allocate without bound.
//!
//! What the models follow is named in each file; where a manual leaves a choice, they do what
//! guests know from QEMU's `virt` board.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod clint;
#[cfg(test)]
mod conformance;
mod context;
mod device;
#[cfg(test)]
mod fake;
pub mod finisher;
pub mod ide;
pub mod pc;
pub mod pci;
pub mod plic;
#[cfg(test)]
mod qemu;
pub mod rtc;
mod state;
pub mod uart;
pub mod virtio;

pub use clint::Clint;
pub use context::{ALL_HARTS, BLOCK_SIZE, Context, DiskError, DmaError, HartPin, Power, Shadow};
pub use device::{Device, Input, InputKind};
pub use finisher::Finisher;
pub use icount::VirtualTime;
pub use ide::Ide;
pub use pci::Pci;
pub use plic::Plic;
pub use rtc::Rtc;
pub use state::DeviceError;
pub use uart::Uart;
