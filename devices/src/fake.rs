//! A machine for tests: flat RAM, two drives, and a record of every effect.

use std::collections::BTreeMap;

use icount::VirtualTime;

use crate::{BLOCK_SIZE, Context, DiskError, DmaError, HartPin, Power, Shadow};

/// Guest-physical address at which the fake's RAM begins.
pub const RAM_BASE: u64 = 0x8000_0000;
/// Bytes of RAM.
pub const RAM_SIZE: usize = 1 << 20;
/// Blocks of each drive.
pub const BLOCKS: u64 = 64;
/// Drives 0 and 1 exist.
pub const DRIVES: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Line(u32, bool),
    Pin(u32, HartPin, u32),
    LocalWindow(u32, Option<u64>),
    Shadow(u64, u64, Shadow),
    DmaWrite(u64, Vec<u8>),
    Message(u64, u32),
    Frame(u8, Vec<u8>),
    Out(u8, u8),
    DiskWrite(u8, u64),
    Power(Power),
}

#[derive(Clone)]
pub struct Fake {
    pub now: VirtualTime,
    /// The hart whose access it is.
    pub hart: u32,
    pub effects: Vec<Effect>,
    pub ram: Vec<u8>,
    pub disk: BTreeMap<(u8, u64), [u8; BLOCK_SIZE]>,
    /// Calls of `dma_read` and `dma_write`, to bound what a hostile ring can cause.
    pub dma_calls: u64,
}

impl Fake {
    pub fn new() -> Self {
        Fake {
            now: VirtualTime(0),
            hart: 0,
            effects: Vec::new(),
            ram: vec![0; RAM_SIZE],
            disk: BTreeMap::new(),
            dma_calls: 0,
        }
    }

    /// The effects since the last call.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn range(addr: u64, len: usize) -> Result<std::ops::Range<usize>, DmaError> {
        let error = DmaError {
            addr,
            len: len as u64,
        };
        let start = addr.checked_sub(RAM_BASE).ok_or(error)?;
        let end = start.checked_add(len as u64).ok_or(error)?;
        if end > RAM_SIZE as u64 {
            return Err(error);
        }
        Ok(start as usize..end as usize)
    }

    pub fn poke(&mut self, addr: u64, bytes: &[u8]) {
        let range = Self::range(addr, bytes.len()).unwrap();
        self.ram[range].copy_from_slice(bytes);
    }

    pub fn peek(&self, addr: u64, len: usize) -> &[u8] {
        &self.ram[Self::range(addr, len).unwrap()]
    }
}

impl Context for Fake {
    fn now(&self) -> VirtualTime {
        self.now
    }

    fn set_line(&mut self, line: u32, level: bool) {
        self.effects.push(Effect::Line(line, level));
    }

    fn set_hart_pin(&mut self, hart: u32, pin: HartPin, level: u32) {
        self.effects.push(Effect::Pin(hart, pin, level));
    }

    fn set_local_window(&mut self, hart: u32, base: Option<u64>) {
        self.effects.push(Effect::LocalWindow(hart, base));
    }

    fn set_shadow(&mut self, addr: u64, len: u64, rights: Shadow) {
        self.effects.push(Effect::Shadow(addr, len, rights));
    }

    fn hart(&self) -> u32 {
        self.hart
    }

    fn message(&mut self, addr: u64, data: u32) {
        self.effects.push(Effect::Message(addr, data));
    }

    fn frame_out(&mut self, port: u8, frame: &[u8]) {
        self.effects.push(Effect::Frame(port, frame.to_vec()));
    }

    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.dma_calls += 1;
        let range = Self::range(addr, buf.len())?;
        buf.copy_from_slice(&self.ram[range]);
        Ok(())
    }

    fn dma_write(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.dma_calls += 1;
        let range = Self::range(addr, buf.len())?;
        self.ram[range].copy_from_slice(buf);
        self.effects.push(Effect::DmaWrite(addr, buf.to_vec()));
        Ok(())
    }

    fn console_out(&mut self, port: u8, byte: u8) {
        self.effects.push(Effect::Out(port, byte));
    }

    fn disk_read(&mut self, drive: u8, block: u64, buf: &mut [u8; BLOCK_SIZE]) -> Result<(), DiskError> {
        if drive >= DRIVES || block >= BLOCKS {
            return Err(DiskError::NoSuchBlock { drive, block });
        }
        *buf = *self.disk.get(&(drive, block)).unwrap_or(&[0; BLOCK_SIZE]);
        Ok(())
    }

    fn disk_write(&mut self, drive: u8, block: u64, buf: &[u8; BLOCK_SIZE]) -> Result<(), DiskError> {
        if drive >= DRIVES || block >= BLOCKS {
            return Err(DiskError::NoSuchBlock { drive, block });
        }
        self.disk.insert((drive, block), *buf);
        self.effects.push(Effect::DiskWrite(drive, block));
        Ok(())
    }

    fn power(&mut self, action: Power) {
        self.effects.push(Effect::Power(action));
    }
}
