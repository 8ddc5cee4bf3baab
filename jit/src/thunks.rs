//! The fixed pieces of host code: into translated code, out of it, and from it to Rust and back.
//!
//! ```text
//!   run --enter--> block ... block --exit(eax = exit number)--> run
//!                    |
//!                    +-- cold stub: push arguments; call thunk --> stores homes and MXCSR, calls Rust,
//!                        loads them again --> result on the top of the stack, ZF = Done
//! ```
//!
//! A thunk preserves every register (homes as Rust left them in their slots), so that a slow path changes
//! nothing that the allocator knows. [`cpu::Outcome::Stop`] never comes back to the stub.

// dynasm converts register numbers into what they are.
#![allow(clippy::useless_conversion)]

use cpu::Layout;
use cpu::ir::Size;
use dynasmrt::x64::X64Relocation;
use dynasmrt::{AssemblyOffset, DynasmApi, DynasmLabelApi, VecAssembler, dynasm};

use crate::JitError;
use crate::gen_regs::HOMES;
use crate::run::{self, Ctx};
use crate::tlb::TLB_ENTRIES;
use crate::words::{BIAS, CTX, FRAME, HOST_MXCSR, SCRATCH, TLB};

/// Exit number of a stop in the middle of an instruction; [`Ctx`] says more.
pub const EXIT_STOP: u32 = 0;
/// Exit numbers of the commonest exits, which set the pc slot and give nothing back: their records are
/// always in the host's cache.
pub const EXIT_NEXT: u32 = 1;
/// See [`EXIT_NEXT`].
pub const EXIT_DISPATCH: u32 = 2;

/// Addresses of the thunks and of the constants beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thunks {
    /// `extern "sysv64" fn(words, code, ctx) -> exit number`
    pub enter: u64,
    /// Jumped to with the exit number in eax.
    pub exit: u64,
    /// Access or breakpoint: `[desc][value][address -> result]`; the last two, of vectors, `[desc][low][high][address]`, of
    /// which the last three stay. Without and with vector registers alive.
    pub access: [[u64; Access::COUNT]; 2],
    /// Helper: `[desc][helper][arg 2][arg 1][arg 0 -> result]`.
    pub call: [u64; 2],
    /// Soft floating point: `[desc][c][b][a -> result]`; keeps all vector registers.
    pub soft: u64,
    /// Function of the guest's: `[number][arg 3][arg 2][arg 1][arg 0 -> result]`; without and with vector
    /// registers alive.
    pub pure: [u64; 2],
    /// 16-byte constants, see the numbers below.
    pub constants: u64,
}

impl Thunks {
    /// The name of the thunk or constant at an address; `-v` is one for when vector registers are alive.
    pub fn name(&self, address: u64) -> Option<String> {
        const CONSTANTS: [&str; 7] = ["sign32", "sign64", "abs32", "abs64", "box", "nan32", "nan64"];
        let offset = address.wrapping_sub(self.constants);
        if let Some(name) = CONSTANTS.get((offset / 16) as usize) {
            return offset.is_multiple_of(16).then(|| (*name).to_owned());
        }
        for (vectors, suffix) in ["", "-v"].iter().enumerate() {
            if let Some(which) = self.access[vectors].iter().position(|a| *a == address) {
                let name = match (Access(which), Access(which).parts()) {
                    (Access::LOAD_VECTOR, _) => "load-v".into(),
                    (Access::STORE_VECTOR, _) => "store-v".into(),
                    (_, Some((false, size))) => format!("load-{size:?}"),
                    (_, Some((true, size))) => format!("store-{size:?}"),
                    (_, None) => "ask".into(),
                };
                return Some(name + suffix);
            }
            for (name, thunk) in [("helper", self.call[vectors]), ("pure", self.pure[vectors])] {
                if thunk == address {
                    return Some(format!("{name}{suffix}"));
                }
            }
        }
        let others = [("enter", self.enter), ("exit", self.exit), ("soft", self.soft)];
        let found = others.iter().find(|(_, thunk)| *thunk == address);
        found.map(|(name, _)| (*name).to_owned())
    }
}

/// Which thunk of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub usize);

impl Access {
    /// Read-modify-writes and breakpoints: those ask Rust at once, the others the TLB first.
    pub const OTHER: Access = Access(8);
    /// Of 16 bytes.
    pub const LOAD_VECTOR: Access = Access(9);
    pub const STORE_VECTOR: Access = Access(10);
    pub const COUNT: usize = 11;

    /// Of a load or store.
    pub fn of(write: bool, size: Size) -> Access {
        Access(size as usize | usize::from(write) << 2)
    }

