//! The DSDT: in ACPI's own byte code, what is on the board and can't be asked.
//!
//! Soft-off; the PCI host bridge with its windows and its interrupt routing; behind the ISA bridge the
//! interrupt links, serial ports, keyboard, mouse, clock, and the ports that nobody else may take.
//!
//! PCI interrupts go two ways. With the I/O APIC, the pins of device d are wired to global interrupts 16 to
//! 23; with the 8259s, to the four links, which the ISA bridge routes. The kernel says by `_PIC` which it
//! uses. Source: ACPI 6.5, 6.2.13 (`_PRT`), 19 and 20.

use super::{acpi, layout};
use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, And, Arg, CreateDWordField, Device, EISAName, Equal, Field,
    FieldAccessType, FieldEntry, FieldLockRule, FieldUpdateRule, IO, If, Interrupt, Method, Name, OpRegion,
    OpRegionSpace, Or, Package, Path, ResourceTemplate, Return, Scope, Store, ZERO,
};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, AmlSink};

/// The table, with a checksum.
pub(super) fn dsdt() -> Vec<u8> {
    // Revision 2: integers have 64 bits.
    let mut sdt = Sdt::new(*b"DSDT", 36, 2, acpi::OEM, acpi::OEM_TABLE, acpi::OEM_REVISION);
    let mut aml = Vec::new();
    let s5 = layout::SLP_TYP_S5;
    name(&mut aml, "_S5_", &Package::new(vec![&s5, &s5, &ZERO, &ZERO]));
    name(&mut aml, "PICF", &ZERO);
    method(&mut aml, "_PIC", 1, |body| {
        put(body, &Store::new(&Path::new("PICF"), &Arg(0)))
    });
    let buses = Raw::new(|aml| {
        device(aml, "PCI0", |aml| {
            name(aml, "_HID", &EISAName::new("PNP0A03"));
            name(aml, "_UID", &ZERO);
            windows(aml);
            routing(aml);
            device(aml, "ISA_", isa_bridge);
        });
        links(aml);
    });
    put(&mut aml, &Scope::new("_SB_".into(), vec![&buses]));
    sdt.append_slice(&aml);
    sdt.as_slice().to_vec()
}

fn put(aml: &mut Vec<u8>, item: &dyn Aml) {
    item.to_aml_bytes(aml);
}

fn name(aml: &mut Vec<u8>, path: &str, value: &dyn Aml) {
    put(aml, &Name::new(path.into(), value));
}

fn device(aml: &mut Vec<u8>, path: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    put(aml, &Device::new(path.into(), vec![&Raw::new(fill)]));
}

/// A method; always serialized, since those that make names have to be.
fn method(aml: &mut Vec<u8>, path: &str, arguments: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    put(
        aml,
        &Method::new(path.into(), arguments, true, vec![&Raw::new(fill)]),
    );
}

/// What the host bridge forwards: all buses, ports and addresses that aren't the board's own.
fn windows(aml: &mut Vec<u8>) {
    let memory = |start: u64, last: u64, cacheable| {
        AddressSpace::new_memory(cacheable, true, start as u32, last as u32, None)
    };
    name(
        aml,
        "_CRS",
        &ResourceTemplate::new(vec![
            &AddressSpace::new_bus_number(0u16, 0xff),
            &IO::new(layout::PCI_CONFIG_ADDRESS, layout::PCI_CONFIG_ADDRESS, 1, 8),
            &AddressSpace::new_io(0u16, layout::PCI_CONFIG_ADDRESS - 1, None),
            &AddressSpace::new_io(layout::PCI_CONFIG_ADDRESS + 8, 0xffff, None),
            &memory(layout::VGA, layout::VGA_END - 1, AddressSpaceCacheable::Cacheable),
            &memory(
                layout::PCI_MEMORY,
                layout::PCI_MEMORY_LAST,
                AddressSpaceCacheable::NotCacheable,
            ),
        ]),
    );
}

