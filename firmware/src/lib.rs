//! What runs before the operating system: pure functions from configuration to bytes.
//!
//! - [`layout`]: the RISC-V board's physical addresses, for everyone
//! - [`load_kernel`], [`load_raw`]: ELF, Linux Image, gzip, raw
//! - [`riscv_virt_fdt`]: the device tree
//! - [`sbi`], [`reset_rom`], [`fw_dynamic_info`]: the built-in firmware, and what enters firmware
//! - [`x86`]: the same for the x86-64 PC: bzImage, PVH, multiboot, BIOS, ACPI
//! - [`demo`], [`smp_demo`], [`fp_mix`], [`paging`]: bare-metal guests
//!
//! Nothing here reads a file or knows a device: callers hand over byte slices and copy the results
//! into guest memory. No guest image, however hostile, makes a loader panic or allocate more than
//! the guest's memory.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assembler;
mod error;
mod fdt;
// dynasm converts every operand, also those that have the right type.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
mod guests;
pub mod layout;
mod loader;
mod reset;
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
mod sbi;
pub mod x86;

pub use error::FirmwareError;
pub use fdt::{FdtConfig, MAX_HARTS, RISCV_EXTENSIONS, riscv_virt_fdt};
pub use guests::{
    DEMO_CULPRIT, FP_MIX_CONSOLE, Guest, PAGING_CONSOLE, X86_DEMO_CULPRIT, X86Guest, demo, fp_mix, paging,
    smp_demo, x86_demo,
};
pub use loader::{KernelKind, Loaded, Segment, load_kernel, load_raw};
pub use reset::{NextMode, fw_dynamic_info, reset_rom};
pub use sbi::{SBI_MAX_HARTS, SbiConfig, sbi};
