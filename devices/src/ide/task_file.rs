//! The command block registers of one drive, and the addresses in them.

use serde::{Deserialize, Serialize};

use super::Unit;

/// Status register.
pub(super) mod status {
    pub const ERR: u8 = 1 << 0;
    pub const DRQ: u8 = 1 << 3;
    pub const DSC: u8 = 1 << 4;
    pub const DRDY: u8 = 1 << 6;
    pub const BSY: u8 = 1 << 7;
    /// A drive that waits for a command.
    pub const READY: u8 = DRDY | DSC;
}

/// Error register.
pub(super) mod error {
    pub const ABRT: u8 = 1 << 2;
    pub const IDNF: u8 = 1 << 4;
    pub const UNC: u8 = 1 << 6;
    /// After a reset or a diagnostic: passed.
    pub const PASSED: u8 = 1;
}

/// Device register: addresses are logical blocks.
const LBA: u8 = 1 << 6;

/// A register that holds what was written last and what before that, for 48-bit commands.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Pair {
    pub last: u8,
    pub before: u8,
}

impl Pair {
    fn push(&mut self, value: u8) {
        self.before = self.last;
        self.last = value;
    }

    fn set(&mut self, value: u8) {
        *self = Pair {
            last: value,
            before: 0,
        };
    }
}

/// The registers of a drive.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TaskFile {
    pub features: u8,
    pub error: u8,
    pub count: Pair,
    pub low: Pair,
    pub mid: Pair,
    pub high: Pair,
    pub device: u8,
    pub status: u8,
}

/// How a disk numbers its cylinders: heads, sectors a track.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Geometry {
    pub heads: u8,
    pub sectors: u8,
}

impl Geometry {
    pub const DEFAULT: Geometry = Geometry {
        heads: 16,
        sectors: 63,
    };

    /// Cylinders of a disk of so many sectors, at most `limit`.
    pub fn cylinders(self, sectors: u64, limit: u64) -> u16 {
        let cylinder = u64::from(self.heads) * u64::from(self.sectors);
        sectors.checked_div(cylinder).unwrap_or(0).min(limit) as u16
    }
}

impl TaskFile {
    /// As after power-on, with the signature of what is there.
    pub fn new(unit: Option<&Unit>) -> Self {
        let mut file = TaskFile {
            features: 0,
            error: 0,
            count: Pair::default(),
            low: Pair::default(),
            mid: Pair::default(),
            high: Pair::default(),
            device: 0,
            status: 0,
        };
        file.sign(unit);
        file
    }

    /// Puts the signature into the registers (ATA/ATAPI-6, 9.12), and that the diagnostic passed.
    pub fn sign(&mut self, unit: Option<&Unit>) {
        self.error = error::PASSED;
        self.count.set(1);
        self.low.set(1);
        let (mid, high, status) = match unit {
            Some(Unit::Disk { .. }) => (0, 0, status::READY),
            Some(Unit::Cdrom { .. }) => (0x14, 0xeb, 0),
            None => (0, 0, 0),
        };
        self.mid.set(mid);
        self.high.set(high);
        self.status = status;
    }

    /// A write to register 1 to 6.
    pub fn write(&mut self, register: u8, value: u8) {
        match register {
            1 => self.features = value,
            2 => self.count.push(value),
            3 => self.low.push(value),
            4 => self.mid.push(value),
            5 => self.high.push(value),
            6 => self.device = value,
            _ => {}
        }
    }

    /// Register 1 to 7; of pairs, with `before`, what was written before the last.
    pub fn read(&self, register: u8, before: bool) -> u8 {
        let of = |pair: Pair| if before { pair.before } else { pair.last };
        match register {
            1 => self.error,
            2 => of(self.count),
            3 => of(self.low),
            4 => of(self.mid),
            5 => of(self.high),
            6 => self.device,
            7 => self.status,
            _ => 0,
        }
    }

    /// The sector address of a command; none if there is no such cylinder, head and sector.
    pub fn address(&self, extended: bool, geometry: Geometry) -> Option<u64> {
        let bytes = |low, mid, high, top| u64::from(u32::from_le_bytes([low, mid, high, top]));
        let (low, mid, high) = (self.low.last, self.mid.last, self.high.last);
        if extended {
            let top = bytes(self.low.before, self.mid.before, self.high.before, 0);
            Some(bytes(low, mid, high, 0) | top << 24)
        } else if self.device & LBA != 0 {
            Some(bytes(low, mid, high, self.device & 0xf))
        } else {
            let cylinder = bytes(mid, high, 0, 0);
            let head = u64::from(self.device & 0xf);
            let (heads, sectors) = (u64::from(geometry.heads), u64::from(geometry.sectors));
            let sector = u64::from(low).checked_sub(1)?;
            let possible = head < heads && sector < sectors;
            possible.then_some((cylinder * heads + head) * sectors + sector)
        }
    }

    /// Puts a sector address into the registers.
    pub fn set_address(&mut self, address: u64, extended: bool, geometry: Geometry) {
        let [low, mid, high, low_before, mid_before, high_before, ..] = address.to_le_bytes();
        if extended {
            (self.low.last, self.mid.last, self.high.last) = (low, mid, high);
            (self.low.before, self.mid.before, self.high.before) = (low_before, mid_before, high_before);
        } else if self.device & LBA != 0 {
            (self.low.last, self.mid.last, self.high.last) = (low, mid, high);
            self.device = self.device & 0xf0 | low_before & 0xf;
        } else {
            let (heads, sectors) = (
                u64::from(geometry.heads.max(1)),
                u64::from(geometry.sectors.max(1)),
            );
            self.low.last = (address % sectors + 1) as u8;
            let track = address / sectors;
            let [mid, high, ..] = (track / heads).to_le_bytes();
            (self.mid.last, self.high.last) = (mid, high);
            self.device = self.device & 0xf0 | (track % heads) as u8 & 0xf;
        }
    }

    /// The sector count of a command, in which 0 means the most.
    pub fn sectors(&self, extended: bool) -> u32 {
        let count = if extended {
            u32::from(u16::from_le_bytes([self.count.last, self.count.before]))
        } else {
            u32::from(self.count.last)
        };
        match count {
            0 if extended => 0x1_0000,
            0 => 0x100,
            _ => count,
        }
    }

    /// A packet command's limit of the bytes that move at once, from the cylinder registers.
    pub fn byte_count(&self) -> u16 {
        u16::from_le_bytes([self.mid.last, self.high.last])
    }

    /// How many bytes a packet command moves now.
    pub fn set_byte_count(&mut self, count: u16) {
        let [mid, high] = count.to_le_bytes();
        (self.mid.last, self.high.last) = (mid, high);
    }
}
