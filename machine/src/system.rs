//! Everything of a machine but its harts and its engine: memory, devices, lines, time, disks, the door.
//!
//! It is the [`devices::Context`] of its devices. What a device asks of a hart (a pin) is queued and applied
//! at the end of the step or boundary in which it was asked: a hart looks at its pins only at boundaries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu::{Access, Cpu, SpaceKey, Translation, Trap};
use devices::{BLOCK_SIZE, Device, DiskError, DmaError, HartPin, Power, Shadow};
use icount::{Clock, Door, DoorError, Effect, Icount, VirtualTime};

use crate::config::OnShutdown;
use crate::disk::Disks;
use crate::memory::Memory;
use crate::ram::PAGE;
use crate::semihosting::Semihosting;
use crate::stops::Watching;
use crate::wiring::{Wiring, find};

/// First of three modifier bits of a [`SpaceKey`] that say which harts' space it is; harts use none of them.
const OWNER: u32 = 12;

/// The most devices of a board: each has a bit in [`System::lines`].
pub(crate) const MOST_DEVICES: usize = 64;

/// A device of the board.
pub(crate) struct Mapped {
    /// Where harts reach it, for messages: the first address or port.
    pub base: u64,
    /// Absent while one of its methods runs.
    pub device: Option<Box<dyn Device>>,
}

/// A pin of a hart that changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PinChange {
    pub hart: u32,
    pub pin: HartPin,
    pub level: u32,
}

/// What an access leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Located {
    /// A page of memory, with the translation as far as it may be cached.
    Memory { page: u64, translation: Translation },
    /// A device.
    Device { index: usize, offset: u64 },
}

/// See the module's documentation.
pub(crate) struct System {
    pub memory: Memory,
    pub devices: Vec<Mapped>,
    pub wiring: Wiring,
    /// Of each of the board's lines, by number, the devices that hold it up: a bit each. A line is up while one does.
    pub lines: Vec<u64>,
    /// The device whose method runs.
    pub acting: usize,
    /// Where each hart's own interrupt controller is in its physical addresses.
    pub local_windows: Vec<Option<u64>>,
    /// Of each hart, [`Cpu::protection`].
    pub protections: Vec<Vec<u64>>,
    /// Of each hart, the first whose physical map is the same: see [`System::compare_maps`].
    pub alike: Vec<u8>,
    /// Messages between devices, to be handed over after the running call.
    pub messages: VecDeque<(u64, u32)>,
    /// Pins to be applied.
    pub pins: Vec<PinChange>,
    pub clock: Clock,
    /// Steps made: while an engine runs, those before the executing step.
    pub at: Icount,
    /// The hart whose turn it is.
    pub current: u8,
    pub door: Box<dyn Door + Send>,
    /// What the door refused; the run loop stops and tells. The effects behind it wait to be told again.
    pub failed: Option<DoorError>,
    pub untold: Vec<(Icount, VirtualTime, u8, Effect)>,
    pub disks: Disks,
    pub power: Option<Power>,
    /// Earliest deadline of the devices.
    pub device_deadline: Option<VirtualTime>,
    /// The one that the running budget was made for.
    pub seen_deadline: Option<VirtualTime>,
    /// The running hart's data space, and its key.
    pub space: usize,
    pub space_key: Option<SpaceKey>,
    /// The running block must be left after the instruction.
    pub leave: bool,
    /// Asks the run to come back; others may hold it too.
    pub interrupt: Arc<AtomicBool>,
    /// The interrupt flag was seen set by the executing step: the run comes back right behind it.
    pub called_off: bool,
    /// A hart shut itself down in the last step: to be told.
    pub shut_down: bool,
    pub on_shutdown: OnShutdown,
    /// What the user should hear of, oldest first.
    pub notes: VecDeque<String>,
    /// Steps of the budget that are left at the running helper, and those that it made beyond its own.
    pub left: u64,
    pub more_steps: u64,
    /// The hart gave up the rest of its slice.
    pub end_slice: bool,
    /// The executing step has set A or D bits: it can't be stopped without a trace any more.
    pub torn: bool,
    /// Why the last access or helper ended in [`cpu::Outcome::Stop`], if by a trap.
    pub trap: Option<Trap>,
    pub watching: Watching,
    /// DMA writes of the running step or boundary, of which harts must be told.
    pub dma_writes: Vec<(u64, u64)>,
    /// Address of the `tohost` word, if HTIF is served.
    pub tohost: Option<u64>,
    /// What semihosting calls are answered with, if they are served.
    pub semihosting: Option<Semihosting>,
    /// RAM pages that hold the second half of a straddling block, with the pages of the first halves.
    pub straddlers: BTreeMap<u64, BTreeSet<u64>>,
    /// Page walks since the start: a figure for the user.
    pub walks: u64,
}

