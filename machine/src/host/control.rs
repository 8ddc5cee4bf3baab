//! What the threads of the host's side, the live door and the run loop's owner share: bytes typed, things
//! asked of tickback itself, and a way to wake whoever waits.
//!
//! A request sets the flags attached by [`Control::attach`] (a machine's interrupt flag), so that a run comes
//! back soon, and whoever called it looks with [`Control::take`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use devices::pc::keys::Stroke;

/// Bytes held for a guest that doesn't take them; a pipe waits, keys pressed beyond are dropped.
const BYTES: usize = 4096;

/// The longest wait between two looks at flags that others set without waking anybody.
const SLICE: Duration = Duration::from_millis(50);

/// Something asked of tickback, not of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Ctrl-A x: end the run.
    Quit,
    /// Ctrl-A h: explain the keys.
    Help,
    /// Ctrl-A c: the monitor. Keys are lines for [`Control::line`] until [`Control::leave_monitor`].
    Monitor,
    /// This signal came: end the run.
    Signal(i32),
    /// The text of `--exit-on` came out of the console: end the run.
    TextSeen,
    /// The virtual time of `--stop-after` has come: end the run.
    TimeUp,
    /// Standard output was closed by its reader: end the run.
    OutputClosed,
    /// Nothing is asked: the user should hear this.
    Note(String),
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Request>,
    /// With each, whether its owner wants to look around now and then.
    flags: Vec<(Arc<AtomicBool>, bool)>,
    bytes: VecDeque<u8>,
    /// Strokes for the guest's keyboard.
    keys: VecDeque<Stroke>,
    /// A thread reads input and has not come to its end.
    open: bool,
    /// A user sits at the input.
    terminal: bool,
    monitor: bool,
    lines: Vec<u8>,
    script: Option<String>,
    /// What the user types are keys of the guest's keyboard, not bytes of its console.
    display: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether `bytes` holds any; so that a poll costs no lock.
    typed: AtomicBool,
    /// Whether `keys` holds any.
    pressed: AtomicBool,
    /// Bit N: a frame waits for network port N.
    frames: AtomicU8,
    /// Bit N: frames can come to network port N.
    links: AtomicU8,
}

/// A handle; clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Shared>);

impl Control {
    /// One that nobody feeds yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A thread that panicked leaves nothing half-done here: every change is one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets `flag` at each request from now on, and at once if one is waiting.
    pub fn attach(&self, flag: Arc<AtomicBool>) {
        self.attach_flag(flag, false);
    }

    /// As [`attach`](Self::attach), and sets `flag` also now and then while the guest waits in host time, so that
    /// the run's owner can bring a recording up to date.
    pub fn attach_looking(&self, flag: Arc<AtomicBool>) {
        self.attach_flag(flag, true);
    }

    fn attach_flag(&self, flag: Arc<AtomicBool>, looks: bool) {
        let mut state = self.state();
        if !state.requests.is_empty() {
            flag.store(true, Ordering::Relaxed);
        }
        state.flags.push((flag, looks));
    }

    /// Asks something of the run loop's owner.
    pub fn request(&self, request: Request) {
        let mut state = self.state();
        if state.requests.back() != Some(&request) {
            state.requests.push_back(request);
        }
        for (flag, _) in &state.flags {
            flag.store(true, Ordering::Relaxed);
        }
        self.0.changed.notify_all();
    }

