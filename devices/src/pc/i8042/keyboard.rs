//! The PS/2 keyboard behind the controller: what it answers to commands, and the bytes of its keys.
//!
//! Answers and keys wait in separate queues, answers first; a new byte from the host throws away what is
//! left of the last answer. There is no typematic repeat: whoever types sends a key down again.
//!
//! Scan code sets 1 and 2 are there; 3, which nothing uses unasked, is refused like an unknown command.
//!
//! Source: IBM PS/2 Hardware Interface Technical Reference, "Keyboard"; the 8042's translation is that of
//! the Personal Computer AT's keyboard controller.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Bytes of keys that the keyboard holds.
const QUEUE: usize = 16;
/// Bytes in the longest answer: acknowledge, identification.
const ANSWER: usize = 3;
/// Bytes in the longest key: Pause in set 2.
const LONGEST_KEY: usize = 8;

/// The Pause key, which has a prefix of its own, says everything when it goes down, and nothing when up.
pub const PAUSE: u16 = 0xe11d;
/// The Print Screen key, which brings a shift of its own.
const PRINT_SCREEN: u16 = 0xe037;

const ACK: u8 = 0xfa;
const RESEND: u8 = 0xfe;
const ECHO: u8 = 0xee;
const TEST_PASSED: u8 = 0xaa;
const EXTENDED: u8 = 0xe0;
const BREAK: u8 = 0xf0;
/// What the keyboard is: an enhanced one.
const IDENTIFICATION: [u8; 2] = [0xab, 0x83];

/// What the controller makes of the keyboard's bytes below 0x80: set 2 to set 1.
const TRANSLATION: [u8; 0x80] = [
    0xff, 0x43, 0x41, 0x3f, 0x3d, 0x3b, 0x3c, 0x58, 0x64, 0x44, 0x42, 0x40, 0x3e, 0x0f, 0x29, 0x59, //
    0x65, 0x38, 0x2a, 0x70, 0x1d, 0x10, 0x02, 0x5a, 0x66, 0x71, 0x2c, 0x1f, 0x1e, 0x11, 0x03, 0x5b, //
    0x67, 0x2e, 0x2d, 0x20, 0x12, 0x05, 0x04, 0x5c, 0x68, 0x39, 0x2f, 0x21, 0x14, 0x13, 0x06, 0x5d, //
    0x69, 0x31, 0x30, 0x23, 0x22, 0x15, 0x07, 0x5e, 0x6a, 0x72, 0x32, 0x24, 0x16, 0x08, 0x09, 0x5f, //
    0x6b, 0x33, 0x25, 0x17, 0x18, 0x0b, 0x0a, 0x60, 0x6c, 0x34, 0x35, 0x26, 0x27, 0x19, 0x0c, 0x61, //
    0x6d, 0x73, 0x28, 0x74, 0x1a, 0x0d, 0x62, 0x6e, 0x3a, 0x36, 0x1c, 0x1b, 0x75, 0x2b, 0x63, 0x76, //
    0x55, 0x56, 0x77, 0x78, 0x79, 0x7a, 0x0e, 0x7b, 0x7c, 0x4f, 0x7d, 0x4b, 0x47, 0x7e, 0x7f, 0x6f, //
    0x52, 0x53, 0x50, 0x4c, 0x4d, 0x48, 0x01, 0x45, 0x57, 0x4e, 0x51, 0x4a, 0x37, 0x49, 0x46, 0x54, //
];

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Keyboard {
    answer: VecDeque<u8>,
    keys: VecDeque<u8>,
    /// Keys are sent.
    scanning: bool,
    /// Scan code set, 1 or 2.
    set: u8,
    leds: u8,
    /// Typematic rate and delay, which mean nothing.
    rate: u8,
    /// The command whose second byte comes next.
    command: Option<u8>,
    /// Sent last, for RESEND.
    last: u8,
}

/// The controller's side of translation: a break prefix is kept back and comes as the top bit of the byte
/// behind it.
pub(super) fn translate(byte: u8, released: &mut bool) -> Option<u8> {
    if byte == BREAK {
        *released = true;
        return None;
    }
    let code = match byte {
        0x83 => 0x41,
        0x84 => 0x54,
        0x80.. => byte,
        _ => TRANSLATION[usize::from(byte)],
    };
    let top = if std::mem::take(released) { 0x80 } else { 0 };
    Some(code | top)
}

/// The set 2 code of a set 1 code.
fn set_2(code: u8) -> u8 {
    match code {
        0x41 => 0x83,
        0x54 => 0x84,
        _ => TRANSLATION
            .iter()
            .position(|&set_1| set_1 == code)
            .map_or(0, |at| at as u8),
    }
}

