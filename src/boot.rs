//! The machine that a user describes: its options, and the files that they name.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use firmware::layout;
use machine::board::Images;
use machine::boot::{Bios, Boot, prepare};
use machine::config::{MacAddress, NetworkConfig, OnShutdown};
use machine::disk::DriveConfig;
use machine::host::{DriveImage, Drives, NetworkEnd, open_file};
use machine::{Config, MachineError};

use crate::outcome::Usage;
use crate::values::{self, Drive, Net};

/// The machine and what runs on it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Machine")]
pub struct MachineArguments {
    /// Board
    #[arg(long, default_value = "riscv-virt", value_name = "BOARD", value_parser = ["riscv-virt", "pc"])]
    machine: String,
    /// Memory, with K, M or G: 2M to 64G
    #[arg(long, short = 'm', default_value = "1G", value_name = "SIZE", value_parser = values::memory)]
    memory: u64,
    /// Number of harts (processor cores), 1 to 8
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    smp: u8,
    /// Kernel, told apart by content. riscv-virt: Linux Image, gzipped Image, ELF or raw; pc: bzImage, PVH or multiboot
    /// ELF
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// The kernel's command line
    #[arg(long, default_value = "", value_name = "TEXT")]
    append: String,
    /// Firmware to start before the kernel (OpenSBI's fw_dynamic.bin or fw_jump.bin); `none` starts the kernel
    /// itself in machine mode [default: the SBI firmware built in]. pc: a BIOS image, started from the reset vector
    #[arg(long, value_name = "FILE|none")]
    bios: Option<PathBuf>,
    /// Disk: file=PATH[,ro][,write-through]. What the guest writes is kept in the recording, not in the image,
    /// unless write-through is given. Up to 7 of them
    #[arg(long, value_name = "DRIVE", value_parser = values::drive)]
    drive: Vec<Drive>,
    /// Network card: user[,hostfwd=tcp:[ADDRESS]:PORT-:PORT] has the host's network, through the program passt;
    /// socket=PATH[,listen|,connect] a cable to another machine, or to QEMU's `-netdev stream`. mac=ADDRESS for another
    /// address than 52:54:00:12:34:56 and the next ones. Up to 8 cards
    #[arg(long, value_name = "NET", value_parser = values::net)]
    net: Vec<Net>,
    /// A second console, virtio's (Linux: console=hvc0). The terminal shows both, and types into the one that wrote last
    #[arg(long)]
    virtio_console: bool,
    /// CD-ROM image (pc)
    #[arg(long, value_name = "FILE")]
    cdrom: Option<PathBuf>,
    /// The display's option ROM, for a BIOS (pc) [default: vgabios-stdvga.bin beside the BIOS, if it is there]
    #[arg(long, value_name = "FILE")]
    vgabios: Option<PathBuf>,
    /// Serve the guest's semihosting calls: console, clocks, command line (--append), exit. No files of the host (riscv-virt)
    #[arg(long)]
    semihosting: bool,
    /// The ports that x86 test suites expect of QEMU: debug-exit 0xf4, debug console 0xe9, POST code 0x80 (pc)
    #[arg(long)]
    testdev: bool,
    /// What a triple fault does: `reset` the machine or `stop` the run; it is told with the processor's state (pc)
    #[arg(long, default_value = "reset", value_name = "WHAT", value_parser = values::on_shutdown)]
    on_triple_fault: OnShutdown,
    /// Date at power-on: 2025-06-01T12:00:00Z, or seconds since 1970 [default: the host's]
    #[arg(long, value_name = "DATE", value_parser = values::date)]
    date: Option<u64>,
    /// Seed of everything random in the machine
    #[arg(long, default_value = "0", value_name = "N", value_parser = values::number)]
    seed: u64,
    /// Steps that a hart makes before it is another's turn
    #[arg(long, default_value_t = machine::DEFAULT_SLICE, value_name = "STEPS", value_parser = values::slice)]
    slice: u64,
    /// Varies the length of slices, to meet other interleavings of harts
    #[arg(long, value_name = "N", value_parser = values::number)]
    schedule_seed: Option<u64>,
    /// Virtual time that a step takes
    #[arg(long, default_value = "1", value_name = "NS", value_parser = values::ns_per_step)]
    ns_per_step: NonZeroU64,
}

