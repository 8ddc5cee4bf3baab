//! Ops on vectors: each is one instruction of the host (AVX, 128 bits), or a few, whose result is the op's bit by bit. Packed
//! floating point is the host's own with the guest's MXCSR, as [`cpu::ir`] has it only for guests with the host's rules.

use cpu::ir::{FBin, FCond, Fmt, Op, Size, VBin, VConvert, VImm, VImm2, VUn};

use super::Generator;
use crate::asm::{Cc, Mem, Reg, Rm, Xmm};
use crate::plan::NONE;

/// How an instruction is encoded: opcode map, prefix (0 none, 1 66, 2 F3, 3 F2), opcode.
type Code = (u8, u8, u8);

/// No second operand.
const NO: Xmm = Xmm(0);
/// Exclusive or, and equality of dwords.
const PXOR: Code = (1, 1, 0xef);
const PCMPEQD: Code = (1, 1, 0x76);
const PUNPCKLQDQ: Code = (1, 1, 0x6c);
/// The low quadword alone.
const MOVQ: Code = (1, 2, 0x7e);

fn bin(op: VBin) -> Code {
    let (map, opcode) = match op {
        VBin::And => (1, 0xdb),
        VBin::Or => (1, 0xeb),
        VBin::Xor => (1, 0xef),
        VBin::AndNot => (1, 0xdf),
        VBin::Add8 => (1, 0xfc),
        VBin::Add16 => (1, 0xfd),
        VBin::Add32 => (1, 0xfe),
        VBin::Add64 => (1, 0xd4),
        VBin::Sub8 => (1, 0xf8),
        VBin::Sub16 => (1, 0xf9),
        VBin::Sub32 => (1, 0xfa),
        VBin::Sub64 => (1, 0xfb),
        VBin::AddSatS8 => (1, 0xec),
        VBin::AddSatS16 => (1, 0xed),
        VBin::AddSatU8 => (1, 0xdc),
        VBin::AddSatU16 => (1, 0xdd),
        VBin::SubSatS8 => (1, 0xe8),
        VBin::SubSatS16 => (1, 0xe9),
        VBin::SubSatU8 => (1, 0xd8),
        VBin::SubSatU16 => (1, 0xd9),
        VBin::Eq8 => (1, 0x74),
        VBin::Eq16 => (1, 0x75),
        VBin::Eq32 => (1, 0x76),
        VBin::Eq64 => (2, 0x29),
        VBin::GtS8 => (1, 0x64),
        VBin::GtS16 => (1, 0x65),
        VBin::GtS32 => (1, 0x66),
        VBin::GtS64 => (2, 0x37),
        VBin::MinS8 => (2, 0x38),
        VBin::MinS16 => (1, 0xea),
        VBin::MinS32 => (2, 0x39),
        VBin::MinU8 => (1, 0xda),
        VBin::MinU16 => (2, 0x3a),
        VBin::MinU32 => (2, 0x3b),
        VBin::MaxS8 => (2, 0x3c),
        VBin::MaxS16 => (1, 0xee),
        VBin::MaxS32 => (2, 0x3d),
        VBin::MaxU8 => (1, 0xde),
        VBin::MaxU16 => (2, 0x3e),
        VBin::MaxU32 => (2, 0x3f),
        VBin::AvgU8 => (1, 0xe0),
        VBin::AvgU16 => (1, 0xe3),
        VBin::MulLow16 => (1, 0xd5),
        VBin::MulLow32 => (2, 0x40),
        VBin::MulHighS16 => (1, 0xe5),
        VBin::MulHighU16 => (1, 0xe4),
        VBin::MulRoundS16 => (2, 0x0b),
        VBin::MulWideS32 => (2, 0x28),
        VBin::MulWideU32 => (1, 0xf4),
        VBin::MulAddS16 => (1, 0xf5),
        VBin::MulAddUS8 => (2, 0x04),
        VBin::SumDiffU8 => (1, 0xf6),
        VBin::Sign8 => (2, 0x08),
        VBin::Sign16 => (2, 0x09),
        VBin::Sign32 => (2, 0x0a),
        VBin::Shl16 => (1, 0xf1),
        VBin::Shl32 => (1, 0xf2),
        VBin::Shl64 => (1, 0xf3),
        VBin::Shr16 => (1, 0xd1),
        VBin::Shr32 => (1, 0xd2),
        VBin::Shr64 => (1, 0xd3),
        VBin::Sar16 => (1, 0xe1),
        VBin::Sar32 => (1, 0xe2),
        VBin::PackS16 => (1, 0x63),
        VBin::PackS32 => (1, 0x6b),
        VBin::PackU16 => (1, 0x67),
        VBin::PackU32 => (2, 0x2b),
        VBin::InterleaveLow8 => (1, 0x60),
        VBin::InterleaveLow16 => (1, 0x61),
        VBin::InterleaveLow32 => (1, 0x62),
        VBin::InterleaveLow64 => (1, 0x6c),
        VBin::InterleaveHigh8 => (1, 0x68),
        VBin::InterleaveHigh16 => (1, 0x69),
        VBin::InterleaveHigh32 => (1, 0x6a),
        VBin::InterleaveHigh64 => (1, 0x6d),
        VBin::Permute8 => (2, 0x00),
        VBin::AddPairs16 => (2, 0x01),
        VBin::AddPairs32 => (2, 0x02),
        VBin::AddPairsSatS16 => (2, 0x03),
        VBin::SubPairs16 => (2, 0x05),
        VBin::SubPairs32 => (2, 0x06),
        VBin::SubPairsSatS16 => (2, 0x07),
    };
    (map, 1, opcode)
}

