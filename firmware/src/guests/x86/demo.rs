//! The demo guest on the PC: the same two tasks, the same list without a lock, the same planted bug and the
//! same words as [`crate::demo`], whose module says why the story holds. Tasks are switched by the local
//! APIC's timer.
//!
//! A task's context is on its own stack, as the interrupt and the handler leave it; `task0_context` and
//! `task1_context` hold where that is, and where the task stands.

use super::super::demo::words;
use super::{Assembler, CODE, DATA, X86Guest, assembler, console, own_segments, text, x64};
use crate::x86::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// Offset in `list_remove` of the store that writes the stale pointer: `mov [rdx+8], rax`.
pub const X86_DEMO_CULPRIT: u64 = 20;

/// Timer period in ticks of the local APIC's timer, undivided (a step each). Prime, so that it has no
/// short beat with the length of a round.
const PERIOD: i32 = 1721;
/// Nodes of a task; half of them are on the list at a time.
const NODES: i32 = 16;
/// Bytes of a node: next, prev, owner, number.
const NODE: i32 = 32;
/// Bytes of a context: stack pointer, instruction pointer.
const CONTEXT: i32 = 16;
/// Bytes of a task's stack.
const STACK: i32 = 1024;
/// Start of the pseudo-random sequence that varies the length of a round.
const SEED: i32 = 0x1234_5677;
/// General registers in a context on the stack; instruction pointer, CS, flags, stack pointer and SS follow.
const SAVED: i32 = 15;
/// Where rdi is among them.
const SAVED_RDI: i32 = 8;

const VECTOR_TIMER: i32 = 0x20;
/// Interrupt gates: the exceptions, and what the 8259s could send.
const GATES: i32 = 0x30;
/// Bytes of the code that says which exception it is.
const STUB: i32 = 16;
/// Exceptions that push an error code (SDM 3A, table 6-1).
const WITH_ERROR: [i32; 10] = [8, 10, 11, 12, 13, 14, 17, 21, 29, 30];
/// RFLAGS with interrupts on.
const INTERRUPTS_ON: i32 = 0x202;

const LAPIC_EOI: i32 = (layout::LAPIC as i32).wrapping_add(0xb0);
const LAPIC_SPURIOUS: i32 = (layout::LAPIC as i32).wrapping_add(0xf0);
const LAPIC_TIMER: i32 = (layout::LAPIC as i32).wrapping_add(0x320);
const LAPIC_TIMER_COUNT: i32 = (layout::LAPIC as i32).wrapping_add(0x380);
const LAPIC_TIMER_DIVIDE: i32 = (layout::LAPIC as i32).wrapping_add(0x3e0);
const PERIODIC: i32 = 1 << 17;
const DIVIDE_BY_1: i32 = 0xb;

const SYMBOLS: &[&str] = &[
    "start",
    "trap",
    "resume",
    "exceptions",
    "unexpected_trap",
    "task_main",
    "work",
    "list_remove",
    "list_insert",
    "check_list",
    "panic_corrupted",
    "putc",
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
    "idt",
];

/// The demo guest for the PC. One processor; deterministic, since its only input is virtual time.
///
/// ```
/// let demo = firmware::x86_demo();
/// assert!(demo.guest.symbol("list_head").is_some());
/// ```
pub fn x86_demo() -> X86Guest {
    let mut asm = assembler();
    start(&mut asm);
    trap(&mut asm);
    exceptions(&mut asm);
    task(&mut asm);
    list(&mut asm);
    check(&mut asm);
    console(&mut asm);
    data(&mut asm);
    let mut demo = X86Guest::assemble(asm, SYMBOLS);
    let symbols = &mut demo.guest.symbols;
    let nodes = symbols
        .iter()
        .find(|(name, _)| name == "nodes")
        .map_or(0, |s| s.1);
    for n in 0..2 * NODES {
        let name = format!("node_{}_{}", n / NODES, n % NODES);
        symbols.push((name, nodes + (n * NODE) as u64));
    }
    symbols.sort_by_key(|&(_, address)| address);
    demo
}

