//! The same random register accesses on our devices and on QEMU's `virt` board, by its qtest
//! protocol; every value read must be equal. Run it with
//!
//! ```text
//!   cargo test -p devices qemu
//! ```
//!
//! The devices are the UART, the RTC, the CLINT's compare registers and the PLIC's set-up registers.
//! Virtual time stands still at 0, so that nothing here is about time. Left out is what QEMU is known
//! to do otherwise than the manuals that we follow:
//!
//! - PLIC pending and claim: there, a source whose line is still up at its completion pends again
//!   only when the device next drives its line, and thresholds mask claims;
//! - the enable bit of PLIC source 0, which there can be set;
//! - MSR's change bits, which QEMU's loopback does not set, and their interrupt;
//! - FIFO triggers above 1, since the character timeout waits for time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::fake::Fake;
use crate::{Clint, Device, Plic, Rtc, Uart};

const PROGRAM: &str = "qemu-system-riscv64";
const MACHINE: &str = "-machine virt -bios none -smp 2 -serial null";
const CLINT: u64 = 0x200_0000;
const PLIC: u64 = 0xc00_0000;
const RTC: u64 = 0x10_1000;
const UART: u64 = 0x1000_0000;
const DATE: u64 = 1_577_836_800_000_000_000; // 2020-01-01
const MSR: u64 = UART + 6;

/// No test needs one QEMU for so long, on a busy host either.
const PATIENCE: Duration = Duration::from_secs(300);

/// A QEMU that stands at its first instruction and hears qtest's commands.
pub(crate) struct Qemu {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Its end tells the watching thread that nobody waits for QEMU any more.
    _waiting: mpsc::Sender<()>,
}

