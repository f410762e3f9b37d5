//! Plans the move of folios: their destinations, and the reasons why the others stay.
//!
//! The kernel batches only unbroken runs of pages that it can move to one node: a page that is
//! already there, a hole or a second address of one folio ends the run (`do_pages_move` in
//! mm/migrate.c). So the plan holds exactly one address for each folio that must move, sorted by
//! destination.

use std::collections::BTreeMap;

use nodeward_model::{
    Account, NodeId, NodePairs, Nodemask, Page, PageLocation, PageSet, Range, SkipReason,
};

/// A request to move pages between nodes.
#[derive(Clone, Debug, Default)]
pub struct MoveOrder {
    /// The destination of each node's pages.
    pub pairs: NodePairs,
    /// The selected pages; all of them if `None`. A folio is selected if one of its pages is.
    pub pages: Option<PageSet>,
}

/// Limits of a move.
#[derive(Clone, Copy, Debug)]
pub struct MoveRules<'a> {
    /// The request.
    pub order: &'a MoveOrder,
    /// A further selection: only these pages of the request; all if `None`.
    pub restrict_to: Option<&'a PageSet>,
    /// True if pages that other processes map may be moved.
    pub move_shared: bool,
    /// The largest folio that fits the stall budget, in base pages.
    pub folio_pages_max: u32,
    /// The reason for which all of this memory stays, if it does.
    pub stays: Option<SkipReason>,
}

/// One folio to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioMove {
    /// The address of its first page.
    pub address: u64,
    /// The size of the folio in base pages.
    pub pages: u32,
    /// The source node.
    pub from: NodeId,
    /// The destination node.
    pub to: NodeId,
}

/// The plan for a range of pages. Every page on a source or destination node is in `moves` or in
/// `account`; pages elsewhere are counted in `residency` only. Pages that were selected one by one
/// are accounted for even if they do not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolioPlan {
    /// The folios to move, sorted by destination, then address.
    pub moves: Vec<FolioMove>,
    /// The pages that stay, by reason.
    pub account: Account,
    /// Pages by node, as they were read.
    pub residency: BTreeMap<NodeId, u64>,
    /// Pages already on their destination, by node.
    pub already_there_by_node: BTreeMap<NodeId, u64>,
    /// Folios in flight, which must be read again.
    pub in_flight: Vec<Range>,
    /// Pages that were in flight at every read, so that their node is not known.
    pub unlocated_pages: u64,
    /// The largest folio that stays because of the stall budget, in base pages; 0 if there is none.
    pub largest_skipped_folio_pages: u32,
    /// Bytes of address space that nobody looked at.
    pub unexamined_bytes: u64,
}

impl FolioPlan {
    /// Adds consecutive pages that begin at `start` to the plan.
    pub fn add_pages(
        &mut self,
        pages: &[Page],
        start: u64,
        page_bytes: u64,
        rules: &MoveRules<'_>,
    ) {
        let arrivals = rules.order.pairs.destinations();
        let mut address = start;
        for run in pages.chunk_by(|a, b| a.location == b.location) {
            let run = LocationRun { pages: run, start: address, page_bytes };
            self.add_run(&run, rules, &arrivals);
            address = run.end();
        }
    }

    /// Sorts the moves in the order in which the kernel batches them best.
    pub fn sort(&mut self) {
        self.moves.sort_by_key(|folio| (folio.to, folio.address));
    }

    /// Returns the base pages that are to be moved.
    pub fn pages_to_move(&self) -> u64 {
        self.moves.iter().map(|folio| u64::from(folio.pages)).sum()
    }

    /// Accounts for a folio on a source node that stays.
    fn skip(&mut self, folio: FolioMove, reason: SkipReason) {
        self.account.skip(reason, u64::from(folio.pages));
        if reason == SkipReason::StallBudget {
            self.largest_skipped_folio_pages = self.largest_skipped_folio_pages.max(folio.pages);
        }
    }

