//! How far a long command is, on a line of a terminal that is written over. Elsewhere nothing is shown.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use machine::host::Stopwatch;

/// Columns of the bar.
const BAR: u64 = 24;

/// The line; it goes away when this is dropped.
pub struct ProgressLine {
    what: &'static str,
    terminal: bool,
    watch: Stopwatch,
    shown: bool,
}

impl ProgressLine {
    /// Of a command, if standard error is a terminal and `quiet` was not asked for.
    pub fn new(what: &'static str, quiet: bool) -> Self {
        Self {
            what,
            terminal: !quiet && std::io::stderr().is_terminal(),
            watch: Stopwatch::start(),
            shown: false,
        }
    }

    /// Shows that `done` of `all` steps are behind.
    pub fn show(&mut self, done: u64, all: u64) {
        if !self.terminal {
            return;
        }
        let line = line(self.what, done, all, self.watch.elapsed());
        // What can't be shown is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        self.shown = true;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, all: u64, elapsed: Duration) -> String {
    let part = if all == 0 { 1.0 } else { done as f64 / all as f64 };
    let full = ((part * BAR as f64) as usize).min(BAR as usize);
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR as usize - full));
    let seconds = elapsed.as_secs_f64();
    let left = if done > 0 && seconds > 1.0 {
        format!(", {:.0} s left", seconds / part - seconds)
    } else {
        String::new()
    };
    format!(
        "{what} [{bar}] {:.0} %, {done} of {all} steps{left}",
        part * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_is_left() {
        let text = line("verify", 250, 1000, Duration::from_secs(10));
        assert_eq!(
            text,
            "verify [######..................] 25 %, 250 of 1000 steps, 30 s left"
        );
        assert!(line("x", 0, 0, Duration::ZERO).contains("100 %"));
        assert!(line("x", 2000, 1000, Duration::ZERO).contains("200 %"));
    }
}
