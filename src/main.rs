//! The tickback command line: one file a subcommand.
//!
//! The guest's console is on standard output; what tickback itself has to say is on standard error, a line that
//! begins with `tickback:`. Errors end in one line that says what, where and what to do. `exit` is only here.
// The command line talks to people, so it prints; and it measures what it did in host time.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod archive;
mod boot;
mod cut;
mod debugger;
mod demo;
mod diff;
mod disk;
mod engine;
mod info;
mod listing;
mod log;
mod outcome;
mod pack;
mod private;
mod progress;
mod prune;
mod record;
mod replay;
mod run;
mod sandbox;
mod screen;
mod session;
mod snapshots;
mod symbols;
mod values;
mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::outcome::Outcome;

/// A full-system emulator that remembers every instruction
///
/// Boots an unmodified RISC-V system, records everything that reaches it from outside, and so can
/// replay the run exactly, and lets gdb run the whole machine backwards.
#[derive(Parser)]
#[command(version, about, long_about, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tickback demo
      Record, replay and debug backwards a small guest that comes with the program
  tickback record -o boot.tick --kernel vmlinux --initrd initramfs.cpio.gz --append console=ttyS0
      Boot Linux and record it (Ctrl-A x ends it, Ctrl-A h explains the keys)
  tickback replay boot.tick
      Run it again, checking every event and every snapshot
  tickback gdb boot.tick --listen 127.0.0.1:1234
      Debug it: gdb-multiarch vmlinux -ex 'target remote 127.0.0.1:1234', then reverse-continue
  tickback diff good.tick bad.tick
      Find the first instruction at which two runs differ

Exit codes: 0 done, or the guest ended; 1 failure; 2 usage; 3 two runs differ; 4 the guest waits for ever.";

#[derive(Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Record(Box<record::Arguments>),
    Run(Box<run::Arguments>),
    Replay(replay::Arguments),
    Gdb(debugger::Arguments),
    Diff(diff::Arguments),
    Info(info::Arguments),
    Log(log::Arguments),
    Snapshots(snapshots::Arguments),
    Screen(screen::Arguments),
    Symbols(symbols::Arguments),
    Verify(verify::Arguments),
    Pack(pack::PackArguments),
    Unpack(pack::UnpackArguments),
    Cut(cut::Arguments),
    Prune(prune::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output and are no mistake; clap knows.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            // Without a command: all of them, and that one is needed.
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = error.print();
            } else {
                eprintln!("tickback: {}", outcome::in_a_line(&error.render().to_string()));
            }
            return outcome::usage();
        }
    };
    let result = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Gdb(arguments) => debugger::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Snapshots(arguments) => snapshots::run(&arguments),
        Command::Screen(arguments) => screen::run(&arguments),
        Command::Symbols(arguments) => symbols::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Pack(arguments) => pack::pack(&arguments),
        Command::Unpack(arguments) => pack::unpack(&arguments),
        Command::Cut(arguments) => cut::run(&arguments),
        Command::Prune(arguments) => prune::run(&arguments),
    };
    match result {
        Ok(outcome) => outcome.code(),
        Err(error) => Outcome::report(&error),
    }
}
