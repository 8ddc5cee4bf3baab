//! One RISC-V hart: its state, its helpers and its face to the machine ([`Cpu`]).
//!
//! ```text
//!   slots (RegFile)   x, f, pc, page, FP environment: what IR ops name
//!   csr/              control and status registers: one table of access rules
//!   pmp, mmu          protection and page-table walks
//!   traps             exceptions, interrupts, xRET, WFI
//!   state, debug      saved form; registers for debuggers
//! ```
//!
//! What the machine owes a hart beyond the contract of [`Cpu`]: after `restore` and `write_register` all
//! translations are void and the deadline is asked for anew, as PMP, satp or stimecmp may have changed.
//!
//! Time: mtime is virtual time divided by [`HartConfig::ns_per_tick`]; a guest's store to a memory-mapped mtime
//! doesn't move it. Input pins have the number of their bit in mip: MSIP 3, MTIP 7, SEIP 9, MEIP 11.

use super::csr::bits::*;
use super::csr::{self, Csrs};
use super::pmp::Pmp;
use super::traps::cause::{BREAKPOINT, ILLEGAL_INSTRUCTION};
use super::{debug, disasm, helper, lift, mmu, slots};
use crate::Follow;
use crate::ir::Size;
use crate::{
    Access, Context, Cpu, Layout, Lifted, PhysMem, RegFile, RegisterInfo, SpaceKey, StateError, TableChange,
    Translation, Trap,
};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

#[cfg(test)]
mod tests;

/// Bytes of a cache block (Zicboz; the device tree's riscv,cboz-block-size).
pub const BLOCK_SIZE: u64 = 64;

/// What distinguishes a hart and doesn't change: part of the machine's configuration, not of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HartConfig {
    /// mhartid.
    pub hart_id: u64,
    /// Nanoseconds of virtual time in a tick of mtime.
    pub ns_per_tick: NonZeroU64,
    /// Whether semihosting calls are served.
    pub semihosting: bool,
    /// Whether it is the machine's only hart.
    pub lone: bool,
}

impl HartConfig {
    /// Hart `hart_id` with the timebase of QEMU's and our `virt` board, 10 MHz.
    pub fn new(hart_id: u64) -> HartConfig {
        HartConfig {
            hart_id,
            ns_per_tick: NonZeroU64::MIN.saturating_add(99),
            semihosting: false,
            lone: false,
        }
    }
}

/// The reservation of an LR: physical address and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub(super) addr: u64,
    pub(super) size: u8,
}

/// A hart.
pub struct Hart {
    pub(super) config: HartConfig,
    pub(super) regs: RegFile,
    pub(super) csrs: Csrs,
    pub(super) pmp: Pmp,
    pub(super) reservation: Option<Reservation>,
    pub(super) waiting: bool,
}

impl Hart {
    /// A hart after reset at address 0.
    pub fn new(config: HartConfig) -> Hart {
        let mut hart = Hart {
            config,
            regs: RegFile::new(),
            csrs: Csrs::reset(),
            pmp: Pmp::new(),
            reservation: None,
            waiting: false,
        };
        hart.reset(0);
        hart
    }

    /// Current privilege: 0 U, 1 S, 3 M.
    pub fn privilege(&self) -> u8 {
        self.csrs.privilege
    }

    /// fflags, made from the environment slot: IE is NV, ZE DZ, OE OF, UE UF, PE NX.
    pub(super) fn fflags(&self) -> u64 {
        let env = self.regs[slots::FP_ENV];
        (env & 1) << 4 | (env >> 2 & 1) << 3 | (env >> 3 & 1) << 2 | (env >> 4 & 1) << 1 | env >> 5 & 1
    }

    /// Sets the low bits of `flags` and `frm` as fflags and frm.
    pub(super) fn set_fp_env(&mut self, flags: u64, frm: u64) {
        let sticky = flags >> 4 & 1
            | (flags >> 3 & 1) << 2
            | (flags >> 2 & 1) << 3
            | (flags >> 1 & 1) << 4
            | (flags & 1) << 5;
        let rounding = match frm & 7 {
            1 => 3,
            2 => 1,
            3 => 2,
            _ => 0,
        };
        self.csrs.frm = frm as u8 & 7;
        self.regs[slots::FP_ENV] = MXCSR_MASKS | rounding << 13 | sticky;
    }

