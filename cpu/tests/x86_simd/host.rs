//! One instruction on the host's registers.

use memmap2::{Mmap, MmapMut};
use std::mem::transmute;

/// What an instruction may read and write: xmm0 to xmm3 as (low, high), rax, rcx, rdx and the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct State {
    pub xmm: [[u64; 2]; 4],
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub flags: u64,
}

/// An instruction without a memory operand in executable memory.
pub struct Insn {
    code: Mmap,
}

impl Insn {
    pub fn new(bytes: &[u8]) -> Insn {
        let mut code = Vec::new();
        for i in 0..4 {
            code.extend([0x0f, 0x10, 0x47 | i << 3, i << 4]); // movups xmm(i), [rdi + 16i]
        }
        code.extend([0x48, 0x8b, 0x47, 64]); // mov rax, [rdi+64]
        code.extend([0x48, 0x8b, 0x4f, 72]); // mov rcx, [rdi+72]
        code.extend([0x48, 0x8b, 0x57, 80]); // mov rdx, [rdi+80]
        code.extend(bytes);
        code.extend([0x9c, 0x8f, 0x47, 88]); // pushfq; pop [rdi+88]
        for i in 0..4 {
            code.extend([0x0f, 0x11, 0x47 | i << 3, i << 4]); // movups [rdi + 16i], xmm(i)
        }
        code.extend([0x48, 0x89, 0x47, 64]); // mov [rdi+64], rax
        code.extend([0x48, 0x89, 0x4f, 72]); // mov [rdi+72], rcx
        code.extend([0x48, 0x89, 0x57, 80, 0xc3]); // mov [rdi+80], rdx; ret
        let mut map = MmapMut::map_anon(4096).unwrap();
        map[..code.len()].copy_from_slice(&code);
        Insn {
            code: map.make_exec().unwrap(),
        }
    }

    pub fn run(&self, mut state: State) -> State {
        // SAFETY: the mapping holds a whole function of this signature, which touches the state alone, and of the
        // registers only those that its ABI leaves to it.
        unsafe {
            let f: extern "sysv64" fn(*mut State) = transmute(self.code.as_ptr());
            f(&raw mut state);
        }
        state
    }
}
