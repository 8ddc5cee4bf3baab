//! This machine's processor: a page for code, scratch memory and the registers at fixed addresses.

use crate::cases::{CODE, Case, DATA, DATA_LEN};
use crate::vectors::{self, Image};
use crate::world::State;
use std::arch::global_asm;

/// Where the registers are kept for the time of a run.
const CONTEXT: u64 = 0x3000_0000;

/// Layout of the page at [`CONTEXT`], as the assembly below knows it.
#[repr(C)]
struct Context {
    regs_in: [u64; 16],
    flags_in: u64,
    _1: [u64; 15],
    regs_out: [u64; 16],
    flags_out: u64,
    _2: [u64; 15],
    host_stack: u64,
    code: u64,
    exit: u64,
    /// Where to and into which code segment.
    entry: [u32; 2],
    /// This program's MXCSR.
    mxcsr: u32,
    _3: [u32; 119],
    fx_in: [u8; 512],
    fx_out: [u8; 512],
}

global_asm!(
    "tickback_native_run:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [0x30000200], rsp",
    "fxrstor64 [0x30000400]",
    "push qword ptr [0x30000080]",
    "popfq",
    "mov rax, [0x30000000]",
    "mov rcx, [0x30000008]",
    "mov rdx, [0x30000010]",
    "mov rbx, [0x30000018]",
    "mov rsp, [0x30000020]",
    "mov rbp, [0x30000028]",
    "mov rsi, [0x30000030]",
    "mov rdi, [0x30000038]",
    "mov r8, [0x30000040]",
    "mov r9, [0x30000048]",
    "mov r10, [0x30000050]",
    "mov r11, [0x30000058]",
    "mov r12, [0x30000060]",
    "mov r13, [0x30000068]",
    "mov r14, [0x30000070]",
    "mov r15, [0x30000078]",
    "jmp qword ptr [0x30000208]",
    // Code of 32 bits is entered by a far jump, with segments that can be used there.
    "tickback_native_run32:",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov eax, [0x30000000]",
    "jmp fword ptr [0x30000218]",
    "tickback_native_exit:",
    "mov [0x30000100], rax",
    "mov [0x30000108], rcx",
    "mov [0x30000110], rdx",
    "mov [0x30000118], rbx",
    "mov [0x30000120], rsp",
    "mov [0x30000128], rbp",
    "mov [0x30000130], rsi",
    "mov [0x30000138], rdi",
    "mov [0x30000140], r8",
    "mov [0x30000148], r9",
    "mov [0x30000150], r10",
    "mov [0x30000158], r11",
    "mov [0x30000160], r12",
    "mov [0x30000168], r13",
    "mov [0x30000170], r14",
    "mov [0x30000178], r15",
    "mov rsp, [0x30000200]",
    "pushfq",
    "pop qword ptr [0x30000180]",
    "cld",
    "fxsave64 [0x30000600]",
    "fninit",
    "ldmxcsr [0x30000220]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn tickback_native_run();
    fn tickback_native_run32();
    fn tickback_native_exit();
    fn mmap(addr: u64, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> i64;
}

/// The mapped pages.
pub struct Native {
    code: &'static mut [u8],
    data: &'static mut [u8],
    context: &'static mut Context,
}

/// Maps pages at a fixed address, where nothing is yet; they stay.
fn map(addr: u64, len: usize, protection: i32) -> *mut u8 {
    // MAP_PRIVATE | MAP_ANONYMOUS, and MAP_FIXED, for the same pages are mapped anew by each test.
    const FLAGS: i32 = 0x2 | 0x20 | 0x10;
    // SAFETY: nothing else of this process is at these addresses: the loader maps programs and libraries far above.
    let at = unsafe { mmap(addr, len, protection, FLAGS, -1, 0) };
    assert_eq!(at as u64, addr, "can't map memory at a fixed address");
    at as *mut u8
}

impl Native {
    pub fn new() -> Native {
        let (code, data) = (map(CODE, 0x3000, 7), map(DATA, DATA_LEN, 3));
        let context = map(CONTEXT, 0x1000, 3);
        // SAFETY: the pages were just mapped, readable and writable, and only this value refers to them: tests hold
        // a lock as long as they have one.
        let native = unsafe {
            Native {
                code: std::slice::from_raw_parts_mut(code, 0x3000),
                data: std::slice::from_raw_parts_mut(data, DATA_LEN),
                context: &mut *context.cast(),
            }
        };
        native.context.mxcsr = vectors::MASKS;
        native.context.exit = tickback_native_exit as *const () as u64;
        native
    }

    pub fn data(&mut self) -> &mut [u8] {
        self.data
    }

    pub fn run(&mut self, case: &Case) -> State {
        let at = (case.start - CODE) as usize;
        let code = case.code();
        self.code[at..at + code.len()].copy_from_slice(code);
        // jmp [exit]; from 32-bit code first a far jump to one.
        const EXIT: [u8; 7] = [0xff, 0x24, 0x25, 0x10, 0x02, 0x00, 0x30];
        const EXIT32: [u8; 7] = [0xea, 0x00, 0x2f, 0x00, 0x10, 0x33, 0x00];
        let end = at + code.len();
        let exit = if case.bits == 64 { EXIT } else { EXIT32 };
        self.code[end..end + exit.len()].copy_from_slice(&exit);
        self.code[0x2f00..0x2f00 + EXIT.len()].copy_from_slice(&EXIT);
        let cx = &mut *self.context;
        cx.regs_in = case.regs;
        cx.flags_in = case.flags;
        cx.fx_in[..vectors::LEN].copy_from_slice(&case.vectors.0);
        cx.code = if case.bits == 64 {
            case.start
        } else {
            tickback_native_run32 as *const () as u64
        };
        cx.entry = [case.start as u32, 0x23];
        // SAFETY: the code is user-mode instructions that, as the emulator has found, end at `exit` and access nothing
        // outside of the scratch memory; all registers of the calling convention are restored.
        unsafe { tickback_native_run() };
        // Written by assembly, behind the compiler's back but through an extern call that may reach it.
        let cx = std::hint::black_box(&mut *self.context);
        State {
            regs: cx.regs_out,
            flags: cx.flags_out,
            vectors: Image::of(&cx.fx_out),
        }
    }
}
