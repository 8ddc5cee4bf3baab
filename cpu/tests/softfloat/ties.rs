//! Round to nearest with ties to the larger magnitude, by exact arithmetic.
//!
//! The directed results `down` and `up` enclose the exact one, and `2 * exact - (down + up)` says which is
//! nearer. That is a sum of a few products, which a wide enough fixed-point number holds exactly.
//!
//! The flags must be those of round to nearest even: the two differ in ties only, and at the ties that
//! matter for flags (beside overflow and beside the smallest normal) both go to the larger magnitude, for
//! the number below is odd.

use crate::cases::{Carried, Random, count, integer_edges, integers, specials};
use cpu::softfloat::{self, Class, Env, F32, F64, Flags, Format, Round, Unpacked};
use std::cmp::Ordering;

/// Lowest bit of [`Exact`]: below the product of two smallest binary64 subnormals.
const LOWEST: i32 = -2304;
const WORDS: usize = 76;

/// A fixed-point number in two's complement, exact for sums of products of two binary64.
struct Exact([u64; WORDS]);

impl Exact {
    fn new() -> Self {
        Self([0; WORDS])
    }

    /// Adds `(-1)^negative * x * y * 2^scale`.
    fn add(&mut self, negative: bool, x: Unpacked, y: Unpacked, scale: i32) -> &mut Self {
        let product = u128::from(x.sig) * u128::from(y.sig);
        if product == 0 {
            return self;
        }
        let negative = negative ^ x.sign ^ y.sign;
        // Significands of at most 53 bits, so the low 22 bits of the product are 0.
        let position = (x.exp + y.exp + scale - 126 + 22 - LOWEST) as usize;
        let (word, bit) = (position / 64, position % 64);
        let low = product >> 22 << bit;
        let parts = [
            low as u64,
            (low >> 64) as u64,
            ((product >> 22) >> (127 - bit) >> 1) as u64,
        ];
        let mut carry = negative;
        let sign = if negative { u64::MAX } else { 0 };
        for (i, digit) in self.0[word..].iter_mut().enumerate() {
            let part = parts.get(i).copied().unwrap_or(0) ^ sign;
            let (sum, c1) = digit.overflowing_add(part);
            let (sum, c2) = sum.overflowing_add(carry.into());
            *digit = sum;
            carry = c1 | c2;
        }
        self
    }

    fn sign(&self) -> Ordering {
        if self.0[WORDS - 1] >> 63 != 0 {
            Ordering::Less
        } else if self.0.iter().all(|&w| w == 0) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }
}

const ONE: Unpacked = Unpacked {
    class: Class::Finite,
    sign: false,
    exp: 0,
    sig: 1 << 63,
};

/// The value of a result, an infinity standing for the power of two that overflowed into it.
fn value<F: Carried>(bits: F::Bits) -> Unpacked {
    let mut x = F::unpack(bits);
    if x.class == Class::Infinity {
        x.exp = F::BIAS + 1;
    }
    x
}

/// Checks `operation` under [`Round::NearestMaxMagnitude`]. `twice_exact` adds twice the exact result times
/// the positive `divisor` to a sum.
fn check<F: Carried>(
    what: &dyn Fn() -> String,
    divisor: Unpacked,
    twice_exact: &dyn Fn(&mut Exact),
    operation: &dyn Fn(Env, &mut Flags) -> F::Bits,
) -> bool {
    let run = |round| {
        let mut flags = Flags::empty();
        let bits = operation(Env::riscv(round), &mut flags);
        (bits, flags)
    };
    let (even, flags) = run(Round::NearestEven);
    let (ours, our_flags) = run(Round::NearestMaxMagnitude);
    assert_eq!(our_flags, flags, "{}", what());
    if !flags.contains(Flags::INEXACT) {
        assert_eq!(ours, even, "{}", what());
        return false;
    }
    let (down, up) = (run(Round::Down).0, run(Round::Up).0);
    let (low, high) = (value::<F>(down), value::<F>(up));
    let mut difference = Exact::new();
    twice_exact(&mut difference);
    difference.add(true, low, divisor, 0).add(true, high, divisor, 0);
    let order = difference.sign();
    let expected = match order {
        Ordering::Less => down,
        Ordering::Greater => up,
        Ordering::Equal if (low.exp, low.sig) > (high.exp, high.sig) => down,
        Ordering::Equal => up,
    };
    assert_eq!(ours, expected, "{} between {down:?} and {up:?}", what());
    order == Ordering::Equal
}

