//! Single pages by samples: a page moves if two periods agree who uses it.
//!
//! In memory whose pages belong to different nodes at random no range has an owner, and most pages
//! have no sample. Of those with one sample nothing is known: the next one may be by another node.
//! So a page needs samples in both sets, nearly all by the same node. Pages that all nodes use have
//! such samples by chance. What the choosing set promises of all pages is then not confirmed, and
//! none moves.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::Range;

use super::evidence::{SampleEvidence, SampleWindow, UseSums};
use super::promises::Promises;
use super::samples::SampleHistory;
use super::time_rules::{SAVED_NS_MIN, TimeRules};
use super::{FolioLocation, HotMove};

/// Pages to look for in a period at most: to find the folio of a page takes a look at 512.
const PAGES_MAX: usize = 1024;

/// Returns the pages that have samples in both sets, the longest used first; 1,024 at most.
pub fn pages_seen_again(history: &SampleHistory) -> Vec<u64> {
    let mut seen: BTreeMap<u64, ([bool; 2], u64)> = BTreeMap::new();
    for (number, (uses, _)) in history.periods().enumerate() {
        for one in uses {
            let (sets, ns) = seen.entry(one.page).or_default();
            sets[number % 2] = true;
            *ns = ns.saturating_add(one.ns);
        }
    }
    let again = seen.into_iter().filter(|(_, (sets, _))| *sets == [true; 2]);
    let mut again: Vec<_> = again.map(|(page, (_, ns))| (Reverse(ns), page)).collect();
    again.sort_unstable();
    again.into_iter().take(PAGES_MAX).map(|(_, page)| page).collect()
}

/// Chooses for the folios of these pages, in descending order of their gain. `place_of` maps the
/// address of a page to its folio and place.
pub fn plan_sampled_pages(
    history: &SampleHistory,
    pages: &[u64],
    place_of: impl Fn(u64) -> Option<FolioLocation>,
    rules: &TimeRules,
) -> Vec<HotMove> {
    let window = SampleWindow::all(history);
    let folios = pages.iter().filter_map(|&page| place_of(page)).map(|it| (it.address, it));
    let folios: BTreeMap<u64, FolioLocation> = folios.collect();
    let mut promises = Promises::default();
    let mut moves = Vec::new();
    for folio in folios.into_values() {
        let bytes = u64::from(folio.pages).saturating_mul(history.page_bytes());
        let range = Range::new(folio.address, folio.address.saturating_add(bytes));
        let evidence = window.within(range).evidence(u64::MAX);
        promise(&evidence, rules, &mut promises);
        moves.extend(folio_move(folio, bytes, &evidence, rules));
    }
    moves.sort_unstable_by_key(|each| (Reverse(each.gain_ns()), each.address));
    let mut room = rules.room.clone();
    moves.retain(|each| room.take(each.to, u64::from(each.pages)));
    let saved_ns = moves.iter().fold(0_u64, |sum, each| sum.saturating_add(each.saved_ns));
    if promises.are_kept() && saved_ns >= SAVED_NS_MIN { moves } else { Vec::new() }
}

/// Notes what the choosing set promises of a folio.
fn promise(evidence: &SampleEvidence, rules: &TimeRules, promises: &mut Promises) {
    let Some(owner) = evidence.choosing.most_frequent_user() else { return };
    let Some(to) = rules.nearest(owner) else { return };
    let saved = |set: &UseSums| set.saved_ns(owner, to, rules);
    promises.add(saved(&evidence.choosing), saved(&evidence.confirming));
}

