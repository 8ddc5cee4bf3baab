//! The guests on QEMU, the outside judge of what they must print. Without `qemu-system-riscv64` the
//! tests say so and pass.
#![allow(clippy::unwrap_used)]

use firmware::Guest;
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
