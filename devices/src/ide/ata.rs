//! The commands of a hard disk (ATA/ATAPI-6, 8).

use super::channel::{Channel, DmaFailure, LATENCY_NS, MULTIPLE, Op, QUICK_NS, Span, Way};
use super::task_file::{Geometry, error};
use super::{SECTOR_SIZE, Unit, identify, medium};
use crate::{Context, VirtualTime};

/// What a command does with sectors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    ReadDma,
    WriteDma,
    Verify,
}

/// The command that moves or looks at sectors: what it does, whether its address has 48 bits, whether in blocks.
fn access(command: u8) -> Option<(Access, bool, bool)> {
    Some(match command {
        0x20 | 0x21 => (Access::Read, false, false),
        0x24 => (Access::Read, true, false),
        0xc4 => (Access::Read, false, true),
        0x29 => (Access::Read, true, true),
        0x30 | 0x31 | 0x3c => (Access::Write, false, false),
        0x34 => (Access::Write, true, false),
        0xc5 => (Access::Write, false, true),
        0x39 => (Access::Write, true, true),
        0x40 | 0x41 => (Access::Verify, false, false),
        0x42 => (Access::Verify, true, false),
        0xc8 | 0xc9 => (Access::ReadDma, false, false),
        0x25 => (Access::ReadDma, true, false),
        0xca | 0xcb => (Access::WriteDma, false, false),
        0x35 => (Access::WriteDma, true, false),
        _ => return None,
    })
}

impl Channel {
    /// A command to a disk.
    pub(super) fn ata_command(&mut self, unit: &Unit, now: VirtualTime, command: u8) {
        let Unit::Disk {
            sectors, read_only, ..
        } = *unit
        else {
            return;
        };
        if let Some((access, extended, blocks)) = access(command) {
            return self.access(now, sectors, read_only, access, extended, blocks);
        }
        let done = match command {
            // RECALIBRATE, SEEK; STANDBY, IDLE, SLEEP in their old and new codes.
            0x10..=0x1f | 0x70 | 0x94..=0x97 | 0x99 | 0xe0..=0xe3 | 0xe6 => true,
            0x27 => {
                self.set_address(sectors.saturating_sub(1), true);
                true
            }
            0xf8 => {
                self.set_address(sectors.clamp(1, 1 << 28) - 1, false);
                true
            }
            0x91 => self.initialize_device_parameters(),
            0x98 | 0xe5 => {
                self.file().count.last = 0xff; // active
                true
            }
            0xc6 => self.set_multiple_mode(),
            0xe7 | 0xea => {
                return self.begin(now, LATENCY_NS, Op::Finish);
            }
            0xec => {
                self.buffer = identify::disk(unit, self.drive());
                return self.begin(now, QUICK_NS, Op::Send);
            }
            0xef => self.set_features(),
            _ => false,
        };
        let op = if done { Op::Finish } else { Op::Fail(error::ABRT) };
        self.begin(now, QUICK_NS, op);
    }

    fn access(
        &mut self,
        now: VirtualTime,
        sectors: u64,
        read_only: bool,
        access: Access,
        extended: bool,
        blocks: bool,
    ) {
        let geometry = self.drive().geometry;
        let block = if blocks { self.drive().multiple } else { 1 };
        let count = self.file().sectors(extended);
        let writes = matches!(access, Access::Write | Access::WriteDma);
        if block == 0 || writes && read_only {
            return self.begin(now, QUICK_NS, Op::Fail(error::ABRT));
        }
        let place = self.file().address(extended, geometry);
        let fits = |lba: &u64| lba.checked_add(count.into()).is_some_and(|end| end <= sectors);
        let Some(lba) = place.filter(fits) else {
            return self.begin(now, QUICK_NS, Op::Fail(error::IDNF));
        };
        let span = Span {
            lba,
            left: count,
            block,
            extended,
        };
        let bytes = |sectors: u32| u64::from(sectors) * SECTOR_SIZE;
        let all = LATENCY_NS + bytes(count);
        match access {
            Access::Read => self.begin(now, LATENCY_NS + bytes(span.next()), Op::Read(span)),
            Access::Write => self.want(bytes(span.next()) as usize, Op::Write(span)),
            Access::ReadDma => self.begin(now, all, Op::ReadDma(span)),
            Access::WriteDma => self.begin(now, all, Op::WriteDma(span)),
            Access::Verify => {
                self.set_address(lba + u64::from(count) - 1, extended);
                self.begin(now, all, Op::Finish);
            }
        }
    }

