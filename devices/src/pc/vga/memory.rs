//! The VGA's four planes of memory and the graphics controller in front of them.
//!
//! ```text
//!   address ─▶ window (map select) ─▶ plane offset, planes (chain 4, odd/even, or all)
//!   store   ─▶ rotate ─▶ set/reset ─▶ function with latch ─▶ bit mask ─▶ planes of the map mask
//!   load    ─▶ latches of all planes ─▶ a plane, or the comparison with a colour
//! ```
//!
//! Source: IBM PS/2 Hardware Interface Technical Reference, "Video Subsystem".

use serde::{Deserialize, Serialize};

use super::registers::{Registers, graphics, sequencer};

const PLANE_SIZE: usize = 0x1_0000;
const PLANES: usize = 4;
const SIZE: usize = PLANES * PLANE_SIZE;
/// Bytes that are saved together.
const CHUNK: usize = 0x100;

/// Memory mode: odd and even addresses are not different planes.
const SEQUENTIAL: u8 = 1 << 2;
/// Memory mode: the low two address bits choose the plane.
const CHAIN_4: u8 = 1 << 3;
/// Graphics mode: loads of odd and even addresses are of different planes.
const ODD_EVEN: u8 = 1 << 4;
/// Graphics mode: loads compare.
const READ_COMPARE: u8 = 1 << 3;
/// Miscellaneous graphics: address bit 0 chooses the plane and is none of the offset.
const CHAIN_ODD_EVEN: u8 = 1 << 1;

/// The memory.
#[derive(Clone)]
pub(super) struct Memory {
    planes: Vec<u8>,
    latches: [u8; PLANES],
}

/// The memory as it is saved: the chunks that aren't all zero, in order.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Saved {
    chunks: Vec<(u16, Vec<u8>)>,
    latches: [u8; PLANES],
}

impl Memory {
    pub fn new() -> Self {
        Memory {
            planes: vec![0; SIZE],
            latches: [0; PLANES],
        }
    }

    pub fn save(&self) -> Saved {
        let chunks = (0..).zip(self.planes.chunks(CHUNK));
        Saved {
            chunks: chunks
                .filter(|(_, chunk)| chunk.iter().any(|&byte| byte != 0))
                .map(|(index, chunk)| (index, chunk.to_vec()))
                .collect(),
            latches: self.latches,
        }
    }

    /// A byte of a plane.
    pub fn plane(&self, plane: usize, offset: u16) -> u8 {
        self.planes[plane % PLANES * PLANE_SIZE + usize::from(offset)]
    }

    fn set_plane(&mut self, plane: usize, offset: u16, value: u8) {
        self.planes[plane % PLANES * PLANE_SIZE + usize::from(offset)] = value;
    }

    /// A load of a byte at `at` from the start of the window at 0xa0000.
    pub fn load(&mut self, registers: &Registers, at: u64) -> u8 {
        let Some(address) = address(registers, at) else {
            return 0xff;
        };
        let gr = &registers.graphics;
        let mode = gr[graphics::MODE];
        let low = usize::from(address);
        let map = usize::from(gr[graphics::READ_MAP_SELECT]);
        let (plane, offset) = if registers.sequencer[sequencer::MEMORY_MODE] & CHAIN_4 != 0 {
            (low & 3, address & !3)
        } else if mode & ODD_EVEN != 0 {
            (map & 2 | low & 1, odd_even_offset(registers, address))
        } else {
            (map, address)
        };
        for (latch, plane) in (0..PLANES).enumerate() {
            self.latches[latch] = self.plane(plane, offset);
        }
        if mode & READ_COMPARE == 0 {
            return self.latches[plane];
        }
        let color = spread(gr[graphics::COLOR_COMPARE]);
        let care = spread(gr[graphics::COLOR_DONT_CARE]);
        let differ = (0..PLANES).fold(0, |differ, plane| {
            differ | (self.latches[plane] ^ color[plane]) & care[plane]
        });
        !differ
    }

