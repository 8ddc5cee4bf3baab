//! RISC-V: RV64GC with Zicsr, Zifencei, Zicntr, Zihpm, Zihintpause, Zicboz, Zba, Zbb, Zbs, Sstc, Svinval,
//! Svadu, Svvptc; M, S and U modes; Sv39, Sv48, Sv57; PMP.
//!
//! Sources: RISC-V Unprivileged and Privileged ISA, 20240411 and later ratified extensions.

pub mod csr;
pub mod debug;
mod decode;
pub mod disasm;
pub mod hart;
pub mod helper;
pub mod lift;
pub mod mmu;
pub mod pmp;
mod rows;
pub mod slots;
mod state;
pub mod traps;

#[cfg(test)]
mod fake;
#[cfg(any(test, feature = "test-support"))]
pub mod flat;
#[cfg(any(test, feature = "test-support"))]
pub mod golden;
#[cfg(test)]
mod tests;
