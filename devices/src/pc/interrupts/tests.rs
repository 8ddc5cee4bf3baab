//! The controllers together, as a system programs them.

use super::*;
use crate::fake::{Effect, Fake};
use HartPin::{ExternalInterrupt, Init, LocalInterrupt, Nmi, Startup};

const TPR: u64 = 0x80;
const PPR: u64 = 0xa0;
const EOI: u64 = 0xb0;
const LDR: u64 = 0xd0;
const DFR: u64 = 0xe0;
const SVR: u64 = 0xf0;
const ISR: u64 = 0x100;
const TMR: u64 = 0x180;
const IRR: u64 = 0x200;
const ESR: u64 = 0x280;
const ICR: u64 = 0x300;
const ICR_HIGH: u64 = 0x310;
const LVT_TIMER: u64 = 0x320;
const LVT_LINT0: u64 = 0x350;
const LVT_ERROR: u64 = 0x370;
const INITIAL_COUNT: u64 = 0x380;
const CURRENT_COUNT: u64 = 0x390;
const DIVIDE: u64 = 0x3e0;

struct Board {
    dev: Interrupts,
    cx: Fake,
}

impl Board {
    /// Local APICs enabled, with logical ID 1 << hart, and the 8259s set up and masked.
    fn new(harts: u32) -> Self {
        let mut board = Board {
            dev: Interrupts::new(harts),
            cx: Fake::new(),
        };
        for (chip, base) in [(PIC_MASTER, 0x20), (PIC_SLAVE, 0x28)] {
            board.port(chip, 0x11);
            for value in [base, 4, 1, 0xff] {
                board.port(chip + 1, value);
            }
        }
        for hart in 0..harts {
            board.set(hart, SVR, 0x1ff);
            board.set(hart, LDR, 1 << (24 + hart % 8));
        }
        board.cx.take();
        board
    }

    fn set(&mut self, hart: u32, register: u64, value: u32) {
        self.cx.hart = hart;
        self.dev.write(&mut self.cx, register, 4, value.into());
    }

    fn get(&mut self, hart: u32, register: u64) -> u32 {
        self.cx.hart = hart;
        self.dev.read(&mut self.cx, register, 4) as u32
    }

    fn set8(&mut self, hart: u32, offset: u64, value: u64) {
        self.cx.hart = hart;
        self.dev.write(&mut self.cx, offset, 8, value);
    }

    fn get8(&mut self, hart: u32, offset: u64) -> u64 {
        self.cx.hart = hart;
        self.dev.read(&mut self.cx, offset, 8)
    }

    fn port(&mut self, offset: u64, value: u8) {
        self.dev.write(&mut self.cx, offset, 1, value.into());
    }

    fn entry(&mut self, input: u32, value: u64) {
        for half in 0..2 {
            self.dev
                .write(&mut self.cx, IO_APIC, 4, u64::from(0x10 + 2 * input + half));
            let value = value >> (32 * half) & 0xffff_ffff;
            self.dev.write(&mut self.cx, IO_APIC + 0x10, 4, value);
        }
    }

    fn read_entry(&mut self, input: u32) -> u32 {
        self.dev
            .write(&mut self.cx, IO_APIC, 4, u64::from(0x10 + 2 * input));
        self.dev.read(&mut self.cx, IO_APIC + 0x10, 4) as u32
    }

    fn line(&mut self, line: u32, level: bool) {
        self.dev.line_changed(&mut self.cx, line, level);
    }

    fn ack(&mut self, hart: u32, vector: u8) {
        self.cx.hart = hart;
        self.dev.write(&mut self.cx, ACKNOWLEDGE_LOCAL, 1, vector.into());
    }

    /// Takes what the pin offers, as the machine does.
    fn take(&mut self, hart: u32) -> Option<u8> {
        let pin = self.dev.state.local[hart as usize].local_pin;
        let vector = pin.checked_sub(1)? as u8;
        self.ack(hart, vector);
        Some(vector)
    }

