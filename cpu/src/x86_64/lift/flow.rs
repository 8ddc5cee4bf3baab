//! Near control flow (SDM 2A "CALL", "Jcc", "JMP"; 2B "LOOP", "RET").
//!
//! A direct target is an offset from the page where addresses can't wrap: in 64-bit mode, and in flat 32-bit code unless
//! it is far away or near the end of the address space. Elsewhere it is computed: IP is cut to its size, checked
//! against the limit of CS, and added to its base.

use super::Lifter;
use super::cc::Test;
use super::operand::{CS, Place, Use, operand_size};
use super::stack::stack_operand;
use crate::ir::{Bin, Cond, Op, Size, Target, Terminal, Val, Width};
use crate::x86_64::mode::Mode;
use crate::x86_64::slots::{PC, RCX, base, limit};
use crate::x86_64::trap;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};

/// Targets this near are direct where addresses could wrap (`Mode::EDGE`).
const NEAR: i64 = 1 << 20;

/// Where control goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// An offset from the page.
    Page(i32),
    /// A linear address.
    Linear(Val),
}

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Jmp if is_near(i) => {
            let goal = goal(l, i, None);
            l.go(goal);
        }
        Mnemonic::Call if is_near(i) => call(l, i),
        Mnemonic::Ret => ret(l, i),
        Mnemonic::Loop => count_down(l, i, None),
        Mnemonic::Loope => count_down(l, i, Some(true)),
        Mnemonic::Loopne => count_down(l, i, Some(false)),
        Mnemonic::Jcxz => if_count_zero(l, i, Size::B2),
        Mnemonic::Jecxz => if_count_zero(l, i, Size::B4),
        Mnemonic::Jrcxz => if_count_zero(l, i, Size::B8),
        _ if i.is_jcc_short_or_near() => {
            let test = l.test(i.condition_code() as u8 - 1);
            branch(l, i, test);
        }
        _ => return false,
    }
    true
}

/// Direct and indirect near jumps and calls, not far ones.
fn is_near(i: &Instruction) -> bool {
    i.is_jmp_short_or_near() || i.is_jmp_near_indirect() || i.is_call_near() || i.is_call_near_indirect()
}

/// The linear address of instruction pointer `ip`, checked; only if `holds`, where that is given.
fn linear_target(l: &mut Lifter, ip: Val, holds: Option<Val>) -> Val {
    if l.is(Mode::LONG) {
        // Canonical: bits 48 to 63 are copies of bit 47.
        let v = l.shl(ip, 16);
        let v = l.bin_constant(Bin::Sar, Width::W64, v, 16);
        let wrong = l.cmp(Cond::Ne, Width::W64, v, ip);
        l.trap_if(wrong, trap::cause_with(trap::GP, 0));
        return ip;
    }
    if l.is(Mode::FLAT_CS) {
        return l.zx(Size::B4, ip);
    }
    let ip = l.zx(Size::B4, ip);
    let end = l.get(limit(CS));
    let wrong = l.cmp(Cond::LtU, Width::W64, end, ip);
    let wrong = match holds {
        Some(holds) => l.bin(Bin::And, Width::W64, wrong, holds),
        None => wrong,
    };
    l.trap_if(wrong, trap::cause_with(trap::GP, 0));
    let start = l.get(base(CS));
    l.bin(Bin::Add, Width::W32, start, ip)
}

