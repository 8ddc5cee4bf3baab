//! The loaders of a PC on files made here: what they promise the kernel, and that no broken file does harm.
//! Debian's own kernel is in tests/x86_images.rs.

use super::*;
use crate::loader::u64_at;
use crate::{FirmwareError, Segment};
use proptest::prelude::*;

const MEMORY: u64 = 128 << 20;

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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// What stands in memory at `address`.
fn memory(loaded: &X86Loaded, address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for segment in &loaded.segments {
        for (n, byte) in (0u64..).zip(&segment.bytes) {
            if let Some(at) = (segment.address + n).checked_sub(address)
                && let Some(to) = bytes.get_mut(at as usize)
            {
                *to = *byte;
            }
        }
    }
    bytes
}

fn registers(loaded: &X86Loaded) -> X86Registers {
    match &loaded.start {
        X86Start::Registers(registers) => **registers,
        X86Start::Reset => panic!("starts at reset"),
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A bzImage of protocol 2.15 with 4 KiB of kernel.
fn bzimage() -> Vec<u8> {
    let mut file = vec![0; 512 * 3 + 4096];
    put(&mut file, 0x1f1, &[2]);
    put(&mut file, 0x1f4, &256u32.to_le_bytes());
    put(&mut file, 0x1fe, &[0x55, 0xaa, 0xeb, 0x6a]);
    put(&mut file, 0x202, b"HdrS");
    put(&mut file, 0x206, &0x20fu16.to_le_bytes());
    put(&mut file, 0x211, &[0x81]);
    put(&mut file, 0x22c, &0x7fff_ffffu32.to_le_bytes());
    put(&mut file, 0x236, &1u16.to_le_bytes());
    put(&mut file, 0x238, &2047u32.to_le_bytes());
    put(&mut file, 0x258, &0x100_0000u64.to_le_bytes());
    put(&mut file, 0x260, &0x20_0000u32.to_le_bytes());
    put(&mut file, 512 * 3, b"kernel");
    file
}

#[test]
fn a_bzimage_is_entered_in_64_bit_mode_with_its_zero_page() {
    let (file, initrd) = (bzimage(), vec![7; 5000]);
    let loaded = load_x86_kernel(&X86Boot {
        initrd: Some(&initrd),
        vga: true,
        ..boot(&file)
    })
    .unwrap();
    assert_eq!(loaded.kind, X86Kind::BzImage);
    let r = registers(&loaded);
    assert_eq!(
        (r.rip, r.cr0, r.cr4, r.efer, r.rflags),
        (0x100_0200, 0x8000_0011, 0x20, 0x500, 2)
    );
    assert_eq!(
        (r.cs.selector, r.cs.attributes, r.data.selector),
        (0x10, 0xa09b, 0x18)
    );
    assert_eq!(memory(&loaded, 0x100_0000, 6), b"kernel");

    let page = memory(&loaded, r.rsi, 4096);
    assert_eq!(
        (&page[0x202..0x206], page[0x210], page[0x211]),
        (b"HdrS".as_slice(), 0xff, 1)
    );
    let line = memory(&loaded, u32_at(&page, 0x228).into(), 14);
    assert_eq!(line, b"console=ttyS0\0");
    let (start, size) = (u64::from(u32_at(&page, 0x218)), u32_at(&page, 0x21c));
    assert_eq!((size, start % 4096), (5000, 0));
    // As high as can be: below the ACPI tables, which are the last 64 KiB.
    assert_eq!(start, (MEMORY - 0x1_0000 - 5000) & !0xfff);
    assert_eq!(memory(&loaded, start, 5000), initrd);
    let rsdp = u64_at(&page, 0x70).unwrap();
    assert_eq!(memory(&loaded, rsdp, 8), b"RSD PTR ");
    let ranges = memory_map(MEMORY);
    assert_eq!(usize::from(page[0x1e8]), ranges.len());
    for (n, range) in ranges.iter().enumerate() {
        let at = 0x2d0 + 20 * n;
        let entry = (u64_at(&page, at), u64_at(&page, at + 8), u32_at(&page, at + 16));
        assert_eq!(entry, (Some(range.start), Some(range.size), range.kind as u32));
    }
    assert_eq!((page[0x6], page[0x7], page[0xe], page[0xf]), (3, 80, 25, 1));
}

#[test]
fn initrd_addr_max_is_obeyed() {
    let mut file = bzimage();
    put(&mut file, 0x22c, &0x37f_ffffu32.to_le_bytes());
    let initrd = vec![1; 0x1234];
    let with = |file: &[u8], size: usize| {
        load_x86_kernel(&X86Boot {
            initrd: Some(&initrd[..size]),
            ..boot(file)
        })
    };
    let page = memory(&with(&file, 0x1234).unwrap(), 0x2000, 4096);
    assert_eq!(u32_at(&page, 0x218), 0x37f_e000);
    // The kernel needs [100_0000, 120_0000).
    put(&mut file, 0x22c, &0x120_0fffu32.to_le_bytes());
    assert_eq!(
        with(&file, 0x1234).unwrap_err(),
        FirmwareError::Initrd {
            size: 0x1234,
            end: 0x120_1000
        }
    );
    assert!(with(&file, 0x1000).is_ok());
}

#[test]
fn old_and_broken_bzimages_say_what_is_wrong() {
    let changed = |at: usize, value: &[u8]| {
        let mut file = bzimage();
        put(&mut file, at, value);
        load_x86_kernel(&boot(&file)).unwrap_err().to_string()
    };
    for (at, value, message) in [
        (
            0x206,
            [0x0b, 2].as_slice(),
            "the bzImage is too old: it knows version 2.11",
        ),
        (0x206, &[0, 0], "too old: it knows version 0.0"),
        (0x236, &[0, 0], "too old: it has no 64-bit entry"),
        (0x211, &[0], "too old: it is a zImage"),
        (0x1fe, &[0, 0], "malformed: its boot flag"),
        (0x201, &[0xff], "malformed: its header ends at 0x301"),
        (0x201, &[0x10], "malformed: its header ends at 0x212"),
        (0x1f4, &[0; 4], "malformed: its kernel has 0 bytes"),
        (0x1f4, &[0xff; 4], "cut off"),
        (0x1f1, &[0xff], "cut off"),
        (0x258, &[0; 8], "malformed: it wants to be loaded at 0x0"),
        (0x258, &[0xff; 8], "malformed: it wants to be loaded at 0xffff"),
        (0x260, &[0xff; 4], "the image wants 0xffffffff bytes at 0x1000000"),
        (0x238, &[5, 0, 0, 0], "it has 13 bytes, and this kernel takes 5"),
    ] {
        let said = changed(at, value);
        assert!(said.contains(message), "{said}");
    }
    let file = bzimage();
    for size in 0x206..file.len() - 15 {
        assert!(load_x86_kernel(&boot(&file[..size])).is_err(), "{size}");
    }
}

#[test]
fn machines_that_cannot_be_are_refused() {
    let file = bzimage();
    let machine = |boot: X86Boot| load_x86_kernel(&boot).unwrap_err();
    let ok = boot(&file);
    for wrong in [
        X86Boot { memory: 0, ..ok },
        X86Boot {
            memory: u64::MAX,
            ..ok
        },
        X86Boot { cpus: 0, ..ok },
        X86Boot { cpus: 256, ..ok },
    ] {
        assert!(
            matches!(machine(wrong), FirmwareError::Machine { .. }),
            "{wrong:x?}"
        );
    }
    let zero = X86Boot {
        command_line: "a\0b",
        ..ok
    };
    assert!(matches!(machine(zero), FirmwareError::CommandLine { .. }));
    assert_eq!(machine(boot(&[])), FirmwareError::Empty);
    let small = X86Boot {
        memory: 8 << 20,
        ..ok
    };
    assert!(matches!(machine(small), FirmwareError::OutsideRam { .. }));
    // 4 GiB and more: nothing direct boot needs is above.
    let large = X86Boot {
        memory: 8 << 30,
        ..ok
    };
    let loaded = load_x86_kernel(&large).unwrap();
    assert!(loaded.segments.iter().all(|s| s.end() <= layout::LOW_RAM_MAX));
}

/// What stands in an ELF file made here.
struct Elf<'a> {
    class64: bool,
    machine: u16,
    entry: u64,
    /// Physical, virtual, in memory, in the file.
    segments: &'a [(u64, u64, u64, &'a [u8])],
    note: &'a [u8],
}

