//! What the user asks to be started, made into a [`Config`] and what is in RAM at power-on.
//!
//! | firmware         | kernel        | harts start at | in mode |
//! |------------------|---------------|----------------|---------|
//! | built in         | Linux, ELF, raw | the built-in SBI, which starts the kernel in S mode | M |
//! | file (`--bios`)  | optional      | the file's entry; `fw_dynamic` finds the kernel's entry in a2 | M |
//! | none             | ELF, raw      | the kernel's entry | M |
//!
//! So on `riscv-virt`; `pc` is in `boot/pc.rs`.
//!
//! The device tree goes below the end of the first 4 GiB of RAM or of RAM, the initial RAM disk below it.

mod pc;

use std::num::NonZeroU64;

use firmware::{
    FdtConfig, KernelKind, Loaded, NextMode, SbiConfig, fw_dynamic_info, layout, load_kernel, load_raw,
    riscv_virt_fdt, sbi,
};

use crate::board::{Images, seed_bytes};
use crate::config::{Config, HartStart, NetworkConfig, OnShutdown};
use crate::disk::DriveConfig;
use crate::error::MachineError;

/// What runs before the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bios {
    /// The SBI firmware that comes with this program.
    #[default]
    BuiltIn,
    /// Nothing: the kernel starts in M mode.
    None,
    /// A firmware file's content.
    File(Vec<u8>),
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Board name.
    pub board: String,
    /// RAM in bytes.
    pub memory: u64,
    /// Number of harts.
    pub harts: u8,
    /// Firmware.
    pub bios: Bios,
    /// Kernel file's content.
    pub kernel: Option<Vec<u8>>,
    /// Initial RAM disk's content.
    pub initrd: Option<Vec<u8>>,
    /// Kernel command line.
    pub append: String,
    /// Drives.
    pub drives: Vec<DriveConfig>,
    /// Virtual nanoseconds a step.
    pub ns_per_step: NonZeroU64,
    /// Steps a slice.
    pub slice: u64,
    /// Varies the slices.
    pub schedule_seed: Option<u64>,
    /// Seed of entropy.
    pub seed: u64,
    /// Date at power-on in ns since 1970.
    pub date_ns: u64,
    /// RISC-V: semihosting calls are served; the command line is `append`.
    pub semihosting: bool,
    /// x86: the drive that is a CD-ROM.
    pub cdrom: Option<u8>,
    /// x86: the display's option ROM, for a BIOS.
    pub display_rom: Option<Vec<u8>>,
    /// x86: the ports that test suites expect.
    pub testdev: bool,
    /// x86: what a triple fault does.
    pub on_shutdown: OnShutdown,
    /// Network cards.
    pub networks: Vec<NetworkConfig>,
    /// A virtio console.
    pub virtio_console: bool,
}

impl Default for Boot {
    fn default() -> Boot {
        Boot {
            board: "riscv-virt".into(),
            memory: 1 << 30,
            harts: 1,
            bios: Bios::BuiltIn,
            kernel: None,
            initrd: None,
            append: String::new(),
            drives: Vec::new(),
            ns_per_step: NonZeroU64::MIN,
            slice: crate::DEFAULT_SLICE,
            schedule_seed: None,
            seed: 0,
            date_ns: 0,
            semihosting: false,
            cdrom: None,
            display_rom: None,
            testdev: false,
            on_shutdown: OnShutdown::Reset,
            networks: Vec::new(),
            virtio_console: false,
        }
    }
}

/// Device trees end below this address, so that 32-bit firmware could reach them.
const FDT_LIMIT: u64 = 3 << 30;

const ALIGN: u64 = 2 << 20;

