//! What a PCI function is to the host bridge, and how its accesses to memory are let through.

use icount::VirtualTime;

use super::Config;
use crate::{Context, DeviceError, DiskError, DmaError, HartPin, Input, InputKind, Power, Shadow};

/// A function of the bus: plain state and logic, like [`crate::Device`], and no method has a default. What
/// every function has (identity, command, base address registers, interrupts) is its [`Config`]; a function
/// adds what only it knows.
///
/// While the guest withholds Bus Master Enable, the function's DMA fails as outside RAM, and its messages are
/// lost.
pub trait Function: Send {
    /// What the function is, for messages and the log.
    fn name(&self) -> &'static str;

    /// The configuration space after power-on.
    fn config(&self) -> Config;

    /// Called before a guest reads `size` (1, 2 or 4) bytes at `offset` of the configuration space: for
    /// registers whose content is not theirs.
    fn config_reading(&mut self, cx: &mut dyn Context, config: &mut Config, offset: u8, size: u8);

    /// Called after a guest wrote `size` (1, 2 or 4) bytes at `offset` of the configuration space.
    fn config_written(&mut self, cx: &mut dyn Context, config: &mut Config, offset: u8, size: u8);

    /// A guest load of `size` (1, 2, 4 or 8) bytes, all within base address register `bar`, at `offset`.
    fn bar_read(&mut self, cx: &mut dyn Context, config: &mut Config, bar: u8, offset: u64, size: u8) -> u64;

    /// A guest store of `size` (1, 2, 4 or 8) bytes, all within base address register `bar`, at `offset`.
    fn bar_write(
        &mut self,
        cx: &mut dyn Context,
        config: &mut Config,
        bar: u8,
        offset: u64,
        size: u8,
        value: u64,
    );

    /// As [`crate::Device::deadline`].
    fn deadline(&self) -> Option<VirtualTime>;

    /// As [`crate::Device::fire`].
    fn fire(&mut self, cx: &mut dyn Context, config: &mut Config);

    /// As [`crate::Device::accepts`].
    fn accepts(&self, kind: InputKind) -> bool;

    /// As [`crate::Device::input`].
    fn input(&mut self, cx: &mut dyn Context, config: &mut Config, input: &Input);

    /// As [`crate::Device::save`], without the configuration space.
    fn save(&self) -> Vec<u8>;

    /// As [`crate::Device::restore`].
    ///
    /// # Errors
    /// As there.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Back to the state at power-on; the configuration space is by then.
    fn reset(&mut self);
}

/// The machine as a function without Bus Master Enable sees it.
pub(super) struct Unmastered<'a>(pub(super) &'a mut dyn Context);

impl Context for Unmastered<'_> {
    fn now(&self) -> VirtualTime {
        self.0.now()
    }

    fn set_line(&mut self, line: u32, level: bool) {
        self.0.set_line(line, level);
    }

    fn set_hart_pin(&mut self, hart: u32, pin: HartPin, level: u32) {
        self.0.set_hart_pin(hart, pin, level);
    }

    fn set_local_window(&mut self, hart: u32, base: Option<u64>) {
        self.0.set_local_window(hart, base);
    }

    fn set_shadow(&mut self, addr: u64, len: u64, rights: Shadow) {
        self.0.set_shadow(addr, len, rights);
    }

    fn hart(&self) -> u32 {
        self.0.hart()
    }

    fn message(&mut self, _addr: u64, _data: u32) {}

    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        Err(DmaError { addr, len })
    }

    fn dma_write(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        Err(DmaError { addr, len })
    }

    fn console_out(&mut self, port: u8, byte: u8) {
        self.0.console_out(port, byte);
    }

    fn frame_out(&mut self, port: u8, frame: &[u8]) {
        self.0.frame_out(port, frame);
    }

    fn disk_read(
        &mut self,
        drive: u8,
        block: u64,
        buf: &mut [u8; crate::BLOCK_SIZE],
    ) -> Result<(), DiskError> {
        self.0.disk_read(drive, block, buf)
    }

    fn disk_write(&mut self, drive: u8, block: u64, buf: &[u8; crate::BLOCK_SIZE]) -> Result<(), DiskError> {
        self.0.disk_write(drive, block, buf)
    }

    fn power(&mut self, action: Power) {
        self.0.power(action);
    }
}
