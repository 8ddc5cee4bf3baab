//! From a block's ops to host code: one pass forward, an op at a time.
//!
//! Code grows in two parts: hot, what is run as a rule, and cold, which is placed behind it. A slow path is
//! written right when its op is, into the cold part, with the allocation as it stands there; so it can go
//! on with "the rest of the instruction, then leave" ([`cpu::Outcome::Leave`]) by translating those ops a
//! second time.

mod alloc;
mod end;
mod float;
mod integer;
mod memory;
mod vector;

use cpu::Layout;
use cpu::ir::{Bin, Block, Class, Op, Slot, Terminal, Val, Width};

use crate::asm::{Alu, Asm, Cc, R15, Reg, Rm};
use crate::gen_regs::HOMES;
use crate::jit::{ExitKind, ExitRecord};
use crate::passes::{self, Boundary, May, Passes, Sunk, Uses};
use crate::plan::{NONE, Plan};
use crate::run::{Desc, Kind};
use crate::thunks::{Access, EXIT_DISPATCH, EXIT_NEXT, Thunks};

use alloc::{Alloc, Known};

/// What a translation starts from.
pub struct Input<'a> {
    pub block: &'a Block,
    pub breakpoints: &'a [u16],
    pub passes: Passes,
    pub thunks: &'a Thunks,
    /// Number of the first exit that the block makes.
    pub first_exit: u32,
    /// Address of 8-byte words for guesses, in reach of the code, if it is to make some.
    pub guesses: Option<u64>,
    /// Address of a counter of how often the block is still to run before it asks to be made anew.
    pub counter: Option<u64>,
}

/// An exit that the block makes. A link's address is its position in its part until it is placed.
#[derive(Clone, Copy)]
pub struct Exit {
    pub record: ExitRecord,
    /// Whether a link's jump is in the cold part.
    pub cold: bool,
}

/// A part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Hot = 0,
    Cold = 1,
}

/// Where a jump goes.
#[derive(Clone, Copy, Debug)]
enum Label {
    At(Part, usize),
    Address(u64),
}

/// A displacement that is yet to be filled in.
#[derive(Clone, Copy, Debug)]
struct Jump {
    part: Part,
    at: usize,
}

/// The generator; it keeps its memory from block to block.
pub struct Generator {
    layout: &'static Layout,
    /// Per slot: its home.
    home_of: Vec<u8>,
    pub hot: Asm,
    pub cold: Asm,
    pub exits: Vec<Exit>,
    part: Part,
    fixes: Vec<(Jump, Label)>,
    ops: Vec<Op>,
    uses: Uses,
    plan: Plan,
    names: Vec<Val>,
    held: Vec<passes::Held>,
    boundary: Vec<Boundary>,
    /// Sets that are left to exits, by op.
    sunk: Vec<Sunk>,
    /// Per value, host addresses of groups behind those of ops: 1 + index of the last op that uses it.
    last: Vec<u16>,
    alloc: Alloc,
    /// Memory for copies of it.
    spare: Vec<Alloc>,
    thunks: Thunks,
    first_exit: u32,
    guesses: Option<u64>,
    /// Guesses made.
    pub guessed: usize,
    steps: u32,
    /// The terminal, its operands renamed.
    end: Terminal,
    /// The instruction and the op being translated.
    insn: usize,
    at: usize,
    /// Whether the instruction is being finished on the way out.
    leaving: bool,
}

impl Generator {
    pub fn new(layout: &'static Layout) -> Generator {
        let mut home_of = vec![NONE; cpu::SLOTS];
        for (i, slot) in layout.hot.iter().take(HOMES.len()).enumerate() {
            home_of[usize::from(slot.0)] = i as u8;
        }
        Generator {
            layout,
            home_of,
            hot: Asm::default(),
            cold: Asm::default(),
            exits: Vec::new(),
            part: Part::Hot,
            fixes: Vec::new(),
            ops: Vec::new(),
            uses: Uses::default(),
            plan: Plan::default(),
            names: Vec::new(),
            held: Vec::new(),
            boundary: Vec::new(),
            sunk: Vec::new(),
            last: Vec::new(),
            alloc: Alloc::default(),
            spare: Vec::new(),
            thunks: Thunks::default(),
            first_exit: 0,
            guesses: None,
            guessed: 0,
            steps: 0,
            end: Terminal::Left,
            insn: 0,
            at: 0,
            leaving: false,
        }
    }

