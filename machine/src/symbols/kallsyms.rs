//! Linux's symbol tables as they lie in a kernel's image: `scripts/kallsyms.c` of Linux 4.20 and later, 64 bits,
//! little-endian.
//!
//! ```text
//!   to 6.4:    addresses  num_syms  names  markers  [seqs]  token_table  token_index
//!   from 6.5:  num_syms  names  markers  token_table  token_index  addresses  [seqs]
//! ```
//!
//! Each table starts at a multiple of 8. No table says where another is, so they are found from the one that can be told by
//! its content:
//!
//! - `token_table`: 256 strings, each ended by a NUL: what each byte of a packed name stands for. A byte that names use as
//!   it is stands for itself, and all digits are such bytes: their ten strings are [`DIGITS`].
//! - `token_index`: 256 numbers of 16 bits, where each string starts: shows that this is a token table, and where it begins.
//! - `names`: a length (one byte, or two of 7 bits since 6.1) and as many packed bytes each; unpacked, the first character
//!   is the type as `nm` has it. In front of it is `num_syms` (32 bits).
//! - `markers`: 32 bits for every 256th name, its place in `names`: shows that these are the names.
//! - *addresses*: 32 bits each with a base of 64 bits behind (`CONFIG_KALLSYMS_BASE_RELATIVE`), or 64 bits each. They
//!   ascend, which shows that they are the addresses. With `CONFIG_KALLSYMS_ABSOLUTE_PERCPU` (x86) an offset that isn't
//!   negative is an address itself, one of the variables of each CPU, and a negative one counts down from base - 1.
//!
//! Everything here may be a guest's invention: sizes are bounded, and so is all searching ([`Effort`]).

use super::{KernelSymbol, Kind};

/// What gives a token table away.
pub(super) const DIGITS: &[u8; 20] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";

/// The first token of [`DIGITS`].
const FIRST_DIGIT: usize = b'0' as usize;
/// A token table is not longer: a name has 511 characters at most.
const MOST_TOKENS: usize = 256 * 512;
/// The most symbols looked for; Debian's kernel has 10^5.
const MOST_SYMBOLS: usize = 1 << 20;
/// The longest name, its type included (`KSYM_NAME_LEN`).
const LONGEST: usize = 512;
/// The most bytes of all names together.
const MOST_TEXT: usize = 64 << 20;

/// How much may still be looked at, so that no memory makes a search endless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Places with [`DIGITS`].
    pub places: u32,
    /// Those of them that are token tables, for which the other tables are searched.
    pub tables: u32,
    /// Names stepped over.
    pub names: u64,
}

impl Effort {
    /// Enough for any kernel, some seconds of it wasted at most.
    pub const ENOUGH: Effort = Effort {
        places: 1 << 12,
        tables: 64,
        names: 1 << 26,
    };
}

/// A token table that was found.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The strings, one after the other.
    text: Vec<u8>,
    /// Where each begins, and the last ends, in `text`; the NUL is not of it.
    ranges: Vec<(usize, usize)>,
    /// Where the table begins, in the bytes that it was found in.
    pub start: usize,
    /// Where `token_index` ends.
    pub end: usize,
}

impl Tokens {
    /// The token table whose digits are at `digits`, if one is there.
    pub fn find(bytes: &[u8], digits: usize) -> Option<Tokens> {
        // The NUL behind the first token is the 48th before the digits.
        let before = bytes.get(digits.saturating_sub(MOST_TOKENS)..digits)?;
        let nul = memchr::memrchr_iter(0, before).nth(FIRST_DIGIT - 1)?;
        let first_end = digits - before.len() + nul;
        let mut ends = vec![first_end];
        let after = bytes.get(first_end + 1..bytes.len().min(first_end + 1 + MOST_TOKENS))?;
        ends.extend(
            memchr::memchr_iter(0, after)
                .take(255)
                .map(|end| first_end + 1 + end),
        );
        let last_end = *ends.get(255)?;
        // The index begins with 0 and the length of the first token, which nothing else tells.
        let index = (last_end + 1).next_multiple_of(8);
        let entry =
            |i: usize| word::<2>(bytes, index + 2 * i).map(|word| usize::from(u16::from_le_bytes(word)));
        let start = (first_end + 1).checked_sub(entry(1)?)?;
        let mut token = start;
        for (i, end) in ends.iter().enumerate() {
            if start + entry(i)? != token {
                return None;
            }
            token = end + 1;
        }
        if !start.is_multiple_of(8) {
            return None;
        }
        let mut ranges = Vec::with_capacity(256);
        let mut from = 0;
        for end in &ends {
            ranges.push((from, end - start));
            from = end + 1 - start;
        }
        Some(Tokens {
            text: bytes.get(start..last_end)?.to_vec(),
            ranges,
            start,
            end: index + 512,
        })
    }

    fn token(&self, byte: u8) -> &[u8] {
        let (from, to) = self.ranges[usize::from(byte)];
        &self.text[from..to]
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_le_bytes)
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_le_bytes)
}

