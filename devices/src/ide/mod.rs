//! The two IDE channels of a PC with their disks and CD-ROM drives, and the bus master of the PIIX3's IDE function.
//!
//! ```text
//!   window                        bus                    offset
//!   command block, primary        ports 0x1f0..0x1f8     0x00    interrupt line 14
//!   command block, secondary      ports 0x170..0x178     0x08    interrupt line 15
//!   control block, primary        port  0x3f6            0x10
//!   control block, secondary      port  0x376            0x14
//!   bus master, both              16 ports at BAR 4      0x20
//!
//!   command ─▶ busy until now + f(size) ─▶ data at its deadline ─▶ DRQ, interrupt ─▶ host moves it ─▶ next block
//!                                        └▶ bus master, all of it ─▶ interrupt
//! ```
//!
//! The medium is touched at deadlines only: a request takes 50 µs and 1 ns a byte, and so does every block behind the
//! first 1 µs and 1 ns a byte. What a command without medium takes is short.
//!
//! Choices: a channel without drives reads as 0x7f, as its pull-down makes it; a drive that isn't there, beside one
//! that is, reads as 0. While a drive is busy or has data to move, its registers can't be written, so one of a channel
//! works at a time. A disk's sectors are 512 bytes, drives of the machine are in blocks of 4096, and IDENTIFY says so.
//!
//! Source: ATA/ATAPI-6 (T13/1410D), and Intel 82371SB (PIIX3) data sheet, "Bus Master IDE". For packets, MMC-3.

mod ata;
mod atapi;
mod bus_master;
mod channel;
mod identify;
mod medium;
mod reply;
mod task_file;

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};
use channel::Channel;

/// Size of the offset space in bytes.
pub const SIZE: u64 = 0x30;
/// Offsets of the command blocks, primary and secondary; eight bytes each.
pub const COMMAND: [u64; 2] = [0x00, 0x08];
/// First I/O ports of the command blocks.
pub const COMMAND_PORT: [u16; 2] = [0x1f0, 0x170];
/// Bytes in a command block.
pub const COMMAND_SIZE: u64 = 8;
/// Offsets of the control blocks; one byte each.
pub const CONTROL: [u64; 2] = [0x10, 0x14];
/// I/O ports of the control blocks.
pub const CONTROL_PORT: [u16; 2] = [0x3f6, 0x376];
/// Offset of the bus master's registers, where the PCI function's BAR 4 leads.
pub const BUS_MASTER: u64 = 0x20;
/// Bytes of the bus master's registers.
pub const BUS_MASTER_SIZE: u64 = 16;
/// The channels' interrupt lines.
pub const LINES: [u32; 2] = [14, 15];

/// Bytes in a disk's sector.
pub const SECTOR_SIZE: u64 = 512;
/// Bytes in a CD-ROM's sector.
pub const CD_SECTOR_SIZE: u64 = 2048;

const VERSION: u8 = 1;

/// What is attached to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A hard disk.
    Disk {
        /// The machine's drive.
        drive: u8,
        /// Its sectors of [`SECTOR_SIZE`] bytes.
        sectors: u64,
        /// It takes no writes.
        read_only: bool,
        /// Its serial number, of which 20 ASCII characters count.
        serial: String,
    },
    /// A CD-ROM drive.
    Cdrom {
        /// The machine's drive.
        drive: u8,
        /// Its sectors of [`CD_SECTOR_SIZE`] bytes; 0 if there is no disc in it.
        sectors: u64,
        /// Its serial number, of which 20 ASCII characters count.
        serial: String,
    },
}

/// Device 0 and device 1 of a channel.
pub type Units = [Option<Unit>; 2];

/// Both channels.
pub struct Ide {
    units: [Units; 2],
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    channels: [Channel; 2],
}

/// Where an offset leads.
enum Register {
    Command(usize, u8),
    Control(usize),
    BusMaster(usize, u8),
}

impl Register {
    fn at(offset: u64) -> Option<Register> {
        match offset {
            0x00..0x10 => Some(Register::Command((offset >> 3) as usize, (offset & 7) as u8)),
            0x10 => Some(Register::Control(0)),
            0x14 => Some(Register::Control(1)),
            0x20..0x30 => Some(Register::BusMaster(
                (offset >> 3 & 1) as usize,
                (offset & 7) as u8,
            )),
            _ => None,
        }
    }
}

