//! The system's side against QEMU (skipped where it isn't installed): a firmware that tries thousands of transfers, loads,
//! gates, pages and single instructions in every mode, and writes down what came of each (battery.S).
//!
//! battery.bin is battery.S assembled; a test holds them together where an assembler is installed:
//!
//! ```text
//!   as --64 -o battery.o battery.S && ld -m elf_x86_64 -Ttext=0 -e 0 --oformat binary -o battery.bin battery.o
//! ```

use super::fake::Machine;
use super::hart::{Hart, HartConfig, LAYOUT};
use super::slots;
use crate::interp::{self, Scratch};
use crate::ir::{Block, Rmw, Size, eval_rmw};
use crate::{Access, Context, Cpu, Env, Exit, Here, Lifted, Outcome, RegFile, Trap};
use std::collections::BTreeMap;
use std::process::Command;

const PROGRAM: &[u8] = include_bytes!("battery.bin");
const IMAGE_SIZE: usize = 0x1_0000;
/// Where the image stands, below 1 MiB.
const ROM: u64 = 0xf0000;
/// The port at which a program ends.
const EXIT: u16 = 0xf4;
const LONGEST: u64 = 1000;

/// The program, and at the reset vector a jump to its beginning.
fn image() -> Vec<u8> {
    let mut image = PROGRAM.to_vec();
    image.resize(IMAGE_SIZE, 0xcc);
    image[0xfff0..0xfff5].copy_from_slice(&[0xea, 0, 0, 0, 0xf0]);
    image
}

/// A processor that the interpreter runs.
struct World {
    hart: Hart,
    machine: Machine,
    trap: Option<Trap>,
    /// Budget left when the processor was last told what it retired.
    told: u64,
}

impl World {
    fn new() -> World {
        let mut machine = Machine::new();
        machine.ram[ROM as usize..][..IMAGE_SIZE].copy_from_slice(&image());
        let mut hart = Hart::new(HartConfig {
            id: 0,
            harts: 1,
            seed: 0,
        });
        // The image stands below 1 MiB only, to where its first jump leads.
        hart.regs[slots::base(super::registers::CS)] = ROM;
        hart.regs[slots::PC] = ROM + 0xfff0;
        hart.refresh();
        machine.local.insert(super::CR8, 0);
        World {
            hart,
            machine,
            trap: None,
            told: 0,
        }
    }

    /// Runs until the program ends.
    fn run(&mut self) {
        let mut blocks: BTreeMap<(u64, u64), Block> = BTreeMap::new();
        let mut scratch = Scratch::default();
        for _ in 0..10_000_000 {
            if self.machine.port_writes.iter().any(|(port, ..)| *port == EXIT) {
                return;
            }
            assert_eq!(self.machine.shutdowns, 0, "triple fault: {}", self.place());
            if let Some(cause) = self.hart.interrupt() {
                self.hart.take_interrupt(&mut self.machine, cause);
                self.hart.retire(0, 1);
                continue;
            }
            self.machine.stores.clear();
            assert!(!self.hart.waiting(), "it waits for ever: {}", self.place());
            let pc = self.hart.pc();
            let fetched = self.hart.translate(&mut self.machine, pc, Access::Fetch);
            let exit = match fetched {
                Err(trap) => Exit::Trap(trap),
                Ok(at) => {
                    let key = (at.addr, self.hart.block_mode());
                    let cached = blocks.remove(&key);
                    match cached.map_or_else(|| self.lift(pc, at.addr), Ok) {
                        Err(trap) => Exit::Trap(trap),
                        Ok(block) => {
                            let exit = self.enter(pc, &block, &mut scratch);
                            if at.addr >= ROM && !block.straddles {
                                blocks.insert(key, block);
                            }
                            exit
                        }
                    }
                }
            };
            let trap = match exit {
                Exit::Trap(trap) => Some(trap),
                Exit::Stop => self.trap.take(),
                Exit::Budget | Exit::Next | Exit::Dispatch => None,
                Exit::Breakpoint => unreachable!("none was set"),
            };
            if let Some(trap) = trap {
                let pc = self.hart.pc();
                self.hart.deliver(&mut self.machine, trap, pc);
                self.hart.retire(0, 1);
            }
        }
        panic!("it doesn't end: {}", self.place());
    }

    /// Where the program is.
    fn place(&self) -> String {
        let out = self.machine.read(OUT, Size::B8);
        format!("pc {:x}, next record to {out:x}", self.hart.pc())
    }

    fn page(&self, addr: u64) -> [u8; 4096] {
        let start = addr as usize & !0xfff;
        self.machine.ram[start..start + 4096].try_into().unwrap()
    }

