//! The helpers of MMX and SSE instructions: MMX registers, masked stores, unmasked exceptions (SDM 1 11.5, 3A 13.5).
//!
//! **Unmasked exceptions.** Translated code runs with all of them masked. Where one is unmasked, an instruction's
//! floating-point ops run between two helpers: the first takes the flags out of MXCSR, the second looks which were raised,
//! before a register is written. Of an unmasked exception that is found before an operation is done (INVALID,
//! DENORMAL, ZERO DIVIDE) the ones that come of its result aren't raised. An unmasked underflow doesn't flush to
//! zero, and is raised for every tiny result, exact or not.

use super::bits::{CR0_EM, CR0_TS, CR4_OSXMMEXCPT};
use super::hart::Hart;
use super::trap::{self, MF, NM, UD, XM};
use super::{helper, slots};
use crate::ir::Size;
use crate::{Access, Context, Trap};

/// The exception flags of MXCSR; the masks stand seven bits above.
const FLAGS: u64 = 0x3f;
const MASKS: u32 = 7;
/// INVALID, DENORMAL and ZERO DIVIDE.
const BEFORE: u64 = 7;
const UNDERFLOW: u64 = 1 << 4;
const FLUSH_TO_ZERO: u64 = 1 << 15;

impl Hart {
    /// The helpers from [`helper::SSE`] on.
    pub(super) fn sse(&mut self, cx: &mut dyn Context, number: u16, args: [u64; 3]) -> Result<u64, Trap> {
        let [a, b, _] = args;
        match number {
            helper::MMX_CHECK => return self.mmx_check().map(|()| 0),
            helper::MMX_READ => return Ok(self.x87.mm(a as u8)),
            helper::MMX_WRITE => {
                self.x87.enter_mmx();
                self.x87.set_mm(a as u8, b);
            }
            helper::MMX_ENTER => self.x87.enter_mmx(),
            helper::EMMS => self.x87.emms(),
            helper::MASKED_STORE => return self.masked_store(cx, a, b).map(|()| 0),
            helper::SSE_BEGIN => {
                let before = self.regs[slots::MXCSR];
                let unmasked = self.unmasked();
                let flush = if unmasked & UNDERFLOW != 0 {
                    FLUSH_TO_ZERO
                } else {
                    0
                };
                self.regs[slots::MXCSR] = before & !FLAGS & !flush;
                return Ok(before);
            }
            helper::SSE_END => return self.sse_end(a, b != 0).map(|()| 0),
            _ => return Err(trap::trap(UD)),
        }
        Ok(0)
    }

    /// Unmasked exceptions, at the places of their flags.
    fn unmasked(&self) -> u64 {
        !self.core.mxcsr_masks >> MASKS & FLAGS
    }

    fn sse_end(&mut self, before: u64, tiny: bool) -> Result<(), Trap> {
        let unmasked = self.unmasked();
        let mut raised = self.regs[slots::MXCSR] & FLAGS;
        if tiny {
            raised |= UNDERFLOW & unmasked;
        }
        if raised & unmasked & BEFORE != 0 {
            raised &= BEFORE;
        }
        self.regs[slots::MXCSR] = before | raised;
        if raised & unmasked == 0 {
            Ok(())
        } else if self.core.cr4 & CR4_OSXMMEXCPT != 0 {
            Err(trap::trap(XM))
        } else {
            Err(trap::trap(UD))
        }
    }

    fn mmx_check(&self) -> Result<(), Trap> {
        if self.core.cr0 & CR0_EM != 0 {
            Err(trap::trap(UD))
        } else if self.core.cr0 & CR0_TS != 0 {
            Err(trap::trap(NM))
        } else if self.has_error() {
            Err(trap::trap(MF))
        } else {
            Ok(())
        }
    }

    /// Bytes of a register where the highest bit of the mask's byte is set. If none is, the access faults as it would else,
    /// which the manual leaves open.
    fn masked_store(&mut self, cx: &mut dyn Context, addr: u64, registers: u64) -> Result<(), Trap> {
        let mmx = registers >> 16 & 1 != 0;
        let words = if mmx { 1 } else { 2 };
        let word = |hart: &Hart, n: u64, part: u8| {
            if mmx {
                hart.x87.mm(n as u8)
            } else {
                hart.regs[slots::xmm(n as u8 & 15, part)]
            }
        };
        let mut bytes = Vec::with_capacity(16);
        for part in 0..words {
            let (data, mask) = (
                word(self, registers & 15, part),
                word(self, registers >> 8 & 15, part),
            );
            for (i, (byte, mask)) in data.to_le_bytes().into_iter().zip(mask.to_le_bytes()).enumerate() {
                if mask & 0x80 != 0 {
                    bytes.push((addr.wrapping_add(u64::from(part) * 8 + i as u64), byte));
                }
            }
        }
        cx.check(self, addr, u64::from(words) * 8, Access::Write)?;
        for (addr, byte) in bytes {
            cx.store(self, addr, Size::B1, byte.into())?;
        }
        Ok(())
    }
}
