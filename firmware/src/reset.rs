//! The reset vector, and the structure by which OpenSBI's `fw_dynamic` learns what to start.
//!
//! The contract with the firmware is that of QEMU's `virt` machine: a0 = hart id, a1 = FDT, a2 =
//! `fw_dynamic_info`, machine mode. Source: OpenSBI docs/firmware/fw_dynamic.md.

use crate::assembler::{assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Mode that `fw_dynamic` enters the next stage in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextMode {
    /// User mode.
    User = 0,
    /// Supervisor mode: kernels, U-Boot.
    Supervisor = 1,
    /// Machine mode.
    Machine = 3,
}

/// `struct fw_dynamic_info`, version 2: what to start at `next_address` in which mode, and the hart
/// that does it (the others wait until the kernel starts them).
pub fn fw_dynamic_info(next_address: u64, next_mode: NextMode, boot_hart: u64) -> Vec<u8> {
    const MAGIC: u64 = 0x4942_534f; // "OSBI"
    const VERSION: u64 = 2;
    const OPTIONS: u64 = 0;
    [MAGIC, VERSION, next_address, next_mode as u64, OPTIONS, boot_hart]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Contents of the boot ROM at [`layout::RESET_ROM`]: every hart goes to `start` with a0 = its id, a1 =
/// `fdt`, a2 = the address of `info` (see [`fw_dynamic_info`]), which is stored in the ROM. Six steps.
pub fn reset_rom(start: u64, fdt: u64, info: &[u8]) -> Vec<u8> {
    let mut asm = assembler(layout::RESET_ROM);
    rv!(asm
        ; auipc t0, 0
        ; addi a2, t0, 40
        ; csrr a0, mhartid
        ; ld a1, [t0, 32]
        ; ld t0, [t0, 24]
        ; jr t0
        ; .u64 start
        ; .u64 fdt
        ; ->info:
        ; .bytes info
    );
    asm.finalize().expect("the reset vector assembles")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reset_vector_finds_its_words() {
        let info = fw_dynamic_info(layout::KERNEL, NextMode::Supervisor, 0);
        assert_eq!(info.len(), 48);
        let rom = reset_rom(layout::RAM, 0x8800_0000, &info);
        let word = |at: usize| u64::from_le_bytes(rom[at..at + 8].try_into().unwrap());
        assert_eq!((word(24), word(32)), (layout::RAM, 0x8800_0000));
        assert_eq!(&rom[40..], info);
        assert_eq!((word(40), word(56), word(64)), (0x4942_534f, layout::KERNEL, 1));
    }
}