impl System {
    /// Virtual time at the executing step.
    pub fn time(&self) -> VirtualTime {
        self.clock.now(self.at)
    }

    /// Whether the run loop has something to do at the next boundary besides an interrupt.
    pub fn boundary_due(&self) -> bool {
        self.failed.is_some()
            || self.called_off
            || self.power.is_some()
            || !self.pins.is_empty()
            || !self.dma_writes.is_empty()
            || self.device_deadline != self.seen_deadline
            || self.watching.hit.is_some()
    }

    /// Drops what belongs to a step that was under way: the machine was restored.
    pub fn forget_step(&mut self) {
        self.pins.clear();
        self.messages.clear();
        self.dma_writes.clear();
        self.untold.clear();
        self.failed = None;
        self.trap = None;
        self.leave = false;
        self.device_deadline = None;
        self.after_device();
        self.leave = false;
    }

    /// Tells the door of an effect. If it can't take it, the run pauses after this step, and nothing is lost.
    pub fn tell(&mut self, effect: Effect) {
        let (at, time, hart) = (self.at, self.time(), self.current);
        if self.failed.is_none() {
            match self.door.effect(at, time, hart, &effect) {
                Ok(()) => return,
                Err(error) => {
                    self.failed = Some(error);
                    self.leave = true;
                }
            }
        }
        self.untold.push((at, time, hart, effect));
    }

    /// Tells the door again what it could not take.
    pub fn tell_again(&mut self) -> Result<(), DoorError> {
        if let Some(error) = self.failed.take() {
            // A divergence can't be mended by trying again.
            if matches!(error, DoorError::Divergence(_)) {
                return Err(error);
            }
        }
        while let Some((at, time, hart, effect)) = self.untold.first() {
            self.door.effect(*at, *time, *hart, effect)?;
            self.untold.remove(0);
        }
        Ok(())
    }

    /// Where an access to `len` bytes, all in one page, leads.
    pub fn locate(&self, found: Translation, len: u64, access: Access) -> Option<Located> {
        if let Some((index, offset)) = self.local_device(found.addr) {
            return (access != Access::Fetch).then_some(Located::Device { index, offset });
        }
        if let Some((page, translation)) = self.memory.locate(found, access) {
            return Some(Located::Memory { page, translation });
        }
        let (index, offset) = self.device_at(found.addr, len)?;
        (access != Access::Fetch).then_some(Located::Device { index, offset })
    }

    /// The running hart's own interrupt controller, if its registers are in the page of `addr`.
    fn local_device(&self, addr: u64) -> Option<(usize, u64)> {
        let local = self.wiring.local.as_ref()?;
        let base = (*self.local_windows.get(usize::from(self.current))?)?;
        let offset = addr.wrapping_sub(base);
        (offset < PAGE).then_some((local.device, local.registers + offset))
    }

    /// The key of what the running hart translates: harts share a space only if their physical maps are the same.
    pub fn own_key(&self, key: SpaceKey) -> SpaceKey {
        SpaceKey {
            modifiers: key.modifiers | u64::from(self.alike[usize::from(self.current)]) << OWNER,
            ..key
        }
    }

    /// Finds out which harts' physical maps are the same: they differ by protection, or while a hart's interrupt controller
    /// hides memory that is there for others. All translations are void.
    pub fn compare_maps(&mut self) {
        let map = |hart: usize| {
            let hides = |base: &u64| self.memory.ram().page_of(*base).is_some();
            (&self.protections[hart], self.local_windows[hart].filter(hides))
        };
        let first = |hart: usize| (0..hart).find(|first| map(*first) == map(hart)).unwrap_or(hart);
        self.alike = (0..self.protections.len())
            .map(|hart| first(hart) as u8)
            .collect();
        self.memory.drop_translations();
        self.space_key = None;
        self.leave = true;
    }

