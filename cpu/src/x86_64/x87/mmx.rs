//! MMX registers, which are the significands of the x87's. SDM 1, 9.6; SDM 3A, 13.2 (table 13-2).

use super::X87;
use crate::softfloat::extended::F80;

impl X87 {
    /// MMi.
    #[inline]
    #[must_use]
    pub const fn mm(&self, i: u8) -> u64 {
        self.registers[(i & 7) as usize].significand
    }

    /// Writes MMi: sign and exponent become ones. An instruction calls [`X87::enter_mmx`] too.
    #[inline]
    pub const fn set_mm(&mut self, i: u8, value: u64) {
        self.registers[(i & 7) as usize] = F80::new(0xffff, value);
    }

    /// What every MMX instruction but `emms` does (and `cvtpi2ps` and their like with an MMX operand): TOP becomes 0 and every
    /// register not empty. A pending exception is a [`MathFault`](super::MathFault) before, by [`X87::pending`].
    #[inline]
    pub fn enter_mmx(&mut self) {
        self.set_top(0);
        self.tags = 0xff;
    }

    /// `emms`: TOP becomes 0 and every register empty.
    #[inline]
    pub fn emms(&mut self) {
        self.set_top(0);
        self.tags = 0;
    }
}
