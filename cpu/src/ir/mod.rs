//! The intermediate representation: what a guest instruction means, in terms that no guest owns.
//!
//! ```text
//!  guest bytes --decode--> row --lift--> Block (this module) --+--> interp.rs   portable, the oracle
//!                                                              +--> crate jit   passes, host code
//! ```
//!
//! A [`Block`] is the translation of at most [`MAX_INSNS`] guest instructions within one page. It is a
//! list of [`Op`]s in order; an op that yields a value is named by its index, so that a [`Val`] *is* the
//! index of its op and every value is assigned once. Values are 64-bit patterns, or vectors of 128 bits. Guest
//! registers live in the [slots](crate::RegFile) of a hart and are touched only by `Get`/`Set`; a vector is two
//! slots side by side, the first one even, which may be read and written by halves as well.
//!
//! Rules that a lifter keeps and [`Block::verify`] checks:
//!
//! 1. An instruction's `Set`s come after its last op that can trap ([`Op::can_trap`]): until then the
//!    instruction can be undone by leaving the block. Every instruction boundary is precise.
//! 2. A value is used only after its op, and only by ops that take its class.
//! 3. The program counter isn't a value: ops say [`Op::Page`] (virtual base of the page + constant), so
//!    that a block is position-independent and shared by all who map its physical page.
//! 4. What an instruction stores, it stores only when nothing of it can fault any more: it makes one store, or has
//!    an [`Op::Check`] before its first one for all of them; or it is an [`Op::Call`].
//!
//! No result is undefined: division by zero, shift amounts, NaNs and conversions out of range are
//! defined here once, and the interpreter and the JIT agree bit by bit.

mod eval;
mod eval_vector;
pub(crate) mod lane;
mod op;
mod print;
mod vector;

pub use eval::{
    eval_bin, eval_cmp, eval_fbin, eval_fclass, eval_fcmp, eval_ffma, eval_ffromint, eval_forder,
    eval_ftoint, eval_fun, eval_rmw, eval_un, rounding,
};
pub use eval_vector::{
    eval_vbin, eval_vconvert, eval_vextract, eval_vfbin, eval_vfcmp, eval_vfsqrt, eval_vimm, eval_vimm2,
    eval_vinsert, eval_vmask, eval_vselect, eval_vun,
};
pub use vector::{VBin, VConvert, VImm, VImm2, VUn, Vector};

use crate::softfloat::Round;

/// The greatest number of guest instructions in a block.
pub const MAX_INSNS: usize = 64;

/// A guest register, flag or other word of hart state: an index into [`crate::RegFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

/// A value: the index in [`Block::ops`] of the op that yields it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Val(pub u16);

/// Width of an integer operation. A 32-bit operation reads the low halves of its operands and yields
/// its result zero-extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits, zero-extended.
    W32,
    /// 64 bits.
    W64,
}

/// Size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// One byte.
    B1,
    /// Two bytes.
    B2,
    /// Four bytes.
    B4,
    /// Eight bytes.
    B8,
}

impl Size {
    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Size::B1 => 1,
            Size::B2 => 2,
            Size::B4 => 4,
            Size::B8 => 8,
        }
    }

    /// All ones over the bits of this size.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    /// Sign-extends the low bits of `value` to 64 bits.
    pub const fn sign_extend(self, value: u64) -> u64 {
        let unused = 64 - 8 * self.bytes() as u32;
        (((value << unused) as i64) >> unused) as u64
    }
}

/// Integer operations on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Un {
    /// Bitwise complement of all 64 bits.
    Not,
    /// Sign-extends the low 8 bits.
    Sext8,
    /// Sign-extends the low 16 bits.
    Sext16,
    /// Sign-extends the low 32 bits.
    Sext32,
    /// Zero-extends the low 8 bits.
    Zext8,
    /// Zero-extends the low 16 bits.
    Zext16,
    /// Zero-extends the low 32 bits.
    Zext32,
    /// Leading zeros of the low 32 bits; 32 for zero.
    Clz32,
    /// Leading zeros; 64 for zero.
    Clz64,
    /// Trailing zeros of the low 32 bits; 32 for zero.
    Ctz32,
    /// Trailing zeros; 64 for zero.
    Ctz64,
    /// Ones in the low 32 bits.
    Popcnt32,
    /// Ones.
    Popcnt64,
    /// Reverses the eight bytes.
    Bswap64,
    /// Each byte becomes 0xff if any of its bits is set, else 0.
    OrcB,
}

