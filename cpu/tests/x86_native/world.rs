//! A processor in 64-bit or 32-bit mode with the scratch memory and nothing else, run by the lifter and an [`Engine`].

use crate::cases::{CODE, Case, DATA, DATA_LEN};
use crate::vectors::Image;
use cpu::interp::{self, Scratch};
use cpu::ir::{Block, Rmw, Size, Target, Terminal};
use cpu::x86_64::flags::{self, ARITHMETIC, Kind};
use cpu::x86_64::hart::{Hart, HartConfig, LAYOUT, Start};
use cpu::x86_64::helper::{self, Form};
use cpu::x86_64::slots::{CC_OP, CC_SRC, EFLAGS, PAGE, PC, gpr};
use cpu::{Access, Context, Cpu, Env, Exit, Here, Lifted, Outcome, RegFile, Trap};

/// Steps of the longest case.
const BUDGET: u64 = 400;

/// A fault of any kind: the case is dropped.
const FAULT: Trap = Trap { cause: 0, value: 0 };

/// What a run leaves behind.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    pub regs: [u64; 16],
    pub flags: u64,
    pub vectors: Image,
}

/// What runs blocks.
pub trait Engine {
    /// Runs a block that ends within the case, for at most `budget` instructions.
    fn run(&mut self, world: &mut World, block: &Block, budget: &mut u64) -> Exit;
}

/// The IR interpreter.
#[derive(Default)]
pub struct Interpreter(Scratch);

impl Engine for Interpreter {
    fn run(&mut self, world: &mut World, block: &Block, budget: &mut u64) -> Exit {
        interp::run(block, &LAYOUT, world, &mut self.0, budget, &[])
    }
}

/// The scratch memory as a helper sees it.
struct Ram<'a>(&'a mut Vec<u8>);

pub struct World {
    hart: Option<Hart>,
    pub memory: Vec<u8>,
    faulted: bool,
}

fn at(memory: &mut [u8], addr: u64, len: u64) -> Option<&mut [u8]> {
    let start = usize::try_from(addr.checked_sub(DATA)?).ok()?;
    memory.get_mut(start..start.checked_add(len as usize)?)
}

fn read(memory: &mut [u8], addr: u64, size: Size) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes[..size.bytes() as usize].copy_from_slice(at(memory, addr, size.bytes())?);
    Some(u64::from_le_bytes(bytes))
}

fn write(memory: &mut [u8], addr: u64, size: Size, value: u64) -> Option<()> {
    at(memory, addr, size.bytes())?.copy_from_slice(&value.to_le_bytes()[..size.bytes() as usize]);
    Some(())
}

impl World {
    pub fn new(bits: u32) -> World {
        let mut hart = Hart::new(HartConfig {
            id: 0,
            harts: 1,
            seed: 0,
        });
        hart.start(if bits == 64 {
            Start::Long64 {
                rip: 0,
                rsi: 0,
                rsp: 0,
                cr3: 0,
                gdt: (0, 0),
            }
        } else {
            Start::Protected32 {
                eip: 0,
                eax: 0,
                ebx: 0,
                esi: 0,
                esp: 0,
                gdt: (0, 0),
            }
        });
        let mut world = World {
            hart: Some(hart),
            memory: vec![0; DATA_LEN],
            faulted: false,
        };
        // CR4.OSFXSR and OSXMMEXCPT.
        let cr4 = world.ask(helper::READ_CR, [4, 0], &mut Vec::new());
        world.ask(helper::WRITE_CR, [4, cr4 | 0x600], &mut Vec::new());
        world
    }

    fn hart(&mut self) -> &mut Hart {
        self.hart.as_mut().unwrap()
    }

    /// The pages of code.
    fn pages(case: &Case) -> [[u8; 4096]; 3] {
        let mut pages = [[0; 4096]; 3];
        for (n, byte) in case.code().iter().enumerate() {
            let at = (case.start - CODE) as usize + n;
            pages[at / 4096][at % 4096] = *byte;
        }
        pages
    }