impl Elf<'_> {
    fn bytes(&self) -> Vec<u8> {
        let word = |value: u64| value.to_le_bytes()[..if self.class64 { 8 } else { 4 }].to_vec();
        let (header, entry_size) = if self.class64 { (64, 56) } else { (52, 32) };
        let count = self.segments.len() + 1;
        let mut file = b"\x7fELF".to_vec();
        file.extend([if self.class64 { 2 } else { 1 }, 1, 1]);
        file.resize(16, 0);
        file.extend(2u16.to_le_bytes());
        file.extend(self.machine.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        file.extend(word(self.entry));
        file.extend(word(header));
        file.extend(word(0));
        file.extend(0u32.to_le_bytes());
        for half in [header as u16, entry_size, count as u16, 64, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let mut at = header + u64::from(entry_size) * count as u64;
        let mut content: Vec<u8> = Vec::new();
        let mut program = |kind: u32, physical, virtual_, size, bytes: &[u8]| {
            file.extend(kind.to_le_bytes());
            if self.class64 {
                file.extend(7u32.to_le_bytes());
            }
            for value in [at, virtual_, physical, bytes.len() as u64, size] {
                file.extend(word(value));
            }
            if !self.class64 {
                file.extend(7u32.to_le_bytes());
            }
            file.extend(word(4));
            content.extend(bytes);
            at += bytes.len() as u64;
        };
        for &(physical, virtual_, size, bytes) in self.segments {
            program(1, physical, virtual_, size, bytes);
        }
        program(4, 0, 0, self.note.len() as u64, self.note);
        file.extend(content);
        file
    }
}

fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [name.len() as u32, content.len() as u32, kind] {
        bytes.extend(word.to_le_bytes());
    }
    for part in [name, content] {
        bytes.extend(part);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

const CODE: &[u8] = b"machine code";
const AT: u64 = 0x20_0000;

fn pvh_elf(class64: bool, note: &[u8]) -> Vec<u8> {
    Elf {
        class64,
        machine: if class64 { 62 } else { 3 },
        entry: 0xc020_0004,
        segments: &[(AT, 0xc020_0000, 0x1000, CODE)],
        note,
    }
    .bytes()
}

#[test]
fn a_pvh_kernel_is_entered_where_its_note_says() {
    let initrd = vec![9; 100];
    for (class64, size) in [(true, 4), (true, 8), (false, 4)] {
        // Other notes come first, one with odd sizes.
        let mut notes = note(b"GNU\0", 3, b"12345");
        notes.extend(note(b"Xen\0", 6, b"linux\0"));
        notes.extend(note(b"Xen\0", 18, &(AT + 8).to_le_bytes()[..size]));
        let file = pvh_elf(class64, &notes);
        let loaded = load_x86_kernel(&X86Boot {
            initrd: Some(&initrd),
            ..boot(&file)
        })
        .unwrap();
        assert_eq!(loaded.kind, X86Kind::Pvh);
        let r = registers(&loaded);
        assert_eq!((r.rip, r.cr0, r.cr4, r.efer, r.rflags), (AT + 8, 0x11, 0, 0, 2));
        assert_eq!(
            (r.cs.attributes, r.cs.limit, r.data.attributes),
            (0xc09b, u32::MAX, 0xc093)
        );
        assert_eq!((r.tr.limit, r.tr.attributes), (0x67, 0x8b));
        assert_eq!(memory(&loaded, AT, CODE.len()), CODE);

        let info = memory(&loaded, r.rbx, 56);
        let at = |at| u64_at(&info, at).unwrap();
        assert_eq!(
            (u32_at(&info, 0), u32_at(&info, 4), u32_at(&info, 12)),
            (0x336e_c578, 1, 1)
        );
        assert_eq!(memory(&loaded, at(24), 14), b"console=ttyS0\0");
        assert_eq!(memory(&loaded, at(32), 8), b"RSD PTR ");
        let module = memory(&loaded, at(16), 32);
        assert_eq!(memory(&loaded, u64_at(&module, 0).unwrap(), 100), initrd);
        assert_eq!(u64_at(&module, 8), Some(100));
        let ranges = memory_map(MEMORY);
        assert_eq!(u32_at(&info, 48) as usize, ranges.len());
        let map = memory(&loaded, at(40), 24 * ranges.len());
        for (entry, range) in map.chunks(24).zip(&ranges) {
            assert_eq!(
                (u64_at(entry, 0), u64_at(entry, 8)),
                (Some(range.start), Some(range.size))
            );
            assert_eq!(u32_at(entry, 16), range.kind as u32);
        }
    }
}

#[test]
fn broken_notes_are_no_notes() {
    let good = note(b"Xen\0", 18, &(AT as u32).to_le_bytes());
    for size in 0..good.len() {
        // A 64-bit file without a usable note is a bare program.
        let file = pvh_elf(true, &good[..size]);
        assert_eq!(
            load_x86_kernel(&boot(&file)).unwrap().kind,
            X86Kind::Elf,
            "{size}"
        );
    }
    for bad in [
        note(b"Xen\0", 18, &(1u64 << 32 | AT).to_le_bytes()),
        note(b"Xen\0", 18, &[1, 2]),
        note(b"Xe", 18, &(AT as u32).to_le_bytes()),
        vec![0xff; 64],
    ] {
        let file = pvh_elf(true, &bad);
        assert_eq!(load_x86_kernel(&boot(&file)).unwrap().kind, X86Kind::Elf);
        let error = load_x86_kernel(&boot(&pvh_elf(false, &bad))).unwrap_err();
        assert!(matches!(error, FirmwareError::NotBootable { .. }), "{error}");
    }
    let outside = note(b"Xen\0", 18, &0x30_0000u32.to_le_bytes());
    let error = load_x86_kernel(&boot(&pvh_elf(true, &outside)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("its PVH entry 0x300000 is in no segment"),
        "{error}"
    );
}

#[test]
fn a_bare_program_is_entered_in_64_bit_mode() {
    let file = pvh_elf(true, &[]);
    let loaded = load_x86_kernel(&boot(&file)).unwrap();
    let r = registers(&loaded);
    assert_eq!((loaded.kind, r.rip, r.efer), (X86Kind::Elf, AT + 4, 0x500));
    assert_eq!(u32_at(&memory(&loaded, r.rsi, 4), 0), 0x336e_c578);
}

/// A multiboot header with these flags and address fields.
fn multiboot(flags: u32, fields: &[u32]) -> Vec<u8> {
    let magic = 0x1bad_b002u32;
    let sum = 0u32.wrapping_sub(magic).wrapping_sub(flags);
    let words = [magic, flags, sum];
    words
        .iter()
        .chain(fields)
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

fn check_multiboot(loaded: &X86Loaded, entry: u64) {
    assert_eq!(loaded.kind, X86Kind::Multiboot);
    let r = registers(loaded);
    assert_eq!((r.rip, r.rax, r.cr0), (entry, 0x2bad_b002, 0x11));
    let info = memory(loaded, r.rbx, 0x58);
    assert_eq!(u32_at(&info, 0) & 0b100_1101, 0b100_1101);
    assert_eq!(
        (u32_at(&info, 4), u32_at(&info, 8)),
        (639, 128 * 1024 - 1024 - 64)
    );
    assert_eq!(memory(loaded, u32_at(&info, 16).into(), 14), b"console=ttyS0\0");
    let (size, at) = (u32_at(&info, 44), u32_at(&info, 48));
    let ranges = memory_map(MEMORY);
    let map = memory(loaded, at.into(), size as usize);
    assert_eq!(map.len(), 24 * ranges.len());
    for (entry, range) in map.chunks(24).zip(&ranges) {
        assert_eq!((u32_at(entry, 0), u64_at(entry, 4)), (20, Some(range.start)));
    }
    assert_eq!(u32_at(&info, 20), 1);
    let module = memory(loaded, u32_at(&info, 24).into(), 16);
    let (start, end) = (u32_at(&module, 0), u32_at(&module, 4));
    assert_eq!(memory(loaded, start.into(), (end - start) as usize), b"module");
    assert_eq!(start % 4096, 0);
}

#[test]
fn multiboot_kernels_are_elf_or_flat() {
    let with_module = |file: &[u8]| {
        load_x86_kernel(&X86Boot {
            initrd: Some(b"module"),
            ..boot(file)
        })
    };
    let mut code = multiboot(0b11, &[]);
    code.extend(CODE);
    for class64 in [false, true] {
        let elf = Elf {
            class64,
            machine: if class64 { 62 } else { 3 },
            entry: 0xc020_000c,
            segments: &[(AT, 0xc020_0000, 0x1000, &code)],
            note: &[],
        };
        check_multiboot(&with_module(&elf.bytes()).unwrap(), AT + 12);
    }
    // Flat: the header at 0x40 in the file, loaded from 0x20 on.
    let mut file = vec![0x90; 0x40];
    let header = AT as u32 + 0x20;
    file.extend(multiboot(
        1 << 16,
        &[header, AT as u32, 0, AT as u32 + 0x5000, AT as u32 + 0x50],
    ));
    file.resize(0x200, 0xcc);
    let loaded = with_module(&file).unwrap();
    check_multiboot(&loaded, AT + 0x50);
    let kernel = loaded.segments.iter().find(|s| s.address == AT).unwrap();
    assert_eq!(
        (kernel.bytes.as_slice(), kernel.mem_size),
        (&file[0x20..], 0x5000)
    );
}

#[test]
fn broken_multiboot_kernels_say_what_is_wrong() {
    let at = AT as u32;
    for (flags, fields, message) in [
        (0b1000, [0; 5], "requires features 0x8"),
        (0, [0; 5], "its header has no addresses"),
        (
            1 << 16,
            [at - 1, at, 0, 0, at],
            "its load address is before the file",
        ),
        (
            1 << 16,
            [at + 4, at, 0, 0, at],
            "its load address is before the file",
        ),
        (1 << 16, [at, at, at - 1, 0, at], "it ends before it starts"),
        (
            1 << 16,
            [at, at, at + 0x1000, 0, at],
            "more bytes than the file has",
        ),
        (1 << 16, [at, at, 0, 0, at - 1], "its entry 0x1fffff is outside"),
        (
            1 << 16,
            [at, at, 0, u32::MAX, at],
            "the image wants 0xffdfffff bytes",
        ),
        (1 << 16, [0xa_0000, 0xa_0000, 0, 0, 0xa_0000], "the image wants"),
    ] {
        let error = load_x86_kernel(&boot(&multiboot(flags, &fields)))
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error}");
    }
    // Over the tables in low memory, and over a header that is cut off.
    let low = multiboot(1 << 16, &[0x2000, 0x2000, 0, 0, 0x2000]);
    assert!(matches!(
        load_x86_kernel(&boot(&low)),
        Err(FirmwareError::Overlap { .. })
    ));
    let cut = &multiboot(1 << 16, &[at; 5])[..20];
    assert!(load_x86_kernel(&boot(cut)).is_err());
}

#[test]
fn other_files_are_called_by_their_names() {
    let mut arm = vec![0; 64];
    put(&mut arm, 0x38, b"ARM\x64");
    let mut efi = vec![0; 64];
    put(&mut efi, 0, b"MZ");
    let riscv = Elf {
        class64: true,
        machine: 243,
        entry: AT,
        segments: &[(AT, AT, 16, CODE)],
        note: &[],
    };
    for (file, name) in [
        (b"#!/bin/sh\n".to_vec(), "no kernel of a known kind"),
        (arm, "arm64"),
        (efi, "EFI program"),
        (riscv.bytes(), "machine 243"),
        (pvh_elf(false, &[]), "neither a PVH note nor a multiboot header"),
        (0xe852_50d6u32.to_le_bytes().to_vec(), "multiboot 2"),
        (b"\x7fELF\x02\x02".to_vec(), "cut off"),
    ] {
        let error = load_x86_kernel(&boot(&file)).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    // A RISC-V Image is no bzImage, and an x86 ELF file no RISC-V one.
    let error = crate::load_kernel(&pvh_elf(true, &[]), crate::layout::RAM, MEMORY).unwrap_err();
    assert!(matches!(error, FirmwareError::WrongArchitecture { .. }));
}

#[test]
fn gzip_is_unpacked_within_bounds() {
    use std::io::Write;
    let pack = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(
        load_x86_kernel(&boot(&pack(&bzimage()))).unwrap().kind,
        X86Kind::BzImage
    );
    let bomb = pack(&vec![0; 9 << 20]);
    let small = X86Boot {
        memory: 8 << 20,
        ..boot(&bomb)
    };
    let limit = 8 << 20;
    assert_eq!(
        load_x86_kernel(&small),
        Err(FirmwareError::UnpacksTooLarge { limit })
    );
}

/// What holds for everything that is loaded at all.
fn check_loaded(loaded: &X86Loaded, memory: u64) {
    for pair in loaded.segments.windows(2) {
        assert!(pair[0].end() <= pair[1].address);
    }
    for Segment {
        address,
        bytes,
        mem_size,
    } in &loaded.segments
    {
        assert!(bytes.len() as u64 <= *mem_size);
        let low = address + mem_size <= layout::low_ram(memory);
        let high =
            *address >= layout::HIGH_RAM && address + mem_size <= layout::HIGH_RAM + layout::high_ram(memory);
        assert!(low || high);
        assert!(address + mem_size <= layout::VGA || *address >= layout::VGA_END);
    }
}

proptest! {
    /// Any change of any bytes either loads into RAM or is an error.
    #[test]
    fn hostile_files_do_no_harm(
        kind in 0usize..4,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        early in proptest::collection::vec((0usize..0x140, any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut code = multiboot(1 << 16, &[AT as u32, AT as u32, 0, 0, AT as u32]);
        code.extend(CODE);
        let mut file = match kind {
            0 => bzimage(),
            1 => pvh_elf(true, &note(b"Xen\0", 18, &(AT as u32).to_le_bytes())),
            2 => code,
            _ => Elf { class64: false, machine: 3, entry: AT, segments: &[(AT, AT, 99, &code)], note: &[] }.bytes(),
        };
        let first = if kind == 0 { 0x1f1 } else { 0 };
        for (at, value) in early {
            if let Some(byte) = file.get_mut(first + at) {
                *byte = value;
            }
        }
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        if cuts {
            file.truncate(cut.index(file.len()));
        }
        let boot = X86Boot { initrd: Some(b"initrd"), ..boot(&file) };
        if let Ok(loaded) = load_x86_kernel(&boot) {
            check_loaded(&loaded, MEMORY);
        }
    }
}
