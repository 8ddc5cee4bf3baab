//! pcmpestri, pcmpestrm, pcmpistri, pcmpistrm: stages of `../../simd/string.rs`.

use super::{Alignment, Lifter};
use crate::ir::{Bin, Cond, Size, Un, Width};
use crate::x86_64::flags::{CF, OF, SF, ZF};
use crate::x86_64::simd::string::*;
use crate::x86_64::slots::{RAX, RCX, RDX, xmm};
use iced_x86::{Instruction, Mnemonic};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    let (explicit, wide, to_index) = match i.mnemonic() {
        M::Pcmpestri => (true, false, true),
        M::Pcmpestri64 => (true, true, true),
        M::Pcmpestrm => (true, false, false),
        M::Pcmpestrm64 => (true, true, false),
        M::Pcmpistri => (false, false, true),
        M::Pcmpistrm => (false, false, false),
        _ => return false,
    };
    let immediate = u64::from(i.immediate8());
    let two = l.vector_operand(i, 1, Alignment::Any);
    let one = l.vector_register(i, 0);
    let (one, two) = (l.halves(one), l.halves(two));
    let c = l.constant(immediate);
    let lengths = if explicit {
        [RAX, RDX].map(|slot| {
            let v = l.get(slot);
            let v = if wide { v } else { l.un(Un::Sext32, v) };
            l.pure(EXPLICIT_LENGTH, [v, c])
        })
    } else {
        [one, two].map(|v| l.pure(IMPLICIT_LENGTH, [v[0], v[1], c]))
    };
    let (first, second) = (l.shl(lengths[0], 8), l.shl(lengths[1], 16));
    let control = l.or(first, second);
    let control = l.or(control, c);
    let other = {
        let half = l.constant(1 << 24);
        l.or(control, half)
    };
    let parts = [
        l.pure(COMPARE, [one[0], two[0], two[1], control]),
        l.pure(COMPARE, [one[1], two[0], two[1], other]),
    ];
    let join = if immediate & 0xc == 0xc { Bin::And } else { Bin::Or };
    let bits = l.bin(join, Width::W64, parts[0], parts[1]);
    let bits = l.pure(POLARITY, [bits, control]);
    if to_index {
        let v = l.pure(INDEX, [bits, control]);
        l.set_low(RCX, Size::B4, v);
    } else if immediate & 0x40 == 0 {
        let v = l.only_low(bits);
        l.set_v(xmm(0, 0), v);
    } else {
        let r = [ELEMENT_MASK_LOW, ELEMENT_MASK_HIGH].map(|function| l.pure(function, [bits, control]));
        let r = l.pair(r);
        l.set_v(xmm(0, 0), r);
    }
    // AF and PF are clear.
    let elements = if immediate & 1 == 0 { 16 } else { 8 };
    let elements = l.constant(elements);
    let ends = [(lengths[1], ZF), (lengths[0], SF)].map(|(length, flag)| {
        let v = l.cmp(Cond::LtU, Width::W64, length, elements);
        l.shl(v, flag.trailing_zeros().into())
    });
    let carry = l.cmp_constant(Cond::Ne, Width::W64, bits, 0);
    let carry = l.shl(carry, CF.trailing_zeros().into());
    let first = l.and(bits, 1);
    let first = l.shl(first, OF.trailing_zeros().into());
    let v = l.or(ends[0], ends[1]);
    let v = l.or(v, carry);
    let v = l.or(v, first);
    l.flags_are(v);
    true
}