fn un(op: VUn) -> Code {
    let opcode = match op {
        VUn::Low64 => return MOVQ,
        VUn::Abs8 => 0x1c,
        VUn::Abs16 => 0x1d,
        VUn::Abs32 => 0x1e,
        VUn::WidenS8To16 => 0x20,
        VUn::WidenS8To32 => 0x21,
        VUn::WidenS8To64 => 0x22,
        VUn::WidenS16To32 => 0x23,
        VUn::WidenS16To64 => 0x24,
        VUn::WidenS32To64 => 0x25,
        VUn::WidenU8To16 => 0x30,
        VUn::WidenU8To32 => 0x31,
        VUn::WidenU8To64 => 0x32,
        VUn::WidenU16To32 => 0x33,
        VUn::WidenU16To64 => 0x34,
        VUn::WidenU32To64 => 0x35,
    };
    (2, 1, opcode)
}

/// Packed arithmetic: without a prefix on binary32, with 66 on binary64.
fn packed(fmt: Fmt, opcode: u8) -> Code {
    (1, u8::from(fmt == Fmt::F64), opcode)
}

impl Generator {
    pub(super) fn vector(&mut self, op: Op) {
        match op {
            Op::VPair(low, high) => self.vpair(low.0, high.0),
            Op::VFromF(v) => {
                let src = match (self.place(v.0).xmm, self.memory(v.0), self.in_reg(v.0)) {
                    (NONE, Some(m), _) => m.into(),
                    (NONE, None, Some(r)) => {
                        self.pin(r);
                        let dst = self.temp_xmm();
                        self.a().vmovq(dst, r.into());
                        return self.define_xmm(dst);
                    }
                    _ => self.xmm(v.0).into(),
                };
                let dst = self.temp_xmm();
                self.a().vector(MOVQ, dst, NO, src);
                self.define_xmm(dst);
            }
            Op::VToF(v) => {
                let x = self.xmm(v.0);
                let dst = if self.needed(v.0) { self.temp_xmm() } else { x };
                self.a().fmov(dst, x);
                self.define_xmm(dst);
            }
            Op::VBin(op, a, b) => self.vector_op(bin(op), a.0, b.0, None),
            Op::VUn(op, v) => {
                // Those that widen read fewer bytes than there are, which is no harm in a slot.
                let src = self.vector_operand(v.0);
                let dst = self.temp_xmm();
                self.a().vector(un(op), dst, NO, src);
                self.define_xmm(dst);
            }
            Op::VImm(op, v, imm) => self.vimm(op, v.0, imm),
            Op::VImm2(op, a, b, imm) => {
                let code = match op {
                    VImm2::Align => (3, 1, 0x0f),
                    VImm2::Blend16 => (3, 1, 0x0e),
                    VImm2::Shuffle32 => (1, 0, 0xc6),
                    VImm2::Shuffle64 => (1, 1, 0xc6),
                };
                self.vector_op(code, a.0, b.0, Some(imm));
            }
            Op::VSelect(size, mask, a, b) => self.vselect(size, mask.0, a.0, b.0),
            Op::VInsert(size, index, v, x) => {
                let x = self.rm(x.0);
                let src = self.as_rm(x);
                let a = self.xmm(v.0);
                let dst = self.temp_xmm();
                let index = index % (16 / size.bytes() as u8);
                self.a().vinsert(size.bytes(), index, dst, a, src);
                self.define_xmm(dst);
            }
            Op::VExtract(size, index, v) => self.vextract(size, index, v.0),
            Op::VMask(size, v) => self.vmask(size, v.0),
            Op::VIsZero(v) => {
                let x = self.xmm(v.0);
                self.a().vector((2, 1, 0x17), x, NO, x.into());
                let dst = self.dest(&[]);
                self.a().setcc(Cc::E, dst);
                self.a().extend_from(1, false, dst, dst.into());
                self.define(dst);
            }
            Op::VFBin(op, fmt, a, b) => {
                let opcode = match op {
                    FBin::Add => 0x58,
                    FBin::Mul => 0x59,
                    FBin::Sub => 0x5c,
                    FBin::Min => 0x5d,
                    FBin::Div => 0x5e,
                    FBin::Max => 0x5f,
                };
                self.vector_op(packed(fmt, opcode), a.0, b.0, None);
            }
            Op::VFSqrt(fmt, v) => self.vector_op1(packed(fmt, 0x51), v.0),
            Op::VFCmp(cond, negate, fmt, a, b) => {
                let which = match cond {
                    FCond::Eq => 0,
                    FCond::Lt => 1,
                    FCond::Le => 2,
                    FCond::Unordered => 3,
                    FCond::LtQuiet => 0x11,
                    FCond::LeQuiet => 0x12,
                    FCond::UnorderedSignal => 0x13,
                };
                let imm = which + if negate { 4 } else { 0 };
                self.vector_op(packed(fmt, 0xc2), a.0, b.0, Some(imm));
            }
            Op::VConvert(op, v) => {
                let code = match op {
                    VConvert::I32ToF32 => (1, 0, 0x5b),
                    VConvert::F32ToI32 => (1, 1, 0x5b),
                    VConvert::F32ToI32Cut => (1, 2, 0x5b),
                    VConvert::I32ToF64 => (1, 2, 0xe6),
                    VConvert::F64ToI32 => (1, 3, 0xe6),
                    VConvert::F64ToI32Cut => (1, 1, 0xe6),
                    VConvert::F32ToF64 => (1, 0, 0x5a),
                    VConvert::F64ToF32 => (1, 1, 0x5a),
                };
                self.vector_op1(code, v.0);
            }
            _ => unreachable!("no op on vectors"),
        }
    }

