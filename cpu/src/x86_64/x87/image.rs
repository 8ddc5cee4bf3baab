//! The x87 state in memory: `fnstenv`, `fnsave`, and the x87 part of `fxsave` and `xsave`, both ways.
//! SDM 1, figures 8-9 to 8-12 and table 10-2; SDM 2A, FXSAVE.

use super::{FarPointer, X87};
use crate::softfloat::extended::{F80, Kind};

/// The largest image, of `fnsave` with 32-bit operands.
const MAX: usize = 108;

/// Bytes to be stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; MAX],
    len: u8,
}

impl Bytes {
    pub(super) fn new(from: &[u8]) -> Self {
        let mut bytes = [0; MAX];
        bytes[..from.len()].copy_from_slice(from);
        Self {
            bytes,
            len: from.len() as u8,
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// The layout of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageFormat {
    /// Protected mode (64-bit mode too), 32-bit operand size: 28 bytes.
    #[default]
    Protected32,
    /// Protected mode, 16-bit operand size: 14 bytes.
    Protected16,
    /// Real-address or virtual-8086 mode, 32-bit operand size: 28 bytes.
    Real32,
    /// Real-address or virtual-8086 mode, 16-bit operand size: 14 bytes.
    Real16,
}

impl ImageFormat {
    const fn is_wide(self) -> bool {
        matches!(self, Self::Protected32 | Self::Real32)
    }

    /// Bytes of an environment.
    #[must_use]
    pub const fn environment_size(self) -> usize {
        if self.is_wide() { 28 } else { 14 }
    }

    /// Bytes of a whole state.
    #[must_use]
    pub const fn state_size(self) -> usize {
        self.environment_size() + 80
    }
}

/// The x87 part of an `fxsave` image, MXCSR (bytes 24 to 31, which are not touched) among it.
pub const FXSAVE_X87: usize = 160;

/// A field of an image; what is missing is 0.
fn field<const N: usize>(image: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| image.get(at + i).copied().unwrap_or(0))
}

impl X87 {
    /// The full tag word (SDM 1, 8.1.7).
    #[must_use]
    pub fn full_tags(&self) -> u16 {
        (0..8).rev().fold(0, |word, i| {
            let x = self.registers[i];
            let tag = match x.kind() {
                _ if self.tags >> i & 1 == 0 => 3,
                Kind::Zero => 1,
                Kind::Finite if !x.is_denormal() => 0,
                _ => 2,
            };
            word << 2 | tag
        })
    }

    fn set_full_tags(&mut self, word: u16) {
        self.tags = (0..8).fold(0, |tags, i| tags | u8::from(word >> (2 * i) & 3 != 3) << i);
    }

    fn set_status(&mut self, status: u16) {
        self.env.status = status;
        self.env.update_summary();
    }

