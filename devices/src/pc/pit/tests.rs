//! The 8254 by its data sheet.

use super::*;
use crate::fake::{Effect, Fake};

fn at(tick: u64) -> VirtualTime {
    CLOCK.at(tick).unwrap()
}

/// Programs counter `n` at the time that `cx` has.
fn program(pit: &mut Pit, cx: &mut Fake, n: u8, mode: u8, count: u16) {
    pit.write(cx, CONTROL_WORD, 1, u64::from(n << 6 | 0x30 | mode << 1));
    pit.write(cx, n.into(), 1, u64::from(count & 0xff));
    pit.write(cx, n.into(), 1, u64::from(count >> 8));
}

/// The ticks at which counter 0's line changes, up to `until`, and the levels.
fn changes(pit: &mut Pit, cx: &mut Fake, until: u64) -> Vec<(u64, bool)> {
    let mut seen = Vec::new();
    while let Some(due) = pit.deadline().filter(|due| *due <= at(until)) {
        cx.now = due;
        pit.fire(cx);
        for effect in cx.take() {
            let Effect::Line(0, level) = effect else { panic!() };
            seen.push((CLOCK.ticks(due.0), level));
        }
    }
    cx.now = at(until);
    seen
}

fn out2(pit: &mut Pit, cx: &mut Fake) -> bool {
    pit.read(cx, PORT_61, 1) & 0x20 != 0
}

#[test]
fn mode_0_interrupts_n_plus_1_clocks_after_the_write() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    cx.now = at(100);
    program(&mut pit, &mut cx, 0, 0, 4);
    assert_eq!(changes(&mut pit, &mut cx, 200_000), [(105, true)]);
    assert_eq!(pit.deadline(), None);
    // It counts on, and a new count starts it again with OUT low.
    pit.write(&mut cx, 0, 1, 9);
    assert_eq!(cx.take(), [Effect::Line(0, false)]);
    assert_eq!(pit.deadline(), None);
    pit.write(&mut cx, 0, 1, 0);
    assert_eq!(changes(&mut pit, &mut cx, 300_000), [(200_010, true)]);
}

#[test]
fn mode_2_is_low_for_one_clock_in_n() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 2, 5);
    assert_eq!(cx.take(), [Effect::Line(0, true)]);
    assert_eq!(
        changes(&mut pit, &mut cx, 12),
        [(5, false), (6, true), (10, false), (11, true)]
    );
    // A new count waits for the end of the cycle.
    pit.write(&mut cx, 0, 1, 3);
    pit.write(&mut cx, 0, 1, 0);
    assert_eq!(
        changes(&mut pit, &mut cx, 20),
        [(15, false), (16, true), (18, false), (19, true)]
    );
}

#[test]
fn mode_2_does_not_drift() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 2, 11932);
    cx.take();
    let seen = changes(&mut pit, &mut cx, 1_193_182 * 20);
    let rises: Vec<u64> = seen
        .iter()
        .filter(|change| change.1)
        .map(|change| change.0)
        .collect();
    assert_eq!(rises.len(), 1_193_182 * 20 / 11932);
    assert!(
        rises
            .iter()
            .enumerate()
            .all(|(k, &tick)| tick == 1 + 11932 * (k as u64 + 1))
    );
}

#[test]
fn mode_3_halves() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 3, 5);
    cx.take();
    assert_eq!(
        changes(&mut pit, &mut cx, 11),
        [(4, false), (6, true), (9, false), (11, true)]
    );
    // A new count takes over at the half: high to 14, then 2 low of 4.
    pit.write(&mut cx, 0, 1, 4);
    pit.write(&mut cx, 0, 1, 0);
    assert_eq!(
        changes(&mut pit, &mut cx, 20),
        [(14, false), (16, true), (18, false), (20, true)]
    );
}

#[test]
fn mode_4_strobes_once() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 4, 3);
    assert_eq!(cx.take(), [Effect::Line(0, true)]);
    assert_eq!(changes(&mut pit, &mut cx, 200_000), [(4, false), (5, true)]);
}

#[test]
fn a_late_boundary_still_sees_the_edge() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 2, 100);
    cx.take();
    cx.now = at(150);
    pit.fire(&mut cx);
    assert_eq!(cx.take(), [Effect::Line(0, false), Effect::Line(0, true)]);
    // An access that comes first does the same.
    cx.now = at(250);
    pit.read(&mut cx, 0, 1);
    assert_eq!(cx.take(), [Effect::Line(0, false), Effect::Line(0, true)]);
    assert_eq!(pit.deadline(), Some(at(300)));
}

#[test]
fn tsc_calibration_by_counter_2() {
    // As Linux does it: mode 0 with the gate up, then wait for OUT2.
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    pit.write(&mut cx, PORT_61, 1, 1);
    program(&mut pit, &mut cx, 2, 0, 11931);
    assert!(!out2(&mut pit, &mut cx));
    cx.now = VirtualTime(at(11932).0 - 1);
    assert!(!out2(&mut pit, &mut cx));
    cx.now = at(11932);
    assert!(out2(&mut pit, &mut cx));
    assert!(cx.effects.is_empty());
}

