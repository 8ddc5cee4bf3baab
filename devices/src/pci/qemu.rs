//! Our bus and QEMU's PC, by its qtest protocol: the same functions in the same places, the same sizes of base
//! address registers, and the same answers to random accesses of configuration spaces, MSI-X tables and virtio's
//! common configuration. Run it with
//!
//! ```text
//!   cargo test -p devices pci::qemu
//! ```
//!
//! Cards are found by their capabilities on each side, so that only what drivers rely on must be equal. Left out
//! is what QEMU does otherwise than the manuals that we follow, or leaves to the driver:
//!
//! - registers of the chipset keep reserved bits there, and PMBASE and the IDE's other registers move;
//! - so do MSI-X entries;
//! - the structures' BAR is 64 bits wide and prefetchable there;
//! - which features are on offer, how many queues a network card or console has, and what a driver does that it must not do: setting up a queue that is enabled,
//!   odd sizes, features that are not on offer, registers by halves.

use super::*;
use crate::fake::Fake;
use crate::qemu::{Qemu, Random, installed};
use crate::virtio::{Blk, Console, Net, PciTransport, Rng};

const PROGRAM: &str = "qemu-system-x86_64";
const MACHINE: &str = "-machine pc,smm=off -blockdev driver=null-co,node-name=d,size=32768 \
                       -device virtio-blk-pci,addr=2,disable-legacy=on,drive=d \
                       -device virtio-rng-pci,addr=3,disable-legacy=on \
                       -netdev user,id=n,restrict=on \
                       -device virtio-net-pci,addr=4,disable-legacy=on,netdev=n,vectors=3,mac=52:54:00:12:34:56 \
                       -device virtio-serial-pci,addr=5,disable-legacy=on,max_ports=1,vectors=3";
const SECTORS: u64 = 64;

/// A function: device and number.
type Place = (u8, u8);

/// A PC, by its bus.
trait Side {
    fn port_read(&mut self, port: u16, size: u8) -> u64;
    fn port_write(&mut self, port: u16, size: u8, value: u64);
    fn load(&mut self, addr: u64, size: u8) -> u64;
    fn store(&mut self, addr: u64, size: u8, value: u64);

    fn select(&mut self, (device, number): Place, offset: u8) -> u16 {
        let place = u64::from(device << 3 | number) << 8;
        self.port_write(0xcf8, 4, 1 << 31 | place | u64::from(offset & 0xfc));
        0xcfc + u16::from(offset & 3)
    }

    fn get(&mut self, place: Place, offset: u8, size: u8) -> u64 {
        let port = self.select(place, offset);
        self.port_read(port, size)
    }

    fn set(&mut self, place: Place, offset: u8, size: u8, value: u64) {
        let port = self.select(place, offset);
        self.port_write(port, size, value);
    }
}

struct Ours {
    pci: Pci,
    cx: Fake,
}

impl Ours {
    fn new() -> Ours {
        let blk = PciTransport::new(Box::new(Blk::new(0, SECTORS, false, "")));
        let rng = PciTransport::new(Box::new(Rng::new([0; 32])));
        let net = PciTransport::new(Box::new(Net::new(0, [0x52, 0x54, 0, 0x12, 0x34, 0x56])));
        let console = PciTransport::new(Box::new(Console::new(0)));
        Ours {
            pci: Pci::new(vec![
                Box::new(blk),
                Box::new(rng),
                Box::new(net),
                Box::new(console),
            ]),
            cx: Fake::new(),
        }
    }
}

impl Side for Ours {
    fn port_read(&mut self, port: u16, size: u8) -> u64 {
        self.pci.read(&mut self.cx, IO_WINDOW + u64::from(port), size)
    }

    fn port_write(&mut self, port: u16, size: u8, value: u64) {
        let offset = IO_WINDOW + u64::from(port);
        self.pci.write(&mut self.cx, offset, size, value);
    }

    fn load(&mut self, addr: u64, size: u8) -> u64 {
        self.pci.read(&mut self.cx, MEMORY_WINDOW + addr, size)
    }

    fn store(&mut self, addr: u64, size: u8, value: u64) {
        self.pci.write(&mut self.cx, MEMORY_WINDOW + addr, size, value);
    }
}

fn letter(size: u8) -> char {
    match size {
        1 => 'b',
        2 => 'w',
        4 => 'l',
        _ => 'q',
    }
}

