//! For tests: the golden cases of RISC-V, tests/golden/riscv64/<family>.tr in the repository ([`crate::golden`]). An
//! instruction row without a case fails.
//!
//! `xN`, `fN` and `fcsr` are registers (0 unless given), `[A]` eight bytes of memory, `csrN` another CSR, `priv` the
//! privilege. `pc` is given after a jump only. `trap=cause,value` says that it traps and changes nothing.
//! The cases of user-mode arithmetic and memory were made by running QEMU (`golden_cases_from_qemu`), the
//! others are written by hand from the manual.
// A test that fails panics.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use super::flat::{Engine, Ram, World, first};
use crate::Cpu;
use crate::golden::parse;
use crate::ir::{Block, Size};
use crate::riscv64::decode::decode;
use crate::riscv64::disasm::disassemble;
use crate::riscv64::rows;
use crate::riscv64::slots::{self, PC};

/// Where the instruction stands.
const AT: u64 = 0x10800;
/// Memory, with room for what prepares the case.
const RAM: std::ops::Range<u64> = 0x10000..0x40000;
const SETUP: u64 = 0x3f000;
const FCSR: u32 = 3;

type Values = BTreeMap<String, Vec<u64>>;

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse::<i64>().map(|n| n as u64),
    };
    parsed.unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn values(text: &str) -> Values {
    let mut values = Values::new();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word} lacks a ="));
        let known = values.insert(name.into(), value.split(',').map(number).collect());
        assert!(known.is_none(), "{name} is given twice");
    }
    values
}

/// Where the files are.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/riscv64")
}

struct Case {
    world: World,
}

impl Case {
    fn new() -> Case {
        let bytes = vec![0; (RAM.end - RAM.start) as usize];
        let mut case = Case {
            world: World::new(Ram {
                base: RAM.start,
                bytes,
            }),
        };
        // mstatus.FS Initial, so that every case sees that the state is marked when it changes.
        case.csr(2, 0x300, 0x2000);
        case
    }

    /// Puts the instruction into memory; its length.
    fn place(&mut self, insn: u32) -> u64 {
        let len = disassemble(AT, &insn.to_le_bytes()).1;
        for (i, byte) in insn.to_le_bytes()[..len].iter().enumerate() {
            let at = AT + i as u64;
            self.world.ram.write(at, Size::B1, (*byte).into()).unwrap();
        }
        len as u64
    }

    /// Runs `csrrw`, `csrrs` or `csrrc` (1 to 3) of a CSR with t0, which is left as it was.
    fn csr(&mut self, op: u32, csr: u32, operand: u64) -> u64 {
        let insn = csr << 20 | 5 << 15 | op << 12 | 5 << 7 | 0x73;
        let saved = (self.world.hart.regs()[slots::x(5)], self.world.hart.regs()[PC]);
        self.world.hart.regs_mut()[slots::x(5)] = operand;
        self.world.ram.write(SETUP, Size::B4, insn.into()).unwrap();
        assert_eq!(self.world.run(SETUP, 1), None, "csr {csr:#x}");
        let old = self.world.hart.regs()[slots::x(5)];
        (
            self.world.hart.regs_mut()[slots::x(5)],
            self.world.hart.regs_mut()[PC],
        ) = saved;
        old
    }

    fn set(&mut self, name: &str, value: u64) {
        if let Some(n) = name.strip_prefix("csr") {
            self.csr(1, number(n) as u32, value);
        } else if let Some(addr) = name.strip_prefix('[') {
            self.world
                .ram
                .write(number(addr.trim_end_matches(']')), Size::B8, value)
                .unwrap();
        } else if name == "fcsr" {
            // As FS was before: the write itself would mark it.
            self.csr(1, FCSR, value);
            self.csr(3, 0x300, 0x4000);
        } else {
            let slot = register(name).unwrap_or_else(|| panic!("{name} can't be set"));
            self.world.hart.regs_mut()[slot] = value;
        }
    }

    /// Enters a lower privilege by way of mret.
    fn lower(&mut self, privilege: u64) {
        self.csr(3, 0x300, 0x1800);
        self.csr(2, 0x300, privilege << 11);
        self.csr(1, 0x341, AT);
        self.world.ram.write(SETUP, Size::B4, 0x3020_0073).unwrap();
        assert_eq!(self.world.run(SETUP, 1), None);
        assert_eq!(u64::from(self.world.hart.privilege()), privilege);
    }

    fn words(&self) -> Vec<u64> {
        self.world
            .ram
            .bytes
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }
}

fn register(name: &str) -> Option<crate::ir::Slot> {
    let (file, n) = name.split_at_checked(1)?;
    let n: u8 = n.parse().ok().filter(|n| *n < 32)?;
    match file {
        "x" => Some(slots::x(n)),
        "f" => Some(slots::f(n)),
        _ => None,
    }
}

