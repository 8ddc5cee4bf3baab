//! The terminal's modes. Whatever happens, it is put back as it was found: on drop (also when a panic
//! unwinds), and by [`Signals`](super::Signals) before a signal kills the process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};

/// A terminal that keys come from.
#[derive(Debug)]
pub struct Terminal {
    fd: OwnedFd,
    found: Termios,
}

impl Terminal {
    /// The terminal behind `fd`, or `None` if there is none.
    ///
    /// # Errors
    /// The system has no descriptor left, or the terminal does not answer.
    pub fn of(fd: impl AsFd) -> io::Result<Option<Self>> {
        if !isatty(&fd) {
            return Ok(None);
        }
        let fd = fd.as_fd().try_clone_to_owned()?;
        let found = tcgetattr(&fd)?;
        Ok(Some(Self { fd, found }))
    }

    /// Every key is a byte at once, Ctrl-C too. What is written keeps its newlines.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn raw(&self) -> io::Result<()> {
        let mut modes = self.found.clone();
        modes.input_modes -= InputModes::IGNBRK
            | InputModes::BRKINT
            | InputModes::PARMRK
            | InputModes::ISTRIP
            | InputModes::INLCR
            | InputModes::IGNCR
            | InputModes::ICRNL
            | InputModes::IXON;
        modes.local_modes -= LocalModes::ECHO
            | LocalModes::ECHONL
            | LocalModes::ICANON
            | LocalModes::ISIG
            | LocalModes::IEXTEN;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        Ok(tcsetattr(&self.fd, OptionalActions::Now, &modes)?)
    }

    /// The terminal edits lines and hands over whole ones; Ctrl-C is a byte.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn lines(&self) -> io::Result<()> {
        let mut modes = self.found.clone();
        modes.input_modes |= InputModes::ICRNL;
        modes.local_modes |= LocalModes::ECHO | LocalModes::ICANON;
        modes.local_modes -= LocalModes::ISIG;
        Ok(tcsetattr(&self.fd, OptionalActions::Now, &modes)?)
    }

    /// As it was found.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn restore(&self) -> io::Result<()> {
        // At once: a terminal that nobody reads any more would never be drained.
        Ok(tcsetattr(&self.fd, OptionalActions::Now, &self.found)?)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that went away needs no mode.
        let _ = self.restore();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    /// A new pseudo-terminal: the user's side and the program's.
    pub(crate) fn pty() -> (OwnedFd, OwnedFd) {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let program = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        (user, program)
    }

    #[test]
    fn modes_come_and_go() {
        let (_user, program) = pty();
        let before = tcgetattr(&program).unwrap();
        assert!(before.local_modes.contains(LocalModes::ICANON | LocalModes::ISIG));
        let terminal = Terminal::of(&program).unwrap().unwrap();
        terminal.raw().unwrap();
        let raw = tcgetattr(&program).unwrap();
        assert!(
            !raw.local_modes
                .intersects(LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHO)
        );
        assert_eq!(raw.output_modes, before.output_modes);
        terminal.lines().unwrap();
        assert!(
            tcgetattr(&program)
                .unwrap()
                .local_modes
                .contains(LocalModes::ICANON)
        );
        terminal.raw().unwrap();
        drop(terminal);
        let after = tcgetattr(&program).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
    }

    #[test]
    fn a_panic_restores() {
        let (_user, program) = pty();
        let before = tcgetattr(&program).unwrap().local_modes;
        let terminal = Terminal::of(&program).unwrap().unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            terminal.raw().unwrap();
            std::panic::resume_unwind(Box::new("as a defect would"));
        }));
        assert!(result.is_err());
        assert_eq!(tcgetattr(&program).unwrap().local_modes, before);
    }

    #[test]
    fn a_pipe_is_no_terminal() {
        let (reader, _writer) = io::pipe().unwrap();
        assert!(Terminal::of(&reader).unwrap().is_none());
    }
}
