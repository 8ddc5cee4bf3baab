//! The persistent tree of a machine's pages.
//!
//! A `Tree` maps page keys (guest RAM pages and, in a higher range, disk-overlay blocks) to pages. A clone is
//! one reference count; a change copies the path to it and shares the rest. Nothing is hashed until
//! somebody asks for the root, so snapshots in memory cost no hashing.
//!
//! Rules: an all-zero page is no leaf; the shape depends on the set of keys alone (see `node`); hence
//! equal contents have equal roots, however they were built. Trees opened from a store load their nodes when
//! first needed, so reading from one can fail; trees made in memory never do.

use std::sync::Arc;

use crate::error::{Result, SnapshotError};
use crate::node::{Body, KEY_BITS, Kids, Node, NodeSource, Span};
use crate::page::{PageId, PageRef, Root};

/// A change to a tree: the key and its new page, `None` for all zero.
pub type Edit = (u64, Option<Arc<PageRef>>);

/// A persistent map from page keys below 2^44 to pages.
#[derive(Clone, Default)]
pub struct Tree(Option<Arc<Node>>);

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Tree(..)"
        } else {
            "Tree(empty)"
        })
    }
}

impl Tree {
    /// The tree of an all-zero machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tree named `root`, whose nodes are loaded from `source` when first needed.
    pub(crate) fn stored(root: Root, source: &Arc<dyn NodeSource>) -> Self {
        Self((root != Self::empty_root()).then(|| Node::stored(root, None, source)))
    }

    pub(crate) fn top(&self) -> Option<&Arc<Node>> {
        self.0.as_ref()
    }

    /// Whether every page is zero.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The hash of the whole contents, hashing what isn't hashed yet.
    pub fn root(&self) -> Root {
        self.0.as_ref().map_or_else(Self::empty_root, |n| n.hash())
    }

    /// Whether both are known to be equal without hashing; `false` says nothing.
    pub fn surely_same(&self, other: &Self) -> bool {
        same(self.0.as_ref(), other.0.as_ref())
    }

    /// The page at `key`; `None` if it is all zero.
    pub fn get(&self, key: u64) -> Result<Option<&Arc<PageRef>>> {
        let mut node = self.0.as_ref();
        while let Some(n) = node {
            let body = n.body()?;
            if !body.span.contains(key) {
                return Ok(None);
            }
            let Some(i) = body.index(body.span.digit(key)) else {
                return Ok(None);
            };
            match &body.kids {
                Kids::Leaves(kids) => return Ok(Some(&kids[i])),
                Kids::Nodes(kids) => node = Some(&kids[i]),
            }
        }
        Ok(None)
    }

    /// Puts `page` at `key`, `None` for all zero.
    pub fn set(&mut self, key: u64, page: Option<Arc<PageRef>>) -> Result<()> {
        self.extend(&[(key, page)])
    }

    /// Applies changes that are sorted by key; each node on the way is copied once. The last of equal keys wins.
    /// On an error the tree is as it was.
    pub fn extend(&mut self, edits: &[Edit]) -> Result<()> {
        debug_assert!(edits.is_sorted_by_key(|e| e.0));
        if let Some(&(key, _)) = edits.last().filter(|e| e.0 >> KEY_BITS != 0) {
            return Err(SnapshotError::KeyRange { key });
        }
        self.0 = merge(self.0.as_ref(), edits)?;
        Ok(())
    }

    /// Visits every page in ascending order of keys.
    pub fn for_each<E: From<SnapshotError>>(
        &self,
        mut visit: impl FnMut(u64, &Arc<PageRef>) -> Result<(), E>,
    ) -> Result<(), E> {
        all(self.0.as_ref(), &mut visit)
    }

    /// Visits, in ascending order, the keys at which `self` and `other` may differ, with the page of each (`None`
    /// for all zero). The cost is proportional to the difference. Pages in memory that were not hashed may be
    /// equal all the same; keys that are left out surely are.
    pub fn diff<E: From<SnapshotError>>(
        &self,
        other: &Self,
        mut visit: impl FnMut(u64, Option<&Arc<PageRef>>, Option<&Arc<PageRef>>) -> Result<(), E>,
    ) -> Result<(), E> {
        diff(self.0.as_ref(), other.0.as_ref(), &mut visit)
    }