    fn message(&mut self, address: u64, data: u32) {
        let offset = MESSAGES + address - BASE_ADDRESS;
        self.dev.write(&mut self.cx, offset, 4, data.into());
    }

    fn run_to(&mut self, ns: u64) {
        while let Some(due) = self.dev.deadline().filter(|due| due.0 <= ns) {
            self.cx.now = due;
            self.dev.fire(&mut self.cx);
        }
        self.cx.now = VirtualTime(ns);
    }

    fn pins(&mut self) -> Vec<(u32, HartPin, u32)> {
        let pin = |effect| match effect {
            Effect::Pin(hart, pin, value) => Some((hart, pin, value)),
            Effect::LocalWindow(..) => None,
            other => panic!("{other:?}"),
        };
        self.cx.take().into_iter().filter_map(pin).collect()
    }
}

#[test]
fn state_at_power_on() {
    let (mut dev, mut cx) = (Interrupts::new(2), Fake::new());
    for (register, value) in [
        (0x20, 0),
        (0x30, 0x0105_0014),
        (SVR, 0xff),
        (DFR, u32::MAX),
        (LVT_TIMER, 0x1_0000),
        (LVT_LINT0, 0x1_0000),
        (INITIAL_COUNT, 0),
    ] {
        assert_eq!(dev.read(&mut cx, register, 4), value.into(), "{register:#x}");
    }
    assert_eq!(dev.read(&mut cx, APIC_BASE, 8), 0xfee0_0900);
    cx.hart = 1;
    assert_eq!(dev.read(&mut cx, 0x20, 4), 1 << 24);
    assert_eq!(dev.read(&mut cx, APIC_BASE, 8), 0xfee0_0800);
    cx.hart = 2; // no such hart
    assert_eq!(dev.read(&mut cx, 0x30, 4), 0);
    dev.write(&mut cx, IO_APIC, 4, 1);
    assert_eq!(dev.read(&mut cx, IO_APIC + 0x10, 4), 0);
    cx.hart = 0;
    assert_eq!(dev.read(&mut cx, IO_APIC + 0x10, 4), 0x17_0020);
    // A software-disabled APIC can't unmask its LVT.
    dev.write(&mut cx, LVT_TIMER, 4, 0x30);
    assert_eq!(dev.read(&mut cx, LVT_TIMER, 4), 0x1_0030);
    assert!(cx.effects.is_empty());
}

#[test]
fn priorities_nest() {
    let mut board = Board::new(1);
    for vector in [0x31, 0x52, 0x58] {
        board.message(BASE_ADDRESS, vector);
    }
    assert_eq!(
        board.pins(),
        [
            (0, LocalInterrupt, 0x32),
            (0, LocalInterrupt, 0x53),
            (0, LocalInterrupt, 0x59)
        ]
    );
    assert_eq!(board.take(0), Some(0x58));
    // 0x52 is of the same class.
    assert_eq!(board.pins(), [(0, LocalInterrupt, 0)]);
    assert_eq!((board.get(0, PPR), board.get(0, ISR + 0x20)), (0x50, 1 << 24));
    board.message(BASE_ADDRESS, 0x61);
    assert_eq!(board.take(0), Some(0x61));
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), None);
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), Some(0x52));
    board.set(0, EOI, 0);
    // TPR and CR8 hold the rest back.
    board.set(0, TPR, 0x30);
    assert_eq!(
        (board.take(0), board.get8(0, CR8), board.get(0, PPR)),
        (None, 3, 0x30)
    );
    board.set8(0, CR8, 2);
    assert_eq!((board.get(0, TPR), board.take(0)), (0x20, Some(0x31)));
    board.set(0, EOI, 0);
    board.set(0, EOI, 0); // nothing in service
    assert_eq!(board.get(0, PPR), 0x20);
    board.ack(0, 0x44); // never was on the pin
    assert_eq!(board.get(0, ISR + 0x20), 0);
}

