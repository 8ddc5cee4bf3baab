//! Physical addresses, I/O ports and interrupt numbers of the PC board: where i440FX machines have them,
//! which firmware and kernels already know. Everything that needs one (ACPI tables, loaders, demo
//! guests, and the board itself) takes it from here, so that they can't disagree.
//!
//! ```text
//!         0  RAM
//!   a_0000  the display's window
//!   c_0000  ROM shadow: the firmware ROM's end, or RAM into which firmware copies itself and option ROMs
//!  10_0000  RAM, up to 3 GiB in all
//! c000_0000  PCI devices' memory
//! fec0_0000  I/O APIC          fee0_0000  local APIC of the processor that asks
//!           firmware ROM, up to 4 MiB, ending at 4 GiB
//! 1_0000_0000  the rest of RAM
//! ```
//!
//! Sources: Intel 82371AB (PIIX4) datasheet for the power management block and the PCI interrupt links;
//! IBM PC/AT Technical Reference for the ISA devices; Intel 82093AA and SDM 3A 11 for the APICs.

/// RAM below 4 GiB ends here at the latest; what is above it belongs to PCI devices.
pub const LOW_RAM_MAX: u64 = 0xc000_0000;
/// Where the rest of RAM starts.
pub const HIGH_RAM: u64 = 1 << 32;
/// Least RAM that the board takes, in bytes.
pub const RAM_MIN: u64 = 1 << 21;
/// Most RAM that the board takes, in bytes.
pub const RAM_MAX: u64 = 1 << 40;

/// The display's window: not RAM.
pub const VGA: u64 = 0xa_0000;
/// First address past the display's window.
pub const VGA_END: u64 = 0xc_0000;
/// Start of the ROM shadow.
pub const SHADOW: u64 = VGA_END;
/// First address past the ROM shadow.
pub const SHADOW_END: u64 = 0x10_0000;
/// Extended BIOS data area: RAM that kernels leave alone.
pub const EBDA: u64 = 0x9_fc00;

/// The firmware ROM ends here.
pub const BIOS_END: u64 = 1 << 32;
/// Largest firmware ROM in bytes.
pub const BIOS_MAX: u64 = 4 << 20;
/// Firmware ROMs are a multiple of this size.
pub const BIOS_UNIT: u64 = 64 << 10;
/// Of a firmware ROM, this many last bytes appear at the end of the shadow too.
pub const BIOS_SHADOWED: u64 = 128 << 10;

/// I/O APIC.
pub const IOAPIC: u64 = 0xfec0_0000;
/// Size of the I/O APIC's window.
pub const IOAPIC_SIZE: u64 = 0x1000;
/// Inputs of the I/O APIC, which are the global system interrupts.
pub const IOAPIC_INPUTS: u32 = 24;
/// Local APIC, each processor its own.
pub const LAPIC: u64 = 0xfee0_0000;
/// Size of the local APIC's window.
pub const LAPIC_SIZE: u64 = 0x1000;
/// Offsets and values of the local APIC's registers by which a BIOS connects the 8259s to the first processor
/// ("virtual wire": spurious vector, LINT0 external, LINT1 NMI). A kernel that is started without a
/// BIOS relies on the same, so the board does it then.
pub const VIRTUAL_WIRE: [(u64, u32); 3] = [(0xf0, 0x1ff), (0x350, 0x700), (0x360, 0x400)];

/// First address of PCI devices' memory.
pub const PCI_MEMORY: u64 = LOW_RAM_MAX;
/// Last address of PCI devices' memory.
pub const PCI_MEMORY_LAST: u64 = 0xfebf_ffff;
/// First I/O port that is given to PCI devices.
pub const PCI_IO: u16 = 0xc000;
/// PCI configuration: address register, 32 bits.
pub const PCI_CONFIG_ADDRESS: u16 = 0xcf8;
/// PCI configuration: data register, 32 bits.
pub const PCI_CONFIG_DATA: u16 = 0xcfc;
/// Device number of the PCI-ISA bridge, whose function 0 has the interrupt links.
pub const PCI_ISA_BRIDGE: u8 = 1;
/// Offset of the four interrupt link registers (PIRQRC) in the ISA bridge's configuration.
pub const PCI_LINKS: u8 = 0x60;
/// A link register's bit that says that the link is not routed.
pub const PCI_LINK_OFF: u8 = 0x80;
/// What firmware routes links A to D to; after reset they are not routed.
pub const PCI_LINK_IRQS: [u8; 4] = [10, 10, 11, 11];
/// First global system interrupt of PCI devices' pins.
pub const PCI_GSI: u32 = 16;

/// The global system interrupt of `pin` (0 for INTA#) of PCI device `device`: level, active low.
pub const fn pci_gsi(device: u8, pin: u8) -> u32 {
    PCI_GSI + (device as u32 + pin as u32) % 8
}

/// The interrupt link (0 for A) of `pin` (0 for INTA#) of PCI device `device`, for the 8259s.
pub const fn pci_link(device: u8, pin: u8) -> u8 {
    // Device 1 is the bridge itself; SeaBIOS and kernels without ACPI know this rotation.
    (device % 4 + pin % 4 + 3) % 4
}