    fn lift(&mut self, pc: u64, addr: u64) -> Result<Block, Trap> {
        let mode = self.hart.block_mode();
        let offset = (pc & 0xfff) as u16;
        let page = self.page(addr);
        if let Lifted::Block(block) = self.hart.lift(mode, offset, &page, None) {
            return Ok(block);
        }
        let next = (pc | 0xfff).wrapping_add(1);
        let next = self.hart.translate(&mut self.machine, next, Access::Fetch)?.addr;
        match self.hart.lift(mode, offset, &page, Some(&self.page(next))) {
            Lifted::Block(block) => Ok(block),
            Lifted::NeedsNextPage => panic!("the next page was given"),
        }
    }

    fn enter(&mut self, pc: u64, block: &Block, scratch: &mut Scratch) -> Exit {
        self.hart.regs[slots::PAGE] = pc & !0xfff;
        self.told = LONGEST;
        let mut left = LONGEST;
        let exit = interp::run(block, &LAYOUT, self, scratch, &mut left, &[]);
        self.tell(left);
        exit
    }

    fn tell(&mut self, left: u64) {
        let steps = self.told - left;
        self.told = left;
        self.hart.retire(steps, steps);
    }

    fn outcome<T: Default>(&mut self, result: Result<T, Trap>) -> (Outcome, T) {
        match result {
            Ok(value) => (Outcome::Done, value),
            Err(trap) => {
                self.trap = Some(trap);
                (Outcome::Stop, T::default())
            }
        }
    }
}

impl Env for World {
    fn load(&mut self, _: Here, addr: u64, size: Size) -> (Outcome, u64) {
        let result = self.machine.load(&mut self.hart, addr, size);
        self.outcome(result)
    }

    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        let result = self.machine.store(&mut self.hart, addr, size, value);
        self.outcome(result).0
    }

    fn rmw(&mut self, here: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64) {
        let (outcome, old) = self.load(here, addr, size);
        if outcome != Outcome::Done {
            return (outcome, 0);
        }
        (self.store(here, addr, size, eval_rmw(op, size, old, value)), old)
    }

    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        self.tell(here.left);
        let pc = self.hart.regs[slots::PAGE].wrapping_add(here.offset.into());
        let result = self.hart.call(&mut self.machine, helper, args, pc);
        self.outcome(result)
    }

    fn regs(&mut self) -> &mut RegFile {
        &mut self.hart.regs
    }

    fn check(&mut self, _: Here, addr: u64, len: u64, write: bool) -> Outcome {
        let access = if write { Access::Write } else { Access::Read };
        let result = self.machine.check(&mut self.hart, addr, len, access);
        self.outcome(result).0
    }

    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.trap = Some(trap);
        Outcome::Stop
    }

    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}

/// Where records begin, in real mode and after; the end of the latter is in a variable.
const EARLY: u64 = 0x4_0000;
const RECORDS: u64 = 0x10_0000;
const EARLY_COUNT: u64 = 16;
const OUT: u64 = 0x6068;
const WORDS: usize = 20;
const NAMES: [&str; WORDS] = [
    "kind", "param", "vector", "error", "ip", "cs", "flags", "sp", "ss", "cr2", "rdx", "rax", "ds", "es",
    "fs", "gs", "pte", "pde", "cr0", "dr6",
];

type Record = [u64; WORDS];

fn records(ram: &[u8]) -> Vec<Record> {
    let word = |at: u64| u64::from_le_bytes(ram[at as usize..at as usize + 8].try_into().unwrap());
    let record = |at: u64| std::array::from_fn(|i| word(at + 8 * i as u64));
    let end = word(OUT);
    assert!((RECORDS..=ram.len() as u64).contains(&end), "{end:#x}");
    let early = (0..EARLY_COUNT).map(|i| EARLY + 160 * i);
    early.chain((RECORDS..end).step_by(160)).map(record).collect()
}

fn show(record: &Record) -> String {
    let words = NAMES.iter().zip(record).filter(|(_, v)| **v != 0);
    words.map(|(name, v)| format!("{name} {v:x} ")).collect()
}