#[test]
fn io_apic_edges() {
    let mut board = Board::new(2);
    board.entry(4, 1 << 56 | 0x34);
    board.line(4, true);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0x35)]);
    assert_eq!((board.take(1), board.get(1, TMR + 0x10)), (Some(0x34), 0));
    board.set(1, EOI, 0);
    assert_eq!(board.take(1), None); // still up, no edge
    board.line(4, false);
    board.line(4, true);
    assert_eq!(board.take(1), Some(0x34));
    board.set(1, EOI, 0);
    // Masked: lost.
    board.entry(4, 1 << 56 | 1 << 16 | 0x34);
    board.line(4, false);
    board.line(4, true);
    board.entry(4, 1 << 56 | 0x34);
    assert_eq!(board.take(1), None);
    // Line 0 is input 2; line 2 is nothing.
    board.entry(2, 0x30);
    board.line(2, true);
    assert_eq!(board.take(0), None);
    board.line(0, true);
    assert_eq!(board.take(0), Some(0x30));
}

#[test]
fn io_apic_levels_come_again_at_eoi() {
    let mut board = Board::new(1);
    board.entry(17, 0x8051);
    board.line(17, true);
    assert_eq!(board.read_entry(17), 0xc051); // Remote IRR
    assert_eq!(board.take(0), Some(0x51));
    assert_eq!(board.get(0, TMR + 0x20), 1 << 17);
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), Some(0x51));
    board.line(17, false);
    assert_eq!(board.read_entry(17), 0xc051);
    board.set(0, EOI, 0);
    assert_eq!((board.take(0), board.read_entry(17)), (None, 0x8051));
    // A pulse while it is served isn't remembered.
    board.line(17, true);
    board.line(17, false);
    assert_eq!(board.take(0), Some(0x51));
    board.line(17, true);
    board.line(17, false);
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), None);
    // Unmasking sends what is up.
    board.entry(17, 0x1_8051);
    board.line(17, true);
    assert_eq!(board.take(0), None);
    board.entry(17, 0x8051);
    assert_eq!(board.take(0), Some(0x51));
    // With broadcasts suppressed the I/O APIC's own EOI register ends it.
    board.set(0, SVR, 0x11ff);
    board.set(0, EOI, 0);
    assert_eq!((board.take(0), board.read_entry(17)), (None, 0xc051));
    board.dev.write(&mut board.cx, IO_APIC + 0x40, 4, 0x51);
    assert_eq!(board.take(0), Some(0x51));
    // So does making it an edge.
    board.entry(17, 0x1_0051);
    board.entry(17, 0x1_8051);
    assert_eq!(board.read_entry(17), 0x1_8051);
}

#[test]
fn a_level_that_nobody_took_is_tried_again() {
    let mut board = Board::new(1);
    board.set(0, SVR, 0xff);
    board.entry(17, 0x8051);
    board.line(17, true);
    assert_eq!(board.read_entry(17), 0x8051);
    board.set(0, SVR, 0x1ff);
    assert_eq!((board.read_entry(17), board.take(0)), (0xc051, Some(0x51)));
}

