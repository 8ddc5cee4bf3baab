//! Results and flags against this machine's floating-point unit.
//!
//! Two differences are the guest's rules and not arithmetic, and are taken out here: a NaN result is the
//! canonical one, and the host's DENORMAL flag has no counterpart.

use crate::cases::{Carried, Random, count, integer_edges, integers, specials};
use crate::sse::{self, Control};
use cpu::softfloat::{self, Env, F32, F64, Flags, Format, Integer, NanRule, OutOfRange, Round, to_integer};
use std::cmp::Ordering;
use std::fmt::Debug;

const DIRECTIONS: [(Round, Control); 4] = [
    (Round::NearestEven, Control::Nearest),
    (Round::TowardZero, Control::Zero),
    (Round::Down, Control::Down),
    (Round::Up, Control::Up),
];

const DEFAULT_CASES: u64 = 20_000;

/// The host's result as RISC-V would have it.
fn canonical<F: Carried>((raw, flags): (u64, u32)) -> (u64, Flags) {
    let raw = if F::unpack(F::bits(raw)).is_nan() {
        F::raw(F::default_nan(NanRule::Canonical))
    } else {
        raw
    };
    (raw, Flags::from_bits_retain(flags) - Flags::DENORMAL)
}

type Soft<F> = fn(<F as Format>::Bits, <F as Format>::Bits, Env, &mut Flags) -> <F as Format>::Bits;
type Host = fn(u64, u64, Control) -> (u64, u32);

fn check_binary<F: Carried>(name: &str, soft: Soft<F>, host: Host) {
    let specials = specials::<F>();
    let check = |a: u64, b: u64| {
        for (round, control) in DIRECTIONS {
            let mut flags = Flags::empty();
            let ours = soft(F::bits(a), F::bits(b), Env::riscv(round), &mut flags);
            assert_eq!(
                (F::raw(ours), flags),
                canonical::<F>(host(a, b, control)),
                "{name} {a:#x}, {b:#x}, {round:?} (left: ours)"
            );
        }
    };
    for &a in &specials {
        for &b in &specials {
            check(a, b);
        }
    }
    let mut random = Random::new(1);
    for _ in 0..count(DEFAULT_CASES) {
        let (a, b) = random.pair::<F>(&specials);
        check(a, b);
    }
}

#[test]
fn add() {
    check_binary::<F32>("addss", softfloat::add::<F32>, sse::addss);
    check_binary::<F64>("addsd", softfloat::add::<F64>, sse::addsd);
}

#[test]
fn sub() {
    check_binary::<F32>("subss", softfloat::sub::<F32>, sse::subss);
    check_binary::<F64>("subsd", softfloat::sub::<F64>, sse::subsd);
}

#[test]
fn mul() {
    check_binary::<F32>("mulss", softfloat::mul::<F32>, sse::mulss);
    check_binary::<F64>("mulsd", softfloat::mul::<F64>, sse::mulsd);
}

#[test]
fn div() {
    check_binary::<F32>("divss", softfloat::div::<F32>, sse::divss);
    check_binary::<F64>("divsd", softfloat::div::<F64>, sse::divsd);
}

fn check_unary<From: Carried, To: Carried>(
    name: &str,
    soft: fn(From::Bits, Env, &mut Flags) -> To::Bits,
    host: fn(u64, Control) -> (u64, u32),
) {
    let specials = specials::<From>();
    let mut random = Random::new(2);
    let more = (0..count(DEFAULT_CASES)).map(|i| match i % 2 {
        0 => random.operand::<From>(&specials),
        _ => {
            let narrow = random.operand::<F32>(&crate::cases::specials::<F32>());
            widen_beside::<From>(&mut random, narrow)
        }
    });
    for a in specials.iter().copied().chain(more) {
        for (round, control) in DIRECTIONS {
            let mut flags = Flags::empty();
            let ours = soft(From::bits(a), Env::riscv(round), &mut flags);
            assert_eq!(
                (To::raw(ours), flags),
                canonical::<To>(host(a, control)),
                "{name} {a:#x}, {round:?} (left: ours)"
            );
        }
    }
}

/// An operand of `F` at or beside a binary32, or halfway to the next one.
fn widen_beside<F: Carried>(random: &mut Random, narrow: u64) -> u64 {
    let (wide, _) = sse::cvtss2sd(narrow, Control::Nearest);
    let halfway = (random.below(2)) << 28;
    let near = (wide | halfway).wrapping_add(random.below(3)).wrapping_sub(1);
    if F::PRECISION == 53 { near } else { narrow }
}

#[test]
fn sqrt() {
    check_unary::<F32, F32>("sqrtss", softfloat::sqrt::<F32>, sse::sqrtss);
    check_unary::<F64, F64>("sqrtsd", softfloat::sqrt::<F64>, sse::sqrtsd);
}

#[test]
fn convert_format() {
    check_unary::<F32, F64>("cvtss2sd", softfloat::convert::<F32, F64>, sse::cvtss2sd);
    check_unary::<F64, F32>("cvtsd2ss", softfloat::convert::<F64, F32>, sse::cvtsd2ss);
}

