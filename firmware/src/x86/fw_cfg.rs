//! What a BIOS is told through QEMU's firmware configuration device: pure contents, for a device to serve.
//!
//! SeaBIOS and OVMF take memory map, ACPI tables, boot order and, for loaders that want them, a kernel from
//! there. Items with fixed keys and files with names are two lists. Source: QEMU docs/specs/fw_cfg; the names
//! of files are what SeaBIOS reads (docs/Runtime_config.md there).

use super::acpi::{self, AcpiConfig};
use super::layout;
use super::memory_map::{e820, ram_map};
use crate::FirmwareError;

/// What the BIOS is to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BiosConfig<'a> {
    /// RAM in bytes.
    pub memory: u64,
    /// Processors.
    pub cpus: u32,
    /// Whether there is a VGA-compatible display.
    pub vga: bool,
    /// Whether the BIOS also shows its screen on the first serial port, and takes keys from there.
    pub serial_console: bool,
    /// Open Firmware paths of what to boot from, best first, as SeaBIOS names them:
    /// `/pci@i0cf8/*@4/disk@0,0`.
    pub boot_order: &'a [String],
    /// A kernel, an initial RAM disk and a command line, for a boot loader that takes them from here.
    pub kernel: Option<&'a [u8]>,
    /// The initial RAM disk that goes with the kernel.
    pub initrd: Option<&'a [u8]>,
    /// The kernel's command line.
    pub command_line: &'a str,
}

/// Items by key, and files by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BiosItems {
    /// Items that have a key of their own.
    pub items: Vec<(u16, Vec<u8>)>,
    /// Files, which the device gives keys.
    pub files: Vec<(String, Vec<u8>)>,
}

const RAM_SIZE: u16 = 0x03;
const NB_CPUS: u16 = 0x05;
const KERNEL_SIZE: u16 = 0x08;
const INITRD_SIZE: u16 = 0x0b;
const MAX_CPUS: u16 = 0x0f;
const KERNEL_DATA: u16 = 0x11;
const INITRD_DATA: u16 = 0x12;
const CMDLINE_SIZE: u16 = 0x14;
const CMDLINE_DATA: u16 = 0x15;
const SETUP_SIZE: u16 = 0x17;
const SETUP_DATA: u16 = 0x18;
const IRQ0_OVERRIDE: u16 = 0x8002;

/// Everything that the BIOS of such a machine asks for.
///
/// # Errors
/// No or too many processors, or a command line with a zero byte.
pub fn bios_items(config: &BiosConfig) -> Result<BiosItems, FirmwareError> {
    let tables = acpi::tables(&AcpiConfig {
        cpus: config.cpus,
        vga: config.vga,
    })?;
    let cpus = (config.cpus as u16).to_le_bytes().to_vec();
    let mut items = vec![
        (RAM_SIZE, config.memory.to_le_bytes().to_vec()),
        (NB_CPUS, cpus.clone()),
        (MAX_CPUS, cpus),
        // The timer is the I/O APIC's input 2.
        (IRQ0_OVERRIDE, 1u32.to_le_bytes().to_vec()),
    ];
    kernel_items(config, &mut items)?;
    let mut files = tables.files();
    files.push(("etc/e820".into(), e820(&ram_map(config.memory))));
    if config.serial_console {
        files.push((
            "etc/sercon-port".into(),
            u64::from(layout::COM1).to_le_bytes().to_vec(),
        ));
    }
    if !config.boot_order.is_empty() {
        let mut order = config.boot_order.join("\n").into_bytes();
        order.push(0);
        files.push(("bootorder".into(), order));
    }
    Ok(BiosItems { items, files })
}

/// A kernel as the loaders want it: a bzImage in two parts.
fn kernel_items(config: &BiosConfig, items: &mut Vec<(u16, Vec<u8>)>) -> Result<(), FirmwareError> {
    let size = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes().to_vec();
    if config.command_line.contains('\0') {
        return Err(FirmwareError::CommandLine {
            what: "it holds a zero byte".into(),
        });
    }
    if let Some(kernel) = config.kernel {
        let (setup, rest) = kernel.split_at(super::bzimage::setup_size(kernel));
        items.extend([
            (SETUP_SIZE, size(setup)),
            (SETUP_DATA, setup.to_vec()),
            (KERNEL_SIZE, size(rest)),
            (KERNEL_DATA, rest.to_vec()),
        ]);
        let mut line = config.command_line.as_bytes().to_vec();
        line.push(0);
        items.extend([(CMDLINE_SIZE, size(&line)), (CMDLINE_DATA, line)]);
    }
    if let Some(initrd) = config.initrd {
        items.extend([(INITRD_SIZE, size(initrd)), (INITRD_DATA, initrd.to_vec())]);
    }
    Ok(())
}
