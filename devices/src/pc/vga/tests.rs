//! The VGA as BIOSes and systems drive it.

use super::*;
use crate::fake::Fake;

struct Pc {
    device: Vga,
    cx: Fake,
}

impl Pc {
    fn new() -> Pc {
        Pc {
            device: Vga::new(),
            cx: Fake::new(),
        }
    }

    fn inb(&mut self, port: u16) -> u8 {
        let offset = REGISTERS + u64::from(port - REGISTERS_PORT);
        self.device.read(&mut self.cx, offset, 1) as u8
    }

    fn out(&mut self, port: u16, size: u8, value: u16) {
        let offset = REGISTERS + u64::from(port - REGISTERS_PORT);
        self.device.write(&mut self.cx, offset, size, value.into());
    }

    fn outb(&mut self, port: u16, value: u8) {
        self.out(port, 1, value.into());
    }

    /// Sets a register behind an index, as `outw` does.
    fn set(&mut self, port: u16, index: u8, value: u8) {
        self.out(port, 2, u16::from_le_bytes([index, value]));
    }

    fn register(&mut self, port: u16, index: u8) -> u8 {
        self.outb(port, index);
        self.inb(port + 1)
    }

    fn poke(&mut self, addr: u64, value: u8) {
        self.device
            .write(&mut self.cx, addr - MEMORY_BASE, 1, value.into());
    }

    fn peek(&mut self, addr: u64) -> u8 {
        self.device.read(&mut self.cx, addr - MEMORY_BASE, 1) as u8
    }

    /// Text with attribute 7 from a cell on.
    fn print(&mut self, cell: u64, text: &[u8]) {
        for (at, &byte) in (cell..).zip(text) {
            self.device
                .write(&mut self.cx, 0x1_8000 + 2 * at, 2, 0x0700 | u64::from(byte));
        }
    }

    fn rows(&self) -> Vec<String> {
        self.device.screen().unwrap().rows()
    }
}

#[test]
fn text_shows_where_it_was_written() {
    let mut pc = Pc::new();
    pc.print(0, b"Hello");
    pc.print(80 * 24 + 77, b"end");
    let screen = pc.device.screen().unwrap();
    assert_eq!(
        (screen.cells.len(), screen.cells[0].len(), screen.blank),
        (25, 80, false)
    );
    let rows = screen.rows();
    assert_eq!(rows[0], "Hello");
    assert_eq!(rows[1], "");
    assert_eq!(rows[24], format!("{}end", " ".repeat(77)));
    assert_eq!(
        screen.cells[0][1],
        Cell {
            code: b'e',
            attribute: 7
        }
    );
    assert_eq!(screen.cursor, Some((0, 0)));
    assert_eq!(pc.device.read(&mut pc.cx, 0x1_8000, 8), 0x076c_076c_0765_0748);
}

#[test]
fn scrolling_and_cursor_follow_the_crtc() {
    let mut pc = Pc::new();
    pc.print(80, b"second");
    pc.set(0x3d4, 0x0d, 80);
    pc.set(0x3d4, 0x0f, 83);
    let screen = pc.device.screen().unwrap();
    assert_eq!(screen.rows()[0], "second");
    assert_eq!(screen.cursor, Some((3, 0)));
    pc.set(0x3d4, 0x0a, 0x2d);
    assert_eq!(pc.device.screen().unwrap().cursor, None);
    pc.set(0x3d4, 0x0a, 0x0d);
    pc.set(0x3d4, 0x0e, 0x40);
    assert_eq!(pc.device.screen().unwrap().cursor, None);
}

