//! Engines as the user chooses them.

use clap::ValueEnum;
use machine::{Engine, EngineKind};

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
