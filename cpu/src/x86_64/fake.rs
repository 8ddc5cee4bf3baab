//! A machine for tests of the processor alone: 4 MiB of RAM from 0, ports and an interrupt controller that only remember,
//! and a small system of tables in which the tests' processors live.
//!
//! ```text
//!   0x1000 0x2000 0x3000   PML4, PDPT, PD: the first GiB, identically, for users too (PAE: PDPT, PD)
//!   0x8000 GDT   0x9000 IDT   0xa000 TSS   0xb000 LDT   handlers of vector v: 0x10_0000 + 16 v
//!   stacks end at 0x2_0000 (ring 0, TSS), 0x3_0000 (IST 1), 0x4_0000 (ring 3), 0x5_0000 (current)
//! ```

use super::bits::*;
use super::hart::{Hart, HartConfig};
use super::helper::{self, Form};
use super::registers::{CS, DS, ES, FS, GS, SS, Segment, Table};
use super::slots;
use super::trap;
use crate::ir::Size;
use crate::{Access, Context, Cpu, PhysMem, Trap};
use std::collections::BTreeMap;

pub(super) const RAM: usize = 4 << 20;
pub(super) const GDT: u64 = 0x8000;
pub(super) const IDT: u64 = 0x9000;
pub(super) const TSS: u64 = 0xa000;
pub(super) const LDT: u64 = 0xb000;
pub(super) const HANDLERS: u64 = 0x10_0000;
pub(super) const RING0_STACK: u64 = 0x2_0000;
pub(super) const IST_STACK: u64 = 0x3_0000;
pub(super) const USER_STACK: u64 = 0x4_0000;
pub(super) const STACK: u64 = 0x5_0000;
/// Where tests' instructions stand.
pub(super) const CODE: u64 = 0x7000;

/// Selectors of the tests' GDT.
pub(super) mod selector {
    pub(crate) const CODE64: u16 = 0x08;
    pub(crate) const DATA: u16 = 0x10;
    pub(crate) const USER_CODE32: u16 = 0x18 | 3;
    pub(crate) const USER_DATA: u16 = 0x20 | 3;
    pub(crate) const USER_CODE64: u16 = 0x28 | 3;
    pub(crate) const TASK: u16 = 0x30;
    pub(crate) const CODE32: u16 = 0x40;
    pub(crate) const CONFORMING32: u16 = 0x48;
    pub(crate) const ABSENT_CODE: u16 = 0x50;
    pub(crate) const ABSENT_DATA: u16 = 0x58;
    pub(crate) const READ_ONLY: u16 = 0x60;
    pub(crate) const CODE16: u16 = 0x68;
    pub(crate) const LDT: u16 = 0x70;
    /// Free for a test (16 bytes).
    pub(crate) const FREE: u16 = 0x80;
    /// Ring 1: code, data.
    pub(crate) const CODE_RING1: u16 = 0x90 | 1;
    pub(crate) const DATA_RING1: u16 = 0x98 | 1;
    pub(crate) const EXECUTE_ONLY: u16 = 0xa0;
    pub(crate) const LIMIT: u16 = 0xa7;
}

/// A descriptor with base 0.
pub(super) const fn descriptor(attr: u16, limit: u32) -> u64 {
    descriptor_at(0, attr, limit)
}

/// A descriptor; `limit` is the raw field.
pub(super) const fn descriptor_at(base: u32, attr: u16, limit: u32) -> u64 {
    let (base, limit) = (base as u64, limit as u64);
    limit & 0xffff
        | (base & 0xff_ffff) << 16
        | (attr as u64) << 40
        | (limit >> 16 & 15) << 48
        | (base >> 24) << 56
}

/// A gate's first eight bytes.
pub(super) const fn gate(kind: u8, dpl: u8, selector: u16, offset: u64) -> u64 {
    offset & 0xffff
        | (selector as u64) << 16
        | (0x80 | (dpl as u64) << 5 | kind as u64) << 40
        | (offset >> 16 & 0xffff) << 48
}

pub(super) struct Machine {
    pub(super) ram: Vec<u8>,
    pub(super) now: u64,
    pub(super) port_reads: Vec<(u16, Size)>,
    pub(super) port_writes: Vec<(u16, Size, u64)>,
    pub(super) local: BTreeMap<u32, u64>,
    pub(super) acknowledged: Vec<(u32, u8)>,
    pub(super) numeric_errors: Vec<bool>,
    pub(super) shutdowns: u32,
    pub(super) stores: Vec<(u64, u64)>,
}

impl Machine {
    pub(super) fn new() -> Machine {
        Machine {
            ram: vec![0; RAM],
            now: 0,
            port_reads: Vec::new(),
            port_writes: Vec::new(),
            local: BTreeMap::new(),
            acknowledged: Vec::new(),
            numeric_errors: Vec::new(),
            shutdowns: 0,
            stores: Vec::new(),
        }
    }

