//! Base address registers (PCI 3.0, 6.2.5).
//!
//! A register is its configuration bytes with the low, size-many address bits read-only: so writing all ones
//! and reading back tells the size, and nothing but the bytes is state. All are 32 bits wide: the hole for
//! devices lies below 4 GiB, and guests know this form the longest.

/// What a function decodes by one of its base address registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// I/O ports: how many; a power of two, 4 to 256.
    Io(u32),
    /// Memory, not prefetchable, anywhere below 4 GiB: bytes; a power of two, at least 16.
    Memory(u32),
}

/// The two spaces in which functions decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Io,
    Memory,
}

/// Registers in a type 0 header.
pub(super) const COUNT: u8 = 6;

/// Offset of register `index` in the configuration space.
pub(super) fn register(index: u8) -> u8 {
    0x10 + 4 * index
}

impl Bar {
    pub(super) fn space(self) -> Space {
        match self {
            Bar::Io(_) => Space::Io,
            Bar::Memory(_) => Space::Memory,
        }
    }

    fn size(self) -> u32 {
        match self {
            Bar::Io(size) | Bar::Memory(size) => size,
        }
    }

    /// The read-only low bits that say what it is.
    pub(super) fn kind(self) -> u32 {
        match self {
            Bar::Io(_) => 1,
            Bar::Memory(_) => 0,
        }
    }

    /// The address bits that can be written.
    pub(super) fn mask(self) -> u32 {
        // Sizes are powers of two, and no smaller than the bits of the kind.
        !(self.size().wrapping_sub(1))
    }

    /// Where an access lies in what this register decodes when it holds `value`. At 0, where they stand after
    /// power-on, registers decode nothing.
    pub(super) fn offset(self, value: u32, addr: u64, size: u8) -> Option<u64> {
        let base = u64::from(value & self.mask());
        let offset = addr.checked_sub(base)?;
        let end = offset.checked_add(u64::from(size))?;
        (base != 0 && end <= u64::from(self.size())).then_some(offset)
    }
}
