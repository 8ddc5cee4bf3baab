//! The builder of a block: ops, what slots hold, and folding of constants.
//!
//! Values of operands narrower than 64 bits may have anything above their size; who cares asks for [`Lifter::zx`] or
//! [`Lifter::sx`], which cost nothing where the value is known to be extended already.

use super::cc::Cc;
use crate::Follow;
use crate::ir::{
    Bin, Class, Cond, Insn, MAX_INSNS, Op, Size, Slot, Target, Terminal, TrapValue, Un, Val, Width, eval_bin,
    eval_cmp, eval_un,
};
use crate::x86_64::helper::Form;
use crate::x86_64::mode::Mode;
use crate::x86_64::trap;

/// Slots that the lifter names: all below.
const SLOTS: usize = 192;

/// A block under construction, at one instruction.
pub(crate) struct Lifter {
    mode: Mode,
    insns: Vec<Insn>,
    ops: Vec<Op>,
    /// The instruction's bytes, as far as `len` says.
    bytes: [u8; 15],
    /// The value that each slot holds, where that is known.
    held: [Option<Val>; SLOTS],
    /// Constants made so far.
    constants: Vec<(u64, Val)>,
    /// Values of which the low 32 bits were extended last: from, to.
    extended: [(Val, Val); 4],
    /// Values known to be, plus that offset, multiples of 16.
    aligned: Vec<(Val, i32)>,
    /// The instruction works on floating-point numbers: what isn't known of a vector register may have been made by
    /// scalars.
    pub(super) numbers: bool,
    /// What made the flags, where that is known.
    pub(super) cc: Option<Cc>,
    /// No x87 exception can be pending here: it was looked for.
    pub(super) none_pending: bool,
    terminal: Option<Terminal>,
    /// The instruction ends the block, by way of the run loop; the next one will.
    last: bool,
    next_is_last: bool,
}

/// The block so far.
impl Lifter {
    pub fn new(mode: Mode) -> Lifter {
        Lifter {
            mode,
            insns: Vec::with_capacity(16),
            ops: Vec::with_capacity(96),
            bytes: [0; 15],
            held: [None; SLOTS],
            constants: Vec::with_capacity(16),
            extended: [(Val(u16::MAX), Val(0)); 4],
            aligned: Vec::new(),
            numbers: false,
            cc: None,
            none_pending: false,
            terminal: None,
            last: false,
            next_is_last: false,
        }
    }

    pub fn finish(mut self) -> (Vec<Insn>, Vec<Op>) {
        // Blocks may be kept in great number.
        self.insns.shrink_to_fit();
        self.ops.shrink_to_fit();
        (self.insns, self.ops)
    }

    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    pub fn insns(&self) -> usize {
        self.insns.len()
    }

    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the mode has all these bits.
    pub fn is(&self, mode: Mode) -> bool {
        self.mode.contains(mode)
    }

    /// Whether the instruction is the last of its block, after which the run loop looks at the processor.
    pub fn is_single(&self) -> bool {
        self.mode
            .intersects(Mode::TRACE | Mode::SHADOW | Mode::CODE_BREAKPOINTS | Mode::DATA_BREAKPOINTS)
            || self.last
    }

    /// The next instruction ends the block, and after it the run loop looks at the processor: the one behind `sti`.
    pub fn one_more(&mut self) {
        self.next_is_last = true;
    }

    /// Whether the block can't end here without a look at the processor.
    pub fn must_dispatch(&self) -> bool {
        self.is_single() || self.next_is_last
    }

    /// Begins an instruction.
    pub fn begin(&mut self, offset: u16, len: u8, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.last = std::mem::take(&mut self.next_is_last);
        self.insns.push(Insn {
            offset,
            len,
            first_op: self.ops.len() as u16,
        });
    }

    /// Offset of the instruction from the page.
    pub fn here(&self) -> i32 {
        self.insns.last().map_or(0, |insn| insn.offset.into())
    }

    /// Bytes of the instruction.
    pub fn len(&self) -> u8 {
        self.insns.last().map_or(0, |insn| insn.len)
    }

