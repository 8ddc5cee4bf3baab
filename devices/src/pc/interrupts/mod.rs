//! The PC's interrupt controllers as one device, so that they can talk to each other: two 8259As, an I/O
//! APIC and a local APIC a hart.
//!
//! ```text
//!   line 0..15 ─┬─▶ 8259s ── INT ─┬─▶ LINT0 of hart 0 ─▶ ExternalInterrupt
//!               │                 └─▶ input 0 ┐
//!   line 0..23 ─┴────────────▶ inputs 1..23   I/O APIC ─▶ local APICs ─▶ LocalInterrupt, Nmi, Init, Startup
//!   messages (MSI) ──────────────────────────────────────────▶
//! ```
//!
//! Line n of the board is global system interrupt n: input n of the I/O APIC and, below 16, of the
//! 8259s. But line 0 (the 8254) is input 2 of the I/O APIC, whose input 0 is the 8259s' INT, as on every PC; there is no line 2.
//! The MADT must say so by an override of IRQ 0 to 2.
//!
//! | offset | what | where a board puts it |
//! |---|---|---|
//! | [`LOCAL_APIC`] | registers of the accessing hart's local APIC | where [`Context::set_local_window`] says |
//! | [`NO_APIC`] | where local APICs are at reset: all ones for a hart whose own isn't there | memory 0xfee00000, for harts' accesses |
//! | [`IO_APIC`] | the I/O APIC | memory 0xfec00000 |
//! | [`X2APIC`] | MSR m at 8 × (m − 0x800), 8 bytes each | MSRs 0x800 to 0x8ff |
//! | [`APIC_BASE`], [`TSC_DEADLINE`], [`CR8`] | 8 bytes each, of the accessing hart | MSR 0x1b, MSR 0x6e0, CR8 |
//! | [`ACKNOWLEDGE_LOCAL`], [`ACKNOWLEDGE_EXTERNAL`] | the accessing hart takes the vector that is written | nowhere |
//! | [`PIC_MASTER`], [`PIC_SLAVE`], [`ELCR`] | two ports each | 0x20, 0xa0, 0x4d0 |
//! | [`MESSAGES`] | interrupt messages, 4 bytes | memory 0xfee00000 to 0xfeefffff, for devices' messages |
//!
//! A local APIC's window is at 0xfee00000 after power-on, moves with IA32_APIC_BASE, and is nowhere while the APIC is off or in x2APIC
//! mode; messages go to 0xfee00000 for good. [`msr_faults`] says which MSR accesses are #GP.
//! TSC_DEADLINE takes and gives virtual nanoseconds: who lets a guest move its TSC away from them must
//! convert (0 stays 0, and a deadline before virtual time 0 is 1).
//!
//! Two pins say what the hart would take now, vector + 1 or 0. When it takes it, at a boundary, the machine writes the vector to
//! ACKNOWLEDGE_LOCAL (IRR to ISR) or ACKNOWLEDGE_EXTERNAL (the 8259s' INTA). Nmi, Init and Startup are pulses: set and cleared again.
//! A local APIC that is disabled, by IA32_APIC_BASE or SVR, lets the 8259s' INT through to hart 0 whatever LINT0 says, so that
//! a system that knows no APIC works.
//!
//! Every call first lets the timers expire that were due, then acts, then brings I/O APIC levels, timers and pins up to date.

mod ioapic;
mod lapic;
mod pic;
mod registers;
#[cfg(test)]
mod tests;
mod timer;

use serde::{Deserialize, Serialize};

use self::ioapic::IoApic;
use self::lapic::{Lapic, Request, To};
use self::pic::Pics;
use self::registers::MSR_FIRST;
pub use self::registers::{BASE_ADDRESS, BASE_BSP, BASE_EN, BASE_EXTD, msr_faults};
use super::ports;
use crate::{Context, Device, DeviceError, HartPin, Input, InputKind, VirtualTime, state};

