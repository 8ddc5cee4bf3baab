//! Far transfers, by cases.

use super::super::fake::*;
use super::super::helper;
use super::*;
use crate::Cpu;
use selector::*;

const TARGET: u64 = 0x2468;

const fn fault(vector: u8, code: u16) -> Result<u64, Trap> {
    Err(trap::fault(vector, code))
}

fn jump(rig: &mut Rig, selector: u16) -> Result<u64, Trap> {
    rig.call(helper::FAR_JUMP, [selector.into(), TARGET], 2, 0)
}

#[test]
fn direct_jumps() {
    let cases = [
        (0, CODE32, Ok(0)),
        (0, CODE32 | 3, fault(GP, CODE32)),
        (0, CONFORMING32 | 3, Ok(0)),
        (3, CONFORMING32, Ok(0)),
        (3, CODE32, fault(GP, CODE32)),
        (3, USER_CODE32 & !3, Ok(0)),
        (0, USER_CODE32, fault(GP, USER_CODE32 & !3)),
        (0, ABSENT_CODE, fault(NP, ABSENT_CODE)),
        (0, DATA, fault(GP, DATA)),
        (0, 0, fault(GP, 0)),
        (0, TASK, fault(GP, TASK)),
        (0, LIMIT + 1, fault(GP, LIMIT + 1)),
        (0, EXECUTE_ONLY, Ok(0)),
    ];
    for (ring, selector, expected) in cases {
        let mut rig = Rig::protected();
        if ring == 3 {
            rig.ring(3, USER_CODE32);
        }
        assert_eq!(jump(&mut rig, selector), expected, "ring {ring} to {selector:#x}");
        let (cs, pc) = (rig.hart.segment(CS), rig.hart.pc());
        if expected.is_ok() {
            assert_eq!((cs.selector, pc), (selector & !3 | ring, TARGET));
        } else {
            assert_eq!(pc, CODE);
        }
    }
}

#[test]
fn a_target_lies_within_its_segment() {
    let mut rig = Rig::protected();
    rig.call(helper::FAR_JUMP, [CODE16.into(), 0x1_0000], 2, 0)
        .unwrap_err();
    assert_eq!(rig.call(helper::FAR_JUMP, [CODE16.into(), 0x1_2345], 1, 0), Ok(0));
    assert_eq!(rig.hart.pc(), 0x2345, "16-bit operands");
    let mut rig = Rig::long();
    assert_eq!(rig.call(helper::FAR_JUMP, [CODE64.into(), 1 << 47], 3, 0), gp(0));
    // From 64-bit into compatibility mode.
    assert_eq!(rig.call(helper::FAR_JUMP, [CODE32.into(), TARGET], 2, 0), Ok(0));
    assert!(!rig.hart.code64() && rig.hart.long_mode());
    let mut rig = Rig::long();
    rig.machine
        .write8(GDT + 0x80, descriptor(A_P | A_S | A_CODE | A_L | A_DB, 0));
    assert_eq!(jump(&mut rig, FREE), gp(FREE), "both L and D");
}

#[test]
fn calls_and_returns_in_one_ring() {
    let mut rig = Rig::protected();
    assert_eq!(rig.call(helper::FAR_CALL, [CODE32.into(), TARGET], 2, 0), Ok(0));
    assert_eq!(
        rig.machine.words(STACK - 8, Size::B4, 2),
        [CODE + 2, CODE32.into()]
    );
    assert_eq!(rig.hart.regs[slots::RSP], STACK - 8);
    assert_eq!(rig.call(helper::FAR_RETURN, [16, 0], 2, 0), Ok(0));
    assert_eq!((rig.hart.pc(), rig.hart.regs[slots::RSP]), (CODE + 2, STACK + 16));
    let mut rig = Rig::real();
    rig.hart.regs[slots::RSP] = 0xffff_0002;
    assert_eq!(rig.call(helper::FAR_CALL, [0x1000, TARGET], 1, 0), Ok(0));
    assert_eq!(
        (rig.hart.pc(), rig.hart.regs[slots::RSP]),
        (0x1_2468, 0xffff_fffe)
    );
    assert_eq!(rig.machine.read(0, Size::B2), 0, "the old CS");
    assert_eq!(
        rig.machine.read(0xfffe, Size::B2),
        CODE + 2,
        "the stack wraps at 64 KiB"
    );
    assert_eq!(rig.call(helper::FAR_RETURN, [0, 0], 1, 0), Ok(0));
    assert_eq!(
        (rig.hart.pc(), rig.hart.regs[slots::RSP]),
        (CODE + 2, 0xffff_0002)
    );
}

