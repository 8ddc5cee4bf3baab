//! Model-specific registers: a row each (SDM 4). One that isn't here is #GP(0), and remembered for whoever asks which
//! they were.

use super::bits::*;
use super::hart::Hart;
use super::registers::{FS, GS, MISC_ENABLE_RESET};
use super::slots;
use super::trap::{self, GP};
use crate::{Context, Trap};

const TSC_DEADLINE: u32 = 0x6e0;
pub(super) const APIC_BASE: u32 = 0x1b;

/// IA32_ARCH_CAPABILITIES: RDCL_NO, IBRS_ALL, SKIP_L1DFL_VMENTRY, SSB_NO, MDS_NO, PSCHANGE_MC_NO, TAA_NO, SBDR_SSDP_NO,
/// FBSDP_NO, PSDP_NO, BHI_NO, PBRSB_NO, GDS_NO, RFDS_NO, ITS_NO.
const ARCH_CAPABILITIES: u64 = 1
    | 1 << 1
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 6
    | 1 << 8
    | 1 << 13
    | 1 << 14
    | 1 << 15
    | 1 << 20
    | 1 << 24
    | 1 << 26
    | 1 << 27
    | 1 << 62;
/// IA32_MTRRCAP: eight variable ranges, fixed ranges, write combining.
const MTRR_CAP: u64 = 0x508;
/// Bits of IA32_MISC_ENABLE that can be written: fast strings, limit CPUID, XD disable stay as they are.
const MISC_ENABLE_WRITABLE: u64 = 1 | 1 << 3 | 1 << 7 | 1 << 11 | 1 << 12 | 1 << 16 | 1 << 18;

type Read = fn(&mut Hart, &mut dyn Context, u32) -> Option<u64>;
/// `false`: the value isn't legal.
type Write = fn(&mut Hart, &mut dyn Context, u32, u64) -> bool;

/// A row: the registers from `first` to `last` behave alike. `None` from a read is #GP.
struct Row {
    first: u32,
    last: u32,
    read: Read,
    write: Write,
}

const fn row(number: u32, read: Read, write: Write) -> Row {
    rows(number, number, read, write)
}

const fn rows(first: u32, last: u32, read: Read, write: Write) -> Row {
    Row {
        first,
        last,
        read,
        write,
    }
}

fn never(_: &mut Hart, _: &mut dyn Context, _: u32) -> Option<u64> {
    None
}

fn read_only(_: &mut Hart, _: &mut dyn Context, _: u32, _: u64) -> bool {
    false
}

fn ignored(_: &mut Hart, _: &mut dyn Context, _: u32, _: u64) -> bool {
    true
}

/// Stores `value` if it is legal.
fn set(register: &mut u64, value: u64, legal: bool) -> bool {
    if legal {
        *register = value;
    }
    legal
}

/// A memory type that MTRRs know.
fn memory_type(value: u64) -> bool {
    matches!(value, 0 | 1 | 4 | 5 | 6)
}

fn fixed_index(number: u32) -> Option<usize> {
    Some(match number {
        0x250 => 0,
        0x258 | 0x259 => (number - 0x258) as usize + 1,
        0x268..=0x26f => (number - 0x268) as usize + 3,
        _ => return None,
    })
}

fn read_fixed(hart: &mut Hart, _: &mut dyn Context, number: u32) -> Option<u64> {
    hart.core.msrs.mtrr_fixed.get(fixed_index(number)?).copied()
}

fn write_fixed(hart: &mut Hart, _: &mut dyn Context, number: u32, value: u64) -> bool {
    let legal = value.to_le_bytes().iter().all(|byte| memory_type((*byte).into()));
    fixed_index(number).is_some_and(|i| set(&mut hart.core.msrs.mtrr_fixed[i], value, legal))
}

