//! ACPI's fixed power-management hardware and the reset control register.
//!
//! ```text
//!   0x00 PM1            0x0 PM1a status (2)   0x2 PM1a enable (2)   0x4 PM1a control (2)
//!                       0x8 PM timer (4): 3.579545 MHz, 24 bits
//!   0x10 RESET_CONTROL  port 0xcf9: setting bit 2 resets the board
//! ```
//!
//! There is no system management mode, so the block is always in ACPI mode (SCI_EN reads 1; the FADT
//! should have SMI_CMD 0). The only wake and interrupt source is the timer: TMR_STS is set whenever
//! bit 23 of the counter changes; it follows from the time and from when it was cleared, so that a deadline is
//! needed only while TMR_EN asks for the interrupt. SLP_EN with SLP_TYP 0 is S5, soft off; other types are ignored.
//!
//! Source: ACPI 6.5, 4.8.3 (registers), 4.8.2.1 (timer); 82801 (ICH9) data sheet, 13.7.5 (RST_CNT).

use serde::{Deserialize, Serialize};

use super::{clock::Oscillator, ports};
use crate::{Context, Device, DeviceError, Input, InputKind, Power, VirtualTime, state};

/// Where the PM1a and timer registers lie; [`PM1_SIZE`] bytes.
pub const PM1: u64 = 0x00;
/// Bytes of the window at [`PM1`].
pub const PM1_SIZE: u64 = 0x10;
/// Where the reset control register (port 0xcf9) lies; 1 byte.
pub const RESET_CONTROL: u64 = 0x10;
/// Size of the offset space in bytes.
pub const SIZE: u64 = 0x18;

/// The PM timer's clock in ticks a second.
pub const TIMER_HZ: u32 = 3_579_545;

const TIMER: Oscillator = Oscillator(TIMER_HZ);
/// TMR_STS is set when this bit of the counter changes.
const TIMER_CARRY: u32 = 23;
const TIMER_MASK: u64 = 0xff_ffff;

const TMR_STS: u16 = 1 << 0;
/// Enable bits that exist: TMR_EN, GBL_EN, PWRBTN_EN, SLPBTN_EN, RTC_EN.
const ENABLE_MASK: u16 = 1 << 0 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 10;
const SCI_EN: u16 = 1 << 0;
/// Control bits that are kept: BM_RLD, SLP_TYP. SLP_EN and GBL_RLS read as zero.
const CONTROL_MASK: u16 = 1 << 1 | 7 << 10;
const SLP_TYP: u16 = 7 << 10;
/// SLP_EN, in the control register's high byte.
const SLP_EN: u8 = 1 << 5;
const RST_CPU: u8 = 1 << 2;
/// Bits of the reset control register that are kept: SYS_RST, RST_CPU, FULL_RST.
const RESET_MASK: u8 = 0b1110;
const VERSION: u8 = 2;

/// The board's power management.
pub struct Pm {
    sci: u32,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    enable: u16,
    control: u16,
    /// How often the carry bit had changed when TMR_STS was last cleared.
    cleared: u64,
    line: bool,
    /// When the timer raises the line next, if it does.
    due: Option<VirtualTime>,
    reset_control: u8,
}

/// How often the carry bit has changed.
fn carries(now: VirtualTime) -> u64 {
    TIMER.ticks(now.0) >> TIMER_CARRY
}

impl Pm {
    /// Power management whose interrupt, the SCI, is `line`.
    pub fn new(sci: u32) -> Self {
        Pm {
            sci,
            state: State::new(VirtualTime(0)),
        }
    }

    fn status(&self, now: VirtualTime) -> u16 {
        if carries(now) > self.state.cleared {
            TMR_STS
        } else {
            0
        }
    }

    fn update(&mut self, cx: &mut dyn Context) {
        let now = cx.now();
        let level = self.status(now) & self.state.enable != 0;
        let state = &mut self.state;
        state.due = if state.enable & TMR_STS != 0 && !level {
            TIMER.at((carries(now) + 1) << TIMER_CARRY)
        } else {
            None
        };
        if state.line != level {
            state.line = level;
            cx.set_line(self.sci, level);
        }
    }

    fn read_byte(&self, now: VirtualTime, offset: u64) -> u8 {
        let half = |register: u16| register.to_le_bytes()[(offset & 1) as usize];
        match offset {
            0 | 1 => half(self.status(now)),
            2 | 3 => half(self.state.enable),
            4 | 5 => half(self.state.control),
            8..=11 => ((TIMER.ticks(now.0) & TIMER_MASK) >> (8 * (offset - 8))) as u8,
            RESET_CONTROL => self.state.reset_control,
            _ => 0,
        }
    }

