//! gdb's console: text in `O` packets.
//!
//! gdb takes them only while it waits for a stop or for a monitor command's end, so text that comes at another time
//! is kept until then.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use machine::Progress;
use machine::snapshot::Doing;

use crate::numbers::grouped;
use crate::wire::Stream;

/// Bytes of text in one packet.
const CHUNK: usize = 1000;

/// Host time in ns between reports of progress.
const PERIOD: u64 = 1_000_000_000;

#[derive(Default)]
struct State {
    stream: Option<Stream>,
    open: bool,
    kept: String,
    last: Option<u64>,
}

/// A handle; clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Console(Arc<Mutex<State>>);

impl Console {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Text goes to this connection from now on, or nowhere.
    pub fn attach(&self, stream: Option<Stream>) {
        *self.state() = State {
            stream,
            ..State::default()
        };
    }

    /// Shows text, ending in a newline, now or as soon as gdb takes it.
    pub fn print(&self, text: &str) {
        let state = &mut *self.state();
        if state.stream.is_none() {
            return;
        }
        if state.open {
            state.send(text);
        } else {
            state.kept.push_str(text);
        }
    }

    /// gdb takes text from here on.
    pub fn open(&self) {
        let state = &mut *self.state();
        state.open = true;
        state.last = None;
        let kept = std::mem::take(&mut state.kept);
        state.send(&kept);
    }

    /// gdb takes no text from here on.
    pub fn close(&self) {
        self.state().open = false;
    }

    /// Reports progress, at most about once a second of host time (`now`, in ns).
    pub fn progress(&self, progress: Progress, now: u64) {
        let state = &mut *self.state();
        let Some(last) = state.last else {
            state.last = Some(now);
            return;
        };
        if state.open && now.saturating_sub(last) >= PERIOD {
            state.last = Some(now);
            state.send(&describe(progress));
        }
    }
}

impl State {
    /// A connection that fails here fails the session at its next packet too.
    fn send(&mut self, text: &str) {
        let Some(stream) = &mut self.stream else { return };
        for chunk in text.as_bytes().chunks(CHUNK) {
            let mut packet = String::from("$O");
            for byte in chunk {
                // Writing to a String can't fail.
                let _ = write!(packet, "{byte:02x}");
            }
            let sum = packet.bytes().skip(1).fold(0u8, u8::wrapping_add);
            let _ = write!(packet, "#{sum:02x}");
            let _ = stream.write_all(packet.as_bytes());
        }
    }
}

fn describe(progress: Progress) -> String {
    let at = grouped(progress.at.0);
    match progress.doing {
        Doing::Seek => format!("tickback: running to {}, at {at}\n", grouped(progress.to.0)),
        Doing::SearchBack => format!("tickback: searching backward, at {at}\n"),
        Doing::Continue => format!("tickback: running, at {at}\n"),
    }
}
