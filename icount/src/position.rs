//! Where a run stands: the step counter and the virtual clock computed from it.
//!
//! Integers only, and saturating where they could overflow, so that a position computed from
//! hostile guest values (a timer set to the far end of time) is the same everywhere.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

macro_rules! counter {
    ($name:ident) => {
        impl $name {
            /// The start of a run.
            pub const ZERO: Self = Self(0);
            /// The last one that can be named; what saturating arithmetic stops at.
            pub const MAX: Self = Self(u64::MAX);

            /// `self + n`, or `None` if that can't be named.
            #[must_use]
            pub const fn checked_add(self, n: u64) -> Option<Self> {
                match self.0.checked_add(n) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// `self - n`, or `None` if that is before the start of the run.
            #[must_use]
            pub const fn checked_sub(self, n: u64) -> Option<Self> {
                match self.0.checked_sub(n) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// `self + n`, at most [`Self::MAX`].
            #[must_use]
            pub const fn saturating_add(self, n: u64) -> Self {
                Self(self.0.saturating_add(n))
            }

            /// `self - n`, at least [`Self::ZERO`].
            #[must_use]
            pub const fn saturating_sub(self, n: u64) -> Self {
                Self(self.0.saturating_sub(n))
            }

            /// How far `self` is past `earlier`; 0 if it is not.
            #[must_use]
            pub const fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

/// The number of steps that the whole machine has made since power-on. Dense: every value up to
/// the end of a run names a boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Icount(pub u64);

/// Virtual time in nanoseconds since power-on: the only clock that a guest can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VirtualTime(pub u64);

counter!(Icount);
counter!(VirtualTime);

impl fmt::Display for Icount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for VirtualTime {
    /// Seconds with nine decimals: `1.000000250s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The rule that maps positions to virtual time: `icount × ns_per_step + idle_skipped`.
///
/// It is part of the machine's state and goes into snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Virtual nanoseconds that one step takes; fixed for a run.
    pub ns_per_step: NonZeroU64,
    /// Virtual nanoseconds that passed while every hart waited.
    pub idle_skipped: u64,
}

impl Default for Clock {
    /// One nanosecond a step, nothing skipped.
    fn default() -> Self {
        Self::new(NonZeroU64::MIN)
    }
}

impl Clock {
    /// The clock at power-on.
    #[must_use]
    pub const fn new(ns_per_step: NonZeroU64) -> Self {
        Self {
            ns_per_step,
            idle_skipped: 0,
        }
    }

    /// The virtual time of boundary `at` (saturating).
    #[must_use]
    pub const fn now(&self, at: Icount) -> VirtualTime {
        VirtualTime(
            at.0.saturating_mul(self.ns_per_step.get())
                .saturating_add(self.idle_skipped),
        )
    }

    /// The first boundary whose virtual time is at or past `time`, if no idle time is skipped
    /// before it. May lie in the past.
    #[must_use]
    pub const fn due(&self, time: VirtualTime) -> Icount {
        Icount(
            time.0
                .saturating_sub(self.idle_skipped)
                .div_ceil(self.ns_per_step.get()),
        )
    }

    /// Lets idle time pass at boundary `at` until it is `time`; nothing if that has passed.
    pub const fn skip_to(&mut self, at: Icount, time: VirtualTime) {
        let gap = time.since(self.now(at));
        self.idle_skipped = self.idle_skipped.saturating_add(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn due_is_the_first_boundary_at_or_past(ns in 1u64..1000, idle in 0u64..1 << 40, time in 0u64..1 << 50) {
            let clock = Clock { ns_per_step: NonZeroU64::new(ns).unwrap(), idle_skipped: idle };
            let due = clock.due(VirtualTime(time));
            prop_assert!(clock.now(due).0 >= time);
            if let Some(before) = due.checked_sub(1) {
                prop_assert!(clock.now(before).0 < time);
            }
        }

        #[test]
        fn skipping_arrives_and_never_goes_back(at in 0u64..1 << 40, steps in any::<[u32; 4]>()) {
            let mut clock = Clock::default();
            for step in steps {
                let before = clock.now(Icount(at));
                let to = VirtualTime(at + u64::from(step));
                clock.skip_to(Icount(at), to);
                prop_assert_eq!(clock.now(Icount(at)), before.max(to));
            }
        }
    }

    #[test]
    fn the_far_end_of_time_saturates() {
        let mut clock = Clock::new(NonZeroU64::new(10).unwrap());
        assert_eq!(clock.now(Icount::MAX), VirtualTime::MAX);
        assert_eq!(clock.due(VirtualTime::MAX), Icount(u64::MAX.div_ceil(10)));
        clock.skip_to(Icount(1), VirtualTime::MAX);
        assert_eq!(clock.now(Icount(1)), VirtualTime::MAX);
        assert_eq!(VirtualTime(1_000_000_250).to_string(), "1.000000250s");
    }
}
