//! A firmware ROM (SeaBIOS, coreboot, OVMF): where the processor's reset state finds it.
//!
//! It ends at 4 GiB, so that the reset vector at ffff_fff0 is its last 16 bytes. The board shows its last 128 KiB below 1 MiB
//! too, where its 16-bit code runs.

use super::boot::{X86Kind, X86Loaded};
use super::layout;
use super::start::X86Start;
use crate::{FirmwareError, Segment};

/// Places a firmware ROM of 64 KiB to 4 MiB.
///
/// # Errors
/// A size that isn't a multiple of 64 KiB or is out of bounds: the file is no ROM, or is cut off.
pub fn load_bios(bytes: &[u8]) -> Result<X86Loaded, FirmwareError> {
    let size = bytes.len() as u64;
    if size == 0 {
        return Err(FirmwareError::Empty);
    }
    if size > layout::BIOS_MAX || !size.is_multiple_of(layout::BIOS_UNIT) {
        return Err(FirmwareError::BiosSize { size });
    }
    Ok(X86Loaded {
        segments: vec![Segment::new(layout::BIOS_END - size, bytes.to_vec())],
        start: X86Start::Reset,
        kind: X86Kind::Bios,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rom_ends_at_4_gib() {
        for units in [1u64, 2, 4, 64] {
            let mut rom = vec![0u8; (units << 16) as usize];
            let size = rom.len();
            rom[size - 16] = 0xea;
            let loaded = load_bios(&rom).unwrap();
            assert_eq!(loaded.start, X86Start::Reset);
            let [top] = loaded.segments.as_slice() else {
                panic!("one place")
            };
            assert_eq!((top.end(), top.mem_size), (1 << 32, units << 16));
            assert_eq!(top.bytes[size - 16], 0xea);
        }
    }

    #[test]
    fn odd_sizes_are_refused() {
        assert_eq!(load_bios(&[]), Err(FirmwareError::Empty));
        for size in [1u64, 0xffff, 0x1_0001, 0x3_8000, (4 << 20) + 0x1_0000] {
            let error = load_bios(&vec![0; size as usize]).unwrap_err();
            assert_eq!(error, FirmwareError::BiosSize { size });
            assert!(error.to_string().contains("multiple of 64 KiB"), "{error}");
        }
    }
}
