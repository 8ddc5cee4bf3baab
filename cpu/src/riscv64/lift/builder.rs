//! The builder of a block: ops, what slots hold, and folding of constants.

use crate::Follow;
use crate::ir::{
    Bin, Insn, MAX_INSNS, Op, Slot, Target, Terminal, TrapValue, Un, Val, Width, eval_bin, eval_un,
};
use crate::riscv64::helper;
use crate::riscv64::rows::{F, X};
use crate::riscv64::slots;

/// Exception code of an illegal instruction.
const ILLEGAL_INSTRUCTION: u64 = 2;

/// A block under construction, at one instruction. Rows' meanings call its methods.
pub(crate) struct Lifter {
    mode: u64,
    insns: Vec<Insn>,
    ops: Vec<Op>,
    /// The value that each slot holds, where that is known.
    held: [Option<Val>; slots::END as usize],
    /// Constants made so far.
    constants: Vec<(u64, Val)>,
    /// The instruction's bits.
    insn: u32,
    /// A call of `FS_DIRTY` is due before the instruction's first `Set`.
    owes_dirty: bool,
    terminal: Option<Terminal>,
}

/// The block so far.
impl Lifter {
    pub fn new(mode: u64) -> Lifter {
        Lifter {
            mode,
            insns: Vec::with_capacity(16),
            ops: Vec::with_capacity(64),
            held: [None; slots::END as usize],
            constants: Vec::new(),
            insn: 0,
            owes_dirty: false,
            terminal: None,
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

    pub fn mode(&self) -> u64 {
        self.mode
    }

    /// Begins an instruction.
    pub fn begin(&mut self, offset: u16, len: u8, insn: u32) {
        self.insns.push(Insn {
            offset,
            len,
            first_op: self.ops.len() as u16,
        });
        self.insn = insn;
        self.owes_dirty = false;
    }

    /// The bits of the instruction.
    pub fn insn(&self) -> u32 {
        self.insn
    }

    /// Offset of the instruction from the page.
    pub fn here(&self) -> i32 {
        self.insns.last().map_or(0, |insn| insn.offset.into())
    }

    /// Offset of the following instruction from the page.
    pub fn next(&self) -> i32 {
        self.insns
            .last()
            .map_or(0, |insn| i32::from(insn.offset) + i32::from(insn.len))
    }

    /// Ends the block. If the instruction dirties the floating-point state, the last call wins.
    pub fn end(&mut self, terminal: Terminal) {
        self.terminal = Some(terminal);
    }

    /// Ends the block, going on at the next instruction by way of the run loop.
    pub fn dispatch(&mut self) {
        self.end(Terminal::Dispatch(Target(self.next())));
    }

    pub fn take_terminal(&mut self) -> Option<Terminal> {
        self.terminal.take()
    }

    /// Where the block goes on behind this terminal, if `follow` wants it to, with an op in the place of the branch.
    pub fn follow(&mut self, terminal: &Terminal, follow: Follow) -> Option<u16> {
        if !matches!(terminal, Terminal::Jump(_) | Terminal::Branch { .. }) || self.insns() + 1 >= MAX_INSNS {
            return None;
        }
        let next = follow(terminal).filter(|next| usize::from(*next) < 4096)?;
        if let Some(op) = terminal.followed(next)? {
            self.op(op);
        }
        Some(next)
    }

    /// The end of a block whose last instruction, which has no ops yet, is illegal.
    pub fn illegal(&mut self) -> Terminal {
        Terminal::Trap {
            cause: ILLEGAL_INSTRUCTION,
            value: TrapValue::Const(self.insn.into()),
        }
    }

    /// The instruction must mark the floating-point state before it commits.
    pub fn owe_dirty(&mut self) {
        self.owes_dirty = true;
    }

    /// Marks the floating-point state, if that is due and not done.
    pub fn pay_dirty(&mut self) {
        if std::mem::take(&mut self.owes_dirty) {
            self.call(helper::FS_DIRTY, [None; 3]);
        }
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

    pub fn x(&mut self, X(n): X) -> Val {
        if n == 0 {
            return self.constant(0);
        }
        self.held(slots::x(n), Op::Get)
    }

    pub fn set_x(&mut self, X(n): X, v: Val) {
        if n != 0 {
            self.set(slots::x(n), v, Op::Set);
        }
    }

    /// The raw 64 bits of a floating-point register.
    pub fn f(&mut self, F(n): F) -> Val {
        self.held(slots::f(n), Op::GetF)
    }

    /// Sets the raw 64 bits of a floating-point register.
    pub fn set_f(&mut self, F(n): F, v: Val) {
        self.set(slots::f(n), v, Op::SetF);
    }

    /// The content of another slot.
    pub fn slot(&mut self, slot: Slot) -> Val {
        self.held(slot, Op::Get)
    }

    /// Sets it.
    pub fn set_slot(&mut self, slot: Slot, v: Val) {
        self.set(slot, v, Op::Set);
    }

    fn held(&mut self, slot: Slot, get: fn(Slot) -> Op) -> Val {
        if let Some(v) = self.held[usize::from(slot.0)] {
            return v;
        }
        let v = self.op(get(slot));
        self.held[usize::from(slot.0)] = Some(v);
        v
    }

    fn set(&mut self, slot: Slot, v: Val, set: fn(Slot, Val) -> Op) {
        self.pay_dirty();
        self.op(set(slot, v));
        self.held[usize::from(slot.0)] = Some(v);
    }

    pub fn un(&mut self, un: Un, v: Val) -> Val {
        if let Some(c) = self.as_constant(v) {
            return self.constant(eval_un(un, c));
        }
        if un == Un::Sext32 && self.is_sign_extended(v) {
            return v;
        }
        self.op(Op::Un(un, v))
    }

    /// Whether a value is known to be its low 32 bits sign-extended.
    fn is_sign_extended(&self, v: Val) -> bool {
        use crate::ir::Size::{B1, B2, B4};
        match self.def(v) {
            Op::Un(un, _) => matches!(un, Un::Sext8 | Un::Sext16 | Un::Sext32 | Un::Zext8 | Un::Zext16),
            Op::Load { size: B4, signed, .. } => signed,
            Op::Load { size: B1 | B2, .. } | Op::Cmp(..) | Op::FCmp(..) | Op::Rmw { size: B4, .. } => true,
            _ => false,
        }
    }

    pub fn bin(&mut self, bin: Bin, width: Width, a: Val, b: Val) -> Val {
        match (self.def(a), self.def(b)) {
            (_, Op::Const(c)) => self.bin_constant(bin, width, a, c),
            (Op::Const(c), _) if is_commutative(bin) => self.bin_constant(bin, width, b, c),
            _ => self.op(Op::Bin(bin, width, a, b)),
        }
    }

    /// An operation whose second operand is a constant, which becomes an op only if it is needed.
    pub fn bin_constant(&mut self, bin: Bin, width: Width, a: Val, c: u64) -> Val {
        match (self.def(a), width) {
            (Op::Const(known), _) => return self.constant(eval_bin(bin, width, known, c)),
            (_, Width::W64) if c == 0 && is_identity_at_zero(bin) => return a,
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

    /// A base and an offset whose sum is `x[base] + offset`, the offset 0 if the base is constant.
    pub fn address(&mut self, base: X, offset: i32) -> (Val, i32) {
        let v = self.x(base);
        match self.def(v) {
            Op::Const(_) | Op::Page(_) => (self.add(v, offset), 0),
            _ => (v, offset),
        }
    }

    /// `v + c`.
    pub fn add(&mut self, v: Val, c: i32) -> Val {
        self.bin_constant(Bin::Add, Width::W64, v, c as u64)
    }

    pub fn call(&mut self, helper: u16, args: [Option<Val>; 3]) -> Val {
        self.op(Op::Call { helper, args })
    }
}

/// Whether `a op 0 == a`.
fn is_identity_at_zero(bin: Bin) -> bool {
    use Bin::*;
    matches!(bin, Add | Sub | Or | Xor | Shl | Shr | Sar | Rol | Ror)
}

fn is_commutative(bin: Bin) -> bool {
    use Bin::*;
    matches!(
        bin,
        Add | And | Or | Xor | Mul | MulhU | MulhS | MinS | MaxS | MinU | MaxU
    )
}
