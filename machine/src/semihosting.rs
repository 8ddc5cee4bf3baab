//! What a guest asks of a host by semihosting (RISC-V Semihosting 1.0; the operations are those of Arm's *Semihosting for
//! AArch32 and AArch64* 2022Q3, with 64-bit parameters): console, clocks, command line, exit.
//!
//! There are no host files here: a run depends on nothing but its configuration and its inputs. The only name that
//! [`op::OPEN`] knows is `:tt`, the console; what would touch a file fails with -1. All else is the machine's:
//!
//! - output is the console's, an effect as a UART's is;
//! - input is taken from the first console's UART, to which the door delivers it. While there is none, the call is made again,
//!   a step each time, and interrupts are taken between;
//! - time is virtual time; the date is that of power-on and virtual time.
//!
//! There is no state: handles are numbers, and the error number is always the same. All that a call reads and may
//! write in memory is checked before its first effect, so that a watchpoint can stop before it. What is no memory,
//! devices included, makes a call fail; lengths are bounded by [`MOST`] a call, which the operations allow (they say
//! how much is left).

use cpu::{Access, Cpu};
use devices::{Context, Power};

use crate::access::{Part, Place, Refused, part};
use crate::ram::PAGE;
use crate::system::System;

/// Numbers of operations.
mod op {
    pub const OPEN: u64 = 0x01;
    pub const CLOSE: u64 = 0x02;
    pub const WRITEC: u64 = 0x03;
    pub const WRITE0: u64 = 0x04;
    pub const WRITE: u64 = 0x05;
    pub const READ: u64 = 0x06;
    pub const READC: u64 = 0x07;
    pub const ISERROR: u64 = 0x08;
    pub const ISTTY: u64 = 0x09;
    pub const FLEN: u64 = 0x0c;
    pub const CLOCK: u64 = 0x10;
    pub const TIME: u64 = 0x11;
    pub const ERRNO: u64 = 0x13;
    pub const GET_CMDLINE: u64 = 0x15;
    pub const HEAPINFO: u64 = 0x16;
    pub const EXIT: u64 = 0x18;
    pub const EXIT_EXTENDED: u64 = 0x20;
    pub const ELAPSED: u64 = 0x30;
    pub const TICKFREQ: u64 = 0x31;
}

/// The most bytes that one call moves.
const MOST: u64 = 64 << 10;
/// The most bytes that are taken from the UART at once: more than it holds.
const MOST_INPUT: u64 = 64;
/// -1.
const FAILED: u64 = u64::MAX;
/// The error number: no such file.
const ENOENT: u64 = 2;
/// The reason of an exit that the program wanted (`ADP_Stopped_ApplicationExit`).
const APPLICATION_EXIT: u64 = 0x2_0026;
/// Handles of the console, opened for reading, for writing and for appending.
const INPUT: u64 = 1;
const OUTPUT: u64 = 2;
const ERRORS: u64 = 3;

/// Registers of a console's 16550 (data sheet 8): received byte, line control with the latch bit, line status with the bit
/// for received data.
const RBR: u64 = 0;
const LCR: u64 = 3;
const DLAB: u64 = 0x80;
const LSR: u64 = 5;
const DR: u64 = 1;

/// What calls are answered with that isn't the machine's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semihosting {
    /// The guest's command line.
    pub command_line: String,
    /// Date at power-on in ns since 1970.
    pub date_ns: u64,
}

/// A physical range, within a page.
type Piece = (u64, u64);

/// The parts of `len` bytes of RAM at `va`, checked for an access; `None` where not all is RAM.
fn pieces(
    cpu: &dyn Cpu,
    sys: &mut System,
    va: u64,
    len: u64,
    access: Access,
) -> Result<Option<Vec<Piece>>, Refused> {
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < len {
        let at = va.wrapping_add(done);
        let here = (PAGE - at % PAGE).min(len - done);
        let Ok(Part {
            addr,
            place: Place::Ram,
            ..
        }) = part(cpu, sys, at, here, access)
        else {
            return Ok(None);
        };
        let write = access == Access::Write;
        if sys.watching.hit.is_some()
            || sys
                .watching
                .access(&sys.memory, sys.at, sys.current, addr, here, write)
        {
            return Err(Refused::Stop);
        }
        pieces.push((addr, here));
        done += here;
    }
    Ok(Some(pieces))
}

