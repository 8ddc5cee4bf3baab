//! Accesses to guest memory, and helpers.
//!
//! ```text
//!   probe    lea  t, [base + low]                index of the first byte's page
//!            shr  t, 7; and t, mask              (entries are 32 bytes)
//!            lea  u, [base + high - 1]
//!            or   u, 0xfff                       tag of the last byte's page
//!            cmp  u, [r14 + t + read or write]
//!            jne  cold
//!            mov  t, [r14 + t + addend]
//!   access   mov  dst, [t + base + offset]
//! ```
//!
//! In a path the addend of a read is guessed to be the one that the place found last, and compared with the entry's: so the
//! data's address doesn't wait for the entry.
//!
//! The first access of a group probes for the range of all; its `t` is the group's host address, which
//! later accesses use after `test t, t; jz cold`. It becomes 0 when the range doesn't lie on one page or
//! isn't in the TLB, and after every slow path of the block. Then each access goes to the slow path, whose
//! thunk probes for the access alone before it asks Rust.

use cpu::ir::{Block, Op, Rmw, Size, Val};

use super::alloc::Operand;
use super::{Ends, Generator, Jumps};
use crate::asm::{Alu, Cc, Mem, R14, RSP, Reg, Xmm};
use crate::plan::{Group, NONE, bytes_of};
use crate::run::{Desc, Kind, Position};
use crate::thunks::Access;
use crate::tlb::TLB_BITS;
use crate::words;

/// Fields of [`crate::tlb::Entry`].
const READ: i32 = 0;
const WRITE: i32 = 8;
const ADDEND: i32 = 16;
/// log2 of its size.
const ENTRY_BITS: u32 = 5;

/// What is moved.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Into a general register, extended.
    Load(Size, bool, Reg),
    LoadF(u64, Xmm),
    Store(Size, Operand),
    StoreF(u64, Xmm),
    LoadV(Xmm),
    StoreV(Xmm),
    /// Nothing: that many bytes are checked, to be written or read.
    Check(u8, bool),
}

impl Data {
    fn is_write(&self) -> bool {
        matches!(
            self,
            Data::Store(..) | Data::StoreF(..) | Data::StoreV(_) | Data::Check(_, true)
        )
    }

    fn bytes(&self) -> u64 {
        match *self {
            Data::Load(size, ..) | Data::Store(size, _) => size.bytes(),
            Data::LoadF(bytes, _) | Data::StoreF(bytes, _) => bytes,
            Data::LoadV(_) | Data::StoreV(_) => 16,
            Data::Check(len, _) => len.into(),
        }
    }

    fn size(&self) -> Size {
        match self.bytes() {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        }
    }
}

impl Generator {
    pub(super) fn access(&mut self, block: &Block, op: Op) {
        match op {
            Op::Load {
                size,
                signed,
                addr,
                offset,
            } => {
                let base = self.reg(addr.0);
                self.load(block, base, addr.0, offset, |dst| Data::Load(size, signed, dst));
            }
            Op::LoadF { fmt, addr, offset } => {
                let base = self.reg(addr.0);
                let x = self.temp_xmm();
                self.transfer(block, base, offset, Data::LoadF(bytes_of(fmt), x), |g| {
                    g.define_xmm(x)
                });
            }
            Op::Store {
                size,
                addr,
                offset,
                value,
            } => {
                let base = self.reg(addr.0);
                let value = match self.constant(value.0) {
                    Some(c) if size != Size::B8 => Operand::Imm(size.sign_extend(c) as i32),
                    Some(c) if i32::try_from(c as i64).is_ok() => Operand::Imm(c as i32),
                    _ => Operand::Reg(self.reg(value.0)),
                };
                self.transfer(block, base, offset, Data::Store(size, value), |_| {});
            }
            Op::StoreF {
                fmt,
                addr,
                offset,
                value,
            } => {
                let base = self.reg(addr.0);
                let x = self.xmm(value.0);
                self.transfer(block, base, offset, Data::StoreF(bytes_of(fmt), x), |_| {});
            }
            Op::LoadV { addr, offset } => {
                let base = self.reg(addr.0);
                let x = self.temp_xmm();
                self.transfer(block, base, offset, Data::LoadV(x), |g| g.define_xmm(x));
            }
            Op::StoreV { addr, offset, value } => {
                let base = self.reg(addr.0);
                let x = self.xmm(value.0);
                self.transfer(block, base, offset, Data::StoreV(x), |_| {});
            }
            Op::Rmw {
                op,
                size,
                addr,
                value,
            } => self.rmw(block, op, size, addr, value),
            Op::Check {
                len,
                write,
                addr,
                offset,
            } => {
                let base = self.reg(addr.0);
                self.transfer(block, base, offset, Data::Check(len, write), |_| {});
            }
            Op::Call { helper, args } => self.helper(block, helper, args),
            _ => unreachable!("no access"),
        }
    }

