//! Between Rust and translated code: entering it, and what it calls.
//!
//! Unsafe here: the call into translated code, and the raw pointers that come back out of it.
#![allow(unsafe_code)]

use std::mem::offset_of;

use cpu::ir::{
    FBin, FCond, FUn, Fmt, Int, Rm, Rmw, Size, eval_fbin, eval_fclass, eval_fcmp, eval_ffma, eval_ffromint,
    eval_ftoint, eval_fun,
};
use cpu::softfloat::Round;
use cpu::{Env, Here, Layout, Outcome, Trap, interp};

/// What callbacks need, and what they leave behind for [`enter`]'s caller. Translated code knows it as an
/// address only.
#[repr(C)]
pub struct Ctx {
    /// Steps left: set before entry, and at the exit.
    pub budget: u64,
    slow: Callback,
    wide: Callback,
    call: Callback,
    env: *mut (),
    words: *mut u64,
    layout: &'static Layout,
    /// Whether the stop was one before an instruction with a breakpoint.
    pub breakpoint: bool,
    /// Steps that the helper just called made besides its own.
    more_steps: u64,
    /// Accesses asked about.
    pub slow_calls: u64,
    /// Helpers called.
    pub helper_calls: u64,
}

type Callback = extern "sysv64" fn(*mut Ctx, *mut u64, u64) -> u64;

impl Ctx {
    /// Where translated code finds the fields.
    pub const BUDGET: i32 = offset_of!(Ctx, budget) as i32;
    pub const SLOW: i32 = offset_of!(Ctx, slow) as i32;
    pub const WIDE: i32 = offset_of!(Ctx, wide) as i32;
    pub const CALL: i32 = offset_of!(Ctx, call) as i32;
    pub const MORE_STEPS: i32 = offset_of!(Ctx, more_steps) as i32;
}

/// The constant that a stub passes: where the op stands and what kind of access it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desc(pub u32);

/// Kinds of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Load,
    Store,
    Rmw(Rmw),
    Breakpoint,
    /// Of that many bytes, to be written or read.
    Check(u8, bool),
    /// Of 16 bytes.
    LoadV,
    StoreV,
    /// A helper.
    Helper(Position),
}

/// Where in its block a helper is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The block goes on.
    Inside,
    /// At its end, where [`Env::boundary`] is asked.
    Last,
    /// Nowhere: [`Env::boundary`] alone is asked.
    Behind,
    /// Nowhere: a trap is delivered, of cause and value in arguments 0 and 1; argument 2 says that the value is pc.
    Trap,
}

const RMWS: [Rmw; 9] = [
    Rmw::Swap,
    Rmw::Add,
    Rmw::And,
    Rmw::Or,
    Rmw::Xor,
    Rmw::MinS,
    Rmw::MaxS,
    Rmw::MinU,
    Rmw::MaxU,
];
const SIZES: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];

impl Desc {
    /// Of an op of the instruction at `offset`, before which r15 + `rest` steps are left.
    pub fn new(offset: u16, rest: u32, kind: Kind, size: Size) -> Desc {
        let (kind, op) = match kind {
            Kind::Load => (0, 0),
            Kind::Store => (1, 0),
            Kind::Rmw(op) => (2, op as u32),
            Kind::Breakpoint => (3, 0),
            Kind::Check(len, write) => (4, u32::from(len) << 1 | u32::from(write)),
            Kind::LoadV => (5, 0),
            Kind::StoreV => (6, 0),
            Kind::Helper(position) => (7, position as u32),
        };
        debug_assert!(rest < 128);
        Desc(u32::from(offset) | rest << 12 | kind << 19 | (size as u32) << 22 | op << 24)
    }

    fn here(self, r15: u64) -> Here {
        Here {
            offset: (self.0 & 0xfff) as u16,
            left: r15.wrapping_add(u64::from(self.0 >> 12 & 0x7f)),
        }
    }

    fn kind(self) -> Kind {
        match self.0 >> 19 & 7 {
            0 => Kind::Load,
            1 => Kind::Store,
            2 => Kind::Rmw(RMWS[(self.0 >> 24 & 15) as usize]),
            3 => Kind::Breakpoint,
            5 => Kind::LoadV,
            6 => Kind::StoreV,
            7 => Kind::Helper(match self.0 >> 24 & 3 {
                0 => Position::Inside,
                1 => Position::Last,
                2 => Position::Behind,
                _ => Position::Trap,
            }),
            _ => Kind::Check((self.0 >> 25) as u8, self.0 >> 24 & 1 != 0),
        }
    }

