//! 16550A UART with 16-byte FIFOs.
//!
//! ```text
//!         DLAB=0 read      DLAB=0 write     DLAB=1
//!   0     RBR              THR              DLL
//!   1     IER              IER              DLM
//!   2     IIR              FCR
//!   3 LCR   4 MCR   5 LSR   6 MSR   7 SCR
//! ```
//!
//! Interrupt sources, by priority: line status (LSR errors), received data (FIFO at its trigger
//! level), character timeout (FIFO not empty, below the trigger), transmitter empty, modem status.
//!
//! Choices where the part has timing and this model has none:
//!
//! - A byte stored to THR has left at once: THRE and TEMT are always set. Each store is an occasion
//!   for the transmitter-empty interrupt, and so are clearing the transmitter and enabling the
//!   interrupt. An occasion ends when IIR is read while it is the source shown, as in the part, or
//!   when IER turns the interrupt off.
//! - The character timeout needs no time: data below the trigger level interrupts at once.
//! - Baud rate, parity and stop bits are stored and mean nothing; a break is not sent.
//!
//! CTS, DSR and DCD are always asserted. In loopback the modem outputs come back as inputs, what is
//! sent is received, nothing leaves, and nothing from outside is accepted.
//!
//! Source: National Semiconductor PC16550D data sheet, section 8.

use std::collections::VecDeque;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};

/// Size of the register window in bytes; only the first eight are registers.
pub const SIZE: u64 = 0x100;

/// Depth of the receiver FIFO.
const FIFO: usize = 16;
const VERSION: u8 = 1;

bitflags! {
    /// Interrupt enable register.
    struct Ier: u8 {
        const RECEIVED = 1 << 0;
        const TRANSMITTER_EMPTY = 1 << 1;
        const LINE_STATUS = 1 << 2;
        const MODEM_STATUS = 1 << 3;
    }

    /// FIFO control register.
    struct Fcr: u8 {
        const ENABLE = 1 << 0;
        const CLEAR_RECEIVER = 1 << 1;
        const CLEAR_TRANSMITTER = 1 << 2;
        const DMA_MODE = 1 << 3;
        const TRIGGER = 3 << 6;
    }

    /// Modem control register.
    struct Mcr: u8 {
        const DTR = 1 << 0;
        const RTS = 1 << 1;
        const OUT1 = 1 << 2;
        const OUT2 = 1 << 3;
        const LOOP = 1 << 4;
    }

    /// Line status register.
    struct Lsr: u8 {
        const DATA_READY = 1 << 0;
        const OVERRUN = 1 << 1;
        const THR_EMPTY = 1 << 5;
        const TRANSMITTER_EMPTY = 1 << 6;
    }

    #[derive(Clone, Copy)]
    /// Modem status register: changes in the low half, inputs in the high half.
    struct Msr: u8 {
        const DCTS = 1 << 0;
        const DDSR = 1 << 1;
        const TERI = 1 << 2;
        const DDCD = 1 << 3;
        const CTS = 1 << 4;
        const DSR = 1 << 5;
        const RI = 1 << 6;
        const DCD = 1 << 7;
        const INPUTS = 0xf0;
        const CHANGES = 0x0f;
    }
}

const LCR_DLAB: u8 = 1 << 7;

/// The source that IIR shows, in its low four bits.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    None = 0b0001,
    LineStatus = 0b0110,
    Received = 0b0100,
    Timeout = 0b1100,
    TransmitterEmpty = 0b0010,
    ModemStatus = 0b0000,
}

/// A serial port of the board.
pub struct Uart {
    line: u32,
    port: u8,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    received: VecDeque<u8>,
    overrun: bool,
    /// The transmitter became empty and the guest hasn't been told by IIR yet.
    transmitter_empty: bool,
    ier: u8,
    /// The bits of FCR that last: enable, DMA mode, trigger.
    fcr: u8,
    lcr: u8,
    mcr: u8,
    msr: u8,
    scr: u8,
    divisor: u16,
    line: bool,
}

impl Uart {
    /// A UART that interrupts on `line` and talks to console port `port`.
    pub fn new(line: u32, port: u8) -> Self {
        Uart {
            line,
            port,
            state: State::new(),
        }
    }