    /// The block at `pc`, cut at the end of the case.
    fn block(&mut self, pages: &[[u8; 4096]; 3], pc: u64, end: u64) -> Block {
        let n = (pc - CODE) as usize / 4096;
        let (mode, offset) = (self.hart().block_mode(), (pc & 0xfff) as u16);
        let mut lifted = self.hart().lift(mode, offset, &pages[n], None);
        if let Lifted::NeedsNextPage = lifted {
            lifted = self.hart().lift(mode, offset, &pages[n], Some(&pages[n + 1]));
        }
        let Lifted::Block(mut block) = lifted else {
            panic!("the next page was given")
        };
        block.verify().unwrap();
        let end = end - (pc & !0xfff);
        if let Some(n) = block.insns.iter().position(|insn| u64::from(insn.offset) >= end) {
            block.ops.truncate(block.insns[n].first_op.into());
            block.insns.truncate(n);
            block.terminal = Terminal::Jump(Target(end as i32));
        }
        block
    }

    /// Runs a case, if `single` instruction by instruction; `None` if it faults or doesn't end.
    pub fn run(&mut self, engine: &mut dyn Engine, case: &Case, single: bool) -> Option<State> {
        let pages = World::pages(case);
        let end = case.start + case.code().len() as u64;
        let hart = self.hart();
        let regs = hart.regs_mut();
        for (n, v) in case.regs.iter().enumerate() {
            regs[gpr(n as u8)] = *v;
        }
        regs[CC_OP] = flags::cc(Kind::Flags, 0);
        regs[CC_SRC] = case.flags & ARITHMETIC;
        regs[EFLAGS] = case.flags & !ARITHMETIC;
        regs[PC] = case.start;
        self.set_vectors(&case.vectors);
        self.faulted = false;
        let mut budget = BUDGET;
        loop {
            let pc = self.hart().pc();
            if pc == end {
                break;
            }
            if !(case.start..end).contains(&pc) {
                return None;
            }
            let block = self.block(&pages, pc, end);
            self.hart().regs_mut()[PAGE] = pc & !0xfff;
            let mut left = if single { budget.min(1) } else { budget };
            let before = left;
            let exit = engine.run(self, &block, &mut left);
            budget -= before - left;
            match exit {
                Exit::Next | Exit::Dispatch => {}
                Exit::Budget if budget > 0 => {}
                Exit::Budget | Exit::Stop | Exit::Trap(_) => return None,
                Exit::Breakpoint => unreachable!("none was set"),
            }
            if self.faulted {
                return None;
            }
        }
        let vectors = self.vectors();
        let r = self.hart().regs();
        let mut regs = [0; 16];
        for (n, v) in regs.iter_mut().enumerate() {
            *v = r[gpr(n as u8)];
        }
        let six = flags::arithmetic(r[CC_OP], r[cpu::x86_64::slots::CC_DST], r[CC_SRC]);
        Some(State {
            regs,
            flags: r[EFLAGS] | six,
            vectors,
        })
    }

    /// Calls a helper that can't fail, with a memory of its own.
    fn ask(&mut self, helper: u16, args: [u64; 2], memory: &mut Vec<u8>) -> u64 {
        let form = Form::new(4, 2, 1);
        let hart = self.hart();
        hart.call(&mut Ram(memory), helper, [args[0], args[1], form.0], 0)
            .unwrap()
    }

    fn set_vectors(&mut self, image: &Image) {
        let mut memory = image.0.to_vec();
        memory.resize(512, 0);
        self.ask(helper::FXRSTOR, [DATA, 0], &mut memory);
    }

    fn vectors(&mut self) -> Image {
        let mut memory = vec![0; 512];
        self.ask(helper::FXSAVE, [DATA, 0], &mut memory);
        Image::of(&memory)
    }

