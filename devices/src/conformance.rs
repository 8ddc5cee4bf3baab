//! What every device must hold, tested on all of them alike:
//!
//! - save, change, restore, save: equal bytes;
//! - run, save, restore into a fresh device, run on: the same values, effects and memory;
//! - a state that is cut short, too long, of another version or damaged is refused with the device
//!   unchanged, or taken without harm;
//! - reset puts every line and pin down.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use crate::fake::{Effect, Fake};
use crate::ide::Unit;
use crate::pc::{self, Cmos, Coprocessor, FwCfg, I8042, Interrupts, Pit, Pm, TestDev, Vga, interrupts};
use crate::pci::{MEMORY_WINDOW, Pci};
use crate::virtio::{Blk, Console, EmptySlot, Mmio, Net, PciTransport, Rng, bridged, driver};
use crate::{Clint, Device, DeviceError, Finisher, HartPin, Ide, Input, Plic, Rtc, Uart, VirtualTime};

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u8),
    Write(u64, u8, u64),
    Advance(u64),
    /// Whose accesses the next ones are.
    Hart(u32),
    Line(u32, bool),
    Input(Input),
}

/// A device under test: how it is made, and what is around it.
struct Subject {
    make: fn() -> Box<dyn Device>,
    /// Registers worth trying.
    registers: &'static [u64],
    size: u64,
    /// What to do first.
    prepare: fn(&mut Fake) -> Vec<Op>,
}

fn nothing(_: &mut Fake) -> Vec<Op> {
    Vec::new()
}

/// Lays out a driver's rings with 8 chains available, and returns the register writes that start a
/// device on them.
fn started(cx: &mut Fake, chain: impl Fn(u32) -> Vec<driver::Part>) -> Vec<Op> {
    // The driver's own register writes go to a device that is thrown away.
    let mut scratch = Mmio::new(1, Box::new(Rng::new([0; 32])));
    let mut driver = driver::Driver::start(&mut scratch, cx, 1 << 32, 32);
    for n in 0..8 {
        driver.add(cx, &chain(n));
    }
    let set = |offset, value| Op::Write(offset, 4, value);
    let halves = |offset, address: u64| [set(offset, address), set(offset + 4, address >> 32)];
    let mut ops = vec![
        set(0x70, 3),
        set(0x24, 1),
        set(0x20, 1),
        set(0x70, 0xb),
        set(0x38, 32),
    ];
    ops.extend(halves(0x80, driver::DESC));
    ops.extend(halves(0x90, driver::AVAIL));
    ops.extend(halves(0xa0, driver::USED));
    ops.extend([set(0x44, 1), set(0x70, 0xf), set(0x50, 0)]);
    cx.effects.clear();
    ops
}

fn started_rng(cx: &mut Fake) -> Vec<Op> {
    started(cx, |_| vec![driver::Part::Write(driver::DATA + 0x100, 100)])
}

/// Room for input, and some of it.
fn started_console(cx: &mut Fake) -> Vec<Op> {
    let mut ops = started(cx, |n| {
        vec![driver::Part::Write(driver::DATA + 16 * u64::from(n), 16)]
    });
    ops.extend((0..4).map(|byte| Op::Input(Input::Console(byte))));
    ops
}

/// The same, and a second queue with frames on their way out.
fn started_net(cx: &mut Fake) -> Vec<Op> {
    let mut scratch = Mmio::new(1, Box::new(Rng::new([0; 32])));
    let mut driver = driver::Driver::start(&mut scratch, cx, 1 << 32, 32);
    (0..8).for_each(|n| _ = driver.add(cx, &[driver::Part::Read(driver::DATA, 40 + n)]));
    // Where a second driver's rings would be.
    let rings = cx.peek(driver::DESC, 0x3000).to_vec();
    cx.poke(driver::DESC + 0x4000, &rings);
    let mut ops = started(cx, |n| {
        vec![driver::Part::Write(driver::DATA + 0x100, 12 + 40 * n)]
    });
    let enable = ops.len() - 2;
    let set = |(offset, value)| Op::Write(offset, 4, value);
    let [desc, avail, used] = [driver::DESC, driver::AVAIL, driver::USED].map(|at| at + 0x4000);
    let second = [
        (0x30, 1),
        (0x38, 32),
        (0x80, desc),
        (0x90, avail),
        (0xa0, used),
        (0x44, 1),
    ];
    ops.splice(enable..enable, second.map(set));
    ops.push(set((0x50, 1)));
    ops.extend((0..4).map(|n| {
        Op::Input(Input::Frame {
            port: 0,
            data: vec![n; 30],
        })
    }));
    ops.push(Op::Advance(3000));
    ops
}

