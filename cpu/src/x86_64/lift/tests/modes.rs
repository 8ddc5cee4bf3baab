//! Instructions in modes in which this machine can't run them natively: segments, 16 bits, faults.

use crate::interp::{self, Scratch};
use crate::ir::{Rmw, Size};
use crate::x86_64::bits::*;
use crate::x86_64::fake::{CODE, Rig, selector};
use crate::x86_64::flags::{CF, ZF};
use crate::x86_64::hart::LAYOUT;
use crate::x86_64::registers::{DS, ES, SS, Segment};
use crate::x86_64::slots::{self, PAGE, PC, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
use crate::x86_64::trap::{self, fault};
use crate::{Access, Context, Cpu, Env, Exit, Here, Lifted, Outcome, RegFile, Trap};

/// A rig that runs code.
struct Runner {
    rig: Rig,
    trap: Option<Trap>,
}

impl Runner {
    /// With code at the program counter.
    fn new(mut rig: Rig, code: &[u8]) -> Runner {
        let at = rig.hart.pc() as usize;
        rig.machine.ram[at..at + code.len()].copy_from_slice(code);
        Runner { rig, trap: None }
    }

    /// Makes at most `steps` steps; stops before one that traps.
    fn run(&mut self, steps: u64) -> Result<(), Trap> {
        let mut left = steps;
        while left > 0 {
            let pc = self.rig.hart.pc();
            let page = |n: u64| {
                let at = ((pc & !0xfff) + 4096 * n) as usize;
                <[u8; 4096]>::try_from(&self.rig.machine.ram[at..at + 4096]).unwrap()
            };
            let (mode, offset) = (self.rig.hart.block_mode(), (pc & 0xfff) as u16);
            let mut lifted = self.rig.hart.lift(mode, offset, &page(0), None);
            if let Lifted::NeedsNextPage = lifted {
                lifted = self.rig.hart.lift(mode, offset, &page(0), Some(&page(1)));
            }
            let Lifted::Block(block) = lifted else {
                panic!("the next page was given")
            };
            block.verify().unwrap();
            self.rig.hart.regs_mut()[PAGE] = pc & !0xfff;
            let before = left;
            let exit = interp::run(&block, &LAYOUT, self, &mut Scratch::default(), &mut left, &[]);
            self.rig.hart.retire(before - left, before - left);
            match exit {
                Exit::Budget | Exit::Next | Exit::Dispatch => {}
                Exit::Stop => return Err(self.trap.take().unwrap()),
                Exit::Trap(trap) => return Err(trap),
                Exit::Breakpoint => unreachable!("none was set"),
            }
        }
        Ok(())
    }

    fn reg(&self, slot: crate::ir::Slot) -> u64 {
        self.rig.hart.regs()[slot]
    }

    fn set(&mut self, slot: crate::ir::Slot, v: u64) {
        self.rig.hart.regs_mut()[slot] = v;
    }

    fn read(&self, addr: u64, size: Size) -> u64 {
        self.rig.machine.read(addr, size)
    }

    fn write(&mut self, addr: u64, size: Size, v: u64) {
        self.rig.machine.write(addr, size, v);
    }

    /// Instruction pointer from the beginning of the code.
    fn offset(&self) -> u64 {
        self.rig.hart.pc() - CODE
    }

    fn flags(&self) -> u64 {
        self.rig.hart.eflags()
    }

    fn outcome<T: Default>(&mut self, result: Result<T, Trap>) -> (Outcome, T) {
        match result {
            Ok(v) => (Outcome::Done, v),
            Err(trap) => {
                self.trap = Some(trap);
                (Outcome::Stop, T::default())
            }
        }
    }
}

impl Env for Runner {
    fn load(&mut self, _: Here, addr: u64, size: Size) -> (Outcome, u64) {
        let Rig { hart, machine } = &mut self.rig;
        let result = machine.load(hart, addr, size);
        self.outcome(result)
    }
    fn store(&mut self, _: Here, addr: u64, size: Size, value: u64) -> Outcome {
        let Rig { hart, machine } = &mut self.rig;
        let result = machine.store(hart, addr, size, value);
        self.outcome(result).0
    }
    fn rmw(&mut self, _: Here, _: Rmw, _: u64, _: Size, _: u64) -> (Outcome, u64) {
        unreachable!("no such op")
    }
    fn call(&mut self, here: Here, helper: u16, args: [u64; 3]) -> (Outcome, u64) {
        let Rig { hart, machine } = &mut self.rig;
        let pc = hart.regs()[PAGE] + u64::from(here.offset);
        let result = hart.call(machine, helper, args, pc);
        self.outcome(result)
    }
    fn regs(&mut self) -> &mut RegFile {
        self.rig.hart.regs_mut()
    }
    fn check(&mut self, _: Here, addr: u64, len: u64, write: bool) -> Outcome {
        let Rig { hart, machine } = &mut self.rig;
        let access = if write { Access::Write } else { Access::Read };
        let result = machine.check(hart, addr, len, access);
        self.outcome(result).0
    }
    fn raise(&mut self, _: Here, trap: Trap) -> Outcome {
        self.outcome::<()>(Err(trap)).0
    }
    fn breakpoint(&mut self, _: Here) -> bool {
        false
    }
}

/// Code, with what an assembler was given for it.
fn asm<'a>(_text: &str, code: &'a [u8]) -> &'a [u8] {
    code
}

