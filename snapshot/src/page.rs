//! Pages and their names.
//!
//! A page is 4096 bytes of guest RAM or of the disk overlay; its id is the BLAKE3 hash of its bytes. An
//! all-zero page is never stored nor a leaf of a tree, so a [`PageRef`] of one can't be made: that
//! keeps trees canonical (equal contents, equal root).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;

/// The bytes of one page.
pub type Page = [u8; PAGE_SIZE];

/// The all-zero page, which is never a leaf.
pub static ZERO_PAGE: Page = [0; PAGE_SIZE];

/// The BLAKE3 hash of a page's bytes (or of a tree node's encoding): its name in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageId(pub [u8; 32]);

/// The hash that names a whole tree, or a whole machine state. Equal roots mean equal contents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Root(pub [u8; 32]);

fn hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl PageId {
    /// The id of `page`.
    pub fn of(page: &Page) -> Self {
        Self(*blake3::hash(page).as_bytes())
    }
}

/// The root of a whole machine: the tree of its pages and the serialised state of everything else.
pub fn whole_root(tree: Root, state: &[u8]) -> Root {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&tree.0);
    hasher.update(state);
    Root(*hasher.finalize().as_bytes())
}

/// Where pages that aren't in memory come from: a store.
pub trait PageSource {
    /// The bytes of the page named `id`, checked against it.
    fn page(&self, id: PageId) -> Result<Arc<Page>>;

    /// The same of many, in the order asked for.
    fn pages(&self, ids: &[PageId]) -> Result<Vec<Arc<Page>>>;
}

/// A leaf of a tree: a page that is in memory (and hashed when first asked) or named by its id alone.
/// Never the all-zero page.
#[derive(Debug)]
pub struct PageRef(Held);

#[derive(Debug)]
enum Held {
    Bytes { bytes: Arc<Page>, id: OnceLock<PageId> },
    Named(PageId),
}

impl PageRef {
    /// A leaf for `page`; `None` if it is all zero. Doesn't hash.
    pub fn of(page: Arc<Page>) -> Option<Arc<Self>> {
        (*page != ZERO_PAGE).then(|| {
            Arc::new(Self(Held::Bytes {
                bytes: page,
                id: OnceLock::new(),
            }))
        })
    }

    /// A leaf for what `fill` puts into `spare`, or into fresh memory; `None` if that is all zero. Doesn't hash.
    pub fn filled(spare: Option<Arc<Page>>, fill: impl FnOnce(&mut Page)) -> Option<Arc<Self>> {
        let mut page = spare.unwrap_or_else(|| Arc::new(ZERO_PAGE));
        // Nobody else has it; if somebody had, this copies.
        fill(Arc::make_mut(&mut page));
        Self::of(page)
    }

    /// A leaf for a page that is in a store; `None` if the id is the all-zero page's.
    pub fn named(id: PageId) -> Option<Arc<Self>> {
        (id != zero_page_id()).then(|| Arc::new(Self(Held::Named(id))))
    }

    /// The page's id, hashing it if that wasn't done yet.
    pub fn id(&self) -> PageId {
        match &self.0 {
            Held::Bytes { bytes, id } => *id.get_or_init(|| PageId::of(bytes)),
            Held::Named(id) => *id,
        }
    }

    /// The page's id if it is known without hashing.
    pub fn known_id(&self) -> Option<PageId> {
        match &self.0 {
            Held::Bytes { id, .. } => id.get().copied(),
            Held::Named(id) => Some(*id),
        }
    }

    /// The page's bytes if they are in memory.
    pub fn bytes(&self) -> Option<&Arc<Page>> {
        match &self.0 {
            Held::Bytes { bytes, .. } => Some(bytes),
            Held::Named(_) => None,
        }
    }

    /// The page's bytes, from memory or else from `source`.
    pub fn load(&self, source: &dyn PageSource) -> Result<Arc<Page>> {
        match &self.0 {
            Held::Bytes { bytes, .. } => Ok(Arc::clone(bytes)),
            Held::Named(id) => source.page(*id),
        }
    }

