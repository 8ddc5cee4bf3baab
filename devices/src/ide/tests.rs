//! The channels as firmware and systems drive them.

use super::*;
use crate::BLOCK_SIZE;
use crate::fake::{BLOCKS, Effect, Fake, RAM_BASE};

/// Sectors of the fake's drives.
const SECTORS: u64 = BLOCKS * 8;
const CD_SECTORS: u64 = BLOCKS * 2;
const PRD: u64 = RAM_BASE + 0x1000;
const DATA: u64 = RAM_BASE + 0x2_0000;
const BSY: u8 = 0x80;
const DRQ: u8 = 0x08;
const READY: u8 = 0x50;

struct Pc {
    device: Ide,
    cx: Fake,
}

fn disk() -> Option<Unit> {
    Some(Unit::Disk {
        drive: 0,
        sectors: SECTORS,
        read_only: false,
        serial: "tb0".to_string(),
    })
}

fn cdrom() -> Option<Unit> {
    Some(Unit::Cdrom {
        drive: 1,
        sectors: CD_SECTORS,
        serial: "tb1".to_string(),
    })
}

/// A byte of the drives' first content.
fn content(drive: u8, at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 13) as u8 ^ drive << 7
}

impl Pc {
    fn with(units: [Units; 2]) -> Pc {
        let mut cx = Fake::new();
        for (drive, block) in [0, 1]
            .into_iter()
            .flat_map(|drive| (0..BLOCKS).map(move |block| (drive, block)))
        {
            let start = block * BLOCK_SIZE as u64;
            let bytes = std::array::from_fn(|n| content(drive, start + n as u64));
            cx.disk.insert((drive, block), bytes);
        }
        Pc {
            device: Ide::new(units),
            cx,
        }
    }

    /// A disk as primary master, a CD-ROM as secondary master.
    fn new() -> Pc {
        Pc::with([[disk(), None], [cdrom(), None]])
    }

    fn inb(&mut self, offset: u64) -> u8 {
        self.device.read(&mut self.cx, offset, 1) as u8
    }

    fn outb(&mut self, offset: u64, value: u8) {
        self.device.write(&mut self.cx, offset, 1, value.into());
    }

    fn advance(&mut self) {
        if let Some(due) = self.device.deadline() {
            self.cx.now = self.cx.now.max(due);
            self.device.fire(&mut self.cx);
        }
    }

    /// Waits until the drive is no longer busy; its status.
    fn wait(&mut self, channel: usize) -> u8 {
        let mut tries = 0;
        while self.inb(CONTROL[channel]) & BSY != 0 {
            assert!(self.device.deadline().is_some(), "busy for ever");
            self.advance();
            tries += 1;
            assert!(tries < 10);
        }
        self.inb(COMMAND[channel] + 7)
    }

    /// Writes registers 1 to 6 and the command.
    fn command(&mut self, channel: usize, registers: [u8; 6], command: u8) {
        for (register, value) in (1..).zip(registers) {
            self.outb(COMMAND[channel] + register, value);
        }
        self.outb(COMMAND[channel] + 7, command);
    }

    /// A 28-bit command to device 0 of the primary channel.
    fn lba28(&mut self, lba: u32, count: u8, command: u8) {
        let [low, mid, high, top] = lba.to_le_bytes();
        self.command(0, [0, count, low, mid, high, 0xe0 | top], command);
    }

    fn lba48(&mut self, lba: u64, count: u16, command: u8) {
        let [low, mid, high, low_before, mid_before, high_before, ..] = lba.to_le_bytes();
        let [count, count_before] = count.to_le_bytes();
        for (register, value) in [
            (2, count_before),
            (3, low_before),
            (4, mid_before),
            (5, high_before),
        ] {
            self.outb(register, value);
        }
        self.command(0, [0, count, low, mid, high, 0x40], command);
    }

    /// Words from the data register.
    fn data(&mut self, channel: usize, len: usize) -> Vec<u8> {
        let mut words =
            (0..len.div_ceil(2)).map(|_| self.device.read(&mut self.cx, COMMAND[channel], 2) as u16);
        words.by_ref().flat_map(u16::to_le_bytes).collect()
    }