#[test]
fn logical_destinations() {
    let mut board = Board::new(4);
    // Flat: harts 1 and 3.
    board.entry(5, 0x0a << 56 | 1 << 11 | 0x45);
    board.line(5, true);
    assert_eq!(
        board.pins(),
        [(1, LocalInterrupt, 0x46), (3, LocalInterrupt, 0x46)]
    );
    for hart in [1, 3] {
        board.take(hart);
    }
    // Lowest priority: hart 1 serves 0x45, hart 3 is done with it.
    board.set(3, EOI, 0);
    board.entry(5, 0x0a << 56 | 1 << 11 | 1 << 8 | 0x46);
    board.line(5, false);
    board.cx.take();
    board.line(5, true);
    assert_eq!(board.pins(), [(3, LocalInterrupt, 0x47)]);
    // Cluster: IDs 0x11, 0x12, 0x21, 0x22.
    for (hart, id) in [0x11, 0x12, 0x21, 0x22].into_iter().enumerate() {
        board.set(hart as u32, DFR, 0x0fff_ffff);
        board.set(hart as u32, LDR, id << 24);
        board.take(hart as u32);
        board.set(hart as u32, EOI, 0);
    }
    board.cx.take();
    for (to, harts) in [
        (0x12u64, vec![1]),
        (0x23, vec![2, 3]),
        (0xf1, vec![0, 2]),
        (0x31, vec![]),
    ] {
        board.message(BASE_ADDRESS | to << 12 | 4, 0x60);
        let seen: Vec<u32> = board.pins().iter().map(|pin| pin.0).collect();
        assert_eq!(seen, harts, "{to:#x}");
        for hart in harts {
            assert_eq!(board.take(hart), Some(0x60));
            board.set(hart, EOI, 0);
        }
        board.cx.take();
    }
}

#[test]
fn messages() {
    let mut board = Board::new(2);
    board.message(BASE_ADDRESS | 1 << 12, 0x4041);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0x42)]);
    board.message(BASE_ADDRESS | 0xff << 12, 0x50);
    assert_eq!(
        board.pins(),
        [(0, LocalInterrupt, 0x51), (1, LocalInterrupt, 0x51)]
    );
    board.message(BASE_ADDRESS, 0x0400);
    assert_eq!(board.pins(), [(0, Nmi, 1), (0, Nmi, 0)]);
    board.message(BASE_ADDRESS | 7 << 12, 0x60); // nobody
    board.message(BASE_ADDRESS, 0x8070); // level de-assert
    assert_eq!(board.pins(), []);
    // Redirection to the lowest priority of a logical destination: hart 1 serves something.
    board.take(1);
    board.cx.take();
    board.message(BASE_ADDRESS | 3 << 12 | 0xc, 0x90);
    assert_eq!(board.pins(), [(0, LocalInterrupt, 0x91)]);
}

#[test]
fn start_of_another_hart() {
    let mut board = Board::new(2);
    board.set(1, TPR, 0x40);
    board.set(0, ICR_HIGH, 1 << 24);
    board.set(0, ICR, 0xc500); // INIT, assert, level
    assert_eq!(board.pins(), [(1, Init, 1), (1, Init, 0)]);
    assert_eq!(
        (board.get(1, SVR), board.get(1, TPR), board.get(1, 0x20)),
        (0xff, 0, 1 << 24)
    );
    board.set(0, ICR, 0x8500); // de-assert
    assert_eq!(board.pins(), []);
    board.set(0, ICR, 0x0609);
    assert_eq!(board.pins(), [(1, Startup, 10), (1, Startup, 0)]);
    assert_eq!(board.get(0, ICR), 0x0609);
}

#[test]
fn interprocessor_interrupts() {
    let mut board = Board::new(3);
    let harts = |board: &mut Board| board.pins().iter().map(|pin| pin.0).collect::<Vec<_>>();
    board.set(1, ICR, 0x0c_0040);
    assert_eq!(harts(&mut board), [0, 2]);
    board.set(1, ICR, 0x08_0050);
    assert_eq!(harts(&mut board), [0, 1, 2]);
    board.set(1, ICR, 0x04_0060);
    assert_eq!(harts(&mut board), [1]);
    board.set(1, ICR_HIGH, 5 << 24);
    board.set(1, ICR, 0x0870); // logical
    assert_eq!(harts(&mut board), [0, 2]);
    board.set(1, ICR_HIGH, 0xff << 24);
    board.set(1, ICR, 0x0080);
    assert_eq!(harts(&mut board), [0, 1, 2]);
    board.set(1, ICR, 0x0c_0400); // NMI to the others
    assert_eq!(board.pins(), [(0, Nmi, 1), (0, Nmi, 0), (2, Nmi, 1), (2, Nmi, 0)]);
    // Shorthands that don't go with INIT.
    board.set(1, ICR, 0x08_0500);
    board.set(1, ICR, 0x04_0500);
    assert_eq!(board.pins(), []);
    assert_eq!(board.get(0, IRR + 0x20), 1 << 16 | 1); // 0x50, 0x40
}

