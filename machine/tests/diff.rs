//! Comparing recordings, explaining replays that depart from theirs, and two engines on one door: on the
//! embedded guests, and one that echoes what is typed.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use icount::{
    Body, Display, Door, DoorError, Due, Effect, End, Event, Icount, Idle, Input, LogPosition, LogReader,
    LogWriter, Ready, ScriptedDoor, VirtualTime,
};
use machine::board::{self, Images};
use machine::check::Checked;
use machine::diff::{First, Options, Report, diff, explain};
use machine::history::{HostNow, RecordOptions, events_path};
use machine::{
    AddressKind, Config, Engine, EngineKind, FirstStep, HartStart, History, MachineError, Stopped, Stops,
};
use snapshot::RecorderOptions;
use snapshot::grid::Grid;

const RAM: u64 = 0x8000_0000;

fn config(harts: u8, schedule_seed: Option<u64>) -> Config {
    Config {
        board: "riscv-virt".into(),
        memory: 16 << 20,
        harts: (0..harts)
            .map(|h| HartStart {
                pc: RAM,
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

/// A guest that sends back each byte that it gets, until `q`, and switches off.
fn echo() -> Vec<u8> {
    let i = |op: u32, f3: u32, rd: u32, rs1: u32, imm: i32| {
        (imm as u32) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | op
    };
    let s = |f3: u32, rs1: u32, rs2: u32| rs2 << 20 | rs1 << 15 | f3 << 12 | 0x23;
    let b = |f3: u32, rs1: u32, rs2: u32, to: i32| {
        let to = to as u32;
        let high = (to >> 12 & 1) << 31 | (to >> 5 & 0x3f) << 25;
        high | rs2 << 20 | rs1 << 15 | f3 << 12 | (to >> 1 & 0xf) << 8 | (to >> 11 & 1) << 7 | 0x63
    };
    let lui = |rd: u32, high: u32| high << 12 | rd << 7 | 0x37;
    let words = [
        lui(5, 0x10000),
        lui(7, 0x100),
        lui(28, 5),
        i(0x13, 0, 28, 28, 0x555),
        i(0x13, 0, 29, 0, b'q'.into()),
        i(3, 4, 6, 5, 5),    // 20: lbu t1, 5(t0)
        i(0x13, 7, 6, 6, 1), // 24: andi t1, t1, 1
        b(0, 6, 0, -8),      // 28: beqz t1, 20
        i(3, 4, 10, 5, 0),   // 32: lbu a0, 0(t0)
        s(0, 5, 10),         // 36: sb a0, 0(t0)
        b(1, 10, 29, -20),   // 40: bne a0, t4, 20
        s(2, 7, 28),         // 44: sw t3, 0(t2)
        0x6f,                // 48: j .
    ];
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

struct Run {
    images: Images,
    config: Config,
    door: ScriptedDoor,
    kind: EngineKind,
    grid: u32,
    limit: Icount,
}

impl Run {
    fn of(image: &[u8]) -> Run {
        Run {
            images: vec![(RAM, image.to_vec())],
            config: config(1, None),
            door: ScriptedDoor::new(),
            kind: EngineKind::Jit,
            grid: 16,
            limit: Icount(100_000_000),
        }
    }

    fn guest(guest: &firmware::Guest) -> Run {
        Run::of(&guest.image)
    }

    fn typed(text: &[u8]) -> Run {
        let mut run = Run::of(&echo());
        run.door = ScriptedDoor::new()
            .typing(Due::At(Icount(50_000)), &text[..1])
            .typing(Due::At(Icount(300_000)), &text[1..]);
        run
    }

    fn record(self, dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        let options = RecordOptions {
            grid: Grid::fixed(self.grid),
            recorder: RecorderOptions::default(),
            host_time: Box::new(HostNow::default),
            origin: BTreeMap::new(),
            fsync: false,
            retention: Default::default(),
        };
        let engine = Engine::new(self.kind).unwrap();
        let door = Box::new(self.door);
        let mut history = History::record(&path, &self.config, self.images, door, engine, options).unwrap();
        let end = loop {
            match history
                .run_live(self.limit, &Stops::default(), FirstStep::Counts)
                .unwrap()
            {
                Stopped::Reached if history.machine().icount() >= self.limit => break End::Stopped,
                Stopped::Reached => {}
                Stopped::End(end) => break end,
                other => panic!("{other:?}"),
            }
        };
        history.finish(end).unwrap();
        path
    }
}

fn engine() -> Engine {
    Engine::new(EngineKind::Jit).unwrap()
}

fn compare(a: &Path, b: &Path) -> Report {
    compare_with(a, b, &Options::default())
}

fn compare_with(a: &Path, b: &Path, options: &Options) -> Report {
    let report = diff([a, b], &engine, options, &mut |_| {}).unwrap();
    // Both forms can be made of every report.
    let text = report.to_string();
    assert!(text.contains("diff: "), "{text}");
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    assert_eq!(json["equal"], report.equal);
    report
}

#[test]
fn recordings_of_the_same_are_equal_whatever_made_them() {
    let dir = tempfile::tempdir().unwrap();
    let guest = firmware::smp_demo(2);
    let run = |kind, grid| Run {
        config: config(2, Some(7)),
        kind,
        grid,
        ..Run::guest(&guest)
    };
    let a = run(EngineKind::Jit, 16).record(dir.path(), "a");
    let b = run(EngineKind::Interp, 17).record(dir.path(), "b");
    let report = compare(&a, &b);
    assert!(report.equal, "{report}");
    assert!(
        report.compared.events > 100 && report.compared.roots > 3,
        "{report}"
    );
    assert!(report.to_string().contains("all equal"), "{report}");
}

#[test]
fn another_byte_typed_is_found_where_it_comes_in_and_where_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let a = Run::typed(b"aq").record(dir.path(), "a");
    let b = Run::typed(b"bq").record(dir.path(), "b");
    let report = compare(&a, &b);
    assert!(!report.equal && report.power_on.is_none(), "{report}");
    let Some(First::Event {
        at,
        a: Some(x),
        b: Some(y),
        ..
    }) = &report.first
    else {
        panic!("{report}");
    };
    let key = |byte| Body::Input(Input::Console { port: 0, byte });
    assert_eq!((&x.body, &y.body), (&key(b'a'), &key(b'b')));
    let step = report.step.as_ref().unwrap();
    assert!(step.at > *at && step.at.0 < at.0 + 10, "{report}");
    assert_eq!(step.a[0].pc, RAM + 32);
    assert!(step.a[0].text.starts_with("lbu"), "{report}");
    assert_eq!(step.differences.registers.len(), 1, "{report}");
    let register = &step.differences.registers[0];
    assert_eq!(
        (register.name, &*register.a, &*register.b),
        ("a0", "0x61", "0x62")
    );
    assert_eq!(step.common.len(), 16);
    assert_eq!(step.common.last().unwrap().pc, RAM + 28);
    assert_eq!(step.differences.memory, []);
    assert!(!report.events.common.is_empty());
}

#[test]
fn another_byte_of_the_image_is_found_at_power_on_and_where_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let guest = firmware::demo();
    let limit = Icount(1_500_000);
    let a = Run {
        limit,
        ..Run::guest(&guest)
    }
    .record(dir.path(), "a");
    // The second letter of what is printed first.
    let log = LogReader::open(&events_path(&a)).unwrap();
    let printed = log
        .events_from(Icount(0))
        .unwrap()
        .filter_map(|event| match event.unwrap().body {
            Body::Effect(Effect::ConsoleOut { byte, .. }) => Some(byte),
            _ => None,
        });
    let text: Vec<u8> = printed.take(8).collect();
    let offset = guest.image.windows(8).position(|w| w == text).unwrap() + 1;
    let mut patched = guest.image.clone();
    patched[offset] = b'#';
    let b = Run {
        limit,
        ..Run::of(&patched)
    }
    .record(dir.path(), "b");
    let report = compare(&a, &b);
    let address = RAM + offset as u64;
    let power_on = report.power_on.as_ref().unwrap();
    assert_eq!(power_on.memory.len(), 1, "{report}");
    assert_eq!((power_on.memory[0].addr, power_on.memory[0].len), (address, 1));
    assert_eq!(power_on.memory[0].b, "23");
    assert!(
        power_on.registers.is_empty() && power_on.other.is_empty(),
        "{report}"
    );
    assert!(
        matches!(report.first, Some(First::Root { at: Icount(0), .. })),
        "{report}"
    );
    let Some(step) = &report.step else {
        panic!("{report}");
    };
    assert!(step.a[0].text.starts_with("lbu"), "{report}");
    assert_eq!(step.differences.memory, []);
    assert_eq!(step.differences.registers.len(), 1, "{report}");

    // The byte doesn't matter: then what differs is the console.
    let options = Options {
        ignore: std::iter::once(address..address + 1).collect(),
        ..Options::default()
    };
    let report = compare_with(&a, &b, &options);
    assert!(matches!(report.first, Some(First::Event { .. })), "{report}");
}

#[test]
fn a_patched_instruction_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut patched = echo();
    // `li t4, 'q'` becomes `li t4, 'r'`.
    patched[18] ^= 0x30;
    let a = Run::typed(b"aq").record(dir.path(), "a");
    let mut run = Run::typed(b"aq");
    run.images = vec![(RAM, patched)];
    run.limit = Icount(1_000_000);
    let b = run.record(dir.path(), "b");
    let report = compare(&a, &b);
    let step = report.step.as_ref().unwrap();
    assert_eq!((step.at, step.a[0].pc), (Icount(4), RAM + 16), "{report}");
    assert_ne!(step.a[0].text, step.b[0].text, "{report}");
    assert_eq!(step.differences.registers[0].name, "t4");
}

#[test]
fn other_schedules_part_at_a_switch_of_harts() {
    let dir = tempfile::tempdir().unwrap();
    let guest = firmware::smp_demo(2);
    let run = |seed| Run {
        config: config(2, Some(seed)),
        ..Run::guest(&guest)
    };
    let a = run(7).record(dir.path(), "a");
    let b = run(8).record(dir.path(), "b");
    let report = compare(&a, &b);
    assert_eq!(report.settings.len(), 1);
    assert_eq!(report.settings[0].name, "machine.schedule_seed");
    assert_eq!(report.power_on.as_ref().unwrap().other, ["the schedule of harts"]);
    let step = report.step.as_ref().unwrap();
    assert_ne!(step.a[0].hart, step.b[0].hart, "{report}");
    let switches = step.events.iter().flatten();
    let switch = |e: &&Event| matches!(e.body, Body::Effect(Effect::HartSwitch { .. }));
    assert_eq!(switches.filter(switch).count(), 1, "{report}");
}

#[test]
fn a_prefix_is_called_one() {
    let dir = tempfile::tempdir().unwrap();
    let guest = firmware::fp_mix();
    let a = Run::guest(&guest).record(dir.path(), "a");
    let end = LogReader::open(&events_path(&a)).unwrap().end().0;
    let limit = Icount(end.0 * 2 / 3);
    let b = Run {
        limit,
        ..Run::guest(&guest)
    }
    .record(dir.path(), "b");
    let report = compare(&a, &b);
    assert!(
        matches!(report.first, Some(First::Ends { at, .. }) if at == limit),
        "{report}"
    );
    assert!(report.step.is_none() && !report.equal, "{report}");
    assert!(report.to_string().contains("b is a prefix of a"), "{report}");
}

/// The paging guest never reads a byte, but sees in the line status that there is one.
fn typed_for_nothing(dir: &Path, name: &str, text: &[u8]) -> PathBuf {
    let mut run = Run::guest(&firmware::paging());
    run.door = ScriptedDoor::new().typing(Due::At(Icount(1000)), text);
    run.record(dir, name)
}

#[test]
fn a_difference_that_vanishes_again_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let a = typed_for_nothing(dir.path(), "a", b"");
    let b = typed_for_nothing(dir.path(), "b", b"x");
    let report = compare(&a, &b);
    let Some(First::Event { at, .. }) = report.first else {
        panic!("{report}");
    };
    let step = report.step.as_ref().unwrap();
    assert!(step.at > at && step.a[0].text.starts_with("lbu t1,5"), "{report}");
    let register = &step.differences.registers[0];
    assert_eq!((&*register.a, &*register.b), ("0x60", "0x61"));
}

/// A guest that counts down, reads a byte behind its code into a register, clears that, and counts down again.
fn reads_a_byte(byte: u8) -> Vec<u8> {
    let words: [u32; 9] = [
        0x0000_0297, // auipc t0, 0
        0x0080_0337, // lui t1, 0x800
        0xfff3_0313, // 8: addi t1, t1, -1
        0xfe03_1ee3, // bnez t1, 8
        0x4002_8503, // lb a0, 0x400(t0)
        0x0000_0513, // li a0, 0
        0x0080_0337, // lui t1, 0x800
        0xfff3_0313, // 28: addi t1, t1, -1
        0xfe03_1ee3, // bnez t1, 28
    ];
    let mut image: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    image.extend(0x6fu32.to_le_bytes()); // j .
    image.resize(0x400, 0);
    image.push(byte);
    image
}

#[test]
fn a_byte_that_is_read_once_is_found_however_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name, byte| {
        let mut run = Run::of(&reads_a_byte(byte));
        run.limit = Icount(40_000_000);
        run.grid = 23;
        run.record(dir.path(), name)
    };
    let (a, b) = (record("a", 1), record("b", 2));
    let report = compare(&a, &b);
    let step = report.step.as_ref().unwrap();
    // Both loops are longer than any stretch that is compared step by step.
    assert_eq!(step.at, Icount(2 + 2 * 0x80_0000), "{report}");
    assert!(step.a[0].text.starts_with("lb a0"), "{report}");
    assert_eq!(report.compared.exact_from, Some(Icount(0)));
    // Of what is ignored, nothing differs but what is made of it.
    let options = Options {
        ignore: std::iter::once(RAM + 0x400..RAM + 0x401).collect(),
        ..Options::default()
    };
    assert!(compare_with(&a, &b, &options).equal);
}

