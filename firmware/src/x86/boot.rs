//! Starting a kernel without a BIOS: what all kinds of kernels have in common.
//!
//! ```text
//! kernel file ── gzip? ──┬─ "HdrS" at 0x202             ── bzimage: 64-bit boot protocol
//!                        ├─ ELF, Xen note 18            ── pvh
//!                        ├─ multiboot header (8 KiB)    ── multiboot: ELF or flat
//!                        ├─ other ELF64 for x86-64      ── entered in 64-bit mode
//!                        └─ anything else               ── NotBootable
//!                               │
//!        Placed: kernel, then command line, initial RAM disk as high as allowed, ACPI tables, BIOS data area
//! ```
//!
//! The kind is told by content. All sizes are checked against the file and against RAM before anything
//! is allocated, and nothing that goes into RAM overlaps anything else.

use super::acpi::{self, AcpiConfig};
use super::memory_map::{MemoryKind, MemoryRange, memory_map};
use super::start::X86Start;
use super::{bzimage, elf, layout, multiboot};
use crate::loader::{GZIP_MAGIC, gunzip};
use crate::{FirmwareError, Segment};

/// What to start, on which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct X86Boot<'a> {
    /// RAM in bytes.
    pub memory: u64,
    /// Processors, with local APIC identifiers from 0 on.
    pub cpus: u32,
    /// The kernel file's content.
    pub kernel: &'a [u8],
    /// The initial RAM disk's content; for multiboot kernels the first module.
    pub initrd: Option<&'a [u8]>,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Whether there is a VGA-compatible display, in text mode at power-on.
    pub vga: bool,
}

/// What a kernel file turned out to be, once unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum X86Kind {
    /// Linux's bzImage.
    BzImage,
    /// An ELF kernel with a PVH entry.
    Pvh,
    /// A kernel with a multiboot 1 header, ELF or flat.
    Multiboot,
    /// An ELF64 program for the bare machine, entered in 64-bit mode.
    Elf,
    /// A firmware ROM.
    Bios,
}

/// What must stand in memory at power-on, and how the first processor starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct X86Loaded {
    /// What goes into memory: sorted, without overlap. Of a kernel: RAM and the ROM shadow. Of a BIOS: the
    /// ROM below 4 GiB.
    pub segments: Vec<Segment>,
    /// The first processor's state.
    pub start: X86Start,
    /// What the file was.
    pub kind: X86Kind,
}

/// Loads a kernel for a machine without a BIOS.
///
/// # Errors
/// A file that isn't a kernel of the kinds above, is broken, too old, or doesn't fit into RAM; an initial
/// RAM disk that doesn't fit; a command line that is too long or holds a zero byte; a machine that
/// can't be: `memory` outside of [`layout::RAM_MIN`] to [`layout::RAM_MAX`], no or too many processors.
pub fn load_x86_kernel(boot: &X86Boot) -> Result<X86Loaded, FirmwareError> {
    if boot.kernel.is_empty() {
        return Err(FirmwareError::Empty);
    }
    if !boot.kernel.starts_with(&GZIP_MAGIC) {
        return load(boot, boot.kernel);
    }
    let unpacked = gunzip(boot.kernel, boot.memory.min(layout::RAM_MAX))?;
    load(boot, &unpacked)
}

fn load(boot: &X86Boot, bytes: &[u8]) -> Result<X86Loaded, FirmwareError> {
    if bzimage::is_bzimage(bytes) {
        return bzimage::load(boot, bytes);
    }
    let elf = elf::parse(bytes)?;
    if let Some(elf) = &elf
        && let Some(entry) = elf.pvh_entry()
    {
        return elf::load_pvh(boot, elf, entry);
    }
    if let Some(header) = multiboot::header(bytes) {
        return multiboot::load(boot, bytes, elf.as_ref(), header);
    }
    if let Some(elf) = &elf
        && elf.is_64()
    {
        return elf::load_bare(boot, elf);
    }
    Err(FirmwareError::NotBootable {
        found: foreign(bytes, elf.is_some()).into(),
    })
}

/// Whether the board takes so much RAM.
pub(super) fn check_memory(memory: u64) -> Result<(), FirmwareError> {
    if !(layout::RAM_MIN..=layout::RAM_MAX).contains(&memory) {
        return Err(FirmwareError::Machine {
            what: format!(
                "RAM of {:#x} bytes is asked for; {:#x} to {:#x} are possible",
                memory,
                layout::RAM_MIN,
                layout::RAM_MAX
            ),
        });
    }
    Ok(())
}

/// What a file that can't be started is called.
fn foreign(bytes: &[u8], elf: bool) -> &'static str {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    match () {
        () if elf => "a 32-bit ELF file with neither a PVH note nor a multiboot header",
        () if multiboot::is_multiboot2(bytes) => "a kernel for multiboot 2 alone",
        () if at(0x38, b"ARM\x64") => "an arm64 Linux Image",
        () if at(0x38, b"RSC\x05") => "a RISC-V Linux Image",
        () if at(0, b"MZ") => "an EFI program",
        () => "no kernel of a known kind",
    }
}