    fn write_byte(&mut self, cx: &mut dyn Context, offset: u64, value: u8) {
        let state = &mut self.state;
        let with = |register: u16| {
            let mut bytes = register.to_le_bytes();
            bytes[(offset & 1) as usize] = value;
            u16::from_le_bytes(bytes)
        };
        match offset {
            0 if u16::from(value) & TMR_STS != 0 => state.cleared = carries(cx.now()),
            2 | 3 => state.enable = with(state.enable) & ENABLE_MASK,
            4 | 5 => {
                state.control = with(state.control) & CONTROL_MASK | SCI_EN;
                if offset == 5 && value & SLP_EN != 0 && state.control & SLP_TYP == 0 {
                    cx.power(Power::Off { code: 0 });
                }
            }
            RESET_CONTROL => {
                let rises = value & !state.reset_control & RST_CPU != 0;
                state.reset_control = value & RESET_MASK;
                if rises {
                    cx.power(Power::Reset);
                }
            }
            _ => {}
        }
    }
}

impl State {
    fn new(now: VirtualTime) -> Self {
        State {
            enable: 0,
            control: SCI_EN,
            cleared: carries(now),
            line: false,
            due: None,
            reset_control: 0,
        }
    }
}

impl Device for Pm {
    fn name(&self) -> &'static str {
        "acpi-pm"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let now = cx.now();
        ports::read(offset, size, |offset| self.read_byte(now, offset))
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        ports::write(offset, size, value, |offset, byte| {
            self.write_byte(cx, offset, byte)
        });
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.due
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        if self.state.due.is_some_and(|due| due <= cx.now()) {
            self.update(cx);
        }
    }

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |_: &State| Ok(()))?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        let line = self.state.line;
        self.state = State::new(cx.now());
        self.state.line = line;
        self.update(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    #[test]
    fn the_timer_is_24_bits_of_3_579545_mhz() {
        let (mut pm, mut cx) = (Pm::new(9), Fake::new());
        cx.now = VirtualTime(1_000_000_000);
        assert_eq!(pm.read(&mut cx, 8, 4), 3_579_545);
        cx.now = VirtualTime(10_000_000_000);
        assert_eq!(pm.read(&mut cx, 8, 4), 35_795_450 & 0xff_ffff);
        assert_eq!(pm.read(&mut cx, 10, 1), (35_795_450 & 0xff_ffff) >> 16);
        assert_eq!(pm.read(&mut cx, 11, 1), 0);
    }

    #[test]
    fn a_carry_raises_the_sci_until_its_status_is_cleared() {
        let (mut pm, mut cx) = (Pm::new(9), Fake::new());
        assert_eq!(pm.deadline(), None);
        pm.write(&mut cx, 2, 2, 1);
        // 2^23 ticks: 2.3435 s.
        let due = pm.deadline().unwrap();
        assert_eq!(due.0, ((1u128 << 23) * 1_000_000_000).div_ceil(3_579_545) as u64);
        cx.now = VirtualTime(due.0 - 1);
        pm.fire(&mut cx);
        assert_eq!((pm.read(&mut cx, 0, 2), cx.take()), (0, vec![]));
        cx.now = due;
        pm.fire(&mut cx);
        assert_eq!(cx.take(), [Effect::Line(9, true)]);
        assert_eq!((pm.deadline(), pm.read(&mut cx, 0, 2)), (None, 1));
        assert_eq!(pm.read(&mut cx, 0, 4), 0x1_0001);
        pm.write(&mut cx, 0, 2, 0xfffe);
        assert!(cx.effects.is_empty());
        pm.write(&mut cx, 0, 2, 1);
        assert_eq!(cx.take(), [Effect::Line(9, false)]);
        assert!(pm.deadline().unwrap() > due);
    }

    #[test]
    fn status_that_pends_interrupts_when_enabled() {
        let (mut pm, mut cx) = (Pm::new(9), Fake::new());
        cx.now = VirtualTime(20_000_000_000);
        assert_eq!(pm.read(&mut cx, 0, 2), 1);
        pm.write(&mut cx, 2, 2, 0xffff);
        assert_eq!(cx.take(), [Effect::Line(9, true)]);
        assert_eq!(pm.read(&mut cx, 2, 2), 0x0721);
        pm.reset(&mut cx);
        assert_eq!(cx.take(), [Effect::Line(9, false)]);
        assert_eq!(pm.read(&mut cx, 0, 4), 0);
    }

    #[test]
    fn soft_off() {
        let (mut pm, mut cx) = (Pm::new(9), Fake::new());
        assert_eq!(pm.read(&mut cx, 4, 2), 1); // SCI_EN
        pm.write(&mut cx, 4, 2, 1 << 13 | 5 << 10); // a type that doesn't exist
        pm.write(&mut cx, 4, 2, 0 << 10);
        assert!(cx.effects.is_empty());
        pm.write(&mut cx, 4, 2, 1 << 13);
        assert_eq!(cx.take(), [Effect::Power(Power::Off { code: 0 })]);
        assert_eq!(pm.read(&mut cx, 4, 2), 1);
    }

    #[test]
    fn resets() {
        let (mut pm, mut cx) = (Pm::new(9), Fake::new());
        pm.write(&mut cx, RESET_CONTROL, 1, 2);
        assert!(cx.effects.is_empty());
        pm.write(&mut cx, RESET_CONTROL, 1, 6);
        assert_eq!(cx.take(), [Effect::Power(Power::Reset)]);
        pm.write(&mut cx, RESET_CONTROL, 1, 6); // no edge
        assert!(cx.effects.is_empty());
    }
}
