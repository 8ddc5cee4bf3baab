//! What runs on any host: the rules of unmasked exceptions as the SDM states them, and transcendental results that
//! an arbitrary-precision library (mpmath) computed. The comparison with the host's x87 is `tests/x87`.

use super::*;
use crate::softfloat::Flags;

const ALL_MASKED: u16 = 0x037f;
const NONE_MASKED: u16 = 0x0340;

/// Sign and exponent, significand.
type Fields = (u16, u64);

fn f80((sign_exponent, significand): Fields) -> F80 {
    F80::new(sign_exponent, significand)
}

const ONE: F80 = F80::ONE;
const DENORMAL: F80 = F80::new(0, 5);
const LARGEST: F80 = F80::new(0x7ffe, u64::MAX);
const SMALLEST: F80 = F80::new(1, 1 << 63);
const SIGNALLING: F80 = F80::new(0x7fff, 1 << 63 | 7);
const QUIET: F80 = F80::new(0x7fff, 3 << 62 | 1);
const UNNORMAL: F80 = F80::new(0x3fff, 1);

type Binary = fn(&mut X87Env, Operand, Operand) -> Option<F80>;

fn run(op: Binary, control: u16, a: F80, b: F80) -> (Option<F80>, u16) {
    let mut env = X87Env::with_control(control);
    let result = op(&mut env, a.into(), b.into());
    (result, env.status)
}

const IE: u16 = 1;
const DE: u16 = 2;
const ZE: u16 = 4;
const OE: u16 = 8;
const UE: u16 = 16;
const PE: u16 = 32;
const PENDING: u16 = X87Env::ES | X87Env::BUSY;

/// SDM 1, 8.5.1 to 8.5.3.
#[test]
fn unmasked_before_computation_no_result() {
    for (op, a, b, flag) in [
        (add as Binary, SIGNALLING, ONE, IE),
        (add, UNNORMAL, ONE, IE),
        (sub, F80::infinity(false), F80::infinity(false), IE),
        (mul, F80::ZERO, F80::infinity(true), IE),
        (div, F80::ZERO, F80::ZERO, IE),
        (div, ONE, F80::ZERO, ZE),
        (div, DENORMAL, F80::ZERO, ZE),
        (add, DENORMAL, ONE, DE),
        (mul, ONE, DENORMAL, DE),
        (remainder, ONE, F80::ZERO, IE),
        (scale, DENORMAL, ONE, DE),
        (y_log2, ONE, F80::ZERO, ZE),
        (y_log2, ONE, ONE.negated(), IE),
        (atan, DENORMAL, ONE, DE),
    ] {
        let (result, status) = run(op, NONE_MASKED, a, b);
        assert_eq!(
            (result, status & (0x3f | PENDING)),
            (None, flag | PENDING),
            "{a:x?} {b:x?}"
        );
        let (result, status) = run(op, ALL_MASKED, a, b);
        assert!(
            result.is_some() && status & (flag | PENDING) == flag,
            "{a:x?} {b:x?}"
        );
    }
}

/// SDM 1, 8.5.4 and 8.5.5: the exponent is moved by 24576.
#[test]
fn unmasked_overflow_and_underflow_move_the_exponent() {
    let (result, status) = run(mul, NONE_MASKED, LARGEST, F80::new(0x4000, 1 << 63));
    assert_eq!(result, Some(F80::new((0x7fff - 24576) as u16, u64::MAX)));
    assert_eq!(status, OE | PENDING);
    // A tiny result is an underflow even if it is exact.
    let (result, status) = run(mul, NONE_MASKED, SMALLEST, F80::new(0x3ffe, 1 << 63));
    assert_eq!(result, Some(F80::new(24576, 1 << 63)));
    assert_eq!(status, UE | PENDING);
    let (result, status) = run(mul, ALL_MASKED, SMALLEST, F80::new(0x3ffe, 1 << 63));
    assert_eq!((result, status), (Some(F80::new(0, 1 << 62)), 0));
    // "Massive" overflow and underflow of fscale.
    let far = Operand::integer(100_000).to_f80();
    assert_eq!(run(scale, NONE_MASKED, ONE, far).0, Some(F80::infinity(false)));
    assert_eq!(run(scale, NONE_MASKED, ONE, far.negated()).0, Some(F80::ZERO));
}