    /// Translates a block. The code is in `hot` and `cold`, to be placed by [`Generator::place_at`].
    pub fn generate(&mut self, input: Input) -> &mut Generator {
        let mut insns = input.block.insns.len();
        // More values alive than there is room for: a block of half the length then; one instruction
        // always fits.
        while !self.attempt(&input, insns) && insns > 1 {
            insns /= 2;
        }
        self
    }

    /// Translates the first `insns` instructions.
    fn attempt(&mut self, input: &Input, insns: usize) -> bool {
        let shortened;
        let block = if insns == input.block.insns.len() {
            input.block
        } else {
            shortened = prefix(input.block, insns);
            &shortened
        };
        self.thunks = *input.thunks;
        self.first_exit = input.first_exit;
        self.guesses = input.guesses;
        self.guessed = 0;
        self.restart();
        self.steps = insns as u32;
        self.prepare(block, input);
        self.alloc.reset(self.last.len());
        if let Some(counter) = input.counter {
            self.count_down(block, counter);
        }
        self.begin(block);
        for i in 0..insns {
            self.insn = i;
            self.at = block.ops_of(i).start.min(self.ops.len());
            if input.breakpoints.contains(&block.insns[i].offset) {
                self.breakpoint(block);
            }
            for at in block.ops_of(i) {
                if at < self.ops.len() {
                    self.op(block, at);
                }
            }
        }
        self.at = self.ops.len();
        self.terminal(block);
        !self.alloc.overflow
    }

    /// Forgets the code of the last block.
    fn restart(&mut self) {
        self.hot.buf.clear();
        self.cold.buf.clear();
        self.exits.clear();
        self.fixes.clear();
        self.part = Part::Hot;
        self.leaving = false;
    }

    /// The block that code is made from: its ops after the passes.
    pub fn optimised(&mut self, input: Input) -> Block {
        self.prepare(input.block, &input);
        Block {
            ops: self.ops.clone(),
            terminal: self.end,
            ..input.block.clone()
        }
    }

    /// Copies the ops, runs the passes over them and makes the plan.
    fn prepare(&mut self, block: &Block, input: &Input) {
        self.end = block.terminal;
        let trap = matches!(self.end, Terminal::Trap { .. });
        // The instruction of a constant trap does nothing else.
        let len = if trap {
            block.ops_of(block.insns.len() - 1).start
        } else {
            block.ops.len()
        };
        self.ops.clear();
        self.ops.extend_from_slice(&block.ops[..len]);
        let mut operands = match self.end {
            Terminal::Branch { a, b, .. } => [Some(a), Some(b)],
            Terminal::Indirect(v) | Terminal::Ask(v, _) => [Some(v), None],
            Terminal::Jump(_) | Terminal::Dispatch(_) | Terminal::Left | Terminal::Trap { .. } => {
                [None, None]
            }
        };
        if input.passes.has(Passes::FORWARD) {
            passes::forward(&mut self.ops, &mut operands, &mut self.names, &mut self.held);
        }
        if input.passes.has(Passes::FOLD) {
            passes::fold(&mut self.ops, &mut operands, &mut self.names);
        }
        match (&mut self.end, operands) {
            (Terminal::Branch { a, b, .. }, [Some(x), Some(y)]) => (*a, *b) = (x, y),
            (Terminal::Indirect(v) | Terminal::Ask(v, _), [Some(x), _]) => *v = x,
            _ => {}
        }
        // The block can be left before an instruction with a breakpoint, and after one that can trap.
        self.boundary.clear();
        self.boundary.resize(len + 1, Boundary::No);
        for (i, insn) in block.insns.iter().enumerate() {
            if input.breakpoints.contains(&insn.offset) {
                self.boundary[usize::from(insn.first_op).min(len)] = Boundary::Whole;
            }
            let ops = block.ops_of(i);
            let behind = &mut self.boundary[ops.end.min(len)];
            if ops.clone().any(|at| block.ops[at].can_trap()) && *behind == Boundary::No {
                *behind = Boundary::Leaving;
            }
        }
        let may = May {
            remove: input.passes.has(Passes::DEAD),
            sink: input.passes.has(Passes::SINK).then_some(&self.home_of[..]),
        };
        let (uses, sunk) = (&mut self.uses, &mut self.sunk);
        passes::dead(&mut self.ops, operands, may, &self.boundary, uses, sunk);
        self.plan.clear(self.ops.len());
        if input.passes.has(Passes::HOMES) {
            self.plan.hint(block, &self.ops, &self.uses, &self.home_of);
        }
        if input.passes.has(Passes::SHARE) {
            self.plan.share(&self.ops);
        }
        self.last.clear();
        self.last.extend_from_slice(&self.uses.last);
        self.last.extend(self.plan.groups.iter().map(|g| g.last + 1));
        for at in 1..self.ops.len() {
            if let Some((v, _)) = self.bits_tested(at) {
                let last = &mut self.last[usize::from(v)];
                *last = (*last).max(at as u16 + 1);
            }
            if let Some((_, v, _)) = self.scaled(at) {
                let last = &mut self.last[usize::from(v)];
                *last = (*last).max(at as u16 + 1);
            }
        }
    }

