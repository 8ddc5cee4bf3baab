//! Programs of x87 instructions, lifted and run by the interpreter.

use super::super::fake::*;
use super::super::hart::{LAYOUT, PIN_IGNNE};
use super::super::mode::Mode;
use super::super::registers::{DS, Segment};
use super::super::x87::X87Op;
use super::*;
use crate::interp::{self, Scratch};
use crate::ir::{Rmw, Terminal};
use crate::x86_64::bits::{CR0_EM, CR0_NE};
use crate::{Cpu, Env, Exit, Here, Lifted, Outcome, RegFile};

/// Where programs keep their data.
const AT: u64 = 0x6_0000;

struct World<'a> {
    rig: &'a mut Rig,
    trap: Option<Trap>,
}

impl World<'_> {
    fn end<T: Default>(&mut self, result: Result<T, Trap>) -> (Outcome, T) {
        match result {
            Ok(value) => (Outcome::Done, value),
            Err(trap) => {
                self.trap = Some(trap);
                (Outcome::Stop, T::default())
            }
        }
    }
}

impl Env for World<'_> {
    fn load(&mut self, _: Here, addr: u64, size: Size) -> (Outcome, u64) {
        let Rig { hart, machine } = &mut *self.rig;
        let result = machine.load(hart, addr, size);
        self.end(result)
    }
    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        let Rig { hart, machine } = &mut *self.rig;
        let result = machine.store(hart, addr, size, value);
        self.end(result).0
    }
    fn rmw(&mut self, _: Here, _: Rmw, _: u64, _: Size, _: u64) -> (Outcome, u64) {
        unreachable!("no such op")
    }
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let Rig { hart, machine } = &mut *self.rig;
        let pc = hart.regs[slots::PAGE] + u64::from(here.offset);
        let result = hart.call(machine, helper, args, pc);
        self.end(result)
    }
    fn regs(&mut self) -> &mut RegFile {
        &mut self.rig.hart.regs
    }
    fn check(&mut self, _: Here, addr: u64, len: u64, write: bool) -> Outcome {
        let Rig { hart, machine } = &mut *self.rig;
        let access = if write { Access::Write } else { Access::Read };
        let result = machine.check(hart, addr, len, access);
        self.end(result).0
    }
    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.end::<()>(Err(trap)).0
    }
    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}

/// Runs a program from `CODE` on; the exception that it ends with, if it doesn't reach its end.
fn run(rig: &mut Rig, program: &[&[u8]]) -> Result<(), Trap> {
    let code = program.concat();
    let mut page = [0; 4096];
    page[..code.len()].copy_from_slice(&code);
    let end = CODE + code.len() as u64;
    rig.hart.regs[slots::PC] = CODE;
    rig.hart.regs[slots::PAGE] = CODE;
    while rig.hart.pc() != end {
        let pc = rig.hart.pc();
        let lifted = rig
            .hart
            .lift(rig.hart.block_mode(), (pc & 0xfff) as u16, &page, None);
        let Lifted::Block(block) = lifted else {
            panic!("it's one page")
        };
        block.verify().unwrap();
        let count = block
            .insns
            .iter()
            .filter(|i| CODE + u64::from(i.offset) < end)
            .count();
        let mut world = World { rig, trap: None };
        let mut budget = count as u64;
        match interp::run(
            &block,
            &LAYOUT,
            &mut world,
            &mut Scratch::default(),
            &mut budget,
            &[],
        ) {
            Exit::Trap(trap) => return Err(trap),
            Exit::Stop => return Err(world.trap.unwrap()),
            _ => {}
        }
    }
    Ok(())
}

