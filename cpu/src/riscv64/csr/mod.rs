//! Control and status registers: which there are, who may touch them, what they read and take.
//!
//! [`ROWS`] is the one place: a row a CSR (or a run of CSRs that behave alike). An access is judged in this
//! order: exists; privilege (bits 9:8 of the number) and, for a write, not read-only (bits 11:10 = 3); the
//! row's [`Gate`]. Every refusal is an illegal-instruction exception.
//!
//! Rules of counters (Privileged ISA 3.1.10, 3.1.12): mcycle counts this hart's steps, minstret its retired
//! instructions. The machine tells both before a helper runs, up to and without the running instruction; what
//! an instruction writes to a counter is what the next instruction reads, as the write is done instead of the
//! instruction's own increment. mcountinhibit takes effect with the instruction that writes it. There are no
//! hardware performance counters: mhpmcounterN and mhpmeventN are read-only zero.
//!
//! Not implemented, thus illegal: mseccfg, pmpcfg4 and up, pmpaddr16 and up, the trigger registers, and those of
//! extensions that the hart lacks.

pub mod bits;
mod file;
#[cfg(test)]
mod tests;

pub use file::Csrs;

use super::hart::Hart;
use super::slots;
use bits::*;

/// Further conditions of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// None.
    Open,
    /// mstatus.FS isn't Off.
    Fp,
    /// Unprivileged counter: S needs its bit in mcounteren; U in scounteren as well (3.1.11, 12.1.5).
    Counter,
    /// stimecmp below M: menvcfg.STCE and mcounteren.TM (Sstc).
    Stimecmp,
    /// satp in S: not mstatus.TVM.
    Satp,
}

/// A value on its way into a CSR.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Which CSR.
    pub number: u16,
    /// The value.
    pub value: u64,
    /// Virtual time in ns; `None`: a debugger writes, between instructions.
    pub now: Option<u64>,
}

/// One CSR, or a run of CSRs.
pub struct Row {
    /// Number of the first.
    pub number: u16,
    /// Names, in order of number.
    pub names: &'static [&'static str],
    /// Conditions besides privilege.
    pub gate: Gate,
    /// What is read of CSR `number` at virtual time `now`.
    pub read: fn(hart: &Hart, number: u16, now: u64) -> u64,
    /// What a write does.
    pub write: fn(hart: &mut Hart, write: Write),
}

const fn row(
    number: u16,
    names: &'static [&'static str],
    gate: Gate,
    read: fn(&Hart, u16, u64) -> u64,
    write: fn(&mut Hart, Write),
) -> Row {
    Row {
        number,
        names,
        gate,
        read,
        write,
    }
}

/// The numbers of the CSRs that other code names.
pub mod number {
    /// sstatus.
    pub const SSTATUS: u16 = 0x100;
    /// sscratch.
    pub const SSCRATCH: u16 = 0x140;
    /// sepc.
    pub const SEPC: u16 = 0x141;
    /// scause.
    pub const SCAUSE: u16 = 0x142;
    /// stval.
    pub const STVAL: u16 = 0x143;
    /// fflags.
    pub const FFLAGS: u16 = 0x001;
    /// frm.
    pub const FRM: u16 = 0x002;
    /// fcsr.
    pub const FCSR: u16 = 0x003;
    /// mip.
    pub const MIP: u16 = 0x344;
    /// time.
    pub const TIME: u16 = 0xc01;
}

