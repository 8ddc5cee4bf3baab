//! Traps into the firmware: the frame, interrupts of machine mode, and the mailbox.

use super::{BLOCK, CLINT_MSIP, COMPLETED, FRAME, REQUESTED, SOFT};
use crate::assembler::{Assembler, MRET, SFENCE_VMA, rv};

use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

const FINISHER: i32 = layout::FINISHER as i32;

/// The trap vector. Saves all registers of the kernel in a frame on the hart's stack (sp), and goes to
/// `supervisor_call` or serves the interrupt. In handlers: s0 = hart, s2 = block; they end at `leave`.
pub(super) fn entry(asm: &mut Assembler) {
    rv!(asm
        ; .align 4
        ; ->trap:
        ; csrrw sp, mscratch, sp
        ; beqz sp, ->trapped_in_firmware
        ; addi sp, sp, -FRAME
    );
    for x in (1..32).filter(|&x| x != 2) {
        rv!(asm; sd X(x), [sp, 8 * i32::from(x)]);
    }
    rv!(asm
        ; csrrw t0, mscratch, zero
        ; sd t0, [sp, 2 * 8]
        ; csrr s0, mhartid
        ; addi s2, sp, FRAME - BLOCK
        ; csrr t0, mcause
        ; bltz t0, >interrupt
        ; li.12 t1, 9
        ; beq t0, t1, ->supervisor_call
        ; j ->trapped_in_firmware

        ; interrupt:
        ; andi t0, t0, 0xff
        ; li.12 t1, 3
        ; bne t0, t1, >not_software
        ; jal ->serve_mailbox
        ; j ->leave
        ; not_software:
        ; li.12 t1, 7
        ; bne t0, t1, ->trapped_in_firmware
        // The machine timer stands in for the supervisor's: hand it on, and be quiet until it is set again.
        ; li.12 t0, 1 << 7
        ; csrc mie, t0
        ; li.12 t0, 1 << 5
        ; csrs mip, t0

        ; ->leave:
        ; addi t0, sp, FRAME
        ; csrw mscratch, t0
    );
    for x in (1..32).filter(|&x| x != 2) {
        rv!(asm; ld X(x), [sp, 8 * i32::from(x)]);
    }
    rv!(asm
        ; ld sp, [sp, 2 * 8]
        ; .u32 MRET

        // A mistake of this firmware, or an exception that it should have delegated: end with code 3.
        ; ->trapped_in_firmware:
        ; csrr a2, mcause
        ; csrr a3, mepc
        ; csrr a4, mtval
        ; li.32 t0, FINISHER
        ; li.32 t1, layout::finisher_failure(3)
        ; sw t1, [t0]
        ; j ->park
    );
}

/// `serve_mailbox`: s0 = hart, s2 = block; changes t0 to t2. Clears the hart's software
/// interrupt first, so that what is posted later raises it again.
pub(super) fn mailbox(asm: &mut Assembler) {
    rv!(asm
        ; ->serve_mailbox:
        ; li.32 t0, CLINT_MSIP
        ; slli t1, s0, 2
        ; add t0, t0, t1
        ; sw zero, [t0]
        ; fence
        ; addi t0, s2, SOFT
        ; amoswap.d.aqrl t0, zero, [t0]
        ; beqz t0, >no_soft
        ; csrsi mip, 1 << 1
        ; no_soft:
        ; ld t0, [s2, REQUESTED]
        ; ld t1, [s2, COMPLETED]
        ; beq t0, t1, >no_fence
        ; fence
        ; fence.i
        ; .u32 SFENCE_VMA
        ; sd t0, [s2, COMPLETED]
        ; fence
        ; no_fence:
        ; ret
    );
}
