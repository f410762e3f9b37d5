//! The nodes that the pages of a chunk leave, and the pages that need not or cannot leave.

use nodeward_model::{Account, NodeId, PageLocation, SkipReason};

use super::page_skips::PageSkips;
use crate::page_bits::PageBits;

/// Pages of a chunk that leave the same node.
pub struct SourcePages {
    /// The node; `None` if it is not known.
    pub from: Option<NodeId>,
    pub pages: PageBits,
}

/// Groups pages by their node. `places` has the places of the chunk's pages from page `first` on.
/// Pages that need not or cannot move to the node are entered into `account`. The node of a page
/// that the kernel is moving right now is not known: taking that page out waits until the kernel
/// has put it down.
pub fn group_by_node(
    pages: &PageBits,
    (first, places): (usize, &[PageLocation]),
    to: NodeId,
    even_if_there: bool,
    (account, skips): (&mut Account, &mut PageSkips),
) -> Vec<SourcePages> {
    let mut sources: Vec<SourcePages> = Vec::new();
    let mut enter = |from, page| match sources.iter_mut().find(|source| source.from == from) {
        Some(source) => source.pages.insert(page),
        None => sources.push(SourcePages { from, pages: PageBits::of(page..page + 1) }),
    };
    let mut skip = |page, why| {
        account.skip(why, 1);
        skips.set(page, Some(why));
    };
    let mut there = 0;
    for page in pages.iter() {
        match places.get(page - first).copied().unwrap_or(PageLocation::Absent) {
            PageLocation::On(node) if node == to && !even_if_there => there += 1,
            PageLocation::On(node) => enter(Some(node), page),
            PageLocation::InFlight => enter(None, page),
            PageLocation::Absent => skip(page, SkipReason::NotPresent),
            PageLocation::Swapped => skip(page, SkipReason::Swapped),
            PageLocation::Unmovable => skip(page, SkipReason::Unmovable),
        }
    }
    account.already_there += there;
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every page is tried or accounted for. A page that the kernel is moving itself, as
    /// compaction does to make room for huge pages, is tried.
    #[test]
    fn pages_are_tried_or_accounted_for() {
        let [here, there] = [0, 1].map(NodeId);
        let places = [
            PageLocation::On(here),
            PageLocation::InFlight,
            PageLocation::On(there),
            PageLocation::Absent,
            PageLocation::Swapped,
            PageLocation::Unmovable,
            PageLocation::On(here),
        ];
        let pages = PageBits::of(0..8);
        let sort = |even_if_there| {
            let mut account = Account::default();
            let mut skips = PageSkips::default();
            let told = (&mut account, &mut skips);
            let sources = group_by_node(&pages, (0, &places), there, even_if_there, told);
            assert_eq!(skips.of(0..8).count() as u64, account.skipped_total());
            assert_eq!(skips.of(4..5).collect::<Vec<_>>(), [SkipReason::Swapped]);
            let sources =
                sources.into_iter().map(|source| (source.from, source.pages.iter().collect()));
            (sources.collect::<Vec<(_, Vec<_>)>>(), account)
        };
        let (sources, account) = sort(false);
        assert_eq!(sources, [(Some(here), vec![0, 6]), (None, vec![1])]);
        assert_eq!(account.already_there, 1);
        // 3 is absent, and so is 7, of which nothing is known.
        assert_eq!(account.skipped_for(SkipReason::NotPresent), 2);
        assert_eq!(account.skipped_for(SkipReason::Swapped), 1);
        assert_eq!(account.skipped_for(SkipReason::Unmovable), 1);
        assert_eq!(account.skipped_total(), 4);
        let (sources, account) = sort(true);
        assert_eq!(sources, [(Some(here), vec![0, 6]), (None, vec![1]), (Some(there), vec![2])]);
        assert_eq!(account.already_there, 0);
    }
}
