//! Home nodes: which node each process belongs to, which of its threads go there, and which memory.
//!
//! After the home nodes of 2012 (sched/numa). Homes are few decisions that last; threads follow
//! them at once, because that is cheap, and memory where that pays. Moving ends: under a load that
//! stays as it is each move of a home makes the busier of two nodes less busy, memory goes to its
//! home only, and what a load that never rests brings about waits twice as long each time.

mod books;
pub mod case;
mod even;
mod ground;
mod mean;
mod memory;
mod plan;
mod price;
mod reason;
mod relief;
mod round;
mod rules;
mod seat;
mod settle;
mod snapshot;
mod tell;
mod threads;
mod trial;
mod view;

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

pub use plan::{Decision, Home, MemoryMove, NodeSum, Nudge, Numbers, Plan, Verdict};
pub use reason::Reason;
pub use rules::Rules;
pub use snapshot::{Bar, Entity, EntityId, NodeState, Reach, Snapshot, Thread, wanted_ppm};

use ground::Ground;
use price::Prices;
use relief::Relief;
use round::Round;
use seat::Kept;
use view::View;

use crate::damping::Debounces;

/// No more time than this passes between two rounds, whatever the clock says.
const ELAPSED_NS_MAX: u64 = 60_000_000_000;

/// What is remembered between rounds. It may be saved and read again, also after a restart of the
/// machine: there is no time of day in it, only times that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Homes {
    at_ns: Option<u64>,
    kept: BTreeMap<EntityId, Kept>,
    busy: Debounces<NodeId>,
    short: Debounces<NodeId>,
    choked: Debounces<NodeId>,
    eased: Debounces<NodeId>,
    relief: Relief,
}

impl Homes {
    /// Decides about every entity of a snapshot. Entities that are no longer in it are forgotten.
    pub fn decide(&mut self, snapshot: &Snapshot, rules: &Rules) -> Plan {
        let ground = Ground::new(snapshot);
        let mut entities: Vec<&Entity> = snapshot.entities.iter().collect();
        entities.sort_by_key(|entity| entity.id);
        entities.dedup_by_key(|entity| entity.id);
        let view = |entity| View::new(entity, &ground, rules);
        let views: Vec<View> = entities.into_iter().map(view).collect();
        let elapsed_ns = self.pass(snapshot.at_ns, &views, rules);
        let load = |view: &View| self.kept.get(&view.id()).map_or(view.load_ppm, |k| k.load.ppm());
        let loads: Vec<u64> = views.iter().map(load).collect();
        let prices = Prices { ground: &ground, rules };
        Round::new(prices, &views, &loads, elapsed_ns).decide(self)
    }

    /// The home of an entity, if it has one.
    pub fn home(&self, entity: EntityId) -> Option<&Home> {
        self.kept.get(&entity).map(|kept| &kept.home)
    }

    /// Goes on in place of another balancer, which ended with moves that it had planned.
    pub fn resume(&mut self) {
        self.kept.values_mut().for_each(|kept| kept.memory.resume());
    }

    /// Time passes, and loads are what they are. A clock that went back tells nothing.
    fn pass(&mut self, at_ns: u64, views: &[View], rules: &Rules) -> u64 {
        let before = self.at_ns.replace(at_ns).unwrap_or(at_ns);
        let elapsed_ns = at_ns.saturating_sub(before).min(ELAPSED_NS_MAX);
        let mut kept = BTreeMap::new();
        for view in views {
            let Some(mut one) = self.kept.remove(&view.id()) else { continue };
            one.load.take(view.load_ppm);
            one.moves.pass(elapsed_ns, rules.home_wait_ns);
            one.opens.pass(elapsed_ns, rules.open_wait_ns());
            one.memory.pass(elapsed_ns, rules);
            kept.insert(view.id(), one);
        }
        self.kept = kept;
        self.relief.pass(elapsed_ns, rules);
        elapsed_ns
    }

    /// Whether a node has more than it may, and homes may yet be moved off it.
    fn is_restless(&self, rules: &Rules) -> bool {
        let waits = self.kept.values().any(|kept| kept.moves.waits());
        [&self.busy, &self.short, &self.choked, &self.eased]
            .iter()
            .any(|nodes| nodes.is_any_early(rules.patience_ns) || nodes.is_any_on() && waits)
    }
}