    /// Adds pages that are all in the same place.
    fn add_run(&mut self, run: &LocationRun<'_>, rules: &MoveRules<'_>, arrivals: &Nodemask) {
        let folios = run.folios().filter(|&(address, page)| rules.selects(address, page, run));
        let named_here = || rules.named_pages_in(run.range());
        let from = match run.pages[0].location {
            PageLocation::On(node) => node,
            PageLocation::Swapped => {
                return self.account.skip(SkipReason::Swapped, pages_of(folios));
            }
            PageLocation::InFlight => {
                return self
                    .in_flight
                    .extend(folios.map(|(address, page)| run.folio_range(address, page)));
            }
            PageLocation::Absent => return self.account.skip(SkipReason::NotPresent, named_here()),
            PageLocation::Unmovable => {
                return self.account.skip(SkipReason::Unmovable, named_here());
            }
        };
        let seen = match rules.order.pages {
            Some(_) => named_here(),
            None => pages_of(folios.clone()),
        };
        if seen > 0 {
            *self.residency.entry(from).or_default() += seen;
        }
        match rules.order.pairs.destination(from) {
            Some(to) => folios.for_each(|(address, page)| {
                let folio = FolioMove { address, pages: page.folio_pages, from, to };
                match skip_reason(page, rules) {
                    Some(reason) => self.skip(folio, reason),
                    None => self.moves.push(folio),
                }
            }),
            None if arrivals.contains(from) => {
                let pages = pages_of(folios);
                self.account.already_there += pages;
                *self.already_there_by_node.entry(from).or_default() += pages;
            }
            None => {}
        }
    }
}

impl MoveRules<'_> {
    /// Returns the number of considered pages in a range that were selected one by one.
    fn named_pages_in(&self, range: Range) -> u64 {
        match (&self.order.pages, self.restrict_to) {
            (None, _) => 0,
            (Some(named), None) => named.count_in(range),
            (Some(named), Some(only)) => named.count_common(only, range),
        }
    }

    /// Returns true if a folio is selected.
    fn selects(&self, address: u64, page: Page, run: &LocationRun<'_>) -> bool {
        let holds_some = |set: &PageSet| match page.folio_pages {
            1 => set.contains(address),
            _ => set.count_in(run.folio_range(address, page)) > 0,
        };
        [self.order.pages.as_ref(), self.restrict_to].into_iter().flatten().all(holds_some)
    }
}

/// Consecutive pages in the same place.
struct LocationRun<'a> {
    pages: &'a [Page],
    start: u64,
    page_bytes: u64,
}

impl LocationRun<'_> {
    fn end(&self) -> u64 {
        self.start + self.pages.len() as u64 * self.page_bytes
    }

    fn range(&self) -> Range {
        Range::new(self.start, self.end())
    }

    /// Returns the addresses of a folio that begins with a page here.
    fn folio_range(&self, address: u64, head: Page) -> Range {
        Range::new(address, address + u64::from(head.folio_pages) * self.page_bytes)
    }

    /// Iterates over the folios that begin here, with their addresses.
    fn folios(&self) -> impl Iterator<Item = (u64, Page)> + Clone + '_ {
        let addresses = (self.start..).step_by(self.page_bytes as usize);
        addresses.zip(self.pages.iter().copied()).filter(|(_, page)| page.folio_pages > 0)
    }
}

fn pages_of(folios: impl Iterator<Item = (u64, Page)>) -> u64 {
    folios.map(|(_, page)| u64::from(page.folio_pages)).sum()
}

