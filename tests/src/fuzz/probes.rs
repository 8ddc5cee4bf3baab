//! A guest that reaches for devices as a table tells it: any address of theirs, any size, any value, in any order; rings of queues
//! in RAM are such writes too.

use std::cell::RefCell;

use dynasmrt::riscv::RiscvRelocation;
use dynasmrt::x64::X64Relocation;
use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler};
use firmware::layout;
use machine::config::{MacAddress, NetworkConfig};
use machine::disk::DriveConfig;
use machine::{Config, board};
use snapshot::PAGE_SIZE;

use super::bytes::Bytes;
use super::guests::{Bench, pc};
use crate::subject::{Subject, smp};

/// The most accesses of a run.
const ACCESSES: usize = 160;
const PLACES: [u64; 3] = [700, 3_000, 12_000];
/// Where the table is, from the beginning of the code.
const TABLE: usize = 0x1000;
/// RAM that the accesses may write: rings and buffers.
const RINGS: u64 = 0x10_0000;

/// Operations 0 to 3 read 1, 2, 4 and 8 bytes, 4 to 7 write; 8 lets time pass, 9 enables interrupts; 10 ends.
const END: u64 = 10;

fn furnish(config: &mut Config) {
    config.drives = vec![DriveConfig {
        sectors: 256,
        read_only: false,
    }];
    config.networks = vec![NetworkConfig {
        mac: MacAddress([2, 0, 0, 0, 0, 1]),
    }];
    config.virtio_console = true;
}

/// The table: what, where, which value, 24 bytes each.
fn table(bytes: &mut Bytes, operations: u64, place: impl Fn(u8, u64) -> u64) -> Vec<u8> {
    let mut table = Vec::new();
    for _ in 0..ACCESSES {
        if bytes.is_empty() {
            break;
        }
        let what = u64::from(bytes.byte()) % operations;
        let (window, offset) = (bytes.byte(), bytes.number(2));
        let value = bytes.byte();
        let value = match value & 7 {
            0..=3 => u64::from(value >> 2),
            4 => bytes.number(4),
            5 => bytes.number(8),
            // Where the rings are.
            _ => place(0xff, u64::from(value >> 3) * 64),
        };
        let value = if what == 8 { value & 0x3ff } else { value };
        for number in [what, place(window, offset), value] {
            table.extend(number.to_le_bytes());
        }
    }
    table.extend(END.to_le_bytes());
    table
}

/// RISC-V: the accesses of a table, in machine mode.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // dynasm converts every operand.
fn riscv_stub() -> Vec<u8> {
    let mut asm: VecAssembler<RiscvRelocation> = VecAssembler::new(layout::RAM as usize);
    dynasmrt::dynasm!(asm
        ; .arch riscv64i
        ; .feature imafd, zicsr, zifencei
        ; la t0, ->trap
        ; csrw mtvec, t0
        ; li.12 t0, 8
        ; csrw mstatus, t0
        ; li.32 s0, 1
        ; slli s0, s0, 31
        ; li.32 t0, TABLE as i32
        ; add s0, s0, t0
        ; ->next:
        ; ld t1, [s0, 0]
        ; ld t2, [s0, 8]
        ; ld t3, [s0, 16]
        ; addi s0, s0, 24
        ; la t4, ->operations
        ; slli t1, t1, 3
        ; add t4, t4, t1
        ; jalr x0, t4, 0
        ; ->operations:
        ; lb t5, [t2, 0]
        ; j ->next
        ; lh t5, [t2, 0]
        ; j ->next
        ; lw t5, [t2, 0]
        ; j ->next
        ; ld t5, [t2, 0]
        ; j ->next
        ; sb t3, [t2, 0]
        ; j ->next
        ; sh t3, [t2, 0]
        ; j ->next
        ; sw t3, [t2, 0]
        ; j ->next
        ; sd t3, [t2, 0]
        ; j ->next
        ; nop
        ; j ->delay
        ; csrw mie, t3
        ; j ->next
        ; ->end:
        ; .u32 0x1050_0073 // wfi
        ; j ->end
        ; ->delay:
        ; addi t3, t3, -1
        ; bgtz t3, ->delay
        ; j ->next
        ; ->trap:
        ; csrr t5, mcause
        ; bltz t5, ->interrupt
        ; csrr t5, mepc
        ; addi t5, t5, 4
        ; csrw mepc, t5
        ; .u32 0x3020_0073 // mret
        ; ->interrupt:
        ; csrw mie, x0
        ; .u32 0x3020_0073
    );
    asm.finalize().expect("a guest of this crate assembles")
}

/// Accesses to all devices of the RISC-V board.
pub fn riscv_devices(input: &[u8]) {
    thread_local! {
        static BENCH: RefCell<Bench> = RefCell::new({
            let mut config = smp().config;
            config.memory = 4 << 20;
            config.harts.truncate(2);
            furnish(&mut config);
            Bench::new(config, vec![(layout::RAM, vec![0; PAGE_SIZE])])
        });
        static STUB: Vec<u8> = riscv_stub();
    }
    let place = |window: u8, offset: u64| match window % 16 {
        n @ 0..8 => layout::VIRTIO + u64::from(n) * 0x1000 + offset % 0x200,
        8 => layout::UART + offset % 8,
        9 => layout::PLIC + offset * 4,
        10 => layout::PLIC + 0x20_0000 + offset % 0x4000,
        11 => 0x200_0000 + offset % 0xc000,
        12 => 0x10_1000 + offset % 0x40,
        13 => 0x10_0000 + offset % 0x1000,
        _ => layout::RAM + RINGS + offset,
    };
    let mut bytes = Bytes::new(input);
    let table = table(&mut bytes, END, place);
    let mut image = STUB.with(Clone::clone);
    image.resize(TABLE, 0);
    image.extend(table);
    BENCH.with_borrow_mut(|bench| bench.run(&[(0, image)], &PLACES));
}

