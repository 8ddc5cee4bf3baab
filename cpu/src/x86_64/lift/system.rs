//! What touches the state of the system. The lifter sees to what follows from the mode, helpers do the rest
//! (`helper.rs`).

use super::Lifter;
use super::operand::{FS, Place, Use, general, operand_size, segment};
use crate::ir::{Bin, Cond, Size, Terminal, Val, Width};
use crate::x86_64::flags::{CF, ZF};
use crate::x86_64::helper::{self, Software};
use crate::x86_64::mode::Mode;
use crate::x86_64::slots::{KERNEL_GS_BASE, RAX, RDX, base};
use crate::x86_64::trap;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Jmp | M::Call => return far_transfer(l, i),
        M::Retf => {
            let more = if i.op_count() == 1 { i.immediate16() } else { 0 };
            let more = l.constant(more.into());
            let size = match i.code() {
                Code::Retfw | Code::Retfw_imm16 => Size::B2,
                Code::Retfd | Code::Retfd_imm16 => Size::B4,
                _ => Size::B8,
            };
            leave_by(l, helper::FAR_RETURN, [Some(more), None], size, 0);
        }
        M::Iret => iret(l, Size::B2),
        M::Iretd => iret(l, Size::B4),
        M::Iretq => iret(l, Size::B8),
        M::Int => interrupt(l, i.immediate8(), Software::Int),
        M::Int3 => interrupt(l, trap::BP, Software::Int3),
        M::Int1 => interrupt(l, trap::DB, Software::Int1),
        M::Into => interrupt(l, trap::OF, Software::Into),
        M::Syscall if l.is(Mode::LONG) => leave_by(l, helper::SYSCALL, [None; 2], Size::B8, 0),
        M::Sysret | M::Sysretq if l.is(Mode::LONG) => {
            let size = if i.code() == Code::Sysretq {
                Size::B8
            } else {
                Size::B4
            };
            if privileged(l) {
                leave_by(l, helper::SYSRET, [None; 2], size, 0);
            }
        }
        M::Sysenter => {
            if !in_protected_mode(l, true) {
                l.protection();
            } else {
                leave_by(l, helper::SYSENTER, [None; 2], Size::B4, 0);
            }
        }
        M::Sysexit | M::Sysexitq => {
            let size = if i.code() == Code::Sysexitq {
                Size::B8
            } else {
                Size::B4
            };
            if !in_protected_mode(l, false) {
                l.protection();
            } else if privileged(l) {
                leave_by(l, helper::SYSEXIT, [None; 2], size, 0);
            }
        }
        M::Hlt => privileged_call(l, helper::HLT),
        M::Pause if l.is(Mode::LONE) => {}
        M::Pause => act(l, helper::PAUSE, [None; 2], Size::B4, 0),
        M::Clts => privileged_call(l, helper::CLTS),
        // Nothing is cached that could be stale.
        M::Invd | M::Wbinvd | M::Wbnoinvd | M::Invlpg => {
            privileged(l);
        }
        M::Rdmsr => privileged_call_inside(l, helper::RDMSR),
        M::Wrmsr => privileged_call(l, helper::WRMSR),
        M::Cpuid => inside(l, helper::CPUID, [None; 2], 0),
        M::Rdtsc | M::Rdtscp => {
            if l.is(Mode::TSD) && l.mode().cpl() != 0 {
                l.protection();
            } else {
                let more = u8::from(i.mnemonic() == M::Rdtscp);
                inside(l, helper::RDTSC, [None; 2], more);
            }
        }
        M::Rdpmc => inside(l, helper::RDPMC, [None; 2], 0),
        M::Swapgs if l.is(Mode::LONG) => swapgs(l),
        M::Invpcid => invalidate_context(l, i),
        M::In => input(l, i),
        M::Out => output(l, i),
        M::Mov => return mov(l, i),
        M::Lgdt => load_table(l, i, helper::LGDT),
        M::Lidt => load_table(l, i, helper::LIDT),
        M::Sgdt => store_table(l, i, 0),
        M::Sidt => store_table(l, i, 1),
        M::Lldt | M::Ltr | M::Sldt | M::Str | M::Lar | M::Lsl | M::Verr | M::Verw => return selector(l, i),
        M::Smsw => {
            if user_may_see(l) {
                let form = l.form(Size::B8, 0);
                let v = l.ask(helper::SMSW, [None; 2], form);
                store_word(l, i, v);
            }
        }
        M::Lmsw => {
            if privileged(l) {
                let v = l.read(i, 0, Size::B2);
                let v = l.zx(Size::B2, v);
                act(l, helper::LMSW, [Some(v), None], Size::B2, 0);
            }
        }
        M::Lds | M::Les | M::Lfs | M::Lgs | M::Lss => load_far_pointer(l, i),
        M::Rdfsbase | M::Rdgsbase | M::Wrfsbase | M::Wrgsbase => return base_register(l, i),
        M::Rdrand | M::Rdseed => random(l, i),
        _ => return super::extended::lift(l, i),
    }
    true
}

