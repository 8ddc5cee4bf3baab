//! The board `pc`: an i440FX with a PIIX3, which every BIOS and every x86 operating system since knows, so that
//! SeaBIOS and Debian's kernel run unmodified. Its map is [`firmware::x86::layout`]'s.
//!
//! At 0xc0000 to 0xfffff there is RAM, the end of the BIOS or the PCI bus, as the host bridge's PAM registers say; a machine
//! that starts without a BIOS finds RAM there. What is above the BIOS's size in the last 4 MiB below 4 GiB reads as zero.
//!
//! Drives are virtio block devices on PCI (`/dev/vda` of Linux), behind them come network cards and the virtio console;
//! a CD-ROM drive is an ATAPI device on the second IDE
//! channel.

use cpu::Cpu;
use cpu::x86_64::hart::{
    Hart, HartConfig, LAYOUT, PIN_A20M, PIN_EXTERNAL, PIN_IGNNE, PIN_INIT, PIN_LOCAL, PIN_NMI, PIN_STARTUP,
    Start,
};

use devices::pc::{Cmos, Coprocessor, FwCfg, I8042, Interrupts, Pit, Pm, TestDev, Vga};
use devices::pc::{cmos, coprocessor, fw_cfg, i8042, interrupts, pit, pm, testdev, vga};
use devices::virtio::{PciTransport, Rng, VirtioDevice};
use devices::{HartPin, Ide, Pci, Shadow, Uart, ide, pci};
use firmware::x86::fw_cfg::{BiosConfig, bios_items};
use firmware::x86::layout;

use super::{Board, Devices, Role, seed_bytes};
use crate::config::{Config, StartMode};
use crate::ram::Region;
use crate::shadow;
use crate::wiring::{Local, Window};

pub(super) const BOARD: Board = Board {
    name: "pc",
    // Cards of the PCI bus, but for the entropy source.
    cards: pci::MAX_CARDS - 1,
    display: true,
    regions,
    devices,
    lines: layout::IOAPIC_INPUTS as usize,
    hart,
    // A hart knows where a loader has it begin.
    start: |cpu, start| cpu.reset(start.pc),
    layout: &LAYOUT,
};

/// COM1's and COM2's ports and lines.
const SERIAL: [(u64, u32); 2] = [(0x3f8, 4), (0x2f8, 3)];

fn regions(config: &Config) -> Vec<Region> {
    let low = config.memory.min(layout::LOW_RAM_MAX);
    let mut regions = vec![
        Region::ram(0, layout::VGA),
        Region::ram(layout::SHADOW, low - layout::SHADOW),
    ];
    if config.memory > low {
        regions.push(Region::ram(layout::HIGH_RAM, config.memory - low));
    }
    regions.push(Region {
        base: layout::BIOS_END - layout::BIOS_MAX,
        len: layout::BIOS_MAX,
        rom: true,
    });
    regions
}

fn hart(config: &Config, id: u8) -> Box<dyn Cpu> {
    let mut hart = Hart::new(HartConfig {
        id: id.into(),
        harts: config.harts.len() as u32,
        seed: config.seed,
    });
    let gdt = (layout::GDT, layout::GDT_SIZE - 1);
    let start = &config.harts[usize::from(id)];
    match start.mode {
        StartMode::Board => {}
        StartMode::Protected => hart.start(Start::Protected32 {
            eip: start.pc as u32,
            eax: start.args[0] as u32,
            ebx: start.args[1] as u32,
            esi: 0,
            esp: start.args[2] as u32,
            gdt: (gdt.0 as u32, gdt.1),
        }),
        StartMode::Long => hart.start(Start::Long64 {
            rip: start.pc,
            rsi: start.args[0],
            rsp: start.args[1],
            cr3: start.args[2],
            gdt,
        }),
    }
    Box::new(hart)
}

