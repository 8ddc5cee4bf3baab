//! The Linux `Image` of RISC-V, and the magics of kernels that aren't for RISC-V.
//!
//! Header (Linux Documentation/arch/riscv/boot-image-header.rst), little-endian:
//!
//! ```text
//! 0x00  two instructions      0x18  flags (bit 0: big-endian kernel)
//! 0x08  text offset           0x30  "RISCV\0\0\0" (older)
//! 0x10  image size, bss too   0x38  "RSC\x05"
//! ```

use super::{KernelKind, Loaded, Ram, Segment, u64_at};
use crate::FirmwareError;

const HEADER_SIZE: usize = 64;
const KIND: &str = "Linux Image";

/// Whether the header's magic is there.
pub(super) fn is_riscv(bytes: &[u8]) -> bool {
    bytes.get(0x38..0x3c) == Some(b"RSC\x05")
}

/// What a kernel for another machine, or in a wrapper that only UEFI unpacks, is called.
pub(super) fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    match () {
        () if at(0x38, b"ARM\x64") => Some("an arm64 Linux Image"),
        () if at(0x24, &[0x18, 0x28, 0x6f, 0x01]) => Some("an arm Linux zImage"),
        () if at(0x202, b"HdrS") => Some("an x86 Linux bzImage"),
        () if at(0, b"MZ") && at(4, b"zimg") => Some("a compressed EFI kernel (unpack it first)"),
        () if at(0, b"MZ") && at(0x38, &[0xcd, 0x23, 0x82, 0x81]) => Some("a LoongArch EFI kernel"),
        () if at(0, &[0xd0, 0x0d, 0xfe, 0xed]) => Some("a device tree or FIT image"),
        () => None,
    }
}

pub(super) fn load(bytes: &[u8], ram: Ram) -> Result<Loaded, FirmwareError> {
    let field = |at: usize| {
        u64_at(bytes, at).ok_or(FirmwareError::Truncated {
            kind: KIND,
            need: HEADER_SIZE as u64,
            have: bytes.len() as u64,
        })
    };
    let (text_offset, image_size, flags) = (field(0x08)?, field(0x10)?, field(0x18)?);
    field(0x38)?;
    if flags & 1 != 0 {
        return Err(FirmwareError::WrongArchitecture {
            found: "a big-endian RISC-V Image".into(),
        });
    }
    // The size covers the bss, so it is never less than the file; old headers leave it 0.
    let mem_size = image_size.max(bytes.len() as u64);
    let address = ram
        .base
        .checked_add(text_offset)
        .ok_or(FirmwareError::Malformed {
            kind: KIND,
            what: format!("its text offset is {text_offset:#x}"),
        })?;
    ram.check(address, mem_size)?;
    Ok(Loaded {
        segments: vec![Segment {
            address,
            bytes: bytes.to_vec(),
            mem_size,
        }],
        entry: address,
        kind: KernelKind::LinuxImage,
        compressed: false,
        tohost: None,
        fromhost: None,
    })
}
