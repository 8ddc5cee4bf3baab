//! What the PC's loaders promise, on QEMU's PC: kernels not made here start from the memory and the
//! registers that `firmware::x86` says, and find the board by the ACPI tables. Without
//! `qemu-system-x86_64` or the images the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::useless_conversion)]

mod starter;

use firmware::x86::{X86Boot, X86Kind, load_x86_kernel};
use starter::Pc;
use std::path::PathBuf;

const MEMORY: u64 = 512 << 20;

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

/// Boots Debian with these words on its command line and a virtio disk; its console.
fn linux(cpus: u32, words: &str) -> Option<String> {
    linux_kernel(&image("vmlinuz")?, X86Kind::BzImage, cpus, words)
}

fn linux_kernel(kernel: &[u8], kind: X86Kind, cpus: u32, words: &str) -> Option<String> {
    let initrd = image("initramfs.cpio.gz")?;
    let disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(1 << 20).unwrap();
    let loaded = load_x86_kernel(&X86Boot {
        memory: MEMORY,
        cpus,
        kernel,
        initrd: Some(&initrd),
        command_line: &format!("console=ttyS0 {words}"),
        vga: true,
    })
    .unwrap();
    assert_eq!(loaded.kind, kind);
    let drive = format!("file={},format=raw,if=virtio", disk.path().display());
    let smp = cpus.to_string();
    let pc = Pc::start(&loaded, MEMORY, &["-drive", &drive, "-smp", &smp], None)?;
    assert_eq!(pc.code, Some(0), "it did not turn itself off:\n{}", pc.console);
    Some(pc.console)
}

#[track_caller]
fn check(console: &str, lines: &[&str]) {
    for line in lines {
        assert!(console.contains(line), "{line} is missing in\n{console}");
    }
    for bad in [
        "ACPI BIOS Error",
        "ACPI Error",
        "AE_",
        "[Firmware Bug]",
        "Kernel panic",
    ] {
        assert!(!console.contains(bad), "{bad} in\n{console}");
    }
}

#[test]
fn debian_finds_the_machine_with_the_apics() {
    let Some(console) = linux(2, "bench=short") else {
        return;
    };
    check(
        &console,
        &[
            "BIOS-e820: [mem 0x0000000000100000-0x000000001ffeffff] usable",
            "BIOS-e820: [mem 0x000000001fff0000-0x000000001fffffff] ACPI NVS",
            "ACPI: RSDP 0x00000000000F0000 000024 (v02 TICKBK)",
            "ACPI: PM-Timer IO Port: 0x608",
            "IOAPIC[0]: apic_id 0, version",
            "ACPI: INT_SRC_OVR (bus 0 bus_irq 0 global_irq 2 dfl dfl)",
            "ACPI: INT_SRC_OVR (bus 0 bus_irq 9 global_irq 9 high level)",
            "smp: Brought up 1 node, 2 CPUs",
            "ACPI: Using IOAPIC for interrupt routing",
            "pci_bus 0000:00: root bus resource [mem 0xc0000000-0xfebfffff window]",
            "ttyS0 at I/O 0x3f8 (irq = 4",
            "rtc_cmos 00:",
            "[vda] 2048 512-byte logical blocks",
            "@@E forkexec",
            "reboot: Power down",
        ],
    );
}

#[test]
fn debian_finds_the_machine_with_the_8259s() {
    let Some(console) = linux(1, "noapic nolapic pci=nomsi bench=short") else {
        return;
    };
    check(
        &console,
        &[
            "ACPI: Using PIC for interrupt routing",
            "ACPI: PCI: Interrupt link LNKA configured for IRQ 0",
            // Its interrupts come by a link, or reading the partition table would not end.
            "[vda] 2048 512-byte logical blocks",
            "@@E forkexec",
            "reboot: Power down",
        ],
    );
}

/// The ELF kernel inside of a bzImage, which it unpacks when it is started by its own protocol.
fn vmlinux(file: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let payload = &file[512 * (1 + usize::from(file[0x1f1])) + word(0x248)..][..word(0x24c)];
    let mut kernel = Vec::new();
    let decoder = zstd::Decoder::new(payload).unwrap();
    // Behind the compressed stream stands its size.
    let _ = decoder.single_frame().read_to_end(&mut kernel).unwrap();
    kernel
}

#[test]
fn debian_starts_by_pvh() {
    let Some(file) = image("vmlinuz") else { return };
    let console = linux_kernel(&vmlinux(&file), X86Kind::Pvh, 1, "bench=short");
    let Some(console) = console else { return };
    check(
        &console,
        &[
            "BIOS-e820: [mem 0x000000001fff0000-0x000000001fffffff] ACPI NVS",
            "ACPI: RSDP 0x00000000000F0000 000024 (v02 TICKBK)",
            "@@E forkexec",
            "reboot: Power down",
        ],
    );
}

#[test]
fn memtest_runs() {
    let Some(kernel) = image("memtest86+x64.bin") else {
        return;
    };
    let loaded = load_x86_kernel(&X86Boot {
        memory: 64 << 20,
        cpus: 1,
        kernel: &kernel,
        initrd: None,
        command_line: "console=ttyS0,115200",
        vga: true,
    })
    .unwrap();
    assert_eq!(loaded.kind, X86Kind::BzImage);
    let name = "Memtest86+";
    let Some(pc) = Pc::start(&loaded, 64 << 20, &[], Some(name)) else {
        return;
    };
    assert!(pc.console.contains(name), "{}", pc.console);
}

