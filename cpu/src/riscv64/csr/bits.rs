//! Bits of control and status registers, by the manual's names (RISC-V Privileged ISA, chapters 2, 3 and 12; the
//! section numbers in this folder are those of the edition of May 2025).

/// Privilege level U.
pub const U: u8 = 0;
/// Privilege level S.
pub const S: u8 = 1;
/// Privilege level M.
pub const M: u8 = 3;

/// mstatus.SIE.
pub const SIE: u64 = 1 << 1;
/// mstatus.MIE.
pub const MIE: u64 = 1 << 3;
/// mstatus.SPIE.
pub const SPIE: u64 = 1 << 5;
/// mstatus.MPIE.
pub const MPIE: u64 = 1 << 7;
/// mstatus.SPP.
pub const SPP: u64 = 1 << 8;
/// mstatus.MPP (two bits).
pub const MPP: u64 = 3 << 11;
/// Lowest bit of mstatus.MPP.
pub const MPP_SHIFT: u32 = 11;
/// mstatus.FS (two bits): 0 Off, 1 Initial, 2 Clean, 3 Dirty.
pub const FS: u64 = 3 << 13;
/// mstatus.MPRV.
pub const MPRV: u64 = 1 << 17;
/// mstatus.SUM.
pub const SUM: u64 = 1 << 18;
/// mstatus.MXR.
pub const MXR: u64 = 1 << 19;
/// mstatus.TVM.
pub const TVM: u64 = 1 << 20;
/// mstatus.TW.
pub const TW: u64 = 1 << 21;
/// mstatus.TSR.
pub const TSR: u64 = 1 << 22;
/// mstatus.UXL = 64 bits (read-only).
pub const UXL_64: u64 = 2 << 32;
/// mstatus.SXL = 64 bits (read-only).
pub const SXL_64: u64 = 2 << 34;
/// mstatus.SD: FS is Dirty (derived).
pub const SD: u64 = 1 << 63;

/// Bits of mstatus that software can change. UBE, SBE, MBE (little-endian only), VS and XS (no such state) are
/// read-only zero.
pub const MSTATUS_WRITABLE: u64 =
    SIE | MIE | SPIE | MPIE | SPP | MPP | FS | MPRV | SUM | MXR | TVM | TW | TSR;
/// Bits of mstatus that sstatus can change.
pub const SSTATUS_WRITABLE: u64 = SIE | SPIE | SPP | FS | SUM | MXR;
/// Bits of mstatus that sstatus shows.
pub const SSTATUS_VISIBLE: u64 = SSTATUS_WRITABLE | (3 << 32) | SD;

/// Supervisor software interrupt, in mip, mie, mideleg, sip, sie.
pub const SSI: u64 = 1 << 1;
/// Machine software interrupt.
pub const MSI: u64 = 1 << 3;
/// Supervisor timer interrupt.
pub const STI: u64 = 1 << 5;
/// Machine timer interrupt.
pub const MTI: u64 = 1 << 7;
/// Supervisor external interrupt.
pub const SEI: u64 = 1 << 9;
/// Machine external interrupt.
pub const MEI: u64 = 1 << 11;
/// The interrupts that exist.
pub const INTERRUPTS: u64 = SSI | MSI | STI | MTI | SEI | MEI;
/// The interrupts of S-mode: those that mideleg can delegate and whose pending bits software can set.
pub const S_INTERRUPTS: u64 = SSI | STI | SEI;
/// The interrupts with an input pin.
pub const PINS: u64 = MSI | MTI | SEI | MEI;

/// The exceptions that medeleg can delegate: 0 to 9 (but for M-mode's own ecall, all that there are), 12, 13, 15.
pub const DELEGABLE: u64 = 0x3ff | 1 << 12 | 1 << 13 | 1 << 15;

/// menvcfg.FIOM. (Accesses are in order, so it changes nothing that can be seen.)
pub const FIOM: u64 = 1;
/// menvcfg.CBZE: cbo.zero in modes below.
pub const CBZE: u64 = 1 << 7;
/// menvcfg.ADUE: the walker sets A and D.
pub const ADUE: u64 = 1 << 61;
/// menvcfg.STCE: stimecmp.
pub const STCE: u64 = 1 << 63;
/// Bits of menvcfg that can be changed. CBIE and CBCFE belong to Zicbom, PBMTE to Svpbmt: read-only zero.
pub const MENVCFG_WRITABLE: u64 = FIOM | CBZE | ADUE | STCE;
/// Bits of senvcfg that can be changed.
pub const SENVCFG_WRITABLE: u64 = FIOM | CBZE;

/// mcountinhibit.CY.
pub const CY: u64 = 1;
/// mcounteren.TM.
pub const TM: u64 = 1 << 1;
/// mcountinhibit.IR.
pub const IR: u64 = 1 << 2;

/// misa: MXL = 64 bits and the letters of the extensions. Read-only.
pub const MISA: u64 = 2 << 62 | extensions(b"ABCDFIMSU");

const fn extensions(letters: &[u8]) -> u64 {
    let mut bits = 0;
    let mut i = 0;
    while i < letters.len() {
        bits |= 1 << (letters[i] - b'A');
        i += 1;
    }
    bits
}

/// satp.PPN.
pub const SATP_PPN: u64 = (1 << 44) - 1;
/// satp.ASID (16 bits).
pub const SATP_ASID: u64 = 0xffff << 44;

/// Bits of MXCSR that hold the exception masks: always set, so that nothing traps on the host.
pub const MXCSR_MASKS: u64 = 0x1f80;