impl Side for Qemu {
    fn port_read(&mut self, port: u16, size: u8) -> u64 {
        self.ask(&format!("in{} {port:#x}", letter(size)))
    }

    fn port_write(&mut self, port: u16, size: u8, value: u64) {
        let value = value & ones(size);
        self.command(&format!("out{} {port:#x} {value:#x}", letter(size)));
    }

    fn load(&mut self, addr: u64, size: u8) -> u64 {
        self.ask(&format!("read{} {addr:#x}", letter(size)))
    }

    fn store(&mut self, addr: u64, size: u8, value: u64) {
        let value = value & ones(size);
        self.command(&format!("write{} {addr:#x} {value:#x}", letter(size)));
    }
}

/// What a driver finds out about a virtio card.
#[derive(Debug, Default)]
struct Layout {
    common: u64,
    notify: (u64, u64),
    isr: u64,
    device: u64,
    table: u64,
    pending: u64,
    /// Configuration offsets of the window and of MSI-X.
    window: u8,
    msix: u8,
    vectors: u64,
    /// The BAR of the common configuration, and where in it that begins.
    window_target: (u64, u64),
}

/// Where the BARs of a card are put.
fn base(place: Place, bar: u64) -> u64 {
    0xe000_0000 + 0x10_0000 * u64::from(place.0) + 0x1_0000 * bar
}

/// Places a card's memory, lets it run, and walks its capabilities as a driver does.
fn find(side: &mut dyn Side, place: Place) -> Layout {
    let mut bar = 0;
    while bar < 6 {
        let offset = 0x10 + 4 * bar as u8;
        side.set(place, offset, 4, 0xffff_ffff);
        let found = side.get(place, offset, 4);
        if found != 0 {
            assert_eq!(found & 1, 0, "{place:?} has ports");
            side.set(place, offset, 4, base(place, bar));
        }
        if found & 6 == 4 {
            side.set(place, offset + 4, 4, 0);
            bar += 1;
        }
        bar += 1;
    }
    side.set(place, 4, 2, 6);
    let mut layout = Layout::default();
    let mut at = side.get(place, 0x34, 1) as u8;
    while at != 0 {
        let word = |side: &mut dyn Side, field| side.get(place, at + field, 4);
        let memory = |word: u64| base(place, word & 7) + (word & !7);
        match (side.get(place, at, 1), side.get(place, at + 3, 1)) {
            (0x11, _) => {
                layout.msix = at;
                layout.vectors = (side.get(place, at + 2, 2) & 0x7ff) + 1;
                layout.table = memory(word(side, 4));
                layout.pending = memory(word(side, 8));
            }
            (0x09, kind) => {
                let bar = side.get(place, at + 4, 1);
                let offset = word(side, 8);
                let here = base(place, bar) + offset;
                assert!(kind == 5 || word(side, 12) >= 0x38);
                match kind {
                    1 => {
                        layout.common = here;
                        layout.window_target = (bar, offset);
                    }
                    2 => layout.notify = (here, word(side, 16)),
                    3 => layout.isr = here,
                    4 => layout.device = here,
                    5 => layout.window = at,
                    _ => panic!("capability of type {kind}"),
                }
            }
            (id, _) => assert_eq!(id, 0x10, "capability that nobody asked for"),
        }
        at = side.get(place, at + 1, 1) as u8;
    }
    layout
}

const CHIPSET: [Place; 4] = [(0, 0), (1, 0), (1, 1), (1, 3)];
const CARDS: [Place; 4] = [BLK, RNG, NET, CONSOLE];
const BLK: Place = (2, 0);
const RNG: Place = (3, 0);
const NET: Place = (4, 0);
const CONSOLE: Place = (5, 0);

