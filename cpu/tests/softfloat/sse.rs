//! The host's SSE, FMA and AVX-512 instructions: result bits and MXCSR flags of one instruction.

use std::arch::asm;

/// MXCSR rounding control (SDM 1, 4.8.4).
#[derive(Clone, Copy)]
pub enum Control {
    Nearest = 0,
    Down = 1,
    Up = 2,
    Zero = 3,
}

/// All exceptions masked, no sticky flag, denormals handled.
fn mxcsr(control: Control) -> u32 {
    0x1f80 | (control as u32) << 13
}

/// Runs `$insn` under `$control`; the value is the flags that it raised.
macro_rules! with_mxcsr {
    ($control:expr, $($insn:literal),+; $($operands:tt)*) => {{
        let mut csr = mxcsr($control);
        let mut saved = 0u32;
        // SAFETY: the block writes `csr`, `saved` and its declared operands only, touches no stack, and gives
        // MXCSR back as it was; with every exception masked nothing traps. Callers see to it that the CPU has
        // the instruction.
        unsafe {
            asm!(
                "stmxcsr [{saved}]",
                "ldmxcsr [{csr}]",
                $($insn,)+
                "stmxcsr [{csr}]",
                "ldmxcsr [{saved}]",
                saved = in(reg) &raw mut saved,
                csr = in(reg) &raw mut csr,
                $($operands)*
                options(nostack),
            );
        }
        csr & 0x3f
    }};
}

macro_rules! binary {
    ($name:ident, $float:ty, $insn:literal) => {
        pub fn $name(a: u64, b: u64, control: Control) -> (u64, u32) {
            let mut x = <$float>::from_bits(a as _);
            let y = <$float>::from_bits(b as _);
            let flags = with_mxcsr!(control, $insn; x = inout(xmm_reg) x, y = in(xmm_reg) y,);
            (x.to_bits().into(), flags)
        }
    };
}

binary!(addss, f32, "addss {x}, {y}");
binary!(addsd, f64, "addsd {x}, {y}");
binary!(subss, f32, "subss {x}, {y}");
binary!(subsd, f64, "subsd {x}, {y}");
binary!(mulss, f32, "mulss {x}, {y}");
binary!(mulsd, f64, "mulsd {x}, {y}");
binary!(divss, f32, "divss {x}, {y}");
binary!(divsd, f64, "divsd {x}, {y}");

macro_rules! unary {
    ($name:ident, $from:ty, $to:ty, $insn:literal) => {
        pub fn $name(a: u64, control: Control) -> (u64, u32) {
            let y = <$from>::from_bits(a as _);
            let mut x: $to = 0.0;
            let flags = with_mxcsr!(control, $insn; x = inout(xmm_reg) x, y = in(xmm_reg) y,);
            (x.to_bits().into(), flags)
        }
    };
}

unary!(sqrtss, f32, f32, "sqrtss {x}, {y}");
unary!(sqrtsd, f64, f64, "sqrtsd {x}, {y}");
unary!(cvtss2sd, f32, f64, "cvtss2sd {x}, {y}");
unary!(cvtsd2ss, f64, f32, "cvtsd2ss {x}, {y}");

macro_rules! fused {
    ($name:ident, $float:ty, $insn:literal) => {
        /// `a * b + c`; the CPU must have FMA.
        pub fn $name(a: u64, b: u64, c: u64, control: Control) -> (u64, u32) {
            let x = <$float>::from_bits(a as _);
            let y = <$float>::from_bits(b as _);
            let mut z = <$float>::from_bits(c as _);
            let flags = with_mxcsr!(control, $insn;
                x = in(xmm_reg) x, y = in(xmm_reg) y, z = inout(xmm_reg) z,);
            (z.to_bits().into(), flags)
        }
    };
}

fused!(vfmadd231ss, f32, "vfmadd231ss {z}, {x}, {y}");
fused!(vfmadd231sd, f64, "vfmadd231sd {z}, {x}, {y}");

