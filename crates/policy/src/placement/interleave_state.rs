//! What interleaving remembers between rounds: the state of memory controllers, and when the memory
//! of an entity may be interleaved again.

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::reason::Reason;
use super::rules::Rules;
use crate::damping::{Backoff, DOUBLINGS_MAX, Debounces};

/// Memory that came home is interleaved again after so many holds of a home at least: the traffic
/// may have gone because memory elsewhere is slower.
const HOLDS: u64 = 16;

/// Which nodes have been saturated, or have recovered, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Controllers {
    pub(super) saturated: Debounces<NodeId>,
    pub(super) recovered: Debounces<NodeId>,
}

impl Controllers {
    /// The states, for the question whether a round may be the last for a while.
    pub(super) fn states(&self) -> [&Debounces<NodeId>; 2] {
        [&self.saturated, &self.recovered]
    }
}

/// When the memory of an entity may be interleaved again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct InterleaveHold(Backoff);

impl InterleaveHold {
    /// Whether it must wait still.
    pub(super) fn waits(&self) -> bool {
        self.0.waits()
    }

    /// Time passes.
    pub(super) fn pass(&mut self, ns: u64, rules: &Rules) {
        self.0.pass(ns, hold_ns(rules));
    }

    /// The home has changed.
    pub(super) fn home_changed(&mut self, why: Reason, rules: &Rules) {
        if why == Reason::Eased {
            self.0.start(hold_ns(rules), DOUBLINGS_MAX);
        }
    }
}

fn hold_ns(rules: &Rules) -> u64 {
    rules.home_hold_ns.saturating_mul(HOLDS)
}