/// A helper after which the block ends, and that leaves pc alone.
pub(super) fn act(l: &mut Lifter, helper: u16, args: [Option<Val>; 2], size: Size, more: u8) {
    let form = l.form(size, more);
    l.call(helper, args, form);
    l.dispatch();
}

/// A helper that sets pc.
fn leave_by(l: &mut Lifter, helper: u16, args: [Option<Val>; 2], size: Size, more: u8) {
    let form = l.form(size, more);
    l.call(helper, args, form);
    l.end(Terminal::Left);
}

/// A helper after which the block goes on.
fn inside(l: &mut Lifter, helper: u16, args: [Option<Val>; 2], more: u8) {
    let form = l.form(Size::B4, more);
    l.call(helper, args, form);
}

/// #GP(0) outside of CPL 0.
fn privileged(l: &mut Lifter) -> bool {
    let is = l.mode().cpl() == 0;
    if !is {
        l.protection();
    }
    is
}

fn privileged_call(l: &mut Lifter, helper: u16) {
    if privileged(l) {
        act(l, helper, [None; 2], Size::B4, 0);
    }
}

fn privileged_call_inside(l: &mut Lifter, helper: u16) {
    if privileged(l) {
        inside(l, helper, [None; 2], 0);
    }
}

/// CR4.UMIP hides some registers from programs: #GP(0).
fn user_may_see(l: &mut Lifter) -> bool {
    let may = !l.is(Mode::UMIP) || l.mode().cpl() == 0;
    if !may {
        l.protection();
    }
    may
}

/// Whether CR0.PE is set; virtual-8086 mode counts if `or_virtual`.
fn in_protected_mode(l: &Lifter, or_virtual: bool) -> bool {
    l.is(Mode::PROTECTED) || l.is(Mode::LONG) || or_virtual && l.is(Mode::VM86)
}

fn iret(l: &mut Lifter, size: Size) {
    if l.is(Mode::VM86) && !l.is(Mode::IO_PRIVILEGE) {
        l.protection();
    } else {
        leave_by(l, helper::IRET, [None; 2], size, 0);
    }
}

fn interrupt(l: &mut Lifter, vector: u8, kind: Software) {
    if kind == Software::Int && l.is(Mode::VM86) && !l.is(Mode::IO_PRIVILEGE) {
        return l.protection();
    }
    let vector = l.constant(vector.into());
    leave_by(l, helper::INTERRUPT, [Some(vector), None], Size::B4, kind as u8);
}

fn far_transfer(l: &mut Lifter, i: &Instruction) -> bool {
    let helper = if i.mnemonic() == Mnemonic::Jmp {
        helper::FAR_JUMP
    } else {
        helper::FAR_CALL
    };
    let (offset, selector, size) = match i.op_kind(0) {
        OpKind::FarBranch16 => {
            let (offset, selector) = (i.far_branch16().into(), i.far_branch_selector().into());
            (l.constant(offset), l.constant(selector), Size::B2)
        }
        OpKind::FarBranch32 => {
            let (offset, selector) = (i.far_branch32().into(), i.far_branch_selector().into());
            (l.constant(offset), l.constant(selector), Size::B4)
        }
        OpKind::Memory => {
            let size = match i.code() {
                Code::Jmp_m1616 | Code::Call_m1616 => Size::B2,
                Code::Jmp_m1632 | Code::Call_m1632 => Size::B4,
                Code::Jmp_m1664 | Code::Call_m1664 => Size::B8,
                _ => return false,
            };
            let (offset, selector) = l.far_pointer(i, size);
            (offset, selector, size)
        }
        _ => return false,
    };
    leave_by(l, helper, [Some(selector), Some(offset)], size, 0);
    true
}

fn load_far_pointer(l: &mut Lifter, i: &Instruction) {
    let register = match i.mnemonic() {
        Mnemonic::Lds => Register::DS,
        Mnemonic::Les => Register::ES,
        Mnemonic::Lfs => Register::FS,
        Mnemonic::Lgs => Register::GS,
        _ => Register::SS,
    };
    let place = general(i.op0_register());
    let size = place.map_or(Size::B4, Place::size);
    let (offset, selector) = l.far_pointer(i, size);
    l.load_segment(register, selector, 0);
    if let Some(place) = place {
        l.put(place, offset);
    }
}

