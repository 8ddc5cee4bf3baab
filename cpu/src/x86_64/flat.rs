//! For tests: a processor with flat memory from address 0 and nothing else, which runs blocks on an engine.
// A test that fails panics.
#![allow(clippy::unwrap_used)]

use super::hart::{Hart, HartConfig, LAYOUT, PIN_STARTUP, Start};
use super::helper;
use super::slots::{PAGE, PC};
use crate::interp::{self, Scratch};
use crate::ir::{Block, Rmw, Size, Target, Terminal};
use crate::{Access, Context, Cpu, Env, Exit, Here, Lifted, Outcome, RegFile, Trap};

/// Memory from 0 on, a whole number of pages; linear addresses are physical.
#[derive(Clone, Debug)]
pub struct Ram(pub Vec<u8>);

impl Ram {
    fn at(&mut self, addr: u64, len: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(addr).ok()?;
        self.0.get_mut(start..start.checked_add(len as usize)?)
    }

    fn read(&mut self, addr: u64, size: Size) -> Option<u64> {
        let mut bytes = [0; 8];
        let len = size.bytes();
        bytes[..len as usize].copy_from_slice(self.at(addr, len)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn write(&mut self, addr: u64, size: Size, value: u64) -> Option<()> {
        let len = size.bytes();
        self.at(addr, len)?
            .copy_from_slice(&value.to_le_bytes()[..len as usize]);
        Some(())
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
    fn store_zeros(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<(), Trap> {
        unreachable!("x86-64 doesn't ask for it")
    }
    fn translate(&mut self, _: &mut dyn Cpu, addr: u64, _: Access) -> Result<u64, Trap> {
        Ok(addr)
    }
    fn is_ram(&self, addr: u64) -> bool {
        addr < self.0.len() as u64
    }
    fn protection_changed(&mut self, _cpu: &dyn Cpu) {}
    fn end_slice(&mut self) {}
    fn fetch(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        self.load(cpu, addr, size)
    }
    fn semihosting(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<Option<u64>, Trap> {
        unreachable!("x86-64 doesn't ask for it")
    }
    fn check(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64, access: Access) -> Result<(), Trap> {
        let there = self.at(addr, len).map(|_| ());
        there.ok_or_else(|| cpu.access_fault(addr, access))
    }
    fn port_read(&mut self, _: u16, size: Size) -> u64 {
        size.mask()
    }
    fn port_write(&mut self, _: u16, _: Size, _: u64) {}
    fn local_read(&mut self, _: u32) -> Option<u64> {
        None
    }
    fn local_write(&mut self, _: u32, _: u64) -> bool {
        false
    }
    fn acknowledge(&mut self, _: u32, _: u8) {}
    fn numeric_error(&mut self, _: bool) {}
    fn shutdown(&mut self) {}
    fn steps_left(&self) -> u64 {
        1
    }
    fn more_steps(&mut self, _: u64) {}
    fn copy(&mut self, _: &mut dyn Cpu, _: [u64; 3], _: Size, _: bool) -> bool {
        false
    }
    fn fill(&mut self, _: &mut dyn Cpu, _: u64, _: u64, _: Size, _: u64) -> bool {
        false
    }
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

/// The processor and its memory.
pub struct World {
    /// The processor.
    pub hart: Hart,
    /// The memory.
    pub ram: Ram,
    trap: Option<Trap>,
}

impl World {
    /// In ring 0 with SSE on: in 64-bit mode, or in real mode with CS at 0x10000 and the other segments at 0.
    pub fn new(is_real: bool, len: usize) -> World {
        let mut hart = Hart::new(HartConfig {
            id: 1,
            harts: 2,
            seed: 0,
        });
        let mut ram = Ram(vec![0; len]);
        if is_real {
            hart.set_pin(PIN_STARTUP, 0x10 + 1);
            let cause = hart.interrupt().unwrap();
            hart.take_interrupt(&mut ram, cause);
        } else {
            hart.start(Start::Long64 {
                rip: 0,
                rsi: 0,
                rsp: 0,
                cr3: 0,
                gdt: (0, 0),
            });
        }
        // CR4.OSFXSR and OSXMMEXCPT, beside what is on.
        let cr4 = if is_real { 0x600 } else { 0x620 };
        hart.call(&mut ram, helper::WRITE_CR, [4, cr4, 0], 0).unwrap();
        World {
            hart,
            ram,
            trap: None,
        }
    }

    /// The block of the `len` bytes at the pc, as one.
    pub fn lift(&mut self, len: usize) -> Block {
        let pc = self.hart.pc();
        let page = self.ram.at(pc & !0xfff, 4096).unwrap();
        let page: [u8; 4096] = (&*page).try_into().unwrap();
        let Lifted::Block(mut block) =
            self.hart
                .lift(self.hart.block_mode(), (pc & 0xfff) as u16, &page, None)
        else {
            panic!("it fits in its page")
        };
        let end = (pc & 0xfff) + len as u64;
        if let Some(at) = block.insns.iter().position(|i| u64::from(i.offset) >= end) {
            block.ops.truncate(block.insns[at].first_op.into());
            block.insns.truncate(at);
            block.terminal = Terminal::Jump(Target(end as i32));
        }
        block
    }

    /// Runs a block at the pc once; yields its trap.
    pub fn run(&mut self, block: &Block, engine: &mut dyn Engine) -> Option<Trap> {
        self.hart.regs_mut()[PAGE] = self.hart.regs()[PC] & !0xfff;
        let mut budget = block.insns.len() as u64;
        match engine.run(block, self, &mut budget) {
            Exit::Budget | Exit::Next | Exit::Dispatch => None,
            Exit::Stop => self.trap.take(),
            Exit::Trap(trap) => Some(trap),
            Exit::Breakpoint => panic!("no breakpoint was set"),
        }
    }

    fn end<T: Default>(&mut self, result: Result<T, Trap>) -> (Outcome, T) {
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
        let result = self.ram.load(&mut self.hart, addr, size);
        self.end(result)
    }
    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        let result = self.ram.store(&mut self.hart, addr, size, value);
        self.end(result).0
    }
    fn rmw(&mut self, _: Here, _: Rmw, _: u64, _: Size, _: u64) -> (Outcome, u64) {
        unreachable!("no such op")
    }
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let pc = self.hart.regs()[PAGE] + u64::from(here.offset);
        let result = self.hart.call(&mut self.ram, helper, args, pc);
        self.end(result)
    }
    fn regs(&mut self) -> &mut RegFile {
        self.hart.regs_mut()
    }
    fn check(&mut self, _: Here, addr: u64, len: u64, _: bool) -> Outcome {
        let result = self.ram.check(&mut self.hart, addr, len, Access::Write);
        self.end(result).0
    }
    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.end::<()>(Err(trap)).0
    }
    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}