    /// Hands out, children first, each node that was made in memory and not handed out before.
    pub(crate) fn unwritten(&self, emit: &mut dyn FnMut(PageId, Vec<u8>)) {
        if let Some(n) = &self.0 {
            n.unwritten(emit);
        }
    }

    fn empty_root() -> Root {
        Root(*blake3::hash(b"").as_bytes())
    }
}

fn same(a: Option<&Arc<Node>>, b: Option<&Arc<Node>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.surely_same(b),
        _ => false,
    }
}

/// `node` with `edits` applied; the one function that shapes trees.
fn merge(node: Option<&Arc<Node>>, edits: &[Edit]) -> Result<Option<Arc<Node>>> {
    let (Some(first), Some(last)) = (edits.first(), edits.last()) else {
        return Ok(node.cloned());
    };
    let body = node.map(|n| n.body()).transpose()?;
    let span = match body {
        None => Span::covering(first.0, last.0, 0),
        Some(b) => Span::covering(first.0.min(b.span.base), last.0.max(b.span.base), b.span.shift),
    };
    // The old children by digit: the node's own if it stays at its level, else the node itself.
    let own = body.filter(|b| b.span == span);
    if span.shift == 0 {
        let mut kids: Vec<(usize, Arc<PageRef>)> = match own.map(|b| (b, &b.kids)) {
            Some((b, Kids::Leaves(old))) => b.digits().zip(old.iter().cloned()).collect(),
            _ => Vec::new(),
        };
        let mut changed = false;
        for (key, page) in edits {
            let digit = span.digit(*key);
            match (kids.binary_search_by_key(&digit, |k| k.0), page) {
                (Ok(i), Some(page)) if kids[i].1.surely_same(page) => continue,
                (Ok(i), Some(page)) => kids[i].1 = Arc::clone(page),
                (Err(i), Some(page)) => kids.insert(i, (digit, Arc::clone(page))),
                (Ok(i), None) => drop(kids.remove(i)),
                (Err(_), None) => continue,
            }
            changed = true;
        }
        return Ok(match (changed, kids.is_empty()) {
            (false, _) => node.cloned(),
            (true, true) => None,
            (true, false) => Some(Node::made(Body::leaves(span, kids))),
        });
    }
    let mut old: Vec<(usize, &Arc<Node>)> = match (own, body, node) {
        (Some(b), ..) => match &b.kids {
            Kids::Nodes(kids) => b.digits().zip(kids).collect(),
            Kids::Leaves(_) => Vec::new(),
        },
        (None, Some(b), Some(n)) => vec![(span.digit(b.span.base), n)],
        _ => Vec::new(),
    };
    old.reverse();
    let mut kids: Vec<(usize, Arc<Node>)> = Vec::new();
    let mut changed = own.is_none();
    for group in edits.chunk_by(|a, b| span.digit(a.0) == span.digit(b.0)) {
        let digit = span.digit(group[0].0);
        while let Some((d, n)) = old.pop_if(|o| o.0 < digit) {
            kids.push((d, Arc::clone(n)));
        }
        let before = old.pop_if(|o| o.0 == digit).map(|o| o.1);
        let after = merge(before, group)?;
        changed |= match (before, &after) {
            (Some(b), Some(a)) => !Arc::ptr_eq(b, a),
            (None, None) => false,
            _ => true,
        };
        kids.extend(after.map(|a| (digit, a)));
    }
    kids.extend(old.into_iter().rev().map(|(d, n)| (d, Arc::clone(n))));
    Ok(match kids.len() {
        _ if !changed => node.cloned(),
        0 => None,
        1 => kids.pop().map(|k| k.1),
        _ => Some(Node::made(Body::nodes(span, kids))),
    })
}

type Visit<'a, E> = dyn FnMut(u64, &Arc<PageRef>) -> Result<(), E> + 'a;

