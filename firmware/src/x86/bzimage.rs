//! Linux's `bzImage` by the 64-bit boot protocol.
//!
//! ```text
//! 0x1f1  setup_sects, syssize, boot_flag      file:  real-mode part, 512 × (1 + setup_sects) bytes
//! 0x202  "HdrS", version                             protected-mode part, 16 × syssize bytes
//! 0x211  loadflags ... init_size              RAM:   protected-mode part at pref_address, and init_size
//! ```
//!
//! The real-mode part is not run: its header is copied into `boot_params`, and the kernel entered in 64-bit
//! mode at 0x200 of the other part with rsi = `boot_params`. Source: Linux
//! Documentation/arch/x86/boot.rst and zero-page.rst; field names are theirs.

use super::boot::{Placed, X86Boot, X86Kind, X86Loaded};
use super::memory_map::e820;
use super::{layout, start};
use crate::loader::u64_at;
use crate::{FirmwareError, Segment};

const KIND: &str = "bzImage";

// Offsets in the file and in `boot_params` alike.
const SETUP_HEADER: usize = 0x1f1;
const SETUP_SECTS: usize = 0x1f1;
const SYSSIZE: usize = 0x1f4;
const BOOT_FLAG: usize = 0x1fe;
const JUMP_LENGTH: usize = 0x201;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const TYPE_OF_LOADER: usize = 0x210;
const LOADFLAGS: usize = 0x211;
const RAMDISK_IMAGE: usize = 0x218;
const RAMDISK_SIZE: usize = 0x21c;
const CMD_LINE_PTR: usize = 0x228;
const INITRD_ADDR_MAX: usize = 0x22c;
const XLOADFLAGS: usize = 0x236;
const CMDLINE_SIZE: usize = 0x238;
const SETUP_DATA: usize = 0x250;
const PREF_ADDRESS: usize = 0x258;
const INIT_SIZE: usize = 0x260;
/// End of the fields of version 2.12, which all must be in the file.
const HEADER_END: usize = 0x268;
/// In `boot_params` something else follows.
const SETUP_HEADER_END: usize = 0x290;

// Of `boot_params` alone.
const BOOT_PARAMS_SIZE: usize = 0x1000;
const EXT_MEM_K: usize = 0x002;
const ORIG_VIDEO_MODE: usize = 0x006;
const ORIG_VIDEO_COLS: usize = 0x007;
const ORIG_VIDEO_LINES: usize = 0x00e;
const ORIG_VIDEO_IS_VGA: usize = 0x00f;
const ORIG_VIDEO_POINTS: usize = 0x010;
const ACPI_RSDP_ADDR: usize = 0x070;
const ALT_MEM_K: usize = 0x1e0;
const E820_ENTRIES: usize = 0x1e8;
const E820_TABLE: usize = 0x2d0;

/// First version with `xloadflags`, by which a kernel says that it can be entered in 64-bit mode.
const VERSION_MIN: u16 = 0x20c;
const LOADED_HIGH: u8 = 1 << 0;
const CAN_USE_HEAP: u8 = 1 << 7;
const XLF_KERNEL_64: u16 = 1 << 0;
const ENTRY_64: u64 = 0x200;
/// "Undefined": no identifier is ours.
const LOADER: u8 = 0xff;

/// Whether the header's magic is there.
pub(super) fn is_bzimage(bytes: &[u8]) -> bool {
    bytes.get(MAGIC..MAGIC + 4) == Some(b"HdrS")
}

/// Bytes of the real-mode part: what a loader that runs it takes apart from the rest. 0 of another file.
pub(super) fn setup_size(bytes: &[u8]) -> usize {
    if is_bzimage(bytes) {
        real_mode_size(bytes).min(bytes.len())
    } else {
        0
    }
}

fn real_mode_size(bytes: &[u8]) -> usize {
    match bytes[SETUP_SECTS] {
        0 => 512 * 5, // the protocol's own exception
        sectors => 512 * (1 + usize::from(sectors)),
    }
}

