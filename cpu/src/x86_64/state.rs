//! The saved form of a processor: a version word (little-endian), then [`State`] in postcard's encoding.
//!
//! Canonical: processors that no instruction can tell apart give equal bytes, so the flags are saved as EFLAGS, whatever
//! operation they stand for. Not part of it: the engine's slots, the `page` slot, the configuration, the count of steps (a
//! shadow is saved as whether it lies on this boundary). A change of any type below, or of what its values
//! mean, needs a new [`VERSION`].

use super::bits::*;
use super::hart::Hart;
use super::registers::Core;
use super::x87::X87;
use super::{flags, slots};
use crate::StateError;
use serde::{Deserialize, Serialize};

/// Version of the form.
pub const VERSION: u32 = 3;

#[derive(Serialize, Deserialize)]
struct State {
    /// Linear.
    pc: u64,
    general: [u64; 16],
    eflags: u64,
    /// MXCSR without its masks, which `core` has.
    mxcsr: u64,
    /// es, cs, ss, ds, fs, gs.
    bases: [u64; 6],
    limits: [u32; 6],
    /// Both quadwords of each vector register.
    vectors: [[u64; 2]; 16],
    x87: X87,
    core: Core,
    sti_shadow: bool,
    ss_shadow: bool,
    repeating: bool,
}

fn error(what: impl Into<String>) -> StateError {
    StateError(what.into())
}

impl State {
    fn check(&self) -> Result<(), &'static str> {
        self.core.check()?;
        let vm = self.eflags & VM != 0;
        let long_code = self.core.efer & EFER_LMA != 0 && self.core.attrs[1] & A_L != 0;
        let rules = [
            (
                self.eflags & !(EFLAGS_OTHER | flags::ARITHMETIC) == ALWAYS
                    && (!vm || self.core.cpl == 3 && self.core.cr0 & CR0_PE != 0),
                "eflags",
            ),
            (self.core.cr0 & CR0_PE != 0 || self.core.cpl == 0, "cpl"),
            (self.mxcsr & !(MXCSR_ALL & !MXCSR_MASKS) == 0, "mxcsr"),
            (long_code || self.pc >> 32 == 0, "pc"),
        ];
        rules
            .iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |&(_, name)| Err(name))
    }
}

impl Hart {
    pub(super) fn save_state(&self) -> Vec<u8> {
        let r = &self.regs;
        let (sti_shadow, ss_shadow) = self.shadows();
        let mut core = self.core.clone();
        core.msrs.kernel_gs_base = r[slots::KERNEL_GS_BASE];
        let state = State {
            pc: r[slots::PC],
            general: std::array::from_fn(|i| r[slots::gpr(i as u8)]),
            eflags: self.eflags(),
            mxcsr: self.mxcsr() & !MXCSR_MASKS,
            bases: std::array::from_fn(|i| r[slots::base(i as u8)]),
            limits: std::array::from_fn(|i| r[slots::limit(i as u8)] as u32),
            vectors: std::array::from_fn(|i| [0, 1].map(|part| r[slots::xmm(i as u8, part)])),
            x87: self.x87,
            core,
            sti_shadow,
            ss_shadow,
            repeating: self.repeating,
        };
        encode(&state)
    }

    pub(super) fn restore_state(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let Some((version, payload)) = bytes.split_first_chunk::<4>() else {
            return Err(error("too short for a version"));
        };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(error(format!("version {version}, and this is {VERSION}")));
        }
        let state: State = postcard::from_bytes(payload).map_err(|e| error(e.to_string()))?;
        if encode(&state) != bytes {
            return Err(error("not in canonical form"));
        }
        state
            .check()
            .map_err(|name| error(format!("impossible value of {name}")))?;
        // Debug registers may change with all else.
        self.breakpoint_set = self.breakpoint_set.wrapping_add(1);
        // In place: engines hold the address of the words.
        self.regs.words_mut()[..slots::END as usize].fill(0);
        let regs = &mut self.regs;
        for (i, &value) in state.general.iter().enumerate() {
            regs[slots::gpr(i as u8)] = value;
        }
        for (i, (&base, &limit)) in state.bases.iter().zip(&state.limits).enumerate() {
            regs[slots::base(i as u8)] = base;
            regs[slots::limit(i as u8)] = limit.into();
        }
        for (i, parts) in state.vectors.iter().enumerate() {
            for (part, &value) in parts.iter().enumerate() {
                regs[slots::xmm(i as u8, part as u8)] = value;
            }
        }
        regs[slots::PC] = state.pc;
        regs[slots::PAGE] = state.pc & !0xfff;
        regs[slots::MXCSR] = state.mxcsr | MXCSR_MASKS;
        regs[slots::KERNEL_GS_BASE] = state.core.msrs.kernel_gs_base;
        self.set_eflags(state.eflags);
        self.x87 = state.x87;
        self.roots.select(state.core.pdptes);
        self.core = state.core;
        self.set_shadows((state.sti_shadow, state.ss_shadow));
        self.repeating = state.repeating;
        self.refresh();
        Ok(())
    }
}

fn encode(state: &State) -> Vec<u8> {
    let version = VERSION.to_le_bytes().to_vec();
    // Encoding plain numbers into a growing buffer can't fail; what a failure left would not restore.
    postcard::to_extend(state, version).unwrap_or_default()
}

#[cfg(test)]
mod tests;
