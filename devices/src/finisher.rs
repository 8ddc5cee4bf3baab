//! SiFive test finisher: the guest's way to end the run or reset the board.
//!
//! A store to offset 0 with 0x5555 in the low half passes, 0x3333 fails with the high half as code,
//! 0x7777 resets; anything else does nothing. All reads are zero. It has no state.
//!
//! Source: the device tree binding `sifive,test0`, and QEMU's `virt` board for its codes.

use crate::{Context, Device, DeviceError, Input, InputKind, Power, VirtualTime, state};

/// Size of the register window in bytes.
pub const SIZE: u64 = 0x1000;

const FAIL: u64 = 0x3333;
const PASS: u64 = 0x5555;
const RESET: u64 = 0x7777;
const VERSION: u8 = 1;

/// The finisher; `syscon-poweroff` and `syscon-reboot` in the device tree write to it.
#[derive(Default)]
pub struct Finisher;

impl Device for Finisher {
    fn name(&self) -> &'static str {
        "sifive-test"
    }

    fn read(&mut self, _cx: &mut dyn Context, _offset: u64, _size: u8) -> u64 {
        0
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        if offset != 0 || !matches!(size, 2 | 4) {
            return;
        }
        let value = if size == 2 { value & 0xffff } else { value };
        match value & 0xffff {
            FAIL => cx.power(Power::Off {
                code: (value >> 16 & 0xffff) as u32,
            }),
            PASS => cx.power(Power::Off { code: 0 }),
            RESET => cx.power(Power::Reset),
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
        state::save(VERSION, &())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        state::restore(self.name(), VERSION, bytes, |(): &()| Ok(()))
    }

    fn reset(&mut self, _cx: &mut dyn Context) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    #[test]
    fn codes() {
        let off = |code| Effect::Power(Power::Off { code });
        let cases = [
            (0, 4, 0x5555, Some(off(0))),
            (0, 2, 0x5555, Some(off(0))),
            (0, 4, 0x0007_3333, Some(off(7))),
            (0, 4, 0xffff_3333, Some(off(0xffff))),
            (0, 2, 0x0007_3333, Some(off(0))),
            (0, 4, 0x7777, Some(Effect::Power(Power::Reset))),
            (0, 4, 0x1234, None),
            (0, 1, 0x5555, None),
            (4, 4, 0x5555, None),
        ];
        for (offset, size, value, effect) in cases {
            let mut cx = Fake::new();
            Finisher.write(&mut cx, offset, size, value);
            assert_eq!(cx.take(), Vec::from_iter(effect), "{value:#x}");
        }
    }
}
