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
//! A line is `wait TEXT`, `send TEXT`, `screen TEXT`, `key NAME`, `type TEXT` or `pause TIME`. A text is the rest of the line after one
//! space, with the escapes `\n \r \t \0 \\ \xNN`. `key` presses and releases a key of the keyboard, or several together
//! (`ctrl-alt-delete`); `type` presses the keys that make a text; `pause` lets virtual time pass (`500ms`, `2s`). Blank lines and lines that start with `#` are skipped. A wait is over when its text
//! has come out of the console after the text of the wait before it. `screen` waits until a row of the machine's display
//! holds its text, for which it looks every [`LOOK_TIME`].
//!
//! **When a byte is sent depends on virtual time alone**: the first comes [`PAUSE`] steps after the text
//! that was waited for, the next ones a [`BYTE_TIME`] apart, and one for which the UART has no room is
//! offered again a byte's time later. So a scripted run is the same run on every engine and host.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use devices::pc::keys::{self, Stroke};
use icount::{Display, Icount, Ready, VirtualTime};

use super::matcher::Matcher;

/// Steps between a text and the answer to it. No shorter than the longest stretch that a machine runs
/// between two looks at its door, so that the answer's place is always ahead.
const PAUSE: u64 = 1_000_000;

/// Virtual nanoseconds between two bytes: a line of 115200 baud.
const BYTE_TIME: u64 = 86_806;

/// Virtual nanoseconds between two strokes of keys.
const KEY_TIME: u64 = 20_000_000;

/// Virtual nanoseconds between two looks at the display.
const LOOK_TIME: u64 = 20_000_000;

/// The steps that there are, for messages.
const STEPS: &str = "wait TEXT, send TEXT, screen TEXT, key NAME, type TEXT or pause TIME";

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
    Press { keys: VecDeque<Stroke> },
    Pause { ns: u64 },
    Screen { line: usize, text: String },
}

/// What a script types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A byte on the console.
    Byte(u8),
    /// A key of the keyboard.
    Key(Stroke),
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
    /// Where it last looked at the display in vain.
    looked: Option<Icount>,
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
                return Err(error(format!("'{word}' needs more: {STEPS}")));
            }
            let words = || String::from_utf8_lossy(&text).into_owned();
            steps.push_back(match word {
                "wait" => Step::Wait { line: number, text },
                "send" => Step::Send { text },
                "key" => Step::Press {
                    keys: keys::combination(words().trim())
                        .ok_or_else(|| error(unknown_key(words().trim())))?
                        .into(),
                },
                "type" => Step::Press {
                    keys: keys::text(&words()).into(),
                },
                "screen" => Step::Screen {
                    line: number,
                    text: words(),
                },
                "pause" => Step::Pause {
                    ns: duration(words().trim()).map_err(error)?,
                },
                _ => return Err(error(format!("'{word}' is no step: {STEPS}"))),
            });
        }
        let mut script = Self {
            steps,
            matcher: None,
            due: None,
            ns_per_step: NonZeroU64::MIN,
            asked: (Icount::ZERO, VirtualTime::ZERO),
            looked: None,
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
                Step::Send { .. } | Step::Press { .. } | Step::Pause { .. } | Step::Screen { .. } => None,
            });
        }
        self.due = match self.steps.front() {
            Some(Step::Send { .. } | Step::Press { .. }) => self.due.or(Some(self.after_pause(time))),
            Some(Step::Pause { ns }) => Some(time.saturating_add(*ns)),
            Some(Step::Screen { .. }) => Some(time.saturating_add(LOOK_TIME)),
            Some(Step::Wait { .. }) | None => None,
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

    /// Whether it is to see the display now.
    pub(crate) fn looks(&self, time: VirtualTime) -> bool {
        let looks = matches!(self.steps.front(), Some(Step::Screen { .. }));
        looks && self.due.is_some_and(|due| due <= time)
    }

    /// Looks at the display; whether that ends a wait.
    pub(crate) fn look(&mut self, at: Icount, time: VirtualTime, display: Option<&Display>) -> bool {
        let Some(Step::Screen { text, .. }) = self.steps.front() else {
            return false;
        };
        self.due = Some(time.saturating_add(LOOK_TIME));
        if !display.is_some_and(|display| display.shows(text)) {
            self.looked = Some(at);
            return false;
        }
        self.steps.pop_front();
        self.due = None;
        self.arm(time);
        true
    }

    /// Whether it has looked at the display at this boundary in vain: until a step is made, it will look no other.
    pub(crate) fn has_seen(&self, at: Icount) -> bool {
        matches!(self.steps.front(), Some(Step::Screen { .. })) && self.looked == Some(at)
    }

    /// What is due at this boundary, if anything is.
    pub(crate) fn next(&mut self, at: Icount, time: VirtualTime, ready: Ready) -> Option<Typed> {
        self.asked = (at, time);
        if self.due? > time {
            return None;
        }
        let (typed, over) = match self.steps.front_mut()? {
            Step::Wait { .. } | Step::Screen { .. } => return None,
            Step::Pause { .. } => (None, true),
            Step::Send { text } => {
                self.due = Some(time.saturating_add(BYTE_TIME));
                if !ready.console {
                    return None;
                }
                (Some(Typed::Byte(text.remove(0))), text.is_empty())
            }
            Step::Press { keys } => {
                self.due = Some(time.saturating_add(KEY_TIME));
                if !ready.key {
                    return None;
                }
                (keys.pop_front().map(Typed::Key), keys.is_empty())
            }
        };
        if over {
            self.steps.pop_front();
            self.arm(time);
        }
        typed
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
            Step::Screen { line, text } => {
                format!(
                    "waiting for \"{}\" on the display (line {line})",
                    text.escape_debug()
                )
            }
            Step::Press { .. } => "pressing keys".into(),
            Step::Pause { .. } => "pausing".into(),
        })
    }
}

