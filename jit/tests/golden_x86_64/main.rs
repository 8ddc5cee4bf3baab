//! The golden cases of x86-64 (tests/golden/x86_64/*.tr), translated: some of each family of the lifter. Each `run` line on the
//! interpreter and on translated code, without passes and with all, with accesses that hit the TLB and such that don't; and the
//! sections of the files, which say what the lifter, the passes and the generator make of the instructions. The host's
//! processor judges every instruction elsewhere (`cpu`, x86_native); here changes of what is made of them are shown.
//!
//! A case is one block of one or several instructions. `rax` to `r15`, `xmm0` to `xmm15` (low and high quadword) and `flags` (the
//! six arithmetic ones) are registers, 0 unless given; `[A]` is eight bytes of memory; `mxcsr` and `rip` are given where they are other than
//! 0x1f80 and the end of the case; a string instruction is run until it is done. `trap=vector,code` says that it traps and changes nothing. The file
//! `real16.tr` is 16-bit code in real mode, at 0x1000:0x800.
#![allow(clippy::unwrap_used)]

#[path = "../golden/host.rs"]
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cpu::golden::{difference, parse, with_sections};
use cpu::ir::{Block, Op, Slot, Terminal, Val};
use cpu::x86_64::flags::{self, ARITHMETIC, Kind};
use cpu::x86_64::flat::{Engine, Interpreter, World};
use cpu::x86_64::hart::LAYOUT;
use cpu::x86_64::slots::{CC_DST, CC_OP, CC_SRC, MXCSR, PC, gpr, xmm};
use cpu::x86_64::trap;
use cpu::{Cpu, Exit, SpaceKey};
use jit::tlb::{self, CodeSpace, Space};
use jit::{BlockKey, Jit, Passes, Ran};

/// Where a case stands.
const AT: u64 = 0x1_0800;
const MEMORY: usize = 0x4_0000;
/// Times that a case may jump to its beginning.
const TURNS: usize = 100;
const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

type Values = BTreeMap<String, Vec<u64>>;

fn number(text: &str) -> u64 {
    let (text, negative) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let value = value.unwrap_or_else(|e| panic!("{text}: {e}"));
    if negative { value.wrapping_neg() } else { value }
}

fn values(text: &str) -> Values {
    let words = text.split_whitespace().map(|word| {
        let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word} lacks a ="));
        (name.to_owned(), value.split(',').map(number).collect())
    });
    words.collect()
}

fn files() -> Vec<(PathBuf, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/x86_64");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tr"));
    paths.sort();
    assert!(paths.len() >= 12, "a file a family");
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).unwrap());
    paths.into_iter().map(read).collect()
}

fn bytes(bits: &str) -> Vec<u8> {
    (0..bits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&bits[at..at + 2], 16).unwrap())
        .collect()
}

/// A processor before a case.
fn world(path: &Path, code: &[u8]) -> World {
    let is_real = path.file_stem().is_some_and(|stem| stem == "real16");
    let mut world = World::new(is_real, MEMORY);
    world.ram.0[AT as usize..][..code.len()].copy_from_slice(code);
    let regs = world.hart.regs_mut();
    regs[PC] = AT;
    // rdx has the processor's signature at reset.
    (0..16).for_each(|n| regs[gpr(n)] = 0);
    world
}

/// Of a block on any page and in any mode: it is run right after it was made.
fn key(block: &Block) -> BlockKey {
    BlockKey {
        page: 0,
        offset: block.insns[0].offset,
        mode: 0,
        next: None,
    }
}

struct Translated {
    jit: Jit,
    space: Space,
    jumps: CodeSpace,
    /// Whether all memory is in the TLB.
    cached: bool,
}

impl Translated {
    fn new(passes: Passes, cached: bool) -> Translated {
        let mut jit = Jit::new(&LAYOUT, 8 << 20).unwrap();
        jit.set_passes(passes);
        Translated {
            jit,
            space: Space::new(SpaceKey::default()),
            jumps: CodeSpace::new(SpaceKey::default(), 0, LAYOUT.pc_align),
            cached,
        }
    }
}