impl Ide {
    /// The channels with what is attached to each.
    pub fn new(units: [Units; 2]) -> Self {
        let state = State::new(&units);
        Ide { units, state }
    }

    fn with<T>(
        &mut self,
        channel: usize,
        cx: &mut dyn Context,
        act: impl FnOnce(&mut Channel, &Units, &mut dyn Context) -> T,
    ) -> T {
        let (state, units) = (&mut self.state.channels[channel], &self.units[channel]);
        let result = act(state, units, cx);
        state.drive_line(units, LINES[channel], cx);
        result
    }

    fn read_byte(&mut self, cx: &mut dyn Context, offset: u64) -> u8 {
        match Register::at(offset) {
            Some(Register::Command(channel, register)) => {
                self.with(channel, cx, |state, units, _| state.read(units, register))
            }
            Some(Register::Control(channel)) => self.state.channels[channel].status(&self.units[channel]),
            Some(Register::BusMaster(channel, register)) => {
                self.state.channels[channel].bus_master.read(register)
            }
            None => 0,
        }
    }

    fn write_byte(&mut self, cx: &mut dyn Context, offset: u64, value: u8) {
        match Register::at(offset) {
            Some(Register::Command(channel, register)) => {
                self.with(channel, cx, |state, units, cx| {
                    state.write(units, cx.now(), register, value)
                });
            }
            Some(Register::Control(channel)) => {
                self.with(channel, cx, |state, units, cx| {
                    state.control(units, cx.now(), value)
                });
            }
            Some(Register::BusMaster(channel, register)) => {
                self.with(channel, cx, |state, _, cx| {
                    state.write_bus_master(cx.now(), register, value)
                });
            }
            None => {}
        }
    }
}

impl State {
    fn new(units: &[Units; 2]) -> Self {
        State {
            channels: [Channel::new(&units[0]), Channel::new(&units[1])],
        }
    }
}

/// Where a legacy I/O port leads, if it does.
pub fn legacy_offset(port: u64) -> Option<u64> {
    (0..2).find_map(|channel| {
        let command = port.checked_sub(COMMAND_PORT[channel].into());
        let register = command.filter(|&register| register < COMMAND_SIZE);
        match register {
            Some(register) => Some(COMMAND[channel] + register),
            None => (port == u64::from(CONTROL_PORT[channel])).then_some(CONTROL[channel]),
        }
    })
}

/// The channel whose data register this is.
fn data_register(offset: u64) -> Option<usize> {
    COMMAND.iter().position(|&command| command == offset)
}

impl Device for Ide {
    fn name(&self) -> &'static str {
        "ide"
    }

    /// The data register takes accesses of any width; everything else is bytes.
    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let size = size.min(8);
        if let Some(channel) = data_register(offset) {
            return self.with(channel, cx, |state, units, cx| {
                state.read_data(units, cx.now(), size)
            });
        }
        let bytes = (0..u64::from(size)).zip(offset..SIZE);
        bytes.fold(0, |value, (n, at)| {
            value | u64::from(self.read_byte(cx, at)) << (8 * n)
        })
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let size = size.min(8);
        if let Some(channel) = data_register(offset) {
            return self.with(channel, cx, |state, units, cx| {
                state.write_data(units, cx.now(), size, value);
            });
        }
        let bytes = value.to_le_bytes().into_iter().take(size.into());
        for (byte, at) in bytes.zip(offset..SIZE) {
            self.write_byte(cx, at, byte);
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        let [primary, secondary] = &self.state.channels;
        [primary.deadline(), secondary.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        for channel in 0..2 {
            if self.state.channels[channel]
                .deadline()
                .is_some_and(|due| due <= cx.now())
            {
                self.with(channel, cx, |state, units, cx| state.step(units, cx));
            }
        }
    }

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            state.channels.iter().try_for_each(Channel::check)
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        for channel in 0..2 {
            self.with(channel, cx, |state, units, _| state.power_on(units));
        }
    }
}

#[cfg(test)]
mod qemu;
#[cfg(test)]
mod tests;