impl Keyboard {
    pub(super) fn new() -> Self {
        Keyboard {
            answer: VecDeque::new(),
            keys: VecDeque::new(),
            scanning: true,
            set: 2,
            leds: 0,
            rate: 0x2b,
            command: None,
            last: 0,
        }
    }

    /// What is wrong with this state, if anything.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.answer.len() > ANSWER || self.keys.len() > QUEUE {
            Err("more bytes than the keyboard holds")
        } else if !(1..=2).contains(&self.set) {
            Err("a scan code set that the keyboard doesn't have")
        } else {
            Ok(())
        }
    }

    /// Whether any key fits and would be sent. Keys that come while the host has scanning switched off wait
    /// outside, so that no release is lost.
    pub(super) fn has_room(&self) -> bool {
        self.scanning && self.keys.len() + LONGEST_KEY <= QUEUE
    }

    /// A key moves. What is no key is ignored.
    pub(super) fn key(&mut self, code: u16, down: bool) {
        let [prefix, low] = code.to_be_bytes();
        if self.has_room() {
            match (code, self.set) {
                (PAUSE, 1) if down => self.keys.extend([0xe1, 0x1d, 0x45, 0xe1, 0x9d, 0xc5]),
                (PAUSE, _) if down => self
                    .keys
                    .extend([0xe1, 0x14, 0x77, 0xe1, BREAK, 0x14, BREAK, 0x77]),
                (PRINT_SCREEN, _) if down => {
                    self.code(true, 0x2a, true);
                    self.code(true, low, true);
                }
                (PRINT_SCREEN, _) => {
                    self.code(true, low, false);
                    self.code(true, 0x2a, false);
                }
                _ if matches!(prefix, 0 | EXTENDED) && (1..0x80).contains(&low) => {
                    self.code(prefix == EXTENDED, low, down);
                }
                _ => {}
            }
        }
    }

    /// Queues one code in the set chosen.
    fn code(&mut self, extended: bool, code: u8, down: bool) {
        if extended {
            self.keys.push_back(EXTENDED);
        }
        if self.set == 1 {
            let top = if down { 0 } else { 0x80 };
            self.keys.push_back(code | top);
        } else {
            if !down {
                self.keys.push_back(BREAK);
            }
            self.keys.push_back(set_2(code));
        }
    }

    /// The next byte for the host.
    pub(super) fn send(&mut self) -> Option<u8> {
        let byte = self.answer.pop_front().or_else(|| self.keys.pop_front())?;
        self.last = byte;
        Some(byte)
    }

    /// A byte from the host.
    pub(super) fn receive(&mut self, byte: u8) {
        self.answer.clear();
        match self.command.take() {
            // A byte that can't be a parameter is the next command.
            Some(command) if byte < 0x80 => self.parameter(command, byte),
            _ => self.start(byte),
        }
    }

    fn start(&mut self, command: u8) {
        self.answer.push_back(ACK);
        match command {
            0xee => self.answer = VecDeque::from([ECHO]),
            0xed | 0xf0 | 0xf3 => self.command = Some(command),
            0xf2 => self.answer.extend(IDENTIFICATION),
            0xf4 => {
                self.keys.clear();
                self.scanning = true;
            }
            0xf5 => {
                self.defaults();
                self.scanning = false;
            }
            0xf6 => self.defaults(),
            // How keys repeat and release in set 3.
            0xf7..=0xfa => {}
            0xfe => self.answer = VecDeque::from([self.last]),
            0xff => {
                self.defaults();
                self.scanning = true;
                self.leds = 0;
                self.answer.push_back(TEST_PASSED);
            }
            _ => self.answer = VecDeque::from([RESEND]),
        }
    }

    fn parameter(&mut self, command: u8, byte: u8) {
        self.answer.push_back(ACK);
        match (command, byte) {
            (0xed, _) => self.leds = byte & 0b111,
            (0xf0, 0) => self.answer.push_back(self.set),
            (0xf0, 1 | 2) => {
                self.keys.clear();
                self.set = byte;
            }
            (0xf3, _) => self.rate = byte,
            _ => self.answer = VecDeque::from([RESEND]),
        }
    }

    fn defaults(&mut self) {
        self.keys.clear();
        self.set = 2;
        self.rate = 0x2b;
    }

    /// Scroll, num and caps lock, from bit 0 on.
    pub(super) fn leds(&self) -> u8 {
        self.leds
    }
}
