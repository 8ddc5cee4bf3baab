//! The transport, the rings and the devices, driven by a driver in guest memory.

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::bridged::Bridged;
use super::driver::{AVAIL, DATA, DESC, Driver, Part, USED, descriptor, notify, settle};
use super::{Blk, EmptySlot, Mmio, Rng, VirtioDevice};
use crate::fake::{Effect, Fake, RAM_BASE, RAM_SIZE};
use crate::{BLOCK_SIZE, Device, VirtualTime};

const VERSION_1: u64 = 1 << 32;
const INDIRECT: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const LINE: u32 = 8;
const SECTORS: u64 = 64 * 8;

fn disk(read_only: bool) -> Box<dyn VirtioDevice> {
    Box::new(Blk::new(0, SECTORS, read_only, "tickback-0"))
}

fn blk(read_only: bool) -> Mmio {
    Mmio::new(LINE, disk(read_only))
}

/// `device` behind each transport, on the same registers.
pub(super) fn transports(device: fn() -> Box<dyn VirtioDevice>) -> [Box<dyn Device>; 2] {
    [
        Box::new(Mmio::new(LINE, device())),
        Box::new(Bridged::new(device())),
    ]
}

fn entropy() -> Box<dyn VirtioDevice> {
    Box::new(Rng::new([7; 32]))
}

fn rng() -> Mmio {
    Mmio::new(LINE, entropy())
}

/// Writes a block request header at `addr`.
pub(super) fn header(cx: &mut Fake, addr: u64, kind: u32, sector: u64) {
    cx.poke(addr, &kind.to_le_bytes());
    cx.poke(addr + 4, &[0; 4]);
    cx.poke(addr + 8, &sector.to_le_bytes());
}

/// Makes a request with its header at DATA, its status at DATA + 32 and its data behind, lets it
/// complete, and returns status and used length.
pub(super) fn request(
    device: &mut dyn Device,
    driver: &mut Driver,
    cx: &mut Fake,
    kind: u32,
    sector: u64,
    len: u32,
) -> (u8, u32) {
    header(cx, DATA, kind, sector);
    cx.poke(DATA + 32, &[0xff]);
    let mut parts = vec![Part::Read(DATA, 16)];
    match kind {
        1 => parts.push(Part::Read(DATA + 64, len)),
        _ if len > 0 => parts.push(Part::Write(DATA + 64, len)),
        _ => {}
    }
    parts.push(Part::Write(DATA + 32, 1));
    let head = driver.add(cx, &parts);
    notify(device, cx);
    settle(device, cx);
    let used = driver.used(cx);
    assert_eq!(used.len(), 1);
    assert_eq!(used[0].0, u32::from(head));
    (cx.peek(DATA + 32, 1)[0], used[0].1)
}

#[test]
fn identification_and_wrong_sizes() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    let ids: Vec<u64> = (0..3).map(|n| device.read(&mut cx, 4 * n, 4)).collect();
    assert_eq!(ids, [0x7472_6976, 2, 2]);
    assert_eq!(device.read(&mut cx, 0, 1), 0);
    assert_eq!(device.read(&mut cx, 0, 8), 0);
    device.write(&mut cx, 0x70, 1, 1);
    assert_eq!(device.read(&mut cx, 0x70, 4), 0);
    assert_eq!(device.read(&mut cx, 0xb0, 4), 0xffff_ffff);
    let (mut empty, mut cx) = (EmptySlot, Fake::new());
    let ids: Vec<u64> = (0..3).map(|n| empty.read(&mut cx, 4 * n, 4)).collect();
    assert_eq!(ids, [0x7472_6976, 2, 0]);
}