const DEFAULT_CASES: u64 = 10_000;

/// Operands of which a share is bound to make ties: short significands.
fn pairs<F: Carried>(each: &mut dyn FnMut(u64, u64)) {
    let specials = specials::<F>();
    for &a in &specials {
        for &b in &specials {
            each(a, b);
        }
    }
    let mut random = Random::new(7);
    for _ in 0..count(DEFAULT_CASES) {
        let (a, b) = random.pair::<F>(&specials);
        each(a, b);
    }
}

fn check_sums<F: Carried>() {
    let mut ties = 0;
    pairs::<F>(&mut |a, b| {
        let (x, y) = (F::bits(a), F::bits(b));
        let (u, v) = (F::unpack(x), F::unpack(y));
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} + {b:#x}"),
            ONE,
            &|sum| {
                sum.add(false, u, ONE, 1).add(false, v, ONE, 1);
            },
            &|env, flags| softfloat::add::<F>(x, y, env, flags),
        ));
        check::<F>(
            &|| format!("{a:#x} - {b:#x}"),
            ONE,
            &|sum| {
                sum.add(false, u, ONE, 1).add(true, v, ONE, 1);
            },
            &|env, flags| softfloat::sub::<F>(x, y, env, flags),
        );
    });
    assert!(ties > 100, "{ties} ties");
}

#[test]
fn sums() {
    check_sums::<F32>();
    check_sums::<F64>();
}

fn check_products<F: Carried>() {
    let mut ties = 0;
    pairs::<F>(&mut |a, b| {
        let (x, y) = (F::bits(a), F::bits(b));
        let (u, v) = (F::unpack(x), F::unpack(y));
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} * {b:#x}"),
            ONE,
            &|sum| {
                sum.add(false, u, v, 1);
            },
            &|env, flags| softfloat::mul::<F>(x, y, env, flags),
        ));
    });
    assert!(ties > 100, "{ties} ties");
}

#[test]
fn products() {
    check_products::<F32>();
    check_products::<F64>();
}

fn check_quotients<F: Carried>() {
    let mut ties = 0;
    pairs::<F>(&mut |a, b| {
        let (x, y) = (F::bits(a), F::bits(b));
        let (u, v) = (F::unpack(x), F::unpack(y));
        let divisor = Unpacked { sign: false, ..v };
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} / {b:#x}"),
            divisor,
            &|sum| {
                sum.add(v.sign, u, ONE, 1);
            },
            &|env, flags| softfloat::div::<F>(x, y, env, flags),
        ));
    });
    // Ties happen in subnormal quotients only.
    assert!(ties > 10, "{ties} ties");
}

#[test]
fn quotients() {
    check_quotients::<F32>();
    check_quotients::<F64>();
}

fn check_fused<F: Carried>() {
    let specials = specials::<F>();
    let mut ties = 0;
    let mut each = |a: u64, b: u64, c: u64| {
        let (x, y, z) = (F::bits(a), F::bits(b), F::bits(c));
        let (u, v, w) = (F::unpack(x), F::unpack(y), F::unpack(z));
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} * {b:#x} + {c:#x}"),
            ONE,
            &|sum| {
                sum.add(false, u, v, 1).add(false, w, ONE, 1);
            },
            &|env, flags| softfloat::fma::<F>(x, y, z, env, flags),
        ));
    };
    // Every third special keeps this quick; `host` runs all.
    for &a in &specials {
        for &b in specials.iter().step_by(3) {
            for &c in specials.iter().skip(1).step_by(3) {
                each(a, b, c);
            }
        }
    }
    let mut random = Random::new(8);
    for _ in 0..count(DEFAULT_CASES) {
        let (a, b, c) = random.triple::<F>(&specials);
        each(a, b, c);
    }
    assert!(ties > 100, "{ties} ties");
}

#[test]
fn fused() {
    check_fused::<F32>();
    check_fused::<F64>();
}