fn real(code: &[u8]) -> Runner {
    Runner::new(Rig::real(), code)
}

fn protected(code: &[u8]) -> Runner {
    Runner::new(Rig::protected(), code)
}

fn long(code: &[u8]) -> Runner {
    Runner::new(Rig::long(), code)
}

/// A data segment.
fn data(base: u64, limit: u32, attr: u16) -> Segment {
    Segment {
        selector: 0x10,
        attr: attr | A_P | A_S | A_ACCESSED,
        base,
        limit,
    }
}

#[test]
fn real_mode_addresses() {
    let mut r = real(asm(
        "mov %ax, 0x10(%bx,%si); mov 2(%bp), %cx; mov %es:(%di), %dl",
        &[0x89, 0x40, 0x10, 0x8b, 0x4e, 0x02, 0x26, 0x8a, 0x15],
    ));
    r.rig
        .hart
        .set_segment(DS, Segment::real(0x2000, A_P | A_S | A_RW | A_ACCESSED));
    r.rig
        .hart
        .set_segment(SS, Segment::real(0x3000, A_P | A_S | A_RW | A_ACCESSED));
    r.rig
        .hart
        .set_segment(ES, Segment::real(0x1800, A_P | A_S | A_RW | A_ACCESSED));
    r.set(RAX, 0xabcd_1234);
    // The sum wraps at 16 bits, and what is above in the registers doesn't count.
    r.set(RBX, 0x1_fff0);
    r.set(RSI, 0x5_0100);
    r.set(RBP, 0x100);
    r.set(RDI, 0xffff_0200);
    r.write(0x3_0102, Size::B2, 0x5566);
    r.write(0x1_8200, Size::B1, 0x77);
    r.set(RCX, u64::MAX);
    r.run(3).unwrap();
    assert_eq!(r.read(0x2_0100, Size::B4), 0x1234);
    assert_eq!(r.reg(RCX), 0xffff_ffff_ffff_5566);
    assert_eq!(r.reg(RDX) & 0xff, 0x77);
}