/// Runs one case on an engine; yields what is wrong.
pub fn check(insn: u32, line: &str, engine: &mut dyn Engine) -> Result<(), String> {
    let (before, after) = line.split_once("=>").ok_or("no =>")?;
    let (mut before, mut after) = (values(before), values(after));
    let mut case = Case::new();
    let privilege = before.remove("priv");
    for (name, value) in &before {
        case.set(name, value[0]);
    }
    let len = case.place(insn);
    if let Some(privilege) = privilege {
        case.lower(privilege[0]);
    }
    // What the hart reports, and all that the instruction may not change unless the case says so.
    let registers = |case: &Case| case.world.hart.regs().words()[..64].to_vec();
    let (old_registers, old_memory) = (registers(&case), case.words());
    let old_mode = case.world.hart.block_mode();
    let trap = case.world.step(AT, engine);
    let (new_registers, new_memory) = (registers(&case), case.words());
    let pc = case.world.hart.pc();

    if let Some(expected) = after.remove("trap") {
        let trap = trap.map(|t| vec![t.cause, t.value]);
        if trap.as_ref() != Some(&expected) {
            return Err(format!("trap {trap:x?}, not {expected:x?}"));
        }
        after.insert("pc".into(), vec![AT]);
    } else if let Some(trap) = trap {
        return Err(format!("{trap:x?}"));
    }
    let mut found = Values::new();
    for n in 0..64 {
        if old_registers[n] != new_registers[n] {
            let file = if n < 32 { 'x' } else { 'f' };
            found.insert(format!("{file}{}", n % 32), vec![new_registers[n]]);
        }
    }
    for (i, (old, new)) in old_memory.iter().zip(&new_memory).enumerate() {
        if old != new {
            found.insert(format!("[{:#x}]", RAM.start + 8 * i as u64), vec![*new]);
        }
    }
    if pc != AT + len {
        found.insert("pc".into(), vec![pc]);
    }
    if privilege_of(old_mode) != privilege_of(case.world.hart.block_mode()) {
        found.insert("priv".into(), vec![privilege_of(case.world.hart.block_mode())]);
    } else if privilege_of(old_mode) == 3 {
        let changed_f = new_registers[32..] != old_registers[32..];
        let dirty = case.csr(2, 0x300, 0) & 0x6000 == 0x6000;
        if changed_f && !dirty {
            return Err("the floating-point state isn't marked".into());
        }
        if old_mode & slots::MODE_FS_OFF == 0 {
            let fcsr = vec![case.csr(2, FCSR, 0)];
            if before.get("fcsr").unwrap_or(&vec![0]) != &fcsr {
                found.insert("fcsr".into(), fcsr);
            }
        }
        for name in after.keys() {
            if let Some(n) = name.strip_prefix("csr") {
                found.insert(name.clone(), vec![case.csr(2, number(n) as u32, 0)]);
            }
        }
    }
    if found != after {
        return Err(format!("{found:x?}\n  but it should be {after:x?}"));
    }
    Ok(())
}

fn privilege_of(mode: u64) -> u64 {
    mode & slots::MODE_PRIV
}

/// An instruction's bits.
pub fn bits(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|e| format!("{text}: {e}"))
}

/// The name of an instruction's row.
pub fn row(insn: u32) -> Option<&'static str> {
    decode(insn).map(|row| row.name)
}

/// An instruction as it is lifted in machine mode with FS Initial.
pub fn block(insn: u32) -> Block {
    let mut case = Case::new();
    case.place(insn);
    case.world.hart.regs_mut()[PC] = AT;
    first(case.world.lift())
}

/// The files: paths and content.
pub fn files() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Runs all cases on engines, each with its name; yields what is wrong.
pub fn check_all(engines: &mut [(&str, &mut dyn Engine)]) -> String {
    let mut missing: BTreeSet<&str> = rows::all().map(|row| row.name).collect();
    let mut wrong = String::new();
    for (path, text) in files() {
        let path = path.display();
        for case in parse(&text).unwrap_or_else(|e| panic!("{path}: {e}")) {
            let line = case.line;
            let insn = bits(case.bits).unwrap_or_else(|e| panic!("{path}:{line}: {e}"));
            let ours = disassemble(AT, &insn.to_le_bytes()).0;
            if ours != case.text {
                writeln!(wrong, "{path}:{line}: it reads {ours}").unwrap();
            }
            for (line, run) in &case.runs {
                for (name, engine) in engines.iter_mut() {
                    if let Err(e) = check(insn, run, *engine) {
                        writeln!(wrong, "{path}:{line}: {name}: {run}\n  {e}").unwrap();
                    }
                }
            }
            if let Some(row) = row(insn).filter(|_| !case.runs.is_empty()) {
                missing.remove(row);
            }
        }
    }
    if !missing.is_empty() {
        writeln!(wrong, "no case: {missing:?}").unwrap();
    }
    wrong
}
