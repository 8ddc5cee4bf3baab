//! Numbers and arguments of the helpers that lifted code calls ([`crate::ir::Op::Call`]).
//!
//! `args[2]` is always a [`Form`]: length and operand size of the instruction and what else the helper must know. What
//! is said under a helper is all it needs to see to; the lifter has seen to the rest:
//!
//! - Legality that follows from the [block mode](super::mode::Mode): CPL 0 where it is demanded (#GP, or #UD), #UD
//!   outside of protected or 64-bit mode, IOPL of `cli`, `sti`, `pushf`, `popf` and `int n` in virtual-8086 mode,
//!   CR4.UMIP, CR4.TSD, CR4.FSGSBASE, CR4.OSXSAVE, #UD and #NM by CR0.EM, CR0.TS and CR4.OSFXSR.
//! - Memory operands: a helper gets their value or their linear address, segments checked. What a helper returns
//!   is written to the destination by lifted code.
//! - The program counter: it goes to the next instruction after a helper that "ends the block", for mode, interrupts or
//!   address space may have changed. A helper that "sets pc" does so itself in every case of success (`pc` +
//!   [`Form::len`] is the next instruction).
//!
//! A helper that fails changes nothing but what the architecture says. One that yields two values sets the registers
//! itself. None of them touches the arithmetic flags (CC slots) unless said.
//!
//! Without a helper, in lifted code alone: `cli`, `clac`, `stac`, `cld`, `std` (bits of slot EFLAGS), `swapgs` (slots), `pushf`,
//! rdfsbase and its kin (base slots), `invlpg`, `invd`, `wbinvd` (nothing to do: translations are coherent),
//! `arpl`, `enter` of levels 0 and 1, `leave`, `pusha`, `popa`, `bound`.
//!
//! What takes effect an instruction later is counted in steps ([`crate::Cpu::retire`] is told of all steps before a helper
//! runs, and of a block's before the hart is asked for anything): a helper that runs at `steps` makes a shadow that
//! holds while `steps + 1` are made; the trap flag traces an instruction if it was set when fewer steps had been
//! made than before that instruction; RF ends when the next instruction retires. Blocks have one instruction in
//! the modes TRACE, SHADOW and CODE_BREAKPOINTS, and end with `Dispatch` or as said here.

/// The third argument of a helper, packed: bits 0 to 3 the instruction's length, 4 and 5 log2 of its operand size in
/// bytes, 8 to 15 what else there is (`more`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(pub u64);

#[allow(clippy::len_without_is_empty, reason = "no instruction is empty")]
impl Form {
    /// Of an instruction of `len` bytes with operands of `1 << size` bytes.
    pub const fn new(len: u8, size: u8, more: u8) -> Form {
        Form(len as u64 & 15 | (size as u64 & 3) << 4 | (more as u64) << 8)
    }

    /// Bytes of the instruction.
    pub const fn len(self) -> u64 {
        self.0 & 15
    }

    /// log2 of the operand size in bytes.
    pub const fn size(self) -> u8 {
        (self.0 >> 4 & 3) as u8
    }