    fn write_data(&mut self, channel: usize, bytes: &[u8]) {
        for word in bytes.chunks(2) {
            let value = u16::from_le_bytes([word[0], word[1]]);
            self.device.write(&mut self.cx, COMMAND[channel], 2, value.into());
        }
    }

    /// Reads all blocks of a PIO command of `block` bytes each.
    fn blocks(&mut self, channel: usize, block: usize, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            assert_eq!(self.wait(channel), READY | DRQ);
            bytes.extend(self.data(channel, block));
        }
        assert_eq!(self.wait(channel), READY);
        bytes
    }

    fn error(&mut self, channel: usize) -> u8 {
        assert_eq!(self.wait(channel), READY | 1);
        self.inb(COMMAND[channel] + 1)
    }

    /// Sends a packet, in pieces of at most `limit` bytes, and returns what comes, or the error register.
    fn packet(&mut self, packet: &[u8], limit: u16) -> Result<Vec<u8>, u8> {
        let [mid, high] = limit.to_le_bytes();
        self.command(1, [0, 0, 0, mid, high, 0], 0xa0);
        assert_eq!(self.wait(1), READY | DRQ);
        assert_eq!(self.inb(COMMAND[1] + 2), 1);
        let mut bytes = packet.to_vec();
        bytes.resize(12, 0);
        self.write_data(1, &bytes);
        let mut data = Vec::new();
        loop {
            let status = self.wait(1);
            let reason = self.inb(COMMAND[1] + 2);
            if status & DRQ == 0 {
                assert_eq!(reason, 3);
                return if status & 1 == 0 {
                    Ok(data)
                } else {
                    Err(self.inb(COMMAND[1] + 1))
                };
            }
            assert_eq!(reason, 2);
            let count = u16::from_le_bytes([self.inb(COMMAND[1] + 4), self.inb(COMMAND[1] + 5)]);
            assert!(limit == 0 || count <= limit.max(2));
            let words = self.data(1, count.into());
            data.extend(&words[..count.into()]);
        }
    }

    fn sense(&mut self) -> (u8, u8, u8) {
        let sense = self.packet(&[3, 0, 0, 0, 18], 0x100).unwrap();
        (sense[2], sense[12], sense[13])
    }

    /// Lays out a table of these regions, and starts a channel's bus master on it.
    fn start_dma(&mut self, channel: u64, regions: &[(u64, u16)], to_memory: bool) {
        for (n, (addr, count)) in (0..).zip(regions) {
            let last = if n + 1 == regions.len() as u64 { 0x80 } else { 0 };
            let [low, high] = count.to_le_bytes();
            self.cx.poke(PRD + 8 * n, &(*addr as u32).to_le_bytes());
            self.cx.poke(PRD + 8 * n + 4, &[low, high, 0, last]);
        }
        let base = BUS_MASTER + 8 * channel;
        self.outb(base, 0);
        self.outb(base + 2, 6);
        self.device.write(&mut self.cx, base + 4, 4, PRD);
        self.outb(base, if to_memory { 9 } else { 1 });
    }

    /// Interrupt lines that went up since the last call.
    fn interrupts(&mut self) -> Vec<u32> {
        let effects = self.cx.take();
        let raised = effects.iter().filter_map(|effect| match effect {
            Effect::Line(line, true) => Some(*line),
            _ => None,
        });
        raised.collect()
    }
}

fn expected(drive: u8, start: u64, len: u64) -> Vec<u8> {
    (start..start + len).map(|at| content(drive, at)).collect()
}

fn word(identify: &[u8], n: usize) -> u16 {
    u16::from_le_bytes([identify[2 * n], identify[2 * n + 1]])
}

fn text(identify: &[u8], words: std::ops::Range<usize>) -> String {
    let bytes = words.flat_map(|n| word(identify, n).to_be_bytes());
    String::from_utf8(bytes.collect()).unwrap().trim_end().to_string()
}