#[test]
fn gate_stops_and_triggers() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 2, 0, 10);
    cx.now = at(50); // gate low: nothing counts
    pit.write(&mut cx, PORT_61, 1, 1);
    cx.now = at(56);
    pit.write(&mut cx, PORT_61, 1, 0);
    cx.now = at(90);
    pit.write(&mut cx, PORT_61, 1, 1);
    cx.now = at(93);
    assert!(!out2(&mut pit, &mut cx));
    cx.now = at(94);
    assert!(out2(&mut pit, &mut cx));

    // One-shot: low from the clock after the trigger for N clocks.
    program(&mut pit, &mut cx, 2, 1, 10);
    assert!(out2(&mut pit, &mut cx));
    pit.write(&mut cx, PORT_61, 1, 0);
    pit.write(&mut cx, PORT_61, 1, 1);
    for (tick, level) in [(94, true), (95, false), (104, false), (105, true), (9999, true)] {
        cx.now = at(tick);
        assert_eq!(out2(&mut pit, &mut cx), level, "{tick}");
    }
    // Hardware-triggered strobe.
    program(&mut pit, &mut cx, 2, 5, 10);
    pit.write(&mut cx, PORT_61, 1, 0);
    pit.write(&mut cx, PORT_61, 1, 1);
    for (tick, level) in [(10_009, true), (10_010, false), (10_011, true)] {
        cx.now = at(tick);
        assert_eq!(out2(&mut pit, &mut cx), level, "{tick}");
    }
    // Rate generator: OUT is high while the gate is low, and a rise starts a cycle.
    program(&mut pit, &mut cx, 2, 2, 10);
    cx.now = at(10_020); // would be the low clock at 10021
    pit.write(&mut cx, PORT_61, 1, 0);
    cx.now = at(10_030);
    assert!(out2(&mut pit, &mut cx));
    pit.write(&mut cx, PORT_61, 1, 1);
    for (tick, level) in [(10_039, true), (10_040, false), (10_041, true), (10_050, false)] {
        cx.now = at(tick);
        assert_eq!(out2(&mut pit, &mut cx), level, "{tick}");
    }
}

#[test]
fn counts_read_and_latch() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    program(&mut pit, &mut cx, 0, 2, 0x1234);
    cx.now = at(1 + 0x34);
    pit.write(&mut cx, CONTROL_WORD, 1, 0x00); // latch
    cx.now = at(1 + 0x100);
    pit.write(&mut cx, CONTROL_WORD, 1, 0x00); // ignored until read
    assert_eq!([0, 1].map(|_| pit.read(&mut cx, 0, 1)), [0x00, 0x12]);
    assert_eq!([0, 1].map(|_| pit.read(&mut cx, 0, 1)), [0x34, 0x11]);
    // Read back status and count of counter 0: status first.
    pit.write(&mut cx, CONTROL_WORD, 1, 0xc2);
    cx.now = at(9999);
    assert_eq!([0, 1, 2].map(|_| pit.read(&mut cx, 0, 1)), [0xb4, 0x34, 0x11]);
    // Counts of mode 3 go by two.
    program(&mut pit, &mut cx, 2, 3, 6);
    pit.write(&mut cx, PORT_61, 1, 1);
    let read: Vec<u64> = (0..7)
        .map(|k| {
            cx.now = at(10_000 + k);
            pit.write(&mut cx, CONTROL_WORD, 1, 0x80);
            pit.read(&mut cx, 2, 1) | pit.read(&mut cx, 2, 1) << 8
        })
        .collect();
    assert_eq!(read, [6, 4, 2, 6, 4, 2, 6]);
}

#[test]
fn null_count_until_loaded() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    pit.write(&mut cx, CONTROL_WORD, 1, 0x34);
    let status = |pit: &mut Pit, cx: &mut Fake| {
        pit.write(cx, CONTROL_WORD, 1, 0xe2);
        pit.read(cx, 0, 1)
    };
    assert_eq!(status(&mut pit, &mut cx), 0xf4);
    pit.write(&mut cx, 0, 1, 100);
    pit.write(&mut cx, 0, 1, 0);
    assert_eq!(status(&mut pit, &mut cx), 0xf4);
    cx.now = at(1);
    assert_eq!(status(&mut pit, &mut cx), 0xb4);
}

#[test]
fn bcd() {
    let (mut pit, mut cx) = (Pit::new(0), Fake::new());
    pit.write(&mut cx, CONTROL_WORD, 1, 0x35); // mode 2
    pit.write(&mut cx, 0, 2, 0); // both bytes would go to ports 0x40 and 0x41
    pit.write(&mut cx, 0, 1, 0);
    cx.now = at(2);
    assert_eq!([0, 1].map(|_| pit.read(&mut cx, 0, 1)), [0x99, 0x99]);
    assert_eq!(pit.deadline(), Some(at(10_000)));
    pit.write(&mut cx, CONTROL_WORD, 1, 0x31);
    pit.write(&mut cx, 0, 1, 0x00);
    pit.write(&mut cx, 0, 1, 0x10);
    assert_eq!(pit.deadline(), Some(at(1003)));
}