    /// The part being written.
    fn a(&mut self) -> &mut Asm {
        match self.part {
            Part::Hot => &mut self.hot,
            Part::Cold => &mut self.cold,
        }
    }

    fn here(&self) -> Label {
        match self.part {
            Part::Hot => Label::At(Part::Hot, self.hot.pos()),
            Part::Cold => Label::At(Part::Cold, self.cold.pos()),
        }
    }

    fn jcc(&mut self, cc: Cc) -> Jump {
        let at = self.a().jcc(cc);
        Jump { part: self.part, at }
    }

    fn jmp(&mut self) -> Jump {
        let at = self.a().jmp();
        Jump { part: self.part, at }
    }

    fn call(&mut self, address: u64) {
        let at = self.a().call();
        self.fixes
            .push((Jump { part: self.part, at }, Label::Address(address)));
    }

    fn bind(&mut self, jump: Jump, label: Label) {
        self.fixes.push((jump, label));
    }

    fn bind_here(&mut self, jump: Jump) {
        let here = self.here();
        self.bind(jump, here);
    }

    /// Writes code out of the way, to which `jumps` go, and which goes on here unless `f` says that it ends
    /// by itself.
    fn aside(&mut self, jumps: &[Jump], f: impl FnOnce(&mut Generator) -> Ends) {
        let resume = self.here();
        match self.part {
            Part::Hot => {
                self.part = Part::Cold;
                for jump in jumps {
                    self.bind_here(*jump);
                }
                match f(self) {
                    Ends::Here => {}
                    Ends::GoesOn => {
                        let back = self.jmp();
                        self.bind(back, resume);
                    }
                    Ends::Jumps(back) => self.bind(back, resume),
                }
                self.part = Part::Hot;
            }
            Part::Cold => {
                let over = self.jmp();
                for jump in jumps {
                    self.bind_here(*jump);
                }
                if let Ends::Jumps(back) = f(self) {
                    self.bind_here(back);
                }
                self.bind_here(over);
            }
        }
    }

    /// Fills in all displacements, for the hot part at `entry` and the cold one `cold` bytes behind.
    pub fn place_at(&mut self, entry: u64, cold: usize) {
        let base = |part: Part| match part {
            Part::Hot => entry,
            Part::Cold => entry + cold as u64,
        };
        for (jump, label) in self.fixes.drain(..) {
            let from = base(jump.part) + jump.at as u64;
            let to = match label {
                Label::At(part, at) => base(part) + at as u64,
                Label::Address(address) => address,
            };
            let displacement = to.wrapping_sub(from + 4) as i32;
            match jump.part {
                Part::Hot => self.hot.patch32(jump.at, displacement),
                Part::Cold => self.cold.patch32(jump.at, displacement),
            }
        }
    }

    /// Registers an exit, and yields its number.
    fn exit_number(&mut self, kind: ExitKind, give_back: u32, target: Option<i32>) -> u32 {
        self.exits.push(Exit {
            record: ExitRecord {
                kind,
                give_back,
                target,
            },
            cold: self.part == Part::Cold,
        });
        self.first_exit + self.exits.len() as u32 - 1
    }

