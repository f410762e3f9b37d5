//! Shared memory that is too large to be moved, by a limit of the request.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_model::{Mapping, Range};

/// Returns the first addresses of those mappings of a process that show more than `bytes_max` bytes
/// of shared memory. Mappings of one segment count together, from its first part that is mapped to
/// the last.
pub fn too_large(mappings: &[Mapping], bytes_max: u64) -> BTreeSet<u64> {
    let mut spans = BTreeMap::new();
    for (id, range) in mappings.iter().filter_map(shown) {
        let span: &mut Range = spans.entry(id).or_insert(range);
        *span = Range::new(span.start.min(range.start), span.end.max(range.end));
    }
    let is_large = |mapping: &&Mapping| match shown(mapping) {
        Some((id, _)) => spans[&id].bytes() > bytes_max,
        None => mapping.shared && mapping.range.bytes() > bytes_max,
    };
    mappings.iter().filter(is_large).map(|mapping| mapping.range.start).collect()
}

/// Returns the segment that a shared mapping shows, and which bytes of it.
fn shown(mapping: &Mapping) -> Option<(nodeward_model::SegmentId, Range)> {
    let part = mapping.segment.filter(|_| mapping.shared)?;
    let end = part.offset.saturating_add(mapping.range.bytes());
    Some((part.id, Range::new(part.offset, end)))
}