    /// The instruction's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len())).unwrap_or_default()
    }

    /// Offset of the following instruction from the page.
    pub fn next(&self) -> i32 {
        self.here() + i32::from(self.len())
    }

    /// Ends the block.
    pub fn end(&mut self, terminal: Terminal) {
        self.terminal = Some(terminal);
    }

    /// Ends the block, going on at the next instruction by way of the run loop.
    pub fn dispatch(&mut self) {
        self.end(Terminal::Dispatch(Target(self.next())));
    }

    pub fn terminal(&self) -> Option<Terminal> {
        self.terminal
    }

    /// Where the block goes on behind this terminal, if `follow` wants it to, with an op in the place of the branch.
    pub fn follow(&mut self, terminal: &Terminal, follow: Follow) -> Option<u16> {
        if !matches!(terminal, Terminal::Jump(_) | Terminal::Branch { .. })
            || self.insns() + 1 >= MAX_INSNS
            || self.is_single()
        {
            return None;
        }
        let next = follow(terminal).filter(|next| usize::from(*next) < 4096)?;
        if let Some(op) = terminal.followed(next)? {
            self.op(op);
        }
        self.terminal = None;
        Some(next)
    }

    /// The instruction raises an exception and does nothing else.
    pub fn raise(&mut self, cause: u64) {
        let begun = self.insns.last().map_or(0, |insn| usize::from(insn.first_op));
        if begun < self.ops.len() {
            // Checks come first, and they may trap otherwise.
            let one = self.constant(1);
            self.trap_if(one, cause);
            self.dispatch();
        } else {
            self.end(Terminal::Trap {
                cause,
                value: TrapValue::Const(0),
            });
        }
    }

    /// The instruction is invalid.
    pub fn undefined(&mut self) {
        self.raise(trap::cause(trap::UD));
    }

    /// The instruction raises #GP(0).
    pub fn protection(&mut self) {
        self.raise(trap::cause_with(trap::GP, 0));
    }
}

/// Values.
impl Lifter {
    /// Appends an op.
    pub fn op(&mut self, op: Op) -> Val {
        self.ops.push(op);
        Val((self.ops.len() - 1) as u16)
    }

    /// The op that yields a value.
    pub fn def(&self, v: Val) -> Op {
        self.ops[usize::from(v.0)]
    }

    pub fn constant(&mut self, c: u64) -> Val {
        match self.constants.iter().find(|(known, _)| *known == c) {
            Some(&(_, v)) => v,
            None => {
                let v = self.op(Op::Const(c));
                self.constants.push((c, v));
                v
            }
        }
    }

    /// The constant that a value is, if it is one.
    pub fn as_constant(&self, v: Val) -> Option<u64> {
        match self.def(v) {
            Op::Const(c) => Some(c),
            _ => None,
        }
    }

    /// Linear address of the page + `offset`.
    pub fn page(&mut self, offset: i64) -> Val {
        match i32::try_from(offset) {
            Ok(offset) => self.op(Op::Page(offset)),
            Err(_) => {
                let page = self.op(Op::Page(0));
                self.bin_constant(Bin::Add, Width::W64, page, offset as u64)
            }
        }
    }

    /// Content of a slot of class I.
    pub fn get(&mut self, slot: Slot) -> Val {
        self.held_or(slot, Op::Get(slot))
    }

    pub fn set(&mut self, slot: Slot, v: Val) {
        if self.held.get(usize::from(slot.0)) == Some(&Some(v)) {
            return;
        }
        self.op(Op::Set(slot, v));
        self.part_changes(slot);
        self.hold(slot, Some(v));
    }

    /// The vector that a slot is known to be part of, and which half it is.
    fn vector_at(&self, slot: Slot) -> Option<(Val, u8)> {
        let v = self.held(Slot(slot.0 & !1))?;
        (self.def(v).class() == Some(Class::V)).then_some((v, (slot.0 & 1) as u8))
    }

    /// A slot is set that may be part of a vector.
    fn part_changes(&mut self, slot: Slot) {
        if self.vector_at(slot).is_some() {
            self.hold(Slot(slot.0 & !1), None);
        }
    }

