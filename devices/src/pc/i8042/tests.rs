//! The controller as BIOSes and systems talk to it.

use super::*;
use crate::fake::{Effect, Fake};

struct Pc {
    device: I8042,
    cx: Fake,
}

impl Pc {
    fn new() -> Pc {
        Pc {
            device: I8042::new(),
            cx: Fake::new(),
        }
    }

    fn status(&mut self) -> u8 {
        self.device.read(&mut self.cx, STATUS, 1) as u8
    }

    fn command(&mut self, command: u8) {
        self.device.write(&mut self.cx, STATUS, 1, command.into());
    }

    fn data(&mut self, byte: u8) {
        self.device.write(&mut self.cx, DATA, 1, byte.into());
    }

    /// Reads until the output buffer is empty.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.status() & 1 != 0 {
            bytes.push(self.device.read(&mut self.cx, DATA, 1) as u8);
        }
        bytes
    }

    fn ask(&mut self, command: u8) -> Vec<u8> {
        self.command(command);
        self.bytes()
    }

    fn send(&mut self, byte: u8) -> Vec<u8> {
        self.data(byte);
        self.bytes()
    }

    fn key(&mut self, code: u16, down: bool) {
        self.device.input(&mut self.cx, &Input::Key { code, down });
    }

    fn press(&mut self, code: u16) -> Vec<u8> {
        self.key(code, true);
        self.key(code, false);
        self.bytes()
    }
}

#[test]
fn controller_tests_and_ports() {
    let mut pc = Pc::new();
    assert_eq!(pc.ask(0xaa), [0x55]);
    assert_eq!(pc.ask(0xab), [0]);
    assert_eq!(pc.ask(0x20), [0x65]);
    pc.command(0x60);
    pc.data(0x47);
    assert_eq!(pc.ask(0x20), [0x47]);
    assert_eq!(pc.ask(0xad), []);
    assert_eq!(pc.ask(0x20), [0x57]);
    assert_eq!(pc.ask(0xae), []);
    assert_eq!(pc.ask(0xa7), []);
    assert_eq!(pc.ask(0x20), [0x67]);
    assert_eq!(pc.ask(0xa8), []);
    assert_eq!(pc.ask(0x20), [0x47]);
    assert_eq!(pc.ask(0xc0), [0x80]);
    // The answer itself isn't there yet when the port is looked at.
    assert_eq!(pc.ask(0xd0), [0xcf]);
}

#[test]
fn a20_and_reset_are_bits_of_the_output_port() {
    let mut pc = Pc::new();
    let gates = |pc: &mut Pc| {
        let effects = pc.cx.take();
        let gates = effects.iter().filter_map(|effect| match *effect {
            Effect::Pin(ALL_HARTS, HartPin::A20Masked, level) => Some(level),
            _ => None,
        });
        gates.collect::<Vec<_>>()
    };
    pc.command(0xd1);
    pc.data(0xdd);
    assert_eq!(gates(&mut pc), [1]);
    assert_eq!(pc.ask(0xd0), [0xcd]);
    pc.command(0xd1);
    pc.data(0xdf);
    assert_eq!(gates(&mut pc), [0]);
    pc.command(0xdd);
    assert_eq!(gates(&mut pc), [1]);
    // Port 92 is the same gate.
    let port_92 = |pc: &mut Pc| pc.device.read(&mut pc.cx, PORT_92, 1);
    assert_eq!(port_92(&mut pc), 0);
    pc.device.write(&mut pc.cx, PORT_92, 1, 2);
    assert_eq!((gates(&mut pc), port_92(&mut pc)), (vec![0], 2));
    assert_eq!(pc.ask(0xd0), [0xcf]);
    pc.device.write(&mut pc.cx, PORT_92, 1, 0);
    assert_eq!((gates(&mut pc), pc.ask(0xd0)), (vec![1], vec![0xcd]));
    pc.device.reset(&mut pc.cx);
    assert_eq!(gates(&mut pc), [0]);
    for value in [3, 3, 0] {
        pc.device.write(&mut pc.cx, PORT_92, 1, value);
    }
    assert_eq!(
        pc.cx.take(),
        [
            Effect::Power(Power::Reset),
            Effect::Pin(ALL_HARTS, HartPin::A20Masked, 1)
        ]
    );
    pc.command(0xff);
    let resets = |pc: &mut Pc| {
        let effects = pc.cx.take();
        effects
            .iter()
            .filter(|&effect| *effect == Effect::Power(Power::Reset))
            .count()
    };
    assert_eq!(resets(&mut pc), 0);
    pc.command(0xfe);
    assert_eq!(resets(&mut pc), 1);
    pc.command(0xd1);
    pc.data(0xfe);
    assert_eq!(resets(&mut pc), 1);
}

