//! Backward: which values are used and for how long; which `Set`s nothing can see, because the slot is
//! set again before the block can be left; and which only exits can see, so that they may do them.

use cpu::ir::{Bin, Op, Un, Val};

/// Whether a block can be left at a boundary of two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    No,
    /// After an access on the slow path, which has stored what was left to exits.
    Leaving,
    /// With nothing left to exits.
    Whole,
}

use super::is_pure;
use crate::plan::NONE;

/// Never used.
pub(crate) const UNUSED: u16 = 0;

/// Uses of the values of a block.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Per value: 1 + index of the last op that uses it (the number of ops + 1 if the terminal does), or 0.
    pub last: Vec<u16>,
    /// Per value: how many operands name it.
    pub count: Vec<u16>,
    /// Per value: how many of these are sets that are left to exits.
    pub sunk: Vec<u16>,
}

impl Uses {
    /// Whether only exits need the value of op `at`, which they can make themselves.
    pub fn is_late(&self, ops: &[Op], at: usize) -> bool {
        let count = self.count[at];
        count > 0 && count == self.sunk[at] && can_be_late(&ops[at])
    }
}

/// Whether an exit can make the value from those of the operands.
fn can_be_late(op: &Op) -> bool {
    matches!(
        op,
        Op::Cmp(..)
            | Op::Bin(Bin::Add | Bin::Sub | Bin::And | Bin::Or | Bin::Xor, ..)
            | Op::Un(
                Un::Sext8 | Un::Sext16 | Un::Sext32 | Un::Zext8 | Un::Zext16 | Un::Zext32 | Un::Not,
                _
            )
    )
}

/// A `Set` whose slot is set again before the block ends, with nothing in between that looks at it but exits: only they
/// store it, in the cold part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sunk {
    /// The op.
    pub at: u16,
    /// The op that sets the slot again.
    pub until: u16,
    pub slot: u16,
    pub value: u16,
}

/// What [`dead`] may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct May<'a> {
    /// Take out sets that nothing can see.
    pub remove: bool,
    /// Leave those to the exits that only they can see, of slots that have no home by this table.
    pub sink: Option<&'a [u8]>,
}

/// A slot that is set later.
#[derive(Clone, Copy, Debug)]
struct Later {
    slot: u16,
    /// The op that sets it.
    at: u16,
    /// The last exit before that, if there are any between here and there.
    exit: Option<u16>,
}

/// `boundary[at]`: whether the block can be left before op `at` for a reason other than the op itself, and whether
/// everything must be in its place then.
pub(crate) fn dead(
    ops: &mut [Op],
    terminal: [Option<Val>; 2],
    may: May,
    boundary: &[Boundary],
    uses: &mut Uses,
    sunk: &mut Vec<Sunk>,
) {
    uses.last.clear();
    uses.last.resize(ops.len(), UNUSED);
    uses.count.clear();
    uses.count.resize(ops.len(), 0);
    uses.sunk.clear();
    uses.sunk.resize(ops.len(), 0);
    sunk.clear();
    for v in terminal.into_iter().flatten() {
        uses.last[usize::from(v.0)] = ops.len() as u16 + 1;
        uses.count[usize::from(v.0)] += 1;
    }
    let mut later: Vec<Later> = Vec::new();
    for at in (0..ops.len()).rev() {
        let op = &mut ops[at];
        match op {
            Op::Call { .. } => later.clear(),
            Op::ExitIf { .. } => pass_exit(&mut later, at as u16),
            _ if op.can_trap() => pass_exit(&mut later, at as u16),
            _ => {}
        }
        match *op {
            Op::Set(slot, v) | Op::SetF(slot, v) => match later.iter_mut().find(|l| l.slot == slot.0) {
                Some(l) if l.exit.is_none() && may.remove => *op = Op::Const(0),
                Some(l) => {
                    if let Some(exit) = l.exit
                        && may.sink.is_some_and(|homes| homes[usize::from(slot.0)] == NONE)
                    {
                        sunk.push(Sunk {
                            at: at as u16,
                            until: l.at,
                            slot: slot.0,
                            value: v.0,
                        });
                        let last = &mut uses.last[usize::from(v.0)];
                        *last = (*last).max(exit + 1);
                        uses.sunk[usize::from(v.0)] += 1;
                    }
                    (l.at, l.exit) = (at as u16, None);
                }
                None => later.push(Later {
                    slot: slot.0,
                    at: at as u16,
                    exit: None,
                }),
            },
            Op::SetV(slot, _) => {
                let halves = [slot.0, slot.0 + 1];
                let dead = |s: &u16| later.iter().any(|l| l.slot == *s && l.exit.is_none());
                if may.remove && halves.iter().all(dead) {
                    *op = Op::Const(0);
                } else {
                    later.retain(|l| l.slot & !1 != slot.0);
                    later.extend(halves.map(|slot| Later {
                        slot,
                        at: at as u16,
                        exit: None,
                    }));
                }
            }
            Op::Get(slot) | Op::GetF(slot) => later.retain(|l| l.slot != slot.0),
            Op::GetV(slot) => later.retain(|l| l.slot & !1 != slot.0),
            _ => {}
        }
        if uses.count[at] > 0 || !is_pure(op) {
            // What exits make themselves they make of these.
            let last = match uses.is_late(ops, at) {
                true => uses.last[at],
                false => at as u16 + 1,
            };
            ops[at].operands(|v, _| {
                let v = usize::from(v.0);
                uses.count[v] += 1;
                uses.last[v] = uses.last[v].max(last);
            });
        }
        match boundary[at] {
            Boundary::No => {}
            Boundary::Leaving => pass_exit(&mut later, at as u16),
            Boundary::Whole => later.clear(),
        }
    }
    sunk.reverse();
}

/// The block can be left here: what is set later can't be dropped before.
fn pass_exit(later: &mut [Later], at: u16) {
    for l in later {
        l.exit.get_or_insert(at);
    }
}
