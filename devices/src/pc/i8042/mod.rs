//! The keyboard controller, an 8042, the PS/2 keyboard at its first port, and port 92, which shares its gate of address line 20.
//!
//! ```text
//!   port  offset
//!   0x60  0   output buffer (read); parameter or byte for the keyboard (write)
//!   0x64  4   status (read); command (write)
//!   0x92  8   bit 0 set: reset; bit 1: A20
//!
//!   key ─▶ keyboard's queue, 16 bytes ─▶ translation ─▶ output buffer ─▶ interrupt 1, port 0x60
//!                                        command's answer ─┘
//! ```
//!
//! Everything takes no time: the input buffer is never full, and when the output buffer is read, the next byte is
//! in it at once, with a new edge of its interrupt line. Answers of the controller come before the keyboard's bytes,
//! and a new answer replaces one that waits.
//!
//! At power-on the controller is as a BIOS leaves it: translation, the keyboard's interrupt on, the second port off.
//! Nothing is at the second port: its test (A9) says that its clock is stuck, its loop (D3) doesn't say that the byte came
//! from there, and a byte sent there (D4) times out.
//!
//! The output port's bit 0 and the pulse commands reset the board. Its bit 1 is the gate of
//! address line 20, which is open at power-on (as firmware of our day expects it); port 92 shows and sets the same gate, so that whatever
//! of both was written last holds.
//!
//! Source: IBM PS/2 Hardware Interface Technical Reference, "Keyboard and Auxiliary Device Controller".

mod keyboard;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::{ALL_HARTS, Context, Device, DeviceError, HartPin, Input, InputKind, Power, VirtualTime, state};
use keyboard::Keyboard;
pub use keyboard::PAUSE;

/// Size of the offset space in bytes.
pub const SIZE: u64 = 9;
/// Offset of the data register, I/O port [`DATA_PORT`].
pub const DATA: u64 = 0;
/// Offset of the status and command register, I/O port [`STATUS_PORT`].
pub const STATUS: u64 = 4;
/// Offset of port 92; one byte wide.
pub const PORT_92: u64 = 8;
/// I/O port of the data register; one byte wide.
pub const DATA_PORT: u16 = 0x60;
/// I/O port of the status and command register; one byte wide.
pub const STATUS_PORT: u16 = 0x64;

const KEYBOARD_LINE: u32 = 1;
const AUX_LINE: u32 = 12;
const VERSION: u8 = 2;

bitflags! {
    /// Status register.
    struct Status: u8 {
        const OUTPUT_FULL = 1 << 0;
        const SYSTEM = 1 << 2;
        const COMMAND = 1 << 3;
        const UNLOCKED = 1 << 4;
        const AUX_FULL = 1 << 5;
        const TIMEOUT = 1 << 6;
    }

    /// Command byte.
    #[derive(Clone, Copy)]
    struct Config: u8 {
        const KEYBOARD_INTERRUPT = 1 << 0;
        const AUX_INTERRUPT = 1 << 1;
        const SYSTEM = 1 << 2;
        const KEYBOARD_OFF = 1 << 4;
        const AUX_OFF = 1 << 5;
        const TRANSLATE = 1 << 6;
    }

    /// Output port.
    #[derive(Clone, Copy)]
    struct OutputPort: u8 {
        const NO_RESET = 1 << 0;
        const A20 = 1 << 1;
        const KEYBOARD_INTERRUPT = 1 << 4;
        const AUX_INTERRUPT = 1 << 5;
        /// What is stored; at power-on all of it is set: A20 open, clocks and data lines idle.
        const LASTING = 0b1100_1111;
    }
}

/// Port 92: resets the board when it is set.
const FAST_RESET: u8 = 1 << 0;
/// Port 92: address line 20 is let through.
const FAST_A20: u8 = 1 << 1;

/// Answer of the controller's self-test.
const SELF_TEST_PASSED: u8 = 0x55;
/// Answer of a port's test: its clock line is stuck low.
const CLOCK_STUCK_LOW: u8 = 0x01;
/// Input port: the keyboard is not locked.
const INPUT_PORT: u8 = 0x80;

/// The keyboard controller.
pub struct I8042 {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    keyboard: Keyboard,
    /// What a read of the data register gives, also when it was read before.
    data: u8,
    /// The output buffer is full, and who filled it.
    full: Option<Source>,
    /// An answer that waits for the output buffer.
    answer: Option<(u8, Source)>,
    config: u8,
    output_port: u8,
    /// The command whose parameter comes next.
    command: Option<u8>,
    /// Register written last was the command register.
    command_last: bool,
    /// The byte before was a break prefix, in translation.
    released: bool,
    keyboard_line: bool,
    aux_line: bool,
    /// Bit 0 of port 92.
    fast_reset: bool,
}

