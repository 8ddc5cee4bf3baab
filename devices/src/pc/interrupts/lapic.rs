//! One hart's local APIC: registers, priorities and errors. What it sends is a [`Request`] that [`super`] carries out.
//!
//! ```text
//!   MMIO offset  x2APIC MSR            MMIO offset  x2APIC MSR
//!   020 ID       802                   280 ESR      828
//!   030 version  803                   300 ICR low  830 (64 bits)    310 ICR high  -
//!   080 TPR      808                   320 timer    832    330 thermal  833    340 counters 834
//!   0a0 PPR      80a                   350 LINT0    835    360 LINT1    836    370 error    837
//!   0b0 EOI      80b                   380 initial count 838   390 current count 839
//!   0d0 LDR      80d                   3e0 divide   83e        -  SELF IPI 83f
//!   0e0 DFR      -                     100 ISR 180 TMR 200 IRR, 8 words each: 810 818 820
//!   0f0 SVR      80f
//! ```
//!
//! - A software-disabled APIC (SVR bit 8 clear) keeps what is in IRR and ISR, delivers nothing and takes only
//!   NMI, INIT and start-up; all of its LVT is masked. One that IA32_APIC_BASE disables takes nothing and is reset.
//! - The timer is [`super::timer`]'s. An expiry that would change nothing (masked, or its
//!   vector is already in IRR) has no deadline.
//! - LINT1 and the thermal and performance-counter entries have registers and no source. There is no CMCI entry.
//! - EOI broadcast suppression (SVR bit 12) is there.
//!
//! Source: SDM 3A chapter 11 (12 in newer editions): 11.4 local APIC, 11.5 LVT, 11.6 IPIs, 11.8 interrupt handling, 11.12 x2APIC.

use serde::{Deserialize, Serialize};

use super::registers::*;
use super::timer::{Mode, Timer};
use super::{Delivery, Destination, Message};
use crate::VirtualTime;

/// Errors, as ESR has them.
const SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
const RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
const ILLEGAL_REGISTER: u32 = 1 << 7;
/// Vectors below it can't be sent or taken by an APIC.
const FIRST_VECTOR: u8 = 16;

/// The local APIC of one hart, whose number is its APIC ID and is handed in where it is needed.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Lapic {
    base: u64,
    core: Core,
    /// HartPin::LocalInterrupt as last set.
    pub local_pin: u32,
    /// HartPin::ExternalInterrupt as last set.
    pub external_pin: u32,
}

/// What INIT resets.
#[derive(Clone, Serialize, Deserialize)]
struct Core {
    tpr: u8,
    ldr: u32,
    dfr: u32,
    svr: u32,
    esr: u32,
    /// Errors since the last write of ESR.
    errors: u32,
    icr: u64,
    lvt: [u32; ENTRIES],
    isr: Bits,
    irr: Bits,
    /// Of the vectors in IRR and ISR: those that were level-triggered.
    tmr: Bits,
    timer: Timer,
    /// When the timer next does something.
    due: Option<VirtualTime>,
}

/// One bit a vector.
type Bits = [u32; 8];

/// What a register write has the rest do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A level-triggered interrupt of this vector has been served.
    EndOfInterrupt(u8),
    /// An IPI.
    Send(Message, To),
}

/// Which harts an IPI is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Those that its destination matches.
    Destination,
    /// The sender.
    Itself,
    /// All.
    All,
    /// All but the sender.
    Others,
}

fn get(bits: &Bits, vector: u8) -> bool {
    bits[usize::from(vector >> 5)] >> (vector & 31) & 1 != 0
}

fn set(bits: &mut Bits, vector: u8, value: bool) {
    let (word, bit) = (&mut bits[usize::from(vector >> 5)], 1 << (vector & 31));
    *word = if value { *word | bit } else { *word & !bit };
}

fn highest(bits: &Bits) -> Option<u8> {
    let word = bits.iter().rposition(|&word| word != 0)?;
    Some((word as u32 * 32 + bits[word].ilog2()) as u8)
}

impl Core {
    fn new() -> Self {
        Core {
            tpr: 0,
            ldr: 0,
            dfr: u32::MAX,
            svr: 0xff,
            esr: 0,
            errors: 0,
            icr: 0,
            lvt: [LVT_MASKED; ENTRIES],
            isr: [0; 8],
            irr: [0; 8],
            tmr: [0; 8],
            timer: Timer::default(),
            due: None,
        }
    }

    fn timer_mode(&self) -> Mode {
        Mode::of(self.lvt[TIMER])
    }

