//! The configuration space of one function (PCI 3.0, section 6).
//!
//! 256 bytes, each with a mask of the bits that a guest can write: that alone makes identification read-only,
//! base address registers tell their size, and capabilities what they are. A [`Config`] is laid out once, when
//! its function is made; from then on only writable bits change.
//!
//! Status shows the capability list and whether an interrupt is asserted; no error is ever signalled there.
//! There is no expansion ROM, no built-in self test and no cache line size to keep.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use super::bar::{self, Bar, Space};
use super::msix::{self, Vectors};
use crate::Context;

/// Bytes of a configuration space.
const SIZE: usize = 256;

const COMMAND: u8 = 0x04;
const STATUS: u8 = 0x06;
const HEADER_TYPE: u8 = 0x0e;
const CAPABILITIES: u8 = 0x34;
const INTERRUPT_LINE: u8 = 0x3c;
const INTERRUPT_PIN: u8 = 0x3d;
/// Where the header ends, and capabilities begin.
const HEADER_END: u8 = 0x40;

const HEADER_MULTI_FUNCTION: u8 = 0x80;
const MSIX_CAPABILITY: u8 = 0x11;

bitflags! {
    /// Command register.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Command: u16 {
        const IO_SPACE = 1 << 0;
        const MEMORY_SPACE = 1 << 1;
        const BUS_MASTER = 1 << 2;
        const SERR = 1 << 8;
        const INTERRUPT_DISABLE = 1 << 10;
    }

    struct Status: u16 {
        const INTERRUPT = 1 << 3;
        const CAPABILITIES_LIST = 1 << 4;
    }
}

/// What identifies a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
    /// Base class, sub-class and programming interface, in that order.
    pub class: [u8; 3],
    /// Subsystem vendor ID and subsystem ID.
    pub subsystem: (u16, u16),
}

/// The configuration space of a function, its base address registers and its interrupts.
#[derive(Clone)]
pub struct Config {
    bytes: [u8; SIZE],
    writable: [u8; SIZE],
    bars: [Option<Bar>; bar::COUNT as usize],
    /// Where the last capability begins, and where the next one may.
    capabilities: (u8, u8),
    msix: Option<Msix>,
    /// The function's interrupt request, whatever the guest lets through.
    intx: bool,
}

#[derive(Clone)]
struct Msix {
    capability: u8,
    bar: u8,
    vectors: Vectors,
}

/// What is saved.
#[derive(Serialize, Deserialize)]
pub(super) struct State {
    bytes: Vec<u8>,
    vectors: Option<Vectors>,
    intx: bool,
}

/// Laying out.
impl Config {
    /// A header with nothing but its identity, the command register and the interrupt line.
    pub fn new(identity: Identity) -> Self {
        let mut config = Config {
            bytes: [0; SIZE],
            writable: [0; SIZE],
            bars: [None; bar::COUNT as usize],
            capabilities: (0, HEADER_END),
            msix: None,
            intx: false,
        };
        let [base, sub, interface] = identity.class;
        config.field(0x00, &identity.vendor.to_le_bytes(), &[]);
        config.field(0x02, &identity.device.to_le_bytes(), &[]);
        config.field(0x08, &[identity.revision, interface, sub, base], &[]);
        config.field(0x2c, &identity.subsystem.0.to_le_bytes(), &[]);
        config.field(0x2e, &identity.subsystem.1.to_le_bytes(), &[]);
        config.field(COMMAND, &[0; 2], &Command::all().bits().to_le_bytes());
        config.field(INTERRUPT_LINE, &[0], &[0xff]);
        config
    }

    /// Puts `value` at `offset`, of which the bits in `writable` (read-only where that is shorter) can be
    /// written. What would lie past the end is left out.
    pub fn field(&mut self, offset: u8, value: &[u8], writable: &[u8]) {
        let at = usize::from(offset);
        for (to, from) in self.bytes[at..].iter_mut().zip(value) {
            *to = *from;
        }
        let masks = writable.iter().chain(std::iter::repeat(&0));
        for (to, from) in self.writable[at..].iter_mut().zip(masks.take(value.len())) {
            *to = *from;
        }
    }

