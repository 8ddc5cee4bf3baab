//! Guest code of any bytes, by three engines: what the interpreter does is what translated code does, with passes and without.

use std::cell::RefCell;
use std::sync::Arc;

use firmware::layout;
use icount::{Icount, ScriptedDoor};
use machine::boot::{Bios, Boot, prepare};
use machine::config::{OnShutdown, StartMode};
use machine::{Config, FirstStep, Machine, Snapshot, Stopped, Stops, board};
use snapshot::{PAGE_SIZE, PageId, PageRef, PageSource, SnapshotError};

use super::bytes::Bytes;
use crate::subject::{Subject, smp};
use crate::ways::With;

/// Steps at which the engines are compared.
const PLACES: [u64; 3] = [40, 90, 600];
/// Runs after which the machines are made anew: doors keep what comes out of consoles.
const RUNS: u32 = 2_000;

/// Of snapshots whose pages are all in memory.
pub struct NoPages;

impl PageSource for NoPages {
    fn pages(&self, ids: &[PageId]) -> snapshot::Result<Vec<Arc<snapshot::Page>>> {
        ids.iter().map(|id| self.page(*id)).collect()
    }

    fn page(&self, id: PageId) -> snapshot::Result<Arc<snapshot::Page>> {
        Err(SnapshotError::Unknown {
            id,
            path: "memory".into(),
        })
    }
}

/// The same machine under each engine, at power-on.
pub struct Bench {
    config: Config,
    images: board::Images,
    machines: Vec<Machine>,
    begin: Option<Snapshot>,
    runs: u32,
}

impl Bench {
    /// A machine with this in its memory.
    pub const fn new(config: Config, images: board::Images) -> Bench {
        Bench {
            config,
            images,
            machines: Vec::new(),
            begin: None,
            runs: 0,
        }
    }

    fn fill(&mut self) {
        self.machines.clear();
        for with in [With::Interp, With::Jit, With::PlainJit] {
            let door = (0..)
                .zip(&self.config.drives)
                .fold(ScriptedDoor::new(), |door, (n, drive)| {
                    let bytes = drive.sectors as usize * 512;
                    door.drive(n, (0..bytes).map(|i| (i / 64) as u8).collect())
                });
            let engine = with.engine().expect("the host has what translation needs");
            let machine = board::build(&self.config, self.images.clone(), Box::new(door), engine);
            self.machines.push(machine.expect("a machine of ours"));
        }
        self.begin = Some(self.machines[0].save().expect("it is saved"));
        self.runs = 0;
    }

    /// Runs all from power-on with these pages in memory (number from the start of RAM, content), compares their states, and sees that one
    /// that is saved, restored and saved again is the same.
    pub fn run(&mut self, pages: &[(u64, Vec<u8>)], places: &[u64]) {
        if self.machines.is_empty() || self.runs > RUNS {
            self.fill();
        }
        self.runs += 1;
        let Some(begin) = &self.begin else { return };
        let mut start = begin.clone();
        for (number, content) in pages {
            for (page, chunk) in (*number..).zip(content.chunks(PAGE_SIZE)) {
                let mut bytes = [0; PAGE_SIZE];
                bytes[..chunk.len()].copy_from_slice(chunk);
                start
                    .tree
                    .set(page, PageRef::of(Arc::new(bytes)))
                    .expect("a page of RAM");
            }
        }
        for machine in &mut self.machines {
            machine.restore(&start, &NoPages).expect("a good state");
        }
        for place in places {
            let mut first: Option<(Stopped, Snapshot)> = None;
            for machine in &mut self.machines {
                let stopped = machine.run(Icount(*place), &Stops::default(), FirstStep::Counts);
                let stopped = stopped.expect("no guest makes the machine fail");
                let seen = machine.save().expect("it is saved");
                match &first {
                    None => first = Some((stopped, seen)),
                    Some((other, interpreted)) => {
                        assert_eq!(*other, stopped, "how it stopped");
                        assert_eq!(interpreted.at, seen.at, "where it stopped");
                        assert!(
                            interpreted.state == seen.state,
                            "the states differ at {}",
                            seen.at
                        );
                        assert!(
                            interpreted.root() == seen.root(),
                            "the memories differ at {}",
                            seen.at
                        );
                    }
                }
            }
            let Some((stopped, seen)) = first else { return };
            let machine = &mut self.machines[0];
            machine
                .restore(&seen, &NoPages)
                .expect("what is saved can be restored");
            assert!(
                machine.save().expect("it is saved").state == seen.state,
                "saved again it differs"
            );
            if let Stopped::End(_) = stopped {
                break;
            }
        }
    }
}

/// Machine code words of RISC-V that load the registers from behind themselves, and go on in a mode.
fn riscv_prologue(mode: u8, fs: u8) -> Vec<u8> {
    let mut words: Vec<u32> = vec![
        0x0000_0f97, // auipc x31,0
        0x200f_8f93, // addi x31,x31,0x200: behind the prologue, the table
        0x0f8f_bf03, // ld x30,248(x31): the handler's address, filled in below as an offset
        0x01ff_0f33, // add x30,x30,x31
        0x305f_1073, // csrw mtvec,x30
        0xfff0_0f13, // li x30,-1
        0x3b0f_1073, // csrw pmpaddr0,x30
        0x01f0_0f13, // li x30,31
        0x3a0f_1073, // csrw pmpcfg0,x30
        0x100f_bf03, // ld x30,256(x31): mstatus
        0x300f_1073, // csrw mstatus,x30
        0x108f_bf03, // ld x30,264(x31): what follows
        0x01ff_0f33, // add x30,x30,x31
        0x341f_1073, // csrw mepc,x30
    ];
    // fld fN and ld xN, N*8(x31)
    words.extend((0..32).map(|n| (n * 8) << 20 | 31 << 15 | 3 << 12 | n << 7 | 0x07));
    words.extend((1..31).map(|n| (n * 8) << 20 | 31 << 15 | 3 << 12 | n << 7 | 0x03));
    words.push(0x3020_0073); // mret
    if fs == 0 {
        // Floating point is off: its loads would trap.
        words.drain(14..46);
    }
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    code.resize(0x200, 0);
    let _ = mode;
    code
}