/// Memory as it fills up.
pub(super) struct Placed<'a> {
    boot: &'a X86Boot<'a>,
    map: Vec<MemoryRange>,
    segments: Vec<Segment>,
}

impl<'a> Placed<'a> {
    /// A machine with its tables in place.
    pub(super) fn new(boot: &'a X86Boot<'a>) -> Result<Self, FirmwareError> {
        check_memory(boot.memory)?;
        let tables = acpi::tables(&AcpiConfig {
            cpus: boot.cpus,
            vga: boot.vga,
        })?;
        let (rsdp, tables) = tables.place(layout::acpi(boot.memory));
        Ok(Placed {
            boot,
            map: memory_map(boot.memory),
            segments: vec![
                Segment::new(layout::BDA, bios_data(boot.vga)),
                // The first byte is its size in KiB.
                Segment::new(layout::EBDA, vec![1]),
                Segment::new(layout::RSDP, rsdp),
                Segment::new(layout::acpi(boot.memory), tables),
            ],
        })
    }

    /// The memory map to tell the kernel.
    pub(super) fn map(&self) -> &[MemoryRange] {
        &self.map
    }

    /// Adds what is this crate's own, and so in its place.
    pub(super) fn put(&mut self, segment: Segment) {
        self.segments.push(segment);
    }

    /// Adds a piece of the kernel, which must be in RAM.
    pub(super) fn kernel(&mut self, segment: Segment) -> Result<(), FirmwareError> {
        let (start, size) = (segment.address, segment.mem_size);
        self.room(start, size)?;
        self.segments.push(segment);
        Ok(())
    }

    /// Whether `size` bytes at `start` are RAM that a kernel may have.
    pub(super) fn room(&self, start: u64, size: u64) -> Result<(), FirmwareError> {
        let ram = |range: &&MemoryRange| range.kind == MemoryKind::Ram;
        if self.map.iter().filter(ram).any(|range| range.holds(start, size)) {
            return Ok(());
        }
        Err(FirmwareError::OutsideRam {
            start,
            size,
            base: 0,
            ram: self.boot.memory,
        })
    }

    /// Places the command line, at most `max` bytes without its zero.
    pub(super) fn command_line(&mut self, max: usize) -> Result<(), FirmwareError> {
        let text = self.boot.command_line.as_bytes();
        if text.contains(&0) {
            return Err(FirmwareError::CommandLine {
                what: "it holds a zero byte".into(),
            });
        }
        if text.len() > max {
            return Err(FirmwareError::CommandLine {
                what: format!("it has {} bytes, and this kernel takes {max}", text.len()),
            });
        }
        let mut bytes = text.to_vec();
        bytes.push(0);
        self.put(Segment::new(layout::COMMAND_LINE, bytes));
        Ok(())
    }

    /// Places the initial RAM disk, if there is one, as high as possible below `end`; its address and size.
    pub(super) fn initrd(&mut self, end: u64) -> Result<Option<(u64, u64)>, FirmwareError> {
        let Some(bytes) = self.boot.initrd else {
            return Ok(None);
        };
        let size = bytes.len() as u64;
        let end = end.min(layout::acpi(self.boot.memory));
        let address = end.checked_sub(size).map(|start| start & !0xfff);
        let free = |&start: &u64| {
            let overlaps = |s: &Segment| s.address < start + size && start < s.end();
            start >= layout::SHADOW_END && !self.segments.iter().any(overlaps)
        };
        let Some(address) = address.filter(free) else {
            return Err(FirmwareError::Initrd { size, end });
        };
        self.put(Segment::new(address, bytes.to_vec()));
        Ok(Some((address, size)))
    }

    /// Everything, if nothing overlaps.
    pub(super) fn finish(
        mut self,
        kind: X86Kind,
        start: X86Start,
        segments: impl IntoIterator<Item = Segment>,
    ) -> Result<X86Loaded, FirmwareError> {
        self.segments.extend(segments);
        self.segments.sort_by_key(|segment| segment.address);
        for pair in self.segments.windows(2) {
            if pair[0].end() > pair[1].address {
                return Err(FirmwareError::Overlap {
                    first: pair[0].address,
                    second: pair[1].address,
                });
            }
        }
        Ok(X86Loaded {
            segments: self.segments,
            start,
            kind,
        })
    }
}

/// The BIOS data area as a BIOS leaves it, in what kernels read of it. Source: IBM PC/AT Technical Reference, 5.
fn bios_data(vga: bool) -> Vec<u8> {
    let mut bytes = vec![0; 0x100];
    let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    put(0x00, layout::COM1);
    put(0x02, layout::COM2);
    put(0x0e, (layout::EBDA >> 4) as u16);
    // Equipment: two serial ports, a mouse, a floating-point unit.
    put(0x10, 2 << 9 | 1 << 2 | 1 << 1);
    // KiB of RAM below the extended area.
    put(0x13, (layout::EBDA >> 10) as u16);
    if vga {
        put(0x49, 3);
        put(0x4a, 80);
        put(0x63, 0x3d4);
        put(0x84, 24);
        put(0x85, 16);
    }
    bytes
}
