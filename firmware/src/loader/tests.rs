//! Loaders: known good files of each kind, each error, and mutated headers.

use super::*;
use std::io::Write;

const BASE: u64 = 0x8000_0000;
const SIZE: u64 = 16 << 20;

/// An ELF64 executable: (virtual, physical, bytes, memory size) a segment.
fn elf(entry: u64, segments: &[(u64, u64, &[u8], u64)]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut put = |size: usize, value: u64| file.extend_from_slice(&value.to_le_bytes()[..size]);
    put(2, 2); // ET_EXEC
    put(2, 243); // EM_RISCV
    put(4, 1);
    put(8, entry);
    put(8, 64); // program headers
    put(8, 0);
    put(4, 0);
    put(2, 64);
    put(2, 56);
    put(2, segments.len() as u64);
    put(2, 64);
    put(2, 0);
    put(2, 0);
    let mut offset = 64 + 56 * segments.len() as u64;
    for &(virt, phys, bytes, mem_size) in segments {
        put(4, 1); // PT_LOAD
        put(4, 7);
        put(8, offset);
        put(8, virt);
        put(8, phys);
        put(8, bytes.len() as u64);
        put(8, mem_size);
        put(8, 0x1000);
        offset += bytes.len() as u64;
    }
    for &(_, _, bytes, _) in segments {
        file.extend_from_slice(bytes);
    }
    file
}

fn image(text_offset: u64, image_size: u64) -> Vec<u8> {
    let mut file = vec![0; 256];
    file[0x08..0x10].copy_from_slice(&text_offset.to_le_bytes());
    file[0x10..0x18].copy_from_slice(&image_size.to_le_bytes());
    file[0x30..0x38].copy_from_slice(b"RISCV\0\0\0");
    file[0x38..0x3c].copy_from_slice(b"RSC\x05");
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_elf_file_loads_at_physical_addresses() {
    let file = elf(
        0xffff_0010,
        &[
            (0xffff_0000, BASE + 0x1000, b"abcdefghijklmnopqrst", 0x40),
            (0x5000, BASE, b"xy", 2),
        ],
    );
    let loaded = load_kernel(&file, BASE, SIZE).unwrap();
    assert_eq!(loaded.kind, KernelKind::Elf);
    assert_eq!(loaded.entry, BASE + 0x1010);
    assert_eq!(loaded.end(), BASE + 0x1040);
    let [first, second] = loaded.segments.as_slice() else {
        panic!("two segments")
    };
    assert_eq!(
        (first.address, first.bytes.as_slice(), first.mem_size),
        (BASE, &b"xy"[..], 2)
    );
    assert_eq!(
        (second.address, second.bytes.len(), second.mem_size),
        (BASE + 0x1000, 20, 0x40)
    );
}

#[test]
fn an_image_loads_at_its_text_offset() {
    let loaded = load_kernel(&image(0x20_0000, 0x8000), BASE, SIZE).unwrap();
    assert_eq!(loaded.kind, KernelKind::LinuxImage);
    assert_eq!(loaded.entry, BASE + 0x20_0000);
    assert_eq!(loaded.segments[0].mem_size, 0x8000);

    let packed = load_kernel(&gzip(&image(0x20_0000, 0x8000)), BASE, SIZE).unwrap();
    assert_eq!(
        packed,
        Loaded {
            compressed: true,
            ..loaded
        }
    );
}

#[test]
fn anything_else_is_raw() {
    let loaded = load_kernel(b"\x13\0\0\0", BASE, SIZE).unwrap();
    assert_eq!((loaded.kind, loaded.entry), (KernelKind::Raw, BASE));
    let loaded = load_raw(b"\x13\0\0\0", BASE + 0x20_0000, BASE, SIZE).unwrap();
    assert_eq!(loaded.entry, BASE + 0x20_0000);
}

#[test]
fn each_error_says_what_is_wrong() {
    let good = elf(BASE, &[(BASE, BASE, b"code", 4)]);
    let with = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        load_kernel(&file, BASE, SIZE).unwrap_err()
    };
    assert!(load_kernel(&good, BASE, SIZE).is_ok());
    assert!(with(4, 1).to_string().contains("32-bit"));
    assert!(with(5, 2).to_string().contains("big-endian"));
    assert!(with(18, 62).to_string().contains("X86_64"), "{}", with(18, 62));
    assert!(matches!(
        load_kernel(&good[..good.len() - 1], BASE, SIZE),
        Err(FirmwareError::Truncated { .. })
    ));
    assert!(matches!(
        load_kernel(&good[..40], BASE, SIZE),
        Err(FirmwareError::Truncated { .. })
    ));
    assert!(matches!(
        load_kernel(&elf(BASE, &[(BASE, BASE, b"", SIZE + 1)]), BASE, SIZE),
        Err(FirmwareError::OutsideRam { .. })
    ));
    assert!(matches!(
        load_kernel(&elf(BASE, &[(BASE, u64::MAX - 1, b"", 16)]), BASE, SIZE),
        Err(FirmwareError::OutsideRam { .. })
    ));
    let overlapping = elf(BASE, &[(BASE, BASE, b"abcd", 4), (BASE, BASE + 2, b"efgh", 4)]);
    assert!(matches!(
        load_kernel(&overlapping, BASE, SIZE),
        Err(FirmwareError::Overlap { .. })
    ));
    assert!(matches!(load_kernel(&[], BASE, SIZE), Err(FirmwareError::Empty)));
    assert!(matches!(
        load_kernel(&image(0, SIZE + 1), BASE, SIZE),
        Err(FirmwareError::OutsideRam { .. })
    ));
    let mut arm = image(0, 0);
    arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
    let error = load_kernel(&arm, BASE, SIZE).unwrap_err();
    assert!(matches!(error, FirmwareError::WrongArchitecture { .. }));
}

