//! What a device may do to the rest of the machine while it handles an access, a deadline or an
//! input. The machine implements it; a device never keeps it.

use icount::VirtualTime;
use thiserror::Error;

/// The machine as a device sees it during one call.
///
/// Lines and pins are levels: setting one to the level that it has is no event.
pub trait Context {
    /// The virtual time of this very step (of the boundary, for deadlines and inputs).
    fn now(&self) -> VirtualTime;

    /// Drives an interrupt source line of the board. The number is the board's (on a RISC-V board
    /// the PLIC source number); its interrupt controller hears of it by [`crate::Device::line_changed`].
    fn set_line(&mut self, line: u32, level: bool);

    /// Drives an interrupt input of a hart, or of [`ALL_HARTS`]: 0 or 1, but for the pins that say otherwise. The hart looks at
    /// its pins at the next boundary.
    fn set_hart_pin(&mut self, hart: u32, pin: HartPin, level: u32);

    /// Says where the registers of a hart's own interrupt controller (x86: the local APIC) are in its physical addresses; `None`:
    /// nowhere. They hide whatever else is there, for that hart alone.
    fn set_local_window(&mut self, hart: u32, base: Option<u64>);

    /// Says what answers reads of the ROM shadow's `len` bytes from `addr` on, and what takes writes: RAM, else what the
    /// board has there besides. A whole number of the board's granules.
    fn set_shadow(&mut self, addr: u64, len: u64, rights: Shadow);

    /// The hart whose access is handled (0 for deadlines and inputs). Only what stands on the board once a
    /// hart, at one address for all, asks.
    fn hart(&self) -> u32;

    /// A write of four bytes to a bus address where another device listens: a message-signalled interrupt.
    /// The board hands it over like a hart's store, right after the running call. A message to where nothing is is lost.
    fn message(&mut self, addr: u64, data: u32);

    /// Reads guest-physical memory.
    ///
    /// # Errors
    /// [`DmaError`] if any byte of the range is not RAM; `buf` is unspecified then.
    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError>;

    /// Writes guest-physical memory, through the page guards.
    ///
    /// # Errors
    /// [`DmaError`] if any byte of the range is not RAM; nothing is written then.
    fn dma_write(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError>;

    /// Sends a byte out of console port `port`.
    fn console_out(&mut self, port: u8, byte: u8);

    /// Sends an Ethernet frame (without its checksum) out of network port `port`.
    fn frame_out(&mut self, port: u8, frame: &[u8]);

    /// Reads 4096-byte block `block` of a drive as the guest sees it: overlay, then base. What lies
    /// past the end of the image within its last block reads as zero.
    ///
    /// # Errors
    /// [`DiskError`] if there is no such block or it can't be had.
    fn disk_read(&mut self, drive: u8, block: u64, buf: &mut [u8; BLOCK_SIZE]) -> Result<(), DiskError>;

    /// Writes 4096-byte block `block` of a drive, to its overlay.
    ///
    /// # Errors
    /// [`DiskError`] if there is no such block or it can't be kept.
    fn disk_write(&mut self, drive: u8, block: u64, buf: &[u8; BLOCK_SIZE]) -> Result<(), DiskError>;

    /// Asks for the end of the run or a reset of the board, at the end of this step.
    fn power(&mut self, action: Power);
}

/// Every hart, for [`Context::set_hart_pin`].
pub const ALL_HARTS: u32 = u32::MAX;

/// Bytes in a block of [`Context::disk_read`] and [`Context::disk_write`].
pub const BLOCK_SIZE: usize = 4096;

/// Which accesses to a part of the ROM shadow are RAM's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shadow {
    /// Reads and fetches.
    pub read: bool,
    /// Writes.
    pub write: bool,
}

/// An interrupt input of a hart: on RISC-V each is the bit of `mip` of that name (RISC-V Priv 3.1.9); the others
/// are an x86 processor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HartPin {
    /// MSIP, from the CLINT.
    MachineSoftware,
    /// MTIP, from the CLINT.
    MachineTimer,
    /// MEIP, from the PLIC.
    MachineExternal,
    /// The external part of SEIP, from the PLIC.
    SupervisorExternal,
    /// What the local APIC would have the processor take: its vector + 1, or 0 (SDM 3A 11.8.4).
    LocalInterrupt,
    /// What the 8259 would have the processor take through LINT0 in ExtINT mode: its vector + 1, or 0; 0 where
    /// the local APIC masks LINT0.
    ExternalInterrupt,
    /// A non-maskable interrupt: any non-zero value latches one.
    Nmi,
    /// INIT: any non-zero value latches one.
    Init,
    /// Start-up: the vector + 1; latched.
    Startup,
    /// A20M#: address line 20 is masked.
    A20Masked,
    /// IGNNE#: floating-point errors are ignored where CR0.NE is 0 (SDM 1 8.7).
    IgnoreNumericError,
}

/// What a device asks of the board's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// The guest ended, with this code of its own (0 is success).
    Off {
        /// The guest's code.
        code: u32,
    },
    /// Reset of the whole board.
    Reset,
}

/// The guest pointed a device outside its RAM. The guest's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("DMA of {len} bytes at {addr:#x} is not in RAM")]
pub struct DmaError {
    /// Guest-physical address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A block of a drive can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiskError {
    /// The drive has no such block, or there is no such drive. The guest's fault, or ours.
    #[error("drive {drive} has no block {block}")]
    NoSuchBlock {
        /// Drive number.
        drive: u8,
        /// Block number, in blocks of 4096 bytes.
        block: u64,
    },
    /// The drive is read-only.
    #[error("drive {drive} is read-only")]
    ReadOnly {
        /// Drive number.
        drive: u8,
    },
    /// The medium failed. The host's fault; it is recorded, so that a replay sees it too.
    #[error("drive {drive}: block {block} failed")]
    Failed {
        /// Drive number.
        drive: u8,
        /// Block number, in blocks of 4096 bytes.
        block: u64,
    },
}
