//! PCI: a host bridge, bus 0, and the functions on it.
//!
//! ```text
//!                          ┌ 0xcf8, 0xcfc ─▶ CONFADD names function and register ─▶ Config
//!   I/O ports ─▶ Pci ──────┤
//!                          └ others ───┐
//!   the memory hole ─▶ Pci ────────────┴▶ the base address register that decodes it ─▶ Function
//!                                         none: reads are all ones, writes are lost
//!
//!   Function ─▶ pin ─▶ routing ─▶ board lines        Function ─▶ MSI-X vector ─▶ message
//! ```
//!
//! The board hands this device all I/O ports that no other device claims and the whole hole below 4 GiB, so
//! that where guests put base address registers is decided in here and the board's map never changes.
//!
//! The chipset is an i440FX with a PIIX3 (and the power management function of a PIIX4), which every
//! firmware and operating system of the BIOS era and since knows, SeaBIOS first among them: its tables of
//! interrupt routing are this chipset's. It is a single bus with configuration mechanism #1; a chipset with
//! PCI Express would ask for a memory-mapped configuration space and root ports, and none of the devices
//! here gains by it.
//!
//! The IDE controller, if there is one, is [`crate::Ide`], with its legacy ports wherever the PIIX3's IDE function stands,
//! and its bus master behind that function's BAR 4. The legacy ports answer always.
//!
//! The reset control register, port 0xcf9 among the configuration ports, is [`crate::pc::Pm`]'s: the board
//! maps that before this device. Not there: buses behind bridges, 64-bit and prefetchable base address
//! registers, plain MSI, power management, error reporting.
//!
//! Source: PCI Local Bus Specification 3.0; Intel 290549 (82441FX) 3.1, Intel 290550 (82371SB) 2.5.3.

mod bar;
mod chipset;
mod config;
mod function;
mod msix;
#[cfg(test)]
mod qemu;
mod routing;
#[cfg(test)]
mod tests;

pub use bar::Bar;
pub use chipset::{PM_BASE, SCI_IRQ};
pub use config::{Config, Identity};
pub use function::Function;
pub use routing::{interrupt_line, pirq};

use serde::{Deserialize, Serialize};

use self::bar::Space;
use self::config::Command;
use self::function::Unmastered;
use self::routing::Lines;
use crate::{Context, Device, DeviceError, Ide, Input, InputKind, VirtualTime, ide, state};

/// Where I/O ports lie in the offset space: offset = this + port, ports 0 to 0xffff.
pub const IO_WINDOW: u64 = 0;
/// Ports.
pub const IO_WINDOW_SIZE: u64 = 0x1_0000;
/// First of the eight ports of configuration mechanism #1; they are in the I/O window.
pub const CONFIG_PORT: u16 = 0xcf8;
/// Where memory lies in the offset space: offset = this + physical address, below 4 GiB.
pub const MEMORY_WINDOW: u64 = 1 << 32;
/// Bytes of the memory window.
pub const MEMORY_WINDOW_SIZE: u64 = 1 << 32;
/// Bytes of the whole offset space.
pub const SIZE: u64 = MEMORY_WINDOW + MEMORY_WINDOW_SIZE;

/// The device number of the first card.
pub const FIRST_CARD: u8 = 2;
/// The most cards.
pub const MAX_CARDS: usize = 30;

const CONFIG_ADDRESS: u64 = CONFIG_PORT as u64;
const CONFIG_DATA: u64 = 0xcfc;
const CONFIG_DATA_END: u64 = 0xd00;

/// CONFADD: enable, bus, device, function, register.
const ADDRESS_ENABLE: u32 = 1 << 31;
const ADDRESS_WRITABLE: u32 = 0x80ff_fffc;

const ISA_BRIDGE_DEVICE: u8 = 1;
const IDE_PLACE: (u8, u8) = (ISA_BRIDGE_DEVICE, 1);
const IDE_BUS_MASTER_BAR: u8 = 4;
const VERSION: u8 = 2;
const NAME: &str = "pci";

/// The host bridge with bus 0 and all its functions.
pub struct Pci {
    slots: Vec<Slot>,
    ide: Option<Ide>,
    state: State,
}

/// A function in its place.
struct Slot {
    device: u8,
    number: u8,
    config: Config,
    function: Box<dyn Function>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    address: u32,
    lines: Lines,
}

/// What is saved.
#[derive(Serialize, Deserialize)]
struct Saved {
    state: State,
    slots: Vec<(config::State, Vec<u8>)>,
    ide: Option<Vec<u8>>,
}