const SMALL: u64 = 64 << 20;

fn boot<'a>(kernel: &'a [u8], command_line: &'a str) -> X86Boot<'a> {
    X86Boot {
        memory: SMALL,
        cpus: 1,
        kernel,
        initrd: Some(b"module"),
        command_line,
        vga: false,
    }
}

fn check_demo(pc: &Pc) {
    assert_eq!(pc.code, Some(1), "{}", pc.console);
    for line in [
        "demo: two tasks, one list, no lock\ndemo: tasks started\n",
        "demo: list corrupted: node 0x10",
        "\ndemo: panic: bad value 0x10",
    ] {
        assert!(pc.console.contains(line), "{}", pc.console);
    }
    // The bad value is where a node is, and stands in a node's prev.
    let demo = firmware::x86_demo();
    let nodes = demo.guest.symbol("nodes").unwrap();
    let (_, panic) = pc.console.split_once("bad value 0x").unwrap();
    let (value, address) = panic.trim_end().split_once(" at 0x").unwrap();
    let [value, address] = [value, address].map(|text| u64::from_str_radix(text, 16).unwrap() - nodes);
    assert_eq!((value % 32, address % 32), (0, 8));
    assert!(value < 1024 && address < 1024);
}

#[test]
fn the_demo_panics_however_it_is_started() {
    let elf = firmware::x86_demo().to_elf();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &elf).unwrap();
    let Some(pc) = Pc::kernel(file.path()) else { return };
    check_demo(&pc);

    let start = |elf: &[u8], kind| {
        let loaded = load_x86_kernel(&boot(elf, "")).unwrap();
        assert_eq!(loaded.kind, kind);
        check_demo(&Pc::start(&loaded, SMALL, &["-icount", "shift=0"], None).unwrap());
    };
    start(&elf, X86Kind::Pvh);
    // Without its note it is entered in 64-bit mode.
    let mut bare = elf;
    let name = bare.windows(4).position(|four| four == b"Xen\0").unwrap();
    bare[name] = b'x';
    start(&bare, X86Kind::Elf);
}

#[test]
fn the_demos_culprit_is_the_store_that_it_should_be() {
    let guest = firmware::x86_demo().guest;
    let at = guest.symbol("list_remove").unwrap() + firmware::X86_DEMO_CULPRIT - guest.load;
    // mov [rdx+8], rax; ret
    assert_eq!(guest.image[at as usize..][..5], [0x48, 0x89, 0x42, 0x08, 0xc3]);
    let first = guest.symbol("list_remove").unwrap() - guest.load;
    assert_eq!(guest.image[first as usize..][..4], [0x48, 0x8b, 0x47, 0x08]);
    assert!(
        guest
            .symbols
            .iter()
            .all(|&(_, at)| at < guest.load + guest.image.len() as u64)
    );
}

/// A multiboot kernel that prints its command line and its module, if everything is as promised.
fn multiboot_kernel() -> Vec<u8> {
    use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler, dynasm, x86::X86Relocation};
    const LOAD: u32 = 0x20_0000;
    const MAGIC: u32 = 0x1bad_b002;
    const FLAGS: u32 = 1 << 16 | 0b11;
    let mut asm = VecAssembler::<X86Relocation>::new(LOAD as usize);
    let words = [
        MAGIC,
        FLAGS,
        0u32.wrapping_sub(MAGIC).wrapping_sub(FLAGS),
        LOAD,
        LOAD,
        0,
        0,
        LOAD + 32,
    ];
    dynasm!(asm
        ; .arch x86
        ; .bytes words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().iter()
        ; cmp eax, 0x2bad_b002
        ; jne >wrong
        ; mov ebp, [ebx]
        ; and ebp, 0b100_1101
        ; cmp ebp, 0b100_1101
        ; jne >wrong
        ; mov esp, 0x9000
        // A push and a pop need the stack's segment, a store to the code its data segment.
        ; push eax
        ; pop DWORD [LOAD as i32]
        ; mov esi, [ebx + 16]
        ; print:
        ; lodsb
        ; test al, al
        ; jz >printed
        ; mov dx, 0x3f8
        ; out dx, al
        ; jmp <print
        ; printed:
        ; cmp DWORD [ebx + 20], 1
        ; jne >wrong
        ; mov edi, [ebx + 24]
        ; mov esi, [edi]
        ; print_module:
        ; cmp esi, [edi + 4]
        ; je >done
        ; lodsb
        ; out dx, al
        ; jmp <print_module
        ; wrong:
        ; mov al, b'!' as i8
        ; mov dx, 0x3f8
        ; out dx, al
        ; done:
        ; mov eax, 8
        ; mov dx, 0xf4
        ; out dx, eax
        ; hang:
        ; hlt
        ; jmp <hang
    );
    asm.finalize().unwrap()
}

#[test]
fn a_multiboot_kernel_finds_what_it_was_promised() {
    let kernel = multiboot_kernel();
    let loaded = load_x86_kernel(&boot(&kernel, "one two ")).unwrap();
    assert_eq!(loaded.kind, X86Kind::Multiboot);
    let Some(pc) = Pc::start(&loaded, SMALL, &[], None) else {
        return;
    };
    assert_eq!((pc.console.as_str(), pc.code), ("one two module", Some(17)));
}
