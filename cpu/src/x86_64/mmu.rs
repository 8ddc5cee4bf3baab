//! Page-table walks (SDM 3A 4.1 to 4.8): without paging, 32-bit paging with 4 MiB pages, PAE paging and 4-level
//! paging with 2 MiB and 1 GiB pages. Physical addresses have [`PHYS_BITS`] bits.
//!
//! What a [`Translation`] grants depends on nothing but memory and the [`SpaceKey`]. Global pages and PCIDs say
//! something of TLBs, and the machine's are coherent: both are ignored.
//!
//! A and D are set when the access is allowed, in all entries of the walk; an access that faults changes none (the
//! manual leaves that open for A). A walk that leaves RAM finds reserved bits set, as floating buses do.
//!
//! Whose access it is, [`View`] says: a processor in ring 3 reads its descriptor tables as a supervisor.

use super::bits::*;
use super::hart::Hart;
use super::mode::Mode;
use super::slots;
use super::trap;
use crate::ir::Size;
use crate::{Access, MAX_LEVELS, PhysMem, SpaceKey, TableChange, TableStep, Translation, Trap};

/// Entry bit: present.
pub const P: u64 = 1;
/// Entry bit: writable.
pub const RW: u64 = 1 << 1;
/// Entry bit: for users.
pub const US: u64 = 1 << 2;
/// Entry bit: accessed.
pub const A: u64 = 1 << 5;
/// Entry bit: dirty.
pub const D: u64 = 1 << 6;
/// Entry bit: a large page.
pub const PS: u64 = 1 << 7;
/// Entry bit: no execution.
pub const XD: u64 = 1 << 63;
/// Bits 9 to 11: for software.
const AVAILABLE: u64 = 7 << 9;

/// Bits of an entry that address memory.
const ADDR: u64 = (1 << PHYS_BITS) - (1 << 12);
/// Bits 51 to [`PHYS_BITS`].
const HIGH: u64 = (1 << 52) - (1 << PHYS_BITS);

/// Error code: the page is there.
pub const CODE_P: u16 = 1;
/// Error code: a write.
pub const CODE_W: u16 = 1 << 1;
/// Error code: a user's access.
pub const CODE_U: u16 = 1 << 2;
/// Error code: reserved bits.
pub const CODE_RSVD: u16 = 1 << 3;
/// Error code: a fetch.
pub const CODE_ID: u16 = 1 << 4;

/// As whom accesses to data are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// As the current privilege level says.
    Current,
    /// To a descriptor table or TSS: as a supervisor, whom EFLAGS.AC doesn't help (SDM 3A 4.6).
    System,
    /// To the stack of another ring.
    Ring(u8),
    /// Without paging.
    Physical,
}

/// How tables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    None,
    Bits32,
    Pae,
    Long,
}

/// A walk that came to a page.
struct Leaf {
    /// Physical address of the byte asked for.
    addr: u64,
    user: bool,
    writable: bool,
    executable: bool,
    /// The entries, root first, with their content.
    path: [TableStep; MAX_LEVELS],
    content: [u64; MAX_LEVELS],
    depth: usize,
    entry_size: Size,
}

enum Miss {
    NotPresent,
    Reserved,
}

/// Keys for PAE's page-directory-pointer registers, which memory no longer vouches for: one for each content.
#[derive(Default)]
pub(super) struct Roots {
    known: Vec<([u64; 4], u64)>,
    next: u64,
    current: u64,
}

impl Roots {
    const KEPT: usize = 32;

    /// Selects the key of `entries`.
    pub(super) fn select(&mut self, entries: [u64; 4]) {
        let place = self.known.iter().position(|(e, _)| *e == entries);
        let found = match place {
            Some(place) => self.known.remove(place),
            None => {
                self.next += 1;
                self.known.truncate(Roots::KEPT - 1);
                (entries, self.next)
            }
        };
        self.known.insert(0, found);
        self.current = found.1;
    }
}

