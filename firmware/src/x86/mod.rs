//! What an x86-64 PC needs before its operating system runs.
//!
//! - [`layout`]: the board's addresses, ports and interrupts, for everyone
//! - [`load_x86_kernel`]: bzImage, PVH, multiboot and bare ELF kernels, started without a BIOS
//! - [`load_bios`]: a firmware ROM, started as the processor starts
//! - [`acpi`]: the machine's tables, for both ways
//! - [`fw_cfg`]: what a BIOS is told through QEMU's firmware configuration device
//!
//! Without a BIOS nobody shadows ROMs or sets up PCI: the board takes the segments as they are, c_0000 to
//! f_ffff being RAM, and the kernel assigns PCI resources by the ACPI tables.

pub mod acpi;
mod bios;
mod boot;
mod bzimage;
mod dsdt;
mod elf;
pub mod fw_cfg;
pub mod layout;
mod memory_map;
mod multiboot;
mod start;
#[cfg(test)]
mod tests;

pub use bios::load_bios;
pub use boot::{X86Boot, X86Kind, X86Loaded, load_x86_kernel};
pub use memory_map::{MemoryKind, MemoryRange, memory_map};
pub use start::{SegmentRegister, X86Registers, X86Start};