/// Integer operations on two values of one [`Width`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bin {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift; the amount is taken modulo the width.
    Shl,
    /// Logical right shift; the amount is taken modulo the width.
    Shr,
    /// Arithmetic right shift; the amount is taken modulo the width.
    Sar,
    /// Rotate left; the amount is taken modulo the width.
    Rol,
    /// Rotate right; the amount is taken modulo the width.
    Ror,
    /// Low half of the product.
    Mul,
    /// High half of the unsigned product.
    MulhU,
    /// High half of the signed product.
    MulhS,
    /// High half of the product of a signed first and an unsigned second operand.
    MulhSU,
    /// Signed quotient toward zero; by zero all ones; the overflowing case yields the dividend.
    DivS,
    /// Unsigned quotient; by zero all ones.
    DivU,
    /// Signed remainder with the dividend's sign; by zero the dividend; the overflowing case 0.
    RemS,
    /// Unsigned remainder; by zero the dividend.
    RemU,
    /// Smaller, signed.
    MinS,
    /// Larger, signed.
    MaxS,
    /// Smaller, unsigned.
    MinU,
    /// Larger, unsigned.
    MaxU,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less, signed.
    LtS,
    /// Greater or equal, signed.
    GeS,
    /// Less, unsigned.
    LtU,
    /// Greater or equal, unsigned.
    GeU,
}

impl Cond {
    /// What holds just where this doesn't.
    #[must_use]
    pub const fn inverted(self) -> Cond {
        match self {
            Cond::Eq => Cond::Ne,
            Cond::Ne => Cond::Eq,
            Cond::LtS => Cond::GeS,
            Cond::GeS => Cond::LtS,
            Cond::LtU => Cond::GeU,
            Cond::GeU => Cond::LtU,
        }
    }
}

/// What a read-modify-write stores, given the old value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw {
    /// The operand.
    Swap,
    /// The sum.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Smaller, signed.
    MinS,
    /// Larger, signed.
    MaxS,
    /// Smaller, unsigned.
    MinU,
    /// Larger, unsigned.
    MaxU,
}

/// Formats of floating-point values (IEEE 754 binary32 and binary64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fmt {
    /// binary32, in the low half of a value; whoever reads it ignores the high half.
    F32,
    /// binary64.
    F64,
}

/// Where an operation's rounding mode comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rm {
    /// From the floating-point environment slot ([`crate::Layout::fp_env`], MXCSR's RC field).
    Dynamic,
    /// This one.
    Static(Round),
}

/// Floating-point operations on two values. All raise flags in the environment slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FBin {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient.
    Div,
    /// IEEE 754-2019 minimumNumber; with [`crate::FloatRules::Sse`] `a < b ? a : b`, INVALID for any NaN.
    Min,
    /// IEEE 754-2019 maximumNumber; with [`crate::FloatRules::Sse`] `a > b ? a : b`, INVALID for any NaN.
    Max,
}

/// Floating-point operations on one value of class F that yield one of class F, with no flags unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FUn {
    /// Inverts the sign bit.
    Neg,
    /// Clears the sign bit.
    Abs,
    /// Square root (raises flags, rounds).
    Sqrt,
    /// Converts to the other format (raises flags; narrowing rounds).
    Convert,
    /// binary32 out of a NaN-boxed 64-bit register: the canonical NaN unless the high half is all ones.
    /// `fmt` is F32.
    Unbox,
    /// binary32 into a NaN-boxed 64-bit register: the high half becomes all ones. `fmt` is F32.
    Box,
}

/// Floating-point comparisons, which yield 0 or 1 of class I.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FCond {
    /// Equal; quiet.
    Eq,
    /// Less; signalling.
    Lt,
    /// Less or equal; signalling.
    Le,
    /// Less; quiet.
    LtQuiet,
    /// Less or equal; quiet.
    LeQuiet,
    /// One of them is a NaN; quiet.
    Unordered,
    /// One of them is a NaN; signalling.
    UnorderedSignal,
}

/// Integer types of conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int {
    /// Signed 32 bits (as a value: zero-extended).
    I32,
    /// Unsigned 32 bits (as a value: zero-extended).
    U32,
    /// Signed 64 bits.
    I64,
    /// Unsigned 64 bits.
    U64,
}

