//! The saved form of a hart: a version word (little-endian), then [`State`] in postcard's encoding.
//!
//! Canonical: equal harts give equal bytes. Not part of it: the engine's slots, the `page` slot (which follows from
//! the pc) and the configuration. The FP environment is saved as fflags and frm. A change of any type below, or of
//! what its values mean, needs a new [`VERSION`].

use super::csr::Csrs;
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
    csrs: Csrs,
    pmp: PmpState,
    reservation: Option<Reservation>,
    waiting: bool,
}

fn error(what: impl Into<String>) -> StateError {
    StateError(what.into())
}

impl State {
    fn check(&self) -> Result<(), &'static str> {
        self.csrs.check()?;
        self.pmp.check()?;
        let reservation_ok = self.reservation.is_none_or(|r| {
            matches!(r.size, 4 | 8) && r.addr & (r.size as u64 - 1) == 0 && r.addr >> 56 == 0
        });
        let rules = [
            (self.pc & 1 == 0, "pc"),
            (self.fflags < 32, "fflags"),
            (reservation_ok, "reservation"),
            (!self.waiting || self.csrs.mip() & self.csrs.mie == 0, "waiting"),
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
            csrs: self.csrs.clone(),
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
        let frm = state.csrs.frm as u64;
        self.csrs = state.csrs;
        self.pmp = Pmp::from_state(state.pmp);
        self.reservation = state.reservation;
        self.waiting = state.waiting;
        self.set_fp_env(state.fflags as u64, frm);
        Ok(())
    }
}

fn encode(state: &State) -> Vec<u8> {
    let version = VERSION.to_le_bytes().to_vec();
    // Encoding plain numbers into a growing buffer can't fail; what a failure left would not restore.
    postcard::to_extend(state, version).unwrap_or_default()
}
