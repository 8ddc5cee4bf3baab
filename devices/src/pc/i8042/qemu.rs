//! The keyboard controller and keyboard against QEMU's: random commands, as drivers give them (what comes is read before
//! the next), and every byte and status that comes back. Left out is the second port, at which QEMU has a mouse, and
//! bits of the command byte that the manual doesn't name, and the status bit that tells the register written last, which it
//! never clears. The output port's interrupt bits follow the interrupts here, and what was written there; byte 0 is
//! acknowledged there, and refused here like any that is no command.

use super::*;
use crate::fake::Fake;
use crate::qemu::{Qemu, Random, installed};

const PROGRAM: &str = "qemu-system-x86_64";
const MACHINE: &str = "-machine pc";

/// Both sides.
struct Pair {
    ours: I8042,
    cx: Fake,
    theirs: Qemu,
    history: Vec<String>,
}

impl Pair {
    fn write(&mut self, port: u16, value: u8) {
        let offset = u64::from(port - DATA_PORT);
        self.ours.write(&mut self.cx, offset, 1, value.into());
        self.theirs.command(&format!("outb {port:#x} {value:#x}"));
        self.history.push(format!("outb {port:#x} {value:#x}"));
    }

    /// Of the status, all but which register was written last.
    fn read(&mut self, port: u16) -> u8 {
        let mask = if port == STATUS_PORT {
            !Status::COMMAND.bits()
        } else {
            0xff
        };
        let offset = u64::from(port - DATA_PORT);
        let ours = self.ours.read(&mut self.cx, offset, 1) as u8 & mask;
        let theirs = self.theirs.ask(&format!("inb {port:#x}")) as u8 & mask;
        let last = self.history.len().saturating_sub(12);
        assert_eq!(
            ours,
            theirs,
            "inb {port:#x}, ours first, after {:#?}",
            &self.history[last..]
        );
        ours
    }

    fn drain(&mut self) {
        while self.read(STATUS_PORT) & 1 != 0 {
            let byte = self.read(DATA_PORT);
            self.history.push(format!("{byte:#x}"));
        }
    }
}

#[test]
fn qemu_answers_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x0042_8042);
    for _ in 0..4 {
        let mut pair = Pair {
            ours: I8042::new(),
            cx: Fake::new(),
            theirs: Qemu::start(PROGRAM, MACHINE),
            history: Vec::new(),
        };
        // As a BIOS leaves it.
        pair.write(STATUS_PORT, 0xaa);
        pair.drain();
        for (port, value) in [(STATUS_PORT, 0x60), (DATA_PORT, 0x65)] {
            pair.write(port, value);
        }
        for _ in 0..600 {
            match random.next(8) {
                0..3 => {
                    let commands = [
                        0x20, 0xa7, 0xa8, 0xaa, 0xab, 0xad, 0xae, 0xc0, 0xd0, 0xdd, 0xdf, 0xff,
                    ];
                    pair.write(STATUS_PORT, random.pick(&commands));
                }
                3 => {
                    let (command, value) = random.pick(&[
                        (0x60, 0x65),
                        (0x60, 0x25),
                        (0x60, 0x74),
                        (0x60, 0x47),
                        (0xd1, 0xcf),
                        (0xd1, 0xcd),
                        (0xd2, 0x5a),
                        (0xd2, 0xf0),
                    ]);
                    pair.write(STATUS_PORT, command);
                    pair.write(DATA_PORT, value);
                }
                4..6 => {
                    let commands = [0xee, 0xf2, 0xf4, 0xf5, 0xf6, 0xff, 0x12, 0xef];
                    pair.write(DATA_PORT, random.pick(&commands));
                }
                _ => {
                    let (command, value) = random.pick(&[
                        (0xed, 0),
                        (0xed, 7),
                        (0xf0, 0),
                        (0xf0, 1),
                        (0xf0, 2),
                        (0xf3, 0x20),
                    ]);
                    pair.write(DATA_PORT, command);
                    pair.drain();
                    pair.write(DATA_PORT, value);
                }
            }
            pair.drain();
        }
    }
}
