//! Counts that don't depend on the host: what the translator makes of guests that never change, and what is logged of
//! them. A figure that grows past its limit is a regression; one that shrinks may take the limit along.

use icount::End;
use machine::{FirstStep, Machine, Stopped, Stops, board};
use tests::recorded::{self, NO_SNAPSHOTS};
use tests::subject::{Subject, embedded};
use tests::ways::With;

/// Of a guest: blocks translated, and per guest instruction in them bytes of host code, hot and all, in hundredths.
struct Limit {
    name: &'static str,
    blocks: u64,
    hot: u64,
    all: u64,
}

const LIMITS: [Limit; 4] = [
    Limit {
        name: "demo",
        blocks: 132,
        hot: 2272,
        all: 4230,
    },
    Limit {
        name: "x86_demo",
        blocks: 140,
        hot: 2712,
        all: 5031,
    },
    Limit {
        name: "paging",
        blocks: 2113,
        hot: 3893,
        all: 6278,
    },
    Limit {
        name: "fp_mix",
        blocks: 134,
        hot: 2086,
        all: 3081,
    },
];

/// Bytes of the log of the demos per 10⁹ steps.
const LOG_BYTES: [(&str, u64); 2] = [("demo", 1_950_000), ("x86_demo", 165_000)];

fn subject(name: &str) -> Subject {
    embedded().unwrap().into_iter().find(|s| s.name == name).unwrap()
}

#[test]
fn the_translator_makes_no_more_of_the_embedded_guests() {
    let mut wrong = String::new();
    for limit in LIMITS {
        let subject = subject(limit.name);
        let engine = With::Jit.engine().unwrap();
        let mut machine: Machine =
            board::build(&subject.config, subject.images.clone(), subject.door(), engine).unwrap();
        let end = machine
            .run(icount::Icount::MAX, &Stops::default(), FirstStep::Counts)
            .unwrap();
        assert!(matches!(end, Stopped::End(_)), "{}: {end:?}", limit.name);
        let jit = machine.figures().unwrap().jit;
        let found = [
            jit.blocks,
            jit.hot_bytes * 100 / jit.insns,
            jit.bytes * 100 / jit.insns,
        ];
        let allowed = [limit.blocks, limit.hot, limit.all];
        if found.iter().zip(allowed).any(|(found, allowed)| *found > allowed) {
            wrong += &format!("{}: {found:?}, {allowed:?} allowed\n", limit.name);
        }
    }
    assert!(
        wrong.is_empty(),
        "blocks, bytes of hot code and of all code in 100 instructions:\n{wrong}"
    );
}

#[test]
fn a_demo_s_log_grows_no_faster() {
    for (name, allowed) in LOG_BYTES {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("run.tick");
        let subject = subject(name);
        let grid = snapshot::grid::Grid::fixed(NO_SNAPSHOTS);
        let mut history = recorded::begin(&subject, &dir, With::Jit, grid).unwrap();
        let end = loop {
            match history
                .run_live(icount::Icount::MAX, &Stops::default(), FirstStep::Counts)
                .unwrap()
            {
                Stopped::End(end) => break end,
                _ => assert_eq!(history.machine().ended(), None::<End>),
            }
        };
        let finished = history.finish(end).unwrap();
        let bytes = std::fs::metadata(machine::history::events_path(&dir))
            .unwrap()
            .len();
        let found = bytes * 1_000_000_000 / finished.at.0;
        assert!(
            found <= allowed,
            "{name}: {bytes} bytes of {} steps, {found} per 10⁹, {allowed} allowed",
            finished.at
        );
    }
}