#[test]
fn real_mode_limits() {
    for (code, vector) in [
        (asm("mov (%bx), %ax", &[0x8b, 0x07]), trap::GP),
        (asm("mov %ax, (%bx)", &[0x89, 0x07]), trap::GP),
        (asm("mov %ss:(%bx), %ax", &[0x36, 0x8b, 0x07]), trap::SS),
        (asm("movsw", &[0xa5]), trap::GP),
    ] {
        let mut r = real(code);
        r.set(RBX, 0xffff);
        r.set(RSI, 0xffff);
        assert_eq!(r.run(1), Err(fault(vector, 0)), "{code:x?}");
        // A byte is within.
        let mut r = real(asm("mov (%bx), %al", &[0x8a, 0x07]));
        r.set(RBX, 0xffff);
        r.run(1).unwrap();
    }
    // With addresses of 32 bits there is no wrapping, but the limit.
    let mut r = real(asm("mov (%ebx), %al", &[0x67, 0x8a, 0x03]));
    r.set(RBX, 0x1_0000);
    assert_eq!(r.run(1), Err(fault(trap::GP, 0)));
    // Unless it was raised before: a flat segment in real mode.
    let mut r = real(asm("mov (%ebx), %al", &[0x67, 0x8a, 0x03]));
    r.set(RBX, 0x10_0000);
    r.write(0x10_0000, Size::B1, 0x99);
    let mut flat = r.rig.hart.segment(DS);
    flat.limit = u32::MAX;
    r.rig.hart.set_segment(DS, flat);
    r.rig.hart.refresh();
    r.run(1).unwrap();
    assert_eq!(r.reg(RAX) & 0xff, 0x99);
}

#[test]
fn a_stack_of_16_bits() {
    let mut r = real(asm("push %ax; pushl %ecx; pop %dx", &[0x50, 0x66, 0x51, 0x5a]));
    r.rig
        .hart
        .set_segment(SS, Segment::real(0x3000, A_P | A_S | A_RW | A_ACCESSED));
    r.set(RSP, 0x1234_0002);
    r.set(RAX, 0x1111);
    r.set(RCX, 0x2222_3333);
    r.run(3).unwrap();
    assert_eq!(r.read(0x3_0000, Size::B2), 0x1111);
    assert_eq!(r.read(0x3_fffc, Size::B4), 0x2222_3333);
    assert_eq!((r.reg(RDX) & 0xffff, r.reg(RSP)), (0x3333, 0x1234_fffe));
    // A push across the end of the segment.
    let mut r = real(asm("push %ax", &[0x50]));
    r.set(RSP, 1);
    assert_eq!(r.run(1), Err(fault(trap::SS, 0)));
}

#[test]
fn control_flow_of_16_bits() {
    // CS has base 0: a jump backward beyond 0 comes out at the top.
    let mut r = real(asm("jmp .-0x7001", &[0xe9, 0xfc, 0x8f]));
    r.run(1).unwrap();
    assert_eq!(r.rig.hart.pc(), 0xffff);
    // Offsets, not linear addresses, are pushed.
    let mut rig = Rig::real();
    rig.hart
        .set_segment(1, Segment::real(0x700, A_P | A_S | A_CODE | A_RW | A_ACCESSED));
    let mut r = Runner::new(rig, asm("call .+0x20", &[0xe8, 0x1d, 0x00]));
    r.rig.hart.refresh();
    r.write(CODE + 0x20, Size::B1, 0xc3);
    r.run(1).unwrap();
    assert_eq!((r.offset(), r.read(0x5ffe, Size::B2)), (0x20, 3));
    r.run(1).unwrap();
    assert_eq!((r.offset(), r.reg(RSP)), (3, 0x6000));
    // Code ends at the limit: the last byte of this instruction is beyond.
    let mut r = real(asm("mov $1, %ax", &[0xb8, 0x01, 0x00]));
    let mut cs = r.rig.hart.segment(1);
    cs.limit = 0x7001;
    r.rig.hart.set_segment(1, cs);
    r.rig.hart.refresh();
    assert_eq!(r.run(1), Err(fault(trap::GP, 0)));
    // So do targets; a jump that isn't made doesn't matter.
    let mut r = real(asm(
        "test %cx, %cx; jnz .+0x100; jz .+0x102",
        &[0x85, 0xc9, 0x0f, 0x85, 0xfc, 0x00, 0x0f, 0x84, 0xfe, 0x00],
    ));
    cs.limit = 0x7080;
    r.rig.hart.set_segment(1, cs);
    r.rig.hart.refresh();
    assert_eq!(r.run(3), Err(fault(trap::GP, 0)));
    assert_eq!(r.offset(), 6);
    // A count of 16 bits.
    let mut r = real(asm("loop .", &[0xe2, 0xfe]));
    r.set(RCX, 0x7_0003);
    r.run(3).unwrap();
    assert_eq!((r.offset(), r.reg(RCX)), (2, 0x7_0000));
}

