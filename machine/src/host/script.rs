//! Console scripts: what a user would type, and what they would wait for.
//!
//! ```text
//! # log in and switch off
//! wait login:
//! send root\n
//! wait ~ #
//! send poweroff\n
//! ```
//!
//! A line is `wait TEXT` or `send TEXT`; the text is the rest of the line after one space, with the
//! escapes `\n \r \t \0 \\ \xNN`. Blank lines and lines that start with `#` are skipped. A wait is over when its text
//! has come out of the console after the text of the wait before it.
//!
//! **When a byte is sent depends on virtual time alone**: the first comes [`PAUSE`] steps after the text
//! that was waited for, the next ones a [`BYTE_TIME`] apart, and one for which the UART has no room is
//! offered again a byte's time later. So a scripted run is the same run on every engine and host.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use icount::{Icount, VirtualTime};

use super::matcher::Matcher;

/// Steps between a text and the answer to it. No shorter than the longest stretch that a machine runs
/// between two looks at its door, so that the answer's place is always ahead.
const PAUSE: u64 = 1_000_000;

/// Virtual nanoseconds between two bytes: a line of 115200 baud.
const BYTE_TIME: u64 = 86_806;

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ScriptError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Wait { line: usize, text: Vec<u8> },
    Send { text: Vec<u8> },
}

/// A script, and how far it has come.
#[derive(Clone, Debug)]
pub struct ConsoleScript {
    /// What is still to be done; a step's first bytes may be gone.
    steps: VecDeque<Step>,
    /// The first wait of `steps` is for this.
    matcher: Option<Matcher>,
    /// Virtual time at which the next byte is due; set when a send leads.
    due: Option<VirtualTime>,
    ns_per_step: NonZeroU64,
    /// Where the door was last asked.
    asked: (Icount, VirtualTime),
}

impl ConsoleScript {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that is no step.
    pub fn parse(source: &str) -> Result<Self, ScriptError> {
        let mut steps = VecDeque::new();
        for (index, line) in source.lines().enumerate() {
            let number = index + 1;
            let error = |what: String| ScriptError { line: number, what };
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let (word, text) = line.trim_start().split_once(' ').unwrap_or((line.trim(), ""));
            let text = unescape(text).map_err(error)?;
            if text.is_empty() {
                return Err(error(format!("'{word}' needs a text: wait TEXT or send TEXT")));
            }
            steps.push_back(match word {
                "wait" => Step::Wait { line: number, text },
                "send" => Step::Send { text },
                _ => return Err(error(format!("'{word}' is no step: wait TEXT or send TEXT"))),
            });
        }
        let mut script = Self {
            steps,
            matcher: None,
            due: None,
            ns_per_step: NonZeroU64::MIN,
            asked: (Icount::ZERO, VirtualTime::ZERO),
        };
        script.arm(VirtualTime::ZERO);
        Ok(script)
    }

    /// The same script for a machine whose steps take this long.
    #[must_use]
    pub(crate) fn with_ns_per_step(mut self, ns: NonZeroU64) -> Self {
        self.ns_per_step = ns;
        if self.due.is_some() {
            self.due = Some(self.after_pause(VirtualTime::ZERO));
        }
        self
    }

    fn after_pause(&self, time: VirtualTime) -> VirtualTime {
        time.saturating_add(PAUSE.saturating_mul(self.ns_per_step.get()))
    }

    /// Makes the matcher that of the first wait, and the first send due if it leads.
    fn arm(&mut self, time: VirtualTime) {
        if self.matcher.is_none() {
            self.matcher = self.steps.iter().find_map(|step| match step {
                Step::Wait { text, .. } => Some(Matcher::new(text)),
                Step::Send { .. } => None,
            });
        }
        self.due = match self.steps.front() {
            Some(Step::Send { .. }) => self.due.or(Some(self.after_pause(time))),
            _ => None,
        };
    }

    /// A byte came out of the console; whether that ends a wait.
    pub(crate) fn feed(&mut self, byte: u8, time: VirtualTime) -> bool {
        let matched = self.matcher.as_mut().is_some_and(|matcher| matcher.feed(byte));
        if matched {
            self.matcher = None;
            let wait = self
                .steps
                .iter()
                .position(|step| matches!(step, Step::Wait { .. }));
            if let Some(index) = wait {
                self.steps.remove(index);
            }
            self.arm(time);
        }
        matched
    }

    /// The byte that is due at this boundary, if any.
    pub(crate) fn next(&mut self, at: Icount, time: VirtualTime, ready: bool) -> Option<u8> {
        self.asked = (at, time);
        if self.due? > time {
            return None;
        }
        self.due = Some(time.saturating_add(BYTE_TIME));
        if !ready {
            return None;
        }
        let Some(Step::Send { text }) = self.steps.front_mut() else {
            return None;
        };
        let byte = text.remove(0);
        if text.is_empty() {
            self.steps.pop_front();
            self.arm(time);
        }
        Some(byte)
    }

