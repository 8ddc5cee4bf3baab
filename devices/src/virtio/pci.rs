//! Virtio over PCI, without the legacy interface (virtio 1.2, 4.1).
//!
//! ```text
//!   BAR 1   MSI-X tables; one vector for each queue and one for the configuration
//!   BAR 4   +0x0000 common configuration (4.1.4.3)     +0x2000 the device's own configuration
//!           +0x1000 ISR status (4.1.4.5)               +0x3000 notifications, 4 bytes a queue (4.1.4.4)
//! ```
//!
//! Registers are read and written by their own width; 64-bit ones by halves, and an access of 8 bytes is its two
//! halves. Any other access to them reads as zero or is ignored (4.1.3.1). The same structures can be reached
//! through the configuration space (4.1.4.9), memory enabled or not.
//!
//! Interrupts are messages if the driver enables MSI-X, the ISR status with its pin if not. There is no queue
//! reset, no shared memory, no notification data, and no configuration space changes by itself, so that its
//! generation is always 0.

use serde::{Deserialize, Serialize};

use super::function::{Area, Interrupts};
use super::{Function, VirtioDevice};
use crate::pci::{self, Bar, Config, Identity};
use crate::{Context, DeviceError, Input, InputKind, VirtualTime, state};

const VENDOR: u16 = 0x1af4;
/// Device IDs begin here (4.1.2.1).
const FIRST_DEVICE: u16 = 0x1040;
const SUBSYSTEM: (u16, u16) = (0x1af4, 0x1100);
const REVISION: u8 = 1;

const MSIX_BAR: u8 = 1;
const BAR: u8 = 4;
const BAR_SIZE: u32 = 0x4000;
const COMMON: u32 = 0x0000;
const ISR: u32 = 0x1000;
const DEVICE: u32 = 0x2000;
const NOTIFY: u32 = 0x3000;
/// Bytes of each of these structures.
const STRUCTURE_SIZE: u32 = 0x1000;
const NOTIFY_MULTIPLIER: u32 = 4;

/// Vendor-specific capability, and its types (4.1.4).
const CAPABILITY: u8 = 0x09;
const CFG_COMMON: u8 = 1;
const CFG_NOTIFY: u8 = 2;
const CFG_ISR: u8 = 3;
const CFG_DEVICE: u8 = 4;
const CFG_PCI: u8 = 5;

/// Fields of the capability of type PCI that the driver sets, by offset in it.
const CAP_BAR: u8 = 4;
const CAP_OFFSET: u8 = 8;
const CAP_LENGTH: u8 = 12;
const CAP_DATA: u8 = 16;

/// No vector (4.1.4.3): what is stored when the driver asks for one that doesn't exist.
const NO_VECTOR: u16 = 0xffff;
const VERSION: u8 = 1;

/// A virtio device as a PCI function.
pub struct PciTransport {
    function: Function,
    /// Where the capability of type PCI begins.
    window: u8,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    config_vector: u16,
    queue_vectors: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    state: State,
    function: Vec<u8>,
}

impl State {
    fn new(queues: u16) -> Self {
        State {
            config_vector: NO_VECTOR,
            queue_vectors: vec![NO_VECTOR; usize::from(queues)],
        }
    }
}

/// Base class, sub-class and interface by virtio device ID.
fn class(device: u32) -> [u8; 3] {
    match device {
        1 => [0x02, 0x00, 0x00], // Ethernet
        2 => [0x01, 0x00, 0x00], // SCSI, as QEMU has it
        3 => [0x07, 0x80, 0x00], // other communication
        _ => [0x00, 0xff, 0x00], // no class
    }
}

