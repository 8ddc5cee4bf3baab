//! String comparisons, composed as the lifter does.

use crate::cases::Random;
use crate::host::{Insn, State};
use cpu::x86_64::simd::{call, string::*};

const CF: u64 = 1;
const ZF: u64 = 1 << 6;
const SF: u64 = 1 << 7;
const OF: u64 = 1 << 11;
const FLAGS: u64 = CF | ZF | SF | OF | 1 << 2 | 1 << 4;

/// What pcmpXstrX of xmm1, xmm2 does; `lengths` if they are explicit.
fn expected(mut s: State, immediate: u64, lengths: Option<[u64; 2]>, to_index: bool) -> State {
    let [one, two] = [s.xmm[1], s.xmm[2]];
    let [length1, length2] = match lengths {
        Some(lengths) => lengths.map(|l| call(EXPLICIT_LENGTH, [l, immediate])),
        None => [one, two].map(|x| call(IMPLICIT_LENGTH, [x[0], x[1], immediate])),
    };
    let control = immediate | length1 << 8 | length2 << 16;
    let parts = [0, 1].map(|half: u64| {
        call(
            COMPARE,
            [one[half as usize], two[0], two[1], control | half << 24],
        )
    });
    let first = if immediate & 0xc == 0xc {
        parts[0] & parts[1]
    } else {
        parts[0] | parts[1]
    };
    let second = call(POLARITY, [first, control]);
    if to_index {
        s.rcx = call(INDEX, [second, control]);
    } else if immediate & 0x40 == 0 {
        s.xmm[0] = [second, 0];
    } else {
        s.xmm[0] = [ELEMENT_MASK_LOW, ELEMENT_MASK_HIGH].map(|f| call(f, [second, control]));
    }
    let n = if immediate & 1 == 0 { 16 } else { 8 };
    let bit = |on: bool, flag: u64| if on { flag } else { 0 };
    s.flags = bit(second != 0, CF) | bit(length2 < n, ZF) | bit(length1 < n, SF) | bit(second & 1 != 0, OF);
    s
}

/// Strings of few letters, so that something is found.
fn text(random: &mut Random) -> [u64; 2] {
    let letters = [0x00, 0x01, 0x02, 0x03, 0x7f, 0x80, 0xff, 0x81];
    let (few, zeros) = (random.next() % 8 + 1, random.next().is_multiple_of(4));
    let mut half = || {
        (0..8).fold(0, |word, _| {
            let letter = letters[(random.next() % few) as usize];
            word << 8 | if letter == 0 && !zeros { 1 } else { letter }
        })
    };
    [half(), half()]
}

#[test]
fn comparisons() {
    for (opcode, explicit, to_index) in [
        (0x60, true, false),
        (0x61, true, true),
        (0x62, false, false),
        (0x63, false, true),
    ] {
        for immediate in 0..128u8 {
            let insn = Insn::new(&[0x66, 0x0f, 0x3a, opcode, 0xca, immediate]);
            // With REX.W the lengths are rax and rdx.
            let wide = Insn::new(&[0x66, 0x48, 0x0f, 0x3a, opcode, 0xca, immediate]);
            let mut random = Random::new(u64::from(opcode) << 8 | u64::from(immediate));
            for case in 0..300 {
                let mut s = random.state();
                (s.xmm[1], s.xmm[2]) = (text(&mut random), text(&mut random));
                if case % 4 == 0 {
                    s.xmm[2] = s.xmm[1];
                }
                if case % 3 != 0 {
                    let mut length = || (random.next() % 41).wrapping_sub(20);
                    (s.rax, s.rdx) = (length(), length());
                }
                let is_wide = case % 2 != 0 && explicit;
                let lengths = [s.rax, s.rdx].map(|l| if is_wide { l } else { l as i32 as u64 });
                let ours = expected(s, immediate.into(), explicit.then_some(lengths), to_index);
                let mut host = if is_wide { wide.run(s) } else { insn.run(s) };
                host.flags &= FLAGS;
                assert_eq!(
                    ours, host,
                    "{opcode:#x}, {immediate:#x}, {is_wide} (left: ours) of {s:#x?}"
                );
            }
        }
    }
}