#[test]
fn the_second_port_is_empty() {
    let mut pc = Pc::new();
    pc.command(0x60);
    pc.data(0x47);
    pc.command(0xd3);
    pc.data(0x5a);
    assert_eq!(pc.status() & 0x21, 1);
    assert_eq!(pc.bytes(), [0x5a]);
    assert_eq!(pc.ask(0xa9), [1]);
    pc.cx.take();
    pc.command(0xd4);
    pc.data(0xff);
    assert_eq!(pc.status() & 0x61, 0x61);
    assert_eq!(pc.bytes(), [0xfe]);
    assert_eq!(pc.status() & 0x61, 0);
    assert_eq!(pc.cx.take(), [Effect::Line(12, true), Effect::Line(12, false)]);
}

#[test]
fn keyboard_commands() {
    let mut pc = Pc::new();
    assert_eq!(pc.send(0xff), [0xfa, 0xaa]);
    assert_eq!(pc.send(0xee), [0xee]);
    // Identification is translated like everything else.
    assert_eq!(pc.send(0xf2), [0xfa, 0xab, 0x41]);
    assert_eq!(pc.send(0xed), [0xfa]);
    assert_eq!(pc.send(0x07), [0xfa]);
    assert_eq!(pc.device.leds(), 7);
    assert_eq!(pc.send(0xf3), [0xfa]);
    assert_eq!(pc.send(0x00), [0xfa]);
    assert_eq!(pc.send(0xfe), [0xfa]);
    assert_eq!(pc.send(0xf4), [0xfa]);
    assert_eq!(pc.send(0x12), [0xfe]);
    // A command in place of a parameter.
    assert_eq!(pc.send(0xed), [0xfa]);
    assert_eq!(pc.send(0xee), [0xee]);
    pc.command(0x60);
    pc.data(0x05);
    assert_eq!(pc.send(0xf2), [0xfa, 0xab, 0x83]);
    assert_eq!(pc.send(0xf0), [0xfa]);
    assert_eq!(pc.send(0x00), [0xfa, 2]);
    assert_eq!(pc.send(0xf0), [0xfa]);
    assert_eq!(pc.send(0x03), [0xfe]);
}

#[test]
fn seabios_sets_the_keyboard_up() {
    let mut pc = Pc::new();
    assert_eq!(pc.ask(0xaa), [0x55]);
    assert_eq!(pc.ask(0xab), [0]);
    pc.command(0x60);
    pc.data(0x30);
    pc.key(0x1e, true);
    assert_eq!(pc.bytes(), [], "the port is off");
    pc.command(0x60);
    pc.data(0x20);
    assert_eq!(pc.bytes(), [0x1c]);
    assert_eq!(pc.send(0xff), [0xfa, 0xaa]);
    assert_eq!(pc.send(0xf5), [0xfa]);
    assert!(!pc.device.accepts(InputKind::Key));
    assert_eq!(pc.send(0xf0), [0xfa]);
    assert_eq!(pc.send(0x02), [0xfa]);
    pc.command(0x60);
    pc.data(0x61);
    assert_eq!(pc.send(0xf4), [0xfa]);
    assert_eq!(pc.press(0x1e), [0x1e, 0x9e]);
}

