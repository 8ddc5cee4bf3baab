//! Pages of a snapshot that are copied while the guest runs on.
//!
//! Taking a snapshot makes all its pages `CLEAN`, so that the first store to each comes through
//! [`Memory`](crate::memory::Memory)'s one place. A page that *waits* to be copied is copied once, by who claims it first:
//!
//! ```text
//!              ┌─claim─▶ the thread behind copies ──▶ idle
//!   waits(N) ──┤                                       ▲
//!              └─claim─▶ the first store's thread copies, keeps it for N
//! ```
//!
//! The machine's thread writes a page only when it is idle: it claims one that waits, and waits for one that is being copied. So no
//! page is read by one thread while it is written by the other, and each copy is of the page as it was at
//! the snapshot. A page waits for at most one snapshot: to be in the next one it must be written first.
#![allow(unsafe_code)] // Pages are read from the mapping on another thread than the one that writes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use snapshot::{Behind, Edit, PageRef, Spares};

use crate::ram::{Mapping, PAGE, Ram};

/// Nothing is to be copied.
const IDLE: u32 = 0;
/// Somebody is copying it. The other bits are the snapshot's number.
const CLAIMED: u32 = 1;

/// What the machine's thread copied itself.
#[derive(Default)]
struct Kept(Mutex<Copies>);

/// By page; `None` if it is all zero.
type Copies = BTreeMap<u64, Option<Arc<PageRef>>>;

