//! What is virtio over PCI's own: capabilities, interrupts, the window in the configuration space. The rest is
//! tested in [`super::tests`], on both transports.

use super::bridged::{Bridged, CARD};
use super::driver::{DATA, Driver, Part, notify, settle};
use super::tests::{header, request};
use super::{Blk, Rng, VirtioDevice};
use crate::fake::{Effect, Fake};
use crate::pci::interrupt_line;

const VERSION_1: u64 = 1 << 32;

fn rng() -> Bridged {
    Bridged::new(Box::new(Rng::new([7; 32])))
}

fn blk() -> Bridged {
    Bridged::new(Box::new(Blk::new(0, 64, false, "")))
}

fn line() -> u32 {
    interrupt_line(CARD, 0)
}

/// Every capability: its offset and ID.
fn capabilities(card: &mut Bridged, cx: &mut Fake) -> Vec<(u8, u64)> {
    let mut found = Vec::new();
    let mut at = card.config_read(cx, 0x34, 1) as u8;
    while at != 0 {
        found.push((at, card.config_read(cx, at, 1)));
        assert!(found.len() < 16);
        at = card.config_read(cx, at + 1, 1) as u8;
    }
    found
}

#[test]
fn capabilities_tell_where_everything_is() {
    let (mut card, mut cx) = (blk(), Fake::new());
    assert_eq!(card.config_read(&mut cx, 0, 4), 0x1042_1af4);
    assert_eq!(card.config_read(&mut cx, 8, 4), 0x0100_0001);
    assert_eq!(card.config_read(&mut cx, 0x3d, 1), 1);
    let mut kinds = Vec::new();
    for (at, id) in capabilities(&mut card, &mut cx) {
        if id == 0x11 {
            // Two vectors, tables in BAR 1.
            assert_eq!(card.config_read(&mut cx, at + 2, 2), 1);
            assert_eq!(card.config_read(&mut cx, at + 4, 4), 0x001);
            assert_eq!(card.config_read(&mut cx, at + 8, 4), 0x801);
            continue;
        }
        assert_eq!(id, 9);
        let kind = card.config_read(&mut cx, at + 3, 1);
        let length = if matches!(kind, 2 | 5) { 20 } else { 16 };
        assert_eq!(card.config_read(&mut cx, at + 2, 1), length);
        let place = [4, 8, 12].map(|field| card.config_read(&mut cx, at + field, 4));
        kinds.push((kind, place));
        if kind == 2 {
            assert_eq!(card.config_read(&mut cx, at + 16, 4), 4);
        }
    }
    assert_eq!(
        kinds,
        [
            (1, [4, 0x0000, 0x1000]),
            (3, [4, 0x1000, 0x1000]),
            (4, [4, 0x2000, 0x1000]),
            (2, [4, 0x3000, 0x1000]),
            (5, [0, 0, 0]),
        ]
    );
}

#[test]
fn the_pin_follows_the_isr_status() {
    let (mut card, mut cx) = (rng(), Fake::new());
    let mut driver = Driver::start(&mut card, &mut cx, VERSION_1, 8);
    driver.add(&mut cx, &[Part::Write(DATA, 8)]);
    notify(&mut card, &mut cx);
    assert_eq!(driver.used(&cx), [(0, 8)]);
    assert!(cx.take().contains(&Effect::Line(line(), true)));
    assert_eq!(card.config_read(&mut cx, 6, 2), 0x18);
    // Withheld by the command register, still shown in the status.
    card.config_write(&mut cx, 4, 2, 0x406);
    assert_eq!(cx.take(), [Effect::Line(line(), false)]);
    assert_eq!(card.config_read(&mut cx, 6, 2), 0x18);
    card.config_write(&mut cx, 4, 2, 6);
    assert_eq!(cx.take(), [Effect::Line(line(), true)]);
    assert_eq!(card.bar_read(&mut cx, 0x1000, 1), 1);
    assert_eq!(cx.take(), [Effect::Line(line(), false)]);
    assert_eq!(card.bar_read(&mut cx, 0x1000, 1), 0);
    assert_eq!(card.config_read(&mut cx, 6, 2), 0x10);
    // Once more, and down by a reset.
    driver.add(&mut cx, &[Part::Write(DATA, 8)]);
    notify(&mut card, &mut cx);
    assert!(cx.take().contains(&Effect::Line(line(), true)));
    card.bar_write(&mut cx, 0x14, 1, 0);
    assert_eq!(cx.take(), [Effect::Line(line(), false)]);
}

/// Where the MSI-X capability is.
fn msix(card: &mut Bridged, cx: &mut Fake) -> u8 {
    let capabilities = capabilities(card, cx);
    capabilities.iter().find(|(_, id)| *id == 0x11).unwrap().0
}

