//! What packed instructions compute for which IR has no op on vectors, as functions of 64-bit words (SDM 2A to 2C).
//!
//! A vector register is two words; a function yields one half of the result from up to four words.
//!
//! ```text
//!   shuffle.rs   sums of differences, minimum of words
//!   float.rs     approximate reciprocals, rounding to integers
//!   crypto.rs    AES, carry-less products, CRC32
//!   string.rs    pcmpestri and its kin
//! ```
//!
//! Each module is a table: a row is a constant, the number of its function for [`crate::ir::Op::Pure`], and the function.

/// Declares rows. The numbers are those of [`crate::Layout::pure`], from the given one on.
macro_rules! functions {
    ($first:expr; $($(#[$doc:meta])+ $name:ident = $function:expr;)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of constants")]
        #[repr(u16)]
        enum Row { $($name),+ , END }
        $($(#[$doc])+ pub const $name: u16 = $first + Row::$name as u16;)+
        /// The first number that isn't used here.
        pub(super) const END: u16 = $first + Row::END as u16;
        /// The functions in the order of their numbers.
        pub(super) const FUNCTIONS: [crate::PureFn; Row::END as usize] = [$($function),+];
    };
}

pub mod crypto;
pub mod float;
pub mod shuffle;
pub mod string;

use crate::PureFn;

/// Number of the first function, in [`crate::Layout::pure`].
pub const FIRST: u16 = 32;

/// How many there are.
pub const COUNT: usize = (string::END - FIRST) as usize;

/// All of them: element `n` has the number [`FIRST`]` + n`.
pub const FUNCTIONS: [PureFn; COUNT] = all();

const fn all() -> [PureFn; COUNT] {
    let parts: [&[PureFn]; 4] = [
        &shuffle::FUNCTIONS,
        &float::FUNCTIONS,
        &crypto::FUNCTIONS,
        &string::FUNCTIONS,
    ];
    let mut all: [PureFn; COUNT] = [parts[0][0]; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[at] = parts[part][i];
            (at, i) = (at + 1, i + 1);
        }
        part += 1;
    }
    all
}

/// Calls a function by its number; absent arguments are 0.
///
/// # Panics
///
/// If there is no function of this number.
pub fn call<const N: usize>(number: u16, args: [u64; N]) -> u64 {
    let mut all = [0; 4];
    all[..N].copy_from_slice(&args);
    FUNCTIONS[usize::from(number - FIRST)](all)
}