    /// The last use of a vector that is in memory takes it from there.
    fn vector_operand(&mut self, v: u16) -> Rm {
        if self.place(v).xmm == NONE
            && !self.needed(v)
            && let Some(m) = self.memory(v)
        {
            return m.into();
        }
        self.xmm(v).into()
    }

    fn vector_op(&mut self, code: Code, a: u16, b: u16, imm: Option<u8>) {
        let x = self.xmm(a);
        let y = self.vector_operand(b);
        let dst = self.temp_xmm();
        match imm {
            Some(imm) => self.a().vector_imm(code, dst, x, y, imm),
            None => self.a().vector(code, dst, x, y),
        }
        self.define_xmm(dst);
    }

    fn vector_op1(&mut self, code: Code, v: u16) {
        let src = self.vector_operand(v);
        let dst = self.temp_xmm();
        self.a().vector(code, dst, NO, src);
        self.define_xmm(dst);
    }

    fn vpair(&mut self, low: u16, high: u16) {
        let (c, d) = (self.constant(low), self.constant(high));
        match (c, d) {
            (Some(0), Some(0)) | (Some(u64::MAX), Some(u64::MAX)) => {
                let dst = self.temp_xmm();
                let code = if c == Some(0) { PXOR } else { PCMPEQD };
                self.a().vector(code, dst, dst, dst.into());
                self.define_xmm(dst);
            }
            _ => {
                let src = self.rm(low);
                let src = self.as_rm(src);
                // Its place is found before the other one's register is.
                let other = match d {
                    Some(0) => None,
                    _ if d.is_some() && c == d => Some(None),
                    _ => {
                        let rm = self.rm(high);
                        Some(Some(self.as_rm(rm)))
                    }
                };
                let dst = self.temp_xmm();
                self.a().vmovq(dst, src);
                match other {
                    None => {}
                    Some(None) => self.a().vector(PUNPCKLQDQ, dst, dst, dst.into()),
                    Some(Some(rm)) => self.a().vinsert(8, 1, dst, dst, rm),
                }
                self.define_xmm(dst);
            }
        }
    }