/// Base of the power management block.
pub const PM: u16 = 0x600;
/// PM1a event block: status, then enable, 16 bits each.
pub const PM1A_EVENT: u16 = PM;
/// PM1a control, 16 bits.
pub const PM1A_CONTROL: u16 = PM + 4;
/// PM timer, 24 bits at [`PM_TIMER_HZ`].
pub const PM_TIMER: u16 = PM + 8;
/// Size of the power management block in ports.
pub const PM_SIZE: u16 = 0x40;
/// Frequency of the PM timer.
pub const PM_TIMER_HZ: u32 = 3_579_545;
/// Of PM1 control: do what SLP_TYP says.
pub const SLP_EN: u16 = 1 << 13;
/// SLP_TYP, bits 12:10 of PM1 control, that turns the machine off.
pub const SLP_TYP_S5: u16 = 0;
/// System control interrupt: ACPI's own.
pub const SCI_IRQ: u8 = 9;
/// Reset control register.
pub const RESET: u16 = 0xcf9;
/// What the reset control register takes to reset the machine.
pub const RESET_VALUE: u8 = 6;

/// First of the interval timer's ports.
pub const PIT: u16 = 0x40;
/// The interval timer's ISA interrupt.
pub const PIT_IRQ: u8 = 0;
/// The interval timer's global system interrupt.
pub const PIT_GSI: u32 = 2;
/// Keyboard controller: data.
pub const I8042_DATA: u16 = 0x60;
/// Keyboard controller: command and status.
pub const I8042_COMMAND: u16 = 0x64;
/// The keyboard's interrupt.
pub const KEYBOARD_IRQ: u8 = 1;
/// The mouse's interrupt.
pub const MOUSE_IRQ: u8 = 12;
/// Real-time clock and CMOS RAM: index; the data port is the next.
pub const RTC: u16 = 0x70;
/// The real-time clock's interrupt.
pub const RTC_IRQ: u8 = 8;
/// CMOS byte that holds the century.
pub const RTC_CENTURY: u8 = 0x32;
/// First serial port, eight registers.
pub const COM1: u16 = 0x3f8;
/// Interrupt of the first serial port.
pub const COM1_IRQ: u8 = 4;
/// Second serial port.
pub const COM2: u16 = 0x2f8;
/// Interrupt of the second serial port.
pub const COM2_IRQ: u8 = 3;
/// Firmware configuration device: 12 ports.
pub const FW_CFG: u16 = 0x510;

/// Bytes of RAM below 4 GiB on a board with `memory` bytes.
pub const fn low_ram(memory: u64) -> u64 {
    if memory < LOW_RAM_MAX { memory } else { LOW_RAM_MAX }
}

/// Bytes of RAM from [`HIGH_RAM`] on, on a board with `memory` bytes.
pub const fn high_ram(memory: u64) -> u64 {
    memory - low_ram(memory)
}

// What direct boot puts into low memory, where neither a BIOS nor a kernel has anything yet.

/// BIOS data area.
pub(crate) const BDA: u64 = 0x400;
/// Descriptor table of the first instruction.
pub const GDT: u64 = 0x1000;
/// Its bytes: the task's descriptor takes two places in 64-bit mode.
pub const GDT_SIZE: u16 = 0x30;
/// Linux's boot_params, PVH's start info or multiboot's information, with what they point to: a page.
pub(crate) const INFO: u64 = 0x2000;
/// Memory map that PVH and multiboot information points to.
pub(crate) const INFO_MAP: u64 = INFO + 0x400;
/// Six pages that map the first 4 GiB one to one.
pub(crate) const PAGE_TABLES: u64 = 0x3000;
/// First stack, growing down.
pub(crate) const STACK_TOP: u64 = 0xa000;
/// Command line.
pub(crate) const COMMAND_LINE: u64 = 0x2_0000;
/// Longest command line of a kernel that has no limit of its own, without its zero.
pub(crate) const COMMAND_LINE_MAX: usize = 4095;
/// ACPI's root pointer: where kernels look for it if nobody tells them.
pub(crate) const RSDP: u64 = 0xf_0000;
/// Bytes at the end of low RAM that ACPI tables take.
pub(crate) const ACPI_SIZE: u64 = 64 << 10;

/// Start of the ACPI tables.
pub(crate) const fn acpi(memory: u64) -> u64 {
    (low_ram(memory) & !0xfff) - ACPI_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_is_split_at_the_hole() {
        for (memory, low, high) in [
            (1 << 30, 1 << 30, 0),
            (LOW_RAM_MAX, LOW_RAM_MAX, 0),
            (4 << 30, 3 << 30, 1 << 30),
        ] {
            assert_eq!((low_ram(memory), high_ram(memory)), (low, high));
        }
    }

    #[test]
    fn interrupts_of_devices_rotate() {
        assert_eq!(pci_gsi(2, 0), 18);
        assert_eq!(pci_gsi(31, 3), 18);
        assert!((0..32).all(|d| (0..4).all(|p| pci_gsi(d, p) < IOAPIC_INPUTS)));
        // A card in the slot behind the bridge has its INTA# on link B... as the 440FX boards are wired.
        assert_eq!(
            [pci_link(1, 0), pci_link(2, 0), pci_link(3, 1), pci_link(0, 0)],
            [0, 1, 3, 3]
        );
    }
}
