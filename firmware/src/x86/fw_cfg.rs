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
/// A machine that can't be (see [`load_x86_kernel`](super::load_x86_kernel)), or a command line with a zero byte.
pub fn bios_items(config: &BiosConfig) -> Result<BiosItems, FirmwareError> {
    super::boot::check_memory(config.memory)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BiosConfig<'static> {
        BiosConfig {
            memory: 5 << 30,
            cpus: 2,
            ..BiosConfig::default()
        }
    }

    fn file(items: &BiosItems, name: &str) -> Option<Vec<u8>> {
        items
            .files
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, bytes)| bytes.clone())
    }

    fn item(items: &BiosItems, key: u16) -> Option<Vec<u8>> {
        items
            .items
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, bytes)| bytes.clone())
    }

    #[test]
    fn a_bios_learns_of_the_machine() {
        let order = ["/pci@i0cf8/*@4/disk@0,0".to_string(), "HALT".to_string()];
        let items = bios_items(&BiosConfig {
            serial_console: true,
            boot_order: &order,
            ..config()
        })
        .unwrap();
        assert_eq!(item(&items, 0x03), Some((5u64 << 30).to_le_bytes().to_vec()));
        assert_eq!(
            [item(&items, 0x05), item(&items, 0x0f)],
            [Some(vec![2, 0]), Some(vec![2, 0])]
        );
        assert_eq!(item(&items, 0x8002), Some(vec![1, 0, 0, 0]));
        let mut e820 = Vec::new();
        for (start, size) in [(0u64, 3u64 << 30), (4 << 30, 2 << 30)] {
            e820.extend(start.to_le_bytes());
            e820.extend(size.to_le_bytes());
            e820.extend(1u32.to_le_bytes());
        }
        assert_eq!(file(&items, "etc/e820"), Some(e820));
        assert_eq!(
            file(&items, "etc/sercon-port"),
            Some(vec![0xf8, 3, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(
            file(&items, "bootorder"),
            Some(b"/pci@i0cf8/*@4/disk@0,0\nHALT\0".to_vec())
        );
        for name in ["etc/acpi/rsdp", "etc/acpi/tables", "etc/table-loader"] {
            assert!(file(&items, name).is_some(), "{name}");
        }
        let plain = bios_items(&config()).unwrap();
        assert!(file(&plain, "bootorder").is_none() && file(&plain, "etc/sercon-port").is_none());
        assert!((KERNEL_SIZE..=SETUP_DATA).all(|key| key == MAX_CPUS || item(&plain, key).is_none()));
    }

    #[test]
    fn a_kernel_comes_in_its_two_parts() {
        let mut kernel = vec![1; 512 * 3 + 100];
        kernel[0x1f1] = 2;
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        let items = bios_items(&BiosConfig {
            kernel: Some(&kernel),
            initrd: Some(b"initrd"),
            command_line: "quiet",
            ..config()
        })
        .unwrap();
        assert_eq!(item(&items, SETUP_SIZE), Some(1536u32.to_le_bytes().to_vec()));
        assert_eq!(item(&items, SETUP_DATA), Some(kernel[..1536].to_vec()));
        assert_eq!(item(&items, KERNEL_DATA), Some(kernel[1536..].to_vec()));
        assert_eq!(item(&items, INITRD_DATA), Some(b"initrd".to_vec()));
        assert_eq!(item(&items, CMDLINE_DATA), Some(b"quiet\0".to_vec()));
        // Cut off in the real-mode part, and no bzImage at all.
        for file in [&kernel[..700], &kernel[..0x204], b"x".as_slice()] {
            let items = bios_items(&BiosConfig {
                kernel: Some(file),
                ..config()
            })
            .unwrap();
            let sizes = [SETUP_DATA, KERNEL_DATA].map(|key| item(&items, key).unwrap().len());
            assert_eq!(sizes[0] + sizes[1], file.len());
        }
    }

    #[test]
    fn impossible_configurations_are_refused() {
        let none = BiosConfig { cpus: 0, ..config() };
        assert!(matches!(bios_items(&none), Err(FirmwareError::Machine { .. })));
        let zero = BiosConfig {
            command_line: "a\0b",
            ..config()
        };
        assert!(matches!(
            bios_items(&zero),
            Err(FirmwareError::CommandLine { .. })
        ));
        let small = BiosConfig {
            memory: 1,
            ..config()
        };
        assert!(matches!(bios_items(&small), Err(FirmwareError::Machine { .. })));
    }
}
