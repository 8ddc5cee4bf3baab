//! Tree nodes: their shape, their encoding, and loading them from a store.
//!
//! A node covers an aligned range of keys and has a slot for each digit of the key at its `shift`. Chains of
//! single children don't exist: a node above the bottom has at least two children, and a child may lie
//! any number of levels below. So the tree for a set of keys has exactly one shape, and is only as deep as
//! the keys need.
//!
//! The encoding is canonical, and a node's hash is the BLAKE3 of it:
//!
//! ```text
//! u8 'N' | u8 shift | u64 base (LE) | u16 slots (LE) | 32 bytes for each slot that is set
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Result, SnapshotError};
use crate::page::{PageId, PageRef, Root};

/// Bits of a key: guest RAM page numbers and, above them, disk-overlay blocks.
pub const KEY_BITS: u32 = 44;

/// Bits of a digit. With 4, one changed page rewrites about 2 KiB of hashes in a tree of 2^18 pages; with 6 it
/// would be 6 KiB, and the disk pays for it at each snapshot.
pub(crate) const BITS: u32 = 4;
const FANOUT: usize = 1 << BITS;
const MAX_SHIFT: u32 = (KEY_BITS - 1) / BITS * BITS;
const TAG: u8 = b'N';
const HEAD: usize = 12;

/// The longest encoding of a node in bytes.
pub(crate) const MAX_NODE: usize = HEAD + FANOUT * 32;

/// Where encoded nodes come from: a store.
pub(crate) trait NodeSource: Send + Sync {
    /// The encoding of the node named `id`, checked against it.
    fn node(&self, id: PageId) -> Result<Arc<[u8]>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) base: u64,
    pub(crate) shift: u32,
}

impl Span {
    /// The smallest span of a node that covers both keys and is at least at `shift`.
    pub(crate) fn covering(low: u64, high: u64, shift: u32) -> Self {
        let differ = low ^ high;
        let need = if differ == 0 {
            0
        } else {
            (63 - differ.leading_zeros()) / BITS * BITS
        };
        let shift = need.max(shift);
        Self {
            base: low & !mask(shift),
            shift,
        }
    }

    pub(crate) fn contains(self, key: u64) -> bool {
        key & !mask(self.shift) == self.base
    }

    pub(crate) fn digit(self, key: u64) -> usize {
        (key >> self.shift) as usize & (FANOUT - 1)
    }

    /// The first key of a slot.
    fn slot_base(self, digit: usize) -> u64 {
        self.base | (digit as u64) << self.shift
    }
}

/// The key bits inside a node at `shift`.
fn mask(shift: u32) -> u64 {
    (1 << (shift + BITS)) - 1
}

pub(crate) enum Kids {
    Leaves(Vec<Arc<PageRef>>),
    Nodes(Vec<Arc<Node>>),
}

pub(crate) struct Body {
    pub(crate) span: Span,
    slots: u16,
    pub(crate) kids: Kids,
}

impl Body {
    /// A body from its children by ascending digit.
    pub(crate) fn leaves(span: Span, kids: Vec<(usize, Arc<PageRef>)>) -> Self {
        let slots = kids.iter().fold(0, |m, (d, _)| m | 1 << d);
        Self {
            span,
            slots,
            kids: Kids::Leaves(kids.into_iter().map(|(_, k)| k).collect()),
        }
    }

    pub(crate) fn nodes(span: Span, kids: Vec<(usize, Arc<Node>)>) -> Self {
        let slots = kids.iter().fold(0, |m, (d, _)| m | 1 << d);
        Self {
            span,
            slots,
            kids: Kids::Nodes(kids.into_iter().map(|(_, k)| k).collect()),
        }
    }

    /// The digits that have a child, ascending, in the order of the children.
    pub(crate) fn digits(&self) -> impl Iterator<Item = usize> + use<> {
        let slots = self.slots;
        (0..FANOUT).filter(move |d| slots & 1 << d != 0)
    }

