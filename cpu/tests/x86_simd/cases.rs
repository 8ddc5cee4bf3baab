//! Operands, random and special, and the comparison.

use crate::host::{Insn, State};

/// A pseudo-random sequence.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// splitmix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A word with edges of elements of all sizes in it.
    pub fn word(&mut self) -> u64 {
        const EDGES: [u64; 16] = [
            0,
            u64::MAX,
            0x8080_8080_8080_8080,
            0x7f7f_7f7f_7f7f_7f7f,
            0x8000_8000_8000_8000,
            0x7fff_7fff_7fff_7fff,
            0x8000_0000_8000_0000,
            0x7fff_ffff_7fff_ffff,
            1 << 63,
            i64::MAX as u64,
            0x0101_0101_0101_0101,
            0x0001_0001_0001_0001,
            0x00ff_00ff_00ff_00ff,
            0xff00_ff00_ff00_ff00,
            0x0000_ffff_0000_ffff,
            0xffff_fffe_0000_0001,
        ];
        let random = self.next();
        let edge = EDGES[(self.next() % 16) as usize];
        match self.next() % 4 {
            0 => edge,
            // Bytes of the one and of the other.
            1 => {
                let bytes = self
                    .next()
                    .to_le_bytes()
                    .map(|b| if b & 1 == 0 { 0 } else { 0xff });
                let mask = u64::from_le_bytes(bytes);
                random & mask | edge & !mask
            }
            _ => random,
        }
    }

    pub fn state(&mut self) -> State {
        let mut state = State::default();
        for half in state.xmm.as_flattened_mut() {
            *half = self.word();
        }
        // Equal elements, so that comparisons find some.
        if self.next().is_multiple_of(4) {
            let mask = self.word();
            for half in 0..2 {
                state.xmm[1][half] = state.xmm[0][half] & mask | state.xmm[1][half] & !mask;
            }
        }
        (state.rax, state.rcx, state.rdx) = (self.word(), self.word(), self.word());
        state
    }
}

/// Number of random cases.
pub fn count() -> u64 {
    let cases = std::env::var("TICKBACK_SIMD_CASES").ok();
    cases.and_then(|n| n.parse().ok()).unwrap_or(2000)
}

/// Compares what `expected` says of some states with what the instruction does.
pub fn check(name: &str, bytes: &[u8], cases: u64, expected: impl Fn(State) -> State) {
    let insn = Insn::new(bytes);
    let mut random = Random::new(bytes.iter().fold(0, |seed, &b| seed << 8 | u64::from(b)));
    for _ in 0..cases {
        let before = random.state();
        let ours = expected(before);
        let mut host = insn.run(before);
        if ours.flags == before.flags {
            host.flags = ours.flags;
        }
        assert_eq!(ours, host, "{name} (left: ours) of {before:#x?}");
    }
}

/// Of an instruction that writes xmm0, from xmm0 and xmm1 as (low, high).
pub fn check_two(name: &str, bytes: &[u8], cases: u64, expected: impl Fn([u64; 2], [u64; 2]) -> [u64; 2]) {
    check(name, bytes, cases, |mut s| {
        s.xmm[0] = expected(s.xmm[0], s.xmm[1]);
        s
    });
}
