//! MC146818 real-time clock with 128 bytes of battery-backed RAM, as in a PC.
//!
//! ```text
//!   0x0 port 0x70  index (bit 7, the NMI mask, is ignored; reads as 0xff, as a write-only port does)
//!   0x1 port 0x71  the register of that index
//!
//!   00 seconds 02 minutes 04 hours 06 day of week 07 day of month 08 month 09 year 32 century
//!   01 03 05 their alarms      0a..0d registers A to D      the rest is RAM, filled for SeaBIOS
//! ```
//!
//! The date at power-on is a constructor argument; the time is that and virtual time. What is stored
//! is where the seconds begin in virtual time (`phase`) and which second the first is (`first`); a guest's write to a
//! clock register while the clock runs moves `first`. While SET or the divider's reset holds the clock, the registers
//! are state (`held`); the first second after a divider reset is half a second long.
//!
//! Flags of register C are taken from the time: those that came since the last look are added at each access
//! ([`Cmos::look`]). A deadline is needed only for those whose interrupt is enabled and while the line is low.
//! UIP is 1 in the last 244 µs of each second that will be followed by an update; the update itself takes no time.
//!
//! Not modelled: daylight saving (DSE is kept), the square wave, divider settings other than 32.768 kHz (010) and reset (11x),
//! which leave the clock running.
//!
//! Source: MC146818A data sheet; ICH9 data sheet 13.6; the RAM bytes are those of SeaBIOS' `hw/rtc.h`, as QEMU fills them.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{clock::Oscillator, ports};
use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};

/// Where ports 0x70 and 0x71 lie; 2 bytes.
pub const PORTS: u64 = 0x0;
/// Size of the offset space in bytes.
pub const SIZE: u64 = 0x2;

/// What firmware reads of the board in the RAM.
#[derive(Clone, Copy, Debug)]
pub struct Contents {
    /// Bytes of RAM below 4 GiB, from address 0.
    pub low_memory: u64,
    /// Bytes of RAM above 4 GiB.
    pub high_memory: u64,
    /// What to boot from, in this order: 1 floppy, 2 disk, 3 CD-ROM, 4 network, 0 nothing.
    pub boot_order: [u8; 3],
    /// Number of harts.
    pub harts: u32,
}

const SECONDS: usize = 0x00;
const MINUTES: usize = 0x02;
const HOURS: usize = 0x04;
const DAY_OF_WEEK: usize = 0x06;
const DAY_OF_MONTH: usize = 0x07;
const MONTH: usize = 0x08;
const YEAR: usize = 0x09;
const A: usize = 0x0a;
const B: usize = 0x0b;
const C: usize = 0x0c;
const D: usize = 0x0d;
const CENTURY: usize = 0x32;
const RAM: usize = 128;

const UIP: u8 = 1 << 7;
const SET: u8 = 1 << 7;
/// The enable bits of register B stand where the flags of C do: PIE/PF, AIE/AF, UIE/UF.
const PF: u8 = 1 << 6;
const AF: u8 = 1 << 5;
const UF: u8 = 1 << 4;
const ENABLES: u8 = PF | AF | UF;
const SQWE: u8 = 1 << 3;
const BINARY: u8 = 1 << 2;
const HOURS_24: u8 = 1 << 1;
const IRQF: u8 = 1 << 7;
/// Valid RAM and time: the battery is well.
const VRT: u8 = 1 << 7;
/// In an hours register of the 12-hour format.
const AFTERNOON: u8 = 1 << 7;
/// An alarm byte from here on matches everything.
const ANY: u8 = 0xc0;

const NS: u64 = 1_000_000_000;
/// How long before an update UIP is set.
const UIP_NS: u64 = 244_000;
const DIVIDER: Oscillator = Oscillator(32_768);
const DAY: i64 = 86_400;
/// No second that a guest can set is further from 1970.
const SECOND_LIMIT: i64 = 1 << 41;
const VERSION: u8 = 1;

/// The clock and its RAM.
pub struct Cmos {
    line: u32,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    index: u8,
    /// Registers and RAM; the clock's own registers (but for the alarms) stand elsewhere.
    bytes: Vec<u8>,
    /// Nanoseconds into second `first` at virtual time 0; below 10⁹.
    phase: u64,
    /// The second at virtual time 0, since 1970.
    first: i64,
    /// Added to the day of the week that the date has; below 7.
    weekday: u8,
    held: Option<Held>,
    /// Up to when the flags of register C are complete.
    looked: VirtualTime,
    line: bool,
    due: Option<VirtualTime>,
}

