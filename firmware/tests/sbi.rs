//! The built-in firmware on QEMU: the same supervisor calls must give the same answers as OpenSBI's,
//! and Debian's kernel must boot on it. What isn't installed or fetched is said, and skipped.
#![allow(clippy::unwrap_used, clippy::useless_conversion)]

use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler, dynasm, riscv::RiscvRelocation};
use firmware::{FdtConfig, SbiConfig, layout};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-riscv64";

fn qemu_is_there() -> bool {
    let there = Command::new(QEMU)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !there {
        eprintln!("SKIPPED: {QEMU} is not installed");
    }
    there
}

fn qemu(arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new("timeout")
        .args(["180", QEMU, "-M", "virt", "-nographic", "-monitor", "none"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    (console, output.status.code())
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

const BASE: u64 = 0x10;
const TIME: u64 = 0x5449_4d45;
const IPI: u64 = 0x73_5049;
const RFENCE: u64 = 0x5246_4e43;
const HSM: u64 = 0x48_534d;
const SRST: u64 = 0x5352_5354;
const DBCN: u64 = 0x4442_434e;
const ALL: u64 = u64::MAX;
/// Where hart 1 is sent: the guest's label of that name lies here.
const SECOND_HART: u64 = layout::KERNEL + 0x800;

/// Calls on a machine of two harts: extension, function, arguments.
const CALLS: &[(&str, u64, u64, [u64; 5])] = &[
    ("spec version", BASE, 0, [0; 5]),
    ("probe base", BASE, 3, [BASE, 0, 0, 0, 0]),
    ("probe time", BASE, 3, [TIME, 0, 0, 0, 0]),
    ("probe ipi", BASE, 3, [IPI, 0, 0, 0, 0]),
    ("probe rfence", BASE, 3, [RFENCE, 0, 0, 0, 0]),
    ("probe hsm", BASE, 3, [HSM, 0, 0, 0, 0]),
    ("probe srst", BASE, 3, [SRST, 0, 0, 0, 0]),
    ("probe dbcn", BASE, 3, [DBCN, 0, 0, 0, 0]),
    ("probe legacy putchar", BASE, 3, [1, 0, 0, 0, 0]),
    ("probe nonsense", BASE, 3, [0x1234_5678, 0, 0, 0, 0]),
    ("vendor", BASE, 4, [0; 5]),
    ("base, no such function", BASE, 99, [0; 5]),
    ("no such extension", 0x1234_5678, 0, [0; 5]),
    ("set timer", TIME, 0, [ALL, 0, 0, 0, 0]),
    ("time, no such function", TIME, 1, [0; 5]),
    ("ipi to nobody", IPI, 0, [0, 0, 0, 0, 0]),
    ("ipi to self", IPI, 0, [1, 0, 0, 0, 0]),
    ("ipi, base out of range", IPI, 0, [1, 99, 0, 0, 0]),
    ("status of hart 0", HSM, 2, [0; 5]),
    ("status of hart 1, stopped", HSM, 2, [1, 0, 0, 0, 0]),
    ("status of hart 9", HSM, 2, [9, 0, 0, 0, 0]),
    ("start hart 9", HSM, 0, [9, SECOND_HART, 0, 0, 0]),
    ("start hart 0", HSM, 0, [0, SECOND_HART, 0, 0, 0]),
    ("start hart 1", HSM, 0, [1, SECOND_HART, 77, 0, 0]),
    ("start hart 1 again", HSM, 0, [1, SECOND_HART, 77, 0, 0]),
    ("remote fence.i", RFENCE, 0, [3, 0, 0, 0, 0]),
    ("remote fence.i by base", RFENCE, 0, [1, 1, 0, 0, 0]),
    ("remote sfence.vma", RFENCE, 1, [0, ALL, 0, ALL, 0]),
    (
        "remote sfence.vma, range",
        RFENCE,
        1,
        [3, 0, 0x8000_0000, 0x1000, 0],
    ),
    (
        "remote sfence.vma, asid",
        RFENCE,
        2,
        [3, 0, 0x8000_0000, 0x1000, 5],
    ),
    ("remote fence, no such function", RFENCE, 99, [3, 0, 0, 0, 0]),
    ("status of hart 1, started", HSM, 2, [1, 0, 0, 0, 0]),
    ("suspend, reserved function", HSM, 99, [0; 5]),
    ("write, 64-bit address", DBCN, 0, [4, 0, 1 << 40, 0, 0]),
    ("write nothing", DBCN, 0, [0, layout::KERNEL, 0, 0, 0]),
    (
        "read, nothing there",
        DBCN,
        1,
        [8, layout::KERNEL + 0x10_0000, 0, 0, 0],
    ),
    ("write byte", DBCN, 2, [b'!' as u64, 0, 0, 0, 0]),
    ("console, no such function", DBCN, 99, [0; 5]),
    ("reset, reserved type", SRST, 0, [0x1234, 0, 0, 0, 0]),
    ("reset, no such function", SRST, 1, [0; 5]),
    ("shutdown", SRST, 0, [0; 5]),
];

/// Where OpenSBI 1.5 departs from the specification, which has INVALID_PARAM (SBI 12.1).
const DEPARTS: &str = "write, 64-bit address";

/// A supervisor program at [`layout::KERNEL`] that makes all calls and prints error and value of each,
/// and what hart 1 has found in a0, a1 and satp by then.
fn caller() -> Vec<u8> {
    let mut asm = VecAssembler::<RiscvRelocation>::new(0);
    dynasm!(asm
        ; .arch riscv64i
        ; .feature imafd, zicsr
        ; la s0, ->calls
        ; la s1, ->calls_end
        ; next_call:
        ; ld a7, [s0]
        ; ld a6, [s0, 8]
        ; ld a0, [s0, 16]
        ; ld a1, [s0, 24]
        ; ld a2, [s0, 32]
        ; ld a3, [s0, 40]
        ; ld a4, [s0, 48]
        ; ecall
        ; mv s2, a0
        ; mv s3, a1
        // Time for hart 1 to come up.
        ; li.32 t0, 20_000_000
        ; delay:
        ; addi t0, t0, -1
        ; bnez t0, <delay
        ; mv a0, s2
        ; jal ->hex
        ; mv a0, s3
        ; jal ->hex
        ; la s4, ->second_said
        ; ld a0, [s4]
        ; jal ->hex
        ; ld a0, [s4, 8]
        ; jal ->hex
        ; ld a0, [s4, 16]
        ; jal ->hex
        ; li.12 t2, b'\n' as i32
        ; jal t5, ->putc
        ; addi s0, s0, 56
        ; bne s0, s1, <next_call
        ; hang:
        ; j <hang

        ; ->hex:
        ; li.12 t3, 60
        ; digit:
        ; srl t2, a0, t3
        ; andi t2, t2, 15
        ; addi t2, t2, b'0' as i32
        ; li.12 t1, b'9' as i32
        ; ble t2, t1, >decimal
        ; addi t2, t2, 39
        ; decimal:
        ; jal t5, ->putc
        ; addi t3, t3, -4
        ; bgez t3, <digit
        ; li.12 t2, b' ' as i32
        ; jal t5, ->putc
        ; ret

        ; ->putc:
        ; li.32 t0, layout::UART as i32
        ; wait:
        ; lbu t1, [t0, 5]
        ; andi t1, t1, 0x20
        ; beqz t1, <wait
        ; sb t2, [t0]
        ; jr t5

        // Hart 1: notes what it was given, waits.
        ; .align 0x800, 0
        ; ->second_hart:
        ; la t0, ->second_said
        ; sd a0, [t0]
        ; sd a1, [t0, 8]
        ; csrr t1, satp
        ; sd t1, [t0, 16]
        ; rest:
        ; j <rest
        ; .align 8, 0
        ; ->second_said:
        ; .i64 -1
        ; .i64 -1
        ; .i64 -1
        ; .align 8, 0
        ; ->calls:
    );
    for (_, extension, function, arguments) in CALLS {
        for word in [extension, function].into_iter().chain(arguments) {
            asm.extend(word.to_le_bytes());
        }
    }
    dynasm!(asm; .arch riscv64i; ->calls_end:);
    asm.finalize().unwrap()
}

#[test]
fn calls_answer_like_opensbi() {
    if !qemu_is_there() {
        return;
    }
    let guest = file(&caller());
    let ours = file(&firmware::sbi(&SbiConfig::new(2, 256 << 20)));
    let run = |bios: &str| {
        let kernel = guest.path().to_str().unwrap();
        let (console, code) = qemu(&["-m", "256M", "-smp", "2", "-bios", bios, "-kernel", kernel]);
        assert_eq!(code, Some(0), "{console}");
        // OpenSBI's banner comes first; answers begin with the first line of hex digits.
        let is_answer = |line: &&str| line.contains("0000") && !line.contains(':');
        console
            .lines()
            .filter(is_answer)
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let (expected, answers) = (run("default"), run(ours.path().to_str().unwrap()));
    // The last call doesn't return.
    for (n, (name, ..)) in CALLS.iter().enumerate().take(CALLS.len() - 1) {
        if *name == DEPARTS {
            assert!(
                answers[n].starts_with("fffffffffffffffd 0000000000000000"),
                "{}",
                answers[n]
            );
            continue;
        }
        assert_eq!(
            answers.get(n),
            expected.get(n),
            "{name}\nours {answers:#?}\nOpenSBI {expected:#?}"
        );
    }
    assert_eq!(answers.len(), CALLS.len() - 1, "{answers:#?}");
}

/// The images that `tests/images.sh riscv64` fetches.
fn images() -> Option<PathBuf> {
    let images = std::env::var_os("TICKBACK_IMAGES")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/images/riscv64")));
    if images.join("vmlinux").exists() && images.join("initramfs.cpio.gz").exists() {
        return Some(images);
    }
    eprintln!("SKIPPED: no images; run tests/images.sh riscv64");
    None
}

/// Boots Debian on `harts` harts, whose ISA lacks `without`, and powers off.
fn linux(harts: u32, without: &str) {
    let (true, Some(images)) = (qemu_is_there(), images()) else {
        return;
    };
    let mut config = FdtConfig::new(harts, 512 << 20);
    config.extensions.retain(|e| e != without);
    config.reserved = vec![(layout::RAM, 0x8_0000)];
    let fdt = file(&firmware::riscv_virt_fdt(&config).unwrap());
    let bios = file(&firmware::sbi(&SbiConfig::new(harts, 512 << 20)));
    let (smp, cpu) = (harts.to_string(), format!("rv64,sstc={}", without != "sstc"));
    let path = |p: &std::path::Path| p.to_str().unwrap().to_string();
    let (console, _) = qemu(&[
        "-m",
        "512M",
        "-smp",
        &smp,
        "-cpu",
        &cpu,
        "-bios",
        &path(bios.path()),
        "-dtb",
        &path(fdt.path()),
        "-kernel",
        &path(&images.join("vmlinux")),
        "-initrd",
        &path(&images.join("initramfs.cpio.gz")),
        "-append",
        "console=ttyS0 earlycon=sbi bench=getppid",
    ]);
    assert!(
        console.contains("Machine model: riscv-virtio,tickback"),
        "{console}"
    );
    assert!(console.contains("SBI DBCN extension detected"), "{console}");
    assert!(console.contains(&format!("{harts} CPU")), "{console}");
    assert_eq!(console.contains("sstc extension"), without != "sstc", "{console}");
    assert!(console.contains("reboot: Power down"), "{console}");
}

#[test]
fn linux_boots_on_four_harts() {
    linux(4, "");
}

#[test]
fn linux_boots_with_the_timer_by_calls() {
    linux(2, "sstc");
}