/// Returns the reason why a page on a source node is not even tried, if there is one.
fn skip_reason(page: Page, rules: &MoveRules<'_>) -> Option<SkipReason> {
    if rules.stays.is_some() {
        rules.stays
    } else if page.shared && !rules.move_shared {
        Some(SkipReason::Shared)
    } else if page.folio_pages > rules.folio_pages_max {
        Some(SkipReason::StallBudget)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 0x10000;

    fn order(from: &str, to: &str) -> MoveOrder {
        let pairs = NodePairs::new(&from.parse().unwrap(), &to.parse().unwrap());
        MoveOrder { pairs, pages: None }
    }

    fn rules(order: &MoveOrder) -> MoveRules<'_> {
        MoveRules {
            order,
            restrict_to: None,
            move_shared: false,
            folio_pages_max: u32::MAX,
            stays: None,
        }
    }

    fn decide(pages: &[Page], rules: &MoveRules<'_>) -> FolioPlan {
        let mut plan = FolioPlan::default();
        plan.add_pages(pages, START, 4096, rules);
        plan.sort();
        plan
    }

    /// Pages by their position after the first.
    fn named(positions: &[u64]) -> PageSet {
        let mut set = PageSet::new(4096);
        positions.iter().for_each(|position| _ = set.insert(START + position * 4096));
        set
    }

    #[test]
    fn only_pages_on_a_source_node_move() {
        let pages = [Page::on(NodeId(0)), Page::on(NodeId(1)), Page::on(NodeId(2)), Page::ABSENT];
        let plan = decide(&pages, &rules(&order("0", "1")));
        let expected = FolioMove { address: 0x10000, pages: 1, from: NodeId(0), to: NodeId(1) };
        assert_eq!(plan.moves, [expected]);
        assert_eq!(plan.account.already_there, 1, "the page on node 1");
        assert_eq!(plan.account.selected(), 1, "the page on node 2 is nobody's business");
        assert_eq!(plan.residency[&NodeId(2)], 1);
    }

    #[test]
    fn a_folio_is_named_once_and_counted_whole() {
        let head = Page { folio_pages: 4, ..Page::on(NodeId(0)) };
        let tail = Page { folio_pages: 0, ..Page::on(NodeId(0)) };
        let plan = decide(&[head, tail, tail, tail, Page::on(NodeId(0))], &rules(&order("0", "1")));
        assert_eq!(plan.moves.len(), 2);
        assert_eq!(plan.pages_to_move(), 5);
        assert_eq!(plan.moves[1].address, 0x10000 + 4 * 4096);
    }

    #[test]
    fn moves_are_sorted_so_that_runs_stay_unbroken() {
        let on = |n| Page::on(NodeId(n));
        let plan = decide(&[on(0), on(1), on(0), on(1)], &rules(&order("0-1", "2-3")));
        let targets: Vec<u32> = plan.moves.iter().map(|m| m.to.0).collect();
        assert_eq!(targets, [2, 2, 3, 3]);
    }

    #[test]
    fn what_stays_has_its_reason() {
        let shared = Page { shared: true, ..Page::on(NodeId(0)) };
        let huge = Page { folio_pages: 512, ..Page::on(NodeId(0)) };
        let swapped = Page { location: PageLocation::Swapped, ..Page::ABSENT };
        let order = order("0", "1");
        let rules = MoveRules { folio_pages_max: 511, ..rules(&order) };
        let plan = decide(&[shared, huge, swapped], &rules);
        assert!(plan.moves.is_empty());
        assert_eq!(plan.account.skipped_for(SkipReason::Shared), 1);
        assert_eq!(plan.account.skipped_for(SkipReason::StallBudget), 512);
        assert_eq!(plan.account.skipped_for(SkipReason::Swapped), 1);
        let rules = MoveRules { stays: Some(SkipReason::SharedAbove), ..rules };
        let plan = decide(&[shared, huge, Page::on(NodeId(1))], &rules);
        assert!(plan.moves.is_empty() && plan.account.already_there == 1);
        assert_eq!(plan.account.skipped, [(SkipReason::SharedAbove, 513)].into());
    }

    /// Goal: selected pages that do not exist are accounted for; others are not.
    #[test]
    fn named_pages_are_accounted_for_wherever_they_are() {
        let fixed = Page { location: PageLocation::Unmovable, ..Page::ABSENT };
        let on = |n| Page::on(NodeId(n));
        let pages = [on(0), on(0), Page::ABSENT, Page::ABSENT, fixed, on(1)];
        let order = MoveOrder { pages: Some(named(&[1, 2, 4, 5])), ..order("0", "1") };
        let plan = decide(&pages, &rules(&order));
        assert_eq!(plan.moves.iter().map(|m| m.address).collect::<Vec<_>>(), [START + 4096]);
        let skipped = [(SkipReason::NotPresent, 1), (SkipReason::Unmovable, 1)];
        assert_eq!(plan.account.skipped, skipped.into());
        assert_eq!(plan.account.already_there, 1);
        assert_eq!(plan.residency, [(NodeId(0), 1), (NodeId(1), 1)].into());
    }

    /// Goal: the kernel moves a folio whole, so selecting one page selects all of it.
    #[test]
    fn a_page_within_a_folio_names_the_folio() {
        let head = Page { folio_pages: 4, ..Page::on(NodeId(0)) };
        let tail = Page { folio_pages: 0, ..Page::on(NodeId(0)) };
        let pages = [head, tail, tail, tail, Page::on(NodeId(0))];
        let order = MoveOrder { pages: Some(named(&[2])), ..order("0", "1") };
        let plan = decide(&pages, &rules(&order));
        assert_eq!((plan.moves.len(), plan.pages_to_move()), (1, 4));
        assert_eq!(plan.residency[&NodeId(0)], 1, "of the pages that were named");
    }

    /// Goal: a hugetlb page in flight is read again with all of its pages; the second read reports
    /// only those that were in flight, with their present place.
    #[test]
    fn what_is_in_flight_is_considered_again() {
        let tail = |place| Page { location: place, shared: false, folio_pages: 0 };
        let huge = |place| [vec![Page { folio_pages: 4, ..tail(place) }], vec![tail(place); 3]];
        let order = MoveOrder { pages: Some(named(&[0, 5])), ..order("0", "1") };
        let mut pages = huge(PageLocation::InFlight).concat();
        pages.extend([Page::ABSENT; 2]);
        let plan = decide(&pages, &rules(&order));
        assert_eq!(plan.in_flight, [Range::new(START, START + 4 * 4096)]);
        assert_eq!(plan.account.skipped, [(SkipReason::NotPresent, 1)].into());
        let mut flown = PageSet::new(4096);
        flown.insert_range(plan.in_flight[0]);
        let rules = MoveRules { restrict_to: Some(&flown), ..rules(&order) };
        let again = |pages: &[Page]| decide(&[pages, &[Page::ABSENT; 2]].concat(), &rules);
        assert_eq!(again(&huge(PageLocation::On(NodeId(0))).concat()).pages_to_move(), 4);
        let gone = again(&[Page::ABSENT; 4]);
        assert_eq!(gone.account.skipped, [(SkipReason::NotPresent, 1)].into(), "not both again");
    }

    fn any_page() -> impl Strategy<Value = Page> {
        let place = prop_oneof![
            Just(PageLocation::Absent),
            Just(PageLocation::Swapped),
            Just(PageLocation::InFlight),
            Just(PageLocation::Unmovable),
            (0..4_u32).prop_map(|n| PageLocation::On(NodeId(n))),
        ];
        (place, any::<bool>(), 0..9_u32).prop_map(|(place, shared, folio_pages)| Page {
            location: place,
            shared,
            folio_pages,
        })
    }

    proptest! {
        /// Goal: every page is counted exactly once.
        #[test]
        fn every_page_on_a_source_is_planned_or_accounted(
            pages in proptest::collection::vec(any_page(), 0..64),
            move_shared: bool,
            folio_pages_max in 1..9_u32,
        ) {
            let order = order("0,1", "2");
            let rules = MoveRules { move_shared, folio_pages_max, ..rules(&order) };
            let plan = decide(&pages, &rules);
            let count = |wanted: &dyn Fn(&Page) -> bool| -> u64 {
                pages.iter().filter(|p| wanted(p)).map(|p| u64::from(p.folio_pages)).sum()
            };
            let concerned = count(&|p| matches!(p.location, PageLocation::On(n) if n.0 <= 2));
            let swapped = count(&|p| p.location == PageLocation::Swapped);
            prop_assert_eq!(plan.pages_to_move() + plan.account.selected(), concerned + swapped);
            let heads = |p: &&Page| p.location == PageLocation::InFlight && p.folio_pages > 0;
            prop_assert_eq!(plan.in_flight.len(), pages.iter().filter(heads).count());
        }
    }
}
