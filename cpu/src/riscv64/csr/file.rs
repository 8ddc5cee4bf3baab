//! The storage behind the CSRs, with the bits that are derived kept out of it.
//!
//! Every field always holds a legal value: the writers in [`super`] legalise, and restore checks by
//! [`Csrs::check`]. What lifted code reads and writes itself lives in slots and is not here: mstatus, sscratch, sepc,
//! scause, stval, floating-point flags. The PMP is in [`super::super::pmp`].

use super::bits::*;

/// Control and status registers of one hart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csrs {
    /// Current privilege: [`U`], [`S`] or [`M`].
    pub privilege: u8,
    /// medeleg.
    pub medeleg: u64,
    /// mideleg.
    pub mideleg: u64,
    /// mie.
    pub mie: u64,
    /// The pending bits that software set: SSIP, SEIP, and STIP (which is hidden while menvcfg.STCE is set).
    pub soft_pending: u64,
    /// Levels of the input pins.
    pub pins: u64,
    /// Sstc: time has reached stimecmp. Kept false while menvcfg.STCE is clear.
    pub timer_due: bool,
    /// mtvec.
    pub mtvec: u64,
    /// mcounteren.
    pub mcounteren: u32,
    /// mcountinhibit.
    pub mcountinhibit: u32,
    /// mscratch.
    pub mscratch: u64,
    /// mepc.
    pub mepc: u64,
    /// mcause.
    pub mcause: u64,
    /// mtval.
    pub mtval: u64,
    /// menvcfg.
    pub menvcfg: u64,
    /// mcycle: steps of this hart.
    pub mcycle: u64,
    /// minstret: retired instructions of this hart.
    pub minstret: u64,
    /// stvec.
    pub stvec: u64,
    /// scounteren.
    pub scounteren: u32,
    /// senvcfg.
    pub senvcfg: u64,
    /// stimecmp.
    pub stimecmp: u64,
    /// satp.
    pub satp: u64,
    /// frm, reserved values included.
    pub frm: u8,
}

impl Csrs {
    /// Values after reset. What the manual leaves unspecified (Privileged ISA 3.4) is zero here, but for
    /// stimecmp, which is the greatest value so that setting menvcfg.STCE makes no timer interrupt pending,
    /// and menvcfg.ADUE, which is set: the hart has Svadu and not Svade, so supervisors that know neither
    /// find the walker setting A and D.
    pub fn reset() -> Csrs {
        Csrs {
            privilege: M,
            medeleg: 0,
            mideleg: 0,
            mie: 0,
            soft_pending: 0,
            pins: 0,
            timer_due: false,
            mtvec: 0,
            mcounteren: 0,
            mcountinhibit: 0,
            mscratch: 0,
            mepc: 0,
            mcause: 0,
            mtval: 0,
            menvcfg: ADUE,
            mcycle: 0,
            minstret: 0,
            stvec: 0,
            scounteren: 0,
            senvcfg: 0,
            stimecmp: u64::MAX,
            satp: 0,
            frm: 0,
        }
    }

    /// Whether menvcfg.STCE is set.
    pub fn sstc(&self) -> bool {
        self.menvcfg & STCE != 0
    }

    /// mip as read: what software set, or a pin, or Sstc's comparison.
    pub fn mip(&self) -> u64 {
        let stip = if self.sstc() {
            (self.timer_due as u64) << 5
        } else {
            self.soft_pending & STI
        };
        self.soft_pending & !STI | stip | self.pins
    }

    /// The bits of mip that CSR instructions modify: SEIP without its pin (Privileged ISA 3.1.9).
    pub fn mip_modified(&self) -> u64 {
        self.mip() & !SEI | self.soft_pending & SEI
    }

    /// Writes the bits of mip in `mask` that software can write; STIP isn't while Sstc drives it.
    pub fn mip_write(&mut self, value: u64, mask: u64) {
        let mask = mask & S_INTERRUPTS & if self.sstc() { !STI } else { !0 };
        self.soft_pending = self.soft_pending & !mask | value & mask;
    }

    /// Sets menvcfg, at time `ticks` of mtime; a debugger has no time, and `Hart::tick` corrects what it leaves.
    pub fn menvcfg_write(&mut self, value: u64, ticks: Option<u64>) {
        self.menvcfg = value & MENVCFG_WRITABLE;
        match ticks {
            Some(_) => self.compare_time(ticks),
            None => self.timer_due &= self.sstc(),
        }
    }

    /// Compares time with stimecmp anew.
    pub fn compare_time(&mut self, ticks: Option<u64>) {
        self.timer_due = self.sstc() && ticks.is_some_and(|t| t >= self.stimecmp);
    }

    /// Writes mtvec or stvec: the modes Direct and Vectored exist, others leave the register as it is.
    pub fn tvec_write(register: &mut u64, value: u64) {
        if value & 2 == 0 {
            *register = value;
        }
    }

    /// Writes satp: Bare, Sv39, Sv48 and Sv57 exist, others leave it as it is (Privileged ISA 12.1.11).
    pub fn satp_write(&mut self, value: u64) {
        if matches!(value >> 60, 0 | 8..=10) {
            self.satp = value;
        }
    }

    /// Says which field holds a value that no sequence of writes gives it.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (matches!(self.privilege, U | S | M), "privilege"),
            (self.medeleg & !DELEGABLE == 0, "medeleg"),
            (self.mideleg & !S_INTERRUPTS == 0, "mideleg"),
            (self.mie & !INTERRUPTS == 0, "mie"),
            (self.soft_pending & !S_INTERRUPTS == 0, "mip"),
            (self.pins & !PINS == 0, "pins"),
            (self.sstc() || !self.timer_due, "timer"),
            (self.mtvec & 2 == 0, "mtvec"),
            (self.stvec & 2 == 0, "stvec"),
            (self.mcountinhibit as u64 & !(CY | IR) == 0, "mcountinhibit"),
            (self.mepc & 1 == 0, "mepc"),
            (self.menvcfg & !MENVCFG_WRITABLE == 0, "menvcfg"),
            (self.senvcfg & !SENVCFG_WRITABLE == 0, "senvcfg"),
            (matches!(self.satp >> 60, 0 | 8..=10), "satp"),
            (self.frm <= 7, "frm"),
        ];
        rules
            .iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |&(_, name)| Err(name))
    }
}