    /// A write of fflags, frm or fcsr.
    pub(super) fn write_fp(&mut self, flags: u64, frm: u64) {
        self.set_fp_env(flags, frm);
        self.regs[slots::MSTATUS] |= FS;
    }

    fn load_reserved(&mut self, cx: &mut dyn Context, addr: u64, size: u64) -> Result<u64, Trap> {
        self.reservation = None;
        let (width, pa) = self.reservable(cx, addr, size, Access::Read)?;
        let value = cx.load(self, addr, width)?;
        self.reservation = Some(Reservation {
            addr: pa,
            size: width.bytes() as u8,
        });
        Ok(width.sign_extend(value))
    }

    /// SC translates, and so faults, whether or not the reservation holds; it succeeds only for the very address
    /// and size that LR reserved.
    fn store_conditional(
        &mut self,
        cx: &mut dyn Context,
        addr: u64,
        size: u64,
        value: u64,
    ) -> Result<u64, Trap> {
        let reservation = self.reservation.take();
        let (width, pa) = self.reservable(cx, addr, size, Access::Write)?;
        if reservation
            != Some(Reservation {
                addr: pa,
                size: width.bytes() as u8,
            })
        {
            return Ok(1);
        }
        cx.store(self, addr, width, value)?;
        Ok(0)
    }

    fn reservable(
        &mut self,
        cx: &mut dyn Context,
        addr: u64,
        size: u64,
        access: Access,
    ) -> Result<(Size, u64), Trap> {
        let width = if size == 4 { Size::B4 } else { Size::B8 };
        if addr & (width.bytes() - 1) != 0 {
            return Err(self.misaligned_trap(addr, access));
        }
        let pa = cx.translate(self, addr, access)?;
        if !cx.is_ram(pa) || self.pmp_denies(pa, width.bytes(), access) {
            return Err(self.access_trap(addr, access));
        }
        Ok((width, pa))
    }

    /// An `ebreak` that may be a semihosting call (RISC-V Semihosting 1.0, 3).
    fn ebreak(&mut self, cx: &mut dyn Context, pc: u64) -> Result<u64, Trap> {
        if !self.is_semihosting_call(cx, pc) {
            return Err(Trap {
                cause: BREAKPOINT,
                value: pc,
            });
        }
        let (operation, parameter) = (self.regs[slots::x(10)], self.regs[slots::x(11)]);
        match cx.semihosting(self, operation, parameter)? {
            Some(answer) => {
                self.regs[slots::x(10)] = answer;
                self.regs[slots::PC] = pc.wrapping_add(4);
            }
            // It asks again, in its next step or, if others have something to do, its next turn.
            None => {
                self.regs[slots::PC] = pc;
                cx.end_slice();
            }
        }
        Ok(0)
    }

    /// Whether the `ebreak` at `pc` stands in the sequence of a call, all of it in one page. Asked anew each time: the
    /// neighbours belong to no block that a store to them would drop.
    fn is_semihosting_call(&mut self, cx: &mut dyn Context, pc: u64) -> bool {
        // slli x0, x0, 0x1f; ebreak; srai x0, x0, 7
        const BEFORE: u64 = 0x01f0_1013;
        const BEHIND: u64 = 0x4070_5013;
        (4..=0xff8).contains(&(pc & 0xfff))
            && cx.fetch(self, pc - 4, Size::B4) == Ok(BEFORE)
            && cx.fetch(self, pc + 4, Size::B4) == Ok(BEHIND)
    }

