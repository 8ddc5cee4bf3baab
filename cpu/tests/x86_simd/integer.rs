//! Ops on vectors: integers.

use crate::cases::{check, check_two, count};
use cpu::ir::{
    Size, VBin, VImm, VImm2, VUn, eval_vbin, eval_vextract, eval_vimm, eval_vimm2, eval_vinsert, eval_vmask,
    eval_vselect, eval_vun,
};

/// Op, opcode after the prefix 66 and 0f, and name.
const TWO: &[(VBin, &[u8], &str)] = &[
    (VBin::Add8, &[0xfc], "paddb"),
    (VBin::Add16, &[0xfd], "paddw"),
    (VBin::Add32, &[0xfe], "paddd"),
    (VBin::Sub8, &[0xf8], "psubb"),
    (VBin::Sub16, &[0xf9], "psubw"),
    (VBin::Sub32, &[0xfa], "psubd"),
    (VBin::AddSatS8, &[0xec], "paddsb"),
    (VBin::AddSatS16, &[0xed], "paddsw"),
    (VBin::AddSatU8, &[0xdc], "paddusb"),
    (VBin::AddSatU16, &[0xdd], "paddusw"),
    (VBin::SubSatS8, &[0xe8], "psubsb"),
    (VBin::SubSatS16, &[0xe9], "psubsw"),
    (VBin::SubSatU8, &[0xd8], "psubusb"),
    (VBin::SubSatU16, &[0xd9], "psubusw"),
    (VBin::Eq8, &[0x74], "pcmpeqb"),
    (VBin::Eq16, &[0x75], "pcmpeqw"),
    (VBin::Eq32, &[0x76], "pcmpeqd"),
    (VBin::GtS8, &[0x64], "pcmpgtb"),
    (VBin::GtS16, &[0x65], "pcmpgtw"),
    (VBin::GtS32, &[0x66], "pcmpgtd"),
    (VBin::MinU8, &[0xda], "pminub"),
    (VBin::MinU16, &[0x38, 0x3a], "pminuw"),
    (VBin::MinU32, &[0x38, 0x3b], "pminud"),
    (VBin::MinS8, &[0x38, 0x38], "pminsb"),
    (VBin::MinS16, &[0xea], "pminsw"),
    (VBin::MinS32, &[0x38, 0x39], "pminsd"),
    (VBin::MaxU8, &[0xde], "pmaxub"),
    (VBin::MaxU16, &[0x38, 0x3e], "pmaxuw"),
    (VBin::MaxU32, &[0x38, 0x3f], "pmaxud"),
    (VBin::MaxS8, &[0x38, 0x3c], "pmaxsb"),
    (VBin::MaxS16, &[0xee], "pmaxsw"),
    (VBin::MaxS32, &[0x38, 0x3d], "pmaxsd"),
    (VBin::AvgU8, &[0xe0], "pavgb"),
    (VBin::AvgU16, &[0xe3], "pavgw"),
    (VBin::MulLow16, &[0xd5], "pmullw"),
    (VBin::MulHighS16, &[0xe5], "pmulhw"),
    (VBin::MulHighU16, &[0xe4], "pmulhuw"),
    (VBin::MulRoundS16, &[0x38, 0x0b], "pmulhrsw"),
    (VBin::MulLow32, &[0x38, 0x40], "pmulld"),
    (VBin::MulAddS16, &[0xf5], "pmaddwd"),
    (VBin::MulAddUS8, &[0x38, 0x04], "pmaddubsw"),
    (VBin::SumDiffU8, &[0xf6], "psadbw"),
    (VBin::Sign8, &[0x38, 0x08], "psignb"),
    (VBin::Sign16, &[0x38, 0x09], "psignw"),
    (VBin::Sign32, &[0x38, 0x0a], "psignd"),
    (VBin::And, &[0xdb], "pand"),
    (VBin::Or, &[0xeb], "por"),
    (VBin::Xor, &[0xef], "pxor"),
    (VBin::AndNot, &[0xdf], "pandn"),
    (VBin::Add64, &[0xd4], "paddq"),
    (VBin::Sub64, &[0xfb], "psubq"),
    (VBin::Eq64, &[0x38, 0x29], "pcmpeqq"),
    (VBin::GtS64, &[0x38, 0x37], "pcmpgtq"),
    (VBin::MulWideU32, &[0xf4], "pmuludq"),
    (VBin::MulWideS32, &[0x38, 0x28], "pmuldq"),
    (VBin::Shl16, &[0xf1], "psllw"),
    (VBin::Shl32, &[0xf2], "pslld"),
    (VBin::Shl64, &[0xf3], "psllq"),
    (VBin::Shr16, &[0xd1], "psrlw"),
    (VBin::Shr32, &[0xd2], "psrld"),
    (VBin::Shr64, &[0xd3], "psrlq"),
    (VBin::Sar16, &[0xe1], "psraw"),
    (VBin::Sar32, &[0xe2], "psrad"),
    (VBin::PackS16, &[0x63], "packsswb"),
    (VBin::PackU16, &[0x67], "packuswb"),
    (VBin::PackS32, &[0x6b], "packssdw"),
    (VBin::PackU32, &[0x38, 0x2b], "packusdw"),
    (VBin::InterleaveLow8, &[0x60], "punpcklbw"),
    (VBin::InterleaveLow16, &[0x61], "punpcklwd"),
    (VBin::InterleaveLow32, &[0x62], "punpckldq"),
    (VBin::InterleaveLow64, &[0x6c], "punpcklqdq"),
    (VBin::InterleaveHigh8, &[0x68], "punpckhbw"),
    (VBin::InterleaveHigh16, &[0x69], "punpckhwd"),
    (VBin::InterleaveHigh32, &[0x6a], "punpckhdq"),
    (VBin::InterleaveHigh64, &[0x6d], "punpckhqdq"),
    (VBin::Permute8, &[0x38, 0x00], "pshufb"),
    (VBin::AddPairs16, &[0x38, 0x01], "phaddw"),
    (VBin::AddPairs32, &[0x38, 0x02], "phaddd"),
    (VBin::AddPairsSatS16, &[0x38, 0x03], "phaddsw"),
    (VBin::SubPairs16, &[0x38, 0x05], "phsubw"),
    (VBin::SubPairs32, &[0x38, 0x06], "phsubd"),
    (VBin::SubPairsSatS16, &[0x38, 0x07], "phsubsw"),
];

