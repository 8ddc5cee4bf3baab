//! What is decided about a block before code is made: which results are computed right into a home, and
//! which accesses share a TLB check.
//!
//! *Hints.* A result may go straight into the home of the slot that its instruction sets with it if
//! between its op and the `Set` nothing can trap, read or set the slot. The allocator still declines if the
//! home's old value is needed after the op.
//!
//! *Groups.* Accesses off one base value, or off it and a constant (stacks, loops that were unrolled), near each other,
//! with no helper in between, make a group: the first one checks the TLB for the range of all, and what it finds serves
//! the others (`gen/memory.rs`).

use cpu::ir::{Bin, Block, Fmt, Op, Val, Width};

use crate::passes::Uses;

/// No home, no group.
pub const NONE: u8 = 0xff;

/// Bytes that the accesses of a group may span.
const SPAN: i64 = 512;

/// Accesses that share a check.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The value that all their bases are, but for constants; and the first one's.
    root: Val,
    delta: i64,
    /// Lowest byte, and one past the highest, from the first one's base.
    pub low: i64,
    pub high: i64,
    pub reads: bool,
    pub writes: bool,
    pub first: u16,
    pub last: u16,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Plan {
    /// Per op: number of the home to compute into.
    pub hint: Vec<u8>,
    /// Per op: number of its group.
    pub group: Vec<u8>,
    pub groups: Vec<Group>,
    /// Per op: the value that it is but for a constant, and that.
    roots: Vec<(Val, i64)>,
}

impl Plan {
    /// Makes the hints. `home_of` gives the home of a slot.
    pub fn hint(&mut self, block: &Block, ops: &[Op], uses: &Uses, home_of: &[u8]) {
        for i in 0..block.insns.len() {
            let range = block.ops_of(i);
            for set in range.start..range.end.min(ops.len()) {
                let Op::Set(slot, v) = ops[set] else { continue };
                let home = home_of[usize::from(slot.0)];
                if home == NONE {
                    continue;
                }
                let clear = |from: usize| {
                    ops[from + 1..set].iter().all(|op| {
                        !op.can_trap()
                            && !matches!(op, Op::Set(s, _) | Op::SetF(s, _) | Op::Get(s) | Op::GetF(s) if *s == slot)
                    })
                };
                let mut at = usize::from(v.0);
                while at >= range.start && self.hint[at] == NONE && clear(at) {
                    self.hint[at] = home;
                    // What only feeds this result may go there too.
                    let feeder = match ops[at] {
                        Op::Un(_, w) | Op::Bin(_, _, w, _) => usize::from(w.0),
                        _ => break,
                    };
                    if uses.count[feeder] != 1 || !matches!(ops[feeder], Op::Un(..) | Op::Bin(..)) {
                        break;
                    }
                    at = feeder;
                }
            }
        }
    }

    /// Makes the groups.
    pub fn share(&mut self, ops: &[Op]) {
        let mut open: Vec<usize> = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let root = self.root(ops, at);
            self.roots.push(root);
            let (base, offset, bytes, writes) = match *op {
                Op::Load {
                    size, addr, offset, ..
                } => (addr, offset, size.bytes(), false),
                Op::Store {
                    size, addr, offset, ..
                } => (addr, offset, size.bytes(), true),
                Op::LoadF { fmt, addr, offset } => (addr, offset, bytes_of(fmt), false),
                Op::StoreF {
                    fmt, addr, offset, ..
                } => (addr, offset, bytes_of(fmt), true),
                Op::LoadV { addr, offset } => (addr, offset, 16, false),
                Op::StoreV { addr, offset, .. } => (addr, offset, 16, true),
                Op::Check {
                    len,
                    write,
                    addr,
                    offset,
                } => (addr, offset, len.into(), write),
                // After a helper every host address is void.
                Op::Call { .. } => {
                    open.clear();
                    continue;
                }
                _ => continue,
            };
            let (low, high) = (i64::from(offset), i64::from(offset) + bytes as i64);
            let (root, delta) = self.roots[usize::from(base.0)];
            if let Some(&g) = open.iter().find(|g| self.groups[**g].root == root) {
                let group = &mut self.groups[g];
                let moved = delta - group.delta;
                let (l, h) = (group.low.min(low + moved), group.high.max(high + moved));
                // The first one's code has them as displacements.
                if h - l <= SPAN && i32::try_from(l).is_ok() && i32::try_from(h).is_ok() {
                    (group.low, group.high, group.last) = (l, h, at as u16);
                    group.reads |= !writes;
                    group.writes |= writes;
                    self.group[at] = g as u8;
                    continue;
                }
                open.retain(|o| *o != g);
            }
            if self.groups.len() < usize::from(NONE) {
                self.group[at] = self.groups.len() as u8;
                open.push(self.groups.len());
                let at = at as u16;
                self.groups.push(Group {
                    root,
                    delta,
                    low,
                    high,
                    reads: !writes,
                    writes,
                    first: at,
                    last: at,
                });
            }
        }
        for g in &mut self.group {
            if *g != NONE && self.groups[usize::from(*g)].first == self.groups[usize::from(*g)].last {
                *g = NONE;
            }
        }
    }

    /// What the value of an op is but for a constant.
    fn root(&self, ops: &[Op], at: usize) -> (Val, i64) {
        let own = (Val(at as u16), 0);
        let constant = |v: Val| match ops[usize::from(v.0)] {
            Op::Const(c) => Some(c as i64),
            _ => None,
        };
        let (of, by) = match ops[at] {
            Op::Bin(Bin::Add, Width::W64, a, b) => match (constant(a), constant(b)) {
                (_, Some(c)) => (a, Some(c)),
                (Some(c), _) => (b, Some(c)),
                (None, None) => return own,
            },
            Op::Bin(Bin::Sub, Width::W64, a, b) => (a, constant(b).and_then(i64::checked_neg)),
            _ => return own,
        };
        let (root, delta) = self.roots[usize::from(of.0)];
        match by.and_then(|by| delta.checked_add(by)) {
            Some(delta) if i32::try_from(delta).is_ok() => (root, delta),
            _ => own,
        }
    }

    /// Forgets the last block.
    pub fn clear(&mut self, ops: usize) {
        self.hint.clear();
        self.hint.resize(ops, NONE);
        self.group.clear();
        self.group.resize(ops, NONE);
        self.groups.clear();
        self.roots.clear();
    }
}

/// Bytes of a format in memory.
pub const fn bytes_of(fmt: Fmt) -> u64 {
    match fmt {
        Fmt::F32 => 4,
        Fmt::F64 => 8,
    }
}