#[test]
fn the_same_functions_are_in_the_same_places() {
    if !installed(PROGRAM) {
        return;
    }
    let (mut ours, mut qemu) = (Ours::new(), Qemu::start(PROGRAM, MACHINE));
    let mut found = Vec::new();
    for device in 0..32 {
        for number in 0..8 {
            let place = (device, number);
            if ours.get(place, 0, 2) != 0xffff {
                found.push(place);
            }
            // Identity, class, header type, subsystem and pin.
            for (offset, mask) in [
                (0x00, 0xffff_ffff),
                (0x08, 0xffff_ffff),
                (0x0c, 0x00ff_0000),
                (0x2c, 0xffff_ffff),
                (0x3c, 0x0000_ff00),
            ] {
                let [ours, theirs] =
                    [&mut ours as &mut dyn Side, &mut qemu].map(|side| side.get(place, offset, 4) & mask);
                assert_eq!(ours, theirs, "{place:?} {offset:#x}");
            }
        }
    }
    assert_eq!(found, [CHIPSET.as_slice(), &CARDS].concat());
    // What firmware goes by: routes are off, and system management mode is not to be set up.
    for (place, offset, value) in [
        ((1, 0), 0x60, 0x8080_8080),
        ((1, 3), 0x58, 0x0200_0000),
        ((0, 0), 0x5c, 0),
    ] {
        assert_eq!(ours.get(place, offset, 4), value);
        assert_eq!(qemu.get(place, offset, 4), value);
    }
    // Sizes.
    for place in [CHIPSET.as_slice(), &CARDS].concat() {
        for bar in 0..6 {
            let offset = 0x10 + 4 * bar;
            let [ours, theirs] = [&mut ours as &mut dyn Side, &mut qemu].map(|side| {
                side.set(place, offset, 4, 0xffff_ffff);
                side.get(place, offset, 4)
            });
            if CARDS.contains(&place) {
                // The upper half of the register before it, there.
                let theirs = if bar == 5 { 0 } else { theirs };
                assert_eq!(ours & !0xf, theirs & !0xf, "{place:?} BAR {bar}");
            } else {
                assert_eq!(ours, theirs, "{place:?} BAR {bar}");
            }
        }
    }
}

#[test]
fn configuration_spaces_keep_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let (mut ours, mut qemu) = (Ours::new(), Qemu::start(PROGRAM, MACHINE));
    let mut random = Random(0x0002_93b7);
    // Place, offset, size, and the bits that both keep.
    let mut registers: Vec<(Place, u8, u8, u64)> = Vec::new();
    for place in [CHIPSET.as_slice(), &CARDS].concat() {
        registers.extend([(place, 0x04, 2, 0xffff), (place, 0x3c, 1, 0xff)]);
        registers.extend([(place, 0x00, 4, 0xffff_ffff), (place, 0x2c, 2, 0xffff)]);
    }
    registers.extend((0..7).map(|n| ((0, 0), 0x59 + n, 1, if n == 0 { 0x30 } else { 0x33 })));
    registers.extend((0..4).map(|n| ((1, 0), 0x60 + n, 1, 0x8f)));
    registers.extend([((1, 1), 0x20, 4, 0xffff_ffff), ((1, 1), 0x40, 4, 0xffff_ffff)]);
    registers.extend([((2, 0), 0x14, 4, 0xffff_ffff), ((3, 0), 0x20, 4, 0xffff_fff0)]);
    for &(place, offset, size, _) in &registers {
        ours.set(place, offset, size, 0);
        qemu.set(place, offset, size, 0);
    }
    for round in 0..3000 {
        let (place, offset, size, mask) = random.pick(&registers);
        // Or a part of it.
        let (shift, size) = match (size, random.next(3)) {
            (4, 0) => (random.next(4) as u8, 1),
            (4, 1) => (2 * random.next(2) as u8, 2),
            (2, 0) => (random.next(2) as u8, 1),
            _ => (0, size),
        };
        let (offset, mask) = (offset + shift, mask >> (8 * shift) & ones(size));
        let value = random.next(1 << 31) << 1 | random.next(2);
        ours.set(place, offset, size, value);
        qemu.set(place, offset, size, value);
        let found = ours.get(place, offset, size) & mask;
        assert_eq!(
            found,
            qemu.get(place, offset, size) & mask,
            "round {round}: {place:?} {offset:#x}, {size} bytes, after {value:#x}"
        );
    }
}

