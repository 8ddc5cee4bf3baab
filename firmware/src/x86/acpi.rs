//! The machine's ACPI tables: fixed hardware (PM1a, PM timer, reset register), interrupt controllers, and
//! what is at fixed places on the board.
//!
//! ```text
//! RSDP ─┬─ RSDT ─┬─ FADT ─┬─ DSDT (dsdt.rs)
//!       └─ XSDT ─┤        └─ FACS
//!                └─ MADT
//! ```
//!
//! The tables are built once, unplaced: one block of bytes whose pointers are offsets into it, and lists of
//! where pointers and checksums stand. Direct boot adds an address ([`AcpiTables::place`]); for a BIOS the
//! same lists become the loader's script ([`AcpiTables::loader_script`]), and it adds the address.
//!
//! There is no ACPI mode to switch to (no SMI command port): the hardware is always in it. Sources: ACPI 6.5, 5.2
//! and 4.8; QEMU docs/specs/fw_cfg ("linker/loader") for the script.

use super::{dsdt, layout};
use crate::FirmwareError;
use acpi_tables::fadt::{FADTBuilder, Flags, PmProfile};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, facs::FACS};

/// What of the machine the tables depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcpiConfig {
    /// Processors, with local APIC identifiers from 0 on: 1 to [`MAX_CPUS`].
    pub cpus: u32,
    /// Whether there is a VGA-compatible display.
    pub vga: bool,
}

/// Most processors: a local APIC's identifier has 8 bits, of which one value means all.
pub const MAX_CPUS: u32 = 255;

pub(super) const OEM: [u8; 6] = *b"TICKBK";
pub(super) const OEM_TABLE: [u8; 8] = *b"TICKBACK";
pub(super) const OEM_REVISION: u32 = 1;

/// The unplaced tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpiTables {
    rsdp: Vec<u8>,
    tables: Vec<u8>,
    pointers: Vec<Pointer>,
    checksums: Vec<Checksum>,
}

/// Which block of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Rsdp,
    Tables,
}

/// A little-endian offset into the tables that has to become an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pointer {
    block: Block,
    at: usize,
    size: usize,
}

/// A byte by which `size` bytes from `start` on have to sum up to 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum {
    block: Block,
    at: usize,
    start: usize,
    size: usize,
}

/// Builds the tables.
///
/// # Errors
/// If there are no or more than [`MAX_CPUS`] processors.
pub fn tables(config: &AcpiConfig) -> Result<AcpiTables, FirmwareError> {
    if config.cpus == 0 || config.cpus > MAX_CPUS {
        return Err(FirmwareError::Machine {
            what: format!(
                "{} processors are asked for; 1 to {MAX_CPUS} are possible",
                config.cpus
            ),
        });
    }
    let mut built = AcpiTables {
        rsdp: Vec::new(),
        tables: Vec::new(),
        pointers: Vec::new(),
        checksums: Vec::new(),
    };
    let mut facs = Vec::new();
    FACS::new().to_aml_bytes(&mut facs);
    let facs = built.append(&facs);
    let dsdt = built.table(&dsdt::dsdt());
    let fadt = built.table(&fadt(config, facs as u32, dsdt as u32));
    built
        .pointers
        .extend([(36, 4), (40, 4), (140, 8)].map(|(at, size)| Pointer {
            block: Block::Tables,
            at: fadt + at,
            size,
        }));
    let madt = built.table(&madt(config.cpus));
    let rsdt = built.root(*b"RSDT", &[fadt, madt], 4);
    let xsdt = built.root(*b"XSDT", &[fadt, madt], 8);
    built.rsdp(rsdt, xsdt);
    Ok(built)
}

impl AcpiTables {
    /// The root pointer and the tables, these at `address`, which must be below 4 GiB and a multiple of 64.
    pub fn place(&self, address: u64) -> (Vec<u8>, Vec<u8>) {
        let mut blocks = [self.rsdp.clone(), self.tables.clone()];
        for pointer in &self.pointers {
            let field = &mut blocks[pointer.block as usize][pointer.at..][..pointer.size];
            let mut value = [0; 8];
            value[..pointer.size].copy_from_slice(field);
            let value = u64::from_le_bytes(value) + address;
            field.copy_from_slice(&value.to_le_bytes()[..pointer.size]);
        }
        for checksum in &self.checksums {
            let block = &mut blocks[checksum.block as usize];
            let covered = &block[checksum.start..][..checksum.size];
            let sum = covered.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            block[checksum.at] = block[checksum.at].wrapping_sub(sum);
        }
        let [rsdp, tables] = blocks;
        (rsdp, tables)
    }

