//! ELF64 files for RISC-V. goblin reads the headers; which of them to trust is decided here.
//!
//! Only headers, program headers and the first symbol table are read, each bounded by the file.

use super::{KernelKind, Loaded, Ram, Segment};
use crate::FirmwareError;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{
    EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, EM_RISCV, ET_DYN, ET_EXEC, Header, machine_to_str,
};
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::section_header::SHT_SYMTAB;
use goblin::elf::{Elf, ProgramHeader, SectionHeader, Symtab};

const KIND: &str = "ELF file";
const CTX: Ctx = Ctx {
    container: Container::Big,
    le: Endian::Little,
};
const HEADER_SIZE: u64 = 64;

pub(crate) fn malformed(what: impl ToString) -> FirmwareError {
    FirmwareError::Malformed {
        kind: KIND,
        what: what.to_string(),
    }
}

/// Where a kernel that can run anywhere is put, from the start of RAM: firmware lies before it.
const KERNEL_OFFSET: u64 = crate::layout::KERNEL - crate::layout::RAM;

fn wrong(found: &str) -> FirmwareError {
    FirmwareError::WrongArchitecture { found: found.into() }
}

pub(super) fn load(bytes: &[u8], ram: Ram) -> Result<Loaded, FirmwareError> {
    let header = header(bytes)?;
    let mut loadable = loadable(bytes, program_headers(bytes, &header, CTX)?)?;
    // Firmware that relocates itself is linked at 0: move it up as a whole.
    let lowest = loadable.iter().map(|p| p.p_paddr).min().unwrap_or(0);
    let highest = loadable.iter().map(|p| p.p_paddr.saturating_add(p.p_memsz)).max();
    let moved = if header.e_type == ET_DYN && lowest < ram.base {
        ram.base - lowest
    } else if lowest == 0 && highest.is_some_and(|end| end <= ram.base - KERNEL_OFFSET) {
        // A kernel (Linux's vmlinux) linked for physical 0, to run wherever it is put, as its Image is.
        ram.base + KERNEL_OFFSET - lowest
    } else {
        0
    };
    for p in &mut loadable {
        p.p_paddr = p
            .p_paddr
            .checked_add(moved)
            .ok_or_else(|| malformed("an address wraps"))?;
        without_headers(p, ram.base);
        ram.check(p.p_paddr, p.p_memsz)?;
    }
    loadable.sort_by_key(|p| p.p_paddr);
    for pair in loadable.windows(2) {
        if pair[0].p_paddr + pair[0].p_memsz > pair[1].p_paddr {
            let (first, second) = (pair[0].p_paddr, pair[1].p_paddr);
            return Err(FirmwareError::Overlap { first, second });
        }
    }
    // Nothing was allocated so far; from here on, at most the size of RAM.
    let segments = loadable
        .iter()
        .map(|p| segment(bytes, p))
        .collect::<Result<Vec<_>, _>>()?;
    let entry = physical(&loadable, header.e_entry)
        .ok_or_else(|| malformed(format!("its entry {:#x} is in no segment", header.e_entry)))?;
    let [tohost, fromhost] = symbols(bytes, &header, ["tohost", "fromhost"])
        .map(|address| address.and_then(|a| physical(&loadable, a)));
    Ok(Loaded {
        segments,
        entry,
        kind: KernelKind::Elf,
        compressed: false,
        tohost,
        fromhost,
    })
}

/// Linkers put the file's own headers in front of the first section, in the same segment; linked with
/// `-Ttext` at the start of RAM, they lie on the page below it, where nothing is and nobody wants them.
fn without_headers(p: &mut ProgramHeader, base: u64) {
    const MOST: u64 = 4096;
    let below = base.saturating_sub(p.p_paddr);
    if p.p_offset == 0 && (1..=MOST).contains(&below) && below < p.p_filesz {
        p.p_offset += below;
        p.p_paddr += below;
        p.p_vaddr = p.p_vaddr.wrapping_add(below);
        p.p_filesz -= below;
        p.p_memsz -= below;
    }
}

/// The file header, if it is RISC-V, 64 bits, little-endian and something to run.
fn header(bytes: &[u8]) -> Result<Header, FirmwareError> {
    if (bytes.len() as u64) < HEADER_SIZE {
        let have = bytes.len() as u64;
        return Err(FirmwareError::Truncated {
            kind: KIND,
            need: HEADER_SIZE,
            have,
        });
    }
    if bytes[EI_CLASS] != ELFCLASS64 {
        return Err(wrong("a 32-bit ELF file"));
    }
    if bytes[EI_DATA] != ELFDATA2LSB {
        return Err(wrong("a big-endian ELF file"));
    }
    let header = Elf::parse_header(bytes).map_err(malformed)?;
    if header.e_machine != EM_RISCV {
        let machine = machine_to_str(header.e_machine);
        return Err(wrong(&format!(
            "an ELF file for machine {} ({machine})",
            header.e_machine
        )));
    }
    if header.e_type != ET_EXEC && header.e_type != ET_DYN {
        return Err(malformed("it is neither an executable nor position-independent"));
    }
    Ok(header)
}