/// Where the next packed name of `names` is, its length told apart from it.
fn packed(names: &[u8], at: usize) -> Option<(usize, usize)> {
    let low = usize::from(*names.get(at)?);
    let (start, len) = match low {
        0..0x80 => (at + 1, low),
        _ => (at + 2, low & 0x7f | usize::from(*names.get(at + 1)?) << 7),
    };
    ((1..LONGEST).contains(&len) && start + len <= names.len()).then_some((start, start + len))
}

/// Names that were found.
struct Names {
    /// Where `num_syms` is.
    count_at: usize,
    count: usize,
}

/// Finds the names in front of a token table.
fn names(bytes: &[u8], tokens: &Tokens, effort: &mut Effort) -> Option<Names> {
    let bytes = &bytes[..tokens.start];
    (8..=tokens.start).rev().step_by(8).find_map(|start| {
        let count = word64(bytes, start - 8)?;
        let count = usize::try_from(count)
            .ok()
            .filter(|count| (1..=MOST_SYMBOLS).contains(count))?;
        are_names(&bytes[start..], count, effort).then_some(Names {
            count_at: start - 8,
            count,
        })
    })
}

/// Whether `bytes` begins with so many names and their markers.
fn are_names(bytes: &[u8], count: usize, effort: &mut Effort) -> bool {
    let mut markers = Vec::new();
    let mut at = 0;
    for i in 0..count {
        if effort.names == 0 {
            return false;
        }
        effort.names -= 1;
        if i % 256 == 0 {
            markers.push(at);
        }
        match packed(bytes, at) {
            Some((_, end)) => at = end,
            None => return false,
        }
    }
    let table = at.next_multiple_of(8);
    let stored = |i: usize| word32(bytes, table + 4 * i).and_then(|marker| usize::try_from(marker).ok());
    markers
        .iter()
        .enumerate()
        .all(|(i, marker)| stored(i) == Some(*marker))
}

/// Addresses that were found: each with whether it is one of a variable of each CPU.
type Addresses = Vec<(u64, bool)>;

/// Finds the addresses behind the token table, or in front of the names.
fn addresses(bytes: &[u8], tokens: &Tokens, names: &Names) -> Option<Addresses> {
    let count = names.count;
    let behind = tokens.end.next_multiple_of(8);
    let base_behind = behind + (4 * count).next_multiple_of(8);
    let base_before = names.count_at.checked_sub(8);
    relative(bytes, behind, base_behind, count)
        .or_else(|| {
            let base = base_before?;
            relative(
                bytes,
                base.checked_sub((4 * count).next_multiple_of(8))?,
                base,
                count,
            )
        })
        .or_else(|| absolute(bytes, behind, count))
        .or_else(|| absolute(bytes, names.count_at.checked_sub(8 * count)?, count))
}

fn relative(bytes: &[u8], at: usize, base: usize, count: usize) -> Option<Addresses> {
    let base = word64(bytes, base)?;
    let table = bytes.get(at..at.checked_add(4 * count)?)?;
    let offsets = || table.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    // Offsets of an image of less than 2 GiB are either not negative, or most of them are.
    let negative = offsets().filter(|offset| (*offset).cast_signed() < 0).count();
    let per_cpu = negative > count / 2;
    let found = offsets().map(|offset| {
        if per_cpu && offset.cast_signed() >= 0 {
            return (offset.into(), true);
        }
        let address = if per_cpu {
            base.wrapping_sub(1)
                .wrapping_add_signed(-i64::from(offset.cast_signed()))
        } else {
            base.wrapping_add(offset.into())
        };
        (address, false)
    });
    ascending(found.collect()).filter(|_| base != 0)
}

fn absolute(bytes: &[u8], at: usize, count: usize) -> Option<Addresses> {
    let table = bytes.get(at..at.checked_add(8 * count)?)?;
    let words = table.as_chunks().0.iter();
    ascending(words.map(|word| (u64::from_le_bytes(*word), false)).collect())
}

/// Addresses ascend, and not all are the same.
fn ascending(addresses: Addresses) -> Option<Addresses> {
    let ascend = addresses.is_sorted_by_key(|(address, _)| *address);
    (ascend && addresses.first() != addresses.last()).then_some(addresses)
}

/// All symbols, if `bytes` holds the tables that go with `tokens`.
pub(super) fn symbols(bytes: &[u8], tokens: &Tokens, effort: &mut Effort) -> Option<Vec<KernelSymbol>> {
    let names = names(bytes, tokens, effort)?;
    let addresses = addresses(bytes, tokens, &names)?;
    let packed_names = &bytes[names.count_at + 8..tokens.start];
    let (mut at, mut text) = (0, 0);
    let mut symbols = Vec::new();
    for (address, per_cpu) in addresses {
        let (start, end) = packed(packed_names, at)?;
        at = end;
        let mut name = Vec::new();
        for byte in &packed_names[start..end] {
            name.extend_from_slice(tokens.token(*byte));
            if name.len() > LONGEST {
                return None;
            }
        }
        text += name.len();
        let name = String::from_utf8(name).ok().filter(|_| text <= MOST_TEXT)?;
        let kind = name.chars().next().and_then(Kind::of)?;
        let name = &name[1..];
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        symbols.push(KernelSymbol {
            address,
            kind,
            per_cpu,
            name: name.into(),
        });
    }
    Some(symbols)
}
