//! The control and status words as an operation sees them. SDM 1, 8.1.3 and 8.1.5.

use crate::softfloat::{Flags, Round};
use serde::{Deserialize, Serialize};

/// The x87 control and status words.
///
/// Operations own the exception flags, ES, B and the condition codes; TOP (bits 11 to 13) and SF pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct X87Env {
    /// The control word: exception masks (bits 0 to 5), precision control (8, 9), rounding control (10, 11).
    pub control: u16,
    /// The status word: exception flags (bits 0 to 5), SF, ES, C0 to C2, TOP, C3, B.
    pub status: u16,
}

impl X87Env {
    /// The control word after `fninit`: all masked, 64-bit precision, to nearest.
    pub const CONTROL_INIT: u16 = 0x037f;
    /// The exception flags of the status word, and the masks of the control word.
    pub const EXCEPTIONS: u16 = 0x3f;
    /// Status: stack fault.
    pub const SF: u16 = 1 << 6;
    /// Status: error summary, an unmasked exception is pending.
    pub const ES: u16 = 1 << 7;
    /// Status: condition code 0.
    pub const C0: u16 = 1 << 8;
    /// Status: condition code 1; rounded up, or the direction of a stack fault.
    pub const C1: u16 = 1 << 9;
    /// Status: condition code 2; the reduction is incomplete.
    pub const C2: u16 = 1 << 10;
    /// Status: condition code 3.
    pub const C3: u16 = 1 << 14;
    /// Status: busy, a copy of ES.
    pub const BUSY: u16 = 1 << 15;

    /// The environment after `fninit`.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_control(Self::CONTROL_INIT)
    }

    /// Control word `control`, clear status.
    #[must_use]
    pub const fn with_control(control: u16) -> Self {
        Self { control, status: 0 }
    }

    /// Rounding control.
    #[inline]
    #[must_use]
    pub const fn round(&self) -> Round {
        match self.control >> 10 & 3 {
            0 => Round::NearestEven,
            1 => Round::Down,
            2 => Round::Up,
            _ => Round::TowardZero,
        }
    }

    /// Significand bits by precision control. The reserved value 1 means 64.
    #[inline]
    #[must_use]
    pub const fn precision(&self) -> u32 {
        match self.control >> 8 & 3 {
            0 => 24,
            2 => 53,
            _ => 64,
        }
    }

    /// Whether all of `flags` are masked.
    #[inline]
    #[must_use]
    pub const fn masked(&self, flags: Flags) -> bool {
        flags.bits() as u16 & Self::EXCEPTIONS & !self.control == 0
    }

    /// Sets exception flags, and ES and B if one of them is unmasked. Whether all of them are masked.
    #[inline]
    pub fn raise(&mut self, flags: Flags) -> bool {
        self.status |= flags.bits() as u16 & Self::EXCEPTIONS;
        let masked = self.masked(flags);
        if !masked {
            self.status |= Self::ES | Self::BUSY;
        }
        masked
    }

    /// Makes ES and B agree with the flags and the masks, as loading a control or status word does.
    pub fn update_summary(&mut self) {
        if self.status & Self::EXCEPTIONS & !self.control != 0 {
            self.status |= Self::ES | Self::BUSY;
        } else {
            self.status &= !(Self::ES | Self::BUSY);
        }
    }

    /// Sets or clears bits of the status word.
    #[inline]
    pub(super) fn assign(&mut self, bits: u16, value: bool) {
        if value {
            self.status |= bits;
        } else {
            self.status &= !bits;
        }
    }

    /// Sets C1 (rounded up) or clears it.
    #[inline]
    pub(super) fn assign_c1(&mut self, value: bool) {
        self.assign(Self::C1, value);
    }
}

impl Default for X87Env {
    fn default() -> Self {
        Self::new()
    }
}