fn ones(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)))
}

impl Slot {
    fn new(device: u8, number: u8, function: Box<dyn Function>) -> Self {
        Slot {
            device,
            number,
            config: function.config(),
            function,
        }
    }

    fn is(&self, place: (u8, u8)) -> bool {
        (self.device, self.number) == place
    }

    /// Calls the function with what of the machine it may reach.
    fn call<R>(
        &mut self,
        cx: &mut dyn Context,
        act: impl FnOnce(&mut dyn Function, &mut dyn Context, &mut Config) -> R,
    ) -> R {
        if self.config.command().contains(Command::BUS_MASTER) {
            act(&mut *self.function, cx, &mut self.config)
        } else {
            act(&mut *self.function, &mut Unmastered(cx), &mut self.config)
        }
    }

    /// Whether the function has room for an input, and may store it.
    fn accepts(&self, kind: InputKind) -> bool {
        self.config.command().contains(Command::BUS_MASTER) && self.function.accepts(kind)
    }

    fn config_read(&mut self, cx: &mut dyn Context, offset: u8, size: u8) -> u64 {
        self.call(cx, |function, cx, config| {
            function.config_reading(cx, config, offset, size);
        });
        u64::from(self.config.word(offset)) & ones(size)
    }

    fn config_write(&mut self, cx: &mut dyn Context, offset: u8, size: u8, value: u64) {
        for (at, byte) in (offset..=u8::MAX)
            .zip(value.to_le_bytes())
            .take(usize::from(size))
        {
            self.config.write(at, byte);
        }
        self.call(cx, |function, cx, config| {
            config.written(cx);
            function.config_written(cx, config, offset, size);
        });
    }

    fn bar_read(&mut self, cx: &mut dyn Context, bar: u8, offset: u64, size: u8) -> u64 {
        if self.config.is_msix_bar(bar) {
            return self.config.msix_read(offset, size);
        }
        let value = self.call(cx, |function, cx, config| {
            function.bar_read(cx, config, bar, offset, size)
        });
        value & ones(size)
    }

    fn bar_write(&mut self, cx: &mut dyn Context, bar: u8, offset: u64, size: u8, value: u64) {
        let value = value & ones(size);
        let is_msix = self.config.is_msix_bar(bar);
        self.call(cx, |function, cx, config| {
            if is_msix {
                config.msix_write(cx, offset, size, value);
            } else {
                function.bar_write(cx, config, bar, offset, size, value);
            }
        });
    }
}

impl Pci {
    /// The chipset and `cards`, each function 0 of a device of its own: card n is device [`FIRST_CARD`] + n.
    ///
    /// # Panics
    /// If there are more than [`MAX_CARDS`] cards: the board's fault.
    pub fn new(cards: Vec<Box<dyn Function>>) -> Self {
        assert!(cards.len() <= MAX_CARDS, "{} PCI cards", cards.len());
        let mut slots = vec![
            Slot::new(0, 0, Box::new(chipset::HOST_BRIDGE)),
            Slot::new(ISA_BRIDGE_DEVICE, 0, Box::new(chipset::ISA_BRIDGE)),
            Slot::new(IDE_PLACE.0, IDE_PLACE.1, Box::new(chipset::IDE)),
            Slot::new(ISA_BRIDGE_DEVICE, 3, Box::new(chipset::POWER_MANAGEMENT)),
        ];
        slots.extend(
            (FIRST_CARD..)
                .zip(cards)
                .map(|(device, card)| Slot::new(device, 0, card)),
        );
        Pci {
            slots,
            ide: None,
            state: State::default(),
        }
    }

    /// The same with a host bridge that has all of the ROM shadow in RAM, as firmware leaves it: for boards that start without.
    pub fn shadowed(mut self) -> Self {
        self.slots[0] = Slot::new(0, 0, Box::new(chipset::SHADOWED_HOST_BRIDGE));
        self
    }

    /// The same with an IDE controller.
    pub fn with_ide(self, ide: Ide) -> Self {
        Pci {
            ide: Some(ide),
            ..self
        }
    }

