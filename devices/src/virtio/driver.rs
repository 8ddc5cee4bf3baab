//! A virtio driver for tests: one queue or two, in the fake's RAM. It speaks virtio-mmio; [`super::bridged`] turns that
//! into virtio over PCI.

use crate::fake::{Fake, RAM_BASE};
use crate::{Device, VirtualTime};

pub const DESC: u64 = RAM_BASE + 0x1000;
pub const AVAIL: u64 = RAM_BASE + 0x2000;
pub const USED: u64 = RAM_BASE + 0x3000;
/// Memory for buffers.
pub const DATA: u64 = RAM_BASE + 0x10000;

/// A part of a request, as the device sees it.
#[derive(Clone, Debug)]
pub enum Part {
    Read(u64, u32),
    Write(u64, u32),
}

#[derive(Clone)]
pub struct Driver {
    pub size: u16,
    /// Where its rings are, after those of [`DESC`], [`AVAIL`] and [`USED`].
    offset: u64,
    next_desc: u16,
    avail_idx: u16,
    used_idx: u16,
}

impl Driver {
    /// Drives `device` through 3.1.1 with `features` accepted, and queue 0 of `size`.
    pub fn start(device: &mut dyn Device, cx: &mut Fake, features: u64, size: u16) -> Driver {
        let [driver] = Self::start_queues(device, cx, features, size);
        driver
    }

    /// The same with queues 0 and 1.
    pub fn start_two(device: &mut dyn Device, cx: &mut Fake, features: u64, size: u16) -> [Driver; 2] {
        Self::start_queues(device, cx, features, size)
    }

    fn start_queues<const N: usize>(
        device: &mut dyn Device,
        cx: &mut Fake,
        features: u64,
        size: u16,
    ) -> [Driver; N] {
        let mut set = |offset, value: u64| device.write(cx, offset, 4, value);
        set(0x070, 0);
        set(0x070, 1);
        set(0x070, 3);
        set(0x024, 0);
        set(0x020, features & 0xffff_ffff);
        set(0x024, 1);
        set(0x020, features >> 32);
        set(0x070, 0xb);
        let drivers = std::array::from_fn(|queue| Driver {
            size,
            offset: 0x4000 * queue as u64,
            next_desc: 0,
            avail_idx: 0,
            used_idx: 0,
        });
        for (queue, driver) in (0..).zip(&drivers) {
            set(0x030, queue);
            set(0x038, u64::from(size));
            for (offset, address) in [
                (0x080, driver.desc()),
                (0x090, driver.avail()),
                (0x0a0, driver.used_ring()),
            ] {
                set(offset, address & 0xffff_ffff);
                set(offset + 4, address >> 32);
            }
            set(0x044, 1);
        }
        set(0x070, 0xf);
        for driver in &drivers {
            cx.poke(driver.avail(), &[0; 2048]);
            cx.poke(driver.used_ring(), &[0; 4096]);
        }
        assert_eq!(device.read(cx, 0x070, 4), 0xf);
        drivers
    }

    /// Its descriptor table.
    pub fn desc(&self) -> u64 {
        DESC + self.offset
    }

    /// Its available ring.
    pub fn avail(&self) -> u64 {
        AVAIL + self.offset
    }

    fn used_ring(&self) -> u64 {
        USED + self.offset
    }

    /// Writes `parts` as descriptors at `table`, starting with index `first`.
    fn describe(&self, cx: &mut Fake, table: u64, first: u16, parts: &[Part], wrap: u16) {
        for (n, part) in parts.iter().enumerate() {
            let index = (first + n as u16) % wrap;
            let (addr, len, write) = match *part {
                Part::Read(addr, len) => (addr, len, 0),
                Part::Write(addr, len) => (addr, len, 2),
            };
            let next = u16::from(n + 1 < parts.len());
            descriptor(cx, table, index, addr, len, write | next, (index + 1) % wrap);
        }
    }

    /// Makes a chain available and returns its head.
    pub fn add(&mut self, cx: &mut Fake, parts: &[Part]) -> u16 {
        let head = self.next_desc;
        self.describe(cx, self.desc(), head, parts, self.size);
        self.next_desc = (head + parts.len() as u16) % self.size;
        self.publish(cx, head);
        head
    }

    /// The same by an indirect table at `table`.
    pub fn add_indirect(&mut self, cx: &mut Fake, table: u64, parts: &[Part]) -> u16 {
        let head = self.next_desc;
        self.describe(cx, table, 0, parts, u16::MAX);
        let len = 16 * parts.len() as u32;
        descriptor(cx, self.desc(), head, table, len, 4, 0);
        self.next_desc = (head + 1) % self.size;
        self.publish(cx, head);
        head
    }

    pub fn publish(&mut self, cx: &mut Fake, head: u16) {
        let slot = u64::from(self.avail_idx % self.size);
        cx.poke(self.avail() + 4 + 2 * slot, &head.to_le_bytes());
        self.avail_idx = self.avail_idx.wrapping_add(1);
        cx.poke(self.avail() + 2, &self.avail_idx.to_le_bytes());
    }

    /// The used elements since the last call: head and length.
    pub fn used(&mut self, cx: &Fake) -> Vec<(u32, u32)> {
        let idx = u16::from_le_bytes(cx.peek(self.used_ring() + 2, 2).try_into().unwrap());
        let mut elements = Vec::new();
        while self.used_idx != idx {
            let slot = u64::from(self.used_idx % self.size);
            let element = cx.peek(self.used_ring() + 4 + 8 * slot, 8);
            let word = |at: usize| u32::from_le_bytes(element[at..at + 4].try_into().unwrap());
            elements.push((word(0), word(4)));
            self.used_idx = self.used_idx.wrapping_add(1);
        }
        elements
    }
}

pub fn descriptor(cx: &mut Fake, table: u64, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&addr.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    cx.poke(table + 16 * u64::from(index), &bytes);
}

pub fn notify(device: &mut dyn Device, cx: &mut Fake) {
    notify_queue(device, cx, 0);
}

pub fn notify_queue(device: &mut dyn Device, cx: &mut Fake, queue: u16) {
    device.write(cx, 0x050, 4, queue.into());
}

/// Lets time pass until nothing is due.
pub fn settle(device: &mut dyn Device, cx: &mut Fake) {
    while let Some(VirtualTime(due)) = device.deadline() {
        cx.now = VirtualTime(cx.now.0.max(due));
        device.fire(cx);
        assert!(device.deadline().is_none_or(|next| next > cx.now));
    }
}
