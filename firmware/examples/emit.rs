//! Writes one of the crate's images to a file, for a look at it with objdump or QEMU:
//! `cargo run -p firmware --example emit -- demo demo.bin`
//! `cargo run -p firmware --example emit -- x86-demo.elf demo.elf`
//! `qemu-system-x86_64 -kernel demo.elf -nographic -icount shift=0 -device isa-debug-exit,iobase=0xf4,iosize=4`
//! `qemu-system-riscv64 -M virt -bios demo.bin -nographic -icount shift=0`

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = args.as_slice() else {
        eprintln!("usage: emit demo|demo.elf|x86-demo.elf|smp|fp|paging|sbi|fdt FILE");
        return ExitCode::from(2);
    };
    let bytes = match what.as_str() {
        "demo" => guest(firmware::demo()),
        "demo.elf" => firmware::demo().to_elf(),
        "x86-demo.elf" => firmware::x86_demo().to_elf(),
        "smp" => guest(firmware::smp_demo(4)),
        "fp" => guest(firmware::fp_mix()),
        "paging" => guest(firmware::paging()),
        "sbi" => firmware::sbi(&firmware::SbiConfig::new(8, 1 << 30)),
        "fdt" => firmware::riscv_virt_fdt(&fdt()).expect("the board's own tree"),
        other => {
            eprintln!("emit: no image named {other}");
            return ExitCode::from(2);
        }
    };
    match std::fs::write(path, bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("emit: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The image; its symbols go to standard error.
fn guest(guest: firmware::Guest) -> Vec<u8> {
    for (name, address) in &guest.symbols {
        eprintln!("{address:#x} {name}");
    }
    guest.image
}

/// Four harts, 1 GiB, with the built-in firmware's memory reserved.
fn fdt() -> firmware::FdtConfig {
    firmware::FdtConfig {
        cmdline: "console=ttyS0 earlycon=sbi".into(),
        reserved: vec![(firmware::layout::RAM, 0x8_0000)],
        ..firmware::FdtConfig::new(4, 1 << 30)
    }
}