/// Enables MSI-X: vector n sends 0x4000 + n to 0xfee0_1000 + 16 n. The configuration has vector 0, the queue
/// vector 1.
fn with_messages(device: Box<dyn VirtioDevice>, cx: &mut Fake) -> Bridged {
    let mut card = Bridged::new(device);
    let at = msix(&mut card, cx);
    card.config_write(cx, at + 2, 2, 0x8000);
    for vector in 0..2 {
        let entry = 16 * vector;
        card.msix_write(cx, entry, 0xfee0_1000 + 16 * vector);
        card.msix_write(cx, entry + 8, 0x4000 + vector);
        card.msix_write(cx, entry + 12, 0);
    }
    set_vectors(&mut card, cx);
    card
}

fn set_vectors(card: &mut Bridged, cx: &mut Fake) {
    card.bar_write(cx, 0x10, 2, 0);
    card.bar_write(cx, 0x16, 2, 0);
    card.bar_write(cx, 0x1a, 2, 1);
    assert_eq!(card.bar_read(cx, 0x10, 2), 0);
    assert_eq!(card.bar_read(cx, 0x1a, 2), 1);
}

fn start(card: &mut Bridged, cx: &mut Fake) -> Driver {
    let driver = Driver::start(card, cx, VERSION_1, 8);
    // The reset in there took the vectors.
    assert_eq!(card.bar_read(cx, 0x10, 2), 0xffff);
    assert_eq!(card.bar_read(cx, 0x1a, 2), 0xffff);
    set_vectors(card, cx);
    cx.take();
    driver
}

/// The messages since the last call; there may be nothing on a line.
fn messages(cx: &mut Fake) -> Vec<(u64, u32)> {
    let effects = cx.take();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Line(..))));
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Message(addr, data) => Some((*addr, *data)),
            _ => None,
        })
        .collect()
}

#[test]
fn queues_and_configuration_have_vectors() {
    let mut cx = Fake::new();
    let mut card = with_messages(Box::new(Rng::new([7; 32])), &mut cx);
    let mut driver = start(&mut card, &mut cx);
    for _ in 0..3 {
        driver.add(&mut cx, &[Part::Write(DATA, 8)]);
        notify(&mut card, &mut cx);
        assert_eq!(messages(&mut cx), [(0xfee0_1010, 0x4001)]);
    }
    // Masked: pending until the mask goes, once.
    card.msix_write(&mut cx, 16 + 12, 1);
    for _ in 0..3 {
        driver.add(&mut cx, &[Part::Write(DATA, 8)]);
        notify(&mut card, &mut cx);
    }
    assert_eq!(messages(&mut cx), []);
    assert_eq!(card.msix_read(&mut cx, 0x800), 2);
    card.msix_write(&mut cx, 0x800, 0);
    assert_eq!(card.msix_read(&mut cx, 0x800), 2);
    let at = msix(&mut card, &mut cx);
    card.config_write(&mut cx, at + 2, 2, 0xc000);
    card.msix_write(&mut cx, 16 + 12, 0);
    assert_eq!(messages(&mut cx), []);
    card.config_write(&mut cx, at + 2, 2, 0x8000);
    assert_eq!(messages(&mut cx), [(0xfee0_1010, 0x4001)]);
    assert_eq!(card.msix_read(&mut cx, 0x800), 0);
    // A broken ring is the configuration's vector.
    driver.publish(&mut cx, 8);
    notify(&mut card, &mut cx);
    assert_eq!(messages(&mut cx), [(0xfee0_1000, 0x4000)]);
    assert_eq!(card.bar_read(&mut cx, 0x14, 1), 0x4f);
}

#[test]
fn vectors_that_do_not_exist_are_none() {
    let mut cx = Fake::new();
    let mut card = with_messages(Box::new(Rng::new([7; 32])), &mut cx);
    let mut driver = start(&mut card, &mut cx);
    for vector in [2, 0x80, 0xffff] {
        for register in [0x10, 0x1a] {
            card.bar_write(&mut cx, register, 2, vector);
            assert_eq!(card.bar_read(&mut cx, register, 2), 0xffff);
        }
    }
    driver.add(&mut cx, &[Part::Write(DATA, 8)]);
    notify(&mut card, &mut cx);
    assert_eq!(driver.used(&cx), [(0, 8)]);
    assert_eq!(messages(&mut cx), []);
    // A queue that doesn't exist has none either.
    card.bar_write(&mut cx, 0x16, 2, 7);
    card.bar_write(&mut cx, 0x1a, 2, 0);
    assert_eq!(card.bar_read(&mut cx, 0x1a, 2), 0xffff);
    assert_eq!(card.bar_read(&mut cx, 0x18, 2), 0);
}

