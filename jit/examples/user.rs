//! Runs a static RISC-V Linux program in user mode: the translator alone, without devices or page tables,
//! for measuring it. `user [--interp | --without PASS]... [--dump ADDRESS] [--again N] PROGRAM ARGUMENT...`;
//! `--again` translates everything N more times in the end, so that the time of that can be told. Statistics
//! go to stderr. Knows as much of Linux as single-threaded programs that write to a terminal need.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::Write;

use cpu::ir::{Rmw, Size, Slot, eval_rmw};
use cpu::riscv64::slots::{self, LAYOUT};
use cpu::riscv64::{helper, lift};
use cpu::{Env, Exit, Here, Lifted, Outcome, RegFile, SpaceKey, interp};
use jit::tlb::{self, CodeSpace, Space};
use jit::{BlockKey, Jit, Passes, Ran};

const RAM: u64 = 1 << 30;
const STACK: u64 = RAM - 4096;
const MODE: u64 = slots::MODE_FS_DIRTY;

struct User {
    regs: RegFile,
    memory: Vec<u8>,
    data: Space,
    reserved: u64,
    brk: u64,
    top: u64,
    ended: Option<i32>,
}

impl User {
    fn read(&self, addr: u64, size: Size) -> u64 {
        let mut bytes = [0; 8];
        let n = size.bytes() as usize;
        bytes[..n].copy_from_slice(&self.memory[addr as usize..addr as usize + n]);
        u64::from_le_bytes(bytes)
    }

    fn write(&mut self, addr: u64, size: Size, value: u64) {
        let n = size.bytes() as usize;
        self.memory[addr as usize..addr as usize + n].copy_from_slice(&value.to_le_bytes()[..n]);
    }

    fn touch(&mut self, addr: u64) -> bool {
        if addr >= RAM {
            eprintln!("access to {addr:#x}");
            return false;
        }
        let base = addr & !0xfff;
        let host = self.memory.as_mut_ptr() as u64 + base;
        self.data.fill(base, host, base >> 12, true, true);
        true
    }

    fn x(&mut self, n: u16) -> &mut u64 {
        &mut self.regs[Slot(n)]
    }

    /// The system call in a7.
    fn system_call(&mut self) {
        let [a0, a1, a2] = [10, 11, 12].map(|n| self.regs[Slot(n)]);
        let result: i64 = match self.regs[Slot(17)] {
            64 => {
                let text = &self.memory[a1 as usize..(a1 + a2) as usize];
                std::io::stdout().write_all(text).unwrap();
                a2 as i64
            }
            66 => {
                let mut n = 0;
                for i in 0..a2 {
                    let (p, l) = (
                        self.read(a1 + 16 * i, Size::B8),
                        self.read(a1 + 16 * i + 8, Size::B8),
                    );
                    std::io::stdout()
                        .write_all(&self.memory[p as usize..(p + l) as usize])
                        .unwrap();
                    n += l;
                }
                n as i64
            }
            93 | 94 => {
                self.ended = Some(a0 as i32);
                0
            }
            214 => {
                if a0 >= self.brk {
                    self.brk = a0;
                }
                self.brk as i64
            }
            222 => {
                self.top -= (a1 + 4095) & !4095;
                self.top as i64
            }
            113 => {
                self.write(a1, Size::B8, 0);
                self.write(a1 + 8, Size::B8, 0);
                0
            }
            173 => 1,
            // munmap, mprotect, set_tid_address, set_robust_list, rt_sigaction, rt_sigprocmask, prlimit, rseq
            215 | 226 | 96 | 99 | 134 | 135 | 261 => 0,
            278 => a1 as i64,
            _ => -38,
        };
        *self.x(10) = result as u64;
    }
}

impl Env for User {
    fn load(&mut self, _here: Here, addr: u64, size: Size) -> (Outcome, u64) {
        if !self.touch(addr) || !self.touch(addr + size.bytes() - 1) {
            return (Outcome::Stop, 0);
        }
        (Outcome::Done, self.read(addr, size))
    }

    fn store(&mut self, _here: Here, addr: u64, size: Size, value: u64) -> Outcome {
        if !self.touch(addr) || !self.touch(addr + size.bytes() - 1) {
            return Outcome::Stop;
        }
        self.write(addr, size, value);
        Outcome::Done
    }

    fn rmw(&mut self, _here: Here, op: Rmw, addr: u64, size: Size, value: u64) -> (Outcome, u64) {
        self.touch(addr);
        let old = self.read(addr, size);
        self.write(addr, size, eval_rmw(op, size, old, value));
        (Outcome::Done, old)
    }

