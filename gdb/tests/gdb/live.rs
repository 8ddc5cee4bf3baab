//! Live.
