//! The VGA's registers and memory against QEMU's: random accesses, and every value read. Left out are registers that
//! there aren't, what depends on time, and changes between ways of addressing memory: QEMU keeps it in another order. QEMU's colours
//! have eight bits.

use super::*;
use crate::fake::Fake;
use crate::qemu::{Qemu, Random, installed};

const PROGRAM: &str = "qemu-system-x86_64";
const MACHINE: &str = "-machine pc -device VGA,romfile=,edid=off";

struct Pair {
    ours: Vga,
    cx: Fake,
    theirs: Qemu,
    history: Vec<String>,
}

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair {
            ours: Vga::new(),
            cx: Fake::new(),
            theirs: Qemu::start(PROGRAM, MACHINE),
            history: Vec::new(),
        };
        // The card decodes I/O and memory.
        pair.theirs.command("outl 0xcf8 0x80001004");
        pair.theirs.command("outw 0xcfc 0x3");
        pair.out(0x3c2, 0x67);
        // Our power-on state is mode 3.
        let ours = pair.ours.registers.clone();
        for (index, value) in (0..).zip(ours.sequencer) {
            pair.set(0x3c4, index, value);
        }
        for (index, value) in (0..).zip(ours.graphics) {
            pair.set(0x3ce, index, value);
        }
        pair.set(0x3d4, 0x11, 0);
        for (index, value) in (0..).zip(ours.crtc) {
            pair.set(0x3d4, index, value);
        }
        pair.read(0x3da, 0);
        for (index, value) in (0..).zip(ours.attribute) {
            pair.out(0x3c0, index);
            pair.out(0x3c0, value);
        }
        pair
    }

    fn out(&mut self, port: u16, value: u8) {
        let offset = REGISTERS + u64::from(port - REGISTERS_PORT);
        self.ours.write(&mut self.cx, offset, 1, value.into());
        self.theirs.command(&format!("outb {port:#x} {value:#x}"));
        self.history.push(format!("outb {port:#x} {value:#x}"));
    }

    fn set(&mut self, port: u16, index: u8, value: u8) {
        self.out(port, index);
        self.out(port + 1, value);
    }

    fn check(&self, what: &str, ours: u64, theirs: u64) {
        let last = self.history.len().saturating_sub(25);
        assert_eq!(
            ours,
            theirs,
            "{what}, ours first, after {:#?}",
            &self.history[last..]
        );
    }

    /// Compares a port's value as far as `mask` says.
    fn read(&mut self, port: u16, mask: u8) {
        let offset = REGISTERS + u64::from(port - REGISTERS_PORT);
        let ours = self.ours.read(&mut self.cx, offset, 1) & u64::from(mask);
        let theirs = self.theirs.ask(&format!("inb {port:#x}")) & u64::from(mask);
        self.check(&format!("inb {port:#x}"), ours, theirs);
    }

    fn load(&mut self, addr: u64) {
        let ours = self.ours.read(&mut self.cx, addr - MEMORY_BASE, 1);
        let theirs = self.theirs.ask(&format!("readb {addr:#x}"));
        self.check(&format!("readb {addr:#x}"), ours, theirs);
    }

    fn store(&mut self, addr: u64, value: u8) {
        self.ours.write(&mut self.cx, addr - MEMORY_BASE, 1, value.into());
        self.theirs.command(&format!("writeb {addr:#x} {value:#x}"));
        self.history.push(format!("writeb {addr:#x} {value:#x}"));
    }
}

#[test]
fn qemu_keeps_the_same_registers() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x0003_03da);
    let mut pair = Pair::new();
    for _ in 0..4000 {
        let value = random.next(256) as u8;
        match random.next(8) {
            0 => pair.set(0x3c4, random.next(5) as u8, value),
            1 => pair.set(0x3ce, random.next(9) as u8, value),
            2 => {
                pair.set(0x3d4, random.next(0x19) as u8, value);
            }
            3 => {
                pair.read(0x3da, 0);
                let index = random.next(0x15) as u8;
                pair.out(0x3c0, 0x20 | index);
                pair.out(0x3c0, value);
            }
            4 => {
                pair.out(0x3c8, value);
                for _ in 0..random.next(7) {
                    pair.out(0x3c9, random.next(64) as u8);
                }
                pair.read(0x3c7, 0xff);
                pair.read(0x3c8, 0xff);
            }
            5 => {
                pair.out(0x3c7, value);
                for _ in 0..random.next(7) {
                    pair.read(0x3c9, 0xff);
                }
            }
            6 => {
                let (port, count) = random.pick(&[(0x3c4, 5), (0x3ce, 9), (0x3d4, 0x19)]);
                pair.out(port, random.next(count) as u8);
                pair.read(port, 0xff);
                pair.read(port + 1, 0xff);
            }
            _ => {
                pair.read(0x3da, 0);
                pair.out(0x3c0, 0x20 | random.next(0x15) as u8);
                pair.read(0x3c1, 0xff);
                pair.read(0x3da, 0);
                let port = random.pick(&[0x3cc, 0x3ca, 0x3b4, 0x3b5]);
                pair.read(port, 0xff);
            }
        }
    }
}

/// Addresses that are met again.
fn place(random: &mut Random, start: u64) -> u64 {
    start + random.pick(&[0, 0x100, 0x7ff0]) + random.next(8)
}

#[test]
fn qemu_s_planes_hold_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x000a_0000);
    let mut pair = Pair::new();
    pair.set(0x3c4, 4, 6);
    pair.set(0x3ce, 6, 5);
    for _ in 0..6000 {
        match random.next(4) {
            0 => {
                let index = random.pick(&[0, 1, 2, 3, 4, 5, 7, 8]);
                let value = match index {
                    5 => random.pick(&[0, 1, 2, 3, 8]),
                    8 => random.pick(&[0xff, 0xff, 0x0f, 0x5a]),
                    _ => random.next(32) as u8,
                };
                pair.set(0x3ce, index, value);
            }
            1 => pair.set(0x3c4, 2, random.next(16) as u8),
            2 => {
                let (addr, value) = (place(&mut random, 0xa_0000), random.next(256) as u8);
                pair.store(addr, value);
            }
            _ => pair.load(place(&mut random, 0xa_0000)),
        }
    }
}

#[test]
fn qemu_s_text_and_chained_memory_hold_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x000b_8000);
    // Mode 3, mode 7's window, and mode 13h.
    for (memory_mode, mode, miscellaneous, start) in [
        (2, 0x10, 0x0e, 0xb_8000),
        (2, 0x10, 0x0a, 0xb_0000),
        (0xe, 0x40, 0x05, 0xa_0000),
    ] {
        let mut pair = Pair::new();
        pair.set(0x3c4, 2, 0xf);
        pair.set(0x3c4, 4, memory_mode);
        pair.set(0x3ce, 5, mode);
        pair.set(0x3ce, 6, miscellaneous);
        for _ in 0..1500 {
            let addr = place(&mut random, start);
            if random.next(2) == 0 {
                pair.store(addr, random.next(256) as u8);
            } else {
                pair.load(addr);
            }
        }
        for outside in [0xa_0000, 0xb_0000, 0xb_8000] {
            pair.load(outside);
        }
    }
}
