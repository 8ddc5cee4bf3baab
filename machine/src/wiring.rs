//! How a board's devices are connected: which addresses, ports and pins are whose.

use devices::HartPin;

use crate::board::Role;
use crate::shadow;

/// Addresses (or ports) behind which registers of a device stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// First address or port.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Index of the device.
    pub device: usize,
    /// Offset in the device's registers of the first byte.
    pub offset: u64,
}

/// The first window that all of an access lies in: the device, and the offset in its registers.
pub(crate) fn find(windows: &[Window], addr: u64, size: u64) -> Option<(usize, u64)> {
    windows.iter().find_map(|w| {
        let offset = addr.wrapping_sub(w.base);
        (offset < w.len && size <= w.len - offset).then(|| (w.device, w.offset + offset))
    })
}

/// Where the registers of each hart's own interrupt controller are (x86: the local APIC).
#[derive(Clone, Copy)]
pub(crate) struct Local {
    /// Index of the device that has them all; it tells the harts apart by who asks.
    pub device: usize,
    /// Offset of the first of the registers that are in a page of memory, whose place each hart's own chooses.
    pub registers: u64,
    /// Where that page is at power-on.
    pub window: u64,
    /// Offset of a register by the number that [`cpu::Context::local_read`] has for it.
    pub register: fn(u32) -> Option<u64>,
    /// Whether a write (with this value) or a read of a register is a fault, given register [`Local::base`].
    pub faults: fn(u64, u32, Option<u64>) -> bool,
    /// Number of the register that `faults` wants to know.
    pub base: u32,
    /// Offset to which a vector is written when the interrupt shown at a pin is taken.
    pub acknowledge: fn(u32) -> u64,
}

/// See the module's documentation. Earlier windows hide later ones.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub memory: Vec<Window>,
    pub ports: Vec<Window>,
    /// Where messages between devices go.
    pub messages: Vec<Window>,
    /// The number of a hart's pin.
    pub pin: fn(HartPin) -> u32,
    /// The device of each console port.
    pub consoles: Vec<usize>,
    /// The device of console port [`icount::VIRTIO_CONSOLE`].
    pub virtio_console: Option<usize>,
    /// The device that takes keys.
    pub keyboard: Option<usize>,
    /// The device that has a screen.
    pub display: Option<usize>,
    /// The device of each network port.
    pub networks: Vec<usize>,
    pub local: Option<Local>,
    /// Where harts tell of floating-point errors: device and offset.
    pub numeric_error: Option<(usize, u64)>,
    pub shadow: Option<shadow::Place>,
}

impl Wiring {
    /// Connects a card to what is outside; network ports are numbered as they are connected.
    pub fn connect(&mut self, role: Role, device: usize) {
        match role {
            Role::Network => self.networks.push(device),
            Role::Console => self.virtio_console = Some(device),
            Role::Other => {}
        }
    }
}