#[test]
fn other_text_modes() {
    let mut pc = Pc::new();
    // 50 rows: characters of eight lines.
    pc.set(0x3d4, 0x09, 0x47);
    pc.print(80 * 49, b"last");
    assert_eq!(pc.rows().len(), 50);
    assert_eq!(pc.rows()[49], "last");
    // 40 columns.
    pc.set(0x3d4, 0x09, 0x4f);
    pc.set(0x3d4, 0x11, 0);
    pc.set(0x3d4, 0x01, 39);
    pc.set(0x3d4, 0x13, 20);
    pc.print(40, b"next");
    assert_eq!(pc.rows()[1], "next");
    assert_eq!(pc.device.screen().unwrap().cells[0].len(), 40);
    // Split at line 32: the third row and on are from the start.
    pc.print(0, b"top");
    pc.set(0x3d4, 0x0d, 40);
    pc.set(0x3d4, 0x18, 31);
    pc.set(0x3d4, 0x07, 0x0f);
    pc.set(0x3d4, 0x09, 0x0f);
    assert_eq!(pc.rows()[0], "next");
    assert_eq!(pc.rows()[2..4], ["top", "next"]);
}

#[test]
fn graphics_modes_show_no_text() {
    let mut pc = Pc::new();
    pc.set(0x3ce, 6, 5);
    assert_eq!(pc.device.screen(), None);
}

#[test]
fn code_page_437() {
    let all: String = (0..=255).map(character).collect();
    assert_eq!(all.chars().count(), 256);
    for (code, expected) in [
        (0x01, '☺'),
        (0x1f, '▼'),
        (b'A', 'A'),
        (0x7e, '~'),
        (0x7f, '⌂'),
        (0x80, 'Ç'),
        (0xb3, '│'),
        (0xc4, '─'),
        (0xdb, '█'),
        (0xe1, 'ß'),
        (0xfe, '■'),
        (0xff, '\u{a0}'),
    ] {
        assert_eq!(character(code), expected, "{code:#x}");
    }
    let mut seen: Vec<char> = (1..=255).map(character).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 255);
}

#[test]
fn fonts_go_to_plane_2_beside_the_text() {
    let mut pc = Pc::new();
    pc.print(0, b"text");
    // As SeaVGABIOS does it.
    for (index, value) in [(0, 1), (2, 4), (4, 7), (0, 3)] {
        pc.set(0x3c4, index, value);
    }
    for (index, value) in [(4, 2), (5, 0), (6, 4)] {
        pc.set(0x3ce, index, value);
    }
    for n in 0..0x2000 {
        pc.poke(0xa_0000 + n, n as u8);
    }
    assert!((0..0x2000).all(|n| pc.peek(0xa_0000 + n) == n as u8));
    for (index, value) in [(0, 1), (2, 3), (4, 3), (0, 3)] {
        pc.set(0x3c4, index, value);
    }
    for (index, value) in [(6, 0xe), (4, 0), (5, 0x10)] {
        pc.set(0x3ce, index, value);
    }
    assert_eq!(pc.rows()[0], "text");
    assert_eq!(pc.peek(0xb_8000), b't');
    assert_eq!(pc.peek(0xb_8001), 7);
    assert_eq!(pc.peek(0xa_0000), 0xff, "no memory answers there");
}

/// Sequential access to all planes at 0xa0000.
fn planar() -> Pc {
    let mut pc = Pc::new();
    for (index, value) in [(2, 0xf), (4, 6)] {
        pc.set(0x3c4, index, value);
    }
    for (index, value) in [(5, 0), (6, 5)] {
        pc.set(0x3ce, index, value);
    }
    pc
}

fn planes(pc: &mut Pc, addr: u64) -> [u8; 4] {
    [0, 1, 2, 3].map(|plane| {
        pc.set(0x3ce, 4, plane);
        pc.peek(addr)
    })
}

