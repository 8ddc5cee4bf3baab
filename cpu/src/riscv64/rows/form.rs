//! Formats: the operands of an instruction as a type, taken out of its bits, and the constructors of rows.
//!
//! Each format is a struct of its operands and a variant of [`Form`] of the same name, which holds how the
//! operands are taken out of the bits (`None`: a reserved value) and what the instruction does with
//! them. Compressed instructions use the formats of what they look like in assembly, with decoders of
//! their own. How a format is written is said in `disasm.rs`.

use crate::riscv64::decode::{Fp, Row};
use crate::riscv64::lift::Lifter;

/// An integer register, x0 to x31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct X(pub u8);

/// A floating-point register, f0 to f31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct F(pub u8);

/// A rounding mode field: 0 to 4, or 7 for the dynamic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RmField(pub u8);

impl RmField {
    /// The mode in fcsr.frm.
    pub const DYNAMIC: RmField = RmField(7);
}

/// The aq and rl bits; on a machine whose harts take turns they order nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order(pub u8);

macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) struct $name { $(pub $field: $type),* }
        )*

        /// A format with its decoder and the meaning of one instruction.
        #[derive(Debug)]
        pub(crate) enum Form {
            $($(#[$doc])* $name(fn(u32) -> Option<$name>, fn(&mut Lifter, $name)),)*
        }

        impl Form {
            /// Lifts the instruction; false, having done nothing, if an operand is reserved.
            pub fn lift(&self, l: &mut Lifter, insn: u32) -> bool {
                match self {
                    $(Form::$name(decode, meaning) => decode(insn).map(|a| meaning(l, a)).is_some(),)*
                }
            }

            /// Writes the operands, and what is appended to the mnemonic; `None` if an operand is reserved.
            pub fn text(&self, insn: u32, pc: u64) -> Option<(&'static str, String)> {
                use crate::riscv64::disasm::Operands;
                match self {
                    $(Form::$name(decode, _) => decode(insn).map(|a| (a.suffix(), a.text(pc))),)*
                }
            }
        }
    };
}

forms! {
    /// `rd,rs1,rs2`
    R { rd: X, rs1: X, rs2: X }
    /// `rd,rs1,imm`
    I { rd: X, rs1: X, imm: i32 }
    /// `rd,rs1,shamt`
    Shift { rd: X, rs1: X, shamt: u8 }
    /// `rd,rs1`
    Unary { rd: X, rs1: X }
    /// `rd,imm` (compressed: the destination is a source too, or there is none)
    Imm { rd: X, imm: i32 }
    /// `rd,shamt` (compressed)
    ShiftImm { rd: X, shamt: u8 }
    /// `rd,offset(rs1)`
    Load { rd: X, rs1: X, offset: i32 }
    /// `rs2,offset(rs1)`
    Store { rs2: X, rs1: X, offset: i32 }
    /// `rs1,rs2,target`
    Branch { rs1: X, rs2: X, offset: i32 }
    /// `rs1,target` (compressed)
    BranchZero { rs1: X, offset: i32 }
    /// `rd,imm`, with the immediate in the upper bits
    Upper { rd: X, imm: i32 }
    /// `rd,target`
    Jal { rd: X, offset: i32 }
    /// `target` (compressed)
    Jump { offset: i32 }
    /// `rs1` (compressed)
    Reg { rs1: X }
    /// `rd,rs2,(rs1)`
    Amo { rd: X, rs1: X, rs2: X, order: Order }
    /// `rd,(rs1)`
    Lr { rd: X, rs1: X, order: Order }
    /// `rd,csr,rs1`
    Csr { rd: X, csr: u16, rs1: X }
    /// `rd,csr,uimm`
    CsrImm { rd: X, csr: u16, uimm: u8 }
    /// `pred,succ`
    Fence { pred: u8, succ: u8 }
    /// no operands
    Plain {}
    /// `rs1,rs2`
    Sfence { rs1: X, rs2: X }
    /// `(rs1)`
    Cbo { rs1: X }
    /// `rd,rs1,rs2` of floating-point registers
    FR { rd: F, rs1: F, rs2: F }
    /// `rd,rs1,rs2,rm`
    FRm { rd: F, rs1: F, rs2: F, rm: RmField }
    /// `rd,rs1,rm`
    FUnary { rd: F, rs1: F, rm: RmField }
    /// `rd,rs1,rs2,rs3,rm`
    FFused { rd: F, rs1: F, rs2: F, rs3: F, rm: RmField }
    /// `rd,rs1,rs2`, comparing
    FCompare { rd: X, rs1: F, rs2: F }
    /// `rd,rs1,rm` to an integer
    FToX { rd: X, rs1: F, rm: RmField }
    /// `rd,rs1,rm` from an integer
    XToF { rd: F, rs1: X, rm: RmField }
    /// `rd,rs1` to an integer register, without rounding
    FMoveX { rd: X, rs1: F }
    /// `rd,rs1` from an integer register, without rounding
    XMoveF { rd: F, rs1: X }
    /// `rd,offset(rs1)`
    FLoad { rd: F, rs1: X, offset: i32 }
    /// `rs2,offset(rs1)`
    FStore { rs2: F, rs1: X, offset: i32 }
}