impl Kept {
    fn with<T>(&self, f: impl FnOnce(&mut Copies) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The machine's side.
pub(crate) struct Waiting {
    /// Of each page: idle, or the number of the snapshot that it waits for, or that and [`CLAIMED`].
    pages: Arc<[AtomicU32]>,
    /// The snapshots for which pages may wait, by number.
    snapshots: VecDeque<(u32, Arc<Kept>)>,
    number: u32,
    spares: Spares,
}

impl Waiting {
    /// Nothing waits.
    pub fn new(ram: &Ram, spares: Spares) -> Waiting {
        Waiting {
            pages: (0..ram.pages()).map(|_| AtomicU32::new(IDLE)).collect(),
            snapshots: VecDeque::new(),
            number: 0,
            spares,
        }
    }

    /// These pages wait from now on. They are `CLEAN`: [`Waiting::before_write`] is called before one is written.
    pub fn take(&mut self, ram: &Ram, pages: Vec<u32>) -> Copying {
        // Those that nobody will copy any more are let go.
        self.snapshots.retain(|(_, kept)| Arc::strong_count(kept) > 1);
        self.number = self.number.wrapping_add(2).max(2);
        let kept = Arc::new(Kept::default());
        self.snapshots.push_back((self.number, Arc::clone(&kept)));
        for &page in &pages {
            // Whoever hands the pages to the other thread orders this before its looks.
            let before = self.pages[page as usize].swap(self.number, Ordering::Relaxed);
            assert!(before == IDLE, "page {page} was written before it was copied");
        }
        Copying {
            mapping: Arc::clone(ram.mapping()),
            states: Arc::clone(&self.pages),
            number: self.number,
            pages,
            kept,
        }
    }

    /// A page that was `CLEAN` is about to be written.
    pub fn before_write(&self, ram: &Ram, page: u64) {
        let state = &self.pages[page as usize];
        let mut seen = state.load(Ordering::Acquire);
        loop {
            if seen == IDLE {
                return;
            }
            if seen & CLAIMED == 0 {
                let claim =
                    state.compare_exchange(seen, seen | CLAIMED, Ordering::Acquire, Ordering::Acquire);
                match claim {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            } else {
                // It takes less than a microsecond, unless the other thread was put off in the middle.
                for _ in 0..1000 {
                    std::hint::spin_loop();
                    if state.load(Ordering::Relaxed) == IDLE {
                        break;
                    }
                }
                seen = state.load(Ordering::Acquire);
                if seen != IDLE {
                    std::thread::yield_now();
                }
            }
        }
        // If nobody collects copies for that snapshot any more, none is needed.
        if let Some((_, kept)) = self.snapshots.iter().find(|(number, _)| *number == seen) {
            let copy = PageRef::filled(self.spares.one(), |bytes| ram.copy_page(page, bytes));
            kept.with(|copies| copies.insert(page, copy));
        }
        state.store(IDLE, Ordering::Release);
    }
}

/// The pages of a snapshot, for the thread behind.
pub(crate) struct Copying {
    mapping: Arc<Mapping>,
    states: Arc<[AtomicU32]>,
    number: u32,
    pages: Vec<u32>,
    kept: Arc<Kept>,
}

impl Behind for Copying {
    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn copy(
        mut self: Box<Self>,
        spares: &Spares,
        each: &mut dyn FnMut(Edit) -> snapshot::Result<()>,
    ) -> snapshot::Result<()> {
        self.pages.sort_unstable();
        for &page in &self.pages {
            let state = &self.states[page as usize];
            let (waits, begun) = (self.number, self.number | CLAIMED);
            let mut claimed = false;
            let copy = PageRef::filled(spares.one(), |bytes| {
                claimed = state
                    .compare_exchange(waits, begun, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
                if claimed {
                    read(&self.mapping, page, bytes);
                    state.store(IDLE, Ordering::Release);
                }
            });
            if claimed {
                each((page.into(), copy))?;
                continue;
            }
            // The machine's thread has begun to copy it, or has done so.
            while state.load(Ordering::Acquire) == begun {
                std::thread::yield_now();
            }
            let kept = self.kept.with(|copies| copies.remove(&page.into()));
            each((
                page.into(),
                kept.expect("the machine's thread has claimed it, and keeps its copy"),
            ))?;
        }
        Ok(())
    }
}

/// Reads a page that this thread has claimed.
fn read(mapping: &Mapping, page: u32, out: &mut [u8; PAGE as usize]) {
    // SAFETY: the claim was made with the page waiting, so it is `CLEAN`: no TLB entry grants writing it, and every other
    // write comes through `Waiting::before_write`, which returns only once the state is idle again. That is stored after this, with
    // release, and loaded there with acquire. What was written before the snapshot happened before the pages were handed
    // to this thread.
    unsafe { mapping.copy_page(page.into(), out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::ram::Region;

    const PAGES: u64 = 96;

    fn memory() -> Memory {
        Memory::new(Ram::new(&[Region::ram(0, PAGES * PAGE)]).unwrap())
    }

    fn copied(copying: Copying) -> Vec<Edit> {
        let mut all = Vec::new();
        let each = &mut |edit| {
            all.push(edit);
            Ok(())
        };
        Box::new(copying).copy(&Spares::default(), each).unwrap();
        all
    }

    /// The word that fills a page, which must be the same everywhere in it.
    fn word(edit: &Edit) -> u64 {
        let Some(page) = &edit.1 else { return 0 };
        let words: Vec<u64> = page.bytes().unwrap()[..]
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert!(words.iter().all(|w| *w == words[0]), "page {} is torn", edit.0);
        words[0]
    }

    #[test]
    fn pages_are_copied_as_they_were_whoever_copies_them() {
        let mut memory = memory();
        let spares = Spares::default();
        let (mut model, mut value) = ([0; PAGES as usize], 0u64);
        let mut write = |memory: &mut Memory, model: &mut [u64], page: u64| {
            // Zero now and then, which is no leaf.
            value += 1;
            model[page as usize] = if value.is_multiple_of(7) { 0 } else { value };
            let words = model[page as usize].to_le_bytes().repeat(512);
            memory.write_bytes(page * PAGE, &words);
        };
        let mut random = 1u64;
        for round in 0..400 {
            for _ in 0..40 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                write(&mut memory, &mut model, (random >> 33) % PAGES);
            }
            let mut dirty: Vec<u32> = memory.dirty().to_vec();
            dirty.sort_unstable();
            let copying = memory.take_behind(&spares);
            let then = model;
            let behind = std::thread::spawn(move || copied(copying));
            // The guest goes on, now upwards, now downwards, over what is being copied.
            for i in 0..PAGES {
                let page = if round % 2 == 0 { i } else { PAGES - 1 - i };
                write(&mut memory, &mut model, page);
            }
            let edits = behind.join().unwrap();
            assert!(edits.iter().map(|edit| edit.0 as u32).eq(dirty), "all, in order");
            for edit in &edits {
                assert_eq!(word(edit), then[edit.0 as usize], "page {}", edit.0);
            }
        }
    }

    #[test]
    fn a_page_may_be_kept_for_two_snapshots_at_once() {
        let (mut memory, spares) = (memory(), Spares::default());
        memory.write_bytes(0, &[1; PAGE as usize]);
        let first = memory.take_behind(&spares);
        memory.write_bytes(0, &[2; PAGE as usize]);
        let second = memory.take_behind(&spares);
        memory.write_bytes(0, &[3; PAGE as usize]);
        for (copying, byte) in [(first, 1), (second, 2)] {
            let edits = copied(copying);
            assert_eq!(edits.len(), 1);
            assert_eq!(word(&edits[0]), u64::from_le_bytes([byte; 8]));
        }
    }

    #[test]
    fn nothing_is_kept_for_a_snapshot_that_nobody_copies() {
        let (mut memory, spares) = (memory(), Spares::default());
        memory.write_bytes(0, &[1; 2 * PAGE as usize]);
        drop(memory.take_behind(&spares));
        memory.write_bytes(0, &[2; PAGE as usize]);
        let edits = copied(memory.take_behind(&spares));
        assert_eq!(edits.len(), 1, "the other page was not written");
        assert_eq!(word(&edits[0]), u64::from_le_bytes([2; 8]));
        memory.write_bytes(PAGE, &[3; PAGE as usize]);
        assert_eq!(copied(memory.take_behind(&spares)).len(), 1);
    }
}
