//! The same random port accesses on our 8259s, 8254, CMOS clock and I/O APIC and on QEMU's PC, by its qtest
//! protocol; every value read must be equal. Run it with
//!
//! ```text
//!   cargo test -p devices pc::qemu
//! ```
//!
//! Virtual time stands still at 0 there, so that nothing here is about time. Interrupt requests come from QEMU's
//! two UARTs (IRQ 4 and 3) and its keyboard controller (IRQ 1 and 12), by port accesses; our lines are set alike. Local APICs
//! can't be reached, since qtest's accesses are no processor's. Left out is what QEMU does otherwise than the data sheets:
//!
//! - an edge-triggered request stays though its input falls, so that only what isn't pending is lowered here, and the
//!   cascade input stays masked;
//! - in special mask mode a non-specific EOI finds masked inputs too;
//! - counters are loaded by the write, so that null count is always 0; odd counts of mode 3 begin odd; OUT of
//!   modes 2 and 4 is inverted, and modes 6 and 7 aren't 2 and 3 for it; modes 1 and 5 start without a trigger; a latched count outlives a control word,
//!   and is read from its low byte whatever was read before;
//! - the day of the week follows from the date; a change of format while SET is on leaves the registers as they are.

use super::interrupts::{ELCR, IO_APIC, Interrupts, PIC_MASTER, PIC_SLAVE};
use super::{Cmos, Pit, cmos, pit};
use crate::Device;
use crate::fake::Fake;
use crate::qemu::{Qemu, Random, installed};

const PROGRAM: &str = "qemu-system-x86_64";
const MACHINE: &str = "-machine pc -serial null -serial null";
const DATE: u64 = 1_577_836_800_000_000_000; // 2020-01-01

struct Pair {
    qemu: Qemu,
    cx: Fake,
    interrupts: Interrupts,
    pit: Pit,
    cmos: Cmos,
    /// What was done, for the message of a failure.
    history: Vec<String>,
}

/// Where a port lies in one of our devices.
enum Place {
    Interrupts(u64),
    Pit(u64),
    Cmos(u64),
}

fn place(port: u64) -> Place {
    match port {
        0x20..0x22 => Place::Interrupts(PIC_MASTER + port - 0x20),
        0xa0..0xa2 => Place::Interrupts(PIC_SLAVE + port - 0xa0),
        0x4d0..0x4d2 => Place::Interrupts(ELCR + port - 0x4d0),
        0x40..0x44 => Place::Pit(pit::COUNTERS + port - 0x40),
        0x61 => Place::Pit(pit::PORT_61),
        0x70..0x72 => Place::Cmos(port - 0x70),
        _ => panic!("port {port:#x}"),
    }
}

impl Pair {
    fn new() -> Pair {
        let contents = cmos::Contents {
            low_memory: 128 << 20,
            high_memory: 0,
            boot_order: [0; 3],
            harts: 1,
        };
        Pair {
            qemu: Qemu::start(PROGRAM, MACHINE),
            cx: Fake::new(),
            interrupts: Interrupts::new(1),
            pit: Pit::new(0),
            cmos: Cmos::new(8, DATE, &contents),
            history: Vec::new(),
        }
    }

    fn device(&mut self, port: u64) -> (&mut dyn Device, &mut Fake, u64) {
        match place(port) {
            Place::Interrupts(offset) => (&mut self.interrupts, &mut self.cx, offset),
            Place::Pit(offset) => (&mut self.pit, &mut self.cx, offset),
            Place::Cmos(offset) => (&mut self.cmos, &mut self.cx, offset),
        }
    }

    fn write(&mut self, port: u64, value: u64) {
        self.history.push(format!("out {port:#x} {value:#x}"));
        self.qemu.command(&format!("outb {port:#x} {value:#x}"));
        let (device, cx, offset) = self.device(port);
        device.write(cx, offset, 1, value);
    }

    /// Reads a port of both; the bits of `mask` must be equal. Gives QEMU's value.
    fn read(&mut self, port: u64, mask: u64) -> u64 {
        self.history.push(format!("in {port:#x}"));
        let theirs = self.qemu.ask(&format!("inb {port:#x}"));
        let (device, cx, offset) = self.device(port);
        let ours = device.read(cx, offset, 1);
        self.equal(ours & mask, theirs & mask);
        theirs
    }

