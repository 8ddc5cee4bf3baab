//! Pages and their names.
//!
//! A page is 4096 bytes of guest RAM or of the disk overlay; its id is the BLAKE3 hash of its bytes. An
//! all-zero page is never stored nor a leaf of a tree, so a [`PageRef`] of one can't be made: that
//! keeps trees canonical (equal contents, equal root).

use std::fmt;
use std::sync::{Arc, OnceLock};

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

/// The id of the all-zero page.
pub(crate) fn zero_page_id() -> PageId {
    static ID: OnceLock<PageId> = OnceLock::new();
    *ID.get_or_init(|| PageId::of(&ZERO_PAGE))
}
