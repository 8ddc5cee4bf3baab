//! The flattened device tree of the RISC-V board: QEMU `virt`'s layout, so that kernels and firmware
//! built for that machine find everything.
//!
//! Invariants: every address comes from [`layout`]; phandle 1 + h is hart h's interrupt controller,
//! so the tree of a configuration is always the same bytes. Sources: Devicetree Specification 0.4; the
//! bindings under Linux Documentation/devicetree/bindings (riscv/cpus.yaml, riscv/extensions.yaml,
//! interrupt-controller/sifive,plic-1.0.0.yaml, timer/sifive,clint.yaml, ...).

use crate::{FirmwareError, layout};
use vm_fdt::FdtWriter;

/// The extensions of the default ISA, in the order of an ISA string.
pub const RISCV_EXTENSIONS: &[&str] = &[
    "i",
    "m",
    "a",
    "f",
    "d",
    "c",
    "zicboz",
    "zicntr",
    "zicsr",
    "zifencei",
    "zihintpause",
    "zihpm",
    "zba",
    "zbb",
    "zbs",
    "sstc",
    "svadu",
    "svinval",
    "svvptc",
];

/// Most harts that the CLINT's window and the tree can describe.
pub const MAX_HARTS: u32 = 512;

/// What the device tree says about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FdtConfig {
    /// Number of harts; their ids are 0 to `harts` - 1.
    pub harts: u32,
    /// Start of RAM.
    pub memory_base: u64,
    /// Size of RAM in bytes.
    pub memory_size: u64,
    /// ISA extensions in the order of an ISA string, single letters first.
    pub extensions: Vec<String>,
    /// The largest virtual address mode: `riscv,sv39`, `riscv,sv48` or `riscv,sv57`.
    pub mmu_type: String,
    /// The kernel's command line.
    pub cmdline: String,
    /// Physical start and end (exclusive) of the initial RAM disk.
    pub initrd: Option<(u64, u64)>,
    /// RAM that the kernel must neither use nor map, as (start, size): the built-in firmware.
    pub reserved: Vec<(u64, u64)>,
    /// Frequency of `time` in Hz.
    pub timebase_hz: u32,
    /// Input clock of the UART in Hz.
    pub uart_clock_hz: u32,
    /// Seed of the kernel's random pool.
    pub rng_seed: Option<[u8; 32]>,
}

impl FdtConfig {
    /// The default board: ISA, Sv57, clocks; no command line, initrd, reservation or seed.
    pub fn new(harts: u32, memory_size: u64) -> FdtConfig {
        FdtConfig {
            harts,
            memory_base: layout::RAM,
            memory_size,
            extensions: RISCV_EXTENSIONS.iter().map(|e| e.to_string()).collect(),
            mmu_type: "riscv,sv57".into(),
            cmdline: String::new(),
            initrd: None,
            reserved: Vec::new(),
            timebase_hz: layout::TIMEBASE_HZ,
            uart_clock_hz: layout::UART_CLOCK_HZ,
            rng_seed: None,
        }
    }

    /// The ISA string, such as `rv64imafdc_zicsr`.
    pub fn isa(&self) -> String {
        let (single, multi): (Vec<_>, Vec<_>) = self.extensions.iter().partition(|e| e.len() == 1);
        let mut isa = String::from("rv64");
        isa.extend(single.into_iter().map(String::as_str));
        for name in multi {
            isa.push('_');
            isa.push_str(name);
        }
        isa
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|e| e == extension)
    }

    fn check(&self) -> Result<(), FirmwareError> {
        let wrong = |what: String| Err(FirmwareError::Fdt { what });
        if self.harts == 0 || self.harts > MAX_HARTS {
            return wrong(format!("{} harts; 1 to {MAX_HARTS} are possible", self.harts));
        }
        if self.memory_base.checked_add(self.memory_size).is_none() {
            return wrong("RAM wraps around the address space".into());
        }
        if let Some((start, end)) = self.initrd.filter(|(start, end)| start > end) {
            return wrong(format!(
                "the initrd ends at {end:#x}, before its start {start:#x}"
            ));
        }
        Ok(())
    }
}

