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
use crate::pc::{FwCfg, I8042, Vga};
use crate::virtio::{Blk, EmptySlot, Mmio, Rng, driver};
use crate::{Clint, Device, DeviceError, Finisher, HartPin, Input, Plic, Rtc, Uart, VirtualTime};

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u8),
    Write(u64, u8, u64),
    Advance(u64),
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
            make: || Box::new(fw_cfg()),
            registers: &[0, 1, 1, 4, 8],
            size: crate::pc::fw_cfg::SIZE,
            prepare: started_fw_cfg,
        },
        Subject {
            make: || Box::new(Vga::new()),
            registers: &[
                0, 0x1_8000, 0x1_8001, 0x2_0010, 0x2_0012, 0x2_0014, 0x2_0015, 0x2_0017, 0x2_0018, 0x2_0019,
                0x2_001e, 0x2_001f, 0x2_0024, 0x2_0025, 0x2_002a, 0x2_0030,
            ],
            size: crate::pc::vga::SIZE,
            prepare: nothing,
        },
        Subject {
            make: || Box::new(I8042::new()),
            registers: &[0, 0, 0, 4],
            size: crate::pc::i8042::SIZE,
            prepare: |_| {
                // Interrupts of both ports on, then keys.
                let mut ops = vec![Op::Write(4, 1, 0x60), Op::Write(0, 1, 0x47)];
                ops.extend((1..5).map(|code| Op::Input(Input::Key { code, down: true })));
                ops
            },
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
        (0u64..2000).prop_map(|tick| 1_700_000_000_000_000_000 + tick * 100),
        Just(u64::MAX),
        Just(0x5555),
    ]
}

fn op(registers: &'static [u64], size: u64) -> impl Strategy<Value = Op> {
    let offset = prop_oneof![
        9 => prop::sample::select(registers),
        1 => 0..size,
    ];
    let width = || prop_oneof![4 => Just(4u8), 1 => prop::sample::select(&[1u8, 2, 8][..])];
    prop_oneof![
        4 => (offset.clone(), width()).prop_map(|(offset, size)| Op::Read(offset, size)),
        6 => (offset, width(), value()).prop_map(|(offset, size, v)| Op::Write(offset, size, v)),
        2 => prop_oneof![0u64..200, 0u64..100_000].prop_map(Op::Advance),
        2 => (0u32..100, any::<bool>()).prop_map(|(line, level)| Op::Line(line, level)),
        1 => any::<u8>().prop_map(|byte| Op::Input(Input::Console(byte))),
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
    let cases: [(Box<dyn Device>, Box<dyn Device>); 4] = [
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
