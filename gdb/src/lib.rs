//! gdb's remote protocol over a machine's timeline: forward, backward, live and recorded.
//!
//! ```text
//!   gdb --- listener.rs --- wire.rs --- gdbstub --- target.rs    registers, memory, breakpoints
//!                             |                     travel.rs    what a resume does to the timeline
//!                          inbox.rs                 watches.rs   watchpoints, translated once
//!                     (bytes, Ctrl-C)               monitor.rs   commands that gdb doesn't know
//! ```
//!
//! The crate only translates. What going backwards means is the timeline's; what a stop condition is, the
//! machine's. Rules:
//! - A stop is a boundary: the hart that gdb is told of is the one that makes the next step there (or, after a
//!   step, the one that made it).
//! - Nothing that gdb sets is written into guest memory, and nothing that it reads has a side effect.
//! - What the machine can't do is said in words on gdb's console, and the session goes on.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arch;
mod console;
mod error;
mod inbox;
mod listener;
mod monitor;
mod numbers;
mod server;
mod target;
mod travel;
mod watches;
mod wire;

pub use error::GdbError;
pub use listener::Listener;
pub use server::{Ended, Options, serve};

/// The gdb script with the `tb-` commands, to be written to a file and sourced.
pub const SCRIPT: &str = include_str!("../tickback.gdb");
