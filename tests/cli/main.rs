//! The command line from outside: bad input gives one clear line and the right exit code, and loses nothing;
//! keys, signals and scripts do what the help says.
#![allow(clippy::unwrap_used, missing_docs)]
// Tests wait for other processes, in host time.
#![allow(clippy::disallowed_methods)]

mod arguments;
mod golden;
mod outside;
mod recordings;
mod runs;
mod support;
mod trust;
mod x86;
