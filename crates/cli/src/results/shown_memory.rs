//! What `show` finds out about the memory of a process.

use nodeward_balancer::MappedSegment;
use nodeward_model::Residency;

/// The memory of a process.
pub struct ShownMemory {
    /// Where it is.
    pub residency: Residency,
    /// The segments of shared memory that it maps, the largest first.
    pub segments: Vec<MappedSegment>,
}
