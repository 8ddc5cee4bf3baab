//! Guest RAM: one anonymous mapping, aligned to 2 MiB with huge pages asked for, and no policy.
//!
//! It appears at one or a few places of the physical address space, the [`Region`]s; pages are numbered through all of
//! them. The last region may be ROM: memory that the guest's stores don't reach.
//!
//! Translated code reads and writes it through raw addresses ([`Ram::host`]); Rust code goes through the
//! methods here, which check bounds. No reference into the mapping is ever handed out, so that a store of translated
//! code can't contradict one. Everything runs on one thread, but for the copying of pages that wait for it
//! ([`crate::behind`]), which nobody writes meanwhile.
#![allow(unsafe_code)] // The mapping is reached by raw pointers, since translated code shares it.

use std::io;
use std::sync::Arc;

use cpu::ir::Size;
use memmap2::MmapMut;

/// Bytes in a page.
pub const PAGE: u64 = 4096;
const HUGE: usize = 2 << 20;

/// A stretch of physical addresses with memory behind it, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Stores don't reach it.
    pub rom: bool,
}

impl Region {
    /// RAM of `len` bytes at `base`.
    pub const fn ram(base: u64, len: u64) -> Region {
        Region {
            base,
            len,
            rom: false,
        }
    }
}

/// Physical address of the first byte of page `page` of these regions.
pub fn address_of(regions: &[Region], page: u64) -> Option<u64> {
    let mut offset = page.checked_mul(PAGE)?;
    for region in regions {
        if offset < region.len {
            return Some(region.base + offset);
        }
        offset -= region.len;
    }
    None
}

#[derive(Clone, Copy)]
struct Placed {
    base: u64,
    len: u64,
    /// Of its first byte in the mapping.
    offset: u64,
}

/// The memory.
pub struct Ram {
    placed: Vec<Placed>,
    len: u64,
    /// First page that is ROM.
    rom: u64,
    data: *mut u8,
    map: Arc<Mapping>,
}

// SAFETY: the pointer is into the mapping that the struct shares; nothing in it is bound to a thread.
unsafe impl Send for Ram {}

/// What is mapped: the pages, for those who copy them behind.
pub(crate) struct Mapping {
    data: *mut u8,
    pages: u64,
    _map: MmapMut,
}

// SAFETY: the pointer is into the mapping that the struct owns, and is only used by `Mapping::copy_page`, whose
// caller sees to it that nobody writes what is read.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Copies a page out.
    ///
    /// # Safety
    /// Nobody writes the page meanwhile, on any thread, and what was written to it before has happened before.
    pub unsafe fn copy_page(&self, page: u64, out: &mut [u8; PAGE as usize]) {
        assert!(page < self.pages);
        // SAFETY: the page lies within the mapping, and isn't written meanwhile; `out` is Rust's own memory, so they don't
        // overlap.
        unsafe {
            self.data
                .add((page * PAGE) as usize)
                .copy_to_nonoverlapping(out.as_mut_ptr(), out.len());
        }
    }
}

impl Ram {
    /// Zeroed memory, of whole pages.
    pub fn new(regions: &[Region]) -> io::Result<Ram> {
        let (mut placed, mut len, mut rom) = (Vec::new(), 0, u64::MAX);
        for region in regions {
            assert!(
                region.len.is_multiple_of(PAGE) && region.base.is_multiple_of(PAGE),
                "RAM is whole pages"
            );
            assert!(region.rom || rom == u64::MAX, "ROM comes last");
            if region.rom {
                rom = rom.min(len / PAGE);
            }
            placed.push(Placed {
                base: region.base,
                len: region.len,
                offset: len,
            });
            len += region.len;
        }
        let mut map = MmapMut::map_anon(len as usize + HUGE)?;
        let offset = map.as_ptr().align_offset(HUGE);
        // SAFETY: the offset is below HUGE, by which the mapping is longer than `len`.
        let data = unsafe { map.as_mut_ptr().add(offset) };
        // A hint that may be refused; then pages are small and nothing else changes.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Ram {
            placed,
            len,
            rom,
            data,
            map: Arc::new(Mapping {
                data,
                pages: len / PAGE,
                _map: map,
            }),
        })
    }

    /// The mapping, for who copies pages behind.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.map
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.len / PAGE
    }

    /// Its regions: address of the first byte and length.
    pub fn stretches(&self) -> impl Iterator<Item = (u64, u64)> {
        self.placed.iter().map(|region| (region.base, region.len))
    }

    /// The page that holds physical address `addr`, if that is RAM.
    pub fn page_of(&self, addr: u64) -> Option<u64> {
        self.offset_of(addr, 1).map(|offset| offset / PAGE)
    }

    /// Whether a page is ROM.
    pub fn is_rom(&self, page: u64) -> bool {
        page >= self.rom
    }

    /// Where `len` bytes from `addr` are in the mapping, if they are all memory of one region.
    #[inline]
    fn offset_of(&self, addr: u64, len: u64) -> Option<u64> {
        self.placed.iter().find_map(|region| {
            let offset = addr.wrapping_sub(region.base);
            (offset < region.len && len <= region.len - offset).then(|| region.offset + offset)
        })
    }

    /// Whether `len` bytes from `addr` are all RAM.
    pub fn contains(&self, addr: u64, len: u64) -> bool {
        self.offset_of(addr, len).is_some()
    }

    /// Physical address of the first byte of a page.
    pub fn address_of(&self, page: u64) -> u64 {
        let offset = page * PAGE;
        let region = self.placed.iter().rev().find(|region| region.offset <= offset);
        region.map_or(offset, |region| region.base + (offset - region.offset))
    }

    /// Host address of a page, for translated code.
    pub fn host(&self, page: u64) -> u64 {
        assert!(page < self.pages());
        self.data as u64 + page * PAGE
    }

    fn pointer(&self, addr: u64, len: u64) -> *mut u8 {
        let Some(offset) = self.offset_of(addr, len) else {
            panic!("{len} bytes at {addr:#x} are not RAM");
        };
        // SAFETY: just checked to lie within the mapping.
        unsafe { self.data.add(offset as usize) }
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
        self.copy_page(page, &mut copy);
        copy
    }

    /// Copies a page out.
    pub fn copy_page(&self, page: u64, out: &mut [u8; PAGE as usize]) {
        // SAFETY: it is this thread that writes.
        unsafe { self.map.copy_page(page, out) }
    }
}