#[test]
fn a_call_that_faults_leaves_the_stack_alone() {
    let mut rig = Rig::protected();
    rig.hart.regs[slots::limit(SS)] = 0x4_0000;
    let before = rig.machine.ram.clone();
    assert_eq!(
        rig.call(helper::FAR_CALL, [CODE32.into(), TARGET], 2, 0),
        fault(trap::SS, 0)
    );
    assert!(rig.machine.ram == before);
}

/// A gate in ring 3 leads to ring 0 with two parameters, and back.
#[test]
fn a_call_gate_to_an_inner_ring() {
    let mut rig = Rig::protected();
    rig.machine
        .write8(GDT + 0x80, gate(12, 3, CODE32, TARGET) | 2 << 32);
    rig.ring(3, USER_CODE32);
    rig.hart.regs[slots::RSP] -= 8;
    rig.machine.write(USER_STACK - 8, Size::B4, 0x1111);
    rig.machine.write(USER_STACK - 4, Size::B4, 0x2222);
    assert_eq!(rig.call(helper::FAR_CALL, [(FREE | 3).into(), 0], 2, 0), Ok(0));
    assert_eq!((rig.hart.core.cpl, rig.hart.pc()), (0, TARGET));
    let expected = [
        CODE + 2,
        USER_CODE32.into(),
        0x1111,
        0x2222,
        USER_STACK - 8,
        USER_DATA.into(),
    ];
    assert_eq!(rig.machine.words(RING0_STACK - 24, Size::B4, 6), expected);
    assert_eq!(rig.hart.segment(SS).selector, DATA);
    rig.hart
        .set_segment(super::super::registers::FS, rig.hart.segment(SS));
    assert_eq!(rig.call(helper::FAR_RETURN, [8, 0], 2, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!(
        (h.core.cpl, h.pc(), h.regs[slots::RSP]),
        (3, CODE + 2, USER_STACK)
    );
    assert_eq!(
        h.segment(super::super::registers::FS).selector,
        0,
        "ring 0's data are dropped"
    );
    assert_eq!(h.segment(super::super::registers::DS).selector, USER_DATA);
}

#[test]
fn gates_are_checked() {
    let put = |rig: &mut Rig, raw: u64| rig.machine.write8(GDT + 0x80, raw);
    let cases = [
        (gate(12, 0, CODE32, TARGET), fault(GP, FREE)),
        (gate(12, 3, CODE32, TARGET) & !(1 << 47), fault(NP, FREE)),
        (gate(12, 3, 0, TARGET), fault(GP, 0)),
        (gate(12, 3, DATA, TARGET), fault(GP, DATA)),
        (gate(12, 3, ABSENT_CODE, TARGET), fault(NP, ABSENT_CODE)),
        (gate(5, 3, TASK, TARGET), fault(GP, FREE)),
    ];
    for (raw, expected) in cases {
        let mut rig = Rig::protected();
        put(&mut rig, raw);
        rig.ring(3, USER_CODE32);
        assert_eq!(
            rig.call(helper::FAR_CALL, [(FREE | 3).into(), 0], 2, 0),
            expected,
            "{raw:#x}"
        );
    }
    let mut rig = Rig::protected();
    put(&mut rig, gate(12, 3, CODE32, TARGET));
    rig.ring(3, USER_CODE32);
    assert_eq!(
        jump(&mut rig, FREE | 3),
        fault(GP, CODE32),
        "a jump stays in its ring"
    );
    rig.ring(0, CODE32);
    assert_eq!(jump(&mut rig, FREE), Ok(0));
}

#[test]
fn a_64_bit_gate_takes_the_stack_of_the_task() {
    let mut rig = Rig::long();
    rig.machine.write8(GDT + 0x80, gate(12, 3, CODE64, TARGET));
    rig.machine.write8(GDT + 0x88, 0xffff_8000);
    rig.ring(3, USER_CODE64);
    assert_eq!(rig.call(helper::FAR_CALL, [FREE.into(), 0], 2, 0), Ok(0));
    assert_eq!(rig.hart.pc(), 0xffff_8000_0000_2468);
    let expected = [CODE + 2, USER_CODE64.into(), USER_STACK, USER_DATA.into()];
    assert_eq!(rig.machine.words(RING0_STACK - 32, Size::B8, 4), expected);
    assert_eq!(rig.hart.segment(SS).selector, 0);
    assert_eq!(rig.call(helper::FAR_RETURN, [0, 0], 3, 0), Ok(0));
    assert_eq!((rig.hart.core.cpl, rig.hart.regs[slots::RSP]), (3, USER_STACK));
    rig.machine.write8(GDT + 0x88, 1 << 41);
    assert_eq!(
        rig.call(helper::FAR_CALL, [FREE.into(), 0], 2, 0),
        fault(GP, FREE),
        "type in the high half"
    );
}