/// Reads of sector 0, the longest first.
fn started_blk(cx: &mut Fake) -> Vec<Op> {
    cx.disk.insert((1, 0), [0x5a; crate::BLOCK_SIZE]);
    let mut ops = started(cx, |n| {
        vec![
            driver::Part::Read(driver::DATA, 16), // zeros
            driver::Part::Write(driver::DATA + 0x200, (8 - n) * 512),
            driver::Part::Write(driver::DATA + 0x100, 1),
        ]
    });
    ops.push(Op::Advance(49_000));
    ops.extend((0..6).map(|_| Op::Advance(700)));
    ops
}

fn fw_cfg() -> FwCfg {
    FwCfg::new(
        FwCfg::machine_items(1 << 20, 1, 1),
        [("etc/file".to_string(), vec![7; 300])],
    )
}

/// A transfer of a file, and a register write that starts it.
fn started_fw_cfg(cx: &mut Fake) -> Vec<Op> {
    let control = 0x0020_000au32.to_be_bytes();
    cx.poke(driver::DATA, &control);
    cx.poke(driver::DATA + 4, &200u32.to_be_bytes());
    cx.poke(driver::DATA + 8, &(driver::DATA + 0x100).to_be_bytes());
    vec![Op::Write(4, 8, driver::DATA.swap_bytes()), Op::Read(1, 1)]
}

fn cmos() -> Cmos {
    let contents = pc::cmos::Contents {
        low_memory: 1 << 30,
        high_memory: 0,
        boot_order: [2, 3, 0],
        harts: 3,
    };
    Cmos::new(8, 1_700_000_000_123_456_789, &contents)
}

const INTERRUPTS: &[u64] = {
    use interrupts::*;
    &[
        0x80,
        0xb0,
        0xb0,
        0xd0,
        0xe0,
        0xf0,
        0x280,
        0x300,
        0x300,
        0x310,
        0x320,
        0x350,
        0x370,
        0x380,
        0x3e0, //
        IO_APIC,
        IO_APIC,
        IO_APIC + 0x10,
        IO_APIC + 0x10,
        IO_APIC + 0x40, //
        X2APIC + 8 * 0xb,
        X2APIC + 8 * 0x30,
        X2APIC + 8 * 0x38,
        X2APIC + 8 * 0x3f, //
        APIC_BASE,
        TSC_DEADLINE,
        CR8,
        ACKNOWLEDGE_LOCAL,
        ACKNOWLEDGE_EXTERNAL, //
        PIC_MASTER,
        PIC_MASTER + 1,
        PIC_SLAVE,
        PIC_SLAVE + 1,
        ELCR, //
        MESSAGES,
        MESSAGES + 0x1004,
        MESSAGES + 0xf_f00c,
    ]
};

/// The 8259s and the local APICs set up, hart 2 in x2APIC mode, and requests of every kind.
fn started_interrupts(_: &mut Fake) -> Vec<Op> {
    use interrupts::*;
    let mut ops = Vec::new();
    for chip in [PIC_MASTER, PIC_SLAVE] {
        ops.push(Op::Write(chip, 1, 0x11));
        ops.extend([0x20, 4, 1, 0].map(|value| Op::Write(chip + 1, 1, value)));
    }
    for input in 1..24 {
        ops.push(Op::Write(IO_APIC, 4, 0x10 + 2 * input));
        ops.push(Op::Write(IO_APIC + 0x10, 4, (0x30 + input) | (input & 1) << 15));
    }
    for hart in 0..3 {
        let set = |register, value| Op::Write(register, 4, value);
        ops.extend([Op::Hart(hart), set(0xf0, 0x1ff), set(0xd0, 1 << (24 + hart))]);
        ops.extend([
            set(0x3e0, 0xb),
            set(0x320, 0x2_0061),
            set(0x370, 0x62),
            set(0x380, 3000),
        ]);
    }
    ops.push(Op::Write(APIC_BASE, 8, BASE_ADDRESS | BASE_EN | BASE_EXTD));
    ops.extend([3, 4, 17, 18].map(|line| Op::Line(line, true)));
    ops.extend([
        Op::Hart(0),
        Op::Advance(2000),
        Op::Write(ACKNOWLEDGE_LOCAL, 1, 0x41),
    ]);
    ops
}

