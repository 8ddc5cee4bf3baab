//! The register file of the VGA: five groups behind an index each, and the palette.
//!
//! Bits that a register doesn't have are not stored. The group of the CRT controller answers at 0x3d4 or at
//! 0x3b4, as the miscellaneous output register says.

use serde::{Deserialize, Serialize};

use super::timing;
use crate::VirtualTime;

/// CRT controller registers by their names in the manual.
pub(super) mod crtc {
    pub const HORIZONTAL_DISPLAY_END: usize = 0x01;
    pub const OVERFLOW: usize = 0x07;
    pub const MAXIMUM_SCAN_LINE: usize = 0x09;
    pub const CURSOR_START: usize = 0x0a;
    pub const START_ADDRESS_HIGH: usize = 0x0c;
    pub const START_ADDRESS_LOW: usize = 0x0d;
    pub const CURSOR_LOCATION_HIGH: usize = 0x0e;
    pub const CURSOR_LOCATION_LOW: usize = 0x0f;
    pub const VERTICAL_RETRACE_END: usize = 0x11;
    pub const VERTICAL_DISPLAY_END: usize = 0x12;
    pub const OFFSET: usize = 0x13;
    pub const UNDERLINE_LOCATION: usize = 0x14;
    pub const MODE_CONTROL: usize = 0x17;
    pub const LINE_COMPARE: usize = 0x18;
}

/// Sequencer registers.
pub(super) mod sequencer {
    pub const CLOCKING_MODE: usize = 1;
    pub const MAP_MASK: usize = 2;
    pub const MEMORY_MODE: usize = 4;
}

/// Graphics controller registers.
pub(super) mod graphics {
    pub const SET_RESET: usize = 0;
    pub const ENABLE_SET_RESET: usize = 1;
    pub const COLOR_COMPARE: usize = 2;
    pub const DATA_ROTATE: usize = 3;
    pub const READ_MAP_SELECT: usize = 4;
    pub const MODE: usize = 5;
    pub const MISCELLANEOUS: usize = 6;
    pub const COLOR_DONT_CARE: usize = 7;
    pub const BIT_MASK: usize = 8;
}

/// Attribute controller: mode control register.
pub(super) const ATTRIBUTE_MODE: usize = 0x10;
/// Attribute address register: the palette drives the screen.
pub(super) const PALETTE_ADDRESS_SOURCE: u8 = 1 << 5;

const CRTC_COUNT: usize = 0x19;
const SEQUENCER_MASKS: [u8; 5] = [0x03, 0x3d, 0x0f, 0x3f, 0x0e];
const GRAPHICS_MASKS: [u8; 9] = [0x0f, 0x0f, 0x0f, 0x1f, 0x03, 0x7b, 0x0f, 0x0f, 0xff];
const ATTRIBUTE_MASKS: [u8; 0x15] = [
    0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, //
    0xef, 0xff, 0x3f, 0x0f, 0x0f,
];

/// Miscellaneous output: the CRT controller and input status 1 are at 0x3dx.
const MISC_COLOR: u8 = 1 << 0;
/// Miscellaneous output: memory answers.
const MISC_RAM: u8 = 1 << 1;
/// Vertical retrace end: CRT controller registers 0 to 7 can't be written.
const PROTECT: u8 = 1 << 7;
/// Overflow: bit 8 of line compare, which is not protected.
const LINE_COMPARE_8: u8 = 1 << 4;
/// Input status 0: the colour monitor's switch.
const SWITCH_SENSE: u8 = 1 << 4;
/// What nobody drives.
const OPEN: u8 = 0xff;

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Registers {
    pub misc: u8,
    feature: u8,
    enable: u8,
    crtc_index: u8,
    pub crtc: Vec<u8>,
    sequencer_index: u8,
    pub sequencer: [u8; 5],
    graphics_index: u8,
    pub graphics: [u8; 9],
    pub attribute_index: u8,
    /// The next write to 0x3c0 is data.
    attribute_data: bool,
    pub attribute: [u8; 0x15],
    dac: Dac,
}