    /// Content of two slots as a vector.
    pub fn get_v(&mut self, slot: Slot) -> Val {
        if let Some((v, _)) = self.vector_at(slot) {
            return v;
        }
        let halves = [slot, Slot(slot.0 + 1)];
        // What was stored by halves is slow to load as a whole.
        let apart = self.numbers || halves.iter().any(|half| self.held(*half).is_some());
        let v = if !apart {
            self.op(Op::GetV(slot))
        } else if let Some(low) = self.held(slot)
            && self.def(low).class() == Some(Class::I)
        {
            let high = self.get(halves[1]);
            self.op(Op::VPair(low, high))
        } else {
            let low = self.get_f(slot);
            let high = self.get(halves[1]);
            let low = self.op(Op::VFromF(low));
            match self.as_constant(high) {
                Some(0) => low,
                _ => self.op(Op::VInsert(Size::B8, 1, low, high)),
            }
        };
        self.hold(slot, Some(v));
        self.hold(Slot(slot.0 + 1), None);
        v
    }

    pub fn set_v(&mut self, slot: Slot, v: Val) {
        if self.held(slot) == Some(v) {
            return;
        }
        self.op(Op::SetV(slot, v));
        self.hold(slot, Some(v));
        self.hold(Slot(slot.0 + 1), None);
    }

    /// Content of a slot of class F.
    pub fn get_f(&mut self, slot: Slot) -> Val {
        self.held_or(slot, Op::GetF(slot))
    }

    pub fn set_f(&mut self, slot: Slot, v: Val) {
        self.op(Op::SetF(slot, v));
        self.part_changes(slot);
        self.hold(slot, Some(v));
    }

    fn held_or(&mut self, slot: Slot, get: Op) -> Val {
        let known = self.held.get(usize::from(slot.0)).copied().flatten();
        // A slot may be read in both classes.
        match known {
            Some(v) if self.def(v).class() == get.class() => v,
            _ if let Some((v, half)) = self.vector_at(slot) => match (get, half) {
                (Op::GetF(_), 0) => self.op(Op::VToF(v)),
                (Op::GetF(_), _) => self.op(get),
                _ => self.op(Op::VExtract(Size::B8, half, v)),
            },
            _ => {
                let v = self.op(get);
                self.hold(slot, Some(v));
                v
            }
        }
    }

    /// What a slot is known to hold.
    pub fn held(&self, slot: Slot) -> Option<Val> {
        self.held.get(usize::from(slot.0)).copied().flatten()
    }

    /// Says what a slot holds, or is to be taken to hold for the rest of this instruction.
    pub fn hold(&mut self, slot: Slot, v: Option<Val>) {
        if let Some(held) = self.held.get_mut(usize::from(slot.0)) {
            *held = v;
        }
    }

    pub fn un(&mut self, un: Un, v: Val) -> Val {
        match self.def(v) {
            Op::Const(c) => self.constant(eval_un(un, c)),
            // The low half of these is made of low halves.
            Op::Bin(
                bin @ (Bin::Add | Bin::Sub | Bin::And | Bin::Or | Bin::Xor | Bin::Mul),
                Width::W64,
                a,
                b,
            ) if un == Un::Zext32 => self.bin(bin, Width::W32, a, b),
            // A register is often copied to several others.
            _ if un == Un::Zext32 => {
                if let Some((_, to)) = self.extended.iter().find(|(from, _)| *from == v) {
                    return *to;
                }
                let to = self.op(Op::Un(un, v));
                self.extended.rotate_right(1);
                self.extended[0] = (v, to);
                to
            }
            _ => self.op(Op::Un(un, v)),
        }
    }

    /// What an operation of `width` may read in the place of a value: it sees no extension of 32 bits.
    fn seen(&self, width: Width, v: Val) -> Val {
        match self.def(v) {
            Op::Un(Un::Zext32 | Un::Sext32, inner) if width == Width::W32 => inner,
            _ => v,
        }
    }

    pub fn bin(&mut self, bin: Bin, width: Width, a: Val, b: Val) -> Val {
        let (a, b) = (self.seen(width, a), self.seen(width, b));
        match (self.def(a), self.def(b)) {
            (_, Op::Const(c)) => self.bin_constant(bin, width, a, c),
            (Op::Const(c), _) if is_commutative(bin) => self.bin_constant(bin, width, b, c),
            _ if a == b && matches!(bin, Bin::Sub | Bin::Xor) => self.constant(0),
            _ if a == b && width == Width::W64 && matches!(bin, Bin::And | Bin::Or) => a,
            _ => self.op(Op::Bin(bin, width, a, b)),
        }
    }