    /// The files by which a BIOS places the tables itself, names and contents.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        vec![
            (RSDP_FILE.into(), self.rsdp.clone()),
            (TABLES_FILE.into(), self.tables.clone()),
            ("etc/table-loader".into(), self.loader_script()),
        ]
    }

    /// The script: commands of 128 bytes, of which only the first is a number that says which.
    fn loader_script(&self) -> Vec<u8> {
        let mut script = Vec::new();
        script.extend(command(ALLOCATE, |c| c.name(RSDP_FILE).word(16).byte(ZONE_FSEG)));
        script.extend(command(ALLOCATE, |c| {
            c.name(TABLES_FILE).word(64).byte(ZONE_HIGH)
        }));
        for p in &self.pointers {
            script.extend(command(ADD_POINTER, |c| {
                c.name(p.block.file())
                    .name(TABLES_FILE)
                    .word(p.at)
                    .byte(p.size as u8)
            }));
        }
        for c in &self.checksums {
            let (at, start, size) = (c.at, c.start, c.size);
            script.extend(command(ADD_CHECKSUM, |s| {
                s.name(c.block.file()).word(at).word(start).word(size)
            }));
        }
        script
    }

    /// Adds bytes on a boundary that suits every table; their offset.
    fn append(&mut self, bytes: &[u8]) -> usize {
        let at = self.tables.len().next_multiple_of(64);
        self.tables.resize(at, 0);
        self.tables.extend(bytes);
        at
    }

    /// Adds a table with the common header, whose checksum becomes whoever places it's task.
    fn table(&mut self, bytes: &[u8]) -> usize {
        let at = self.append(bytes);
        self.tables[at + 9] = 0;
        self.checksums.push(Checksum {
            block: Block::Tables,
            at: at + 9,
            start: at,
            size: bytes.len(),
        });
        at
    }

    /// Adds a table that points to tables, with pointers of `size` bytes.
    fn root(&mut self, signature: [u8; 4], tables: &[usize], size: usize) -> usize {
        let mut sdt = Sdt::new(signature, 36, 1, OEM, OEM_TABLE, OEM_REVISION);
        for &table in tables {
            sdt.append_slice(&(table as u64).to_le_bytes()[..size]);
        }
        let at = self.table(sdt.as_slice());
        self.pointers.extend((0..tables.len()).map(|n| Pointer {
            block: Block::Tables,
            at: at + 36 + size * n,
            size,
        }));
        at
    }

    /// The root pointer, revision 2 (ACPI 5.2.5.3).
    fn rsdp(&mut self, rsdt: usize, xsdt: usize) {
        let mut bytes = b"RSD PTR \0".to_vec();
        bytes.extend(OEM);
        bytes.push(2);
        bytes.extend((rsdt as u32).to_le_bytes());
        bytes.extend(36u32.to_le_bytes());
        bytes.extend((xsdt as u64).to_le_bytes());
        bytes.extend([0; 4]);
        self.rsdp = bytes;
        let block = Block::Rsdp;
        self.pointers
            .extend([(16, 4), (24, 8)].map(|(at, size)| Pointer { block, at, size }));
        self.checksums
            .extend([(8, 20), (32, 36)].map(|(at, size)| Checksum {
                block,
                at,
                start: 0,
                size,
            }));
    }
}

impl Block {
    fn file(self) -> &'static str {
        match self {
            Block::Rsdp => RSDP_FILE,
            Block::Tables => TABLES_FILE,
        }
    }
}

const RSDP_FILE: &str = "etc/acpi/rsdp";
const TABLES_FILE: &str = "etc/acpi/tables";
const ALLOCATE: u32 = 1;
const ADD_POINTER: u32 = 2;
const ADD_CHECKSUM: u32 = 3;
/// Anywhere in RAM.
const ZONE_HIGH: u8 = 1;
/// Where the root pointer is looked for.
const ZONE_FSEG: u8 = 2;

/// A command of the loader's script as it grows.
struct Command(Vec<u8>);

