//! Stage 5: interleave. The memory of the entity that saturates a node's memory controller is put
//! evenly on several nodes; its threads stay. It comes home when one controller is enough again.
//!
//! All of interleaving is in this file and in `interleave_state`. To delete it, delete both, the
//! variants `Interleave` of [`Home`](super::Home) and [`HomePlacement`], and the fields
//! `controllers` and `interleave` of `state`; the compiler then names the calls and the arms that
//! are left.

use super::cost_model::{CostModel, Transfer};
use super::entity::{EntityRound, movable_on};
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::reason::Reason;
use super::round::Round;
use super::snapshot::Target;
use super::state::Homes;

/// Interleaved memory is even enough if no node has more than an eighth too much.
const UNEVEN_PART: u64 = 8;

/// Interleaves memory for saturated controllers, and lets memory come home to recovered ones.
/// Returns the nodes whose controllers are saturated.
pub(super) fn interleave(round: &mut Round, homes: &mut Homes) -> Vec<NodeIndex> {
    let traffic = |node| memory_traffic(round.nodes, node);
    let most = round.rules.traffic_ppm_max;
    let is_saturated = |node| traffic(node).is_some_and(|ppm| ppm >= most);
    let saturated = round.lasting(&mut homes.controllers.saturated, is_saturated);
    let is_recovered = |node| has_recovered(round, node);
    let recovered = round.lasting(&mut homes.controllers.recovered, is_recovered);
    for &node in &saturated {
        open(round, homes, node);
    }
    for index in 0..round.entities.len() {
        close(round, index, &recovered);
    }
    saturated
}

/// The memory moves that an interleaved home still needs, each with its pages and what it saves in
/// nanoseconds; `None` if its memory need not be even.
pub(super) fn transfers(
    costs: CostModel,
    entity: &EntityRound,
) -> Option<Vec<(Transfer, u64, u64)>> {
    let memory = match entity.placement.as_ref()? {
        HomePlacement::Interleave { memory, .. } => memory.clone(),
        spread @ HomePlacement::Spread(_) if is_even(entity) => spread.memory_nodes(costs.nodes),
        _ => return None,
    };
    let parts = memory.len() as u64;
    let gain_ns = |pages: u64| {
        let run_ns = u128::from(costs.run_ns(entity));
        let gain_ns = run_ns * u128::from(pages) / u128::from(2 * entity.pages_all().max(1));
        u64::try_from(gain_ns).unwrap_or(u64::MAX) / parts.max(1) * (parts - 1)
    };
    let transfers = evening(costs.nodes, &entity.movable, &memory).into_iter();
    Some(transfers.map(|(transfer, pages)| (transfer, pages, gain_ns(pages))).collect())
}

/// Whether the memory of an entity is to be even on the nodes of its home.
pub(super) fn is_even(entity: &EntityRound) -> bool {
    matches!(entity.seen.target, Target::Even(_))
}

/// Interleaves the memory of the entity that keeps a node's memory controller busy, if other
/// controllers have time.
fn open(round: &mut Round, homes: &Homes, node: NodeIndex) {
    let may_open = |&index: &usize| {
        let entity = &round.entities[index];
        let state = homes.state(entity.id()).filter(|_| !entity.seen.target.is_set());
        state.is_some_and(|state| !state.interleave.waits())
    };
    let candidates = round.movable_from(node).filter(may_open);
    let Some(index) = candidates.max_by_key(|&it| (round.entities[it].load_ppm, it)) else {
        return;
    };
    if let Some(memory) = wider(round, &round.entities[index], node) {
        let placement = HomePlacement::Interleave { threads: node, memory };
        round.change(index, placement, Reason::Bottleneck);
    }
}

/// Lets interleaved memory come home to a recovered node, where there is room, if that pays.
fn close(round: &mut Round, index: usize, recovered: &[NodeIndex]) {
    let entity = &round.entities[index];
    let Some(HomePlacement::Interleave { threads, .. }) = entity.placement else { return };
    let has_room = round.costs.pages_away(entity, threads) <= round.nodes.home_room(threads);
    let may_close = entity.may_move && recovered.contains(&threads);
    if may_close && has_room && round.costs.move_pays(entity, threads) {
        round.change(index, HomePlacement::Node(threads), Reason::Eased);
    }
}