#[test]
fn all_registers_at_once() {
    let mut r = real(asm(
        "pusha; popa; pushal; popal",
        &[0x60, 0x61, 0x66, 0x60, 0x66, 0x61],
    ));
    for n in 0..8 {
        r.set(slots::gpr(n), 0x1111_0000 * u64::from(n) + 0x100 * u64::from(n));
    }
    r.set(RSP, 0x6000);
    r.run(1).unwrap();
    assert_eq!(
        r.rig.machine.words(0x5ff0, Size::B2, 8),
        [0x700, 0x600, 0x500, 0x6000, 0x300, 0x200, 0x100, 0]
    );
    r.write(0x5ffe, Size::B2, 0x4444);
    r.write(0x5ff6, Size::B2, 0x9999);
    r.run(1).unwrap();
    assert_eq!(
        (r.reg(RAX), r.reg(RSP), r.reg(RDI)),
        (0x4444, 0x6000, 0x7777_0700)
    );
    r.run(2).unwrap();
    assert_eq!((r.reg(RDI), r.reg(RSP)), (0x7777_0700, 0x6000));
    // Nothing is stored if not all can be: in a segment that begins above.
    let mut r = real(asm("pusha", &[0x60]));
    let mut ss = r.rig.hart.segment(SS);
    ss.limit = 0x5ff8;
    r.rig.hart.set_segment(SS, ss);
    r.rig.hart.refresh();
    r.write(0x5ff0, Size::B8, 0x1234);
    assert_eq!(r.run(1), Err(fault(trap::SS, 0)));
    assert_eq!((r.read(0x5ff0, Size::B8), r.reg(RSP)), (0x1234, 0x6000));
}

#[test]
fn segments_of_protected_mode() {
    let rights = [
        // Within, beyond the limit, read-only, expand-down.
        (data(0x1000, 0xff, A_RW), 0xfc, true, true),
        (data(0x1000, 0xff, A_RW), 0xfd, false, false),
        (data(0x1000, 0xff, 0), 0x10, true, false),
        (data(0x1000, 0xff, A_RW | A_DC | A_DB), 0xff, false, false),
        (data(0x1000, 0xff, A_RW | A_DC | A_DB), 0x100, true, true),
        (data(0x1000, 0xff, A_CODE), 0, false, false),
        (data(0x1000, 0xff, A_CODE | A_RW), 0, true, false),
    ];
    for (segment, at, reads, writes) in rights {
        for (code, allowed) in [
            (asm("mov (%ebx), %eax", &[0x8b, 0x03]), reads),
            (asm("mov %eax, (%ebx)", &[0x89, 0x03]), writes),
            (asm("add %eax, (%ebx)", &[0x01, 0x03]), writes),
            (asm("cmp %eax, (%ebx)", &[0x39, 0x03]), reads),
        ] {
            let mut r = protected(code);
            r.rig.hart.set_segment(DS, segment);
            r.rig.hart.refresh();
            r.set(RBX, at);
            r.set(RAX, 0x5a);
            let expected = if allowed { Ok(()) } else { Err(fault(trap::GP, 0)) };
            assert_eq!(r.run(1), expected, "{segment:x?} {code:x?}");
            if code[0] == 0x89 && allowed {
                assert_eq!(r.read(0x1000 + at, Size::B4), 0x5a);
            }
        }
    }
}