fn write_variable(hart: &mut Hart, _: &mut dyn Context, number: u32, value: u64) -> bool {
    let base = number & 1 == 0;
    let legal = value >> PHYS_BITS == 0
        && if base {
            value & 0xf00 == 0 && memory_type(value & 0xff)
        } else {
            value & 0x7ff == 0
        };
    set(
        &mut hart.core.msrs.mtrr_variable[(number & 15) as usize],
        value,
        legal,
    )
}

fn write_pat(hart: &mut Hart, _: &mut dyn Context, _: u32, value: u64) -> bool {
    let legal = value
        .to_le_bytes()
        .iter()
        .all(|byte| matches!(byte, 0 | 1 | 4..=7));
    set(&mut hart.core.msrs.pat, value, legal)
}

fn write_efer(hart: &mut Hart, _: &mut dyn Context, _: u32, value: u64) -> bool {
    let core = &mut hart.core;
    let changed = value ^ core.efer;
    let legal = value & !(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE) == 0
        && (changed & EFER_LME == 0 || core.cr0 & CR0_PG == 0);
    let value = value & !EFER_LMA | core.efer & EFER_LMA;
    set(&mut core.efer, value, legal)
}

fn read_local(_: &mut Hart, cx: &mut dyn Context, number: u32) -> Option<u64> {
    cx.local_read(number)
}

fn write_local(_: &mut Hart, cx: &mut dyn Context, number: u32, value: u64) -> bool {
    cx.local_write(number, value)
}

/// The local APIC compares with virtual time; the register is in units of the guest's counter.
fn read_deadline(hart: &mut Hart, cx: &mut dyn Context, _: u32) -> Option<u64> {
    Some(match cx.local_read(TSC_DEADLINE)? {
        0 => 0,
        time => time.wrapping_add(hart.core.msrs.tsc_adjust),
    })
}

fn write_deadline(hart: &mut Hart, cx: &mut dyn Context, _: u32, value: u64) -> bool {
    let adjust = hart.core.msrs.tsc_adjust;
    let time = match value {
        0 => 0,
        // A counter that was set back runs behind virtual time, and a deadline before power-on has passed.
        _ => (i128::from(value) - i128::from(adjust as i64)).clamp(1, u64::MAX.into()) as u64,
    };
    cx.local_write(TSC_DEADLINE, time)
}