impl Qemu {
    /// Starts QEMU for a machine (`-machine` and more, words apart by one space).
    pub fn start(program: &str, machine: &str) -> Qemu {
        let mut child = Command::new(program)
            .args(machine.split(' '))
            .args("-nodefaults -display none -S -qtest stdio -qtest-log /dev/null".split(' '))
            .args(["-rtc", "base=2020-01-01T00:00:00,clock=vm"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        // A QEMU that doesn't answer is killed, so that whoever waits for an answer fails.
        let (waiting, ended) = mpsc::channel::<()>();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        Qemu {
            child,
            to,
            from,
            _waiting: waiting,
        }
    }

    /// Sends a command and returns what QEMU said behind OK.
    pub fn command(&mut self, command: &str) -> String {
        writeln!(self.to, "{command}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.strip_prefix("OK").expect(&line).trim().to_string()
    }

    /// The number with which it answers a command.
    pub fn ask(&mut self, command: &str) -> u64 {
        let value = self.command(command);
        u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap()
    }

    fn read(&mut self, addr: u64, size: u8) -> u64 {
        self.ask(&format!("read{} {addr:#x}", letter(size)))
    }

    fn write(&mut self, addr: u64, size: u8, value: u64) {
        self.command(&format!("write{} {addr:#x} {value:#x}", letter(size)));
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn letter(size: u8) -> char {
    match size {
        1 => 'b',
        2 => 'w',
        4 => 'l',
        _ => 'q',
    }
}

struct Board {
    cx: Fake,
    clint: Clint,
    plic: Plic,
    rtc: Rtc,
    uart: Uart,
}

impl Board {
    fn new() -> Board {
        Board {
            cx: Fake::new(),
            clint: Clint::new(2),
            plic: Plic::new(2),
            rtc: Rtc::new(11, DATE),
            uart: Uart::new(10, 0),
        }
    }

    fn access<T>(&mut self, addr: u64, act: impl FnOnce(&mut dyn Device, &mut Fake, u64) -> T) -> T {
        let cx = &mut self.cx;
        match addr {
            PLIC..UART => act(&mut self.plic, cx, addr - PLIC),
            UART.. => act(&mut self.uart, cx, addr - UART),
            CLINT.. => act(&mut self.clint, cx, addr - CLINT),
            _ => act(&mut self.rtc, cx, addr - RTC),
        }
    }
}

pub(crate) struct Random(pub u64);

impl Random {
    /// xorshift64*.
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next(of.len() as u64) as usize]
    }
}

/// An address, a size, and what may be written there.
fn register(random: &mut Random) -> (u64, u8, u64) {
    match random.next(10) {
        0..5 => {
            let offset = random.next(8);
            let value = match offset {
                1 => random.pick(&[0, 1, 2, 3, 4, 7]),
                2 => random.pick(&[0, 1, 1, 3, 5, 7]),
                3 => random.pick(&[3, 3, 0x83]),
                4 => random.pick(&[0, 0x10, 0x10, 0x1b, 0x1f, 0xb]),
                _ => random.next(256),
            };
            (UART + offset, 1, value)
        }
        5..8 => {
            let context = random.next(4);
            let (offset, value) = match random.next(4) {
                0 => (4 * random.next(96), random.next(1 << 31)),
                1 => (
                    0x2000 + 0x80 * context + 4 * random.next(3),
                    random.next(1 << 31) << 1,
                ),
                2 => (0x20_0000 + 0x1000 * context, random.next(16)),
                _ => (
                    random.pick(&[0, 0x180, 0x200c, 0x2200, 0x20_4000]),
                    random.next(16),
                ),
            };
            (PLIC + offset, 4, value)
        }
        8 => {
            let offset = 4 * random.next(8);
            let value = match offset {
                0..0x10 => random.pick(&[0, 1, 0xffff_ffff, DATE >> 32, (DATE >> 32) + 1]),
                _ => random.next(2),
            };
            (RTC + offset, 4, value)
        }
        _ => {
            let size = random.pick(&[4, 8]);
            let offset = random.pick(&[0x4000, 0x4008, if size == 4 { 4 } else { 0x4000 }]);
            (CLINT + offset, size, random.next(1 << 31) * 3)
        }
    }
}

/// Whether QEMU can be asked; if not, the skip is told to whoever runs the tests.
pub(crate) fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found && let Some(skips) = std::env::var_os("TICKBACK_SKIPS") {
        let skips = std::fs::OpenOptions::new().append(true).create(true).open(skips);
        skips
            .unwrap()
            .write_all(format!("devices against QEMU: {program} is not installed\n").as_bytes())
            .unwrap();
    }
    found
}

#[test]
fn qemu_reads_the_same() {
    if !installed(PROGRAM) {
        return;
    }
    let mut random = Random(0x7ec4_bacc);
    for round in 0..40 {
        let (mut board, mut qemu) = (Board::new(), Qemu::start(PROGRAM, MACHINE));
        let mut history = Vec::new();
        // mtimecmp is undefined at reset, and QEMU's MCR has OUT2 set.
        for (addr, size) in [(CLINT + 0x4000, 8), (CLINT + 0x4008, 8), (UART + 4, 1)] {
            board.access(addr, |device, cx, offset| device.write(cx, offset, size, 0));
            qemu.write(addr, size, 0);
        }
        for _ in 0..2000 {
            let (addr, size, value) = register(&mut random);
            if random.next(2) == 0 {
                history.push(format!("write{} {addr:#x} {value:#x}", letter(size)));
                board.access(addr, |device, cx, offset| device.write(cx, offset, size, value));
                qemu.write(addr, size, value);
            } else if addr == UART && qemu.read(UART + 5, 1) & 1 == 0 {
                // What RBR reads as without data is left open; reading LSR clears its errors.
                board.access(UART + 5, |device, cx, offset| device.read(cx, offset, 1));
            } else {
                if addr == UART {
                    board.access(UART + 5, |device, cx, offset| device.read(cx, offset, 1));
                }
                history.push(format!("read{} {addr:#x}", letter(size)));
                let mut ours = board.access(addr, |device, cx, offset| device.read(cx, offset, size));
                let mut theirs = qemu.read(addr, size);
                if addr == MSR {
                    (ours, theirs) = (ours & 0xf0, theirs & 0xf0);
                }
                let last = history.len().saturating_sub(25);
                assert_eq!(
                    ours,
                    theirs,
                    "round {round}, ours first, after {:#?}",
                    &history[last..]
                );
            }
        }
    }
}