    /// Leaves for good, here.
    fn exit(&mut self, kind: ExitKind, give_back: u32, target: Option<i32>) {
        let number = match (kind, give_back, target) {
            (ExitKind::Next, 0, None) => EXIT_NEXT,
            (ExitKind::Dispatch, 0, None) => EXIT_DISPATCH,
            _ => self.exit_number(kind, give_back, target),
        };
        self.a().mov_imm(crate::asm::RAX, u64::from(number));
        let jump = self.jmp();
        self.bind(jump, Label::Address(self.thunks.exit));
    }

    /// Steps that r15 lacks at the current instruction: what was taken at the block's entry and isn't done.
    fn rest(&self) -> u32 {
        self.steps - self.insn as u32
    }

    fn desc(&self, block: &Block, kind: Kind, size: cpu::ir::Size) -> Desc {
        Desc::new(block.insns[self.insn].offset, self.rest(), kind, size)
    }

    /// If op `at` is a trap for which the one before it does nothing but choose bits of a value: that value and the bits. The
    /// two are one host instruction.
    fn bits_tested(&self, at: usize) -> Option<(u16, u8)> {
        let Op::TrapIf { cond, .. } = *self.ops.get(at)? else {
            return None;
        };
        let Op::Bin(Bin::And, Width::W64, v, mask) = self.ops[usize::from(cond.0)] else {
            return None;
        };
        let Op::Const(mask) = self.ops[usize::from(mask.0)] else {
            return None;
        };
        let alone = usize::from(cond.0) + 1 == at && self.uses.count[at - 1] == 1;
        (alone && (1..0x100).contains(&mask)).then_some((v.0, mask as u8))
    }

    /// If op `at` is a sum to which the one before it does nothing but shift a value, by 1 to 3: the other operand, that value and
    /// the shift. The two are one host instruction.
    fn scaled(&self, at: usize) -> Option<(u16, u16, u8)> {
        let Op::Bin(Bin::Add, Width::W64, a, b) = *self.ops.get(at)? else {
            return None;
        };
        let shifted = at.checked_sub(1)? as u16;
        let other = match (a.0 == shifted, b.0 == shifted) {
            (true, false) => b.0,
            (false, true) => a.0,
            _ => return None,
        };
        let Op::Bin(Bin::Shl, Width::W64, v, count) = self.ops[usize::from(shifted)] else {
            return None;
        };
        let Op::Const(count @ 1..=3) = self.ops[usize::from(count.0)] else {
            return None;
        };
        let constant = |v: u16| matches!(self.ops[usize::from(v)], Op::Const(_) | Op::Page(_));
        let alone = self.uses.count[usize::from(shifted)] == 1 && self.uses.count[at] > 0;
        (alone && !constant(other) && !constant(v.0)).then_some((other, v.0, count as u8))
    }

    /// Whether a value is of class F.
    fn is_float(&self, v: u16) -> bool {
        self.ops
            .get(usize::from(v))
            .is_some_and(|op| op.class() == Some(Class::F))
    }

    /// Whether a value is of class V.
    fn is_vector(&self, v: u16) -> bool {
        self.ops
            .get(usize::from(v))
            .is_some_and(|op| op.class() == Some(Class::V))
    }

    /// Whether the set that is op `at` is left to exits.
    fn is_sunk(&self, at: usize) -> bool {
        self.sunk.binary_search_by(|s| usize::from(s.at).cmp(&at)).is_ok()
    }

    /// Whether only exits need the value of op `at`, and make it themselves.
    pub(crate) fn is_late(&self, at: usize) -> bool {
        self.uses.is_late(&self.ops, at)
    }

    /// In code that leaves, or may leave, before the op is done: the sets that were left to exits. Changes no register,
    /// but flags.
    fn surface(&mut self) {
        for i in 0..self.sunk.len() {
            let s = self.sunk[i];
            if usize::from(s.at) >= self.at {
                break;
            }
            if usize::from(s.until) > self.at {
                self.store_only(s.slot, s.value);
            }
        }
    }

    /// The address of a new word for a guess.
    fn new_guess(&mut self) -> Option<u64> {
        let guess = self.guesses?.wrapping_add(8 * self.guessed as u64);
        self.guessed += 1;
        Some(guess)
    }

    /// The instruction just written ends with the displacement of this address.
    fn rip_used(&mut self, address: u64) {
        let at = self.a().pos() - 4;
        let jump = Jump { part: self.part, at };
        self.bind(jump, Label::Address(address));
    }