#[test]
fn features_are_negotiated_once() {
    for device in &mut transports(|| disk(true)) {
        let (device, mut cx) = (&mut **device, Fake::new());
        let mut offered = 0;
        for select in [0, 1, 2] {
            device.write(&mut cx, 0x14, 4, select);
            let bits = device.read(&mut cx, 0x10, 4);
            assert!(select < 2 || bits == 0);
            offered |= bits << (32 * (select % 2));
        }
        assert_eq!(offered, VERSION_1 | INDIRECT | EVENT_IDX | 1 << 5 | 0x646);
        let mut try_features = |features: u64| {
            device.write(&mut cx, 0x70, 4, 0);
            for select in [0, 1] {
                device.write(&mut cx, 0x24, 4, select);
                device.write(&mut cx, 0x20, 4, features >> (32 * select) & 0xffff_ffff);
            }
            device.write(&mut cx, 0x70, 4, 0xb);
            device.read(&mut cx, 0x70, 4)
        };
        assert_eq!(try_features(1 << 5), 3); // a legacy driver
        assert_eq!(try_features(VERSION_1 | 1 << 13), 3); // not on offer
        assert_eq!(try_features(offered), 0xb);
    }
}

#[test]
fn queue_set_up_is_checked() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    assert_eq!(device.read(&mut cx, 0x34, 4), 256);
    device.write(&mut cx, 0x30, 4, 1);
    assert_eq!(device.read(&mut cx, 0x34, 4), 0);
    device.write(&mut cx, 0x44, 4, 1);
    assert_eq!(device.read(&mut cx, 0x44, 4), 0);
    device.write(&mut cx, 0x30, 4, 0xffff_ffff);
    device.write(&mut cx, 0x38, 4, 8);
    assert_eq!(device.read(&mut cx, 0x44, 4), 0);
    // A size of 0, 3, 512 or 65536 is ignored: the ring is still 8 long.
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 8);
    for size in [0, 3, 512, 65536, 16] {
        device.write(&mut cx, 0x38, 4, size);
    }
    for _ in 0..20 {
        assert_eq!(request(&mut device, &mut driver, &mut cx, 0, 0, 512), (0, 513));
    }
}

#[test]
fn block_configuration_space() {
    for device in &mut transports(|| disk(false)) {
        let (device, mut cx) = (&mut **device, Fake::new());
        assert_eq!(device.read(&mut cx, 0x100, 8), SECTORS);
        assert_eq!(device.read(&mut cx, 0x100, 4), SECTORS);
        assert_eq!(device.read(&mut cx, 0x104, 4), 0);
        assert_eq!(device.read(&mut cx, 0x10c, 4), 126);
        assert_eq!(device.read(&mut cx, 0x114, 4), 512);
        assert_eq!(device.read(&mut cx, 0x118, 1), 3);
        assert_eq!(device.read(&mut cx, 0x11a, 2), 8);
        assert_eq!(device.read(&mut cx, 0x11c, 8), 0);
        assert_eq!(device.read(&mut cx, u64::MAX, 8), 0);
    }
}

#[test]
fn blocks_are_read_and_written() {
    for device in &mut transports(|| disk(false)) {
        let (device, mut cx) = (&mut **device, Fake::new());
        let mut driver = Driver::start(device, &mut cx, VERSION_1, 16);
        cx.disk
            .extend([((0, 0), [0xee; BLOCK_SIZE]), ((0, 1), [0xee; BLOCK_SIZE])]);
        // Seven sectors from sector 5: the end of block 0 and the beginning of block 1.
        let pattern: Vec<u8> = (0..7 * 512).map(|n| (n / 7) as u8 | 1).collect();
        cx.poke(DATA + 64, &pattern);
        assert_eq!(request(device, &mut driver, &mut cx, 1, 5, 7 * 512), (0, 1));
        let mut expected = vec![0xee; 5 * 512];
        expected.extend(&pattern);
        expected.resize(2 * BLOCK_SIZE, 0xee);
        let disk = [cx.disk[&(0, 0)], cx.disk[&(0, 1)]].concat();
        assert_eq!(disk, expected);
        cx.poke(DATA + 64, &vec![0; 16 * 512]);
        assert_eq!(
            request(device, &mut driver, &mut cx, 0, 1, 15 * 512),
            (0, 15 * 512 + 1)
        );
        assert_eq!(cx.peek(DATA + 64, 15 * 512), &expected[512..]);
        assert_eq!(request(device, &mut driver, &mut cx, 4, 0, 0), (0, 1));
        assert_eq!(request(device, &mut driver, &mut cx, 8, 0, 20), (0, 21));
        assert_eq!(cx.peek(DATA + 64, 20), b"tickback-0\0\0\0\0\0\0\0\0\0\0");
    }
}

