//! Home nodes: which node each process belongs to, which of its threads go there, and which memory.
//!
//! After the home nodes of 2012 (sched/numa). Homes are few decisions that last; threads follow
//! them at once, because that is cheap, and memory where that pays. A home is moved only off a
//! node that has more than it may, to one that then still has less: so moving ends.

mod plan;
mod reason;
mod rules;
mod snapshot;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use plan::{Decision, Home, MemoryMove, NodeSum, Nudge, Numbers, Plan, Verdict};
pub use reason::Reason;
pub use rules::Rules;
pub use snapshot::{Bar, Entity, EntityId, NodeState, Reach, Snapshot, Thread};

/// What is remembered between rounds. It may be saved and read again: nothing in it is a time of
/// day, only times that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Homes {
    kept: BTreeMap<EntityId, Home>,
}

impl Homes {
    /// Decides about every entity of a snapshot. Entities that are no longer in it are forgotten.
    pub fn decide(&mut self, _snapshot: &Snapshot, _rules: &Rules) -> Plan {
        Plan::default()
    }

    /// The home of an entity, if it has one.
    pub fn home(&self, entity: EntityId) -> Option<&Home> {
        self.kept.get(&entity)
    }
}
