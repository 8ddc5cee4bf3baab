//! What is done to the ops of a block before code is made of them. Each pass is a file and can be turned
//! off, to find out which one is at fault. All work in place on a copy of the ops; an op that is no
//! longer needed becomes an unused constant.
//!
//! ```text
//!   forward   a slot read again is the value that it holds      fold   constants, identities
//!   dead      sets that nothing can see, values that nobody uses      sink   sets that only exits see are left to them
//! ```
//! What else can be turned off here: `paths`, made of several blocks by whoever lifts them ([`crate::Jit::compile_path`]); two
//! decisions of `plan.rs`, `homes` (results computed right into their home) and `share` (one TLB check for all accesses off one
//! base); and `guess` of `gen/memory.rs`.

mod dead;
mod fold;
mod forward;

pub(crate) use dead::{Boundary, May, Sunk, Uses, dead};
pub(crate) use fold::fold;
pub(crate) use forward::{Held, forward};

use cpu::ir::{Op, Val};

/// A set of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes(u8);

impl Passes {
    /// Slots read again.
    pub const FORWARD: Passes = Passes(1);
    /// Constants and identities.
    pub const FOLD: Passes = Passes(2);
    /// Sets that nothing can see.
    pub const DEAD: Passes = Passes(4);
    /// Results right into homes.
    pub const HOMES: Passes = Passes(8);
    /// Shared TLB checks.
    pub const SHARE: Passes = Passes(16);
    /// Sets that only exits can see are left to them.
    pub const SINK: Passes = Passes(32);
    /// What runs often is made anew, along the path that is mostly taken.
    pub const PATHS: Passes = Passes(64);
    /// Host addresses of a path's reads are guessed.
    pub const GUESS: Passes = Passes(128);

    const NAMES: [(&'static str, Passes); 8] = [
        ("forward", Passes::FORWARD),
        ("fold", Passes::FOLD),
        ("dead", Passes::DEAD),
        ("homes", Passes::HOMES),
        ("share", Passes::SHARE),
        ("sink", Passes::SINK),
        ("paths", Passes::PATHS),
        ("guess", Passes::GUESS),
    ];

    /// Every pass.
    pub const fn all() -> Passes {
        Passes(255)
    }

    /// No pass.
    pub const fn none() -> Passes {
        Passes(0)
    }

    /// These without `pass`.
    pub const fn without(self, pass: Passes) -> Passes {
        Passes(self.0 & !pass.0)
    }

    /// Whether all of `pass` are in it.
    pub const fn has(self, pass: Passes) -> bool {
        self.0 & pass.0 == pass.0
    }

    /// The pass of that name.
    pub fn named(name: &str) -> Option<Passes> {
        Passes::NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }

    /// The set that a list says: names with commas between them, `none` or `all` first if it isn't to begin with nothing
    /// (or, where the first name is taken out, with all), `-NAME` to take one out. `None`: there is no such pass.
    pub fn listed(list: &str) -> Option<Passes> {
        let mut set = if list.trim_start().starts_with('-') {
            Passes::all()
        } else {
            Passes::none()
        };
        for word in list.split(',').map(str::trim) {
            match (word, word.strip_prefix('-')) {
                ("none", _) => set = Passes::none(),
                ("all", _) => set = Passes::all(),
                (_, Some(name)) => set = set.without(Passes::named(name)?),
                (name, None) => set = Passes(set.0 | Passes::named(name)?.0),
            }
        }
        Some(set)
    }

    /// The names of all passes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Passes::NAMES.iter().map(|(n, _)| *n)
    }
}