/// The accessing hart's local APIC; 4 KiB.
pub const LOCAL_APIC: u64 = 0x0000;
/// The I/O APIC; 4 KiB.
pub const IO_APIC: u64 = 0x1000;
/// The accessing hart's x2APIC registers, 8 bytes an MSR from 0x800 on; 0x800 bytes.
pub const X2APIC: u64 = 0x2000;
/// The accessing hart's IA32_APIC_BASE; 8 bytes.
pub const APIC_BASE: u64 = 0x2800;
/// The accessing hart's IA32_TSC_DEADLINE; 8 bytes.
pub const TSC_DEADLINE: u64 = 0x2808;
/// The accessing hart's CR8; 8 bytes.
pub const CR8: u64 = 0x2810;
/// The hart takes the local APIC's interrupt of the vector that is written.
pub const ACKNOWLEDGE_LOCAL: u64 = 0x2820;
/// The hart takes the 8259s' interrupt.
pub const ACKNOWLEDGE_EXTERNAL: u64 = 0x2828;
/// Where nobody answers; 4 KiB of all ones.
pub const NO_APIC: u64 = 0x4000;
/// The first 8259; 2 bytes.
pub const PIC_MASTER: u64 = 0x3000;
/// The second 8259; 2 bytes.
pub const PIC_SLAVE: u64 = 0x3010;
/// The 8259s' edge/level registers; 2 bytes.
pub const ELCR: u64 = 0x3020;
/// Messages to 0xfee00000 and up, at the same distance from here; 1 MiB.
pub const MESSAGES: u64 = 0x10_0000;
/// Bytes of the window at [`MESSAGES`].
pub const MESSAGES_SIZE: u64 = 0x10_0000;
/// Size of the offset space in bytes.
pub const SIZE: u64 = MESSAGES + MESSAGES_SIZE;

const X2APIC_END: u64 = X2APIC + 0x800;
const IO_APIC_END: u64 = IO_APIC + 0x1000;
const NO_APIC_END: u64 = NO_APIC + 0x1000;
const MESSAGES_END: u64 = MESSAGES + MESSAGES_SIZE;
/// Physical destinations of 8 bits end before the broadcast, 0xff.
const HARTS: u32 = 255;
const VERSION: u8 = 1;

/// All interrupt controllers of the board.
pub struct Interrupts {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    pics: Pics,
    io_apic: IoApic,
    /// One a hart.
    local: Vec<Lapic>,
    /// The 8259s' INT as input 0 and LINT0 saw it last.
    int: bool,
}

/// How a message interrupts (SDM 3A 11.5.1, 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Fixed,
    Lowest,
    Smi,
    Reserved,
    Nmi,
    Init,
    Startup,
    External,
}

impl Delivery {
    /// Of the low three bits.
    fn from_bits(bits: u32) -> Self {
        match bits & 7 {
            0 => Delivery::Fixed,
            1 => Delivery::Lowest,
            2 => Delivery::Smi,
            3 => Delivery::Reserved,
            4 => Delivery::Nmi,
            5 => Delivery::Init,
            6 => Delivery::Startup,
            _ => Delivery::External,
        }
    }
}

/// Whom a message is for; all ones is everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    Physical(u32),
    Logical(u32),
}

impl Destination {
    /// A destination of 8 bits.
    fn byte(to: u8, logical: bool) -> Self {
        match (to, logical) {
            (to, true) => Destination::Logical(to.into()),
            (0xff, false) => Destination::Physical(u32::MAX),
            (to, false) => Destination::Physical(to.into()),
        }
    }
}

/// What goes over the APICs' bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    destination: Destination,
    delivery: Delivery,
    vector: u8,
    /// Level-triggered: its EOI is broadcast.
    level: bool,
}

impl Interrupts {
    /// Controllers for `harts` harts (1 to 255), whose numbers are their APIC IDs.
    pub fn new(harts: u32) -> Self {
        Interrupts {
            state: State::new(harts.clamp(1, HARTS) as usize),
        }
    }

    fn catch_up(&mut self, now: VirtualTime) {
        for local in &mut self.state.local {
            local.catch_up(now);
        }
    }

    /// Hands `message` to the harts that `pick` names; whether one took it.
    fn deliver(
        &mut self,
        cx: &mut dyn Context,
        message: Message,
        pick: impl Fn(u32, &Lapic) -> bool,
    ) -> bool {
        let harts = 0..self.state.local.len() as u32;
        let local = &self.state.local;
        if message.delivery == Delivery::Lowest {
            let lowest = harts
                .filter(|&hart| {
                    let local = &local[hart as usize];
                    local.enabled() && pick(hart, local)
                })
                .min_by_key(|&hart| (local[hart as usize].priority(), hart));
            return lowest.is_some_and(|hart| self.deliver_to(cx, message, hart));
        }
        let mut taken = false;
        for hart in harts {
            if pick(hart, &self.state.local[hart as usize]) {
                taken |= self.deliver_to(cx, message, hart);
            }
        }
        taken
    }

    fn deliver_to(&mut self, cx: &mut dyn Context, message: Message, hart: u32) -> bool {
        let Some(local) = self.state.local.get_mut(hart as usize) else {
            return false;
        };
        if !local.present() {
            return false;
        }
        let (pin, value) = match message.delivery {
            Delivery::Fixed | Delivery::Lowest => return local.accept(message.vector, message.level),
            Delivery::Nmi => (HartPin::Nmi, 1),
            Delivery::Init => {
                local.init();
                (HartPin::Init, 1)
            }
            Delivery::Startup => (HartPin::Startup, u32::from(message.vector) + 1),
            Delivery::Smi | Delivery::Reserved | Delivery::External => return false,
        };
        cx.set_hart_pin(hart, pin, value);
        cx.set_hart_pin(hart, pin, 0);
        true
    }

