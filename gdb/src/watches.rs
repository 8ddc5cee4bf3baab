//! Watchpoints: translated when they are set, physical from then on.
//!
//! gdb takes them out at every stop and puts them in again before it resumes, maybe while another address space is
//! current. So a translation is kept until gdb lets the machine run without the watchpoint.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gdbstub::target::ext::breakpoints::WatchKind;
use machine::{Stop, Watch};

/// The most bytes of one watchpoint.
const LONGEST: u64 = 1 << 20;

/// Bytes that are contiguous in physical memory for sure.
const PAGE: u64 = 4096;

/// A watchpoint as gdb names it: address, length, 0 write, 1 read, 2 both.
type Key = (u64, u64, u8);

/// A physically contiguous part: where it begins for gdb, and for the machine.
#[derive(Clone, Copy, Debug)]
struct Part {
    addr: u64,
    watch: Watch,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inserted: Vec<Key>,
    known: BTreeMap<Key, Vec<Part>>,
}

/// A hit in gdb's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// An address within the watchpoint.
    pub addr: u64,
    /// The kind of watchpoint.
    pub kind: WatchKind,
}

fn code(kind: WatchKind) -> u8 {
    match kind {
        WatchKind::Write => 0,
        WatchKind::Read => 1,
        WatchKind::ReadWrite => 2,
    }
}

fn kind(code: u8) -> WatchKind {
    match code {
        0 => WatchKind::Write,
        1 => WatchKind::Read,
        _ => WatchKind::ReadWrite,
    }
}

/// The physical ranges of a virtual one, page by page; `None` if any part isn't mapped.
pub(crate) fn translate(
    addr: u64,
    len: u64,
    mut physical: impl FnMut(u64) -> Option<u64>,
) -> Option<Vec<(u64, u64, u64)>> {
    let end = addr.checked_add(len)?;
    if len == 0 || len > LONGEST {
        return None;
    }
    let mut parts = Vec::new();
    let mut at = addr;
    while at < end {
        let n = (PAGE - at % PAGE).min(end - at);
        parts.push((at, physical(at)?, n));
        at += n;
    }
    Some(parts)
}

impl Watches {
    /// Puts one in. `false`: part of it is no memory now.
    pub fn add(
        &mut self,
        addr: u64,
        len: u64,
        how: WatchKind,
        physical: impl FnMut(u64) -> Option<u64>,
    ) -> bool {
        let key = (addr, len, code(how));
        if let Entry::Vacant(entry) = self.known.entry(key) {
            let Some(parts) = translate(addr, len, physical) else {
                return false;
            };
            let (read, write) = (how != WatchKind::Write, how != WatchKind::Read);
            let watch = |(addr, pa, len)| Part {
                addr,
                watch: Watch {
                    addr: pa,
                    len,
                    read,
                    write,
                },
            };
            entry.insert(parts.into_iter().map(watch).collect());
        }
        self.inserted.push(key);
        true
    }

    /// Takes one out; its translation stays for now. `false`: it wasn't in.
    pub fn remove(&mut self, addr: u64, len: u64, how: WatchKind) -> bool {
        let key = (addr, len, code(how));
        let found = self.inserted.iter().position(|k| *k == key);
        found.map(|i| self.inserted.remove(i)).is_some()
    }

    /// The machine runs freely: those that aren't in were deleted.
    pub fn forget_deleted(&mut self) {
        self.known.retain(|key, _| self.inserted.contains(key));
    }

    fn parts(&self) -> impl Iterator<Item = (Key, Part)> + '_ {
        self.inserted.iter().flat_map(|key| {
            let parts = self.known.get(key).into_iter().flatten();
            parts.map(move |part| (*key, *part))
        })
    }

    /// The conditions of those that are in.
    pub fn conditions(&self) -> Vec<Watch> {
        self.parts().map(|(_, part)| part.watch).collect()
    }

    /// Which one a hit of [`Watches::conditions`] is.
    pub fn hit(&self, stop: Stop) -> Option<Hit> {
        let Stop::Watch { index, addr, .. } = stop else {
            return None;
        };
        let ((_, _, code), part) = self.parts().nth(index)?;
        // An access that begins before the watchpoint is reported at the watchpoint's first byte.
        let offset = addr
            .saturating_sub(part.watch.addr)
            .min(part.watch.len.saturating_sub(1));
        Some(Hit {
            addr: part.addr + offset,
            kind: kind(code),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchpoint_is_translated_once_and_cut_at_pages() {
        let mut watches = Watches::default();
        let there = |va: u64| {
            Some(if va < 0x2000 {
                va + 0x8000_0000
            } else {
                va + 0x9000_0000
            })
        };
        assert!(watches.add(0x1ffc, 8, WatchKind::ReadWrite, there));
        let conditions = watches.conditions();
        assert_eq!((conditions[0].addr, conditions[0].len), (0x8000_1ffc, 4));
        assert_eq!((conditions[1].addr, conditions[1].len), (0x9000_2000, 4));
        // Taken out and put in again, in an address space without it.
        assert!(watches.remove(0x1ffc, 8, WatchKind::ReadWrite));
        assert!(watches.conditions().is_empty());
        assert!(watches.add(0x1ffc, 8, WatchKind::ReadWrite, |_| None));
        assert_eq!(watches.conditions(), conditions);
        watches.forget_deleted();
        assert!(watches.remove(0x1ffc, 8, WatchKind::ReadWrite));
        watches.forget_deleted();
        assert!(!watches.add(0x1ffc, 8, WatchKind::ReadWrite, |_| None));
        assert!(!watches.remove(0x1ffc, 8, WatchKind::ReadWrite));
    }

    #[test]
    fn a_hit_is_named_as_gdb_set_it() {
        let mut watches = Watches::default();
        assert!(watches.add(0x1000, 4, WatchKind::Read, |va| Some(va + 0x100)));
        assert!(watches.add(0x1ffc, 8, WatchKind::Write, |va| Some(va + 0x100)));
        let stop = |index, addr| Stop::Watch {
            index,
            addr,
            len: 8,
            write: true,
            hart: 0,
        };
        let hit = |i, addr| watches.hit(stop(i, addr)).map(|h| (h.addr, h.kind));
        assert_eq!(hit(0, 0x1101), Some((0x1001, WatchKind::Read)));
        assert_eq!(hit(1, 0x20f8), Some((0x1ffc, WatchKind::Write)));
        assert_eq!(hit(2, 0x2102), Some((0x2002, WatchKind::Write)));
        assert_eq!(hit(3, 0), None);
    }

    #[test]
    fn ranges_that_are_none() {
        for (addr, len) in [(0, 0), (u64::MAX, 2), (0, LONGEST + 1)] {
            assert!(translate(addr, len, Some).is_none());
        }
    }
}
