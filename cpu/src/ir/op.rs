//! What is said of ops in general: whether they can trap, the classes of their results and operands.

use super::{Class, Op, Val};

impl Op {
    /// Whether the op can leave the block before its instruction is complete.
    pub fn can_trap(&self) -> bool {
        matches!(
            self,
            Op::Load { .. }
                | Op::Store { .. }
                | Op::Rmw { .. }
                | Op::LoadF { .. }
                | Op::StoreF { .. }
                | Op::LoadV { .. }
                | Op::StoreV { .. }
                | Op::Check { .. }
                | Op::TrapIf { .. }
                | Op::Call { .. }
        )
    }

    /// The class of the result, if there is one.
    pub fn class(&self) -> Option<Class> {
        match self {
            Op::Const(_)
            | Op::Page(_)
            | Op::Get(_)
            | Op::Un(..)
            | Op::Bin(..)
            | Op::Cmp(..)
            | Op::Select(..)
            | Op::Load { .. }
            | Op::Rmw { .. }
            | Op::ToBits(..)
            | Op::FCmp(..)
            | Op::FOrder(..)
            | Op::FClass(..)
            | Op::GetFlags
            | Op::FToInt(..)
            | Op::Pure { .. }
            | Op::PureUnless { .. }
            | Op::VExtract(..)
            | Op::VMask(..)
            | Op::VIsZero(_)
            | Op::Call { .. } => Some(Class::I),
            Op::GetF(_)
            | Op::LoadF { .. }
            | Op::FromBits(_)
            | Op::FBin(..)
            | Op::FUn(..)
            | Op::FFma { .. }
            | Op::FJoin32(..)
            | Op::VToF(_)
            | Op::FFromInt(..) => Some(Class::F),
            Op::GetV(_)
            | Op::LoadV { .. }
            | Op::VPair(..)
            | Op::VFromF(_)
            | Op::VBin(..)
            | Op::VUn(..)
            | Op::VImm(..)
            | Op::VImm2(..)
            | Op::VSelect(..)
            | Op::VInsert(..)
            | Op::VFBin(..)
            | Op::VFSqrt(..)
            | Op::VFCmp(..)
            | Op::VConvert(..) => Some(Class::V),
            Op::Set(..)
            | Op::SetFlags(_)
            | Op::Store { .. }
            | Op::SetF(..)
            | Op::StoreF { .. }
            | Op::SetV(..)
            | Op::StoreV { .. }
            | Op::Check { .. }
            | Op::TrapIf { .. }
            | Op::ExitIf { .. } => None,
        }
    }

    /// Calls `f` with each operand and the class it must have.
    pub fn operands(&self, mut f: impl FnMut(Val, Class)) {
        match *self {
            Op::Const(_) | Op::Page(_) | Op::Get(_) | Op::GetF(_) | Op::GetV(_) | Op::GetFlags => {}
            Op::SetV(_, v)
            | Op::VToF(v)
            | Op::VUn(_, v)
            | Op::VImm(_, v, _)
            | Op::VExtract(_, _, v)
            | Op::VMask(_, v)
            | Op::VIsZero(v)
            | Op::VFSqrt(_, v)
            | Op::VConvert(_, v) => f(v, Class::V),
            Op::VBin(_, a, b) | Op::VImm2(_, a, b, _) | Op::VFBin(_, _, a, b) | Op::VFCmp(_, _, _, a, b) => {
                f(a, Class::V);
                f(b, Class::V);
            }
            Op::VSelect(_, mask, a, b) => {
                f(mask, Class::V);
                f(a, Class::V);
                f(b, Class::V);
            }
            Op::VInsert(_, _, v, x) => {
                f(v, Class::V);
                f(x, Class::I);
            }
            Op::Set(_, v) | Op::SetFlags(v) | Op::Un(_, v) | Op::FromBits(v) | Op::FFromInt(_, _, _, v) => {
                f(v, Class::I)
            }
            Op::SetF(_, v)
            | Op::VFromF(v)
            | Op::ToBits(_, v)
            | Op::FUn(_, _, _, v)
            | Op::FClass(_, v)
            | Op::FToInt(_, _, _, v) => f(v, Class::F),
            Op::Bin(_, _, a, b) | Op::Cmp(_, _, a, b) | Op::VPair(a, b) | Op::ExitIf { a, b, .. } => {
                f(a, Class::I);
                f(b, Class::I);
            }
            Op::Select(c, a, b) => {
                f(c, Class::I);
                f(a, Class::I);
                f(b, Class::I);
            }
            Op::Load { addr, .. }
            | Op::LoadF { addr, .. }
            | Op::LoadV { addr, .. }
            | Op::Check { addr, .. } => f(addr, Class::I),
            Op::TrapIf { cond, .. } => f(cond, Class::I),
            Op::PureUnless {
                known, value, args, ..
            } => [Some(known), Some(value)]
                .into_iter()
                .chain(args)
                .flatten()
                .for_each(|v| f(v, Class::I)),
            Op::Pure { args, .. } => args.into_iter().flatten().for_each(|v| f(v, Class::I)),
            Op::Store { addr, value, .. } | Op::Rmw { addr, value, .. } => {
                f(addr, Class::I);
                f(value, Class::I);
            }
            Op::StoreF { addr, value, .. } => {
                f(addr, Class::I);
                f(value, Class::F);
            }
            Op::StoreV { addr, value, .. } => {
                f(addr, Class::I);
                f(value, Class::V);
            }
            Op::FBin(_, _, _, a, b) | Op::FCmp(_, _, a, b) | Op::FOrder(_, _, a, b) | Op::FJoin32(a, b) => {
                f(a, Class::F);
                f(b, Class::F);
            }
            Op::FFma { args, .. } => args.into_iter().for_each(|v| f(v, Class::F)),
            Op::Call { args, .. } => args.into_iter().flatten().for_each(|v| f(v, Class::I)),
        }
    }
}
