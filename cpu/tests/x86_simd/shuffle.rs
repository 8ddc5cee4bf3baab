//! Functions across lanes, with the composition that the lifter makes of them.

use crate::cases::{check, check_two, count};
use cpu::x86_64::simd::{call, shuffle::*};

#[test]
fn by_control() {
    for control in 0..=255u8 {
        let c = u64::from(control);
        check_two("pshufd", &[0x66, 0x0f, 0x70, 0xc1, control], 20, |_, [lo, hi]| {
            [call(DWORDS, [lo, hi, c]), call(DWORDS, [lo, hi, c >> 4])]
        });
        check_two("shufps", &[0x0f, 0xc6, 0xc1, control], 20, |a, b| {
            [call(DWORDS, [a[0], a[1], c]), call(DWORDS, [b[0], b[1], c >> 4])]
        });
        check_two(
            "pshuflw",
            &[0xf2, 0x0f, 0x70, 0xc1, control],
            20,
            |_, [lo, hi]| [call(WORDS, [lo, c]), hi],
        );
        check_two(
            "pshufhw",
            &[0xf3, 0x0f, 0x70, 0xc1, control],
            20,
            |_, [lo, hi]| [lo, call(WORDS, [hi, c])],
        );
    }
    check_two(
        "pshufb",
        &[0x66, 0x0f, 0x38, 0x00, 0xc1],
        count(),
        |[lo, hi], b| b.map(|c| call(BYTES, [lo, hi, c])),
    );
}

#[test]
fn interleaving() {
    for (low, high, opcode, name) in [
        (INTERLEAVE_LOW_BYTES, INTERLEAVE_HIGH_BYTES, 0x60, "punpcklbw"),
        (INTERLEAVE_LOW_WORDS, INTERLEAVE_HIGH_WORDS, 0x61, "punpcklwd"),
    ] {
        for (half, opcode) in [(0, opcode), (1, opcode + 8)] {
            check_two(name, &[0x66, 0x0f, opcode, 0xc1], count(), |a, b| {
                [low, high].map(|number| call(number, [a[half], b[half]]))
            });
        }
    }
}

#[test]
fn packs_and_horizontal_sums() {
    let rows: [(u16, &[u8], &str); 10] = [
        (PACKSSWB, &[0x63], "packsswb"),
        (PACKUSWB, &[0x67], "packuswb"),
        (PACKSSDW, &[0x6b], "packssdw"),
        (PACKUSDW, &[0x38, 0x2b], "packusdw"),
        (PHADDW, &[0x38, 0x01], "phaddw"),
        (PHADDD, &[0x38, 0x02], "phaddd"),
        (PHADDSW, &[0x38, 0x03], "phaddsw"),
        (PHSUBW, &[0x38, 0x05], "phsubw"),
        (PHSUBD, &[0x38, 0x06], "phsubd"),
        (PHSUBSW, &[0x38, 0x07], "phsubsw"),
    ];
    for (number, opcode, name) in rows {
        let bytes = [&[0x66, 0x0f], opcode, &[0xc1]].concat();
        check_two(name, &bytes, count(), |a, b| [a, b].map(|x| call(number, x)));
    }
}

#[test]
fn widening() {
    // Opcode and how many bits make a half of the result.
    for (number, opcode, bits) in [
        (SIGN_BYTES_TO_WORDS, 0x20, 32),
        (SIGN_BYTES_TO_DWORDS, 0x21, 16),
        (SIGN_WORDS_TO_DWORDS, 0x23, 32),
        (ZERO_BYTES_TO_WORDS, 0x30, 32),
        (ZERO_BYTES_TO_DWORDS, 0x31, 16),
        (ZERO_WORDS_TO_DWORDS, 0x33, 32),
    ] {
        check_two(
            "pmovsx, pmovzx",
            &[0x66, 0x0f, 0x38, opcode, 0xc1],
            count(),
            |_, [lo, _]| [call(number, [lo]), call(number, [lo >> bits])],
        );
    }
}

#[test]
fn to_general_registers() {
    check("pmovmskb", &[0x66, 0x0f, 0xd7, 0xc1], count(), |mut s| {
        s.rax = call(SIGNS, [s.xmm[1][0]]) | call(SIGNS, [s.xmm[1][1]]) << 8;
        s
    });
}

#[test]
fn minimum_of_words() {
    check_two("phminposuw", &[0x66, 0x0f, 0x38, 0x41, 0xc1], count(), |_, b| {
        [call(PHMINPOSUW, b), 0]
    });
}

#[test]
fn sums_of_differences() {
    for control in 0..8u8 {
        check_two(
            "mpsadbw",
            &[0x66, 0x0f, 0x3a, 0x42, 0xc1, control],
            500,
            |a, b| {
                let a = u128::from(a[0]) | u128::from(a[1]) << 64;
                let b = u128::from(b[0]) | u128::from(b[1]) << 64;
                let window = a >> (8 * (control & 4));
                let block = (b >> (32 * (control & 3))) as u64;
                [
                    call(MPSADBW, [window as u64, block]),
                    call(MPSADBW, [(window >> 32) as u64, block]),
                ]
            },
        );
    }
}