const fn field(insn: u32, low: u32) -> u8 {
    (insn >> low & 31) as u8
}

const fn rd(insn: u32) -> u8 {
    field(insn, 7)
}

const fn rs1(insn: u32) -> u8 {
    field(insn, 15)
}

const fn rs2(insn: u32) -> u8 {
    field(insn, 20)
}

const fn imm_i(insn: u32) -> i32 {
    insn as i32 >> 20
}

const fn imm_s(insn: u32) -> i32 {
    insn as i32 >> 25 << 5 | rd(insn) as i32
}

const fn imm_b(insn: u32) -> i32 {
    (insn as i32 >> 31 << 12)
        | ((insn >> 7 & 1) as i32 * 0x800)
        | ((insn >> 25 & 0x3f) as i32 * 0x20)
        | ((insn >> 8 & 0xf) as i32 * 2)
}

const fn imm_j(insn: u32) -> i32 {
    (insn as i32 >> 31 << 20)
        | (insn & 0xff000) as i32
        | ((insn >> 20 & 1) as i32 * 0x800)
        | ((insn >> 21 & 0x3ff) as i32 * 2)
}

fn rm(insn: u32) -> Option<RmField> {
    let rm = RmField((insn >> 12 & 7) as u8);
    (rm.0 <= 4 || rm == RmField::DYNAMIC).then_some(rm)
}

fn order(insn: u32) -> Order {
    Order((insn >> 25 & 3) as u8)
}

