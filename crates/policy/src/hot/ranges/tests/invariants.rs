//! Goal: whatever samples say, ranges are disjoint, page-aligned, within a mapping and within the
//! page limit, both sets agree on each, and every page is in the result once.

use crate::hot::PageRoom;
use nodeward_model::{NodeId, Range};
use proptest::prelude::*;

use super::super::super::{PageAccessCounts, PeriodTimes, SampleHistory, SamplePeriod, TimeRules};
use super::super::{MappedRange, RangeMove, RangePlan, RemainingRanges, plan_ranges};
use super::simulated::{MS, PAGE, rules};

/// Ticks as (page, node, count). Runs of pages are used by one node, with some uses by others.
type Uses = Vec<(u64, u32, u64)>;

fn any_uses() -> impl Strategy<Value = Uses> {
    let run = (0..4096_u64, 0..4_u32, 1..40_u64, 1..30_u64);
    let runs = proptest::collection::vec(run, 0..40).prop_map(|runs| {
        let one = |(start, node, count, step)| {
            (0..count).map(move |n| ((start + n * step) % 4096, node, 1 + n % 3))
        };
        runs.into_iter().flat_map(one).collect::<Uses>()
    });
    let count = prop_oneof![9 => 1..5_u64, 1 => any::<u64>()];
    let strays = proptest::collection::vec((0..4096_u64, 0..4_u32, count), 0..200);
    (runs, strays).prop_map(|(runs, strays)| [runs, strays].concat())
}

/// The second period is much like the first.
fn any_periods() -> impl Strategy<Value = [Uses; 2]> {
    (any_uses(), any_uses()).prop_map(|(first, other)| {
        let shifted = first.iter().map(|&(page, node, count)| ((page + 1) % 4096, node, count));
        let second = shifted.chain(other.into_iter().take(50)).collect();
        [first, second]
    })
}

/// Mappings with holes between and in them.
fn any_memory() -> impl Strategy<Value = Vec<MappedRange>> {
    proptest::collection::vec((0..300_u64, 1..1500_u64, any::<u64>()), 1..8).prop_map(|list| {
        let mut at = 0;
        let mapping = |(gap, pages, holes): (u64, u64, u64)| {
            let start = at + gap;
            at = start + pages;
            let parts = (start..at).step_by(64).enumerate();
            let parts = parts.filter(|(n, _)| holes >> (n % 64) & 1 == 1);
            let part = |(_, part): (_, u64)| pages_range(part, (part + 64).min(at));
            MappedRange { range: pages_range(start, at), populated: parts.map(part).collect() }
        };
        list.into_iter().map(mapping).collect()
    })
}

fn pages_range(start: u64, end: u64) -> Range {
    Range::new(start * PAGE, end * PAGE)
}

fn on(page: u64) -> NodeId {
    NodeId((page / 700 % 4) as u32)
}

fn history(periods: &[Uses]) -> SampleHistory {
    let mut history = SampleHistory::new(PAGE);
    for uses in periods {
        let mut ticks = PageAccessCounts::new(PAGE);
        uses.iter().for_each(|&(page, node, count)| ticks.add(page * PAGE, NodeId(node), count));
        let times = PeriodTimes { period_ns: 500 * MS, tick_ns: MS };
        let on = |address| (address / PAGE % 50 != 7).then(|| on(address / PAGE));
        history.push(SamplePeriod::new(&ticks, times, on));
    }
    history
}

/// Pages in a range that a period sampled: by its destination, and by others.
fn votes(uses: &Uses, each: &RangeMove) -> (usize, usize) {
    let is_within = |page: &u64| (each.range.start..each.range.end).contains(&(page * PAGE));
    let within = uses.iter().filter(|(page, ..)| is_within(page) && page % 50 != 7);
    let mut pairs: Vec<_> = within.map(|&(page, node, _)| (page, node)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let own = pairs.iter().filter(|(_, node)| NodeId(*node) == each.to).count();
    (own, pairs.len() - own)
}

fn populated(memory: &[MappedRange], within: Range) -> u64 {
    let parts = memory.iter().flat_map(|mapping| &mapping.populated);
    parts.filter_map(|part| part.intersection(within)).map(Range::bytes).sum::<u64>() / PAGE
}

proptest! {
    #[test]
    fn ranges_are_sound(
        periods in any_periods(),
        memory in any_memory(),
        pages_max in prop_oneof![0..2000_u64, Just(u64::MAX)],
    ) {
        let rules = TimeRules { room: PageRoom::of_all(pages_max), ..rules() };
        let RangePlan { moves, remaining } = plan_ranges(&history(&periods), &memory, &rules);
        for each in &moves {
            let mapping = memory.iter().find(|it| it.range.intersection(each.range).is_some());
            let both = mapping.and_then(|it| it.range.intersection(each.range));
            prop_assert_eq!(both, Some(each.range), "within a mapping");
            prop_assert_eq!((each.range.start % PAGE, each.range.end % PAGE), (0, 0));
            prop_assert!(each.saved_ns > each.cost_ns.max(5 * MS));
            prop_assert!(each.pages > 0 && each.pages <= populated(&memory, each.range) + 4);
        }
        let mut ranges: Vec<_> = moves.iter().map(|each| each.range).collect();
        ranges.sort_unstable();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "disjoint");
        prop_assert!(moves.iter().map(|each| each.pages).sum::<u64>() <= pages_max);
        let gains: Vec<_> = moves.iter().map(RangeMove::gain_ns).collect();
        if pages_max == u64::MAX {
            prop_assert!(gains.is_sorted_by(|a, b| a >= b));
            for each in &moves {
                for uses in &periods {
                    let (own, others) = votes(uses, each);
                    prop_assert!(own + others >= 8 && others * 10 <= own + others);
                }
            }
        }
        let moving: u64 = ranges.iter().map(|&range| populated(&memory, range)).sum();
        let RemainingRanges {
            here_already, shared, too_few_samples, does_not_pay, not_confirmed, beyond_cap,
        } = remaining;
        let stays =
            here_already + shared + too_few_samples + does_not_pay + not_confirmed + beyond_cap;
        prop_assert_eq!(moving + stays, populated(&memory, Range::new(0, u64::MAX)));
    }
}

/// Goal: neither times nor addresses of any size overflow.
#[test]
fn the_largest_numbers_are_numbers() {
    let uses: Uses = (0..64).map(|n| (n * 8, (n / 32) as u32, u64::MAX)).collect();
    let rules = TimeRules { horizon_ns: u64::MAX, memory_bound_ppm: 0, ..rules() };
    let memory = [MappedRange {
        range: pages_range(0, u64::MAX / PAGE),
        populated: vec![pages_range(0, u64::MAX / PAGE)],
    }];
    let plan = plan_ranges(&history(&[uses.clone(), uses]), &memory, &rules);
    assert_eq!(plan.moves.len(), 1, "{plan:?}");
    assert_eq!(plan.moves[0].to, NodeId(1));
}
