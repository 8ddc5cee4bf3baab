//! Debug ports: a way out with a code, a console that needs no driver, and the POST code latch.
//!
//! ```text
//!   0x00 DEBUG_EXIT     port 0xf4, 4 bytes   a write of v ends the run with code (v << 1) | 1
//!   0x08 DEBUG_CONSOLE  port 0xe9            a byte written goes out; reads 0xe9
//!   0x10 POST           port 0x80            keeps the last byte written
//! ```
//!
//! These are known from QEMU (isa-debug-exit, debugcon) and Bochs; port 0x80 from every BIOS.

use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, Input, InputKind, Power, VirtualTime, state};

/// Where the exit port (0xf4) lies; 4 bytes.
pub const DEBUG_EXIT: u64 = 0x00;
/// Where the console port (0xe9) lies; 1 byte.
pub const DEBUG_CONSOLE: u64 = 0x08;
/// Where the POST code port (0x80) lies; 1 byte.
pub const POST: u64 = 0x10;
/// Size of the offset space in bytes.
pub const SIZE: u64 = 0x18;

/// What a read of the console port gives, by which a guest knows that it is there.
const PRESENT: u64 = 0xe9;
const VERSION: u8 = 1;

/// The debug ports.
pub struct TestDev {
    port: u8,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    post: u8,
}

impl TestDev {
    /// Debug ports whose console is console port `port`.
    pub fn new(port: u8) -> Self {
        TestDev {
            port,
            state: State { post: 0 },
        }
    }
}

impl Device for TestDev {
    fn name(&self) -> &'static str {
        "testdev"
    }

    fn read(&mut self, _cx: &mut dyn Context, offset: u64, _size: u8) -> u64 {
        match offset {
            DEBUG_CONSOLE => PRESENT,
            POST => self.state.post.into(),
            _ => 0,
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        match offset {
            DEBUG_EXIT => {
                let value = match size {
                    1 => value & 0xff,
                    2 => value & 0xffff,
                    _ => value,
                } as u32;
                cx.power(Power::Off { code: value << 1 | 1 });
            }
            DEBUG_CONSOLE => cx.console_out(self.port, value as u8),
            POST => self.state.post = value as u8,
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
        self.state = state::restore(self.name(), VERSION, bytes, |_: &State| Ok(()))?;
        Ok(())
    }

    fn reset(&mut self, _cx: &mut dyn Context) {
        self.state.post = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    #[test]
    fn exit_console_and_post() {
        let (mut dev, mut cx) = (TestDev::new(1), Fake::new());
        assert_eq!(dev.read(&mut cx, DEBUG_CONSOLE, 1), 0xe9);
        dev.write(&mut cx, DEBUG_CONSOLE, 1, 0x41);
        dev.write(&mut cx, DEBUG_EXIT, 1, 0x10);
        dev.write(&mut cx, DEBUG_EXIT, 4, 0xffff_ffff);
        assert_eq!(
            cx.take(),
            [
                Effect::Out(1, 0x41),
                Effect::Power(Power::Off { code: 0x21 }),
                Effect::Power(Power::Off { code: 0xffff_ffff }),
            ]
        );
        dev.write(&mut cx, POST, 1, 0x5a);
        assert_eq!(dev.read(&mut cx, POST, 1), 0x5a);
        dev.reset(&mut cx);
        assert_eq!(dev.read(&mut cx, POST, 1), 0);
    }
}
