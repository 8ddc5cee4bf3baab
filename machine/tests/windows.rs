//! Windows of recordings: cut out, or kept by a flight recorder; what is left replays as before, with the positions it had.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use icount::{Due, End, Event, Icount, LogReader, ScriptedDoor};
use machine::boot::{Bios, Boot, prepare};
use machine::diff::{Options, diff};
use machine::engine::Engine;
use machine::history::{CutOptions, HostNow, RecordOptions, Retention, events_path};
use machine::snapshot::grid::Grid;
use machine::snapshot::{RecorderOptions, Replay, Root};
use machine::{
    Backward, FirstStep, History, MachineError, Recorded, Stopped, Stops, Timeline, TimelineOptions, Watch,
};

fn options(k: u32, retention: Retention) -> RecordOptions {
    let mut now = 0;
    RecordOptions {
        grid: Grid::fixed(k),
        recorder: RecorderOptions {
            pack_bytes: 64 << 10,
            ..RecorderOptions::default()
        },
        host_time: Box::new(move || {
            now += 1_000_000;
            HostNow { wall: now, cpu: now }
        }),
        origin: BTreeMap::new(),
        fsync: false,
        retention,
    }
}

/// Records the demo guest with a reset typed at 3·10⁶ if `reset`.
fn demo(dir: &Path, k: u32, retention: Retention, reset: bool) -> Icount {
    let boot = Boot {
        memory: 2 << 20,
        bios: Bios::None,
        kernel: Some(firmware::demo().to_elf()),
        ..Boot::default()
    };
    let (config, images) = prepare(&boot).unwrap();
    let door = ScriptedDoor::new().typing(Due::At(Icount(1_000_000)), b"hello");
    let mut history = History::record(
        dir,
        &config,
        images,
        Box::new(door),
        Engine::interp(),
        options(k, retention),
    )
    .unwrap();
    let mut pressed = !reset;
    loop {
        let until = if pressed {
            Icount(50_000_000)
        } else {
            Icount(3_000_000)
        };
        match history
            .run_live(until, &Stops::default(), FirstStep::Counts)
            .unwrap()
        {
            Stopped::End(end) => return history.finish(end).unwrap().at,
            _ if !pressed && history.machine().icount() == until => {
                history.machine_mut().inject(icount::Input::Reset).unwrap();
                pressed = true;
            }
            _ => {}
        }
    }
}

fn cut(from: &Path, range: (u64, u64), out: &Path) -> Result<Icount, MachineError> {
    let options = CutOptions {
        from: Icount(range.0),
        to: Icount(range.1),
        grid: Grid::fixed(18),
        recorder: RecorderOptions::default(),
        host_time: Box::new(HostNow::default),
        origin: BTreeMap::new(),
    };
    let recorded = Recorded::open(from)?;
    Ok(recorded.cut(out, Engine::interp(), options, |_| true)?.at)
}

fn root_at(dir: &Path, at: u64) -> Root {
    let mut timeline = Timeline::new(
        History::open(dir, Engine::interp()).unwrap(),
        TimelineOptions::default(),
    );
    timeline.seek(Icount(at)).unwrap();
    assert_eq!(timeline.position(), Icount(at));
    timeline.machine_mut().root().unwrap()
}

