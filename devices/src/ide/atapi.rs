//! The commands of a CD-ROM drive: those of the channel (ATA/ATAPI-6, 8), and the packets (MMC-3).
//!
//! ```text
//!   PACKET ─▶ 12 bytes from the host ─▶ what it asks for is known: sense, a reply, or bytes of the medium
//!            └▶ busy ─▶ pieces of the host's byte count, or the bus master ─▶ end: status, interrupt
//! ```
//!
//! No packet takes data from the host, so none that would is known. A disc stays in the drive unless the guest ejects it;
//! nothing is told of power-on or of the disc by a unit attention.

use serde::{Deserialize, Serialize};

use super::channel::{Channel, DmaFailure, Drive, LATENCY_NS, Op, QUICK_NS, Way};
use super::task_file::error;
use super::{CD_SECTOR_SIZE, Unit, identify, medium, reply};
use crate::{Context, VirtualTime};

const PACKET_SIZE: usize = 12;
/// Bytes in the longest reply.
const REPLY: usize = 0x1000;
/// Sectors of the longest read.
const MOST_SECTORS: u64 = 1 << 16;

/// Interrupt reason, in the count register: command, else data.
const COMMAND: u8 = 1 << 0;
/// Interrupt reason: to the host.
const TO_HOST: u8 = 1 << 1;
/// Features of PACKET: by the bus master.
const DMA: u8 = 1 << 0;

/// Sense key, additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sense {
    pub key: u8,
    pub code: u8,
    pub qualifier: u8,
}

impl Sense {
    pub const NONE: Sense = Sense::new(0, 0, 0);
    pub const NO_MEDIUM: Sense = Sense::new(2, 0x3a, 0);
    pub const UNREADABLE: Sense = Sense::new(3, 0x11, 0);
    /// An internal failure: the bus master got nowhere.
    pub const TRANSFER: Sense = Sense::new(4, 0x44, 0);
    pub const INVALID_COMMAND: Sense = Sense::new(5, 0x20, 0);
    pub const OUT_OF_RANGE: Sense = Sense::new(5, 0x21, 0);
    pub const INVALID_FIELD: Sense = Sense::new(5, 0x24, 0);
    pub const NOT_SAVED: Sense = Sense::new(5, 0x39, 0);
    pub const REMOVAL_PREVENTED: Sense = Sense::new(5, 0x53, 2);

    const fn new(key: u8, code: u8, qualifier: u8) -> Sense {
        Sense { key, code, qualifier }
    }
}

/// Where a packet's data is from.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Source {
    Reply(Vec<u8>),
    /// Bytes of the medium.
    Medium {
        at: u64,
        left: u64,
    },
}

impl Source {
    pub fn left(&self) -> u64 {
        match self {
            Source::Reply(bytes) => bytes.len() as u64,
            Source::Medium { left, .. } => *left,
        }
    }

    pub fn is_possible(&self) -> bool {
        match self {
            Source::Reply(bytes) => bytes.len() <= REPLY,
            Source::Medium { left, .. } => *left <= MOST_SECTORS * CD_SECTOR_SIZE,
        }
    }

    /// Takes the next `count` bytes.
    fn take(&mut self, cx: &mut dyn Context, drive: u8, count: usize) -> Result<Vec<u8>, Sense> {
        match self {
            Source::Reply(bytes) => Ok(bytes.drain(..count.min(bytes.len())).collect()),
            Source::Medium { at, left } => {
                let mut bytes = vec![0; count];
                medium::read(cx, drive, *at, &mut bytes).map_err(|_| Sense::UNREADABLE)?;
                *at = at.saturating_add(count as u64);
                *left = left.saturating_sub(count as u64);
                Ok(bytes)
            }
        }
    }
}

