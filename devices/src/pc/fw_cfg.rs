//! QEMU's firmware configuration device: how SeaBIOS, OVMF and Linux learn of the machine's memory and
//! processors, and get its tables and files.
//!
//! ```text
//!   port   offset
//!   0x510  0   selector, two bytes, write only: which item, and back to its start
//!   0x511  1   data, one byte: the item's next
//!   0x514  4   DMA address, high half, big-endian; reads as "QEMU"
//!   0x518  8   DMA address, low half; its write starts the transfer; reads as " CFG"
//! ```
//!
//! A transfer is described by a structure in memory, all of it big-endian: control (select 8, skip 4, read
//! 2, error 1, and the item to select in the high half), length, address. Control is written back as 0, or
//! as 1 if it failed; it is done when the write that started it returns. Items are read-only: a write (16)
//! fails, and so does a transfer longer than [`MAX_TRANSFER`].
//!
//! What an item doesn't hold reads as zero: past its end, and all of an item that there isn't. The items are
//! the board's, so not state.
//!
//! Source: QEMU, docs/specs/fw_cfg.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, DmaError, Input, InputKind, VirtualTime, state};

/// Size of the window in bytes: I/O ports 0x510 to 0x51b.
pub const SIZE: u64 = 0xc;
/// The first I/O port of the window.
pub const PORT: u16 = 0x510;
/// Offset of the selector.
pub const SELECTOR: u64 = 0;
/// Offset of the data register.
pub const DATA: u64 = 1;
/// Offset of the DMA address register.
pub const DMA: u64 = 4;
/// Bytes in the longest transfer that is done.
pub const MAX_TRANSFER: u32 = 1 << 30;

/// Keys of items that are no files.
pub mod key {
    /// "QEMU".
    pub const SIGNATURE: u16 = 0x00;
    /// Which interfaces there are.
    pub const ID: u16 = 0x01;
    /// Bytes of RAM, eight bytes.
    pub const RAM_SIZE: u16 = 0x03;
    /// Processors at power-on, two bytes.
    pub const NB_CPUS: u16 = 0x05;
    /// Where the protected-mode part of a kernel goes, four bytes.
    pub const KERNEL_ADDR: u16 = 0x07;
    /// Bytes of that part, four bytes.
    pub const KERNEL_SIZE: u16 = 0x08;
    /// Where the initial RAM disk goes, four bytes.
    pub const INITRD_ADDR: u16 = 0x0a;
    /// Bytes of the initial RAM disk, four bytes.
    pub const INITRD_SIZE: u16 = 0x0b;
    /// Whether the firmware should show a boot menu, two bytes.
    pub const BOOT_MENU: u16 = 0x0e;
    /// The limit of APIC identifiers, two bytes.
    pub const MAX_CPUS: u16 = 0x0f;
    /// Where the kernel is entered, four bytes.
    pub const KERNEL_ENTRY: u16 = 0x10;
    /// The protected-mode part of the kernel.
    pub const KERNEL_DATA: u16 = 0x11;
    /// The initial RAM disk.
    pub const INITRD_DATA: u16 = 0x12;
    /// Where the command line goes, four bytes.
    pub const CMDLINE_ADDR: u16 = 0x13;
    /// Bytes of the command line with its zero, four bytes.
    pub const CMDLINE_SIZE: u16 = 0x14;
    /// The command line, zero-terminated.
    pub const CMDLINE_DATA: u16 = 0x15;
    /// Where the real-mode part of the kernel goes, four bytes.
    pub const SETUP_ADDR: u16 = 0x16;
    /// Bytes of that part, four bytes.
    pub const SETUP_SIZE: u16 = 0x17;
    /// The real-mode part of the kernel.
    pub const SETUP_DATA: u16 = 0x18;
    /// The directory of files.
    pub const FILE_DIR: u16 = 0x19;
    /// The first file.
    pub const FILE_FIRST: u16 = 0x20;
    /// The first key that is an architecture's own.
    pub const ARCH_LOCAL: u16 = 0x8000;
    /// On a PC: whether the timer's ISA interrupt 0 is the I/O APIC's 2, four bytes.
    pub const IRQ0_OVERRIDE: u16 = ARCH_LOCAL + 2;
}

