//! Model-specific registers, by cases.

use super::super::fake::*;
use super::super::helper;
use super::*;

#[test]
fn rows_are_in_order_and_do_not_overlap() {
    for pair in ROWS.windows(2) {
        assert!(pair[0].first <= pair[0].last && pair[0].last < pair[1].first);
    }
}

#[test]
fn what_can_be_written_reads_back() {
    let cases: [(u32, u64, bool); 28] = [
        (0x3a, 1, true),
        (0x48, 1, true),
        (0x48, 4, false),
        (0xfe, 0, false),
        (0x174, 0x10, true),
        (0x175, 1 << 47, false),
        (0x17a, 8, false),
        (0x200, 0x8000_0006, true),
        (0x201, 0xff_8000_0800, true),
        (0x201, 1 << 40, false),
        (0x250, 0x0606_0606_0606_0606, true),
        (0x250, 0x0606_0606_0606_0602, false),
        (0x26f, 0x0505_0505_0505_0505, true),
        (0x277, 0x0007_0106_0007_0106, true),
        (0x277, 2, false),
        (0x2ff, 0xc06, true),
        (0x2ff, 7, false),
        (0xc000_0080, 0x501, true),
        (0xc000_0080, 2, false),
        (0xc000_0081, 0x0023_0010_0000_0000, true),
        (0xc000_0082, 0xffff_ffff_8000_0000, true),
        (0xc000_0082, 1 << 48, false),
        (0xc000_0084, 0x4_7700, true),
        (0xc000_0084, 1 << 32, false),
        (0xc000_0100, 0x7fff_ffff_f000, true),
        (0xc000_0101, 1 << 63, false),
        (0xc000_0102, 0xffff_8000_0000_0000, true),
        (0xc000_0103, 7, true),
    ];
    for (number, value, legal) in cases {
        let mut rig = Rig::long();
        let before = rig.rdmsr(number);
        assert_eq!(
            rig.wrmsr(number, value).is_ok(),
            legal,
            "{number:#x} <- {value:#x}"
        );
        let expected = if legal { Ok(value) } else { before };
        let mask = if number == 0xc000_0080 {
            EFER_LME | EFER_SCE
        } else {
            !0
        };
        assert_eq!(
            rig.rdmsr(number).map(|v| v & mask),
            expected.map(|v| v & mask),
            "{number:#x}"
        );
    }
}

#[test]
fn the_lock_of_feature_control() {
    let mut rig = Rig::long();
    assert_eq!(rig.wrmsr(0x3a, 1), Ok(0));
    assert_eq!(rig.wrmsr(0x3a, 0), gp(0));
}

#[test]
fn the_counter_is_virtual_time() {
    let mut rig = Rig::long();
    rig.machine.now = 1_000_000;
    assert_eq!(rig.rdmsr(0x10), Ok(1_000_000));
    assert_eq!(rig.wrmsr(0x10, 50), Ok(0));
    rig.machine.now += 7;
    assert_eq!(rig.rdmsr(0x10), Ok(57));
    assert_eq!(rig.rdmsr(0x3b), Ok(50u64.wrapping_sub(1_000_000)));
    rig.hart.core.msrs.tsc_aux = 3;
    assert_eq!(rig.call(helper::RDTSC, [0; 2], 2, 1), Ok(0));
    assert_eq!((rig.hart.edx_eax(), rig.hart.regs[slots::RCX]), (57, 3));
    // The deadline is in the guest's counter, the controller's in virtual time.
    rig.machine.local.insert(TSC_DEADLINE, 0);
    assert_eq!(rig.rdmsr(TSC_DEADLINE), Ok(0));
    assert_eq!(rig.wrmsr(TSC_DEADLINE, 100), Ok(0));
    assert_eq!(rig.machine.local[&TSC_DEADLINE], 1_000_050);
    assert_eq!(rig.rdmsr(TSC_DEADLINE), Ok(100));
    assert_eq!(rig.wrmsr(0x3b, 500), Ok(0));
    assert_eq!(rig.wrmsr(TSC_DEADLINE, 100), Ok(0));
    assert_eq!(rig.machine.local[&TSC_DEADLINE], 1, "long past, and armed");
    assert_eq!(rig.wrmsr(TSC_DEADLINE, 0), Ok(0));
    assert_eq!(rig.machine.local[&TSC_DEADLINE], 0);
}

#[test]
fn the_interrupt_controller_decides_about_its_own() {
    let mut rig = Rig::long();
    rig.machine.local.insert(0x808, 0);
    assert_eq!(rig.wrmsr(0x808, 0x20), Ok(0));
    assert_eq!(rig.rdmsr(0x808), Ok(0x20));
    assert_eq!(rig.rdmsr(0x80b), gp(0));
    assert_eq!(rig.wrmsr(0x802, 0), gp(0));
}

#[test]
fn unknown_registers_are_remembered_once() {
    let mut rig = Rig::long();
    for number in [0x1234, 0x5678, 0x1234] {
        assert_eq!(rig.rdmsr(number), gp(0));
    }
    for number in 0x1_0000..0x1_0100 {
        assert_eq!(rig.wrmsr(number, 0), gp(0));
    }
    let unknown = rig.hart.take_unknown_msrs();
    assert_eq!(
        (unknown.len(), &unknown[..2]),
        (REMEMBERED, &[0x1234, 0x5678][..])
    );
    rig.ring(3, selector::USER_CODE64);
    assert_eq!(rig.rdmsr(0x10), gp(0));
}
