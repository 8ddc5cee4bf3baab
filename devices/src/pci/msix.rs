//! MSI-X: interrupts as messages (PCI 3.0, 6.8.2).
//!
//! ```text
//!   BAR + 0x000   table, 16 bytes a vector: +0 address, +8 data, +12 control (bit 0: masked)
//!   BAR + 0x800   pending bits, one a vector; read-only
//! ```
//!
//! A vector that is signalled while it, or the whole function, is masked becomes pending, and is sent when
//! the last mask goes. Both tables take aligned accesses of 4 and 8 bytes (6.8.2 asks for no others); other
//! ones read as zero and are ignored.

use serde::{Deserialize, Serialize};

use crate::Context;

/// Bytes of memory that the tables take.
pub(super) const BAR_SIZE: u32 = 0x1000;
/// Offset of the pending bits in the BAR.
pub(super) const PENDING: u32 = 0x800;
/// The most vectors for which the table has room.
pub(super) const MAX_VECTORS: u16 = 128;

/// Offset of message control within the capability.
pub(super) const CONTROL: u8 = 2;
/// Bits of message control that can be written.
pub(super) const CONTROL_MASK: u16 = 0xc000;

const ENABLE: u16 = 1 << 15;
const FUNCTION_MASK: u16 = 1 << 14;
const ENTRY_SIZE: u64 = 16;
const MASKED: u32 = 1;

/// The vectors of one function. Message control stands in its configuration space and is handed in.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Vectors {
    entries: Vec<Entry>,
    pending: u128,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    address: [u32; 2],
    data: u32,
    control: u32,
}

pub(super) fn is_enabled(control: u16) -> bool {
    control & ENABLE != 0
}

impl Vectors {
    /// `count` vectors, at most [`MAX_VECTORS`], as after power-on: all masked.
    pub(super) fn new(count: u16) -> Self {
        let entry = Entry {
            address: [0; 2],
            data: 0,
            control: MASKED,
        };
        Vectors {
            entries: vec![entry; usize::from(count.min(MAX_VECTORS))],
            pending: 0,
        }
    }

    pub(super) fn count(&self) -> u16 {
        self.entries.len() as u16
    }

    /// Whether a function with as many vectors as `self` can be in the state `other`.
    pub(super) fn fits(&self, other: &Vectors) -> bool {
        let known = 1u128
            .checked_shl(self.entries.len() as u32)
            .map_or(u128::MAX, |bit| bit - 1);
        self.entries.len() == other.entries.len()
            && other.pending & !known == 0
            && other.entries.iter().all(|entry| entry.control & !MASKED == 0)
    }

    pub(super) fn read(&self, offset: u64, size: u8) -> u64 {
        match size {
            4 if offset.is_multiple_of(4) => u64::from(self.word(offset)),
            8 if offset.is_multiple_of(8) => {
                u64::from(self.word(offset)) | u64::from(self.word(offset + 4)) << 32
            }
            _ => 0,
        }
    }

    fn word(&self, offset: u64) -> u32 {
        if let Some(offset) = offset.checked_sub(u64::from(PENDING)) {
            // Behind the last pending bit there is nothing.
            return self.pending.checked_shr((8 * offset) as u32).unwrap_or(0) as u32;
        }
        let entry = usize::try_from(offset / ENTRY_SIZE).ok();
        let Some(entry) = entry.and_then(|index| self.entries.get(index)) else {
            return 0;
        };
        match offset % ENTRY_SIZE {
            0 => entry.address[0],
            4 => entry.address[1],
            8 => entry.data,
            _ => entry.control,
        }
    }

    pub(super) fn write(&mut self, cx: &mut dyn Context, control: u16, offset: u64, size: u8, value: u64) {
        match size {
            4 if offset.is_multiple_of(4) => self.set_word(offset, value as u32),
            8 if offset.is_multiple_of(8) => {
                self.set_word(offset, value as u32);
                self.set_word(offset + 4, (value >> 32) as u32);
            }
            _ => return,
        }
        self.send_pending(cx, control);
    }

    fn set_word(&mut self, offset: u64, value: u32) {
        let entry = usize::try_from(offset / ENTRY_SIZE).ok();
        let Some(entry) = entry.and_then(|index| self.entries.get_mut(index)) else {
            return;
        };
        match offset % ENTRY_SIZE {
            0 => entry.address[0] = value & !3,
            4 => entry.address[1] = value,
            8 => entry.data = value,
            _ => entry.control = value & MASKED,
        }
    }

    /// The function signals a vector; one that doesn't exist is none.
    pub(super) fn signal(&mut self, cx: &mut dyn Context, control: u16, vector: u16) {
        if is_enabled(control) && usize::from(vector) < self.entries.len() {
            self.pending |= 1 << vector;
            self.send_pending(cx, control);
        }
    }

    /// Sends what is pending and no longer masked.
    pub(super) fn send_pending(&mut self, cx: &mut dyn Context, control: u16) {
        if self.pending == 0 || !is_enabled(control) || control & FUNCTION_MASK != 0 {
            return;
        }
        for (vector, entry) in self.entries.iter().enumerate() {
            if self.pending >> vector & 1 != 0 && entry.control & MASKED == 0 {
                self.pending &= !(1 << vector);
                let [low, high] = entry.address;
                cx.message(u64::from(low) | u64::from(high) << 32, entry.data);
            }
        }
    }
}
