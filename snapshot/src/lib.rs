//! Snapshots of a whole machine, and the timeline that goes both ways through them.
//!
//! This crate knows no device and no guest: pages have keys and bytes, and everything else of a machine is one
//! serialised state.
//!
//! ```text
//!            pages written since the last one, state
//! machine ──────────────────────────────────────────▶ Recorder ──▶ packs/NNNN.pack, checkpoints
//!    ▲                                                                     │
//!    └───── Timeline: seek, step back, search ◀── Tree, state ◀── Checkpoints::load
//! ```
//!
//! - [`Tree`]: the persistent map from keys to pages. A snapshot in memory is a clone of one; two of them differ
//!   where their nodes do; equal contents have equal roots.
//! - [`Store`]: pages and tree nodes on disk by their BLAKE3 hash, each once, compressed in groups. [`Recorder`] fills it
//!   on background threads, [`Checkpoints`] lists and loads what was recorded (also while it is being recorded),
//!   [`RootStream`] computes the same roots without a disk, for a replay to compare.
//! - [`grid`]: at which positions snapshots stand, and which old ones may go.
//! - [`Timeline`]: brings any [`Replay`] to any position of its history, and searches it backward.
//!
//! Rules: pages are written before the nodes that name them, those before the checkpoint; a block is checked
//! against its hash whenever it's read; no file's contents make this crate panic or allocate without bound. The files' layout
//! is in docs/format.md, and at the top of `pack` and `checkpoint`.
//!
//! Not here: appending to a recording that was closed.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checkpoint;
mod copy;
mod error;
pub mod grid;
mod ladder;
mod node;
mod pack;
mod page;
mod recorder;
mod replay;
mod retain;
mod store;
mod timeline;
mod tree;

pub use checkpoint::{Checkpoint, CheckpointInfo, Checkpoints, MAX_LOG_POSITION, MAX_STATE};
pub use copy::{Figures, copy_checkpoints};
pub use error::{Result, SnapshotError};
pub use node::KEY_BITS;
pub use page::{PAGE_SIZE, Page, PageId, PageRef, PageSource, Root, Spares, ZERO_PAGE, whole_root};
pub use recorder::{Behind, Pending, Recorder, RecorderOptions, RootStream, Rooted, Taken, Written};
pub use replay::{FirstStep, Ran, Replay, Scan};
pub use store::Store;
pub use timeline::{Backward, Doing, Forward, Landed, Progress, Timeline, TimelineError, TimelineOptions};
pub use tree::{Edit, Tree};