/// Builds gates, list and contexts, starts the timer, enters task 0.
fn start(asm: &mut Assembler) {
    x64!(asm
        ; ->start:
        ; cli
        ; cld
        ; lea rsp, [->stacks_end]
    );
    own_segments(asm);
    x64!(asm
        // Gates: to the exceptions' stubs, one after the other, and to the handler of the timer.
        ; lea rdi, [->idt]
        ; lea rsi, [->exceptions]
        ; lea r8, [->trap]
        ; xor ecx, ecx
        ; next_gate:
        ; mov rax, rsi
        ; cmp ecx, VECTOR_TIMER
        ; cmove rax, r8
        // Low half of the offset, selector, present 64-bit interrupt gate, high half.
        ; movzx edx, ax
        ; or edx, CODE << 16
        ; mov [rdi], edx
        ; mov edx, eax
        ; and edx, 0xffff_0000_u32 as i32
        ; or edx, 0x8e00
        ; mov [rdi + 4], edx
        ; shr rax, 32
        ; mov [rdi + 8], rax
        ; add rdi, 16
        ; add rsi, STUB
        ; add ecx, 1
        ; cmp ecx, GATES
        ; jne <next_gate
        ; lea rax, [->idt_pointer]
        ; lea rcx, [->idt]
        ; mov [rax + 2], rcx
        ; lidt [rax]

        ; lea rdi, [->text_banner]
        ; call ->puts

        // The list is empty: its head points to itself.
        ; lea rax, [->list_head]
        ; mov [rax], rax
        ; mov [rax + 8], rax
        // Number all nodes; put the first half of each task's on the list, taking turns.
        ; xor ebx, ebx
        ; next_pair:
        ; xor ebp, ebp
        ; next_owner:
        ; lea rdi, [->nodes]
        ; mov rax, rbp
        ; shl rax, 9
        ; add rdi, rax
        ; mov rax, rbx
        ; shl rax, 5
        ; add rdi, rax
        ; mov [rdi + 16], rbp
        ; mov [rdi + 24], rbx
        ; lea rsi, [->task_stats]
        ; cmp ebx, NODES / 2
        ; jge >stays_off
        ; call ->list_insert
        ; stays_off:
        ; add ebp, 1
        ; cmp ebp, 2
        ; jl <next_owner
        ; add ebx, 1
        ; cmp ebx, NODES
        ; jl <next_pair

        // Contexts as if interrupted in front of task_main, with rdi = number of the task.
        ; lea r8, [->stacks]
        ; lea r9, [->task0_context]
        ; xor ecx, ecx
        ; next_task:
        ; add r8, STACK
        ; lea rdx, [r8 - 8 * (SAVED + 5)]
        ; lea rax, [->task_main]
        ; mov [rdx + 8 * SAVED_RDI], rcx
        ; mov [rdx + 8 * SAVED], rax
        ; mov QWORD [rdx + 8 * (SAVED + 1)], CODE
        ; mov QWORD [rdx + 8 * (SAVED + 2)], INTERRUPTS_ON
        ; mov [rdx + 8 * (SAVED + 3)], r8
        ; mov QWORD [rdx + 8 * (SAVED + 4)], DATA
        ; mov [r9], rdx
        ; mov [r9 + 8], rax
        ; add r9, CONTEXT
        ; add ecx, 1
        ; cmp ecx, 2
        ; jne <next_task

        ; lea rdi, [->text_started]
        ; call ->puts
        // The 8259s stay out of it.
        ; mov eax, 0xff
        ; mov edx, 0x21
        ; out dx, al
        ; mov edx, 0xa1
        ; out dx, al
        ; mov eax, LAPIC_SPURIOUS
        ; mov DWORD [rax], 0x100 | (GATES - 1)
        ; mov eax, LAPIC_TIMER_DIVIDE
        ; mov DWORD [rax], DIVIDE_BY_1
        ; mov eax, LAPIC_TIMER
        ; mov DWORD [rax], PERIODIC | VECTOR_TIMER
        ; mov eax, LAPIC_TIMER_COUNT
        ; mov DWORD [rax], PERIOD
        ; lea rax, [->task0_context]
        ; jmp ->resume
    );
}