/// What the firmware writes down under QEMU, if it is there.
fn qemu() -> Option<Vec<Record>> {
    let dir = tempfile::tempdir().unwrap();
    let (bios, ram) = (dir.path().join("bios"), dir.path().join("ram"));
    std::fs::write(&bios, image()).unwrap();
    let memory = format!(
        "memory-backend-file,id=m,size=16M,share=on,mem-path={}",
        ram.display()
    );
    let status = Command::new("qemu-system-x86_64")
        .args(["-machine", "pc,memory-backend=m", "-m", "16", "-object", &memory])
        .args(["-cpu", "Westmere,+smep,+smap,+fsgsbase,+rdtscp,-vme,+pdpe1gb"])
        .args(["-display", "none", "-nodefaults", "-no-reboot"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-bios"])
        .arg(&bios)
        .status()
        .ok()?;
    assert_eq!(status.code(), Some(0x10 << 1 | 1), "QEMU ends by the program");
    Some(records(&std::fs::read(&ram).unwrap()))
}

/// What is compared: all but where QEMU is known to do otherwise than the manual (and we as the manual says).
fn comparable(record: &Record) -> Record {
    let mut r = *record;
    // LAR: QEMU hides the limit's bits, and doesn't set the accessed bits of CS and SS in some transfers.
    if matches!(r[0] & !0x100, 9 | 0x809) {
        r[10] &= !0xf_0100;
    }
    let (kind, selector) = (r[0] & !0x100, r[1] & !3);
    match kind {
        // A call gate to a conforming segment: QEMU changes to an inner ring.
        2 | 0x10 | 0x802 if selector == 0xc0 => r[2..].fill(0),
        // QEMU takes: LTR with a null selector, code with both L and D, a system descriptor whose high half has a type,
        // page-directory-pointer entries with reserved bits, 16-bit gates and task gates for LAR in long mode.
        0xd | 0x80d if selector == 0 => r[2..].fill(0),
        0x801..=0x804 if selector == 0x108 => r[2..].fill(0),
        0x80e if matches!(selector, 0x78 | 0x110) => r[2..].fill(0),
        0x809 if matches!(selector, 0xc8 | 0xd0) => r[2..].fill(0),
        0x403 => r[2..].fill(0),
        // A of an upper entry where a lower one faults: both are right.
        0x400..=0x4ff | 0x840 if r[2] == 14 => {
            r[17] &= !0x20;
            // QEMU reads before it writes; processors ask for the right to write at once (seen on one).
            if r[1] >> 8 & 3 == 3 {
                r[3] &= !2;
                r[16] &= !0x20;
            }
            // QEMU forgets P beside RSVD.
            if r[3] & 8 != 0 {
                r[3] |= 1;
            }
        }
        // QEMU clears EXT where an exception follows another.
        0x53 | 0x883 => r[3] &= !1,
        // QEMU makes SS null whenever there is an interrupt stack, not just for another ring.
        0x825 => r[8] = 0,
        // A jump to where no address is: the jump faults (SDM 2A JMP), or the fetch.
        0x854 => r[4] = 0,
        // QEMU takes reserved bits of CR8.
        0x85b => r[2..].fill(0),
        // QEMU loses the arithmetic flags at SYSCALL, keeps RF at SYSRET, and does SYSRET to no address as AMD does.
        0x870 => r[6] &= !0x8d5,
        0x871 => r[6] &= !0x1_0000,
        0x873 => r[2..].fill(0),
        // QEMU reports a breakpoint on data once more with the next one.
        0x66 => r[19] &= !4,
        // What ports hold is the board's.
        0x69 => r[11] &= !0xff,
        // QEMU keeps RF longer than an instruction.
        0x64 => r[6] &= !0x1_0000,
        _ => {}
    }
    r
}

#[test]
fn as_qemu_does() {
    let mut world = World::new();
    world.run();
    let ours = records(&world.machine.ram);
    assert!(ours.len() > 15_000, "{} records", ours.len());
    let Some(theirs) = qemu() else { return };
    let pairs = ours.iter().zip(&theirs).enumerate();
    let bad: Vec<String> = pairs
        .filter(|(_, (a, b))| comparable(a) != comparable(b))
        .map(|(i, (a, b))| format!("record {i}\n  ours   {}\n  theirs {}\n", show(a), show(b)))
        .collect();
    assert!(
        bad.is_empty(),
        "{} differ\n{}",
        bad.len(),
        bad[..bad.len().min(20)].concat()
    );
    assert_eq!(ours.len(), theirs.len());
}

/// battery.bin is what battery.S says, where there is an assembler to ask.
#[test]
fn the_image_is_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/x86_64/battery/battery");
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(dir.path()).status();
        status.is_ok_and(|status| status.success())
    };
    let link = [
        "-m",
        "elf_x86_64",
        "-Ttext=0",
        "-e",
        "0",
        "--oformat",
        "binary",
        "-o",
        "bin",
        "o",
    ];
    let assembled = run("as", &["--64", "-o", "o", &format!("{source}.S")]) && run("ld", &link);
    if assembled {
        assert!(
            std::fs::read(dir.path().join("bin")).unwrap() == PROGRAM,
            "assemble it anew"
        );
    }
}
