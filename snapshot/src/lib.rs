//! Snapshots: the page store, the page tree, checkpoint files, and the timeline that goes both ways.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checkpoint;
mod error;
pub mod grid;
mod ladder;
mod node;
mod pack;
mod page;
mod recorder;
mod replay;
mod store;
mod timeline;
mod tree;

pub use checkpoint::{Checkpoint, CheckpointInfo, Checkpoints, MAX_LOG_POSITION, MAX_STATE};
pub use error::{Result, SnapshotError};
pub use node::KEY_BITS;
pub use page::{PAGE_SIZE, Page, PageId, PageRef, PageSource, Root, ZERO_PAGE, whole_root};
pub use recorder::{Pending, Recorder, RecorderOptions, RootStream, Rooted, Taken};
pub use replay::{FirstStep, Ran, Replay, Scan};
pub use store::Store;
pub use timeline::{Backward, Doing, Forward, Landed, Progress, Timeline, TimelineError, TimelineOptions};
pub use tree::{Edit, Tree};
