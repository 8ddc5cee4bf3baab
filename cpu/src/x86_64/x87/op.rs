//! The x87 instructions, and which opcode is which. SDM 2D, tables.

use crate::softfloat::extended::{Constant, IntegerWidth};

/// A format in memory (SDM 1, table 8-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// m32fp.
    Single,
    /// m64fp.
    Double,
    /// m80fp.
    Extended,
    /// m16int.
    Word,
    /// m32int.
    Doubleword,
    /// m64int.
    Quadword,
    /// m80bcd.
    Bcd,
}

impl Format {
    /// Bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Word => 2,
            Self::Single | Self::Doubleword => 4,
            Self::Double | Self::Quadword => 8,
            Self::Extended | Self::Bcd => 10,
        }
    }

    pub(super) const fn integer(self) -> Option<IntegerWidth> {
        match self {
            Self::Word => Some(IntegerWidth::W16),
            Self::Doubleword => Some(IntegerWidth::W32),
            Self::Quadword => Some(IntegerWidth::W64),
            _ => None,
        }
    }
}

/// The basic arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Destination + source.
    Fadd,
    /// Destination * source.
    Fmul,
    /// Destination - source.
    Fsub,
    /// Source - destination.
    Fsubr,
    /// Destination / source.
    Fdiv,
    /// Source / destination.
    Fdivr,
}

/// Destination and source of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// ST(0) and memory.
    Memory(Format),
    /// ST(0) and ST(i).
    ToTop(u8),
    /// ST(i) and ST(0).
    FromTop {
        /// i.
        to: u8,
        /// Pop ST(0) after.
        pop: bool,
    },
}

/// A condition of `fcmovcc`, by EFLAGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// CF.
    Below,
    /// ZF.
    Equal,
    /// CF or ZF.
    BelowOrEqual,
    /// PF.
    Unordered,
}

/// What an instruction's memory operand is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// There is none.
    None,
    /// This many bytes are read.
    Read(usize),
    /// This many bytes are written.
    Write(usize),
    /// `fldenv`: 14 or 28 bytes are read, by the operand size.
    ReadEnvironment,
    /// `fnstenv`: 14 or 28 bytes are written.
    WriteEnvironment,
    /// `frstor`: 94 or 108 bytes are read.
    ReadState,
    /// `fnsave`: 94 or 108 bytes are written.
    WriteState,
}

/// An x87 instruction. i is a stack position from 0 to 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum X87Op {
    /// `fld m`, `fild`, `fbld`: push memory.
    Fld(Format),
    /// `fld st(i)`: push a register.
    FldRegister(u8),
    /// `fld1`, `fldpi`, ...: push a constant.
    FldConstant(Constant),
    /// `fst m`, `fstp m`, `fist`, `fistp`, `fbstp`.
    Fst {
        /// In memory.
        format: Format,
        /// Pop after.
        pop: bool,
    },
    /// `fisttp`.
    Fisttp(Format),
    /// `fst st(i)`, `fstp st(i)`.
    FstRegister {
        /// i.
        to: u8,
        /// Pop after.
        pop: bool,
    },
    /// 0xd9 0xd8+i, reserved: `fstp st(i)` without stack faults; an empty ST(0) is popped, no more.
    FstpNoCheck(u8),
    /// `fadd`, `fiadd`, `faddp`, `fsub`, ...
    Arithmetic(Arithmetic, Operands),
    /// `fcom m`, `fcomp m`, `ficom`, `ficomp`.
    Fcom {
        /// Of the operand.
        format: Format,
        /// Pop after.
        pop: bool,
    },
    /// `fcom st(i)`, `fcomp`, `fcompp`, `fucom`, `fucomp`, `fucompp`.
    FcomRegister {
        /// i.
        with: u8,
        /// `fucom`: a quiet NaN is not invalid.
        quiet: bool,
        /// How many are popped.
        pops: u8,
    },
    /// `fcomi`, `fcomip`, `fucomi`, `fucomip`: the outcome goes to EFLAGS.
    Fcomi {
        /// i.
        with: u8,
        /// `fucomi`: a quiet NaN is not invalid.
        quiet: bool,
        /// Pop after.
        pop: bool,
    },
    /// `fcmovcc`.
    Fcmov {
        /// When to move.
        condition: Condition,
        /// When not to.
        negated: bool,
        /// i.
        from: u8,
    },
    /// `fxch`.
    Fxch(u8),
    /// `ffree`, and `ffreep` if it pops.
    Ffree {
        /// i.
        what: u8,
        /// Pop after.
        pop: bool,
    },
    /// `fchs`.
    Fchs,
    /// `fabs`.
    Fabs,
    /// `ftst`.
    Ftst,
    /// `fxam`.
    Fxam,
    /// `f2xm1`.
    F2xm1,
    /// `fyl2x`.
    Fyl2x,
    /// `fptan`.
    Fptan,
    /// `fpatan`.
    Fpatan,
    /// `fxtract`.
    Fxtract,
    /// `fprem1`.
    Fprem1,
    /// `fdecstp`.
    Fdecstp,
    /// `fincstp`.
    Fincstp,
    /// `fprem`.
    Fprem,
    /// `fyl2xp1`.
    Fyl2xp1,
    /// `fsqrt`.
    Fsqrt,
    /// `fsincos`.
    Fsincos,
    /// `frndint`.
    Frndint,
    /// `fscale`.
    Fscale,
    /// `fsin`.
    Fsin,
    /// `fcos`.
    Fcos,
    /// `fnop`.
    Fnop,
    /// `wait` (opcode 0x9b; not from an escape opcode).
    Fwait,
    /// `fninit`.
    Fninit,
    /// `fnclex`.
    Fnclex,
    /// `fnstsw`, to memory or AX.
    Fnstsw,
    /// `fnstcw`.
    Fnstcw,
    /// `fldcw`.
    Fldcw,
    /// `fnstenv`.
    Fnstenv,
    /// `fldenv`.
    Fldenv,
    /// `fnsave`.
    Fnsave,
    /// `frstor`.
    Frstor,
    /// `fneni`, `fndisi`, `fnsetpm`: of the 8087 and 287; nothing happens.
    Ignored,
}