    fn call(&mut self, _here: Here, number: u16, args: [u64; 3]) -> (Outcome, u64) {
        let size = if args[1] == 4 { Size::B4 } else { Size::B8 };
        let value = match number {
            helper::LR => {
                self.reserved = args[0];
                size.sign_extend(self.read(args[0], size))
            }
            helper::SC if self.reserved == args[0] => {
                self.write(args[0], size, args[2]);
                self.reserved = 1;
                0
            }
            helper::SC => 1,
            helper::CSR => self.csr(args[0], args[1]),
            _ => 0,
        };
        (Outcome::Done, value)
    }

    fn regs(&mut self) -> &mut RegFile {
        &mut self.regs
    }

    fn check(&mut self, _: Here, _: u64, _: u64, _: bool) -> Outcome {
        unreachable!("no such op")
    }
    fn raise(&mut self, _: Here, _: cpu::Trap) -> Outcome {
        unreachable!("no such op")
    }
    fn breakpoint(&mut self, _here: Here) -> bool {
        false
    }
}

impl User {
    /// fflags, frm and fcsr, read and written.
    fn csr(&mut self, descriptor: u64, operand: u64) -> u64 {
        let env = self.regs[slots::FP_ENV];
        let flags = (env & 1) << 4 | (env & 4) << 1 | (env & 8) >> 1 | (env & 16) >> 3 | (env & 32) >> 5;
        let frm = [0, 2, 3, 1][(env >> 13 & 3) as usize];
        let old = match descriptor & 0xfff {
            1 => flags,
            2 => frm,
            3 => frm << 5 | flags,
            _ => 0,
        };
        let new = match descriptor >> 12 & 3 {
            1 => operand,
            2 => old | operand,
            _ => old & !operand,
        };
        let (frm, flags) = match descriptor & 0xfff {
            1 => (frm, new),
            2 => (new, flags),
            3 => (new >> 5, new),
            _ => (frm, flags),
        };
        let rc = [0, 3, 1, 2, 0, 0, 0, 0][(frm & 7) as usize];
        let f = flags;
        let bits = (f >> 4 & 1) | (f >> 1 & 4) | (f << 1 & 8) | (f << 3 & 16) | (f << 5 & 32);
        self.regs[slots::FP_ENV] = 0x1f80 | rc << 13 | bits;
        old
    }
}

fn half(m: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([m[at], m[at + 1]]))
}

fn quad(m: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(m[at..at + 8].try_into().unwrap())
}