/// What is said about a key that isn't there.
pub fn unknown_key(name: &str) -> String {
    let all: Vec<&str> = keys::names().collect();
    format!(
        "there is no key '{name}'; keys, with - between those pressed together: {}",
        all.join(" ")
    )
}

/// A time with its unit, in ns.
fn duration(text: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let parsed = units.iter().find_map(|(unit, ns)| {
        let count: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        count.checked_mul(*ns)
    });
    parsed.ok_or_else(|| format!("'{text}' is no time: 500ms, 2s"))
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

    const READY: Ready = Ready {
        console: true,
        key: true,
        virtio_console: true,
        frames: 1,
    };

    #[test]
    fn keys_are_pressed_a_key_s_time_apart() {
        let mut script = ConsoleScript::parse("pause 2ms\nkey ctrl-c\n").unwrap();
        let mut now = VirtualTime(2_000_000);
        assert_eq!(script.next(Icount(2_000_000), now, READY), None);
        let mut strokes = Vec::new();
        while let Some(due) = script.due() {
            assert!(strokes.is_empty() || due.since(now) >= KEY_TIME);
            now = due;
            if let Some(typed) = script.next(Icount(now.0), now, READY) {
                strokes.push(typed);
            }
        }
        let pressed = keys::combination("ctrl-c").unwrap();
        let expected: Vec<Typed> = pressed.into_iter().map(Typed::Key).collect();
        assert_eq!(strokes, expected);
        let error = ConsoleScript::parse("key nonsense").unwrap_err();
        assert!(error.to_string().contains("no key 'nonsense'"), "{error}");
    }

    #[test]
    fn the_display_is_looked_at_until_it_shows_the_text() {
        let display = |text: &str| Display {
            rows: vec![
                text.chars()
                    .map(|character| icount::Glyph {
                        character,
                        foreground: 7,
                        background: 0,
                    })
                    .collect(),
            ],
            cursor: None,
        };
        let mut script = ConsoleScript::parse("screen GRUB\nkey down").unwrap();
        assert_eq!(script.due(), Some(VirtualTime(LOOK_TIME)));
        assert!(!script.looks(VirtualTime(LOOK_TIME - 1)) && script.looks(VirtualTime(LOOK_TIME)));
        let now = VirtualTime(LOOK_TIME);
        assert!(!script.look(Icount(5), now, None));
        assert!(script.has_seen(Icount(5)) && !script.has_seen(Icount(6)) && !script.looks(now));
        assert_eq!(script.next(Icount(5), now, READY), None);
        let now = VirtualTime(2 * LOOK_TIME);
        assert!(!script.look(Icount(6), now, Some(&display("SeaBIOS"))));
        assert_eq!(
            script.pending().unwrap(),
            "waiting for \"GRUB\" on the display (line 1)"
        );
        let now = VirtualTime(3 * LOOK_TIME);
        assert!(script.look(Icount(7), now, Some(&display("  GNU GRUB 2.12"))));
        let due = VirtualTime(3 * LOOK_TIME + PAUSE);
        assert_eq!(script.due(), Some(due));
        let down = keys::combination("down").unwrap()[0];
        assert_eq!(script.next(Icount(9), due, READY), Some(Typed::Key(down)));
    }

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
            "line 4: 'snd' is no step: wait TEXT, send TEXT, screen TEXT, key NAME, type TEXT or pause TIME"
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
        assert_eq!(script.next(Icount(6_000), VirtualTime(6_000), READY), None);
        assert_eq!(script.next_input(), Some((Icount(due), VirtualTime(due))));
        assert_eq!(
            script.next(Icount(due), VirtualTime(due), READY),
            Some(Typed::Byte(b'a'))
        );
        assert_eq!(script.next(Icount(due), VirtualTime(due), READY), None);
        // No room: offered again a byte's time later.
        let due = due + BYTE_TIME;
        assert_eq!(script.next(Icount(due), VirtualTime(due), Ready::default()), None);
        let due = due + BYTE_TIME;
        assert_eq!(
            script.next(Icount(due), VirtualTime(due), READY),
            Some(Typed::Byte(b'b'))
        );
        assert_eq!(script.due(), None);
        feed(&mut script, "ab\r\n#", due);
        assert_eq!(script.due(), Some(VirtualTime(due + PAUSE)));
        assert_eq!(
            script.next(Icount(0), VirtualTime(due + PAUSE), READY),
            Some(Typed::Byte(b'c'))
        );
        assert_eq!(script.pending(), None);
    }

    #[test]
    fn a_text_that_comes_before_the_answer_is_sent_counts() {
        let mut script = ConsoleScript::parse("wait A\nsend x\nwait B\nsend y").unwrap();
        feed(&mut script, "AB", 0);
        assert_eq!(
            script.next(Icount(0), VirtualTime(PAUSE), READY),
            Some(Typed::Byte(b'x'))
        );
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