    /// Calls the IDE controller, if there is one, with what of the machine it may reach.
    fn call_ide<R>(
        &mut self,
        cx: &mut dyn Context,
        act: impl FnOnce(&mut Ide, &mut dyn Context) -> R,
    ) -> Option<R> {
        let ide = self.ide.as_mut()?;
        let is_master = self
            .slots
            .iter()
            .find(|slot| slot.is(IDE_PLACE))
            .is_some_and(|slot| slot.config.command().contains(Command::BUS_MASTER));
        Some(if is_master {
            act(ide, cx)
        } else {
            act(ide, &mut Unmastered(cx))
        })
    }

    /// Where a port leads in the IDE controller, if it does.
    fn ide_offset(&self, port: u64, size: u8) -> Option<u64> {
        self.ide.as_ref()?;
        ide::legacy_offset(port).or_else(|| {
            let slot = self.slots.iter().find(|slot| slot.is(IDE_PLACE))?;
            let (bar, offset) = slot.config.decode(Space::Io, port, size)?;
            (bar == IDE_BUS_MASTER_BAR).then_some(ide::BUS_MASTER + offset)
        })
    }

    /// The function that CONFADD names, and the register, if it is enabled; the function is none if nothing
    /// is there.
    fn addressed(&mut self) -> Option<(Option<&mut Slot>, u8)> {
        let address = self.state.address;
        if address & ADDRESS_ENABLE == 0 {
            return None;
        }
        let [register, place, bus, _] = address.to_le_bytes();
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| bus == 0 && slot.device << 3 | slot.number == place);
        Some((slot, register))
    }

    fn decode(&mut self, space: Space, addr: u64, size: u8) -> Option<(&mut Slot, u8, u64)> {
        self.slots.iter_mut().find_map(|slot| {
            let (bar, offset) = slot.config.decode(space, addr, size)?;
            Some((slot, bar, offset))
        })
    }

    /// An access within the configuration data port, while CONFADD enables that: where in the dword it begins.
    /// The processor splits those that leave the dword.
    fn config_data(&self, port: u64, size: u8) -> Option<u8> {
        let within = port >= CONFIG_DATA && port + u64::from(size) <= CONFIG_DATA_END;
        let enabled = self.state.address & ADDRESS_ENABLE != 0;
        (within && enabled).then(|| (port - CONFIG_DATA) as u8)
    }

    fn read_port(&mut self, cx: &mut dyn Context, port: u64, size: u8) -> u64 {
        if (port, size) == (CONFIG_ADDRESS, 4) {
            return self.state.address.into();
        }
        if let Some(start) = self.config_data(port, size) {
            return match self.addressed() {
                Some((Some(slot), register)) => slot.config_read(cx, register + start, size),
                _ => ones(size),
            };
        }
        if let Some(offset) = self.ide_offset(port, size) {
            let value = self.call_ide(cx, |ide, cx| ide.read(cx, offset, size));
            return value.unwrap_or(ones(size));
        }
        self.read_decoded(cx, Space::Io, port, size)
    }

    fn write_port(&mut self, cx: &mut dyn Context, port: u64, size: u8, value: u64) {
        if (port, size) == (CONFIG_ADDRESS, 4) {
            self.state.address = value as u32 & ADDRESS_WRITABLE;
        } else if let Some(start) = self.config_data(port, size) {
            let old = self.pam();
            if let Some((Some(slot), register)) = self.addressed() {
                slot.config_write(cx, register + start, size, value);
            }
            self.tell_shadow(cx, old);
        } else if let Some(offset) = self.ide_offset(port, size) {
            self.call_ide(cx, |ide, cx| ide.write(cx, offset, size, value));
        } else {
            self.write_decoded(cx, Space::Io, port, size, value);
        }
    }

    fn read_decoded(&mut self, cx: &mut dyn Context, space: Space, addr: u64, size: u8) -> u64 {
        match self.decode(space, addr, size) {
            Some((slot, bar, offset)) => slot.bar_read(cx, bar, offset, size),
            None => ones(size),
        }
    }

    fn write_decoded(&mut self, cx: &mut dyn Context, space: Space, addr: u64, size: u8, value: u64) {
        if let Some((slot, bar, offset)) = self.decode(space, addr, size) {
            slot.bar_write(cx, bar, offset, size, value);
        }
    }

    fn pam(&self) -> chipset::Pam {
        chipset::pam(&self.slots[0].config)
    }

    /// Tells what of the ROM shadow is other than the host bridge's registers said before.
    fn tell_shadow(&self, cx: &mut dyn Context, old: chipset::Pam) {
        let parts = chipset::shadow(old).into_iter().zip(chipset::shadow(self.pam()));
        for (_, (addr, len, rights)) in parts.filter(|(old, new)| old != new) {
            cx.set_shadow(addr, len, rights);
        }
    }

    /// Drives the lines by what the functions assert now.
    fn update_lines(&mut self, cx: &mut dyn Context) {
        let routes = self
            .slots
            .iter()
            .find(|slot| (slot.device, slot.number) == (ISA_BRIDGE_DEVICE, 0))
            .map_or([0x80; 4], |slot| {
                slot.config.word(chipset::PIRQ_ROUTE).to_le_bytes()
            });
        let asserted = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot.device, slot.config.asserted_pin()?)));
        let lines = Lines::new(asserted, routes);
        self.state.lines.drive(cx, lines);
    }

    /// Takes a saved state function by function; a failure leaves those before it changed.
    fn take(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let (count, has_ide) = (self.slots.len(), self.ide.is_some());
        let saved = state::restore(NAME, VERSION, bytes, |saved: &Saved| {
            if saved.slots.len() != count {
                Err("another number of functions")
            } else if saved.ide.is_some() != has_ide {
                Err("an IDE controller on one side only")
            } else if saved.state.address & !ADDRESS_WRITABLE != 0 {
                Err("a configuration address that can't be set")
            } else if saved.state.lines.is_possible() {
                Ok(())
            } else {
                Err("an interrupt line that can't be driven")
            }
        })?;
        for (slot, (config, function)) in self.slots.iter_mut().zip(saved.slots) {
            slot.function.restore(&function)?;
            let device = slot.function.name();
            slot.config
                .restore(config)
                .map_err(|what| DeviceError::Impossible { device, what })?;
        }
        if let (Some(ide), Some(bytes)) = (&mut self.ide, &saved.ide) {
            ide.restore(bytes)?;
        }
        self.state = saved.state;
        Ok(())
    }
}