fn invalidate_context(l: &mut Lifter, i: &Instruction) {
    if l.is(Mode::VM86) {
        return l.protection();
    }
    if privileged(l) {
        let size = operand_size(i, 0);
        let kind = l.read(i, 0, size);
        let kind = l.zx(size, kind);
        let addr = l.operand_address(i, 16, false);
        inside(l, helper::INVPCID, [Some(kind), Some(addr)], 0);
    }
}

/// A port number: an immediate, or dx.
fn port(l: &mut Lifter, i: &Instruction, n: u32) -> Val {
    let v = match i.op_kind(n) {
        OpKind::Register => l.get(RDX),
        _ => l.constant(i.immediate8().into()),
    };
    l.zx(Size::B2, v)
}

fn input(l: &mut Lifter, i: &Instruction) {
    let port = port(l, i, 1);
    let size = general(i.op0_register()).map_or(Size::B1, Place::size);
    let form = l.form(size, 0);
    let v = l.call(helper::IN, [Some(port), None], form);
    l.set_low(RAX, size, v);
    l.dispatch();
}

fn output(l: &mut Lifter, i: &Instruction) {
    let port = port(l, i, 0);
    let size = general(i.op1_register()).map_or(Size::B1, Place::size);
    let v = l.get(RAX);
    let v = l.zx(size, v);
    act(l, helper::OUT, [Some(port), Some(v)], size, 0);
}

/// Control and debug registers.
fn mov(l: &mut Lifter, i: &Instruction) -> bool {
    let (to, from) = (i.op0_register(), i.op1_register());
    let (register, writes) = if to.is_cr() || to.is_dr() {
        (to, true)
    } else if from.is_cr() || from.is_dr() {
        (from, false)
    } else {
        return false;
    };
    let n = register.number() as u8;
    let exists = if register.is_cr() {
        matches!(n, 0 | 2 | 3 | 4 | 8)
    } else {
        n < 8
    };
    if !exists {
        return false;
    }
    if !privileged(l) {
        return true;
    }
    let size = if l.is(Mode::LONG) { Size::B8 } else { Size::B4 };
    let (read, write) = if register.is_cr() {
        (helper::READ_CR, helper::WRITE_CR)
    } else {
        (helper::READ_DR, helper::WRITE_DR)
    };
    let number = l.constant(n.into());
    if writes {
        let v = l.read(i, 1, size);
        let v = l.zx(size, v);
        act(l, write, [Some(number), Some(v)], size, 0);
    } else if let Some(place) = general(to) {
        let form = l.form(size, 0);
        let v = l.call(read, [Some(number), None], form);
        l.put(place, v);
    }
    true
}

fn load_table(l: &mut Lifter, i: &Instruction, helper: u16) {
    if !privileged(l) {
        return;
    }
    let (base_size, size) = match i.code() {
        Code::Lgdt_m1632_16 | Code::Lidt_m1632_16 => (Size::B4, Size::B2),
        Code::Lgdt_m1632 | Code::Lidt_m1632 => (Size::B4, Size::B4),
        _ => (Size::B8, Size::B8),
    };
    let at = l.effective(i);
    let (addr, offset) = l.linear(at, 2 + base_size.bytes(), false);
    let [limit, base] = [(0, Size::B2), (2, base_size)].map(|(more, size)| {
        let place = Place::Mem {
            addr,
            offset: offset.wrapping_add(more),
            size,
        };
        l.load(place, false)
    });
    act(l, helper, [Some(limit), Some(base)], size, 0);
}

fn store_table(l: &mut Lifter, i: &Instruction, more: u8) {
    if !user_may_see(l) {
        return;
    }
    let size = if l.is(Mode::LONG) { Size::B8 } else { Size::B4 };
    let at = l.effective(i);
    let (addr, offset) = l.linear(at, 2 + size.bytes(), true);
    let parts = [(0, Size::B2), (2, size)].map(|(more, size)| Place::Mem {
        addr,
        offset: offset.wrapping_add(more),
        size,
    });
    let values = [more, more + 2].map(|more| {
        let form = l.form(size, more);
        l.ask(helper::READ_TABLE, [None; 2], form)
    });
    l.check(addr, offset, 2 + size.bytes(), true);
    for (place, v) in parts.into_iter().zip(values) {
        l.put(place, v);
    }
}

/// Into a register of any size, zero-extended; into memory 16 bits.
fn store_word(l: &mut Lifter, i: &Instruction, v: Val) {
    let place = match general(i.op0_register()) {
        Some(place) if i.op_kind(0) == OpKind::Register => place,
        _ => l.memory(i, Size::B2, Use::Write),
    };
    l.put(place, v);
}

