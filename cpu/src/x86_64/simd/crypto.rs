//! AES (FIPS 197), carry-less multiplication and CRC32C.
//!
//! The state of AES is sixteen bytes, column by column: byte r + 4c is in row r and column c.

/// A byte of the field times x.
const fn double(a: u8) -> u8 {
    a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 }
}

/// The product in AES's field.
const fn product(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    sum
}

/// The inverse, 0 for 0: the 254th power.
const fn inverse(a: u8) -> u8 {
    let (mut power, mut square, mut left) = (1, a, 254);
    while left != 0 {
        if left & 1 != 0 {
            power = product(power, square);
        }
        square = product(square, square);
        left >>= 1;
    }
    power
}

/// The substitution and its inverse (FIPS 197, 5.1.1 and 5.3.2).
const BOXES: ([u8; 256], [u8; 256]) = {
    let (mut forward, mut backward) = ([0; 256], [0; 256]);
    let mut i = 0;
    while i < 256 {
        let v = inverse(i as u8);
        let s = v ^ v.rotate_left(1) ^ v.rotate_left(2) ^ v.rotate_left(3) ^ v.rotate_left(4) ^ 0x63;
        forward[i] = s;
        backward[s as usize] = i as u8;
        i += 1;
    }
    (forward, backward)
};
static FORWARD: [u8; 256] = BOXES.0;
static BACKWARD: [u8; 256] = BOXES.1;

/// Byte `i` of sixteen.
fn byte(lo: u64, hi: u64, i: usize) -> u8 {
    let word = if i & 8 == 0 { lo } else { hi };
    (word >> (8 * (i & 7))) as u8
}

/// Columns `2 * half` and `2 * half + 1` after ShiftRows and SubBytes.
fn substituted(lo: u64, hi: u64, half: usize) -> u64 {
    word(|i| {
        let (row, column) = (i % 4, 2 * half + i / 4);
        FORWARD[usize::from(byte(lo, hi, row + 4 * ((column + row) % 4)))]
    })
}

/// Columns `2 * half` and `2 * half + 1` after InvShiftRows and InvSubBytes.
fn unsubstituted(lo: u64, hi: u64, half: usize) -> u64 {
    word(|i| {
        let (row, column) = (i % 4, 2 * half + i / 4);
        BACKWARD[usize::from(byte(lo, hi, row + 4 * ((column + 4 - row) % 4)))]
    })
}

/// The word of which `f` says the bytes.
fn word(f: impl Fn(usize) -> u8) -> u64 {
    (0..8).fold(0, |word, i| word | u64::from(f(i)) << (8 * i))
}

/// MixColumns on two columns.
fn mixed(columns: u64) -> u64 {
    word(|i| {
        let at = |row: usize| byte(columns, 0, i & 4 | ((i + row) % 4));
        double(at(0)) ^ double(at(1)) ^ at(1) ^ at(2) ^ at(3)
    })
}

/// InvMixColumns on two columns.
fn unmixed(columns: u64) -> u64 {
    // The inverse matrix is MixColumns times one of 5, 0, 4, 0.
    mixed(word(|i| {
        let at = |row: usize| byte(columns, 0, i & 4 | ((i + row) % 4));
        at(0) ^ double(double(at(0) ^ at(2)))
    }))
}

/// Two words of a key schedule from one: SubWord, and that rotated with the round constant.
fn key_words(x: u64, constant: u64) -> u64 {
    let s = u32::from_le_bytes((x as u32).to_le_bytes().map(|b| FORWARD[usize::from(b)]));
    u64::from(s) | u64::from(s.rotate_right(8) ^ constant as u32) << 32
}

/// The carry-less product.
fn carryless(a: u64, b: u64) -> u128 {
    (0..64).fold(0, |sum, i| {
        sum ^ if b >> i & 1 != 0 { u128::from(a) << i } else { 0 }
    })
}

/// CRC32C by bytes, polynomial 0x11edc6f41 reflected.
static CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// The CRC after the low `bytes` bytes of a value.
fn crc(crc: u64, value: u64, bytes: usize) -> u64 {
    let bytes = &value.to_le_bytes()[..bytes];
    let crc = bytes
        .iter()
        .fold(crc as u32, |crc, &b| crc >> 8 ^ CRC[usize::from(crc as u8 ^ b)]);
    crc.into()
}

functions! { super::float::END;
    /// Low half of aesenc's state before the key is added: arguments are (low, high) half.
    AESENC_LOW = |[lo, hi, ..]| mixed(substituted(lo, hi, 0));
    /// High half of the same.
    AESENC_HIGH = |[lo, hi, ..]| mixed(substituted(lo, hi, 1));
    /// Low half of aesenclast's state before the key is added.
    AESENCLAST_LOW = |[lo, hi, ..]| substituted(lo, hi, 0);
    /// High half of the same.
    AESENCLAST_HIGH = |[lo, hi, ..]| substituted(lo, hi, 1);
    /// Low half of aesdec's state before the key is added.
    AESDEC_LOW = |[lo, hi, ..]| unmixed(unsubstituted(lo, hi, 0));
    /// High half of the same.
    AESDEC_HIGH = |[lo, hi, ..]| unmixed(unsubstituted(lo, hi, 1));
    /// Low half of aesdeclast's state before the key is added.
    AESDECLAST_LOW = |[lo, hi, ..]| unsubstituted(lo, hi, 0);
    /// High half of the same.
    AESDECLAST_HIGH = |[lo, hi, ..]| unsubstituted(lo, hi, 1);
    /// aesimc of one half.
    AESIMC = |[a, ..]| unmixed(a);
    /// aeskeygenassist of dword 1 or 3, for the low or high half: arguments are the dword and the constant.
    AESKEYGENASSIST = |[x, constant, ..]| key_words(x, constant);
    /// Low half of a carry-less product.
    PCLMUL_LOW = |[a, b, ..]| carryless(a, b) as u64;
    /// High half of a carry-less product.
    PCLMUL_HIGH = |[a, b, ..]| (carryless(a, b) >> 64) as u64;
    /// crc32 of a byte: arguments are CRC and value.
    CRC32_BYTE = |[c, value, ..]| crc(c, value, 1);
    /// crc32 of a word.
    CRC32_WORD = |[c, value, ..]| crc(c, value, 2);
    /// crc32 of a dword.
    CRC32_DWORD = |[c, value, ..]| crc(c, value, 4);
    /// crc32 of a quadword.
    CRC32_QWORD = |[c, value, ..]| crc(c, value, 8);
}
