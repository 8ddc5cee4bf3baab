//! Where snapshots stand, and which old ones may go.
//!
//! Snapshots stand on a grid of 2^k steps, so that two recordings share positions whatever their k: a coarser grid's
//! positions are a finer one's too. An adaptive grid offers positions, and at each it is asked whether a snapshot is *due* there: only if
//! what was gathered since the last one pays for it. So no stretch of a run costs more than the goal, however suddenly the guest begins to
//! write everywhere; and the longer a snapshot waits, the rounder the positions get, so that two recordings find common ones. Size comes next,
//! over the run as a whole, and replay time last: it says how fine the grid is when nothing else matters. All is decided from measurements
//! that the caller hands in (this crate reads no clock), and never reaches the guest.

use icount::Icount;

use crate::checkpoint::CheckpointInfo;

/// The k that adapting starts with.
pub const START: u32 = 24;
/// The finest and coarsest grids that adapting offers while snapshots are cheap.
pub const FINEST: u32 = 20;
/// See [`FINEST`].
pub const COARSEST: u32 = 34;

/// What adapting aims at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goals {
    /// The most that a snapshot may add to the time of the run since the one before, of which [`SHORT_NS`] count: 0.05 is a
    /// twentieth. (Who begins to write everywhere shall not pay what the time before had left over.) Twice
    /// that, of all the time, after [`LONG_NS`]: a replay from the last snapshot takes as long by then.
    pub overhead: f64,
    /// The most bytes that snapshots may take a second of running, [`SAVED_SECONDS`] of which can be saved up.
    pub bytes_per_second: f64,
    /// The time that replaying to a position should take at most, in seconds.
    pub replay_seconds: f64,
}

impl Default for Goals {
    fn default() -> Self {
        Self {
            overhead: 0.02,
            bytes_per_second: 16e6,
            replay_seconds: 0.25,
        }
    }
}

/// See [`Goals::overhead`].
pub const SHORT_NS: u64 = 1_000_000_000;
/// See [`Goals::overhead`].
pub const LONG_NS: u64 = 500_000_000;
/// See [`Goals::bytes_per_second`]. A snapshot that takes more than can be saved up is due when that much was.
pub const SAVED_SECONDS: f64 = 4.0;
/// Snapshots stand this many times as dense as [`Goals::replay_seconds`] asks for: a search goes through each stretch
/// forward, and a first step back replays half of one on the average.
const DENSITY: f64 = 4.0;

/// What was gathered since the last snapshot; measured by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gathered {
    /// Host time of running, in nanoseconds of the thread that runs the guest: other load doesn't count, nor idling.
    pub run_ns: u64,
    /// Pages that were written.
    pub pages: u64,
}

/// What the run up to a snapshot, and the snapshot, cost; measured by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Where it stands.
    pub at: Icount,
    /// Steps since the last snapshot.
    pub steps: u64,
    /// Host time of running them, and pages.
    pub gathered: Gathered,
    /// Host time that the snapshot took from the guest, on the same clock: taking it, copying pages, and, for each page, the
    /// first store after it.
    pub snapshot_ns: u64,
    /// Bytes that were added to the recording's files since the last call (not all of this snapshot yet).
    pub bytes: u64,
}

/// The grid of snapshots.
#[derive(Debug, Clone)]
pub struct Grid {
    k: u32,
    /// The last snapshot.
    last: Icount,
    adapt: Option<Adapt>,
}

#[derive(Debug, Clone)]
struct Adapt {
    goals: Goals,
    /// The fastest of late, in steps a nanosecond: guests also idle.
    speed: f64,
    /// What a page of a snapshot costs the guest, and what a snapshot does beside its pages.
    ns_a_page: f64,
    ns_a_snapshot: f64,
    /// Sums that fade, from which bytes a page follow.
    bytes: f64,
    pages: f64,
    /// Bytes that were saved up.
    saved: f64,
}

impl Adapt {
    fn new(goals: Goals) -> Self {
        // A page is a microsecond and a third of its size until more is known.
        Self {
            goals,
            speed: 0.0,
            ns_a_page: 1000.0,
            ns_a_snapshot: 20_000.0,
            bytes: 1365.0 * 256.0,
            pages: 256.0,
            saved: goals.bytes_per_second,
        }
    }

