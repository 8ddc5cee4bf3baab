//! What each pure op yields: the one definition that the interpreter, constant folding and the JIT's slow
//! paths share.

use super::{Bin, Cond, FBin, FCond, FUn, Fmt, Int, Rm, Rmw, Size, Un, Width};
use std::cmp::Ordering;

use crate::FloatRules;
use crate::softfloat::{self as sf, Env, F32, F64, Flags, Format, Round, sse};

/// A [`Un`] on a value.
pub fn eval_un(op: Un, v: u64) -> u64 {
    match op {
        Un::Not => !v,
        Un::Sext8 => v as i8 as u64,
        Un::Sext16 => v as i16 as u64,
        Un::Sext32 => v as i32 as u64,
        Un::Zext8 => v as u8 as u64,
        Un::Zext16 => v as u16 as u64,
        Un::Zext32 => v as u32 as u64,
        Un::Clz32 => (v as u32).leading_zeros() as u64,
        Un::Clz64 => v.leading_zeros() as u64,
        Un::Ctz32 => (v as u32).trailing_zeros() as u64,
        Un::Ctz64 => v.trailing_zeros() as u64,
        Un::Popcnt32 => (v as u32).count_ones() as u64,
        Un::Popcnt64 => v.count_ones() as u64,
        Un::Bswap64 => v.swap_bytes(),
        Un::OrcB => u64::from_le_bytes(v.to_le_bytes().map(|b| if b == 0 { 0 } else { 0xff })),
    }
}

/// A [`Bin`] on two values.
pub fn eval_bin(op: Bin, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => bin64(op, a, b),
        Width::W32 => bin32(op, a as u32, b as u32) as u64,
    }
}

fn bin64(op: Bin, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    match op {
        Bin::Add => a.wrapping_add(b),
        Bin::Sub => a.wrapping_sub(b),
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        Bin::Shl => a << (b & 63),
        Bin::Shr => a >> (b & 63),
        Bin::Sar => (sa >> (b & 63)) as u64,
        Bin::Rol => a.rotate_left(b as u32 & 63),
        Bin::Ror => a.rotate_right(b as u32 & 63),
        Bin::Mul => a.wrapping_mul(b),
        Bin::MulhU => ((a as u128 * b as u128) >> 64) as u64,
        Bin::MulhS => ((sa as i128 * sb as i128) >> 64) as u64,
        Bin::MulhSU => ((sa as i128).wrapping_mul(b as i128) >> 64) as u64,
        Bin::DivS if b == 0 => u64::MAX,
        Bin::DivS => sa.wrapping_div(sb) as u64,
        Bin::DivU => a.checked_div(b).unwrap_or(u64::MAX),
        Bin::RemS if b == 0 => a,
        Bin::RemS => sa.wrapping_rem(sb) as u64,
        Bin::RemU => a.checked_rem(b).unwrap_or(a),
        Bin::MinS => sa.min(sb) as u64,
        Bin::MaxS => sa.max(sb) as u64,
        Bin::MinU => a.min(b),
        Bin::MaxU => a.max(b),
    }
}

fn bin32(op: Bin, a: u32, b: u32) -> u32 {
    let (sa, sb) = (a as i32, b as i32);
    match op {
        Bin::Add => a.wrapping_add(b),
        Bin::Sub => a.wrapping_sub(b),
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        Bin::Shl => a << (b & 31),
        Bin::Shr => a >> (b & 31),
        Bin::Sar => (sa >> (b & 31)) as u32,
        Bin::Rol => a.rotate_left(b & 31),
        Bin::Ror => a.rotate_right(b & 31),
        Bin::Mul => a.wrapping_mul(b),
        Bin::MulhU => ((a as u64 * b as u64) >> 32) as u32,
        Bin::MulhS => ((sa as i64 * sb as i64) >> 32) as u32,
        Bin::MulhSU => ((sa as i64).wrapping_mul(b as i64) >> 32) as u32,
        Bin::DivS if b == 0 => u32::MAX,
        Bin::DivS => sa.wrapping_div(sb) as u32,
        Bin::DivU => a.checked_div(b).unwrap_or(u32::MAX),
        Bin::RemS if b == 0 => a,
        Bin::RemS => sa.wrapping_rem(sb) as u32,
        Bin::RemU => a.checked_rem(b).unwrap_or(a),
        Bin::MinS => sa.min(sb) as u32,
        Bin::MaxS => sa.max(sb) as u32,
        Bin::MinU => a.min(b),
        Bin::MaxU => a.max(b),
    }
}

