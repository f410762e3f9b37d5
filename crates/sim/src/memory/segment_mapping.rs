//! Segments of shared memory as processes map them.

use crate::ids::SpaceId;

/// A segment that a process maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMapping {
    /// The address space that holds its pages, in its only region.
    pub space: SpaceId,
    /// The first address at which the process maps it.
    pub start: u64,
}