const FNINIT: &[u8] = &[0xdb, 0xe3];
const FLD1: &[u8] = &[0xd9, 0xe8];
const FLDPI: &[u8] = &[0xd9, 0xeb];
const FLDZ: &[u8] = &[0xd9, 0xee];
const FADDP: &[u8] = &[0xde, 0xc1];
const FDIVP: &[u8] = &[0xde, 0xf9];
const FNSTSW_AX: &[u8] = &[0xdf, 0xe0];
const FWAIT: &[u8] = &[0x9b];
/// With rdi as the address.
const FSTP_M80: &[u8] = &[0xdb, 0x3f];
const FLD_M80: &[u8] = &[0xdb, 0x2f];
const FLDCW: &[u8] = &[0xd9, 0x2f];
const FNSTENV: &[u8] = &[0xd9, 0x37];
const FNSAVE: &[u8] = &[0xdd, 0x37];
const FRSTOR: &[u8] = &[0xdd, 0x27];

fn long() -> Rig {
    let mut rig = Rig::long();
    rig.hart.regs[slots::RDI] = AT;
    rig
}

#[test]
fn a_sum_goes_to_memory() {
    let mut rig = long();
    run(&mut rig, &[FNINIT, FLD1, FLDPI, FADDP, FSTP_M80]).unwrap();
    // pi + 1, to nearest.
    assert_eq!(rig.machine.read(AT, Size::B8), 0x8487_ed51_10b4_611a);
    assert_eq!(rig.machine.read(AT + 8, Size::B2), 0x4001);
    assert_eq!(rig.machine.read(AT + 10, Size::B2), 0);
    assert_eq!(rig.hart.x87.tags, 0);
    run(&mut rig, &[FLD_M80, FLD_M80, FDIVP, FSTP_M80]).unwrap();
    assert_eq!(rig.machine.read(AT, Size::B8), 1 << 63);
    assert_eq!(rig.machine.read(AT + 8, Size::B2), 0x3fff);
}

#[test]
fn comparisons_set_the_flags_and_ax() {
    let mut rig = long();
    rig.hart.regs[slots::RAX] = u64::MAX;
    // fcomi; jb over fldz; fnstsw ax
    run(
        &mut rig,
        &[
            FNINIT,
            FLDPI,
            FLD1,
            &[0xdb, 0xf1],
            &[0x72, 2],
            FLDZ,
            &[0xd8, 0xd1],
            FNSTSW_AX,
        ],
    )
    .unwrap();
    // TOP 6, C0 (below).
    assert_eq!(rig.hart.regs[slots::RAX], 0xffff_ffff_ffff_3100);
    assert_eq!(rig.hart.eflags() & flags::ARITHMETIC, flags::CF);
}

#[test]
fn the_flags_choose_what_moves() {
    for (below, exponent) in [(0, 0x3fff), (flags::CF, 0x4000)] {
        let mut rig = long();
        rig.hart.set_eflags(below);
        // fcmovb st, st(1)
        run(&mut rig, &[FNINIT, FLDPI, FLD1, &[0xda, 0xc1], FSTP_M80]).unwrap();
        assert_eq!(rig.machine.read(AT + 8, Size::B2), exponent);
    }
}

#[test]
fn unmasked_exceptions_wait_for_who_waits() {
    let mut rig = long();
    rig.hart.core.cr0 |= CR0_NE;
    rig.machine.write(AT, Size::B2, 0x37b);
    let divide = [FNINIT, FLDCW, FLD1, FLDZ, FDIVP];
    let mf = Err(trap::trap(trap::MF));
    for waits in [FWAIT, FLD1, FLDCW, FSTP_M80] {
        assert_eq!(run(&mut rig, &[divide.concat().as_slice(), waits]), mf);
        assert_eq!(rig.hart.pc(), CODE + 10, "at the one that waits");
    }
    // Before a fault of the operand.
    rig.hart.regs[slots::RDI] = 1 << 40;
    assert_eq!(run(&mut rig, &[FLD_M80]), mf);
    rig.hart.regs[slots::RDI] = AT;
    run(&mut rig, &[FNSTSW_AX, FNSTENV]).unwrap();
    assert_eq!(rig.hart.regs[slots::RAX] & 0xff, 0x84);
    // fnclex; what masks ends it too.
    run(&mut rig, &[&[0xdb, 0xe2], FWAIT, FLD1]).unwrap();
}

