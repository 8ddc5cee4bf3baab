//! A slot that is read again, with nothing in between that writes it, yields the value that it holds.
//! Lifters do that as they go; this makes it so for every block.

use cpu::ir::{Op, Slot, Val};

use super::map_operands;

/// A slot, whether its value is of class F, and the value.
pub(crate) type Held = (Slot, bool, Val);

/// Renames in `ops` and in the operands of the terminal.
pub(crate) fn forward(
    ops: &mut [Op],
    terminal: &mut [Option<Val>; 2],
    names: &mut Vec<Val>,
    held: &mut Vec<Held>,
) {
    names.clear();
    held.clear();
    for (at, op) in ops.iter_mut().enumerate() {
        map_operands(op, |v| names[usize::from(v.0)]);
        let this = Val(at as u16);
        let mut name = this;
        match *op {
            Op::Get(slot) | Op::GetF(slot) => {
                let float = matches!(op, Op::GetF(_));
                match held.iter().find(|h| h.0 == slot && h.1 == float) {
                    Some((_, _, v)) => name = *v,
                    None => held.push((slot, float, this)),
                }
            }
            Op::Set(slot, v) | Op::SetF(slot, v) => {
                let float = matches!(op, Op::SetF(..));
                held.retain(|h| h.0 != slot);
                held.push((slot, float, v));
            }
            // A helper may change any slot.
            Op::Call { .. } => held.clear(),
            _ => {}
        }
        names.push(name);
    }
    for v in terminal.iter_mut().flatten() {
        *v = names[usize::from(v.0)];
    }
}