macro_rules! to_integer {
    ($name:ident, $float:ty, $insn:literal) => {
        /// Result zero-extended from the instruction's width. The AVX-512 forms need AVX512F.
        pub fn $name(a: u64, control: Control) -> (u64, u32) {
            let y = <$float>::from_bits(a as _);
            let r: u64;
            let flags = with_mxcsr!(control, $insn; r = out(reg) r, y = in(xmm_reg) y,);
            (r, flags)
        }
    };
}

to_integer!(cvtss2si_32, f32, "cvtss2si {r:e}, {y}");
to_integer!(cvtss2si_64, f32, "cvtss2si {r:r}, {y}");
to_integer!(cvtsd2si_32, f64, "cvtsd2si {r:e}, {y}");
to_integer!(cvtsd2si_64, f64, "cvtsd2si {r:r}, {y}");
to_integer!(cvttss2si_32, f32, "cvttss2si {r:e}, {y}");
to_integer!(cvttss2si_64, f32, "cvttss2si {r:r}, {y}");
to_integer!(cvttsd2si_32, f64, "cvttsd2si {r:e}, {y}");
to_integer!(cvttsd2si_64, f64, "cvttsd2si {r:r}, {y}");
to_integer!(vcvtss2usi_32, f32, "vcvtss2usi {r:e}, {y}");
to_integer!(vcvtss2usi_64, f32, "vcvtss2usi {r:r}, {y}");
to_integer!(vcvtsd2usi_32, f64, "vcvtsd2usi {r:e}, {y}");
to_integer!(vcvtsd2usi_64, f64, "vcvtsd2usi {r:r}, {y}");

macro_rules! from_integer {
    ($name:ident, $float:ty, $insn:literal) => {
        /// Converts the low bits. The AVX-512 forms need AVX512F.
        pub fn $name(a: u64, control: Control) -> (u64, u32) {
            let mut x: $float = 0.0;
            let flags = with_mxcsr!(control, $insn; x = inout(xmm_reg) x, r = in(reg) a,);
            (x.to_bits().into(), flags)
        }
    };
}

from_integer!(cvtsi2ss_32, f32, "cvtsi2ss {x}, {r:e}");
from_integer!(cvtsi2ss_64, f32, "cvtsi2ss {x}, {r:r}");
from_integer!(cvtsi2sd_32, f64, "cvtsi2sd {x}, {r:e}");
from_integer!(cvtsi2sd_64, f64, "cvtsi2sd {x}, {r:r}");
from_integer!(vcvtusi2ss_32, f32, "vcvtusi2ss {x}, {x}, {r:e}");
from_integer!(vcvtusi2ss_64, f32, "vcvtusi2ss {x}, {x}, {r:r}");
from_integer!(vcvtusi2sd_32, f64, "vcvtusi2sd {x}, {x}, {r:e}");
from_integer!(vcvtusi2sd_64, f64, "vcvtusi2sd {x}, {x}, {r:r}");

macro_rules! comparison {
    ($name:ident, $float:ty, $insn:literal) => {
        /// ZF, PF and CF (in bits 0, 8 and 16), and the flags.
        pub fn $name(a: u64, b: u64) -> (u32, u32) {
            let x = <$float>::from_bits(a as _);
            let y = <$float>::from_bits(b as _);
            let (zf, pf, cf): (u8, u8, u8);
            let flags = with_mxcsr!(Control::Nearest, $insn, "setz {zf}", "setp {pf}", "setc {cf}";
                x = in(xmm_reg) x, y = in(xmm_reg) y,
                zf = out(reg_byte) zf, pf = out(reg_byte) pf, cf = out(reg_byte) cf,);
            (u32::from(zf) | u32::from(pf) << 8 | u32::from(cf) << 16, flags)
        }
    };
}

comparison!(ucomiss, f32, "ucomiss {x}, {y}");
comparison!(ucomisd, f64, "ucomisd {x}, {y}");
comparison!(comiss, f32, "comiss {x}, {y}");
comparison!(comisd, f64, "comisd {x}, {y}");