/// CR0.NE clear: an interrupt by way of the chipset, and IGNNE#.
#[test]
fn errors_freeze_where_they_are_no_exception() {
    let mut rig = long();
    rig.hart.core.cr0 &= !CR0_NE;
    rig.machine.write(AT, Size::B2, 0x37b);
    let divide = [FNINIT, FLDCW, FLD1, FLDZ, FDIVP];
    let mf = run(&mut rig, &[divide.concat().as_slice(), FWAIT]).unwrap_err();
    assert_eq!(mf, trap::trap(trap::MF));
    for _ in 0..2 {
        rig.hart.deliver(&mut rig.machine, mf, CODE + 10);
        assert!(rig.hart.waiting() && rig.hart.pc() == CODE + 10);
        assert_eq!(rig.machine.numeric_errors, [true], "told once");
    }
    rig.hart.set_pin(PIN_IGNNE, 1);
    assert!(!rig.hart.waiting());
    // What waits goes on, and what it does raise is beside what there was.
    run(&mut rig, &[FWAIT, FLD1, FNSTSW_AX]).unwrap();
    assert_eq!(rig.hart.regs[slots::RAX] & 0xff, 0x84);
    assert_eq!(rig.machine.numeric_errors, [true]);
    run(&mut rig, &[&[0xdb, 0xe2], FNSTSW_AX]).unwrap();
    assert_eq!(rig.hart.regs[slots::RAX] & 0xff, 0);
    assert_eq!(rig.machine.numeric_errors, [true, false]);
    // With CR0.NE set the pin says nothing.
    rig.hart.core.cr0 |= CR0_NE;
    assert_eq!(run(&mut rig, &[divide.concat().as_slice(), FWAIT]), Err(mf));
}

#[test]
fn mmx_waits_too() {
    const PXOR_MM0: &[u8] = &[0x0f, 0xef, 0xc0];
    const EMMS: &[u8] = &[0x0f, 0x77];
    let mut rig = long();
    rig.machine.write(AT, Size::B2, 0x37b);
    run(&mut rig, &[FNINIT, PXOR_MM0, EMMS, PXOR_MM0]).unwrap();
    assert_eq!(rig.hart.x87.tags, 0xff);
    let mf = Err(trap::trap(trap::MF));
    for mmx in [PXOR_MM0, EMMS] {
        // All in one block.
        let program = [FNINIT, FLDCW, PXOR_MM0, EMMS, FLD1, FLDZ, FDIVP, mmx];
        assert_eq!(run(&mut rig, &program), mf);
        assert_eq!(rig.hart.pc(), CODE + 15);
    }
}

#[test]
fn not_available() {
    let nm = Err(trap::trap(trap::NM));
    let mut rig = long();
    let cr0 = rig.hart.core.cr0;
    for (bits, x87, wait) in [
        (CR0_EM, nm, Ok(())),
        (CR0_TS, nm, Ok(())),
        (CR0_TS | CR0_MP, nm, nm),
        (CR0_MP, Ok(()), Ok(())),
        (CR0_MP | CR0_EM, nm, Ok(())),
    ] {
        rig.hart.core.cr0 = cr0 | bits;
        rig.hart.refresh();
        assert_eq!(run(&mut rig, &[FNINIT]), x87, "{bits:#x}");
        assert_eq!(run(&mut rig, &[FNSTSW_AX]), x87, "{bits:#x}");
        assert_eq!(run(&mut rig, &[FWAIT]), wait, "{bits:#x}");
    }
}

