//! A small machine: 16 pages from 0x10000 on, of several kinds, over 64 KiB of host memory.

use cpu::ir::{Rmw, Size, Slot, eval_rmw};
use cpu::{Env, FloatRules, Here, Layout, Outcome, RegFile, SpaceKey, Trap};
use jit::tlb::{self, CodeSpace, Space};

use crate::random::Rng;

pub static LAYOUT: Layout = Layout {
    pc: Slot(64),
    page: Slot(65),
    fp_env: Slot(66),
    fp_flags: 0b11_1101,
    fp_control: 0,
    float: FloatRules::Canonical,
    pure: &[|[a, b, c, d]| a.rotate_left(7) ^ b.wrapping_mul(3) ^ c.rotate_left(31) ^ !d],
    hot: &[
        Slot(3),
        Slot(7),
        Slot(1),
        Slot(0),
        Slot(12),
        Slot(33),
        Slot(9),
        Slot(2),
        Slot(4),
    ],
    pc_align: 1,
};

pub const BASE: u64 = 0x10000;
pub const LEN: u64 = 0x10000;
pub const PAGE: u64 = 0x4_2000_0000;

/// What accesses to a page do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In the TLB.
    Cached,
    /// In the TLB once it was accessed.
    Fills,
    /// Readable by way of the TLB; stores come here and leave.
    Guarded,
    /// Every access comes here and leaves.
    Device,
    /// Faults.
    Fault,
}

fn kind(page: u64) -> Kind {
    match page & 15 {
        0..=6 | 8 => Kind::Cached,
        7 | 9 | 10 => Kind::Fills,
        11 | 12 => Kind::Guarded,
        13 | 14 => Kind::Device,
        _ => Kind::Fault,
    }
}

/// One question to the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    here: Here,
    what: String,
    /// Whether the TLB may have answered it.
    optional: bool,
}

/// Where in host memory a byte is: pages are not in order, so that no two neighbours have the same distance.
fn frame(at: usize) -> usize {
    at ^ 0x5000
}

pub struct World {
    pub regs: RegFile,
    pub memory: Vec<u8>,
    pub asked: Vec<Asked>,
    /// The exception that a block raised.
    pub raised: Option<Trap>,
    space: Option<Space>,
    pub jumps: CodeSpace,
    /// Boundaries at ends of blocks that are gone past, and what was left at those asked about.
    pub goes_on: usize,
    pub boundaries: Vec<u64>,
}

impl World {
    pub fn new(rng: &mut Rng) -> World {
        let mut regs = RegFile::new();
        for slot in 0..64 {
            regs.words_mut()[slot] = rng.value();
        }
        regs[LAYOUT.page] = PAGE;
        regs[LAYOUT.fp_env] = 0x1f80 | rng.below(4) << 13 | (rng.below(64) & u64::from(LAYOUT.fp_flags));
        let memory = (0..LEN).map(|_| rng.next() as u8).collect();
        World {
            regs,
            memory,
            asked: Vec::new(),
            raised: None,
            space: None,
            jumps: CodeSpace::new(SpaceKey::default(), 0, 1),
            goes_on: 0,
            boundaries: Vec::new(),
        }
    }

    pub fn fill_tlb(&mut self) {
        self.space = Some(Space::new(SpaceKey::default()));
        for page in 0..16 {
            match kind(page) {
                Kind::Cached => self.fill(page, true),
                Kind::Guarded => self.fill(page, false),
                Kind::Fills | Kind::Device | Kind::Fault => {}
            }
        }
        if let Some(space) = &self.space {
            tlb::set_data(&mut self.regs, space);
        }
        tlb::set_jumps(&mut self.regs, &self.jumps);
    }

    fn fill(&mut self, page: u64, write: bool) {
        let host = self.memory.as_mut_ptr() as u64 + frame(page as usize * 4096) as u64;
        if let Some(space) = &mut self.space {
            space.fill(BASE + page * 4096, host, page, true, write);
        }
    }

    /// Checks the access, and notes it.
    fn look(&mut self, here: Here, addr: u64, len: u64, write: bool, what: String) -> Outcome {
        let last = addr.wrapping_add(len - 1);
        let mut outcome = Outcome::Done;
        let mut optional = true;
        for at in [addr, last] {
            let page = at.wrapping_sub(BASE) >> 12;
            let kind = if page < 16 { kind(page) } else { Kind::Fault };
            match kind {
                Kind::Cached => {}
                Kind::Fills => self.fill(page, true),
                Kind::Guarded if !write => {}
                Kind::Guarded | Kind::Device => {
                    optional = false;
                    outcome = Outcome::Leave;
                }
                Kind::Fault => {
                    self.asked.push(Asked {
                        here,
                        what,
                        optional: false,
                    });
                    return Outcome::Stop;
                }
            }
        }
        self.asked.push(Asked { here, what, optional });
        outcome
    }

