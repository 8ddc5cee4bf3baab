//! Exceptions as [`Trap`]s (SDM 3A 6.3 to 6.15).
//!
//! [`Trap::cause`] is the vector in bits 0 to 7, bit 8 says that an error code is pushed, and bits 16 to 31
//! are that code. [`Trap::value`] is what goes to CR2 for #PF, to DR6 for #DB, where an address isn't canonical that address (until delivery, [`super::Hart`]'s
//! `name_stack_fault`), and 0 else. A software interrupt is not a `Trap`: it is made by its helper.

use crate::Trap;

/// Divide error.
pub const DE: u8 = 0;
/// Debug exception.
pub const DB: u8 = 1;
/// Non-maskable interrupt.
pub const NMI: u8 = 2;
/// Breakpoint (`int3`).
pub const BP: u8 = 3;
/// Overflow (`into`).
pub const OF: u8 = 4;
/// Bound range exceeded.
pub const BR: u8 = 5;
/// Invalid opcode.
pub const UD: u8 = 6;
/// Device not available.
pub const NM: u8 = 7;
/// Double fault.
pub const DF: u8 = 8;
/// Invalid TSS.
pub const TS: u8 = 10;
/// Segment not present.
pub const NP: u8 = 11;
/// Stack fault.
pub const SS: u8 = 12;
/// General protection.
pub const GP: u8 = 13;
/// Page fault.
pub const PF: u8 = 14;
/// x87 floating-point error.
pub const MF: u8 = 16;
/// Alignment check.
pub const AC: u8 = 17;
/// Machine check.
pub const MC: u8 = 18;
/// SIMD floating-point exception.
pub const XM: u8 = 19;

/// Bit of [`Trap::cause`]: an error code is pushed.
pub const HAS_CODE: u64 = 1 << 8;

/// The cause of an exception without an error code.
pub const fn cause(vector: u8) -> u64 {
    vector as u64
}

/// The cause of an exception with an error code.
pub const fn cause_with(vector: u8, code: u16) -> u64 {
    vector as u64 | HAS_CODE | (code as u64) << 16
}

/// An exception without an error code.
pub const fn trap(vector: u8) -> Trap {
    Trap {
        cause: cause(vector),
        value: 0,
    }
}

/// An exception with an error code.
pub const fn fault(vector: u8, code: u16) -> Trap {
    Trap {
        cause: cause_with(vector, code),
        value: 0,
    }
}

/// A page fault at linear address `addr`.
pub const fn page_fault(code: u16, addr: u64) -> Trap {
    Trap {
        cause: cause_with(PF, code),
        value: addr,
    }
}

/// An access to linear address `addr`, which isn't canonical: #GP(0), or #SS(0) if it was to the stack.
pub const fn no_address(addr: u64) -> Trap {
    Trap {
        cause: cause_with(GP, 0),
        value: addr,
    }
}

/// The vector of a cause.
pub const fn vector(cause: u64) -> u8 {
    cause as u8
}

/// The error code of a cause, if it has one.
pub const fn error_code(cause: u64) -> Option<u16> {
    if cause & HAS_CODE != 0 {
        Some((cause >> 16) as u16)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_cause() {
        let gp = fault(GP, 0xfff8);
        assert_eq!((vector(gp.cause), error_code(gp.cause)), (13, Some(0xfff8)));
        assert_eq!(error_code(fault(SS, 0).cause), Some(0));
        assert_eq!((vector(trap(UD).cause), error_code(trap(UD).cause)), (6, None));
        assert_eq!(page_fault(2, 0x1234).value, 0x1234);
    }
}
