//! The part of a process that belongs to a group. It has a number of its own, because what is done
//! is done to one process at a time; decisions are about the group.

use std::collections::BTreeSet;

use nodeward_model::{
    Mapping, MemorySelector, ProcessSnapshot, ProcessTraits, Range, ThreadSnapshot,
};
use nodeward_policy::placement::EntityId;

use super::mapped_segments::MappedSegment;
use super::stuck_pages::StuckPages;

/// Time after which a process is asked again what patterns of groups want to know, in nanoseconds:
/// threads may be renamed, and processes go to other control groups.
const LASTS_NS: u64 = 30_000_000_000;

/// The part of a process that belongs to a group.
#[derive(Default)]
pub struct GroupPart {
    /// The number of the part.
    pub entity: EntityId,
    /// The number of the group.
    pub group: EntityId,
    /// The threads of the part at the last look.
    pub threads: BTreeSet<u32>,
    /// The memory of the process that belongs to the part.
    pub memory: Vec<MemorySelector>,
    /// The addresses in `memory` whose pages the process moves itself.
    pub self_moved: Vec<Range>,
    /// The user who made the group by calls; none for root and the settings.
    pub user: Option<u32>,
    /// Pages that could not be moved.
    pub stuck: StuckPages,
}

/// The facts about a process that patterns test, and the time at which they were read.
pub struct KnownTraits {
    pub traits: ProcessTraits,
    pub at_ns: u64,
}

impl KnownTraits {
    /// Returns whether the facts still hold: the process has the same threads, and the facts were
    /// read less than `LASTS_NS` ago.
    pub fn is_current(&self, seen: &ProcessSnapshot, now_ns: u64) -> bool {
        let now = seen.threads.iter().map(|thread| thread.tid);
        now_ns.abs_diff(self.at_ns) < LASTS_NS && now.eq(self.traits.threads.iter().map(|it| it.0))
    }
}

impl GroupPart {
    /// Returns whether another part is of the same group, with the same memory.
    pub fn has_same_memory(&self, other: &Self) -> bool {
        self.group == other.group
            && self.memory == other.memory
            && self.self_moved == other.self_moved
    }

    /// Returns whether a thread is in the part.
    pub fn has_thread(&self, thread: &ThreadSnapshot) -> bool {
        self.threads.contains(&thread.tid)
    }

    /// Returns whether the part has the memory that its threads access most.
    pub fn has_touched(&self) -> bool {
        self.memory.contains(&MemorySelector::Touched)
    }

    /// Returns whether the part has memory by its addresses.
    pub fn has_addresses(&self) -> bool {
        self.memory.iter().any(|memory| matches!(memory, MemorySelector::Range(_)))
    }

    /// Returns whether a segment that the process maps belongs to the part, so that the home of the
    /// group decides about it, whoever else maps it: only in groups of root and of the settings.
    pub fn has_segment(&self, segment: &MappedSegment) -> bool {
        let is_its = |selector: &MemorySelector| match selector {
            MemorySelector::Kind(kind) => segment.kind == *kind,
            MemorySelector::File(pattern) => pattern.matches(&segment.name),
            MemorySelector::Range(range) => segment.lies_in(*range),
            MemorySelector::Touched => false,
        };
        self.user.is_none() && self.memory.iter().any(is_its)
    }

    /// Takes the part's memory out of mappings, and returns it. `ranges` are those of all parts.
    fn take(&self, mappings: &mut Vec<Mapping>, ranges: &SortedRanges) -> Vec<Mapping> {
        let mut taken = Vec::new();
        for selector in &self.memory {
            let mut rest = Vec::new();
            for mapping in std::mem::take(mappings) {
                match ranges.part_of(selector, &mapping) {
                    None => rest.push(mapping),
                    Some(part) => {
                        taken.push(mapping.part(part));
                        rest.extend(around(&mapping, part));
                    }
                }
            }
            *mappings = rest;
        }
        taken.sort_by_key(|mapping| mapping.range);
        taken
    }
}

/// Returns the pieces of a mapping before and behind a part of it.
fn around(mapping: &Mapping, part: Range) -> impl Iterator<Item = Mapping> {
    let before = Range::new(mapping.range.start, part.start);
    let behind = Range::new(part.end, mapping.range.end);
    let rest = [before, behind].into_iter().filter(|range| !range.is_empty());
    rest.map(|range| mapping.part(range)).collect::<Vec<_>>().into_iter()
}

/// The starts of the ranges of all parts of a process in ascending order, each with the highest end
/// up to there. They decide about huge pages that several ranges touch: such a page belongs to the
/// range with the lowest address in it. Of ranges by calls no two have that address.
struct SortedRanges(Vec<(u64, u64)>);