/// The timer's interrupt: saves all of the running task, switches to the other one.
fn trap(asm: &mut Assembler) {
    x64!(asm
        ; .align 16
        ; ->trap:
    );
    // The stack pointer is in the interrupt's own frame.
    for register in (0..16u8).filter(|&r| r != 4) {
        x64!(asm; push Rq(register));
    }
    x64!(asm
        ; mov eax, LAPIC_EOI
        ; mov DWORD [rax], 0
        ; lea rax, [->ticks]
        ; add QWORD [rax], 1
        ; lea rcx, [->current_task]
        ; mov rdx, [rcx]
        ; lea rax, [->task0_context]
        ; mov r8, rdx
        ; shl r8, 4
        ; add r8, rax
        ; mov [r8], rsp
        ; mov r9, [rsp + 8 * SAVED]
        ; mov [r8 + 8], r9
        ; xor edx, 1
        ; mov [rcx], rdx
        ; shl rdx, 4
        ; add rax, rdx
        // rax = context to go on with.
        ; ->resume:
        ; mov rsp, [rax]
    );
    for register in (0..16u8).rev().filter(|&r| r != 4) {
        x64!(asm; pop Rq(register));
    }
    // iretq
    x64!(asm; .bytes [0x48u8, 0xcf]);
}

/// What nothing here should raise.
fn exceptions(asm: &mut Assembler) {
    x64!(asm
        ; .align 16
        ; ->exceptions:
    );
    for vector in 0..GATES {
        if !WITH_ERROR.contains(&vector) {
            x64!(asm; push 0);
        }
        x64!(asm
            ; push vector
            ; jmp ->unexpected_trap
            ; .align 16
        );
    }
    x64!(asm
        ; ->unexpected_trap:
        ; pop rbx
        ; mov rbp, [rsp + 8]
        ; lea rsp, [->stacks_end]
        ; lea rdi, [->text_trap]
        ; call ->puts
        ; mov rdi, rbx
        ; call ->puthex
        ; lea rdi, [->text_at]
        ; call ->puts
        ; mov rdi, rbp
        ; call ->puthex
        ; lea rdi, [->text_newline]
        ; call ->puts
        ; mov edi, 1
        ; jmp ->finish
    );
}

/// What both tasks do: take the oldest node off, work, put another one on, work. Task 0 also checks
/// the list and reports progress.
///
/// r12 = own statistics, rbx = pseudo-random state, r13 = oldest node, r14 = own nodes, r15 = rounds,
/// rbp = number.
fn task(asm: &mut Assembler) {
    x64!(asm
        ; ->task_main:
        ; mov rbp, rdi
        ; lea r12, [->task_stats]
        ; mov rax, rdi
        ; shl rax, 4
        ; add r12, rax
        ; lea r14, [->nodes]
        ; mov rax, rdi
        ; shl rax, 9
        ; add r14, rax
        ; lea rbx, [rdi + SEED]
        ; xor r13d, r13d
        ; xor r15d, r15d
        ; ->task_round:
        ; mov rdi, r13
        ; shl rdi, 5
        ; add rdi, r14
        ; mov rsi, r12
        ; call ->list_remove
        ; call ->work
        ; lea rdi, [r13 + NODES / 2]
        ; and edi, NODES - 1
        ; shl rdi, 5
        ; add rdi, r14
        ; mov rsi, r12
        ; call ->list_insert
        ; call ->work
        ; add r13d, 1
        ; and r13d, NODES - 1
        ; add r15, 1
        ; test ebp, ebp
        ; jnz ->task_round
        ; test r15, 3
        ; jnz ->task_round
        ; call ->check_list
        ; test r15, 0xff
        ; jnz ->task_round
        ; lea rdi, [->text_round]
        ; call ->puts
        ; mov rdi, r15
        ; call ->putdec
        ; lea rdi, [->text_ticks]
        ; call ->puts
        ; lea rdi, [->ticks]
        ; mov rdi, [rdi]
        ; call ->putdec
        ; lea rdi, [->text_newline]
        ; call ->puts
        ; jmp ->task_round

        // Some hundred instructions of xorshift, as many as the sequence says.
        ; ->work:
        ; mov ecx, ebx
        ; and ecx, 0xff
        ; add ecx, 80
        ; scramble:
        ; mov rax, rbx
        ; shl rax, 13
        ; xor rbx, rax
        ; mov rax, rbx
        ; shr rax, 7
        ; xor rbx, rax
        ; mov rax, rbx
        ; shl rax, 17
        ; xor rbx, rax
        ; sub ecx, 1
        ; jnz <scramble
        ; ret
    );
}