    fn read(&self, addr: u64, size: Size) -> u64 {
        let mut bytes = [0; 8];
        let at = (addr - BASE) as usize;
        let n = size.bytes() as usize;
        for (i, byte) in bytes[..n].iter_mut().enumerate() {
            *byte = self.memory[frame(at + i)];
        }
        u64::from_le_bytes(bytes)
    }

    fn write(&mut self, addr: u64, size: Size, value: u64) {
        let at = (addr - BASE) as usize;
        let n = size.bytes() as usize;
        for (i, byte) in value.to_le_bytes()[..n].iter().enumerate() {
            self.memory[frame(at + i)] = *byte;
        }
    }

    /// `self` is the translated world.
    pub fn compare(&self, other: &World, context: &dyn Fn() -> String) {
        // The page's base is set by whoever enters a block.
        for slot in (0..448).filter(|s| *s != 65) {
            let (a, b) = (self.regs.words()[slot], other.regs.words()[slot]);
            assert_eq!(a, b, "slot {slot}: {a:#x} {b:#x}: {}", context());
        }
        if let Some(at) = (0..LEN as usize).find(|i| self.memory[*i] != other.memory[*i]) {
            panic!(
                "memory at {at:#x}: {:#x} {:#x}: {}",
                self.memory[at],
                other.memory[at],
                context()
            );
        }
        let mut mine = self.asked.iter().peekable();
        for asked in &other.asked {
            if mine.peek() == Some(&asked) {
                mine.next();
            } else {
                assert!(
                    asked.optional,
                    "not asked {asked:?}, but {:?}: {}",
                    mine.peek(),
                    context()
                );
            }
        }
        assert_eq!(mine.next(), None, "asked: {}", context());
    }
}

impl Env for World {
    fn boundary(&mut self, left: u64) -> (Outcome, u64) {
        self.boundaries.push(left);
        if self.boundaries.len() <= self.goes_on {
            (Outcome::Done, 0)
        } else {
            (Outcome::Leave, 0)
        }
    }

    fn load(&mut self, here: Here, addr: u64, size: Size) -> (Outcome, u64) {
        let outcome = self.look(
            here,
            addr,
            size.bytes(),
            false,
            format!("load {addr:#x} {size:?}"),
        );
        let value = if outcome == Outcome::Stop {
            0x55
        } else {
            self.read(addr, size)
        };
        (outcome, value)
    }

    fn store(&mut self, here: Here, addr: u64, size: Size, value: u64) -> Outcome {
        let outcome = self.look(
            here,
            addr,
            size.bytes(),
            true,
            format!("store {addr:#x} {size:?} {value:#x}"),
        );
        if outcome != Outcome::Stop {
            self.write(addr, size, value);
        }
        outcome
    }

    fn rmw(&mut self, here: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64) {
        let what = format!("{op:?} {addr:#x} {size:?} {:#x}", value & size.mask());
        if addr & (size.bytes() - 1) != 0 {
            self.asked.push(Asked {
                here,
                what,
                optional: false,
            });
            return (Outcome::Stop, 0x77);
        }
        let outcome = self.look(here, addr, size.bytes(), true, what);
        if outcome == Outcome::Stop {
            return (outcome, 0x99);
        }
        let old = self.read(addr, size);
        self.write(addr, size, eval_rmw(op, size, old, value));
        (outcome, old)
    }

    /// Bits of the number: 0..2 the outcome (3: done), 2 changes slots, 3 rounding, 4 the pc.
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let sum = args[0].wrapping_mul(3) ^ args[1].wrapping_mul(5) ^ args[2];
        // The state is as it should be here.
        let mut digest = 0u64;
        for slot in (0..67).filter(|s| *s != 64) {
            digest = digest.rotate_left(5) ^ self.regs.words()[slot];
        }
        let what = format!("call {helper} {args:x?} {digest:#x}");
        self.asked.push(Asked {
            here,
            what,
            optional: false,
        });
        if helper & 3 == 2 {
            return (Outcome::Stop, 0xbad);
        }
        if helper & 4 != 0 {
            for slot in [0, 3, 5, 7, 17, 33, 40] {
                self.regs.words_mut()[slot] ^= sum | 1;
            }
        }
        if helper & 8 != 0 {
            self.regs[LAYOUT.fp_env] ^= 0x2000;
        }
        if helper & 16 != 0 {
            self.regs[LAYOUT.pc] = 0x1234_5678;
        }
        let outcome = if helper & 3 == 1 {
            Outcome::Leave
        } else {
            Outcome::Done
        };
        (outcome, sum)
    }

    fn regs(&mut self) -> &mut RegFile {
        &mut self.regs
    }

    fn check(&mut self, here: Here, addr: u64, len: u64, write: bool) -> Outcome {
        let what = format!("check {addr:#x} {len} {write}");
        self.look(here, addr, len, write, what)
    }

    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.raised = Some(trap);
        Outcome::Stop
    }
    fn breakpoint(&mut self, here: Here) -> bool {
        self.asked.push(Asked {
            here,
            what: "breakpoint".into(),
            optional: false,
        });
        here.offset & 8 != 0
    }
}
