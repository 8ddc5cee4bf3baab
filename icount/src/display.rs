//! What a machine's display shows, as a door may be shown it ([`Door::display`](crate::Door::display)).

/// A character on a display, with its colours in the sixteen of a PC's text modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyph {
    /// The character.
    pub character: char,
    /// Its colour: blue 1, green 2, red 4, bright 8, and their sums.
    pub foreground: u8,
    /// The colour behind it, likewise.
    pub background: u8,
}

/// A display in a text mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Display {
    /// Rows from the top, all of one length.
    pub rows: Vec<Vec<Glyph>>,
    /// Column and row of the cursor, if it is shown.
    pub cursor: Option<(usize, usize)>,
}

impl Display {
    /// Whether a row holds `text`.
    #[must_use]
    pub fn shows(&self, text: &str) -> bool {
        self.rows.iter().any(|row| {
            let row: String = row.iter().map(|glyph| glyph.character).collect();
            row.contains(text)
        })
    }
}
