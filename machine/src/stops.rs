//! Stop conditions of a run: breakpoints, watchpoints, and steps of one hart.
//!
//! They belong to whoever calls `run`, never to the machine's state. A condition *hits at N* if it holds for
//! step N+1. A run either stops at the first hit, before the step, or (a scan) goes on and remembers the
//! last hit, which is what searching backwards is made of.

use icount::Icount;

use crate::memory::{Memory, Watch};

/// What to stop for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Virtual addresses at which to stop before an instruction begins.
    pub breakpoints: Vec<u64>,
    /// Physical ranges whose access to stop for.
    pub watches: Vec<Watch>,
    /// Stop before each step of this hart.
    pub hart: Option<u8>,
}

/// A hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The instruction at this address is about to begin.
    Breakpoint {
        /// Virtual address.
        addr: u64,
        /// The hart.
        hart: u8,
    },
    /// The next step makes an access.
    Watch {
        /// Index in [`Stops::watches`].
        index: usize,
        /// Physical address of the access.
        addr: u64,
        /// Length of the access in bytes.
        len: u64,
        /// Whether it writes.
        write: bool,
        /// The hart whose turn it is.
        hart: u8,
    },
    /// The hart asked for is about to make a step.
    Hart(u8),
}

impl Stop {
    /// The hart whose turn it is.
    pub fn hart(&self) -> u8 {
        match self {
            Stop::Breakpoint { hart, .. } | Stop::Watch { hart, .. } | Stop::Hart(hart) => *hart,
        }
    }
}

/// The stop conditions of the run that is under way, and what they found.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    /// Sorted.
    pub breakpoints: Vec<u64>,
    pub hart: Option<u8>,
    /// Go on after a hit and remember the last one.
    pub scan: bool,
    /// A position at which hits don't count, since the run starts from there.
    pub skip: Option<Icount>,
    /// The hit that stops the run.
    pub hit: Option<Stop>,
    pub last: Option<(Icount, Stop)>,
    pub count: u64,
}

impl Watching {
    /// Starts a run.
    pub fn begin(&mut self, stops: &Stops, scan: bool, skip: Option<Icount>) {
        let mut breakpoints = stops.breakpoints.clone();
        breakpoints.sort_unstable();
        breakpoints.dedup();
        *self = Watching {
            breakpoints,
            hart: stops.hart,
            scan,
            skip,
            hit: None,
            last: None,
            count: 0,
        };
    }

    /// A condition holds for the step after `at`: whether to stop.
    pub fn found(&mut self, at: Icount, stop: Stop) -> bool {
        if self.scan {
            if self.last.is_none_or(|(last, _)| last != at) {
                self.count += 1;
            }
            self.last = Some((at, stop));
            return false;
        }
        if self.skip == Some(at) {
            return false;
        }
        self.hit.get_or_insert(stop);
        true
    }

    /// An access is about to be made: whether to stop before it.
    pub fn access(
        &mut self,
        memory: &Memory,
        at: Icount,
        hart: u8,
        addr: u64,
        len: u64,
        write: bool,
    ) -> bool {
        if !memory.has_watches() {
            return false;
        }
        match memory.watched(addr, len, write) {
            Some(index) => self.found(
                at,
                Stop::Watch {
                    index,
                    addr,
                    len,
                    write,
                    hart,
                },
            ),
            None => false,
        }
    }
}
