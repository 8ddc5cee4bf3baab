//! The registers of a processor that no IR op names: the system's side of it.
//!
//! Every field holds a legal value at any time: what writes one checks it, and restore checks by [`Core::check`].

use super::bits::*;
use serde::{Deserialize, Serialize};

/// es: number in the encoding.
pub const ES: u8 = 0;
/// cs.
pub const CS: u8 = 1;
/// ss.
pub const SS: u8 = 2;
/// ds.
pub const DS: u8 = 3;
/// fs.
pub const FS: u8 = 4;
/// gs.
pub const GS: u8 = 5;

/// A segment register, hidden part included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The selector.
    pub selector: u16,
    /// Bits 8 to 23 of the descriptor's high half, those of the limit clear; 0 where the segment can't be used.
    pub attr: u16,
    /// Linear address of offset 0.
    pub base: u64,
    /// The last valid offset (of an expand-down segment the last invalid one).
    pub limit: u32,
}

impl Segment {
    /// The descriptor privilege level.
    pub const fn dpl(&self) -> u8 {
        (self.attr >> 5 & 3) as u8
    }

    /// Whether it is in real mode's or virtual-8086 mode's form for `selector`.
    pub const fn real(selector: u16, attr: u16) -> Segment {
        Segment {
            selector,
            attr,
            base: (selector as u64) << 4,
            limit: 0xffff,
        }
    }
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Linear address.
    pub base: u64,
    /// Last valid offset.
    pub limit: u16,
}

/// What the processor does (SDM 3A 8.4.2, 10.x).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// Executes instructions.
    Running,
    /// `hlt`: until an interrupt.
    Halted,
    /// After a triple fault: until NMI, INIT or the board's reset.
    Shutdown,
    /// Before a floating-point instruction that finds an error with CR0.NE clear: until an interrupt, or IGNNE#.
    Frozen,
    /// After INIT, or at power-on if it isn't the bootstrap processor: until SIPI.
    WaitForSipi,
}

/// What the pins say and have latched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// The local APIC's vector + 1, or 0.
    pub local: u16,
    /// The 8259's vector + 1, or 0.
    pub external: u16,
    /// A non-maskable interrupt came.
    pub nmi: bool,
    /// INIT came.
    pub init: bool,
    /// SIPI came: its vector + 1, or 0.
    pub startup: u16,
    /// Address line 20 is let through.
    pub a20: bool,
    /// FERR#, which this processor drives.
    pub ferr: bool,
    /// IGNNE#.
    pub ignne: bool,
}

/// Model-specific registers, apart from those that stand for something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are the manual's (SDM 4).
pub struct Msrs {
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    /// In the saved form alone: a running processor's is a slot, so that `swapgs` needs no helper.
    pub kernel_gs_base: u64,
    pub sysenter_cs: u64,
    pub sysenter_esp: u64,
    pub sysenter_eip: u64,
    pub tsc_aux: u64,
    pub tsc_adjust: u64,
    pub pat: u64,
    pub misc_enable: u64,
    pub feature_control: u64,
    pub mtrr_def_type: u64,
    pub mtrr_fixed: [u64; 11],
    pub mtrr_variable: [u64; 16],
    pub mcg_status: u64,
    pub bios_sign_id: u64,
    pub spec_ctrl: u64,
}

/// IA32_MISC_ENABLE at reset: fast strings.
pub const MISC_ENABLE_RESET: u64 = 1;

impl Msrs {
    /// Values at power-on.
    pub fn reset() -> Msrs {
        Msrs {
            star: 0,
            lstar: 0,
            cstar: 0,
            sfmask: 0,
            kernel_gs_base: 0,
            sysenter_cs: 0,
            sysenter_esp: 0,
            sysenter_eip: 0,
            tsc_aux: 0,
            tsc_adjust: 0,
            pat: 0x0007_0406_0007_0406,
            misc_enable: MISC_ENABLE_RESET,
            feature_control: 0,
            mtrr_def_type: 0,
            mtrr_fixed: [0; 11],
            mtrr_variable: [0; 16],
            mcg_status: 0,
            bios_sign_id: 0,
            spec_ctrl: 0,
        }
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Selectors of es, cs, ss, ds, fs, gs; their bases and limits are slots.
    pub selectors: [u16; 6],
    /// Their attributes, as in [`Segment::attr`].
    pub attrs: [u16; 6],
    /// The current privilege level.
    pub cpl: u8,
    /// GDTR.
    pub gdtr: Table,
    /// IDTR.
    pub idtr: Table,
    /// LDTR.
    pub ldtr: Segment,
    /// The task register.
    pub tr: Segment,
    /// CR0.
    pub cr0: u64,
    /// CR2.
    pub cr2: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// IA32_EFER.
    pub efer: u64,
    /// XCR0.
    pub xcr0: u64,
    /// The page-directory-pointer entries, loaded with CR3 under PAE paging.
    pub pdptes: [u64; 4],
    /// DR0 to DR3.
    pub dr: [u64; 4],
    /// DR6.
    pub dr6: u64,
    /// DR7.
    pub dr7: u64,
    /// MSRs.
    pub msrs: Msrs,
    /// MXCSR's exception masks, in place.
    pub mxcsr_masks: u64,
    /// What the processor does.
    pub activity: Activity,
    /// NMIs are blocked until the next `iret`.
    pub nmi_blocked: bool,
    /// Conditions for DR6 of a debug trap that is to be taken.
    pub pending_debug: u64,
    /// Pins.
    pub pins: Pins,
    /// State of the generator behind RDRAND and RDSEED.
    pub random: u64,
}

impl Core {
    /// Says which field holds a value that no sequence of instructions gives it.
    pub fn check(&self) -> Result<(), &'static str> {
        let paging = self.cr0 & CR0_PG != 0;
        let long = self.efer & EFER_LMA != 0;
        let rules = [
            (self.cpl <= 3, "cpl"),
            (
                self.cr0 & !CR0_ALL == 0 && self.cr0 & CR0_ET != 0 && (!paging || self.cr0 & CR0_PE != 0),
                "cr0",
            ),
            (self.cr3 >> PHYS_BITS == 0, "cr3"),
            (self.cr4 & !CR4_ALL == 0, "cr4"),
            (
                self.efer & !(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE) == 0
                    && long == (paging && self.efer & EFER_LME != 0)
                    && (!long || self.cr4 & CR4_PAE != 0),
                "efer",
            ),
            (self.xcr0 == 1 || self.xcr0 == 3, "xcr0"),
            (self.dr6 >> 32 == 0, "dr6"),
            (self.dr7 >> 32 == 0 && self.dr7 & DR7_FIXED != 0, "dr7"),
            (self.mxcsr_masks & !MXCSR_MASKS == 0, "mxcsr"),
            (
                self.pins.local <= 256 && self.pins.external <= 256 && self.pins.startup <= 256,
                "pins",
            ),
            (
                self.pending_debug & !(DR6_B | DR6_BD | DR6_BS) == 0,
                "pending debug",
            ),
        ];
        rules
            .iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |&(_, name)| Err(name))
    }
}
