//! Keys by name and by character: what [`crate::Input::Key`] takes for `sendkey ctrl-alt-delete`, and for text that
//! is typed.
//!
//! Names are those of QEMU's monitor. Characters are on a US keyboard.

use super::i8042::PAUSE;

/// A key that goes down (true) or up, by its code in scan code set 1; 0xe0 in the high byte for the prefix.
pub type Stroke = (u16, bool);

/// Names of keys and their codes.
const KEYS: &[(&str, u16)] = &[
    ("esc", 0x01),
    ("1", 0x02),
    ("2", 0x03),
    ("3", 0x04),
    ("4", 0x05),
    ("5", 0x06),
    ("6", 0x07),
    ("7", 0x08),
    ("8", 0x09),
    ("9", 0x0a),
    ("0", 0x0b),
    ("minus", 0x0c),
    ("equal", 0x0d),
    ("backspace", 0x0e),
    ("tab", 0x0f),
    ("q", 0x10),
    ("w", 0x11),
    ("e", 0x12),
    ("r", 0x13),
    ("t", 0x14),
    ("y", 0x15),
    ("u", 0x16),
    ("i", 0x17),
    ("o", 0x18),
    ("p", 0x19),
    ("bracket_left", 0x1a),
    ("bracket_right", 0x1b),
    ("ret", 0x1c),
    ("ctrl", 0x1d),
    ("a", 0x1e),
    ("s", 0x1f),
    ("d", 0x20),
    ("f", 0x21),
    ("g", 0x22),
    ("h", 0x23),
    ("j", 0x24),
    ("k", 0x25),
    ("l", 0x26),
    ("semicolon", 0x27),
    ("apostrophe", 0x28),
    ("grave_accent", 0x29),
    ("shift", 0x2a),
    ("backslash", 0x2b),
    ("z", 0x2c),
    ("x", 0x2d),
    ("c", 0x2e),
    ("v", 0x2f),
    ("b", 0x30),
    ("n", 0x31),
    ("m", 0x32),
    ("comma", 0x33),
    ("dot", 0x34),
    ("slash", 0x35),
    ("shift_r", 0x36),
    ("asterisk", 0x37),
    ("kp_multiply", 0x37),
    ("alt", 0x38),
    ("spc", 0x39),
    ("caps_lock", 0x3a),
    ("f1", 0x3b),
    ("f2", 0x3c),
    ("f3", 0x3d),
    ("f4", 0x3e),
    ("f5", 0x3f),
    ("f6", 0x40),
    ("f7", 0x41),
    ("f8", 0x42),
    ("f9", 0x43),
    ("f10", 0x44),
    ("num_lock", 0x45),
    ("scroll_lock", 0x46),
    ("kp_7", 0x47),
    ("kp_8", 0x48),
    ("kp_9", 0x49),
    ("kp_subtract", 0x4a),
    ("kp_4", 0x4b),
    ("kp_5", 0x4c),
    ("kp_6", 0x4d),
    ("kp_add", 0x4e),
    ("kp_1", 0x4f),
    ("kp_2", 0x50),
    ("kp_3", 0x51),
    ("kp_0", 0x52),
    ("kp_decimal", 0x53),
    ("sysrq", 0x54),
    ("less", 0x56),
    ("f11", 0x57),
    ("f12", 0x58),
    ("kp_enter", 0xe01c),
    ("ctrl_r", 0xe01d),
    ("kp_divide", 0xe035),
    ("print", 0xe037),
    ("alt_r", 0xe038),
    ("home", 0xe047),
    ("up", 0xe048),
    ("pgup", 0xe049),
    ("left", 0xe04b),
    ("right", 0xe04d),
    ("end", 0xe04f),
    ("down", 0xe050),
    ("pgdn", 0xe051),
    ("insert", 0xe052),
    ("delete", 0xe053),
    ("meta_l", 0xe05b),
    ("meta_r", 0xe05c),
    ("menu", 0xe05d),
    ("pause", PAUSE),
];

/// Characters that have a key, with its name, alone and with shift.
const CHARACTERS: &[(&str, char, char)] = &[
    ("spc", ' ', ' '),
    ("ret", '\n', '\r'),
    ("tab", '\t', '\t'),
    ("backspace", '\x08', '\x7f'),
    ("esc", '\x1b', '\x1b'),
    ("1", '1', '!'),
    ("2", '2', '@'),
    ("3", '3', '#'),
    ("4", '4', '$'),
    ("5", '5', '%'),
    ("6", '6', '^'),
    ("7", '7', '&'),
    ("8", '8', '*'),
    ("9", '9', '('),
    ("0", '0', ')'),
    ("minus", '-', '_'),
    ("equal", '=', '+'),
    ("bracket_left", '[', '{'),
    ("bracket_right", ']', '}'),
    ("semicolon", ';', ':'),
    ("apostrophe", '\'', '"'),
    ("grave_accent", '`', '~'),
    ("backslash", '\\', '|'),
    ("comma", ',', '<'),
    ("dot", '.', '>'),
    ("slash", '/', '?'),
];

