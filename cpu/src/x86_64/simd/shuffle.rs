//! Packed instructions across lanes, without an op of the IR's.

use crate::ir::lane::{each, element};

/// The smallest word and, above it, where it is first.
fn minimum(lo: u64, hi: u64) -> u64 {
    let word = |i: u32| element::<u16>(if i < 4 { lo } else { hi }, i % 4);
    // Of equal ones the first wins: `min` of the pairs.
    (0..8)
        .map(|i| (word(i), i))
        .min()
        .map_or(0, |(value, i)| u64::from(value) | u64::from(i) << 16)
}

/// Four sums of absolute differences: of each four bytes from byte 0, 1, 2 and 3 of `window` on to those in the low half of `block`.
fn differences(window: u64, block: u64) -> u64 {
    each(|i| {
        (0..4)
            .map(|k| u16::from(element::<u8>(window, i + k).abs_diff(element(block, k))))
            .sum::<u16>()
    })
}

functions! { super::FIRST;
    /// mpsadbw: four sums for a window of seven bytes and a block of four.
    MPSADBW = |[window, block, ..]| differences(window, block);
    /// phminposuw of (low, high) half.
    PHMINPOSUW = |[lo, hi, ..]| minimum(lo, hi);
}
