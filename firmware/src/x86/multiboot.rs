//! Kernels with a multiboot 1 header: ELF, or flat with the addresses in the header.
//!
//! The header is in the first 8 KiB of the file, on a 4-byte boundary. The kernel is entered in 32-bit
//! protected mode with eax = 2bad_b002 and ebx = the information. The initial RAM disk is the one module.
//! A wish for a video mode is not granted (the kernel sees that in the information); any other required
//! feature that isn't known here is an error, as the specification wants. ELF symbols are not
//! passed on. Source: Multiboot Specification 0.6.96, 3.

use super::boot::{Placed, X86Boot, X86Kind, X86Loaded};
use super::elf::ElfKernel;
use super::{layout, start};
use crate::{FirmwareError, Segment};

const KIND: &str = "multiboot kernel";
/// The header lies in this many first bytes.
const SEARCH: usize = 8192;
const HEADER_MAGIC: u32 = 0x1bad_b002;
const HEADER2_MAGIC: u32 = 0xe852_50d6;
const START_MAGIC: u32 = 0x2bad_b002;
/// Flags of required features: pages, memory information, video mode.
const KNOWN_FEATURES: u32 = 0b111;
const REQUIRED_FEATURES: u32 = 0xffff;
/// The header has addresses, and they count.
const ADDRESSES: u32 = 1 << 16;

/// Flags of the information: memory, command line, modules, memory map, loader's name.
const INFO_FLAGS: u32 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 9;
const INFO_SIZE: usize = 0x58;
const MODULES: u64 = layout::INFO + 0x100;
const LOADER_NAME: u64 = layout::INFO + 0x200;

/// What of the header counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// Where it is in the file.
    at: usize,
    flags: u32,
}

/// The multiboot 1 header, if there is one.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let found = find(bytes, HEADER_MAGIC, |at| {
        let sum = word(bytes, at)?.wrapping_add(word(bytes, at + 4)?);
        Some(sum.wrapping_add(word(bytes, at + 8)?) == 0)
    });
    found.and_then(|at| {
        let flags = word(bytes, at + 4)?;
        Some(Header { at, flags })
    })
}

/// Whether there is a multiboot 2 header.
pub(super) fn is_multiboot2(bytes: &[u8]) -> bool {
    find(bytes, HEADER2_MAGIC, |_| Some(true)).is_some()
}

fn find(bytes: &[u8], magic: u32, right: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let end = bytes.len().min(SEARCH);
    (0..end)
        .step_by(4)
        .find(|&at| word(bytes, at) == Some(magic) && right(at) == Some(true))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn malformed(what: impl ToString) -> FirmwareError {
    FirmwareError::Malformed {
        kind: KIND,
        what: what.to_string(),
    }
}

pub(super) fn load(
    boot: &X86Boot,
    bytes: &[u8],
    elf: Option<&ElfKernel>,
    header: Header,
) -> Result<X86Loaded, FirmwareError> {
    let unknown = header.flags & REQUIRED_FEATURES & !KNOWN_FEATURES;
    if unknown != 0 {
        return Err(FirmwareError::NotBootable {
            found: format!("a multiboot kernel that requires features {unknown:#x}, which don't exist"),
        });
    }
    let mut placed = Placed::new(boot)?;
    let entry = match elf {
        _ if header.flags & ADDRESSES != 0 => flat(&mut placed, bytes, header)?,
        Some(elf) => {
            elf.place(&mut placed)?;
            elf.entry()?
        }
        None => return Err(malformed("it is no ELF file, and its header has no addresses")),
    };
    placed.command_line(layout::COMMAND_LINE_MAX)?;
    information(boot, &mut placed)?;
    let (start, gdt) = start::protected(entry, START_MAGIC, layout::INFO as u32);
    placed.finish(X86Kind::Multiboot, start, [gdt])
}

/// Places the file by the addresses in its header; where to enter it.
fn flat(placed: &mut Placed, bytes: &[u8], header: Header) -> Result<u32, FirmwareError> {
    let field =
        |n: usize| word(bytes, header.at + 12 + 4 * n).ok_or_else(|| malformed("its header is cut off"));
    let (header_address, start, end, bss_end, entry) =
        (field(0)?, field(1)?, field(2)?, field(3)?, field(4)?);
    let before = header_address.checked_sub(start).map(|size| size as usize);
    let offset = before.and_then(|before| header.at.checked_sub(before));
    let offset = offset.ok_or_else(|| malformed("its load address is before the file"))?;
    let content = match end {
        0 => bytes.get(offset..),
        end => {
            let size = end
                .checked_sub(start)
                .ok_or_else(|| malformed("it ends before it starts"))?;
            bytes.get(offset..).and_then(|rest| rest.get(..size as usize))
        }
    };
    let content = content.ok_or_else(|| malformed("it wants more bytes than the file has"))?;
    let memory = u64::from(bss_end.saturating_sub(start)).max(content.len() as u64);
    if entry.checked_sub(start).is_none_or(|at| u64::from(at) >= memory) {
        return Err(malformed(format!("its entry {entry:#x} is outside of it")));
    }
    placed.room(start.into(), memory)?;
    placed.kernel(Segment {
        address: start.into(),
        bytes: content.to_vec(),
        mem_size: memory,
    })?;
    Ok(entry)
}

/// The information at [`layout::INFO`], with what it points to.
fn information(boot: &X86Boot, placed: &mut Placed) -> Result<(), FirmwareError> {
    let initrd = placed.initrd(layout::HIGH_RAM)?;
    let map: Vec<u8> = placed.map().iter().flat_map(map_entry).collect();
    let mut info = vec![0; INFO_SIZE];
    let mut put = |at: usize, value: u64| info[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    put(0, INFO_FLAGS.into());
    // KiB from 0, and from 1 MiB to the first gap.
    put(4, layout::EBDA >> 10);
    put(8, (layout::acpi(boot.memory) - layout::SHADOW_END) >> 10);
    put(16, layout::COMMAND_LINE);
    put(20, initrd.is_some().into());
    put(24, MODULES);
    put(44, map.len() as u64);
    put(48, layout::INFO_MAP);
    put(64, LOADER_NAME);
    if let Some((start, size)) = initrd {
        // Start, end, string, reserved.
        let empty = layout::COMMAND_LINE + boot.command_line.len() as u64;
        let module = [start, start + size, empty, 0];
        let bytes = module
            .iter()
            .flat_map(|&word| (word as u32).to_le_bytes())
            .collect();
        placed.put(Segment::new(MODULES, bytes));
    }
    placed.put(Segment::new(layout::INFO, info));
    placed.put(Segment::new(LOADER_NAME, b"tickback\0".to_vec()));
    placed.put(Segment::new(layout::INFO_MAP, map));
    Ok(())
}

/// An entry of the memory map: its size without this field, then as E820h has it.
fn map_entry(range: &super::MemoryRange) -> Vec<u8> {
    let mut bytes = 20u32.to_le_bytes().to_vec();
    bytes.extend(super::memory_map::e820(&[*range]));
    bytes
}
