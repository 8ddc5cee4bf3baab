//! What IDENTIFY DEVICE and IDENTIFY PACKET DEVICE tell (ATA/ATAPI-6, 8.15 and 8.16).

use super::channel::{Drive, MULTIPLE};
use super::task_file::Geometry;
use super::{SECTOR_SIZE, Unit};
use crate::BLOCK_SIZE;

const WORDS: usize = 256;
const FIRMWARE: &str = "1.0";
const DISK_MODEL: &str = "tickback disk";
const CDROM_MODEL: &str = "tickback CD-ROM";
/// Greatest sector count of 28-bit addresses.
const LBA28: u64 = (1 << 28) - 1;
/// Cylinders that old systems believe in.
const CYLINDERS: u64 = 16383;

/// A word that says that it says something.
const VALID: u16 = 1 << 14;

struct Words([u16; WORDS]);

impl Words {
    fn set(&mut self, word: usize, value: u16) {
        if let Some(to) = self.0.get_mut(word) {
            *to = value;
        }
    }

    /// A number of several words, the low first.
    fn number(&mut self, word: usize, words: usize, value: u64) {
        for n in 0..words {
            self.set(word + n, (value >> (16 * n)) as u16);
        }
    }

    /// Text, two characters a word, the first in the high byte, filled up with spaces.
    fn text(&mut self, word: usize, words: usize, text: &str) {
        let printable = text
            .bytes()
            .map(|byte| if (0x20..0x7f).contains(&byte) { byte } else { b'_' });
        let mut bytes = printable.chain(std::iter::repeat(b' '));
        for n in 0..words {
            let (high, low) = (bytes.next().unwrap_or(b' '), bytes.next().unwrap_or(b' '));
            self.set(word + n, u16::from_be_bytes([high, low]));
        }
    }

    /// The transfer modes that there are, and which is chosen.
    fn modes(&mut self, mode: u8) {
        let chosen = |kind: u8| {
            if mode & 0xf8 == kind {
                1 << (8 + (mode & 7))
            } else {
                0
            }
        };
        self.set(49, 1 << 11 | 1 << 9 | 1 << 8); // IORDY, LBA, DMA
        self.set(53, 0b111); // words 54 to 58, 64 to 70 and 88 are valid
        self.set(63, 0b111 | chosen(0x20));
        self.set(64, 0b11); // PIO 3 and 4
        for word in 65..=68 {
            self.set(word, 120); // shortest cycles, ns
        }
        self.set(88, 0b11_1111 | chosen(0x40));
        self.set(93, VALID | 1 << 13 | 1); // 80 conductors
    }

    /// The bytes, with the checksum.
    fn bytes(mut self) -> Vec<u8> {
        self.set(255, 0xa5);
        let mut bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sum = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        if let Some(last) = bytes.last_mut() {
            *last = sum.wrapping_neg();
        }
        bytes
    }
}

pub(super) fn disk(unit: &Unit, drive: &Drive) -> Vec<u8> {
    let mut words = Words([0; WORDS]);
    let Unit::Disk { sectors, serial, .. } = unit else {
        return words.bytes();
    };
    let sectors = *sectors;
    let cylinders = Geometry::DEFAULT.cylinders(sectors, CYLINDERS);
    words.set(0, 1 << 6);
    words.set(1, cylinders);
    words.set(3, Geometry::DEFAULT.heads.into());
    words.set(6, Geometry::DEFAULT.sectors.into());
    words.text(10, 10, serial);
    words.text(23, 4, FIRMWARE);
    words.text(27, 20, DISK_MODEL);
    words.set(47, 0x8000 | u16::from(MULTIPLE));
    words.set(50, VALID);
    words.modes(drive.mode);
    let now = drive.geometry;
    let now_cylinders = now.cylinders(sectors, u16::MAX.into());
    words.set(54, now_cylinders);
    words.set(55, now.heads.into());
    words.set(56, now.sectors.into());
    let reached = u64::from(now_cylinders) * u64::from(now.heads) * u64::from(now.sectors);
    words.number(57, 2, reached);
    if drive.multiple > 0 {
        words.set(59, 1 << 8 | u16::from(drive.multiple));
    }
    words.number(60, 2, sectors.min(LBA28));
    words.set(80, 0x7e); // ATA-1 to ATA/ATAPI-6
    let features = |write_cache: bool, look_ahead: bool| {
        u16::from(look_ahead) << 6 | u16::from(write_cache) << 5 | 1 << 3 // power management
    };
    words.set(82, features(true, true));
    words.set(83, VALID | 1 << 13 | 1 << 12 | 1 << 10); // flushes, 48-bit addresses
    words.set(84, VALID);
    words.set(85, features(drive.write_cache, drive.look_ahead));
    words.set(86, 1 << 13 | 1 << 12 | 1 << 10);
    words.set(87, VALID);
    words.number(100, 4, sectors);
    // Several logical sectors a physical one, and as a power of two how many.
    let ratio = (BLOCK_SIZE as u64 / SECTOR_SIZE).trailing_zeros();
    words.set(106, VALID | 1 << 13 | ratio as u16);
    words.bytes()
}

pub(super) fn cdrom(unit: &Unit, drive: &Drive) -> Vec<u8> {
    let mut words = Words([0; WORDS]);
    // ATAPI, CD-ROM, removable, DRQ within 50 µs, packets of 12 bytes.
    words.set(0, 0b10 << 14 | 5 << 8 | 1 << 7 | 0b10 << 5);
    if let Unit::Cdrom { serial, .. } = unit {
        words.text(10, 10, serial);
    }
    words.text(23, 4, FIRMWARE);
    words.text(27, 20, CDROM_MODEL);
    words.modes(drive.mode);
    words.set(80, 0x7e);
    let features = 1 << 9 | 1 << 4; // DEVICE RESET, PACKET
    words.set(82, features);
    words.set(83, VALID);
    words.set(84, VALID);
    words.set(85, features);
    words.set(87, VALID);
    words.bytes()
}

impl Drive {
    /// The transfer mode of SET FEATURES; false if there is no such mode.
    pub fn set_transfer_mode(&mut self, mode: u8) -> bool {
        match mode {
            // PIO, of which no mode is told.
            0x00 | 0x01 | 0x08..=0x0c => true,
            0x20..=0x22 | 0x40..=0x45 => {
                self.mode = mode;
                true
            }
            _ => false,
        }
    }
}