#[test]
fn identify_tells_the_disk() {
    let mut pc = Pc::new();
    pc.lba28(0, 0, 0xec);
    assert_eq!(pc.inb(7), BSY);
    let identify = pc.blocks(0, 512, 1);
    assert_eq!(word(&identify, 0), 0x40);
    assert_eq!(text(&identify, 10..20), "tb0");
    assert_eq!(text(&identify, 27..47), "tickback disk");
    assert_eq!(u64::from(word(&identify, 60)), SECTORS);
    assert_eq!(u64::from(word(&identify, 100)), SECTORS);
    assert_eq!(word(&identify, 83) & 0xc400, 0x4400);
    assert_eq!(word(&identify, 106), 0x6003);
    assert_eq!(identify.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
    assert_eq!(pc.interrupts(), [14]);
}

#[test]
fn every_way_of_reading() {
    let mut pc = Pc::new();
    pc.lba28(5, 3, 0x20);
    assert_eq!(pc.blocks(0, 512, 3), expected(0, 5 * 512, 3 * 512));
    assert_eq!(pc.interrupts(), [14; 3]);
    // 256 sectors
    pc.lba28(1, 0, 0x20);
    assert_eq!(pc.blocks(0, 512, 256), expected(0, 512, 256 * 512));
    pc.lba48(SECTORS - 2, 2, 0x24);
    assert_eq!(pc.blocks(0, 512, 2), expected(0, (SECTORS - 2) * 512, 1024));
    // Cylinder 0, head 1, sector 2.
    pc.command(0, [0, 1, 2, 0, 0, 0xa1], 0x20);
    assert_eq!(pc.blocks(0, 512, 1), expected(0, 64 * 512, 512));
    // In blocks of four, with two left over.
    pc.lba28(0, 1, 0xc4);
    assert_eq!(pc.error(0), 4);
    pc.lba28(0, 4, 0xc6);
    assert_eq!(pc.wait(0), READY);
    pc.lba28(7, 6, 0xc4);
    assert_eq!(pc.wait(0), READY | DRQ);
    let mut bytes = pc.data(0, 2048);
    bytes.extend(pc.blocks(0, 1024, 1));
    assert_eq!(bytes, expected(0, 7 * 512, 6 * 512));
    // Two words at once.
    pc.lba28(9, 1, 0x20);
    assert_eq!(pc.wait(0), READY | DRQ);
    let words: Vec<u8> = (0..128)
        .flat_map(|_| (pc.device.read(&mut pc.cx, 0, 4) as u32).to_le_bytes())
        .collect();
    assert_eq!(words, expected(0, 9 * 512, 512));
    assert_eq!(pc.wait(0), READY);
}

#[test]
fn a_read_takes_its_time() {
    let mut pc = Pc::new();
    pc.lba28(0, 2, 0x20);
    assert_eq!(pc.device.deadline(), Some(VirtualTime(50_512)));
    pc.advance();
    pc.cx.now = VirtualTime(60_000);
    pc.data(0, 512);
    assert_eq!(pc.device.deadline(), Some(VirtualTime(61_512)));
    pc.advance();
    pc.data(0, 512);
    assert_eq!(pc.device.deadline(), None);
}

#[test]
fn writes_keep_the_rest_of_a_block() {
    let mut pc = Pc::new();
    let new: Vec<u8> = (0..1024).map(|n| (n * 3) as u8).collect();
    pc.lba28(7, 2, 0x30);
    // The first block interrupts nobody.
    assert_eq!(pc.wait(0), READY | DRQ);
    assert_eq!(pc.interrupts(), []);
    pc.write_data(0, &new[..512]);
    assert!(!pc.cx.effects.contains(&Effect::DiskWrite(0, 0)));
    assert_eq!(pc.wait(0), READY | DRQ);
    pc.write_data(0, &new[512..]);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(
        pc.cx
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::DiskWrite(..)))
            .count(),
        2
    );
    assert_eq!(pc.interrupts(), [14; 2]);
    pc.lba28(6, 4, 0x20);
    let mut whole = expected(0, 6 * 512, 4 * 512);
    whole[512..1536].copy_from_slice(&new);
    assert_eq!(pc.blocks(0, 512, 4), whole);
}