    fn load(&mut self, block: &Block, base: Reg, addr: u16, offset: i32, data: impl Fn(Reg) -> Data) {
        // Not into the base's register if a slow path may need it again, unless that is the home itself.
        let grouped = self.plan.group[self.at] != NONE;
        let dst = if grouped {
            self.dest(&[])
        } else {
            self.dest(&[addr])
        };
        self.pin(dst);
        self.transfer(block, base, offset, data(dst), |g| g.define(dst));
    }

    /// Moves data between memory at `base + offset` and a register. `done` defines the result.
    fn transfer(&mut self, block: &Block, base: Reg, offset: i32, data: Data, done: impl Fn(&mut Generator)) {
        let group = self.plan.group[self.at];
        if group == NONE {
            let t = self.temp();
            let (low, high) = (i64::from(offset), i64::from(offset) + data.bytes() as i64);
            let miss = self.probe(base, low, high, t, data.is_write(), !data.is_write());
            self.move_data(data, Mem::indexed(t, base, 0, offset));
            self.unpin(t);
            self.aside(&miss, |g| g.slow(block, base, offset, data, &done));
            done(self);
            return;
        }
        let extra = (self.ops.len() + usize::from(group)) as u16;
        let shared = self.plan.groups[usize::from(group)];
        let (t, miss) = if usize::from(shared.first) == self.at {
            let t = self.temp();
            let miss = self.probe_group(base, shared, t);
            self.define_extra(extra, t);
            (t, miss)
        } else {
            let t = self.reg(extra);
            self.a().test(true, t, t);
            (t, self.single(Cc::E))
        };
        self.move_data(data, Mem::indexed(t, base, 0, offset));
        self.aside(&miss, |g| g.slow(block, base, offset, data, &done));
        done(self);
    }

    /// The probe for the range of a group.
    fn probe_group(&mut self, base: Reg, group: Group, t: Reg) -> Jumps {
        self.probe(base, group.low, group.high, t, group.writes, group.reads)
    }

    /// Leaves the addend in `t`; yields the jumps that are taken if the range isn't accessible so.
    fn probe(&mut self, base: Reg, low: i64, high: i64, t: Reg, write: bool, read: bool) -> Jumps {
        let u = self.temp();
        self.index(base, low as i32, t);
        // A group's span is small, so that this doesn't wrap where `low` didn't.
        self.a().lea(u, Mem::new(base, (high - 1) as i32));
        let jumps = self.compare(t, u, write);
        self.unpin(u);
        let addend = Mem::indexed(R14, t, 0, ADDEND);
        let guess = if read && !self.leaving {
            self.new_guess()
        } else {
            None
        };
        match guess {
            None => self.a().load(true, t, addend),
            Some(guess) => {
                self.a().load_rip(u);
                self.rip_used(guess);
                self.a().alu(true, Alu::Cmp, u, addend.into());
                let wrong = self.jcc(Cc::Ne);
                self.a().mov(true, t, u);
                self.aside(&[wrong], |g| {
                    g.a().load(true, t, addend);
                    g.a().store_rip(t);
                    g.rip_used(guess);
                    Ends::GoesOn
                });
            }
        }
        jumps
    }

    fn index(&mut self, base: Reg, low: i32, t: Reg) {
        let shift = 12 - ENTRY_BITS as u8;
        if low == 0 {
            self.a().rorx(true, t, base.into(), shift);
        } else {
            self.a().lea(t, Mem::new(base, low));
            self.a().shift_imm(true, 5, t, shift);
        }
        self.a()
            .alu_imm(false, Alu::And, t.into(), ((1 << TLB_BITS) - 1) << ENTRY_BITS);
    }

    fn single(&mut self, cc: Cc) -> Jumps {
        let mut jumps = Jumps::new();
        jumps.push(self.jcc(cc));
        jumps
    }

