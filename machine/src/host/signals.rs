//! Signals that end a run. The first one asks for an orderly end; if it comes again, the terminal is put back
//! and the signal does what it does by default. A recording survives either (DESIGN law 3).

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals as Incoming};

use super::control::{Control, Request};
use super::error::HostError;
use super::terminal::Terminal;

/// Turns SIGINT, SIGTERM and SIGHUP into requests until it is dropped.
#[derive(Debug)]
pub struct Signals {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The system allows no handler or thread.
    pub fn catch(control: &Control, terminal: Option<Arc<Terminal>>) -> Result<Self, HostError> {
        let failed = |action| move |source| HostError::System { action, source };
        let mut incoming = Incoming::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed("catch signals"))?;
        // A write past a file size limit is then an error, as on a full disk, and not the end of the process.
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed("catch signals"))?;
        let handle = incoming.handle();
        let control = control.clone();
        let thread = thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let mut seen = Vec::new();
                for signal in incoming.forever() {
                    if seen.contains(&signal) {
                        if let Some(terminal) = &terminal {
                            let _ = terminal.restore();
                        }
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    seen.push(signal);
                    control.request(Request::Signal(signal));
                }
            })
            .map_err(failed("start a thread"))?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_signal_becomes_a_request() {
        let control = Control::new();
        let _signals = Signals::catch(&control, None).unwrap();
        signal_hook::low_level::raise(SIGHUP).unwrap();
        for _ in 0..200 {
            if let Some(request) = control.take() {
                assert_eq!(request, Request::Signal(SIGHUP));
                return;
            }
            control.wait(Some(Duration::from_millis(50)), false, 0);
        }
        panic!("the signal was lost");
    }
}
