//! Memory policies that a program has set.

use std::collections::BTreeMap;
use std::iter;

use nodeward_model::{Mapping, MemoryPolicies, Range};

use crate::procfs::numa_maps::MappingPolicy;

/// Infers the policies of a program from those of all its mappings.
///
/// The kernel shows the policy of the first thread for each mapping without one of its own. So one
/// mapping without a policy proves that the thread has none. If all mappings show one, it is the
/// thread's, because no program sets a policy for its stack, its code and each of its libraries.
/// The most frequent policy is then taken for the thread's, and mappings with another one are
/// reported as ranges.
pub fn infer(policies: &[MappingPolicy<'_>], mappings: &[Mapping]) -> MemoryPolicies {
    let whole = !policies.is_empty() && policies.iter().all(MappingPolicy::is_explicit);
    let usual = if whole { most_frequent(policies) } else { None };
    let special = |policy: &MappingPolicy<'_>| policy.is_explicit() && Some(policy.text) != usual;
    let by_start: BTreeMap<u64, MappingPolicy<'_>> =
        policies.iter().map(|p| (p.start, *p)).collect();
    let ends = by_start.keys().skip(1).copied().chain([u64::MAX]);
    let bound = by_start.values().zip(ends).filter(|(policy, _)| special(policy));
    let bound =
        bound.flat_map(|(policy, end)| covered_ranges(Range::new(policy.start, end), mappings));
    MemoryPolicies { has_task_policy: whole, policy_ranges: merge_adjacent(bound.collect()) }
}

/// Returns the ranges of a numa_maps line, which shows only a start: the mapping there and those
/// that follow without a gap, up to the next line. A mapping that was one when the kernel wrote
/// numa_maps may be several in /proc/PID/maps.
fn covered_ranges(line: Range, mappings: &[Mapping]) -> impl Iterator<Item = Range> + '_ {
    let first = mappings.partition_point(|mapping| mapping.range.end <= line.start);
    let mut rest = mappings[first..].iter();
    let mut at = line.start;
    iter::from_fn(move || {
        let range =
            rest.next().filter(|mapping| mapping.range.start <= at)?.range.intersection(line)?;
        at = range.end;
        Some(range)
    })
}

fn most_frequent<'a>(policies: &[MappingPolicy<'a>]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    policies.iter().for_each(|policy| *counts.entry(policy.text).or_default() += 1);
    counts.into_iter().max_by_key(|&(_, count)| count).map(|(text, _)| text)
}

/// Joins ranges that touch or overlap.
fn merge_adjacent(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::procfs::{maps, numa_maps};

    const MAPS: &str = "\
1000-2000 r-xp 0 fe:00 7 /bin/x
2000-4000 rw-p 0 00:00 0
4000-5000 rw-p 0 00:00 0
6000-7000 rw-p 0 00:00 0 [stack]
";

    fn judged(policies: [&str; 4]) -> MemoryPolicies {
        let starts = ["1000", "2000", "4000", "6000"];
        let lines =
            starts.iter().zip(policies).map(|(start, policy)| format!("{start} {policy}\n"));
        let text: String = lines.collect();
        infer(
            &numa_maps::policies(text.as_bytes()),
            &maps::parse(MAPS.as_bytes(), Path::new("maps")).unwrap(),
        )
    }

    /// Goal: ranges with a policy are reported, adjacent ones as one, when the rest has none.
    #[test]
    fn ranges_are_told_apart_from_the_whole() {
        assert_eq!(judged(["default"; 4]), MemoryPolicies::default());
        assert_eq!(judged(["local"; 4]), MemoryPolicies::default());
        let some = judged(["default", "bind:0", "prefer:1 anon=3", "default"]);
        assert_eq!(
            some,
            MemoryPolicies {
                has_task_policy: false,
                policy_ranges: vec![Range::new(0x2000, 0x5000)]
            }
        );
    }

    /// Goal: a policy of the whole program is reported; a mapping with another one is a range
    /// besides.
    #[test]
    fn a_policy_everywhere_is_the_programs() {
        assert_eq!(
            judged(["interleave:0-1"; 4]),
            MemoryPolicies { has_task_policy: true, policy_ranges: Vec::new() }
        );
        let some = judged(["bind:0", "bind:0", "interleave:0-1", "bind:0"]);
        assert_eq!(
            some,
            MemoryPolicies {
                has_task_policy: true,
                policy_ranges: vec![Range::new(0x4000, 0x5000)]
            }
        );
    }

    /// Goal: a mapping that is one in numa_maps and two in maps has the policy as a whole, up to
    /// the next line or gap; a repeated line counts once.
    #[test]
    fn mappings_split_and_merge() {
        let ranges = |policies: &str| {
            let mappings = maps::parse(MAPS.as_bytes(), Path::new("maps")).unwrap();
            infer(&numa_maps::policies(policies.as_bytes()), &mappings).policy_ranges
        };
        let within = |start, end| vec![Range::new(start, end)];
        assert_eq!(ranges("1000 default\n2000 bind:0\n6000 default\n"), within(0x2000, 0x5000));
        assert_eq!(ranges("1000 default\n3000 bind:0\n4000 default\n"), within(0x3000, 0x4000));
        let twice = "1000 default\n2000 default\n2000 bind:0\n4000 default\n";
        assert_eq!(ranges(twice), within(0x2000, 0x4000));
    }

    /// Goal: a mapping that appears between the two reads is left out, and no mapping gives no
    /// policy.
    #[test]
    fn mappings_come_and_go() {
        let policies = numa_maps::policies(b"9000 bind:0\n1000 default\n");
        assert_eq!(infer(&policies, &[]), MemoryPolicies::default());
        assert_eq!(
            infer(&[], &maps::parse(MAPS.as_bytes(), Path::new("maps")).unwrap()),
            MemoryPolicies::default()
        );
    }
}
