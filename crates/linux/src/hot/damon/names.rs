//! The names of DAMON's files below `kdamonds`, and of the operation in errors.

/// The name of the operation in errors.
pub const ACTION: &str = "watching with DAMON";
/// The number of DAMON's kernel threads.
pub const NR_KDAMONDS: &str = "nr_kdamonds";
/// The file that switches ours on and off.
pub const STATE: &str = "0/state";
/// The directory that selects the monitored memory and the method.
pub const CONTEXT: &str = "0/contexts/0";
/// The directory of the scheme that lists regions.
pub const SCHEME: &str = "0/contexts/0/schemes/0";
