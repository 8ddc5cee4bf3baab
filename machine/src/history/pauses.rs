//! How long snapshots stop the guest.

use std::fmt;
use std::time::Duration;

use super::HostNow;

/// Of so many snapshots, the last ones, the times are kept.
const KEPT: usize = 1 << 16;

/// The times of a live recording.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    taken: Vec<HostNow>,
    next: usize,
}

impl Pauses {
    pub fn add(&mut self, start: HostNow, end: HostNow) {
        let pause = HostNow {
            wall: end.wall.saturating_sub(start.wall),
            cpu: end.cpu.saturating_sub(start.cpu),
        };
        if self.taken.len() < KEPT {
            self.taken.push(pause);
        } else {
            self.taken[self.next] = pause;
            self.next = (self.next + 1) % KEPT;
        }
    }

    pub fn figures(&self) -> Option<PauseFigures> {
        let sorted = |of: fn(&HostNow) -> u64| -> Option<PauseTimes> {
            let mut all: Vec<u64> = self.taken.iter().map(of).collect();
            all.sort_unstable();
            Some(PauseTimes {
                median: Duration::from_nanos(*all.get(all.len() / 2)?),
                p99: Duration::from_nanos(*all.get((all.len() * 99).div_ceil(100).checked_sub(1)?)?),
                longest: Duration::from_nanos(*all.last()?),
            })
        };
        Some(PauseFigures {
            count: self.taken.len(),
            wall: sorted(|pause| pause.wall)?,
            cpu: sorted(|pause| pause.cpu)?,
        })
    }
}

/// What snapshots took from the guest, but for those at power-on and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFigures {
    /// How many were taken.
    pub count: usize,
    /// Time that passed.
    pub wall: PauseTimes,
    /// Time that the guest's thread ran meanwhile: without what a busy host adds.
    pub cpu: PauseTimes,
}

/// Of many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseTimes {
    /// Half are no longer.
    pub median: Duration,
    /// All but a hundredth are no longer.
    pub p99: Duration,
    /// The longest.
    pub longest: Duration,
}

impl fmt::Display for PauseTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "median {:.3} ms, p99 {:.3} ms, at most {:.3} ms",
            ms(self.median),
            ms(self.p99),
            ms(self.longest)
        )
    }
}

impl fmt::Display for PauseFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, wall, cpu } = self;
        write!(
            f,
            "{count} snapshots stopped the guest: {wall}; its thread ran meanwhile: {cpu}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_pauses_the_99th_is_the_p99() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.figures(), None);
        let at = |wall, cpu| HostNow { wall, cpu };
        for n in (1..=100).rev() {
            pauses.add(at(1000, 500), at(1000 + n, 500 + 2 * n));
        }
        let figures = pauses.figures().unwrap();
        let ns = Duration::from_nanos;
        assert_eq!(figures.count, 100);
        assert_eq!((figures.wall.median, figures.wall.p99), (ns(51), ns(99)));
        assert_eq!(figures.cpu.longest, ns(200));
        // More than are kept: the last ones count.
        for _ in 0..KEPT {
            pauses.add(at(0, 0), at(7, 7));
        }
        assert_eq!(pauses.figures().unwrap().wall.longest, ns(7));
    }
}
