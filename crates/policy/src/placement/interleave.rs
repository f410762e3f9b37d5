//! Stage 5: interleave. The memory of the entity that saturates a node's memory controller is put
//! evenly on several nodes, while its threads stay. The memory comes home when one controller is
//! enough again.
//!
//! All that decides about interleaving is in this file. To delete it, delete the file with its
//! `mod` and its call in `decide`, the variants `Interleave` of [`Home`](super::Home) and
//! [`HomePlacement`], and the fields `recovered` and `interleave` of `state`. The compiler then
//! names the arms that are left: in `entity`, `home`, `keep`, `memory_moves` and `state`, and where
//! the balancer and the command match on [`Home`](super::Home).

use super::controllers;
use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::round::Round;
use super::state::Homes;

/// Interleaves memory for these saturated controllers, and lets memory come home to controllers
/// that have recovered.
pub(super) fn interleave(round: &mut Round, homes: &mut Homes, saturated: &[NodeIndex]) {
    let is_recovered = |node| has_recovered(round, node);
    let recovered = round.lasting(&mut homes.recovered, is_recovered);
    for &node in saturated {
        interleave_node(round, homes, node);
    }
    for index in 0..round.entities.len() {
        deinterleave(round, index, &recovered);
    }
}

/// Interleaves the memory of the entity that keeps a node's memory controller busy, if other
/// controllers have time.
fn interleave_node(round: &mut Round, homes: &Homes, node: NodeIndex) {
    let may_open = |&index: &usize| {
        let entity = &round.entities[index];
        let state = homes.state(entity.id()).filter(|_| !entity.seen.target.is_set());
        state.is_some_and(|state| !state.interleave.waits())
    };
    let candidates = round.movable_from(node).filter(may_open);
    let Some(index) = candidates.max_by_key(|&it| (round.entities[it].load_ppm, it)) else {
        return;
    };
    if let Some(memory) = wider_nodes(round, &round.entities[index], node) {
        let placement = HomePlacement::Interleave { threads: node, memory };
        round.change(index, placement, Reason::Bottleneck);
    }
}

/// Lets interleaved memory come home to a recovered node, where there is room, if that pays.
fn deinterleave(round: &mut Round, index: usize, recovered: &[NodeIndex]) {
    let entity = &round.entities[index];
    let Some(HomePlacement::Interleave { threads, .. }) = entity.placement else { return };
    let has_room = round.costs.pages_away(entity, threads) <= round.nodes.home_room(threads);
    let may_close = entity.may_move && recovered.contains(&threads);
    if may_close && has_room && round.costs.move_pays(entity, threads) {
        round.change(index, HomePlacement::Node(threads), Reason::Eased);
    }
}

/// Returns the nodes on which the memory of an entity gets more bandwidth than on its home, if it
/// makes most of the load there and the move pays. With a part of its memory on each of k nodes an
/// entity waits for a k-th of the traffic. Half of that is taken to be gained, since the rest of
/// the memory is farther away.
fn wider_nodes(round: &Round, entity: &EntityRound, node: NodeIndex) -> Option<Vec<NodeIndex>> {
    let Round { nodes, costs, .. } = *round;
    let home = nodes.memory_node(node)?;
    let takes = |other: NodeIndex| {
        entity.seen.may_hold.contains(nodes.id(other))
            && !nodes.is_memory_only(other)
            && !nodes.is_kept_empty(other)
            && nodes.state(other).pages > 0
            && !nodes.is_short(other)
            && controllers::has_time(nodes, other)
    };
    let memory: Vec<_> = nodes.indices().filter(|&it| it == home || takes(it)).collect();
    let parts = memory.len() as u64;
    let part = entity.pages[home] / parts;
    let gain_ns = u128::from(costs.run_ns(entity)) * u128::from(parts - 1) / u128::from(2 * parts);
    let pays = gain_ns > u128::from(costs.move_ns(part * (parts - 1)));
    let most_of_load = 2 * entity.load_ppm > round.usage.load(node);
    (parts > 1 && most_of_load && part >= nodes.huge_pages() && pays).then_some(memory)
}

/// Returns whether a controller for which memory is interleaved could do it alone: all that the
/// controllers deliver now would leave it time for more. Interleaving lowers traffic, so this must
/// be much less than what saturates a controller.
fn has_recovered(round: &Round, node: NodeIndex) -> bool {
    let traffic =
        |&memory: &NodeIndex| controllers::traffic_ppm(round.nodes, memory).map(u64::from);
    let is_low = |ppm: u64| ppm < u64::from(round.rules.traffic_ppm_low());
    round.entities.iter().any(|entity| match &entity.placement {
        Some(HomePlacement::Interleave { threads, memory }) if *threads == node => {
            memory.iter().map(traffic).sum::<Option<u64>>().is_some_and(is_low)
        }
        _ => false,
    })
}