    fn source(&self) -> Source {
        let state = &self.state;
        let ier = Ier::from_bits_truncate(state.ier);
        let waiting = state.received.len();
        if ier.contains(Ier::LINE_STATUS) && state.overrun {
            Source::LineStatus
        } else if ier.contains(Ier::RECEIVED) && waiting >= state.trigger() {
            Source::Received
        } else if ier.contains(Ier::RECEIVED) && waiting > 0 {
            Source::Timeout
        } else if ier.contains(Ier::TRANSMITTER_EMPTY) && state.transmitter_empty {
            Source::TransmitterEmpty
        } else if ier.contains(Ier::MODEM_STATUS) && state.msr & Msr::CHANGES.bits() != 0 {
            Source::ModemStatus
        } else {
            Source::None
        }
    }

    fn update_line(&mut self, cx: &mut dyn Context) {
        let level = self.source() != Source::None;
        if self.state.line != level {
            self.state.line = level;
            cx.set_line(self.line, level);
        }
    }

    fn transmit(&mut self, cx: &mut dyn Context, byte: u8) {
        if self.state.has(Mcr::LOOP) {
            self.state.receive(byte);
        } else {
            cx.console_out(self.port, byte);
        }
        self.state.transmitter_empty = true;
    }

    fn read_iir(&mut self) -> u8 {
        let source = self.source();
        if source == Source::TransmitterEmpty {
            self.state.transmitter_empty = false;
        }
        let fifos = if self.state.fifos() { 0xc0 } else { 0 };
        source as u8 | fifos
    }

    fn read_lsr(&mut self) -> u8 {
        let mut lsr = Lsr::THR_EMPTY | Lsr::TRANSMITTER_EMPTY;
        lsr.set(Lsr::DATA_READY, !self.state.received.is_empty());
        lsr.set(Lsr::OVERRUN, self.state.overrun);
        self.state.overrun = false;
        lsr.bits()
    }
}

impl State {
    fn new() -> Self {
        State {
            received: VecDeque::new(),
            overrun: false,
            transmitter_empty: false,
            ier: 0,
            fcr: 0,
            lcr: 0,
            mcr: 0,
            msr: (Msr::CTS | Msr::DSR | Msr::DCD).bits(),
            scr: 0,
            // 9600 baud of a 1.8432 MHz clock; firmware sets its own.
            divisor: 12,
            line: false,
        }
    }

    fn has(&self, bit: Mcr) -> bool {
        Mcr::from_bits_truncate(self.mcr).contains(bit)
    }

    fn fifos(&self) -> bool {
        self.fcr & Fcr::ENABLE.bits() != 0
    }

    fn divisor_latch(&self) -> bool {
        self.lcr & LCR_DLAB != 0
    }

    /// Bytes that the receiver can hold.
    fn depth(&self) -> usize {
        if self.fifos() { FIFO } else { 1 }
    }

    /// Bytes at which received data interrupts.
    fn trigger(&self) -> usize {
        if !self.fifos() {
            return 1;
        }
        match self.fcr >> 6 {
            0 => 1,
            1 => 4,
            2 => 8,
            _ => 14,
        }
    }

    /// A byte reaches the receiver. Without FIFOs an overrun replaces the byte that was there; with
    /// them it loses the new one.
    fn receive(&mut self, byte: u8) {
        if self.received.len() >= self.depth() {
            self.overrun = true;
            if self.fifos() {
                return;
            }
            self.received.clear();
        }
        self.received.push_back(byte);
    }

    fn write_fcr(&mut self, value: u8) {
        let new = Fcr::from_bits_truncate(value);
        let switched = (value ^ self.fcr) & Fcr::ENABLE.bits() != 0;
        if switched || new.contains(Fcr::CLEAR_RECEIVER) {
            self.received.clear();
        }
        if switched || new.contains(Fcr::CLEAR_TRANSMITTER) {
            self.transmitter_empty = true;
        }
        // The other bits are programmed only together with ENABLE.
        self.fcr = if new.contains(Fcr::ENABLE) {
            (new & (Fcr::ENABLE | Fcr::DMA_MODE | Fcr::TRIGGER)).bits()
        } else {
            0
        };
    }