/// The clock's registers while it stands still, as numbers: seconds, minutes, hours, day of the
/// week (1 is Sunday), day, month, year of the century, century.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Held([u8; 8]);

/// Which place of [`Held`] a register has.
fn place(register: usize) -> Option<usize> {
    match register {
        SECONDS => Some(0),
        MINUTES => Some(1),
        HOURS => Some(2),
        DAY_OF_WEEK => Some(3),
        DAY_OF_MONTH => Some(4),
        MONTH => Some(5),
        YEAR => Some(6),
        CENTURY => Some(7),
        _ => None,
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. A month past December is one of the next years, a day past
/// the month's end one of the next month.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March, so that the leap day is the last.
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + in_year - 719_468
}

/// The (year, month, day) that [`days`] turns into `days`.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let year = era * 400 + year + i64::from(month >= 10);
    (year, (month + 2) % 12 + 1, in_year - (153 * month + 2) / 5 + 1)
}

impl State {
    fn new(epoch_ns: u64, contents: &Contents) -> Self {
        let mut bytes = vec![0; RAM];
        bytes[A] = 0x26;
        bytes[B] = HOURS_24;
        let mut word = |at: [usize; 2], value: u64| {
            let [low, high] = (value.min(0xffff) as u16).to_le_bytes();
            bytes[at[0]] = low;
            bytes[at[1]] = high;
        };
        let low = contents.low_memory;
        let above = |base: u64, unit: u64| low.saturating_sub(base) / unit;
        word([0x15, 0x16], (low / 1024).min(640));
        word([0x17, 0x18], above(1 << 20, 1 << 10));
        word([0x30, 0x31], above(1 << 20, 1 << 10));
        word([0x34, 0x35], above(16 << 20, 64 << 10));
        let high = (contents.high_memory >> 16).min(0xff_ffff);
        word([0x5b, 0x5c], high & 0xffff);
        bytes[0x5d] = (high >> 16) as u8;
        bytes[0x5f] = contents.harts.saturating_sub(1).min(255) as u8;
        // Equipment: coprocessor, PS/2 mouse.
        bytes[0x14] = 0x06;
        let [first, second, third] = contents.boot_order.map(|kind| kind & 0xf);
        bytes[0x3d] = second << 4 | first;
        // Bit 0: floppies need no boot signature.
        bytes[0x38] = third << 4 | 1;
        State {
            index: 0,
            bytes,
            phase: epoch_ns % NS,
            first: (epoch_ns / NS) as i64,
            weekday: 0,
            held: None,
            looked: VirtualTime(0),
            line: false,
            due: None,
        }
    }

