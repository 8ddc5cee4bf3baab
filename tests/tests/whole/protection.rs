//! Harts whose physical memory protection differs, at the same time under the same tables.

use dynasmrt::riscv::RiscvRelocation;
use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler};
use firmware::layout;
use icount::{End, Icount};
use machine::AddressKind;
use machine::boot::{Bios, Boot, prepare};
use machine::host::Drives;
use tests::subject::Subject;
use tests::ways::{How, Run, With, compare};

const MRET: u32 = 0x3020_0073;
const PASS: i32 = 0x5555;
/// What hart 0 may read and hart 1 may not, and where they tell each other.
const SECRET: u64 = layout::RAM + 0x2000;
const TOLD: u64 = layout::RAM + 0x1000;

/// Both harts go to S mode without paging. Hart 0 reads the secret again and again; when it has done so since hart 1 came there,
/// hart 1 reads it too, and its machine mode notes mcause.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // dynasm converts every operand.
fn image() -> Vec<u8> {
    let mut asm: VecAssembler<RiscvRelocation> = VecAssembler::new(layout::RAM as usize);
    dynasmrt::dynasm!(asm
        ; .arch riscv64i
        ; .feature zicsr
        ; csrr a0, mhartid
        ; la t0, ->trap
        ; csrw mtvec, t0
        // Entry 0 is the secret's page, entry 1 everything; NAPOT, and with all rights.
        ; la s0, ->told
        ; li.12 t1, 1
        ; slli t1, t1, 12
        ; add s1, s0, t1
        ; srli t0, s1, 2
        ; ori t0, t0, 0x1ff
        ; csrw pmpaddr0, t0
        ; li.12 t0, -1
        ; csrw pmpaddr1, t0
        ; li.32 t0, 0x1f1f
        ; beqz a0, >rights
        ; li.32 t0, 0x1f18
        ; rights:
        ; csrw pmpcfg0, t0
        ; li.32 t0, 0x1800
        ; csrc mstatus, t0
        ; li.32 t0, 0x800
        ; csrs mstatus, t0
        ; la t0, ->supervisor
        ; csrw mepc, t0
        ; .u32 MRET
        ; ->supervisor:
        ; bnez a0, ->other
        ; li.32 s2, layout::FINISHER as i32
        ; li.32 s3, PASS
        ; li.12 t3, 0
        ; again:
        ; lw t0, [s1]
        ; sw t3, [s0]
        ; lw t3, [s0, 16]
        ; lw t2, [s0, 8]
        ; beqz t2, <again
        ; sw s3, [s2]
        ; ->other:
        ; li.12 t0, 1
        ; sw t0, [s0, 16]
        ; wait:
        ; lw t0, [s0]
        ; beqz t0, <wait
        ; lw t0, [s1]
        ; li.12 t0, -1
        ; sw t0, [s0, 8]
        ; stop:
        ; j <stop
        ; ->trap:
        ; csrr t0, mcause
        ; sw t0, [s0, 8]
        ; rest:
        ; j <rest
        ; .align 4096
        ; ->told:
        ; .u64 0
    );
    asm.finalize().expect("it assembles")
}

fn subject() -> Subject {
    let boot = Boot {
        memory: 16 << 20,
        harts: 2,
        bios: Bios::None,
        kernel: Some(firmware::demo().to_elf()),
        ..Boot::default()
    };
    let (config, _) = prepare(&boot).unwrap();
    let mut subject = Subject::booted("protection", &boot, "", Drives::default()).unwrap();
    subject.config = config;
    for hart in &mut subject.config.harts {
        hart.pc = layout::RAM;
    }
    subject.config.slice = 100;
    subject.images = vec![(layout::RAM, image())];
    subject
}

#[test]
fn a_hart_s_protection_is_its_own() {
    const LOAD_ACCESS_FAULT: u64 = 5;
    let subject = subject();
    let mut walks = Vec::new();
    for with in [With::Interp, With::Jit, With::PlainJit] {
        let mut run = Run::live(&subject, with).unwrap();
        walks.push(run.walk(&How::Straight, &[50, 150, 400, 1000]).unwrap());
        let (_, end) = run.finish(Icount(1_000_000)).unwrap();
        let mut cause = [0; 8];
        assert!(
            run.machine()
                .debug_read(AddressKind::Physical, TOLD + 8, &mut cause)
        );
        assert_eq!(
            u64::from_le_bytes(cause),
            LOAD_ACCESS_FAULT,
            "{with:?}, {SECRET:#x}"
        );
        assert_eq!(end, Some(End::PowerOff(0)), "{with:?}");
    }
    for walk in &walks[1..] {
        compare(&walks[0], walk).unwrap();
    }
}
