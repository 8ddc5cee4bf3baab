//! Which exception an access to no address is: #SS(0) where it refers to the stack, else #GP(0) (SDM 1 3.3.7.1).
//!
//! Whoever makes an access knows an address, and not how the instruction came by it; so that costs nothing where nothing
//! faults, the instruction is decoded again when the exception is delivered. An access refers to the stack if it is by its pointer without
//! being named (`push`, `call`, ...), or if its base register is rsp or rbp and no fs or gs is before it. Transfers that check
//! their whole frame first have their own exception (`stack.rs`).

use super::hart::Hart;
use super::{slots, trap};
use crate::ir::Size;
use crate::{Context, Trap};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Register, UsedMemory};

/// Bytes of the longest instruction.
const LONGEST: u64 = 15;
/// Bytes of an operand whose size the decoder doesn't know (XSAVE's).
const UNKNOWN: u64 = 1024;

impl Hart {
    /// The exception that `trap`, raised by the instruction at `pc`, is.
    pub(super) fn name_stack_fault(&mut self, cx: &mut dyn Context, trap: Trap, pc: u64) -> Trap {
        if !self.code64() || trap != trap::no_address(trap.value) || trap.value == 0 {
            return trap;
        }
        let mut bytes = Vec::new();
        for at in 0..LONGEST {
            match cx.fetch(self, pc.wrapping_add(at), Size::B1) {
                Ok(byte) => bytes.push(byte as u8),
                Err(_) => break,
            }
        }
        let instruction = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE).decode();
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        let is_there = |memory: &&UsedMemory| {
            let len = match memory.memory_size().size() {
                0 => UNKNOWN,
                len => len as u64,
            };
            // What crosses a page faults at the first byte that has no address.
            self.address_of(memory)
                .is_some_and(|start| trap.value.wrapping_sub(start) < len)
        };
        if info.used_memory().iter().filter(is_there).any(is_stack) {
            trap::fault(trap::SS, 0)
        } else {
            trap
        }
    }

    /// The linear address of an access of 64-bit code that uses no fs or gs.
    fn address_of(&self, memory: &UsedMemory) -> Option<u64> {
        memory.try_virtual_address(0, |register, _, _| {
            if register.is_segment_register() {
                return (!matches!(register, Register::FS | Register::GS)).then_some(0);
            }
            let n = register.full_register() as usize - Register::RAX as usize;
            let value = self.regs[slots::gpr(u8::try_from(n).ok().filter(|n| *n < 16)?)];
            Some(if register.size() == 4 {
                value & 0xffff_ffff
            } else {
                value
            })
        })
    }
}

fn is_stack(memory: &UsedMemory) -> bool {
    matches!(memory.base().full_register(), Register::RSP | Register::RBP)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Rig;
    use super::*;
    use crate::{Access, Cpu};

    const CODE: u64 = 0x1_0000;
    const NOWHERE: u64 = 0x8000_0000_0000;

    /// The vector of an access to `addr` by `bytes`, with rsp, rbp, rax and the others there.
    fn vector(bytes: &[u8], addr: u64) -> u8 {
        let mut rig = Rig::long();
        for (at, byte) in (0..).zip(bytes) {
            rig.machine.write(CODE + at, Size::B1, u64::from(*byte));
        }
        rig.hart.regs[slots::RSP] = NOWHERE + 8;
        rig.hart.regs[slots::RBP] = NOWHERE + 0x1000;
        rig.hart.regs[slots::RAX] = NOWHERE + 0x2000;
        let trap = rig
            .hart
            .translate(&mut rig.machine, addr, Access::Write)
            .unwrap_err();
        let trap = rig.hart.name_stack_fault(&mut rig.machine, trap, CODE);
        assert_eq!(trap::error_code(trap.cause), Some(0));
        trap::vector(trap.cause)
    }

    #[test]
    fn accesses_to_the_stack_are_stack_faults() {
        let cases: &[(&[u8], u64, u8)] = &[
            // push rax, pop rax, call, ret, leave, pushfq
            (&[0x50], NOWHERE, trap::SS),
            (&[0x58], NOWHERE + 8, trap::SS),
            (&[0xe8, 0, 0, 0, 0], NOWHERE, trap::SS),
            (&[0xc3], NOWHERE + 8, trap::SS),
            (&[0xc9], NOWHERE + 0x1000, trap::SS),
            (&[0x9c], NOWHERE, trap::SS),
            // mov rcx, [rsp]; [rbp + 8]; ds: [rbp + 8], which counts for nothing
            (&[0x48, 0x8b, 0x0c, 0x24], NOWHERE + 8, trap::SS),
            (&[0x48, 0x8b, 0x4d, 8], NOWHERE + 0x1008, trap::SS),
            (&[0x3e, 0x48, 0x8b, 0x4d, 8], NOWHERE + 0x1008, trap::SS),
            // [rax], [rax + rbp], fs: [rbp + 8]
            (&[0x48, 0x8b, 0x08], NOWHERE + 0x2000, trap::GP),
            (&[0x48, 0x8b, 0x0c, 0x28], 2 * NOWHERE + 0x3000, trap::GP),
            (&[0x64, 0x48, 0x8b, 0x4d, 8], NOWHERE + 0x1008, trap::GP),
            // push [rax]: what is read, and what is written; pop [rax]
            (&[0xff, 0x30], NOWHERE + 0x2000, trap::GP),
            (&[0xff, 0x30], NOWHERE, trap::SS),
            (&[0x8f, 0x00], NOWHERE + 8, trap::SS),
            (&[0x8f, 0x00], NOWHERE + 0x2000, trap::GP),
            // movsq, fxsave [rbp], xsave [rbp]
            (&[0x48, 0xa5], NOWHERE + 0x2000, trap::GP),
            (&[0x0f, 0xae, 0x45, 0], NOWHERE + 0x1000, trap::SS),
            (&[0x0f, 0xae, 0x65, 0], NOWHERE + 0x1000 + 512, trap::SS),
        ];
        for (bytes, addr, expected) in cases {
            assert_eq!(vector(bytes, *addr), *expected, "{bytes:x?} at {addr:x}");
        }
    }
}
