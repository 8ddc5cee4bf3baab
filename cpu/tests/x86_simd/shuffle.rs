//! Functions across lanes, with the composition that the lifter makes of them.

use crate::cases::{check_two, count};
use cpu::x86_64::simd::{call, shuffle::*};

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
