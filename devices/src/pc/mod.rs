//! What a PC has that no other board here does, for firmware and systems that expect an ISA machine.
//!
//! Each has one offset space, of which the board maps parts to I/O ports or memory; the constants of each
//! file say where a part lies.

mod clock;
pub mod cmos;
pub mod coprocessor;
pub mod fw_cfg;
pub mod i8042;
pub mod interrupts;
pub mod keys;
pub mod pit;
pub mod pm;
mod ports;
#[cfg(test)]
mod qemu;
pub mod testdev;
pub mod vga;

pub use cmos::Cmos;
pub use coprocessor::Coprocessor;
pub use fw_cfg::FwCfg;
pub use i8042::I8042;
pub use interrupts::Interrupts;
pub use pit::Pit;
pub use pm::Pm;
pub use testdev::TestDev;
pub use vga::Vga;
