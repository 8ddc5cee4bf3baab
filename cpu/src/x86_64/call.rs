//! From a helper's number to what it does: the other side of [`super::helper`].

use super::bits::*;
use super::fxstate::Xsave;
use super::gates::Source;
use super::hart::Hart;
use super::helper::{self, Form, Software};
use super::registers::SS;
use super::segments::Look;
use super::trap::{self, UD};
use super::{flags, slots, strings};
use crate::ir::Size;
use crate::{Context, Trap};

/// Number of LDTR in [`helper::READ_SELECTOR`]; TR's is the next.
const LDTR: u64 = 6;

const fn size(form: Form) -> Size {
    match form.size() {
        0 => Size::B1,
        1 => Size::B2,
        2 => Size::B4,
        _ => Size::B8,
    }
}

/// What a helper without a value yields.
fn done(result: Result<(), Trap>) -> Result<u64, Trap> {
    result.map(|()| 0)
}

impl Hart {
    pub(super) fn help(
        &mut self,
        cx: &mut dyn Context,
        number: u16,
        args: [u64; 3],
        pc: u64,
    ) -> Result<u64, Trap> {
        let form = Form(args[2]);
        let [a, b, _] = args;
        let more = form.more();
        match number {
            helper::CHECK_SEGMENT => {
                let write = more & helper::CHECK_WRITE != 0;
                let len = u64::from(more & !helper::CHECK_WRITE);
                self.data_address(a as u8, b, len, write)
            }
            helper::LOAD_SEGMENT => {
                let n = more & !helper::MAKES_SHADOW;
                self.load_segment(cx, n, a as u16)?;
                if n == SS && more & helper::MAKES_SHADOW != 0 {
                    self.shadow_ss();
                }
                Ok(0)
            }
            helper::READ_SELECTOR => Ok(match a {
                LDTR => self.core.ldtr.selector.into(),
                0..LDTR => self.core.selectors[a as usize].into(),
                _ => self.core.tr.selector.into(),
            }),
            helper::LLDT => done(self.lldt(cx, a as u16)),
            helper::LTR => done(self.ltr(cx, a as u16)),
            helper::LGDT | helper::LIDT => done(self.load_table(number == helper::LIDT, a as u16, b)),
            helper::READ_TABLE => {
                let table = if more & 1 == 0 {
                    self.core.gdtr
                } else {
                    self.core.idtr
                };
                Ok(if more & 2 == 0 {
                    table.limit.into()
                } else {
                    table.base
                })
            }
            helper::LAR => self.look(cx, a as u16, Look::Rights),
            helper::LSL => self.look(cx, a as u16, Look::Limit),
            helper::VERIFY if more == 0 => self.look(cx, a as u16, Look::Readable).map(|seen| seen >> 32),
            helper::VERIFY => self.look(cx, a as u16, Look::Writable).map(|seen| seen >> 32),
            helper::FAR_JUMP => done(self.far_jump(cx, a as u16, b, size(form))),
            helper::FAR_CALL => {
                let next = self.next_ip(pc, form);
                done(self.far_call(cx, a as u16, b, size(form), next))
            }
            helper::FAR_RETURN => done(self.far_return(cx, size(form), a)),
            helper::IRET => done(self.iret(cx, size(form))),
            helper::INTERRUPT => self.interrupt_instruction(cx, a as u8, form, pc),
            helper::SYSCALL => {
                let next = self.next_ip(pc, form);
                done(self.syscall(next))
            }
            helper::SYSRET => done(self.sysret(form.size() == 3)),
            helper::SYSENTER => done(self.sysenter()),
            helper::SYSEXIT => done(self.sysexit(form.size() == 3)),

            helper::STI => {
                if self.regs[slots::EFLAGS] & IF == 0 {
                    self.shadow_sti();
                }
                self.regs[slots::EFLAGS] |= IF;
                Ok(0)
            }
            helper::POPF => {
                let mask = self.flags_mask(size(form));
                self.merge_flags(a, mask);
                Ok(0)
            }
            helper::HLT => done(self.hlt()),
            helper::PAUSE => {
                cx.end_slice();
                Ok(0)
            }
            helper::CODE_BREAKPOINT => done(self.code_breakpoint(pc)),

            helper::IN => self.port_in(cx, a as u16, size(form)),
            helper::OUT => done(self.port_out(cx, a as u16, size(form), b)),

            helper::READ_CR => self.read_cr(cx, a as u8),
            helper::WRITE_CR => done(self.write_cr(cx, a as u8, b)),
            helper::READ_DR => self.read_dr(a as u8),
            helper::WRITE_DR => done(self.write_dr(a as u8, b)),
            helper::SMSW => Ok(self.core.cr0),
            helper::LMSW => done(self.lmsw(cx, a)),
            helper::CLTS => done(self.clts()),
            helper::RDMSR => done(self.rdmsr(cx)),
            helper::WRMSR => done(self.wrmsr(cx)),
            helper::RDTSC => done(self.rdtsc(cx, more == 1)),
            helper::RDPMC => done(self.rdpmc()),
            helper::CPUID => {
                self.cpuid_instruction(cx);
                Ok(0)
            }
            helper::INVPCID => done(self.invpcid(cx, a, b)),
            helper::XGETBV => done(self.xgetbv()),
            helper::XSETBV => done(self.xsetbv()),
            helper::RDRAND => Ok(self.random()),

            helper::FXSAVE => done(self.fxsave(cx, a, more & 1 != 0)),
            helper::FXRSTOR => done(self.fxrstor(cx, a, more & 1 != 0)),
            helper::XSAVE => {
                let how = if more & 2 != 0 {
                    Xsave::Optimised
                } else {
                    Xsave::Plain
                };
                done(self.xsave(cx, a, more & 1 != 0, how))
            }
            helper::XRSTOR => done(self.xrstor(cx, a, more & 1 != 0)),
            helper::LDMXCSR => done(self.ldmxcsr(a)),
            helper::STMXCSR => Ok(self.mxcsr()),

            helper::ENTER => done(self.enter_frame(cx, size(form), a, b)),
            helper::STRING => strings::string(self, cx, args, pc),

            helper::X87 => self.x87_instruction(cx, a, b, form, pc),
            helper::WAIT => self.wait(),
            helper::SSE.. => self.sse(cx, number, args),

            // The lifter's table and this one are one program; a number that isn't here is an instruction that isn't.
            _ => Err(trap::trap(UD)),
        }
    }

    /// The instruction pointer behind the instruction at `pc`.
    fn next_ip(&self, pc: u64, form: Form) -> u64 {
        self.ip_of(pc.wrapping_add(form.len()))
    }

    fn interrupt_instruction(
        &mut self,
        cx: &mut dyn Context,
        vector: u8,
        form: Form,
        pc: u64,
    ) -> Result<u64, Trap> {
        let next = self.next_ip(pc, form);
        let source = match form.more() {
            x if x == Software::Int as u8 => Source::Int,
            x if x == Software::Int1 as u8 => Source::Int1,
            _ => Source::Breakpoint,
        };
        if form.more() == Software::Into as u8 && self.eflags() & flags::OF == 0 {
            self.set_ip(next);
            return Ok(0);
        }
        done(self.software_interrupt(cx, vector, source, next))
    }
}
