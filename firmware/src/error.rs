//! What can go wrong before a guest runs.

/// Why a guest image can't be used, or a firmware table not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// The file has no bytes. The file's fault.
    #[error("the image is empty")]
    Empty,
    /// The file ends before what its headers promise. The file's fault.
    #[error("the {kind} is cut off: it needs {need} bytes and has {have}")]
    Truncated {
        /// What the file claims to be.
        kind: &'static str,
        /// Bytes that the headers promise.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// A header contradicts itself or its format. The file's fault.
    #[error("the {kind} is malformed: {what}")]
    Malformed {
        /// What the file claims to be.
        kind: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The file is for another machine. The caller's choice of file.
    #[error("this is {found}; a 64-bit little-endian RISC-V image is needed")]
    WrongArchitecture {
        /// What the file is, with its article.
        found: String,
    },
    /// The file is nothing that a PC can start. The caller's choice of file.
    #[error(
        "this is {found}; a bzImage, or an ELF kernel with a PVH or 64-bit entry or a multiboot header, is needed"
    )]
    NotBootable {
        /// What the file is, with its article.
        found: String,
    },
    /// The Linux kernel is from before what is needed to start it. The file's fault.
    #[error("the bzImage is too old: {what}")]
    TooOld {
        /// What it lacks.
        what: String,
    },
    /// A firmware ROM has a size that no ROM has. The file's fault.
    #[error("a BIOS has a multiple of 64 KiB up to 4 MiB; this file has {size} bytes")]
    BiosSize {
        /// Size of the file.
        size: u64,
    },
    /// The command line can't be passed on. The caller's configuration.
    #[error("the kernel's command line can't be used: {what}")]
    CommandLine {
        /// Why not.
        what: String,
    },
    /// There is no place for the initial RAM disk. The file's fault, or RAM is too small.
    #[error(
        "the initial RAM disk ({size:#x} bytes) doesn't fit between the kernel and {end:#x}; more RAM may help"
    )]
    Initrd {
        /// Size of the file.
        size: u64,
        /// Where it must end at the latest.
        end: u64,
    },
    /// There is no such machine. The caller's configuration.
    #[error("the machine can't be built: {what}")]
    Machine {
        /// What is wrong with it.
        what: String,
    },
    /// The image doesn't lie inside RAM. The file's fault, or RAM is too small.
    #[error("the image wants {size:#x} bytes at {start:#x}, but RAM is {ram:#x} bytes at {base:#x}")]
    OutsideRam {
        /// First address that the image wants.
        start: u64,
        /// Bytes that it wants there.
        size: u64,
        /// Start of RAM.
        base: u64,
        /// Size of RAM.
        ram: u64,
    },
    /// Two segments want the same memory. The file's fault.
    #[error("the segments at {first:#x} and {second:#x} overlap")]
    Overlap {
        /// Physical address of the lower segment.
        first: u64,
        /// Physical address of the upper segment.
        second: u64,
    },
    /// The compressed stream is broken. The file's fault.
    #[error("the gzip file can't be unpacked: {what}")]
    Gzip {
        /// What the decompressor says.
        what: String,
    },
    /// The file unpacks to more than RAM. The file's fault, or RAM is too small.
    #[error("the gzip file unpacks to more than RAM ({limit:#x} bytes)")]
    UnpacksTooLarge {
        /// Size of RAM.
        limit: u64,
    },
    /// The device tree can't be built. The caller's configuration.
    #[error("the device tree can't be built: {what}")]
    Fdt {
        /// What is wrong.
        what: String,
    },
}
