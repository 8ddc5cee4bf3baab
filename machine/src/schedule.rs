//! Whose turn it is: harts take turns in slices of steps (DESIGN section 4). The lengths come from the
//! configuration and, with a schedule seed, from a generator that is part of the machine's state.

use serde::{Deserialize, Serialize};

/// The least length of a slice.
pub const LEAST_SLICE: u64 = 1_000;
/// The length unless told otherwise.
pub const DEFAULT_SLICE: u64 = 50_000;

/// The state of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    slice: u64,
    /// State of a SplitMix64 generator; without a seed all slices are equal.
    random: Option<u64>,
    left: u64,
}

impl Schedule {
    /// Slices of `slice` steps (at least [`LEAST_SLICE`]), or, with a seed, of random lengths between the least and twice that.
    pub fn new(slice: u64, seed: Option<u64>) -> Schedule {
        let mut schedule = Schedule {
            slice: slice.max(LEAST_SLICE),
            random: seed,
            left: 0,
        };
        schedule.begin_slice();
        schedule
    }

    /// Steps left of the slice.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether the slice is used up.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The hart made `steps` steps.
    pub fn used(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Begins the next slice.
    pub fn begin_slice(&mut self) {
        self.left = match &mut self.random {
            None => self.slice,
            Some(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^= z >> 31;
                LEAST_SLICE + z % (2 * self.slice - LEAST_SLICE + 1)
            }
        };
    }
}