    /// The index in the children of the child at `digit`.
    pub(crate) fn index(&self, digit: usize) -> Option<usize> {
        let bit = 1u16 << digit;
        (self.slots & bit != 0).then(|| (self.slots & (bit - 1)).count_ones() as usize)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_NODE);
        out.extend([TAG, self.span.shift as u8]);
        out.extend(self.span.base.to_le_bytes());
        out.extend(self.slots.to_le_bytes());
        match &self.kids {
            Kids::Leaves(kids) => kids.iter().for_each(|k| out.extend(k.id().0)),
            Kids::Nodes(kids) => kids.iter().for_each(|k| out.extend(k.hash().0)),
        }
        out
    }

    /// Decodes and checks a node. `within`: the slot of the parent that it must lie in.
    fn decode(id: Root, bytes: &[u8], within: Option<Span>, source: &Arc<dyn NodeSource>) -> Result<Self> {
        let bad = |what| SnapshotError::BadNode {
            id: PageId(id.0),
            what,
        };
        let Some((head, hashes)) = bytes.split_at_checked(HEAD) else {
            return Err(bad("it is too short"));
        };
        let (tag, shift) = (head[0], u32::from(head[1]));
        let mut base = [0; 8];
        base.copy_from_slice(&head[2..10]);
        let base = u64::from_le_bytes(base);
        let slots = u16::from_le_bytes([head[10], head[11]]);
        if tag != TAG {
            return Err(bad("it is not a node"));
        }
        if shift > MAX_SHIFT || shift % BITS != 0 || base >> KEY_BITS != 0 || base & mask(shift) != 0 {
            return Err(bad("its key range is impossible"));
        }
        if within.is_some_and(|w| shift >= w.shift || base >> w.shift != w.base >> w.shift) {
            return Err(bad("it lies outside its parent's slot"));
        }
        let count = slots.count_ones() as usize;
        if count < if shift == 0 { 1 } else { 2 } || hashes.len() != count * 32 {
            return Err(bad("its number of children is impossible"));
        }
        let span = Span { base, shift };
        let hashes = hashes.chunks_exact(32).map(|c| {
            let mut hash = [0; 32];
            hash.copy_from_slice(c);
            hash
        });
        let kids = if shift == 0 {
            let leaves =
                hashes.map(|h| PageRef::named(PageId(h)).ok_or_else(|| bad("it names the zero page")));
            Kids::Leaves(leaves.collect::<Result<_>>()?)
        } else {
            let digits = (0..FANOUT).filter(|d| slots & 1 << d != 0);
            let slot = |d| Span {
                base: span.slot_base(d),
                shift,
            };
            Kids::Nodes(
                hashes
                    .zip(digits)
                    .map(|(h, d)| Node::stored(Root(h), Some(slot(d)), source))
                    .collect(),
            )
        };
        Ok(Self { span, slots, kids })
    }
}

/// A node in memory, or known by its hash and loaded when first needed.
pub(crate) struct Node {
    hash: OnceLock<Root>,
    content: Content,
    /// Set once the recorder has handed it to its store.
    written: AtomicBool,
}

enum Content {
    Made(Body),
    Stored {
        body: OnceLock<Body>,
        within: Option<Span>,
        source: Arc<dyn NodeSource>,
    },
}

impl Node {
    pub(crate) fn made(body: Body) -> Arc<Self> {
        Arc::new(Self {
            hash: OnceLock::new(),
            content: Content::Made(body),
            written: AtomicBool::new(false),
        })
    }

    /// A node that is loaded when first needed. `within`: the slot that it hangs in (its first key, and its parent's shift).
    pub(crate) fn stored(hash: Root, within: Option<Span>, source: &Arc<dyn NodeSource>) -> Arc<Self> {
        let content = Content::Stored {
            body: OnceLock::new(),
            within,
            source: Arc::clone(source),
        };
        Arc::new(Self {
            hash: OnceLock::from(hash),
            content,
            written: AtomicBool::new(false),
        })
    }

    pub(crate) fn body(&self) -> Result<&Body> {
        match &self.content {
            Content::Made(body) => Ok(body),
            Content::Stored { body, within, source } => {
                if let Some(body) = body.get() {
                    return Ok(body);
                }
                let id = self.hash();
                let loaded = Body::decode(id, &source.node(PageId(id.0))?, *within, source)?;
                Ok(body.get_or_init(|| loaded))
            }
        }
    }

    /// The node's hash, hashing what isn't hashed yet below it. Never loads: a stored node's hash is known.
    pub(crate) fn hash(&self) -> Root {
        *self.hash.get_or_init(|| match &self.content {
            Content::Made(body) => Root(*blake3::hash(&body.encode()).as_bytes()),
            Content::Stored { .. } => Root([0; 32]),
        })
    }

    /// Whether both are known to be equal without hashing or loading.
    pub(crate) fn surely_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || matches!((self.hash.get(), other.hash.get()), (Some(a), Some(b)) if a == b)
    }

    /// Adds the ids of this node and of all nodes and pages below it; what is below a node that is known already is known too.
    pub(crate) fn mark(&self, known: &mut BTreeSet<PageId>) -> Result<()> {
        if !known.insert(PageId(self.hash().0)) {
            return Ok(());
        }
        match &self.body()?.kids {
            Kids::Leaves(kids) => known.extend(kids.iter().map(|kid| kid.id())),
            Kids::Nodes(kids) => kids.iter().try_for_each(|kid| kid.mark(known))?,
        }
        Ok(())
    }

    /// How many pages hang below it; `counted` knows that of nodes seen before.
    pub(crate) fn count(&self, counted: &mut BTreeMap<Root, u64>) -> Result<u64> {
        if let Some(count) = counted.get(&self.hash()) {
            return Ok(*count);
        }
        let count = match &self.body()?.kids {
            Kids::Leaves(kids) => kids.len() as u64,
            Kids::Nodes(kids) => {
                let mut sum = 0;
                for kid in kids {
                    sum += kid.count(counted)?;
                }
                sum
            }
        };
        counted.insert(self.hash(), count);
        Ok(count)
    }

    /// Hands each node below (and this one) that was made and not handed out before to `emit`, children first.
    pub(crate) fn unwritten(&self, emit: &mut dyn FnMut(PageId, Vec<u8>)) {
        let Content::Made(body) = &self.content else {
            return;
        };
        if self.written.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Kids::Nodes(kids) = &body.kids {
            kids.iter().for_each(|k| k.unwritten(emit));
        }
        emit(PageId(self.hash().0), body.encode());
    }
}