    /// Takes note of the harts' protection, after whatever may have changed it unseen.
    pub fn set_protections(&mut self, harts: &[Box<dyn Cpu>]) {
        let protections: Vec<_> = harts.iter().map(|cpu| cpu.protection()).collect();
        if protections != self.protections {
            self.protections = protections;
            self.compare_maps();
        }
    }

    /// Puts the harts' interrupt controllers where they are to be.
    pub fn set_local_windows(&mut self, windows: Vec<Option<u64>>) {
        if windows != self.local_windows {
            self.local_windows = windows;
            self.compare_maps();
        }
    }

    /// Makes the data space of `key` the one that accesses go through.
    pub fn select_space(&mut self, cpu: &dyn Cpu, key: SpaceKey) {
        self.space = self.memory.data_space(cpu, key);
        self.space_key = Some(key);
    }

    /// Index of the device at physical address `addr`, and the offset in its registers.
    pub fn device_at(&self, addr: u64, size: u64) -> Option<(usize, u64)> {
        find(&self.wiring.memory, addr, size)
    }

    /// Calls `f` with a device and the rest of the machine as its context.
    pub fn with_device<T>(
        &mut self,
        index: usize,
        f: impl FnOnce(&mut dyn Device, &mut System) -> T,
    ) -> Option<T> {
        let mut device = self.devices[index].device.take()?;
        let acting = std::mem::replace(&mut self.acting, index);
        let result = f(&mut *device, self);
        self.acting = acting;
        self.devices[index].device = Some(device);
        Some(result)
    }

    /// A guest load from a device.
    pub fn mmio_read(&mut self, index: usize, addr: u64, offset: u64, size: u8) -> u64 {
        let value = self
            .with_device(index, |d, cx| d.read(cx, offset, size))
            .unwrap_or(0);
        self.tell(Effect::Mmio {
            write: false,
            addr,
            size,
            value,
        });
        self.after_device();
        value
    }

    /// A guest store to a device.
    pub fn mmio_write(&mut self, index: usize, addr: u64, offset: u64, size: u8, value: u64) {
        self.tell(Effect::Mmio {
            write: true,
            addr,
            size,
            value,
        });
        self.with_device(index, |d, cx| d.write(cx, offset, size, value));
        self.after_device();
    }

    /// A guest's read of an I/O port.
    pub fn pio_read(&mut self, port: u16, size: u8) -> u32 {
        let value = match find(&self.wiring.ports, port.into(), size.into()) {
            Some((index, offset)) => self.with_device(index, |d, cx| d.read(cx, offset, size)),
            None => None,
        };
        let value = value.map_or(u32::MAX >> (32 - 8 * u32::from(size)), |value| value as u32);
        self.tell(Effect::Port {
            write: false,
            port,
            size,
            value,
        });
        self.after_device();
        value
    }

    /// A guest's write of an I/O port.
    pub fn pio_write(&mut self, port: u16, size: u8, value: u32) {
        self.tell(Effect::Port {
            write: true,
            port,
            size,
            value,
        });
        if let Some((index, offset)) = find(&self.wiring.ports, port.into(), size.into()) {
            self.with_device(index, |d, cx| d.write(cx, offset, size, value.into()));
        }
        self.after_device();
    }

    /// Writes RAM where it isn't ROM, through the guards.
    pub fn write_ram(&mut self, addr: u64, bytes: &[u8]) {
        if let Some(page) = self.memory.ram().page_of(addr)
            && !self.memory.ram().is_rom(page)
        {
            self.memory.write_bytes(addr, bytes);
        }
    }

    /// After a device acted: what is due may have changed.
    pub fn after_device(&mut self) {
        while let Some((addr, data)) = self.messages.pop_front() {
            if let Some((index, offset)) = find(&self.wiring.messages, addr, 4) {
                self.with_device(index, |d, cx| d.write(cx, offset, 4, data.into()));
            }
        }
        let deadline = self
            .devices
            .iter()
            .filter_map(|m| m.device.as_ref()?.deadline())
            .min();
        if deadline != self.device_deadline {
            self.device_deadline = deadline;
            self.leave = true;
        }
        if !self.pins.is_empty() || self.power.is_some() || !self.dma_writes.is_empty() {
            self.leave = true;
        }
    }

