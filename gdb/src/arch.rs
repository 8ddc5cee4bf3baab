//! Registers as gdbstub moves them: bytes and numbers, the same for every guest. Names, widths and groups are in
//! the target description, which the hart itself writes.

use std::num::NonZeroUsize;

use gdbstub::arch::{Arch, RegId, Registers};
use machine::cpu::Cpu;

/// A guest with 64-bit addresses.
#[derive(Debug)]
pub(crate) enum Guest {}

impl Arch for Guest {
    type Usize = u64;
    type Registers = General;
    type BreakpointKind = usize;
    type RegId = Number;
}

/// A register's number in the target description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub u32);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        Some((Number(u32::try_from(id).ok()?), None))
    }

    fn to_raw_id(&self) -> Option<usize> {
        Some(self.0 as usize)
    }
}

/// The general registers, one after the other, as a `g` packet holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct General {
    pub bytes: Vec<u8>,
}

impl Registers for General {
    type ProgramCounter = u64;

    /// gdbstub never asks.
    fn pc(&self) -> u64 {
        0
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.bytes.iter().for_each(|byte| write_byte(Some(*byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.bytes = bytes.to_vec();
        Ok(())
    }
}

/// Numbers of the registers in a `g` packet: from 0 up to the program counter. gdb asks for the others one by one.
pub(crate) fn general(cpu: &dyn Cpu) -> impl Iterator<Item = u32> + '_ {
    let registers = cpu.registers();
    let pc = registers.iter().position(|r| matches!(r.name, "pc" | "rip"));
    registers.iter().take(pc.map_or(0, |pc| pc + 1)).map(|r| r.number)
}
