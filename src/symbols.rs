//! `tickback symbols`: a recorded kernel's symbols, for gdb.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use machine::snapshot::Replay;
use machine::{History, Timeline, TimelineOptions};

use crate::engine::EngineArgument;
use crate::outcome::Outcome;
use crate::private;
use crate::session::say;
use crate::values::{self, Place};

/// Make a symbol file for gdb from the memory of a recorded Linux kernel
///
/// Distribution kernels are stripped, and with KASLR no file knows where they run; but the kernel itself keeps the names
/// and addresses of its functions and variables (kallsyms). They come out as an ELF file with addresses as they were
/// when the kernel ran: `gdb-multiarch KERNEL.ELF`, or `symbol-file` or `add-symbol-file KERNEL.ELF` in gdb. Symbols of
/// modules are not among them.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The recording's folder
    #[arg(value_name = "RECORDING", value_parser = values::recording)]
    recording: PathBuf,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// When: an icount, a part of the recording (50%), or `end`
    #[arg(long, default_value = "end", value_name = "N|P%|end", value_parser = values::place)]
    at: Place,
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    engine: EngineArgument,
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut history = History::open(&arguments.recording, arguments.engine.engine())?;
    let (begin, end) = (history.begin(), history.log()?.end().0);
    let at = arguments.at.in_recording(begin, end)?;
    let mut timeline = Timeline::new(history, TimelineOptions::default());
    timeline.seek(at)?;
    let history = timeline.machine_mut();
    let machine = machine::board::elf_machine(&history.manifest().config.board)?;
    let symbols = history.machine_mut().kernel_symbols();
    let symbols = symbols
        .ok_or_else(|| anyhow!("no kallsyms found at icount {at}: is a Linux kernel running then?"))?;
    let output = &arguments.output;
    private::write(output, &symbols.to_elf(machine))?;
    if let Some(banner) = &symbols.banner {
        say(banner);
    }
    if !symbols.mapped {
        say("no hart maps the kernel at that moment: addresses are as its tables have them");
    }
    let text = symbols.text().unwrap_or_default();
    say(&format!(
        "{} symbols in {}; the kernel's code begins at {text:#x}",
        symbols.symbols.len(),
        output.display()
    ));
    Ok(Outcome::Done)
}