fn check_fma<F: Carried>(host: fn(u64, u64, u64, Control) -> (u64, u32)) {
    if !std::arch::is_x86_feature_detected!("fma") {
        return;
    }
    let specials = specials::<F>();
    let check = |a: u64, b: u64, c: u64| {
        for (round, control) in DIRECTIONS {
            let mut flags = Flags::empty();
            let (x, y, z) = (F::bits(a), F::bits(b), F::bits(c));
            let ours = softfloat::fma::<F>(x, y, z, Env::riscv(round), &mut flags);
            let (raw, mut host_flags) = canonical::<F>(host(a, b, c, control));
            // The standard leaves open whether infinity times zero plus a quiet NaN is
            // invalid. RISC-V says yes, x86 no (seen on AMD Zen 4): translated code has to add the flag.
            if infinity_times_zero::<F>(a, b) {
                host_flags |= Flags::INVALID;
            }
            assert_eq!(
                (F::raw(ours), flags),
                (raw, host_flags),
                "fma {a:#x}, {b:#x}, {c:#x}, {round:?} (left: ours)"
            );
        }
    };
    for &a in &specials {
        for &b in &specials {
            for &c in &specials {
                check(a, b, c);
            }
        }
    }
    let mut random = Random::new(3);
    for _ in 0..count(2 * DEFAULT_CASES) {
        let (a, b, c) = random.triple::<F>(&specials);
        check(a, b, c);
    }
}

fn infinity_times_zero<F: Carried>(a: u64, b: u64) -> bool {
    let magnitude = |raw: u64| raw & (F::raw(F::zero(true)) - 1);
    let infinity = F::raw(F::infinity(false));
    matches!((magnitude(a), magnitude(b)), (0, m) | (m, 0) if m == infinity)
}

#[test]
fn fma_single() {
    check_fma::<F32>(sse::vfmadd231ss);
}

#[test]
fn fma_double() {
    check_fma::<F64>(sse::vfmadd231sd);
}

/// `host` must be right in range, and raise nothing but INVALID exactly where there is no result.
fn check_to_integer<F: Carried, I: Integer + PartialEq + Debug>(
    name: &str,
    host: fn(u64, Control) -> (u64, u32),
    only: Option<Round>,
) {
    let edges = [specials::<F>(), integer_edges::<F>()].concat();
    let mut random = Random::new(4);
    let more = (0..count(DEFAULT_CASES)).map(|_| random.operand::<F>(&edges));
    for a in edges.iter().copied().chain(more) {
        for (round, control) in DIRECTIONS {
            if only.is_some_and(|only| only != round) {
                continue;
            }
            let mut flags = Flags::empty();
            let ours = to_integer::<F, I>(F::bits(a), round, &mut flags);
            let (raw, host_flags) = host(a, control);
            let expected = if host_flags & 1 == 0 {
                Ok(I::truncate(raw))
            } else if F::unpack(F::bits(a)).is_nan() {
                Err(OutOfRange::Nan)
            } else if F::unpack(F::bits(a)).sign {
                Err(OutOfRange::Below)
            } else {
                Err(OutOfRange::Above)
            };
            assert_eq!(
                (ours, flags.bits()),
                // cvtsd2si has no DENORMAL.
                (expected, host_flags),
                "{name} {a:#x}, {round:?} (left: ours)"
            );
        }
    }
}

#[test]
fn to_signed() {
    check_to_integer::<F32, i32>("cvtss2si", sse::cvtss2si_32, None);
    check_to_integer::<F64, i32>("cvtsd2si", sse::cvtsd2si_32, None);
    check_to_integer::<F32, i64>("cvtss2si", sse::cvtss2si_64, None);
    check_to_integer::<F64, i64>("cvtsd2si", sse::cvtsd2si_64, None);
}

#[test]
fn to_signed_truncating() {
    let only = Some(Round::TowardZero);
    check_to_integer::<F32, i32>("cvttss2si", sse::cvttss2si_32, only);
    check_to_integer::<F64, i32>("cvttsd2si", sse::cvttsd2si_32, only);
    check_to_integer::<F32, i64>("cvttss2si", sse::cvttss2si_64, only);
    check_to_integer::<F64, i64>("cvttsd2si", sse::cvttsd2si_64, only);
}

#[test]
fn to_unsigned() {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return;
    }
    check_to_integer::<F32, u32>("vcvtss2usi", sse::vcvtss2usi_32, None);
    check_to_integer::<F64, u32>("vcvtsd2usi", sse::vcvtsd2usi_32, None);
    check_to_integer::<F32, u64>("vcvtss2usi", sse::vcvtss2usi_64, None);
    check_to_integer::<F64, u64>("vcvtsd2usi", sse::vcvtsd2usi_64, None);
}

