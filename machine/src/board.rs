//! The board `riscv-virt`: QEMU's `virt` map, so that OpenSBI, U-Boot and Linux run unmodified.

use cpu::Cpu;
use cpu::riscv64::hart::{Hart, HartConfig};
use cpu::riscv64::slots;
use devices::virtio::{Blk, EmptySlot, Mmio, Rng};
use devices::{Clint, Device, Finisher, HartPin, Plic, Rtc, Uart};
use firmware::layout;
use icount::{Clock, Door, Icount};

use crate::config::Config;
use crate::disk::Disks;
use crate::engine::Engine;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::memory::{Guards, Memory};
use crate::ram::Ram;
use crate::schedule::Schedule;
use crate::stops::Watching;
use crate::system::{Mapped, System};

/// The most drives: one virtio slot is the entropy source's.
pub const MAX_DRIVES: usize = layout::VIRTIO_COUNT as usize - 1;

/// What is in RAM at power-on: address and bytes; all else is zero.
pub type Images = Vec<(u64, Vec<u8>)>;

/// Builds the machine as it is at power-on.
pub fn build(
    config: &Config,
    images: Images,
    door: Box<dyn Door + Send>,
    engine: Engine,
) -> Result<Machine, MachineError> {
    config.check()?;
    let ram = Ram::new(layout::RAM, config.memory).map_err(|source| MachineError::Memory {
        bytes: config.memory,
        source,
    })?;
    for (addr, bytes) in &images {
        if !ram.contains(*addr, bytes.len() as u64) {
            return Err(MachineError::Config(format!(
                "{} bytes at {addr:#x} are outside of RAM ({:#x} to {:#x}); give the machine more --memory",
                bytes.len(),
                layout::RAM,
                layout::RAM + config.memory
            )));
        }
    }
    let mut sys = System {
        memory: Memory::new(ram),
        devices: devices(config),
        lines: vec![false; layout::PLIC_SOURCES as usize + 1],
        messages: Default::default(),
        pins: Vec::new(),
        clock: Clock::new(config.ns_per_step),
        at: Icount(0),
        current: 0,
        door,
        failed: None,
        untold: Vec::new(),
        disks: Disks::new(config.drives.clone()),
        power: None,
        device_deadline: None,
        seen_deadline: None,
        space: 0,
        leave: false,
        left: 0,
        more_steps: 0,
        end_slice: false,
        torn: false,
        trap: None,
        watching: Watching::default(),
        dma_writes: Vec::new(),
        tohost: config.tohost,
        straddlers: Default::default(),
    };
    load(&mut sys, &images);
    if let Some(page) = config.tohost.and_then(|word| sys.memory.ram().page_of(word)) {
        sys.memory.guard(page, Guards::HTIF);
    }
    let mut harts: Vec<Box<dyn Cpu>> = Vec::new();
    for id in 0..config.harts.len() {
        harts.push(Box::new(Hart::new(HartConfig::new(id as u64))));
    }
    start(config, &mut harts);
    let schedule = Schedule::new(config.slice, config.schedule_seed);
    let config = config.clone();
    let reset = move |sys: &mut System, harts: &mut [Box<dyn Cpu>]| {
        for index in 0..sys.devices.len() {
            sys.with_device(index, |d, cx| d.reset(cx));
        }
        sys.after_device();
        sys.memory.zero();
        load(sys, &images);
        start(&config, harts);
    };
    Ok(Machine::new(harts, sys, engine, schedule, Box::new(reset)))
}

fn load(sys: &mut System, images: &Images) {
    for (addr, bytes) in images {
        sys.memory.write_bytes(*addr, bytes);
    }
}

fn start(config: &Config, harts: &mut [Box<dyn Cpu>]) {
    for (cpu, start) in harts.iter_mut().zip(&config.harts) {
        cpu.reset(start.pc);
        for (i, value) in start.args.into_iter().enumerate() {
            cpu.regs_mut()[slots::x(10 + i as u8)] = value;
        }
    }
}

fn devices(config: &Config) -> Vec<Mapped> {
    let harts = config.harts.len() as u32;
    let mut mapped: Vec<(u64, u64, Box<dyn Device>)> = vec![
        (layout::FINISHER, layout::FINISHER_SIZE, Box::new(Finisher)),
        (
            layout::RTC,
            layout::RTC_SIZE,
            Box::new(Rtc::new(layout::RTC_IRQ, config.date_ns)),
        ),
        (layout::CLINT, layout::CLINT_SIZE, Box::new(Clint::new(harts))),
        (layout::PLIC, layout::PLIC_SIZE, Box::new(Plic::new(harts))),
        (
            layout::UART,
            layout::UART_SIZE,
            Box::new(Uart::new(layout::UART_IRQ, 0)),
        ),
    ];
    for slot in 0..layout::VIRTIO_COUNT {
        let base = layout::VIRTIO + u64::from(slot) * layout::VIRTIO_STRIDE;
        let line = layout::VIRTIO_IRQ + slot;
        let device: Box<dyn Device> = match config.drives.get(slot as usize) {
            Some(drive) => {
                let blk = Blk::new(
                    slot as u8,
                    drive.sectors,
                    drive.read_only,
                    &format!("tickback{slot}"),
                );
                Box::new(Mmio::new(line, Box::new(blk)))
            }
            None if slot + 1 == layout::VIRTIO_COUNT => {
                Box::new(Mmio::new(line, Box::new(Rng::new(seed_bytes(config.seed)))))
            }
            None => Box::new(EmptySlot),
        };
        mapped.push((base, layout::VIRTIO_STRIDE, device));
    }
    let mapped = mapped.into_iter();
    mapped
        .map(|(base, len, device)| Mapped {
            base,
            len,
            device: Some(device),
        })
        .collect()
}

/// Spreads the user's seed over the bytes that an entropy source starts from.
pub fn seed_bytes(seed: u64) -> [u8; 32] {
    *blake3::hash(&seed.to_le_bytes()).as_bytes()
}

/// The number of a hart's pin: its bit of `mip` (RISC-V Priv 3.1.9).
pub(crate) fn pin_number(pin: HartPin) -> u32 {
    match pin {
        HartPin::MachineSoftware => 3,
        HartPin::MachineTimer => 7,
        HartPin::SupervisorExternal => 9,
        HartPin::MachineExternal => 11,
        // An x86 processor's: this board has none.
        HartPin::LocalInterrupt
        | HartPin::ExternalInterrupt
        | HartPin::Nmi
        | HartPin::Init
        | HartPin::Startup => u32::MAX,
    }
}