#[test]
fn an_input_that_nobody_reads_changes_no_step() {
    let dir = tempfile::tempdir().unwrap();
    let a = typed_for_nothing(dir.path(), "a", b"x");
    let b = typed_for_nothing(dir.path(), "b", b"y");
    let report = compare(&a, &b);
    assert!(matches!(report.first, Some(First::Event { .. })), "{report}");
    assert!(report.step.is_none() && !report.equal, "{report}");
}

/// Writes a recording's log anew with one effect changed; yields where.
fn tamper(dir: &Path) -> Icount {
    let path = events_path(dir);
    let old = dir.join("old");
    std::fs::rename(&path, &old).unwrap();
    let log = LogReader::open(&old).unwrap();
    let mut writer = LogWriter::create(&path, NonZeroU64::MIN).unwrap();
    let mut changed = None;
    for event in log.events_from(Icount(0)).unwrap() {
        let Event { at, time, hart, body } = event.unwrap();
        match body {
            Body::Input(input) => writer.input(at, time, &input).unwrap(),
            Body::Effect(Effect::ConsoleOut { port, byte }) if changed.is_none() && at.0 > 200_000 => {
                changed = Some(at);
                let effect = Effect::ConsoleOut { port, byte: byte ^ 1 };
                writer.effect(at, time, hart, &effect).unwrap();
            }
            Body::Effect(effect) => writer.effect(at, time, hart, &effect).unwrap(),
        }
    }
    let (at, time, end) = log.end();
    writer.end(at, time, end.unwrap()).unwrap();
    changed.unwrap()
}