/// Whether a comparison holds.
pub fn eval_cmp(cond: Cond, width: Width, a: u64, b: u64) -> bool {
    let (a, b) = match width {
        Width::W64 => (a, b),
        Width::W32 => (a as i32 as u64, b as i32 as u64),
    };
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::LtS => (a as i64) < b as i64,
        Cond::GeS => a as i64 >= b as i64,
        Cond::LtU => a < b,
        Cond::GeU => a >= b,
    }
}

/// What an [`Rmw`] of `size` stores, given the old value and the operand; only the low bytes count.
pub fn eval_rmw(op: Rmw, size: Size, old: u64, operand: u64) -> u64 {
    let (so, sv) = (size.sign_extend(old) as i64, size.sign_extend(operand) as i64);
    let (uo, uv) = (old & size.mask(), operand & size.mask());
    let new = match op {
        Rmw::Swap => operand,
        Rmw::Add => old.wrapping_add(operand),
        Rmw::And => old & operand,
        Rmw::Or => old | operand,
        Rmw::Xor => old ^ operand,
        Rmw::MinS => so.min(sv) as u64,
        Rmw::MaxS => so.max(sv) as u64,
        Rmw::MinU => uo.min(uv),
        Rmw::MaxU => uo.max(uv),
    };
    new & size.mask()
}

/// The rounding direction of an operation, given the floating-point environment slot.
pub fn rounding(rm: Rm, fp_env: u64) -> Round {
    match rm {
        Rm::Static(round) => round,
        Rm::Dynamic => match fp_env >> 13 & 3 {
            0 => Round::NearestEven,
            1 => Round::Down,
            2 => Round::Up,
            _ => Round::TowardZero,
        },
    }
}

/// Runs `f` with the environment that `rm` and the slot give, and adds the flags raised to the slot.
fn with_flags<T>(rules: FloatRules, rm: Rm, fp_env: &mut u64, f: impl FnOnce(Env, &mut Flags) -> T) -> T {
    let mut flags = Flags::empty();
    let env = match rules {
        // Those of SSE's ops that come here (fused ones, unsigned conversions) no x86 guest has yet.
        FloatRules::Canonical | FloatRules::Sse => Env::riscv(rounding(rm, *fp_env)),
    };
    let result = f(env, &mut flags);
    *fp_env |= u64::from(flags.bits());
    result
}

fn fbin<F: Format>(op: FBin, a: F::Bits, b: F::Bits, env: Env, flags: &mut Flags) -> F::Bits {
    match op {
        FBin::Add => sf::add::<F>(a, b, env, flags),
        FBin::Sub => sf::sub::<F>(a, b, env, flags),
        FBin::Mul => sf::mul::<F>(a, b, env, flags),
        FBin::Div => sf::div::<F>(a, b, env, flags),
        FBin::Min => sf::min::<F>(a, b, env.nan, flags),
        FBin::Max => sf::max::<F>(a, b, env.nan, flags),
    }
}

/// An [`FBin`] on two values; raises flags in `fp_env`.
pub fn eval_fbin(rules: FloatRules, op: FBin, fmt: Fmt, rm: Rm, a: u64, b: u64, fp_env: &mut u64) -> u64 {
    if rules == FloatRules::Sse {
        let round = rounding(rm, *fp_env);
        return match fmt {
            Fmt::F32 => sse::binary::<F32>(op, round, a as u32, b as u32, fp_env).into(),
            Fmt::F64 => sse::binary::<F64>(op, round, a, b, fp_env),
        };
    }
    with_flags(rules, rm, fp_env, |env, flags| match fmt {
        Fmt::F32 => fbin::<F32>(op, a as u32, b as u32, env, flags) as u64,
        Fmt::F64 => fbin::<F64>(op, a, b, env, flags),
    })
}

