//! What a terminal sends for keys, turned into strokes of a PC's keyboard: characters, and the sequences of the
//! VT220 and xterm for those keys that have no character.

use devices::pc::keys::{self, Stroke};

const ESCAPE: u8 = 0x1b;

/// Keys by the sequence that follows an escape character.
const SEQUENCES: &[(&str, &str)] = &[
    ("[A", "up"),
    ("[B", "down"),
    ("[C", "right"),
    ("[D", "left"),
    ("[H", "home"),
    ("[F", "end"),
    ("OA", "up"),
    ("OB", "down"),
    ("OC", "right"),
    ("OD", "left"),
    ("OH", "home"),
    ("OF", "end"),
    ("OM", "kp_enter"),
    ("OP", "f1"),
    ("OQ", "f2"),
    ("OR", "f3"),
    ("OS", "f4"),
    ("[Z", "shift-tab"),
    ("[1~", "home"),
    ("[2~", "insert"),
    ("[3~", "delete"),
    ("[4~", "end"),
    ("[5~", "pgup"),
    ("[6~", "pgdn"),
    ("[11~", "f1"),
    ("[12~", "f2"),
    ("[13~", "f3"),
    ("[14~", "f4"),
    ("[15~", "f5"),
    ("[17~", "f6"),
    ("[18~", "f7"),
    ("[19~", "f8"),
    ("[20~", "f9"),
    ("[21~", "f10"),
    ("[23~", "f11"),
    ("[24~", "f12"),
    // Linux's own console.
    ("[[A", "f1"),
    ("[[B", "f2"),
    ("[[C", "f3"),
    ("[[D", "f4"),
    ("[[E", "f5"),
];

/// The strokes for what a terminal sent at once. A sequence that isn't known is left out whole; an escape character
/// alone is the escape key, one before a character the Alt key.
pub(crate) fn strokes(mut bytes: &[u8]) -> Vec<Stroke> {
    let mut strokes = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        if first != ESCAPE {
            let length = character_length(bytes);
            if let Some(character) = decode(&bytes[..length]) {
                strokes.extend(keys::character(character).unwrap_or_default());
            }
            bytes = &bytes[length..];
            continue;
        }
        let known = SEQUENCES
            .iter()
            .find(|(sequence, _)| rest.starts_with(sequence.as_bytes()));
        if let Some((sequence, name)) = known {
            strokes.extend(keys::combination(name).unwrap_or_default());
            bytes = &rest[sequence.len()..];
        } else if let Some(length) = unknown_sequence(rest) {
            bytes = &rest[length..];
        } else if let Some(character) = rest.first().filter(|byte| byte.is_ascii_graphic()) {
            let typed = keys::character(char::from(*character)).unwrap_or_default();
            let alt = keys::combination("alt").unwrap_or_default();
            strokes.extend(alt.first());
            strokes.extend(typed);
            strokes.extend(alt.last());
            bytes = &rest[1..];
        } else {
            strokes.extend(keys::combination("esc").unwrap_or_default());
            bytes = rest;
        }
    }
    strokes
}

/// The length of a control sequence (after its escape) by its form: parameters, then a final byte (ECMA-48 5.4).
fn unknown_sequence(rest: &[u8]) -> Option<usize> {
    let parameters = rest.strip_prefix(b"[")?;
    let end = parameters.iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    matches!(parameters[end], 0x40..=0x7e).then_some(end + 2)
}

/// The length of the character at the start, in UTF-8.
fn character_length(bytes: &[u8]) -> usize {
    let more = bytes[1..].iter().take_while(|byte| **byte & 0xc0 == 0x80);
    if bytes[0] < 0x80 {
        1
    } else {
        1 + more.take(3).count()
    }
}

fn decode(bytes: &[u8]) -> Option<char> {
    std::str::from_utf8(bytes).ok()?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_a_terminal_sends_them() {
        let key = |name| keys::combination(name).unwrap();
        for (sent, name) in [
            ("\x1b[A", "up"),
            ("\x1bOB", "down"),
            ("\x1b[24~", "f12"),
            ("\x1b", "esc"),
            ("\r", "ret"),
            ("\x7f", "backspace"),
            ("\x03", "ctrl-c"),
            ("\x1bx", "alt-x"),
        ] {
            assert_eq!(strokes(sent.as_bytes()), key(name), "{sent:?}");
        }
        assert_eq!(
            strokes(b"ls\x1b[3~"),
            [key("l"), key("s"), key("delete")].concat()
        );
        // Unknown ones and characters that a keyboard hasn't leave nothing behind.
        assert_eq!(strokes("\x1b[1;5Aé\u{1f600}a".as_bytes()), key("a"));
        assert_eq!(strokes(b"\xff\x80a"), key("a"));
        assert_eq!(strokes(b"\x1b\x1b[A"), [key("esc"), key("up")].concat());
    }

    #[test]
    fn every_sequence_is_a_key() {
        for (sequence, name) in SEQUENCES {
            assert!(keys::combination(name).is_some(), "{name}");
            assert!(!strokes(format!("\x1b{sequence}").as_bytes()).is_empty());
        }
    }
}