    /// A store of a byte at `at` from the start of the window at 0xa0000.
    pub fn store(&mut self, registers: &Registers, at: u64, value: u8) {
        let Some(address) = address(registers, at) else {
            return;
        };
        let memory_mode = registers.sequencer[sequencer::MEMORY_MODE];
        let (chosen, offset) = if memory_mode & CHAIN_4 != 0 {
            (1 << (address & 3), address & !3)
        } else if memory_mode & SEQUENTIAL == 0 {
            let planes = if address & 1 == 0 { 0b0101 } else { 0b1010 };
            (planes, odd_even_offset(registers, address))
        } else {
            (0b1111, address)
        };
        let chosen = chosen & registers.sequencer[sequencer::MAP_MASK];
        let bytes = self.mixed(registers, value);
        for (plane, byte) in bytes.into_iter().enumerate() {
            if chosen & 1 << plane != 0 {
                self.set_plane(plane, offset, byte);
            }
        }
    }

    /// What the graphics controller makes of a stored byte, for each plane.
    fn mixed(&self, registers: &Registers, value: u8) -> [u8; PLANES] {
        let gr = &registers.graphics;
        let rotated = value.rotate_right(u32::from(gr[graphics::DATA_ROTATE] & 7));
        let set_reset = spread(gr[graphics::SET_RESET]);
        let mask = gr[graphics::BIT_MASK];
        let (data, mask) = match gr[graphics::MODE] & 3 {
            0 => {
                let enabled = spread(gr[graphics::ENABLE_SET_RESET]);
                let data = |plane: usize| set_reset[plane] & enabled[plane] | rotated & !enabled[plane];
                ([0, 1, 2, 3].map(data), mask)
            }
            1 => return self.latches,
            2 => (spread(value), mask),
            _ => (set_reset, mask & rotated),
        };
        [0, 1, 2, 3].map(|plane: usize| {
            let (data, latch) = (data[plane], self.latches[plane]);
            let result = match gr[graphics::DATA_ROTATE] >> 3 & 3 {
                0 => data,
                1 => data & latch,
                2 => data | latch,
                _ => data ^ latch,
            };
            result & mask | latch & !mask
        })
    }
}

impl Saved {
    /// The memory that was saved.
    pub fn restore(&self) -> Result<Memory, &'static str> {
        let mut memory = Memory::new();
        memory.latches = self.latches;
        if !self.chunks.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err("chunks of memory out of order");
        }
        for (index, bytes) in &self.chunks {
            let start = usize::from(*index) * CHUNK;
            match memory.planes.get_mut(start..start + CHUNK) {
                Some(chunk) if bytes.len() == CHUNK && bytes.iter().any(|&byte| byte != 0) => {
                    chunk.copy_from_slice(bytes);
                }
                _ => return Err("chunks of memory that can't have been saved"),
            }
        }
        Ok(memory)
    }
}

/// A byte for each plane, all ones where the plane's bit of `bits` is set.
fn spread(bits: u8) -> [u8; PLANES] {
    [0, 1, 2, 3].map(|plane| if bits & 1 << plane == 0 { 0 } else { 0xff })
}

/// The address within the planes' 64 KiB, if memory answers there.
fn address(registers: &Registers, at: u64) -> Option<u16> {
    if !registers.ram_enabled() {
        return None;
    }
    let (start, size) = match registers.graphics[graphics::MISCELLANEOUS] >> 2 & 3 {
        0 => (0, 0x2_0000),
        1 => (0, 0x1_0000),
        2 => (0x1_0000, 0x8000),
        _ => (0x1_8000, 0x8000),
    };
    let address = at.checked_sub(start).filter(|&address| address < size)?;
    Some(address as u16)
}

fn odd_even_offset(registers: &Registers, address: u16) -> u16 {
    if registers.graphics[graphics::MISCELLANEOUS] & CHAIN_ODD_EVEN == 0 {
        address
    } else {
        address & !1
    }
}
