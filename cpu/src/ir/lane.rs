//! Elements of 64-bit words.

/// An element.
pub(crate) trait Lane: Copy + PartialOrd {
    /// Its bits.
    const BITS: u32;
    /// The low bits of a word.
    fn of(word: u64) -> Self;
    /// Zero-extended.
    fn bits(self) -> u64;
}

macro_rules! lane {
    ($($t:ty, $unsigned:ty;)+) => {
        $(impl Lane for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn of(word: u64) -> $t {
                word as $t
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        })+
    };
}

lane! { u8, u8; i8, u8; u16, u16; i16, u16; u32, u32; i32, u32; u64, u64; i64, u64; }

/// Element `i`.
#[inline(always)]
pub(crate) fn element<T: Lane>(word: u64, i: u32) -> T {
    T::of(word >> (i * T::BITS))
}

/// The word of which `f` says the elements.
#[inline(always)]
pub(crate) fn each<T: Lane>(f: impl Fn(u32) -> T) -> u64 {
    (0..64 / T::BITS).fold(0, |word, i| word | f(i).bits() << (i * T::BITS))
}

/// Element by element.
#[inline(always)]
pub(crate) fn map<T: Lane>(a: u64, f: impl Fn(T) -> T) -> u64 {
    each(|i| f(element(a, i)))
}

/// Element by element of two words.
#[inline(always)]
pub(crate) fn zip<T: Lane>(a: u64, b: u64, f: impl Fn(T, T) -> T) -> u64 {
    each(|i| f(element(a, i), element(b, i)))
}

/// All ones where a comparison of elements holds.
#[inline(always)]
pub(crate) fn compare<T: Lane>(a: u64, b: u64, f: impl Fn(&T, &T) -> bool) -> u64 {
    zip(a, b, |x: T, y: T| T::of(if f(&x, &y) { u64::MAX } else { 0 }))
}

/// From the elements of two words one of half as many elements: neighbours meet, those of `a` below.
#[inline(always)]
pub(crate) fn neighbours<T: Lane>(a: u64, b: u64, f: impl Fn(T, T) -> T) -> u64 {
    let pairs = 32 / T::BITS;
    each(|i| {
        let (word, at) = if i < pairs {
            (a, 2 * i)
        } else {
            (b, 2 * (i - pairs))
        };
        f(element(word, at), element(word, at + 1))
    })
}

/// The elements of two words, each made narrower, those of `a` below.
#[inline(always)]
pub(crate) fn narrow<W: Lane, N: Lane>(a: u64, b: u64, f: impl Fn(W) -> N) -> u64 {
    let wide = 64 / W::BITS;
    each(|i| {
        f(if i < wide {
            element(a, i)
        } else {
            element(b, i - wide)
        })
    })
}

/// The low elements of a word, each made wider.
#[inline(always)]
pub(crate) fn widen<N: Lane, W: Lane>(a: u64, f: impl Fn(N) -> W) -> u64 {
    each(|i| f(element(a, i)))
}