#[test]
fn faults_change_nothing() {
    // A destination that can be read but not written, with CR0.WP.
    for code in [
        asm("add %eax, (%rbx)", &[0x01, 0x03]),
        asm("lock cmpxchg %ecx, (%rbx)", &[0xf0, 0x0f, 0xb1, 0x0b]),
        asm("xchg %eax, (%rbx)", &[0x87, 0x03]),
        asm("shll $0, (%rbx)", &[0xc1, 0x23, 0x00]),
        asm("bts %eax, (%rbx)", &[0x0f, 0xab, 0x03]),
        asm("push (%rcx)", &[0xff, 0x31]),
        asm("movsl", &[0xa5]),
        asm("call *(%rcx)", &[0xff, 0x11]),
    ] {
        let mut r = long(code);
        // The second 2 MiB are read-only.
        r.rig.machine.write8(0x3008, 0x20_0000 | 0x85);
        r.set(RBX, 0x20_0000);
        r.set(RCX, 0x10_0000);
        r.set(RSI, 0x10_0000);
        r.set(RDI, 0x20_0000);
        r.set(RSP, 0x20_0040);
        r.write(0x10_0000, Size::B8, 0x7000);
        let regs = r.rig.hart.regs().words().to_vec();
        let trap = r.run(1).unwrap_err();
        assert_eq!(trap::vector(trap.cause), trap::PF, "{code:x?}");
        assert_eq!(trap::error_code(trap.cause), Some(3), "{code:x?}");
        let now = r.rig.hart.regs().words();
        assert!(
            regs[..16] == now[..16] && regs[19..22] == now[19..22],
            "{code:x?}"
        );
    }
}

#[test]
fn other_exceptions() {
    let de = trap::trap(trap::DE);
    // No quotient.
    assert_eq!(
        long(asm("xor %ecx, %ecx; div %ecx", &[0x31, 0xc9, 0xf7, 0xf1])).run(2),
        Err(de)
    );
    assert_eq!(
        long(asm(
            "mov $-1, %ecx; mov $0x80000000, %eax; cltd; idiv %ecx",
            &[
                0xb9, 0xff, 0xff, 0xff, 0xff, 0xb8, 0x00, 0x00, 0x00, 0x80, 0x99, 0xf7, 0xf9
            ]
        ))
        .run(4),
        Err(de)
    );
    assert_eq!(
        long(asm(
            "mov $1, %ecx; mov %rcx, %rdx; div %rcx",
            &[0xb9, 0x01, 0x00, 0x00, 0x00, 0x48, 0x89, 0xca, 0x48, 0xf7, 0xf1]
        ))
        .run(3),
        Err(de)
    );
    assert_eq!(protected(asm("aam $0", &[0xd4, 0x00])).run(1), Err(de));
    // Bounds.
    for (v, outcome) in [
        (5, Ok(())),
        (9, Ok(())),
        (4, Err(trap::trap(trap::BR))),
        (10, Err(trap::trap(trap::BR))),
    ] {
        let mut r = protected(asm("bound %eax, (%ebx)", &[0x62, 0x03]));
        r.set(RAX, v);
        r.set(RBX, 0x1000);
        r.write(0x1000, Size::B4, 5);
        r.write(0x1004, Size::B4, 9);
        assert_eq!(r.run(1), outcome);
    }
    // Targets that aren't canonical.
    for code in [
        asm("jmp *%rax", &[0xff, 0xe0]),
        asm("call *%rax", &[0xff, 0xd0]),
        asm("ret", &[0xc3]),
    ] {
        let mut r = long(code);
        r.set(RAX, 1 << 47);
        let sp = r.reg(RSP);
        r.write(sp, Size::B8, 0xffff_7fff_ffff_ffff);
        assert_eq!(r.run(1), Err(fault(trap::GP, 0)));
        assert_eq!((r.reg(RSP), r.offset()), (sp, 0));
    }
    // Alignment.
    let mut r = long(asm("cmpxchg16b (%rbx)", &[0x48, 0x0f, 0xc7, 0x0b]));
    r.set(RBX, 0x1008);
    assert_eq!(r.run(1), Err(fault(trap::GP, 0)));
    let mut rig = Rig::long();
    rig.ring(3, selector::USER_CODE64);
    rig.hart.core.cr0 |= CR0_AM;
    rig.hart.set_eflags(2 | AC);
    rig.hart.refresh();
    let mut r = Runner::new(
        rig,
        asm("mov (%rbx), %al; mov (%rbx), %eax", &[0x8a, 0x03, 0x8b, 0x03]),
    );
    r.set(RBX, 0x10_0001);
    assert_eq!(r.run(2), Err(fault(trap::AC, 0)));
    assert_eq!(r.offset(), 2);
    // Privilege, and what doesn't exist in a mode.
    let (gp, ud) = (Err(fault(trap::GP, 0)), Err(trap::trap(trap::UD)));
    for (code, outcome) in [
        (asm("hlt", &[0xf4]), gp),
        (asm("mov %cr0, %rax", &[0x0f, 0x20, 0xc0]), gp),
        (asm("mov %rax, %cr1", &[0x0f, 0x22, 0xc8]), ud),
        (asm("cli", &[0xfa]), gp),
        (asm("stac", &[0x0f, 0x01, 0xcb]), ud),
        (asm("wrmsr", &[0x0f, 0x30]), gp),
        (asm("ud2", &[0x0f, 0x0b]), ud),
        (asm(".byte 0x06", &[0x06]), ud),
        (asm(".byte 0xf0, 0x90", &[0xf0, 0x90]), ud),
        (asm("lar %eax, %eax", &[0x0f, 0x02, 0xc0]), Ok(())),
    ] {
        let mut rig = Rig::long();
        rig.ring(3, selector::USER_CODE64);
        assert_eq!(Runner::new(rig, code).run(1), outcome, "{code:x?}");
    }
    for code in [
        asm("lar %ax, %ax", &[0x0f, 0x02, 0xc0]),
        asm("sldt %ax", &[0x0f, 0x00, 0xc0]),
        asm("ltr %ax", &[0x0f, 0x00, 0xd8]),
        asm("arpl %ax, %ax", &[0x63, 0xc0]),
        asm("verr %ax", &[0x0f, 0x00, 0xe0]),
    ] {
        assert_eq!(real(code).run(1), ud, "{code:x?}");
    }
}

