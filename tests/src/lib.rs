//! Whole-machine tests.