/// x86: the same in 64-bit mode, where memory is mapped one to one; operations from 11 on are of ports.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // dynasm converts every operand.
fn x86_stub() -> Vec<u8> {
    let mut asm: VecAssembler<X64Relocation> = VecAssembler::new(0);
    dynasmrt::dynasm!(asm
        ; .arch x64
        ; lea rsi, [->start]
        ; ->start:
        ; and rsi, -4096
        ; add rsi, TABLE as i32
        ; ->next:
        ; mov rbx, [rsi]
        ; mov rdi, [rsi + 8]
        ; mov rax, [rsi + 16]
        ; add rsi, 24
        ; mov rdx, rdi
        ; cmp ebx, 0
        ; je ->read1
        ; cmp ebx, 1
        ; je ->read2
        ; cmp ebx, 2
        ; je ->read4
        ; cmp ebx, 3
        ; je ->read8
        ; cmp ebx, 4
        ; je ->write1
        ; cmp ebx, 5
        ; je ->write2
        ; cmp ebx, 6
        ; je ->write4
        ; cmp ebx, 7
        ; je ->write8
        ; cmp ebx, 8
        ; je ->delay
        ; cmp ebx, 9
        ; je ->next
        ; cmp ebx, 11
        ; je ->in1
        ; cmp ebx, 12
        ; je ->in2
        ; cmp ebx, 13
        ; je ->in4
        ; cmp ebx, 14
        ; je ->out1
        ; cmp ebx, 15
        ; je ->out2
        ; cmp ebx, 16
        ; je ->out4
        ; ->end:
        ; hlt
        ; jmp ->end
        ; ->read1:
        ; mov al, [rdi]
        ; jmp ->next
        ; ->read2:
        ; mov ax, [rdi]
        ; jmp ->next
        ; ->read4:
        ; mov eax, [rdi]
        ; jmp ->next
        ; ->read8:
        ; mov rax, [rdi]
        ; jmp ->next
        ; ->write1:
        ; mov [rdi], al
        ; jmp ->next
        ; ->write2:
        ; mov [rdi], ax
        ; jmp ->next
        ; ->write4:
        ; mov [rdi], eax
        ; jmp ->next
        ; ->write8:
        ; mov [rdi], rax
        ; jmp ->next
        ; ->delay:
        ; dec eax
        ; jg ->delay
        ; jmp ->next
        ; ->in1:
        ; in al, dx
        ; jmp ->next
        ; ->in2:
        ; in ax, dx
        ; jmp ->next
        ; ->in4:
        ; in eax, dx
        ; jmp ->next
        ; ->out1:
        ; out dx, al
        ; jmp ->next
        ; ->out2:
        ; out dx, ax
        ; jmp ->next
        ; ->out4:
        ; out dx, eax
        ; jmp ->next
    );
    asm.finalize().expect("a guest of this crate assembles")
}

/// Accesses to all devices and ports of the PC.
pub fn x86_devices(input: &[u8]) {
    thread_local! {
        static BENCH: RefCell<(Bench, u64)> = RefCell::new({
            let (mut config, images): (Config, board::Images) =
                pc(&Subject::x86_demo().expect("it is placed"));
            furnish(&mut config);
            config.testdev = true;
            let entry = config.harts[0].pc;
            (Bench::new(config, images), entry)
        });
        static STUB: Vec<u8> = x86_stub();
    }
    // Ports that devices are behind, by their bases; memory windows; rings.
    const PORTS: [u64; 16] = [
        0x20, 0xa0, 0x40, 0x60, 0x70, 0x80, 0x92, 0x1f0, 0x170, 0x3c0, 0x3f0, 0x2f8, 0x510, 0x600, 0xcf8,
        0xc000,
    ];
    let place = |window: u8, offset: u64| match window % 32 {
        n @ 0..16 => PORTS[usize::from(n)] + offset % 0x20,
        16 => 0xfec0_0000 + offset % 0x100,
        17 => 0xfee0_0000 + offset % 0x1000,
        18 => 0xb8000 + offset % 0x8000,
        19 => 0xfeb0_0000 + offset * 16,
        20 => 0xe000_0000 + offset * 16,
        21 => 0xf000_0000 + offset * 16,
        22 => 0xcf8 + offset % 8,
        23 => offset,
        _ => RINGS * 4 + offset,
    };
    let mut bytes = Bytes::new(input);
    let table = table(&mut bytes, 17, place);
    let mut image = STUB.with(Clone::clone);
    BENCH.with_borrow_mut(|(bench, entry)| {
        let page = *entry / PAGE_SIZE as u64;
        let mut content = vec![0x90; (*entry % PAGE_SIZE as u64) as usize];
        content.append(&mut image);
        content.resize(TABLE, 0);
        content.extend(table);
        bench.run(&[(page, content)], &PLACES);
    });
}