#[test]
fn dma_reads_and_writes() {
    let mut pc = Pc::new();
    pc.start_dma(0, &[(DATA, 1000), (DATA + 0x2000, 1048)], true);
    pc.lba28(3, 4, 0xc8);
    assert_eq!(pc.inb(BUS_MASTER + 2) & 7, 1);
    assert_eq!(pc.device.deadline(), Some(VirtualTime(52_048)));
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.inb(BUS_MASTER + 2) & 7, 4);
    let bytes = expected(0, 3 * 512, 2048);
    assert_eq!(pc.cx.peek(DATA, 1000), &bytes[..1000]);
    assert_eq!(pc.cx.peek(DATA + 0x2000, 1048), &bytes[1000..]);
    assert_eq!(pc.interrupts(), [14]);

    pc.cx.poke(DATA, &[0xcd; 1024]);
    pc.start_dma(0, &[(DATA, 1024)], false);
    pc.lba48(9, 2, 0x35);
    assert_eq!(pc.wait(0), READY);
    pc.lba28(8, 4, 0x20);
    let mut whole = expected(0, 8 * 512, 4 * 512);
    whole[512..1536].fill(0xcd);
    assert_eq!(pc.blocks(0, 512, 4), whole);
}

#[test]
fn dma_waits_for_its_start() {
    let mut pc = Pc::new();
    pc.lba28(3, 1, 0xc8);
    pc.advance();
    assert_eq!((pc.inb(0x10), pc.device.deadline()), (BSY, None));
    pc.start_dma(0, &[(DATA, 512)], true);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.cx.peek(DATA, 512), expected(0, 3 * 512, 512));
}

#[test]
fn dma_tables_that_do_not_fit() {
    let mut pc = Pc::new();
    // More memory than data: still active, and the interrupt is there.
    pc.start_dma(0, &[(DATA, 1024)], true);
    pc.lba28(3, 1, 0xc8);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.inb(BUS_MASTER + 2) & 7, 5);
    assert_eq!(pc.interrupts(), [14]);
    // Less: neither.
    pc.start_dma(0, &[(DATA, 512)], true);
    pc.lba28(3, 2, 0xc8);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.inb(BUS_MASTER + 2) & 7, 0);
    assert_eq!(pc.interrupts(), []);
    // Outside RAM.
    pc.start_dma(0, &[(0x10, 512)], true);
    pc.lba28(3, 1, 0xc8);
    assert_eq!(pc.error(0), 4);
    assert_eq!(pc.inb(BUS_MASTER + 2) & 7, 6);
    // A table without an end ends after 64 KiB.
    pc.device.write(&mut pc.cx, BUS_MASTER + 4, 4, RAM_BASE);
    for at in (0..0x1_0000).step_by(8) {
        pc.cx.poke(RAM_BASE + at, &[0, 0, 0, 0x80, 2, 0, 0, 0]);
    }
    pc.outb(BUS_MASTER, 0);
    pc.outb(BUS_MASTER, 9);
    pc.lba28(0, 255, 0xc8);
    assert_eq!(pc.wait(0), READY);
    assert!(pc.cx.dma_calls < 0x2_0000);
}

