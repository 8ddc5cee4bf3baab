//! x86-64's repeated string instructions: made many at once or one by one, they do the same.
use std::num::NonZeroU64;

use icount::Icount;
use machine::config::{OnShutdown, StartMode};
use machine::{Config, FirstStep, HartStart, Machine, Stops};

use super::{Quiet, engine};

pub(super) const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x20_0000;
const BYTES: usize = 3 * 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Copies and fills, to and fro, over and beside one another; and how many steps they make.
fn program(random: &mut Random) -> (Vec<u8>, u64) {
    let (mut code, mut steps) = (Vec::new(), 0);
    for _ in 0..60 {
        let size = 1 << random.below(3);
        let count = 1 + random.below(700 / size);
        let room = BYTES as u64 - 800;
        let from = random.below(room);
        // Often near.
        let to = match random.below(3) {
            0 => random.below(room),
            _ => (from + 40).saturating_sub(random.below(80)).min(room),
        };
        let down = random.below(2) == 1;
        let last = if down { (count - 1) * size } else { 0 };
        for (opcode, value) in [
            (0xb8, random.below(1 << 32)),
            (0xbe, DATA + from + last),
            (0xbf, DATA + to + last),
            (0xb9, count),
        ] {
            code.push(opcode);
            code.extend_from_slice(&(value as u32).to_le_bytes());
        }
        code.push(if down { 0xfd } else { 0xfc });
        if size == 2 {
            code.push(0x66);
        }
        let op = if random.below(4) == 0 { 0xaa } else { 0xa4 };
        code.extend_from_slice(&[0xf3, op + u8::from(size != 1)]);
        steps += 5 + count;
    }
    code.extend_from_slice(&[0xeb, 0xfe]);
    (code, steps)
}

/// A PC whose one processor begins at `CODE` in 32-bit mode.
pub(super) fn config() -> Config {
    Config {
        board: "pc".into(),
        memory: 16 << 20,
        harts: vec![HartStart {
            pc: CODE,
            args: [0; 3],
            mode: StartMode::Protected,
        }],
        ns_per_step: NonZeroU64::MIN,
        slice: 50_000,
        schedule_seed: None,
        seed: 0,
        date_ns: 0,
        drives: Vec::new(),
        tohost: None,
        semihosting: None,
        cdrom: None,
        testdev: false,
        firmware_files: Vec::new(),
        networks: Vec::new(),
        virtio_console: false,
        on_shutdown: OnShutdown::Stop,
    }
}

fn machine(code: Vec<u8>, data: Vec<u8>) -> Machine {
    let images = vec![(CODE, code), (DATA, data)];
    machine::board::build(&config(), images, Box::new(Quiet::default()), engine()).unwrap()
}

#[test]
fn many_elements_at_once_are_as_one_by_one() {
    let mut random = Random(7);
    for round in 0..20 {
        let (code, steps) = program(&mut random);
        let data: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
        let run = |stretch: u64| {
            let mut machine = machine(code.clone(), data.clone());
            for end in (1..).map(|n| n * stretch) {
                let end = Icount(steps.min(end));
                machine.run(end, &Stops::default(), FirstStep::Counts).unwrap();
                if end.0 == steps {
                    break;
                }
            }
            machine
        };
        let (mut whole, mut single) = (run(steps), run(1));
        assert_eq!(whole.root().unwrap(), single.root().unwrap(), "round {round}");
    }
}