impl Device for Pci {
    fn name(&self) -> &'static str {
        NAME
    }

    /// What nothing decodes reads as all ones.
    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let value = match offset {
            0..IO_WINDOW_SIZE => self.read_port(cx, offset, size),
            MEMORY_WINDOW..SIZE => self.read_decoded(cx, Space::Memory, offset - MEMORY_WINDOW, size),
            _ => ones(size),
        };
        self.update_lines(cx);
        value
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        match offset {
            0..IO_WINDOW_SIZE => self.write_port(cx, offset, size, value),
            MEMORY_WINDOW..SIZE => {
                self.write_decoded(cx, Space::Memory, offset - MEMORY_WINDOW, size, value);
            }
            _ => {}
        }
        self.update_lines(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        let ide = self.ide.as_ref().and_then(Device::deadline);
        self.slots
            .iter()
            .filter_map(|slot| slot.function.deadline())
            .chain(ide)
            .min()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        let now = cx.now();
        for slot in &mut self.slots {
            if slot.function.deadline().is_some_and(|due| due <= now) {
                slot.call(cx, |function, cx, config| function.fire(cx, config));
            }
        }
        if self
            .ide
            .as_ref()
            .and_then(Device::deadline)
            .is_some_and(|due| due <= now)
        {
            self.call_ide(cx, |ide, cx| ide.fire(cx));
        }
        self.update_lines(cx);
    }

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, kind: InputKind) -> bool {
        self.slots.iter().any(|slot| slot.accepts(kind))
    }

    /// The first function that accepts it takes it.
    fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        let kind = input.kind();
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.accepts(kind)) {
            slot.call(cx, |function, cx, config| function.input(cx, config, input));
        }
        self.update_lines(cx);
    }

    fn save(&self) -> Vec<u8> {
        let slots = self
            .slots
            .iter()
            .map(|slot| (slot.config.save(), slot.function.save()));
        let saved = Saved {
            state: self.state.clone(),
            slots: slots.collect(),
            ide: self.ide.as_ref().map(Device::save),
        };
        state::save(VERSION, &saved)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let old = self.save();
        self.take(bytes).inspect_err(|_| {
            // What was saved a moment ago is a state that this device can be in.
            let restored = self.take(&old);
            debug_assert!(restored.is_ok());
        })
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        let old = self.pam();
        for slot in &mut self.slots {
            slot.config = slot.function.config();
            slot.function.reset();
        }
        self.tell_shadow(cx, old);
        if let Some(ide) = &mut self.ide {
            ide.reset(cx);
        }
        self.state = State {
            lines: std::mem::take(&mut self.state.lines),
            ..State::default()
        };
        self.update_lines(cx);
    }
}
