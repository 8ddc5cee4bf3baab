//! From instruction bits to a row of the table.
//!
//! ```text
//!   bits --length (2 or 4 bytes)--> bucket by opcode and funct3 --most specific match--> Row
//! ```
//!
//! A [`Row`] is all that is known of an instruction: its name, its bit pattern, its operands with the
//! function that gives its meaning ([`Form`]), and what it asks of the floating-point state. Decoder,
//! disassembler and lifter read the same rows, so that adding an instruction is adding a line.
//!
//! Patterns are checked when they are compiled: a wrong length or a field in the wrong place is a compile
//! error. Two rows may overlap only if one refines the other (`pause` is a `fence`, `c.jr` a `c.mv` with
//! rs2 = 0); the more specific one wins. What matches no row, or a row whose operands have a reserved
//! value, is an illegal instruction.
//!
//! Source: RISC-V Unprivileged ISA 20240411, chapters 1.5, 28 and 35.

use std::sync::LazyLock;

use super::rows::{self, Form};

/// What an instruction does with the floating-point state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fp {
    /// It has nothing to do with it.
    None,
    /// It is illegal if mstatus.FS is Off, and leaves the state as it is.
    Reads,
    /// It is illegal if mstatus.FS is Off, else it makes the state Dirty.
    Writes,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Row {
    /// Mnemonic.
    pub name: &'static str,
    /// The bits that say that it is this instruction.
    pub mask: u32,
    /// Their values.
    pub bits: u32,
    /// Length in bytes, 2 or 4.
    pub len: u8,
    /// Whether the pattern has a rounding mode field (`m`).
    pub has_rm: bool,
    /// What it does with the floating-point state.
    pub fp: Fp,
    /// Operands and meaning.
    pub form: Form,
}

impl Row {
    /// A row out of its pattern: `0` and `1` are fixed bits, letters fields, spaces nothing. In 32-bit
    /// patterns `d`, `s`, `t`, `u` (rd, rs1, rs2, rs3) and `m` (rm) have their places; every other letter
    /// stands for bits that the form's decoder takes apart.
    pub const fn new(name: &'static str, pattern: &'static str, fp: Fp, form: Form) -> Row {
        let text = pattern.as_bytes();
        let (mut mask, mut bits, mut len, mut has_rm) = (0u32, 0u32, 0u32, false);
        let mut i = text.len();
        while i > 0 {
            i -= 1;
            let letter = text[i];
            if letter == b' ' {
                continue;
            }
            assert!(len < 32, "the pattern is too long");
            match letter {
                b'0' => mask |= 1 << len,
                b'1' => {
                    mask |= 1 << len;
                    bits |= 1 << len;
                }
                b'a'..=b'z' => {}
                _ => panic!("a pattern consists of 0, 1, letters and spaces"),
            }
            has_rm |= letter == b'm';
            len += 1;
        }
        assert!(len == 16 || len == 32, "a pattern has 16 or 32 bits");
        assert!(
            (len == 32) == (bits & 3 == 3) && mask & 3 == 3,
            "the length doesn't fit the lowest bits"
        );
        if len == 32 {
            check_places(text);
        }
        Row {
            name,
            mask,
            bits,
            len: (len / 8) as u8,
            has_rm,
            fp,
            form,
        }
    }

    /// Whether the instruction's fixed bits are these.
    pub const fn matches(&self, insn: u32) -> bool {
        insn & self.mask == self.bits
    }
}

/// Asserts that register and rounding mode fields are where the manual has them.
const fn check_places(text: &[u8]) {
    let (mut i, mut bit) = (text.len(), 0);
    while i > 0 {
        i -= 1;
        let ok = match text[i] {
            b' ' => continue,
            b'd' => bit >= 7 && bit <= 11,
            b's' => bit >= 15 && bit <= 19,
            b't' => bit >= 20 && bit <= 24,
            b'u' => bit >= 27,
            b'm' => bit >= 12 && bit <= 14,
            _ => true,
        };
        assert!(ok, "a register or rounding mode field is in the wrong place");
        bit += 1;
    }
}

/// Number of buckets for 32-bit instructions: opcode without its lowest bits, and funct3.
const WIDE: usize = 256;
/// Number of buckets for 16-bit instructions: quadrant and funct3.
const NARROW: usize = 32;

fn wide_bucket(insn: u32) -> usize {
    ((insn >> 2 & 0x1f) << 3 | insn >> 12 & 7) as usize
}

fn narrow_bucket(insn: u32) -> usize {
    ((insn & 3) << 3 | insn >> 13 & 7) as usize
}

/// The rows by bucket; in each the most specific first.
struct Lookup {
    wide: Vec<Vec<&'static Row>>,
    narrow: Vec<Vec<&'static Row>>,
}

static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
    let mut lookup = Lookup {
        wide: vec![Vec::new(); WIDE],
        narrow: vec![Vec::new(); NARROW],
    };
    for row in rows::all() {
        // A bucket gets a row unless the bits that they both fix differ.
        let (buckets, field, spread): (_, u32, fn(usize) -> u32) = if row.len == 4 {
            (&mut lookup.wide, 0x707c, |b| {
                (b as u32 >> 3) << 2 | (b as u32 & 7) << 12
            })
        } else {
            (&mut lookup.narrow, 0xe003, |b| {
                b as u32 >> 3 | (b as u32 & 7) << 13
            })
        };
        for (b, bucket) in buckets.iter_mut().enumerate() {
            if (spread(b) ^ row.bits) & row.mask & field == 0 {
                bucket.push(row);
            }
        }
    }
    for bucket in lookup.wide.iter_mut().chain(&mut lookup.narrow) {
        bucket.sort_by_key(|row| std::cmp::Reverse(row.mask.count_ones()));
    }
    lookup
});

/// Length in bytes of the instruction whose first 16 bits these are. Encodings of 48 bits and more are
/// reserved, and taken as (illegal) 32-bit ones.
pub(crate) const fn length(low: u16) -> usize {
    if low & 3 == 3 { 4 } else { 2 }
}

/// The row of an instruction (a 16-bit one: zero-extended). Its operands may still be reserved.
pub(crate) fn decode(insn: u32) -> Option<&'static Row> {
    let bucket = if insn & 3 == 3 {
        &LOOKUP.wide[wide_bucket(insn)]
    } else {
        &LOOKUP.narrow[narrow_bucket(insn)]
    };
    bucket.iter().copied().find(|row| row.matches(insn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_overlap_only_by_refinement() {
        let rows: Vec<&Row> = rows::all().collect();
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[i + 1..] {
                assert_ne!(a.name, b.name, "twice in the table");
                let common = a.mask & b.mask;
                let overlap = a.len == b.len && (a.bits ^ b.bits) & common == 0;
                let refines = a.mask != b.mask && (common == a.mask || common == b.mask);
                assert!(!overlap || refines, "{} and {} overlap", a.name, b.name);
            }
        }
    }

    #[test]
    fn lookup_agrees_with_a_linear_search() {
        let mut random = crate::riscv64::tests::Random::new(1);
        for _ in 0..300_000 {
            let mut insn = random.next() as u32;
            if insn & 3 != 3 {
                insn &= 0xffff;
            }
            let best = rows::all()
                .filter(|row| (row.len == 4) == (insn & 3 == 3) && row.matches(insn))
                .max_by_key(|row| row.mask.count_ones());
            assert_eq!(
                decode(insn).map(|row| row.name),
                best.map(|row| row.name),
                "{insn:#x}"
            );
        }
    }
}