#[test]
fn bad_requests_fail_alone() {
    let mut pc = Pc::new();
    pc.lba28(SECTORS as u32 - 1, 2, 0x20);
    assert_eq!(pc.error(0), 0x10);
    pc.lba48(1 << 47, 1, 0x24);
    assert_eq!(pc.error(0), 0x10);
    pc.command(0, [0, 1, 0, 0, 0, 0xa0], 0x20);
    assert_eq!(pc.error(0), 0x10);
    for command in [0x00, 0x08, 0x22, 0xa0, 0xa1, 0xb0, 0xff] {
        pc.lba28(0, 1, command);
        assert_eq!(pc.error(0), 4, "{command:#x}");
    }
    pc.cx.disk.clear();
    let mut pc = Pc::with([
        [
            Some(Unit::Disk {
                drive: 0,
                sectors: SECTORS + 8,
                read_only: true,
                serial: String::new(),
            }),
            None,
        ],
        [None, None],
    ]);
    pc.lba28(0, 1, 0x30);
    assert_eq!(pc.error(0), 4);
    // The medium says no behind the first block.
    pc.lba28(SECTORS as u32 - 1, 2, 0x20);
    assert_eq!(pc.wait(0), READY | DRQ);
    pc.data(0, 512);
    assert_eq!(pc.error(0), 0x40);
    let place = [3, 4, 5, 6].map(|register| pc.inb(register));
    assert_eq!(place, [0x00, 0x02, 0x00, 0xe0]);
}

#[test]
fn commands_without_data() {
    let mut pc = Pc::new();
    for command in [0x10, 0x40, 0x70, 0xe0, 0xe1, 0xe7, 0xea] {
        pc.lba28(0, 1, command);
        assert_eq!(pc.wait(0), READY, "{command:#x}");
        assert_eq!(pc.interrupts(), [14]);
    }
    pc.lba28(0, 0, 0xe5);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.inb(2), 0xff);
    pc.lba28(0, 0, 0xf8);
    assert_eq!(pc.wait(0), READY);
    assert_eq!([3, 4, 5].map(|register| pc.inb(register)), [0xff, 0x01, 0x00]);
    // Eight sectors a track, four heads; then cylinder 1, head 2, sector 3.
    pc.command(0, [0, 8, 0, 0, 0, 0xa3], 0x91);
    assert_eq!(pc.wait(0), READY);
    pc.command(0, [0, 1, 3, 1, 0, 0xa2], 0x20);
    assert_eq!(pc.blocks(0, 512, 1), expected(0, (32 + 16 + 2) * 512, 512));
    // Features: multiword DMA 1, no write cache.
    for (feature, count) in [(0x03, 0x21), (0x82, 0)] {
        pc.command(0, [feature, count, 0, 0, 0, 0xa0], 0xef);
        assert_eq!(pc.wait(0), READY);
    }
    pc.lba28(0, 0, 0xec);
    let identify = pc.blocks(0, 512, 1);
    assert_eq!(word(&identify, 63), 0x0207);
    assert_eq!(word(&identify, 85) & 0x20, 0);
    assert_eq!([54, 55, 56].map(|n| word(&identify, n)), [16, 4, 8]);
    pc.command(0, [0x03, 0x7f, 0, 0, 0, 0xa0], 0xef);
    assert_eq!(pc.error(0), 4);
}

#[test]
fn resets_leave_signatures() {
    let mut pc = Pc::with([[disk(), cdrom()], [None, None]]);
    pc.lba28(3, 2, 0x20);
    pc.outb(CONTROL[0], 4);
    assert_eq!(pc.inb(7), BSY);
    pc.outb(CONTROL[0], 0);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.interrupts(), []);
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(|register| pc.inb(register)),
        [1, 1, 1, 0, 0, 0]
    );
    pc.outb(6, 0x10);
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7].map(|register| pc.inb(register)),
        [1, 1, 1, 0x14, 0xeb, 0x10, 0]
    );
    // A packet device refuses a disk's IDENTIFY, with its signature.
    pc.command(0, [0, 0, 0, 0, 0, 0x10], 0xec);
    assert_eq!(pc.error(0), 4);
    assert_eq!((pc.inb(4), pc.inb(5)), (0x14, 0xeb));
    pc.command(0, [0, 0, 0, 0, 0, 0x10], 0x90);
    assert_eq!(pc.wait(0), READY);
    assert_eq!(pc.inb(6), 0);
    assert_eq!(pc.interrupts(), [14, 14]);
    // DEVICE RESET ends a packet that was never sent.
    pc.command(0, [0, 0, 0, 0, 0, 0x10], 0xa0);
    assert_eq!(pc.wait(0), READY | DRQ);
    pc.outb(7, 0x08);
    assert_eq!((pc.inb(7), pc.inb(5)), (0, 0xeb));
}

