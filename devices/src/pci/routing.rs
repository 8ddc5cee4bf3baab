//! How the interrupt pins of the bus reach the board's lines.
//!
//! ```text
//!   device d, pin p (0 = INTA) ─┬─▶ line 16 + (d + p) % 8                     an I/O APIC input of its own
//!                               └─▶ PIRQ (d + p + 3) % 4 ─▶ line PIRQRC says  an 8259 input, if routed
//! ```
//!
//! Pins are levels, and all that share a line are wired-or. The second road is how boards with a PIIX3 are
//! wired (device 1 has INTA on PIRQA, device 2 on PIRQB), as firmware's $PIR tables and interrupt line registers
//! tell it; the first one is this board's own, so that an ACPI guest shares lines less.

use serde::{Deserialize, Serialize};

use crate::Context;

/// First line of the first road.
const FIRST_LINE: u32 = 16;
/// Bit of a PIRQ route control register that turns the route off.
const NOT_ROUTED: u8 = 0x80;
/// The IRQs to which a PIRQ can be routed (Intel 290550, 2.2.10): 3 to 7, 9 to 12, 14 and 15.
const ROUTABLE: u16 = 0xdef8;

/// The board line of pin `pin` (0 for INTA to 3 for INTD) of device `device`: what an ACPI `_PRT` names.
pub fn interrupt_line(device: u8, pin: u8) -> u32 {
    FIRST_LINE + (u32::from(device) + u32::from(pin)) % 8
}

/// The PIRQ (0 for PIRQA to 3 for PIRQD) of pin `pin` (0 for INTA) of device `device`.
pub fn pirq(device: u8, pin: u8) -> u8 {
    ((u16::from(device) + u16::from(pin) + 3) % 4) as u8
}

/// Where the lines stand.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lines {
    /// One bit for each line from [`FIRST_LINE`] on.
    direct: u8,
    /// One bit for each IRQ.
    routed: u16,
}

impl Lines {
    /// The levels that these asserted (device, pin)s make.
    pub(super) fn new(asserted: impl Iterator<Item = (u8, u8)>, routes: [u8; 4]) -> Self {
        let mut lines = Lines::default();
        for (device, pin) in asserted {
            lines.direct |= 1 << (interrupt_line(device, pin) - FIRST_LINE);
            let route = routes[usize::from(pirq(device, pin))];
            if route & NOT_ROUTED == 0 {
                lines.routed |= 1 << (route & 0xf) & ROUTABLE;
            }
        }
        lines
    }

    /// Drives the board's lines from where they stand to where `new` has them.
    pub(super) fn drive(&mut self, cx: &mut dyn Context, new: Lines) {
        let levels = |lines: &Lines| u32::from(lines.routed) | u32::from(lines.direct) << FIRST_LINE;
        let changed = levels(self) ^ levels(&new);
        let levels = levels(&new);
        *self = new;
        for line in 0..32 {
            if changed >> line & 1 != 0 {
                cx.set_line(line, levels >> line & 1 != 0);
            }
        }
    }

    /// Whether the lines can stand so.
    pub(super) fn is_possible(&self) -> bool {
        self.routed & !ROUTABLE == 0
    }
}
