//! Intel 8254 programmable interval timer, and port 0x61 that gates its counter 2.
//!
//! ```text
//!   0x00 COUNTERS  ports 0x40..0x43   counters 0, 1, 2 and the control word
//!   0x10 PORT_61   port 0x61          bit 0 gate of counter 2, 1 speaker data, 2 and 3 NMI masks (kept),
//!                                     4 refresh toggle, 5 OUT of counter 2, 6 and 7 read 0
//! ```
//!
//! The clock is 1.193182 MHz of virtual time. A counter isn't counted down: what its counting element
//! holds and what OUT is follow from the tick at which the count was loaded ([`Counter::out`],
//! [`Counter::count`]), so that only a change of OUT of counter 0, which drives the board's line, needs a
//! deadline. The rules of the modes that matter here:
//!
//! - A count is loaded by the first clock pulse after it was written, or after the trigger in modes 1 and 5;
//!   in modes 2 and 3 by the end of the (half) cycle that runs.
//! - The gates of counters 0 and 1 are tied high, so that their modes 1 and 5 never start.
//! - At power-on a counter has no mode and OUT is low until a control word comes (the data sheet leaves both
//!   undefined). A count of 1, which modes 2 and 3 don't allow, leaves OUT high.
//! - The refresh request is counter 1's as every BIOS programs it, a toggle every 18 clocks, whatever it holds.
//!
//! Where a boundary is late (steps longer than a pulse of OUT), the line shows the change that was due and
//! then where OUT stands, so that an edge is never lost.
//!
//! Source: Intel 8254 data sheet (231164); port 0x61: 82801 (ICH9) data sheet, 13.7.1.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{clock::Oscillator, ports};
use crate::{Context, Device, DeviceError, Input, InputKind, VirtualTime, state};

/// Where ports 0x40 to 0x43 lie; 4 bytes.
pub const COUNTERS: u64 = 0x00;
/// Where port 0x61 lies; 1 byte.
pub const PORT_61: u64 = 0x10;
/// Size of the offset space in bytes.
pub const SIZE: u64 = 0x18;

/// Clock pulses a second.
pub const CLOCK_HZ: u32 = 1_193_182;

const CLOCK: Oscillator = Oscillator(CLOCK_HZ);
const CONTROL_WORD: u64 = 3;
const REFRESH_CLOCKS: i64 = 18;
const GATE_2: u8 = 1 << 0;
/// Bits of port 0x61 that are kept.
const PORT_61_MASK: u8 = 0xf;
/// No tick that a counter can meet is further from 0.
const TICK_LIMIT: i64 = 1 << 60;
const VERSION: u8 = 1;