#[test]
fn requests_complete_by_message() {
    let mut cx = Fake::new();
    let mut card = with_messages(Box::new(Blk::new(0, 64, false, "")), &mut cx);
    let mut driver = start(&mut card, &mut cx);
    header(&mut cx, DATA, 0, 0);
    driver.add(
        &mut cx,
        &[
            Part::Read(DATA, 16),
            Part::Write(DATA + 64, 512),
            Part::Write(DATA + 32, 1),
        ],
    );
    notify(&mut card, &mut cx);
    assert_eq!(messages(&mut cx), []);
    settle(&mut card, &mut cx);
    assert_eq!(messages(&mut cx), [(0xfee0_1010, 0x4001)]);
}

#[test]
fn the_configuration_space_is_a_window() {
    let (mut card, mut cx) = (blk(), Fake::new());
    let (at, _) = capabilities(&mut card, &mut cx).pop().unwrap();
    // Memory decoding is off; SeaBIOS comes this way before it places anything.
    card.config_write(&mut cx, 4, 2, 4);
    let access = |card: &mut Bridged, cx: &mut Fake, bar, offset, length| {
        card.config_write(cx, at + 4, 1, bar);
        card.config_write(cx, at + 8, 4, offset);
        card.config_write(cx, at + 12, 4, length);
    };
    access(&mut card, &mut cx, 4, 0x14, 1);
    card.config_write(&mut cx, at + 16, 1, 3);
    assert_eq!(card.config_read(&mut cx, at + 16, 1), 3);
    access(&mut card, &mut cx, 4, 0x2000, 4);
    assert_eq!(card.config_read(&mut cx, at + 16, 4), 64);
    access(&mut card, &mut cx, 4, 0x12, 2);
    assert_eq!(card.config_read(&mut cx, at + 16, 4), 1);
    // What is no access: another BAR, a length or place that can't be.
    for (bar, offset, length) in [
        (1, 0x14, 1),
        (4, 0x15, 2),
        (4, 0x14, 3),
        (4, 0x4000, 4),
        (4, 0, 8),
    ] {
        card.config_write(&mut cx, at + 16, 4, 0x5555_5555);
        access(&mut card, &mut cx, bar, offset, length);
        assert_eq!(card.config_read(&mut cx, at + 16, 4), 0x5555_5555);
        card.config_write(&mut cx, at + 16, 4, 0);
    }
    card.config_write(&mut cx, 4, 2, 6);
    assert_eq!(card.bar_read(&mut cx, 0x14, 1), 3);
}

#[test]
fn registers_have_one_width() {
    let (mut card, mut cx) = (blk(), Fake::new());
    assert_eq!(card.bar_read(&mut cx, 0x12, 2), 1);
    assert_eq!(card.bar_read(&mut cx, 0x12, 1), 0);
    assert_eq!(card.bar_read(&mut cx, 0x10, 4), 0);
    card.bar_write(&mut cx, 0x14, 4, 3);
    assert_eq!(card.bar_read(&mut cx, 0x14, 1), 0);
    // Addresses are two halves, by one access or two.
    card.bar_write(&mut cx, 0x20, 8, 0x1234_5678_9abc_d000);
    assert_eq!(card.bar_read(&mut cx, 0x24, 4), 0x1234_5678);
    card.bar_write(&mut cx, 0x20, 4, 0x1000);
    assert_eq!(card.bar_read(&mut cx, 0x20, 8), 0x1234_5678_0000_1000);
    // A queue is stopped by a reset only.
    card.bar_write(&mut cx, 0x1c, 2, 1);
    card.bar_write(&mut cx, 0x1c, 2, 0);
    assert_eq!(card.bar_read(&mut cx, 0x1c, 2), 1);
    card.bar_write(&mut cx, 0x14, 1, 0);
    assert_eq!(card.bar_read(&mut cx, 0x1c, 2), 0);
}

#[test]
fn without_bus_mastering_there_is_no_dma() {
    let (mut card, mut cx) = (blk(), Fake::new());
    let mut driver = Driver::start(&mut card, &mut cx, VERSION_1, 8);
    assert_eq!(request(&mut card, &mut driver, &mut cx, 4, 0, 0), (0, 1));
    header(&mut cx, DATA, 4, 0);
    driver.add(&mut cx, &[Part::Read(DATA, 16), Part::Write(DATA + 32, 1)]);
    notify(&mut card, &mut cx);
    cx.take();
    let before = cx.ram.clone();
    card.config_write(&mut cx, 4, 2, 2);
    settle(&mut card, &mut cx);
    assert!(cx.ram == before);
    assert_eq!(card.bar_read(&mut cx, 0x14, 1), 0x4f);
    card.config_write(&mut cx, 4, 2, 6);
    let mut driver = Driver::start(&mut card, &mut cx, VERSION_1, 8);
    assert_eq!(request(&mut card, &mut driver, &mut cx, 4, 0, 0), (0, 1));
}