/// SDM 1, 8.5.4 and 8.5.5: nothing is stored.
#[test]
fn unmasked_overflow_and_underflow_store_nothing() {
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(to_f32(&mut env, LARGEST), None);
    assert_eq!(env.status, OE | PENDING);
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(to_f64(&mut env, SMALLEST), None);
    assert_eq!(env.status, UE | PENDING);
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(to_integer(&mut env, LARGEST, IntegerWidth::W64), None);
    assert_eq!(env.status, IE | PENDING);
    // An unmasked precision exception doesn't hold the result back.
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(to_f32(&mut env, F80::new(0x3fff, u64::MAX)), Some(0x4000_0000));
    assert_eq!(env.status, PE | PENDING | X87Env::C1);
}

/// SDM 2A, FCOM: the flags are not set by an unmasked invalid operation.
#[test]
fn comparisons_with_unmasked_exceptions() {
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(compare(&mut env, QUIET.into(), ONE.into()), None);
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(
        compare_quiet(&mut env, QUIET.into(), ONE.into()),
        Some(Comparison::Unordered)
    );
    assert_eq!(env.status, 0);
    assert_eq!(compare_quiet(&mut env, SIGNALLING.into(), ONE.into()), None);
    let mut env = X87Env::with_control(NONE_MASKED);
    assert_eq!(
        compare(&mut env, DENORMAL.into(), ONE.into()),
        Some(Comparison::Less)
    );
    assert_eq!(env.status, DE | PENDING);
}

/// SDM 1, table 4-7.
#[test]
fn choice_of_nan() {
    let quieted = F80::new(0x7fff, 3 << 62 | 7);
    let nan = |a, b| run(add, ALL_MASKED, a, b);
    assert_eq!(nan(SIGNALLING, QUIET), (Some(QUIET), IE));
    assert_eq!(nan(QUIET, SIGNALLING), (Some(QUIET), IE));
    assert_eq!(nan(SIGNALLING, ONE), (Some(quieted), IE));
    assert_eq!(nan(QUIET, quieted), (Some(quieted), 0));
    assert_eq!(nan(QUIET.negated(), QUIET), (Some(QUIET), 0));
    assert_eq!(nan(QUIET, UNNORMAL), (Some(F80::INDEFINITE), IE));
}

#[test]
fn flags_are_where_the_status_word_has_them() {
    let all = Flags::all().bits() as u16;
    assert_eq!(all, IE | DE | ZE | OE | UE | PE);
}

#[derive(Debug)]
enum Function {
    Exp,
    Log,
    LogPlus,
    Sin,
    Cos,
    Tan,
    Atan,
}

use Function::{Atan, Cos, Exp, Log, LogPlus, Sin, Tan};

