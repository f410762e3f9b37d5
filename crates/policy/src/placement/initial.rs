//! Stage 2: initial placement. An entity without a home gets the node of its memory, if that node's
//! CPUs have time for it, or else the idlest node; or several nodes, if it fits no single one
//! (`spread`) or its threads may not be on one together.
//!
//! Entities for which a second choice would cost most come first. So an entity that must be away
//! from its memory, or have it moved, is one that loses little.

use std::cmp::Reverse;

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::round::Round;
use super::spread;
use super::state::Homes;

/// Gives a home to entities that have none.
pub(super) fn place(round: &mut Round, homes: &mut Homes, indices: &[usize]) {
    let mut unplaced: Vec<_> = indices.iter().map(|&it| Unplaced::new(round, it)).collect();
    unplaced.sort_by_key(|it| (Reverse(it.lead_ns()), round.entities[it.index].id()));
    if !unplaced.is_empty() {
        homes.rebalance.forget();
    }
    for it in unplaced {
        let (placement, why) = it.choose(round);
        round.place(it.index, placement, why);
    }
}

struct Unplaced {
    index: usize,
    /// The candidates and what they cost, the cheapest first. Of candidates that cost the same
    /// within the margin, which is what samples of residency can tell, the one where the entity
    /// runs most is the cheapest.
    candidates: Vec<(u64, NodeIndex)>,
}

impl Unplaced {
    fn new(round: &Round, index: usize) -> Self {
        let entity = &round.entities[index];
        let cost = |&node: &NodeIndex| (round.costs.home_ns(entity, node), node);
        let mut candidates: Vec<_> = entity.candidates.iter().map(cost).collect();
        let least = candidates.iter().map(|candidate| candidate.0).min().unwrap_or(0);
        let cheap = round.rules.with_hysteresis(least);
        candidates.sort_by_key(|&(cost, node)| {
            let cost_if_dear = (cost > cheap).then_some(cost);
            (cost_if_dear, Reverse(entity.load_on[node]), cost, node)
        });
        Self { index, candidates }
    }

    /// Returns by how much the second-best home costs more than the best.
    fn lead_ns(&self) -> u64 {
        match self.candidates[..] {
            [(best, _), (second, _), ..] => second.saturating_sub(best),
            _ => u64::MAX,
        }
    }

    fn choose(&self, round: &Round) -> (HomePlacement, Reason) {
        let entity = &round.entities[self.index];
        if !entity.apart.is_empty() {
            let is_set = entity.seen.target.is_set();
            let why = if is_set { Reason::GroupHome } else { Reason::BoundApart };
            return (HomePlacement::Spread(entity.apart.clone()), why);
        }
        let [(_, best), _, ..] = self.candidates[..] else {
            let is_set = entity.seen.target.is_set();
            let reason = if is_set { Reason::GroupHome } else { Reason::OnlyThere };
            return (HomePlacement::Node(self.candidates[0].1), reason);
        };
        if spread::is_larger_than_any(round, entity) {
            return (spread::fewest_nodes(round, entity), Reason::LargerThanNode);
        }
        let node = self.best_node(round, entity);
        if spread::would_crowd(round, entity, node) {
            return (spread::fewest_nodes(round, entity), Reason::FitsNoNode);
        }
        let memory = round.nodes.memory_node(best).unwrap_or(best);
        let reason = match node == best {
            true if entity.pages[memory] + entity.segment_pages[memory] > 0 => Reason::MemoryThere,
            true => Reason::RunsThere,
            false if round.usage.admits(entity, best) => Reason::MemoryShort,
            false => Reason::Idlest,
        };
        (HomePlacement::Node(node), reason)
    }

    /// The cheapest node that admits the entity and has memory for it; or that has both within its
    /// limit; or that has CPUs; or the idlest.
    fn best_node(&self, round: &Round, entity: &EntityRound) -> NodeIndex {
        let usage = &round.usage;
        let admits = |&node: &NodeIndex| usage.admits(entity, node);
        let has_cpus = |&node: &NodeIndex| usage.has_cpus_for(entity, node);
        let has_memory = |&node: &NodeIndex| usage.has_memory_for(entity, node);
        let node = self.nodes().find(|node| admits(node) && has_memory(node));
        let node = node.or_else(|| self.nodes().find(|node| has_cpus(node) && has_memory(node)));
        let node = node.or_else(|| self.nodes().find(has_cpus));
        node.unwrap_or_else(|| self.idlest(round, entity))
    }

    /// The node whose CPUs would be least busy; of those that are so within the margin the one that
    /// costs least.
    fn idlest(&self, round: &Round, entity: &EntityRound) -> NodeIndex {
        let busy = |node: NodeIndex| round.usage.per_cpu_with(entity, node);
        let least = self.nodes().map(busy).min().unwrap_or(0);
        let most = round.rules.with_hysteresis(least);
        self.nodes().find(|&node| busy(node) <= most).unwrap_or(self.candidates[0].1)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeIndex> {
        self.candidates.iter().map(|&(_, node)| node)
    }
}