/// All CSRs, by number.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    // number, names, gate, read, write (WARL rule)
    row(0x001, &["fflags"], Gate::Fp, |h, _, _| h.fflags(), |h, w| h.write_fp(w.value, h.csrs.frm as u64)),
    row(0x002, &["frm"], Gate::Fp, |h, _, _| h.csrs.frm as u64, |h, w| h.write_fp(h.fflags(), w.value)),
    row(0x003, &["fcsr"], Gate::Fp, |h, _, _| (h.csrs.frm as u64) << 5 | h.fflags(), |h, w| h.write_fp(w.value, w.value >> 5)),

    row(0x100, &["sstatus"], Gate::Open, |h, _, _| h.mstatus_read() & SSTATUS_VISIBLE,
        |h, w| h.mstatus_write(w.value, SSTATUS_WRITABLE)),
    row(0x104, &["sie"], Gate::Open, |h, _, _| h.csrs.mie & h.csrs.mideleg,
        |h, w| h.csrs.mie = h.csrs.mie & !h.csrs.mideleg | w.value & h.csrs.mideleg),
    row(0x105, &["stvec"], Gate::Open, |h, _, _| h.csrs.stvec, |h, w| Csrs::tvec_write(&mut h.csrs.stvec, w.value)),
    row(0x106, &["scounteren"], Gate::Open, |h, _, _| h.csrs.scounteren as u64, |h, w| h.csrs.scounteren = w.value as u32),
    row(0x10a, &["senvcfg"], Gate::Open, |h, _, _| h.csrs.senvcfg, |h, w| h.csrs.senvcfg = w.value & SENVCFG_WRITABLE),
    row(0x140, &["sscratch"], Gate::Open, |h, _, _| h.regs[slots::SSCRATCH], |h, w| h.regs[slots::SSCRATCH] = w.value),
    row(0x141, &["sepc"], Gate::Open, |h, _, _| h.regs[slots::SEPC], |h, w| h.regs[slots::SEPC] = w.value & !1),
    row(0x142, &["scause"], Gate::Open, |h, _, _| h.regs[slots::SCAUSE], |h, w| h.regs[slots::SCAUSE] = w.value),
    row(0x143, &["stval"], Gate::Open, |h, _, _| h.regs[slots::STVAL], |h, w| h.regs[slots::STVAL] = w.value),
    // Of sip only SSIP can be written (12.1.3).
    row(0x144, &["sip"], Gate::Open, |h, _, _| h.csrs.mip() & h.csrs.mideleg,
        |h, w| h.csrs.mip_write(w.value, SSI & h.csrs.mideleg)),
    row(0x14d, &["stimecmp"], Gate::Stimecmp, |h, _, _| h.csrs.stimecmp, Hart::write_stimecmp),
    row(0x180, &["satp"], Gate::Satp, |h, _, _| h.csrs.satp, |h, w| h.csrs.satp_write(w.value)),

    row(0x300, &["mstatus"], Gate::Open, |h, _, _| h.mstatus_read(), |h, w| h.mstatus_write(w.value, !0)),
    row(0x301, &["misa"], Gate::Open, |_, _, _| MISA, |_, _| {}),
    row(0x302, &["medeleg"], Gate::Open, |h, _, _| h.csrs.medeleg, |h, w| h.csrs.medeleg = w.value & DELEGABLE),
    row(0x303, &["mideleg"], Gate::Open, |h, _, _| h.csrs.mideleg, |h, w| h.csrs.mideleg = w.value & S_INTERRUPTS),
    row(0x304, &["mie"], Gate::Open, |h, _, _| h.csrs.mie, |h, w| h.csrs.mie = w.value & INTERRUPTS),
    row(0x305, &["mtvec"], Gate::Open, |h, _, _| h.csrs.mtvec, |h, w| Csrs::tvec_write(&mut h.csrs.mtvec, w.value)),
    row(0x306, &["mcounteren"], Gate::Open, |h, _, _| h.csrs.mcounteren as u64, |h, w| h.csrs.mcounteren = w.value as u32),
    row(0x30a, &["menvcfg"], Gate::Open, |h, _, _| h.csrs.menvcfg, Hart::write_menvcfg),
    row(0x320, &["mcountinhibit"], Gate::Open, |h, _, _| h.csrs.mcountinhibit as u64,
        |h, w| h.csrs.mcountinhibit = (w.value & (CY | IR)) as u32),
    row(0x323, &["mhpmevent3", "mhpmevent4", "mhpmevent5", "mhpmevent6", "mhpmevent7", "mhpmevent8", "mhpmevent9",
        "mhpmevent10", "mhpmevent11", "mhpmevent12", "mhpmevent13", "mhpmevent14", "mhpmevent15", "mhpmevent16",
        "mhpmevent17", "mhpmevent18", "mhpmevent19", "mhpmevent20", "mhpmevent21", "mhpmevent22", "mhpmevent23",
        "mhpmevent24", "mhpmevent25", "mhpmevent26", "mhpmevent27", "mhpmevent28", "mhpmevent29", "mhpmevent30",
        "mhpmevent31"], Gate::Open, |_, _, _| 0, |_, _| {}),
    row(0x340, &["mscratch"], Gate::Open, |h, _, _| h.csrs.mscratch, |h, w| h.csrs.mscratch = w.value),
    row(0x341, &["mepc"], Gate::Open, |h, _, _| h.csrs.mepc, |h, w| h.csrs.mepc = w.value & !1),
    row(0x342, &["mcause"], Gate::Open, |h, _, _| h.csrs.mcause, |h, w| h.csrs.mcause = w.value),
    row(0x343, &["mtval"], Gate::Open, |h, _, _| h.csrs.mtval, |h, w| h.csrs.mtval = w.value),
    row(0x344, &["mip"], Gate::Open, |h, _, _| h.csrs.mip(), |h, w| h.csrs.mip_write(w.value, !0)),
    row(0x3a0, &["pmpcfg0"], Gate::Open, |h, _, _| h.pmp.config(0), |h, w| h.pmp.write_config(0, w.value)),
    row(0x3a2, &["pmpcfg2"], Gate::Open, |h, _, _| h.pmp.config(8), |h, w| h.pmp.write_config(8, w.value)),
    row(0x3b0, &["pmpaddr0", "pmpaddr1", "pmpaddr2", "pmpaddr3", "pmpaddr4", "pmpaddr5", "pmpaddr6", "pmpaddr7",
        "pmpaddr8", "pmpaddr9", "pmpaddr10", "pmpaddr11", "pmpaddr12", "pmpaddr13", "pmpaddr14", "pmpaddr15"],
        Gate::Open, |h, n, _| h.pmp.address((n & 15) as usize),
        |h, w| h.pmp.write_address((w.number & 15) as usize, w.value)),

    row(0xb00, &["mcycle"], Gate::Open, |h, _, _| h.csrs.mcycle, |h, w| h.csrs.mcycle = h.before_increment(w, CY)),
    row(0xb02, &["minstret"], Gate::Open, |h, _, _| h.csrs.minstret, |h, w| h.csrs.minstret = h.before_increment(w, IR)),
    row(0xb03, &["mhpmcounter3", "mhpmcounter4", "mhpmcounter5", "mhpmcounter6", "mhpmcounter7", "mhpmcounter8",
        "mhpmcounter9", "mhpmcounter10", "mhpmcounter11", "mhpmcounter12", "mhpmcounter13", "mhpmcounter14",
        "mhpmcounter15", "mhpmcounter16", "mhpmcounter17", "mhpmcounter18", "mhpmcounter19", "mhpmcounter20",
        "mhpmcounter21", "mhpmcounter22", "mhpmcounter23", "mhpmcounter24", "mhpmcounter25", "mhpmcounter26",
        "mhpmcounter27", "mhpmcounter28", "mhpmcounter29", "mhpmcounter30", "mhpmcounter31"],
        Gate::Open, |_, _, _| 0, |_, _| {}),

    row(0xc00, &["cycle"], Gate::Counter, |h, _, _| h.csrs.mcycle, read_only),
    row(0xc01, &["time"], Gate::Counter, |h, _, now| h.ticks(now), read_only),
    row(0xc02, &["instret"], Gate::Counter, |h, _, _| h.csrs.minstret, read_only),
    row(0xc03, &["hpmcounter3", "hpmcounter4", "hpmcounter5", "hpmcounter6", "hpmcounter7", "hpmcounter8",
        "hpmcounter9", "hpmcounter10", "hpmcounter11", "hpmcounter12", "hpmcounter13", "hpmcounter14",
        "hpmcounter15", "hpmcounter16", "hpmcounter17", "hpmcounter18", "hpmcounter19", "hpmcounter20",
        "hpmcounter21", "hpmcounter22", "hpmcounter23", "hpmcounter24", "hpmcounter25", "hpmcounter26",
        "hpmcounter27", "hpmcounter28", "hpmcounter29", "hpmcounter30", "hpmcounter31"],
        Gate::Counter, |_, _, _| 0, read_only),

    // mvendorid, marchid, mimpid: zero, "not implemented" (3.1.2 to 3.1.4). mconfigptr: no such structure.
    row(0xf11, &["mvendorid", "marchid", "mimpid"], Gate::Open, |_, _, _| 0, read_only),
    row(0xf14, &["mhartid"], Gate::Open, |h, _, _| h.config.hart_id, read_only),
    row(0xf15, &["mconfigptr"], Gate::Open, |_, _, _| 0, read_only),
];

