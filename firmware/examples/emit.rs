//! Writes one of the crate's images to a file, for a look at it with objdump or QEMU:
//! `cargo run -p firmware --example emit -- demo demo.bin`
//! `qemu-system-riscv64 -M virt -bios demo.bin -nographic -icount shift=0`

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = args.as_slice() else {
        eprintln!("usage: emit demo|smp|fp|paging FILE");
        return ExitCode::from(2);
    };
    let bytes = match what.as_str() {
        "demo" => guest(firmware::demo()),
        "smp" => guest(firmware::smp_demo(4)),
        "fp" => guest(firmware::fp_mix()),
        "paging" => guest(firmware::paging()),
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