#[test]
fn selectors() {
    let lar = |selector: u16| {
        let mut r = protected(asm(
            "lar %ax, %ecx; mov %ecx, %edx; lsl %ax, %edx",
            &[0x0f, 0x02, 0xc8, 0x89, 0xca, 0x0f, 0x03, 0xd0],
        ));
        r.set(RAX, selector.into());
        r.set(RCX, 0x1_2222_2222);
        r.run(3).unwrap();
        (r.flags() & ZF != 0, r.reg(RCX), r.reg(RDX))
    };
    assert_eq!(lar(selector::DATA), (true, 0xcf_9300, 0xffff_ffff));
    assert_eq!(lar(selector::FREE), (false, 0x1_2222_2222, 0x2222_2222));
    let mut r = protected(asm("arpl %cx, %ax; arpl %cx, %ax", &[0x63, 0xc8, 0x63, 0xc8]));
    r.set(RAX, 0xffff_0010);
    r.set(RCX, 0x7773);
    r.run(1).unwrap();
    assert_eq!((r.reg(RAX), r.flags() & ZF), (0xffff_0013, ZF));
    r.run(1).unwrap();
    assert_eq!((r.reg(RAX), r.flags() & ZF), (0xffff_0013, 0));
    let mut r = protected(asm(
        "verw %ax; mov $0, %ecx; sete %cl; mov %ss, %edx; mov %ds, (%ebx)",
        &[
            0x0f, 0x00, 0xe8, 0xb9, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x94, 0xc1, 0x8c, 0xd2, 0x8c, 0x1b,
        ],
    ));
    r.set(RAX, selector::READ_ONLY.into());
    r.set(RDX, u64::MAX);
    r.set(RBX, 0x1000);
    r.run(5).unwrap();
    assert_eq!((r.reg(RCX), r.reg(RDX)), (0, selector::DATA.into()));
    assert_eq!(r.read(0x1000, Size::B8), selector::DATA.into());
}