    fn register(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Nanoseconds on the clock's own scale, whose whole seconds are its seconds.
    fn scale(&self, now: VirtualTime) -> u64 {
        now.0.saturating_add(self.phase)
    }

    /// The second that the clock would show if it ran.
    fn second(&self, now: VirtualTime) -> i64 {
        self.first + (self.scale(now) / NS) as i64
    }

    /// When `second` begins.
    fn begin(&self, second: i64) -> Option<VirtualTime> {
        let seconds = u64::try_from(second - self.first).ok()?;
        seconds.checked_mul(NS)?.checked_sub(self.phase).map(VirtualTime)
    }

    fn divider_reset(&self) -> bool {
        self.register(A) & 0x60 == 0x60
    }

    fn fields(&self, now: VirtualTime) -> Held {
        if let Some(held) = self.held {
            return held;
        }
        let second = self.second(now);
        let (day, time) = (second.div_euclid(DAY), second.rem_euclid(DAY));
        let (year, month, of_month) = date(day);
        // 1970-01-01 was a Thursday.
        let weekday = (day + 4 + i64::from(self.weekday)).rem_euclid(7) + 1;
        Held(
            [
                time % 60,
                time / 60 % 60,
                time / 3600,
                weekday,
                of_month,
                month,
                year.rem_euclid(100),
                year.div_euclid(100).rem_euclid(100),
            ]
            .map(|field| field as u8),
        )
    }

    /// Lets the clock show `fields` from now on, the divider as it is.
    fn set_fields(&mut self, now: VirtualTime, fields: Held) {
        let [second, minute, hour, weekday, day, month, year, century] = fields.0.map(i64::from);
        let days = days(century * 100 + year, month, day);
        let time = days * DAY + hour * 3600 + minute * 60 + second;
        self.first = time - (self.scale(now) / NS) as i64;
        self.weekday = (weekday - 1 - (time.div_euclid(DAY) + 4)).rem_euclid(7) as u8;
    }

    /// A number as a clock register holds it.
    fn encode(&self, value: u8) -> u8 {
        if self.register(B) & BINARY != 0 {
            value
        } else {
            (value / 10) << 4 | (value % 10)
        }
    }

    fn decode(&self, value: u8) -> u8 {
        if self.register(B) & BINARY != 0 {
            value
        } else {
            (value >> 4) * 10 + (value & 0xf)
        }
    }

    fn encode_hour(&self, hour: u8) -> u8 {
        if self.register(B) & HOURS_24 != 0 {
            return self.encode(hour);
        }
        let afternoon = if hour >= 12 { AFTERNOON } else { 0 };
        self.encode((hour + 11) % 12 + 1) | afternoon
    }

    fn decode_hour(&self, value: u8) -> u8 {
        if self.register(B) & HOURS_24 != 0 {
            return self.decode(value);
        }
        let hour = self.decode(value & !AFTERNOON) % 12;
        if value & AFTERNOON != 0 { hour + 12 } else { hour }
    }

    /// The first second after `second` that the alarm registers match, if any ever does.
    fn next_alarm(&self, second: i64) -> Option<i64> {
        let after = second + 1;
        let (day, time) = (after.div_euclid(DAY), after.rem_euclid(DAY));
        // One bit a value that matches.
        let mask = |register: usize, count: u8, encode: &dyn Fn(u8) -> u8| {
            let alarm = self.register(register);
            (0..count)
                .filter(|&value| alarm >= ANY || alarm == encode(value))
                .fold(0u64, |mask, value| mask | 1 << value)
        };
        let seconds = mask(SECONDS + 1, 60, &|value| self.encode(value));
        let minutes = mask(MINUTES + 1, 60, &|value| self.encode(value));
        let hours = mask(HOURS + 1, 24, &|value| self.encode_hour(value));
        // The first value that matches from `from` (at most 60) on.
        let next = |mask: u64, from: i64| {
            let rest = mask >> from;
            (rest != 0).then(|| from + i64::from(rest.trailing_zeros()))
        };
        let (hour, minute) = (time / 3600, time / 60 % 60);
        let this_hour = next(hours, hour) == Some(hour);
        let this_minute = this_hour && next(minutes, minute) == Some(minute);
        let rest_of_minute = next(seconds, time % 60).filter(|_| this_minute);
        let rest_of_hour = next(minutes, minute + 1).filter(|_| this_hour);
        let (hour, minute, second) = if let Some(second) = rest_of_minute {
            (hour, minute, second)
        } else if let Some(minute) = rest_of_hour {
            (hour, minute, next(seconds, 0)?)
        } else {
            let hour = next(hours, hour + 1).or_else(|| Some(next(hours, 0)? + 24))?;
            (hour, next(minutes, 0)?, next(seconds, 0)?)
        };
        Some(day * DAY + hour * 3600 + minute * 60 + second)
    }

    /// Clocks of 32.768 kHz in a period of the periodic interrupt, if there is one.
    fn period(&self) -> Option<u64> {
        match self.register(A) & 0xf {
            0 => None,
            _ if self.divider_reset() => None,
            rate @ 1..=2 => Some(64 << rate),
            rate => Some(1 << (rate - 1)),
        }
    }

    fn periods(&self, now: VirtualTime, period: u64) -> u64 {
        DIVIDER.ticks(self.scale(now)) / period
    }

    /// Adds to register C what has come since the last look.
    fn look(&mut self, now: VirtualTime) {
        let (before, second) = (self.second(self.looked), self.second(now));
        let mut flags = 0;
        if self.held.is_none() && second > before {
            flags |= UF;
            if self.next_alarm(before).is_some_and(|at| at <= second) {
                flags |= AF;
            }
        }
        if let Some(period) = self.period()
            && self.periods(now, period) > self.periods(self.looked, period)
        {
            flags |= PF;
        }
        self.looked = self.looked.max(now);
        self.bytes[C] |= flags;
    }

    /// When an enabled flag comes next; nothing else changes the line.
    fn next(&self, now: VirtualTime) -> Option<VirtualTime> {
        let enabled = self.register(B) & ENABLES;
        if enabled & self.register(C) != 0 {
            return None;
        }
        let running = |flag: u8| enabled & flag != 0 && self.held.is_none();
        let second = self.second(now);
        let update = running(UF).then(|| self.begin(second + 1)).flatten();
        let alarm = running(AF)
            .then(|| self.next_alarm(second).and_then(|at| self.begin(at)))
            .flatten();
        let periodic = self.period().filter(|_| enabled & PF != 0).and_then(|period| {
            let tick = (self.periods(now, period) + 1).checked_mul(period)?;
            DIVIDER.at(tick)?.0.checked_sub(self.phase).map(VirtualTime)
        });
        [update, alarm, periodic].into_iter().flatten().min()
    }

    fn read(&mut self, now: VirtualTime) -> u8 {
        let index = usize::from(self.index);
        if let Some(place) = place(index) {
            let value = self.fields(now).0[place];
            return if index == HOURS {
                self.encode_hour(value)
            } else {
                self.encode(value)
            };
        }
        match index {
            A => {
                let left = NS - self.scale(now) % NS;
                let updating = self.held.is_none() && left <= UIP_NS;
                self.register(A) | if updating { UIP } else { 0 }
            }
            C => {
                let flags = self.register(C);
                self.bytes[C] = 0;
                flags
                    | if flags & self.register(B) & ENABLES != 0 {
                        IRQF
                    } else {
                        0
                    }
            }
            D => VRT,
            _ => self.register(index),
        }
    }

    fn write(&mut self, now: VirtualTime, value: u8) {
        let index = usize::from(self.index);
        if let Some(place) = place(index) {
            let mut fields = self.fields(now);
            fields.0[place] = if index == HOURS {
                self.decode_hour(value)
            } else {
                self.decode(value)
            };
            match &mut self.held {
                Some(held) => *held = fields,
                None => self.set_fields(now, fields),
            }
            return;
        }
        match index {
            A | B => {
                let fields = self.fields(now);
                let was_reset = self.divider_reset();
                if index == A {
                    self.bytes[A] = value & !UIP;
                } else {
                    // SET takes UIE away.
                    let value = if value & SET != 0 { value & !UF } else { value };
                    self.bytes[B] = value;
                }
                if was_reset && !self.divider_reset() {
                    let old = self.scale(now) / NS;
                    self.phase = (NS / 2 + NS - now.0 % NS) % NS;
                    self.first += old as i64 - (self.scale(now) / NS) as i64;
                }
                let hold = self.register(B) & SET != 0 || self.divider_reset();
                match (self.held, hold) {
                    (None, true) => self.held = Some(fields),
                    (Some(held), false) => {
                        self.held = None;
                        self.set_fields(now, held);
                    }
                    _ => {}
                }
            }
            C | D => {}
            _ => {
                if let Some(byte) = self.bytes.get_mut(index) {
                    *byte = value;
                }
            }
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.bytes.len() != RAM || self.index >= 128 {
            Err("not 128 bytes of RAM")
        } else if self.phase >= NS || !(-SECOND_LIMIT..=SECOND_LIMIT).contains(&self.first) {
            Err("a date out of range")
        } else if self.weekday > 6 {
            Err("no such day of the week")
        } else {
            Ok(())
        }
    }
}

impl Cmos {
    /// A clock that interrupts on `line` and stands at `epoch_ns` nanoseconds since 1970 (UTC) at virtual time 0.
    pub fn new(line: u32, epoch_ns: u64, contents: &Contents) -> Self {
        Cmos {
            line,
            state: State::new(epoch_ns, contents),
        }
    }

    fn update(&mut self, cx: &mut dyn Context) {
        let state = &mut self.state;
        let level = state.register(B) & state.register(C) & ENABLES != 0;
        state.due = state.next(cx.now());
        if state.line != level {
            state.line = level;
            cx.set_line(self.line, level);
        }
    }
}

impl Device for Cmos {
    fn name(&self) -> &'static str {
        "mc146818"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let now = cx.now();
        self.state.look(now);
        let value = ports::read(offset, size, |offset| match offset {
            0 => 0xff,
            1 => self.state.read(now),
            _ => 0,
        });
        self.update(cx);
        value
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let now = cx.now();
        self.state.look(now);
        ports::write(offset, size, value, |offset, byte| match offset {
            0 => self.state.index = byte & 0x7f,
            1 => self.state.write(now, byte),
            _ => {}
        });
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.due
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        if self.state.due.is_some_and(|due| due <= cx.now()) {
            self.state.look(cx.now());
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
        self.state = state::restore(self.name(), VERSION, bytes, State::check)?;
        Ok(())
    }

    /// The battery keeps time, alarm and RAM; interrupts are off (MC146818A, RESET).
    fn reset(&mut self, cx: &mut dyn Context) {
        self.state.look(cx.now());
        self.state.index = 0;
        self.state.bytes[B] &= !(ENABLES | SQWE);
        self.state.bytes[C] = 0;
        self.update(cx);
    }
}
