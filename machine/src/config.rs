//! What a machine is made from: the part of a recording's manifest that decides what the guest computes.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::disk::DriveConfig;
use crate::error::MachineError;

/// Version of everything that a guest can see. A recording replays only on the model that made it.
pub const MODEL_VERSION: u32 = 4;

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
    /// Network cards, in order. What is at the other end of the cable is none of the machine's configuration.
    // Left out where there are none: the hash of an older recording's configuration stays what it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkConfig>,
    /// There is a virtio console.
    #[serde(default, skip_serializing_if = "is_false")]
    pub virtio_console: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands out references
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// Its address.
    pub mac: MacAddress,
}

/// An Ethernet address: of one card, not of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The address of network port `port` unless another is given: 52:54:00:12:34:56 and the next ones, as QEMU's users
    /// know them.
    pub const fn of_port(port: u8) -> Self {
        Self([0x52, 0x54, 0, 0x12, 0x34, 0x56 + port])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> Self {
        mac.to_string()
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        let mac = mac.ok_or_else(|| format!("'{text}' is no Ethernet address such as 52:54:00:12:34:56"))?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(format!("'{text}' is not the address of a single card"));
        }
        Ok(Self(mac))
    }
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
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
        let cards = self.drives.len() + self.networks.len() + usize::from(self.virtio_console);
        if cards > board.cards {
            return wrong(format!(
                "{cards} drives, network cards and virtio consoles; {} has places for {}",
                self.board, board.cards
            ));
        }
        if self.networks.len() > usize::from(icount::MAX_NETWORKS) {
            return wrong(format!(
                "{} network cards; at most {} are possible",
                self.networks.len(),
                icount::MAX_NETWORKS
            ));
        }
        Ok(())
    }
}
