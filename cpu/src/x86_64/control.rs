//! Control registers, debug registers, XCR0 and flags that need privilege (SDM 3A 2.5, 2.6, 6.8, 17.2; SDM 2B MOV).
//!
//! While breakpoints on data or ports are armed every instruction is a block of its own; the pages of the former have no cached
//! translation, so that each access to them is told ([`crate::Cpu::accessed`]). What an instruction has met becomes a debug
//! trap when it retires (SDM 3B 17.3.1.2).

use super::bits::*;
use super::hart::Hart;
use super::mmu::{Paging, View};
use super::registers::{Activity, CS};
use super::trap::{self, DB, GP, UD};
use super::{CR8, flags, slots};
use crate::ir::Size;
use crate::{Access, Context, Trap};

impl Hart {
    /// `mov` from control register `n`.
    pub(super) fn read_cr(&mut self, cx: &mut dyn Context, n: u8) -> Result<u64, Trap> {
        self.ring0()?;
        Ok(match n {
            0 => self.core.cr0,
            2 => self.core.cr2,
            3 => self.core.cr3,
            4 => self.core.cr4,
            8 => cx.local_read(CR8).ok_or(trap::fault(GP, 0))?,
            _ => return Err(trap::trap(UD)),
        })
    }

    /// `mov` to control register `n`; outside of 64-bit mode `value` has 32 bits.
    pub(super) fn write_cr(&mut self, cx: &mut dyn Context, n: u8, value: u64) -> Result<(), Trap> {
        self.ring0()?;
        match n {
            0 => self.write_cr0(cx, value),
            2 => {
                self.core.cr2 = value;
                Ok(())
            }
            3 => self.write_cr3(cx, value),
            4 => self.write_cr4(cx, value),
            8 if value >> 4 == 0 && cx.local_write(CR8, value) => Ok(()),
            8 => Err(trap::fault(GP, 0)),
            _ => Err(trap::trap(UD)),
        }
    }

    fn write_cr0(&mut self, cx: &mut dyn Context, value: u64) -> Result<(), Trap> {
        let gp = Err(trap::fault(GP, 0));
        let core = &self.core;
        let on = |bit: u64| value & bit != 0;
        if value >> 32 != 0 || on(CR0_PG) && !on(CR0_PE) || on(CR0_NW) && !on(CR0_CD) {
            return gp;
        }
        let pages = core.cr0 & CR0_PG != 0;
        let enables = on(CR0_PG) && !pages;
        if core.efer & EFER_LME != 0 {
            let no_pae = core.cr4 & CR4_PAE == 0;
            let long_code = core.attrs[usize::from(CS)] & A_L != 0;
            if enables && (no_pae || long_code) {
                return gp;
            }
        }
        if pages && !on(CR0_PG) && (self.code64() || core.cr4 & CR4_PCIDE != 0) {
            return gp;
        }
        let value = value & CR0_ALL | CR0_ET;
        let long = on(CR0_PG) && core.efer & EFER_LME != 0;
        if on(CR0_PG)
            && !long
            && core.cr4 & CR4_PAE != 0
            && (enables || value ^ core.cr0 & (CR0_CD | CR0_NW) != 0)
        {
            self.load_pdptes(cx, core.cr3)?;
        }
        self.core.cr0 = value;
        if long {
            self.core.efer |= EFER_LMA;
        } else {
            self.core.efer &= !EFER_LMA;
        }
        Ok(())
    }

    fn write_cr3(&mut self, cx: &mut dyn Context, value: u64) -> Result<(), Trap> {
        // Bit 63 says only what a TLB may keep.
        let value = if self.core.cr4 & CR4_PCIDE != 0 {
            value & !(1 << 63)
        } else {
            value
        };
        if value >> PHYS_BITS != 0 {
            return Err(trap::fault(GP, 0));
        }
        if self.paging() == Paging::Pae {
            self.load_pdptes(cx, value)?;
        }
        self.core.cr3 = value;
        Ok(())
    }

    fn write_cr4(&mut self, cx: &mut dyn Context, value: u64) -> Result<(), Trap> {
        let core = &self.core;
        let changed = value ^ core.cr4;
        let long = self.long_mode();
        let pcide = value & changed & CR4_PCIDE != 0;
        if value & !CR4_ALL != 0 || long && value & CR4_PAE == 0 || pcide && (!long || core.cr3 & 0xfff != 0)
        {
            return Err(trap::fault(GP, 0));
        }
        if core.cr0 & CR0_PG != 0
            && !long
            && value & CR4_PAE != 0
            && changed & (CR4_PAE | CR4_PSE | CR4_PGE | CR4_SMEP) != 0
        {
            self.load_pdptes(cx, core.cr3)?;
        }
        self.core.cr4 = value;
        Ok(())
    }

