//! Limits of files of text.

/// Limit on the bytes of a line. Longer ones are cut and marked.
pub const LINE_BYTES_MAX: usize = 1024;