#[test]
fn far_pointers_and_tables() {
    let mut r = protected(asm(
        "les 2(%ebx), %ecx; lgdt (%ebx); sgdt (%edx)",
        &[0xc4, 0x4b, 0x02, 0x0f, 0x01, 0x13, 0x0f, 0x01, 0x02],
    ));
    r.set(RBX, 0x1000);
    r.set(RDX, 0x1800);
    r.write(0x1000, Size::B8, 0x0010_1234_5678_00a7);
    r.run(1).unwrap();
    assert_eq!((r.reg(RCX), r.rig.hart.segment(ES).selector), (0x1234_5678, 0x10));
    r.run(2).unwrap();
    assert_eq!(r.read(0x1800, Size::B8), 0x1234_5678_00a7);
    let mut r = protected(asm(
        "ljmp $0x40, $0x12345",
        &[0xea, 0x45, 0x23, 0x01, 0x00, 0x40, 0x00],
    ));
    r.run(1).unwrap();
    assert_eq!(r.rig.hart.pc(), 0x12345);
    // In 64-bit mode, with the offset first.
    let mut r = long(asm("rex.W ljmp *(%rbx)", &[0x48, 0xff, 0x2b]));
    r.set(RBX, 0x1800);
    r.write(0x1800, Size::B8, 0x12_3456);
    r.write(0x1808, Size::B2, selector::CODE64.into());
    r.run(1).unwrap();
    assert_eq!(r.rig.hart.pc(), 0x12_3456);
}

#[test]
fn repetition() {
    let mut r = long(asm(
        "rep movsw; repne scasb; rep stosq",
        &[0x66, 0xf3, 0xa5, 0xf2, 0xae, 0xf3, 0x48, 0xab],
    ));
    r.set(RSI, 0x10_1000);
    r.set(RDI, 0x10_1800);
    r.set(RCX, 3);
    r.write(0x10_1000, Size::B8, 0x7766_5544_3322_1100);
    // Each iteration is a step at the same address.
    r.run(2).unwrap();
    assert_eq!(
        (r.reg(RCX), r.reg(RSI), r.reg(RDI), r.offset()),
        (1, 0x10_1004, 0x10_1804, 0)
    );
    r.run(1).unwrap();
    assert_eq!((r.reg(RCX), r.offset()), (0, 3));
    assert_eq!(r.read(0x10_1800, Size::B8), 0x5544_3322_1100);
    r.set(RCX, 100);
    r.set(RDI, 0x10_1800);
    r.set(RAX, 0x33);
    r.run(4).unwrap();
    assert_eq!(
        (r.reg(RCX), r.reg(RDI), r.offset(), r.flags() & ZF),
        (96, 0x10_1804, 5, ZF)
    );
    // A count of 0 is a step, and touches nothing.
    r.set(RCX, 0);
    r.set(RDI, 1 << 63);
    r.run(1).unwrap();
    assert_eq!(r.offset(), 8);
    // Backward, with pointers of 32 bits.
    let mut r = long(asm("std; rep addr32 lodsb", &[0xfd, 0x67, 0xf3, 0xac]));
    r.set(RSI, 0xffff_ffff_0010_1001);
    r.set(RCX, 0xffff_ffff_0000_0002);
    r.write(0x10_1000, Size::B2, 0x1122);
    r.run(3).unwrap();
    assert_eq!(
        (r.reg(RSI), r.reg(RCX), r.reg(RAX), r.offset()),
        (0x10_0fff, 0, 0x22, 4)
    );
    // A fault in the middle leaves what was done.
    let mut r = real(asm("rep movsb", &[0xf3, 0xa4]));
    r.set(RSI, 0xfffe);
    r.set(RDI, 0x1000);
    r.set(RCX, 5);
    let mut ds = r.rig.hart.segment(DS);
    ds.limit = 0xfffe;
    r.rig.hart.set_segment(DS, ds);
    assert_eq!(r.run(5), Err(fault(trap::GP, 0)));
    assert_eq!(
        (r.reg(RSI), r.reg(RDI), r.reg(RCX), r.offset()),
        (0xffff, 0x1001, 4, 0)
    );
    // Ports.
    let mut r = protected(asm("rep insl; outsb", &[0xf3, 0x6d, 0x6e]));
    r.set(RDI, 0x1000);
    r.set(RSI, 0x1001);
    r.set(RCX, 2);
    r.set(RDX, 0x1234);
    r.run(3).unwrap();
    assert_eq!(r.read(0x1000, Size::B8), 0x1122_3344_1122_3344);
    assert_eq!(r.rig.machine.port_writes, [(0x1234, Size::B1, 0x33)]);
    assert_eq!(r.offset(), 3);
}

