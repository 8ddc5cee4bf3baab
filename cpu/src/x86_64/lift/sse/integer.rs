//! Integers lane by lane, and bitwise operations, in MMX and vector registers.

use super::{Lifter, is_mmx, register};
use crate::ir::{Op, Size, VBin, VImm, VUn};
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Pabsb => l.by_lanes(i, |l, _, b| l.op(Op::VUn(VUn::Abs8, b))),
        M::Pabsw => l.by_lanes(i, |l, _, b| l.op(Op::VUn(VUn::Abs16, b))),
        M::Pabsd => l.by_lanes(i, |l, _, b| l.op(Op::VUn(VUn::Abs32, b))),
        M::Psllw => shift(l, i, VBin::Shl16, VImm::Shl16),
        M::Pslld => shift(l, i, VBin::Shl32, VImm::Shl32),
        M::Psllq => shift(l, i, VBin::Shl64, VImm::Shl64),
        M::Psrlw => shift(l, i, VBin::Shr16, VImm::Shr16),
        M::Psrld => shift(l, i, VBin::Shr32, VImm::Shr32),
        M::Psrlq => shift(l, i, VBin::Shr64, VImm::Shr64),
        M::Psraw => shift(l, i, VBin::Sar16, VImm::Sar16),
        M::Psrad => shift(l, i, VBin::Sar32, VImm::Sar32),
        mnemonic => {
            let Some(op) = operation(mnemonic) else {
                return false;
            };
            l.by_lanes(i, |l, a, b| l.vbin(op, a, b));
        }
    }
    true
}

/// The operation on two operands.
fn operation(mnemonic: Mnemonic) -> Option<VBin> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Pand | M::Andps | M::Andpd => VBin::And,
        M::Por | M::Orps | M::Orpd => VBin::Or,
        M::Pxor | M::Xorps | M::Xorpd => VBin::Xor,
        M::Pandn | M::Andnps | M::Andnpd => VBin::AndNot,
        M::Paddb => VBin::Add8,
        M::Paddw => VBin::Add16,
        M::Paddd => VBin::Add32,
        M::Paddq => VBin::Add64,
        M::Psubb => VBin::Sub8,
        M::Psubw => VBin::Sub16,
        M::Psubd => VBin::Sub32,
        M::Psubq => VBin::Sub64,
        M::Paddsb => VBin::AddSatS8,
        M::Paddsw => VBin::AddSatS16,
        M::Paddusb => VBin::AddSatU8,
        M::Paddusw => VBin::AddSatU16,
        M::Psubsb => VBin::SubSatS8,
        M::Psubsw => VBin::SubSatS16,
        M::Psubusb => VBin::SubSatU8,
        M::Psubusw => VBin::SubSatU16,
        M::Pcmpeqb => VBin::Eq8,
        M::Pcmpeqw => VBin::Eq16,
        M::Pcmpeqd => VBin::Eq32,
        M::Pcmpeqq => VBin::Eq64,
        M::Pcmpgtb => VBin::GtS8,
        M::Pcmpgtw => VBin::GtS16,
        M::Pcmpgtd => VBin::GtS32,
        M::Pcmpgtq => VBin::GtS64,
        M::Pminub => VBin::MinU8,
        M::Pminuw => VBin::MinU16,
        M::Pminud => VBin::MinU32,
        M::Pminsb => VBin::MinS8,
        M::Pminsw => VBin::MinS16,
        M::Pminsd => VBin::MinS32,
        M::Pmaxub => VBin::MaxU8,
        M::Pmaxuw => VBin::MaxU16,
        M::Pmaxud => VBin::MaxU32,
        M::Pmaxsb => VBin::MaxS8,
        M::Pmaxsw => VBin::MaxS16,
        M::Pmaxsd => VBin::MaxS32,
        M::Pavgb => VBin::AvgU8,
        M::Pavgw => VBin::AvgU16,
        M::Pmullw => VBin::MulLow16,
        M::Pmulld => VBin::MulLow32,
        M::Pmulhw => VBin::MulHighS16,
        M::Pmulhuw => VBin::MulHighU16,
        M::Pmulhrsw => VBin::MulRoundS16,
        M::Pmuldq => VBin::MulWideS32,
        M::Pmuludq => VBin::MulWideU32,
        M::Pmaddwd => VBin::MulAddS16,
        M::Pmaddubsw => VBin::MulAddUS8,
        M::Psadbw => VBin::SumDiffU8,
        M::Psignb => VBin::Sign8,
        M::Psignw => VBin::Sign16,
        M::Psignd => VBin::Sign32,
        _ => return None,
    })
}

/// A shift of all elements by an immediate, or by the low quadword of an operand.
fn shift(l: &mut Lifter, i: &Instruction, by_vector: VBin, by_constant: VImm) {
    if i.op1_kind() != OpKind::Immediate8 {
        return l.by_lanes(i, |l, a, b| l.op(Op::VBin(by_vector, a, b)));
    }
    let count = i.immediate8();
    if is_mmx(i, 0) {
        let a = l.mm(register(i, 0));
        let a = l.only_low(a);
        let r = l.op(Op::VImm(by_constant, a, count));
        let r = l.op(Op::VExtract(Size::B8, 0, r));
        return l.set_mm(register(i, 0), r);
    }
    let a = l.vector_register(i, 0);
    let r = l.op(Op::VImm(by_constant, a, count));
    l.set_result(i, r);
}