fn devices(config: &Config) -> Devices {
    let harts = config.harts.len() as u32;
    let mut board = Devices::new(pin_number);
    interrupt_controllers(&mut board, harts);
    let timer = board.add(Box::new(Pit::new(layout::PIT_IRQ.into())));
    ports(&mut board, timer, layout::PIT.into(), 4, pit::COUNTERS);
    ports(&mut board, timer, 0x61, 1, pit::PORT_61);
    let low = config.memory.min(layout::LOW_RAM_MAX);
    let contents = cmos::Contents {
        low_memory: low,
        high_memory: config.memory - low,
        // The CD-ROM first, as whoever gives one wants it.
        boot_order: if config.cdrom.is_some() {
            [3, 2, 0]
        } else {
            [2, 3, 0]
        },
        harts,
    };
    let clock = board.add(Box::new(Cmos::new(8, config.date_ns, &contents)));
    ports(&mut board, clock, 0x70, 2, cmos::PORTS);
    let power = board.add(Box::new(Pm::new(layout::SCI_IRQ.into())));
    ports(&mut board, power, layout::PM.into(), pm::PM1_SIZE, pm::PM1);
    ports(&mut board, power, layout::RESET.into(), 1, pm::RESET_CONTROL);
    let keyboard = board.add(Box::new(I8042::new()));
    ports(&mut board, keyboard, i8042::DATA_PORT.into(), 1, i8042::DATA);
    ports(&mut board, keyboard, i8042::STATUS_PORT.into(), 1, i8042::STATUS);
    ports(&mut board, keyboard, 0x92, 1, i8042::PORT_92);
    board.wiring.keyboard = Some(keyboard);
    let errors = board.add(Box::new(Coprocessor::new(harts)));
    ports(&mut board, errors, 0xf0, 1, coprocessor::PORT);
    board.wiring.numeric_error = Some((errors, coprocessor::FERR));
    for (port, (base, line)) in (0u8..).zip(SERIAL) {
        let uart = board.add(Box::new(Uart::new(line, port)));
        ports(&mut board, uart, base, 8, 0);
        board.wiring.consoles.push(uart);
    }
    display(&mut board);
    let (items, files) = configuration(config);
    let configuration = board.add(Box::new(FwCfg::new(items, files)));
    ports(&mut board, configuration, fw_cfg::PORT.into(), fw_cfg::SIZE, 0);
    if let Some(drive) = config.cdrom {
        optical_drive(&mut board, config, drive);
    }
    if config.testdev {
        // Console port 2: the two before it are serial ports.
        let device = board.add(Box::new(TestDev::new(2)));
        ports(&mut board, device, 0xf4, 4, testdev::DEBUG_EXIT);
        ports(&mut board, device, 0xe9, 1, testdev::DEBUG_CONSOLE);
        ports(&mut board, device, 0x80, 1, testdev::POST);
    }
    bus(&mut board, config);
    board
}

/// Adds a window of ports.
fn ports(board: &mut Devices, device: usize, base: u64, len: u64, offset: u64) {
    board.wiring.ports.push(Window {
        base,
        len,
        device,
        offset,
    });
}

/// Adds a window of memory.
fn memory(board: &mut Devices, device: usize, base: u64, len: u64, offset: u64) {
    board.wiring.memory.push(Window {
        base,
        len,
        device,
        offset,
    });
}

fn interrupt_controllers(board: &mut Devices, harts: u32) {
    let device = board.add(Box::new(Interrupts::new(harts)));
    memory(
        board,
        device,
        layout::LAPIC,
        layout::LAPIC_SIZE,
        interrupts::NO_APIC,
    );
    memory(
        board,
        device,
        layout::IOAPIC,
        layout::IOAPIC_SIZE,
        interrupts::IO_APIC,
    );
    ports(board, device, 0x20, 2, interrupts::PIC_MASTER);
    ports(board, device, 0xa0, 2, interrupts::PIC_SLAVE);
    ports(board, device, 0x4d0, 2, interrupts::ELCR);
    board.wiring.messages.push(Window {
        base: layout::LAPIC,
        len: interrupts::MESSAGES_SIZE,
        device,
        offset: interrupts::MESSAGES,
    });
    board.wiring.local = Some(Local {
        device,
        registers: interrupts::LOCAL_APIC,
        window: layout::LAPIC,
        register: local_register,
        faults: |base, register, write| {
            register != cpu::x86_64::CR8 && interrupts::msr_faults(base, register, write)
        },
        base: IA32_APIC_BASE,
        acknowledge: |pin| {
            if pin == PIN_LOCAL {
                interrupts::ACKNOWLEDGE_LOCAL
            } else {
                interrupts::ACKNOWLEDGE_EXTERNAL
            }
        },
    });
}

const IA32_APIC_BASE: u32 = 0x1b;
const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// Where the register is that an MSR (or CR8) names.
fn local_register(register: u32) -> Option<u64> {
    match register {
        IA32_APIC_BASE => Some(interrupts::APIC_BASE),
        IA32_TSC_DEADLINE => Some(interrupts::TSC_DEADLINE),
        cpu::x86_64::CR8 => Some(interrupts::CR8),
        0x800..=0x8ff => Some(interrupts::X2APIC + 8 * u64::from(register - 0x800)),
        _ => None,
    }
}

