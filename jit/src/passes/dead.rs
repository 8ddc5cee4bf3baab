//! Backward: which values are used and for how long, and which `Set`s nothing can see, because the slot is
//! set again before the block can be left.

use cpu::ir::{Op, Val};

use super::is_pure;

/// Never used.
pub(crate) const UNUSED: u16 = 0;

/// Uses of the values of a block.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Per value: 1 + index of the last op that uses it (the number of ops + 1 if the terminal does), or 0.
    pub last: Vec<u16>,
    /// Per value: how many operands name it.
    pub count: Vec<u16>,
}

/// `boundary[at]`: whether the block can be left before op `at` for a reason other than the op itself.
pub(crate) fn dead(
    ops: &mut [Op],
    terminal: [Option<Val>; 2],
    remove_sets: bool,
    boundary: &[bool],
    uses: &mut Uses,
) {
    uses.last.clear();
    uses.last.resize(ops.len(), UNUSED);
    uses.count.clear();
    uses.count.resize(ops.len(), 0);
    for v in terminal.into_iter().flatten() {
        uses.last[usize::from(v.0)] = ops.len() as u16 + 1;
        uses.count[usize::from(v.0)] += 1;
    }
    // Slots set later, before anything can look.
    let mut overwritten: Vec<u16> = Vec::new();
    for at in (0..ops.len()).rev() {
        let op = &mut ops[at];
        if op.can_trap() {
            overwritten.clear();
        }
        match *op {
            Op::Set(slot, _) | Op::SetF(slot, _) => {
                if remove_sets && overwritten.contains(&slot.0) {
                    *op = Op::Const(0);
                } else {
                    overwritten.push(slot.0);
                }
            }
            Op::SetV(slot, _) => {
                let halves = [slot.0, slot.0 + 1];
                if remove_sets && halves.iter().all(|s| overwritten.contains(s)) {
                    *op = Op::Const(0);
                } else {
                    overwritten.extend(halves);
                }
            }
            Op::Get(slot) | Op::GetF(slot) => overwritten.retain(|s| *s != slot.0),
            Op::GetV(slot) => overwritten.retain(|s| *s & !1 != slot.0),
            _ => {}
        }
        if uses.count[at] > 0 || !is_pure(op) {
            op.operands(|v, _| {
                let v = usize::from(v.0);
                uses.count[v] += 1;
                if uses.last[v] == UNUSED {
                    uses.last[v] = at as u16 + 1;
                }
            });
        }
        if boundary[at] {
            overwritten.clear();
        }
    }
}