/// Likewise.
const ONE: &[(VUn, &[u8], &str)] = &[
    (VUn::Abs8, &[0x38, 0x1c], "pabsb"),
    (VUn::Abs16, &[0x38, 0x1d], "pabsw"),
    (VUn::Abs32, &[0x38, 0x1e], "pabsd"),
    (VUn::WidenS8To16, &[0x38, 0x20], "pmovsxbw"),
    (VUn::WidenS8To32, &[0x38, 0x21], "pmovsxbd"),
    (VUn::WidenS8To64, &[0x38, 0x22], "pmovsxbq"),
    (VUn::WidenS16To32, &[0x38, 0x23], "pmovsxwd"),
    (VUn::WidenS16To64, &[0x38, 0x24], "pmovsxwq"),
    (VUn::WidenS32To64, &[0x38, 0x25], "pmovsxdq"),
    (VUn::WidenU8To16, &[0x38, 0x30], "pmovzxbw"),
    (VUn::WidenU8To32, &[0x38, 0x31], "pmovzxbd"),
    (VUn::WidenU8To64, &[0x38, 0x32], "pmovzxbq"),
    (VUn::WidenU16To32, &[0x38, 0x33], "pmovzxwd"),
    (VUn::WidenU16To64, &[0x38, 0x34], "pmovzxwq"),
    (VUn::WidenU32To64, &[0x38, 0x35], "pmovzxdq"),
];

/// The instruction on xmm0 and xmm1.
fn encoded(opcode: &[u8]) -> Vec<u8> {
    [&[0x66, 0x0f], opcode, &[0xc1]].concat()
}

#[test]
fn of_two_operands() {
    assert_eq!(TWO.len(), VBin::ALL.len(), "an op without a row");
    for &(op, opcode, name) in TWO {
        check_two(name, &encoded(opcode), count(), |a, b| eval_vbin(op, a, b));
    }
}

#[test]
fn of_one_operand() {
    assert_eq!(ONE.len() + 1, VUn::ALL.len(), "an op without a row");
    for &(op, opcode, name) in ONE {
        check_two(name, &encoded(opcode), count(), |_, b| eval_vun(op, b));
    }
    check_two("movq", &[0xf3, 0x0f, 0x7e, 0xc1], count(), |_, b| {
        eval_vun(VUn::Low64, b)
    });
}