    fn equal(&self, ours: u64, theirs: u64) {
        let last = self.history.len().saturating_sub(30);
        assert_eq!(ours, theirs, "ours first, after {:#?}", &self.history[last..]);
    }

    /// A port access of QEMU's other devices.
    fn outside(&mut self, port: u64, value: u64) {
        self.qemu.command(&format!("outb {port:#x} {value:#x}"));
    }

    fn set_irq(&mut self, irq: u32, level: bool) {
        self.history.push(format!("irq {irq} {level}"));
        match (irq, level) {
            (3 | 4, _) => self.outside(if irq == 4 { 0x3f9 } else { 0x2f9 }, if level { 2 } else { 0 }),
            (_, false) => {
                self.qemu.ask("inb 0x60");
            }
            _ => {
                self.outside(0x64, if irq == 1 { 0xd2 } else { 0xd3 });
                self.outside(0x60, 0x55);
            }
        }
        self.interrupts.line_changed(&mut self.cx, irq, level);
    }

    fn cmos(&mut self, index: u64, value: u64) {
        self.write(0x70, index);
        self.write(0x71, value);
    }
}

#[test]
fn qemu_s_8259s() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x8259);
    for _ in 0..30 {
        let mut pair = Pair::new();
        pair.outside(0x3fc, 8);
        pair.outside(0x2fc, 8);
        pair.outside(0x64, 0x60); // both ports interrupt
        pair.outside(0x60, 3);
        let elcr = [random.next(256), random.next(256)];
        for (n, elcr) in elcr.into_iter().enumerate() {
            pair.write(0x4d0 + n as u64, elcr);
            pair.read(0x4d0 + n as u64, 0xff);
        }
        let icw4 = random.pick(&[1, 1, 3]);
        for (port, base, icw3) in [(0x20, 0x20, 4), (0xa0, 0x28, 2)] {
            pair.write(port, 0x11);
            for icw in [base, icw3, icw4, if port == 0x20 { 4 } else { 0 }] {
                pair.write(port + 1, icw);
            }
        }
        let mut up = [false; 16];
        for _ in 0..1500 {
            let chip = random.pick(&[0x20, 0x20, 0xa0]);
            let cascade = if chip == 0x20 { 4 } else { 0 };
            match random.next(8) {
                0 => {
                    let value = random.next(256) & random.next(256) | cascade;
                    pair.write(chip + 1, value);
                }
                1 | 2 => {
                    let command = random.pick(&[0, 1, 1, 2, 3, 3, 4, 5, 6, 7]);
                    let input = random.pick(&[1, 3, 4, 4, 0, 7]);
                    pair.write(chip, command << 5 | input);
                }
                3 => {
                    pair.write(chip, random.pick(&[0x0a, 0x0b]));
                    pair.read(chip, !cascade);
                }
                4 => {
                    pair.read(chip + 1, 0xff);
                }
                5 => {
                    pair.write(chip, 0x0c);
                    pair.read(chip + random.next(2), 0xff);
                }
                _ => {
                    let irq = random.pick(&[1, 3, 4, 12]);
                    let up_now = up[irq];
                    // The keyboard controller has one buffer.
                    if !up_now && (irq == 1 && up[12] || irq == 12 && up[1]) {
                        continue;
                    }
                    let (chip, input) = if irq < 8 { (0x20, irq) } else { (0xa0, irq - 8) };
                    pair.write(chip, 0x0a);
                    let pending = pair.read(chip, 0xfb) >> input & 1 != 0;
                    let by_level = chip == 0x20 && irq > 2 && elcr[0] >> input & 1 != 0
                        || chip == 0xa0 && elcr[1] >> input & 1 != 0;
                    if up_now && pending && !by_level {
                        continue;
                    }
                    up[irq] = !up_now;
                    pair.set_irq(irq as u32, !up_now);
                }
            }
        }
    }
}

