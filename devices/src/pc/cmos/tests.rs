//! The clock by its data sheet, and as Linux and SeaBIOS use it.

use super::*;
use crate::fake::{Effect, Fake};

/// 2023-11-14 22:13:20 UTC, a Tuesday.
const EPOCH: u64 = 1_700_000_000_000_000_000;

fn cmos() -> (Cmos, Fake) {
    let contents = Contents {
        low_memory: 3 << 30,
        high_memory: 5 << 30,
        boot_order: [2, 3, 1],
        harts: 4,
    };
    (Cmos::new(8, EPOCH, &contents), Fake::new())
}

fn get(cmos: &mut Cmos, cx: &mut Fake, index: usize) -> u8 {
    cmos.write(cx, 0, 1, index as u64 | 0x80);
    cmos.read(cx, 1, 1) as u8
}

fn put(cmos: &mut Cmos, cx: &mut Fake, index: usize, value: u8) {
    cmos.write(cx, 0, 2, u64::from(value) << 8 | index as u64);
}

fn clock(cmos: &mut Cmos, cx: &mut Fake) -> [u8; 8] {
    [
        CENTURY,
        YEAR,
        MONTH,
        DAY_OF_MONTH,
        DAY_OF_WEEK,
        HOURS,
        MINUTES,
        SECONDS,
    ]
    .map(|index| get(cmos, cx, index))
}

#[test]
fn dates_there_and_back() {
    // Known days, checked with date(1).
    for (days_since, ymd) in [
        (0, (1970, 1, 1)),
        (11_016, (2000, 2, 29)),
        (19_675, (2023, 11, 14)),
        (47_540, (2100, 2, 28)),
        (47_541, (2100, 3, 1)),
        (-25_567, (1900, 1, 1)),
    ] {
        assert_eq!((days(ymd.0, ymd.1, ymd.2), date(days_since)), (days_since, ymd));
    }
    for day in -800_000..800_000 {
        let (y, m, d) = date(day);
        assert_eq!(days(y, m, d), day);
    }
}

#[test]
fn the_date_in_every_format() {
    let (mut cmos, mut cx) = cmos();
    assert_eq!(
        clock(&mut cmos, &mut cx),
        [0x20, 0x23, 0x11, 0x14, 3, 0x22, 0x13, 0x20]
    );
    put(&mut cmos, &mut cx, B, BINARY | HOURS_24);
    assert_eq!(clock(&mut cmos, &mut cx), [20, 23, 11, 14, 3, 22, 13, 20]);
    put(&mut cmos, &mut cx, B, 0);
    assert_eq!(get(&mut cmos, &mut cx, HOURS), 0x90);
    put(&mut cmos, &mut cx, HOURS, 0x12); // midnight
    cx.now = VirtualTime(NS * 60);
    assert_eq!(
        clock(&mut cmos, &mut cx),
        [0x20, 0x23, 0x11, 0x14, 3, 0x12, 0x14, 0x20]
    );
    put(&mut cmos, &mut cx, HOURS, 0x92); // noon
    put(&mut cmos, &mut cx, B, HOURS_24);
    assert_eq!(get(&mut cmos, &mut cx, HOURS), 0x12);
}

#[test]
fn setting_the_clock_as_linux_does() {
    let (mut cmos, mut cx) = cmos();
    cx.now = VirtualTime(NS / 4);
    put(&mut cmos, &mut cx, B, SET | HOURS_24);
    put(&mut cmos, &mut cx, A, 0x76);
    let date = [0x20, 0x24, 0x02, 0x29, 5, 0x23, 0x59, 0x59];
    let registers = [
        CENTURY,
        YEAR,
        MONTH,
        DAY_OF_MONTH,
        DAY_OF_WEEK,
        HOURS,
        MINUTES,
        SECONDS,
    ];
    for (register, value) in registers.into_iter().zip(date) {
        put(&mut cmos, &mut cx, register, value);
    }
    cx.now = VirtualTime(NS * 10); // it stands still
    assert_eq!(clock(&mut cmos, &mut cx), date);
    put(&mut cmos, &mut cx, B, HOURS_24);
    put(&mut cmos, &mut cx, A, 0x26);
    // Half a second later the first update.
    cx.now = VirtualTime(NS * 10 + NS / 2 - 1);
    assert_eq!(clock(&mut cmos, &mut cx), date);
    assert_eq!(get(&mut cmos, &mut cx, A), 0xa6);
    cx.now = VirtualTime(NS * 10 + NS / 2);
    assert_eq!(clock(&mut cmos, &mut cx), [0x20, 0x24, 0x03, 0x01, 6, 0, 0, 0]);
    assert_eq!(get(&mut cmos, &mut cx, A), 0x26);
    cmos.reset(&mut cx);
    assert_eq!(clock(&mut cmos, &mut cx), [0x20, 0x24, 0x03, 0x01, 6, 0, 0, 0]);
}

#[test]
fn update_in_progress_before_each_second() {
    let (mut cmos, mut cx) = cmos();
    for (ns, uip) in [
        (0, 0),
        (NS - 244_001, 0),
        (NS - 244_000, UIP),
        (NS - 1, UIP),
        (NS, 0),
    ] {
        cx.now = VirtualTime(ns);
        assert_eq!(get(&mut cmos, &mut cx, A) & UIP, uip, "{ns}");
    }
}

