//! How a block ends.
//!
//! A direct jump within the page is a `jmp` or `jcc` whose displacement is patched once the target is
//! translated; until then it goes to an exit of its own. Everything else asks the jump cache:
//!
//! ```text
//!   rorx t, pc, 8; xor t, pc           the folded pc (jumps.rs)
//!   and  t, mask                       entries are 16 bytes: { pc, code }
//!   mov  u, [jumps]; lea u, [u + t * scale]
//!   cmp  pc, [u]
//!   jne  miss                          pc into its slot; exit
//!   and  pc, -4096; mov [page], pc
//!   jmp  [u + 8]
//! ```
//!
//! So does an end after which mode, interrupts or map may have changed, once Rust has looked at the boundary
//! ([`cpu::Env::boundary`]): it has nothing to do there as a rule, and puts the caches of the new mode in place.

use cpu::ir::{Block, Op, Size, Target, Terminal, TrapValue};

use super::{Ends, Generator, Jump, Part};
use crate::asm::{Alu, Cc, Mem, R15, RAX, RCX, RDX, Reg};
use crate::gen_regs::TEMPS;
use crate::jit::ExitKind;
use crate::run::{Kind, Position};
use crate::thunks::Thunks;
use crate::tlb::{JUMP_ENTRIES, JUMP_FOLD};
use crate::words::{self, JUMPS};

impl Generator {
    /// The end of the block; with `leaving` by way of the run loop.
    pub(super) fn terminal(&mut self, block: &Block) {
        let leaving = self.leaving;
        match self.end {
            Terminal::Jump(target) => self.go(target),
            Terminal::Branch {
                cond,
                width,
                a,
                b,
                taken,
                fall,
            } => {
                let w = width == cpu::ir::Width::W64;
                let cc = self.compare_values(cond, w, a.0, b.0);
                self.go_if(cc, taken);
                self.go(fall);
            }
            Terminal::Indirect(v) => {
                let r = self.reg(v.0);
                if leaving {
                    self.store_pc(r);
                    self.exit(ExitKind::Dispatch, 0, None);
                } else {
                    self.go_indirect(r);
                }
            }
            Terminal::Ask(_, target) | Terminal::Dispatch(target) if leaving => {
                self.page_address(RAX, target.0);
                self.store_pc(RAX);
                self.exit(ExitKind::Dispatch, 0, None);
            }
            Terminal::Left if leaving => self.exit(ExitKind::Dispatch, 0, None),
            Terminal::Dispatch(_) | Terminal::Left => {
                if self.last_call(block).is_none() {
                    self.boundary(block);
                }
                match self.end {
                    Terminal::Dispatch(target) => self.page_address(RAX, target.0),
                    _ => {
                        let pc = words::word(usize::from(self.layout.pc.0));
                        self.a().load(true, RAX, pc);
                    }
                }
                self.go_indirect(RAX);
            }
            Terminal::Ask(v, target) => {
                let r = self.reg(v.0);
                self.a().test(true, r, r);
                let ask = self.jcc(Cc::Ne);
                self.aside(&[ask], |g| {
                    g.boundary(block);
                    g.page_address(RAX, target.0);
                    g.go_indirect(RAX);
                    Ends::Here
                });
                self.go(target);
            }
            Terminal::Trap { cause, value } if !leaving => self.deliver(block, cause, value),
            Terminal::Trap { cause, value } => {
                let value = match value {
                    TrapValue::Const(value) => Some(value),
                    TrapValue::Pc => None,
                };
                let offset = block.insns[block.insns.len() - 1].offset;
                self.exit(ExitKind::Trap { cause, value }, 1, Some(offset.into()));
            }
        }
    }

    /// The helper call of the block's last instruction after which the boundary can be looked at, if the block ends so that
    /// it must be.
    fn last_call(&self, block: &Block) -> Option<usize> {
        if !matches!(self.end, Terminal::Dispatch(_) | Terminal::Left) {
            return None;
        }
        let ops = block.ops_of(block.insns.len() - 1);
        let at = ops.rev().find(|at| self.ops.get(*at).is_some_and(Op::can_trap))?;
        matches!(self.ops[at], Op::Call { .. }).then_some(at)
    }

    /// Whether the op being translated is that call.
    pub(super) fn ends_block(&self, block: &Block) -> bool {
        !self.leaving && self.insn + 1 == block.insns.len() && self.last_call(block) == Some(self.at)
    }

    /// Has Rust look at the boundary at the end of the block; goes on if there is nothing to do at it.
    fn boundary(&mut self, block: &Block) {
        self.insn = block.insns.len() - 1;
        for _ in 0..4 {
            self.a().push_imm(0);
        }
        let desc = self.desc(block, Kind::Helper(Position::Behind), Size::B8);
        self.a().push_imm(desc.0 as i32);
        let thunk = self.thunks.call[usize::from(self.vectors_alive())];
        self.call(thunk);
        self.a().drop_top();
        let leave = self.jcc(Cc::Ne);
        self.aside(&[leave], |g| {
            let was = std::mem::replace(&mut g.leaving, true);
            g.terminal(block);
            g.leaving = was;
            Ends::Here
        });
    }

