//! The ROM shadow: a stretch of physical addresses where reads, and apart from them writes, are RAM's, or those of what stands
//! there besides: a ROM that appears there too, or a bus (Intel 290549, 3.2.18: PAM).
//!
//! ```text
//!   reads   writes   what an access finds
//!   RAM     RAM      RAM, like any other
//!   RAM     not      RAM that can't be written: what is cached grants no writes, and a write finds the ROM or the bus
//!   not     RAM      the ROM or the bus; writes find RAM, and are never cached, since reads must not be
//!   not     not      the ROM or the bus
//! ```
//!
//! Firmware starts in the ROM, copies it into the RAM beneath by reads and writes of the same addresses, and locks it.

use cpu::{Access, Translation};
use devices::Shadow;

/// Where a board has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// First address.
    pub base: u64,
    /// Bytes of a granule, whole pages.
    pub granule: u64,
    /// First address at which a ROM appears; below it there is a bus.
    pub rom: u64,
    /// From an address of the shadow to the same byte of the ROM.
    pub to_rom: u64,
    /// What is there at power-on.
    pub at_first: Shadow,
}

/// Granules of a shadow.
pub(crate) const GRANULES: usize = 16;

/// What a shadow is now.
pub(crate) type Granules = [Shadow; GRANULES];

/// Where an access finds what it is looking for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// At this address, as memory.
    Memory(u64),
    /// On the bus.
    Bus,
}

/// A board's shadow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    place: Place,
    granules: Granules,
}

impl Map {
    pub fn new(place: Place) -> Map {
        Map {
            place,
            granules: [place.at_first; GRANULES],
        }
    }

    pub fn granules(&self) -> Granules {
        self.granules
    }

    /// Replaces what it is; whether that is something else.
    pub fn set_granules(&mut self, granules: Granules) -> bool {
        let changes = self.granules != granules;
        self.granules = granules;
        changes
    }

    /// The same with `rights` from `addr` on.
    pub fn with(&self, addr: u64, len: u64, rights: Shadow) -> Granules {
        let Place { base, granule, .. } = self.place;
        let mut granules = self.granules;
        for (i, granule_rights) in (0u64..).zip(&mut granules) {
            if (addr..addr.saturating_add(len)).contains(&(base + i * granule)) {
                *granule_rights = rights;
            }
        }
        granules
    }

    fn rights(&self, addr: u64) -> Option<Shadow> {
        let granule = addr.wrapping_sub(self.place.base) / self.place.granule;
        self.granules.get(usize::try_from(granule).ok()?).copied()
    }

    /// Whether an address is in it.
    pub fn covers(&self, addr: u64) -> bool {
        self.rights(addr).is_some()
    }

    /// Where an access to `addr` leads.
    pub fn find(&self, addr: u64, write: bool) -> Found {
        match self.rights(addr) {
            Some(Shadow { read, .. }) if !write && !read => self.beneath(addr),
            Some(Shadow { write: false, .. }) if write => self.beneath(addr),
            _ => Found::Memory(addr),
        }
    }

    fn beneath(&self, addr: u64) -> Found {
        if addr >= self.place.rom {
            Found::Memory(addr.wrapping_add(self.place.to_rom))
        } else {
            Found::Bus
        }
    }

    /// The translation with the address where the access leads, and what may be cached of it; `None`: the bus.
    pub fn apply(&self, found: Translation, access: Access) -> Option<Translation> {
        let Some(rights) = self.rights(found.addr) else {
            return Some(found);
        };
        let write = access == Access::Write;
        let Found::Memory(addr) = self.find(found.addr, write) else {
            return None;
        };
        Some(Translation {
            addr,
            write: found.write && rights.write && rights.read,
            cacheable: found.cacheable && (!write || rights.write && rights.read),
            ..found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_find_what_the_table_says() {
        let mut map = Map::new(Place {
            base: 0xc_0000,
            granule: 0x4000,
            rom: 0xe_0000,
            to_rom: 0xfff0_0000,
            at_first: Shadow::default(),
        });
        let both = |map: &Map, addr| [false, true].map(|write| map.find(addr, write));
        let rom = Found::Memory(0xffff_1234);
        let ram = Found::Memory(0xf_1234);
        assert_eq!(both(&map, 0xf_1234), [rom, rom]);
        assert_eq!(both(&map, 0xd_1234), [Found::Bus, Found::Bus]);
        for addr in [0xb_ffff, 0x10_0000, 0xffff_1234] {
            assert_eq!(both(&map, addr), [Found::Memory(addr); 2]);
        }
        for (read, write) in [(true, false), (false, true), (true, true)] {
            let granules = map.with(0xf_0000, 0x1_0000, Shadow { read, write });
            assert!(map.set_granules(granules) && !map.set_granules(granules));
            let expected = [read, write].map(|is_ram| if is_ram { ram } else { rom });
            assert_eq!(both(&map, 0xf_1234), expected);
            assert_eq!(both(&map, 0xe_ffff)[0], Found::Memory(0xfffe_ffff));
        }
    }
}
