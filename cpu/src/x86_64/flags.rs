//! The arithmetic flags, kept as the operation that made them (SDM 1 3.4.3.1, appendix A).
//!
//! [`Cc`] is what slot CC_OP holds: a kind in the low byte, log2 of the operand's bytes above. `dst` and `src` in slots
//! CC_DST and CC_SRC are masked to the operand's size by whoever reads them.
//!
//! Where the manual leaves a flag undefined, the choice is the one made here, whatever the host does.

/// A kind of operation, for the low byte of CC_OP. `r` is its result (CC_DST), `s` what CC_SRC holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The flags themselves, at their places in EFLAGS, are in `s`.
    Flags = 0,
    /// `r = a + s`.
    Add = 1,
    /// `r = a + s + 1`: adc with a carry. One more than `Add`, so that CC_OP is `Add` plus the carry.
    AddCarry = 2,
    /// `r = a - s`.
    Sub = 3,
    /// `r = a - s - 1`: sbb with a borrow. One more than `Sub`.
    SubBorrow = 4,
    /// and, or, xor, test: CF, OF and AF are 0.
    Logic = 5,
    /// `r = a + 1`; `s` is CF, which stays.
    Inc = 6,
    /// `r = a - 1`; `s` is CF, which stays.
    Dec = 7,
    /// Left shift by a count > 0; `s` is the operand shifted by one less. AF is 0; OF as of the last single step.
    Shl = 8,
    /// Logical right shift by a count > 0; `s` is the operand shifted by one less. AF is 0; OF likewise.
    Shr = 9,
    /// Arithmetic right shift by a count > 0; `s` is the operand shifted by one less. AF and OF are 0.
    Sar = 10,
    /// Multiplication with the low half `r`; `s` isn't 0 if the high half means something: CF and OF. SF, ZF and PF are
    /// those of `r`, AF is 0.
    Mul = 11,
}

/// CF.
pub const CF: u64 = 1 << 0;
/// PF.
pub const PF: u64 = 1 << 2;
/// AF.
pub const AF: u64 = 1 << 4;
/// ZF.
pub const ZF: u64 = 1 << 6;
/// SF.
pub const SF: u64 = 1 << 7;
/// OF.
pub const OF: u64 = 1 << 11;
/// The six together.
pub const ARITHMETIC: u64 = CF | PF | AF | ZF | SF | OF;

/// The word for CC_OP: a kind on operands of `1 << size` bytes.
pub const fn cc(kind: Kind, size: u8) -> u64 {
    kind as u64 | (size as u64) << 8
}

/// The six flags, at their places in EFLAGS, as slots CC_OP, CC_DST and CC_SRC say.
pub fn arithmetic(op: u64, dst: u64, src: u64) -> u64 {
    let kind = op & 0xff;
    if kind == Kind::Flags as u64 {
        return src & ARITHMETIC;
    }
    let bits = 8u32 << (op >> 8 & 3);
    let mask = u64::MAX >> (64 - bits);
    let msb = |v: u64| v >> (bits - 1) & 1;
    let (r, s) = (dst & mask, src & mask);
    let bit = |on: bool, flag: u64| if on { flag } else { 0 };
    let (cf, of, af) = match kind {
        1 | 2 => {
            let a = r.wrapping_sub(s).wrapping_sub(kind - 1) & mask;
            let carry = if kind == 2 { r <= s } else { r < s };
            (carry, msb((a ^ r) & (s ^ r)) != 0, (a ^ s ^ r) & 16 != 0)
        }
        3 | 4 => {
            let a = r.wrapping_add(s).wrapping_add(kind - 3) & mask;
            let borrow = if kind == 4 { a <= s } else { a < s };
            (borrow, msb((a ^ s) & (a ^ r)) != 0, (a ^ s ^ r) & 16 != 0)
        }
        6 => (src & 1 != 0, r == 1 << (bits - 1), r & 15 == 0),
        7 => (src & 1 != 0, r == mask >> 1, r & 15 == 15),
        8 => (msb(s) != 0, msb(s) != msb(r), false),
        9 => (s & 1 != 0, msb(s) != 0, false),
        10 => (s & 1 != 0, false, false),
        11 => (src != 0, src != 0, false),
        _ => (false, false, false),
    };
    bit(cf, CF)
        | bit((r as u8).count_ones().is_multiple_of(2), PF)
        | bit(af, AF)
        | bit(r == 0, ZF)
        | bit(msb(r) != 0, SF)
        | bit(of, OF)
}