/// The list code. rdi = node, rsi = statistics of the task (removed, inserted).
fn list(asm: &mut Assembler) {
    x64!(asm
        ; .align 16
        // THE PLANTED BUG: no masking of interrupts, and `prev` is loaded long before its use.
        ; ->list_remove:
        ; mov rax, [rdi + 8]
        ; mov rcx, [rsi]
        ; add rcx, 1
        ; mov [rsi], rcx
        ; mov rdx, [rdi]
        ; mov [rax], rdx
        ; mov [rdx + 8], rax
        ; ret

        ; ->list_insert:
        ; pushfq
        ; cli
        ; mov rcx, [rsi + 8]
        ; add rcx, 1
        ; mov [rsi + 8], rcx
        ; lea rdx, [->list_head]
        ; mov rax, [rdx + 8]
        ; mov [rdi], rdx
        ; mov [rdi + 8], rax
        ; mov [rax], rdi
        ; mov [rdx + 8], rdi
        ; popfq
        ; ret
        ; ->list_code_end:
    );
}

/// Walks the list forward and demands that every node's `prev` is where the walk came from.
fn check(asm: &mut Assembler) {
    x64!(asm
        ; ->check_list:
        ; cli
        // Only task 0 checks. If task 1 stands inside the list code, come back another time.
        ; lea rax, [->task1_context]
        ; mov rax, [rax + 8]
        ; lea rcx, [->list_remove]
        ; cmp rax, rcx
        ; jb >walk
        ; lea rcx, [->list_code_end]
        ; cmp rax, rcx
        ; jb >checked
        ; walk:
        ; lea rsi, [->list_head]
        ; mov rcx, rsi
        ; next_node:
        ; mov rdx, [rcx]
        ; mov rax, [rdx + 8]
        ; cmp rax, rcx
        ; jne ->panic_corrupted
        ; mov rcx, rdx
        ; cmp rcx, rsi
        ; jne <next_node
        ; checked:
        ; sti
        ; ret

        // rdx = node, rax = its prev, rcx = what prev should be.
        ; ->panic_corrupted:
        ; mov r12, rdx
        ; mov r13, rax
        ; mov r14, rcx
        ; lea rcx, [rdx + 8]
        ; lea rsi, [->demo_bad_address]
        ; mov [rsi], rcx
        ; lea rsi, [->demo_bad_value]
        ; mov [rsi], rax
        ; lea rdi, [->text_corrupted]
        ; call ->puts
        ; mov rdi, r12
        ; call ->puthex
        ; lea rdi, [->text_prev]
        ; call ->puts
        ; mov rdi, r13
        ; call ->puthex
        ; lea rdi, [->text_expected]
        ; call ->puts
        ; mov rdi, r14
        ; call ->puthex
        ; lea rdi, [->text_panic]
        ; call ->puts
        ; mov rdi, r13
        ; call ->puthex
        ; lea rdi, [->text_at]
        ; call ->puts
        ; lea rdi, [r12 + 8]
        ; call ->puthex
        ; lea rdi, [->text_newline]
        ; call ->puts
        ; xor edi, edi
        ; jmp ->finish
    );
}

fn data(asm: &mut Assembler) {
    x64!(asm
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
        ; ->task0_context:
        ; .bytes [0u8; CONTEXT as usize]
        ; ->task1_context:
        ; .bytes [0u8; CONTEXT as usize]
        ; .align 64, 0
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
        ; ->idt:
        ; .bytes [0u8; 16 * GATES as usize]
        ; ->idt_pointer:
        ; .u16 16 * GATES as u16 - 1
        ; .u64 0
    );
}
