//! The code cache: one anonymous file mapped twice, to be written and to be executed, never both at one
//! address. A bump allocator; memory is reused only after [`Cache::flush`], so that a running block never
//! vanishes under itself.
//!
//! Unsafe here: mapping a file that nobody else has.
#![allow(unsafe_code)]

use std::fs::File;

use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::JitError;

/// See the module's documentation.
pub struct Cache {
    write: MmapMut,
    run: Mmap,
    used: usize,
    /// What flushing keeps: thunks and constants.
    kept: usize,
}

impl Cache {
    /// `capacity` bytes.
    pub fn new(capacity: usize) -> Result<Cache, JitError> {
        let fd = memfd_create("jit", MemfdFlags::CLOEXEC).map_err(|e| JitError::Map(e.into()))?;
        let file = File::from(fd);
        file.set_len(capacity as u64).map_err(JitError::Map)?;
        // SAFETY: the file is anonymous and not shared with anybody, so its content changes only
        // through `write`, and what `run` shows is only ever executed or compared.
        let (write, run) = unsafe {
            (
                MmapOptions::new()
                    .len(capacity)
                    .map_mut(&file)
                    .map_err(JitError::Map)?,
                MmapOptions::new()
                    .len(capacity)
                    .map_exec(&file)
                    .map_err(JitError::Map)?,
            )
        };
        Ok(Cache {
            write,
            run,
            used: 0,
            kept: 0,
        })
    }

    /// Address at which the next allocation will execute.
    pub fn next(&self) -> u64 {
        self.run.as_ptr() as u64 + self.used as u64
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.write.len() - self.used
    }

    /// Whether an address is within what is in use.
    pub fn contains(&self, code: u64) -> bool {
        code.wrapping_sub(self.run.as_ptr() as u64) < self.used as u64
    }

    /// Appends code that was made for [`Cache::next`]; the next allocation is 16-byte aligned. The caller has
    /// checked [`Cache::left`].
    pub fn append(&mut self, code: &[u8]) {
        self.write[self.used..self.used + code.len()].copy_from_slice(code);
        self.used = (self.used + code.len() + 15) & !15;
        self.used = self.used.min(self.write.len());
    }

    /// Appends more code at an address past all that is in use.
    pub fn append_here(&mut self, at: u64, code: &[u8]) {
        self.used = (at - self.run.as_ptr() as u64) as usize;
        self.append(code);
    }

    /// Keeps what was appended so far across flushes.
    pub fn keep(&mut self) {
        self.kept = self.used;
    }

    /// Forgets all blocks.
    pub fn flush(&mut self) {
        self.used = self.kept;
    }

    /// The code at an address, for dumps.
    pub fn bytes(&self, code: u64, len: usize) -> &[u8] {
        let at = (code - self.run.as_ptr() as u64) as usize;
        &self.write[at..at + len]
    }

    /// Rewrites the 32-bit displacement at address `at`, so that the jump that it ends goes to `target`.
    pub fn patch(&mut self, at: u64, target: u64) {
        let index = (at - self.run.as_ptr() as u64) as usize;
        let displacement = target.wrapping_sub(at + 4) as i32;
        self.write[index..index + 4].copy_from_slice(&displacement.to_le_bytes());
    }
}
