//! Goldfish RTC: nanoseconds since 1970, and an alarm.
//!
//! ```text
//!   0x00 TIME_LOW   0x04 TIME_HIGH    reading LOW latches HIGH; writing either sets the clock
//!   0x08 ALARM_LOW  0x0c ALARM_HIGH   writing LOW sets the alarm
//!   0x10 IRQ_ENABLED   0x14 CLEAR_ALARM   0x18 ALARM_STATUS   0x1c CLEAR_INTERRUPT
//! ```
//!
//! The time is `now + offset`; the offset at power-on is the configured date, and a guest's write
//! changes only the offset. It keeps running over a reset, as on a battery. The alarm is set, as a
//! distance from then on, by the write of ALARM_LOW alone: setting the clock doesn't move it. One
//! that is not in the future goes off at once.
//!
//! Source: Android's GOLDFISH-VIRTUAL-HARDWARE.TXT, section "Goldfish real-time clock"; the write
//! side, as Linux uses it, is rtc-goldfish's.

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};

/// Size of the register window in bytes.
pub const SIZE: u64 = 0x1000;

const TIME_LOW: u64 = 0x00;
const TIME_HIGH: u64 = 0x04;
const ALARM_LOW: u64 = 0x08;
const ALARM_HIGH: u64 = 0x0c;
const IRQ_ENABLED: u64 = 0x10;
const CLEAR_ALARM: u64 = 0x14;
const ALARM_STATUS: u64 = 0x18;
const CLEAR_INTERRUPT: u64 = 0x1c;
const VERSION: u8 = 1;

/// The board's real-time clock.
pub struct Rtc {
    line: u32,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    /// Nanoseconds since 1970 at virtual time 0, wrapping.
    offset: u64,
    /// What TIME_HIGH reads: the high half when TIME_LOW was last read.
    latched_high: u32,
    alarm: u64,
    /// The alarm is set and hasn't gone off.
    armed: bool,
    /// When it goes off, if it is armed and ever does.
    due: Option<VirtualTime>,
    enabled: bool,
    pending: bool,
    line: bool,
}

impl Rtc {
    /// A clock that interrupts on `line` and stands at `epoch_ns` nanoseconds since 1970 at
    /// virtual time 0.
    pub fn new(line: u32, epoch_ns: u64) -> Self {
        Rtc {
            line,
            state: State::new(epoch_ns),
        }
    }

    fn time(&self, now: VirtualTime) -> u64 {
        now.0.wrapping_add(self.state.offset)
    }

    /// Sets the alarm to what the alarm registers say.
    fn arm(&mut self, now: VirtualTime) {
        let time = self.time(now);
        let state = &mut self.state;
        state.armed = state.alarm > time;
        state.due = None;
        if state.armed {
            state.due = now.checked_add(state.alarm - time);
        } else {
            state.pending = true;
        }
    }

    fn update_line(&mut self, cx: &mut dyn Context) {
        let level = self.state.enabled && self.state.pending;
        if self.state.line != level {
            self.state.line = level;
            cx.set_line(self.line, level);
        }
    }
}

impl State {
    fn new(offset: u64) -> Self {
        State {
            offset,
            latched_high: 0,
            alarm: 0,
            armed: false,
            due: None,
            enabled: false,
            pending: false,
            line: false,
        }
    }
}

fn with_low(old: u64, value: u64) -> u64 {
    old & !0xffff_ffff | value & 0xffff_ffff
}

fn with_high(old: u64, value: u64) -> u64 {
    old & 0xffff_ffff | value << 32
}