#[test]
fn a_fault_leaves_all_as_it_was() {
    let mut rig = long();
    run(&mut rig, &[FNINIT, FLDPI]).unwrap();
    let before = rig.hart.x87;
    // The last byte is not mapped.
    let end = 4 << 20;
    rig.machine.write8(0x3000 + 8 * 2, 0);
    for (op, len) in [(FSTP_M80, 10), (FNSTENV, 28), (FNSAVE, 108), (FRSTOR, 108)] {
        rig.hart.regs[slots::RDI] = end - len + 1;
        rig.machine.stores.clear();
        let fault = run(&mut rig, &[op]).unwrap_err();
        assert_eq!(trap::vector(fault.cause), trap::PF);
        assert_eq!(fault.value, end);
        assert_eq!(rig.hart.x87, before);
        assert!(rig.machine.stores.is_empty());
    }
}

#[test]
fn environments_in_every_mode() {
    // fld m80 through the data segment, then the environment of either size.
    let program = [FNINIT, FLD_M80, FNSTENV];
    let mut rig = long();
    run(&mut rig, &program).unwrap();
    assert_eq!(
        rig.machine.words(AT, Size::B4, 7),
        [
            0xffff_037f,
            0xffff_3800,
            0xffff_7fff,
            CODE + 2,
            0x32f << 16,
            AT,
            0xffff_0000
        ]
    );
    assert_eq!(rig.hart.x87.data.offset, AT);
    let mut rig = Rig::protected();
    rig.hart.regs[slots::RDI] = AT;
    run(&mut rig, &program).unwrap();
    assert_eq!(
        rig.machine.words(AT + 12, Size::B4, 4),
        [
            CODE + 2,
            0x32f << 16 | u64::from(selector::CODE32),
            AT,
            0xffff_0000 | u64::from(selector::DATA)
        ]
    );
    // With a prefix.
    (0..4).for_each(|i| rig.machine.write8(AT + 8 * i, 0));
    run(&mut rig, &[FNINIT, FLD_M80, &[0x66], FNSTENV]).unwrap();
    assert_eq!(
        rig.machine.words(AT, Size::B2, 7),
        [
            0x37f,
            0x3800,
            0x7fff,
            CODE + 2,
            selector::CODE32.into(),
            AT & 0xffff,
            selector::DATA.into()
        ]
    );
    // Real mode, where the same bytes mean bx; the addresses are linear.
    let mut rig = Rig::real();
    rig.hart.regs[slots::RBX] = 0x5000;
    rig.hart.set_segment(DS, Segment::real(0x1000, 0x93));
    rig.hart.refresh();
    run(&mut rig, &program).unwrap();
    assert_eq!(
        rig.machine.words(0x15000, Size::B2, 7),
        [0x37f, 0x3800, 0x7fff, CODE + 2, 0x32f, 0x5000, 0x1000]
    );
}

#[test]
fn what_is_saved_comes_back() {
    let mut rig = long();
    run(&mut rig, &[FNINIT, FLD1, FLDPI, FLDZ]).unwrap();
    let before = rig.hart.x87;
    run(&mut rig, &[FNSAVE]).unwrap();
    assert_eq!(rig.hart.x87.tags, 0);
    run(&mut rig, &[FLD1, FLD1, FRSTOR]).unwrap();
    assert_eq!(rig.hart.x87, before);
}

#[test]
fn decoder_and_table_know_the_same() {
    let mut page = [0; 4096];
    for escape in 0xd8..=0xdf {
        for modrm in 0..=255 {
            page[..2].copy_from_slice(&[escape, modrm]);
            let Lifted::Block(block) =
                crate::x86_64::lift::lift(Mode::LONG.bits() | Mode::TRACE.bits(), 0, &page, None)
            else {
                panic!("it's one page")
            };
            let invalid =
                matches!(block.terminal, Terminal::Trap { cause, .. } if cause == trap::cause(trap::UD));
            let known = X87Op::from_opcode(escape, modrm).is_some();
            assert_eq!(known, !invalid, "{escape:x} {modrm:x}");
        }
    }
}
