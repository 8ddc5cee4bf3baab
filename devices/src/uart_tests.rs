//! What drivers rely on in a 16550A.

use super::*;
use crate::fake::{Effect, Fake};

const UP: Effect = Effect::Line(10, true);
const DOWN: Effect = Effect::Line(10, false);

fn uart() -> (Uart, Fake) {
    (Uart::new(10, 0), Fake::new())
}

fn type_in(uart: &mut Uart, cx: &mut Fake, bytes: &[u8]) {
    for &byte in bytes {
        assert!(uart.accepts(InputKind::Console));
        uart.input(cx, &Input::Console(byte));
    }
}

#[test]
fn output_leaves_at_once() {
    let (mut uart, mut cx) = uart();
    assert_eq!(uart.read(&mut cx, 5, 1), 0x60);
    uart.write(&mut cx, 0, 1, 0x41);
    assert_eq!(cx.take(), [Effect::Out(0, 0x41)]);
    assert_eq!(uart.read(&mut cx, 5, 1), 0x60);
}

#[test]
fn transmitter_empty_interrupts_once_per_occasion() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 1, 1, 2);
    assert_eq!(cx.take(), [UP]); // enabling is an occasion
    assert_eq!(uart.read(&mut cx, 2, 1), 0x02);
    assert_eq!(cx.take(), [DOWN]); // reading IIR ends it
    assert_eq!(uart.read(&mut cx, 2, 1), 0x01);
    uart.write(&mut cx, 1, 1, 2); // no edge
    assert!(cx.effects.is_empty());
    uart.write(&mut cx, 0, 1, 0x42);
    assert_eq!(cx.take(), [Effect::Out(0, 0x42), UP]);
    uart.write(&mut cx, 1, 1, 0);
    assert_eq!(cx.take(), [DOWN]);
    uart.write(&mut cx, 0, 1, 0x43); // masked
    assert_eq!(cx.take(), [Effect::Out(0, 0x43)]);
    uart.write(&mut cx, 1, 1, 2);
    assert_eq!(cx.take(), [UP]);
}

#[test]
fn reading_iir_keeps_the_occasion_while_another_source_is_shown() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 1, 1, 3);
    type_in(&mut uart, &mut cx, b"x");
    assert_eq!(uart.read(&mut cx, 2, 1), 0x04);
    assert_eq!(uart.read(&mut cx, 0, 1), u64::from(b'x'));
    assert_eq!(uart.read(&mut cx, 2, 1), 0x02);
    assert_eq!(uart.read(&mut cx, 2, 1), 0x01);
    assert_eq!(cx.take(), [UP, DOWN]);
}

#[test]
fn without_fifos_there_is_room_for_one_byte() {
    let (mut uart, mut cx) = uart();
    type_in(&mut uart, &mut cx, b"a");
    assert!(!uart.accepts(InputKind::Console));
    uart.input(&mut cx, &Input::Console(b'b'));
    assert_eq!(uart.read(&mut cx, 5, 1), 0x61);
    assert_eq!(uart.read(&mut cx, 0, 1), u64::from(b'a'));
    assert_eq!(uart.read(&mut cx, 5, 1), 0x60);
    assert!(uart.accepts(InputKind::Console));
}

#[test]
fn fifo_trigger_and_timeout() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 2, 1, 0x81); // trigger at 8
    uart.write(&mut cx, 1, 1, 1);
    type_in(&mut uart, &mut cx, b"1234567");
    assert_eq!(uart.read(&mut cx, 2, 1), 0xcc);
    type_in(&mut uart, &mut cx, b"8");
    assert_eq!(uart.read(&mut cx, 2, 1), 0xc4);
    assert_eq!(cx.take(), [UP]);
    type_in(&mut uart, &mut cx, b"9abcdefg");
    assert!(!uart.accepts(InputKind::Console));
    for expected in *b"123456789abcdefg" {
        assert_eq!(uart.read(&mut cx, 5, 1) & 1, 1);
        assert_eq!(uart.read(&mut cx, 0, 1), u64::from(expected));
    }
    assert_eq!(cx.take(), [DOWN]);
    assert_eq!(uart.read(&mut cx, 2, 1), 0xc1);
}

