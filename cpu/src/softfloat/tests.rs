//! Rules that the differential tests (`tests/softfloat`) take for granted or can't see, on any host.

use super::*;

const RNE: Env = Env::riscv(Round::NearestEven);
const INF: u64 = 0x7ff0_0000_0000_0000;
const QNAN: u64 = 0x7ff8_0000_0000_0000;
/// A quiet NaN with sign and payload, and a signalling one.
const PAYLOAD: u64 = 0xfff8_0000_0000_1234;
const SNAN: u64 = 0xfff0_0000_0000_0001;
const MINUS: u64 = 1 << 63;
const ONE: u64 = 0x3ff0_0000_0000_0000;

fn flagged<T>(operation: impl FnOnce(&mut Flags) -> T) -> (T, Flags) {
    let mut flags = Flags::empty();
    let result = operation(&mut flags);
    (result, flags)
}

#[test]
fn nan_results_are_canonical_and_only_signalling_operands_are_invalid() {
    for (a, b, flags) in [
        (PAYLOAD, ONE, Flags::empty()),
        (ONE, PAYLOAD, Flags::empty()),
        (SNAN, ONE, Flags::INVALID),
        (PAYLOAD, SNAN, Flags::INVALID),
    ] {
        assert_eq!(flagged(|f| add::<F64>(a, b, RNE, f)), (QNAN, flags));
        assert_eq!(flagged(|f| sub::<F64>(a, b, RNE, f)), (QNAN, flags));
        assert_eq!(flagged(|f| mul::<F64>(a, b, RNE, f)), (QNAN, flags));
        assert_eq!(flagged(|f| div::<F64>(a, b, RNE, f)), (QNAN, flags));
        assert_eq!(flagged(|f| fma::<F64>(ONE, a, b, RNE, f)), (QNAN, flags));
    }
    assert_eq!(flagged(|f| sqrt::<F64>(SNAN, RNE, f)), (QNAN, Flags::INVALID));
    let narrowed = flagged(|f| convert::<F64, F32>(SNAN, RNE, f));
    assert_eq!(narrowed, (0x7fc0_0000, Flags::INVALID));
    let widened = flagged(|f| convert::<F32, F64>(0xffc0_1234, RNE, f));
    assert_eq!(widened, (QNAN, Flags::empty()));
}

#[test]
fn invalid_operations() {
    for result in [
        flagged(|f| add::<F64>(INF, INF | MINUS, RNE, f)),
        flagged(|f| sub::<F64>(INF, INF, RNE, f)),
        flagged(|f| mul::<F64>(MINUS, INF, RNE, f)),
        flagged(|f| div::<F64>(0, MINUS, RNE, f)),
        flagged(|f| div::<F64>(INF, INF, RNE, f)),
        flagged(|f| sqrt::<F64>(ONE | MINUS, RNE, f)),
        flagged(|f| fma::<F64>(INF, ONE, INF | MINUS, RNE, f)),
        // RISC-V: invalid although the addend is a quiet NaN.
        flagged(|f| fma::<F64>(INF, 0, QNAN, RNE, f)),
        flagged(|f| fma::<F64>(0, INF, ONE, RNE, f)),
    ] {
        assert_eq!(result, (QNAN, Flags::INVALID));
    }
    assert_eq!(
        flagged(|f| div::<F64>(ONE | MINUS, 0, RNE, f)),
        (INF | MINUS, Flags::DIV_ZERO)
    );
    assert_eq!(flagged(|f| sqrt::<F64>(MINUS, RNE, f)), (MINUS, Flags::empty()));
}

#[test]
fn flags_are_sticky() {
    let mut flags = Flags::DENORMAL | Flags::INVALID;
    div::<F64>(ONE, 0, RNE, &mut flags);
    add::<F64>(ONE, ONE, RNE, &mut flags);
    assert_eq!(flags, Flags::DENORMAL | Flags::INVALID | Flags::DIV_ZERO);
}

