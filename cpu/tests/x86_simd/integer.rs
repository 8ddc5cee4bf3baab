//! Lane-wise functions.

use crate::cases::{check, check_two, count};
use cpu::x86_64::simd::{call, integer::*};

/// Function, opcode after the prefix 66 and 0f, and name.
const TWO: &[(u16, &[u8], &str)] = &[
    (PADDB, &[0xfc], "paddb"),
    (PADDW, &[0xfd], "paddw"),
    (PADDD, &[0xfe], "paddd"),
    (PSUBB, &[0xf8], "psubb"),
    (PSUBW, &[0xf9], "psubw"),
    (PSUBD, &[0xfa], "psubd"),
    (PADDSB, &[0xec], "paddsb"),
    (PADDSW, &[0xed], "paddsw"),
    (PADDUSB, &[0xdc], "paddusb"),
    (PADDUSW, &[0xdd], "paddusw"),
    (PSUBSB, &[0xe8], "psubsb"),
    (PSUBSW, &[0xe9], "psubsw"),
    (PSUBUSB, &[0xd8], "psubusb"),
    (PSUBUSW, &[0xd9], "psubusw"),
    (PCMPEQB, &[0x74], "pcmpeqb"),
    (PCMPEQW, &[0x75], "pcmpeqw"),
    (PCMPEQD, &[0x76], "pcmpeqd"),
    (PCMPGTB, &[0x64], "pcmpgtb"),
    (PCMPGTW, &[0x65], "pcmpgtw"),
    (PCMPGTD, &[0x66], "pcmpgtd"),
    (PMINUB, &[0xda], "pminub"),
    (PMINUW, &[0x38, 0x3a], "pminuw"),
    (PMINUD, &[0x38, 0x3b], "pminud"),
    (PMINSB, &[0x38, 0x38], "pminsb"),
    (PMINSW, &[0xea], "pminsw"),
    (PMINSD, &[0x38, 0x39], "pminsd"),
    (PMAXUB, &[0xde], "pmaxub"),
    (PMAXUW, &[0x38, 0x3e], "pmaxuw"),
    (PMAXUD, &[0x38, 0x3f], "pmaxud"),
    (PMAXSB, &[0x38, 0x3c], "pmaxsb"),
    (PMAXSW, &[0xee], "pmaxsw"),
    (PMAXSD, &[0x38, 0x3d], "pmaxsd"),
    (PAVGB, &[0xe0], "pavgb"),
    (PAVGW, &[0xe3], "pavgw"),
    (PMULLW, &[0xd5], "pmullw"),
    (PMULHW, &[0xe5], "pmulhw"),
    (PMULHUW, &[0xe4], "pmulhuw"),
    (PMULHRSW, &[0x38, 0x0b], "pmulhrsw"),
    (PMULLD, &[0x38, 0x40], "pmulld"),
    (PMADDWD, &[0xf5], "pmaddwd"),
    (PMADDUBSW, &[0x38, 0x04], "pmaddubsw"),
    (PSADBW, &[0xf6], "psadbw"),
    (PSIGNB, &[0x38, 0x08], "psignb"),
    (PSIGNW, &[0x38, 0x09], "psignw"),
    (PSIGND, &[0x38, 0x0a], "psignd"),
];

/// The instruction on xmm0 and xmm1.
fn encoded(opcode: &[u8]) -> Vec<u8> {
    [&[0x66, 0x0f], opcode, &[0xc1]].concat()
}

#[test]
fn of_two_operands() {
    for &(number, opcode, name) in TWO {
        check_two(name, &encoded(opcode), count(), |a, b| {
            [call(number, [a[0], b[0]]), call(number, [a[1], b[1]])]
        });
    }
}

#[test]
fn of_one_operand() {
    for (number, opcode, name) in [
        (PABSB, 0x1c, "pabsb"),
        (PABSW, 0x1d, "pabsw"),
        (PABSD, 0x1e, "pabsd"),
    ] {
        check_two(name, &encoded(&[0x38, opcode]), count(), |_, b| {
            b.map(|half| call(number, [half]))
        });
    }
}

#[test]
fn shifts() {
    // Function, opcodes with a count in a register and with an immediate one.
    let rows: [(u16, u8, u8, u8, &str); 8] = [
        (PSLLW, 0xf1, 0x71, 6, "psllw"),
        (PSLLD, 0xf2, 0x72, 6, "pslld"),
        (PSLLQ, 0xf3, 0x73, 6, "psllq"),
        (PSRLW, 0xd1, 0x71, 2, "psrlw"),
        (PSRLD, 0xd2, 0x72, 2, "psrld"),
        (PSRLQ, 0xd3, 0x73, 2, "psrlq"),
        (PSRAW, 0xe1, 0x71, 4, "psraw"),
        (PSRAD, 0xe2, 0x72, 4, "psrad"),
    ];
    for (number, opcode, immediate, extension, name) in rows {
        // The count is the low quadword, and all of it.
        check_two(name, &encoded(&[opcode]), count(), |a, b| {
            a.map(|half| call(number, [half, b[0]]))
        });
        for shift in 0..=255 {
            let bytes = [0x66, 0x0f, immediate, 0xc0 | extension << 3, shift];
            check_two(name, &bytes, 20, |a, _| {
                a.map(|half| call(number, [half, shift.into()]))
            });
        }
    }
}

#[test]
fn variable_blends() {
    for (number, opcode, name) in [
        (PBLENDVB, 0x10, "pblendvb"),
        (BLENDVPS, 0x14, "blendvps"),
        (BLENDVPD, 0x15, "blendvpd"),
    ] {
        // xmm2, xmm1, mask xmm0.
        check(name, &[0x66, 0x0f, 0x38, opcode, 0xd1], count(), |mut s| {
            s.xmm[2] = std::array::from_fn(|i| call(number, [s.xmm[2][i], s.xmm[1][i], s.xmm[0][i]]));
            s
        });
    }
}