/// A square root is never a tie, so ties don't matter: half an ulp squared has too many bits.
#[test]
fn square_roots() {
    let mut random = Random::new(9);
    let specials = specials::<F64>();
    let cases = (0..count(DEFAULT_CASES)).map(|_| random.operand::<F64>(&specials));
    for a in specials.iter().copied().chain(cases) {
        let run = |round| {
            let mut flags = Flags::empty();
            let bits = softfloat::sqrt::<F64>(a, Env::riscv(round), &mut flags);
            (bits, flags)
        };
        assert_eq!(run(Round::NearestMaxMagnitude), run(Round::NearestEven), "{a:#x}");
    }
}

#[test]
fn narrowing() {
    let specials = specials::<F64>();
    let mut random = Random::new(10);
    let narrow = crate::cases::specials::<F32>();
    let mut ties = 0;
    for i in 0..count(DEFAULT_CASES) + specials.len() as u64 {
        let a = match specials.get(i as usize) {
            Some(&a) => a,
            None => {
                let near = random.operand::<F32>(&narrow);
                let wide = softfloat::convert::<F32, F64>(
                    near as u32,
                    Env::riscv(Round::NearestEven),
                    &mut Flags::empty(),
                );
                // Halfway to the next binary32 (a normal one), or beside.
                (wide | 1 << 28).wrapping_add(random.below(3)).wrapping_sub(1)
            }
        };
        let u = F64::unpack(a);
        ties += u64::from(check::<F32>(
            &|| format!("{a:#x} narrowed"),
            ONE,
            &|sum| {
                sum.add(false, u, ONE, 1);
            },
            &|env, flags| softfloat::convert::<F64, F32>(a, env, flags),
        ));
    }
    assert!(ties > 100, "{ties} ties");
}

fn check_from_integers<F: Carried>(ties_expected: bool) {
    let mut random = Random::new(11);
    let more = (0..count(DEFAULT_CASES)).map(|_| random.next() >> random.below(64));
    let mut ties = 0;
    for a in integers().into_iter().chain(more) {
        // Each half of the integer is a binary64.
        let half = |bits: u64| F64::unpack((bits as f64).to_bits());
        let (low, high) = (half(a & 0xffff_ffff), half(a >> 32));
        let wrap = Unpacked { exp: 64, ..ONE };
        let negative = a >> 63 != 0;
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} unsigned"),
            ONE,
            &|sum| {
                sum.add(false, low, ONE, 1).add(false, high, ONE, 33);
            },
            &|env, flags| softfloat::from_u64::<F>(a, env, flags),
        ));
        ties += u64::from(check::<F>(
            &|| format!("{a:#x} signed"),
            ONE,
            &|sum| {
                sum.add(false, low, ONE, 1).add(false, high, ONE, 33);
                if negative {
                    sum.add(true, wrap, ONE, 1);
                }
            },
            &|env, flags| softfloat::from_i64::<F>(a as i64, env, flags),
        ));
    }
    assert_eq!(ties > 100, ties_expected, "{ties} ties");
}

#[test]
fn from_integers() {
    check_from_integers::<F32>(true);
    check_from_integers::<F64>(true);
}

/// To integers: the fraction that `f64` arithmetic finds exactly decides (round half away is `f64::round`).
#[test]
fn to_integers() {
    let edges = [specials::<F64>(), integer_edges::<F64>()].concat();
    let mut random = Random::new(12);
    let more = (0..count(DEFAULT_CASES)).map(|_| random.operand::<F64>(&edges));
    for a in edges.iter().copied().chain(more) {
        let rounded = f64::from_bits(a).round();
        macro_rules! check {
            ($soft:ident, $int:ty) => {
                // One past the largest is a power of two, so that these comparisons are exact.
                let in_range =
                    rounded >= <$int>::MIN as f64 && rounded < ((<$int>::MAX / 2 + 1) as f64) * 2.0;
                let expected = if rounded.is_nan() {
                    <$int>::MAX
                } else {
                    rounded as $int
                };
                let expected_flags = if !in_range {
                    Flags::INVALID
                } else if rounded != f64::from_bits(a) {
                    Flags::INEXACT
                } else {
                    Flags::empty()
                };
                let mut flags = Flags::empty();
                let ours = softfloat::$soft::<F64>(a, Round::NearestMaxMagnitude, &mut flags);
                assert_eq!(
                    (ours, flags),
                    (expected, expected_flags),
                    "{} {a:#x}",
                    stringify!($soft)
                );
            };
        }
        check!(to_i32, i32);
        check!(to_u32, u32);
        check!(to_i64, i64);
        check!(to_u64, u64);
    }
}