#[test]
fn one_instruction_a_block() {
    // With TF every step is a block, and jumps go by way of the run loop.
    for code in [
        asm("jmp .+2", &[0xeb, 0x00]),
        asm("jz .+2", &[0x74, 0x00]),
        asm("jmp *%rax", &[0xff, 0xe0]),
        asm("nop", &[0x90]),
        asm("add %eax, %ecx", &[0x01, 0xc1]),
    ] {
        let mut r = long(code);
        r.rig.hart.set_eflags(2 | TF);
        r.rig.hart.refresh();
        r.set(RAX, CODE + code.len() as u64);
        let (mode, pc) = (r.rig.hart.block_mode(), r.rig.hart.pc());
        let page = <[u8; 4096]>::try_from(&r.rig.machine.ram[CODE as usize..CODE as usize + 4096]).unwrap();
        let Lifted::Block(block) = r.rig.hart.lift(mode, (pc & 0xfff) as u16, &page, None) else {
            panic!("it needs no next page")
        };
        assert_eq!(block.insns.len(), 1);
        r.set(PAGE, pc & !0xfff);
        let mut left = 5;
        let exit = interp::run(&block, &LAYOUT, &mut r, &mut Scratch::default(), &mut left, &[]);
        assert_eq!(
            (exit, left, r.reg(PC)),
            (Exit::Dispatch, 4, CODE + code.len() as u64),
            "{code:x?}"
        );
    }
}

#[test]
fn flags_that_the_system_owns() {
    // pushf shows neither RF nor VM; what popf may change at CPL 0.
    let mut r = long(asm(
        "pushf; pop %rax; popf; stc; lahf",
        &[0x9c, 0x58, 0x9d, 0xf9, 0x9f],
    ));
    r.rig.hart.set_eflags(2 | RF | ZF | 1 << 10);
    let sp = r.reg(RSP);
    r.write(sp, Size::B8, 0x3246);
    r.run(2).unwrap();
    assert_eq!(r.reg(RAX), 2 | ZF | 1 << 10);
    r.run(3).unwrap();
    assert_eq!(r.flags() & !RF, 0x3247);
    assert_eq!(r.reg(RAX) >> 8 & 0xff, 0x46 | CF);
    assert_eq!(r.reg(RSP), sp + 8);
    // In virtual-8086 mode it takes IOPL 3.
    let mut r = real(asm("pushf; cli; int $3; iret", &[0x9c, 0xfa, 0xcc, 0xcf]));
    r.rig.hart.core.cr0 |= CR0_PE;
    r.rig.hart.core.cpl = 3;
    for iopl in [0, 3 << 12] {
        r.rig.hart.set_eflags(2 | VM | iopl);
        r.rig.hart.refresh();
        let outcome = r.run(1);
        assert_eq!(
            outcome,
            if iopl == 0 {
                Err(fault(trap::GP, 0))
            } else {
                Ok(())
            }
        );
    }
}