impl Hart {
    pub(super) fn paging(&self) -> Paging {
        if self.core.cr0 & CR0_PG == 0 {
            Paging::None
        } else if self.core.efer & EFER_LMA != 0 {
            Paging::Long
        } else if self.core.cr4 & CR4_PAE != 0 {
            Paging::Pae
        } else {
            Paging::Bits32
        }
    }

    /// Paging as the view of data has it.
    fn paging_of(&self, access: Access) -> Paging {
        match self.view {
            View::Physical if access != Access::Fetch => Paging::None,
            _ => self.paging(),
        }
    }

    fn is_user(&self, access: Access) -> bool {
        match self.view {
            _ if access == Access::Fetch => self.core.cpl == 3,
            View::Current => self.core.cpl == 3,
            View::System | View::Physical => false,
            View::Ring(ring) => ring == 3,
        }
    }

    /// Whether a supervisor's data accesses to user pages fault.
    fn smap(&self) -> bool {
        let overridden = self.view != View::System && self.regs[slots::EFLAGS] & AC != 0;
        self.core.cr4 & CR4_SMAP != 0 && !overridden
    }

    fn a20(&self, addr: u64) -> u64 {
        if self.core.pins.a20 {
            addr
        } else {
            addr & !(1 << 20)
        }
    }

    /// Goes down the tables. Linear addresses have 32 bits outside of long mode.
    fn find(&self, mem: &mut dyn PhysMem, paging: Paging, addr: u64) -> Result<Leaf, Miss> {
        let nxe = self.core.efer & EFER_NXE != 0;
        let mut leaf = Leaf {
            addr: 0,
            user: true,
            writable: true,
            executable: true,
            path: [TableStep { entry: 0, shift: 0 }; MAX_LEVELS],
            content: [0; MAX_LEVELS],
            depth: 0,
            entry_size: Size::B8,
        };
        let (mut table, first, reserved) = match paging {
            Paging::None => {
                leaf.addr = self.a20(addr & 0xffff_ffff);
                return Ok(leaf);
            }
            Paging::Bits32 => return self.find32(mem, addr, leaf),
            Paging::Pae => {
                let pdpte = self.core.pdptes[(addr >> 30 & 3) as usize];
                if pdpte & P == 0 {
                    return Err(Miss::NotPresent);
                }
                // Bits 62 to 52 are ignored in long mode only.
                (pdpte & ADDR, 21, HIGH | (XD - (1 << 52)))
            }
            Paging::Long => (self.core.cr3 & ADDR, 39, HIGH),
        };
        let reserved = reserved | if nxe { 0 } else { XD };
        let mut shift: u8 = first;
        loop {
            let at = self.a20(table + (addr >> shift & 0x1ff) * 8);
            let entry = leaf.step(mem, at, shift)?;
            let large = shift > 12 && entry & PS != 0;
            if entry & reserved != 0 || large && (shift > 30 || entry & ((1 << shift) - (1 << 13)) != 0) {
                return Err(Miss::Reserved);
            }
            if large || shift == 12 {
                let offset = (1u64 << shift) - 1;
                leaf.addr = self.a20(entry & ADDR & !offset | addr & offset);
                return Ok(leaf);
            }
            table = entry & ADDR;
            shift -= 9;
        }
    }

