//! MMX, SSE to SSE4.2, AES and PCLMULQDQ (SDM 1 9 to 12, 2A to 2C).
//!
//! A vector register is two slots, read and written as a vector, or by halves where scalars are in the low one. What IR has
//! no vector op for is a function of `../../simd` for each half. Floating point has the rounding and the flags of
//! MXCSR.
//!
//! ```text
//!   moves.rs     loads, stores, moves to and from other registers     float.rs     arithmetic, comparisons
//!   integer.rs   integers, lane by lane                               convert.rs   conversions, rounding
//!   shuffle.rs   integers and others across lanes                     string.rs    pcmpestri and its kin
//! ```
//!
//! Rules:
//! - Operands of 16 bytes are aligned or #GP(0), but for those that needn't be.
//! - An MMX register is read and written by helpers: the x87 has them. It is computed with as the low half of a vector.
//! - With an exception unmasked ([`Mode::SSE_UNMASKED`]) floating-point ops stand between two helpers, of which the
//!   second raises #XM with nothing committed ([`Guard`]).

mod convert;
mod float;
mod integer;
mod moves;
mod shuffle;
mod string;

use super::Lifter;
use super::operand::Use;
use crate::ir::{Fmt, Op, Size, Slot, VBin, Val};
use crate::x86_64::helper;
use crate::x86_64::mode::Mode;
use crate::x86_64::simd;
use crate::x86_64::slots::xmm;
use crate::x86_64::trap;
use iced_x86::{CpuidFeature, Instruction, Mnemonic, OpKind, Register};

/// The quadwords of a vector, low and high, of class I.
type Halves = [Val; 2];

/// Lifts it if it is of this family.
pub(super) fn lift(l: &mut Lifter, i: &Instruction) -> bool {
    use CpuidFeature as F;
    let ours = |f: &F| {
        matches!(
            f,
            F::MMX | F::SSE | F::SSE2 | F::SSE3 | F::SSSE3 | F::SSE4_1 | F::SSE4_2 | F::AES | F::PCLMULQDQ
        )
    };
    let features = i.cpuid_features();
    if !features.iter().any(ours) || features.contains(&F::FPU) {
        return false;
    }
    let uses = |is: fn(Register) -> bool| (0..i.op_count()).any(|n| is(register(i, n)));
    let mmx = uses(Register::is_mm) || i.mnemonic() == Mnemonic::Emms;
    // From memory to a general register.
    let sse = uses(Register::is_xmm) || convert::is_to_general(i.mnemonic());
    if !mmx && !sse {
        return false;
    }
    if sse && l.is(Mode::NO_SSE) {
        return false;
    }
    if sse && l.is(Mode::TS) {
        l.raise(trap::cause(trap::NM));
        return true;
    }
    if mmx && !std::mem::replace(&mut l.none_pending, true) {
        l.mmx_helper(helper::MMX_CHECK, [None; 2]);
        if l.is(Mode::NO_X87) {
            // Not reached: the helper has raised #UD or #NM.
            l.undefined();
            return true;
        }
    }
    l.numbers = works_on_numbers(i.mnemonic());
    [
        moves::lift,
        integer::lift,
        float::lift,
        shuffle::lift,
        convert::lift,
        string::lift,
    ]
    .iter()
    .any(|lift| lift(l, i))
}

/// Whether an instruction works on floating-point numbers, perhaps scalars, as far as its name tells.
fn works_on_numbers(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    let integers = matches!(
        mnemonic,
        M::Movdqa | M::Movdqu | M::Lddqu | M::Movntdq | M::Movntdqa | M::Movd | M::Movq
    );
    !integers && !is_p(mnemonic)
}

/// Whether the name begins with a p, as those of instructions on packed integers do. The decoder's numbers are in the
/// order of the alphabet.
fn is_p(mnemonic: Mnemonic) -> bool {
    (Mnemonic::Pabsb as u32..Mnemonic::Rcpps as u32).contains(&(mnemonic as u32))
}

/// The register that an operand is; none if it isn't one.
fn register(i: &Instruction, n: u32) -> Register {
    match i.op_kind(n) {
        OpKind::Register => i.op_register(n),
        _ => Register::None,
    }
}