#[test]
fn keys_in_every_set() {
    // Untranslated set 2, untranslated set 1, translated set 2.
    type Bytes = &'static [u8];
    let cases: [(u16, Bytes, Bytes, Bytes); 7] = [
        (0x1e, &[0x1c, 0xf0, 0x1c], &[0x1e, 0x9e], &[0x1e, 0x9e]),
        (0x41, &[0x83, 0xf0, 0x83], &[0x41, 0xc1], &[0x41, 0xc1]),
        (0x54, &[0x84, 0xf0, 0x84], &[0x54, 0xd4], &[0x54, 0xd4]),
        (0x58, &[0x07, 0xf0, 0x07], &[0x58, 0xd8], &[0x58, 0xd8]),
        (
            0xe048,
            &[0xe0, 0x75, 0xe0, 0xf0, 0x75],
            &[0xe0, 0x48, 0xe0, 0xc8],
            &[0xe0, 0x48, 0xe0, 0xc8],
        ),
        (
            0xe037,
            &[0xe0, 0x12, 0xe0, 0x7c, 0xe0, 0xf0, 0x7c, 0xe0, 0xf0, 0x12],
            &[0xe0, 0x2a, 0xe0, 0x37, 0xe0, 0xb7, 0xe0, 0xaa],
            &[0xe0, 0x2a, 0xe0, 0x37, 0xe0, 0xb7, 0xe0, 0xaa],
        ),
        (
            PAUSE,
            &[0xe1, 0x14, 0x77, 0xe1, 0xf0, 0x14, 0xf0, 0x77],
            &[0xe1, 0x1d, 0x45, 0xe1, 0x9d, 0xc5],
            &[0xe1, 0x1d, 0x45, 0xe1, 0x9d, 0xc5],
        ),
    ];
    for (code, set_2, set_1, translated) in cases {
        let mut pc = Pc::new();
        assert_eq!(pc.press(code), translated, "{code:#x}");
        pc.command(0x60);
        pc.data(0x05);
        assert_eq!(pc.press(code), set_2, "{code:#x}");
        pc.send(0xf0);
        pc.send(1);
        assert_eq!(pc.press(code), set_1, "{code:#x}");
    }
}

#[test]
fn translation_gives_every_set_1_code_back() {
    let mut pc = Pc::new();
    for code in 1..0x80 {
        let expected = [code, code | 0x80];
        assert_eq!(pc.press(code.into()), expected, "{code:#x}");
        assert_eq!(
            pc.press(0xe000 | u16::from(code)).len(),
            if code == 0x37 { 8 } else { 4 },
            "{code:#x}"
        );
    }
    for code in [0, 0x80, 0x1ff, 0xe000, 0xe0ff, 0xe11e] {
        assert_eq!(pc.press(code), []);
    }
}

#[test]
fn every_byte_is_an_edge_of_interrupt_1() {
    let mut pc = Pc::new();
    pc.key(0xe04d, true);
    assert_eq!(pc.cx.take(), [Effect::Line(1, true)]);
    assert_eq!(pc.bytes(), [0xe0, 0x4d]);
    let edges = [
        Effect::Line(1, false),
        Effect::Line(1, true),
        Effect::Line(1, false),
    ];
    assert_eq!(pc.cx.take(), edges);
    // Looking when there is nothing changes nothing.
    assert_eq!(pc.device.read(&mut pc.cx, DATA, 1), 0x4d);
    // Without the interrupt bit, none.
    pc.command(0x60);
    pc.data(0x64);
    pc.press(0x1e);
    assert_eq!(pc.cx.take(), []);
}

#[test]
fn keys_wait_outside_when_the_queue_has_no_room() {
    let mut pc = Pc::new();
    let mut accepted = 0;
    while pc.device.accepts(InputKind::Key) {
        pc.key(0x1e, true);
        accepted += 1;
        assert!(accepted < 20);
    }
    // One in the output buffer, and as many as leave room for the longest key.
    assert_eq!(accepted, 1 + 9);
    pc.key(0x1f, true);
    assert_eq!(pc.bytes(), vec![0x1e; 10]);
}

#[test]
fn answers_come_before_keys() {
    let mut pc = Pc::new();
    pc.key(0x1e, true);
    pc.key(0x1f, true);
    // The key in the buffer stays; then the controller, the keyboard's answer, the other key.
    pc.command(0x20);
    pc.data(0xee);
    assert_eq!(pc.bytes(), [0x1e, 0x65, 0xee, 0x1f]);
    pc.key(0x1e, true);
    pc.key(0x1f, true);
    // Enabling forgets what was queued.
    assert_eq!(pc.send(0xf4), [0x1e, 0xfa]);
}

#[test]
fn states_with_too_many_bytes_are_refused() {
    let mut from = I8042::new();
    from.state.data = 1;
    let mut saved = from.save();
    // An answer of four bytes: its length and bytes stand first.
    assert_eq!(saved[1], 0);
    saved[1] = 4;
    saved.splice(2..2, [0; 4]);
    assert!(I8042::new().restore(&saved).is_err());
}