/// A row of an integer instruction.
macro_rules! constructor {
    ($(#[$doc:meta])* $fn:ident, $form:ident, $fp:ident, |$insn:ident| $decode:expr) => {
        $(#[$doc])*
        pub(super) const fn $fn(name: &'static str, pattern: &'static str, meaning: fn(&mut Lifter, $form)) -> Row {
            fn decode($insn: u32) -> Option<$form> {
                $decode
            }
            Row::new(name, pattern, Fp::$fp, Form::$form(decode, meaning))
        }
    };
}

constructor!(r, R, None, |i| Some(R {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    rs2: X(rs2(i))
}));
constructor!(i, I, None, |i| Some(I {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    imm: imm_i(i)
}));
constructor!(shift, Shift, None, |i| Some(Shift {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    shamt: (i >> 20 & 63) as u8
}));
constructor!(unary, Unary, None, |i| Some(Unary {
    rd: X(rd(i)),
    rs1: X(rs1(i))
}));
constructor!(load, Load, None, |i| Some(Load {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    offset: imm_i(i)
}));
constructor!(store, Store, None, |i| Some(Store {
    rs2: X(rs2(i)),
    rs1: X(rs1(i)),
    offset: imm_s(i)
}));
constructor!(branch, Branch, None, |i| Some(Branch {
    rs1: X(rs1(i)),
    rs2: X(rs2(i)),
    offset: imm_b(i)
}));
constructor!(upper, Upper, None, |i| Some(Upper {
    rd: X(rd(i)),
    imm: (i & 0xffff_f000) as i32
}));
constructor!(jal, Jal, None, |i| Some(Jal {
    rd: X(rd(i)),
    offset: imm_j(i)
}));
constructor!(amo, Amo, None, |i| Some(Amo {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    rs2: X(rs2(i)),
    order: order(i)
}));
constructor!(lr, Lr, None, |i| Some(Lr {
    rd: X(rd(i)),
    rs1: X(rs1(i)),
    order: order(i)
}));
constructor!(csr, Csr, None, |i| Some(Csr {
    rd: X(rd(i)),
    csr: (i >> 20) as u16,
    rs1: X(rs1(i))
}));
constructor!(csr_imm, CsrImm, None, |i| Some(CsrImm {
    rd: X(rd(i)),
    csr: (i >> 20) as u16,
    uimm: rs1(i)
}));
constructor!(fence, Fence, None, |i| Some(Fence {
    pred: (i >> 24 & 15) as u8,
    succ: (i >> 20 & 15) as u8
}));
constructor!(plain, Plain, None, |_i| Some(Plain {}));
constructor!(sfence, Sfence, None, |i| Some(Sfence {
    rs1: X(rs1(i)),
    rs2: X(rs2(i))
}));
constructor!(cbo, Cbo, None, |i| Some(Cbo { rs1: X(rs1(i)) }));
constructor!(fr, FR, Writes, |i| Some(FR {
    rd: F(rd(i)),
    rs1: F(rs1(i)),
    rs2: F(rs2(i))
}));
constructor!(frm, FRm, Writes, |i| Some(FRm {
    rd: F(rd(i)),
    rs1: F(rs1(i)),
    rs2: F(rs2(i)),
    rm: rm(i)?
}));
constructor!(funary, FUnary, Writes, |i| Some(FUnary {
    rd: F(rd(i)),
    rs1: F(rs1(i)),
    rm: rm(i)?
}));
constructor!(ffused, FFused, Writes, |i| Some(FFused {
    rd: F(rd(i)),
    rs1: F(rs1(i)),
    rs2: F(rs2(i)),
    rs3: F(field(i, 27)),
    rm: rm(i)?
}));
// Writes, because flags may be raised.
constructor!(fcompare, FCompare, Writes, |i| Some(FCompare {
    rd: X(rd(i)),
    rs1: F(rs1(i)),
    rs2: F(rs2(i))
}));
constructor!(f_to_x, FToX, Writes, |i| Some(FToX {
    rd: X(rd(i)),
    rs1: F(rs1(i)),
    rm: rm(i)?
}));
constructor!(x_to_f, XToF, Writes, |i| Some(XToF {
    rd: F(rd(i)),
    rs1: X(rs1(i)),
    rm: rm(i)?
}));
constructor!(fmove_x, FMoveX, Reads, |i| Some(FMoveX {
    rd: X(rd(i)),
    rs1: F(rs1(i))
}));
constructor!(xmove_f, XMoveF, Writes, |i| Some(XMoveF {
    rd: F(rd(i)),
    rs1: X(rs1(i))
}));
constructor!(fload, FLoad, Writes, |i| Some(FLoad {
    rd: F(rd(i)),
    rs1: X(rs1(i)),
    offset: imm_i(i)
}));
constructor!(fstore, FStore, Reads, |i| Some(FStore {
    rs2: F(rs2(i)),
    rs1: X(rs1(i)),
    offset: imm_s(i)
}));
