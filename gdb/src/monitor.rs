//! `monitor` commands: what a machine with a history can do and gdb has no words for.

use std::fmt::Write as _;

use machine::icount::{Body, Effect, Event, Icount};
use machine::snapshot::Replay;
use machine::{Backward, Landed, Stops, Watch};

use crate::numbers::{grouped, number, position};
use crate::target::{Target, chain};
use crate::travel::{Outcome, interruptible, leave_branch};
use crate::watches::translate;

const HELP: &str = "\
tickback's commands (each after `monitor`):
  when                     where the machine stands
  goto N|end|begin|50%     go to a position; numbers as 1_000_000, 1e6, 0x...
  back N                   go N steps back
  last-write ADDR LEN      find the last write to memory before here
  events [FROM [TO]]       the recording's events, those around here without FROM
  snapshots                positions that are saved
  regs                     all registers of the hart that is about to step; x86: rip is linear, cs:ip beside it
  disas [N]                its next N instructions (10) in the mode that it is in, also 16-bit code
  screen                   the text on the display
  phys on|off              memory addresses are physical, or virtual again
  help                     this text
After goto and back gdb still holds the registers of before: `maintenance flush register-cache` drops them.
tb-goto, tb-back, ... of tickback.gdb do both (source it into gdb).
`kill` ends the server; `detach` leaves it listening.
";

/// Events shown on each side of here.
const AROUND: usize = 10;
/// The most lines of a listing.
const MOST_LINES: usize = 200;
/// The most bytes of a last-write.
const MOST_BYTES: u64 = 4096;

