//! From guest bytes to IR.
//!
//! ```text
//!   page bytes --decode--> Row --its form and meaning--> Lifter (builder.rs) --> Block
//!                                integer.rs, float.rs, system.rs: what rows say to the builder
//! ```
//!
//! Rules:
//! - A block ends at control flow, at what may change mode, interrupts or map, after
//!   [`ir::MAX_INSNS`](crate::ir::MAX_INSNS) instructions, and at the end of the page. An instruction that
//!   straddles the end is a block of its own.
//! - Within a block the builder remembers which value each slot holds, so that values are forwarded from one
//!   instruction to the next. Every `Set` is kept: an engine may leave the block at any boundary.
//! - Constants and page-relative addresses (`lui`, `auipc` and what is added to them) are folded.
//! - *Floating-point state.* An instruction that writes a floating-point register or may raise flags makes
//!   mstatus.FS Dirty; stores, and moves to integer registers that raise no flags, don't. If the mode doesn't
//!   say that FS is Dirty already, the instruction calls [`helper::FS_DIRTY`](super::helper::FS_DIRTY) after its
//!   last op that can trap and before its first `Set`, and ends the block, for the mode has changed.
//! - Whatever depends on CSRs other than the mode (legality of most CSR accesses, `wfi`, fences of translations)
//!   is decided by the helper that is called. CSRs in slots that traps and returns use are read and written here.
//!
//! Source: RISC-V Unprivileged ISA 20240411.

mod builder;
mod float;
mod integer;
mod system;

pub(crate) use builder::Lifter;
pub(crate) use float::Sign;
pub(crate) use integer::Bit;
pub(crate) use system::CsrOp;

use super::decode::{self, Fp};
use super::slots::{MODE_FRM_RESERVED, MODE_FS_DIRTY, MODE_FS_OFF};
use crate::ir::{Block, MAX_INSNS, Target, Terminal};
use crate::{Follow, Lifted};

const PAGE_SIZE: usize = 4096;

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
    let half = |bytes: &[u8; PAGE_SIZE], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let mut l = Lifter::new(mode);
    let mut at = usize::from(offset) & (PAGE_SIZE - 2);
    loop {
        let low = half(page, at);
        let len = decode::length(low);
        let high = if len == 2 {
            0
        } else if at + 4 <= PAGE_SIZE {
            half(page, at + 2)
        } else if !l.is_empty() {
            return block(l, Terminal::Jump(Target(at as i32)), false);
        } else {
            match next {
                Some(next) => half(next, 0),
                None => return Lifted::NeedsNextPage,
            }
        };
        let insn = u32::from(low) | u32::from(high) << 16;
        let terminal = instruction(&mut l, at as u16, len as u8, insn);
        at += len;
        if let Some(terminal) = terminal {
            match l.follow(&terminal, follow) {
                Some(next) => at = usize::from(next),
                None => return block(l, terminal, at > PAGE_SIZE),
            }
        }
        if at >= PAGE_SIZE || l.insns() == MAX_INSNS {
            return block(l, Terminal::Jump(Target(at as i32)), at > PAGE_SIZE);
        }
    }
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
fn instruction(l: &mut Lifter, offset: u16, len: u8, insn: u32) -> Option<Terminal> {
    l.begin(offset, len, insn);
    let Some(row) = decode::decode(insn) else {
        return Some(l.illegal());
    };
    if row.fp != Fp::None && l.mode() & MODE_FS_OFF != 0 {
        return Some(l.illegal());
    }
    if row.has_rm && insn >> 12 & 7 == 7 && l.mode() & MODE_FRM_RESERVED != 0 {
        return Some(l.illegal());
    }
    let dirties = row.fp == Fp::Writes && l.mode() & MODE_FS_DIRTY == 0;
    if dirties {
        l.owe_dirty();
    }
    if !row.form.lift(l, insn) {
        return Some(l.illegal());
    }
    if dirties {
        l.pay_dirty();
        l.dispatch();
    }
    l.take_terminal()
}