    /// Puts a fixed interrupt into IRR.
    fn accept(&mut self, vector: u8, level: bool) -> bool {
        if self.svr & SVR_ENABLE == 0 {
            return false;
        }
        if vector < FIRST_VECTOR {
            self.error(RECEIVE_ILLEGAL_VECTOR);
            return false;
        }
        set(&mut self.irr, vector, true);
        set(&mut self.tmr, vector, level);
        true
    }

    fn error(&mut self, error: u32) {
        self.errors |= error;
        let entry = self.lvt[ERROR];
        if entry & LVT_MASKED != 0 {
            return;
        }
        match entry as u8 {
            0..FIRST_VECTOR => self.errors |= RECEIVE_ILLEGAL_VECTOR,
            vector => {
                self.accept(vector, false);
            }
        }
    }

    fn ppr(&self) -> u8 {
        let serving = highest(&self.isr).unwrap_or(0) & 0xf0;
        if self.tpr & 0xf0 >= serving {
            self.tpr
        } else {
            serving
        }
    }

    /// Writes entry `index` of the LVT; it stays masked while the APIC is software-disabled.
    fn write_lvt(&mut self, now: VirtualTime, index: usize, value: u32) {
        if index == TIMER {
            self.timer.change_mode(now, self.timer_mode(), Mode::of(value));
        }
        let entry = &mut self.lvt[index];
        *entry = value & LVT_WRITABLE[index] | *entry & LVT_REMOTE_IRR;
        if *entry & LVT_LEVEL == 0 {
            *entry &= !LVT_REMOTE_IRR;
        }
        if self.svr & SVR_ENABLE == 0 {
            *entry |= LVT_MASKED;
        }
    }
}

impl Lapic {
    /// At power-on: enabled in xAPIC mode, software-disabled.
    pub fn new(bsp: bool) -> Self {
        Lapic {
            base: BASE_ADDRESS | BASE_EN | if bsp { BASE_BSP } else { 0 },
            core: Core::new(),
            local_pin: 0,
            external_pin: 0,
        }
    }

    /// INIT: the state at power-on, but for IA32_APIC_BASE (SDM 3A 11.4.7.3).
    pub fn init(&mut self) {
        self.core = Core::new();
    }

    /// IA32_APIC_BASE.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Writes IA32_APIC_BASE. What [`msr_faults`] calls a fault is ignored.
    pub fn set_base(&mut self, value: u64) {
        if msr_faults(self.base, MSR_BASE, Some(value)) {
            return;
        }
        self.base = self.base & BASE_BSP | value & BASE_WRITABLE;
        if value & BASE_EN == 0 {
            self.core = Core::new();
        }
    }

    /// Enabled by IA32_APIC_BASE.
    pub fn present(&self) -> bool {
        self.base & BASE_EN != 0
    }

    /// Its registers are MSRs.
    pub fn x2apic(&self) -> bool {
        self.base & (BASE_EN | BASE_EXTD) == BASE_EN | BASE_EXTD
    }

    /// Its registers are memory.
    pub fn xapic(&self) -> bool {
        self.base & (BASE_EN | BASE_EXTD) == BASE_EN
    }

    /// Where its registers are in memory, if they are.
    pub fn window(&self) -> Option<u64> {
        self.xapic().then_some(self.base & BASE_WRITABLE & !0xfff)
    }

    /// Enabled by software too.
    pub fn enabled(&self) -> bool {
        self.present() && self.core.svr & SVR_ENABLE != 0
    }

    fn ldr(&self, id: u32) -> u32 {
        if self.x2apic() {
            (id >> 4) << 16 | 1 << (id & 15)
        } else {
            self.core.ldr
        }
    }

    /// Whether a message with this destination is for it.
    pub fn matches(&self, id: u32, destination: Destination) -> bool {
        match destination {
            Destination::Physical(to) => to == id || to == u32::MAX,
            Destination::Logical(to) if self.x2apic() => {
                let ldr = self.ldr(id);
                to == u32::MAX || to >> 16 == ldr >> 16 && to & ldr & 0xffff != 0
            }
            Destination::Logical(u32::MAX) => true,
            Destination::Logical(to @ 0..=0xff) => {
                let ldr = self.core.ldr >> 24;
                if self.core.dfr >> 28 == 0xf {
                    to & ldr != 0
                } else {
                    (to >> 4 == 0xf || to >> 4 == ldr >> 4) && to & ldr & 0xf != 0
                }
            }
            Destination::Logical(_) => false,
        }
    }

    /// What lowest-priority arbitration compares.
    pub fn priority(&self) -> u8 {
        self.core.ppr()
    }

    /// Takes a fixed interrupt; false if it doesn't.
    pub fn accept(&mut self, vector: u8, level: bool) -> bool {
        self.present() && self.core.accept(vector, level)
    }

