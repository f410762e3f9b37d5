//! Marks on other processors, which the lab does not emulate: no instruction at all.

/// Does nothing.
pub fn execute(_what: usize, _slot: usize) {}