    fn vimm(&mut self, op: VImm, v: u16, imm: u8) {
        let shift = match op {
            VImm::Shl16 => (0x71, 6),
            VImm::Shr16 => (0x71, 2),
            VImm::Sar16 => (0x71, 4),
            VImm::Shl32 => (0x72, 6),
            VImm::Shr32 => (0x72, 2),
            VImm::Sar32 => (0x72, 4),
            VImm::Shl64 => (0x73, 6),
            VImm::Shr64 => (0x73, 2),
            VImm::ShlBytes => (0x73, 7),
            VImm::ShrBytes => (0x73, 3),
            VImm::Shuffle32 | VImm::ShuffleLow16 | VImm::ShuffleHigh16 => {
                let pp = match op {
                    VImm::Shuffle32 => 1,
                    VImm::ShuffleLow16 => 3,
                    _ => 2,
                };
                let src = self.vector_operand(v);
                let dst = self.temp_xmm();
                self.a().vector_imm((1, pp, 0x70), dst, NO, src, imm);
                return self.define_xmm(dst);
            }
        };
        let x = self.xmm(v);
        let dst = self.temp_xmm();
        self.a().vshift_imm(shift.0, shift.1, dst, x, imm);
        self.define_xmm(dst);
    }

    fn vselect(&mut self, size: Size, mask: u16, a: u16, b: u16) {
        let mut m = self.xmm(mask);
        let x = self.xmm(a);
        let y = self.vector_operand(b);
        let opcode = match size {
            Size::B1 => 0x4c,
            Size::B4 => 0x4a,
            Size::B8 => 0x4b,
            Size::B2 => {
                let t = self.temp_xmm();
                self.a().vshift_imm(0x71, 4, t, m, 15);
                m = t;
                0x4c
            }
        };
        let dst = self.temp_xmm();
        self.a().vector_imm((3, 1, opcode), dst, x, y, m.0 << 4);
        self.define_xmm(dst);
    }

    fn vextract(&mut self, size: Size, index: u8, v: u16) {
        let index = index % (16 / size.bytes() as u8);
        if self.place(v).xmm == NONE
            && let Some(m) = self.memory(v)
        {
            let dst = self.dest(&[]);
            let at = Mem {
                disp: m.disp + i32::from(index) * size.bytes() as i32,
                ..m
            };
            self.a().extend_from(size.bytes(), false, dst, at.into());
            return self.define(dst);
        }
        let x = self.xmm(v);
        let dst = self.dest(&[]);
        match (size, index) {
            (Size::B8 | Size::B4, 0) => self.a().reg_from_xmm(size == Size::B8, dst, x),
            _ => self.a().vextract(size.bytes(), index, dst, x),
        }
        self.define(dst);
    }

    fn vmask(&mut self, size: Size, v: u16) {
        let x = self.xmm(v);
        let dst: Reg = self.dest(&[]);
        match size {
            Size::B1 => self.a().vmask((1, 1, 0xd7), dst, x),
            Size::B4 => self.a().vmask((1, 0, 0x50), dst, x),
            Size::B8 => self.a().vmask((1, 1, 0x50), dst, x),
            Size::B2 => {
                let t = self.temp_xmm();
                self.a().vector(PXOR, t, t, t.into());
                self.a().vector(bin(VBin::PackS16), t, x, t.into());
                self.a().vmask((1, 1, 0xd7), dst, t);
            }
        }
        self.define(dst);
    }
}