const SHIFT: u16 = 0x2a;
const CTRL: u16 = 0x1d;

/// The code of the key of that name.
pub fn code(name: &str) -> Option<u16> {
    KEYS.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, code)| *code)
}

/// The name of every key.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name)
}

/// The strokes of keys pressed together, named with `-` between: down in the order given, up in the
/// opposite one. None if there is no such key.
pub fn combination(names: &str) -> Option<Vec<Stroke>> {
    let codes: Option<Vec<u16>> = names.split('-').map(code).collect();
    codes.map(|codes| together(&codes))
}

/// The strokes that type a character: ASCII letters, digits and punctuation, space, tab, backspace (also as DEL),
/// escape, return (also as line feed), and the other control characters with the control key. None for what a
/// keyboard hasn't.
pub fn character(character: char) -> Option<Vec<Stroke>> {
    let lower = character.to_ascii_lowercase();
    if character.is_ascii_alphanumeric() {
        let code = code(lower.encode_utf8(&mut [0; 4]))?;
        return Some(shifted(code, character != lower));
    }
    let found = CHARACTERS
        .iter()
        .find(|&&(_, alone, with_shift)| alone == character || with_shift == character);
    if let Some(&(name, alone, with_shift)) = found {
        let same_key = with_shift.is_ascii_control();
        return Some(shifted(code(name)?, alone != character && !same_key));
    }
    let control = u8::try_from(character)
        .ok()
        .filter(|byte| (0x01..0x1b).contains(byte))?;
    let letter = char::from(control - 1 + b'a');
    Some(together(&[CTRL, code(letter.encode_utf8(&mut [0; 4]))?]))
}

/// The strokes that type a text, but for characters that a keyboard hasn't.
pub fn text(text: &str) -> Vec<Stroke> {
    text.chars().filter_map(character).flatten().collect()
}

fn shifted(code: u16, shift: bool) -> Vec<Stroke> {
    if shift {
        together(&[SHIFT, code])
    } else {
        together(&[code])
    }
}

fn together(codes: &[u16]) -> Vec<Stroke> {
    let down = codes.iter().map(|&code| (code, true));
    let up = codes.iter().rev().map(|&code| (code, false));
    down.chain(up).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::pc::{I8042, i8042};
    use crate::{Device, Input};

    #[test]
    fn combinations_by_name() {
        let strokes = [
            (0x1d, true),
            (0x38, true),
            (0xe053, true),
            (0xe053, false),
            (0x38, false),
            (0x1d, false),
        ];
        assert_eq!(combination("ctrl-alt-delete").unwrap(), strokes);
        assert_eq!(combination("f10").unwrap(), [(0x44, true), (0x44, false)]);
        for wrong in ["", "ctrl-", "ctrl--a", "Ctrl", "a-hyper"] {
            assert_eq!(combination(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut all: Vec<&str> = names().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), KEYS.len());
    }

    #[test]
    fn characters_of_a_us_keyboard() {
        let shift = |code| vec![(0x2a, true), (code, true), (code, false), (0x2a, false)];
        assert_eq!(character('a').unwrap(), [(0x1e, true), (0x1e, false)]);
        assert_eq!(character('A').unwrap(), shift(0x1e));
        assert_eq!(character('?').unwrap(), shift(0x35));
        assert_eq!(character('!').unwrap(), shift(0x02));
        for enter in ['\n', '\r'] {
            assert_eq!(character(enter).unwrap(), [(0x1c, true), (0x1c, false)]);
        }
        assert_eq!(character('\x7f').unwrap(), [(0x0e, true), (0x0e, false)]);
        assert_eq!(character(' ').unwrap(), [(0x39, true), (0x39, false)]);
        let ctrl_c = [(0x1d, true), (0x2e, true), (0x2e, false), (0x1d, false)];
        assert_eq!(character('\x03').unwrap(), ctrl_c);
        assert_eq!(character('ß'), None);
        assert_eq!(character('\0'), None);
        for byte in 0x20..0x7f {
            assert!(character(char::from(byte)).is_some(), "{byte:#x}");
        }
        let distinct: std::collections::BTreeSet<_> = (0x20..0x7fu8).map(|b| character(b.into())).collect();
        assert_eq!(distinct.len(), 0x5f);
    }

    #[test]
    fn the_keyboard_knows_every_key() {
        for name in names() {
            let (mut keyboard, cx) = (I8042::new(), &mut Fake::new());
            let code = code(name).unwrap();
            keyboard.input(cx, &Input::Key { code, down: true });
            assert_ne!(keyboard.read(cx, i8042::STATUS, 1) & 1, 0, "{name}");
        }
        assert_eq!(text("aß\n").len(), 4);
    }
}
