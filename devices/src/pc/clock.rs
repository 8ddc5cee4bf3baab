//! Oscillators: ticks of a fixed frequency counted from virtual time 0, in integers, so that nothing drifts.

use icount::VirtualTime;

const NS_PER_SECOND: u128 = 1_000_000_000;

/// An oscillator of this many ticks a second; at most 10⁹.
#[derive(Clone, Copy)]
pub(super) struct Oscillator(pub u32);

impl Oscillator {
    /// Whole ticks at `ns` nanoseconds; below 2^64 as the frequency is at most 10⁹.
    pub fn ticks(self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.0) / NS_PER_SECOND) as u64
    }

    /// The first nanosecond at which [`Oscillator::ticks`] is `tick`, if virtual time gets there.
    pub fn at(self, tick: u64) -> Option<VirtualTime> {
        let ns = (u128::from(tick) * NS_PER_SECOND).div_ceil(u128::from(self.0));
        u64::try_from(ns).ok().map(VirtualTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_begins_at_its_first_nanosecond() {
        for frequency in [32_768, 1_193_182, 3_579_545, 1_000_000_000] {
            let oscillator = Oscillator(frequency);
            for tick in [1, 2, 3, 1000, 65_535, 1_193_183, 1 << 40] {
                let at = oscillator.at(tick).unwrap().0;
                assert_eq!((oscillator.ticks(at - 1), oscillator.ticks(at)), (tick - 1, tick));
            }
            assert_eq!(oscillator.ticks(u64::MAX / 1000 * 1000), {
                (u128::from(u64::MAX / 1000 * 1000) * u128::from(frequency) / NS_PER_SECOND) as u64
            });
        }
        assert_eq!(Oscillator(32_768).at(u64::MAX), None);
        // A day of the 8254 has no drift at all.
        assert_eq!(
            Oscillator(1_193_182).ticks(86_400_000_000_000),
            86_400 * 1_193_182
        );
    }
}
