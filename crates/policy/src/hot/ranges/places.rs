//! The estimated number of pages of a range on each node, by samples.
//!
//! Samples are dense where memory is busy, so the estimate of a range is the sum of those of its
//! parts: a busy part says nothing about where the pages of the others are.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::super::costs::saturating_u64;
use super::super::evidence::SampleEvidence;
use super::super::time_rules::TimeRules;

/// Pages by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    on: BTreeMap<NodeId, u64>,
    /// Pages of memory without a sample.
    unknown: u64,
}

impl Places {
    /// Returns the places of so many pages, of which some were sampled.
    pub(super) fn estimate(evidence: &SampleEvidence, pages: u64) -> Self {
        let votes = evidence.votes_by_place();
        let all = u128::from(votes.values().sum::<u64>());
        if all == 0 {
            return Self { unknown: pages, ..Self::default() };
        }
        let share = |votes: u64| (u128::from(pages) * u128::from(votes)).div_ceil(all);
        let on = votes.into_iter().map(|(on, votes)| (on, saturating_u64(share(votes))));
        Self { on: on.collect(), unknown: 0 }
    }

    /// Adds the places of other pages.
    pub(super) fn add(&mut self, other: &Self) {
        for (&on, pages) in &other.on {
            *self.on.entry(on).or_default() += pages;
        }
        self.unknown += other.unknown;
    }

    /// Returns the places of some of so many pages.
    pub(super) fn part(&self, pages: u64, all: u64) -> Self {
        let all = u128::from(all.max(1));
        let part = |on: u64| saturating_u64((u128::from(on) * u128::from(pages)).div_ceil(all));
        let on = self.on.iter().map(|(&node, &on)| (node, part(on)));
        Self { on: on.collect(), unknown: part(self.unknown) }
    }

    /// Returns how many pages are not on `to`; those of which nothing is known count.
    pub(super) fn away(&self, to: NodeId) -> u64 {
        self.unknown + self.elsewhere(to).map(|(_, pages)| pages).sum::<u64>()
    }

    /// Returns what it costs to move the pages that are not on `to`, in nanoseconds. Those of which
    /// nothing is known come from the farthest node.
    pub(super) fn cost_ns(&self, to: NodeId, page_bytes: u64, rules: &TimeRules) -> u64 {
        let page_ns = |from| u128::from(rules.costs.move_ns(page_bytes, from, to));
        let known = self.elsewhere(to).map(|(from, pages)| u128::from(pages) * page_ns(from));
        let farthest = rules.destinations.iter().map(page_ns).max().unwrap_or(0);
        saturating_u64(known.sum::<u128>() + u128::from(self.unknown) * farthest)
    }

    fn elsewhere(&self, to: NodeId) -> impl Iterator<Item = (NodeId, u64)> {
        let pages = self.on.iter().map(|(&on, &pages)| (on, pages));
        pages.filter(move |&(on, _)| on != to)
    }
}
