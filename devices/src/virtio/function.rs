//! What every virtio transport shares: status, feature negotiation, queue set-up and the interrupt
//! status (virtio 1.2, 2.1 to 2.4 and 3.1).

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use super::{Queues, VirtioDevice, queue::Queue};
use crate::{Context, DeviceError, Input, InputKind, VirtualTime, state};

/// VIRTIO_F_INDIRECT_DESC.
pub(super) const INDIRECT_DESC: u64 = 1 << 28;
/// VIRTIO_F_EVENT_IDX.
pub(super) const EVENT_IDX: u64 = 1 << 29;
/// VIRTIO_F_VERSION_1.
pub(super) const VERSION_1: u64 = 1 << 32;

const VERSION: u8 = 1;

bitflags! {
    /// Device status (2.1).
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Status: u8 {
        const ACKNOWLEDGE = 1;
        const DRIVER = 2;
        const DRIVER_OK = 4;
        const FEATURES_OK = 8;
        const NEEDS_RESET = 64;
        const FAILED = 128;
    }

    /// Interrupt status (4.1.4.5 and 4.2.2).
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Isr: u8 {
        const USED_BUFFER = 1;
        const CONFIGURATION = 2;
    }
}

/// A virtio device and the transport-independent half of its front.
pub struct Function {
    device: Box<dyn VirtioDevice>,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    status: u8,
    isr: u8,
    device_features_select: u32,
    driver_features_select: u32,
    driver_features: u64,
    queue_select: u32,
    queues: Queues,
    /// What happened since a transport last asked; it asks within the same call.
    #[serde(skip)]
    interrupts: Interrupts,
}

/// What the driver is to be told of, for transports with an interrupt for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// One bit for each queue with used buffers.
    pub queues: u64,
    /// The configuration changed, or the device needs a reset.
    pub configuration: bool,
}

/// What is saved.
#[derive(Serialize, Deserialize)]
struct Saved {
    state: State,
    device: Vec<u8>,
}

impl State {
    fn new(device: &dyn VirtioDevice) -> Self {
        State {
            status: 0,
            isr: 0,
            device_features_select: 0,
            driver_features_select: 0,
            driver_features: 0,
            queue_select: 0,
            queues: Queues::new(device.queue_sizes()),
            interrupts: Interrupts::default(),
        }
    }
}

fn half(value: u64, select: u32) -> u32 {
    match select {
        0 => value as u32,
        1 => (value >> 32) as u32,
        _ => 0,
    }
}

impl Function {
    /// `device`, as after power-on.
    pub fn new(device: Box<dyn VirtioDevice>) -> Self {
        let state = State::new(&*device);
        Function { device, state }
    }