/// Number of a vector or MMX register; 0 for others.
fn number(r: Register) -> u8 {
    match r {
        _ if r.is_xmm() => (r as usize - Register::XMM0 as usize) as u8,
        _ if r.is_mm() => (r as usize - Register::MM0 as usize) as u8,
        _ => 0,
    }
}

/// Slot of the low quadword of an operand that is a vector register.
fn low(i: &Instruction, n: u32) -> Slot {
    xmm(number(register(i, n)), 0)
}

/// Whether an operand is an MMX register.
fn is_mmx(i: &Instruction, n: u32) -> bool {
    register(i, n).is_mm()
}

/// Whether an operand of 16 bytes in memory must be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Required,
    Any,
}

/// Vector registers and operands.
impl Lifter {
    fn vector(&mut self, n: u8) -> Val {
        self.get_v(xmm(n, 0))
    }

    /// The vector register that an operand is.
    fn vector_register(&mut self, i: &Instruction, n: u32) -> Val {
        self.vector(number(register(i, n)))
    }

    /// Sets the vector register that operand 0 is.
    fn set_result(&mut self, i: &Instruction, v: Val) {
        self.set_v(low(i, 0), v);
    }

    /// Quadwords of a vector.
    fn halves(&mut self, v: Val) -> Halves {
        [0, 1].map(|half| self.op(Op::VExtract(Size::B8, half, v)))
    }

    /// A vector of two quadwords.
    fn pair(&mut self, [low, high]: Halves) -> Val {
        self.op(Op::VPair(low, high))
    }

    /// A vector of the same two quadwords always.
    fn vector_constant(&mut self, words: [u64; 2]) -> Val {
        let words = words.map(|word| self.constant(word));
        self.pair(words)
    }

    /// A vector of one quadword and 0.
    fn only_low(&mut self, v: Val) -> Val {
        let zero = self.constant(0);
        self.pair([v, zero])
    }

    fn vbin(&mut self, op: VBin, a: Val, b: Val) -> Val {
        match op {
            // Ways to write a constant, whatever the register was.
            VBin::Xor | VBin::Sub8 | VBin::Sub16 | VBin::Sub32 | VBin::Sub64 if a == b => {
                self.vector_constant([0; 2])
            }
            VBin::Eq8 | VBin::Eq16 | VBin::Eq32 | VBin::Eq64 if a == b => self.vector_constant([u64::MAX; 2]),
            VBin::And | VBin::Or if a == b => a,
            _ => self.op(Op::VBin(op, a, b)),
        }
    }

    /// Where an operand of 16 bytes in memory is.
    fn vector_address(&mut self, i: &Instruction, alignment: Alignment, write: bool) -> (Val, i32) {
        let at = self.effective(i);
        let (addr, offset) = self.linear(at, 16, write);
        if alignment == Alignment::Required && !self.is_aligned(addr, offset) {
            self.require_alignment(addr, offset, 16, trap::cause_with(trap::GP, 0));
            self.is_now_aligned(addr, offset);
        }
        (addr, offset)
    }

    /// A vector operand.
    fn vector_operand(&mut self, i: &Instruction, n: u32, alignment: Alignment) -> Val {
        if i.op_kind(n) == OpKind::Register {
            return self.vector_register(i, n);
        }
        let (addr, offset) = self.vector_address(i, alignment, false);
        self.op(Op::LoadV { addr, offset })
    }

    /// The low part of a vector register, zero-extended from `size` if that is memory, or all of its low quadword.
    fn low_operand(&mut self, i: &Instruction, n: u32, size: Size) -> Val {
        if i.op_kind(n) == OpKind::Register {
            return self.get(low(i, n));
        }
        let place = self.memory(i, size, Use::Read);
        self.load(place, false)
    }

    /// Calls a helper that changes no slot but MXCSR.
    fn mmx_helper(&mut self, number: u16, args: [Option<Val>; 2]) -> Val {
        let form = self.form(Size::B8, 0);
        self.ask(number, args, form)
    }

    /// MMn.
    fn mm(&mut self, r: Register) -> Val {
        let n = self.constant(number(r).into());
        self.mmx_helper(helper::MMX_READ, [Some(n), None])
    }