    fn set_address(&mut self, lba: u64, extended: bool) {
        let geometry = self.drive().geometry;
        self.file().set_address(lba, extended, geometry);
    }

    fn initialize_device_parameters(&mut self) -> bool {
        let file = self.file();
        let geometry = Geometry {
            heads: (file.device & 0xf) + 1,
            sectors: file.count.last,
        };
        if geometry.sectors > 0 {
            self.drive().geometry = geometry;
        }
        geometry.sectors > 0
    }

    fn set_multiple_mode(&mut self) -> bool {
        let count = self.file().count.last;
        let possible = count <= MULTIPLE && (count == 0 || count.is_power_of_two());
        if possible {
            self.drive().multiple = count;
        }
        possible
    }

    fn set_features(&mut self) -> bool {
        let (feature, count) = (self.file().features, self.file().count.last);
        let drive = self.drive();
        match feature {
            0x02 => drive.write_cache = true,
            0x82 => drive.write_cache = false,
            0xaa => drive.look_ahead = true,
            0x55 => drive.look_ahead = false,
            0x03 => return drive.set_transfer_mode(count),
            // Whether a reset brings the settings at power-on back: settings stay.
            0x66 | 0xcc => {}
            _ => return false,
        }
        true
    }

    /// What was due on a disk.
    pub(super) fn ata_step(&mut self, drive: u8, cx: &mut dyn Context, op: Op) {
        match op {
            Op::Read(span) => self.read_block(drive, cx, span),
            Op::Write(span) => self.write_block(drive, cx, span),
            Op::ReadDma(span) => self.sectors_dma(drive, cx, span, Way::ToMemory),
            Op::WriteDma(span) => self.sectors_dma(drive, cx, span, Way::FromMemory),
            _ => self.fail(error::ABRT),
        }
    }

    fn read_block(&mut self, drive: u8, cx: &mut dyn Context, span: Span) {
        self.buffer = vec![0; (u64::from(span.next()) * SECTOR_SIZE) as usize];
        let at = span.lba.saturating_mul(SECTOR_SIZE);
        if medium::read(cx, drive, at, &mut self.buffer).is_err() {
            return self.fail_at(span, error::UNC);
        }
        self.moved(span);
        self.send(Op::Read(span.advanced()));
    }

    fn write_block(&mut self, drive: u8, cx: &mut dyn Context, span: Span) {
        let at = span.lba.saturating_mul(SECTOR_SIZE);
        if medium::write(cx, drive, at, &self.buffer).is_err() {
            return self.fail_at(span, error::UNC);
        }
        self.moved(span);
        let span = span.advanced();
        if span.left == 0 {
            return self.finish();
        }
        let bytes = u64::from(span.next()) * SECTOR_SIZE;
        self.want(bytes as usize, Op::Write(span));
        self.interrupt();
    }

    fn sectors_dma(&mut self, drive: u8, cx: &mut dyn Context, span: Span, way: Way) {
        let op = match way {
            Way::ToMemory => Op::ReadDma(span),
            Way::FromMemory => Op::WriteDma(span),
        };
        if self.dma_ready(op).is_none() {
            return;
        }
        let at = span.lba.saturating_mul(SECTOR_SIZE);
        let len = u64::from(span.left) * SECTOR_SIZE;
        let result = self.transfer(cx, drive, at, len, way);
        match result {
            Ok(()) => {
                let last = span.lba.saturating_add(u64::from(span.left)).saturating_sub(1);
                self.set_address(last, span.extended);
                self.finish();
            }
            Err(DmaFailure::Short) => self.idle(0),
            Err(DmaFailure::Bus) => self.fail_at(span, error::ABRT),
            Err(DmaFailure::Medium) => self.fail_at(span, error::UNC),
        }
    }

    /// The address registers name the last sector that moved.
    fn moved(&mut self, span: Span) {
        let last = span.lba.saturating_add(u64::from(span.next()).saturating_sub(1));
        self.set_address(last, span.extended);
    }

    fn fail_at(&mut self, span: Span, error: u8) {
        self.set_address(span.lba, span.extended);
        self.fail(error);
    }
}
