//! The floating-point state in memory: FXSAVE, XSAVE and their inverses, LDMXCSR and STMXCSR (SDM 1 10.5, 13.4 to 13.11).
//!
//! XCR0 has x87 (bit 0) and SSE (bit 1); there is no compacted form. XINUSE is exact: a component is in use if its registers aren't as after reset.

use super::bits::*;
use super::hart::Hart;
use super::slots;
use super::trap::{self, GP, NM, UD};
use super::x87::{FXSAVE_X87, X87};
use crate::ir::Size;
use crate::{Access, Context, Trap};

const X87_BIT: u64 = 1;
const SSE_BIT: u64 = 2;
/// Bytes of the legacy region with all sixteen vector registers.
const LEGACY: usize = 416;
const HEADER: u64 = 512;

/// Which XSAVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xsave {
    /// `xsave`: all that is asked for.
    Plain,
    /// `xsaveopt`: what is in use.
    Optimised,
}

impl Hart {
    /// MXCSR.
    pub(super) fn mxcsr(&self) -> u64 {
        self.regs[slots::MXCSR] & !MXCSR_MASKS & MXCSR_ALL | self.core.mxcsr_masks
    }

    /// Sets MXCSR; `false` if bits are set that it doesn't have.
    pub(super) fn set_mxcsr(&mut self, value: u64) -> bool {
        if value & !MXCSR_ALL != 0 {
            return false;
        }
        self.core.mxcsr_masks = value & MXCSR_MASKS;
        self.regs[slots::MXCSR] = value | MXCSR_MASKS;
        true
    }

    /// `ldmxcsr` of `value`.
    pub(super) fn ldmxcsr(&mut self, value: u64) -> Result<(), Trap> {
        if self.set_mxcsr(value & 0xffff_ffff) {
            Ok(())
        } else {
            Err(trap::fault(GP, 0))
        }
    }

    /// Number of vector registers that the mode shows.
    fn vectors(&self) -> u8 {
        if self.code64() { 16 } else { 8 }
    }

    /// The legacy region as it is in registers.
    fn image(&self, wide: bool) -> [u8; LEGACY] {
        let mut image = [0; LEGACY];
        let mut x87 = [0; FXSAVE_X87];
        self.x87.fxsave(&mut x87, wide);
        image[..FXSAVE_X87].copy_from_slice(&x87);
        image[24..28].copy_from_slice(&(self.mxcsr() as u32).to_le_bytes());
        image[28..32].copy_from_slice(&(MXCSR_ALL as u32).to_le_bytes());
        for n in 0..self.vectors() {
            for part in 0..2u8 {
                let at = FXSAVE_X87 + 16 * usize::from(n) + 8 * usize::from(part);
                image[at..at + 8].copy_from_slice(&self.regs[slots::xmm(n, part)].to_le_bytes());
            }
        }
        image
    }