impl Device for Rtc {
    fn name(&self) -> &'static str {
        "goldfish-rtc"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        if size != 4 {
            return 0;
        }
        match offset {
            TIME_LOW => {
                let time = self.time(cx.now());
                self.state.latched_high = (time >> 32) as u32;
                time & 0xffff_ffff
            }
            TIME_HIGH => u64::from(self.state.latched_high),
            ALARM_LOW => self.state.alarm & 0xffff_ffff,
            ALARM_HIGH => self.state.alarm >> 32,
            IRQ_ENABLED => u64::from(self.state.enabled),
            ALARM_STATUS => u64::from(self.state.armed),
            _ => 0,
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        if size != 4 {
            return;
        }
        let now = cx.now();
        match offset {
            TIME_LOW | TIME_HIGH => {
                let old = self.time(now);
                let new = if offset == TIME_LOW {
                    with_low(old, value)
                } else {
                    with_high(old, value)
                };
                self.state.offset = new.wrapping_sub(now.0);
            }
            ALARM_LOW => {
                self.state.alarm = with_low(self.state.alarm, value);
                self.arm(now);
            }
            ALARM_HIGH => self.state.alarm = with_high(self.state.alarm, value),
            IRQ_ENABLED => self.state.enabled = value & 1 != 0,
            CLEAR_ALARM => {
                self.state.armed = false;
                self.state.due = None;
            }
            CLEAR_INTERRUPT => self.state.pending = false,
            _ => {}
        }
        self.update_line(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.due
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        if self.state.due.is_some_and(|due| due <= cx.now()) {
            self.state.armed = false;
            self.state.due = None;
            self.state.pending = true;
            self.update_line(cx);
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
        self.state = State::new(self.state.offset);
        self.state.line = line;
        self.update_line(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    const EPOCH: u64 = 1_700_000_000_000_000_000;

    fn read_time(rtc: &mut Rtc, cx: &mut Fake) -> u64 {
        let low = rtc.read(cx, 0, 4);
        low | rtc.read(cx, 4, 4) << 32
    }

    #[test]
    fn time_is_the_date_plus_now_and_reads_whole() {
        let (mut rtc, mut cx) = (Rtc::new(11, EPOCH | 0xffff_ffff), Fake::new());
        let low = rtc.read(&mut cx, 0, 4);
        cx.now = VirtualTime(1); // carries into the high half
        let high = rtc.read(&mut cx, 4, 4);
        assert_eq!(low | high << 32, EPOCH | 0xffff_ffff);
        assert_eq!(read_time(&mut rtc, &mut cx), (EPOCH | 0xffff_ffff) + 1);
    }

    #[test]
    fn setting_the_clock() {
        let (mut rtc, mut cx) = (Rtc::new(11, EPOCH), Fake::new());
        cx.now = VirtualTime(77);
        rtc.write(&mut cx, 4, 4, 3);
        rtc.write(&mut cx, 0, 4, 9);
        cx.now = VirtualTime(78);
        assert_eq!(read_time(&mut rtc, &mut cx), (3 << 32 | 9) + 1);
        rtc.reset(&mut cx);
        assert_eq!(read_time(&mut rtc, &mut cx), (3 << 32 | 9) + 1);
    }

    #[test]
    fn alarm_goes_off_exactly_once() {
        let (mut rtc, mut cx) = (Rtc::new(11, EPOCH), Fake::new());
        cx.now = VirtualTime(1000);
        let alarm = EPOCH + 5000;
        rtc.write(&mut cx, 0x10, 4, 1);
        rtc.write(&mut cx, 0x0c, 4, alarm >> 32);
        assert_eq!(rtc.deadline(), None);
        rtc.write(&mut cx, 0x08, 4, alarm & 0xffff_ffff);
        assert_eq!(rtc.read(&mut cx, 0x18, 4), 1);
        assert_eq!(rtc.deadline(), Some(VirtualTime(5000)));
        cx.now = VirtualTime(5000);
        rtc.fire(&mut cx);
        assert_eq!(cx.take(), [Effect::Line(11, true)]);
        assert_eq!((rtc.deadline(), rtc.read(&mut cx, 0x18, 4)), (None, 0));
        rtc.write(&mut cx, 0x1c, 4, 1);
        assert_eq!(cx.take(), [Effect::Line(11, false)]);
    }

    #[test]
    fn only_alarm_low_sets_the_alarm() {
        let (mut rtc, mut cx) = (Rtc::new(11, 0), Fake::new());
        rtc.write(&mut cx, 0x0c, 4, 1);
        rtc.write(&mut cx, 0x08, 4, 7);
        let due = rtc.deadline();
        assert_eq!(due, Some(VirtualTime(1 << 32 | 7)));
        rtc.write(&mut cx, 0x0c, 4, 0); // the first half of setting another
        rtc.write(&mut cx, 0x04, 4, 9); // the clock
        assert_eq!((rtc.deadline(), rtc.read(&mut cx, 0x18, 4)), (due, 1));
    }

    #[test]
    fn alarm_in_the_past_and_a_masked_one() {
        let (mut rtc, mut cx) = (Rtc::new(11, EPOCH), Fake::new());
        rtc.write(&mut cx, 0x0c, 4, 0);
        rtc.write(&mut cx, 0x08, 4, 1);
        assert!(cx.effects.is_empty());
        rtc.write(&mut cx, 0x10, 4, 1);
        assert_eq!(cx.take(), [Effect::Line(11, true)]);
        rtc.write(&mut cx, 0x0c, 4, 0xffff_ffff);
        rtc.write(&mut cx, 0x08, 4, 0xffff_ffff);
        assert_eq!(rtc.deadline(), Some(VirtualTime(u64::MAX - EPOCH)));
        rtc.write(&mut cx, 0x14, 4, 0);
        assert_eq!(rtc.read(&mut cx, 0x18, 4), 0);
    }
}
