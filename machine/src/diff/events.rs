//! What two recordings say without running them: events in order, and roots at shared positions.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use icount::{Body, DoorError, Effect, Event, Icount, LogReader};
use snapshot::{Checkpoint, CheckpointInfo, Checkpoints, ZERO_PAGE};

use super::report::{EndOf, EventsAround, First};
use super::{Failed, Options, blame};
use crate::board;
use crate::config::Config;
use crate::error::MachineError;
use crate::history::events_path;
use crate::manifest::Manifest;
use crate::state::DRIVES;

/// Events of each that follow the difference in a report.
const AFTER: usize = 4;

/// The logs of both.
pub(crate) struct Logs<'a> {
    paths: [&'a Path; 2],
    pub readers: [Arc<LogReader>; 2],
    /// Where both have begun: each at its first snapshot.
    pub begin: Icount,
}

/// What became of the comparison.
pub(crate) struct EventsCompared {
    pub equal: u64,
    /// An event, or the end of one of the recordings.
    pub first: Option<First>,
    pub around: EventsAround,
    /// Where the first effect differs: the step after it executes differently, whatever its registers say.
    pub effects_part: Option<Icount>,
}

impl<'a> Logs<'a> {
    pub fn open(paths: [&'a Path; 2]) -> Result<Logs<'a>, Failed> {
        let open = |path: &Path| {
            LogReader::open(&events_path(path))
                .map(Arc::new)
                .map_err(|e| blame(path)(DoorError::from(e)))
        };
        let readers = [open(paths[0])?, open(paths[1])?];
        let mut begin = Icount(0);
        for (path, log) in paths.iter().zip(&readers) {
            let first = Checkpoints::open(path)
                .map_err(blame(path))?
                .at_or_above(log.begin().0);
            begin = begin.max(first.map_or(log.begin().0, |first| first.at));
        }
        Ok(Logs {
            paths,
            readers,
            begin,
        })
    }

    /// What is to be said of logs that were not closed.
    pub fn notes(&self) -> Vec<String> {
        let named = self.paths.iter().zip(&self.readers);
        named
            .filter_map(|(path, log)| {
                let lost = log.lost_effects()?;
                Some(format!(
                    "{} was not closed: its events are compared up to icount {}",
                    path.display(),
                    lost.after
                ))
            })
            .collect()
    }

    pub fn compare(&self, options: &Options) -> Result<EventsCompared, Failed> {
        let [a, b] = &self.readers;
        // Of a recording that was not closed, inputs are there whose effects are lost.
        let limit = self.limit();
        let mut iter = [0, 1].map(|i| self.events(i, self.begin, options));
        let [Ok(left), Ok(right)] = &mut iter else {
            let [left, right] = iter;
            return Err(left.err().or(right.err()).unwrap_or_else(|| {
                blame(self.paths[0])(MachineError::Recording("its log can't be read".into()))
            }));
        };
        let mut common = VecDeque::new();
        let mut equal = 0;
        let mut around = EventsAround::default();
        let first = loop {
            let x = left.next().transpose()?;
            let y = right.next().transpose()?;
            let at = [&x, &y].into_iter().flatten().map(|e| e.at).min();
            if at.is_none_or(|at| at >= limit) {
                break self.end_of_events();
            }
            if x == y {
                equal += 1;
                common.extend(x);
                if common.len() as u64 > options.context {
                    common.pop_front();
                }
                continue;
            }
            around.a.extend(x.clone());
            around.b.extend(y.clone());
            for event in left.take(AFTER) {
                around.a.push(event?);
            }
            for event in right.take(AFTER) {
                around.b.push(event?);
            }
            let ended = |log: &LogReader| log.end().0 <= at.unwrap_or_default();
            break match (&x, &y) {
                (Some(_), None) if ended(b) => self.end_of_events(),
                (None, Some(_)) if ended(a) => self.end_of_events(),
                _ => Some(First::Event {
                    at: at.unwrap_or_default(),
                    number: equal,
                    a: x,
                    b: y,
                }),
            };
        };
        around.common = common.into();
        let effects_part = match &first {
            Some(First::Event { at, .. }) => self.effects_part(*at, options)?,
            _ => None,
        };
        Ok(EventsCompared {
            equal,
            first,
            around,
            effects_part,
        })
    }

    /// Up to where the events of both are there.
    fn limit(&self) -> Icount {
        let lost = self.readers.iter().filter_map(|log| log.lost_effects());
        lost.map(|lost| lost.after).min().unwrap_or(Icount::MAX)
    }

    /// The first effect that differs, from a position on before which none does.
    fn effects_part(&self, from: Icount, options: &Options) -> Result<Option<Icount>, Failed> {
        let is_effect = |event: &Result<Event, Failed>| {
            event
                .as_ref()
                .map_or(true, |event| matches!(event.body, Body::Effect(_)))
        };
        let mut left = self.events(0, from, options)?.filter(is_effect);
        let mut right = self.events(1, from, options)?.filter(is_effect);
        let ends = self.readers.iter().map(|log| log.end().0);
        let end = ends.chain([self.limit()]).min().unwrap_or_default();
        loop {
            let (x, y) = (left.next().transpose()?, right.next().transpose()?);
            match [&x, &y].into_iter().flatten().map(|event| event.at).min() {
                Some(at) if at < end && x == y => {}
                Some(at) if at < end => return Ok(Some(at)),
                Some(_) | None => return Ok(None),
            }
        }
    }

    /// All events are equal as far as both go: whether they end alike.
    fn end_of_events(&self) -> Option<First> {
        let [a, b] = [EndOf::of(&self.readers[0]), EndOf::of(&self.readers[1])];
        (a != b).then(|| First::Ends {
            at: a.at.min(b.at),
            a,
            b,
        })
    }

    /// Events of one of them from a position on, without those to be ignored.
    pub fn events(
        &self,
        which: usize,
        from: Icount,
        options: &Options,
    ) -> Result<impl Iterator<Item = Result<Event, Failed>> + '_, Failed> {
        let path = self.paths[which];
        let failed = move |e| blame(path)(DoorError::from(e));
        let ignore = options.ignore.clone();
        let events = self.readers[which].events_from(from).map_err(failed)?;
        let ignored = move |event: &Event| match event.body {
            Body::Effect(Effect::Mmio { addr, .. } | Effect::Dma { addr, .. }) => {
                ignore.iter().any(|range| range.contains(&addr))
            }
            Body::Effect(_) | Body::Input(_) => false,
        };
        Ok(events
            .map(move |event| event.map_err(failed))
            .filter(move |event| !event.as_ref().is_ok_and(&ignored)))
    }
}

/// What became of the comparison of roots.
pub(crate) struct RootsCompared {
    /// Shared positions with equal roots before the first that differ, ascending.
    pub equal: Vec<Icount>,
    pub first: Option<First>,
}

impl RootsCompared {
    pub fn of(paths: [&Path; 2], options: &Options) -> Result<RootsCompared, Failed> {
        let config = Manifest::read(paths[0]).map_err(blame(paths[0]))?.config;
        let [a, b] = paths;
        let left = Checkpoints::open(a).map_err(blame(a))?;
        let right = Checkpoints::open(b).map_err(blame(b))?;
        let mut compared = RootsCompared {
            equal: Vec::new(),
            first: None,
        };
        for x in left.list() {
            let Some(y) = right.at(x.at) else { continue };
            if !same(&config, &left, &right, &x, &y, options).map_err(blame(a))? {
                compared.first = Some(First::Root {
                    at: x.at,
                    a: x.root.to_string(),
                    b: y.root.to_string(),
                });
                break;
            }
            compared.equal.push(x.at);
        }
        Ok(compared)
    }

