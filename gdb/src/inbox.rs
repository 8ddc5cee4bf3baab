//! What comes from outside while the machine is busy: gdb's bytes, and new connections.
//!
//! One thread reads the connection and one accepts; both put what they get here. While the machine runs, a Ctrl-C
//! among the bytes, the connection's end, or a new connection sets the machine's interrupt flag, so that the run comes
//! back within a fraction of a second. Which of these it was, the server then sees here.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wire::{Framing, Part, Stream};

/// Bytes held for a server that doesn't take them.
const MOST: usize = 1 << 20;

/// The longest wait without a look at what the server's owner wants.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Of the bytes that came.
    framing: Framing,
    /// Bytes from the front of `bytes` through the last Ctrl-C.
    interrupt: usize,
    closed: bool,
    running: bool,
    /// A connection is wanted.
    wanted: bool,
    arrived: Option<Stream>,
    finished: bool,
}

impl State {
    fn interrupts(&self) -> bool {
        self.closed || self.arrived.is_some() || self.interrupt > 0
    }

    /// Takes what gdb sent. `false`: it is no gdb that sends it.
    fn put(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match self.framing.part(*byte) {
                Part::Acknowledgement => continue,
                Part::Endless => return false,
                Part::Packet | Part::Stray => self.bytes.push_back(*byte),
                Part::Interrupt => {
                    self.bytes.push_back(*byte);
                    self.interrupt = self.bytes.len();
                }
            }
        }
        true
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.bytes.pop_front()?;
        self.interrupt = self.interrupt.saturating_sub(1);
        Some(byte)
    }

    /// Nothing of what the connection before sent is left.
    fn restart(&mut self) {
        self.bytes.clear();
        self.framing = Framing::default();
        self.interrupt = 0;
        self.closed = false;
    }
}

/// What [`Inbox::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A byte.
    Byte(u8),
    /// The connection has ended.
    Closed,
    /// Nothing for a while.
    Nothing,
}

/// See the module's documentation.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    flag: Arc<AtomicBool>,
}

impl Inbox {
    /// An inbox that sets `flag`, which interrupts the machine.
    pub fn new(flag: Arc<AtomicBool>) -> Inbox {
        Inbox {
            state: Mutex::default(),
            changed: Condvar::new(),
            flag,
        }
    }

    /// No change here can be left half-done by a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn changed(&self, state: &State) {
        if state.running && state.interrupts() {
            self.flag.store(true, Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    /// A connection begins.
    pub fn begin_session(&self) {
        let mut state = self.state();
        state.restart();
        state.wanted = false;
    }

    /// Reads `stream` to its end. For a thread of its own.
    pub fn read(&self, mut stream: Stream) {
        let mut buffer = [0; 4096];
        loop {
            let n = match stream.read(&mut buffer) {
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            let mut state = self.state();
            while state.bytes.len() > MOST && !state.closed && !state.finished {
                // gdb waits while the machine runs. Whoever doesn't would keep Ctrl-C and the connection's end from being
                // seen, and the machine running.
                if state.running {
                    state.closed = true;
                    break;
                }
                state = self.wait(state, SLICE);
            }
            if n == 0 || state.closed || state.finished {
                state.closed = true;
                self.changed(&state);
                return;
            }
            if !state.put(&buffer[..n]) {
                state.closed = true;
                self.changed(&state);
                return;
            }
            self.changed(&state);
        }
    }

    /// The next byte, or what there is instead after a while.
    pub fn next(&self) -> Next {
        let mut state = self.state();
        if state.bytes.is_empty() && !state.closed {
            state = self.wait(state, SLICE);
        }
        match state.take() {
            Some(byte) => {
                self.changed.notify_all();
                Next::Byte(byte)
            }
            None if state.closed => Next::Closed,
            None => Next::Nothing,
        }
    }

    /// The next byte, if there is one now.
    pub fn try_next(&self) -> Option<u8> {
        self.state().take()
    }

    /// Whether the connection has ended and all its bytes were taken.
    pub fn is_closed(&self) -> bool {
        let state = self.state();
        state.closed && state.bytes.is_empty()
    }

    /// The session is over, whoever ended it.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.changed(&state);
    }

    /// Forgets interrupts. Whoever sets the flag for reasons of its own is to be asked for them right after this, so that
    /// what comes later stays set for the run.
    pub fn clear(&self) {
        // Whoever is asked next mustn't be asked before it is cleared.
        self.flag.swap(false, Ordering::SeqCst);
    }

    /// The machine is about to run: what nobody has looked at interrupts it.
    pub fn begin_run(&self) {
        let mut state = self.state();
        state.running = true;
        if state.interrupts() {
            self.flag.store(true, Ordering::Relaxed);
        }
    }

    /// The machine stands again.
    pub fn end_run(&self) {
        self.state().running = false;
        self.clear();
    }

    /// A new connection, if one is there. The session before is over.
    pub fn arrival(&self) -> Option<Stream> {
        let mut state = self.state();
        state.restart();
        state.wanted = state.arrived.is_none();
        self.changed.notify_all();
        state.arrived.take()
    }

    /// Waits a while for a change.
    pub fn pause(&self) {
        let state = self.state();
        if state.arrived.is_none() {
            drop(self.wait(state, SLICE));
        }
    }

    /// The server ends.
    pub fn finish(&self) {
        let mut state = self.state();
        state.finished = true;
        self.changed(&state);
    }

    /// Calls `accept` whenever a connection is wanted, until the server ends. For a thread of its own.
    pub fn accept(&self, mut accept: impl FnMut() -> Option<Stream>) {
        let mut state = self.state();
        while !state.finished {
            if !state.wanted {
                state = self.wait(state, SLICE);
                continue;
            }
            if let Some(stream) = accept() {
                state.arrived = Some(stream);
                state.wanted = false;
                self.changed(&state);
            } else {
                state = self.wait(state, Duration::from_millis(10));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_sends_packets_to_a_running_machine_is_hung_up_on() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
        let flag = Arc::new(AtomicBool::new(false));
        let inbox = Inbox::new(Arc::clone(&flag));
        inbox.begin_session();
        inbox.begin_run();
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| inbox.read(Stream::Unix(server)));
            let sent = client.write_all(&b"$?#3f".repeat(MOST));
            inbox.finish();
            sent
        });
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        assert!(flag.load(Ordering::Relaxed), "the run is interrupted");
        inbox.end_run();
        while let Next::Byte(_) = inbox.next() {}
        assert!(inbox.is_closed());
    }
}
