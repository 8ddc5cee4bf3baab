//! How floating-point errors reach the interrupt controllers where CR0.NE is 0: FERR# and port 0xf0, as PCs since the AT have it.
//!
//! ```text
//!   FERR# of a hart rises ─▶ line 13 up ─▶ its handler writes port 0xf0 ─▶ line 13 down, IGNNE#
//!   no FERR# is left      ─▶ IGNNE# goes
//! ```
//!
//! Line 13 is a latch: FERR# that goes before the write leaves it up.
//!
//! Source: SDM 1 8.7.2; Intel 290550 (82371SB) 2.6.2 (port 0xf0).

use serde::{Deserialize, Serialize};

use crate::{ALL_HARTS, Context, Device, DeviceError, HartPin, Input, InputKind, VirtualTime, state};

/// Port 0xf0; any write.
pub const PORT: u64 = 0;
/// The accessing hart's FERR#; 1 byte.
pub const FERR: u64 = 1;
/// Size of the offset space in bytes.
pub const SIZE: u64 = 2;

const LINE: u32 = 13;
const VERSION: u8 = 1;

/// See the module's documentation.
pub struct Coprocessor {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    /// Of each hart.
    ferr: Vec<bool>,
    line: bool,
    ignne: bool,
}

impl Coprocessor {
    /// For `harts` harts.
    pub fn new(harts: u32) -> Self {
        Coprocessor {
            state: State {
                ferr: vec![false; harts as usize],
                line: false,
                ignne: false,
            },
        }
    }

    fn set_line(&mut self, cx: &mut dyn Context, level: bool) {
        if self.state.line != level {
            self.state.line = level;
            cx.set_line(LINE, level);
        }
    }

    fn set_ignne(&mut self, cx: &mut dyn Context, level: bool) {
        if self.state.ignne != level {
            self.state.ignne = level;
            cx.set_hart_pin(ALL_HARTS, HartPin::IgnoreNumericError, level.into());
        }
    }
}

impl Device for Coprocessor {
    fn name(&self) -> &'static str {
        "coprocessor"
    }

    fn read(&mut self, _cx: &mut dyn Context, _offset: u64, _size: u8) -> u64 {
        0
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, _size: u8, value: u64) {
        match offset {
            PORT => {
                self.set_line(cx, false);
                let any = self.state.ferr.contains(&true);
                self.set_ignne(cx, any);
            }
            FERR => {
                let Some(ferr) = self.state.ferr.get_mut(cx.hart() as usize) else {
                    return;
                };
                let rises = value & 1 != 0 && !*ferr;
                *ferr = value & 1 != 0;
                if rises && !self.state.ignne {
                    self.set_line(cx, true);
                } else if !self.state.ferr.contains(&true) {
                    self.set_ignne(cx, false);
                }
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context) {}

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let harts = self.state.ferr.len();
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            if state.ferr.len() != harts {
                Err("another number of harts")
            } else if state.ignne && !state.ferr.contains(&true) {
                Err("an error ignored that isn't there")
            } else {
                Ok(())
            }
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        self.state.ferr.fill(false);
        self.set_line(cx, false);
        self.set_ignne(cx, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    fn pin(level: u32) -> Effect {
        Effect::Pin(ALL_HARTS, HartPin::IgnoreNumericError, level)
    }

    #[test]
    fn an_error_is_an_interrupt_and_ignored_once_its_handler_says_so() {
        let (mut device, mut cx) = (Coprocessor::new(2), Fake::new());
        device.write(&mut cx, PORT, 1, 0);
        assert!(cx.effects.is_empty());
        device.write(&mut cx, FERR, 1, 1);
        device.write(&mut cx, FERR, 1, 1);
        assert_eq!(cx.take(), [Effect::Line(13, true)]);
        device.write(&mut cx, PORT, 1, 0);
        assert_eq!(cx.take(), [Effect::Line(13, false), pin(1)]);
        // While errors are ignored a new one isn't told.
        cx.hart = 1;
        device.write(&mut cx, FERR, 1, 1);
        cx.hart = 0;
        device.write(&mut cx, FERR, 1, 0);
        assert!(cx.effects.is_empty());
        cx.hart = 1;
        device.write(&mut cx, FERR, 1, 0);
        assert_eq!(cx.take(), [pin(0)]);
    }

    #[test]
    fn an_error_that_goes_leaves_its_interrupt() {
        let (mut device, mut cx) = (Coprocessor::new(1), Fake::new());
        device.write(&mut cx, FERR, 1, 1);
        device.write(&mut cx, FERR, 1, 0);
        assert_eq!(cx.take(), [Effect::Line(13, true)]);
        device.write(&mut cx, PORT, 1, 0);
        assert_eq!(cx.take(), [Effect::Line(13, false)]);
    }
}
