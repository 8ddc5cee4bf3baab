//! Tests of delegation, stacking, vectors, priorities, returns and waiting.

use super::*;
use crate::Cpu;
use crate::riscv64::fake::{ILLEGAL, INSN, RAM, Rig};
use crate::riscv64::helper;

const INSN_ARG: [u64; 3] = [INSN as u64, 0, 0];

#[test]
fn exceptions_are_delegated_from_below_m_only() {
    for cause in (0..=9).chain([11, 12, 13, 15]) {
        for privilege in [U, S, M] {
            for delegated in [false, true] {
                let mut rig = Rig::at(privilege);
                rig.poke(0x302, (delegated as u64) << cause);
                rig.poke(0x305, 0x1001);
                rig.poke(0x105, 0x2001);
                rig.hart.regs[slots::MSTATUS] |= SIE | MIE;
                rig.hart
                    .deliver(&mut rig.machine, Trap { cause, value: 77 }, 0x8000_0123);
                let c = &rig.hart.csrs;
                if delegated && cause != 11 && privilege != M {
                    assert_eq!((c.privilege, rig.hart.pc()), (S, 0x2000));
                    let regs = &rig.hart.regs;
                    let seen = (regs[slots::SCAUSE], regs[slots::SEPC], regs[slots::STVAL]);
                    assert_eq!(seen, (cause, 0x8000_0122, 77));
                    assert_eq!((c.mcause, c.mepc), (0, 0));
                    let spp = if privilege == S { SPP } else { 0 };
                    assert_eq!(rig.hart.regs[slots::MSTATUS], SPIE | MIE | spp);
                } else {
                    assert_eq!((c.privilege, rig.hart.pc()), (M, 0x1000));
                    assert_eq!((c.mcause, c.mepc, c.mtval), (cause, 0x8000_0122, 77));
                    assert_eq!((rig.hart.regs[slots::SCAUSE], rig.hart.regs[slots::SEPC]), (0, 0));
                    assert_eq!(
                        rig.hart.regs[slots::MSTATUS],
                        SIE | MPIE | (privilege as u64) << MPP_SHIFT
                    );
                }
            }
        }
    }
}

#[test]
fn stacks_hold_a_disabled_enable() {
    let mut rig = Rig::at(U);
    rig.poke(0x302, 1 << 8);
    rig.hart.regs[slots::MSTATUS] = SPIE | SPP;
    rig.hart.deliver(&mut rig.machine, Trap { cause: 8, value: 0 }, 0);
    assert_eq!(rig.hart.regs[slots::MSTATUS], 0);
    let mut rig = Rig::at(U);
    rig.hart.regs[slots::MSTATUS] = MPIE | MPP;
    rig.hart.deliver(&mut rig.machine, Trap { cause: 8, value: 0 }, 0);
    assert_eq!(rig.hart.regs[slots::MSTATUS], 0);
}

#[test]
fn unknown_causes_go_to_m() {
    let mut rig = Rig::at(U);
    rig.poke(0x302, !0);
    rig.hart.deliver(
        &mut rig.machine,
        Trap {
            cause: u64::MAX,
            value: 0,
        },
        0,
    );
    assert_eq!(rig.hart.privilege(), M);
    rig.hart.take_interrupt(&mut rig.machine, u64::MAX);
    assert_eq!(rig.hart.privilege(), M);
}