    /// The vector that it would have its hart take now.
    pub fn deliverable(&self) -> Option<u8> {
        let vector = highest(&self.core.irr).filter(|_| self.enabled())?;
        (vector & 0xf0 > self.core.ppr() & 0xf0).then_some(vector)
    }

    /// The hart takes `vector`.
    pub fn acknowledge(&mut self, vector: u8) {
        if get(&self.core.irr, vector) {
            set(&mut self.core.irr, vector, false);
            set(&mut self.core.isr, vector, true);
        }
    }

    /// Whether the 8259s' INT, which is on LINT0, reaches the hart as an external interrupt.
    pub fn passes_external(&self) -> bool {
        let entry = self.core.lvt[LINT0];
        !self.enabled() || entry & LVT_MASKED == 0 && Delivery::from_bits(entry >> 8) == Delivery::External
    }

    /// LINT0 stands at `level`, and has just risen or not: the message that this sends to itself, if any.
    pub fn lint0(&mut self, level: bool, rises: bool) -> Option<Message> {
        let entry = self.core.lvt[LINT0];
        if !self.enabled() || entry & LVT_MASKED != 0 {
            return None;
        }
        let delivery = Delivery::from_bits(entry >> 8);
        let by_level = delivery == Delivery::Fixed && entry & LVT_LEVEL != 0;
        let sends = match delivery {
            Delivery::Fixed if by_level => level && entry & LVT_REMOTE_IRR == 0,
            Delivery::Fixed | Delivery::Nmi | Delivery::Init => rises,
            _ => false,
        };
        if sends && by_level {
            self.core.lvt[LINT0] |= LVT_REMOTE_IRR;
        }
        sends.then_some(Message {
            destination: Destination::Physical(u32::MAX),
            delivery,
            vector: entry as u8,
            level: by_level,
        })
    }

    /// When the timer wants [`Lapic::catch_up`].
    pub fn due(&self) -> Option<VirtualTime> {
        self.core.due
    }

    /// Lets the timer expire if that was due by now.
    pub fn catch_up(&mut self, now: VirtualTime) {
        if self.core.due.is_some_and(|due| due <= now) {
            self.core.due = None;
            let entry = self.core.lvt[TIMER];
            if entry & LVT_MASKED == 0 {
                self.accept(entry as u8, false);
            }
        }
    }

    /// Finds when the timer next does something.
    pub fn schedule(&mut self, now: VirtualTime) {
        let core = &mut self.core;
        let entry = core.lvt[TIMER];
        let vector = entry as u8;
        let nothing = entry & LVT_MASKED != 0 || get(&core.irr, vector) && !get(&core.tmr, vector);
        core.due = if nothing {
            None
        } else {
            core.timer.expiry(now, core.timer_mode())
        };
    }

    /// IA32_TSC_DEADLINE, 0 if it isn't armed.
    pub fn tsc_deadline(&self, now: VirtualTime) -> u64 {
        self.core.timer.tsc_deadline(now)
    }

    /// Writes IA32_TSC_DEADLINE; ignored in other timer modes.
    pub fn set_tsc_deadline(&mut self, now: VirtualTime, value: u64) {
        if self.core.timer_mode() == Mode::TscDeadline && self.core.timer.set_tsc_deadline(now, value) {
            self.core.due = Some(now);
            self.catch_up(now);
        }
    }

    /// CR8.
    pub fn cr8(&self) -> u8 {
        self.core.tpr >> 4
    }

    /// Writes CR8.
    pub fn set_cr8(&mut self, value: u8) {
        self.core.tpr = value << 4;
    }

    /// Reads a register at MMIO offset `16 * register`, or of MSR `0x800 + register` in x2APIC mode; one that doesn't exist is an error for ESR.
    pub fn read(&mut self, now: VirtualTime, id: u32, register: u32) -> u64 {
        let x2apic = self.x2apic();
        let core = &self.core;
        let word = |bits: &Bits| bits[(register & 7) as usize];
        let value = match register {
            ID if x2apic => id,
            ID => id << 24,
            VERSION => VERSION_VALUE,
            TPR => core.tpr.into(),
            PPR => core.ppr().into(),
            APR | EOI | RRD => 0,
            LDR => self.ldr(id),
            DFR if !x2apic => core.dfr,
            SVR => core.svr,
            ISR..TMR => word(&core.isr),
            TMR..IRR => word(&core.tmr),
            IRR..=IRR_LAST => word(&core.irr),
            ESR => core.esr,
            ICR if x2apic => return core.icr,
            ICR => core.icr as u32,
            ICR_HIGH if !x2apic => (core.icr >> 32) as u32,
            LVT..=LVT_LAST => core.lvt[(register - LVT) as usize],
            INITIAL_COUNT => core.timer.initial_count(),
            CURRENT_COUNT => core.timer.current_count(now, core.timer_mode()),
            DIVIDE => core.timer.divide(),
            _ => {
                self.core.error(ILLEGAL_REGISTER);
                0
            }
        };
        value.into()
    }