    /// HTIF (the `tohost` convention of RISC-V test programs): an odd value ends the run with code `value >> 1`;
    /// device 1, command 1 is a console byte.
    pub fn htif(&mut self, word: u64) {
        let value = self.memory.ram().read(word, cpu::ir::Size::B8);
        match (value >> 56, value >> 48 & 0xff) {
            (0, 0) if value & 1 == 1 => {
                self.power = Some(Power::Off {
                    code: (value >> 1) as u32,
                })
            }
            (1, 1) => {
                self.tell(Effect::ConsoleOut {
                    port: 0,
                    byte: value as u8,
                });
                self.memory.write_bytes(word, &[0; 8]);
            }
            _ => return,
        }
        self.leave = true;
    }

    /// Fires what is due of the devices, by (time, device number).
    pub fn fire_due(&mut self) -> bool {
        let now = self.time();
        let mut fired = false;
        while self.device_deadline.is_some_and(|d| d <= now) {
            let due = self
                .devices
                .iter()
                .enumerate()
                .filter_map(|(i, m)| Some((m.device.as_ref()?.deadline()?, i)))
                .min();
            let Some((_, index)) = due.filter(|(time, _)| *time <= now) else {
                break;
            };
            self.with_device(index, |d, cx| d.fire(cx));
            self.after_device();
            fired = true;
        }
        fired
    }
}

/// Of `len` bytes at `addr`, those behind the first `done` up to the end of a page.
fn piece(addr: u64, len: u64, done: usize) -> (u64, usize) {
    let at = addr + done as u64;
    (at, (PAGE - at % PAGE).min(len - done as u64) as usize)
}

impl devices::Context for System {
    fn now(&self) -> VirtualTime {
        self.time()
    }

    fn set_line(&mut self, line: u32, level: bool) {
        let Some(holders) = self.lines.get_mut(line as usize) else {
            return;
        };
        let was = *holders != 0;
        let holder = 1 << self.acting;
        *holders = if level {
            *holders | holder
        } else {
            *holders & !holder
        };
        if (*holders != 0) == was {
            return;
        }
        self.tell(Effect::Line { line, level });
        for index in 0..self.devices.len() {
            self.with_device(index, |d, cx| d.line_changed(cx, line, level));
        }
    }

    fn set_hart_pin(&mut self, hart: u32, pin: HartPin, level: u32) {
        self.pins.push(PinChange { hart, pin, level });
    }

    fn set_local_window(&mut self, hart: u32, base: Option<u64>) {
        let mut windows = self.local_windows.clone();
        if let Some(window) = windows.get_mut(hart as usize) {
            *window = base;
        }
        self.set_local_windows(windows);
    }

    fn set_shadow(&mut self, addr: u64, len: u64, rights: Shadow) {
        self.memory.change_shadow(addr, len, rights);
        self.leave = true;
    }

    fn hart(&self) -> u32 {
        self.current.into()
    }

    fn message(&mut self, addr: u64, data: u32) {
        self.messages.push_back((addr, data));
    }