/// The timer.
pub struct Pit {
    line: u32,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    counters: [Counter; 3],
    port_61: u8,
    /// OUT of counter 0 as the line last showed it.
    out: bool,
    /// When counter 0 must be looked at next.
    due: Option<VirtualTime>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Counter {
    /// 0 to 5; none before the first control word.
    mode: Option<u8>,
    /// Bits 5 to 0 of the control word, which the status gives back as they are.
    word: u8,
    bcd: bool,
    /// Which bytes of a count are written and read: 1 low, 2 high, 3 low then high.
    access: u8,
    gate: bool,
    /// The low byte of a count whose high byte is still to come.
    low: Option<u8>,
    /// The next read gives the high byte.
    read_high: bool,
    latched_count: Option<u16>,
    latched_status: Option<u8>,
    /// The count register, as a number of clocks; 0 if none was written.
    register: u32,
    /// What the counting element counts from.
    from: u32,
    run: Run,
    /// A count that the end of the running (half) cycle loads, and the tick of that.
    next: Option<(u32, i64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Run {
    /// No count, or no trigger yet.
    Idle,
    /// The counting element holds `from` at this tick.
    Since(i64),
    /// The gate stopped it this many clocks after loading.
    Stopped(i64),
}

impl Counter {
    fn new(gate: bool) -> Self {
        Counter {
            mode: None,
            word: 3 << 4,
            bcd: false,
            access: 3,
            gate,
            low: None,
            read_high: false,
            latched_count: None,
            latched_status: None,
            register: 0,
            from: 0,
            run: Run::Idle,
            next: None,
        }
    }

    /// The counting element counts modulo this.
    fn modulus(&self) -> i64 {
        if self.bcd { 10_000 } else { 0x1_0000 }
    }

    /// Clocks that OUT is high in a cycle of mode 3.
    fn high_half(from: u32) -> i64 {
        i64::from(from.div_ceil(2))
    }

    /// Loads what was due to be loaded by tick `t`.
    fn settle(&mut self, t: i64) {
        if let (Some((count, at)), Run::Since(start)) = (self.next, self.run)
            && at <= t
        {
            // In mode 3 the half that begins may be the low one.
            let low = self.mode == Some(3) && (at - start) % i64::from(self.from.max(1)) != 0;
            self.run = Run::Since(if low { at - Self::high_half(count) } else { at });
            self.from = count;
            self.next = None;
        }
    }

    /// Clocks since the load, at tick `t`; negative before it.
    fn elapsed(&self, t: i64) -> Option<i64> {
        match self.run {
            Run::Idle => None,
            Run::Since(start) => Some(t - start),
            Run::Stopped(elapsed) => Some(elapsed),
        }
    }

    /// OUT at tick `t`.
    fn out(&self, t: i64) -> bool {
        let Some(mode) = self.mode else {
            return false;
        };
        let n = i64::from(self.from);
        let Some(elapsed) = self.elapsed(t) else {
            return mode != 0;
        };
        match mode {
            0 => elapsed >= n,
            1 => elapsed < 0 || elapsed >= n,
            2 | 3 if elapsed < 0 || n < 2 || matches!(self.run, Run::Stopped(_)) => true,
            2 => elapsed % n != n - 1,
            3 => elapsed % n < Self::high_half(self.from),
            _ => elapsed != n,
        }
    }

    /// The first tick after `t` at which OUT may change or a count is loaded, for a counter whose gate
    /// is high.
    fn next_change(&self, t: i64) -> Option<i64> {
        let Run::Since(start) = self.run else {
            return None;
        };
        let n = i64::from(self.from);
        let elapsed = t - start;
        let change = match self.mode? {
            0 => Some(start + n).filter(|&at| at > t),
            1 => [start, start + n].into_iter().find(|&at| at > t),
            4 | 5 => [start + n, start + n + 1].into_iter().find(|&at| at > t),
            _ if n < 2 => None,
            mode => {
                let first = if mode == 2 {
                    n - 1
                } else {
                    Self::high_half(self.from)
                };
                let phase = elapsed.max(0) % n;
                let to = if phase < first { first } else { n };
                Some(if elapsed < 0 {
                    start + first
                } else {
                    t + to - phase
                })
            }
        };
        let load = self.next.map(|(_, at)| at);
        [change, load].into_iter().flatten().min()
    }

    /// What the counting element holds at tick `t`, as it is read.
    fn count(&self, t: i64) -> u16 {
        let n = i64::from(self.from);
        let elapsed = self.elapsed(t).unwrap_or(0).max(0);
        let count = match self.mode {
            Some(2) if n > 0 => n - elapsed % n,
            Some(3) if n > 0 => {
                let phase = elapsed % n;
                let high = Self::high_half(self.from);
                let in_half = if phase < high { phase } else { phase - high };
                (n & !1) - 2 * in_half
            }
            _ => n - elapsed,
        };
        let count = count.rem_euclid(self.modulus()) as u16;
        if self.bcd { to_bcd(count) } else { count }
    }

    fn status(&self, t: i64) -> u8 {
        let null = match self.run {
            Run::Idle => true,
            Run::Since(start) => t < start || self.next.is_some(),
            Run::Stopped(_) => false,
        } || self.register == 0;
        u8::from(self.out(t)) << 7 | u8::from(null) << 6 | self.word
    }

    fn control(&mut self, word: u8) {
        *self = Counter {
            mode: Some(match word >> 1 & 7 {
                mode @ 0..=5 => mode,
                mode => mode & 3,
            }),
            word: word & 0x3f,
            bcd: word & 1 != 0,
            access: word >> 4 & 3,
            ..Counter::new(self.gate)
        };
    }

    fn latch_count(&mut self, t: i64) {
        if self.latched_count.is_none() {
            self.latched_count = Some(self.count(t));
        }
    }

    fn latch_status(&mut self, t: i64) {
        if self.latched_status.is_none() {
            self.latched_status = Some(self.status(t));
        }
    }

    fn read(&mut self, t: i64) -> u8 {
        if let Some(status) = self.latched_status.take() {
            return status;
        }
        let [low, high] = self.latched_count.unwrap_or_else(|| self.count(t)).to_le_bytes();
        let first_of_two = self.access == 3 && !self.read_high;
        let value = if self.access == 1 || first_of_two {
            low
        } else {
            high
        };
        self.read_high = first_of_two;
        if !first_of_two {
            self.latched_count = None;
        }
        value
    }

    fn write(&mut self, t: i64, value: u8) {
        let count = match (self.access, self.low) {
            (1, _) => u16::from(value),
            (2, _) => u16::from(value) << 8,
            (_, None) => {
                self.low = Some(value);
                if self.mode == Some(0) {
                    // Counting stops until the count is whole.
                    self.run = Run::Idle;
                }
                return;
            }
            (_, Some(low)) => u16::from_le_bytes([low, value]),
        };
        self.low = None;
        let count = if self.bcd { from_bcd(count) } else { count.into() };
        self.register = if count == 0 { self.modulus() as u32 } else { count };
        match self.mode {
            Some(1 | 5) | None => {}
            Some(2 | 3) if matches!(self.run, Run::Since(start) if start <= t) => {
                self.next = self.end_of_cycle(t).map(|at| (self.register, at));
            }
            Some(_) => self.load(t),
        }
    }

    /// When the cycle that runs at tick `t` in mode 2, or its half in mode 3, ends.
    fn end_of_cycle(&self, t: i64) -> Option<i64> {
        let phase = self.elapsed(t)?.checked_rem(i64::from(self.from))?;
        let high = Self::high_half(self.from);
        let length = match self.mode {
            Some(3) if phase < high => high,
            _ => i64::from(self.from),
        };
        Some(t + length - phase)
    }

    /// The next clock pulse loads the count register.
    fn load(&mut self, t: i64) {
        self.from = self.register;
        self.next = None;
        self.run = if self.gate {
            Run::Since(t + 1)
        } else {
            Run::Stopped(0)
        };
    }

    fn set_gate(&mut self, t: i64, gate: bool) {
        if self.gate == gate {
            return;
        }
        self.gate = gate;
        match (self.mode, gate) {
            (Some(0 | 4), false) => {
                if let Run::Since(start) = self.run {
                    self.run = Run::Stopped((t - start).max(0));
                }
            }
            (Some(0 | 4), true) => {
                if let Run::Stopped(elapsed) = self.run {
                    self.run = Run::Since(t - elapsed);
                }
            }
            (Some(2 | 3), false) => {
                if let Run::Since(_) = self.run {
                    self.from = self.register;
                    self.next = None;
                    self.run = Run::Stopped(0);
                }
            }
            (Some(1 | 2 | 3 | 5), true) if self.register != 0 => self.load(t),
            _ => {}
        }
    }

    /// Whether a counter can be in this state, as far as its arithmetic needs it.
    fn check(&self) -> Result<(), &'static str> {
        let near = |tick: i64| (-TICK_LIMIT..=TICK_LIMIT).contains(&tick);
        let ticks = match self.run {
            Run::Idle => true,
            Run::Since(tick) | Run::Stopped(tick) => near(tick),
        } && self.next.is_none_or(|(_, at)| near(at));
        if !ticks {
            Err("a tick out of range")
        } else if self.word > 0x3f
            || self.mode.is_some_and(|mode| mode > 5)
            || !(1..=3).contains(&self.access)
        {
            Err("no such mode")
        } else if [self.from, self.register, self.next.map_or(0, |(count, _)| count)]
            .iter()
            .any(|&count| count > 0x1_0000)
        {
            Err("a count above 2^16")
        } else {
            Ok(())
        }
    }
}

/// Four digits; a count is below 10,000.
fn to_bcd(count: u16) -> u16 {
    let digit = |unit: u16| count / unit % 10;
    digit(1000) << 12 | digit(100) << 8 | digit(10) << 4 | digit(1)
}

/// The digits' sum by weight; digits above 9 are taken as they are.
fn from_bcd(value: u16) -> u32 {
    let digit = |n: u32| u32::from(value >> (4 * n) & 0xf);
    digit(0) + 10 * digit(1) + 100 * digit(2) + 1000 * digit(3)
}

/// The tick that has begun.
fn tick(now: VirtualTime) -> i64 {
    CLOCK.ticks(now.0) as i64
}

impl State {
    fn new() -> Self {
        State {
            counters: [true, true, false].map(Counter::new),
            port_61: 0,
            out: false,
            due: None,
        }
    }
}

impl Pit {
    /// A timer whose counter 0 drives `line`.
    pub fn new(line: u32) -> Self {
        Pit {
            line,
            state: State::new(),
        }
    }

    fn show(&mut self, cx: &mut dyn Context, t: i64) {
        let counter = &mut self.state.counters[0];
        counter.settle(t);
        let out = counter.out(t);
        if self.state.out != out {
            self.state.out = out;
            cx.set_line(self.line, out);
        }
    }

    /// Does what was due by now.
    fn catch_up(&mut self, cx: &mut dyn Context) {
        let now = cx.now();
        if let Some(due) = self.state.due.filter(|&due| due <= now) {
            self.show(cx, tick(due));
        }
        for counter in &mut self.state.counters {
            counter.settle(tick(now));
        }
    }

    fn update(&mut self, cx: &mut dyn Context) {
        let t = tick(cx.now());
        self.show(cx, t);
        let change = self.state.counters[0].next_change(t);
        self.state.due = change
            .and_then(|tick| u64::try_from(tick).ok())
            .and_then(|tick| CLOCK.at(tick));
    }

    fn read_byte(&mut self, t: i64, offset: u64) -> u8 {
        let state = &mut self.state;
        match offset {
            0..CONTROL_WORD => state.counters[offset as usize].read(t),
            PORT_61 => {
                state.port_61
                    | u8::from((t / REFRESH_CLOCKS) % 2 != 0) << 4
                    | u8::from(state.counters[2].out(t)) << 5
            }
            _ => 0,
        }
    }

    fn write_byte(&mut self, t: i64, offset: u64, value: u8) {
        let state = &mut self.state;
        match offset {
            0..CONTROL_WORD => state.counters[offset as usize].write(t, value),
            CONTROL_WORD => match (value >> 6, value >> 4 & 3) {
                (3, _) => {
                    for (n, counter) in state.counters.iter_mut().enumerate() {
                        if value >> (n + 1) & 1 != 0 {
                            if value & 0x20 == 0 {
                                counter.latch_count(t);
                            }
                            if value & 0x10 == 0 {
                                counter.latch_status(t);
                            }
                        }
                    }
                }
                (n, 0) => state.counters[usize::from(n)].latch_count(t),
                (n, _) => state.counters[usize::from(n)].control(value),
            },
            PORT_61 => {
                state.port_61 = value & PORT_61_MASK;
                state.counters[2].set_gate(t, value & GATE_2 != 0);
            }
            _ => {}
        }
    }
}

impl Device for Pit {
    fn name(&self) -> &'static str {
        "8254"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        self.catch_up(cx);
        let t = tick(cx.now());
        let value = ports::read(offset, size, |offset| self.read_byte(t, offset));
        self.update(cx);
        value
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        self.catch_up(cx);
        let t = tick(cx.now());
        ports::write(offset, size, value, |offset, byte| {
            self.write_byte(t, offset, byte)
        });
        self.update(cx);
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.due
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        self.catch_up(cx);
        self.update(cx);
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
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            state.counters.iter().try_for_each(Counter::check)
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        let out = self.state.out;
        self.state = State::new();
        self.state.out = out;
        self.update(cx);
    }
}