impl From<vm_fdt::Error> for FirmwareError {
    fn from(error: vm_fdt::Error) -> FirmwareError {
        FirmwareError::Fdt {
            what: error.to_string(),
        }
    }
}

const PHANDLE_HART: u32 = 1;
// Above the handles of all harts.
const PHANDLE_PLIC: u32 = 0x1001;
const PHANDLE_FINISHER: u32 = 0x1002;
const PHANDLE_CPU: u32 = 0x2000;

/// Interrupt numbers at a hart's own controller (mcause of the interrupt).
const M_SOFTWARE: u32 = 3;
const M_TIMER: u32 = 7;
const S_EXTERNAL: u32 = 9;
const M_EXTERNAL: u32 = 11;

/// The device tree blob of the board.
///
/// # Errors
/// The caller's configuration: no harts or too many, an initrd or RAM that ends before it starts, NUL bytes
/// in a string.
pub fn riscv_virt_fdt(config: &FdtConfig) -> Result<Vec<u8>, FirmwareError> {
    config.check()?;
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "riscv-virtio")?;
    fdt.property_string("model", "riscv-virtio,tickback")?;
    chosen(&mut fdt, config)?;
    aliases(&mut fdt)?;
    memory(&mut fdt, config)?;
    cpus(&mut fdt, config)?;
    power(&mut fdt, "poweroff", "syscon-poweroff", layout::FINISHER_PASS)?;
    power(&mut fdt, "reboot", "syscon-reboot", layout::FINISHER_RESET)?;
    soc(&mut fdt, config)?;
    fdt.end_node(root)?;
    Ok(fdt.finish()?)
}

type Written = Result<(), vm_fdt::Error>;

fn chosen(fdt: &mut FdtWriter, config: &FdtConfig) -> Written {
    let node = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", &config.cmdline)?;
    fdt.property_string("stdout-path", &serial_path())?;
    if let Some((start, end)) = config.initrd {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    if let Some(seed) = config.rng_seed {
        fdt.property("rng-seed", &seed)?;
    }
    fdt.end_node(node)
}

fn aliases(fdt: &mut FdtWriter) -> Written {
    let node = fdt.begin_node("aliases")?;
    fdt.property_string("serial0", &serial_path())?;
    fdt.end_node(node)
}

fn serial_path() -> String {
    format!("/soc/serial@{:x}", layout::UART)
}

fn memory(fdt: &mut FdtWriter, config: &FdtConfig) -> Written {
    let node = fdt.begin_node(&format!("memory@{:x}", config.memory_base))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[config.memory_base, config.memory_size])?;
    fdt.end_node(node)?;
    if config.reserved.is_empty() {
        return Ok(());
    }
    let node = fdt.begin_node("reserved-memory")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_null("ranges")?;
    for &(start, size) in &config.reserved {
        let area = fdt.begin_node(&format!("firmware@{start:x}"))?;
        fdt.property_array_u64("reg", &[start, size])?;
        fdt.property_null("no-map")?;
        fdt.end_node(area)?;
    }
    fdt.end_node(node)
}