/// The same of a card on the PCI bus, which sends messages.
fn started_pci(cx: &mut Fake) -> Vec<Op> {
    let card = bridged::CARD;
    let mut writes = bridged::configure(card);
    let vectors = [(0x10, 0xfee0_1000), (0x18, 0x4041), (0x0c, 0), (0x1c, 0)];
    let tables = MEMORY_WINDOW + bridged::msix_bar(card);
    writes.extend(vectors.map(|(at, value)| (tables + at, 4, value)));
    writes.extend(bridged::config_write(card, 0x42, 2, 0x8000));
    let write = |(offset, size, value)| Op::Write(offset, size, value);
    let mut ops: Vec<Op> = writes.into_iter().map(write).collect();
    ops.extend(started_blk(cx).into_iter().filter_map(|op| match op {
        Op::Write(offset, _, value) => bridged::register(card, offset, value).map(write),
        other => Some(other),
    }));
    ops.insert(
        ops.len() - 8,
        Op::Write(MEMORY_WINDOW + bridged::bar(card) + 0x1a, 2, 1),
    );
    ops
}

/// Configuration mechanism #1, reset control, and the structures and tables of the first card.
const PCI: &[u64] = &{
    const BAR: u64 = MEMORY_WINDOW + bridged::bar(bridged::CARD);
    const TABLES: u64 = MEMORY_WINDOW + bridged::msix_bar(bridged::CARD);
    [
        0xcf8,
        0xcf8,
        0xcfc,
        0xcfc,
        0xcfe,
        0xcff,
        BAR + 0x08,
        BAR + 0x0c,
        BAR + 0x10,
        BAR + 0x14,
        BAR + 0x16,
        BAR + 0x18,
        BAR + 0x1a,
        BAR + 0x1c,
        BAR + 0x20,
        BAR + 0x24,
        BAR + 0x28,
        BAR + 0x30,
        BAR + 0x1000,
        BAR + 0x2000,
        BAR + 0x3000,
        BAR + 0x3000,
        TABLES,
        TABLES + 0x08,
        TABLES + 0x0c,
        TABLES + 0x10,
        TABLES + 0x1c,
        TABLES + 0x800,
    ]
};

fn ide() -> Ide {
    let disk = Unit::Disk {
        drive: 0,
        sectors: 512,
        read_only: false,
        serial: "disk".to_string(),
    };
    let cdrom = Unit::Cdrom {
        drive: 1,
        sectors: 128,
        serial: "cd".to_string(),
    };
    Ide::new([[Some(disk), None], [Some(cdrom), None]])
}

/// Reads: sectors of the disk by PIO, a sector of the disc by the bus master.
fn started_ide(cx: &mut Fake) -> Vec<Op> {
    cx.disk.insert((1, 0), [0xa5; crate::BLOCK_SIZE]);
    let mut entry = (driver::DATA as u32).to_le_bytes().to_vec();
    entry.extend([0, 8, 0, 0x80]);
    cx.poke(driver::DATA + 0x1000, &entry);
    let set = |offset, value| Op::Write(offset, 1, value);
    let mut ops = vec![set(2, 3), set(3, 1), set(6, 0xe0), set(7, 0x20)];
    ops.extend([Op::Write(0x2c, 4, driver::DATA + 0x1000), set(0x28, 9)]);
    ops.extend([set(9, 1), set(0xf, 0xa0)]);
    let words = [0x28, 0, 0, 0, 0x100, 0].map(|word| Op::Write(8, 2, word));
    ops.extend(words);
    ops.push(Op::Advance(50_600));
    ops.extend((0..64).map(|_| Op::Read(0, 8)));
    ops.push(Op::Advance(2_000));
    ops
}

const VIRTIO: &[u64] = &[
    0x10, 0x14, 0x20, 0x24, 0x30, 0x34, 0x38, 0x44, 0x50, 0x50, 0x60, 0x64, 0x64, 0x70, 0x100,
];