/// Of CSRs whose number makes every write illegal.
fn read_only(_: &mut Hart, _: Write) {}

/// Index in [`ROWS`] plus one of each CSR number; 0: no such CSR.
static INDEX: [u8; 4096] = {
    let mut index = [0; 4096];
    let mut i = 0;
    while i < ROWS.len() {
        let mut n = 0;
        while n < ROWS[i].names.len() {
            index[ROWS[i].number as usize + n] = i as u8 + 1;
            n += 1;
        }
        i += 1;
    }
    index
};

/// Whether the instruction that `descriptor` describes can change physical memory protection.
pub fn changes_protection(descriptor: u64) -> bool {
    descriptor >> 14 & 1 != 0 && matches!(descriptor & 0xfff, 0x3a0..=0x3bf)
}

/// The row of a CSR.
pub fn find(number: u16) -> Option<&'static Row> {
    match INDEX[number as usize & 0xfff] {
        0 => None,
        i => ROWS.get(i as usize - 1),
    }
}

impl Hart {
    /// Whether the hart may access CSR `number` now.
    pub(super) fn may_access(&self, number: u16, gate: Gate, writes: bool) -> bool {
        let csrs = &self.csrs;
        let privilege = csrs.privilege;
        if privilege < (number >> 8 & 3) as u8 || writes && number >> 10 == 3 {
            return false;
        }
        match gate {
            Gate::Open => true,
            Gate::Fp => self.mstatus() & FS != 0,
            Gate::Counter => {
                let bit = 1u32 << (number & 31);
                (privilege == M || csrs.mcounteren & bit != 0)
                    && (privilege != U || csrs.scounteren & bit != 0)
            }
            Gate::Stimecmp => privilege == M || csrs.sstc() && csrs.mcounteren as u64 & TM != 0,
            Gate::Satp => privilege == M || self.mstatus() & TVM == 0,
        }
    }

