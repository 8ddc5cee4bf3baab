//! The IR interpreter: runs a block as it stands. Portable, and the oracle that the JIT is held against.
//!
//! It keeps the same contract as translated code: before each instruction the budget is tested, so it
//! stops exactly where it is told; accesses and helpers learn their exact place ([`Here`]); an instruction
//! that is stopped has committed nothing.

use crate::ir::{
    Block, Op, Size, Slot, Target, Terminal, TrapValue, Val, Vector, eval_bin, eval_cmp, eval_fbin,
    eval_fclass, eval_fcmp, eval_ffma, eval_ffromint, eval_forder, eval_ftoint, eval_fun, eval_un, eval_vbin,
    eval_vconvert, eval_vextract, eval_vfbin, eval_vfcmp, eval_vfsqrt, eval_vimm, eval_vimm2, eval_vinsert,
    eval_vmask, eval_vselect, eval_vun,
};
use crate::{Env, Exit, Here, Layout, Outcome, Trap};

/// Values of a running block, kept by the caller so that nothing is allocated per block.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<u64>,
    /// Those of class V.
    vectors: Vec<Vector>,
}

/// Runs `block`, whose page's virtual base is in the page slot, until it ends, `budget` is used up, or it
/// has to be left. Each instruction completed takes one from `budget`; so do deliveries by the caller, not
/// here: on [`Exit::Stop`] and [`Exit::Trap`] the instruction at pc isn't counted. `breakpoints` are the page
/// offsets before which [`Env::breakpoint`] is asked.
pub fn run<E: Env + ?Sized>(
    block: &Block,
    layout: &Layout,
    env: &mut E,
    scratch: &mut Scratch,
    budget: &mut u64,
    breakpoints: &[u16],
) -> Exit {
    let page = env.regs()[layout.page];
    let Scratch { values, vectors } = scratch;
    values.resize(block.ops.len(), 0);
    if vectors.len() < block.ops.len() {
        vectors.resize(block.ops.len(), [0; 2]);
    }
    for (i, insn) in block.insns.iter().enumerate() {
        let pc = page.wrapping_add(u64::from(insn.offset));
        if *budget == 0 {
            env.regs()[layout.pc] = pc;
            return Exit::Budget;
        }
        let here = Here {
            offset: insn.offset,
            left: *budget,
        };
        if breakpoints.contains(&insn.offset) && env.breakpoint(here) {
            env.regs()[layout.pc] = pc;
            return Exit::Breakpoint;
        }
        let last = i + 1 == block.insns.len();
        if last && let Terminal::Trap { cause, value } = block.terminal {
            env.regs()[layout.pc] = pc;
            let value = match value {
                TrapValue::Const(value) => value,
                TrapValue::Pc => pc,
            };
            return Exit::Trap(Trap { cause, value });
        }
        let mut leave = false;
        for at in block.ops_of(i) {
            if let Op::ExitIf {
                cond,
                width,
                a,
                b,
                target,
            } = block.ops[at]
            {
                let value = |v: Val| values[v.0 as usize];
                if eval_cmp(cond, width, value(a), value(b)) {
                    *budget -= 1;
                    env.regs()[layout.pc] = page.wrapping_add(target.0 as i64 as u64);
                    return if leave { Exit::Dispatch } else { Exit::Next };
                }
                continue;
            }
            match step(&block.ops[at], at, values, vectors, layout, env, here) {
                (Outcome::Done, value) => values[at] = value,
                (Outcome::Leave, value) => {
                    leave = true;
                    values[at] = value;
                }
                (Outcome::Stop, _) => {
                    env.regs()[layout.pc] = pc;
                    return Exit::Stop;
                }
            }
        }
        *budget -= 1;
        if leave && !last {
            env.regs()[layout.pc] = page.wrapping_add(u64::from(block.insns[i + 1].offset));
            return Exit::Dispatch;
        }
        if last {
            return end(block, layout, env, values, page, leave);
        }
    }
    unreachable!("a block has at least one instruction")
}

/// Where the block ends, its last instruction being complete.
fn end<E: Env + ?Sized>(
    block: &Block,
    layout: &Layout,
    env: &mut E,
    values: &[u64],
    page: u64,
    leave: bool,
) -> Exit {
    let value = |v: Val| values[v.0 as usize];
    let target = |t: Target| page.wrapping_add(t.0 as i64 as u64);
    let (pc, exit) = match block.terminal {
        Terminal::Jump(t) => (target(t), Exit::Next),
        Terminal::Branch {
            cond,
            width,
            a,
            b,
            taken,
            fall,
        } => {
            let t = if eval_cmp(cond, width, value(a), value(b)) {
                taken
            } else {
                fall
            };
            (target(t), Exit::Next)
        }
        Terminal::Indirect(v) => (value(v), Exit::Next),
        Terminal::Dispatch(t) => (target(t), Exit::Dispatch),
        Terminal::Ask(v, t) if value(v) == 0 => (target(t), Exit::Next),
        Terminal::Ask(_, t) => (target(t), Exit::Dispatch),
        Terminal::Left => return Exit::Dispatch,
        Terminal::Trap { .. } => unreachable!("a trapping instruction never completes"),
    };
    env.regs()[layout.pc] = pc;
    if leave { Exit::Dispatch } else { exit }
}

