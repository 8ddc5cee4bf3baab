//! The bridge, driven through its windows; a probe of a function stands in for real ones.

use std::sync::{Arc, Mutex};

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::*;
use crate::Shadow;
use crate::fake::{Effect, Fake};

/// Accesses that reached a probe: BAR, offset, size, and what was written.
type Seen = Arc<Mutex<Vec<(u8, u64, u8, Option<u64>)>>>;

/// 32 ports in BAR 0, 4 KiB in BAR 2, five vectors in BAR 3. A store of n to port 0 requests an interrupt unless
/// n is 0; to port 4, signals vector n; to port 8, sends DMA.
struct Probe {
    pin: u8,
    seen: Seen,
}

impl Function for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn config(&self) -> Config {
        let mut config = Config::new(Identity {
            vendor: 0x1234,
            device: 0x5678,
            revision: 0x9a,
            class: [0xbc, 0xde, 0xf0],
            subsystem: (0x1111, 0x2222),
        });
        config.interrupt_pin(self.pin);
        config.bar(0, Bar::Io(32));
        config.bar(2, Bar::Memory(0x1000));
        config.msix(3, 5);
        config
    }

    fn config_reading(&mut self, _: &mut dyn Context, _: &mut Config, _: u8, _: u8) {}

    fn config_written(&mut self, _: &mut dyn Context, _: &mut Config, _: u8, _: u8) {}

    fn bar_read(&mut self, _: &mut dyn Context, _: &mut Config, bar: u8, offset: u64, size: u8) -> u64 {
        self.seen.lock().unwrap().push((bar, offset, size, None));
        0x1122_3344_5566_7788
    }

    fn bar_write(
        &mut self,
        cx: &mut dyn Context,
        config: &mut Config,
        bar: u8,
        offset: u64,
        size: u8,
        value: u64,
    ) {
        self.seen.lock().unwrap().push((bar, offset, size, Some(value)));
        match (bar, offset) {
            (0, 0) => config.set_intx(value != 0),
            (0, 4) => config.signal(cx, value as u16),
            (0, 8) => {
                let _ = cx.dma_write(crate::fake::RAM_BASE, &[value as u8]);
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _: &mut dyn Context, _: &mut Config) {}

    fn accepts(&self, _: InputKind) -> bool {
        false
    }

    fn input(&mut self, _: &mut dyn Context, _: &mut Config, _: &Input) {}

    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn reset(&mut self) {}
}

struct Board {
    pci: Pci,
    cx: Fake,
    seen: Seen,
}

const PORTS: u64 = 0xc100;
const MEMORY: u64 = 0xd000_0000;
const TABLES: u64 = 0xd000_1000;

impl Board {
    /// A probe on each of these pins.
    fn new(pins: &[u8]) -> Board {
        let seen = Seen::default();
        let card = |&pin| -> Box<dyn Function> {
            Box::new(Probe {
                pin,
                seen: seen.clone(),
            })
        };
        let pci = Pci::new(pins.iter().map(card).collect());
        let cx = Fake::new();
        Board { pci, cx, seen }
    }

    /// The same, with every probe's ports at [`PORTS`] + 32 n and memory at [`MEMORY`] + 0x2000 n.
    fn placed(pins: &[u8]) -> Board {
        let mut board = Board::new(pins);
        for n in 0..pins.len() as u8 {
            let place = (FIRST_CARD + n, 0);
            board.set(place, 0x10, 4, PORTS + 32 * u64::from(n));
            board.set(place, 0x18, 4, MEMORY + 0x2000 * u64::from(n));
            board.set(place, 0x1c, 4, TABLES + 0x2000 * u64::from(n));
            board.set(place, 0x04, 2, 7);
        }
        board
    }

    fn outl(&mut self, port: u64, value: u64) {
        self.pci.write(&mut self.cx, IO_WINDOW + port, 4, value);
    }

    fn inl(&mut self, port: u64) -> u64 {
        self.pci.read(&mut self.cx, IO_WINDOW + port, 4)
    }

    fn select(&mut self, (device, function): (u8, u8), offset: u8) {
        let place = u64::from(device) << 11 | u64::from(function) << 8;
        self.outl(0xcf8, 1 << 31 | place | u64::from(offset & 0xfc));
    }

    fn get(&mut self, place: (u8, u8), offset: u8, size: u8) -> u64 {
        self.select(place, offset);
        let port = 0xcfc + u64::from(offset & 3);
        self.pci.read(&mut self.cx, IO_WINDOW + port, size)
    }

    fn set(&mut self, place: (u8, u8), offset: u8, size: u8, value: u64) {
        self.select(place, offset);
        let port = 0xcfc + u64::from(offset & 3);
        self.pci.write(&mut self.cx, IO_WINDOW + port, size, value);
    }

    fn load(&mut self, addr: u64, size: u8) -> u64 {
        self.pci.read(&mut self.cx, MEMORY_WINDOW + addr, size)
    }

    fn store(&mut self, addr: u64, size: u8, value: u64) {
        self.pci.write(&mut self.cx, MEMORY_WINDOW + addr, size, value);
    }

    fn seen(&mut self) -> Vec<(u8, u64, u8, Option<u64>)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

const CARD: (u8, u8) = (FIRST_CARD, 0);

#[test]
fn the_bus_is_found_by_walking_it() {
    let mut board = Board::new(&[1]);
    let mut found = Vec::new();
    for bus in 0..3 {
        for place in 0..256 {
            board.outl(0xcf8, 1 << 31 | bus << 16 | place << 8);
            let id = board.inl(0xcfc);
            if id != 0xffff_ffff {
                found.push((bus, place >> 3, place & 7, id));
            }
        }
    }
    assert_eq!(
        found,
        [
            (0, 0, 0, 0x1237_8086),
            (0, 1, 0, 0x7000_8086),
            (0, 1, 1, 0x7010_8086),
            (0, 1, 3, 0x7113_8086),
            (0, 2, 0, 0x5678_1234),
        ]
    );
    // Which of them have more than one function, and what they are.
    assert_eq!(board.get((1, 0), 0x0e, 1), 0x80);
    assert_eq!(board.get(CARD, 0x0e, 1), 0);
    assert_eq!(board.get((1, 1), 0x08, 4), 0x0101_8000);
    assert_eq!(board.get(CARD, 0x08, 4), 0xbcde_f09a);
    assert_eq!(board.get(CARD, 0x2c, 4), 0x2222_1111);
    // Without enable, the data port is any port.
    board.outl(0xcf8, 0);
    assert_eq!(board.inl(0xcfc), 0xffff_ffff);
    board.outl(0xcf8, 0xffff_ffff);
    assert_eq!(board.inl(0xcf8), 0x80ff_fffc);
    // The address is only set whole.
    board.pci.write(&mut board.cx, 0xcf8, 2, 0);
    assert_eq!(board.inl(0xcf8), 0x80ff_fffc);
}

#[test]
fn registers_are_reached_by_bytes_words_and_dwords() {
    let mut board = Board::new(&[1]);
    let bytes: Vec<u64> = (0..4).map(|n| board.get(CARD, n, 1)).collect();
    assert_eq!(bytes, [0x34, 0x12, 0x78, 0x56]);
    assert_eq!(board.get(CARD, 2, 2), 0x5678);
    assert_eq!(board.get(CARD, 1, 2), 0x7812);
    // Past the dword there is no register.
    assert_eq!(board.get(CARD, 3, 2), 0xffff);
    board.set(CARD, 3, 4, 0);
    board.set(CARD, 0x3c, 1, 0x0b);
    board.set(CARD, 0x3c, 4, 0x0505_050a);
    assert_eq!(board.get(CARD, 0x3c, 4), 0x010a);
    assert_eq!(board.get(CARD, 0, 4), 0x5678_1234);
}

#[test]
fn pam_says_what_the_rom_shadow_is() {
    let mut board = Board::new(&[]);
    board.cx.take();
    let mut set = |register, value| {
        board.set((0, 0), register, 1, value);
        board.cx.take()
    };
    let part = |addr, len, bits: u8| {
        let rights = Shadow {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
        };
        Effect::Shadow(addr, len, rights)
    };
    // PAM0's low half is reserved.
    assert_eq!(set(0x59, 0x1f), [part(0xf_0000, 0x1_0000, 1)]);
    assert_eq!(set(0x59, 0x10), []);
    assert_eq!(set(0x5a, 0x02), [part(0xc_0000, 0x4000, 2)]);
    assert_eq!(set(0x5a, 0x32), [part(0xc_4000, 0x4000, 3)]);
    assert_eq!(
        set(0x5f, 0x33),
        [part(0xe_8000, 0x4000, 3), part(0xe_c000, 0x4000, 3)]
    );
    board.pci.reset(&mut board.cx);
    assert_eq!(board.cx.take().len(), 5);
}

#[test]
fn chipset_registers_keep_what_firmware_writes() {
    let mut board = Board::new(&[]);
    for n in 0..7 {
        board.set((0, 0), 0x59 + n, 1, 0xff);
    }
    assert_eq!(board.get((0, 0), 0x58, 4), 0x3333_3000);
    assert_eq!(board.get((0, 0), 0x5c, 4), 0x3333_3333);
    assert_eq!(board.get((1, 0), 0x60, 4), 0x8080_8080);
    assert_eq!(board.get((1, 1), 0x40, 4), 0x8000_8000);
    board.set((1, 0), 0x60, 4, 0x0b0b_0a0a);
    assert_eq!(board.get((1, 0), 0x60, 4), 0x0b0b_0a0a);
    board.set((1, 3), 0x40, 4, 0xb001);
    assert_eq!(board.get((1, 3), 0x40, 4), 0x601);
    assert_eq!(board.get((1, 3), 0x3c, 2), 0x0109);
    assert_eq!(board.get((1, 3), 0x58, 4), 0x0200_0000);
    board.set((1, 1), 0x20, 4, 0xffff_ffff);
    assert_eq!(board.get((1, 1), 0x20, 4), 0xffff_fff1);
    // An idle bus master.
    board.set((1, 1), 0x20, 4, 0xc041);
    board.set((1, 1), 0x04, 2, 5);
    assert_eq!(board.inl(0xc040), 0);
    assert_eq!(board.inl(0xc050), 0xffff_ffff);
}

#[test]
fn base_address_registers_tell_their_size_and_decode() {
    let mut board = Board::new(&[1]);
    for (offset, found) in [
        (0x10, 0xffff_ffe1),
        (0x14, 0),
        (0x18, 0xffff_f000),
        (0x1c, 0xffff_f000),
        (0x20, 0),
        (0x24, 0),
        (0x30, 0),
    ] {
        board.set(CARD, offset, 4, 0xffff_ffff);
        assert_eq!(board.get(CARD, offset, 4), found, "{offset:#x}");
    }
    board.set(CARD, 0x10, 4, PORTS);
    board.set(CARD, 0x18, 4, MEMORY);
    assert_eq!(board.get(CARD, 0x10, 4), PORTS | 1);
    // Nothing is decoded before the command register says so, each space for itself.
    assert_eq!((board.inl(PORTS), board.load(MEMORY, 8)), (0xffff_ffff, u64::MAX));
    board.set(CARD, 0x04, 2, 1);
    assert_eq!(
        (board.inl(PORTS), board.load(MEMORY, 4)),
        (0x5566_7788, 0xffff_ffff)
    );
    board.set(CARD, 0x04, 2, 2);
    assert_eq!(
        (board.inl(PORTS), board.load(MEMORY, 4)),
        (0xffff_ffff, 0x5566_7788)
    );
    assert_eq!(board.seen(), [(0, 0, 4, None), (2, 0, 4, None)]);
    // From the first byte to the last, and no access that sticks out.
    assert_eq!(board.load(MEMORY - 1, 1), 0xff);
    assert_eq!(board.load(MEMORY - 1, 2), 0xffff);
    assert_eq!(board.load(MEMORY + 0xfff, 1), 0x88);
    assert_eq!(board.load(MEMORY + 0xfff, 2), 0xffff);
    assert_eq!(board.load(MEMORY + 0x1000, 1), 0xff);
    board.store(MEMORY + 0xff8, 8, u64::MAX);
    board.store(MEMORY + 0x10, 2, u64::MAX);
    board.store(MEMORY + 0x1000, 1, 0);
    assert_eq!(
        board.seen(),
        [
            (2, 0xfff, 1, None),
            (2, 0xff8, 8, Some(u64::MAX)),
            (2, 0x10, 2, Some(0xffff))
        ]
    );
    // Moved.
    board.set(CARD, 0x18, 4, MEMORY + 0x1000);
    assert_eq!(board.load(MEMORY, 4), 0xffff_ffff);
    assert_eq!(board.load(MEMORY + 0x1000, 4), 0x5566_7788);
    // At the very end of the space, and at 0, where it decodes nothing.
    board.set(CARD, 0x18, 4, 0xffff_ffff);
    assert_eq!(board.load(0xffff_fff8, 8), 0x1122_3344_5566_7788);
    assert_eq!(board.load(0xffff_ffff, 2), 0xffff);
    board.set(CARD, 0x18, 4, 0);
    assert_eq!(board.load(0, 4), 0xffff_ffff);
}

/// Requests or withdraws the interrupt of probe n.
fn request(board: &mut Board, n: u64, level: bool) -> Vec<Effect> {
    board.outl(PORTS + 32 * n, level.into());
    board.cx.take()
}

#[test]
fn pins_reach_their_lines() {
    // Devices 2 to 10; those 8 apart share a line.
    let mut board = Board::placed(&[1, 1, 4, 2, 1, 1, 1, 1, 1]);
    for (n, line) in [(0, 18), (1, 19), (2, 23), (3, 22)] {
        assert_eq!(request(&mut board, n, true), [Effect::Line(line, true)]);
        assert_eq!(request(&mut board, n, false), [Effect::Line(line, false)]);
    }
    assert_eq!(request(&mut board, 0, true), [Effect::Line(18, true)]);
    assert_eq!(request(&mut board, 8, true), []);
    assert_eq!(request(&mut board, 0, false), []);
    assert_eq!(request(&mut board, 8, false), [Effect::Line(18, false)]);
}

#[test]
fn pirqs_reach_the_line_that_the_route_says() {
    let mut board = Board::placed(&[1, 1, 1]);
    // Device 2 on PIRQB, 3 on PIRQC, 4 on PIRQD.
    board.set((1, 0), 0x60, 4, 0x0b0b_0a80);
    let up = [Effect::Line(10, true), Effect::Line(18, true)];
    assert_eq!(request(&mut board, 0, true), up);
    assert_eq!(
        request(&mut board, 1, true),
        [Effect::Line(11, true), Effect::Line(19, true)]
    );
    // Two PIRQs on one IRQ are wired-or.
    assert_eq!(request(&mut board, 2, true), [Effect::Line(20, true)]);
    assert_eq!(request(&mut board, 1, false), [Effect::Line(19, false)]);
    // The route moves under an asserted line, and goes.
    board.set((1, 0), 0x61, 1, 5);
    assert_eq!(board.cx.take(), [Effect::Line(5, true), Effect::Line(10, false)]);
    board.set((1, 0), 0x61, 1, 0x85);
    assert_eq!(board.cx.take(), [Effect::Line(5, false)]);
    // The timer's, the cascade's and other IRQs can't be had.
    for irq in [0, 1, 2, 8, 13] {
        board.set((1, 0), 0x61, 1, irq);
        assert_eq!(board.cx.take(), []);
    }
    board.pci.reset(&mut board.cx);
    assert_eq!(
        board.cx.take(),
        [
            Effect::Line(11, false),
            Effect::Line(18, false),
            Effect::Line(20, false)
        ]
    );
}

#[test]
fn without_bus_mastering_nothing_leaves_a_function() {
    let mut board = Board::placed(&[1]);
    board.set(CARD, 0x42, 2, 0x8000);
    for n in 0..4 {
        board.store(TABLES + 4 * n, 4, 0);
    }
    let try_both = |board: &mut Board| {
        board.outl(PORTS + 8, 1);
        board.outl(PORTS + 4, 0);
        board.cx.take().len()
    };
    assert_eq!(try_both(&mut board), 2);
    board.set(CARD, 0x04, 2, 3);
    assert_eq!(try_both(&mut board), 0);
}

#[test]
fn a_state_with_other_read_only_bits_is_refused() {
    let (mut one, mut two) = (Board::new(&[1]), Board::new(&[2]));
    let before = two.pci.save();
    assert!(two.pci.restore(&one.pci.save()).is_err());
    assert_eq!(two.pci.save(), before);
    assert!(Board::new(&[]).pci.restore(&before).is_err());
    one.set(CARD, 0x3c, 1, 9);
    two.pci = Board::new(&[1]).pci;
    two.pci.restore(&one.pci.save()).unwrap();
    assert_eq!(two.get(CARD, 0x3c, 1), 9);
}

#[derive(Clone, Debug)]
enum Step {
    Signal(u16),
    Mask(u16, bool),
    Function(bool, bool),
    Entry(u16, u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u16..8).prop_map(Step::Signal),
        (0u16..5, any::<bool>()).prop_map(|(vector, masked)| Step::Mask(vector, masked)),
        (prop::bool::weighted(0.7), any::<bool>()).prop_map(|(on, masked)| Step::Function(on, masked)),
        (0u16..5, any::<u32>(), any::<u32>()).prop_map(|(n, addr, data)| Step::Entry(n, addr, data)),
    ]
}

fn place() -> impl Strategy<Value = (u8, u8)> {
    prop_oneof![
        3 => (2u8..5, Just(0u8)),
        2 => prop::sample::select(&[(0u8, 0u8), (1, 0), (1, 1), (1, 3)][..]),
        1 => (0u8..32, 0u8..8),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Vectors against a model: each signal is one message, at once or when the last mask goes.
    #[test]
    fn messages_are_sent_once_unmasked(steps in prop::collection::vec(step(), 1..80)) {
        let mut board = Board::placed(&[1]);
        let mut entries = [(0u32, 0u32, true, false); 5]; // address, data, masked, pending
        let (mut on, mut all_masked) = (false, false);
        for step in steps {
            board.cx.take();
            match step {
                Step::Signal(vector) => {
                    board.outl(PORTS + 4, vector.into());
                    if let Some(entry) = entries.get_mut(usize::from(vector)).filter(|_| on) {
                        entry.3 = true;
                    }
                }
                Step::Mask(vector, masked) => {
                    board.store(TABLES + 16 * u64::from(vector) + 12, 4, masked.into());
                    entries[usize::from(vector)].2 = masked;
                }
                Step::Function(enable, mask) => {
                    let control = u64::from(enable) << 15 | u64::from(mask) << 14;
                    board.set(CARD, 0x42, 2, control | 0x3fff);
                    prop_assert_eq!(board.get(CARD, 0x42, 2), control | 4);
                    (on, all_masked) = (enable, mask);
                }
                Step::Entry(vector, addr, data) => {
                    let at = TABLES + 16 * u64::from(vector);
                    board.store(at, 4, addr.into());
                    board.store(at + 8, 4, data.into());
                    let entry = &mut entries[usize::from(vector)];
                    (entry.0, entry.1) = (addr & !3, data);
                }
            }
            let mut expected = Vec::new();
            let mut pending = 0;
            for (n, entry) in entries.iter_mut().enumerate() {
                if entry.3 && on && !all_masked && !entry.2 {
                    expected.push(Effect::Message(entry.0.into(), entry.1));
                    entry.3 = false;
                }
                pending |= u64::from(entry.3) << n;
            }
            prop_assert_eq!(board.cx.take(), expected);
            prop_assert_eq!(board.load(TABLES + 0x800, 8), pending);
        }
    }

    /// Whatever is stored in configuration spaces: what is read-only stays, the bus is still the same, and
    /// nothing decodes but where a register says.
    #[test]
    fn random_configuration_is_survived(
        writes in prop::collection::vec(
            (place(), any::<u8>(), prop::sample::select(&[1u8, 2, 4][..]), any::<u64>()),
            0..200,
        ),
        accesses in prop::collection::vec((any::<u32>(), any::<u64>()), 20),
    ) {
        let (mut board, mut fresh) = (Board::placed(&[1, 2, 3]), Board::placed(&[1, 2, 3]));
        for (place, offset, size, value) in writes {
            board.set(place, offset, size, value);
        }
        for device in 0..32 {
            for function in 0..8 {
                for offset in [0x00, 0x08, 0x0c, 0x2c, 0x34, 0x44, 0x48] {
                    let place = (device, function);
                    prop_assert_eq!(board.get(place, offset, 4), fresh.get(place, offset, 4));
                }
            }
        }
        // Off, and nothing is there.
        for device in 0..5 {
            for function in 0..4 {
                board.set((device, function), 4, 2, 0);
            }
        }
        for (addr, value) in accesses {
            board.store(addr.into(), 8, value);
            prop_assert_eq!(board.load(addr.into(), 8), u64::MAX);
            prop_assert_eq!(board.inl(u64::from(addr & 0xffff | 0x8000)), 0xffff_ffff);
        }
        let saved = board.pci.save();
        prop_assert!(fresh.pci.restore(&saved).is_ok());
        prop_assert_eq!(fresh.pci.save(), saved);
    }
}

/// A PC with a disk, its IDE function set up as firmware does it.
fn with_ide() -> Pci {
    let disk = ide::Unit::Disk {
        drive: 0,
        sectors: 512,
        read_only: false,
        serial: String::new(),
    };
    Pci::new(Vec::new()).with_ide(Ide::new([[Some(disk), None], [None, None]]))
}

fn wait(pci: &mut Pci, cx: &mut Fake) {
    while let Some(due) = pci.deadline() {
        cx.now = due;
        pci.fire(cx);
    }
}

#[test]
fn the_ide_controller_is_at_its_ports_and_behind_its_function() {
    const BASE: u64 = 0xc000;
    const TABLE: u64 = crate::fake::RAM_BASE;
    let (mut pci, cx) = (with_ide(), &mut Fake::new());
    cx.disk.insert((0, 0), [0x5a; crate::BLOCK_SIZE]);
    // The legacy ports need no set-up.
    assert_eq!(pci.read(cx, 0x1f7, 1), 0x50);
    assert_eq!(pci.read(cx, 0x3f6, 1), 0x50);
    assert_eq!(pci.read(cx, 0x177, 1), 0x7f);
    assert_eq!(pci.read(cx, BASE + 2, 1), 0xff);
    let config = |pci: &mut Pci, cx: &mut Fake, register: u64, value: u64| {
        pci.write(cx, 0xcf8, 4, 0x8000_0900 | register);
        pci.write(cx, 0xcfc, 4, value);
    };
    config(&mut pci, cx, 0x20, BASE);
    config(&mut pci, cx, 0x04, 1);
    assert_eq!(pci.read(cx, BASE + 2, 1), 0);
    cx.poke(TABLE, &(TABLE as u32 + 0x1000).to_le_bytes());
    cx.poke(TABLE + 4, &[0, 2, 0, 0x80]);
    let read = |pci: &mut Pci, cx: &mut Fake| {
        pci.write(cx, BASE + 4, 4, TABLE);
        pci.write(cx, BASE, 1, 0);
        pci.write(cx, BASE, 1, 9);
        for (port, value) in [(0x1f2, 1), (0x1f3, 0), (0x1f6, 0xe0), (0x1f7, 0xc8)] {
            pci.write(cx, port, 1, value);
        }
        wait(pci, cx);
        (pci.read(cx, BASE + 2, 1), pci.read(cx, 0x1f7, 1))
    };
    // Without Bus Master Enable nothing is reached.
    assert_eq!(read(&mut pci, cx), (6, 0x51));
    config(&mut pci, cx, 0x04, 5);
    pci.write(cx, BASE + 2, 1, 6);
    assert_eq!(read(&mut pci, cx), (4, 0x50));
    assert_eq!(cx.peek(TABLE + 0x1000, 512), [0x5a; 512]);
    assert!(cx.take().contains(&Effect::Line(14, true)));
    // It is saved and reset with its bus.
    pci.write(cx, 0x1f3, 1, 0x77);
    let saved = pci.save();
    let mut other = with_ide();
    other.restore(&saved).unwrap();
    assert_eq!(other.read(cx, 0x1f3, 1), 0x77);
    assert!(Pci::new(Vec::new()).restore(&saved).is_err());
    other.reset(cx);
    assert_eq!(other.read(cx, 0x1f3, 1), 1);
}
