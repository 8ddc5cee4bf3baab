//! One instruction on the host's x87, from a given state to the state after it.

use cpu::softfloat::extended::F80;
use memmap2::{Mmap, MmapMut};
use std::mem::transmute;

/// The 108 bytes of `fnsave` in 32-bit protected mode format (SDM 1, figure 8-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Image(pub [u8; 112]);

/// What an instruction may read or write.
pub type Memory = [u8; 112];

/// An `fxsave` image.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub struct Large(pub [u8; 512]);

/// The last opcode, instruction and data pointers, as far as an image has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pointers {
    pub opcode: u16,
    pub instruction: (u16, u32),
    pub data: (u16, u32),
}

/// State around an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub control: u16,
    /// With TOP.
    pub status: u16,
    /// The full tag word.
    pub tags: u16,
    /// ST(0) to ST(7).
    pub st: [F80; 8],
    /// The memory operand.
    pub memory: Memory,
    /// Last opcode, instruction and data pointers.
    pub pointers: Pointers,
    /// ZF, PF, CF and the other status flags.
    pub eflags: u32,
}

impl State {
    pub fn to_image(self) -> Image {
        let mut image = Image([0; 112]);
        image.0[0..2].copy_from_slice(&self.control.to_le_bytes());
        image.0[4..6].copy_from_slice(&self.status.to_le_bytes());
        image.0[8..10].copy_from_slice(&self.tags.to_le_bytes());
        let p = self.pointers;
        image.0[12..16].copy_from_slice(&p.instruction.1.to_le_bytes());
        image.0[16..18].copy_from_slice(&p.instruction.0.to_le_bytes());
        image.0[18..20].copy_from_slice(&p.opcode.to_le_bytes());
        image.0[20..24].copy_from_slice(&p.data.1.to_le_bytes());
        image.0[24..26].copy_from_slice(&p.data.0.to_le_bytes());
        for (i, x) in self.st.iter().enumerate() {
            image.0[28 + 10 * i..][..10].copy_from_slice(&x.to_bytes());
        }
        image
    }

    pub fn from_image(image: &Image, memory: Memory, eflags: u32) -> Self {
        let word = |at: usize| u16::from_le_bytes(image.0[at..at + 2].try_into().unwrap());
        Self {
            control: word(0),
            status: word(4),
            tags: word(8),
            st: std::array::from_fn(|i| F80::from_bytes(image.0[28 + 10 * i..][..10].try_into().unwrap())),
            memory,
            pointers: Pointers {
                opcode: word(18),
                instruction: (word(16), u32::from(word(12)) | u32::from(word(14)) << 16),
                data: (word(24), u32::from(word(20)) | u32::from(word(22)) << 16),
            },
            eflags,
        }
    }
}

/// An instruction in executable memory. Its memory operand, if any, must be `[rdx]`.
pub struct Insn {
    code: Mmap,
}

/// Where the instruction is in the mapping.
const AT: usize = 4;

const EFLAGS: u32 = 0x8d5;

impl Insn {
    pub fn new(bytes: &[u8]) -> Self {
        let mut code = Vec::new();
        code.extend([0xdd, 0x27]); // frstor [rdi]
        code.extend([0x51, 0x9d]); // push rcx; popfq
        code.extend(bytes);
        code.extend([0x9c, 0x58]); // pushfq; pop rax
        code.extend([0xdd, 0x36]); // fnsave [rsi]
        code.push(0xc3);
        let mut map = MmapMut::map_anon(4096).unwrap();
        map[..code.len()].copy_from_slice(&code);
        Self {
            code: map.make_exec().unwrap(),
        }
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.code.as_ptr() as u64 + AT as u64
    }

    pub fn run(&self, before: State) -> State {
        self.run_with(before, &mut { before.memory })
    }

    /// With its memory operand at a place of the caller's.
    pub fn run_with(&self, before: State, memory: &mut Memory) -> State {
        *memory = before.memory;
        // SAFETY: no instruction but those of `run_large` reaches beyond 112 bytes.
        let (image, eflags) = unsafe { self.call(before, memory.as_mut_ptr()) };
        State::from_image(&image, *memory, eflags)
    }

    /// An instruction with a memory operand of 512 bytes: `fxsave`, `fxrstor` with a harmless MXCSR.
    pub fn run_large(&self, before: State, memory: &mut Large) -> State {
        // SAFETY: the operand is as large as any.
        let (image, eflags) = unsafe { self.call(before, memory.0.as_mut_ptr()) };
        State::from_image(&image, before.memory, eflags)
    }

    /// # Safety
    ///
    /// The instruction reads and writes memory only where `memory` may be read and written.
    unsafe fn call(&self, before: State, memory: *mut u8) -> (Image, u32) {
        let input = before.to_image();
        let mut output = Image([0; 112]);
        // SAFETY: the mapping holds a whole function of this signature, which reads 108 bytes at its first argument, writes
        // as many at its second and at its third what the caller vouches for, and keeps what the ABI says: fnsave leaves
        // the x87 as fninit does, and the state loaded has no exception pending that frstor or the instruction
        // could deliver.
        let eflags = unsafe {
            let f: extern "sysv64" fn(*const Image, *mut Image, *mut u8, u64) -> u64 =
                transmute(self.code.as_ptr());
            f(
                &raw const input,
                &raw mut output,
                memory,
                (before.eflags & EFLAGS).into(),
            )
        };
        (output, eflags as u32 & EFLAGS)
    }
}

/// Whether the host is an AMD processor: there are a few deliberate differences from the SDM.
pub fn is_amd() -> bool {
    let id = std::arch::x86_64::__cpuid(0);
    (id.ebx, id.edx, id.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163)
}

/// CS and DS.
pub fn selectors() -> (u16, u16) {
    let (cs, ds): (u16, u16);
    // SAFETY: reads two segment registers.
    unsafe {
        std::arch::asm!("mov {0:x}, cs", "mov {1:x}, ds", out(reg) cs, out(reg) ds, options(nomem, nostack, preserves_flags));
    }
    (cs, ds)
}
