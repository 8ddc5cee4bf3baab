//! Positions, virtual time, events, the event log and the one door.
//!
//! Everything that happens to a machine is one of two things: an [`Input`] came from outside, or
//! the machine itself caused an [`Effect`] at the CPU's edge. Both pass a [`Door`]; there is no
//! other way in or out:
//!
//! ```text
//!   terminal, images ──► live door ──► Recording ──► machine ──► effects
//!                                         │  ▲                      │
//!                                         ▼  └──────────────────────┘
//!                                      `events` ──► Replaying ──► machine ──► compared
//! ```
//!
//! A position in a run is its [`Icount`] alone, and the only clock of a guest is [`VirtualTime`],
//! which a [`Clock`] computes from it. This crate knows no guest and no device, and reads no host
//! clock. The layout of the log is in docs/format.md.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod display;
mod door;
mod event;
mod file;
mod kind;
mod log;
mod position;
mod recording;
mod replaying;
mod scripted;

pub use display::{Display, Glyph};
pub use door::{Divergence, Door, DoorError, End, Idle, LogPosition, Ready};
pub use event::{
    BLOCK_SIZE, Body, DebuggerWrite, Effect, Event, Input, MAX_NETWORKS, VIRTIO_CONSOLE, digest,
};
pub use file::open_regular;
pub use kind::{Kind, KindSet, UnknownKind};
pub use log::{Events, LOG_VERSION, LogError, LogReader, LogWriter, LostEffects, Recovered};
pub use position::{Clock, Icount, VirtualTime};
pub use recording::Recording;
pub use replaying::Replaying;
pub use scripted::{Due, ScriptedDoor};
