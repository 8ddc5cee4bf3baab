//! The thread that reads what the user types, or what a pipe or file brings.
//!
//! At a terminal Ctrl-A is the escape key: Ctrl-A x quits, Ctrl-A c opens the monitor, Ctrl-A h helps,
//! Ctrl-A Ctrl-A is one Ctrl-A for the guest; any other key after Ctrl-A is for the guest, with the Ctrl-A. From anything but a
//! terminal every byte is the guest's.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};

use super::control::{Control, Request};
use super::error::HostError;
use super::terminal::Terminal;
use super::typing;

const CTRL_A: u8 = 0x01;

/// Reads input until it is dropped. Dropping it puts the terminal back.
#[derive(Debug)]
pub struct Keyboard {
    control: Control,
    terminal: Option<Arc<Terminal>>,
    /// Closing it ends the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Reads standard input.
    ///
    /// # Errors
    /// No descriptor or thread is to be had, or the terminal can't be put into raw mode.
    pub fn stdin(control: &Control) -> Result<Self, HostError> {
        use std::os::fd::AsFd;
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        Self::of(stdin.map_err(system("read standard input"))?, control)
    }

    /// Reads a terminal, pipe or file.
    ///
    /// # Errors
    /// As [`stdin`](Self::stdin).
    pub fn of(input: OwnedFd, control: &Control) -> Result<Self, HostError> {
        let terminal = Terminal::of(&input).map_err(system("read the terminal's mode"))?;
        if let Some(terminal) = &terminal {
            terminal.raw().map_err(system("set the terminal's mode"))?;
        }
        let terminal = terminal.map(Arc::new);
        let (stopped, stop) = io::pipe().map_err(system("make a pipe"))?;
        control.open_input(terminal.is_some());
        let reader = Reader {
            control: control.clone(),
            terminal: terminal.clone(),
            escaped: false,
            keys: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("keyboard".into())
            .spawn(move || reader.run(&input, &stopped.into()))
            .map_err(system("start a thread"))?;
        Ok(Self {
            control: control.clone(),
            terminal,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The terminal, if a user sits there.
    #[must_use]
    pub const fn terminal(&self) -> Option<&Arc<Terminal>> {
        self.terminal.as_ref()
    }

    /// Keys are lines for the monitor until [`leave_monitor`](Self::leave_monitor), which must follow a
    /// [`Request::Monitor`].
    ///
    /// # Errors
    /// The terminal went away.
    pub fn leave_monitor(&self) -> io::Result<()> {
        if let Some(terminal) = &self.terminal {
            terminal.raw()?;
        }
        self.control.leave_monitor();
        Ok(())
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop = None;
        self.control.close_input();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
        if let Some(terminal) = &self.terminal {
            let _ = terminal.restore();
        }
    }
}

fn system(action: &'static str) -> impl Fn(io::Error) -> HostError {
    move |source| HostError::System { action, source }
}

/// The thread's side.
struct Reader {
    control: Control,
    terminal: Option<Arc<Terminal>>,
    /// The key before was Ctrl-A.
    escaped: bool,
    /// What was typed for the guest's keyboard and is not pressed yet.
    keys: Vec<u8>,
}

impl Reader {
    fn run(mut self, input: &OwnedFd, stopped: &OwnedFd) {
        let mut buffer = [0; 512];
        loop {
            let mut fds = [
                PollFd::new(input, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
            }
            if !fds[1].revents().is_empty() {
                break;
            }
            let count = match rustix::io::read(input, &mut buffer) {
                Ok(0) if self.ends_monitor() => continue,
                // The end of a file or pipe, or a terminal that went away.
                Ok(0) => break,
                Ok(count) => count,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => break,
            };
            if !self.take(&buffer[..count]) {
                break;
            }
        }
        self.control.close_input();
    }

    /// Ctrl-D at the monitor's prompt leaves it.
    fn ends_monitor(&self) -> bool {
        let monitor = self.control.in_monitor();
        if monitor {
            self.control.leave_monitor();
        }
        monitor && self.terminal.is_some()
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let done = self.take_each(bytes);
        if !self.keys.is_empty() {
            self.control
                .press(&typing::strokes(&std::mem::take(&mut self.keys)));
        }
        done
    }

    /// A byte for the guest; `false` if nobody takes bytes any more.
    fn guest_byte(&mut self, byte: u8) -> bool {
        if self.terminal.is_some() && self.control.types_keys() {
            self.keys.push(byte);
            return true;
        }
        self.control.type_byte(byte)
    }

    fn take_each(&mut self, bytes: &[u8]) -> bool {
        for (index, &byte) in bytes.iter().enumerate() {
            if self.control.in_monitor() {
                self.control.monitor_bytes(&bytes[index..]);
                return true;
            }
            if self.terminal.is_none() {
                if !self.guest_byte(byte) {
                    return false;
                }
                continue;
            }
            if !self.escaped {
                self.escaped = byte == CTRL_A;
                if !self.escaped {
                    self.guest_byte(byte);
                }
                continue;
            }
            self.escaped = false;
            match byte {
                b'x' | b'X' => self.control.request(Request::Quit),
                b'h' | b'H' | b'?' => self.control.request(Request::Help),
                b'c' | b'C' => {
                    if let Some(terminal) = &self.terminal {
                        // A terminal that refuses shows unedited lines; they can still be read.
                        let _ = terminal.lines();
                    }
                    self.control.enter_monitor();
                }
                CTRL_A => {
                    self.guest_byte(CTRL_A);
                }
                other => {
                    self.guest_byte(CTRL_A);
                    self.guest_byte(other);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::terminal::tests::pty;
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    fn typed(control: &Control, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            bytes.extend(std::iter::from_fn(|| control.byte()));
            if bytes.len() >= count {
                break;
            }
            control.wait(Some(Duration::from_millis(50)), true, 0);
        }
        bytes
    }

    fn next_request(control: &Control) -> Request {
        for _ in 0..200 {
            if let Some(request) = control.take() {
                return request;
            }
            control.wait(Some(Duration::from_millis(50)), false, 0);
        }
        panic!("nothing was asked");
    }

    #[test]
    fn a_pipe_brings_every_byte_and_its_end() {
        let control = Control::new();
        let (reader, mut writer) = io::pipe().unwrap();
        let keyboard = Keyboard::of(reader.into(), &control).unwrap();
        assert!(keyboard.terminal().is_none());
        let sent: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        let expected = sent.clone();
        let thread = thread::spawn(move || writer.write_all(&sent).unwrap());
        assert_eq!(typed(&control, expected.len()), expected);
        thread.join().unwrap();
        for _ in 0..2000 {
            if !control.can_come(true, 0) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the end of the pipe was not seen");
    }

    #[test]
    fn dropping_it_does_not_wait_for_input() {
        let control = Control::new();
        let (reader, writer) = io::pipe().unwrap();
        drop(Keyboard::of(reader.into(), &control).unwrap());
        assert!(!control.can_come(true, 0));
        drop(writer);
    }

    #[test]
    fn the_escape_key() {
        let control = Control::new();
        let (user, program) = pty();
        let keyboard = Keyboard::of(program, &control).unwrap();
        let press = |keys: &[u8]| assert_eq!(rustix::io::write(&user, keys).unwrap(), keys.len());
        press(b"a\x01hb\x03\x01\x01\x01q");
        assert_eq!(typed(&control, 6), b"ab\x03\x01\x01q");
        assert_eq!(next_request(&control), Request::Help);
        press(b"\x01c");
        assert_eq!(next_request(&control), Request::Monitor);
        press(b"when\n");
        assert_eq!(control.line().unwrap(), "when");
        keyboard.leave_monitor().unwrap();
        press(b"g\x01x");
        assert_eq!(typed(&control, 1), b"g");
        assert_eq!(next_request(&control), Request::Quit);
    }
}
