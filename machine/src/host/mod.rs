//! The host's side of a live run: terminal, standard input and output, image files, clock, signals.
//!
//! ```text
//!   keyboard ─ thread ─▶ Control ──▶ LiveDoor ──▶ (Recording) ──▶ machine
//!   network  ─ threads ▶    │      (and frames out) ◀────────────────┤
//!   signals  ─ thread ─▶    │                                        │
//!                           ▼ requests                               ▼ console bytes
//!                     the command line ◀──────────────────────── Console ─▶ stdout
//! ```
//!
//! This is the one place of the emulator that reads a host clock, a terminal or an image (DESIGN law 2).
//! What comes in here reaches the guest only through [`LiveDoor`], as inputs; what the user asks of
//! tickback itself (quit, monitor) becomes a [`Request`], for which the run loop's owner looks when
//! the run comes back. Nothing here blocks while harts have something to do.
// The host's clock is an input here, and only here.
#![allow(clippy::disallowed_methods)]

mod clock;
mod console;
mod control;
mod display;
mod door;
mod drive;
mod error;
mod file;
mod keyboard;
mod matcher;
mod network;
mod passt;
mod script;
mod signals;
mod terminal;
mod typing;

pub use clock::{Stopwatch, Tick, date};
pub use console::{Console, Shown};
pub use control::{Control, Request};
pub use devices::pc::keys;
pub use display::DisplayView;
pub use door::{ClockMode, LiveDoor};
pub use drive::{DriveImage, Drives};
pub use error::HostError;
pub use file::{free_bytes, open_file, read_text};
pub use keyboard::Keyboard;
pub use network::{Network, NetworkEnd, Role};
pub use script::{ConsoleScript, ScriptError, unescape, unknown_key};
pub use signals::Signals;
pub use terminal::Terminal;
