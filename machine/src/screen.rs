//! What a machine's display shows.

use devices::Device;
use devices::pc::Vga;
pub use devices::pc::vga::Screen;

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
}