#[test]
fn bad_block_requests_fail_alone() {
    for device in &mut transports(|| disk(false)) {
        let (device, mut cx) = (&mut **device, Fake::new());
        let mut driver = Driver::start(device, &mut cx, VERSION_1, 16);
        for (kind, sector, len, status) in [
            (0, SECTORS, 512, 1),
            (0, SECTORS - 1, 1024, 1),
            (0, u64::MAX, 512, 1),
            (0, u64::MAX / 512 + 1, 512, 1),
            (0, 0, 511, 1),
            (1, SECTORS, 512, 1),
            (0, 0, RAM_SIZE as u32, 1), // past the end of RAM
            (77, 0, 512, 2),
            (0, SECTORS - 1, 512, 0),
            (1, SECTORS - 1, 512, 0),
        ] {
            let (found, _) = request(device, &mut driver, &mut cx, kind, sector, len);
            assert_eq!(found, status, "{kind} {sector} {len}");
            assert_eq!(device.read(&mut cx, 0x70, 4), 0xf);
        }
    }
    let (mut device, mut cx) = (blk(true), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 16);
    assert_eq!(request(&mut device, &mut driver, &mut cx, 1, 0, 512).0, 1);
    assert!(cx.disk.is_empty());
}

#[test]
fn requests_complete_in_their_own_time() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 16);
    cx.disk.insert((0, 0), [1; BLOCK_SIZE]);
    cx.now = VirtualTime(1000);
    header(&mut cx, DATA, 0, 0);
    let add = |driver: &mut Driver, cx: &mut Fake, len| {
        driver.add(
            cx,
            &[
                Part::Read(DATA, 16),
                Part::Write(DATA + 64, len),
                Part::Write(DATA + 32, 1),
            ],
        )
    };
    let long = add(&mut driver, &mut cx, 4096);
    let short = add(&mut driver, &mut cx, 512);
    notify(&mut device, &mut cx);
    cx.take();
    assert_eq!(device.deadline(), Some(VirtualTime(1000 + 50_000 + 512)));
    // The data is what the disk holds at completion.
    cx.disk.insert((0, 0), [2; BLOCK_SIZE]);
    cx.now = VirtualTime(1000 + 50_000 + 511);
    device.fire(&mut cx);
    assert!(cx.effects.is_empty());
    cx.now.0 += 1;
    device.fire(&mut cx);
    assert_eq!(driver.used(&cx), [(u32::from(short), 513)]);
    assert!(cx.take().contains(&Effect::Line(LINE, true)));
    assert_eq!(cx.peek(DATA + 64, 513), [[2; 512].as_slice(), &[0]].concat());
    assert_eq!(device.deadline(), Some(VirtualTime(1000 + 50_000 + 4096)));
    settle(&mut device, &mut cx);
    assert_eq!(driver.used(&cx), [(u32::from(long), 4097)]);
    assert_eq!(device.read(&mut cx, 0x60, 4), 1);
    cx.take();
    device.write(&mut cx, 0x64, 4, 1);
    assert_eq!(cx.take(), [Effect::Line(LINE, false)]);
}

#[test]
fn requests_due_together_complete_in_order() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 16);
    header(&mut cx, DATA, 4, 0);
    let parts = [Part::Read(DATA, 16), Part::Write(DATA + 32, 1)];
    let heads: Vec<u16> = (0..4).map(|_| driver.add(&mut cx, &parts)).collect();
    notify(&mut device, &mut cx);
    settle(&mut device, &mut cx);
    let used: Vec<u16> = driver.used(&cx).iter().map(|&(head, _)| head as u16).collect();
    assert_eq!(used, heads);
}