/// `_PRT`: for each device and pin, an interrupt link, or a global interrupt.
fn routing(aml: &mut Vec<u8>) {
    let package = |entry: &dyn Fn(u8, u8, &mut Vec<u8>)| {
        let pins = (0..32u8).flat_map(|device| (0..4u8).map(move |pin| (device, pin)));
        let entries: Vec<Raw> = pins
            .map(|(device, pin)| Raw::new(|aml| entry(device, pin, aml)))
            .collect();
        Raw::new(|aml| {
            put(
                aml,
                &Package::new(entries.iter().map(|e| e as &dyn Aml).collect()),
            )
        })
    };
    let address = |device: u8| u32::from(device) << 16 | 0xffff;
    let by_link = package(&|device, pin, aml| {
        let link = Path::new(LINKS[usize::from(layout::pci_link(device, pin))].name);
        put(aml, &Package::new(vec![&address(device), &pin, &link, &ZERO]));
    });
    let by_gsi = package(&|device, pin, aml| {
        let gsi = layout::pci_gsi(device, pin);
        put(aml, &Package::new(vec![&address(device), &pin, &ZERO, &gsi]));
    });
    name(aml, "PRTL", &by_link);
    name(aml, "PRTG", &by_gsi);
    method(aml, "_PRT", 0, |body| {
        let flag = Path::new("PICF");
        put(
            body,
            &If::new(&Equal::new(&flag, &ZERO), vec![&Return::new(&Path::new("PRTL"))]),
        );
        put(body, &Return::new(&Path::new("PRTG")));
    });
}

/// An interrupt link and its register in the ISA bridge's configuration.
struct Link {
    name: &'static str,
    register: &'static str,
}

const LINKS: [Link; 4] = [
    Link {
        name: "LNKA",
        register: "PRQA",
    },
    Link {
        name: "LNKB",
        register: "PRQB",
    },
    Link {
        name: "LNKC",
        register: "PRQC",
    },
    Link {
        name: "LNKD",
        register: "PRQD",
    },
];

/// The interrupts that a link can be routed to: those that no ISA device has.
const LINK_CHOICES: [u8; 3] = [5, 10, 11];

/// The registers are those of the ISA bridge, but links are devices of the system bus.
fn links(aml: &mut Vec<u8>) {
    let field = |link: &Link| {
        let mut name = [0; 4];
        name.copy_from_slice(link.register.as_bytes());
        FieldEntry::Named(name, 8)
    };
    put(
        aml,
        &Field::new(
            "PCI0.ISA_.PIRQ".into(),
            FieldAccessType::Byte,
            FieldLockRule::NoLock,
            FieldUpdateRule::Preserve,
            LINKS.iter().map(field).collect(),
        ),
    );
    for (n, link) in (0u8..).zip(&LINKS) {
        device(aml, link.name, |aml| link_device(n, link, aml));
    }
}

fn link_device(number: u8, link: &Link, aml: &mut Vec<u8>) {
    /// Offset of the number in an interrupt descriptor (ACPI 6.4.3.6).
    const NUMBER: u8 = 5;
    const PRESENT_OFF: u8 = 0b1001;
    const PRESENT_ON: u8 = 0b1011;
    const OFF: u8 = layout::PCI_LINK_OFF;
    let (register, buffer, irq) = (Path::new(link.register), Path::new("BUFF"), Path::new("IRQN"));
    let off_bit = And::new(&ZERO, &register, &OFF);
    name(aml, "_HID", &EISAName::new("PNP0C0F"));
    name(aml, "_UID", &number);
    name(aml, "_PRS", &ResourceTemplate::new(vec![&Choices(&LINK_CHOICES)]));
    method(aml, "_STA", 0, |body| {
        put(body, &If::new(&off_bit, vec![&Return::new(&PRESENT_OFF)]));
        put(body, &Return::new(&PRESENT_ON));
    });
    method(aml, "_DIS", 0, |body| {
        put(body, &Or::new(&register, &register, &OFF))
    });
    // A template with the register's number, or with none.
    method(aml, "_CRS", 0, |body| {
        name(
            body,
            "BUFF",
            &ResourceTemplate::new(vec![&Interrupt::new(true, false, false, true, 0)]),
        );
        put(body, &CreateDWordField::new(&irq, &buffer, &NUMBER));
        let is_on = Equal::new(&off_bit, &ZERO);
        put(body, &If::new(&is_on, vec![&Store::new(&irq, &register)]));
        put(body, &Return::new(&buffer));
    });
    method(aml, "_SRS", 1, |body| {
        put(body, &CreateDWordField::new(&irq, &Arg(0), &NUMBER));
        put(body, &Store::new(&register, &irq));
    });
}

