//! The last look: what is where now, and does the account explain it?

use std::collections::BTreeMap;

use nodeward_machine::Process;
use nodeward_model::{Account, NodeId, NodePairs, SkipReason};

use crate::Selection;
use crate::crew::Crew;
use crate::report::Residue;
use crate::residency::Tally;
use crate::survey::{Unit, units};

/// Bytes looked at in one go, so that what is known of them stays in the cache.
const PIECE_BYTES: u64 = 8 << 20;

/// Base pages by node in the selected memory of a process, looked at afresh: mappings that came or
/// went since are seen as they are now. Empty if the process is gone.
pub fn residency(
    crew: &Crew<'_>,
    process: &dyn Process,
    selection: &Selection,
) -> BTreeMap<NodeId, u64> {
    let page_bytes = crew.machine.page_bytes();
    let units = units(process, 0, selection, page_bytes, crew.workers_max()).unwrap_or_default();
    let (counts, _) = crew.each(&units, |unit| (count(process, unit), 0));
    let mut total = BTreeMap::new();
    for (node, pages) in counts.into_iter().flatten() {
        *total.entry(node).or_default() += pages;
    }
    total
}

fn count(process: &dyn Process, unit: &Unit) -> BTreeMap<NodeId, u64> {
    let mut places = Vec::new();
    let mut tally = Tally::default();
    for range in unit.pieces.iter().flat_map(|(_, range)| range.aligned_pieces(PIECE_BYTES)) {
        places.clear();
        // What went away since is on no node.
        process.places(range, &mut places).unwrap_or_default();
        tally.add(&places);
    }
    tally.nodes
}

/// Compares what is on the source nodes with what the account says stayed there.
pub fn residue(account: &Account, after: &BTreeMap<NodeId, u64>, pairs: &NodePairs) -> Residue {
    let stayed = |reason: &SkipReason| {
        !matches!(
            reason,
            SkipReason::NotPresent | SkipReason::Swapped | SkipReason::WrongNode | SkipReason::Gone
        )
    };
    let skipped = account.skipped.iter().filter(|(reason, _)| stayed(reason));
    Residue {
        expected: skipped.map(|(_, pages)| pages).sum(),
        seen: pairs.sources().iter().filter_map(|node| after.get(&node)).sum(),
    }
}
