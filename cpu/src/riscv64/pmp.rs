//! Physical memory protection (RISC-V Privileged ISA 3.7): 16 entries with a grain of four bytes.
//!
//! The lowest-numbered entry that matches any byte of an access decides, and must match all its bytes. What
//! matches none is allowed to M-mode and denied to S and U. One access to a page is judged as a whole, also if it
//! is misaligned; one that crosses pages is judged page by page.

use super::csr::bits::M;
use crate::Access;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Number of entries.
pub const ENTRIES: usize = 16;

const R: u8 = 1;
const W: u8 = 1 << 1;
const X: u8 = 1 << 2;
const A: u8 = 3 << 3;
const TOR: u8 = 1 << 3;
const NA4: u8 = 2 << 3;
const L: u8 = 1 << 7;
const CONFIG_WRITABLE: u8 = R | W | X | A | L;
const ADDRESS_WRITABLE: u64 = (1 << 54) - 1;

/// What may be done with some bytes at some privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Fetches.
    pub fetch: bool,
}

impl Rights {
    const ALL: Rights = Rights {
        read: true,
        write: true,
        fetch: true,
    };
    const NONE: Rights = Rights {
        read: false,
        write: false,
        fetch: false,
    };

    /// Whether they include `access`.
    pub fn allow(self, access: Access) -> bool {
        match access {
            Access::Fetch => self.fetch,
            Access::Read => self.read,
            Access::Write => self.write,
        }
    }
}

/// The registers as saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmpState {
    config: [u8; ENTRIES],
    address: [u64; ENTRIES],
}

/// The registers with what is derived from them.
#[derive(Clone, Debug)]
pub struct Pmp {
    state: PmpState,
    /// The entries that match anything, in order.
    active: Vec<Region>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    first: u64,
    last: u64,
    config: u8,
}

impl Region {
    fn rights(self, privilege: u8) -> Rights {
        if privilege == M && self.config & L == 0 {
            return Rights::ALL;
        }
        let has = |bit| self.config & bit != 0;
        Rights {
            read: has(R),
            write: has(W),
            fetch: has(X),
        }
    }
}

impl PmpState {
    /// Whether writes can have made it.
    pub fn check(&self) -> Result<(), &'static str> {
        let config_ok = self
            .config
            .iter()
            .all(|&c| c & !CONFIG_WRITABLE == 0 && c & (R | W) != W);
        if config_ok && self.address.iter().all(|a| a & !ADDRESS_WRITABLE == 0) {
            Ok(())
        } else {
            Err("pmp")
        }
    }
}

impl Pmp {
    /// All entries off.
    pub fn new() -> Pmp {
        Pmp::from_state(PmpState {
            config: [0; ENTRIES],
            address: [0; ENTRIES],
        })
    }

    /// From saved registers.
    pub fn from_state(state: PmpState) -> Pmp {
        let mut pmp = Pmp {
            state,
            active: Vec::new(),
        };
        pmp.derive();
        pmp
    }

    /// The registers.
    pub fn state(&self) -> &PmpState {
        &self.state
    }

    /// The entries that match anything: equal ones protect alike.
    pub fn active(&self) -> Vec<u64> {
        let words = |r: &Region| [r.first, r.last, r.config.into()];
        self.active.iter().flat_map(words).collect()
    }

    /// pmpcfg's eight entries from `first` on.
    pub fn config(&self, first: usize) -> u64 {
        self.state
            .config
            .iter()
            .skip(first)
            .take(8)
            .rev()
            .fold(0, |v, &c| v << 8 | c as u64)
    }

    /// Writes pmpcfg's eight entries from `first` on. Locked entries stay; W without R
    /// is reserved and loses W.
    pub fn write_config(&mut self, first: usize, value: u64) {
        for (entry, byte) in self.state.config.iter_mut().skip(first).zip(value.to_le_bytes()) {
            if *entry & L == 0 {
                let byte = byte & CONFIG_WRITABLE;
                *entry = if byte & R == 0 { byte & !W } else { byte };
            }
        }
        self.derive();
    }

    /// pmpaddr of entry `i`.
    pub fn address(&self, i: usize) -> u64 {
        self.state.address[i]
    }

    /// Writes pmpaddr of entry `i`. It stays if its entry is locked, or the next one
    /// is locked and takes it as its lower bound.
    pub fn write_address(&mut self, i: usize, value: u64) {
        let bounds_locked = self
            .state
            .config
            .get(i + 1)
            .is_some_and(|c| c & L != 0 && c & A == TOR);
        if self.state.config[i] & L == 0 && !bounds_locked {
            self.state.address[i] = value & ADDRESS_WRITABLE;
            self.derive();
        }
    }

    fn derive(&mut self) {
        self.active.clear();
        let mut below = 0;
        for (&config, &address) in self.state.config.iter().zip(&self.state.address) {
            let bounds = match config & A {
                0 => None,
                TOR if below < address => Some((below << 2, (address << 2) - 1)),
                TOR => None,
                NA4 => Some((address << 2, (address << 2) + 3)),
                _ => {
                    // k trailing ones: 2^(k+3) naturally aligned bytes.
                    let size = 8u64 << address.trailing_ones();
                    let base = (address << 2) & !(size - 1);
                    Some((base, base + (size - 1)))
                }
            };
            if let Some((first, last)) = bounds {
                self.active.push(Region { first, last, config });
            }
            below = address;
        }
    }

    fn unmatched(privilege: u8) -> Rights {
        if privilege == M { Rights::ALL } else { Rights::NONE }
    }

    /// The rights to `size` bytes from `addr` on, accessed at once.
    pub fn rights(&self, addr: u64, size: u64, privilege: u8) -> Rights {
        let last = addr.saturating_add(size.saturating_sub(1));
        match self.active.iter().find(|r| r.first <= last && addr <= r.last) {
            None => Pmp::unmatched(privilege),
            Some(r) if r.first <= addr && last <= r.last => r.rights(privilege),
            Some(_) => Rights::NONE,
        }
    }

    /// The rights to every access within the page of `addr` if no entry that matters is finer than the page.
    pub fn page_rights(&self, addr: u64, privilege: u8) -> Option<Rights> {
        let first = addr & !0xfff;
        let last = addr | 0xfff;
        match self.active.iter().find(|r| r.first <= last && first <= r.last) {
            None => Some(Pmp::unmatched(privilege)),
            Some(r) if r.first <= first && last <= r.last => Some(r.rights(privilege)),
            Some(_) => None,
        }
    }
}

impl Default for Pmp {
    fn default() -> Pmp {
        Pmp::new()
    }
}