/// Op `at`: how it ended and the value that it yields (0 if none, or if it is a vector, which goes to its place).
fn step<E: Env + ?Sized>(
    op: &Op,
    at: usize,
    values: &[u64],
    vectors: &mut [Vector],
    layout: &Layout,
    env: &mut E,
    here: Here,
) -> (Outcome, u64) {
    let value = |v: Val| values[v.0 as usize];
    let vector = |v: Val| vectors[v.0 as usize];
    let address = |addr: Val, offset: i32| value(addr).wrapping_add(offset as i64 as u64);
    let result = match *op {
        Op::Const(c) => c,
        Op::Page(offset) => env.regs()[layout.page].wrapping_add(offset as i64 as u64),
        Op::Get(slot) | Op::GetF(slot) => env.regs()[slot],
        Op::Set(slot, v) | Op::SetF(slot, v) => {
            env.regs()[slot] = value(v);
            0
        }
        Op::Un(op, v) => eval_un(op, value(v)),
        Op::Bin(op, width, a, b) => eval_bin(op, width, value(a), value(b)),
        Op::Cmp(cond, width, a, b) => eval_cmp(cond, width, value(a), value(b)) as u64,
        Op::Select(c, a, b) => value(if value(c) != 0 { a } else { b }),
        Op::Load {
            size,
            signed,
            addr,
            offset,
        } => {
            let (outcome, loaded) = env.load(here, address(addr, offset), size);
            return (outcome, if signed { size.sign_extend(loaded) } else { loaded });
        }
        Op::Store {
            size,
            addr,
            offset,
            value: v,
        } => {
            return (
                env.store(here, address(addr, offset), size, value(v) & size.mask()),
                0,
            );
        }
        Op::Rmw {
            op,
            size,
            addr,
            value: v,
        } => {
            let (outcome, old) = env.rmw(here, op, value(addr), size, value(v));
            return (outcome, size.sign_extend(old));
        }
        Op::Check {
            len,
            write,
            addr,
            offset,
        } => return (env.check(here, address(addr, offset), len.into(), write), 0),
        Op::TrapIf {
            cond,
            cause,
            value: v,
        } => {
            if value(cond) != 0 {
                return (env.raise(here, Trap { cause, value: v }), 0);
            }
            0
        }
        Op::PureUnless { known, value: v, .. } if value(known) != 0 => value(v),
        Op::Pure { function, args } | Op::PureUnless { function, args, .. } => {
            (layout.pure[usize::from(function)])(args.map(|v| v.map_or(0, value)))
        }
        Op::ExitIf { .. } => unreachable!("asked by the caller"),
        Op::LoadF { fmt, addr, offset } => return env.load(here, address(addr, offset), size_of(fmt)),
        Op::StoreF {
            fmt,
            addr,
            offset,
            value: v,
        } => {
            let size = size_of(fmt);
            return (
                env.store(here, address(addr, offset), size, value(v) & size.mask()),
                0,
            );
        }
        Op::GetFlags => env.regs()[layout.fp_env] & u64::from(layout.fp_flags),
        Op::SetFlags(v) => {
            let flags = u64::from(layout.fp_flags);
            let fp_env = &mut env.regs()[layout.fp_env];
            *fp_env = *fp_env & !flags | value(v) & flags;
            0
        }
        Op::FromBits(v) => value(v),
        Op::ToBits(fmt, v) => value(v) & size_of(fmt).mask(),
        Op::FBin(op, fmt, rm, a, b) => eval_fbin(
            layout.float,
            op,
            fmt,
            rm,
            value(a),
            value(b),
            &mut env.regs()[layout.fp_env],
        ),
        Op::FUn(op, fmt, rm, v) => eval_fun(
            layout.float,
            op,
            fmt,
            rm,
            value(v),
            &mut env.regs()[layout.fp_env],
        ),
        Op::FFma {
            fmt,
            rm,
            negate_product,
            negate_addend,
            args,
        } => {
            let negate = (negate_product, negate_addend);
            eval_ffma(
                layout.float,
                fmt,
                rm,
                negate,
                args.map(value),
                &mut env.regs()[layout.fp_env],
            )
        }
        Op::FCmp(cond, fmt, a, b) => eval_fcmp(
            layout.float,
            cond,
            fmt,
            value(a),
            value(b),
            &mut env.regs()[layout.fp_env],
        ) as u64,
        Op::FOrder(signalling, fmt, a, b) => {
            let fp_env = &mut env.regs()[layout.fp_env];
            eval_forder(layout.float, signalling, fmt, value(a), value(b), fp_env)
        }
        Op::FJoin32(a, b) => value(a) & !0xffff_ffff | value(b) & 0xffff_ffff,
        Op::FClass(fmt, v) => eval_fclass(fmt, value(v)),
        Op::FToInt(fmt, int, rm, v) => eval_ftoint(
            layout.float,
            fmt,
            int,
            rm,
            value(v),
            &mut env.regs()[layout.fp_env],
        ),
        Op::FFromInt(fmt, int, rm, v) => eval_ffromint(
            layout.float,
            fmt,
            int,
            rm,
            value(v),
            &mut env.regs()[layout.fp_env],
        ),
        Op::Call { helper, args } => return env.call(here, helper, args.map(|v| v.map_or(0, value))),
        Op::SetV(slot, v) => {
            let [low, high] = vector(v);
            env.regs()[slot] = low;
            env.regs()[Slot(slot.0 + 1)] = high;
            0
        }
        Op::StoreV {
            addr,
            offset,
            value: v,
        } => return (store_vector(env, here, address(addr, offset), vector(v)), 0),
        Op::VToF(v) => vector(v)[0],
        Op::VExtract(size, index, v) => eval_vextract(size, index, vector(v)),
        Op::VMask(size, v) => eval_vmask(size, vector(v)),
        Op::VIsZero(v) => u64::from(vector(v) == [0; 2]),
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
        | Op::VConvert(..) => {
            let (outcome, vector) = vector_step(op, values, vectors, layout, env, here);
            vectors[at] = vector;
            return (outcome, 0);
        }
    };
    (Outcome::Done, result)
}