#[test]
fn write_modes() {
    let mut pc = planar();
    let at = 0xa_0010;
    pc.poke(at, 0xa5);
    assert_eq!(planes(&mut pc, at), [0xa5; 4]);
    pc.set(0x3c4, 2, 0b0010);
    pc.poke(at, 0x0f);
    assert_eq!(planes(&mut pc, at), [0xa5, 0x0f, 0xa5, 0xa5]);
    pc.set(0x3c4, 2, 0xf);
    // Mode 0 with set/reset on planes 0 and 1, the rest from the rotated byte, bits 0 to 3 only.
    pc.set(0x3ce, 0, 0b0001);
    pc.set(0x3ce, 1, 0b0011);
    pc.set(0x3ce, 3, 4);
    pc.set(0x3ce, 8, 0x0f);
    pc.peek(at);
    pc.poke(at, 0x30);
    assert_eq!(planes(&mut pc, at), [0xaf, 0x00, 0xa3, 0xa3]);
    // Exclusive or with the latch.
    pc.set(0x3ce, 1, 0);
    pc.set(0x3ce, 3, 0x18);
    pc.set(0x3ce, 8, 0xff);
    pc.peek(at);
    pc.poke(at, 0xff);
    assert_eq!(planes(&mut pc, at), [0x50, 0xff, 0x5c, 0x5c]);
    // Mode 1 copies.
    pc.set(0x3ce, 5, 1);
    pc.peek(at);
    pc.poke(at + 1, 0);
    assert_eq!(planes(&mut pc, at + 1), [0x50, 0xff, 0x5c, 0x5c]);
    // Mode 2 stores a colour.
    pc.set(0x3ce, 5, 2);
    pc.set(0x3ce, 3, 0);
    pc.set(0x3ce, 8, 0x81);
    pc.peek(at + 2);
    pc.poke(at + 2, 0b1010);
    assert_eq!(planes(&mut pc, at + 2), [0, 0x81, 0, 0x81]);
    // Mode 3: the byte is a mask for set/reset.
    pc.set(0x3ce, 5, 3);
    pc.set(0x3ce, 0, 0b0100);
    pc.set(0x3ce, 8, 0xff);
    pc.peek(at + 2);
    pc.poke(at + 2, 0x0f);
    assert_eq!(planes(&mut pc, at + 2), [0, 0x80, 0x0f, 0x80]);
}

#[test]
fn reading_can_compare_colours() {
    let mut pc = planar();
    pc.set(0x3ce, 5, 2);
    pc.set(0x3ce, 8, 0x0f);
    pc.poke(0xa_0000, 0b0110);
    pc.set(0x3ce, 5, 8);
    pc.set(0x3ce, 2, 0b0110);
    assert_eq!(pc.peek(0xa_0000), 0x0f);
    pc.set(0x3ce, 2, 0b1110);
    assert_eq!(pc.peek(0xa_0000), 0);
    pc.set(0x3ce, 7, 0b0111);
    assert_eq!(pc.peek(0xa_0000), 0x0f);
    pc.set(0x3ce, 7, 0);
    assert_eq!(pc.peek(0xa_0000), 0xff);
}

#[test]
fn chained_memory_reads_back() {
    let mut pc = planar();
    pc.set(0x3c4, 4, 0xe);
    for n in 0..0x1_0000u64 {
        pc.poke(0xa_0000 + n, ((n * 7) >> 3) as u8);
    }
    assert!((0..0x1_0000).all(|n| pc.peek(0xa_0000 + n) == ((n * 7) >> 3) as u8));
    // Bytes 0 to 3 are the four planes' at 0.
    pc.set(0x3c4, 4, 6);
    assert_eq!(planes(&mut pc, 0xa_0004), [3, 4, 5, 6]);
    assert_eq!(planes(&mut pc, 0xa_0005), [0; 4]);
}

#[test]
fn windows_follow_map_select_and_enable() {
    let mut pc = planar();
    pc.set(0x3ce, 6, 0);
    pc.poke(0xa_1234, 0x77);
    assert_eq!(pc.peek(0xb_1234), 0x77);
    pc.set(0x3ce, 6, 8);
    assert_eq!(pc.peek(0xa_1234), 0xff);
    assert_eq!(pc.peek(0xb_1234), 0x77);
    assert_eq!(pc.peek(0xb_9234), 0xff);
    pc.outb(0x3c2, 0x65);
    assert_eq!(pc.peek(0xb_1234), 0xff);
}