    fn compare(&mut self, t: Reg, u: Reg, write: bool) -> Jumps {
        self.a().alu_imm(true, Alu::Or, u.into(), 0xfff);
        let mut jumps = Jumps::new();
        // Whoever may write may read.
        let field = if write { WRITE } else { READ };
        self.a()
            .alu(true, Alu::Cmp, u, Mem::indexed(R14, t, 0, field).into());
        jumps.push(self.jcc(Cc::Ne));
        jumps
    }

    fn move_data(&mut self, data: Data, m: Mem) {
        match data {
            Data::Load(size, signed, dst) => self.a().extend_from(size.bytes(), signed, dst, m.into()),
            Data::LoadF(bytes, x) => self.a().fload(bytes == 8, x, m),
            Data::StoreF(bytes, x) => self.a().fstore(bytes == 8, m, x),
            Data::Store(size, Operand::Imm(imm)) => {
                self.a().store_imm(size.bytes(), m, imm as i64 as u64);
            }
            Data::Store(size, Operand::Reg(r)) => match size {
                Size::B1 => self.a().store8(m, r),
                Size::B2 => self.a().store16(m, r),
                Size::B4 => self.a().store(false, m, r),
                Size::B8 => self.a().store(true, m, r),
            },
            Data::LoadV(x) => self.a().vload(x, m),
            Data::StoreV(x) => self.a().vstore(m, x),
            Data::Check(..) => {}
            Data::Store(_, Operand::Mem(_)) => unreachable!("a stored value is in a register"),
        }
    }

    /// Has Rust do the access, in the cold part. Goes on if it is done; leaves if that is wanted.
    fn slow(
        &mut self,
        block: &Block,
        base: Reg,
        offset: i32,
        data: Data,
        done: &dyn Fn(&mut Generator),
    ) -> Ends {
        self.surface();
        self.a().push_reg(base);
        if offset != 0 {
            self.a().add_top(offset);
        }
        match data {
            Data::Load(..) | Data::LoadF(..) | Data::Check(..) => self.a().push_imm(0),
            Data::LoadV(_) => self.a().lea(RSP, Mem::new(RSP, -16)),
            Data::StoreV(x) => {
                self.a().lea(RSP, Mem::new(RSP, -16));
                self.a().vstore(Mem::new(RSP, 0), x);
            }
            Data::Store(_, value) => self.push_operand(value),
            Data::StoreF(bytes, x) => {
                self.a().lea(RSP, Mem::new(RSP, -8));
                self.a().fstore(bytes == 8, Mem::new(RSP, 0), x);
            }
        }
        let (kind, access) = match data {
            Data::Check(len, write) => (Kind::Check(len, write), Access::OTHER),
            Data::Store(..) | Data::StoreF(..) => (Kind::Store, Access::of(true, data.size())),
            Data::Load(..) | Data::LoadF(..) => (Kind::Load, Access::of(false, data.size())),
            Data::LoadV(_) => (Kind::LoadV, Access::LOAD_VECTOR),
            Data::StoreV(_) => (Kind::StoreV, Access::STORE_VECTOR),
        };
        let desc = self.desc(block, kind, data.size());
        self.thunk(desc, access);
        match data {
            Data::Load(_, false, dst) | Data::Load(Size::B8, _, dst) => self.a().pop_reg(dst),
            Data::Load(size, true, dst) => {
                self.a().pop_reg(dst);
                self.a().extend_from(size.bytes(), true, dst, dst.into());
            }
            Data::LoadF(_, x) => {
                self.a().fload(true, x, Mem::new(RSP, 0));
                self.a().drop_top();
            }
            Data::LoadV(x) => {
                self.a().vload(x, Mem::new(RSP, 0));
                self.a().lea(RSP, Mem::new(RSP, 24));
            }
            Data::StoreV(_) => self.a().lea(RSP, Mem::new(RSP, 24)),
            Data::Store(..) | Data::StoreF(..) | Data::Check(..) => self.a().drop_top(),
        }
        let result = match data {
            Data::Load(_, _, dst) => Some(dst),
            _ => None,
        };
        self.after_slow(block, result, done)
    }

    /// Calls the thunk of accesses; the address and the value are pushed.
    fn thunk(&mut self, desc: Desc, access: Access) {
        self.a().push_imm(desc.0 as i32);
        let thunk = self.thunks.access[usize::from(self.vectors_alive())][access.0];
        self.call(thunk);
    }

