//! Segments of shared memory: what tells one from another, and the part of one that a process maps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The identity of a segment: the file that its memory belongs to, as /proc/PID/maps names it.
/// Memory without a path (System V, memfd, shared anonymous) has a file of its own, too. Once a
/// segment is gone its number may come back for another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SegmentId {
    /// The major number of the device.
    pub major: u32,
    /// The minor number of the device.
    pub minor: u32,
    /// The inode.
    pub inode: u64,
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.major, self.minor, self.inode)
    }
}

/// The part of a segment that a mapping shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    /// The id of the segment.
    pub id: SegmentId,
    /// Bytes of the segment before the mapping's first address.
    pub offset: u64,
    /// True if the process may write through the mapping.
    pub writable: bool,
}
