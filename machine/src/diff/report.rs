//! What a comparison came to, as text and for JSON.

use std::fmt;

use icount::{Event, Icount, LogReader, VirtualTime};
use serde::Serialize;

use super::state::{Differences, Step};
use crate::manifest::Manifest;

/// A setting in which two machines differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name in the manifest.
    pub name: String,
    /// Of the first recording.
    pub a: String,
    /// Of the second.
    pub b: String,
}

/// How a recording ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndOf {
    /// Position.
    pub at: Icount,
    /// Virtual time.
    pub time: VirtualTime,
    /// How, in words.
    pub how: String,
}

impl EndOf {
    pub(crate) fn of(log: &LogReader) -> EndOf {
        let (at, time, end) = log.end();
        EndOf {
            at,
            time,
            how: end.map_or_else(|| "it was not closed".into(), |end| end.to_string()),
        }
    }
}

/// The first difference of what was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum First {
    /// An event.
    Event {
        /// The earlier one's position.
        at: Icount,
        /// How many equal events stand before it.
        number: u64,
        /// The first recording's next event.
        a: Option<Event>,
        /// The second's.
        b: Option<Event>,
    },
    /// The root of a snapshot.
    Root {
        /// Position of the snapshots.
        at: Icount,
        /// The first recording's root.
        a: String,
        /// The second's.
        b: String,
    },
    /// The state at the end of the shorter one, though all that was recorded is equal.
    State {
        /// Position.
        at: Icount,
        /// What differs.
        differences: Differences,
    },
    /// One ends where the other goes on, or they end differently.
    Ends {
        /// The end of the shorter one.
        at: Icount,
        /// The first recording's end.
        a: EndOf,
        /// The second's.
        b: EndOf,
    },
}

impl First {
    /// Its position.
    pub fn at(&self) -> Icount {
        match self {
            First::Event { at, .. }
            | First::Root { at, .. }
            | First::State { at, .. }
            | First::Ends { at, .. } => *at,
        }
    }
}

impl fmt::Display for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First::Event { at, number, a, b } => {
                writeln!(f, "first difference: event {number}, at icount {at}")?;
                for (name, event) in [("a", a), ("b", b)] {
                    match event {
                        Some(event) => writeln!(f, "  {name}: {event}")?,
                        None => writeln!(f, "  {name}: nothing more")?,
                    }
                }
                Ok(())
            }
            First::Root { at, a, b } => {
                writeln!(f, "first difference: the state at icount {at}")?;
                writeln!(f, "  a: root {a}\n  b: root {b}")
            }
            First::State { at, differences } => {
                writeln!(
                    f,
                    "first difference: the state at icount {at}, the end of the shorter one"
                )?;
                write!(f, "{differences}")
            }
            First::Ends { at, a, b } if a.at == b.at && a.time == b.time => {
                writeln!(f, "first difference: how they end, at icount {at}")?;
                writeln!(f, "  a: {}\n  b: {}", a.how, b.how)
            }
            First::Ends { at, a, b } => {
                let (shorter, longer) = if a.at <= b.at { ("a", "b") } else { ("b", "a") };
                let end = if a.at <= b.at { a } else { b };
                writeln!(
                    f,
                    "first difference: {shorter} ends at icount {at} ({}), {longer} goes on; {shorter} is a prefix of {longer}",
                    end.how
                )
            }
        }
    }
}

/// The first step that executes differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parting {
    /// The boundary before it.
    pub at: Icount,
    /// The step as the first recording makes it.
    pub a: Vec<Step>,
    /// As the second does.
    pub b: Vec<Step>,
    /// The last steps in common, oldest first.
    pub common: Vec<Step>,
    /// What differs after it, and did not differ at power-on.
    pub differences: Differences,
    /// Events of the step: the first recording's, the second's.
    pub events: [Vec<Event>; 2],
}

impl Parting {
    /// The first recording's step.
    pub fn step(&self) -> Option<&Step> {
        self.a.first()
    }
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "first step that executes differently: after icount {}",
            self.at
        )?;
        for step in &self.common {
            writeln!(f, "    {step}")?;
        }
        for (name, steps) in [("a", &self.a), ("b", &self.b)] {
            for step in steps {
                writeln!(f, "  {name} {step}")?;
            }
        }
        for (name, events) in [("a", &self.events[0]), ("b", &self.events[1])] {
            for event in events {
                writeln!(f, "  {name}: {event}")?;
            }
        }
        writeln!(f, "after it (a | b):")?;
        write!(f, "{}", self.differences)
    }
}

