//! The findings of `show` about the memory of a process.

use nodeward_balancer::MappedSegment;
use nodeward_model::Residency;

/// The memory of a process.
pub struct ShownMemory {
    /// The pages by node.
    pub residency: Residency,
    /// The segments of shared memory that it maps, the largest first.
    pub segments: Vec<MappedSegment>,
}