/// On which nodes the memory of an entity gets more bandwidth than on its home, if it makes most of
/// the load there and the move pays. With a part of it on each of k nodes it waits for a k-th of
/// the traffic; half of that is taken to be gained, as the rest is farther away.
fn wider(round: &Round, entity: &EntityRound, node: NodeIndex) -> Option<Vec<NodeIndex>> {
    let Round { nodes, costs, .. } = *round;
    let home = nodes.memory_node(node)?;
    let takes = |other: NodeIndex| {
        entity.seen.may_hold.contains(nodes.id(other))
            && !nodes.is_memory_only(other)
            && !nodes.is_kept_empty(other)
            && nodes.state(other).pages > 0
            && !nodes.is_short(other)
            && has_time(round, other)
    };
    let memory: Vec<_> = nodes.indices().filter(|&it| it == home || takes(it)).collect();
    let parts = memory.len() as u64;
    let part = entity.pages[home] / parts;
    let gain_ns = u128::from(costs.run_ns(entity)) * u128::from(parts - 1) / u128::from(2 * parts);
    let pays = gain_ns > u128::from(costs.move_ns(part * (parts - 1)));
    let most_of_load = 2 * entity.load_ppm > round.usage.load(node);
    (parts > 1 && most_of_load && part >= nodes.huge_pages() && pays).then_some(memory)
}

/// Whether the memory controller of a node has time for more.
pub(super) fn has_time(round: &Round, node: NodeIndex) -> bool {
    let most = round.rules.traffic_ppm_max / 2;
    round.nodes.state(node).traffic_ppm.is_some_and(|ppm| ppm < most)
}

/// What part of what it can the memory controller of a node's threads delivers.
fn memory_traffic(nodes: &NodeTable, node: NodeIndex) -> Option<u32> {
    nodes.state(nodes.memory_node(node)?).traffic_ppm
}

/// Whether a controller for which memory is interleaved could do it alone: all that the controllers
/// deliver now would be less than half of what saturates one. Interleaving lowers traffic, so less
/// than half must be required before it is undone.
fn has_recovered(round: &Round, node: NodeIndex) -> bool {
    let traffic = |&memory: &NodeIndex| round.nodes.state(memory).traffic_ppm.map(u64::from);
    let is_low = |ppm: u64| 2 * ppm < u64::from(round.rules.traffic_ppm_max);
    round.entities.iter().any(|entity| match &entity.placement {
        Some(HomePlacement::Interleave { threads, memory }) if *threads == node => {
            memory.iter().map(traffic).sum::<Option<u64>>().is_some_and(is_low)
        }
        _ => false,
    })
}

/// The moves that leave each of these nodes with as much as any other, in whole huge pages: parts
/// of these would bring the rest along, and then back. A node that is kept empty keeps nothing.
pub(super) fn evening(
    nodes: &NodeTable,
    movable: &[u64],
    memory: &[NodeIndex],
) -> Vec<(Transfer, u64)> {
    let on_nodes = || movable_on(nodes, movable);
    let all: u64 = on_nodes().map(|(_, pages)| pages).sum();
    let part = all / (memory.len() as u64).max(1);
    let huge = nodes.huge_pages();
    let slack = (part / UNEVEN_PART).max(huge);
    let lack = |&to: &NodeIndex| (to, part.saturating_sub(movable[to]));
    let mut lacking: Vec<(NodeIndex, u64)> = memory.iter().map(lack).collect();
    let mut transfers = Vec::new();
    for (from, pages) in on_nodes() {
        let (mut rest, unit) = match memory.contains(&from) {
            true if pages > part + slack => ((pages - part) / huge * huge, huge),
            true => (0, huge),
            false => (pages, 1),
        };
        for (to, lacks) in &mut lacking {
            let pages = rest.min((*lacks + unit / 2) / unit * unit);
            if pages > 0 {
                transfers.push((Transfer { from, to: *to }, pages));
                (rest, *lacks) = (rest - pages, lacks.saturating_sub(pages));
            }
        }
        let roomiest = memory.iter().copied().min_by_key(|&to| movable[to]);
        if let Some(to) = roomiest.filter(|_| rest > 0 && nodes.is_kept_empty(from)) {
            transfers.push((Transfer { from, to }, rest));
        }
    }
    transfers
}