    fn store_image(
        &mut self,
        cx: &mut dyn Context,
        addr: u64,
        image: &[u8; LEGACY],
        words: std::ops::Range<usize>,
    ) -> Result<(), Trap> {
        for at in words.map(|word| 8 * word) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&image[at..at + 8]);
            let at = self.area(addr, at as u64);
            cx.store(self, at, Size::B8, u64::from_le_bytes(bytes))?;
        }
        Ok(())
    }

    /// Loads the whole legacy region.
    fn load_image(&mut self, cx: &mut dyn Context, addr: u64) -> Result<[u8; LEGACY], Trap> {
        let mut image = [0; LEGACY];
        let len = FXSAVE_X87 + 16 * usize::from(self.vectors());
        for at in (0..len).step_by(8) {
            let from = self.area(addr, at as u64);
            let value = cx.load(self, from, Size::B8)?;
            image[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        Ok(image)
    }

    /// Linear address of byte `offset` of an operand at `addr`.
    pub(super) fn area(&self, addr: u64, offset: u64) -> u64 {
        let at = addr.wrapping_add(offset);
        if self.code64() { at } else { at & 0xffff_ffff }
    }

    fn words_of_vectors(&self) -> std::ops::Range<usize> {
        let first = FXSAVE_X87 / 8;
        first..first + 2 * usize::from(self.vectors())
    }

    fn load_vectors(&mut self, image: Option<&[u8; LEGACY]>) {
        for n in 0..self.vectors() {
            for part in 0..2u8 {
                let at = FXSAVE_X87 + 16 * usize::from(n) + 8 * usize::from(part);
                let mut bytes = [0; 8];
                if let Some(image) = image {
                    bytes.copy_from_slice(&image[at..at + 8]);
                }
                self.regs[slots::xmm(n, part)] = u64::from_le_bytes(bytes);
            }
        }
    }

    fn load_x87(&mut self, image: &[u8; LEGACY], wide: bool) {
        let mut x87 = [0; FXSAVE_X87];
        x87.copy_from_slice(&image[..FXSAVE_X87]);
        self.x87.fxrstor(&x87, wide);
    }

    /// #UD and #NM of FXSAVE and FXRSTOR, and #GP(0) for a bad address.
    fn fx_allowed(&self, addr: u64) -> Result<(), Trap> {
        if self.core.cr0 & (CR0_EM | CR0_TS) != 0 {
            return Err(trap::trap(NM));
        }
        if addr & 15 != 0 {
            return Err(trap::fault(GP, 0));
        }
        Ok(())
    }

    /// `fxsave`; `wide`: with REX.W.
    pub(super) fn fxsave(&mut self, cx: &mut dyn Context, addr: u64, wide: bool) -> Result<(), Trap> {
        self.fx_allowed(addr)?;
        cx.check(self, addr, HEADER, Access::Write)?;
        let image = self.image(wide);
        self.store_image(cx, addr, &image, 0..FXSAVE_X87 / 8)?;
        self.store_image(cx, addr, &image, self.words_of_vectors())
    }

    /// `fxrstor`.
    pub(super) fn fxrstor(&mut self, cx: &mut dyn Context, addr: u64, wide: bool) -> Result<(), Trap> {
        self.fx_allowed(addr)?;
        cx.check(self, addr, HEADER, Access::Read)?;
        let image = self.load_image(cx, addr)?;
        let mxcsr = u32::from_le_bytes([image[24], image[25], image[26], image[27]]);
        self.ldmxcsr(mxcsr.into())?;
        self.load_x87(&image, wide);
        self.load_vectors(Some(&image));
        Ok(())
    }

    /// XINUSE.
    pub(super) fn in_use(&self) -> u64 {
        let mut initial = X87::reset();
        initial.init();
        let (mut now, mut then) = ([0; FXSAVE_X87], [0; FXSAVE_X87]);
        self.x87.fxsave(&mut now, true);
        initial.fxsave(&mut then, true);
        let (mut now32, mut then32) = ([0; FXSAVE_X87], [0; FXSAVE_X87]);
        self.x87.fxsave(&mut now32, false);
        initial.fxsave(&mut then32, false);
        let x87 = now != then || now32 != then32;
        let vectors =
            (0..self.vectors()).any(|n| self.regs[slots::xmm(n, 0)] | self.regs[slots::xmm(n, 1)] != 0);
        u64::from(x87) | u64::from(vectors) << 1
    }

    fn xsave_allowed(&self, addr: u64) -> Result<(), Trap> {
        if self.core.cr4 & CR4_OSXSAVE == 0 {
            return Err(trap::trap(UD));
        }
        if self.core.cr0 & CR0_TS != 0 {
            return Err(trap::trap(NM));
        }
        if addr & 63 != 0 {
            return Err(trap::fault(GP, 0));
        }
        Ok(())
    }

    /// `xsave` and `xsaveopt` of what edx:eax asks for.
    pub(super) fn xsave(
        &mut self,
        cx: &mut dyn Context,
        addr: u64,
        wide: bool,
        how: Xsave,
    ) -> Result<(), Trap> {
        self.xsave_allowed(addr)?;
        let asked = self.core.xcr0 & self.edx_eax();
        cx.check(self, addr, HEADER + 64, Access::Write)?;
        let in_use = self.in_use();
        let header = self.area(addr, HEADER);
        let old = cx.load(self, header, Size::B8)?;
        let written = match how {
            Xsave::Plain => asked,
            Xsave::Optimised => asked & in_use,
        };
        let image = self.image(wide);
        if written & X87_BIT != 0 {
            self.store_image(cx, addr, &image, 0..3)?;
            self.store_image(cx, addr, &image, 4..FXSAVE_X87 / 8)?;
        }
        if asked & SSE_BIT != 0 {
            self.store_image(cx, addr, &image, 3..4)?;
        }
        if written & SSE_BIT != 0 {
            self.store_image(cx, addr, &image, self.words_of_vectors())?;
        }
        cx.store(self, header, Size::B8, old & !asked | in_use & asked)
    }

    /// `xrstor`.
    pub(super) fn xrstor(&mut self, cx: &mut dyn Context, addr: u64, wide: bool) -> Result<(), Trap> {
        self.xsave_allowed(addr)?;
        let asked = self.core.xcr0 & self.edx_eax();
        cx.check(self, addr, HEADER + 64, Access::Read)?;
        let mut header = [0; 8];
        for (i, word) in header.iter_mut().enumerate() {
            let at = self.area(addr, HEADER + 8 * i as u64);
            *word = cx.load(self, at, Size::B8)?;
        }
        let [present, rest @ ..] = header;
        if present & !self.core.xcr0 != 0 || rest.iter().any(|word| *word != 0) {
            return Err(trap::fault(GP, 0));
        }
        let image = self.load_image(cx, addr)?;
        if asked & SSE_BIT != 0 {
            let mxcsr = u32::from_le_bytes([image[24], image[25], image[26], image[27]]);
            self.ldmxcsr(mxcsr.into())?;
            self.load_vectors((present & SSE_BIT != 0).then_some(&image));
        }
        if asked & X87_BIT != 0 {
            if present & X87_BIT != 0 {
                self.load_x87(&image, wide);
            } else {
                self.x87 = X87::reset();
                self.x87.init();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