    /// Executes a CSR instruction, described as [`super::helper::CSR`] says: the old value; `None` if
    /// illegal.
    pub(super) fn csr_instruction(&mut self, descriptor: u64, operand: u64, now: u64) -> Option<u64> {
        let number = descriptor as u16 & 0xfff;
        let writes = descriptor >> 14 & 1 != 0;
        let row = find(number)?;
        if !self.may_access(number, row.gate, writes) {
            return None;
        }
        let old = (row.read)(self, number, now);
        if !writes {
            return Some(old);
        }
        // SEIP reads as the pin or the software's bit, but set and clear modify the software's bit alone, lest
        // the pin's level be written into it (3.1.9).
        let base = if number == number::MIP {
            self.csrs.mip_modified()
        } else {
            old
        };
        let value = match descriptor >> 12 & 3 {
            2 => base | operand,
            3 => base & !operand,
            _ => operand,
        };
        (row.write)(
            self,
            Write {
                number,
                value,
                now: Some(now),
            },
        );
        self.refresh_pending();
        Some(old)
    }

    /// mstatus, but for its read-only bits.
    pub(super) fn mstatus(&self) -> u64 {
        self.regs[slots::MSTATUS]
    }

    /// mstatus as read.
    pub(super) fn mstatus_read(&self) -> u64 {
        let mstatus = self.mstatus();
        let sd = if mstatus & FS == FS { SD } else { 0 };
        mstatus | UXL_64 | SXL_64 | sd
    }

    /// Writes the bits of mstatus in `mask`. MPP = 2, which no mode has, leaves MPP as it is.
    pub(super) fn mstatus_write(&mut self, value: u64, mask: u64) {
        let mut mask = mask & MSTATUS_WRITABLE;
        if value & MPP == 2 << MPP_SHIFT {
            mask &= !MPP;
        }
        self.regs[slots::MSTATUS] = self.mstatus() & !mask | value & mask;
    }

    /// mstatus.MPP.
    pub(super) fn mpp(&self) -> u8 {
        (self.mstatus() >> MPP_SHIFT) as u8 & 3
    }

    /// The privilege with which data accesses are made (Privileged ISA 3.1.6).
    pub(super) fn data_privilege(&self) -> u8 {
        if self.mstatus() & MPRV != 0 {
            self.mpp()
        } else {
            self.csrs.privilege
        }
    }

    /// mtime at virtual time `now` in ns.
    pub(super) fn ticks(&self, now: u64) -> u64 {
        now / self.config.ns_per_tick.get()
    }

    /// What a counter must hold so that, after the increment for the writing instruction itself, it has the
    /// value written.
    fn before_increment(&self, write: Write, inhibit: u64) -> u64 {
        let counts = write.now.is_some() && self.csrs.mcountinhibit as u64 & inhibit == 0;
        write.value.wrapping_sub(counts as u64)
    }

    fn write_stimecmp(&mut self, write: Write) {
        self.csrs.stimecmp = write.value;
        let ticks = write.now.map(|now| self.ticks(now));
        self.csrs.compare_time(ticks);
    }

    fn write_menvcfg(&mut self, write: Write) {
        let ticks = write.now.map(|now| self.ticks(now));
        self.csrs.menvcfg_write(write.value, ticks);
    }
}