    /// The device's name.
    pub fn name(&self) -> &'static str {
        self.device.name()
    }

    /// Device ID (section 5).
    pub fn device_id(&self) -> u32 {
        self.device.device_id()
    }

    fn offered(&self) -> u64 {
        self.device.features() | VERSION_1 | INDIRECT_DESC | EVENT_IDX
    }

    /// Chooses which 32 feature bits [`Self::device_features`] gives.
    pub fn select_device_features(&mut self, select: u32) {
        self.state.device_features_select = select;
    }

    /// The choice of [`Self::select_device_features`].
    pub fn device_features_select(&self) -> u32 {
        self.state.device_features_select
    }

    /// The chosen 32 bits of the features on offer.
    pub fn device_features(&self) -> u32 {
        half(self.offered(), self.state.device_features_select)
    }

    /// Chooses which 32 feature bits [`Self::set_driver_features`] sets.
    pub fn select_driver_features(&mut self, select: u32) {
        self.state.driver_features_select = select;
    }

    /// The choice of [`Self::select_driver_features`].
    pub fn driver_features_select(&self) -> u32 {
        self.state.driver_features_select
    }

    /// The chosen 32 bits of what the driver accepts.
    pub fn driver_features(&self) -> u32 {
        half(self.state.driver_features, self.state.driver_features_select)
    }

    /// The driver accepts features. Ignored once they are settled. Ones past bit 63 can't be
    /// accepted, since none is on offer.
    pub fn set_driver_features(&mut self, value: u32) {
        let state = &mut self.state;
        if state.status & Status::FEATURES_OK.bits() != 0 {
            return;
        }
        let value = u64::from(value);
        match state.driver_features_select {
            0 => state.driver_features = state.driver_features & !0xffff_ffff | value,
            1 => state.driver_features = state.driver_features & 0xffff_ffff | value << 32,
            _ => {}
        }
    }

    /// Device status.
    pub fn status(&self) -> u8 {
        self.state.status
    }

    /// The driver sets the status; 0 resets the device.
    pub fn set_status(&mut self, value: u8) {
        if value == 0 {
            return self.reset();
        }
        let old = Status::from_bits_retain(self.state.status);
        let mut new = Status::from_bits_truncate(value);
        // That bit is the device's own.
        new.set(Status::NEEDS_RESET, old.contains(Status::NEEDS_RESET));
        if new.contains(Status::FEATURES_OK) && !old.contains(Status::FEATURES_OK) {
            let accepted = self.state.driver_features;
            if accepted & !self.offered() == 0 && accepted & VERSION_1 != 0 {
                self.state.queues.features = accepted;
            } else {
                new.remove(Status::FEATURES_OK);
            }
        }
        self.state.status = new.bits();
    }

    fn is_running(&self) -> bool {
        let status = Status::from_bits_retain(self.state.status);
        status.contains(Status::DRIVER_OK | Status::FEATURES_OK) && !status.contains(Status::NEEDS_RESET)
    }

    /// Chooses the queue that the queue methods are about.
    pub fn select_queue(&mut self, select: u32) {
        self.state.queue_select = select;
    }

    /// The choice of [`Self::select_queue`].
    pub fn queue_select(&self) -> u32 {
        self.state.queue_select
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> u16 {
        // At most 64.
        self.state.queues.queues.len() as u16
    }

    fn selected(&self) -> Option<usize> {
        let index = usize::try_from(self.state.queue_select).ok()?;
        (index < self.state.queues.queues.len()).then_some(index)
    }

    /// The selected queue, while it may be set up.
    fn idle_queue(&mut self) -> Option<&mut Queue> {
        let index = self.selected()?;
        let queue = &mut self.state.queues.queues[index];
        (!queue.ready).then_some(queue)
    }

    /// The greatest size of the selected queue; 0 if there is no such queue.
    pub fn queue_size_max(&self) -> u16 {
        self.selected()
            .and_then(|index| self.device.queue_sizes().get(index).copied())
            .unwrap_or(0)
    }

    /// The size of the selected queue as it is set, the greatest one at first; 0 if there is no such queue.
    pub fn queue_size(&self) -> u16 {
        self.selected()
            .map_or(0, |index| self.state.queues.queues[index].size)
    }

    /// The driver sets the size of the selected queue; what is no power of two or too large is
    /// ignored, as is any set-up of a queue that is ready.
    pub fn set_queue_size(&mut self, size: u32) {
        let max = self.queue_size_max();
        if let Ok(size) = u16::try_from(size)
            && size.is_power_of_two()
            && size <= max
            && let Some(queue) = self.idle_queue()
        {
            queue.size = size;
        }
    }

    /// Whether the selected queue is ready.
    pub fn queue_ready(&self) -> bool {
        self.selected()
            .is_some_and(|index| self.state.queues.queues[index].ready)
    }

    /// The driver starts or stops the selected queue.
    pub fn set_queue_ready(&mut self, ready: bool) {
        if let Some(index) = self.selected() {
            self.state.queues.queues[index].set_ready(ready);
        }
    }

    /// A half of an address of the selected queue.
    pub fn queue_address(&self, area: Area, high: bool) -> u32 {
        let address = self.selected().map_or(0, |index| {
            let queue = &self.state.queues.queues[index];
            match area {
                Area::Descriptors => queue.desc,
                Area::Driver => queue.driver,
                Area::Device => queue.device,
            }
        });
        half(address, high.into())
    }

    /// The driver sets a half of an address of the selected queue.
    pub fn set_queue_address(&mut self, area: Area, high: bool, value: u32) {
        let Some(queue) = self.idle_queue() else {
            return;
        };
        let address = match area {
            Area::Descriptors => &mut queue.desc,
            Area::Driver => &mut queue.driver,
            Area::Device => &mut queue.device,
        };
        let value = u64::from(value);
        *address = if high {
            *address & 0xffff_ffff | value << 32
        } else {
            *address & !0xffff_ffff | value
        };
    }

    /// The driver notifies the device of available buffers.
    pub fn notify(&mut self, cx: &mut dyn Context, queue: u16) {
        if self.is_running() && self.state.queues.size(queue).is_some() {
            self.device.notified(cx, &mut self.state.queues, queue);
            self.settle();
        }
    }

    /// Makes interrupt status and device status of what the device did to its queues.
    fn settle(&mut self) {
        let state = &mut self.state;
        let signals = std::mem::take(&mut state.queues.signals);
        if signals != 0 {
            state.isr |= Isr::USED_BUFFER.bits();
            state.interrupts.queues |= signals;
        }
        if state.queues.broken && state.status & Status::NEEDS_RESET.bits() == 0 {
            state.status |= Status::NEEDS_RESET.bits();
            state.isr |= Isr::CONFIGURATION.bits();
            state.interrupts.configuration = true;
        }
    }

    /// What the driver is to be told of since the last call of this.
    pub fn take_interrupts(&mut self) -> Interrupts {
        std::mem::take(&mut self.state.interrupts)
    }

    /// Interrupt status: bit 0 used buffer, bit 1 configuration change.
    pub fn isr(&self) -> u8 {
        self.state.isr
    }

    /// The driver acknowledges interrupts.
    pub fn acknowledge(&mut self, bits: u8) {
        self.state.isr &= !bits;
    }

    /// Reads the configuration space; zero past its end.
    pub fn config_read(&self, offset: u64, size: u8) -> u64 {
        let config = self.device.config();
        let at = |index: u64| {
            usize::try_from(offset.saturating_add(index))
                .ok()
                .and_then(|index| config.get(index))
                .map_or(0, |&byte| u64::from(byte))
        };
        (0..u64::from(size.min(8))).fold(0, |value, index| value | at(index) << (8 * index))
    }

    /// The driver writes to the configuration space.
    pub fn config_write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..usize::from(size.min(8))];
        self.device.config_write(cx, offset, bytes);
        self.settle();
    }

    /// As [`crate::Device::deadline`].
    pub fn deadline(&self) -> Option<VirtualTime> {
        self.device.deadline()
    }

    /// As [`crate::Device::fire`].
    pub fn fire(&mut self, cx: &mut dyn Context) {
        self.device.fire(cx, &mut self.state.queues);
        self.settle();
    }

    /// As [`crate::Device::accepts`].
    pub fn accepts(&self, kind: InputKind) -> bool {
        self.is_running() && self.device.accepts(&self.state.queues, kind)
    }

    /// As [`crate::Device::input`].
    pub fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        if self.accepts(input.kind()) {
            self.device.input(cx, &mut self.state.queues, input);
            self.settle();
        }
    }

    /// Back to the state at power-on.
    pub fn reset(&mut self) {
        self.device.reset();
        self.state = State::new(&*self.device);
    }

    /// As [`crate::Device::save`].
    pub fn save(&self) -> Vec<u8> {
        let saved = Saved {
            state: self.state.clone(),
            device: self.device.save(),
        };
        state::save(VERSION, &saved)
    }

    /// As [`crate::Device::restore`].
    ///
    /// # Errors
    /// As there.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let offered = self.offered();
        let sizes = self.device.queue_sizes();
        let saved = state::restore(self.name(), VERSION, bytes, |saved: &Saved| {
            if saved.state.queues.features & !offered != 0 {
                return Err("features that are not on offer");
            }
            saved.state.queues.check(sizes)
        })?;
        self.device.restore(&saved.device)?;
        self.state = saved.state;
        Ok(())
    }
}

/// The three areas of a virtqueue (2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Descriptor table.
    Descriptors,
    /// Driver area: the available ring.
    Driver,
    /// Device area: the used ring.
    Device,
}
