//! ELF kernels for the PC: with a PVH entry (Linux's vmlinux, FreeBSD, Xen), and bare 64-bit programs.
//!
//! PVH is how a hypervisor starts a kernel without firmware: 32-bit protected mode, flat segments, no
//! paging, ebx = `hvm_start_info`. A note of the ELF file names the entry. Bare programs (no note, no
//! multiboot header) are entered in 64-bit mode at the file's entry, with the same information in rsi.
//! Source: Xen docs/misc/pvh.pandoc, public/arch-x86/hvm/start_info.h, public/elfnote.h.

use super::boot::{Placed, X86Boot, X86Kind, X86Loaded};
use super::{layout, start};
use crate::loader::elf::{loadable, malformed, physical, program_headers, segment};
use crate::{FirmwareError, Segment};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{
    EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, EM_386, EM_X86_64, ET_DYN, ET_EXEC,
    machine_to_str,
};
use goblin::elf::program_header::PT_NOTE;
use goblin::elf::{Elf, ProgramHeader};

/// Least size of a 32-bit ELF header.
const HEADER_SIZE: usize = 52;
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;
const START_MAGIC: u32 = 0x336e_c578;

/// An ELF file for this machine.
pub(super) struct ElfKernel<'a> {
    bytes: &'a [u8],
    machine: u16,
    /// As the file has it: virtual or physical.
    entry: u64,
    loadable: Vec<ProgramHeader>,
    notes: Vec<ProgramHeader>,
}

/// The ELF file that `bytes` are; `None` if they are none.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<ElfKernel<'_>>, FirmwareError> {
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if bytes.len() < HEADER_SIZE {
        return Err(FirmwareError::Truncated {
            kind: "ELF file",
            need: HEADER_SIZE as u64,
            have: bytes.len() as u64,
        });
    }
    let wrong = |found: String| FirmwareError::NotBootable { found };
    let container = match bytes[EI_CLASS] {
        ELFCLASS32 => Container::Little,
        ELFCLASS64 => Container::Big,
        class => return Err(malformed(format!("its class is {class}"))),
    };
    if bytes[EI_DATA] != ELFDATA2LSB {
        return Err(wrong("a big-endian ELF file".into()));
    }
    let header = Elf::parse_header(bytes).map_err(malformed)?;
    let expected = match container {
        Container::Little => EM_386,
        Container::Big => EM_X86_64,
    };
    let machine = header.e_machine;
    if machine != expected {
        return Err(wrong(format!(
            "an ELF file for machine {machine} ({})",
            machine_to_str(machine)
        )));
    }
    if header.e_type != ET_EXEC && header.e_type != ET_DYN {
        return Err(malformed("it is neither an executable nor position-independent"));
    }
    let all = program_headers(bytes, &header, Ctx::new(container, Endian::Little))?;
    let notes = all.iter().filter(|p| p.p_type == PT_NOTE).cloned().collect();
    Ok(Some(ElfKernel {
        bytes,
        machine,
        entry: header.e_entry,
        loadable: loadable(bytes, all)?,
        notes,
    }))
}

impl ElfKernel<'_> {
    pub(super) fn is_64(&self) -> bool {
        self.machine == EM_X86_64
    }

    /// Where PVH enters the kernel, by its note.
    pub(super) fn pvh_entry(&self) -> Option<u32> {
        self.notes.iter().find_map(|p| {
            let start = usize::try_from(p.p_offset).ok()?;
            let size = usize::try_from(p.p_filesz).ok()?;
            note(self.bytes.get(start..)?.get(..size)?)
        })
    }

    /// Adds all segments.
    pub(super) fn place(&self, placed: &mut Placed) -> Result<(), FirmwareError> {
        for p in &self.loadable {
            // Before its bytes are copied: so little room as there is, nothing large is allocated.
            placed.room(p.p_paddr, p.p_memsz)?;
            placed.kernel(segment(self.bytes, p)?)?;
        }
        Ok(())
    }

    /// The file's entry as a physical address below 4 GiB.
    pub(super) fn entry(&self) -> Result<u32, FirmwareError> {
        physical(&self.loadable, self.entry)
            .and_then(|entry| u32::try_from(entry).ok())
            .ok_or_else(|| {
                malformed(format!(
                    "its entry {:#x} is in no segment below 4 GiB",
                    self.entry
                ))
            })
    }
}