/// Places everything.
///
/// # Errors
/// A file that can't be used, or memory too small for it all.
pub fn prepare(boot: &Boot) -> Result<(Config, Images), MachineError> {
    let mut config = Config {
        board: boot.board.clone(),
        memory: boot.memory,
        harts: vec![
            HartStart {
                pc: layout::RAM,
                args: [0; 3],
                mode: crate::config::StartMode::Board,
            };
            boot.harts.into()
        ],
        ns_per_step: boot.ns_per_step,
        slice: boot.slice,
        schedule_seed: boot.schedule_seed,
        seed: boot.seed,
        date_ns: boot.date_ns,
        drives: boot.drives.clone(),
        tohost: None,
        semihosting: boot.semihosting.then(|| boot.append.clone()),
        cdrom: None,
        testdev: false,
        firmware_files: Vec::new(),
        on_shutdown: OnShutdown::Reset,
        networks: boot.networks.clone(),
        virtio_console: boot.virtio_console,
    };
    config.check()?;
    if boot.board == "pc" {
        if boot.semihosting {
            let what = "pc has no semihosting; it is a convention of RISC-V".into();
            return Err(MachineError::Config(what));
        }
        return pc::prepare(boot, config);
    }
    if boot.cdrom.is_some() || boot.display_rom.is_some() || boot.testdev {
        let what = format!("{} has no CD-ROM drive, display or test device", boot.board);
        return Err(MachineError::Config(what));
    }
    let mut images = Images::new();
    let end = layout::RAM + boot.memory;
    // Kernel.
    let base = if boot.bios == Bios::None {
        layout::RAM
    } else {
        layout::KERNEL
    };
    let kernel = boot
        .kernel
        .as_deref()
        .map(|bytes| load(bytes, base, boot.memory))
        .transpose()?;
    let kernel_entry = kernel.as_ref().map(|k| k.entry);
    if let Some(kernel) = &kernel {
        config.tohost = kernel.tohost;
        for segment in &kernel.segments {
            images.push((segment.address, segment.bytes.clone()));
        }
    }
    // Initial RAM disk and device tree, from the top down.
    let fdt_config = |initrd| {
        let mut fdt = FdtConfig::new(u32::from(boot.harts), boot.memory);
        fdt.cmdline = boot.append.clone();
        fdt.initrd = initrd;
        fdt.rng_seed = Some(seed_bytes(boot.seed ^ 1));
        if boot.bios == Bios::BuiltIn {
            fdt.reserved.push((layout::RAM, layout::KERNEL - layout::RAM));
        }
        fdt
    };
    let fdt_size = riscv_virt_fdt(&fdt_config(Some((0, 0))))?.len() as u64;
    let too_small = |what: &str| {
        MachineError::Config(format!(
            "{what} doesn't fit into {} MiB of memory; give more --memory",
            boot.memory >> 20
        ))
    };
    let top = end.min(FDT_LIMIT.max(layout::RAM + (512 << 20)));
    // Room behind the tree for what firmware adds to it.
    let fdt_addr = (top
        .checked_sub(fdt_size + 0x1_0000)
        .ok_or_else(|| too_small("the device tree"))?)
        & !(ALIGN - 1);
    let lowest = kernel
        .as_ref()
        .map_or(base, |k| k.segments.iter().map(|s| s.end()).max().unwrap_or(base));
    let fdt_addr = if fdt_addr < lowest {
        (top - fdt_size - 0x1000) & !0xfff
    } else {
        fdt_addr
    };
    if fdt_addr < lowest {
        return Err(too_small("the device tree behind the kernel"));
    }
    let mut initrd_range = None;
    if let Some(initrd) = &boot.initrd {
        let start = fdt_addr
            .checked_sub(initrd.len() as u64)
            .map(|a| a & !0xfff)
            .filter(|a| *a >= lowest);
        let start = start.ok_or_else(|| too_small("the initial RAM disk"))?;
        initrd_range = Some((start, start + initrd.len() as u64));
        images.push((start, initrd.clone()));
    }
    images.push((fdt_addr, riscv_virt_fdt(&fdt_config(initrd_range))?));
    // Firmware, and where harts start.
    let (entry, info) = match &boot.bios {
        Bios::None => (kernel_entry.unwrap_or(layout::RAM), 0),
        Bios::BuiltIn => {
            let Some(kernel_entry) = kernel_entry else {
                return Err(MachineError::Config(
                    "nothing to start: give a --kernel or a --bios".into(),
                ));
            };
            let mut sbi_config = SbiConfig::new(boot.harts.into(), boot.memory);
            sbi_config.kernel = kernel_entry;
            sbi_config.fdt = Some(fdt_addr);
            images.push((layout::RAM, sbi(&sbi_config)));
            (layout::RAM, 0)
        }
        Bios::File(bytes) => {
            let loaded = load_kernel(bytes, layout::RAM, boot.memory)?;
            for segment in &loaded.segments {
                images.push((segment.address, segment.bytes.clone()));
            }
            let info = fdt_addr + fdt_size.next_multiple_of(4096) - 4096;
            let info = if info < fdt_addr + fdt_size {
                fdt_addr + fdt_size.next_multiple_of(4096)
            } else {
                info
            };
            let next = fw_dynamic_info(kernel_entry.unwrap_or(base), NextMode::Supervisor, 0);
            images.push((info, next));
            (loaded.entry, info)
        }
    };
    for (id, hart) in config.harts.iter_mut().enumerate() {
        *hart = HartStart {
            pc: entry,
            args: [id as u64, fdt_addr, info],
            mode: crate::config::StartMode::Board,
        };
    }
    Ok((config, images))
}

/// Loads a kernel; one without a header goes to `base`.
fn load(bytes: &[u8], base: u64, memory: u64) -> Result<Loaded, MachineError> {
    let loaded = load_kernel(bytes, layout::RAM, memory)?;
    if loaded.kind == KernelKind::Raw && base != layout::RAM {
        return Ok(load_raw(bytes, base, layout::RAM, memory)?);
    }
    Ok(loaded)
}