fn main() {
    let mut passes = Passes::all().without(Passes::PATHS);
    let mut interpret = false;
    let mut dump = None;
    let mut again = 0;
    let mut all = Vec::new();
    let mut args = std::env::args().skip(1).peekable();
    while let Some(option) = args.next_if(|a| a.starts_with("--")) {
        match option.as_str() {
            "--interp" => interpret = true,
            "--again" => again = args.next().unwrap().parse().unwrap(),
            "--dump" => dump = Some(u64::from_str_radix(&args.next().unwrap(), 16).unwrap()),
            _ => passes = passes.without(Passes::named(&args.next().unwrap()).unwrap()),
        }
    }
    let words: Vec<String> = args.collect();
    let elf = std::fs::read(&words[0]).unwrap();
    let mut user = User {
        regs: RegFile::new(),
        memory: vec![0; RAM as usize],
        data: Space::new(SpaceKey::default()),
        reserved: 1,
        brk: 0,
        top: RAM - (64 << 20),
        ended: None,
    };
    let (headers, count) = (quad(&elf, 32) as usize, half(&elf, 56) as usize);
    for i in 0..count {
        let h = headers + 56 * i;
        if elf[h] == 1 {
            let (at, va, len, whole) = (
                quad(&elf, h + 8),
                quad(&elf, h + 16),
                quad(&elf, h + 32),
                quad(&elf, h + 40),
            );
            user.memory[va as usize..(va + len) as usize]
                .copy_from_slice(&elf[at as usize..(at + len) as usize]);
            user.brk = user.brk.max((va + whole + 4095) & !4095);
        }
    }
    // argc, argv, envp, auxv: page size, random bytes, headers.
    let mut sp = STACK - 64;
    let random = sp;
    let mut pointers = vec![words.len() as u64];
    for word in &words {
        sp -= word.len() as u64 + 1;
        user.memory[sp as usize..sp as usize + word.len()].copy_from_slice(word.as_bytes());
        pointers.push(sp);
    }
    pointers.extend([0, 0, 6, 4096, 25, random, 0, 0]);
    sp = (sp - 8 * pointers.len() as u64) & !15;
    for (i, p) in pointers.iter().enumerate() {
        user.write(sp + 8 * i as u64, Size::B8, *p);
    }
    *user.x(2) = sp;
    user.regs[slots::FP_ENV] = 0x1f80;
    user.regs[LAYOUT.pc] = quad(&elf, 24);

    let mut jumps = CodeSpace::new(SpaceKey::default(), MODE, LAYOUT.pc_align);
    let mut jit = Jit::new(&LAYOUT, 256 << 20).unwrap();
    if std::env::var("JIT_PERF_MAP").is_ok() {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        jit.set_perf_map(Box::new(std::fs::File::create(path).unwrap()));
    }
    jit.set_passes(passes);
    tlb::set_data(&mut user.regs, &user.data);
    let mut scratch = interp::Scratch::default();
    let mut blocks = BTreeMap::new();
    let mut steps = 0u64;
    let page_of = |m: &[u8], pc: u64| -> [u8; 4096] {
        let base = (pc & !0xfff) as usize;
        m[base..base + 4096].try_into().unwrap()
    };
    let lifted = |m: &[u8], pc: u64| match lift::lift(MODE, (pc & 0xfff) as u16, &page_of(m, pc), None) {
        Lifted::Block(block) => (block, None),
        Lifted::NeedsNextPage => {
            let next = page_of(m, pc + 4096);
            match lift::lift(MODE, (pc & 0xfff) as u16, &page_of(m, pc), Some(&next)) {
                Lifted::Block(block) => (block, Some((pc >> 12) + 1)),
                Lifted::NeedsNextPage => unreachable!(),
            }
        }
    };
    let mut site = None;
    while user.ended.is_none() {
        let pc = user.regs[LAYOUT.pc];
        user.regs[LAYOUT.page] = pc & !0xfff;
        let mut budget = 1_000_000;
        let exit = if interpret {
            let (block, _) = blocks.entry(pc).or_insert_with(|| lifted(&user.memory, pc));
            interp::run(block, &LAYOUT, &mut user, &mut scratch, &mut budget, &[])
        } else {
            let entry = match jumps.jump(pc) {
                Some(entry) if site.is_none() => entry,
                _ => {
                    let key = BlockKey {
                        page: pc >> 12,
                        offset: (pc & 0xfff) as u16,
                        mode: MODE,
                        next: None,
                    };
                    let (id, straddles) = match jit.find(key) {
                        Some(id) => (id, false),
                        None => {
                            let (block, next) = lifted(&user.memory, pc);
                            let id = jit.compile(BlockKey { next, ..key }, &block, &[]).unwrap();
                            if again > 0 {
                                all.push((key, block.clone()));
                            }
                            if dump == Some(pc) {
                                eprintln!("{block}");
                                std::fs::write("/tmp/block.bin", jit.code(id)).unwrap();
                            }
                            (id, next.is_some())
                        }
                    };
                    for page in [pc, pc + 4096] {
                        if jumps.page(page).is_none() {
                            jumps.set_page(page, page >> 12);
                        }
                    }
                    jumps.insert(pc, jit.entry(id), straddles);
                    if let Some(site) = site.take()
                        && !straddles
                    {
                        jit.link(site, id);
                    }
                    jit.entry(id)
                }
            };
            tlb::set_jumps(&mut user.regs, &jumps);
            match jit.run(&mut user, entry, &mut budget) {
                Ran::Exit(exit) => exit,
                Ran::Link(s) => {
                    site = Some(s);
                    Exit::Next
                }
                Ran::Hot => unreachable!("without paths"),
                Ran::Tail => {
                    let pc = user.regs[LAYOUT.pc];
                    let (block, _) = lifted(&user.memory, pc);
                    interp::run(&block, &LAYOUT, &mut user, &mut scratch, &mut budget, &[])
                }
            }
        };
        steps += 1_000_000 - budget;
        match exit {
            Exit::Trap(trap) if trap.cause == 8 => {
                user.system_call();
                user.regs[LAYOUT.pc] += 4;
                steps += 1;
            }
            Exit::Trap(_) | Exit::Stop | Exit::Breakpoint => {
                eprintln!("{exit:?} at {:#x}", user.regs[LAYOUT.pc]);
                break;
            }
            Exit::Budget | Exit::Next | Exit::Dispatch => {}
        }
    }
    for _ in 0..again {
        jit.flush();
        for (key, block) in &all {
            jit.compile(*key, block, &[]).unwrap();
        }
    }
    eprintln!("{steps} steps, {:?}", jit.stats());
    std::process::exit(user.ended.unwrap_or(99));
}
