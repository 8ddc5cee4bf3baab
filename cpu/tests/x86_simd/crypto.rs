//! AES, carry-less products and CRC32.

use crate::cases::{check, check_two, count};
use cpu::x86_64::simd::{call, crypto::*};

#[test]
fn aes_rounds() {
    for (low, high, opcode, name) in [
        (AESENC_LOW, AESENC_HIGH, 0xdc, "aesenc"),
        (AESENCLAST_LOW, AESENCLAST_HIGH, 0xdd, "aesenclast"),
        (AESDEC_LOW, AESDEC_HIGH, 0xde, "aesdec"),
        (AESDECLAST_LOW, AESDECLAST_HIGH, 0xdf, "aesdeclast"),
    ] {
        check_two(name, &[0x66, 0x0f, 0x38, opcode, 0xc1], count(), |a, key| {
            [call(low, a) ^ key[0], call(high, a) ^ key[1]]
        });
    }
}

#[test]
fn aes_keys() {
    check_two("aesimc", &[0x66, 0x0f, 0x38, 0xdb, 0xc1], count(), |_, b| {
        b.map(|half| call(AESIMC, [half]))
    });
    for constant in 0..=255u8 {
        check_two(
            "aeskeygenassist",
            &[0x66, 0x0f, 0x3a, 0xdf, 0xc1, constant],
            20,
            |_, b| b.map(|half| call(AESKEYGENASSIST, [half >> 32, constant.into()])),
        );
    }
}

#[test]
fn carryless_products() {
    for (control, first, second) in [(0x00, 0, 0), (0x01, 1, 0), (0x10, 0, 1), (0x11, 1, 1)] {
        check_two(
            "pclmulqdq",
            &[0x66, 0x0f, 0x3a, 0x44, 0xc1, control],
            count(),
            |a, b| [PCLMUL_LOW, PCLMUL_HIGH].map(|number| call(number, [a[first], b[second]])),
        );
    }
}

#[test]
fn crc() {
    let rows: [(u16, &[u8], &str); 4] = [
        (CRC32_BYTE, &[0xf2, 0x0f, 0x38, 0xf0, 0xc1], "crc32 eax, cl"),
        (CRC32_WORD, &[0x66, 0xf2, 0x0f, 0x38, 0xf1, 0xc1], "crc32 eax, cx"),
        (CRC32_DWORD, &[0xf2, 0x0f, 0x38, 0xf1, 0xc1], "crc32 eax, ecx"),
        (
            CRC32_QWORD,
            &[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc1],
            "crc32 rax, rcx",
        ),
    ];
    for (number, bytes, name) in rows {
        check(name, bytes, count(), |mut s| {
            s.rax = call(number, [s.rax, s.rcx]);
            s
        });
    }
}