fn all<E: From<SnapshotError>>(node: Option<&Arc<Node>>, visit: &mut Visit<'_, E>) -> Result<(), E> {
    let Some(node) = node else { return Ok(()) };
    let body = node.body()?;
    match &body.kids {
        Kids::Leaves(kids) => body
            .digits()
            .zip(kids)
            .try_for_each(|(d, k)| visit(body.span.base | d as u64, k)),
        Kids::Nodes(kids) => kids.iter().try_for_each(|k| all(Some(k), visit)),
    }
}

type Differ<'a, E> = dyn FnMut(u64, Option<&Arc<PageRef>>, Option<&Arc<PageRef>>) -> Result<(), E> + 'a;

fn diff<E: From<SnapshotError>>(
    a: Option<&Arc<Node>>,
    b: Option<&Arc<Node>>,
    visit: &mut Differ<'_, E>,
) -> Result<(), E> {
    if same(a, b) {
        return Ok(());
    }
    let (Some(a), Some(b)) = (a, b) else {
        all(a, &mut |k, p| visit(k, Some(p), None))?;
        return all(b, &mut |k, p| visit(k, None, Some(p)));
    };
    let (x, y) = (a.body()?, b.body()?);
    let (s, t) = (x.span, y.span);
    // Two children by digit, where a node that lies inside a slot of the other stands for itself.
    let top = match (
        s == t,
        s.shift > t.shift && s.contains(t.base),
        t.shift > s.shift && t.contains(s.base),
    ) {
        (true, ..) | (_, true, _) => s,
        (.., true) => t,
        _ => {
            let (low, high) = if s.base < t.base {
                (true, false)
            } else {
                (false, true)
            };
            if low {
                all(Some(a), &mut |k, p| visit(k, Some(p), None))?;
            }
            all(Some(b), &mut |k, p| visit(k, None, Some(p)))?;
            if high {
                all(Some(a), &mut |k, p| visit(k, Some(p), None))?;
            }
            return Ok(());
        }
    };
    if let (Kids::Leaves(p), Kids::Leaves(q)) = (&x.kids, &y.kids) {
        for digit in 0..1 << crate::node::BITS {
            let (p, q) = (x.index(digit).map(|i| &p[i]), y.index(digit).map(|i| &q[i]));
            match (p, q) {
                (None, None) => {}
                (Some(p), Some(q)) if p.surely_same(q) => {}
                _ => visit(top.base | digit as u64, p, q)?,
            }
        }
        return Ok(());
    }
    for digit in 0..1 << crate::node::BITS {
        diff(child(a, x, top, digit), child(b, y, top, digit), visit)?;
    }
    Ok(())
}

