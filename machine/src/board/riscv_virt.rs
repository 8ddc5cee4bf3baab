//! The board `riscv-virt`: QEMU's `virt` map, so that OpenSBI, U-Boot and Linux run unmodified.

use cpu::Cpu;
use cpu::riscv64::hart::{Hart, HartConfig};
use cpu::riscv64::slots;
use devices::virtio::{EmptySlot, Mmio, Rng};
use devices::{Clint, Device, Finisher, HartPin, Plic, Rtc, Uart};
use firmware::layout;

use super::{Board, Devices, Role, cards, seed_bytes};
use crate::config::{Config, HartStart};
use crate::ram::Region;

pub(super) const BOARD: Board = Board {
    name: "riscv-virt",
    // One virtio slot is the entropy source's.
    cards: layout::VIRTIO_COUNT as usize - 1,
    display: false,
    regions: |config| vec![Region::ram(layout::RAM, config.memory)],
    devices,
    lines: layout::PLIC_SOURCES as usize + 1,
    hart: |config, id| {
        Box::new(Hart::new(HartConfig {
            semihosting: config.semihosting.is_some(),
            lone: config.harts.len() == 1,
            ..HartConfig::new(id.into())
        }))
    },
    start,
    layout: &slots::LAYOUT,
};

fn start(cpu: &mut dyn Cpu, start: &HartStart) {
    cpu.reset(start.pc);
    for (i, value) in start.args.into_iter().enumerate() {
        cpu.regs_mut()[slots::x(10 + i as u8)] = value;
    }
}

fn devices(config: &Config) -> Devices {
    let harts = config.harts.len() as u32;
    let mut board = Devices::new(pin_number);
    board.add_at(layout::FINISHER, layout::FINISHER_SIZE, Box::new(Finisher));
    let rtc = Rtc::new(layout::RTC_IRQ, config.date_ns);
    board.add_at(layout::RTC, layout::RTC_SIZE, Box::new(rtc));
    board.add_at(layout::CLINT, layout::CLINT_SIZE, Box::new(Clint::new(harts)));
    board.add_at(layout::PLIC, layout::PLIC_SIZE, Box::new(Plic::new(harts)));
    let uart = Uart::new(layout::UART_IRQ, 0);
    let uart = board.add_at(layout::UART, layout::UART_SIZE, Box::new(uart));
    board.wiring.consoles.push(uart);
    let mut cards = cards(config).into_iter();
    for slot in 0..layout::VIRTIO_COUNT {
        let base = layout::VIRTIO + u64::from(slot) * layout::VIRTIO_STRIDE;
        let line = layout::VIRTIO_IRQ + slot;
        let (role, device): (_, Box<dyn Device>) = match cards.next() {
            Some((role, card)) => (role, Box::new(Mmio::new(line, card))),
            None if slot + 1 == layout::VIRTIO_COUNT => {
                let entropy = Box::new(Rng::new(seed_bytes(config.seed)));
                (Role::Other, Box::new(Mmio::new(line, entropy)))
            }
            None => (Role::Other, Box::new(EmptySlot)),
        };
        let device = board.add_at(base, layout::VIRTIO_STRIDE, device);
        board.wiring.connect(role, device);
    }
    board
}

/// The number of a hart's pin: its bit of `mip` (RISC-V Priv 3.1.9).
fn pin_number(pin: HartPin) -> u32 {
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
        | HartPin::Startup
        | HartPin::A20Masked
        | HartPin::IgnoreNumericError => u32::MAX,
    }
}
