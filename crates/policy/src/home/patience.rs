//! For how long nodes have been in a state that homes are moved for. What changes sides every few
//! seconds never lasts long enough.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::ground::{Ground, Place};

/// How long each node has been so, in nanoseconds. A node that is not so is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Patience {
    since: BTreeMap<NodeId, u64>,
}

impl Patience {
    /// Time passes in which nodes are so or not. Returns those that were so for long enough.
    pub(super) fn pass(
        &mut self,
        ns: u64,
        ground: &Ground,
        enough_ns: u64,
        is_so: impl Fn(Place) -> bool,
    ) -> Vec<Place> {
        let mut since = BTreeMap::new();
        for place in ground.places().filter(|&place| is_so(place)) {
            let id = ground.id(place);
            let before = self.since.get(&id).map(|before| before.saturating_add(ns));
            since.insert(id, before.unwrap_or(0));
        }
        self.since = since;
        let long =
            |place: &Place| self.since.get(&ground.id(*place)).is_some_and(|&ns| ns >= enough_ns);
        ground.places().filter(long).collect()
    }

    /// Whether any node is so.
    pub(super) fn is_running(&self) -> bool {
        !self.since.is_empty()
    }

    /// Whether any node is so, and not for long enough yet.
    pub(super) fn is_waiting(&self, enough_ns: u64) -> bool {
        self.since.values().any(|&ns| ns < enough_ns)
    }
}
