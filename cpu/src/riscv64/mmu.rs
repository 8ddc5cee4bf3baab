//! Page-table walks (RISC-V Privileged ISA 12.3 to 12.6, with Svadu; no Svnapot, no Svpbmt).
//!
//! A walk reads entries with the rights of S-mode under the PMP, and fails with an access fault of the kind of the
//! original access where it may not. The walker sets A and D when menvcfg.ADUE is set; otherwise a clear bit is a
//! page fault (Svade).
//!
//! What a [`Translation`] grants depends on nothing but memory, the PMP and the [`SpaceKey`]: a fetch is
//! walked as if SUM and MXR were clear, since the key of fetches leaves them out, and ADUE is no part of keys
//! because a right is granted only where A (and D) are set already.

use super::csr::bits::*;
use super::hart::Hart;
use super::traps::cause;
use crate::ir::Size;
use crate::{Access, MAX_LEVELS, PhysMem, SpaceKey, TableChange, TableStep, Translation, Trap};

#[cfg(test)]
mod tests;

/// Entry bit: valid.
pub const PTE_V: u64 = 1;
/// Entry bit: readable.
pub const PTE_R: u64 = 1 << 1;
/// Entry bit: writable.
pub const PTE_W: u64 = 1 << 2;
/// Entry bit: executable.
pub const PTE_X: u64 = 1 << 3;
/// Entry bit: user page.
pub const PTE_U: u64 = 1 << 4;
/// Entry bit: global.
pub const PTE_G: u64 = 1 << 5;
/// Entry bit: accessed.
pub const PTE_A: u64 = 1 << 6;
/// Entry bit: dirty.
pub const PTE_D: u64 = 1 << 7;
/// Entry bits for software.
pub const PTE_RSW: u64 = 3 << 8;

const PTE_RWX: u64 = PTE_R | PTE_W | PTE_X;
/// Bits 60:54, PBMT and N: reserved here.
const PTE_RESERVED: u64 = !0 << 54;
/// Physical addresses have 56 bits.
const PHYS_BITS: u32 = 56;

/// How deep the tables are.
#[derive(Clone, Copy)]
struct Paging {
    levels: u8,
    root: u64,
}

/// An entry that ends a walk.
struct Leaf {
    entry: u64,
    pte: u64,
    /// Physical address of the byte asked for.
    addr: u64,
    path: [TableStep; MAX_LEVELS],
}

/// Why a walk found no leaf.
#[derive(Clone, Copy)]
enum Miss {
    Page,
    Access,
}

/// An entry that can end or continue a walk at `level`, told apart.
enum Entry {
    Table,
    Leaf,
    Fault,
}

fn judge(pte: u64, level: u8) -> Entry {
    let ppn = pte >> 10;
    if pte & PTE_V == 0 || pte & (PTE_R | PTE_W) == PTE_W || pte & PTE_RESERVED != 0 {
        Entry::Fault
    } else if pte & PTE_RWX == 0 {
        // In pointers D, A and U are reserved; at the last level there are no pointers.
        if level == 0 || pte & (PTE_D | PTE_A | PTE_U) != 0 {
            Entry::Fault
        } else {
            Entry::Table
        }
    } else if ppn & ((1 << (9 * level as u32)) - 1) != 0 {
        Entry::Fault
    } else {
        Entry::Leaf
    }
}

impl Hart {
    fn privilege_of(&self, access: Access) -> u8 {
        match access {
            Access::Fetch => self.csrs.privilege,
            Access::Read | Access::Write => self.data_privilege(),
        }
    }

    fn paging(&self, privilege: u8) -> Option<Paging> {
        let levels = match self.csrs.satp >> 60 {
            8 => 3,
            9 => 4,
            10 => 5,
            _ => return None,
        };
        (privilege != M).then_some(Paging {
            levels,
            root: (self.csrs.satp & SATP_PPN) << 12,
        })
    }

    /// Goes down the tables. `protected`: under the PMP.
    fn find_leaf(
        &self,
        mem: &mut dyn PhysMem,
        paging: Paging,
        addr: u64,
        protected: bool,
    ) -> Result<Leaf, Miss> {
        let unused = 64 - (12 + 9 * paging.levels as u32);
        if ((addr << unused) as i64 >> unused) as u64 != addr {
            return Err(Miss::Page);
        }
        let mut path = [TableStep { entry: 0, shift: 0 }; MAX_LEVELS];
        let mut table = paging.root;
        for (depth, level) in (0..paging.levels).rev().enumerate() {
            let shift = 12 + 9 * level;
            let entry = table + (addr >> shift & 0x1ff) * 8;
            path[depth] = TableStep { entry, shift };
            if protected && !self.pmp.rights(entry, 8, S).read {
                return Err(Miss::Access);
            }
            let pte = mem.read_entry(entry, Size::B8).ok_or(Miss::Access)?;
            let target = (pte >> 10 & SATP_PPN) << 12;
            match judge(pte, level) {
                Entry::Fault => return Err(Miss::Page),
                Entry::Table => table = target,
                Entry::Leaf => {
                    let addr = target | addr & ((1 << shift) - 1);
                    return Ok(Leaf {
                        entry,
                        pte,
                        addr,
                        path,
                    });
                }
            }
        }
        Err(Miss::Page)
    }

