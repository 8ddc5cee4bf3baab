//! What each op on vectors yields: see `eval.rs`.

use super::lane::{Lane, compare, each, element, map, narrow, neighbours, widen, zip};
use super::vector::{VBin, VConvert, VImm, VImm2, VUn, Vector};
use super::{
    FBin, FCond, FUn, Fmt, Int, Rm, Size, eval_fbin, eval_fcmp, eval_ffromint, eval_ftoint, eval_fun,
};
use crate::FloatRules;
use crate::softfloat::Round;

fn words(a: Vector, b: Vector, f: impl Fn(u64, u64) -> u64) -> Vector {
    [f(a[0], b[0]), f(a[1], b[1])]
}

fn lanes<T: Lane>(a: Vector, b: Vector, f: impl Fn(T, T) -> T) -> Vector {
    words(a, b, |a, b| zip(a, b, &f))
}

fn mask<T: Lane>(a: Vector, b: Vector, f: impl Fn(&T, &T) -> bool) -> Vector {
    words(a, b, |a, b| compare(a, b, &f))
}

/// Shifts that leave nothing if the count is too great.
fn shift<T: Lane>(a: Vector, count: u64, f: impl Fn(T, u32) -> T) -> Vector {
    if count < T::BITS.into() {
        a.map(|word| map(word, |x| f(x, count as u32)))
    } else {
        [0; 2]
    }
}

/// Arithmetic right shifts.
fn shift_sign<T: Lane>(a: Vector, count: u64, f: impl Fn(T, u32) -> T) -> Vector {
    let count = count.min(u64::from(T::BITS) - 1) as u32;
    a.map(|word| map(word, |x| f(x, count)))
}

fn pack<W: Lane, N: Lane>(a: Vector, b: Vector, f: impl Fn(W) -> N) -> Vector {
    [a, b].map(|v| narrow(v[0], v[1], &f))
}

fn pairs<T: Lane>(a: Vector, b: Vector, f: impl Fn(T, T) -> T) -> Vector {
    [a, b].map(|v| neighbours(v[0], v[1], &f))
}

/// The elements of two words by turns.
fn interleave<T: Lane>(a: u64, b: u64) -> Vector {
    let part = |first| each(|i| element::<T>(if i % 2 == 0 { a } else { b }, first + i / 2));
    [part(0), part(32 / T::BITS)]
}

fn bytes(v: Vector) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&v[0].to_le_bytes());
    bytes[8..].copy_from_slice(&v[1].to_le_bytes());
    bytes
}

/// The vector of which `f` says the bytes.
fn from_bytes(f: impl Fn(usize) -> u8) -> Vector {
    [0, 8].map(|first| u64::from_le_bytes(std::array::from_fn(|i| f(first + i))))
}

/// Sums of neighbours' products.
fn multiply_add(a: u64, b: u64) -> u64 {
    each(|i| {
        let product = |i| i32::from(element::<i16>(a, i)) * i32::from(element::<i16>(b, i));
        product(2 * i).wrapping_add(product(2 * i + 1))
    })
}

/// Sums of neighbours' products, unsigned by signed, saturated.
fn multiply_add_bytes(a: u64, b: u64) -> u64 {
    each(|i| {
        let product = |i| i32::from(element::<u8>(a, i)) * i32::from(element::<i8>(b, i));
        (product(2 * i) + product(2 * i + 1)).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    })
}

fn sum_of_differences(a: u64, b: u64) -> u64 {
    (0..8)
        .map(|i| u64::from(element::<u8>(a, i).abs_diff(element(b, i))))
        .sum()
}