#[test]
fn interrupts_by_privilege_enable_and_delegation() {
    // (mideleg, privilege, mstatus enables, taken by): S's interrupt 9 pending and enabled.
    let none = None;
    for (mideleg, privilege, mstatus, taken) in [
        (0, M, 0, none),
        (0, M, MIE, Some(M)),
        (0, S, 0, Some(M)),
        (0, U, 0, Some(M)),
        (SEI, M, MIE | SIE, none),
        (SEI, S, 0, none),
        (SEI, S, MIE, none),
        (SEI, S, SIE, Some(S)),
        (SEI, U, 0, Some(S)),
        (STI, S, 0, Some(M)),
    ] {
        let mut rig = Rig::at(privilege);
        rig.poke(0x303, mideleg);
        rig.poke(0x304, SEI);
        rig.poke(0x305, 0x1001);
        rig.poke(0x105, 0x2000);
        rig.hart.regs[slots::MSTATUS] |= mstatus;
        assert_eq!(rig.hart.interrupt(), None);
        rig.hart.set_pin(9, 1);
        assert_eq!(
            rig.hart.interrupt(),
            taken.map(|_| 9),
            "{mideleg:#x} {privilege} {mstatus:#x}"
        );
        let Some(by) = taken else { continue };
        rig.hart.regs_mut()[slots::PC] = 0x4444;
        rig.hart.take_interrupt(&mut rig.machine, 9);
        let c = &rig.hart.csrs;
        assert_eq!(c.privilege, by);
        if by == M {
            assert_eq!((c.mcause, c.mepc, c.mtval), (1 << 63 | 9, 0x4444, 0));
            assert_eq!(rig.hart.pc(), 0x1000 + 4 * 9, "vectored");
        } else {
            let regs = &rig.hart.regs;
            let seen = (regs[slots::SCAUSE], regs[slots::SEPC], regs[slots::STVAL]);
            assert_eq!(seen, (1 << 63 | 9, 0x4444, 0));
            assert_eq!(rig.hart.pc(), 0x2000, "direct");
        }
        assert_eq!(rig.hart.interrupt(), None);
    }
}

#[test]
fn priorities() {
    let mut rig = Rig::at(U);
    rig.poke(0x304, !0);
    for code in [11, 3, 7, 9] {
        rig.hart.set_pin(code, 1);
    }
    rig.poke(0x344, SSI | STI);
    let mut order = Vec::new();
    for mideleg in [0, S_INTERRUPTS] {
        rig.poke(0x303, mideleg);
        rig.poke(0x304, !0);
        while let Some(code) = rig.hart.interrupt() {
            order.push(code);
            let mie = rig.peek(0x304);
            rig.poke(0x304, mie & !(1 << code));
        }
    }
    assert_eq!(order, [11, 3, 7, 9, 1, 5, 11, 3, 7, 9, 1, 5]);
    // One bound for M comes before all that are bound for S.
    rig.poke(0x304, !0);
    rig.poke(0x303, SEI | SSI);
    for code in [11, 3, 7] {
        rig.hart.set_pin(code, 0);
    }
    assert_eq!(rig.hart.interrupt(), Some(5));
}

#[test]
fn mret() {
    for (mpp, mprv) in [(U, 0), (S, 0), (M, MPRV)] {
        let mut rig = Rig::at(M);
        rig.write(0x341, 0x1235);
        rig.hart.regs[slots::MSTATUS] = (mpp as u64) << MPP_SHIFT | MPIE | MPRV | SPP;
        rig.call(helper::LR, [RAM, 8, 0]).unwrap();
        rig.call(helper::MRET, INSN_ARG).unwrap();
        assert_eq!((rig.hart.privilege(), rig.hart.pc()), (mpp, 0x1234));
        assert_eq!(rig.hart.regs[slots::MSTATUS], MIE | MPIE | SPP | mprv);
        assert_eq!(rig.hart.reservation, None);
        rig.hart.csrs.privilege = M;
        rig.hart.regs[slots::MSTATUS] = MIE;
        rig.call(helper::MRET, INSN_ARG).unwrap();
        assert_eq!(rig.hart.regs[slots::MSTATUS], MPIE, "MPIE was clear");
    }
    for privilege in [U, S] {
        assert_eq!(Rig::at(privilege).call(helper::MRET, INSN_ARG), ILLEGAL);
    }
}