#[test]
fn a_replay_that_departs_from_its_recording_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let a = Run::typed(b"aq").record(dir.path(), "a");
    let at = tamper(&a);
    let error = History::open(&a, engine()).unwrap().verify(|_| {}).unwrap_err();
    assert!(error.is_divergence(), "{error}");
    let explained = explain(&a, &engine, &error, 16).unwrap().unwrap();
    let text = explained.to_string();
    assert_eq!(explained.at, at, "{text}");
    assert_eq!(explained.pc, format!("{:#x}", RAM + 36), "{text}");
    assert!(explained.text.starts_with("sb"), "{text}");
    assert_eq!(explained.steps.len(), 16);
    assert_eq!(explained.equal.0, at.0 >> 16 << 16, "{text}");
    assert!(
        explained
            .registers
            .iter()
            .any(|(name, value)| *name == "a0" && value == "0x71"),
        "{text}"
    );
    let (Some(recorded), Some(replayed)) = (&explained.recorded, &explained.replayed) else {
        panic!("{text}");
    };
    assert_ne!(recorded.body, replayed.body);
    assert!(!explained.events.is_empty());
    assert!(serde_json::to_value(&explained).is_ok());
    // Beside what it was, the log is what differs; its own replay doesn't get past that.
    let good = Run::typed(b"aq").record(dir.path(), "good");
    let failed = diff([&good, &a], &engine, &Options::default(), &mut |_| {}).unwrap_err();
    assert!(
        failed.path == a && failed.source.is_divergence(),
        "{failed}: {}",
        failed.source
    );
    // Not every failure is a departure.
    let other = explain(&a, &engine, &MachineError::Interrupted, 16).unwrap();
    assert!(other.is_none());
}