fn command(number: u32, fill: impl FnOnce(Command) -> Command) -> Vec<u8> {
    let Command(mut bytes) = fill(Command(number.to_le_bytes().to_vec()));
    bytes.resize(128, 0);
    bytes
}

impl Command {
    fn name(mut self, name: &str) -> Self {
        let end = self.0.len() + 56;
        self.0.extend(name.bytes());
        self.0.resize(end, 0);
        self
    }

    fn word(mut self, value: usize) -> Self {
        self.0.extend((value as u32).to_le_bytes());
        self
    }

    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
}

/// Fixed hardware (ACPI 5.2.9).
fn fadt(config: &AcpiConfig, facs: u32, dsdt: u32) -> Vec<u8> {
    const LEGACY_DEVICES: u16 = 1 << 0;
    const KEYBOARD_CONTROLLER: u16 = 1 << 1;
    const VGA_NOT_PRESENT: u16 = 1 << 2;
    /// A latency that says that there is no such state.
    const NO_C2: u16 = 101;
    const NO_C3: u16 = 1001;
    let port = |bits: u8, access, port: u16| GAS::new(AddressSpace::SystemIo, bits, 0, access, port.into());
    // There is no power or sleep button, no wake-up, and C1 is HLT. The PM timer has 24 bits.
    let mut fadt = FADTBuilder::new(OEM, OEM_TABLE, OEM_REVISION)
        .preferred_pm_profile(PmProfile::Desktop)
        .firmware_ctrl_32(facs)
        .dsdt_64(dsdt.into())
        .flag(Flags::Wbinvd)
        .flag(Flags::ProcC1)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::FixRtc)
        .flag(Flags::ResetRegSup);
    fadt.dsdt = dsdt.into();
    fadt.sci_int = u16::from(layout::SCI_IRQ).into();
    fadt.pm1a_evt_blk = u32::from(layout::PM1A_EVENT).into();
    fadt.pm1a_cnt_blk = u32::from(layout::PM1A_CONTROL).into();
    fadt.pm_tmr_blk = u32::from(layout::PM_TIMER).into();
    fadt.pm1_evt_len = 4;
    fadt.pm1_cnt_len = 2;
    fadt.pm_tmr_len = 4;
    fadt.x_pm1a_evt_blk = port(32, AccessSize::WordAccess, layout::PM1A_EVENT);
    fadt.x_pm1a_cnt_blk = port(16, AccessSize::WordAccess, layout::PM1A_CONTROL);
    fadt.x_pm_tmr_blk = port(32, AccessSize::DwordAccess, layout::PM_TIMER);
    fadt.p_lvl2_lat = NO_C2.into();
    fadt.p_lvl3_lat = NO_C3.into();
    fadt.century = layout::RTC_CENTURY;
    let no_vga = if config.vga { 0 } else { VGA_NOT_PRESENT };
    fadt.iapc_boot_arch = (LEGACY_DEVICES | KEYBOARD_CONTROLLER | no_vga).into();
    fadt.reset_reg = port(8, AccessSize::ByteAccess, layout::RESET);
    fadt.reset_value = layout::RESET_VALUE;
    let mut bytes = Vec::new();
    fadt.finalize().to_aml_bytes(&mut bytes);
    bytes
}