impl Engine for Translated {
    fn run(&mut self, block: &Block, world: &mut World, budget: &mut u64) -> Exit {
        self.space.clear();
        if self.cached {
            let host = world.ram.0.as_mut_ptr() as u64;
            for at in (0..MEMORY as u64).step_by(4096) {
                self.space.fill(at, host + at, at >> 12, true, true);
            }
        }
        tlb::set_data(world.hart.regs_mut(), &self.space);
        tlb::set_jumps(world.hart.regs_mut(), &self.jumps);
        self.jit.flush();
        let id = self.jit.compile(key(block), block, &[]).unwrap();
        match self.jit.run(world, self.jit.entry(id), budget) {
            Ran::Exit(exit) => exit,
            Ran::Link(_) => Exit::Next,
            Ran::Hot => unreachable!("it ran once"),
            // Linked to itself.
            Ran::Tail => {
                assert_eq!(*budget, 0, "the block fits in the budget");
                Exit::Budget
            }
        }
    }
}

/// All registers that a case can name.
fn registers() -> Vec<(String, Vec<Slot>)> {
    let general = (0u8..)
        .zip(NAMES)
        .map(|(n, name)| (name.to_owned(), vec![gpr(n)]));
    let vectors = (0..16).map(|n| (format!("xmm{n}"), vec![xmm(n, 0), xmm(n, 1)]));
    general.chain(vectors).collect()
}

fn state(world: &World) -> Values {
    let regs = world.hart.regs();
    let named = registers().into_iter();
    let mut state: Values = named
        .map(|(name, slots)| (name, slots.iter().map(|slot| regs[*slot]).collect()))
        .collect();
    let arithmetic = flags::arithmetic(regs[CC_OP], regs[CC_DST], regs[CC_SRC]);
    state.insert("flags".into(), vec![arithmetic]);
    state.insert("mxcsr".into(), vec![regs[MXCSR]]);
    for (at, word) in (0..).step_by(8).zip(world.ram.0.chunks_exact(8)) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        state.insert(format!("[{at:#x}]"), vec![word]);
    }
    state
}

fn set(world: &mut World, name: &str, value: &[u64]) {
    if let Some(addr) = name.strip_prefix('[') {
        let at = number(addr.trim_end_matches(']')) as usize;
        world.ram.0[at..at + 8].copy_from_slice(&value[0].to_le_bytes());
    } else if name == "flags" {
        let regs = world.hart.regs_mut();
        (regs[CC_OP], regs[CC_DST]) = (flags::cc(Kind::Flags, 0), 0);
        regs[CC_SRC] = value[0] & ARITHMETIC;
    } else {
        let known = registers();
        let (_, slots) = known
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("{name}"));
        for (slot, value) in slots.iter().zip(value) {
            world.hart.regs_mut()[*slot] = *value;
        }
    }
}

/// What comes of a `run` line.
fn outcome(path: &Path, code: &[u8], before: &str, engine: &mut dyn Engine) -> Values {
    let mut world = world(path, code);
    for (name, value) in values(before) {
        set(&mut world, &name, &value);
    }
    let old = state(&world);
    let block = world.lift(code.len());
    let mut trapped = None;
    for _ in 0..TURNS {
        trapped = world.run(&block, engine);
        if trapped.is_some() || world.hart.pc() != AT {
            break;
        }
    }
    let mut found = state(&world);
    found.retain(|name, value| old[name] != *value);
    if let Some(trap) = trapped {
        let code = trap::error_code(trap.cause).map(u64::from);
        let what = [u64::from(trap::vector(trap.cause))].into_iter().chain(code);
        found.insert("trap".into(), what.collect());
    }
    let pc = world.hart.pc();
    if pc
        != if trapped.is_some() {
            AT
        } else {
            AT + code.len() as u64
        }
    {
        found.insert("rip".into(), vec![pc]);
    }
    found
}

