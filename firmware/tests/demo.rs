//! The demo guest on a hart of a few lines: the race must strike between 2 and 20 million steps, and
//! the word that the panic names must last have been written by the store that the planted bug
//! leaves with a stale register.
//!
//! The hart is deliberately naive (RV64IM, machine mode, no C) and follows the definition of a step:
//! one instruction, or the delivery of one interrupt; 1 ns a step, `mtime` at 10 MHz.
#![allow(clippy::unwrap_used)]

use firmware::{DEMO_CULPRIT, Guest, layout};
use std::collections::BTreeMap;

struct Hart {
    pc: u64,
    x: [u64; 32],
    csr: BTreeMap<u32, u64>,
    ram: Vec<u8>,
    mtimecmp: u64,
    steps: u64,
    console: String,
    end: Option<u32>,
    /// Last store to each 8-byte word: pc, step.
    writers: BTreeMap<u64, (u64, u64)>,
}

const MSTATUS: u32 = 0x300;
const MIE: u32 = 0x304;
const MTVEC: u32 = 0x305;
const MEPC: u32 = 0x341;
const MCAUSE: u32 = 0x342;

impl Hart {
    fn new(guest: &Guest) -> Hart {
        let mut ram = guest.image.clone();
        ram.resize(1 << 20, 0);
        Hart {
            pc: guest.entry,
            x: [0; 32],
            csr: BTreeMap::new(),
            ram,
            mtimecmp: u64::MAX,
            steps: 0,
            console: String::new(),
            end: None,
            writers: BTreeMap::new(),
        }
    }

    fn csr(&self, number: u32) -> u64 {
        self.csr.get(&number).copied().unwrap_or(0)
    }

    fn mtime(&self) -> u64 {
        self.steps / 100
    }

    fn load(&self, address: u64, size: usize) -> u64 {
        match address {
            layout::CLINT_MTIME => self.mtime(),
            layout::CLINT_MTIMECMP => self.mtimecmp,
            a if a == layout::UART + 5 => 0x60,
            _ => {
                let at = (address - layout::RAM) as usize;
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(&self.ram[at..at + size]);
                u64::from_le_bytes(bytes)
            }
        }
    }