/// RISC-V code: mode, registers and instructions out of the input.
pub fn riscv_code(input: &[u8]) {
    thread_local! {
        static BENCH: RefCell<Bench> = RefCell::new({
            let mut subject = smp();
            subject.config.memory = 2 << 20;
            subject.config.harts.truncate(1);
            Bench::new(subject.config, vec![(layout::RAM, vec![0; PAGE_SIZE])])
        });
    }
    let mut bytes = Bytes::new(input);
    let mode = bytes.byte();
    let (mpp, fs) = ([3u64, 1, 0, 0][usize::from(mode & 3)], mode >> 2 & 3);
    let mut page = riscv_prologue(mode, fs);
    let base = layout::RAM + 0x400;
    for n in 0..31u64 {
        let value = bytes.byte();
        // Small numbers, addresses nearby, and bits all over.
        let value = match value & 3 {
            0 => u64::from(value >> 2),
            1 => base + u64::from(value) * 8,
            2 => u64::from(value)
                .rotate_right(value.into())
                .wrapping_mul(0x0101_0101),
            _ => (value as i8) as u64,
        };
        page.extend(value.to_le_bytes());
        debug_assert!(n < 31);
    }
    const HANDLER: u64 = 0x300;
    const CODE: u64 = 0x400;
    let mstatus = mpp << 11 | u64::from(fs) << 13 | u64::from(mode >> 4) << 17;
    page.extend((HANDLER - 0x200).to_le_bytes());
    page.extend(mstatus.to_le_bytes());
    page.extend((CODE - 0x200).to_le_bytes());
    page.resize(HANDLER as usize, 0);
    // Skips the instruction that trapped.
    for word in [
        0x3402_9073u32,
        0x3410_22f3,
        0x0042_8293,
        0x3412_9073,
        0x3400_22f3,
        0x3020_0073,
    ] {
        page.extend(word.to_le_bytes());
    }
    page.resize(CODE as usize, 0);
    page.extend(bytes.take(PAGE_SIZE - page.len()));
    BENCH.with_borrow_mut(|bench| bench.run(&[(0, page)], &PLACES));
}

/// A PC without a BIOS, and where its first instruction is.
pub fn pc(prepared: &Subject) -> (Config, board::Images) {
    let mut config = prepared.config.clone();
    config.on_shutdown = OnShutdown::Stop;
    (config, prepared.images.clone())
}

/// x86 code in 16-, 32- and 64-bit mode.
pub fn x86_code(input: &[u8]) {
    thread_local! {
        static BENCHES: RefCell<[Bench; 3]> = RefCell::new({
            let demo = Subject::x86_demo().expect("it is placed");
            let (long, images) = pc(&demo);
            let mut protected = long.clone();
            protected.harts[0].mode = StartMode::Protected;
            let boot = Boot {
                board: "pc".into(),
                memory: 8 << 20,
                // From the reset vector to the beginning of the code.
                bios: Bios::File(reset_to(0x8000)),
                on_shutdown: OnShutdown::Stop,
                ..Boot::default()
            };
            let (real, bios) = prepare(&boot).expect("a BIOS of ours");
            [Bench::new(real, bios), Bench::new(protected, images.clone()), Bench::new(long, images)]
        });
    }
    let mut bytes = Bytes::new(input);
    let mode = usize::from(bytes.byte() % 3);
    let mut code = Vec::new();
    if mode > 0 {
        // SSE on, as systems have it.
        code.extend([0x0f, 0x20, 0xe0, 0x0d, 0x00, 0x06, 0x00, 0x00, 0x0f, 0x22, 0xe0]);
    }
    for register in [0u8, 1, 2, 3, 5, 6, 7] {
        let value = bytes.byte();
        let value = match value & 3 {
            0 => u64::from(value >> 2),
            1 => 0x10_0000 + u64::from(value) * 64,
            2 => u64::from(value)
                .rotate_right(value.into())
                .wrapping_mul(0x0101_0101),
            _ => (value as i8) as u64,
        };
        if mode == 2 {
            code.push(0x48);
        }
        code.push(0xb8 + register);
        code.extend(&value.to_le_bytes()[..[2, 4, 8][mode]]);
    }
    code.extend(bytes.take(PAGE_SIZE - code.len()));
    BENCHES.with_borrow_mut(|benches| {
        let bench = &mut benches[mode];
        let entry = if mode == 0 {
            0x8000
        } else {
            bench.config.harts[0].pc
        };
        let page = entry / PAGE_SIZE as u64;
        let mut content = vec![0x90; (entry % PAGE_SIZE as u64) as usize];
        content.extend(code);
        bench.run(&[(page, content)], &PLACES);
    });
}

/// A BIOS that jumps to real-mode code in RAM.
fn reset_to(offset: u16) -> Vec<u8> {
    let mut rom = vec![0xff; 64 << 10];
    let [low, high] = offset.to_le_bytes();
    rom[0xfff0..0xfff5].copy_from_slice(&[0xea, low, high, 0, 0]);
    rom
}
