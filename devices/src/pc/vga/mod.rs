//! VGA: text modes as firmware and systems use them, and memory for graphics modes, of which no picture is made.
//!
//! ```text
//!   window              bus                     offset
//!   memory              0xa0000..0xc0000        0
//!   registers           ports 0x3b0..0x3e0      0x20000
//!   Bochs' extension    ports 0x1ce..0x1d1      0x20030, always 0: a VGA BIOS that looks for it finds none
//! ```
//!
//! Wider accesses are of the bytes one after the other: a store of two to an index register sets index and register.
//!
//! Choices: the power-on state is mode 3, as a BIOS sets it, so that a guest without a VGA BIOS has a screen;
//! fonts and palette are stored and mean nothing; the interrupt of the vertical retrace is not there. In chain 4 and
//! odd/even modes a plane's offset is the address with its low bits cleared, as in the part (and unlike QEMU,
//! which packs them), so that a system that switches between chained and planar access sees what it would there.
//!
//! The screen is [`Vga::screen`].
//!
//! Source: IBM PS/2 Hardware Interface Technical Reference, "Video Subsystem".

mod memory;
mod registers;
mod text;
mod timing;

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};
use memory::Memory;
use registers::Registers;
pub use text::{Cell, Screen, character};

/// Size of the offset space in bytes.
pub const SIZE: u64 = DISPI + DISPI_SIZE;
/// Offset of the memory window.
pub const MEMORY: u64 = 0;
/// Physical address of the memory window.
pub const MEMORY_BASE: u64 = 0xa_0000;
/// Bytes in the memory window.
pub const MEMORY_SIZE: u64 = 0x2_0000;
/// Offset of the registers.
pub const REGISTERS: u64 = MEMORY_SIZE;
/// First I/O port of the registers.
pub const REGISTERS_PORT: u16 = 0x3b0;
/// I/O ports of the registers.
pub const REGISTERS_SIZE: u64 = 0x30;
/// Offset of the ports of Bochs' extension.
pub const DISPI: u64 = REGISTERS + REGISTERS_SIZE;
/// First I/O port of Bochs' extension.
pub const DISPI_PORT: u16 = 0x1ce;
/// I/O ports of Bochs' extension.
pub const DISPI_SIZE: u64 = 3;

const VERSION: u8 = 1;

/// A VGA.
pub struct Vga {
    registers: Registers,
    memory: Memory,
}

#[derive(Serialize, Deserialize)]
struct State {
    registers: Registers,
    memory: memory::Saved,
}

impl Vga {
    /// A VGA in mode 3.
    pub fn new() -> Self {
        Vga {
            registers: Registers::new(),
            memory: Memory::new(),
        }
    }

    /// What the screen shows, if it is in a text mode.
    pub fn screen(&self) -> Option<Screen> {
        text::screen(&self.registers, &self.memory)
    }

    fn read_byte(&mut self, now: VirtualTime, offset: u64) -> u8 {
        match offset {
            0..REGISTERS => self.memory.load(&self.registers, offset),
            REGISTERS..DISPI => self.registers.read(now, port(offset)),
            _ => 0,
        }
    }
}

fn port(offset: u64) -> u16 {
    REGISTERS_PORT + (offset - REGISTERS) as u16
}

impl Default for Vga {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Vga {
    fn name(&self) -> &'static str {
        "vga"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let now = cx.now();
        let bytes = (0..u64::from(size.min(8))).zip(offset..SIZE);
        bytes.fold(0, |value, (n, at)| {
            value | u64::from(self.read_byte(now, at)) << (8 * n)
        })
    }

    fn write(&mut self, _cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        for (byte, at) in value
            .to_le_bytes()
            .into_iter()
            .take(size.into())
            .zip(offset..SIZE)
        {
            match at {
                0..REGISTERS => self.memory.store(&self.registers, at, byte),
                REGISTERS..DISPI => self.registers.write(port(at), byte),
                _ => {}
            }
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        let state = State {
            registers: self.registers.clone(),
            memory: self.memory.save(),
        };
        state::save(VERSION, &state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut memory = None;
        let state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            state.registers.check()?;
            memory = Some(state.memory.restore()?);
            Ok(())
        })?;
        if let Some(memory) = memory {
            self.memory = memory;
            self.registers = state.registers;
        }
        Ok(())
    }

    fn reset(&mut self, _cx: &mut dyn Context) {
        *self = Vga::new();
    }
}

#[cfg(test)]
mod qemu;
#[cfg(test)]
mod tests;