    /// What `fnstenv` stores.
    #[must_use]
    pub(super) fn environment(&self, format: ImageFormat) -> Bytes {
        let mut words = [0u32; 7];
        words[..3].copy_from_slice(&[
            self.env.control.into(),
            self.env.status.into(),
            self.full_tags().into(),
        ]);
        let opcode = u32::from(self.opcode);
        let (ip, dp) = (self.instruction, self.data);
        words[3..].copy_from_slice(&match format {
            ImageFormat::Protected32 | ImageFormat::Protected16 => [
                ip.offset as u32,
                u32::from(ip.selector) | if format.is_wide() { opcode << 16 } else { 0 },
                dp.offset as u32,
                dp.selector.into(),
            ],
            ImageFormat::Real32 | ImageFormat::Real16 => {
                let (ip, dp) = (linear(ip), linear(dp));
                [ip & 0xffff, ip >> 16 << 12 | opcode, dp & 0xffff, dp >> 16 << 12]
            }
        });
        // The reserved halves are ones.
        let reserved: &[usize] = match format {
            ImageFormat::Protected32 => &[0, 1, 2, 6],
            ImageFormat::Real32 => &[0, 1, 2, 3, 5],
            ImageFormat::Protected16 | ImageFormat::Real16 => &[],
        };
        for &word in reserved {
            words[word] |= 0xffff_0000;
        }
        let mut bytes = Bytes::new(&[0; MAX]);
        let size = format.environment_size();
        for (i, word) in words.into_iter().enumerate() {
            let width = size / 7;
            bytes.bytes[i * width..][..width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        bytes.len = size as u8;
        bytes
    }

    /// `fldenv`.
    pub(super) fn load_environment(&mut self, format: ImageFormat, image: &[u8]) {
        let width = format.environment_size() / 7;
        let words: [u32; 7] = std::array::from_fn(|i| {
            if format.is_wide() {
                u32::from_le_bytes(field(image, i * width))
            } else {
                u16::from_le_bytes(field(image, i * width)).into()
            }
        });
        self.set_control(words[0] as u16);
        self.set_status(words[1] as u16);
        self.set_full_tags(words[2] as u16);
        match format {
            ImageFormat::Protected32 | ImageFormat::Protected16 => {
                self.instruction = far(words[4] as u16, words[3]);
                self.data = far(words[6] as u16, words[5]);
                // The narrow layout has no opcode.
                self.opcode = (words[4] >> 16) as u16 & 0x7ff;
            }
            ImageFormat::Real32 | ImageFormat::Real16 => {
                self.instruction = far(0, words[3] & 0xffff | (words[4] >> 12 & 0xffff) << 16);
                self.data = far(0, words[5] & 0xffff | (words[6] >> 12 & 0xffff) << 16);
                self.opcode = words[4] as u16 & 0x7ff;
            }
        }
    }

    /// What `fnsave` stores: the environment, and ST(0) to ST(7).
    #[must_use]
    pub(super) fn save(&self, format: ImageFormat) -> Bytes {
        let mut bytes = self.environment(format);
        let size = format.environment_size();
        for i in 0..8 {
            bytes.bytes[size + 10 * usize::from(i)..][..10].copy_from_slice(&self.st(i).to_bytes());
        }
        bytes.len = format.state_size() as u8;
        bytes
    }

    /// `frstor`.
    pub(super) fn restore(&mut self, format: ImageFormat, image: &[u8]) {
        self.load_environment(format, image);
        let size = format.environment_size();
        for i in 0..8 {
            let at = self.physical(i);
            self.registers[at] = F80::from_bytes(field(image, size + 10 * usize::from(i)));
        }
    }

    /// Writes the x87 part of an `fxsave` image. `wide`: the layout with 64-bit pointers (REX.W). MXCSR and its mask
    /// (bytes 24 to 31) stay as they are; reserved bytes become 0.
    pub fn fxsave(&self, image: &mut [u8; FXSAVE_X87], wide: bool) {
        image[..24].fill(0);
        image[32..].fill(0);
        image[0..2].copy_from_slice(&self.env.control.to_le_bytes());
        image[2..4].copy_from_slice(&self.env.status.to_le_bytes());
        image[4] = self.tags;
        image[6..8].copy_from_slice(&self.opcode.to_le_bytes());
        for (at, pointer) in [(8, self.instruction), (16, self.data)] {
            let offset = pointer.offset.to_le_bytes();
            if wide {
                image[at..at + 8].copy_from_slice(&offset);
            } else {
                image[at..at + 4].copy_from_slice(&offset[..4]);
                image[at + 4..at + 6].copy_from_slice(&pointer.selector.to_le_bytes());
            }
        }
        for i in 0..8 {
            image[32 + 16 * usize::from(i)..][..10].copy_from_slice(&self.st(i).to_bytes());
        }
    }

    /// Loads the x87 part of an `fxsave` image. Otherwise as [`X87::fxsave`].
    pub fn fxrstor(&mut self, image: &[u8; FXSAVE_X87], wide: bool) {
        self.set_control(u16::from_le_bytes(field(image, 0)));
        self.set_status(u16::from_le_bytes(field(image, 2)));
        self.tags = image[4];
        self.opcode = u16::from_le_bytes(field(image, 6)) & 0x7ff;
        let pointer = |at| {
            if wide {
                FarPointer {
                    selector: 0,
                    offset: u64::from_le_bytes(field(image, at)),
                }
            } else {
                far(
                    u16::from_le_bytes(field(image, at + 4)),
                    u32::from_le_bytes(field(image, at)),
                )
            }
        };
        self.instruction = pointer(8);
        self.data = pointer(16);
        for i in 0..8 {
            let at = self.physical(i);
            self.registers[at] = F80::from_bytes(field(image, 32 + 16 * usize::from(i)));
        }
    }
}

fn far(selector: u16, offset: u32) -> FarPointer {
    FarPointer {
        selector,
        offset: offset.into(),
    }
}

/// The linear address of a pointer of real-address mode.
fn linear(pointer: FarPointer) -> u32 {
    (u32::from(pointer.selector) << 4).wrapping_add(pointer.offset as u32)
}
