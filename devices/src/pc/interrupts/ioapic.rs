//! The I/O APIC: 24 inputs, each with a redirection entry that says which interrupt it sends to whom.
//!
//! ```text
//!   0x00 IOREGSEL   which register IOWIN shows: 0 ID, 1 version, 2 arbitration, 0x10 + 2n the entry of input n
//!   0x10 IOWIN
//!   0x40 EOI        a vector: ends the level-triggered interrupts of that vector (version 0x20)
//! ```
//!
//! Inputs are active or not: a board with active-low wires inverts them, so the polarity bit is kept and changes
//! nothing. An edge on a masked input is lost (82093AA 3.2.4). A level-triggered entry sends while its input is active, it isn't masked and its Remote
//! IRR is clear; Remote IRR is set only if a local APIC took the message, so one that none took is tried again.
//! Making an entry edge-triggered clears Remote IRR, on which drivers of I/O APICs without an EOI register rely.
//!
//! Source: Intel 82093AA data sheet (290566); the EOI register: 82801 (ICH9) data sheet 13.5.5.

use serde::{Deserialize, Serialize};

use super::{Delivery, Destination, Message};

/// Number of inputs.
pub(super) const INPUTS: u32 = 24;

const IOREGSEL: u64 = 0x00;
const IOWIN: u64 = 0x10;
const EOI: u64 = 0x40;
const ID: u8 = 0x00;
const VERSION_REGISTER: u8 = 0x01;
const ARBITRATION: u8 = 0x02;
const ENTRIES: u8 = 0x10;
const VERSION: u32 = (INPUTS - 1) << 16 | 0x20;
const ID_MASK: u32 = 0x0f00_0000;

const LOGICAL: u64 = 1 << 11;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
/// Bits that a write changes: all but delivery status and Remote IRR.
const WRITABLE: u64 = 0xff00_0000_0001_afff;

/// The I/O APIC.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct IoApic {
    select: u8,
    id: u32,
    entries: [u64; INPUTS as usize],
    /// The inputs that are active, a bit each.
    active: u32,
}

fn message(entry: u64) -> Message {
    let destination = (entry >> 56) as u8;
    let delivery = Delivery::from_bits((entry >> 8) as u32);
    Message {
        destination: Destination::byte(destination, entry & LOGICAL != 0),
        delivery,
        vector: entry as u8,
        level: entry & LEVEL != 0 && takes_level(delivery),
    }
}

/// Level triggering exists for these alone; the others are edges whatever the entry says.
fn takes_level(delivery: Delivery) -> bool {
    matches!(delivery, Delivery::Fixed | Delivery::Lowest)
}

impl IoApic {
    pub fn new() -> Self {
        IoApic {
            select: 0,
            id: 0,
            entries: [MASKED; INPUTS as usize],
            active: 0,
        }
    }

    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            IOREGSEL => self.select.into(),
            IOWIN => match self.select {
                ID | ARBITRATION => self.id,
                VERSION_REGISTER => VERSION,
                _ => self.entry(self.select).map_or(0, |(input, shift)| {
                    self.entries.get(input).map_or(0, |entry| (entry >> shift) as u32)
                }),
            },
            _ => 0,
        }
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        match (offset, self.select) {
            (IOREGSEL, _) => self.select = value as u8,
            (IOWIN, ID) => self.id = value & ID_MASK,
            (IOWIN, select) => {
                if let Some((input, shift)) = self.entry(select)
                    && let Some(entry) = self.entries.get_mut(input)
                {
                    let mask = WRITABLE & 0xffff_ffff << shift;
                    *entry = *entry & !mask | u64::from(value) << shift & mask;
                    if *entry & LEVEL == 0 {
                        *entry &= !REMOTE_IRR;
                    }
                }
            }
            (EOI, _) => self.end_of_interrupt(value as u8),
            _ => {}
        }
    }

    /// The input whose entry register `select` is half of, and where in it that half begins.
    fn entry(&self, select: u8) -> Option<(usize, u32)> {
        let register = select.checked_sub(ENTRIES)?;
        (u32::from(register) < 2 * INPUTS).then(|| (usize::from(register / 2), u32::from(register % 2) * 32))
    }

    /// A level-triggered interrupt of this vector has been served.
    pub fn end_of_interrupt(&mut self, vector: u8) {
        for entry in &mut self.entries {
            if *entry as u8 == vector && *entry & LEVEL != 0 {
                *entry &= !REMOTE_IRR;
            }
        }
    }

    /// An input changes; the message that its edge sends, if any.
    pub fn set_input(&mut self, input: u32, active: bool) -> Option<Message> {
        let entry = *self.entries.get(input as usize)?;
        let bit = 1 << input;
        let rises = active && self.active & bit == 0;
        self.active = if active {
            self.active | bit
        } else {
            self.active & !bit
        };
        let message = message(entry);
        (rises && entry & MASKED == 0 && !message.level).then_some(message)
    }

    /// The message that the level of `input` sends now, if any.
    pub fn level_message(&self, input: u32) -> Option<Message> {
        let entry = *self.entries.get(input as usize)?;
        let message = message(entry);
        let due = self.active >> input & 1 != 0 && entry & (MASKED | REMOTE_IRR) == 0 && message.level;
        due.then_some(message)
    }

    /// The level message of `input` was taken.
    pub fn taken(&mut self, input: u32) {
        if let Some(entry) = self.entries.get_mut(input as usize) {
            *entry |= REMOTE_IRR;
        }
    }

    /// To whom input 0, on which the 8259s' INT is, passes the 8259s' interrupts (ExtINT), if it does.
    pub fn external(&self) -> Option<Destination> {
        let entry = self.entries[0];
        let message = message(entry);
        (entry & MASKED == 0 && message.delivery == Delivery::External).then_some(message.destination)
    }
}