const ROWS: &[Row] = &[
    // IA32_TIME_STAMP_COUNTER
    row(
        0x10,
        |h, cx, _| Some(h.tsc(cx)),
        |h, cx, _, v| {
            h.core.msrs.tsc_adjust = v.wrapping_sub(cx.now());
            true
        },
    ),
    // IA32_PLATFORM_ID
    row(0x17, |_, _, _| Some(0), read_only),
    // IA32_APIC_BASE
    row(APIC_BASE, read_local, write_local),
    // IA32_FEATURE_CONTROL: once locked it stays.
    row(
        0x3a,
        |h, _, _| Some(h.core.msrs.feature_control),
        |h, _, _, v| {
            let legal = h.core.msrs.feature_control & 1 == 0 && v & !1 == 0;
            set(&mut h.core.msrs.feature_control, v, legal)
        },
    ),
    // IA32_TSC_ADJUST
    row(
        0x3b,
        |h, _, _| Some(h.core.msrs.tsc_adjust),
        |h, _, _, v| set(&mut h.core.msrs.tsc_adjust, v, true),
    ),
    // IA32_SPEC_CTRL: IBRS, STIBP, BHI_DIS_S.
    row(
        0x48,
        |h, _, _| Some(h.core.msrs.spec_ctrl),
        |h, _, _, v| set(&mut h.core.msrs.spec_ctrl, v, v & !0x403 == 0),
    ),
    // IA32_PRED_CMD: IBPB.
    row(0x49, never, |_, _, _, v| v & !1 == 0),
    // IA32_BIOS_UPDT_TRIG
    row(0x79, never, ignored),
    // IA32_BIOS_SIGN_ID
    row(
        0x8b,
        |h, _, _| Some(h.core.msrs.bios_sign_id),
        |h, _, _, v| set(&mut h.core.msrs.bios_sign_id, v, true),
    ),
    // MSR_PLATFORM_INFO: the ratio to 100 MHz.
    row(0xce, |_, _, _| Some(10 << 8), read_only),
    // IA32_MTRRCAP
    row(0xfe, |_, _, _| Some(MTRR_CAP), read_only),
    // IA32_ARCH_CAPABILITIES
    row(0x10a, |_, _, _| Some(ARCH_CAPABILITIES), read_only),
    // IA32_SYSENTER_CS, IA32_SYSENTER_ESP, IA32_SYSENTER_EIP
    row(
        0x174,
        |h, _, _| Some(h.core.msrs.sysenter_cs),
        |h, _, _, v| set(&mut h.core.msrs.sysenter_cs, v & 0xffff_ffff, true),
    ),
    row(
        0x175,
        |h, _, _| Some(h.core.msrs.sysenter_esp),
        |h, _, _, v| set(&mut h.core.msrs.sysenter_esp, v, canonical(v)),
    ),
    row(
        0x176,
        |h, _, _| Some(h.core.msrs.sysenter_eip),
        |h, _, _, v| set(&mut h.core.msrs.sysenter_eip, v, canonical(v)),
    ),
    // IA32_MCG_CAP: no bank. IA32_MCG_STATUS.
    row(0x179, |_, _, _| Some(0), read_only),
    row(
        0x17a,
        |h, _, _| Some(h.core.msrs.mcg_status),
        |h, _, _, v| set(&mut h.core.msrs.mcg_status, v, v & !7 == 0),
    ),
    // IA32_MISC_ENABLE
    row(
        0x1a0,
        |h, _, _| Some(h.core.msrs.misc_enable),
        |h, _, _, v| {
            let value = v & MISC_ENABLE_WRITABLE | h.core.msrs.misc_enable & !MISC_ENABLE_WRITABLE;
            set(&mut h.core.msrs.misc_enable, value, true)
        },
    ),
    // IA32_DEBUGCTL: neither branch records nor branch steps.
    row(0x1d9, |_, _, _| Some(0), |_, _, _, v| v == 0),
    // IA32_MTRR_PHYSBASE0 to IA32_MTRR_PHYSMASK7
    rows(
        0x200,
        0x20f,
        |h, _, n| Some(h.core.msrs.mtrr_variable[(n & 15) as usize]),
        write_variable,
    ),
    // IA32_MTRR_FIX64K_00000, IA32_MTRR_FIX16K_*, IA32_MTRR_FIX4K_*
    row(0x250, read_fixed, write_fixed),
    rows(0x258, 0x259, read_fixed, write_fixed),
    rows(0x268, 0x26f, read_fixed, write_fixed),
    // IA32_PAT
    row(0x277, |h, _, _| Some(h.core.msrs.pat), write_pat),
    // IA32_MTRR_DEF_TYPE
    row(
        0x2ff,
        |h, _, _| Some(h.core.msrs.mtrr_def_type),
        |h, _, _, v| {
            let legal = v & !0xcff == 0 && memory_type(v & 0xff);
            set(&mut h.core.msrs.mtrr_def_type, v, legal)
        },
    ),
    // IA32_TSC_DEADLINE
    row(TSC_DEADLINE, read_deadline, write_deadline),
    // The local APIC in x2APIC mode.
    rows(0x800, 0x8ff, read_local, write_local),
    // IA32_EFER
    row(0xc000_0080, |h, _, _| Some(h.core.efer), write_efer),
    // IA32_STAR, IA32_LSTAR, IA32_CSTAR, IA32_FMASK
    row(
        0xc000_0081,
        |h, _, _| Some(h.core.msrs.star),
        |h, _, _, v| set(&mut h.core.msrs.star, v, true),
    ),
    row(
        0xc000_0082,
        |h, _, _| Some(h.core.msrs.lstar),
        |h, _, _, v| set(&mut h.core.msrs.lstar, v, canonical(v)),
    ),
    row(
        0xc000_0083,
        |h, _, _| Some(h.core.msrs.cstar),
        |h, _, _, v| set(&mut h.core.msrs.cstar, v, canonical(v)),
    ),
    row(
        0xc000_0084,
        |h, _, _| Some(h.core.msrs.sfmask),
        |h, _, _, v| set(&mut h.core.msrs.sfmask, v, v >> 32 == 0),
    ),
    // IA32_FS_BASE, IA32_GS_BASE, IA32_KERNEL_GS_BASE
    row(
        0xc000_0100,
        |h, _, _| Some(h.regs[slots::base(FS)]),
        |h, _, _, v| set(&mut h.regs[slots::base(FS)], v, canonical(v)),
    ),
    row(
        0xc000_0101,
        |h, _, _| Some(h.regs[slots::base(GS)]),
        |h, _, _, v| set(&mut h.regs[slots::base(GS)], v, canonical(v)),
    ),
    row(
        0xc000_0102,
        |h, _, _| Some(h.regs[slots::KERNEL_GS_BASE]),
        |h, _, _, v| set(&mut h.regs[slots::KERNEL_GS_BASE], v, canonical(v)),
    ),
    // IA32_TSC_AUX
    row(
        0xc000_0103,
        |h, _, _| Some(h.core.msrs.tsc_aux),
        |h, _, _, v| set(&mut h.core.msrs.tsc_aux, v, v >> 32 == 0),
    ),
];