    fn parts(self) -> Option<(bool, Size)> {
        let size = [Size::B1, Size::B2, Size::B4, Size::B8][self.0 & 3];
        (self.0 < 8).then_some((self.0 & 4 != 0, size))
    }
}

/// Index of the constants.
pub mod constant {
    /// Sign bits of binary32 and binary64.
    pub const SIGN32: u64 = 0;
    pub const SIGN64: u64 = 16;
    /// All but the sign.
    pub const ABS32: u64 = 32;
    pub const ABS64: u64 = 48;
    /// High half of a NaN box.
    pub const BOX: u64 = 64;
    /// Canonical NaNs.
    pub const NAN32: u64 = 80;
    pub const NAN64: u64 = 96;
    /// 2^63 and 2^31, for unsigned conversions.
    pub const VALUES: [u64; 7] = [
        1 << 31,
        1 << 63,
        0x7fff_ffff,
        0x7fff_ffff_ffff_ffff,
        0xffff_ffff_0000_0000,
        0x7fc0_0000,
        0x7ff8_0000_0000_0000,
    ];
}

type Ops = VecAssembler<X64Relocation>;

struct Maker {
    ops: Ops,
    layout: &'static Layout,
}

/// The bytes, and where things are once they stand at `base`.
pub fn make(base: u64, layout: &'static Layout) -> Result<(Vec<u8>, Thunks), JitError> {
    let mut m = Maker {
        ops: Ops::new(base as usize),
        layout,
    };
    let mut thunks = Thunks::default();
    let at = |offset: AssemblyOffset| base + offset.0 as u64;
    thunks.constants = at(m.ops.offset());
    for value in constant::VALUES {
        m.ops.push_u64(value);
        m.ops.push_u64(0);
    }
    thunks.enter = at(m.enter());
    thunks.exit = at(m.exit());
    for vectors in [false, true] {
        for which in 0..=Access::OTHER.0 {
            let start = m.begin();
            if let Some((write, size)) = Access(which).parts() {
                m.probe(write, size);
            }
            m.callback(3, 1, vectors, Target::Field(Ctx::SLOW));
            thunks.access[usize::from(vectors)][which] = at(start);
        }
        for which in [Access::LOAD_VECTOR, Access::STORE_VECTOR] {
            let start = m.begin();
            m.probe_vector(which == Access::STORE_VECTOR);
            m.callback(4, 3, vectors, Target::Field(Ctx::WIDE));
            thunks.access[usize::from(vectors)][which.0] = at(start);
        }
        let start = m.begin();
        m.callback(5, 1, vectors, Target::Field(Ctx::CALL));
        thunks.call[usize::from(vectors)] = at(start);
    }
    let start = m.begin();
    m.callback(4, 1, true, Target::Function(run::soft as *const () as u64));
    thunks.soft = at(start);
    for vectors in [false, true] {
        let start = m.begin();
        m.pure(vectors);
        thunks.pure[usize::from(vectors)] = at(start);
    }
    let bytes = m.ops.finalize().map_err(|_| JitError::Assemble)?;
    Ok((bytes, thunks))
}

/// Bytes of all vector registers.
const VECTORS: i32 = 256;

/// What a thunk calls.
enum Target {
    /// A function pointer in [`Ctx`], called with (ctx, arguments, budget).
    Field(i32),
    /// A function, called likewise.
    Function(u64),
}

impl Maker {
    fn begin(&mut self) -> AssemblyOffset {
        self.ops.align(16, 0xcc);
        self.ops.offset()
    }

    fn slot(slot: cpu::ir::Slot) -> i32 {
        i32::from(slot.0) * 8 - BIAS
    }

    fn load_homes(&mut self) {
        for (slot, home) in self.layout.hot.iter().zip(HOMES) {
            dynasm!(self.ops ; .arch x64 ; mov Rq(home.0), [rbp + Self::slot(*slot)]);
        }
    }

    fn store_homes(&mut self) {
        for (slot, home) in self.layout.hot.iter().zip(HOMES) {
            dynasm!(self.ops ; .arch x64 ; mov [rbp + Self::slot(*slot)], Rq(home.0));
        }
    }

    fn store_vectors(&mut self) {
        for x in 0..16u8 {
            dynasm!(self.ops ; .arch x64 ; vmovdqu [rsp + i32::from(x) * 16], Rx(x));
        }
    }

    fn load_vectors(&mut self) {
        for x in 0..16u8 {
            dynasm!(self.ops ; .arch x64 ; vmovdqu Rx(x), [rsp + i32::from(x) * 16]);
        }
    }