/// An [`FUn`] on a value; raises flags in `fp_env`.
pub fn eval_fun(rules: FloatRules, op: FUn, fmt: Fmt, rm: Rm, v: u64, fp_env: &mut u64) -> u64 {
    const BOX: u64 = 0xffff_ffff_0000_0000;
    if rules == FloatRules::Sse {
        let round = rounding(rm, *fp_env);
        match (op, fmt) {
            (FUn::Sqrt, Fmt::F32) => return sse::sqrt::<F32>(round, v as u32, fp_env).into(),
            (FUn::Sqrt, Fmt::F64) => return sse::sqrt::<F64>(round, v, fp_env),
            (FUn::Convert, Fmt::F32) => return sse::convert::<F32, F64>(round, v as u32, fp_env),
            (FUn::Convert, Fmt::F64) => return sse::convert::<F64, F32>(round, v, fp_env).into(),
            (FUn::Neg | FUn::Abs | FUn::Unbox | FUn::Box, _) => {}
        }
    }
    match (op, fmt) {
        (FUn::Neg, Fmt::F32) => (v as u32 ^ 1 << 31) as u64,
        (FUn::Neg, Fmt::F64) => v ^ 1 << 63,
        (FUn::Abs, Fmt::F32) => (v as u32 & !(1 << 31)) as u64,
        (FUn::Abs, Fmt::F64) => v & !(1 << 63),
        (FUn::Sqrt, Fmt::F32) => with_flags(rules, rm, fp_env, |env, flags| {
            sf::sqrt::<F32>(v as u32, env, flags)
        }) as u64,
        (FUn::Sqrt, Fmt::F64) => with_flags(rules, rm, fp_env, |env, flags| sf::sqrt::<F64>(v, env, flags)),
        (FUn::Convert, Fmt::F32) => with_flags(rules, rm, fp_env, |env, flags| {
            sf::convert::<F32, F64>(v as u32, env, flags)
        }),
        (FUn::Convert, Fmt::F64) => with_flags(rules, rm, fp_env, |env, flags| {
            sf::convert::<F64, F32>(v, env, flags)
        }) as u64,
        (FUn::Unbox, _) => {
            if v & BOX == BOX {
                v & !BOX
            } else {
                0x7fc0_0000
            }
        }
        (FUn::Box, _) => v | BOX,
    }
}

/// `±(a × b) ± c` with one rounding; raises flags in `fp_env`.
pub fn eval_ffma(
    rules: FloatRules,
    fmt: Fmt,
    rm: Rm,
    negate: (bool, bool),
    [a, b, c]: [u64; 3],
    fp_env: &mut u64,
) -> u64 {
    let (product, addend) = negate;
    with_flags(rules, rm, fp_env, |env, flags| match fmt {
        Fmt::F32 => {
            let flip = |v: u64, on: bool| v as u32 ^ (on as u32) << 31;
            sf::fma::<F32>(flip(a, product), b as u32, flip(c, addend), env, flags) as u64
        }
        Fmt::F64 => {
            let flip = |v: u64, on: bool| v ^ (on as u64) << 63;
            sf::fma::<F64>(flip(a, product), b, flip(c, addend), env, flags)
        }
    })
}

/// An [`FCond`]; raises flags in `fp_env`.
pub fn eval_fcmp(rules: FloatRules, cond: FCond, fmt: Fmt, a: u64, b: u64, fp_env: &mut u64) -> bool {
    if rules == FloatRules::Sse {
        let signalling = matches!(cond, FCond::Lt | FCond::Le | FCond::UnorderedSignal);
        let order = match fmt {
            Fmt::F32 => sse::compare::<F32>(signalling, a as u32, b as u32, fp_env),
            Fmt::F64 => sse::compare::<F64>(signalling, a, b, fp_env),
        };
        return match cond {
            FCond::Eq => order == Some(Ordering::Equal),
            FCond::Lt | FCond::LtQuiet => order == Some(Ordering::Less),
            FCond::Le | FCond::LeQuiet => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            FCond::Unordered | FCond::UnorderedSignal => order.is_none(),
        };
    }
    fn holds<F: Format>(cond: FCond, a: F::Bits, b: F::Bits, flags: &mut Flags) -> bool {
        match cond {
            FCond::Eq => sf::eq::<F>(a, b, flags),
            FCond::Lt => sf::lt::<F>(a, b, flags),
            FCond::Le => sf::le::<F>(a, b, flags),
            FCond::LtQuiet => sf::compare::<F>(a, b, false, flags) == Some(Ordering::Less),
            FCond::LeQuiet => {
                matches!(
                    sf::compare::<F>(a, b, false, flags),
                    Some(Ordering::Less | Ordering::Equal)
                )
            }
            FCond::Unordered => sf::compare::<F>(a, b, false, flags).is_none(),
            FCond::UnorderedSignal => sf::compare::<F>(a, b, true, flags).is_none(),
        }
    }
    with_flags(rules, Rm::Dynamic, fp_env, |_, flags| match fmt {
        Fmt::F32 => holds::<F32>(cond, a as u32, b as u32, flags),
        Fmt::F64 => holds::<F64>(cond, a, b, flags),
    })
}