/// Reads memory.
fn read(cpu: &dyn Cpu, sys: &mut System, va: u64, len: u64) -> Result<Option<Vec<u8>>, Refused> {
    let Some(pieces) = pieces(cpu, sys, va, len, Access::Read)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    for (addr, len) in pieces {
        let from = bytes.len();
        bytes.resize(from + len as usize, 0);
        sys.memory.note_unwatched(addr, len);
        sys.memory.ram().read_bytes(addr, &mut bytes[from..]);
    }
    Ok(Some(bytes))
}

/// Reads a string to its NUL, which is not of it, or to [`MOST`] bytes.
fn string(cpu: &dyn Cpu, sys: &mut System, va: u64) -> Result<Option<Vec<u8>>, Refused> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < MOST {
        let at = va.wrapping_add(bytes.len() as u64);
        let Some(page) = read(cpu, sys, at, PAGE - at % PAGE)? else {
            return Ok(None);
        };
        match page.iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&page[..end]);
                return Ok(Some(bytes));
            }
            None => bytes.extend(page),
        }
    }
    bytes.truncate(MOST as usize);
    Ok(Some(bytes))
}

/// Reads the words of a parameter block.
fn words<const N: usize>(cpu: &dyn Cpu, sys: &mut System, va: u64) -> Result<Option<[u64; N]>, Refused> {
    let bytes = read(cpu, sys, va, 8 * N as u64)?;
    Ok(bytes.map(|bytes| {
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }))
}

/// Writes memory that was checked, through the guards.
fn write(sys: &mut System, pieces: &[Piece], bytes: &[u8]) {
    let mut rest = bytes;
    for (addr, len) in pieces {
        let (here, after) = rest.split_at(rest.len().min(*len as usize));
        sys.write_ram(*addr, here);
        rest = after;
    }
    sys.leave |= sys.memory.take_leave();
}

/// Writes bytes, if all is memory; whether it is.
fn put(cpu: &dyn Cpu, sys: &mut System, va: u64, bytes: &[u8]) -> Result<bool, Refused> {
    let pieces = pieces(cpu, sys, va, bytes.len() as u64, Access::Write)?;
    if let Some(pieces) = &pieces {
        write(sys, pieces, bytes);
    }
    Ok(pieces.is_some())
}