/// The smallest normal is reached by rounding: not tiny after rounding, though tiny before.
#[test]
fn tininess_is_detected_after_rounding() {
    let smallest = 0x0010_0000_0000_0000_u64;
    // (1 - 2^-53) * 2^-1022 is halfway between two 53-bit numbers just below: ties to even, upwards.
    let result = flagged(|f| mul::<F64>(smallest, 0x3fef_ffff_ffff_ffff, RNE, f));
    assert_eq!(result, (smallest, Flags::UNDERFLOW | Flags::INEXACT));
    // (2^-1021 + 2^-1073) * (1/2 - 2^-54) = 2^-1022 - 2^-1127: rounds to the smallest normal at 53 bits.
    let result = flagged(|f| mul::<F64>(0x0020_0000_0000_0001, 0x3fdf_ffff_ffff_ffff, RNE, f));
    assert_eq!(result, (smallest, Flags::INEXACT));
}

/// A fused sum that carries out of 128 bits while all of its rest is in the sticky bit.
#[test]
fn fused_carry_keeps_the_sticky_bit() {
    // The product is 2^105 + 0x1754_8dd9.
    let a = (0x10_0000_02d4_13cb_u64 as f64).to_bits();
    let b = (0x1f_ffff_fa57_d86b_u64 as f64).to_bits();
    // (2^53 - 1) * 2^105: one ulp, 2^105, below 2^158.
    let c = ((1023 + 157) << 52) | 0x000f_ffff_ffff_ffff;
    let power = (1023 + 158) << 52;
    assert_eq!(flagged(|f| fma::<F64>(a, b, c, RNE, f)), (power, Flags::INEXACT));
    let up = Env::riscv(Round::Up);
    assert_eq!(
        flagged(|f| fma::<F64>(a, b, c, up, f)),
        (power + 1, Flags::INEXACT)
    );
}

#[test]
fn minimum_and_maximum() {
    let canonical = NanRule::Canonical;
    let low = |a, b| flagged(|f| min::<F64>(a, b, canonical, f));
    let high = |a, b| flagged(|f| max::<F64>(a, b, canonical, f));
    let numbers = [
        INF | MINUS,
        ONE | MINUS,
        MINUS | 1,
        MINUS,
        0,
        1,
        ONE,
        ONE + 1,
        INF,
    ];
    for (i, &a) in numbers.iter().enumerate() {
        for (j, &b) in numbers.iter().enumerate() {
            assert_eq!(low(a, b), (numbers[i.min(j)], Flags::empty()));
            assert_eq!(high(a, b), (numbers[i.max(j)], Flags::empty()));
        }
        for (nan, flags) in [(PAYLOAD, Flags::empty()), (SNAN, Flags::INVALID)] {
            for result in [low(a, nan), low(nan, a), high(a, nan), high(nan, a)] {
                assert_eq!(result, (a, flags));
            }
        }
    }
    assert_eq!(low(PAYLOAD, PAYLOAD), (QNAN, Flags::empty()));
    assert_eq!(high(PAYLOAD, SNAN), (QNAN, Flags::INVALID));
}

#[test]
fn classification() {
    let numbers = [
        INF | MINUS,
        ONE | MINUS,
        MINUS | 1,
        MINUS,
        0,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        INF,
        SNAN,
        PAYLOAD,
    ];
    for (bit, number) in numbers.into_iter().enumerate() {
        assert_eq!(classify::<F64>(number), 1 << bit);
    }
    let numbers = [
        0xff80_0000,
        0x8080_0000,
        0x807f_ffff,
        0x8000_0000,
        0,
        1,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7f80_0001,
        0x7fc0_0000,
    ];
    for (bit, number) in numbers.into_iter().enumerate() {
        assert_eq!(classify::<F32>(number), 1 << bit);
    }
}

