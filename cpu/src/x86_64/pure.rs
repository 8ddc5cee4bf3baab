//! Functions of their arguments alone that lifted code uses ([`crate::ir::Op::Pure`]): what would take too many ops.
//!
//! [`TABLE`] is in two sections, this file's functions and those of packed instructions ([`simd`]). A number is the index in
//! the table.

use super::{flags, simd};
use crate::PureFn;

/// Numbers of the first section.
const SECTION: usize = 32;
/// First number of the integer section.
const INTEGER: u16 = 0;

/// The functions by number; an unused number yields 0.
pub static TABLE: [PureFn; SECTION + simd::COUNT] =
    table(&[(INTEGER, &INTEGER_FUNCTIONS), (simd::FIRST, &simd::FUNCTIONS)]);

const fn table<const N: usize>(sections: &[(u16, &[PureFn])]) -> [PureFn; N] {
    let mut table = [nothing as PureFn; N];
    let mut section = 0;
    while section < sections.len() {
        let (first, functions) = sections[section];
        assert!((first as usize).is_multiple_of(SECTION));
        let mut i = 0;
        while i < functions.len() {
            table[first as usize + i] = functions[i];
            i += 1;
        }
        section += 1;
    }
    assert!(INTEGER_FUNCTIONS.len() <= SECTION);
    table
}

fn nothing(_: [u64; 4]) -> u64 {
    0
}

/// Whether an even condition of the encoding's order holds: number, CC_OP, CC_DST, CC_SRC.
pub const COND: u16 = INTEGER;
/// The six flags at their places: CC_OP, CC_DST, CC_SRC.
pub const FLAGS: u16 = INTEGER + 1;
/// `rcl`, `rcr`: operand (zero-extended), masked count, CF, log2 of the size in bytes | left << 2. The result.
pub const ROTATE_CARRY: u16 = INTEGER + 2;
/// Likewise: CF afterwards.
pub const ROTATED_CARRY: u16 = INTEGER + 3;
/// Quotient of 128 bits: high, low, divisor, which is greater than high.
pub const DIVIDE: u16 = INTEGER + 4;
/// Signed quotient of 128 bits; 0 where there is none.
pub const DIVIDE_SIGNED: u16 = INTEGER + 5;
/// Whether the divisor is 0 or the quotient doesn't fit.
pub const DIVIDE_SIGNED_FAILS: u16 = INTEGER + 6;
/// The decimal instructions: a [`Decimal`] | immediate << 8, ax, flags. Yields ax, and the flags from bit 16 on.
pub const DECIMAL: u16 = INTEGER + 7;

const INTEGER_FUNCTIONS: [PureFn; 8] = [
    cond,
    |[op, dst, src, _]| flags::arithmetic(op, dst, src),
    |args| rotate_carry(args).0,
    |args| rotate_carry(args).1,
    divide,
    |args| divide_signed(args).unwrap_or(0),
    |args| divide_signed(args).is_none().into(),
    decimal,
];

fn cond([number, op, dst, src]: [u64; 4]) -> u64 {
    // The commonest, in short.
    if let Some(holds) = flags::condition(number >> 1, op, dst, src) {
        return holds.into();
    }
    let f = flags::arithmetic(op, dst, src);
    let less = (f & flags::SF != 0) != (f & flags::OF != 0);
    u64::from(match number >> 1 {
        0 => f & flags::OF != 0,
        1 => f & flags::CF != 0,
        2 => f & flags::ZF != 0,
        3 => f & (flags::CF | flags::ZF) != 0,
        4 => f & flags::SF != 0,
        5 => f & flags::PF != 0,
        6 => less,
        _ => less || f & flags::ZF != 0,
    })
}

/// The operand and the carry together are one number of 9, 17, 33 or 65 bits, and that is rotated.
fn rotate_carry([v, count, carry, form]: [u64; 4]) -> (u64, u64) {
    let bits = 8u32 << (form & 3);
    let whole = u128::from(v) | u128::from(carry & 1) << bits;
    let count = count as u32 % (bits + 1);
    let left = if form & 4 != 0 {
        count
    } else {
        (bits + 1 - count) % (bits + 1)
    };
    let mask = (1u128 << (bits + 1)) - 1;
    let r = (whole << left | whole >> ((bits + 1 - left) % 128)) & mask;
    (r as u64 & (u64::MAX >> (64 - bits)), (r >> bits) as u64 & 1)
}

fn divide([high, low, divisor, _]: [u64; 4]) -> u64 {
    let dividend = u128::from(high) << 64 | u128::from(low);
    dividend.checked_div(divisor.into()).unwrap_or(0) as u64
}

fn divide_signed([high, low, divisor, _]: [u64; 4]) -> Option<u64> {
    let dividend = (u128::from(high) << 64 | u128::from(low)) as i128;
    let quotient = dividend.checked_div((divisor as i64).into())?;
    i64::try_from(quotient).ok().map(|q| q as u64)
}

/// A decimal instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Decimal {
    /// Decimal adjust after addition.
    Daa = 0,
    /// Decimal adjust after subtraction.
    Das = 1,
    /// ASCII adjust after addition.
    Aaa = 2,
    /// ASCII adjust after subtraction.
    Aas = 3,
    /// ASCII adjust before division.
    Aad = 4,
    /// ASCII adjust after multiplication.
    Aam = 5,
}

/// SDM 2A "AAA" to "AAS", "DAA", "DAS". Flags that they leave undefined are cleared, but SF, ZF and PF are always those of
/// al.
fn decimal([what, ax, f, _]: [u64; 4]) -> u64 {
    let (al, ah) = (ax as u8, (ax >> 8) as u8);
    let (af, cf) = (f & flags::AF != 0, f & flags::CF != 0);
    let half = al & 15 > 9 || af;
    let immediate = (what >> 8) as u8;
    let (ax, af, cf) = match what as u8 {
        0 | 1 => {
            let full = al > 0x99 || cf;
            let change = if half { 6 } else { 0 } + if full { 0x60 } else { 0 };
            // Of a subtraction the borrow of the first step counts too.
            let (al, carry) = if what as u8 == 0 {
                (al.wrapping_add(change), full)
            } else {
                (al.wrapping_sub(change), full || half && al < 6)
            };
            (u16::from_le_bytes([al, ah]), half, carry)
        }
        2 | 3 => {
            let v = u16::from_le_bytes([al, ah]);
            let v = match (half, what as u8) {
                (false, _) => v,
                (true, 2) => v.wrapping_add(0x106),
                (true, _) => v.wrapping_sub(0x106),
            };
            (v & 0xff0f, half, half)
        }
        4 => {
            let al = al.wrapping_add(ah.wrapping_mul(immediate));
            (al.into(), false, false)
        }
        _ => {
            let (ah, al) = (al.checked_div(immediate), al.checked_rem(immediate));
            let v = u16::from_le_bytes([al.unwrap_or(0), ah.unwrap_or(0)]);
            (v, false, false)
        }
    };
    let result = flags::arithmetic(flags::cc(flags::Kind::Logic, 0), ax.into(), 0);
    let bit = |on: bool, flag| if on { flag } else { 0 };
    u64::from(ax) | (result | bit(af, flags::AF) | bit(cf, flags::CF)) << 16
}
