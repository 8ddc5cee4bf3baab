//! What a machine is made from: the part of a recording's manifest that decides what the guest computes.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::disk::DriveConfig;
use crate::error::MachineError;

/// Version of everything that a guest can see. A recording replays only on the model that made it.
pub const MODEL_VERSION: u32 = 2;

/// The most harts.
pub const MAX_HARTS: u8 = 8;
/// The least memory.
pub const LEAST_MEMORY: u64 = 2 << 20;
/// The most memory.
pub const MOST_MEMORY: u64 = 64 << 30;

/// In which state a hart starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartMode {
    /// As the board starts its firmware (RISC-V: M mode; x86: at the reset vector).
    #[default]
    Board,
    /// x86: 32-bit protected mode without paging.
    Protected,
    /// x86: 64-bit mode.
    Long,
}

/// What is done when a hart shuts itself down (x86: triple fault).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnShutdown {
    /// The board resets, as a PC's does.
    #[default]
    Reset,
    /// The run ends.
    Stop,
}

/// A file that firmware is handed, such as a display's option ROM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirmwareFile {
    /// Its name, as the firmware asks for it.
    pub name: String,
    /// Its content.
    #[serde(with = "hexadecimal")]
    pub bytes: Vec<u8>,
}

/// Bytes as text.
mod hexadecimal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.as_bytes();
        let pairs = digits.chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        pairs
            .collect::<Option<_>>()
            .ok_or_else(|| D::Error::custom("not hexadecimal digits"))
    }
}

/// Registers of a hart at power-on, beside what reset gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartStart {
    /// First program counter.
    pub pc: u64,
    /// Argument registers. RISC-V: a0 hart id, a1 device tree, a2 firmware information. x86, `Protected`: eax, ebx,
    /// esp; `Long`: rsi, rsp, cr3.
    pub args: [u64; 3],
    /// The state in which it starts.
    #[serde(default)]
    pub mode: StartMode,
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
    /// RISC-V: semihosting calls are served, and this is the guest's command line.
    #[serde(default)]
    pub semihosting: Option<String>,
    /// x86: the drive that is a CD-ROM.
    #[serde(default)]
    pub cdrom: Option<u8>,
    /// x86: the ports that test suites expect.
    #[serde(default)]
    pub testdev: bool,
    /// x86: what a triple fault does.
    #[serde(default)]
    pub on_shutdown: OnShutdown,
    /// x86: files for the firmware.
    #[serde(default)]
    pub firmware_files: Vec<FirmwareFile>,
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