    /// Loads the page-directory-pointer registers.
    fn load_pdptes(&mut self, cx: &mut dyn Context, cr3: u64) -> Result<(), Trap> {
        let mut entries = [0; 4];
        let table = cr3 & 0xffff_ffe0;
        for (entry, addr) in entries.iter_mut().zip((table..).step_by(8)) {
            if !cx.is_ram(addr) {
                return Err(trap::fault(GP, 0));
            }
            let view = std::mem::replace(&mut self.view, View::Physical);
            let loaded = cx.load(self, addr, Size::B8);
            self.view = view;
            *entry = loaded?;
        }
        if !Hart::pdptes_legal(&entries) {
            return Err(trap::fault(GP, 0));
        }
        self.core.pdptes = entries;
        self.roots.select(entries);
        Ok(())
    }

    /// `lmsw`: PE can be set and not cleared.
    pub(super) fn lmsw(&mut self, cx: &mut dyn Context, value: u64) -> Result<(), Trap> {
        self.ring0()?;
        let low = CR0_PE | CR0_MP | CR0_EM | CR0_TS;
        let kept = self.core.cr0 & (!low | CR0_PE);
        self.write_cr0(cx, kept | value & low)
    }

    /// `clts`.
    pub(super) fn clts(&mut self) -> Result<(), Trap> {
        self.ring0()?;
        self.core.cr0 &= !CR0_TS;
        Ok(())
    }

    /// Whether breakpoints on instructions, and on data or ports, are armed.
    pub(super) fn breakpoints_armed(&self) -> (bool, bool) {
        let dr7 = self.core.dr7;
        let armed = (0..4).filter(|n| dr7 >> (2 * n) & 3 != 0);
        armed.fold((false, false), |(code, data), n| {
            let on_code = dr7 >> (16 + 4 * n) & 3 == 0;
            (code || on_code, data || !on_code)
        })
    }

    /// Before an instruction at `pc` under armed instruction breakpoints: #DB if one of them is there.
    pub(super) fn code_breakpoint(&mut self, pc: u64) -> Result<(), Trap> {
        if self.resumes() {
            return Ok(());
        }
        let dr7 = self.core.dr7;
        let at = |n: usize| self.core.dr[n] == pc && dr7 >> (16 + 4 * n) & 15 == 0;
        let hits = (0..4).filter(|&n| at(n)).fold(0, |hits, n| hits | 1 << n);
        let enabled = (0..4).any(|n| hits >> n & 1 != 0 && dr7 >> (2 * n) & 3 != 0);
        if enabled {
            Err(Trap {
                cause: trap::cause(DB),
                value: hits,
            })
        } else {
            Ok(())
        }
    }

    /// The index of the debug register behind number `n`, or #UD; #DB under DR7.GD.
    fn debug_register(&self, n: u8) -> Result<u8, Trap> {
        let aliased = matches!(n, 4 | 5);
        if n > 7 || aliased && self.core.cr4 & CR4_DE != 0 {
            return Err(trap::trap(UD));
        }
        self.ring0()?;
        if self.core.dr7 & DR7_GD != 0 {
            return Err(Trap {
                cause: trap::cause(DB),
                value: DR6_BD,
            });
        }
        Ok(if aliased { n + 2 } else { n })
    }

    /// `mov` from debug register `n`.
    pub(super) fn read_dr(&self, n: u8) -> Result<u64, Trap> {
        Ok(match self.debug_register(n)? {
            6 => self.core.dr6,
            7 => self.core.dr7,
            n => self.core.dr[usize::from(n & 3)],
        })
    }

    /// `mov` to debug register `n`.
    pub(super) fn write_dr(&mut self, n: u8, value: u64) -> Result<(), Trap> {
        let n = self.debug_register(n)?;
        if n >= 6 && value >> 32 != 0 {
            return Err(trap::fault(GP, 0));
        }
        match n {
            6 => self.core.dr6 = DR6_FIXED | value & (DR6_B | DR6_BD | DR6_BS | 1 << 15),
            7 => self.core.dr7 = value & 0xffff_2fff & !0x1800 | DR7_FIXED,
            n => self.core.dr[usize::from(n & 3)] = value,
        }
        self.breakpoint_set = self.breakpoint_set.wrapping_add(1);
        Ok(())
    }

    /// The conditions of breakpoint `n` on data or ports: its first address and its length.
    fn data_breakpoint(&self, n: usize) -> (u64, u64) {
        let len = match self.core.dr7 >> (18 + 4 * n) & 3 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        (self.core.dr[n] & !(len - 1), len)
    }

