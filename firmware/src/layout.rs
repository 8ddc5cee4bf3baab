//! Physical addresses of the RISC-V board: the map of QEMU's `virt` machine, which firmware and
//! kernels already know. Everything that needs an address (FDT, built-in SBI, demo guests, and the
//! board itself) takes it from here, so that they can't disagree.
//!
//! Source: the device tree that QEMU's `virt` machine hands to its guests; SiFive's CLINT and PLIC
//! manuals for the register offsets.

/// Boot ROM: the reset vector. Harts start here.
pub const RESET_ROM: u64 = 0x1000;
/// Size of the boot ROM in bytes.
pub const RESET_ROM_SIZE: u64 = 0xf000;
/// The finisher (`sifive,test1`): a 32-bit store ends or resets the machine.
pub const FINISHER: u64 = 0x10_0000;
/// Size of the finisher's window.
pub const FINISHER_SIZE: u64 = 0x1000;
/// Finisher value: the guest failed; its exit code is in bits 31:16.
pub const FINISHER_FAIL: u32 = 0x3333;
/// The finisher's word for a failure with an exit code, as the immediate of a guest's `li`.
pub(crate) const fn finisher_failure(code: u32) -> i32 {
    (code << 16 | FINISHER_FAIL) as i32
}
/// Finisher value: the guest ended well.
pub const FINISHER_PASS: u32 = 0x5555;
/// Finisher value: reset the machine.
pub const FINISHER_RESET: u32 = 0x7777;
/// Goldfish real-time clock.
pub const RTC: u64 = 0x10_1000;
/// Size of the RTC's window.
pub const RTC_SIZE: u64 = 0x1000;
/// PLIC source number of the RTC.
pub const RTC_IRQ: u32 = 11;
/// Core-local interruptor: software interrupts and the timer.
pub const CLINT: u64 = 0x200_0000;
/// Size of the CLINT's window.
pub const CLINT_SIZE: u64 = 0x1_0000;
/// Software-interrupt registers: one 32-bit word a hart.
pub const CLINT_MSIP: u64 = CLINT;
/// Timer compare registers: one 64-bit word a hart.
pub const CLINT_MTIMECMP: u64 = CLINT + 0x4000;
/// The 64-bit time register.
pub const CLINT_MTIME: u64 = CLINT + 0xbff8;
/// Ticks of `mtime` a second.
pub const TIMEBASE_HZ: u32 = 10_000_000;
/// Platform-level interrupt controller.
pub const PLIC: u64 = 0xc00_0000;
/// Size of the PLIC's window.
pub const PLIC_SIZE: u64 = 0x60_0000;
/// Number of PLIC sources, source 0 (which doesn't exist) not counted.
pub const PLIC_SOURCES: u32 = 95;
/// The console: a 16550 with byte-wide, byte-spaced registers.
pub const UART: u64 = 0x1000_0000;
/// Size of the UART's window.
pub const UART_SIZE: u64 = 0x100;
/// PLIC source number of the UART.
pub const UART_IRQ: u32 = 10;
/// Input clock of the UART in Hz.
pub const UART_CLOCK_HZ: u32 = 3_686_400;
/// First virtio-mmio transport; the others follow, [`VIRTIO_STRIDE`] apart.
pub const VIRTIO: u64 = 0x1000_1000;
/// Distance between, and size of, the virtio-mmio windows.
pub const VIRTIO_STRIDE: u64 = 0x1000;
/// Number of virtio-mmio transports.
pub const VIRTIO_COUNT: u32 = 8;
/// PLIC source number of the first virtio-mmio transport; the others follow.
pub const VIRTIO_IRQ: u32 = 1;
/// Start of RAM, where machine-mode firmware is loaded and entered.
pub const RAM: u64 = 0x8000_0000;
/// Where a kernel is loaded: RAM + 2 MiB, past the firmware.
pub const KERNEL: u64 = RAM + 0x20_0000;
/// Block size of `cbo.zero` and of the other cache-block instructions.
pub const CACHE_BLOCK: u32 = 64;
