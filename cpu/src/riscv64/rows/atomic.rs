//! A: atomic read-modify-writes and LR/SC (RISC-V Unprivileged, chapter 13). Addresses must be aligned; the
//! environment and the helpers see to it. aq and rl order nothing that isn't in order already.

use super::form::*;
use crate::ir::{Rmw, Size};
use crate::riscv64::decode::Row;

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    lr("lr.w",           "00010 ar 00000 sssss 010 ddddd 0101111", |l, a| l.lr(Size::B4, a)),
    amo("sc.w",          "00011 ar ttttt sssss 010 ddddd 0101111", |l, a| l.sc(Size::B4, a)),
    amo("amoadd.w",      "00000 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::Add, Size::B4, a)),
    amo("amoswap.w",     "00001 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::Swap, Size::B4, a)),
    amo("amoxor.w",      "00100 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::Xor, Size::B4, a)),
    amo("amoor.w",       "01000 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::Or, Size::B4, a)),
    amo("amoand.w",      "01100 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::And, Size::B4, a)),
    amo("amomin.w",      "10000 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::MinS, Size::B4, a)),
    amo("amomax.w",      "10100 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::MaxS, Size::B4, a)),
    amo("amominu.w",     "11000 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::MinU, Size::B4, a)),
    amo("amomaxu.w",     "11100 ar ttttt sssss 010 ddddd 0101111", |l, a| l.amo(Rmw::MaxU, Size::B4, a)),
    lr("lr.d",           "00010 ar 00000 sssss 011 ddddd 0101111", |l, a| l.lr(Size::B8, a)),
    amo("sc.d",          "00011 ar ttttt sssss 011 ddddd 0101111", |l, a| l.sc(Size::B8, a)),
    amo("amoadd.d",      "00000 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::Add, Size::B8, a)),
    amo("amoswap.d",     "00001 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::Swap, Size::B8, a)),
    amo("amoxor.d",      "00100 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::Xor, Size::B8, a)),
    amo("amoor.d",       "01000 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::Or, Size::B8, a)),
    amo("amoand.d",      "01100 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::And, Size::B8, a)),
    amo("amomin.d",      "10000 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::MinS, Size::B8, a)),
    amo("amomax.d",      "10100 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::MaxS, Size::B8, a)),
    amo("amominu.d",     "11000 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::MinU, Size::B8, a)),
    amo("amomaxu.d",     "11100 ar ttttt sssss 011 ddddd 0101111", |l, a| l.amo(Rmw::MaxU, Size::B8, a)),
];