impl SortedRanges {
    fn of(parts: &[GroupPart]) -> Self {
        let selectors = parts.iter().flat_map(|part| &part.memory);
        let range = |selector: &MemorySelector| match selector {
            MemorySelector::Range(range) => Some((range.start, range.end)),
            _ => None,
        };
        let mut starts: Vec<_> = selectors.filter_map(range).collect();
        starts.sort_unstable();
        let mut reach = 0;
        for (_, end) in &mut starts {
            reach = reach.max(*end);
            *end = reach;
        }
        Self(starts)
    }

    /// Returns the part of a mapping that a selector has. A range has not the huge page in which it
    /// begins if that belongs to another range.
    fn part_of(&self, selector: &MemorySelector, mapping: &Mapping) -> Option<Range> {
        let (MemorySelector::Range(range), Some(bytes)) = (selector, mapping.huge_page_bytes)
        else {
            return selector.part_of(mapping);
        };
        let before = self.0.partition_point(|(start, _)| *start < range.start);
        let reach = before.checked_sub(1).map_or(0, |last| self.0[last].1);
        let start = match reach > range.start / bytes * bytes {
            true => range.start.checked_next_multiple_of(bytes)?,
            false => range.start,
        };
        MemorySelector::Range(Range::new(start, range.end)).part_of(mapping)
    }
}

