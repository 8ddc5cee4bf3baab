//! For tests: a hart with flat memory and nothing else, which runs code through the lifter and an engine.
// A test that fails panics.
#![allow(clippy::unwrap_used)]

use crate::interp::{self, Scratch};
use crate::ir::{Block, Rmw, Size, Target, Terminal, eval_rmw};
use crate::riscv64::hart::{Hart, HartConfig};
use crate::riscv64::slots::{LAYOUT, PAGE, PC};
use crate::{Access, Context, Cpu, Env, Exit, Here, Lifted, Outcome, RegFile, Trap};

/// Memory from `base` on; virtual addresses are physical.
#[derive(Clone, Debug)]
pub struct Ram {
    /// Address of the first byte.
    pub base: u64,
    /// All bytes: a whole number of pages.
    pub bytes: Vec<u8>,
}

impl Ram {
    fn at(&mut self, addr: u64, len: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(addr.checked_sub(self.base)?).ok()?;
        self.bytes.get_mut(start..start.checked_add(len as usize)?)
    }

    /// The value at an address; `None` outside.
    pub fn read(&mut self, addr: u64, size: Size) -> Option<u64> {
        let mut bytes = [0; 8];
        let len = size.bytes();
        bytes[..len as usize].copy_from_slice(self.at(addr, len)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// Changes the value at an address; `None` outside.
    pub fn write(&mut self, addr: u64, size: Size, value: u64) -> Option<()> {
        let len = size.bytes();
        self.at(addr, len)?
            .copy_from_slice(&value.to_le_bytes()[..len as usize]);
        Some(())
    }

    fn page(&mut self, addr: u64) -> Option<[u8; 4096]> {
        self.at(addr, 4096).and_then(|page| page.try_into().ok())
    }
}

impl Context for Ram {
    fn now(&self) -> u64 {
        0
    }
    fn load(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        self.read(addr, size)
            .ok_or_else(|| cpu.access_fault(addr, Access::Read))
    }
    fn store(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap> {
        self.write(addr, size, value)
            .ok_or_else(|| cpu.access_fault(addr, Access::Write))
    }
    fn store_zeros(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64) -> Result<(), Trap> {
        (0..len)
            .step_by(8)
            .try_for_each(|i| self.store(cpu, addr + i, Size::B8, 0))
    }

    fn translate(&mut self, _: &mut dyn Cpu, addr: u64, _: Access) -> Result<u64, Trap> {
        Ok(addr)
    }
    fn is_ram(&self, addr: u64) -> bool {
        (self.base..self.base + self.bytes.len() as u64).contains(&addr)
    }
    fn protection_changed(&mut self, _cpu: &dyn Cpu) {}
    fn end_slice(&mut self) {}
    context_without_board!();
}

/// What runs the blocks of a [`World`].
pub trait Engine {
    /// Runs a block, whose page and pc are in their slots, as [`interp::run`] does.
    fn run(&mut self, block: &Block, world: &mut World, budget: &mut u64) -> Exit;
}

/// The IR interpreter.
#[derive(Default)]
pub struct Interpreter(Scratch);

impl Engine for Interpreter {
    fn run(&mut self, block: &Block, world: &mut World, budget: &mut u64) -> Exit {
        interp::run(block, &LAYOUT, world, &mut self.0, budget, &[])
    }
}

/// The hart and its memory.
pub struct World {
    /// The hart.
    pub hart: Hart,
    /// The memory.
    pub ram: Ram,
    trap: Option<Trap>,
}

impl World {
    /// A hart as at power-on.
    pub fn new(ram: Ram) -> World {
        let hart = Hart::new(HartConfig::new(0));
        World {
            hart,
            ram,
            trap: None,
        }
    }

    /// Runs from `pc` on for at most `budget` instructions; yields the trap that ended the run.
    pub fn run(&mut self, pc: u64, mut budget: u64) -> Option<Trap> {
        self.hart.regs_mut()[PC] = pc;
        let mut interpreter = Interpreter::default();
        while budget > 0 {
            let block = self.lift();
            if let Some(trap) = self.enter(&mut interpreter, &block, &mut budget) {
                return Some(trap);
            }
        }
        None
    }

    /// Runs the one instruction at `pc`, as a block of its own; yields its trap.
    pub fn step(&mut self, pc: u64, engine: &mut dyn Engine) -> Option<Trap> {
        self.hart.regs_mut()[PC] = pc;
        let (block, mut budget) = (first(self.lift()), 1);
        let trap = self.enter(engine, &block, &mut budget);
        assert_eq!(budget, u64::from(trap.is_some()), "steps left");
        trap
    }

    /// The block at the pc.
    pub fn lift(&mut self) -> Block {
        let pc = self.hart.pc();
        assert_eq!(pc & 1, 0, "jumped to {pc:#x}");
        let base = pc & !0xfff;
        let page = self.ram.page(base).expect("code runs in memory");
        let (mode, offset) = (self.hart.block_mode(), (pc & 0xfff) as u16);
        let mut lifted = self.hart.lift(mode, offset, &page, None);
        if let Lifted::NeedsNextPage = lifted {
            let next = self.ram.page(base + 4096).expect("code runs in memory");
            lifted = self.hart.lift(mode, offset, &page, Some(&next));
        }
        match lifted {
            Lifted::Block(block) => block,
            Lifted::NeedsNextPage => panic!("the next page was given"),
        }
    }

    fn enter(&mut self, engine: &mut dyn Engine, block: &Block, budget: &mut u64) -> Option<Trap> {
        self.hart.regs_mut()[PAGE] = self.hart.pc() & !0xfff;
        match engine.run(block, self, budget) {
            Exit::Budget | Exit::Next | Exit::Dispatch => None,
            Exit::Stop => self.trap.take(),
            Exit::Trap(trap) => Some(trap),
            Exit::Breakpoint => panic!("no breakpoint was set"),
        }
    }

    fn stop<T: Default>(&mut self, trap: Trap) -> (Outcome, T) {
        self.trap = Some(trap);
        (Outcome::Stop, T::default())
    }

    fn access_fault<T: Default>(&mut self, addr: u64, access: Access) -> (Outcome, T) {
        let trap = self.hart.access_fault(addr, access);
        self.stop(trap)
    }
}

/// The first instruction of a block as a block of its own.
pub fn first(mut block: Block) -> Block {
    if let Some(next) = block.insns.get(1).copied() {
        block.insns.truncate(1);
        block.ops.truncate(next.first_op.into());
        block.terminal = Terminal::Jump(Target(next.offset.into()));
    }
    block
}

impl Env for World {
    fn load(&mut self, _: Here, addr: u64, size: Size) -> (Outcome, u64) {
        match self.ram.read(addr, size) {
            Some(value) => (Outcome::Done, value),
            None => self.access_fault(addr, Access::Read),
        }
    }
    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        match self.ram.write(addr, size, value) {
            Some(()) => Outcome::Done,
            None => self.access_fault::<()>(addr, Access::Write).0,
        }
    }
    fn rmw(&mut self, _: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64) {
        if !addr.is_multiple_of(size.bytes()) {
            let trap = self.hart.misaligned(addr, Access::Write);
            return self.stop(trap);
        }
        let Some(old) = self.ram.read(addr, size) else {
            return self.access_fault(addr, Access::Write);
        };
        self.ram.write(addr, size, eval_rmw(op, size, old, value));
        (Outcome::Done, old)
    }
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let pc = self.hart.regs()[PAGE] + u64::from(here.offset);
        match self.hart.call(&mut self.ram, helper, args, pc) {
            Ok(value) => (Outcome::Done, value),
            Err(trap) => self.stop(trap),
        }
    }
    fn regs(&mut self) -> &mut RegFile {
        self.hart.regs_mut()
    }
    fn check(&mut self, _: Here, _: u64, _: u64, _: bool) -> Outcome {
        unreachable!("no such op")
    }
    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.stop::<()>(trap).0
    }
    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}
