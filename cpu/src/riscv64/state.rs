//! The saved form of a hart: a version word (little-endian), then [`State`] in postcard's encoding.
//!
//! Canonical: equal harts give equal bytes. Not part of it: the engine's slots, the `page` slot (which follows from
//! the pc) and the configuration. The FP environment is saved as fflags and frm. A change of any type below, or of
//! what its values mean, needs a new [`VERSION`].

use super::csr::Csrs;
use super::csr::bits::*;
use super::hart::{Hart, Reservation};
use super::pmp::{Pmp, PmpState};
use super::slots;
use crate::StateError;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Version of the form.
pub const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct State {
    pc: u64,
    /// x1 to x31.
    x: [u64; 31],
    f: [u64; 32],
    fflags: u8,
    csrs: SavedCsrs,
    pmp: PmpState,
    reservation: Option<Reservation>,
    waiting: bool,
}

/// The CSRs, those in slots too.
#[derive(Serialize, Deserialize)]
struct SavedCsrs {
    privilege: u8,
    mstatus: u64,
    medeleg: u64,
    mideleg: u64,
    mie: u64,
    soft_pending: u64,
    pins: u64,
    timer_due: bool,
    mtvec: u64,
    mcounteren: u32,
    mcountinhibit: u32,
    mscratch: u64,
    mepc: u64,
    mcause: u64,
    mtval: u64,
    menvcfg: u64,
    mcycle: u64,
    minstret: u64,
    stvec: u64,
    scounteren: u32,
    sscratch: u64,
    sepc: u64,
    scause: u64,
    stval: u64,
    senvcfg: u64,
    stimecmp: u64,
    satp: u64,
    frm: u8,
}

impl SavedCsrs {
    fn of(hart: &Hart) -> SavedCsrs {
        let (c, regs) = (&hart.csrs, &hart.regs);
        SavedCsrs {
            privilege: c.privilege,
            mstatus: regs[slots::MSTATUS],
            medeleg: c.medeleg,
            mideleg: c.mideleg,
            mie: c.mie,
            soft_pending: c.soft_pending,
            pins: c.pins,
            timer_due: c.timer_due,
            mtvec: c.mtvec,
            mcounteren: c.mcounteren,
            mcountinhibit: c.mcountinhibit,
            mscratch: c.mscratch,
            mepc: c.mepc,
            mcause: c.mcause,
            mtval: c.mtval,
            menvcfg: c.menvcfg,
            mcycle: c.mcycle,
            minstret: c.minstret,
            stvec: c.stvec,
            scounteren: c.scounteren,
            sscratch: regs[slots::SSCRATCH],
            sepc: regs[slots::SEPC],
            scause: regs[slots::SCAUSE],
            stval: regs[slots::STVAL],
            senvcfg: c.senvcfg,
            stimecmp: c.stimecmp,
            satp: c.satp,
            frm: c.frm,
        }
    }

    fn csrs(&self) -> Csrs {
        Csrs {
            privilege: self.privilege,
            medeleg: self.medeleg,
            mideleg: self.mideleg,
            mie: self.mie,
            soft_pending: self.soft_pending,
            pins: self.pins,
            timer_due: self.timer_due,
            mtvec: self.mtvec,
            mcounteren: self.mcounteren,
            mcountinhibit: self.mcountinhibit,
            mscratch: self.mscratch,
            mepc: self.mepc,
            mcause: self.mcause,
            mtval: self.mtval,
            menvcfg: self.menvcfg,
            mcycle: self.mcycle,
            minstret: self.minstret,
            stvec: self.stvec,
            scounteren: self.scounteren,
            senvcfg: self.senvcfg,
            stimecmp: self.stimecmp,
            satp: self.satp,
            frm: self.frm,
        }
    }
}

fn error(what: impl Into<String>) -> StateError {
    StateError(what.into())
}

impl State {
    fn check(&self) -> Result<(), &'static str> {
        let csrs = self.csrs.csrs();
        csrs.check()?;
        self.pmp.check()?;
        let reservation_ok = self.reservation.is_none_or(|r| {
            matches!(r.size, 4 | 8) && r.addr & (r.size as u64 - 1) == 0 && r.addr >> 56 == 0
        });
        let rules = [
            (self.pc & 1 == 0, "pc"),
            (self.fflags < 32, "fflags"),
            (reservation_ok, "reservation"),
            (!self.waiting || csrs.mip() & csrs.mie == 0, "waiting"),
            (
                self.csrs.mstatus & !MSTATUS_WRITABLE == 0 && self.csrs.mstatus & MPP != 2 << MPP_SHIFT,
                "mstatus",
            ),
            (self.csrs.sepc & 1 == 0, "sepc"),
        ];
        rules
            .iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |&(_, name)| Err(name))
    }
}

impl Hart {
    pub(super) fn save_state(&self) -> Vec<u8> {
        let state = State {
            pc: self.regs[slots::PC],
            x: std::array::from_fn(|i| self.regs[slots::x(i as u8 + 1)]),
            f: std::array::from_fn(|i| self.regs[slots::f(i as u8)]),
            fflags: self.fflags() as u8,
            csrs: SavedCsrs::of(self),
            pmp: self.pmp.state().clone(),
            reservation: self.reservation,
            waiting: self.waiting,
        };
        encode(&state)
    }

    pub(super) fn restore_state(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let Some((version, payload)) = bytes.split_first_chunk::<4>() else {
            return Err(error("shorter than its version"));
        };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(error(format!("version {version} instead of {VERSION}")));
        }
        let state: State = postcard::from_bytes(payload).map_err(|e| error(e.to_string()))?;
        if encode(&state) != bytes {
            return Err(error("not in canonical form"));
        }
        state
            .check()
            .map_err(|name| error(format!("impossible value of {name}")))?;
        // In place: engines hold the address of the words.
        let regs = &mut self.regs;
        for (i, &value) in state.x.iter().enumerate() {
            regs[slots::x(i as u8 + 1)] = value;
        }
        for (i, &value) in state.f.iter().enumerate() {
            regs[slots::f(i as u8)] = value;
        }
        regs[slots::PC] = state.pc;
        regs[slots::PAGE] = state.pc & !0xfff;
        regs[slots::MSTATUS] = state.csrs.mstatus;
        regs[slots::SSCRATCH] = state.csrs.sscratch;
        regs[slots::SEPC] = state.csrs.sepc;
        regs[slots::SCAUSE] = state.csrs.scause;
        regs[slots::STVAL] = state.csrs.stval;
        let frm = state.csrs.frm as u64;
        self.csrs = state.csrs.csrs();
        self.pmp = Pmp::from_state(state.pmp);
        self.reservation = state.reservation;
        self.waiting = state.waiting;
        self.set_fp_env(state.fflags as u64, frm);
        self.refresh_pending();
        Ok(())
    }
}

fn encode(state: &State) -> Vec<u8> {
    let version = VERSION.to_le_bytes().to_vec();
    // Encoding plain numbers into a growing buffer can't fail; what a failure left would not restore.
    postcard::to_extend(state, version).unwrap_or_default()
}