/// The master of the second channel, where PCs have it.
fn optical_drive(board: &mut Devices, config: &Config, drive: u8) {
    let sectors = config
        .drives
        .get(usize::from(drive))
        .map_or(0, |drive| drive.sectors);
    let unit = ide::Unit::Cdrom {
        drive,
        sectors: sectors * ide::SECTOR_SIZE / ide::CD_SECTOR_SIZE,
        serial: "tickback-cd".into(),
    };
    let device = board.add(Box::new(Ide::new([[None, None], [Some(unit), None]])));
    for channel in 0..2 {
        let command = u64::from(ide::COMMAND_PORT[channel]);
        ports(board, device, command, ide::COMMAND_SIZE, ide::COMMAND[channel]);
        ports(
            board,
            device,
            ide::CONTROL_PORT[channel].into(),
            1,
            ide::CONTROL[channel],
        );
    }
}

fn display(board: &mut Devices) {
    let display = board.add(Box::new(Vga::new()));
    memory(board, display, vga::MEMORY_BASE, vga::MEMORY_SIZE, vga::MEMORY);
    ports(
        board,
        display,
        vga::REGISTERS_PORT.into(),
        vga::REGISTERS_SIZE,
        vga::REGISTERS,
    );
    ports(
        board,
        display,
        vga::DISPI_PORT.into(),
        vga::DISPI_SIZE,
        vga::DISPI,
    );
    board.wiring.display = Some(display);
}

/// What the firmware is told: by key, and by name.
type Told = (Vec<(u16, Vec<u8>)>, Vec<(String, Vec<u8>)>);

fn configuration(config: &Config) -> Told {
    let told = bios_items(&BiosConfig {
        memory: config.memory,
        cpus: config.harts.len() as u32,
        vga: true,
        ..BiosConfig::default()
    });
    // What is impossible there, `Config::check` has refused before.
    let mut told = told.map_or_else(|_| Told::default(), |told| (told.items, told.files));
    for rom in &config.firmware_files {
        told.1.push((rom.name.clone(), rom.bytes.clone()));
    }
    told
}

/// PCI last: it has what nobody else claims.
fn bus(board: &mut Devices, config: &Config) {
    let (roles, cards): (Vec<Role>, Vec<Box<dyn VirtioDevice>>) = super::cards(config).into_iter().unzip();
    let entropy: Box<dyn VirtioDevice> = Box::new(Rng::new(seed_bytes(config.seed)));
    let cards = cards.into_iter().chain([entropy]);
    let cards = cards.map(|card| Box::new(PciTransport::new(card)) as Box<dyn pci::Function>);
    let pci = Pci::new(cards.collect());
    let has_bios = config
        .harts
        .first()
        .is_none_or(|start| start.mode == StartMode::Board);
    let pci = if has_bios { pci } else { pci.shadowed() };
    let bus = board.add(Box::new(pci));
    let is_ram = !has_bios;
    board.wiring.shadow = Some(shadow::Place {
        base: layout::SHADOW,
        granule: (layout::SHADOW_END - layout::SHADOW) / shadow::GRANULES as u64,
        rom: layout::SHADOW_END - layout::BIOS_SHADOWED,
        to_rom: layout::BIOS_END - layout::SHADOW_END,
        at_first: Shadow {
            read: is_ram,
            write: is_ram,
        },
    });
    // What of the shadow is neither RAM nor ROM.
    memory(
        board,
        bus,
        layout::SHADOW,
        layout::SHADOW_END - layout::SHADOW,
        pci::MEMORY_WINDOW + layout::SHADOW,
    );
    roles.into_iter().for_each(|role| board.wiring.connect(role, bus));
    ports(
        board,
        bus,
        pci::CONFIG_PORT.into(),
        8,
        pci::IO_WINDOW + u64::from(pci::CONFIG_PORT),
    );
    let io = u64::from(layout::PCI_IO);
    ports(board, bus, io, pci::IO_WINDOW_SIZE - io, pci::IO_WINDOW + io);
    let hole = layout::PCI_MEMORY;
    memory(
        board,
        bus,
        hole,
        layout::PCI_MEMORY_LAST + 1 - hole,
        pci::MEMORY_WINDOW + hole,
    );
}

fn pin_number(pin: HartPin) -> u32 {
    match pin {
        HartPin::LocalInterrupt => PIN_LOCAL,
        HartPin::ExternalInterrupt => PIN_EXTERNAL,
        HartPin::Nmi => PIN_NMI,
        HartPin::Init => PIN_INIT,
        HartPin::Startup => PIN_STARTUP,
        HartPin::A20Masked => PIN_A20M,
        HartPin::IgnoreNumericError => PIN_IGNNE,
        // A RISC-V hart's: this board has none.
        HartPin::MachineSoftware
        | HartPin::MachineTimer
        | HartPin::MachineExternal
        | HartPin::SupervisorExternal => u32::MAX,
    }
}