#[test]
fn qemu_s_8254() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x8254);
    let mut pair = Pair::new();
    pair.write(0x61, 1);
    let mut modes = [0; 3];
    for n in 0..3 {
        pair.write(0x43, n << 6 | 0x30);
        pair.write(0x40 + n, 1);
        pair.write(0x40 + n, 0);
    }
    for _ in 0..4000 {
        let n = random.next(3);
        match random.next(6) {
            0 => {
                let mode = random.pick(&[0, 2, 3, 4, 6, 7]);
                let bcd = random.next(2);
                modes[n as usize] = mode;
                pair.write(0x43, n << 6 | 0x30 | mode << 1 | bcd);
                pair.write(0x40 + n, random.pick(&[0, 2, 0x98, 0x10]));
                pair.write(0x40 + n, random.pick(&[0, 1, 0x99, 0x12]));
            }
            1 => {
                // Counts latched in either way, once more, and read whole.
                for _ in 0..1 + random.next(2) {
                    pair.write(0x43, random.pick(&[n << 6, 0xd0 | 2 << n]));
                }
                pair.read(0x40 + n, 0xff);
                pair.read(0x40 + n, 0xff);
            }
            2 => {
                pair.write(0x43, 0xce);
                for n in 0..3 {
                    let mode = modes[n as usize];
                    let out = if mode == 0 || mode == 3 { 0x80 } else { 0 };
                    for mask in [0x3f | out, 0xff, 0xff] {
                        pair.read(0x40 + n, mask);
                    }
                }
            }
            3 => {
                pair.write(0x61, 1 | random.next(2) << 1);
                let known = if modes[2] == 0 || modes[2] == 3 { 0x20 } else { 0 };
                pair.read(0x61, 0x0f | known);
            }
            _ => {
                pair.write(0x43, 0xe0 | 2 << n);
                let mode = modes[n as usize];
                let out = if mode == 0 || mode == 3 { 0x80 } else { 0 };
                pair.read(0x40 + n, 0x3f | out);
                for _ in 0..2 * random.next(3) {
                    pair.read(0x40 + n, 0xff);
                }
            }
        }
    }
}

#[test]
fn qemu_s_cmos_clock() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x14_6818);
    let mut pair = Pair::new();
    let clock = [0x32, 9, 8, 7, 4, 2, 0];
    for _ in 0..300 {
        let format = random.next(4) << 1;
        pair.cmos(0xb, format);
        let binary = format & 4 != 0;
        let encode = |value: u64| {
            if binary {
                value
            } else {
                (value / 10) << 4 | (value % 10)
            }
        };
        let set = random.next(2) << 7;
        pair.cmos(0xb, format | set);
        // QEMU's dates end in 2262.
        let limits = [(20, 2), (0, 100), (1, 12), (1, 28), (0, 24), (0, 60), (0, 60)];
        for (index, (from, count)) in clock.into_iter().zip(limits) {
            let value = from + random.next(count);
            let encoded = if index == 4 && format & 2 == 0 {
                encode((value + 11) % 12 + 1) | if value >= 12 { 0x80 } else { 0 }
            } else {
                encode(value)
            };
            pair.cmos(index, encoded);
        }
        for index in [1, 3, 5, 0x40, 0x7f] {
            pair.cmos(index, random.next(256));
        }
        for done in [false, true] {
            if done {
                pair.cmos(0xb, format);
            }
            for index in clock.into_iter().chain([1, 3, 5, 0xb, 0xc, 0xd, 0x40, 0x7f]) {
                pair.write(0x70, index);
                pair.read(0x71, 0xff);
            }
        }
    }
}

#[test]
fn qemu_s_io_apic() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x82_093a);
    let mut pair = Pair::new();
    const SELECT: u64 = 0xfec0_0000;
    for _ in 0..4000 {
        let (entry, any) = (0x10 + random.next(48), random.next(256));
        let index = random.pick(&[0, 1, 2, entry, entry, any]);
        let high = index % 2 == 1;
        // Of entries what exists, masked: nothing is sent.
        let value = if high {
            random.next(256) << 24
        } else {
            random.next(1 << 16) & 0xafff | 1 << 16
        };
        let offset = random.pick(&[0x10, 0x10, 0x10, 0x40]);
        for (register, value) in [(0, index), (offset, value)] {
            pair.history.push(format!("write {register:#x} {value:#x}"));
            pair.qemu
                .command(&format!("writel {:#x} {value:#x}", SELECT + register));
            pair.interrupts.write(&mut pair.cx, IO_APIC + register, 4, value);
        }
        let theirs = pair.qemu.ask(&format!("readl {:#x}", SELECT + 0x10));
        let ours = pair.interrupts.read(&mut pair.cx, IO_APIC + 0x10, 4);
        pair.equal(ours, theirs & 0xffff_ffff);
    }
}