#[test]
fn a_gzip_bomb_stops_at_the_size_of_ram() {
    let bomb = gzip(&vec![0; 8 << 20]);
    let limit = 1 << 20;
    assert_eq!(
        load_kernel(&bomb, BASE, limit),
        Err(FirmwareError::UnpacksTooLarge { limit })
    );
    let cut = &gzip(b"some content")[..20];
    assert!(matches!(
        load_kernel(cut, BASE, SIZE),
        Err(FirmwareError::Gzip { .. })
    ));
    let twice = gzip(&gzip(b"some content"));
    assert!(matches!(
        load_kernel(&twice, BASE, SIZE),
        Err(FirmwareError::Gzip { .. })
    ));
}

/// Mutated headers: no panic, and whatever loads is sorted, inside RAM and without overlap.
#[test]
fn hostile_headers_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let interesting = [
        0,
        1,
        0x7f,
        0xff,
        BASE,
        BASE + SIZE,
        u64::MAX,
        u64::MAX - 7,
        1 << 63,
        64,
        243,
    ];
    let seeds = [
        elf(
            BASE,
            &[(BASE, BASE, b"abcd", 8), (0x1000, BASE + 0x1000, b"efgh", 0x100)],
        ),
        image(0x20_0000, 0x1000),
        gzip(&image(0, 0x1000)),
        real_elf_with_symbols(),
    ];
    let mut loaded = 0;
    for round in 0..40_000 {
        let mut file = seeds[round % seeds.len()].clone();
        for _ in 0..1 + random() % 4 {
            let at = (random() % file.len() as u64) as usize;
            if random() % 2 == 0 {
                file[at] = random() as u8;
            } else {
                let value = interesting[(random() % interesting.len() as u64) as usize];
                for (byte, new) in file[at & !7..].iter_mut().zip(value.to_le_bytes()) {
                    *byte = new;
                }
            }
        }
        file.truncate(if random() % 8 == 0 {
            (random() % 300) as usize
        } else {
            usize::MAX
        });
        let Ok(result) = load_kernel(&file, BASE, SIZE) else {
            continue;
        };
        loaded += 1;
        let mut end = BASE;
        for segment in &result.segments {
            assert!(segment.address >= end && segment.bytes.len() as u64 <= segment.mem_size);
            end = segment.end();
        }
        assert!(end <= BASE + SIZE);
    }
    assert!(
        loaded > 1000,
        "the mutations should leave some files loadable: {loaded}"
    );
}

/// One segment, a symbol table with `tohost`, and section headers.
fn real_elf_with_symbols() -> Vec<u8> {
    let mut file = elf(BASE, &[(BASE, BASE, b"abcdefgh", 0x2000)]);
    file.resize(file.len().next_multiple_of(8), 0);
    let symbols = file.len() as u64;
    file.extend_from_slice(&[0; 24]);
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&[0x10, 0, 1, 0]);
    file.extend_from_slice(&(BASE + 0x1000).to_le_bytes());
    file.extend_from_slice(&8u64.to_le_bytes());
    let strings = file.len() as u64;
    file.extend_from_slice(b"\0tohost\0");
    let sections = file.len() as u64;
    let mut section = |kind: u32, offset: u64, size: u64, link: u32| {
        file.extend_from_slice(&0u32.to_le_bytes());
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&[0; 16]);
        file.extend_from_slice(&offset.to_le_bytes());
        file.extend_from_slice(&size.to_le_bytes());
        file.extend_from_slice(&link.to_le_bytes());
        file.extend_from_slice(&[0; 20]);
    };
    section(0, 0, 0, 0);
    section(2, symbols, 48, 2);
    section(3, strings, 8, 0);
    file[40..48].copy_from_slice(&sections.to_le_bytes());
    file[60..62].copy_from_slice(&3u16.to_le_bytes());
    file
}

#[test]
fn tohost_is_found() {
    let loaded = load_kernel(&real_elf_with_symbols(), BASE, SIZE).unwrap();
    assert_eq!((loaded.tohost, loaded.fromhost), (Some(BASE + 0x1000), None));
}
