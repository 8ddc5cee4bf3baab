//! Event log, positions and the one door.
#![forbid(unsafe_code)]