    fn size(self) -> Size {
        SIZES[(self.0 >> 22 & 3) as usize]
    }
}

fn code(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Leave => 1,
        Outcome::Stop => 2,
    }
}

/// Enters translated code. Returns the exit number; the rest is in `ctx` and in the slots.
///
/// # Safety
/// `enter` is the thunk of that name, `entry` the entry of a block of the same cache, made for
/// `layout`; the engine words of `env`'s slots point to a data TLB and a jump cache that live.
pub unsafe fn run<E: Env>(
    enter: u64,
    entry: u64,
    layout: &'static Layout,
    env: &mut E,
    budget: u64,
) -> (u32, Ctx) {
    let words = env.regs().words_mut().as_mut_ptr();
    let mut ctx = Ctx {
        budget,
        slow: slow::<E>,
        wide: wide::<E>,
        call: call::<E>,
        env: (env as *mut E).cast(),
        words,
        layout,
        breakpoint: false,
        more_steps: 0,
        slow_calls: 0,
        helper_calls: 0,
    };
    // SAFETY: the thunk has this signature (thunks.rs). It and the blocks touch the words, guest memory
    // by way of the TLB, their stack frame and `ctx`; `env` is used only by the callbacks, which have
    // it from `ctx`, and not here until they are over.
    let number = unsafe {
        let enter: extern "sysv64" fn(*mut u64, u64, *mut Ctx) -> u32 =
            std::mem::transmute(enter as *const ());
        enter(words, entry, &mut ctx)
    };
    (number, ctx)
}

/// Notes that the instruction `here` is not done.
///
/// # Safety
/// As for [`slow`].
unsafe fn stop(ctx: *mut Ctx, here: Here) {
    // SAFETY: `ctx` and the words live while translated code runs; no reference to either exists.
    unsafe {
        let layout = (*ctx).layout;
        let words = (*ctx).words;
        let page = *words.add(usize::from(layout.page.0));
        *words.add(usize::from(layout.pc.0)) = page.wrapping_add(u64::from(here.offset));
        (*ctx).budget = here.left;
    }
}

/// An access that misses the TLB, or a breakpoint question. `args`: descriptor, value, address -> result.
extern "sysv64" fn slow<E: Env>(ctx: *mut Ctx, args: *mut u64, r15: u64) -> u64 {
    // SAFETY: the thunk passes the `ctx` of `run` and three words on its stack; `env` came from a
    // `&mut E` that `run` holds and doesn't use meanwhile.
    unsafe {
        let env = &mut *(*ctx).env.cast::<E>();
        (*ctx).slow_calls += 1;
        let desc = Desc(*args as u32);
        let (value, addr, size) = (*args.add(1), *args.add(2), desc.size());
        let here = desc.here(r15);
        let (outcome, result) = match desc.kind() {
            Kind::Load => env.load(here, addr, size),
            Kind::Store => (env.store(here, addr, size, value & size.mask()), 0),
            Kind::Rmw(op) => env.rmw(here, op, addr, size, value),
            Kind::Breakpoint if env.breakpoint(here) => {
                (*ctx).breakpoint = true;
                (Outcome::Stop, 0)
            }
            Kind::Breakpoint => (Outcome::Done, 0),
            Kind::Check(len, write) => (env.check(here, addr, len.into(), write), 0),
            Kind::LoadV | Kind::StoreV | Kind::Helper(_) => unreachable!("they have thunks of their own"),
        };
        if outcome == Outcome::Stop {
            stop(ctx, here);
        }
        *args.add(2) = result;
        code(outcome)
    }
}