/// All program headers.
pub(crate) fn program_headers(
    bytes: &[u8],
    header: &Header,
    ctx: Ctx,
) -> Result<Vec<ProgramHeader>, FirmwareError> {
    let start = usize::try_from(header.e_phoff).map_err(malformed)?;
    ProgramHeader::parse(bytes, start, header.e_phnum.into(), ctx).map_err(malformed)
}

/// Of these program headers those that occupy memory, each with its bytes inside the file.
pub(crate) fn loadable(
    bytes: &[u8],
    headers: Vec<ProgramHeader>,
) -> Result<Vec<ProgramHeader>, FirmwareError> {
    let mut loadable = Vec::new();
    for p in headers {
        if p.p_type != PT_LOAD || p.p_memsz == 0 {
            continue;
        }
        if p.p_filesz > p.p_memsz {
            return Err(malformed("a segment is larger in the file than in memory"));
        }
        let need = p.p_offset.checked_add(p.p_filesz);
        let need = need.ok_or_else(|| malformed("a segment's file range wraps"))?;
        if need > bytes.len() as u64 {
            return Err(FirmwareError::Truncated {
                kind: KIND,
                need,
                have: bytes.len() as u64,
            });
        }
        loadable.push(p);
    }
    if loadable.is_empty() {
        return Err(malformed("it has nothing to load"));
    }
    Ok(loadable)
}

/// The segment of a program header that [`loadable`] has let through.
pub(crate) fn segment(bytes: &[u8], p: &ProgramHeader) -> Result<Segment, FirmwareError> {
    let start = usize::try_from(p.p_offset).map_err(malformed)?;
    let size = usize::try_from(p.p_filesz).map_err(malformed)?;
    let content = bytes.get(start..).and_then(|rest| rest.get(..size));
    let content = content.ok_or_else(|| malformed("a segment is outside the file"))?;
    Ok(Segment {
        address: p.p_paddr,
        bytes: content.to_vec(),
        mem_size: p.p_memsz,
    })
}

/// Where a linked (virtual) address lies in physical memory. An entry that no virtual range holds may
/// already be physical.
pub(crate) fn physical(loadable: &[ProgramHeader], address: u64) -> Option<u64> {
    let within = |start: u64, size: u64| address.checked_sub(start).filter(|&o| o < size);
    loadable
        .iter()
        .find_map(|p| within(p.p_vaddr, p.p_memsz).map(|offset| p.p_paddr + offset))
        .or_else(|| {
            loadable
                .iter()
                .find_map(|p| within(p.p_paddr, p.p_memsz).map(|_| address))
        })
}

/// Values of the named symbols of the first symbol table. A broken table is no reason not to run.
fn symbols<const N: usize>(bytes: &[u8], header: &Header, names: [&str; N]) -> [Option<u64>; N] {
    let mut values = [None; N];
    let Some((table, strings)) = symbol_table(bytes, header) else {
        return values;
    };
    for symbol in table.iter() {
        let Some(name) = strings.get(symbol.st_name..) else {
            continue;
        };
        for (value, wanted) in values.iter_mut().zip(names) {
            let wanted = wanted.as_bytes();
            if name.starts_with(wanted) && name.get(wanted.len()) == Some(&0) {
                *value = Some(symbol.st_value);
            }
        }
    }
    values
}

fn symbol_table<'a>(bytes: &'a [u8], header: &Header) -> Option<(Symtab<'a>, &'a [u8])> {
    let start = usize::try_from(header.e_shoff).ok()?;
    let count = usize::from(header.e_shnum);
    let sections = SectionHeader::parse(bytes, start, count, CTX).ok()?;
    let table = sections.iter().find(|s| s.sh_type == SHT_SYMTAB)?;
    let strings = sections.get(table.sh_link as usize)?;
    let from = usize::try_from(strings.sh_offset).ok()?;
    let to = from.checked_add(usize::try_from(strings.sh_size).ok()?)?;
    let strings = bytes.get(from..to)?;
    let offset = usize::try_from(table.sh_offset).ok()?;
    let size = usize::try_from(table.sh_size).ok()?;
    const SYMBOL_SIZE: usize = 24;
    let symbols = Symtab::parse(bytes, offset, size / SYMBOL_SIZE, CTX).ok()?;
    Some((symbols, strings))
}
