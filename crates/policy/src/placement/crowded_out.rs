//! Stage 3, before rebalancing: homes follow threads that their node has no time for.
//!
//! A mean load says what a node has to do, not when. Programs that work at the same time and rest
//! at the same time may be at home together by their mean loads, and wait for each other whenever
//! they work. Then the lightest stay away (stage 6), far from their memory, each time. One that has
//! done so for long enough belongs where it runs.

use nodeward_model::NodeId;

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::reason::Reason;
use super::round::Round;
use super::rules::SMALL_PART;
use super::state::Homes;

/// Moves homes to where their threads have worked for long enough, if the memory is worth taking
/// along.
pub(super) fn follow_threads(round: &mut Round, homes: &Homes) {
    for index in 0..round.entities.len() {
        let entity = &round.entities[index];
        let node = homes.state(entity.id()).and_then(|it| it.away_work.lasting(round.rules));
        let to = node.and_then(|node| round.nodes.index(node));
        let (Some(to), Some(HomePlacement::Node(from))) = (to, entity.placement.clone()) else {
            continue;
        };
        if from != to && takes(round, entity, to) {
            round.move_home(index, from, to, Reason::CrowdedOut);
        }
    }
}

fn takes(round: &Round, entity: &EntityRound, to: NodeIndex) -> bool {
    entity.may_move
        && entity.candidates.contains(&to)
        && round.usage.has_cpus_for(entity, to)
        && round.usage.has_memory_for(entity, to)
        && round.costs.move_pays(entity, to)
}

/// Enters where the threads of this round work.
pub(super) fn observe(round: &Round, homes: &mut Homes) {
    for entity in round.entities.iter().filter(|it| it.works) {
        if let Some(state) = homes.state_mut(entity.id()) {
            state.away_work.observe(round.elapsed_ns, works_away(entity, round.nodes));
        }
    }
}

/// The node on which nearly all threads of an entity stay because its home is busy.
fn works_away(entity: &EntityRound, nodes: &NodeTable) -> Option<NodeId> {
    let Some(HomePlacement::Node(home)) = &entity.placement else { return None };
    let is_away = entity.decision.threads == Some(Reason::HomeBusy);
    let least = entity.wanted_ppm - entity.wanted_ppm / (SMALL_PART + 1);
    let is_there = |&node: &NodeIndex| node != *home && entity.load_after[node] >= least;
    nodes.indices().filter(|_| is_away).find(is_there).map(|node| nodes.id(node))
}