/// The PVH entry among the notes of a segment: name size, descriptor size, type, name, descriptor, each
/// padded to 4 bytes.
fn note(mut notes: &[u8]) -> Option<u32> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let padded = |size: u32| (size as usize).checked_next_multiple_of(4);
    loop {
        let (name_size, size, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let rest = &notes[12..];
        let name = rest.get(..name_size as usize)?;
        let rest = rest.get(padded(name_size)?..)?;
        let content = rest.get(..size as usize)?;
        if name == b"Xen\0" && kind == XEN_ELFNOTE_PHYS32_ENTRY {
            // 32 bits, or 64 of which the upper half is 0.
            let high_is_zero = size == 4 || (size == 8 && word(content, 4)? == 0);
            return word(content, 0).filter(|_| high_is_zero);
        }
        notes = rest.get(padded(size)?..)?;
    }
}

/// A kernel entered by PVH at `entry`.
pub(super) fn load_pvh(boot: &X86Boot, elf: &ElfKernel, entry: u32) -> Result<X86Loaded, FirmwareError> {
    let mut placed = place(boot, elf)?;
    let inside = |s: &&ProgramHeader| {
        u64::from(entry)
            .checked_sub(s.p_paddr)
            .is_some_and(|o| o < s.p_memsz)
    };
    if !elf.loadable.iter().any(|p| inside(&p)) {
        return Err(malformed(format!("its PVH entry {entry:#x} is in no segment")));
    }
    start_info(&mut placed)?;
    let (start, gdt) = start::protected(entry, 0, layout::INFO as u32);
    placed.finish(X86Kind::Pvh, start, [gdt])
}

/// A program for the bare machine, entered in 64-bit mode.
pub(super) fn load_bare(boot: &X86Boot, elf: &ElfKernel) -> Result<X86Loaded, FirmwareError> {
    let mut placed = place(boot, elf)?;
    start_info(&mut placed)?;
    let (start, segments) = start::long(elf.entry()?.into(), layout::INFO);
    placed.finish(X86Kind::Elf, start, segments)
}

fn place<'a>(boot: &'a X86Boot, elf: &ElfKernel) -> Result<Placed<'a>, FirmwareError> {
    let mut placed = Placed::new(boot)?;
    elf.place(&mut placed)?;
    placed.command_line(layout::COMMAND_LINE_MAX)?;
    Ok(placed)
}

/// `hvm_start_info`, version 1, at [`layout::INFO`], with the one module and the memory map behind it.
fn start_info(placed: &mut Placed) -> Result<(), FirmwareError> {
    const MODULES: u64 = layout::INFO + 0x100;
    let initrd = placed.initrd(layout::HIGH_RAM)?;
    let map: Vec<u8> = placed.map().iter().flat_map(map_entry).collect();
    let mut info = Vec::new();
    for word in [START_MAGIC, 1, 0, u32::from(initrd.is_some())] {
        info.extend(word.to_le_bytes());
    }
    let modules = if initrd.is_some() { MODULES } else { 0 };
    for address in [modules, layout::COMMAND_LINE, layout::RSDP, layout::INFO_MAP] {
        info.extend(address.to_le_bytes());
    }
    info.extend((placed.map().len() as u32).to_le_bytes());
    info.extend([0; 4]);
    if let Some((address, size)) = initrd {
        // Address, size, command line, reserved.
        let module = [address, size, 0, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        placed.put(Segment::new(MODULES, module));
    }
    placed.put(Segment::new(layout::INFO, info));
    placed.put(Segment::new(layout::INFO_MAP, map));
    Ok(())
}

/// `hvm_memmap_table_entry`: address, size, type as in E820h, reserved.
fn map_entry(range: &super::MemoryRange) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(range.start.to_le_bytes());
    bytes.extend(range.size.to_le_bytes());
    bytes.extend((range.kind as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}
