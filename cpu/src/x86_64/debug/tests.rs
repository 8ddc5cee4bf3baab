//! Registers from outside, and whether gdb takes the description.

use super::super::fake::*;
use super::super::flags;
use super::*;
use crate::Cpu;
use std::process::Command;

fn number(name: &str) -> u32 {
    registers().iter().find(|r| r.name == name).unwrap().number
}

#[test]
fn what_is_written_reads_back() {
    let mut rig = Rig::long();
    let wide = |value: u64| value.to_le_bytes().to_vec();
    let xmm: Vec<u8> = (1..=16).collect();
    let pi = [0x35, 0xc2, 0x68, 0x21, 0xa2, 0xda, 0x0f, 0xc9, 0, 0x40];
    let cases = [
        ("rax", wide(1)),
        ("rbx", wide(2)),
        ("rsp", wide(3)),
        ("r15", wide(4)),
        ("rip", wide(0xffff_8000_0000_0000)),
        ("eflags", vec![0x47, 2, 0, 0]),
        ("fs_base", wide(0xffff_8000_0000_1000)),
        ("gs_base", wide(5)),
        ("st0", pi.to_vec()),
        ("xmm15", xmm),
        ("mxcsr", vec![0, 0x1f, 0, 0]),
    ];
    for (name, value) in &cases {
        assert_eq!(rig.hart.write_register(number(name), value), Ok(()), "{name}");
    }
    for (name, value) in &cases {
        assert_eq!(
            rig.hart.read_register(number(name)).as_ref(),
            Some(value),
            "{name}"
        );
    }
    assert_eq!(rig.hart.regs[slots::RBX], 2);
    assert_eq!(rig.hart.eflags(), IF | flags::CF | flags::PF | flags::ZF | ALWAYS);
}

#[test]
fn what_is_more_than_a_number_stays() {
    let mut rig = Rig::long();
    let n = number("cr3");
    assert_eq!(
        rig.hart.write_register(n, &0x1000u64.to_le_bytes()),
        Ok(()),
        "its own value"
    );
    rig.hart.write_register(n, &0x2000u64.to_le_bytes()).unwrap_err();
    rig.hart.write_register(number("cs"), &[0; 4]).unwrap_err();
    rig.hart.write_register(number("rax"), &[0; 4]).unwrap_err();
    rig.hart
        .write_register(number("fs_base"), &(1u64 << 47).to_le_bytes())
        .unwrap_err();
    rig.hart.write_register(9999, &[]).unwrap_err();
    rig.ring(0, selector::CODE32);
    rig.hart
        .write_register(RIP, &(1u64 << 32).to_le_bytes())
        .unwrap_err();
}

#[test]
fn every_register_reads_in_its_width() {
    let rig = Rig::long();
    for (i, r) in registers().iter().enumerate() {
        assert_eq!(r.number as usize, i);
        let bytes = rig.hart.read_register(r.number).unwrap();
        assert_eq!(bytes.len() * 8, r.bits as usize, "{}", r.name);
    }
    assert_eq!(rig.hart.read_register(registers().len() as u32), None);
}

/// gdb itself, where there is one: it warns of what it misses in a description.
#[test]
fn gdb_takes_the_description() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("target.xml");
    std::fs::write(&path, target_xml()).unwrap();
    let set = format!("set tdesc filename {}", path.display());
    let run = Command::new("gdb-multiarch")
        .args(["-nx", "-batch", "-ex", &set, "-ex", "maint print registers"])
        .output();
    let Ok(output) = run else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("warning"), "{errors}");
    for name in [
        "rip",
        "st7",
        "xmm15",
        "mxcsr",
        "gs_base",
        "cr3",
        "k_gs_base",
        "lstar",
    ] {
        let found = text
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name));
        assert!(found, "{name}:\n{text}");
    }
}