    /// A directory entry covers 4 MiB, and a table has 1024 entries of 4 bytes. It is reported as two halves with tables
    /// of 512 entries each: to those who look at stores to tables it is the same.
    fn find32(&self, mem: &mut dyn PhysMem, addr: u64, mut leaf: Leaf) -> Result<Leaf, Miss> {
        leaf.entry_size = Size::B4;
        let table = self.core.cr3 & 0xffff_f000;
        let directory = leaf.step(mem, self.a20(table + (addr >> 22 & 0x3ff) * 4), 21)?;
        if self.core.cr4 & CR4_PSE != 0 && directory & PS != 0 {
            if directory & 1 << 21 != 0 {
                return Err(Miss::Reserved);
            }
            let frame = directory & 0xffc0_0000 | (directory >> 13 & 0xff) << 32;
            leaf.addr = self.a20(frame | addr & 0x3f_ffff);
            return Ok(leaf);
        }
        let table = directory & 0xffff_f000;
        let entry = leaf.step(mem, self.a20(table + (addr >> 12 & 0x3ff) * 4), 12)?;
        leaf.addr = self.a20(entry & 0xffff_f000 | addr & 0xfff);
        Ok(leaf)
    }

    pub(super) fn walk(&self, mem: &mut dyn PhysMem, addr: u64, access: Access) -> Result<Translation, Trap> {
        let core = &self.core;
        let paging = self.paging_of(access);
        let long = core.efer & EFER_LMA != 0;
        if long && !canonical(addr) {
            return Err(trap::no_address(addr));
        }
        let linear = if long { addr } else { addr & 0xffff_ffff };
        let user = self.is_user(access);
        let cacheable = access == Access::Fetch || !self.breaks_in_page(linear);
        let fault = |present: u16| {
            let (smep, nx) = (core.cr4 & CR4_SMEP != 0, core.efer & EFER_NXE != 0);
            let says_fetch = smep || nx && paging != Paging::Bits32;
            let code = present
                | if access == Access::Write { CODE_W } else { 0 }
                | if user { CODE_U } else { 0 }
                | if access == Access::Fetch && says_fetch {
                    CODE_ID
                } else {
                    0
                };
            trap::page_fault(code, linear)
        };
        let leaf = self.find(mem, paging, linear).map_err(|miss| match miss {
            Miss::NotPresent => fault(0),
            Miss::Reserved => fault(CODE_P | CODE_RSVD),
        })?;
        if paging == Paging::None {
            return Ok(Translation {
                addr: leaf.addr,
                read: true,
                write: true,
                fetch: true,
                cacheable,
                path: leaf.path,
            });
        }
        let (read, write, fetch) = if user {
            (
                leaf.user,
                leaf.user && leaf.writable,
                leaf.user && leaf.executable,
            )
        } else {
            let read = !(leaf.user && self.smap());
            let write = read && (leaf.writable || core.cr0 & CR0_WP == 0);
            let fetch = leaf.executable && !(leaf.user && core.cr4 & CR4_SMEP != 0);
            (read, write, fetch)
        };
        let allowed = match access {
            Access::Fetch => fetch,
            Access::Read => read,
            Access::Write => write,
        };
        if !allowed {
            return Err(fault(CODE_P));
        }
        let mut dirty = false;
        for i in 0..leaf.depth {
            let last = i + 1 == leaf.depth;
            let old = leaf.content[i];
            let new = old | A | if last && access == Access::Write { D } else { 0 };
            if new != old {
                mem.write_entry(leaf.path[i].entry, leaf.entry_size, new)
                    .ok_or_else(|| fault(CODE_P | CODE_RSVD))?;
            }
            dirty = new & D != 0;
        }
        Ok(Translation {
            addr: leaf.addr,
            read,
            write: write && dirty,
            fetch,
            cacheable,
            path: leaf.path,
        })
    }

    /// A debugger's view, that of code.
    pub(super) fn debug_walk(&self, mem: &mut dyn PhysMem, addr: u64) -> Option<u64> {
        let long = self.core.efer & EFER_LMA != 0;
        if long && !canonical(addr) {
            return None;
        }
        let linear = if long { addr } else { addr & 0xffff_ffff };
        self.find(mem, self.paging(), linear).ok().map(|leaf| leaf.addr)
    }