/// How far things were compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Up to here.
    pub steps: Icount,
    /// Events that are equal.
    pub events: u64,
    /// Roots at shared positions that are equal.
    pub roots: u64,
    /// From here on each step was compared; before, the ends of stretches.
    pub exact_from: Option<Icount>,
}

/// The events about the first difference of events.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventsAround {
    /// The last ones in common, oldest first.
    pub common: Vec<Event>,
    /// What the first recording has from there on.
    pub a: Vec<Event>,
    /// What the second has.
    pub b: Vec<Event>,
}

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The first recording's folder.
    pub a: String,
    /// The second's.
    pub b: String,
    /// Whether nothing differs (but perhaps where the recordings say that they come from).
    pub equal: bool,
    /// Settings that differ.
    pub settings: Vec<Setting>,
    /// What differs at power-on.
    pub power_on: Option<Differences>,
    /// The first difference of what was recorded.
    pub first: Option<First>,
    /// The first step that executes differently; none if no step does.
    pub step: Option<Parting>,
    /// How they end.
    pub ends: [EndOf; 2],
    /// How far things were compared.
    pub compared: Compared,
    /// Events about the first difference of events.
    pub events: EventsAround,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl Report {
    /// Decides whether they are equal.
    pub(crate) fn settle(&mut self) {
        self.equal = self.first.is_none() && self.power_on.is_none() && self.step.is_none();
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a: {}\nb: {}", self.a, self.b)?;
        for setting in &self.settings {
            writeln!(f, "setting {}: {} | {}", setting.name, setting.a, setting.b)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let Compared {
            steps, events, roots, ..
        } = self.compared;
        if self.equal {
            return write!(
                f,
                "diff: {steps} steps, {events} events, {roots} roots, all equal"
            );
        }
        if let Some(differences) = &self.power_on {
            writeln!(f, "at power-on (a | b):")?;
            write!(f, "{differences}")?;
        }
        if let Some(first) = &self.first {
            write!(f, "{first}")?;
        }
        if let Some(step) = &self.step {
            write!(f, "{step}")?;
        } else if !matches!(self.first, Some(First::Ends { .. })) {
            writeln!(
                f,
                "no step is found that executes differently: up to icount {steps} effects are equal, and harts and memory \
                 at the ends of stretches of at most {} steps",
                super::search::CHUNKS.1
            )?;
        }
        let around = &self.events;
        if !around.a.is_empty() || !around.b.is_empty() {
            writeln!(f, "events about the first difference of events:")?;
            for event in &around.common {
                writeln!(f, "     {event}")?;
            }
            for (name, events) in [("a", &around.a), ("b", &around.b)] {
                for event in events {
                    writeln!(f, "  {name}: {event}")?;
                }
            }
        }
        let sampled = |from: &Icount| from.0 > 0 && self.power_on.is_some();
        if let Some(from) = self.compared.exact_from.filter(sampled) {
            writeln!(
                f,
                "each step was compared from icount {from} on; before, the ends of stretches of steps"
            )?;
        }
        write!(f, "diff: {events} events and {roots} roots are equal before")
    }
}

/// The settings in which two manifests differ.
pub(crate) fn settings(a: &Manifest, b: &Manifest) -> Vec<Setting> {
    let mut found = Vec::new();
    let sections = |m: &Manifest| {
        let value = |v: Result<serde_json::Value, serde_json::Error>| v.unwrap_or_default();
        [
            ("model", value(serde_json::to_value(m.model))),
            ("program", value(serde_json::to_value(&m.program))),
            ("machine", value(serde_json::to_value(&m.config))),
            ("origin", value(serde_json::to_value(&m.origin))),
        ]
    };
    for ((name, x), (_, y)) in sections(a).into_iter().zip(sections(b)) {
        compare(name.to_owned(), &x, &y, &mut found);
    }
    found
}

fn compare(name: String, a: &serde_json::Value, b: &serde_json::Value, found: &mut Vec<Setting>) {
    use serde_json::Value::{Null, Object};
    if a == b {
        return;
    }
    if let (Object(x), Object(y)) = (a, b) {
        let names: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
        for key in names {
            let of = |object: &serde_json::Map<_, _>| object.get(key).cloned().unwrap_or(Null);
            compare(format!("{name}.{key}"), &of(x), &of(y), found);
        }
        return;
    }
    let text = |v: &serde_json::Value| match v {
        Null => "none".to_owned(),
        other => other.to_string(),
    };
    found.push(Setting {
        name,
        a: text(a),
        b: text(b),
    });
}
