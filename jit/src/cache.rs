//! The code cache: shared memory without a name (so that perf looks for names of its own) mapped twice, to be written and
//! to be executed, never both at one address. A bump allocator; memory is reused only after [`Cache::flush`], so that a running block never
//! vanishes under itself.
//!
//! A guest's kernel makes tens of megabytes of code and jumps about in it, so the cache asks for huge
//! pages: a region of 2 MiB is collapsed into one when its first byte is used. If the host won't, nothing
//! is lost but speed.
//!
//! Unsafe here: mapping memory that nobody else has, and writing to the mapping.
#![allow(unsafe_code)]

use std::ptr::null_mut;

use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

use crate::JitError;

/// Bytes for counters, of four bytes each.
const COUNTERS: usize = 4 << 20;

/// Size of a huge page.
const HUGE: usize = 2 << 20;

fn failed(error: rustix::io::Errno) -> JitError {
    JitError::Map(error.into())
}

/// The memory, at an address that suits huge pages.
struct Mapping {
    /// What was reserved, and how much.
    reserved: *mut u8,
    len: usize,
    start: *mut u8,
}

impl Mapping {
    /// Fresh memory, to be written.
    fn fresh(len: usize) -> Result<Mapping, JitError> {
        let mapping = Mapping::reserve(len)?;
        // SAFETY: it replaces part of the reservation, which is ours alone.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(mapping.start.cast(), len, rights, flags).map_err(failed)?;
        }
        Ok(mapping)
    }

    /// The same memory once more, to be executed.
    fn again(&self, len: usize) -> Result<Mapping, JitError> {
        let mapping = Mapping::reserve(len + COUNTERS)?;
        // SAFETY: an old length of 0 leaves the shared mapping where it is and maps its memory a second time, over part
        // of the reservation, which is ours alone.
        unsafe {
            let flags = MremapFlags::MAYMOVE;
            mremap_fixed(self.start.cast(), 0, len, flags, mapping.start.cast()).map_err(failed)?;
            mprotect(
                mapping.start.cast(),
                len,
                MprotectFlags::READ | MprotectFlags::EXEC,
            )
            .map_err(failed)?;
            // Counters behind the code, in its reach.
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(mapping.start.add(len).cast(), COUNTERS, rights, flags).map_err(failed)?;
        }
        Ok(mapping)
    }

    /// Addresses that suit huge pages.
    fn reserve(len: usize) -> Result<Mapping, JitError> {
        let room = len + HUGE;
        // SAFETY: a new mapping at an address that the host chooses touches no other memory.
        unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let reserved = mmap_anonymous(null_mut(), room, ProtFlags::empty(), flags)
                .map_err(failed)?
                .cast::<u8>();
            Ok(Mapping {
                reserved,
                len: room,
                start: reserved.add(reserved.align_offset(HUGE)),
            })
        }
    }

    /// Asks for a huge page at a multiple of its size.
    fn collapse(&self, at: usize) {
        // SAFETY: the range is within the mapping; the advice changes no content. Its failure is no error.
        unsafe {
            libc::madvise(self.start.add(at).cast(), HUGE, libc::MADV_COLLAPSE);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is what `new` reserved, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.reserved.cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

// SAFETY: a mapping is memory that belongs to its owner, like a Box.
unsafe impl Send for Mapping {}

/// See the module's documentation.
pub struct Cache {
    write: Mapping,
    run: Mapping,
    len: usize,
    used: usize,
    /// What flushing keeps: thunks and constants.
    kept: usize,
    /// Below this huge pages were asked for.
    collapsed: usize,
    /// Counters in use.
    counters: usize,
}

impl Cache {
    /// About `capacity` bytes.
    pub fn new(capacity: usize) -> Result<Cache, JitError> {
        let len = capacity.next_multiple_of(4096);
        let write = Mapping::fresh(len)?;
        let run = write.again(len)?;
        Ok(Cache {
            write,
            run,
            len,
            used: 0,
            kept: 0,
            collapsed: 0,
            counters: 0,
        })
    }

    fn base(&self) -> u64 {
        self.run.start as u64
    }

    /// Address at which the first byte executes.
    pub fn start(&self) -> u64 {
        self.base()
    }

    /// Address at which the next allocation will execute.
    pub fn next(&self) -> u64 {
        self.base() + self.used as u64
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.len - self.used
    }

    /// Whether an address is within what is in use.
    pub fn contains(&self, code: u64) -> bool {
        code.wrapping_sub(self.base()) < self.used as u64
    }

    /// Overwrites bytes.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: the range was checked, the memory is mapped for writing, and no reference to it exists
        // but the one that `bytes` borrows from `self` at most.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.write.start.add(at), bytes.len());
        }
    }

    /// Appends code that was made for [`Cache::next`]; the next allocation is 16-byte aligned. The caller has
    /// checked [`Cache::left`].
    pub fn append(&mut self, code: &[u8]) {
        let end = self.used + code.len();
        while self.collapsed < end && self.collapsed + HUGE <= self.len {
            self.write.collapse(self.collapsed);
            self.run.collapse(self.collapsed);
            self.collapsed += HUGE;
        }
        self.put(self.used, code);
        self.used = end.next_multiple_of(16).min(self.len);
    }

    /// Appends more code at an address past all that is in use.
    pub fn append_here(&mut self, at: u64, code: &[u8]) {
        self.used = (at - self.base()) as usize;
        self.append(code);
    }

    /// Keeps what was appended so far across flushes.
    pub fn keep(&mut self) {
        self.kept = self.used;
    }

    /// Forgets all blocks.
    pub fn flush(&mut self) {
        self.used = self.kept;
        self.counters = 0;
    }

    fn counter_at(&self, counter: u32) -> *mut i32 {
        assert!((counter as usize) < self.counters);
        // SAFETY: `again` has mapped that many bytes behind the code.
        unsafe { self.run.start.add(self.len).cast::<i32>().add(counter as usize) }
    }

    /// A counter that code counts down, with its value; `None`: there are no more.
    pub fn new_counter(&mut self, value: i32) -> Option<u32> {
        if self.counters == COUNTERS / 4 {
            return None;
        }
        self.counters += 1;
        let counter = self.counters as u32 - 1;
        self.set_counter(counter, value);
        Some(counter)
    }

    /// Where words for guesses may be, a number of which [`Cache::keep_guesses`] keeps; `None`: there is no room for `most`.
    pub fn guesses(&mut self, most: usize) -> Option<u64> {
        let first = self.counters.next_multiple_of(2);
        if first + 2 * most > COUNTERS / 4 {
            return None;
        }
        self.counters = first;
        Some(self.run.start as u64 + self.len as u64 + 4 * first as u64)
    }

    /// Keeps that many of the words that were last offered.
    pub fn keep_guesses(&mut self, count: usize) {
        self.counters += 2 * count;
    }

    /// Sets a counter.
    pub fn set_counter(&mut self, counter: u32, value: i32) {
        // SAFETY: the address is a counter's; code that writes to it doesn't run now.
        unsafe { self.counter_at(counter).write(value) }
    }

    /// A counter's value.
    pub fn counter(&self, counter: u32) -> i32 {
        // SAFETY: as above.
        unsafe { self.counter_at(counter).read() }
    }

    /// A counter's address.
    pub fn counter_address(&self, counter: u32) -> u64 {
        self.counter_at(counter) as u64
    }

    /// Has code at an entry jump elsewhere. Nothing may be about to execute it.
    pub fn redirect(&mut self, entry: u64, target: u64) {
        self.put((entry - self.base()) as usize, &[0xe9]);
        self.patch(entry + 1, target);
    }

    /// The code at an address, for dumps.
    pub fn bytes(&self, code: u64, len: usize) -> &[u8] {
        let at = (code - self.base()) as usize;
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: the range was checked; it changes only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.write.start.add(at), len) }
    }

    /// Where the jump goes whose 32-bit displacement is at address `at`.
    pub fn target(&self, at: u64) -> u64 {
        let bytes = self.bytes(at, 4).try_into().unwrap_or_default();
        (at + 4).wrapping_add(i64::from(i32::from_le_bytes(bytes)) as u64)
    }

    /// Rewrites the 32-bit displacement at address `at`, so that the jump that it ends goes to `target`.
    pub fn patch(&mut self, at: u64, target: u64) {
        let index = (at - self.base()) as usize;
        let displacement = target.wrapping_sub(at + 4) as i32;
        self.put(index, &displacement.to_le_bytes());
    }
}