    pub(super) fn walk(&self, mem: &mut dyn PhysMem, addr: u64, access: Access) -> Result<Translation, Trap> {
        let privilege = self.privilege_of(access);
        let access_fault = Trap {
            cause: cause::access_fault(access),
            value: addr,
        };
        let page_fault = Trap {
            cause: cause::page_fault(access),
            value: addr,
        };
        let found = match self.paging(privilege) {
            None if addr >> PHYS_BITS != 0 => return Err(access_fault),
            None => Translation {
                addr,
                read: true,
                write: true,
                fetch: true,
                cacheable: true,
                path: [TableStep { entry: 0, shift: 0 }; MAX_LEVELS],
            },
            Some(paging) => {
                let leaf = self
                    .find_leaf(mem, paging, addr, true)
                    .map_err(|miss| match miss {
                        Miss::Page => page_fault,
                        Miss::Access => access_fault,
                    })?;
                let mut pte = leaf.pte;
                let (sum, mxr) = match access {
                    Access::Fetch => (false, false),
                    _ => (self.mstatus() & SUM != 0, self.mstatus() & MXR != 0),
                };
                let user = pte & PTE_U != 0;
                let data = if privilege == U { user } else { !user || sum };
                let read = data && (pte & PTE_R != 0 || mxr && pte & PTE_X != 0);
                let write = data && pte & PTE_W != 0;
                let fetch = user == (privilege == U) && pte & PTE_X != 0;
                let (allowed, needed) = match access {
                    Access::Fetch => (fetch, PTE_A),
                    Access::Read => (read, PTE_A),
                    Access::Write => (write, PTE_A | PTE_D),
                };
                if !allowed {
                    return Err(page_fault);
                }
                if pte & needed != needed {
                    if self.csrs.menvcfg & ADUE == 0 {
                        return Err(page_fault);
                    }
                    if !self.pmp.rights(leaf.entry, 8, S).write {
                        return Err(access_fault);
                    }
                    pte |= needed;
                    mem.write_entry(leaf.entry, Size::B8, pte).ok_or(access_fault)?;
                }
                let write = write && pte & PTE_D != 0;
                Translation {
                    addr: leaf.addr,
                    read,
                    write,
                    fetch,
                    cacheable: true,
                    path: leaf.path,
                }
            }
        };
        let page = self.pmp.page_rights(found.addr, privilege);
        // Where protection is finer than the page, the first byte's rights stand here for the access's own, which
        // `protects` judges.
        let rights = page.unwrap_or_else(|| self.pmp.rights(found.addr, 1, privilege));
        if !rights.allow(access) {
            return Err(access_fault);
        }
        Ok(Translation {
            read: found.read && rights.read,
            write: found.write && rights.write,
            fetch: found.fetch && rights.fetch,
            cacheable: page.is_some(),
            ..found
        })
    }

    /// Whether the PMP denies an access to physical memory.
    pub(super) fn pmp_denies(&self, addr: u64, size: u64, access: Access) -> bool {
        !self
            .pmp
            .rights(addr, size, self.privilege_of(access))
            .allow(access)
    }

    /// A debugger's view: that of the current privilege, which is code's (MPRV is for data only).
    pub(super) fn debug_walk(&self, mem: &mut dyn PhysMem, addr: u64) -> Option<u64> {
        match self.paging(self.csrs.privilege) {
            None => Some(addr),
            Some(paging) => self
                .find_leaf(mem, paging, addr, false)
                .ok()
                .map(|leaf| leaf.addr),
        }
    }

    pub(super) fn space(&self, access: Access) -> SpaceKey {
        let privilege = self.privilege_of(access);
        let root = match self.paging(privilege) {
            None => 0,
            Some(_) => self.csrs.satp & !SATP_ASID,
        };
        let flags = match access {
            // Without tables SUM and MXR say nothing; in U, SUM doesn't.
            Access::Fetch => 0,
            _ if root == 0 => 0,
            _ if privilege == U => self.mstatus() & MXR,
            _ => self.mstatus() & (SUM | MXR),
        };
        // With SUM a supervisor is about to access the user's memory. With MPRV the PMP judges data as another's.
        let shared = root != 0 && privilege == S && self.mstatus() & MPRV == 0 && flags & SUM == 0;
        let upper = ((root & SATP_PPN) << 12) + 0x800;
        SpaceKey {
            root,
            modifiers: flags | privilege as u64,
            upper: if shared { upper } else { 0 },
        }
    }
}

/// Judges a store to an entry that covers 2^`shift` bytes.
///
/// An entry that could neither end nor continue a walk has no translations. One that gains rights at the same
/// target takes none back, as a right that isn't cached walks again. U is no such right: it takes S's.
pub fn table_change(shift: u8, old: u64, new: u64) -> TableChange {
    let level = (shift.saturating_sub(12) / 9).min(MAX_LEVELS as u8 - 1);
    let widens = PTE_RWX | PTE_A | PTE_D;
    let same_but_widened = (old ^ new) & !(widens | PTE_RSW) == 0 && old & !new & widens == 0;
    match (judge(old, level), judge(new, level)) {
        (Entry::Fault, _) => TableChange::Nothing,
        (Entry::Table, Entry::Table) | (Entry::Leaf, Entry::Leaf) if same_but_widened => TableChange::Nothing,
        _ => TableChange::Drop,
    }
}