    /// Has Rust deliver the trap of the last instruction; goes on in the handler if there is nothing else to do.
    fn deliver(&mut self, block: &Block, cause: u64, value: TrapValue) {
        self.insn = block.insns.len() - 1;
        let (value, is_pc) = match value {
            TrapValue::Const(value) => (value, 0),
            TrapValue::Pc => (0, 1),
        };
        for word in [cause, value] {
            self.a().mov_imm(RAX, word);
            self.a().push_reg(RAX);
        }
        self.a().push_imm(is_pc);
        self.a().push_imm(0);
        let desc = self.desc(block, Kind::Helper(Position::Trap), Size::B8);
        self.a().push_imm(desc.0 as i32);
        // No value is needed any more.
        self.call(self.thunks.call[0]);
        self.a().drop_top();
        let leave = self.jcc(Cc::Ne);
        self.aside(&[leave], |g| {
            g.exit(ExitKind::Dispatch, 0, None);
            Ends::Here
        });
        let pc = words::word(usize::from(self.layout.pc.0));
        self.a().load(true, RAX, pc);
        self.go_indirect(RAX);
    }

    /// Leaves by a trap of the current instruction if the value isn't zero.
    pub(super) fn trap_if(&mut self, block: &Block, cond: u16, cause: u64, value: u64) {
        if self.constant(cond) == Some(0) {
            return;
        }
        match self.bits_tested(self.at) {
            Some((v, mask)) => {
                let r = self.reg(v);
                self.a().test_imm8(r, mask);
            }
            None => {
                let r = self.reg(cond);
                self.a().test(true, r, r);
            }
        }
        let trap = self.jcc(Cc::Ne);
        let (rest, offset) = (self.rest(), block.insns[self.insn].offset);
        self.aside(&[trap], |g| {
            g.surface();
            let kind = ExitKind::Trap {
                cause,
                value: Some(value),
            };
            g.exit(kind, rest, Some(offset.into()));
            Ends::Here
        });
    }

    /// An exit for a link whose displacement is `jump`.
    fn link(&mut self, jump: Jump, target: Target) {
        let kind = ExitKind::Link {
            block: 0,
            at: jump.at as u64,
            unlinked: None,
        };
        let cold = jump.part == Part::Cold;
        if cold {
            self.bind_here(jump);
            self.exit(kind, 0, Some(target.0));
        } else {
            self.aside(&[jump], |g| {
                g.exit(kind, 0, Some(target.0));
                Ends::Here
            });
        }
        // The stub is cold, but what counts is where the jump is.
        if let Some(exit) = self.exits.last_mut() {
            exit.cold = cold;
        }
    }

    /// Leaves behind the current instruction if the condition holds, in the cold part.
    pub(super) fn exit_if(&mut self, cc: Cc, target: Target) {
        let jump = self.jcc(cc);
        let give_back = self.rest() - 1;
        self.aside(&[jump], |g| {
            g.surface();
            if g.leaving {
                g.exit(ExitKind::Dispatch, give_back, Some(target.0));
                return Ends::Here;
            }
            g.a().alu_imm(true, Alu::Add, R15.into(), give_back as i32);
            g.go(target);
            Ends::Here
        });
    }

    fn go(&mut self, target: Target) {
        if self.leaving {
            self.exit(ExitKind::Dispatch, 0, Some(target.0));
        } else if target.same_page() {
            let jump = self.jmp();
            self.link(jump, target);
        } else {
            self.page_address(RAX, target.0);
            self.go_indirect(RAX);
        }
    }

    fn go_if(&mut self, cc: Cc, target: Target) {
        let jump = self.jcc(cc);
        if !self.leaving && target.same_page() {
            self.link(jump, target);
        } else {
            self.aside(&[jump], |g| {
                g.go(target);
                Ends::Here
            });
        }
    }

    fn store_pc(&mut self, r: Reg) {
        let pc = words::word(usize::from(self.layout.pc.0));
        self.a().store(true, pc, r);
    }

    /// Makes code, in the parts, that goes to an offset from the page by way of the jump cache.
    pub fn detour(&mut self, target: Target, thunks: &Thunks) {
        self.thunks = *thunks;
        self.restart();
        self.page_address(RAX, target.0);
        self.go_indirect(RAX);
    }

    /// Goes on at the address in `r`, by way of the jump cache. No value is needed any more.
    fn go_indirect(&mut self, r: Reg) {
        let mut temps = TEMPS.into_iter().filter(|t| *t != r);
        let (t, u) = (temps.next().unwrap_or(RCX), temps.next().unwrap_or(RDX));
        let align = self.layout.pc_align;
        // Entries are 16 bytes; a scale of 8 does the rest of the way.
        let mask = (JUMP_ENTRIES as i32 - 1) << align;
        self.a().rorx(true, t, r.into(), JUMP_FOLD);
        self.a().alu(false, Alu::Xor, t, r.into());
        self.a().alu_imm(false, Alu::And, t.into(), mask);
        self.a().load(true, u, words::word(JUMPS));
        let entry = match align {
            0 => {
                self.a().alu(false, Alu::Add, t, t.into());
                Mem::indexed(u, t, 3, 0)
            }
            a => Mem::indexed(u, t, 4 - a.min(4), 0),
        };
        self.a().alu(true, Alu::Cmp, r, entry.into());
        let miss = self.jcc(Cc::Ne);
        self.aside(&[miss], |g| {
            g.store_pc(r);
            g.exit(ExitKind::Next, 0, None);
            Ends::Here
        });
        let base = temps.next().filter(|_| !TEMPS.contains(&r)).unwrap_or(r);
        self.a().mov(true, base, r);
        self.a().alu_imm(true, Alu::And, base.into(), -4096);
        let page = words::word(usize::from(self.layout.page.0));
        self.a().store(true, page, base);
        self.a().jmp_mem(Mem { disp: 8, ..entry });
    }
}