#[derive(Clone, Serialize, Deserialize)]
struct Dac {
    mask: u8,
    /// 256 colours of red, green, blue, six bits each.
    colors: Vec<u8>,
    write_index: u8,
    read_index: u8,
    /// Which component of a colour comes next.
    component: u8,
    /// The components written of a colour that is not whole yet.
    partial: [u8; 2],
    reading: bool,
}

const COLORS_SIZE: usize = 3 * 256;

impl Dac {
    fn new() -> Self {
        Dac {
            mask: 0xff,
            colors: vec![0; COLORS_SIZE],
            write_index: 0,
            read_index: 0,
            component: 0,
            partial: [0; 2],
            reading: false,
        }
    }

    fn read(&mut self) -> u8 {
        let at = 3 * usize::from(self.read_index) + usize::from(self.component);
        self.component += 1;
        if self.component == 3 {
            self.component = 0;
            self.read_index = self.read_index.wrapping_add(1);
        }
        self.colors.get(at).copied().unwrap_or(0)
    }

    fn write(&mut self, value: u8) {
        let value = value & 0x3f;
        if let Some(partial) = self.partial.get_mut(usize::from(self.component)) {
            *partial = value;
            self.component += 1;
            return;
        }
        let [red, green] = self.partial;
        let at = 3 * usize::from(self.write_index);
        for (to, from) in self.colors.iter_mut().skip(at).zip([red, green, value]) {
            *to = from;
        }
        self.component = 0;
        self.write_index = self.write_index.wrapping_add(1);
    }
}

impl Registers {
    /// Mode 3, 80 by 25 characters, as a BIOS sets it.
    pub fn new() -> Self {
        Registers {
            misc: 0x67,
            feature: 0,
            enable: 1,
            crtc_index: 0,
            crtc: vec![
                0x5f, 0x4f, 0x50, 0x82, 0x55, 0x81, 0xbf, 0x1f, 0x00, 0x4f, 0x0d, 0x0e, 0x00, 0x00, 0x00,
                0x00, 0x9c, 0x8e, 0x8f, 0x28, 0x1f, 0x96, 0xb9, 0xa3, 0xff,
            ],
            sequencer_index: 0,
            sequencer: [0x03, 0x00, 0x03, 0x00, 0x02],
            graphics_index: 0,
            graphics: [0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x0e, 0x0f, 0xff],
            attribute_index: PALETTE_ADDRESS_SOURCE,
            attribute_data: false,
            attribute: [
                0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x14, 0x07, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e,
                0x3f, 0x0c, 0x00, 0x0f, 0x08, 0x00,
            ],
            dac: Dac::new(),
        }
    }

