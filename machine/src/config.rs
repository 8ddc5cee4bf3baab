//! What a machine is made from: the part of a recording's manifest that decides what the guest computes.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::disk::DriveConfig;
use crate::error::MachineError;

/// Version of everything that a guest can see. A recording replays only on the model that made it.
pub const MODEL_VERSION: u32 = 1;

/// The most harts.
pub const MAX_HARTS: u8 = 8;
/// The least memory.
pub const LEAST_MEMORY: u64 = 2 << 20;
/// The most memory.
pub const MOST_MEMORY: u64 = 64 << 30;

/// Registers of a hart at power-on, beside what reset gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartStart {
    /// First program counter.
    pub pc: u64,
    /// First argument registers (RISC-V: a0 hart id, a1 device tree, a2 firmware information).
    pub args: [u64; 3],
}

/// A machine's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Board, such as `riscv-virt`.
    pub board: String,
    /// RAM in bytes.
    pub memory: u64,
    /// Harts, all of which start at once.
    pub harts: Vec<HartStart>,
    /// Virtual nanoseconds a step.
    pub ns_per_step: NonZeroU64,
    /// Steps in a hart's slice.
    pub slice: u64,
    /// Varies the slices.
    pub schedule_seed: Option<u64>,
    /// Seed of the machine's entropy source.
    pub seed: u64,
    /// The date at power-on, in ns since 1970.
    pub date_ns: u64,
    /// Drives, in order.
    pub drives: Vec<DriveConfig>,
    /// The `tohost` word, if the guest speaks HTIF.
    pub tohost: Option<u64>,
}

impl Config {
    /// Checks what a file or a command line may have wrong.
    pub fn check(&self) -> Result<(), MachineError> {
        let wrong = |what: String| Err(MachineError::Config(what));
        let board = crate::board::named(&self.board)?;
        if self.harts.is_empty() || self.harts.len() > MAX_HARTS as usize {
            return wrong(format!(
                "{} harts; 1 to {MAX_HARTS} are possible",
                self.harts.len()
            ));
        }
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&self.memory) || !self.memory.is_multiple_of(4096) {
            return wrong(format!(
                "{} bytes of memory; 2M to 64G in whole pages of 4K are possible",
                self.memory
            ));
        }
        if self.drives.len() > board.drives {
            return wrong(format!(
                "{} drives; at most {} are possible",
                self.drives.len(),
                board.drives
            ));
        }
        Ok(())
    }
}
