//! Loads of segment registers and looks at descriptors, by cases.

use super::super::fake::*;
use super::super::helper;
use super::super::registers::{CS, DS, ES, FS, GS};
use super::*;
use crate::Cpu;

fn load(rig: &mut Rig, n: u8, selector: u16) -> Result<u64, Trap> {
    rig.call(helper::LOAD_SEGMENT, [selector.into(), 0], 1, n)
}

const fn fault(vector: u8, code: u16) -> Result<u64, Trap> {
    Err(trap::fault(vector, code))
}

#[test]
fn loads_in_protected_mode() {
    use selector::*;
    let cases = [
        (0, DS, DATA, Ok(0)),
        (0, DS, DATA | 3, fault(GP, DATA)),
        (0, DS, USER_DATA, Ok(0)),
        (3, DS, DATA | 3, fault(GP, DATA)),
        (3, DS, USER_DATA & !3, Ok(0)),
        (3, ES, CONFORMING32, Ok(0)),
        (3, ES, CODE32, fault(GP, CODE32)),
        (0, ES, CODE32, Ok(0)),
        (0, FS, EXECUTE_ONLY, fault(GP, EXECUTE_ONLY)),
        (0, GS, READ_ONLY, Ok(0)),
        (0, DS, ABSENT_DATA, fault(NP, ABSENT_DATA)),
        (0, DS, 0, Ok(0)),
        (3, GS, 3, Ok(0)),
        (0, DS, TASK, fault(GP, TASK)),
        (0, DS, LIMIT + 1, fault(GP, LIMIT + 1)),
        (0, DS, DATA | 4, fault(GP, DATA | 4)),
        (0, SS, DATA, Ok(0)),
        (0, SS, 0, fault(GP, 0)),
        (0, SS, DATA | 3, fault(GP, DATA)),
        (0, SS, USER_DATA, fault(GP, USER_DATA & !3)),
        (3, SS, USER_DATA, Ok(0)),
        (0, SS, READ_ONLY, fault(GP, READ_ONLY)),
        (0, SS, ABSENT_DATA, fault(trap::SS, ABSENT_DATA)),
        (0, SS, CODE32, fault(GP, CODE32)),
    ];
    for (ring, n, selector, expected) in cases {
        let mut rig = Rig::protected();
        if ring == 3 {
            rig.ring(3, USER_CODE32);
        }
        let before = rig.hart.segment(n);
        assert_eq!(
            load(&mut rig, n, selector),
            expected,
            "ring {ring}, {n} <- {selector:#x}"
        );
        let after = rig.hart.segment(n);
        match expected {
            Ok(_) => assert_eq!(after.selector, selector),
            Err(_) => assert_eq!(after, before),
        }
    }
}

#[test]
fn null_stack_segments_exist_in_64_bit_mode_only() {
    let mut rig = Rig::long();
    assert_eq!(load(&mut rig, SS, 0), Ok(0));
    assert_eq!(load(&mut rig, SS, 1), gp(0));
    rig.ring(3, selector::USER_CODE64);
    assert_eq!(load(&mut rig, SS, 3), gp(0));
}

#[test]
fn a_descriptor_gives_base_limit_and_the_accessed_bit() {
    let mut rig = Rig::protected();
    let at = GDT + u64::from(selector::FREE);
    let attr = A_P | A_S | A_RW | A_DB;
    rig.machine.write8(at, descriptor_at(0x1234_5678, attr, 0xa_bcde));
    assert_eq!(load(&mut rig, FS, selector::FREE), Ok(0));
    let expected = Segment {
        selector: selector::FREE,
        attr: attr | A_ACCESSED,
        base: 0x1234_5678,
        limit: 0xa_bcde,
    };
    assert_eq!(rig.hart.segment(FS), expected);
    assert_eq!(
        rig.machine.read(at + 5, Size::B1),
        u64::from(attr | A_ACCESSED) & 0xff
    );
    assert_eq!(rig.machine.stores.len(), 1);
    assert_eq!(load(&mut rig, FS, selector::FREE), Ok(0));
    assert_eq!(rig.machine.stores.len(), 1, "it is set already");
    rig.machine.write8(at, descriptor_at(0, attr | A_G, 0xf_fffe));
    assert_eq!(load(&mut rig, GS, selector::FREE), Ok(0));
    assert_eq!(rig.hart.segment(GS).limit, 0xffff_efff);
}