/// A [`VBin`] on two vectors.
pub fn eval_vbin(op: VBin, a: Vector, b: Vector) -> Vector {
    match op {
        VBin::And => words(a, b, |a, b| a & b),
        VBin::Or => words(a, b, |a, b| a | b),
        VBin::Xor => words(a, b, |a, b| a ^ b),
        VBin::AndNot => words(a, b, |a, b| !a & b),
        VBin::Add8 => lanes(a, b, u8::wrapping_add),
        VBin::Add16 => lanes(a, b, u16::wrapping_add),
        VBin::Add32 => lanes(a, b, u32::wrapping_add),
        VBin::Add64 => lanes(a, b, u64::wrapping_add),
        VBin::Sub8 => lanes(a, b, u8::wrapping_sub),
        VBin::Sub16 => lanes(a, b, u16::wrapping_sub),
        VBin::Sub32 => lanes(a, b, u32::wrapping_sub),
        VBin::Sub64 => lanes(a, b, u64::wrapping_sub),
        VBin::AddSatS8 => lanes(a, b, i8::saturating_add),
        VBin::AddSatS16 => lanes(a, b, i16::saturating_add),
        VBin::AddSatU8 => lanes(a, b, u8::saturating_add),
        VBin::AddSatU16 => lanes(a, b, u16::saturating_add),
        VBin::SubSatS8 => lanes(a, b, i8::saturating_sub),
        VBin::SubSatS16 => lanes(a, b, i16::saturating_sub),
        VBin::SubSatU8 => lanes(a, b, u8::saturating_sub),
        VBin::SubSatU16 => lanes(a, b, u16::saturating_sub),
        VBin::Eq8 => mask(a, b, u8::eq),
        VBin::Eq16 => mask(a, b, u16::eq),
        VBin::Eq32 => mask(a, b, u32::eq),
        VBin::Eq64 => mask(a, b, u64::eq),
        VBin::GtS8 => mask(a, b, i8::gt),
        VBin::GtS16 => mask(a, b, i16::gt),
        VBin::GtS32 => mask(a, b, i32::gt),
        VBin::GtS64 => mask(a, b, i64::gt),
        VBin::MinS8 => lanes(a, b, i8::min),
        VBin::MinS16 => lanes(a, b, i16::min),
        VBin::MinS32 => lanes(a, b, i32::min),
        VBin::MinU8 => lanes(a, b, u8::min),
        VBin::MinU16 => lanes(a, b, u16::min),
        VBin::MinU32 => lanes(a, b, u32::min),
        VBin::MaxS8 => lanes(a, b, i8::max),
        VBin::MaxS16 => lanes(a, b, i16::max),
        VBin::MaxS32 => lanes(a, b, i32::max),
        VBin::MaxU8 => lanes(a, b, u8::max),
        VBin::MaxU16 => lanes(a, b, u16::max),
        VBin::MaxU32 => lanes(a, b, u32::max),
        VBin::AvgU8 => lanes(a, b, |x: u8, y: u8| {
            (u16::from(x) + u16::from(y)).div_ceil(2) as u8
        }),
        VBin::AvgU16 => lanes(a, b, |x: u16, y: u16| {
            (u32::from(x) + u32::from(y)).div_ceil(2) as u16
        }),
        VBin::MulLow16 => lanes(a, b, u16::wrapping_mul),
        VBin::MulLow32 => lanes(a, b, u32::wrapping_mul),
        VBin::MulHighS16 => lanes(a, b, |x: i16, y: i16| {
            ((i32::from(x) * i32::from(y)) >> 16) as i16
        }),
        VBin::MulHighU16 => lanes(a, b, |x: u16, y: u16| {
            ((u32::from(x) * u32::from(y)) >> 16) as u16
        }),
        VBin::MulRoundS16 => lanes(a, b, |x: i16, y: i16| {
            ((((i32::from(x) * i32::from(y)) >> 14) + 1) >> 1) as i16
        }),
        VBin::MulWideS32 => words(a, b, |a, b| {
            i64::from(a as i32).wrapping_mul(i64::from(b as i32)) as u64
        }),
        VBin::MulWideU32 => words(a, b, |a, b| u64::from(a as u32) * u64::from(b as u32)),
        VBin::MulAddS16 => words(a, b, multiply_add),
        VBin::MulAddUS8 => words(a, b, multiply_add_bytes),
        VBin::SumDiffU8 => words(a, b, sum_of_differences),
        VBin::Sign8 => lanes(a, b, |x: i8, y: i8| x.wrapping_mul(y.signum())),
        VBin::Sign16 => lanes(a, b, |x: i16, y: i16| x.wrapping_mul(y.signum())),
        VBin::Sign32 => lanes(a, b, |x: i32, y: i32| x.wrapping_mul(y.signum())),
        VBin::Shl16 => shift(a, b[0], |x: u16, n| x << n),
        VBin::Shl32 => shift(a, b[0], |x: u32, n| x << n),
        VBin::Shl64 => shift(a, b[0], |x: u64, n| x << n),
        VBin::Shr16 => shift(a, b[0], |x: u16, n| x >> n),
        VBin::Shr32 => shift(a, b[0], |x: u32, n| x >> n),
        VBin::Shr64 => shift(a, b[0], |x: u64, n| x >> n),
        VBin::Sar16 => shift_sign(a, b[0], |x: i16, n| x >> n),
        VBin::Sar32 => shift_sign(a, b[0], |x: i32, n| x >> n),
        VBin::PackS16 => pack(a, b, |x: i16| x.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
        VBin::PackS32 => pack(a, b, |x: i32| x.clamp(i16::MIN.into(), i16::MAX.into()) as i16),
        VBin::PackU16 => pack(a, b, |x: i16| x.clamp(0, u8::MAX.into()) as u8),
        VBin::PackU32 => pack(a, b, |x: i32| x.clamp(0, u16::MAX.into()) as u16),
        VBin::InterleaveLow8 => interleave::<u8>(a[0], b[0]),
        VBin::InterleaveLow16 => interleave::<u16>(a[0], b[0]),
        VBin::InterleaveLow32 => interleave::<u32>(a[0], b[0]),
        VBin::InterleaveLow64 => [a[0], b[0]],
        VBin::InterleaveHigh8 => interleave::<u8>(a[1], b[1]),
        VBin::InterleaveHigh16 => interleave::<u16>(a[1], b[1]),
        VBin::InterleaveHigh32 => interleave::<u32>(a[1], b[1]),
        VBin::InterleaveHigh64 => [a[1], b[1]],
        VBin::Permute8 => {
            let (from, control) = (bytes(a), bytes(b));
            from_bytes(|i| match control[i] {
                0x80.. => 0,
                n => from[usize::from(n & 15)],
            })
        }
        VBin::AddPairs16 => pairs(a, b, u16::wrapping_add),
        VBin::AddPairs32 => pairs(a, b, u32::wrapping_add),
        VBin::AddPairsSatS16 => pairs(a, b, i16::saturating_add),
        VBin::SubPairs16 => pairs(a, b, u16::wrapping_sub),
        VBin::SubPairs32 => pairs(a, b, u32::wrapping_sub),
        VBin::SubPairsSatS16 => pairs(a, b, i16::saturating_sub),
    }
}

/// Two words of low elements made wider; a word's worth of `N` starts `shift` bits up for the second.
fn wider<N: Lane, W: Lane>(v: Vector, f: impl Fn(N) -> W) -> Vector {
    let shift = 64 * N::BITS / W::BITS;
    [widen(v[0], &f), widen(v[0] >> shift, &f)]
}

/// A [`VUn`] on a vector.
pub fn eval_vun(op: VUn, v: Vector) -> Vector {
    match op {
        VUn::Low64 => [v[0], 0],
        VUn::Abs8 => v.map(|word| map(word, i8::wrapping_abs)),
        VUn::Abs16 => v.map(|word| map(word, i16::wrapping_abs)),
        VUn::Abs32 => v.map(|word| map(word, i32::wrapping_abs)),
        VUn::WidenS8To16 => wider(v, |x: i8| i16::from(x)),
        VUn::WidenS8To32 => wider(v, |x: i8| i32::from(x)),
        VUn::WidenS8To64 => wider(v, |x: i8| i64::from(x)),
        VUn::WidenS16To32 => wider(v, |x: i16| i32::from(x)),
        VUn::WidenS16To64 => wider(v, |x: i16| i64::from(x)),
        VUn::WidenS32To64 => wider(v, |x: i32| i64::from(x)),
        VUn::WidenU8To16 => wider(v, |x: u8| u16::from(x)),
        VUn::WidenU8To32 => wider(v, |x: u8| u32::from(x)),
        VUn::WidenU8To64 => wider(v, |x: u8| u64::from(x)),
        VUn::WidenU16To32 => wider(v, |x: u16| u32::from(x)),
        VUn::WidenU16To64 => wider(v, |x: u16| u64::from(x)),
        VUn::WidenU32To64 => wider(v, |x: u32| u64::from(x)),
    }
}

/// Four words of a word, chosen by two bits each.
fn shuffled_words(word: u64, control: u8) -> u64 {
    each(|i| element::<u16>(word, u32::from(control >> (2 * i) & 3)))
}

fn dword(v: Vector, n: u8) -> u32 {
    element(v[usize::from(n >> 1 & 1)], u32::from(n & 1))
}

/// A word of two dwords, chosen by two bits each.
fn dwords(v: Vector, control: u8) -> u64 {
    u64::from(dword(v, control & 3)) | u64::from(dword(v, control >> 2 & 3)) << 32
}

/// A [`VImm`] on a vector.
pub fn eval_vimm(op: VImm, v: Vector, imm: u8) -> Vector {
    let n = u64::from(imm);
    let from = bytes(v);
    let at = usize::from(imm);
    match op {
        VImm::Shl16 => eval_vbin(VBin::Shl16, v, [n, 0]),
        VImm::Shl32 => eval_vbin(VBin::Shl32, v, [n, 0]),
        VImm::Shl64 => eval_vbin(VBin::Shl64, v, [n, 0]),
        VImm::Shr16 => eval_vbin(VBin::Shr16, v, [n, 0]),
        VImm::Shr32 => eval_vbin(VBin::Shr32, v, [n, 0]),
        VImm::Shr64 => eval_vbin(VBin::Shr64, v, [n, 0]),
        VImm::Sar16 => eval_vbin(VBin::Sar16, v, [n, 0]),
        VImm::Sar32 => eval_vbin(VBin::Sar32, v, [n, 0]),
        VImm::ShlBytes => from_bytes(|i| if i >= at { from[i - at] } else { 0 }),
        VImm::ShrBytes => from_bytes(|i| from.get(i + at).copied().unwrap_or(0)),
        VImm::Shuffle32 => [dwords(v, imm), dwords(v, imm >> 4)],
        VImm::ShuffleLow16 => [shuffled_words(v[0], imm), v[1]],
        VImm::ShuffleHigh16 => [v[0], shuffled_words(v[1], imm)],
    }
}

/// A [`VImm2`] on two vectors.
pub fn eval_vimm2(op: VImm2, a: Vector, b: Vector, imm: u8) -> Vector {
    match op {
        VImm2::Align => {
            let (low, high) = (bytes(b), bytes(a));
            let all = |i: usize| low.iter().chain(&high).nth(i).copied().unwrap_or(0);
            from_bytes(|i| all(i + usize::from(imm)))
        }
        VImm2::Blend16 => {
            let (x, y) = (bytes(a), bytes(b));
            from_bytes(|i| if imm >> (i / 2) & 1 != 0 { y[i] } else { x[i] })
        }
        VImm2::Shuffle32 => [dwords(a, imm), dwords(b, imm >> 4)],
        VImm2::Shuffle64 => [a[usize::from(imm & 1)], b[usize::from(imm >> 1 & 1)]],
    }
}

/// Elements of `b` where the highest bit of the mask's element is set, else of `a`.
pub fn eval_vselect(size: Size, mask: Vector, a: Vector, b: Vector) -> Vector {
    fn signs<T: Lane>(mask: Vector, f: impl Fn(T) -> T) -> Vector {
        mask.map(|word| map(word, &f))
    }
    let mask = match size {
        Size::B1 => signs(mask, |x: i8| x >> 7),
        Size::B2 => signs(mask, |x: i16| x >> 15),
        Size::B4 => signs(mask, |x: i32| x >> 31),
        Size::B8 => signs(mask, |x: i64| x >> 63),
    };
    [0, 1].map(|i| a[i] & !mask[i] | b[i] & mask[i])
}

/// Word and bit of an element; the index is taken modulo the number of elements.
fn place(size: Size, index: u8) -> (usize, u64) {
    let at = u64::from(index) * size.bytes() % 16;
    ((at / 8) as usize, at % 8 * 8)
}

/// An element, zero-extended.
pub fn eval_vextract(size: Size, index: u8, v: Vector) -> u64 {
    let (word, shift) = place(size, index);
    v[word] >> shift & size.mask()
}

/// A vector with an element replaced by the low bits of `value`.
pub fn eval_vinsert(size: Size, index: u8, mut v: Vector, value: u64) -> Vector {
    let (word, shift) = place(size, index);
    v[word] = v[word] & !(size.mask() << shift) | (value & size.mask()) << shift;
    v
}

/// The highest bits of the elements.
pub fn eval_vmask(size: Size, v: Vector) -> u64 {
    let n = 16 / size.bytes() as u8;
    (0..n).fold(0, |mask, i| {
        let sign = eval_vextract(size, i, v) >> (8 * size.bytes() - 1);
        mask | sign << i
    })
}

/// The vector of which `f` says the numbers of a format, by their index.
fn numbers(fmt: Fmt, mut f: impl FnMut(usize) -> u64) -> Vector {
    match fmt {
        Fmt::F32 => [0, 2].map(|i| (f(i) & 0xffff_ffff) | f(i + 1) << 32),
        Fmt::F64 => [0, 1].map(f),
    }
}

fn number(fmt: Fmt, v: Vector, i: usize) -> u64 {
    match fmt {
        Fmt::F32 => v[i / 2] >> (32 * (i % 2)) & 0xffff_ffff,
        Fmt::F64 => v[i],
    }
}

/// An [`FBin`] on packed numbers; raises flags in `fp_env`.
pub fn eval_vfbin(rules: FloatRules, op: FBin, fmt: Fmt, a: Vector, b: Vector, fp_env: &mut u64) -> Vector {
    // Flags that one raises change nothing for the others.
    numbers(fmt, |i| {
        eval_fbin(
            rules,
            op,
            fmt,
            Rm::Dynamic,
            number(fmt, a, i),
            number(fmt, b, i),
            fp_env,
        )
    })
}

/// Square roots; raises flags in `fp_env`.
pub fn eval_vfsqrt(rules: FloatRules, fmt: Fmt, v: Vector, fp_env: &mut u64) -> Vector {
    numbers(fmt, |i| {
        eval_fun(rules, FUn::Sqrt, fmt, Rm::Dynamic, number(fmt, v, i), fp_env)
    })
}

/// All ones where an [`FCond`] holds (with `negate` where it doesn't), else 0; raises flags in `fp_env`.
pub fn eval_vfcmp(
    rules: FloatRules,
    cond: FCond,
    negate: bool,
    fmt: Fmt,
    a: Vector,
    b: Vector,
    fp_env: &mut u64,
) -> Vector {
    numbers(fmt, |i| {
        let holds = eval_fcmp(rules, cond, fmt, number(fmt, a, i), number(fmt, b, i), fp_env);
        if holds != negate { u64::MAX } else { 0 }
    })
}

/// A [`VConvert`]; raises flags in `fp_env`.
pub fn eval_vconvert(rules: FloatRules, op: VConvert, v: Vector, fp_env: &mut u64) -> Vector {
    const CUT: Rm = Rm::Static(Round::TowardZero);
    let mut to_int = |fmt, rm, i| eval_ftoint(rules, fmt, Int::I32, rm, number(fmt, v, i), fp_env);
    let two = |[a, b]: [u64; 2]| [(a & 0xffff_ffff) | b << 32, 0];
    match op {
        VConvert::F32ToI32 => numbers(Fmt::F32, |i| to_int(Fmt::F32, Rm::Dynamic, i)),
        VConvert::F32ToI32Cut => numbers(Fmt::F32, |i| to_int(Fmt::F32, CUT, i)),
        VConvert::F64ToI32 => two([0, 1].map(|i| to_int(Fmt::F64, Rm::Dynamic, i))),
        VConvert::F64ToI32Cut => two([0, 1].map(|i| to_int(Fmt::F64, CUT, i))),
        VConvert::I32ToF32 | VConvert::I32ToF64 => {
            let to = if op == VConvert::I32ToF32 {
                Fmt::F32
            } else {
                Fmt::F64
            };
            numbers(to, |i| {
                eval_ffromint(rules, to, Int::I32, Rm::Dynamic, number(Fmt::F32, v, i), fp_env)
            })
        }
        VConvert::F32ToF64 => numbers(Fmt::F64, |i| {
            eval_fun(
                rules,
                FUn::Convert,
                Fmt::F32,
                Rm::Dynamic,
                number(Fmt::F32, v, i),
                fp_env,
            )
        }),
        VConvert::F64ToF32 => {
            two([0, 1].map(|i| eval_fun(rules, FUn::Convert, Fmt::F64, Rm::Dynamic, v[i], fp_env)))
        }
    }
}