    /// The last shared equal snapshot at or below a position: states may meet again behind a difference.
    pub fn last_equal(&self, at: Icount) -> Option<Icount> {
        self.equal.iter().rev().find(|equal| **equal <= at).copied()
    }
}

/// Whether two snapshots are equal but for what is to be ignored.
fn same(
    config: &Config,
    left: &Checkpoints,
    right: &Checkpoints,
    a: &CheckpointInfo,
    b: &CheckpointInfo,
    options: &Options,
) -> Result<bool, MachineError> {
    if a.root == b.root || options.ignore.is_empty() {
        return Ok(a.root == b.root);
    }
    let (x, y): (Checkpoint, Checkpoint) = (left.load(a.at)?, right.load(b.at)?);
    if x.state != y.state {
        return Ok(false);
    }
    let mut same = true;
    x.tree.diff::<MachineError>(&y.tree, |key, p, q| {
        let load = |page: Option<&Arc<snapshot::PageRef>>, from: &Checkpoints| {
            page.map_or_else(|| Ok(Arc::new(ZERO_PAGE)), |page| page.load(from.store()))
        };
        if !same {
            return Ok(());
        }
        let (p, q) = (load(p, left)?, load(q, right)?);
        let base = board::page_address(config, key)?.unwrap_or(0);
        let ignored =
            |i: usize| key & DRIVES == 0 && options.ignore.iter().any(|r| r.contains(&(base + i as u64)));
        same = (0..p.len()).all(|i| p[i] == q[i] || ignored(i));
        Ok(())
    })?;
    Ok(same)
}