    fn due(&self, gathered: Gathered) -> bool {
        let (run_ns, pages) = (gathered.run_ns as f64, gathered.pages as f64);
        let pays = if gathered.run_ns > LONG_NS {
            2.0 * run_ns
        } else {
            run_ns.min(SHORT_NS as f64)
        };
        let cost = self.ns_a_snapshot + self.ns_a_page * pages;
        let most = self.goals.bytes_per_second * SAVED_SECONDS;
        let saved = (self.saved + self.goals.bytes_per_second * run_ns * 1e-9).min(most);
        let size = self.bytes / self.pages * pages;
        cost <= self.goals.overhead * pays && (size <= saved || saved >= most)
    }

    fn observe(&mut self, cost: &Cost) {
        let Gathered { run_ns, pages } = cost.gathered;
        let (run_ns, pages) = (run_ns as f64, pages as f64);
        if run_ns > 0.0 {
            self.speed = (self.speed * 0.95).max(cost.steps as f64 / run_ns);
        }
        let spent = cost.snapshot_ns as f64;
        // Many pages tell the cost of one, few that of none.
        if pages >= 256.0 {
            let a_page = (spent - self.ns_a_snapshot).max(0.0) / pages;
            towards(&mut self.ns_a_page, a_page);
        } else {
            let rest = (spent - self.ns_a_page * pages).max(0.0);
            towards(&mut self.ns_a_snapshot, rest);
        }
        self.bytes = self.bytes * 0.9 + cost.bytes as f64;
        self.pages = self.pages * 0.9 + pages;
        let rate = self.goals.bytes_per_second;
        self.saved = (self.saved + rate * run_ns * 1e-9).min(rate * SAVED_SECONDS) - cost.bytes as f64;
    }

    /// The k of a stretch that is replayed in a [`DENSITY`]-th of the goal.
    fn k(&self) -> u32 {
        let steps = self.speed * 1e9 * self.goals.replay_seconds / DENSITY;
        (steps.max(1.0).log2() as u32).clamp(FINEST, COARSEST)
    }
}

/// Moves an estimate towards a sample, at most to its double or half: on a busy host single samples are many times
/// too high, and an estimate that believed one would have no snapshot taken for long.
fn towards(estimate: &mut f64, sample: f64) {
    *estimate = sample.clamp(*estimate * 0.5, *estimate * 2.0).max(1.0);
}

impl Grid {
    /// A grid of 2^`k` steps (`k` at most 62).
    pub fn fixed(k: u32) -> Self {
        Self {
            k: k.min(62),
            last: Icount(0),
            adapt: None,
        }
    }

    /// A grid that adapts.
    pub fn adaptive(goals: Goals) -> Self {
        Self {
            k: START,
            last: Icount(0),
            adapt: Some(Adapt::new(goals)),
        }
    }

    /// The exponent in force.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The first position above `at` for a snapshot: of the grid, or of a coarser one if the last snapshot is long ago.
    pub fn next_after(&self, at: Icount) -> Icount {
        let gap = at.since(self.last);
        let k = match (&self.adapt, gap.checked_ilog2()) {
            (Some(_), Some(log)) => self.k.max(log.saturating_sub(1)),
            _ => self.k,
        };
        Icount((at.0 >> k).saturating_add(1).saturating_mul(1 << k))
    }

    /// Whether a snapshot is due at a position of the grid.
    pub fn due(&self, gathered: Gathered) -> bool {
        self.adapt.as_ref().is_none_or(|adapt| adapt.due(gathered))
    }

