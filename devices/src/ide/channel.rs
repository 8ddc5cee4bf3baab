//! A channel: the registers of its two drives, and the one command that is under way.
//!
//! ```text
//!           command                deadline                 last byte
//!   Idle ─────────────▶ Busy ──────────────────▶ DataIn ───────────────▶ Busy (next block) or Idle
//!     │                  ▲ │ └▶ Idle (done)      DmaWait ─ bus master started ─▶ Busy
//!     └─▶ DataOut ───────┘ └──────────────────▶ DataOut (next block)
//! ```
//!
//! What a command does at its deadline is its [`Op`]; `ata.rs` and `atapi.rs` say which commands there are.

use serde::{Deserialize, Serialize};

use super::atapi::{Sense, Source};
use super::bus_master::BusMaster;
use super::task_file::{Geometry, TaskFile, status};
use super::{Unit, Units, medium};
use crate::{Context, VirtualTime};

/// Virtual nanoseconds that a request to the medium takes; each byte takes one more.
pub(super) const LATENCY_NS: u64 = 50_000;
/// What the next block of a request takes, beside its bytes.
pub(super) const BLOCK_NS: u64 = 1_000;
/// What takes no medium.
pub(super) const QUICK_NS: u64 = 2_000;
const RESET_NS: u64 = 100_000;

/// Bytes in the greatest block that moves through the data register.
const BUFFER: usize = 0x1_0000;
/// Bytes that the bus master moves at once.
const CHUNK: usize = 0x1_0000;
/// Sectors in the greatest block of READ MULTIPLE.
pub(super) const MULTIPLE: u8 = 16;

/// What nobody drives, with the pull-down of its top bit.
const OPEN: u8 = 0x7f;

/// Device control: no interrupts.
const NIEN: u8 = 1 << 1;
const SRST: u8 = 1 << 2;
/// The command block shows what was written before the last.
const HOB: u8 = 1 << 7;
/// Device register: device 1.
const DEV: u8 = 1 << 4;

const EXECUTE_DEVICE_DIAGNOSTIC: u8 = 0x90;
const DEVICE_RESET: u8 = 0x08;

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Channel {
    pub files: [TaskFile; 2],
    pub drives: [Drive; 2],
    control: u8,
    phase: Phase,
    pub op: Op,
    /// The block that moves through the data register, and how much of it has.
    pub buffer: Vec<u8>,
    at: u32,
    pub bus_master: BusMaster,
    line: bool,
}

/// What a drive keeps from command to command.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Drive {
    interrupt: bool,
    pub geometry: Geometry,
    /// Sectors in a block of READ MULTIPLE; 0 while that is off.
    pub multiple: u8,
    /// Transfer mode, as SET FEATURES has it.
    pub mode: u8,
    pub write_cache: bool,
    pub look_ahead: bool,
    pub sense: Sense,
    pub locked: bool,
    pub ejected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Idle,
    /// Something happens then.
    Busy(VirtualTime),
    /// The data is there, and the bus master isn't started.
    DmaWait,
    DataIn,
    DataOut,
}

/// What happens next.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Op {
    Nothing,
    /// SRST is over.
    SoftReset,
    Diagnostic,
    /// A command without data ends well.
    Finish,
    /// A command ends with this in the error register.
    Fail(u8),
    /// The buffer is for the host.
    Send,
    /// Sectors for the host.
    Read(Span),
    /// Sectors from the host.
    Write(Span),
    /// Sectors to memory.
    ReadDma(Span),
    /// Sectors from memory.
    WriteDma(Span),
    /// A packet from the host.
    Packet,
    /// What a packet asked for, at most so many bytes at once.
    PacketIn(Source, u16),
    /// The same to memory.
    PacketDma(Source),
    /// A packet command ends.
    PacketEnd(Sense),
}

/// Sectors that a command has still to move.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Span {
    pub lba: u64,
    pub left: u32,
    /// Sectors that move at once.
    pub block: u8,
    pub extended: bool,
}

impl Span {
    /// Sectors of the next block.
    pub fn next(&self) -> u32 {
        self.left.min(self.block.into())
    }

    /// Behind the next block.
    pub fn advanced(self) -> Span {
        let next = self.next();
        Span {
            lba: self.lba.saturating_add(next.into()),
            left: self.left - next,
            ..self
        }
    }
}

/// Why a transfer by the bus master went wrong.
pub(super) enum DmaFailure {
    /// The table had not memory enough. The bus master saw its end first, so the command ends without an interrupt.
    Short,
    /// The table or the memory isn't RAM.
    Bus,
    /// The medium failed.
    Medium,
}

