//! A virtio card on a PCI bus for tests: takes the accesses that a virtio-mmio driver makes and makes them
//! through the bridge, so that what drives one transport drives both.

use super::{PciTransport, VirtioDevice};
use crate::fake::Fake;
use crate::pci::{IO_WINDOW, MEMORY_WINDOW, Pci};
use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime};

/// Where the structures of a card are put.
pub const fn bar(device: u8) -> u64 {
    0xc000_0000 + 0x1_0000 * device as u64
}

/// Where its MSI-X tables are put.
pub const fn msix_bar(device: u8) -> u64 {
    bar(device) + 0x8000
}

/// An access of the bus: offset, size, value.
pub type Write = (u64, u8, u64);

/// The stores that put `value` at `offset` of a card's configuration space.
pub fn config_write(device: u8, offset: u8, size: u8, value: u64) -> [Write; 2] {
    let address = 1 << 31 | u64::from(device) << 11 | u64::from(offset & !3);
    let data = IO_WINDOW + 0xcfc + u64::from(offset & 3);
    [(IO_WINDOW + 0xcf8, 4, address), (data, size, value)]
}

/// The stores that place a card's registers and let it run.
pub fn configure(device: u8) -> Vec<Write> {
    let mut writes = Vec::new();
    writes.extend(config_write(device, 0x14, 4, msix_bar(device)));
    writes.extend(config_write(device, 0x20, 4, bar(device)));
    writes.extend(config_write(device, 0x04, 2, 6));
    writes
}

/// The load or store of a card that does what one of 4 bytes of a virtio-mmio register does.
pub fn register(device: u8, offset: u64, value: u64) -> Option<Write> {
    let (at, size) = match offset {
        0x010 => (0x04, 4),
        0x014 => (0x00, 4),
        0x020 => (0x0c, 4),
        0x024 => (0x08, 4),
        0x030 => (0x16, 2),
        0x034 | 0x038 => (0x18, 2),
        0x044 => (0x1c, 2),
        0x050 => (0x3000 + 4 * value, 2),
        0x060 => (0x1000, 1),
        0x070 => (0x14, 1),
        0x080 | 0x084 => (offset - 0x080 + 0x20, 4),
        0x090 | 0x094 => (offset - 0x090 + 0x28, 4),
        0x0a0 | 0x0a4 => (offset - 0x0a0 + 0x30, 4),
        _ => return None,
    };
    Some((MEMORY_WINDOW + bar(device) + at, size, value))
}

/// The bridge with one card.
pub struct Bridged {
    pub pci: Pci,
}

/// The card's device number.
pub const CARD: u8 = crate::pci::FIRST_CARD;

impl Bridged {
    pub fn new(device: Box<dyn VirtioDevice>) -> Self {
        let mut pci = Pci::new(vec![Box::new(PciTransport::new(device))]);
        for (offset, size, value) in configure(CARD) {
            pci.write(&mut Fake::new(), offset, size, value);
        }
        Bridged { pci }
    }

    pub fn config_read(&mut self, cx: &mut Fake, offset: u8, size: u8) -> u64 {
        let [address, data] = config_write(CARD, offset, size, 0);
        self.pci.write(cx, address.0, address.1, address.2);
        self.pci.read(cx, data.0, data.1)
    }

    pub fn config_write(&mut self, cx: &mut Fake, offset: u8, size: u8, value: u64) {
        for (offset, size, value) in config_write(CARD, offset, size, value) {
            self.pci.write(cx, offset, size, value);
        }
    }

    /// A load from the card's structures.
    pub fn bar_read(&mut self, cx: &mut Fake, offset: u64, size: u8) -> u64 {
        self.pci.read(cx, MEMORY_WINDOW + bar(CARD) + offset, size)
    }

    pub fn bar_write(&mut self, cx: &mut Fake, offset: u64, size: u8, value: u64) {
        self.pci
            .write(cx, MEMORY_WINDOW + bar(CARD) + offset, size, value);
    }

    /// A load from its MSI-X tables.
    pub fn msix_read(&mut self, cx: &mut Fake, offset: u64) -> u64 {
        self.pci.read(cx, MEMORY_WINDOW + msix_bar(CARD) + offset, 4)
    }

    pub fn msix_write(&mut self, cx: &mut Fake, offset: u64, value: u64) {
        self.pci
            .write(cx, MEMORY_WINDOW + msix_bar(CARD) + offset, 4, value);
    }
}

impl Device for Bridged {
    fn name(&self) -> &'static str {
        self.pci.name()
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        if let Some(offset) = offset.checked_sub(0x100) {
            return self
                .pci
                .read(cx, MEMORY_WINDOW + bar(CARD) + 0x2000 + offset.min(0xff8), size);
        }
        register(CARD, offset, 0).map_or(0, |(offset, size, _)| self.pci.read(cx, offset, size))
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        if let Some(offset) = offset.checked_sub(0x100) {
            let offset = MEMORY_WINDOW + bar(CARD) + 0x2000 + offset.min(0xff8);
            self.pci.write(cx, offset, size, value);
        } else if let Some((offset, size, value)) = register(CARD, offset, value) {
            self.pci.write(cx, offset, size, value);
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.pci.deadline()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        self.pci.fire(cx);
    }

    fn line_changed(&mut self, cx: &mut dyn Context, line: u32, level: bool) {
        self.pci.line_changed(cx, line, level);
    }

    fn accepts(&self, kind: InputKind) -> bool {
        self.pci.accepts(kind)
    }

    fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        self.pci.input(cx, input);
    }

    fn save(&self) -> Vec<u8> {
        self.pci.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.pci.restore(bytes)
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        self.pci.reset(cx);
    }
}
