//! Floating-point state in memory.

use super::super::fake::*;
use super::super::helper;
use super::super::x87::{Input, X87Op};
use super::*;

const AREA: u64 = 0x6000;

fn rig() -> Rig {
    let mut rig = Rig::long();
    rig.hart.core.cr4 |= CR4_OSFXSR | CR4_OSXSAVE;
    rig.hart.core.xcr0 = 3;
    rig.hart.x87.init();
    rig.hart.set_edx_eax(3);
    for n in 0..16 {
        rig.hart.regs[slots::xmm(n, 0)] = 0x100 + u64::from(n);
        rig.hart.regs[slots::xmm(n, 1)] = 0x200 + u64::from(n);
    }
    assert!(rig.hart.set_mxcsr(0x9fa1));
    rig
}

fn push_one(rig: &mut Rig) {
    let fld1 = X87Op::from_opcode(0xd9, 0xe8).unwrap();
    rig.hart.x87.execute(fld1, &Input::default()).unwrap();
}

fn state(rig: &Rig) -> (Vec<u64>, u64, X87) {
    let vectors = (0..16).map(|n| rig.hart.regs[slots::xmm(n, 0)] << 32 | rig.hart.regs[slots::xmm(n, 1)]);
    (vectors.collect(), rig.hart.mxcsr(), rig.hart.x87)
}

#[test]
fn fxsave_comes_back() {
    let mut rig = rig();
    push_one(&mut rig);
    let before = state(&rig);
    assert_eq!(rig.call(helper::FXSAVE, [AREA, 0], 3, 1), Ok(0));
    assert_eq!(rig.machine.read(AREA + 24, Size::B8), 0xffff_0000_9fa1);
    assert_eq!(rig.machine.read(AREA + 160 + 16 * 15 + 8, Size::B8), 0x20f);
    assert_eq!(
        rig.machine.read(AREA + 416, Size::B8),
        0,
        "the rest isn't touched"
    );
    let mut other = Rig::long();
    other.machine = rig.machine;
    assert_eq!(other.call(helper::FXRSTOR, [AREA, 0], 3, 1), Ok(0));
    assert_eq!(state(&other), before);
    other.machine.write(AREA + 24, Size::B4, 0x1_0000);
    assert_eq!(other.call(helper::FXRSTOR, [AREA, 0], 3, 1), gp(0));
    assert_eq!(state(&other), before, "a fault changes nothing");
    assert_eq!(other.call(helper::FXRSTOR, [AREA + 8, 0], 3, 1), gp(0));
    other.ring(0, selector::CODE32);
    assert_eq!(other.call(helper::FXSAVE, [AREA + 0x400, 0], 2, 0), Ok(0));
    assert_eq!(
        other.machine.read(AREA + 0x400 + 160 + 16 * 8, Size::B8),
        0,
        "eight registers"
    );
}

#[test]
fn xsave_writes_what_is_asked_for() {
    let mut rig = rig();
    let header = |rig: &Rig| rig.machine.read(AREA + 512, Size::B8);
    rig.machine.write8(AREA + 512, 1 << 40);
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 0), Ok(0));
    assert_eq!(
        header(&rig),
        1 << 40 | 2,
        "x87 isn't in use; other components' bits stay"
    );
    assert_eq!(
        rig.machine.read(AREA, Size::B2),
        0x37f,
        "and is written nevertheless"
    );
    rig.machine.write(AREA, Size::B2, 0);
    push_one(&mut rig);
    rig.hart.set_edx_eax(2);
    rig.machine.write8(AREA + 512, 0);
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 0), Ok(0));
    assert_eq!((header(&rig), rig.machine.read(AREA, Size::B2)), (2, 0));
    rig.hart.set_edx_eax(1);
    rig.machine.write(AREA + 24, Size::B8, 5);
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 0), Ok(0));
    assert_eq!(
        (header(&rig), rig.machine.read(AREA + 24, Size::B8)),
        (3, 5),
        "MXCSR goes with SSE"
    );
    // xsaveopt leaves out what isn't in use.
    for n in 0..16 {
        rig.hart.regs[slots::xmm(n, 0)] = 0;
        rig.hart.regs[slots::xmm(n, 1)] = 0;
    }
    rig.hart.set_edx_eax(3);
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 2), Ok(0));
    assert_eq!((header(&rig), rig.machine.read(AREA + 160, Size::B8)), (1, 0x100));
    assert_eq!(rig.call(helper::XSAVE, [AREA + 16, 0], 3, 0), gp(0));
    rig.hart.core.cr0 |= CR0_TS;
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 0), Err(trap::trap(NM)));
}

#[test]
fn xrstor_restores_or_initialises() {
    let mut rig = rig();
    push_one(&mut rig);
    let before = state(&rig);
    assert_eq!(rig.call(helper::XSAVE, [AREA, 0], 3, 1), Ok(0));
    rig.machine.write8(AREA + 512, 1);
    assert_eq!(rig.call(helper::XRSTOR, [AREA, 0], 3, 1), Ok(0));
    assert_eq!(rig.hart.in_use(), 1);
    assert_eq!(
        (rig.hart.mxcsr(), rig.hart.x87),
        (before.1, before.2),
        "MXCSR is loaded even so"
    );
    rig.machine.write8(AREA + 512, 3);
    assert_eq!(rig.call(helper::XRSTOR, [AREA, 0], 3, 1), Ok(0));
    assert_eq!(state(&rig), before);
    rig.machine.write8(AREA + 512, 0);
    rig.hart.set_edx_eax(1);
    assert_eq!(rig.call(helper::XRSTOR, [AREA, 0], 3, 1), Ok(0));
    assert_eq!(rig.hart.in_use(), 2);
    for (at, value) in [(512, 4), (520, 1 << 63), (528, 1), (568, 1)] {
        let mut rig = self::rig();
        rig.machine.write8(AREA + at, value);
        assert_eq!(rig.call(helper::XRSTOR, [AREA, 0], 3, 1), gp(0), "header {at}");
    }
}
