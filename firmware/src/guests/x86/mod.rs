//! Bare-metal guests for the PC. Each is one image, loaded at 1 MiB, with two entries: 64-bit mode, flat and
//! with the first 4 GiB mapped one to one; and PVH's 32-bit protected mode, which brings itself into that
//! state. They print on the first serial port, and end by the debug exit port and, where there is none, by
//! turning the machine off.

mod demo;

pub use demo::{X86_DEMO_CULPRIT, x86_demo};

use super::elf::Machine;
use super::{Guest, text};
use crate::assembler;
use crate::x86::layout;
use dynasmrt::x64::X64Relocation;
use dynasmrt::x86::X86Relocation;
use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler};

type Assembler = VecAssembler<X64Relocation>;

/// `dynasm!` for 64-bit mode.
macro_rules! x64 {
    ($asm:ident $($line:tt)*) => {
        dynasmrt::dynasm!($asm
            ; .arch x64
            $($line)*
        )
    };
}
use x64;

/// A bare-metal guest for the PC, ready to be copied into RAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct X86Guest {
    /// The image; its entry is in 64-bit mode.
    pub guest: Guest,
    /// Physical address of the first instruction by PVH.
    pub pvh_entry: u32,
}

impl X86Guest {
    /// The guest as an ELF64 executable with symbols and a PVH note, which
    /// [`load_x86_kernel`](crate::x86::load_x86_kernel) and QEMU's `-kernel` start.
    pub fn to_elf(&self) -> Vec<u8> {
        const EM_X86_64: u64 = 62;
        const PHYS32_ENTRY: u32 = 18;
        let mut note = Vec::new();
        for word in [4, 4, PHYS32_ENTRY] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"Xen\0");
        note.extend(self.pvh_entry.to_le_bytes());
        self.guest.elf(&Machine {
            number: EM_X86_64,
            flags: 0,
            note,
        })
    }

    /// Finishes an assembly that stands behind the PVH entry, whose first instruction is the 64-bit entry and
    /// whose data is behind `data_start`.
    fn assemble(asm: Assembler, names: &[&'static str]) -> X86Guest {
        let mut symbols = assembler::symbols(&asm, ENTRY, names);
        symbols.insert(0, ("pvh_start".into(), LOAD));
        let data = assembler::symbols(&asm, ENTRY, &["data_start"])[0].1;
        let mut image = pvh_start();
        image.resize((ENTRY - LOAD) as usize, 0);
        image.extend(asm.finalize().expect("a guest of this crate assembles"));
        X86Guest {
            guest: Guest {
                image,
                load: LOAD,
                entry: ENTRY,
                data,
                symbols,
            },
            pvh_entry: LOAD as u32,
        }
    }
}

const LOAD: u64 = 0x10_0000;
const ENTRY: u64 = LOAD + 0x100;
/// Descriptor table and the pointer to it, between the two entries' code.
const GDT: u64 = LOAD + 0xd0;
const GDT_POINTER: u64 = LOAD + 0xf0;
/// Selectors in the guests' own descriptor table.
const CODE: i32 = 8;
const DATA: i32 = 0x10;

const COM1: i32 = layout::COM1 as i32;
/// Line status register, and its bit for an empty transmitter.
const COM1_STATUS: i32 = COM1 + 5;
const THRE: i32 = 0x20;
/// A word v written here ends the run with status (v << 1) | 1.
const DEBUG_EXIT: i32 = 0xf4;

/// An assembler for what stands behind the PVH entry.
fn assembler() -> Assembler {
    VecAssembler::new(ENTRY as usize)
}