    /// Writes a register, numbered as in [`Lapic::read`].
    pub fn write(&mut self, now: VirtualTime, register: u32, value: u64) -> Option<Request> {
        let x2apic = self.x2apic();
        let core = &mut self.core;
        let low = value as u32;
        match register {
            TPR => core.tpr = low as u8,
            EOI => return self.end_of_interrupt(),
            LDR if !x2apic => core.ldr = low & 0xff00_0000,
            DFR if !x2apic => core.dfr = low | 0x0fff_ffff,
            SVR => {
                core.svr = low & SVR_MASK;
                if core.svr & SVR_ENABLE == 0 {
                    for entry in &mut core.lvt {
                        *entry |= LVT_MASKED;
                    }
                }
            }
            ESR => core.esr = std::mem::take(&mut core.errors),
            ICR => {
                let high = if x2apic { value >> 32 } else { core.icr >> 32 };
                core.icr = high << 32 | u64::from(low & ICR_MASK);
                return self.send();
            }
            ICR_HIGH if !x2apic => core.icr = core.icr & 0xffff_ffff | u64::from(low & 0xff00_0000) << 32,
            LVT..=LVT_LAST => core.write_lvt(now, (register - LVT) as usize, low),
            INITIAL_COUNT => core.timer.start(now, core.timer_mode(), low),
            DIVIDE => core.timer.set_divide(now, core.timer_mode(), low & DIVIDE_MASK),
            SELF_IPI if x2apic => {
                let message = Message {
                    destination: Destination::Physical(u32::MAX),
                    delivery: Delivery::Fixed,
                    vector: low as u8,
                    level: false,
                };
                return self.checked(message, To::Itself);
            }
            // Read-only.
            ID | VERSION | APR | PPR | RRD | LDR | ISR..=IRR_LAST | CURRENT_COUNT => {}
            _ => core.error(ILLEGAL_REGISTER),
        }
        None
    }

    fn end_of_interrupt(&mut self) -> Option<Request> {
        let core = &mut self.core;
        let vector = highest(&core.isr)?;
        set(&mut core.isr, vector, false);
        if !get(&core.tmr, vector) {
            return None;
        }
        let lint0 = &mut core.lvt[LINT0];
        if *lint0 as u8 == vector {
            *lint0 &= !LVT_REMOTE_IRR;
        }
        (core.svr & SVR_NO_BROADCAST == 0).then_some(Request::EndOfInterrupt(vector))
    }

    /// What a write of ICR sends.
    fn send(&mut self) -> Option<Request> {
        let icr = self.core.icr;
        let low = icr as u32;
        let logical = low & 1 << 11 != 0;
        let destination = match (self.x2apic(), logical) {
            (true, true) => Destination::Logical((icr >> 32) as u32),
            (true, false) => Destination::Physical((icr >> 32) as u32),
            (false, _) => Destination::byte((icr >> 56) as u8, logical),
        };
        let delivery = Delivery::from_bits(low >> 8);
        let to = match low >> 18 & 3 {
            0 => To::Destination,
            1 => To::Itself,
            2 => To::All,
            _ => To::Others,
        };
        let valid = match delivery {
            Delivery::Fixed => true,
            // INIT level de-assert only ever synchronised arbitration IDs.
            Delivery::Init if low & 0xc000 == 0x8000 => false,
            Delivery::Lowest | Delivery::Nmi | Delivery::Init | Delivery::Startup => {
                matches!(to, To::Destination | To::Others)
            }
            Delivery::Smi | Delivery::Reserved | Delivery::External => false,
        };
        let message = Message {
            destination,
            delivery,
            vector: low as u8,
            // IPIs are edges (SDM 3A 11.6.1, trigger mode).
            level: false,
        };
        if valid { self.checked(message, to) } else { None }
    }

    /// Sends `message`, if its vector can be sent.
    fn checked(&mut self, message: Message, to: To) -> Option<Request> {
        let fixed = matches!(message.delivery, Delivery::Fixed | Delivery::Lowest);
        if fixed && message.vector < FIRST_VECTOR {
            self.core.error(SEND_ILLEGAL_VECTOR);
            return None;
        }
        Some(Request::Send(message, to))
    }
}
