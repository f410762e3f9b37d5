//! The state of placement between rounds, and how it changes.
//!
//! It may be saved and read again, also after a restart of the machine: it holds remaining times,
//! but no times of a clock.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::away_work::AwayWork;
use super::entity::EntityRound;
use super::feedback::{MoveFeedback, RebalanceFeedback};
use super::home::Home;
use super::mean_load::MeanLoad;
use super::node_table::NodeTable;
use super::plan::Verdict;
use super::reason::Reason;
use super::round::Round;
use super::rules::{ELAPSED_NS_MAX, Rules};
use super::segment_history::SegmentHistories;
use super::snapshot::{EntityId, Exclusion, Target};
use crate::damping::{Backoff, DOUBLINGS_MAX, Debounces};

/// The homes of all entities, and what holds them.
///
/// The order of the fields is that of the saved file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Homes {
    at_ns: Option<u64>,
    entities: BTreeMap<EntityId, EntityState>,
    /// Nodes that have more load at home than their limit.
    pub(super) busy: Debounces<NodeId>,
    /// Nodes that have more pages at home than they can have.
    pub(super) short: Debounces<NodeId>,
    /// Nodes whose memory controller delivers all that it can.
    pub(super) saturated: Debounces<NodeId>,
    /// Nodes for which memory is interleaved, and whose memory controller is enough again.
    pub(super) recovered: Debounces<NodeId>,
    pub(super) rebalance: RebalanceFeedback,
    pub(super) segments: SegmentHistories,
}

/// An entity between rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntityState {
    /// The home.
    pub(super) home: Home,
    /// The reason for the home.
    pub(super) why: Reason,
    load: MeanLoad,
    /// The load of the rounds in which it works, once there was one.
    working: Option<MeanLoad>,
    /// The time at work for which all threads have stayed away from a busy home.
    pub(super) away_work: AwayWork,
    /// The wait until the home may be moved again.
    pub(super) hold: Backoff,
    /// The wait until the memory may be interleaved again.
    pub(super) interleave: Backoff,
    pub(super) memory: MoveFeedback,
}

impl Homes {
    /// The home of an entity, if it has one.
    pub fn home(&self, entity: EntityId) -> Option<&Home> {
        self.state(entity).map(|state| &state.home)
    }

    /// Continues in place of a balancer that has ended with moves planned.
    pub fn resume(&mut self) {
        self.entities.values_mut().for_each(|state| state.memory.resume());
        self.segments.resume();
    }

    pub(super) fn state(&self, entity: EntityId) -> Option<&EntityState> {
        self.entities.get(&entity)
    }

    pub(super) fn state_mut(&mut self, entity: EntityId) -> Option<&mut EntityState> {
        self.entities.get_mut(&entity)
    }

    /// Lets time pass, and enters loads. Entities that are gone are forgotten. Returns the time
    /// that passed; 0 if the clock went back.
    pub(super) fn pass(&mut self, at_ns: u64, entities: &mut [EntityRound], rules: &Rules) -> u64 {
        let before_ns = self.at_ns.replace(at_ns).unwrap_or(at_ns);
        let elapsed_ns = at_ns.saturating_sub(before_ns).min(ELAPSED_NS_MAX);
        let mut states = BTreeMap::new();
        for entity in entities {
            entity.load_ppm = entity.wanted_ppm;
            entity.working_ppm = entity.wanted_ppm;
            let state = self.entities.remove(&entity.id());
            let is_elsewhere = entity.seen.exclusion == Some(Exclusion::KernelMoves);
            let Some(mut state) = state.filter(|_| !is_elsewhere) else { continue };
            state.pass(elapsed_ns, entity, rules);
            entity.load_ppm = state.load.ppm();
            let working_ppm = state.working.map_or(0, MeanLoad::ppm);
            entity.working_ppm = working_ppm.max(entity.load_ppm);
            entity.may_move = !state.hold.waits();
            states.insert(entity.id(), state);
        }
        self.entities = states;
        self.rebalance.pass(elapsed_ns, rules);
        elapsed_ns
    }

