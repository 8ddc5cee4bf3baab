//! Random effects, inputs and runs for the property tests of this crate.

use proptest::prelude::*;

use crate::log::effects::Logged;
use crate::{BLOCK_SIZE, DebuggerWrite, Effect, Icount, Input, VirtualTime};

/// A number of any size, small ones as likely as large ones.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

/// Any effect. A few of them come often, so that runs arise.
pub fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        3 => Just(Effect::Mmio { write: false, addr: 0x1000_0005, size: 1, value: 0x60 }),
        1 => (any::<bool>(), number(), number(), 0u32..4)
            .prop_map(|(write, addr, value, log)| Effect::Mmio { write, addr, size: 1 << log, value }),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(line, level)| Effect::Line { line, level }),
        1 => number().prop_map(|cause| Effect::Interrupt { cause }),
        1 => (any::<bool>(), number(), any::<u32>(), any::<u64>())
            .prop_map(|(write, addr, len, digest)| Effect::Dma { write, addr, len, digest }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(port, byte)| Effect::ConsoleOut { port, byte }),
        1 => any::<u8>().prop_map(|to| Effect::HartSwitch { to }),
        2 => (any::<bool>(), any::<u16>(), any::<u32>(), 0u32..3)
            .prop_map(|(write, port, value, log)| Effect::Port { write, port, size: 1 << log, value }),
        1 => (any::<u8>(), any::<u16>(), any::<u64>())
            .prop_map(|(port, len, digest)| Effect::FrameOut { port, len, digest }),
        1 => Just(Effect::Reset),
        1 => any::<u32>().prop_map(|code| Effect::PowerOff { code }),
    ]
}

/// An input that is delivered.
pub fn input() -> impl Strategy<Value = Input> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(port, byte)| Input::Console { port, byte }),
        (number(), bytes()).prop_map(|(addr, bytes)| Input::Debugger(DebuggerWrite::Memory { addr, bytes })),
        (any::<u8>(), any::<u32>(), bytes()).prop_map(|(hart, register, bytes)| {
            Input::Debugger(DebuggerWrite::Register {
                hart,
                register,
                bytes,
            })
        }),
        (any::<u16>(), any::<bool>()).prop_map(|(code, down)| Input::Key { code, down }),
        (any::<u8>(), bytes()).prop_map(|(port, data)| Input::Frame { port, data }),
        Just(Input::Reset),
    ]
}

/// How far the next event is from the last: steps and idle time.
fn distance() -> impl Strategy<Value = (u64, u64)> {
    let steps = prop_oneof![3 => Just(17u64), 1 => Just(0), 1 => 0u64..1 << 40];
    let idle = prop_oneof![4 => Just(0u64), 1 => 0u64..1 << 40];
    (steps, idle)
}

/// Up to `most` effects in order.
pub fn effects(most: usize) -> impl Strategy<Value = Vec<Logged>> {
    let one = (
        distance(),
        prop_oneof![4 => Just(0u8), 1 => any::<u8>()],
        effect(),
    );
    prop::collection::vec(one, 0..most).prop_map(|list| {
        let (mut at, mut time) = (Icount(3), VirtualTime(40));
        list.into_iter()
            .map(|((steps, idle), hart, effect)| {
                at.0 += steps;
                time.0 += steps + idle;
                Logged {
                    at,
                    time,
                    hart,
                    effect,
                }
            })
            .collect()
    })
}

/// What a machine does next.
#[derive(Clone, Debug)]
pub enum Act {
    Effect(u8, Effect),
    Input(Input),
    Disk { drive: u8, block: u64, data: Vec<u8> },
    Progress,
}

/// A run: what happens, and where.
pub fn run(most: usize) -> impl Strategy<Value = Vec<(Icount, VirtualTime, Act)>> {
    let data = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte; BLOCK_SIZE]),
        Just(vec![0; BLOCK_SIZE]),
        any::<u64>().prop_map(|seed| {
            // Incompressible: BLAKE3 as a stream.
            let mut data = vec![0; BLOCK_SIZE];
            blake3::Hasher::new()
                .update(&seed.to_le_bytes())
                .finalize_xof()
                .fill(&mut data);
            data
        }),
    ];
    let act = prop_oneof![
        6 => (0u8..3, effect()).prop_map(|(hart, effect)| Act::Effect(hart, effect)),
        2 => input().prop_map(Act::Input),
        1 => (0u8..2, 0u64..4, data).prop_map(|(drive, block, data)| Act::Disk { drive, block, data }),
        1 => Just(Act::Progress),
    ];
    prop::collection::vec((distance(), act), 0..most).prop_map(|list| {
        let (mut at, mut time) = (Icount::ZERO, VirtualTime::ZERO);
        list.into_iter()
            .map(|((steps, idle), act)| {
                at.0 += steps;
                time.0 += steps + idle;
                (at, time, act)
            })
            .collect()
    })
}
