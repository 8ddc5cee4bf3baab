//! The guest's display on a terminal: drawn as the door is shown it, at most every [`PERIOD`] of host time.
//!
//! The alternate screen of the terminal (ECMA-48, xterm) is taken while the guest runs and given back for the monitor
//! and at the end. What is drawn is what there is to see: cells, colours, cursor; nothing of it reaches the guest.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use icount::{Display, Glyph};

use super::clock::Tick;

/// Host time between two pictures.
pub(crate) const PERIOD: Duration = Duration::from_millis(40);

const ENTER: &str = "\x1b[?1049h\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// Draws a display at a terminal. Clones share it; dropping the last gives the terminal back.
#[derive(Clone)]
pub struct DisplayView(Arc<Mutex<View>>);

struct View {
    sink: Box<dyn Write + Send>,
    tick: Tick,
    drawn: Option<Display>,
    /// The terminal shows the guest's display now.
    entered: bool,
}

impl std::fmt::Debug for DisplayView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DisplayView")
            .field("entered", &self.view().entered)
            .finish_non_exhaustive()
    }
}

impl DisplayView {
    /// Draws at a terminal behind `sink`.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(View {
            sink,
            tick: Tick::new(PERIOD),
            drawn: None,
            entered: false,
        })))
    }

    /// A thread that panicked leaves at worst half a picture.
    fn view(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time for a picture.
    pub(crate) fn due(&self) -> bool {
        self.view().tick.is_due()
    }

    /// Shows this; `None` for a graphics mode. A terminal that fails shows nothing: the run goes on.
    pub(crate) fn show(&self, display: Option<&Display>) {
        let mut view = self.view();
        view.tick.restart();
        if view.entered && view.drawn.as_ref() == display {
            return;
        }
        let mut picture = String::new();
        if !view.entered {
            picture.push_str(ENTER);
        }
        match display {
            Some(display) => paint(&mut picture, display),
            None => picture.push_str("\x1b[0m\x1b[2J\x1b[H(the display is in a graphics mode)"),
        }
        view.drawn = display.cloned();
        view.entered = true;
        view.write(&picture);
    }

    /// Gives the terminal back until the next picture.
    pub fn leave(&self) {
        self.view().leave();
    }
}

impl View {
    fn write(&mut self, text: &str) {
        // Without its terminal the run still goes on.
        let _ = self
            .sink
            .write_all(text.as_bytes())
            .and_then(|()| self.sink.flush());
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.entered) {
            self.write(LEAVE);
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A terminal numbers colours red 1, green 2, blue 4; a PC blue 1, green 2, red 4.
fn colour(pc: u8) -> u8 {
    (pc & 1) << 2 | pc & 2 | pc >> 2 & 1
}

fn select(picture: &mut String, glyph: Glyph) {
    let code = |colour_of: u8, normal: u8, bright: u8| {
        colour(colour_of) + if colour_of & 8 == 0 { normal } else { bright }
    };
    let foreground = code(glyph.foreground, 30, 90);
    let background = code(glyph.background, 40, 100);
    picture.push_str(&format!("\x1b[0;{foreground};{background}m"));
}

fn paint(picture: &mut String, display: &Display) {
    picture.push_str("\x1b[?25l");
    for (y, row) in display.rows.iter().enumerate() {
        picture.push_str(&format!("\x1b[{};1H", y + 1));
        let mut colours = None;
        for glyph in row {
            if colours != Some((glyph.foreground, glyph.background)) {
                select(picture, *glyph);
                colours = Some((glyph.foreground, glyph.background));
            }
            // A terminal must not obey what a guest shows.
            let character = if glyph.character.is_control() {
                ' '
            } else {
                glyph.character
            };
            picture.push(character);
        }
        picture.push_str("\x1b[0m\x1b[K");
    }
    picture.push_str("\x1b[J");
    if let Some((x, y)) = display.cursor {
        picture.push_str(&format!("\x1b[{};{}H\x1b[?25h", y + 1, x + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::console::tests::Sink;
    use super::*;

    fn display(text: &str) -> Display {
        let glyph = |character| Glyph {
            character,
            foreground: 12,
            background: 1,
        };
        Display {
            rows: vec![text.chars().map(glyph).collect()],
            cursor: Some((2, 0)),
        }
    }

    #[test]
    fn what_changed_is_drawn_once() {
        let sink = Sink::default();
        let view = DisplayView::new(Box::new(sink.clone()));
        view.show(Some(&display("ab\x1b")));
        let shown = String::from_utf8(sink.taken.lock().unwrap().clone()).unwrap();
        assert!(
            shown.starts_with(ENTER) && shown.ends_with("\x1b[1;3H\x1b[?25h"),
            "{shown:?}"
        );
        assert!(shown.contains("\x1b[0;91;44mab \x1b[0m"), "{shown:?}");
        view.show(Some(&display("ab\x1b")));
        assert_eq!(sink.taken.lock().unwrap().len(), shown.len());
        view.leave();
        view.show(Some(&display("ab\x1b")));
        let all = String::from_utf8(sink.taken.lock().unwrap().clone()).unwrap();
        assert_eq!(all, format!("{shown}{LEAVE}{shown}"));
        drop(view);
        assert!(sink.taken.lock().unwrap().ends_with(LEAVE.as_bytes()));
    }

    #[test]
    fn a_graphics_mode_is_said() {
        let sink = Sink::default();
        let view = DisplayView::new(Box::new(sink.clone()));
        view.show(None);
        let shown = String::from_utf8(sink.taken.lock().unwrap().clone()).unwrap();
        assert!(shown.contains("graphics mode"), "{shown:?}");
    }
}