    /// Hands `message` to those that its destination names.
    fn route(&mut self, cx: &mut dyn Context, message: Message) -> bool {
        self.deliver(cx, message, |hart, local| {
            local.matches(hart, message.destination)
        })
    }

    fn request(&mut self, cx: &mut dyn Context, sender: u32, request: Request) {
        match request {
            Request::EndOfInterrupt(vector) => self.state.io_apic.end_of_interrupt(vector),
            Request::Send(message, to) => {
                self.deliver(cx, message, |hart, local| match to {
                    To::Destination => local.matches(hart, message.destination),
                    To::Itself => hart == sender,
                    To::All => true,
                    To::Others => hart != sender,
                });
            }
        }
    }

    /// An interrupt message written to `MESSAGES + offset` (SDM 3A 11.11).
    fn message(&mut self, cx: &mut dyn Context, offset: u64, data: u32) {
        let logical = offset & 4 != 0;
        let redirect = offset & 8 != 0;
        let (asserted, level) = (data & 1 << 14 != 0, data & 1 << 15 != 0);
        if level && !asserted {
            return;
        }
        let delivery = match Delivery::from_bits(data >> 8) {
            // Redirection among the harts of a logical destination is what lowest priority does.
            Delivery::Fixed if redirect && logical => Delivery::Lowest,
            delivery => delivery,
        };
        let message = Message {
            destination: Destination::byte((offset >> 12) as u8, logical),
            delivery,
            vector: data as u8,
            level,
        };
        self.route(cx, message);
    }

    /// Carries on what the last change left to be done: INT, levels, timers, pins.
    fn update(&mut self, cx: &mut dyn Context) {
        let int = self.state.pics.vector().is_some();
        let rises = int && !self.state.int;
        if int != self.state.int {
            self.state.int = int;
            if let Some(message) = self.state.io_apic.set_input(0, int) {
                self.route(cx, message);
            }
        }
        if let Some(message) = self.state.local[0].lint0(int, rises) {
            self.deliver_to(cx, message, 0);
        }
        for input in 0..ioapic::INPUTS {
            if let Some(message) = self.state.io_apic.level_message(input)
                && self.route(cx, message)
            {
                self.state.io_apic.taken(input);
            }
        }
        let external = self.state.pics.vector().map_or(0, |vector| u32::from(vector) + 1);
        let io_apic_target = self.state.io_apic.external().and_then(|to| {
            let takes = |&(hart, local): &(usize, &Lapic)| local.enabled() && local.matches(hart as u32, to);
            self.state
                .local
                .iter()
                .enumerate()
                .find(takes)
                .map(|(hart, _)| hart)
        });
        let now = cx.now();
        for (hart, local) in self.state.local.iter_mut().enumerate() {
            local.schedule(now);
            let pin = local.deliverable().map_or(0, |vector| u32::from(vector) + 1);
            if local.local_pin != pin {
                local.local_pin = pin;
                cx.set_hart_pin(hart as u32, HartPin::LocalInterrupt, pin);
            }
            let passes = io_apic_target == Some(hart) || hart == 0 && local.passes_external();
            let pin = if passes { external } else { 0 };
            if local.external_pin != pin {
                local.external_pin = pin;
                cx.set_hart_pin(hart as u32, HartPin::ExternalInterrupt, pin);
            }
        }
    }

    fn write_register(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let (now, hart) = (cx.now(), cx.hart());
        let Some(local) = self.state.local.get_mut(hart as usize) else {
            return;
        };
        let request = match (offset, size) {
            (..IO_APIC, 4) if local.xapic() && offset.is_multiple_of(16) => {
                local.write(now, (offset / 16) as u32, value & 0xffff_ffff)
            }
            (X2APIC..X2APIC_END, 8) if offset.is_multiple_of(8) => {
                let register = ((offset - X2APIC) / 8) as u32;
                if msr_faults(local.base(), MSR_FIRST + register, Some(value)) {
                    return;
                }
                local.write(now, register, value)
            }
            (APIC_BASE, 8) => {
                let old = local.window();
                local.set_base(value);
                let new = local.window();
                if new != old {
                    cx.set_local_window(hart, new);
                }
                None
            }
            (TSC_DEADLINE, 8) => {
                local.set_tsc_deadline(now, value);
                None
            }
            (CR8, _) => {
                local.set_cr8(value as u8);
                None
            }
            (ACKNOWLEDGE_LOCAL, _) => {
                local.acknowledge(value as u8);
                None
            }
            (ACKNOWLEDGE_EXTERNAL, _) => {
                self.state.pics.acknowledge();
                // INT falls with INTA; if there is more to come it rises again.
                self.state.int = false;
                self.state.io_apic.set_input(0, false);
                None
            }
            _ => None,
        };
        if let Some(request) = request {
            self.request(cx, hart, request);
        }
    }

