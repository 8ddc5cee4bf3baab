//! Recording, replaying and going back, on the embedded guests.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use icount::{End, Icount, ScriptedDoor};
use machine::history::{HostNow, RecordOptions};
use machine::{Config, FirstStep, HartStart, History, Stopped, Stops, Timeline, TimelineOptions};
use machine::{Engine, EngineKind};
use snapshot::grid::Grid;
use snapshot::{RecorderOptions, Replay};

fn engine() -> Engine {
    Engine::new(EngineKind::default()).unwrap()
}

fn config(guest: &firmware::Guest, harts: u8, schedule_seed: Option<u64>) -> Config {
    Config {
        board: "riscv-virt".into(),
        memory: 16 << 20,
        harts: (0..harts)
            .map(|h| HartStart {
                pc: guest.entry,
                args: [h.into(), 0, 0],
                mode: machine::config::StartMode::Board,
            })
            .collect(),
        ns_per_step: NonZeroU64::MIN,
        slice: 5_000,
        schedule_seed,
        seed: 0,
        date_ns: 0,
        drives: Vec::new(),
        tohost: None,
        semihosting: None,
        cdrom: None,
        testdev: false,
        firmware_files: Vec::new(),
        networks: Vec::new(),
        virtio_console: false,
        on_shutdown: machine::config::OnShutdown::Reset,
    }
}

fn begin(dir: &Path, guest: &firmware::Guest, harts: u8, k: u32) -> History {
    let options = RecordOptions {
        grid: Grid::fixed(k),
        recorder: RecorderOptions::default(),
        host_time: Box::new(HostNow::default),
        origin: BTreeMap::new(),
        fsync: false,
        retention: Default::default(),
    };
    let images = vec![(guest.load, guest.image.clone())];
    let door = Box::new(ScriptedDoor::new());
    let config = config(guest, harts, Some(7));
    History::record(dir, &config, images, door, engine(), options).unwrap()
}