    /// The page's bytes, if they are in memory and nobody else has this leaf.
    pub(crate) fn into_bytes(this: Arc<Self>) -> Option<Arc<Page>> {
        match Arc::into_inner(this)?.0 {
            Held::Bytes { bytes, .. } => Some(bytes),
            Held::Named(_) => None,
        }
    }

    /// Whether both are known to be the same page without hashing; `false` says nothing.
    pub fn surely_same(&self, other: &Self) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        if let (Some(a), Some(b)) = (self.bytes(), other.bytes())
            && Arc::ptr_eq(a, b)
        {
            return true;
        }
        matches!((self.known_id(), other.known_id()), (Some(a), Some(b)) if a == b)
    }
}

/// Pages of memory that can hold the next snapshot's: those whose contents were written or hashed, and some that a thread
/// behind has touched. Fresh memory would cost the guest's thread a page fault for each. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Spares(Arc<Mutex<Stock>>);

#[derive(Debug, Default)]
struct Stock {
    pages: Vec<Arc<Page>>,
    /// The most that are kept: what snapshots lately took, and no less than are kept ready.
    most: usize,
    least: usize,
}

impl Spares {
    /// Takes up to `count` pages, with any contents; what is kept from now on follows the counts asked for.
    pub fn take(&self, count: usize) -> Vec<Arc<Page>> {
        let mut stock = self.lock();
        stock.most = count.max(stock.most - stock.most / 4).max(stock.least);
        let left = stock.pages.len().saturating_sub(count);
        let taken = stock.pages.split_off(left);
        let most = stock.most;
        stock.pages.truncate(most);
        taken
    }

    /// Takes one page, if there is one, beside what snapshots take.
    pub fn one(&self) -> Option<Arc<Page>> {
        self.lock().pages.pop()
    }

    /// Makes sure of `least` pages; for a thread that may take its time.
    pub(crate) fn stock(&self, least: usize) {
        let missing = {
            let mut stock = self.lock();
            stock.least = least;
            stock.most = stock.most.max(least);
            least.saturating_sub(stock.pages.len())
        };
        // Any byte but zero, so that the memory is really there.
        self.give((0..missing).map(|_| Arc::new([1; PAGE_SIZE])));
    }

    /// Gives pages back; those that somebody else has too are let go, and so is what is too much.
    pub(crate) fn give(&self, pages: impl IntoIterator<Item = Arc<Page>>) {
        let mut pages: Vec<_> = pages.into_iter().collect();
        pages.retain_mut(|page| Arc::get_mut(page).is_some());
        let mut stock = self.lock();
        let room = stock.most.saturating_sub(stock.pages.len());
        stock.pages.extend(pages.into_iter().take(room));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of the all-zero page.
pub(crate) fn zero_page_id() -> PageId {
    static ID: OnceLock<PageId> = OnceLock::new();
    *ID.get_or_init(|| PageId::of(&ZERO_PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_page_is_nobody_else_s() {
        let spares = Spares::default();
        assert!(spares.take(3).is_empty());
        let shared = Arc::new([1; PAGE_SIZE]);
        spares.give([
            Arc::clone(&shared),
            Arc::new([2; PAGE_SIZE]),
            Arc::new([3; PAGE_SIZE]),
        ]);
        let taken = spares.take(3);
        assert_eq!(taken.len(), 2, "the shared one is not among them");
        // No more is kept than was asked for of late.
        spares.give((0..100).map(|_| Arc::new([4; PAGE_SIZE])));
        assert_eq!(spares.take(1000).len(), 3);
    }

    #[test]
    fn a_filled_page_has_nothing_of_what_was_in_its_memory() {
        let spare = Some(Arc::new([7; PAGE_SIZE]));
        let page = PageRef::filled(spare, |bytes| *bytes = [9; PAGE_SIZE]).unwrap();
        assert_eq!(page.id(), PageId::of(&[9; PAGE_SIZE]));
        let spare = Some(Arc::new([7; PAGE_SIZE]));
        assert!(PageRef::filled(spare, |bytes| *bytes = ZERO_PAGE).is_none());
    }
}