#[test]
fn errors() {
    let mut board = Board::new(1);
    board.set(0, LVT_ERROR, 0xfe);
    board.set(0, ICR, 0x04_0005); // vector 5
    assert_eq!(board.take(0), Some(0xfe));
    assert_eq!(board.get(0, ESR), 0); // not before it is written
    board.set(0, ESR, 0);
    assert_eq!(board.get(0, ESR), 1 << 5);
    board.message(BASE_ADDRESS, 0x03);
    board.get(0, 0x3f0);
    board.set(0, ESR, 0);
    assert_eq!(board.get(0, ESR), 1 << 6 | 1 << 7);
    board.set(0, ESR, 0);
    assert_eq!(board.get(0, ESR), 0);
    // An error interrupt of an illegal vector is an error itself, once.
    board.set(0, LVT_ERROR, 0x02);
    board.message(BASE_ADDRESS, 0x03);
    board.set(0, ESR, 0);
    assert_eq!(board.get(0, ESR), 1 << 6);
}

#[test]
fn timer_once() {
    let mut board = Board::new(2);
    board.run_to(1000);
    board.set(1, LVT_TIMER, 0xec);
    board.set(1, DIVIDE, 0b0011); // 16
    board.set(1, INITIAL_COUNT, 100);
    assert_eq!(board.dev.deadline(), Some(VirtualTime(2600)));
    board.run_to(1015);
    assert_eq!(board.get(1, CURRENT_COUNT), 100);
    board.run_to(1016);
    assert_eq!(board.get(1, CURRENT_COUNT), 99);
    board.run_to(2599);
    assert_eq!((board.get(1, CURRENT_COUNT), board.pins()), (1, vec![]));
    board.run_to(2600);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0xed)]);
    assert_eq!((board.get(1, CURRENT_COUNT), board.dev.deadline()), (0, None));
    assert_eq!(board.get(1, INITIAL_COUNT), 100);
    // 0 stops it; a masked one counts and does nothing.
    board.set(1, INITIAL_COUNT, 100);
    board.set(1, INITIAL_COUNT, 0);
    assert_eq!((board.get(1, CURRENT_COUNT), board.dev.deadline()), (0, None));
    board.take(1);
    board.set(1, LVT_TIMER, 0x1_00ec);
    board.set(1, INITIAL_COUNT, 10);
    assert_eq!((board.get(1, CURRENT_COUNT), board.dev.deadline()), (10, None));
    for (code, divisor) in [
        (0, 2),
        (1, 4),
        (2, 8),
        (3, 16),
        (8, 32),
        (9, 64),
        (10, 128),
        (11, 1),
    ] {
        board.set(1, DIVIDE, code);
        board.set(1, LVT_TIMER, 0xec);
        board.set(1, INITIAL_COUNT, 7);
        assert_eq!(board.dev.deadline(), Some(VirtualTime(2600 + 7 * divisor)));
    }
}

#[test]
fn timer_periodic() {
    let mut board = Board::new(1);
    board.set(0, DIVIDE, 0b1011); // 1
    board.set(0, LVT_TIMER, 0x2_0040);
    board.set(0, INITIAL_COUNT, 1000);
    for k in 1..=5 {
        board.run_to(k * 1000);
        // Only as far ahead as something would change.
        assert_eq!((board.dev.deadline(), board.get(0, CURRENT_COUNT)), (None, 1000));
        assert_eq!(board.take(0), Some(0x40));
        assert_eq!(board.dev.deadline(), Some(VirtualTime((k + 1) * 1000)));
        board.set(0, EOI, 0);
    }
    board.run_to(5300);
    assert_eq!(board.get(0, CURRENT_COUNT), 700);
    // Periods missed are missed, and the phase stays.
    board.run_to(8500);
    assert_eq!(board.take(0), Some(0x40));
    board.set(0, EOI, 0);
    assert_eq!(board.dev.deadline(), Some(VirtualTime(9000)));
    // Another count starts at once; another divider takes what is left.
    board.set(0, INITIAL_COUNT, 2000);
    assert_eq!(board.dev.deadline(), Some(VirtualTime(10_500)));
    board.run_to(9500);
    board.set(0, DIVIDE, 0b0000);
    assert_eq!(board.dev.deadline(), Some(VirtualTime(11_500)));
}