/// Replaces each operand by what `f` makes of it.
pub fn map_operands(op: &mut Op, mut f: impl FnMut(Val) -> Val) {
    match op {
        Op::Const(_) | Op::Page(_) | Op::Get(_) | Op::GetF(_) | Op::GetV(_) | Op::GetFlags => {}
        Op::SetV(_, v)
        | Op::VToF(v)
        | Op::VFromF(v)
        | Op::VUn(_, v)
        | Op::VImm(_, v, _)
        | Op::VExtract(_, _, v)
        | Op::VMask(_, v)
        | Op::VIsZero(v)
        | Op::VFSqrt(_, v)
        | Op::VConvert(_, v)
        | Op::LoadV { addr: v, .. }
        | Op::Set(_, v)
        | Op::SetFlags(v)
        | Op::SetF(_, v)
        | Op::Un(_, v)
        | Op::FromBits(v)
        | Op::ToBits(_, v)
        | Op::FUn(_, _, _, v)
        | Op::FClass(_, v)
        | Op::FToInt(_, _, _, v)
        | Op::FFromInt(_, _, _, v)
        | Op::Load { addr: v, .. }
        | Op::Check { addr: v, .. }
        | Op::TrapIf { cond: v, .. }
        | Op::LoadF { addr: v, .. } => *v = f(*v),
        Op::PureUnless {
            known, value, args, ..
        } => {
            (*known, *value) = (f(*known), f(*value));
            args.iter_mut().flatten().for_each(|v| *v = f(*v));
        }
        Op::Pure { args, .. } => args.iter_mut().flatten().for_each(|v| *v = f(*v)),
        Op::VPair(a, b)
        | Op::VBin(_, a, b)
        | Op::VImm2(_, a, b, _)
        | Op::VInsert(_, _, a, b)
        | Op::VFBin(_, _, a, b)
        | Op::VFCmp(_, _, _, a, b)
        | Op::StoreV {
            addr: a, value: b, ..
        }
        | Op::Bin(_, _, a, b)
        | Op::Cmp(_, _, a, b)
        | Op::ExitIf { a, b, .. }
        | Op::FBin(_, _, _, a, b)
        | Op::FCmp(_, _, a, b)
        | Op::FOrder(_, _, a, b)
        | Op::FJoin32(a, b)
        | Op::Store {
            addr: a, value: b, ..
        }
        | Op::StoreF {
            addr: a, value: b, ..
        }
        | Op::Rmw {
            addr: a, value: b, ..
        } => {
            *a = f(*a);
            *b = f(*b);
        }
        Op::Select(c, a, b) | Op::VSelect(_, c, a, b) => {
            *c = f(*c);
            *a = f(*a);
            *b = f(*b);
        }
        Op::FFma { args, .. } => args.iter_mut().for_each(|v| *v = f(*v)),
        Op::Call { args, .. } => args.iter_mut().flatten().for_each(|v| *v = f(*v)),
    }
}

/// Whether an op does nothing but yield its value.
pub(crate) fn is_pure(op: &Op) -> bool {
    use cpu::ir::FUn;
    match op {
        Op::Const(_)
        | Op::Page(_)
        | Op::Get(_)
        | Op::GetF(_)
        | Op::GetV(_)
        | Op::VPair(..)
        | Op::VToF(_)
        | Op::VFromF(_)
        | Op::FJoin32(..)
        | Op::VBin(..)
        | Op::VUn(..)
        | Op::VImm(..)
        | Op::VImm2(..)
        | Op::VSelect(..)
        | Op::VInsert(..)
        | Op::VExtract(..)
        | Op::VMask(..)
        | Op::VIsZero(_)
        | Op::Un(..)
        | Op::Bin(..)
        | Op::Cmp(..)
        | Op::Select(..)
        | Op::FromBits(_)
        | Op::ToBits(..)
        | Op::FClass(..)
        | Op::Pure { .. }
        | Op::PureUnless { .. }
        | Op::FUn(FUn::Neg | FUn::Abs | FUn::Unbox | FUn::Box, ..) => true,
        // They raise flags, or see them.
        Op::GetFlags | Op::SetFlags(_) => false,
        Op::VFBin(..) | Op::VFSqrt(..) | Op::VFCmp(..) | Op::VConvert(..) => false,
        Op::FBin(..)
        | Op::FUn(FUn::Sqrt | FUn::Convert, ..)
        | Op::FFma { .. }
        | Op::FCmp(..)
        | Op::FOrder(..)
        | Op::FToInt(..)
        | Op::FFromInt(..) => false,
        Op::Set(..)
        | Op::SetF(..)
        | Op::SetV(..)
        | Op::LoadV { .. }
        | Op::StoreV { .. }
        | Op::Load { .. }
        | Op::LoadF { .. }
        | Op::Store { .. }
        | Op::StoreF { .. }
        | Op::Rmw { .. }
        | Op::Check { .. }
        | Op::TrapIf { .. }
        | Op::ExitIf { .. }
        | Op::Call { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_passes() {
        let without = Passes::all().without(Passes::SHARE);
        for (list, set) in [
            ("none", Passes::none()),
            ("all", Passes::all()),
            ("fold", Passes::FOLD),
            ("-share", without),
            ("all,-share", without),
            (" fold, -fold ", Passes::none()),
        ] {
            assert_eq!(Passes::listed(list), Some(set), "{list}");
        }
        for list in ["", "folds", "fold,,dead", "-none"] {
            assert_eq!(Passes::listed(list), None, "{list}");
        }
    }
}
