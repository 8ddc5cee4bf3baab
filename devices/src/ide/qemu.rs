//! The IDE channels against QEMU's PIIX3, with a disk and a CD-ROM of the same content: random commands, and after each
//! the status, the error register and all data. Left out is what each is free to do or tells of itself: addresses and
//! counts left in the registers, times, identification, DSC of a failed command, a packet's sense
//! beyond its key, and whether the lead-out may be copied.

use std::path::PathBuf;

use super::*;
use crate::BLOCK_SIZE;
use crate::fake::{BLOCKS, Fake};
use crate::qemu::{Qemu, Random, installed};

const PROGRAM: &str = "qemu-system-x86_64";
const BSY: u8 = 0x80;
const DRQ: u8 = 0x08;

/// An image of a drive, gone with the test.
struct Image(PathBuf);

impl Image {
    fn new(test: &str, drive: u8, content: &[u8]) -> Image {
        let name = format!("tickback-{test}-{}-{drive}.img", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Image(path)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Pair {
    ours: Ide,
    cx: Fake,
    theirs: Qemu,
    history: Vec<String>,
    _images: [Image; 2],
}

impl Pair {
    fn new(test: &str) -> Pair {
        let mut cx = Fake::new();
        let images = [0, 1].map(|drive: u8| {
            let len = BLOCKS as usize * BLOCK_SIZE;
            let content: Vec<u8> = (0..len).map(|at| (at ^ at >> 9) as u8 ^ drive << 7).collect();
            for (block, bytes) in (0..).zip(content.chunks_exact(BLOCK_SIZE)) {
                cx.disk.insert((drive, block), bytes.try_into().unwrap());
            }
            Image::new(test, drive, &content)
        });
        let machine = format!(
            "-machine pc -drive if=none,id=d,format=raw,cache=unsafe,file={} -device ide-hd,bus=ide.0,unit=0,drive=d \
             -drive if=none,id=c,format=raw,readonly=on,file={} -device ide-cd,bus=ide.1,unit=0,drive=c",
            images[0].0.display(),
            images[1].0.display()
        );
        let disk = Unit::Disk {
            drive: 0,
            sectors: BLOCKS * 8,
            read_only: false,
            serial: String::new(),
        };
        let cdrom = Unit::Cdrom {
            drive: 1,
            sectors: BLOCKS * 2,
            serial: String::new(),
        };
        Pair {
            ours: Ide::new([[Some(disk), None], [Some(cdrom), None]]),
            cx,
            theirs: Qemu::start(PROGRAM, &machine),
            history: Vec::new(),
            _images: images,
        }
    }

    fn port(channel: usize, register: u8) -> u16 {
        COMMAND_PORT[channel] + u16::from(register)
    }

    fn out(&mut self, channel: usize, register: u8, value: u8) {
        let offset = COMMAND[channel] + u64::from(register);
        self.ours.write(&mut self.cx, offset, 1, value.into());
        let port = Self::port(channel, register);
        self.theirs.command(&format!("outb {port:#x} {value:#x}"));
        self.history.push(format!("outb {port:#x} {value:#x}"));
    }

    fn same(&self, what: &str, ours: u64, theirs: u64) {
        let last = self.history.len().saturating_sub(30);
        assert_eq!(
            ours,
            theirs,
            "{what}, ours first, after {:#?}",
            &self.history[last..]
        );
    }

    /// Of the status all but DSC, which a failed command has here, and of a CD-ROM's error the sense key.
    fn compare(&mut self, channel: usize, register: u8) -> u8 {
        let mask = match (channel, register) {
            (_, 7) => !0x10,
            (1, 1) => 0xf0,
            // An address that isn't there is just a bad command there.
            (0, 1) if self.ours.state.channels[0].files[0].error == 0x10 => 0,
            _ => 0xff,
        };
        let offset = COMMAND[channel] + u64::from(register);
        let ours = self.ours.read(&mut self.cx, offset, 1);
        let theirs = self
            .theirs
            .ask(&format!("inb {:#x}", Self::port(channel, register)));
        let what = format!("register {register} of channel {channel}");
        self.same(&what, ours & mask, theirs & mask);
        ours as u8
    }

    /// Waits for both, and compares status and, if there is one, error.
    fn wait(&mut self, channel: usize) -> u8 {
        while let Some(due) = self.ours.deadline() {
            self.cx.now = due;
            self.ours.fire(&mut self.cx);
        }
        let status = Self::port(channel, 7);
        let mut tries = 0;
        while self.theirs.ask(&format!("inb {status:#x}")) as u8 & BSY != 0 {
            tries += 1;
            assert!(tries < 100_000, "busy for ever, after {:#?}", self.history.last());
        }
        let status = self.compare(channel, 7);
        if status & 1 != 0 {
            self.compare(channel, 1);
        }
        self.history.push(format!("status {status:#x}"));
        status
    }

    fn read_data(&mut self, channel: usize, len: usize) {
        let port = Self::port(channel, 0);
        for _ in 0..len.div_ceil(4) {
            let ours = self.ours.read(&mut self.cx, COMMAND[channel], 4);
            let theirs = self.theirs.ask(&format!("inl {port:#x}"));
            self.same("data", ours, theirs);
        }
        self.history.push(format!("read {len}"));
    }

    fn write_data(&mut self, channel: usize, words: impl Iterator<Item = u16>) {
        let port = Self::port(channel, 0);
        for word in words {
            self.ours.write(&mut self.cx, COMMAND[channel], 2, word.into());
            self.theirs.command(&format!("outw {port:#x} {word:#x}"));
        }
    }

    /// Registers 1 to 6 and the command, to a channel.
    fn command(&mut self, channel: usize, registers: [u8; 6], command: u8) {
        for (register, value) in (1..).zip(registers) {
            self.out(channel, register, value);
        }
        self.out(channel, 7, command);
    }
}

/// Registers for so many sectors from `lba` on.
fn address(random: &mut Random, lba: u64, count: u8) -> [u8; 6] {
    let [low, mid, high, top, ..] = lba.to_le_bytes();
    if random.next(3) == 0 {
        let (cylinder, rest) = (lba / (16 * 63), lba % (16 * 63));
        [
            0,
            count,
            (rest % 63 + 1) as u8,
            cylinder as u8,
            0,
            0xa0 | (rest / 63) as u8,
        ]
    } else {
        [0, count, low, mid, high, 0xe0 | top & 0xf]
    }
}

#[test]
fn qemu_s_disk_does_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x01f0_03f6);
    let mut pair = Pair::new("disk");
    let sectors = BLOCKS * 8;
    // There, multiple mode is on after power-on.
    let mut multiple = 0;
    pair.command(0, [0, 0, 0, 0, 0, 0xe0], 0xc6);
    pair.wait(0);
    for _ in 0..120 {
        let count = 1 + random.next(5);
        let lba = random.pick(&[0, 7, 100, sectors - 4, sectors - 2, sectors]) + random.next(3);
        let fits = lba + count <= sectors;
        let registers = address(&mut random, lba, count as u8);
        let extended = random.next(3) == 0;
        if extended {
            for register in 2..6 {
                pair.out(0, register, 0);
            }
        }
        match random.next(8) {
            // Reads and writes, one sector or several at a time.
            kind @ 0..6 => {
                let blocks = kind % 2 == 1;
                let writes = kind >= 3;
                let mut registers = registers;
                let command = match (writes, blocks, extended) {
                    (false, false, false) => 0x20,
                    (false, false, true) => 0x24,
                    (false, true, false) => 0xc4,
                    (false, true, true) => 0x29,
                    (true, false, false) => 0x30,
                    (true, false, true) => 0x34,
                    (true, true, false) => 0xc5,
                    (true, true, true) => 0x39,
                };
                if extended {
                    let [low, mid, high, ..] = lba.to_le_bytes();
                    registers = [0, count as u8, low, mid, high, 0xe0];
                }
                // There, what crosses the end fails where it gets there, and writes take their data first.
                if !fits && (writes || lba < sectors) {
                    continue;
                }
                pair.command(0, registers, command);
                let mut block = if blocks { multiple } else { 1 };
                let mut left = count;
                while pair.wait(0) & DRQ != 0 {
                    block = block.min(left);
                    if writes {
                        let words: Vec<u16> =
                            (0..block * 256).map(|_| random.next(0x1_0000) as u16).collect();
                        pair.write_data(0, words.into_iter());
                    } else {
                        pair.read_data(0, block as usize * 512);
                    }
                    left -= block;
                }
            }
            6 => {
                multiple = random.pick(&[0, 1, 2, 4, 16]);
                pair.command(0, [0, multiple as u8, 0, 0, 0, 0xe0], 0xc6);
                pair.wait(0);
            }
            _ => {
                let command = random.pick(&[
                    0x10, 0x40, 0x70, 0x90, 0xe7, 0xea, 0xe5, 0x00, 0xa0, 0xff, 0x08, 0x91,
                ]);
                let registers = match command {
                    0x91 => [0, 63, 0, 0, 0, 0xaf],
                    0x40 => [0, 1, 5, 0, 0, 0xe0],
                    _ => [0, 0, 0, 0, 0, 0xe0],
                };
                pair.command(0, registers, command);
                pair.wait(0);
                if command == 0x90 {
                    // Not the device register, whose obsolete bits are 1 there.
                    for register in 1..6 {
                        pair.compare(0, register);
                    }
                }
            }
        }
    }
}

#[test]
fn qemu_s_cdrom_does_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x0170_0376);
    let mut pair = Pair::new("cdrom");
    // There the medium has just been changed.
    let packets: &[&[u8]] = &[
        &[0x00],
        &[0x25],
        &[0x28, 0, 0, 0, 0, 5, 0, 0, 2],
        &[0x28, 0, 0, 0, 0, 0x7f, 0, 0, 1],
        &[0x28, 0, 0, 0, 0, 0x7f, 0, 0, 2],
        &[0x28, 0, 0, 0, 0, 5, 0, 0, 0],
        &[0xa8, 0, 0, 0, 0, 9, 0, 0, 0, 3],
        &[0xbe, 0, 0, 0, 0, 3, 0, 0, 1, 0x10],
        &[0x43, 0, 0, 0, 0, 0, 0, 0, 12],
        &[0x43, 2, 0, 0, 0, 0, 0, 0, 12],
        &[0x43, 0, 0, 0, 0, 0, 0, 0, 4, 0x40],
        &[0x43, 0, 0, 0, 0, 0, 0xaa, 0, 4],
        &[0x1e, 0, 0, 0, 0],
        &[0x2b, 0, 0, 0, 0, 1],
        &[0x5a, 0, 0x05, 0, 0, 0, 0, 0, 0x40],
        &[0xff],
        &[0x55, 0x10],
    ];
    for round in 0..200 {
        let limit = random.pick(&[2048, 100, 0xfffe, 4096]);
        let packet = if round < 2 {
            packets[0]
        } else {
            random.pick(packets)
        };
        if random.next(20) == 0 {
            for register in [0x20, 0xec] {
                pair.command(1, [0; 6], register);
                pair.wait(1);
                pair.compare(1, 4);
                pair.compare(1, 5);
            }
            pair.out(1, 7, 0x08);
            for register in [1, 2, 3, 4, 5, 7] {
                pair.compare(1, register);
            }
        }
        let [mid, high] = u16::to_le_bytes(limit);
        pair.command(1, [0, 0, 0, mid, high, 0], 0xa0);
        pair.history.push(format!("packet {packet:x?}"));
        assert_eq!(pair.wait(1) & DRQ, DRQ);
        pair.compare(1, 2);
        let mut bytes = packet.to_vec();
        bytes.resize(12, 0);
        pair.write_data(
            1,
            bytes.chunks(2).map(|word| u16::from_le_bytes([word[0], word[1]])),
        );
        let mut tries = 0;
        while pair.wait(1) & DRQ != 0 {
            pair.compare(1, 2);
            let count = u16::from_le_bytes([pair.compare(1, 4), pair.compare(1, 5)]);
            pair.read_data(1, count.into());
            tries += 1;
            assert!(tries < 200);
        }
        pair.compare(1, 2);
    }
}
