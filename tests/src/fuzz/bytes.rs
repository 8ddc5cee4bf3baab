//! Numbers out of a fuzzer's bytes. Behind the end everything is 0, so that each input means something.

/// A reader.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the beginning of an input.
    pub const fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Whether all is read.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// A little-endian number of `size` bytes, at most 8.
    pub fn number(&mut self, size: usize) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(size.min(8));
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// A number below `limit` from two bytes, 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number(2) as usize).checked_rem(limit).unwrap_or(0)
    }
}