    /// The IR of a case, for messages.
    pub fn blocks(&mut self, case: &Case) -> String {
        let end = case.start + case.code().len() as u64;
        self.block(&World::pages(case), case.start, end).to_string()
    }

    fn fault<T: Default>(&mut self) -> (Outcome, T) {
        self.faulted = true;
        (Outcome::Stop, T::default())
    }
}

impl Env for World {
    fn load(&mut self, _: Here, addr: u64, size: Size) -> (Outcome, u64) {
        match read(&mut self.memory, addr, size) {
            Some(value) => (Outcome::Done, value),
            None => self.fault(),
        }
    }
    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        match write(&mut self.memory, addr, size, value) {
            Some(()) => Outcome::Done,
            None => self.fault::<()>().0,
        }
    }
    fn rmw(&mut self, _: Here, _: Rmw, _: u64, _: Size, _: u64) -> (Outcome, u64) {
        unreachable!("no such op")
    }
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let mut hart = self.hart.take().unwrap();
        let pc = hart.regs()[PAGE] + u64::from(here.offset);
        let result = hart.call(&mut Ram(&mut self.memory), helper, args, pc);
        self.hart = Some(hart);
        match result {
            Ok(value) => (Outcome::Done, value),
            Err(_) => self.fault(),
        }
    }
    fn regs(&mut self) -> &mut RegFile {
        self.hart().regs_mut()
    }
    fn check(&mut self, _: Here, addr: u64, len: u64, _: bool) -> Outcome {
        match at(&mut self.memory, addr, len) {
            Some(_) => Outcome::Done,
            None => self.fault::<()>().0,
        }
    }
    fn raise(&mut self, _: Here, _: Trap) -> Outcome {
        self.fault::<()>().0
    }
    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}

impl Context for Ram<'_> {
    fn now(&self) -> u64 {
        0
    }
    fn load(&mut self, _: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        read(self.0, addr, size).ok_or(FAULT)
    }
    fn store(&mut self, _: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap> {
        write(self.0, addr, size, value).ok_or(FAULT)
    }
    fn store_zeros(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<(), Trap> {
        Err(FAULT)
    }
    fn translate(&mut self, _: &mut dyn Cpu, addr: u64, _: Access) -> Result<u64, Trap> {
        Ok(addr)
    }
    fn is_ram(&self, _: u64) -> bool {
        true
    }
    fn protection_changed(&mut self, _cpu: &dyn Cpu) {}
    fn end_slice(&mut self) {}
    fn fetch(&mut self, _: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        read(self.0, addr, size).ok_or(FAULT)
    }
    fn semihosting(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<Option<u64>, Trap> {
        Err(FAULT)
    }
    fn check(&mut self, _: &mut dyn Cpu, addr: u64, len: u64, _: Access) -> Result<(), Trap> {
        at(self.0, addr, len).map(|_| ()).ok_or(FAULT)
    }
    fn port_read(&mut self, _: u16, _: Size) -> u64 {
        0
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
        7
    }
    fn more_steps(&mut self, _: u64) {}
    /// In 64-bit mode as the machine would: elements one by one would give the same.
    fn copy(&mut self, _: &mut dyn Cpu, [to, from, len]: [u64; 3], _: Size, _: bool) -> bool {
        if to.abs_diff(from) < len {
            return false;
        }
        let Some(bytes) = at(self.0, from, len).map(|bytes| bytes.to_vec()) else {
            return false;
        };
        match at(self.0, to, len) {
            Some(target) => target.copy_from_slice(&bytes),
            None => return false,
        }
        true
    }
    fn fill(&mut self, _: &mut dyn Cpu, to: u64, count: u64, size: Size, value: u64) -> bool {
        match at(self.0, to, count * size.bytes()) {
            Some(target) => {
                let element = &value.to_le_bytes()[..size.bytes() as usize];
                target
                    .chunks_exact_mut(element.len())
                    .for_each(|e| e.copy_from_slice(element));
                true
            }
            None => false,
        }
    }
}