    fn frame_out(&mut self, port: u8, frame: &[u8]) {
        self.tell(Effect::FrameOut {
            port,
            len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
            digest: icount::digest(frame),
        });
        self.door.send(port, frame);
    }

    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        if !self.memory.ram().contains(addr, len) {
            return Err(DmaError { addr, len });
        }
        let mut done = 0;
        while done < buf.len() {
            let (at, n) = piece(addr, len, done);
            match self.memory.find(at, false) {
                Some(from) => self.memory.ram().read_bytes(from, &mut buf[done..done + n]),
                None => buf[done..done + n].fill(0xff),
            }
            done += n;
        }
        self.watching
            .access(&self.memory, self.at, self.current, addr, len, false);
        Ok(())
    }

    fn dma_write(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        if !self.memory.ram().contains(addr, len) {
            return Err(DmaError { addr, len });
        }
        self.tell(Effect::Dma {
            write: true,
            addr,
            len: len as u32,
            digest: icount::digest(buf),
        });
        self.watching
            .access(&self.memory, self.at, self.current, addr, len, true);
        let mut done = 0;
        while done < buf.len() {
            let (at, n) = piece(addr, len, done);
            if let Some(to) = self.memory.find(at, true) {
                self.write_ram(to, &buf[done..done + n]);
            }
            done += n;
        }
        self.dma_writes.push((addr, len));
        self.leave = true;
        Ok(())
    }

    fn console_out(&mut self, port: u8, byte: u8) {
        self.tell(Effect::ConsoleOut { port, byte });
        // It may have been what the user waits for: the run ends behind this step, then.
        if self.interrupt.load(Ordering::Relaxed) {
            self.called_off = true;
            self.leave = true;
        }
    }

    fn disk_read(&mut self, drive: u8, block: u64, buf: &mut [u8; BLOCK_SIZE]) -> Result<(), DiskError> {
        if !self.disks.exists(drive, block) {
            return Err(DiskError::NoSuchBlock { drive, block });
        }
        if let Some(page) = self.disks.block(drive, block) {
            buf.copy_from_slice(&page[..]);
            return Ok(());
        }
        match self.door.disk_block(self.at, self.time(), drive, block) {
            Ok(bytes) if bytes.len() == BLOCK_SIZE => {
                buf.copy_from_slice(&bytes);
                self.disks.keep(drive, block, buf);
                Ok(())
            }
            Ok(_) => Err(DiskError::Failed { drive, block }),
            Err(error) => {
                self.failed.get_or_insert(error);
                self.leave = true;
                Err(DiskError::Failed { drive, block })
            }
        }
    }

    fn disk_write(&mut self, drive: u8, block: u64, buf: &[u8; BLOCK_SIZE]) -> Result<(), DiskError> {
        if !self.disks.exists(drive, block) {
            return Err(DiskError::NoSuchBlock { drive, block });
        }
        if self.disks.read_only(drive) {
            return Err(DiskError::ReadOnly { drive });
        }
        self.disks.write(drive, block, buf);
        Ok(())
    }

    fn power(&mut self, action: Power) {
        self.power = Some(action);
    }
}

#[cfg(test)]
mod tests {
    use devices::Context;
    use icount::ScriptedDoor;

    use crate::boot::{Bios, Boot, prepare};
    use crate::{Engine, board};

    /// A level line of the PC that two devices share is up while one of them holds it (SCI and a PIRQ on interrupt 9).
    #[test]
    fn a_shared_line_is_the_or_of_its_sources() {
        let boot = Boot {
            board: "pc".into(),
            memory: 8 << 20,
            bios: Bios::None,
            kernel: Some(firmware::x86_demo().to_elf()),
            ..Boot::default()
        };
        let (config, images) = prepare(&boot).unwrap();
        let door = Box::new(ScriptedDoor::new());
        let mut machine = board::build(&config, images, door, Engine::interp()).unwrap();
        let sys = &mut machine.sys;
        // Interrupt 9 is level-triggered; the second 8259's IRR is read.
        sys.pio_write(0x4d1, 1, 2);
        sys.pio_write(0xa0, 1, 0x0a);
        let devices = sys.devices.len();
        let mut drive = |device: usize, level: bool| {
            sys.with_device(device, |_, cx| cx.set_line(9, level));
            (sys.pio_read(0xa0, 1) & 2 != 0, sys.lines[9] != 0)
        };
        assert_eq!(drive(devices - 1, true), (true, true));
        assert_eq!(drive(devices - 2, true), (true, true));
        assert_eq!(drive(devices - 1, false), (true, true), "the other holds it");
        assert_eq!(drive(devices - 1, false), (true, true));
        assert_eq!(drive(devices - 2, false), (false, false));
        // Who holds it is part of the state.
        machine.sys.with_device(1, |_, cx| cx.set_line(9, true));
        machine.sys.with_device(2, |_, cx| cx.set_line(9, true));
        let saved = machine.save_state().unwrap();
        machine.sys.with_device(1, |_, cx| cx.set_line(9, false));
        assert_ne!(machine.save_state().unwrap(), saved);
    }
}