fn subjects() -> Vec<Subject> {
    vec![
        Subject {
            make: || Box::new(Clint::new(3)),
            registers: &[0, 4, 8, 0x4000, 0x4004, 0x4008, 0x4010, 0xbff8, 0xbffc],
            size: crate::clint::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(Plic::new(2)),
            registers: &[
                4, 8, 0x28, 0x84, 0x1000, 0x1008, 0x2000, 0x2004, 0x2080, 0x2100, 0x20_0000, 0x20_0004,
                0x20_1000, 0x20_1004, 0x20_3004,
            ],
            size: crate::plic::SIZE,
            prepare: |_| {
                let mut ops: Vec<Op> = (1..96).map(|n| Op::Write(4 * n, 4, n % 8)).collect();
                ops.extend((0..4).map(|n| Op::Write(0x2000 + 0x80 * n, 4, 0xffff_fffe)));
                ops
            },
        },
        Subject {
            make: || Box::new(Uart::new(10, 0)),
            registers: &[0, 0, 1, 2, 3, 4, 5, 6, 7],
            size: crate::uart::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(Rtc::new(11, 1_700_000_000_000_000_000)),
            registers: &[0, 4, 8, 8, 0xc, 0x10, 0x14, 0x18, 0x1c],
            size: crate::rtc::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(Finisher),
            registers: &[0],
            size: crate::finisher::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(EmptySlot),
            registers: VIRTIO,
            size: crate::virtio::MMIO_SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(Mmio::new(1, Box::new(Rng::new([3; 32])))),
            registers: VIRTIO,
            size: crate::virtio::MMIO_SIZE,
            prepare: started_rng,
        },
        Subject {
            make: || Box::new(Mmio::new(2, Box::new(Blk::new(1, 512, false, "serial")))),
            registers: VIRTIO,
            size: crate::virtio::MMIO_SIZE,
            prepare: started_blk,
        },
        Subject {
            make: || Box::new(Mmio::new(3, Box::new(Console::new(1)))),
            registers: VIRTIO,
            size: crate::virtio::MMIO_SIZE,
            prepare: started_console,
        },
        Subject {
            make: || Box::new(Mmio::new(4, Box::new(Net::new(0, [2, 0, 0, 0, 0, 1])))),
            registers: VIRTIO,
            size: crate::virtio::MMIO_SIZE,
            prepare: started_net,
        },
        Subject {
            make: || {
                Box::new(Pci::new(vec![
                    Box::new(PciTransport::new(Box::new(Blk::new(1, 512, false, "serial")))),
                    Box::new(PciTransport::new(Box::new(Rng::new([3; 32])))),
                ]))
            },
            registers: PCI,
            size: crate::pci::SIZE,
            prepare: started_pci,
        },
        Subject {
            make: || Box::new(fw_cfg()),
            registers: &[0, 1, 1, 4, 8],
            size: pc::fw_cfg::SIZE,
            prepare: started_fw_cfg,
        },
        Subject {
            make: || Box::new(ide()),
            registers: &[
                0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0xf, 0x10, 0x14, 0x20,
                0x22, 0x24, 0x28, 0x2a, 0x2c,
            ],
            size: crate::ide::SIZE,
            prepare: started_ide,
        },
        Subject {
            make: || Box::new(Vga::new()),
            registers: &[
                0, 0x1_8000, 0x1_8001, 0x2_0010, 0x2_0012, 0x2_0014, 0x2_0015, 0x2_0017, 0x2_0018, 0x2_0019,
                0x2_001e, 0x2_001f, 0x2_0024, 0x2_0025, 0x2_002a, 0x2_0030,
            ],
            size: pc::vga::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(I8042::new()),
            registers: &[0, 0, 0, 4, 8],
            size: pc::i8042::SIZE,
            prepare: |_| {
                // Interrupts of both ports on, then keys.
                let mut ops = vec![Op::Write(4, 1, 0x60), Op::Write(0, 1, 0x47)];
                ops.extend((1..5).map(|code| Op::Input(Input::Key { code, down: true })));
                ops
            },
        },
        Subject {
            make: || Box::new(Interrupts::new(3)),
            registers: INTERRUPTS,
            size: interrupts::SIZE,
            prepare: started_interrupts,
        },
        Subject {
            make: || Box::new(Pit::new(0)),
            registers: &[0, 0, 1, 2, 3, 3, pc::pit::PORT_61],
            size: pc::pit::SIZE,
            prepare: |_| {
                let write = |offset, value| Op::Write(offset, 1, value);
                vec![
                    write(3, 0x36),
                    write(0, 0x34),
                    write(0, 0x12),
                    write(3, 0xb4),
                    write(2, 9),
                    write(2, 0),
                ]
            },
        },
        Subject {
            make: || Box::new(cmos()),
            registers: &[0, 0, 1],
            size: pc::cmos::SIZE,
            // All interrupts on, each second an alarm.
            prepare: |_| {
                [0xff01, 0xff03, 0xff05, 0x230a, 0x720b]
                    .map(|v| Op::Write(0, 2, v))
                    .into()
            },
        },
        Subject {
            make: || Box::new(Pm::new(9)),
            registers: &[0, 2, 4, 5, 8, pc::pm::RESET_CONTROL],
            size: pc::pm::SIZE,
            prepare: |_| vec![Op::Write(2, 2, 1), Op::Advance(3_000_000_000)],
        },
        Subject {
            make: || Box::new(Coprocessor::new(2)),
            registers: &[0, 1],
            size: pc::coprocessor::SIZE,
            prepare: |_| vec![Op::Write(1, 1, 1)],
        },
        Subject {
            make: || Box::new(TestDev::new(1)),
            registers: &[0, 8, 0x10],
            size: pc::testdev::SIZE,
            prepare: nothing,
        },
    ]
}

