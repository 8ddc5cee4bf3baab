//! Boundaries: power-on, pins, shadows, single steps.

use super::super::fake::*;
use super::super::helper;
use super::*;
use crate::ir::Size;

fn config(id: u64) -> HartConfig {
    HartConfig {
        id,
        harts: 2,
        seed: 1,
    }
}

#[test]
fn power_on_is_the_manual_s() {
    let hart = Hart::new(config(0));
    assert_eq!(hart.pc(), 0xffff_fff0);
    assert_eq!(hart.ip_of(hart.pc()), 0xfff0);
    assert_eq!(hart.core.selectors[usize::from(CS)], 0xf000);
    assert_eq!((hart.core.cr0, hart.eflags()), (0x6000_0010, 2));
    assert_eq!((hart.core.dr6, hart.core.dr7), (0xffff_0ff0, 0x400));
    assert_eq!(hart.regs[slots::RDX], cpuid::SIGNATURE);
    assert_eq!(hart.mxcsr(), 0x1f80);
    let mode = Mode::from_bits_retain(hart.block_mode());
    assert_eq!(mode.code_bits(), 16);
    assert!(mode.contains(Mode::EDGE | Mode::NO_SSE | Mode::IO_PRIVILEGE));
    assert!(!mode.intersects(Mode::FLAT_CS | Mode::PROTECTED | Mode::NO_X87));
    assert!(!hart.waiting());
}

#[test]
fn the_others_wait_for_startup() {
    let mut rig = Rig::real();
    rig.hart = Hart::new(config(1));
    assert!(rig.hart.waiting());
    rig.hart.set_pin(PIN_NMI, 1);
    rig.hart.set_pin(PIN_INIT, 1);
    assert!(rig.hart.waiting());
    rig.hart.set_pin(PIN_STARTUP, 0x9a + 1);
    assert_eq!(rig.take(), Some(CAUSE_STARTUP));
    assert_eq!(rig.hart.pc(), 0x9a000);
    assert_eq!(rig.hart.core.selectors[usize::from(CS)], 0x9a00);
    rig.hart.set_pin(PIN_STARTUP, 0x10 + 1);
    assert_ne!(rig.hart.interrupt(), Some(CAUSE_STARTUP), "once");
    rig.hart.core.msrs.lstar = 5;
    rig.hart.core.efer = EFER_NXE;
    rig.hart.set_pin(PIN_INIT, 1);
    assert_eq!(rig.take(), Some(CAUSE_INIT));
    assert!(rig.hart.waiting());
    assert_eq!((rig.hart.core.msrs.lstar, rig.hart.core.efer), (5, 0));
}

#[test]
fn the_bootstrap_processor_starts_anew_at_init() {
    let mut rig = Rig::long();
    rig.hart.set_pin(PIN_INIT, 1);
    assert_eq!(rig.take(), Some(CAUSE_INIT));
    assert!(!rig.hart.waiting());
    assert_eq!(rig.hart.pc(), 0xffff_fff0);
    assert!(!rig.hart.protected());
}

#[test]
fn sti_holds_interrupts_off_for_one_instruction() {
    let mut rig = Rig::long();
    rig.hart.set_pin(PIN_LOCAL, 0x40 + 1);
    assert_eq!(rig.call(helper::STI, [0; 2], 2, 0), Ok(0));
    assert_eq!(rig.hart.interrupt(), None);
    assert!(Mode::from_bits_retain(rig.hart.block_mode()).contains(Mode::SHADOW));
    rig.hart.set_pin(PIN_NMI, 1);
    assert_eq!(rig.hart.interrupt(), Some(CAUSE_NMI), "but no NMI");
    rig.hart.core.pins.nmi = false;
    // sti again makes no second shadow.
    assert_eq!(rig.call(helper::STI, [0; 2], 2, 0), Ok(0));
    assert_eq!(rig.hart.interrupt(), Some(0x40));
    assert!(!Mode::from_bits_retain(rig.hart.block_mode()).contains(Mode::SHADOW));
}

