//! Tests of the debugger's view.

use super::*;
use crate::Cpu;
use crate::riscv64::fake::Rig;
use crate::riscv64::slots;

fn number(name: &str) -> u32 {
    registers().iter().find(|r| r.name == name).unwrap().number
}

#[test]
fn numbers_are_gdbs() {
    let cases = [
        ("zero", 0),
        ("t6", 31),
        ("pc", 32),
        ("ft0", 33),
        ("ft11", 64),
        ("fflags", 66),
        ("frm", 67),
        ("fcsr", 68),
    ];
    for (name, n) in cases {
        assert_eq!(number(name), n);
    }
    for (name, n) in [
        ("mstatus", 65 + 0x300),
        ("satp", 65 + 0x180),
        ("mhartid", 65 + 0xf14),
        ("priv", 4161),
    ] {
        assert_eq!(number(name), n);
    }
    assert!(registers().is_sorted_by(|a, b| a.number < b.number));
    assert!(registers().iter().all(|r| r.name != "time"));
}

#[test]
fn the_description_names_every_register_once() {
    let xml = target_xml();
    for r in registers() {
        let entry = format!("<reg name=\"{}\" bitsize=\"64\" regnum=\"{}\"", r.name, r.number);
        assert_eq!(xml.matches(&entry).count(), 1, "{}", r.name);
    }
    for feature in ["cpu", "fpu", "csr", "virtual"] {
        assert_eq!(
            xml.matches(&format!("\"org.gnu.gdb.riscv.{feature}\"")).count(),
            1
        );
    }
    assert_eq!(xml.matches("<reg ").count(), registers().len());
}

#[test]
fn every_register_reads_and_reading_changes_nothing() {
    let mut rig = Rig::at(0);
    rig.hart.regs_mut()[slots::x(10)] = 0x1122_3344_5566_7788;
    let before = rig.hart.save();
    for r in registers() {
        assert_eq!(rig.hart.read_register(r.number).unwrap().len(), 8, "{}", r.name);
    }
    assert_eq!(
        rig.hart.read_register(10).unwrap(),
        [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
    );
    for none in [65, 69, 65 + 0xc01, 4160, 4162, u32::MAX] {
        assert_eq!(rig.hart.read_register(none), None);
    }
    assert_eq!(rig.hart.save(), before);
}

#[test]
fn writes() {
    let mut rig = Rig::at(1);
    let hart = &mut rig.hart;
    let mut write = |n: u32, v: u64| {
        hart.write_register(n, &v.to_le_bytes())
            .map(|()| hart.debug_read(n).unwrap())
    };
    assert_eq!(write(5, 9), Ok(9));
    assert_eq!(write(0, 0), Ok(0));
    assert!(write(0, 1).is_err());
    assert_eq!(write(PC, 0x8000_0002), Ok(0x8000_0002));
    assert!(write(PC, 1).is_err());
    assert_eq!(write(F0 + 3, !0), Ok(!0));
    assert_eq!(write(PRIVILEGE, 3), Ok(3));
    assert!(write(PRIVILEGE, 2).is_err());
    assert!(write(PRIVILEGE, 256).is_err());
    assert_eq!(write(number("mepc"), 0x33), Ok(0x32), "WARL");
    assert_eq!(
        write(number("fcsr"), 0x41),
        Ok(0x41),
        "FS is Off, which doesn't bind a debugger"
    );
    assert_eq!(write(number("minstret"), 5), Ok(5), "no increment to make up for");
    assert_eq!(write(number("stimecmp"), 5), Ok(5));
    for n in [number("mhartid"), number("cycle"), 65, 4162, u32::MAX] {
        assert!(write(n, 0).is_err());
    }
    assert!(hart.write_register(5, &[0; 4]).is_err());
    assert!(hart.write_register(5, &[]).is_err());
    assert_eq!(hart.debug_read(5), Some(9));
}

#[test]
fn a_deadline_that_a_debugger_moved_into_the_past_comes_due() {
    let mut rig = Rig::at(3);
    rig.write(0x30a, 1 << 63);
    rig.hart
        .write_register(number("stimecmp"), &3u64.to_le_bytes())
        .unwrap();
    assert_eq!(rig.hart.deadline(), Some(300));
    rig.hart.tick(5000);
    assert_eq!(rig.read(0x344), 1 << 5);
    // Writing another field of menvcfg leaves it.
    rig.hart
        .write_register(number("menvcfg"), &(1u64 << 63 | 1).to_le_bytes())
        .unwrap();
    assert_eq!(rig.read(0x344), 1 << 5);
}

#[test]
fn a_write_can_wake() {
    let mut rig = Rig::at(3);
    rig.call(crate::riscv64::helper::WFI, [0; 3]).unwrap();
    rig.hart
        .write_register(number("mip"), &2u64.to_le_bytes())
        .unwrap();
    assert!(rig.hart.waiting());
    rig.hart
        .write_register(number("mie"), &2u64.to_le_bytes())
        .unwrap();
    assert!(!rig.hart.waiting());
}
