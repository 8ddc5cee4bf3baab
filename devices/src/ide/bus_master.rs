//! The bus master of a channel: eight registers, and a table in memory of where the data goes.
//!
//! ```text
//!   0  command   1 start, 8 to memory
//!   2  status    1 active, 2 error, 4 interrupt (both cleared by writing 1), 0x60 the drives can (stored)
//!   4  address of the table: entries of address (4), bytes (2; 0 is 64 KiB), end of table (bit 15 of the last 2)
//! ```
//!
//! A table lies within 64 KiB and ends with them at the latest. The direction bit is not looked at: the drive's command
//! says which way.

use serde::{Deserialize, Serialize};

use crate::{Context, DmaError};

const START: u8 = 1 << 0;
const COMMAND_BITS: u8 = START | 1 << 3;

const ACTIVE: u8 = 1 << 0;
const ERROR: u8 = 1 << 1;
const INTERRUPT: u8 = 1 << 2;
const CAPABLE: u8 = 0b11 << 5;

const ENTRY_SIZE: u32 = 8;
const LAST_ENTRY: u8 = 1 << 7;

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct BusMaster {
    command: u8,
    status: u8,
    table: u32,
}

/// A part of memory: address, bytes.
pub(super) type Region = (u64, usize);

impl BusMaster {
    pub fn new() -> Self {
        BusMaster {
            command: 0,
            status: 0,
            table: 0,
        }
    }

    pub fn read(&self, register: u8) -> u8 {
        match register {
            0 => self.command,
            2 => self.status,
            4.. => {
                let bytes = self.table.to_le_bytes();
                bytes.get(usize::from(register - 4)).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns whether it was started now.
    pub fn write(&mut self, register: u8, value: u8) -> bool {
        match register {
            0 => {
                let started = value & !self.command & START != 0;
                self.command = value & COMMAND_BITS;
                if started {
                    self.status |= ACTIVE;
                } else if value & START == 0 {
                    self.status &= !ACTIVE;
                }
                return started;
            }
            2 => {
                self.status &= !(value & (ERROR | INTERRUPT) | CAPABLE);
                self.status |= value & CAPABLE;
            }
            4..8 => {
                let mut bytes = self.table.to_le_bytes();
                if let Some(byte) = bytes.get_mut(usize::from(register - 4)) {
                    *byte = value;
                }
                self.table = u32::from_le_bytes(bytes) & !3;
            }
            _ => {}
        }
        false
    }

    /// Whether it is started and has memory left.
    pub fn is_active(&self) -> bool {
        self.status & ACTIVE != 0
    }

    /// The drive's interrupt came.
    pub fn interrupted(&mut self) {
        self.status |= INTERRUPT;
    }

    /// The memory for `len` bytes of data, as far as the table has it. Where the table ends with the data or
    /// before, the bus master is no longer active.
    ///
    /// # Errors
    /// [`DmaError`] if the table is not in RAM; the bus master has stopped with an error then.
    pub fn regions(&mut self, cx: &mut dyn Context, len: u64) -> Result<Vec<Region>, DmaError> {
        let mut regions = Vec::new();
        let mut left = len;
        let mut at = self.table;
        loop {
            let mut entry = [0; ENTRY_SIZE as usize];
            if let Err(error) = cx.dma_read(at.into(), &mut entry) {
                self.fail();
                return Err(error);
            }
            let [a0, a1, a2, a3, count_low, count_high, _, flags] = entry;
            let addr = u64::from(u32::from_le_bytes([a0, a1, a2, a3]) & !1);
            let count = match u16::from_le_bytes([count_low, count_high]) & !1 {
                0 => 0x1_0000,
                count => u64::from(count),
            };
            let used = count.min(left);
            regions.push((addr, used as usize));
            left -= used;
            at = at.wrapping_add(ENTRY_SIZE);
            let last = flags & LAST_ENTRY != 0 || at & 0xffff < ENTRY_SIZE;
            if last && used == count {
                self.status &= !ACTIVE;
            }
            if last || left == 0 {
                return Ok(regions);
            }
        }
    }

    /// It pointed outside RAM.
    pub fn fail(&mut self) {
        self.status &= !ACTIVE;
        self.status |= ERROR;
    }

    /// What is wrong with this state, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.command & !COMMAND_BITS == 0 && self.table & 3 == 0 {
            Ok(())
        } else {
            Err("bus master registers with bits that aren't there")
        }
    }
}
