//! Which folios move where, and why the others stay.
//!
//! The kernel batches only unbroken runs of pages that it can move to one node: a page that is
//! already there, a hole or a second address of one folio ends the run
//! (`do_pages_move` in mm/migrate.c). So the plan holds one address for each folio that must move,
//! sorted by destination, and nothing else.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId, NodePairs, Nodemask, Page, Place, SkipReason};

/// What a move may touch.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Where each node's pages go.
    pub pairs: NodePairs,
    /// Whether pages that other processes map may be moved.
    pub everyones: bool,
    /// The largest folio that fits the stall budget, in base pages.
    pub folio_pages_max: u32,
}

/// One folio to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioMove {
    /// The address of its first page.
    pub address: u64,
    /// Its size in base pages.
    pub pages: u32,
    /// Where it is.
    pub from: NodeId,
    /// Where it goes.
    pub to: NodeId,
}

/// What was decided about a stretch of pages. Every page on a source or destination node is in
/// `moves` or in `account`; pages elsewhere are counted in `residency` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The folios to move, sorted by destination, then address.
    pub moves: Vec<FolioMove>,
    /// The pages that stay, by reason.
    pub account: Account,
    /// Pages by node, as they were seen.
    pub residency: BTreeMap<NodeId, u64>,
    /// The addresses of pages that somebody is moving: they must be looked at again.
    pub in_flight: Vec<u64>,
}

impl Plan {
    /// Decides about consecutive pages that begin at `start`.
    pub fn consider(&mut self, pages: &[Page], start: u64, page_bytes: u64, rules: &Rules) {
        let arrivals = rules.pairs.destinations();
        let mut address = start;
        for run in pages.chunk_by(|a, b| a.place == b.place) {
            self.run(run, address, page_bytes, rules, &arrivals);
            address += run.len() as u64 * page_bytes;
        }
    }

    /// Puts the moves in the order in which the kernel batches them best.
    pub fn sort(&mut self) {
        self.moves.sort_by_key(|folio| (folio.to, folio.address));
    }

    /// Base pages that are to be moved.
    pub fn pages_to_move(&self) -> u64 {
        self.moves.iter().map(|folio| u64::from(folio.pages)).sum()
    }

    /// Decides about pages that are all in the same place.
    fn run(&mut self, run: &[Page], start: u64, step: u64, rules: &Rules, arrivals: &Nodemask) {
        let heads =
            (start..).step_by(step as usize).zip(run).filter(|(_, page)| page.folio_pages > 0);
        let pages = run.iter().map(|page| u64::from(page.folio_pages)).sum();
        let from = match run[0].place {
            Place::On(node) => node,
            Place::Swapped => return self.account.skip(SkipReason::Swapped, pages),
            Place::InFlight => return self.in_flight.extend(heads.map(|(address, _)| address)),
            Place::Absent | Place::Fixed => return,
        };
        *self.residency.entry(from).or_default() += pages;
        match rules.pairs.destination(from) {
            Some(to) => {
                for (address, page) in heads {
                    let folio = FolioMove { address, pages: page.folio_pages, from, to };
                    match refusal(*page, rules) {
                        Some(reason) => self.account.skip(reason, u64::from(folio.pages)),
                        None => self.moves.push(folio),
                    }
                }
            }
            None if arrivals.contains(from) => self.account.already_there += pages,
            None => {}
        }
    }
}

/// Why a page on a source node is not even tried.
fn refusal(page: Page, rules: &Rules) -> Option<SkipReason> {
    if page.shared && !rules.everyones {
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

    fn rules(from: &str, to: &str) -> Rules {
        let pairs = NodePairs::new(&from.parse().unwrap(), &to.parse().unwrap());
        Rules { pairs, everyones: false, folio_pages_max: u32::MAX }
    }

    fn decide(pages: &[Page], rules: &Rules) -> Plan {
        let mut plan = Plan::default();
        plan.consider(pages, 0x10000, 4096, rules);
        plan.sort();
        plan
    }

    #[test]
    fn only_pages_on_a_source_node_move() {
        let pages = [Page::on(NodeId(0)), Page::on(NodeId(1)), Page::on(NodeId(2)), Page::ABSENT];
        let plan = decide(&pages, &rules("0", "1"));
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
        let plan = decide(&[head, tail, tail, tail, Page::on(NodeId(0))], &rules("0", "1"));
        assert_eq!(plan.moves.len(), 2);
        assert_eq!(plan.pages_to_move(), 5);
        assert_eq!(plan.moves[1].address, 0x10000 + 4 * 4096);
    }

    #[test]
    fn moves_are_sorted_so_that_runs_stay_unbroken() {
        let on = |n| Page::on(NodeId(n));
        let plan = decide(&[on(0), on(1), on(0), on(1)], &rules("0-1", "2-3"));
        let targets: Vec<u32> = plan.moves.iter().map(|m| m.to.0).collect();
        assert_eq!(targets, [2, 2, 3, 3]);
    }

    #[test]
    fn what_stays_has_its_reason() {
        let shared = Page { shared: true, ..Page::on(NodeId(0)) };
        let huge = Page { folio_pages: 512, ..Page::on(NodeId(0)) };
        let swapped = Page { place: Place::Swapped, ..Page::ABSENT };
        let rules = Rules { folio_pages_max: 511, ..rules("0", "1") };
        let plan = decide(&[shared, huge, swapped], &rules);
        assert!(plan.moves.is_empty());
        assert_eq!(plan.account.skipped_for(SkipReason::Shared), 1);
        assert_eq!(plan.account.skipped_for(SkipReason::StallBudget), 512);
        assert_eq!(plan.account.skipped_for(SkipReason::Swapped), 1);
    }

    fn any_page() -> impl Strategy<Value = Page> {
        let place = prop_oneof![
            Just(Place::Absent),
            Just(Place::Swapped),
            Just(Place::InFlight),
            Just(Place::Fixed),
            (0..4_u32).prop_map(|n| Place::On(NodeId(n))),
        ];
        (place, any::<bool>(), 0..9_u32).prop_map(|(place, shared, folio_pages)| Page {
            place,
            shared,
            folio_pages,
        })
    }

    proptest! {
        /// No page is counted twice or not at all.
        #[test]
        fn every_page_on_a_source_is_planned_or_accounted(
            pages in proptest::collection::vec(any_page(), 0..64),
            everyones: bool,
            folio_pages_max in 1..9_u32,
        ) {
            let rules = Rules { everyones, folio_pages_max, ..rules("0,1", "2") };
            let plan = decide(&pages, &rules);
            let count = |wanted: &dyn Fn(&Page) -> bool| -> u64 {
                pages.iter().filter(|p| wanted(p)).map(|p| u64::from(p.folio_pages)).sum()
            };
            let concerned = count(&|p| matches!(p.place, Place::On(n) if n.0 <= 2));
            let swapped = count(&|p| p.place == Place::Swapped);
            prop_assert_eq!(plan.pages_to_move() + plan.account.selected(), concerned + swapped);
            let heads = |p: &&Page| p.place == Place::InFlight && p.folio_pages > 0;
            prop_assert_eq!(plan.in_flight.len(), pages.iter().filter(heads).count());
        }
    }
}