    /// One of several functions of its device.
    pub fn multi_function(&mut self) {
        self.field(HEADER_TYPE, &[HEADER_MULTI_FUNCTION], &[]);
    }

    /// The interrupt pin: 1 for INTA to 4 for INTD.
    pub fn interrupt_pin(&mut self, pin: u8) {
        self.field(INTERRUPT_PIN, &[pin], &[]);
    }

    /// Gives base address register `index` (0 to 5) its meaning.
    pub fn bar(&mut self, index: u8, bar: Bar) {
        if let Some(slot) = self.bars.get_mut(usize::from(index)) {
            *slot = Some(bar);
            let value = bar.kind().to_le_bytes();
            self.field(bar::register(index), &value, &bar.mask().to_le_bytes());
        }
    }

    /// Appends a capability of this ID, whose bytes behind the link are `body`, and returns its offset.
    pub fn capability(&mut self, id: u8, body: &[u8], writable: &[u8]) -> u8 {
        let (last, at) = self.capabilities;
        let link = if last == 0 { CAPABILITIES } else { last + 1 };
        self.field(link, &[at], &[]);
        self.field(at, &[id, 0], &[]);
        self.field(at + 2, body, writable);
        let status = Status::CAPABILITIES_LIST.bits().to_le_bytes();
        self.field(STATUS, &status, &[]);
        let next = usize::from(at + 2) + body.len();
        self.capabilities = (at, next.next_multiple_of(4).min(SIZE - 4) as u8);
        at
    }

    /// Offers MSI-X with `vectors` vectors (1 to 128), whose tables are all of memory BAR `bar`.
    pub fn msix(&mut self, bar: u8, vectors: u16) {
        self.bar(bar, Bar::Memory(msix::BAR_SIZE));
        let mut body = Vec::with_capacity(10);
        body.extend(vectors.saturating_sub(1).to_le_bytes());
        body.extend(u32::from(bar).to_le_bytes());
        body.extend((msix::PENDING | u32::from(bar)).to_le_bytes());
        let capability = self.capability(MSIX_CAPABILITY, &body, &msix::CONTROL_MASK.to_le_bytes());
        self.msix = Some(Msix {
            capability,
            bar,
            vectors: Vectors::new(vectors),
        });
    }
}

/// Running.
impl Config {
    /// The byte at `offset`.
    pub fn byte(&self, offset: u8) -> u8 {
        let byte = self.bytes[usize::from(offset)];
        if offset == STATUS && self.requests_interrupt() {
            byte | Status::INTERRUPT.bits() as u8
        } else {
            byte
        }
    }

    /// The 32 bits at `offset`; what lies past the end is zero.
    pub fn word(&self, offset: u8) -> u32 {
        let byte = |n: u8| offset.checked_add(n).map_or(0, |at| self.byte(at));
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    }

    /// A guest's store of a byte: only writable bits change.
    pub(super) fn write(&mut self, offset: u8, value: u8) {
        let at = usize::from(offset);
        let mask = self.writable[at];
        self.bytes[at] = self.bytes[at] & !mask | value & mask;
    }

    /// The function itself changes bytes that the guest can write too.
    pub fn set_bytes(&mut self, offset: u8, bytes: &[u8]) {
        for (at, &byte) in (offset..=u8::MAX).zip(bytes) {
            self.write(at, byte);
        }
    }

    /// What may have become possible by a guest's stores.
    pub(super) fn written(&mut self, cx: &mut dyn Context) {
        let control = self.msix_control();
        if let Some(msix) = &mut self.msix {
            msix.vectors.send_pending(cx, control);
        }
    }

    pub(super) fn command(&self) -> Command {
        Command::from_bits_truncate(self.word(COMMAND) as u16)
    }

