//! The supervisor's calls: a7 = extension, a6 = function, a0 to a5 = arguments. Each handler ends at
//! `done` with a0 = error and a1 = value, or at `done_legacy` with a0 alone.

use super::{
    BLOCK, CLINT_MSIP, COMPLETED, GO, OPAQUE, REQUESTED, SOFT, START, START_PENDING, STARTED, STATE, STOPPED,
    SUSPENDED,
};
use crate::assembler::{Assembler, WFI, rv};

use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

// Errors (SBI 3).
const NOT_SUPPORTED: i32 = -2;
const INVALID_PARAM: i32 = -3;
const INVALID_ADDRESS: i32 = -5;
const ALREADY_AVAILABLE: i32 = -6;

// Extensions.
const BASE: i32 = 0x10;
const TIME: i32 = 0x5449_4d45;
const IPI: i32 = 0x0073_5049;
const RFENCE: i32 = 0x5246_4e43;
const HSM: i32 = 0x0048_534d;
const SRST: i32 = 0x5352_5354;
const DBCN: i32 = 0x4442_434e;
// Legacy extensions.
const SET_TIMER: i32 = 0;
const PUTCHAR: i32 = 1;
const GETCHAR: i32 = 2;
const CLEAR_IPI: i32 = 3;
const SHUTDOWN: i32 = 8;

const SPEC_VERSION: i32 = 2 << 24;
/// No registered implementation: "tbk".
const IMPLEMENTATION_ID: i32 = 0x0074_626b;
const IMPLEMENTATION_VERSION: i32 = 1;

const MTIMECMP: i32 = layout::CLINT_MTIMECMP as i32;
const UART: i32 = layout::UART as i32;
const FINISHER: i32 = layout::FINISHER as i32;
const PASS: i32 = layout::FINISHER_PASS as i32;
const RESET: i32 = layout::FINISHER_RESET as i32;

/// Finds the handler, and writes results back into the frame.
pub(super) fn dispatch(asm: &mut Assembler) {
    rv!(asm
        ; ->supervisor_call:
        ; csrr t0, mepc
        ; addi t0, t0, 4
        ; csrw mepc, t0
        ; li.32 t0, TIME
        ; beq a7, t0, ->call_time
        ; li.32 t0, IPI
        ; beq a7, t0, ->call_ipi
        ; li.32 t0, RFENCE
        ; beq a7, t0, ->call_rfence
        ; li.32 t0, HSM
        ; beq a7, t0, ->call_hsm
        ; li.32 t0, DBCN
        ; beq a7, t0, ->call_dbcn
        ; li.12 t0, BASE
        ; beq a7, t0, ->call_base
        ; li.32 t0, SRST
        ; beq a7, t0, ->call_srst
        ; li.12 t0, PUTCHAR
        ; beq a7, t0, ->legacy_putchar
        ; li.12 t0, GETCHAR
        ; beq a7, t0, ->legacy_getchar
        ; beqz a7, ->legacy_set_timer
        ; li.12 t0, CLEAR_IPI
        ; beq a7, t0, ->legacy_clear_ipi
        ; li.12 t0, SHUTDOWN
        ; beq a7, t0, ->legacy_shutdown

        ; ->not_supported:
        ; li.12 a0, NOT_SUPPORTED
        ; li.12 a1, 0
        ; j ->done
        ; ->invalid_param:
        ; li.12 a0, INVALID_PARAM
        ; li.12 a1, 0
        ; j ->done
        ; ->invalid_address:
        ; li.12 a0, INVALID_ADDRESS
        ; li.12 a1, 0
        ; j ->done
        ; ->success:
        ; li.12 a1, 0
        ; ->success_value:
        ; li.12 a0, 0
        ; ->done:
        ; sd a1, [sp, 11 * 8]
        ; ->done_legacy:
        ; sd a0, [sp, 10 * 8]
        ; j ->leave
    );
}

