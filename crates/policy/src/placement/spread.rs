//! Stage 2, continued: an entity that is larger than a node, or fits no node beside the others, is
//! spread over the fewest nodes that have time and memory for it.

use std::cmp::Reverse;

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::NodeIndex;
use super::round::Round;
use super::rules::CPU_PPM;

/// Returns whether no candidate has so many CPUs or so much memory.
pub(super) fn is_larger_than_any(round: &Round, entity: &EntityRound) -> bool {
    let cpus = |node: NodeIndex| round.rules.with_hysteresis(round.nodes.cpus_ppm(node));
    let lacks_cpus = |&node: &NodeIndex| entity.working_ppm > cpus(node);
    let lacks_memory = |&node: &NodeIndex| entity.pages_all() > round.usage.page_capacity(node);
    let candidates = || entity.candidates.iter();
    entity.is_parallel && candidates().all(lacks_cpus) || candidates().all(lacks_memory)
}

/// Returns whether its threads would wait for each other, or others for them, on the best node that
/// there is, while CPUs elsewhere have time.
pub(super) fn would_crowd(round: &Round, entity: &EntityRound, node: NodeIndex) -> bool {
    let busy = CPU_PPM.max(round.usage.level_ppm());
    entity.is_parallel
        && !round.usage.has_cpus_for(entity, node)
        && round.usage.per_cpu_with(entity, node) > round.rules.with_hysteresis(busy)
}

/// As few nodes as have time and memory for it; of equally many those where its memory is.
pub(super) fn fewest_nodes(round: &Round, entity: &EntityRound) -> HomePlacement {
    let memory = |node| round.nodes.memory_node(node).unwrap_or(node);
    let there = |node: NodeIndex| Reverse(entity.pages[memory(node)]);
    let size = |node: NodeIndex| Reverse((round.usage.idle(node), round.usage.page_capacity(node)));
    let near = collect(round, entity, |far, node| (there(node), far, size(node)));
    let large = collect(round, entity, |far, node| (size(node), far, there(node)));
    let fewest = if large.len() < near.len() { large } else { near };
    match fewest[..] {
        [node] => HomePlacement::Node(node),
        _ => HomePlacement::Spread(fewest),
    }
}

/// Candidates by a key, the least first, until they have time and memory enough. The key is told
/// how far a node is from the first.
fn collect<Key: Ord>(
    round: &Round,
    entity: &EntityRound,
    key: impl Fn(u64, NodeIndex) -> Key,
) -> Vec<NodeIndex> {
    let (mut chosen, mut rest) = (Vec::new(), entity.candidates.clone());
    while !rest.is_empty() && !are_enough(round, entity, &chosen) {
        let far = |node| chosen.first().map_or(0, |&first| round.nodes.distance(first, node));
        let next = (0..rest.len()).min_by_key(|&at| (key(far(rest[at]), rest[at]), rest[at]));
        chosen.push(rest.swap_remove(next.unwrap_or(0)));
    }
    chosen.sort_unstable();
    chosen
}

fn are_enough(round: &Round, entity: &EntityRound, chosen: &[NodeIndex]) -> bool {
    let time: u64 = chosen.iter().map(|&node| round.usage.idle(node)).sum();
    let memory = round.usage.page_capacity_of_all(chosen);
    !chosen.is_empty() && time >= entity.working_ppm && memory >= entity.pages_all()
}