const KINDS: [EngineKind; 2] = [EngineKind::Jit, EngineKind::Interp];

#[test]
fn both_engines_do_the_same_on_one_door() {
    let guests = [
        (firmware::demo().image, 1),
        (firmware::paging().image, 1),
        (firmware::fp_mix().image, 1),
        (firmware::smp_demo(4).image, 4),
        (echo(), 1),
    ];
    for (image, harts) in guests {
        let door = Run::typed(b"abcq").door;
        let images = vec![(RAM, image)];
        let mut checked = Checked::new(&config(harts, Some(3)), images, door, KINDS).unwrap();
        let stopped = checked.run(Icount(2_000_000)).unwrap();
        assert!(
            matches!(stopped, Stopped::Reached | Stopped::End(_)),
            "{stopped:?}"
        );
        let steps = checked.lead().icount().0;
        assert!(checked.roots() > steps / machine::check::MARK, "{steps}");
    }
}

/// Hands the first machine another byte than the second; while idle, lets time pass, and interrupts.
struct Altered(Box<dyn Door + Send>, Arc<OnceLock<Arc<AtomicBool>>>);

impl Door for Altered {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.0.effect(at, time, hart, effect)
    }
    fn send(&mut self, port: u8, frame: &[u8]) {
        self.0.send(port, frame);
    }
    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        Ok(self.0.input(at, time, ready)?.map(|input| match input {
            Input::Console { port, byte: b'b' } => Input::Console { port, byte: b'c' },
            other => other,
        }))
    }
    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.0.wants_display(at, time)
    }
    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.0.display(at, time, display);
    }
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.0.next_input()
    }
    fn idle(&mut self, at: Icount, now: VirtualTime, due: Option<VirtualTime>) -> Result<Idle, DoorError> {
        let Some(interrupt) = self.1.get() else {
            return self.0.idle(at, now, due);
        };
        interrupt.store(now.0 > 5_000, Ordering::Relaxed);
        Ok(Idle::Until(VirtualTime(now.0 + 1_000)))
    }
    fn disk_block(&mut self, at: Icount, t: VirtualTime, d: u8, b: u64) -> Result<Vec<u8>, DoorError> {
        self.0.disk_block(at, t, d, b)
    }
    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.0.inject(at, time, input)
    }
    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        self.0.progress(at, time, tick)
    }
    fn position(&self) -> LogPosition {
        self.0.position()
    }
    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.0.seek(position)
    }
    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        self.0.finish(at, time, end)
    }
}

