//! A guest that mixes floating-point and integer arithmetic, in all five rounding modes and both
//! precisions, and prints a checksum of every result bit and of the accrued flags.
//!
//! Operands come from a pseudo-random sequence: mostly numbers of moderate size, now and then raw
//! bit patterns, so that NaNs, infinities, subnormals and all flags occur.

use super::{Guest, console, text};
use crate::assembler::{Assembler, MSTATUS_FS_INITIAL, assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Iterations of the loop.
const ROUNDS: i32 = 20_000;
const PASS: i32 = layout::FINISHER_PASS as i32;

const SYMBOLS: &[&str] = &["start", "round", "next_random", "fold", "checksum"];

/// The guest. Its console output doesn't depend on time; QEMU 10.0 prints [`FP_MIX_CONSOLE`].
pub fn fp_mix() -> Guest {
    let mut asm = assembler(layout::RAM);
    start(&mut asm);
    doubles(&mut asm);
    singles(&mut asm);
    end(&mut asm);
    console(&mut asm);
    data(&mut asm);
    Guest::assemble(asm, SYMBOLS)
}

/// What [`fp_mix`] prints, as QEMU 10.0.2 computes it.
pub const FP_MIX_CONSOLE: &str = "fp: 20000 rounds\nfp: checksum 0x9a5c46b45517d2a, flags 0x1f\n";

/// s0 = checksum, s1 = pseudo-random state, s2 = round, s3 = flags seen, s4 = rounds.
fn start(asm: &mut Assembler) {
    rv!(asm
        ; ->start:
        ; csrr t0, mhartid
        ; bnez t0, ->finish
        ; la sp, ->stack_end
        ; li.32 t0, MSTATUS_FS_INITIAL as i32
        ; csrs mstatus, t0
        ; csrw fcsr, zero
        ; la a0, ->text_banner
        ; jal ->puts
        ; li.12 s0, 0
        ; li.32 s1, 0x1357_9bdf
        ; li.12 s2, 0
        ; li.12 s3, 0
        ; li.32 s4, ROUNDS
        ; j ->round

        // a0 = the next value; changes t0.
        ; ->next_random:
        ; slli t0, s1, 13
        ; xor s1, s1, t0
        ; srli t0, s1, 7
        ; xor s1, s1, t0
        ; slli t0, s1, 17
        ; xor s1, s1, t0
        ; mv a0, s1
        ; ret

        // Mixes a0 into the checksum; changes t0.
        ; ->fold:
        ; xor s0, s0, a0
        ; slli t0, s0, 27
        ; srli s0, s0, 37
        ; or s0, s0, t0
        ; slli t0, s0, 2
        ; add s0, s0, t0
        ; ret
    );
}

/// The first half of a round: double precision, conversions to and from integers.
fn doubles(asm: &mut Assembler) {
    rv!(asm
        ; ->round:
        // Rounding mode = round mod 5.
        ; li.12 t0, 5
        ; remu t0, s2, t0
        ; csrw frm, t0
        ; jal ->next_random
        ; andi t1, a0, 0x1f
        ; beqz t1, >raw_bits
        ; srai t1, a0, 20
        ; fcvt.d.l fa0, t1
        ; jal ->next_random
        ; srai t1, a0, 40
        ; fcvt.d.l fa1, t1
        ; j >operands
        ; raw_bits:
        ; jal ->next_random
        ; fmv.d.x fa0, a0
        ; jal ->next_random
        ; fmv.d.x fa1, a0
        ; operands:
        ; jal ->next_random
        ; srai t1, a0, 11
        ; fcvt.d.l fa2, t1
        ; fadd.d fa3, fa0, fa1
        ; fmv.x.d a0, fa3
        ; jal ->fold
        ; fsub.d fa4, fa0, fa2
        ; fmv.x.d a0, fa4
        ; jal ->fold
        ; fmul.d fa5, fa3, fa4
        ; fmv.x.d a0, fa5
        ; jal ->fold
        ; fdiv.d fa6, fa0, fa1
        ; fmv.x.d a0, fa6
        ; jal ->fold
        ; fmadd.d fa7, fa0, fa1, fa2
        ; fmv.x.d a0, fa7
        ; jal ->fold
        ; fnmsub.d fa7, fa6, fa1, fa0
        ; fmv.x.d a0, fa7
        ; jal ->fold
        ; fsqrt.d fa5, fa2
        ; fmv.x.d a0, fa5
        ; jal ->fold
        ; fmin.d fa5, fa0, fa6
        ; fmax.d fa4, fa1, fa5
        ; fsgnjx.d fa4, fa4, fa5
        ; fmv.x.d a0, fa4
        ; jal ->fold
        ; fcvt.l.d a0, fa6
        ; jal ->fold
        ; fcvt.wu.d a0, fa7
        ; jal ->fold
        ; flt.d a0, fa0, fa1
        ; fclass.d t1, fa6
        ; add a0, a0, t1
        ; feq.d t1, fa3, fa4
        ; slli t1, t1, 11
        ; add a0, a0, t1
        ; jal ->fold
    );
}

/// The second half: single precision, NaN boxing, integer multiply and divide.
fn singles(asm: &mut Assembler) {
    rv!(asm
        ; fcvt.s.d ft0, fa0
        ; fcvt.s.d ft1, fa6
        ; fmv.x.w a0, ft0
        ; jal ->fold
        ; fmul.s ft2, ft0, ft1
        ; fmv.x.d a0, ft2
        ; jal ->fold
        ; fdiv.s ft3, ft1, ft0
        ; fmv.x.w a0, ft3
        ; jal ->fold
        ; fmsub.s ft4, ft0, ft1, ft2
        ; fmv.x.w a0, ft4
        ; jal ->fold
        ; fabs.s ft5, ft3
        ; fsqrt.s ft5, ft5
        ; fmv.x.w a0, ft5
        ; jal ->fold
        // A double read as a single isn't boxed: it must count as the default NaN.
        ; fadd.s ft6, fa0, ft5
        ; fmv.x.w a0, ft6
        ; jal ->fold
        ; fcvt.d.s ft7, ft2
        ; fmv.x.d a0, ft7
        ; jal ->fold
        ; jal ->next_random
        ; mulhsu t1, a0, s0
        ; ori t2, s2, 1
        ; div t2, t1, t2
        ; mulw t3, t2, a0
        ; xor a0, t2, t3
        ; jal ->fold
        ; csrrwi a0, fflags, 0
        ; or s3, s3, a0
        ; jal ->fold
        ; addi s2, s2, 1
        ; bne s2, s4, ->round
    );
}

fn end(asm: &mut Assembler) {
    rv!(asm
        ; la t0, ->checksum
        ; sd s0, [t0]
        ; la a0, ->text_checksum
        ; jal ->puts
        ; mv a0, s0
        ; jal ->puthex
        ; la a0, ->text_flags
        ; jal ->puts
        ; mv a0, s3
        ; jal ->puthex
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, PASS
        ; j ->finish
    );
}

fn data(asm: &mut Assembler) {
    rv!(asm
        ; ->data_start:
        ; ->text_banner:
        ; .bytes text(c"fp: 20000 rounds\n")
        ; ->text_checksum:
        ; .bytes text(c"fp: checksum ")
        ; ->text_flags:
        ; .bytes text(c", flags ")
        ; ->text_newline:
        ; .bytes text(c"\n")
        ; .align 64, 0
        ; ->checksum:
        ; .u64 0
        ; .bytes [0u8; 504]
        ; ->stack_end:
    );
}
