//! x87 instructions on the processor: memory operands, pointers and exceptions about [`super::x87`] (SDM 1 chapter 8).
//!
//! Order: #MF of an instruction that waits, faults of its operand, then all of its effect or none: it is carried
//! out on a copy of the state, kept once what it stores is stored. An exception that it raises unmasked is told by the next
//! instruction that waits.
//!
//! With CR0.NE clear what would be #MF asserts FERR# instead, and the processor stands still before the instruction that waits, until an
//! interrupt comes or IGNNE# lets it go on (SDM 1 8.7.2, as processors since the P6 have it). In 64-bit mode the
//! selectors of the last instruction and operand are 0.

use super::bits::{CR0_MP, CR0_NE, CR0_TS};
use super::hart::Hart;
use super::helper::{self, Form};
use super::registers::{Activity, CS, FS};
use super::x87::{Access as Operand, FarPointer, ImageFormat, Input, X87Op};
use super::{flags, slots, trap};
use crate::ir::Size;
use crate::{Access, Context, Trap};

/// Bytes of the largest memory operand.
const LARGEST: usize = 108;

/// The parts in which `len` bytes are loaded and stored: where and how many.
fn parts(len: usize) -> impl Iterator<Item = (usize, Size)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = match len - at {
            0 => return None,
            1 => Size::B1,
            2 | 3 => Size::B2,
            4..8 => Size::B4,
            _ => Size::B8,
        };
        let part = (at, size);
        at += size.bytes() as usize;
        Some(part)
    })
}

impl Hart {
    /// Whether an instruction that waits finds an error that isn't to be ignored.
    pub(super) fn has_error(&self) -> bool {
        self.x87.pending() && !self.ignores_errors()
    }

    fn ignores_errors(&self) -> bool {
        self.core.cr0 & CR0_NE == 0 && self.core.pins.ignne
    }

    /// Stands still before the instruction at `pc`, with FERR# asserted.
    pub(super) fn freeze(&mut self, cx: &mut dyn Context, pc: u64) {
        self.regs[slots::PC] = pc;
        self.core.activity = Activity::Frozen;
        if !self.core.pins.ferr {
            self.core.pins.ferr = true;
            cx.numeric_error(true);
        }
    }

    /// FERR# goes with the error.
    pub(super) fn withdraw_error(&mut self, cx: &mut dyn Context) {
        if !self.x87.pending() {
            self.core.pins.ferr = false;
            cx.numeric_error(false);
        }
    }

    /// `wait`.
    pub(super) fn wait(&self) -> Result<u64, Trap> {
        if self.core.cr0 & (CR0_MP | CR0_TS) == CR0_MP | CR0_TS {
            return Err(trap::trap(trap::NM));
        }
        if self.has_error() {
            return Err(trap::trap(trap::MF));
        }
        Ok(0)
    }

    /// Any other x87 instruction; see [`helper::X87`].
    pub(super) fn x87_instruction(
        &mut self,
        cx: &mut dyn Context,
        what: u64,
        addr: u64,
        form: Form,
        pc: u64,
    ) -> Result<u64, Trap> {
        let opcode = what as u16 & 0x7ff;
        let Some(op) = X87Op::from_opcode((opcode >> 8) as u8 | 0xd8, opcode as u8) else {
            return Err(trap::trap(trap::UD));
        };
        if self.has_error() && !op.is_non_waiting() {
            return Err(trap::trap(trap::MF));
        }
        let format = match (self.protected() && !self.vm86(), form.size()) {
            (true, 1) => ImageFormat::Protected16,
            (true, _) => ImageFormat::Protected32,
            (false, 1) => ImageFormat::Real16,
            (false, _) => ImageFormat::Real32,
        };
        let has_memory = what & helper::X87_MEMORY != 0;
        let mut buffer = [0; LARGEST];
        let len = match op.access() {
            _ if !has_memory => 0,
            Operand::Read(len) => len,
            Operand::ReadEnvironment => format.environment_size(),
            Operand::ReadState => format.state_size(),
            Operand::None | Operand::Write(_) | Operand::WriteEnvironment | Operand::WriteState => 0,
        };
        let memory = &mut buffer[..len];
        self.load_bytes(cx, addr, memory)?;
        let long = self.code64();
        let segment = (what >> helper::X87_SEGMENT) as u8 & 7;
        let selector = |n: u8| {
            if long {
                0
            } else {
                self.core.selectors[usize::from(n)]
            }
        };
        let input = Input {
            memory,
            eflags: self.eflags() as u32,
            format,
            opcode,
            instruction: FarPointer {
                selector: selector(CS),
                offset: self.ip_of(pc),
            },
            data: has_memory.then(|| FarPointer {
                selector: selector(segment),
                offset: self.offset_in(segment, addr),
            }),
        };
        let mut next = self.x87;
        let ignored = next.pending() && !op.is_non_waiting();
        if ignored {
            next.set_aside();
        }
        let Ok(outcome) = next.execute(op, &input) else {
            return Err(trap::trap(trap::MF));
        };
        let mut value = match outcome.eflags {
            Some(new) => u64::from(new),
            None => self.eflags() & flags::ARITHMETIC,
        };
        if let Some(store) = outcome.store {
            let bytes = store.as_slice();
            if has_memory {
                self.store_bytes(cx, addr, bytes)?;
            } else {
                value = bytes
                    .iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte));
            }
        }
        if ignored {
            next.take_up();
        }
        self.x87 = next;
        Ok(value)
    }

    /// The offset in segment `n` that linear address `addr` is.
    fn offset_in(&self, n: u8, addr: u64) -> u64 {
        let base = self.regs[slots::base(n)];
        match self.code64() {
            true if n < FS => addr,
            true => addr.wrapping_sub(base),
            false => addr.wrapping_sub(base) & 0xffff_ffff,
        }
    }

    /// Loads what may be more than one access, all or nothing.
    fn load_bytes(&mut self, cx: &mut dyn Context, addr: u64, bytes: &mut [u8]) -> Result<(), Trap> {
        if bytes.len() > 8 {
            cx.check(self, addr, bytes.len() as u64, Access::Read)?;
        }
        for (at, size) in parts(bytes.len()) {
            let from = self.area(addr, at as u64);
            let value = cx.load(self, from, size)?.to_le_bytes();
            let len = size.bytes() as usize;
            bytes[at..at + len].copy_from_slice(&value[..len]);
        }
        Ok(())
    }

    /// Stores what may be more than one access, all or nothing.
    fn store_bytes(&mut self, cx: &mut dyn Context, addr: u64, bytes: &[u8]) -> Result<(), Trap> {
        if bytes.len() > 8 {
            cx.check(self, addr, bytes.len() as u64, Access::Write)?;
        }
        for (at, size) in parts(bytes.len()) {
            let len = size.bytes() as usize;
            let mut value = [0; 8];
            value[..len].copy_from_slice(&bytes[at..at + len]);
            let to = self.area(addr, at as u64);
            cx.store(self, to, size, u64::from_le_bytes(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