/// An access to 16 bytes that misses the TLB. `args`: descriptor, low and high quadword -> result, address.
extern "sysv64" fn wide<E: Env>(ctx: *mut Ctx, args: *mut u64, r15: u64) -> u64 {
    // SAFETY: as in `slow`, with four words.
    unsafe {
        let env = &mut *(*ctx).env.cast::<E>();
        (*ctx).slow_calls += 1;
        let desc = Desc(*args as u32);
        let (value, addr) = ([*args.add(1), *args.add(2)], *args.add(3));
        let here = desc.here(r15);
        let outcome = if desc.kind() == Kind::StoreV {
            interp::store_vector(env, here, addr, value)
        } else {
            let (outcome, [low, high]) = interp::load_vector(env, here, addr);
            *args.add(1) = low;
            *args.add(2) = high;
            outcome
        };
        if outcome == Outcome::Stop {
            stop(ctx, here);
        }
        code(outcome)
    }
}

/// A guest's helper, or the boundary at the end of a block, or both. `args`: descriptor, number, arguments 2, 1, 0 -> result.
extern "sysv64" fn call<E: Env>(ctx: *mut Ctx, args: *mut u64, r15: u64) -> u64 {
    // SAFETY: as in `slow`, with five words.
    unsafe {
        let env = &mut *(*ctx).env.cast::<E>();
        (*ctx).helper_calls += 1;
        (*ctx).more_steps = 0;
        let desc = Desc(*args as u32);
        let here = desc.here(r15);
        let position = match desc.kind() {
            Kind::Helper(position) => position,
            _ => Position::Inside,
        };
        let (mut outcome, mut result) = (Outcome::Done, 0);
        if position == Position::Trap {
            let value = match *args.add(2) {
                0 => *args.add(3),
                _ => (*(*ctx).words.add(usize::from((*ctx).layout.page.0)))
                    .wrapping_add(u64::from(here.offset)),
            };
            let trap = Trap {
                cause: *args.add(4),
                value,
            };
            outcome = env.trap(here, trap);
        } else if position != Position::Behind {
            let helper = *args.add(1) as u16;
            (outcome, result) = env.call(here, helper, [*args.add(4), *args.add(3), *args.add(2)]);
        }
        if matches!(position, Position::Last | Position::Behind) && outcome == Outcome::Done {
            let more;
            (outcome, more) = env.boundary(here.left - 1);
            if outcome == Outcome::Done {
                (*ctx).more_steps = more;
            }
        }
        if outcome == Outcome::Stop {
            stop(ctx, here);
        }
        *args.add(4) = result;
        code(outcome)
    }
}

/// A function of the guest's. `args`: its number, arguments 3, 2, 1, 0 -> result.
pub extern "sysv64" fn pure(args: *mut u64, layout: &'static Layout) {
    // SAFETY: the thunk passes five words on its stack, and the layout that it was made for.
    unsafe {
        let function = layout.pure[*args as usize];
        *args.add(4) = function([*args.add(4), *args.add(3), *args.add(2), *args.add(1)]);
    }
}

/// A floating-point op that is computed in software, as a number for [`soft`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Soft {
    Bin(FBin, Fmt, Rm),
    Un(FUn, Fmt, Rm),
    /// With the negations of product and addend.
    Fma(Fmt, Rm, bool, bool),
    Cmp(FCond, Fmt),
    Class(Fmt),
    ToInt(Fmt, Int, Rm),
    FromInt(Fmt, Int, Rm),
}

const FBINS: [FBin; 6] = [FBin::Add, FBin::Sub, FBin::Mul, FBin::Div, FBin::Min, FBin::Max];
const FUNS: [FUn; 6] = [FUn::Neg, FUn::Abs, FUn::Sqrt, FUn::Convert, FUn::Unbox, FUn::Box];
const FCONDS: [FCond; 7] = [
    FCond::Eq,
    FCond::Lt,
    FCond::Le,
    FCond::LtQuiet,
    FCond::LeQuiet,
    FCond::Unordered,
    FCond::UnorderedSignal,
];
const INTS: [Int; 4] = [Int::I32, Int::U32, Int::I64, Int::U64];
const ROUNDS: [Round; 5] = [
    Round::NearestEven,
    Round::TowardZero,
    Round::Down,
    Round::Up,
    Round::NearestMaxMagnitude,
];

