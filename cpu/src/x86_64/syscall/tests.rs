//! System calls, by cases.

use super::super::fake::*;
use super::super::flags;
use super::super::hart::CAUSE_DEBUG;
use super::super::helper;
use super::*;
use crate::Cpu;

fn rig() -> Rig {
    let mut rig = Rig::long();
    let msrs = &mut rig.hart.core.msrs;
    msrs.star = 0x0018_0008 << 32;
    msrs.lstar = 0xffff_8000_0000_1000;
    msrs.sfmask = IF | TF | DF;
    msrs.sysenter_cs = 0x8;
    msrs.sysenter_esp = 0x5000;
    msrs.sysenter_eip = 0x6000;
    rig.ring(3, selector::USER_CODE64);
    rig
}

#[test]
fn syscall_and_sysret() {
    let mut rig = rig();
    rig.hart.set_eflags(IF | flags::CF | RF);
    assert_eq!(rig.call(helper::SYSCALL, [0; 2], 3, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!((h.pc(), h.core.cpl), (0xffff_8000_0000_1000, 0));
    assert_eq!(
        (h.regs[slots::RCX], h.regs[slots::gpr(11)]),
        (CODE + 2, IF | flags::CF | ALWAYS)
    );
    assert_eq!(h.eflags(), flags::CF | ALWAYS);
    assert_eq!((h.segment(CS).selector, h.segment(SS).selector), (8, 0x10));
    assert!(h.code64());
    rig.hart.regs[slots::gpr(11)] |= VM | RF;
    assert_eq!(rig.call(helper::SYSRET, [0; 2], 3, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!(
        (h.pc(), h.core.cpl, h.eflags()),
        (CODE + 2, 3, IF | flags::CF | ALWAYS)
    );
    assert_eq!((h.segment(CS).selector, h.segment(SS).selector), (0x2b, 0x23));
    assert_eq!(rig.call(helper::SYSRET, [0; 2], 3, 0), gp(0), "in ring 3");
    rig.ring(0, selector::CODE64);
    rig.hart.regs[slots::RCX] = 1 << 47;
    assert_eq!(rig.call(helper::SYSRET, [0; 2], 3, 0), gp(0));
    rig.hart.regs[slots::RCX] = 0x1_0000_2000;
    assert_eq!(rig.call(helper::SYSRET, [0; 2], 2, 0), Ok(0));
    assert_eq!((rig.hart.pc(), rig.hart.segment(CS).selector), (0x2000, 0x1b));
    assert_eq!(
        rig.call(helper::SYSCALL, [0; 2], 2, 0),
        Err(trap::trap(UD)),
        "Intel's: 64-bit only"
    );
    rig.hart.core.efer &= !EFER_SCE;
    rig.ring(0, selector::CODE64);
    assert_eq!(rig.call(helper::SYSRET, [0; 2], 3, 0), Err(trap::trap(UD)));
}

#[test]
fn a_single_step_over_syscall_depends_on_the_mask() {
    for (mask, cause) in [(TF, None), (0, Some(CAUSE_DEBUG))] {
        let mut rig = rig();
        rig.hart.core.msrs.sfmask = mask;
        rig.hart.set_eflags(TF);
        rig.hart.retire(0, 1);
        assert_eq!(rig.call(helper::SYSCALL, [0; 2], 3, 0), Ok(0));
        assert_eq!(rig.hart.interrupt(), cause);
    }
}

#[test]
fn sysenter_and_sysexit() {
    let mut rig = rig();
    rig.hart.set_eflags(IF);
    assert_eq!(rig.call(helper::SYSENTER, [0; 2], 3, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!(
        (h.pc(), h.core.cpl, h.regs[slots::RSP], h.eflags()),
        (0x6000, 0, 0x5000, ALWAYS)
    );
    assert_eq!((h.segment(CS).selector, h.segment(SS).selector), (8, 0x10));
    rig.hart.regs[slots::RCX] = 0x1_0000_7000;
    rig.hart.regs[slots::RDX] = 0x1_0000_8000;
    assert_eq!(rig.call(helper::SYSEXIT, [0; 2], 2, 0), Ok(0));
    let h = &rig.hart;
    assert_eq!((h.pc(), h.core.cpl, h.regs[slots::RSP]), (0x8000, 3, 0x7000));
    assert_eq!((h.segment(CS).selector, h.segment(SS).selector), (0x1b, 0x23));
    assert_eq!(rig.call(helper::SYSEXIT, [0; 2], 2, 0), gp(0), "in ring 3");
    rig.hart.core.msrs.sysenter_cs = 3;
    assert_eq!(rig.call(helper::SYSENTER, [0; 2], 3, 0), gp(0));
}