impl Channel {
    /// A command to a CD-ROM drive; DEVICE RESET is the channel's.
    pub(super) fn atapi_command(&mut self, unit: &Unit, now: VirtualTime, command: u8) {
        let done = match command {
            0xa0 => {
                self.file().count.last = COMMAND;
                self.want(PACKET_SIZE, Op::Packet);
                return;
            }
            0xa1 => {
                self.buffer = identify::cdrom(unit, self.drive());
                return self.begin(now, QUICK_NS, Op::Send);
            }
            // A host that asks for a disk learns what this is.
            0x20 | 0xec => {
                self.file().sign(Some(unit));
                false
            }
            // STANDBY, IDLE, SLEEP; flush.
            0xe0..=0xe3 | 0xe6 | 0xe7 => true,
            0xe5 => {
                self.file().count.last = 0xff;
                true
            }
            0xef if self.file().features == 0x03 => {
                let mode = self.file().count.last;
                self.drive().set_transfer_mode(mode)
            }
            0xef => matches!(self.file().features, 0x66 | 0xcc),
            _ => false,
        };
        let op = if done { Op::Finish } else { Op::Fail(error::ABRT) };
        self.begin(now, QUICK_NS, op);
    }

    /// The packet is in the buffer.
    pub(super) fn packet(&mut self, unit: &Unit, now: VirtualTime) {
        let mut packet = [0; PACKET_SIZE];
        for (to, from) in packet.iter_mut().zip(&self.buffer) {
            *to = *from;
        }
        let source = match execute(unit, self.drive(), &packet) {
            Ok(source) => source,
            Err(sense) => return self.begin(now, QUICK_NS, Op::PacketEnd(sense)),
        };
        let by_dma = self.file().features & DMA != 0;
        let limit = byte_limit(self.file().byte_count());
        let piece = if by_dma {
            source.left()
        } else {
            source.left().min(limit.into())
        };
        let delay = match source {
            Source::Medium { .. } => LATENCY_NS + piece,
            Source::Reply(_) => QUICK_NS + piece,
        };
        let op = match piece {
            0 => Op::PacketEnd(Sense::NONE),
            _ if by_dma => Op::PacketDma(source),
            _ => Op::PacketIn(source, limit),
        };
        self.begin(now, delay, op);
    }

    /// What was due on a CD-ROM drive.
    pub(super) fn atapi_step(&mut self, drive: u8, cx: &mut dyn Context, op: Op) {
        match op {
            Op::PacketEnd(sense) => self.end_packet(sense),
            Op::PacketIn(mut source, limit) => {
                let count = source.left().min(limit.into()) as u16;
                match source.take(cx, drive, count.into()) {
                    Ok(bytes) => {
                        self.buffer = bytes;
                        self.file().set_byte_count(count);
                        self.file().count.last = TO_HOST;
                        self.send(Op::PacketIn(source, limit));
                    }
                    Err(sense) => self.end_packet(sense),
                }
            }
            Op::PacketDma(source) => {
                if let Some(Op::PacketDma(source)) = self.dma_ready(Op::PacketDma(source)) {
                    self.packet_dma(drive, cx, source);
                }
            }
            _ => self.fail(error::ABRT),
        }
    }

    fn packet_dma(&mut self, drive: u8, cx: &mut dyn Context, source: Source) {
        let result = match source {
            Source::Medium { at, left } => self.transfer(cx, drive, at, left, Way::ToMemory),
            Source::Reply(bytes) => self.reply_dma(cx, &bytes),
        };
        match result {
            Ok(()) => self.end_packet(Sense::NONE),
            Err(DmaFailure::Short) => {
                self.file().count.last = COMMAND | TO_HOST;
                self.idle(0);
            }
            Err(DmaFailure::Bus) => self.end_packet(Sense::TRANSFER),
            Err(DmaFailure::Medium) => self.end_packet(Sense::UNREADABLE),
        }
    }

    /// The last interrupt of a packet command.
    fn end_packet(&mut self, sense: Sense) {
        self.drive().sense = sense;
        self.file().count.last = COMMAND | TO_HOST;
        if sense == Sense::NONE {
            self.finish();
        } else {
            self.fail(sense.key << 4 | error::ABRT);
        }
    }
}

/// The bytes that move at once: an even number, and as many as there can be for 0, which says nothing.
fn byte_limit(count: u16) -> u16 {
    match count {
        0 => 0xfffe,
        1 => 2,
        _ => count & !1,
    }
}