impl Target<'_> {
    /// Runs a command and yields what it has to say.
    pub fn monitor(&mut self, line: &str) -> String {
        self.explore();
        let words: Vec<&str> = line.split_whitespace().collect();
        let (command, arguments) = words.split_first().map_or(("help", &[][..]), |(c, a)| (*c, a));
        let result = match (command, arguments) {
            ("help", _) => Ok(HELP.to_owned()),
            ("when", []) => Ok(self.when()),
            ("goto", [to]) => self.goto(to),
            ("back", [n]) => self.back(n),
            ("last-write", [addr, len]) => self.last_write(addr, len),
            ("events", [] | [_] | [_, _]) => self.events(arguments),
            ("snapshots", []) => Ok(self.snapshots()),
            ("regs", []) => Ok(self.registers()),
            ("disas", []) => Ok(self.listing(10)),
            ("disas", [n]) => match number(n) {
                Some(n) => Ok(self.listing(n.min(MOST_LINES as u64))),
                None => Err(format!("{n:?} is no number")),
            },
            ("screen", []) => self.screen(),
            ("phys", [state @ ("on" | "off")]) => {
                self.physical = *state == "on";
                let kind = if self.physical { "physical" } else { "virtual" };
                Ok(format!("memory addresses are {kind}\n"))
            }
            ("phys", []) => {
                let kind = if self.physical { "physical" } else { "virtual" };
                Ok(format!(
                    "memory addresses are {kind}; phys on or phys off changes it\n"
                ))
            }
            (
                "when" | "goto" | "back" | "last-write" | "events" | "snapshots" | "phys" | "regs" | "disas"
                | "screen",
                _,
            ) => {
                let usage = HELP
                    .lines()
                    .find(|l| l.trim_start().starts_with(command))
                    .unwrap_or_default();
                Err(format!("usage: {}", usage.trim_start()))
            }
            _ => Err(format!(
                "there is no command {command:?}; `monitor help` lists those that there are"
            )),
        };
        result.unwrap_or_else(|error| format!("tickback: {error}\n"))
    }

    fn end(&self) -> Icount {
        self.timeline.machine().end()
    }

    fn when(&mut self) -> String {
        let at = self.timeline.position();
        let history = self.timeline.machine();
        let mut text = format!("icount {}", grouped(at.0));
        let write = match (history.branched_at(), history.is_live(), at == history.end()) {
            (Some(from), _, _) => write!(
                text,
                ", on a branch that left the recording at {}",
                grouped(from.0)
            ),
            (None, true, true) => write!(text, ", at the live end"),
            (None, _, _) => write!(text, " of {}", grouped(history.end().0)),
        };
        // Writing to a String can't fail.
        let _ = write;
        let _ = writeln!(text, ", virtual time {}", history.machine().time());
        text + &self.here()
    }

    /// The hart that is about to step, and its instruction.
    fn here(&mut self) -> String {
        let hart = self.current();
        let Some(pc) = self.cpu(hart).map(|cpu| cpu.pc()) else {
            return String::new();
        };
        format!("hart {hart}, pc {pc:#x}: {}\n", self.disassembly(hart, pc))
    }

    fn disassembly(&mut self, hart: u8, pc: u64) -> String {
        let mut bytes = [0; 16];
        let physical = std::mem::take(&mut self.physical);
        let n = self.read(hart, pc, &mut bytes);
        self.physical = physical;
        match self.cpu(hart) {
            Some(cpu) if n >= 1 => cpu.disassemble(pc, &bytes[..n]).0,
            _ => "(not in memory)".to_owned(),
        }
    }

    /// Registers of at most 64 bits, four a line.
    fn registers(&mut self) -> String {
        let hart = self.current();
        let Some(cpu) = self.cpu(hart) else {
            return String::new();
        };
        let value = |name: &str| {
            let info = cpu.registers().iter().find(|info| info.name == name)?;
            let bytes = cpu.read_register(info.number)?;
            Some(
                bytes
                    .iter()
                    .rev()
                    .fold(0u64, |value, byte| value << 8 | u64::from(*byte)),
            )
        };
        let mut cells = Vec::new();
        for info in cpu.registers().iter().filter(|info| info.bits <= 64) {
            if let Some(value) = value(info.name) {
                cells.push(format!("{:<10} {value:#018x}", info.name));
            }
        }
        let rows: Vec<String> = cells.chunks(4).map(|row| row.join("  ")).collect();
        let mut text = format!("hart {hart}\n{}\n", rows.join("\n"));
        if let (Some(cs), Some(base), Some(pc)) = (value("cs"), value("cs_base"), value("rip")) {
            let _ = writeln!(text, "cs:ip      {cs:04x}:{:04x}", pc.wrapping_sub(base));
        }
        text
    }

    /// The next `n` instructions of the hart that is about to step.
    fn listing(&mut self, n: u64) -> String {
        let hart = self.current();
        let Some(mut pc) = self.cpu(hart).map(|cpu| cpu.pc()) else {
            return String::new();
        };
        let mut text = String::new();
        for _ in 0..n {
            let mut bytes = [0; 16];
            let physical = std::mem::take(&mut self.physical);
            let read = self.read(hart, pc, &mut bytes);
            self.physical = physical;
            let (line, len) = match self.cpu(hart) {
                Some(cpu) if read > 0 => cpu.disassemble(pc, &bytes[..read]),
                _ => break,
            };
            let _ = writeln!(text, "{pc:#x}: {line}");
            if len == 0 {
                break;
            }
            pc = pc.wrapping_add(len as u64);
        }
        text
    }

    fn screen(&mut self) -> Result<String, String> {
        let machine = self.timeline.machine().machine();
        let screen = machine.screen().ok_or("there is no display in a text mode")?;
        Ok(screen.rows().join("\n") + "\n")
    }

    fn landed(&mut self, outcome: Outcome<Landed>) -> Result<String, String> {
        let at = self.timeline.position();
        let note = match interruptible(outcome, Landed::Interrupted).map_err(|e| chain(&e))? {
            Landed::There => "",
            Landed::Begin => "this is the beginning of history\n",
            Landed::End => "this is the end of the recording\n",
            Landed::Interrupted => "interrupted\n",
        };
        self.stopped = self.current();
        self.owed = None;
        let mut text = format!("{note}{}", self.when());
        if !self.hinted && at != Icount::ZERO {
            self.hinted = true;
            text += "gdb still holds the registers of before: maintenance flush register-cache (tb-goto and tb-back of tickback.gdb do it)\n";
        }
        Ok(text)
    }

    /// Goes to a position, leaving a branch that began after it.
    fn seek(&mut self, to: Icount) -> Outcome<Landed> {
        if let Some(from) = self.timeline.machine().branched_at()
            && to < from
        {
            leave_branch(self.timeline)?;
        }
        self.timeline.seek(to)
    }

    fn goto(&mut self, to: &str) -> Result<String, String> {
        let no_end = |from: Icount| {
            format!(
                "this is a branch, which has no end; go back before {} first",
                grouped(from.0)
            )
        };
        if let Some((from, _)) = self.explored
            && (to == "end" || to.ends_with('%'))
        {
            return Err(no_end(from));
        }
        let to = position(to, self.timeline.machine().begin(), self.end())
            .ok_or_else(|| format!("{to:?} is no position; try 1_000_000, 1e6, 50%, begin or end"))?;
        // Nobody knows that a branch gets there, and gdb has no Ctrl-C for a monitor command.
        if let Some((from, far)) = self.explored
            && to > far
        {
            let far = grouped(far.0);
            return Err(format!(
                "{}, or no further than {far}, where it has been",
                no_end(from)
            ));
        }
        // Going there would make the run go on, and gdb has no Ctrl-C for a monitor command.
        let end = self.end();
        if self.timeline.machine().is_live() && self.explored.is_none() && to > end {
            return Err(format!(
                "{} lies beyond the end, {}, of what is recorded so far; `continue` goes on recording",
                grouped(to.0),
                grouped(end.0)
            ));
        }
        let landed = self.seek(to);
        let beyond = matches!(landed, Ok(Landed::End));
        let text = self.landed(landed)?;
        Ok(if beyond {
            format!("{} lies beyond the end of the recording\n{text}", grouped(to.0))
        } else {
            text
        })
    }

    fn back(&mut self, n: &str) -> Result<String, String> {
        let n = number(n).ok_or_else(|| format!("{n:?} is no number of steps"))?;
        let here = self.timeline.position();
        let landed = match here.checked_sub(n) {
            Some(to) => self.seek(to),
            None => self.seek(Icount::ZERO).map(|landed| match landed {
                Landed::There => Landed::Begin,
                other => other,
            }),
        };
        self.landed(landed)
    }

    fn last_write(&mut self, addr: &str, len: &str) -> Result<String, String> {
        let addr = number(addr)
            .ok_or_else(|| format!("{addr:?} is no address (gdb's expressions: tb-last-write)"))?;
        let len = number(len)
            .filter(|n| (1..=MOST_BYTES).contains(n))
            .ok_or_else(|| format!("{len:?} is no length; 1 to {MOST_BYTES} bytes are possible"))?;
        let hart = self.looked;
        let ranges = translate(addr, len, |addr| self.physical_address(hart, addr)).ok_or_else(|| {
            format!("{len} bytes at {addr:#x} are not mapped to memory for hart {hart} here")
        })?;
        let watches = ranges.iter().map(|(_, addr, len)| Watch {
            addr: *addr,
            len: *len,
            read: false,
            write: true,
        });
        let stops = Stops {
            watches: watches.collect(),
            ..Stops::default()
        };
        let (here, branch) = (self.timeline.position(), self.timeline.machine().branched_at());
        let low = branch.unwrap_or(Icount::ZERO);
        let found = interruptible(self.timeline.find_last(low, here, &stops), Backward::Interrupted);
        let at = match (found.map_err(|e| chain(&e))?, branch) {
            (Backward::Found { at, stop }, _) => (at, stop),
            (Backward::Interrupted, _) => return Ok("interrupted\n".into()),
            (Backward::Begin, None) => {
                return Ok("nothing has written there since the beginning of history\n".into());
            }
            (Backward::Begin, Some(from)) => {
                return Ok(format!(
                    "nothing has written there since the branch began at {}; ask again before it\n",
                    grouped(from.0)
                ));
            }
        };
        let (at, stop) = at;
        let text = self.describe_write(at, stop.hart(), &ranges);
        // Home is where gdb believes to be.
        while self.timeline.seek(here).map_err(|e| chain(&e))? == Landed::Interrupted {}
        text.map_err(|e| chain(&e))
    }

    /// What the step after `at` did to physical ranges.
    fn describe_write(&mut self, at: Icount, hart: u8, ranges: &[(u64, u64, u64)]) -> Outcome<String> {
        if self.timeline.seek(at)? != Landed::There {
            return Ok("interrupted\n".into());
        }
        let old = self.bytes(ranges);
        let time = self.timeline.machine().machine().time();
        let pc = self.cpu(hart).map_or(0, |cpu| cpu.pc());
        let instruction = self.disassembly(hart, pc);
        let by_device = self.device_wrote(at, ranges);
        self.timeline.step_forward()?;
        let new = self.bytes(ranges);
        let what = if by_device {
            "a device (DMA) at".to_owned()
        } else {
            format!("hart {hart},")
        };
        Ok(format!(
            "last written by {what} icount {}, virtual time {time}\n  pc {pc:#x}: {instruction}\n  old {}\n  new {}\n\
             monitor goto {} goes there, right before it\n",
            grouped(at.0),
            shown(&old),
            shown(&new),
            grouped(at.0),
        ))
    }

    fn bytes(&mut self, ranges: &[(u64, u64, u64)]) -> Vec<u8> {
        let machine = self.timeline.machine_mut().machine_mut();
        let mut all = Vec::new();
        for (_, addr, len) in ranges {
            let mut part = vec![0; *len as usize];
            machine.debug_read(machine::AddressKind::Physical, *addr, &mut part);
            all.extend(part);
        }
        all
    }

    /// Whether the log has a device's write into the ranges at this boundary.
    fn device_wrote(&mut self, at: Icount, ranges: &[(u64, u64, u64)]) -> bool {
        let Ok(log) = self.timeline.machine_mut().log() else {
            return false;
        };
        let Ok(events) = log.events_from(at) else {
            return false;
        };
        let here = events.map_while(Result::ok).take_while(|event| event.at == at);
        here.into_iter().any(|event| match event.body {
            Body::Effect(Effect::Dma {
                write: true,
                addr,
                len,
                ..
            }) => ranges
                .iter()
                .any(|(_, start, n)| addr < start + n && *start < addr.saturating_add(len.into())),
            _ => false,
        })
    }

    fn events(&mut self, range: &[&str]) -> Result<String, String> {
        let end = self.end();
        let begin = self.timeline.machine().begin();
        let parse =
            |text: &&str| position(text, begin, end).ok_or_else(|| format!("{text:?} is no position"));
        let range = range.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let here = self.timeline.position();
        let log = self.timeline.machine_mut().log().map_err(|e| chain(&e))?;
        let from = |from| log.events_from(from).map_err(|e| chain(&e));
        let (mut lines, mut cut) = (Vec::new(), false);
        match range.as_slice() {
            [] => {
                // Back in widening strides until there are enough.
                let mut stride = 1000;
                let before = loop {
                    let start = here.saturating_sub(stride);
                    let before: Vec<Event> = from(start)?
                        .map_while(Result::ok)
                        .take_while(|e| e.at < here)
                        .collect();
                    if before.len() >= AROUND || start == Icount::ZERO {
                        break before;
                    }
                    stride = stride.saturating_mul(8);
                };
                let skip = before.len().saturating_sub(AROUND);
                lines.extend(before.iter().skip(skip).map(|e| format!("{e}\n")));
                lines.push(format!("{:>14} <- here\n", here.0));
                lines.extend(
                    from(here)?
                        .map_while(Result::ok)
                        .take(AROUND)
                        .map(|e| format!("{e}\n")),
                );
            }
            [start, rest @ ..] => {
                let last = rest.first().copied().unwrap_or(Icount::MAX);
                let most = if rest.is_empty() { 2 * AROUND } else { MOST_LINES };
                for event in from(*start)?.map_while(Result::ok).take_while(|e| e.at <= last) {
                    if lines.len() == most {
                        cut = true;
                        break;
                    }
                    lines.push(format!("{event}\n"));
                }
            }
        }
        if lines.is_empty() {
            return Ok("no events there\n".into());
        }
        Ok(lines.concat() + if cut { "and more\n" } else { "" })
    }

    fn snapshots(&self) -> String {
        let saved = self.timeline.machine().checkpoints().list();
        let skip = saved.len().saturating_sub(MOST_LINES);
        let mut text = format!(
            "{} on disk{}\n",
            saved.len(),
            if skip > 0 { ", the last of them:" } else { "" }
        );
        for info in &saved[skip..] {
            let _ = writeln!(text, "{:>18} {:>15}", grouped(info.at.0), info.time.to_string());
        }
        let rungs = self.timeline.rungs();
        let _ = writeln!(
            text,
            "{} in memory, about {} MiB",
            rungs.len(),
            self.timeline.memory() >> 20
        );
        text
    }
}

/// Bytes as people read them: up to eight as a little-endian number too.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    if let 1 | 2 | 4 | 8 = bytes.len() {
        let value = bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let _ = write!(text, "{value:#x}");
        return text;
    }
    for byte in bytes.iter().take(64) {
        let _ = write!(text, "{byte:02x} ");
    }
    text.push_str(if bytes.len() > 64 { "..." } else { "" });
    text.trim_end().to_owned()
}