/// Where a jump or call goes; `holds` says whether it does.
fn goal(l: &mut Lifter, i: &Instruction, holds: Option<Val>) -> Goal {
    let next = i64::from(l.next());
    // The decoder's addresses are offsets from the page.
    let (displacement, size) = match i.op_kind(0) {
        OpKind::NearBranch64 => (i.near_branch64().wrapping_sub(next as u64) as i64, Size::B8),
        OpKind::NearBranch32 => (
            i64::from(i.near_branch32().wrapping_sub(next as u32) as i32),
            Size::B4,
        ),
        OpKind::NearBranch16 => (
            i64::from(i.near_branch16().wrapping_sub(next as u16) as i16),
            Size::B2,
        ),
        _ => {
            let size = operand_size(i, 0);
            let v = l.read(i, 0, size);
            let v = l.zx(size, v);
            return Goal::Linear(linear_target(l, v, holds));
        }
    };
    let target = next + displacement;
    let direct = match size {
        Size::B8 => true,
        Size::B4 => l.is(Mode::FLAT_CS) && !l.is(Mode::EDGE) && target.abs() < NEAR,
        Size::B1 | Size::B2 => false,
    };
    match i32::try_from(target) {
        Ok(target) if direct => Goal::Page(target),
        _ if size == Size::B8 => Goal::Linear(l.page(target)),
        _ => {
            let ip = l.next_ip();
            let ip = l.bin_constant(Bin::Add, Width::W32, ip, displacement as u32 as u64);
            let ip = l.zx(size, ip);
            Goal::Linear(linear_target(l, ip, holds))
        }
    }
}

fn call(l: &mut Lifter, i: &Instruction) {
    let size = stack_operand(i);
    let goal = goal(l, i, None);
    let ip = l.next_ip();
    l.push(size, ip);
    l.go(goal);
}

fn ret(l: &mut Lifter, i: &Instruction) {
    let size = match i.code() {
        // An operand-size prefix means nothing to near branches in 64-bit mode.
        _ if l.is(Mode::LONG) => Size::B8,
        Code::Retnw | Code::Retnw_imm16 => Size::B2,
        _ => Size::B4,
    };
    let ip = l.top(size);
    let target = linear_target(l, ip, None);
    let more = if i.op_count() == 1 { i.immediate16() } else { 0 };
    l.release(size, more);
    l.go(Goal::Linear(target));
}

/// The counter's size is that of addresses.
fn count_down(l: &mut Lifter, i: &Instruction, zero: Option<bool>) {
    let size = match i.code() {
        Code::Loop_rel8_16_CX
        | Code::Loop_rel8_32_CX
        | Code::Loope_rel8_16_CX
        | Code::Loope_rel8_32_CX
        | Code::Loopne_rel8_16_CX
        | Code::Loopne_rel8_32_CX => Size::B2,
        Code::Loop_rel8_16_ECX
        | Code::Loop_rel8_32_ECX
        | Code::Loop_rel8_64_ECX
        | Code::Loope_rel8_16_ECX
        | Code::Loope_rel8_32_ECX
        | Code::Loope_rel8_64_ECX
        | Code::Loopne_rel8_16_ECX
        | Code::Loopne_rel8_32_ECX
        | Code::Loopne_rel8_64_ECX => Size::B4,
        _ => Size::B8,
    };
    let old = l.get(RCX);
    let count = l.add(old, -1);
    let count = l.zx(size, count);
    let test = match zero {
        None => Test::Cmp(Cond::Ne, Width::W64, count, l.constant(0)),
        Some(wanted) => {
            let zero = l.zero();
            let flag = if wanted { zero } else { l.not_bit(zero) };
            let some = l.cmp_constant(Cond::Ne, Width::W64, count, 0);
            let both = l.bin(Bin::And, Width::W64, flag, some);
            Test::Cmp(Cond::Ne, Width::W64, both, l.constant(0))
        }
    };
    let (taken, test) = prepared(l, i, test);
    l.set_low(RCX, size, count);
    finish_branch(l, taken, test);
}

fn if_count_zero(l: &mut Lifter, i: &Instruction, size: Size) {
    let count = l.get(RCX);
    let count = l.zx(size, count);
    let test = Test::Cmp(Cond::Eq, Width::W64, count, l.constant(0));
    branch(l, i, test);
}

fn branch(l: &mut Lifter, i: &Instruction, test: Test) {
    let (taken, test) = prepared(l, i, test);
    finish_branch(l, taken, test);
}

