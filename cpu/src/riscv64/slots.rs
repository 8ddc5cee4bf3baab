//! Which [`Slot`] holds which register, and the bits of the block mode.

use crate::ir::Slot;
use crate::{FloatRules, Layout};

/// Slot of integer register `xN`; that of x0 is never written and reads 0.
pub const fn x(n: u8) -> Slot {
    Slot(n as u16)
}

/// Slot of floating-point register `fN`: 64 bits, binary32 NaN-boxed.
pub const fn f(n: u8) -> Slot {
    Slot(32 + n as u16)
}

/// Program counter.
pub const PC: Slot = Slot(64);
/// Virtual base of the running block's page.
pub const PAGE: Slot = Slot(65);
/// Floating-point environment in MXCSR's layout. The flags are fflags' bits (fcsr is made from them); the
/// rounding control follows frm where the host has that mode, else it is nearest-even.
pub const FP_ENV: Slot = Slot(66);
/// Writable bits of mstatus.
pub const MSTATUS: Slot = Slot(67);
/// sscratch.
pub const SSCRATCH: Slot = Slot(68);
/// sepc.
pub const SEPC: Slot = Slot(69);
/// scause.
pub const SCAUSE: Slot = Slot(70);
/// stval.
pub const STVAL: Slot = Slot(71);
/// The enabled interrupts that are pending (mip and mie), whatever delegation and mstatus say: derived, for lifted
/// code that sets mstatus.SIE.
pub const PENDING: Slot = Slot(72);
/// One past the last slot that is part of the hart's state.
pub const END: u16 = 73;

/// The layout for engines. Order of `hot`: measured dynamic use in Debian's kernel and user programs.
pub static LAYOUT: Layout = Layout {
    pc: PC,
    page: PAGE,
    fp_env: FP_ENV,
    fp_flags: 0b11_1101,
    fp_control: 0,
    float: FloatRules::Canonical,
    pure: &[],
    hot: &[
        x(15),
        x(14),
        x(10),
        x(2),
        x(13),
        x(11),
        x(12),
        x(8),
        x(1),
        x(9),
        x(18),
        x(16),
    ],
    pc_align: 1,
};

/// Block mode, bits 0..=1: the privilege (0 U, 1 S, 3 M).
pub const MODE_PRIV: u64 = 0b11;
/// Block mode, bit 2: mstatus.FS is Off, so that floating-point instructions are illegal.
pub const MODE_FS_OFF: u64 = 1 << 2;
/// Block mode, bit 3: mstatus.FS is Dirty, so that nothing needs to be marked.
pub const MODE_FS_DIRTY: u64 = 1 << 3;
/// Block mode, bit 4: frm is RMM, which the host lacks; dynamic rounding is `Static(NearestMaxMagnitude)`.
pub const MODE_FRM_RMM: u64 = 1 << 4;
/// Block mode, bit 5: frm holds a reserved value; instructions with dynamic rounding are illegal.
pub const MODE_FRM_RESERVED: u64 = 1 << 5;
/// Block mode, bit 6: `ebreak` may be a semihosting call.
pub const MODE_SEMIHOSTING: u64 = 1 << 6;
/// Block mode, bit 7: there is no other hart, to which `pause` would give way.
pub const MODE_LONE: u64 = 1 << 7;