/// One operation. Each says its operands' and result's class: I (integer) or F (floating point), which both are 64-bit
/// patterns, the class saying only in which kind of host register a value is wanted; or V (a vector).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// I: a constant.
    Const(u64),
    /// I: the virtual base of the block's page plus this offset, wrapping.
    Page(i32),
    /// I: the content of a slot.
    Get(Slot),
    /// Stores an I value into a slot.
    Set(Slot, Val),
    /// I from I.
    Un(Un, Val),
    /// I from I, I.
    Bin(Bin, Width, Val, Val),
    /// I: 1 if the comparison holds, else 0.
    Cmp(Cond, Width, Val, Val),
    /// I: the second value if the first isn't zero, else the third.
    Select(Val, Val, Val),
    /// I: loads from virtual address `addr + offset`; can trap.
    Load {
        /// Bytes read.
        size: Size,
        /// Sign-extends, else zero-extends.
        signed: bool,
        /// Base address.
        addr: Val,
        /// Added to the base.
        offset: i32,
    },
    /// Stores the low bytes of an I value to virtual address `addr + offset`; can trap.
    Store {
        /// Bytes written.
        size: Size,
        /// Base address.
        addr: Val,
        /// Added to the base.
        offset: i32,
        /// What is stored.
        value: Val,
    },
    /// I: atomically replaces memory at virtual address `addr`, yields the old value sign-extended; needs
    /// the right to write; can trap. `size` is B4 or B8, and the lifter has checked nothing about
    /// alignment: see [`crate::Env::rmw`].
    Rmw {
        /// The operation.
        op: Rmw,
        /// Bytes read and written.
        size: Size,
        /// Address.
        addr: Val,
        /// Operand.
        value: Val,
    },
    /// Checks that an access to `len` bytes from `addr + offset` on can be made, in one or two pages, without
    /// making it: what follows in the instruction can't fault there, nor be stopped by a watchpoint. Can trap.
    Check {
        /// Bytes, 1 to 64.
        len: u8,
        /// To be written, else read.
        write: bool,
        /// Base address.
        addr: Val,
        /// Added to the base.
        offset: i32,
    },
    /// The instruction traps with this cause and value if the I value isn't zero.
    TrapIf {
        /// The condition.
        cond: Val,
        /// Cause, as the guest numbers it.
        cause: u64,
        /// Value that goes with it.
        value: u64,
    },
    /// I: function number `function` of [`crate::Layout::pure`], which sees nothing but its arguments; absent
    /// ones are 0.
    Pure {
        /// Number, private to the guest.
        function: u16,
        /// Arguments (I).
        args: [Option<Val>; 4],
    },
    /// I: `value` if `known` isn't zero, else as [`Op::Pure`], which isn't called otherwise.
    PureUnless {
        /// Whether the value is known (I).
        known: Val,
        /// It (I).
        value: Val,
        /// Number, private to the guest.
        function: u16,
        /// Arguments (I).
        args: [Option<Val>; 4],
    },
    /// I: the flags of the floating-point environment ([`crate::Layout::fp_flags`]), as it has them.
    GetFlags,
    /// Stores an I value's bits as the flags of the floating-point environment.
    SetFlags(Val),
    /// F: the content of a slot.
    GetF(Slot),
    /// Stores an F value into a slot.
    SetF(Slot, Val),
    /// F: loads from `addr + offset`; above the 32 bits of F32 are zeros; can trap.
    LoadF {
        /// Format.
        fmt: Fmt,
        /// Base address (I).
        addr: Val,
        /// Added to the base.
        offset: i32,
    },
    /// Stores an F value to `addr + offset`; can trap.
    StoreF {
        /// Format.
        fmt: Fmt,
        /// Base address (I).
        addr: Val,
        /// Added to the base.
        offset: i32,
        /// What is stored (F).
        value: Val,
    },
    /// F from I: the same bits.
    FromBits(Val),
    /// I from F: the same bits (F32: zero-extended).
    ToBits(Fmt, Val),
    /// F from F, F.
    FBin(FBin, Fmt, Rm, Val, Val),
    /// F from F. For `Convert`, the format is that of the source.
    FUn(FUn, Fmt, Rm, Val),
    /// F: `±(a × b) ± c` with one rounding.
    FFma {
        /// Format.
        fmt: Fmt,
        /// Rounding.
        rm: Rm,
        /// Negates the product.
        negate_product: bool,
        /// Negates the addend.
        negate_addend: bool,
        /// a, b, c.
        args: [Val; 3],
    },
    /// I: 0 or 1.
    FCmp(FCond, Fmt, Val, Val),
    /// I: how two F values compare, quiet unless `bool` says signalling: 1 if the first is less, 0x40 if they are equal, 0x45 if
    /// they are unordered, 0 if it is greater. Raises flags.
    FOrder(bool, Fmt, Val, Val),
    /// F from F, F: the low 32 bits of the second, the others of the first.
    FJoin32(Val, Val),
    /// I: the class of an F value as a ten-bit mask (RISC-V fclass).
    FClass(Fmt, Val),
    /// I from F: saturating conversion; NaN yields the greatest value; out of range raises only INVALID.
    /// With [`crate::FloatRules::Sse`] whatever doesn't fit yields the sign bit alone; only I32 and I64 exist.
    FToInt(Fmt, Int, Rm, Val),
    /// F from I.
    FFromInt(Fmt, Int, Rm, Val),
    /// V: the content of two slots, the first of which is even.
    GetV(Slot),
    /// Stores a V value into two slots, the first of which is even.
    SetV(Slot, Val),
    /// V: loads 16 bytes from `addr + offset`: a [`Op::Check`] of them all and two loads of 8 bytes, the lower one first. Can
    /// trap.
    LoadV {
        /// Base address (I).
        addr: Val,
        /// Added to the base.
        offset: i32,
    },
    /// Stores 16 bytes to `addr + offset`: a [`Op::Check`] of them all and two stores of 8 bytes, the lower one first. Can trap.
    StoreV {
        /// Base address (I).
        addr: Val,
        /// Added to the base.
        offset: i32,
        /// What is stored (V).
        value: Val,
    },
    /// V from I, I: low and high quadword.
    VPair(Val, Val),
    /// V from F: the low quadword; the high one is 0.
    VFromF(Val),
    /// F from V: the low quadword.
    VToF(Val),
    /// V from V, V.
    VBin(VBin, Val, Val),
    /// V from V.
    VUn(VUn, Val),
    /// V from V and a constant.
    VImm(VImm, Val, u8),
    /// V from V, V and a constant.
    VImm2(VImm2, Val, Val, u8),
    /// V from V, V, V: elements of the third where the highest bit of the first's is set, else of the second.
    VSelect(Size, Val, Val, Val),
    /// V from V, I: with the element of that index (modulo their number) replaced by the low bits of an I value.
    VInsert(Size, u8, Val, Val),
    /// I from V: the element of that index (modulo their number), zero-extended.
    VExtract(Size, u8, Val),
    /// I from V: the highest bits of all elements.
    VMask(Size, Val),
    /// I from V: 1 if all bits are 0, else 0.
    VIsZero(Val),
    /// V from V, V: on packed numbers, rounded as the environment says. This and the ops below are only for guests with
    /// [`crate::FloatRules::Sse`]: what other rules make of them is the interpreter's alone.
    VFBin(FBin, Fmt, Val, Val),
    /// V from V: square roots.
    VFSqrt(Fmt, Val),
    /// V from V, V: all ones where the comparison holds (doesn't hold, if `bool` says so), else 0.
    VFCmp(FCond, bool, Fmt, Val, Val),
    /// V from V.
    VConvert(VConvert, Val),
    /// Leaves the block behind its instruction, whose last op it is, to go on at `target` if the comparison holds: a branch of
    /// a path that goes on within the block otherwise.
    ExitIf {
        /// The comparison.
        cond: Cond,
        /// Its width.
        width: Width,
        /// First operand (I).
        a: Val,
        /// Second operand (I).
        b: Val,
        /// Where to if it holds.
        target: Target,
    },
    /// I: runs the guest's helper of that number ([`crate::Cpu::call`]), which sees and may change the
    /// whole hart; can trap. What it may change of the mode obliges the lifter to end the block.
    Call {
        /// Number, private to the guest.
        helper: u16,
        /// Arguments (I).
        args: [Option<Val>; 3],
    },
}

