//! Rounding to integers against the host; approximate reciprocals against their bound and exact arithmetic.

use crate::cases::{Random, check_two, count};
use cpu::x86_64::simd::{call, float::*};

/// Values about every edge of rounding in a format.
fn edges(fraction: u32, exponents: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for exponent in 0..=exponents {
        for rest in [
            0,
            1,
            2,
            3,
            (1 << fraction) - 1,
            1 << (fraction - 1),
            (1 << (fraction - 1)) + 1,
        ] {
            all.push(exponent << fraction | rest);
        }
        for bit in 0..fraction {
            all.push(exponent << fraction | 3 << bit & ((1 << fraction) - 1));
            all.push(exponent << fraction | 1 << bit);
        }
    }
    let sign = (exponents + 1) << fraction;
    all.iter().flat_map(|&x| [x, x | sign]).collect()
}

#[test]
fn rounding_to_integers() {
    for control in 0..4u8 {
        // roundps and roundpd without precision exceptions.
        let single = crate::host::Insn::new(&[0x66, 0x0f, 0x3a, 0x08, 0xc1, 8 | control]);
        let double = crate::host::Insn::new(&[0x66, 0x0f, 0x3a, 0x09, 0xc1, 8 | control]);
        let mut state = crate::host::State::default();
        for x in edges(23, 255) {
            state.xmm[1][0] = x;
            let ours = call(ROUND_SINGLE, [x, control.into()]);
            assert_eq!(
                ours,
                single.run(state).xmm[0][0],
                "{x:#x}, {control} (left: ours)"
            );
        }
        for x in edges(52, 2047) {
            state.xmm[1][0] = x;
            let ours = call(ROUND_DOUBLE, [x, control.into()]);
            assert_eq!(
                ours,
                double.run(state).xmm[0][0],
                "{x:#x}, {control} (left: ours)"
            );
        }
        check_two(
            "roundps",
            &[0x66, 0x0f, 0x3a, 0x08, 0xc1, 8 | control],
            count(),
            |_, b| {
                b.map(|half| {
                    let [lo, hi] = [half, half >> 32].map(|x| call(ROUND_SINGLE, [x, control.into()]));
                    lo | hi << 32
                })
            },
        );
    }
    // Denormals as zeros.
    for (x, zero) in [(1, 0), (0x8000_0001, 0x8000_0000), (0x7f_ffff, 0)] {
        for control in 0..4 {
            assert_eq!(call(ROUND_SINGLE, [x, control | DENORMALS_ARE_ZEROS]), zero);
        }
    }
}

/// Singles that matter and random ones.
fn singles() -> Vec<u32> {
    let mut random = Random::new(7);
    let mut all: Vec<u32> = (0..400_000).map(|_| random.next() as u32).collect();
    for exponent in 0..=255u32 {
        for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            all.extend([exponent << 23 | fraction, 1 << 31 | exponent << 23 | fraction]);
        }
    }
    all
}

/// Where a result isn't a number of the ordinary kind, the host's is ours; the others are held to the bound, by arithmetic
/// that is much finer.
fn approximation(number: u16, opcode: u8, exact: fn(f64) -> f64) {
    let insn = crate::host::Insn::new(&[0x0f, opcode, 0xc1]);
    for x in singles() {
        let mut state = crate::host::State::default();
        state.xmm[1][0] = x.into();
        let host = insn.run(state).xmm[0][0] as u32;
        let ours = call(number, [x.into()]) as u32;
        let value = exact(f64::from(f32::from_bits(x)));
        // Denormals count as zeros, and results near the smallest number may be zeros on some hosts.
        let ordinary = f32::from_bits(x).is_normal() && value.is_finite() && (value as f32).is_normal();
        if ordinary {
            let error = (f64::from(f32::from_bits(ours)) / value - 1.0).abs();
            assert!(
                error <= 1.0 / 8192.0,
                "{x:#x}: {ours:#x}, host {host:#x}, error {error}"
            );
            // An exact result stays exact.
            if value == f64::from(value as f32) && (value as f32).to_bits() & 0x7ff == 0 {
                assert_eq!(ours, (value as f32).to_bits(), "{x:#x}");
            }
        } else if (value as f32).is_normal()
            || value == 0.0
            || !value.is_finite()
            || !f32::from_bits(x).is_normal()
        {
            assert_eq!(ours, host, "{x:#x} (left: ours)");
        } else {
            // Rounded to 13 bits it may be the least normal number.
            let least = value.abs() * (1.0 + 1.0 / 16384.0) >= f64::from(f32::MIN_POSITIVE);
            assert_eq!(ours, x & 1 << 31 | u32::from(least) << 23, "{x:#x}");
        }
    }
}

#[test]
fn approximate_reciprocals() {
    approximation(RECIPROCAL, 0x53, |x| 1.0 / x);
}

#[test]
fn approximate_reciprocal_roots() {
    approximation(RECIPROCAL_ROOT, 0x52, |x| 1.0 / x.sqrt());
}

/// The definition itself: 13 bits, to nearest.
#[test]
fn approximations_are_the_nearest_of_thirteen_bits() {
    for x in singles() {
        let value = f64::from(f32::from_bits(x));
        if !f32::from_bits(x).is_normal() {
            continue;
        }
        for (number, exact) in [(RECIPROCAL, 1.0 / value), (RECIPROCAL_ROOT, 1.0 / value.sqrt())] {
            if !(exact as f32).is_normal() {
                continue;
            }
            let ours = call(number, [x.into()]) as u32;
            let unit = f64::from(f32::from_bits(
                exact
                    .abs()
                    .to_bits()
                    .wrapping_shr(52)
                    .wrapping_sub(1023 - 127)
                    .wrapping_shl(23) as u32,
            )) / 4096.0;
            let error = (f64::from(f32::from_bits(ours)) - exact).abs();
            assert!(error <= unit * 0.500_001, "{x:#x}: {ours:#x}, {error} of {unit}");
            assert_eq!(ours & 0x7ff, 0, "{x:#x}: more than 13 bits");
        }
    }
}