#[test]
fn shifts_by_a_constant() {
    for (op, opcode, extension, name) in [
        (VImm::Shl16, 0x71, 6, "psllw"),
        (VImm::Shl32, 0x72, 6, "pslld"),
        (VImm::Shl64, 0x73, 6, "psllq"),
        (VImm::Shr16, 0x71, 2, "psrlw"),
        (VImm::Shr32, 0x72, 2, "psrld"),
        (VImm::Shr64, 0x73, 2, "psrlq"),
        (VImm::Sar16, 0x71, 4, "psraw"),
        (VImm::Sar32, 0x72, 4, "psrad"),
        (VImm::ShlBytes, 0x73, 7, "pslldq"),
        (VImm::ShrBytes, 0x73, 3, "psrldq"),
    ] {
        for shift in 0..=255 {
            let bytes = [0x66, 0x0f, opcode, 0xc0 | extension << 3, shift];
            check_two(name, &bytes, 20, |a, _| eval_vimm(op, a, shift));
        }
    }
}

#[test]
fn shuffles() {
    for control in 0..=255 {
        for (op, prefix) in [
            (VImm::Shuffle32, 0x66),
            (VImm::ShuffleLow16, 0xf2),
            (VImm::ShuffleHigh16, 0xf3),
        ] {
            check_two("pshufd", &[prefix, 0x0f, 0x70, 0xc1, control], 20, |_, b| {
                eval_vimm(op, b, control)
            });
        }
        for (op, bytes) in [
            (VImm2::Align, &[0x66, 0x0f, 0x3a, 0x0f, 0xc1, control][..]),
            (VImm2::Blend16, &[0x66, 0x0f, 0x3a, 0x0e, 0xc1, control]),
            (VImm2::Shuffle32, &[0x0f, 0xc6, 0xc1, control]),
            (VImm2::Shuffle64, &[0x66, 0x0f, 0xc6, 0xc1, control]),
        ] {
            check_two("palignr and others", bytes, 20, |a, b| {
                eval_vimm2(op, a, b, control)
            });
        }
    }
}

#[test]
fn choices_by_sign() {
    for (size, opcode, name) in [
        (Size::B1, 0x10, "pblendvb"),
        (Size::B4, 0x14, "blendvps"),
        (Size::B8, 0x15, "blendvpd"),
    ] {
        // xmm2, xmm1, mask xmm0.
        check(name, &[0x66, 0x0f, 0x38, opcode, 0xd1], count(), |mut s| {
            s.xmm[2] = eval_vselect(size, s.xmm[0], s.xmm[2], s.xmm[1]);
            s
        });
    }
}

#[test]
fn elements() {
    for index in 0..=255 {
        for (size, extract, insert) in [
            (
                Size::B1,
                &[0x66, 0x0f, 0x3a, 0x14, 0xc8, index][..],
                &[0x66, 0x0f, 0x3a, 0x20, 0xc0, index][..],
            ),
            (
                Size::B2,
                &[0x66, 0x0f, 0x3a, 0x15, 0xc8, index],
                &[0x66, 0x0f, 0xc4, 0xc0, index],
            ),
            (
                Size::B4,
                &[0x66, 0x0f, 0x3a, 0x16, 0xc8, index],
                &[0x66, 0x0f, 0x3a, 0x22, 0xc0, index],
            ),
            (
                Size::B8,
                &[0x66, 0x48, 0x0f, 0x3a, 0x16, 0xc8, index],
                &[0x66, 0x48, 0x0f, 0x3a, 0x22, 0xc0, index],
            ),
        ] {
            // eax, xmm1; xmm0, eax.
            check("pextr", extract, 20, |mut s| {
                s.rax = eval_vextract(size, index, s.xmm[1]);
                s
            });
            check("pinsr", insert, 20, |mut s| {
                s.xmm[0] = eval_vinsert(size, index, s.xmm[0], s.rax);
                s
            });
        }
    }
}

#[test]
fn signs() {
    for (size, bytes) in [
        (Size::B1, &[0x66, 0x0f, 0xd7, 0xc1][..]),
        (Size::B4, &[0x0f, 0x50, 0xc1]),
        (Size::B8, &[0x66, 0x0f, 0x50, 0xc1]),
    ] {
        check("pmovmskb and others", bytes, count(), |mut s| {
            s.rax = eval_vmask(size, s.xmm[1]);
            s
        });
    }
}