#[test]
fn two_machines_that_part_are_stopped() {
    let door = Run::typed(b"abcq").door;
    let images = vec![(RAM, echo())];
    let config = config(1, None);
    let mut checked = Checked::with(&config, images, door, KINDS, |images, door| {
        board::build(&config, images, Box::new(Altered(door, Arc::default())), engine())
    })
    .unwrap();
    let error = checked.run(Icount(2_000_000)).unwrap_err();
    assert!(error.is_divergence());
    let MachineError::Check(mismatch) = error else {
        panic!("{error}");
    };
    let text = mismatch.to_string();
    // From a snapshot and the same inputs, the engines agree.
    assert!(!mismatch.reproduced, "{text}");
    assert!(mismatch.differ.0 - mismatch.equal.0 <= 512, "{text}");
    let event = mismatch.event.as_ref().unwrap();
    assert!(event.expected.is_some() && event.got.is_some(), "{text}");
    assert!(mismatch.steps.iter().any(|s| s.pc == RAM + 32), "{text}");
    assert!(!mismatch.events.is_empty(), "{text}");
}

fn options() -> RecordOptions {
    RecordOptions {
        grid: Grid::fixed(16),
        recorder: RecorderOptions::default(),
        host_time: Box::new(HostNow::default),
        origin: BTreeMap::new(),
        fsync: false,
        retention: Default::default(),
    }
}