    /// Zeroes the block around `addr`. Faults as a store whose address is `addr` itself (Unprivileged ISA, CMO, Traps).
    fn zero_block(&mut self, cx: &mut dyn Context, addr: u64, insn: u64) -> Result<u64, Trap> {
        let c = &self.csrs;
        let enabled = |register: u64| register & CBZE != 0;
        let legal = match c.privilege {
            M => true,
            S => enabled(c.menvcfg),
            _ => enabled(c.menvcfg) && enabled(c.senvcfg),
        };
        if !legal {
            return Err(illegal(insn));
        }
        let pa = cx.translate(self, addr, Access::Write)? & !(BLOCK_SIZE - 1);
        if !cx.is_ram(pa) || self.pmp_denies(pa, BLOCK_SIZE, Access::Write) {
            return Err(self.access_trap(addr, Access::Write));
        }
        let block = addr & !(BLOCK_SIZE - 1);
        cx.store_zeros(self, block, BLOCK_SIZE)?;
        Ok(0)
    }
}

fn illegal(insn: u64) -> Trap {
    Trap {
        cause: ILLEGAL_INSTRUCTION,
        value: insn & 0xffff_ffff,
    }
}

fn legal(done: bool, insn: u64) -> Result<u64, Trap> {
    if done { Ok(0) } else { Err(illegal(insn)) }
}