    /// ZF says Done: it goes on; else the block is left after the instruction. Host addresses are given up.
    fn after_slow(&mut self, block: &Block, result: Option<Reg>, done: &dyn Fn(&mut Generator)) -> Ends {
        for group in 0..self.plan.groups.len() {
            let extra = (self.ops.len() + group) as u16;
            let place = self.place(extra);
            if !self.needed(extra) {
                continue;
            }
            if place.spill != NONE {
                self.a().store_imm(8, words::spill(place.spill), 0);
            }
            if place.temp != NONE {
                self.a().mov_imm(Reg(place.temp), 0);
            }
        }
        if self.leaving {
            // It is left anyway. (Without this the code would double with every access of an instruction.)
            return Ends::GoesOn;
        }
        let goes_on = self.jcc(Cc::E);
        self.leave_after(block, result, done);
        Ends::Jumps(goes_on)
    }

    fn rmw(&mut self, block: &Block, op: Rmw, size: Size, addr: Val, value: Val) {
        let w = size == Size::B8;
        let base = self.reg(addr.0);
        let value = self.reg(value.0);
        let t = self.temp();
        // What the probe takes is free before the first jump: values are moved away on both ways or on none.
        let u = self.temp();
        self.unpin(u);
        let mut miss = Jumps::new();
        self.a().test_imm8(base, size.bytes() as u8 - 1);
        miss.push(self.jcc(Cc::Ne));
        for jump in self.probe(base, 0, size.bytes() as i64, t, true, true).iter() {
            miss.push(*jump);
        }
        self.a().alu(true, Alu::Add, t, base.into());
        // The old value, and in the end the result.
        let old = self.temp();
        self.a()
            .extend_from(size.bytes(), true, old, Mem::new(t, 0).into());
        let m = Mem::new(t, 0);
        let alu = match op {
            Rmw::Swap => None,
            Rmw::Add => Some(Alu::Add),
            Rmw::And => Some(Alu::And),
            Rmw::Or => Some(Alu::Or),
            Rmw::Xor => Some(Alu::Xor),
            Rmw::MinS | Rmw::MaxS | Rmw::MinU | Rmw::MaxU => None,
        };
        let keep = match op {
            Rmw::MinS => Some(Cc::Le),
            Rmw::MaxS => Some(Cc::Ge),
            Rmw::MinU => Some(Cc::Be),
            Rmw::MaxU => Some(Cc::Ae),
            _ => None,
        };
        match (alu, keep) {
            (Some(alu), _) => self.a().alu_store(w, alu, m, value),
            // What is there stays if it is the one wanted.
            (None, Some(cc)) => {
                self.a().alu(w, Alu::Cmp, old, value.into());
                let stays = self.a().jcc_short(cc);
                self.a().store(w, m, value);
                self.a().bind_short(stays);
            }
            (None, None) => self.a().store(w, m, value),
        }
        self.unpin(t);
        let done = |g: &mut Generator| g.define(old);
        self.aside(&miss, |g| {
            g.surface();
            g.a().push_reg(base);
            g.a().push_reg(value);
            let desc = g.desc(block, Kind::Rmw(op), size);
            g.thunk(desc, Access::OTHER);
            g.a().pop_reg(old);
            if size == Size::B4 {
                g.a().extend_from(4, true, old, old.into());
            }
            g.after_slow(block, None, &done)
        });
        done(self);
    }

    /// A function of the guest's.
    pub(super) fn pure(&mut self, function: u16, args: [Option<Val>; 4]) {
        assert!(usize::from(function) < self.layout.pure.len(), "no such function");
        let dst = self.dest(&[]);
        // What has no place but a register gets one before anything is pushed.
        let places = args.map(|v| v.map_or(Operand::Imm(0), |v| self.place_to_push(v.0)));
        self.call_pure(function, places, dst);
        self.define(dst);
    }