    fn write_ier(&mut self, value: u8) {
        let new = Ier::from_bits_truncate(value);
        let was = Ier::from_bits_truncate(self.ier).contains(Ier::TRANSMITTER_EMPTY);
        let is = new.contains(Ier::TRANSMITTER_EMPTY);
        if is != was {
            self.transmitter_empty = is;
        }
        self.ier = new.bits();
    }

    fn write_mcr(&mut self, value: u8) {
        self.mcr = Mcr::from_bits_truncate(value).bits();
        let old = Msr::from_bits_truncate(self.msr);
        let mut inputs = Msr::CTS | Msr::DSR | Msr::DCD;
        if self.has(Mcr::LOOP) {
            inputs.set(Msr::CTS, self.has(Mcr::RTS));
            inputs.set(Msr::DSR, self.has(Mcr::DTR));
            inputs.set(Msr::RI, self.has(Mcr::OUT1));
            inputs.set(Msr::DCD, self.has(Mcr::OUT2));
        }
        let differ = Msr::from_bits_truncate((old.bits() ^ inputs.bits()) & Msr::INPUTS.bits());
        let mut msr = (old & Msr::CHANGES) | inputs;
        for (input, change) in [
            (Msr::CTS, Msr::DCTS),
            (Msr::DSR, Msr::DDSR),
            (Msr::DCD, Msr::DDCD),
        ] {
            if differ.contains(input) {
                msr |= change;
            }
        }
        // Ring counts at its trailing edge only.
        if old.contains(Msr::RI) && !inputs.contains(Msr::RI) {
            msr |= Msr::TERI;
        }
        self.msr = msr.bits();
    }
}

impl Device for Uart {
    fn name(&self) -> &'static str {
        "uart-16550a"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, _size: u8) -> u64 {
        let [low, high] = self.state.divisor.to_le_bytes();
        let value = match (offset, self.state.divisor_latch()) {
            (0, true) => low,
            (1, true) => high,
            (0, false) => self.state.received.pop_front().unwrap_or(0),
            (1, false) => self.state.ier,
            (2, _) => self.read_iir(),
            (3, _) => self.state.lcr,
            (4, _) => self.state.mcr,
            (5, _) => self.read_lsr(),
            (6, _) => {
                let msr = self.state.msr;
                self.state.msr &= Msr::INPUTS.bits();
                msr
            }
            (7, _) => self.state.scr,
            _ => 0,
        };
        self.update_line(cx);
        u64::from(value)
    }

    /// A wider store is one of its low byte: drivers with `reg-io-width = 4` do that.
    fn write(&mut self, cx: &mut dyn Context, offset: u64, _size: u8, value: u64) {
        let value = value as u8;
        let [low, high] = self.state.divisor.to_le_bytes();
        match (offset, self.state.divisor_latch()) {
            (0, true) => self.state.divisor = u16::from_le_bytes([value, high]),
            (1, true) => self.state.divisor = u16::from_le_bytes([low, value]),
            (0, false) => self.transmit(cx, value),
            (1, false) => self.state.write_ier(value),
            (2, _) => self.state.write_fcr(value),
            (3, _) => self.state.lcr = value,
            (4, _) => self.state.write_mcr(value),
            (7, _) => self.state.scr = value,
            // LSR and MSR are read-only outside the factory.
            _ => {}
        }
        self.update_line(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, kind: InputKind) -> bool {
        match kind {
            InputKind::Console => {
                self.state.received.len() < self.state.depth() && !self.state.has(Mcr::LOOP)
            }
            InputKind::Key | InputKind::Frame(_) => false,
        }
    }

    fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        match *input {
            Input::Console(byte) if self.accepts(InputKind::Console) => {
                self.state.receive(byte);
                self.update_line(cx);
            }
            Input::Console(_) | Input::Key { .. } | Input::Frame { .. } => {}
        }
    }

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            if state.received.len() <= state.depth() {
                Ok(())
            } else {
                Err("more bytes received than the FIFO holds")
            }
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        let line = self.state.line;
        self.state = State::new();
        self.state.line = line;
        self.update_line(cx);
    }
}

#[cfg(test)]
#[path = "uart_tests.rs"]
mod tests;
