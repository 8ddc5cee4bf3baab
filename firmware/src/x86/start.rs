//! The state in which a PC's first processor executes its first instruction.
//!
//! A BIOS starts at the processor's own reset state. A kernel that is started directly finds what a boot
//! loader would have left: flat segments from a descriptor table in memory, interrupts off, and for 64
//! bits page tables that map the first 4 GiB one to one. Attributes and control registers are those of
//! Intel SDM 3A, chapters 2 and 3.

use super::layout;
use crate::Segment;

/// A segment register with what the processor caches of its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRegister {
    /// Visible part.
    pub selector: u16,
    /// Base address.
    pub base: u64,
    /// Last offset.
    pub limit: u32,
    /// Bits 55:40 of the descriptor: type, S, DPL, P in the low byte, AVL, L, D/B, G in bits 15:12. Bits 11:8 are 0.
    pub attributes: u16,
}

/// What the first processor's registers hold. Those that aren't named are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // registers by their names
pub struct X86Registers {
    pub rip: u64,
    pub rsp: u64,
    pub rax: u64,
    pub rbx: u64,
    pub rsi: u64,
    pub rflags: u64,
    pub cr0: u64,
    pub cr3: u64,
    pub cr4: u64,
    pub efer: u64,
    pub gdt_base: u64,
    pub gdt_limit: u16,
    pub cs: SegmentRegister,
    /// DS, ES, FS, GS and SS.
    pub data: SegmentRegister,
    pub tr: SegmentRegister,
}

/// How the first processor starts; the others wait for a start-up interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum X86Start {
    /// The state after reset: real mode, at ffff_fff0.
    Reset,
    /// These registers, and the local APIC as [`layout::VIRTUAL_WIRE`] has it.
    Registers(Box<X86Registers>),
}

const CR0_PE: u64 = 1 << 0;
const CR0_ET: u64 = 1 << 4;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;
/// RFLAGS: bit 1 is always set; interrupts are off.
const RFLAGS: u64 = 2;

// Linux's boot protocol fixes the first two selectors.
const CODE: u16 = 0x10;
const DATA: u16 = 0x18;
const TASK: u16 = 0x20;

/// Accessed, readable, executable, present, page granular.
const CODE_ATTRIBUTES: u16 = 0x809b;
/// Accessed, writable, present, 32-bit, page granular.
const DATA_ATTRIBUTES: u16 = 0xc093;
/// A busy 32-bit (or 64-bit) task state segment.
const TASK_ATTRIBUTES: u16 = 0x008b;
const LONG: u16 = 1 << 13;
const DEFAULT_32: u16 = 1 << 14;

/// 32-bit protected mode, without paging: what PVH and multiboot ask for.
pub(super) fn protected(eip: u32, eax: u32, ebx: u32) -> (X86Start, Segment) {
    let (cs, data, tr) = segments(DEFAULT_32);
    let registers = X86Registers {
        rip: eip.into(),
        rsp: layout::STACK_TOP,
        rax: eax.into(),
        rbx: ebx.into(),
        rsi: 0,
        rflags: RFLAGS,
        cr0: CR0_PE | CR0_ET,
        cr3: 0,
        cr4: 0,
        efer: 0,
        gdt_base: layout::GDT,
        gdt_limit: GDT_SIZE - 1,
        cs,
        data,
        tr,
    };
    (X86Start::Registers(Box::new(registers)), gdt([cs, data, tr]))
}

/// 64-bit mode with the first 4 GiB mapped one to one: what Linux's 64-bit boot protocol asks for.
pub(super) fn long(rip: u64, rsi: u64) -> (X86Start, Vec<Segment>) {
    let (cs, data, tr) = segments(LONG);
    let registers = X86Registers {
        rip,
        rsp: layout::STACK_TOP,
        rax: 0,
        rbx: 0,
        rsi,
        rflags: RFLAGS,
        cr0: CR0_PE | CR0_ET | CR0_PG,
        cr3: layout::PAGE_TABLES,
        cr4: CR4_PAE,
        efer: EFER_LME | EFER_LMA,
        gdt_base: layout::GDT,
        gdt_limit: GDT_SIZE - 1,
        cs,
        data,
        tr,
    };
    let start = X86Start::Registers(Box::new(registers));
    (start, vec![gdt([cs, data, tr]), page_tables()])
}

