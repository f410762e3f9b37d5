//! Two independent sets of samples of a range: one chooses, the other confirms.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Range};

use super::samples::{PageUse, SampleHistory};
use super::time_rules::TimeRules;

/// The inverse of the part of votes that may be by others than the owner: stray threads, and
/// samples whose address was misread.
pub(super) const OTHERS_ONE_IN: u64 = 10;

/// The samples of a range, by period, the latest one first.
#[derive(Clone)]
pub(super) struct SampleWindow<'a> {
    periods: Vec<(&'a [PageUse], u64)>,
}

impl<'a> SampleWindow<'a> {
    /// Returns all samples of a history.
    pub(super) fn all(history: &'a SampleHistory) -> Self {
        Self { periods: history.periods().collect() }
    }

    /// Returns those of a range.
    pub(super) fn within(&self, range: Range) -> Self {
        let within = |&(uses, ns): &(&'a [PageUse], u64)| {
            let start = uses.partition_point(|one| one.page < range.start);
            let end = uses.partition_point(|one| one.page < range.end);
            (&uses[start..end.max(start)], ns)
        };
        Self { periods: self.periods.iter().map(within).collect() }
    }

    /// Returns the two sets of the fewest last periods that have so many votes each, else those of
    /// all periods. Periods belong to one set and the other by turns, so that no period is in both.
    pub(super) fn evidence(&self, votes_min: u64) -> SampleEvidence {
        self.add_while(|evidence| !evidence.has_votes(votes_min))
    }

    /// Returns the two sets of so many last periods.
    pub(super) fn evidence_of(&self, periods: usize) -> SampleEvidence {
        self.add_while(|evidence| evidence.periods < periods)
    }

    fn add_while(&self, is_wanted: impl Fn(&SampleEvidence) -> bool) -> SampleEvidence {
        let mut evidence = SampleEvidence::default();
        for pair in self.periods.chunks_exact(2) {
            if !is_wanted(&evidence) {
                break;
            }
            evidence.confirming.add(pair[0]);
            evidence.choosing.add(pair[1]);
            evidence.periods += 2;
        }
        evidence
    }

    /// Returns the uses of the latest periods, in ascending order of page and user.
    pub(super) fn latest(&self, periods: usize) -> Vec<&'a PageUse> {
        let latest = self.periods.iter().take(periods);
        let mut uses: Vec<_> = latest.flat_map(|&(uses, _)| uses).collect();
        uses.sort_unstable_by_key(|one| (one.page, one.user));
        uses
    }
}

/// The two sets of a range.
#[derive(Default)]
pub(super) struct SampleEvidence {
    /// The sums of the earlier period of each pair.
    pub(super) choosing: UseSums,
    /// The sums of the later period of each pair.
    pub(super) confirming: UseSums,
    /// The number of periods that they are from.
    pub(super) periods: usize,
}

impl SampleEvidence {
    /// Returns whether each set has so many votes.
    pub(super) fn has_votes(&self, votes_min: u64) -> bool {
        self.choosing.votes.min(self.confirming.votes) >= votes_min
    }

    /// Returns whether every use was of a page on the node of its user.
    pub(super) fn is_all_local(&self) -> bool {
        let sets = [&self.choosing, &self.confirming].into_iter();
        sets.flat_map(|set| set.pairs.keys()).all(|(user, on)| user == on)
    }

    /// Returns whether nearly all votes of each set are by this node.
    pub(super) fn is_nearly_all_by(&self, owner: NodeId) -> bool {
        [&self.choosing, &self.confirming].into_iter().all(|set| set.is_nearly_all_by(owner))
    }

    /// Returns the time that is saved within the horizon if the pages are on `to`, by the set that
    /// promises less, in nanoseconds; negative if time is lost.
    pub(super) fn saved_ns(&self, owner: NodeId, to: NodeId, rules: &TimeRules) -> i128 {
        let saved = |set: &UseSums| set.saved_ns(owner, to, rules);
        saved(&self.choosing).min(saved(&self.confirming))
    }

