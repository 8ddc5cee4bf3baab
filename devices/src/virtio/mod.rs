//! Virtio 1.2 devices behind a transport.
//!
//! ```text
//!   Mmio (a bus Device), 4.2 ────────┐
//!   PciTransport (on a PCI bus), 4.1 ┴▶ Function ─▶ VirtioDevice: Blk, Net, Console, Rng
//!                                        │  2.1 status, 2.2 features     │
//!                                        └─▶ Queues ◀── pop, complete ───┘
//!                                             2.7 split virtqueues
//! ```
//!
//! [`VirtioDevice`] and [`Queues`] know no transport. The transports are two fronts of the same [`Function`]:
//! they differ in how registers are laid out and interrupts are raised, nothing more.
//!
//! The virtqueues are our own. The virtio-queue crate reaches guest memory by vm-memory's pointers,
//! but here every write must pass the page guards first (snapshot capture, stale code,
//! watchpoints, digests), which only [`Context`] can do, and this crate forbids unsafe code.
//!
//! A driver that breaks the ring's rules gets DEVICE_NEEDS_RESET (2.1.2), and its queues stand
//! still until it resets the device.

pub mod blk;
mod console;
mod function;
mod mmio;
mod net;
mod pci;
mod queue;
mod receive;
mod rng;

#[cfg(test)]
pub(crate) mod bridged;
#[cfg(test)]
pub(crate) mod driver;
#[cfg(test)]
mod pci_tests;
#[cfg(test)]
mod tests;

pub use blk::Blk;
pub use console::Console;
pub use function::{Area, Function, Interrupts};
pub use mmio::{EmptySlot, Mmio, SIZE as MMIO_SIZE};
pub use net::Net;
pub use pci::PciTransport;
pub use queue::{Chain, Cursor, MAX_CHAIN, Queues, Segment, TransferError};
pub use rng::Rng;

use crate::{Context, DeviceError, Input, InputKind, VirtualTime};

/// What a virtio device is behind its transport. Like [`crate::Device`], it is plain state and
/// logic, and no method has a default.
pub trait VirtioDevice: Send {
    /// What the device is, for messages and the log.
    fn name(&self) -> &'static str;

    /// Device ID (virtio 1.2, section 5).
    fn device_id(&self) -> u32;

    /// Device-specific feature bits on offer, of 0 to 23 and 50 to 63; [`Function`] adds those that
    /// every device has.
    fn features(&self) -> u64;

    /// The greatest size of each queue; powers of two, at most 64 queues.
    fn queue_sizes(&self) -> &'static [u16];

    /// The whole device configuration space, little-endian.
    fn config(&self) -> Vec<u8>;

    /// The driver stores `bytes` at `offset` of the configuration space.
    fn config_write(&mut self, cx: &mut dyn Context, offset: u64, bytes: &[u8]);

    /// The driver made buffers of a queue available.
    fn notified(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16);

    /// As [`crate::Device::deadline`].
    fn deadline(&self) -> Option<VirtualTime>;

    /// As [`crate::Device::fire`]. `queues` may be broken by then; completions to them are dropped.
    fn fire(&mut self, cx: &mut dyn Context, queues: &mut Queues);

    /// As [`crate::Device::accepts`].
    fn accepts(&self, queues: &Queues, kind: InputKind) -> bool;

    /// As [`crate::Device::input`].
    fn input(&mut self, cx: &mut dyn Context, queues: &mut Queues, input: &Input);

    /// As [`crate::Device::save`].
    fn save(&self) -> Vec<u8>;

    /// As [`crate::Device::restore`].
    ///
    /// # Errors
    /// As there.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError>;

    /// The driver (by status 0) or the board resets the device: requests in flight are forgotten.
    fn reset(&mut self);
}