/// A machine, ready to be built.
#[derive(Debug)]
pub struct Prepared {
    /// What decides what the guest computes.
    pub config: Config,
    /// What is in RAM at power-on.
    pub images: Images,
    /// Where the drives' blocks come from.
    pub drives: Arc<Drives>,
    /// What the network cards are connected to.
    pub ends: Vec<(NetworkEnd, MacAddress)>,
    /// What the user gave, for the manifest.
    pub origin: BTreeMap<String, String>,
}

impl MachineArguments {
    /// Reads the files and places them.
    pub fn prepare(&self) -> Result<Prepared> {
        let bios = match self.bios.as_deref() {
            None => Bios::BuiltIn,
            Some(path) if path == Path::new("none") => Bios::None,
            Some(path) => Bios::File(self.read(path, "--bios")?),
        };
        if self.kernel.is_none() && !matches!(bios, Bios::File(_)) {
            let what = "there is nothing to start: give a --kernel, or a --bios that needs none";
            return Err(Usage(what.into()).into());
        }
        if self.machine == "pc" && self.semihosting {
            let what = "--semihosting: pc has none; it is a convention of RISC-V";
            return Err(Usage(what.into()).into());
        }
        if self.machine != "pc" {
            let given = [
                ("--cdrom", self.cdrom.is_some()),
                ("--vgabios", self.vgabios.is_some()),
                ("--testdev", self.testdev),
            ];
            if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
                let what = format!(
                    "{option}: {} has no such device; --machine pc has it",
                    self.machine
                );
                return Err(Usage(what).into());
            }
        }
        let most = machine::board::most_cards(&self.machine)?;
        let drives = self.drive.len() + usize::from(self.cdrom.is_some());
        let (nets, consoles) = (self.net.len(), usize::from(self.virtio_console));
        if drives + nets + consoles > most {
            let what = format!(
                "{drives} drives, {nets} network cards, {consoles} virtio consoles; the machine has {most} slots"
            );
            return Err(Usage(what).into());
        }
        if nets > usize::from(icount::MAX_NETWORKS) {
            let what = format!(
                "{nets} network cards; at most {} are possible",
                icount::MAX_NETWORKS
            );
            return Err(Usage(what).into());
        }
        let mut images = Vec::new();
        for drive in &self.drive {
            images.push(DriveImage::open(
                &drive.file,
                drive.read_only,
                drive.write_through,
            )?);
        }
        if let Some(path) = &self.cdrom {
            images.push(DriveImage::open(path, true, false)?);
        }
        let drives = images.iter().map(|image| DriveConfig {
            sectors: image.sectors(),
            read_only: image.read_only(),
        });
        let boot = Boot {
            board: self.machine.clone(),
            memory: self.memory,
            harts: self.smp,
            bios,
            kernel: self.file(self.kernel.as_deref(), "--kernel")?,
            initrd: self.file(self.initrd.as_deref(), "--initrd")?,
            append: self.append.clone(),
            drives: drives.collect(),
            ns_per_step: self.ns_per_step,
            slice: self.slice,
            schedule_seed: self.schedule_seed,
            seed: self.seed,
            date_ns: self
                .date
                .unwrap_or_else(|| machine::host::date().saturating_mul(1_000_000_000)),
            ..Boot::default()
        };
        let ends: Vec<(NetworkEnd, MacAddress)> = (0u8..)
            .zip(&self.net)
            .map(|(port, net)| {
                let mac = net.mac.unwrap_or(MacAddress::of_port(port));
                (net.end.clone(), mac)
            })
            .collect();
        let boot = Boot {
            cdrom: self.cdrom.as_ref().map(|_| self.drive.len() as u8),
            display_rom: self.display_rom()?,
            testdev: self.testdev,
            semihosting: self.semihosting,
            on_shutdown: self.on_triple_fault,
            networks: ends.iter().map(|(_, mac)| NetworkConfig { mac: *mac }).collect(),
            virtio_console: self.virtio_console,
            ..boot
        };
        let (config, ram) = prepare(&boot).map_err(|error| self.blame(&boot, error))?;
        Ok(Prepared {
            config,
            images: ram,
            drives: Arc::new(Drives::new(images)),
            ends,
            origin: self.origin(&boot),
        })
    }

    /// The options that name files or texts, with hashes of what the files held.
    fn origin(&self, boot: &Boot) -> BTreeMap<String, String> {
        let bios = match &boot.bios {
            Bios::File(bytes) => Some(bytes),
            Bios::BuiltIn | Bios::None => None,
        };
        let files = [
            ("--bios", &self.bios, bios),
            ("--kernel", &self.kernel, boot.kernel.as_ref()),
            ("--initrd", &self.initrd, boot.initrd.as_ref()),
        ];
        let mut origin = BTreeMap::new();
        for (option, path, bytes) in files {
            let Some(path) = path else { continue };
            let hash = bytes.map_or_else(String::new, |bytes| format!(" (blake3 {})", blake3::hash(bytes)));
            origin.insert(option.into(), format!("{}{hash}", path.display()));
        }
        for (number, drive) in self.drive.iter().enumerate() {
            origin.insert(format!("--drive {number}"), drive.file.display().to_string());
        }
        for (number, net) in self.net.iter().enumerate() {
            origin.insert(format!("--net {number}"), net.text.clone());
        }
        if !self.append.is_empty() {
            origin.insert("--append".into(), self.append.clone());
        }
        origin
    }

    /// The display's option ROM: as given, or beside the BIOS.
    fn display_rom(&self) -> Result<Option<Vec<u8>>> {
        if self.vgabios.is_some() {
            return self.file(self.vgabios.as_deref(), "--vgabios");
        }
        let bios = self.bios.as_deref().filter(|_| self.machine == "pc");
        let beside = bios.map(|bios| bios.with_file_name("vgabios-stdvga.bin"));
        self.file(beside.as_deref().filter(|path| path.is_file()), "--vgabios")
    }

    fn file(&self, path: Option<&Path>, option: &str) -> Result<Option<Vec<u8>>> {
        path.map(|path| self.read(path, option)).transpose()
    }

    /// Reads a file that must fit into the guest's memory; a larger one is not read at all.
    fn read(&self, path: &Path, option: &str) -> Result<Vec<u8>> {
        let what = || format!("{option} {}", path.display());
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        open_file(path, OpenOptions::new().read(true))
            .with_context(what)?
            .take(self.memory + 1)
            .read_to_end(&mut bytes)
            .with_context(what)?;
        if bytes.len() as u64 > self.memory {
            anyhow::bail!(
                "{}: it is larger than the guest's memory ({} MiB); give more --memory",
                what(),
                self.memory >> 20
            );
        }
        if bytes.is_empty() {
            anyhow::bail!("{}: it is empty", what());
        }
        Ok(bytes)
    }

    /// Names the file at which a loader took offence.
    fn blame(&self, boot: &Boot, error: MachineError) -> anyhow::Error {
        if !matches!(error, MachineError::Firmware(_)) {
            return error.into();
        }
        if self.machine == "pc" {
            let (option, path) = match (&self.bios, &self.kernel) {
                (Some(path), _) => ("--bios", path),
                (None, Some(path)) => ("--kernel", path),
                (None, None) => return error.into(),
            };
            return anyhow::Error::from(error).context(format!("{option} {}", path.display()));
        }
        let refused = |bytes: &[u8]| firmware::load_kernel(bytes, layout::RAM, self.memory).is_err();
        let (option, path) = match (&boot.bios, &boot.kernel) {
            (Bios::File(bytes), _) if refused(bytes) => ("--bios", &self.bios),
            (_, Some(bytes)) if refused(bytes) => ("--kernel", &self.kernel),
            _ => return error.into(),
        };
        let path = path.as_deref().unwrap_or(Path::new(""));
        anyhow::Error::from(error).context(format!("{option} {}", path.display()))
    }
}
