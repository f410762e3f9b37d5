//! Where fresh pages came down. The kernel is told which node they should be from, but takes them
//! from another one rather than refuse; a page that went astray has not moved.

use nodeward_model::{NodeId, Place, Range, SkipReason};

use crate::Report;
use crate::hands::Trip;
use crate::shadow::Shadow;
use crate::shop::Shop;

/// Takes base pages that went astray out of those that were moved. `pages` are those of a batch, by
/// their index in the chunk.
pub fn correct(
    shop: &Shop,
    trip: &Trip<'_>,
    pages: impl Iterator<Item = usize> + Clone,
    report: &mut Report,
) {
    let start = trip.home.start() + trip.start as u64;
    let addresses = pages.map(|page| start + (page * shop.page_bytes) as u64);
    let strays = strays(shop, addresses, trip.to);
    report.account.moved -= strays;
    report.one_way_pages -= strays;
    report.account.skip(SkipReason::WrongNode, strays);
}

/// How many of these pages, given by their addresses in ascending order, are on another node than
/// the one they were fetched from. Each is looked at: a node that has no room left gives single
/// pages all the same, as soon as somebody frees some.
fn strays(shop: &Shop, pages: impl Iterator<Item = u64> + Clone, to: NodeId) -> u64 {
    let (Some(first), Some(last)) = (pages.clone().next(), pages.clone().last()) else { return 0 };
    if shop.has_one_node() {
        return 0;
    }
    let page_bytes = shop.page_bytes as u64;
    let mut places = Vec::with_capacity(shop.chunk_pages());
    let looked = shop.myself.places(Range::new(first, last + page_bytes), &mut places);
    let place = |page: u64| places.get(((page - first) / page_bytes) as usize);
    let strays = match looked {
        Ok(()) => pages.filter(|&page| is_other(place(page), to)).count() as u64,
        Err(_) => 0, // what cannot be seen is believed
    };
    if strays > 0 {
        shop.look_again(to);
    }
    strays
}

/// Whether all pages of a slot are on this node.
pub fn is_all_there(shop: &Shop, kept: &Shadow, node: NodeId) -> bool {
    if shop.has_one_node() {
        return true;
    }
    let start = kept.slot.address(0);
    let range = Range::new(start, start + (kept.pages * shop.page_bytes) as u64);
    let mut places = Vec::with_capacity(kept.pages);
    let looked = shop.myself.places(range, &mut places);
    looked.is_ok() && places.iter().all(|place| *place == Place::On(node))
}

/// Whether a page is on another node than this one.
pub fn is_elsewhere(shop: &Shop, page: u64, node: NodeId) -> bool {
    let places = shop.myself.locate(&[page]).unwrap_or_default();
    is_other(places.first(), node)
}

/// Pages that the program has freed meanwhile are nowhere.
fn is_other(place: Option<&Place>, node: NodeId) -> bool {
    matches!(place, Some(Place::On(other)) if *other != node)
}
