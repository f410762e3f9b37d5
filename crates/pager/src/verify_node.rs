//! Checks the node of fresh pages. The kernel is asked for pages of a certain node, but takes them
//! from another one rather than fail; a page on the wrong node has not moved.

use nodeward_model::{NodeId, PageLocation, Range, SkipReason};

use crate::MigrationReport;
use crate::context::PagerContext;
use crate::shadow_slot::ShadowSlot;
use crate::uffd_ops::ChunkMove;

/// Removes base pages that are on the wrong node from the count of those moved. `pages` are those
/// of a batch, by their index in the chunk.
pub fn deduct_wrong_node(
    shop: &PagerContext,
    trip: &ChunkMove<'_>,
    pages: impl Iterator<Item = usize> + Clone,
    report: &mut MigrationReport,
) {
    let start = trip.region.start() + trip.chunk_offset as u64;
    let addresses = pages.map(|page| start + (page * shop.page_bytes) as u64);
    let strays = count_wrong_node(shop, addresses, trip.to);
    report.account.moved -= strays;
    report.one_way_pages -= strays;
    report.account.skip(SkipReason::WrongNode, strays);
}

/// Counts the pages (ascending addresses) that are on another node than the one requested. Each
/// page is checked: a node that has run out of room still supplies single pages, as soon as some
/// are freed.
fn count_wrong_node(
    shop: &PagerContext,
    pages: impl Iterator<Item = u64> + Clone,
    to: NodeId,
) -> u64 {
    let (Some(first), Some(last)) = (pages.clone().next(), pages.clone().last()) else { return 0 };
    if shop.has_one_node() {
        return 0;
    }
    let page_bytes = shop.page_bytes as u64;
    let mut places = Vec::with_capacity(shop.chunk_pages());
    let looked = shop.myself.locations(Range::new(first, last + page_bytes), &mut places);
    let place = |page: u64| places.get(((page - first) / page_bytes) as usize);
    let strays = match looked {
        Ok(()) => pages.filter(|&page| is_other(place(page), to)).count() as u64,
        Err(_) => 0, // pages that cannot be located count as moved
    };
    if strays > 0 {
        shop.invalidate_headroom(to);
    }
    strays
}

/// Returns whether all pages of a slot are on this node.
pub fn are_all_on_node(shop: &PagerContext, kept: &ShadowSlot, node: NodeId) -> bool {
    if shop.has_one_node() {
        return true;
    }
    let start = kept.slot.address(0);
    let range = Range::new(start, start + (kept.pages * shop.page_bytes) as u64);
    let mut places = Vec::with_capacity(kept.pages);
    let looked = shop.myself.locations(range, &mut places);
    looked.is_ok() && places.iter().all(|place| *place == PageLocation::On(node))
}

/// Returns whether a page is on another node than this one.
pub fn is_on_other_node(shop: &PagerContext, page: u64, node: NodeId) -> bool {
    let places = shop.myself.locate(&[page]).unwrap_or_default();
    is_other(places.first(), node)
}

/// A page that the program has freed meanwhile is on no node.
fn is_other(place: Option<&PageLocation>, node: NodeId) -> bool {
    matches!(place, Some(PageLocation::On(other)) if *other != node)
}
