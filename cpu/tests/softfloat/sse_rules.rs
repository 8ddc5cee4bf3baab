//! What SSE does besides IEEE arithmetic (NaNs, DENORMAL, DAZ, FTZ, the integer indefinite), against the host.

use std::arch::asm;

use cpu::FloatRules::Sse;
use cpu::ir::{FBin, FCond, FUn, Fmt, Int, Rm};
use cpu::ir::{eval_fbin, eval_fcmp, eval_ftoint, eval_fun};
use cpu::softfloat::Round;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Runs `$insn` on `x` (in and out) and `y` under MXCSR `$csr`; the value is MXCSR after it.
macro_rules! run {
    ($csr:expr, $x:ident, $y:expr, $insn:literal) => {{
        let mut csr: u32 = $csr;
        let mut saved = 0u32;
        // SAFETY: only `csr`, `saved` and x are written, MXCSR comes back as it was, and all exceptions are
        // masked.
        unsafe {
            asm!("stmxcsr [{saved}]", "ldmxcsr [{csr}]", $insn, "stmxcsr [{csr}]", "ldmxcsr [{saved}]",
                saved = in(reg) &raw mut saved, csr = in(reg) &raw mut csr,
                x = inout(xmm_reg) $x, y = in(xmm_reg) $y, options(nostack));
        }
        csr
    }};
}

/// As [`run`], with an integer result.
macro_rules! run_int {
    ($csr:expr, $y:expr, $insn:literal) => {{
        let mut csr: u32 = $csr;
        let mut saved = 0u32;
        let r: u64;
        // SAFETY: as in `run`.
        unsafe {
            asm!("stmxcsr [{saved}]", "ldmxcsr [{csr}]", $insn, "stmxcsr [{csr}]", "ldmxcsr [{saved}]",
                saved = in(reg) &raw mut saved, csr = in(reg) &raw mut csr,
                r = out(reg) r, y = in(xmm_reg) $y, options(nostack));
        }
        (r, csr)
    }};
}

/// As [`run`], with ZF, PF and CF.
macro_rules! run_flags {
    ($csr:expr, $x:expr, $y:expr, $insn:literal) => {{
        let mut csr: u32 = $csr;
        let mut saved = 0u32;
        let (z, p, c): (u8, u8, u8);
        // SAFETY: as in `run`.
        unsafe {
            asm!("stmxcsr [{saved}]", "ldmxcsr [{csr}]", $insn, "setz {z}", "setp {p}", "setc {c}",
                "stmxcsr [{csr}]", "ldmxcsr [{saved}]",
                saved = in(reg) &raw mut saved, csr = in(reg) &raw mut csr,
                x = in(xmm_reg) $x, y = in(xmm_reg) $y,
                z = out(reg_byte) z, p = out(reg_byte) p, c = out(reg_byte) c, options(nostack));
        }
        ((z != 0, p != 0, c != 0), csr)
    }};
}

fn special64(rng: &mut Rng) -> u64 {
    const EDGES: [u64; 16] = [
        0,
        1,
        0xf_ffff_ffff_ffff,
        0x10_0000_0000_0000,
        0x10_0000_0000_0001,
        0x3ff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff0_0000_0000_0001,
        0x7ff8_0000_0000_0000,
        0x7ffc_1234_5678_9abc,
        0x43e0_0000_0000_0000,
        0x41e0_0000_0000_0000,
        0x36a0_0000_0000_0000,
        0x3810_0000_0000_0000,
        0x41df_ffff_ffc0_0000,
    ];
    let r = rng.next();
    match r % 4 {
        0 => EDGES[(r >> 8) as usize % 16] ^ (r & 1 << 63),
        1 => rng.next() & !(0x7ff << 52) | (1023 - 30 + (r >> 8) % 100) << 52,
        2 => rng.next() & 0x801f_ffff_ffff_ffff,
        _ => rng.next(),
    }
}

fn special32(rng: &mut Rng) -> u64 {
    const EDGES: [u32; 12] = [
        0,
        1,
        0x7f_ffff,
        0x80_0000,
        0x80_0001,
        0x3f80_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7f80_0001,
        0x7fc0_0000,
        0x4f00_0000,
        0x5f00_0000,
    ];
    let r = rng.next();
    u64::from(match r % 4 {
        0 => EDGES[(r >> 8) as usize % 12] ^ (r as u32 & 1 << 31),
        1 => rng.next() as u32 & !(0xff << 23) | (127 - 20 + (r >> 8) as u32 % 60) << 23,
        2 => rng.next() as u32 & 0x80ff_ffff,
        _ => rng.next() as u32,
    })
}

/// All masked, with random flags, rounding, DAZ and FTZ.
fn mxcsr(rng: &mut Rng) -> u32 {
    let r = rng.next() as u32;
    0x1f80 | r & 0x603f | if r & 1 << 20 != 0 { r & 0x8040 } else { 0 }
}