    /// Returns the votes of both sets, by user.
    pub(super) fn votes_by_user(&self) -> Votes {
        self.votes_by(|(user, _)| user)
    }

    /// Returns the votes of both sets, by the node of the page.
    pub(super) fn votes_by_place(&self) -> Votes {
        self.votes_by(|(_, on)| on)
    }

    fn votes_by(&self, key: fn((NodeId, NodeId)) -> NodeId) -> Votes {
        let mut votes = self.choosing.votes_by(key);
        for (node, more) in self.confirming.votes_by(key) {
            *votes.entry(node).or_default() += more;
        }
        votes
    }
}

/// Votes by node.
pub(super) type Votes = BTreeMap<NodeId, u64>;

/// Sums over uses.
#[derive(Clone, Copy, Default)]
struct UseSum {
    /// The number of uses. A page has one vote for each of its users, however often they used it:
    /// else one busy page would speak for all pages around it.
    votes: u64,
    ns: u128,
    shared_ns: u128,
}

/// The uses of one set, by the node of the user and the node of the page.
#[derive(Default)]
pub(super) struct UseSums {
    pairs: BTreeMap<(NodeId, NodeId), UseSum>,
    votes: u64,
    /// The duration of its periods, in nanoseconds.
    ns: u64,
}

impl UseSums {
    fn add(&mut self, (uses, ns): (&[PageUse], u64)) {
        self.ns = self.ns.saturating_add(ns);
        self.votes += uses.len() as u64;
        for one in uses {
            let sum = self.pairs.entry((one.user, one.on)).or_default();
            sum.votes += 1;
            sum.ns += u128::from(one.ns);
            sum.shared_ns += u128::from(one.shared_ns);
        }
    }

    /// Returns the number of uses.
    pub(super) fn votes(&self) -> u64 {
        self.votes
    }

    /// Returns the node with most votes, the lowest of equals.
    pub(super) fn most_frequent_user(&self) -> Option<NodeId> {
        let votes = self.votes_by(|(user, _)| user);
        votes.into_iter().rev().max_by_key(|&(_, votes)| votes).map(|(user, _)| user)
    }

    fn votes_by(&self, key: fn((NodeId, NodeId)) -> NodeId) -> Votes {
        let mut votes = Votes::new();
        for (&pair, sum) in &self.pairs {
            *votes.entry(key(pair)).or_default() += sum.votes;
        }
        votes
    }

    /// Returns whether nearly all votes are by this node.
    pub(super) fn is_nearly_all_by(&self, owner: NodeId) -> bool {
        self.votes_of_others(owner) * OTHERS_ONE_IN <= self.votes
    }

    /// Returns the number of uses by other nodes than this one.
    pub(super) fn votes_of_others(&self, owner: NodeId) -> u64 {
        let others = self.pairs.iter().filter(|((user, _), _)| *user != owner);
        others.map(|(_, sum)| sum.votes).sum()
    }

    /// Returns the time that is saved within the horizon if the pages are on `to`, in nanoseconds;
    /// negative if time is lost. What the owner saves at one page counts up to a limit. What others
    /// lose counts twice: a range is chosen because they have few samples in it, which may be luck.
    pub(super) fn saved_ns(&self, owner: NodeId, to: NodeId, rules: &TimeRules) -> i128 {
        let saved = |(&(user, on), sum): (&(NodeId, NodeId), &UseSum)| {
            let ns = if user == owner { sum.shared_ns } else { sum.ns };
            let saved_ns = rules.saved_ns(ns, user, (on, to));
            saved_ns.saturating_add(saved_ns.min(0))
        };
        let saved_ns = self.pairs.iter().map(saved).fold(0, i128::saturating_add);
        rules.within_horizon(saved_ns, self.ns)
    }
}