#[test]
fn a_late_boundary_still_expires() {
    let mut board = Board::new(2);
    board.set(0, DIVIDE, 0b1011);
    board.set(0, LVT_TIMER, 0x40);
    board.set(0, INITIAL_COUNT, 10);
    board.cx.now = VirtualTime(15); // within a long step
    board.set(1, TPR, 0);
    assert_eq!(board.take(0), Some(0x40));
}

#[test]
fn timer_by_tsc_deadline() {
    let mut board = Board::new(1);
    board.set8(0, TSC_DEADLINE, 500); // ignored in this mode
    assert_eq!(board.get8(0, TSC_DEADLINE), 0);
    board.set(0, LVT_TIMER, 0x4_0041);
    board.set(0, INITIAL_COUNT, 100); // ignored
    board.set8(0, TSC_DEADLINE, 500);
    assert_eq!(
        (board.dev.deadline(), board.get8(0, TSC_DEADLINE)),
        (Some(VirtualTime(500)), 500)
    );
    board.run_to(499);
    assert_eq!(board.take(0), None);
    board.run_to(500);
    assert_eq!((board.take(0), board.get8(0, TSC_DEADLINE)), (Some(0x41), 0));
    board.set(0, EOI, 0);
    board.set8(0, TSC_DEADLINE, 500); // past: at once
    assert_eq!((board.take(0), board.dev.deadline()), (Some(0x41), None));
    board.set(0, EOI, 0);
    board.set8(0, TSC_DEADLINE, 900);
    board.set8(0, TSC_DEADLINE, 0); // disarmed
    assert_eq!(board.dev.deadline(), None);
    board.set8(0, TSC_DEADLINE, 900);
    board.set(0, LVT_TIMER, 0x41); // another mode disarms it
    assert_eq!((board.dev.deadline(), board.get8(0, TSC_DEADLINE)), (None, 0));
}

