//! Work away from home: for how long an entity has worked on a node to which its home did not send
//! it.

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::damping::Timer;

/// For how long an entity has worked on another node than its home in a row. Only rounds of which
/// it worked all the time count: its threads wait for nobody in others, and go home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AwayWork {
    node: Option<NodeId>,
    since: Timer,
}

impl AwayWork {
    /// Enters a round in which it worked on `node`, because its home was busy, or else elsewhere.
    pub(super) fn observe(&mut self, ns: u64, node: Option<NodeId>) {
        self.since.pass(ns);
        if self.node != node {
            *self = Self { node, since: Timer::started() };
        }
    }

    /// The node, once this has lasted.
    pub(super) fn lasting(self, rules: &Rules) -> Option<NodeId> {
        self.node.filter(|_| self.since.has_run(rules.debounce_ns))
    }
}