    /// Asks to be made anew once the block has run often.
    fn count_down(&mut self, block: &Block, counter: u64) {
        self.hot.alu_imm(false, Alu::Sub, Rm::Rip, 1);
        // The displacement counts from the end of the instruction, behind the immediate byte.
        let at = self.hot.pos() - 5;
        let jump = Jump { part: Part::Hot, at };
        self.bind(jump, Label::Address(counter.wrapping_sub(1)));
        let often = self.jcc(Cc::S);
        self.aside(&[often], |g| {
            g.exit(ExitKind::Hot, 0, Some(block.insns[0].offset.into()));
            Ends::Here
        });
    }

    /// Takes the block's steps from the budget.
    fn begin(&mut self, block: &Block) {
        let steps = self.steps;
        self.hot.alu_imm(true, Alu::Sub, R15.into(), steps as i32);
        let tail = self.jcc(Cc::B);
        self.aside(&[tail], |g| {
            g.exit(ExitKind::Tail, steps, Some(block.insns[0].offset.into()));
            Ends::Here
        });
    }

    /// Asks whether to stop before the instruction.
    fn breakpoint(&mut self, block: &Block) {
        let desc = self.desc(block, Kind::Breakpoint, cpu::ir::Size::B1);
        let thunk = self.thunks.access[usize::from(self.vectors_alive())][Access::OTHER.0];
        for imm in [0, 0, desc.0 as i32] {
            self.a().push_imm(imm);
        }
        self.call(thunk);
        self.a().drop_top();
    }

    /// Translates op `at`.
    fn op(&mut self, block: &Block, at: usize) {
        self.at = at;
        let op = self.ops[at];
        if self.uses.count[at] == 0 && passes::is_pure(&op)
            || self.is_late(at)
            || self.bits_tested(at + 1).is_some()
            || self.scaled(at + 1).is_some() && !self.is_late(at + 1)
        {
            return;
        }
        match op {
            Op::Const(c) => self.define_known(Known::Const(c)),
            Op::Page(offset) => self.define_known(Known::Page(offset)),
            Op::Get(slot) => match self.home_of[usize::from(slot.0)] {
                NONE => self.alias_slot(slot.0),
                home => self.alias_home(home),
            },
            Op::GetF(slot) => match self.home_of[usize::from(slot.0)] {
                NONE => self.alias_slot(slot.0),
                home => {
                    let x = self.temp_xmm();
                    self.a().xmm_from_reg(true, x, HOMES[usize::from(home)]);
                    self.define_xmm(x);
                }
            },
            // No vector has a home.
            Op::GetV(slot) => self.alias_slot(slot.0),
            Op::SetV(slot, v) => self.set_vector(slot.0, v.0),
            Op::Set(slot, v) | Op::SetF(slot, v) => match self.home_of[usize::from(slot.0)] {
                // On the way out nothing is left to exits.
                NONE if self.is_sunk(at) => {
                    self.leave_slot(slot.0);
                    if self.leaving {
                        self.store_only(slot.0, v.0);
                    }
                }
                NONE => self.set_slot(slot.0, v.0),
                home => self.set_home(home, v.0),
            },
            Op::Un(un, v) => self.un(un, v.0),
            Op::Bin(bin, width, a, b) => self.bin(bin, width, a.0, b.0),
            Op::Cmp(cond, width, a, b) => self.cmp(cond, width, a.0, b.0),
            Op::Select(c, a, b) => self.select(c.0, a.0, b.0),
            Op::Load { .. }
            | Op::Store { .. }
            | Op::LoadF { .. }
            | Op::StoreF { .. }
            | Op::LoadV { .. }
            | Op::StoreV { .. }
            | Op::Rmw { .. }
            | Op::Check { .. }
            | Op::Call { .. } => self.access(block, op),
            Op::TrapIf { cond, cause, value } => self.trap_if(block, cond.0, cause, value),
            Op::ExitIf {
                cond,
                width,
                a,
                b,
                target,
            } => {
                let cc = self.compare_values(cond, width == Width::W64, a.0, b.0);
                self.exit_if(cc, target);
            }
            Op::Pure { function, args } => self.pure(function, args),
            Op::PureUnless {
                known,
                value,
                function,
                args,
            } => self.pure_unless((known.0, value.0), function, args),
            Op::FromBits(_)
            | Op::ToBits(..)
            | Op::FBin(..)
            | Op::FUn(..)
            | Op::FFma { .. }
            | Op::FCmp(..)
            | Op::FOrder(..)
            | Op::FJoin32(..)
            | Op::FClass(..)
            | Op::FToInt(..)
            | Op::GetFlags
            | Op::SetFlags(_)
            | Op::FFromInt(..) => self.float(op),
            Op::VPair(..)
            | Op::VToF(_)
            | Op::VFromF(_)
            | Op::VBin(..)
            | Op::VUn(..)
            | Op::VImm(..)
            | Op::VImm2(..)
            | Op::VSelect(..)
            | Op::VInsert(..)
            | Op::VExtract(..)
            | Op::VMask(..)
            | Op::VIsZero(_)
            | Op::VFBin(..)
            | Op::VFSqrt(..)
            | Op::VFCmp(..)
            | Op::VConvert(..) => self.vector(op),
        }
        self.end_op();
    }

