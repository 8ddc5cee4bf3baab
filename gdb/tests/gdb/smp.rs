//! Smp.