    /// Takes the cost of a snapshot into account.
    pub fn observe(&mut self, cost: Cost) {
        self.last = cost.at;
        if let Some(adapt) = &mut self.adapt {
            adapt.observe(&cost);
            self.k = adapt.k();
        }
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

    /// A guest that makes `speed` steps a ns and writes `rate` new pages a ms, up to `most` different ones; a snapshot's page
    /// costs `ns_a_page` and takes `bytes`.
    #[derive(Clone, Copy)]
    struct Guest {
        speed: f64,
        rate: f64,
        most: f64,
        ns_a_page: f64,
        bytes: f64,
    }

    /// Runs guests for some seconds each, one after the other. Yields of each snapshot its position, the ns of running
    /// before it, what it took, and its bytes.
    fn run(grid: &mut Grid, guests: &[(Guest, f64)]) -> Vec<(Icount, f64, f64, f64)> {
        let mut taken = Vec::new();
        let (mut at, mut gap_ns, mut pages) = (0u64, 0.0, 0.0f64);
        let mut last = 0;
        for &(guest, seconds) in guests {
            let mut ns = 0.0;
            while ns < seconds * 1e9 {
                let next = grid.next_after(Icount(at)).0;
                let run = (next - at) as f64 / guest.speed;
                at = next;
                ns += run;
                gap_ns += run;
                pages = (pages + run * 1e-6 * guest.rate).min(guest.most);
                let gathered = Gathered {
                    run_ns: gap_ns as u64,
                    pages: pages as u64,
                };
                if !grid.due(gathered) {
                    continue;
                }
                let (spent, bytes) = (20_000.0 + pages * guest.ns_a_page, pages * guest.bytes);
                grid.observe(Cost {
                    at: Icount(at),
                    steps: at - last,
                    gathered,
                    snapshot_ns: spent as u64,
                    bytes: bytes as u64,
                });
                taken.push((Icount(at), gap_ns, spent, bytes));
                (last, gap_ns, pages) = (at, 0.0, 0.0);
            }
        }
        taken
    }

    const QUIET: Guest = Guest {
        speed: 1.0,
        rate: 1.0,
        most: 500.0,
        ns_a_page: 800.0,
        bytes: 1000.0,
    };
    /// 32 MiB again and again, as fast as memory is.
    const COPYING: Guest = Guest {
        rate: 80.0,
        most: 32_768.0,
        ..QUIET
    };

    #[test]
    fn cheap_snapshots_stand_as_dense_as_replay_time_asks_for() {
        for speed in [0.05, 1.0, 3.0] {
            let mut grid = Grid::adaptive(Goals::default());
            let taken = run(&mut grid, &[(Guest { speed, ..QUIET }, 20.0)]);
            for (_, gap, ..) in &taken[3..] {
                assert!((0.03e9..0.07e9).contains(gap), "{gap}");
            }
        }
        // A crawling interpreter: the finest grid all the same.
        let mut grid = Grid::adaptive(Goals::default());
        run(&mut grid, &[(Guest { speed: 1e-4, ..QUIET }, 60.0)]);
        assert_eq!(grid.k(), FINEST);
    }

    #[test]
    fn no_stretch_costs_more_than_the_goal() {
        let mut grid = Grid::adaptive(Goals::default());
        let everything = Guest {
            most: 262_144.0,
            rate: 400.0,
            bytes: 100.0,
            ..QUIET
        };
        let guests = [
            (QUIET, 2.0),
            (COPYING, 6.0),
            (QUIET, 2.0),
            (everything, 30.0),
            (COPYING, 3.0),
        ];
        let taken = run(&mut grid, &guests);
        for (at, gap, spent, _) in &taken {
            let goal = if *gap > LONG_NS as f64 { 0.04 } else { 0.02 };
            // The cost of a page has to be learned first.
            assert!(*spent < goal * 1.05 * gap, "at {at}: {spent} of {gap}");
            assert!(*gap < 12e9, "at {at}: {gap}");
        }
        let total: f64 = taken.iter().map(|t| t.2).sum();
        assert!(total < 0.04 * 43e9, "{total}");
    }

    #[test]
    fn a_dear_page_is_learned_and_size_is_kept() {
        let dear = Guest {
            ns_a_page: 20_000.0,
            ..COPYING
        };
        let taken = run(&mut Grid::adaptive(Goals::default()), &[(dear, 200.0)]);
        let late = &taken[taken.len() / 2..];
        assert!(late.iter().all(|t| t.2 < 0.045 * t.1), "{late:?}");
        // What doesn't compress: no more than the rate, and what can be saved up, and one snapshot.
        let random = Guest {
            ns_a_page: 1.0,
            bytes: 4096.0,
            ..COPYING
        };
        let taken = run(&mut Grid::adaptive(Goals::default()), &[(random, 60.0)]);
        let bytes: f64 = taken.iter().map(|t| t.3).sum();
        let goal = Goals::default().bytes_per_second;
        assert!(
            bytes < goal * (60.0 + SAVED_SECONDS) + 32_768.0 * 4096.0,
            "{bytes}"
        );
        assert!(bytes > goal * 40.0, "{bytes}");
    }

    #[test]
    fn waiting_makes_positions_rounder() {
        let mut grid = Grid::adaptive(Goals::default());
        let taken = run(&mut grid, &[(QUIET, 1.0), (COPYING, 6.0)]);
        for pair in taken.windows(2) {
            let gap = pair[1].0.since(pair[0].0);
            assert!(pair[1].0.0.trailing_zeros() + 3 >= gap.ilog2(), "{pair:?}");
        }
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