    /// In the cold part, after an op that is done but wants the block to be left: the rest of the
    /// instruction, and out. `done` defines the op's result, which is in register `result` if it is a
    /// general one. The allocation is as before the op's result was defined, and is restored.
    fn leave_after(&mut self, block: &Block, result: Option<Reg>, done: &dyn Fn(&mut Generator)) {
        let (at, last) = (self.at, self.insn + 1 == block.insns.len());
        let rest = block.ops_of(self.insn).end;
        let is_home = |slot: Slot| {
            let home = self.home_of[usize::from(slot.0)];
            home != NONE && result == Some(HOMES[usize::from(home)])
        };
        let nothing_left = self.ops[at + 1..rest].iter().all(|op| match op {
            Op::Const(_) | Op::Page(_) => true,
            Op::Set(slot, v) => usize::from(v.0) == at && is_home(*slot),
            _ => false,
        });
        if !last && nothing_left {
            return self.exit_after(block);
        }
        let mut saved = self.spare.pop().unwrap_or_default();
        saved.clone_from(&self.alloc);
        done(self);
        self.end_op();
        let was = std::mem::replace(&mut self.leaving, true);
        for op in at + 1..rest {
            self.op(block, op);
        }
        if last {
            self.at = self.ops.len();
            self.terminal(block);
        } else {
            self.exit_after(block);
        }
        self.leaving = was;
        self.at = at;
        saved.overflow |= self.alloc.overflow;
        std::mem::swap(&mut self.alloc, &mut saved);
        self.spare.push(saved);
    }

    /// Leaves with the pc after the instruction, which is done and isn't the last.
    fn exit_after(&mut self, block: &Block) {
        let next = block.insns[self.insn + 1].offset.into();
        self.exit(ExitKind::Dispatch, self.rest() - 1, Some(next));
    }
}

/// A few jumps.
#[derive(Clone, Copy, Debug)]
struct Jumps {
    jumps: [Jump; 4],
    len: usize,
}

impl Jumps {
    fn new() -> Jumps {
        Jumps {
            jumps: [Jump {
                part: Part::Hot,
                at: 0,
            }; 4],
            len: 0,
        }
    }

    fn push(&mut self, jump: Jump) {
        self.jumps[self.len] = jump;
        self.len += 1;
    }
}

impl std::ops::Deref for Jumps {
    type Target = [Jump];
    fn deref(&self) -> &[Jump] {
        &self.jumps[..self.len]
    }
}

/// How code that stands aside ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// By an exit.
    Here,
    /// It goes on where it left.
    GoesOn,
    /// It ends by an exit, and this jump of it goes on where it left.
    Jumps(Jump),
}

/// The first `insns` instructions of a block as a block of its own.
fn prefix(block: &Block, insns: usize) -> Block {
    let next = block.insns[insns];
    Block {
        insns: block.insns[..insns].to_vec(),
        ops: block.ops[..usize::from(next.first_op)].to_vec(),
        terminal: Terminal::Jump(cpu::ir::Target(next.offset.into())),
        straddles: false,
    }
}

/// The operand of a comparison that is a constant goes second.
fn swap_constant(g: &Generator, a: u16, b: u16) -> bool {
    g.constant(a).is_some() && g.constant(b).is_none()
}
