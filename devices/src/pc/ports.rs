//! Access to ports of eight bits: a wider one reaches the next ports byte by byte, lowest first, as on the
//! ISA bus (82371SB data sheet, 3.3).

/// Reads `size` bytes from the ports at `offset` on.
pub(super) fn read(offset: u64, size: u8, mut port: impl FnMut(u64) -> u8) -> u64 {
    (0..u64::from(size.min(8))).fold(0, |value, n| {
        value | u64::from(port(offset.wrapping_add(n))) << (8 * n)
    })
}

/// Writes the `size` low bytes of `value` to the ports at `offset` on.
pub(super) fn write(offset: u64, size: u8, value: u64, mut port: impl FnMut(u64, u8)) {
    for n in 0..u64::from(size.min(8)) {
        port(offset.wrapping_add(n), (value >> (8 * n)) as u8);
    }
}
