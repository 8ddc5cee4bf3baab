//! The instruction table: one row an instruction, one file a family.
//!
//! A row is written `constructor(name, pattern, meaning)`. The constructor names the format (see [`form`])
//! and so the type of the operands `a` that the meaning gets; the meaning speaks to the builder `l`
//! ([`crate::riscv64::lift::Lifter`]).

mod atomic;
mod base;
mod bitmanip;
mod compressed;
mod double;
mod form;
mod muldiv;
mod single;
mod system;

pub(crate) use form::*;

use super::decode::Row;

/// All tables.
pub(crate) static TABLES: &[&[Row]] = &[
    base::ROWS,
    muldiv::ROWS,
    atomic::ROWS,
    single::ROWS,
    double::ROWS,
    compressed::ROWS,
    bitmanip::ROWS,
    system::ROWS,
];

/// All rows.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().copied().flatten()
}