#[test]
fn x2apic() {
    let mut board = Board::new(20);
    let msr = |msr: u64| X2APIC + 8 * (msr - 0x800);
    assert!(msr_faults(board.get8(17, APIC_BASE), 0x802, None));
    assert_eq!(board.get8(17, msr(0x803)), 0);
    for hart in 0..20 {
        let base = board.get8(hart, APIC_BASE);
        board.set8(hart, APIC_BASE, base | BASE_EXTD);
    }
    let base = board.get8(17, APIC_BASE);
    assert_eq!(base, 0xfee0_0c00);
    assert_eq!(
        (board.get8(17, msr(0x802)), board.get8(17, msr(0x80d))),
        (17, 1 << 16 | 2)
    );
    assert_eq!(board.get(17, 0x30), 0xffff_ffff); // no longer memory
    assert_eq!(board.get8(17, msr(0x80f)), 0x1ff); // kept
    // ICR in one write: hart 17 physically, cluster 1 logically, everybody.
    board.set8(3, msr(0x830), 17 << 32 | 0x40);
    assert_eq!(board.pins(), [(17, LocalInterrupt, 0x41)]);
    board.set8(3, msr(0x830), (1 << 16 | 0xf) << 32 | 0x850);
    let harts: Vec<u32> = board.pins().iter().map(|pin| pin.0).collect();
    assert_eq!(harts, [16, 17, 18, 19]);
    board.set8(3, msr(0x830), 0xffff_ffff << 32 | 0x60);
    assert_eq!(board.pins().len(), 20);
    board.set8(3, msr(0x83f), 0x70);
    assert_eq!(board.pins(), [(3, LocalInterrupt, 0x71)]);
    board.take(3);
    board.set8(3, msr(0x80b), 0);
    assert_eq!(board.get8(3, msr(0x823)), 1); // 0x60 is left
    // An 8-bit destination reaches the first clusters' members.
    board.message(BASE_ADDRESS | 17 << 12, 0x80);
    assert_eq!(board.get8(17, msr(0x824)), 1);
    board.message(BASE_ADDRESS | 0x04 << 12 | 4, 0x90);
    assert_eq!(board.get8(2, msr(0x824)), 1 << 16);

    // What faults.
    for (register, write, fault) in [
        (0x802, None, false),
        (0x802, Some(1), true),
        (0x80b, None, true),
        (0x80b, Some(1), true),
        (0x80e, None, true),
        (0x831, None, true),
        (0x808, Some(0x100), true),
        (0x830, Some(1 << 13), true),
        (0x830, Some(u64::MAX << 32 | 0xc_cfff), false),
        (0x832, Some(0x6_00ff), false),
        (0x832, Some(0x800), true),
        (0x83f, None, true),
        (0x8ff, None, true),
        (0x900, None, true),
        (0x6e0, Some(u64::MAX), false),
        (0x1b, Some(base), false),
        (0x1b, Some(base | 1), true),
        (0x1b, Some(base & !BASE_EXTD), true),
        (0x1b, Some(base & !BASE_EN), true),
        (0x1b, Some(base & !(BASE_EXTD | BASE_EN)), false),
    ] {
        assert_eq!(
            msr_faults(base, register, write),
            fault,
            "{register:#x} {write:?}"
        );
    }
    board.set8(3, APIC_BASE, base & !BASE_EXTD); // a fault: nothing
    assert_eq!(board.get8(3, APIC_BASE), base);
    board.set8(3, APIC_BASE, base & !(BASE_EXTD | BASE_EN));
    assert!(msr_faults(board.get8(3, APIC_BASE), 0x1b, Some(base)));
    board.set8(3, APIC_BASE, base & !BASE_EXTD);
    assert_eq!(board.get(3, SVR), 0xff); // reset by going off
}

#[test]
fn a_disabled_apic() {
    let mut board = Board::new(2);
    board.message(BASE_ADDRESS | 1 << 12, 0x40);
    board.set(1, LVT_TIMER, 0x50);
    board.set(1, SVR, 0xff);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0x41), (1, LocalInterrupt, 0)]);
    assert_eq!(board.get(1, LVT_TIMER), 0x1_0050);
    board.message(BASE_ADDRESS | 1 << 12, 0x60); // not taken
    board.message(BASE_ADDRESS | 1 << 12, 0x400); // NMI is
    assert_eq!(board.pins(), [(1, Nmi, 1), (1, Nmi, 0)]);
    board.set(1, SVR, 0x1ff);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0x41)]); // held
    board.set8(1, APIC_BASE, 0xfee0_0000);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0)]);
    board.message(BASE_ADDRESS | 1 << 12, 0x400);
    board.set(1, SVR, 0x1ff);
    assert_eq!((board.pins(), board.get(1, SVR)), (vec![], 0xffff_ffff));
}

#[test]
fn the_window_is_where_apic_base_says() {
    let mut board = Board::new(2);
    let base = board.get8(1, APIC_BASE);
    let mut set = |value| {
        board.set8(1, APIC_BASE, value);
        board.cx.take()
    };
    assert_eq!(set(base), []);
    let moved = 0x12_3456_7000 | BASE_EN;
    assert_eq!(set(moved), [Effect::LocalWindow(1, Some(0x12_3456_7000))]);
    // x2APIC mode, and off.
    assert_eq!(set(moved | BASE_EXTD), [Effect::LocalWindow(1, None)]);
    assert_eq!(set(0), []);
    assert_eq!(set(base), [Effect::LocalWindow(1, Some(BASE_ADDRESS))]);
    // More bits than physical addresses have.
    assert!(msr_faults(base, 0x1b, Some(base | 1 << 40)));
    set(moved);
    board.dev.reset(&mut board.cx);
    assert_eq!(board.cx.take(), [Effect::LocalWindow(1, Some(BASE_ADDRESS))]);
    // Where it was nobody answers.
    assert_eq!(board.dev.read(&mut board.cx, NO_APIC + 0x30, 4), 0xffff_ffff);
}

