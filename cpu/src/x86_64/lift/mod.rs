//! From guest bytes to IR.
//!
//! ```text
//!   page bytes --iced-x86--> Instruction --a family's lift()--> Lifter (builder.rs) --> Block
//!                                          operand.rs   registers, addresses, segments
//!                                          cc.rs        flags and conditions
//! ```
//!
//! Rules:
//! - An instruction is in one family: a file whose `lift` matches on its mnemonic, and says `false` to what isn't
//!   its own or doesn't exist in this mode. What no family knows is #UD.
//! - A block ends at control flow, at what may change mode, interrupts or map, after
//!   [`ir::MAX_INSNS`](crate::ir::MAX_INSNS) instructions, and at the end of the page. An instruction that
//!   straddles the end is a block of its own. So is every instruction in the modes TRACE, SHADOW and
//!   CODE_BREAKPOINTS; the run loop then looks at the processor after it.
//! - Order within an instruction: checks of the whole instruction, addresses, [`Op::Check`](crate::ir::Op::Check) of what
//!   is read *and* written, loads, computation, stores, registers, flags. All values are computed before the
//!   first `Set`.
//! - `lock` means nothing: harts take turns. Where it isn't allowed, the decoder finds the instruction invalid.
//! - No result is left undefined: what the manual doesn't say is said where the instruction is lifted.
//!
//! Source: SDM volume 2.

mod arith;
mod bits;
mod builder;
mod cc;
mod extended;
mod flagops;
mod flow;
mod moves;
mod muldiv;
mod operand;
mod shift;
mod sse;
mod stack;
mod strings;
mod system;
mod x87;

pub(crate) use builder::Lifter;
pub(super) use builder::log2;

use super::helper;
use super::mode::Mode;
use crate::ir::{Block, MAX_INSNS, Size, Terminal};
use crate::{Follow, Lifted};
use iced_x86::{Decoder, DecoderError, DecoderOptions, EncodingKind, Instruction};

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod tests;

const PAGE_SIZE: usize = 4096;
/// Bytes of the longest instruction.
const MAX_LENGTH: usize = 15;
/// A block with so many ops ends.
const MAX_OPS: usize = 4000;

/// How this processor reads encodings that others read otherwise: without TZCNT, LZCNT and WBNOINVD their prefix
/// means nothing.
const OPTIONS: u32 =
    DecoderOptions::NO_MPFX_0FBC | DecoderOptions::NO_MPFX_0FBD | DecoderOptions::NO_WBNOINVD;

/// The families, by falling use.
const FAMILIES: &[fn(&mut Lifter, &Instruction) -> bool] = &[
    moves::lift,
    arith::lift,
    flow::lift,
    stack::lift,
    shift::lift,
    flagops::lift,
    bits::lift,
    sse::lift,
    muldiv::lift,
    strings::lift,
    x87::lift,
    system::lift,
];

/// Translates instructions from `offset` of a page on; see [`crate::Cpu::lift`].
pub fn lift(mode: u64, offset: u16, page: &[u8; PAGE_SIZE], next: Option<&[u8; PAGE_SIZE]>) -> Lifted {
    lift_path(mode, offset, page, next, &mut |_| None)
}

/// The same along a path; see [`crate::Cpu::lift_path`].
pub fn lift_path(
    mode: u64,
    offset: u16,
    page: &[u8; PAGE_SIZE],
    next: Option<&[u8; PAGE_SIZE]>,
    follow: Follow,
) -> Lifted {
    let mode = Mode::from_bits_retain(mode);
    let mut l = Lifter::new(mode);
    let start = usize::from(offset) & (PAGE_SIZE - 1);
    // Addresses of the decoder are offsets from the page.
    let mut decoder = Decoder::with_ip(mode.code_bits(), page, start as u64, OPTIONS);
    let mut i = Instruction::default();
    let mut at = start;
    loop {
        if decoder.set_position(at).is_err() {
            // Not reached: `at` is in the page.
            return Lifted::NeedsNextPage;
        }
        decoder.set_ip(at as u64);
        decoder.decode_out(&mut i);
        if decoder.last_error() == DecoderError::NoMoreBytes {
            if !l.is_empty() {
                let terminal = l.fall_through(at as i32);
                return block(l, terminal, false);
            }
            let Some(next) = next else {
                return Lifted::NeedsNextPage;
            };
            return straddler(l, at, page, next);
        }
        let bytes = page.get(at..at + i.len()).unwrap_or_default();
        let terminal = instruction(&mut l, at, bytes, decoder.last_error(), &i);
        at += i.len();
        if let Some(terminal) = terminal {
            match l.follow(&terminal, follow) {
                Some(next) => at = usize::from(next),
                None => return block(l, terminal, false),
            }
        }
        if at >= PAGE_SIZE || l.insns() == MAX_INSNS || l.op_count() >= MAX_OPS || l.is_single() {
            let terminal = l.fall_through(at as i32);
            return block(l, terminal, false);
        }
    }
}

/// A block of the one instruction that begins at `at` and goes on on the next page.
fn straddler(mut l: Lifter, at: usize, page: &[u8; PAGE_SIZE], next: &[u8; PAGE_SIZE]) -> Lifted {
    let mut bytes = [0; 2 * MAX_LENGTH];
    let here = &page[at.max(PAGE_SIZE - MAX_LENGTH)..];
    let len = here.len() + MAX_LENGTH;
    bytes[..here.len()].copy_from_slice(here);
    bytes[here.len()..len].copy_from_slice(&next[..MAX_LENGTH]);
    let mut decoder = Decoder::with_ip(l.mode().code_bits(), &bytes[..len], at as u64, OPTIONS);
    let i = decoder.decode();
    let code = bytes.get(..i.len()).unwrap_or_default();
    let terminal = instruction(&mut l, at, code, decoder.last_error(), &i);
    let end = at + i.len();
    let terminal = terminal.unwrap_or_else(|| l.fall_through(end as i32));
    block(l, terminal, true)
}

fn block(l: Lifter, terminal: Terminal, straddles: bool) -> Lifted {
    let (insns, ops) = l.finish();
    Lifted::Block(Block {
        insns,
        ops,
        terminal,
        straddles,
    })
}

/// Lifts one instruction; yields the terminal if it ends the block.
fn instruction(
    l: &mut Lifter,
    at: usize,
    bytes: &[u8],
    error: DecoderError,
    i: &Instruction,
) -> Option<Terminal> {
    l.begin(at as u16, i.len().max(1) as u8, bytes);
    l.check_fetch();
    if l.is(Mode::CODE_BREAKPOINTS) {
        let form = l.form(Size::B4, 0);
        l.ask(helper::CODE_BREAKPOINT, [None; 2], form);
    }
    if error != DecoderError::None || i.is_invalid() {
        // The decoder gives up after as many bytes as an instruction can have.
        if i.len() >= MAX_LENGTH {
            l.protection();
        } else {
            l.undefined();
        }
    } else if i.code().encoding() != EncodingKind::Legacy || !FAMILIES.iter().any(|lift| lift(l, i)) {
        l.undefined();
    }
    l.terminal()
}
