//! The built-in firmware: a small Supervisor Binary Interface for machine mode, so that a kernel
//! boots without a firmware file. Assembled for a configuration; loaded and entered at
//! [`layout::RAM`] by all harts, a0 = hart id, a1 = FDT.
//!
//! - Boots one hart in supervisor mode at the kernel's entry (a0 = hart id, a1 = FDT); the others wait,
//!   STOPPED, for `hart_start`.
//! - Delegates every exception that can come from below except the supervisor's own calls, and the
//!   three supervisor interrupts. There is nothing to emulate: the harts have misaligned accesses, `time`
//!   and Svadu in hardware.
//! - SBI 2.0: base, TIME, IPI, RFENCE, HSM (start, stop, status, retentive suspend), SRST, DBCN, and the
//!   legacy set_timer, putchar, getchar, clear_ipi and shutdown.
//! - The image holds the state of the harts: it must be loaded afresh at every reset.
//! - Memory protection is open: the FDT must reserve [`sbi`]'s memory (`FdtConfig::reserved`).
//!
//! Each hart has a block of [`BLOCK`] bytes: its mailbox below, its stack above. In supervisor
//! mode `mscratch` points to the end of the block, in machine mode it is 0, so that a trap of the
//! firmware itself is told from one of the kernel.
//!
//! Mailbox: another hart sets `soft` to raise SSIP, or takes a number in `requested` to have fences done;
//! `completed` follows when they are. Whoever waits for another hart serves its own mailbox meanwhile, so that
//! two harts that fence each other don't wait for ever.
//!
//! Source: RISC-V SBI Specification 2.0; Privileged manual 3 for the CSRs.

mod calls;
mod trap;

use crate::assembler::{Assembler, MRET, MSTATUS_MPIE, MSTATUS_MPP, MSTATUS_MPP_S, WFI, assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Most harts that the built-in firmware serves: one hart mask.
pub const SBI_MAX_HARTS: u32 = 64;

/// Bytes of a hart's block.
const BLOCK: i32 = 1024;
/// Bytes of a trap frame: x0 (unused) to x31.
const FRAME: i32 = 256;
// Fields of a block.
const SOFT: i32 = 0;
const REQUESTED: i32 = 8;
const COMPLETED: i32 = 16;
const STATE: i32 = 24;
const GO: i32 = 32;
const START: i32 = 40;
const OPAQUE: i32 = 48;
// HSM states (SBI 9).
const STARTED: i32 = 0;
const STOPPED: i32 = 1;
const START_PENDING: i32 = 2;
const SUSPENDED: i32 = 4;

const CLINT_MSIP: i32 = layout::CLINT_MSIP as i32;

/// What the built-in firmware is built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SbiConfig {
    /// Number of harts, 1 to [`SBI_MAX_HARTS`]; others that enter wait for ever.
    pub harts: u32,
    /// Size of RAM in bytes: addresses in calls are checked against it.
    pub memory_size: u64,
    /// Physical address at which the boot hart enters supervisor mode.
    pub kernel: u64,
    /// Physical address of the FDT; without one, what the reset vector passes in a1.
    pub fdt: Option<u64>,
    /// The hart that boots.
    pub boot_hart: u32,
}

impl SbiConfig {
    /// Hart 0 boots a kernel at [`layout::KERNEL`] with the reset vector's FDT.
    pub fn new(harts: u32, memory_size: u64) -> SbiConfig {
        SbiConfig {
            harts,
            memory_size,
            kernel: layout::KERNEL,
            fdt: None,
            boot_hart: 0,
        }
    }
}

/// The built-in firmware's image for [`layout::RAM`], at most 128 KiB. `harts` above the limit is clamped.
pub fn sbi(config: &SbiConfig) -> Vec<u8> {
    let harts = config.harts.clamp(1, SBI_MAX_HARTS);
    let mut asm = assembler(layout::RAM);
    boot(&mut asm);
    trap::entry(&mut asm);
    trap::mailbox(&mut asm);
    calls::dispatch(&mut asm);
    calls::base_and_time(&mut asm);
    calls::between_harts(&mut asm);
    calls::hart_state(&mut asm);
    calls::console(&mut asm);
    calls::reset(&mut asm);
    let mut block = [0u8; BLOCK as usize];
    block[STATE as usize] = STOPPED as u8;
    let all_harts = u64::MAX >> (SBI_MAX_HARTS - harts);
    rv!(asm
        ; .align 8, 0
        ; ->harts:
        ; .u64 u64::from(harts)
        ; ->all_harts:
        ; .u64 all_harts
        ; ->memory_base:
        ; .u64 layout::RAM
        ; ->memory_size:
        ; .u64 config.memory_size
        ; ->boot_hart:
        ; .u64 u64::from(config.boot_hart)
        ; ->kernel:
        ; .u64 config.kernel
        ; ->fdt:
        ; .u64 config.fdt.unwrap_or(0)
        ; ->has_sstc:
        ; .u64 0
        ; .align 64, 0
        ; ->blocks:
        ; .bytes std::iter::repeat_n(block, harts as usize).flatten()
    );
    asm.finalize().expect("the built-in firmware assembles")
}