#[test]
fn reset_forgets_requests_in_flight() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 16);
    header(&mut cx, DATA, 4, 0);
    driver.add(&mut cx, &[Part::Read(DATA, 16), Part::Write(DATA + 32, 1)]);
    notify(&mut device, &mut cx);
    device.write(&mut cx, 0x70, 4, 0);
    assert_eq!(device.deadline(), None);
    assert_eq!(device.save(), blk(false).save());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 16);
    assert_eq!(request(&mut device, &mut driver, &mut cx, 4, 0, 0), (0, 1));
}

#[test]
fn more_requests_than_may_be_in_flight_wait_in_the_ring() {
    // Only a driver that reuses buffers in flight can do that.
    let (mut device, mut cx) = (blk(false), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1 | EVENT_IDX, 256);
    header(&mut cx, DATA, 4, 0);
    let head = driver.add(&mut cx, &[Part::Read(DATA, 16), Part::Write(DATA + 32, 1)]);
    for _ in 0..3 {
        (0..100).for_each(|_| driver.publish(&mut cx, head));
        notify(&mut device, &mut cx);
    }
    let mut total = 0;
    while let Some(due) = device.deadline() {
        cx.now = due;
        device.fire(&mut cx);
        total += driver.used(&cx).len();
    }
    assert_eq!(total, 301);
}

#[test]
fn indirect_tables() {
    for device in &mut transports(|| disk(false)) {
        let (device, mut cx) = (&mut **device, Fake::new());
        let mut driver = Driver::start(device, &mut cx, VERSION_1 | INDIRECT, 4);
        cx.disk.insert((0, 0), [9; BLOCK_SIZE]);
        header(&mut cx, DATA, 0, 0);
        // Eight data segments: more than the ring has descriptors.
        let mut parts = vec![Part::Read(DATA, 3), Part::Read(DATA + 3, 13)];
        parts.extend((0..8).map(|n| Part::Write(DATA + 0x1000 + n * 0x300, 512)));
        parts.push(Part::Write(DATA + 32, 1));
        driver.add_indirect(&mut cx, DATA + 0x8000, &parts);
        notify(device, &mut cx);
        settle(device, &mut cx);
        assert_eq!(driver.used(&cx), [(0, 4097)]);
        for n in 0..8 {
            assert_eq!(cx.peek(DATA + 0x1000 + n * 0x300, 512), [9; 512]);
        }
    }
}

#[test]
fn event_index_suppresses_interrupts() {
    let (mut device, mut cx) = (rng(), Fake::new());
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1 | EVENT_IDX, 8);
    cx.poke(AVAIL + 4 + 16, &1u16.to_le_bytes()); // used_event: not before the second
    for (round, interrupts) in [(1u16, 0), (2, 1), (3, 1)] {
        driver.add(&mut cx, &[Part::Write(DATA, 8)]);
        notify(&mut device, &mut cx);
        assert_eq!(driver.used(&cx).len(), 1);
        assert_eq!(device.read(&mut cx, 0x60, 4), interrupts);
        // avail_event: notify at the next one.
        assert_eq!(cx.peek(USED + 4 + 64, 2), round.to_le_bytes());
    }
    // Without the feature, by the flag.
    let mut driver = Driver::start(&mut device, &mut cx, VERSION_1, 8);
    for (flag, interrupts) in [(1u16, 0), (0, 1)] {
        cx.poke(AVAIL, &flag.to_le_bytes());
        driver.add(&mut cx, &[Part::Write(DATA, 8)]);
        notify(&mut device, &mut cx);
        assert_eq!(device.read(&mut cx, 0x60, 4), interrupts);
    }
}

#[test]
fn entropy_is_one_stream() {
    for device in &mut transports(entropy) {
        let (device, mut cx) = (&mut **device, Fake::new());
        let mut driver = Driver::start(device, &mut cx, VERSION_1, 8);
        driver.add(&mut cx, &[Part::Write(DATA, 5), Part::Write(DATA + 5, 300)]);
        driver.add(&mut cx, &[Part::Write(DATA + 305, 95)]);
        driver.add(&mut cx, &[Part::Write(DATA + 0x1000, 0x2_0000)]);
        notify(device, &mut cx);
        assert_eq!(driver.used(&cx), [(0, 305), (2, 95), (3, 0x1_0000)]);
        let mut expected = vec![0; 400];
        blake3::Hasher::new_keyed(&[7; 32])
            .finalize_xof()
            .fill(&mut expected);
        assert_eq!(cx.peek(DATA, 400), expected);
    }
}

