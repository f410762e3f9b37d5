//! The rows of a sweep, and how they came about.

use super::plan::SweepRow;

/// The result of a sweep.
pub struct SweepResult {
    /// The rows, in the order of their points: the existing ones, then those of this run.
    pub rows: Vec<SweepRow>,
    /// Number of existing rows.
    pub resumed_rows: usize,
    /// Total number of rows.
    pub total: usize,
    /// Number of parallel simulations.
    pub jobs: usize,
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
}
