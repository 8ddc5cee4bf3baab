//! The x87 and MMX registers and all instructions on them. SDM 1, chapter 8; SDM 2A.
//!
//! ```text
//!   opcode bytes --X87Op::from_opcode--> X87Op --X87::execute--> new state + what to store, EFLAGS, or #MF
//! ```
//!
//! Rules:
//! - [`X87::execute`] reaches no memory. The caller reads an operand's bytes first and writes what comes out after; as
//!   that write may fault, it executes on a copy of the state and keeps the copy once the bytes are written.
//!   So an instruction either happened or didn't.
//! - The caller checks CR0 (#NM) and decides #UD; [`MathFault`] is #MF (or, without CR0.NE, the interrupt).
//! - A waiting instruction finds ES clear, or is a [`MathFault`]. So an exception that is unmasked and raised now is told
//!   by ES afterwards.
//! - Registers stand at their physical place (R0 to R7). ST(i) is R((TOP + i) mod 8), MMi is Ri.
//! - The last opcode, instruction and data pointers are kept by every non-control instruction, masked exceptions or not.
//!
//! Exact arithmetic is `softfloat::extended`.

mod execute;
mod image;
mod mmx;
mod op;

pub use execute::{Input, MathFault, Outcome};
pub use image::{Bytes, FXSAVE_X87, ImageFormat};
pub use op::{Access, Arithmetic, Condition, Format, Operands, X87Op};

use crate::softfloat::Flags;
use crate::softfloat::extended::{F80, X87Env};
use serde::{Deserialize, Serialize};

/// A selector and an offset, as the instruction and data pointers hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FarPointer {
    /// The segment's selector; 0 in 64-bit mode.
    pub selector: u16,
    /// The offset in the segment.
    pub offset: u64,
}

/// The x87 state (SDM 1, 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct X87 {
    /// R0 to R7. Their significands are MM0 to MM7.
    pub registers: [F80; 8],
    /// Control and status word, TOP included.
    pub env: X87Env,
    /// The abridged tag word, as `fxsave` has it: bit i is set if Ri is not empty.
    pub tags: u8,
    /// The low three bits of the first opcode byte, and the second byte, of the last non-control instruction.
    pub opcode: u16,
    /// Where that instruction is, its prefixes included.
    pub instruction: FarPointer,
    /// Where the last memory operand of a non-control instruction is.
    pub data: FarPointer,
}

const TOP_SHIFT: u32 = 11;
const TOP_MASK: u16 = 7 << TOP_SHIFT;

impl X87 {
    /// The state after power-on or reset (SDM 3A, table 10-1); INIT keeps the state.
    #[must_use]
    pub const fn reset() -> Self {
        Self {
            registers: [F80::ZERO; 8],
            env: X87Env::with_control(0x40),
            tags: 0xff,
            opcode: 0,
            instruction: FarPointer {
                selector: 0,
                offset: 0,
            },
            data: FarPointer {
                selector: 0,
                offset: 0,
            },
        }
    }

    /// What `fninit` does: everything but the registers' contents.
    pub fn init(&mut self) {
        *self = Self {
            registers: self.registers,
            env: X87Env::new(),
            tags: 0,
            ..Self::reset()
        };
    }

    /// Whether an unmasked exception is pending: the next waiting x87, MMX or `wait` instruction is a [`MathFault`].
    #[inline]
    #[must_use]
    pub const fn pending(&self) -> bool {
        self.env.status & X87Env::ES != 0
    }

    /// Lets an instruction that waits find no error, until [`X87::take_up`].
    pub(crate) fn set_aside(&mut self) {
        self.env.status &= !(X87Env::ES | X87Env::BUSY);
    }

    /// Undoes [`X87::set_aside`] as far as the flags are still there.
    pub(crate) fn take_up(&mut self) {
        self.env.update_summary();
    }

    /// The top of the stack.
    #[inline]
    #[must_use]
    pub const fn top(&self) -> u8 {
        (self.env.status >> TOP_SHIFT & 7) as u8
    }

    #[inline]
    fn set_top(&mut self, top: u8) {
        self.env.status = self.env.status & !TOP_MASK | u16::from(top & 7) << TOP_SHIFT;
    }

    #[inline]
    const fn physical(&self, i: u8) -> usize {
        (self.top().wrapping_add(i) & 7) as usize
    }

    /// The contents of ST(i), empty or not.
    #[inline]
    #[must_use]
    pub const fn st(&self, i: u8) -> F80 {
        self.registers[self.physical(i)]
    }

    /// Whether ST(i) is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self, i: u8) -> bool {
        self.tags >> self.physical(i) & 1 == 0
    }

    /// Writes ST(i), which is not empty then.
    #[inline]
    fn set(&mut self, i: u8, value: F80) {
        let at = self.physical(i);
        self.registers[at] = value;
        self.tags |= 1 << at;
    }

    #[inline]
    fn free(&mut self, i: u8) {
        self.tags &= !(1 << self.physical(i));
    }

    #[inline]
    fn pop(&mut self) {
        self.free(0);
        self.set_top(self.top().wrapping_add(1));
    }

    /// Pushes without looking.
    #[inline]
    fn push(&mut self, value: F80) {
        self.set_top(self.top().wrapping_sub(1));
        self.set(0, value);
    }

    /// Raises a stack underflow (an operand is empty). Whether it is masked (SDM 1, 8.5.1.1).
    #[cold]
    fn underflow(&mut self) -> bool {
        self.env.status = (self.env.status | X87Env::SF) & !X87Env::C1;
        self.env.raise(Flags::INVALID)
    }

    /// Raises a stack overflow (the place to push to is not empty). Whether it is masked (SDM 1, 8.5.1.1).
    #[cold]
    fn overflow(&mut self) -> bool {
        self.env.status |= X87Env::SF | X87Env::C1;
        self.env.raise(Flags::INVALID)
    }
}

#[cfg(test)]
mod tests;