/// Half the number of an even condition of the encoding's order: whether it holds, where that is found without
/// all six flags.
pub fn condition(half: u64, op: u64, dst: u64, src: u64) -> Option<bool> {
    let kind = op & 0xff;
    let unused = 64 - (8u32 << (op >> 8 & 3));
    // To the upper end of the word: order and sign are as they were.
    let (r, s) = (dst << unused, src << unused);
    const SUB: u64 = Kind::Sub as u64;
    const ADD: u64 = Kind::Add as u64;
    const LOGIC: u64 = Kind::Logic as u64;
    const INC: u64 = Kind::Inc as u64;
    const DEC: u64 = Kind::Dec as u64;
    let a = r.wrapping_add(s);
    Some(match (half, kind) {
        (_, 0) => return None,
        (2, _) => r == 0,
        (4, _) => (r as i64) < 0,
        (1, SUB) => a < s,
        (1, ADD) => r < s,
        (1, LOGIC) => false,
        (1, INC | DEC) => src & 1 != 0,
        (3, SUB) => a <= s,
        (6, SUB) => (a as i64) < s as i64,
        (7, SUB) => a as i64 <= s as i64,
        (3, LOGIC) => r == 0,
        (6, LOGIC) => (r as i64) < 0,
        (7, LOGIC) => r as i64 <= 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the flags, over all kinds, sizes and some edges.
    #[test]
    fn conditions_in_short() {
        let edges = [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            u64::MAX,
            1 << 63,
            !(1 << 63),
            0x1234_5678_9abc_def0,
        ];
        let mut seen = 0;
        for op in (0..12).flat_map(|kind| (0..4).map(move |size| kind | size << 8)) {
            for (dst, src) in edges.iter().flat_map(|dst| edges.map(|src| (*dst, src))) {
                let f = arithmetic(op, dst, src);
                let less = (f & SF != 0) != (f & OF != 0);
                let holds = [
                    f & OF != 0,
                    f & CF != 0,
                    f & ZF != 0,
                    f & (CF | ZF) != 0,
                    f & SF != 0,
                    f & PF != 0,
                    less,
                    less || f & ZF != 0,
                ];
                for (half, holds) in holds.into_iter().enumerate() {
                    if let Some(short) = condition(half as u64, op, dst, src) {
                        assert_eq!(short, holds, "{half} of {op:#x} {dst:#x} {src:#x}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 10_000);
    }

    /// Against wider arithmetic, over all bytes.
    #[test]
    fn sums_and_differences_of_bytes() {
        for a in 0..256u64 {
            for s in 0..256u64 {
                for carry in 0..2u64 {
                    let sum = a + s + carry;
                    let flags = arithmetic(cc(Kind::Add, 0) + carry, sum & 0xff, s);
                    let signed = i64::from(a as i8) + i64::from(s as i8) + carry as i64;
                    assert_eq!(flags & CF != 0, sum > 255, "{a} + {s} + {carry}");
                    assert_eq!(flags & OF != 0, signed != i64::from(signed as i8));
                    assert_eq!(flags & AF != 0, (a & 15) + (s & 15) + carry > 15);
                    let difference = a.wrapping_sub(s).wrapping_sub(carry) & 0xff;
                    let flags = arithmetic(cc(Kind::Sub, 0) + carry, difference, s);
                    let signed = i64::from(a as i8) - i64::from(s as i8) - carry as i64;
                    assert_eq!(flags & CF != 0, a < s + carry, "{a} - {s} - {carry}");
                    assert_eq!(flags & OF != 0, signed != i64::from(signed as i8));
                    assert_eq!(flags & AF != 0, (a & 15) < (s & 15) + carry);
                    assert_eq!(flags & ZF != 0, difference == 0);
                }
            }
        }
    }
}