    /// What is wrong with this state, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        let masked =
            |values: &[u8], masks: &[u8]| values.iter().zip(masks).all(|(value, mask)| value & !mask == 0);
        if self.crtc.len() != CRTC_COUNT
            || self.dac.colors.len() != COLORS_SIZE
            || self.dac.component > 2
            || !masked(&self.sequencer, &SEQUENCER_MASKS)
            || !masked(&self.graphics, &GRAPHICS_MASKS)
            || !masked(&self.attribute, &ATTRIBUTE_MASKS)
        {
            Err("registers that a VGA doesn't have")
        } else {
            Ok(())
        }
    }

    pub fn ram_enabled(&self) -> bool {
        self.misc & MISC_RAM != 0
    }

    /// A byte from I/O port `port`.
    pub fn read(&mut self, now: VirtualTime, port: u16) -> u8 {
        let color = self.misc & MISC_COLOR != 0;
        match port {
            0x3b4 | 0x3b5 | 0x3ba if color => OPEN,
            0x3d4 | 0x3d5 | 0x3da if !color => OPEN,
            0x3b4 | 0x3d4 => self.crtc_index,
            0x3b5 | 0x3d5 => self.crtc.get(usize::from(self.crtc_index)).copied().unwrap_or(0),
            0x3ba | 0x3da => {
                self.attribute_data = false;
                timing::input_status_1(now)
            }
            0x3c0 => self.attribute_index,
            0x3c1 => {
                let index = usize::from(self.attribute_index & 0x1f);
                self.attribute.get(index).copied().unwrap_or(0)
            }
            0x3c2 => SWITCH_SENSE,
            0x3c3 => self.enable,
            0x3c4 => self.sequencer_index,
            0x3c5 => self
                .sequencer
                .get(usize::from(self.sequencer_index))
                .copied()
                .unwrap_or(0),
            0x3c6 => self.dac.mask,
            0x3c7 => {
                if self.dac.reading {
                    3
                } else {
                    0
                }
            }
            0x3c8 => self.dac.write_index,
            0x3c9 => self.dac.read(),
            0x3ca => self.feature,
            0x3cc => self.misc,
            0x3ce => self.graphics_index,
            0x3cf => self
                .graphics
                .get(usize::from(self.graphics_index))
                .copied()
                .unwrap_or(0),
            _ => OPEN,
        }
    }

    /// A byte to I/O port `port`.
    pub fn write(&mut self, port: u16, value: u8) {
        let color = self.misc & MISC_COLOR != 0;
        match port {
            0x3b4 | 0x3b5 | 0x3ba if color => {}
            0x3d4 | 0x3d5 | 0x3da if !color => {}
            0x3b4 | 0x3d4 => self.crtc_index = value,
            0x3b5 | 0x3d5 => self.write_crtc(value),
            0x3ba | 0x3da => self.feature = value & 0x10,
            0x3c0 => self.write_attribute(value),
            0x3c2 => self.misc = value & !0x10,
            0x3c3 => self.enable = value & 1,
            0x3c4 => self.sequencer_index = value & 7,
            0x3c5 => set(&mut self.sequencer, &SEQUENCER_MASKS, self.sequencer_index, value),
            0x3c6 => self.dac.mask = value,
            0x3c7 => {
                self.dac.read_index = value;
                self.dac.component = 0;
                self.dac.reading = true;
            }
            0x3c8 => {
                self.dac.write_index = value;
                self.dac.component = 0;
                self.dac.reading = false;
            }
            0x3c9 => self.dac.write(value),
            0x3ce => self.graphics_index = value & 0xf,
            0x3cf => set(&mut self.graphics, &GRAPHICS_MASKS, self.graphics_index, value),
            _ => {}
        }
    }

    fn write_crtc(&mut self, value: u8) {
        let index = usize::from(self.crtc_index);
        let protected = index <= crtc::OVERFLOW && self.crtc(crtc::VERTICAL_RETRACE_END) & PROTECT != 0;
        if let Some(register) = self.crtc.get_mut(index) {
            if !protected {
                *register = value;
            } else if index == crtc::OVERFLOW {
                *register = *register & !LINE_COMPARE_8 | value & LINE_COMPARE_8;
            }
        }
    }

    fn write_attribute(&mut self, value: u8) {
        if self.attribute_data {
            set(
                &mut self.attribute,
                &ATTRIBUTE_MASKS,
                self.attribute_index & 0x1f,
                value,
            );
        } else {
            self.attribute_index = value & 0x3f;
        }
        self.attribute_data = !self.attribute_data;
    }

    pub fn crtc(&self, index: usize) -> u8 {
        self.crtc.get(index).copied().unwrap_or(0)
    }
}

/// Sets the register at `index`, if there is one, as far as it has bits.
fn set(registers: &mut [u8], masks: &[u8], index: u8, value: u8) {
    let index = usize::from(index);
    if let (Some(register), Some(mask)) = (registers.get_mut(index), masks.get(index)) {
        *register = value & mask;
    }
}
