//! Stage 3: rebalance. Homes leave nodes that have been busy for long enough.
//!
//! A home goes only to a node that will then still be less busy than the old one was. So each move
//! makes the busier of the two nodes less busy, and moves end under a constant load.

use super::entity::EntityRound;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::round::Round;
use super::rules::CPU_PPM;
use super::state::Homes;

/// The nodes that have had more load at home than their limit for long enough.
pub(super) fn busy_nodes(round: &Round, homes: &mut Homes) -> Vec<NodeIndex> {
    round.lasting(&mut homes.busy, |node| round.usage.is_busy(node))
}

/// Moves homes off busy nodes, the busiest first, unless the last rebalance helped no node.
pub(super) fn rebalance(round: &mut Round, homes: &mut Homes, busy: &[NodeIndex]) {
    if busy.is_empty() {
        return;
    }
    // The effect of the last rebalance shows on any node, long before that node has been busy for
    // long enough.
    let busiest_ppm = round.nodes.indices().map(|node| share_ppm(round, node)).max().unwrap_or(0);
    if !homes.rebalance.may_start(busiest_ppm, round.rules) {
        return;
    }
    let before = round.changes.len();
    let mut order = busy.to_vec();
    order.sort_by_key(|&node| (std::cmp::Reverse(round.usage.per_cpu(node)), node));
    for node in order {
        relieve_load(round, node);
    }
    if round.changes.len() > before {
        homes.rebalance.done(busiest_ppm);
    }
}

/// Returns the entities whose homes may leave a node, those first that lose least relative to their
/// load; so heavy ones come last.
pub(super) fn cheapest_first(round: &Round, from: NodeIndex) -> Vec<usize> {
    let least = u64::from(round.rules.nudge_ppm_min).max(1);
    let mut order: Vec<_> = round
        .movable_from(from)
        .map(|index| (&round.entities[index], index))
        .filter(|(entity, _)| entity.load_ppm >= least)
        .filter_map(|(entity, index)| {
            let cost = |to: NodeIndex| round.costs.home_ns(entity, to);
            let cost = entity.other_candidates(from).map(cost).min()?;
            let for_load = u128::from(cost) * u128::from(CPU_PPM) / u128::from(entity.load_ppm);
            Some(((for_load, entity.pages_all(), entity.id()), index))
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}

/// Returns how busy a node is, in millionths of its share.
fn share_ppm(round: &Round, node: NodeIndex) -> u64 {
    let per_cpu = round.usage.per_cpu(node).saturating_mul(CPU_PPM);
    per_cpu / round.usage.level_ppm().max(1)
}

/// Moves homes until the smaller of the two imbalances, of load or of memory, is gone.
fn relieve_load(round: &mut Round, from: NodeIndex) {
    let mut load = round.usage.excess(from);
    let mut pages = round.usage.page_excess(from);
    let has_pages = pages > 0;
    for index in cheapest_first(round, from) {
        if load == 0 || has_pages && pages == 0 {
            break;
        }
        let entity = &round.entities[index];
        let Some(to) = destination(round, entity, from) else { continue };
        load = load.saturating_sub(entity.load_ppm);
        pages = pages.saturating_sub(entity.pages_all());
        round.move_home(index, from, to, Reason::Busiest);
    }
}

/// The best other home for an entity of a busy node; `None` if no other is better. As long as the
/// busy node has CPUs for all, the memory of the entity must be worth taking along.
fn destination(round: &Round, entity: &EntityRound, from: NodeIndex) -> Option<NodeIndex> {
    let usage = &round.usage;
    let was_busy = usage.per_cpu(from);
    let busy = |to: NodeIndex| usage.per_cpu_with(entity, to);
    let is_crowded = usage.load(from) > round.nodes.cpus_ppm(from);
    entity
        .other_candidates(from)
        .filter(|&to| round.rules.with_hysteresis(busy(to)) < was_busy)
        .filter(|&to| usage.has_memory_for(entity, to))
        .filter(|&to| is_crowded || round.costs.move_pays(entity, to))
        .min_by_key(|&to| (round.costs.home_ns(entity, to), busy(to), to))
}