/// ST(0), ST(1), the result to nearest. The trigonometric ones are of the argument reduced by π of 66 bits.
#[rustfmt::skip]
const RESULTS: &[(Function, Fields, Fields, Fields)] = &[
    (Exp, (0xbfd9, 0xb0c11fdecb91ce37), (0x3fff, 0x8000000000000000), (0xbfd8, 0xf5089b2b603738f1)),
    (Exp, (0x3ff9, 0xf17fd374c6a53877), (0x3fff, 0x8000000000000000), (0x3ff9, 0xa91dd5dc1a76baac)),
    (Exp, (0x3ffe, 0xe6a16a3b0d464138), (0x3fff, 0x8000000000000000), (0x3ffe, 0xde02db84ae58d62a)),
    (Exp, (0x3ffe, 0xf814e8a25f2dd97f), (0x3fff, 0x8000000000000000), (0x3ffe, 0xf523c3d77e8d6e06)),
    (Exp, (0x3ffe, 0x9a1afe878b33e968), (0x3fff, 0x8000000000000000), (0x3ffe, 0x848e0997abeca8b2)),
    (Log, (0x3ffe, 0xbb2edb20035b7399), (0x4002, 0xae9c82b1478c281d), (0xc001, 0x9dbdeb30aad4d1eb)),
    (Log, (0x3fff, 0xc30d8b7628dbd25e), (0x3ff9, 0x9e115e4b9e30691c), (0x3ff8, 0xc01f5d8b036de157)),
    (Log, (0x3fff, 0xa1da8978206f5c66), (0x3ff5, 0xc60a3cab359eeefb), (0x3ff4, 0x861763938dac1873)),
    (Log, (0x386b, 0xfb7ff337f5cae3bf), (0x3ffa, 0xd04b74ba4a0fe75d), (0xc005, 0xc5361b2f769a1add)),
    (Log, (0x400d, 0xe049548e8a0a8c96), (0x3ffa, 0xf7f35634f0e3cd97), (0x3ffe, 0xe57f2debc7528225)),
    (Log, (0x3fff, 0x8000000000000003), (0x3fff, 0x8585a01c4c7d6df0), (0x3fc2, 0x90793f020c27eddb)),
    (LogPlus, (0xbfdd, 0xef901b932a7c1880), (0x3ffd, 0xd4f46a6910acff00), (0xbfdd, 0x8fc04f3d62099526)),
    (LogPlus, (0xbfeb, 0xad8d194a98921396), (0xbff7, 0xdaf84e6b4f596727), (0x3fe4, 0xd62a09fdb65bc633)),
    (LogPlus, (0xbffc, 0xd0d7d13fb2489191), (0x4004, 0xb465325278f845f5), (0xc002, 0xed72a1f10aa66318)),
    (LogPlus, (0x3ffc, 0xf9a01fe8419521fe), (0x4000, 0xe77fd139d84a1d3a), (0x3fff, 0x91b7a820425cc4be)),
    (Sin, (0x3ff2, 0xeb384309c9a937a6), (0x3fff, 0x8000000000000000), (0x3ff2, 0xeb3842e8b0cbe63a)),
    (Cos, (0x3ff2, 0xeb384309c9a937a6), (0x3fff, 0x8000000000000000), (0x3ffe, 0xffffff93efd44eeb)),
    (Tan, (0x3ff2, 0xeb384309c9a937a6), (0x3fff, 0x8000000000000000), (0x3ff2, 0xeb38434bfb63f3a5)),
    (Sin, (0xbffd, 0xd75b1e249419cf4d), (0x3fff, 0x8000000000000000), (0xbffd, 0xd10fd106152aa916)),
    (Cos, (0xbffd, 0xd75b1e249419cf4d), (0x3fff, 0x8000000000000000), (0x3ffe, 0xe9afb22ee7c12a12)),
    (Tan, (0xbffd, 0xd75b1e249419cf4d), (0x3fff, 0x8000000000000000), (0xbffd, 0xe50630c419024297)),
    (Sin, (0x3fff, 0xb52fa53c0bf64ef7), (0x3fff, 0x8000000000000000), (0x3ffe, 0xfceb7d8114d620bb)),
    (Cos, (0x3fff, 0xb52fa53c0bf64ef7), (0x3fff, 0x8000000000000000), (0x3ffc, 0x9e5e48d75b2e4897)),
    (Tan, (0x3fff, 0xb52fa53c0bf64ef7), (0x3fff, 0x8000000000000000), (0x4001, 0xcc6bad72651678f1)),
    (Sin, (0x4003, 0xc177f1131e782196), (0x3fff, 0x8000000000000000), (0xbffe, 0xd01c9108340eb054)),
    (Cos, (0x4003, 0xc177f1131e782196), (0x3fff, 0x8000000000000000), (0x3ffe, 0x95151940d5523ba9)),
    (Tan, (0x4003, 0xc177f1131e782196), (0x3fff, 0x8000000000000000), (0xbfff, 0xb2ae7cb1f6f59e48)),
    (Sin, (0x4026, 0x8332f05a58296818), (0x3fff, 0x8000000000000000), (0x3ffe, 0xdb79fe40dde777cd)),
    (Cos, (0x4026, 0x8332f05a58296818), (0x3fff, 0x8000000000000000), (0x3ffe, 0x83c7c26c4cabdefc)),
    (Tan, (0x4026, 0x8332f05a58296818), (0x3fff, 0x8000000000000000), (0x3fff, 0xd52e374cae1b92f5)),
    (Sin, (0xc03d, 0xf67d5274c68deb5d), (0x3fff, 0x8000000000000000), (0x3ffe, 0xa96d16d88bd1a759)),
    (Cos, (0xc03d, 0xf67d5274c68deb5d), (0x3fff, 0x8000000000000000), (0xbffe, 0xbfe9da4a156bdb2e)),
    (Tan, (0xc03d, 0xf67d5274c68deb5d), (0x3fff, 0x8000000000000000), (0xbffe, 0xe200daf2c80867b1)),
    (Sin, (0x4000, 0xc90fdaa22168c235), (0x3fff, 0x8000000000000000), (0xbfbf, 0x8000000000000000)),
    (Tan, (0x4000, 0xc90fdaa22168c235), (0x3fff, 0x8000000000000000), (0x3fbf, 0x8000000000000000)),
    (Atan, (0x4006, 0xc7eec61bbf9703c0), (0xc018, 0x8960afe94bbdbb01), (0xbfff, 0xc90fac0fe5c12a34)),
    (Atan, (0xbffd, 0xd73ac59a355f2af4), (0xbffe, 0xc692ba0357079670), (0xc000, 0x8450c8704deb6bc3)),
    (Atan, (0x3fff, 0xd119cdccaf9b74f8), (0xbffe, 0x9404ab1ecc7c6d81), (0xbffd, 0xae2c21982f80ee35)),
    (Atan, (0x3fff, 0xfbd9e8a1ff297d0e), (0x3ffd, 0xfc98500014b9adb5), (0x3ffc, 0xfb91cf843d8d5d38)),
    (Atan, (0xbffd, 0xbd953dc23cc21779), (0xbfff, 0xa6a5bc9974a677c6), (0xbfff, 0xec8791b9126d7736)),
    (Atan, (0xbffe, 0xfaa30fac0e42d43c), (0x3fff, 0xd6a34d3e558d2adb), (0x4000, 0x865a55d1fef9a639)),
    (Atan, (0x3ffe, 0xbb4e5c11fb368220), (0x3fff, 0xab37d8171b4c24c2), (0x3fff, 0x88febd452fde5c96)),
];

#[test]
fn transcendental_results() {
    for (function, a, b, expected) in RESULTS {
        let (a, b) = (Operand::from(f80(*a)), Operand::from(f80(*b)));
        let mut env = X87Env::new();
        let e = &mut env;
        let result = match function {
            Exp => exp2_minus_one(e, a),
            Log => y_log2(e, b, a),
            LogPlus => y_log2_one_plus(e, b, a),
            Sin => sin(e, a),
            Cos => cos(e, a),
            Tan => tan(e, a).map(|pair| pair.0),
            Atan => atan(e, b, a),
        };
        assert_eq!(result, Some(f80(*expected)), "{function:?} {a:x?} {b:x?}");
        assert_eq!(env.status & !X87Env::C1, PE);
    }
    // Directed roundings of the irrational number between enclose it.
    for (function, a, _, expected) in RESULTS.iter().filter(|row| matches!(row.0, Sin)) {
        let at = |control| sin(&mut X87Env::with_control(control), f80(*a).into());
        let (down, up) = (at(0x077f), at(0x0b7f));
        assert!(
            down != up && [down, up].contains(&Some(f80(*expected))),
            "{function:?} {a:x?}"
        );
    }
}
