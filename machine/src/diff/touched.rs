//! The first touch of bytes that differ at the beginning.
//!
//! Machines that differ in some bytes of memory and in nothing else go on to differ in nothing else until one of those bytes
//! is read or written. So one of them runs at full speed, with watchpoints on the bytes; at a hit the
//! other is brought there too, and the step that makes the access is compared. Nothing in between needs to be compared, and no difference that
//! vanishes again is missed. Reads that watchpoints don't see (fetching an instruction, a page walk) are told by
//! [`Memory::take_unwatched`](crate::memory::Memory::take_unwatched): from before such a one the search goes on in chunks.

use icount::Icount;
use snapshot::Replay;

use super::search::{Found, Search, TELL, run, seek};
use super::state::{differences, differing_bytes};
use super::{Failed, blame};
use crate::error::MachineError;
use crate::machine::{FirstStep, Stopped};
use crate::memory::Watch;
use crate::stops::Stops;

/// Steps between looks at whether a byte was read unwatched.
const CHUNK: u64 = 1 << 24;
/// Stretches of bytes that are watched: each access to their pages is compared with all.
const MOST_STRETCHES: usize = 64;
/// Touches that change nothing (both sides write the same) after which the search goes on in chunks.
const MOST_TOUCHES: u32 = 256;

/// What became of the search.
pub(crate) enum Touched {
    /// The step differs.
    Step(Found),
    /// No step before this boundary does. Both stand there.
    NoneBefore(Icount),
}

impl Search<'_> {
    /// Both stand at `start`, the first position, where they differ in what is known, and have not run since they were opened. The
    /// events of both are equal up to `until`.
    pub fn first_touch(
        &mut self,
        start: Icount,
        until: Icount,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Touched, Failed> {
        let Some(watches) = self.only_bytes()? else {
            return Ok(Touched::NoneBefore(start));
        };
        let stops = Stops {
            watches,
            ..Stops::default()
        };
        let (mut low, mut told, mut touches) = (start, start, 0);
        while low < until && touches < MOST_TOUCHES {
            if low.since(told) >= TELL {
                told = low;
                progress(&format!("running the first, at icount {low}"));
            }
            let high = until.min(low.saturating_add(CHUNK));
            let path = self.paths[0];
            let machine = self.sides[0].machine_mut();
            let stopped = machine
                .run(high, &stops, FirstStep::Counts)
                .map_err(blame(path))?;
            let hit = matches!(stopped, Stopped::Hit(_));
            let next = if hit {
                let next = machine.icount().saturating_add(1);
                machine
                    .run(next, &stops, FirstStep::Skipped)
                    .map_err(blame(path))?;
                next
            } else {
                high
            };
            if stopped == Stopped::Interrupted {
                return Err(blame(path)(MachineError::Interrupted));
            }
            if machine.sys.memory.take_unwatched() || machine.icount() != next {
                break;
            }
            if hit {
                touches += 1;
                let [_, other] = &mut self.sides;
                catch_up(other, next).map_err(blame(self.paths[1]))?;
                if self.differ()? {
                    let at = Icount(next.0 - 1);
                    return Ok(Touched::Step(Found {
                        at,
                        exact_from: start,
                    }));
                }
            }
            low = next;
        }
        self.both(|side| seek(side, low))?;
        Ok(Touched::NoneBefore(low))
    }

    /// The bytes in which both differ, if that is all and they are few.
    fn only_bytes(&mut self) -> Result<Option<Vec<Watch>>, Failed> {
        let [a, b] = &mut self.sides;
        let (a, b) = (a.machine_mut(), b.machine_mut());
        let failed = blame(self.paths[0]);
        let mut compare = || -> Result<_, MachineError> {
            if !differences(a, b, &self.known)?.is_empty() {
                return Ok(None);
            }
            differing_bytes(a, b, MOST_STRETCHES)
        };
        let stretches = compare().map_err(failed)?;
        Ok(stretches.map(|stretches| {
            let watch = |stretch: std::ops::Range<u64>| Watch {
                addr: stretch.start,
                len: stretch.end - stretch.start,
                read: true,
                write: true,
            };
            stretches.into_iter().map(watch).collect()
        }))
    }
}

/// Brings a replay on to a position, by a snapshot if one is nearer.
fn catch_up(side: &mut crate::history::History, at: Icount) -> Result<(), MachineError> {
    if side.anchor(at) > side.position() {
        seek(side, at)
    } else {
        run(side, at)
    }
}
