//! Address ranges of a process and the kind of memory that they hold.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Name, SegmentPart};

/// Virtual addresses from `start` up to, not including, `end`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
}

impl Range {
    /// Returns a range; it is empty if `end` is not above `start`.
    pub fn new(start: u64, end: u64) -> Self {
        Self { start, end: end.max(start) }
    }

    /// Returns the length in bytes.
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// Returns true if the range holds no address.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the intersection of both ranges, if it is not empty.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self::new(self.start.max(other.start), self.end.min(other.end));
        (!both.is_empty()).then_some(both)
    }

    /// Returns the range widened to whole pages.
    pub fn whole_pages(self, page_bytes: u64) -> Self {
        let end = self.end.checked_next_multiple_of(page_bytes).unwrap_or(self.end);
        Self::new(self.start / page_bytes * page_bytes, end)
    }

    /// Splits the range at every multiple of `step_bytes`, so that no piece crosses one.
    pub fn aligned_pieces(self, step_bytes: u64) -> impl Iterator<Item = Self> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.end {
                return None;
            }
            let stop = (at / step_bytes + 1).saturating_mul(step_bytes).min(self.end);
            let piece = Self::new(at, stop);
            at = stop;
            Some(piece)
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.start, self.end)
    }
}

/// The kind of memory of a mapping. The classes refine those of `numastat -p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingKind {
    /// The brk heap.
    Heap,
    /// The main thread's stack (other threads' stacks are anonymous mappings).
    Stack,
    /// Private anonymous memory.
    Anonymous,
    /// A private mapping of a file: code, data, and pages copied on write from it.
    File,
    /// A mapping that other processes may share: shared files, tmpfs, System V and memfd memory.
    Shared,
    /// Pages of a hugetlb pool.
    Huge,
}

impl MappingKind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Heap, Self::Stack, Self::Anonymous, Self::File, Self::Shared, Self::Huge];

    /// Returns the name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous",
            Self::File => "file",
            Self::Shared => "shared",
            Self::Huge => "huge",
        }
    }
}

impl fmt::Display for MappingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The permissions of a mapping's memory, as its program asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permissions {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
    /// Executing.
    pub execute: bool,
}

/// As in /proc/PID/maps: `rw-`.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |is_set, letter| if is_set { letter } else { '-' };
        let Self { read, write, execute } = *self;
        write!(f, "{}{}{}", letter(read, 'r'), letter(write, 'w'), letter(execute, 'x'))
    }
}

/// The origin of a mapping. With the path it tells the mapping from others after a restart of its
/// program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingOrigin {
    /// Bytes of its file before its first address; without meaning for memory of no file.
    pub offset: u64,
    /// The permissions of the mapping.
    pub permissions: Permissions,
}

/// One mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The addresses that it covers.
    pub range: Range,
    /// The kind of its memory.
    pub kind: MappingKind,
    /// True if it is shared with other processes by construction (`s` in /proc/PID/maps).
    pub shared: bool,
    /// Bytes in one of its pages, if it is of kind `Huge`.
    pub huge_page_bytes: Option<u64>,
    /// The file or the bracketed name in /proc/PID/maps; empty for anonymous memory.
    pub path: Name,
    /// The part of a segment that it shows, if it is shared and of a file.
    pub segment: Option<SegmentPart>,
    /// The origin of the mapping.
    pub origin: MappingOrigin,
}

impl Mapping {
    /// Returns the part of the mapping in a range that it covers.
    pub fn part(&self, range: Range) -> Self {
        let behind = range.start.saturating_sub(self.range.start);
        let moved =
            |part: SegmentPart| SegmentPart { offset: part.offset.saturating_add(behind), ..part };
        let offset = self.origin.offset.saturating_add(behind);
        let origin = MappingOrigin { offset, ..self.origin };
        Self { range, segment: self.segment.map(moved), origin, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SegmentId;

    #[test]
    fn pieces_never_cross_a_multiple_of_the_step() {
        let pieces: Vec<_> = Range::new(3, 21).aligned_pieces(8).collect();
        assert_eq!(pieces, [Range::new(3, 8), Range::new(8, 16), Range::new(16, 21)]);
        assert_eq!(Range::new(5, 5).aligned_pieces(8).count(), 0);
    }

    /// Goal: a piece of a mapping begins as many bytes later in the segment as it does in memory.
    #[test]
    fn a_part_shows_its_part_of_the_segment() {
        let segment = SegmentPart { id: SegmentId::default(), offset: 0x3000, writable: true };
        let mapping = Mapping {
            range: Range::new(0x10_000, 0x20_000),
            kind: MappingKind::Shared,
            shared: true,
            huge_page_bytes: None,
            path: Name::default(),
            segment: Some(segment),
            origin: MappingOrigin { offset: 0x3000, ..MappingOrigin::default() },
        };
        let part = mapping.part(Range::new(0x14_000, 0x18_000));
        assert_eq!(part.range, Range::new(0x14_000, 0x18_000));
        assert_eq!(part.segment.map(|part| part.offset), Some(0x7000)); // 0x3000 + 0x4000
        assert_eq!(part.origin.offset, 0x7000);
    }

    #[test]
    fn ranges_meet_only_where_both_are() {
        assert_eq!(Range::new(0, 10).intersection(Range::new(5, 20)), Some(Range::new(5, 10)));
        assert_eq!(Range::new(0, 10).intersection(Range::new(10, 20)), None);
    }
}