impl X87Op {
    /// The instruction with the first opcode byte `escape` (0xd8 to 0xdf) and the second one `modrm`. `None`: #UD.
    ///
    /// Reserved opcodes that processors carry out as aliases (SDM 2D leaves them blank) are carried out.
    #[must_use]
    pub const fn from_opcode(escape: u8, modrm: u8) -> Option<Self> {
        let reg = modrm >> 3 & 7;
        if modrm < 0xc0 {
            return from_memory_form(escape, reg);
        }
        let i = modrm & 7;
        Some(match (escape, reg) {
            (0xd8, 2 | 3) | (0xdc, 2 | 3) | (0xde, 2) => Self::FcomRegister {
                with: i,
                quiet: false,
                pops: (reg == 3 || escape == 0xde) as u8,
            },
            (0xd8, _) => match arithmetic(reg) {
                Some(op) => Self::Arithmetic(op, Operands::ToTop(i)),
                None => return None,
            },
            (0xd9, 0) => Self::FldRegister(i),
            (0xd9, 1) | (0xdd | 0xdf, 1) => Self::Fxch(i),
            (0xd9, 2) if i == 0 => Self::Fnop,
            (0xd9, 3) => Self::FstpNoCheck(i),
            (0xdf, 2 | 3) => Self::FstRegister { to: i, pop: true },
            (0xd9, _) => return from_d9(modrm),
            (0xda | 0xdb, 0..=3) => Self::Fcmov {
                condition: match reg {
                    0 => Condition::Below,
                    1 => Condition::Equal,
                    2 => Condition::BelowOrEqual,
                    _ => Condition::Unordered,
                },
                negated: escape == 0xdb,
                from: i,
            },
            (0xda, 5) if i == 1 => Self::FcomRegister {
                with: 1,
                quiet: true,
                pops: 2,
            },
            (0xdb, 4) => match i {
                0 | 1 | 4 => Self::Ignored,
                2 => Self::Fnclex,
                3 => Self::Fninit,
                _ => return None,
            },
            (0xdb | 0xdf, 5 | 6) => Self::Fcomi {
                with: i,
                quiet: reg == 5,
                pop: escape == 0xdf,
            },
            (0xdc | 0xde, 0 | 1 | 4..) => {
                // Here the reversed forms come first.
                let reg = if reg >= 4 { reg ^ 1 } else { reg };
                match arithmetic(reg) {
                    Some(op) => Self::Arithmetic(
                        op,
                        Operands::FromTop {
                            to: i,
                            pop: escape == 0xde,
                        },
                    ),
                    None => return None,
                }
            }
            (0xde, 3) if i == 1 => Self::FcomRegister {
                with: 1,
                quiet: false,
                pops: 2,
            },
            (0xdd | 0xdf, 0) => Self::Ffree {
                what: i,
                pop: escape == 0xdf,
            },
            (0xdd, 2 | 3) => Self::FstRegister { to: i, pop: reg == 3 },
            (0xdd, 4 | 5) => Self::FcomRegister {
                with: i,
                quiet: true,
                pops: (reg == 5) as u8,
            },
            (0xdf, 4) if i == 0 => Self::Fnstsw,
            _ => return None,
        })
    }