/// Entry of every hart; what a hart does when it is started, and while it is stopped.
fn boot(asm: &mut Assembler) {
    // CBIE, CBCFE and CBZE; PBMTE, ADUE, STCE. What the hart lacks stays 0.
    const MENVCFG_LOW: i32 = 0xf0;
    const MIDELEG: i32 = 1 << 1 | 1 << 5 | 1 << 9;
    // Fetch, illegal, breakpoint, misaligned and access faults, calls from user mode, page faults.
    const MEDELEG: i32 = 0x1ff | 1 << 12 | 1 << 13 | 1 << 15;
    rv!(asm
        ; ->start:
        ; csrw mie, zero
        ; csrr s0, mhartid
        ; mv s1, a1
        ; la t0, ->harts
        ; ld t0, [t0]
        ; bgeu s0, t0, ->park
        // s2 = block, sp = its end.
        ; la s2, ->blocks
        ; slli t0, s0, 10
        ; add s2, s2, t0
        ; li.12 t0, BLOCK
        ; add sp, s2, t0
        ; la t0, ->trap
        ; csrw mtvec, t0
        ; csrw mscratch, zero
        ; li.32 t0, MEDELEG
        ; csrw medeleg, t0
        ; li.12 t0, MIDELEG
        ; csrw mideleg, t0
        ; li.12 t0, -1
        ; csrw mcounteren, t0
        ; csrw scounteren, t0
        ; csrw mcountinhibit, zero
        ; li.12 t0, 7
        ; slli t0, t0, 61
        ; addi t0, t0, MENVCFG_LOW
        ; csrw menvcfg, t0
        ; csrr t0, menvcfg
        ; bgez t0, >no_sstc
        ; la t1, ->has_sstc
        ; li.12 t2, 1
        ; sd t2, [t1]
        ; no_sstc:
        ; li.12 t0, -1
        ; srli t0, t0, 10
        ; csrw pmpaddr0, t0
        ; csrwi pmpcfg0, 0x1f
        ; la t0, ->boot_hart
        ; ld t0, [t0]
        ; bne s0, t0, ->stopped_entry

        // The boot hart: a1 = FDT.
        ; sd zero, [s2, STATE]
        ; la t0, ->fdt
        ; ld t0, [t0]
        ; beqz t0, >fdt_in_a1
        ; mv s1, t0
        ; fdt_in_a1:
        ; la t0, ->kernel
        ; ld t0, [t0]

        // t0 = address, s0 = hart, s1 = a1 in supervisor mode, s2 = block: enter it as SBI 9.1 says.
        ; ->enter_supervisor:
        ; csrw mepc, t0
        ; li.12 t0, BLOCK
        ; add sp, s2, t0
        ; csrw mscratch, sp
        ; csrw satp, zero
        ; li.32 t0, (MSTATUS_MPP | MSTATUS_MPIE | 1 << 1 | 1 << 5) as i32
        ; csrc mstatus, t0
        ; li.32 t0, MSTATUS_MPP_S as i32
        ; csrs mstatus, t0
        ; csrw sie, zero
        ; csrci mip, 1 << 1
        ; li.12 t0, 1 << 3
        ; csrs mie, t0
        ; mv a0, s0
        ; mv a1, s1
        ; fence.i
        ; .u32 MRET

        // A stopped hart: serves its mailbox, waits for `go`. At power-on its state is STOPPED in the
        // image already, so that it can be started before it comes here.
        ; ->stopped:
        ; li.12 t0, STOPPED
        ; sd t0, [s2, STATE]
        ; ->stopped_entry:
        ; csrw mscratch, zero
        ; li.12 t0, 1 << 3
        ; csrw mie, t0
        ; ->stopped_wait:
        ; jal ->serve_mailbox
        ; fence
        ; ld t0, [s2, GO]
        ; bnez t0, >started
        ; .u32 WFI
        ; j ->stopped_wait
        ; started:
        ; sd zero, [s2, GO]
        ; ld s1, [s2, OPAQUE]
        ; ld t0, [s2, START]
        ; sd zero, [s2, STATE]
        ; j ->enter_supervisor

        ; ->park:
        ; .u32 WFI
        ; j ->park
    );
}
