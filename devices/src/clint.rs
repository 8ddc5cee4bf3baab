//! SiFive CLINT: the software and timer interrupts of up to 4095 harts, and the `mtime` counter.
//!
//! ```text
//!   0x0000 + 4h   msip      bit 0 drives MSIP of hart h
//!   0x4000 + 8h   mtimecmp  MTIP of hart h is (mtime >= mtimecmp), unsigned
//!   0xbff8        mtime     10 MHz, writable
//! ```
//!
//! `mtime` is `now / 100 + offset`; a guest's write changes only the offset. MTIP changes at the
//! first nanosecond at which the comparison does, in either direction (`mtime` may wrap), so the
//! time of each hart's next change is state, computed at the write that determines it.
//!
//! Reset leaves `mtime` at 0 and `mtimecmp` at its greatest value, so that no timer interrupt is
//! pending before firmware asks for one (the manual leaves `mtimecmp` undefined).
//!
//! Source: SiFive FU540-C000 manual, chapter 9; RISC-V Priv 3.2.1.

use icount::VirtualTime;
use serde::{Deserialize, Serialize};

use crate::{Context, Device, DeviceError, HartPin, Input, InputKind, state};

/// Nanoseconds in a tick of `mtime` (10 MHz, the `timebase-frequency` of QEMU's `virt` board).
pub const NS_PER_TICK: u64 = 100;

/// Size of the register window in bytes.
pub const SIZE: u64 = 0x1_0000;

const MSIP: u64 = 0;
const MTIMECMP: u64 = 0x4000;
const MTIME: u64 = 0xbff8;
const VERSION: u8 = 1;

/// The core-local interruptor of all harts.
pub struct Clint {
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    /// Added to the ticks of virtual time, wrapping.
    offset: u64,
    harts: Vec<Hart>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Hart {
    msip: bool,
    mtip: bool,
    mtimecmp: u64,
    /// When `mtip` changes next, if it ever does.
    change: Option<VirtualTime>,
}

impl Clint {
    /// A CLINT for `harts` harts, numbered from 0; at most 4095 have registers.
    pub fn new(harts: u32) -> Self {
        let hart = Hart {
            msip: false,
            mtip: false,
            mtimecmp: u64::MAX,
            change: None,
        };
        let count = harts.min(((MTIME - MTIMECMP) / 8) as u32) as usize;
        let mut clint = Clint {
            state: State {
                offset: 0,
                harts: vec![hart; count],
            },
        };
        for hart in &mut clint.state.harts {
            hart.change = next_change(0, VirtualTime(0), hart.mtimecmp);
        }
        clint
    }

    /// `mtime` at `now`: what the `time` CSR reads too.
    pub fn mtime(&self, now: VirtualTime) -> u64 {
        mtime(self.state.offset, now)
    }

    /// What is added to `now / NS_PER_TICK`, wrapping, to give `mtime`. Only a guest's write to
    /// `mtime` changes it, and reset.
    pub fn offset(&self) -> u64 {
        self.state.offset
    }

    /// The first time after `now` at which the comparison `mtime >= compare` changes, if it ever
    /// does: for comparators outside the CLINT, such as `stimecmp`.
    pub fn next_change(&self, now: VirtualTime, compare: u64) -> Option<VirtualTime> {
        next_change(self.state.offset, now, compare)
    }

    /// Brings hart `index`'s MTIP and its next change up to date.
    fn update_timer(&mut self, cx: &mut dyn Context, index: usize) {
        let now = cx.now();
        let offset = self.state.offset;
        let Some(hart) = self.state.harts.get_mut(index) else {
            return;
        };
        let level = mtime(offset, now) >= hart.mtimecmp;
        hart.change = next_change(offset, now, hart.mtimecmp);
        if level != hart.mtip {
            hart.mtip = level;
            cx.set_hart_pin(index as u32, HartPin::MachineTimer, level.into());
        }
    }

    fn update_all(&mut self, cx: &mut dyn Context) {
        for index in 0..self.state.harts.len() {
            self.update_timer(cx, index);
        }
    }

    fn set_msip(&mut self, cx: &mut dyn Context, index: usize, level: bool) {
        if let Some(hart) = self.state.harts.get_mut(index)
            && hart.msip != level
        {
            hart.msip = level;
            cx.set_hart_pin(index as u32, HartPin::MachineSoftware, level.into());
        }
    }

