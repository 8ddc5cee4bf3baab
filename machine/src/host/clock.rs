//! The host's clock, as far as tickback itself needs it. No value from here reaches a guest, except the
//! date at power-on, which is part of the machine's configuration.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history::HostNow;

/// The host's date: seconds since 1970 (UTC). Becomes an input when it is put into a machine's
/// configuration.
#[must_use]
pub fn date() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Says when a period of host time has passed, for what is done "about once a second".
#[derive(Debug)]
pub struct Tick {
    period: Duration,
    last: Instant,
}

impl Tick {
    /// The first tick comes one period from now.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self {
            period,
            last: Instant::now(),
        }
    }

    /// Whether a period has passed since this last said so.
    pub fn due(&mut self) -> bool {
        self.due_at(Instant::now())
    }

    /// Whether a period has passed; asking changes nothing.
    pub(crate) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.period
    }

    /// The next tick comes one period from now.
    pub(crate) fn restart(&mut self) {
        self.last = Instant::now();
    }

    fn due_at(&mut self, now: Instant) -> bool {
        let due = now.duration_since(self.last) >= self.period;
        if due {
            self.last = now;
        }
        due
    }
}

impl Default for Tick {
    /// Once a second.
    fn default() -> Self {
        Self::new(Duration::from_secs(1))
    }
}

/// Host time since some moment, for figures shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Host time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The host's clocks, for a recording.
    #[must_use]
    pub fn now(&self) -> HostNow {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        HostNow {
            wall: u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX),
            cpu: (cpu.tv_sec as u64).saturating_mul(1_000_000_000) + cpu.tv_nsec as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_comes_once_a_period() {
        let mut tick = Tick::new(Duration::from_millis(20));
        let start = tick.last;
        let due = [0, 19, 25, 26, 44, 45, 100, 119].map(|ms| tick.due_at(start + Duration::from_millis(ms)));
        assert_eq!(due, [false, false, true, false, false, true, true, false]);
        let mut tick = Tick::new(Duration::ZERO);
        assert!(tick.due());
    }

    #[test]
    fn the_date_is_of_this_century() {
        assert!(date() > 1_700_000_000);
    }
}
