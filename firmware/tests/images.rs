//! The loaders on files not made here: what `tests/images.sh riscv64` fetches. Skipped, with a word, if
//! it hasn't been run.
#![allow(clippy::unwrap_used)]

use firmware::{FirmwareError, KernelKind, layout, load_kernel};
use std::path::PathBuf;

const RAM_SIZE: u64 = 1 << 30;

fn image(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("TICKBACK_IMAGES").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../target/images/riscv64").into());
    let bytes = std::fs::read(folder.join(name)).ok();
    if bytes.is_none() {
        eprintln!("SKIPPED: no {name}; run tests/images.sh riscv64");
    }
    bytes
}

#[test]
fn debians_kernel_is_an_image() {
    let Some(bytes) = image("vmlinux") else { return };
    let loaded = load_kernel(&bytes, layout::RAM, RAM_SIZE).unwrap();
    assert_eq!(
        (loaded.kind, loaded.entry),
        (KernelKind::LinuxImage, layout::KERNEL)
    );
    assert!(
        loaded.segments[0].mem_size > bytes.len() as u64,
        "the bss is part of it"
    );
    assert!(matches!(
        load_kernel(&bytes, layout::RAM, 16 << 20),
        Err(FirmwareError::OutsideRam { .. })
    ));
}

#[test]
fn opensbis_elf_moves_to_the_start_of_ram() {
    let (Some(elf), Some(raw)) = (image("fw_dynamic.elf"), image("fw_dynamic.bin")) else {
        return;
    };
    let loaded = load_kernel(&elf, layout::RAM, RAM_SIZE).unwrap();
    assert_eq!((loaded.kind, loaded.entry), (KernelKind::Elf, layout::RAM));
    let flat = load_kernel(&raw, layout::RAM, RAM_SIZE).unwrap();
    assert_eq!((flat.kind, flat.entry), (KernelKind::Raw, layout::RAM));
    // objcopy's flat file is the outside judge of what stands where.
    for segment in &loaded.segments {
        let at = (segment.address - layout::RAM) as usize;
        assert_eq!(segment.bytes, raw[at..at + segment.bytes.len()]);
    }
}

#[test]
fn user_programs_and_archives_are_not_silently_run() {
    // Linked far below RAM, and not movable.
    let Some(busybox) = image("busybox") else { return };
    let result = load_kernel(&busybox, layout::RAM, RAM_SIZE);
    assert!(
        matches!(result, Err(FirmwareError::OutsideRam { .. })),
        "{:?}",
        result.map(|loaded| loaded.entry)
    );
}