/// One op that yields a vector.
fn vector_step<E: Env + ?Sized>(
    op: &Op,
    values: &[u64],
    vectors: &[Vector],
    layout: &Layout,
    env: &mut E,
    here: Here,
) -> (Outcome, Vector) {
    let value = |v: Val| values[v.0 as usize];
    let vector = |v: Val| vectors[v.0 as usize];
    let rules = layout.float;
    let result = match *op {
        Op::GetV(slot) => [env.regs()[slot], env.regs()[Slot(slot.0 + 1)]],
        Op::LoadV { addr, offset } => {
            return load_vector(env, here, value(addr).wrapping_add(offset as i64 as u64));
        }
        Op::VPair(low, high) => [value(low), value(high)],
        Op::VFromF(v) => [value(v), 0],
        Op::VBin(op, a, b) => eval_vbin(op, vector(a), vector(b)),
        Op::VUn(op, v) => eval_vun(op, vector(v)),
        Op::VImm(op, v, imm) => eval_vimm(op, vector(v), imm),
        Op::VImm2(op, a, b, imm) => eval_vimm2(op, vector(a), vector(b), imm),
        Op::VSelect(size, mask, a, b) => eval_vselect(size, vector(mask), vector(a), vector(b)),
        Op::VInsert(size, index, v, x) => eval_vinsert(size, index, vector(v), value(x)),
        Op::VFBin(op, fmt, a, b) => {
            let fp_env = &mut env.regs()[layout.fp_env];
            eval_vfbin(rules, op, fmt, vector(a), vector(b), fp_env)
        }
        Op::VFSqrt(fmt, v) => eval_vfsqrt(rules, fmt, vector(v), &mut env.regs()[layout.fp_env]),
        Op::VFCmp(cond, negate, fmt, a, b) => {
            let fp_env = &mut env.regs()[layout.fp_env];
            eval_vfcmp(rules, cond, negate, fmt, vector(a), vector(b), fp_env)
        }
        Op::VConvert(op, v) => eval_vconvert(rules, op, vector(v), &mut env.regs()[layout.fp_env]),
        _ => unreachable!("it yields no vector"),
    };
    (Outcome::Done, result)
}

/// How two parts of one access end together.
fn both(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Outcome::Stop, _) | (_, Outcome::Stop) => Outcome::Stop,
        (Outcome::Leave, _) | (_, Outcome::Leave) => Outcome::Leave,
        (Outcome::Done, Outcome::Done) => Outcome::Done,
    }
}

/// What [`Op::LoadV`] does to the world.
pub fn load_vector<E: Env + ?Sized>(env: &mut E, here: Here, addr: u64) -> (Outcome, Vector) {
    let checked = env.check(here, addr, 16, false);
    if checked == Outcome::Stop {
        return (checked, [0; 2]);
    }
    let (first, low) = env.load(here, addr, Size::B8);
    if first == Outcome::Stop {
        return (first, [0; 2]);
    }
    let (second, high) = env.load(here, addr.wrapping_add(8), Size::B8);
    (both(checked, both(first, second)), [low, high])
}

/// What [`Op::StoreV`] does to the world.
pub fn store_vector<E: Env + ?Sized>(env: &mut E, here: Here, addr: u64, value: Vector) -> Outcome {
    let checked = env.check(here, addr, 16, true);
    if checked == Outcome::Stop {
        return checked;
    }
    let first = env.store(here, addr, Size::B8, value[0]);
    if first == Outcome::Stop {
        return first;
    }
    let second = env.store(here, addr.wrapping_add(8), Size::B8, value[1]);
    both(checked, both(first, second))
}

const fn size_of(fmt: crate::ir::Fmt) -> Size {
    match fmt {
        crate::ir::Fmt::F32 => Size::B4,
        crate::ir::Fmt::F64 => Size::B8,
    }
}