#[test]
fn the_local_table() {
    let mut rig = Rig::protected();
    assert_eq!(rig.call(helper::LLDT, [selector::LDT.into(), 0], 1, 0), Ok(0));
    rig.machine.write8(LDT + 0xf8, descriptor(A_P | A_S | A_RW, 7));
    assert_eq!(load(&mut rig, ES, 0xf8 | 4), Ok(0));
    assert_eq!(rig.hart.segment(ES).limit, 7);
    assert_eq!(load(&mut rig, ES, 0x100 | 4), gp(0x104));
    assert_eq!(
        load(&mut rig, ES, 4),
        gp(4),
        "entry 0 of the local table isn't null"
    );
    assert_eq!(
        rig.call(helper::LLDT, [selector::DATA.into(), 0], 1, 0),
        gp(selector::DATA)
    );
    assert_eq!(rig.call(helper::LLDT, [0; 2], 1, 0), Ok(0));
    assert_eq!(load(&mut rig, ES, 0xf8 | 4), gp(0xfc));
}

#[test]
fn tasks_become_busy() {
    let mut rig = Rig::long();
    rig.machine.write8(GDT + 0x38, 0xffff_8000);
    let ltr = |rig: &mut Rig, selector: u16| rig.call(helper::LTR, [selector.into(), 0], 1, 0);
    assert_eq!(ltr(&mut rig, selector::TASK), Ok(0));
    assert_eq!(rig.hart.core.tr.base, TSS | 0xffff_8000_0000_0000);
    assert_eq!(rig.hart.core.tr.attr, A_P | 11);
    assert_eq!(ltr(&mut rig, selector::TASK), gp(selector::TASK), "it is busy");
    assert_eq!(ltr(&mut rig, 0), gp(0));
    assert_eq!(ltr(&mut rig, selector::TASK | 4), gp(selector::TASK | 4));
    rig.machine.write8(GDT + 0x30, descriptor_at(0, A_P | 9, 0x67));
    rig.machine.write8(GDT + 0x38, 0x4000);
    assert_eq!(ltr(&mut rig, selector::TASK), Ok(0));
    rig.machine.write8(GDT + 0x30, descriptor_at(0, 9, 0x67));
    assert_eq!(ltr(&mut rig, selector::TASK), fault(NP, selector::TASK));
}

#[test]
fn real_mode_keeps_the_limit() {
    let mut rig = Rig::real();
    rig.hart.regs[slots::limit(DS)] = 0xffff_ffff;
    assert_eq!(load(&mut rig, DS, 0x1234), Ok(0));
    let ds = rig.hart.segment(DS);
    assert_eq!((ds.base, ds.limit), (0x12340, 0xffff_ffff));
    assert_eq!(rig.hart.data_address(DS, 0x10_0000, 4, true), Ok(0x11_2340));
}

#[test]
fn accesses_in_segments() {
    let mut rig = Rig::protected();
    let mut check = |attr: u16, base: u64, limit: u32, n: u8, offset: u64, len: u64, write: bool| {
        let segment = Segment {
            selector: 8,
            attr,
            base,
            limit,
        };
        rig.hart.set_segment(n, segment);
        let more = len as u8 | if write { helper::CHECK_WRITE } else { 0 };
        rig.call(helper::CHECK_SEGMENT, [n.into(), offset], 2, more)
    };
    let data = A_P | A_S | A_RW;
    let code = A_P | A_S | A_CODE;
    let cases = [
        (data, 0x1000, 0xff, DS, 0xfc, 4, true, Ok(0x10fc)),
        (data, 0x1000, 0xff, DS, 0xfd, 4, true, gp(0)),
        (data, 0, 0xff, SS, 0xfd, 4, true, fault(trap::SS, 0)),
        (data, 0, 0xffff_ffff, DS, 0xffff_ffff, 4, false, gp(0)),
        (data, 0x1000, 0xffff_ffff, DS, 0xffff_f004, 4, false, Ok(4)),
        (data & !A_RW, 0, 0xff, DS, 0, 4, false, Ok(0)),
        (data & !A_RW, 0, 0xff, DS, 0, 4, true, gp(0)),
        (0, 0, 0xff, ES, 0, 4, false, gp(0)),
        (code, 0, 0xff, ES, 0, 4, false, gp(0)),
        (code | A_RW, 0, 0xff, ES, 0, 4, false, Ok(0)),
        (code | A_RW, 0, 0xff, ES, 0, 4, true, gp(0)),
        (data | A_DC, 0, 0xff, DS, 0xff, 1, true, gp(0)),
        (data | A_DC, 0, 0xff, DS, 0x100, 1, true, Ok(0x100)),
        (data | A_DC, 0, 0xff, DS, 0xffff, 2, true, gp(0)),
        (data | A_DC | A_DB, 0, 0xff, DS, 0xffff, 2, true, Ok(0xffff)),
    ];
    for (attr, base, limit, n, offset, len, write, expected) in cases {
        let found = check(attr, base, limit, n, offset, len, write);
        assert_eq!(
            found, expected,
            "{attr:#x} {limit:#x} {n} {offset:#x} {len} {write}"
        );
    }
}