fn segments(code_size: u16) -> (SegmentRegister, SegmentRegister, SegmentRegister) {
    let flat = |selector, attributes| SegmentRegister {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes,
    };
    let task = SegmentRegister {
        limit: 0x67,
        ..flat(TASK, TASK_ATTRIBUTES)
    };
    (
        flat(CODE, CODE_ATTRIBUTES | code_size),
        flat(DATA, DATA_ATTRIBUTES),
        task,
    )
}

/// Bytes of the descriptor table: that of the task takes two places in 64-bit mode.
use super::layout::GDT_SIZE;

fn gdt(registers: [SegmentRegister; 3]) -> Segment {
    let mut bytes = vec![0; GDT_SIZE.into()];
    for register in registers {
        let at = usize::from(register.selector);
        bytes[at..at + 8].copy_from_slice(&descriptor(register).to_le_bytes());
    }
    Segment::new(layout::GDT, bytes)
}

/// SDM 3A, 3.4.5. All bases here are 0.
fn descriptor(register: SegmentRegister) -> u64 {
    let granular = register.attributes & 1 << 15 != 0;
    let limit = u64::from(if granular {
        register.limit >> 12
    } else {
        register.limit
    });
    limit & 0xffff | u64::from(register.attributes) << 40 | (limit >> 16 & 0xf) << 48
}

/// A level 4 table, a level 3 table, and four level 2 tables of 2 MiB pages.
fn page_tables() -> Segment {
    const PRESENT_WRITABLE: u64 = 3;
    const LARGE: u64 = 1 << 7;
    let page = |n: u64| layout::PAGE_TABLES + 0x1000 * n;
    let mut entries = vec![0u64; 6 * 512];
    entries[0] = page(1) | PRESENT_WRITABLE;
    for n in 0..4 {
        entries[512 + n as usize] = page(2 + n) | PRESENT_WRITABLE;
    }
    for (n, entry) in (0u64..).zip(&mut entries[1024..]) {
        *entry = n << 21 | LARGE | PRESENT_WRITABLE;
    }
    let bytes = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    Segment::new(layout::PAGE_TABLES, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_the_flat_ones_that_everybody_knows() {
        let (_, gdt) = protected(0, 0, 0);
        let at = |selector: u16| crate::loader::u64_at(&gdt.bytes, selector.into()).unwrap();
        assert_eq!(at(CODE), 0x00cf_9b00_0000_ffff);
        assert_eq!(at(DATA), 0x00cf_9300_0000_ffff);
        assert_eq!(at(TASK), 0x0000_8b00_0000_0067);
        let (_, segments) = long(0, 0);
        assert_eq!(
            crate::loader::u64_at(&segments[0].bytes, CODE.into()),
            Some(0x00af_9b00_0000_ffff)
        );
    }

    #[test]
    fn the_page_tables_map_every_address_to_itself() {
        let tables = page_tables();
        let entry = |table: u64, index: u64| {
            let at = (table & !0xfff) - layout::PAGE_TABLES + 8 * index;
            crate::loader::u64_at(&tables.bytes, at as usize).unwrap()
        };
        for address in [0u64, 0x12_3456, 0x7fff_ffff, 0xfee0_0000, 0xffff_ffff] {
            let level3 = entry(layout::PAGE_TABLES, address >> 39);
            let level2 = entry(level3, address >> 30 & 511);
            let leaf = entry(level2, address >> 21 & 511);
            assert_eq!(leaf & 0xff, 0x83);
            assert_eq!(leaf & !0xff | address & 0x1f_ffff, address);
        }
    }
}
