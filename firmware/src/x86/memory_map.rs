//! The memory map that a PC's kernel is told: what BIOS interrupt 15h, function E820h reports.
//!
//! Two forms: [`memory_map`] is the whole truth of a machine whose kernel is started directly, with its
//! ACPI tables in place; what a BIOS gets is only where RAM is, since it makes its own reservations.
//! Source: ACPI 6.5, 15 ("System Address Map Interfaces").

use super::layout;

/// What a range of addresses is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MemoryKind {
    /// RAM for the kernel's use.
    Ram = 1,
    /// Not to be used.
    Reserved = 2,
    /// RAM that holds ACPI tables, never to be used otherwise.
    AcpiNvs = 4,
}

/// A range of addresses of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// What is there.
    pub kind: MemoryKind,
}

impl MemoryRange {
    fn new(start: u64, end: u64, kind: MemoryKind) -> Self {
        MemoryRange {
            start,
            size: end - start,
            kind,
        }
    }

    /// Whether all of `size` bytes at `start` lie inside.
    pub fn holds(&self, start: u64, size: u64) -> bool {
        start >= self.start && size <= self.size && start - self.start <= self.size - size
    }
}

/// The map of a board with `memory` bytes of RAM whose kernel is started without a BIOS: sorted, without
/// overlap.
pub fn memory_map(memory: u64) -> Vec<MemoryRange> {
    use MemoryKind::{AcpiNvs, Ram, Reserved};
    let memory = memory.clamp(layout::RAM_MIN, layout::RAM_MAX);
    let acpi = layout::acpi(memory);
    let mut map = vec![
        MemoryRange::new(0, layout::EBDA, Ram),
        MemoryRange::new(layout::EBDA, layout::VGA, Reserved),
        MemoryRange::new(layout::RSDP, layout::SHADOW_END, Reserved),
        MemoryRange::new(layout::SHADOW_END, acpi, Ram),
        MemoryRange::new(acpi, acpi + layout::ACPI_SIZE, AcpiNvs),
    ];
    map.extend(high(memory));
    map
}

/// Where RAM is, for a BIOS.
pub(super) fn ram_map(memory: u64) -> Vec<MemoryRange> {
    let mut map = vec![MemoryRange::new(0, layout::low_ram(memory), MemoryKind::Ram)];
    map.extend(high(memory));
    map
}

fn high(memory: u64) -> Option<MemoryRange> {
    let size = layout::high_ram(memory);
    (size > 0).then(|| MemoryRange::new(layout::HIGH_RAM, layout::HIGH_RAM + size, MemoryKind::Ram))
}

/// The 20-byte entries of E820h.
pub(super) fn e820(map: &[MemoryRange]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20 * map.len());
    for range in map {
        bytes.extend(range.start.to_le_bytes());
        bytes.extend(range.size.to_le_bytes());
        bytes.extend((range.kind as u32).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_sorted_and_holds_all_of_ram() {
        for memory in [
            layout::RAM_MIN,
            128 << 20,
            (3 << 30) + 5,
            8 << 30,
            layout::RAM_MAX,
        ] {
            let map = memory_map(memory);
            for pair in map.windows(2) {
                assert!(pair[0].start + pair[0].size <= pair[1].start, "{pair:x?}");
            }
            let ram: u64 = map
                .iter()
                .filter(|r| r.kind == MemoryKind::Ram)
                .map(|r| r.size)
                .sum();
            // Without display, shadow, EBDA and tables; less than a page at the end is not given away.
            let held_back = layout::ACPI_SIZE + 0x10_0000 - layout::EBDA;
            assert!((memory - ram - held_back) < 0x1000, "{memory:#x}: {map:x?}");
            assert!(
                map.iter()
                    .all(|r| !(r.start < 0xc_0000 && r.start + r.size > 0xa_0000))
            );
        }
        // Nonsense is no reason to panic.
        memory_map(0);
        memory_map(u64::MAX);
    }

    #[test]
    fn a_range_holds_what_lies_inside() {
        let range = MemoryRange::new(0x1000, 0x3000, MemoryKind::Ram);
        assert!(range.holds(0x1000, 0x2000) && range.holds(0x2fff, 1));
        assert!(!range.holds(0xfff, 2) && !range.holds(0x2fff, 2) && !range.holds(u64::MAX, 2));
    }
}