    /// What the memory operand is used for (of `fnstsw` in its memory form).
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Fld(format) | Self::Arithmetic(_, Operands::Memory(format)) | Self::Fcom { format, .. } => {
                Access::Read(format.size())
            }
            Self::Fst { format, .. } | Self::Fisttp(format) => Access::Write(format.size()),
            Self::Fldcw => Access::Read(2),
            Self::Fnstsw | Self::Fnstcw => Access::Write(2),
            Self::Fldenv => Access::ReadEnvironment,
            Self::Fnstenv => Access::WriteEnvironment,
            Self::Frstor => Access::ReadState,
            Self::Fnsave => Access::WriteState,
            _ => Access::None,
        }
    }

    /// Whether it is carried out with an exception pending (SDM 1, 8.6).
    #[must_use]
    pub const fn is_non_waiting(self) -> bool {
        matches!(
            self,
            Self::Fninit
                | Self::Fnclex
                | Self::Fnstsw
                | Self::Fnstcw
                | Self::Fnstenv
                | Self::Fnsave
                | Self::Ignored
        )
    }

    /// Whether C2 tells of an incomplete reduction.
    pub(super) const fn reduces(self) -> bool {
        matches!(
            self,
            Self::Fprem | Self::Fprem1 | Self::Fsin | Self::Fcos | Self::Fsincos | Self::Fptan
        )
    }

    /// Whether it leaves the last opcode and pointers alone (SDM 1, 8.1.8).
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.is_non_waiting() || matches!(self, Self::Fldcw | Self::Fldenv | Self::Frstor | Self::Fwait)
    }
}

const fn arithmetic(reg: u8) -> Option<Arithmetic> {
    Some(match reg {
        0 => Arithmetic::Fadd,
        1 => Arithmetic::Fmul,
        4 => Arithmetic::Fsub,
        5 => Arithmetic::Fsubr,
        6 => Arithmetic::Fdiv,
        7 => Arithmetic::Fdivr,
        _ => return None,
    })
}

const fn from_memory_form(escape: u8, reg: u8) -> Option<X87Op> {
    let format = match escape {
        0xd8 | 0xd9 => Format::Single,
        0xda | 0xdb => Format::Doubleword,
        0xdc | 0xdd => Format::Double,
        0xde | 0xdf => Format::Word,
        _ => return None,
    };
    if escape & 1 == 0 {
        return Some(match arithmetic(reg) {
            Some(op) => X87Op::Arithmetic(op, Operands::Memory(format)),
            None => X87Op::Fcom {
                format,
                pop: reg == 3,
            },
        });
    }
    Some(match (escape, reg) {
        (_, 0) => X87Op::Fld(format),
        (0xdb | 0xdf, 1) => X87Op::Fisttp(format),
        (0xdd, 1) => X87Op::Fisttp(Format::Quadword),
        (_, 2 | 3) => X87Op::Fst {
            format,
            pop: reg == 3,
        },
        (0xd9, 4) => X87Op::Fldenv,
        (0xd9, 5) => X87Op::Fldcw,
        (0xd9, 6) => X87Op::Fnstenv,
        (0xd9, 7) => X87Op::Fnstcw,
        (0xdb, 5) => X87Op::Fld(Format::Extended),
        (0xdb, 7) => X87Op::Fst {
            format: Format::Extended,
            pop: true,
        },
        (0xdd, 4) => X87Op::Frstor,
        (0xdd, 6) => X87Op::Fnsave,
        (0xdd, 7) => X87Op::Fnstsw,
        (0xdf, 4) => X87Op::Fld(Format::Bcd),
        (0xdf, 5) => X87Op::Fld(Format::Quadword),
        (0xdf, 6) => X87Op::Fst {
            format: Format::Bcd,
            pop: true,
        },
        (0xdf, 7) => X87Op::Fst {
            format: Format::Quadword,
            pop: true,
        },
        _ => return None,
    })
}

/// 0xd9 0xe0 to 0xff.
const fn from_d9(modrm: u8) -> Option<X87Op> {
    Some(match modrm {
        0xe0 => X87Op::Fchs,
        0xe1 => X87Op::Fabs,
        0xe4 => X87Op::Ftst,
        0xe5 => X87Op::Fxam,
        0xe8..=0xee => X87Op::FldConstant(Constant::ALL[(modrm - 0xe8) as usize]),
        0xf0 => X87Op::F2xm1,
        0xf1 => X87Op::Fyl2x,
        0xf2 => X87Op::Fptan,
        0xf3 => X87Op::Fpatan,
        0xf4 => X87Op::Fxtract,
        0xf5 => X87Op::Fprem1,
        0xf6 => X87Op::Fdecstp,
        0xf7 => X87Op::Fincstp,
        0xf8 => X87Op::Fprem,
        0xf9 => X87Op::Fyl2xp1,
        0xfa => X87Op::Fsqrt,
        0xfb => X87Op::Fsincos,
        0xfc => X87Op::Frndint,
        0xfd => X87Op::Fscale,
        0xfe => X87Op::Fsin,
        0xff => X87Op::Fcos,
        _ => return None,
    })
}
