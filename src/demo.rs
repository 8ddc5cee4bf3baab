//! `tickback demo`: the whole idea on a guest that comes with the program. Two tasks share a list without a
//! lock; some million steps later the guest finds it corrupt. Recorded, replayed, and searched
//! backwards for the instruction that wrote the bad value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use firmware::Guest;
use icount::{Body, Effect, Event, Icount};
use machine::boot::{Bios, Boot, prepare};
use machine::cpu::Cpu;
use machine::engine::Engine;
use machine::host::{Console, Control, LiveDoor};
use machine::{AddressKind, Backward, FirstStep, History, Stopped, Stops, Timeline, TimelineOptions, Watch};

use crate::engine::EngineArgument;
use crate::listing::Listing;
use crate::outcome::Outcome;
use crate::private;
use crate::record::RecordingArguments;

/// Record, replay and debug backwards a small guest that comes with the program
///
/// Two tasks share a list, and a timer interrupt at the wrong moment corrupts it. The crash comes much
/// later; going backwards finds the instruction that did it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Keep the recording in this folder; must not exist
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The guest's processor
    #[arg(long, value_enum, default_value_t = GuestArgument::Riscv64)]
    guest: GuestArgument,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
}

/// Guests that tell the same story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GuestArgument {
    /// RISC-V, on the board riscv-virt
    #[value(name = "riscv64")]
    Riscv64,
    /// x86-64, on the board pc
    #[value(name = "x86_64")]
    X86,
}

/// The demo for one of them.
struct Demo {
    board: &'static str,
    guest: Guest,
    elf: Vec<u8>,
    /// How many of a hart's registers are general ones.
    registers: usize,
    /// Whose interrupt switches tasks.
    timer: &'static str,
}

impl Demo {
    fn new(guest: GuestArgument) -> Self {
        match guest {
            GuestArgument::Riscv64 => {
                let guest = firmware::demo();
                Self {
                    board: "riscv-virt",
                    elf: guest.to_elf(),
                    guest,
                    registers: 32,
                    timer: "the machine timer's",
                }
            }
            GuestArgument::X86 => {
                let demo = firmware::x86_demo();
                Self {
                    board: "pc",
                    elf: demo.to_elf(),
                    guest: demo.guest,
                    registers: 16,
                    timer: "the local APIC timer's",
                }
            }
        }
    }
}

/// Steps after which a demo that does not crash has gone wrong; it takes some seven million.
const LIMIT: Icount = Icount(200_000_000);

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let temporary = tempfile::tempdir().context("can't make a temporary folder")?;
    let folder = arguments
        .output
        .clone()
        .unwrap_or_else(|| temporary.path().join("demo.tick"));
    let engine = || arguments.engine.engine();
    let demo = Demo::new(arguments.guest);
    let mut out = Listing::new();

    out.line("== recording a guest of two tasks that share a list; its console:")?;
    out.flush()?;
    let steps = record(&demo, &folder, engine())?;
    out.line("")?;

    out.line("== replaying it, comparing every event and every state root")?;
    out.flush()?;
    let mut history = History::open(&folder, engine())?;
    let verified = history.verify(|_| {})?;
    out.line(&format!(
        "replay: {} steps, {} events, {} roots, all equal",
        verified.steps, verified.events, verified.roots
    ))?;
    out.line("")?;

    out.line(&format!("== going backwards from the crash at icount {steps}"))?;
    out.flush()?;
    for line in Search::new(&demo, history).report()? {
        out.line(&line)?;
    }
    out.line("")?;
    match &arguments.output {
        Some(folder) => {
            let elf = folder.join("demo.elf");
            private::write(&elf, &demo.elf)?;
            out.line("== the same by hand, with gdb:")?;
            out.line(&format!(
                "tickback gdb {} --listen 127.0.0.1:1234",
                folder.display()
            ))?;
            out.line(&format!(
                "gdb-multiarch {} -ex 'target remote 127.0.0.1:1234'",
                elf.display()
            ))?;
        }
        None => {
            out.line("== keep the recording with --output FOLDER, and look into it with gdb")?;
        }
    }
    out.end()?;
    Ok(Outcome::Done)
}

/// Records the guest to its end.
fn record(demo: &Demo, folder: &Path, engine: Engine) -> Result<Icount> {
    let boot = Boot {
        board: demo.board.into(),
        memory: 16 << 20,
        bios: Bios::None,
        kernel: Some(demo.elf.clone()),
        ..Boot::default()
    };
    let (config, images) = prepare(&boot)?;
    let control = Control::new();
    let door = LiveDoor::new(control.clone(), Console::stdout(Some(control)));
    let options = RecordingArguments::every(1 << 20).options([("guest".into(), "demo".into())].into());
    let mut history = History::record(folder, &config, images, Box::new(door), engine, options)?;
    let end = loop {
        match history.run_live(LIMIT, &Stops::default(), FirstStep::Counts)? {
            Stopped::End(end) => break end,
            _ if history.machine().icount() >= LIMIT => {
                bail!("the demo did not crash within {LIMIT} steps: a defect of tickback, please report it")
            }
            _ => {}
        }
    };
    Ok(history.finish(end)?.at)
}