    /// The aligned doubleword at `offset`, from which 4- and 8-byte reads are cut.
    fn doubleword(&self, now: VirtualTime, offset: u64) -> u64 {
        let harts = &self.state.harts;
        match offset {
            MTIME => self.mtime(now),
            MTIMECMP..MTIME => harts
                .get(((offset - MTIMECMP) / 8) as usize)
                .map_or(0, |hart| hart.mtimecmp),
            MSIP..MTIMECMP => {
                let msip = |index| harts.get(index).is_some_and(|hart: &Hart| hart.msip);
                let first = (offset / 4) as usize;
                u64::from(msip(first)) | u64::from(msip(first + 1)) << 32
            }
            _ => 0,
        }
    }
}

fn mtime(offset: u64, now: VirtualTime) -> u64 {
    (now.0 / NS_PER_TICK).wrapping_add(offset)
}

/// The first time after `now` at which `mtime >= compare` changes.
fn next_change(offset: u64, now: VirtualTime, compare: u64) -> Option<VirtualTime> {
    let mtime = mtime(offset, now);
    let ticks = if mtime < compare {
        compare - mtime
    } else if compare != 0 {
        // It holds, until mtime wraps to 0.
        (u64::MAX - mtime).checked_add(1)?
    } else {
        return None;
    };
    (now.0 / NS_PER_TICK)
        .checked_add(ticks)?
        .checked_mul(NS_PER_TICK)
        .map(VirtualTime)
}

impl Device for Clint {
    fn name(&self) -> &'static str {
        "clint"
    }

    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64 {
        let doubleword = self.doubleword(cx.now(), offset & !7);
        match (size, offset & 7) {
            (8, 0) => doubleword,
            (4, 0) => doubleword & 0xffff_ffff,
            (4, 4) => doubleword >> 32,
            _ => 0,
        }
    }

    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64) {
        let aligned = offset & !7;
        let now = cx.now();
        let old = self.doubleword(now, aligned);
        let new = match (size, offset & 7) {
            (8, 0) => value,
            (4, 0) => old & !0xffff_ffff | value & 0xffff_ffff,
            (4, 4) => old & 0xffff_ffff | value << 32,
            _ => return,
        };
        match aligned {
            MTIME => {
                self.state.offset = new.wrapping_sub(now.0 / NS_PER_TICK);
                self.update_all(cx);
            }
            MTIMECMP..MTIME => {
                let index = ((aligned - MTIMECMP) / 8) as usize;
                if let Some(hart) = self.state.harts.get_mut(index) {
                    hart.mtimecmp = new;
                    self.update_timer(cx, index);
                }
            }
            MSIP..MTIMECMP => {
                let first = (aligned / 4) as usize;
                self.set_msip(cx, first, new & 1 != 0);
                self.set_msip(cx, first + 1, new >> 32 & 1 != 0);
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.harts.iter().filter_map(|h| h.change).min()
    }

    fn fire(&mut self, cx: &mut dyn Context) {
        let now = cx.now();
        for index in 0..self.state.harts.len() {
            if self.state.harts[index].change.is_some_and(|at| at <= now) {
                self.update_timer(cx, index);
            }
        }
    }

    fn line_changed(&mut self, _cx: &mut dyn Context, _line: u32, _level: bool) {}

    fn accepts(&self, _kind: InputKind) -> bool {
        false
    }

    fn input(&mut self, _cx: &mut dyn Context, _input: &Input) {}

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let harts = self.state.harts.len();
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            if state.harts.len() == harts {
                Ok(())
            } else {
                Err("another number of harts")
            }
        })?;
        Ok(())
    }

    fn reset(&mut self, cx: &mut dyn Context) {
        self.state.offset = 0u64.wrapping_sub(cx.now().0 / NS_PER_TICK);
        for index in 0..self.state.harts.len() {
            self.set_msip(cx, index, false);
            self.state.harts[index].mtimecmp = u64::MAX;
            self.update_timer(cx, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Effect, Fake};

    #[test]
    fn timer_rises_at_the_first_nanosecond() {
        for compare in [1u64, 2, 7, 1000] {
            let (mut clint, mut cx) = (Clint::new(2), Fake::new());
            cx.now = VirtualTime(42);
            clint.write(&mut cx, 0x4008, 8, compare);
            let due = VirtualTime(compare * 100);
            assert_eq!(clint.deadline(), Some(due));
            cx.now = VirtualTime(due.0 - 1);
            assert_eq!(clint.read(&mut cx, 0xbff8, 8), compare - 1);
            clint.fire(&mut cx);
            assert!(cx.effects.is_empty());
            cx.now = due;
            assert_eq!(clint.read(&mut cx, 0xbff8, 8), compare);
            clint.fire(&mut cx);
            assert_eq!(cx.take(), [Effect::Pin(1, HartPin::MachineTimer, 1)]);
            clint.fire(&mut cx);
            assert!(cx.effects.is_empty());
            assert_eq!(clint.deadline(), None);
            clint.write(&mut cx, 0x4008, 8, u64::MAX);
            assert_eq!(cx.take(), [Effect::Pin(1, HartPin::MachineTimer, 0)]);
        }
    }

    #[test]
    fn a_compare_in_the_past_pends_at_once() {
        let (mut clint, mut cx) = (Clint::new(1), Fake::new());
        cx.now = VirtualTime(1_000_000);
        clint.write(&mut cx, 0x4000, 8, 10_000);
        assert_eq!(cx.take(), [Effect::Pin(0, HartPin::MachineTimer, 1)]);
    }

    #[test]
    fn halves_and_the_rv32_sequence() {
        // RISC-V Priv 3.2.1: low half to all ones, high half, low half; no spurious interrupt.
        let (mut clint, mut cx) = (Clint::new(1), Fake::new());
        cx.now = VirtualTime(500);
        clint.write(&mut cx, 0x4000, 4, 0xffff_ffff);
        clint.write(&mut cx, 0x4004, 4, 0);
        clint.write(&mut cx, 0x4000, 4, 6);
        assert!(cx.effects.is_empty());
        assert_eq!(clint.read(&mut cx, 0x4000, 8), 6);
        assert_eq!(clint.deadline(), Some(VirtualTime(600)));
    }

    #[test]
    fn writing_mtime_moves_every_deadline() {
        let (mut clint, mut cx) = (Clint::new(2), Fake::new());
        clint.write(&mut cx, 0x4000, 8, 100);
        clint.write(&mut cx, 0x4008, 8, 200);
        cx.now = VirtualTime(1050);
        clint.write(&mut cx, 0xbff8, 8, 150);
        assert_eq!(cx.take(), [Effect::Pin(0, HartPin::MachineTimer, 1)]);
        assert_eq!(clint.mtime(cx.now), 150);
        // 50 ticks more; the tick in progress began at 1000.
        assert_eq!(clint.deadline(), Some(VirtualTime(6000)));
        clint.write(&mut cx, 0xbff8, 4, 0);
        assert_eq!(cx.take(), [Effect::Pin(0, HartPin::MachineTimer, 0)]);
    }

    #[test]
    fn mtime_wraps() {
        let (mut clint, mut cx) = (Clint::new(1), Fake::new());
        clint.write(&mut cx, 0x4000, 8, 5);
        clint.write(&mut cx, 0xbff8, 8, u64::MAX);
        assert_eq!(cx.take(), [Effect::Pin(0, HartPin::MachineTimer, 1)]);
        assert_eq!(clint.deadline(), Some(VirtualTime(100)));
        cx.now = VirtualTime(100);
        clint.fire(&mut cx);
        assert_eq!(cx.take(), [Effect::Pin(0, HartPin::MachineTimer, 0)]);
        assert_eq!(clint.deadline(), Some(VirtualTime(600)));
    }

    #[test]
    fn software_interrupts_are_one_bit() {
        let (mut clint, mut cx) = (Clint::new(2), Fake::new());
        clint.write(&mut cx, 4, 4, 0xffff_ffff);
        assert_eq!(cx.take(), [Effect::Pin(1, HartPin::MachineSoftware, 1)]);
        assert_eq!(clint.read(&mut cx, 4, 4), 1);
        assert_eq!(clint.read(&mut cx, 0, 8), 1 << 32);
        clint.write(&mut cx, 8, 4, 1); // no such hart
        clint.write(&mut cx, 4, 4, 2);
        assert_eq!(cx.take(), [Effect::Pin(1, HartPin::MachineSoftware, 0)]);
    }
}