#[test]
fn a_load_of_ss_holds_everything_off() {
    let mut rig = Rig::long();
    rig.hart.set_eflags(IF | TF);
    rig.hart.retire(0, 1);
    rig.hart.set_pin(PIN_LOCAL, 0x40 + 1);
    rig.hart.set_pin(PIN_NMI, 1);
    let more = SS | helper::MAKES_SHADOW;
    assert_eq!(
        rig.call(helper::LOAD_SEGMENT, [selector::DATA.into(), 0], 1, more),
        Ok(0)
    );
    assert_eq!(rig.hart.interrupt(), None);
    rig.nop();
    assert_eq!(
        rig.hart.interrupt(),
        Some(CAUSE_DEBUG),
        "the next instruction is stepped"
    );
    let mut rig = Rig::long();
    rig.hart.set_eflags(IF);
    rig.hart.set_pin(PIN_LOCAL, 0x40 + 1);
    assert_eq!(
        rig.call(helper::LOAD_SEGMENT, [selector::DATA.into(), 0], 1, SS),
        Ok(0)
    );
    assert_eq!(rig.hart.interrupt(), Some(0x40), "lss makes no shadow");
}

#[test]
fn a_single_step_is_a_step_of_its_own_before_other_interrupts() {
    let mut rig = Rig::long();
    rig.hart.set_pin(PIN_NMI, 1);
    rig.hart.core.nmi_blocked = true;
    assert_eq!(rig.call(helper::POPF, [TF, 0], 3, 0), Ok(0));
    assert_eq!(rig.hart.interrupt(), None, "popf itself isn't stepped");
    assert!(Mode::from_bits_retain(rig.hart.block_mode()).contains(Mode::TRACE));
    rig.hart.core.nmi_blocked = false;
    rig.nop();
    assert_eq!(rig.take(), Some(CAUSE_DEBUG));
    assert_eq!(rig.hart.pc(), Rig::handler(1));
    assert_eq!(rig.hart.core.dr6, DR6_FIXED | DR6_BS);
    assert_eq!(rig.machine.read(rig.hart.regs[slots::RSP], Size::B8), CODE + 1);
    assert_eq!(rig.hart.eflags() & TF, 0);
    assert_eq!(rig.take(), Some(CAUSE_NMI));
    rig.nop();
    assert_eq!(rig.hart.interrupt(), None);
    // popf that clears TF is stepped.
    let mut rig = Rig::long();
    rig.hart.set_eflags(TF);
    rig.hart.retire(0, 1);
    assert_eq!(rig.call(helper::POPF, [0, 0], 3, 0), Ok(0));
    assert_eq!(rig.hart.interrupt(), Some(CAUSE_DEBUG));
}

#[test]
fn an_interrupt_between_iterations_saves_rf() {
    use super::super::strings::{Repeat, StringForm, StringOp};
    let form = StringForm {
        op: StringOp::Movs,
        repeat: Repeat::While,
        address: Size::B8,
        segment: DS,
        single: true,
    };
    let mut rig = Rig::long();
    rig.hart.regs[slots::RCX] = 2;
    rig.hart.regs[slots::RSI] = 0x6000;
    rig.hart.regs[slots::RDI] = 0x6100;
    assert_eq!(rig.call(helper::STRING, [form.to_bits(), 0], 0, 0), Ok(0));
    assert_eq!(rig.hart.pc(), CODE);
    let mut restored = Hart::new(config(0));
    restored.restore(&rig.hart.save()).unwrap();
    rig.hart = restored;
    rig.hart.set_pin(PIN_NMI, 1);
    assert_eq!(rig.take(), Some(CAUSE_NMI));
    let saved = |rig: &Rig| rig.machine.read(rig.hart.regs[slots::RSP] + 16, Size::B8);
    assert_eq!(saved(&rig), RF | ALWAYS);
    assert_eq!(rig.call(helper::IRET, [0; 2], 3, 0), Ok(0));
    assert_eq!(rig.call(helper::STRING, [form.to_bits(), 0], 0, 0), Ok(0));
    assert_eq!(rig.hart.pc(), CODE + 2);
    rig.hart.set_pin(PIN_NMI, 1);
    assert_eq!(rig.take(), Some(CAUSE_NMI));
    assert_eq!(saved(&rig), ALWAYS, "behind the last one");
}

