//! The last look: where pages are now, and whether the account explains it.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId, Nodemask, PageLocation, Range, SkipReason};

use crate::kernel_walk;
use crate::outcomes::add_counts;
use crate::report::Residue;
use crate::residency::{LocationCounts, together};
use crate::stop_limit::{StopLimit, VERIFY_NS};
use crate::survey::{SurveyScope, Unit, survey};
use crate::worker_pool::WorkerPool;

/// Bytes read at a time, so that the data of one piece stays in the cache.
const PIECE_BYTES: u64 = 8 << 20;

/// Counts base pages by node in the selected memory of a process, read anew: mappings that came or
/// went since count as they are now. Of pages that were named one by one only those are counted.
/// Empty if the process is gone; `None` if the move was stopped and this look took too long.
pub fn residency(
    worker_pool: &WorkerPool<'_>,
    scope: &SurveyScope<'_>,
    limit: &StopLimit<'_>,
) -> Option<BTreeMap<NodeId, u64>> {
    if (scope.is_over)() {
        return None;
    }
    let (units, walked) = survey(scope).unwrap_or_default();
    let (counts, _) = worker_pool.run_all(&units, |unit| (count(scope, unit, limit), 0));
    let mut total = kernel_walk::total(&walked);
    for counts in counts {
        add_counts(&mut total, &counts?);
    }
    Some(total)
}

fn count(
    scope: &SurveyScope<'_>,
    unit: &Unit,
    limit: &StopLimit<'_>,
) -> Option<BTreeMap<NodeId, u64>> {
    let mut places = Vec::new();
    let mut tally = LocationCounts::default();
    let ranges = unit.pieces.iter().flat_map(|(_, range)| range.aligned_pieces(PIECE_BYTES));
    for ranges in together(ranges, PIECE_BYTES) {
        if limit.is_over(VERIFY_NS) {
            return None;
        }
        places.clear();
        // Memory that went away since is on no node.
        scope.process.locations_of(&ranges, &mut places).unwrap_or_default();
        mask_unnamed_pages(&mut places, &ranges, scope);
        tally.add(&places);
    }
    Some(tally.nodes)
}

/// Marks pages that no order is for as absent.
fn mask_unnamed_pages(places: &mut [PageLocation], ranges: &[Range], scope: &SurveyScope<'_>) {
    if scope.orders.iter().any(|order| order.pages.is_none()) {
        return;
    }
    let sets = || scope.orders.iter().filter_map(|order| order.pages.as_ref());
    let addresses = |range: &Range| (range.start..range.end).step_by(scope.page_bytes as usize);
    for (address, place) in ranges.iter().flat_map(addresses).zip(places) {
        if !sets().any(|set| set.contains(address)) {
            *place = PageLocation::Absent;
        }
    }
}

/// Compares the pages on the source nodes with those that stayed there according to the account,
/// and those that belong there: a node may be a source and a destination.
pub fn residue(
    account: &Account,
    at_home: &BTreeMap<NodeId, u64>,
    after: &BTreeMap<NodeId, u64>,
    sources: &Nodemask,
) -> Residue {
    let stayed = |reason: &SkipReason| {
        !matches!(
            reason,
            SkipReason::NotPresent | SkipReason::Swapped | SkipReason::WrongNode | SkipReason::Gone
        )
    };
    let skipped = account.skipped.iter().filter(|(reason, _)| stayed(reason));
    let on_sources = |counts: &BTreeMap<NodeId, u64>| -> u64 {
        sources.iter().filter_map(|node| counts.get(&node)).sum()
    };
    Residue {
        expected: skipped.map(|(_, pages)| pages).sum::<u64>() + on_sources(at_home),
        seen: on_sources(after),
    }
}