/// Base (SBI 4) and TIME (SBI 6).
pub(super) fn base_and_time(asm: &mut Assembler) {
    rv!(asm
        ; ->call_base:
        ; li.32 a1, SPEC_VERSION
        ; beqz a6, ->success_value
        ; addi a6, a6, -1
        ; li.32 a1, IMPLEMENTATION_ID
        ; beqz a6, ->success_value
        ; addi a6, a6, -1
        ; li.12 a1, IMPLEMENTATION_VERSION
        ; beqz a6, ->success_value
        ; addi a6, a6, -1
        ; beqz a6, >probe
        ; addi a6, a6, -1
        ; csrr a1, mvendorid
        ; beqz a6, ->success_value
        ; addi a6, a6, -1
        ; csrr a1, marchid
        ; beqz a6, ->success_value
        ; addi a6, a6, -1
        ; csrr a1, mimpid
        ; beqz a6, ->success_value
        ; j ->not_supported

        // Is extension a0 there?
        ; probe:
        ; li.12 a1, 1
    );
    for extension in [BASE, TIME, IPI, RFENCE, HSM, SRST, DBCN] {
        rv!(asm; li.32 t0, extension; beq a0, t0, ->success_value);
    }
    for extension in [SET_TIMER, PUTCHAR, GETCHAR, CLEAR_IPI, SHUTDOWN] {
        rv!(asm; li.12 t0, extension; beq a0, t0, ->success_value);
    }
    rv!(asm
        ; j ->success

        ; ->call_time:
        ; bnez a6, ->not_supported
        ; jal ->set_timer
        ; j ->success
        ; ->legacy_set_timer:
        ; jal ->set_timer
        ; li.12 a0, 0
        ; j ->done_legacy

        // a0 = time of the next timer interrupt.
        ; ->set_timer:
        ; la t0, ->has_sstc
        ; ld t0, [t0]
        ; beqz t0, >by_machine_timer
        ; csrw stimecmp, a0
        ; ret
        ; by_machine_timer:
        ; li.32 t0, MTIMECMP
        ; slli t1, s0, 3
        ; add t0, t0, t1
        ; sd a0, [t0]
        ; li.12 t0, 1 << 5
        ; csrc mip, t0
        ; li.12 t0, 1 << 7
        ; csrs mie, t0
        ; ret
    );
}

