//! The request of a move.

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_machine::Process;
use nodeward_model::{CpuId, Mapping, MappingKind, Range};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_policy::workers::WORKERS_MAX;

/// The number of workers that move pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// As many as are worth it, found while moving.
    Auto,
    /// This many.
    Fixed(u32),
}

/// The selected memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The kinds of mappings.
    pub kinds: BTreeSet<MappingKind>,
    /// Only memory in one of these ranges; all of it if there are none.
    pub ranges: Vec<Range>,
    /// Also pages that other processes map, where we have permission to move them.
    pub move_shared: bool,
    /// Shared memory that is larger stays, in bytes of a mapping or segment.
    pub shared_bytes_max: Option<u64>,
    /// Leave pages untried that are probably pinned for long.
    pub skip_pinned: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            kinds: MappingKind::ALL.into(),
            ranges: Vec::new(),
            move_shared: true,
            shared_bytes_max: None,
            skip_pinned: false,
        }
    }
}

impl Selection {
    /// Returns the selected parts of a mapping, widened to whole pages; no page is in two of them.
    pub fn parts(&self, mapping: &Mapping, page_bytes: u64) -> Vec<Range> {
        if !self.kinds.contains(&mapping.kind) {
            return Vec::new();
        }
        if self.ranges.is_empty() {
            return vec![mapping.range];
        }
        whole_pages(&self.ranges, mapping, page_bytes)
    }

    /// Returns whether ranges are named and no process has selected memory in any: a mistyped range
    /// would be a success. A process that cannot be read counts as having some.
    pub fn names_no_memory(&self, processes: &[Arc<dyn Process>], page_bytes: u64) -> bool {
        let is_in = |mapping: &Mapping| !self.parts(mapping, page_bytes).is_empty();
        let has_some = |process: &Arc<dyn Process>| {
            process.mappings().map_or(true, |mappings| mappings.iter().any(is_in))
        };
        !self.ranges.is_empty() && !processes.iter().any(has_some)
    }
}

/// Widens ranges to whole pages of a mapping and clips them to it; no page is in two of them.
pub(crate) fn whole_pages(ranges: &[Range], mapping: &Mapping, page_bytes: u64) -> Vec<Range> {
    let step = mapping.huge_page_bytes.unwrap_or(page_bytes);
    let part = |range: &Range| mapping.range.intersection(range.whole_pages(step));
    merge_overlapping(ranges.iter().filter_map(part).collect())
}

/// Sorts ranges, and merges those that touch or overlap.
pub fn merge_overlapping(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut joined: Vec<Range> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

/// A request to move memory.
#[derive(Clone, Debug)]
pub struct MoveRequest {
    /// The orders for the pages of each process, in the order of the processes.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// The selected memory.
    pub selection: Selection,
    /// Number of workers.
    pub jobs: Jobs,
    /// CPUs of the workers, the best first; their number also limits `Jobs::Auto`.
    pub cpus: Vec<CpuId>,
    /// Maximum rate in bytes per second.
    pub rate_bytes_per_s: Option<u64>,
    /// Maximum time that pages are held, in nanoseconds.
    pub stall_ns: Option<u64>,
    /// Split huge pages that would be held for longer, and move their base pages.
    pub split_huge: bool,
}

impl MoveRequest {
    /// Returns the maximum number of workers of the request.
    pub fn workers_max(&self) -> u32 {
        match self.jobs {
            Jobs::Fixed(jobs) => jobs.max(1),
            Jobs::Auto => u32::try_from(self.cpus.len().clamp(1, WORKERS_MAX)).unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingOrigin, Name};

    use super::*;

    fn mapping(huge_page_bytes: Option<u64>) -> Mapping {
        let range = Range::new(0x20_0000, 0x80_0000);
        let kind = MappingKind::Anonymous;
        let path = Name::default();
        Mapping {
            range,
            kind,
            shared: false,
            huge_page_bytes,
            path,
            segment: None,
            origin: MappingOrigin::default(),
        }
    }

    #[test]
    fn ranges_are_widened_to_whole_pages_and_cut_to_the_mapping() {
        let ranges = vec![Range::new(0x10_0000, 0x20_0001), Range::new(0x7f_ffff, 0x90_0000)];
        let selection = Selection { ranges, ..Selection::default() };
        let parts = selection.parts(&mapping(None), 4096);
        let expected = [Range::new(0x20_0000, 0x20_1000), Range::new(0x7f_f000, 0x80_0000)];
        assert_eq!(parts, expected);
        let parts = selection.parts(&mapping(Some(0x20_0000)), 4096);
        let expected = [Range::new(0x20_0000, 0x40_0000), Range::new(0x60_0000, 0x80_0000)];
        assert_eq!(parts, expected, "a huge page is moved whole or not at all");
    }

    #[test]
    fn no_page_is_in_two_parts() {
        let page =
            |first: u64, last: u64| Range::new(0x20_0000 + first * 4096, 0x20_0000 + last * 4096);
        let ranges = vec![page(150, 300), page(100, 200), page(300, 301), page(120, 130)];
        let selection = Selection { ranges, ..Selection::default() };
        assert_eq!(selection.parts(&mapping(None), 4096), [page(100, 301)]);
        let within = |a: u64, b: u64| Range::new(0x20_0000 + a, 0x20_0000 + b);
        let selection = Selection { ranges: vec![within(0, 8), within(8, 16)], ..selection };
        assert_eq!(selection.parts(&mapping(None), 4096), [page(0, 1)], "both widen to one page");
    }

    #[test]
    fn kinds_are_told_apart() {
        let selection = Selection { kinds: [MappingKind::Heap].into(), ..Selection::default() };
        assert!(selection.parts(&mapping(None), 4096).is_empty());
    }
}