fn events(dir: &Path, from: u64) -> Vec<Event> {
    let log = LogReader::open(&events_path(dir)).unwrap();
    log.events_from(Icount(from))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn a_window_is_the_run_between_two_positions() {
    let place = tempfile::tempdir().unwrap();
    let (whole, part) = (place.path().join("whole"), place.path().join("part"));
    let end = demo(&whole, 20, Retention::default(), false);
    // Neither end is a snapshot's, and events stand right at them or not.
    for (index, (from, to)) in [
        (2_345_678, 4_567_890),
        (1_000_000, 1_000_001),
        (0, 500),
        (5_000_000, end.0),
    ]
    .into_iter()
    .enumerate()
    {
        let out = place.path().join(format!("cut-{index}"));
        assert_eq!(cut(&whole, (from, to), &out).unwrap(), Icount(to));
        let mut history = History::open(&out, Engine::interp()).unwrap();
        assert_eq!(
            (history.begin(), history.position(), history.end()),
            (Icount(from), Icount(from), Icount(to))
        );
        let verified = history.verify(|_| {}).unwrap();
        assert_eq!(verified.steps, Icount(to - from));
        let expected: Vec<Event> = events(&whole, from)
            .into_iter()
            .filter(|e| e.at < Icount(to))
            .collect();
        let found: Vec<Event> = events(&out, 0)
            .into_iter()
            .filter(|e| e.at < Icount(to))
            .collect();
        assert_eq!(found, expected);
        for at in [from, from + 1, from + (to - from) / 3, to] {
            assert_eq!(root_at(&out, at), root_at(&whole, at), "at {at}");
        }
        if to == end.0 {
            assert!(matches!(verified.end, Some(End::PowerOff(_))));
        }
    }
    // A cut of a cut.
    cut(&place.path().join("cut-0"), (3_000_000, 3_500_000), &part).unwrap();
    assert_eq!(root_at(&part, 3_400_000), root_at(&whole, 3_400_000));
    for (from, to) in [
        (2_345_677, 3_000_000),
        (3_000_000, 4_567_891),
        (3_000_000, 3_000_000),
    ] {
        let refused = cut(
            &place.path().join("cut-0"),
            (from, to),
            &place.path().join("none"),
        )
        .unwrap_err();
        assert!(refused.to_string().contains("2345678 to 4567890"), "{refused}");
    }
    assert!(!place.path().join("none").exists());
}

#[test]
fn going_back_in_a_window_ends_at_its_beginning() {
    let place = tempfile::tempdir().unwrap();
    let (whole, part) = (place.path().join("whole"), place.path().join("part"));
    demo(&whole, 20, Retention::default(), false);
    cut(&whole, (3_000_000, 6_000_000), &part).unwrap();
    let open = |dir: &Path| {
        Timeline::new(
            History::open(dir, Engine::interp()).unwrap(),
            TimelineOptions::default(),
        )
    };
    let (mut a, mut b) = (open(&whole), open(&part));
    a.seek(Icount(5_900_000)).unwrap();
    b.seek(Icount(5_900_000)).unwrap();
    let stops = Stops {
        watches: vec![Watch {
            addr: 0x8000_0000,
            len: 1 << 20,
            read: false,
            write: true,
        }],
        ..Stops::default()
    };
    let found = a.reverse_continue(&stops, Icount(0)).unwrap();
    assert!(matches!(found, Backward::Found { .. }));
    assert_eq!(b.reverse_continue(&stops, Icount(0)).unwrap(), found);
    assert!(matches!(
        b.reverse_continue(&Stops::default(), Icount(0)).unwrap(),
        Backward::Begin
    ));
    assert_eq!(b.position(), Icount(3_000_000));
    assert!(matches!(b.seek(Icount(5)).unwrap(), machine::Landed::Begin));
    // A write in the window's history branches there.
    b.seek(Icount(4_000_000)).unwrap();
    assert_eq!(b.machine_mut().begin(), Icount(3_000_000));
}

#[test]
fn windows_are_compared_where_both_have_steps() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    demo(&path("whole"), 20, Retention::default(), false);
    cut(&path("whole"), (2_000_000, 4_000_000), &path("a")).unwrap();
    cut(&path("whole"), (3_000_000, 4_000_000), &path("b")).unwrap();
    cut(&path("whole"), (5_000_000, 5_100_000), &path("c")).unwrap();
    let engine = || Engine::interp();
    let compare = |a: &str, b: &str| diff([&path(a), &path(b)], &engine, &Options::default(), &mut |_| {});
    let report = compare("a", "b").unwrap();
    assert!(report.equal, "{report}");
    assert!(report.compared.roots >= 1);
    let report = compare("whole", "b").unwrap();
    assert!(!report.equal && report.step.is_none() && report.power_on.is_none_or(|d| d.is_empty()));
    let refused = compare("a", "c").unwrap_err();
    assert!(
        refused.source.to_string().contains("no step"),
        "{}",
        refused.source
    );
}