/// From 32-bit protected mode to the 64-bit entry, and the descriptor table behind the code.
fn pvh_start() -> Vec<u8> {
    const TABLES: i32 = layout::PAGE_TABLES as i32;
    let mut asm = VecAssembler::<X86Relocation>::new(LOAD as usize);
    dynasmrt::dynasm!(asm
        ; .arch x86
        ; cli
        ; cld
        // Level 4, level 3, and four level 2 tables of 2 MiB pages.
        ; mov edi, TABLES
        ; xor eax, eax
        ; mov ecx, 6 * 1024
        ; rep stosd
        ; mov DWORD [TABLES], TABLES + 0x1003
        ; mov edi, TABLES + 0x1000
        ; mov eax, TABLES + 0x2003
        ; level_3:
        ; mov [edi], eax
        ; add edi, 8
        ; add eax, 0x1000
        ; cmp edi, TABLES + 0x1020
        ; jne <level_3
        ; mov edi, TABLES + 0x2000
        ; mov eax, 0x83
        ; level_2:
        ; mov [edi], eax
        ; add edi, 8
        ; add eax, 0x20_0000
        ; cmp edi, TABLES + 0x6000
        ; jne <level_2
        // PAE, table, LME, PG.
        ; mov eax, 0x20
        ; mov cr4, eax
        ; mov eax, TABLES
        ; mov cr3, eax
        ; mov ecx, 0xc000_0080_u32 as i32
        ; rdmsr
        ; or eax, 0x100
        ; wrmsr
        ; mov eax, cr0
        ; or eax, 0x8000_0000_u32 as i32
        ; mov cr0, eax
        ; lgdt [GDT_POINTER as i32]
        // jmp CODE:ENTRY
        ; .u8 0xea
        ; .u32 ENTRY as u32
        ; .u16 CODE as u16
    );
    let mut bytes = asm.finalize().expect("a guest of this crate assembles");
    bytes.resize((GDT - LOAD) as usize, 0);
    for descriptor in [0u64, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff] {
        bytes.extend(descriptor.to_le_bytes());
    }
    bytes.resize((GDT_POINTER - LOAD) as usize, 0);
    bytes.extend(0x17u16.to_le_bytes());
    bytes.extend(GDT.to_le_bytes());
    bytes
}

/// Emits the loading of the guest's own descriptor table; changes rax.
fn own_segments(asm: &mut Assembler) {
    x64!(asm
        ; mov eax, GDT_POINTER as i32
        ; lgdt [rax]
        ; push CODE
        ; lea rax, [>reloaded]
        ; push rax
        // retfq
        ; .bytes [0x48u8, 0xcb]
        ; reloaded:
        ; mov eax, DATA
        ; mov ds, ax
        ; mov es, ax
        ; mov ss, ax
    );
}

/// Emits the console routines: `puts` (rdi = string ending in NUL), `puthex` and `putdec` (rdi = value), and
/// `finish` (edi = word for the debug exit port, never returns). They change rax, rcx, rdx, rsi, rdi and
/// r8 only, and poll the line status register as a driver would.
fn console(asm: &mut Assembler) {
    x64!(asm
        ; .align 16
        // putc: cl = byte, changes rax and rdx.
        ; ->putc:
        ; mov edx, COM1_STATUS
        ; wait_thre:
        ; in al, dx
        ; test al, THRE as i8
        ; jz <wait_thre
        ; mov edx, COM1
        ; mov eax, ecx
        ; out dx, al
        ; ret

        ; ->puts:
        ; movzx ecx, BYTE [rdi]
        ; test ecx, ecx
        ; jz >end_of_string
        ; call ->putc
        ; add rdi, 1
        ; jmp ->puts
        ; end_of_string:
        ; ret

        ; ->puthex:
        ; mov ecx, b'0' as i32
        ; call ->putc
        ; mov ecx, b'x' as i32
        ; call ->putc
        ; mov esi, 60
        // Skip leading zeros, but not the last digit.
        ; skip_zero:
        ; mov ecx, esi
        ; mov rax, rdi
        ; shr rax, cl
        ; test rax, rax
        ; jnz >digit
        ; test esi, esi
        ; jz >digit
        ; sub esi, 4
        ; jmp <skip_zero
        ; digit:
        ; mov ecx, esi
        ; mov rax, rdi
        ; shr rax, cl
        ; and eax, 15
        ; lea ecx, [rax + b'0' as i32]
        ; cmp eax, 9
        ; jbe >decimal_digit
        ; add ecx, (b'a' - b'9' - 1) as i32
        ; decimal_digit:
        ; call ->putc
        ; sub esi, 4
        ; jns <digit
        ; ret

        ; ->putdec:
        ; mov rax, rdi
        ; xor esi, esi
        ; mov r8d, 10
        ; divide:
        ; xor edx, edx
        ; div r8
        ; add edx, b'0' as i32
        ; push rdx
        ; add esi, 1
        ; test rax, rax
        ; jnz <divide
        ; emit_digit:
        ; pop rcx
        ; call ->putc
        ; sub esi, 1
        ; jnz <emit_digit
        ; ret

        ; ->finish:
        ; cli
        ; mov edx, DEBUG_EXIT
        ; mov eax, edi
        ; out dx, eax
        ; mov edx, i32::from(layout::PM1A_CONTROL)
        ; mov eax, i32::from(layout::SLP_TYP_S5 << 10 | layout::SLP_EN)
        ; out dx, ax
        ; finished:
        ; hlt
        ; jmp <finished
    );
}