    /// Which base address register decodes an access, and where in it that lies.
    pub(super) fn decode(&self, space: Space, addr: u64, size: u8) -> Option<(u8, u64)> {
        let needed = match space {
            Space::Io => Command::IO_SPACE,
            Space::Memory => Command::MEMORY_SPACE,
        };
        if !self.command().contains(needed) {
            return None;
        }
        (0..).zip(&self.bars).find_map(|(index, bar)| {
            let bar = bar.filter(|bar| bar.space() == space)?;
            let offset = bar.offset(self.word(bar::register(index)), addr, size)?;
            Some((index, offset))
        })
    }

    fn msix_control(&self) -> u16 {
        self.msix.as_ref().map_or(0, |msix| {
            self.word(msix.capability.saturating_add(msix::CONTROL)) as u16
        })
    }

    /// Whether interrupts are messages now.
    pub fn msix_enabled(&self) -> bool {
        msix::is_enabled(self.msix_control())
    }

    /// How many MSI-X vectors the function has.
    pub fn vectors(&self) -> u16 {
        self.msix.as_ref().map_or(0, |msix| msix.vectors.count())
    }

    /// Whether BAR `bar` holds the MSI-X tables.
    pub(super) fn is_msix_bar(&self, bar: u8) -> bool {
        self.msix.as_ref().is_some_and(|msix| msix.bar == bar)
    }

    pub(super) fn msix_read(&self, offset: u64, size: u8) -> u64 {
        self.msix
            .as_ref()
            .map_or(0, |msix| msix.vectors.read(offset, size))
    }

    pub(super) fn msix_write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let control = self.msix_control();
        if let Some(msix) = &mut self.msix {
            msix.vectors.write(cx, control, offset, size, value);
        }
    }

    /// Signals MSI-X vector `vector`: a message, now or when it is unmasked. Nothing while MSI-X is disabled
    /// or if there is no such vector.
    pub fn signal(&mut self, cx: &mut dyn Context, vector: u16) {
        let control = self.msix_control();
        if let Some(msix) = &mut self.msix {
            msix.vectors.signal(cx, control, vector);
        }
    }

    /// The function requests an interrupt by its pin, or no longer does. It reaches the board only while
    /// MSI-X is disabled and the command register lets it.
    pub fn set_intx(&mut self, request: bool) {
        self.intx = request;
    }

    /// Whether an interrupt by pin is requested: what the status register shows.
    fn requests_interrupt(&self) -> bool {
        self.intx && !self.msix_enabled()
    }

    /// The pin (0 for INTA) that is asserted, if one is.
    pub(super) fn asserted_pin(&self) -> Option<u8> {
        let asserted = self.requests_interrupt() && !self.command().contains(Command::INTERRUPT_DISABLE);
        let pin = self.byte(INTERRUPT_PIN).checked_sub(1);
        pin.filter(|_| asserted)
    }

    pub(super) fn save(&self) -> State {
        State {
            bytes: self.bytes.to_vec(),
            vectors: self.msix.as_ref().map(|msix| msix.vectors.clone()),
            intx: self.intx,
        }
    }

    /// Takes a saved state, or says why this function can't be in it and takes nothing.
    pub(super) fn restore(&mut self, state: State) -> Result<(), &'static str> {
        let bytes: [u8; SIZE] = state
            .bytes
            .try_into()
            .map_err(|_| "a configuration space of another size")?;
        let differences = self.bytes.iter().zip(&bytes).map(|(old, new)| old ^ new);
        if differences
            .zip(&self.writable)
            .any(|(bits, mask)| bits & !mask != 0)
        {
            return Err("read-only configuration bits that differ");
        }
        match (&mut self.msix, state.vectors) {
            (Some(msix), Some(vectors)) if msix.vectors.fits(&vectors) => msix.vectors = vectors,
            (None, None) => {}
            _ => return Err("MSI-X vectors that this function doesn't have"),
        }
        self.bytes = bytes;
        self.intx = state.intx;
        Ok(())
    }
}