#[test]
fn a_window_with_a_reset_holds_what_was_in_memory_at_power_on() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    demo(&path("whole"), 20, Retention::default(), true);
    cut(&path("whole"), (2_900_000, 4_000_000), &path("with")).unwrap();
    let mut history = History::open(&path("with"), Engine::interp()).unwrap();
    assert_eq!(history.begin(), Icount(2_900_000));
    history.verify(|_| {}).unwrap();
    assert_eq!(
        root_at(&path("with"), 3_500_000),
        root_at(&path("whole"), 3_500_000)
    );
    cut(&path("whole"), (3_500_000, 4_000_000), &path("without")).unwrap();
    let mut history = History::open(&path("without"), Engine::interp()).unwrap();
    history.verify(|_| {}).unwrap();
    // On a branch of it a reset can't be made, and says why.
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    timeline.seek(Icount(3_600_000)).unwrap();
    let history = timeline.machine_mut();
    history
        .write(|machine| machine.inject(icount::Input::Reset))
        .unwrap();
    let refused = history
        .run(Icount(3_600_010), &Stops::default(), FirstStep::Counts)
        .unwrap_err();
    assert!(
        refused.to_string().contains("what was in memory at power-on"),
        "{refused}"
    );
}

#[test]
fn a_flight_recorder_keeps_the_end_of_the_run() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let end = demo(&path("whole"), 16, Retention::default(), false);
    let steps = 1_500_000;
    let kept = Retention {
        steps: Some(steps),
        bytes: None,
    };
    assert_eq!(demo(&path("kept"), 16, kept, false), end);
    let mut history = History::open(&path("kept"), Engine::interp()).unwrap();
    let begin = history.begin();
    assert!(
        end.since(begin) >= steps && end.since(begin) <= steps + steps / 4,
        "{begin} to {end}"
    );
    assert_eq!(history.verify(|_| {}).unwrap().steps, Icount(end.since(begin)));
    for at in [begin.0, begin.0 + 1_000_000, end.0] {
        assert_eq!(root_at(&path("kept"), at), root_at(&path("whole"), at));
    }
    assert!(!path("kept").join("events").exists(), "its first file went");
    assert!(!path("kept").join("packs/0000.pack").exists());
    let size = |dir: &Path| -> u64 {
        let files = fs::read_dir(dir)
            .unwrap()
            .chain(fs::read_dir(dir.join("packs")).unwrap());
        files
            .map(|e| e.unwrap().metadata().unwrap())
            .filter(|m| m.is_file())
            .map(|m| m.len())
            .sum()
    };
    assert!(size(&path("kept")) < size(&path("whole")));
    let report = diff(
        [&path("whole"), &path("kept")],
        &|| Engine::interp(),
        &Options::default(),
        &mut |_| {},
    )
    .unwrap();
    assert!(report.equal, "{report}");
}

#[test]
fn a_recording_of_a_limited_size_keeps_what_fits() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let end = demo(&path("whole"), 14, Retention::default(), false);
    let size = |dir: &Path| -> u64 {
        let files = fs::read_dir(dir)
            .unwrap()
            .chain(fs::read_dir(dir.join("packs")).unwrap());
        files
            .map(|e| e.unwrap().metadata().unwrap())
            .filter(|m| m.is_file())
            .map(|m| m.len())
            .sum()
    };
    let limit = size(&path("whole")) / 2;
    let kept = Retention {
        steps: None,
        bytes: Some(limit),
    };
    assert_eq!(demo(&path("kept"), 14, kept, false), end);
    assert!(size(&path("kept")) <= limit, "{} of {limit}", size(&path("kept")));
    let mut history = History::open(&path("kept"), Engine::interp()).unwrap();
    assert!(history.begin() > Icount(0));
    history.verify(|_| {}).unwrap();
    assert_eq!(root_at(&path("kept"), end.0), root_at(&path("whole"), end.0));
}
