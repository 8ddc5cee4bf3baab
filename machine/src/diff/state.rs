//! What differs between two machines that should be equal, and which step a machine makes next.
//!
//! Nothing here depends on the guest: registers come from [`Cpu::registers`], pages from the trees of both
//! machines, of which only what differs is visited.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use cpu::{Cpu, ENGINE_SLOTS};
use icount::Icount;
use serde::Serialize;

use crate::debug::AddressKind;
use crate::error::MachineError;
use crate::machine::{FirstStep, Machine, Stopped};
use crate::ram::PAGE;
use crate::state::DRIVES;
use crate::stops::Stops;

/// The most places of memory that are listed.
const MOST_PLACES: usize = 16;
/// The most bytes of a place that are shown.
const MOST_BYTES: usize = 16;

/// A step that a machine made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The boundary before it.
    pub icount: Icount,
    /// The hart that made it.
    pub hart: u8,
    /// The hart's program counter before it.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// The instruction there, or what was done instead of it.
    pub text: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>14} h{} {:#018x}  {}",
            self.icount.0, self.hart, self.pc, self.text
        )
    }
}

fn hex<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

/// A register that has two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterDifference {
    /// Whose.
    pub hart: u8,
    /// Name as in gdb.
    pub name: &'static str,
    /// Value in the first machine, in hexadecimal.
    pub a: String,
    /// Value in the second.
    pub b: String,
}

/// A run of bytes that differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryDifference {
    /// The drive, if it isn't memory.
    pub drive: Option<u8>,
    /// Physical address, or offset in the drive, of the first byte.
    #[serde(serialize_with = "hex")]
    pub addr: u64,
    /// How many bytes differ in a row, within the page.
    pub len: u64,
    /// The first of them in the first machine, in hexadecimal.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// All that differs between two machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Registers.
    pub registers: Vec<RegisterDifference>,
    /// The first places of memory and drives.
    pub memory: Vec<MemoryDifference>,
    /// How many pages (of memory or of a drive) differ.
    pub pages: u64,
    /// All else: the clock, whose turn it is, devices.
    pub other: Vec<String>,
}

impl Differences {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.pages == 0 && self.other.is_empty()
    }
}

impl fmt::Display for Differences {
    /// A line each, indented.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for r in &self.registers {
            writeln!(f, "  register  h{} {:<10} {:>20} | {}", r.hart, r.name, r.a, r.b)?;
        }
        for m in &self.memory {
            let what = m.drive.map_or_else(String::new, |d| format!("drive {d} offset "));
            let more = if m.len as usize > MOST_BYTES {
                format!(" ({} bytes)", m.len)
            } else {
                String::new()
            };
            writeln!(f, "  memory    {what}[{:#x}] {} | {}{more}", m.addr, m.a, m.b)?;
        }
        if self.pages > 0 {
            writeln!(f, "  memory    {} page(s) differ", self.pages)?;
        }
        for other in &self.other {
            writeln!(f, "  other     {other}")?;
        }
        Ok(())
    }
}

/// Bytes of memory whose difference is known, or does not matter.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Physical ranges to be ignored.
    pub ranges: Vec<Range<u64>>,
    /// By page key, a bit a byte.
    pages: BTreeMap<u64, Box<[u64; 64]>>,
}

impl Known {
    /// Nothing but these ranges.
    pub fn ranges(ranges: Vec<Range<u64>>) -> Known {
        Known {
            ranges,
            pages: BTreeMap::new(),
        }
    }

    fn has(&self, key: u64, addr: u64) -> bool {
        let offset = (addr % PAGE) as usize;
        (key & DRIVES == 0 && self.ranges.iter().any(|r| r.contains(&addr)))
            || self
                .pages
                .get(&key)
                .is_some_and(|bits| bits[offset / 64] >> (offset % 64) & 1 == 1)
    }

    /// Takes in every byte that differs now.
    ///
    /// # Errors
    /// A tree can't be read.
    pub fn learn(&mut self, a: &mut Machine, b: &mut Machine) -> Result<(), MachineError> {
        for key in differing_pages(a, b)? {
            let (x, y) = (page(a, key), page(b, key));
            let bits = self.pages.entry(key).or_insert_with(|| Box::new([0; 64]));
            for (i, _) in x.iter().zip(&y).enumerate().filter(|(_, (x, y))| x != y) {
                bits[i / 64] |= 1 << (i % 64);
            }
        }
        Ok(())
    }
}

/// The page of a key, as the machine holds it now.
fn page(machine: &Machine, key: u64) -> [u8; PAGE as usize] {
    if key & DRIVES == 0 {
        return *machine.sys.memory.ram().page(key);
    }
    let (drive, block) = ((key >> 32) as u8, key & u64::from(u32::MAX));
    machine
        .sys
        .disks
        .block(drive, block)
        .copied()
        .unwrap_or([0; PAGE as usize])
}

