//! Control and debug registers, by cases.

use super::super::fake::*;
use super::super::helper;
use super::super::mode::Mode;
use super::*;
use crate::Cpu;

fn write(rig: &mut Rig, n: u64, value: u64) -> Result<u64, Trap> {
    rig.call(helper::WRITE_CR, [n, value], 3, 0)
}

#[test]
fn values_that_control_registers_refuse() {
    let on = CR0_PE | CR0_PG | CR0_ET;
    let cases: [(u64, u64, bool); 14] = [
        (0, on | CR0_NE, true),
        (0, CR0_PG, false),
        (0, on | CR0_NW, false),
        (0, on | 1 << 32, false),
        (0, on & !CR0_PG, false),
        (3, 0xff_ffff_f018, true),
        (3, 1 << 40, false),
        (3, 1 << 63, false),
        (4, CR4_PAE | CR4_SMAP | CR4_PGE, true),
        (4, CR4_PGE, false),
        (4, CR4_PAE | 1, false),
        (4, CR4_PAE | 1 << 12, false),
        (4, CR4_PAE | CR4_PCIDE, true),
        (8, 16, false),
    ];
    for (n, value, legal) in cases {
        let mut rig = Rig::long();
        let expected = if legal { Ok(0) } else { gp(0) };
        assert_eq!(write(&mut rig, n, value), expected, "cr{n} <- {value:#x}");
    }
    let mut rig = Rig::long();
    rig.hart.core.cr3 = 0x1001;
    assert_eq!(
        write(&mut rig, 4, CR4_PAE | CR4_PCIDE),
        gp(0),
        "a PCID is there already"
    );
    rig.hart.core.cr3 = 0x1000;
    assert_eq!(write(&mut rig, 4, CR4_PAE | CR4_PCIDE), Ok(0));
    assert_eq!(write(&mut rig, 3, 1 << 63 | 0x2005), Ok(0));
    assert_eq!(rig.call(helper::READ_CR, [3, 0], 3, 0), Ok(0x2005));
    rig.ring(3, selector::USER_CODE64);
    assert_eq!(rig.call(helper::READ_CR, [3, 0], 3, 0), gp(0));
    assert_eq!(rig.call(helper::READ_CR, [1, 0], 3, 0), gp(0));
}

#[test]
fn cr8_is_the_interrupt_controller_s() {
    let mut rig = Rig::long();
    assert_eq!(write(&mut rig, 8, 5), gp(0), "the controller refuses");
    rig.machine.local.insert(CR8, 0);
    assert_eq!(write(&mut rig, 8, 5), Ok(0));
    assert_eq!(rig.call(helper::READ_CR, [8, 0], 3, 0), Ok(5));
}

/// From real mode to 64-bit mode and back, as the manual has it (SDM 3A 9.8.5).
#[test]
fn the_way_into_long_mode() {
    let mut rig = Rig::long();
    let tables = rig.machine;
    rig = Rig::protected();
    rig.machine = tables;
    let mode = |rig: &Rig| Mode::from_bits_retain(rig.hart.block_mode());
    assert_eq!(write(&mut rig, 0, CR0_PE | CR0_ET), Ok(0));
    assert_eq!(write(&mut rig, 3, 0x1000), Ok(0));
    assert_eq!(rig.wrmsr(0xc000_0080, EFER_LME), Ok(0));
    assert_eq!(write(&mut rig, 0, CR0_PE | CR0_PG), gp(0), "without PAE");
    assert_eq!(write(&mut rig, 4, CR4_PAE), Ok(0));
    assert_eq!(write(&mut rig, 0, CR0_PE | CR0_PG), Ok(0));
    assert_eq!(rig.rdmsr(0xc000_0080), Ok(EFER_LME | EFER_LMA));
    assert!(!mode(&rig).contains(Mode::LONG), "compatibility mode");
    assert_eq!(
        rig.call(helper::FAR_JUMP, [selector::CODE64.into(), CODE], 2, 0),
        Ok(0)
    );
    assert!(mode(&rig).contains(Mode::LONG));
    assert_eq!(rig.wrmsr(0xc000_0080, 0), gp(0), "while paging is on");
    assert_eq!(
        rig.call(helper::FAR_JUMP, [selector::CODE32.into(), CODE], 2, 0),
        Ok(0)
    );
    assert_eq!(write(&mut rig, 0, CR0_PE), Ok(0));
    assert_eq!(rig.rdmsr(0xc000_0080), Ok(EFER_LME));
    rig.hart.core.attrs[1] |= A_L;
    assert_eq!(write(&mut rig, 0, CR0_PE | CR0_PG), gp(0), "64-bit code already");
}