/// The target, whose checks may trap if the condition holds.
fn prepared(l: &mut Lifter, i: &Instruction, test: Test) -> (Goal, Test) {
    if l.is(Mode::LONG) || l.is(Mode::FLAT_CS) {
        return (goal(l, i, None), test);
    }
    let (holds, test) = match test {
        Test::Const(holds) => (l.constant(holds.into()), test),
        Test::Cmp(cond, w, a, b) => {
            let v = l.cmp(cond, w, a, b);
            (v, Test::Cmp(Cond::Ne, Width::W32, v, l.constant(0)))
        }
    };
    (goal(l, i, Some(holds)), test)
}

fn finish_branch(l: &mut Lifter, taken: Goal, test: Test) {
    let next = l.next();
    let (cond, width, a, b) = match test {
        Test::Const(true) => return l.go(taken),
        Test::Const(false) => return l.go(Goal::Page(next)),
        Test::Cmp(cond, width, a, b) => (cond, width, a, b),
    };
    match taken {
        Goal::Page(taken) if !l.is_single() => l.end(Terminal::Branch {
            cond,
            width,
            a,
            b,
            taken: Target(taken),
            fall: Target(next),
        }),
        _ => {
            let holds = l.cmp(cond, width, a, b);
            let taken = l.address(taken);
            let fall = l.address(Goal::Page(next));
            let v = l.select(holds, taken, fall);
            l.go(Goal::Linear(v));
        }
    }
}

impl Lifter {
    /// The instruction pointer after this instruction.
    pub fn next_ip(&mut self) -> Val {
        let next = self.page(self.next().into());
        self.ip_of(next)
    }

    /// The instruction pointer of a linear address.
    pub fn ip_of(&mut self, linear: Val) -> Val {
        if self.is(Mode::LONG) {
            return linear;
        }
        if self.is(Mode::FLAT_CS) {
            return self.zx(Size::B4, linear);
        }
        let start = self.get(base(CS));
        self.bin(Bin::Sub, Width::W32, linear, start)
    }

    fn address(&mut self, goal: Goal) -> Val {
        match goal {
            Goal::Page(offset) => self.page(offset.into()),
            Goal::Linear(v) => v,
        }
    }

    /// Ends the block, going on there.
    pub fn go(&mut self, goal: Goal) {
        let terminal = match (goal, self.is_single()) {
            (Goal::Page(offset), false) => Terminal::Jump(Target(offset)),
            (Goal::Page(offset), true) => Terminal::Dispatch(Target(offset)),
            (Goal::Linear(v), false) => Terminal::Indirect(v),
            (Goal::Linear(v), true) => {
                self.op(Op::Set(PC, v));
                Terminal::Left
            }
        };
        self.end(terminal);
    }

    /// How control goes on from the end of the block to the instruction at an offset from the page.
    pub fn fall_through(&mut self, offset: i32) -> Terminal {
        if self.must_dispatch() {
            return Terminal::Dispatch(Target(offset));
        }
        if offset >= 4096 && !self.is(Mode::LONG) && self.is(Mode::EDGE) {
            // The address space may end here.
            let v = self.page(offset.into());
            return Terminal::Indirect(self.zx(Size::B4, v));
        }
        Terminal::Jump(Target(offset))
    }

    /// Outside of flat code: #GP(0) if the instruction's bytes aren't all within the limit of CS.
    pub fn check_fetch(&mut self) {
        if self.is(Mode::LONG) || self.is(Mode::FLAT_CS) {
            return;
        }
        let last = self.page(i64::from(self.next()) - 1);
        let last = self.ip_of(last);
        let end = self.get(limit(CS));
        let beyond = self.cmp(Cond::LtU, Width::W64, end, last);
        self.trap_if(beyond, trap::cause_with(trap::GP, 0));
    }

    /// A stored value that a far pointer begins with, and the selector behind it.
    pub fn far_pointer(&mut self, i: &Instruction, size: Size) -> (Val, Val) {
        let at = self.effective(i);
        let (addr, offset) = self.linear(at, size.bytes() + 2, false);
        let low = self.at((addr, offset), size, Use::Read);
        let low = self.load(low, false);
        let high = self.add(addr, i64::from(offset) + size.bytes() as i64);
        let high = Place::Mem {
            addr: high,
            offset: 0,
            size: Size::B2,
        };
        (low, self.load(high, false))
    }
}
