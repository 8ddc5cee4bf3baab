//! What the engine did, in figures for the user.

use std::fmt;

/// Counters of a machine's engine since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The translator's.
    pub jit: jit::Stats,
    /// Page walks, for data and code.
    pub walks: u64,
    /// Host time that translating took, in ns; 0 if it wasn't measured.
    pub translating: u64,
}

/// A quotient for reading.
fn per(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jit = &self.jit;
        writeln!(
            f,
            "translated {} blocks of {} instructions into {} bytes, {:.1} hot and {:.1} cold an instruction, {:.0} ns an instruction; \
             {} of them anew along paths of {:.1} instructions; {} revived, {} flushes",
            jit.blocks,
            jit.insns,
            jit.bytes,
            per(jit.hot_bytes, jit.insns),
            per(jit.bytes - jit.hot_bytes, jit.insns),
            per(self.translating, jit.insns),
            jit.paths,
            per(jit.path_insns, jit.paths),
            jit.revived,
            jit.flushes,
        )?;
        write!(
            f,
            "entered translated code {} times; left it {} times to be linked, {} for what the jump cache hadn't, {} to the \
             run loop, {} by a trap or stop, {} at the end of the budget; {} accesses on the slow path, {} page walks, {} helpers",
            jit.runs,
            jit.links,
            jit.misses,
            jit.dispatches,
            jit.stops,
            jit.tails,
            jit.slow,
            self.walks,
            jit.helpers,
        )
    }
}
