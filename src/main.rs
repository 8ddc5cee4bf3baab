//! The tickback command line.
fn main() {}
