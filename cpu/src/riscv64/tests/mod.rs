//! Tests of the instruction table that need more than one of its readers.

/// A small generator (splitmix64), so that tests are the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

use super::decode::decode;
use super::lift::lift;
use super::rows;
use super::slots::*;
use crate::Lifted;

mod blocks;
mod golden;
mod objdump;
mod qemu;

/// An encoding of each row with random operands; for rows with reserved values, a valid one.
pub(crate) fn random_encoding(row: &super::decode::Row, random: &mut Random) -> u32 {
    let width = if row.len == 4 { u32::MAX } else { 0xffff };
    for _ in 0..1000 {
        let insn = (random.next() as u32 & !row.mask | row.bits) & width;
        // Another row may refine this one.
        let mine = decode(insn).is_some_and(|found| found.name == row.name);
        if mine && row.form.text(insn, 0).is_some() {
            return insn;
        }
    }
    panic!("no valid encoding of {}", row.name);
}

const MODES: [u64; 6] = [
    0,
    3,
    1 | MODE_FS_OFF,
    1 | MODE_FS_DIRTY,
    MODE_FS_DIRTY | MODE_FRM_RMM,
    MODE_FS_DIRTY | MODE_FRM_RESERVED,
];

#[test]
fn every_block_verifies() {
    let mut random = Random::new(2);
    let rows: Vec<_> = rows::all().collect();
    let mut page = [0; 4096];
    for round in 0..3000 {
        let mut at = 0;
        while at < page.len() {
            let insn = match random.below(20) {
                // Anything at all, now and then.
                0 => random.next() as u32,
                _ => random_encoding(rows[random.below(rows.len() as u64) as usize], &mut random),
            };
            let bytes = insn.to_le_bytes();
            let len = (if insn & 3 == 3 { 4 } else { 2 }).min(page.len() - at);
            page[at..at + len].copy_from_slice(&bytes[..len]);
            at += len;
        }
        let mode = MODES[round % MODES.len()];
        let mut offset = 0;
        while offset < 4096 {
            let mut lifted = lift(mode, offset, &page, None);
            if let Lifted::NeedsNextPage = lifted {
                assert_eq!(offset, 4094);
                lifted = lift(mode, offset, &page, Some(&page));
            }
            let Lifted::Block(block) = lifted else {
                panic!("the next page was given")
            };
            block.verify().unwrap_or_else(|e| panic!("{e}\n{block}"));
            assert_eq!(
                block.straddles,
                block.insns.iter().any(|i| i.offset + u16::from(i.len) > 4096)
            );
            assert!(!block.straddles || block.insns.len() == 1);
            let last = block.insns.last().unwrap();
            let end = last.offset + u16::from(last.len);
            offset = end;
        }
    }
}

#[test]
fn any_bits_lift_and_disassemble() {
    let mut page = [0; 4096];
    let mut check = |insn: u32| {
        page[..4].copy_from_slice(&insn.to_le_bytes());
        let Lifted::Block(block) = lift(3, 0, &page, None) else {
            panic!("{insn:#x}")
        };
        block
            .verify()
            .unwrap_or_else(|e| panic!("{insn:#x}: {e}\n{block}"));
        super::disasm::disassemble(0, &page[..4]);
    };
    (0..=0xffff).for_each(&mut check);
    let mut random = Random::new(3);
    (0..300_000).for_each(|_| check(random.next() as u32 | 3));
}