#[test]
fn fcr_clears_the_receiver() {
    for (before, write) in [(0x01, 0x03), (0x01, 0x00), (0x00, 0x01)] {
        let (mut uart, mut cx) = uart();
        uart.write(&mut cx, 2, 1, before);
        uart.write(&mut cx, 1, 1, 1);
        type_in(&mut uart, &mut cx, b"a");
        uart.write(&mut cx, 2, 1, write);
        assert_eq!(uart.read(&mut cx, 5, 1) & 1, 0, "FCR {write:#x}");
        assert_eq!(cx.take(), [UP, DOWN]);
    }
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 2, 1, 0x01);
    type_in(&mut uart, &mut cx, b"a");
    uart.write(&mut cx, 2, 1, 0xc5); // transmitter only
    assert_eq!(uart.read(&mut cx, 5, 1) & 1, 1);
    assert_eq!(uart.read(&mut cx, 2, 1), 0xc1);
}

#[test]
fn divisor_latch_hides_data_and_ier() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 1, 1, 5);
    uart.write(&mut cx, 3, 1, 0x83);
    uart.write(&mut cx, 0, 1, 0x34);
    uart.write(&mut cx, 1, 1, 0x12);
    assert!(cx.effects.is_empty());
    assert_eq!(uart.read(&mut cx, 0, 1), 0x34);
    assert_eq!(uart.read(&mut cx, 1, 1), 0x12);
    uart.write(&mut cx, 3, 1, 0x03);
    assert_eq!(uart.read(&mut cx, 1, 1), 5);
}

#[test]
fn loopback_as_linux_probes_it() {
    // 8250_port.c autoconfig(): MCR = LOOP|OUT2|RTS must read back DCD|CTS.
    let (mut uart, mut cx) = uart();
    assert_eq!(uart.read(&mut cx, 6, 1), 0xb0);
    uart.write(&mut cx, 4, 1, 0x1a);
    assert_eq!(uart.read(&mut cx, 6, 1) & 0xf0, 0x90);
    assert!(!uart.accepts(InputKind::Console));
    uart.write(&mut cx, 0, 1, 0x55);
    assert!(cx.effects.is_empty());
    assert_eq!(uart.read(&mut cx, 0, 1), 0x55);
    uart.write(&mut cx, 4, 1, 0);
    assert_eq!(uart.read(&mut cx, 6, 1), 0xb2); // DSR came back
    assert_eq!(uart.read(&mut cx, 6, 1), 0xb0); // and the change was told
}

#[test]
fn modem_status_and_overrun_interrupt() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 1, 1, 0x0c);
    uart.write(&mut cx, 4, 1, 0x1f);
    assert!(cx.effects.is_empty()); // RI rose: only its fall counts
    uart.write(&mut cx, 4, 1, 0x1b);
    assert_eq!(cx.take(), [UP]);
    assert_eq!(uart.read(&mut cx, 2, 1), 0x00);
    assert_eq!(uart.read(&mut cx, 6, 1), 0xb4);
    assert_eq!(cx.take(), [DOWN]);
    uart.write(&mut cx, 0, 1, 1);
    uart.write(&mut cx, 0, 1, 2); // overruns: no FIFO
    assert_eq!(uart.read(&mut cx, 2, 1), 0x06);
    assert_eq!(uart.read(&mut cx, 5, 1), 0x63);
    assert_eq!(uart.read(&mut cx, 5, 1), 0x61);
    assert_eq!(uart.read(&mut cx, 0, 1), 2);
    assert_eq!(cx.take(), [UP, DOWN]);
}

#[test]
fn the_scratch_register_and_ier_read_back_as_probed() {
    // 8250_port.c autoconfig(): IER reads 0x0f after 0x0f, 0 after 0.
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 7, 1, 0xa5);
    assert_eq!(uart.read(&mut cx, 7, 1), 0xa5);
    uart.write(&mut cx, 1, 1, 0xff);
    assert_eq!(uart.read(&mut cx, 1, 1), 0x0f);
    assert_eq!(uart.read(&mut cx, 0x80, 1), 0);
}

#[test]
fn more_bytes_than_the_fifo_holds_are_no_state() {
    let (mut uart, mut cx) = uart();
    uart.write(&mut cx, 2, 1, 1);
    type_in(&mut uart, &mut cx, b"ab");
    uart.state.fcr = 0;
    let saved = uart.save();
    assert!(matches!(
        uart.restore(&saved),
        Err(DeviceError::Impossible { .. })
    ));
}
