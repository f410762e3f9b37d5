//! Stage 9: the plan, with the numbers that it was made from, for people and for the balancer.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::entity::EntityRound;
use super::home::{Home, HomePlacement};
use super::node_table::NodeTable;
use super::plan::{
    Decision, MemoryMove, NodeSum, Nudge, Plan, SegmentDecision, SegmentMove, Verdict,
};
use super::reason::Reason;
use super::round::Round;
use super::snapshot::EntityId;
use super::state::Homes;

/// Returns what was decided in a round.
pub(super) fn plan(
    mut round: Round,
    homes: &Homes,
    (nudges, moves): (Vec<Nudge>, Vec<MemoryMove>),
    (segments, segment_moves): (Vec<SegmentDecision>, Vec<SegmentMove>),
) -> Plan {
    for index in 0..round.entities.len() {
        complete(&mut round, index, homes);
    }
    let nodes = node_sums(&round);
    let homes_now = homes_of(&round.entities, round.nodes);
    let decisions: Vec<Decision> = round.entities.into_iter().map(|it| it.decision).collect();
    let is_settled = moves.is_empty()
        && segment_moves.is_empty()
        && !decisions.iter().any(is_open)
        && !segments.iter().any(|segment| is_waiting(Some(segment.reason)))
        && !homes.is_restless(round.rules);
    Plan {
        homes: homes_now,
        nudges,
        moves,
        segment_moves,
        decisions,
        segments,
        nodes,
        settled: is_settled,
    }
}

/// The homes of entities.
pub(super) fn homes_of(entities: &[EntityRound], nodes: &NodeTable) -> BTreeMap<EntityId, Home> {
    let home = |entity: &EntityRound| Some((entity.id(), entity.placement.as_ref()?.home(nodes)));
    entities.iter().filter_map(home).collect()
}

/// Returns whether an entity has just got a home, or its memory waits for something that time
/// changes.
fn is_open(decision: &Decision) -> bool {
    matches!(decision.verdict, Verdict::Settles | Verdict::Moves) || is_waiting(decision.memory)
}

fn is_waiting(memory: Option<Reason>) -> bool {
    matches!(memory, Some(Reason::Waits | Reason::NotMeasured))
}

/// Completes a decision with numbers that no stage needed.
fn complete(round: &mut Round, index: usize, homes: &Homes) {
    let entity = &round.entities[index];
    let pages = entity.pages_all();
    let horizon_ns = round.costs.horizon_ns(entity);
    let on = entity.placement.as_ref().map_or(&[][..], HomePlacement::thread_nodes);
    let [node_load_ppm, node_limit_ppm] = [
        on.iter().map(|&node| round.usage.load(node)).sum(),
        on.iter().map(|&node| round.usage.limit(node)).sum(),
    ];
    let state = homes.state(entity.id());
    let wait_ns = state.map_or(0, |state| state.hold.left_ns().max(state.memory.wait_ns()));
    let is_spread = matches!(entity.placement, Some(HomePlacement::Spread(_)));
    let memory_nodes = entity.placement.as_ref().map_or(0, |it| it.memory_nodes(round.nodes).len());
    let load_ppm = entity.load_ppm;
    let by_kernel = round.nodes.kernel_balances();
    let is_even = entity.seen.target.is_even();
    let is_with_groups = entity.seen.target.is_with_groups();

    let decision = &mut round.entities[index].decision;
    if is_spread && !is_even && decision.memory == Some(Reason::AllHome) {
        decision.memory = Some(if by_kernel { Reason::ByKernel } else { Reason::ByPage });
    }
    let may_differ = !is_even && (memory_nodes > 1 || is_with_groups);
    decision.counts_wanted = is_spread && may_differ && pages > 0 && !by_kernel;
    let numbers = &mut decision.numbers;
    (numbers.load_ppm, numbers.pages, numbers.wait_ns) = (load_ppm, pages, wait_ns);
    (numbers.node_load_ppm, numbers.node_limit_ppm) = (node_load_ppm, node_limit_ppm);
    (numbers.horizon_ns, numbers.stalled_ppm) = (horizon_ns, round.nodes.stalled_ppm());
}

/// Each node's part, local and away.
fn node_sums(round: &Round) -> BTreeMap<NodeId, NodeSum> {
    let sum = |node| NodeSum {
        home_load_ppm: round.usage.load(node),
        limit_ppm: round.usage.limit(node),
        ..NodeSum::default()
    };
    let mut sums: Vec<NodeSum> = round.nodes.indices().map(sum).collect();
    for entity in &round.entities {
        add(entity, round.nodes, &mut sums);
    }
    round.nodes.indices().map(|node| round.nodes.id(node)).zip(sums).collect()
}

/// Adds an entity. What an entity with several nodes has elsewhere is away from the first.
fn add(entity: &EntityRound, nodes: &NodeTable, sums: &mut [NodeSum]) {
    let threads = entity.placement.as_ref().map_or(&[][..], HomePlacement::thread_nodes);
    let memory = entity.placement.as_ref().map_or(Vec::new(), |it| it.memory_nodes(nodes));
    for node in nodes.indices() {
        let (load, pages) = (entity.load_on[node], entity.pages[node]);
        match threads.first() {
            Some(_) if threads.contains(&node) => sums[node].local_load_ppm += load,
            Some(&home) => {
                sums[home].away_load_ppm += load;
                sums[node].other_load_ppm += load;
            }
            None => sums[node].other_load_ppm += load,
        }
        match memory.first() {
            Some(_) if memory.contains(&node) => sums[node].local_pages += pages,
            Some(&home) => {
                sums[home].away_pages += pages;
                sums[node].other_pages += pages;
            }
            None => sums[node].other_pages += pages,
        }
    }
}
