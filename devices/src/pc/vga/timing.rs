//! Where the beam is, from virtual time alone: 449 lines at 31.78 µs, 400 of them seen, 70 frames a second, as in all
//! text modes and mode 13h. What the CRT controller's timing registers say changes nothing here.

use crate::VirtualTime;

/// Nanoseconds of a line: 900 dots at 28.322 MHz.
const LINE_NS: u64 = 31_778;
/// Of these, the part that is seen: 720 dots.
const SEEN_NS: u64 = 25_422;
const LINES: u64 = 449;
const SEEN_LINES: u64 = 400;
/// The lines of the vertical retrace.
const RETRACE: std::ops::Range<u64> = 412..414;

const DISPLAY_DISABLED: u8 = 1 << 0;
const VERTICAL_RETRACE: u8 = 1 << 3;

/// Input status register 1.
pub(super) fn input_status_1(now: VirtualTime) -> u8 {
    let line = now.0 / LINE_NS % LINES;
    let mut status = 0;
    if line >= SEEN_LINES || now.0 % LINE_NS >= SEEN_NS {
        status |= DISPLAY_DISABLED;
    }
    if RETRACE.contains(&line) {
        status |= VERTICAL_RETRACE;
    }
    status
}
