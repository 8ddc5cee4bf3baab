//! Engines as the user chooses them.

use std::fs::File;
use std::path::Path;

use clap::ValueEnum;
use machine::host::Stopwatch;
use machine::{Engine, EngineKind, Passes};

use crate::session::say;

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// Translation to host code
    Jit,
    /// Interpreter
    Interp,
}

impl EngineArgument {
    /// A new engine: the one chosen, or the interpreter with a word about it.
    pub fn engine(self) -> Engine {
        match self {
            Self::Interp => Engine::interp(),
            Self::Jit => Engine::new(EngineKind::Jit).unwrap_or_else(|error| {
                say(&format!("{error}; interpreting instead"));
                Engine::interp()
            }),
        }
    }

    /// The one chosen, and the other one to compare it with.
    pub const fn both(self) -> [EngineKind; 2] {
        match self {
            Self::Jit => [EngineKind::Jit, EngineKind::Interp],
            Self::Interp => [EngineKind::Interp, EngineKind::Jit],
        }
    }
}

/// The engine, and what is asked of it. None of this is part of the guest's state.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Run")]
pub struct EngineOptions {
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = EngineArgument::Jit)]
    pub engine: EngineArgument,
    /// Translate with these passes only: names with commas between them, `all`, `none`, or -NAME for all but one; to find out
    /// which one is at fault
    #[arg(long, value_name = "LIST", value_parser = passes, allow_hyphen_values = true)]
    jit_passes: Option<Passes>,
    /// Write the names of translated blocks to /tmp/perf-PID.map, where `perf report` looks for them
    #[arg(long)]
    perf_map: bool,
    /// Say at the end how many steps were made, and how fast, and what the translator did; of a recording, how long snapshots stopped
    /// the guest
    #[arg(long)]
    pub stats: bool,
}

impl EngineOptions {
    /// A new engine as wanted.
    pub fn engine(&self) -> Engine {
        let mut engine = self.engine.engine();
        if let Some(passes) = self.jit_passes {
            engine.set_passes(passes);
        }
        engine
    }

    /// The engine of the run itself, which writes and measures what is asked for. Before the command confines itself.
    pub fn measured(&self) -> Engine {
        let mut engine = self.engine();
        if self.perf_map {
            let path = format!("/tmp/perf-{}.map", std::process::id());
            match File::create_new(Path::new(&path)) {
                Ok(file) => engine = engine.with_perf_map(Box::new(file)),
                Err(error) => say(&format!("can't write {path}: {error}")),
            }
        }
        if self.stats {
            let watch = Stopwatch::start();
            engine = engine.with_clock(Box::new(move || watch.elapsed()));
        }
        engine
    }

    /// The kinds of the one chosen and of the other one, to compare them.
    pub fn both(&self) -> [EngineKind; 2] {
        self.engine.both().map(|kind| match (kind, self.jit_passes) {
            (EngineKind::Jit, Some(passes)) => EngineKind::JitWith(passes),
            _ => kind,
        })
    }
}

fn passes(list: &str) -> Result<Passes, String> {
    Passes::listed(list).ok_or_else(|| {
        let names: Vec<&str> = Passes::names().collect();
        format!("the passes are {}; also all, none, and -NAME", names.join(", "))
    })
}
