//! Packed integer arithmetic, lane by lane: arguments are a word of the first and one of the second operand.

use super::lane::{compare, each, element, map, zip};

/// `pmulhrsw` of one element.
fn mul_round(a: i16, b: i16) -> i16 {
    ((((i32::from(a) * i32::from(b)) >> 14) + 1) >> 1) as i16
}

/// The high half of a product.
fn mul_high(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

/// The high half of an unsigned product.
fn mul_high_unsigned(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

/// Sums of neighbours' products.
fn multiply_add(a: u64, b: u64) -> u64 {
    each(|i| {
        let product = |i| i32::from(element::<i16>(a, i)) * i32::from(element::<i16>(b, i));
        product(2 * i).wrapping_add(product(2 * i + 1))
    })
}

/// Sums of neighbours' products, unsigned by signed, saturated.
fn multiply_add_bytes(a: u64, b: u64) -> u64 {
    each(|i| {
        let product = |i| i32::from(element::<u8>(a, i)) * i32::from(element::<i8>(b, i));
        (product(2 * i) + product(2 * i + 1)).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    })
}

/// The sum of absolute differences of bytes.
fn differences(a: u64, b: u64) -> u64 {
    (0..8)
        .map(|i| u64::from(element::<u8>(a, i).abs_diff(element(b, i))))
        .sum()
}

/// Shifts that leave nothing of an element if the count is too great.
macro_rules! shift {
    ($t:ty, $op:tt) => {
        |[a, count, ..]| {
            if count < <$t>::BITS.into() { map(a, |x: $t| x $op count) } else { 0 }
        }
    };
}

/// Arithmetic right shifts.
macro_rules! shift_signed {
    ($t:ty) => {
        |[a, count, ..]| {
            let count = count.min(u64::from(<$t>::BITS) - 1);
            map(a, |x: $t| x >> count)
        }
    };
}

/// `psignb` and its kin: negates, clears or takes.
macro_rules! sign {
    ($t:ty) => {
        |[a, b, ..]| zip(a, b, |x: $t, y: $t| x.wrapping_mul(y.signum()))
    };
}

/// Bits of `b` where the highest bit of the mask's element is set, else of `a`.
macro_rules! choose {
    ($t:ty) => {
        |[a, b, mask, ..]| {
            let mask = map(mask, |x: $t| x >> (<$t>::BITS - 1));
            a & !mask | b & mask
        }
    };
}

functions! { super::FIRST;
    /// paddb.
    PADDB = |[a, b, ..]| zip(a, b, u8::wrapping_add);
    /// paddw.
    PADDW = |[a, b, ..]| zip(a, b, u16::wrapping_add);
    /// paddd.
    PADDD = |[a, b, ..]| zip(a, b, u32::wrapping_add);
    /// psubb.
    PSUBB = |[a, b, ..]| zip(a, b, u8::wrapping_sub);
    /// psubw.
    PSUBW = |[a, b, ..]| zip(a, b, u16::wrapping_sub);
    /// psubd.
    PSUBD = |[a, b, ..]| zip(a, b, u32::wrapping_sub);
    /// paddsb.
    PADDSB = |[a, b, ..]| zip(a, b, i8::saturating_add);
    /// paddsw.
    PADDSW = |[a, b, ..]| zip(a, b, i16::saturating_add);
    /// paddusb.
    PADDUSB = |[a, b, ..]| zip(a, b, u8::saturating_add);
    /// paddusw.
    PADDUSW = |[a, b, ..]| zip(a, b, u16::saturating_add);
    /// psubsb.
    PSUBSB = |[a, b, ..]| zip(a, b, i8::saturating_sub);
    /// psubsw.
    PSUBSW = |[a, b, ..]| zip(a, b, i16::saturating_sub);
    /// psubusb.
    PSUBUSB = |[a, b, ..]| zip(a, b, u8::saturating_sub);
    /// psubusw.
    PSUBUSW = |[a, b, ..]| zip(a, b, u16::saturating_sub);
    /// pcmpeqb.
    PCMPEQB = |[a, b, ..]| compare(a, b, u8::eq);
    /// pcmpeqw.
    PCMPEQW = |[a, b, ..]| compare(a, b, u16::eq);
    /// pcmpeqd.
    PCMPEQD = |[a, b, ..]| compare(a, b, u32::eq);
    /// pcmpgtb.
    PCMPGTB = |[a, b, ..]| compare(a, b, i8::gt);
    /// pcmpgtw.
    PCMPGTW = |[a, b, ..]| compare(a, b, i16::gt);
    /// pcmpgtd.
    PCMPGTD = |[a, b, ..]| compare(a, b, i32::gt);
    /// pminub.
    PMINUB = |[a, b, ..]| zip(a, b, u8::min);
    /// pminuw.
    PMINUW = |[a, b, ..]| zip(a, b, u16::min);
    /// pminud.
    PMINUD = |[a, b, ..]| zip(a, b, u32::min);
    /// pminsb.
    PMINSB = |[a, b, ..]| zip(a, b, i8::min);
    /// pminsw.
    PMINSW = |[a, b, ..]| zip(a, b, i16::min);
    /// pminsd.
    PMINSD = |[a, b, ..]| zip(a, b, i32::min);
    /// pmaxub.
    PMAXUB = |[a, b, ..]| zip(a, b, u8::max);
    /// pmaxuw.
    PMAXUW = |[a, b, ..]| zip(a, b, u16::max);
    /// pmaxud.
    PMAXUD = |[a, b, ..]| zip(a, b, u32::max);
    /// pmaxsb.
    PMAXSB = |[a, b, ..]| zip(a, b, i8::max);
    /// pmaxsw.
    PMAXSW = |[a, b, ..]| zip(a, b, i16::max);
    /// pmaxsd.
    PMAXSD = |[a, b, ..]| zip(a, b, i32::max);
    /// pavgb.
    PAVGB = |[a, b, ..]| zip(a, b, |x: u8, y: u8| (u16::from(x) + u16::from(y)).div_ceil(2) as u8);
    /// pavgw.
    PAVGW = |[a, b, ..]| zip(a, b, |x: u16, y: u16| (u32::from(x) + u32::from(y)).div_ceil(2) as u16);
    /// pmullw.
    PMULLW = |[a, b, ..]| zip(a, b, u16::wrapping_mul);
    /// pmulhw.
    PMULHW = |[a, b, ..]| zip(a, b, mul_high);
    /// pmulhuw.
    PMULHUW = |[a, b, ..]| zip(a, b, mul_high_unsigned);
    /// pmulhrsw.
    PMULHRSW = |[a, b, ..]| zip(a, b, mul_round);
    /// pmulld.
    PMULLD = |[a, b, ..]| zip(a, b, u32::wrapping_mul);
    /// pmaddwd.
    PMADDWD = |[a, b, ..]| multiply_add(a, b);
    /// pmaddubsw.
    PMADDUBSW = |[a, b, ..]| multiply_add_bytes(a, b);
    /// psadbw.
    PSADBW = |[a, b, ..]| differences(a, b);
    /// psllw; the second word is the count.
    PSLLW = shift!(u16, <<);
    /// pslld; the second word is the count.
    PSLLD = shift!(u32, <<);
    /// psllq; the second word is the count.
    PSLLQ = shift!(u64, <<);
    /// psrlw; the second word is the count.
    PSRLW = shift!(u16, >>);
    /// psrld; the second word is the count.
    PSRLD = shift!(u32, >>);
    /// psrlq; the second word is the count.
    PSRLQ = shift!(u64, >>);
    /// psraw; the second word is the count.
    PSRAW = shift_signed!(i16);
    /// psrad; the second word is the count.
    PSRAD = shift_signed!(i32);
    /// pabsb of the first word.
    PABSB = |[a, ..]| map(a, i8::wrapping_abs);
    /// pabsw of the first word.
    PABSW = |[a, ..]| map(a, i16::wrapping_abs);
    /// pabsd of the first word.
    PABSD = |[a, ..]| map(a, i32::wrapping_abs);
    /// psignb.
    PSIGNB = sign!(i8);
    /// psignw.
    PSIGNW = sign!(i16);
    /// psignd.
    PSIGND = sign!(i32);
    /// pblendvb; the third word is the mask.
    PBLENDVB = choose!(i8);
    /// blendvps; the third word is the mask.
    BLENDVPS = choose!(i32);
    /// blendvpd; the third word is the mask.
    BLENDVPD = choose!(i64);
}