/// Longest name of a file: 56 bytes with its zero.
const NAME_SIZE: usize = 56;
/// ID: the registers, and DMA.
const ID: u32 = 0b11;
const DMA_SIGNATURE: u64 = u64::from_be_bytes(*b"QEMU CFG");
/// Bytes copied at once.
const CHUNK: usize = 0x1_0000;
const VERSION: u8 = 1;

const CONTROL_ERROR: u32 = 1 << 0;
const CONTROL_READ: u32 = 1 << 1;
const CONTROL_SKIP: u32 = 1 << 2;
const CONTROL_SELECT: u32 = 1 << 3;
const CONTROL_WRITE: u32 = 1 << 4;

/// The firmware configuration device.
pub struct FwCfg {
    items: BTreeMap<u16, Vec<u8>>,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    selector: u16,
    /// Next byte of the selected item; stays within 64 bits however much is skipped.
    offset: u64,
    /// High half of the DMA address, as written last.
    dma_high: u32,
}

impl FwCfg {
    /// A device with these items by key, and these files by name, which get keys in the order given. Signature
    /// and directory are the device's own. Names longer than 55 bytes are cut; of files past the 0x3fe0 that
    /// there are keys for, nothing is seen.
    pub fn new(
        items: impl IntoIterator<Item = (u16, Vec<u8>)>,
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Self {
        let mut all: BTreeMap<u16, Vec<u8>> = items.into_iter().collect();
        let mut entries = Vec::new();
        let mut count = 0u32;
        for (key, (name, bytes)) in (key::FILE_FIRST..0x4000).zip(files) {
            let mut field = [0; NAME_SIZE];
            for (to, from) in field[..NAME_SIZE - 1].iter_mut().zip(name.bytes()) {
                *to = from;
            }
            entries.extend((bytes.len() as u32).to_be_bytes());
            entries.extend(key.to_be_bytes());
            entries.extend([0; 2]);
            entries.extend(field);
            all.insert(key, bytes);
            count += 1;
        }
        let mut directory = count.to_be_bytes().to_vec();
        directory.extend(entries);
        all.insert(key::FILE_DIR, directory);
        all.insert(key::SIGNATURE, b"QEMU".to_vec());
        all.insert(key::ID, ID.to_le_bytes().to_vec());
        FwCfg {
            items: all,
            state: State::new(),
        }
    }

    /// What every PC has: bytes of RAM, processors, and the limit of APIC identifiers.
    pub fn machine_items(ram_size: u64, cpus: u16, max_cpus: u16) -> [(u16, Vec<u8>); 3] {
        [
            (key::RAM_SIZE, ram_size.to_le_bytes().to_vec()),
            (key::NB_CPUS, cpus.to_le_bytes().to_vec()),
            (key::MAX_CPUS, max_cpus.to_le_bytes().to_vec()),
        ]
    }

    fn select(&mut self, selector: u16) {
        self.state.selector = selector;
        self.state.offset = 0;
    }

    /// What is left of the selected item.
    fn rest(&self) -> &[u8] {
        let item = self.items.get(&self.state.selector).map_or(&[][..], |item| item);
        usize::try_from(self.state.offset)
            .ok()
            .and_then(|offset| item.get(offset..))
            .unwrap_or(&[])
    }

    fn skip(&mut self, count: u64) {
        self.state.offset = self.state.offset.saturating_add(count);
    }

    fn next(&mut self) -> u8 {
        let byte = self.rest().first().copied().unwrap_or(0);
        self.skip(1);
        byte
    }

    /// Copies the next `len` bytes to memory.
    fn copy(&mut self, cx: &mut dyn Context, addr: u64, len: u64) -> Result<(), DmaError> {
        let mut done = 0;
        while done < len {
            let count = (len - done).min(CHUNK as u64);
            let rest = self.rest();
            let mut chunk = rest[..rest.len().min(count as usize)].to_vec();
            chunk.resize(count as usize, 0);
            let to = addr.checked_add(done).ok_or(DmaError { addr, len })?;
            cx.dma_write(to, &chunk)?;
            self.skip(count);
            done += count;
        }
        Ok(())
    }

    /// Does the transfer that is described at `descriptor`. One whose description isn't in RAM can't even say
    /// that it failed.
    fn transfer(&mut self, cx: &mut dyn Context, descriptor: u64) {
        let mut bytes = [0; 16];
        if cx.dma_read(descriptor, &mut bytes).is_err() {
            return;
        }
        let [c0, c1, c2, c3, l0, l1, l2, l3, addr @ ..] = bytes;
        let control = u32::from_be_bytes([c0, c1, c2, c3]);
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        let addr = u64::from_be_bytes(addr);
        if control & CONTROL_SELECT != 0 {
            self.select((control >> 16) as u16);
        }
        let done = if control & CONTROL_READ != 0 {
            len <= MAX_TRANSFER && self.copy(cx, addr, len.into()).is_ok()
        } else if control & CONTROL_WRITE != 0 {
            false
        } else {
            if control & CONTROL_SKIP != 0 {
                self.skip(len.into());
            }
            true
        };
        let answer = if done { 0 } else { CONTROL_ERROR };
        // It was read from there, so it is RAM.
        let _ = cx.dma_write(descriptor, &answer.to_be_bytes());
    }
}

impl State {
    fn new() -> Self {
        State {
            selector: 0,
            offset: 0,
            dma_high: 0,
        }
    }
}

impl Device for FwCfg {
    fn name(&self) -> &'static str {
        "fw-cfg"
    }