/// One random access that a driver may make of a card; what it reads.
fn step(
    random: &mut Random,
    sides: [(&mut dyn Side, &Layout); 2],
    place: Place,
    enabled: &mut bool,
) -> [u64; 2] {
    // Offset in the common configuration, size, and what may be stored there.
    let size_max = if place == RNG { 8 } else { 128 };
    let (offset, size, value) = match random.next(14) {
        0 => (0x00, 4, random.next(4)),
        1 => (0x08, 4, random.next(4)),
        2 => (0x10, 2, random.pick(&[0, 1, 2, 3, 0x800, 0xffff])),
        // QEMU's network card and console have control queues.
        3 if place == BLK || place == RNG => (0x12, 2, random.next(3)),
        3 => (0x15, 1, 0),
        4 => (0x14, 1, random.pick(&[0, 1, 3, 3])),
        5 => (0x15, 1, 7),
        6 => (0x16, 2, 0),
        7 => (0x18, 2, random.pick(&[1, 2, 4, size_max])),
        8 => (0x1a, 2, random.pick(&[0, 1, 2, 0xffff])),
        9 => (0x1c, 2, 1),
        10 => (0x1e, 2, 5),
        11 => (0x20 + 4 * random.next(6), 4, 0x1000 * random.next(0x1000)),
        12 => (0x24 + 8 * random.next(3), 4, 0),
        _ => (0x20 + 8 * random.next(3), 8, 0x1000 * random.next(0x1000)),
    };
    let value = if matches!(offset, 0x24 | 0x2c | 0x34) {
        0
    } else {
        value
    };
    let is_set_up = matches!(offset, 0x18 | 0x1c..);
    let store = random.next(2) == 0 && !(is_set_up && *enabled);
    if store && offset == 0x1c {
        *enabled = true;
    }
    if store && offset == 0x14 && value == 0 {
        *enabled = false;
    }
    let by_window = random.next(4) == 0 && size <= 4 && !(store && offset == 0x14);
    sides.map(|(side, layout)| {
        if by_window {
            let (bar, start) = layout.window_target;
            side.set(place, layout.window + 4, 1, bar);
            side.set(place, layout.window + 8, 4, start + offset);
            side.set(place, layout.window + 12, 4, size.into());
            if store {
                side.set(place, layout.window + 16, size, value);
            }
            return side.get(place, layout.window + 16, size);
        }
        if store {
            side.store(layout.common + offset, size, value);
            if (offset, value) == (0x14, 0) {
                // Selectors outlive a reset there.
                side.store(layout.common, 4, 0);
                side.store(layout.common + 8, 4, 0);
            }
        }
        side.load(layout.common + offset, size)
    })
}

#[test]
fn virtio_cards_answer_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x1af4_1042);
    for place in CARDS {
        let (mut ours, mut qemu) = (Ours::new(), Qemu::start(PROGRAM, MACHINE));
        let layouts = [find(&mut ours, place), find(&mut qemu, place)];
        let [a, b] = &layouts;
        assert_eq!((a.vectors, a.notify.1), (b.vectors, b.notify.1));
        let fields: &[(u64, u8, u64)] = match place {
            BLK => &[(0, 8, SECTORS), (0x14, 4, 512)],
            NET => &[(0, 4, 0x1200_5452), (4, 2, 0x5634), (6, 2, 1)],
            _ => &[],
        };
        for &(offset, size, value) in fields {
            assert_eq!(ours.load(a.device + offset, size), value);
            assert_eq!(qemu.load(b.device + offset, size), value);
        }
        let mut enabled = false;
        for round in 0..4000 {
            let [ours, theirs] = if random.next(3) == 0 {
                // The MSI-X tables.
                let entry = 4 * random.next(4 * a.vectors);
                let mask = match entry % 16 {
                    0 => !3,
                    12 => 1,
                    _ => !0,
                };
                let value = random.next(1 << 31) << 1 | random.next(2);
                let store = random.next(2) == 0;
                [(&mut ours as &mut dyn Side, a), (&mut qemu, b)].map(|(side, layout)| {
                    if store {
                        side.store(layout.table + entry, 4, value);
                        side.store(layout.pending, 4, value);
                    }
                    let pending = side.load(layout.pending, 8);
                    assert_eq!(pending, 0);
                    assert_eq!(side.load(layout.isr, 1), 0);
                    // Enable and mask of the function.
                    side.set(place, layout.msix + 2, 2, value);
                    side.load(layout.table + entry, 4) & mask | side.get(place, layout.msix + 2, 2) << 32
                })
            } else {
                step(&mut random, [(&mut ours, a), (&mut qemu, b)], place, &mut enabled)
            };
            assert_eq!(ours, theirs, "{place:?}, round {round}");
        }
    }
}
