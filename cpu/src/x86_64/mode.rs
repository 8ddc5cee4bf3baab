//! The block mode: all that an instruction's translation depends on besides its bytes.
//!
//! Two processors in the same mode translate the same bytes alike; whatever changes one of these bits ends its
//! block. A segment is *flat* if its base is 0, its limit covers all that its address size reaches, and it can
//! be read and written: then no access through it needs a check. In 64-bit mode es, cs, ss and ds always are.

use bitflags::bitflags;

bitflags! {
    /// See the module's documentation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mode: u64 {
        /// 64-bit mode (EFER.LMA and CS.L).
        const LONG = 1 << 0;
        /// Default operand and address size of 32 bits (CS.D); neither this nor `LONG`: 16 bits.
        const BIG = 1 << 1;
        /// Protected mode (CR0.PE) and not virtual-8086.
        const PROTECTED = 1 << 2;
        /// Virtual-8086 mode (EFLAGS.VM).
        const VM86 = 1 << 3;
        /// CPL, bit 0.
        const CPL0 = 1 << 4;
        /// CPL, bit 1.
        const CPL1 = 1 << 5;
        /// SS.B: the stack pointer has 32 bits (never in 64-bit mode).
        const STACK32 = 1 << 6;
        /// Code segment: base 0 and a limit of 4 GiB.
        const FLAT_CS = 1 << 7;
        /// Stack segment: flat.
        const FLAT_SS = 1 << 8;
        /// Data segment: flat.
        const FLAT_DS = 1 << 9;
        /// Extra segment: flat.
        const FLAT_ES = 1 << 10;
        /// EFLAGS.TF: every instruction is a block of its own, followed by #DB.
        const TRACE = 1 << 11;
        /// The instruction is in the shadow of `sti`, `mov ss` or `pop ss`: a block of its own.
        const SHADOW = 1 << 12;
        /// x87 instructions raise #NM or are emulated (CR0.EM or CR0.TS).
        const NO_X87 = 1 << 13;
        /// SSE instructions raise #UD (CR0.EM, or CR4.OSFXSR is clear).
        const NO_SSE = 1 << 14;
        /// SSE instructions raise #NM (CR0.TS).
        const TS = 1 << 15;
        /// An SSE exception is unmasked: floating-point SSE instructions go through helpers.
        const SSE_UNMASKED = 1 << 16;
        /// CR0.MP: `wait` raises #NM if CR0.TS.
        const MP = 1 << 17;
        /// The code is within 1 MiB of where its address wraps (outside of 64-bit mode): targets are computed.
        const EDGE = 1 << 18;
        /// Breakpoints on data or ports are armed (DR7): every instruction is a block of its own.
        const DATA_BREAKPOINTS = 1 << 19;
        /// Instruction breakpoints are armed (DR7): every instruction is a block of its own, with a check.
        const CODE_BREAKPOINTS = 1 << 20;
        /// Alignment checks are on (CR0.AM, EFLAGS.AC and CPL 3).
        const ALIGNMENT = 1 << 21;
        /// EFLAGS.IOPL >= CPL: `cli`, `sti`, `in`, `out` need no further check.
        const IO_PRIVILEGE = 1 << 22;
        /// CR4.UMIP.
        const UMIP = 1 << 23;
        /// CR4.TSD.
        const TSD = 1 << 24;
        /// CR4.FSGSBASE.
        const FSGSBASE = 1 << 25;
        /// CR4.OSXSAVE.
        const OSXSAVE = 1 << 26;
        /// There is no other processor, to which `pause` would give way.
        const LONE = 1 << 27;
    }
}

impl Mode {
    /// The current privilege level.
    pub const fn cpl(self) -> u8 {
        (self.bits() >> 4 & 3) as u8
    }

    /// With this privilege level.
    pub fn with_cpl(self, cpl: u8) -> Mode {
        Mode::from_bits_retain(self.bits() & !0x30 | u64::from(cpl & 3) << 4)
    }

    /// Bits of code (for the decoder): 16, 32 or 64.
    pub fn code_bits(self) -> u32 {
        if self.contains(Mode::LONG) {
            64
        } else if self.contains(Mode::BIG) {
            32
        } else {
            16
        }
    }
}
