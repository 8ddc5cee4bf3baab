//! Hostile bytes: what a fuzzer feeds, and a test with random bytes and with what a fuzzer has found.
//!
//! A body takes any bytes, makes of them what it tests, and panics if something is wrong. `tests/fuzz` hands them to libFuzzer;
//! `tests/whole/fuzz.rs` runs them on stored inputs.

mod bytes;
mod debugger;
mod guests;
mod kernels;
mod probes;
mod recordings;

/// A body: panics on a defect.
pub type Body = fn(&[u8]);

/// All of them.
pub const BODIES: [(&str, Body); 9] = [
    ("log", recordings::log),
    ("recording", recordings::recording),
    ("state", recordings::state),
    ("kernels", kernels::kernels),
    ("gdb", debugger::packets),
    ("riscv_code", guests::riscv_code),
    ("x86_code", guests::x86_code),
    ("riscv_devices", probes::riscv_devices),
    ("x86_devices", probes::x86_devices),
];

/// Runs a body by its name.
///
/// # Panics
/// There is none of this name, or it has found a defect.
pub fn run(name: &str, input: &[u8]) {
    let found = BODIES.iter().find(|(n, _)| *n == name);
    let (_, body) = found.unwrap_or_else(|| panic!("no body is called {name}"));
    body(input);
}