fn cpus(fdt: &mut FdtWriter, config: &FdtConfig) -> Written {
    let cpus = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    fdt.property_u32("timebase-frequency", config.timebase_hz)?;
    for hart in 0..config.harts {
        let cpu = fdt.begin_node(&format!("cpu@{hart:x}"))?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_u32("reg", hart)?;
        fdt.property_string("status", "okay")?;
        fdt.property_string("compatible", "riscv")?;
        fdt.property_string("riscv,isa", &config.isa())?;
        fdt.property_string("riscv,isa-base", "rv64i")?;
        fdt.property_string_list("riscv,isa-extensions", config.extensions.clone())?;
        fdt.property_string("mmu-type", &config.mmu_type)?;
        for (extension, property) in [
            ("zicboz", "riscv,cboz-block-size"),
            ("zicbom", "riscv,cbom-block-size"),
            ("zicbop", "riscv,cbop-block-size"),
        ] {
            if config.has(extension) {
                fdt.property_u32(property, layout::CACHE_BLOCK)?;
            }
        }
        fdt.property_phandle(PHANDLE_CPU + hart)?;
        let controller = fdt.begin_node("interrupt-controller")?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_string("compatible", "riscv,cpu-intc")?;
        fdt.property_phandle(PHANDLE_HART + hart)?;
        fdt.end_node(controller)?;
        fdt.end_node(cpu)?;
    }
    let map = fdt.begin_node("cpu-map")?;
    let cluster = fdt.begin_node("cluster0")?;
    for hart in 0..config.harts {
        let core = fdt.begin_node(&format!("core{hart}"))?;
        fdt.property_u32("cpu", PHANDLE_CPU + hart)?;
        fdt.end_node(core)?;
    }
    fdt.end_node(cluster)?;
    fdt.end_node(map)?;
    fdt.end_node(cpus)
}

fn power(fdt: &mut FdtWriter, name: &str, compatible: &str, value: u32) -> Written {
    let node = fdt.begin_node(name)?;
    fdt.property_string("compatible", compatible)?;
    fdt.property_u32("regmap", PHANDLE_FINISHER)?;
    fdt.property_u32("offset", 0)?;
    fdt.property_u32("value", value)?;
    fdt.end_node(node)
}

fn soc(fdt: &mut FdtWriter, config: &FdtConfig) -> Written {
    let soc = fdt.begin_node("soc")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "simple-bus")?;
    fdt.property_null("ranges")?;

    let lines = |first: u32, second: u32| -> Vec<u32> {
        let hart = |h| [PHANDLE_HART + h, first, PHANDLE_HART + h, second];
        (0..config.harts).flat_map(hart).collect()
    };
    let node = device(fdt, "clint", layout::CLINT, layout::CLINT_SIZE)?;
    strings(fdt, "compatible", &["sifive,clint0", "riscv,clint0"])?;
    fdt.property_array_u32("interrupts-extended", &lines(M_SOFTWARE, M_TIMER))?;
    fdt.end_node(node)?;

    let node = device(fdt, "plic", layout::PLIC, layout::PLIC_SIZE)?;
    strings(fdt, "compatible", &["sifive,plic-1.0.0", "riscv,plic0"])?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_null("interrupt-controller")?;
    // Contexts: machine, then supervisor, of each hart.
    fdt.property_array_u32("interrupts-extended", &lines(M_EXTERNAL, S_EXTERNAL))?;
    fdt.property_u32("riscv,ndev", layout::PLIC_SOURCES)?;
    fdt.property_phandle(PHANDLE_PLIC)?;
    fdt.end_node(node)?;

    let node = device(fdt, "test", layout::FINISHER, layout::FINISHER_SIZE)?;
    strings(fdt, "compatible", &["sifive,test1", "sifive,test0", "syscon"])?;
    fdt.property_phandle(PHANDLE_FINISHER)?;
    fdt.end_node(node)?;

    let node = device(fdt, "rtc", layout::RTC, layout::RTC_SIZE)?;
    fdt.property_string("compatible", "google,goldfish-rtc")?;
    interrupt(fdt, layout::RTC_IRQ)?;
    fdt.end_node(node)?;

    let node = device(fdt, "serial", layout::UART, layout::UART_SIZE)?;
    fdt.property_string("compatible", "ns16550a")?;
    fdt.property_u32("clock-frequency", config.uart_clock_hz)?;
    interrupt(fdt, layout::UART_IRQ)?;
    fdt.end_node(node)?;

    for n in 0..layout::VIRTIO_COUNT {
        let address = layout::VIRTIO + u64::from(n) * layout::VIRTIO_STRIDE;
        let node = device(fdt, "virtio_mmio", address, layout::VIRTIO_STRIDE)?;
        fdt.property_string("compatible", "virtio,mmio")?;
        interrupt(fdt, layout::VIRTIO_IRQ + n)?;
        fdt.end_node(node)?;
    }
    fdt.end_node(soc)
}

