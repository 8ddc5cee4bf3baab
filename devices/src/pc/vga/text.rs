//! What a text mode shows, as text: a pure function of registers and memory.

use super::memory::Memory;
use super::registers::{ATTRIBUTE_MODE, PALETTE_ADDRESS_SOURCE, Registers, crtc, graphics, sequencer};

/// The characters of code page 437 below 0x20, then 0x7f, then from 0x80 on.
const LOW: &str = " ☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼";
const DELETE: char = '⌂';
const HIGH: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// A character of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its code in the font; that of code page 437, unless the guest loaded another.
    pub code: u8,
    /// Foreground colour in bits 0 to 3, background in 4 to 6, blinking in 7.
    pub attribute: u8,
}

/// A text mode's screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Rows of cells, all of one length.
    pub cells: Vec<Vec<Cell>>,
    /// Column and row of the cursor, if it is on and within the screen.
    pub cursor: Option<(usize, usize)>,
    /// The screen is switched off.
    pub blank: bool,
}

impl Screen {
    /// The characters, a string a row, without the spaces at their ends.
    pub fn rows(&self) -> Vec<String> {
        let row = |cells: &Vec<Cell>| {
            let text: String = cells.iter().map(|cell| character(cell.code)).collect();
            text.trim_end_matches([' ', '\u{a0}']).to_string()
        };
        self.cells.iter().map(row).collect()
    }
}

/// The character of a code in code page 437; code 0 shows as a space.
pub fn character(code: u8) -> char {
    let found = match code {
        0..0x20 => LOW.chars().nth(usize::from(code)),
        0x7f => Some(DELETE),
        0x80.. => HIGH.chars().nth(usize::from(code - 0x80)),
        _ => None,
    };
    found.unwrap_or(char::from(code))
}

/// Count-by-dword addressing.
const DOUBLE_WORD: u8 = 1 << 6;
/// Byte addressing, else word.
const BYTE_MODE: u8 = 1 << 6;
const CURSOR_OFF: u8 = 1 << 5;
const DOUBLE_SCAN: u8 = 1 << 7;
const SCREEN_OFF: u8 = 1 << 5;
const GRAPHICS: u8 = 1 << 0;

/// The screen, unless the mode is a graphics mode.
pub(super) fn screen(registers: &Registers, memory: &Memory) -> Option<Screen> {
    let either = registers.attribute[ATTRIBUTE_MODE] | registers.graphics[graphics::MISCELLANEOUS];
    if either & GRAPHICS != 0 {
        return None;
    }
    let cr = |index| usize::from(registers.crtc(index));
    let bit = |value: usize, from: u32, to: u32| (value >> from & 1) << to;
    let overflow = cr(crtc::OVERFLOW);
    let maximum = cr(crtc::MAXIMUM_SCAN_LINE);
    let lines = (cr(crtc::VERTICAL_DISPLAY_END) | bit(overflow, 1, 8) | bit(overflow, 6, 9)) + 1;
    let compare = cr(crtc::LINE_COMPARE) | bit(overflow, 4, 8) | bit(maximum, 6, 9);
    let mut height = (maximum & 0x1f) + 1;
    if registers.crtc(crtc::MAXIMUM_SCAN_LINE) & DOUBLE_SCAN != 0 {
        height *= 2;
    }
    let columns = cr(crtc::HORIZONTAL_DISPLAY_END) + 1;
    let pitch = 2 * cr(crtc::OFFSET);
    let start = cr(crtc::START_ADDRESS_HIGH) << 8 | cr(crtc::START_ADDRESS_LOW);
    let location = cr(crtc::CURSOR_LOCATION_HIGH) << 8 | cr(crtc::CURSOR_LOCATION_LOW);

    let mut cells = Vec::new();
    let mut cursor = None;
    let mut first = start;
    let mut split = false;
    for row in 0..lines / height {
        if !split && row * height > compare {
            // The lower part of a split screen is from the start of memory.
            (first, split) = (0, true);
        }
        let cell = |column: usize| {
            let counter = first + column;
            if counter & 0xffff == location {
                cursor = Some((column, row));
            }
            let offset = memory_address(registers, counter);
            Cell {
                code: memory.plane(0, offset),
                attribute: memory.plane(1, offset),
            }
        };
        cells.push((0..columns).map(cell).collect());
        first += pitch;
    }
    Some(Screen {
        cells,
        cursor: cursor.filter(|_| registers.crtc(crtc::CURSOR_START) & CURSOR_OFF == 0),
        blank: registers.attribute_index & PALETTE_ADDRESS_SOURCE == 0
            || registers.sequencer[sequencer::CLOCKING_MODE] & SCREEN_OFF != 0,
    })
}

/// The plane offset of a count of the address counter.
fn memory_address(registers: &Registers, counter: usize) -> u16 {
    let counter = counter as u16;
    if registers.crtc(crtc::UNDERLINE_LOCATION) & DOUBLE_WORD != 0 {
        counter << 2
    } else if registers.crtc(crtc::MODE_CONTROL) & BYTE_MODE != 0 {
        counter
    } else {
        counter << 1
    }
}
