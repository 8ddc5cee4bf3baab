//! Whole-machine tests: that one state belongs to one position of a run, however it is reached.
//!
//! ```text
//!   subject.rs   a guest with its machine and what is typed   echo.rs    a guest that answers the console
//!   ways.rs      ways to run through positions                debian.rs  Debian's kernel as a subject
//!   recorded.rs  recordings of subjects, seeks in them        load.rs    a host that is busy
//!   semihosting.rs  a guest that asks a host        faults.rs  recordings to which something happens
//!   fuzz/        what hostile bytes are fed to
//! ```
//!
//! The tests are in `tests/whole`; what takes longer than CI allows is `--bin campaign`. docs/testing.md
//! says what is tested against what.
#![forbid(unsafe_code)]
// Host clocks are for figures and for when to kill a process here; nothing of them reaches a machine.
#![allow(clippy::disallowed_methods)]

pub mod debian;
pub mod echo;
pub mod faults;
pub mod fuzz;
pub mod load;
pub mod recorded;
pub mod semihosting;
pub mod subject;
pub mod ways;

/// A SplitMix64 generator: positions and lengths that look random and are the same every time.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `limit` (0 if that is 0).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number().checked_rem(limit).unwrap_or(0)
    }

    /// `count` different positions in `1..=end`, ascending (fewer, if there aren't so many).
    pub fn places(&mut self, count: usize, end: u64) -> Vec<u64> {
        let mut places = std::collections::BTreeSet::new();
        while (places.len() as u64) < (count as u64).min(end) {
            places.insert(1 + self.below(end));
        }
        places.into_iter().collect()
    }
}