/// The kind of host register in which a value is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Integer.
    I,
    /// Floating point.
    F,
    /// Vector.
    V,
}

/// A direct target: an offset from the virtual base of the block's page; outside 0..4096 it is on
/// another page, and then the fetch translation of that page is checked at every crossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(pub i32);

impl Target {
    /// Whether the target is on the block's own page.
    pub fn same_page(self) -> bool {
        (0..4096).contains(&self.0)
    }
}

/// How a block ends. All are equivalent to: set the program counter, go back to the run loop; what is
/// said beyond that is leave to be faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Terminal {
    /// Goes on at a constant target; nothing needs to be looked at in between.
    Jump(Target),
    /// Goes on at `taken` if the comparison holds, else at `fall`.
    Branch {
        /// The comparison.
        cond: Cond,
        /// Its width.
        width: Width,
        /// First operand.
        a: Val,
        /// Second operand.
        b: Val,
        /// Where to if it holds.
        taken: Target,
        /// Where to if not.
        fall: Target,
    },
    /// Goes on at a computed address.
    Indirect(Val),
    /// Goes back to the run loop with this program counter: the mode, the interrupts or the map may have
    /// changed.
    Dispatch(Target),
    /// As `Dispatch` if the value isn't zero, else as `Jump`.
    Ask(Val, Target),
    /// Goes back to the run loop; the last instruction's `Call` has set the pc slot itself.
    Left,
    /// The last instruction traps (it has committed nothing).
    Trap {
        /// Cause, as the guest numbers it.
        cause: u64,
        /// Value that goes with it.
        value: TrapValue,
    },
}