/// Where a byte in the output buffer is from.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Source {
    /// The keyboard, or the controller itself.
    Keyboard,
    /// The controller as if from the second port.
    Aux,
    /// The controller, as nothing answered at the second port.
    AuxTimeout,
}

impl State {
    fn new() -> Self {
        let config = Config::KEYBOARD_INTERRUPT | Config::SYSTEM | Config::AUX_OFF | Config::TRANSLATE;
        State {
            keyboard: Keyboard::new(),
            data: 0,
            full: None,
            answer: None,
            config: config.bits(),
            output_port: OutputPort::LASTING.bits(),
            command: None,
            command_last: true,
            released: false,
            keyboard_line: false,
            aux_line: false,
            fast_reset: false,
        }
    }

    fn config(&self) -> Config {
        Config::from_bits_truncate(self.config)
    }

    fn set_config(&mut self, bit: Config, on: bool) {
        let mut config = self.config();
        config.set(bit, on);
        self.config = config.bits();
    }

    /// The levels of the interrupt lines of the keyboard and the second port.
    fn lines(&self) -> (bool, bool) {
        let config = self.config();
        match self.full {
            None => (false, false),
            Some(Source::Keyboard) => (config.contains(Config::KEYBOARD_INTERRUPT), false),
            Some(Source::Aux | Source::AuxTimeout) => (false, config.contains(Config::AUX_INTERRUPT)),
        }
    }

    fn status(&self) -> u8 {
        let mut status = Status::UNLOCKED;
        status.set(Status::OUTPUT_FULL, self.full.is_some());
        status.set(Status::SYSTEM, self.config().contains(Config::SYSTEM));
        status.set(Status::COMMAND, self.command_last);
        status.set(
            Status::AUX_FULL,
            matches!(self.full, Some(Source::Aux | Source::AuxTimeout)),
        );
        status.set(Status::TIMEOUT, self.full == Some(Source::AuxTimeout));
        status.bits()
    }

    fn answer(&mut self, byte: u8) {
        self.answer = Some((byte, Source::Keyboard));
    }

    /// Fills the output buffer if it is empty and there is something to fill it with.
    fn fill(&mut self) {
        while self.full.is_none() {
            let (byte, source) = if let Some(answer) = self.answer.take() {
                answer
            } else if self.config().contains(Config::KEYBOARD_OFF) {
                return;
            } else if let Some(byte) = self.keyboard.send() {
                let translated = if self.config().contains(Config::TRANSLATE) {
                    keyboard::translate(byte, &mut self.released)
                } else {
                    self.released = false;
                    Some(byte)
                };
                let Some(byte) = translated else { continue };
                (byte, Source::Keyboard)
            } else {
                return;
            };
            self.data = byte;
            self.full = Some(source);
        }
    }

    /// Whether the gate of address line 20 is open.
    fn a20(&self) -> bool {
        self.output_port & OutputPort::A20.bits() != 0
    }

    fn set_output_port(&mut self, cx: &mut dyn Context, value: u8) {
        let open = self.a20();
        self.output_port = value;
        if self.a20() != open {
            cx.set_hart_pin(ALL_HARTS, HartPin::A20Masked, open.into());
        }
    }

    fn port_92(&self) -> u8 {
        (if self.fast_reset { FAST_RESET } else { 0 }) | if self.a20() { FAST_A20 } else { 0 }
    }

    fn set_port_92(&mut self, cx: &mut dyn Context, value: u8) {
        let mut port = OutputPort::from_bits_retain(self.output_port);
        port.set(OutputPort::A20, value & FAST_A20 != 0);
        self.set_output_port(cx, port.bits());
        let resets = value & FAST_RESET != 0;
        if resets && !self.fast_reset {
            cx.power(Power::Reset);
        }
        self.fast_reset = resets;
    }

    fn output_port(&self) -> u8 {
        let (keyboard, aux) = self.lines();
        let mut port = OutputPort::from_bits_truncate(self.output_port) & OutputPort::LASTING;
        port.set(OutputPort::KEYBOARD_INTERRUPT, keyboard);
        port.set(OutputPort::AUX_INTERRUPT, aux);
        port.bits()
    }
}

impl I8042 {
    /// The controller with its keyboard, interrupting on lines 1 and 12.
    pub fn new() -> Self {
        I8042 { state: State::new() }
    }

    /// The keyboard's lights: scroll, num and caps lock, from bit 0 on.
    pub fn leds(&self) -> u8 {
        self.state.keyboard.leds()
    }

