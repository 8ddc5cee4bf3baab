//! A slot that is read again, with nothing in between that writes it, yields the value that it holds.
//! Lifters do that as they go; this makes it so for every block.

use cpu::ir::{Class, Op, Slot, Val};

use super::map_operands;

/// A slot (of a vector the first one), the class of its value, and the value.
pub(crate) type Held = (Slot, Class, Val);

/// Whether a slot is one of those that hold it.
fn is_in(held: &Held, slot: Slot) -> bool {
    held.0 == slot || held.1 == Class::V && held.0.0 == slot.0 & !1
}

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
            Op::Get(slot) | Op::GetF(slot) | Op::GetV(slot) => {
                let class = match op {
                    Op::GetF(_) => Class::F,
                    Op::GetV(_) => Class::V,
                    _ => Class::I,
                };
                match held.iter().find(|h| h.0 == slot && h.1 == class) {
                    Some((_, _, v)) => name = *v,
                    None => held.push((slot, class, this)),
                }
            }
            Op::Set(slot, v) => {
                held.retain(|h| !is_in(h, slot));
                held.push((slot, Class::I, v));
            }
            Op::SetF(slot, v) => {
                held.retain(|h| !is_in(h, slot));
                held.push((slot, Class::F, v));
            }
            Op::SetV(slot, v) => {
                held.retain(|h| h.0.0 & !1 != slot.0);
                held.push((slot, Class::V, v));
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