impl Terminal {
    /// The op that takes its place at the end of an instruction where the block goes on at `next`; `Some(None)` where nothing
    /// is left to be asked. `None`: the block can't go on there.
    pub fn followed(&self, next: u16) -> Option<Option<Op>> {
        let next = Target(next.into());
        match *self {
            Terminal::Jump(target) if target == next => Some(None),
            Terminal::Branch {
                cond,
                width,
                a,
                b,
                taken,
                fall,
            } if fall == next || taken == next => {
                let (cond, target) = if fall == next {
                    (cond, taken)
                } else {
                    (cond.inverted(), fall)
                };
                Some(Some(Op::ExitIf {
                    cond,
                    width,
                    a,
                    b,
                    target,
                }))
            }
            _ => None,
        }
    }
}

/// The value that goes with a constant trap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrapValue {
    /// This one.
    Const(u64),
    /// The address of the trapping instruction.
    Pc,
}

/// One guest instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Offset of its first byte in the page.
    pub offset: u16,
    /// Length in bytes.
    pub len: u8,
    /// Index of its first op; its ops end where the next instruction's begin.
    pub first_op: u16,
}

/// The translation of a run of guest instructions. See the module's documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Instructions in order; never empty.
    pub insns: Vec<Insn>,
    /// Operations in order.
    pub ops: Vec<Op>,
    /// The end.
    pub terminal: Terminal,
    /// Whether its one instruction has bytes on the next page too.
    pub straddles: bool,
}

impl Block {
    /// Number of steps that the whole block makes.
    pub fn steps(&self) -> u32 {
        self.insns.len() as u32
    }

    /// The ops of instruction `i`.
    pub fn ops_of(&self, i: usize) -> std::ops::Range<usize> {
        let first = self.insns[i].first_op as usize;
        let end = self
            .insns
            .get(i + 1)
            .map_or(self.ops.len(), |n| n.first_op as usize);
        first..end
    }

    /// Checks the rules of the module's documentation. A violation is a bug of a lifter or a pass.
    pub fn verify(&self) -> Result<(), String> {
        if self.insns.is_empty() || self.insns.len() > MAX_INSNS {
            return Err(format!("{} instructions", self.insns.len()));
        }
        let check = |v: Val, class: Class, at: usize| match self.ops.get(v.0 as usize).and_then(Op::class) {
            Some(c) if c == class && (v.0 as usize) < at => Ok(()),
            other => Err(format!("op {at} uses v{} ({other:?}) as {class:?}", v.0)),
        };
        for i in 0..self.insns.len() {
            let mut committed = false;
            for at in self.ops_of(i) {
                let op = &self.ops[at];
                let mut result = Ok(());
                op.operands(|v, class| {
                    if result.is_ok() {
                        result = check(v, class, at);
                    }
                });
                result?;
                if op.can_trap() && committed {
                    return Err(format!("op {at} can trap after its instruction committed"));
                }
                if matches!(op, Op::ExitIf { .. }) && at + 1 != self.ops_of(i).end {
                    return Err(format!("op {at} leaves before its instruction's end"));
                }
                if let Op::GetV(slot) | Op::SetV(slot, _) = op
                    && slot.0 % 2 != 0
                {
                    return Err(format!("op {at} has a vector in slots from {slot} on"));
                }
                committed |= matches!(op, Op::Set(..) | Op::SetF(..) | Op::SetV(..) | Op::SetFlags(_));
            }
        }
        match self.terminal {
            Terminal::Branch { a, b, .. } => {
                check(a, Class::I, self.ops.len())?;
                check(b, Class::I, self.ops.len())
            }
            Terminal::Indirect(v) | Terminal::Ask(v, _) => check(v, Class::I, self.ops.len()),
            Terminal::Jump(_) | Terminal::Dispatch(_) | Terminal::Left | Terminal::Trap { .. } => Ok(()),
        }
    }
}
