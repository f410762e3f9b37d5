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

    /// Returns whether a segment that the process maps is in the part.
    pub fn has_segment(&self, segment: &MappedSegment) -> bool {
        let is_its = |selector: &MemorySelector| match selector {
            MemorySelector::Kind(kind) => segment.kind == *kind,
            MemorySelector::File(pattern) => pattern.matches(&segment.name),
            MemorySelector::Range(range) => segment.lies_in(*range),
            MemorySelector::Touched => false,
        };
        self.memory.iter().any(is_its)
    }

    /// Takes the part's memory out of mappings, and returns it.
    pub fn take(&self, mappings: &mut Vec<Mapping>) -> Vec<Mapping> {
        let mut taken = Vec::new();
        for selector in &self.memory {
            let mut rest = Vec::new();
            for mapping in std::mem::take(mappings) {
                match selector.part_of(&mapping) {
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

/// Divides mappings among the parts of a process. Returns those of each part, and the rest, which
/// is the process's own.
pub fn divide(
    mut mappings: Vec<Mapping>,
    parts: &[GroupPart],
) -> (Vec<(EntityId, Vec<Mapping>)>, Vec<Mapping>) {
    let of_parts = parts.iter().map(|part| (part.entity, part.take(&mut mappings))).collect();
    (of_parts, mappings)
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingKind, MappingOrigin};

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