/// A flush request as an indirect table at DATA + 0x100.
fn good_table(cx: &mut Fake) {
    header(cx, DATA, 4, 0);
    descriptor(cx, DATA + 0x100, 0, DATA, 16, 1, 1);
    descriptor(cx, DATA + 0x100, 1, DATA + 32, 1, 2, 0);
}

#[test]
fn broken_rings_need_a_reset() {
    type Break = fn(&mut Driver, &mut Fake);
    let cases: [(&str, Break); 10] = [
        ("avail idx far ahead", |driver, cx| {
            // All 17 would be good requests.
            header(cx, DATA, 4, 0);
            driver.add(cx, &[Part::Read(DATA, 16), Part::Write(DATA + 32, 1)]);
            cx.poke(AVAIL + 2, &17u16.to_le_bytes())
        }),
        ("head outside the table", |driver, cx| driver.publish(cx, 16)),
        ("next outside the table", |driver, cx| {
            descriptor(cx, DESC, 0, DATA, 16, 1, 16);
            driver.publish(cx, 0);
        }),
        ("a loop", |driver, cx| {
            descriptor(cx, DESC, 0, DATA, 1, 1, 0);
            driver.publish(cx, 0);
        }),
        ("readable behind writable", |driver, cx| {
            driver.add(cx, &[Part::Write(DATA, 1), Part::Read(DATA, 16)]);
        }),
        ("nested indirect", |driver, cx| {
            good_table(cx);
            descriptor(cx, DATA + 0x200, 0, DATA + 0x100, 32, 4, 0);
            descriptor(cx, DESC, 0, DATA + 0x200, 16, 4, 0);
            driver.publish(cx, 0);
        }),
        ("indirect chained on", |driver, cx| {
            good_table(cx);
            descriptor(cx, DESC, 0, DATA + 0x100, 32, 5, 1);
            driver.publish(cx, 0);
        }),
        ("indirect of no whole length", |driver, cx| {
            good_table(cx);
            descriptor(cx, DESC, 0, DATA + 0x100, 33, 4, 0);
            driver.publish(cx, 0);
        }),
        ("header too short", |driver, cx| {
            driver.add(cx, &[Part::Read(DATA, 15), Part::Write(DATA, 1)]);
        }),
        ("no room for the status", |driver, cx| {
            driver.add(cx, &[Part::Read(DATA, 16)]);
        }),
    ];
    for (what, break_it) in cases {
        for device in &mut transports(|| disk(false)) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let features = VERSION_1 | INDIRECT;
            let mut driver = Driver::start(device, &mut cx, features, 16);
            break_it(&mut driver, &mut cx);
            notify(device, &mut cx);
            assert_eq!(device.read(&mut cx, 0x70, 4), 0x4f, "{what}");
            assert_eq!(device.read(&mut cx, 0x60, 4), 2, "{what}");
            assert_eq!(device.deadline(), None, "{what}");
            // Nothing moves until the reset, then all is well.
            device.write(&mut cx, 0x70, 4, 0xf);
            assert_eq!(device.read(&mut cx, 0x70, 4), 0x4f, "{what}");
            let mut driver = Driver::start(device, &mut cx, features, 16);
            assert_eq!(request(device, &mut driver, &mut cx, 4, 0, 0), (0, 1), "{what}");
        }
    }
}

#[test]
fn indirect_needs_its_feature() {
    for (features, status) in [(VERSION_1 | INDIRECT, 0xf), (VERSION_1, 0x4f)] {
        let (mut device, mut cx) = (blk(false), Fake::new());
        let mut driver = Driver::start(&mut device, &mut cx, features, 16);
        good_table(&mut cx);
        descriptor(&mut cx, DESC, 0, DATA + 0x100, 32, 4, 0);
        driver.publish(&mut cx, 0);
        notify(&mut device, &mut cx);
        assert_eq!(device.read(&mut cx, 0x70, 4), status);
    }
}

