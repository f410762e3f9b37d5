//! Undo of a move: pages recorded in a ledger that are still where it says they went return to
//! where they were. A page that was freed and faulted in anew since is at the same address, and
//! cannot be told apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Process, Result};
use nodeward_model::{NodeId, NodePairs, Nodemask, PageSet, Range};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_records::ledger::{MovedPages, MovedRun};

/// Returns the orders that bring back pages of a process that moved, or may have.
///
/// # Errors
/// If the process is gone.
pub fn orders_of_process(
    process: &dyn Process,
    moved: &MovedPages,
    page_bytes: u64,
) -> Result<Arc<[MoveOrder]>> {
    let mapped: Vec<Range> = process.mappings()?.iter().map(|mapping| mapping.range).collect();
    let runs = moved.moved.iter().chain(moved.open.iter());
    Ok(orders(runs, &mapped, page_bytes).into())
}

/// Returns the orders that move runs back, one for each pair of nodes. Only pages that are still
/// within a mapping are named; `mapped` are the mappings, ascending.
pub fn orders(
    runs: impl Iterator<Item = MovedRun>,
    mapped: &[Range],
    page_bytes: u64,
) -> Vec<MoveOrder> {
    let mut sets: BTreeMap<(NodeId, NodeId), PageSet> = BTreeMap::new();
    for run in runs {
        let set = sets.entry((run.to, run.from)).or_insert_with(|| PageSet::new(page_bytes));
        let end = run.start.saturating_add(run.pages.saturating_mul(page_bytes));
        let range = Range::new(run.start, end);
        let behind = mapped.partition_point(|mapping| mapping.end <= range.start);
        let meets = mapped[behind..].iter().take_while(|mapping| mapping.start < range.end);
        meets
            .filter_map(|mapping| mapping.intersection(range))
            .for_each(|part| set.insert_range(part));
    }
    let order = |((from, to), pages)| MoveOrder {
        pairs: NodePairs::all_to(&Nodemask::from_iter([from]), to),
        pages: Some(pages),
    };
    sets.into_iter().map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn run(first: u64, pages: u64, from: u32, to: u32) -> MovedRun {
        MovedRun { start: first * PAGE, pages, from: NodeId(from), to: NodeId(to) }
    }

    fn pages(order: &MoveOrder) -> Vec<u64> {
        order.pages.iter().flat_map(PageSet::iter).map(|address| address / PAGE).collect()
    }

    /// Goal: pages that went from 0 to 1 go from 1 to 0, and nothing outside the mappings is named,
    /// however long a run claims to be.
    #[test]
    fn runs_go_back_where_they_came_from() {
        let mapped = [Range::new(10 * PAGE, 20 * PAGE), Range::new(30 * PAGE, 33 * PAGE)];
        let runs =
            [run(18, 100, 0, 1), run(12, 2, 1, 0), run(15, 1, 0, 1), run(40, u64::MAX, 0, 1)];
        let orders = orders(runs.into_iter(), &mapped, PAGE);
        let directions: Vec<_> = orders.iter().flat_map(|order| order.pairs.iter()).collect();
        assert_eq!(directions, [(NodeId(0), NodeId(1)), (NodeId(1), NodeId(0))]);
        assert_eq!(pages(&orders[0]), [12, 13]);
        assert_eq!(pages(&orders[1]), [15, 18, 19, 30, 31, 32]);
    }
}