/// Opens a device's node and writes its `reg`.
fn device(
    fdt: &mut FdtWriter,
    name: &str,
    address: u64,
    size: u64,
) -> Result<vm_fdt::FdtWriterNode, vm_fdt::Error> {
    let node = fdt.begin_node(&format!("{name}@{address:x}"))?;
    fdt.property_array_u64("reg", &[address, size])?;
    Ok(node)
}

fn interrupt(fdt: &mut FdtWriter, source: u32) -> Written {
    fdt.property_u32("interrupt-parent", PHANDLE_PLIC)?;
    fdt.property_u32("interrupts", source)
}

fn strings(fdt: &mut FdtWriter, name: &str, values: &[&str]) -> Written {
    fdt.property_string_list(name, values.iter().map(|v| v.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn config() -> FdtConfig {
        FdtConfig {
            cmdline: "console=ttyS0".into(),
            initrd: Some((0x8800_0000, 0x8810_0000)),
            reserved: vec![(layout::RAM, 0x8_0000)],
            rng_seed: Some([7; 32]),
            ..FdtConfig::new(2, 1 << 30)
        }
    }

    /// The source that dtc makes of a blob; nothing without dtc. A warning of dtc is a failure.
    fn dtc(blob: &[u8]) -> Option<String> {
        let child = Command::new("dtc")
            .args(["-I", "dtb", "-O", "dts", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("SKIPPED: dtc is not installed");
            return None;
        };
        child.stdin.take().unwrap().write_all(blob).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn dtc_accepts_the_tree_and_finds_the_machine_in_it() {
        let Some(source) = dtc(&riscv_virt_fdt(&config()).unwrap()) else {
            return;
        };
        for line in [
            "bootargs = \"console=ttyS0\";",
            "stdout-path = \"/soc/serial@10000000\";",
            "linux,initrd-start = <0x00 0x88000000>;",
            "linux,initrd-end = <0x00 0x88100000>;",
            "timebase-frequency = <0x989680>;",
            "mmu-type = \"riscv,sv57\";",
            "riscv,cboz-block-size = <0x40>;",
            "reg = <0x00 0x80000000 0x00 0x40000000>;",
            "firmware@80000000 {",
            "interrupts-extended = <0x01 0x03 0x01 0x07 0x02 0x03 0x02 0x07>;",
            "interrupts-extended = <0x01 0x0b 0x01 0x09 0x02 0x0b 0x02 0x09>;",
            "compatible = \"sifive,test1\\0sifive,test0\\0syscon\";",
            "virtio_mmio@10008000 {",
        ] {
            assert!(source.contains(line), "{line} is missing in\n{source}");
        }
        let isa = "riscv,isa = \"rv64imafdc_zicboz_zicntr_zicsr_zifencei_zihintpause_zihpm_zba_zbb_zbs\
                   _sstc_svadu_svinval_svvptc\";";
        assert!(source.contains(isa), "{isa} is missing in\n{source}");
    }

    #[test]
    fn a_configuration_is_always_the_same_bytes() {
        assert_eq!(riscv_virt_fdt(&config()), riscv_virt_fdt(&config()));
        assert_ne!(
            riscv_virt_fdt(&config()),
            riscv_virt_fdt(&FdtConfig::new(2, 1 << 30))
        );
    }

    #[test]
    fn impossible_configurations_are_refused() {
        for wrong in [
            FdtConfig::new(0, 1 << 30),
            FdtConfig::new(MAX_HARTS + 1, 1 << 30),
            FdtConfig::new(1, u64::MAX),
            FdtConfig {
                initrd: Some((2, 1)),
                ..config()
            },
            FdtConfig {
                cmdline: "a\0b".into(),
                ..config()
            },
        ] {
            assert!(
                matches!(riscv_virt_fdt(&wrong), Err(FirmwareError::Fdt { .. })),
                "{wrong:?}"
            );
        }
        assert!(riscv_virt_fdt(&FdtConfig::new(MAX_HARTS, 1 << 30)).is_ok());
    }
}
