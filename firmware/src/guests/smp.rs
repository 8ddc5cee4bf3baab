//! A guest for several harts: counters by AMO and by LR/SC, a spinlock around the console, and a
//! token that goes round by inter-processor interrupts, harts waiting in WFI.
//!
//! The totals are what any correct machine prints; the order of the lines and the number of
//! retries depend on how harts take turns, which is what the determinism tests compare.

use super::{Guest, console, text};
use crate::assembler::{Assembler, MRET, MSTATUS_MIE, WFI, assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Increments of each counter by each hart.
const ROUNDS: i32 = 20_000;
/// How often the token goes round.
const LAPS: i32 = 200;
/// Bytes of a hart's stack.
const STACK: usize = 512;
/// Most harts that the guest has stacks for.
const MAX_HARTS: u32 = 8;

const CLINT_MSIP: i32 = layout::CLINT_MSIP as i32;
const PASS: i32 = layout::FINISHER_PASS as i32;

const SYMBOLS: &[&str] = &[
    "start",
    "trap",
    "ring",
    "verify",
    "lock",
    "unlock",
    "console_lock",
    "counter_lock",
    "counter_amo",
    "counter_lrsc",
    "counter_locked",
    "finished_harts",
    "interrupts",
    "tokens",
    "stacks",
];

/// The guest for `harts` harts (1 to 8; other values are clamped). More harts than that may enter:
/// they wait for ever.
///
/// Ends with "smp: all N harts agree: ..." and pass, or with fail and code 1 if a count is wrong.
pub fn smp_demo(harts: u32) -> Guest {
    let harts = harts.clamp(1, MAX_HARTS) as i32;
    let mut asm = assembler(layout::RAM);
    start(&mut asm, harts);
    ring(&mut asm, harts);
    verify(&mut asm, harts);
    locks(&mut asm);
    console(&mut asm);
    data(&mut asm);
    Guest::assemble(asm, SYMBOLS)
}

/// s0 = hart, s1 = rounds left.
fn start(asm: &mut Assembler, harts: i32) {
    rv!(asm
        ; ->start:
        ; csrr s0, mhartid
        ; li.12 t0, harts
        ; bltu s0, t0, >takes_part
        ; park:
        ; .u32 WFI
        ; j <park
        ; takes_part:
        ; la sp, ->stacks
        ; addi t0, s0, 1
        ; slli t0, t0, 9
        ; add sp, sp, t0
        ; la t0, ->trap
        ; csrw mtvec, t0
        ; li.12 t0, 1 << 3
        ; csrw mie, t0

        ; li.32 s1, ROUNDS
        ; la s2, ->counter_amo
        ; la s3, ->counter_lrsc
        ; la s4, ->counter_locked
        ; li.12 s5, 1
        ; round:
        ; amoadd.d t0, s5, [s2]
        ; retry:
        ; lr.d t0, [s3]
        ; addi t0, t0, 1
        ; sc.d t1, t0, [s3]
        ; bnez t1, <retry
        ; la a0, ->counter_lock
        ; jal ->lock
        ; ld t0, [s4]
        ; addi t0, t0, 1
        ; sd t0, [s4]
        ; la a0, ->counter_lock
        ; jal ->unlock
        ; addi s1, s1, -1
        ; bnez s1, <round

        ; la a0, ->console_lock
        ; jal ->lock
        ; la a0, ->text_hart
        ; jal ->puts
        ; mv a0, s0
        ; jal ->putdec
        ; la a0, ->text_counted
        ; jal ->puts
        ; la a0, ->console_lock
        ; jal ->unlock
    );
}

/// Passes the token on: hart h waits for lap l in `tokens[h]`, then hands it to the next hart.
fn ring(asm: &mut Assembler, harts: i32) {
    rv!(asm
        ; ->ring:
        ; la s2, ->tokens
        ; slli t0, s0, 3
        ; add s2, s2, t0
        // The next hart, its token, its software-interrupt register.
        ; addi s3, s0, 1
        ; li.12 t0, harts
        ; bltu s3, t0, >not_last
        ; li.12 s3, 0
        ; not_last:
        ; la s4, ->tokens
        ; slli t0, s3, 3
        ; add s4, s4, t0
        ; li.32 s5, CLINT_MSIP
        ; slli t0, s3, 2
        ; add s5, s5, t0
        ; li.12 s1, 1
        ; lap:
        // Interrupts are masked between the look and the WFI, which wakes on a pending one anyway.
        ; csrci mstatus, MSTATUS_MIE
        ; ld t0, [s2]
        ; bgeu t0, s1, >have_token
        ; .u32 WFI
        ; csrsi mstatus, MSTATUS_MIE
        ; j <lap
        ; have_token:
        ; csrsi mstatus, MSTATUS_MIE
        ; mv t0, s1
        ; bnez s3, >same_lap
        ; addi t0, t0, 1
        ; same_lap:
        ; sd t0, [s4]
        ; fence
        ; li.12 t0, 1
        ; sw t0, [s5]
        ; addi s1, s1, 1
        ; li.12 t0, LAPS
        ; bleu s1, t0, <lap

        ; la t0, ->finished_harts
        ; li.12 t1, 1
        ; amoadd.d.aqrl t1, t1, [t0]
        ; li.12 t0, harts - 1
        ; beq t1, t0, ->verify
        ; done:
        ; .u32 WFI
        ; j <done

        ; .align 4
        // A software interrupt: count it, clear it.
        ; ->trap:
        ; addi sp, sp, -32
        ; sd t0, [sp]
        ; sd t1, [sp, 8]
        ; csrr t0, mcause
        ; bgez t0, ->wrong
        ; li.32 t0, CLINT_MSIP
        ; csrr t1, mhartid
        ; slli t1, t1, 2
        ; add t0, t0, t1
        ; sw zero, [t0]
        ; la t0, ->interrupts
        ; li.12 t1, 1
        ; amoadd.d zero, t1, [t0]
        ; ld t0, [sp]
        ; ld t1, [sp, 8]
        ; addi sp, sp, 32
        ; .u32 MRET
    );
}

/// The last hart to finish checks the totals.
fn verify(asm: &mut Assembler, harts: i32) {
    rv!(asm
        ; ->verify:
        ; li.32 s1, ROUNDS * harts
        ; la t0, ->counter_amo
        ; ld t0, [t0]
        ; bne t0, s1, ->wrong
        ; la t0, ->counter_lrsc
        ; ld t0, [t0]
        ; bne t0, s1, ->wrong
        ; la t0, ->counter_locked
        ; ld t0, [t0]
        ; bne t0, s1, ->wrong
        ; la a0, ->text_all
        ; jal ->puts
        ; li.12 a0, harts
        ; jal ->putdec
        ; la a0, ->text_agree
        ; jal ->puts
        ; mv a0, s1
        ; jal ->putdec
        ; la a0, ->text_laps
        ; jal ->puts
        ; la a0, ->tokens
        ; ld a0, [a0]
        ; addi a0, a0, -1
        ; jal ->putdec
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, PASS
        ; j ->finish
        ; ->wrong:
        ; la a0, ->text_wrong
        ; jal ->puts
        ; li.32 a0, layout::finisher_failure(1)
        ; j ->finish
    );
}

/// `lock` and `unlock` (a0 = lock word).
fn locks(asm: &mut Assembler) {
    rv!(asm
        ; ->lock:
        ; li.12 t0, 1
        ; spin:
        ; amoswap.w.aq t1, t0, [a0]
        ; beqz t1, >locked
        ; pause
        ; j <spin
        ; locked:
        ; ret
        ; ->unlock:
        ; amoswap.w.rl zero, zero, [a0]
        ; ret
    );
}

fn data(asm: &mut Assembler) {
    rv!(asm
        ; ->data_start:
        ; ->text_hart:
        ; .bytes text(c"smp: hart ")
        ; ->text_counted:
        ; .bytes text(c" has counted\n")
        ; ->text_all:
        ; .bytes text(c"smp: all ")
        ; ->text_agree:
        ; .bytes text(c" harts agree: ")
        ; ->text_laps:
        ; .bytes text(c" increments, token laps ")
        ; ->text_wrong:
        ; .bytes text(c"smp: a count is wrong\n")
        ; ->text_newline:
        ; .bytes text(c"\n")
        // Each on a line of its own.
        ; .align 64, 0
        ; ->console_lock:
        ; .bytes [0u8; 64]
        ; ->counter_lock:
        ; .bytes [0u8; 64]
        ; ->counter_amo:
        ; .bytes [0u8; 64]
        ; ->counter_lrsc:
        ; .bytes [0u8; 64]
        ; ->counter_locked:
        ; .bytes [0u8; 64]
        ; ->finished_harts:
        ; .bytes [0u8; 64]
        ; ->interrupts:
        ; .bytes [0u8; 64]
        // Hart 0 holds the token of lap 1 from the start.
        ; ->tokens:
        ; .u64 1
        ; .bytes [0u8; 8 * (MAX_HARTS as usize - 1)]
        ; ->stacks:
        ; .bytes [0u8; STACK * MAX_HARTS as usize]
    );
}
