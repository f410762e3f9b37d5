//! Stage 1: keeps homes that are still valid.
//!
//! A home is no longer valid if its node is gone or forbidden; or, once its hold is over, if the
//! entity has outgrown the node, if a spread entity fits one node, or if threads that were bound to
//! different nodes have one in common now.

use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::round::Round;
use super::rules::{CPU_PPM, SMALL_PART};
use super::snapshot::Target;
use super::state::{EntityState, Homes};

/// Keeps homes. Returns the entities without a home. Homes on one node are kept before homes on
/// several nodes, which take the capacity that is left.
pub(super) fn keep_homes(round: &mut Round, homes: &Homes) -> Vec<usize> {
    let mut unplaced = Vec::new();
    let mut spread = Vec::new();
    for index in 0..round.entities.len() {
        let entity = &round.entities[index];
        if entity.seen.target.is_with_groups() {
            continue; // `with_groups`
        }
        let state = homes.state(entity.id());
        let is_old = state.is_some() || entity.seen.target != Target::Anywhere;
        if !may_have_home(entity, is_old, round.rules.run_ns_min) {
            continue;
        }
        match state.and_then(|state| Some((kept(round, entity, state)?, state.why))) {
            None if entity.candidates.is_empty() && entity.apart.is_empty() => {}
            None => unplaced.push(index),
            Some((placement @ HomePlacement::Spread(_), why)) => {
                spread.push((index, placement, why));
            }
            Some((placement, why)) => round.stay(index, placement, why),
        }
    }
    for (index, placement, why) in spread {
        // Threads that are bound apart may only rest for a moment.
        let may_gather = why != Reason::BoundApart;
        match may_gather && fits_one_node(round, &round.entities[index], &placement) {
            true => unplaced.push(index),
            false => round.stay(index, placement, why),
        }
    }
    unplaced
}

/// Returns whether an entity may have a home. An affinity that has become too narrow takes no home
/// away.
pub(super) fn is_eligible(entity: &EntityRound, has_home: bool) -> bool {
    match entity.refusal {
        None => true,
        Some(reason) => reason == Reason::NarrowAffinity && has_home,
    }
}

fn may_have_home(entity: &EntityRound, has_home: bool, run_ns_min: u64) -> bool {
    is_eligible(entity, has_home) && (has_home || entity.seen.run_ns >= run_ns_min)
}

/// Returns the placement of a home if it is still valid.
fn kept(round: &Round, entity: &EntityRound, state: &EntityState) -> Option<HomePlacement> {
    let placement = entity.placement_of(&state.home, round.nodes)?;
    let is_unfit = match &placement {
        HomePlacement::Node(node) => {
            let cpus = round.nodes.cpus_ppm(*node);
            entity.is_parallel && entity.working_ppm > round.rules.with_hysteresis_twice(cpus)
        }
        HomePlacement::Spread(nodes) => {
            let fits_each = || nodes.iter().all(|&node| would_fit(round, entity, node));
            entity.apart.is_empty() && (state.why == Reason::BoundApart || fits_each())
        }
        HomePlacement::Interleave { .. } => false,
    };
    // It may have rested when it got its first node; and to spread moves no memory by itself.
    let is_first_node = matches!(placement, HomePlacement::Node(_)) && state.hold.is_first();
    let is_held = state.hold.waits() && !is_first_node;
    (is_held || !is_unfit).then_some(placement)
}

/// Returns whether a spread entity would fit one node, with its margins.
fn would_fit(round: &Round, entity: &EntityRound, node: NodeIndex) -> bool {
    let rules = round.rules;
    let is_one_cpu = !entity.is_parallel && entity.working_ppm <= rules.with_hysteresis(CPU_PPM);
    let load = rules.with_hysteresis_twice(entity.working_ppm);
    let pages = rules.with_hysteresis_twice(entity.pages_all());
    let has_cpus = is_one_cpu || load <= round.nodes.cpus_ppm(node);
    has_cpus && pages < round.usage.page_capacity(node)
}

/// Returns whether a spread entity fits the one of its nodes that has nearly all its memory. Then
/// only threads move, so it need not wait for its hold; its next spread must wait the longer.
fn fits_one_node(round: &Round, entity: &EntityRound, placement: &HomePlacement) -> bool {
    let all = entity.pages_all();
    let may_go = |node: &&NodeIndex| entity.candidates.contains(node);
    placement.thread_nodes().iter().filter(may_go).any(|&node| {
        let there = round.nodes.memory_node(node).map_or(0, |memory| entity.pages[memory]);
        let is_there = all > 0 && all - there <= there / SMALL_PART;
        // Several threads may each want little while they begin to work, or rest.
        is_there
            && entity.works
            && !entity.is_parallel
            && entity.wanted_ppm <= round.usage.idle(node)
    })
}
