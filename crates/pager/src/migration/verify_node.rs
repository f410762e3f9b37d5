//! Checks the node of fresh pages. The kernel is asked for pages of a certain node, but takes them
//! from another one rather than fail; a page on the wrong node has not moved.

use nodeward_model::{NodeId, PageLocation, Range, SkipReason};

use super::chunk_move::ChunkMove;
use super::report::MigrationReport;
use crate::context::PagerContext;
use crate::pool::ShadowSlot;

/// Removes base pages that are on the wrong node from the count of those moved, and calls
/// `misplaced_page` with each. `pages` are those of a batch, by their index in the chunk.
pub fn deduct_wrong_node(
    context: &PagerContext,
    chunk_move: &ChunkMove<'_>,
    pages: impl Iterator<Item = usize> + Clone,
    report: &mut MigrationReport,
    mut misplaced_page: impl FnMut(usize),
) {
    let start = chunk_move.region.start() + chunk_move.chunk_offset as u64;
    let page_bytes = context.page_bytes as u64;
    let addresses = pages.map(|page| start + page as u64 * page_bytes);
    let page_of = |address: u64| ((address - start) / page_bytes) as usize;
    let found = |address| misplaced_page(page_of(address));
    let misplaced = find_wrong_node(context, addresses, chunk_move.to, found);
    report.account.moved -= misplaced;
    report.one_way_pages -= misplaced;
    report.account.skip(SkipReason::WrongNode, misplaced);
}

/// Finds the pages (ascending addresses) that are on another node than the one requested, and
/// returns their number. Each page is checked: a node that has run out of room still supplies
/// single pages, as soon as some are freed.
fn find_wrong_node(
    context: &PagerContext,
    pages: impl Iterator<Item = u64> + Clone,
    to: NodeId,
    mut found: impl FnMut(u64),
) -> u64 {
    let (Some(first), Some(last)) = (pages.clone().next(), pages.clone().last()) else { return 0 };
    if context.has_one_node() {
        return 0;
    }
    let page_bytes = context.page_bytes as u64;
    let mut places = Vec::with_capacity(context.chunk_pages());
    let looked = context.myself.locations(Range::new(first, last + page_bytes), &mut places);
    let place = |page: u64| places.get(((page - first) / page_bytes) as usize);
    let misplaced = match looked {
        Ok(()) => {
            pages.filter(|&page| is_other(place(page), to)).inspect(|&page| found(page)).count()
                as u64
        }
        Err(_) => 0, // pages that cannot be located count as moved
    };
    if misplaced > 0 {
        context.invalidate_headroom(to);
    }
    misplaced
}

/// Returns whether all pages of a slot are on this node.
pub fn are_all_on_node(context: &PagerContext, recycled: &ShadowSlot, node: NodeId) -> bool {
    if context.has_one_node() {
        return true;
    }
    let start = recycled.slot.address(0);
    let range = Range::new(start, start + (recycled.pages * context.page_bytes) as u64);
    let mut places = Vec::with_capacity(recycled.pages);
    let looked = context.myself.locations(range, &mut places);
    looked.is_ok() && places.iter().all(|place| *place == PageLocation::On(node))
}

/// Returns whether a page is on another node than this one.
pub fn is_on_other_node(context: &PagerContext, page: u64, node: NodeId) -> bool {
    let places = context.myself.locate(&[page]).unwrap_or_default();
    is_other(places.first(), node)
}

/// A page that the program has freed meanwhile is on no node.
fn is_other(place: Option<&PageLocation>, node: NodeId) -> bool {
    matches!(place, Some(PageLocation::On(other)) if *other != node)
}