#[test]
fn virtual_wire() {
    // No APIC in use: the 8259s' interrupts come through.
    let mut board = Board::new(2);
    board.set(0, SVR, 0xff);
    board.port(PIC_MASTER + 1, 0);
    board.port(PIC_SLAVE + 1, 0);
    board.line(0, true);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0x21)]);
    board.line(1, true); // lower
    assert_eq!(board.pins(), []);
    board.cx.hart = 0;
    board.dev.write(&mut board.cx, ACKNOWLEDGE_EXTERNAL, 1, 0x20);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0)]);
    board.port(PIC_MASTER, 0x20);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0x22)]);
    board.line(1, false); // gone before it was taken
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0)]);
    board.line(12, true);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0x2d)]);
    // The APIC is enabled: LINT0 decides.
    board.set(0, SVR, 0x1ff);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0)]);
    board.set(0, LVT_LINT0, 0x700);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0x2d)]);
    // As a fixed interrupt it is an edge of INT, and the 8259s know nothing of it.
    board.set(0, LVT_LINT0, 0x31);
    assert_eq!(board.pins(), [(0, ExternalInterrupt, 0)]);
    board.line(12, false);
    board.line(12, true);
    assert_eq!(board.take(0), Some(0x31));
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), None);
    // Level-triggered it comes again.
    board.set(0, LVT_LINT0, 0x8032);
    assert_eq!((board.take(0), board.get(0, LVT_LINT0)), (Some(0x32), 0xc032));
    board.set(0, EOI, 0);
    assert_eq!(board.take(0), Some(0x32));
    board.line(12, false);
    board.set(0, EOI, 0);
    assert_eq!((board.take(0), board.get(0, LVT_LINT0)), (None, 0x8032));
    // And as an NMI.
    board.set(0, LVT_LINT0, 0x400);
    board.cx.take();
    board.line(12, true);
    assert_eq!(board.pins(), [(0, Nmi, 1), (0, Nmi, 0)]);
}

#[test]
fn the_io_apic_passes_the_8259s() {
    let mut board = Board::new(2);
    board.port(PIC_MASTER + 1, 0);
    board.entry(0, 1 << 56 | 0x700);
    board.line(7, true);
    assert_eq!(board.pins(), [(1, ExternalInterrupt, 0x28)]);
    board.cx.hart = 1;
    board.dev.write(&mut board.cx, ACKNOWLEDGE_EXTERNAL, 1, 0x27);
    assert_eq!(board.pins(), [(1, ExternalInterrupt, 0)]);
    // As a fixed interrupt: an edge of INT, which falls with INTA.
    board.entry(0, 1 << 56 | 0x31);
    board.port(PIC_MASTER, 0x20);
    board.line(7, false);
    board.line(7, true);
    assert_eq!(board.take(1), Some(0x31));
}

#[test]
fn reset_puts_all_down() {
    let mut board = Board::new(2);
    board.message(BASE_ADDRESS | 1 << 12, 0x40);
    board.set(0, LVT_TIMER, 0x2_0041);
    board.set(0, INITIAL_COUNT, 5);
    board.cx.take();
    board.dev.reset(&mut board.cx);
    assert_eq!(board.pins(), [(1, LocalInterrupt, 0)]);
    assert_eq!(board.dev.save(), {
        let mut fresh = Interrupts::new(2);
        fresh.update(&mut Fake::new());
        fresh.save()
    });
}