macro_rules! checks {
    ($name:ident, $float:ty, $bits:ty, $fmt:expr, $other:ty, $special:ident,
     $add:literal, $sub:literal, $mul:literal, $div:literal, $min:literal, $max:literal, $sqrt:literal,
     $convert:literal, $ucomi:literal, $comi:literal, $si32:literal, $si64:literal, $tsi32:literal, $tsi64:literal) => {
        #[test]
        fn $name() {
            let mut rng = Rng(0x5e5e_0001);
            for case in 0..50_000 {
                let csr = mxcsr(&mut rng);
                let (a, b) = ($special(&mut rng), $special(&mut rng));
                let (x, y) = (
                    <$float>::from_bits(a as $bits),
                    <$float>::from_bits(b as $bits),
                );
                macro_rules! binary {
                    ($op:expr, $insn:literal) => {{
                        let mut r = x;
                        let after = run!(csr, r, y, $insn);
                        let mut env = u64::from(csr);
                        let ours = eval_fbin(Sse, $op, $fmt, Rm::Dynamic, a, b, &mut env);
                        let theirs = (u64::from(r.to_bits()), u64::from(after));
                        assert_eq!(
                            (ours, env),
                            theirs,
                            "{:?} {a:#x} {b:#x} mxcsr {csr:#x} case {case}",
                            $op
                        );
                    }};
                }
                binary!(FBin::Add, $add);
                binary!(FBin::Sub, $sub);
                binary!(FBin::Mul, $mul);
                binary!(FBin::Div, $div);
                binary!(FBin::Min, $min);
                binary!(FBin::Max, $max);
                let mut r = x;
                let after = run!(csr, r, y, $sqrt);
                let mut env = u64::from(csr);
                let ours = eval_fun(Sse, FUn::Sqrt, $fmt, Rm::Dynamic, b, &mut env);
                assert_eq!(
                    (ours, env),
                    (r.to_bits().into(), after.into()),
                    "sqrt {b:#x} mxcsr {csr:#x}"
                );
                let mut r: $other = 0.0;
                let after = run!(csr, r, y, $convert);
                let mut env = u64::from(csr);
                let ours = eval_fun(Sse, FUn::Convert, $fmt, Rm::Dynamic, b, &mut env);
                assert_eq!(
                    (ours, env),
                    (r.to_bits().into(), after.into()),
                    "convert {b:#x} mxcsr {csr:#x}"
                );
                for (signalling, (flags, after)) in [
                    (false, run_flags!(csr, x, y, $ucomi)),
                    (true, run_flags!(csr, x, y, $comi)),
                ] {
                    let (un, lt) = if signalling {
                        (FCond::UnorderedSignal, FCond::Lt)
                    } else {
                        (FCond::Unordered, FCond::LtQuiet)
                    };
                    let mut env = u64::from(csr);
                    let p = eval_fcmp(Sse, un, $fmt, a, b, &mut env);
                    let z = p || eval_fcmp(Sse, FCond::Eq, $fmt, a, b, &mut env);
                    let c = p || eval_fcmp(Sse, lt, $fmt, a, b, &mut env);
                    assert_eq!(
                        ((z, p, c), env),
                        (flags, after.into()),
                        "comi {a:#x} {b:#x} mxcsr {csr:#x}"
                    );
                }
                for (int, rm, (r, after)) in [
                    (Int::I32, Rm::Dynamic, run_int!(csr, y, $si32)),
                    (Int::I64, Rm::Dynamic, run_int!(csr, y, $si64)),
                    (
                        Int::I32,
                        Rm::Static(Round::TowardZero),
                        run_int!(csr, y, $tsi32),
                    ),
                    (
                        Int::I64,
                        Rm::Static(Round::TowardZero),
                        run_int!(csr, y, $tsi64),
                    ),
                ] {
                    let mut env = u64::from(csr);
                    let ours = eval_ftoint(Sse, $fmt, int, rm, b, &mut env);
                    assert_eq!(
                        (ours, env),
                        (r, after.into()),
                        "{int:?} {rm:?} {b:#x} mxcsr {csr:#x}"
                    );
                }
            }
        }
    };
}

checks!(
    binary64,
    f64,
    u64,
    Fmt::F64,
    f32,
    special64,
    "addsd {x}, {y}",
    "subsd {x}, {y}",
    "mulsd {x}, {y}",
    "divsd {x}, {y}",
    "minsd {x}, {y}",
    "maxsd {x}, {y}",
    "sqrtsd {x}, {y}",
    "cvtsd2ss {x}, {y}",
    "ucomisd {x}, {y}",
    "comisd {x}, {y}",
    "cvtsd2si {r:e}, {y}",
    "cvtsd2si {r:r}, {y}",
    "cvttsd2si {r:e}, {y}",
    "cvttsd2si {r:r}, {y}"
);
checks!(
    binary32,
    f32,
    u32,
    Fmt::F32,
    f64,
    special32,
    "addss {x}, {y}",
    "subss {x}, {y}",
    "mulss {x}, {y}",
    "divss {x}, {y}",
    "minss {x}, {y}",
    "maxss {x}, {y}",
    "sqrtss {x}, {y}",
    "cvtss2sd {x}, {y}",
    "ucomiss {x}, {y}",
    "comiss {x}, {y}",
    "cvtss2si {r:e}, {y}",
    "cvtss2si {r:r}, {y}",
    "cvttss2si {r:e}, {y}",
    "cvttss2si {r:r}, {y}"
);
