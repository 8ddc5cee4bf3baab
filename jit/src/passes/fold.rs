//! Ops on constants become constants; identities become their operand's name.

use cpu::ir::{Bin, Op, Size, Un, VUn, Val, Width, eval_bin, eval_cmp, eval_un};

use super::map_operands;

/// Folds in `ops` and renames in the operands of the terminal.
pub(crate) fn fold(ops: &mut [Op], terminal: &mut [Option<Val>; 2], names: &mut Vec<Val>) {
    names.clear();
    for at in 0..ops.len() {
        map_operands(&mut ops[at], |v| names[usize::from(v.0)]);
        let constant = |v: Val| match ops[usize::from(v.0)] {
            Op::Const(c) => Some(c),
            _ => None,
        };
        let mut name = Val(at as u16);
        let folded = match ops[at] {
            Op::Un(un, v) => constant(v).map(|v| eval_un(un, v)),
            Op::Bin(bin, width, a, b) => match (constant(a), constant(b)) {
                (Some(a), Some(b)) => Some(eval_bin(bin, width, a, b)),
                (None, Some(0)) if width == Width::W64 && zero_is_identity(bin) => {
                    name = a;
                    None
                }
                _ => None,
            },
            Op::Cmp(cond, width, a, b) => match (constant(a), constant(b)) {
                (Some(a), Some(b)) => Some(u64::from(eval_cmp(cond, width, a, b))),
                _ => None,
            },
            Op::VExtract(Size::B8, index, v) => {
                if let Op::VPair(low, high) = ops[usize::from(v.0)] {
                    name = if index & 1 == 0 { low } else { high };
                }
                None
            }
            Op::VToF(v) => {
                if let Op::VFromF(low) = ops[usize::from(v.0)] {
                    name = low;
                }
                None
            }
            // A vector taken apart and put together.
            Op::VPair(low, high) => {
                let part = |half: Val, wanted: u8| match ops[usize::from(half.0)] {
                    Op::VExtract(Size::B8, index, v) if index & 1 == wanted => Some(v),
                    _ => None,
                };
                match (part(low, 0), part(high, 1), constant(high)) {
                    (Some(v), Some(w), _) if v == w => name = v,
                    (Some(v), None, Some(0)) => ops[at] = Op::VUn(VUn::Low64, v),
                    _ => {}
                }
                None
            }
            Op::Select(c, a, b) => {
                match constant(c) {
                    Some(0) => name = b,
                    Some(_) => name = a,
                    None => {}
                }
                None
            }
            _ => None,
        };
        if let Some(c) = folded {
            ops[at] = Op::Const(c);
        } else if let Op::Un(un, v) = ops[at]
            && is_no_change(un, &ops[usize::from(v.0)])
        {
            name = v;
        }
        names.push(name);
    }
    for v in terminal.iter_mut().flatten() {
        *v = names[usize::from(v.0)];
    }
}

fn zero_is_identity(bin: Bin) -> bool {
    matches!(
        bin,
        Bin::Add | Bin::Sub | Bin::Or | Bin::Xor | Bin::Shl | Bin::Shr | Bin::Sar | Bin::Rol | Bin::Ror
    )
}

/// Whether the value of `of` is what `un` would make of it.
fn is_no_change(un: Un, of: &Op) -> bool {
    use cpu::ir::Size::{B1, B2, B4};
    match un {
        Un::Sext32 => matches!(
            of,
            Op::Un(Un::Sext8 | Un::Sext16 | Un::Sext32 | Un::Zext8 | Un::Zext16, _)
                | Op::Load { size: B1 | B2, .. }
                | Op::Load {
                    size: B4,
                    signed: true,
                    ..
                }
                | Op::Cmp(..)
        ),
        Un::Zext32 => matches!(
            of,
            Op::Bin(_, Width::W32, ..)
                | Op::Load {
                    size: B1 | B2 | B4,
                    signed: false,
                    ..
                }
                | Op::Cmp(..)
        ),
        Un::Zext8 | Un::Zext16 | Un::Sext8 | Un::Sext16 => matches!(of, Op::Cmp(..)),
        Un::Not
        | Un::Clz32
        | Un::Clz64
        | Un::Ctz32
        | Un::Ctz64
        | Un::Popcnt32
        | Un::Popcnt64
        | Un::Bswap64
        | Un::OrcB => false,
    }
}
