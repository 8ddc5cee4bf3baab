//! A queue of empty buffers that wait for input from outside.
//!
//! Whether there is room must be known without looking at guest memory, since the door asks at every boundary and a
//! look must change nothing. So the next buffer is taken from the ring beforehand, when the driver notifies or the
//! one before it was used.

use serde::{Deserialize, Serialize};

use super::{Chain, Cursor, Queues};
use crate::Context;

/// The buffer that is next.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Receiver {
    waiting: Option<Chain>,
}

impl Receiver {
    /// Takes the next buffer of `queue`, unless one is at hand. One that has no room for `least` bytes breaks the
    /// queue.
    pub(super) fn refill(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16, least: u64) {
        if self.waiting.is_none() {
            self.waiting = queues.pop(cx, queue);
            if self.room().is_some_and(|room| room < least) {
                queues.fail();
            }
        }
        if queues.is_broken() {
            self.waiting = None;
        }
    }

    /// Bytes for which the buffer at hand has room; `None` if there is none.
    pub(super) fn room(&self) -> Option<u64> {
        self.waiting.as_ref().map(Chain::writable_len)
    }

    /// Puts `bytes` into the buffer at hand and gives it back; they must fit.
    pub(super) fn put(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16, bytes: &[u8]) {
        let Some(chain) = self.waiting.take() else {
            return;
        };
        match Cursor::new(&chain.writable).write(cx, bytes) {
            Ok(()) => queues.complete(cx, queue, chain.head, bytes.len() as u32),
            Err(_) => queues.fail(),
        }
    }

    /// Whether the buffer at hand can be so.
    pub(super) fn is_possible(&self, least: u64) -> bool {
        self.waiting
            .as_ref()
            .is_none_or(|chain| chain.is_possible() && chain.writable_len() >= least)
    }
}
