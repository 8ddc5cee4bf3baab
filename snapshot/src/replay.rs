//! What a timeline needs of a machine.
//!
//! The words of a search: a stop condition *holds for step N+1* (a breakpoint: the step begins executing the instruction at its
//! address; a watchpoint: the step makes the access; a hart: the step is made by it), and then it *hits at N*:
//! the machine stops at boundary N, before the step. A run from P to Q examines the steps P+1..=Q, so
//! that its hits lie in P..Q, and adjoining runs examine each step once.

use icount::Icount;

/// Whether a condition that holds for the very first step of a run stops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStep {
    /// It does, and the run makes no step.
    Counts,
    /// It doesn't: the run leaves from a place where it stopped before.
    Skipped,
}

/// How a [`Replay::run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran<S> {
    /// At the position asked for.
    Reached,
    /// A condition holds for the next step; the machine stands before it.
    Hit(S),
    /// There's no next step: the recording or the guest ends here.
    End,
    /// The user pressed Ctrl-C; the machine stands at some boundary on the way.
    Interrupted,
}

/// How a [`Replay::scan`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan<S> {
    /// At the position asked for.
    Done {
        /// The last hit, and where.
        last: Option<(Icount, S)>,
        /// How many hits there were.
        count: u64,
    },
    /// The user pressed Ctrl-C; the machine stands at some boundary on the way.
    Interrupted,
}

/// A machine that can be brought to the positions of its history.
///
/// Law 1 is assumed throughout: state at N does not depend on how N was reached.
pub trait Replay {
    /// A snapshot in memory; cheap, sharing the pages that didn't change.
    type Saved: Clone;
    /// What a hit is: which breakpoint or watchpoint, with its data.
    type Stop: Clone;
    /// The stop conditions of a run; the default has none, and then no run ends in a hit.
    type Stops: Default;
    /// What the machine's operations fail with.
    type Error: std::error::Error;

    /// Where the machine stands.
    fn position(&self) -> Icount;

    /// The first position of its history.
    fn begin(&self) -> Icount;

    /// The last position of its history so far. A live run's grows as it runs on from there.
    fn end(&self) -> Icount;

    /// Saves the state here. Observes only.
    fn save(&mut self) -> Result<Self::Saved, Self::Error>;

    /// About how many bytes of memory `saved` holds that earlier ones don't.
    fn saved_size(saved: &Self::Saved) -> usize;

    /// Brings the machine to a saved state, in time proportional to the difference.
    fn restore(&mut self, saved: &Self::Saved) -> Result<(), Self::Error>;

    /// The latest snapshot on disk at or below `at`. [`begin`](Self::begin) counts as one; no other answer is below it.
    fn anchor(&self, at: Icount) -> Icount;

    /// Brings the machine to a position that [`anchor`](Self::anchor) named.
    fn restore_anchor(&mut self, at: Icount) -> Result<(), Self::Error>;

    /// Runs to `until`, or to the first hit. `until` is above the position.
    fn run(
        &mut self,
        until: Icount,
        stops: &Self::Stops,
        first: FirstStep,
    ) -> Result<Ran<Self::Stop>, Self::Error>;

    /// Runs to `until` without stopping, and tells the last hit in position..`until`. Searches are made of this, so a
    /// machine that can count hits without leaving its fast path should do better than this default.
    fn scan(&mut self, until: Icount, stops: &Self::Stops) -> Result<Scan<Self::Stop>, Self::Error> {
        let (mut last, mut count) = (None, 0);
        let mut first = FirstStep::Counts;
        while self.position() < until {
            match self.run(until, stops, first)? {
                Ran::Hit(stop) => {
                    last = Some((self.position(), stop));
                    count += 1;
                    first = FirstStep::Skipped;
                }
                Ran::Reached | Ran::End => break,
                Ran::Interrupted => return Ok(Scan::Interrupted),
            }
        }
        Ok(Scan::Done { last, count })
    }

    /// Asked between slices of work: whether the user pressed Ctrl-C since it was last asked.
    fn interrupted(&mut self) -> bool;
}