/// Does `ops` to `device`, deadlines at their times between, and returns what it saw.
fn run(device: &mut dyn Device, cx: &mut Fake, ops: &[Op]) -> Vec<u64> {
    let mut seen = Vec::new();
    for op in ops {
        match *op {
            Op::Read(offset, size) => seen.push(device.read(cx, offset, size)),
            Op::Write(offset, size, value) => device.write(cx, offset, size, value),
            Op::Hart(hart) => cx.hart = hart,
            Op::Line(line, level) => device.line_changed(cx, line, level),
            Op::Input(ref input) => {
                seen.push(u64::from(device.accepts(input.kind())));
                device.input(cx, input);
            }
            Op::Advance(by) => {
                let until = cx.now.saturating_add(by);
                while let Some(due) = device.deadline().filter(|&due| due <= until) {
                    cx.now = cx.now.max(due);
                    device.fire(cx);
                    assert!(device.deadline().is_none_or(|next| next > cx.now));
                    seen.push(cx.now.0);
                }
                cx.now = until;
            }
        }
    }
    seen
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..256,
        (0u32..64).prop_map(|bit| 1 << bit),
        // An interrupt and how it is sent.
        (0u64..32, 0u64..256).prop_map(|(how, vector)| how << 11 | vector),
        (0u64..2000).prop_map(|tick| 1_700_000_000_000_000_000 + tick * 100),
        Just(u64::MAX),
        Just(0x5555),
        // Registers of the first functions on a PCI bus.
        (0u64..0x800).prop_map(|register| 1 << 31 | register << 2),
    ]
}

fn op(registers: &'static [u64], size: u64) -> impl Strategy<Value = Op> {
    let offset = prop_oneof![
        9 => prop::sample::select(registers),
        1 => 0..size,
    ];
    let width = || prop_oneof![3 => Just(4u8), 2 => prop::sample::select(&[1u8, 2, 8][..])];
    prop_oneof![
        4 => (offset.clone(), width()).prop_map(|(offset, size)| Op::Read(offset, size)),
        6 => (offset, width(), value()).prop_map(|(offset, size, v)| Op::Write(offset, size, v)),
        2 => prop_oneof![0u64..200, 0u64..100_000].prop_map(Op::Advance),
        1 => (0u32..4).prop_map(Op::Hart),
        2 => prop_oneof![0u32..100, 0u32..24].prop_flat_map(|line| (Just(line), any::<bool>())).prop_map(|(line, level)| Op::Line(line, level)),
        1 => any::<u8>().prop_map(|byte| Op::Input(Input::Console(byte))),
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(|frame| Op::Input(Input::Frame { port: 0, data: frame })),
        1 => (prop_oneof![0u16..0x80, 0xe000u16..0xe080, any::<u16>()], any::<bool>())
            .prop_map(|(code, down)| Op::Input(Input::Key { code, down })),
    ]
}