#[test]
fn sret() {
    for from in [S, M] {
        for spp in [U, S] {
            let mut rig = Rig::at(from);
            rig.poke(0x141, 0x4321);
            rig.hart.regs[slots::MSTATUS] = (spp as u64) << 8 | SPIE | MPRV | MPP;
            rig.call(helper::LR, [RAM, 8, 0]).ok();
            rig.call(helper::SRET, INSN_ARG).unwrap();
            assert_eq!((rig.hart.privilege(), rig.hart.pc()), (spp, 0x4320));
            assert_eq!(rig.hart.regs[slots::MSTATUS], SIE | SPIE | MPP);
            assert_eq!(rig.hart.reservation, None);
        }
    }
    assert_eq!(Rig::at(U).call(helper::SRET, INSN_ARG), ILLEGAL);
    let mut rig = Rig::at(S);
    rig.hart.regs[slots::MSTATUS] = TSR;
    assert_eq!(rig.call(helper::SRET, INSN_ARG), ILLEGAL);
    rig.hart.csrs.privilege = M;
    assert!(rig.call(helper::SRET, INSN_ARG).is_ok(), "TSR is for S");
}

#[test]
fn wfi() {
    for (privilege, tw, legal) in [
        (M, 0, true),
        (M, TW, true),
        (S, 0, true),
        (S, TW, false),
        (U, 0, false),
        (U, TW, false),
    ] {
        let mut rig = Rig::at(privilege);
        rig.hart.regs[slots::MSTATUS] = tw;
        assert_eq!(rig.call(helper::WFI, INSN_ARG).is_ok(), legal);
        assert_eq!(rig.hart.waiting(), legal);
    }
    // Enabled in mie is what counts; delegation and global enables don't.
    let mut rig = Rig::at(M);
    rig.write(0x303, SEI);
    rig.call(helper::WFI, INSN_ARG).unwrap();
    rig.hart.set_pin(9, 1);
    assert!(rig.hart.waiting());
    rig.write(0x304, SEI);
    rig.call(helper::WFI, INSN_ARG).unwrap();
    assert!(!rig.hart.waiting(), "pending already");
    rig.hart.set_pin(9, 0);
    rig.call(helper::WFI, INSN_ARG).unwrap();
    rig.hart.set_pin(7, 1);
    assert!(rig.hart.waiting());
    rig.hart.set_pin(9, 1);
    assert!(!rig.hart.waiting());
    assert_eq!(rig.hart.interrupt(), None);
    // A deadline wakes too.
    rig.hart.set_pin(9, 0);
    rig.write(0x304, STI);
    rig.write(0x30a, STCE);
    rig.write(0x14d, 3);
    rig.call(helper::WFI, INSN_ARG).unwrap();
    rig.hart.tick(299);
    assert!(rig.hart.waiting());
    rig.hart.tick(300);
    assert!(!rig.hart.waiting());
    // So does an interrupt taken.
    rig.write(0x14d, 30);
    rig.call(helper::WFI, INSN_ARG).unwrap();
    rig.hart.take_interrupt(&mut rig.machine, 5);
    assert!(!rig.hart.waiting());
}

#[test]
fn fences() {
    let sfence_vma = 0x1200_0073;
    let sinval_vma = 0x1600_0073;
    let sfence_w_inval = 0x1800_0073;
    let sfence_inval_ir = 0x1810_0073;
    for (insn, trapped) in [
        (sfence_vma, true),
        (sinval_vma, true),
        (sfence_w_inval, false),
        (sfence_inval_ir, false),
    ] {
        for (privilege, tvm, legal) in [
            (U, 0, false),
            (U, TVM, false),
            (S, 0, true),
            (S, TVM, !trapped),
            (M, 0, true),
            (M, TVM, true),
        ] {
            let mut rig = Rig::at(privilege);
            rig.hart.regs[slots::MSTATUS] = tvm;
            let result = rig.call(helper::SFENCE, [insn, 0, 0]);
            assert_eq!(
                result,
                if legal {
                    Ok(0)
                } else {
                    Err(Trap {
                        cause: 2,
                        value: insn,
                    })
                }
            );
        }
    }
}

#[test]
fn causes() {
    let hart = Rig::new().hart;
    for (access, misaligned, fault) in [(Access::Fetch, 0, 1), (Access::Read, 4, 5), (Access::Write, 6, 7)] {
        assert_eq!(
            hart.misaligned(9, access),
            Trap {
                cause: misaligned,
                value: 9
            }
        );
        assert_eq!(
            hart.access_fault(9, access),
            Trap {
                cause: fault,
                value: 9
            }
        );
    }
}