    /// What else there is.
    pub const fn more(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

/// Whether a helper may change what the [block mode](super::mode::Mode) says, but for what it takes from EFLAGS, the program
/// counter and shadows.
pub const fn may_change_mode(helper: u16) -> bool {
    !matches!(
        helper,
        CHECK_SEGMENT
            | READ_SELECTOR
            | READ_TABLE
            | LAR
            | LSL
            | VERIFY
            | STI
            | POPF
            | HLT
            | PAUSE
            | IN
            | OUT
            | READ_CR
            | SMSW
            | RDMSR
            | RDTSC
            | RDPMC
            | CPUID
            | INVPCID
            | XGETBV
            | RDRAND
            | FXSAVE
            | XSAVE
            | STMXCSR
            | STRING..
    )
}

// Segments and gates.

/// Checks an access in a segment that isn't flat (never in 64-bit mode): `args` = segment register (encoding's
/// order), offset, form with `more` = bytes (0 to 64) and [`CHECK_WRITE`]. #GP(0) or #SS(0) by limit, type and presence.
/// Yields the linear address.
pub const CHECK_SEGMENT: u16 = 0;
/// Bit of `more` of [`CHECK_SEGMENT`]: a write.
pub const CHECK_WRITE: u8 = 0x80;
/// Loads a segment register: `args` = selector, -, form with `more` = segment register. Not CS. A load of SS makes a
/// shadow if `more` has [`MAKES_SHADOW`] (`mov` and `pop`, not `lss`). Ends the block.
pub const LOAD_SEGMENT: u16 = 1;
/// Bit of `more` of [`LOAD_SEGMENT`].
pub const MAKES_SHADOW: u8 = 0x80;
/// Yields a selector: `args[0]` = segment register (encoding's order), 6 LDTR, 7 TR. Can't fail.
pub const READ_SELECTOR: u16 = 2;
/// `lldt`: `args[0]` = selector. Ends the block.
pub const LLDT: u16 = 3;
/// `ltr`: `args[0]` = selector. Ends the block.
pub const LTR: u16 = 4;
/// `lgdt`: `args` = limit, base (cut to 24 bits for operand size 16). 64-bit mode: #GP(0) if the base isn't canonical.
/// Ends the block.
pub const LGDT: u16 = 5;
/// `lidt`: as [`LGDT`].
pub const LIDT: u16 = 6;
/// `sgdt`, `sidt`: yields the limit if `more` is 0 (GDTR) or 1 (IDTR), the base if it is 2 or 3. Can't fail.
pub const READ_TABLE: u16 = 7;
/// `lar`: `args[0]` = selector. Yields the access rights and bit 32, or 0 if ZF is to be clear.
pub const LAR: u16 = 8;
/// `lsl`: `args[0]` = selector. Yields the limit in bytes and bit 32, or 0 if ZF is to be clear.
pub const LSL: u16 = 9;
/// `verr` (`more` = 0), `verw` (`more` = 1): `args[0]` = selector. Yields ZF.
pub const VERIFY: u16 = 10;
/// Far `jmp`: `args` = selector, offset. Sets pc.
pub const FAR_JUMP: u16 = 11;
/// Far `call`: `args` = selector, offset. Sets pc.
pub const FAR_CALL: u16 = 12;
/// Far `ret`: `args[0]` = bytes to be released besides. Sets pc.
pub const FAR_RETURN: u16 = 13;
/// `iret` by operand size. Sets pc.
pub const IRET: u16 = 14;
/// `int n`, `int3`, `int1`, `into` with OF set: `args[0]` = vector, form with `more` = a [`Software`]. Delivers a
/// software interrupt or its fault. `into` is called in every case: it looks at OF itself. Sets pc.
pub const INTERRUPT: u16 = 15;
/// `syscall`. #UD without EFER.SCE. Sets pc.
pub const SYSCALL: u16 = 16;
/// `sysret` by operand size (4 or 8). #UD without EFER.SCE. Sets pc.
pub const SYSRET: u16 = 17;
/// `sysenter`. Sets pc.
pub const SYSENTER: u16 = 18;
/// `sysexit` by operand size (4 or 8). Sets pc.
pub const SYSEXIT: u16 = 19;

/// Which instruction an [`INTERRUPT`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Software {
    /// `int n`.
    Int = 0,
    /// `int3` (0xcc).
    Int3 = 1,
    /// `into`.
    Into = 2,
    /// `int1` (0xf1).
    Int1 = 3,
}

// Flags and waiting.

/// `sti`, legal: sets IF, and makes a shadow if it was clear. The next instruction ends the block.
pub const STI: u16 = 24;
/// `popf`: `args[0]` = what was popped; only bits of the operand size count. Changes what CPL and IOPL let it, the
/// arithmetic flags too. Ends the block.
pub const POPF: u16 = 25;
/// `hlt`. Ends the block.
pub const HLT: u16 = 26;
/// `pause`. Ends the block.
pub const PAUSE: u16 = 27;
/// The first op of every instruction in mode CODE_BREAKPOINTS: #DB as a fault if an instruction breakpoint is at pc
/// and RF is clear.
pub const CODE_BREAKPOINT: u16 = 28;

// Ports.

/// `in`: `args[0]` = port. Checks the permission map if IOPL doesn't suffice. Yields the value. Ends the block.
pub const IN: u16 = 32;
/// `out`: `args` = port, value. Likewise. Ends the block.
pub const OUT: u16 = 33;

// Control registers, MSRs, caches.

/// `args[0]` = n of CRn, one of 0, 2, 3, 4, 8. Yields its value.
pub const READ_CR: u16 = 40;
/// `args` = n of CRn, value (zero-extended outside of 64-bit mode). Ends the block.
pub const WRITE_CR: u16 = 41;
/// `args[0]` = n of DRn (0 to 7; 4 and 5 are #UD with CR4.DE). #DB with DR7.GD. Yields its value.
pub const READ_DR: u16 = 42;
/// `args` = n of DRn, value. Likewise. Ends the block.
pub const WRITE_DR: u16 = 43;
/// `smsw`: yields CR0.
pub const SMSW: u16 = 44;
/// `lmsw`: `args[0]` = value. Ends the block.
pub const LMSW: u16 = 45;
/// `clts`. Ends the block.
pub const CLTS: u16 = 46;
/// `rdmsr`: by ecx; sets edx and eax.
pub const RDMSR: u16 = 47;
/// `wrmsr`: by ecx, edx and eax. Ends the block.
pub const WRMSR: u16 = 48;
/// `rdtsc` (`more` = 0) and `rdtscp` (`more` = 1): sets edx and eax, and ecx.
pub const RDTSC: u16 = 49;
/// `rdpmc`: by ecx; sets edx and eax.
pub const RDPMC: u16 = 50;
/// `cpuid`: by eax and ecx; sets eax, ebx, ecx, edx.
pub const CPUID: u16 = 51;
/// `invpcid`: `args` = type, linear address of the descriptor (to be read).
pub const INVPCID: u16 = 52;
/// `xgetbv`: by ecx; sets edx and eax.
pub const XGETBV: u16 = 53;
/// `xsetbv`: by ecx, edx and eax. Ends the block.
pub const XSETBV: u16 = 54;
/// `rdrand` (`more` = 0) and `rdseed` (`more` = 1): yields a number of which the operand's bits are taken; CF is set.
pub const RDRAND: u16 = 56;

// Extended state.

/// `fxsave`, and `fxsave64` if `more` is 1: `args[0]` = linear address. #GP(0) unless 16-byte-aligned.
pub const FXSAVE: u16 = 64;
/// `fxrstor`: as [`FXSAVE`]. Ends the block.
pub const FXRSTOR: u16 = 65;
/// `xsave`, and `xsave64` if bit 0 of `more` is set; `xsaveopt` if bit 1 is: `args[0]` = linear address; mask in edx:eax.
pub const XSAVE: u16 = 66;
/// `xrstor`: as [`XSAVE`]. Ends the block.
pub const XRSTOR: u16 = 67;
/// `ldmxcsr`: `args[0]` = value. Ends the block.
pub const LDMXCSR: u16 = 68;
/// `stmxcsr`: yields MXCSR.
pub const STMXCSR: u16 = 69;

// Strings (strings.rs).

/// A string instruction, see [`super::strings`]. Sets pc.
pub const STRING: u16 = 72;

// Stack.

/// `enter` with a nesting level above 1, by operand size: `args` = bytes of the frame, level. Sets rbp and rsp.
pub const ENTER: u16 = 73;

/// An x87 instruction: `args[0]` = the low three bits of the first opcode byte and the second byte (in 11 bits),
/// [`X87_MEMORY`], and the operand's segment register from bit [`X87_SEGMENT`] on; `args[1]` = linear address of the
/// memory operand; operand size of form: that of an environment. #MF. Yields what `fnstsw ax` puts into AX, and
/// else the arithmetic flags, which only `fcomi` and its kin change. These helpers change no slot.
pub const X87: u16 = 128;
/// Bit of [`X87`]'s `args[0]`: there is a memory operand.
pub const X87_MEMORY: u64 = 1 << 11;
/// Shift of the segment register in [`X87`]'s `args[0]`.
pub const X87_SEGMENT: u32 = 12;
/// `wait`. #MF.
pub const WAIT: u16 = 129;
/// First helper of MMX and SSE (64 numbers).
pub const SSE: u16 = 192;
/// Before an MMX instruction: #UD, #NM or #MF.
pub const MMX_CHECK: u16 = SSE;
/// Yields MMn: `args[0]` = n.
pub const MMX_READ: u16 = SSE + 1;
/// Writes MMn, as an MMX instruction does: `args` = n, value.
pub const MMX_WRITE: u16 = SSE + 2;
/// What an MMX instruction does to the x87's state that writes no MMX register.
pub const MMX_ENTER: u16 = SSE + 3;
/// `emms`.
pub const EMMS: u16 = SSE + 4;
/// `maskmovdqu`, `maskmovq`: `args` = linear address, number of the register of data | that of the mask << 8 | MMX << 16.
pub const MASKED_STORE: u16 = SSE + 5;
/// Before the floating-point ops of an SSE instruction in mode SSE_UNMASKED: clears the flags in slot MXCSR (and FTZ if
/// underflow is unmasked), yields what it was.
pub const SSE_BEGIN: u16 = SSE + 6;
/// After them: `args` = what [`SSE_BEGIN`] yielded, whether a result is denormal. #XM, or #UD without CR4.OSXMMEXCPT, if
/// one of the flags raised is unmasked; they are in MXCSR then too.
pub const SSE_END: u16 = SSE + 7;