fn little_endian(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl System {
    fn say(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.console_out(0, *byte);
        }
    }

    /// Takes what the first console has received, at most so many bytes.
    fn hear(&mut self, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(console) = self.wiring.consoles.first().copied() else {
            return bytes;
        };
        let mut register = |offset| {
            self.with_device(console, |device, cx| device.read(cx, offset, 1))
                .unwrap_or(0)
        };
        if register(LCR) & DLAB == 0 {
            while (bytes.len() as u64) < most && register(LSR) & DR != 0 {
                bytes.push(register(RBR) as u8);
            }
        }
        self.after_device();
        bytes
    }

    /// Answers a call; `None`: it is to be made again.
    pub(crate) fn answer(
        &mut self,
        cpu: &dyn Cpu,
        operation: u64,
        parameter: u64,
    ) -> Result<Option<u64>, Refused> {
        let Some(semihosting) = &self.semihosting else {
            return Ok(Some(FAILED));
        };
        let time = self.time().0;
        let date_ns = semihosting.date_ns;
        let answer = match operation {
            op::OPEN => self.open(cpu, parameter)?,
            op::CLOSE => self.handle(cpu, parameter)?.map(|_| 0),
            op::WRITEC => read(cpu, self, parameter, 1)?.map(|byte| {
                self.say(&byte);
                0
            }),
            op::WRITE0 => string(cpu, self, parameter)?.map(|text| {
                self.say(&text);
                0
            }),
            op::WRITE => self.write(cpu, parameter)?,
            op::READ => match self.read(cpu, parameter)? {
                Heard::Nothing => return Ok(None),
                Heard::Answer(answer) => answer,
            },
            op::READC => match self.hear(1).first() {
                Some(byte) => Some((*byte).into()),
                None => return Ok(None),
            },
            op::ISERROR => words(cpu, self, parameter)?.map(|[status]: [u64; 1]| status >> 63),
            op::ISTTY => self.handle(cpu, parameter)?.map(|_| 1),
            op::FLEN => self.handle(cpu, parameter)?.map(|_| 0),
            op::CLOCK => Some(time / 10_000_000),
            op::TIME => Some(date_ns.saturating_add(time) / 1_000_000_000),
            op::ERRNO => Some(ENOENT),
            op::GET_CMDLINE => self.command_line(cpu, parameter)?,
            op::HEAPINFO => self.heap_info(cpu, parameter)?,
            op::EXIT | op::EXIT_EXTENDED => words(cpu, self, parameter)?.map(|[reason, code]| {
                let code = if reason == APPLICATION_EXIT {
                    code as u32
                } else {
                    1
                };
                self.power = Some(Power::Off { code });
                self.leave = true;
                0
            }),
            op::ELAPSED => put(cpu, self, parameter, &time.to_le_bytes())?.then_some(0),
            op::TICKFREQ => Some(1_000_000_000),
            // Files: SEEK, TMPNAM, REMOVE, RENAME; SYSTEM; and what nobody has defined.
            _ => None,
        };
        Ok(Some(answer.unwrap_or(FAILED)))
    }

    /// The handle that a parameter block begins with, if it is one.
    fn handle(&mut self, cpu: &dyn Cpu, block: u64) -> Result<Option<u64>, Refused> {
        let block = words(cpu, self, block)?;
        Ok(block
            .map(|[handle]: [u64; 1]| handle)
            .filter(|handle| (INPUT..=ERRORS).contains(handle)))
    }

    fn open(&mut self, cpu: &dyn Cpu, block: u64) -> Result<Option<u64>, Refused> {
        const CONSOLE: &[u8] = b":tt";
        let Some([name, mode, len]) = words(cpu, self, block)? else {
            return Ok(None);
        };
        if len != CONSOLE.len() as u64 || read(cpu, self, name, len)?.as_deref() != Some(CONSOLE) {
            return Ok(None);
        }
        Ok(match mode {
            0..=3 => Some(INPUT),
            4..=7 => Some(OUTPUT),
            8..=11 => Some(ERRORS),
            _ => None,
        })
    }

    /// Yields how many bytes were not written.
    fn write(&mut self, cpu: &dyn Cpu, block: u64) -> Result<Option<u64>, Refused> {
        let Some([handle, from, len]) = words(cpu, self, block)? else {
            return Ok(None);
        };
        if !matches!(handle, OUTPUT | ERRORS) {
            return Ok(Some(len));
        }
        let bytes = read(cpu, self, from, len.min(MOST))?.unwrap_or_default();
        self.say(&bytes);
        Ok(Some(len - bytes.len() as u64))
    }

    /// Yields how many bytes were not read: none read is the end of a file, or an error.
    fn read(&mut self, cpu: &dyn Cpu, block: u64) -> Result<Heard, Refused> {
        let Some([handle, to, len]) = words(cpu, self, block)? else {
            return Ok(Heard::Answer(None));
        };
        let most = len.min(MOST_INPUT);
        if handle != INPUT || most == 0 {
            return Ok(Heard::Answer(Some(len)));
        }
        let Some(pieces) = pieces(cpu, self, to, most, Access::Write)? else {
            return Ok(Heard::Answer(Some(len)));
        };
        let bytes = self.hear(most);
        if bytes.is_empty() {
            return Ok(Heard::Nothing);
        }
        write(self, &pieces, &bytes);
        Ok(Heard::Answer(Some(len - bytes.len() as u64)))
    }

    /// Writes the command line and a NUL to the buffer, and its length to the block.
    fn command_line(&mut self, cpu: &dyn Cpu, block: u64) -> Result<Option<u64>, Refused> {
        let Some([buffer, size]) = words(cpu, self, block)? else {
            return Ok(None);
        };
        let line = self.semihosting.as_ref();
        let mut line = line.map_or(Vec::new(), |semihosting| {
            semihosting.command_line.clone().into_bytes()
        });
        let len = line.len() as u64;
        line.push(0);
        if size <= len {
            return Ok(None);
        }
        // Both are checked before either is written.
        let text = pieces(cpu, self, buffer, len + 1, Access::Write)?;
        let count = pieces(cpu, self, block.wrapping_add(8), 8, Access::Write)?;
        let (Some(text), Some(count)) = (text, count) else {
            return Ok(None);
        };
        write(self, &text, &line);
        write(self, &count, &len.to_le_bytes());
        Ok(Some(0))
    }

    /// Bases and limits of heap and stack: the heap begins where the program says, and both end where memory does.
    fn heap_info(&mut self, cpu: &dyn Cpu, parameter: u64) -> Result<Option<u64>, Refused> {
        let Some([block]) = words(cpu, self, parameter)? else {
            return Ok(None);
        };
        let stretch = self.memory.ram().stretches().next();
        let end = stretch.map_or(0, |(base, len)| base + len);
        Ok(put(cpu, self, block, &little_endian(&[0, end, end, 0]))?.then_some(0))
    }
}

/// What came of reading the console.
enum Heard {
    /// Nothing was typed yet.
    Nothing,
    Answer(Option<u64>),
}