#[test]
fn the_reset_button_is_replayed_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let guest = firmware::paging();
    let images = vec![(guest.load, guest.image.clone())];
    let config = config(1, None);
    let mut checked = Checked::with(&config, images, ScriptedDoor::new(), KINDS, |images, door| {
        History::record(&path, &config, images, door, engine(), options())
    })
    .unwrap();
    checked.run(Icount(100_000)).unwrap();
    checked.lead_mut().machine_mut().inject(Input::Reset).unwrap();
    let stopped = checked.run(Icount(100_000_000)).unwrap();
    let Stopped::End(end) = stopped else {
        panic!("{stopped:?}");
    };
    checked.into_lead().finish(end).unwrap();
    let mut history = History::open(&path, engine()).unwrap();
    assert_eq!(history.verify(|_| {}).unwrap().end, Some(end));
}

/// Two guests that wait: `wfi` with nothing enabled, for ever.
fn waiting(dir: &Path) -> (History, Arc<OnceLock<Arc<AtomicBool>>>) {
    let image = [0x1050_0073_u32, 0x0000_006f].map(u32::to_le_bytes).concat();
    let flag: Arc<OnceLock<Arc<AtomicBool>>> = Arc::default();
    let door = Box::new(Altered(Box::new(ScriptedDoor::new()), Arc::clone(&flag)));
    let images = vec![(RAM, image)];
    let history = History::record(dir, &config(1, None), images, door, engine(), options()).unwrap();
    (history, flag)
}

fn replays(dir: &Path) {
    let mut history = History::open(dir, engine()).unwrap();
    history.verify(|_| {}).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_run_that_is_ended_while_it_idles_replays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let (mut history, flag) = waiting(&path);
    flag.set(history.machine().interrupt_flag()).unwrap();
    let stopped = history
        .run_live(Icount(100), &Stops::default(), FirstStep::Counts)
        .unwrap();
    assert_eq!(stopped, Stopped::Interrupted);
    assert!(history.machine().time().0 > 5_000);
    history.finish(End::Stopped).unwrap();
    replays(&path);
}

#[test]
fn a_run_that_ends_behind_a_debuggers_write_replays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let (mut history, _) = waiting(&path);
    history
        .run_live(Icount(1), &Stops::default(), FirstStep::Counts)
        .unwrap();
    let machine = history.machine_mut();
    machine
        .debug_write(AddressKind::Physical, RAM + 64, b"new")
        .unwrap();
    history.finish(End::Stopped).unwrap();
    replays(&path);
}