    /// Bits of the environment that the guest has, besides the masks.
    fn env_bits(&self) -> i32 {
        let control = self.layout.fp_control & 0x8040;
        (0x6000 | control | self.layout.fp_flags & 0x3f) as i32
    }

    /// Loads MXCSR from the environment slot; the frame is `up` bytes above rsp. Whatever the slot holds,
    /// exceptions stay masked and no reserved bit is set.
    fn load_mxcsr(&mut self, up: i32) {
        let slot = Self::slot(self.layout.fp_env);
        let keep = self.env_bits() | 0x3f;
        dynasm!(self.ops ; .arch x64
            ; mov ecx, [rbp + slot]
            ; and ecx, keep
            ; or ecx, 0x1f80
            ; mov [rsp + up + SCRATCH], ecx
            ; ldmxcsr [rsp + up + SCRATCH]);
    }

    /// Stores MXCSR into the slot in canonical form, and loads the host's.
    fn store_mxcsr(&mut self, up: i32) {
        let slot = Self::slot(self.layout.fp_env);
        let keep = self.env_bits();
        dynasm!(self.ops ; .arch x64
            ; stmxcsr [rsp + up + SCRATCH]
            ; mov ecx, [rsp + up + SCRATCH]
            ; and ecx, keep
            ; or ecx, 0x1f80
            ; mov [rbp + slot], rcx
            ; ldmxcsr [rsp + up + HOST_MXCSR]);
    }

    fn enter(&mut self) -> AssemblyOffset {
        let start = self.begin();
        let tlb = TLB as i32 * 8 - BIAS;
        dynasm!(self.ops ; .arch x64
            ; push rbx ; push rbp ; push r12 ; push r13 ; push r14 ; push r15
            ; sub rsp, FRAME
            ; mov [rsp + CTX], rdx
            ; lea rbp, [rdi + BIAS]
            ; mov rax, rsi
            ; stmxcsr [rsp + HOST_MXCSR]
            ; mov r14, [rbp + tlb]
            ; mov r15, [rdx + Ctx::BUDGET]);
        self.load_mxcsr(0);
        self.load_homes();
        dynasm!(self.ops ; .arch x64 ; jmp rax);
        start
    }

    fn exit(&mut self) -> AssemblyOffset {
        let start = self.begin();
        self.store_homes();
        self.store_mxcsr(0);
        dynasm!(self.ops ; .arch x64
            ; mov rdx, [rsp + CTX]
            ; mov [rdx + Ctx::BUDGET], r15
            ; ->leave:
            ; add rsp, FRAME
            ; pop r15 ; pop r14 ; pop r13 ; pop r12 ; pop rbp ; pop rbx
            ; ret);
        start
    }

    /// Looks into the TLB, for accesses that come here because their group's range isn't on one page. Done
    /// on a hit; on a miss it goes on behind, with all registers as they were.
    fn probe(&mut self, write: bool, size: Size) {
        let mask = (TLB_ENTRIES as i32 - 1) << 5;
        let field = if write { 8 } else { 0 };
        let last = size.bytes() as i32 - 1;
        dynasm!(self.ops ; .arch x64
            ; push rax ; push rcx
            ; mov rax, [rsp + 40]
            ; lea rcx, [rax + last]
            ; or rcx, 0xfff
            ; shr rax, 7
            ; and eax, mask
            ; cmp rcx, [r14 + rax + field]
            ; jne >miss
            ; mov rcx, [r14 + rax + 16]
            ; add rcx, [rsp + 40]);
        match (write, size) {
            (false, Size::B1) => dynasm!(self.ops ; .arch x64 ; movzx eax, BYTE [rcx] ; mov [rsp + 40], rax),
            (false, Size::B2) => dynasm!(self.ops ; .arch x64 ; movzx eax, WORD [rcx] ; mov [rsp + 40], rax),
            (false, Size::B4) => dynasm!(self.ops ; .arch x64 ; mov eax, [rcx] ; mov [rsp + 40], rax),
            (false, Size::B8) => dynasm!(self.ops ; .arch x64 ; mov rax, [rcx] ; mov [rsp + 40], rax),
            (true, Size::B1) => dynasm!(self.ops ; .arch x64 ; mov rax, [rsp + 32] ; mov [rcx], al),
            (true, Size::B2) => dynasm!(self.ops ; .arch x64 ; mov rax, [rsp + 32] ; mov [rcx], ax),
            (true, Size::B4) => dynasm!(self.ops ; .arch x64 ; mov rax, [rsp + 32] ; mov [rcx], eax),
            (true, Size::B8) => dynasm!(self.ops ; .arch x64 ; mov rax, [rsp + 32] ; mov [rcx], rax),
        }
        dynasm!(self.ops ; .arch x64
            ; cmp eax, eax
            ; pop rcx ; pop rax
            ; ret 16
            ; miss:
            ; pop rcx ; pop rax);
    }