#[test]
fn accepted_features_must_be_on_offer_when_restored() {
    let (mut device, mut cx) = (blk(true), Fake::new());
    Driver::start(&mut device, &mut cx, VERSION_1 | 1 << 5, 16);
    let saved = device.save();
    assert_eq!(blk(true).restore(&saved), Ok(()));
    assert!(blk(false).restore(&saved).is_err());
}

#[test]
fn a_ring_outside_ram_needs_a_reset() {
    let (mut device, mut cx) = (blk(false), Fake::new());
    Driver::start(&mut device, &mut cx, VERSION_1, 16);
    device.write(&mut cx, 0x44, 4, 0);
    device.write(&mut cx, 0x94, 4, 0xffff_ffff);
    device.write(&mut cx, 0x90, 4, 0xffff_ffff);
    device.write(&mut cx, 0x44, 4, 1);
    notify(&mut device, &mut cx);
    assert_eq!(device.read(&mut cx, 0x70, 4), 0x4f);
}

/// A word that is often the right kind of wrong.
pub(super) fn word() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..20, any::<u16>()]
}

pub(super) fn hostile_descriptor() -> impl Strategy<Value = (u64, u32, u16, u16)> {
    let addr = prop_oneof![
        Just(DATA),
        Just(DESC),
        Just(AVAIL),
        Just(USED),
        (0..RAM_SIZE as u64).prop_map(|offset| RAM_BASE + offset),
        any::<u64>(),
    ];
    let len = prop_oneof![Just(16u32), Just(512), 0u32..64, 0u32..0x20000, any::<u32>()];
    (addr, len, prop_oneof![0u16..8, any::<u16>()], word())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever lies in the rings: no panic, bounded work, and the device can be reset.
    #[test]
    fn random_rings_are_survived(
        is_blk in any::<bool>(),
        over_pci in any::<bool>(),
        event_idx in any::<bool>(),
        descriptors in prop::collection::vec(hostile_descriptor(), 16),
        rounds in prop::collection::vec((prop::collection::vec(word(), 8), word()), 1..6),
        kind in prop_oneof![0u32..5, any::<u32>()],
        sector in prop_oneof![0u64..600, any::<u64>()],
    ) {
        let [over_mmio, bridged] = transports(if is_blk { || disk(false) } else { entropy });
        let (mut device, mut cx) = (if over_pci { bridged } else { over_mmio }, Fake::new());
        let device = &mut *device;
        let features = VERSION_1 | INDIRECT | if event_idx { EVENT_IDX } else { 0 };
        Driver::start(device, &mut cx, features, 8);
        for (n, &(addr, len, flags, next)) in descriptors.iter().enumerate() {
            descriptor(&mut cx, DESC, n as u16, addr, len, flags, next);
            descriptor(&mut cx, DATA + 0x100, n as u16, addr, len, flags, next);
        }
        header(&mut cx, DATA, kind, sector);
        for (ring, idx) in rounds {
            for (n, head) in ring.iter().enumerate() {
                cx.poke(AVAIL + 4 + 2 * n as u64, &head.to_le_bytes());
            }
            cx.poke(AVAIL + 2, &idx.to_le_bytes());
            notify(device, &mut cx);
            for _ in 0..40 {
                let Some(due) = device.deadline() else { break };
                cx.now = cx.now.max(due);
                device.fire(&mut cx);
                cx.effects.clear();
            }
            // A saved hostile state is a state like any other.
            let saved = device.save();
            prop_assert_eq!(device.restore(&saved), Ok(()));
        }
        prop_assert!(cx.dma_calls < 20_000_000);
        let mut driver = Driver::start(device, &mut cx, features, 8);
        let parts = [Part::Read(DATA, 16), Part::Write(DATA + 32, 1)];
        header(&mut cx, DATA, 4, 0);
        let head = driver.add(&mut cx, &parts);
        notify(device, &mut cx);
        settle(device, &mut cx);
        prop_assert_eq!(driver.used(&cx), [(u32::from(head), 1)]);
    }
}
