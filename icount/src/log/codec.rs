//! Bytes and variable-length numbers of the log.
//!
//! A number is little-endian base 128 (LEB128): seven bits a byte, lowest first, the top bit set in
//! all bytes but the last; at most ten bytes for 64 bits. Reading never goes past the slice, and
//! says `None` where the bytes end or the number does not fit.

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is left to read of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next number, if it fits 32 bits.
    pub fn number32(&mut self) -> Option<u32> {
        self.number().and_then(|n| u32::try_from(n).ok())
    }

    /// Everything that is left.
    pub const fn rest(&mut self) -> &'a [u8] {
        let rest = self.0;
        self.0 = &[];
        rest
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(values in prop::collection::vec(any::<u64>().prop_flat_map(|v| (0u32..64).prop_map(move |s| v >> s)), 0..50)) {
            let mut out = Vec::new();
            values.iter().for_each(|&v| put(&mut out, v));
            let mut bytes = Bytes(&out);
            for value in values {
                prop_assert_eq!(bytes.number(), Some(value));
            }
            prop_assert!(bytes.is_empty());
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let mut out = Vec::new();
        put(&mut out, u64::MAX);
        assert_eq!(out, [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        out[9] = 2;
        assert_eq!(Bytes(&out).number(), None);
        assert_eq!(Bytes(&[0x80; 11]).number(), None);
        assert_eq!(Bytes(&[0x80]).number(), None);
        put(&mut out, 1 << 32);
        assert_eq!(Bytes(&out[10..]).number32(), None);
    }
}
