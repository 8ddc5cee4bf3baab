//! Packed instructions that move elements between lanes: each function yields one half of a register.
//!
//! Where an instruction treats the two operands one after the other (packs, horizontal sums), the low half
//! of its result is the function of the first operand's halves and the high half that of the second's; with MMX
//! registers the result is the function of the two operands.

use super::lane::{each, element, narrow, neighbours, widen};

/// A word of dwords chosen from `lo` and `hi` by two bits each of `control`.
fn dwords(lo: u64, hi: u64, control: u64) -> u64 {
    let pick = |n: u64| {
        let word = if n & 2 == 0 { lo } else { hi };
        element::<u32>(word, (n & 1) as u32)
    };
    u64::from(pick(control)) | u64::from(pick(control >> 2)) << 32
}

/// Four words chosen by two bits each of `control`.
fn words(a: u64, control: u64) -> u64 {
    each(|i| element::<u16>(a, (control >> (2 * i) & 3) as u32))
}

/// Bytes of `lo` and `hi` chosen by four bits each of `control`'s bytes, 0 where the highest bit is set.
fn bytes(lo: u64, hi: u64, control: u64) -> u64 {
    each(|i| {
        let n = element::<u8>(control, i);
        let word = if n & 8 == 0 { lo } else { hi };
        if n & 0x80 == 0 {
            element::<u8>(word, u32::from(n & 7))
        } else {
            0
        }
    })
}

/// From element `first` of both words on, by turns.
macro_rules! interleave {
    ($t:ty, $first:expr) => {
        |[a, b, ..]| each(|i| element::<$t>(if i % 2 == 0 { a } else { b }, $first + i / 2))
    };
}

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

/// The sign bits of bytes.
fn signs(a: u64) -> u64 {
    (0..8).fold(0, |mask, i| mask | (a >> (8 * i + 7) & 1) << i)
}

functions! { super::integer::END;
    /// Two dwords of (low, high) half: arguments, then a control of two bits a dword.
    DWORDS = |[lo, hi, control, _]| dwords(lo, hi, control);
    /// Four words of a word: argument, then a control of two bits a word (pshuflw, pshufhw, pshufw).
    WORDS = |[a, control, ..]| words(a, control);
    /// Bytes of (low, high) half by a control word (pshufb).
    BYTES = |[lo, hi, control, _]| bytes(lo, hi, control);
    /// Interleaves the low four bytes of two words (punpcklbw).
    INTERLEAVE_LOW_BYTES = interleave!(u8, 0);
    /// Interleaves the high four bytes of two words.
    INTERLEAVE_HIGH_BYTES = interleave!(u8, 4);
    /// Interleaves the low two words of two words (punpcklwd).
    INTERLEAVE_LOW_WORDS = interleave!(u16, 0);
    /// Interleaves the high two words of two words.
    INTERLEAVE_HIGH_WORDS = interleave!(u16, 2);
    /// packsswb.
    PACKSSWB = |[a, b, ..]| narrow(a, b, |x: i16| x.clamp(i8::MIN.into(), i8::MAX.into()) as i8);
    /// packuswb.
    PACKUSWB = |[a, b, ..]| narrow(a, b, |x: i16| x.clamp(0, u8::MAX.into()) as u8);
    /// packssdw.
    PACKSSDW = |[a, b, ..]| narrow(a, b, |x: i32| x.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
    /// packusdw.
    PACKUSDW = |[a, b, ..]| narrow(a, b, |x: i32| x.clamp(0, u16::MAX.into()) as u16);
    /// phaddw.
    PHADDW = |[a, b, ..]| neighbours(a, b, i16::wrapping_add);
    /// phaddd.
    PHADDD = |[a, b, ..]| neighbours(a, b, i32::wrapping_add);
    /// phaddsw.
    PHADDSW = |[a, b, ..]| neighbours(a, b, i16::saturating_add);
    /// phsubw.
    PHSUBW = |[a, b, ..]| neighbours(a, b, i16::wrapping_sub);
    /// phsubd.
    PHSUBD = |[a, b, ..]| neighbours(a, b, i32::wrapping_sub);
    /// phsubsw.
    PHSUBSW = |[a, b, ..]| neighbours(a, b, i16::saturating_sub);
    /// pmovsxbw of the low four bytes.
    SIGN_BYTES_TO_WORDS = |[a, ..]| widen(a, |x: i8| i16::from(x));
    /// pmovsxbd of the low two bytes.
    SIGN_BYTES_TO_DWORDS = |[a, ..]| widen(a, |x: i8| i32::from(x));
    /// pmovsxwd of the low two words.
    SIGN_WORDS_TO_DWORDS = |[a, ..]| widen(a, |x: i16| i32::from(x));
    /// pmovzxbw of the low four bytes.
    ZERO_BYTES_TO_WORDS = |[a, ..]| widen(a, |x: u8| u16::from(x));
    /// pmovzxbd of the low two bytes.
    ZERO_BYTES_TO_DWORDS = |[a, ..]| widen(a, |x: u8| u32::from(x));
    /// pmovzxwd of the low two words.
    ZERO_WORDS_TO_DWORDS = |[a, ..]| widen(a, |x: u16| u32::from(x));
    /// The sign bits of the eight bytes (pmovmskb).
    SIGNS = |[a, ..]| signs(a);
    /// mpsadbw: four sums for a window of seven bytes and a block of four.
    MPSADBW = |[window, block, ..]| differences(window, block);
    /// phminposuw of (low, high) half.
    PHMINPOSUW = |[lo, hi, ..]| minimum(lo, hi);
}
