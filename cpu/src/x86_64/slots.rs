//! Which [`Slot`] holds which register.
//!
//! The arithmetic flags are kept as what made them: [`CC_OP`] says which operation (`flags.rs`), [`CC_DST`] its
//! result, [`CC_SRC`] its second operand; they are made real only where somebody looks. Everything that leaves the
//! processor (snapshots, hashes, debuggers, `pushf`) sees architectural flags only.
//!
//! The program counter is a *linear* address (CS base + EIP), as fetches use it.

use crate::ir::Slot;

/// Slot of general register `n` in the encoding's order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
pub const fn gpr(n: u8) -> Slot {
    Slot(n as u16)
}

/// rax.
pub const RAX: Slot = Slot(0);
/// rcx.
pub const RCX: Slot = Slot(1);
/// rdx.
pub const RDX: Slot = Slot(2);
/// rbx.
pub const RBX: Slot = Slot(3);
/// rsp.
pub const RSP: Slot = Slot(4);
/// rbp.
pub const RBP: Slot = Slot(5);
/// rsi.
pub const RSI: Slot = Slot(6);
/// rdi.
pub const RDI: Slot = Slot(7);

/// The linear program counter, valid outside translated code.
pub const PC: Slot = Slot(16);
/// Linear base of the running block's page.
pub const PAGE: Slot = Slot(17);
/// MXCSR with all exceptions masked: flags, DAZ, rounding control, FTZ. The guest's masks are the hart's.
pub const MXCSR: Slot = Slot(18);
/// The operation that made the arithmetic flags.
pub const CC_OP: Slot = Slot(19);
/// Its result.
pub const CC_DST: Slot = Slot(20);
/// Its second operand, or what its operation says.
pub const CC_SRC: Slot = Slot(21);
/// EFLAGS without CF, PF, AF, ZF, SF and OF, which are 0 here; bit 1 is 1.
pub const EFLAGS: Slot = Slot(22);

/// Slot of the base of segment register `n` in the encoding's order: es, cs, ss, ds, fs, gs.
pub const fn base(n: u8) -> Slot {
    Slot(24 + n as u16)
}

/// Slot of the limit of segment register `n`, in bytes, scaled: the last valid offset (of an expand-down segment the
/// last invalid one).
pub const fn limit(n: u8) -> Slot {
    Slot(30 + n as u16)
}

/// IA32_KERNEL_GS_BASE.
pub const KERNEL_GS_BASE: Slot = Slot(36);

/// Slot of quadword `part` (0 is the lowest; 2 and 3 are room for AVX) of vector register `n`.
pub const fn xmm(n: u8, part: u8) -> Slot {
    Slot(64 + 4 * n as u16 + part as u16)
}

/// One past the last slot that is part of the processor's state.
pub const END: u16 = 128;
