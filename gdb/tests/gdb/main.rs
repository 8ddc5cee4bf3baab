//! Real gdb against the server, over recordings made here.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs
)]

mod batch;
mod hostile;
mod live;
mod relay;
mod smp;
mod support;
mod x86;
