//! Bare-metal guests that this crate carries: a demonstration of a race to be found by
//! running backwards ([`demo`]), and three that the determinism tests record and replay.
//!
//! Those for RISC-V run in machine mode from [`layout::RAM`], need no firmware and no FDT, print on the UART and
//! end through the finisher. Each is one image: code, data and stacks. They are assembled at run time,
//! so that neither a build nor a test needs a cross compiler. [`x86_demo`] is the first of them for the PC.

mod demo;
mod elf;
mod floating;
mod paging;
mod smp;
mod x86;

pub use demo::{DEMO_CULPRIT, demo};
pub use floating::{FP_MIX_CONSOLE, fp_mix};
pub use paging::{PAGING_CONSOLE, paging};
pub use smp::smp_demo;
pub use x86::{X86_DEMO_CULPRIT, X86Guest, x86_demo};

use crate::assembler::{self, Assembler, WFI, rv};
use crate::layout;
use dynasmrt::{DynasmApi, DynasmLabelApi};

/// A bare-metal guest, ready to be copied into RAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The bytes to place at `load`.
    pub image: Vec<u8>,
    /// Physical address of the first byte.
    pub load: u64,
    /// Physical address of the first instruction, in machine mode, for every hart.
    pub entry: u64,
    /// Physical address at which code ends and data begins.
    pub data: u64,
    /// Names and addresses of functions and data, sorted by address.
    pub symbols: Vec<(String, u64)>,
}

impl Guest {
    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let found = self.symbols.iter().find(|(n, _)| n == name);
        found.map(|&(_, address)| address)
    }

    /// Finishes an assembly whose first instruction is the entry and whose data is behind `data_start`.
    fn assemble(asm: Assembler, names: &[&'static str]) -> Guest {
        let symbols = assembler::symbols(&asm, layout::RAM, names);
        let data = assembler::symbols(&asm, layout::RAM, &["data_start"])[0].1;
        let image = asm.finalize().expect("a guest of this crate assembles");
        Guest {
            image,
            load: layout::RAM,
            entry: layout::RAM,
            data,
            symbols,
        }
    }
}

const UART: i32 = layout::UART as i32;
const FINISHER: i32 = layout::FINISHER as i32;

/// Emits the console routines: `puts` (a0 = string ending in NUL), `puthex` and `putdec` (a0 =
/// value), and `finish` (a0 = finisher word, never returns). They change a0 and t0 to t6 only,
/// use up to 32 bytes of stack, and poll the line status register as a driver would.
fn console(asm: &mut Assembler) {
    rv!(asm
        ; .align 4
        // putc: a0 = byte, returns to t5, changes t0 and t1.
        ; ->putc:
        ; li.32 t0, UART
        ; wait_thre:
        ; lbu t1, [t0, 5]
        ; andi t1, t1, 0x20
        ; beqz t1, <wait_thre
        ; sb a0, [t0]
        ; jr t5

        ; ->puts:
        ; mv t2, a0
        ; next_byte:
        ; lbu a0, [t2]
        ; beqz a0, >end_of_string
        ; jal t5, ->putc
        ; addi t2, t2, 1
        ; j <next_byte
        ; end_of_string:
        ; ret

        ; ->puthex:
        ; mv t2, a0
        ; li.12 a0, b'0' as i32
        ; jal t5, ->putc
        ; li.12 a0, b'x' as i32
        ; jal t5, ->putc
        ; li.12 t3, 60
        // Skip leading zeros, but not the last digit.
        ; skip_zero:
        ; srl t4, t2, t3
        ; bnez t4, >digit
        ; beqz t3, >digit
        ; addi t3, t3, -4
        ; j <skip_zero
        ; digit:
        ; srl a0, t2, t3
        ; andi a0, a0, 15
        ; addi a0, a0, b'0' as i32
        ; li.12 t4, b'9' as i32
        ; ble a0, t4, >decimal_digit
        ; addi a0, a0, (b'a' - b'9' - 1) as i32
        ; decimal_digit:
        ; jal t5, ->putc
        ; addi t3, t3, -4
        ; bgez t3, <digit
        ; ret

        ; ->putdec:
        ; mv t2, a0
        ; addi sp, sp, -32
        ; mv t3, sp
        ; li.12 t4, 10
        ; divide:
        ; remu t0, t2, t4
        ; addi t0, t0, b'0' as i32
        ; sb t0, [t3]
        ; addi t3, t3, 1
        ; divu t2, t2, t4
        ; bnez t2, <divide
        ; emit_digit:
        ; addi t3, t3, -1
        ; lbu a0, [t3]
        ; jal t5, ->putc
        ; bne t3, sp, <emit_digit
        ; addi sp, sp, 32
        ; ret

        ; ->finish:
        ; li.32 t0, FINISHER
        ; sw a0, [t0]
        ; finished:
        ; .u32 WFI
        ; j <finished
    );
}

/// The bytes of a string, its NUL included.
fn text(text: &'static std::ffi::CStr) -> &'static [u8] {
    text.to_bytes_with_nul()
}
