//! The guests on QEMU, the outside judge of what they must print. Without `qemu-system-riscv64` the
//! tests say so and pass.
#![allow(clippy::unwrap_used, clippy::useless_conversion)]

use firmware::{Guest, layout};
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-riscv64";

/// Console and exit code; nothing if QEMU isn't installed.
fn qemu(guest: &Guest, extra: &[&str]) -> Option<(String, Option<i32>)> {
    if Command::new(QEMU)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("SKIPPED: {QEMU} is not installed");
        return None;
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(image.path(), &guest.image).unwrap();
    let output = Command::new("timeout")
        .args([
            "120",
            QEMU,
            "-M",
            "virt",
            "-m",
            "64M",
            "-nographic",
            "-monitor",
            "none",
        ])
        .args(["-icount", "shift=0", "-bios"])
        .arg(image.path())
        .args(extra)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    Some((console, output.status.code()))
}

#[test]
fn demo_panics() {
    let Some((console, code)) = qemu(&firmware::demo(), &[]) else {
        return;
    };
    assert_eq!(code, Some(1), "{console}");
    assert!(console.contains("demo: list corrupted: node 0x8"), "{console}");
}

#[test]
fn fp_mix_prints_what_is_on_record() {
    let Some((console, code)) = qemu(&firmware::fp_mix(), &[]) else {
        return;
    };
    assert_eq!((console.as_str(), code), (firmware::FP_MIX_CONSOLE, Some(0)));
}

#[test]
fn paging_prints_what_is_on_record() {
    let Some((console, code)) = qemu(&firmware::paging(), &[]) else {
        return;
    };
    assert_eq!(code, Some(0), "{console}");
    assert!(console.ends_with(firmware::PAGING_CONSOLE), "{console}");
}

#[test]
fn harts_agree() {
    for harts in [1u32, 2, 4] {
        let smp = harts.to_string();
        let Some((console, code)) = qemu(&firmware::smp_demo(harts), &["-smp", &smp]) else {
            return;
        };
        assert_eq!(code, Some(0), "{console}");
        let total = format!(
            "smp: all {harts} harts agree: {} increments, token laps 200\n",
            20_000 * harts
        );
        assert!(console.ends_with(&total), "{console}");
    }
}

/// Put at the start of RAM, the reset vector must enter what it is told with the promised registers.
#[test]
fn the_reset_vector_keeps_its_contract() {
    use dynasmrt::{DynasmApi, DynasmLabelApi, VecAssembler, dynasm, riscv::RiscvRelocation};
    const FDT: u64 = 0x8765_4320;
    let start = layout::RAM + 0x100;
    let info = firmware::fw_dynamic_info(layout::KERNEL, firmware::NextMode::Supervisor, 0);
    let mut image = firmware::reset_rom(start, FDT, &info);
    image.resize(0x100, 0);
    let mut asm = VecAssembler::<RiscvRelocation>::new(0);
    dynasm!(asm
        ; .arch riscv64i
        ; .feature imafd, zicsr
        ; li.32 t1, layout::FINISHER as i32
        ; li.32 t2, 1 << 16 | layout::FINISHER_FAIL as i32
        ; csrr t0, mhartid
        ; bne a0, t0, >wrong
        ; ld t0, >fdt
        ; bne a1, t0, >wrong
        ; li.32 t0, 0x4942_534f
        ; ld t3, [a2]
        ; bne t3, t0, >wrong
        ; li.32 t2, layout::FINISHER_PASS as i32
        ; wrong:
        ; sw t2, [t1]
        ; hang:
        ; j <hang
        ; .align 8, 0
        ; fdt:
        ; .u64 FDT
    );
    image.extend(asm.finalize().unwrap());
    let guest = Guest {
        image,
        load: layout::RAM,
        entry: layout::RAM,
        data: layout::RAM,
        symbols: Vec::new(),
    };
    let Some((console, code)) = qemu(&guest, &[]) else {
        return;
    };
    assert_eq!(code, Some(0), "{console}");
}