    /// Virtual time at which the next byte is due, if the script does not wait for a text.
    pub(crate) fn due(&self) -> Option<VirtualTime> {
        self.due
    }

    /// The boundary of [`due`](Self::due), as far as is known where the door was last asked.
    pub(crate) fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        let due = self.due?;
        let (at, time) = self.asked;
        let steps = due.since(time).div_ceil(self.ns_per_step.get());
        Some((at.saturating_add(steps), due))
    }

    /// What the script still waits for or has to send, for people; `None` when it is through.
    pub(crate) fn pending(&self) -> Option<String> {
        self.steps.front().map(|step| match step {
            Step::Wait { line, text } => {
                format!("waiting for \"{}\" (line {line})", text.escape_ascii())
            }
            Step::Send { text } => format!("sending \"{}\"", text.escape_ascii()),
        })
    }
}

/// Bytes of a text with the escapes `\n \r \t \0 \\ \xNN`.
///
/// # Errors
/// Says which escape is not known.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..start]);
        rest = &rest[start + 1..];
        let mut characters = rest.chars();
        let byte = match characters.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('x') => {
                let digits = rest.get(1..3).unwrap_or("");
                // The sign that from_str_radix allows is no digit.
                let digits = digits
                    .starts_with(|c: char| c.is_ascii_hexdigit())
                    .then_some(digits);
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let value = value.ok_or("\\x needs two hexadecimal digits: \\x1b")?;
                characters = rest[3..].chars();
                value
            }
            Some(other) => {
                return Err(format!(
                    "\\{other} is no escape; there are \\n \\r \\t \\0 \\\\ \\xNN"
                ));
            }
            None => return Err("a backslash at the end; write \\\\ for one".into()),
        };
        bytes.push(byte);
        rest = characters.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(script: &mut ConsoleScript, text: &str, time: u64) {
        for byte in text.bytes() {
            script.feed(byte, VirtualTime(time));
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\n\\x1b\\\\x\\0é").unwrap(), b"a\n\x1b\\x\0\xc3\xa9");
        for bad in ["\\q", "\\", "\\x", "\\x1", "\\x+1", "\\xé"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_that_are_no_steps_are_named() {
        let error = ConsoleScript::parse("# hi\n\nwait x\nsnd y\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 4: 'snd' is no step: wait TEXT or send TEXT"
        );
        assert_eq!(ConsoleScript::parse("wait").unwrap_err().line, 1);
        assert_eq!(ConsoleScript::parse("send \\z").unwrap_err().line, 1);
    }

    #[test]
    fn bytes_come_at_their_virtual_time() {
        let mut script = ConsoleScript::parse("wait login: \nsend ab\nwait #\nsend c").unwrap();
        assert_eq!(script.next_input(), None);
        assert_eq!(script.pending().unwrap(), "waiting for \"login: \" (line 1)");
        feed(&mut script, "Debian login: ", 5_000);
        let due = 5_000 + PAUSE;
        assert_eq!(script.next(Icount(6_000), VirtualTime(6_000), true), None);
        assert_eq!(script.next_input(), Some((Icount(due), VirtualTime(due))));
        assert_eq!(script.next(Icount(due), VirtualTime(due), true), Some(b'a'));
        assert_eq!(script.next(Icount(due), VirtualTime(due), true), None);
        // No room: offered again a byte's time later.
        let due = due + BYTE_TIME;
        assert_eq!(script.next(Icount(due), VirtualTime(due), false), None);
        let due = due + BYTE_TIME;
        assert_eq!(script.next(Icount(due), VirtualTime(due), true), Some(b'b'));
        assert_eq!(script.due(), None);
        feed(&mut script, "ab\r\n#", due);
        assert_eq!(script.due(), Some(VirtualTime(due + PAUSE)));
        assert_eq!(script.next(Icount(0), VirtualTime(due + PAUSE), true), Some(b'c'));
        assert_eq!(script.pending(), None);
    }

    #[test]
    fn a_text_that_comes_before_the_answer_is_sent_counts() {
        let mut script = ConsoleScript::parse("wait A\nsend x\nwait B\nsend y").unwrap();
        feed(&mut script, "AB", 0);
        assert_eq!(script.next(Icount(0), VirtualTime(PAUSE), true), Some(b'x'));
        assert!(script.due().is_some());
    }

    #[test]
    fn slow_steps_move_the_first_byte() {
        let ns = NonZeroU64::new(4).unwrap();
        let script = ConsoleScript::parse("send x").unwrap().with_ns_per_step(ns);
        assert_eq!(script.due(), Some(VirtualTime(4 * PAUSE)));
        assert_eq!(script.next_input().unwrap().0, Icount(PAUSE));
    }
}
