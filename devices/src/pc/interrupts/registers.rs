//! A local APIC's registers: their numbers, the bits that exist, and which MSR accesses fault.
//!
//! Source: SDM 3A table 11-1 (memory), table 11-6 (MSRs), 11.12.1 to 11.12.5 (x2APIC mode and IA32_APIC_BASE).

/// IA32_APIC_BASE: this is the bootstrap processor.
pub const BASE_BSP: u64 = 1 << 8;
/// IA32_APIC_BASE: x2APIC mode.
pub const BASE_EXTD: u64 = 1 << 10;
/// IA32_APIC_BASE: the local APIC is enabled.
pub const BASE_EN: u64 = 1 << 11;
/// Where the registers are at reset.
pub const BASE_ADDRESS: u64 = 0xfee0_0000;
/// Bits of IA32_APIC_BASE that can be written: enables and an address of 40 bits, which is what the processors have.
pub(super) const BASE_WRITABLE: u64 = 0x00ff_ffff_f000 | BASE_EN | BASE_EXTD;

/// IA32_APIC_BASE.
pub(super) const MSR_BASE: u32 = 0x1b;
/// IA32_TSC_DEADLINE.
pub(super) const MSR_TSC_DEADLINE: u32 = 0x6e0;
/// First and last MSR of the x2APIC.
pub(super) const MSR_FIRST: u32 = 0x800;
pub(super) const MSR_LAST: u32 = 0x8ff;

// Registers by MMIO offset / 16, which is MSR - 0x800 too.
pub(super) const ID: u32 = 0x02;
pub(super) const VERSION: u32 = 0x03;
pub(super) const TPR: u32 = 0x08;
pub(super) const APR: u32 = 0x09;
pub(super) const PPR: u32 = 0x0a;
pub(super) const EOI: u32 = 0x0b;
pub(super) const RRD: u32 = 0x0c;
pub(super) const LDR: u32 = 0x0d;
pub(super) const DFR: u32 = 0x0e;
pub(super) const SVR: u32 = 0x0f;
pub(super) const ISR: u32 = 0x10;
pub(super) const TMR: u32 = 0x18;
pub(super) const IRR: u32 = 0x20;
pub(super) const IRR_LAST: u32 = 0x27;
pub(super) const ESR: u32 = 0x28;
pub(super) const ICR: u32 = 0x30;
pub(super) const ICR_HIGH: u32 = 0x31;
pub(super) const LVT: u32 = 0x32;
pub(super) const LVT_LAST: u32 = 0x37;
pub(super) const INITIAL_COUNT: u32 = 0x38;
pub(super) const CURRENT_COUNT: u32 = 0x39;
pub(super) const DIVIDE: u32 = 0x3e;
pub(super) const SELF_IPI: u32 = 0x3f;

// Entries of the LVT, in the order of their registers.
pub(super) const TIMER: usize = 0;
pub(super) const LINT0: usize = 3;
pub(super) const ERROR: usize = 5;
pub(super) const ENTRIES: usize = 6;

/// Version 0x14, 6 LVT entries, EOI broadcast suppression.
pub(super) const VERSION_VALUE: u32 = 0x14 | (ENTRIES as u32 - 1) << 16 | 1 << 24;
pub(super) const SVR_ENABLE: u32 = 1 << 8;
pub(super) const SVR_NO_BROADCAST: u32 = 1 << 12;
pub(super) const SVR_MASK: u32 = 0xff | SVR_ENABLE | SVR_NO_BROADCAST;
pub(super) const LVT_MASKED: u32 = 1 << 16;
pub(super) const LVT_LEVEL: u32 = 1 << 15;
pub(super) const LVT_REMOTE_IRR: u32 = 1 << 14;
pub(super) const LVT_STATUS: u32 = 1 << 12;
/// What a write changes in each entry.
pub(super) const LVT_WRITABLE: [u32; ENTRIES] = [0x7_00ff, 0x1_07ff, 0x1_07ff, 0x1_a7ff, 0x1_a7ff, 0x1_00ff];
pub(super) const TIMER_MODE: u32 = 3 << 17;
pub(super) const DIVIDE_MASK: u32 = 0b1011;
/// What an ICR keeps of its low half, and of what a write may set in x2APIC mode.
pub(super) const ICR_MASK: u32 = 0x000c_cfff;

/// Whether a hart whose IA32_APIC_BASE is `base` takes #GP for reading (`write` is `None`) or writing MSR
/// `msr`: IA32_APIC_BASE, IA32_TSC_DEADLINE, or one of 0x800 to 0x8ff. Another MSR is a fault.
///
/// The device itself ignores such accesses, so the hart must ask first (SDM 3A 11.12.1).
pub fn msr_faults(base: u64, msr: u32, write: Option<u64>) -> bool {
    match (msr, write) {
        (MSR_BASE, None) | (MSR_TSC_DEADLINE, _) => false,
        (MSR_BASE, Some(value)) => {
            let reserved = !(BASE_WRITABLE | BASE_BSP);
            let (old, new) = (base & (BASE_EN | BASE_EXTD), value & (BASE_EN | BASE_EXTD));
            // SDM 3A 11.12.5: no way into x2APIC mode but from xAPIC mode, none from it but to off.
            let forbidden = match new {
                0 => false,
                BASE_EN => old == BASE_EN | BASE_EXTD,
                BASE_EXTD => true,
                _ => old & BASE_EN == 0,
            };
            value & reserved != 0 || forbidden
        }
        (MSR_FIRST..=MSR_LAST, _) if base & (BASE_EN | BASE_EXTD) != BASE_EN | BASE_EXTD => true,
        (MSR_FIRST..=MSR_LAST, None) => !matches!(
            msr - MSR_FIRST,
            ID | VERSION | TPR | PPR | LDR | SVR | ISR..=IRR_LAST | ESR | ICR | LVT..=LVT_LAST | INITIAL_COUNT
                | CURRENT_COUNT | DIVIDE
        ),
        (MSR_FIRST..=MSR_LAST, Some(value)) => {
            let allowed = match msr - MSR_FIRST {
                TPR | SELF_IPI => 0xff,
                EOI | ESR => 0,
                SVR => SVR_MASK.into(),
                ICR => 0xffff_ffff_0000_0000 | u64::from(ICR_MASK),
                register @ LVT..=LVT_LAST => {
                    let writable = LVT_WRITABLE[(register - LVT) as usize];
                    u64::from(
                        writable
                            | LVT_STATUS
                            | if writable & LVT_LEVEL != 0 {
                                LVT_REMOTE_IRR
                            } else {
                                0
                            },
                    )
                }
                INITIAL_COUNT => 0xffff_ffff,
                DIVIDE => DIVIDE_MASK.into(),
                _ => return true,
            };
            value & !allowed != 0
        }
        _ => true,
    }
}
