//! The IR as text, for golden files and for people.

use std::fmt;

use super::{Block, Op, Slot, Target, Terminal, Val};

/// With its sign, in hexadecimal.
struct Offset(i32);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        write!(f, "{sign}{:#x}", self.0.unsigned_abs())
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page{}", Offset(self.0))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Const(c) => write!(f, "const {c:#x}"),
            Op::Page(o) => write!(f, "page{}", Offset(*o)),
            Op::Get(s) => write!(f, "get {s}"),
            Op::Set(s, v) => write!(f, "set {s}, {v}"),
            Op::Un(op, v) => write!(f, "{op:?} {v}"),
            Op::Bin(op, w, a, b) => write!(f, "{op:?}.{w:?} {a}, {b}"),
            Op::Cmp(c, w, a, b) => write!(f, "cmp.{c:?}.{w:?} {a}, {b}"),
            Op::Select(c, a, b) => write!(f, "select {c}, {a}, {b}"),
            Op::Load {
                size,
                signed,
                addr,
                offset,
            } => {
                write!(
                    f,
                    "load.{size:?}{} [{addr}{}]",
                    if *signed { ".s" } else { "" },
                    Offset(*offset)
                )
            }
            Op::Store {
                size,
                addr,
                offset,
                value,
            } => write!(f, "store.{size:?} [{addr}{}], {value}", Offset(*offset)),
            Op::Rmw {
                op,
                size,
                addr,
                value,
            } => write!(f, "rmw.{op:?}.{size:?} [{addr}], {value}"),
            Op::Check {
                len,
                write,
                addr,
                offset,
            } => {
                let what = if *write { "write" } else { "read" };
                write!(f, "check.{what} [{addr}{}], {len}", Offset(*offset))
            }
            Op::TrapIf { cond, cause, value } => write!(f, "trapif {cond}, {cause:#x}, {value:#x}"),
            Op::ExitIf {
                cond,
                width,
                a,
                b,
                target,
            } => write!(f, "exitif.{cond:?}.{width:?} {a}, {b} ? {target}"),
            Op::Pure { function, args } | Op::PureUnless { function, args, .. } => {
                if let Op::PureUnless { known, value, .. } = self {
                    write!(f, "if {known} {value} else ")?;
                }
                write!(f, "pure {function}(")?;
                for (i, v) in args.iter().flatten().enumerate() {
                    write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
                }
                write!(f, ")")
            }
            Op::GetFlags => write!(f, "getflags"),
            Op::SetFlags(v) => write!(f, "setflags {v}"),
            Op::GetF(s) => write!(f, "getf {s}"),
            Op::SetF(s, v) => write!(f, "setf {s}, {v}"),
            Op::LoadF { fmt, addr, offset } => write!(f, "loadf.{fmt:?} [{addr}{}]", Offset(*offset)),
            Op::StoreF {
                fmt,
                addr,
                offset,
                value,
            } => write!(f, "storef.{fmt:?} [{addr}{}], {value}", Offset(*offset)),
            Op::FromBits(v) => write!(f, "frombits {v}"),
            Op::ToBits(fmt, v) => write!(f, "tobits.{fmt:?} {v}"),
            Op::FBin(op, fmt, rm, a, b) => write!(f, "f{op:?}.{fmt:?}.{rm:?} {a}, {b}"),
            Op::FUn(op, fmt, rm, a) => write!(f, "f{op:?}.{fmt:?}.{rm:?} {a}"),
            Op::FFma {
                fmt,
                rm,
                negate_product,
                negate_addend,
                args: [a, b, c],
            } => {
                let p = if *negate_product { "-" } else { "" };
                let s = if *negate_addend { '-' } else { '+' };
                write!(f, "ffma.{fmt:?}.{rm:?} {p}({a} * {b}) {s} {c}")
            }
            Op::FCmp(c, fmt, a, b) => write!(f, "fcmp.{c:?}.{fmt:?} {a}, {b}"),
            Op::FOrder(signalling, fmt, a, b) => {
                write!(
                    f,
                    "forder{}.{fmt:?} {a}, {b}",
                    if *signalling { ".s" } else { "" }
                )
            }
            Op::FJoin32(a, b) => write!(f, "fjoin32 {a}, {b}"),
            Op::FClass(fmt, v) => write!(f, "fclass.{fmt:?} {v}"),
            Op::FToInt(fmt, int, rm, v) => write!(f, "ftoint.{fmt:?}.{int:?}.{rm:?} {v}"),
            Op::FFromInt(fmt, int, rm, v) => write!(f, "ffromint.{fmt:?}.{int:?}.{rm:?} {v}"),
            Op::GetV(s) => write!(f, "getv {s}"),
            Op::SetV(s, v) => write!(f, "setv {s}, {v}"),
            Op::LoadV { addr, offset } => write!(f, "loadv [{addr}{}]", Offset(*offset)),
            Op::StoreV { addr, offset, value } => write!(f, "storev [{addr}{}], {value}", Offset(*offset)),
            Op::VPair(a, b) => write!(f, "vpair {a}, {b}"),
            Op::VFromF(v) => write!(f, "vfromf {v}"),
            Op::VToF(v) => write!(f, "vtof {v}"),
            Op::VBin(op, a, b) => write!(f, "v{op:?} {a}, {b}"),
            Op::VUn(op, v) => write!(f, "v{op:?} {v}"),
            Op::VImm(op, v, imm) => write!(f, "v{op:?} {v}, {imm:#x}"),
            Op::VImm2(op, a, b, imm) => write!(f, "v{op:?} {a}, {b}, {imm:#x}"),
            Op::VSelect(size, mask, a, b) => write!(f, "vselect.{size:?} {mask}, {a}, {b}"),
            Op::VInsert(size, i, v, x) => write!(f, "vinsert.{size:?} {v}[{i}], {x}"),
            Op::VExtract(size, i, v) => write!(f, "vextract.{size:?} {v}[{i}]"),
            Op::VMask(size, v) => write!(f, "vmask.{size:?} {v}"),
            Op::VIsZero(v) => write!(f, "viszero {v}"),
            Op::VFBin(op, fmt, a, b) => write!(f, "vf{op:?}.{fmt:?} {a}, {b}"),
            Op::VFSqrt(fmt, v) => write!(f, "vfsqrt.{fmt:?} {v}"),
            Op::VFCmp(c, not, fmt, a, b) => {
                write!(f, "vfcmp.{}{c:?}.{fmt:?} {a}, {b}", if *not { "Not" } else { "" })
            }
            Op::VConvert(op, v) => write!(f, "v{op:?} {v}"),
            Op::Call { helper, args } => {
                write!(f, "call {helper}(")?;
                for (i, v) in args.iter().flatten().enumerate() {
                    write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
                }
                write!(f, ")")
            }
        }
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Terminal::Jump(t) => write!(f, "jump {t}"),
            Terminal::Branch {
                cond,
                width,
                a,
                b,
                taken,
                fall,
            } => {
                write!(f, "branch.{cond:?}.{width:?} {a}, {b} ? {taken} : {fall}")
            }
            Terminal::Indirect(v) => write!(f, "indirect {v}"),
            Terminal::Dispatch(t) => write!(f, "dispatch {t}"),
            Terminal::Ask(v, t) => write!(f, "ask {v}, {t}"),
            Terminal::Left => write!(f, "left"),
            Terminal::Trap { cause, value } => write!(f, "trap {cause}, {value:?}"),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, insn) in self.insns.iter().enumerate() {
            writeln!(f, "{:03x}:", insn.offset)?;
            for at in self.ops_of(i) {
                let op = &self.ops[at];
                match op.class() {
                    Some(_) => writeln!(f, "  v{at} = {op}")?,
                    None => writeln!(f, "  {op}")?,
                }
            }
        }
        writeln!(f, "  {}", self.terminal)
    }
}
