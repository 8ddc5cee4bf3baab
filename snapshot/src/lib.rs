//! Snapshots: the page store, the page tree, checkpoint files, and the timeline that goes both ways.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod ladder;
mod node;
mod page;
mod replay;
mod timeline;
mod tree;

pub use error::{Result, SnapshotError};
pub use node::KEY_BITS;
pub use page::{PAGE_SIZE, Page, PageId, PageRef, PageSource, Root, ZERO_PAGE, whole_root};
pub use replay::{FirstStep, Ran, Replay, Scan};
pub use timeline::{Backward, Doing, Forward, Landed, Progress, Timeline, TimelineError, TimelineOptions};
pub use tree::{Edit, Tree};
