//! Where two recordings part: the first event or root that differs, and the first step that executes
//! differently.
//!
//! ```text
//!   manifests ─▶ event logs, in order ─▶ roots at shared snapshots      what was recorded, nothing runs
//!                      │
//!                      ▼ last shared equal snapshot (or power-on)
//!   both run in chunks, harts and memory compared at each end           until a chunk whose end differs
//!                      │
//!                      ▼ back to the start of the chunk (and EXACT steps before)
//!   both run step by step under a digest of the registers               the first step that differs
//! ```
//!
//! What differs at power-on already (a patched byte of the kernel) is reported and then known: from there on
//! only what *becomes* different counts. If that is some bytes of memory, one side runs with watchpoints on them instead of both in
//! chunks (`touched.rs`). If registers differ at power-on, the program counters are compared
//! instead.
//!
//! [`explain`] tells the same of a replay that departs from its recording, as far as one run allows.

mod events;
mod explain;
mod report;
mod search;
pub mod state;
mod touched;

use std::ops::Range;
use std::path::{Path, PathBuf};

use icount::Icount;

use crate::engine::Engine;
use crate::error::MachineError;
use crate::history::History;
use crate::manifest::Manifest;

pub use explain::{Explained, explain};
pub use report::{Compared, EndOf, EventsAround, First, Parting, Report, Setting};

use events::{Logs, RootsCompared};
use search::{Criterion, Search, seek};
use state::{Known, differences, same_harts};

/// What to compare, and how much to tell.
#[derive(Clone, Debug)]
pub struct Options {
    /// Physical ranges whose content doesn't matter: memory, and accesses to devices there.
    pub ignore: Vec<Range<u64>>,
    /// How many steps and events before the difference are reported.
    pub context: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ignore: Vec::new(),
            context: 16,
        }
    }
}

/// A recording can't be read or replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}", .path.display())]
pub struct Failed {
    /// Which one.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: MachineError,
}

/// Blames a recording.
pub(crate) fn blame<E: Into<MachineError>>(path: &Path) -> impl FnOnce(E) -> Failed + '_ {
    |source| Failed {
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Compares two recordings. `engine` makes engines to replay them with; `progress` is told what is being done.
///
/// # Errors
/// One of them can't be read, or doesn't replay.
pub fn diff(
    paths: [&Path; 2],
    engine: &dyn Fn() -> Engine,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Failed> {
    let [a, b] = paths;
    let manifests = [
        Manifest::read(a).map_err(blame(a))?,
        Manifest::read(b).map_err(blame(b))?,
    ];
    progress("comparing events");
    let logs = Logs::open(paths)?;
    let events = logs.compare(options)?;
    let roots = RootsCompared::of(paths, options)?;
    let ends = [EndOf::of(&logs.readers[0]), EndOf::of(&logs.readers[1])];
    let end = ends[0].at.min(ends[1].at);
    let begin = logs.begin;
    if end < begin {
        let what = format!("it has no step that the other has: one begins at {begin}, one ends at {end}");
        return Err(blame(b)(MachineError::Recording(what)));
    }

    let mut report = Report {
        a: a.display().to_string(),
        b: b.display().to_string(),
        equal: false,
        settings: report::settings(&manifests[0], &manifests[1]),
        power_on: None,
        first: None,
        step: None,
        ends: ends.clone(),
        compared: Compared {
            steps: end,
            events: events.equal,
            roots: roots.equal.len() as u64,
            exact_from: None,
        },
        events: events.around.clone(),
        notes: logs.notes(),
    };
    // A root stands at the observe point, before what happens at its boundary.
    report.first = match (&events.first, &roots.first) {
        (Some(event), Some(root)) if root.at() > event.at() => Some(event.clone()),
        (_, Some(root)) => Some(root.clone()),
        (event, None) => event.clone(),
    };
    let until = report.first.as_ref().map_or(Icount::MAX, First::at);
    report.compared.roots = roots.equal.iter().filter(|at| **at <= until).count() as u64;
    if let Some(why) = manifests.iter().find_map(|m| m.check_model().err()) {
        report
            .notes
            .push(format!("only what was recorded was compared: {why}"));
        report.settle();
        return Ok(report);
    }

    progress("comparing power-on");
    let equal = roots.last_equal(until);
    let open = |path: &Path| History::open(path, engine()).map_err(blame(path));
    let mut search = Search {
        sides: [open(a)?, open(b)?],
        paths,
        known: Known::ranges(options.ignore.clone()),
        criterion: Criterion::Registers,
        part: events.effects_part,
        alike_until: match (&report.first, equal) {
            (Some(First::Event { at, .. }), Some(_)) => Some(*at),
            _ => None,
        },
        touch_until: None,
        end,
    };
    let start = match equal {
        Some(at) => at,
        None => {
            if begin > Icount(0) {
                search.both(|side| seek(side, begin))?;
            }
            let [x, y] = &mut search.sides;
            let (x, y) = (x.machine_mut(), y.machine_mut());
            report.power_on = Some(differences(x, y, &search.known).map_err(blame(a))?);
            if !same_harts(x, y) {
                search.criterion = Criterion::Flow;
                let note =
                    "registers differ at power-on: the flow of control is compared instead of registers";
                report.notes.push(note.into());
            }
            search.known.learn(x, y).map_err(blame(a))?;
            search.touch_until = Some(match &events.first {
                Some(First::Event { at, .. }) => *at,
                _ => end,
            });
            begin
        }
    };
    if let Some(found) = search.first_step(start, progress)? {
        report.compared.exact_from = Some(found.exact_from);
        report.step = Some(search.describe(found, &logs, options.context)?);
    } else if matches!(report.first, None | Some(First::Ends { .. })) && report.power_on.is_none() {
        // The last stretch, behind the last shared snapshot: all of the state.
        let [x, y] = &mut search.sides;
        let found = differences(x.machine_mut(), y.machine_mut(), &search.known).map_err(blame(a))?;
        if !found.is_empty() {
            report.first = Some(First::State {
                at: end,
                differences: found,
            });
        }
    }
    report.settle();
    Ok(report)
}

/// The first step in `from..to` of a recording that two engines execute differently, `from` being a snapshot's; `None` if
/// they agree, or if one of them departs from the recording before a difference is seen.
///
/// # Errors
/// The recording can't be read.
pub fn engines_part(
    dir: &Path,
    engines: [Engine; 2],
    from: Icount,
    to: Icount,
    context: u64,
) -> Result<Option<Parting>, Failed> {
    let [a, b] = engines;
    let open = |engine| History::open(dir, engine).map_err(blame(dir));
    let mut search = Search {
        sides: [open(a)?, open(b)?],
        paths: [dir; 2],
        known: Known::default(),
        criterion: Criterion::Registers,
        part: None,
        alike_until: None,
        touch_until: None,
        end: to,
    };
    match search.first_step(from, &mut |_| {}) {
        Ok(Some(found)) => Ok(Some(search.describe(found, &Logs::open([dir; 2])?, context)?)),
        Ok(None) => Ok(None),
        Err(failed) if failed.source.is_divergence() => Ok(None),
        Err(failed) => Err(failed),
    }
}
