//! Brings pages of zeros into a claimed chunk where no pages are.

use std::ops::Range;

use nodeward_model::NodeId;

use super::lane_slots::prefer_node;
use super::refusals::{self, transfer_skipping_refused};
use crate::chunk::PageSize;
use crate::page_bits::PageBits;
use crate::pool::ShadowSlot;
use crate::region::{ChunkState, Claim, RegionShared};
use crate::sys::{copy_from_slot, copy_without_wake, map_from_slot};

/// Returns whether a huge page of zeros may be brought into a chunk. It would cover pages that are
/// left out.
pub fn may_fill_huge_page(region: &RegionShared, claim: &Claim<ChunkState>) -> bool {
    region.size == PageSize::Huge && claim.state.lazy.is_none()
}

/// Who wakes the threads that wait for pages that are brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// The kernel, as soon as a page is there.
    AtOnce,
    /// The caller, once it has released the chunk: a thread that wakes up may want the chunk, and
    /// on a busy machine it takes the CPU from the one that still has it.
    ByCaller,
}

/// Brings in pages of zeros where none are. If the whole chunk is missing, `huge_page` is brought
/// in, a fresh one, if there is one.
pub fn fill_with_zeros(
    region: &RegionShared,
    claim: &mut Claim<ChunkState>,
    pages: &PageBits,
    node: Option<NodeId>,
    huge_page: Option<&mut ShadowSlot>,
    waking: Waking,
) {
    if let Some(node) = node {
        prefer_node(&region.context, node).ok(); // elsewhere is better than nowhere
    }
    claim.state.node = claim.state.node.filter(|known| Some(*known) == node);
    let filled = huge_page.is_some_and(|fresh| fill_huge_page(region, claim.chunk, fresh))
        || fill_base_pages(region, claim.chunk, pages, waking);
    if !filled {
        // Nobody was woken where a page was there already.
        region.wake_waiters(claim.chunk);
    }
}

/// Returns whether all pages were missing and are there now.
fn fill_base_pages(region: &RegionShared, chunk: usize, pages: &PageBits, waking: Waking) -> bool {
    let mut all = true;
    let (context, page_bytes) = (&region.context, region.context.page_bytes);
    let (uffd, start) = (&context.uffd, region.chunk_bytes(chunk).start);
    for run in pages.runs() {
        let home = start + run.start * page_bytes;
        let copy = |part: Range<usize>| {
            let part = home + part.start..home + part.end;
            let (from, to) = ((&context.zeros, 0), (&region.mapping, part));
            match waking {
                Waking::AtOnce => copy_from_slot(uffd, from, to),
                Waking::ByCaller => copy_without_wake(uffd, from, to),
            }
        };
        // A page that is already there is as good. Without memory, the shared zero page is mapped:
        // it needs none until it is written to.
        let refused = |page: usize, _| {
            all = false;
            let address = region.mapping.start() + (home + page * page_bytes) as u64;
            uffd.map_zeros(address, page_bytes as u64).ok();
        };
        transfer_skipping_refused(run.len(), page_bytes, copy, refusals::of_map, refused);
    }
    all
}

/// Brings in a huge page if the whole chunk is missing. Returns `false` on failure; then the page
/// is freed.
fn fill_huge_page(region: &RegionShared, chunk: usize, fresh: &mut ShadowSlot) -> bool {
    let to = (&region.mapping, region.chunk_bytes(chunk));
    let brought = map_from_slot(&region.context.uffd, (&mut fresh.slot, 0), to).is_ok();
    match brought {
        true => fresh.pages = 0,
        false => fresh.clear(),
    }
    brought
}
