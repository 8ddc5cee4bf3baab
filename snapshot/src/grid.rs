//! Where snapshots stand, and which old ones may go.
//!
//! Snapshots stand on a grid of 2^k steps, so that two recordings share positions whatever their k: a coarser grid's
//! positions are a finer one's too. Adapting chooses k from measurements that the caller hands in (this crate reads no clock): overhead first, then
//! size, then replay time. The choice never reaches the guest.

use icount::Icount;

use crate::checkpoint::CheckpointInfo;

/// The k that adapting starts with.
pub const START: u32 = 24;
/// The finest and coarsest grids that adapting chooses.
pub const FINEST: u32 = 20;
/// See [`FINEST`].
pub const COARSEST: u32 = 34;

/// What adapting aims at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goals {
    /// The most that snapshots may add to the run's time: 0.05 is a twentieth.
    pub overhead: f64,
    /// The most bytes that snapshots may take a second of running.
    pub bytes_per_second: f64,
    /// The time that replaying from one snapshot to the next may take, in seconds.
    pub replay_seconds: f64,
}

impl Default for Goals {
    fn default() -> Self {
        Self {
            overhead: 0.05,
            bytes_per_second: 16e6,
            replay_seconds: 0.25,
        }
    }
}

/// What the run up to a snapshot, and the snapshot, cost; measured by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Steps since the last snapshot.
    pub steps: u64,
    /// Host time of running them, without what follows, in nanoseconds.
    pub run_ns: u64,
    /// Host time that snapshots took from the guest: taking them, copying pages, waiting for the disk.
    pub snapshot_ns: u64,
    /// Bytes that were added to the recording's files.
    pub bytes: u64,
}

/// The grid of snapshots.
#[derive(Debug, Clone)]
pub struct Grid {
    k: u32,
    adapt: Option<(Goals, Window)>,
}

/// Costs summed since k last changed.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    snapshots: u32,
    steps: f64,
    run_ns: f64,
    snapshot_ns: f64,
    bytes: f64,
}

/// Snapshots that a decision rests on.
const WINDOW: u32 = 4;

impl Grid {
    /// A grid of 2^`k` steps (`k` at most 62).
    pub fn fixed(k: u32) -> Self {
        Self {
            k: k.min(62),
            adapt: None,
        }
    }

    /// A grid that adapts.
    pub fn adaptive(goals: Goals) -> Self {
        Self {
            k: START,
            adapt: Some((goals, Window::default())),
        }
    }

    /// The exponent in force.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The first position above `at` for a snapshot.
    pub fn next_after(&self, at: Icount) -> Icount {
        Icount((at.0 >> self.k).saturating_add(1).saturating_mul(1 << self.k))
    }

    /// Takes the cost of a snapshot into account.
    pub fn observe(&mut self, cost: Cost) {
        let Some((goals, window)) = &mut self.adapt else {
            return;
        };
        window.snapshots += 1;
        window.steps += cost.steps as f64;
        window.run_ns += cost.run_ns as f64;
        window.snapshot_ns += cost.snapshot_ns as f64;
        window.bytes += cost.bytes as f64;
        if window.snapshots < WINDOW || window.run_ns <= 0.0 {
            return;
        }
        let overhead = window.snapshot_ns / window.run_ns;
        let rate = window.bytes / (window.run_ns * 1e-9);
        let replay = (1u64 << self.k) as f64 / window.steps.max(1.0) * window.run_ns * 1e-9;
        // A finer grid costs at most twice as much; only a margin beyond that keeps k from swinging.
        let room = overhead < goals.overhead * 0.4 && rate < goals.bytes_per_second * 0.4;
        if (overhead > goals.overhead || rate > goals.bytes_per_second) && self.k < COARSEST {
            self.k += 1;
        } else if replay > goals.replay_seconds && room && self.k > FINEST {
            self.k -= 1;
        } else {
            // Halve, so that the past fades.
            window.snapshots /= 2;
            for sum in [
                &mut window.steps,
                &mut window.run_ns,
                &mut window.snapshot_ns,
                &mut window.bytes,
            ] {
                *sum /= 2.0;
            }
            return;
        }
        *window = Window::default();
    }
}

