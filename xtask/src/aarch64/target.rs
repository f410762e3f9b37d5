//! The architecture, as compilers call it.

/// The target for which the workspace is checked.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";