/// Interrupt controllers (ACPI 5.2.12). The crate's own builder knows no overrides and no NMI pins.
fn madt(cpus: u32) -> Vec<u8> {
    const PCAT_COMPAT: u32 = 1;
    const ENABLED: u32 = 1;
    /// Of an override: as the bus has it; active high and level.
    const CONFORMS: u16 = 0;
    const HIGH_LEVEL: u16 = 0b1101;
    const ALL_CPUS: u8 = 0xff;
    let mut sdt = Sdt::new(*b"APIC", 36, 4, OEM, OEM_TABLE, OEM_REVISION);
    sdt.append_slice(&(layout::LAPIC as u32).to_le_bytes());
    sdt.append_slice(&PCAT_COMPAT.to_le_bytes());
    for cpu in 0..cpus {
        sdt.append_slice(&[0, 8, cpu as u8, cpu as u8]);
        sdt.append_slice(&ENABLED.to_le_bytes());
    }
    sdt.append_slice(&[1, 12, 0, 0]);
    sdt.append_slice(&(layout::IOAPIC as u32).to_le_bytes());
    sdt.append_slice(&0u32.to_le_bytes());
    for (irq, gsi, flags) in [
        (layout::PIT_IRQ, layout::PIT_GSI, CONFORMS),
        (layout::SCI_IRQ, layout::SCI_IRQ.into(), HIGH_LEVEL),
    ] {
        sdt.append_slice(&[2, 10, 0, irq]);
        sdt.append_slice(&gsi.to_le_bytes());
        sdt.append_slice(&flags.to_le_bytes());
    }
    let [low, high] = CONFORMS.to_le_bytes();
    sdt.append_slice(&[4, 6, ALL_CPUS, low, high, 1]);
    sdt.as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::u64_at;
    use std::path::Path;
    use std::process::Command;

    const ADDRESS: u64 = 0x7ff_0000;

    fn built(cpus: u32) -> AcpiTables {
        tables(&AcpiConfig { cpus, vga: true }).unwrap()
    }

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u64_at(bytes, at).unwrap() as u32
    }

    /// The table at an address, by its own length.
    fn table(tables: &[u8], address: u64) -> &[u8] {
        let at = (address - ADDRESS) as usize;
        &tables[at..][..u32_at(tables, at + 4) as usize]
    }

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    /// All tables but the FACS, found as a kernel finds them.
    fn walk(rsdp: &[u8], tables: &[u8]) -> Vec<Vec<u8>> {
        assert_eq!((&rsdp[..8], rsdp.len()), (b"RSD PTR ".as_slice(), 36));
        assert_eq!((sum(&rsdp[..20]), sum(rsdp)), (0, 0));
        let rsdt = table(tables, u32_at(rsdp, 16).into());
        let xsdt = table(tables, u64_at(rsdp, 24).unwrap());
        let by_rsdt: Vec<u64> = rsdt[36..]
            .chunks(4)
            .map(|c| u64::from(u32::from_le_bytes(c.try_into().unwrap())))
            .collect();
        let by_xsdt: Vec<u64> = xsdt[36..]
            .chunks(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
            .collect();
        assert_eq!(by_rsdt, by_xsdt);
        let fadt = table(tables, by_xsdt[0]);
        assert_eq!(u64::from(u32_at(fadt, 40)), u64_at(fadt, 140).unwrap());
        let facs = table(tables, u32_at(fadt, 36).into());
        assert_eq!((&facs[..4], facs.len()), (b"FACS".as_slice(), 64));
        assert_eq!(u32_at(fadt, 36) % 64, 0);
        let dsdt = table(tables, u32_at(fadt, 40).into());
        let all = [rsdt, xsdt, fadt, table(tables, by_xsdt[1]), dsdt];
        for (table, signature) in all.iter().zip([b"RSDT", b"XSDT", b"FACP", b"APIC", b"DSDT"]) {
            assert_eq!((&table[..4], sum(table)), (signature.as_slice(), 0));
        }
        all.iter().map(|table| table.to_vec()).collect()
    }

    #[test]
    fn placed_tables_are_found_and_sum_up() {
        for cpus in [1, 4, MAX_CPUS] {
            let (rsdp, tables) = built(cpus).place(ADDRESS);
            assert!(tables.len() as u64 <= layout::ACPI_SIZE);
            let madt = &walk(&rsdp, &tables)[3];
            let mut rest = &madt[44..];
            let mut found = [0; 5];
            while let [kind, size, ..] = *rest {
                found[usize::from(kind)] += 1;
                rest = &rest[usize::from(size)..];
            }
            assert_eq!(found, [cpus, 1, 2, 0, 1]);
        }
        for cpus in [0, MAX_CPUS + 1, u32::MAX] {
            let error = tables(&AcpiConfig { cpus, vga: false });
            assert!(matches!(error, Err(FirmwareError::Machine { .. })));
        }
    }

    /// What a BIOS makes of the script must be what placing makes.
    #[test]
    fn the_loader_script_says_what_placing_does() {
        let built = built(2);
        let files: Vec<(String, Vec<u8>)> = built.files();
        let script = &files
            .iter()
            .find(|(name, _)| name == "etc/table-loader")
            .unwrap()
            .1;
        assert_eq!(script.len() % 128, 0);
        let mut blocks = [files[0].clone(), files[1].clone()];
        let name_at = |entry: &[u8], at: usize| {
            let name: Vec<u8> = entry[at..at + 56]
                .iter()
                .copied()
                .take_while(|b| *b != 0)
                .collect();
            String::from_utf8(name).unwrap()
        };
        let mut allocated = Vec::new();
        for entry in script.chunks(128) {
            let name = name_at(entry, 4);
            let block = &mut blocks.iter_mut().find(|(n, _)| *n == name).unwrap().1;
            match u32_at(entry, 0) {
                1 => allocated.push((name, u32_at(entry, 60), entry[64])),
                2 => {
                    assert_eq!(name_at(entry, 60), "etc/acpi/tables");
                    let (at, size) = (u32_at(entry, 116) as usize, usize::from(entry[120]));
                    let mut value = [0; 8];
                    value[..size].copy_from_slice(&block[at..at + size]);
                    let value = u64::from_le_bytes(value) + ADDRESS;
                    block[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
                }
                3 => {
                    let [at, start, size] = [60, 64, 68].map(|at| u32_at(entry, at) as usize);
                    let sum = sum(&block[start..start + size]);
                    block[at] = block[at].wrapping_sub(sum);
                }
                other => panic!("command {other}"),
            }
        }
        let expected = [("etc/acpi/rsdp", 16, 2), ("etc/acpi/tables", 64, 1)];
        assert_eq!(
            allocated,
            expected.map(|(name, align, zone)| (name.to_string(), align, zone))
        );
        let (rsdp, tables) = built.place(ADDRESS);
        assert_eq!([&blocks[0].1, &blocks[1].1], [&rsdp, &tables]);
    }

    /// Runs ACPICA's compiler in `folder`; what it says, or nothing if it isn't there.
    fn iasl(folder: &Path, arguments: &[&str]) -> Option<String> {
        let output = Command::new("iasl").args(arguments).current_dir(folder).output();
        let Ok(output) = output else {
            eprintln!("SKIPPED: iasl is not installed");
            return None;
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{said}");
        Some(said)
    }

    #[test]
    fn acpica_reads_every_table_without_complaint() {
        let folder = tempfile::tempdir().unwrap();
        let (rsdp, tables) = built(2).place(ADDRESS);
        let mut sources = std::collections::BTreeMap::new();
        for table in walk(&rsdp, &tables) {
            let name = String::from_utf8_lossy(&table[..4]).to_lowercase();
            std::fs::write(folder.path().join(format!("{name}.dat")), &table).unwrap();
            let Some(said) = iasl(folder.path(), &["-d", &format!("{name}.dat")]) else {
                return;
            };
            let source = std::fs::read_to_string(folder.path().join(format!("{name}.dsl"))).unwrap();
            for bad in ["Warning", "Error", "Invalid", "**** ", "Unknown"] {
                assert!(!said.contains(bad) && !source.contains(bad), "{said}\n{source}");
            }
            sources.insert(name, source);
        }
        let said = iasl(folder.path(), &["dsdt.dsl"]).unwrap();
        assert!(said.contains("0 Errors, 0 Warnings"), "{said}");
        let contains = |table: &str, lines: &[&str]| {
            for line in lines {
                assert!(
                    sources[table].contains(line),
                    "{line} is missing in\n{}",
                    sources[table]
                );
            }
        };
        contains(
            "facp",
            &[
                "SCI Interrupt : 0009",
                "SMI Command Port : 00000000",
                "PM1A Control Block Address : 00000604",
                "PM Timer Block Address : 00000608",
                "RTC Century Index : 32",
                "Value to cause reset : 06",
                "Reset Register Supported (V2) : 1",
                "Hardware Reduced (V5) : 0",
                "8042 Present on ports 60/64 (V2) : 1",
            ],
        );
        contains(
            "apic",
            &[
                "Local Apic Address : FEE00000",
                "Address : FEC00000",
                "PC-AT Compatibility : 1",
            ],
        );
        contains(
            "dsdt",
            &[
                "Name (_S5, Package (0x04)",
                "Method (_PRT, 0, Serialized)",
                "OperationRegion (PIRQ, PCI_Config, 0x60, 0x04)",
                "Name (_HID, EisaId (\"PNP0A03\")",
                "0x03F8,",
            ],
        );
    }
}