#[test]
fn machine_status_word() {
    let mut rig = Rig::real();
    assert_eq!(rig.call(helper::LMSW, [0xfff1, 0], 1, 0), Ok(0));
    assert_eq!(rig.hart.core.cr0 & 0xf, 1);
    assert_eq!(rig.call(helper::LMSW, [0xe, 0], 1, 0), Ok(0));
    assert_eq!(rig.hart.core.cr0 & 0xf, 0xf, "PE stays");
    assert_eq!(rig.call(helper::CLTS, [0; 2], 1, 0), Ok(0));
    assert_eq!(rig.call(helper::SMSW, [0; 2], 1, 0).unwrap() & 0xf, 7);
}

#[test]
fn debug_registers() {
    let mut rig = Rig::long();
    let put = |rig: &mut Rig, n: u64, value: u64| rig.call(helper::WRITE_DR, [n, value], 3, 0);
    let get = |rig: &mut Rig, n: u64| rig.call(helper::READ_DR, [n, 0], 3, 0);
    assert_eq!(put(&mut rig, 2, 0x1234), Ok(0));
    assert_eq!(get(&mut rig, 2), Ok(0x1234));
    assert_eq!(put(&mut rig, 4, 0), Ok(0));
    assert_eq!(get(&mut rig, 6), Ok(0xffff_0ff0), "4 is 6");
    assert_eq!(put(&mut rig, 6, 1 << 32), gp(0));
    assert_eq!(put(&mut rig, 7, !0 >> 32), Ok(0));
    let bd = Trap {
        cause: DB.into(),
        value: DR6_BD,
    };
    assert_eq!(get(&mut rig, 7), Err(bd), "general detect");
    rig.deliver(bd);
    assert_eq!(get(&mut rig, 6), Ok(0xffff_0ff0 | DR6_BD));
    assert_eq!(get(&mut rig, 7), Ok(0xffff_07ff));
    rig.hart.core.cr4 |= CR4_DE;
    assert_eq!(get(&mut rig, 5), Err(trap::trap(UD)));
}

#[test]
fn instruction_breakpoints_fault_once() {
    let mut rig = Rig::long();
    rig.hart.core.dr = [CODE, CODE, CODE, 0];
    // 0: local; 1: armed for writes; 2: not armed.
    rig.hart.core.dr7 = DR7_FIXED | 1 | 4 | 1 << 20;
    rig.hart.refresh();
    assert!(Mode::from_bits_retain(rig.hart.block_mode()).contains(Mode::CODE_BREAKPOINTS));
    let hit = rig.call(helper::CODE_BREAKPOINT, [0; 2], 2, 0).unwrap_err();
    assert_eq!(
        (trap::vector(hit.cause), hit.value),
        (DB, 0b101),
        "unarmed conditions are told too"
    );
    rig.deliver(hit);
    assert_eq!(rig.hart.core.dr6 & DR6_B, 0b101);
    // The handler sets RF and returns.
    let flags_at = rig.hart.regs[slots::RSP] + 16;
    rig.machine.write8(flags_at, RF | ALWAYS);
    assert_eq!(rig.call(helper::IRET, [0; 2], 3, 0), Ok(0));
    assert_eq!(rig.call(helper::CODE_BREAKPOINT, [0; 2], 2, 0), Ok(0));
    assert!(
        rig.call(helper::CODE_BREAKPOINT, [0; 2], 2, 0).is_err(),
        "RF is for one instruction"
    );
}

#[test]
fn extended_control_register() {
    let mut rig = Rig::long();
    rig.hart.regs[slots::RCX] = 0;
    rig.hart.set_edx_eax(3);
    assert_eq!(rig.call(helper::XSETBV, [0; 2], 2, 0), Err(trap::trap(UD)));
    rig.hart.core.cr4 |= CR4_OSXSAVE;
    assert_eq!(rig.hart.cpuid(1, 0)[2] >> 27 & 1, 1);
    for (value, legal) in [(3, true), (1, true), (2, false), (7, false), (0, false)] {
        rig.hart.set_edx_eax(value);
        let expected = if legal { Ok(0) } else { gp(0) };
        assert_eq!(rig.call(helper::XSETBV, [0; 2], 2, 0), expected);
    }
    assert_eq!(rig.call(helper::XGETBV, [0; 2], 2, 0), Ok(0));
    assert_eq!(rig.hart.edx_eax(), 1);
}

#[test]
fn random_numbers_are_a_function_of_the_seed() {
    let draw = |seed| {
        let config = super::super::hart::HartConfig {
            id: 0,
            harts: 1,
            seed,
        };
        let mut hart = Hart::new(config);
        [hart.random(), hart.random()]
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    // splitmix64's published first output for state 0.
    assert_eq!(draw(0)[0], 0xe220_a839_7b1d_cdaf);
}
