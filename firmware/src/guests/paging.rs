//! A guest that lives on page faults: machine mode opens the PMP and delegates, supervisor mode
//! serves faults on demand under Sv39, user mode provokes them, and rewrites its own code.
//!
//! ```text
//! virtual                                  physical
//! 0x0000_0000  gigapage, S  rw             devices, identity
//! 0x4000_0000  user code, U rx             label `user` of the image
//! 0x4001_0000  user data, U                on demand: a load maps the zero frame read-only, a store
//!                                          maps a private, cleared frame
//! 0x4005_0000  user code alias, U rx       on demand: the frame of the data page 0x4_0000 below
//! 0x8000_0000  gigapage, S  rwx            RAM, identity
//! ```
//!
//! A pass: touch 32 pages for reading, then for writing; swap them in pairs by supervisor call
//! (`sfence.vma` by address); read them all; write and run 100 functions of two instructions, each
//! after a `fence.i`; unmap everything and see zeros again.

use super::{Guest, console, text};
use crate::assembler::{Assembler, MRET, MSTATUS_MPP_S, SFENCE_VMA, SFENCE_VMA_A0, SRET, assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// How often the user program runs through.
const PASSES: i32 = 20;
/// Data pages.
const PAGES: i32 = 32;
/// Page tables: root, middle, leaf, then the zero frame and the pool of frames.
const TABLES: u64 = layout::RAM + 0x10_0000;
/// First user data page.
const USER_DATA: i32 = 0x4001_0000;
/// Distance from a data page to its executable alias.
const ALIAS: i32 = 0x4_0000;
const USER_CODE: i32 = 0x4000_0000;
const PASS: i32 = layout::FINISHER_PASS as i32;

// Bits of a page-table entry (Privileged 10.3): V R W X U G A D.
const PTE_V: i32 = 1;
const PTE_R: i32 = 2;
const PTE_W: i32 = 4;
const PTE_X: i32 = 8;
const PTE_U: i32 = 16;
const PTE_A: i32 = 64;
const PTE_D: i32 = 128;

// Supervisor calls of the user program, in a7.
const CALL_EXIT: i32 = 0;
const CALL_SWAP: i32 = 1;
const CALL_UNMAP: i32 = 2;
const CALL_PASS: i32 = 3;

const SYMBOLS: &[&str] = &[
    "start",
    "machine_trap",
    "supervisor",
    "supervisor_trap",
    "page_fault",
    "supervisor_call",
    "user",
    "faults",
    "next_frame",
    "stack_end",
];

/// The guest. One hart, at least 4 MiB of RAM. Its console output doesn't depend on time; QEMU 10.0
/// prints [`PAGING_CONSOLE`].
pub fn paging() -> Guest {
    let mut asm = assembler(layout::RAM);
    machine(&mut asm);
    supervisor(&mut asm);
    fault(&mut asm);
    calls(&mut asm);
    console(&mut asm);
    user(&mut asm);
    data(&mut asm);
    Guest::assemble(asm, SYMBOLS)
}

/// The last line that [`paging`] prints, as QEMU 10.0.2 computes it.
pub const PAGING_CONSOLE: &str = "paging: faults 1980, checksum 0xdae5b4ec00000000\n";

/// Machine mode: tables, delegation, PMP; anything that traps here is an error.
fn machine(asm: &mut Assembler) {
    rv!(asm
        ; ->start:
        ; csrr t0, mhartid
        ; bnez t0, ->finish
        ; la sp, ->stack_end
        ; la t0, ->machine_trap
        ; csrw mtvec, t0
        ; la a0, ->text_banner
        ; jal ->puts

        // Clear root, middle and leaf table and the zero frame.
        ; la s0, ->tables
        ; ld s0, [s0]
        ; mv t0, s0
        ; li.32 t1, 4 * 4096
        ; add t1, t0, t1
        ; clear:
        ; sd zero, [t0]
        ; addi t0, t0, 8
        ; bne t0, t1, <clear
        // root[0], root[2]: identity gigapages.
        ; li.12 t0, PTE_V | PTE_R | PTE_W | PTE_A | PTE_D
        ; sd t0, [s0]
        ; li.12 t0, 1
        ; slli t0, t0, 29
        ; addi t0, t0, PTE_V | PTE_R | PTE_W | PTE_X | PTE_A | PTE_D
        ; sd t0, [s0, 16]
        // root[1] -> middle, middle[0] -> leaf.
        ; li.32 t1, 4096
        ; add s1, s0, t1
        ; srli t0, s1, 2
        ; addi t0, t0, PTE_V
        ; sd t0, [s0, 8]
        ; add s2, s1, t1
        ; srli t0, s2, 2
        ; addi t0, t0, PTE_V
        ; sd t0, [s1]
        // leaf[0] -> user code.
        ; la t0, ->user
        ; srli t0, t0, 2
        ; addi t0, t0, PTE_V | PTE_R | PTE_X | PTE_U | PTE_A
        ; sd t0, [s2]

        ; li.12 t0, -1
        ; srli t0, t0, 10
        ; csrw pmpaddr0, t0
        ; csrwi pmpcfg0, 0x1f
        // Page faults and calls from user mode go to the supervisor.
        ; li.32 t0, 1 << 8 | 1 << 12 | 1 << 13 | 1 << 15
        ; csrw medeleg, t0
        ; li.32 t0, MSTATUS_MPP_S as i32
        ; csrs mstatus, t0
        ; la t0, ->supervisor
        ; csrw mepc, t0
        ; .u32 MRET

        ; .align 4
        ; ->machine_trap:
        ; la sp, ->stack_end
        ; la a0, ->text_trap
        ; jal ->puts
        ; csrr a0, mcause
        ; jal ->puthex
        ; la a0, ->text_at
        ; jal ->puts
        ; csrr a0, mepc
        ; jal ->puthex
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, layout::finisher_failure(2)
        ; j ->finish
    );
}

/// Supervisor mode: switch on Sv39, enter user mode; the trap handler's entry and exit.
fn supervisor(asm: &mut Assembler) {
    rv!(asm
        ; ->supervisor:
        ; la t0, ->supervisor_trap
        ; csrw stvec, t0
        ; csrw sscratch, sp
        ; la t0, ->tables
        ; ld t0, [t0]
        ; srli t0, t0, 12
        ; li.12 t1, 8
        ; slli t1, t1, 60
        ; or t0, t0, t1
        ; csrw satp, t0
        ; .u32 SFENCE_VMA
        ; li.32 t0, USER_CODE
        ; csrw sepc, t0
        ; li.12 t0, 1 << 8
        ; csrc sstatus, t0
        ; .u32 SRET

        ; .align 4
        ; ->supervisor_trap:
        ; csrrw sp, sscratch, sp
        ; addi sp, sp, -128
    );
    const SAVED: [u8; 15] = [1, 5, 6, 7, 10, 11, 12, 13, 14, 15, 17, 28, 29, 30, 31];
    for (slot, x) in SAVED.into_iter().enumerate() {
        rv!(asm; sd X(x), [sp, 8 * slot as i32]);
    }
    rv!(asm
        ; csrr t0, scause
        ; li.12 t1, 8
        ; beq t0, t1, ->supervisor_call
        ; j ->page_fault
        ; ->supervisor_return:
    );
    for (slot, x) in SAVED.into_iter().enumerate() {
        rv!(asm; ld X(x), [sp, 8 * slot as i32]);
    }
    rv!(asm
        ; addi sp, sp, 128
        ; csrrw sp, sscratch, sp
        ; .u32 SRET

        // a0 = address -> t2 = address of its leaf entry; changes t1.
        ; ->leaf_entry:
        ; la t2, ->tables
        ; ld t2, [t2]
        ; li.32 t1, 2 * 4096
        ; add t2, t2, t1
        ; srli t1, a0, 12
        ; andi t1, t1, 0x1ff
        ; slli t1, t1, 3
        ; add t2, t2, t1
        ; ret
    );
}

/// Serves a page fault; t0 = cause.
fn fault(asm: &mut Assembler) {
    rv!(asm
        ; ->page_fault:
        ; la t2, ->faults
        ; ld t1, [t2]
        ; addi t1, t1, 1
        ; sd t1, [t2]
        ; csrr a0, stval
        // Only data pages and their aliases may fault.
        ; li.32 t1, USER_DATA
        ; bltu a0, t1, ->bad_fault
        ; li.32 t1, USER_DATA + 2 * ALIAS
        ; bgeu a0, t1, ->bad_fault
        ; jal ->leaf_entry
        ; li.12 t1, 13
        ; beq t0, t1, >load_fault
        ; li.12 t1, 15
        ; beq t0, t1, >store_fault

        // Fetch: the alias gets the frame of its data page, with other rights.
        ; ld t1, [t2, -(ALIAS >> 12) * 8]
        ; andi t3, t1, PTE_V
        ; beqz t3, ->bad_fault
        ; srli t1, t1, 10
        ; slli t1, t1, 10
        ; addi t1, t1, PTE_V | PTE_R | PTE_X | PTE_U | PTE_A
        ; j >set_entry

        // Load: the zero frame, read-only.
        ; load_fault:
        ; la t1, ->tables
        ; ld t1, [t1]
        ; li.32 t3, 3 * 4096
        ; add t1, t1, t3
        ; srli t1, t1, 2
        ; addi t1, t1, PTE_V | PTE_R | PTE_U | PTE_A
        ; j >set_entry

        // Store: a frame of its own, cleared.
        ; store_fault:
        ; la t3, ->next_frame
        ; ld t1, [t3]
        ; li.32 t4, 4096
        ; add t4, t1, t4
        ; sd t4, [t3]
        ; mv t3, t1
        ; clear_frame:
        ; sd zero, [t3]
        ; sd zero, [t3, 8]
        ; addi t3, t3, 16
        ; bne t3, t4, <clear_frame
        ; srli t1, t1, 2
        ; addi t1, t1, PTE_V | PTE_R | PTE_W | PTE_U | PTE_A | PTE_D

        ; set_entry:
        ; sd t1, [t2]
        ; .u32 SFENCE_VMA_A0
        ; j ->supervisor_return

        ; ->bad_fault:
        ; la a0, ->text_fault
        ; jal ->puts
        ; csrr a0, stval
        ; jal ->puthex
        ; la a0, ->text_at
        ; jal ->puts
        ; csrr a0, sepc
        ; jal ->puthex
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, layout::finisher_failure(1)
        ; j ->finish
    );
}

/// Serves a supervisor call: a7 = number, a0 and a1 = arguments.
fn calls(asm: &mut Assembler) {
    rv!(asm
        ; ->supervisor_call:
        ; csrr t0, sepc
        ; addi t0, t0, 4
        ; csrw sepc, t0
        ; li.12 t0, CALL_SWAP
        ; beq a7, t0, >call_swap
        ; li.12 t0, CALL_UNMAP
        ; beq a7, t0, >call_unmap
        ; li.12 t0, CALL_PASS
        ; beq a7, t0, >call_pass

        // Exit; a0 = checksum.
        ; mv s0, a0
        ; la a0, ->text_faults
        ; jal ->puts
        ; la a0, ->faults
        ; ld a0, [a0]
        ; jal ->putdec
        ; la a0, ->text_checksum
        ; jal ->puts
        ; mv a0, s0
        ; jal ->puthex
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, PASS
        ; j ->finish

        ; call_swap:
        ; jal ->leaf_entry
        ; mv t3, t2
        ; mv t4, a0
        ; mv a0, a1
        ; jal ->leaf_entry
        ; ld t5, [t3]
        ; ld t6, [t2]
        ; sd t6, [t3]
        ; sd t5, [t2]
        ; .u32 SFENCE_VMA_A0
        ; mv a0, t4
        ; .u32 SFENCE_VMA_A0
        ; j ->supervisor_return

        ; call_unmap:
        ; jal ->leaf_entry
        ; sd zero, [t2]
        ; .u32 SFENCE_VMA_A0
        ; j ->supervisor_return

        // A pass has ended, with nothing mapped: all frames are free again. a0 = its number.
        ; call_pass:
        ; la t0, ->next_frame
        ; la t1, ->first_frame
        ; ld t1, [t1]
        ; sd t1, [t0]
        ; mv a7, a0
        ; la a0, ->text_pass
        ; jal ->puts
        ; mv a0, a7
        ; jal ->putdec
        ; la a0, ->text_newline
        ; jal ->puts
        ; j ->supervisor_return
    );
}

/// The user program, a page of its own. s0 = checksum, s1 = pass, s2 = index, s3 = data, s4 = one page.
fn user(asm: &mut Assembler) {
    rv!(asm
        ; .align 4096, 0
        ; ->user:
        ; li.12 s0, 0
        ; li.12 s1, 0
        ; li.32 s4, 4096
        ; ->user_pass:
        // Read every page (zeros), then write it: two faults a page.
        ; li.12 s2, 0
        ; li.32 s3, USER_DATA
        ; touch:
        ; ld t0, [s3]
        ; add s0, s0, t0
        ; addi t0, s2, 7
        ; mul t0, t0, t0
        ; add t0, t0, s1
        ; sd t0, [s3]
        ; sd s2, [s3, 2040]
        ; add s3, s3, s4
        ; addi s2, s2, 1
        ; li.12 t0, PAGES
        ; bne s2, t0, <touch

        // Swap page i with page 31 - i.
        ; li.32 a0, USER_DATA
        ; li.32 a1, USER_DATA + (PAGES - 1) * 4096
        ; swap:
        ; li.12 a7, CALL_SWAP
        ; ecall
        ; add a0, a0, s4
        ; sub a1, a1, s4
        ; bltu a0, a1, <swap

        // Read all: 31 * checksum + both words.
        ; li.12 s2, 0
        ; li.32 s3, USER_DATA
        ; read:
        ; ld t0, [s3]
        ; ld t1, [s3, 2040]
        ; slli t2, s0, 5
        ; sub s0, t2, s0
        ; add s0, s0, t0
        ; add s0, s0, t1
        ; add s3, s3, s4
        ; addi s2, s2, 1
        ; li.12 t0, PAGES
        ; bne s2, t0, <read

        // The page after the data: write `addi a0, a0, n; ret`, run it through the alias.
        ; li.12 s2, 0
        ; li.32 s5, ALIAS
        ; add s5, s3, s5
        ; rewrite:
        ; slli t0, s2, 20
        ; li.32 t1, 0x0005_0513
        ; or t0, t0, t1
        ; sw t0, [s3]
        ; li.32 t1, 0x0000_8067
        ; sw t1, [s3, 4]
        ; fence.i
        ; mv a0, s0
        ; jalr s5
        ; mv s0, a0
        ; addi s2, s2, 1
        ; li.12 t0, 100
        ; bne s2, t0, <rewrite

        // Unmap the alias and everything else; all pages read as zero again.
        ; mv a0, s5
        ; li.12 a7, CALL_UNMAP
        ; ecall
        ; li.32 a0, USER_DATA
        ; unmap:
        ; li.12 a7, CALL_UNMAP
        ; ecall
        ; ld t0, [a0]
        ; slli t1, s0, 1
        ; add s0, t1, t0
        ; ecall
        ; add a0, a0, s4
        ; bleu a0, s3, <unmap

        ; addi s1, s1, 1
        ; mv a0, s1
        ; li.12 a7, CALL_PASS
        ; ecall
        ; li.12 t0, PASSES
        ; bne s1, t0, ->user_pass
        ; mv a0, s0
        ; li.12 a7, CALL_EXIT
        ; ecall
        ; .align 4096, 0
    );
}

fn data(asm: &mut Assembler) {
    rv!(asm
        ; ->data_start:
        ; ->text_banner:
        ; .bytes text(c"paging: Sv39, faults on demand\n")
        ; ->text_pass:
        ; .bytes text(c"paging: pass ")
        ; ->text_faults:
        ; .bytes text(c"paging: faults ")
        ; ->text_checksum:
        ; .bytes text(c", checksum ")
        ; ->text_fault:
        ; .bytes text(c"paging: bad fault ")
        ; ->text_trap:
        ; .bytes text(c"paging: unexpected trap ")
        ; ->text_at:
        ; .bytes text(c" at ")
        ; ->text_newline:
        ; .bytes text(c"\n")
        ; .align 64, 0
        ; ->tables:
        ; .u64 TABLES
        ; ->first_frame:
        ; .u64 TABLES + 4 * 4096
        ; ->next_frame:
        ; .u64 TABLES + 4 * 4096
        ; ->faults:
        ; .u64 0
        ; .bytes [0u8; 1024]
        ; ->stack_end:
    );
}
