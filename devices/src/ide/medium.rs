//! Bytes of a drive, over its blocks.

use std::ops::Range;

use crate::{BLOCK_SIZE, Context, DiskError};

/// The blocks that `len` bytes at `at` lie in: number, part of the block, part of the bytes.
fn blocks(at: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = at.saturating_add(done as u64);
        let from = (at % BLOCK_SIZE as u64) as usize;
        let count = (len - done).min(BLOCK_SIZE - from);
        let bytes = done..done + count;
        done += count;
        (count > 0).then_some((at / BLOCK_SIZE as u64, from..from + count, bytes))
    })
}

/// Reads the bytes at `at`.
pub(super) fn read(cx: &mut dyn Context, drive: u8, at: u64, buf: &mut [u8]) -> Result<(), DiskError> {
    let mut block = [0; BLOCK_SIZE];
    for (number, part, bytes) in blocks(at, buf.len()) {
        cx.disk_read(drive, number, &mut block)?;
        buf[bytes].copy_from_slice(&block[part]);
    }
    Ok(())
}

/// Writes the bytes at `at`; of a block that isn't written whole, the rest stays.
pub(super) fn write(cx: &mut dyn Context, drive: u8, at: u64, buf: &[u8]) -> Result<(), DiskError> {
    let mut block = [0; BLOCK_SIZE];
    for (number, part, bytes) in blocks(at, buf.len()) {
        if part.len() < BLOCK_SIZE {
            cx.disk_read(drive, number, &mut block)?;
        }
        block[part].copy_from_slice(&buf[bytes]);
        cx.disk_write(drive, number, &block)?;
    }
    Ok(())
}