#[test]
fn a_halted_processor_waits_for_what_it_may_take() {
    let mut rig = Rig::long();
    assert_eq!(rig.call(helper::HLT, [0; 2], 2, 0), Ok(0));
    rig.hart.set_pin(PIN_LOCAL, 0x40 + 1);
    assert!(rig.hart.waiting(), "IF is clear");
    rig.hart.set_eflags(IF);
    assert!(!rig.hart.waiting());
    rig.hart.set_pin(PIN_LOCAL, 0);
    assert!(rig.hart.waiting(), "it went away again");
    rig.hart.set_pin(PIN_EXTERNAL, 0x20 + 1);
    assert_eq!(rig.take(), Some(0x20));
    assert_eq!(rig.machine.acknowledged, [(PIN_EXTERNAL, 0x20)]);
    assert!(!rig.hart.waiting());
    assert_eq!(
        rig.machine.read(rig.hart.regs[slots::RSP], Size::B8),
        CODE,
        "behind hlt"
    );
}

#[test]
fn loaders_start_processors_in_flat_modes() {
    let mut hart = Hart::new(config(0));
    hart.start(Start::Long64 {
        rip: 0xffff_ffff_8100_0000,
        rsi: 0x9000,
        rsp: 0x8000,
        cr3: 0x1000,
        gdt: (0x500, 0x1f),
    });
    let mode = Mode::from_bits_retain(hart.block_mode());
    assert!(mode.contains(Mode::LONG | Mode::PROTECTED | Mode::FLAT_DS));
    assert_eq!(
        (hart.pc(), hart.regs[slots::RSI]),
        (0xffff_ffff_8100_0000, 0x9000)
    );
    hart.regs[slots::RSI] = 0;
    hart.reset(0);
    assert_eq!(hart.regs[slots::RSI], 0x9000, "a reset begins there again");
    let mut hart = Hart::new(config(0));
    hart.start(Start::Protected32 {
        eip: 0x10_0000,
        eax: 0x2bad_b002,
        ebx: 0x9000,
        esi: 1,
        esp: 0x7000,
        gdt: (0, 0xffff),
    });
    let mode = Mode::from_bits_retain(hart.block_mode());
    assert!(mode.contains(Mode::BIG | Mode::STACK32 | Mode::FLAT_CS | Mode::FLAT_SS));
    assert!(!mode.intersects(Mode::LONG | Mode::EDGE));
}

#[test]
fn modes_follow_the_registers() {
    let mut rig = Rig::protected();
    let has = |rig: &Rig, mode| Mode::from_bits_retain(rig.hart.block_mode()).contains(mode);
    assert!(has(
        &rig,
        Mode::BIG | Mode::FLAT_DS | Mode::FLAT_ES | Mode::STACK32
    ));
    let load =
        |rig: &mut Rig, n: u8, selector: u16| rig.call(helper::LOAD_SEGMENT, [selector.into(), 0], 1, n);
    assert_eq!(load(&mut rig, ES, 0), Ok(0));
    assert!(!has(&rig, Mode::FLAT_ES), "null");
    assert_eq!(load(&mut rig, DS, selector::READ_ONLY), Ok(0));
    assert!(!has(&rig, Mode::FLAT_DS));
    rig.hart.core.cr0 |= CR0_TS | CR0_MP | CR0_AM;
    rig.hart.set_eflags(AC);
    rig.hart.refresh();
    assert!(has(&rig, Mode::TS | Mode::MP | Mode::NO_X87));
    assert!(!has(&rig, Mode::ALIGNMENT), "ring 0");
    rig.ring(3, selector::USER_CODE32);
    assert!(has(&rig, Mode::ALIGNMENT) && !has(&rig, Mode::IO_PRIVILEGE));
    assert_eq!(rig.call(helper::LDMXCSR, [0x1f00, 0], 2, 0), Ok(0));
    assert!(has(&rig, Mode::SSE_UNMASKED));
    assert_eq!(rig.hart.mxcsr(), 0x1f00);
    rig.hart.regs[slots::PC] = 0xfff0_0000;
    assert!(has(&rig, Mode::EDGE));
}