    /// An operation whose second operand is a constant, which becomes an op only if it is needed.
    pub fn bin_constant(&mut self, bin: Bin, width: Width, a: Val, c: u64) -> Val {
        let a = self.seen(width, a);
        let neutral = match bin {
            Bin::Add
            | Bin::Sub
            | Bin::Or
            | Bin::Xor
            | Bin::Shl
            | Bin::Shr
            | Bin::Sar
            | Bin::Rol
            | Bin::Ror => c == 0,
            Bin::And => c == u64::MAX,
            Bin::Mul => c == 1,
            _ => false,
        };
        match (self.def(a), width) {
            (Op::Const(known), _) => return self.constant(eval_bin(bin, width, known, c)),
            (_, Width::W64) if neutral => return a,
            (Op::Page(p), Width::W64) if bin == Bin::Add => {
                let sum = i32::try_from(c as i64).ok().and_then(|c| p.checked_add(c));
                if let Some(sum) = sum {
                    return self.op(Op::Page(sum));
                }
            }
            (_, Width::W64) if c == u64::MAX && bin == Bin::Xor => return self.un(Un::Not, a),
            _ => {}
        }
        let c = self.constant(c);
        self.op(Op::Bin(bin, width, a, c))
    }

    /// `v + c`, 64 bits.
    pub fn add(&mut self, v: Val, c: i64) -> Val {
        self.bin_constant(Bin::Add, Width::W64, v, c as u64)
    }

    /// `v & mask`, 64 bits.
    pub fn and(&mut self, v: Val, mask: u64) -> Val {
        self.bin_constant(Bin::And, Width::W64, v, mask)
    }

    /// `a | b`, 64 bits.
    pub fn or(&mut self, a: Val, b: Val) -> Val {
        self.bin(Bin::Or, Width::W64, a, b)
    }

    /// `v << amount`, 64 bits.
    pub fn shl(&mut self, v: Val, amount: u64) -> Val {
        self.bin_constant(Bin::Shl, Width::W64, v, amount)
    }

    /// `v >> amount`, 64 bits, logical.
    pub fn shr(&mut self, v: Val, amount: u64) -> Val {
        self.bin_constant(Bin::Shr, Width::W64, v, amount)
    }