impl Soft {
    /// The number: kind, op, format, rounding (7: dynamic), from the low end in fields of four bits.
    pub fn number(self) -> u32 {
        let rm = |rm: Rm| match rm {
            Rm::Dynamic => 7,
            Rm::Static(round) => round as u32,
        };
        let (kind, op, fmt, rm) = match self {
            Soft::Bin(op, fmt, r) => (0, op as u32, fmt, rm(r)),
            Soft::Un(op, fmt, r) => (1, op as u32, fmt, rm(r)),
            Soft::Fma(fmt, r, p, a) => (2, u32::from(p) | u32::from(a) << 1, fmt, rm(r)),
            Soft::Cmp(op, fmt) => (3, op as u32, fmt, 7),
            Soft::Class(fmt) => (4, 0, fmt, 7),
            Soft::ToInt(fmt, int, r) => (5, int as u32, fmt, rm(r)),
            Soft::FromInt(fmt, int, r) => (6, int as u32, fmt, rm(r)),
        };
        kind | op << 4 | (fmt as u32) << 8 | rm << 12
    }

    fn of(number: u32) -> Soft {
        let op = (number >> 4 & 15) as usize;
        let fmt = if number >> 8 & 15 == 0 { Fmt::F32 } else { Fmt::F64 };
        let rm = ROUNDS
            .get((number >> 12 & 15) as usize)
            .map_or(Rm::Dynamic, |r| Rm::Static(*r));
        match number & 15 {
            0 => Soft::Bin(FBINS[op], fmt, rm),
            1 => Soft::Un(FUNS[op], fmt, rm),
            2 => Soft::Fma(fmt, rm, op & 1 != 0, op & 2 != 0),
            3 => Soft::Cmp(FCONDS[op], fmt),
            4 => Soft::Class(fmt),
            5 => Soft::ToInt(fmt, INTS[op], rm),
            _ => Soft::FromInt(fmt, INTS[op], rm),
        }
    }
}

/// Soft floating point. `args`: number, c, b, a -> result.
pub extern "sysv64" fn soft(ctx: *mut Ctx, args: *mut u64, _r15: u64) -> u64 {
    // SAFETY: the thunk passes the `ctx` of `run` and four words on its stack; the environment slot is
    // referred to by nobody else meanwhile.
    unsafe {
        let fp_env = &mut *(*ctx).words.add(usize::from((*ctx).layout.fp_env.0));
        let rules = (*ctx).layout.float;
        let (c, b, a) = (*args.add(1), *args.add(2), *args.add(3));
        *args.add(3) = match Soft::of(*args as u32) {
            Soft::Bin(op, fmt, rm) => eval_fbin(rules, op, fmt, rm, a, b, fp_env),
            Soft::Un(op, fmt, rm) => eval_fun(rules, op, fmt, rm, a, fp_env),
            Soft::Fma(fmt, rm, p, n) => eval_ffma(rules, fmt, rm, (p, n), [a, b, c], fp_env),
            Soft::Cmp(op, fmt) => u64::from(eval_fcmp(rules, op, fmt, a, b, fp_env)),
            Soft::Class(fmt) => eval_fclass(fmt, a),
            Soft::ToInt(fmt, int, rm) => eval_ftoint(rules, fmt, int, rm, a, fp_env),
            Soft::FromInt(fmt, int, rm) => eval_ffromint(rules, fmt, int, rm, a, fp_env),
        };
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_soft_numbers_come_back() {
        for op in RMWS {
            let desc = Desc::new(0xffe, 64, Kind::Rmw(op), Size::B8);
            assert_eq!((desc.kind(), desc.size()), (Kind::Rmw(op), Size::B8));
            assert_eq!(
                desc.here(u64::MAX - 3),
                Here {
                    offset: 0xffe,
                    left: 60
                }
            );
        }
        for position in [Position::Inside, Position::Last, Position::Behind, Position::Trap] {
            let desc = Desc::new(1, 1, Kind::Helper(position), Size::B8);
            assert_eq!(desc.kind(), Kind::Helper(position));
        }
        let rms = ROUNDS.map(Rm::Static).into_iter().chain([Rm::Dynamic]);
        for rm in rms {
            for fmt in [Fmt::F32, Fmt::F64] {
                for soft in [
                    Soft::Bin(FBin::Max, fmt, rm),
                    Soft::Un(FUn::Convert, fmt, rm),
                    Soft::Fma(fmt, rm, false, true),
                    Soft::ToInt(fmt, Int::U64, rm),
                    Soft::FromInt(fmt, Int::U32, rm),
                ] {
                    assert_eq!(Soft::of(soft.number()), soft);
                }
            }
        }
    }
}