/// The ISA bridge and what is behind it.
fn isa_bridge(aml: &mut Vec<u8>) {
    const LINKS_SIZE: u8 = LINKS.len() as u8;
    name(aml, "_ADR", &(u32::from(layout::PCI_ISA_BRIDGE) << 16));
    put(
        aml,
        &OpRegion::new(
            "PIRQ".into(),
            OpRegionSpace::PCIConfig,
            &layout::PCI_LINKS,
            &LINKS_SIZE,
        ),
    );
    let io = |port: u16, size: u8| IO::new(port, port, 1, size);
    isa(
        aml,
        "RTC_",
        "PNP0B00",
        0,
        vec![&io(layout::RTC, 2), &Irq(layout::RTC_IRQ)],
    );
    isa(
        aml,
        "KBD_",
        "PNP0303",
        0,
        vec![
            &io(layout::I8042_DATA, 1),
            &io(layout::I8042_COMMAND, 1),
            &Irq(layout::KEYBOARD_IRQ),
        ],
    );
    isa(aml, "MOU_", "PNP0F13", 0, vec![&Irq(layout::MOUSE_IRQ)]);
    isa(
        aml,
        "COM1",
        "PNP0501",
        1,
        vec![&io(layout::COM1, 8), &Irq(layout::COM1_IRQ)],
    );
    isa(
        aml,
        "COM2",
        "PNP0501",
        2,
        vec![&io(layout::COM2, 8), &Irq(layout::COM2_IRQ)],
    );
    // Motherboard resources, so that no PCI device is put there.
    isa(
        aml,
        "BRD_",
        "PNP0C02",
        0,
        vec![&io(layout::PM, layout::PM_SIZE as u8), &io(layout::FW_CFG, 12)],
    );
}

fn isa(aml: &mut Vec<u8>, path: &str, id: &str, unit: u8, resources: Vec<&dyn Aml>) {
    device(aml, path, |aml| {
        name(aml, "_HID", &EISAName::new(id));
        name(aml, "_UID", &unit);
        name(aml, "_CRS", &ResourceTemplate::new(resources));
    });
}

/// Byte code made elsewhere.
struct Raw(Vec<u8>);

impl Raw {
    fn new(fill: impl FnOnce(&mut Vec<u8>)) -> Raw {
        let mut bytes = Vec::new();
        fill(&mut bytes);
        Raw(bytes)
    }
}

impl Aml for Raw {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        sink.vec(&self.0);
    }
}

/// An ISA interrupt: edge, active high, not shared (ACPI 6.4.2.1, the short form).
struct Irq(u8);

impl Aml for Irq {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        sink.byte(0x22);
        sink.word(1 << self.0);
    }
}

/// One of these interrupts: level, active high, shared (ACPI 6.4.3.6).
struct Choices(&'static [u8]);

impl Aml for Choices {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        const CONSUMER_SHARED: u8 = 1 << 3 | 1;
        sink.byte(0x89);
        sink.word(2 + 4 * self.0.len() as u16);
        sink.byte(CONSUMER_SHARED);
        sink.byte(self.0.len() as u8);
        for &number in self.0 {
            sink.dword(number.into());
        }
    }
}
