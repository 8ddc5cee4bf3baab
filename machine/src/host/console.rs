//! Where the guest's console bytes go.
//!
//! Bytes are kept and written together: at the end of a line, when the guest waits, and about every two
//! milliseconds. A sink that fails does not lose what it has not taken: the error comes out of
//! [`Console::flush`], and the next call goes on where this one stopped.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use icount::{
    Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, Ready, VIRTIO_CONSOLE,
    VirtualTime,
};

use super::control::{Control, Request};

/// So many bytes are written without waiting for more.
const ENOUGH: usize = 4096;
/// So long bytes wait for others while the guest runs.
const PATIENCE: Duration = Duration::from_millis(2);

/// A sink for the bytes of serial port 0 and the virtio console.
pub struct Console {
    sink: Box<dyn Write + Send>,
    control: Option<Control>,
    held: Vec<u8>,
    written: Instant,
    /// The reader went away: nothing is shown any more.
    closed: bool,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console")
            .field("held", &self.held.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Console {
    /// Shows bytes at any sink. When its reader goes away, `control` is asked to end the run.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>, control: Option<Control>) -> Self {
        Self {
            sink,
            control,
            held: Vec::new(),
            written: Instant::now(),
            closed: false,
        }
    }

    /// Shows bytes at standard output, past the buffer of [`io::stdout`].
    #[must_use]
    pub fn stdout(control: Option<Control>) -> Self {
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(fd) => Self::new(Box::new(File::from(fd)), control),
            Err(_) => Self::new(Box::new(io::stdout()), control),
        }
    }

    /// Shows nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Box::new(io::sink()), None)
    }

    /// Takes a byte. Never fails; what can't be written is kept (a closed sink's is dropped).
    pub fn put(&mut self, byte: u8) {
        if self.closed {
            return;
        }
        self.held.push(byte);
        if byte == b'\n' || self.held.len().is_multiple_of(ENOUGH) {
            // The error, if it lasts, comes out of the next flush.
            let _ = self.flush();
        }
    }

    /// Writes what is held, if it has waited long enough for company.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn poll(&mut self) -> Result<(), DoorError> {
        if self.held.is_empty() || self.written.elapsed() < PATIENCE {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what is held.
    ///
    /// # Errors
    /// The sink fails (a full disk behind a redirection); what it did not take is kept.
    pub fn flush(&mut self) -> Result<(), DoorError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        let result = loop {
            if done == self.held.len() {
                break self.sink.flush();
            }
            match self.sink.write(&self.held[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Somebody made the terminal non-blocking; it takes the rest later.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.held.drain(..done);
        self.written = Instant::now();
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                self.held = Vec::new();
                if let Some(control) = &self.control {
                    control.request(Request::OutputClosed);
                }
                Ok(())
            }
            Err(source) => Err(DoorError::Host {
                action: "writing the guest's console to standard output".into(),
                source,
            }),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// A door whose console bytes are also shown: for replays.
#[derive(Debug)]
pub struct Shown<D> {
    inner: D,
    console: Console,
}

impl<D: Door> Shown<D> {
    /// Shows what passes `inner` at `console`.
    #[must_use]
    pub const fn new(inner: D, console: Console) -> Self {
        Self { inner, console }
    }
}

impl<D: Door> Door for Shown<D> {
    fn effect(&mut self, at: Icount, time: VirtualTime, hart: u8, effect: &Effect) -> Result<(), DoorError> {
        self.inner.effect(at, time, hart, effect)?;
        if let Effect::ConsoleOut {
            port: 0 | VIRTIO_CONSOLE,
            byte,
        } = effect
        {
            self.console.put(*byte);
        }
        Ok(())
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        self.inner.send(port, frame);
    }

    fn input(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Result<Option<Input>, DoorError> {
        self.console.poll()?;
        self.inner.input(at, time, ready)
    }

    fn wants_display(&self, at: Icount, time: VirtualTime) -> bool {
        self.inner.wants_display(at, time)
    }

    fn display(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) {
        self.inner.display(at, time, display);
    }

    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        self.inner.next_input()
    }

    fn idle(
        &mut self,
        at: Icount,
        now: VirtualTime,
        deadline: Option<VirtualTime>,
    ) -> Result<Idle, DoorError> {
        self.console.poll()?;
        self.inner.idle(at, now, deadline)
    }

    fn disk_block(
        &mut self,
        at: Icount,
        time: VirtualTime,
        drive: u8,
        block: u64,
    ) -> Result<Vec<u8>, DoorError> {
        self.inner.disk_block(at, time, drive, block)
    }

    fn inject(&mut self, at: Icount, time: VirtualTime, input: &Input) -> Result<(), DoorError> {
        self.inner.inject(at, time, input)
    }

    fn progress(&mut self, at: Icount, time: VirtualTime, tick: bool) -> Result<(), DoorError> {
        self.console.poll()?;
        self.inner.progress(at, time, tick)
    }

    fn position(&self) -> LogPosition {
        self.inner.position()
    }

    fn seek(&mut self, position: LogPosition) -> Result<(), DoorError> {
        self.inner.seek(position)
    }

    fn finish(&mut self, at: Icount, time: VirtualTime, end: End) -> Result<(), DoorError> {
        self.console.flush()?;
        self.inner.finish(at, time, end)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A sink that tests look into, with so much room.
    #[derive(Clone, Default)]
    pub(crate) struct Sink {
        pub(crate) taken: Arc<Mutex<Vec<u8>>>,
        pub(crate) refuses: Arc<Mutex<Option<io::ErrorKind>>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(kind) = *self.refuses.lock().unwrap() {
                return Err(kind.into());
            }
            let count = bytes.len().min(3);
            self.taken.lock().unwrap().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_and_the_rest_waits() {
        let sink = Sink::default();
        let mut console = Console::new(Box::new(sink.clone()), None);
        b"hello\nwor".iter().for_each(|byte| console.put(*byte));
        assert_eq!(*sink.taken.lock().unwrap(), b"hello\n");
        console.flush().unwrap();
        assert_eq!(*sink.taken.lock().unwrap(), b"hello\nwor");
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        let sink = Sink::default();
        let mut console = Console::new(Box::new(sink.clone()), None);
        *sink.refuses.lock().unwrap() = Some(io::ErrorKind::StorageFull);
        b"hello\n".iter().for_each(|byte| console.put(*byte));
        assert!(matches!(console.flush(), Err(DoorError::Host { .. })));
        *sink.refuses.lock().unwrap() = None;
        console.flush().unwrap();
        assert_eq!(*sink.taken.lock().unwrap(), b"hello\n");
    }

    #[test]
    fn a_reader_that_goes_away_ends_the_run() {
        let (sink, control) = (Sink::default(), Control::new());
        let mut console = Console::new(Box::new(sink.clone()), Some(control.clone()));
        *sink.refuses.lock().unwrap() = Some(io::ErrorKind::BrokenPipe);
        b"hello\nand more\n".iter().for_each(|byte| console.put(*byte));
        console.flush().unwrap();
        assert_eq!(control.take(), Some(Request::OutputClosed));
        assert_eq!(control.take(), None);
    }
}