/// Instructions on selectors, which exist in protected mode only.
fn selector(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    if !l.is(Mode::PROTECTED) && !l.is(Mode::LONG) {
        return false;
    }
    let mnemonic = i.mnemonic();
    match mnemonic {
        M::Sldt | M::Str => {
            if user_may_see(l) {
                let n = l.constant(if mnemonic == M::Sldt { 6 } else { 7 });
                let form = l.form(Size::B2, 0);
                let v = l.ask(helper::READ_SELECTOR, [Some(n), None], form);
                store_word(l, i, v);
            }
        }
        M::Lldt | M::Ltr => {
            if privileged(l) {
                let v = word(l, i, 0);
                let helper = if mnemonic == M::Lldt {
                    helper::LLDT
                } else {
                    helper::LTR
                };
                act(l, helper, [Some(v), None], Size::B2, 0);
            }
        }
        M::Verr | M::Verw => {
            let v = word(l, i, 0);
            let form = l.form(Size::B2, u8::from(mnemonic == M::Verw));
            let zero = l.ask(helper::VERIFY, [Some(v), None], form);
            let zero = l.shl(zero, 6);
            l.flags_with(ZF, zero);
        }
        _ => {
            let v = word(l, i, 1);
            let helper = if mnemonic == M::Lar {
                helper::LAR
            } else {
                helper::LSL
            };
            let form = l.form(Size::B4, 0);
            let found = l.ask(helper, [Some(v), None], form);
            let valid = l.shr(found, 32);
            if let Some(Place::Reg { slot, size, .. }) = general(i.op0_register()) {
                let old = l.get(slot);
                let new = l.zx(Size::B4, found);
                let new = match size {
                    Size::B1 | Size::B2 => {
                        let (rest, new) = (l.and(old, !size.mask()), l.zx(size, new));
                        l.or(rest, new)
                    }
                    Size::B4 | Size::B8 => new,
                };
                let v = l.select(valid, new, old);
                l.set(slot, v);
            }
            let zero = l.shl(valid, 6);
            l.flags_with(ZF, zero);
        }
    }
    true
}

/// A 16-bit operand, zero-extended; of a wider register its low part.
fn word(l: &mut Lifter, i: &Instruction, n: u32) -> Val {
    let v = match general(i.op_register(n)) {
        Some(place) if i.op_kind(n) == OpKind::Register => l.fetch(place),
        _ => {
            let place = l.memory(i, Size::B2, Use::Read);
            l.load(place, false)
        }
    };
    l.zx(Size::B2, v)
}

fn swapgs(l: &mut Lifter) {
    if privileged(l) {
        let gs = base(segment(Register::GS));
        let (old, new) = (l.get(gs), l.get(KERNEL_GS_BASE));
        l.set(gs, new);
        l.set(KERNEL_GS_BASE, old);
    }
}

/// rdfsbase, wrfsbase and those of gs: the bases are slots.
fn base_register(l: &mut Lifter, i: &Instruction) -> bool {
    if !l.is(Mode::FSGSBASE) || !l.is(Mode::LONG) {
        return false;
    }
    let is_fs = matches!(i.mnemonic(), Mnemonic::Rdfsbase | Mnemonic::Wrfsbase);
    let n = if is_fs { FS } else { segment(Register::GS) };
    let Some(place) = general(i.op0_register()) else {
        return false;
    };
    if matches!(i.mnemonic(), Mnemonic::Rdfsbase | Mnemonic::Rdgsbase) {
        let v = l.get(base(n));
        l.put(place, v);
        return true;
    }
    let v = l.fetch(place);
    let v = l.zx(place.size(), v);
    if place.size() == Size::B8 {
        let extended = l.shl(v, 16);
        let extended = l.bin_constant(Bin::Sar, Width::W64, extended, 16);
        let wrong = l.cmp(Cond::Ne, Width::W64, extended, v);
        l.trap_if(wrong, trap::cause_with(trap::GP, 0));
    }
    l.set(base(n), v);
    true
}

/// There is always a number: CF is set, and the other flags are clear.
fn random(l: &mut Lifter, i: &Instruction) {
    let Some(place) = general(i.op0_register()) else {
        return l.undefined();
    };
    let more = u8::from(i.mnemonic() == Mnemonic::Rdseed);
    let form = l.form(place.size(), more);
    let v = l.call(helper::RDRAND, [None; 2], form);
    l.put(place, v);
    let carry = l.constant(CF);
    l.flags_are(carry);
}
