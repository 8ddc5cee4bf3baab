//! A bare-metal guest that lives from interrupts: it answers what is typed, letters with their case changed, while a
//! timer ticks and its main loop computes and waits in turn. `q` switches the machine off.
//!
//! Machine mode, one hart; received bytes come through the PLIC (16550 data sheet 8; PLIC specification 1.0).
//! It never ends by itself, so it is also what is killed in the middle of a recording.

use dynasmrt::components::StaticLabel;
use dynasmrt::riscv::RiscvRelocation;
use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler};
use firmware::{Guest, layout};

const UART: i32 = layout::UART as i32;
const PLIC: i32 = layout::PLIC as i32;
const PLIC_ENABLE: i32 = PLIC + 0x2000;
const PLIC_CONTEXT: i32 = PLIC + 0x20_0000;
const MTIME: i32 = layout::CLINT_MTIME as i32;
const MTIMECMP: i32 = layout::CLINT_MTIMECMP as i32;
/// Ticks of `mtime` between timer interrupts.
const PERIOD: i32 = 37;
const MRET: u32 = 0x3020_0073;
const WFI: u32 = 0x1050_0073;

/// Names of the guest's labels that tests stop at or watch.
const SYMBOLS: [&str; 6] = ["main", "scramble", "trap", "received", "ring", "ticks"];

/// The guest.
///
/// # Panics
/// If it doesn't assemble: a mistake here.
#[must_use]
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // dynasm converts every operand.
pub fn echo() -> Guest {
    let mut asm: VecAssembler<RiscvRelocation> = VecAssembler::new(layout::RAM as usize);
    dynasmrt::dynasm!(asm
        ; .arch riscv64i
        ; .feature imafd, zicsr, zifencei
        ; ->start:
        ; csrr t0, mhartid
        ; bnez t0, ->park
        ; la t0, ->trap
        ; csrw mtvec, t0
        // UART: FIFOs on, interrupt for received data.
        ; li.32 s0, UART
        ; li.12 t0, 1
        ; sb t0, [s0, 2]
        ; sb t0, [s0, 1]
        // PLIC: the UART's source at priority 1, enabled for hart 0's machine level, threshold 0.
        ; li.32 t1, PLIC + 4 * layout::UART_IRQ as i32
        ; sw t0, [t1]
        ; li.32 t1, PLIC_ENABLE
        ; li.12 t2, 1 << layout::UART_IRQ
        ; sw t2, [t1]
        ; li.32 t1, PLIC_CONTEXT
        ; sw x0, [t1]
        ; li.32 t0, MTIME
        ; ld t1, [t0]
        ; addi t1, t1, PERIOD
        ; li.32 t0, MTIMECMP
        ; sd t1, [t0]
        ; li.32 t0, 0x880 // MEIE, MTIE
        ; csrw mie, t0
        ; la s2, ->table
        ; li.32 s1, 0x1234_5677
        ; li.12 s4, 0
        // "ready\n"
        ; la t1, ->text_ready
        ; next_byte:
        ; lbu t0, [t1]
        ; beqz t0, >said
        ; sb t0, [s0]
        ; addi t1, t1, 1
        ; j <next_byte
        ; said:
        ; csrsi mstatus, 8

        // Computes for some hundred steps, every fourth time waits.
        ; ->main:
        ; andi s3, s1, 0x3ff
        ; addi s3, s3, 64
        ; ->scramble:
        ; slli s5, s1, 13
        ; xor s1, s1, s5
        ; srli s5, s1, 7
        ; xor s1, s1, s5
        ; slli s5, s1, 17
        ; xor s1, s1, s5
        ; srli s5, s1, 52
        ; slli s5, s5, 3
        ; add s5, s2, s5
        ; ld s6, [s5]
        ; add s6, s6, s1
        ; sd s6, [s5]
        ; addi s3, s3, -1
        ; bnez s3, ->scramble
        ; addi s4, s4, 1
        ; andi s5, s4, 3
        ; bnez s5, ->main
        ; .u32 WFI
        ; j ->main

        // Uses t and a registers, the main loop s registers.
        ; .align 4
        ; ->trap:
        ; csrr t0, mcause
        ; bgez t0, ->failed
        ; andi t0, t0, 15
        ; li.12 t1, 11
        ; beq t0, t1, ->received
        ; li.32 t0, MTIMECMP
        ; ld t1, [t0]
        ; addi t1, t1, PERIOD
        ; sd t1, [t0]
        ; la t0, ->ticks
        ; ld t1, [t0]
        ; addi t1, t1, 1
        ; sd t1, [t0]
        ; .u32 MRET

        ; ->received:
        ; li.32 a0, PLIC_CONTEXT
        ; lw a1, [a0, 4]
        ; la a2, ->ring
        ; more:
        ; lbu t0, [s0, 5]
        ; andi t0, t0, 1
        ; beqz t0, >emptied
        ; lbu t1, [s0]
        // Into the ring: the first word counts.
        ; ld t2, [a2]
        ; addi t3, t2, 1
        ; sd t3, [a2]
        ; andi t2, t2, 0x3ff
        ; add t2, a2, t2
        ; sb t1, [t2, 8]
        ; li.12 t2, 'q' as i32
        ; beq t1, t2, ->off
        // The other case of a letter.
        ; ori t2, t1, 0x20
        ; addi t2, t2, -('a' as i32)
        ; sltiu t2, t2, 26
        ; slli t2, t2, 5
        ; xor t1, t1, t2
        ; sb t1, [s0]
        ; j <more
        ; emptied:
        ; sw a1, [a0, 4]
        ; .u32 MRET

        ; ->failed:
        ; li.32 t1, (7 << 16) | layout::FINISHER_FAIL as i32
        ; j ->finish
        ; ->off:
        ; li.32 t1, layout::FINISHER_PASS as i32
        ; ->finish:
        ; li.32 t0, layout::FINISHER as i32
        ; sw t1, [t0]
        ; ->park:
        ; .u32 WFI
        ; j ->park

        ; ->text_ready:
        ; .bytes b"ready\n\0"
        ; .align 4096, 0
        ; ->data:
        ; ->ticks:
        ; .u64 0
        ; .u64 0
        ; ->ring:
        ; .bytes [0u8; 1040]
        ; .align 4096, 0
        ; ->table:
        ; .bytes [0u8; 8 * 4096]
    );
    let address = |name: &'static str| {
        let at = asm.labels().resolve_static(&StaticLabel::global(name));
        layout::RAM + at.map_or(0, |at| at.0 as u64)
    };
    let mut symbols: Vec<(String, u64)> = SYMBOLS
        .iter()
        .map(|name| ((*name).to_owned(), address(name)))
        .collect();
    symbols.sort_by_key(|(_, at)| *at);
    let data = address("data");
    Guest {
        image: asm.finalize().expect("a guest of this crate assembles"),
        load: layout::RAM,
        entry: layout::RAM,
        data,
        symbols,
    }
}