#[test]
fn looks_at_descriptors() {
    use selector::*;
    const SEEN: u64 = 1 << 32;
    let full = 0xffff_ffff;
    let cases = [
        (0, helper::LSL, 0, DATA, SEEN | full),
        (0, helper::LSL, 0, CODE16, SEEN | 0xffff),
        (0, helper::LSL, 0, TASK, SEEN | 0x2067),
        (0, helper::LSL, 0, 0, 0),
        (0, helper::LSL, 0, LIMIT + 1, 0),
        (3, helper::LSL, 0, DATA, 0),
        (3, helper::LSL, 0, CONFORMING32, SEEN | full),
        (0, helper::LAR, 0, DATA, SEEN | 0xcf_9300),
        (0, helper::LAR, 0, LDT, SEEN | 0x8200),
        (0, helper::LSL, 0, LDT, SEEN | 0xff),
        (0, helper::VERIFY, 0, CODE32, 1),
        (0, helper::VERIFY, 0, EXECUTE_ONLY, 0),
        (0, helper::VERIFY, 0, TASK, 0),
        (0, helper::VERIFY, 1, DATA, 1),
        (0, helper::VERIFY, 1, READ_ONLY, 0),
        (0, helper::VERIFY, 1, CODE32, 0),
        (3, helper::VERIFY, 1, DATA, 0),
        (3, helper::VERIFY, 1, USER_DATA, 1),
    ];
    for (ring, helper, more, selector, expected) in cases {
        let mut rig = Rig::protected();
        if ring == 3 {
            rig.ring(3, USER_CODE32);
        }
        let found = rig.call(helper, [selector.into(), 0], 2, more);
        assert_eq!(found, Ok(expected), "{helper} {more} {selector:#x} ring {ring}");
    }
}

#[test]
fn descriptor_tables_are_read_as_the_supervisor() {
    let mut rig = Rig::long();
    // The tables' page is the supervisor's alone.
    rig.machine.write8(0x3000, 0x83);
    rig.ring(3, selector::USER_CODE64);
    assert_eq!(load(&mut rig, FS, selector::USER_DATA), Ok(0));
    rig.machine.write8(0x3000, 0x82);
    let miss = trap::page_fault(0, GDT + u64::from(selector::USER_DATA & !7));
    assert_eq!(load(&mut rig, FS, selector::USER_DATA), Err(miss));
    assert_eq!(rig.hart.data_space(), rig.hart.space(Access::Read));
}

#[test]
fn tables_and_selectors_are_read_back() {
    let mut rig = Rig::long();
    assert_eq!(rig.call(helper::LGDT, [0x7f, 0xffff_8000_0000_0000], 3, 0), Ok(0));
    assert_eq!(rig.call(helper::LIDT, [0xfff, 1 << 47], 3, 0), gp(0));
    assert_eq!(rig.call(helper::READ_TABLE, [0; 2], 3, 0), Ok(0x7f));
    assert_eq!(
        rig.call(helper::READ_TABLE, [0; 2], 3, 2),
        Ok(0xffff_8000_0000_0000)
    );
    assert_eq!(rig.call(helper::READ_TABLE, [0; 2], 3, 3), Ok(IDT));
    assert_eq!(
        rig.call(helper::READ_SELECTOR, [u64::from(CS), 0], 1, 0),
        Ok(selector::CODE64.into())
    );
    assert_eq!(
        rig.call(helper::READ_SELECTOR, [7, 0], 1, 0),
        Ok(selector::TASK.into())
    );
}