    /// 1 if the comparison holds, else 0.
    pub fn cmp(&mut self, cond: Cond, width: Width, a: Val, b: Val) -> Val {
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) => self.constant(eval_cmp(cond, width, a, b).into()),
            _ => self.op(Op::Cmp(cond, width, a, b)),
        }
    }

    /// Comparison with a constant.
    pub fn cmp_constant(&mut self, cond: Cond, width: Width, a: Val, c: u64) -> Val {
        let c = self.constant(c);
        self.cmp(cond, width, a, c)
    }

    /// `a` if `c` isn't 0, else `b`.
    pub fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        match self.as_constant(c) {
            _ if a == b => a,
            Some(0) => b,
            Some(_) => a,
            None => self.op(Op::Select(c, a, b)),
        }
    }

    /// A function of the table in `pure.rs`.
    pub fn pure<const N: usize>(&mut self, function: u16, args: [Val; N]) -> Val {
        let mut all = [None; 4];
        for (to, from) in all.iter_mut().zip(args) {
            *to = Some(from);
        }
        self.op(Op::Pure { function, args: all })
    }

    pub fn trap_if(&mut self, cond: Val, cause: u64) {
        if self.as_constant(cond) != Some(0) {
            self.op(Op::TrapIf {
                cond,
                cause,
                value: 0,
            });
        }
    }

    /// Zero-extended from `size`.
    pub fn zx(&mut self, size: Size, v: Val) -> Val {
        if self.is_zero_extended(size, v, 4) {
            return v;
        }
        // What is cut off need not be made.
        let v = match self.def(v) {
            Op::Un(Un::Sext8, inner) if size == Size::B1 => inner,
            Op::Un(Un::Sext16, inner) if size == Size::B2 => inner,
            Op::Un(Un::Sext32, inner) if size == Size::B4 => inner,
            _ => v,
        };
        match size {
            Size::B1 => self.un(Un::Zext8, v),
            Size::B2 => self.un(Un::Zext16, v),
            Size::B4 => self.un(Un::Zext32, v),
            Size::B8 => v,
        }
    }

    /// Sign-extended from `size`.
    pub fn sx(&mut self, size: Size, v: Val) -> Val {
        match (self.def(v), size) {
            (_, Size::B8) => v,
            (
                Op::Load {
                    size: s,
                    signed: true,
                    ..
                },
                _,
            ) if s <= size => v,
            (Op::Un(Un::Sext8, _), _) | (Op::Un(Un::Sext16, _), Size::B2 | Size::B4) => v,
            (Op::Un(Un::Sext32, _), Size::B4) => v,
            (_, Size::B1) => self.un(Un::Sext8, v),
            (_, Size::B2) => self.un(Un::Sext16, v),
            (_, Size::B4) => self.un(Un::Sext32, v),
        }
    }

    /// Whether a value is known to be zero above `size`.
    fn is_zero_extended(&self, size: Size, v: Val, depth: u8) -> bool {
        if size == Size::B8 {
            return true;
        }
        match self.def(v) {
            Op::Const(c) => c <= size.mask(),
            Op::Un(Un::Zext8, _) | Op::Cmp(..) | Op::FCmp(..) => true,
            Op::Un(Un::Clz32 | Un::Clz64 | Un::Ctz32 | Un::Ctz64 | Un::Popcnt32 | Un::Popcnt64, _) => true,
            Op::VExtract(s, ..) => s <= size,
            Op::VMask(s, _) => size >= Size::B2 || s > Size::B1,
            Op::Un(Un::Zext16, _) => size >= Size::B2,
            Op::Un(Un::Zext32, _) => size >= Size::B4,
            Op::Load {
                size: s,
                signed: false,
                ..
            } => s <= size,
            Op::Bin(bin, width, a, b) => {
                (width == Width::W32 && size == Size::B4)
                    || depth > 0
                        && match bin {
                            Bin::And => {
                                self.is_zero_extended(size, a, depth - 1)
                                    || self.is_zero_extended(size, b, depth - 1)
                            }
                            Bin::Or | Bin::Xor => {
                                self.is_zero_extended(size, a, depth - 1)
                                    && self.is_zero_extended(size, b, depth - 1)
                            }
                            Bin::Shr => self.is_zero_extended(size, a, depth - 1),
                            _ => false,
                        }
            }
            Op::Select(_, a, b) => {
                depth > 0
                    && self.is_zero_extended(size, a, depth - 1)
                    && self.is_zero_extended(size, b, depth - 1)
            }
            _ => false,
        }
    }
}

/// Alignment.
impl Lifter {
    /// Whether an address is known to be a multiple of 16.
    pub fn is_aligned(&self, addr: Val, offset: i32) -> bool {
        self.aligned.contains(&(addr, offset & 15))
    }

    /// From here on it is: else the instruction has trapped.
    pub fn is_now_aligned(&mut self, addr: Val, offset: i32) {
        self.aligned.push((addr, offset & 15));
    }
}

/// Helpers.
impl Lifter {
    /// The third argument of a helper.
    pub fn form(&self, size: Size, more: u8) -> Form {
        Form::new(self.len(), log2(size), more)
    }

    /// Calls a helper that changes no slot.
    pub fn ask(&mut self, helper: u16, args: [Option<Val>; 2], form: Form) -> Val {
        let form = self.constant(form.0);
        self.op(Op::Call {
            helper,
            args: [args[0], args[1], Some(form)],
        })
    }

    /// Calls a helper that may change any slot.
    pub fn call(&mut self, helper: u16, args: [Option<Val>; 2], form: Form) -> Val {
        let v = self.ask(helper, args, form);
        self.held = [None; SLOTS];
        self.cc = None;
        v
    }
}

/// log2 of a size in bytes.
pub(in crate::x86_64) const fn log2(size: Size) -> u8 {
    match size {
        Size::B1 => 0,
        Size::B2 => 1,
        Size::B4 => 2,
        Size::B8 => 3,
    }
}

/// The width in which operands of a size are worked on.
pub(super) const fn width(size: Size) -> Width {
    match size {
        Size::B8 => Width::W64,
        Size::B1 | Size::B2 | Size::B4 => Width::W32,
    }
}

fn is_commutative(bin: Bin) -> bool {
    use Bin::*;
    matches!(
        bin,
        Add | And | Or | Xor | Mul | MulhU | MulhS | MinS | MaxS | MinU | MaxU
    )
}
