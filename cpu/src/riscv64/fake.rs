//! A machine for tests of the hart alone: sparse RAM at 2 GiB, a settable clock, and records of what was asked.

use super::csr::bits::*;
use super::hart::{Hart, HartConfig};
use super::helper;
use crate::ir::Size;
use crate::{Access, Context, Cpu, PhysMem, Trap};
use std::collections::BTreeMap;

pub(super) const RAM: u64 = 0x8000_0000;
pub(super) const RAM_END: u64 = 0x9000_0000;

#[derive(Default, Clone)]
pub(super) struct Ram {
    pub(super) words: BTreeMap<u64, u64>,
    pub(super) entry_writes: Vec<(u64, u64)>,
}

impl Ram {
    pub(super) fn word(&self, addr: u64) -> u64 {
        self.words.get(&addr).copied().unwrap_or(0)
    }
}

impl PhysMem for Ram {
    fn read_entry(&mut self, addr: u64, size: Size) -> Option<u64> {
        assert_eq!((size, addr % 8), (Size::B8, 0));
        (RAM..RAM_END).contains(&addr).then(|| self.word(addr))
    }

    fn write_entry(&mut self, addr: u64, size: Size, value: u64) -> Option<()> {
        assert_eq!((size, addr % 8), (Size::B8, 0));
        self.entry_writes.push((addr, value));
        (RAM..RAM_END).contains(&addr).then(|| {
            self.words.insert(addr, value);
        })
    }
}

#[derive(Default)]
pub(super) struct Machine {
    pub(super) ram: Ram,
    pub(super) now: u64,
    pub(super) protection_changes: u32,
    pub(super) slices_ended: u32,
}

impl Machine {
    fn access(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, access: Access) -> Result<u64, Trap> {
        let t = cpu.translate(&mut self.ram, addr, access)?;
        if !self.is_ram(t.addr) || !t.cacheable && cpu.protects(t.addr, size.bytes(), access) {
            return Err(cpu.access_fault(addr, access));
        }
        Ok(t.addr)
    }
}

impl Context for Machine {
    fn now(&self) -> u64 {
        self.now
    }

    fn load(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        let pa = self.access(cpu, addr, size, Access::Read)?;
        Ok(self.ram.word(pa & !7) >> (8 * (pa & 7)) & size.mask())
    }

    fn store(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap> {
        let pa = self.access(cpu, addr, size, Access::Write)?;
        let shift = 8 * (pa & 7);
        let word = self.ram.words.entry(pa & !7).or_default();
        *word = *word & !(size.mask() << shift) | (value & size.mask()) << shift;
        Ok(())
    }

    fn store_zeros(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64) -> Result<(), Trap> {
        (0..len)
            .step_by(8)
            .try_for_each(|i| self.store(cpu, addr + i, Size::B8, 0))
    }

    fn translate(&mut self, cpu: &mut dyn Cpu, addr: u64, access: Access) -> Result<u64, Trap> {
        cpu.translate(&mut self.ram, addr, access).map(|t| t.addr)
    }

    fn is_ram(&self, addr: u64) -> bool {
        (RAM..RAM_END).contains(&addr)
    }

    fn protection_changed(&mut self, _cpu: &dyn Cpu) {
        self.protection_changes += 1;
    }

    fn end_slice(&mut self) {
        self.slices_ended += 1;
    }

    context_without_board!();
}

/// A hart and its machine.
pub(super) struct Rig {
    pub(super) hart: Hart,
    pub(super) machine: Machine,
}

/// The insn that tests give CSR helpers, which illegal-instruction traps must carry.
pub(super) const INSN: u32 = 0x1234_5673;

pub(super) const ILLEGAL: Result<u64, Trap> = Err(Trap {
    cause: 2,
    value: INSN as u64,
});

impl Rig {
    pub(super) fn new() -> Rig {
        Rig {
            hart: Hart::new(HartConfig::new(0)),
            machine: Machine::default(),
        }
    }

    /// A rig in `privilege` with PMP open to all.
    pub(super) fn at(privilege: u8) -> Rig {
        let mut rig = Rig::new();
        rig.write(0x3b0, !0);
        rig.write(0x3a0, 0x1f);
        rig.hart.csrs.privilege = privilege;
        rig
    }

    pub(super) fn call(&mut self, helper: u16, args: [u64; 3]) -> Result<u64, Trap> {
        let pc = self.hart.pc();
        self.hart.call(&mut self.machine, helper, args, pc)
    }

    /// One CSR instruction, retired if legal. `op` 1 write, 2 set, 3 clear.
    pub(super) fn csr(&mut self, number: u16, op: u8, value: u64) -> Result<u64, Trap> {
        let result = self.call(
            helper::CSR,
            [helper::csr_descriptor(number, op, true, true, INSN), value, 0],
        );
        self.hart.retire(result.is_ok() as u64, 1);
        result
    }

    pub(super) fn try_read(&mut self, number: u16) -> Result<u64, Trap> {
        let result = self.call(
            helper::CSR,
            [helper::csr_descriptor(number, 2, false, true, INSN), 0, 0],
        );
        self.hart.retire(result.is_ok() as u64, 1);
        result
    }

    pub(super) fn read(&mut self, number: u16) -> u64 {
        self.try_read(number).unwrap()
    }

    pub(super) fn write(&mut self, number: u16, value: u64) {
        self.csr(number, 1, value).unwrap();
    }

    /// Reads from M-mode's view, whatever the privilege.
    pub(super) fn peek(&mut self, number: u16) -> u64 {
        let privilege = std::mem::replace(&mut self.hart.csrs.privilege, M);
        let value = self.read(number);
        self.hart.csrs.privilege = privilege;
        value
    }

    /// Writes from M-mode, whatever the privilege.
    pub(super) fn poke(&mut self, number: u16, value: u64) {
        let privilege = std::mem::replace(&mut self.hart.csrs.privilege, M);
        self.write(number, value);
        self.hart.csrs.privilege = privilege;
    }
}