#[test]
fn golden_cases_hold_on_every_engine() {
    let mut wrong = String::new();
    let mut engines: [(&str, Box<dyn Engine>); 5] = [
        ("interpreter", Box::new(Interpreter::default())),
        ("without passes", Box::new(Translated::new(Passes::none(), true))),
        (
            "without passes or TLB",
            Box::new(Translated::new(Passes::none(), false)),
        ),
        ("all passes", Box::new(Translated::new(Passes::all(), true))),
        (
            "all passes, no TLB",
            Box::new(Translated::new(Passes::all(), false)),
        ),
    ];
    for (path, text) in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for case in parse(&text).unwrap() {
            let code = bytes(case.bits);
            let said = disassembly(&path, &code);
            if said != case.text {
                wrong += &format!("{name}:{}: {} is {said}\n", case.line, case.bits);
            }
            for (line, run) in case.runs {
                let (before, after) = run.split_once("=>").unwrap();
                let expected = values(after);
                for (engine_name, engine) in &mut engines {
                    let found = outcome(&path, &code, before, &mut **engine);
                    if found != expected {
                        wrong += &format!("{name}:{line}, {engine_name}: {found:x?}, not {expected:x?}\n");
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn disassembly(path: &Path, code: &[u8]) -> String {
    let hart = world(path, code).hart;
    let (mut at, mut texts) = (0, Vec::new());
    while at < code.len() {
        let (text, len) = hart.disassemble(AT + at as u64, &code[at..]);
        texts.push(text);
        at += len;
    }
    texts.join("; ")
}

/// A block as text, without its offset and without constants that nobody uses.
fn text(block: &Block) -> String {
    let mut used = BTreeSet::new();
    for op in &block.ops {
        op.operands(|v, _| {
            used.insert(v);
        });
    }
    match block.terminal {
        Terminal::Branch { a, b, .. } => used.extend([a, b]),
        Terminal::Indirect(v) | Terminal::Ask(v, _) => used.extend([v]),
        Terminal::Jump(_) | Terminal::Dispatch(_) | Terminal::Left | Terminal::Trap { .. } => {}
    }
    let full = block.to_string();
    let mut op = 0;
    let mut kept = String::new();
    for line in full.lines().skip(1).map(str::trim_start) {
        // Lines of instructions' offsets lie between those of ops.
        let is_offset = line.ends_with(':');
        let left_over =
            !is_offset && matches!(block.ops.get(op), Some(Op::Const(_))) && !used.contains(&Val(op as u16));
        op += usize::from(!is_offset);
        if !left_over {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn sections_say_what_is_made_of_an_instruction() {
    let mut jit = Jit::new(&LAYOUT, 1 << 20).unwrap();
    // No count of runs stands before each.
    jit.set_passes(Passes::all().without(Passes::PATHS));
    let bless = std::env::var("TICKBACK_BLESS").is_ok_and(|what| what == "1");
    let mut wrong = String::new();
    for (path, old) in files() {
        let made = with_sections(&old, |case| {
            let code = bytes(case.bits);
            let block = world(&path, &code).lift(code.len());
            let (lifted, optimised) = (text(&block), text(&jit.optimised(&block, Passes::all())));
            let mut sections = vec![("ir", lifted)];
            if optimised != sections[0].1 {
                sections.push(("optimised", optimised));
            }
            sections.push(("host", host::text(&mut jit, key(&block), &block)));
            sections
        });
        let new = made.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if new != old && bless {
            std::fs::write(&path, new).unwrap();
        } else if new != old {
            wrong += &format!("{}\n{}", path.display(), difference(&old, &new));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{wrong}look, then TICKBACK_BLESS=1 cargo test -p jit --test golden_x86_64"
    );
}
