//! Guest RAM: one anonymous mapping, aligned to 2 MiB with huge pages asked for, and no policy.
//!
//! Translated code reads and writes it through raw addresses ([`Ram::host`]); Rust code goes through the
//! methods here, which check bounds. Everything runs on one thread, and no reference into the mapping is
//! ever handed out, so that a store of translated code can't contradict one.
#![allow(unsafe_code)] // The mapping is reached by raw pointers, since translated code shares it.

use std::io;

use cpu::ir::Size;
use memmap2::MmapMut;

/// Bytes in a page.
pub const PAGE: u64 = 4096;
const HUGE: usize = 2 << 20;

/// The memory.
pub struct Ram {
    base: u64,
    len: u64,
    data: *mut u8,
    _map: MmapMut,
}

// SAFETY: the pointer is into the mapping that the struct owns; nothing in it is bound to a thread.
unsafe impl Send for Ram {}

impl Ram {
    /// Zeroed memory of `len` bytes (a multiple of [`PAGE`]) at guest-physical address `base`.
    pub fn new(base: u64, len: u64) -> io::Result<Ram> {
        assert!(
            len.is_multiple_of(PAGE) && base.is_multiple_of(PAGE),
            "RAM is whole pages"
        );
        let mut map = MmapMut::map_anon(len as usize + HUGE)?;
        let offset = map.as_ptr().align_offset(HUGE);
        // SAFETY: the offset is below HUGE, by which the mapping is longer than `len`.
        let data = unsafe { map.as_mut_ptr().add(offset) };
        // A hint that may be refused; then pages are small and nothing else changes.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Ram {
            base,
            len,
            data,
            _map: map,
        })
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.len / PAGE
    }

    /// The page that holds physical address `addr`, if that is RAM.
    pub fn page_of(&self, addr: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.base);
        (offset < self.len).then_some(offset / PAGE)
    }

    /// Whether `len` bytes from `addr` are all RAM.
    pub fn contains(&self, addr: u64, len: u64) -> bool {
        let offset = addr.wrapping_sub(self.base);
        offset < self.len && len <= self.len - offset
    }

    /// Physical address of the first byte of a page.
    pub fn address_of(&self, page: u64) -> u64 {
        self.base + page * PAGE
    }

    /// Host address of a page, for translated code.
    pub fn host(&self, page: u64) -> u64 {
        assert!(page < self.pages());
        self.data as u64 + page * PAGE
    }

    fn pointer(&self, addr: u64, len: u64) -> *mut u8 {
        assert!(self.contains(addr, len), "{len} bytes at {addr:#x} are not RAM");
        // SAFETY: just checked to lie within the mapping.
        unsafe { self.data.add((addr - self.base) as usize) }
    }

    /// Reads a little-endian value of `size`, at any alignment.
    #[inline]
    pub fn read(&self, addr: u64, size: Size) -> u64 {
        let p = self.pointer(addr, size.bytes());
        // SAFETY: `pointer` checked the range; reads are unaligned.
        unsafe {
            match size {
                Size::B1 => p.read().into(),
                Size::B2 => p.cast::<u16>().read_unaligned().into(),
                Size::B4 => p.cast::<u32>().read_unaligned().into(),
                Size::B8 => p.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Writes the low bytes of `value`, past all guards: only `Memory` calls it.
    #[inline]
    pub fn write(&mut self, addr: u64, size: Size, value: u64) {
        let p = self.pointer(addr, size.bytes());
        // SAFETY: `pointer` checked the range; writes are unaligned.
        unsafe {
            match size {
                Size::B1 => p.write(value as u8),
                Size::B2 => p.cast::<u16>().write_unaligned(value as u16),
                Size::B4 => p.cast::<u32>().write_unaligned(value as u32),
                Size::B8 => p.cast::<u64>().write_unaligned(value),
            }
        }
    }

    /// Copies bytes out.
    pub fn read_bytes(&self, addr: u64, out: &mut [u8]) {
        let p = self.pointer(addr, out.len() as u64);
        // SAFETY: `pointer` checked the range; `out` is Rust's own memory, so they don't overlap.
        unsafe { p.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in, past all guards.
    pub fn write_bytes(&mut self, addr: u64, bytes: &[u8]) {
        let p = self.pointer(addr, bytes.len() as u64);
        // SAFETY: as in `read_bytes`.
        unsafe { p.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// A copy of a page.
    pub fn page(&self, page: u64) -> Box<[u8; PAGE as usize]> {
        let mut copy = Box::new([0; PAGE as usize]);
        self.read_bytes(self.address_of(page), &mut copy[..]);
        copy
    }
}
