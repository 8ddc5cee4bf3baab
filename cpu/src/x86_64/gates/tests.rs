//! Deliveries and returns, by cases.

use super::super::fake::*;
use super::super::hart::{CAUSE_NMI, PIN_LOCAL, PIN_NMI};
use super::super::helper::{self, Software};
use super::*;
use crate::Cpu;

const NO_CODE: Trap = trap::trap(trap::UD);

/// What a 64-bit frame of five words says.
fn frame64(rig: &Rig) -> Vec<u64> {
    rig.machine.words(rig.hart.regs[slots::RSP], Size::B8, 5)
}

#[test]
fn long_mode_same_ring_pushes_five_words_on_an_aligned_stack() {
    let mut rig = Rig::long();
    rig.hart.regs[slots::RSP] = STACK - 3;
    rig.hart.set_eflags(IF | TF | NT | flags::CF);
    rig.deliver(NO_CODE);
    assert_eq!(rig.hart.regs[slots::RSP], STACK - 16 - 40);
    let flags = IF | TF | NT | RF | flags::CF | ALWAYS;
    let expected = [
        CODE,
        selector::CODE64.into(),
        flags,
        STACK - 3,
        selector::DATA.into(),
    ];
    assert_eq!(frame64(&rig), expected);
    assert_eq!(rig.hart.eflags(), flags::CF | ALWAYS);
    assert_eq!(rig.hart.pc(), Rig::handler(trap::UD));
    assert_eq!(rig.hart.interrupt(), None, "a fault is no single step");
}