/// Keys of pages that may differ, in order. Hashes what was written, so that it isn't visited again.
fn differing_pages(a: &mut Machine, b: &mut Machine) -> Result<Vec<u64>, MachineError> {
    let (left, right) = (a.save()?.tree, b.save()?.tree);
    let mut keys = Vec::new();
    if left.root() != right.root() {
        left.diff::<MachineError>(&right, |key, _, _| {
            keys.push(key);
            Ok(())
        })?;
    }
    Ok(keys)
}

/// The stretches of bytes of memory that differ, by physical address, those near each other as one; `None` if they are more than
/// `most`, or if drives differ.
pub(crate) fn differing_bytes(
    a: &mut Machine,
    b: &mut Machine,
    most: usize,
) -> Result<Option<Vec<Range<u64>>>, MachineError> {
    const NEAR: u64 = 64;
    let mut found: Vec<Range<u64>> = Vec::new();
    for key in differing_pages(a, b)? {
        if key & DRIVES != 0 {
            return Ok(None);
        }
        let base = a.sys.memory.ram().address_of(key);
        let (x, y) = (page(a, key), page(b, key));
        for (i, _) in x.iter().zip(&y).enumerate().filter(|(_, (x, y))| x != y) {
            let addr = base + i as u64;
            match found.last_mut() {
                Some(last) if addr < last.end + NEAR && addr >= last.end => last.end = addr + 1,
                _ => found.push(addr..addr + 1),
            }
        }
        if found.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Places of memory that differ and are not known to, and the number of pages that they lie in.
pub(crate) fn memory(
    a: &mut Machine,
    b: &mut Machine,
    known: &Known,
) -> Result<(Vec<MemoryDifference>, u64), MachineError> {
    let (mut places, mut pages) = (Vec::new(), 0);
    for key in differing_pages(a, b)? {
        let (x, y) = (page(a, key), page(b, key));
        let drive = (key & DRIVES != 0).then_some((key >> 32) as u8);
        let base = match drive {
            Some(_) => (key & u64::from(u32::MAX)) * PAGE,
            None => a.sys.memory.ram().address_of(key),
        };
        let new = |i: usize| x[i] != y[i] && !known.has(key, base + i as u64);
        let mut at = 0;
        let mut any = false;
        while let Some(start) = (at..x.len()).find(|i| new(*i)) {
            let end = (start..x.len()).find(|i| !new(*i)).unwrap_or(x.len());
            any = true;
            at = end;
            if places.len() == MOST_PLACES {
                break;
            }
            let shown = start..end.min(start + MOST_BYTES);
            places.push(MemoryDifference {
                drive,
                addr: base + start as u64,
                len: (end - start) as u64,
                a: bytes(&x[shown.clone()]),
                b: bytes(&y[shown]),
            });
        }
        pages += u64::from(any);
    }
    Ok((places, pages))
}

fn bytes(bytes: &[u8]) -> String {
    let texts: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    texts.join(" ")
}

/// Everything that differs.
///
/// # Errors
/// A tree can't be read.
pub fn differences(a: &mut Machine, b: &mut Machine, known: &Known) -> Result<Differences, MachineError> {
    let (memory, pages) = memory(a, b, known)?;
    let mut found = Differences {
        registers: registers(a, b),
        memory,
        pages,
        other: Vec::new(),
    };
    let mut other = |what: String, same: bool| {
        if !same {
            found.other.push(what);
        }
    };
    other(
        format!("icount {} | {}", a.icount(), b.icount()),
        a.icount() == b.icount(),
    );
    other(
        format!("virtual time {} | {}", a.time(), b.time()),
        a.time() == b.time(),
    );
    let turn = (a.current_hart(), b.current_hart());
    other(
        format!("hart {} | {} has the turn", turn.0, turn.1),
        turn.0 == turn.1,
    );
    other(
        format!("harts: {} | {}", a.harts.len(), b.harts.len()),
        a.harts.len() == b.harts.len(),
    );
    other("the schedule of harts".into(), a.schedule == b.schedule);
    other("levels of interrupt lines".into(), a.sys.lines == b.sys.lines);
    other(
        "which blocks of drives are known".into(),
        a.sys.disks.known() == b.sys.disks.known(),
    );
    for (index, (x, y)) in a.harts.iter().zip(&b.harts).enumerate() {
        let same = x.save() == y.save();
        let told = found.registers.iter().any(|r| usize::from(r.hart) == index);
        if !same && !told {
            found
                .other
                .push(format!("hart {index}: state that has no register"));
        }
    }
    for (x, y) in a.sys.devices.iter().zip(&b.sys.devices) {
        if let (Some(left), Some(right)) = (&x.device, &y.device)
            && (left.name() != right.name() || left.save() != right.save())
        {
            found
                .other
                .push(format!("device {} at {:#x}", left.name(), x.base));
        }
    }
    Ok(found)
}

/// Registers that differ.
pub(crate) fn registers(a: &Machine, b: &Machine) -> Vec<RegisterDifference> {
    let mut found = Vec::new();
    for (hart, (x, y)) in a.harts.iter().zip(&b.harts).enumerate() {
        for info in x.registers() {
            let (left, right) = (x.read_register(info.number), y.read_register(info.number));
            if left != right {
                found.push(RegisterDifference {
                    hart: hart as u8,
                    name: info.name,
                    a: value(left),
                    b: value(right),
                });
            }
        }
    }
    found
}

/// Little-endian bytes as a number.
pub(crate) fn value(bytes: Option<Vec<u8>>) -> String {
    let Some(bytes) = bytes else { return "none".into() };
    let digits: String = bytes.iter().rev().map(|b| format!("{b:02x}")).collect();
    let digits = digits.trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}

/// The words of a hart's file that are its state, and what the lazy ones amount to.
fn words(cpu: &dyn Cpu) -> ([&[u64]; 3], u64) {
    let words = &cpu.regs().words()[..ENGINE_SLOTS];
    let page = cpu.layout().page.0 as usize;
    let (lazy, value) = cpu.lazy();
    // They come behind the page's.
    let low = lazy.start.max(page + 1);
    let high = lazy.end.max(low);
    ([&words[..page], &words[page + 1..low], &words[high..]], value)
}

/// Whether general registers, time and turn are equal. Cheap; CSRs are not looked at.
pub(crate) fn same_words(a: &Machine, b: &Machine) -> bool {
    a.icount() == b.icount()
        && a.time() == b.time()
        && a.current_hart() == b.current_hart()
        && a.harts.len() == b.harts.len()
        && a.harts
            .iter()
            .zip(&b.harts)
            .all(|(x, y)| words(&**x) == words(&**y))
}

/// Whether the harts are equal in all their state, and time and turn too.
pub(crate) fn same_harts(a: &Machine, b: &Machine) -> bool {
    same_words(a, b) && a.harts.iter().zip(&b.harts).all(|(x, y)| x.save() == y.save())
}

/// A number for the general registers of the hart that made the last step, with time and turn: equal for equal
/// ones, and hardly ever else.
pub(crate) fn digest(machine: &Machine) -> u64 {
    let Some(cpu) = machine.hart(machine.current_hart()) else {
        return 0;
    };
    let (parts, value) = words(cpu);
    let mut lanes = [machine.time().0, u64::from(machine.current_hart()), value, 0];
    for part in parts {
        for chunk in part.chunks(4) {
            for (lane, word) in lanes.iter_mut().zip(chunk) {
                *lane = (lane.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
            }
        }
    }
    lanes.iter().fold(0, |all, lane| {
        (all ^ lane).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    })
}

/// The instruction at a hart's program counter.
pub(crate) fn instruction(machine: &mut Machine, hart: u8) -> (u64, String) {
    let Some(pc) = machine.hart(hart).map(Cpu::pc) else {
        return (0, String::new());
    };
    let mut code = [0; 16];
    let here = ((PAGE - pc % PAGE) as usize).min(code.len());
    let kind = AddressKind::Virtual(hart);
    if !machine.debug_read(kind, pc, &mut code[..here]) {
        return (pc, "(no memory there)".into());
    }
    let whole = machine.debug_read(kind, pc.wrapping_add(here as u64), &mut code[here..]);
    let len = if whole { code.len() } else { here };
    let text = machine.hart(hart).map(|cpu| cpu.disassemble(pc, &code[..len]).0);
    (pc, text.unwrap_or_default())
}

/// Makes one step and says which it was; `None` if there is none.
///
/// # Errors
/// The door's.
pub fn step(machine: &mut Machine) -> Result<Option<Step>, MachineError> {
    let at = machine.icount();
    let before: Vec<(u64, String)> = (0..machine.hart_count())
        .map(|hart| instruction(machine, hart))
        .collect();
    let stopped = machine.run(Icount(at.0 + 1), &Stops::default(), FirstStep::Counts)?;
    if stopped != Stopped::Reached {
        return Ok(None);
    }
    // A hart gets its turn at the boundary, so whoever has it now made the step.
    let hart = machine.current_hart();
    let (pc, text) = before.into_iter().nth(hart as usize).unwrap_or_default();
    Ok(Some(Step {
        icount: at,
        hart,
        pc,
        text,
    }))
}