/// IPI (SBI 7) and RFENCE (SBI 8): both take a hart mask.
pub(super) fn between_harts(asm: &mut Assembler) {
    rv!(asm
        ; ->legacy_clear_ipi:
        ; csrr a0, mip
        ; srli a0, a0, 1
        ; andi a0, a0, 1
        ; csrci mip, 1 << 1
        ; j ->done_legacy

        // a0 = mask, a1 = its base, or -1 for all -> s3 = mask of harts. Leaves the call if a
        // hart in it doesn't exist.
        ; ->hart_mask:
        ; la t0, ->all_harts
        ; ld t0, [t0]
        ; mv s3, t0
        ; li.12 t1, -1
        ; beq a1, t1, >masked
        ; beqz a0, >no_harts
        ; la t1, ->harts
        ; ld t1, [t1]
        ; bgeu a1, t1, ->invalid_param
        ; sll s3, a0, a1
        ; srl t1, s3, a1
        ; bne t1, a0, ->invalid_param
        ; not t0, t0
        ; and t0, t0, s3
        ; bnez t0, ->invalid_param
        ; masked:
        ; ret
        ; no_harts:
        ; li.12 s3, 0
        ; ret

        ; ->call_ipi:
        ; bnez a6, ->not_supported
        ; jal ->hart_mask
        // s4 = hart, s5 = block, s6 = its software-interrupt register.
        ; la s5, ->blocks
        ; li.32 s6, CLINT_MSIP
        ; next_ipi:
        ; beqz s3, ->success
        ; andi t0, s3, 1
        ; beqz t0, >skip_ipi
        ; li.12 t1, 1
        ; addi t0, s5, SOFT
        ; amoor.d.aqrl zero, t1, [t0]
        ; sw t1, [s6]
        ; skip_ipi:
        ; srli s3, s3, 1
        ; addi s5, s5, BLOCK
        ; addi s6, s6, 4
        ; j <next_ipi

        // All functions fence everything: instructions and all translations. Functions 3 to 6 are for
        // hypervisors.
        ; ->call_rfence:
        ; li.12 t0, 2
        ; bgtu a6, t0, ->not_supported
        ; jal ->hart_mask
        ; mv s7, s3
        ; la s5, ->blocks
        ; li.32 s6, CLINT_MSIP
        ; next_request:
        ; beqz s3, >requested
        ; andi t0, s3, 1
        ; beqz t0, >skip_request
        ; li.12 t1, 1
        ; addi t0, s5, REQUESTED
        ; amoadd.d.aqrl zero, t1, [t0]
        ; beq s5, s2, >skip_request
        ; sw t1, [s6]
        ; skip_request:
        ; srli s3, s3, 1
        ; addi s5, s5, BLOCK
        ; addi s6, s6, 4
        ; j <next_request

        // Wait for each, serving the own mailbox, which does this hart's own part too.
        ; requested:
        ; la s5, ->blocks
        ; next_wait:
        ; beqz s7, ->success
        ; andi t0, s7, 1
        ; beqz t0, >skip_wait
        ; ld s8, [s5, REQUESTED]
        ; wait:
        ; jal ->serve_mailbox
        ; fence
        ; ld t0, [s5, COMPLETED]
        ; bgeu t0, s8, >skip_wait
        ; pause
        ; j <wait
        ; skip_wait:
        ; srli s7, s7, 1
        ; addi s5, s5, BLOCK
        ; j <next_wait
    );
}

/// HSM (SBI 9).
pub(super) fn hart_state(asm: &mut Assembler) {
    rv!(asm
        ; ->call_hsm:
        ; beqz a6, ->hart_start
        ; li.12 t0, 1
        ; beq a6, t0, ->hart_stop
        ; li.12 t0, 2
        ; beq a6, t0, ->hart_status
        ; li.12 t0, 3
        ; beq a6, t0, ->hart_suspend
        ; j ->not_supported

        // a0 = hart -> s5 = block; leaves the call if there is no such hart.
        ; ->block_of:
        ; la t0, ->harts
        ; ld t0, [t0]
        ; bgeu a0, t0, ->invalid_param
        ; la s5, ->blocks
        ; slli t0, a0, 10
        ; add s5, s5, t0
        ; ret

        // a0 = hart, a1 = physical address, a2 = opaque.
        ; ->hart_start:
        ; jal ->block_of
        ; la t0, ->memory_base
        ; ld t0, [t0]
        ; sub t0, a1, t0
        ; la t1, ->memory_size
        ; ld t1, [t1]
        ; bgeu t0, t1, ->invalid_address
        ; andi t0, a1, 1
        ; bnez t0, ->invalid_address
        ; addi t0, s5, STATE
        ; li.12 t1, STOPPED
        ; li.12 t2, START_PENDING
        ; claim:
        ; lr.d.aqrl t3, [t0]
        ; bne t3, t1, >not_stopped
        ; sc.d.aqrl t3, t2, [t0]
        ; bnez t3, <claim
        ; sd a1, [s5, START]
        ; sd a2, [s5, OPAQUE]
        ; fence
        ; li.12 t1, 1
        ; sd t1, [s5, GO]
        ; fence
        ; li.32 t0, CLINT_MSIP
        ; slli t2, a0, 2
        ; add t0, t0, t2
        ; sw t1, [t0]
        ; j ->success
        ; not_stopped:
        ; li.12 a0, ALREADY_AVAILABLE
        ; li.12 a1, 0
        ; j ->done

        // The frame is dropped: the next start begins with an empty stack.
        ; ->hart_stop:
        ; li.12 t0, BLOCK
        ; add sp, s2, t0
        ; j ->stopped

        ; ->hart_status:
        ; jal ->block_of
        ; ld a1, [s5, STATE]
        ; j ->success_value

        // Type 0, retentive: the hart waits here for any interrupt that the supervisor has enabled.
        ; ->hart_suspend:
        ; bnez a0, ->not_supported
        ; li.12 t0, SUSPENDED
        ; sd t0, [s2, STATE]
        ; .u32 WFI
        ; li.12 t0, STARTED
        ; sd t0, [s2, STATE]
        ; j ->success
    );
}