    /// As [`Maker::probe`], for 16 bytes.
    fn probe_vector(&mut self, write: bool) {
        let mask = (TLB_ENTRIES as i32 - 1) << 5;
        let field = if write { 8 } else { 0 };
        // The address is above two registers, the return address, the descriptor and two words.
        dynasm!(self.ops ; .arch x64
            ; push rax ; push rcx
            ; mov rax, [rsp + 48]
            ; lea rcx, [rax + 15]
            ; or rcx, 0xfff
            ; shr rax, 7
            ; and eax, mask
            ; cmp rcx, [r14 + rax + field]
            ; jne >miss
            ; mov rcx, [r14 + rax + 16]
            ; add rcx, [rsp + 48]);
        for half in [0, 8] {
            match write {
                false => dynasm!(self.ops ; .arch x64 ; mov rax, [rcx + half] ; mov [rsp + 32 + half], rax),
                true => dynasm!(self.ops ; .arch x64 ; mov rax, [rsp + 32 + half] ; mov [rcx + half], rax),
            }
        }
        dynasm!(self.ops ; .arch x64
            ; cmp eax, eax
            ; pop rcx ; pop rax
            ; ret 8
            ; miss:
            ; pop rcx ; pop rax);
    }

    /// As a callback, for what sees no state: homes that the call would lose are put aside, and MXCSR stays (the
    /// function computes with integers).
    fn pure(&mut self, vectors: bool) {
        // Frame, five arguments, return address, ten registers: 16 words and the frame, aligned.
        let room = if vectors { VECTORS } else { 0 };
        let args = room + 8 * 10;
        dynasm!(self.ops ; .arch x64
            ; push rax ; push rcx ; push rdx ; push rsi ; push rdi ; push r8 ; push r9 ; push r10 ; push r11
            ; sub rsp, room);
        if vectors {
            self.store_vectors();
        }
        dynasm!(self.ops ; .arch x64
            ; lea rdi, [rsp + args]
            ; mov rsi, QWORD std::ptr::from_ref(self.layout) as i64
            ; mov rax, QWORD run::pure as *const () as i64
            ; sub rsp, 8
            ; call rax
            ; add rsp, 8);
        if vectors {
            self.load_vectors();
        }
        dynasm!(self.ops ; .arch x64
            ; add rsp, room
            ; pop r11 ; pop r10 ; pop r9 ; pop r8 ; pop rdi ; pop rsi ; pop rdx ; pop rcx ; pop rax
            ; ret 32);
    }

    /// Arguments and the return address lie on the stack. See the module's documentation.
    /// `results` of the words stay on the stack.
    fn callback(&mut self, arguments: i32, results: i32, vectors: bool, target: Target) {
        let tlb = TLB as i32 * 8 - BIAS;
        // Frame, arguments, return address, four temporaries: then aligned.
        let saved = 8 * (arguments + 1 + 4);
        let room = if vectors { VECTORS } else { 0 } + (saved & 8);
        let up = saved + room;
        let args = room + 40;
        dynasm!(self.ops ; .arch x64
            ; push rax ; push rcx ; push rdx ; push rsi
            ; sub rsp, room);
        if vectors {
            self.store_vectors();
        }
        self.store_homes();
        self.store_mxcsr(up);
        dynasm!(self.ops ; .arch x64
            ; mov rdi, [rsp + up + CTX]
            ; lea rsi, [rsp + args]
            ; mov rdx, r15);
        match target {
            Target::Field(field) => dynasm!(self.ops ; .arch x64
                ; call QWORD [rdi + field]
                ; cmp eax, 2
                ; jne >go_on
                ; lea rsp, [rsp + up]
                ; xor eax, eax
                ; jmp ->leave
                ; go_on:),
            Target::Function(address) => dynasm!(self.ops ; .arch x64
                ; mov rax, QWORD address as i64
                ; call rax),
        }
        if matches!(target, Target::Field(Ctx::CALL)) {
            dynasm!(self.ops ; .arch x64
                ; mov rdi, [rsp + up + CTX]
                ; sub r15, [rdi + Ctx::MORE_STEPS]);
        }
        self.load_mxcsr(up);
        self.load_homes();
        if vectors {
            self.load_vectors();
        }
        dynasm!(self.ops ; .arch x64
            ; mov r14, [rbp + tlb]
            ; add rsp, room
            ; test eax, eax
            ; pop rsi ; pop rdx ; pop rcx ; pop rax
            ; ret (arguments - results) as i16 * 8);
    }
}