    pub(super) fn space(&self, access: Access) -> SpaceKey {
        let core = &self.core;
        let bit = |on: bool, n: u32| u64::from(on) << n;
        let paging = self.paging_of(access);
        let long = core.efer & EFER_LMA != 0;
        let armed = access != Access::Fetch && self.has_mode(Mode::DATA_BREAKPOINTS);
        let breakpoints = if armed {
            u64::from(self.breakpoint_set) << 32 | 1 << 10
        } else {
            0
        };
        let common = bit(core.pins.a20, 8) | bit(long, 9) | breakpoints;
        if paging == Paging::None {
            return SpaceKey {
                root: 0,
                modifiers: common,
                upper: 0,
            };
        }
        let root = match paging {
            Paging::Pae => self.roots.current << 16 | self.config.id & 0xffff,
            Paging::Bits32 => core.cr3 & 0xffff_f000,
            Paging::None | Paging::Long => core.cr3 & ADDR,
        };
        let user = self.is_user(access);
        let who = match access {
            _ if user => bit(true, 2),
            Access::Fetch => bit(core.cr4 & CR4_SMEP != 0, 5),
            Access::Read | Access::Write => bit(core.cr0 & CR0_WP != 0, 3) | bit(self.smap(), 4),
        };
        let modifiers = paging as u64
            | common
            | who
            | bit(core.efer & EFER_NXE != 0, 6)
            | bit(core.cr4 & CR4_PSE != 0, 7);
        // Without SMEP or SMAP a supervisor may run or use what is the user's.
        let apart = match access {
            Access::Fetch => core.cr4 & CR4_SMEP != 0,
            Access::Read | Access::Write => self.smap(),
        };
        let shared = paging == Paging::Long && !user && apart && core.pins.a20;
        SpaceKey {
            root,
            modifiers,
            upper: if shared { root + 0x800 } else { 0 },
        }
    }

    /// Judges the page-directory-pointer entries that CR3 names: those of PAE paging, or `None` where one has
    /// reserved bits set (SDM 3A 4.4.1).
    pub(super) fn pdptes_legal(entries: &[u64; 4]) -> bool {
        const RESERVED: u64 = 0x1e6 | !((1 << PHYS_BITS) - 1);
        entries
            .iter()
            .all(|entry| entry & P == 0 || entry & RESERVED == 0)
    }
}

impl Leaf {
    /// Reads an entry and notes it.
    fn step(&mut self, mem: &mut dyn PhysMem, at: u64, shift: u8) -> Result<u64, Miss> {
        let entry = mem.read_entry(at, self.entry_size).ok_or(Miss::Reserved)?;
        if entry & P == 0 {
            return Err(Miss::NotPresent);
        }
        self.path[self.depth] = TableStep { entry: at, shift };
        self.content[self.depth] = entry;
        self.depth += 1;
        self.user &= entry & US != 0;
        self.writable &= entry & RW != 0;
        // Where XD isn't enabled it is a reserved bit, and 32-bit entries have none.
        self.executable &= entry & XD == 0;
        Ok(entry)
    }
}

/// Judges a store to eight bytes of a table: one entry, or two of 32-bit paging; which, the table doesn't say, so both
/// must hold.
///
/// What isn't present was not cached. An entry that gains A, D or the right to write takes back nothing, as what
/// isn't granted walks again.
pub fn table_change(old: u64, new: u64) -> TableChange {
    const WIDENS: u64 = A | D | RW;
    let keeps = |old: u64, new: u64| {
        old & P == 0 || (old ^ new) & !(WIDENS | AVAILABLE) == 0 && old & !new & WIDENS == 0
    };
    let halves = |word: u64| (word & 0xffff_ffff, word >> 32);
    let ((old_low, old_high), (new_low, new_high)) = (halves(old), halves(new));
    if keeps(old, new) && keeps(old_low, new_low) && keeps(old_high, new_high) {
        TableChange::Nothing
    } else {
        TableChange::Drop
    }
}

#[cfg(test)]
mod tests;