#[test]
fn what_is_not_there() {
    let mut pc = Pc::with([[disk(), None], [None, None]]);
    pc.outb(COMMAND[1] + 6, 0xa0);
    assert_eq!((pc.inb(COMMAND[1] + 7), pc.inb(CONTROL[1])), (0x7f, 0x7f));
    pc.outb(6, 0xb0);
    pc.outb(2, 0x55);
    pc.outb(3, 0xaa);
    assert_eq!((pc.inb(7), pc.inb(2), pc.inb(3)), (0, 0, 0));
    pc.outb(7, 0xec);
    assert_eq!((pc.inb(7), pc.device.deadline()), (0, None));
    pc.outb(6, 0xa0);
    assert_eq!((pc.inb(7), pc.inb(2), pc.inb(3)), (READY, 0x55, 0xaa));
}

#[test]
fn interrupts_can_be_held_and_are_cleared_by_status() {
    let mut pc = Pc::new();
    pc.outb(CONTROL[0], 2);
    pc.lba28(0, 0, 0xe7);
    pc.advance();
    assert_eq!(pc.cx.take(), []);
    // Looking at the alternate status clears nothing.
    pc.inb(CONTROL[0]);
    pc.outb(CONTROL[0], 0);
    assert_eq!(pc.cx.take(), [Effect::Line(14, true)]);
    pc.inb(7);
    assert_eq!(pc.cx.take(), [Effect::Line(14, false)]);
}

#[test]
fn registers_are_closed_while_busy_and_remember_what_was() {
    let mut pc = Pc::new();
    for value in [0x12, 0x34] {
        pc.outb(3, value);
    }
    assert_eq!(pc.inb(3), 0x34);
    pc.outb(CONTROL[0], 0x80);
    assert_eq!(pc.inb(3), 0x12);
    pc.outb(2, 0);
    assert_eq!(pc.inb(3), 0x34);
    pc.lba28(5, 1, 0x20);
    pc.outb(3, 0x99);
    pc.outb(7, 0xec);
    assert_eq!(pc.blocks(0, 512, 1), expected(0, 5 * 512, 512));
}

#[test]
fn packet_identify_and_inquiry() {
    let mut pc = Pc::new();
    pc.command(1, [0; 6], 0xa1);
    let identify = pc.blocks(1, 512, 1);
    assert_eq!(word(&identify, 0), 0x85c0);
    assert_eq!(text(&identify, 27..47), "tickback CD-ROM");
    let inquiry = pc.packet(&[0x12, 0, 0, 0, 36], 0x100).unwrap();
    assert_eq!(inquiry.len(), 36);
    assert_eq!((inquiry[0], inquiry[1]), (5, 0x80));
    assert_eq!(pc.packet(&[0x12, 0, 0, 0, 5], 0x100).unwrap(), inquiry[..5]);
    assert!(pc.interrupts().iter().all(|&line| line == 15));
}