/// What `node` has in slot `digit` of `top`, which is its own span or a larger one around it.
fn child<'a>(node: &'a Arc<Node>, body: &'a Body, top: Span, digit: usize) -> Option<&'a Arc<Node>> {
    if body.span != top {
        return (top.digit(body.span.base) == digit).then_some(node);
    }
    match &body.kids {
        Kids::Nodes(kids) => body.index(digit).map(|i| &kids[i]),
        Kids::Leaves(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::page::Page;

    fn page(n: u8) -> Option<Arc<PageRef>> {
        let mut page: Page = [0; 4096];
        page[usize::from(n) * 7] = n;
        PageRef::of(Arc::new(page))
    }

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![0..40u64, 0..5000u64, (1 << 40)..(1 << 40) + 300u64, 0..1u64 << 44]
    }

    fn contents() -> impl Strategy<Value = Vec<(u64, u8)>> {
        prop::collection::vec((key(), 0..4u8), 0..60)
    }

    fn model(edits: &[(u64, u8)]) -> BTreeMap<u64, u8> {
        let mut map = BTreeMap::new();
        for &(k, v) in edits {
            if v == 0 {
                map.remove(&k)
            } else {
                map.insert(k, v)
            };
        }
        map
    }

    fn one_by_one(edits: &[(u64, u8)]) -> Tree {
        let mut tree = Tree::new();
        for &(k, v) in edits {
            tree.set(k, page(v)).unwrap();
        }
        tree
    }

    fn at_once(map: &BTreeMap<u64, u8>) -> Tree {
        let mut tree = Tree::new();
        tree.extend(&map.iter().map(|(&k, &v)| (k, page(v))).collect::<Vec<_>>())
            .unwrap();
        tree
    }

    fn listed(tree: &Tree) -> BTreeMap<u64, PageId> {
        let mut out = BTreeMap::new();
        let mut last = None;
        tree.for_each(|k, p| {
            assert!(last < Some(k));
            last = Some(k);
            out.insert(k, p.id());
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
        out
    }

    proptest! {
        #[test]
        fn equal_contents_have_equal_roots(edits in contents(), batch in contents()) {
            let mut tree = one_by_one(&edits);
            let map = model(&edits);
            prop_assert_eq!(tree.root(), at_once(&map).root());
            prop_assert_eq!(&listed(&tree), &listed(&at_once(&map)));
            // A sorted batch over it, deletions included, and the way back.
            let before = tree.clone();
            let batch: BTreeMap<u64, u8> = batch.into_iter().collect();
            tree.extend(&batch.iter().map(|(&k, &v)| (k, page(v))).collect::<Vec<_>>()).unwrap();
            let all: Vec<_> = edits.iter().copied().chain(batch.clone()).collect();
            prop_assert_eq!(tree.root(), at_once(&model(&all)).root());
            for k in batch.keys() {
                tree.set(*k, before.get(*k).unwrap().cloned()).unwrap();
            }
            prop_assert_eq!(tree.root(), before.root());
        }

        #[test]
        fn get_is_a_map(edits in contents(), keys in prop::collection::vec(key(), 20)) {
            let (tree, map) = (one_by_one(&edits), model(&edits));
            for k in keys.into_iter().chain(edits.iter().map(|e| e.0)) {
                let id = tree.get(k).unwrap().map(|p| p.id());
                prop_assert_eq!(id, map.get(&k).and_then(|&v| page(v)).map(|p| p.id()));
            }
        }

        #[test]
        fn diff_finds_every_difference_in_order(a in contents(), b in contents(), hashed: bool) {
            let (x, y) = (one_by_one(&a), one_by_one(&b));
            if hashed {
                x.root();
                y.root();
            }
            let (a, b) = (model(&a), model(&b));
            let mut got = Vec::new();
            x.diff(&y, |k, p, q| {
                let id = |v: Option<&u8>| v.and_then(|&v| page(v)).map(|p| p.id());
                assert_eq!(p.map(|p| p.id()), id(a.get(&k)));
                assert_eq!(q.map(|p| p.id()), id(b.get(&k)));
                got.push(k);
                Ok::<_, SnapshotError>(())
            }).unwrap();
            prop_assert!(got.is_sorted_by(|p, q| p < q));
            let keys: std::collections::BTreeSet<u64> = a.keys().chain(b.keys()).copied().collect();
            for k in keys {
                let differs = a.get(&k) != b.get(&k);
                prop_assert!(!differs || got.contains(&k));
                prop_assert!(!hashed || differs == got.contains(&k));
            }
        }
    }

    #[test]
    fn diff_is_proportional() {
        let mut big = Tree::new();
        let edits: Vec<Edit> = (0..20_000).map(|k| (k, page(1 + (k % 3) as u8))).collect();
        big.extend(&edits).unwrap();
        let mut other = big.clone();
        other.set(777, page(9)).unwrap();
        other.set(1 << 43, page(9)).unwrap();
        let mut seen = Vec::new();
        big.diff(&other, |k, _, _| {
            seen.push(k);
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
        assert_eq!(seen, [777, 1 << 43]);
    }

    #[test]
    fn zero_pages_and_keys_out_of_range() {
        assert!(page(0).is_none());
        assert!(PageRef::named(crate::page::zero_page_id()).is_none());
        let mut tree = Tree::new();
        assert!(matches!(
            tree.set(1 << 44, page(1)),
            Err(SnapshotError::KeyRange { .. })
        ));
        tree.set((1 << 44) - 1, page(1)).unwrap();
        tree.set((1 << 44) - 1, None).unwrap();
        assert!(tree.is_empty());
        assert_eq!(tree.root(), Tree::new().root());
    }
}