impl Cpu for Hart {
    fn layout(&self) -> &'static Layout {
        &slots::LAYOUT
    }

    fn regs(&self) -> &RegFile {
        &self.regs
    }

    fn regs_mut(&mut self) -> &mut RegFile {
        &mut self.regs
    }

    fn block_mode(&self) -> u64 {
        let c = &self.csrs;
        let fs = match self.mstatus() & FS {
            0 => slots::MODE_FS_OFF,
            FS => slots::MODE_FS_DIRTY,
            _ => 0,
        };
        let frm = match c.frm {
            4 => slots::MODE_FRM_RMM,
            5.. => slots::MODE_FRM_RESERVED,
            _ => 0,
        };
        // A user program's are not the machine's business: it could switch it off.
        let semihosting = match c.privilege {
            S | M if self.config.semihosting => slots::MODE_SEMIHOSTING,
            _ => 0,
        };
        let lone = if self.config.lone { slots::MODE_LONE } else { 0 };
        c.privilege as u64 | fs | frm | semihosting | lone
    }

    fn lazy(&self) -> (std::ops::Range<usize>, u64) {
        (0..0, 0)
    }

    fn fetch_space(&self) -> SpaceKey {
        self.space(Access::Fetch)
    }

    fn data_space(&self) -> SpaceKey {
        self.space(Access::Read)
    }

    fn translate(&self, mem: &mut dyn PhysMem, addr: u64, access: Access) -> Result<Translation, Trap> {
        self.walk(mem, addr, access)
    }

    /// Without triggers (Sdtrig) nobody wants to know.
    fn accessed(&self, _addr: u64, _size: u64, _access: Access) {}

    fn protection(&self) -> Vec<u64> {
        self.pmp.active()
    }

    fn protects(&self, addr: u64, size: u64, access: Access) -> bool {
        self.pmp_denies(addr, size, access)
    }

    fn debug_translate(&self, mem: &mut dyn PhysMem, addr: u64) -> Option<u64> {
        self.debug_walk(mem, addr)
    }

    fn table_change(&self, shift: u8, old: u64, new: u64) -> TableChange {
        mmu::table_change(shift, old, new)
    }

    fn access_fault(&self, addr: u64, access: Access) -> Trap {
        self.access_trap(addr, access)
    }

    fn misaligned(&self, addr: u64, access: Access) -> Trap {
        self.misaligned_trap(addr, access)
    }

    fn lift(&self, mode: u64, offset: u16, page: &[u8; 4096], next: Option<&[u8; 4096]>) -> Lifted {
        lift::lift(mode, offset, page, next)
    }

    fn lift_path(&self, mode: u64, offset: u16, page: &[u8; 4096], follow: Follow) -> Lifted {
        lift::lift_path(mode, offset, page, None, follow)
    }

    fn call(&mut self, cx: &mut dyn Context, helper: u16, args: [u64; 3], pc: u64) -> Result<u64, Trap> {
        match helper {
            helper::CSR => {
                let Some(old) = self.csr_instruction(args[0], args[1], cx.now()) else {
                    return Err(illegal(args[0] >> 32));
                };
                if csr::changes_protection(args[0]) {
                    cx.protection_changed(self);
                }
                Ok(old)
            }
            helper::MRET => legal(self.mret(), args[0]),
            helper::SRET => legal(self.sret(), args[0]),
            helper::WFI => legal(self.wfi(), args[0]),
            helper::SFENCE => legal(self.fence(args[0] as u32), args[0]),
            helper::LR => self.load_reserved(cx, args[0], args[1]),
            helper::SC => self.store_conditional(cx, args[0], args[1], args[2]),
            helper::CBO_ZERO => self.zero_block(cx, args[0], args[1]),
            helper::FS_DIRTY => {
                self.regs[slots::MSTATUS] |= FS;
                Ok(0)
            }
            helper::EBREAK => self.ebreak(cx, pc),
            helper::PAUSE => {
                cx.end_slice();
                Ok(0)
            }
            // The lifter's table and this one are one program; a number that isn't here is an instruction that
            // isn't.
            _ => Err(Trap {
                cause: ILLEGAL_INSTRUCTION,
                value: 0,
            }),
        }
    }

    fn deliver(&mut self, _cx: &mut dyn Context, trap: Trap, pc: u64) {
        self.take_exception(trap, pc);
    }

    fn interrupt(&self) -> Option<u64> {
        self.pending_interrupt()
    }

    fn take_interrupt(&mut self, _cx: &mut dyn Context, cause: u64) {
        self.enter_interrupt(cause);
    }

    fn waiting(&self) -> bool {
        self.waiting
    }

    fn set_pin(&mut self, pin: u32, value: u32) {
        let level = value != 0;
        let bit = 1u64.checked_shl(pin).unwrap_or(0) & PINS;
        self.csrs.pins = self.csrs.pins & !bit | if level { bit } else { 0 };
        self.refresh_pending();
        self.wake();
    }

    fn deadline(&self) -> Option<u64> {
        if !self.csrs.sstc() || self.csrs.timer_due {
            return None;
        }
        // A comparison beyond the end of virtual time never comes true.
        self.csrs.stimecmp.checked_mul(self.config.ns_per_tick.get())
    }

    fn tick(&mut self, now: u64) {
        if !self.csrs.timer_due {
            let ticks = self.ticks(now);
            self.csrs.compare_time(Some(ticks));
            self.refresh_pending();
            self.wake();
        }
    }

    fn retire(&mut self, retired: u64, steps: u64) {
        let c = &mut self.csrs;
        if c.mcountinhibit as u64 & CY == 0 {
            c.mcycle = c.mcycle.wrapping_add(steps);
        }
        if c.mcountinhibit as u64 & IR == 0 {
            c.minstret = c.minstret.wrapping_add(retired);
        }
    }

    fn switched_away(&mut self) {
        self.reservation = None;
    }

    fn dma_wrote(&mut self, addr: u64, len: u64) {
        // The reservation set is the cache block.
        if let Some(r) = self.reservation {
            let block = r.addr & !(BLOCK_SIZE - 1);
            if len != 0 && addr < block + BLOCK_SIZE && block < addr.saturating_add(len) {
                self.reservation = None;
            }
        }
    }

    fn reset(&mut self, pc: u64) {
        self.csrs = Csrs::reset();
        self.pmp = Pmp::new();
        self.reservation = None;
        self.waiting = false;
        // In place: engines hold the address of the words.
        self.regs.words_mut()[..slots::END as usize].fill(0);
        self.set_fp_env(0, 0);
        self.regs[slots::PC] = pc & !1;
    }

    fn save(&self) -> Vec<u8> {
        self.save_state()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.restore_state(bytes)
    }

    fn registers(&self) -> &[RegisterInfo] {
        debug::registers()
    }

    fn read_register(&self, number: u32) -> Option<Vec<u8>> {
        self.debug_read(number).map(|value| value.to_le_bytes().to_vec())
    }

    fn write_register(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError> {
        self.debug_write(number, bytes)
    }

    fn watch_after(&self) -> bool {
        false
    }

    fn target_xml(&self) -> String {
        debug::target_xml()
    }

    fn disassemble(&self, pc: u64, bytes: &[u8]) -> (String, usize) {
        disasm::disassemble(pc, bytes)
    }
}