/// DBCN (SBI 12) and the legacy console.
pub(super) fn console(asm: &mut Assembler) {
    rv!(asm
        ; ->call_dbcn:
        ; li.12 t0, 2
        ; beq a6, t0, >write_byte
        ; bgtu a6, t0, ->not_supported
        // a0 = bytes, a2:a1 = physical address, which must be RAM.
        ; bnez a2, ->invalid_param
        ; la t0, ->memory_base
        ; ld t0, [t0]
        ; sub t0, a1, t0
        ; la t1, ->memory_size
        ; ld t1, [t1]
        ; bgtu t0, t1, ->invalid_param
        ; sub t1, t1, t0
        ; bgtu a0, t1, ->invalid_param
        ; mv s3, a1
        ; add s4, a1, a0
        ; bnez a6, >read

        ; next_write:
        ; beq s3, s4, >all_written
        ; lbu a0, [s3]
        ; jal ->put_byte
        ; addi s3, s3, 1
        ; j <next_write
        ; all_written:
        ; sub a1, s3, a1
        ; j ->success_value

        // As much as is there.
        ; read:
        ; beq s3, s4, >all_read
        ; jal ->take_byte
        ; bltz a0, >all_read
        ; sb a0, [s3]
        ; addi s3, s3, 1
        ; j <read
        ; all_read:
        ; sub a1, s3, a1
        ; j ->success_value

        ; write_byte:
        ; jal ->put_byte
        ; j ->success

        ; ->legacy_putchar:
        ; jal ->put_byte
        ; li.12 a0, 0
        ; j ->done_legacy
        ; ->legacy_getchar:
        ; jal ->take_byte
        ; j ->done_legacy

        // a0 = byte; changes t0 and t1.
        ; ->put_byte:
        ; li.32 t0, UART
        ; wait_thre:
        ; lbu t1, [t0, 5]
        ; andi t1, t1, 0x20
        ; beqz t1, <wait_thre
        ; sb a0, [t0]
        ; ret
        // a0 = byte or -1; changes t0 and t1.
        ; ->take_byte:
        ; li.32 t0, UART
        ; li.12 a0, -1
        ; lbu t1, [t0, 5]
        ; andi t1, t1, 1
        ; beqz t1, >nothing
        ; lbu a0, [t0]
        ; nothing:
        ; ret
    );
}

/// SRST (SBI 10): a0 = shutdown, cold or warm reboot; a1 = reason.
pub(super) fn reset(asm: &mut Assembler) {
    rv!(asm
        ; ->call_srst:
        ; bnez a6, ->not_supported
        ; li.12 t0, 2
        ; bgtu a0, t0, ->invalid_param
        ; li.12 t0, 1
        ; bgtu a1, t0, ->invalid_param
        ; li.32 t1, RESET
        ; bnez a0, ->finish
        ; li.32 t1, layout::finisher_failure(1)
        ; bnez a1, ->finish
        ; ->legacy_shutdown:
        ; li.32 t1, PASS
        ; ->finish:
        ; li.32 t0, FINISHER
        ; sw t1, [t0]
        ; j ->park
    );
}
