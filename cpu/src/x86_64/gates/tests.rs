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

/// A frame that ends with the last byte of the address space, where nothing is mapped: no exception can be delivered.
#[test]
fn a_stack_at_the_top_of_the_address_space_faults_as_any() {
    let mut rig = Rig::long();
    rig.hart.regs[slots::RSP] = 0;
    rig.deliver(NO_CODE);
    assert_eq!(rig.hart.core.activity, Activity::Shutdown);
    assert_eq!(rig.hart.regs[slots::RSP], 0);
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
    /// What it is, what is delivered, what is spoilt, and the vector and code of what comes of it.
    type Case = (&'static str, Trap, fn(&mut Rig), Option<(u8, u64)>);
    let ud = NO_CODE;
    let cases: [Case; 9] = [
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

#[test]
fn real_mode_goes_through_the_vector_table() {
    let mut rig = Rig::real();
    rig.machine.write(0x21 * 4, Size::B4, 0xf000_1234);
    rig.hart.set_eflags(IF | TF | AC | flags::ZF);
    assert_eq!(rig.call(helper::INTERRUPT, [0x21, 0], 1, 0), Ok(0));
    assert_eq!(rig.hart.pc(), 0xf_1234);
    assert_eq!(rig.hart.eflags(), flags::ZF | ALWAYS);
    let saved = (IF | TF | flags::ZF | ALWAYS) & 0xffff;
    assert_eq!(rig.machine.words(0x6000 - 6, Size::B2, 3), [CODE + 2, 0, saved]);
    assert_eq!(rig.call(helper::IRET, [0; 2], 1, 0), Ok(0));
    assert_eq!((rig.hart.pc(), rig.hart.regs[slots::RSP]), (CODE + 2, 0x6000));
    assert_eq!(rig.hart.eflags(), IF | TF | flags::ZF | ALWAYS);
    // No error codes here.
    rig.machine.write(13 * 4, Size::B4, 0x1000_0000);
    rig.deliver(trap::fault(GP, 0));
    assert_eq!((rig.hart.pc(), rig.hart.regs[slots::RSP]), (0x1_0000, 0x6000 - 6));
    rig.hart.core.idtr.limit = 3;
    rig.deliver(NO_CODE);
    assert_eq!(rig.machine.shutdowns, 1);
}

#[test]
fn protected_mode_within_a_ring_and_between_rings() {
    let mut rig = Rig::protected();
    rig.hart.set_eflags(IF);
    rig.deliver(trap::fault(GP, 0x18));
    let frame = |rig: &Rig, count| rig.machine.words(rig.hart.regs[slots::RSP], Size::B4, count);
    assert_eq!(
        frame(&rig, 4),
        [0x18, CODE, selector::CODE32.into(), IF | RF | ALWAYS]
    );
    assert_eq!(rig.hart.regs[slots::RSP], STACK - 16);

    rig.ring(3, selector::USER_CODE32);
    rig.hart.set_eflags(IF);
    rig.hart.set_pin(PIN_LOCAL, 0x41);
    assert_eq!(rig.take(), Some(0x40));
    let user = [
        CODE,
        selector::USER_CODE32.into(),
        IF | ALWAYS,
        USER_STACK,
        selector::USER_DATA.into(),
    ];
    assert_eq!(
        (rig.hart.core.cpl, rig.hart.regs[slots::RSP]),
        (0, RING0_STACK - 20)
    );
    assert_eq!(frame(&rig, 5), user);
    assert_eq!(rig.call(helper::IRET, [0; 2], 2, 0), Ok(0));
    assert_eq!((rig.hart.core.cpl, rig.hart.regs[slots::RSP]), (3, USER_STACK));
    assert_eq!(rig.hart.eflags(), IF | ALWAYS);

    // A 16-bit gate to ring 1.
    rig.gate32(0x50, 7, 3, selector::CODE_RING1);
    rig.hart.regs[slots::PC] = CODE;
    assert_eq!(rig.call(helper::INTERRUPT, [0x50, 0], 2, 0), Ok(0));
    assert_eq!(rig.hart.pc(), Rig::handler(0x50) & 0xffff);
    assert_eq!(
        (rig.hart.core.cpl, rig.hart.regs[slots::RSP]),
        (1, RING0_STACK - 0x800 - 10)
    );
    let saved = rig.machine.words(rig.hart.regs[slots::RSP], Size::B2, 5);
    assert_eq!(saved[..2], [CODE + 2, selector::USER_CODE32.into()]);
}

#[test]
fn the_task_s_stack_is_checked() {
    let bad: [(&str, u64, u8, u16); 5] = [
        ("null", 0, trap::TS, 1),
        (
            "of another ring",
            selector::DATA_RING1.into(),
            trap::TS,
            selector::DATA_RING1 & !3 | 1,
        ),
        ("code", selector::CODE32.into(), trap::TS, selector::CODE32 | 1),
        (
            "absent",
            selector::ABSENT_DATA.into(),
            trap::SS,
            selector::ABSENT_DATA | 1,
        ),
        ("outside", 0x1000, trap::TS, 0x1001),
    ];
    for (what, ss, vector, code) in bad {
        let mut rig = Rig::protected();
        rig.machine.write(TSS + 8, Size::B4, ss);
        // The second exception, #TS or #SS, is delivered in ring 3 by a conforming segment.
        rig.gate32(vector, 14, 0, selector::CONFORMING32);
        rig.ring(3, selector::USER_CODE32);
        rig.deliver(NO_CODE);
        assert_eq!(rig.hart.pc(), Rig::handler(vector), "{what}");
        assert_eq!(
            rig.machine.read(rig.hart.regs[slots::RSP], Size::B4),
            code.into(),
            "{what}"
        );
    }
}

#[test]
fn virtual_8086_mode_and_back() {
    let mut rig = Rig::protected();
    let esp = rig.hart.regs[slots::RSP] - 36;
    rig.hart.regs[slots::RSP] = esp;
    let frame = [0x100, 0x2000, VM | IF | 3 << 12, 0x8000, 0x3000, 1, 2, 3, 4];
    for (i, value) in frame.into_iter().enumerate() {
        rig.machine.write(esp + 4 * i as u64, Size::B4, value);
    }
    assert_eq!(rig.call(helper::IRET, [0; 2], 2, 0), Ok(0));
    let h = &rig.hart;
    assert!(h.vm86() && h.core.cpl == 3);
    assert_eq!((h.pc(), h.segment(SS).base), (0x2_0100, 0x3_0000));
    assert_eq!(h.core.selectors, [1, 0x2000, 0x3000, 2, 3, 4]);
    assert_eq!(h.segment(GS), Segment::real(4, 0xf3));
    // An interrupt leads to ring 0 with all segments saved.
    rig.hart.set_pin(PIN_LOCAL, 0x41);
    assert_eq!(rig.take(), Some(0x40));
    assert!(!rig.hart.vm86() && rig.hart.core.cpl == 0);
    let saved = rig.machine.words(rig.hart.regs[slots::RSP], Size::B4, 9);
    assert_eq!(
        saved,
        frame.map(|word| word | if word & VM != 0 { ALWAYS } else { 0 })
    );
    assert_eq!(rig.hart.core.selectors[usize::from(GS)], 0);
    // int n needs IOPL 3.
    assert_eq!(rig.call(helper::IRET, [0; 2], 2, 0), Ok(0));
    rig.hart.set_eflags(VM);
    assert_eq!(rig.call(helper::INTERRUPT, [0x21, 0], 1, 0), gp(0));
    // A gate to another ring than 0 is refused.
    rig.hart.set_eflags(VM | IOPL);
    rig.gate32(0x21, 14, 3, selector::CODE_RING1);
    assert_eq!(
        rig.call(helper::INTERRUPT, [0x21, 0], 1, 0),
        gp(selector::CODE_RING1 & !3)
    );
}

#[test]
fn returns_are_checked() {
    let run = |cs: u64, ip: u64, flags: u64, ss: u64| {
        let mut rig = Rig::long();
        let rsp = STACK - 40;
        rig.hart.regs[slots::RSP] = rsp;
        for (i, value) in [ip, cs, flags, USER_STACK, ss].into_iter().enumerate() {
            rig.machine.write8(rsp + 8 * i as u64, value);
        }
        let result = rig.call(helper::IRET, [0; 2], 3, 0);
        if result.is_err() {
            assert_eq!((rig.hart.pc(), rig.hart.regs[slots::RSP]), (CODE, rsp));
        }
        result
    };
    use selector::*;
    let (user, data) = (USER_CODE64.into(), USER_DATA.into());
    assert_eq!(run(user, CODE, IF, data), Ok(0));
    assert_eq!(run(USER_CODE32.into(), CODE, IF, data), Ok(0));
    assert_eq!(run(user, 1 << 47, IF, data), gp(0));
    assert_eq!(run(USER_CODE32.into(), 1 << 32, IF, data), gp(0));
    assert_eq!(run(0, CODE, IF, data), gp(0));
    assert_eq!(run(DATA.into(), CODE, IF, data), gp(DATA));
    assert_eq!(run(user, CODE, IF, 3), gp(0));
    assert_eq!(run(user, CODE, IF, DATA.into()), gp(DATA));
    assert_eq!(run(CODE64.into(), CODE, IF, 0), Ok(0));
    assert_eq!(run(CODE64.into(), CODE, IF, DATA.into()), Ok(0));
    assert_eq!(run((ABSENT_CODE).into(), CODE, IF, 0), gp(ABSENT_CODE), "L and D");
    let mut rig = Rig::long();
    rig.hart.set_eflags(NT);
    assert_eq!(rig.call(helper::IRET, [0; 2], 3, 0), gp(0), "no tasks");
}

#[test]
fn flags_that_a_user_cannot_change() {
    let mut rig = Rig::long();
    rig.ring(3, selector::USER_CODE64);
    rig.hart.set_eflags(IF);
    let all = EFLAGS_OTHER | flags::ARITHMETIC;
    assert_eq!(rig.call(helper::POPF, [all, 0], 3, 0), Ok(0));
    let kept = flags::ARITHMETIC | TF | IF | DF | NT | AC | ID | ALWAYS;
    assert_eq!(rig.hart.eflags(), kept);
    rig.hart.set_eflags(IF);
    assert_eq!(rig.call(helper::POPF, [0, 0], 3, 0), Ok(0));
    assert_eq!(rig.hart.eflags(), IF | ALWAYS);
    rig.hart.set_eflags(AC | ID);
    assert_eq!(rig.call(helper::POPF, [0, 0], 1, 0), Ok(0));
    assert_eq!(rig.hart.eflags(), AC | ID | ALWAYS, "16 bits");
}