/// Unknown numbers that are remembered.
const REMEMBERED: usize = 64;

impl Hart {
    /// The time-stamp counter: virtual time in ns, adjusted.
    pub(super) fn tsc(&self, cx: &dyn Context) -> u64 {
        cx.now().wrapping_add(self.core.msrs.tsc_adjust)
    }

    fn msr_row(&mut self, number: u32) -> Result<&'static Row, Trap> {
        let found = ROWS.iter().find(|row| (row.first..=row.last).contains(&number));
        found.ok_or_else(|| {
            if self.unknown_msrs.len() < REMEMBERED && !self.unknown_msrs.contains(&number) {
                self.unknown_msrs.push(number);
            }
            trap::fault(GP, 0)
        })
    }

    /// `rdmsr`.
    pub(super) fn rdmsr(&mut self, cx: &mut dyn Context) -> Result<(), Trap> {
        self.ring0()?;
        let number = self.regs[slots::RCX] as u32;
        let row = self.msr_row(number)?;
        let value = (row.read)(self, cx, number).ok_or(trap::fault(GP, 0))?;
        self.set_edx_eax(value);
        Ok(())
    }

    /// `wrmsr`.
    pub(super) fn wrmsr(&mut self, cx: &mut dyn Context) -> Result<(), Trap> {
        self.ring0()?;
        let number = self.regs[slots::RCX] as u32;
        let value = self.edx_eax();
        let row = self.msr_row(number)?;
        if (row.write)(self, cx, number, value) {
            Ok(())
        } else {
            Err(trap::fault(GP, 0))
        }
    }

    /// `rdtsc`, and `rdtscp`, which yields IA32_TSC_AUX too.
    pub(super) fn rdtsc(&mut self, cx: &mut dyn Context, aux: bool) -> Result<(), Trap> {
        if self.core.cr4 & CR4_TSD != 0 && self.core.cpl != 0 {
            return Err(trap::fault(GP, 0));
        }
        let value = self.tsc(cx);
        self.set_edx_eax(value);
        if aux {
            self.regs[slots::RCX] = self.core.msrs.tsc_aux & 0xffff_ffff;
        }
        Ok(())
    }

    /// `rdpmc`: there is no counter.
    pub(super) fn rdpmc(&self) -> Result<(), Trap> {
        Err(trap::fault(GP, 0))
    }
}

// What is fixed at reset must be what writes leave.
const _: () = assert!(MISC_ENABLE_RESET & !MISC_ENABLE_WRITABLE == 0);

#[cfg(test)]
mod tests;