    fn store(&mut self, address: u64, size: usize, value: u64) {
        match address {
            layout::CLINT_MTIMECMP => self.mtimecmp = value,
            layout::UART => self.console.push(value as u8 as char),
            layout::FINISHER => self.end = Some(value as u32),
            _ => {
                let at = (address - layout::RAM) as usize;
                self.ram[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
                self.writers.insert(address & !7, (self.pc, self.steps));
            }
        }
    }

    fn interrupt(&mut self) -> bool {
        let mstatus = self.csr(MSTATUS);
        let pending = self.mtime() >= self.mtimecmp && self.csr(MIE) & 0x80 != 0;
        if !pending || mstatus & 8 == 0 {
            return false;
        }
        self.csr.insert(MSTATUS, mstatus & !8 | 0x80);
        self.csr.insert(MEPC, self.pc);
        self.csr.insert(MCAUSE, 1 << 63 | 7);
        self.pc = self.csr(MTVEC);
        true
    }

    fn step(&mut self) {
        if !self.interrupt() {
            self.instruction();
        }
        self.steps += 1;
    }

    fn instruction(&mut self) {
        let i = self.load(self.pc, 4) as u32;
        let (rd, rs1, rs2) = (
            (i >> 7 & 31) as usize,
            (i >> 15 & 31) as usize,
            (i >> 20 & 31) as usize,
        );
        let (a, b) = (self.x[rs1], self.x[rs2]);
        let funct3 = i >> 12 & 7;
        let imm_i = (i as i32 >> 20) as u64;
        let imm_s = (i as i32 >> 25 << 5) as u64 | u64::from(i >> 7 & 31);
        let imm_b = ((i as i32 >> 31) as u64) << 12
            | u64::from(i >> 7 & 1) << 11
            | u64::from(i >> 25 & 0x3f) << 5
            | u64::from(i >> 8 & 15) << 1;
        let imm_j = ((i as i32 >> 31) as u64) << 20
            | u64::from(i & 0xff000)
            | u64::from(i >> 20 & 1) << 11
            | u64::from(i >> 21 & 0x3ff) << 1;
        let imm_u = (i & 0xfffff000) as i32 as u64;
        let mut next = self.pc + 4;
        let mut result = None;
        match i & 0x7f {
            0x37 => result = Some(imm_u),
            0x17 => result = Some(self.pc.wrapping_add(imm_u)),
            0x6f => {
                result = Some(next);
                next = self.pc.wrapping_add(imm_j);
            }
            0x67 => {
                result = Some(next);
                next = a.wrapping_add(imm_i) & !1;
            }
            0x63 => {
                let taken = match funct3 {
                    0 => a == b,
                    1 => a != b,
                    4 => (a as i64) < b as i64,
                    5 => a as i64 >= b as i64,
                    6 => a < b,
                    7 => a >= b,
                    _ => panic!("branch {i:#x}"),
                };
                if taken {
                    next = self.pc.wrapping_add(imm_b);
                }
            }
            0x03 => {
                let size = 1usize << (funct3 & 3);
                let value = self.load(a.wrapping_add(imm_i), size);
                let shift = 64 - 8 * size as u32;
                let signed = ((value << shift) as i64 >> shift) as u64;
                result = Some(if funct3 & 4 == 0 { signed } else { value });
            }
            0x23 => self.store(a.wrapping_add(imm_s), 1 << funct3, b),
            0x13 => {
                result = Some(match funct3 {
                    0 => a.wrapping_add(imm_i),
                    1 => a << (imm_i & 63),
                    4 => a ^ imm_i,
                    5 => a >> (imm_i & 63),
                    7 => a & imm_i,
                    _ => panic!("op-imm {i:#x}"),
                });
            }
            0x1b => result = Some(a.wrapping_add(imm_i) as i32 as u64),
            0x33 => {
                result = Some(match (i >> 25, funct3) {
                    (0, 0) => a.wrapping_add(b),
                    (0, 4) => a ^ b,
                    (0, 5) => a >> (b & 63),
                    (1, 5) => a.checked_div(b).unwrap_or(u64::MAX),
                    (1, 7) => a.checked_rem(b).unwrap_or(a),
                    _ => panic!("op {i:#x}"),
                });
            }
            0x73 if i == 0x3020_0073 => {
                let mstatus = self.csr(MSTATUS);
                self.csr.insert(MSTATUS, mstatus & !8 | mstatus >> 4 & 8 | 0x80);
                next = self.csr(MEPC);
            }
            0x73 => {
                let old = self.csr(i >> 20);
                let operand = if funct3 & 4 == 0 { a } else { rs1 as u64 };
                let new = match funct3 & 3 {
                    1 => operand,
                    2 => old | operand,
                    3 => old & !operand,
                    _ => panic!("system {i:#x} at {:#x}", self.pc),
                };
                self.csr.insert(i >> 20, new);
                result = Some(old);
            }
            _ => panic!("instruction {i:#x} at {:#x}", self.pc),
        }
        if let (Some(value), true) = (result, rd != 0) {
            self.x[rd] = value;
        }
        self.pc = next;
    }
}

/// Runs to the finisher, `before` steps having been made by whatever entered the guest.
fn run(guest: &Guest, before: u64) -> Hart {
    let mut hart = Hart::new(guest);
    hart.steps = before;
    while hart.end.is_none() {
        assert!(
            hart.steps < 20_000_000,
            "the race never struck:\n{}",
            hart.console
        );
        hart.step();
    }
    hart
}

#[test]
fn the_race_strikes_and_the_last_writer_is_the_culprit() {
    let guest = firmware::demo();
    let symbol = |name: &str| guest.symbol(name).unwrap();
    // Whatever ran before the entry (a reset vector, say) must not spoil the story.
    for before in [0, 1, 6, 7, 13, 50, 99] {
        let hart = run(&guest, before);
        assert_eq!(
            hart.end,
            Some(1 << 16 | layout::FINISHER_FAIL),
            "{}",
            hart.console
        );
        assert!(hart.console.contains("demo: tasks started\n"), "{}", hart.console);
        assert!(
            hart.console.contains("demo: list corrupted: node 0x"),
            "{}",
            hart.console
        );

        let bad_address = hart.load(symbol("demo_bad_address"), 8);
        let bad_value = hart.load(symbol("demo_bad_value"), 8);
        assert_eq!(hart.load(bad_address, 8), bad_value);
        assert_eq!((bad_address - symbol("nodes")) % 32, 8, "the prev of a node");
        assert_eq!((bad_value - symbol("nodes")) % 32, 0, "points to a node");
        assert!(
            guest
                .symbols
                .iter()
                .any(|(name, at)| *at == bad_value && name.starts_with("node_"))
        );

        let (pc, step) = hart.writers[&bad_address];
        assert_eq!(pc, symbol("list_remove") + DEMO_CULPRIT, "`sd a1, [a2, 8]`");
        assert!(
            (2_000_000..20_000_000).contains(&hart.steps),
            "{} steps",
            hart.steps
        );
        let distance = hart.steps - step;
        assert!(
            distance > 10_000,
            "the symptom should be far from the cause: {distance}"
        );
    }
}
