//! String comparison: pcmpestri, pcmpestrm, pcmpistri, pcmpistrm (SDM 2B, 4.1).
//!
//! ```text
//!   lengths   IMPLICIT_LENGTH (halves), or EXPLICIT_LENGTH (rax or rdx)
//!   result 1  COMPARE once for each half of the first string: or (and, for ordered substrings) of the two
//!   result 2  POLARITY
//!   output    INDEX, or BIT_MASK, ELEMENT_MASK_LOW and ELEMENT_MASK_HIGH
//! ```
//!
//! *Control* is the immediate in bits 0 to 7, the first string's length in 8 to 15, the second's in 16 to 23, and
//! for [`COMPARE`] in bit 24 which half of the first string is given. The first string is the destination (xmm1).

/// A string's elements and how the instruction sees them.
#[derive(Clone, Copy)]
struct Control(u64);

impl Control {
    /// Elements in a register.
    const fn elements(self) -> u32 {
        if self.0 & 1 == 0 { 16 } else { 8 }
    }

    /// Lengths of the two strings.
    const fn lengths(self) -> (u32, u32) {
        ((self.0 >> 8 & 255) as u32, (self.0 >> 16 & 255) as u32)
    }

    /// Element `i` of a register, extended by its type.
    fn element(self, lo: u64, hi: u64, i: u32) -> i32 {
        let word = |at: u32| if at < 64 { lo >> at } else { hi >> (at - 64) };
        match self.0 & 3 {
            0 => i32::from(word(8 * i) as u8),
            1 => i32::from(word(16 * i) as u16),
            2 => i32::from(word(8 * i) as i8),
            _ => i32::from(word(16 * i) as i16),
        }
    }
}

/// Elements before the first zero.
fn implicit(lo: u64, hi: u64, control: u64) -> u64 {
    let control = Control(control);
    let n = control.elements();
    (0..n)
        .find(|&i| control.element(lo, hi, i) == 0)
        .unwrap_or(n)
        .into()
}

/// The magnitude of a signed number, at most the elements in a register.
fn explicit(length: u64, control: u64) -> u64 {
    (length as i64)
        .unsigned_abs()
        .min(Control(control).elements().into())
}

/// One half of the first string against the second: the bits of result 1.
fn compare(half: u64, lo: u64, hi: u64, control: u64) -> u64 {
    let control = Control(control);
    let n = control.elements();
    let (length1, length2) = control.lengths();
    let first = if control.0 >> 24 & 1 == 0 { 0 } else { n / 2 };
    let one = |i: u32| control.element(half, 0, i - first);
    let two = |j: u32| control.element(lo, hi, j);
    let half = first..first + n / 2;
    let valid = half.start..half.end.min(length1);
    let holds = |j: u32| match control.0 >> 2 & 3 {
        // Equal any: the second's element is in the set.
        0 => j < length2 && valid.clone().any(|i| one(i) == two(j)),
        // Ranges: between two of the first's; a range without an end counts for nothing.
        1 => {
            j < length2
                && valid
                    .clone()
                    .step_by(2)
                    .any(|i| i + 1 < length1 && (one(i)..=one(i + 1)).contains(&two(j)))
        }
        // Equal each; beyond both ends they are equal.
        2 => {
            half.contains(&j)
                && match (j < length1, j < length2) {
                    (true, true) => one(j) == two(j),
                    (one, two) => one == two,
                }
        }
        // Equal ordered: the first string begins at j, as far as the register shows.
        _ => valid
            .clone()
            .take_while(|i| i + j < n)
            .all(|i| i + j < length2 && one(i) == two(i + j)),
    };
    (0..n).fold(0, |bits, j| bits | u64::from(holds(j)) << j)
}

/// Result 2 from result 1.
fn polarity(bits: u64, control: u64) -> u64 {
    let control = Control(control);
    let all = (1 << control.elements()) - 1;
    match control.0 >> 4 & 3 {
        1 => bits ^ all,
        3 => bits ^ ((1 << control.lengths().1) - 1) & all,
        _ => bits,
    }
}

/// The lowest or highest bit set, or the number of elements.
fn index(bits: u64, control: u64) -> u64 {
    if bits == 0 {
        Control(control).elements().into()
    } else if control & 0x40 == 0 {
        bits.trailing_zeros().into()
    } else {
        bits.ilog2().into()
    }
}

/// Elements of ones where a bit is set, from element `first` on.
fn expand(bits: u64, control: u64, half: u32) -> u64 {
    let n = Control(control).elements() / 2;
    let width = 64 / n;
    (0..n)
        .filter(|i| bits >> (half * n + i) & 1 != 0)
        .fold(0, |word, i| word | u64::MAX >> (64 - width) << (i * width))
}

functions! { super::crypto::END;
    /// Length of a string that ends with a zero: arguments are low and high half and the control.
    IMPLICIT_LENGTH = |[lo, hi, control, _]| implicit(lo, hi, control);
    /// Length by a register, sign-extended to 64 bits: arguments are that and the control.
    EXPLICIT_LENGTH = |[length, control, ..]| explicit(length, control);
    /// Part of result 1: arguments are a half of the first string, the halves of the second, and the control.
    COMPARE = |[half, lo, hi, control]| compare(half, lo, hi, control);
    /// Result 2: arguments are result 1 and the control.
    POLARITY = |[bits, control, ..]| polarity(bits, control);
    /// The index that goes to ecx: arguments are result 2 and the control.
    INDEX = |[bits, control, ..]| index(bits, control);
    /// Low half of a mask of elements: arguments are result 2 and the control.
    ELEMENT_MASK_LOW = |[bits, control, ..]| expand(bits, control, 0);
    /// High half of a mask of elements.
    ELEMENT_MASK_HIGH = |[bits, control, ..]| expand(bits, control, 1);
}