fn record(dir: &Path, guest: &firmware::Guest, harts: u8, k: u32) -> (Icount, End) {
    let mut history = begin(dir, guest, harts, k);
    let end = loop {
        match history
            .run_live(Icount(100_000_000), &Stops::default(), FirstStep::Counts)
            .unwrap()
        {
            Stopped::Reached => {}
            Stopped::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    let finished = history.finish(end).unwrap();
    (finished.at, end)
}

#[test]
fn a_recording_replays_with_every_event_and_root_equal() {
    for (guest, harts) in [
        (firmware::demo(), 1),
        (firmware::paging(), 1),
        (firmware::smp_demo(4), 4),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r.tick");
        let (at, end) = record(&dir, &guest, harts, 18);
        let mut history = History::open(&dir, engine()).unwrap();
        let verified = history.verify(|_| {}).unwrap();
        assert_eq!(verified.steps, at);
        assert_eq!(verified.end, Some(end));
        assert!(verified.events > 10 && verified.roots > 3, "{verified:?}");
    }
}

#[test]
fn a_recording_is_the_same_whoever_looks_and_goes_back_meanwhile() {
    let guest = firmware::smp_demo(4);
    let dirs = tempfile::tempdir().unwrap();
    let plain = dirs.path().join("plain.tick");
    record(&plain, &guest, 4, 17);
    let looked = dirs.path().join("looked.tick");
    let mut history = begin(&looked, &guest, 4, 17);
    let mut stops = 0;
    let end = loop {
        let at = history.position();
        let until = at.saturating_add(50_000 + stops * 7919 % 90_000);
        match history
            .run_live(until, &Stops::default(), FirstStep::Counts)
            .unwrap()
        {
            Stopped::Reached => {}
            Stopped::End(end) => break end,
            other => panic!("{other:?}"),
        }
        stops += 1;
        let at = history.position();
        // Changes are taken here that the recorder has not got yet.
        let root = (stops % 3 == 0).then(|| history.root().unwrap());
        if stops % 4 == 0 {
            history.restore_anchor(history.anchor(Icount(at.0 / 2))).unwrap();
            let middle = Icount(at.0 / 2 + 999);
            history.run(middle, &Stops::default(), FirstStep::Counts).unwrap();
            history.go_live().unwrap();
            assert_eq!(history.position(), at);
        }
        if let Some(root) = root {
            assert_eq!(history.root().unwrap(), root, "at {at}");
        }
    };
    history.finish(end).unwrap();
    assert!(stops > 20, "{stops}");
    let list = |dir: &Path| snapshot::Checkpoints::open(dir).unwrap().list();
    assert_eq!(list(&plain), list(&looked));
    History::open(&looked, engine()).unwrap().verify(|_| {}).unwrap();
}

#[test]
fn a_state_is_the_same_however_it_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("r.tick");
    let (end, _) = record(&dir, &firmware::smp_demo(4), 4, 18);
    // Straight runs, stopped at each place.
    let places: Vec<u64> = (1..20).map(|i| end.0 * i / 20 + i * 7919 % 1000).collect();
    let mut straight = History::open(&dir, engine()).unwrap();
    let mut roots = Vec::new();
    for place in &places {
        straight
            .run(Icount(*place), &Stops::default(), FirstStep::Counts)
            .unwrap();
        assert_eq!(straight.position(), Icount(*place));
        roots.push(straight.root().unwrap());
    }
    let mut timeline = Timeline::new(History::open(&dir, engine()).unwrap(), TimelineOptions::default());
    for order in [
        places.iter().rev().collect::<Vec<_>>(),
        places.iter().step_by(3).collect(),
    ] {
        for place in order {
            timeline.seek(Icount(*place)).unwrap();
            let i = places.iter().position(|p| p == place).unwrap();
            assert_eq!(timeline.machine_mut().root().unwrap(), roots[i], "at {place}");
        }
    }
}

#[test]
fn the_demo_s_bad_value_is_found_backwards() {
    let guest = firmware::demo();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("r.tick");
    record(&dir, &guest, 1, 20);
    let mut timeline = Timeline::new(History::open(&dir, engine()).unwrap(), TimelineOptions::default());
    let end = timeline.machine().end();
    timeline.seek(end).unwrap();
    let mut word = [0; 8];
    let read = |timeline: &mut Timeline<History>, addr, word: &mut [u8; 8]| {
        assert!(
            timeline
                .machine_mut()
                .machine_mut()
                .debug_read(machine::AddressKind::Physical, addr, word)
        );
        u64::from_le_bytes(*word)
    };
    let addr = read(
        &mut timeline,
        guest.symbol("demo_bad_address").unwrap(),
        &mut word,
    );
    let stops = Stops {
        watches: vec![machine::Watch {
            addr,
            len: 8,
            read: false,
            write: true,
        }],
        ..Stops::default()
    };
    let found = timeline.reverse_continue(&stops, Icount(0)).unwrap();
    assert!(matches!(found, machine::Backward::Found { .. }), "{found:?}");
    let pc = timeline.machine().machine().hart(0).unwrap().pc();
    assert_eq!(pc, guest.symbol("list_remove").unwrap() + firmware::DEMO_CULPRIT);
}

#[test]
fn one_hart_s_state_does_not_depend_on_where_runs_are_cut() {
    let guest = firmware::demo();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("r.tick");
    record(&dir, &guest, 1, 20);
    let mut straight = History::open(&dir, engine()).unwrap();
    let mut cut = History::open(&dir, engine()).unwrap();
    let mut at = 0;
    for i in 1..300u64 {
        at += 1 + i * 7919 % 4001;
        cut.run(Icount(at), &Stops::default(), FirstStep::Counts).unwrap();
    }
    straight
        .run(Icount(at), &Stops::default(), FirstStep::Counts)
        .unwrap();
    assert_eq!(straight.root().unwrap(), cut.root().unwrap());
}