/// How two numbers compare, as [`super::Op::FOrder`] says it; raises flags in `fp_env`.
pub fn eval_forder(rules: FloatRules, signalling: bool, fmt: Fmt, a: u64, b: u64, fp_env: &mut u64) -> u64 {
    let unordered = if signalling {
        FCond::UnorderedSignal
    } else {
        FCond::Unordered
    };
    let mut holds = |cond| eval_fcmp(rules, cond, fmt, a, b, fp_env);
    if holds(unordered) {
        0x45
    } else if holds(FCond::Eq) {
        0x40
    } else {
        u64::from(holds(FCond::LtQuiet))
    }
}

/// The ten-bit class mask.
pub fn eval_fclass(fmt: Fmt, v: u64) -> u64 {
    u64::from(match fmt {
        Fmt::F32 => sf::classify::<F32>(v as u32),
        Fmt::F64 => sf::classify::<F64>(v),
    })
}

/// Float to integer; raises flags in `fp_env`.
pub fn eval_ftoint(rules: FloatRules, fmt: Fmt, int: Int, rm: Rm, v: u64, fp_env: &mut u64) -> u64 {
    if rules == FloatRules::Sse && matches!(int, Int::I32 | Int::I64) {
        let round = rounding(rm, *fp_env);
        return match (fmt, int) {
            (Fmt::F32, Int::I32) => indefinite32(sse::integer::<F32, i32>(round, v as u32, fp_env)),
            (Fmt::F64, Int::I32) => indefinite32(sse::integer::<F64, i32>(round, v, fp_env)),
            (Fmt::F32, _) => indefinite64(sse::integer::<F32, i64>(round, v as u32, fp_env)),
            (Fmt::F64, _) => indefinite64(sse::integer::<F64, i64>(round, v, fp_env)),
        };
    }
    fn convert<F: Format>(int: Int, v: F::Bits, round: Round, flags: &mut Flags) -> u64 {
        match int {
            Int::I32 => sf::to_i32::<F>(v, round, flags) as u32 as u64,
            Int::U32 => sf::to_u32::<F>(v, round, flags) as u64,
            Int::I64 => sf::to_i64::<F>(v, round, flags) as u64,
            Int::U64 => sf::to_u64::<F>(v, round, flags),
        }
    }
    with_flags(rules, rm, fp_env, |env, flags| match fmt {
        Fmt::F32 => convert::<F32>(int, v as u32, env.round, flags),
        Fmt::F64 => convert::<F64>(int, v, env.round, flags),
    })
}

/// The integer indefinite for what doesn't fit (SDM 1, 4.2.1).
fn indefinite32(result: Option<i32>) -> u64 {
    result.unwrap_or(i32::MIN) as u32 as u64
}

/// See [`indefinite32`].
fn indefinite64(result: Option<i64>) -> u64 {
    result.unwrap_or(i64::MIN) as u64
}

/// Integer to float; raises flags in `fp_env`.
pub fn eval_ffromint(rules: FloatRules, fmt: Fmt, int: Int, rm: Rm, v: u64, fp_env: &mut u64) -> u64 {
    fn convert<F: Format>(int: Int, v: u64, env: Env, flags: &mut Flags) -> F::Bits {
        match int {
            Int::I32 => sf::from_i32::<F>(v as i32, env, flags),
            Int::U32 => sf::from_u32::<F>(v as u32, env, flags),
            Int::I64 => sf::from_i64::<F>(v as i64, env, flags),
            Int::U64 => sf::from_u64::<F>(v, env, flags),
        }
    }
    with_flags(rules, rm, fp_env, |env, flags| match fmt {
        Fmt::F32 => convert::<F32>(int, v, env, flags) as u64,
        Fmt::F64 => convert::<F64>(int, v, env, flags),
    })
}