#[test]
fn packets_read_the_disc() {
    let mut pc = Pc::new();
    assert_eq!(pc.packet(&[0], 0), Ok(vec![]));
    assert_eq!(
        pc.packet(&[0x25], 8),
        Ok(vec![0, 0, 0, CD_SECTORS as u8 - 1, 0, 0, 8, 0])
    );
    let bytes = expected(1, 3 * 2048, 3 * 2048);
    for limit in [2048, 0, 0xffff, 100, 4000, 1] {
        let read = pc.packet(&[0x28, 0, 0, 0, 0, 3, 0, 0, 3], limit);
        assert!(read == Ok(bytes.clone()), "{limit}");
    }
    assert!(pc.packet(&[0xa8, 0, 0, 0, 0, 3, 0, 0, 0, 3], 2048) == Ok(bytes.clone()));
    assert!(pc.packet(&[0xbe, 0, 0, 0, 0, 3, 0, 0, 3, 0x10], 2048) == Ok(bytes.clone()));
    assert_eq!(pc.packet(&[0x28, 0, 0, 0, 0, 3], 2048), Ok(vec![]));
    let end = CD_SECTORS as u8 - 1;
    assert_eq!(pc.packet(&[0x28, 0, 0, 0, 0, end, 0, 0, 2], 2048), Err(0x54));
    assert_eq!(pc.sense(), (5, 0x21, 0));
    assert_eq!(pc.sense(), (0, 0, 0));
    assert_eq!(
        pc.packet(&[0xa8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 2048),
        Err(0x54)
    );
}

#[test]
fn packets_by_dma() {
    let mut pc = Pc::new();
    let send = |pc: &mut Pc, packet: &[u8]| {
        pc.command(1, [1, 0, 0, 0, 0, 0], 0xa0);
        let mut bytes = packet.to_vec();
        bytes.resize(12, 0);
        pc.write_data(1, &bytes);
        pc.wait(1)
    };
    pc.start_dma(1, &[(DATA, 0x1000), (DATA + 0x1000, 0x800)], true);
    assert_eq!(send(&mut pc, &[0x28, 0, 0, 0, 0, 5, 0, 0, 3]), READY);
    assert_eq!(pc.cx.peek(DATA, 0x1800), expected(1, 5 * 2048, 0x1800));
    assert_eq!(pc.inb(BUS_MASTER + 10) & 7, 4);
    assert_eq!(pc.inb(COMMAND[1] + 2), 3);
    pc.start_dma(1, &[(DATA, 4), (DATA + 0x100, 60)], true);
    assert_eq!(send(&mut pc, &[0x12, 0, 0, 0, 36]), READY);
    assert_eq!(pc.cx.peek(DATA, 4), [5, 0x80, 0, 0x21]);
    assert_eq!(pc.cx.peek(DATA + 0x104, 8), b"TICKBACK");
    pc.start_dma(1, &[(0, 0x800)], true);
    assert_eq!(send(&mut pc, &[0x28, 0, 0, 0, 0, 5, 0, 0, 1]), READY | 1);
    assert_eq!(pc.sense(), (4, 0x44, 0));
}

#[test]
fn disc_questions() {
    let mut pc = Pc::new();
    let toc = pc.packet(&[0x43, 0, 0, 0, 0, 0, 0, 0, 0xff], 0x100).unwrap();
    let end = CD_SECTORS as u8;
    let lead_out = [0, 0x14, 0xaa, 0, 0, 0, 0, end];
    assert_eq!(toc[..12], [0, 18, 1, 1, 0, 0x14, 1, 0, 0, 0, 0, 0]);
    assert_eq!(toc[12..], lead_out);
    let in_time = pc.packet(&[0x43, 2, 0, 0, 0, 0, 0, 0, 0xff], 0x100).unwrap();
    assert_eq!(in_time[8..12], [0, 0, 2, 0]);
    let sessions = pc.packet(&[0x43, 0, 1, 0, 0, 0, 0, 0, 12], 0x100).unwrap();
    assert_eq!(sessions, [0, 10, 1, 1, 0, 0x14, 1, 0, 0, 0, 0, 0]);
    assert_eq!(pc.packet(&[0x43, 0, 5, 0, 0, 0, 0, 0, 12], 0x100), Err(0x54));
    let page = pc.packet(&[0x5a, 0, 0x2a, 0, 0, 0, 0, 0, 0xff], 0x100).unwrap();
    assert_eq!((page.len(), page[1], page[8], page[9]), (28, 26, 0x2a, 18));
    assert_eq!(pc.packet(&[0x5a, 0, 0x05, 0, 0, 0, 0, 0, 0xff], 0x100), Err(0x54));
    let all = pc.packet(&[0x1a, 0, 0x3f, 0, 0xff], 0x100).unwrap();
    assert_eq!((all.len(), all[0]), (32, 31));
    let event = pc.packet(&[0x4a, 1, 0, 0, 0x10, 0, 0, 0, 8], 0x100).unwrap();
    assert_eq!(event, [0, 6, 4, 0x10, 0, 2, 0, 0]);
    let disc = pc.packet(&[0x51, 0, 0, 0, 0, 0, 0, 0, 34], 0x100).unwrap();
    assert_eq!(disc[..8], [0, 32, 0x0e, 1, 1, 1, 1, 0x20]);
    let configuration = pc.packet(&[0x46, 0, 0, 0, 0, 0, 0, 0, 0xff], 0x100).unwrap();
    assert_eq!(configuration[3] as usize + 4, configuration.len());
    assert_eq!(configuration[6..8], [0, 8]);
    let one = pc.packet(&[0x46, 2, 0, 3, 0, 0, 0, 0, 0xff], 0x100).unwrap();
    assert_eq!(one[8..], [0, 3, 3, 4, 0x29, 0, 0, 0]);
    assert_eq!(pc.packet(&[0x55, 0x10], 0x100), Err(0x54));
    assert_eq!(pc.sense(), (5, 0x20, 0));
}

#[test]
fn the_tray_opens_unless_locked() {
    let mut pc = Pc::new();
    assert_eq!(pc.packet(&[0x1e, 0, 0, 0, 1], 0), Ok(vec![]));
    assert_eq!(pc.packet(&[0x1b, 0, 0, 0, 2], 0), Err(0x54));
    assert_eq!(pc.sense(), (5, 0x53, 2));
    assert_eq!(pc.packet(&[0x1e], 0), Ok(vec![]));
    assert_eq!(pc.packet(&[0x1b, 0, 0, 0, 2], 0), Ok(vec![]));
    for packet in [&[0u8, 0, 0, 0, 0, 0, 0, 0, 0], &[0x28, 0, 0, 0, 0, 0, 0, 0, 1]] {
        assert_eq!(pc.packet(packet, 2048), Err(0x24));
        assert_eq!(pc.sense(), (2, 0x3a, 0));
    }
    assert_eq!(pc.packet(&[0x1b, 0, 0, 0, 3], 0), Ok(vec![]));
    assert_eq!(pc.packet(&[0], 0), Ok(vec![]));
}

#[test]
fn hostile_accesses_are_survived() {
    let mut seed = 0x1d_e5ee_d123u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for _ in 0..30 {
        let mut pc = Pc::with([[disk(), cdrom()], [cdrom(), None]]);
        pc.cx
            .poke(PRD, &[0, 0, 2, 0x80, 0, 1, 0, 0, 0, 0, 3, 0x80, 0, 0, 0, 0x80]);
        for _ in 0..3000 {
            match random(8) {
                0 => pc.advance(),
                1 | 2 => {
                    let commands = [
                        0x08, 0x20, 0x24, 0x29, 0x30, 0x34, 0x39, 0x90, 0x91, 0xa0, 0xa0, 0xa1, 0xc4, 0xc5,
                        0xc6, 0xc8, 0xca, 0x25, 0x35, 0xec, 0xef,
                    ];
                    let command = commands[random(commands.len() as u64) as usize];
                    pc.outb(COMMAND[random(2) as usize] + 7, command);
                }
                3 => pc.outb(random(SIZE), random(256) as u8),
                4 => pc.outb(1 + random(6) + 8 * random(2), random(16) as u8),
                5 => pc.device.write(&mut pc.cx, BUS_MASTER + 4, 4, PRD),
                6 => {
                    pc.device.read(&mut pc.cx, random(SIZE), 1 << random(4));
                }
                _ => {
                    let channel = random(2) as usize;
                    for _ in 0..random(600) {
                        pc.device.read(&mut pc.cx, COMMAND[channel], 2);
                        pc.device.write(&mut pc.cx, COMMAND[channel], 2, random(0x1_0000));
                    }
                }
            }
        }
        let saved = pc.device.save();
        assert!(saved.len() < 0x3_0000);
        let mut other = Ide::new(pc.device.units.clone());
        other.restore(&saved).unwrap();
        assert_eq!(other.save(), saved);
    }
}