    /// Fills the output buffer and drives the lines. A byte behind another makes an edge.
    fn update(&mut self, cx: &mut dyn Context) {
        self.drive(cx);
        self.state.fill();
        self.drive(cx);
    }

    fn drive(&mut self, cx: &mut dyn Context) {
        let (keyboard, aux) = self.state.lines();
        if self.state.keyboard_line != keyboard {
            self.state.keyboard_line = keyboard;
            cx.set_line(KEYBOARD_LINE, keyboard);
        }
        if self.state.aux_line != aux {
            self.state.aux_line = aux;
            cx.set_line(AUX_LINE, aux);
        }
    }

    fn command(&mut self, cx: &mut dyn Context, command: u8) {
        let state = &mut self.state;
        state.command_last = true;
        // A command whose parameter didn't come is forgotten.
        state.command = None;
        match command {
            0x20 => state.answer(state.config),
            0x60 | 0xd1..=0xd4 => state.command = Some(command),
            0xa7 => state.set_config(Config::AUX_OFF, true),
            0xa8 => state.set_config(Config::AUX_OFF, false),
            0xa9 => state.answer(CLOCK_STUCK_LOW),
            0xaa => {
                state.set_config(Config::SYSTEM, true);
                state.answer(SELF_TEST_PASSED);
            }
            0xab => state.answer(0),
            0xad => state.set_config(Config::KEYBOARD_OFF, true),
            0xae => state.set_config(Config::KEYBOARD_OFF, false),
            0xc0 => state.answer(INPUT_PORT),
            0xd0 => state.answer(state.output_port()),
            // The gate of A20 alone.
            0xdd => state.set_output_port(cx, state.output_port & !OutputPort::A20.bits()),
            0xdf => state.set_output_port(cx, state.output_port | OutputPort::A20.bits()),
            // The test inputs: both clocks idle.
            0xe0 => state.answer(0),
            // Low bits of the command that are 0 are pulsed; of them only the reset is wired.
            0xf0.. if command & OutputPort::NO_RESET.bits() == 0 => cx.power(Power::Reset),
            _ => {}
        }
    }

    fn data(&mut self, cx: &mut dyn Context, byte: u8) {
        let state = &mut self.state;
        state.command_last = false;
        match state.command.take() {
            Some(0x60) => state.config = (Config::from_bits_truncate(byte)).bits(),
            Some(0xd1) => {
                state.set_output_port(
                    cx,
                    byte & OutputPort::LASTING.bits() | OutputPort::NO_RESET.bits(),
                );
                if byte & OutputPort::NO_RESET.bits() == 0 {
                    cx.power(Power::Reset);
                }
            }
            Some(0xd2 | 0xd3) => state.answer = Some((byte, Source::Keyboard)),
            Some(0xd4) => state.answer = Some((0xfe, Source::AuxTimeout)),
            // What is sent to the keyboard switches its port on.
            _ => {
                state.set_config(Config::KEYBOARD_OFF, false);
                state.keyboard.receive(byte);
            }
        }
    }
}

impl Default for I8042 {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for I8042 {
    fn name(&self) -> &'static str {
        "i8042"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, _size: u8) -> u64 {
        match offset {
            DATA => {
                let byte = self.state.data;
                self.state.full = None;
                self.update(cx);
                byte.into()
            }
            STATUS => self.state.status().into(),
            PORT_92 => self.state.port_92().into(),
            _ => 0,
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, _size: u8, value: u64) {
        match offset {
            DATA => self.data(cx, value as u8),
            STATUS => self.command(cx, value as u8),
            PORT_92 => self.state.set_port_92(cx, value as u8),
            _ => return,
        }
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, kind: InputKind) -> bool {
        match kind {
            InputKind::Key => self.state.keyboard.has_room(),
            InputKind::Console | InputKind::Frame(_) => false,
        }
    }

    fn input(&mut self, cx: &mut dyn Context, input: &Input) {
        match *input {
            Input::Key { code, down } if self.accepts(InputKind::Key) => {
                self.state.keyboard.key(code, down);
                self.update(cx);
            }
            Input::Key { .. } | Input::Console(_) | Input::Frame { .. } => {}
        }
    }

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            state.keyboard.check()
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        let (keyboard_line, aux_line) = (self.state.keyboard_line, self.state.aux_line);
        self.state.set_output_port(cx, OutputPort::LASTING.bits());
        self.state = State {
            keyboard_line,
            aux_line,
            ..State::new()
        };
        self.drive(cx);
    }
}

#[cfg(test)]
mod qemu;
#[cfg(test)]
mod tests;