/// Where every line and pin stands after these effects; none may be set to the level it has.
fn levels(effects: &[Effect]) -> BTreeMap<(u32, Option<HartPin>), u32> {
    let mut levels = BTreeMap::new();
    for effect in effects {
        let (wire, level) = match *effect {
            Effect::Line(line, level) => ((line, None), level.into()),
            Effect::Pin(hart, pin, level) => ((hart, Some(pin)), level),
            _ => continue,
        };
        let old = levels.insert(wire, level).unwrap_or(0);
        assert_ne!(old, level, "{wire:?} set to the level that it had");
    }
    levels
}

fn check(subject: &Subject, ops: &[Op], split: usize, damage: (usize, u8)) {
    let mut cx = Fake::new();
    let mut all = (subject.prepare)(&mut cx);
    all.extend(ops.iter().cloned());
    let (before, after) = all.split_at(split % (all.len() + 1));

    let mut device = (subject.make)();
    run(&mut *device, &mut cx, before);
    let saved = device.save();
    let mut other = (subject.make)();
    let mut other_cx = cx.clone();
    other.restore(&saved).unwrap();
    assert_eq!(other.save(), saved);
    assert_eq!(other.deadline(), device.deadline());

    // Straight on, and from the saved state.
    let seen = run(&mut *device, &mut cx, after);
    let other_seen = run(&mut *other, &mut other_cx, after);
    assert_eq!(seen, other_seen);
    assert_eq!(cx.effects, other_cx.effects);
    assert!(cx.ram == other_cx.ram && cx.disk == other_cx.disk);
    assert_eq!(device.save(), other.save());

    // Back.
    device.restore(&saved).unwrap();
    assert_eq!(device.save(), saved);

    // What is no state.
    for end in 0..saved.len() {
        assert!(device.restore(&saved[..end]).is_err(), "cut at {end}");
    }
    let mut longer = saved.clone();
    longer.push(0);
    assert!(matches!(
        device.restore(&longer),
        Err(DeviceError::LeftOver { count: 1, .. })
    ));
    let mut newer = saved.clone();
    newer[0] += 1;
    assert!(matches!(device.restore(&newer), Err(DeviceError::Version { .. })));
    assert_eq!(device.save(), saved);

    // Reset, from where the straight run ended.
    other.reset(&mut other_cx);
    assert!(levels(&other_cx.effects).values().all(|&level| level == 0));
    assert_eq!(other.deadline(), None);

    // Damage is refused, or taken for a state that does no harm.
    let mut damaged = saved.clone();
    let at = damage.0 % damaged.len();
    damaged[at] ^= damage.1;
    match device.restore(&damaged) {
        Err(_) => assert_eq!(device.save(), saved),
        Ok(()) => {
            cx.now = VirtualTime(0);
            for op in after {
                if !matches!(op, Op::Advance(_)) {
                    run(&mut *device, &mut cx, std::slice::from_ref(op));
                } else if let Some(due) = device.deadline() {
                    cx.now = cx.now.max(due);
                    device.fire(&mut cx);
                }
            }
            device.reset(&mut cx);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_device_conforms(
        scripts in subjects()
            .iter()
            .map(|subject| prop::collection::vec(op(subject.registers, subject.size), 0..60))
            .collect::<Vec<_>>(),
        split in any::<usize>(),
        damage in (any::<usize>(), 1u8..),
    ) {
        for (subject, ops) in subjects().iter().zip(&scripts) {
            check(subject, ops, split, damage);
        }
    }
}

#[test]
fn another_board_s_state_is_refused() {
    let cases: [(Box<dyn Device>, Box<dyn Device>); 5] = [
        (Box::new(Interrupts::new(2)), Box::new(Interrupts::new(3))),
        (Box::new(Clint::new(2)), Box::new(Clint::new(3))),
        (Box::new(Plic::new(2)), Box::new(Plic::new(1))),
        (
            Box::new(Mmio::new(1, Box::new(Blk::new(0, 8, true, "")))),
            Box::new(Mmio::new(1, Box::new(Rng::new([0; 32])))),
        ),
        (
            Box::new(Mmio::new(1, Box::new(Rng::new([0; 32])))),
            Box::new(Mmio::new(1, Box::new(Blk::new(0, 8, true, "")))),
        ),
    ];
    for (from, mut to) in cases {
        let before = to.save();
        assert!(to.restore(&from.save()).is_err(), "{}", to.name());
        assert_eq!(to.save(), before);
    }
}

#[test]
fn names_are_distinct_where_devices_are() {
    let mut names: Vec<&str> = subjects().iter().map(|s| (s.make)().name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), subjects().len());
}