/// Which checkpoints to drop so that they thin out geometrically with age: `per_octave` or so stay of each doubling
/// of the distance to `now`. The first, the last, and those to keep stay; so any position can still be reached.
pub fn thin(list: &[CheckpointInfo], now: Icount, per_octave: u32) -> Vec<Icount> {
    let mut drop = Vec::new();
    let mut last: Option<Icount> = None;
    for (i, checkpoint) in list.iter().enumerate() {
        let age = now.since(checkpoint.at);
        let gap = last.map_or(u64::MAX, |l| checkpoint.at.since(l));
        // Of an octave's age/2 steps, one in each `per_octave`-th part.
        let crowded = gap < age / 2 / u64::from(per_octave.max(1));
        if i > 0 && i + 1 < list.len() && !checkpoint.keep && crowded {
            drop.push(checkpoint.at);
        } else {
            last = Some(checkpoint.at);
        }
    }
    drop
}

#[cfg(test)]
mod tests {
    use icount::VirtualTime;

    use super::*;
    use crate::page::Root;

    #[test]
    fn positions_are_shared_between_grids() {
        let (fine, coarse) = (Grid::fixed(4), Grid::fixed(6));
        assert_eq!(fine.next_after(Icount(0)), Icount(16));
        assert_eq!(fine.next_after(Icount(16)), Icount(32));
        assert_eq!(coarse.next_after(Icount(63)), Icount(64));
        assert_eq!(fine.next_after(Icount(63)), Icount(64));
        assert_eq!(Grid::fixed(62).next_after(Icount(u64::MAX)), Icount(u64::MAX));
    }

    fn settle(bytes_a_step: f64, snapshot_ns: u64, ns_a_step: f64) -> u32 {
        let mut grid = Grid::adaptive(Goals::default());
        let mut ks = Vec::new();
        for _ in 0..400 {
            let steps = 1u64 << grid.k();
            let run_ns = (steps as f64 * ns_a_step) as u64;
            let bytes = (steps as f64 * bytes_a_step) as u64;
            grid.observe(Cost {
                steps,
                run_ns,
                snapshot_ns,
                bytes,
            });
            ks.push(grid.k());
        }
        let tail = &ks[300..];
        assert!(tail.iter().all(|k| *k == tail[0]), "k swings: {tail:?}");
        tail[0]
    }

    #[test]
    fn adapting_settles_by_overhead_then_size_then_replay_time() {
        // Cheap snapshots of a slow machine: as fine as the replay time asks for.
        assert_eq!(settle(0.0, 1000, 100.0), 21);
        // A fixed cost of 100 ms: 2 s of running between snapshots, or more.
        let k = settle(0.0, 100_000_000, 2.0);
        assert!((1u64 << k) * 2 >= 2_000_000_000 && k <= 31, "{k}");
        // Size that grows with steps alone can't be helped by k: the coarsest.
        assert_eq!(settle(1.0, 1000, 2.0), COARSEST);
        // Nothing to better: where it began.
        assert_eq!(settle(0.001, 1000, 2.0), START);
    }

    #[test]
    fn thinning_leaves_about_as_many_of_each_octave() {
        let info = |at: u64| CheckpointInfo {
            at: Icount(at),
            time: VirtualTime(at),
            tree: Root([0; 32]),
            root: Root([0; 32]),
            keep: at == 333,
            state_len: 0,
        };
        let list: Vec<_> = (0..10_000).map(info).collect();
        let gone = thin(&list, Icount(10_000), 8);
        let left: Vec<u64> = list
            .iter()
            .map(|c| c.at.0)
            .filter(|at| !gone.contains(&Icount(*at)))
            .collect();
        assert!(left.len() < 150, "{}", left.len());
        assert!([0, 333, 9_999].iter().all(|at| left.contains(at)));
        for pair in left.windows(2) {
            assert!(pair[1] - pair[0] <= 1 + (10_000 - pair[0]) / 16 + 1, "{pair:?}");
        }
        // Doing it again later drops little.
        let list: Vec<_> = left.iter().map(|at| info(*at)).collect();
        assert!(thin(&list, Icount(10_000), 8).len() <= 2);
    }
}
