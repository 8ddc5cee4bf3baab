//! Kernel loaders: from the bytes of a file to what must stand in RAM, and where to enter it.
//!
//! ```text
//! bytes ── gzip? unpack, at most RAM's size ──┬─ "\x7fELF"      ── elf::load
//!                                             ├─ "RSC\x05"      ── image::load (Linux Image)
//!                                             ├─ another's magic ── WrongArchitecture
//!                                             └─ anything else  ── raw, at the start of RAM
//! ```
//!
//! The kind is told by content, never by a file's name. Every field of every header is hostile: sizes
//! are checked against the file and against RAM before anything is allocated, so that what a
//! loader returns is never larger than RAM. Sources: the ELF-64 object file format 1.5; Linux
//! Documentation/arch/riscv/boot-image-header.rst.

pub(crate) mod elf;
mod image;

use crate::FirmwareError;
use std::io::Read;

/// What a file turned out to be, once unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// An ELF64 file for RISC-V: bare-metal program, firmware or kernel.
    Elf,
    /// A Linux RISC-V `Image`, entered in supervisor mode with a0 = hart, a1 = FDT.
    LinuxImage,
    /// No known header: machine code, entered at its first byte.
    Raw,
}

/// A piece of RAM to fill before the guest starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Physical address of the first byte.
    pub address: u64,
    /// Bytes to copy there.
    pub bytes: Vec<u8>,
    /// Bytes that the segment occupies; what lies beyond `bytes` is zero.
    pub mem_size: u64,
}

impl Segment {
    /// Bytes and nothing behind them.
    pub(crate) fn new(address: u64, bytes: Vec<u8>) -> Segment {
        let mem_size = bytes.len() as u64;
        Segment {
            address,
            bytes,
            mem_size,
        }
    }

    /// First address past the segment.
    pub fn end(&self) -> u64 {
        self.address + self.mem_size
    }
}

/// A loaded kernel or program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What goes into RAM: sorted, inside RAM, without overlap.
    pub segments: Vec<Segment>,
    /// Physical address of the first instruction.
    pub entry: u64,
    /// What the file was.
    pub kind: KernelKind,
    /// Whether the file was gzip-compressed.
    pub compressed: bool,
    /// Physical address of the symbol `tohost` (the host-target interface of riscv-tests), if an ELF file has it.
    pub tohost: Option<u64>,
    /// Physical address of the symbol `fromhost`.
    pub fromhost: Option<u64>,
}

impl Loaded {
    /// First address past all segments: initrd and FDT can go above it.
    pub fn end(&self) -> u64 {
        self.segments.iter().map(Segment::end).max().unwrap_or(0)
    }
}

/// RAM that a loader may fill.
#[derive(Clone, Copy)]
struct Ram {
    base: u64,
    size: u64,
}

impl Ram {
    /// Whether `size` bytes at `start` lie inside.
    fn check(self, start: u64, size: u64) -> Result<(), FirmwareError> {
        let inside = start >= self.base && size <= self.size && start - self.base <= self.size - size;
        if inside {
            return Ok(());
        }
        Err(FirmwareError::OutsideRam {
            start,
            size,
            base: self.base,
            ram: self.size,
        })
    }
}

/// Loads a kernel, a firmware or a bare-metal program for RAM of `mem_size` bytes at `base`.
///
/// - ELF64: each loadable segment at its physical address. A position-independent file linked below
///   RAM (OpenSBI's ELF files) is moved to `base` as a whole.
/// - Linux Image: at `base` + the header's text offset.
/// - Anything else: at `base`; see [`load_raw`] for another place.
/// - gzip around any of these is unpacked first.
///
/// # Errors
/// The file's fault, always: empty, cut off, malformed, for another architecture, not inside RAM, with
/// overlapping segments, or larger than RAM once unpacked.
pub fn load_kernel(bytes: &[u8], base: u64, mem_size: u64) -> Result<Loaded, FirmwareError> {
    let ram = Ram { base, size: mem_size };
    if bytes.starts_with(&GZIP_MAGIC) {
        let unpacked = gunzip(bytes, mem_size)?;
        if unpacked.starts_with(&GZIP_MAGIC) {
            return Err(FirmwareError::Gzip {
                what: "it holds another gzip file".into(),
            });
        }
        let loaded = load_unpacked(&unpacked, ram)?;
        return Ok(Loaded {
            compressed: true,
            ..loaded
        });
    }
    load_unpacked(bytes, ram)
}

/// Loads bytes without a header at `address`, in RAM of `mem_size` bytes at `base`; they are entered at
/// their first byte.
///
/// # Errors
/// If there are no bytes, or they aren't inside RAM.
pub fn load_raw(bytes: &[u8], address: u64, base: u64, mem_size: u64) -> Result<Loaded, FirmwareError> {
    if bytes.is_empty() {
        return Err(FirmwareError::Empty);
    }
    Ram { base, size: mem_size }.check(address, bytes.len() as u64)?;
    Ok(Loaded {
        segments: vec![Segment::new(address, bytes.to_vec())],
        entry: address,
        kind: KernelKind::Raw,
        compressed: false,
        tohost: None,
        fromhost: None,
    })
}

pub(crate) const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

fn load_unpacked(bytes: &[u8], ram: Ram) -> Result<Loaded, FirmwareError> {
    if bytes.starts_with(b"\x7fELF") {
        return elf::load(bytes, ram);
    }
    if image::is_riscv(bytes) {
        return image::load(bytes, ram);
    }
    if let Some(found) = image::foreign(bytes) {
        return Err(FirmwareError::WrongArchitecture { found: found.into() });
    }
    load_raw(bytes, ram.base, ram.base, ram.size)
}

/// Unpacks at most `limit` bytes.
pub(crate) fn gunzip(bytes: &[u8], limit: u64) -> Result<Vec<u8>, FirmwareError> {
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(bytes).take(limit.saturating_add(1));
    match reader.read_to_end(&mut unpacked) {
        Err(error) => Err(FirmwareError::Gzip {
            what: error.to_string(),
        }),
        Ok(size) if size as u64 > limit => Err(FirmwareError::UnpacksTooLarge { limit }),
        Ok(_) => Ok(unpacked),
    }
}

/// The little-endian `u64` at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests;