    /// Writes MMn, the last thing that the instruction does.
    fn set_mm(&mut self, r: Register, v: Val) {
        let n = self.constant(number(r).into());
        self.mmx_helper(helper::MMX_WRITE, [Some(n), Some(v)]);
    }

    /// An operand that is an MMX register or memory of `size`.
    fn mm_operand(&mut self, i: &Instruction, n: u32, size: Size) -> Val {
        if is_mmx(i, n) {
            return self.mm(register(i, n));
        }
        let place = self.memory(i, size, Use::Read);
        self.load(place, false)
    }

    /// An instruction of two vectors, the first its destination.
    fn two(&mut self, i: &Instruction, f: impl FnOnce(&mut Lifter, Val, Val) -> Val) {
        let b = self.vector_operand(i, 1, Alignment::Required);
        let a = self.vector_register(i, 0);
        let r = f(self, a, b);
        self.set_result(i, r);
    }

    /// An instruction of two MMX registers, the first its destination, `size` in memory.
    fn two_mmx(&mut self, i: &Instruction, size: Size, f: impl FnOnce(&mut Lifter, Val, Val) -> Val) {
        let b = self.mm_operand(i, 1, size);
        let a = self.mm(register(i, 0));
        let r = f(self, a, b);
        self.set_mm(register(i, 0), r);
    }

    /// An instruction of two operands whose halves don't mix, the first its destination: in MMX or vector registers.
    fn by_lanes(&mut self, i: &Instruction, f: impl FnOnce(&mut Lifter, Val, Val) -> Val) {
        if !is_mmx(i, 0) {
            return self.two(i, f);
        }
        self.two_mmx(i, Size::B8, |l, a, b| {
            let (a, b) = (l.only_low(a), l.only_low(b));
            let r = f(l, a, b);
            l.op(Op::VExtract(Size::B8, 0, r))
        });
    }
}

/// What MXCSR was before the floating-point ops of an instruction, if an exception may be unmasked.
#[must_use]
struct Guard(Option<Val>);

/// Exceptions.
impl Lifter {
    /// Before the first floating-point op, after the last load.
    fn guard(&mut self) -> Guard {
        Guard(
            self.is(Mode::SSE_UNMASKED)
                .then(|| self.mmx_helper(helper::SSE_BEGIN, [None; 2])),
        )
    }

    /// As [`Lifter::settle`], of a vector.
    fn settle_vector(&mut self, guard: Guard, fmt: Fmt, result: Val) {
        let results = match guard.0 {
            Some(_) => self.halves(result).to_vec(),
            None => Vec::new(),
        };
        self.settle(guard, fmt, &results);
    }

    /// After the last floating-point op, before anything is committed: raises what is unmasked. `results` are those of
    /// arithmetic, in words, as their exact underflow is an exception too.
    fn settle(&mut self, Guard(before): Guard, fmt: Fmt, results: &[Val]) {
        let Some(before) = before else {
            return;
        };
        let function = match fmt {
            Fmt::F32 => simd::float::DENORMAL_SINGLES,
            Fmt::F64 => simd::float::DENORMAL_DOUBLE,
        };
        let mut tiny = self.constant(0);
        for &word in results {
            let v = self.pure(function, [word]);
            tiny = self.or(tiny, v);
        }
        self.mmx_helper(helper::SSE_END, [Some(before), Some(tiny)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_alphabet() {
        for code in iced_x86::Code::values() {
            let mnemonic = code.mnemonic();
            let is_sse = code.cpuid_features().iter().any(|f| {
                matches!(
                    f,
                    CpuidFeature::SSE
                        | CpuidFeature::SSE2
                        | CpuidFeature::SSE3
                        | CpuidFeature::SSSE3
                        | CpuidFeature::SSE4_1
                        | CpuidFeature::SSE4_2
                        | CpuidFeature::AES
                        | CpuidFeature::PCLMULQDQ
                )
            });
            if is_sse {
                assert_eq!(
                    is_p(mnemonic),
                    format!("{mnemonic:?}").starts_with('P'),
                    "{mnemonic:?}"
                );
            }
        }
    }
}
