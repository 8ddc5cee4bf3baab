//! Every block that can be made keeps the rules of IR, whatever the bytes and the mode.

mod modes;

use super::*;
use crate::x86_64::mode::Mode;
use crate::x86_64::trap;

/// splitmix64, so that tests are the same everywhere.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Opcode bytes that matter come up often enough.
fn fill(random: &mut Random, page: &mut [u8; 4096]) {
    const PREFIXES: [u8; 16] = [
        0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x0f, 0x0f, 0x0f, 0x48, 0x41, 0x64, 0x65, 0x2e, 0x36, 0x26, 0x3e,
    ];
    for byte in page.iter_mut() {
        let r = random.next();
        *byte = match r & 7 {
            0 | 1 => PREFIXES[(r >> 8) as usize & 15],
            _ => (r >> 16) as u8,
        };
    }
}

#[test]
fn every_block_verifies() {
    let mut random = Random(1);
    let (mut page, mut next) = ([0; 4096], [0; 4096]);
    for _ in 0..400 {
        fill(&mut random, &mut page);
        fill(&mut random, &mut next);
        let mode = Mode::from_bits_truncate(random.next() & random.next());
        let mut offset = 0usize;
        while offset < 4096 {
            let lifted = match lift(mode.bits(), offset as u16, &page, None) {
                Lifted::NeedsNextPage => {
                    assert!(offset > 4096 - 15);
                    lift(mode.bits(), offset as u16, &page, Some(&next))
                }
                lifted => lifted,
            };
            let Lifted::Block(block) = lifted else {
                panic!("the next page was given")
            };
            block
                .verify()
                .unwrap_or_else(|e| panic!("{e} in {mode:?} at {offset:#x}\n{block}"));
            let last = block.insns.last().unwrap();
            offset = usize::from(last.offset) + usize::from(last.len);
            assert_eq!(block.straddles, offset > 4096);
            assert!(!block.straddles || block.insns.len() == 1);
            assert!(!mode.intersects(Mode::TRACE | Mode::SHADOW) || block.insns.len() == 1);
        }
    }
}

/// The cause of the trap that the instruction at `offset` is.
fn cause(page: &[u8; 4096], offset: u16, next: Option<&[u8; 4096]>) -> u64 {
    match lift(Mode::LONG.bits(), offset, page, next) {
        Lifted::Block(Block {
            terminal: Terminal::Trap { cause, .. },
            ..
        }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_and_pages() {
    let mut page = [0x66; 4096];
    // Sixteen bytes are too many.
    assert_eq!(cause(&page, 0, None), trap::cause_with(trap::GP, 0));
    // Also across the end of the page; fifteen are not.
    let mut next = [0x66; 4096];
    assert!(matches!(lift(1, 4094, &page, None), Lifted::NeedsNextPage));
    assert_eq!(cause(&page, 4094, Some(&next)), trap::cause_with(trap::GP, 0));
    next[12] = 0x90;
    assert!(matches!(
        lift(1, 4094, &page, Some(&next)),
        Lifted::Block(Block {
            straddles: true,
            terminal: Terminal::Jump(crate::ir::Target(4109)),
            ..
        })
    ));
    // What the first bytes decide needs no second page: ud2, and a lock that isn't allowed.
    page[4094..].copy_from_slice(&[0x0f, 0x0b]);
    assert_eq!(cause(&page, 4094, None), trap::cause(trap::UD));
    page[4094..].copy_from_slice(&[0xf0, 0x90]);
    assert_eq!(cause(&page, 4094, None), trap::cause(trap::UD));
}