    fn write_port(&mut self, offset: u64, value: u8) {
        let pics = &mut self.state.pics;
        let odd = offset & 1 != 0;
        match offset & !1 {
            PIC_MASTER => pics.write(false, odd, value),
            PIC_SLAVE => pics.write(true, odd, value),
            ELCR => pics.set_elcr(odd, value),
            _ => {}
        }
    }

    fn read_port(&mut self, offset: u64) -> u8 {
        let pics = &mut self.state.pics;
        let odd = offset & 1 != 0;
        match offset & !1 {
            PIC_MASTER => pics.read(false, odd),
            PIC_SLAVE => pics.read(true, odd),
            ELCR => pics.elcr(odd),
            _ => 0,
        }
    }
}

impl State {
    fn new(harts: usize) -> Self {
        State {
            pics: Pics::new(),
            io_apic: IoApic::new(),
            local: (0..harts).map(|hart| Lapic::new(hart == 0)).collect(),
            int: false,
        }
    }
}

impl Device for Interrupts {
    fn name(&self) -> &'static str {
        "interrupts"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let (now, hart) = (cx.now(), cx.hart());
        self.catch_up(now);
        let Some(local) = self.state.local.get_mut(hart as usize) else {
            return 0;
        };
        let value = match (offset, size) {
            (..IO_APIC, 1 | 2 | 4) if local.xapic() && offset % 16 + u64::from(size) <= 4 => {
                let value = local.read(now, hart, (offset / 16) as u32) >> (offset % 16 * 8);
                value & (u64::MAX >> (64 - 8 * u32::from(size)))
            }
            // Nobody answers where a local APIC is that is switched off, or whose registers are MSRs.
            (..IO_APIC, _) if !local.xapic() => u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8))),
            (IO_APIC..IO_APIC_END, 4) => self.state.io_apic.read(offset - IO_APIC).into(),
            (X2APIC..X2APIC_END, 8) if offset.is_multiple_of(8) => {
                let register = ((offset - X2APIC) / 8) as u32;
                if msr_faults(local.base(), MSR_FIRST + register, None) {
                    return 0;
                }
                local.read(now, hart, register)
            }
            (APIC_BASE, 8) => local.base(),
            (TSC_DEADLINE, 8) => local.tsc_deadline(now),
            (CR8, _) => local.cr8().into(),
            (NO_APIC..NO_APIC_END, _) => u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8))),
            (PIC_MASTER..NO_APIC, _) => ports::read(offset, size, |offset| self.read_port(offset)),
            _ => 0,
        };
        self.update(cx);
        value
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        self.catch_up(cx.now());
        match (offset, size) {
            (IO_APIC..IO_APIC_END, 4) => self.state.io_apic.write(offset - IO_APIC, value as u32),
            (PIC_MASTER..NO_APIC, _) => {
                ports::write(offset, size, value, |offset, byte| self.write_port(offset, byte));
            }
            (MESSAGES..MESSAGES_END, 4) => self.message(cx, offset - MESSAGES, value as u32),
            _ => self.write_register(cx, offset, size, value),
        }
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.local.iter().filter_map(Lapic::due).min()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        self.catch_up(cx.now());
        self.update(cx);
    }

    fn line_changed(&mut self, cx: &mut dyn Context, line: u32, level: bool) {
        if line >= ioapic::INPUTS || line == 2 {
            return;
        }
        self.catch_up(cx.now());
        if line < 16 {
            self.state.pics.set_irq(line, level);
        }
        let input = if line == 0 { 2 } else { line };
        if let Some(message) = self.state.io_apic.set_input(input, level) {
            self.route(cx, message);
        }
        self.update(cx);
    }

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let harts = self.state.local.len();
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            if state.local.len() != harts {
                return Err("another number of harts");
            }
            state.pics.check()
        })?;
        Ok(())
    }

    /// The lines' levels go too: the devices that hold them up are reset with the board.
    fn reset(&mut self, cx: &mut dyn Context) {
        let old = &self.state.local;
        let mut new = State::new(old.len());
        for ((hart, new), old) in new.local.iter_mut().enumerate().zip(old) {
            if new.window() != old.window() {
                cx.set_local_window(hart as u32, new.window());
            }
            new.local_pin = old.local_pin;
            new.external_pin = old.external_pin;
        }
        self.state = new;
        self.update(cx);
    }
}
