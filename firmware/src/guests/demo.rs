//! The demo guest: a kernel of two tasks, switched by the timer, that share a doubly linked list
//! without a lock. Some million instructions after power-on the list is corrupt and the kernel
//! panics; the cause lies tens of thousands of instructions before the symptom, which is what
//! running backwards is for.
//!
//! The planted bug: `list_insert` masks interrupts, `list_remove` forgets to. It loads
//! `node->prev` early and uses it late. If the timer switches tasks in between, and the other task
//! removes that very predecessor, the stale pointer is stored into `next->prev`: from then on the
//! successor points back to a node that is no longer on the list. [`DEMO_CULPRIT`] says
//! where in `list_remove` that store stands.
//!
//! The story is made robust so that the word that `check_list` reports was last written by that
//! store: insertion is at the tail, a task removes its oldest node and never the tail, and a
//! removed node comes back only eight rounds later, after the next check, which happens every
//! fourth round. `check_list` itself masks interrupts, and skips its turn when the other task was
//! preempted inside the list code, since the list may be legitimately half-changed then.
//!
//! `demo_bad_address` and `demo_bad_value` hold the corrupted field's address and content after the
//! panic.

use super::{Guest, console, text};
use crate::assembler::{Assembler, MRET, MSTATUS_MIE, MSTATUS_MPIE, MSTATUS_MPP, assembler, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Offset in `list_remove` of the store that writes the stale pointer: `sd a1, 8(a2)`.
pub const DEMO_CULPRIT: u64 = 24;

/// Timer period in ticks of `mtime` (100 steps each). Prime, so that it has no short beat with
/// the length of a round.
const PERIOD: i32 = 17;
/// Nodes of a task; half of them are on the list at a time.
const NODES: i32 = 16;
/// Bytes of a node: next, prev, owner, number.
const NODE: i32 = 32;
/// Bytes of a saved context: pc, x1 to x31.
const CONTEXT: i32 = 256;
/// Bytes of a task's stack.
const STACK: i32 = 512;
/// Start of the pseudo-random sequence that varies the length of a round.
const SEED: i32 = 0x1234_5677;

const MTIMECMP: i32 = layout::CLINT_MTIMECMP as i32;
/// `mtime` seen from `mtimecmp` lies beyond a 12-bit offset.
const MTIME: i32 = layout::CLINT_MTIME as i32;

const SYMBOLS: &[&str] = &[
    "start",
    "trap",
    "resume",
    "unexpected_trap",
    "task_main",
    "work",
    "list_remove",
    "list_insert",
    "check_list",
    "panic_corrupted",
    "puts",
    "puthex",
    "putdec",
    "finish",
    "demo_bad_address",
    "demo_bad_value",
    "current_task",
    "ticks",
    "task0_context",
    "task1_context",
    "task_stats",
    "list_head",
    "nodes",
    "stacks",
];

/// What the demo says, whatever it runs on.
pub(super) mod words {
    use std::ffi::CStr;

    pub const BANNER: &CStr = c"demo: two tasks, one list, no lock\n";
    pub const STARTED: &CStr = c"demo: tasks started\n";
    pub const ROUND: &CStr = c"demo: round ";
    pub const TICKS: &CStr = c", ticks ";
    pub const CORRUPTED: &CStr = c"demo: list corrupted: node ";
    pub const PREV: &CStr = c" prev ";
    pub const EXPECTED: &CStr = c", expected ";
    pub const PANIC: &CStr = c"\ndemo: panic: bad value ";
    pub const TRAP: &CStr = c"demo: unexpected trap ";
    pub const AT: &CStr = c" at ";
}

/// The demo guest. One hart; deterministic, since its only input is virtual time.
///
/// ```
/// let guest = firmware::demo();
/// assert!(guest.symbol("list_head").is_some());
/// ```
pub fn demo() -> Guest {
    let mut asm = assembler(layout::RAM);
    start(&mut asm);
    trap(&mut asm);
    task(&mut asm);
    list(&mut asm);
    check(&mut asm);
    console(&mut asm);
    data(&mut asm);
    let mut guest = Guest::assemble(asm, SYMBOLS);
    let nodes = guest.symbol("nodes").unwrap_or_default();
    for n in 0..2 * NODES {
        let name = format!("node_{}_{}", n / NODES, n % NODES);
        guest.symbols.push((name, nodes + (n * NODE) as u64));
    }
    guest.symbols.sort_by_key(|&(_, address)| address);
    guest
}

/// Builds the list and the two contexts, starts the timer, enters task 0.
fn start(asm: &mut Assembler) {
    rv!(asm
        ; ->start:
        ; csrr t0, mhartid
        ; bnez t0, ->finish
        ; la sp, ->stacks_end
        ; la t0, ->trap
        ; csrw mtvec, t0
        ; la a0, ->text_banner
        ; jal ->puts

        // The list is empty: its head points to itself.
        ; la s0, ->list_head
        ; sd s0, [s0]
        ; sd s0, [s0, 8]
        // Number all nodes; put the first half of each task's on the list, taking turns.
        ; li.12 s1, 0
        ; next_pair:
        ; li.12 s2, 0
        ; next_owner:
        ; la a0, ->nodes
        ; slli t0, s2, 9
        ; add a0, a0, t0
        ; slli t0, s1, 5
        ; add a0, a0, t0
        ; sd s2, [a0, 16]
        ; sd s1, [a0, 24]
        ; la a3, ->task_stats
        ; li.12 t0, NODES / 2
        ; bge s1, t0, >stays_off
        ; jal ->list_insert
        ; stays_off:
        ; addi s2, s2, 1
        ; li.12 t0, 2
        ; blt s2, t0, <next_owner
        ; addi s1, s1, 1
        ; li.12 t0, NODES
        ; blt s1, t0, <next_pair

        // Contexts: pc, a0 = number of the task, sp.
        ; la t0, ->task_main
        ; la t1, ->task0_context
        ; la t2, ->stacks
        ; addi t2, t2, STACK
        ; sd t0, [t1]
        ; sd t2, [t1, 2 * 8]
        ; addi t1, t1, CONTEXT
        ; addi t2, t2, STACK
        ; sd t0, [t1]
        ; sd t2, [t1, 2 * 8]
        ; li.12 t3, 1
        ; sd t3, [t1, 10 * 8]

        ; la a0, ->text_started
        ; jal ->puts
        // Begin at the edge of a tick, so that when the race strikes depends little on how many
        // steps were made before this guest was entered.
        ; li.32 t0, MTIME
        ; ld t2, [t0]
        ; same_tick:
        ; ld t1, [t0]
        ; beq t1, t2, <same_tick
        ; addi t1, t1, PERIOD
        ; li.32 t0, MTIMECMP
        ; sd t1, [t0]
        ; li.12 t0, 1 << 7
        ; csrw mie, t0
        ; li.32 t0, (MSTATUS_MPP | MSTATUS_MPIE) as i32
        ; csrs mstatus, t0
        ; la t6, ->task0_context
        ; j ->resume
    );
}

/// The trap handler: saves all of the running task, switches to the other one.
fn trap(asm: &mut Assembler) {
    rv!(asm
        ; .align 4
        ; ->trap:
        ; csrrw t6, mscratch, t6
    );
    for x in 1..31 {
        rv!(asm; sd X(x), [t6, 8 * x as i32]);
    }
    rv!(asm
        ; csrr t5, mscratch
        ; sd t5, [t6, 31 * 8]
        ; csrr t5, mepc
        ; sd t5, [t6]
        ; csrr a0, mcause
        ; bgez a0, ->unexpected_trap
        ; slli a0, a0, 1
        ; srli a0, a0, 1
        ; addi a0, a0, -7
        ; bnez a0, ->unexpected_trap
        ; li.32 t0, MTIME
        ; ld t1, [t0]
        ; addi t1, t1, PERIOD
        ; li.32 t0, MTIMECMP
        ; sd t1, [t0]
        ; la t0, ->ticks
        ; ld t1, [t0]
        ; addi t1, t1, 1
        ; sd t1, [t0]
        ; la t0, ->current_task
        ; ld t1, [t0]
        ; xori t1, t1, 1
        ; sd t1, [t0]
        ; slli t1, t1, 8
        ; la t6, ->task0_context
        ; add t6, t6, t1
        // t6 = context to go on with.
        ; ->resume:
        ; csrw mscratch, t6
        ; ld t5, [t6]
        ; csrw mepc, t5
    );
    for x in 1..32 {
        rv!(asm; ld X(x), [t6, 8 * x as i32]);
    }
    rv!(asm
        ; .u32 MRET

        ; ->unexpected_trap:
        ; la sp, ->stacks_end
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

/// What both tasks do: take the oldest node off, work, put another one on, work. Task 0 also checks
/// the list and reports progress.
///
/// s0 = own statistics, s1 = pseudo-random state, s2 = oldest node, s3 = own nodes, s4 = rounds, s5 = number.
fn task(asm: &mut Assembler) {
    rv!(asm
        ; ->task_main:
        ; mv s5, a0
        ; la s0, ->task_stats
        ; slli t0, a0, 4
        ; add s0, s0, t0
        ; la s3, ->nodes
        ; slli t0, a0, 9
        ; add s3, s3, t0
        ; li.32 s1, SEED
        ; add s1, s1, a0
        ; li.12 s2, 0
        ; li.12 s4, 0
        ; ->task_round:
        ; slli a0, s2, 5
        ; add a0, s3, a0
        ; mv a3, s0
        ; jal ->list_remove
        ; jal ->work
        ; addi a0, s2, NODES / 2
        ; andi a0, a0, NODES - 1
        ; slli a0, a0, 5
        ; add a0, s3, a0
        ; mv a3, s0
        ; jal ->list_insert
        ; jal ->work
        ; addi s2, s2, 1
        ; andi s2, s2, NODES - 1
        ; addi s4, s4, 1
        ; bnez s5, ->task_round
        ; andi t0, s4, 3
        ; bnez t0, ->task_round
        ; jal ->check_list
        ; andi t0, s4, 0xff
        ; bnez t0, ->task_round
        ; la a0, ->text_round
        ; jal ->puts
        ; mv a0, s4
        ; jal ->putdec
        ; la a0, ->text_ticks
        ; jal ->puts
        ; la a0, ->ticks
        ; ld a0, [a0]
        ; jal ->putdec
        ; la a0, ->text_newline
        ; jal ->puts
        ; j ->task_round

        // Some hundred instructions of xorshift, as many as the sequence says.
        ; ->work:
        ; andi t0, s1, 0x1ff
        ; addi t0, t0, 100
        ; scramble:
        ; slli t1, s1, 13
        ; xor s1, s1, t1
        ; srli t1, s1, 7
        ; xor s1, s1, t1
        ; slli t1, s1, 17
        ; xor s1, s1, t1
        ; addi t0, t0, -1
        ; bnez t0, <scramble
        ; ret
    );
}

/// The list code. `a0` = node, `a3` = statistics of the task (removed, inserted).
fn list(asm: &mut Assembler) {
    rv!(asm
        // THE PLANTED BUG: no masking of interrupts, and `prev` is loaded long before its use.
        ; ->list_remove:
        ; ld a1, [a0, 8]
        ; ld a4, [a3]
        ; addi a4, a4, 1
        ; sd a4, [a3]
        ; ld a2, [a0]
        ; sd a2, [a1]
        ; sd a1, [a2, 8]
        ; ret

        ; ->list_insert:
        ; csrrci a5, mstatus, MSTATUS_MIE
        ; ld a4, [a3, 8]
        ; addi a4, a4, 1
        ; sd a4, [a3, 8]
        ; la a2, ->list_head
        ; ld a1, [a2, 8]
        ; sd a2, [a0]
        ; sd a1, [a0, 8]
        ; sd a0, [a1]
        ; sd a0, [a2, 8]
        ; andi a5, a5, MSTATUS_MIE as i32
        ; csrs mstatus, a5
        ; ret
        ; ->list_code_end:
    );
}

/// Walks the list forward and demands that every node's `prev` is where the walk came from.
fn check(asm: &mut Assembler) {
    rv!(asm
        ; ->check_list:
        ; csrci mstatus, MSTATUS_MIE
        // Only task 0 checks. If task 1 stands inside the list code, come back another time.
        ; la t0, ->task1_context
        ; ld t0, [t0]
        ; la t1, ->list_remove
        ; bltu t0, t1, >walk
        ; la t1, ->list_code_end
        ; bltu t0, t1, >checked
        ; walk:
        ; la t0, ->list_head
        ; mv a1, t0
        ; next_node:
        ; ld a2, [a1]
        ; ld a3, [a2, 8]
        ; bne a3, a1, ->panic_corrupted
        ; mv a1, a2
        ; bne a1, t0, <next_node
        ; checked:
        ; csrsi mstatus, MSTATUS_MIE
        ; ret

        // a2 = node, a3 = its prev, a1 = what prev should be.
        ; ->panic_corrupted:
        ; addi t1, a2, 8
        ; la t0, ->demo_bad_address
        ; sd t1, [t0]
        ; la t0, ->demo_bad_value
        ; sd a3, [t0]
        ; la a0, ->text_corrupted
        ; jal ->puts
        ; mv a0, a2
        ; jal ->puthex
        ; la a0, ->text_prev
        ; jal ->puts
        ; mv a0, a3
        ; jal ->puthex
        ; la a0, ->text_expected
        ; jal ->puts
        ; mv a0, a1
        ; jal ->puthex
        ; la a0, ->text_panic
        ; jal ->puts
        ; la a0, ->demo_bad_value
        ; ld a0, [a0]
        ; jal ->puthex
        ; la a0, ->text_at
        ; jal ->puts
        ; la a0, ->demo_bad_address
        ; ld a0, [a0]
        ; jal ->puthex
        ; la a0, ->text_newline
        ; jal ->puts
        ; li.32 a0, layout::finisher_failure(1)
        ; j ->finish
    );
}

fn data(asm: &mut Assembler) {
    rv!(asm
        ; ->data_start:
        ; ->text_banner:
        ; .bytes text(words::BANNER)
        ; ->text_started:
        ; .bytes text(words::STARTED)
        ; ->text_round:
        ; .bytes text(words::ROUND)
        ; ->text_ticks:
        ; .bytes text(words::TICKS)
        ; ->text_corrupted:
        ; .bytes text(words::CORRUPTED)
        ; ->text_prev:
        ; .bytes text(words::PREV)
        ; ->text_expected:
        ; .bytes text(words::EXPECTED)
        ; ->text_panic:
        ; .bytes text(words::PANIC)
        ; ->text_trap:
        ; .bytes text(words::TRAP)
        ; ->text_at:
        ; .bytes text(words::AT)
        ; ->text_newline:
        ; .bytes text(c"\n")

        ; .align 64, 0
        ; ->demo_bad_address:
        ; .u64 0
        ; ->demo_bad_value:
        ; .u64 0
        ; ->current_task:
        ; .u64 0
        ; ->ticks:
        ; .u64 0
        ; .align 64, 0
        ; ->task0_context:
        ; .bytes [0u8; CONTEXT as usize]
        ; ->task1_context:
        ; .bytes [0u8; CONTEXT as usize]
        // Two words a task.
        ; ->task_stats:
        ; .bytes [0u8; 64]
        ; ->list_head:
        ; .bytes [0u8; 64]
        ; ->nodes:
        ; .bytes [0u8; 2 * (NODES * NODE) as usize]
        // One for each task, then one for the start and for fatal traps.
        ; ->stacks:
        ; .bytes [0u8; 3 * STACK as usize]
        ; ->stacks_end:
    );
}