/// RISC-V F, table "Domains of float-to-integer conversions and behavior for invalid inputs".
#[test]
fn integer_limits() {
    let rtz = Round::TowardZero;
    let invalid = Flags::INVALID;
    for (a, w, wu, l, lu) in [
        (INF | MINUS, i32::MIN, 0, i64::MIN, 0),
        (INF, i32::MAX, u32::MAX, i64::MAX, u64::MAX),
        (PAYLOAD, i32::MAX, u32::MAX, i64::MAX, u64::MAX),
        (SNAN, i32::MAX, u32::MAX, i64::MAX, u64::MAX),
    ] {
        assert_eq!(flagged(|f| to_i32::<F64>(a, rtz, f)), (w, invalid));
        assert_eq!(flagged(|f| to_u32::<F64>(a, rtz, f)), (wu, invalid));
        assert_eq!(flagged(|f| to_i64::<F64>(a, rtz, f)), (l, invalid));
        assert_eq!(flagged(|f| to_u64::<F64>(a, rtz, f)), (lu, invalid));
    }
    let convert = |a: f64, round| flagged(|f| to_u32::<F64>(a.to_bits(), round, f));
    assert_eq!(convert(-0.5, rtz), (0, Flags::INEXACT));
    assert_eq!(convert(-0.5, Round::Down), (0, invalid));
    assert_eq!(convert(-0.5, Round::NearestMaxMagnitude), (0, invalid));
    assert_eq!(convert(-1.0, rtz), (0, invalid));
    assert_eq!(convert(-0.0, rtz), (0, Flags::empty()));
    assert_eq!(convert(4294967295.5, rtz), (u32::MAX, Flags::INEXACT));
    assert_eq!(convert(4294967295.5, Round::Up), (u32::MAX, invalid));
}

/// Nearest-even results against Rust's own arithmetic, which is IEEE 754's on every host.
#[test]
fn nearest_even_agrees_with_native_arithmetic() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    // All exponents in a third of the cases; else moderate ones, so that operands interact.
    let mut operand = || {
        let bits = next();
        if bits % 3 == 0 {
            f64::from_bits(next())
        } else {
            f64::from_bits(next() & !(0x7c << 56) | 0x3c << 56)
        }
    };
    let mut f = Flags::empty();
    for _ in 0..20_000 {
        let (x, y, z) = (operand(), operand(), operand());
        let (a, b, c) = (x.to_bits(), y.to_bits(), z.to_bits());
        let same = |ours: u64, native: f64| {
            let native = if native.is_nan() { QNAN } else { native.to_bits() };
            assert_eq!(ours, native, "{x:e} {y:e} {z:e}");
        };
        same(add::<F64>(a, b, RNE, &mut f), x + y);
        same(sub::<F64>(a, b, RNE, &mut f), x - y);
        same(mul::<F64>(a, b, RNE, &mut f), x * y);
        same(div::<F64>(a, b, RNE, &mut f), x / y);
        same(fma::<F64>(a, b, c, RNE, &mut f), x.mul_add(y, z));
        same(sqrt::<F64>(a, RNE, &mut f), x.sqrt());
        same(from_i64::<F64>(a as i64, RNE, &mut f), a as i64 as f64);
        same(from_u64::<F64>(a, RNE, &mut f), a as f64);

        let (x, y) = (x as f32, y as f32);
        let (a, b) = (x.to_bits(), y.to_bits());
        let same = |ours: u32, native: f32| {
            let native = if native.is_nan() {
                0x7fc0_0000
            } else {
                native.to_bits()
            };
            assert_eq!(ours, native, "{x:e} {y:e}");
        };
        same(convert::<F64, F32>(c, RNE, &mut f), z as f32);
        same(add::<F32>(a, b, RNE, &mut f), x + y);
        same(sub::<F32>(a, b, RNE, &mut f), x - y);
        same(mul::<F32>(a, b, RNE, &mut f), x * y);
        same(div::<F32>(a, b, RNE, &mut f), x / y);
        same(sqrt::<F32>(a, RNE, &mut f), x.sqrt());
        same(from_u64::<F32>(c, RNE, &mut f), c as f32);
    }
}