    fn read(&mut self, _cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        match (offset, size) {
            (DATA, 1) => self.next().into(),
            (DMA..SIZE, 1 | 2 | 4 | 8) if offset + u64::from(size) <= SIZE => {
                // The register is big-endian: its first byte is the signature's first.
                let bytes = DMA_SIGNATURE.to_be_bytes();
                let from = (offset - DMA) as usize;
                let mut value = [0; 8];
                for (to, from) in value.iter_mut().zip(&bytes[from..from + usize::from(size)]) {
                    *to = *from;
                }
                u64::from_le_bytes(value)
            }
            _ => 0,
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        const LOW: u64 = DMA + 4;
        match (offset, size) {
            (SELECTOR, 2) => self.select(value as u16),
            (DMA, 4) => self.state.dma_high = (value as u32).swap_bytes(),
            (LOW, 4) => {
                let low = (value as u32).swap_bytes();
                let high = std::mem::take(&mut self.state.dma_high);
                self.transfer(cx, u64::from(high) << 32 | u64::from(low));
            }
            (DMA, 8) => {
                self.state.dma_high = 0;
                self.transfer(cx, value.swap_bytes());
            }
            _ => {}
        }
    }

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
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |_: &State| Ok(()))?;
        Ok(())
    }

    fn reset(&mut self, _cx: &mut dyn Context) {
        self.state = State::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, RAM_BASE, RAM_SIZE};

    const AT: u64 = RAM_BASE + 0x1000;
    const TO: u64 = RAM_BASE + 0x2000;

    fn device() -> FwCfg {
        let mut items = FwCfg::machine_items(0x1234_5678_9abc, 3, 5).to_vec();
        items.push((key::KERNEL_SIZE, 77u32.to_le_bytes().to_vec()));
        let files = [("etc/e820", vec![1, 2, 3]), ("opt/long", vec![9; 0x2_8000])];
        FwCfg::new(items, files.map(|(name, bytes)| (name.to_string(), bytes)))
    }

    fn item(device: &mut FwCfg, key: u16, len: usize) -> Vec<u8> {
        let cx = &mut Fake::new();
        device.write(cx, SELECTOR, 2, key.into());
        (0..len).map(|_| device.read(cx, DATA, 1) as u8).collect()
    }

    /// Starts a transfer and returns the control word that came back.
    fn transfer(device: &mut FwCfg, cx: &mut Fake, control: u32, len: u32, addr: u64) -> u32 {
        cx.poke(AT, &control.to_be_bytes());
        cx.poke(AT + 4, &len.to_be_bytes());
        cx.poke(AT + 8, &addr.to_be_bytes());
        device.write(cx, DMA, 4, u64::from(((AT >> 32) as u32).swap_bytes()));
        device.write(cx, DMA + 4, 4, u64::from((AT as u32).swap_bytes()));
        u32::from_be_bytes(cx.peek(AT, 4).try_into().unwrap())
    }

    #[test]
    fn items_read_byte_by_byte() {
        let mut device = device();
        assert_eq!(item(&mut device, key::SIGNATURE, 6), b"QEMU\0\0");
        assert_eq!(item(&mut device, key::ID, 4), [3, 0, 0, 0]);
        assert_eq!(item(&mut device, key::NB_CPUS, 2), [3, 0]);
        assert_eq!(item(&mut device, key::MAX_CPUS, 2), [5, 0]);
        let ram = 0x1234_5678_9abcu64.to_le_bytes();
        assert_eq!(item(&mut device, key::RAM_SIZE, 8), ram);
        assert_eq!(item(&mut device, key::KERNEL_SIZE, 4), [77, 0, 0, 0]);
        assert_eq!(item(&mut device, 0xffff, 3), [0, 0, 0]);
    }

    #[test]
    fn directory_names_the_files() {
        let mut device = device();
        let directory = item(&mut device, key::FILE_DIR, 4 + 2 * 64);
        assert_eq!(directory[..4], [0, 0, 0, 2]);
        assert_eq!(directory[4..12], [0, 0, 0, 3, 0, 0x20, 0, 0]);
        assert_eq!(&directory[12..21], b"etc/e820\0");
        assert_eq!(directory[68..76], [0, 2, 0x80, 0, 0, 0x21, 0, 0]);
        assert_eq!(item(&mut device, 0x20, 4), [1, 2, 3, 0]);
    }

    #[test]
    fn dma_signature_is_big_endian() {
        let (mut device, cx) = (device(), &mut Fake::new());
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        assert_eq!(device.read(cx, DMA, 4), word(b"QEMU"));
        assert_eq!(device.read(cx, DMA + 4, 4), word(b" CFG"));
        assert_eq!(device.read(cx, DMA + 8, 4), 0);
        assert_eq!(device.read(cx, DMA + 6, 4), 0);
    }

    #[test]
    fn dma_reads_skips_and_selects() {
        let (mut device, cx) = (device(), &mut Fake::new());
        cx.poke(TO, &[0xff; 8]);
        let select = |key: u32| key << 16 | CONTROL_SELECT;
        assert_eq!(transfer(&mut device, cx, select(0x20) | CONTROL_READ, 2, TO), 0);
        assert_eq!(cx.peek(TO, 4), [1, 2, 0xff, 0xff]);
        assert_eq!(transfer(&mut device, cx, CONTROL_READ, 4, TO), 0);
        assert_eq!(cx.peek(TO, 5), [3, 0, 0, 0, 0xff]);
        assert_eq!(transfer(&mut device, cx, select(0) | CONTROL_SKIP, 3, 0), 0);
        assert_eq!(device.read(cx, DATA, 1), u64::from(b'U'));
        assert_eq!(
            transfer(&mut device, cx, select(0x21) | CONTROL_READ, 0x2_8001, TO),
            0
        );
        assert_eq!(cx.peek(TO, 0x2_8000), vec![9; 0x2_8000]);
        assert_eq!(cx.peek(TO + 0x2_8000, 1), [0]);
    }

    #[test]
    fn bad_transfers_say_so() {
        let (mut device, cx) = (device(), &mut Fake::new());
        assert_eq!(transfer(&mut device, cx, CONTROL_WRITE, 1, TO), CONTROL_ERROR);
        assert_eq!(transfer(&mut device, cx, CONTROL_READ, 1, 0), CONTROL_ERROR);
        assert_eq!(
            transfer(&mut device, cx, CONTROL_READ, 2, u64::MAX),
            CONTROL_ERROR
        );
        assert_eq!(
            transfer(&mut device, cx, CONTROL_READ, u32::MAX, TO),
            CONTROL_ERROR
        );
        let end = RAM_BASE + RAM_SIZE as u64 - 1;
        assert_eq!(transfer(&mut device, cx, CONTROL_READ, 2, end), CONTROL_ERROR);
        // A descriptor outside RAM changes nothing.
        cx.take();
        device.write(cx, DMA + 4, 4, 0);
        assert_eq!(cx.take(), []);
    }

    #[test]
    fn skipping_never_comes_round() {
        let (mut device, cx) = (device(), &mut Fake::new());
        device.state.offset = u64::MAX - 1;
        assert_eq!(transfer(&mut device, cx, CONTROL_SKIP, u32::MAX, 0), 0);
        assert_eq!(device.read(cx, DATA, 1), 0);
        assert_eq!(device.state.offset, u64::MAX);
    }
}