/// Returns the move of a folio to the node that both sets name, if it pays by both.
fn folio_move(
    folio: FolioLocation,
    bytes: u64,
    evidence: &SampleEvidence,
    rules: &TimeRules,
) -> Option<HotMove> {
    let owner = evidence.choosing.most_frequent_user()?;
    let to = rules.nearest(owner)?;
    let both_agree = evidence.has_votes(1) && evidence.is_nearly_all_by(owner);
    let saved_ns = u64::try_from(evidence.saved_ns(owner, to, rules)).unwrap_or(0);
    let cost_ns = rules.costs.move_ns(bytes, folio.node, to);
    let is_worth_it = both_agree && to != folio.node && saved_ns > cost_ns;
    is_worth_it.then_some(HotMove {
        address: folio.address,
        pages: folio.pages,
        from: folio.node,
        to,
        saved_ns,
        cost_ns,
    })
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;

    use super::super::{MissCosts, PageAccessCounts, PageRoom, PeriodTimes, SamplePeriod};
    use super::*;

    const PAGE: u64 = 4096;
    const MS: u64 = 1_000_000;

    /// Two nodes at the usual distances. Folio overhead 1 us: a page costs 13.8 us.
    fn rules() -> TimeRules {
        TimeRules {
            costs: MissCosts::typical(None, 1000),
            destinations: (0..2).map(NodeId).collect(),
            memory_bound_ppm: 300_000,
            horizon_ns: 10_000 * MS,
            room: PageRoom::of_all(u64::MAX),
        }
    }

    /// Periods of a second, each with the pages that nodes used for so many ticks of 1 ms. All
    /// pages are on node 0.
    fn history(periods: &[Vec<(u64, u32, u64)>]) -> SampleHistory {
        let mut history = SampleHistory::new(PAGE);
        for uses in periods {
            let mut ticks = PageAccessCounts::new(PAGE);
            uses.iter().for_each(|&(page, node, n)| ticks.add(page * PAGE, NodeId(node), n));
            let times = PeriodTimes { period_ns: 1000 * MS, tick_ns: MS };
            history.push(SamplePeriod::new(&ticks, times, |_| Some(NodeId(0))));
        }
        history
    }

    /// The moves, as (page, pages, to, saved in us), by folios of so many pages.
    fn moves(history: &SampleHistory, folio: u32) -> Vec<(u64, u32, u32, u64)> {
        let bytes = u64::from(folio) * PAGE;
        let place_of = |page: u64| {
            Some(FolioLocation { address: page / bytes * bytes, pages: folio, node: NodeId(0) })
        };
        let plan = plan_sampled_pages(history, &pages_seen_again(history), place_of, &rules());
        plan.iter().map(|it| (it.address / PAGE, it.pages, it.to.0, it.saved_ns / 1000)).collect()
    }

    /// Goal: a page moves if two periods name the same node, for what the lower one promises; not
    /// after one sample, nor if they differ.
    #[test]
    fn a_page_moves_if_two_periods_agree() {
        let first = vec![(1, 1, 3), (2, 1, 4), (3, 1, 1), (4, 1, 3), (5, 0, 9), (7, 1, 4)];
        let second = vec![(1, 1, 3), (2, 1, 9), (3, 0, 1), (6, 1, 9), (5, 0, 9), (7, 1, 2)];
        // 3 ms x 100 / 433.3 = 0.692 ms in a second, 6.92 ms within 10 s; 4 ms, and 2.
        let expected = [(2, 1, 1, 9231), (1, 1, 1, 6923), (7, 1, 1, 4615)];
        assert_eq!(moves(&history(&[first.clone(), second]), 1), expected);
        assert_eq!(moves(&history(&[first]), 1), []);
        // One tick in both saves 2.3 ms, next to nothing.
        let little = vec![(1, 1, 1)];
        assert_eq!(moves(&history(&[little.clone(), little]), 1), []);
    }

    /// Goal: pages that all nodes use alike have the same user in two periods every other time, and
    /// none of them moves.
    #[test]
    fn pages_of_all_stay() {
        // The four pages of each group are used by 0 and 0, 0 and 1, 1 and 0, 1 and 1.
        let period = |bit: u64| (0..400).map(|page| (page, (page >> bit & 1) as u32, 4)).collect();
        let history = history(&[period(0), period(1)]);
        assert_eq!(moves(&history, 1), []);
    }

    /// Goal: a folio is judged by all samples of its pages, and moves whole if that pays.
    #[test]
    fn folios_move_whole() {
        let uses = vec![(3, 1, 4), (9, 1, 4), (14, 1, 4)];
        // 12 ms a second save 27.7 ms, and 16 pages cost 205.8 us.
        assert_eq!(moves(&history(&[uses.clone(), uses.clone()]), 16), [(0, 16, 1, 27_694)]);
        let other = [uses.clone(), vec![(5, 0, 4)]].concat();
        assert_eq!(moves(&history(&[uses.clone(), other]), 16), []);
        // 4,096 pages cost 52.4 ms.
        assert_eq!(moves(&history(&[uses.clone(), uses]), 4096), []);
    }
}
