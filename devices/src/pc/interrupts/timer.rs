//! A local APIC's timer. Its input is 1 GHz: one tick a nanosecond of virtual time, before the divider. TSC-deadline
//! mode takes the TSC to be virtual nanoseconds too.
//!
//! The count isn't counted down: it follows from when it was written. What depends on the mode, which is the LVT's, is handed it.
//!
//! Source: SDM 3A 11.5.4.

use serde::{Deserialize, Serialize};

use super::registers::TIMER_MODE;
use crate::VirtualTime;

/// Bits 18 and 17 of the LVT's timer entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    OneShot,
    Periodic,
    TscDeadline,
    /// Reserved; like one-shot here.
    Reserved,
}

impl Mode {
    /// The mode of the LVT's timer entry.
    pub fn of(entry: u32) -> Self {
        match (entry & TIMER_MODE) >> 17 {
            0 => Mode::OneShot,
            1 => Mode::Periodic,
            2 => Mode::TscDeadline,
            _ => Mode::Reserved,
        }
    }
}

/// The timer's counts.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Timer {
    initial_count: u32,
    divide: u32,
    /// It counts down from this...
    from: u32,
    /// ... since this time.
    since: VirtualTime,
    tsc_deadline: u64,
}

impl Default for Timer {
    fn default() -> Self {
        Timer {
            initial_count: 0,
            divide: 0,
            from: 0,
            since: VirtualTime(0),
            tsc_deadline: 0,
        }
    }
}

impl Timer {
    /// The initial count register.
    pub fn initial_count(&self) -> u32 {
        self.initial_count
    }

    /// The divide configuration register.
    pub fn divide(&self) -> u32 {
        self.divide
    }

    fn divisor(&self) -> u64 {
        // Bits 0, 1 and 3: 2, 4, ... 128, and then 1.
        let code = self.divide & 3 | self.divide >> 1 & 4;
        if code == 7 { 1 } else { 2 << code }
    }

    /// The current count register.
    pub fn current_count(&self, now: VirtualTime, mode: Mode) -> u32 {
        if mode == Mode::TscDeadline {
            return 0;
        }
        let ticks = now.0.saturating_sub(self.since.0) / self.divisor();
        let from = u64::from(self.from);
        let count = if ticks < from {
            from - ticks
        } else if mode == Mode::Periodic && from != 0 && self.initial_count != 0 {
            let initial = u64::from(self.initial_count);
            initial - (ticks - from) % initial
        } else {
            0
        };
        count as u32
    }

    /// Goes on from what it holds, under settings that are about to change.
    fn rebase(&mut self, now: VirtualTime, mode: Mode) {
        self.from = self.current_count(now, mode);
        self.since = now;
    }

    /// Writes the initial count, and starts; ignored in TSC-deadline mode.
    pub fn start(&mut self, now: VirtualTime, mode: Mode, count: u32) {
        if mode != Mode::TscDeadline {
            self.initial_count = count;
            self.from = count;
            self.since = now;
        }
    }

    /// Writes the divide configuration.
    pub fn set_divide(&mut self, now: VirtualTime, mode: Mode, value: u32) {
        self.rebase(now, mode);
        self.divide = value;
    }

    /// The mode changes. Into or out of TSC-deadline mode, that disarms.
    pub fn change_mode(&mut self, now: VirtualTime, old: Mode, new: Mode) {
        if old == new {
            return;
        }
        self.rebase(now, old);
        if old == Mode::TscDeadline || new == Mode::TscDeadline {
            self.initial_count = 0;
            self.from = 0;
            self.tsc_deadline = 0;
        }
    }

    /// IA32_TSC_DEADLINE, 0 if it isn't armed.
    pub fn tsc_deadline(&self, now: VirtualTime) -> u64 {
        if self.tsc_deadline > now.0 {
            self.tsc_deadline
        } else {
            0
        }
    }

    /// Writes IA32_TSC_DEADLINE in its mode; whether it expires at once.
    pub fn set_tsc_deadline(&mut self, now: VirtualTime, value: u64) -> bool {
        let past = value != 0 && value <= now.0;
        self.tsc_deadline = if past { 0 } else { value };
        past
    }

    /// When it next expires after `now`.
    pub fn expiry(&self, now: VirtualTime, mode: Mode) -> Option<VirtualTime> {
        if mode == Mode::TscDeadline {
            return Some(VirtualTime(self.tsc_deadline)).filter(|&at| at > now);
        }
        if self.from == 0 {
            return None;
        }
        let first = self.since.checked_add(u64::from(self.from) * self.divisor())?;
        if first > now {
            return Some(first);
        }
        let period = u64::from(self.initial_count) * self.divisor();
        if mode != Mode::Periodic || period == 0 {
            return None;
        }
        let periods = (now.0 - first.0) / period + 1;
        first.checked_add(periods.checked_mul(period)?)
    }
}
