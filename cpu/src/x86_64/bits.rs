//! Bits of EFLAGS, control registers, EFER and segment attributes, by the manual's names (SDM 3A 2.3, 2.5, 3.4.5).

/// EFLAGS: trap.
pub const TF: u64 = 1 << 8;
/// EFLAGS: interrupts are enabled.
pub const IF: u64 = 1 << 9;
/// EFLAGS: direction.
pub const DF: u64 = 1 << 10;
/// EFLAGS: I/O privilege level.
pub const IOPL: u64 = 3 << 12;
/// EFLAGS: nested task.
pub const NT: u64 = 1 << 14;
/// EFLAGS: resume.
pub const RF: u64 = 1 << 16;
/// EFLAGS: virtual-8086 mode.
pub const VM: u64 = 1 << 17;
/// EFLAGS: alignment check, access control.
pub const AC: u64 = 1 << 18;
/// EFLAGS: virtual interrupt flag.
pub const VIF: u64 = 1 << 19;
/// EFLAGS: virtual interrupt pending.
pub const VIP: u64 = 1 << 20;
/// EFLAGS: CPUID is there.
pub const ID: u64 = 1 << 21;
/// EFLAGS: the bit that is always 1.
pub const ALWAYS: u64 = 1 << 1;
/// EFLAGS: all that is no arithmetic flag and can be set.
pub const EFLAGS_OTHER: u64 = TF | IF | DF | IOPL | NT | RF | VM | AC | VIF | VIP | ID;

/// CR0: protected mode.
pub const CR0_PE: u64 = 1;
/// CR0: monitor coprocessor.
pub const CR0_MP: u64 = 1 << 1;
/// CR0: emulation.
pub const CR0_EM: u64 = 1 << 2;
/// CR0: task switched.
pub const CR0_TS: u64 = 1 << 3;
/// CR0: extension type, always 1.
pub const CR0_ET: u64 = 1 << 4;
/// CR0: numeric error.
pub const CR0_NE: u64 = 1 << 5;
/// CR0: supervisors obey read-only pages.
pub const CR0_WP: u64 = 1 << 16;
/// CR0: alignment mask.
pub const CR0_AM: u64 = 1 << 18;
/// CR0: not write-through.
pub const CR0_NW: u64 = 1 << 29;
/// CR0: cache disable.
pub const CR0_CD: u64 = 1 << 30;
/// CR0: paging.
pub const CR0_PG: u64 = 1 << 31;
/// The bits that CR0 has.
pub const CR0_ALL: u64 =
    CR0_PE | CR0_MP | CR0_EM | CR0_TS | CR0_ET | CR0_NE | CR0_WP | CR0_AM | CR0_NW | CR0_CD | CR0_PG;

/// CR4: time-stamp disable.
pub const CR4_TSD: u64 = 1 << 2;
/// CR4: debugging extensions.
pub const CR4_DE: u64 = 1 << 3;
/// CR4: page-size extensions.
pub const CR4_PSE: u64 = 1 << 4;
/// CR4: physical-address extension.
pub const CR4_PAE: u64 = 1 << 5;
/// CR4: machine checks.
pub const CR4_MCE: u64 = 1 << 6;
/// CR4: global pages.
pub const CR4_PGE: u64 = 1 << 7;
/// CR4: RDPMC for all.
pub const CR4_PCE: u64 = 1 << 8;
/// CR4: FXSAVE and SSE.
pub const CR4_OSFXSR: u64 = 1 << 9;
/// CR4: #XM.
pub const CR4_OSXMMEXCPT: u64 = 1 << 10;
/// CR4: user-mode instruction prevention.
pub const CR4_UMIP: u64 = 1 << 11;
/// CR4: RDFSBASE and the like.
pub const CR4_FSGSBASE: u64 = 1 << 16;
/// CR4: process-context identifiers.
pub const CR4_PCIDE: u64 = 1 << 17;
/// CR4: XSAVE.
pub const CR4_OSXSAVE: u64 = 1 << 18;
/// CR4: no execution of user pages.
pub const CR4_SMEP: u64 = 1 << 20;
/// CR4: no access to user pages.
pub const CR4_SMAP: u64 = 1 << 21;
/// The bits that CR4 has here; setting another is #GP.
pub const CR4_ALL: u64 = CR4_TSD
    | CR4_DE
    | CR4_PSE
    | CR4_PAE
    | CR4_MCE
    | CR4_PGE
    | CR4_PCE
    | CR4_OSFXSR
    | CR4_OSXMMEXCPT
    | CR4_UMIP
    | CR4_FSGSBASE
    | CR4_PCIDE
    | CR4_OSXSAVE
    | CR4_SMEP
    | CR4_SMAP;

/// EFER: SYSCALL.
pub const EFER_SCE: u64 = 1;
/// EFER: long mode enabled.
pub const EFER_LME: u64 = 1 << 8;
/// EFER: long mode active.
pub const EFER_LMA: u64 = 1 << 10;
/// EFER: execute-disable.
pub const EFER_NXE: u64 = 1 << 11;

/// Segment attributes: accessed.
pub const A_ACCESSED: u16 = 1;
/// Segment attributes: data is writable, code is readable.
pub const A_RW: u16 = 1 << 1;
/// Segment attributes: data expands down, code is conforming.
pub const A_DC: u16 = 1 << 2;
/// Segment attributes: code.
pub const A_CODE: u16 = 1 << 3;
/// Segment attributes: code or data, no system segment.
pub const A_S: u16 = 1 << 4;
/// Segment attributes: the privilege level.
pub const A_DPL: u16 = 3 << 5;
/// Segment attributes: present.
pub const A_P: u16 = 1 << 7;
/// Segment attributes: 64-bit code.
pub const A_L: u16 = 1 << 13;
/// Segment attributes: 32 bits by default, a 32-bit stack pointer.
pub const A_DB: u16 = 1 << 14;
/// Segment attributes: the limit counts pages.
pub const A_G: u16 = 1 << 15;

/// DR6: breakpoint conditions.
pub const DR6_B: u64 = 15;
/// DR6: an access to a debug register, under DR7.GD.
pub const DR6_BD: u64 = 1 << 13;
/// DR6: a single step.
pub const DR6_BS: u64 = 1 << 14;
/// DR6: the bits that are always 1.
pub const DR6_FIXED: u64 = 0xffff_0ff0;
/// DR7: the bit that is always 1.
pub const DR7_FIXED: u64 = 0x400;
/// DR7: general detect.
pub const DR7_GD: u64 = 1 << 13;

/// MXCSR: the exception masks.
pub const MXCSR_MASKS: u64 = 0x1f80;
/// MXCSR: the bits that it has (MXCSR_MASK of FXSAVE).
pub const MXCSR_ALL: u64 = 0xffff;

/// Bits of a physical address (MAXPHYADDR).
pub const PHYS_BITS: u32 = 40;

/// Whether a linear address is canonical: bits 63 to 47 are equal.
pub const fn canonical(addr: u64) -> bool {
    ((addr << 16) as i64 >> 16) as u64 == addr
}