    /// Notes the homes that changed in a round.
    pub(super) fn note_changes(&mut self, round: &mut Round) {
        for (index, why) in std::mem::take(&mut round.changes) {
            let entity = &mut round.entities[index];
            // The first of two changes in a round is noted with the home that came of both.
            if !matches!(entity.decision.verdict, Verdict::Settles | Verdict::Moves) {
                self.note_change(entity, why, round.nodes);
            }
        }
    }

    /// Returns whether a state of a node is about to count, or counts and homes may move soon.
    pub(super) fn is_restless(&self, rules: &Rules) -> bool {
        let waits = self.entities.values().any(|state| state.hold.waits());
        [&self.busy, &self.short, &self.saturated, &self.recovered]
            .iter()
            .any(|nodes| nodes.is_any_early(rules.debounce_ns) || nodes.is_any_on() && waits)
    }

    fn note_change(&mut self, entity: &mut EntityRound, why: Reason, nodes: &NodeTable) {
        let Some(home) = entity.placement.as_ref().map(|it| it.home(nodes)) else { return };
        let id = entity.id();
        let is_first = !self.entities.contains_key(&id);
        let state = self
            .entities
            .entry(id)
            .or_insert_with(|| EntityState::new(home.clone(), why, entity.load_ppm));
        let moves = state.home != home;
        if moves {
            let is_displaced = entity.placement_of(&state.home, nodes).is_none();
            let is_displaced =
                is_displaced && why != Reason::BoundApart && entity.seen.target == Target::Anywhere;
            let was_apart = state.why == Reason::BoundApart;
            state.why = if is_displaced { Reason::Displaced } else { why };
            state.home = home;
            state.memory.home_changed();
            if was_apart && why != Reason::BoundApart {
                state.memory.hold(nodes.rules);
            }
        } else if state.why == Reason::BoundApart {
            state.why = why; // it may stay where it is for its size
        }
        if moves || is_first {
            state.hold.start(nodes.rules.home_hold_ns, DOUBLINGS_MAX);
        }
        if moves && why == Reason::Eased {
            state.interleave.start(nodes.rules.interleave_hold_ns(), DOUBLINGS_MAX);
        }
        entity.decision.verdict = match (is_first, moves) {
            (true, _) => Verdict::Settles,
            (false, true) => Verdict::Moves,
            (false, false) => Verdict::Stays,
        };
        entity.decision.reason = state.why;
    }
}

impl EntityState {
    /// An entity that has just got its home.
    fn new(home: Home, why: Reason, load_ppm: u64) -> Self {
        Self {
            home,
            why,
            load: MeanLoad::new(load_ppm),
            working: None,
            away_work: AwayWork::default(),
            hold: Backoff::default(),
            interleave: Backoff::default(),
            memory: MoveFeedback::default(),
        }
    }

    fn pass(&mut self, ns: u64, entity: &EntityRound, rules: &Rules) {
        self.load.take(entity.wanted_ppm);
        if entity.works {
            let working = self.working.get_or_insert(MeanLoad::new(entity.wanted_ppm));
            working.take(entity.wanted_ppm);
        }
        self.hold.pass(ns, rules.home_hold_ns);
        self.interleave.pass(ns, rules.interleave_hold_ns());
        self.memory.pass(ns, rules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an hour for which a machine was suspended counts as a minute, and a clock that went
    /// back as nothing.
    #[test]
    fn a_long_pause_is_a_minute() {
        let (mut homes, rules) = (Homes::default(), Rules::default());
        let times_ns = [0, 3_600_000_000_000, 1];
        let passed_ns = times_ns.map(|at_ns| homes.pass(at_ns, &mut [], &rules));
        assert_eq!(passed_ns, [0, 60_000_000_000, 0]);
    }
}