#[test]
fn attribute_flip_flop() {
    let mut pc = Pc::new();
    pc.inb(0x3da);
    pc.outb(0x3c0, 0x10);
    pc.outb(0x3c0, 0x05);
    pc.outb(0x3c0, 0x14);
    // Looking at status starts over with an index.
    pc.inb(0x3da);
    pc.outb(0x3c0, 0x30);
    assert_eq!(pc.inb(0x3c1), 0x05);
    assert_eq!(pc.inb(0x3c0), 0x30);
    assert!(!pc.device.screen().is_some_and(|screen| screen.blank));
}

#[test]
fn crtc_moves_and_protects() {
    let mut pc = Pc::new();
    pc.set(0x3d4, 0x00, 0x12);
    assert_eq!(pc.register(0x3d4, 0x00), 0x5f, "protected");
    pc.set(0x3d4, 0x07, 0xff);
    assert_eq!(pc.register(0x3d4, 0x07), 0x1f);
    pc.set(0x3d4, 0x07, 0x00);
    assert_eq!(pc.register(0x3d4, 0x07), 0x0f, "but for bit 8 of line compare");
    pc.set(0x3d4, 0x11, 0x0e);
    pc.set(0x3d4, 0x00, 0x12);
    assert_eq!(pc.register(0x3d4, 0x00), 0x12);
    assert_eq!(pc.register(0x3b4, 0x00), 0xff);
    pc.outb(0x3c2, 0x66);
    assert_eq!(pc.register(0x3d4, 0x00), 0xff);
    assert_eq!(pc.register(0x3b4, 0x00), 0x12);
}

#[test]
fn palette() {
    let mut pc = Pc::new();
    pc.outb(0x3c8, 0xff);
    for value in [1, 2, 0xff, 4, 5, 6] {
        pc.outb(0x3c9, value);
    }
    assert_eq!((pc.inb(0x3c7), pc.inb(0x3c8)), (0, 1));
    pc.outb(0x3c7, 0xff);
    assert_eq!([(); 6].map(|()| pc.inb(0x3c9)), [1, 2, 0x3f, 4, 5, 6]);
    assert_eq!(pc.inb(0x3c7), 3);
    // A colour that is not whole changes nothing.
    pc.outb(0x3c8, 0);
    pc.outb(0x3c9, 9);
    pc.outb(0x3c7, 0);
    assert_eq!(pc.inb(0x3c9), 4);
}

#[test]
fn retrace_comes_and_goes_with_time() {
    let mut pc = Pc::new();
    let mut retraces = 0;
    let mut last = 0;
    for step in 0..1_000_000 {
        pc.cx.now = VirtualTime(step * 1000);
        let status = pc.inb(0x3da);
        retraces += u32::from(status & 8 != 0 && last & 8 == 0);
        assert!(status & 8 == 0 || status & 1 != 0);
        last = status;
    }
    assert_eq!(retraces, 70);
}

#[test]
fn bochs_extension_is_absent() {
    let mut pc = Pc::new();
    pc.device.write(&mut pc.cx, DISPI, 2, 0);
    pc.device.write(&mut pc.cx, DISPI + 1, 2, 0xb0c5);
    assert_eq!(pc.device.read(&mut pc.cx, DISPI + 1, 2), 0);
}

#[test]
fn memory_is_saved_in_few_bytes() {
    let mut pc = Pc::new();
    let empty = pc.device.save().len();
    assert!(empty < 1000);
    for cell in 0..2000 {
        pc.print(cell, b"x");
    }
    let saved = pc.device.save();
    assert!(saved.len() < empty + 9000);
    let mut other = Vga::new();
    other.restore(&saved).unwrap();
    assert_eq!(other.screen(), pc.device.screen());
}
