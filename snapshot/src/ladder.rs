//! The in-memory snapshots that a timeline leaves behind, within a bound of memory.
//!
//! The least recently used rung goes first. Losing one costs time only: any position can be reached from the snapshots on
//! disk.

use std::collections::BTreeMap;

use icount::Icount;

/// Distances behind a landing at which rungs are left, farthest first. Consecutive steps back use up 10^3 steps, then a
/// rung of the next distance leaves new ones, so that a step re-runs about 10^3 steps on average.
const DISTANCES: [u64; 9] = [
    10_000_000, 3_000_000, 1_000_000, 300_000, 100_000, 30_000, 10_000, 3_000, 1_000,
];

/// The most rungs, whatever they say about their size.
const MAX_RUNGS: usize = 4096;

struct Rung<S> {
    saved: S,
    bytes: usize,
    used: u64,
}

pub(crate) struct Ladder<S> {
    rungs: BTreeMap<Icount, Rung<S>>,
    bytes: usize,
    budget: usize,
    clock: u64,
}

impl<S> Ladder<S> {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            rungs: BTreeMap::new(),
            bytes: 0,
            budget,
            clock: 0,
        }
    }

    pub(crate) fn insert(&mut self, at: Icount, saved: S, bytes: usize) {
        self.remove(at);
        self.clock += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.rungs.insert(
            at,
            Rung {
                saved,
                bytes,
                used: self.clock,
            },
        );
        while self.rungs.len() > 1 && (self.bytes > self.budget || self.rungs.len() > MAX_RUNGS) {
            let Some(oldest) = self.rungs.iter().min_by_key(|r| r.1.used).map(|r| *r.0) else {
                break;
            };
            self.remove(oldest);
        }
    }

    pub(crate) fn remove(&mut self, at: Icount) {
        if let Some(rung) = self.rungs.remove(&at) {
            self.bytes = self.bytes.saturating_sub(rung.bytes);
        }
    }

    /// Drops the rungs at `at` and later.
    pub(crate) fn truncate(&mut self, at: Icount) {
        for rung in self.rungs.split_off(&at).into_values() {
            self.bytes = self.bytes.saturating_sub(rung.bytes);
        }
    }

    pub(crate) fn contains(&self, at: Icount) -> bool {
        self.rungs.contains_key(&at)
    }

    /// The rung at `at`, which counts as used now.
    pub(crate) fn at(&mut self, at: Icount) -> Option<&S> {
        self.clock += 1;
        let rung = self.rungs.get_mut(&at)?;
        rung.used = self.clock;
        Some(&rung.saved)
    }

    /// The latest rung at or below `at`.
    pub(crate) fn below(&self, at: Icount) -> Option<Icount> {
        self.rungs.range(..=at).next_back().map(|r| *r.0)
    }

    /// Where a run from `start` that will land at `end` should leave rungs, ascending: distances that have a
    /// rung about there already are left out.
    pub(crate) fn wanted(&self, start: Icount, end: Icount) -> Vec<Icount> {
        let far = DISTANCES.iter().filter(|d| end.since(start) > **d);
        far.filter(|d| {
            let near = end.saturating_sub(**d + **d / 2)..=end.saturating_sub(**d / 2);
            self.rungs.range(near).next().is_none()
        })
        .map(|d| end.saturating_sub(*d))
        .collect()
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = Icount> + '_ {
        self.rungs.keys().copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_least_used_goes_first() {
        let mut ladder = Ladder::new(30);
        for at in 0..3 {
            ladder.insert(Icount(at), at, 10);
        }
        assert_eq!(ladder.at(Icount(0)), Some(&0));
        ladder.insert(Icount(9), 9, 10);
        assert_eq!(
            ladder.positions().collect::<Vec<_>>(),
            [Icount(0), Icount(2), Icount(9)]
        );
        ladder.insert(Icount(10), 10, 1000);
        assert_eq!(ladder.positions().collect::<Vec<_>>(), [Icount(10)]);
        ladder.truncate(Icount(10));
        assert_eq!(ladder.bytes(), 0);
    }

    #[test]
    fn rungs_are_wanted_where_none_are_near() {
        let mut ladder = Ladder::new(1000);
        assert_eq!(ladder.wanted(Icount(0), Icount(1000)), []);
        assert_eq!(
            ladder.wanted(Icount(0), Icount(5000)),
            [Icount(2000), Icount(4000)]
        );
        ladder.insert(Icount(4100), (), 1);
        assert_eq!(ladder.wanted(Icount(0), Icount(5000)), [Icount(2000)]);
    }
}