/// A `struct virtio_pci_cap` behind its link, with `rest` behind it.
fn capability(kind: u8, bar: u8, offset: u32, length: u32, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![16 + rest.len() as u8, kind, bar, 0, 0, 0];
    body.extend(offset.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(rest);
    body
}

/// The configuration space of `function`, and where in it the capability of type PCI begins.
fn lay_out(function: &Function) -> (Config, u8) {
    let id = function.device_id();
    let mut config = Config::new(Identity {
        vendor: VENDOR,
        device: FIRST_DEVICE + id as u16,
        revision: REVISION,
        class: class(id),
        subsystem: SUBSYSTEM,
    });
    config.interrupt_pin(1);
    config.bar(BAR, Bar::Memory(BAR_SIZE));
    config.msix(MSIX_BAR, function.queue_count() + 1);
    let structures = [(CFG_COMMON, COMMON), (CFG_ISR, ISR), (CFG_DEVICE, DEVICE)];
    for (kind, offset) in structures {
        config.capability(
            CAPABILITY,
            &capability(kind, BAR, offset, STRUCTURE_SIZE, &[]),
            &[],
        );
    }
    let multiplier = NOTIFY_MULTIPLIER.to_le_bytes();
    let notify = capability(CFG_NOTIFY, BAR, NOTIFY, STRUCTURE_SIZE, &multiplier);
    config.capability(CAPABILITY, &notify, &[]);
    let mut writable = [0xff; 18];
    writable[..2].fill(0);
    writable[3..6].fill(0);
    let window = capability(CFG_PCI, 0, 0, 0, &[0; 4]);
    let window = config.capability(CAPABILITY, &window, &writable);
    (config, window)
}

impl PciTransport {
    /// `device` on a card.
    pub fn new(device: Box<dyn VirtioDevice>) -> Self {
        let function = Function::new(device);
        let (_, window) = lay_out(&function);
        let state = State::new(function.queue_count());
        PciTransport {
            function,
            window,
            state,
        }
    }

    /// Interrupts the driver for what the last call brought about.
    fn interrupt(&mut self, cx: &mut dyn Context, config: &mut Config) {
        let Interrupts {
            queues,
            configuration,
        } = self.function.take_interrupts();
        if config.msix_enabled() {
            for (queue, &vector) in self.state.queue_vectors.iter().enumerate() {
                if queues >> queue & 1 != 0 {
                    config.signal(cx, vector);
                }
            }
            if configuration {
                config.signal(cx, self.state.config_vector);
            }
        }
        config.set_intx(self.function.isr() != 0);
    }

    fn queue_vector(&mut self) -> Option<&mut u16> {
        let index = usize::try_from(self.function.queue_select()).ok()?;
        self.state.queue_vectors.get_mut(index)
    }

    /// A load from BAR 4. Loads of the ISR status change it.
    fn read(&mut self, offset: u64, size: u8) -> u64 {
        let within = offset % u64::from(STRUCTURE_SIZE);
        match (offset - within) as u32 {
            COMMON if size == 8 => {
                let [low, high] = [within, within + 4].map(|at| self.read_common(at, 4));
                u64::from(low) | u64::from(high) << 32
            }
            COMMON => self.read_common(within, size).into(),
            ISR if within == 0 => {
                let isr = self.function.isr();
                self.function.acknowledge(isr);
                isr.into()
            }
            DEVICE => self.function.config_read(within, size),
            _ => 0,
        }
    }

    /// A store to BAR 4.
    fn write(&mut self, cx: &mut dyn Context, config: &Config, offset: u64, size: u8, value: u64) {
        let within = offset % u64::from(STRUCTURE_SIZE);
        match (offset - within) as u32 {
            COMMON if size == 8 => {
                self.write_common(config, within, 4, value as u32);
                self.write_common(config, within + 4, 4, (value >> 32) as u32);
            }
            COMMON => self.write_common(config, within, size, value as u32),
            DEVICE => self.function.config_write(cx, within, size, value),
            // Where it is written says which queue; what is written says it again.
            NOTIFY if matches!(size, 2 | 4) => {
                if let Ok(queue) = u16::try_from(within / u64::from(NOTIFY_MULTIPLIER)) {
                    self.function.notify(cx, queue);
                }
            }
            _ => {}
        }
    }

    fn read_common(&mut self, offset: u64, size: u8) -> u32 {
        let function = &self.function;
        match (offset, size) {
            (0x00, 4) => function.device_features_select(),
            (0x04, 4) => function.device_features(),
            (0x08, 4) => function.driver_features_select(),
            (0x0c, 4) => function.driver_features(),
            (0x10, 2) => self.state.config_vector.into(),
            (0x12, 2) => function.queue_count().into(),
            (0x14, 1) => function.status().into(),
            (0x15, 1) => 0, // config_generation
            (0x16, 2) => function.queue_select(),
            (0x18, 2) => function.queue_size().into(),
            (0x1a, 2) => self.queue_vector().map_or(NO_VECTOR, |vector| *vector).into(),
            (0x1c, 2) => function.queue_ready().into(),
            (0x1e, 2) => function.queue_select(), // queue_notify_off
            _ => match address_half(offset, size) {
                Some((area, high)) => function.queue_address(area, high),
                None => 0,
            },
        }
    }

    fn write_common(&mut self, config: &Config, offset: u64, size: u8, value: u32) {
        let function = &mut self.function;
        let vector = match value as u16 {
            vector if vector < config.vectors() => vector,
            _ => NO_VECTOR,
        };
        match (offset, size) {
            (0x00, 4) => function.select_device_features(value),
            (0x08, 4) => function.select_driver_features(value),
            (0x0c, 4) => function.set_driver_features(value),
            (0x10, 2) => self.state.config_vector = vector,
            (0x14, 1) => {
                function.set_status(value as u8);
                if value == 0 {
                    self.state = State::new(self.function.queue_count());
                }
            }
            (0x16, 2) => function.select_queue(value),
            (0x18, 2) => function.set_queue_size(value),
            (0x1a, 2) => {
                if let Some(place) = self.queue_vector() {
                    *place = vector;
                }
            }
            // Only a reset stops a queue.
            (0x1c, 2) if value == 1 => function.set_queue_ready(true),
            _ => {
                if let Some((area, high)) = address_half(offset, size) {
                    function.set_queue_address(area, high, value);
                }
            }
        }
    }

    /// The access that the window in the configuration space stands for, if it is one: its offset in BAR 4
    /// and its size.
    fn window_access(&self, config: &Config, offset: u8, size: u8) -> Option<(u64, u8)> {
        let data = self.window + CAP_DATA;
        if offset >= data + 4 || offset + size <= data {
            return None;
        }
        let at = config.word(self.window + CAP_OFFSET);
        let length = config.word(self.window + CAP_LENGTH);
        let legal = matches!(length, 1 | 2 | 4)
            && at.is_multiple_of(length)
            && at < BAR_SIZE
            && config.byte(self.window + CAP_BAR) == BAR;
        legal.then_some((at.into(), length as u8))
    }
}

/// Which half of which queue address stands at an offset of the common configuration.
fn address_half(offset: u64, size: u8) -> Option<(Area, bool)> {
    let (area, high) = match offset {
        0x20 => (Area::Descriptors, false),
        0x24 => (Area::Descriptors, true),
        0x28 => (Area::Driver, false),
        0x2c => (Area::Driver, true),
        0x30 => (Area::Device, false),
        0x34 => (Area::Device, true),
        _ => return None,
    };
    (size == 4).then_some((area, high))
}

impl pci::Function for PciTransport {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn config(&self) -> Config {
        lay_out(&self.function).0
    }

    fn config_reading(&mut self, cx: &mut dyn Context, config: &mut Config, offset: u8, size: u8) {
        if let Some((at, length)) = self.window_access(config, offset, size) {
            let value = self.read(at, length).to_le_bytes();
            config.set_bytes(self.window + CAP_DATA, &value[..usize::from(length)]);
            self.interrupt(cx, config);
        }
    }

    fn config_written(&mut self, cx: &mut dyn Context, config: &mut Config, offset: u8, size: u8) {
        if let Some((at, length)) = self.window_access(config, offset, size) {
            let value = u64::from(config.word(self.window + CAP_DATA));
            let mask = u64::MAX >> (64 - 8 * u32::from(length));
            self.write(cx, config, at, length, value & mask);
            self.interrupt(cx, config);
        }
    }

    fn bar_read(&mut self, cx: &mut dyn Context, config: &mut Config, bar: u8, offset: u64, size: u8) -> u64 {
        if bar != BAR {
            return 0;
        }
        let value = self.read(offset, size);
        self.interrupt(cx, config);
        value
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
        if bar == BAR {
            self.write(cx, config, offset, size, value);
            self.interrupt(cx, config);
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.function.deadline()
    }

    fn fire(&mut self, cx: &mut dyn Context, config: &mut Config) {
        self.function.fire(cx);
        self.interrupt(cx, config);
    }

    fn accepts(&self, kind: InputKind) -> bool {
        self.function.accepts(kind)
    }

    fn input(&mut self, cx: &mut dyn Context, config: &mut Config, input: &Input) {
        self.function.input(cx, input);
        self.interrupt(cx, config);
    }

    fn save(&self) -> Vec<u8> {
        let saved = Saved {
            state: self.state.clone(),
            function: self.function.save(),
        };
        state::save(VERSION, &saved)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let queues = self.function.queue_count();
        // Vectors are one more than queues.
        let possible = |vector: u16| vector <= queues || vector == NO_VECTOR;
        let saved = state::restore(self.name(), VERSION, bytes, |saved: &Saved| {
            let state = &saved.state;
            if state.queue_vectors.len() != usize::from(queues) {
                return Err("another number of queues");
            }
            let mut vectors = state.queue_vectors.iter().chain([&state.config_vector]);
            if !vectors.all(|&vector| possible(vector)) {
                return Err("a vector that doesn't exist");
            }
            Ok(())
        })?;
        self.function.restore(&saved.function)?;
        self.state = saved.state;
        Ok(())
    }

    fn reset(&mut self) {
        self.function.reset();
        self.state = State::new(self.function.queue_count());
    }
}