#[test]
fn update_interrupt_each_second() {
    let (mut cmos, mut cx) = cmos();
    put(&mut cmos, &mut cx, B, UF | HOURS_24);
    for second in 1..4 {
        assert_eq!(cmos.deadline(), Some(VirtualTime(NS * second)));
        cx.now = VirtualTime(NS * second);
        cmos.fire(&mut cx);
        assert_eq!(cx.take(), [Effect::Line(8, true)]);
        assert_eq!(cmos.deadline(), None);
        assert_eq!(get(&mut cmos, &mut cx, C), IRQF | UF | PF);
        assert_eq!(cx.take(), [Effect::Line(8, false)]);
        assert_eq!(get(&mut cmos, &mut cx, C), 0);
    }
    put(&mut cmos, &mut cx, B, SET | UF | HOURS_24);
    assert_eq!(
        (get(&mut cmos, &mut cx, B), cmos.deadline()),
        (SET | HOURS_24, None)
    );
}

#[test]
fn periodic_interrupt_does_not_drift() {
    let (mut cmos, mut cx) = cmos();
    get(&mut cmos, &mut cx, C);
    put(&mut cmos, &mut cx, B, PF | HOURS_24); // 1024 Hz
    for k in 1..=2048u64 {
        let due = (k * NS * 32).div_ceil(32_768);
        assert_eq!(cmos.deadline(), Some(VirtualTime(due)));
        cx.now = VirtualTime(due);
        cmos.fire(&mut cx);
        assert_eq!(get(&mut cmos, &mut cx, C) & !UF, IRQF | PF);
        assert_eq!(cx.take(), [Effect::Line(8, true), Effect::Line(8, false)]);
    }
    assert_eq!(cx.now, VirtualTime(2 * NS));
    for (rate, hertz) in [(1, 256), (2, 128), (3, 8192), (15, 2)] {
        put(&mut cmos, &mut cx, A, 0x20 | rate);
        let due = cmos.deadline().unwrap().0 - cx.now.0;
        assert_eq!(due, NS.div_ceil(hertz), "rate {rate}");
    }
    put(&mut cmos, &mut cx, A, 0x20);
    assert_eq!(cmos.deadline(), None);
}

#[test]
fn alarms() {
    let (mut cmos, mut cx) = cmos();
    // 22:13:20; the alarm at 22:13:25.
    for (register, value) in [(1, 0x25), (3, 0x13), (5, 0x22)] {
        put(&mut cmos, &mut cx, register, value);
    }
    put(&mut cmos, &mut cx, B, AF | HOURS_24);
    assert_eq!(cmos.deadline(), Some(VirtualTime(5 * NS)));
    cx.now = VirtualTime(5 * NS);
    cmos.fire(&mut cx);
    assert_eq!(cx.take(), [Effect::Line(8, true)]);
    assert_eq!(get(&mut cmos, &mut cx, C) & AF, AF);
    // Then a day later.
    assert_eq!(cmos.deadline(), Some(VirtualTime((5 + 86_400) * NS)));
    put(&mut cmos, &mut cx, 5, 0xff);
    assert_eq!(cmos.deadline(), Some(VirtualTime((5 + 3600) * NS)));
    put(&mut cmos, &mut cx, 3, 0xc0);
    assert_eq!(cmos.deadline(), Some(VirtualTime((5 + 60) * NS)));
    put(&mut cmos, &mut cx, 1, 0xff);
    assert_eq!(cmos.deadline(), Some(VirtualTime(6 * NS)));
    put(&mut cmos, &mut cx, 1, 0x60); // never
    assert_eq!(cmos.deadline(), None);
    // One that passes while nobody looks is flagged all the same.
    put(&mut cmos, &mut cx, 1, 0x30);
    put(&mut cmos, &mut cx, B, HOURS_24);
    get(&mut cmos, &mut cx, C);
    cx.now = VirtualTime(9 * NS);
    assert_eq!(get(&mut cmos, &mut cx, C) & AF, 0);
    cx.now = VirtualTime(11 * NS);
    assert_eq!(get(&mut cmos, &mut cx, C) & AF, AF);
}

#[test]
fn what_seabios_reads() {
    let (mut cmos, mut cx) = cmos();
    let word = |cmos: &mut Cmos, cx: &mut Fake, at: usize| {
        u32::from(get(cmos, cx, at)) | u32::from(get(cmos, cx, at + 1)) << 8
    };
    assert_eq!(word(&mut cmos, &mut cx, 0x15), 640);
    assert_eq!(word(&mut cmos, &mut cx, 0x30), 0xffff);
    assert_eq!(word(&mut cmos, &mut cx, 0x34), ((3 << 30) - (16 << 20)) >> 16);
    assert_eq!(word(&mut cmos, &mut cx, 0x5b), (5u64 << 14) as u32 & 0xffff);
    assert_eq!(get(&mut cmos, &mut cx, 0x5d), (5u64 << 14 >> 16) as u8);
    assert_eq!(get(&mut cmos, &mut cx, 0x3d), 0x32);
    assert_eq!(get(&mut cmos, &mut cx, 0x38), 0x11);
    assert_eq!(get(&mut cmos, &mut cx, 0x5f), 3);
    put(&mut cmos, &mut cx, 0x7f, 0xa5);
    cmos.reset(&mut cx);
    assert_eq!(get(&mut cmos, &mut cx, 0x7f), 0xa5);
    assert_eq!(get(&mut cmos, &mut cx, D), 0x80);
}