pub(super) fn load(boot: &X86Boot, bytes: &[u8]) -> Result<X86Loaded, FirmwareError> {
    let header = Header::parse(bytes)?;
    let mut placed = Placed::new(boot)?;
    placed.kernel(Segment {
        address: header.address,
        bytes: header.kernel.to_vec(),
        mem_size: header.memory,
    })?;
    placed.command_line(header.command_line_max)?;
    let initrd = placed.initrd(header.initrd_end)?;

    let mut params = vec![0; BOOT_PARAMS_SIZE];
    params[SETUP_HEADER..header.end].copy_from_slice(&bytes[SETUP_HEADER..header.end]);
    let mut put = |at: usize, value: &[u8]| params[at..at + value.len()].copy_from_slice(value);
    put(TYPE_OF_LOADER, &[LOADER]);
    put(LOADFLAGS, &[header.loadflags & !CAN_USE_HEAP]);
    put(CMD_LINE_PTR, &(layout::COMMAND_LINE as u32).to_le_bytes());
    put(SETUP_DATA, &[0; 8]);
    if let Some((address, size)) = initrd {
        // Below 4 GiB both, since `initrd_end` is.
        put(RAMDISK_IMAGE, &(address as u32).to_le_bytes());
        put(RAMDISK_SIZE, &(size as u32).to_le_bytes());
    }
    put(ACPI_RSDP_ADDR, &layout::RSDP.to_le_bytes());
    // KiB above 1 MiB, as older interfaces count them.
    let extended = (layout::acpi(boot.memory) - layout::SHADOW_END) >> 10;
    put(EXT_MEM_K, &(extended.min(0xfc00) as u16).to_le_bytes());
    put(ALT_MEM_K, &(extended as u32).to_le_bytes());
    if boot.vga {
        put(ORIG_VIDEO_MODE, &[3]);
        put(ORIG_VIDEO_COLS, &[80]);
        put(ORIG_VIDEO_LINES, &[25]);
        put(ORIG_VIDEO_IS_VGA, &[1]);
        put(ORIG_VIDEO_POINTS, &16u16.to_le_bytes());
    }
    put(E820_ENTRIES, &[placed.map().len() as u8]);
    put(E820_TABLE, &e820(placed.map()));
    placed.put(Segment::new(layout::INFO, params));

    let (start, segments) = start::long(header.address + ENTRY_64, layout::INFO);
    placed.finish(X86Kind::BzImage, start, segments)
}

struct Header<'a> {
    /// First byte past the setup header, in the file and in `boot_params`.
    end: usize,
    loadflags: u8,
    kernel: &'a [u8],
    address: u64,
    /// Bytes from `address` on that the kernel needs before it reads the memory map.
    memory: u64,
    command_line_max: usize,
    /// First address that the initial RAM disk may not use.
    initrd_end: u64,
}

impl<'a> Header<'a> {
    /// The fields of the header, all of them hostile.
    fn parse(bytes: &'a [u8]) -> Result<Self, FirmwareError> {
        let truncated = |need: usize| FirmwareError::Truncated {
            kind: KIND,
            need: need as u64,
            have: bytes.len() as u64,
        };
        let malformed = |what: String| FirmwareError::Malformed { kind: KIND, what };
        let too_old = |what: String| FirmwareError::TooOld { what };
        if bytes.len() < VERSION + 2 {
            return Err(truncated(HEADER_END));
        }
        let version = u16_at(bytes, VERSION);
        if version < VERSION_MIN {
            return Err(too_old(format!(
                "it knows version {}.{} of the boot protocol; 2.12 (Linux 3.8) is needed",
                version >> 8,
                version & 0xff
            )));
        }
        if bytes.len() < HEADER_END {
            return Err(truncated(HEADER_END));
        }
        if u16_at(bytes, BOOT_FLAG) != 0xaa55 {
            return Err(malformed("its boot flag is not aa55".into()));
        }
        // The jump over the header says where that ends.
        let end = MAGIC + usize::from(bytes[JUMP_LENGTH]);
        if !(HEADER_END..=SETUP_HEADER_END).contains(&end) {
            return Err(malformed(format!("its header ends at {end:#x}")));
        }
        if u16_at(bytes, XLOADFLAGS) & XLF_KERNEL_64 == 0 {
            return Err(too_old(
                "it has no 64-bit entry: it is a 32-bit kernel, or from before 3.8".into(),
            ));
        }
        let loadflags = bytes[LOADFLAGS];
        if loadflags & LOADED_HIGH == 0 {
            return Err(too_old("it is a zImage, which is loaded below 1 MiB".into()));
        }
        let start = real_mode_size(bytes);
        let size = 16 * u32_at(bytes, SYSSIZE) as usize;
        if size < ENTRY_64 as usize + 16 {
            return Err(malformed(format!("its kernel has {size} bytes")));
        }
        // The size is in units of 16 bytes, so the last of them need not all be there.
        let kernel = bytes
            .get(start..)
            .filter(|rest| rest.len() + 16 > size)
            .ok_or_else(|| truncated(start + size))?;
        let kernel = &kernel[..size.min(kernel.len())];
        let address = u64_at(bytes, PREF_ADDRESS).unwrap_or(0);
        if !(layout::SHADOW_END..layout::LOW_RAM_MAX).contains(&address) {
            return Err(malformed(format!("it wants to be loaded at {address:#x}")));
        }
        Ok(Header {
            end: end.min(bytes.len()),
            loadflags,
            kernel,
            address,
            memory: u64::from(u32_at(bytes, INIT_SIZE)).max(size as u64),
            // What the protocol guarantees to kernels that say nothing.
            command_line_max: match u32_at(bytes, CMDLINE_SIZE) as usize {
                0 => 255,
                n => n.min(layout::COMMAND_LINE_MAX),
            },
            initrd_end: u64::from(u32_at(bytes, INITRD_ADDR_MAX)) + 1,
        })
    }
}

/// The field at `at`, which the caller knows to be there.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}