/// Divides mappings among the parts of a process. Returns those of each part, and the rest, which
/// is the process's own.
pub fn divide(
    mut mappings: Vec<Mapping>,
    parts: &[GroupPart],
) -> (Vec<(EntityId, Vec<Mapping>)>, Vec<Mapping>) {
    let ranges = SortedRanges::of(parts);
    let take = |part: &GroupPart| (part.entity, part.take(&mut mappings, &ranges));
    (parts.iter().map(take).collect(), mappings)
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingKind, MappingOrigin};
    use proptest::prelude::*;

    use super::*;

    fn mapping(start: u64, end: u64, kind: MappingKind, path: &str) -> Mapping {
        let range = Range::new(start, end);
        Mapping {
            range,
            kind,
            shared: false,
            huge_page_bytes: None,
            path: path.into(),
            segment: None,
            origin: MappingOrigin::default(),
        }
    }

    fn part(number: u64, memory: &[&str]) -> GroupPart {
        let memory = memory.iter().map(|text| text.parse().unwrap()).collect();
        GroupPart { entity: EntityId(number), memory, ..GroupPart::default() }
    }

    /// Goal: each byte is in one place: the first part that selects it has it, what none selects is
    /// the process's own, and ranges cut mappings.
    #[test]
    fn each_byte_belongs_to_one() {
        use MappingKind::{Anonymous, Heap, Shared};
        let mappings = vec![
            mapping(0x0, 0x100, Heap, ""),
            mapping(0x100, 0x500, Anonymous, ""),
            mapping(0x600, 0x700, Shared, "/dev/shm/kv"),
            mapping(0x700, 0x800, Anonymous, ""),
        ];
        let parts = [part(1, &["180-280", "file:/dev/shm/*"]), part(2, &["200-680", "heap"])];
        let (of_parts, own) = divide(mappings, &parts);
        let ranges = |list: &[Mapping]| -> Vec<(u64, u64)> {
            list.iter().map(|it| (it.range.start, it.range.end)).collect()
        };
        assert_eq!(ranges(&of_parts[0].1), [(0x180, 0x280), (0x600, 0x700)]);
        assert_eq!(ranges(&of_parts[1].1), [(0x0, 0x100), (0x280, 0x500)]);
        assert_eq!(ranges(&own), [(0x100, 0x180), (0x700, 0x800)]);
    }

    const HUGE: u64 = 2 << 20;

    /// Divides four huge pages from address 0. Returns the numbers of those of each part, and of
    /// the rest.
    fn huge_pages_of(memory: &[&[&str]]) -> Vec<Vec<u64>> {
        let huge = mapping(0, 4 * HUGE, MappingKind::Huge, "");
        let mappings = vec![Mapping { huge_page_bytes: Some(HUGE), ..huge }];
        let parts: Vec<_> =
            (1..).zip(memory).map(|(number, memory)| part(number, memory)).collect();
        let (of_parts, own) = divide(mappings, &parts);
        let all = of_parts.into_iter().map(|(_, taken)| taken).chain([own]);
        all.map(|taken| taken.iter().flat_map(whole_huge_pages).collect()).collect()
    }

    /// The numbers of the huge pages of a mapping.
    fn whole_huge_pages(mapping: &Mapping) -> std::ops::Range<u64> {
        let Range { start, end } = mapping.range;
        assert!(start % HUGE == 0 && end % HUGE == 0, "{start:x}-{end:x} is not of huge pages");
        start / HUGE..end / HUGE
    }

    /// Goal: a range has the huge pages in which it begins and ends. Of a page that ranges of two
    /// groups touch, that group has it that has the lowest address in it, whichever is first in
    /// the list. The last list is of no group.
    #[test]
    fn a_huge_page_is_in_one_group() {
        assert_eq!(huge_pages_of(&[&["201000-202000"]]), [vec![1], vec![0, 2, 3]]);
        assert_eq!(huge_pages_of(&[&["1ff000-401000"]]), [vec![0, 1, 2], vec![3]]);
        let (low, high) = (&["200000-500000"][..], &["500000-501000", "501000-800000"][..]);
        assert_eq!(huge_pages_of(&[low, high]), [vec![1, 2], vec![3], vec![0]]);
        assert_eq!(huge_pages_of(&[high, low]), [vec![3], vec![1, 2], vec![0]]);
        let (inner, outer) = (&["301000-302000"][..], &["200000-301000", "302000-800000"][..]);
        assert_eq!(huge_pages_of(&[inner, outer]), [vec![], vec![1, 2, 3], vec![0]]);
        assert_eq!(huge_pages_of(&[inner, &["huge"]]), [vec![1], vec![0, 2, 3], vec![]]);
    }

    proptest! {
        /// Goal: however calls cut the addresses of four huge pages among two groups and none (at
        /// steps of an eighth of a page), each page is with the owner of the lowest address in it
        /// that a group has, as a whole; and pages without such an address are the process's own.
        #[test]
        fn huge_pages_are_never_divided(owners in proptest::collection::vec(0_usize..3, 32)) {
            let step = HUGE / 8;
            let mut memory = [Vec::new(), Vec::new()];
            for (owner, start) in owners.iter().zip((0..).map(|at: u64| at * step)) {
                if let Some(list) = memory.get_mut(*owner) {
                    list.push(format!("{start:x}-{:x}", start + step));
                }
            }
            let words = memory.each_ref().map(|list| list.iter().map(String::as_str).collect());
            let [one, two]: [Vec<&str>; 2] = words;
            let mut told = huge_pages_of(&[&one, &two]);
            told.iter_mut().for_each(|pages| pages.sort_unstable());
            let owner = |page: &[usize]| page.iter().copied().find(|&owner| owner < 2).unwrap_or(2);
            let of: Vec<usize> = owners.chunks(8).map(owner).collect();
            let pages = |owner| (0..4).filter(|&page| of[page as usize] == owner).collect();
            let expected: Vec<Vec<u64>> = (0..3).map(pages).collect();
            prop_assert_eq!(told, expected);
        }
    }

    /// Goal: what a process said holds for half a minute, and for the same threads only.
    #[test]
    fn traits_are_asked_again() {
        let seen = |tids: &[u32]| ProcessSnapshot {
            threads: tids.iter().map(|&tid| thread(tid)).collect(),
            ..process()
        };
        let threads = [3, 5].map(|tid| (tid, "a".into())).into();
        let traits = ProcessTraits { threads, ..ProcessTraits::default() };
        let known = KnownTraits { traits, at_ns: LASTS_NS };
        let tids = [&[3, 5][..], &[3], &[3, 6], &[3, 5, 7]];
        let is_current = |tids: &[u32], ns| known.is_current(&seen(tids), ns);
        assert_eq!(tids.map(|it| is_current(it, LASTS_NS + 1)), [true, false, false, false]);
        assert!(!is_current(&[3, 5], 2 * LASTS_NS) && !is_current(&[3, 5], 0));
    }

    fn thread(tid: u32) -> ThreadSnapshot {
        let cpus = std::sync::Arc::default();
        ThreadSnapshot { tid, cpu: nodeward_model::CpuId(0), cpu_time_ns: 0, waited_ns: 0, cpus }
    }

    fn process() -> ProcessSnapshot {
        ProcessSnapshot {
            pid: nodeward_model::Pid::new(3).unwrap(),
            name: "a".into(),
            started_ticks: 0,
            cpu_time_ns: 0,
            children_cpu_time_ns: 0,
            non_file_bytes: 0,
            memory_nodes: nodeward_model::Nodemask::default(),
            frozen: false,
            threads: Vec::new(),
        }
    }
}