    /// Makes a run come back without asking anything, so that its owner can look around.
    pub(crate) fn nudge(&self) {
        for (flag, _) in self.state().flags.iter().filter(|(_, looks)| *looks) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// The oldest thing asked and not taken yet.
    #[must_use]
    pub fn take(&self) -> Option<Request> {
        self.state().requests.pop_front()
    }

    /// The next thing asked, for which it waits at most so long.
    #[must_use]
    pub fn next(&self, limit: Duration) -> Option<Request> {
        let state = self.state();
        let waited = self
            .0
            .changed
            .wait_timeout_while(state, limit, |state| state.requests.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.requests.pop_front()
    }

    /// Whether something asked, and not taken yet, ends the run.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let ends =
            |request: &Request| !matches!(request, Request::Help | Request::Monitor | Request::Note(_));
        self.state().requests.iter().any(ends)
    }

    /// What the console script still has to do; `None` without one, or when it is through.
    #[must_use]
    pub fn script_pending(&self) -> Option<String> {
        self.state().script.clone()
    }

    pub(crate) fn set_script_pending(&self, pending: Option<String>) {
        self.state().script = pending;
    }

    /// The next line typed at the monitor, without its end; `None` if there will be none: the input closed, a
    /// signal came, or the user pressed Ctrl-D. Waits for it.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let mut state = self.state();
        loop {
            if let Some(end) = state.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = state.lines.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let stop = |request: &Request| matches!(request, Request::Quit | Request::Signal(_));
            if !state.open || !state.monitor || state.requests.iter().any(stop) {
                return None;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keys go to the guest again.
    pub fn leave_monitor(&self) {
        let mut state = self.state();
        state.monitor = false;
        state.lines.clear();
        self.0.changed.notify_all();
    }

    pub(crate) fn enter_monitor(&self) {
        self.state().monitor = true;
        self.request(Request::Monitor);
    }

    pub(crate) fn in_monitor(&self) -> bool {
        self.state().monitor
    }

    /// Bytes for the monitor's lines.
    pub(crate) fn monitor_bytes(&self, bytes: &[u8]) {
        let mut state = self.state();
        let room = BYTES.saturating_sub(state.lines.len());
        state.lines.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.0.changed.notify_all();
    }

    /// A thread begins to read input.
    pub(crate) fn open_input(&self, terminal: bool) {
        let mut state = self.state();
        state.open = true;
        state.terminal = terminal;
    }

    /// No more input will come.
    pub(crate) fn close_input(&self) {
        self.state().open = false;
        self.0.changed.notify_all();
    }

    /// A byte for the guest. From a terminal it is dropped when the guest has not taken those before; others
    /// wait for room. `false` if nobody takes bytes any more.
    pub(crate) fn type_byte(&self, byte: u8) -> bool {
        let mut state = self.state();
        while state.bytes.len() >= BYTES {
            if state.terminal {
                return true;
            }
            if !state.open {
                return false;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes.push_back(byte);
        self.0.typed.store(true, Ordering::Release);
        self.0.changed.notify_all();
        true
    }

    /// From now on what a user types at a terminal are keys of the guest's keyboard.
    pub fn type_keys(&self) {
        self.state().display = true;
    }

    /// Whether what is typed are keys.
    pub(crate) fn types_keys(&self) -> bool {
        self.state().display
    }

    /// The next byte typed for the guest.
    pub(crate) fn byte(&self) -> Option<u8> {
        if !self.0.typed.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        if state.bytes.len() >= BYTES {
            self.0.changed.notify_all();
        }
        let byte = state.bytes.pop_front();
        self.0.typed.store(!state.bytes.is_empty(), Ordering::Release);
        byte
    }

    /// Presses keys of the guest's keyboard. Those that the guest doesn't take for long are dropped.
    pub fn press(&self, strokes: &[Stroke]) {
        let mut state = self.state();
        let room = BYTES.saturating_sub(state.keys.len());
        state.keys.extend(&strokes[..strokes.len().min(room)]);
        self.0.pressed.store(true, Ordering::Release);
        self.0.changed.notify_all();
    }

    /// The next stroke for the guest's keyboard.
    pub(crate) fn key(&self) -> Option<Stroke> {
        if !self.0.pressed.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let stroke = state.keys.pop_front();
        self.0.pressed.store(!state.keys.is_empty(), Ordering::Release);
        stroke
    }

    /// Whether frames wait for a network port, and whether some can come to it.
    pub(crate) fn set_network(&self, port: u8, waits: bool, comes: bool) {
        let set = |bits: &AtomicU8, on: bool| {
            let bit = 1 << port;
            let before = if on {
                bits.fetch_or(bit, Ordering::AcqRel)
            } else {
                bits.fetch_and(!bit, Ordering::AcqRel)
            };
            (before & bit != 0) != on
        };
        let state = self.state();
        // Both must be set.
        if set(&self.0.frames, waits) | set(&self.0.links, comes) {
            self.0.changed.notify_all();
        }
        drop(state);
    }

    /// The network ports for which frames wait.
    pub(crate) fn frames(&self) -> u8 {
        self.0.frames.load(Ordering::Acquire)
    }

    /// Whether a byte can still reach a guest whose console has room (`room`) or has none, or a frame one of its network
    /// ports that have a buffer (`frames`).
    pub(crate) fn can_come(&self, room: bool, frames: u8) -> bool {
        let networks = self.0.frames.load(Ordering::Acquire) | self.0.links.load(Ordering::Acquire);
        if networks & frames != 0 {
            return true;
        }
        let state = self.state();
        // Without room a byte can't come, but a user may still ask something of tickback.
        (room && !state.bytes.is_empty()) || (state.open && (room || state.terminal))
    }

    /// Waits in host time: for `limit`, for a request or a flag, for the input's end, if `bytes` for a byte, and for a
    /// frame or the end of a link at the network ports `frames`. `true` if it waited for all of `limit`.
    pub(crate) fn wait(&self, limit: Option<Duration>, bytes: bool, frames: u8) -> bool {
        let start = Instant::now();
        let mut state = self.state();
        let open = state.open;
        let links = self.0.links.load(Ordering::Acquire);
        loop {
            let flagged = state.flags.iter().any(|(flag, _)| flag.load(Ordering::Relaxed));
            let typed = bytes && !state.bytes.is_empty() || !state.keys.is_empty();
            let linked = self.0.links.load(Ordering::Acquire) != links;
            let arrived = self.frames() & frames != 0 || linked;
            if flagged || typed || arrived || !state.requests.is_empty() || state.open != open {
                return false;
            }
            let slice = match limit {
                Some(limit) => match limit.checked_sub(start.elapsed()) {
                    Some(left) if !left.is_zero() => left.min(SLICE),
                    _ => return true,
                },
                None => SLICE,
            };
            let waited = self.0.changed.wait_timeout(state, slice);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_sets_flags_and_wakes() {
        let control = Control::new();
        let flag = Arc::new(AtomicBool::new(false));
        control.attach(Arc::clone(&flag));
        let asker = control.clone();
        let thread = std::thread::spawn(move || asker.request(Request::Quit));
        assert!(!control.wait(Some(Duration::from_secs(20)), true, 0));
        thread.join().unwrap();
        assert!(flag.load(Ordering::Relaxed));
        assert_eq!((control.take(), control.take()), (Some(Request::Quit), None));
    }

    #[test]
    fn a_flag_that_somebody_else_sets_ends_a_wait() {
        let control = Control::new();
        let flag = Arc::new(AtomicBool::new(false));
        control.attach(Arc::clone(&flag));
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            flag.store(true, Ordering::Relaxed);
        });
        assert!(!control.wait(Some(Duration::from_secs(20)), true, 0));
        thread.join().unwrap();
    }

    #[test]
    fn keys_beyond_the_buffer_are_dropped() {
        let control = Control::new();
        control.open_input(true);
        for _ in 0..BYTES + 10 {
            assert!(control.type_byte(7));
        }
        let taken = std::iter::from_fn(|| control.byte()).count();
        assert_eq!(taken, BYTES);
        assert_eq!(control.byte(), None);
    }

    #[test]
    fn the_end_of_input_ends_a_wait_and_a_line() {
        let control = Control::new();
        control.open_input(false);
        assert!(control.can_come(true, 0));
        let closer = control.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            closer.close_input();
        });
        assert!(!control.wait(None, true, 0));
        assert!(!control.can_come(true, 0));
        control.enter_monitor();
        assert_eq!(control.line(), None);
        thread.join().unwrap();
    }
}