#[test]
fn long_mode_from_ring_3_changes_the_stack_and_comes_back() {
    let mut rig = Rig::long();
    rig.ring(3, selector::USER_CODE64);
    rig.hart.set_eflags(IF);
    rig.hart.core.cr2 = 0;
    rig.deliver(trap::page_fault(6, 0x1234));
    let h = &rig.hart;
    assert_eq!((h.core.cpl, h.core.cr2), (0, 0x1234));
    assert_eq!(h.core.selectors[usize::from(SS)], 0);
    assert_eq!(h.regs[slots::RSP], RING0_STACK - 48);
    assert_eq!(rig.machine.read(RING0_STACK - 48, Size::B8), 6, "the error code");
    rig.hart.regs[slots::RSP] += 8;
    assert_eq!(rig.call(helper::IRET, [0; 2], 3, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!((h.core.cpl, h.pc(), h.regs[slots::RSP]), (3, CODE, USER_STACK));
    assert_eq!(h.core.selectors[usize::from(SS)], selector::USER_DATA);
    assert_eq!(
        h.eflags(),
        IF | RF | ALWAYS,
        "RF stays for the faulting instruction"
    );
    rig.nop();
    assert_eq!(rig.hart.eflags(), IF | ALWAYS);
}

#[test]
fn an_interrupt_stack_is_used_whatever_the_ring() {
    let mut rig = Rig::long();
    rig.gate64(2, 14, 0, selector::CODE64, 1);
    rig.hart.set_pin(PIN_NMI, 1);
    assert_eq!(rig.take(), Some(CAUSE_NMI));
    assert_eq!(rig.hart.regs[slots::RSP], IST_STACK - 40);
    rig.hart.set_pin(PIN_NMI, 1);
    assert_eq!(rig.hart.interrupt(), None, "NMIs wait for iret");
    assert_eq!(rig.call(helper::IRET, [0; 2], 3, 0), Ok(0));
    assert_eq!(rig.hart.interrupt(), Some(CAUSE_NMI));
}

#[test]
fn a_maskable_interrupt_asks_the_controller_and_needs_if() {
    let mut rig = Rig::long();
    rig.hart.set_pin(PIN_LOCAL, 0x31 + 1);
    assert_eq!(rig.hart.interrupt(), None);
    rig.hart.set_eflags(IF);
    assert_eq!(rig.take(), Some(0x31));
    assert_eq!(rig.machine.acknowledged, [(PIN_LOCAL, 0x31)]);
    assert_eq!(rig.hart.pc(), Rig::handler(0x31));
    assert_eq!(rig.hart.eflags() & IF, 0);
}

/// Faults of a delivery in long mode become other deliveries; none leaves a frame behind.
#[test]
fn faults_on_the_way() {
    type Spoil = fn(&mut Rig);
    let ud = NO_CODE;
    let cases: [(&str, Trap, Spoil, Option<(u8, u64)>); 9] = [
        (
            "beyond the limit of the IDT",
            trap::trap(trap::XM),
            |r| r.hart.core.idtr.limit = 16 * 19 - 1,
            Some((13, 19 << 3 | 3)),
        ),
        (
            "an absent gate",
            ud,
            |r| r.machine.write8(IDT + 16 * 6, gate(14, 0, 8, 0) & !(1 << 47)),
            Some((11, 6 << 3 | 3)),
        ),
        (
            "no gate at all",
            ud,
            |r| r.machine.write8(IDT + 16 * 6, gate(12, 0, 8, 0)),
            Some((13, 6 << 3 | 3)),
        ),
        (
            "a null code segment",
            ud,
            |r| r.gate64(6, 14, 0, 0, 0),
            Some((13, 1)),
        ),
        (
            "32-bit code",
            ud,
            |r| r.gate64(6, 14, 0, selector::CODE32, 0),
            Some((13, u64::from(selector::CODE32) | 1)),
        ),
        (
            "absent code",
            ud,
            |r| r.gate64(6, 14, 0, selector::ABSENT_CODE, 0),
            Some((11, u64::from(selector::ABSENT_CODE) | 1)),
        ),
        (
            "a second contributory exception",
            trap::fault(GP, 0),
            |r| r.gate64(13, 14, 0, 0, 0),
            Some((8, 0)),
        ),
        (
            "a page fault after a page fault",
            trap::page_fault(0, 0),
            |r| {
                r.gate64(14, 14, 0, selector::CODE64, 2);
                r.machine.write8(TSS + 0x2c, 0x4000_1000);
            },
            Some((8, 0)),
        ),
        (
            "a fault in a double fault",
            trap::fault(GP, 0),
            |r| {
                r.gate64(13, 14, 0, 0, 0);
                r.gate64(8, 14, 0, 0, 0);
            },
            None,
        ),
    ];
    for (what, trap, spoil, expected) in cases {
        let mut rig = Rig::long();
        spoil(&mut rig);
        rig.deliver(trap);
        match expected {
            Some((vector, code)) => {
                assert_eq!(rig.hart.pc(), Rig::handler(vector), "{what}");
                assert_eq!(rig.hart.regs[slots::RSP], STACK - 48, "{what}");
                assert_eq!(rig.machine.read(STACK - 48, Size::B8), code, "{what}");
                assert_eq!(rig.machine.shutdowns, 0, "{what}");
            }
            None => {
                assert_eq!(rig.machine.shutdowns, 1, "{what}");
                assert_eq!(rig.hart.core.activity, Activity::Shutdown);
                assert!(rig.hart.waiting());
            }
        }
    }
}

#[test]
fn software_interrupts_obey_the_gate_s_privilege() {
    let mut rig = Rig::long();
    rig.ring(3, selector::USER_CODE64);
    let int = |rig: &mut Rig, how| rig.call(helper::INTERRUPT, [0x80, 0], 2, how as u8);
    assert_eq!(int(&mut rig, Software::Int), gp(0x80 << 3 | 2));
    assert_eq!(int(&mut rig, Software::Int3), gp(0x80 << 3 | 2));
    rig.gate64(0x80, 15, 3, selector::CODE64, 0);
    rig.hart.set_eflags(IF | TF);
    rig.hart.retire(0, 1);
    assert_eq!(int(&mut rig, Software::Int), Ok(0));
    assert_eq!(
        frame64(&rig)[..3],
        [CODE + 2, selector::USER_CODE64.into(), IF | TF | ALWAYS]
    );
    assert_eq!(rig.hart.eflags(), IF | ALWAYS, "a trap gate leaves IF");
    assert_eq!(rig.hart.interrupt(), None, "no single step of int");
}