/// Which way the bus master moves data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToMemory,
    FromMemory,
}

impl Drive {
    fn new() -> Self {
        Drive {
            interrupt: false,
            geometry: Geometry::DEFAULT,
            multiple: 0,
            mode: 0x22, // multiword DMA 2
            write_cache: true,
            look_ahead: true,
            sense: Sense::NONE,
            locked: false,
            ejected: false,
        }
    }
}

impl Channel {
    pub fn new(units: &Units) -> Self {
        Channel {
            files: [0, 1].map(|n: usize| TaskFile::new(units[n].as_ref())),
            drives: [Drive::new(), Drive::new()],
            control: 0,
            phase: Phase::Idle,
            op: Op::Nothing,
            buffer: Vec::new(),
            at: 0,
            bus_master: BusMaster::new(),
            line: false,
        }
    }

    /// The board's reset line.
    pub fn power_on(&mut self, units: &Units) {
        *self = Channel {
            line: self.line,
            ..Channel::new(units)
        };
    }

    /// What is wrong with this state, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        let drive = |drive: &Drive| {
            let Geometry { heads, sectors } = drive.geometry;
            (1..=16).contains(&heads) && sectors > 0 && drive.multiple <= MULTIPLE
        };
        let op = match &self.op {
            Op::Read(span) | Op::Write(span) | Op::ReadDma(span) | Op::WriteDma(span) => {
                (1..=MULTIPLE).contains(&span.block) && span.left <= 0x1_0000
            }
            Op::PacketIn(source, limit) => *limit >= 2 && source.is_possible(),
            Op::PacketDma(source) => source.is_possible(),
            _ => true,
        };
        if !self.drives.iter().all(drive) {
            Err("a drive that can't have been set up so")
        } else if !op || self.buffer.len() > BUFFER || self.at as usize > self.buffer.len() {
            Err("a command that can't be under way")
        } else {
            self.bus_master.check()
        }
    }

    /// The number of the drive that the device register selects.
    pub fn selected(&self) -> usize {
        usize::from(self.files[0].device & DEV != 0)
    }

    pub fn file(&mut self) -> &mut TaskFile {
        &mut self.files[self.selected()]
    }

    pub fn drive(&mut self) -> &mut Drive {
        &mut self.drives[self.selected()]
    }

    fn is_working(&self) -> bool {
        self.files[self.selected()].status & (status::BSY | status::DRQ) != 0
    }

    /// The time at which [`Channel::step`] is due.
    pub fn deadline(&self) -> Option<VirtualTime> {
        match self.phase {
            Phase::Busy(due) => Some(due),
            Phase::Idle | Phase::DmaWait | Phase::DataIn | Phase::DataOut => None,
        }
    }

    /// Drives the interrupt line; the bus master sees it rise.
    pub fn drive_line(&mut self, units: &Units, line: u32, cx: &mut dyn Context) {
        let selected = self.selected();
        let level = units[selected].is_some() && self.drives[selected].interrupt && self.control & NIEN == 0;
        if self.line != level {
            self.line = level;
            if level {
                self.bus_master.interrupted();
            }
            cx.set_line(line, level);
        }
    }

    /// A register of the command block but the data register.
    pub fn read(&mut self, units: &Units, register: u8) -> u8 {
        if register == 7 {
            let value = self.status(units);
            self.drive().interrupt = false;
            return value;
        }
        let selected = self.selected();
        match (&units[selected], &units[1 - selected]) {
            (None, None) => OPEN,
            (None, Some(_)) => 0,
            (Some(_), _) => self.files[selected].read(register, self.control & HOB != 0),
        }
    }

    /// The status register, looked at without effect.
    pub fn status(&self, units: &Units) -> u8 {
        let selected = self.selected();
        match (&units[selected], &units[1 - selected]) {
            (None, None) => OPEN,
            (None, Some(_)) => 0,
            (Some(_), _) => self.files[selected].status,
        }
    }

    pub fn write(&mut self, units: &Units, now: VirtualTime, register: u8, value: u8) {
        self.control &= !HOB;
        if register == 7 {
            self.command(units, now, value);
        } else if !self.is_working() {
            for file in &mut self.files {
                file.write(register, value);
            }
        }
    }

    /// The device control register.
    pub fn control(&mut self, units: &Units, now: VirtualTime, value: u8) {
        let was = self.control;
        self.control = value & (NIEN | SRST | HOB);
        if value & SRST != 0 {
            self.occupy(units);
        } else if was & SRST != 0 {
            self.op = Op::SoftReset;
            self.phase = Phase::Busy(now.saturating_add(RESET_NS));
        }
    }

    pub fn write_bus_master(&mut self, now: VirtualTime, register: u8, value: u8) {
        let started = self.bus_master.write(register, value);
        if started && self.phase == Phase::DmaWait {
            self.phase = Phase::Busy(now.saturating_add(BLOCK_NS));
        }
    }

    fn command(&mut self, units: &Units, now: VirtualTime, command: u8) {
        let selected = self.selected();
        let unit = units[selected].as_ref();
        let reset = command == DEVICE_RESET && matches!(unit, Some(Unit::Cdrom { .. }));
        if self.control & SRST != 0 || self.is_working() && !reset {
            return;
        }
        self.drive().interrupt = false;
        if command == EXECUTE_DEVICE_DIAGNOSTIC {
            self.occupy(units);
            self.op = Op::Diagnostic;
            self.phase = Phase::Busy(now.saturating_add(QUICK_NS));
            return;
        }
        let Some(unit) = unit else { return };
        self.abandon();
        self.file().error = 0;
        match unit {
            Unit::Disk { .. } => self.ata_command(unit, now, command),
            Unit::Cdrom { .. } if reset => {
                self.file().sign(Some(unit));
                self.file().device &= DEV;
            }
            Unit::Cdrom { .. } => self.atapi_command(unit, now, command),
        }
    }

    /// Forgets the command that is under way.
    fn abandon(&mut self) {
        self.op = Op::Nothing;
        self.phase = Phase::Idle;
        self.buffer.clear();
        self.at = 0;
    }

    /// Both drives are busy with themselves.
    fn occupy(&mut self, units: &Units) {
        self.abandon();
        for (file, unit) in self.files.iter_mut().zip(units) {
            file.status = if unit.is_some() { status::BSY } else { 0 };
        }
        for drive in &mut self.drives {
            drive.interrupt = false;
        }
    }

    /// The drive is busy for `delay`, and then `op` happens.
    pub fn begin(&mut self, now: VirtualTime, delay: u64, op: Op) {
        self.file().status = status::BSY;
        self.op = op;
        self.phase = Phase::Busy(now.saturating_add(delay));
    }

    /// The command is over.
    pub fn idle(&mut self, with: u8) {
        self.file().status = status::READY | with;
        self.op = Op::Nothing;
        self.phase = Phase::Idle;
        self.buffer.clear();
        self.at = 0;
    }

    pub fn interrupt(&mut self) {
        self.drive().interrupt = true;
    }

    pub fn finish(&mut self) {
        self.idle(0);
        self.interrupt();
    }

    pub fn fail(&mut self, error: u8) {
        self.file().error = error;
        self.idle(status::ERR);
        self.interrupt();
    }

    /// The buffer's bytes wait for the host; `then` is what is under way meanwhile.
    pub fn send(&mut self, then: Op) {
        self.file().status = status::READY | status::DRQ;
        self.op = then;
        self.phase = Phase::DataIn;
        self.at = 0;
        self.interrupt();
    }

    /// The host is to fill a buffer of `len` bytes.
    pub fn want(&mut self, len: usize, then: Op) {
        self.file().status = status::READY | status::DRQ;
        self.op = then;
        self.phase = Phase::DataOut;
        self.buffer = vec![0; len];
        self.at = 0;
    }

    /// Data for the host, as much as fits `size`.
    pub fn read_data(&mut self, units: &Units, now: VirtualTime, size: u8) -> u64 {
        if self.phase != Phase::DataIn {
            let none = units.iter().all(Option::is_none);
            return if none { u64::from(OPEN) } else { 0 };
        }
        let rest = self.buffer.get(self.at as usize..).unwrap_or(&[]);
        let mut bytes = [0; 8];
        let mut count = 0;
        for (to, from) in bytes.iter_mut().zip(rest).take(size.into()) {
            *to = *from;
            count += 1;
        }
        self.at += count;
        if self.at as usize >= self.buffer.len() {
            self.sent(now);
        }
        u64::from_le_bytes(bytes)
    }

    pub fn write_data(&mut self, units: &Units, now: VirtualTime, size: u8, value: u64) {
        if self.phase != Phase::DataOut {
            return;
        }
        let rest = self.buffer.get_mut(self.at as usize..).unwrap_or(&mut []);
        let mut count = 0;
        for (to, from) in rest.iter_mut().zip(value.to_le_bytes()).take(size.into()) {
            *to = from;
            count += 1;
        }
        self.at += count;
        if self.at as usize >= self.buffer.len() {
            self.filled(units, now);
        }
    }

    /// The host has the whole buffer.
    fn sent(&mut self, now: VirtualTime) {
        match std::mem::replace(&mut self.op, Op::Nothing) {
            Op::Read(span) if span.left > 0 => {
                let bytes = u64::from(span.next()) * super::SECTOR_SIZE;
                self.begin(now, BLOCK_NS + bytes, Op::Read(span));
            }
            Op::PacketIn(source, limit) => {
                let next = u64::from(limit).min(source.left());
                let op = if next > 0 {
                    Op::PacketIn(source, limit)
                } else {
                    Op::PacketEnd(Sense::NONE)
                };
                self.begin(now, BLOCK_NS + next, op);
            }
            _ => self.idle(0),
        }
    }

    /// The buffer is full of what the host sent.
    fn filled(&mut self, units: &Units, now: VirtualTime) {
        match std::mem::replace(&mut self.op, Op::Nothing) {
            Op::Write(span) => {
                let delay = LATENCY_NS + self.buffer.len() as u64;
                self.begin(now, delay, Op::Write(span));
            }
            Op::Packet => {
                if let Some(unit) = &units[self.selected()] {
                    self.packet(unit, now);
                } else {
                    self.idle(0);
                }
            }
            _ => self.idle(0),
        }
    }

    /// What was due.
    pub fn step(&mut self, units: &Units, cx: &mut dyn Context) {
        self.phase = Phase::Idle;
        let op = std::mem::replace(&mut self.op, Op::Nothing);
        let selected = self.selected();
        match (op, &units[selected]) {
            (Op::SoftReset, _) => self.sign(units),
            (Op::Diagnostic, _) => {
                self.sign(units);
                self.interrupt();
            }
            (Op::Finish, Some(_)) => self.finish(),
            (Op::Fail(error), Some(_)) => self.fail(error),
            (Op::Send, Some(_)) => self.send(Op::Send),
            (op, Some(Unit::Disk { drive, .. })) => self.ata_step(*drive, cx, op),
            (op, Some(Unit::Cdrom { drive, .. })) => self.atapi_step(*drive, cx, op),
            (_, None) => self.idle(0),
        }
    }

    fn sign(&mut self, units: &Units) {
        for (file, unit) in self.files.iter_mut().zip(units) {
            file.sign(unit.as_ref());
            file.device = 0;
        }
    }

    /// Waits for the bus master if it isn't started; `op` is then what it was.
    pub fn dma_ready(&mut self, op: Op) -> Option<Op> {
        if self.bus_master.is_active() {
            return Some(op);
        }
        self.file().status = status::BSY;
        self.op = op;
        self.phase = Phase::DmaWait;
        None
    }

    /// A packet's reply to memory by the bus master.
    pub fn reply_dma(&mut self, cx: &mut dyn Context, bytes: &[u8]) -> Result<(), DmaFailure> {
        let regions = self
            .bus_master
            .regions(cx, bytes.len() as u64)
            .map_err(|_| DmaFailure::Bus)?;
        let mut rest = bytes;
        for (addr, count) in regions {
            let (now, later) = rest.split_at(count.min(rest.len()));
            if cx.dma_write(addr, now).is_err() {
                self.bus_master.fail();
                return Err(DmaFailure::Bus);
            }
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(DmaFailure::Short)
        }
    }

    /// Moves `len` bytes at `at` of the medium by the bus master.
    pub fn transfer(
        &mut self,
        cx: &mut dyn Context,
        drive: u8,
        at: u64,
        len: u64,
        way: Way,
    ) -> Result<(), DmaFailure> {
        let regions = self.bus_master.regions(cx, len).map_err(|_| DmaFailure::Bus)?;
        let mut at = at;
        let mut done = 0;
        for (addr, count) in regions {
            let mut chunk = vec![0; count.min(CHUNK)];
            let moved = match way {
                Way::ToMemory => {
                    medium::read(cx, drive, at, &mut chunk).map_err(|_| DmaFailure::Medium)?;
                    cx.dma_write(addr, &chunk)
                }
                Way::FromMemory => cx.dma_read(addr, &mut chunk),
            };
            if moved.is_err() {
                self.bus_master.fail();
                return Err(DmaFailure::Bus);
            }
            if way == Way::FromMemory {
                medium::write(cx, drive, at, &chunk).map_err(|_| DmaFailure::Medium)?;
            }
            at = at.saturating_add(count as u64);
            done += count as u64;
        }
        if done < len {
            Err(DmaFailure::Short)
        } else {
            Ok(())
        }
    }
}