/// RISC-V's saturated answers, against Rust's saturating casts (which differ for NaN only).
#[test]
fn saturation() {
    let edges = [specials::<F64>(), integer_edges::<F64>()].concat();
    for a in edges {
        let value = f64::from_bits(a);
        let mut flags = Flags::empty();
        macro_rules! check {
            ($soft:ident, $int:ty) => {
                let expected = if value.is_nan() {
                    <$int>::MAX
                } else {
                    value as $int
                };
                let ours = softfloat::$soft::<F64>(a, Round::TowardZero, &mut flags);
                assert_eq!(ours, expected, "{value:e}");
            };
        }
        check!(to_i32, i32);
        check!(to_u32, u32);
        check!(to_i64, i64);
        check!(to_u64, u64);
    }
}

fn check_from_integer<F: Carried>(
    name: &str,
    soft: fn(u64, Env, &mut Flags) -> F::Bits,
    host: fn(u64, Control) -> (u64, u32),
) {
    let mut random = Random::new(5);
    let more = (0..count(DEFAULT_CASES)).map(|_| random.next() >> random.below(64));
    for a in integers().into_iter().chain(more) {
        for (round, control) in DIRECTIONS {
            let mut flags = Flags::empty();
            let ours = soft(a, Env::riscv(round), &mut flags);
            assert_eq!(
                (F::raw(ours), flags),
                canonical::<F>(host(a, control)),
                "{name} {a:#x}, {round:?} (left: ours)"
            );
        }
    }
}

#[test]
fn from_signed() {
    use softfloat::{from_i32, from_i64};
    check_from_integer::<F32>(
        "cvtsi2ss",
        |a, e, f| from_i32::<F32>(a as i32, e, f),
        sse::cvtsi2ss_32,
    );
    check_from_integer::<F64>(
        "cvtsi2sd",
        |a, e, f| from_i32::<F64>(a as i32, e, f),
        sse::cvtsi2sd_32,
    );
    check_from_integer::<F32>(
        "cvtsi2ss",
        |a, e, f| from_i64::<F32>(a as i64, e, f),
        sse::cvtsi2ss_64,
    );
    check_from_integer::<F64>(
        "cvtsi2sd",
        |a, e, f| from_i64::<F64>(a as i64, e, f),
        sse::cvtsi2sd_64,
    );
}

#[test]
fn from_unsigned() {
    use softfloat::{from_u32, from_u64};
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return;
    }
    check_from_integer::<F32>(
        "vcvtusi2ss",
        |a, e, f| from_u32::<F32>(a as u32, e, f),
        sse::vcvtusi2ss_32,
    );
    check_from_integer::<F64>(
        "vcvtusi2sd",
        |a, e, f| from_u32::<F64>(a as u32, e, f),
        sse::vcvtusi2sd_32,
    );
    check_from_integer::<F32>("vcvtusi2ss", from_u64::<F32>, sse::vcvtusi2ss_64);
    check_from_integer::<F64>("vcvtusi2sd", from_u64::<F64>, sse::vcvtusi2sd_64);
}

fn check_compare<F: Carried>(quiet: fn(u64, u64) -> (u32, u32), signalling: fn(u64, u64) -> (u32, u32)) {
    let specials = specials::<F>();
    // SDM 2A, COMISD: ZF, PF, CF.
    let order = |eflags: u32| match eflags {
        0x0_00_00 => Some(Ordering::Greater),
        0x1_00_00 => Some(Ordering::Less),
        0x0_00_01 => Some(Ordering::Equal),
        0x1_01_01 => None,
        other => panic!("ZF, PF, CF are {other:#x}"),
    };
    let check = |a: u64, b: u64| {
        let (x, y) = (F::bits(a), F::bits(b));
        let mut flags = Flags::empty();
        let equal = softfloat::eq::<F>(x, y, &mut flags);
        let (eflags, host_flags) = quiet(a, b);
        let expected = order(eflags) == Some(Ordering::Equal);
        assert_eq!(
            (equal, flags.bits()),
            (expected, host_flags & !2),
            "eq {a:#x}, {b:#x}"
        );

        let (eflags, host_flags) = signalling(a, b);
        let mut flags = Flags::empty();
        let less = softfloat::lt::<F>(x, y, &mut flags);
        let expected = order(eflags) == Some(Ordering::Less);
        assert_eq!(
            (less, flags.bits()),
            (expected, host_flags & !2),
            "lt {a:#x}, {b:#x}"
        );

        let mut flags = Flags::empty();
        let at_most = softfloat::le::<F>(x, y, &mut flags);
        let expected = matches!(order(eflags), Some(Ordering::Less | Ordering::Equal));
        assert_eq!(
            (at_most, flags.bits()),
            (expected, host_flags & !2),
            "le {a:#x}, {b:#x}"
        );
    };
    for &a in &specials {
        for &b in &specials {
            check(a, b);
        }
    }
    let mut random = Random::new(6);
    for _ in 0..count(DEFAULT_CASES) {
        let (a, b) = random.pair::<F>(&specials);
        check(a, b);
        check(a, a ^ random.below(2));
    }
}

#[test]
fn compare() {
    check_compare::<F32>(sse::ucomiss, sse::comiss);
    check_compare::<F64>(sse::ucomisd, sse::comisd);
}
