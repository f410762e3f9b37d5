//! The segments of shared memory that a process shows in its mappings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::name::in_json;
use nodeward_model::{Mapping, MappingKind, Name, Range, SegmentId};
use serde::Serialize;

/// Segments with fewer bytes are left out: to sample one costs more than it can gain.
const BYTES_MIN: u64 = 4 << 20;
/// Maximum number of segments of one process; the largest count.
const PER_PROCESS_MAX: usize = 16;
/// Shared memory that is no cache of files, by how its path begins; also what has no path.
const MEMORY_PATHS: [&str; 4] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];

/// A segment that a process maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MappedSegment {
    /// The id of the segment.
    #[serde(rename = "segment")]
    pub id: SegmentId,
    /// The path of the segment, as the mappings have it.
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// Number of bytes of the segment that the process maps.
    pub bytes: u64,
    /// True if a memory policy is known to bind any mapped part. False if policies were not read.
    #[serde(skip)]
    pub is_bound: bool,
    /// The kind of the segment's memory.
    #[serde(skip)]
    pub kind: MappingKind,
    /// The mapped parts of the segment, with their addresses.
    #[serde(skip)]
    pub parts: Vec<MappedPart>,
}

/// A part of a segment, and where it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    addresses: Range,
    offset: u64,
}

impl MappedPart {
    /// The part that a mapping of a segment shows.
    pub fn of(mapping: &Mapping) -> Self {
        let offset = mapping.segment.map_or(0, |part| part.offset);
        Self { addresses: mapping.range, offset }
    }

    /// The offset in the segment of an address, if it is mapped here.
    pub fn offset_of(self, address: u64) -> Option<u64> {
        let holds = (self.addresses.start..self.addresses.end).contains(&address);
        holds.then(|| self.offset + (address - self.addresses.start))
    }

    /// Returns the address of an offset in the segment, if this part maps that offset.
    pub fn address_of(self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(self.offset)?;
        (behind < self.addresses.bytes()).then(|| self.addresses.start + behind)
    }
}

impl MappedSegment {
    /// The offset in the segment of an address, if the process maps it there.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.parts.iter().find_map(|part| part.offset_of(address))
    }

    /// Returns whether the process maps the segment within a range only.
    pub fn lies_in(&self, range: Range) -> bool {
        self.parts.iter().all(|part| part.addresses.intersection(range) == Some(part.addresses))
    }

    /// Returns the address at which the process maps an offset in the segment, if it does.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.parts.iter().find_map(|part| part.address_of(offset))
    }
}

/// The segments that a process shows in its mappings, the largest first; `bound` are the ranges
/// that a policy binds. What it only reads of a file on a disk is a cache that many read.
pub fn mapped_segments(mappings: &[Mapping], bound: &[Range]) -> Vec<MappedSegment> {
    let mut found: BTreeMap<SegmentId, MappedSegment> = BTreeMap::new();
    for mapping in mappings {
        let Some(id) = segment_of(mapping) else { continue };
        let is_bound = bound.iter().any(|range| mapping.range.intersection(*range).is_some());
        let one = found.entry(id).or_insert_with(|| MappedSegment {
            id,
            name: mapping.path.clone(),
            bytes: 0,
            is_bound: false,
            kind: mapping.kind,
            parts: Vec::new(),
        });
        one.bytes = one.bytes.saturating_add(mapping.range.bytes());
        one.is_bound |= is_bound;
        one.parts.push(MappedPart::of(mapping));
    }
    let mut found: Vec<_> = found.into_values().filter(|one| one.bytes >= BYTES_MIN).collect();
    found.sort_by_key(|one| (Reverse(one.bytes), one.id));
    found.truncate(PER_PROCESS_MAX);
    found
}

/// Returns whether a shared mapping is of memory, not of a cache of a file.
pub fn is_memory(mapping: &Mapping) -> bool {
    let path = &mapping.path;
    path.is_empty() || MEMORY_PATHS.iter().any(|prefix| path.starts_with(prefix))
}

/// Returns the segment that a mapping shows, if the mapping may be of one.
pub fn segment_of(mapping: &Mapping) -> Option<SegmentId> {
    let part = mapping.segment?;
    let is_huge = mapping.kind == MappingKind::Huge;
    (part.writable || is_huge || is_memory(mapping)).then_some(part.id)
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingOrigin, SegmentPart};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn mapping(start: u64, bytes: u64, path: &str, inode: u64, writable: bool) -> Mapping {
        let id = SegmentId { major: 0, minor: 1, inode };
        Mapping {
            range: Range::new(start, start + bytes),
            kind: MappingKind::Shared,
            shared: true,
            huge_page_bytes: None,
            path: path.into(),
            segment: Some(SegmentPart { id, offset: 0, writable }),
            origin: MappingOrigin::default(),
        }
    }

    /// Goal: the parts of one segment are one; what is small, and what is only read of a file on a
    /// disk, is none; a policy on any part binds it.
    #[test]
    fn mappings_show_segments() {
        let mappings = [
            mapping(0, 3 * MIB, "/dev/shm/a", 1, true),
            mapping(100 * MIB, MIB, "/dev/shm/a", 1, false), // 4 MiB with the first
            mapping(200 * MIB, 4 * MIB - 4096, "/dev/shm/small", 2, true),
            mapping(300 * MIB, 50 * MIB, "/var/cache/locale", 3, false),
            mapping(400 * MIB, 60 * MIB, "/var/lib/table", 4, true),
            mapping(500 * MIB, 70 * MIB, "/SYSV0052e2c1 (deleted)", 5, false),
        ];
        let found = mapped_segments(&mappings, &[Range::new(100 * MIB, 101 * MIB)]);
        let told: Vec<_> =
            found.iter().map(|one| (one.id.inode, one.bytes / MIB, one.is_bound)).collect();
        assert_eq!(told, [(5, 70, false), (4, 60, false), (1, 4, true)]);
    }

    /// Goal: an offset is found from the address in any of the mappings, and back at the first that
    /// shows it.
    #[test]
    fn addresses_and_offsets_are_the_same_place() {
        let mut parts = [(0, 0), (100, 0), (200, 8)].map(|(at, offset)| {
            let mut part = mapping(at * MIB, 8 * MIB, "/dev/shm/a", 1, true);
            part.segment.as_mut().unwrap().offset = offset * MIB;
            part
        });
        parts.reverse();
        let found = &mapped_segments(&parts, &[])[0];
        let offset = |at: u64| found.offset_of(at * MIB).map(|offset| offset / MIB);
        assert_eq!([3, 103, 203, 208].map(offset), [Some(3), Some(3), Some(11), None]);
        let address = |offset: u64| found.address_of(offset * MIB).map(|at| at / MIB);
        assert_eq!([3, 11, 16].map(address), [Some(103), Some(203), None]);
    }

    /// Goal: however many segments a process maps, the largest 16 of them are looked at.
    #[test]
    fn no_process_shows_more_than_the_largest() {
        let mappings: Vec<_> = (0..1000)
            .map(|number| mapping(number << 30, (4 + number) * MIB, "/memfd:x", number + 1, true))
            .collect();
        let found = mapped_segments(&mappings, &[]);
        let inodes: Vec<_> = found.iter().map(|one| one.id.inode).collect();
        assert_eq!(inodes, (985..=1000).rev().collect::<Vec<_>>());
    }
}