    /// Meets the breakpoints whose kind (DR7.R/W) is in `kinds`, a bit each, and which overlap `len` bytes or ports at `addr`.
    fn meet(&self, kinds: u64, addr: u64, len: u64) {
        let dr7 = self.core.dr7;
        let overlaps = |n: usize| {
            let (first, count) = self.data_breakpoint(n);
            addr.wrapping_sub(first) < count || first.wrapping_sub(addr) < len
        };
        let is_met = |n: &usize| kinds >> (dr7 >> (16 + 4 * n) & 3) & 1 != 0 && overlaps(*n);
        let hits = (0..4).filter(is_met).fold(0, |hits, n| hits | 1 << n);
        let enabled = (0..4).any(|n| hits >> n & 1 != 0 && dr7 >> (2 * n) & 3 != 0);
        if enabled {
            self.met.set(self.met.get() | hits);
        }
    }

    /// Data is accessed, under armed breakpoints on data or not. Descriptor tables and the like aren't the program's data.
    pub(super) fn data_accessed(&self, addr: u64, len: u64, access: Access) {
        let kinds = match access {
            Access::Fetch => return,
            Access::Read => 1 << 3,
            Access::Write => 1 << 1 | 1 << 3,
        };
        if self.view == View::Current {
            self.meet(kinds, addr, len);
        }
    }

    /// Ports are accessed: breakpoints on them with CR4.DE (SDM 3B 17.2.4).
    pub(super) fn port_accessed(&self, port: u16, size: Size) {
        if self.core.cr4 & CR4_DE != 0 {
            self.meet(1 << 2, port.into(), size.bytes());
        }
    }

    /// Whether an armed breakpoint on data is in the page of a linear address.
    pub(super) fn breaks_in_page(&self, addr: u64) -> bool {
        let dr7 = self.core.dr7;
        (0..4).any(|n| {
            dr7 >> (2 * n) & 3 != 0 && dr7 >> (16 + 4 * n) & 1 != 0 && self.core.dr[n] >> 12 == addr >> 12
        })
    }

    /// `xgetbv`.
    pub(super) fn xgetbv(&mut self) -> Result<(), Trap> {
        if self.core.cr4 & CR4_OSXSAVE == 0 {
            return Err(trap::trap(UD));
        }
        let value = match self.regs[slots::RCX] & 0xffff_ffff {
            0 => self.core.xcr0,
            // XINUSE.
            1 => self.core.xcr0 & self.in_use(),
            _ => return Err(trap::fault(GP, 0)),
        };
        self.regs[slots::RAX] = value & 0xffff_ffff;
        self.regs[slots::RDX] = value >> 32;
        Ok(())
    }

    /// `xsetbv`.
    pub(super) fn xsetbv(&mut self) -> Result<(), Trap> {
        if self.core.cr4 & CR4_OSXSAVE == 0 {
            return Err(trap::trap(UD));
        }
        self.ring0()?;
        let value = self.edx_eax();
        if self.regs[slots::RCX] & 0xffff_ffff != 0 || !matches!(value, 1 | 3) {
            return Err(trap::fault(GP, 0));
        }
        self.core.xcr0 = value;
        Ok(())
    }

    /// edx:eax.
    pub(super) fn edx_eax(&self) -> u64 {
        self.regs[slots::RAX] & 0xffff_ffff | self.regs[slots::RDX] << 32
    }

    /// Sets edx:eax.
    pub(super) fn set_edx_eax(&mut self, value: u64) {
        self.regs[slots::RAX] = value & 0xffff_ffff;
        self.regs[slots::RDX] = value >> 32;
    }

    /// `hlt`.
    pub(super) fn hlt(&mut self) -> Result<(), Trap> {
        self.ring0()?;
        self.core.activity = Activity::Halted;
        Ok(())
    }

    /// `invpcid`: descriptor at linear address `addr`. Translations are coherent, so only the checks remain.
    pub(super) fn invpcid(&mut self, cx: &mut dyn Context, kind: u64, addr: u64) -> Result<(), Trap> {
        if self.vm86() {
            return Err(trap::fault(GP, 0));
        }
        self.ring0()?;
        let pcid = cx.load(self, addr, Size::B8)?;
        let linear = cx.load(self, addr.wrapping_add(8), Size::B8)?;
        let no_pcids = self.core.cr4 & CR4_PCIDE == 0;
        let illegal = match kind {
            0 => pcid >> 12 != 0 || no_pcids && pcid != 0 || !canonical(linear),
            1 => pcid >> 12 != 0 || no_pcids && pcid != 0,
            2 | 3 => false,
            _ => true,
        };
        if illegal { Err(trap::fault(GP, 0)) } else { Ok(()) }
    }

    /// RDRAND and RDSEED: the next 64 bits (splitmix64); CF becomes 1, the others 0.
    pub(super) fn random(&mut self) -> u64 {
        self.core.random = self.core.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.core.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let flags = self.regs[slots::EFLAGS];
        self.set_eflags(flags | flags::CF);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests;
