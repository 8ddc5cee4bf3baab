//! What a machine's display shows.

use devices::Device;
use devices::pc::Vga;
pub use devices::pc::vga::Screen;

use devices::pc::vga::character;
use icount::{Display, Glyph};

use crate::machine::Machine;

impl Machine {
    /// Whether it has a display.
    pub fn has_display(&self) -> bool {
        self.sys.wiring.display.is_some()
    }

    /// What the display shows, if it is in a text mode.
    pub fn screen(&self) -> Option<Screen> {
        // The state says it all; devices tell it to nobody else.
        let device = self.sys.devices[self.sys.wiring.display?].device.as_ref()?;
        let mut display = Vga::new();
        display.restore(&device.save()).ok()?;
        display.screen()
    }

    /// The same for a door, which knows no devices.
    pub(crate) fn display(&self) -> Option<Display> {
        let screen = self.screen()?;
        let glyph = |cell: &devices::pc::vga::Cell| Glyph {
            character: if screen.blank { ' ' } else { character(cell.code) },
            foreground: cell.attribute & 15,
            background: cell.attribute >> 4 & 7,
        };
        let row = |cells: &Vec<_>| cells.iter().map(glyph).collect();
        Some(Display {
            rows: screen.cells.iter().map(row).collect(),
            cursor: screen.cursor.filter(|_| !screen.blank),
        })
    }
}
