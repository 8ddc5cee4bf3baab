//! The PC's loaders on files not made here: what `tests/images.sh x86_64` fetches. Skipped, with a word, if
//! it hasn't been run.
#![allow(clippy::unwrap_used)]

use firmware::FirmwareError;
use firmware::x86::{X86Boot, X86Kind, X86Start, layout, load_bios, load_x86_kernel};
use std::path::PathBuf;

const MEMORY: u64 = 1 << 30;

fn image(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("TICKBACK_IMAGES_X86_64").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../target/images/x86_64").into());
    let bytes = std::fs::read(folder.join(name)).ok();
    if bytes.is_none() {
        eprintln!("SKIPPED: no {name}; run tests/images.sh x86_64");
    }
    bytes
}

fn boot(kernel: &[u8]) -> X86Boot<'_> {
    X86Boot {
        memory: MEMORY,
        cpus: 1,
        kernel,
        initrd: None,
        command_line: "console=ttyS0",
        vga: false,
    }
}

#[test]
fn debians_kernel_is_a_bzimage() {
    let (Some(kernel), Some(initrd)) = (image("vmlinuz"), image("initramfs.cpio.gz")) else {
        return;
    };
    let with_initrd = X86Boot {
        initrd: Some(&initrd),
        ..boot(&kernel)
    };
    let loaded = load_x86_kernel(&with_initrd).unwrap();
    assert_eq!(loaded.kind, X86Kind::BzImage);
    let at = loaded.segments.iter().find(|s| s.address == 0x100_0000).unwrap();
    // The whole rest of the file but, at most, a signature.
    assert!(kernel.len() - at.bytes.len() < 0x1_0000);
    assert!(at.mem_size > at.bytes.len() as u64, "it is unpacked in place");
    let small = X86Boot {
        memory: 64 << 20,
        ..boot(&kernel)
    };
    assert!(matches!(
        load_x86_kernel(&small),
        Err(FirmwareError::OutsideRam { .. })
    ));
    let cut = boot(&kernel[..kernel.len() / 2]);
    assert!(matches!(
        load_x86_kernel(&cut),
        Err(FirmwareError::Truncated { .. })
    ));
    let error = firmware::load_kernel(&kernel, firmware::layout::RAM, MEMORY).unwrap_err();
    assert!(error.to_string().contains("x86 Linux bzImage"), "{error}");
}

#[test]
fn memtest_is_a_bzimage_too() {
    let Some(file) = image("memtest86+x64.bin") else {
        return;
    };
    let loaded = load_x86_kernel(&boot(&file)).unwrap();
    assert_eq!(loaded.kind, X86Kind::BzImage);
}

#[test]
fn seabios_starts_at_the_reset_vector() {
    for name in ["bios.bin", "bios-256k.bin"] {
        let Some(rom) = image(name) else { return };
        let loaded = load_bios(&rom).unwrap();
        assert_eq!(loaded.start, X86Start::Reset);
        // A far jump into the segment at f_0000.
        let vector = &rom[rom.len() - 16..];
        assert_eq!((vector[0], &vector[3..5]), (0xea, [0x00, 0xf0].as_slice()));
        assert!(
            loaded
                .segments
                .iter()
                .all(|s| s.end() == layout::SHADOW_END || s.end() == layout::BIOS_END)
        );
    }
    let Some(rom) = image("vgabios-stdvga.bin") else {
        return;
    };
    assert!(matches!(load_bios(&rom), Err(FirmwareError::BiosSize { .. })));
}