    /// The same in the cold part, where the value isn't known; if there are registers for that.
    pub(super) fn pure_unless(&mut self, (known, value): (u16, u16), function: u16, args: [Option<Val>; 4]) {
        assert!(usize::from(function) < self.layout.pure.len(), "no such function");
        let wants_reg = |v: &Val| {
            let small = self
                .constant(v.0)
                .is_some_and(|c| i32::try_from(c as i64).is_ok());
            !small && (self.memory(v.0).is_none() || self.constant(v.0).is_some())
        };
        // The result, the value and whether it is known have three of the four.
        if args.iter().flatten().filter(|v| wants_reg(v)).count() > 1 {
            return self.pure_and_select((known, value), function, args);
        }
        let dst = self.dest(&[]);
        self.pin(dst);
        let value = self.reg(value);
        self.pin(value);
        let known = self.reg(known);
        self.pin(known);
        let places = args.map(|v| match v {
            None => Operand::Imm(0),
            Some(v) => match self.memory(v.0) {
                Some(m) if self.constant(v.0).is_none() => Operand::Mem(m),
                _ => self.place_to_push(v.0),
            },
        });
        self.a().test(true, known, known);
        let unknown = self.jcc(Cc::E);
        self.a().mov(true, dst, value);
        self.aside(&[unknown], |g| {
            g.call_pure(function, places, dst);
            Ends::GoesOn
        });
        self.define(dst);
    }

    /// The function is called in every case.
    fn pure_and_select(&mut self, (known, value): (u16, u16), function: u16, args: [Option<Val>; 4]) {
        // No home, which may hold what is wanted yet.
        let dst = self.temp();
        let places = args.map(|v| v.map_or(Operand::Imm(0), |v| self.place_to_push(v.0)));
        self.call_pure(function, places, dst);
        for place in places {
            if let Operand::Reg(r) = place {
                self.unpin(r);
            }
        }
        self.pin(dst);
        let value = self.reg(value);
        self.pin(value);
        let known = self.reg(known);
        self.a().test(true, known, known);
        let unknown = self.jcc(Cc::E);
        self.a().mov(true, dst, value);
        self.bind_here(unknown);
        self.define(dst);
    }

    fn call_pure(&mut self, function: u16, places: [Operand; 4], dst: Reg) {
        let vectors = self.vectors_alive();
        for (pushed, place) in places.into_iter().enumerate() {
            self.push_operand(match place {
                // Spill words move away as the stack grows.
                Operand::Mem(m) if m.base == RSP => Operand::Mem(Mem::new(RSP, m.disp + 8 * pushed as i32)),
                place => place,
            });
        }
        self.a().push_imm(function.into());
        let thunk = self.thunks.pure[usize::from(vectors)];
        self.call(thunk);
        self.a().pop_reg(dst);
    }

    /// Where a value is, for a push.
    fn place_to_push(&mut self, v: u16) -> Operand {
        match self.constant(v).map(|c| i32::try_from(c as i64)) {
            Some(Ok(imm)) => return Operand::Imm(imm),
            Some(Err(_)) => {}
            None => {
                if let Some(r) = self.in_reg(v) {
                    self.pin(r);
                    return Operand::Reg(r);
                }
                if let Some(m) = self.memory(v) {
                    return Operand::Mem(m);
                }
            }
        }
        Operand::Reg(self.reg(v))
    }

    fn helper(&mut self, block: &Block, helper: u16, args: [Option<Val>; 3]) {
        let operands = args.map(|v| match v {
            None => Operand::Imm(0),
            Some(v) => match self.operand(v.0) {
                Operand::Imm(imm) => Operand::Imm(imm),
                _ => Operand::Reg(self.reg(v.0)),
            },
        });
        self.leave_slots();
        let dst = self.dest(&[]);
        let vectors = self.vectors_alive();
        self.push_operand(operands[0]);
        self.push_operand(operands[1]);
        self.push_operand(operands[2]);
        self.a().push_imm(i32::from(helper));
        let position = if self.ends_block(block) {
            Position::Last
        } else {
            Position::Inside
        };
        let desc = self.desc(block, Kind::Helper(position), Size::B8);
        self.a().push_imm(desc.0 as i32);
        let thunk = self.thunks.call[usize::from(vectors)];
        self.call(thunk);
        if self.uses.count[self.at] > 0 {
            self.a().pop_reg(dst);
        } else {
            self.a().drop_top();
        }
        let used = self.uses.count[self.at] > 0;
        let done = |g: &mut Generator| {
            if used {
                g.define(dst);
            }
        };
        if !self.leaving {
            let leave = self.jcc(Cc::Ne);
            self.aside(&[leave], |g| {
                g.leave_after(block, used.then_some(dst), &done);
                Ends::Here
            });
        }
        done(self);
    }
}