/// The search for the culprit.
struct Search<'a> {
    demo: &'a Demo,
    timeline: Timeline<History>,
}

impl<'a> Search<'a> {
    fn new(demo: &'a Demo, history: History) -> Self {
        Self {
            demo,
            timeline: Timeline::new(history, TimelineOptions::default()),
        }
    }

    fn report(&mut self) -> Result<Vec<String>> {
        let end = self.timeline.position();
        let word = self.symbol("demo_bad_address")?;
        let address = self.word(word)?;
        let value = self.word(address)?;
        let mut lines = vec![format!(
            "the bad value is {value:#x}, at {} {address:#x}; who wrote it?",
            self.place(address)
        )];
        let stops = Stops {
            watches: vec![Watch {
                addr: address,
                len: 8,
                read: false,
                write: true,
            }],
            ..Stops::default()
        };
        let Backward::Found { at, .. } = self.timeline.reverse_continue(&stops, Icount::ZERO)? else {
            bail!("nobody wrote {address:#x}: a defect of tickback, please report it");
        };
        let interrupts = self.interrupts_before(at)?;
        let pc = self.hart()?.pc();
        lines.push(format!(
            "icount       {at}, {} steps before the crash",
            end.since(at)
        ));
        lines.push(format!("pc           {pc:#x} <{}>", self.place(pc)));
        lines.push(format!("instruction  {}", self.instruction()?));
        lines.extend(self.registers()?);
        let old = self.word(address)?;
        self.timeline.seek(Icount(at.0 + 1))?;
        let new = self.word(address)?;
        lines.push(format!("memory       [{address:#x}] was {old:#x}, is {new:#x}"));
        let mut torn = false;
        for (event, what) in interrupts.iter().zip(["interrupt", "and before"]) {
            self.timeline.seek(event.at)?;
            let pc = self.hart()?.pc();
            torn |= self.place(pc).starts_with("list_remove+");
            lines.push(format!(
                "{what:<12} {}, at icount {}, {} steps before the write, in front of {pc:#x} <{}>",
                self.demo.timer,
                event.at,
                at.since(event.at),
                self.place(pc)
            ));
        }
        if torn {
            lines.push("so list_remove was interrupted between reading `prev` and using it".into());
        }
        Ok(lines)
    }

    /// The last two interrupts at or before `at`, the later one first.
    fn interrupts_before(&mut self, at: Icount) -> Result<Vec<Event>> {
        let log = self.timeline.machine_mut().log()?;
        let mut found: Vec<Event> = Vec::new();
        for event in Arc::as_ref(&log).events_from(Icount::ZERO)? {
            let event = event?;
            if event.at > at {
                break;
            }
            if matches!(event.body, Body::Effect(Effect::Interrupt { .. })) {
                found.truncate(1);
                found.insert(0, event);
            }
        }
        Ok(found)
    }

    fn symbol(&self, name: &str) -> Result<u64> {
        self.demo
            .guest
            .symbol(name)
            .with_context(|| format!("the demo has no symbol {name}"))
    }

    fn hart(&self) -> Result<&dyn Cpu> {
        self.timeline
            .machine()
            .machine()
            .hart(0)
            .context("the demo has no hart")
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<()> {
        let machine = self.timeline.machine_mut().machine_mut();
        if machine.debug_read(AddressKind::Physical, address, out) {
            return Ok(());
        }
        bail!("{address:#x} is not in the demo's memory");
    }

    fn word(&mut self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn instruction(&mut self) -> Result<String> {
        let pc = self.hart()?.pc();
        // As long as an instruction can be.
        let mut bytes = [0; 16];
        self.read(pc, &mut bytes)?;
        Ok(self.hart()?.disassemble(pc, &bytes).0)
    }

    /// The general registers, four a line.
    fn registers(&self) -> Result<Vec<String>> {
        let hart = self.hart()?;
        let mut cells = Vec::new();
        for register in hart.registers().iter().take(self.demo.registers) {
            let bytes = hart.read_register(register.number).unwrap_or_default();
            let value = bytes
                .iter()
                .rev()
                .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            cells.push(format!("{:<4} {value:#018x}", register.name));
        }
        let rows = cells.chunks(4).enumerate().map(|(index, row)| {
            let margin = if index == 0 { "registers" } else { "" };
            format!("{margin:<12} {}", row.join("  "))
        });
        Ok(rows.collect())
    }

    /// A symbol and an offset.
    fn place(&self, address: u64) -> String {
        let below = self
            .demo
            .guest
            .symbols
            .iter()
            .rev()
            .find(|(_, start)| *start <= address);
        match below {
            Some((name, start)) if *start == address => name.clone(),
            Some((name, start)) => format!("{name}+{}", address - start),
            None => format!("{address:#x}"),
        }
    }
}
