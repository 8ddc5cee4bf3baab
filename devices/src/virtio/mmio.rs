//! Virtio over MMIO, version 2 (virtio 1.2, 4.2).
//!
//! Registers are 4 bytes wide and read or written whole; any other access to them reads as zero or
//! is ignored (4.2.2.2). The configuration space at 0x100 takes 1, 2, 4 and 8 bytes. The legacy
//! interface is not there. There is no shared memory and no queue reset, and no configuration
//! space changes by itself, so that its generation is always 0.

use serde::{Deserialize, Serialize};

use super::{Function, VirtioDevice, function::Area};
use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};

/// Size of the register window in bytes.
pub const SIZE: u64 = 0x1000;

/// "virt".
const MAGIC: u32 = 0x7472_6976;
/// "TICK".
const VENDOR: u32 = 0x4b43_4954;

const MAGIC_VALUE: u64 = 0x000;
const TRANSPORT_VERSION: u64 = 0x004;
const DEVICE_ID: u64 = 0x008;
const VENDOR_ID: u64 = 0x00c;
const DEVICE_FEATURES: u64 = 0x010;
const DEVICE_FEATURES_SEL: u64 = 0x014;
const DRIVER_FEATURES: u64 = 0x020;
const DRIVER_FEATURES_SEL: u64 = 0x024;
const QUEUE_SEL: u64 = 0x030;
const QUEUE_SIZE_MAX: u64 = 0x034;
const QUEUE_SIZE: u64 = 0x038;
const QUEUE_READY: u64 = 0x044;
const QUEUE_NOTIFY: u64 = 0x050;
const INTERRUPT_STATUS: u64 = 0x060;
const INTERRUPT_ACK: u64 = 0x064;
const STATUS: u64 = 0x070;
const QUEUE_DESC_LOW: u64 = 0x080;
const QUEUE_DESC_HIGH: u64 = 0x084;
const QUEUE_DRIVER_LOW: u64 = 0x090;
const QUEUE_DRIVER_HIGH: u64 = 0x094;
const QUEUE_DEVICE_LOW: u64 = 0x0a0;
const QUEUE_DEVICE_HIGH: u64 = 0x0a4;
const SHM_LEN_LOW: u64 = 0x0b0;
const SHM_LEN_HIGH: u64 = 0x0b4;
const SHM_BASE_LOW: u64 = 0x0b8;
const SHM_BASE_HIGH: u64 = 0x0bc;
const CONFIG_GENERATION: u64 = 0x0fc;
const CONFIG: u64 = 0x100;

const VERSION: u8 = 1;

/// A virtio device on the bus.
pub struct Mmio {
    line: u32,
    function: Function,
    level: bool,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    level: bool,
    function: Vec<u8>,
}

impl Mmio {
    /// `device` in a slot that interrupts on `line`.
    pub fn new(line: u32, device: Box<dyn VirtioDevice>) -> Self {
        Mmio {
            line,
            function: Function::new(device),
            level: false,
        }
    }

    fn update_line(&mut self, cx: &mut dyn Context) {
        let level = self.function.isr() != 0;
        if self.level != level {
            self.level = level;
            cx.set_line(self.line, level);
        }
    }

    fn read_register(&self, offset: u64) -> u32 {
        let function = &self.function;
        match offset {
            MAGIC_VALUE => MAGIC,
            TRANSPORT_VERSION => 2,
            DEVICE_ID => function.device_id(),
            VENDOR_ID => VENDOR,
            DEVICE_FEATURES => function.device_features(),
            QUEUE_SIZE_MAX => u32::from(function.queue_size_max()),
            QUEUE_READY => u32::from(function.queue_ready()),
            INTERRUPT_STATUS => u32::from(function.isr()),
            STATUS => u32::from(function.status()),
            // 4.2.2: -1 for a region that doesn't exist.
            SHM_LEN_LOW | SHM_LEN_HIGH | SHM_BASE_LOW | SHM_BASE_HIGH => u32::MAX,
            CONFIG_GENERATION => 0,
            _ => 0,
        }
    }

    fn write_register(&mut self, cx: &mut dyn Context, offset: u64, value: u32) {
        let function = &mut self.function;
        match offset {
            DEVICE_FEATURES_SEL => function.select_device_features(value),
            DRIVER_FEATURES => function.set_driver_features(value),
            DRIVER_FEATURES_SEL => function.select_driver_features(value),
            QUEUE_SEL => function.select_queue(value),
            QUEUE_SIZE => function.set_queue_size(value),
            QUEUE_READY => function.set_queue_ready(value & 1 != 0),
            QUEUE_NOTIFY => {
                if let Ok(queue) = u16::try_from(value) {
                    function.notify(cx, queue);
                }
            }
            INTERRUPT_ACK => function.acknowledge(value as u8),
            STATUS => function.set_status(value as u8),
            QUEUE_DESC_LOW => function.set_queue_address(Area::Descriptors, false, value),
            QUEUE_DESC_HIGH => function.set_queue_address(Area::Descriptors, true, value),
            QUEUE_DRIVER_LOW => function.set_queue_address(Area::Driver, false, value),
            QUEUE_DRIVER_HIGH => function.set_queue_address(Area::Driver, true, value),
            QUEUE_DEVICE_LOW => function.set_queue_address(Area::Device, false, value),
            QUEUE_DEVICE_HIGH => function.set_queue_address(Area::Device, true, value),
            _ => {}
        }
    }
}

impl Device for Mmio {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn read(&mut self, _cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        if offset >= CONFIG {
            self.function.config_read(offset - CONFIG, size)
        } else if size == 4 {
            u64::from(self.read_register(offset))
        } else {
            0
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        if offset >= CONFIG {
            self.function.config_write(cx, offset - CONFIG, size, value);
        } else if size == 4 {
            self.write_register(cx, offset, value as u32);
        }
        self.update_line(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.function.deadline()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        self.function.fire(cx);
        self.update_line(cx);
    }

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, kind: InputKind) -> bool {
        self.function.accepts(kind)
    }

    fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        self.function.input(cx, input);
        self.update_line(cx);
    }

    fn save(&self) -> Vec<u8> {
        let saved = Saved {
            level: self.level,
            function: self.function.save(),
        };
        state::save(VERSION, &saved)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let saved = state::restore(self.name(), VERSION, bytes, |_: &Saved| Ok(()))?;
        self.function.restore(&saved.function)?;
        self.level = saved.level;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        self.function.reset();
        self.update_line(cx);
    }
}

/// A slot with no device: its device ID is 0, which tells drivers to pass it by (4.2.3.1.1).
#[derive(Default)]
pub struct EmptySlot;

impl Device for EmptySlot {
    fn name(&self) -> &'static str {
        "virtio-mmio-empty"
    }

    fn read(&mut self, _cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        match (offset, size) {
            (MAGIC_VALUE, 4) => u64::from(MAGIC),
            (TRANSPORT_VERSION, 4) => 2,
            (VENDOR_ID, 4) => u64::from(VENDOR),
            _ => 0,
        }
    }

    fn write(&mut self, _cx: &mut dyn Context, _offset: u64, _size: u8, _value: u64) {}

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        state::restore(self.name(), VERSION, bytes, |(): &()| Ok(()))
    }

    fn reset(&mut self, _cx: &mut dyn Context) {}
}