/// Does what a packet asks; what it gives is at most as long as it asks.
fn execute(unit: &Unit, drive: &mut Drive, packet: &[u8; PACKET_SIZE]) -> Result<Source, Sense> {
    let Unit::Cdrom { sectors, .. } = *unit else {
        return Err(Sense::INVALID_COMMAND);
    };
    let p = packet;
    let word = |at: usize| usize::from(u16::from_be_bytes([p[at], p[at + 1]]));
    let long = |at: usize| u64::from(u32::from_be_bytes([p[at], p[at + 1], p[at + 2], p[at + 3]]));
    let sense = std::mem::replace(&mut drive.sense, Sense::NONE);
    let present = sectors > 0 && !drive.ejected;
    let ready = if present { Ok(()) } else { Err(Sense::NO_MEDIUM) };
    let (reply, length) = match p[0] {
        // TEST UNIT READY; SEEK.
        0x00 | 0x2b => ready.map(|()| (Vec::new(), 0))?,
        // REQUEST SENSE
        0x03 => (reply::sense(sense), p[4].into()),
        // INQUIRY
        0x12 if p[1] & 1 == 0 && p[2] == 0 => (reply::inquiry(), p[4].into()),
        0x12 => return Err(Sense::INVALID_FIELD),
        // MODE SENSE (6)
        0x1a => (reply::mode_sense_6(drive, present, p[2])?, p[4].into()),
        // START STOP UNIT
        0x1b => {
            start_stop(drive, p[4])?;
            (Vec::new(), 0)
        }
        // PREVENT ALLOW MEDIUM REMOVAL
        0x1e => {
            drive.locked = p[4] & 1 != 0;
            (Vec::new(), 0)
        }
        // READ CAPACITY
        0x25 => ready.map(|()| (reply::capacity(sectors), 8))?,
        // READ (10), READ (12)
        0x28 => return ready.and_then(|()| sectors_from(sectors, long(2), word(7) as u64)),
        0xa8 => return ready.and_then(|()| sectors_from(sectors, long(2), long(6))),
        // READ CD: user data or nothing, of whatever is a data sector.
        0xbe => {
            let count = u64::from(p[6]) << 16 | word(7) as u64;
            let count = match p[9] & 0xf8 {
                0x00 => 0,
                0x10 if p[1] >> 2 & 7 != 1 && p[10] & 7 == 0 => count,
                _ => return Err(Sense::INVALID_FIELD),
            };
            return ready.and_then(|()| sectors_from(sectors, long(2), count));
        }
        // READ TOC/PMA/ATIP
        0x43 => {
            ready?;
            let format = if p[2] & 0xf == 0 { p[9] >> 6 } else { p[2] & 0xf };
            (reply::toc(sectors, format, p[1] & 2 != 0, p[6])?, word(7))
        }
        // GET CONFIGURATION
        0x46 => (
            reply::configuration(sectors, present, p[1] & 3, word(2) as u16)?,
            word(7),
        ),
        // GET EVENT STATUS NOTIFICATION, by polling
        0x4a if p[1] & 1 != 0 => (reply::event_status(present, drive.ejected, p[4]), word(7)),
        0x4a => return Err(Sense::INVALID_FIELD),
        // READ DISC INFORMATION
        0x51 if p[1] & 7 == 0 => ready.map(|()| (reply::disc_information(), word(7)))?,
        0x51 => return Err(Sense::INVALID_FIELD),
        // MODE SENSE (10)
        0x5a => (reply::mode_sense_10(drive, present, p[2])?, word(7)),
        // SET CD SPEED
        0xbb => (Vec::new(), 0),
        // MECHANISM STATUS
        0xbd => (vec![0; 8], word(8)),
        _ => return Err(Sense::INVALID_COMMAND),
    };
    let mut reply = reply;
    reply.truncate(length);
    Ok(Source::Reply(reply))
}

fn start_stop(drive: &mut Drive, what: u8) -> Result<(), Sense> {
    match what & 3 {
        // The disc out or in.
        2 if drive.locked => return Err(Sense::REMOVAL_PREVENTED),
        2 => drive.ejected = true,
        3 => drive.ejected = false,
        _ => {}
    }
    Ok(())
}

fn sectors_from(sectors: u64, lba: u64, count: u64) -> Result<Source, Sense> {
    if lba + count > sectors {
        return Err(Sense::OUT_OF_RANGE);
    }
    if count > MOST_SECTORS {
        return Err(Sense::INVALID_FIELD);
    }
    Ok(Source::Medium {
        at: lba * CD_SECTOR_SIZE,
        left: count * CD_SECTOR_SIZE,
    })
}