    pub(super) fn read(&self, addr: u64, size: Size) -> u64 {
        let at = addr as usize;
        let bytes = &self.ram[at..at + size.bytes() as usize];
        bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
    }

    pub(super) fn write(&mut self, addr: u64, size: Size, value: u64) {
        let len = size.bytes() as usize;
        self.ram[addr as usize..addr as usize + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    pub(super) fn write8(&mut self, addr: u64, value: u64) {
        self.write(addr, Size::B8, value);
    }

    pub(super) fn words(&self, addr: u64, size: Size, count: u64) -> Vec<u64> {
        (0..count)
            .map(|i| self.read(addr + i * size.bytes(), size))
            .collect()
    }

    fn has(&self, addr: u64, len: u64) -> bool {
        addr.checked_add(len).is_some_and(|end| end <= RAM as u64)
    }

    fn byte(&mut self, cpu: &mut dyn Cpu, addr: u64, access: Access) -> Result<usize, Trap> {
        let found = cpu.translate(self, addr, access)?;
        if !found.cacheable {
            cpu.accessed(addr, 1, access);
        }
        assert!(self.has(found.addr, 1), "{:#x} isn't RAM", found.addr);
        Ok(found.addr as usize)
    }
}

impl PhysMem for Machine {
    fn read_entry(&mut self, addr: u64, size: Size) -> Option<u64> {
        assert_eq!(addr % size.bytes(), 0);
        self.has(addr, size.bytes()).then(|| self.read(addr, size))
    }

    fn write_entry(&mut self, addr: u64, size: Size, value: u64) -> Option<()> {
        assert_eq!(addr % size.bytes(), 0);
        self.has(addr, size.bytes())
            .then(|| self.write(addr, size, value))
    }
}

impl Context for Machine {
    fn now(&self) -> u64 {
        self.now
    }

    fn load(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        (0..size.bytes()).try_fold(0, |value, i| {
            let at = self.byte(cpu, addr.wrapping_add(i), Access::Read)?;
            Ok(value | u64::from(self.ram[at]) << (8 * i))
        })
    }

    fn store(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size, value: u64) -> Result<(), Trap> {
        self.check(cpu, addr, size.bytes(), Access::Write)?;
        for i in 0..size.bytes() {
            let at = self.byte(cpu, addr.wrapping_add(i), Access::Write)?;
            self.ram[at] = (value >> (8 * i)) as u8;
        }
        self.stores.push((addr, value));
        Ok(())
    }

    fn store_zeros(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<(), Trap> {
        unreachable!("x86-64 doesn't ask for it")
    }

    fn translate(&mut self, cpu: &mut dyn Cpu, addr: u64, access: Access) -> Result<u64, Trap> {
        cpu.translate(self, addr, access).map(|t| t.addr)
    }

    fn is_ram(&self, addr: u64) -> bool {
        self.has(addr, 1)
    }

    fn protection_changed(&mut self, _cpu: &dyn Cpu) {}

    fn end_slice(&mut self) {}

    fn fetch(&mut self, cpu: &mut dyn Cpu, addr: u64, size: Size) -> Result<u64, Trap> {
        assert_eq!(size, Size::B1, "x86-64 asks for bytes");
        let at = self.byte(cpu, addr, Access::Fetch)?;
        Ok(self.ram[at].into())
    }

    fn semihosting(&mut self, _: &mut dyn Cpu, _: u64, _: u64) -> Result<Option<u64>, Trap> {
        unreachable!("x86-64 doesn't ask for it")
    }

    fn check(&mut self, cpu: &mut dyn Cpu, addr: u64, len: u64, access: Access) -> Result<(), Trap> {
        let last = addr.wrapping_add(len - 1);
        assert!(
            last >> 12 == addr >> 12 || last >> 12 == (addr >> 12) + 1,
            "two pages"
        );
        self.byte(cpu, addr, access)?;
        if last >> 12 != addr >> 12 {
            self.byte(cpu, last & !0xfff, access)?;
        }
        Ok(())
    }

    fn port_read(&mut self, port: u16, size: Size) -> u64 {
        self.port_reads.push((port, size));
        0x1122_3344
    }

    fn port_write(&mut self, port: u16, size: Size, value: u64) {
        self.port_writes.push((port, size, value));
    }

    fn local_read(&mut self, register: u32) -> Option<u64> {
        self.local.get(&register).copied()
    }

    fn local_write(&mut self, register: u32, value: u64) -> bool {
        self.local.insert(register, value).is_some()
    }

    fn acknowledge(&mut self, pin: u32, vector: u8) {
        self.acknowledged.push((pin, vector));
    }

    fn numeric_error(&mut self, level: bool) {
        self.numeric_errors.push(level);
    }

    fn shutdown(&mut self) {
        self.shutdowns += 1;
    }

    fn steps_left(&self) -> u64 {
        1
    }

    fn more_steps(&mut self, _: u64) {}

    fn copy(&mut self, _: &mut dyn Cpu, _: [u64; 3], _: Size, _: bool) -> bool {
        false
    }

    fn fill(&mut self, _: &mut dyn Cpu, _: u64, _: u64, _: Size, _: u64) -> bool {
        false
    }
}

/// A processor and its machine.
pub(super) struct Rig {
    pub(super) hart: Hart,
    pub(super) machine: Machine,
}

const PRESENT: u16 = A_P | A_S | A_ACCESSED;

impl Rig {
    /// After power-on.
    pub(super) fn real() -> Rig {
        let config = HartConfig {
            id: 0,
            harts: 1,
            seed: 7,
        };
        let mut rig = Rig {
            hart: Hart::new(config),
            machine: Machine::new(),
        };
        rig.hart.core.idtr.limit = 0x3ff;
        rig.hart
            .set_segment(CS, Segment::real(0, A_P | A_S | A_CODE | A_RW | A_ACCESSED));
        rig.hart.regs[slots::PC] = CODE;
        rig.hart.regs[slots::RSP] = 0x6000;
        rig.hart.refresh();
        rig
    }

    /// Protected mode without paging, in ring 0.
    pub(super) fn protected() -> Rig {
        let mut rig = Rig::real();
        rig.tables();
        rig.hart.core.cr0 = CR0_PE | CR0_ET;
        rig.hart.core.tr = Segment {
            selector: selector::TASK,
            attr: A_P | 11,
            base: TSS,
            limit: 0x2067,
        };
        let machine = &mut rig.machine;
        machine.write(TSS + 4, Size::B4, RING0_STACK);
        machine.write(TSS + 8, Size::B4, selector::DATA.into());
        machine.write(TSS + 12, Size::B4, RING0_STACK - 0x800);
        machine.write(TSS + 16, Size::B4, selector::DATA_RING1.into());
        for vector in 0..256 {
            rig.gate32(vector as u8, 14, 0, selector::CODE32);
        }
        rig.ring(0, selector::CODE32);
        rig
    }

    /// 64-bit mode in ring 0.
    pub(super) fn long() -> Rig {
        let mut rig = Rig::real();
        rig.tables();
        let machine = &mut rig.machine;
        machine.write8(0x1000, 0x2000 | 7);
        machine.write8(0x2000, 0x3000 | 7);
        for i in 0..512 {
            machine.write8(0x3000 + 8 * i, i << 21 | 0x87);
        }
        machine.write8(TSS + 4, RING0_STACK);
        machine.write8(TSS + 12, RING0_STACK - 0x800);
        machine.write8(TSS + 0x24, IST_STACK);
        for vector in 0..=255 {
            rig.gate64(vector, 14, 0, selector::CODE64, 0);
        }
        let core = &mut rig.hart.core;
        core.cr0 = CR0_PE | CR0_PG | CR0_ET | CR0_WP;
        core.cr4 = CR4_PAE;
        core.efer = EFER_LME | EFER_LMA | EFER_SCE | EFER_NXE;
        core.cr3 = 0x1000;
        core.tr = Segment {
            selector: selector::TASK,
            attr: A_P | 11,
            base: TSS,
            limit: 0x2067,
        };
        rig.ring(0, selector::CODE64);
        rig
    }

    fn tables(&mut self) {
        let code = PRESENT | A_CODE | A_RW;
        let data = PRESENT | A_RW | A_DB | A_G;
        let user = 3 << 5;
        let ring1 = 1 << 5;
        let gdt = [
            (selector::CODE64, descriptor(code | A_L | A_G, 0xf_ffff)),
            (selector::DATA, descriptor(data, 0xf_ffff)),
            (
                selector::USER_CODE32,
                descriptor(code | A_DB | A_G | user, 0xf_ffff),
            ),
            (selector::USER_DATA, descriptor(data | user, 0xf_ffff)),
            (
                selector::USER_CODE64,
                descriptor(code | A_L | A_G | user, 0xf_ffff),
            ),
            (selector::TASK, descriptor_at(TSS as u32, A_P | 9, 0x2067)),
            (selector::CODE32, descriptor(code | A_DB | A_G, 0xf_ffff)),
            (
                selector::CONFORMING32,
                descriptor(code | A_DB | A_G | A_DC, 0xf_ffff),
            ),
            (
                selector::ABSENT_CODE,
                descriptor(code & !A_P | A_DB | A_L, 0xf_ffff),
            ),
            (selector::ABSENT_DATA, descriptor(data & !A_P, 0xf_ffff)),
            (selector::READ_ONLY, descriptor(data & !A_RW, 0xf_ffff)),
            (selector::CODE16, descriptor(code, 0xffff)),
            (selector::LDT, descriptor_at(LDT as u32, A_P | 2, 0xff)),
            (
                selector::CODE_RING1,
                descriptor(code | A_DB | A_G | ring1, 0xf_ffff),
            ),
            (selector::DATA_RING1, descriptor(data | ring1, 0xf_ffff)),
            (selector::EXECUTE_ONLY, descriptor(code & !A_RW | A_DB, 0xf_ffff)),
        ];
        for (selector, descriptor) in gdt {
            self.machine.write8(GDT + u64::from(selector & !7), descriptor);
        }
        self.hart.core.gdtr = Table {
            base: GDT,
            limit: selector::LIMIT,
        };
        self.hart.core.idtr = Table {
            base: IDT,
            limit: 0xfff,
        };
    }

    /// Puts the processor into `ring`, with flat segments and code segment `code`.
    pub(super) fn ring(&mut self, ring: u8, code: u16) {
        let raw = self.machine.read(GDT + u64::from(code & !7), Size::B8);
        let attr = (raw >> 40) as u16 & 0xf0ff;
        let flat = |selector, attr| Segment {
            selector,
            attr,
            base: 0,
            limit: u32::MAX,
        };
        let data = match ring {
            0 => selector::DATA,
            1 => selector::DATA_RING1,
            _ => selector::USER_DATA,
        };
        let data_attr = PRESENT | A_RW | A_DB | A_G | u16::from(ring) << 5;
        self.hart.core.cpl = ring;
        self.hart.set_segment(CS, flat(code & !3 | u16::from(ring), attr));
        for n in [ES, SS, DS, FS, GS] {
            self.hart.set_segment(n, flat(data, data_attr));
        }
        self.hart.regs[slots::PC] = CODE;
        self.hart.regs[slots::RSP] = if ring == 3 { USER_STACK } else { STACK };
        self.hart.refresh();
    }

    /// The handler of a vector.
    pub(super) fn handler(vector: u8) -> u64 {
        HANDLERS + 16 * u64::from(vector)
    }

    pub(super) fn gate64(&mut self, vector: u8, kind: u8, dpl: u8, selector: u16, ist: u8) {
        let at = IDT + 16 * u64::from(vector);
        let low = gate(kind, dpl, selector, Rig::handler(vector)) | u64::from(ist) << 32;
        self.machine.write8(at, low);
        self.machine.write8(at + 8, 0);
    }

    pub(super) fn gate32(&mut self, vector: u8, kind: u8, dpl: u8, selector: u16) {
        let at = IDT + 8 * u64::from(vector);
        self.machine
            .write8(at, gate(kind, dpl, selector, Rig::handler(vector)));
    }

    /// Calls a helper as an instruction of two bytes with operands of `size`; tells of its retirement.
    pub(super) fn call(&mut self, helper: u16, args: [u64; 2], size: u8, more: u8) -> Result<u64, Trap> {
        let pc = self.hart.pc();
        let form = Form::new(2, size, more).0;
        let result = self
            .hart
            .call(&mut self.machine, helper, [args[0], args[1], form], pc);
        if result.is_ok() {
            self.hart.retire(1, 1);
        }
        result
    }

    /// An instruction that does nothing.
    pub(super) fn nop(&mut self) {
        self.hart.regs[slots::PC] += 1;
        self.hart.retire(1, 1);
    }

    pub(super) fn deliver(&mut self, trap: Trap) {
        let pc = self.hart.pc();
        self.hart.deliver(&mut self.machine, trap, pc);
        self.hart.retire(0, 1);
    }

    /// Takes what there is to be taken.
    pub(super) fn take(&mut self) -> Option<u64> {
        let cause = self.hart.interrupt()?;
        self.hart.take_interrupt(&mut self.machine, cause);
        self.hart.retire(0, 1);
        Some(cause)
    }

    pub(super) fn wrmsr(&mut self, number: u32, value: u64) -> Result<u64, Trap> {
        self.hart.regs[slots::RCX] = number.into();
        self.hart.set_edx_eax(value);
        self.call(helper::WRMSR, [0; 2], 2, 0)
    }

    pub(super) fn rdmsr(&mut self, number: u32) -> Result<u64, Trap> {
        self.hart.regs[slots::RCX] = number.into();
        self.call(helper::RDMSR, [0; 2], 2, 0)?;
        Ok(self.hart.edx_eax())
    }
}

/// #GP with this code.
pub(super) const fn gp<T>(code: u16) -> Result<T, Trap> {
    Err(trap::fault(trap::GP, code))
}
